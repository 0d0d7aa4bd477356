#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# Slurm's Prolog, Epilog and TaskProlog in one script: before the tasks of a job start, each of its nodes has the
# checkpoints of its partition in memory, and the tasks have a variable with the path of each.
# 'ckpt broadcast --print-slurm-prolog' prints it. It goes by SLURM_SCRIPT_CONTEXT, as
# Slurm 22.05 sets it.
#
# INSTALL it on every node as /etc/slurm/ckpt-stage.sh, mode 755, and add to slurm.conf:
#
#   Prolog=/etc/slurm/ckpt-stage.sh
#   Epilog=/etc/slurm/ckpt-stage.sh
#   TaskProlog=/etc/slurm/ckpt-stage.sh
#   PrologFlags=Alloc          # at once on all nodes of the job; without it a node's Prolog waits for its first task
#   PrologEpilogTimeout=1800   # more than 'limit' below for each line of a list, or nothing: no limit
#   BatchStartTimeout=1800     # the same; the default, 10 s, is for Prologs that do little
#
# Each line of /etc/ckpt/stage/PARTITION is a variable and a checkpoint, a file or a directory, as in
# 'LLAMA /nfs/llama/step900.pt'. A partition without such a file stages nothing. /etc/ckpt/token is one secret of 16
# bytes or more, the same on all nodes, that only root may read. The first node of a job listens at port 21000 + job
# number modulo 8000, or at CKPT_RDZV_PORT: the nodes have to reach it there, and each other at ports that the system
# chooses. Copies belong to root and have the modes of what was copied: what a job may not read there, it may not read here.
#
# WHAT A JOB LOADS: $LLAMA is the copy, /dev/shm/ckpt/LLAMA-step900.pt, or the shared file where it could not be staged.
#
#   srun python train.py       # of train.py:
#       state = torch.load(os.environ["LLAMA"], mmap=True, weights_only=True)   # all ranks of a node share its memory
#       state = ckpt.torch.load(os.environ["LLAMA"])                            # or this: safe, from any version of torch
#
# TIME-OUTS: nodes wait 'init' seconds for each other, and give up after 'silence' seconds without a byte. Whatever
# hangs is ended after 'limit' seconds; the other nodes then end, too. Each checkpoint has these limits for itself.
#
# WHEN IT FAILS the reason is in the system's log (journalctl -t ckpt-stage), and all nodes of the job have the same
# outcome. 'on_failure' says what follows:
#   start   the job starts anyway, and reads the shared file, as it would without ckpt
#   drain   Slurm drains the nodes and puts the job back into the queue, held unless SchedulerParameters has
#           nohold_on_prolog_fail; 'scontrol update NodeName=NODE State=RESUME' brings the nodes back
# Nothing is left half-written: a copy has its name only when all nodes have all of it.
#
# AFTERWARDS a copy stays for the next job, which finds it in a moment: nothing is read where all nodes have it. Before a job
# and at its end, copies that nobody has used for 'keep' go, and as many more, oldest first, as it takes until 'free' is free,
# but none of the last hour: a job that has just got one has not opened it yet. What a process has open stays.

# ---- settings ----

export PATH=/usr/local/bin:/usr/bin:/bin # slurmd gives a Prolog none
conf=/etc/ckpt                       # where the lists and the token are
folder=/dev/shm/ckpt                 # where copies go
state=/run/ckpt-stage                # what the Prolog tells the TaskProlog
on_failure=start                     # or drain
init=60 silence=60 limit=800         # seconds
keep=3d free=64G                     # of copies; of memory

# ---- the tasks of a job, as its user: what is printed here sets their variables ----

exports=$state/job.${SLURM_JOB_ID:?this is for slurmd to run}
if [ "${SLURM_SCRIPT_CONTEXT-}" = prolog_task ]; then
	[ ! -r "$exports" ] || cat "$exports"
	exit 0
fi

# ---- the end of a job, as root; 'exit 0' whatever --evict says, or Slurm drains the node ----

evict() {
	[ -d "$folder" ] || return 0
	message=$(ckpt broadcast --evict -q --older-than "$keep" "$folder" 2>&1 >/dev/null &&
		ckpt broadcast --evict -q --older-than 1h --keep-free "$free" "$folder" 2>&1 >/dev/null)
	[ -z "$message" ] || logger -t ckpt-stage "job $SLURM_JOB_ID: $message"
}

if [ "${SLURM_SCRIPT_CONTEXT-}" = epilog_slurmd ]; then
	rm -f "$exports"
	evict
	exit 0
fi

# ---- before a job, as root, on all of its nodes at once ----

list=$conf/stage/${SLURM_JOB_PARTITION-}
[ -f "$list" ] && [ -r "$list" ] || exit 0
umask 022
if ! mkdir -p "$state" || ! true >"$exports"; then # not ":", whose failure would end the shell
	logger -t ckpt-stage "job $SLURM_JOB_ID: cannot write to $state, so nothing is staged"
	[ "$on_failure" != drain ]
	exit
fi
evict
failed=
while read -r name source || [ -n "$name" ]; do # the last line may have no end
	case $name in '' | '#'*) continue ;; esac
	# --best-effort lets --export name the shared file where this fails
	message=$(timeout -k 30 "$limit" ckpt broadcast -q --best-effort --export "$name" --mkdir --rdzv env \
		--token-file "$conf/token" --init-timeout "$init" --timeout "$silence" "$source" "$folder/$name-%b" \
		2>&1 >>"$exports" </dev/null)
	[ -z "$message" ] || logger -t ckpt-stage "job $SLURM_JOB_ID: $message"
	case $(tail -n 1 "$exports") in # one node has the reason, but all nodes see whether they have a copy
		"export $name=$folder/"*) ;;
		"export $name="*) failed=1 ;;
		*) failed=1; echo "export $name=$source" >>"$exports" ;; # it was ended
	esac
done <"$list"
[ -z "$failed" ] || [ "$on_failure" != drain ] || { rm -f "$exports"; exit 1; }
exit 0

#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# A Prolog of Slurm: before a job's tasks start, each of its nodes has the checkpoints of its partition in memory.
# slurmd runs it as root on all nodes of the job at once. In slurm.conf:
#
#   Prolog=/etc/slurm/ckpt-prolog.sh
#   PrologFlags=Alloc
#
# /etc/ckpt/stage/PARTITION has one checkpoint in each line; a partition without such a file stages nothing. /etc/ckpt/token
# is the same on all nodes and only root's to read. The ranks and their meeting place follow from the job:
# the first node listens at port 21000 + job number modulo 8000, or at CKPT_RDZV_PORT, which has to be open between nodes.
#
# If it fails, the reason is in the system's log, and the job starts all the same: it reads the shared file. Without
# --best-effort, and with 'exit 1' in the place of 'exit 0', Slurm drains the node and puts the job back into the queue.
# A copy stays for the next job, which finds it in a moment, until something removes it.
list=/etc/ckpt/stage/${SLURM_JOB_PARTITION:?is for a Prolog of Slurm}
[ -r "$list" ] || exit 0
while read -r source; do
	ckpt broadcast -q --best-effort --mkdir --rdzv env --token-file /etc/ckpt/token --init-timeout 60 --timeout 60 \
		"$source" /dev/shm/ckpt/ 2>&1 </dev/null | logger -t ckpt-prolog
done <"$list"
exit 0

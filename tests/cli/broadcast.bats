# SPDX-License-Identifier: Apache-2.0
# ckpt broadcast with one rank: destinations, messages, exit codes. More ranks: tests/broadcast/.

load common.bash

@test "a file lands with the same bytes, and is not read again" {
	ckpt broadcast ddp_model.pt out.pt
	[ "$status" = 0 ]
	[[ $stderr =~ ^"ckpt: "[0-9.]+K" copied to 1 rank in "[0-9.]+" s, "[0-9.]+[KMG]?"/s, crc32 "[0-9a-f]{8}$ ]]
	[ "${stderr##* }" = "$(python3 -c 'import sys, zlib; print("%08x" % zlib.crc32(open("out.pt", "rb").read()))')" ]
	cmp ddp_model.pt out.pt
	ckpt broadcast ddp_model.pt out.pt
	[[ $status = 0 && $stderr = "ckpt: "*"K, there already on 1 rank: out.pt" ]]
	want_files out.pt .out.pt.ckpt-staged
	rm .out.pt.ckpt-staged # as help says
	ckpt broadcast ddp_model.pt out.pt
	[[ $status = 0 && $stderr = "ckpt: "*" to 1 rank in "* ]]
	"$CKPT" broadcast --help | grep -q '^\.NAME\.ckpt-staged beside a file'
	mkdir found && mv out.pt .out.pt.ckpt-staged found
	ckpt info found
	[[ $status = 0 && ${lines[0]} = "found/out.pt: "* && ${lines[1]} = "1 input: 1 read; "* ]]
	mv found/out.pt found/.out.pt.ckpt-staged . && rmdir found
}

@test "a copy that can have no note says so" {
	local name
	name=$(printf '%0246d' 0) # and .NAME.ckpt-staged has more than 255 bytes
	ckpt broadcast ddp_model.pt "$name"
	[ "$status" = 0 ]
	[[ $stderr = "ckpt: note: rank 0 ("*"): the next broadcast copies anew, and --evict does not find this copy: no note can be beside it: "*"File name too long"* ]]
	cmp ddp_model.pt "$name"
	ckpt broadcast -q ddp_model.pt "$name"
	[[ $status = 0 && ! $stderr ]]
}

@test "a folder as destination gets the source's name in it" {
	mkdir d
	ckpt broadcast -q ddp_model.pt d
	want 0
	cmp ddp_model.pt d/ddp_model.pt
	ckpt broadcast -q ddp_model.pt ddp_trainer.pt d
	want 0
	cmp ddp_trainer.pt d/ddp_trainer.pt
	ckpt broadcast ddp_model.pt nodir/
	want 4 "ckpt: broadcast: nodir/ddp_model.pt: cannot create a file in 'nodir': No such file or directory; --mkdir makes missing folders"
}

@test "a directory arrives as a whole, and only one that was staged is replaced" {
	mkdir -p tree/sub/deep
	cp ddp_model.pt tree/sub/deep/a
	: >tree/empty
	echo index >tree/.metadata
	ckpt broadcast -q tree out
	want 0
	diff -r -x .ckpt-staged tree out
	for slashes in tree/ tree//// ./tree/; do # as completion types it
		ckpt broadcast -q $slashes with
		want 0
		diff -r -x .ckpt-staged tree with
		rm -r with
	done
	echo more >tree/sub/b
	ckpt broadcast -q tree out
	want 0
	diff -r -x .ckpt-staged tree out
	mkdir -p mine/tree && echo keep >mine/tree/me
	ckpt broadcast tree mine
	want 4 "ckpt: broadcast: mine/tree: the output is a folder with 'me' in it, and one is replaced only if it holds such a set and nothing else"
	[ "$(cat mine/tree/me)" = keep ]
	mkdir mine/empty
	ckpt broadcast -q tree mine/empty
	want 0
	diff -r tree mine/empty/tree -x .ckpt-staged
}

@test "who may not read the source may not read the copy" {
	mkdir -p tree/locked && cp ddp_model.pt tree/a && echo b >tree/locked/b
	chmod 0644 tree/a tree/locked/b
	chmod 0750 tree; chmod 0700 tree/locked
	ckpt broadcast -q tree out; want 0
	[ "$(stat -c '%a %n' out out/a out/locked/b)" = $'750 out\n640 out/a\n600 out/locked/b' ]
	[ "$(stat -c %a out/locked)" = 700 ]
	chmod 0755 tree tree/locked
	ckpt broadcast -q tree free; want 0
	[ "$(stat -c '%a %n' free free/a free/locked/b)" = $'755 free\n644 free/a\n644 free/locked/b' ]
	[ "$(stat -c %a free/locked)" = 755 ]
	chmod 0600 tree/locked/b; echo c >tree/locked/c
	ckpt broadcast -q tree mixed; want 0
	[ "$(stat -c '%a %n' mixed/locked mixed/locked/b)" = $'755 mixed/locked\n600 mixed/locked/b' ]
	[ -z "$(find mixed -name '*.ckpt-mode')" ]
}

@test "who may not read the source any more may not read the copy that is there" {
	cp ddp_model.pt model.pt && mkdir -p tree/sub && cp ddp_model.pt tree/a && cp ddp_model.pt tree/sub/b
	chmod 0644 model.pt tree/a tree/sub/b; chmod 0755 tree tree/sub
	ckpt broadcast -q model.pt out.pt; want 0; ckpt broadcast -q tree out; want 0
	chmod 0700 tree/sub
	ckpt broadcast tree out; [[ $status = 0 && $stderr = *"there already"* ]]
	[ "$(stat -c '%a %n' out/a out/sub/b)" = $'644 out/a\n600 out/sub/b' ]
	chmod 0600 model.pt tree/a
	ckpt broadcast -q model.pt out.pt; want 0; ckpt broadcast -q tree out; want 0
	[ "$(stat -c '%a %n' out.pt out out/a out/sub/b)" = $'600 out.pt\n755 out\n600 out/a\n600 out/sub/b' ]
	chmod 0700 tree
	ckpt broadcast tree out; [[ $status = 0 && $stderr = *"there already"* ]]
	[ "$(stat -c '%a' out)" = 700 ]
	[ "$(id -u)" != 0 ] && return
	chgrp 12345 model.pt; chmod 0604 model.pt # its group may not, and another one's members are everybody there
	ckpt broadcast -q model.pt new.pt; want 0
	[ "$(stat -c %a new.pt)" = 600 ]
	chmod 0664 model.pt
	ckpt convert -q model.pt other.pt; want 0
	[ "$(stat -c %a other.pt)" = 644 ]
}

@test "a source that was written to is copied anew, also if its mtime was put back" {
	cp ddp_model.pt model.pt; touch -d 2026-01-01 model.pt
	ckpt broadcast -q model.pt out.pt; want 0
	ckpt broadcast model.pt out.pt; [[ $status = 0 && $stderr = *"there already"* ]]
	printf x | dd of=model.pt bs=1 seek=100 conv=notrunc status=none; touch -d 2026-01-01 model.pt
	ckpt broadcast -q model.pt out.pt; want 0
	cmp model.pt out.pt
	chmod 0600 model.pt; ckpt broadcast -q model.pt out.pt; want 0
	chmod 0644 model.pt; ckpt broadcast -q model.pt out.pt; want 0
	[ "$(stat -c %a out.pt)" = 600 ] # no wider than what it replaces
	rm out.pt; ckpt broadcast -q model.pt out.pt; want 0
	[ "$(stat -c %a out.pt)" = 644 ]
}

@test "a link to a folder is left out, and what it leads to is not" {
	mkdir -p tree/step100 tree/step200 far && cp ddp_model.pt tree/step100/m && cp ddp_model.pt tree/step200/m && cp ddp_model.pt far/n
	ln -s step100 tree/latest; ln -s step200 tree/a-first; ln -s ../far tree/away; ln -s ../far/n tree/file; ln -s tree link
	for source in tree tree/ link link/; do
		ckpt broadcast "$source" out; want 0 "$stderr"
		[[ $stderr = "ckpt: note: left out, as links to folders are: '"*"' and others"$'\n'* ]]
		ckpt broadcast -q "$source" out; [[ $status = 0 && $stderr = "ckpt: note: left out, as links to folders are: '"*"' and others" ]]
		[ "$(cd out && find . -type f ! -name .ckpt-staged | LC_ALL=C sort | tr '\n' ' ')" = "./file ./step100/m ./step200/m " ]
		rm -r out
	done
	rm tree/latest tree/a-first
	ckpt broadcast tree out; [[ $status = 0 && $stderr = "ckpt: note: left out, as links to folders are: 'away'"$'\n'* ]]
	ln -s nowhere tree/broken
	ckpt broadcast tree other; want 3 "ckpt: broadcast: tree/broken: is a link, and what it leads to cannot be looked at: No such file or directory"
}

@test "none of several sources is its own destination" {
	mkdir d e; cp ddp_model.pt d/a; cp ddp_trainer.pt e/b; ln d/a d/other; before=$(stat -c '%i %Y %a %h' d/a)
	for to in d d/ ./d/.; do
		ckpt broadcast d/a e/b $to
		[[ $status = 4 && $stderr = "ckpt: broadcast: "*"d/"*"a: is the source itself, wanted another destination" ]]
		ckpt broadcast e/b d/a $to; [ "$status" = 4 ]
	done
	[ "$before" = "$(stat -c '%i %Y %a %h' d/a)" ]
	[ "$(ls -A d | tr '\n' ' ')" = "a other " ]
	cp d/a e/a; ckpt broadcast -q d/a e/b e; [ "$status" = 4 ]
	rm e/a; cp e/b e/c; mkdir f; ckpt broadcast -q d/a e/b f; want 0
	cmp f/a d/a; cmp f/b e/b
}

@test "what came into a staged directory is never deleted with it" {
	mkdir tree && cp ddp_model.pt tree/a && echo b >tree/b
	ckpt broadcast -q tree out
	want 0
	mkdir out/logs && echo run >out/logs/run.txt
	echo more >>tree/b
	ckpt broadcast tree out
	want 4 "ckpt: broadcast: out: the output is a folder with 'logs/run.txt' in it, and one is replaced only if it holds such a set and nothing else"
	[ "$(cat out/logs/run.txt)" = run ]
	[ "$(cat out/b)" = b ]
	rm -r out/logs
	rm tree/a # what was staged and is no more goes away
	ckpt broadcast -q tree out
	want 0
	diff -r -x .ckpt-staged tree out
}

@test "a note that names somebody's file does not make it the copy's" {
	mkdir tree mine && cp ddp_model.pt tree/a && echo user >mine/readme
	printf 'staged by ckpt broadcast 2\n5 1 1.0 1.0 -> 2 2.0 readme\ncrc32 00000000\n' >mine/.ckpt-staged
	ckpt broadcast tree $PWD/mine
	want 4 "ckpt: broadcast: $PWD/mine: the output is a folder with 'readme' in it, and one is replaced only if it holds such a set and nothing else"
	[ "$(cat mine/readme)" = user ]
	echo b >tree/b; ckpt broadcast -q tree out; want 0
	rm tree/b; echo more >>tree/a; echo edited >out/b
	ckpt broadcast tree out; [ "$status" = 4 ]
	[ "$(cat out/b)" = edited ]
}

@test "a directory that was staged and lost its note's words is known by the names it has to have" {
	mkdir tree && cp ddp_model.pt tree/a
	ckpt broadcast -q tree out
	want 0
	: >out/.ckpt-staged
	ckpt broadcast -q tree out
	want 0
	grep -q ' a$' out/.ckpt-staged
}

@test "a destination is filled in" {
	USER=me ckpt broadcast -q --job-key job9 ddp_model.pt '%u-%j-%r-%l-%b-%%'
	want 0
	cmp ddp_model.pt me-job9-0-0-ddp_model.pt-%
	ckpt broadcast ddp_model.pt 'x%q'
	want 4 "ckpt: broadcast: '%q' in the destination, wanted one of %h %n %r %l %j %u %b %%"
	ckpt broadcast ddp_model.pt 'x%'
	want 4 "ckpt: broadcast: '%' at the end of the destination, wanted '%%'"
	SLURM_STEP_NUM_TASKS=1 SLURM_PROCID=0 SLURM_NODEID=7 ckpt broadcast -q ddp_model.pt 'node%n.pt'
	want 0
	cmp ddp_model.pt node7.pt
	ckpt broadcast ddp_model.pt 'node%n.pt'
	want 4 "ckpt: broadcast: %n in the destination, but no launcher says the node's number: torchrun and srun do"
	ckpt broadcast ddp_model.pt '%j.pt'
	want 4 "ckpt: broadcast: %j in the destination, but no launcher says the job's name; --job-key says it"
}

@test "no two of many sources may have one name, wherever they stand" {
	mkdir a b c out
	cp ddp_model.pt a/m.pt; cp ddp_trainer.pt b/o.pt; cp ddp_trainer.pt c/m.pt
	for order in 'a/m.pt b/o.pt c/m.pt' 'a/m.pt c/m.pt b/o.pt' 'b/o.pt a/m.pt c/m.pt'; do
		ckpt broadcast --transport self $order out; [ "$status" != 0 ]
		[[ $stderr = *"two sources have the name 'm.pt'"* ]]; [ ! -e out/m.pt ]
	done
	ckpt broadcast --transport self a/m.pt b/o.pt out; [ "$status" = 0 ]
	cmp a/m.pt out/m.pt; cmp b/o.pt out/o.pt
}

@test "what is wrong has its exit code, and nothing is left" {
	ckpt broadcast missing.pt out.pt
	want 3 "ckpt: broadcast: missing.pt: cannot open: No such file or directory"
	ckpt broadcast ddp_model.pt ddp_model.pt
	want 4 "ckpt: broadcast: ddp_model.pt: is the source itself, wanted another destination"
	echo other >out.pt
	ckpt broadcast --if-exists error ddp_model.pt out.pt
	want 4 "ckpt: broadcast: out.pt: the output exists already"
	[ "$(cat out.pt)" = other ]
	rm out.pt
	ckpt broadcast --transport carrier-pigeon ddp_model.pt out.pt
	want 64 "ckpt: broadcast: there is no transport 'carrier-pigeon', wanted nccl, mpi, ucx, tcp or self"
	ckpt broadcast --launcher lsf ddp_model.pt out.pt
	[[ $status = 64 && $stderr = "ckpt: broadcast: there is no launcher 'lsf', wanted one of "* ]]
	WORLD_SIZE=2 RANK=5 ckpt broadcast ddp_model.pt out.pt
	want 6 "ckpt: broadcast: rank 5 of 2 processes, by env; ranks count from 0"
	for wrong in "--readers 0" "--chunk 7x" "--depth no" "--target gold" "--if-exists maybe" "--verify much" "--timeout -1" "--init-timeout 0"; do
		ckpt broadcast $wrong ddp_model.pt out.pt
		[[ $status = 64 && $stderr = "ckpt: broadcast: ${wrong% *} ${wrong#* }: wanted "* ]]
	done
	want_files
	input_is_untouched
}

@test "what was written is read again" {
	ckpt broadcast --verify reread ddp_model.pt out.pt
	[[ $status = 0 && $stderr = *"crc32 "* ]]
	cmp ddp_model.pt out.pt
	mkdir -p tree/sub && cp ddp_model.pt tree/sub && : >tree/empty
	ckpt broadcast -q --verify reread tree out
	want 0
	diff -r -x .ckpt-staged tree out
	ckpt broadcast --verify none ddp_model.pt second.pt
	[[ $status = 0 && $stderr != *crc32* ]]
	ckpt broadcast --verify reread --no-sync ddp_model.pt third.pt
	[[ $status = 64 && $stderr = "ckpt: broadcast: --verify reread reads what is on the disk, which --no-sync does not wait for"* ]]
	want_files out out.pt .out.pt.ckpt-staged second.pt .second.pt.ckpt-staged tree
}

@test "folders are made for it" {
	ckpt broadcast -q --mkdir ddp_model.pt new/er/out.pt
	want 0
	cmp ddp_model.pt new/er/out.pt
	ckpt broadcast -q --mkdir ddp_model.pt ddp_trainer.pt several
	want 0
	cmp ddp_trainer.pt several/ddp_trainer.pt
	: >file
	ckpt broadcast --mkdir ddp_model.pt file/out.pt
	[[ $status = 4 && $stderr = "ckpt: broadcast: file"* ]]
	ckpt broadcast --mkdir missing.pt nodir/out.pt
	want 3 "ckpt: broadcast: missing.pt: cannot open: No such file or directory"
	[ ! -e nodir ]
	ckpt broadcast --keep-going --all-or-none ddp_model.pt out.pt
	[[ $status = 64 && $stderr = "ckpt: broadcast: --keep-going and --all-or-none: wanted one of them"* ]]
	ckpt broadcast --keep-going ddp_model.pt nodir/out.pt
	want 4 "ckpt: broadcast: nodir/out.pt: cannot create a file in 'nodir': No such file or directory; --mkdir makes missing folders"
}

@test "options come from variables as well" {
	CKPT_BROADCAST_IF_EXISTS=error CKPT_BROADCAST_CHUNK=1M CKPT_BROADCAST_QUIET=1 ckpt broadcast ddp_model.pt out.pt
	want 0
	CKPT_BROADCAST_IF_EXISTS=error ckpt broadcast ddp_model.pt out.pt
	want 4 "ckpt: broadcast: out.pt: the output exists already"
	CKPT_BROADCAST_IF_EXISTS=error ckpt broadcast -q --if-exists replace ddp_model.pt out.pt
	want 0
	CKPT_BROADCAST_IO_THREADS=some ckpt broadcast ddp_model.pt out.pt
	[[ $status = 64 && $stderr = "ckpt: broadcast: CKPT_BROADCAST_IO_THREADS=some: wanted a number"* ]]
	CKPT_BROADCAST_VERIFY=much ckpt broadcast ddp_model.pt out.pt
	[[ $status = 64 && $stderr = "ckpt: broadcast: CKPT_BROADCAST_VERIFY=much: wanted crc, none or reread"* ]]
	CKPT_BROADCAST_NO_SYNC=yes ckpt broadcast ddp_model.pt out.pt
	[[ $status = 64 && $stderr = "ckpt: broadcast: CKPT_BROADCAST_NO_SYNC=yes: wanted 1 or 0"* ]]
	CKPT_BROADCAST_NO_SYNC=0 CKPT_BROADCAST_READERS='' ckpt broadcast -q ddp_model.pt out.pt
	want 0
}

@test "a checksum may be expected" {
	crc=$(python3 -c 'import zlib; print("%08x" % zlib.crc32(open("ddp_model.pt", "rb").read()))')
	ckpt broadcast --expect 0badf00d ddp_model.pt out.pt
	want 5 "ckpt: broadcast: ddp_model.pt: has crc32 $crc, wanted 0badf00d"
	want_files
	ckpt broadcast -q --expect "${crc^^}" ddp_model.pt out.pt
	want 0
	ckpt broadcast --expect "$crc" ddp_model.pt out.pt
	[[ $status = 0 && $stderr = *"there already"* ]]
	ckpt broadcast --expect 0badf00d ddp_model.pt out.pt # what was staged before does not count
	want 5 "ckpt: broadcast: ddp_model.pt: has crc32 $crc, wanted 0badf00d"
	cmp ddp_model.pt out.pt
	mkdir d
	ckpt broadcast --expect "$crc" ddp_model.pt ddp_trainer.pt d
	want 6 "ckpt: broadcast: a checksum is expected, which is that of one file: found 2"
	for wrong in 123456789 xyz 12g; do
		ckpt broadcast --expect $wrong ddp_model.pt out.pt
		[[ $status = 64 && $stderr = "ckpt: broadcast: --expect $wrong: wanted up to 8 hexadecimal digits"* ]]
	done
	ckpt broadcast --expect "$crc" --verify none ddp_model.pt out.pt
	[[ $status = 64 && $stderr = "ckpt: broadcast: --expect needs a checksum, --verify none makes none"* ]]
}

@test "best effort goes on with the source" {
	ckpt broadcast --best-effort --export CKPT_PATH ddp_model.pt nodir/
	[[ $status = 0 && $stderr = "ckpt: broadcast: nodir/ddp_model.pt: cannot create"* ]]
	[ "$output" = "export CKPT_PATH=ddp_model.pt" ]
	ckpt broadcast -q --best-effort --export CKPT_PATH ddp_model.pt out.pt
	[[ $status = 0 && $output = "export CKPT_PATH=out.pt" ]]
	ckpt broadcast --best-effort --readers none ddp_model.pt out.pt
	[ "$status" = 64 ]
}

@test "progress is said where it is asked for" {
	ckpt broadcast --progress -q ddp_model.pt out.pt
	[[ $status = 0 && $stderr =~ ^"ckpt: "[0-9.]+K" of "[0-9.]+"K, "[0-9.]+[KMG]?"/s, 0 s left"$ ]]
}

@test "nothing is written to measure" {
	ckpt broadcast --target null ddp_model.pt
	[[ $status = 0 && $stderr = "ckpt: "* ]]
	want_files
}

@test "export and json say it for scripts" {
	ckpt broadcast -q --export CKPT_PATH ddp_model.pt out.pt
	want 0
	[ "$output" = "export CKPT_PATH=out.pt" ]
	ckpt broadcast -q --json ddp_model.pt out.pt
	want 0
	printf '%s' "$output" | python3 -c '
import json, os, sys
d = json.load(sys.stdin)
assert d["ckpt_json"] == 1 and d["command"] == "broadcast" and d["code"] == 0 and d["reused"] is True and d["files"] == 1, d
assert d["nbytes"] == os.path.getsize("out.pt") and d["world_size"] == 1, d'
}

@test "what a TaskProlog prints is one variable" {
	for name in 'A B' 1A 'A=B' '' $'A\nB' 'A;B'; do
		ckpt broadcast -q --export "$name" ddp_model.pt out.pt
		[[ $status = 64 && -z $output && $stderr = *"wanted the name of a variable"* ]]
	done
	cp ddp_model.pt $'m\nexport LD_PRELOAD=x'
	ckpt broadcast -q --export MODEL $'m\nexport LD_PRELOAD=x' ./
	[[ $status = 64 && -z $output && $stderr = *"--export prints one line"* ]]
	ckpt broadcast -q --export MODEL ddp_model.pt $'o\nut.pt'
	[[ $status = 64 && -z $output ]]
	ckpt broadcast -q --export MODEL --json ddp_model.pt out.pt
	[[ $status = 64 && -z $output && $stderr = *"both print to standard output"* ]]
	[ ! -e out.pt ]
	ckpt broadcast -q --export MODEL --json=r.json ddp_model.pt out.pt
	[[ $status = 0 && $output = "export MODEL=out.pt" && -s r.json ]]
	mkdir d
	ckpt broadcast -q ddp_model.pt $'d/a\nb.pt'
	ckpt broadcast ddp_model.pt $'d/a\nb.pt'
	[[ $status = 0 && $stderr = *'d/a\nb.pt' && $stderr != *$'\n'* ]]
}

@test "one process in a job of Slurm with several nodes is told of srun" {
	slurm=(SLURM_JOB_ID=7 SLURM_NNODES=4 SLURM_NTASKS=4 SLURM_PROCID=0)
	run --separate-stderr env "${slurm[@]}" "$CKPT" broadcast ddp_model.pt a.pt
	[ "$status" = 0 ]
	[[ $stderr = *$'\n'"ckpt: note: the job of Slurm has 4 nodes, and this is one process, on one of them"$'\n'"hint: srun ckpt broadcast "* ]]
	for option in "--launcher none" "--transport self" -q; do
		run --separate-stderr env "${slurm[@]}" "$CKPT" broadcast $option ddp_model.pt a.pt
		[[ $status = 0 && $stderr != *note:* ]]
	done
	run --separate-stderr env SLURM_JOB_ID=7 SLURM_NNODES=1 SLURM_NTASKS=1 "$CKPT" broadcast ddp_model.pt a.pt
	[[ $status = 0 && $stderr != *note:* ]]
}

@test "ranks that do not meet, and one that was given another DST, say where they are and what differs" {
	rank() { env WORLD_SIZE=2 RANK="$1" LOCAL_RANK="$1" MASTER_ADDR=localhost MASTER_PORT=1 "$CKPT" broadcast -v --rdzv "file:$PWD/meet" --job-key k --world-size 2 --rank "$1" --init-timeout "$2" ddp_model.pt "$3"; }
	mkdir meet
	run --separate-stderr rank 0 1 out.pt
	[ "$status" != 0 ]
	[[ $stderr = *"rank 0 of 2 on $(hostname) (launcher "* ]]
	rm -rf meet; mkdir meet
	rank 1 20 other.pt 2>one &
	run --separate-stderr rank 0 20 out.pt
	wait || true
	[[ $stderr = *" was started with DST '"*"', rank 0 ("*") with '"*"': give all ranks the same; %r in DST is the rank, %h the host"* ]]
}

@test "ranks that are to meet at a port have to know how many they are" {
	for options in "" "--rank 0"; do
		ckpt broadcast --rdzv tcp://127.0.0.1:9 $options ddp_model.pt copy.pt
		[[ $status = 64 || $status = 6 ]]
		[[ $stderr = *"nothing says how many there are"* && ! -e copy.pt ]]
	done
	ckpt broadcast -q --rdzv tcp://127.0.0.1:9 --rank 0 --world-size 1 ddp_model.pt copy.pt; want 0
}

@test "scripts for jobs are printed without SRC and DST" {
	for option in --print-slurm-prolog --print-k8s; do
		ckpt broadcast $option
		[[ $status = 0 && -z $stderr && ${#lines[@]} -gt 50 ]]
		ckpt broadcast $option ddp_model.pt
		[[ $status = 64 && $stderr = "ckpt: broadcast: $option: wanted neither SRC nor DST"* ]]
		run --separate-stderr sh -c "'$CKPT' broadcast $option >/dev/full"
		[ "$status" = 2 ]
	done
	ckpt broadcast --print-slurm-prolog --print-k8s
	[[ $status = 64 && $stderr = "ckpt: broadcast: --print-slurm-prolog and --print-k8s: wanted one of them"* ]]
	ckpt broadcast
	[[ $status = 64 && $stderr = "ckpt: broadcast: too few operands, wanted SRC... DST"* ]]
}

@test "progress is told as lines of JSON" {
	head -c 30000000 /dev/zero >big
	run --separate-stderr "$CKPT" broadcast -q --progress=json --json=doc big out
	[ "$status" = 0 ]
	python3 - "$stderr" <<-'END'
		import json, sys
		lines = [json.loads(line) for line in sys.argv[1].splitlines()]
		assert all((d["ckpt_json"], d["command"], d["event"]) == (1, "broadcast", "progress") for d in lines), lines
		assert [d["phase"] for d in lines][-2:] == ["finish", "done"] and {d["phase"] for d in lines[:-2]} <= {"carry"}, lines
		assert all(a["done"] <= b["done"] and a["seconds"] <= b["seconds"] + 1 for a, b in zip(lines, lines[1:])), lines
		assert lines[-1]["done"] == lines[-1]["total"] == 30000000 and lines[-1]["code"] == 0 and lines[-1]["rate"] > 0, lines
		document = json.load(open("doc"))
		assert lines[-1]["seconds"] == document["seconds"], (lines, document)
	END
	run --separate-stderr "$CKPT" broadcast --progress=json missing.pt out
	[ "$status" = 3 ]
	grep '^{' <<<"$stderr" | python3 -c '
import json, sys
(d,) = [json.loads(line) for line in sys.stdin]
assert d["phase"] == "failed" and d["code"] == 3 and d["error"] == "missing.pt: cannot open: No such file or directory", d'
	ckpt broadcast --progress=xml big out
	[[ $status = 64 && $stderr = "ckpt: broadcast: --progress xml: wanted lines or json"* ]]
	CKPT_BROADCAST_PROGRESS=1 ckpt broadcast -q ddp_model.pt other.pt
	[[ $status = 0 && $stderr = *" s left" ]]
}

@test "metrics are a text file for Prometheus, whole and under its name" {
	check() { # FILE NAME=VALUE...: as the text format has it
		python3 - "$@" <<-'END'
			import re, sys
			text = open(sys.argv[1]).read()
			assert text.endswith("\n") and text.isascii(), text
			help_, types, values = {}, {}, {}
			for line in text.splitlines():
			    found = re.fullmatch(r"# HELP ([a-zA-Z_:][a-zA-Z0-9_:]*) (.+)", line)
			    if found:
			        assert found[1] not in help_, line
			        help_[found[1]] = found[2]
			        continue
			    found = re.fullmatch(r"# TYPE ([a-zA-Z_:][a-zA-Z0-9_:]*) (counter|gauge)", line)
			    if found:
			        assert found[1] in help_ and found[1] not in types and found[1] not in values, line
			        types[found[1]] = found[2]
			        continue
			    label = r'[a-zA-Z_][a-zA-Z0-9_]*="(?:[^"\\\n]|\\["\\n])*"'
			    found = re.fullmatch(r"([a-zA-Z_:][a-zA-Z0-9_:]*)(\{%s(?:,%s)*\})? (\S+)" % (label, label), line)
			    assert found and found[1] in types and found[1] not in values, line
			    values[found[1]] = float(found[3])
			for name, kind in types.items(): # as promtool wants it
			    assert name in values and (kind == "counter") == name.endswith("_total"), name
			    assert not re.search("milli|_ms$|minutes|hours|kilo|mega|_bits", name), name
			for word in sys.argv[2:]:
			    name, value = word.split("=")
			    assert values["ckpt_broadcast_" + name] == float(value), (word, values)
		END
	}
	size=$(stat -c %s ddp_model.pt)
	mkdir m
	ckpt broadcast -q --metrics m/c.prom ddp_model.pt out.pt; want 0
	check m/c.prom bytes_total=$size source_bytes=$size source_files=1 ranks=1 reused=0 exit_status=0 info=1
	grep -q '^ckpt_broadcast_info{transport="self",launcher="none",' m/c.prom
	ckpt broadcast -q --metrics m/c.prom ddp_model.pt out.pt; want 0
	check m/c.prom bytes_total=0 source_bytes=$size reused=1 exit_status=0
	ckpt broadcast -q --metrics m/c.prom missing.pt out.pt; [ "$status" = 3 ]
	check m/c.prom bytes_total=0 reused=0 exit_status=3
	[ "$(ls -A m)" = c.prom ]
	ckpt broadcast -q --metrics nodir/c.prom ddp_model.pt out.pt
	want 2 "ckpt: broadcast: --metrics nodir/c.prom: cannot write it: No such file or directory"
	ckpt broadcast -q --metrics m ddp_model.pt out.pt
	[[ $status = 2 && $stderr = *"Is a directory" ]]
	ckpt broadcast -q --best-effort --metrics m/c.prom missing.pt out.pt; [ "$status" = 0 ]
	check m/c.prom exit_status=3
}

@test "a bandwidth is kept, and is steady" {
	head -c 6291456 /dev/zero >big
	for more in "" "--chunk 1M" "--depth 16 --io-threads 8"; do
		ckpt broadcast --json --bandwidth 2M $more --progress=json big out; [ "$status" = 0 ]
		python3 - "$output" "$stderr" <<-'END'
			import json, sys
			seconds = json.loads(sys.argv[1])["seconds"]
			assert 2.8 < seconds < 6, seconds # 3 s, and what a loaded machine takes
			lines = [json.loads(line) for line in sys.argv[2].splitlines() if line.startswith("{")]
			carry = [d for d in lines if d["phase"] == "carry"]
			assert len(carry) >= 2, lines # not all at the end, nor at the beginning
			for a, b in zip(carry, carry[1:]):
			    assert b["done"] - a["done"] <= (b["seconds"] - a["seconds"] + 0.3) * 2 * 1048576, (a, b)
		END
		cmp big out; rm -f out .out.ckpt-staged
	done
	ckpt broadcast -q --bandwidth 9000G big out; want 0
	for wrong in 0 fast -1; do
		ckpt broadcast --bandwidth $wrong big out
		[[ $status = 64 && $stderr = "ckpt: broadcast: --bandwidth $wrong: wanted bytes a second"* ]]
	done
	ckpt broadcast --bandwidth 100K --readers 2 big out
	[[ $status != 0 && $stderr = *"a bandwidth of 102400 bytes a second, wanted 64 KiB or more for each rank that reads"* ]]
}

@test "what is read past the page cache is the same" {
	mkdir -p dir/sub
	head -c 5000001 /dev/urandom > big
	head -c 1234567 /dev/urandom > dir/one; head -c 70001 /dev/urandom > dir/sub/two; : > dir/empty; head -c 4096 /dev/urandom > dir/page
	for when in always never auto; do
		ckpt broadcast -q --if-exists replace --direct $when big out; want 0
		cmp big out
		ckpt broadcast -q --if-exists replace --chunk 64K --io-threads 3 --verify reread --direct $when big out; want 0
		cmp big out
		ckpt broadcast -q --if-exists replace --chunk 64K --direct $when dir copy; want 0
		diff -r -x .ckpt-staged dir copy
	done
	CKPT_BROADCAST_DIRECT=always ckpt broadcast -q --if-exists replace big out; want 0
	for when in sometimes ''; do
		ckpt broadcast --direct "$when" big out
		[[ $status = 64 && $stderr = "ckpt: broadcast: --direct"*": wanted auto, always or never"* ]]
	done
	: > nothing
	ckpt broadcast -q --if-exists replace --direct always nothing out; want 0
	cmp nothing out
}

@test "a bandwidth is that of all readers together, and the same for all ranks" {
	head -c 6291456 /dev/urandom >big
	rank() { env WORLD_SIZE=2 RANK="$1" LOCAL_RANK=0 "$CKPT" broadcast --transport tcp --rdzv "file:$PWD/meet" --job-key "$2" --world-size 2 --rank "$1" \
		--init-timeout 30 --json --readers 2 "${@:3}" big '%r.out'; }
	mkdir meet
	rank 1 a --bandwidth 2M 2>one &
	run --separate-stderr rank 0 a --bandwidth 2M
	wait $!
	[ "$status" = 0 ]
	python3 -c 'import json, sys; s = json.loads(sys.argv[1])["seconds"]; assert 2.8 < s < 8, s' "$output"
	cmp big 0.out; cmp big 1.out
	rank 1 b --bandwidth 2M 2>one &
	run --separate-stderr rank 0 b --bandwidth 3M
	wait $! || true
	[[ $status = 6 && $stderr = *"was started with other options than rank "*"(--chunk or --bandwidth"* ]]
}

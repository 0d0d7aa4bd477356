# SPDX-License-Identifier: Apache-2.0
load common.bash

# '-' and names of pipes as IN and OUT

# piped COMMAND...: it reads ddp_model.pt from a pipe; $status, $output and $stderr
piped() { run --separate-stderr bash -c 'cat ddp_model.pt | "$CKPT" "$@"' ckpt "$@"; }

# A command with OUT on a terminal; what it says comes through the terminal, too.
on_terminal() { python3 -c 'import os, pty, sys; sys.exit(os.waitstatus_to_exitcode(pty.spawn(sys.argv[1:])))' "$@" </dev/null; }

@test "every command that reads one file reads a pipe" {
	mkdir tmp; export TMPDIR=$PWD/tmp
	for command in "ls -" "info -" "cat - module.head.weight" "stat -" "verify -" "scan -" "why -" "dis -" "diff - ddp_model.pt" \
		"diff ddp_model.pt -" "ls - module*" "ls /dev/stdin" "ls /dev/fd/0" "ls --json -" "convert - -n x.pt" "cast bf16 - -n x.pt"; do
		piped $command
		[ "$status" = 0 ] || { echo "$command: $status $stderr" >&2; return 1; }
	done
	want_files tmp; [ -z "$(ls -A tmp)" ]
	piped why -; [[ $output = *"mend:      ckpt strip-module IN OUT" ]]
	piped ls -; got=$output
	ckpt ls ddp_model.pt; [ "$got" = "$output" ]
}

@test "what is written of a pipe is what is written of the file" {
	umask 027
	for command in "strip-module" "cast bf16" "convert" "compact --if-present" "sanitize --if-present" "edit --cast fp16" "merge" "repair --if-present" \
		"convert --to safetensors" "split --ranks 2" "remap --all cuda:0" "select --drop *bias" "rename -e s/^module/m/"; do
		rm -rf a b; mkdir a b
		piped $command - a/x
		[ "$status" = 0 ] || { echo "$command: $status $stderr" >&2; return 1; }
		ckpt $command ddp_model.pt b/x; want 0 "$stderr"
		diff -r a b
	done
	piped convert - a/y.pt; want 0
	[ "$(stat -c %a a/y.pt)" = 640 ]
}

@test "OUT may be a pipe, a file behind standard output, and the next command" {
	mkdir tmp; export TMPDIR=$PWD/tmp
	"$CKPT" convert ddp_model.pt - 2>said | cat >piped.pt
	grep -q '^8.8K written in ' said
	"$CKPT" convert ddp_model.pt - -q >file.pt; cmp file.pt piped.pt
	"$CKPT" convert -q ddp_model.pt archive; cmp archive piped.pt # as torch.save to a buffer calls it
	"$CKPT" convert -q ddp_model.pt /dev/stdout | cmp - archive
	"$CKPT" convert -q ddp_model.pt >(cat >other.pt); for _ in {1..50}; do cmp -s other.pt archive && break; sleep 0.1; done; cmp other.pt archive
	{ printf head; "$CKPT" convert -q ddp_model.pt -; } >grown; tail -c +5 grown | cmp - archive
	"$CKPT" convert -q ddp_model.pt - >>grown; tail -c "$(stat -c %s archive)" grown | cmp - archive
	"$CKPT" extract model - - <ddp_trainer.pt 2>/dev/null | "$CKPT" strip-module - - 2>/dev/null | "$CKPT" convert - x.safetensors
	ckpt extract model ddp_trainer.pt m.pt; ckpt convert m.pt y.safetensors --strip-module; want 0; cmp x.safetensors y.safetensors
	cat ddp_model.pt | "$CKPT" average - ddp_model.pt - 2>/dev/null | "$CKPT" diff - ddp_model.pt
	"$CKPT" split -q ddp_trainer.pt shards --ranks 2; "$CKPT" merge shards - 2>/dev/null | "$CKPT" diff - ddp_trainer.pt
	[ -z "$(ls -A tmp)" ]
}

@test "standard output holds nothing but the file, and nothing if the command fails" {
	printf x | dd of=ddp_model.pt bs=1 seek=4000 conv=notrunc status=none
	"$CKPT" cast bf16 ddp_model.pt - >out 2>said && return 1
	grep -q damaged said || grep -q checksum said; [ ! -s out ]
	"$CKPT" convert ddp_trainer.pt - -n >out 2>said; grep -q 'would be written (dry run)' said; [ ! -s out ]
	"$CKPT" select --drop 'nothing*' ddp_trainer.pt - >out 2>said && return 1
	[ ! -s out ]
}

@test "a pipe is kept up to a limit, which is said with the place" {
	mkdir tmp; export TMPDIR=$PWD/tmp
	piped ls - --spool-limit 8K
	want 2 "ckpt: standard input: has more than 8000 bytes, the limit of what is kept in '$TMPDIR'
hint: --spool-limit 16K takes more; TMPDIR names another folder"
	piped ls - --spool-limit 8929; want 0
	piped ls - --spool-limit none; want 64 "ckpt: --spool-limit none: wanted a size such as 16G"
	export TMPDIR=$PWD/none
	piped ls -
	want 2 "ckpt: standard input: cannot create a temporary file in '$TMPDIR': No such file or directory
hint: TMPDIR names another folder"
	ckpt convert ddp_model.pt -
	want 2 "ckpt: standard output: cannot create a temporary file in '$TMPDIR': No such file or directory"
	[ -z "$output" ]
	unset TMPDIR
	"$CKPT" ls --help | grep -q -- "--spool-limit SIZE .*in TMPDIR or /tmp; default: 16G"
}

@test "a file behind standard input is read from where it is" {
	ckpt ls - <ddp_model.pt; want 0
	{ cat ddp_trainer.pt ddp_model.pt; } >both
	{ head -c "$(stat -c %s ddp_trainer.pt)" >/dev/null; "$CKPT" diff - ddp_model.pt; } <both
	zip -q a.zip ddp_model.pt
	cat a.zip | "$CKPT" ls /dev/stdin::ddp_model.pt | tail -1 | grep -q '^14 tensors'
	run --separate-stderr bash -c '"$CKPT" ls - <&-'; want 2 "ckpt: standard input: cannot read: Bad file descriptor"
	ckpt ls - </dev/null; want 2 "ckpt: /dev/stdin: is empty: a download or a save was interrupted"
}

@test "what cannot be is refused" {
	piped strip-module -i -; want 64 "ckpt: standard input: there is no file to be edited in place"
	for command in "cast -i bf16" "remap -i --all cpu" "strip-prefix -i --strip-wrappers" "strip-prefix -i x." "reshard --ranks 2 - -"; do
		piped $command -; [ "$status" = 64 ]
	done
	piped strip-module -i /dev/stdin; want 64 "ckpt: /dev/stdin: there is no file to be edited in place"
	piped diff - -; want 64 "ckpt: standard input: can be read once only, and is named twice"
	piped diff /dev/stdin -; want 64 "ckpt: standard input: can be read once only, and is named twice"
	piped why - --error -; [ "$status" = 64 ]
	piped latest -; [ "$status" != 0 ]
	piped reindex - x; want 64 "ckpt: this command does not read from standard input"
	ckpt repair ddp_model.pt -; want 64 "ckpt: this command does not write to standard output"
	ckpt split ddp_model.pt - --ranks 2; want 2 "ckpt: -: this writes a directory of files, which cannot go to a pipe"
	ckpt convert ddp_model.pt - --shard-size 5KB; want 2 "ckpt: -: this writes a directory of files, which cannot go to a pipe"
	ckpt convert ddp_model.pt - --to npy; want 2 "ckpt: -: this writes a directory of files, which cannot go to a pipe"
	"$CKPT" split -q ddp_model.pt shards --ranks 2
	ckpt cast bf16 shards -
	want 2 "ckpt: -: this writes a directory of files, which cannot go to a pipe
hint: ckpt convert shards - --cast bf16"
	"$CKPT" convert shards - --cast bf16 2>/dev/null | "$CKPT" ls - | tail -1 | grep -q '^14 tensors'
	"$CKPT" convert -f ddp_model.pt /dev/stdout >out 2>said && return 1
	[ "$(cat said)" = "ckpt: /dev/stdout: the output is no pipe, wanted a file name
hint: '-' writes to standard output, whatever it is" ]
	[ -e /dev/stdout ]; [ ! -s out ]
	run --separate-stderr bash -c '"$CKPT" convert ddp_model.pt - >&-'
	want 2 "ckpt: standard output: cannot be written to: Bad file descriptor"
	run on_terminal "$CKPT" convert ddp_model.pt -
	[ "$status" = 64 ]; [[ $output = *"standard output is a terminal, wanted a pipe or a file"* ]]
	run on_terminal "$CKPT" ls -
	[ "$status" = 64 ]; [[ $output = *"standard input is a terminal, wanted a pipe or a file"* ]]
	input_is_untouched
}

@test "a reader that goes away is an error, and one that stands still can be left" {
	python3 "$here/make_large.py" 4 large.pt
	set +o pipefail
	"$CKPT" convert large.pt - 2>said | head -c 10 >/dev/null; [ "${PIPESTATUS[0]}" = 2 ]
	[ "$(cat said)" = "ckpt: standard output: cannot write: Broken pipe" ]
	mkfifo still; exec 8<>still # who reads of it what it wants to, here ten bytes
	"$CKPT" convert large.pt - >still 2>said & writer=$!
	head -c 10 <&8 >/dev/null; kill -TERM $writer
	code=0; wait $writer || code=$?
	exec 8<&-
	[ $code = 143 ]
	[ "$(cat said)" = "ckpt: standard output: interrupted, it has not got all bytes" ]
}

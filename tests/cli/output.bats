# SPDX-License-Identifier: Apache-2.0
# Where OUT is: existing, the input, a folder, a place that cannot be written, a disk that is full.
load common

@test "an existing OUT is an error without -f" {
	echo old >out.pt
	ckpt strip-module ddp_model.pt out.pt
	want 2 "ckpt: out.pt: the output exists already
hint: -f replaces it"
	[ "$(cat out.pt)" = old ]
	ckpt convert ddp_model.pt out.pt
	want 2 "ckpt: out.pt: the output exists already
hint: -f replaces it"
	ckpt strip-module -f ddp_model.pt out.pt
	want 0
	want_files out.pt
	ckpt ls -q out.pt; want 0
}

@test "OUT must not be IN, under whatever name" {
	ln ddp_model.pt hard.pt
	ln -s ddp_model.pt soft.pt
	for name in ddp_model.pt ./ddp_model.pt hard.pt soft.pt; do
		ckpt strip-module -f ddp_model.pt $name
		want 2 "ckpt: $name: the output is the input itself; name another file"
	done
	input_is_untouched
	want_files hard.pt soft.pt
}

@test "a symbolic link as OUT is replaced, what it points to is not" {
	echo precious >target
	ln -s target out.pt
	ckpt strip-module ddp_model.pt out.pt
	[ "$status" = 2 ]
	ckpt strip-module -f ddp_model.pt out.pt
	want 0
	[ "$(cat target)" = precious ]
	[ ! -L out.pt ]
}

@test "a dangling symbolic link as OUT counts as existing" {
	ln -s nowhere out.pt
	ckpt strip-module ddp_model.pt out.pt
	want 2 "ckpt: out.pt: the output exists already
hint: -f replaces it"
	[ ! -e nowhere ]
}

@test "folders and devices are not replaced" {
	mkdir dir
	for name in dir dir/ .; do
		ckpt strip-module -f ddp_model.pt $name
		[ "$status" = 2 ]
		[[ $stderr = "ckpt: $name: the output is an existing folder, wanted a file name" ]]
	done
	ckpt strip-module -f ddp_model.pt /dev/null
	want 2 "ckpt: /dev/null: the output is a device or a pipe, wanted a file name"
	want_files dir
}

@test "a folder that is not there is named" {
	ckpt strip-module ddp_model.pt none/out.pt
	want 2 "ckpt: none/out.pt: cannot create a file in 'none': No such file or directory"
}

@test "a name that torch could not use is refused" {
	ckpt strip-module ddp_model.pt .hidden
	want 2 "ckpt: .hidden: torch names the archive after the file, and '.hidden' leaves no name"
	ckpt convert ddp_model.pt .pt
	want 2 "ckpt: .pt: torch names the archive after the file, and '.pt' leaves no name"
	want_files
}

@test "OUT gets the usual permissions" {
	umask 027
	ckpt strip-module ddp_model.pt out.pt; want 0
	[ "$(stat -c %a out.pt)" = 640 ]
}

@test "a folder without permission is an error" {
	mkdir ro
	if [ "$(id -u)" = 0 ]; then
		command -v setpriv >/dev/null || skip "setpriv is not installed, and root may write anywhere"
		chmod 755 . ro
		(cd / && setpriv --reuid=65534 --clear-groups test -r "$work/ddp_model.pt" -a -x "$CKPT") ||
			skip "another user cannot come here"
		run --separate-stderr setpriv --reuid=65534 --clear-groups "$CKPT" strip-module ddp_model.pt ro/out.pt
	else
		chmod 555 ro
		ckpt strip-module ddp_model.pt ro/out.pt
	fi
	want 2 "ckpt: ro/out.pt: cannot create a file in 'ro': Permission denied"
}

@test "a full disk is an error and leaves nothing" {
	[ "$(id -u)" = 0 ] || skip "only root can mount a small disk"
	mkdir small
	mount -t tmpfs -o size=128k tmpfs small 2>/dev/null || skip "a small disk cannot be mounted here"
	python3 "$here/make_large.py" 1 large.pt
	ckpt strip-module large.pt small/out.pt
	left=$(ls -A small)
	umount small
	[ "$status" = 2 ]
	[[ $stderr =~ ^'ckpt: small/out.pt: '.*(space|free) ]]
	[ "$left" = "" ]
}

@test "a limit on the size of files is an error and leaves nothing" {
	python3 "$here/make_large.py" 1 large.pt
	run --separate-stderr bash -c 'trap "" XFSZ; ulimit -f 100; exec "$0" strip-module large.pt out.pt' "$CKPT"
	[ "$status" = 2 ]
	[[ $stderr = "ckpt: out.pt: "*": File too large" ]]
	want_files large.pt
}

@test "a write error on standard output is an error" {
	[ -w /dev/full ] || skip "there is no /dev/full"
	run --separate-stderr bash -c '"$0" ls ddp_model.pt >/dev/full' "$CKPT"
	want 2 "ckpt: cannot write to standard output: No space left on device"
	run --separate-stderr bash -c '"$0" info --json ddp_model.pt >/dev/full' "$CKPT"
	want 2 "ckpt: cannot write to standard output: No space left on device"
}

@test "a closed pipe is no error" {
	run --separate-stderr bash -c '"$0" dis ddp_trainer.pt | head -n 1; echo "${PIPESTATUS[0]}"' "$CKPT"
	[ "$stderr" = "" ]
	[ "${lines[1]}" = 0 ]
}

@test "what is made of a private input is private, and of one for all is for all" {
	ckpt split -q ddp_model.pt shards --ranks 2; want 0
	for mode in 600 640 644 666 444; do
		umask 027
		chmod $mode ddp_model.pt shards/* shards/.metadata
		wanted=$(printf '%o' $((0$mode & ~027)))
		for to in torch torch-legacy safetensors npz; do
			ckpt convert --to $to ddp_model.pt out; want 0
			[ "$(stat -c %a out)" = $wanted ]
			rm out
		done
		ckpt merge shards out; want 0
		[ "$(stat -c %a out)" = $wanted ]
		rm out
		ckpt broadcast -q ddp_model.pt out; want 0
		[ "$(stat -c %a out)" = $wanted ]
		rm out .out.ckpt-staged
		for command in "split --ranks 3 ddp_model.pt" "convert --shard-size 2KB ddp_model.pt" "convert --to npy ddp_model.pt" "strip-module shards" "reindex shards" "reshard --ranks 1 shards"; do
			ckpt $command out; want 0
			[ "$(find out -type f -printf '%m\n' | sort -u)" = $wanted ]
			rm -rf out
		done
	done
	umask 022
	chmod 644 shards/* shards/.metadata
	chmod 750 shards # who may not enter it cannot read its files
	ckpt merge shards out; want 0
	[ "$(stat -c %a out)" = 640 ]
	ckpt strip-module shards edited; want 0
	[ "$(stat -c %a edited)" = 750 ]
	ckpt split --ranks 2 out new; want 0
	[ "$(stat -c %a new new/.metadata)" = "$(printf '750\n640')" ]
	chmod 700 new
	ckpt split -f --ranks 3 out new; want 0
	[ "$(stat -c %a new)" = 700 ] # as the one that it replaces
}

@test "a private input stays private over a public output, and for another group" {
	cp ddp_model.pt public.pt && chmod 644 public.pt
	chmod 600 ddp_model.pt
	ckpt strip-module -f ddp_model.pt public.pt; want 0
	[ "$(stat -c %a public.pt)" = 600 ]
	ckpt split -q --ranks 2 ddp_trainer.pt dir; want 0
	[ "$(stat -c %a dir)" = 755 ]
	ckpt split -q -f --ranks 3 ddp_model.pt dir; want 0
	[ "$(stat -c %a dir)" = 700 ]
	chmod 640 ddp_model.pt
	chgrp 54321 ddp_model.pt 2>/dev/null || skip "only root gives a file to any group"
	ckpt strip-module ddp_model.pt other.pt; want 0
	[ "$(stat -c %a other.pt)" = 600 ]
}

@test "a limit of a file's size is an error like a full disk" {
	run --separate-stderr bash -c 'ulimit -f 4; "$CKPT" split --ranks 2 ddp_trainer.pt out'
	[ "$status" = 2 ]
	[[ $stderr = *"File too large"* ]]
	want_files
}

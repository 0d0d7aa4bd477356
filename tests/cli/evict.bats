# SPDX-License-Identifier: Apache-2.0
# ckpt broadcast --evict: what goes, what stays, and what it says.

load common.bash

stage() { "$CKPT" broadcast -q --transport self "$@"; }

# age FILE NOTE SECONDS: as if the copy had been staged so long ago, and not been used since
age() {
	python3 - "$@" <<-'END'
		import os, re, sys, time
		path, note, then = sys.argv[1], sys.argv[2], int(time.time()) - int(sys.argv[3])
		os.utime(path, (then, then))
		text = re.sub(r"(-> \d+) \d+\.\d+", r"\1 %d.000000000" % then, open(note).read())
		open(note, "w").write(text)
		os.utime(note, (then, then))
	END
}

@test "a copy goes with its note, and what has none or another one stays" {
	mkdir d
	stage ddp_model.pt d/; stage ddp_model.pt d/b.pt; stage ddp_model.pt d/changed.pt
	cp ddp_model.pt d/mine.pt
	echo more >>d/changed.pt
	echo text >d/.other.pt.ckpt-staged; cp ddp_model.pt d/other.pt
	ckpt broadcast --evict --dry-run d
	[ "$status" = 0 ]
	[[ $output = *"would remove d/ddp_model.pt, "*$'\n'*"would remove 2 copies, "* ]]
	[ "$(ls -A d | wc -l)" = 9 ]
	ckpt broadcast --evict d/
	[ "$status" = 0 ]
	[[ $output = *"removed d/b.pt, "*$'\n'*"removed 2 copies, "* ]]
	[[ $stderr = *"d/changed.pt stays: it is not what its note says"* && $stderr = *"d/other.pt stays: "* ]]
	[ "$(ls -A d | LC_ALL=C sort | tr '\n' ' ')" = ".changed.pt.ckpt-staged .other.pt.ckpt-staged changed.pt mine.pt other.pt " ]
	ckpt broadcast --evict -q d; want 0
	[ -z "$output" ]
}

@test "a dry run lists what would go, left-over folders without a mark, too" {
	mkdir -p d/.bar.12345678.ckpt-tmp d/.full.12345678.ckpt-tmp; echo x >d/.full.12345678.ckpt-tmp/file
	: >d/.foo.12345678.ckpt-tmp
	ckpt broadcast --evict --dry-run d
	[[ $status = 0 && $output = *".bar.12345678.ckpt-tmp"* && $output = *".foo."* && $output != *".full."* ]]
	would=$(sed 's/would remove/removed/' <<<"$output")
	ckpt broadcast --evict d
	[ "$status" = 0 ]
	diff <(sort <<<"$would") <(sort <<<"$output")
	[ "$(ls -A d)" = .full.12345678.ckpt-tmp ]
}

@test "names with a line feed or a backslash are those of the note, too" {
	mkdir -p d tree/$'s\nub'
	for name in $'n\nl' 'back\\slash' 'back\nslash' $'end\\'; do
		stage ddp_model.pt "d/$name"
		cp ddp_model.pt "tree/s"$'\n'"ub/$name"
	done
	stage tree d/tree
	run "$CKPT" broadcast --transport self tree d/tree
	[[ $status = 0 && $output = *"there already"* ]]
	rm tree/*/n* # which was of the source, and is still of the copy
	stage tree d/tree
	[ "$(find d/tree -type f ! -name '.ckpt*' | tr -dc / | wc -c)" -gt 0 ]
	ckpt broadcast --evict d
	[[ $status = 0 && -z "$stderr" ]]
	[ -z "$(ls -A d)" ]
}

@test "age and free space choose, oldest first" {
	mkdir d
	for i in 1 2 3; do stage ddp_model.pt d/$i.pt; done
	age d/2.pt d/.2.pt.ckpt-staged 7200
	age d/3.pt d/.3.pt.ckpt-staged 86400
	ckpt broadcast --evict -n d
	[[ $output = "would remove d/3.pt"*"would remove d/2.pt"*"would remove d/1.pt"* ]]
	ckpt broadcast --evict --keep-free 1 d; [ "$output" = "removed 0 copies, 0 bytes" ]
	ckpt broadcast --evict --older-than 1h --keep-free 1 d; [ "$output" = "removed 0 copies, 0 bytes" ]
	ckpt broadcast --evict --older-than 12h d
	[[ $status = 0 && ! -e d/3.pt && -e d/2.pt && -e d/1.pt ]]
	stage ddp_model.pt d/2.pt # finds it there: it is used again
	ckpt broadcast --evict --older-than 1h d
	[[ $status = 0 && -e d/2.pt ]]
	ckpt broadcast --evict --keep-free 1000000G d # more than there is
	[ "$status" = 1 ]
	[[ $stderr = *"less than 1000000G is free"* ]]
	[ -z "$(ls -A d)" ]
}

@test "what a process has open or mapped stays" {
	mkdir -p d tree/sub && cp ddp_model.pt tree/sub/a
	stage ddp_model.pt d/open.pt; stage ddp_model.pt d/mapped.pt; stage tree d/tree
	exec 8<d/open.pt 9<d/tree/sub/a
	coproc python3 -c '
import mmap, sys
with open("d/mapped.pt", "rb") as file:
    bytes = mmap.mmap(file.fileno(), 0, mmap.MAP_PRIVATE, mmap.PROT_READ)
print("ready", flush=True)
sys.stdin.read()'
	read -r <&"${COPROC[0]}"
	ckpt broadcast --evict d
	[ "$status" = 0 ]
	[[ $stderr = *"d/mapped.pt stays: process "* && $stderr = *"d/open.pt stays: process "* && $stderr = *"d/tree stays: process "* ]]
	cmp d/open.pt ddp_model.pt; cmp d/mapped.pt ddp_model.pt; cmp d/tree/sub/a ddp_model.pt
	exec 8<&- 9<&-
	kill "$COPROC_PID"; wait "$COPROC_PID" || true
	ckpt broadcast --evict d; [ "$status" = 0 ]
	[ -z "$(ls -A d)" ]
}

@test "directories and several files go as a whole, or not at all" {
	mkdir -p tree/sub/deep d && cp ddp_model.pt tree/sub/deep/a && echo b >tree/b && : >tree/empty
	stage tree d/one; stage tree d/two; stage tree d/three
	stage ddp_model.pt ddp_trainer.pt d
	echo mine >d/two/sub/mine
	mkdir d/three/folder
	ckpt broadcast --evict d
	[ "$status" = 0 ]
	[[ $stderr = *"d/two stays: "* && $stderr = *"d/three stays: "* ]]
	[[ $output = *"removed d/.ckpt-staged-files, "* && $output = *"removed 2 copies, "* ]]
	[ "$(ls -A d | tr '\n' ' ')" = "three two " ]
	diff -r -x .ckpt-staged -x mine tree d/two
	stage ddp_model.pt ddp_trainer.pt d
	rm d/ddp_trainer.pt
	ckpt broadcast --evict d; [[ $status = 0 && -e d/ddp_model.pt && -e d/.ckpt-staged-files ]]
}

@test "no link is followed, and a note is good for nothing outside of its folder" {
	mkdir d out && stage ddp_model.pt out/
	ln -s ../out/ddp_model.pt d/ddp_model.pt; cp out/.ddp_model.pt.ckpt-staged d/; cp out/.ddp_model.pt.ckpt-staged d/.note
	ckpt broadcast --evict d; [ "$status" = 0 ]
	cmp out/ddp_model.pt ddp_model.pt
	mkdir d/set d/tree
	line=$(sed -n 2p out/.ddp_model.pt.ckpt-staged)
	for name in ../out/ddp_model.pt "$PWD/out/ddp_model.pt" set/../../out/ddp_model.pt ./../out/ddp_model.pt link/ddp_model.pt; do
		for note in d/.ckpt-staged-files d/tree/.ckpt-staged; do
			ln -sfn "$PWD/out" "$(dirname $note)/link"
			printf 'staged by ckpt broadcast 2\n%s\n' "${line% *} $name" >$note
			ckpt broadcast --evict d
			[[ $status = 0 && $output = "removed 0 copies, "* ]]
			cmp out/ddp_model.pt ddp_model.pt
			rm $note
		done
	done
	ln -s ../out d/out # a staged directory behind a link
	ckpt broadcast --evict d; [ -e out/ddp_model.pt ]
}

@test "a note of somebody else is good for nothing" {
	[ "$(id -u)" = 0 ] || skip "needs root"
	mkdir d && stage ddp_model.pt d/
	chown 65534 d/.ddp_model.pt.ckpt-staged
	ckpt broadcast --evict d
	[[ $status = 0 && $stderr = *"stays: it is not what its note says"* ]]
	cmp d/ddp_model.pt ddp_model.pt
	chown 65534 d/ddp_model.pt # one user's, and root evicts
	ckpt broadcast --evict d
	[[ $status = 0 && -z $(ls -A d) ]]
}

@test "what a killed broadcast left goes, and what one that lives writes stays" {
	mkdir d d/.t.01234567.ckpt-tmp d/.no-owner.01234567.ckpt-tmp d/.empty.01234567.ckpt-tmp
	echo x >d/.no-owner.01234567.ckpt-tmp/part
	echo x >d/.m.pt.89abcdef.ckpt-tmp; echo x >d/.l.pt.89abcdef.ckpt-tmp; echo x >d/.m.pt.89abcde.ckpt-tmp
	: >d/.t.01234567.ckpt-tmp/.ckpt-owner; echo x >d/.t.01234567.ckpt-tmp/part
	exec 9<>d/.l.pt.89abcdef.ckpt-tmp; flock 9
	ckpt broadcast --evict -n d
	[[ $status = 0 && $output = *"would remove d/.m.pt.89abcdef.ckpt-tmp, "*", left by one that has ended"* && -e d/.t.01234567.ckpt-tmp ]]
	ckpt broadcast --evict d 9<&-
	[ "$status" = 0 ]
	[ "$(ls -A d | LC_ALL=C sort | tr '\n' ' ')" = ".l.pt.89abcdef.ckpt-tmp .m.pt.89abcde.ckpt-tmp .no-owner.01234567.ckpt-tmp " ]
	exec 9<&-
}

@test "beside broadcasts that run, a name is always that of a whole copy" {
	mkdir -p d tree/sub && cp ddp_model.pt tree/sub/a && cp ddp_trainer.pt tree/b
	local end=$((SECONDS + 4)) count=0
	(while [ $SECONDS -lt $end ]; do stage tree d/tree || exit 1; stage ddp_model.pt d/m.pt || exit 1; done) &
	local first=$!
	(while [ $SECONDS -lt $end ]; do stage --if-exists replace tree d/tree || exit 1; stage --if-exists replace ddp_model.pt d/m.pt || exit 1; done) &
	local second=$!
	while [ $SECONDS -lt $end ]; do
		ckpt broadcast --evict -q d
		[ "$status" = 0 ] || { echo "$stderr" >&2; false; }
		cat d/m.pt >seen 2>/dev/null && { cmp seen ddp_model.pt; count=$((count + 1)); }
	done
	wait $first; wait $second
	stage tree d/tree; stage ddp_model.pt d/m.pt
	diff -r -x .ckpt-staged tree d/tree; cmp d/m.pt ddp_model.pt
	ckpt broadcast --evict -q d; [ "$status" = 0 ]
	[ -z "$(ls -A d)" ] || { ls -lA d >&2; false; }
}

@test "usage, exit codes and json" {
	for wrong in "--older-than x" "--older-than 5y" "--older-than -1" "--keep-free 0" "--keep-free much"; do
		ckpt broadcast --evict $wrong .
		[[ $status = 64 && $stderr = "ckpt: broadcast: $wrong: wanted "* ]]
	done
	ckpt broadcast --evict; [[ $status = 64 && $stderr = *"wanted DIR"* ]]
	ckpt broadcast -n ddp_model.pt x.pt; [[ $status = 64 && ! -e x.pt ]]
	mkdir last; stage ddp_model.pt last/
	ckpt broadcast --evict nodir last none
	want 2 "ckpt: nodir: cannot open the folder: No such file or directory"
	[[ $output = "removed last/ddp_model.pt, "* && -z "$(ls -A last)" ]]
	mkdir d; stage ddp_model.pt d/a.pt; stage ddp_model.pt d/b.pt; echo >>d/b.pt
	ckpt broadcast --evict -q --json d
	want 0
	printf '%s' "$output" | python3 -c '
import json, sys
d = json.load(sys.stdin)
assert (d["ckpt_json"], d["command"], d["dry_run"], d["copies"], d["changed"], d["failed"]) == (1, "broadcast", False, 1, 1, 0), d
rows = {row["path"]: row for row in d["evicted"]}
assert rows["d/a.pt"]["what"] == "removed" and rows["d/b.pt"]["what"] == "changed" and d["nbytes"] == rows["d/a.pt"]["nbytes"] > 0, d'
}

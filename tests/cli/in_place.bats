#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# -i: edits in place. What a crash leaves is shown in tests/crash.
load common.bash

@test "-i edits the file itself and says how little was written" {
	ckpt strip-module -i ddp_trainer.pt; want 0
	[[ $output =~ ^"14 keys renamed in 'model', "[0-9.]+"K written in " ]]
	ckpt ls ddp_trainer.pt 'model.module.*'; [ "$status" = 1 ]
	python3 -c 'import sys, zipfile; sys.exit(zipfile.ZipFile("ddp_trainer.pt").testzip() is not None)'
	ckpt strip-module -i ddp_trainer.pt
	want 1 "ckpt: ddp_trainer.pt: no key begins with 'module.', nothing was written
hint: --if-present makes the exit code 0
hint: for a plain model: ckpt edit -i ddp_trainer.pt --extract model"
	cp ddp_trainer.pt before
	ckpt strip-module -i --if-present ddp_trainer.pt; want 0
	[ "$output" = "nothing to change, nothing was written" ]
	cmp before ddp_trainer.pt && rm before
	want_files
}

@test "every edit takes -i, and then no OUT" {
	ckpt remap -i --all cuda:0 ddp_trainer.pt; want 0
	ckpt remap -i cuda:0=cpu ddp_trainer.pt; want 0
	ckpt select -i --drop optimizer ddp_trainer.pt; want 0
	ckpt rename -i -e s/head/tail/ ddp_trainer.pt; want 0
	ckpt extract -i model ddp_trainer.pt; want 0
	ckpt edit -i ddp_trainer.pt --strip-module --remap-all cuda:1; want 0
	ckpt add-module -i ddp_trainer.pt; want 0
	"$CKPT" ls ddp_trainer.pt | grep -q 'module.tail.weight .*cuda:1'
	ckpt strip-module -i ddp_trainer.pt out.pt
	[[ $status = 64 && $stderr = "ckpt: strip-module: with --in-place there is no OUT"* ]]
	ckpt strip-module -i --no-sync ddp_trainer.pt
	want 64 "ckpt: --in-place and --no-sync exclude each other: it could not be undone"
	ckpt cast -i bf16 ddp_trainer.pt; want 0
	[[ $output = *"written anew as bytes of tensors were changed, "* ]]
	want_files
}

@test "links and files with several names are left alone" {
	ln -s ddp_model.pt link.pt
	ckpt strip-module -i link.pt
	want 2 "ckpt: link.pt: is a symbolic link: what it points to would be changed
hint: -f edits it all the same"
	ln ddp_model.pt name.pt
	ckpt strip-module -i ddp_model.pt
	want 2 "ckpt: ddp_model.pt: has 2 names (hard links): all of them would be changed
hint: -f edits it all the same"
	input_is_untouched
	ckpt strip-module -f -i link.pt; want 0
	cmp ddp_model.pt name.pt
}

@test "a dry run in place changes nothing" {
	ckpt strip-module -n -i ddp_model.pt; want 0
	[[ $output = *"would be written (dry run)" ]]
	input_is_untouched
}

@test "a file that may not be written is not" {
	[ "$(id -u)" != 0 ] || skip "root may write everything"
	chmod a-w ddp_model.pt
	ckpt strip-module -i ddp_model.pt
	[[ $status = 2 && $stderr = *"cannot open it for writing"* ]]
}

@test "what was dropped in place is gone after a save" {
	ckpt select -i --drop optimizer ddp_trainer.pt; want 0
	ckpt remap --if-present cuda:9=cpu ddp_trainer.pt small.pt; want 0
	[ "$(stat -c %s small.pt)" -lt 10000 ]
	[ "$(stat -c %s ddp_trainer.pt)" -gt 23009 ]
}

@test "a cast in place asks for links, too, and does not split the names" {
	ln ddp_model.pt name.pt
	ckpt cast -i bf16 ddp_model.pt
	[[ $status = 2 && $stderr = *"has 2 names (hard links)"* ]]
	ckpt cast -i -f bf16 ddp_model.pt
	want 2 "ckpt: ddp_model.pt: has 2 names (hard links), and has to be written anew as bytes of tensors were changed: the others would keep the old file
hint: OUT in place of -i writes another file"
	ckpt cast -n -i -f bf16 ddp_model.pt; want 2 "$stderr"
	input_is_untouched
	rm name.pt
	ln -s ddp_model.pt link.pt
	ckpt cast -i bf16 link.pt
	[[ $status = 2 && $stderr = *"is a symbolic link"* ]]
	input_is_untouched
	ckpt cast -f -i bf16 link.pt; want 0
	[ -L link.pt ]
	"$CKPT" ls ddp_model.pt | grep -q bfloat16
}

@test "a record that reaches into another is not wiped" {
	python3 - <<-'END'
	import struct, zipfile
	data = bytearray(open("ddp_model.pt", "rb").read())
	# the local header of data.pkl gets a longer extra field: its data now end inside of the next record
	length = struct.unpack_from("<H", data, 28)[0]
	struct.pack_into("<H", data, 28, length + 200)
	open("overlap.pt", "wb").write(data)
	END
	cp overlap.pt before
	ckpt strip-module -i overlap.pt
	[ "$status" = 2 ]
	cmp overlap.pt before
}

@test "damage is not given a new checksum by a cast" {
	python3 - <<-'END'
	import zipfile
	data = bytearray(open("ddp_model.pt", "rb").read())
	info = next(i for i in zipfile.ZipFile("ddp_model.pt").infolist() if i.filename.endswith("/data/0"))
	at = info.header_offset + 30 + len(info.filename) + int.from_bytes(data[info.header_offset + 28:info.header_offset + 30], "little")
	data[at] ^= 1
	open("damaged.pt", "wb").write(data)
	END
	ckpt cast bf16 damaged.pt out.pt
	[[ $status = 2 && $stderr = "ckpt: damaged.pt: data/0: is damaged: its CRC-32 is "* ]]
	[ ! -e out.pt ]
}

# A file of 1.4 MB, of which `view` shows 400 KB.
make_large() {
	python3 - "$1" <<'PYTHON'
import struct, sys, zipfile
def tensor(key, n):
    return (b"ctorch._utils\n_rebuild_tensor_v2\n((X\x07\0\0\0storagectorch\nFloatStorage\nX\x01\0\0\0" + key + b"X\x03\0\0\0cpuJ" + struct.pack("<i", n) + b"tQK\0J"
            + struct.pack("<i", n) + b"\x85K\x01\x85\x89ccollections\nOrderedDict\n)RtR")
body = b"\x80\x02}(X\x01\0\0\0a" + tensor(b"0", 100000) + b"X\x01\0\0\0b" + tensor(b"1", 250000) + b"u."
with zipfile.ZipFile(sys.argv[1], "w") as out:
    out.writestr("large/data.pkl", body)
    out.writestr("large/data/0", bytes(range(250)) * 1600)
    out.writestr("large/data/1", bytes(range(250)) * 4000)
    out.writestr("large/version", b"3\n")
PYTHON
	"$CKPT" convert -q "$1" "$1.torch" && mv "$1.torch" "$1"
}

blocks() {
	stat -c %b "$1"
}

@test "an edit in place says how much is dead, and --free gives it back" {
	make_large large.pt
	cp large.pt freed.pt
	before=$(blocks large.pt)
	ckpt select -i --drop b large.pt; want 0
	[[ $output =~ ", "[0-9.]+[KM]" are dead bytes now (--free gives them back)"$ ]]
	[ "$(blocks large.pt)" -ge "$before" ]
	"$CKPT" info large.pt | grep -Eq '^dead bytes  1.0M, of which the disk has (1.0M|[0-9]{3,4}K): edits in place left them'
	"$CKPT" info --json large.pt | grep -Eq '"dead_nbytes":100[0-9]*,"dead_on_disk":[0-9]{6}'
	ckpt compact -i large.pt
	[[ $status = 1 && $stderr = *"hint: --free gives the dead bytes of earlier edits back" ]]
	ckpt compact large.pt small.pt; want 0
	[[ $output = "1.0M of dead bytes left out, "* ]]
	ckpt compact -i --free large.pt; want 0
	[[ $output =~ ", "[0-9.]+[KM]" given back to the disk (du shows that, ls does not)"$ ]]
	"$CKPT" diff -q large.pt small.pt
	ckpt select -i --free --drop b freed.pt; want 0
	[[ $output =~ ", "[0-9.]+[KM]" given back to the disk (du shows that, ls does not)"$ ]]
	"$CKPT" diff -q freed.pt small.pt
	"$CKPT" verify -q large.pt freed.pt
	[ "$(blocks freed.pt)" -lt $((before / 2)) ]
	"$CKPT" info freed.pt | grep -q '^dead bytes  1.0M, of which the disk has none'
	[[ $("$CKPT" why freed.pt) = *" are dead bytes, which edits in place left, but take no block of the disk: holes "* ]]
	for dry in "" -n; do
		ckpt compact -i --free $dry freed.pt
		[[ $status = 1 && $stderr = *" and the file's 1.0M of dead bytes take no block of the disk (holes, or less than one), nothing was written
hint: 'ckpt compact IN OUT' writes a file without them; "* ]]
	done
	ckpt rename -i -e s/a/c/ freed.pt; want 0
	[[ $output != *"dead bytes"* ]]
	rm large.pt freed.pt small.pt
	want_files
}

@test "--free is refused where another process has the file open, and without -i" {
	ckpt strip-module --free ddp_model.pt out.pt
	want 64 "ckpt: --free is for --in-place: an OUT has no dead bytes"
	cp ddp_model.pt before
	exec 9<ddp_model.pt
	ckpt strip-module -i --free ddp_model.pt 9<&-
	want 2 "ckpt: ddp_model.pt: process $$ has it open: bytes that it may have mapped would become zeros
hint: -f edits it all the same" || [[ $stderr = "ckpt: ddp_model.pt: process "*" has it open: "* ]]
	cmp before ddp_model.pt && rm before
	ckpt strip-module -i -f --free ddp_model.pt 9<&-; want 0
	exec 9<&-
	ckpt add-module -i --free ddp_model.pt; want 0
	"$CKPT" verify -q ddp_model.pt
	want_files
}

@test "a file does not grow with each edit in place" {
	cp ddp_trainer.pt work.pt
	for _ in 1 2 3 4 5 6 7 8; do
		"$CKPT" strip-module -i -q work.pt
		"$CKPT" add-module -i -q work.pt
		[ "$(stat -c %s work.pt)" -lt $((2 * $(stat -c %s ddp_trainer.pt))) ]
	done
	"$CKPT" verify -q work.pt
	"$CKPT" diff -q work.pt ddp_trainer.pt
	rm work.pt
	want_files
}

@test "a dry run with --free says that dead bytes would be given back, as the real run does" {
	"$CKPT" cast -q --all f64 ddp_trainer.pt wide.pt
	cp wide.pt again.pt
	for files in wide.pt "wide.pt again.pt"; do
		ckpt select -i -n --free --drop optimizer $files
		[ "$status" = 0 ]
		[[ $output = *"would be given back to the disk"* && $output != *"dead bytes"* ]] || { echo "$output"; false; }
		ckpt select -i -n --drop optimizer $files
		[[ $output = *"would be dead bytes then"* ]]
	done
}

#!/usr/bin/env bats
# -i: edits in place. What a crash leaves is shown in tests/crash.
load common.bash

@test "-i edits the file itself and says how little was written" {
	ckpt strip-module -i ddp_trainer.pt; want 0
	[[ $output =~ ^"14 keys renamed in 'model', "[0-9.]+"K written in " ]]
	ckpt ls ddp_trainer.pt 'model.module.*'; [ "$status" = 1 ]
	python3 -c 'import sys, zipfile; sys.exit(zipfile.ZipFile("ddp_trainer.pt").testzip() is not None)'
	ckpt strip-module -i ddp_trainer.pt
	want 1 "ckpt: ddp_trainer.pt: no key begins with 'module.', nothing was written
hint: --if-present makes the exit code 0"
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

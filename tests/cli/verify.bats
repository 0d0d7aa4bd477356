#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# What verify finds is compared with other judges in tests/verify and tests/interop.
load common.bash

# flip FILE OFFSET: one bit of that byte
flip() {
	python3 - "$1" "$2" <<-'END'
	import sys
	with open(sys.argv[1], "r+b") as file:
	    file.seek(int(sys.argv[2]))
	    byte = file.read(1)[0]
	    file.seek(int(sys.argv[2]))
	    file.write(bytes([byte ^ 4]))
	END
}

# data_of RECORD FILE: where its bytes begin, as Python's zipfile sees it
data_of() {
	python3 - "$@" <<-'END'
	import struct, sys, zipfile
	info = zipfile.ZipFile(sys.argv[2]).getinfo(sys.argv[1])
	with open(sys.argv[2], "rb") as file:
	    file.seek(info.header_offset + 26)
	    print(info.header_offset + 30 + sum(struct.unpack("<HH", file.read(4))))
	END
}

@test "what is sound is said to be, with exit status 0" {
	ckpt verify ddp_model.pt ddp_trainer.pt; want 0
	[[ ${lines[0]} = "ddp_model.pt: sound: 14 tensors, the checksums of 20 records with "*" are right" ]]
	[[ ${lines[1]} = "ddp_trainer.pt: sound: "* ]]
	ckpt verify -q ddp_model.pt; want 0
	[ -z "$output" ]
	input_is_untouched
}

@test "a wrong byte is found wherever it is in a record, whatever the record's size" {
	PYTHONPATH=$CKPT_SOURCE_DIR/tests/bad python3 -B - <<-'END'
	from files import *
	sizes = (4, 4096, 200000, (1 << 20) - 4, (1 << 20) + 4, 3 << 20)  # below and above what a thread takes at once
	names = {"t%d" % i: tensor(str(i), numel=n // 4, shape=(n // 4,)) for i, n in enumerate(sizes)}
	records = [("data.pkl", state_dict(**names))] + [("data/%d" % i, bytes(range(256)) * (n // 256) + b"x" * (n % 256))
	                                                 for i, n in enumerate(sizes)] + [("version", b"3\n")]
	whole = archive(records)
	open("whole.pt", "wb").write(whole)
	at = 0
	for i, (name, data) in enumerate(records[1:-1]):
	    at = whole.index(("archive/%s" % name).encode(), at)
	    begin = whole.index(data, at)
	    for where in (0, len(data) // 2, len(data) - 1):
	        damaged = bytearray(whole)
	        damaged[begin + where] ^= 64
	        open("%d-%d.pt" % (i, where), "wb").write(damaged)
	END
	ckpt verify whole.pt; want 0
	for file in ?-*.pt; do
		ckpt verify "$file"; want 1
		[[ ${lines[0]} = "$file: archive/data/${file%%-*}: its "*" bytes have the checksum "* ]]
	done
}

@test "a wrong byte of a tensor is found, and said which record and tensor it is in" {
	flip ddp_model.pt "$(data_of ddp_model/data/3 ddp_model.pt)"
	ckpt verify ddp_model.pt; want 1
	[[ ${lines[0]} =~ ^"ddp_model.pt: ddp_model/data/3: its "[0-9]+" bytes have the checksum "[0-9a-f]{8}", recorded is "[0-9a-f]{8}" (in '"[a-z0-9_.]+"')"$ ]]
	name=${lines[0]##*"(in '"}
	"$CKPT" ls ddp_model.pt | grep -q "^${name%\')} "
	[[ ${lines[1]} = "ddp_model.pt: DAMAGED, 1 finding; "* ]]
	[ ${#lines[@]} = 2 ]
	ckpt verify --quick ddp_model.pt; want 0
	[[ $output = *"only metadata were looked at" ]]
	ckpt verify ddp_trainer.pt ddp_model.pt nothing.pt # the worst counts
	want 1 "ckpt: nothing.pt: cannot open: No such file or directory"
}

@test "a damaged pickle is one finding, not two" {
	flip ddp_model.pt "$(($(data_of ddp_model/data.pkl ddp_model.pt) + 40))"
	ckpt verify ddp_model.pt; want 1
	[ ${#lines[@]} = 2 ]
	[[ ${lines[0]} = "ddp_model.pt: ddp_model/data.pkl: its "* ]]
}

@test "the verdict on a truncated file says whether the model is whole, and how much is gone" {
	head -c 15000 ddp_trainer.pt >cut.pt
	ckpt verify cut.pt; want 1 "hint: to save what is whole: ckpt repair cut.pt OUT"
	[ "${lines[1]}" = "cut.pt: DAMAGED, 1 finding; 14 of 38 tensors are lost, all of them of an optimizer: 'optimizer.state.3.exp_avg', \
'optimizer.state.3.exp_avg_sq', 'optimizer.state.4.step' and 11 more" ]
	local whole missing
	whole=$(stat -c %s ddp_trainer.pt)
	[[ ${lines[0]} =~ "at least "([0-9]+)" are missing; the list of tensors and the first 24 of 38 storages are whole" ]]
	missing=${BASH_REMATCH[1]}
	((missing > 3000 && missing <= whole - 15000)) || { echo "$missing of $whole" >&2; return 1; }
	ckpt repair -n cut.pt
	[[ ${lines[0]} = *"at least $missing are missing"* ]]
	ckpt why cut.pt
	[[ $output = *"at least $missing are missing"* ]]
	ckpt verify --json cut.pt; want 1
	[[ $output = *'"tensors":0,'* ]]
	# the directory, of which some or all is gone; the middle of the model; the list of tensors
	local cut said
	while read -r cut said; do
		head -c "$cut" ddp_trainer.pt >cut.pt
		ckpt verify cut.pt
		[[ $status = 1 && ${lines[1]} = "cut.pt: DAMAGED, 1 finding; $said"* ]] || { echo "$cut: ${lines[1]}" >&2; return 1; }
	done <<-END
		$((whole - 1)) all 38 tensors are whole
		$((whole - 2000)) all 38 tensors are whole
		6000 33 of 38 tensors are lost, 24 of them of an optimizer: 'model.module.stem.1.num_batches_tracked', 'model.
		1000 no tensors can be listed
	END
	head -c 6000 ddp_trainer.pt >cut.pt
	ckpt verify --quick cut.pt
	[[ ${lines[1]} = *"; 'ckpt repair -n' tells which tensors are whole"* ]]
}

@test "a truncated file, and one that is none" {
	head -c 5000 ddp_model.pt >cut.pt
	ckpt verify cut.pt; want 1 "hint: to save what is whole: ckpt repair cut.pt OUT"
	ckpt verify -q cut.pt; want 1
	[[ ${lines[0]} = "cut.pt: "*"cut off"* || ${lines[0]} = "cut.pt: "*"truncated"* || ${lines[0]} = "cut.pt: "*"is whole"* || ${lines[0]} = "cut.pt: "*"are whole"* ]]
	echo '<html>' >page.pt
	ckpt verify page.pt
	want 2 "ckpt: page.pt: is an HTML page: the server sent a web page (an error, a login) instead of the model"
}

@test "without checksums nobody can tell" {
	"$CKPT" convert -q --to torch-legacy ddp_model.pt legacy.bin
	ckpt verify legacy.bin; want 2
	[[ ${lines[0]} = "legacy.bin: a torch legacy stream has no checksums: "* ]]
	[[ ${lines[1]} = "legacy.bin: cannot tell: 14 tensors" ]]
	"$CKPT" convert -q --crc off ddp_model.pt off.pt
	ckpt verify off.pt; want 2
	[[ ${lines[0]} = "off.pt: 20 records have no checksum: nothing tells if their "*" bytes are as they were written" ]]
}

@test "safetensors that fill the file are complete, and no more" {
	"$CKPT" convert -q ddp_model.pt m.safetensors
	for options in "" --quick "--quick --json=/dev/null"; do
		ckpt verify $options m.safetensors; want 0
	done
	ckpt verify m.safetensors; want 0
	[ "$output" = "m.safetensors: complete: 14 tensors fill the file to its last byte; no checksums" ]
	ckpt verify --require-checksums m.safetensors; want 2
	[[ ${lines[1]} = "m.safetensors: cannot tell: 14 tensors" ]]
	ckpt verify --json m.safetensors; want 0
	[[ $output = *'"verdict":"complete"'* ]]
	echo >>m.safetensors
	ckpt verify m.safetensors; want 1
	"$CKPT" convert -q --crc off ddp_model.pt plain.pt
	ckpt verify plain.pt; want 2
	[ "$(ckpt verify plain.pt m.safetensors; echo "$status")" = 1 ]
}

@test "a SHA-256 from elsewhere proves every byte of any file" {
	"$CKPT" convert -q --to torch-legacy ddp_model.pt old.bin
	"$CKPT" convert -q ddp_model.pt m.safetensors
	for file in old.bin m.safetensors ddp_model.pt; do
		sum=$(sha256sum <"$file")
		ckpt verify --require-checksums --sha256 "${sum%% *}" "$file"; want 0
		[[ $output = "$file: sound: 14 tensors, "*"the SHA-256 of 1 file is right" ]]
		ckpt verify --sha256 "$(sha256sum </dev/null | cut -c1-64)" "$file"; want 1
		[[ $output = *"$file: its SHA-256 is ${sum%% *}, wanted e3b0c442"* ]]
	done
	ckpt verify --sha256 12ab old.bin; want 64 "ckpt: old.bin: a SHA-256 sum has 64 hex digits"
	mkdir dir
	ckpt verify --sha256 "${sum%% *}" dir; want 64 "ckpt: dir: is a directory: one SHA-256 sum is that of one file"
	ckpt verify --sha256 "${sum%% *}" old.bin m.safetensors
	[ "$status" = 64 ]
	cp ddp_model.pt dir/1.pt
	ckpt verify --sha256 "${sum%% *}" dir; want 0 # one file alone
	cp ddp_model.pt dir/2.pt
	ckpt verify --sha256 "${sum%% *}" dir
	[[ $status = 64 && $stderr = *"one SHA-256 is that of one file"* && $output != *DAMAGED* ]]
	"$CKPT" convert -q ddp_model.pt set --shard-size 2KB
	index=set/model.safetensors.index.json
	ckpt verify --sha256 "$(sha256sum <$index | cut -c1-64)" $index
	want 64 "ckpt: $index: is the index of several files: one SHA-256 sum is that of one file"
	ckpt verify --quick --sha256 "${sum%% *}" old.bin
	[ "$status" = 64 ]
}

@test "a file of sums: all files of a directory have to be in it" {
	"$CKPT" convert -q ddp_model.pt "$BATS_TEST_TMPDIR/set" --shard-size 2KB
	"$CKPT" split -q --ranks 2 ddp_trainer.pt dcp
	mv "$BATS_TEST_TMPDIR/set" set
	ln -s ../ddp_trainer.pt 'set/a
b'
	for folder in set dcp; do
		(cd $folder && find . ! -type d -print0 | xargs -0 sha256sum) >sums
		mv sums $folder/sums
		ckpt verify --sha256sums $folder/sums --require-checksums $folder; want 0
		[[ $output = *"$folder: sound: "*" the SHA-256 of "[0-9]" files are right"* ]]
		(cd $folder && find . ! -type d -print0 | xargs -0 sha256sum --tag) >$folder/tags
		ckpt verify --sha256sums $folder/tags $folder; want 0
		mv $folder/tags .
		(cd / && ckpt verify --sha256sums "$OLDPWD/$folder/sums" "$OLDPWD/$folder")
		echo notes >$folder/new
		ckpt verify --sha256sums $folder/sums $folder; want 2
		[[ $output = *"$folder/new: the file of sums does not list it"* ]]
		rm $folder/new
	done
	printf x | dd of=dcp/__1_0.distcp bs=1 seek=300 conv=notrunc status=none
	ckpt verify --sha256sums dcp/sums dcp; want 1
	[[ $output = *"dcp/__1_0.distcp: its SHA-256 is "* ]]
	rm 'set/a
b'
	ckpt verify --sha256sums set/sums set; want 1
	[[ $output = *"set: 'a\\nb' is listed in the file of sums, and missing"* ]]
	for line in "no sum" "$(sha256sum ddp_model.pt | tr 0-9a-f g)" "\\$(sha256sum </dev/null | cut -c1-64)  \\x"; do
		printf '%s\n' "$line" >wrong
		ckpt verify --sha256sums wrong ddp_model.pt
		[[ $status = 2 && $stderr = "ckpt: wrong: line 1 "* ]]
	done
	ckpt verify --sha256sums none ddp_model.pt
	[[ $status = 2 && $stderr = "ckpt: none: "* ]]
}

@test "bytes behind the end, and dead ones of an edit in place, are odd, not wrong" {
	echo more >>ddp_model.pt
	ckpt verify ddp_model.pt; want 0
	[[ $output = *"; 1 thing is unusual but harmless (-v)" ]]
	ckpt verify -v ddp_model.pt; want 0
	[[ ${lines[0]} = "ddp_model.pt: +0x"*": 5 bytes follow the end of the archive" ]]
	"$CKPT" strip-module -q -i ddp_trainer.pt
	ckpt verify -v ddp_trainer.pt; want 0
	[[ ${lines[0]} = "ddp_trainer.pt: +0x"*" bytes belong to no record, as edits in place leave them" ]]
}

@test "a promise of .format_version that repacking broke" {
	python3 - <<-'END'
	import zipfile
	with zipfile.ZipFile("ddp_model.pt") as old, zipfile.ZipFile("packed.pt", "w") as new:
	    for info in old.infolist():
	        new.writestr(info.filename, old.read(info))
	END
	ckpt verify packed.pt; want 1
	[[ $output = *".format_version: promises a layout that the file does not have"* ]]
	"$CKPT" convert -q packed.pt mended.pt
	ckpt verify mended.pt; want 0
}

@test "numbers that are not finite" {
	PYTHONPATH=$CKPT_SOURCE_DIR/tests/bad python3 -B - <<-'END'
	import struct
	from files import *
	data = struct.pack("<4f", 1, float("nan"), float("-inf"), float("inf"))
	body = b"}(" + text("a") + tensor(shape=(1,)) + text("w") + tensor(key="1", shape=(3,), offset=1) + b"u"
	open("nan.pt", "wb").write(torch_file(pickled(body), extra=[("data/1", data)]))
	END
	ckpt verify --check-finite nan.pt; want 1
	[[ $output = *": 'w' has 1 NaN and 2 infinite values"*"NOT FINITE: 2 tensors"* ]]
	ckpt verify nan.pt; want 0
	ckpt verify --quick --check-finite nan.pt
	[ "$status" = 64 ]
}

@test "numbers of sparse tensors that are not finite" {
	PYTHONPATH=$CKPT_SOURCE_DIR/tests/bad python3 -B - <<-'END'
	import struct
	from files import *
	layout = glob("torch.serialization", "_get_layout") + b"(" + text("torch.sparse_coo") + b"tR"
	parts = b"(" + tensor(key="1", kind="LongStorage", numel=3, shape=(1, 3), stride=(3, 1)) + tensor(key="2", shape=(3,)) + numbers((9,)) + b"t"
	body = b"}(" + text("s") + glob("torch._utils", "_rebuild_sparse_tensor") + b"(" + layout + parts + b"tR" + b"u"
	data = [("data/1", struct.pack("<3q", 1, 4, 8)), ("data/2", struct.pack("<4f", 1, float("nan"), 2, float("inf")))]
	open("sparse.pt", "wb").write(torch_file(pickled(body), extra=data))
	END
	ckpt verify --check-finite sparse.pt; want 1
	[[ $output = *": archive/data/2: 's' has 1 NaN and 0 infinite values"*"NOT FINITE: 1 tensor,"* ]]
}

@test "a part of a sparse, nested or quantized tensor that reaches out of its storage" {
	PYTHONPATH=$CKPT_SOURCE_DIR/tests/bad python3 -B - <<-'END'
	import struct
	from files import *
	layout = glob("torch.serialization", "_get_layout") + b"(" + text("torch.sparse_coo") + b"tR"
	data = [("data/1", bytes(16)), ("data/2", bytes(16))]
	whole, out = (tensor(key="1", kind="LongStorage", numel=2, shape=(1, count), stride=(count, 1)) for count in (2, 3))
	values = tensor(key="2", shape=(2,))
	for name, part in (("fine", whole), ("out", out)):
	    body = b"}(" + text("s") + glob("torch._utils", "_rebuild_sparse_tensor") + b"(" + layout + b"(" + part + values + numbers((9,)) + b"ttRu"
	    open("sparse-%s.pt" % name, "wb").write(torch_file(pickled(body), extra=data))
	    body = b"}(" + text("n") + glob("torch._utils", "_rebuild_nested_tensor") + b"(" + values + whole + whole + part + b"tRu"
	    open("nested-%s.pt" % name, "wb").write(torch_file(pickled(body), extra=data))
	    scheme = glob("torch", "per_channel_affine")
	    body = b"}(" + text("q") + glob("torch._utils", "_rebuild_qtensor") + b"(" + storage("2", "QInt8Storage", 16) + number(0) + numbers((2,)) + numbers((1,)) + b"(" + scheme + part + whole + b"K\x00t\x89" + glob("collections", "OrderedDict") + b")RtRu"
	    open("quantized-%s.pt" % name, "wb").write(torch_file(pickled(body), extra=data))
	END
	for kind in sparse nested quantized; do
		ckpt verify $kind-fine.pt; want 0
		ckpt verify $kind-out.pt; want 1
		[[ $output = *"reaches 24 bytes into its storage '1' of 16 bytes"* ]]
		ckpt ls $kind-out.pt
		[[ $status = 2 && $stderr = *"reaches 24 bytes into its storage '1' of 16 bytes"* ]]
	done
}

@test "a directory: every item, and the index against them" {
	"$CKPT" split -q --ranks 2 ddp_trainer.pt dcp
	ckpt verify dcp; want 0
	[[ $output = "dcp: sound but for its index, which has no checksum: "* ]]
	touch -r dcp/.metadata dcp/__7_0.distcp # a rank that had nothing to save
	ckpt verify dcp; want 0
	[[ $output = "dcp: sound but for its index, which has no checksum: "* ]]
	mv dcp/__7_0.distcp dcp/__8_0.distcp; echo spare >dcp/__8_0.distcp
	ckpt verify -v dcp; want 0
	[[ $output = *"1 data file of 6 bytes that the index does not mention (__8_0.distcp)"* ]]
	rm dcp/__8_0.distcp
	flip dcp/__1_0.distcp 2000
	ckpt verify dcp; want 1
	[[ ${lines[0]} = "dcp: "*"' in __1_0.distcp at "* ]]
	rm dcp/__0_0.distcp
	ckpt verify dcp; want 1
	[[ $output = *"the data file '__0_0.distcp' is missing"* ]]
}

@test "findings as JSON" {
	flip ddp_model.pt "$(data_of ddp_model/data/3 ddp_model.pt)"
	ckpt verify --json ddp_model.pt nothing.pt
	[ "$status" = 1 ]
	python3 - "$output" <<-'END'
	import json, sys
	document = json.loads(sys.argv[1])
	one, other = document["inputs"]
	assert document["command"] == "verify", document
	assert one["verdict"] == "damaged" and one["checked"] == 19, one
	assert [(f["kind"], f["record"]) for f in one["findings"]] == [("damage", "ddp_model/data/3")], one
	assert other["verdict"] == "error" and "No such file" in other["error"], other
	END
}

@test "latest is the newest that verifies" {
	mkdir run
	cp ddp_model.pt run/step-9.pt
	cp ddp_model.pt run/step-10.pt
	"$CKPT" split -q --ranks 2 ddp_model.pt run/step-11
	head -c 4000 ddp_model.pt >run/step-12.pt
	echo '{}' >run/config.json
	touch -d '2020-01-01 00:00' run/step-9.pt run/step-10.pt
	touch -d '2020-01-03 00:00' run/step-12.pt
	touch -d '2020-01-02 00:00' run/step-11/.metadata run/step-11/*
	ckpt latest run
	[ "$status" = 0 ]
	[ "$output" = run/step-11 ]
	[[ $stderr = "ckpt: run/step-12.pt: passed over: "* ]]
	rm -r run/step-11
	ckpt latest -q run/; want 0
	[ "$output" = run/step-10.pt ]
	rm run/*.pt
	ckpt latest run
	want 1 "ckpt: run: there is no checkpoint that verifies"
	mkdir none
	ckpt latest none
	want 1 "ckpt: none: there is no checkpoint that verifies"
	ckpt latest nowhere
	want 2 "ckpt: nowhere: No such file or directory"
}

@test "damage is not passed off as sound, and goes along only where that is asked for" {
	python3 - <<-END
	import zipfile
	data = bytearray(open("ddp_model.pt", "rb").read())
	with zipfile.ZipFile("ddp_model.pt") as z:
	    record = z.getinfo("ddp_model/data/6")
	    data[data.index(z.read(record)) + 2000] ^= 4
	open("bad.pt", "wb").write(data)
	END
	ckpt verify bad.pt; want 1
	for command in "split --ranks 2" "split --ranks 2 --dim 1" "split --ranks 3 --to safetensors" "convert --to safetensors" "convert --to npz" "convert --to npy" \
		"convert --to torch-legacy" "convert --byteorder big" "convert --crc off" "cast bfloat16" "convert --to safetensors --shard-size 1KB"; do
		ckpt $command bad.pt out
		[ "$status" = 2 ]
		[[ $stderr = *"is damaged: its CRC-32 is "*", recorded is "*"hint: 'ckpt verify' says what is damaged; --ignore-damage writes it all the same" ]]
		[ ! -e out ]
		ckpt $command --ignore-damage bad.pt out
		echo "$command: $status $stderr"
		[ "$status" = 1 ]
		[[ $stderr = "ckpt: bad.pt: ddp_model/data/6: its 2304 bytes have the checksum "*"; taken as it is"* ]]
		rm -r out
	done
	# what carries the recorded checksum carries the damage
	ckpt strip-module bad.pt out.pt; want 0
	ckpt verify out.pt; want 1
	ckpt strip-module -f --ignore-damage bad.pt out.pt
	[ "$status" = 1 ]
	ckpt verify out.pt; want 0
}

@test "--ignore-damage of a directory, and of what is sound" {
	ckpt split -q --ranks 2 ddp_model.pt sound; want 0
	ckpt split -q --ignore-damage --ranks 2 ddp_model.pt again; want 0
	diff -r sound again
	python3 - <<-END
	import zipfile, io
	data = bytearray(open("sound/__0_0.distcp", "rb").read())
	with zipfile.ZipFile("ddp_model.pt") as z:
	    data[data.index(z.read("ddp_model/data/6")[:1000]) + 9] ^= 4
	open("sound/__0_0.distcp", "wb").write(data)
	END
	for command in "reshard --ranks 3" "reshard --ranks 2 --dim 1" "convert --to safetensors" "cast bfloat16"; do
		ckpt $command sound out
		[ "$status" = 2 ]
		[[ $stderr = *"is damaged: "* ]]
		ckpt $command --ignore-damage sound out
		echo "$command: $status $stderr"
		[ "$status" = 1 ]
		[[ $stderr = "ckpt: sound: archive/data/0: "*" have the checksum "*"; taken as it is"* ]]
		rm -r out
	done
	ckpt merge sound out.pt; want 0
	ckpt verify out.pt; want 1
	ckpt merge -f --ignore-damage sound out.pt; [ "$status" = 1 ]
	ckpt verify out.pt; want 0
}

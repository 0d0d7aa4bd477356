#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# What is recovered of files that are cut off or damaged is judged without ckpt in tests/repair, and by torch in tests/interop.
load common.bash

# change FILE CODE: CODE changes the bytearray b
change() {
	python3 - "$@" <<-'END'
	import sys
	with open(sys.argv[1], "rb") as file:
	    b = bytearray(file.read())
	exec(sys.argv[2])
	with open(sys.argv[1], "wb") as file:
	    file.write(b)
	END
}

@test "a file without its end is whole again" {
	head -c 8000 ddp_model.pt >cut.pt
	ckpt repair cut.pt out.pt; want 0
	[[ ${lines[0]} = "cut.pt: damage: is truncated: 8000 bytes are there, "* ]]
	[[ ${lines[1]} = "14 of 14 tensors recovered, all of them proven by their checksums (3.8K), "*" written in "* ]]
	[ "$("$CKPT" ls out.pt)" = "$("$CKPT" ls ddp_model.pt)" ]
	ckpt verify out.pt; want 0
	mkdir new && mv out.pt new/ddp_model.pt
	"$CKPT" convert -q ddp_model.pt same.pt && mv same.pt new/
	want_files cut.pt new
	input_is_untouched
}

# whole_tensors FILE CUT: what of CUT, a safetensors file that is FILE's beginning, lies in front of its end
whole_tensors() {
	python3 - "$@" <<-'END'
	import hashlib, json, os, sys
	with open(sys.argv[1], "rb") as file:
	    data = file.read()
	begin = 8 + int.from_bytes(data[:8], "little")
	for name, entry in sorted(json.loads(data[8:begin]).items()):
	    at, end = [begin + offset for offset in entry["data_offsets"]] if name != "__metadata__" else (0, 1 << 62)
	    if end <= os.path.getsize(sys.argv[2]):
	        print(name, entry["dtype"], entry["shape"], hashlib.sha256(data[at:end]).hexdigest())
	END
}

@test "of a safetensors file that broke off the whole tensors are saved" {
	"$CKPT" convert -q ddp_model.pt w.safetensors
	for size in 1216 1700 3688 4008 4968 4999; do
		head -c $size w.safetensors >cut.safetensors
		ckpt repair -f cut.safetensors out.safetensors; want 1
		[[ ${lines[0]} = "cut.safetensors: damage: "*": it is cut short" ]]
		[ "$(whole_tensors out.safetensors out.safetensors)" = "$(whole_tensors w.safetensors cut.safetensors)" ]
		[ "$("$CKPT" ls out.safetensors | tail -1 | cut -d' ' -f1)" = "$(whole_tensors w.safetensors cut.safetensors | wc -l)" ]
	done
	[[ $output = *"cut.safetensors: lost: 'module.stem.1.weight', 32 bytes: +0x1368: the file ends 31 bytes into it, of 32"* ]]
	ckpt repair --fill zeros cut.safetensors filled.safetensors; want 1
	[ "$(whole_tensors filled.safetensors cut.safetensors)" = "$(whole_tensors w.safetensors cut.safetensors)" ]
	[ "$("$CKPT" ls filled.safetensors)" = "$("$CKPT" ls w.safetensors)" ]
	{ cat w.safetensors; echo junk; } >longer.safetensors
	ckpt repair longer.safetensors same.safetensors; want 1
	cmp same.safetensors w.safetensors
	head -c 1100 w.safetensors >header.safetensors
	ckpt repair header.safetensors none.safetensors
	[[ $status = 2 && $stderr = *"nothing can be saved: the header, which alone tells the names"* ]]
	ckpt repair w.safetensors none.safetensors
	[[ $status = 1 && $stderr = "ckpt: w.safetensors: nothing to repair, nothing was written"* ]]
	ckpt repair cut.safetensors none.pt
	want 2 "ckpt: none.pt: this writes a safetensors file, and that is the name of another format
hint: end it in '.safetensors'; 'ckpt convert' makes a torch.save file of that"
	[ ! -e none.safetensors ]
	[ ! -e none.pt ]
}

@test "what is in a file, not its name, says what repair writes" {
	"$CKPT" convert -q ddp_model.pt w.safetensors
	head -c 1700 w.safetensors >model.part
	ckpt repair model.part out.safetensors; want 1
	ckpt repair - pipe.safetensors < <(cat model.part); want 1
	cmp out.safetensors pipe.safetensors
	head -c 6000 ddp_model.pt >cut.pt
	ckpt repair cut.pt none.safetensors
	want 2 "ckpt: none.safetensors: this writes a torch.save file, and that is the name of another format
hint: 'ckpt convert' writes safetensors, of all that can be read"
	[ ! -e none.safetensors ]
}

@test "who looks into a file that broke off is told how to save the rest" {
	"$CKPT" convert -q ddp_model.pt w.safetensors
	"$CKPT" convert -q --shard-size 3KB ddp_model.pt set
	first=$(cd set && echo model-00001*)
	for in in ddp_trainer.pt w.safetensors "set/$first"; do
		head -c $(($(stat -c %s $in) - 300)) $in >"it's cut" && cp "it's cut" $in && rm "it's cut"
	done
	for command in ls info stat; do
		for in in ddp_trainer.pt w.safetensors; do
			ckpt $command $in
			[ "$status" = 2 ]
			[ "${stderr#*$'\n'}" = "hint: to save what is whole: ckpt repair $in OUT" ]
		done
		ckpt $command set
		[ "${stderr#*$'\n'}" = "hint: to save what is whole: ckpt repair set/$first OUT" ]
		ckpt $command - <w.safetensors
		[ "${stderr#*$'\n'}" = "hint: to save what is whole: ckpt repair FILE OUT" ]
	done
	head -c 1000 w.safetensors >header.safetensors # nothing is left that has a name
	ckpt ls header.safetensors
	[[ $status = 2 && $stderr != *hint* ]]
}

@test "what is lost comes first, and what is unproven is counted" {
	"$CKPT" convert -q --crc off ddp_trainer.pt w.pt
	head -c 15000 w.pt >cut.pt
	ckpt repair cut.pt a.pt; [ "$status" = 1 ]
	[[ ${lines[0]} = "cut.pt: damage: "* && ${lines[1]} = "cut.pt: lost: "* ]]
	[ "$(grep -c '^cut.pt: unproven: ' <<<"$output")" = 1 ]
	local lost unproven
	lost=$(grep -c '^cut.pt: lost: ' <<<"$output")
	[[ ${lines[lost + 1]} = "cut.pt: unproven: "* ]]
	[[ ${lines[lost + 2]} =~ ^"cut.pt: and "([0-9]+)" more unproven (-v)"$ ]]
	unproven=$((BASH_REMATCH[1] + 1))
	[[ ${lines[lost + 3]} = "$unproven of 38 tensors recovered, $unproven of them unproven "* ]]
	ckpt repair -v cut.pt b.pt; [ "$status" = 1 ]
	[[ ${lines[1]} = "cut.pt: lost: "* && ${lines[lost + 1]} = "cut.pt: unproven: "* ]]
	[ "$(grep -c '^cut.pt: unproven: ' <<<"$output")" = $unproven ]
	[ "$(ckpt repair -q cut.pt c.pt; echo "$output")" = "" ]
}

@test "what is lost is listed and left out, or filled" {
	head -c 6000 ddp_model.pt >cut.pt
	ckpt repair cut.pt out.pt; want 1
	[ "$(grep -c '^cut.pt: lost: ' <<<"$output")" = 8 ]
	[[ ${lines[0]} = "cut.pt: damage: is truncated: 6000 bytes are there, "*"the first 6 of 14 storages are whole"* ]]
	[[ $output = *"cut.pt: lost: 'module.block.conv.weight', 2.3K: ddp_model/data/6: +0xe80: the file ends 2288 bytes into it, of 2304"* ]]
	[[ $output = *"cut.pt: lost: 'module.head.weight', 320 bytes: its record is not in the file"* ]]
	[[ $output = *"6 of 14 tensors recovered, all of them proven by their checksums (1.0K), 8 lost (2.8K), left out, "* ]]
	[ "$("$CKPT" ls out.pt | tail -1 | cut -d' ' -f1)" = 6 ]
	ckpt verify out.pt; want 0
	ckpt repair --fill nan cut.pt nan.pt; want 1
	[[ $output = *"module.block.norm.num_batches_tracked', 8 bytes: "*"; its dtype has no NaN, it gets zeros"* ]]
	[[ $output = *", filled with NaN, "* ]]
	ckpt cat nan.pt module.head.bias; want 0
	[[ $output = *nan*nan* && $output != *0.* ]]
	ckpt cat nan.pt module.block.norm.num_batches_tracked; want 0
	[[ $output = *0* ]]
	ckpt repair -q --fill zeros cut.pt zeros.pt; want 1
	[ -z "$output" ]
	ckpt verify --check-finite zeros.pt; want 0
	ckpt repair -n -f cut.pt zeros.pt; want 1
	[[ $output = *" would be written (dry run)
cut.pt: "*" tensors are lost"* ]]
	local with_out=${lines[-1]% would be written*}
	ckpt repair -n cut.pt; want 1
	[ "${lines[-1]% would be written*}" = "$with_out" ]
	[ ! -e repaired.pt ]
	ckpt repair cut.pt
	[[ $status = 64 && $stderr = "ckpt: repair: too few operands, wanted IN OUT"* ]]
	want_files cut.pt out.pt nan.pt zeros.pt
}

@test "a byte of one tensor" {
	change ddp_model.pt 'i = b.index(b"PK\3\4", 4000); i = b.index(b"PK\7\x08", i); b[i - 1] ^= 1'
	ckpt verify ddp_model.pt; want 1
	ckpt repair ddp_model.pt out.pt; want 1
	[[ ${lines[0]} =~ ^"ddp_model.pt: lost: 'module.block.".*": ddp_model/data/"[0-9]+": +0x"[0-9a-f]+": its bytes have the checksum "[0-9a-f]{8}", recorded is "[0-9a-f]{8}$ ]]
	[[ ${lines[1]} = "13 of 14 tensors recovered, all of them proven by their checksums "* ]]
	ckpt verify out.pt; want 0
}

@test "without a directory, behind junk, with another archive behind" {
	change ddp_model.pt 'b[b.index(b"PK\1\2"):] = bytes(len(b) - b.index(b"PK\1\2"))'
	ckpt repair ddp_model.pt a.pt; want 0
	ckpt verify a.pt; want 0
	change a.pt 'b[0:0] = b"HTTP/1.1 200 OK\r\n\r\n"'
	ckpt repair a.pt b.pt; want 0
	[[ $output = *"a.pt: damage: +0x0: 19 bytes stand in front of the archive"* ]]
	ckpt verify b.pt; want 0
	[ "$("$CKPT" ls b.pt)" = "$("$CKPT" ls "$ddp/ddp_model.pt")" ]
	cat b.pt ddp_trainer.pt >both.pt
	ckpt repair both.pt c.pt; want 0
	[[ $output = *"both.pt: note: +0x"*": another archive follows, of 23009 bytes: it is not looked at"* ]]
	[ "$("$CKPT" ls c.pt)" = "$("$CKPT" ls "$ddp/ddp_model.pt")" ]
}

@test "there is nothing to repair" {
	ckpt repair ddp_model.pt out.pt
	want 1 "ckpt: ddp_model.pt: nothing to repair, nothing was written
hint: --if-present writes OUT unchanged instead, with exit code 0"
	want_files
	ckpt repair --if-present ddp_model.pt ddp_model.new; want 0
	[ "$("$CKPT" ls ddp_model.new)" = "$("$CKPT" ls ddp_model.pt)" ]
	"$CKPT" convert -q --to torch-legacy ddp_model.pt legacy.bin
	ckpt repair legacy.bin out.pt; want 1 "ckpt: legacy.bin: nothing to repair, nothing was written
hint: --if-present writes OUT unchanged instead, with exit code 0"
}

@test "without a directory, what became of a checksum behind its record is said" {
	python3 - <<-'END'
	import zipfile
	whole = open("ddp_model.pt", "rb").read()
	with zipfile.ZipFile("ddp_model.pt") as archive:
	    end, first = archive.start_dir, archive.getinfo("ddp_model/data/0").header_offset
	at = whole.index(b"PK\7\x08", first)
	for name, begin, stop in ("number", 4, 8), ("all", 0, 16), ("mark", 0, 4):
	    data = bytearray(whole[:end])
	    data[at + begin:at + stop] = b"U" * (stop - begin)
	    open(name + ".pt", "wb").write(data)
	END
	ckpt repair number.pt a.pt; want 1
	[[ ${lines[1]} = "number.pt: lost: 'module.stem.0.weight', 864 bytes: "*" its bytes have the checksum "*", recorded is 55555555" ]]
	ckpt repair all.pt b.pt; want 1
	[[ ${lines[1]} = "all.pt: unproven: 'module.stem.0.weight', 864 bytes: "*": its checksum is overwritten" ]]
	[[ ${lines[2]} = "14 of 14 tensors recovered, 1 of them unproven "* ]]
	ckpt repair mark.pt c.pt; want 0
	[[ ${lines[1]} = "14 of 14 tensors recovered, all of them proven by their checksums "* ]]
}

@test "a legacy stream has no checksums: what is there is unproven" {
	"$CKPT" convert -q --to torch-legacy ddp_model.pt legacy.bin
	head -c 5000 legacy.bin >cut.bin
	ckpt repair cut.bin out.bin; want 1
	[[ $output = *"cut.bin: unproven: "*": a legacy stream has no checksums"* ]]
	ckpt info out.bin; want 0
	[[ $output = *"legacy"* ]]
	ckpt repair --proven-only cut.bin none.bin; [ "$status" = 2 ]
	[[ $stderr = "ckpt: cut.bin: nothing can be saved: of none of the 14 tensors are the bytes there, and proven" ]]
	[ ! -e none.bin ]
}

@test "without the list of tensors nothing can be saved" {
	head -c 500 ddp_model.pt >cut.pt
	ckpt repair cut.pt out.pt; [ "$status" = 2 ]
	[[ $stderr = "ckpt: cut.pt: nothing can be saved: the list of tensors (data.pkl) is cut off, which alone tells the names"* ]]
	change ddp_model.pt 'b[300] ^= 1'
	ckpt repair ddp_model.pt out.pt; [ "$status" = 2 ]
	[[ $stderr = "ckpt: ddp_model.pt: nothing can be saved: the list of tensors (data.pkl) is damaged, "*"; 14 of 20 records that were found are sound records of tensors, with "*" bytes" ]]
	[[ ${lines[1]} = "ddp_model.pt: note: ddp_model/data/0: +0x"*": is sound, 864 bytes: whose they are is not known" ]]
	want_files cut.pt
}

@test "which byte order it was is told by the checksum of its record, or by nothing" {
	PYTHONPATH=$CKPT_SOURCE_DIR/tests/bad python3 -B - <<-'END'
	from files import *
	def file(*more):
	    return archive([("data.pkl", SOUND), ("byteorder", b"big"), ("data/0", struct.pack(">4f", 1, 2, 3, 4)), ("version", b"3\n"), *more])
	open("damaged.pt", "wb").write(file().replace(b"big", b"bog"))
	sound = file((".data/serialization_id", b"0" * 40))
	start = sound.find(b"archive/byteorder") - 30
	open("lost.pt", "wb").write(sound[:start] + sound[sound.find(b"archive/data/0") - 30:sound.find(b"PK\1\2")])
	END
	ckpt repair damaged.pt out.pt; want 0
	[[ $output = *"+0x140: its bytes have the checksum "*"; it is made anew"*"1 of 1 tensor recovered, all of them proven by their checksums"* ]]
	[ "$("$CKPT" cat -q out.pt weight)" = "[1. 2. 3. 4.]" ]
	ckpt repair lost.pt lost_out.pt; want 1
	[[ $output = *"unproven: 'weight', 16 bytes: the record that tells the byte order is lost: it is taken for little"* ]]
	ckpt repair --proven-only lost.pt none.pt
	[ "$status" = 2 ]
}

@test "very many headers of one name" {
	PYTHONPATH=$CKPT_SOURCE_DIR/tests/bad python3 -B - <<-'END'
	from files import *
	header = struct.pack("<IHHHHHIIIHH", 0x04034B50, 0, 0x0808, 0, 0, 0, 0, 0, 0, 16, 0) + b"archive/data.pkl"
	records = torch_file()
	open("many.pt", "wb").write(records[:records.find(b"PK\1\2")] + header * 100000)
	END
	run --separate-stderr bounded 60 "$CKPT" repair many.pt out.pt
	[ "$status" = 0 ]
	[ "$("$CKPT" cat -q out.pt weight)" = "[1. 2. 3. 4.]" ]
}

@test "tensors in a list cannot be left out" {
	python3 - "$CKPT_SOURCE_DIR/tests" <<-'END'
	import sys
	sys.path[:0] = [sys.argv[1] + "/repair", sys.argv[1] + "/bad"]
	import truncate
	truncate.in_lists("lists.pt")
	END
	change lists.pt 'b[b.index(b"PK\7\x08", b.index(b"data/1FB")) - 3] ^= 1'
	ckpt repair lists.pt out.pt
	want 2 "ckpt: lists.pt: 'list.1' is lost and part of a list or an object, which cannot do without it (1 such tensor): it can only be filled
hint: to give it values: ckpt repair --fill zeros lists.pt out.pt"
	[ ! -e out.pt ]
	ckpt repair --fill zeros lists.pt out.pt; want 1
	ckpt cat out.pt list.1; want 0
}

@test "an optimizer that is no longer whole is told of" {
	head -c 18000 ddp_trainer.pt >cut.pt
	ckpt repair cut.pt out.pt
	want 1 "hint: the state of the optimizer is no longer whole; with zeros it keeps its shape: ckpt repair -f --fill zeros cut.pt out.pt
hint: without the optimizer: ckpt select -i --drop optimizer out.pt"
	[[ ${lines[-1]} = "cut.pt: "*" of 38 tensors are lost, all of them of an optimizer" ]]
	"$CKPT" select -q -i --drop optimizer out.pt # as the line says
	"$CKPT" diff -q --at model out.pt ddp_trainer.pt
	# nothing of it is left but its groups
	head -c 6000 ddp_trainer.pt >cut.pt
	ckpt repair -f cut.pt out.pt
	[[ $stderr = *"hint: without the optimizer: ckpt select -i --drop optimizer out.pt" ]]
	"$CKPT" repair -q --fill zeros cut.pt filled.pt || [ $? = 1 ]
	[ "$("$CKPT" ls filled.pt | wc -l)" = "$("$CKPT" ls ddp_trainer.pt | wc -l)" ]
	ckpt repair -n cut.pt
	[[ $stderr = *": ckpt repair --fill zeros cut.pt OUT" ]]
}

@test "JSON says all of it" {
	head -c 6000 ddp_model.pt >cut.pt
	"$CKPT" repair --json=found.json cut.pt out.pt >text || [ $? = 1 ]
	[ ! -s text ]
	python3 - <<-'END'
	import json
	found = json.load(open("found.json"))
	assert found["command"] == "repair" and found["ckpt_json"] == 1 and found["verdict"] == "partial"
	assert found["input"] == {"path": "cut.pt"} and found["output"] == {"path": "out.pt"}
	lost = [f for f in found["findings"] if f["kind"] == "lost"]
	assert len(lost) == found["lost"] == 8 and found["proven"] == 6 and found["tensors"] == 14, found
	assert all(f["name"] and f["text"] and f["nbytes"] for f in lost)
	assert found["written"] == len(open("out.pt", "rb").read()) and found["dry_run"] is False
	END
}

@test "wrong usage, other files, directories" {
	ckpt repair ddp_model.pt
	[ "$status" = 64 ]
	ckpt repair --fill ones ddp_model.pt out.pt
	[ "$status" = 64 ]
	[[ $stderr = "ckpt: repair: --fill ones: wanted 'zeros' or 'nan'"* ]]
	ckpt repair nothing.pt out.pt
	want 2 "ckpt: nothing.pt: cannot open: No such file or directory"
	ckpt repair ddp_model.pt ddp_trainer.pt
	want 2 "ckpt: ddp_trainer.pt: the output exists already
hint: -f replaces it"
	head -c 8000 ddp_model.pt >cut.pt
	ckpt repair -f cut.pt cut.pt; [ "$status" = 2 ]
	[[ $stderr = *"the output is the input itself; name another file" ]]
	[ "$(stat -c %s cut.pt)" = 8000 ]
	echo '<html>' >page.pt
	ckpt repair page.pt out.pt; [ "$status" = 2 ]
	"$CKPT" split -q --ranks 2 ddp_model.pt dcp
	ckpt repair dcp out.pt
	want 2 "ckpt: dcp: is a directory; what is repaired here is one file
hint: 'ckpt verify' says which of its files are damaged, 'ckpt reindex' makes the index of a DCP directory anew"
	[ ! -e out.pt ]
	input_is_untouched
}

@test "a full disk is an error and leaves nothing" {
	head -c 8000 ddp_model.pt >cut.pt
	run --separate-stderr bash -c 'ulimit -f 4; trap "" XFSZ; "$0" repair cut.pt out.pt' "$CKPT"
	[ "$status" = 2 ]
	[[ $stderr = *"File too large"* ]]
	want_files cut.pt
	[ -w /dev/full ] || skip "there is no /dev/full"
	run --separate-stderr bash -c '"$0" repair cut.pt out.pt >/dev/full' "$CKPT"
	[ "$status" = 2 ]
}

@test "Ctrl-C leaves nothing behind" {
	python3 "$here/make_large.py" 200 large.pt
	truncate -s -90 large.pt # of the end records
	interrupted=
	for delay in 0.005 0.02 0.05 0.1 0.2 0.4; do
		code=0
		"$CKPT" repair large.pt out.pt >text 2>&1 &
		sleep "$delay"
		kill -TERM $! 2>/dev/null || true
		wait $! || code=$?
		if [ "$code" = 143 ]; then
			[ ! -e out.pt ]
			interrupted=1
		else
			[ "$code" = 0 ] && "$CKPT" verify -q out.pt
		fi
		rm -f out.pt text
		want_files large.pt
	done
	[ "$interrupted" ]
}

@test "a record that has only the archive's name" {
	python3 - <<-END
	import zipfile
	with zipfile.ZipFile("odd.pt", "w") as archive:
	    archive.writestr("archive/data/0", b"1234")
	    archive.writestr("archive/", b"")
	END
	truncate -s -22 odd.pt # without its end
	ckpt repair odd.pt out.pt
	[ "$status" = 2 ]
	[[ $stderr = "ckpt: odd.pt: nothing can be saved: the list of tensors (data.pkl) is missing, "* ]]
}

@test "a TorchScript archive is refused wherever it was cut" {
	PYTHONPATH=$CKPT_SOURCE_DIR/tests/bad python3 -B - <<-'END'
	from modules import *
	from files import number
	data = torch_script(pickled(NET), NET_CODE, pickled(tensor("0") + b"\x85"), [("constants/0", b"c" * 16)])
	open("net.jit", "wb").write(data)
	END
	size=$(stat -c %s net.jit)
	refused=0
	for cut in $(seq 100 64 "$size"); do
		head -c "$cut" net.jit >cut.pt
		ckpt repair cut.pt out.pt
		[ "$status" = 2 ] || { echo "cut at $cut: $status $output $stderr" >&2; false; }
		[[ $stderr != *TorchScript* ]] || refused=$((refused + 1))
	done
	[ $refused -gt 3 ]
	[ ! -e out.pt ]
}

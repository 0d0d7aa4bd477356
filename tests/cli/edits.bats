# SPDX-License-Identifier: Apache-2.0
# bats file_tags=edits
load common

@test "strip-module writes what torch writes" {
	mkdir out
	for name in ddp_model.pt ddp_trainer.pt; do
		ckpt strip-module $name out/$name
		want 0
		[[ $output =~ ^'14 keys renamed in '('the state dict'|"'model'"),\ [0-9.]+K' written in '[0-9.]+' s'$ ]]
		cmp out/$name "$ddp/expected/$name"
	done
	input_is_untouched
}

@test "other zip tools find nothing wrong with the output" {
	command -v unzip >/dev/null || skip "unzip is not installed"
	ckpt strip-module ddp_trainer.pt out.pt
	want 0
	unzip -qq -t out.pt
	zipinfo -t out.pt
	python3 -c 'import sys, zipfile; sys.exit(zipfile.ZipFile("out.pt").testzip() is not None)'
}

@test "strip-prefix strips any prefix, the dot may be left out" {
	ckpt strip-prefix module ddp_model.pt a.pt
	want 0
	ckpt strip-prefix module. ddp_model.pt b.pt
	want 0
	"$CKPT" ls a.pt >a; "$CKPT" ls b.pt >b
	cmp a b
	ckpt strip-prefix mod ddp_model.pt c.pt
	want 1 "ckpt: ddp_model.pt: no key begins with 'mod.', nothing was written
hint: --if-present writes OUT unchanged instead, with exit code 0"
}

@test "add-module undoes strip-module" {
	mkdir s a
	ckpt strip-module ddp_model.pt s/ddp_model.pt; want 0
	ckpt add-module s/ddp_model.pt a/ddp_model.pt; want 0
	"$CKPT" ls ddp_model.pt >want; "$CKPT" ls a/ddp_model.pt >have
	cmp want have
}

@test "add-prefix puts any prefix before the keys" {
	ckpt add-prefix backbone ddp_model.pt out.pt; want 0
	ckpt ls -q out.pt 'backbone.module.head.*'; want 0
	[ "${#lines[@]}" = 2 ]
}

@test "rename applies expressions in order" {
	ckpt rename -e 's/^module\.//' -e 's/^head/tail/' ddp_model.pt out.pt; want 0
	ckpt ls -q out.pt 'tail*'; want 0
	[ "${#lines[@]}" = 2 ]
}

@test "a clash is an error and nothing is written" {
	ckpt rename -e 's/head.*/a/' ddp_model.pt out.pt
	want 2 "ckpt: ddp_model.pt: data.pkl+0x1e: 'module.head.weight' and 'module.head.bias' in the state dict would both be named 'module.a'"
	want_files
}

@test "nothing to strip is exit code 1 and no OUT" {
	ckpt strip-module "$ddp/expected/ddp_model.pt" out.pt
	want 1 "ckpt: $ddp/expected/ddp_model.pt: no key begins with 'module.', nothing was written
hint: --if-present writes OUT unchanged instead, with exit code 0"
	want_files
}

@test "--if-present writes OUT unchanged" {
	mkdir out
	ckpt strip-module --if-present "$ddp/expected/ddp_model.pt" out/ddp_model.pt
	want 0
	cmp out/ddp_model.pt "$ddp/expected/ddp_model.pt"
}

@test "--at limits the edit" {
	ckpt strip-module --at model ddp_trainer.pt out.pt; want 0
	[[ $output = "14 keys renamed in 'model', "* ]]
	ckpt strip-module --at optimizer ddp_trainer.pt none.pt
	[ "$status" = 1 ]
	ckpt strip-module --at nope ddp_trainer.pt none.pt
	[ "$status" = 2 ]
	[[ $stderr = "ckpt: ddp_trainer.pt: no mapping is named 'nope'"* ]]
	want_files out.pt
}

@test "a dry run writes nothing and says what would be done" {
	ckpt strip-module -n ddp_trainer.pt out.pt; want 0
	[[ $output =~ ^"14 keys renamed in 'model', "[0-9.]+"K would be written (dry run)"$ ]]
	ckpt convert --dry-run ddp_model.pt out.pt; want 0
	want_files
}

@test "-q prints nothing" {
	ckpt strip-module -q ddp_model.pt out.pt; want 0
	[ "$output" = "" ]
	ckpt convert --quiet ddp_model.pt out2.pt; want 0
	[ "$output" = "" ]
}

@test "an edit writes as the torch that --profile names does, and refuses it where there is no such choice" {
	mkdir direct by_steps
	for profile in 1.6 1.13 2.14; do
		ckpt strip-module -q -f --profile $profile ddp_model.pt direct/out.pt; want 0
		ckpt convert -q -f --profile $profile ddp_model.pt new.pt; want 0
		ckpt strip-module -q -f new.pt by_steps/out.pt; want 0
		cmp direct/out.pt by_steps/out.pt
	done
	ckpt strip-module --profile 9.9 ddp_model.pt no.pt
	want 64 "ckpt: ddp_model.pt: profile '9.9': wanted 'same' or a torch version from 1.6 to 2.14"
	ckpt strip-module -i --profile 2.6 ddp_model.pt; want 64 "ckpt: --in-place and --profile exclude each other: IN keeps its layout"
	ckpt strip-module --reflink auto --profile 2.6 ddp_model.pt no.pt
	want 64 "ckpt: --reflink and --profile exclude each other: blocks are shared in IN's layout"
	ckpt split -q ddp_model.pt dcp --ranks 1; want 0
	ckpt strip-module --profile 2.6 dcp no; want 2 "ckpt: dcp: --profile is of files that torch.save writes, and this is a DCP directory"
	[ ! -e no.pt ] && [ ! -e no ]
}

@test "convert writes for every profile, and the file stays the same checkpoint" {
	for profile in 1.6 1.9 1.13 2.1 2.7 2.14 same; do
		ckpt convert -f --profile $profile ddp_trainer.pt out.pt; want 0
		"$CKPT" ls out.pt | cut -c1-60 >have; "$CKPT" ls ddp_trainer.pt | cut -c1-60 >wanted
		cmp have wanted
		python3 -c 'import sys, zipfile; sys.exit(zipfile.ZipFile("out.pt").testzip() is not None)'
	done
}

@test "convert refuses what it cannot do" {
	ckpt convert --profile 9.9 ddp_model.pt out.pt
	[ "$status" = 64 ]
	[[ $stderr = *"profile '9.9': wanted 'same' or a torch version from 1.6 to 2.14" ]]
	ckpt convert --to gguf ddp_model.pt out.pt
	want 64 "ckpt: convert: format 'gguf' cannot be written, wanted 'torch', 'torch-legacy', 'safetensors', 'npz' or 'npy'
usage: ckpt convert [OPTIONS] IN OUT
hint: 'ckpt convert --help' shows the options"
	ckpt convert --alignment 0 ddp_model.pt out.pt
	want 64 "ckpt: convert: --alignment 0: wanted 1 to 32768
usage: ckpt convert [OPTIONS] IN OUT
hint: 'ckpt convert --help' shows the options"
	ckpt convert --crc maybe ddp_model.pt out.pt
	want 64 "ckpt: convert: --crc maybe: wanted 'on' or 'off'
usage: ckpt convert [OPTIONS] IN OUT
hint: 'ckpt convert --help' shows the options"
	want_files
}

@test "convert takes an alignment and leaves checksums out" {
	ckpt convert --alignment 4096 --crc off ddp_model.pt out.pt; want 0
	python3 - <<-'END'
	import struct, zipfile
	for info in zipfile.ZipFile("out.pt").infolist():
	    assert info.CRC == 0, info
	    with open("out.pt", "rb") as stream:
	        stream.seek(info.header_offset + 26)
	        data = info.header_offset + 30 + sum(struct.unpack("<HH", stream.read(4)))
	    assert data % 4096 == 0, (info, data)
	END
}

@test "rename takes the names of modules along, but not where an expression is about tensors" {
	ckpt rename -e 's/^module\.head\./module.tail./' ddp_model.pt out.pt; want 0
	"$CKPT" dis out.pt >dis
	grep -qF "module.tail'" dis
	run ! grep -qF "module.head" dis
	ckpt rename -f -e 's/$/_old/' ddp_model.pt out.pt; want 0
	"$CKPT" dis out.pt >dis
	[ "$(grep -c "_old'" dis)" = 14 ]
	grep -qF "module.head'" dis
}

@test "rename wants an expression, and a right one" {
	ckpt rename ddp_model.pt out.pt
	want 64 "ckpt: rename: no expression, wanted -e 's/A/B/' or --map FILE
usage: ckpt rename [OPTIONS] IN OUT
hint: 'ckpt rename --help' shows the options"
	ckpt rename -e s/x ddp_model.pt out.pt
	want 64 "ckpt: expression 's/x': wanted s/PATTERN/REPLACEMENT/, a delimiter is missing"
	want_files
}

@test "add-module does not add a second one" {
	ckpt add-module ddp_model.pt out.pt
	want 1 "ckpt: ddp_model.pt: all keys begin with 'module.' already, nothing was written
hint: 'ckpt add-prefix module.' adds another"
	want_files
	ckpt add-prefix module. ddp_model.pt out.pt; want 0
	"$CKPT" ls out.pt | grep -q '^module.module.stem'
	ckpt add-module -q --at optimizer.state ddp_trainer.pt out2.pt; want 0 ""
	ckpt add-module --at model --at optimizer.state.0 -n ddp_trainer.pt out3.pt; want 0
	ckpt add-module --at model ddp_trainer.pt out3.pt
	[ "$status" = 1 ]
	[ ! -e out3.pt ]
}

@test "add-module among other edits does not add a second one, either" {
	ckpt edit --add-module --if-present ddp_model.pt out.pt; want 0
	[ "$("$CKPT" ls ddp_model.pt)" = "$("$CKPT" ls out.pt)" ]
}

@test "what stands elsewhere in the file does not let add-module add a second one" {
	PYTHONPATH=$CKPT_SOURCE_DIR/tests/bad python3 -B - <<-'END'
	from files import *
	od = glob("collections", "OrderedDict") + b")R("
	mixed = od + text("module.a") + tensor() + text("a") + tensor() + text("n") + number(1) + b"u"
	body = b"}(" + text("model") + od + text("module.a") + tensor() + b"u" + text("mixed") + mixed + b"u"
	open("mixed.pt", "wb").write(torch_file(pickled(body)))
	inner = od + text("") + tensor() + text("module.a") + tensor() + b"u"
	open("nameless.pt", "wb").write(torch_file(pickled(b"}" + text("") + inner + b"s")))
	END
	ckpt add-module mixed.pt out.pt
	want 1 "ckpt: mixed.pt: all keys begin with 'module.' already, nothing was written
hint: 'ckpt add-prefix module.' adds another"
	ckpt add-module -n nameless.pt out.pt; want 0 # not all keys have it
}

@test "a wrong --at gets the hint that fits" {
	ckpt strip-module --at nope ddp_model.pt out.pt
	want 2 "ckpt: ddp_model.pt: no mapping is named 'nope'
hint: the root is the only mapping in it"
	ckpt strip-module --at modle ddp_trainer.pt out.pt
	want 2 "ckpt: ddp_trainer.pt: no mapping is named 'modle'
hint: did you mean 'model'?"
	ckpt strip-module --at model.module.head.bias ddp_trainer.pt out.pt
	want 2 "ckpt: ddp_trainer.pt: 'model.module.head.bias' is a tensor, not a mapping
hint: --at wants a mapping: a dict, a state dict"
	ckpt strip-module --at optimizer.state.0.exp_avg ddp_trainer.pt out.pt
	want 2 "ckpt: ddp_trainer.pt: 'optimizer.state.0.exp_avg' is a tensor, not a mapping
hint: --at wants a mapping: a dict, a state dict"
	ckpt strip-module --at history ddp_trainer.pt out.pt
	want 2 "ckpt: ddp_trainer.pt: 'history' is a list, not a mapping
hint: --at wants a mapping: a dict, a state dict"
	ckpt strip-module --at epoch ddp_trainer.pt out.pt
	[[ $status = 2 && $stderr = *": 'epoch' is an int, not a mapping"* ]]
	want_files
}

@test "every --at that is not there is named" {
	ckpt rename -e s/a/b/ --at nope --at model --at optimzer ddp_trainer.pt out.pt
	want 2 "ckpt: ddp_trainer.pt: no mapping is named 'nope'
hint: there is 'model'; 'ckpt info' lists the rest
ckpt: ddp_trainer.pt: no mapping is named 'optimzer'
hint: did you mean 'optimizer'?"
	ckpt add-module --at args ddp_trainer.pt out.pt
	want 2 "ckpt: ddp_trainer.pt: no state dict of a module was found"
	want_files
}

@test "convert does not put torch's format under another format's name" {
	ckpt convert ddp_model.pt out.safetensors.index.json
	want 2 "ckpt: out.safetensors.index.json: the index of a set is written with its files, into a directory
hint: --shard-size 5GB makes OUT such a directory; --to torch writes torch's format under that name"
	want_files
	ckpt convert --to torch ddp_model.pt out.safetensors; want 0
}

@test "escapes in a replacement are those of Python" {
	ckpt rename -e 's/^module\.stem/a\tb\\c/' ddp_model.pt out.pt; want 0
	ckpt ls -q out.pt; want 0
	[[ ${lines[0]} = 'a\tb\\c.0.weight '* ]]
}

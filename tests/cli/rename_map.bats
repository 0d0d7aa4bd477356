#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# bats file_tags=edits
# rename --map: whole keys by a list, all or nothing. Real torch judges in tests/tasks/rename_map.py.
load common.bash

usage="usage: ckpt rename [OPTIONS] IN OUT
hint: 'ckpt rename --help' shows the options"

keys() { "$CKPT" ls "$1" | sed 's/ .*//; /^[0-9]*$/d'; }

@test "columns and JSON rename at once, swaps as well, and --invert leads back" {
	printf '\xef\xbb\xbf# old new\r\n\r\nmodule.head.weight  module.head.bias \r\nmodule.head.bias\tmodule.head.weight\r\nmodule.stem.0.weight a b\n' >bad.txt
	ckpt rename --map bad.txt ddp_model.pt out.pt
	want 2 "ckpt: bad.txt: line 5: wanted an old and a new name, with a tab or spaces between them"
	sed 's/ a b/\ta b/' bad.txt >map.txt
	ckpt rename --map map.txt ddp_model.pt out.pt; want 0
	[[ $output = "3 keys renamed in the state dict, "* ]]
	[ "$(keys out.pt | tr '\n' ' ' | cut -c1-22)" = "a module.stem.1.weight" ] # ls cuts "a b" here
	"$CKPT" ls out.pt 'a b' | grep -q '^a b '
	[ "$(keys out.pt | tail -2 | tr '\n' ' ')" = "module.head.bias module.head.weight " ]
	ckpt rename --map map.txt --invert; want 0
	[ "$output" = $'module.head.bias\tmodule.head.weight\nmodule.head.weight\tmodule.head.bias\na b\tmodule.stem.0.weight' ]
	echo "$output" >back.txt
	ckpt rename -q -m back.txt out.pt back.pt; want 0
	"$CKPT" ls ddp_model.pt >was
	"$CKPT" ls back.pt | cmp - was
	printf '%s\n' ' {"module.head.bias": "ö\n\"", "module.head.weight": "w"}' >map.json
	ckpt rename -f --map map.json ddp_model.pt out.pt; want 0
	"$CKPT" rename --map map.json --invert >back.json
	"$CKPT" rename -fq --map - out.pt back.pt <back.json
	"$CKPT" ls back.pt | cmp - was
	input_is_untouched
}

@test "names that no key has are errors, with what they may mean" {
	printf 'module.haed.weight a\nmodule.stem b\nnothing.like_it c\nhead.bias d\nx.module.head.bias e\nmodule.head.weight f\n' >map.txt
	ckpt rename --map map.txt ddp_model.pt out.pt
	want 2 "ckpt: ddp_model.pt: no key is named 'module.haed.weight', nor like 4 others of the 6 in the map
hint: 'module.haed.weight': did you mean 'module.head.weight'?
hint: 'module.stem' is the beginning of 6 keys; a map has whole keys, and -e renames parts
hint: 'nothing.like_it': no key is nearly named so
hint: 'head.bias': did you mean 'module.head.bias'?
hint: 'x.module.head.bias': did you mean 'module.head.bias'?"
	ckpt rename -i --map map.txt ddp_model.pt; [ "$status" = 2 ]
	echo model.module.head.bias x >one.txt
	ckpt rename --map one.txt ddp_trainer.pt out.pt
	want 2 "ckpt: ddp_trainer.pt: no key is named 'model.module.head.bias'
hint: 'model.module.head.bias': did you mean 'module.head.bias'?"
	for ((i = 0; i < 11; i++)); do echo "$i.xxxxxx $i"; done >many.txt
	ckpt rename --map many.txt ddp_model.pt out.pt
	[[ $stderr = *$'named so\nhint: and 3 more' ]]
	input_is_untouched
	want_files map.txt one.txt many.txt
	ckpt rename --if-present --map map.txt ddp_model.pt out.pt
	want 0 "ckpt: note: no key matches 'module.haed.weight'
ckpt: note: no key matches 'module.stem'
ckpt: note: no key matches 'nothing.like_it'
ckpt: note: no key matches 'head.bias'
ckpt: note: no key matches 'x.module.head.bias'"
	ckpt edit ddp_model.pt out2.pt --cast bf16 --rename-map many.txt; [ "$status" = 2 ]
	[ ! -e out2.pt ]
}

@test "names that are there twice are errors" {
	# MAP and what is said
	while IFS='|' read -r text said; do
		printf "$text" >map
		ckpt rename --map map ddp_model.pt out.pt
		want 2 "ckpt: $said"
	done <<-'end'
		a b\n#\na c\n|map: line 3: 'a' is in the map twice
		a b\nc d\nx b\n|map: line 3: 'a' and 'x' would both be named 'b'
		{"a": "b",\n"a": "c"}|map: line 2: duplicate object key near '"a"'
		{"a": "b", "c": "b"}|map: 'a' and 'c' would both be named 'b'
		module.head.bias module.head.weight\n|ddp_model.pt: data.pkl+0x1e: 'module.head.weight' and 'module.head.bias' in the state dict would both be named 'module.head.weight'
		{"a": 1}|map: 'a' has no new name, wanted a text
		{"a": ""}|map: 'a' has no new name, wanted a text
		{}|map: has no names, wanted two columns or a JSON object
		#\n|map: has no names, wanted two columns or a JSON object
		a\n|map: line 1: wanted an old and a new name, with a tab or spaces between them
		a\t\n|map: line 1: wanted an old and a new name, with a tab or spaces between them
		a\tb\tc\n|map: line 1: wanted an old and a new name, with a tab or spaces between them
		a b\0c\n|map: has zero bytes, wanted a map of names as text
	end
	ckpt rename --map nope ddp_model.pt out.pt; want 2 "ckpt: nope: No such file or directory"
	ckpt rename --map . ddp_model.pt out.pt; want 2 "ckpt: .: Is a directory"
	want_files map
}

@test "every format takes a map, and --at says where" {
	echo module.head.bias new.name >map
	"$CKPT" convert -q --to torch-legacy ddp_model.pt legacy.pt
	"$CKPT" convert -q ddp_model.pt a.safetensors
	"$CKPT" convert -q --shard-size 2KB ddp_model.pt set
	"$CKPT" split -q --ranks 2 ddp_model.pt dcp
	for in in ddp_model.pt legacy.pt a.safetensors set dcp; do
		ckpt rename -n --map map $in out-$in; want 0
		[ ! -e out-$in ]
		ckpt rename --map map $in out-$in; want 0
		[[ $output = "1 key renamed in the state dict, "* ]]
		keys out-$in | grep -qx new.name
	done
	input_is_untouched
	for in in legacy.pt a.safetensors dcp; do
		ckpt rename -i --map map $in; want 0
		"$CKPT" diff $in out-$in
	done
	ckpt rename --at model --map map ddp_trainer.pt out.pt; want 0
	[[ $output = "1 key renamed in 'model', "* ]]
	ckpt rename --at optimizer --map map ddp_trainer.pt no.pt; [ "$status" = 2 ]
	printf 'module.head.bias module.head.bias\n' >same
	ckpt rename --map same ddp_model.pt no.pt
	want 1 "ckpt: ddp_model.pt: every key of the map has its new name already, nothing was written
hint: --if-present writes OUT unchanged instead, with exit code 0"
	[ ! -e no.pt ]
}

@test "an expression that matches nothing is reported" {
	ckpt rename -e 's/^nothing/x/' -e 's/head/tail/' -e s/gamma/weight/ ddp_model.pt out.pt
	want 0 "ckpt: note: no key matches 's/^nothing/x/'
ckpt: note: no key matches 's/gamma/weight/'"
	ckpt rename -fq -e 's/^nothing/x/' -e 's/head/tail/' ddp_model.pt out.pt; want 0
	ckpt rename -i -e 's/^nothing/x/' -e 's/head/tail/' ddp_model.pt
	want 0 "ckpt: note: no key matches 's/^nothing/x/'"
}

@test "options that do not belong together" {
	echo a b >map
	ckpt rename -e s/a/b/ --map map ddp_model.pt out.pt; want 64 "ckpt: rename: -e and --map exclude each other
$usage"
	ckpt rename -e s/a/b/ --invert; want 64 "ckpt: rename: --invert is of a map, wanted --map FILE
$usage"
	ckpt rename --map map --invert ddp_model.pt; want 64 "ckpt: rename: with --invert there is no IN and no OUT
$usage"
	ckpt rename --map map ddp_model.pt; want 64 "ckpt: rename: too few operands, wanted IN OUT
$usage"
	ckpt rename --map map --invert; want 0
}

@test "each step of an edit has its own map" {
	echo module.head.weight w >one.txt
	echo module.head.bias b >two.txt
	ckpt edit ddp_model.pt out.pt --rename-map one.txt --rename-map two.txt; want 0
	[ "$(keys out.pt | tail -2 | tr '\n' ' ')" = "w b " ]
	ckpt edit ddp_model.pt out2.pt --rename-map one.txt --rename-map one.txt
	want 2 "ckpt: ddp_model.pt: no key is named 'module.head.weight'
hint: 'module.head.weight': no key is nearly named so"
	want_files one.txt out.pt two.txt
}

@test "a map from standard input is that of all files, also of those in a folder" {
	mkdir folder
	cp ddp_model.pt folder/1.pt
	cp ddp_model.pt folder/2.pt
	for command in "rename -i --map - folder" "edit -i --rename-map - folder/1.pt folder/2.pt"; do
		ckpt $command <<<"module.head.weight w"; want 0
		[ "$(keys folder/1.pt | grep -cx w) $(keys folder/2.pt | grep -cx w)" = "1 1" ]
		cp ddp_model.pt folder/1.pt
		cp ddp_model.pt folder/2.pt
	done
}

@test "a map that two columns cannot be the inverse of is refused" {
	for name in '#b' '{b'; do
		printf 'module.head.weight\t%s\n' "$name" >map.txt
		ckpt rename --map map.txt --invert
		want 2 "ckpt: map.txt: line 1: '$name' cannot begin a line of a map; write the map as JSON"
		[ -z "$output" ]
	done
	ckpt rename --map - --invert <<<'{"a": "#b"}'; want 0
	[ "$output" = $'{\n  "#b": "a"\n}' ]
	printf '{"a": "b"}\0{"c": "d"}' >map.txt
	ckpt rename --map map.txt --invert
	want 2 "ckpt: map.txt: has zero bytes, wanted a map of names as text"
	ckpt rename --map - - out.pt <ddp_model.pt
	want 64 "ckpt: -: standard input is IN, and cannot be the map, too"
}

@test "a key and a module of very many dots take no time" {
	PYTHONPATH=$CKPT_SOURCE_DIR/tests/bad python3 -B - <<-'END'
	from files import *
	key = "." * 600000
	metadata = glob("collections", "OrderedDict") + b")R(" + text(key) + b"}" + text("version") + b"K\x01su"
	body = glob("collections", "OrderedDict") + b")R(" + text(key + "w") + tensor() + text("a.w") + tensor() + b"u}" + text("_metadata") + metadata + b"sb"
	open("dots.pt", "wb").write(torch_file(pickled(body)))
	END
	echo a.w b.w >map.txt
	run --separate-stderr bounded 20 "$CKPT" rename --map map.txt dots.pt out.pt
	want 0
	[[ $output = "1 key renamed "* ]]
}

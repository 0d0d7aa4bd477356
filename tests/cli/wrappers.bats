#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# bats file_tags=edits
# --strip-wrappers, and what is said where a wrapper is left. Real torch judges in tests/tasks/wrappers.py.
load common.bash

left="hint: for a plain model: ckpt edit"

# wrapped: mixed.pt has module._orig_mod., _orig_mod.module. and module. in front, and wrappers inside; plain.txt what it is without
wrapped() {
	"$CKPT" ls "$ddp/expected/ddp_model.pt" >plain.txt
	"$CKPT" rename -q -e 's/^module\.stem\.0/module._orig_mod.stem._fsdp_wrapped_module._checkpoint_wrapped_module.0/' \
		-e 's/^module\.stem\.1/_orig_mod.module.stem.1/' -e 's/^module\.block\.conv/_forward_module.block._orig_mod.conv/' \
		ddp_model.pt mixed.pt
}

@test "all wrappers go, in any order and anywhere, in every format" {
	wrapped
	"$CKPT" convert -q --to torch-legacy mixed.pt legacy.pt
	"$CKPT" convert -q mixed.pt mixed.safetensors
	"$CKPT" convert -q --shard-size 2KB mixed.pt set
	"$CKPT" split -q --ranks 2 mixed.pt dcp
	for in in mixed.pt legacy.pt mixed.safetensors set dcp; do
		out=out-$in
		ckpt strip-prefix --strip-wrappers -n $in $out; want 0
		[ ! -e $out ]
		ckpt strip-prefix --strip-wrappers $in $out; want 0
		[[ $output = "14 keys renamed in the state dict, "* ]]
		"$CKPT" ls $out | cut -d' ' -f1 | sort >names
		cut -d' ' -f1 plain.txt | sort | cmp - names
		[ $in != set ] || continue # no file could take the place of several
		ckpt strip-prefix -i --strip-wrappers $in; want 0
		"$CKPT" diff $in $out
	done
	"$CKPT" ls mixed.pt | cmp - plain.txt
	input_is_untouched
}

@test "edit and convert have it as a step" {
	wrapped
	ckpt edit mixed.pt a.pt --strip-wrappers --cast bf16; want 0
	[[ $output = "14 keys renamed in the state dict, 12 tensors cast, "* ]]
	ckpt convert mixed.pt b.safetensors --strip-wrappers; want 0
	"$CKPT" ls b.safetensors | cut -d' ' -f1 | sort >names
	cut -d' ' -f1 plain.txt | sort | cmp - names
	ckpt edit ddp_trainer.pt c.pt --extract model --strip-wrappers; want 0
	"$CKPT" ls c.pt | cmp - plain.txt
}

@test "two keys that become one are an error, before anything is written" {
	wrapped
	"$CKPT" rename -q -e 's/^module\.head\.bias/_orig_mod.module.head.weight/' ddp_model.pt clash.pt
	cp clash.pt before.pt
	ckpt strip-prefix --strip-wrappers clash.pt out.pt
	want 2 "ckpt: clash.pt: data.pkl+0x1e: 'module.head.weight' and '_orig_mod.module.head.weight' in the state dict would both be named 'head.weight'
hint: 'ckpt edit IN OUT --drop NAME --strip-wrappers' leaves one of them out first"
	ckpt strip-prefix -i --strip-wrappers clash.pt; [ "$status" = 2 ]
	ckpt convert clash.pt out.safetensors --strip-wrappers; [ "$status" = 2 ]
	ckpt edit clash.pt out.pt --drop _orig_mod.module.head.weight --strip-wrappers --if-present; want 0
	rm out.pt
	cmp clash.pt before.pt
	want_files before.pt clash.pt mixed.pt plain.txt
}

@test "what a strip leaves is noted" {
	wrapped
	ckpt strip-module mixed.pt a.pt
	want 0 "ckpt: note: 6 of 14 keys begin with '_orig_mod.' still, 1 begins with '_forward_module.', 5 have 'module.' inside, 1 has '_fsdp_wrapped_module.' inside, 1 has '_checkpoint_wrapped_module.' inside
$left mixed.pt a.pt -f --strip-wrappers"
	[[ $output = "8 keys renamed in the state dict, "* ]]
	ckpt strip-module -n mixed.pt b.pt
	[[ $status = 0 && $stderr = "ckpt: note: 6 of 14 keys begin with '_orig_mod.' still, "* ]]
	ckpt strip-module -q mixed.pt b.pt; want 0
	ckpt convert mixed.pt b.safetensors --strip-module
	[[ $status = 0 && $stderr = "ckpt: note: 6 of 14 keys begin with '_orig_mod.' still, "* ]]
	ckpt strip-module -i --if-present a.pt
	[[ $status = 0 && $output = "nothing to change, "* && $stderr = "ckpt: note: 6 of 14 keys begin with '_orig_mod.' still, "* ]]
	ckpt strip-prefix -i _orig_mod. a.pt
	want 0 "ckpt: note: 5 of 14 keys begin with 'module.' still, 1 begins with '_forward_module.', 1 has '_orig_mod.' inside, 1 has '_fsdp_wrapped_module.' inside, 1 has '_checkpoint_wrapped_module.' inside
$left -i a.pt --strip-wrappers"
	ckpt strip-prefix -i --strip-wrappers a.pt; want 0
	"$CKPT" ls a.pt | cmp - plain.txt
}

@test "nothing is noted of what was asked for, or may be the model's own" {
	ckpt edit ddp_model.pt a.pt --strip-module --add-prefix _orig_mod; want 0
	ckpt rename -q -e 's/^module\.block/module.block.module/' ddp_model.pt own.pt; want 0
	ckpt strip-module own.pt b.pt; want 0
	ckpt strip-prefix --strip-wrappers own.pt c.pt; want 0 # takes it all the same
	"$CKPT" ls "$ddp/expected/ddp_model.pt" >plain.txt
	"$CKPT" ls c.pt | cmp - plain.txt
	ckpt rename -q -e 's/^/module._orig_mod./' --at model ddp_trainer.pt two.pt; want 0
	ckpt strip-module --at optimizer --if-present two.pt d.pt; want 0 # of the model nothing was asked
	ckpt strip-module --at model two.pt e.pt
	[[ $status = 0 && $stderr = "ckpt: note: 14 of 14 keys begin with '_orig_mod.' still, "* ]]
}

@test "where there is nothing to strip, the wrapper that is there is named" {
	ckpt strip-prefix _orig_mod. ddp_model.pt a.pt
	want 1 "ckpt: ddp_model.pt: no key begins with '_orig_mod.', nothing was written
hint: 14 of 14 keys begin with 'module.': 'ckpt strip-prefix --strip-wrappers' takes that off
$left ddp_model.pt a.pt --strip-prefix module."
	ckpt strip-prefix --strip-wrappers "$ddp/expected/ddp_model.pt" a.pt
	want 1 "ckpt: $ddp/expected/ddp_model.pt: no key has 'module.', '_orig_mod.', '_forward_module.', '_fsdp_wrapped_module.' or '_checkpoint_wrapped_module.', nothing was written
hint: --if-present writes OUT unchanged instead, with exit code 0"
	want_files
	ckpt strip-prefix --strip-wrappers --if-present "$ddp/expected/ddp_model.pt" ddp_model.pt -f; want 0
	ckpt strip-prefix --strip-wrappers --at optimizer ddp_trainer.pt a.pt; [ "$status" = 1 ]
	ckpt strip-prefix --strip-wrappers --at nope ddp_trainer.pt a.pt; [ "$status" = 2 ]
	ckpt strip-prefix --strip-wrappers --at model ddp_trainer.pt a.pt; want 0
}

@test "there is no PREFIX beside it" {
	ckpt strip-prefix --help
	[ "${lines[0]}" = "usage: ckpt strip-prefix [OPTIONS] (PREFIX | --strip-wrappers) IN OUT" ]
	[ "${lines[1]}" = "       ckpt strip-prefix -i [OPTIONS] (PREFIX | --strip-wrappers) IN [IN...]" ]
	usage="usage: ckpt strip-prefix [OPTIONS] (PREFIX | --strip-wrappers) IN OUT
hint: 'ckpt strip-prefix --help' shows the options"
	ckpt strip-prefix --strip-wrappers model. ddp_model.pt a.pt
	want 64 "ckpt: strip-prefix: with --strip-wrappers there is no PREFIX
$usage"
	ckpt strip-prefix -i --strip-wrappers model. ddp_model.pt
	want 64 "ckpt: strip-prefix: with --strip-wrappers there is no PREFIX, and with --in-place no OUT
$usage"
	ckpt strip-prefix --strip-wrappers ddp_model.pt
	want 64 "ckpt: strip-prefix: too few operands, wanted IN OUT
$usage"
	input_is_untouched
	want_files
}

#!/usr/bin/env bats
# Edits of devices and parts, and chains of edits. What they write is compared with torch in tests/interop.
load common.bash

names() { "$CKPT" ls --json "$1" | python3 -c 'import json, sys
for t in json.load(sys.stdin)["tensors"]: print(t["name"], t["device"])'; }

@test "remap swaps, and leaves other tags alone" {
	ckpt remap cpu=cuda:0 ddp_model.pt a.pt; want 0
	[[ $output = "14 storages moved, "* ]]
	ckpt remap cuda:0=cuda:1 cuda:1=cuda:0 a.pt b.pt; want 0
	[ "$(names b.pt | cut -d' ' -f2 | sort -u)" = cuda:1 ]
	ckpt remap cuda:1=cuda:0 cuda:0=cpu b.pt a2.pt; want 0
	[ "$(names a2.pt | cut -d' ' -f2 | sort -u)" = cuda:0 ]
}

@test "remap takes globs after exact tags" {
	ckpt remap cpu=cuda:3 ddp_model.pt a.pt; want 0
	ckpt remap 'cuda:*=cpu' cuda:3=mps a.pt b.pt; want 0
	[ "$(names b.pt | cut -d' ' -f2 | sort -u)" = mps ]
	ckpt remap 'cuda:[0-2]=cpu' a.pt c.pt
	want 1 "ckpt: a.pt: there is nothing to move: its tensors are on cuda:3, nothing was written
hint: tags are compared as text, 'cuda:*=cpu' takes all of them; --if-present writes OUT unchanged instead, with exit code 0"
}

@test "a device that no torch knows is refused, with the right spelling" {
	local wrong right
	while read -r wrong right; do
		ckpt remap cpu=$wrong ddp_model.pt out.pt
		want 64 "ckpt: torch has no device '$wrong', wanted '$right'"
	done <<-'END'
		cpu:0 cpu
		gpu:1 cuda:1
		CUDA:2 cuda:2
		cuda: cuda:0
		cuda:x cuda:0
		cuda:01 cuda:0
		meta:0 meta
	END
	ckpt remap cpu=cdua:1 ddp_model.pt out.pt
	want 64 "ckpt: torch has no device 'cdua:1', wanted cpu, cuda:N, mps, xpu:N, hpu:N, mtia:N or meta"
	ckpt remap --any-device cpu=cdua:1 ddp_model.pt odd.pt; want 0
	ckpt remap cpu=meta ddp_model.pt out.pt
	want 2 "ckpt: ddp_model.pt: on 'meta' tensors have no data: nothing would be left to load"
	want_files odd.pt
}

@test "a device without its index is the first one" {
	ckpt remap --all cuda ddp_model.pt a.pt; want 0
	ckpt remap --all cuda:0 ddp_model.pt b/a.pt
	[ "$status" = 2 ]
	mkdir b
	ckpt remap --all cuda:0 ddp_model.pt b/a.pt; want 0
	cmp a.pt b/a.pt
}

@test "maps that contradict each other, or are none" {
	ckpt remap cpu=cuda:0 cpu=cuda:1 ddp_model.pt out.pt
	want 64 "ckpt: 'cpu' is mapped to 'cuda:0' and to 'cuda:1'"
	ckpt remap cpu ddp_model.pt out.pt
	want 64 "ckpt: 'cpu': wanted OLD=NEW"
	ckpt remap --all cpu cpu=mps ddp_model.pt out.pt
	[ "$status" = 64 ]
	ckpt remap ddp_model.pt out.pt
	[ "$status" = 64 ]
	want_files
}

@test "extract says what was probably meant" {
	ckpt extract modle ddp_trainer.pt out.pt
	want 2 "ckpt: ddp_trainer.pt: nothing is named 'modle'
hint: did you mean 'model'?"
	ckpt extract model ddp_trainer.pt model.pt; want 0
	[[ $output = "24 tensors left behind, "* ]]
	ckpt extract '["model"]["module.head.bias"]' ddp_trainer.pt bias.pt; want 0
	[ "$(names bias.pt)" = " cpu" ]
	want_files model.pt bias.pt
}

@test "select keeps and drops" {
	ckpt select --keep 'model.*.weight' --drop '*.norm.*' ddp_trainer.pt out.pt; want 0
	[ "$(names out.pt | cut -d' ' -f1 | tr '\n' ' ')" = "model.module.stem.0.weight model.module.stem.1.weight model.module.block.conv.weight model.module.head.weight " ]
	ckpt select --drop optimizer --drop 're:^(args|history)$' ddp_trainer.pt out2.pt; want 0
	[ "$output" != "${output/3 entries with 24 tensors dropped/}" ]
	"$CKPT" info out2.pt >info
	! grep -Eq 'optimizer|args|history' info
	grep -q best_loss info
}

@test "a pattern that matches nothing is exit code 1 and no OUT" {
	ckpt select --drop optimzer --drop args ddp_trainer.pt out.pt
	want 1 "ckpt: ddp_trainer.pt: no entry is named like 'optimzer', nothing was written
hint: 'ckpt ls' lists the names; --if-present goes on without"
	ckpt select --keep nope ddp_trainer.pt out.pt
	want 2 "ckpt: ddp_trainer.pt: nothing is named like 'nope', nothing would be left"
	ckpt select --keep nope --if-present ddp_trainer.pt out.pt
	[ "$status" = 2 ]
	want_files
	ckpt select --drop optimzer --drop args --if-present ddp_trainer.pt out.pt; want 0
	[[ $output = "1 entry with 0 tensors dropped, "* ]]
}

@test "a chain is what its edits are one by one" {
	mkdir 1 2 3
	ckpt edit ddp_trainer.pt 3/out.pt --extract model --strip-module --remap cpu=cuda:1; want 0
	ckpt extract model ddp_trainer.pt 1/out.pt; want 0
	ckpt strip-module 1/out.pt 2/out.pt; want 0
	ckpt remap -f cpu=cuda:1 2/out.pt 1/out.pt; want 0
	cmp 1/out.pt 3/out.pt
}

@test "the order of a chain counts, and neighbours are one step" {
	ckpt edit ddp_model.pt out.pt --strip-module --drop module.stem
	want 1 "ckpt: ddp_model.pt: no entry is named like 'module.stem', nothing was written
hint: 'ckpt ls' lists the names; --if-present goes on without"
	ckpt edit ddp_model.pt out.pt --drop module.stem --strip-module; want 0
	ckpt edit -f ddp_model.pt out.pt --remap cpu=cuda:0 --remap cuda:0=cpu; want 0
	[ "$(names out.pt | cut -d' ' -f2 | sort -u)" = cuda:0 ]
	ckpt edit ddp_model.pt none.pt --strip-module --strip-module
	want 1 "ckpt: ddp_model.pt: --strip-module: no key begins with 'module.', nothing was written
hint: --if-present writes OUT unchanged instead, with exit code 0"
	ckpt edit ddp_model.pt none.pt
	[ "$status" = 64 ]
	input_is_untouched
	want_files out.pt
}

#!/usr/bin/env bats
# What casts do to numbers is compared with torch in tests/interop.
load common.bash

dtypes() { "$CKPT" ls --json "$1" | python3 -c 'import collections, json, sys
print(*sorted(collections.Counter(t["dtype"] for t in json.load(sys.stdin)["tensors"]).items()))'; }

@test "cast says what it did, and leaves integers alone" {
	ckpt cast bf16 ddp_model.pt out.pt; want 0
	[[ $output = "12 tensors cast, 3.8K became 1.9K, "* ]]
	[ "$(dtypes out.pt)" = "('bfloat16', 12) ('int64', 2)" ]
	ckpt cast bfloat16 out.pt again.pt
	want 1 "ckpt: out.pt: no floating tensor has another dtype than bfloat16, nothing was written
hint: --if-present writes OUT unchanged instead, with exit code 0"
	ckpt cast torch.float32 out.pt back.pt; want 0
	[ "$(dtypes back.pt)" = "('float32', 12) ('int64', 2)" ]
}

@test "cast chooses by name" {
	ckpt cast fp16 --only 'model.*' --except '*.bias' ddp_trainer.pt out.pt; want 0
	[ "$(dtypes out.pt)" = "('float16', 9) ('float32', 27) ('int64', 2)" ]
}

@test "a cast to integers has to be asked for" {
	ckpt cast int8 ddp_model.pt out.pt
	want 64 "ckpt: a cast to int8 cuts every fraction off; it has to be asked for twice
hint: 'ckpt cast --to-integer' says that it is meant"
	ckpt cast --to-integer int8 ddp_model.pt out.pt; want 0
	[ "$(dtypes out.pt)" = "('int64', 2) ('int8', 12)" ]
}

@test "a cast to nothing that torch has" {
	ckpt cast float12 ddp_model.pt out.pt
	[[ $status = 64 && $stderr = "ckpt: there is no cast to 'float12', wanted float64, "* ]]
	ckpt cast qint8 ddp_model.pt out.pt
	[ "$status" = 64 ]
	want_files
}

@test "tensors that share bytes are cast together or not at all" {
	PYTHONPATH=$CKPT_SOURCE_DIR/tests/bad python3 -B - <<-'END'
	from files import *
	od = glob("collections", "OrderedDict") + b")R("
	open("tied.pt", "wb").write(torch_file(pickled(od + text("a") + tensor() + text("b") + tensor() + b"u")))
	END
	ckpt cast bf16 --only a tied.pt out.pt
	want 2 "ckpt: tied.pt: the bytes of 'a' are also those of a tensor that is not to be cast"
	ckpt cast bf16 tied.pt out.pt; want 0
	"$CKPT" ls --json out.pt | grep -q '"storages": *1[,}]'
}

@test "a cast as one step of a chain" {
	ckpt edit ddp_trainer.pt out.pt --extract model --strip-module --cast bf16; want 0
	[ "$(dtypes out.pt)" = "('bfloat16', 12) ('int64', 2)" ]
	ckpt edit out.pt round.pt --cast fp32 --cast bf16; want 0
	cmp <("$CKPT" ls out.pt) <("$CKPT" ls round.pt)
}

@test "a dtype that no torch loads from a legacy stream is not written into one" {
	ckpt convert --to torch-legacy ddp_model.pt old.pt; want 0
	ckpt cast float8_e4m3fn ddp_model.pt new.pt; want 0
	local why="holds a tensor of float8_e4m3fn, which no torch can load from a legacy stream; 'ckpt convert --to torch' writes a file of today"
	ckpt cast float8_e4m3fn old.pt out.pt; want 2 "ckpt: old.pt: $why"
	ckpt cast -i float8_e4m3fn old.pt; want 2 "ckpt: old.pt: $why"
	ckpt convert --to torch-legacy new.pt out.pt; want 2 "ckpt: new.pt: $why"
	ckpt convert --to torch --cast float8_e4m3fn old.pt out.pt; want 0
	ckpt cast bfloat16 old.pt half.pt; want 0
	want_files old.pt new.pt out.pt half.pt
}

@test "an optimizer's state and tensors without a dimension stay, unless they are asked for" {
	local left="no floating tensor but an optimizer's and those without a dimension (--all takes them) has another dtype than bf16"
	ckpt cast bf16 ddp_trainer.pt out.pt; want 0
	[[ $output = "12 tensors cast, 3.8K became 1.9K, 24 of an optimizer left, "* ]]
	[ "$(dtypes out.pt)" = "('bfloat16', 12) ('float32', 24) ('int64', 2)" ]
	ckpt cast bf16 out.pt again.pt
	want 1 "ckpt: out.pt: $left, nothing was written
hint: --if-present writes OUT unchanged instead, with exit code 0"
	ckpt cast -f bf16 --all ddp_trainer.pt out.pt; want 0
	[ "$(dtypes out.pt)" = "('bfloat16', 36) ('int64', 2)" ]
	ckpt cast -f bf16 --only 'optimizer*' --only '*.bias' ddp_trainer.pt out.pt; want 0
	[ "$(dtypes out.pt)" = "('bfloat16', 27) ('float32', 9) ('int64', 2)" ]
	ckpt cast -f bf16 --except '*.bias' ddp_trainer.pt out.pt; want 0
	[ "$(dtypes out.pt)" = "('bfloat16', 9) ('float32', 27) ('int64', 2)" ]
}

@test "steps of a chain choose as cast does" {
	ckpt edit ddp_trainer.pt out.pt --strip-module --cast bf16; want 0
	[ "$(dtypes out.pt)" = "('bfloat16', 12) ('float32', 24) ('int64', 2)" ]
	ckpt convert -f ddp_trainer.pt out.pt --cast-all bf16; want 0
	[ "$(dtypes out.pt)" = "('bfloat16', 36) ('int64', 2)" ]
	ckpt convert -f ddp_trainer.pt out.pt --cast bf16 --cast-only 'optimizer*'; want 0
	[ "$(dtypes out.pt)" = "('bfloat16', 24) ('float32', 12) ('int64', 2)" ]
	ckpt edit -f ddp_trainer.pt out.pt --cast bf16 --cast-only 'optimiser*'
	want 1 "ckpt: ddp_trainer.pt: nothing is named like 'optimiser*', nothing was written
hint: 'ckpt ls' lists the names; --if-present goes on without"
	ckpt edit -f ddp_trainer.pt out.pt --strip-module --cast-only 'optimizer*'
	want 64 "ckpt: edit: --cast-only says what --cast takes, and there is none
usage: ckpt edit [OPTIONS] IN OUT
hint: 'ckpt edit --help' shows the options"
	ckpt edit -i ddp_trainer.pt --drop model --cast bf16
	want 1 "ckpt: ddp_trainer.pt: --cast: no floating tensor but an optimizer's and those without a dimension (--all takes them) has another dtype than bf16, nothing was written
hint: --if-present goes on without this step"
}

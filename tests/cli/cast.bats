#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
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
	ckpt cast -q float8_e4m3fn ddp_model.pt new.pt; want 0
	local why="holds a tensor of float8_e4m3fn, which no torch can load from a legacy stream; 'ckpt convert --to torch' writes a file of today"
	ckpt cast float8_e4m3fn old.pt out.pt; want 2 "ckpt: old.pt: $why"
	ckpt cast -i float8_e4m3fn old.pt; want 2 "ckpt: old.pt: $why"
	ckpt convert --to torch-legacy new.pt out.pt; want 2 "ckpt: new.pt: $why"
	ckpt convert -q --to torch --cast float8_e4m3fn old.pt out.pt; want 0
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

# losses FILE: m.b of 6 numbers, two of them no finite ones; m.a of 4 x 5; and a view of the second, transposed
losses() {
	PYTHONPATH=$CKPT_SOURCE_DIR/tests/bad python3 -B - "$1" <<-'END'
	import struct, sys
	from files import *
	a = [1.] * 20
	a[7], a[13], a[16] = 1e6, -1e7, 1e-9
	od = glob("collections", "OrderedDict") + b")R("
	entries = (text("m.b") + tensor("1", numel=6, shape=(6,)) + text("m.a") + tensor(numel=20, shape=(4, 5), stride=(5, 1)) +
	           text("t") + tensor(numel=20, shape=(4, 4), stride=(1, 5), offset=1))
	open(sys.argv[1], "wb").write(torch_file(pickled(od + entries + b"u"), data=struct.pack("<20f", *a),
	                                         extra=[("data/1", struct.pack("<6f", 1, 1, 1, 1, float("inf"), float("nan")))]))
	END
}

@test "what became infinite or zero is reported, with the first place" {
	losses in.pt
	local note="ckpt: note: 2 numbers were too large for float16 and became infinite, first 1000000.0 at 'm.a'[1, 2]
ckpt: note: 1 number was too small for float16 and became 0, first 1e-09 at 'm.a'[3, 1]"
	ckpt cast fp16 in.pt out.pt; want 0 "$note"
	ckpt cast -q fp16 -f in.pt out.pt; want 0
	ckpt cast -n fp16 in.pt other.pt; want 0
	ckpt edit -f in.pt out.pt --cast fp16 --rename 's/^m/n/' --cast fp32; want 0 "$note"
	ckpt convert in.pt out.safetensors --cast fp16 --shared clone; want 0 "$note"
	ckpt convert in.pt set --cast fp16 --shared clone --shard-size 40; want 0 "$note"
	ckpt convert in.pt out.npz --cast fp16; want 0 "$note"
	ckpt convert --to torch-legacy in.pt old.pt --cast fp16; want 0 "$note"
	cp in.pt work.pt
	ckpt cast -i fp16 work.pt; want 0 "$note"
	ckpt cast -f fp16 --except m.a --except t in.pt out.pt
	want 0
	ckpt cast -f fp8 in.pt out.pt
	want 0 "ckpt: note: 3 numbers were too large for float8_e4m3fn and became the largest that it has, first inf at 'm.b'[4]
ckpt: note: 1 number was too small for float8_e4m3fn and became 0, first 1e-09 at 'm.a'[3, 1]"
	ckpt cast -f float8_e5m2fnuz --only m.b in.pt out.pt
	want 0 "ckpt: note: 1 number was too large for float8_e5m2fnuz and became NaN, first inf at 'm.b'[4]"
	ckpt cast -f --to-integer int16 in.pt out.pt
	want 0 "ckpt: note: 4 numbers were too large for int16 and became another, first inf at 'm.b'[4]"
	ckpt cast -f bf16 in.pt out.pt; want 0
}

@test "with --check-overflow, a cast that loses numbers writes nothing" {
	losses in.pt
	cp in.pt work.pt
	refused() { want 1 "ckpt: $1: 2 numbers are too large for float16, the first at 'm.a'[1, 2]; 1 number is too small for float16, the first at 'm.a'[3, 1]
hint: nothing was written; without --check-overflow it is"; }
	ckpt cast fp16 --check-overflow in.pt out.pt; refused in.pt
	ckpt cast -n fp16 --check-overflow in.pt out.pt; refused in.pt
	ckpt cast -q fp16 --check-overflow in.pt out.pt; refused in.pt
	ckpt cast -i fp16 --check-overflow work.pt; refused work.pt
	ckpt cast -n -i fp16 --check-overflow work.pt; refused work.pt
	ckpt edit in.pt out.pt --check-overflow --cast fp16; refused in.pt
	ckpt convert in.pt out.npz --check-overflow --cast-all fp16; refused in.pt
	ckpt convert in.pt folder --to npy --check-overflow --cast fp16; refused in.pt
	ckpt convert in.pt old.pt --to torch-legacy --check-overflow --cast fp16; refused in.pt
	ckpt convert in.pt out.safetensors --shared clone --check-overflow --cast fp16; refused in.pt
	ckpt convert in.pt set --shard-size 40 --shared clone --check-overflow --cast fp16; refused in.pt
	ckpt convert -n in.pt set --shard-size 40 --shared clone --check-overflow --cast fp16; refused in.pt
	want_files in.pt work.pt
	cmp in.pt work.pt
	ckpt split -q in.pt dcp --ranks 2; want 0
	ckpt cast fp16 --check-overflow dcp out
	[[ $status = 1 && $stderr = "ckpt: dcp: "*" numbers are too large for float16, the first at 'm.a'[1, 2]; "* ]]
	want_files in.pt work.pt dcp
	# what is dropped after the cast is of no matter
	ckpt edit -n in.pt out.pt --check-overflow --cast fp16 --keep m.b; want 0
	ckpt edit in.pt out.pt --check-overflow --cast fp16 --keep m.b; want 0
	ckpt cast -n bf16 --check-overflow in.pt new.pt; want 0
	ckpt cast bf16 --check-overflow in.pt new.pt; want 0
	ckpt edit in.pt other.pt --check-overflow --strip-module
	want 64 "ckpt: edit: --check-overflow looks at what --cast makes, and there is none
usage: ckpt edit [OPTIONS] IN OUT
hint: 'ckpt edit --help' shows the options"
}

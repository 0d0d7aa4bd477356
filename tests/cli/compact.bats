#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# What compact makes of views is compared with torch in tests/interop.
load common.bash

@test "compact says what it saved, and does nothing twice" {
	PYTHONPATH=$CKPT_SOURCE_DIR/tests/bad python3 -B - <<-'END'
	from files import *
	body = b"}(" + text("a") + tensor(shape=(1,), offset=1) + text("b") + tensor(shape=(1,), offset=3) + b"u"
	open("views.pt", "wb").write(torch_file(pickled(body)))
	END
	ckpt compact views.pt out.pt; want 0
	[[ $output = "2 tensors compacted, 16 bytes became 8 bytes, "* ]]
	ckpt compact out.pt out2.pt
	want 1 "ckpt: out.pt: no tensor shows less than its storage, or it is compressed, nothing was written
hint: --if-present writes OUT unchanged instead, with exit code 0"
	ckpt edit views.pt chain.pt --compact --drop a --cast fp64; want 0
	[[ $output = *"1 tensor cast, 4 bytes became 8 bytes, "* ]]
	ckpt edit views.pt chain2.pt --cast fp64 --compact
	want 2 "ckpt: views.pt: numbers that are being cast cannot be taken apart; compact first"
}

@test "compact drops what edits in place left behind" {
	ckpt select -i --drop optimizer ddp_trainer.pt; want 0
	ckpt compact --if-present ddp_trainer.pt out.pt; want 0
	[ "$(stat -c %s out.pt)" -lt 10000 ]
}

@test "new storages get keys that no other has" {
	PYTHONPATH=$CKPT_SOURCE_DIR/tests/bad python3 -B - <<-'END'
	from files import *
	body = b"}(" + text("a") + tensor(shape=(1,), offset=1) + text("b") + tensor(key="v2") + b"u"
	open("keys.pt", "wb").write(torch_file(pickled(body), extra=[("data/v2", FOUR_FLOATS)]))
	END
	ckpt compact keys.pt out.pt; want 0
	"$CKPT" ls out.pt
}

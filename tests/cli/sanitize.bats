#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# What sanitize makes of objects is loaded by torch in tests/interop.
load common.bash

@test "every replacement is listed, and nothing is left to refuse" {
	PYTHONPATH=$CKPT_SOURCE_DIR/tests/bad python3 -B - <<-'END'
	from files import *
	spaces = glob("argparse", "Namespace") + b")\x81}(" + text("lr") + number(1) + text("out") + \
	    glob("pathlib", "PosixPath") + text("/a") + text("b") + b"\x86Ru" + b"b"
	body = b"}(" + text("args") + spaces + text("a.b") + tensor() + b"u"
	open("args.pt", "wb").write(torch_file(pickled(body)))
	call = b"}(" + text("x") + glob("os", "system") + text("id") + b"\x85Ru"
	open("call.pt", "wb").write(torch_file(pickled(call)))
	END
	ckpt sanitize args.pt out.pt; want 0
	[[ $output = "args: Namespace is now dict
args.out: PosixPath is now str
2 values replaced, "* ]]
	"$CKPT" info out.pt | grep -q "args *dict of 2"
	ckpt sanitize out.pt out2.pt
	want 1 "ckpt: out.pt: it has plain data only, nothing was written
hint: --if-present writes OUT unchanged instead, with exit code 0"
	ckpt sanitize -q args.pt quiet.pt; want 0
	[ "$output" = "" ]
}

@test "what would have to be called is an error that names the place" {
	PYTHONPATH=$CKPT_SOURCE_DIR/tests/bad python3 -B - <<-'END'
	from files import *
	call = b"}(" + text("x") + b"]" + glob("os", "system") + text("id") + b"\x85Ra" + text("y") + tensor() + b"u"
	open("call.pt", "wb").write(torch_file(pickled(call)))
	END
	ckpt sanitize call.pt out.pt
	[ "$status" = 2 ]
	[[ $stderr = "ckpt: call.pt: "*"'x.0' cannot be told without calling os.system
hint: 'ckpt edit IN OUT --drop NAME --sanitize' leaves it out" ]]
	ckpt edit call.pt out.pt --drop x --sanitize --if-present; want 0
	ckpt sanitize ddp_trainer.pt plain.pt
	[ "$status" = 1 ] || [ "$status" = 0 ]
}

@test "a call whose result nothing holds is said, and is not in OUT" {
	PYTHONPATH=$CKPT_SOURCE_DIR/tests/bad python3 -B - <<-'END'
	from files import *
	evil = glob("posix", "system") + text("true") + b"\x85R"
	open("below.pt", "wb").write(torch_file(b"\x80\x02" + evil + b"}" + text("w") + tensor() + b"s."))
	open("popped.pt", "wb").write(torch_file(b"\x80\x02" + evil + b"0}" + text("w") + tensor() + b"s."))
	END
	local note="ckpt: note: a load would also take posix.system, whose result is no part of the checkpoint: OUT is without it"
	for file in below popped; do
		ckpt sanitize $file.pt out.pt; want 1 "$note
ckpt: $file.pt: its values are plain data, but a load would also take what stands above, nothing was written
hint: --if-present writes OUT without that, with exit code 0"
		[ ! -e out.pt ]
		ckpt sanitize --if-present $file.pt out.pt; want 0 "$note"
		ckpt scan out.pt; want 0
		[[ ${lines[0]} = "out.pt: plain: "* ]]
		rm out.pt
	done
}

@test "what becomes a key is what Python hashes, and no other's key" {
	PYTHONPATH=$CKPT_SOURCE_DIR/tests/bad python3 -B - <<-'END'
	from files import *
	path = glob("pathlib", "PosixPath") + text("a") + b"\x85R"
	frozen = lambda n: glob("__builtin__", "frozenset") + b"]" + number(n) + b"a\x85R"
	frozen_class = glob("m", "Frozen") + b")\x81}" + text("x") + number(1) + b"sb"
	made = lambda items: glob("__builtin__", "set") + b"](" + items + b"e\x85R"
	for name, body in (("same_keys", b"}(" + path + number(1) + text("a") + number(2) + b"u"),
	                   ("same_items", b"}" + text("s") + made(path + text("a")) + b"s"),
	                   ("object", b"}" + text("s") + made(frozen_class) + b"s"),
	                   ("frozen", b"}" + text("s") + made(frozen(1) + frozen(2)) + b"s"),
	                   ("in_tuple", b"}(" + frozen(1) + number(2) + b"\x86" + number(3) + text("p") + path + b"u"),
	                   ("fine", b"}(" + path + number(1) + text("b") + made(number(3)) + path + number(2) + b"\x86" + number(4) + b"u")):
	    open(name + ".pt", "wb").write(torch_file(pickled(body)))
	END
	ckpt sanitize same_keys.pt out.pt; want 2 "ckpt: same_keys.pt: +0x2: '' would have 'a' twice"
	ckpt sanitize same_items.pt out.pt; [ "$status" = 2 ]
	[[ $stderr = *"'s' would have 'a' twice"* ]]
	ckpt sanitize object.pt out.pt; [ "$status" = 2 ]
	[[ $stderr = *"'s' would have a dict as a key or in a set, which Python cannot hash"* ]]
	ckpt sanitize frozen.pt out.pt; [ "$status" = 2 ]
	[[ $stderr = *"'s' would have a set as a key or in a set, which Python cannot hash"* ]]
	ckpt sanitize in_tuple.pt out.pt; [ "$status" = 2 ]
	[[ $stderr = *"cannot be told without calling __builtin__.frozenset"* ]]
	[ ! -e out.pt ]
	ckpt sanitize fine.pt out.pt; want 0
}

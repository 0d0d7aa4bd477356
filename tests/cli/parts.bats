#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
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
	[[ $status = 64 && $stderr = "ckpt: remap: 'cpu': wanted OLD=NEW"* ]]
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
	run -1 grep -Eq 'optimizer|args|history' info
	grep -q best_loss info
}

@test "a pattern that matches nothing is exit code 1 and no OUT" {
	ckpt select --drop optimzer --drop args ddp_trainer.pt out.pt
	want 1 "ckpt: ddp_trainer.pt: nothing is named like 'optimzer', nothing was written
hint: 'ckpt ls' lists the names; --if-present goes on without"
	ckpt select --keep nope ddp_trainer.pt out.pt
	want 1 "ckpt: ddp_trainer.pt: nothing is named like 'nope', nothing would be left"
	ckpt select --keep nope --if-present ddp_trainer.pt out.pt
	[ "$status" = 1 ]
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
	want 1 "ckpt: ddp_model.pt: --drop: nothing is named like 'module.stem' after the steps before it, nothing was written
hint: 'ckpt ls' lists the names; --if-present goes on without"
	ckpt edit ddp_model.pt out.pt --drop module.stem --strip-module; want 0
	ckpt edit -f ddp_model.pt out.pt --remap cpu=cuda:0 --remap cuda:0=cpu; want 0
	[ "$(names out.pt | cut -d' ' -f2 | sort -u)" = cuda:0 ]
	ckpt edit ddp_model.pt none.pt --strip-module --strip-module
	want 1 "ckpt: ddp_model.pt: --strip-module: no key begins with 'module.', nothing was written
hint: --if-present goes on without this step
hint: for a plain model: ckpt edit ddp_model.pt none.pt --strip-prefix module."
	ckpt edit ddp_model.pt none.pt
	[ "$status" = 64 ]
	input_is_untouched
	want_files out.pt
}

# objects PYTHON: variables of tests/bad/files.py are there; od(), D ... write the pickles
objects() { PYTHONPATH=$CKPT_SOURCE_DIR/tests/bad python3 -B -c "from files import *
def dict_of(**kw): return b'}(' + b''.join(text(k) + v for k, v in kw.items()) + b'u'
def put(v, n): return v + b'q' + bytes([n])
def get(n): return b'h' + bytes([n])
def write(name, body): open(name, 'wb').write(torch_file(pickled(body)))
$1"; }
tensors() { "$CKPT" ls --json "$1" | python3 -c 'import json, sys
print(*(t["name"] for t in json.load(sys.stdin)["tensors"]))'; }

@test "what hangs in several places stays whole where it is kept" {
	objects "
D = dict_of(w=tensor(), b=tensor())
write('shared.pt', dict_of(a=put(D, 9), b=get(9), c=number(1)))
write('tuple.pt', dict_of(d=put(D, 9), t=get(9) + b'\\x85'))
write('deep.pt', dict_of(d=put(dict_of(x=D, y=D), 9), t=get(9)))"
	ckpt select --keep b shared.pt out1.pt; want 0
	[ "$(tensors out1.pt)" = "b.w b.b" ]
	ckpt select --keep t tuple.pt out2.pt; want 0
	[ "$(tensors out2.pt)" = "t.0.w t.0.b" ]
	ckpt select --keep t --keep d.x.w deep.pt out3.pt; want 0
	[ "$(tensors out3.pt | wc -w)" = 4 ]
}

@test "names inside of tuples count for --keep, and are refused for --drop" {
	objects "
write('ema.pt', dict_of(model=dict_of(w=tensor(), b=tensor()), ema=dict_of(w=tensor()) + number(3) + b'\\x86'))"
	ckpt select --keep '*.w' ema.pt out.pt; want 0
	[ "$(tensors out.pt)" = "model.w ema.0.w" ]
	ckpt select --drop ema.0.w ema.pt out2.pt
	want 2 "ckpt: ema.pt: 'ema.0.w' is part of a tuple or of an object, which stays or goes as a whole"
}

@test "--keep and --drop together are one step" {
	ckpt select --keep 'model' --drop 'optimizer*' ddp_trainer.pt out.pt; want 0
	ckpt select --drop optimizer --drop optimizer.state ddp_trainer.pt out2.pt; want 0
	ckpt select --keep '*' --drop args ddp_trainer.pt out3.pt; want 0
}

@test "a pattern that is too much work is an error, not a miss" {
	objects "write('long.pt', dict_of(**{'a' * 40 + '!': tensor()}))"
	ckpt select --keep 're:((a+)+c|.*!)$' long.pt out.pt
	[[ $status = 2 && $stderr = *"a pattern cannot be compared with 'aaaa"* ]]
	ckpt ls long.pt 're:((a+)+c|.*!)$'
	[[ $status = 2 && $stderr = *"a pattern cannot be compared with 'aaaa"* ]]
}

@test "an OrderedDict that was appended to is left alone" {
	objects "write('odd.pt', dict_of(x=glob('collections', 'OrderedDict') + b')R(K\\x01K\\x02K\\x03e'))"
	ckpt select --drop x.0 odd.pt out.pt
	[[ $status != 0 && $stderr != *Sanitizer* ]]
}

@test "entries go before arguments and attributes of the same name" {
	objects "
write('default.pt', dict_of(state=glob('collections', 'defaultdict') + glob('__builtin__', 'dict') + b'\\x85RK\\x00' + tensor() + b's', **{'': number(1)}))"
	ckpt extract state.0 default.pt out.pt; want 0
	[ "$(tensors out.pt)" = "" ] || [ "$("$CKPT" info out.pt | tail -1)" = "root        tensor" ]
	ckpt extract '' default.pt out2.pt; want 0
}

@test "remap says what is missing" {
	ckpt remap cuda:0=cpu ddp_model.pt
	[[ $status = 64 && $stderr = "ckpt: remap: too few operands, wanted OLD=NEW... IN OUT"* ]]
	ckpt remap ddp_model.pt out.pt cuda:0=cpu
	[[ $status = 64 && $stderr = "ckpt: remap: 'ddp_model.pt' stands where OLD=NEW belongs"* ]]
	ckpt remap --all cuda:128 ddp_model.pt out.pt
	[ "$status" = 64 ]
	ckpt remap --all cuda:127 ddp_model.pt out.pt; want 0
}

@test "devices with long names are cut" {
	objects "
body = dict_of(**{c: tensor(key=str(i)).replace(text('cpu'), text(c * 60)) for i, c in enumerate('abcdef')})
open('long.pt', 'wb').write(torch_file(pickled(body), extra=[('data/%d' % i, FOUR_FLOATS) for i in range(1, 6)]))"
	ckpt remap cuda:0=cpu long.pt out.pt
	[[ $status = 1 && $stderr = "ckpt: long.pt: there is nothing to move: its tensors are on aaaaaa"* ]]
}

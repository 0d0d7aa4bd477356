#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# The numbers that diff finds are compared with those of torch in tests/interop/diff.py.
load common.bash

# save FILE PROTOCOL EXPRESSION: a file of torch.save that holds only what Python's pickle knows
save() {
	python3 - "$@" <<-'END'
	import collections, pickle, sys, zipfile
	value = eval(sys.argv[3])
	with zipfile.ZipFile(sys.argv[1], "w") as archive:
	    archive.writestr("archive/data.pkl", pickle.dumps(value, int(sys.argv[2])))
	    archive.writestr("archive/byteorder", "little")
	    archive.writestr("archive/version", "3\n")
	END
}

# change IN OUT RECORD FLOATS...: the first numbers of a record are others, and so is its checksum
change() {
	python3 - "$@" <<-'END'
	import struct, sys, zipfile
	source, target, record, *numbers = sys.argv[1:]
	with zipfile.ZipFile(source) as old, zipfile.ZipFile(target, "w") as new:
	    for name in old.namelist():
	        data = old.read(name)
	        if name.endswith(record):
	            data = struct.pack("<%df" % len(numbers), *map(float, numbers)) + data[4 * len(numbers):]
	        new.writestr(name, data)
	END
}

# flip FILE RECORD: one bit of its first byte, and the checksum stays
flip() {
	python3 - "$@" <<-'END'
	import struct, sys, zipfile
	info = zipfile.ZipFile(sys.argv[1]).getinfo(sys.argv[2])
	with open(sys.argv[1], "r+b") as file:
	    file.seek(info.header_offset + 26)
	    at = info.header_offset + 30 + sum(struct.unpack("<HH", file.read(4)))
	    file.seek(at)
	    byte = file.read(1)[0]
	    file.seek(at)
	    file.write(bytes([byte ^ 1]))
	END
}

# first_numbers FILE RECORD: the first float32 of it
first_number() {
	python3 -c "import struct, sys, zipfile
print('%r' % struct.unpack('<f', zipfile.ZipFile(sys.argv[1]).read(sys.argv[2])[:4])[0])" "$@"
}

# member EXPRESSION: of the document in $output
member() {
	python3 -c "import json, sys
d = json.loads(sys.stdin.read())
print(eval(sys.argv[1]))" "$1" <<<"$output"
}

@test "what is the same is said to be, with exit status 0, and with --trust-checksums nothing is read of it" {
	ckpt diff ddp_model.pt ddp_model.pt; want 0
	[ "$output" = "ddp_model.pt is the same as ddp_model.pt: 14 tensors, 10 other values" ]
	cp ddp_model.pt copy.pt
	ckpt diff --trust-checksums ddp_model.pt copy.pt; want 0
	[ "$output" = "copy.pt is the same as ddp_model.pt, if its checksums are right: 14 tensors with 3.8K by checksum, 10 other values" ]
	ckpt diff ddp_model.pt copy.pt ddp_model.pt; want 0
	[ ${#lines[@]} = 2 ]
	ckpt diff --read ddp_model.pt copy.pt; want 0
	[ "$output" = "copy.pt is the same as ddp_model.pt: 14 tensors, 10 other values" ]
	ckpt diff -q --strict ddp_model.pt copy.pt; want 0
	[ -z "$output" ]
	ckpt diff --json ddp_model.pt copy.pt; want 0
	[ "$(member 'd["inputs"][0]["report"]["read_nbytes"]')" = 7600 ]
	ckpt diff --json --trust-checksums ddp_model.pt copy.pt; want 0
	[ "$(member 'd["inputs"][0]["report"]["read_nbytes"]')" = 0 ]
	[ "$(member 'd["inputs"][0]["verdict"]')" = same ]
	input_is_untouched
}

@test "what only one has, what has another name, and how the names match" {
	ckpt diff ddp_model.pt ddp_trainer.pt
	want 1 "hint: names of 14 tensors match with --at-b model"
	[ "${lines[0]}" = "only in ddp_trainer.pt:" ]
	[[ ${lines[1]} =~ ^"  optimizer.* "+"24 tensors with 7.3K, 21 other values"$ ]]
	[[ $output = *$'\nthe same values under other names:\n  module.stem.0.weight '* ]]
	[[ ${lines[-1]} = "ddp_trainer.pt is not the same as ddp_model.pt: 14 tensors renamed, 24 only in ddp_trainer.pt; 41 other"* ]]
	ckpt diff -v --limit 0 ddp_model.pt ddp_trainer.pt
	want 1 "hint: names of 14 tensors match with --at-b model"
	[[ $output = *$'\n  optimizer.state.0.step '* ]]
	ckpt diff --at-b model ddp_model.pt ddp_trainer.pt; want 0
	ckpt diff -q ddp_model.pt ddp_trainer.pt; want 1
	[ -z "$output" ]
}

@test "prefixes and renamed keys line up" {
	"$CKPT" strip-module -q ddp_trainer.pt plain.pt
	ckpt diff ddp_trainer.pt plain.pt; want 1 "hint: names of 14 tensors match with --strip-module"
	ckpt diff plain.pt ddp_trainer.pt; want 1 "hint: names of 14 tensors match with --strip-module"
	ckpt diff --strip-module ddp_trainer.pt plain.pt; want 0
	ckpt diff --rename 's/^module\.//' ddp_trainer.pt plain.pt; want 0
	ckpt diff --rename 's/^/module./' plain.pt ddp_trainer.pt; want 0
	ckpt diff --rename 's/^nothing//' ddp_model.pt ddp_model.pt
	want 0 "ckpt: note: --rename matches no key of ddp_model.pt"
	"$CKPT" add-prefix -q net.x_1. plain.pt more.pt
	ckpt diff plain.pt more.pt; want 1 "hint: names of 14 tensors match with --rename 's/^/net.x_1./'"
	ckpt diff more.pt plain.pt; want 1 "hint: names of 14 tensors match with --rename 's/^net\.x_1\.//'"
	ckpt diff --rename 's/^net\.x_1\.//' more.pt plain.pt; want 0
	ckpt diff --at optimizer ddp_trainer.pt plain.pt; want 0
	ckpt diff --at optimzer ddp_trainer.pt plain.pt
	want 2 "ckpt: ddp_trainer.pt: nothing is named 'optimzer'
hint: did you mean 'optimizer'?"
}

@test "numbers: the largest change first, NaN before it" {
	a=$(first_number ddp_model.pt ddp_model/data/0)
	change ddp_model.pt b.pt data/0 "$(python3 -c "print($a + 0.25)")"
	ckpt diff ddp_model.pt b.pt; want 1
	[[ ${lines[1]} =~ ^"  name "+"differ "+"change   max abs   max rel       rms     cosine "+"ulp"$ ]]
	[[ ${lines[2]} =~ ^"  module.stem.0.weight  float32 [8, 3, 3, 3] "+"1  "[0-9.e-]+"  2.50e-01 " ]]
	[ "${lines[3]}" = "b.pt is not the same as ddp_model.pt: 1 tensor changed; 13 tensors, 10 other values are the same" ]
	ckpt diff --tolerance 0.3 ddp_model.pt b.pt; want 0
	[[ $output = *"; 1 tensor differs within the tolerance" ]]
	ckpt diff --atol 0.2 ddp_model.pt b.pt; want 1
	change b.pt c.pt data/1 nan 1e6
	change c.pt d.pt data/2 inf
	ckpt diff ddp_model.pt d.pt; want 1
	[[ ${lines[2]} = "  module.stem.1.weight "*"1 NaN appeared" ]]
	[[ ${lines[3]} = "  module.stem.1.bias "*"inf"*"1 infinite appeared" ]]
	[[ ${lines[4]} = "  module.stem.0.weight "* ]]
	ckpt diff d.pt ddp_model.pt; want 1
	[[ $output = *"1 NaN vanished"*"1 infinite vanished"* ]]
	ckpt diff --limit 1 ddp_model.pt d.pt; want 1
	[ "${lines[3]}" = "  ... and 2 more (--limit 0 shows all)" ]
	ckpt diff --quick ddp_model.pt d.pt; want 0
	[[ $output = *"14 tensors by name, shape, dtype and device, 10 other values" ]]
	ckpt diff --keep '*.head' ddp_model.pt d.pt; want 0
	ckpt diff --drop '*.stem' --drop nothing ddp_model.pt d.pt; want 0 "ckpt: note: nothing matches 'nothing'"
	ckpt diff --keep nothing ddp_model.pt d.pt; want 2 "ckpt: no name matches"
	ckpt diff --drop '*' ddp_model.pt d.pt; want 2 "ckpt: the patterns leave nothing to compare"
}

@test "a flipped bit is a difference, unless checksums are trusted" {
	cp ddp_model.pt damaged.pt
	flip damaged.pt ddp_model/data/0
	for option in "" --read --strict; do
		ckpt diff $option ddp_model.pt damaged.pt; want 1
		[[ ${lines[2]} = "  module.stem.0.weight "*"  1" ]] # one step
	done
	ckpt diff --trust-checksums ddp_model.pt damaged.pt; want 0
	[[ $output = "damaged.pt is the same as ddp_model.pt, if its checksums are right: "* ]]
	ckpt add-prefix x. damaged.pt renamed.pt; want 0
	ckpt diff ddp_model.pt renamed.pt
	[ "$status" = 1 ]
	[[ $output = *"13 tensors renamed, 1 only in ddp_model.pt, 1 only in renamed.pt"* ]]
	ckpt diff --trust-checksums ddp_model.pt renamed.pt
	[ "$status" = 1 ]
	[[ $output = *"14 tensors renamed; "* ]]
}

@test "0 and -0 are equal, and said to be written otherwise" {
	change ddp_model.pt a.pt data/0 0 0
	change ddp_model.pt b.pt data/0 -0.0 0
	ckpt diff a.pt b.pt; want 0
	[[ $output = *"; 1 tensor with equal numbers in other bits (0 and -0, or NaN)" ]]
	ckpt diff --strict a.pt b.pt; want 1
	[[ ${lines[2]} = "  module.stem.0.weight "*"1 equal in other bits" ]]
}

@test "dtypes and devices" {
	"$CKPT" cast -q bf16 ddp_model.pt half.pt
	ckpt diff ddp_model.pt half.pt; want 1
	[[ $output = *"float32 -> bfloat16 [10, 8]"* ]]
	ckpt diff --ignore-dtype --tolerance 0,0.01 ddp_model.pt half.pt; want 0
	ckpt diff --tolerance 0,0.01 ddp_model.pt half.pt; want 1
	"$CKPT" remap -q cpu=cuda:1 ddp_model.pt gpu.pt
	ckpt diff ddp_model.pt gpu.pt; want 1
	[[ ${lines[1]} =~ "  module.stem.0.weight "+"float32 [8, 3, 3, 3]  cpu -> cuda:1" || ${lines[2]} =~ "cpu -> cuda:1" ]]
	ckpt diff --ignore-device ddp_model.pt gpu.pt; want 0
}

@test "other formats and forms of the same" {
	"$CKPT" convert -q --to torch-legacy ddp_trainer.pt legacy.pt
	"$CKPT" split -q --ranks 3 ddp_trainer.pt dcp
	"$CKPT" convert -q --profile 1.6 ddp_trainer.pt old.pt
	ckpt diff ddp_trainer.pt legacy.pt dcp old.pt; want 0
	[ ${#lines[@]} = 3 ]
	ckpt diff dcp legacy.pt; want 0
	rm "$(ls dcp/*.distcp | head -1)"
	ckpt diff ddp_trainer.pt dcp; want 2
	[[ $output = *$'cannot be compared:\n  '*"  dcp: 'model.module.stem.0.weight' in "*": the data file is missing"* ]]
	[[ ${lines[-1]} = *" cannot be compared"* ]]
}

@test "very many small tensors, with larger ones and views among them" {
	python3 - <<-'END'
	import struct, zipfile
	text = lambda s: b"X" + struct.pack("<I", len(s)) + s.encode()
	number = lambda n: b"J" + struct.pack("<i", n)
	def tensor(key, numel, offset, shape, stride):
	    storage = b"(" + text("storage") + b"ctorch\nFloatStorage\n" + text(key) + text("cpu") + number(numel) + b"tQ"
	    dims = [b"(" + b"".join(map(number, some)) + b"t" for some in (shape, stride)]
	    return (b"ctorch._utils\n_rebuild_tensor_v2\n(" + storage + number(offset) + dims[0] + dims[1] +
	            b"\x89ccollections\nOrderedDict\n)RtR")
	sizes = {i: 70000 if i % 2500 == 1200 else 6 for i in range(10000)}
	def numbers(i, other):
	    some = [float(i)] * sizes[i]
	    if other and i % 1000 == 200:
	        some[-1] += 0.5
	    return struct.pack("<%df" % len(some), *some)
	body = b""
	for i, numel in sizes.items():
	    shape, stride = ([2, 3], [1, 2]) if i % 3 == 0 else ([numel - 1], [1])
	    body += text("t%d" % i) + tensor(str(i), numel, i % 3 and 1, shape, stride)
	for name, other in ("many.pt", False), ("other.pt", True):
	    with zipfile.ZipFile(name, "w") as new:
	        new.writestr("archive/data.pkl", b"\x80\2}(" + body + b"u.")
	        new.writestr("archive/version", "3\n")
	        for i in sizes:
	            new.writestr("archive/data/%d" % i, numbers(i, other))
	END
	ckpt diff many.pt many.pt; want 0
	[ "$output" = "many.pt is the same as many.pt: 10,000 tensors" ]
	ckpt diff --json many.pt other.pt; want 1
	output=$(member 'json.dumps(d["inputs"][0])')
	[ "$(member 'sorted((f["name"], f["numbers"]["count"]) for f in d["differences"] if f["numbers"]["max_abs"] == 0.5)')" = \
		"[('t200', 5), ('t2200', 5), ('t3200', 5), ('t4200', 6), ('t5200', 5), ('t6200', 69999), ('t7200', 6), ('t8200', 5), ('t9200', 5)]" ]
	[ "$(member 'd["report"]["read_nbytes"]')" = 1546576 ]
}

@test "compressed records of one archive, many at once" {
	python3 - <<-'END'
	import zipfile
	with zipfile.ZipFile("ddp_trainer.pt") as old, zipfile.ZipFile("deflated.pt", "w", zipfile.ZIP_DEFLATED) as new:
	    for name in old.namelist():
	        new.writestr(name, old.read(name))
	END
	run --separate-stderr bounded 60 "$CKPT" diff --read deflated.pt ddp_trainer.pt deflated.pt; want 0
	run --separate-stderr bounded 60 "$CKPT" diff --trust-checksums deflated.pt ddp_trainer.pt; want 0
	[[ $output = *" by checksum"* ]]
}

@test "other values: numbers, texts, sets in any order, what hangs in two places" {
	save a.pt 2 '{"epoch": 3, "lr": 0.5, "name": "a", "tags": {"x", "yy", "z"}, "raw": b"\x80\xff", "pair": (1, 2), "empty": {}}'
	save b.pt 4 '{"raw": b"\x80\xff", "epoch": 4, "lr": 0.25, "name": "b\x1b", "tags": {"z", "yy", "x"}, "pair": [1, 2], "new": None, "empty": []}'
	ckpt diff a.pt b.pt; want 1
	[ "${lines[0]}" = "only in b.pt:" ]
	[[ ${lines[1]} =~ ^"  new "+"None"$ ]]
	[ "${lines[2]}" = "other values:" ]
	[[ ${lines[3]} =~ ^"  epoch "+"3 -> 4"$ ]]
	[[ ${lines[4]} =~ ^"  lr "+"0.5 -> 0.25"$ ]]
	[[ ${lines[5]} =~ ^"  name "+"'a' -> 'b\\x1b'"$ ]]
	[[ ${lines[6]} =~ ^"  empty "+"dict -> list"$ ]]
	[ ${#lines[@]} = 8 ]
	ckpt diff --tolerance 0,1 --keep lr a.pt b.pt; want 0
	save c.pt 2 '(lambda d: {"a": d, "b": d, "c": [d]})({"x": 1, "y": [2]})'
	save d.pt 2 '{"a": {"x": 1, "y": [2]}, "b": {"y": [2], "x": 1}, "c": [{"x": 1, "y": [3]}]}'
	ckpt diff c.pt d.pt; want 1
	[[ ${lines[1]} =~ ^"  c.0.y.0 "+"2 -> 3"$ ]]
	[ ${#lines[@]} = 3 ]
	save e.pt 2 'eval("(lambda d: d.update(me=d) or d)({})")'
	ckpt diff e.pt e.pt; want 0
	save f.pt 2 'collections.OrderedDict([("a", 1), ("b", 2)])'
	save g.pt 2 '{"b": 2, "a": 1}'
	ckpt diff f.pt g.pt; want 0
	ckpt diff --strict f.pt g.pt; want 1
	[[ ${lines[1]} =~ ^"  (root) "+"OrderedDict -> dict"$ ]]
	[[ ${lines[2]} = *"another order"* ]]
}

@test "keys of other types, dots in names, and the sign of zero count with --strict" {
	save a.pt 2 '{0: 1, "b": {"c": 0.0}}'
	save b.pt 2 '{"0": 1, "b": {"c": 0.0}}'
	save c.pt 2 '{0: 1, "b.c": 0.0}'
	save d.pt 2 '{0: 1, "b": {"c": -0.0}}'
	ckpt diff a.pt b.pt; want 0
	[[ $output = *"1 dict with numbers for keys on one side and texts on the other (0 and '0')" ]]
	ckpt diff c.pt a.pt; want 0
	ckpt diff a.pt d.pt; want 0
	for other in b c d; do
		ckpt diff --strict a.pt $other.pt; [ "$status" = 1 ]
		ckpt diff --strict $other.pt a.pt; [ "$status" = 1 ]
		ckpt diff --strict $other.pt $other.pt; want 0
	done
	ckpt split ddp_trainer.pt r --ranks 2; want 0
	ckpt merge r m.pt; want 0
	ckpt diff ddp_trainer.pt m.pt; want 0
	[[ $output = *"dict with numbers for keys on one side and texts on the other"* ]]
}

@test "several files: the worst counts" {
	change ddp_model.pt b.pt data/0 5
	ckpt diff ddp_model.pt ddp_model.pt b.pt; want 1
	ckpt diff ddp_model.pt b.pt nothing.pt ddp_model.pt
	want 2 "ckpt: nothing.pt: cannot open: No such file or directory"
	[[ ${lines[-1]} = "ddp_model.pt is the same as ddp_model.pt: "* ]]
	ckpt diff nothing.pt b.pt
	want 2 "ckpt: nothing.pt: cannot open: No such file or directory"
}

@test "one JSON document" {
	change ddp_model.pt b.pt data/0 nan
	ckpt diff --json ddp_model.pt b.pt nothing.pt
	want 2 "ckpt: nothing.pt: cannot open: No such file or directory"
	[ "$(member 'len(d["inputs"])')" = 2 ]
	[ "$(member 'd["inputs"][0]["verdict"]')" = different ]
	[ "$(member 'd["inputs"][0]["differences"][0]["numbers"]["nan_appeared"]')" = 1 ]
	[ "$(member 'd["inputs"][0]["report"]["by_checksum"]')" = 0 ]
	[ "$(member 'd["inputs"][1]["verdict"]')" = error ]
	[ "$(member 'd["inputs"][0]["report"]["compared"]')" = bytes ]
	cp ddp_model.pt c.pt
	ckpt diff --json --quick ddp_model.pt c.pt; want 0
	[ "$(member 'd["inputs"][0]["report"]["compared"]')" = descriptions ]
	ckpt diff --json --trust-checksums ddp_model.pt c.pt; want 0
	[ "$(member 'd["inputs"][0]["report"]["compared"]')" = checksums ]
	ckpt diff --json=out.json ddp_model.pt ddp_trainer.pt
	want 1 "hint: names of 14 tensors match with --at-b model"
	[ -z "$output" ]
	output=$(cat out.json)
	[ "$(member '[f["kind"] for f in d["inputs"][0]["differences"]].count("renamed")')" = 14 ]
	[ "$(member 'd["inputs"][0]["report"]["prefix"]')" = model. ]
	ckpt diff --json=out.json ddp_model.pt b.pt
	want 2 "ckpt: out.json: cannot write JSON to it: it exists already"
}

@test "counters come last, of whatever size their change is" {
	a=$(first_number ddp_model.pt ddp_model/data/0)
	change ddp_model.pt b.pt data/0 "$(python3 -c "print($a + 0.25)")"
	for of in stem.1 block.norm; do
		number=$("$CKPT" ls --json b.pt module.$of.num_batches_tracked | python3 -c 'import json, sys; print(json.load(sys.stdin)["tensors"][0]["storage"])')
		python3 - b.pt "$number" <<-'END'
		import sys, zipfile
		path, number = sys.argv[1:]
		old = zipfile.ZipFile(path)
		records = [(name, old.read(name)) for name in old.namelist()]
		new = zipfile.ZipFile(path, "w")
		[new.writestr(name, (24).to_bytes(8, "little") if name.endswith("/data/" + number) else data) for name, data in records]
		new.close()
		END
	done
	ckpt diff ddp_model.pt b.pt; want 1
	[[ ${lines[2]} = "  module.stem.0.weight "* && ${lines[3]} = *.num_batches_tracked* && ${lines[4]} = *.num_batches_tracked* ]]
	[ "${#lines[@]}" = 6 ]
	ckpt diff --depth 9 ddp_model.pt b.pt; want 1
	[[ ${lines[2]} =~ ^"  module.stem.0.weight  1 tensor " && ${lines[3]} =~ ^"  (counters) "+"2 tensors "+all\ +5.00e-01\ +"1.20e+01 " ]]
	ckpt diff --depth 1 --top 1 --limit 7 ddp_model.pt b.pt; want 1
	[[ ${lines[2]} =~ ^"  module  1 tensor " && ${lines[3]} = "  ... and 1 more (--top 0 shows all)" ]]
	ckpt diff --json --depth 1 ddp_model.pt b.pt; want 1
	[ "$(member '[f.get("counter") for f in d["inputs"][0]["differences"]]')" = "[None, True, True]" ]
	[ "$(member '[(f["name"], f["tensors"], f["other_shape"], f["numbers"]["max_abs"]) for f in d["inputs"][0]["blocks"]]')" = "[('module', 1, 0, 0.25)]" ]
}

@test "an optimizer is one line behind the weights, and listed with -v or alone" {
	"$CKPT" cast -q --all bf16 ddp_trainer.pt b.pt
	ckpt diff ddp_trainer.pt b.pt; want 1
	[ "${#lines[@]}" = 16 ]
	[[ ${lines[14]} =~ ^"  optimizer.state.* "+"16 tensors and 8 of one number of the optimizer "+all\  ]]
	ckpt diff --limit 3 ddp_trainer.pt b.pt; want 1
	[[ ${lines[5]} = "  optimizer.state.* "*" 16 tensors and 8 of one number of the optimizer "* && ${lines[6]} = "  ... and 9 more (--limit 0 shows all)" ]]
	ckpt diff -v --limit 0 ddp_trainer.pt b.pt; want 1
	[ "$(grep -c '^  optimizer\.state\.[0-9]\.exp_avg' <<<"$output")" = 16 ]
	ckpt diff --limit 0 --at optimizer ddp_trainer.pt b.pt; want 1
	[ "$(grep -c '^  state\.[0-9]\.exp_avg' <<<"$output")" = 16 ]
	ckpt diff --limit 0 --drop model ddp_trainer.pt b.pt; want 1
	[ "$(grep -c '^  optimizer\.state\.[0-9]\.exp_avg' <<<"$output")" = 16 ]
	ckpt diff --depth 3 ddp_trainer.pt b.pt; want 1
	[[ ${lines[2]} = "  model.module.head  "* && ${lines[3]} = "  model.module.stem  "* && ${lines[4]} = "  model.module.block  "* ]]
	[[ "${#lines[@]}" = 7 && ${lines[5]} = "  optimizer.state.* "*" 16 tensors and 8 of one number of the optimizer "* ]]
	[[ ${lines[2]} = *"  2 of another dtype" && ${lines[5]} = *"  16 of another dtype" ]]
	ckpt diff --depth module --sort name ddp_trainer.pt b.pt; want 1
	[[ ${lines[4]} = "  model.module.head "*" 2 tensors "* && ${lines[5]} = "  model.module.stem.0 "*" 1 tensor "* && ${lines[6]} = "  model.module.stem.1 "*" 4 tensors "* ]]
	"$CKPT" remap -q cpu=cuda:1 ddp_model.pt cuda.pt
	ckpt diff --depth 1 ddp_model.pt cuda.pt; want 1
	[[ ${lines[2]} = "  module "*"  12 tensors "*"  12 on another device" && ${lines[3]} = "  (counters) "*"  2 on another device" ]]
	ckpt diff --depth 3 --sort name ddp_trainer.pt b.pt; want 1
	[[ ${lines[2]} = "  model.module.block  "*"5 tensors "* && ${lines[3]} = "  model.module.head  "*"2 tensors "* && ${lines[4]} = "  model.module.stem  "* ]]
}

@test "wrong usage" {
	ckpt diff --sort size ddp_model.pt ddp_model.pt
	[ "$status" = 64 ]
	[[ $stderr = "ckpt: diff: --sort size: wanted 'change', 'rms' or 'name'"* ]]
	for option in depth=0 depth=x top=-1 top=1x limit=; do
		ckpt diff "--$option" ddp_model.pt ddp_model.pt
		[ "$status" = 64 ]
		[[ $stderr = "ckpt: diff: --${option/=/ }: wanted a number"* ]]
	done
	ckpt diff ddp_model.pt
	[ "$status" = 64 ]
	[[ $stderr = "ckpt: diff: too few operands, wanted A B [B...]"* ]]
	for wrong in "--tolerance x" "--tolerance 1,x" "--tolerance=-1" "--tolerance nan" "--atol 1,2" "--rtol ''" "--limit x" \
		"--limit=-1" "--quick --read" "--quick --trust-checksums" "--read --trust-checksums" "--rename x" "--keep 're:('"; do

		eval "ckpt diff $wrong ddp_model.pt ddp_model.pt"
		[ "$status" = 64 ] || { echo "$wrong: $status $stderr" >&2; false; }
	done
	ckpt diff - ddp_model.pt </dev/null
	[ "$status" = 2 ]
}

@test "a full disk under the output is an error" {
	[ -w /dev/full ] || skip "no /dev/full"
	run --separate-stderr sh -c '"$CKPT" diff ddp_model.pt ddp_trainer.pt >/dev/full'
	[ "$status" = 2 ]
	run --separate-stderr sh -c '"$CKPT" diff --json ddp_model.pt ddp_trainer.pt >/dev/full'
	[ "$status" = 2 ]
}

@test "nothing is said of 0 tensors that are the same" {
	"$CKPT" select -q --keep epoch ddp_trainer.pt a.pt
	"$CKPT" select -q --keep epoch --keep model ddp_trainer.pt b.pt
	ckpt diff a.pt b.pt; want 1
	[ "${lines[-1]}" = "b.pt is not the same as a.pt: 14 tensors only in b.pt; 1 other value is the same" ] || { echo "${lines[-1]}" >&2; return 1; }
}

@test "--parameters compares neither buffers nor the optimizer nor other values" {
	"$CKPT" edit -q ddp_trainer.pt later.pt --set epoch=9 --set optimizer.param_groups.0.lr=1
	"$CKPT" rename -q -e 's/running_mean/running_avg/' later.pt moved.pt
	ckpt diff --parameters ddp_trainer.pt moved.pt
	want 0; [ "$output" = "moved.pt is the same as ddp_trainer.pt: 8 tensors" ]
	"$CKPT" cast -q --all bf16 ddp_trainer.pt cast.pt
	ckpt diff --parameters --depth module --sort rms --json ddp_trainer.pt cast.pt
	[ "$status" = 1 ]
	jq -e '.inputs[0] | .tensors.changed == 8 and (.blocks | length == 5)' <<<"$output"
	# the model alone has no optimizer that tells: what one of both knows counts for both
	ckpt diff --parameters --at-b model ddp_model.pt ddp_trainer.pt; want 0
	ckpt diff --parameters --at optimizer ddp_trainer.pt cast.pt
	want 2 "ckpt: ddp_trainer.pt: nothing in it is known to be a parameter"
	ckpt diff --parameters --at optimizer --json ddp_trainer.pt cast.pt
	[ "$status" = 2 ]
	jq -e '.inputs[0].error' <<<"$output"
}

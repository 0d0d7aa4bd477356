#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# What is printed and written is compared with numpy and torch in tests/interop/cat.py.
load common.bash

# Arrays of numpy in a file of torch, as numpy 1 pickles them: objects that Python has without numpy.
arrays() {
	PYTHONPATH=$CKPT_SOURCE_DIR/tests/bad python3 -B - <<-'END'
	import struct
	from files import *
	def dtype(code, order): return (glob("numpy", "dtype") + text(code) + b"\x89\x88\x87R(K\x03" + text(order) + b"NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\x00tb")
	def data(raw): return b"C" + bytes([len(raw)]) + raw
	def array(code, order, shape, raw, fortran=b"\x89"):
	    dims = b"(" + b"".join(b"K" + bytes([n]) for n in shape) + b"t"
	    return (glob("numpy.core.multiarray", "_reconstruct") + glob("numpy", "ndarray") + b"K\x00\x85C\x01b\x87R(K\x01" +
	            dims + dtype(code, order) + fortran + data(raw) + b"tb")
	def scalar(code, raw): return glob("numpy.core.multiarray", "scalar") + dtype(code, "<") + data(raw) + b"\x86R"
	entries = [("a", array("f4", "<", [2, 3], struct.pack("<6f", 0, 1.5, -2, 1e-3, 100, 0.1))),
	           ("big", array("i2", ">", [3], struct.pack(">3h", 1, -2, 300))),
	           ("turned", array("u1", "|", [2, 3], bytes(range(6)), b"\x88")),
	           ("lr", scalar("f8", struct.pack("<d", 0.875))), ("words", array("U2", "<", [1], b"a\0\0\0b\0\0\0")),
	           ("short", array("f8", "<", [3], b"12345678")), ("l", b"](K\x01X\x01\0\0\0ae")]
	open("arrays.pt", "wb").write(torch_file(pickled(b"}(" + b"".join(text(name) + value for name, value in entries) + b"u")))
	END
}

@test "cat prints numbers as numpy does" {
	arrays
	ckpt cat arrays.pt a; want 0
	[ "$output" = "a  numpy float32  [2, 3]
[[ 0.0e+00  1.5e+00 -2.0e+00]
 [ 1.0e-03  1.0e+02  1.0e-01]]" ]
	ckpt cat -q arrays.pt big; want 0
	[ "$output" = "[  1  -2 300]" ]
	ckpt cat -q arrays.pt turned; want 0
	[ "$output" = "[[0 2 4]
 [1 3 5]]" ]
	ckpt cat -q arrays.pt lr; want 0
	[ "$output" = 0.875 ]
}

@test "cat prints only the edges of a long tensor, or all" {
	ckpt cat ddp_model.pt module.block.conv.weight; want 0
	[[ $output = "module.block.conv.weight  float32  [8, 8, 3, 3]  cpu
[["*" ... "* || $output = *"float32  [8, 8, 3, 3]"* ]]
	[ "$("$CKPT" cat -q --all ddp_model.pt module.block.conv.weight | tr -s ' []\n' '\n' | grep -c .)" = 576 ]
}

@test "cat prints other values" {
	arrays
	ckpt cat arrays.pt l; want 0
	[ "$output" = "[1, 'a']" ]
	ckpt cat arrays.pt words; want 0
	[ "$output" = "ndarray U2 [1]" ]
	ckpt cat ddp_trainer.pt epoch; want 0
	[[ $output =~ ^[0-9]+$ ]]
	ckpt info arrays.pt; want 0
	[[ $output = *"ndarray float32 [2, 3]"*"numpy.float64 0.875"* ]]
	ckpt ls arrays.pt; want 0
	[[ $output = "a  ndarray float32 [2, 3]"*"lr  numpy.float64 0.875"*"0 tensors, "* ]]
}

@test "cat writes what numpy reads" {
	arrays
	ckpt cat arrays.pt big -o out.npy; want 0
	[[ $output = "134 bytes written in "* ]]
	python3 - <<-'END'
	import ast, struct
	raw = open("out.npy", "rb").read()
	assert raw[:8] == b"\x93NUMPY\1\0" and struct.unpack("<H", raw[8:10])[0] + 10 == 128, raw
	assert ast.literal_eval(raw[10:128].decode()) == {"descr": "<i2", "fortran_order": False, "shape": (3,)}
	assert raw[127:128] == b"\n" and struct.unpack("<3h", raw[128:]) == (1, -2, 300)
	END
	ckpt cat arrays.pt a -o out.npy
	want 2 "ckpt: out.npy: the output exists already
hint: -f replaces it"
	ckpt cat -f arrays.pt a -o out.npy; want 0
	ckpt cat -f arrays.pt a -o arrays.pt
	[[ $status = 2 && $stderr = *"the output is the input itself"* ]]
}

@test "cat refuses what has no numbers" {
	arrays
	ckpt cat arrays.pt short
	want 2 "ckpt: arrays.pt: 'short' is an array of numpy whose data are not as long as its shape says"
	ckpt cat arrays.pt words -o out.npy
	want 2 "ckpt: arrays.pt: 'words' holds no numbers: its dtype in numpy is 'U2'"
	ckpt cat arrays.pt l -o out.npy
	want 64 "ckpt: arrays.pt: 'l' is no tensor and no array, but list"
	ckpt cat ddp_model.pt module.head.bais
	want 2 "ckpt: ddp_model.pt: nothing is named 'module.head.bais'
hint: did you mean 'module.head.bias'?"
	ckpt cat arrays.pt nothing
	[ "$status" = 2 ]
	ckpt cat ddp_model.pt module.head.weight --part indices
	want 2 "ckpt: it has no part 'indices'
hint: it is strided, and has no parts"
	ckpt cat --precision x arrays.pt a
	[ "$status" = 64 ]
	want_files arrays.pt
}

@test "cat as JSON" {
	arrays
	ckpt cat --json arrays.pt a; want 0
	[ "$output" = '{"ckpt_json":1,"command":"cat","name":"a","kind":"ndarray","dtype":"float32","shape":[2,3],"reads":"float32","layout":"strided","device":"","all":true,"values":[[0.0,1.5,-2.0],[0.001,100.0,0.1]]}' ]
	ckpt cat --json ddp_model.pt module.block.conv.weight; want 0
	python3 -c 'import json, sys; d = json.load(sys.stdin); assert d["shape"] == [8, 8, 3, 3] and d["values"][3][0][0][0]' <<<"$output"
	ckpt cat --json arrays.pt l; want 0
	python3 -c 'import json, sys; assert json.load(sys.stdin)["kind"] == "container"' <<<"$output"
}

@test "numbers of one digit with an exponent are JSON" {
	PYTHONPATH=$CKPT_SOURCE_DIR/tests/bad python3 -B - <<-'END'
	from files import *
	import struct
	od = glob("collections", "OrderedDict") + b")R("
	open("tiny.pt", "wb").write(torch_file(pickled(od + text("x") + tensor() + b"u"), data=struct.pack("<4f", 1e-9, -2e20, 1.5e-7, 1)))
	END
	ckpt cat --json tiny.pt x; want 0
	[[ $output = *'"values":[1e-09,-2e+20,1.5e-07,1.0]'* ]]
}

@test "a part is taken as numpy takes it" {
	local w=module.head.weight
	"$CKPT" cat -q ddp_model.pt $w >all
	ckpt cat -q ddp_model.pt "${w}[0:2, ::-4]"; want 0
	[ "$output" = "[[ 0.16568777 -0.3144859 ]
 [ 0.15314554 -0.1688425 ]]" ]
	ckpt cat ddp_model.pt "${w}[0:2, ::-4]"; want 0
	[ "${lines[0]}" = "${w}[0:2, ::-4]  float32  [2, 2]  cpu" ]
	for same in "[...]" "[:]" "[:,]" "[:, ...]" "[ -99 : 99 , ... ]" "[0:10:+1]"; do
		ckpt cat -q ddp_model.pt "$w$same"; want 0
		[ "$output" = "$(cat all)" ]
	done
	ckpt cat -q ddp_model.pt "[\"$w\"][-1, 0]"; want 0 # the exact form
	[ "$output" = -0.33483467 ]
	ckpt cat -q ddp_model.pt "${w}[3:3, 1]"; want 0
	[ "$output" = "[]" ]
	ckpt cat --json ddp_model.pt "${w}[0:2, ::-4]"; want 0
	[[ $output = *",\"name\":\"$w\",\"kind\":\"tensor\",\"dtype\":\"float32\",\"shape\":[2,2],"*',"values":[[0.16568777,-0.3144859],[0.15314554,-0.1688425]],"index":"0:2, ::-4"}' ]]
	ckpt cat -o part.npy ddp_model.pt "${w}[0:2, ::-4]"; want 0
	[[ $output = "144 bytes written in "* ]]
	python3 -B -c 'import struct; b = open("part.npy", "rb").read(); assert b"(2, 2)" in b; assert ["%.4f" % x for x in struct.unpack("<4f", b[128:])] == ["0.1657", "-0.3145", "0.1531", "-0.1688"]'
	arrays
	ckpt cat -q arrays.pt 'turned[1, ::-1]'; want 0
	[ "$output" = "[5 3 1]" ]
	ckpt cat -q arrays.pt '["turned"][1]'; want 0 # not what the pickle keeps of the array
	[ "$output" = "[1 3 5]" ]
	ckpt cat arrays.pt '["l"][1]'; want 0 # an item of a list is no part of an array
	[ "$output" = "'a'" ]
}

@test "of a part, no more is read than that" {
	python3 -B "$here/make_large.py" 16 large.pt
	for index in '[5:10]' '[-3:]' '[::-5000000]' '[7]'; do
		python3 -B - "$CKPT" cat large.pt "module.large$index" <<-'END'
		import os, sys
		pid = os.fork()
		if not pid:
		    os.dup2(os.open("/dev/null", os.O_WRONLY), 1)
		    os.execv(sys.argv[1], sys.argv[1:])
		os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
		read = int(open("/proc/%d/io" % pid).readline().split()[1])
		assert read < 1 << 20, read
		END
	done
}

@test "what is no part is refused" {
	local w=module.head.weight name="'module.head.weight'"
	# INDEX, exit code and what is said
	while IFS='|' read -r index code said; do
		ckpt cat ddp_model.pt "${w}[$index]"; want "$code" "ckpt: ddp_model.pt: $name $said"
	done <<-'end'
		None|64|cannot get new dimensions (None)
		0, 0, 0|64|has 2 dimensions, and 3 are indexed
		10|2|has no item 10 in dimension 0, which has 10
		:, -9|2|has no item -9 in dimension 1, which has 8
		99999999999999999999|2|has no item 9223372036854775807 in dimension 0, which has 10
		::0|64|is sliced with the step 0
		..., ...|64|is indexed with more than one '...'
		|64|is indexed with [], wanted integers and slices as in [3, -1, 0:2, ::4, ...]
		[0, 1]|64|is indexed with [[0, 1]], wanted integers and slices as in [3, -1, 0:2, ::4, ...]
		True|64|is indexed with [True], wanted integers and slices as in [3, -1, 0:2, ::4, ...]
		0:1:2:3|64|is indexed with [0:1:2:3], wanted integers and slices as in [3, -1, 0:2, ::4, ...]
		1.5|64|is indexed with [1.5], wanted integers and slices as in [3, -1, 0:2, ::4, ...]
		,|64|is indexed with [,], wanted integers and slices as in [3, -1, 0:2, ::4, ...]
	end
	ckpt cat ddp_model.pt "${w}[0][1]"
	want 2 "ckpt: ddp_model.pt: nothing is named '${w}[0]'
hint: write one index: 'NAME[0, 1]' for 'NAME[0][1]'"
	ckpt cat ddp_model.pt 'module.haed.weight[0]'
	want 2 "ckpt: ddp_model.pt: nothing is named 'module.haed.weight'
hint: did you mean 'module.head.weight'?"
	ckpt cat ddp_trainer.pt 'epoch[0]'; want 64 "ckpt: ddp_trainer.pt: 'epoch' is no tensor and no array, but int"
	ckpt cat -o x.npy ddp_model.pt "${w}[10]"; [ "$status" = 2 ]
	want_files
}

# Python's own pickles of plain objects in a file of torch.
plain_values() {
	PYTHONPATH=$CKPT_SOURCE_DIR/tests/bad python3 -B - <<-'END'
	import argparse, collections, pickle
	from files import *
	shared = [1, [2]]
	loop = ["x"]
	loop.append({"me": loop})
	obj = collections.OrderedDict([
	    ("int", 3), ("big", 2**63), ("bigger", -10**40), ("min", -2**63), ("yes", True), ("no", False), ("none", None), ("half", 0.5), ("tiny", 5e-324),
	    ("odd", [float("nan"), float("inf"), -float("inf"), -0.0, 1e22]), ("text", 'a"\\\n\x00\x7f\u00e9\u2028\U0001f600'), ("half pair", "\ud800"),
	    ("bytes", b"\x00\xff"), ("list", [1, [2.5, (3,)], {}]), ("tuple", ("Adam", 1e-3)), ("set", {5}), ("keys", {0: "a", 1.5: "b", True: "c", None: "d"}),
	    ("same", {0: 1, "0": 2}), ("pairs", {(1, 2): [3]}), ("dollar", {"$x": 1}), ("shared", [shared, shared]), ("loop", loop), ("args", argparse.Namespace(lr=0.1, name="n")),
	    ("dd", collections.defaultdict(list, a=[1])), ("cls", argparse.Namespace), ("deep", "")])
	deep = []
	for i in range(60): deep = [deep]
	obj["deep"] = deep
	open("plain.pt", "wb").write(torch_file(pickle.dumps(obj, 2)))
	for i in range(60): deep = [deep]
	open("deeper.pt", "wb").write(torch_file(pickle.dumps({"deeper": deep}, 2)))
	laugh = [1]
	for i in range(25): laugh = [laugh, laugh]
	open("laugh.pt", "wb").write(torch_file(pickle.dumps({"laugh": laugh}, 2)))
	END
}

@test "cat --json has the whole value of a container, and numbers as numbers" {
	plain_values
	ckpt cat --json plain.pt ''; want 0
	[[ ! $output =~ [^\ -~] ]]
	python3 -B - <<-END
	import json
	text = r'''$output'''
	d = json.loads(text)
	assert (d["kind"], d["type"], d["count"]) == ("container", "OrderedDict", 26), d
	c = d["content"]
	want = {"int": 3, "big": str(2**63), "bigger": str(-10**40), "min": -2**63, "yes": True, "no": False, "none": None, "half": 0.5, "tiny": 5e-324,
	        "odd": ["nan", "inf", "-inf", -0.0, 1e22], "text": 'a"\\\\\n\x00\x7f\u00e9\u2028\U0001f600', "half pair": "\ud800", "bytes": {"\$bytes": "00ff"},
	        "list": [1, [2.5, [3]], {}], "tuple": ["Adam", 1e-3], "set": [5], "keys": {"0": "a", "1.5": "b", "true": "c", "null": "d"},
	        "same": {"\$dict": [[0, 1], ["0", 2]]}, "pairs": {"\$dict": [[[1, 2], [3]]]}, "dollar": {"\$dict": [["\$x", 1]]}, "shared": [[1, [2]], [1, [2]]],
	        "loop": ["x", {"me": {"\$cycle": 2}}], "args": {"\$object": "argparse.Namespace", "state": {"lr": 0.1, "name": "n"}}, "dd": {"a": [1]},
	        "cls": {"\$global": "argparse.Namespace"}}
	for key in want:
	    assert c[key] == want[key] and type(c[key]) == type(want[key]), (key, c[key], want[key])
	assert str(c["deep"]) == "[" * 61 + "]" * 61 and set(c) == set(want) | {"deep"}
	END
	ckpt cat --json plain.pt half; want 0
	[ "$output" = '{"ckpt_json":1,"command":"cat","name":"half","kind":"value","type":"float","value":"0.5","content":0.5}' ]
	ckpt cat --json plain.pt big; want 0
	[[ $output = *',"content":"9223372036854775808"}' ]]
	arrays
	ckpt cat --json arrays.pt ''; want 0
	[[ $output = *'"content":{"a":{"$ndarray":"float32","shape":[2,3]},'*'"lr":0.875,"words":{"$ndarray":"U2","shape":[1]},'* ]]
}

@test "what is too deep or too large for one JSON document is an error, and leaves no file" {
	plain_values
	ckpt cat --json deeper.pt deeper
	want 2 "ckpt: deeper.pt: 'deeper' is nested deeper than 100 levels"
	ckpt cat --json=out.json laugh.pt laugh
	want 2 "ckpt: laugh.pt: 'laugh' has more than 1000000 containers, shared ones counted again"
	[ ! -e out.json ]
}

@test "a text that is in very many places ends cat --json, not the disk" {
	PYTHONPATH=$CKPT_SOURCE_DIR/tests/bad python3 -B - <<-'END'
	from files import *
	body = b"}(" + text("w") + tensor() + text("l") + b"](" + text("a" * 100000) + b"q\x01" + b"h\x01" * 10000 + b"eu"
	open("bomb.pt", "wb").write(torch_file(pickled(body)))
	END
	ckpt cat --json=out.json bomb.pt l
	[[ $status = 2 && $stderr = "ckpt: bomb.pt: 'l' is more than "*" bytes of text, values in several places counted again" ]]
	[ ! -e out.json ]
}

@test "info counts the attributes of an object, and the items of what a call makes" {
	python3 - <<-'END'
	import argparse, collections, pickle, zipfile
	class Slots:
	    __slots__ = ("a", "b", "__dict__")
	Slots.__module__, Slots.__qualname__ = "__main__", "Slots"
	slots = Slots()
	slots.a, slots.b, slots.c = 1, 2, 3
	obj = {"args": argparse.Namespace(lr=0.1, wd=[1, 2], name="x"), "none": argparse.Namespace(), "slots": slots, "set": {1, 2, 3},
	       "counter": collections.Counter("aab"), "ordered": collections.OrderedDict(a=1)}
	with zipfile.ZipFile("objects.pt", "w") as z:
	    z.writestr("objects/data.pkl", pickle.dumps(obj, 2))
	    z.writestr("objects/version", "3\n")
	END
	ckpt info objects.pt; want 0 ""
	[ "$(tail -6 <<<"$output" | tr -s ' ')" = " args Namespace of 3
 none Namespace of 0
 slots Slots of 3
 set set of 3
 counter Counter of 2
 ordered OrderedDict of 1" ]
	ckpt cat --json objects.pt args
	[ "$(python3 -c 'import json, sys; print(json.load(sys.stdin)["count"])' <<<"$output")" = 3 ]
}

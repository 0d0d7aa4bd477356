#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# What stat finds is compared with numpy in tests/interop/stat.py.
load common.bash

# make NAME: a file with a tensor 'w' of 2 x 3 float32 with a NaN at [0, 2] and an infinity at [1, 1], and 'a', which is 0
make() {
	PYTHONPATH=$CKPT_SOURCE_DIR/tests/bad python3 -B - "$1" <<-'END'
	import struct, sys
	from files import *
	data = struct.pack("<6f", 1, -2, float("nan"), 0, float("-inf"), 4)
	body = b"}(" + text("a") + tensor(shape=(1,)) + text("w") + tensor(key="1", numel=6, shape=(2, 3), stride=(3, 1)) + b"u"
	open(sys.argv[1], "wb").write(torch_file(pickled(body), extra=[("data/1", data)]))
	END
}

@test "a table of all tensors, of each dtype, and of all" {
	ckpt stat ddp_model.pt; want 0
	[ "${#lines[@]}" = 18 ]
	[[ ${lines[0]} =~ ^"name "+"dtype "+"shape "+"min "+"max "+"mean "+"std "+"norm "+"absmax "+"zeros "+"NaN "+"Inf"$ ]]
	[[ $output =~ module.stem.1.num_batches_tracked\ +int64\ +\[\]\ +12\ +12\ +12\ +0\ +12\ +12\ +0\ +0\ +0 ]]
	[[ ${lines[15]} =~ ^"12 tensors "+"float32 "+"946 values " ]]
	[[ ${lines[16]} =~ ^"2 tensors "+"int64 "+"2 values " ]]
	[[ ${lines[17]} =~ ^"14 tensors "+"all "+"948 values " ]]
	input_is_untouched
}

@test "patterns choose, as in ls" {
	ckpt stat ddp_model.pt 'module.head' 're:stem.*bias$'; want 0
	[ "${#lines[@]}" = 5 ]
	[[ ${lines[1]} = "module.stem.1.bias "* && ${lines[3]} = "module.head.bias "* && ${lines[4]} = "3 tensors "* ]]
	ckpt stat ddp_model.pt nothing
	want 1 "ckpt: ddp_model.pt: no tensor matches"
	ckpt stat ddp_model.pt 're:('
	want 64 "ckpt: pattern 're:(': missing closing parenthesis"
}

@test "sorted by what is asked for" {
	ckpt stat --sort max ddp_model.pt; want 0
	[[ ${lines[1]} = *num_batches_tracked* && ${lines[3]} = *"1.003 "* ]]
	ckpt stat --sort min ddp_model.pt; want 0
	[[ ${lines[1]} = "module.head.weight "*" -0.3406 "* ]]
	ckpt stat --sort size ddp_model.pt; want 0
	[[ ${lines[1]} = "module.block.conv.weight "* ]]
	ckpt stat --sort name ddp_model.pt; want 0
	[[ ${lines[1]} = "module.block.conv.weight "* && ${lines[14]} = "module.stem.1.weight "* ]]
	ckpt stat --sort norm ddp_model.pt '*.weight'; want 0
	[[ ${lines[1]} = "module.stem.1.weight "*" 2.817 "* && ${lines[5]} = "module.block.conv.weight "* ]]
	ckpt stat --sort absmax ddp_model.pt 'module.head'; want 0
	[[ ${lines[1]} = "module.head.weight "*" 0.3481 "* ]]
	ckpt stat --sort colour ddp_model.pt
	[ "$status" = 64 ]
	[[ $stderr = *"--sort colour: wanted 'name', 'size', "* ]]
}

@test "what is not finite is counted, and said where it is" {
	make nan.pt
	ckpt stat nan.pt; want 0
	[[ ${lines[2]} =~ ^"w "+"float32 "+"[2, 3] "+"-2 "+"4 "+"0.75 "+2.165\ +4.583\ +4\ +1\ +1\ +1\ +"the first not finite at [0, 2]"$ ]]
	ckpt stat --check-finite nan.pt; want 1
	[ "${lines[4]}" = "NOT FINITE: 1 tensor: 'w' at [0, 2]" ]
	ckpt stat -q --check-finite nan.pt; want 1
	[ "${#lines[@]}" = 2 ]
	[[ ${lines[1]} = "w "* ]]
	PYTHONPATH=$CKPT_SOURCE_DIR/tests/bad python3 -B - <<-'END'
	import struct
	from files import *
	data = struct.pack("<4f", 1, float("inf"), 2, float("nan"))
	one = lambda name, offset, shape: text(name) + tensor(key="0", numel=4, offset=offset, shape=shape, stride=(1,) * len(shape))
	open("two.pt", "wb").write(torch_file(pickled(b"}(" + one("b", 1, (3,)) + one("a", 3, ()) + b"u"), data=data))
	END
	ckpt stat --check-finite --sort name two.pt; want 1
	[ "${lines[-1]}" = "NOT FINITE: 2 tensors, the first is 'b' at [0]" ]
	ckpt stat --check-finite two.pt ddp_model.pt; want 1
	[[ $output = *"two.pt: NOT FINITE: 2 tensors, the first is 'b' at [0]"* ]]
	ckpt stat -q --check-finite ddp_model.pt; want 0
	[ -z "$output" ]
	ckpt stat --check-finite ddp_model.pt; want 0
	[[ $output = *$'\nall values are finite' ]]
	ckpt stat --sort nan -q nan.pt; want 0
	[[ ${lines[1]} = "w "* ]]
}

@test "histograms keep to the width, and to the letters of the locale" {
	COLUMNS=60 ckpt stat --hist ddp_model.pt module.head.weight; want 0
	[[ ${lines[2]} =~ ^"     -0.3406 |"[^\|]{34}"| 0.3481"$ ]]
	COLUMNS=5 ckpt stat --hist ddp_model.pt module.head.weight; want 0
	[[ ${lines[2]} =~ ^"     -0.3406 |"[^\|]{10}"| 0.3481"$ ]]
	ckpt stat --hist=4 ddp_model.pt module.head.bias; want 0
	[ "${lines[2]}" = "     -0.3241 |*:@=| 0.3439" ]
	LC_ALL=C.UTF-8 ckpt stat --hist=4 ddp_model.pt module.head.bias; want 0
	[ "${lines[2]}" = "     -0.3241 |▆▂█▄| 0.3439" ]
	LC_ALL=C.UTF-8 ckpt stat --hist=3 ddp_model.pt module.stem.1.num_batches_tracked; want 0
	[ "${lines[2]}" = "        11.5 | █ | 12.5" ]
	for bins in 0 4097 many -3; do
		ckpt stat --hist=$bins ddp_model.pt
		[ "$status" = 64 ]
		[[ $stderr = "ckpt: stat: --hist=$bins: wanted a number from 1 to 4096"* ]]
	done
}

@test "JSON" {
	make nan.pt
	ckpt stat --json --hist=4 nan.pt
	[ "$status" = 0 ]
	python3 - "$output" <<-'END'
	import json, math, sys
	document = json.loads(sys.argv[1])
	a, w = document["tensors"]
	assert document["command"] == "stat" and document["not_finite"] == 1 and document["unreadable"] == 0, document
	assert (w["name"], w["shape"], w["count"], w["nan"], w["inf"], w["zeros"]) == ("w", [2, 3], 6, 1, 1, 1), w
	assert (w["min"], w["max"], w["mean"], w["first_not_finite"]) == (-2, 4, 0.75, [0, 2]), w
	assert math.isclose(w["std"], math.sqrt(21 / 4 - 0.75 ** 2), rel_tol=1e-15), w
	assert math.isclose(w["norm"], math.sqrt(21), rel_tol=1e-15) and w["absmax"] == 4, w
	assert w["histogram"] == {"low": -2, "high": 4, "counts": [1, 1, 1, 1]}, w
	assert [(t["dtype"], t["tensors"], t["count"]) for t in document["totals"]] == [(None, 2, 7), ("float32", 2, 7)], document
	END
	ckpt stat --json=out.json --check-finite nan.pt; want 1
	python3 -m json.tool out.json >/dev/null
	ckpt stat --json=out.json nan.pt
	[ "$status" = 2 ]
	ckpt stat --json=none.json no.pt
	[ "$status" = 2 ]
	[ ! -e none.json ]
}

@test "shared values are in the totals once" {
	PYTHONPATH=$CKPT_SOURCE_DIR/tests/bad python3 -B - <<-'END'
	import struct
	from files import *
	data = struct.pack("<6f", *range(6))
	one = lambda name, **more: text(name) + tensor(key="1", numel=6, **more)
	body = b"}(" + one("w", shape=(2, 3), stride=(3, 1)) + one("tied", shape=(2, 3), stride=(3, 1)) + one("turned", shape=(3, 2), stride=(1, 3)) + \
	    one("part", shape=(2,), offset=4) + one("wide", shape=(1000000, 2), stride=(0, 1)) + b"u"
	open("tied.pt", "wb").write(torch_file(pickled(body), extra=[("data/1", data)]))
	END
	ckpt stat tied.pt; want 0
	[[ ${lines[1]} != *shared && ${lines[2]} = "tied "*"shared" && ${lines[3]} = "turned "*"shared" && ${lines[4]} = "part "*" 4.5 "*"shared" ]]
	[[ ${lines[5]} =~ ^"wide "+"float32 "+"[1000000, 2] "+"0 "+"1 "+"0.5 "+"0.5 "+"1000 "+"1 "+1,000,000\  ]]
	[[ ${lines[6]} =~ ^"5 tensors "+"all "+"6 values "+"0 "+"5 "+"2.5 "+1.708\ +7.416\ +5\  ]]
}

@test "directories of shards, archives, what has no values" {
	"$CKPT" split -q --ranks 3 ddp_trainer.pt shards
	ckpt stat shards; want 0
	shards=$(sort <<<"$output")
	ckpt stat ddp_trainer.pt; want 0
	[ "$(sort <<<"$output")" = "$shards" ]
	ckpt stat nothing.pt
	want 2 "ckpt: nothing.pt: cannot open: No such file or directory"
	head -c 5000 ddp_model.pt >cut.pt
	ckpt stat cut.pt
	[ "$status" = 2 ]
	[[ $stderr = "ckpt: cut.pt: is truncated: "* ]]
	"$CKPT" stat ddp_model.pt | head -1
	ckpt stat; [ "$status" = 64 ]
}

@test "blocks: tensors together whose names begin with the same parts" {
	ckpt stat --at model --depth 2 --sort norm ddp_trainer.pt; want 0
	[ "${#lines[@]}" = 7 ]
	[[ ${lines[0]} =~ ^"name "+"dtype "+"values "+"min " ]]
	[[ ${lines[1]} =~ ^"module.stem "+"float32 "+"248 ".*"  6 tensors"$ ]] # without num_batches_tracked
	[[ ${lines[3]} =~ ^"module.head "+"float32 "+"90 "+-0.3406\ +0.3481\ +-0.03634\ +0.2016\ +1.944\ +0.3481\ .*"  2 tensors"$ ]]
	[[ ${lines[6]} = "14 tensors "* ]]
	ckpt stat --depth 9 --sort name ddp_model.pt; want 0
	[[ ${lines[1]} =~ ^"module.block.conv.weight "+"float32 "+576\ .*"  1 tensor"$ && "${#lines[@]}" = 18 ]]
	ckpt stat --depth 1 ddp_trainer.pt 'model.*head*'; want 0
	[[ ${lines[1]} = "model "*"  2 tensors" && "${#lines[@]}" = 3 ]]
	ckpt stat --depth module --at model ddp_trainer.pt; want 0
	[[ ${lines[1]} =~ ^"module.stem.0 "+"float32 "+216\ .*"  1 tensor"$ && ${lines[2]} =~ ^"module.stem.1 ".*"  5 tensors"$ ]]
	[[ $output = *$'\nmodule.head '*"  2 tensors"$'\n'* ]]
	for depth in 0 -1 x 1.5 modul 18446744073709551615; do
		ckpt stat --depth=$depth ddp_model.pt
		[ "$status" = 64 ]
		[[ $stderr = "ckpt: stat: --depth $depth: wanted a number from 1 on, or 'module'"* ]]
	done
	ckpt stat --at modle ddp_trainer.pt
	want 2 "ckpt: ddp_trainer.pt: nothing is named 'modle'
hint: did you mean 'model'?"
	input_is_untouched
}

@test "what tensors of a block share is in it once, and in every block that shows it" {
	PYTHONPATH=$CKPT_SOURCE_DIR/tests/bad python3 -B - <<-'END'
	import struct
	from files import *
	data = struct.pack("<6f", *range(6))
	one = lambda name, **more: text(name) + tensor(key="1", numel=6, **more)
	body = b"}(" + one("in.w", shape=(2, 3), stride=(3, 1)) + one("in.tied", shape=(2, 3), stride=(3, 1)) + one("in.part", shape=(2,), offset=4) + \
	    one("out.tied", shape=(2, 3), stride=(3, 1)) + one("out.turned", shape=(3, 2), stride=(1, 3)) + \
	    one("part.end", shape=(2,), offset=4) + text("none") + tensor(shape=(0,)) + b"u"
	open("tied.pt", "wb").write(torch_file(pickled(body), extra=[("data/1", data)]))
	END
	ckpt stat --depth 1 --hist=3 tied.pt; want 0
	[[ ${lines[1]} =~ ^"in "+"float32 "+"6 "+"0 "+"5 "+"2.5 "+"1.708 "+"7.416 "+"5 "+"1 "+"0 "+"0  3 tensors"$ ]]
	[[ ${lines[2]} =~ ^" "+"0 |@@@| 5"$ && ${lines[4]} = "${lines[2]}" ]]
	[[ ${lines[3]} =~ ^"out "+"float32 "+"6 "+"0 "+"5 "+"2.5 ".*"  2 tensors"$ ]]
	[[ ${lines[5]} =~ ^"part "+"float32 "+"2 "+"4 "+"5 "+"4.5 ".*"  1 tensor"$ && ${lines[6]} =~ ^" "+"4 |@ @| 5"$ ]]
	[[ ${lines[7]} =~ ^"none "+"float32 "+"0 "+"- "+"- "+"- "+"- "+"- "+"- "+"0 "+"0 "+"0  1 tensor"$ ]]
	[[ ${lines[8]} =~ ^"7 tensors "+"all "+"6 values " ]]
	"$CKPT" stat --depth 1 --json --hist=3 tied.pt >out.json
	python3 - out.json <<-'END'
	import json, math, sys
	document = json.load(open(sys.argv[1]))
	groups = document["groups"]
	assert list(document)[-1] == "groups" and [g["name"] for g in groups] == ["in", "out", "part", "none"], document
	assert [(g["tensors"], g["unreadable"], g["nbytes"], g["count"]) for g in groups] == [(3, 0, 24, 6), (2, 0, 24, 6), (1, 0, 8, 2), (1, 0, 0, 0)], groups
	assert math.isclose(groups[2]["norm"], math.sqrt(41), rel_tol=1e-15) and groups[2]["absmax"] == 5, groups
	assert groups[1]["histogram"] == {"low": 0, "high": 5, "counts": [2, 2, 2]} and groups[3]["norm"] is None, groups
	END
	ckpt stat --json tied.pt
	[[ $status = 0 && $output != *groups* ]]
}

@test "quantiles are exact, of tensors, blocks and totals" {
	ckpt stat --quantiles 0.25,.5,1 ddp_model.pt module.head; want 0
	[[ ${lines[0]} = *"    absmax      q0.25       q0.5         q1  zeros NaN Inf" ]]
	[[ ${lines[1]} = "module.head.weight "*"    0.3481    -0.2018   -0.07265     0.3481      0   0   0" ]]
	[[ ${lines[3]} = "2 tensors "*"    0.3481    -0.1992   -0.06883     0.3481      0   0   0" ]]
	make nan.pt
	"$CKPT" stat --json --depth 1 --quantiles 0,0.5,0.9 nan.pt >out.json
	python3 - out.json <<-'END'
	import json, math, sys
	document = json.load(open(sys.argv[1]))
	a, w = document["tensors"]
	assert [q["value"] for q in a["quantiles"]] == [1, 1, 1], a
	assert [(q["q"], q["value"]) for q in w["quantiles"]] == [(0, -2), (0.5, 0.5), (0.9, 1 + 3 * (0.9 * 3 - 2))], w
	assert [q["value"] for q in document["totals"][0]["quantiles"]] == [-2, 1, 4 - 3 * (1 - (0.9 * 4 - 3))], document["totals"]
	assert document["totals"][1]["quantiles"] == document["totals"][0]["quantiles"], document
	assert document["groups"][1]["quantiles"] == w["quantiles"] and list(w)[-1] == "quantiles", document
	END
	ckpt stat --json ddp_model.pt
	[[ $status = 0 && $output != *quantiles* ]]
	for list in '' ',' '0.5,' '0.5,,1' 1.5 -1 nan 0.5x "$(printf '0.5,%.0s' {1..32})1"; do
		ckpt stat --quantiles="$list" ddp_model.pt
		[ "$status" = 64 ]
		[[ $stderr = "ckpt: stat: --quantiles "*": wanted up to 32 numbers from 0 to 1, such as 0.01,0.5,0.99"* ]]
	done
	ckpt stat --quantiles "$(printf '0.5,%.0s' {1..31})1" ddp_model.pt; want 0
}

@test "quantiles of views that repeat items, of what shares bytes, and of nothing" {
	PYTHONPATH=$CKPT_SOURCE_DIR/tests/bad python3 -B - <<-'END'
	import struct
	from files import *
	data = struct.pack("<6f", *range(6))
	one = lambda name, **more: text(name) + tensor(key="1", numel=6, **more)
	body = b"}(" + one("a.w", shape=(2, 3), stride=(3, 1)) + one("b.tied", shape=(2, 3), stride=(3, 1)) + \
	    one("c.wide", shape=(100000, 6), stride=(0, 1)) + one("c.part", shape=(2,), offset=4) + text("none") + tensor(shape=(0,)) + b"u"
	open("tied.pt", "wb").write(torch_file(pickled(body), extra=[("data/1", data)]))
	END
	"$CKPT" stat --depth 1 --json --quantiles 0.3,0.5,0.9 tied.pt >out.json
	python3 - out.json <<-'END'
	import json, sys
	document = json.load(open(sys.argv[1]))
	values = lambda row: [q["value"] for q in row["quantiles"]]
	flat = [1.5, 2.5, 4.5]
	assert [values(row) for row in document["tensors"]] == [flat, flat, [1, 2.5, 5], [4.3, 4.5, 4.9], [None] * 3], document["tensors"]
	a, b, c, none = map(values, document["groups"])
	assert a == flat and b == flat and c == [1, 2.5, 5] and none == [None] * 3, document["groups"]
	END
}

@test "--parameters leaves out buffers, optimizers and arrays" {
	ckpt stat --parameters --sort norm ddp_trainer.pt; want 0
	[ "${lines[1]%% *}" = model.module.stem.1.weight ]
	[[ ${lines[-1]} = "8 tensors  "*" 914 values "* ]]
	[[ $output != *num_batches* && $output != *running* && $output != *optimizer* ]]
	diff <("$CKPT" ls --parameters --json ddp_trainer.pt | jq '[.tensors[].name]') \
		<("$CKPT" stat --parameters --json ddp_trainer.pt | jq '[.tensors[].name]')
	ckpt stat --parameters --depth module ddp_trainer.pt 'model.module.head'; want 0
	[[ ${lines[1]} = "model.module.head "*" 2 tensors" ]]
	ckpt stat --parameters ddp_trainer.pt 'optimizer'; want 1 "ckpt: ddp_trainer.pt: no parameter matches"
	ckpt stat --parameters --at optimizer ddp_trainer.pt
	want 1 "ckpt: ddp_trainer.pt: nothing in it is known to be a parameter"
	ckpt stat --parameters --check-finite ddp_model.pt ddp_trainer.pt; want 0
}

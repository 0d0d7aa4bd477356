# SPDX-License-Identifier: Apache-2.0
# What 'ckpt cast --dequantize' makes of folders, and what --with-config writes beside the weights: all of it, or nothing.
load common

FP8='{"quant_method": "fp8", "weight_block_size": [128, 128]}'

# model FOLDER FILE...: safetensors files with an FP8 weight in each, config.json and a tokenizer; of several files, the index
model() {
	mkdir -p "$1"
	python3 -B - "$@" <<'PY'
import json, os, struct, sys
folder, names = sys.argv[1], sys.argv[2:]
weight_map = {}
for i, name in enumerate(names):
    tensors = {"l%d.weight" % i: ("F8_E4M3", [2, 4], bytes([0x38, 0x40, 0x44, 0xB8, 0, 0x30, 0x7E, 0x08])),
               "l%d.weight_scale_inv" % i: ("F32", [1, 1], struct.pack("<f", 0.5))}
    header, body = {}, b""
    for key, (dtype, shape, data) in tensors.items():
        header[key] = {"dtype": dtype, "shape": shape, "data_offsets": [len(body), len(body) + len(data)]}
        body += data
        weight_map[key] = name
    text = json.dumps(header).encode()
    with open(os.path.join(folder, name), "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text + body)
if len(names) > 1:
    with open(os.path.join(folder, "model.safetensors.index.json"), "w") as file:
        json.dump({"metadata": {"total_size": 24}, "weight_map": weight_map}, file)
PY
	echo "{\"a\": 1, \"quantization_config\": $FP8}" > "$1/config.json"
	echo new > "$1/tokenizer.json"
}

# what the working folder holds, by name, kind, mode and bytes
state() { find . -mindepth 1 ! -name '*.state' -printf '%P %y %m %l\n' | sort; find . -type f ! -name '*.state' -exec cksum {} + | sort -k3; }
dequantize() { ckpt cast --dequantize bf16 "$@"; }
# nothing has changed since `state > before.state`
unchanged() { state > after.state; diff before.state after.state >&2; }

@test "a folder around one file becomes a folder, whatever its name says" {
	model in model.safetensors
	echo mine > config.json; echo mine > tokenizer.json; echo mine > old
	for out in out out1/ Model-v1.5 ./a/../out2; do
		mkdir -p a
		dequantize --with-config in $out; want 0
		[ "$(ls -A $out)" = $'config.json\nmodel.safetensors\ntokenizer.json' ]
		[ "$(cat $out/config.json)" = '{"a": 1}' ]
	done
	[ "$(cat config.json tokenizer.json)" = $'mine\nmine' ]
	state > before.state
	for force in '' -f; do
		dequantize $force --with-config in old
		[[ $status = 2 && $stderr = *"old: the output exists and is no folder"* ]]
		dequantize $force in old; [ "$status" = 2 ]
		unchanged
	done
	dequantize --with-config in out
	[[ $status = 2 && $stderr = *"out/config.json: the output exists already"*"hint: -f replaces it"* ]]
	unchanged
	echo old > out/config.json; echo own > out/notes
	dequantize -f --with-config in out; want 0
	[ "$(cat out/config.json out/notes)" = $'{"a": 1}\nown' ]
	dequantize in plain; [ "$status" = 0 ]
	[ "$(ls -A plain)" = model.safetensors ]
	dequantize in file.safetensors; [ "$status" = 0 ]
	[ -f file.safetensors ]
	cmp file.safetensors plain/model.safetensors
}

@test "a folder of one pytorch_model.bin, or of a variant, becomes one with that name" {
	model in model.fp16.safetensors
	dequantize in out; [ "$status" = 0 ]
	[ "$(ls -A out)" = model.fp16.safetensors ]
	ckpt convert -q --to torch in/model.fp16.safetensors in/pytorch_model.bin
	rm in/model.fp16.safetensors
	for out in bin bin1/; do
		dequantize --with-config in/ $out; want 0
		[ "$(ls -A $out)" = $'config.json\npytorch_model.bin\ntokenizer.json' ]
		ckpt ls $out; want 0
		[[ $output = *l0.weight*bfloat16* ]]
	done
}

@test "a single file does not go into a folder with the index of a set, which loaders go by" {
	model in model.safetensors
	model set model-00001-of-00002.safetensors model-00002-of-00002.safetensors
	mkdir folder variant none
	cp set/model.safetensors.index.json folder/
	cp set/model.safetensors.index.json variant/model.safetensors.index.fp16.json
	echo '{}' > none/tokens.index.json
	state > before.state
	for out in set folder variant; do
		for force in '' -f '-f -n'; do
			dequantize $force --with-config in $out
			[[ $status = 2 && $stderr = *"the index of a set of shards"* ]]
		done
	done
	unchanged
	dequantize --with-config in none; want 0
}

@test "a configuration that stays behind is noted" {
	model in model.safetensors
	for command in 'add-prefix m. in OUT' 'edit --add-prefix m. in OUT' 'rename -e s/l0/l1/ in OUT' 'select --if-present --keep l0.* in OUT' 'compact --if-present in OUT' 'convert in OUT' \
		'merge in OUT' 'split --ranks 2 in out/f' 'cast --if-present f16 in OUT' 'sanitize --if-present in OUT'; do
		mkdir out
		run --separate-stderr "$CKPT" ${command/OUT/out\/f.safetensors}
		echo "$command: $status $stderr"
		[ "$status" = 0 ]
		[[ $stderr = *"note: in/config.json, which says how the weights are quantized, was not copied"* ]]
		rm -r out
	done
	run --separate-stderr "$CKPT" add-prefix m. in beside; [[ $status = 0 && $stderr = *"was not copied"* ]]
	run --separate-stderr "$CKPT" add-prefix -q m. in out.safetensors; [ "$stderr" = "" ]
	run --separate-stderr "$CKPT" add-prefix m. in in/two.safetensors; [[ $stderr != *"not copied"* ]]
	run --separate-stderr "$CKPT" add-prefix -n m. in; [[ $stderr != *"not copied"* ]]
	mkdir with; cp in/config.json with/
	run --separate-stderr "$CKPT" add-prefix m. in with/f.safetensors; [[ $stderr != *"not copied"* ]]
	dequantize in plain.safetensors; [[ $status = 0 && $stderr != *"not copied"* ]]
	echo '{"a": 1}' > in/config.json
	run --separate-stderr "$CKPT" add-prefix m. in other.safetensors; [[ $status = 0 && $stderr != *"not copied"* ]]
	echo '{"quantization": {}}' > in/hf_quant_config.json
	run --separate-stderr "$CKPT" add-prefix m. in third.safetensors
	[[ $stderr = *"in/hf_quant_config.json, which says"* ]]
}

@test "a set with --with-config is one folder, which -f replaces" {
	model in model-00001-of-00002.safetensors model-00002-of-00002.safetensors
	dequantize --with-config in out; want 0
	[ "$(cat out/config.json out/tokenizer.json)" = $'{"a": 1}\nnew' ]
	dequantize --with-config in out
	[[ $status = 2 && $stderr = *"out: the output exists already"*"-f replaces it"* ]]
	echo newer > in/tokenizer.json
	dequantize -f --with-config in out; want 0
	[ "$(cat out/tokenizer.json)" = newer ]
	[ "$(find . -name '.*ckpt-tmp')" = "" ]
	state > before.state
	dequantize -f in out # would lose config.json
	[[ $status = 2 && $stderr = *"'config.json'"* ]]
	unchanged
	echo mine > out/vocab.txt
	state > before.state
	dequantize -f --with-config in out
	[[ $status = 2 && $stderr = *"'vocab.txt'"* ]]
	unchanged
}

@test "where a file beside the weights cannot be written, nothing is" {
	model one model.safetensors
	model set model-00001-of-00002.safetensors model-00002-of-00002.safetensors
	for in in one set; do
		head -c 20000 /dev/zero > $in/tokenizer.model
		mkdir -p old-$in; cp $in/*.safetensors* old-$in; echo old > old-$in/config.json
	done
	state > before.state
	for in in one set; do
		for out in new old-$in old-$in/ file.safetensors old-$in/model.safetensors; do
			run --separate-stderr bash -c 'ulimit -f 8; trap "" XFSZ; exec "$0" cast -f --dequantize bf16 --with-config "$@"' "$CKPT" $in $out
			[[ $status = 2 && $stderr = *tokenizer.model* ]]
			unchanged
		done
	done
	[ "$(id -u)" = 0 ] || skip "only root can mount a small disk"
	mkdir small
	mount -t tmpfs -o size=64k tmpfs small 2>/dev/null || skip "a small disk cannot be mounted here"
	head -c 100000 /dev/zero | tee one/tokenizer.model > set/tokenizer.model
	for in in one set; do
		dequantize --with-config $in small/out
		[[ $status = 2 && $(find small -mindepth 1) = "" ]]
	done
	umount small
}

@test "what is in the way, or cannot be read, is found before anything is written" {
	model one model.safetensors
	model set model-00001-of-00002.safetensors model-00002-of-00002.safetensors
	for in in one set; do
		echo "{\"quantization_config\": $FP8} x" > $in/config.json
		state > before.state
		dequantize --as fp8 --with-config $in out
		[[ $status = 2 && $stderr = *"$in/config.json: is no JSON object"* ]]
		dequantize --with-config $in out; [ "$status" = 2 ]
		unchanged
		printf '\xEF\xBB\xBF{"quantization_config": %s, "a": 2, "quantization_config": null}\n' "$FP8" > $in/config.json
		dequantize --as fp8 --with-config $in bom-$in; want 0
		[ "$(cat bom-$in/config.json)" = '{"a": 2}' ]
		echo '{}' > $in/config.json
		ln -s nowhere $in/merges.txt
		state > before.state
		dequantize --with-config $in out
		[[ $status = 2 && $stderr = *"$in/merges.txt: "* ]]
		unchanged
		rm $in/merges.txt
		mkdir $in/merges.txt
		dequantize --with-config $in out
		[[ $status = 2 && $stderr = *"$in/merges.txt: "* ]]
		rmdir $in/merges.txt
	done
	mkdir -p there/tokenizer.json; echo mine > there/tokenizer.json/file
	state > before.state
	for force in '' -f; do
		dequantize $force --with-config one there
		[[ $status = 2 && $stderr = *"there/tokenizer.json: "* ]]
		dequantize $force --with-config set there
		[ "$status" = 2 ]
		unchanged
	done
	dequantize -f -n --with-config one there; [ "$status" = 2 ]
	dequantize -n --with-config one new; want 0
	unchanged
}

@test "nothing is written beside the input, and a folder in it may be one" {
	model in model.safetensors
	state > before.state
	for force in '' -f; do
		for out in in in/ in/plain.safetensors ./in/../in/x.safetensors; do
			dequantize $force --with-config in $out; [ "$status" = 2 ]
			dequantize $force --with-config in/model.safetensors in/plain.safetensors
			[[ $status = 2 && $stderr = *"in the folder of the input"* ]]
			unchanged
		done
	done
	ln -s in link
	dequantize -f --with-config in link/x.safetensors; [ "$status" = 2 ]
	[ ! -e in/x.safetensors ]
	dequantize --with-config in in/plain; want 0
	[ "$(cat in/plain/config.json)" = '{"a": 1}' ]
	grep -q quantization_config in/config.json
}

@test "links are replaced, not followed, and modes are no wider than those of the input" {
	model in model.safetensors
	chmod 700 in; chmod 600 in/config.json
	(umask 022; "$CKPT" cast -q --dequantize bf16 --with-config in out)
	[ "$(stat -c %a out out/config.json out/tokenizer.json)" = $'700\n600\n644' ]
	mkdir other; echo theirs > theirs
	ln -s ../theirs other/config.json; ln theirs other/tokenizer.json
	dequantize -f --with-config in other; want 0
	[ "$(cat theirs)" = theirs ]
	[ "$(cat other/config.json other/tokenizer.json)" = $'{"a": 1}\nnew' ]
	[ "$(ls -A other)" = $'config.json\nmodel.safetensors\ntokenizer.json' ]
	mkdir real; ln -s real to-folder; ln -s none dangling
	dequantize --with-config in to-folder; want 0
	[ -f real/config.json ]
	dequantize --with-config in dangling
	[[ $status = 2 && -L dangling && ! -e none ]]
}

@test "a configuration that is a link to nothing is an error, as it would decide the format" {
	model in model.safetensors
	cp in/config.json said.json
	for name in config hf_quant_config quantize_config quant_config; do
		rm -f in/*config.json
		ln -s ../none.json in/$name.json
		dequantize in out
		[[ $status = 2 && $stderr = *"in/$name.json: is a link to what is not there"* && ! -e out ]]
		dequantize in/model.safetensors out.safetensors
		[[ $status = 2 && ! -e out.safetensors ]]
		ckpt info in; want 0
		[[ $output = *quantized* && $output = *"$name.json"* ]]
		ckpt ls in; [ "$status" = 0 ]
		ckpt cat --dequantize in l0.weight; [ "$status" = 2 ]
		dequantize --as fp8 in as-$name; [ "$status" = 0 ]
	done
	rm in/*config.json
	ln -s ../said.json in/config.json
	dequantize --with-config in out; want 0
	[ "$(cat out/config.json)" = '{"a": 1}' ]
	[ ! -L out/config.json ]
}

@test "the command that 'why' names makes a folder of a folder, with what from_pretrained() reads" {
	model 'a model' model.safetensors
	model a.bin model-00001-of-00002.safetensors model-00002-of-00002.safetensors
	model here model.safetensors
	for in in 'a model' a.bin 'a model/'; do
		rm -rf ./*-mended
		ckpt why --json "$in"
		line=$(jq -r '.causes[].mends[].text | select(startswith("ckpt cast --dequantize"))' <<< "$output")
		[[ $line = *" --with-config "* ]]
		eval "'$CKPT' ${line#ckpt}"
		for out in *-mended; do
			[[ -d $out && -f $out/config.json ]]
			ckpt why "$out"
			[[ $output != *quantized* ]]
		done
	done
	cd here
	line=$("$CKPT" why --json . | jq -r '.causes[].mends[].text | select(startswith("ckpt cast --dequantize"))')
	eval "'$CKPT' ${line#ckpt}"
	[ "$(ls -A)" = $'config.json\nmodel.safetensors\ntokenizer.json' ]
	[ -d ../here-mended ]
	ckpt why --json model.safetensors
	[[ $output = *"ckpt cast --dequantize bf16 model.safetensors model-mended.safetensors"* ]]
}

# safetensors_metadata FILE: the pairs that it says
said() { python3 -B -c 'import json, struct, sys
text = open(sys.argv[1], "rb").read(); n = struct.unpack("<Q", text[:8])[0]; print(json.dumps(json.loads(text[8:8 + n]).get("__metadata__"), sort_keys=True))' "$1"; }

@test "what the shards say alike, and what the index says besides, stays" {
	model in model-00001-of-00002.safetensors model-00002-of-00002.safetensors
	python3 -B - <<'PY'
import json, struct
for i in (1, 2):
    path = "in/model-%05d-of-00002.safetensors" % i
    data = open(path, "rb").read()
    n = struct.unpack("<Q", data[:8])[0]
    header = {"__metadata__": {"author": "\u00e9\n", "part": str(i), "format": "pt", "only-%d" % i: "x"}, **json.loads(data[8:8 + n])}
    text = json.dumps(header).encode()
    open(path, "wb").write(struct.pack("<Q", len(text)) + text + data[8 + n:])
index = json.load(open("in/model.safetensors.index.json"))
index["metadata"].update(total_parameters=18, tool={"v": [1, 0.5, None, "\u00e9\n"], "e": {}}, best="new.weight")
index.update(version=3, list=[])
json.dump(index, open("in/model.safetensors.index.json", "w"))
PY
	dequantize in out; [ "$status" = 0 ]
	for file in out/*-of-*; do
		[ "$(said $file)" = '{"author": "\u00e9\n", "format": "pt"}' ]
	done
	[ "$(jq -c '[.metadata, .version, .list]' out/*.json)" = '[{"total_size":32,"total_parameters":16,"tool":{"v":[1,0.5,null,"é\n"],"e":{}},"best":"new.weight"},3,[]]' ]
	python3 -B - <<'PY'
import json
text = open("out/model.safetensors.index.json").read()
assert text == json.dumps(json.loads(text), indent=2).replace("\\u00e9", "\\u00E9"), text
PY
	ckpt cast -q f16 --as plain --only '*scale_inv' in cast; [ "$status" = 0 ]
	[ "$(jq -c .metadata.total_parameters cast/*.json)" = 18 ]
	[ "$(said cast/model-00002-of-00002.safetensors)" = '{"author": "\u00e9\n", "format": "pt"}' ]
	ckpt rename -q -e 's/^l1/new/' in renamed; [ "$status" = 0 ] # "best" would be another name of a tensor now
	[ "$(jq -c '.metadata | keys' renamed/*.json)" = '["tool","total_parameters","total_size"]' ]
	dequantize in one.safetensors; [ "$status" = 0 ]
	[ "$(said one.safetensors)" = '{"author": "\u00e9\n", "format": "pt"}' ]
	ckpt verify -q out; [ "$status" = 0 ]
}

@test "config.json of several models loses the entry wherever it is read from" {
	model in model.safetensors
	for nested in "{\"text_config\": {\"x\": [1, {\"y\": \"}\"}], \"quantization_config\": $FP8}, \"b\": {}}" "{\"a\": {\"text_config\": {\"quantization_config\": $FP8, \"x\": 1}}, \"quantization_config\": $FP8}"; do
		echo "$nested" > in/config.json
		dequantize in plain; [ "$status" = 0 ]
		cp in/config.json plain/
		dequantize -f in plain; [ "$status" = 0 ]
		[[ $stderr = *"plain/config.json still has the quantization_config"* ]]
		dequantize --with-config in out; want 0
		python3 -B - in/config.json out/config.json <<'PY'
import json, sys
def without(item):
    return {k: without(v) for k, v in item.items() if k != "quantization_config"} if isinstance(item, dict) else item
before, after = (json.load(open(path)) for path in sys.argv[1:])
assert after == without(before) and "quantization_config" not in json.dumps(after), after
PY
		rm -r out plain
	done
	echo '{"a": {"b": 1' > in/config.json
	dequantize --as fp8 --with-config in out
	[[ $status = 2 && $stderr = *"config.json"*"JSON"* ]]
	[ ! -e out ]
}

# FILE NAME...: torchao's Int8Tensors of these names, and a norm; the Python code $CHANGE changes tensors and metadata
torchao() {
	CHANGE=${CHANGE-} python3 -B - "$@" <<'PY'
import json
import os
import struct
import sys

tensors, metadata = {"norm": ("F32", [1], bytes(4))}, {"norm": json.dumps({"_type": "Tensor"}), "tensor_names": json.dumps(sys.argv[2:] + ["norm"])}
for name in sys.argv[2:]:
    parts = "%s._%s_" % tuple(name.rsplit(".", 1))
    tensors[parts + "qdata"] = ("I8", [2, 4], bytes(range(8)))
    tensors[parts + "scale"] = ("F32", [2, 1], struct.pack("<2f", 1, 2))
    metadata[name] = json.dumps({"_type": "Int8Tensor", "_data": {"block_size": [1, 4], "dtype": {"_type": "torch.dtype", "_data": "bfloat16"}}, "_tensor_data_names": ["qdata", "scale"]})
exec(os.environ["CHANGE"])
header, body = {"__metadata__": metadata}, b""
for name, (dtype, shape, data) in tensors.items():
    header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [len(body), len(body) + len(data)]}
    body += data
text = json.dumps(header).encode()
open(sys.argv[1], "wb").write(struct.pack("<Q", len(text)) + text + body)
PY
}

@test "tensors of torchao that are not called weight are read" {
	torchao model.safetensors m.experts.w1 m.experts.gate_up_proj m.experts._x_ m.weight
	ckpt cast --dequantize f32 model.safetensors out.safetensors; [ "$status" = 0 ]
	[[ $output = "4 weights dequantized, "* ]]
	ckpt ls out.safetensors
	[[ $output = *"m.experts._x_ "*"m.experts.gate_up_proj "*"m.experts.w1 "*"m.weight "*"5 tensors"* ]]
	ckpt cat -q out.safetensors m.experts.w1
	[ "$output" = $'[[ 0.  1.  2.  3.]\n [ 8. 10. 12. 14.]]' ]
	ckpt rename -e 's/^m[.]experts/n/' model.safetensors renamed.safetensors; [ "$status" = 0 ]
	ckpt cat -q --dequantize renamed.safetensors n.w1
	[ "$output" = $'[[ 0.  1.  2.  3.]\n [ 8. 10. 12. 14.]]' ]
	ckpt cast bf16 model.safetensors cast.safetensors
	[[ $status = 0 && $stderr = *"note: 4 parts of quantized weights stay as they are"* ]]
	while IFS='|' read -r change message; do
		CHANGE=$change torchao model.safetensors m.w1
		ckpt cast -f --dequantize f32 model.safetensors bad.safetensors
		[[ $status = 2 && $stderr = *"$message"* && ! -e bad.safetensors ]] || { echo "$change: $stderr"; return 1; }
	done <<-'END'
	del tensors["m._w1_qdata"]|'m.w1' is a Int8Tensor by the metadata, and its 'm._w1_qdata' is missing
	del tensors["m._w1_scale"]|'m._w1_qdata' has no scales beside it
	tensors["m._w1_perm"] = tensors["norm"]|'m._w1_perm' stands beside a quantized weight, and ckpt does not know how it changes that
	END
	for name in m._w1_scale m._weight_scale; do # names as those of parts, without codes
		CHANGE="tensors = {'$name': tensors['norm'], 'ids': ('I8', [1], b'x')}; metadata = {}" torchao model.safetensors
		ckpt cast -f bf16 model.safetensors cast.safetensors
		[[ $status = 0 && $output = "1 tensor cast, "* ]]
	done
}

@test "what torchao would not build of its metadata is an error that names the tensor" {
	while IFS='|' read -r change message; do
		CHANGE=$change torchao model.safetensors m.w1 m.weight
		ckpt cast -f --dequantize f32 model.safetensors out.safetensors
		[[ $status = 2 && $stderr = *"$message"* && ! -e out.safetensors ]] || { echo "$change: $stderr"; return 1; }
	done <<-'END'
	del metadata["tensor_names"]|'m._w1_qdata' is int8 [2, 4]: the metadata have no 'tensor_names', without which torchao builds nothing
	metadata["tensor_names"] = '["m.w1"]'|'m._weight_qdata' is int8 [2, 4]: 'tensor_names' in the metadata does not list its tensor, which torchao does not build then
	metadata["tensor_names"] = '["m.w1", "m.weight", "m.x"]'|'tensor_names' in the metadata lists 'm.x', of which they say nothing
	metadata["tensor_names"] = '{}'|'tensor_names' in the metadata is no list of names
	metadata["m.w1"] = metadata["m.w1"].replace('"scale"', '"scale", "act_quant_scale"')|'m._w1_qdata' is int8 [2, 4]: the metadata list a part 'act_quant_scale', which is missing
	tensors["m._w1_act_per_tensor_scale"] = tensors["norm"]|'m._w1_qdata' is int8 [2, 4]: the metadata do not list its part 'act_per_tensor_scale', which is there
	metadata["m.w1"] = metadata["m.w1"].replace('"scale"', '"qdata"')|'m._w1_qdata' is int8 [2, 4]: the metadata list a part 'qdata' twice
	END
	CHANGE='tensors["m._w1_act_quant_scale"] = tensors["norm"]; metadata["m.w1"] = metadata["m.w1"].replace("\"scale\"", "\"scale\", \"act_quant_scale\"")' torchao model.safetensors m.w1 m.weight
	ckpt cast --dequantize f32 model.safetensors out.safetensors
	[[ $status = 0 && $output = "2 weights dequantized, 1 scale of activations left out, "* ]]
	# of a set, each file may list its own
	mkdir set
	torchao set/model-00001-of-00002.safetensors m.w1
	CHANGE='del tensors["norm"]' torchao set/model-00002-of-00002.safetensors n.weight
	ckpt cast --dequantize f32 set out
	[[ $status = 0 && $output = "2 weights dequantized, "* ]]
	CHANGE='del tensors["norm"]; metadata["m.w1"] = metadata["n.weight"].replace("bfloat16", "float16")' torchao set/model-00002-of-00002.safetensors n.weight
	ckpt cast --dequantize f32 set out2
	[[ $status = 2 && $stderr = *"'m._w1_qdata' is int8 [2, 4]: the files of the set say different things of its class"* ]]
}

@test "the classes of torchao in the metadata follow the names of the tensors" {
	python3 -B - <<'PY'
import json
import struct

def write(path, tensors, metadata):
    header, body = {"__metadata__": metadata}, b""
    for name, (dtype, shape, data) in tensors.items():
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [len(body), len(body) + len(data)]}
        body += data
    text = json.dumps(header).encode()
    open(path, "wb").write(struct.pack("<Q", len(text)) + text + body)

says = json.dumps({"_type": "Int8Tensor", "_data": {"block_size": [1, 4], "dtype": {"_type": "torch.dtype", "_data": "bfloat16"}}, "_tensor_data_names": ["qdata", "scale"]})
tensors = {part: tensor for x in "ab" for part, tensor in (("m.%s._weight_qdata" % x, ("I8", [2, 4], bytes(range(8)))),
                                                          ("m.%s._weight_scale" % x, ("F32", [2, 1], struct.pack("<2f", 0.5, 2))))}
tensors["m.norm"] = ("F32", [2], struct.pack("<2f", 1, 2))
metadata = {"m.a.weight": says, "m.b.weight": says, "m.norm": json.dumps({"_type": "Tensor"}), "tensor_names": json.dumps(["m.a.weight", "m.b.weight", "m.norm"]),
            "author": "somebody"}
write("model.safetensors", tensors, metadata)
PY
	keys() { python3 -c 'import json, struct, sys
stream = open(sys.argv[1], "rb")
metadata = json.loads(stream.read(struct.unpack("<Q", stream.read(8))[0]))["__metadata__"]
print(*metadata, json.loads(metadata["tensor_names"]))' "$1"; }
	ckpt cast -q --dequantize f32 model.safetensors plain.safetensors; want 0
	ckpt strip-prefix m. model.safetensors out.safetensors; want 0
	[ "$(keys out.safetensors)" = "a.weight b.weight norm tensor_names author ['a.weight', 'b.weight', 'norm']" ]
	ckpt cast -q --dequantize f32 out.safetensors numbers.safetensors; want 0
	ckpt rename -q -e 's/^/m./' numbers.safetensors named.safetensors; want 0
	ckpt diff plain.safetensors named.safetensors; want 0
	ckpt select --keep 'm.b.*' model.safetensors one.safetensors; want 0
	[ "$(keys one.safetensors)" = "m.b.weight tensor_names author ['m.b.weight']" ]
	ckpt rename -e 's/m.a._weight_scale/x/' model.safetensors apart.safetensors
	[[ $status = 2 && $stderr = *"the parts of 'm.a.weight', a tensor of torchao, have names that do not belong together"* && ! -e apart.safetensors ]]
	ckpt compact --if-present model.safetensors same.safetensors
	[ "$(keys same.safetensors)" = "m.a.weight m.b.weight m.norm tensor_names author ['m.a.weight', 'm.b.weight', 'm.norm']" ]
	ckpt convert model.safetensors out.pt
	[[ $status = 0 && $stderr = *"OUT has no place for the metadata that say of which class of torchao the tensors are"* ]]
	ckpt split --ranks 2 model.safetensors ranks
	[[ $status = 0 && $stderr = *"OUT has no place for the metadata"* ]]
}

# FILE: the metadata of a safetensors file, as lines of key and value
metadata_of() {
	python3 -B -c '
import json, struct, sys
data = open(sys.argv[1], "rb").read()
pairs = json.loads(data[8:8 + struct.unpack("<Q", data[:8])[0]], object_pairs_hook=list)
for key, value in dict(pairs)["__metadata__"]:
    print(key, value)' "$1"
}

@test "a name that another tensor of torchao had is that of the one that has it now" {
	other='metadata["b.w"] = metadata["b.w"].replace("bfloat16", "float16"); tensors["b._w_qdata"] = ("I8", [2, 4], bytes([9] * 8))'
	CHANGE=$other torchao model.safetensors a.w b.w
	while IFS='|' read -r words; do
		eval "ckpt edit -f model.safetensors out.safetensors $words"; [ "$status" = 0 ] || { echo "$words: $stderr"; return 1; }
		metadata_of out.safetensors > pairs
		[ "$(cut -d' ' -f1 pairs | sort | uniq -d)" = '' ]
		grep -q '^a\.w .*"float16"' pairs
		[ "$(grep -c _type pairs)" = 2 ]
		ckpt cat -q --dequantize out.safetensors a.w
		[ "$output" = $'[[ 9.  9.  9.  9.]\n [18. 18. 18. 18.]]' ] || { echo "$words: $output"; return 1; }
	done <<-'END'
	--drop 'a.*' --rename 's/^b[.]/a./'
	--keep 'b.*' --keep norm --rename 's/^b[.]/a./'
	--rename 's/^a[.]/z./' --rename 's/^b[.]/a./' --drop 'z.*'
	END
	# the metadata are those of the file: they do not say what has a name since an edit
	for words in '--rename s/^a/z/ --rename s/^b/a/ --rename s/^z/b/' '--add-prefix zz.' '--rename s/^a/c/'; do
		state > before.state
		eval "ckpt edit -f model.safetensors out.safetensors $words --dequantize f32"
		[[ $status = 2 && $stderr = *"had another name when torchao wrote of its class: dequantize before names change, or in a command of its own"* ]]
		unchanged
		eval "ckpt edit -f model.safetensors first.safetensors $words"; [ "$status" = 0 ]
		ckpt cast -f --dequantize f32 first.safetensors first.out.safetensors; [ "$status" = 0 ]
	done
	ckpt edit -f model.safetensors out.safetensors --dequantize f32 --add-prefix zz.; [ "$status" = 0 ]
	ckpt cat -q out.safetensors zz.b.w
	[ "$output" = $'[[ 9.  9.  9.  9.]\n [18. 18. 18. 18.]]' ]
}

@test "a set whose files list their own tensors of torchao becomes one that lists all" {
	mkdir set
	torchao set/model-00001-of-00002.safetensors m.w1
	CHANGE='del tensors["norm"]; metadata["tensor_names"] = "[\"n.weight\"]"; del metadata["norm"]' torchao set/model-00002-of-00002.safetensors n.weight
	for words in 'convert set out.safetensors' 'merge set out.safetensors' 'add-prefix zz. set out' 'rename -e s/^n[.]/k./ set out' 'select --drop norm set out' 'convert --shard-size 1K set out'; do
		rm -rf out out.safetensors
		ckpt $words; [ "$status" = 0 ] || { echo "$words: $stderr"; return 1; }
		out=out; [ -e out ] || out=out.safetensors
		rm -rf plain
		ckpt cast --dequantize f32 $out plain
		[[ $status = 0 && $output = "2 weights dequantized, "* ]] || { echo "$words: $stderr"; return 1; }
	done
}

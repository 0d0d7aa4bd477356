# SPDX-License-Identifier: Apache-2.0
# Quantized weights on the command line. That the numbers are those of the packages is for tests/interop/quantized.py to say.
load common

# model.safetensors: an FP8 weight [2, 4] with one scale for all, and what is named in "$@": a spare tensor, a scale of activations
make() {
	python3 -B - "$@" <<'PY'
import json
import struct
import sys

tensors = {"a.weight": ("F8_E4M3", [2, 4], bytes([0x38, 0x40, 0x44, 0xB8, 0, 0x30, 0x7E, 0x08])), "a.weight_scale_inv": ("F32", [1, 1], struct.pack("<f", 0.5)),
           "a.bias": ("BF16", [2], b"\x80\x3f\x00\x40"), "a.input_scale": ("F32", [], struct.pack("<f", 1)), "b.weight": ("F8_E4M3", [1, 2], b"\x38\x38"),
           "norm.scale": ("F32", [2], struct.pack("<2f", 1, 2)), "c.weight": ("U8", [1, 2], b"\x38\x38"), "d.weight_packed": ("U8", [1, 2], b"\x38\x38"),
           "e.weight": ("BF16", [1, 2], b"\x80\x3f\x00\x40"), "e.weight_scale_inv": ("F32", [1, 1], struct.pack("<f", 0.5)),
           "a.lora_scale": ("F32", [1], struct.pack("<f", 1)),
           **{"a." + name: ("F32", [2], struct.pack("<2f", 1, 2)) for name in ("smooth_scale", "perm", "qscales", "hadamard_weight", "weight_scale_inv_2", "scale_bias", "blocks_inv", "weight_offset", "Scale", "SCB_2", "weight_scaling", "multiplier", "weight_g", "weight.x",
                                                                                    "e_score_correction_bias", "b.multiplier")},
           "experts.gate": ("F8_E4M3", [1, 2], b"\x38\x38"), "experts.gate_scale_inv": ("F32", [1, 1], struct.pack("<f", 0.5)),
           **{"experts.gate" + name: ("F32", [2], struct.pack("<2f", 1, 2)) for name in ("_Scale", "_offset", "_absmax2", ".x", "_zp", "_sf", "_bias")},
           **{"a." + name: ("F32", [2], struct.pack("<2f", 1, 2)) for name in ("input_quantizer._pre_quant_scale", "weight_quantizer._scale", "weight_quantizer._amax")},
           "a.k_scale": ("F32", [1], struct.pack("<f", 1)), "a.output_scale": ("F32", [1], struct.pack("<f", 1)), "q.W_q": ("U8", [1, 2], b"\x38\x38"), "q.weight._data": ("I8", [1, 2], b"\x38\x38"),
           "a.bitmask": ("U8", [2], b"\0\1")}
header, body = {}, b""
for name in sys.argv[1:]:
    dtype, shape, data = tensors[name]
    header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [len(body), len(body) + len(data)]}
    body += data
text = json.dumps(header).encode()
open("model.safetensors", "wb").write(struct.pack("<Q", len(text)) + text + body)
PY
}

config() { echo "{\"quantization_config\": $1}" > config.json; }

@test "a weight becomes plain, its scale is used up, the rest stays" {
	make a.bias a.weight a.weight_scale_inv a.input_scale norm.scale
	config '{"quant_method": "fp8", "weight_block_size": [128, 128]}'
	ckpt cast --dequantize f32 model.safetensors out.safetensors; [ "$status" = 0 ]
	[[ $output = "1 weight dequantized, 1 scale of activations left out, "* ]]
	ckpt ls out.safetensors; want 0
	[[ $output = *"a.weight"*float32*"[2, 4]"* && $output = *"norm.scale"*float32* && $output = *"a.bias"*bfloat16* && $output != *scale_inv* && $output != *input_scale* ]]
	ckpt cat -q out.safetensors a.weight; want 0
	[[ $output = *"[ 5.0000e-01  1.0000e+00  1.5000e+00 -5.0000e-01]"* ]]
}

@test "cat, stat, diff and info take them as numbers" {
	make a.weight a.weight_scale_inv
	config '{"quant_method": "fp8", "weight_block_size": [128, 128]}'
	ckpt info model.safetensors; want 0
	[[ $output = *"quantized   1 weight: FP8 (e4m3), blocks of 128 x 128; 12.00 bits a number"* ]]
	ckpt cat --dequantize -q model.safetensors a.weight; want 0
	[[ $output = *"-5.0000e-01"* ]]
	ckpt cat -q model.safetensors a.weight; want 0
	[[ $output = *"-1.0000e+00"* ]]
	ckpt stat --dequantize model.safetensors; want 0
	[[ $output = *"a.weight"*float32* && $output != *scale_inv* ]]
	ckpt cast --dequantize bf16 model.safetensors plain.safetensors; [ "$status" = 0 ]
	ckpt diff --dequantize model.safetensors plain.safetensors
	[[ $status = 0 && $stderr = *"plain.safetensors has no quantized weights"* ]]
	ckpt diff model.safetensors plain.safetensors; want 1
}

@test "the configuration decides, and --as does before it; without both, names that fit one format" {
	make a.weight a.weight_scale_inv
	ckpt cast --dequantize bf16 model.safetensors out.safetensors; [ "$status" = 0 ]
	config '{"quant_method": "quanto"}'
	ckpt cast --dequantize bf16 model.safetensors other.safetensors
	[[ $status = 2 && $stderr = *"config.json: the weights are quantized by 'quanto', which ckpt does not know"* ]]
	[ ! -e other.safetensors ]
	ckpt cast --dequantize bf16 --as fp8 model.safetensors other.safetensors; [ "$status" = 0 ]
	cmp out.safetensors other.safetensors
	ckpt cast --dequantize bf16 --as fp9 model.safetensors third.safetensors
	[[ $status = 64 && $stderr = *"there is no format of quantized weights 'fp9'"* ]]
	ckpt cast --dequantize --as plain bf16 model.safetensors third.safetensors
	[ $status = 64 ]
	ckpt cast --dequantize fp8 model.safetensors third.safetensors
	[[ $status = 64 && $stderr = *"become bfloat16, float16 or float32, not 'fp8'"* ]]
	[ ! -e third.safetensors ]
}

@test "what does not fit is named, and nothing is written" {
	make a.weight a.weight_scale_inv b.weight
	config '{"quant_method": "fp8", "weight_block_size": [128, 128]}'
	ckpt cast --dequantize bf16 model.safetensors out.safetensors
	[[ $status = 2 && $stderr = *"'b.weight' "*"no scales beside it"* ]]
	[ ! -e out.safetensors ]
	ckpt info model.safetensors; want 0
	[[ $output = *"quantized?"*"'b.weight'"* ]]
	config '{"quant_method": "fp8", "weight_block_size": [1, 2]}'
	make a.weight a.weight_scale_inv
	ckpt cast --dequantize bf16 model.safetensors out.safetensors
	[[ $status = 2 && $stderr = *"'a.weight_scale_inv' is float32 [1, 1]: wanted [2, 2]"* ]]
	[ ! -e out.safetensors ]
}

@test "nothing quantized is an answer" {
	make a.bias norm.scale
	ckpt cast --dequantize bf16 model.safetensors out.safetensors
	[[ $status = 1 && $stderr = *"no weight is quantized"* ]]
	[ ! -e out.safetensors ]
	ckpt cast --dequantize bf16 --if-present model.safetensors out.safetensors; [ "$status" = 0 ]
	ckpt diff model.safetensors out.safetensors; want 0
}

@test "it is a step of edit and convert" {
	make a.weight a.weight_scale_inv
	ckpt convert --dequantize bf16 --rename 's/^a/z/' model.safetensors out.pt; want 0
	ckpt ls out.pt
	[[ $output = *"z.weight"*bfloat16* ]]
}

@test "what still says of weights that they are quantized, beside plain ones, is noted" {
	make a.weight a.weight_scale_inv
	mkdir out
	note() { # the file; a command
		ckpt "${@:2}"
		[[ $status = 0 && $stderr = *"note: out/$1 still "*"loaders"* ]] || { echo "$*: $status $stderr"; return 1; }
	}
	for other in config.json hf_quant_config.json quantize_config.json; do
		rm -rf out; mkdir out
		echo '{"quantization_config": {"quant_method": "fp8"}}' > "out/$other"
		note $other cast -f --dequantize bf16 model.safetensors out/a.safetensors
		note $other edit -f --dequantize bf16 model.safetensors out/a.safetensors
		note $other convert -f --dequantize bf16 --to torch model.safetensors out/a.pt
		cp model.safetensors out/b.safetensors
		rm out/config.json 2>/dev/null || true
		[ $other = config.json ] || { mkdir with; cp model.safetensors with; echo '{"quantization_config": {"quant_method": "fp8"}}' > with/config.json; note $other cast -f --dequantize bf16 --with-config with out; rm -rf with; rm -f out/model.safetensors; }
		[ $other != config.json ] || echo '{"quantization_config": {"quant_method": "fp8"}}' > out/config.json
		note $other edit -i --as fp8 --dequantize bf16 out/b.safetensors
	done
	ckpt convert -f --to torch model.safetensors out/a.pt; want 0
	ckpt edit -f --rename s/a/b/ model.safetensors out/a.safetensors; want 0
}

@test "it is noted, too, where config.json has what Python writes and JSON has not" {
	make a.weight a.weight_scale_inv
	mv model.safetensors was.safetensors
	says='"quantization_config": {"quant_method": "fp8", "weight_block_size": [128, 128]}'
	mkdir out
	for text in '{"limit": [0.0, Infinity], %s}' '{"limit": -Infinity, %s}' '{%s, "limit": NaN}' '{"limit": 1E+400, %s}' '{"limit": 123456789012345678901234567890, %s}' \
		'\xef\xbb\xbf{%s}' '{"text_config": {"limit": Infinity, %s}}'; do
		printf "$text" "$says" > config.json
		cp was.safetensors model.safetensors
		ckpt cast -f --dequantize bf16 model.safetensors a.safetensors
		[[ $status = 0 && $stderr = *"note: ./config.json still has the quantization_config"* ]] || { echo "$text: $stderr"; return 1; }
		ckpt edit -f --dequantize bf16 model.safetensors a.safetensors
		[[ $status = 0 && $stderr = *"note: ./config.json still has the quantization_config"* ]]
		ckpt convert -f --to torch --dequantize bf16 model.safetensors a.pt
		[[ $status = 0 && $stderr = *"note: ./config.json still has the quantization_config"* ]]
		ckpt cast -i --dequantize bf16 model.safetensors
		[[ $status = 0 && $stderr = *"note: ./config.json still has the quantization_config"* ]]
		cp was.safetensors model.safetensors
		ckpt cast -f --dequantize bf16 --with-config model.safetensors out/a.safetensors; want 0
		ckpt cast -n --dequantize bf16 out/a.safetensors out/b.safetensors
		[[ $status = 1 && $stderr = *"no weight is quantized"* ]]
		[[ $(cat out/config.json) != *quant* ]]
		rm config.json
		printf "$text" "$says" > out/hf_quant_config.json
		ckpt cast -f --dequantize bf16 model.safetensors out/a.safetensors
		[[ $status = 0 && $stderr = *"note: out/hf_quant_config.json still says how the weights were quantized"* ]]
		rm out/*
	done
	printf '{"quantization_config": null}' > config.json # says nothing
	ckpt cast -f --dequantize bf16 model.safetensors a.safetensors; want 0
}

@test "what is wrong with a config.json is said in plain words" {
	make a.weight a.weight_scale_inv
	deep=$(printf '[%.0s' {1..3000})
	for row in '{"a": "\u0000"}=line 1: a text in it has the character \u0000' '{"\u0000": 1}=line 1: a key in it has the character \u0000' \
		"{\"a\": $deep=line 1: lists and objects in it are nested too deep" $'{\n"a": x}=line 2: invalid token near '"'x'"; do
		printf '%s' "${row%%=*}" > config.json
		ckpt cast --dequantize bf16 model.safetensors out.safetensors
		[[ $status = 2 && $stderr = *"config.json: is not JSON that can be read: ${row#*=}"* && $stderr != *JSON_* ]] || { echo "$stderr"; return 1; }
	done
}

@test "--with-config puts the rest of the folder beside OUT, without what it says of quantization" {
	make a.weight a.weight_scale_inv
	mkdir in; mv model.safetensors in
	printf '{\n  "a": 1e-06,\n  "quantization_config": {"quant_method": "fp8", "x": "}\\","},\n  "b": [1, {"c": "}"}]\n}\n' > in/config.json
	echo tokens > in/tokenizer.json; echo other > in/README.md
	mkdir out
	ckpt cast --dequantize bf16 --with-config in out/model.safetensors; want 0
	[ "$(cat out/config.json)" = $'{\n  "a": 1e-06,\n  "b": [1, {"c": "}"}]\n}' ]
	cmp in/tokenizer.json out/tokenizer.json
	[ ! -e out/README.md ]
	grep -q quant_method in/config.json
	printf '{"a": 1, "quantization_config": {"quant_method": "fp8"}}' > in/config.json
	ckpt cast --dequantize bf16 --with-config in/model.safetensors new.safetensors; want 0
	[ "$(cat config.json)" = '{"a": 1}' ]
	printf '{"quantization\\u005fconfig": {"quant_method": "fp8"}, "a": 1, "\\u0074ext_config": {"compression_confi\\u0067": {}, "b\\\\": 2}}' > in/config.json
	ckpt cast --dequantize bf16 --with-config -f in/model.safetensors new.safetensors; want 0
	[ "$(cat config.json)" = '{"a": 1, "\u0074ext_config": {"b\\": 2}}' ]
	ckpt cast --dequantize bf16 --with-config in/model.safetensors newer.safetensors
	[[ $status = 2 && $stderr = *"./config.json: the output exists already"* && ! -e newer.safetensors ]]
	ckpt cast --dequantize bf16 --with-config in/model.safetensors in/plain.safetensors
	[[ $status = 2 && $stderr = *"in the folder of the input"* && ! -e in/plain.safetensors ]]
	ckpt cast --with-config bf16 in out2
	[ $status = 64 ]
}

@test "only scales of activations beside a quantized weight are left out" {
	python3 -B - <<'PY'
import json, struct
tensors = {"q.weight": ("F8_E4M3", [1, 2], b"\x38\x40"), "q.weight_scale_inv": ("F32", [1, 1], struct.pack("<f", 2)), "q.input_scale": ("F32", [1], b"\0\0\0\0"),
           "patch.input_scale": ("F32", [1], b"\0\0\0\0"), "patch.activation_scale": ("F32", [1, 2], bytes(8))}
header, body = {}, b""
for name, (dtype, shape, data) in tensors.items():
    header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [len(body), len(body) + len(data)]}
    body += data
text = json.dumps(header).encode()
open("model.safetensors", "wb").write(struct.pack("<Q", len(text)) + text + body)
PY
	echo '{"limit": [0.0, Infinity, -Infinity, NaN, 100000000000000000000, 1e999], "quantization_config": {"quant_method": "fp8", "weight_block_size": [128, 128]}}' > config.json
	ckpt cast --dequantize bf16 model.safetensors out.safetensors; [ "$status" = 0 ]
	[[ $output = "1 weight dequantized, 1 scale of activations left out, "* ]]
	ckpt ls out.safetensors
	[[ $output = *"patch.input_scale"* && $output = *"patch.activation_scale"* && $output != *"q.input_scale"* ]]
	echo '{"quantization_config": ' > config.json
	ckpt cast --dequantize bf16 model.safetensors other.safetensors
	[[ $status = 2 && $stderr = *"config.json: is not JSON"* ]]
	ckpt cast --dequantize bf16 --as fp8 model.safetensors other.safetensors; [ "$status" = 0 ]
	ckpt edit --dequantize bf16 --as fp8 model.safetensors third.safetensors; want 0
	cmp other.safetensors third.safetensors
}

@test "in place the file holds plain weights, as OUT would" {
	make a.bias a.weight a.weight_scale_inv norm.scale
	ckpt convert -q --to torch model.safetensors model.pt
	for name in model.safetensors model.pt; do
		ckpt cast -q --dequantize bf16 $name "out-$name"; [ "$status" = 0 ]
		ckpt cast -i --dequantize bf16 $name; [ "$status" = 0 ]
		[[ $output = "1 weight dequantized, "*"written anew as "* ]]
		ckpt diff --strict $name "out-$name"; want 0
		ckpt verify -q $name; want 0
	done
	cmp model.safetensors out-model.safetensors
}

@test "a tensor of Transformer Engine is an error that names its class" {
	python3 -B - <<'PY'
import pickle, zipfile
data = (b"\x80\x02}X\x08\x00\x00\x00a.weightcbuiltins\ngetattr\nctransformer_engine.pytorch.tensor.float8_tensor\nFloat8Tensor\n"
        b"X\x05\x00\x00\x00_make\x86RK\x01K\x02\x86Rs.")
with zipfile.ZipFile("te.pt", "w") as archive:
    archive.writestr("x/data.pkl", data)
    archive.writestr("x/version", "3\n")
PY
	ckpt cast --dequantize bf16 te.pt out.pt
	[[ $status = 2 && $stderr = *"'a.weight' is made by Float8Tensor of Transformer Engine, which ckpt does not know"* && ! -e out.pt ]]
}

@test "what the configuration excludes is not quantized, and what it names is" {
	make a.weight a.weight_scale_inv
	config '{"quant_method": "fp8", "modules_to_not_convert": ["b", "aa", "lm_head"]}'
	ckpt cast -f --dequantize bf16 model.safetensors out.safetensors; [ "$status" = 0 ]
	for list in modules_to_not_convert ignored_layers; do
		config "{\"quant_method\": \"fp8\", \"$list\": [\"a\"]}"
		ckpt cast -f --dequantize bf16 model.safetensors out.safetensors
		[[ $status = 2 && $stderr = *"'a.weight' is quantized, and the configuration excludes 'a' ($list)"* ]]
	done
	ckpt cast -f --dequantize bf16 --as fp8 model.safetensors out.safetensors; [ "$status" = 0 ]
	config '{"quant_method": "fp8", "fmt": "e5m2"}'
	ckpt cast -f --dequantize bf16 model.safetensors out.safetensors
	[[ $status = 2 && $stderr = *"'a.weight' is float8_e4m3fn [2, 4]: the configuration says 'e5m2'"* ]]
	config '{"quant_method": "fp8", "fmt": "e4m3"}'
	ckpt cast -f --dequantize bf16 model.safetensors out.safetensors; [ "$status" = 0 ]
}

# compressed-tensors: FP8 weights l.0.up and l.1.up, or the latter whole; and config.json of $1
make_two() {
	python3 -B - "$@" <<'PY'
import json, struct, sys
tensors = {"l.0.up.weight": ("F8_E4M3", [2, 2], b"\x38\x40\x38\x40"), "l.0.up.weight_scale": ("F32", [1], struct.pack("<f", 2)),
           "l.1.up.weight": ("BF16", [2, 2], bytes(8)), "embed.weight": ("BF16", [2, 2], bytes(8))}
header, body = {}, b""
for name, (dtype, shape, data) in tensors.items():
    header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [len(body), len(body) + len(data)]}
    body += data
text = json.dumps(header).encode()
open("model.safetensors", "wb").write(struct.pack("<Q", len(text)) + text + body)
config = {"quant_method": "compressed-tensors", "format": "float-quantized", "ignore": json.loads(sys.argv[2]), "config_groups": {"g": {
    "targets": json.loads(sys.argv[1]), "weights": {"num_bits": 8, "type": "float", "strategy": "tensor", "symmetric": True}}}}
config.update(json.loads(sys.argv[3]) if len(sys.argv) > 3 else {})
json.dump({"quantization_config": config}, open("config.json", "w"))
PY
}

@test "of compressed-tensors, targets and ignore are held against the tensors" {
	make_two '["Linear"]' '["embed"]'
	ckpt cast -f --dequantize bf16 model.safetensors out.safetensors; [ "$status" = 0 ]
	make_two '["re:.*up$"]' '["l.1.up"]'
	ckpt cast -f --dequantize bf16 model.safetensors out.safetensors; [ "$status" = 0 ]
	make_two '["re:.*up$"]' '[]'
	ckpt cast -f --dequantize bf16 model.safetensors out.safetensors
	[[ $status = 2 && $stderr = *"'l.1.up.weight' is not quantized, and the configuration says so of 're:.*up\$'"* ]]
	for targets in '["re:.*down$"]' '["l.1.up"]' '["re:.*down$", "l.2.up"]'; do
		make_two "$targets" '["l.1.up"]'
		ckpt cast -f --dequantize bf16 model.safetensors out.safetensors
		[[ $status = 2 && $stderr = *"'l.0.up"*"' is quantized, and the configuration names it nowhere (config_groups)"* ]]
		ckpt cast -f --dequantize bf16 --as compressed-tensors model.safetensors out.safetensors; [ "$status" = 0 ]
	done
	make_two '["Linear"]' '["re:l[.]0"]'
	ckpt cast -f --dequantize bf16 model.safetensors out.safetensors
	[[ $status = 2 && $stderr = *"'l.0.up.weight' is quantized, and the configuration excludes 're:l[.]0' (ignore)"* ]]
	make_two '["Linear"]' '[]' '{"sparsity_config": {"format": "sparse-24-bitmask"}}'
	ckpt cast -f --dequantize bf16 model.safetensors out.safetensors
	[[ $status = 2 && $stderr = *"config.json: sparsity_config says 'sparse-24-bitmask', which ckpt does not know"* ]]
	make_two '["Linear"]' '[]' '{"transform_config": {"config_groups": {"u": {"type": "hadamard", "apply": [{"targets": ["Linear"], "location": "weight_input"}]}}}}'
	ckpt cast -f --dequantize bf16 model.safetensors out.safetensors
	[[ $status = 2 && $stderr = *"config.json: transform_config says that weights are transformed, which ckpt does not undo"* ]]
	make_two '["Linear"]' '[]' '{"sparsity_config": {"format": "dense"}, "transform_config": {"config_groups": {}}}'
	ckpt cast -f --dequantize bf16 model.safetensors out.safetensors; [ "$status" = 0 ]
}

@test "a config.json that is empty, no object, or says two things is an error" {
	make a.weight a.weight_scale_inv
	for text in '' '[]' '3' '{"quantization_config": []}' '{"quantization_config": {"quant_method": "fp8"}, "compression_config": {"quant_method": "gptq"}}'; do
		printf '%s' "$text" > config.json
		ckpt cast -f --dequantize bf16 model.safetensors out.safetensors
		[[ $status = 2 && $stderr = *"config.json: "* ]]
	done
	[[ $stderr = *"quantization_config and compression_config say different things"* ]]
	echo '{"quantization_config": null}' > config.json
	ckpt cast -f --dequantize bf16 model.safetensors out.safetensors; [ "$status" = 0 ]
	config '{"quant_method": "fp8"}'
	echo '{"quantization": {"quant_algo": "FP8"}}' > hf_quant_config.json
	ckpt cast -f --dequantize bf16 model.safetensors out.safetensors
	[[ $status = 2 && $stderr = *"hf_quant_config.json: says another format than config.json beside it"* ]]
}

@test "numbers that float16 cannot hold are counted, and --check-overflow refuses them" {
	python3 -B - <<'PY'
import json, struct
tensors = {"a.weight": ("F8_E4M3", [2, 2], b"\x7e\xfe\x38\x00"), "a.weight_scale_inv": ("F32", [1, 1], struct.pack("<f", 1000))}
header, body = {}, b""
for name, (dtype, shape, data) in tensors.items():
    header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [len(body), len(body) + len(data)]}
    body += data
text = json.dumps(header).encode()
open("model.safetensors", "wb").write(struct.pack("<Q", len(text)) + text + body)
PY
	ckpt cast --dequantize f16 --as fp8 model.safetensors out.safetensors
	[[ $status = 0 && $stderr = *"note: 2 numbers were too large for float16 and became infinite, first 448000.0 at 'a.weight'[0, 0]"* ]]
	ckpt cast --dequantize f16 --as fp8 --check-overflow model.safetensors other.safetensors
	[[ $status = 1 && $stderr = *"2 numbers are too large for float16"* && ! -e other.safetensors ]]
	ckpt cast -n --dequantize f16 --as fp8 --check-overflow model.safetensors other.safetensors
	[[ $status = 1 && $stderr = *"2 numbers are too large for float16"* ]]
	ckpt edit --dequantize f16 --as fp8 --check-overflow model.safetensors other.safetensors
	[[ $status = 1 && ! -e other.safetensors ]]
	ckpt cast --dequantize bf16 --as fp8 --check-overflow model.safetensors out2.safetensors; [ "$status" = 0 ]
}

@test "ls marks the numbers of a quantized weight, with the shape and name of the plain one" {
	make a.bias a.weight a.weight_scale_inv
	config '{"quant_method": "fp8", "weight_block_size": [128, 128]}'
	ckpt ls model.safetensors; want 0
	[[ $output = *"a.weight"*"8  is FP8 (e4m3), blocks of 128 x 128"* ]]
	[ "$(grep -c ' is ' <<< "$output")" = 1 ]
	ckpt ls --json model.safetensors; want 0
	[ "$(jq -c '[.tensors[].quantized]' <<< "$output")" = '[null,{"name":"a.weight","shape":[2,4],"scheme":"FP8 (e4m3), blocks of 128 x 128"},null]' ]
	config '{"quant_method": "gptq"}'
	ckpt ls model.safetensors; want 0
	[[ $output != *" is "* ]]
}

@test "a folder of one file becomes a folder, and a config.json that stays is noted" {
	make a.weight a.weight_scale_inv
	mkdir in; mv model.safetensors in
	config '{"quant_method": "fp8"}'; mv config.json in
	ckpt cast -n --dequantize bf16 in/ out/; want 0
	[ ! -e out ]
	ckpt cast --dequantize bf16 in/ out/; want 0
	[ "$(ls out)" = model.safetensors ]
	ckpt cast --dequantize bf16 in/ out/
	[[ $status = 2 && $stderr = *"out/model.safetensors: the output exists already"* ]]
	ckpt cast --dequantize bf16 --with-config in/ out2/; want 0
	[ "$(ls out2)" = "$(printf 'config.json\nmodel.safetensors')" ]
	ckpt cast --dequantize bf16 in/ in/
	[ "$status" = 2 ]
	ckpt cast --dequantize bf16 --as gptq in/ out3/
	[[ $status != 0 && ! -e out3 ]]
	ckpt cast -i --dequantize bf16 in/model.safetensors
	[[ $status = 0 && $stderr = *"note: in/config.json still has the quantization_config of the quantized weights, which loaders go by"* ]]
}

@test "of ModelOpt, wildcards in exclude_modules are held against the tensors" {
	python3 -B - <<'PY'
import json, struct
tensors = {"l.0.up.weight": ("F8_E4M3", [2, 2], b"\x38\x40\x38\x40"), "l.0.up.weight_scale": ("F32", [], struct.pack("<f", 2)), "l.1.up.weight": ("BF16", [2, 2], bytes(8))}
header, body = {}, b""
for name, (dtype, shape, data) in tensors.items():
    header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [len(body), len(body) + len(data)]}
    body += data
text = json.dumps(header).encode()
open("model.safetensors", "wb").write(struct.pack("<Q", len(text)) + text + body)
PY
	for fits in '[]' '["l.1*", "*.1.up", "l.?", "up", "l.0.u", "l.0.upp*"]'; do
		echo "{\"quantization\": {\"quant_algo\": \"FP8\", \"exclude_modules\": $fits}}" > hf_quant_config.json
		ckpt cast -f --dequantize bf16 model.safetensors out.safetensors; [ "$status" = 0 ]
	done
	for excludes in 'l.0*' '*.up' 'l.?.up' '*' 'l.0.up' '*0**p'; do
		echo "{\"quantization\": {\"quant_algo\": \"FP8\", \"exclude_modules\": [\"$excludes\"]}}" > hf_quant_config.json
		ckpt cast -f --dequantize bf16 model.safetensors out.safetensors
		[[ $status = 2 && $stderr = *"'l.0.up.weight' is quantized, and the configuration excludes '$excludes' (exclude_modules)"* ]]
	done
	echo '{"quantization": {"quant_algo": "MIXED_PRECISION", "quantized_layers": {"l.0.up": {"quant_algo": "FP8"}, "l.1.up": {"quant_algo": "FP8"}}}}' > hf_quant_config.json
	ckpt cast -f --dequantize bf16 model.safetensors out.safetensors
	[[ $status = 2 && $stderr = *"'l.1.up.weight' is not quantized, and the configuration says so of 'l.1.up'"* ]]
	says() { # what it says; the message, or nothing
		echo "{\"quantization\": $1}" > hf_quant_config.json
		ckpt cast -f --dequantize bf16 model.safetensors out.safetensors
		if [ -n "$2" ]; then [[ $status = 2 && $stderr = *"$2"* ]]; else [ $status = 0 ]; fi || { echo "$1: $status $stderr"; return 1; }
	}
	says '{"quant_algo": "MIXED_PRECISION", "quantized_layers": {"l.2.up": {"quant_algo": "FP8"}}}' "the configuration does not name it (quantized_layers)"
	says '{"quant_algo": "MIXED_PRECISION", "quantized_layers": {"l.0.up": {"quant_algo": "FP8", "group_size": 32}}}' "the configuration says groups of 32"
	says '{"quant_algo": "MIXED_PRECISION", "quantized_layers": {"l.0.up": {"quant_algo": "FP8"}}}' ''
	for weights in '"num_bits": 4' '"type": "int"' '"symmetric": false' '"group_size": 16'; do
		says "{\"quant_algo\": \"FP8\", \"config_groups\": {\"g\": {\"targets\": [\"Linear\"], \"weights\": {$weights}}}}" "the configuration says"
	done
	says '{"quant_algo": "FP8", "config_groups": {"g": {"targets": ["re:.*down"], "weights": {"num_bits": 8, "type": "float"}}}}' "the configuration names it nowhere (config_groups)"
	says '{"quant_algo": "FP8", "config_groups": {"g": {"targets": ["Linear"], "weights": {"num_bits": 8, "type": "float", "dynamic": false}}}}' ''
}

# FILE [KEY VALUE]...: what a file beside the weights says, JSON
says() { jq -nc "$2" > "$1"; }

# TEXT: an error says it, and nothing is written
refused() {
	ckpt cast -f --dequantize f32 model.safetensors out.safetensors
	[[ $status = 2 && $stderr = *"$1"* && ! -e out.safetensors ]] || { echo "$status: $stderr"; false; }
}

# model.safetensors: a GPTQ weight of 4 bits, zero points stored as 0
make_gptq() {
	python3 -B - <<'PY'
import json, struct
tensors = {"l.up.qweight": ("I32", [1, 8], b"\x21" * 32), "l.up.qzeros": ("I32", [1, 1], bytes(4)), "l.up.scales": ("F16", [1, 8], b"\x00\x3c" * 8)}
header, body = {}, b""
for name, (dtype, shape, data) in tensors.items():
    header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [len(body), len(body) + len(data)]}
    body += data
text = json.dumps(header).encode()
open("model.safetensors", "wb").write(struct.pack("<Q", len(text)) + text + body)
PY
}

@test "GPTQ's second form is known by checkpoint_format and by format, and others are refused by name" {
	make_gptq
	base='{quant_method: "gptq", bits: 4, group_size: 8, desc_act: false}'
	for row in '{}=[0. 1. 0. 1. 0. 1. 0. 1.]' '{format: "gptq"}=[0. 1. 0. 1. 0. 1. 0. 1.]' '{checkpoint_format: "gptq_v2"}=[1. 2. 1. 2. 1. 2. 1. 2.]' \
		'{format: "gptq_v2"}=[1. 2. 1. 2. 1. 2. 1. 2.]' '{format: "gptq_v2", checkpoint_format: "gptq_v2"}=[1. 2. 1. 2. 1. 2. 1. 2.]'; do
		says config.json "{quantization_config: ($base + ${row%%=*})}"
		ckpt cat -q --dequantize model.safetensors 'l.up.weight[0]'; want 0
		[ "$output" = "${row#*=}" ]
		says quantize_config.json "$base + ${row%%=*} | del(.quant_method)"; rm config.json
		ckpt cat -q --dequantize model.safetensors 'l.up.weight[0]'; want 0
		[ "$output" = "${row#*=}" ]
		rm quantize_config.json
	done
	for key in format checkpoint_format; do
		for form in marlin bitblas banana; do
			says config.json "{quantization_config: ($base + {$key: \"$form\"})}"
			refused "quantized by 'gptq, $form', which ckpt does not know"
		done
		says config.json "{quantization_config: ($base + {$key: 3})}"
		refused "config.json: $key is no text"
	done
	says config.json "{quantization_config: ($base + {is_marlin_format: true})}"
	refused "quantized by 'gptq, marlin', which ckpt does not know"
	says config.json "{quantization_config: ($base + {format: \"gptq_v2\", checkpoint_format: \"gptq\"})}"
	refused "config.json: checkpoint_format says 'gptq', and format 'gptq_v2'"
}

@test "a size of groups that is no integer is named" {
	make_gptq
	for size in '"8"' 8.5 '[8]' null true; do
		says config.json "{quantization_config: {quant_method: \"gptq\", bits: 4, group_size: $size}}"
		refused "config.json: group_size is no integer"
	done
}

@test "what two files of a folder both say has to be the same" {
	make_gptq
	base='{bits: 4, group_size: 8, desc_act: false, sym: false}'
	says config.json "{quantization_config: ($base + {quant_method: \"gptq\"})}"
	for row in 'sym={sym: true}' 'group_size={group_size: -1}' 'lm_head={lm_head: true}' 'format={format: "gptq_v2"}'; do
		says config.json "{quantization_config: ($base + {quant_method: \"gptq\", lm_head: false})}"
		says quantize_config.json "$base + ${row#*=}"
		refused "quantize_config.json: says another ${row%%=*} than config.json beside it"
	done
	says quantize_config.json "$base + {damp_percent: 0.1}"
	ckpt cast -f --dequantize f32 model.safetensors other.safetensors; [ "$status" = 0 ]
	says quant_config.json '{w_bit: 4, q_group_size: 8, zero_point: true, version: "GEMM"}'
	refused "quant_config.json: says another format than config.json beside it"
	rm quant_config.json
	make a.weight a.weight_scale_inv
	config '{"quant_method": "fp8"}'
	says quantize_config.json '{bits: 4, group_size: 128}'
	refused "quantize_config.json: says another format than config.json beside it"
	rm quantize_config.json
	echo '{"quantization": []}' > hf_quant_config.json
	refused "hf_quant_config.json: quantization is no JSON object"
}

@test "what only the second of two files says is held against the weights, too" {
	make_gptq
	says config.json '{quantization_config: {quant_method: "gptq", bits: 4, group_size: 8}}'
	says quantize_config.json '{bits: 4, group_size: 8, desc_act: false, sym: true}'
	refused "'l.up.qzeros' has the zero point 1, and the configuration says that there is none but 8"
	says quantize_config.json '{bits: 4, group_size: 8, rotation: "hadamard"}'
	refused "rotation says that weights are rotated"
	says quantize_config.json '{bits: 4, group_size: 8, modules_to_not_convert: 3}'
	refused "config.json and quantize_config.json: modules_to_not_convert"
	says quantize_config.json '{bits: 4, group_size: 8, modules_to_not_convert: ["l.up"]}'
	refused "'l.up.weight' is quantized, and the configuration excludes 'l.up' (modules_to_not_convert)"
}

@test "zero points that some kernels would not read have to be those that they would take" {
	make_gptq # zero points of 0, stored less 1
	says config.json '{quantization_config: {quant_method: "gptq", bits: 4, group_size: 8, sym: true}}'
	refused "'l.up.qzeros' has the zero point 1, and the configuration says that there is none but 8"
	ckpt cast -f --dequantize f32 --as gptq model.safetensors out.safetensors; [ "$status" = 0 ]; rm out.safetensors
	python3 -B - <<'PY'
data = bytearray(open("model.safetensors", "rb").read())
at = len(data) - 16 - 4
assert not any(data[at:at + 4])
data[at:at + 4] = b"\x77" * 4
open("model.safetensors", "wb").write(data)
PY
	ckpt cat -q --dequantize model.safetensors 'l.up.weight[0]'; want 0
	[ "$output" = "[-7. -6. -7. -6. -7. -6. -7. -6.]" ]
	says config.json '{quantization_config: {quant_method: "gptq", bits: 4, group_size: 8, sym: true, format: "gptq_v2"}}'
	refused "has the zero point 7, and the configuration says that there is none but 8"
}

@test "a whole weight that GPTQ's configuration names is an error in the blocks that it means" {
	make_gptq
	python3 -B - <<'PY'
import json, struct
data = open("model.safetensors", "rb").read()
n = struct.unpack("<Q", data[:8])[0]
header, body = json.loads(data[8:8 + n]), data[8 + n:]
header = {name.replace("l.up", "model.layers.0.mlp.up"): row for name, row in header.items()}
for name in ("model.layers.0.self_attn.q", "visual.blocks.0.self_attn.q", "model.q"):
    header[name + ".weight"] = {"dtype": "F16", "shape": [1, 2], "data_offsets": [len(body), len(body) + 4]}
    body += bytes(4)
text = json.dumps(header).encode()
open("model.safetensors", "wb").write(struct.pack("<Q", len(text)) + text + body)
PY
	base='{quant_method: "gptq", bits: 4, group_size: 8}'
	says config.json "{quantization_config: ($base + {modules_in_block_to_quantize: [[\"mlp.up\"]]})}"
	ckpt cast -f --dequantize f32 model.safetensors out.safetensors; [ "$status" = 0 ]; rm out.safetensors
	says config.json "{quantization_config: ($base + {modules_in_block_to_quantize: [[\"mlp.up\"], [\"self_attn.q\"]]})}"
	refused "'model.layers.0.self_attn.q.weight' is not quantized, and the configuration says so of 'model.layers.0.self_attn.q'"
	says config.json "{quantization_config: ($base + {block_name_to_quantize: \"visual.blocks\", modules_in_block_to_quantize: [[\"mlp.up\"], [\"self_attn.q\"]]})}"
	refused "'visual.blocks.0.self_attn.q.weight' is not quantized"
}

@test "what is said of the text model in a config.json of several models counts" {
	make a.weight a.weight_scale_inv
	says config.json '{text_config: {quantization_config: {quant_method: "fp8", weight_block_size: [1, 2]}}}'
	refused "'a.weight_scale_inv' is float32 [1, 1]: wanted [2, 2]"
	says config.json '{thinker_config: {text_config: {quantization_config: {quant_method: "quanto"}}}}'
	refused "quantized by 'quanto', which ckpt does not know"
	says config.json '{quantization_config: {quant_method: "fp8"}, vision_config: {quantization_config: null}, text_config: {quantization_config: {quant_method: "fp8"}}}'
	ckpt cast -f --dequantize f32 model.safetensors other.safetensors; [ "$status" = 0 ]
	says config.json '{quantization_config: {quant_method: "fp8"}, text_config: {quantization_config: {quant_method: "gptq"}}}'
	refused "the quantization_config of text_config and another one say different things"
	says config.json '{text_config: {quantization_config: "fp8"}}'
	refused "config.json: quantization_config is no JSON object"
}

@test "scales of caches are left out where a block has quantized weights, and a tensor of such a name elsewhere stays" {
	python3 -B - <<'PY'
import json, struct
one = ("F32", [1], struct.pack("<f", 2))
tensors = {"m.l.0.attn.o.weight": ("F8_E4M3", [1, 2], b"\x38\x40"), "m.l.0.attn.o.weight_scale": one, "m.l.0.attn.k_scale": one, "m.l.0.attn.k.v_scale": one,
           "m.l.0.x.q_scale": ("F32", [1, 1], one[2]), "vision.attn.k_scale": one, "q_scale": one}
header, body = {}, b""
for name, (dtype, shape, data) in tensors.items():
    header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [len(body), len(body) + len(data)]}
    body += data
text = json.dumps(header).encode()
open("model.safetensors", "wb").write(struct.pack("<Q", len(text)) + text + body)
PY
	ckpt cast -f --dequantize f32 --as modelopt model.safetensors out.safetensors; want 0
	[[ $output = "1 weight dequantized, 2 scales of activations left out, "* ]]
	ckpt ls out.safetensors; want 0
	[[ $output = *"vision.attn.k_scale"* && $output = *"m.l.0.x.q_scale"* && $output != *"attn.k.v_scale"* && $output != *"m.l.0.attn.k_scale"* ]]
	says hf_quant_config.json '{quantization: {quant_algo: "FP8", kv_cache_quant_algo: "FP8"}}'
	ckpt cast -f --dequantize f32 model.safetensors out.safetensors; [ "$status" = 0 ]
	[[ $output = "1 weight dequantized, 4 scales of activations left out, "* ]]
}

@test "what the configuration says is held against weights of every format" {
	make a.weight a.weight_scale_inv
	refused() { # what it says, beside quant_method; the message
		config "{\"quant_method\": \"fp8\", $1}"
		ckpt cast --dequantize bf16 model.safetensors out.safetensors
		[[ $status = 2 && $stderr = *"$2"* && ! -e out.safetensors ]] || { echo "$1: $status $stderr"; return 1; }
	}
	blocks='"weight_block_size": [128, 128]'
	refused "$blocks, \"ignore\": [\"a\"]" "'a.weight' is quantized, and the configuration excludes 'a' (ignore)"
	refused "$blocks, \"ignore\": [\"re:.*a\"]" "excludes 're:.*a' (ignore)"
	refused "$blocks, \"exclude_modules\": [\"*\"]" "excludes '*' (exclude_modules)"
	refused "$blocks, \"ignore\": {\"a\": 1}" "ignore is no list of names"
	refused "$blocks, \"sparsity_config\": {\"format\": \"sparse-24-bitmask\"}" "sparsity_config says 'sparse-24-bitmask'"
	refused "$blocks, \"transform_config\": {\"config_groups\": {\"R1\": {}}}" "transform_config says that weights are transformed"
	refused "$blocks, \"fmt\": 3" "fmt is no text"
	refused "$blocks, \"fmt\": [\"e4m3\"]" "fmt is no text"
	config '{"quant_method": "fp8", "fmt": "e4m3", "weight_block_size": null, "ignore": null, "sparsity_config": {"format": "dense"}, "transform_config": {"config_groups": {}}}'
	ckpt cast -q --dequantize bf16 model.safetensors out.safetensors; want 0
}

@test "codes without scales, scales without codes and neighbors that nobody knows are named" {
	config '{"quant_method": "fp8", "weight_block_size": [128, 128]}'
	refused() { # the message; tensors
		make "${@:2}"
		ckpt cast --dequantize bf16 --if-present model.safetensors out.safetensors
		[[ $status = 2 && $stderr = *"$1"* && ! -e out.safetensors ]] || { echo "${*:2}: $status $stderr"; return 1; }
	}
	refused "'c.weight' has no scales beside it" a.weight a.weight_scale_inv c.weight
	refused "'d.weight_packed' is uint8 and has no scales beside it" a.weight a.weight_scale_inv d.weight_packed
	refused "'e.weight' is bfloat16 [1, 2]: wanted float8_e4m3fn, as there are scales for it" e.weight e.weight_scale_inv
	for name in smooth_scale perm qscales hadamard_weight weight_scale_inv_2 bitmask blocks_inv weight_offset Scale SCB_2 weight_scaling multiplier b.multiplier weight_g weight.x; do
		refused "'a.$name' stands beside a quantized weight, and ckpt does not know how it changes that" a.weight a.weight_scale_inv a.$name
	done
	for name in input_quantizer._pre_quant_scale weight_quantizer._scale; do
		refused "'a.$name' stands beside a quantized weight, and ckpt does not know how it changes that" a.weight a.weight_scale_inv a.$name
	done
	for name in experts.gate_Scale experts.gate_offset experts.gate_absmax2 experts.gate.x experts.gate_zp experts.gate_sf; do
		refused "'$name' stands beside a quantized weight, and ckpt does not know how it changes that" experts.gate experts.gate_scale_inv $name
	done
	make a.weight a.weight_scale_inv a.bias a.e_score_correction_bias a.lora_scale a.scale_bias norm.scale a.weight_quantizer._amax experts.gate experts.gate_scale_inv experts.gate_bias
	ckpt cast --dequantize bf16 model.safetensors out.safetensors
	[[ $status = 0 && $output = "2 weights dequantized, "* ]]
	make a.weight a.weight_scale_inv a.input_scale a.output_scale a.k_scale
	ckpt cast -f --dequantize bf16 model.safetensors out.safetensors
	[[ $status = 0 && $output = "1 weight dequantized, 3 scales of activations left out, "* ]]
	rm out.safetensors
	for name in q.W_q q.weight._data; do
		for more in '' 'a.weight a.weight_scale_inv'; do
			refused "'$name' is of " $name $more
		done
	done
	rm config.json
	refused "'q.W_q' is of HQQ, which ckpt does not know" q.W_q
	refused "'q.weight._data' is of quanto, which ckpt does not know" q.weight._data
}

@test "an error about a part of a weight names both; groups of GPTQ in an order of their own have a limit" {
	python3 -B - <<'PY'
import json
import os
import struct

rows, cols = (1 << 20) + 128, 32
tensors = {"l.qweight": ("I32", [rows // 8, cols]), "l.qzeros": ("I32", [rows // 128, cols // 8]), "l.scales": ("F16", [rows // 128, cols]), "l.g_idx": ("I32", [rows])}
header, at = {}, 0
for name, (dtype, shape) in tensors.items():
    size = (2 if dtype == "F16" else 4) * shape[0] * (shape[1] if len(shape) > 1 else 1)
    header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [at, at + size]}
    at += size
text = json.dumps(header).encode()
with open("model.safetensors", "wb") as stream:
    stream.write(struct.pack("<Q", len(text)) + text)
    stream.truncate(8 + len(text) + at)
PY
	config '{"quant_method": "gptq", "bits": 4, "group_size": 128, "desc_act": true}'
	ckpt cast --dequantize bf16 model.safetensors out.safetensors
	[[ $status = 2 && $stderr = *"'l.weight': its 1048704 rows are of groups in an order of their own, at most 1048576 can be mixed"* ]]
	[ ! -e out.safetensors ]
}

# ---- what a plain cast and an average leave ----

@test "a cast leaves the parts of quantized weights, casts the rest, and says so" {
	make a.bias a.weight a.weight_scale_inv a.input_scale norm.scale
	config '{"quant_method": "fp8", "weight_block_size": [128, 128]}'
	ckpt cast fp16 model.safetensors out.safetensors
	[[ $status = 0 && $output = "2 tensors cast, "*", 3 of quantized weights left, "* ]]
	[[ $stderr = "ckpt: note: 3 parts of quantized weights stay as they are; --dequantize makes numbers of them" ]]
	ckpt ls out.safetensors; want 0
	[[ $output = *"a.weight "*float8_e4m3fn* && $output = *"a.weight_scale_inv"*float32* && $output = *"a.bias"*float16* && $output = *"norm.scale"*float16* ]]
	ckpt cast --dequantize f32 model.safetensors one.safetensors; [ "$status" = 0 ]
	ckpt cast --dequantize f32 out.safetensors two.safetensors; [ "$status" = 0 ]
	ckpt cat -q one.safetensors a.weight; want 0
	numbers=$output
	ckpt cat -q two.safetensors a.weight; want 0
	[ "$output" = "$numbers" ]
	ckpt convert --cast fp16 model.safetensors out.pt
	[[ $status = 0 && $output = *"3 of quantized weights left"* && $stderr = *"3 parts of quantized weights stay as they are"* ]]
	ckpt cast fp16 --all --only 'a.*' --only norm.scale model.safetensors all.safetensors; [ "$status" = 0 ]
	[[ $output = "2 tensors cast, "*", 3 of quantized weights left, "* ]]
	ckpt cast bf16 --only 'a.weight*' model.safetensors none.safetensors
	[[ $status = 1 && $stderr = *"all that could be cast is part of quantized weights"* ]]
	[ ! -e none.safetensors ]
}

@test "--as plain casts every floating tensor, and without scales float8 is an ordinary type" {
	make a.bias a.weight a.weight_scale_inv norm.scale
	config '{"quant_method": "fp8", "weight_block_size": [128, 128]}'
	ckpt cast fp16 --as plain model.safetensors out.safetensors; want 0
	[[ $output = "4 tensors cast, "* ]]
	rm config.json
	ckpt cast fp16 model.safetensors other.safetensors
	[[ $status = 0 && $output = *"2 of quantized weights left"* ]]
	make a.bias a.weight norm.scale
	ckpt cast fp16 model.safetensors plain.safetensors; want 0
	[[ $output = "3 tensors cast, "* ]]
	echo '[]' > config.json # of another program
	ckpt cast fp16 model.safetensors plain2.safetensors; want 0
	config '{"quant_method": "fp8"}'
	make a.bias norm.scale
	ckpt cast fp16 model.safetensors plain3.safetensors; want 0
}

@test "a cast fails where something says that weights are quantized, and they are not as that has it" {
	make a.weight a.weight_scale_inv b.weight
	ckpt cast bf16 model.safetensors out.safetensors
	[[ $status = 2 && $stderr = *"'b.weight' "*"no scales beside it"*"hint: "*"'--as plain'"* ]]
	config '{"quant_method": "quanto"}'
	ckpt cast bf16 model.safetensors out.safetensors
	[[ $status = 2 && $stderr = *"config.json: the weights are quantized by 'quanto', which ckpt does not know"* ]]
	ckpt cast bf16 --as gptq_v3 model.safetensors out.safetensors
	[[ $status = 64 && $stderr = *"there is no format of quantized weights 'gptq_v3'"* ]]
	echo '[]' > config.json
	make a.weight a.weight_scale_inv
	ckpt cast bf16 model.safetensors out.safetensors
	[[ $status = 2 && $stderr = *"config.json: is no JSON object"* ]]
	[ ! -e out.safetensors ]
	make b.weight
	config '{"quant_method": "fp8"}'
	ckpt cast bf16 model.safetensors out.safetensors
	[[ $status = 2 && $stderr = *"'b.weight' has no scales beside it"* ]]
	ckpt cast bf16 --as plain model.safetensors out.safetensors; want 0
}

@test "parts of quantized weights have no mean, in whichever input they are" {
	make a.bias a.weight a.weight_scale_inv norm.scale
	cp model.safetensors two.safetensors
	ckpt average model.safetensors two.safetensors out.safetensors
	[[ $status = 2 && $stderr = *"model.safetensors: 'a.weight' is a part of a quantized weight, whose parts have no mean"*"hint: 'ckpt cast --dequantize' makes plain weights first"* ]]
	make a.bias norm.scale
	ckpt average model.safetensors two.safetensors out.safetensors
	[[ $status = 2 && $stderr = *"two.safetensors: 'a.weight' is a part of a quantized weight"* ]]
	[ ! -e out.safetensors ]
	make a.bias a.weight a.weight_scale_inv norm.scale
	ckpt average --only a.bias --only norm.scale model.safetensors two.safetensors out.safetensors; want 0
	ckpt average --as plain model.safetensors two.safetensors out2.safetensors; want 0
	make a.bias a.weight
	cp model.safetensors two.safetensors
	ckpt average model.safetensors two.safetensors out3.safetensors; want 0
}

@test "codes of the last input are no part of a mean, where all parts are integers, too" {
	python3 - <<'PY'
import json, struct
def write(path, tensors):
    header, data = {}, b""
    for name, (dtype, shape, part) in tensors.items():
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [len(data), len(data) + len(part)]}
        data += part
    text = json.dumps(header).encode()
    open(path, "wb").write(struct.pack("<Q", len(text)) + text + data)
for path, code in (("one.safetensors", 0x11), ("two.safetensors", 0x22)):
    write(path, {"e.gate_up_proj_blocks": ("U8", [1, 2, 1, 16], bytes([code] * 32)), "e.gate_up_proj_scales": ("U8", [1, 2, 1], bytes([127, 127])),
                 "e.gate_up_proj_bias": ("F32", [1, 2], struct.pack("<2f", 1, code))})
PY
	ckpt average --others last one.safetensors two.safetensors out.safetensors
	[[ $status = 2 && $stderr = *"'e.gate_up_proj_blocks' is a part of a quantized weight, whose parts have no mean"* ]]
	[ ! -e out.safetensors ]
	ckpt average --others last --only '*_bias' one.safetensors two.safetensors out.safetensors; want 0
}

#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# What it finds is held against real torch in tests/interop/why.py, and messages of other packages in tests/bad/test_why.py.
load common.bash

@test "alone: what can go wrong, and the line that mends it" {
	ckpt why ddp_model.pt; want 0
	[[ ${lines[0]} = "possible: 'module.' is in the names of the weights: "*"DistributedDataParallel"* ]]
	[ "${lines[1]}" = "  found:     'module.' on 14 of 14 keys" ]
	[ "${lines[2]}" = "  mend:      ckpt strip-module ddp_model.pt ddp_model-mended.pt" ]
	[ ${#lines[@]} = 3 ]
	PATH=$(dirname "$CKPT"):$PATH bash -c "${lines[2]#*mend:}"
	ckpt why ddp_model-mended.pt; want 1 "hint: 'ckpt verify ddp_model-mended.pt' reads the bytes, too; --error TEXT explains what was printed"
	[[ $output = "nothing in ddp_model-mended.pt keeps it from loading: "* ]]
	ckpt why -q ddp_model-mended.pt; want 1
	[ -z "$output" ]
	input_is_untouched
}

@test "each wrapper is told by its own name, and what mends it does" {
	"$CKPT" ls "$ddp/expected/ddp_model.pt" >plain.txt
	while read -r prefix who; do
		rm -f wrapped-mended.pt
		"$CKPT" add-prefix -f -q "$prefix" "$ddp/expected/ddp_model.pt" wrapped.pt
		ckpt why wrapped.pt; want 0
		[[ ${lines[0]} = "possible: '$prefix' is in the names of the weights: the model was saved from inside of $who, and "* ]]
		[ "${lines[1]}" = "  found:     '$prefix' on 14 of 14 keys" ]
		PATH=$(dirname "$CKPT"):$PATH bash -c "${output#*mend:}" </dev/null
		"$CKPT" ls wrapped-mended.pt | cmp - plain.txt
		ckpt why wrapped.pt --error "Missing key(s) in state_dict: \"stem.0.weight\". Unexpected key(s) in state_dict: \"${prefix}stem.0.weight\"."
		want 0
		[ "${lines[0]}" = "cause: the names in the file have '$prefix', which the model's have not: it was saved from inside of $who" ]
	done <<-'END'
	module. DistributedDataParallel or DataParallel
	_orig_mod. torch.compile
	_forward_module. Lightning's Fabric or its strategies
	_fsdp_wrapped_module. FSDP
	_checkpoint_wrapped_module. activation checkpointing
	END
}

@test "a message from the command line, from a file, from a pipe" {
	message='Missing key(s) in state_dict: "head.bias". 	Unexpected key(s) in state_dict: "module.head.bias".'
	ckpt why ddp_model.pt --error "$message"; want 0
	[[ ${lines[0]} = "cause: the names in the file have 'module.', "* ]]
	one=$output
	printf '%s\n' "$message" >error.txt
	ckpt why ddp_model.pt --error @error.txt; want 0
	[ "$output" = "$one" ]
	ckpt why ddp_model.pt -e - <error.txt; want 0
	[ "$output" = "$one" ]
	ckpt why --error "$message"; want 0
	[[ ${lines[0]} = "likely: "* && $output != *ddp_model* ]]
	ckpt why --error @nothing.txt
	want 2 "ckpt: nothing.txt: cannot read the error: No such file or directory"
}

@test "a message that is not known is said to be none" {
	ckpt why --error 'it hurts'; want 1
	[ "$output" = "the message is none that is known" ]
	ckpt why ddp_model.pt --error 'it hurts'
	want 0 "ckpt: the message is none that is known; this is what the file shows:"
	[[ $output = "possible: "* ]]
}

@test "shapes and devices of the message are looked up in the file" {
	ckpt why ddp_model.pt --error 'size mismatch for module.head.bias: copying a param with shape torch.Size([10]) from checkpoint, the shape in current model is torch.Size([7]).'
	want 0
	[[ $output = *"'module.head.bias' was saved as [10], the model has [7]; so it is in this file"* ]]
	ckpt why ddp_model.pt --error 'size mismatch for module.head.bias: copying a param with shape torch.Size([9]) from checkpoint, the shape in current model is torch.Size([7]).'
	[[ $output = *"in this file it is [10]"* ]]
	"$CKPT" remap -q --all cuda:2 ddp_model.pt gpu.pt
	ckpt why gpu.pt --error 'Attempting to deserialize object on CUDA device 2 but torch.cuda.device_count() is 1.'; want 0
	[[ ${lines[0]} = "cause: its tensors were saved on 'cuda:2', and this machine has 1 such device" ]]
	[[ $output = *"ckpt remap 'cuda:*=cuda:0' gpu.pt gpu-mended.pt"* ]]
}

@test "directories, files inside of archives, and what is not there" {
	"$CKPT" split -q --ranks 2 ddp_model.pt dcp
	ckpt why dcp/; want 0
	[[ $output = *"mend:      ckpt merge dcp/ dcp.pt"* ]]
	mv dcp/.metadata dcp/.metadata.tmp
	ckpt why dcp; want 0
	[[ $output = *"mend:      ckpt reindex dcp dcp-mended"* ]]
	python3 -c "import zipfile; zipfile.ZipFile('all.zip', 'w').write('ddp_model.pt', 'x/m.pt')"
	ckpt why all.zip::x/m.pt; want 0
	[[ $output = *"ckpt strip-module all.zip::x/m.pt m-mended.pt"* ]]
	ckpt why nothing.pt
	want 2 "ckpt: nothing.pt: cannot open: No such file or directory"
	ckpt why nothing.pt --error "FileNotFoundError: [Errno 2] No such file or directory: 'nothing.pt'"; want 0
	[[ $output = "likely: the file is not where the program looks"* ]]
	: >secret.pt; chmod 000 secret.pt
	if [ "$(id -u)" != 0 ]; then
		ckpt why secret.pt; want 0
		[[ $output = "cause: the file is there, and you are not allowed to read it"* ]]
	fi
}

@test "what makes a file large is told apart from causes, with what leaves it out" {
	PYTHONPATH=$CKPT_SOURCE_DIR/tests/bad python3 -B - <<-'END'
	from files import *
	body = b"}(" + text("a") + tensor(key="0", shape=(1,), offset=1) + text("b") + tensor(key="0", shape=(1,), offset=3) + b"u"
	open("views.pt", "wb").write(torch_file(pickled(body)))
	END
	ckpt why views.pt
	[ "$status" = 1 ]
	[[ $output = "large: 8 bytes of the "*" are bytes that no tensor shows: torch.save writes the whole storage"*"
  found:     2 of 2 tensors show a part of a storage; most of it is behind 'a'
  mend:      ckpt compact views.pt views-mended.pt
"*"

nothing in views.pt keeps it from loading"* ]]
	ckpt why --json views.pt
	[ "$status" = 1 ]
	python3 - "$output" <<-'END'
	import json, sys
	d = json.loads(sys.argv[1])
	assert d["causes"] == [] and d["count"] == 0 and list(d)[-1] == "large", d
	one, = d["large"]
	assert (one["id"], one["certainty"]) == ("large_views", "large"), one
	END
	ckpt why ddp_trainer.pt; want 0
	[[ $output = "possible: "*"

large: 7.3K of the 23K are the state of an optimizer, which only training needs
  found:     it is 'optimizer'
  mend:      ckpt select --drop optimizer ddp_trainer.pt ddp_trainer-mended-2.pt" ]]
	ckpt why ddp_trainer.pt --error 'why is it twice as large as the model?'
	[[ $output = *"large: 7.3K of the 23K"* && $stderr = "ckpt: the message is none that is known; "* ]]
	# no two mends write the same file
	[ "$(printf '%s\n' "${lines[@]}" | grep -c 'ddp_trainer-mended\.pt')" = 1 ]
	# a known message has its own causes alone
	ckpt why ddp_trainer.pt --error "KeyError: 'state_dict'"
	[[ $output != *"large: "* ]]
	ckpt select -i -q --drop optimizer ddp_trainer.pt; want 0
	ckpt why ddp_trainer.pt; want 0
	[[ $output = *"large: "*" are dead bytes, which edits in place left"*"
  mend:      ckpt compact ddp_trainer.pt ddp_trainer-mended-2.pt" ]]
	# half of the model more is not much
	ckpt why ddp_model.pt; want 0
	[[ $output != *"large: "* ]]
	ckpt why ddp_model.pt ddp_trainer.pt; want 0
	[[ $output != *"large: "* ]]
}

@test "JSON" {
	ckpt why --json ddp_model.pt; want 0
	python3 - "$output" <<-'END'
	import json, sys
	document = json.loads(sys.argv[1])
	assert document["command"] == "why" and document["count"] == 1 and document["opened"] is True, document
	cause, = document["causes"]
	assert (cause["id"], cause["certainty"]) == ("prefix", "possible"), cause
	assert cause["mends"][0] == {"kind": "command", "text": "ckpt strip-module ddp_model.pt ddp_model-mended.pt"}, cause
	END
	ckpt why --json=out.json ddp_model.pt; want 0
	[ -z "$output" ] && [ -s out.json ]
	ckpt why --json=lost.json nothing.pt
	want 2 "ckpt: nothing.pt: cannot open: No such file or directory"
	[ ! -e lost.json ]
}

@test "wrong usage" {
	ckpt why
	[ "$status" = 64 ]
	[[ $stderr = "ckpt: why: wanted IN, --error TEXT, or both"* ]]
	ckpt why --jobs none a b
	[ "$status" = 64 ]
}

@test "a full disk under the output is an error" {
	[ -w /dev/full ] || skip "there is no /dev/full"
	run --separate-stderr bash -c "'$CKPT' why ddp_model.pt >/dev/full"
	[ "$status" = 2 ]
	[[ $stderr = "ckpt: cannot write to standard output: "* ]]
}

@test "an index whose files are all missing, and texts that are no server's answer" {
	ckpt convert ddp_model.pt set --shard-size 2KB; want 0
	mkdir alone && cp set/*.index.json alone
	ckpt verify alone/model.safetensors.index.json; want 1
	[[ $output = *"2 of 2 files are missing"*DAMAGED* ]]
	for what in alone/model.safetensors.index.json alone; do
		ckpt why $what; want 0
		[[ $output = "cause: files of the set of shards are missing or damaged"*"2 of 2 files are missing"* ]]
	done
	echo '{"architectures": ["Net"], "hidden_size": 8}' >config.json
	echo 'notes on the model' >notes.pt
	for what in config.json notes.pt; do
		ckpt why $what; want 0
		[[ $output = "cause: it is a text, and not the file with the weights"* ]]
	done
	printf '{"error":"Repository not found"}' >a.pt
	printf '{"message":"Bad credentials","status":"401"}' >b.pt
	printf 'Entry not found' >c.pt
	printf 'Access to model x is restricted. You must be authenticated, please log in.' >d.pt
	for what in a.pt b.pt c.pt d.pt; do
		ckpt why $what; want 0
		[[ $output = "cause: it is what a server answered"* ]]
	done
}

@test "what is advised for a program or a package works" {
	PYTHONPATH=$CKPT_SOURCE_DIR/tests/bad python3 -B - <<-'END'
	from modules import *
	from files import *
	open("net.jit", "wb").write(torch_script(pickled(NET), NET_CODE, pickled(tensor("0") + b"\x85"), [("constants/0", b"c" * 16)]))
	script = b"(" + text("reduce_package") + number(1) + glob("torch.jit._script", "unpackage_script_module") + text("0") + b"\x85tQ"
	pair = b"}(" + text("w") + tensor() + text("net") + script + b"u"
	def package(name, body):
	    open(name, "wb").write(archive([(".data/0.storage", FOUR_FLOATS), ("m/model.pkl", b"\x80\x03" + body + b"."),
	                                    (".data/extern_modules", b"torch\n"), (".data/version", b"6\n")]))
	package("plain.package", b"}" + text("w") + tensor() + b"s")
	package("script.package", script)
	package("both.package", pair)
	END
	for file in net.jit plain.package script.package both.package; do
		ckpt why $file; want 0
		[[ $output = *"TorchScript"* || $output = *"torch.package"* ]]
		while read -r mend; do
			run bash -c "${mend/#ckpt /'$CKPT' }"
			[ "$status" = 0 ] || { echo "$file: $mend: $output" >&2; false; }
			made=yes
		done < <(sed -n 's/^ *mend: *//p' <<<"$output")
	done
	[ "$made" = yes ]
	ckpt why script.package
	[[ $output != *"mend:"* && $output = *"it holds no tensors"* ]]
}

@test "of a set of shards nothing is said of an index that it has not" {
	"$CKPT" convert -q ddp_model.pt hub --shard-size 2KB
	rm hub/model-00002-of-*
	ckpt why hub; want 0
	[[ ${lines[0]} = "cause: files of the set of shards are missing or damaged: "* ]]
	[ "${lines[2]}" = "  advice:    download or copy the missing files again" ]
	[[ $output != *.metadata* && $output != *"ckpt latest"* ]]
	"$CKPT" split -q -r 2 ddp_trainer.pt dcp
	rm dcp/__1_0.distcp
	ckpt why dcp; want 0
	[[ $output = *"'.metadata' too"* ]]
}

@test "of a directory there is no torch.load" {
	"$CKPT" split -q -r 2 ddp_trainer.pt dcp
	ckpt why dcp; want 0
	[[ $output != *"torch.load("* ]]
	for error in "Missing key(s) in state_dict: \"head.bias\". Unexpected key(s) in state_dict: \"module.head.bias\"." \
		"AttributeError: 'dict' object has no attribute 'eval'" \
		"RuntimeError: Attempting to deserialize object on a CUDA device but torch.cuda.is_available() is False."; do
		ckpt why dcp --error "$error"; want 0
		[[ $output != *"torch.load("* && $output = *"  mend:      ckpt "* ]]
	done
	"$CKPT" split -q -r 1 ddp_trainer.pt one
	ckpt why one; want 0
	[[ $output = *", 1 data file
"* ]]
}

@test "of a file that runs code, no line is given that loads it" {
	python3 - <<-'END'
		import zipfile
		with zipfile.ZipFile("ddp_trainer.pt") as old, zipfile.ZipFile("evil.pt", "w") as new:
		    for info in old.infolist():
		        data = old.read(info)
		        if info.filename.endswith("data.pkl"):
		            assert data[:2] == b"\x80\x02"
		            data = data[:2] + b"cposix\nsystem\n(X\x02\0\0\0lstR0" + data[2:]
		        new.writestr(info.filename, data)
	END
	ckpt why evil.pt
	[ "$status" = 0 ]
	[[ $output = "cause: whoever loads it runs what it says"* ]]
	[[ $output != *"in Python:"* && $output != *torch.load\(* ]]
}

@test "quantized weights: which tensor is a part of what, what is missing, and the line that mends it" {
	python3 - <<-'END'
	import json, os, struct
	def save(folder, tensors, config):
	    header, at = {}, 0
	    for name, (dtype, shape, data) in tensors.items():
	        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [at, at + len(data)]}
	        at += len(data)
	    text = json.dumps(header).encode()
	    os.mkdir(folder)
	    with open(folder + "/model.safetensors", "wb") as f:
	        f.write(struct.pack("<Q", len(text)) + text + b"".join(data for _, _, data in tensors.values()))
	    if config:
	        with open(folder + "/config.json", "w") as f:
	            json.dump({"quantization_config": {"quant_method": "fp8", "weight_block_size": [2, 2]}}, f)
	up, scale = ("F8_E4M3", [2, 2], bytes(4)), ("F32", [1, 1], struct.pack("<f", 2))
	save("fp8", {"model.up.weight": up, "model.up.weight_scale_inv": scale}, True)
	save("lost", {"model.up.weight": up}, True)
	END
	ckpt why fp8/model.safetensors --error "ValueError: There is no module or parameter named 'up.weight_scale_inv' in Net"; want 0
	[ "${lines[0]}" = "cause: the program and the checkpoint do not agree which weights are quantized, or how: the one has parts of weights that the other has not" ]
	[ "${lines[1]}" = "  found:     'up.weight_scale_inv' is in the file: the scales of 'up.weight'" ]
	[ "${lines[2]}" = "  found:     1 weight is quantized, as fp8 has it: 'model.up.weight' is FP8 (e4m3), blocks of 2 x 2, in 2 tensors" ]
	[ "${lines[3]}" = "  mend:      ckpt cast --dequantize bf16 fp8/model.safetensors fp8/model-mended.safetensors" ]
	PATH=$(dirname "$CKPT"):$PATH bash -c "${lines[3]#*mend:}"
	[ "$("$CKPT" ls fp8/model-mended.safetensors | grep -c bfloat16)" = 1 ]
	ckpt why lost/model.safetensors --error "RuntimeError: \"mul_cuda\" not implemented for 'Float8_e4m3fn'"; want 0
	[ "${lines[0]}" = "cause: the parts of a quantized weight do not fit together: one is missing, left over, or of another shape or dtype" ]
	[ "${lines[1]}" = "  found:     'model.up.weight' has no scales beside it" ]
	ckpt why fp8/model.safetensors; want 0
	[[ $output = *"possible: its weights are quantized: a loader that does not know of it takes the numbers without their scales"* ]]
}

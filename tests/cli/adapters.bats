#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# bats file_tags=shards
# A LoRA adapter as PEFT saves it: nothing takes it for the shards of a checkpoint.
load common.bash

@test "merge of several models says what does that" {
	for options in "" -f "--only model"; do
		ckpt merge $options ddp_model.pt ddp_trainer.pt out.pt
		[[ $status = 2 && $stderr = "ckpt: merge: ddp_model.pt: merge puts the shards of one checkpoint together, not several models"*"ckpt average A B OUT"*PEFT* ]] || { echo "$options: $stderr"; false; }
	done
	want_files
}

@test "merge says that it adds no adapter to its base, and what does" {
	mkdir lora
	echo '{"peft_type": "LORA", "r": 2}' >lora/adapter_config.json
	"$CKPT" convert -q ddp_model.pt lora/adapter_model.safetensors --strip-module --rename 's/\.weight$/.lora_A.weight/'
	hint="hint: in Python, PEFT does: PeftModel.from_pretrained(base, 'DIR').merge_and_unload()"
	why="this is an adapter (LoRA), which merge does not add to its base
$hint"
	ckpt merge lora out.pt; want 2 "ckpt: lora: $why"
	ckpt merge lora/ out.pt; want 2 "ckpt: lora/: $why"
	ckpt merge ddp_model.pt lora out.pt; want 2 "ckpt: lora: $why"
	ckpt merge lora/adapter_model.safetensors out.safetensors; want 2 "ckpt: lora/adapter_model.safetensors: $why"
	cd lora && ckpt merge adapter_model.safetensors ../out.pt && cd ..
	want 2 "ckpt: adapter_model.safetensors: $why"
	want_files lora
	ckpt convert lora out.pt; want 0 "" # another format of it is all right
}

@test "shards with that file beside them, and other files of that name, are merged" {
	"$CKPT" split -q --ranks 2 ddp_model.pt dcp
	echo '{}' >dcp/adapter_config.json
	ckpt merge dcp a.pt; want 0 ""
	"$CKPT" convert -q --shard-size 2KB --strip-module ddp_model.pt set
	echo '{}' >set/adapter_config.json
	ckpt merge set b.pt; want 0 ""
	cp -r dcp adapter_model.dcp
	ckpt merge adapter_model.dcp c.pt; want 0 ""
}

@test "why knows an adapter by its names, and merge a file that is whole" {
	"$CKPT" rename -q ddp_model.pt lora.pt -e 's/\.(weight|bias)$/.lora_A.\1/' -e 's/running_(mean|var)$/lora_B.\1/' -e 's/num_batches_tracked/lora_B.n/'
	ckpt why lora.pt; want 0
	[[ $output = *"these are the weights of an adapter (LoRA)"*"14 of 14 keys"*"merge_and_unload()"* ]]
	ckpt why ddp_model.pt; want 0
	[[ $output != *adapter* ]]
	ckpt info lora.pt
	[[ $output = *$'\n'"adapter     by its names (LoRA): "*"merge_and_unload()"* ]]
	ckpt info ddp_model.pt
	[[ $output != *adapter* ]]
	ckpt merge lora.pt out.pt
	want 2 "ckpt: lora.pt: this is an adapter (LoRA), which merge does not add to its base
hint: in Python, PEFT does: PeftModel.from_pretrained(base, 'DIR').merge_and_unload()"
	ckpt merge ddp_model.pt out.pt; want 0 "ckpt: note: ddp_model.pt is one file, and there was nothing to merge"
	ckpt merge -q -f ddp_model.pt out.pt; want 0
}

@test "an adapter that was given to a model is the cause, whatever the message lists, and no rename mends it" {
	mkdir lora
	"$CKPT" edit -q ddp_model.pt lora/adapter_model.bin --strip-module --rename 's/^/base_model.model./' --rename 's/\.([a-z_]+)$/.lora_A.\1/'
	names=$("$CKPT" ls lora/adapter_model.bin | sed -n 's/^\(base_model[^ ]*\) .*/"\1"/p' | paste -sd, | sed 's/,/, /g')
	unexpected="Unexpected key(s) in state_dict: $names."
	missing='Missing key(s) in state_dict: "embed.weight", "layers.0.q.weight", "layers.0.k.weight", "lm_head.weight".'
	for text in "$missing $unexpected" "$unexpected" "$missing" "KeyError: 'embed.weight'" "size mismatch for embed.weight: copying a param with shape torch.Size([8, 3]) from checkpoint, the shape in current model is torch.Size([9, 3])."; do
		ckpt why lora/adapter_model.bin --error "$text"; want 0
		[[ $output = "cause: these are the weights of an adapter (LoRA)"* ]] || { echo "$text: $output"; false; }
		[[ $output != *rename* && $output != *select* ]] || { echo "$text: $output"; false; }
	done
	ckpt why --error "$missing $unexpected"; want 0
	[[ $output = "likely: these are the weights of an adapter (LoRA)"* && $output != *rename* ]]
	# what loads the adapter, and lacks another name of it, is another matter
	ckpt why lora/adapter_model.bin --error "${names/#/Missing key(s) in state_dict: }"
	[[ $output != "cause: these are the weights of an adapter"* ]]
	"$CKPT" convert -q lora/adapter_model.bin lora/adapter_model.safetensors
	ckpt why lora/adapter_model.safetensors; want 0
	[[ ${lines[0]} = "cause: it is a safetensors file: torch.load reads pickles" && $output != *"let it end"* ]]
}

@test "names that are all different are another model, not as many renames" {
	ckpt why --error 'Missing key(s) in state_dict: "embed.weight", "mixer.weight", "head.weight". Unexpected key(s) in state_dict: "a.b.weight", "c.d.weight", "e.f.weight".'
	want 0
	[[ $output = "likely: the names in the file and those of the model have no rule"* && $output != *"ckpt rename -e 's/^"* ]]
}

@test "the file of one rank of ZeRO-3 is a part of a directory, whose weights merge makes" {
	mkdir -p run/step
	python3 - <<-'END'
		import struct, zipfile
		# {"module": {"w": a tensor of no numbers}, "param_shapes": [{"w": (3, 4)}]}
		def text(s): return b"X" + struct.pack("<I", len(s)) + s.encode()
		storage = b"(" + text("storage") + b"ctorch\nFloatStorage\n" + text("0") + text("cpu") + b"K\0tQ"
		tensor = b"ctorch._utils\n_rebuild_tensor_v2\n(" + storage + b"K\0K\0\x85K\1\x85\x89ccollections\nOrderedDict\n)RtR"
		root = (b"\x80\x02}" + text("module") + b"}" + text("w") + tensor + b"s" + b"s" +
		        text("param_shapes") + b"]}" + text("w") + b"K\3K\4\x86sas.")
		with zipfile.ZipFile("run/step/zero_pp_rank_0_mp_rank_00_model_states.pt", "w") as z:
		    z.writestr("a/data.pkl", root)
		    z.writestr("a/version", b"3\n")
		    z.writestr("a/data/0", b"")
	END
	file=run/step/zero_pp_rank_0_mp_rank_00_model_states.pt
	"$CKPT" ls $file
	for error in "" "--error KeyError" "--error Missing_key(s)"; do
		ckpt why $file ${error:+"${error%% *}" "${error#* }"}
		[ "$status" = 0 ]
		[[ $output = "cause: it is the file of one rank of a DeepSpeed ZeRO-3 directory"*"mend:      ckpt merge run/step run/step.pt"* ]]
		[[ $output != *extract* ]]
	done
	ckpt why $file --error 'size mismatch for w: copying a param with shape torch.Size([0]) from checkpoint, the shape in current model is torch.Size([3, 4]). Missing key(s) in state_dict: "w". Unexpected key(s) in state_dict: "module".'
	[[ $output = "cause: it is the file of one rank of a DeepSpeed ZeRO-3 directory"* && $output != *extract* ]]
	ckpt merge $file out.pt
	want 2 "ckpt: $file: this is the file of one rank of a DeepSpeed ZeRO-3 directory: the weights in it are empty
hint: ckpt merge run/step OUT"
	ckpt info $file; want 0
	[[ $output = *$'\n'"part        of a DeepSpeed ZeRO-3 directory: "* ]]
	[ ! -e out.pt ]
}

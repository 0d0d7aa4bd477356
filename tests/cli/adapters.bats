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

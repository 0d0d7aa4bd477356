#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# bats file_tags=edits
# What is said where OUT is not yet what a plain model loads. Real torch judges the lines in tests/tasks/wrappers.py.
load common.bash

for_plain="hint: for a plain model: ckpt"
under="ckpt: note: the model is still under 'model', beside other things"

# paste: run the line of the last hint, and it says no more
paste() {
	local line=${stderr##*"hint: for a plain model: ckpt "}
	[ "$line" != "$stderr" ]
	eval "run --separate-stderr \"\$CKPT\" $line"
	[ "$status" = 0 ] && [ -z "$stderr" ]
}

lightning() { # light.ckpt: 'model.' in front of the keys of 'state_dict'
	python3 - <<-END
	import zipfile
	with zipfile.ZipFile("ddp_trainer.pt") as z, zipfile.ZipFile("light.ckpt", "w") as out:
	    for name in z.namelist():
	        data = z.read(name)
	        if name.endswith("data.pkl"):
	            data = data.replace(b"X\x05\x00\x00\x00model", b"X\x0a\x00\x00\x00state_dict")
	        out.writestr(name, data)
	END
	"$CKPT" rename -q -i -e 's/^module\./model./' light.ckpt
}

@test "a strip of a trainer's file says that the model is a part of it" {
	ckpt strip-module ddp_trainer.pt a.pt
	want 0 "$under
$for_plain edit ddp_trainer.pt a.pt -f --extract model --strip-prefix module."
	paste
	"$CKPT" ls "$ddp/expected/ddp_model.pt" | cmp - <("$CKPT" ls a.pt)
	ckpt strip-module -n ddp_trainer.pt b.pt
	want 0 "$under
$for_plain edit ddp_trainer.pt b.pt --extract model --strip-prefix module."
	ckpt strip-prefix module. --profile 1.13 ddp_trainer.pt 'b c.pt'
	want 0 "$under
$for_plain edit ddp_trainer.pt 'b c.pt' --profile 1.13 -f --extract model --strip-prefix module."
	paste
	ckpt strip-module -i ddp_trainer.pt
	want 0 "$under
$for_plain edit -i ddp_trainer.pt --extract model"
	paste
	"$CKPT" ls ddp_trainer.pt | cmp - <("$CKPT" ls a.pt)
}

@test "who wants no word gets none" {
	ckpt strip-module -q ddp_trainer.pt a.pt; want 0 ""
	ckpt strip-module --at model ddp_trainer.pt b.pt; want 0 ""
	ckpt strip-module ddp_model.pt c.pt; want 0 ""
	ckpt edit ddp_trainer.pt d.pt --extract model --strip-module; want 0 ""
	ckpt convert ddp_trainer.pt e.safetensors --strip-module; want 0 ""
	ckpt select --drop optimizer ddp_trainer.pt f.pt; want 0 ""
	ckpt extract optimizer ddp_trainer.pt g.pt; want 0 ""
	ckpt convert --profile 1.13 ddp_trainer.pt h.pt; want 0 ""
	ckpt convert c.pt i.pt; want 0 ""
	ckpt split --ranks 2 ddp_trainer.pt dcp; want 0 ""
	ckpt strip-module dcp dcp2; want 0 ""
	cp ddp_trainer.pt second.pt
	ckpt strip-module -i ddp_trainer.pt second.pt; want 0 ""
}

@test "a strip that leaves a wrapper names one command for both" {
	"$CKPT" rename -q --at model -e 's/^module\.stem/module._orig_mod.stem/' ddp_trainer.pt mixed.pt
	ckpt strip-module mixed.pt a.pt
	want 0 "ckpt: note: 6 of 14 keys begin with '_orig_mod.' still; the model is still under 'model', beside other things
$for_plain edit mixed.pt a.pt -f --extract model --strip-wrappers"
	paste
	"$CKPT" ls "$ddp/expected/ddp_model.pt" | cmp - <("$CKPT" ls a.pt)
}

@test "an extract that leaves a prefix names one command for both" {
	ckpt extract model ddp_trainer.pt a.pt
	want 0 "ckpt: note: 14 of 14 keys begin with 'module.'
$for_plain edit ddp_trainer.pt a.pt -f --extract model --strip-prefix module."
	paste
	"$CKPT" ls "$ddp/expected/ddp_model.pt" | cmp - <("$CKPT" ls a.pt)
}

@test "a name that is guessed gets the line with the right one" {
	for name in state_dict module net.model model_state_dict; do
		ckpt extract $name ddp_trainer.pt a.pt
		want 2 "ckpt: ddp_trainer.pt: nothing is named '$name'
$for_plain edit ddp_trainer.pt a.pt --extract model --strip-prefix module."
	done
	paste
	ckpt edit ddp_trainer.pt b.pt --extract state_dict --strip-prefix=model. --cast bf16
	want 2 "ckpt: ddp_trainer.pt: nothing is named 'state_dict'
$for_plain edit --cast bf16 ddp_trainer.pt b.pt --extract model --strip-prefix module."
	paste
	rm b.pt
	ckpt edit ddp_trainer.pt b.pt --extract state_dict --set epoch=0
	want 2 "ckpt: ddp_trainer.pt: nothing is named 'state_dict'
hint: there is 'model'; 'ckpt info' lists the rest"
	ckpt extract state_dict ddp_model.pt b.pt
	want 2 "ckpt: ddp_model.pt: nothing is named 'state_dict'
$for_plain edit ddp_model.pt b.pt --strip-prefix module."
	ckpt extract optimiser ddp_trainer.pt b.pt
	want 2 "ckpt: ddp_trainer.pt: nothing is named 'optimiser'
hint: did you mean 'optimizer'?"
	ckpt strip-prefix model. ddp_trainer.pt b.pt
	want 1 "ckpt: ddp_trainer.pt: no key begins with 'model.', nothing was written
hint: --if-present writes OUT unchanged instead, with exit code 0
$for_plain edit ddp_trainer.pt b.pt --extract model --strip-prefix module."
	ckpt strip-prefix nope. ddp_trainer.pt b.pt
	want 1 "ckpt: ddp_trainer.pt: no key begins with 'nope.', nothing was written
hint: --if-present writes OUT unchanged instead, with exit code 0"
}

@test "a conversion says what keys still carry, and repeats what was typed" {
	ckpt convert ddp_trainer.pt a.safetensors
	want 0 "ckpt: note: 14 of 14 keys begin with 'module.'
$for_plain convert ddp_trainer.pt a.safetensors -f --strip-prefix module."
	paste
	ckpt convert --shard-size=1GB --cast bf16 ddp_trainer.pt set
	want 0 "ckpt: note: 14 of 14 keys begin with 'module.'
$for_plain convert --shard-size=1GB --cast bf16 ddp_trainer.pt set -f --strip-prefix module."
	paste
	ckpt convert ddp_trainer.pt b.pt
	want 0 "ckpt: note: 14 of 14 keys begin with 'module.'; the model is still under 'model', beside other things
$for_plain convert ddp_trainer.pt b.pt -f --extract model --strip-prefix module."
	paste
	ckpt edit ddp_trainer.pt c.pt --strip-module --drop 'optim*' --cast bf16
	want 0 "$under
$for_plain edit --strip-module --drop 'optim*' --cast bf16 ddp_trainer.pt c.pt -f --extract model"
	paste
	ckpt convert --strip-prefix model. ddp_trainer.pt d.pt
	want 1 "ckpt: ddp_trainer.pt: no key begins with 'model.', nothing was written
hint: --if-present writes OUT unchanged instead, with exit code 0
$for_plain convert ddp_trainer.pt d.pt --extract model --strip-prefix module."
	paste
	"$CKPT" ls "$ddp/expected/ddp_model.pt" | cmp - <("$CKPT" ls d.pt)
}

@test "a file of Lightning: the attribute that holds the model" {
	lightning
	ckpt strip-module light.ckpt a.pt
	want 1 "ckpt: light.ckpt: no key begins with 'module.', nothing was written
hint: --if-present writes OUT unchanged instead, with exit code 0
$for_plain edit light.ckpt a.pt --extract state_dict --strip-prefix model."
	ckpt extract model light.ckpt a.pt
	want 2 "ckpt: light.ckpt: nothing is named 'model'
$for_plain edit light.ckpt a.pt --extract state_dict --strip-prefix model."
	ckpt strip-prefix model. light.ckpt a.pt
	want 0 "ckpt: note: the model is still under 'state_dict', beside other things
$for_plain edit light.ckpt a.pt -f --extract state_dict --strip-prefix model."
	ckpt extract state_dict light.ckpt b.pt
	want 0 "ckpt: note: keys begin with 'model.'
$for_plain edit light.ckpt b.pt -f --extract state_dict --strip-prefix model."
	ckpt convert light.ckpt c.safetensors
	want 0 "ckpt: note: keys begin with 'model.'
$for_plain convert light.ckpt c.safetensors -f --extract state_dict --strip-prefix model."
	paste
	"$CKPT" ls "$ddp/expected/ddp_model.pt" | cut -d' ' -f1 | sort | cmp - <("$CKPT" ls c.safetensors | cut -d' ' -f1 | sort)
	ckpt extract state_dict light.ckpt d.pt
	paste
	"$CKPT" ls "$ddp/expected/ddp_model.pt" | cmp - <("$CKPT" ls d.pt)
}

@test "pipes keep their names in the line" {
	ckpt strip-module - a.pt <ddp_trainer.pt
	want 0 "$under
$for_plain edit - a.pt -f --extract model --strip-prefix module."
	"$CKPT" strip-module ddp_trainer.pt - 2>said | cat >b.pt
	cmp <(printf '%s\n' "$under" "$for_plain edit ddp_trainer.pt - --extract model --strip-prefix module.") <(tail -2 said)
}

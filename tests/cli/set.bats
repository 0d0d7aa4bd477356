#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# bats file_tags=edits
# edit --set and --set-json. What torch writes after d["epoch"] = 0 is compared in tests/interop/edits.py.
load common.bash

json_hint='hint: --set-json NAME=JSON gives it another type: 3, 0.5, "text", true, false, null'

shown() { "$CKPT" cat "$1" "$2"; }

@test "numbers, texts, booleans and None are set, and keep their type" {
	ckpt edit ddp_trainer.pt out.pt --set epoch=0 --set best_loss=1 --set args.arch=3 --set args.amp=true --set args.resume=None --if-present; want 0
	[[ $output = "epoch: 3 is now 0
best_loss: 2.246339797973633 is now 1.0
args.arch: 'net' is now '3'
args.amp: False is now True
4 values replaced, nothing to change, "*" written in "* ]]
	[ "$(shown out.pt epoch) $(shown out.pt best_loss) $(shown out.pt args)" = "0 1.0 {'lr': 0.001, 'batch_size': 4, 'arch': '3', 'amp': True, 'resume': None}" ]
	ckpt edit out.pt b.pt --set best_loss=-inf --set 'args.arch=a = b' --set epoch=-9223372036854775808; want 0
	[ "$(shown b.pt best_loss) $(shown b.pt args.arch) $(shown b.pt epoch)" = "-inf 'a = b' -9223372036854775808" ]
	ckpt edit -f b.pt out.pt --set '["args"]["arch"]=' --set optimizer.param_groups.0.lr=1e-5; want 0
	[ "$(shown out.pt args.arch) $(shown out.pt optimizer.param_groups.0.lr)" = "'' 1e-05" ]
	"$CKPT" ls ddp_trainer.pt >was
	"$CKPT" ls out.pt | cmp - was
	input_is_untouched
}

@test "JSON says another type" {
	ckpt edit ddp_trainer.pt out.pt --set-json epoch=0.5 --set-json 'best_loss=null' --set-json 'args.resume="a\u00e4"' --set-json args.amp=7 --set-json args.arch=true; want 0
	[ "$(shown out.pt epoch) $(shown out.pt best_loss) $(shown out.pt args.resume) $(shown out.pt args.amp) $(shown out.pt args.arch)" = "0.5 None 'aä' 7 True" ]
	ckpt edit -f ddp_trainer.pt out.pt --set-json epoch=True
	want 64 "ckpt: 'True' is no number, text, true, false or null in JSON"
	for json in '[1]' '{}' '' '1 2' '"' 1e999 99999999999999999999 NaN; do
		ckpt edit -f ddp_trainer.pt no.pt --set-json "epoch=$json"; [ "$status" = 64 ]
		[ ! -e no.pt ]
	done
}

@test "a value of a tuple, a list and an attribute" {
	ckpt edit ddp_trainer.pt out.pt --set optimizer.param_groups.0.betas.0=0.8 --set scheduler.base_lrs.0=2; want 0
	[ "$(shown out.pt optimizer.param_groups.0.betas) $(shown out.pt scheduler.base_lrs)" = "(0.8, 0.999) [2.0]" ]
	PYTHONPATH=$CKPT_SOURCE_DIR/tests/bad python3 -B - <<-'END'
	import argparse, pickle
	from files import *
	both = (1, 2)
	d = {"n": 1}
	text = "the same text"
	obj = {"a": both, "b": both, "own": tuple([1, 2]), "args": argparse.Namespace(lr=0.1), "d": d, "e": d, "s": {3}, "t": text, "u": text, "a=b": 1, "x": [{"y.z": 1}], "c": complex(1, 2)}
	open("plain.pt", "wb").write(torch_file(pickle.dumps(obj, 2)))
	open("root.pt", "wb").write(torch_file(pickle.dumps(5, 2)))
	END
	ckpt edit plain.pt out2.pt --set own.1=7 --set args.lr=1 --set d.n=9 --set t=other --set '["a=b"]=2' --set x.0.y.z=3; want 0
	[ "$(shown out2.pt '')" = "{'a': (1, 2), 'b': (1, 2), 'own': (1, 7), 'args': Namespace({'lr': 1.0}), 'd': {'n': 9}, 'e': {'n': 9}, 's': set([3]), 't': 'other', 'u': 'the same text', 'a=b': 2, 'x': [{'y.z': 3}], 'c': complex(1.0, 2.0)}" ]
	ckpt edit plain.pt no.pt --set a.0=7; want 2 "ckpt: plain.pt: 'a.0' is in a tuple that stands in several places"
	ckpt edit plain.pt no.pt --set c.0=7; want 2 "ckpt: plain.pt: 'c.0' is part of how an object is made, or of a set"
	ckpt edit root.pt out3.pt --set =6; want 0
	[ "$(shown out3.pt '')" = 6 ]
	[ ! -e no.pt ]
}

@test "every format, in place as well" {
	"$CKPT" convert -q --to torch-legacy ddp_trainer.pt legacy.pt
	"$CKPT" split -q --ranks 2 ddp_trainer.pt dcp
	for in in ddp_trainer.pt legacy.pt dcp; do
		before=$(shown $in epoch)
		ckpt edit -n $in out-$in --set epoch=12; want 0
		[ ! -e out-$in ]
		ckpt edit $in out-$in --set epoch=12; want 0
		[ "$(shown $in epoch) $(shown out-$in epoch)" = "$before 12" ]
	done
	input_is_untouched
	cp ddp_trainer.pt mine.pt
	for in in mine.pt legacy.pt dcp; do
		ckpt edit -i $in --set epoch=12 --set-json args.resume=1; want 0
		[ "$(shown $in epoch) $(shown $in args.resume)" = "12 1" ]
		[ $in = legacy.pt ] || "$CKPT" verify -q $in
	done
	"$CKPT" diff --quick dcp out-dcp | grep -q resume
	ckpt edit -i mine.pt --set epoch=12
	want 1 "ckpt: mine.pt: 'epoch' has that value already, nothing was written
hint: --if-present makes the exit code 0"
	"$CKPT" convert -q --drop-others --at model ddp_trainer.pt a.safetensors
	ckpt edit a.safetensors b.safetensors --set epoch=1
	want 2 "ckpt: a.safetensors: nothing is named 'epoch'
hint: a safetensors file holds nothing but tensors"
	ckpt convert ddp_trainer.pt c.pt --set epoch=4; want 0
	[ "$(shown c.pt epoch)" = 4 ]
}

@test "what cannot be set is refused" {
	# OPTION, exit code and what is said
	while IFS='|' read -r option code said; do
		ckpt edit ddp_trainer.pt out.pt --set "$option"
		want "$code" "$(printf "ckpt: $said")"
	done <<-end
		epoch=x|64|'epoch' is an int, and 'x' is none\n$json_hint
		epoch=|64|'epoch' is an int, and '' is none\n$json_hint
		epoch=1.0|64|'epoch' is an int, and '1.0' is none\n$json_hint
		epoch=9223372036854775808|64|'epoch' is an int, and '9223372036854775808' is too large for 64 bits\n$json_hint
		best_loss=0x10|64|'best_loss' is a float, and '0x10' is no number\n$json_hint
		best_loss= 1|64|'best_loss' is a float, and ' 1' is no number\n$json_hint
		args.amp=1|64|'args.amp' is a bool, and '1' is neither True nor False\n$json_hint
		args.resume=x|64|'args.resume' is None, and 'x' is of another type\n$json_hint
		optimizer=1|2|ddp_trainer.pt: 'optimizer' is a dict, and only a number, a text, True, False or None can be set
		optimizer.state.0.step=1|2|ddp_trainer.pt: 'optimizer.state.0.step' is a tensor, and only a number, a text, True, False or None can be set
		epcoh=1|2|ddp_trainer.pt: nothing is named 'epcoh'\nhint: did you mean 'epoch'?
		lr=1|2|ddp_trainer.pt: nothing is named 'lr'\nhint: did you mean 'optimizer.param_groups.0.lr'?
		zzzzzzzz=1|2|ddp_trainer.pt: nothing is named 'zzzzzzzz'\nhint: --set sets what is there; 'ckpt info' lists it, 'ckpt cat IN NAME' prints it
	end
	ckpt edit ddp_trainer.pt out.pt --set $'args.arch=\xff'; [ "$status" = 64 ]
	ckpt edit ddp_trainer.pt out.pt --set epoch
	want 64 "ckpt: edit: --set epoch: wanted NAME=VALUE
usage: ckpt edit [OPTIONS] IN OUT
hint: 'ckpt edit --help' shows the options"
	want_files
}

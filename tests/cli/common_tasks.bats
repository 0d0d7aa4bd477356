#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# bats file_tags=usage
# Every line of "Common tasks" in 'ckpt help' does what it says, as it stands there, with names of files for IN, OUT and so on.
load common.bash

# task BEGINNING: the commands of the one line that begins so, without 'ckpt', into $commands
task() {
	local line
	line=$("$CKPT" help | sed -n '/^Common tasks:/,/^$/p' | grep "^  $1") || return 1
	[ "$(wc -l <<<"$line")" = 1 ]
	line=${line:36}
	[[ $line = "ckpt "* ]] || return 1
	commands=$line
	echo "$1" >>"$BATS_TEST_TMPDIR/tried"
}

# do_task BEGINNING SED: run each of its commands, with SED for the names
do_task() {
	task "$1"
	while read -r one; do
		eval "run --separate-stderr \"\$CKPT\" ${one#ckpt }"
		echo "$one: $status $stderr"
		[ "$status" = 0 ] && [ -z "$stderr" ] || return 1
	done < <(sed -e "s/; ckpt /\nckpt /g" <<<"$commands" | sed -E "$2")
}

@test "every common task goes at the first try" {
	plain=$ddp/expected/ddp_model.pt
	do_task "DDP trainer" 's/IN OUT/ddp_trainer.pt plain.pt/'
	"$CKPT" ls plain.pt | cmp - <("$CKPT" ls "$plain")
	python3 - <<-END
	import zipfile
	with zipfile.ZipFile("ddp_trainer.pt") as z, zipfile.ZipFile("a.ckpt", "w") as out:
	    for name in z.namelist():
	        out.writestr(name, z.read(name).replace(b"X\x05\x00\x00\x00model", b"X\x0a\x00\x00\x00state_dict"))
	END
	"$CKPT" rename -q -i -e 's/^module\./model./' a.ckpt
	do_task "Lightning" 's/IN OUT/a.ckpt light.pt/'
	"$CKPT" ls light.pt | cmp - <("$CKPT" ls "$plain")
	"$CKPT" remap -q --all cuda:3 ddp_trainer.pt cuda.pt
	do_task "To the CPU" 's/IN OUT/cuda.pt cpu.pt/'
	do_task "For the hub" 's/IN DIR/plain.pt hub/'
	[ -e hub/model.safetensors ]
	do_task "From the hub" 's/DIR OUT/hub back.pt/'
	"$CKPT" ls back.pt | grep -q '^module\.'
	do_task "Count parameters" 's/IN/ddp_trainer.pt/'
	do_task "Largest norms" 's/IN/ddp_model.pt/'
	do_task "Is anything NaN" 's/IN/ddp_model.pt/'
	"$CKPT" edit -q ddp_trainer.pt later.pt --set epoch=9
	"$CKPT" cast -q bf16 ddp_trainer.pt trained.pt
	do_task "The mean" 's/A B OUT/ddp_trainer.pt later.pt mean.pt/'
	"$CKPT" diff -q ddp_trainer.pt mean.pt --at model
	task "What training"
	ckpt ${commands#ckpt } # of files A and B that are not there
	[ "$status" = 2 ]
	eval "run \"\$CKPT\" $(sed 's/A B/ddp_trainer.pt trained.pt/; s/^ckpt //' <<<"$commands")"
	[ "$status" = 1 ] # they differ
	head -c 15000 ddp_trainer.pt >half.pt
	task "Is a download"
	eval "run \"\$CKPT\" $(sed 's/;.*//; s/IN/half.pt/; s/^ckpt //' <<<"$commands")"
	[ "$status" = 1 ] # no
	eval "run \"\$CKPT\" $(sed 's/.*; ckpt //; s/IN OUT/half.pt saved.pt/' <<<"$commands")"
	"$CKPT" verify saved.pt
	do_task "Which files" 's/IN\.\.\./ddp_model.pt plain.pt/'
	cp ddp_trainer.pt 1.pt && cp ddp_trainer.pt 2.pt
	do_task "Drop the optimizer" 's/IN\.\.\./1.pt 2.pt/'
	[[ $("$CKPT" ls 1.pt) != *optimizer* ]]
	printf 'module.head.bias head.bias\n' >list
	do_task "Rename keys" 's/LIST IN OUT/list ddp_model.pt renamed.pt/'
	do_task "Print a slice" 's/IN .NAME/ddp_trainer.pt '"'model.module.head.bias"'/; s/IN/ddp_trainer.pt/'
	"$CKPT" cat ddp_trainer.pt epoch | grep -qx 0
	do_task "Why so large" 's/IN/later.pt/'
	[[ $output = *"large:"* ]]
	"$CKPT" help | sed -n '/^Common tasks:/,/^$/p' | grep -c '^  ' | grep -qx "$(wc -l <"$BATS_TEST_TMPDIR/tried")"
}

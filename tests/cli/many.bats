# SPDX-License-Identifier: Apache-2.0
# Many files and folders in one command.
load common

# run/: two files, a DCP directory and a shard set, and two files that are no checkpoints
make_run() {
	mkdir run
	cp ddp_model.pt run/a.pt
	cp ddp_trainer.pt run/b.pt
	"$CKPT" split -q --ranks 2 ddp_trainer.pt run/dcp
	echo '{}' >run/config.json
	echo text >run/README
}

# lines of $output without times
lines() { printf '%s\n' "$output" | sed -E 's/ in [0-9.]+ s/ in T/'; }

@test "-i takes files and folders, each is a line, and then a total" {
	make_run
	ckpt strip-module -i run ddp_model.pt; want 0
	[ "$(lines)" = "run/a.pt: 14 keys renamed in the state dict, 3.1K written in T
run/b.pt: 14 keys renamed in 'model', 7.1K written in T
run/dcp: 14 keys renamed in 'model', 19K written in T
ddp_model.pt: 14 keys renamed in the state dict, 3.1K written in T
4 inputs: 4 edited; 32K written; 2 other files skipped (-v)" ]
	"$CKPT" strip-module "$ddp/ddp_trainer.pt" one.pt
	"$CKPT" diff one.pt run/b.pt
	"$CKPT" merge run/dcp two.pt
	"$CKPT" diff one.pt two.pt
}

@test "one file says what it always said" {
	ckpt strip-module -i ddp_model.pt; want 0
	[ "$(lines)" = "14 keys renamed in the state dict, 3.1K written in T" ]
	mkdir one; cp ddp_trainer.pt one
	ckpt strip-module -i one; want 0
	[ "$(lines)" = "one/ddp_trainer.pt: 14 keys renamed in 'model', 7.1K written in T
1 input: 1 edited; 7.1K written" ]
}

@test "a failure names the file, and the others go on; 1 comes before 2" {
	head -c 2000 ddp_model.pt >cut.pt
	cp ddp_trainer.pt c.pt
	ckpt strip-module -i none.pt cut.pt c.pt
	[ "$status" = 2 ]
	[[ $stderr = "ckpt: none.pt: cannot open: No such file or directory
ckpt: cut.pt: "* ]]
	[ "$(lines)" = "c.pt: 14 keys renamed in 'model', 7.1K written in T
3 inputs: 1 edited, 2 failed; 7.1K written" ]
	ckpt strip-module -i none.pt ddp_model.pt c.pt
	[ "$status" = 1 ]
	[[ $stderr = *"ckpt: c.pt: no key begins with 'module.', nothing was written"* ]]
	[[ $output = *"3 inputs: 1 edited, 1 unchanged, 1 failed; 3.1K written" ]]
	ckpt strip-module -i --if-present ddp_model.pt c.pt; want 0
	[ "$output" = "ddp_model.pt: nothing to change, nothing was written
c.pt: nothing to change, nothing was written
2 inputs: 2 unchanged" ]
}

@test "a file is edited once, whatever its names are" {
	ln ddp_model.pt hard.pt; ln -s ddp_model.pt soft.pt
	make_run
	ckpt add-prefix -f x. -i ddp_model.pt hard.pt soft.pt ./ddp_model.pt run/dcp run/dcp/__0_0.distcp run/dcp; want 0
	[ "$(lines)" = "ddp_model.pt: 14 keys renamed in the state dict, 3.3K written in T
hard.pt: is the same as ddp_model.pt, which is taken once
soft.pt: is the same as ddp_model.pt, which is taken once
./ddp_model.pt: is the same as ddp_model.pt, which is taken once
run/dcp: 14 keys renamed in 'model', 19K written in T
run/dcp/__0_0.distcp: is a part of run/dcp, which is taken once
run/dcp: is the same as run/dcp, which is taken once
2 inputs: 2 edited; 23K written" ]
	[ "$("$CKPT" ls ddp_model.pt | grep -c '^x\.module')" = 14 ]
	# and links of both kinds are refused without -f, as ever
	ckpt strip-prefix x. -i ddp_model.pt soft.pt
	[[ $status = 2 && $stderr = "ckpt: ddp_model.pt: "* ]]
}

@test "--jobs changes nothing but the time" {
	mkdir many; for i in 1 2 3 4 5 6 7 8 9; do cp ddp_trainer.pt "many/$i.pt"; done
	cp -r many same; head -c 3000 ddp_model.pt >many/4.pt; head -c 3000 ddp_model.pt >same/4.pt
	ckpt cast bf16 -i many; one=$(lines | sed s/many/same/); code=$status; errors=${stderr//many/same}
	ckpt cast bf16 -i -j 4 same
	[ "$(lines)" = "$one" ]; [ "$status" = "$code" ]; [ "$stderr" = "$errors" ]
	for i in 1 9; do cmp "many/$i.pt" "same/$i.pt"; done
	ckpt cast bf16 -i --jobs 0 same
	[[ $status = 64 && $stderr = "ckpt: cast: --jobs 0: wanted a number from 1 to 64"* ]]
	ckpt cast bf16 --jobs 2 ddp_model.pt out.pt
	[[ $status = 64 && $stderr = "ckpt: cast: --jobs is for --in-place"* ]]
}

@test "an OUT behind -i is still told from a second file" {
	ckpt strip-module -i ddp_model.pt out.pt
	[[ $status = 64 && $stderr = "ckpt: strip-module: with --in-place there is no OUT"* ]]
	ckpt extract -i model ddp_trainer.pt out.pt
	[[ $status = 64 && $stderr = "ckpt: extract: with --in-place there is no OUT"* ]]
	input_is_untouched; want_files
}

@test "maps come first, -- ends them" {
	cp ddp_model.pt a=b.pt; cp ddp_model.pt c.pt
	ckpt remap -i cpu=cuda:0 ddp_model.pt c.pt; want 0
	[[ $output = *"2 inputs: 2 edited; "* ]]
	ckpt remap -i cuda:0=cuda:1 cpu=cuda:2 -- ddp_model.pt a=b.pt c.pt; want 0
	[[ $output = *"3 inputs: 3 edited; "* ]]
	"$CKPT" ls a=b.pt | grep -q cuda:2
	ckpt remap -i --all cpu -- a=b.pt c.pt; want 0
	ckpt remap -i cpu=cuda:0 a=b.pt c.pt
	[[ $status = 64 && $stderr = "ckpt: remap: 'a=b.pt': a map or a file? '--' ends the maps"* ]]
	ckpt remap -i cpu=cuda:0 c.pt cpu=cuda:1 a=b.pt
	[[ $status = 64 && $stderr = "ckpt: remap: 'cpu=cuda:1': a map or a file? '--' ends the maps"* ]]
	ckpt remap -i cpu=cuda:0 --; [ "$status" = 64 ]
	ckpt remap -- cpu=cuda:0 c.pt out.pt; want 0
}

@test "what is wrong for all files is said for one" {
	ckpt cast bf61 -i ddp_model.pt ddp_trainer.pt
	[ "$status" = 64 ]
	[ "$(grep -c 'no cast' <<<"$stderr")" = 1 ]
	input_is_untouched
}

@test "-n writes nothing, and says so of all" {
	ckpt strip-module -n -i ddp_model.pt ddp_trainer.pt; want 0
	[[ $output = *"2 inputs: 2 would be edited; 10K would be written (dry run)" ]]
	ckpt strip-module -q -n -i ddp_model.pt ddp_trainer.pt; want 0; [ -z "$output" ]
	input_is_untouched
}

@test "names are escaped, and files that are no checkpoints are named with -v" {
	mkdir odd; cp ddp_model.pt $'odd/new\nline.pt'; echo '{}' >odd/x.json; ln -s nowhere odd/lost.pt
	ckpt strip-module -v -i odd
	[ "$(lines)" = 'odd/new\nline.pt: 14 keys renamed in the state dict, 3.1K written in T
odd/x.json: is no checkpoint, skipped
2 inputs: 1 edited, 1 failed; 3.1K written; 1 other file skipped' ]
	[ "$stderr" = "ckpt: odd/lost.pt: cannot open: No such file or directory" ]
	ckpt strip-module -i $'odd/new\nline.pt' ddp_model.pt
	[[ $stderr = 'ckpt: odd/new\nline.pt: no key begins with '* ]]
	ckpt strip-module -i odd/x.json ddp_trainer.pt
	[[ $status = 2 && $stderr = "ckpt: odd/x.json: is JSON text"* ]]
}

@test "a folder without checkpoints is an error, and so is one that cannot be read" {
	mkdir empty; echo text >empty/README
	ckpt strip-module -i empty; want 2 "ckpt: empty: is a directory, but no sharded checkpoint: it has no .metadata"
	ckpt strip-module -i ddp_model.pt empty
	[[ $status = 2 && $stderr = "ckpt: empty: is a directory, but no sharded checkpoint"* ]]
	[ "$(id -u)" != 0 ] || skip "root reads every folder"
	make_run; mkdir run/shut; chmod 0 run/shut
	ckpt strip-module -i run
	[[ $status = 2 && $stderr = "ckpt: run/shut: cannot read the directory: Permission denied" ]]
	[[ $output = *"4 inputs: 3 edited, 1 failed"* ]]
}

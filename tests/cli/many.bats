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
	# a link before its file does not take its place
	mkdir linked; cp ddp_trainer.pt linked/x.pt; ln -s x.pt linked/best.pt
	ckpt strip-module -i linked; want 0
	[ "$(lines)" = "linked/best.pt: is the same as linked/x.pt, which is taken once
linked/x.pt: 14 keys renamed in 'model', 7.1K written in T
1 input: 1 edited; 7.1K written" ]
	# and links of both kinds are refused without -f, as ever
	ckpt strip-prefix x. -i ddp_model.pt soft.pt
	[[ $status = 2 && $stderr = "ckpt: ddp_model.pt: "* ]]
}

@test "a folder in a shard set is none of its parts" {
	"$CKPT" convert -q --to safetensors --shard-size 2KB ddp_model.pt hub
	mkdir hub/step; cp ddp_model.pt hub/step/a.pt; mkdir top; mv hub top
	ckpt strip-module -i top
	[[ $status = 2 && $stderr = "ckpt: top/hub: is made of several files"* ]]
	[ "$(lines)" = "top/hub/step/a.pt: 14 keys renamed in the state dict, 3.1K written in T
2 inputs: 1 edited, 1 failed; 3.1K written" ]
}

@test "a name of more than an error has room for is told once, and whole" {
	name=$(printf 'd%.0s' $(seq 200))
	mkdir -p "top/$name/$name"; head -c 100 ddp_model.pt >"top/$name/$name/x.pt"
	ckpt info top/
	[[ $status = 2 && $stderr = "ckpt: top/$name/$name/x.pt: is "* ]]
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
	ckpt extract -j 2 model ddp_trainer.pt out.pt
	[[ $status = 64 && $stderr = "ckpt: extract: --jobs is for --in-place, which takes many files"* ]]
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
	ckpt remap -i cpu=cuda:0 --; [ "$status" = 64 ]; ckpt remap -i; [ "$status" = 64 ]
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

@test "commands that read print one line for each, and a total" {
	make_run
	ckpt ls run ddp_model.pt; want 0
	[ "$output" = "run/a.pt: 14 tensors, 948 elements, 3.8K in 14 storages
run/b.pt: 38 tensors, 2,784 elements, 11K in 38 storages
run/dcp: 38 tensors, 2,784 elements, 11K in 38 storages
ddp_model.pt: 14 tensors, 948 elements, 3.8K in 14 storages
4 inputs: 4 listed; 104 tensors, 7,464 elements, 30K; 2 other files skipped (-v)" ]
	ckpt info run -j 3; want 0
	[ "$output" = "run/a.pt: torch zip, 14 tensors, 948 elements, 3.8K in 14 storages
run/b.pt: torch zip, 38 tensors, 2,784 elements, 11K in 38 storages
run/dcp: DCP directory, 38 tensors, 2,784 elements, 11K in 38 storages
3 inputs: 3 read; 90 tensors, 6,516 elements, 26K; 2 other files skipped (-v)" ]
	ckpt info -a run/a.pt run/b.pt; want 0
	[[ $output = *"run/b.pt: format      torch zip"* ]]
	ckpt stat --check-finite run; want 0
	[ "$output" = "run/a.pt: all values are finite
run/b.pt: all values are finite
run/dcp: all values are finite
3 inputs: 3 finite; 2 other files skipped (-v)" ]
	ckpt why run/b.pt ddp_model.pt; want 0
	[ "$(grep -c "^run/b.pt: possible: 'module.' is in" <<<"$output")" = 1 ]
	[[ $output = *"2 inputs: 2 explained" ]]
	cp -r run copy; printf 'x' | dd of=copy/b.pt bs=1 seek=2000 conv=notrunc 2>/dev/null
	ckpt verify copy run/a.pt
	[ "$status" = 1 ]
	[[ $output = *"4 inputs: 3 sound, 1 damaged; 2 other files skipped (-v)" ]]
	[[ $output = *"copy/b.pt: DAMAGED, 1 finding;"* ]]
}

@test "an operand is a pattern with -m, or where no file has that name" {
	cp ddp_model.pt b.pt
	ckpt ls ddp_model.pt '*.head.bias'; want 0
	[ "$output" = "module.head.bias  float32  [10]  cpu      40
1 tensor, 10 elements, 40 in 1 storage" ]
	ckpt ls -m '*.head.bias' ddp_model.pt; want 0
	[ "$output" = "module.head.bias  float32  [10]  cpu      40
1 tensor, 10 elements, 40 in 1 storage" ]
	ckpt ls ddp_model.pt '*.head.bias' b.pt; want 0
	[ "$output" = "ddp_model.pt: module.head.bias  float32  [10]  cpu      40
ddp_model.pt: 1 tensor, 10 elements, 40 in 1 storage
b.pt: module.head.bias  float32  [10]  cpu      40
b.pt: 1 tensor, 10 elements, 40 in 1 storage
2 inputs: 2 listed; 2 tensors, 20 elements, 80 bytes" ]
	ckpt ls ddp_model.pt lost.pt
	want 1 "ckpt: ddp_model.pt: no tensor matches
hint: there is no file 'lost.pt', so it was taken as a PATTERN"
	ckpt ls -m '*bias' ddp_model.pt lost.pt
	[[ $status = 2 && $stderr = "ckpt: lost.pt: cannot open: No such file or directory" ]]
	# the doubtful case
	mkdir model; cp ddp_model.pt model/x.pt
	ckpt ls ddp_trainer.pt model
	want 0 "ckpt: note: 'model' is a file here and a name in the checkpoint, and taken as the file; -m takes it as a pattern"
	[[ $output = *"model/x.pt: 14 tensors"* ]]
	ckpt ls -m model ddp_trainer.pt; want 0
	[[ $output = *"14 tensors, "* ]]
	# of stat only with --check-finite
	ckpt stat ddp_trainer.pt model; want 0
	[[ $output = *"model.module.head.bias"* ]]
	ckpt stat --check-finite -m '*bias' ddp_trainer.pt model; want 0
	[[ $output = *"2 inputs: 2 finite" ]]
	ckpt stat -m '*bias' ddp_trainer.pt ddp_model.pt
	[[ $status = 64 && $stderr = "ckpt: stat: several files need --check-finite"* ]]
}

@test "--json is one document, whatever happens" {
	make_run; head -c 3000 ddp_trainer.pt >cut.pt
	for command in ls info why "stat --check-finite" verify; do
		"$CKPT" $command --json=out.json -j 3 cut.pt run ./lost.pt 2>/dev/null || true
		python3 - "$command" <<-'END'
		import json, sys
		d = json.load(open("out.json"))
		name = sys.argv[1].split()[0]
		assert d["ckpt_json"] == 1 and d["command"] == name, d
		inputs = d["inputs"]
		paths = [x["input"]["path"] for x in inputs]
		assert paths[:4] == ["cut.pt", "run/a.pt", "run/b.pt", "run/dcp"], paths
		if name in ("info", "why", "verify"):
		    assert paths[4:] == ["./lost.pt"] and "No such file" in inputs[4]["error"], inputs[4]
		    assert d["skipped"] == 2 and d["count"] == 5 and sum(d["exit_codes"].values()) == 5, d
		if name != "verify" and name in ("info", "why"):
		    assert inputs[1]["document"]["command"] == name and inputs[1]["exit"] == 0, inputs[1]
		END
		rm out.json
	done
	# one input has the shape that it always had
	[ "$("$CKPT" ls --json ddp_model.pt | head -c 39)" = '{"ckpt_json":1,"command":"ls","tensors"' ]
	[ "$("$CKPT" verify --json ddp_model.pt | head -c 41)" = '{"ckpt_json":1,"command":"verify","inputs' ]
}

@test "a document of private files is private" {
	mkdir run; cp ddp_model.pt run/a.pt; cp ddp_model.pt run/b.pt; chmod 600 run/b.pt
	"$CKPT" info --json=out.json run
	[ "$(stat -c %a out.json)" = 600 ]
}

@test "a signal says which were finished, and ends all" {
	mkdir many; for i in $(seq 100 399); do cp ddp_trainer.pt "many/$i.pt"; done
	"$CKPT" strip-module -i -j 2 many 2>errors >lines &
	pid=$!
	for i in $(seq 500); do grep -q '^many/105' lines && break; sleep 0.01; done
	kill -TERM $pid; code=0; wait $pid || code=$?
	[ "$code" = 143 ]
	grep -E "^ckpt: interrupted: [0-9]+ of 300 inputs were finished, those before 'many/[0-9]+.pt'" errors
	[ "$(grep -c inputs: lines)" = 0 ]
	finished=$(sed -nE 's/.*interrupted: ([0-9]+) of.*/\1/p' errors)
	[ "$finished" = "$(grep -c '14 keys renamed' lines)" ]
	next=$(sed -nE "s/.*those before '(.*)'/\1/p" errors)
	"$CKPT" verify -q many
	[ "$("$CKPT" ls -m model.head.bias -j 4 many 2>/dev/null | grep -c 'float32 ')" = "$finished" ]
	ckpt ls "$next" model.head.bias; [ "$status" = 1 ]
}

@test "reindex -i takes many directories, and passes over files" {
	make_run
	cp -r run/dcp run/second
	ckpt reindex -i run; want 0
	[[ $output = "run/dcp: 69 keys and "*"run/second: 69 keys and "*"2 inputs: 2 done; 4 other files skipped (-v)" ]] || { echo "$output"; false; }
	"$CKPT" verify -q run/dcp
	ckpt reindex -i run/dcp ddp_model.pt; [ "$status" = 2 ]
}

@test "dead bytes of many files are added up" {
	mkdir run && cp ddp_trainer.pt run/1.pt && cp ddp_trainer.pt run/2.pt && cp ddp_model.pt run/3.pt
	ckpt info run; want 0 ""
	[[ $output != *dead* ]]
	ckpt select -in --drop optimizer run/1.pt run/2.pt; want 0 ""
	[[ ${lines[2]} =~ ^"2 inputs: 2 would be edited; 7."[0-9]"K would be written (dry run); "[0-9.]+"K would be dead bytes then"$ ]]
	ckpt select -i --drop optimizer run/1.pt run/2.pt; want 0 ""
	[[ ${lines[2]} =~ ^"2 inputs: 2 edited; 7."[0-9]"K written; "([0-9.]+)"K are dead bytes now (--free gives them back)"$ ]]
	local dead=${BASH_REMATCH[1]}
	ckpt info run; want 0 ""
	[ "$(grep -c 'K of dead bytes$' <<<"$output")" = 2 ]
	[[ ${lines[3]} = "3 inputs: 3 read; "*"; ${dead}K are dead bytes ('ckpt compact -i --free --if-present' gives them back)" ]]
	ckpt compact -i --free --if-present run; want 0 ""
	[[ ${lines[3]} = "3 inputs: 2 edited, 1 unchanged; "*"K given back to the disk" ]]
	ckpt info run; want 0 ""
	[[ $output != *dead* ]]
}

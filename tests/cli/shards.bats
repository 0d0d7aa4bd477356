# SPDX-License-Identifier: Apache-2.0
# Hugging Face shard sets, as a user meets them. What is in the files is judged in tests/interop, what is wrong with them in tests/bad.
load common

@test "a checkpoint becomes a set, and a set one file again" {
	ckpt convert ddp_trainer.pt set --shard-size 1KB; want 0
	[[ $output = "'model', 24 tensors beside it left behind, 3 files, "*" written in "* ]]
	[ "$(ls -A set | wc -l)" = 4 ]
	[ -e set/model-00003-of-00003.safetensors ]
	ckpt ls set; want 0
	[[ $output = *"14 tensors, 948 elements, 3.8K in 14 storages" ]]
	ckpt convert set one.pt; want 0
	ckpt diff set one.pt; want 0
	ckpt convert set one.safetensors; want 0
	ckpt diff one.safetensors set; want 0
	ckpt info set; want 0
	[[ $output = *"Hugging Face shard set, as safetensors writes it"* ]]
}

@test "edits keep a set what it is, and pickles pickles" {
	ckpt convert ddp_model.pt set --shard-size 1KB --to torch; want 0
	files=$(ls set)
	ckpt strip-module set bare; want 0
	[ "$(ls bare)" = "$files" ]
	ckpt ls bare
	[[ $output != *module.* ]]
	ckpt cast bf16 set half; want 0
	[ "$(ls half | wc -l)" -lt "$(wc -l <<< "$files")" ] # as many bytes in each as before
	ckpt strip-module -i set
	want 2 "ckpt: set: is made of several files, none of which could take its place: name an output"
	ckpt convert set other --shard-size 100MB; want 0
	[ "$(ls other)" = model.safetensors ]
	ckpt convert other/ third/ --shard-size 1TB --to torch; want 0
	[ "$(ls third)" = pytorch_model.bin ]
	ckpt diff third set; want 0
}

@test "sizes are decimal, as the hub library reads them" {
	for size in 5GB 0.000001GB 1kb 1K 1000 1000B; do
		ckpt convert -n ddp_model.pt set --shard-size $size; want 0
	done
	for size in 0 0GB -1GB x 1e3 5GiB 1X '' .5GB 1ZB; do
		ckpt convert ddp_model.pt set --shard-size "$size"
		want 64 "ckpt: convert: --shard-size $size: wanted a size such as 5GB
usage: ckpt convert [OPTIONS] IN OUT
hint: 'ckpt convert --help' shows the options"
	done
	ckpt convert ddp_model.pt set --shard-size "2 kB"
	[[ $status = 64 && ${stderr%%$'\n'*} = "ckpt: convert: --shard-size 2 kB: wanted a size such as 5GB, without a space" ]]
	# what the size counts is what the help says: of each file, the tensors without the header
	"$CKPT" convert -q ddp_model.pt limit --shard-size 2500
	for file in limit/*.safetensors; do
		[ "$("$CKPT" ls --json "$file" | jq .nbytes)" -le 2500 ]
	done
	rm -r limit
	ckpt convert ddp_model.pt set --shard-size 1GB --to torch-legacy; [ "$status" = 64 ]
	ckpt convert ddp_model.pt set --shard-size 1GB --to torch --byteorder big; [ "$status" = 64 ]
	want_files
}

@test "a directory with anything else in it is not replaced" {
	ckpt convert ddp_model.pt set --shard-size 1KB; want 0
	ckpt convert ddp_model.pt set --shard-size 2KB; want 2 "ckpt: set: the output exists already
hint: -f replaces it"
	ckpt convert -f ddp_model.pt set --shard-size 2KB; want 0
	[ ! -e set/model-00003-of-00003.safetensors ]
	ckpt convert -f ddp_model.pt set --shard-size 1GB; want 0
	[ "$(ls -A set)" = model.safetensors ]
	echo '{}' > set/config.json
	ckpt convert -f ddp_model.pt set --shard-size 2KB
	want 2 "ckpt: set: the output is a folder with 'config.json' in it, and one is replaced only if it holds such a set and nothing else"
	[ "$(ls -A set | wc -l)" = 2 ]
	ckpt convert -f set set --shard-size 1KB
	want 2 "ckpt: set: the output is the input itself, or the folder it is in; name another"
	ckpt convert set two --shard-size 1KB; want 0 "ckpt: note: config.json was not copied"
	touch set/tokenizer.json set/vocab.txt
	ckpt convert set three --shard-size 1KB; want 0 "ckpt: note: config.json and 2 more beside it were not copied"
	mkdir empty
	ckpt convert -qf set empty --shard-size 1KB; want 0
	diff -r two empty
	[ -z "$(find . -name '*.ckpt-*')" ]
}

@test "a dry run says what would be written, and writes nothing" {
	ckpt convert -n ddp_model.pt set --shard-size 1KB; want 0
	dry=$output
	ckpt convert ddp_model.pt set --shard-size 1KB; want 0
	[ "${dry%% would*}" = "${output%% written*}" ]
	[ "$(du -b --apparent-size -c set/* | tail -1 | cut -f1)" -gt 3800 ]
	want_files set
}

@test "what a set cannot hold is said, and nothing is written" {
	ckpt convert ddp_trainer.pt set --shard-size 1KB --to torch --at optimizer
	want 2 "ckpt: ddp_trainer.pt: 2 entries cannot be written as tensors of a set:
  'state' is no tensor
  'param_groups' is no tensor
hint: --drop-others leaves them out"
	ckpt convert ddp_trainer.pt set --shard-size 1KB --to torch --at optimizer --drop-others
	want 2 "ckpt: ddp_trainer.pt: holds no tensor"
	ckpt convert ddp_trainer.pt set --shard-size 1KB --at optimizer; [ "$status" = 2 ]
	want_files
}

@test "names that the index has for something else are no aliases" {
	for name in format total_size; do
		PYTHONPATH=$CKPT_SOURCE_DIR/tests/bad python3 -B -c "from files import *
body = b'}(' + text('a') + tensor() + text('$name') + tensor() + text('b') + tensor(key='1') + b'u'
open('tied.pt', 'wb').write(torch_file(pickled(body), extra=[('data/1', FOUR_FLOATS)]))"
		ckpt convert --shared alias --shard-size 16 tied.pt set
		want 2 "ckpt: tied.pt: '$name' shares its bytes, and the metadata have something else under its name"
	done
	want_files tied.pt
	ckpt convert ddp_model.pt set --shard-size 1KB; want 0
	sed -i 's/"total_size": [0-9]*/"total_size": "module.head.bias"/' set/model.safetensors.index.json
	ckpt ls set; want 0
	[[ $output = *"14 tensors, "* && $output != *total_size* ]]
}

@test "the index names the set, too" {
	ckpt convert ddp_model.pt set --shard-size 1KB; want 0
	ckpt ls set; all=$output
	ckpt ls set/model.safetensors.index.json; want 0
	[ "$output" = "$all" ]
	ckpt verify set/model.safetensors.index.json; [ "$status" = 0 ]
	ckpt cat set module.head.bias; want 0
	ckpt dis set; want 2 "ckpt: set: has no pickle as index; name one of its files"
	ckpt why set
	[[ $output = "cause: it is a set of shards: torch.load takes one file, from_pretrained the directory"* ]]
	mkdir run; cp -r set run/step-5
	ckpt latest run; want 0 "ckpt: run/step-5: has no checksums; nothing else is wrong with it"
	[ "$output" = run/step-5 ]
	ckpt convert ddp_model.pt x.index.json
	want 2 "ckpt: x.index.json: the index of a set is written with its files, into a directory
hint: --shard-size 5GB makes OUT such a directory; --to torch writes torch's format under that name"
	rm set/model-00002-of-00003.safetensors
	ckpt ls set
	[[ $status = 2 && $stderr = "ckpt: set: the file 'model-00002-of-00003.safetensors' is missing, with "*" of the 14 tensors" ]]
}

@test "a checkpoint becomes files of ranks, and one file again" {
	ckpt split --to safetensors --ranks 3 ddp_trainer.pt set
	want 0
	[[ $output = "'model', 24 tensors beside it left behind, 14 tensors for 3 ranks, "*" written in "* ]]
	[ "$(ls -A set)" = "$(printf 'shard-%05d-model-00001-of-00001.safetensors\n' 1 2 3)" ]
	ckpt merge set one.pt; want 0
	ckpt extract model ddp_trainer.pt model.pt; want 0
	ckpt diff one.pt model.pt; want 0
	ckpt split --to safetensors --ranks 20 --at model ddp_trainer.pt many; want 0
	[ "$(ls many | wc -l)" = 10 ] # nothing has more rows
	ckpt diff many model.pt; want 0
	ckpt reshard --to safetensors --ranks 1 many single; want 0
	[ "$(ls -A single)" = shard-00001-model-00001-of-00001.safetensors ]
	ckpt diff single model.pt; want 0
	rm many/shard-00004-*
	ckpt ls many; [ "$status" = 2 ]
}

@test "what files of ranks cannot hold is said, and nothing is written" {
	ckpt split --to safetensors --ranks 2 --at optimizer ddp_trainer.pt set; [ "$status" = 2 ]
	ckpt split --to safetensors --ranks 2 --at modle ddp_trainer.pt set
	want 2 "ckpt: ddp_trainer.pt: nothing is named 'modle'
hint: did you mean 'model'?"
	PYTHONPATH=$CKPT_SOURCE_DIR/tests/bad python3 -B -c "from files import *
body = b'}(' + text('a') + tensor() + text('b') + tensor() + text('c') + number(7) + b'u'
open('tied.pt', 'wb').write(torch_file(pickled(body)))"
	ckpt split --to safetensors --ranks 2 tied.pt set
	want 2 "ckpt: tied.pt: 1 entry cannot be written as safetensors:
  'c' is not a tensor but an int
hint: --drop-others leaves them out"
	ckpt split --to safetensors --ranks 2 --drop-others tied.pt set
	want 2 "ckpt: tied.pt: 'a' and 'b' share their bytes
hint: --shared clone writes each of them"
	want_files tied.pt
	ckpt split --to safetensors --ranks 2 --drop-others --shared clone tied.pt set; want 0
	[[ $output = "2 tensors for 2 ranks, 1 other entry left out, "* ]]
	ckpt cat set b; want 0
	for wrong in "--shared alias --to safetensors" "--to torch" "--at model" --drop-others "--shared clone" \
		"--alignment 64 --to safetensors"; do
		ckpt split --ranks 2 $wrong ddp_model.pt set2; [ "$status" = 64 ]
	done
	[ ! -e set2 ]
}

@test "files of ranks replace such files, and nothing else" {
	ckpt split --to safetensors --ranks 3 ddp_model.pt set; want 0
	ckpt split --to safetensors --ranks 2 ddp_model.pt set; want 2 "ckpt: set: the output exists already
hint: -f replaces it"
	ckpt split --to safetensors --ranks 2 -f ddp_model.pt set; want 0
	[ "$(ls -A set | wc -l)" = 2 ]
	ckpt split --to safetensors --ranks 2 -f set set
	want 2 "ckpt: set: the output is the input itself, or the folder it is in; name another"
	touch set/config.json
	ckpt split --to safetensors --ranks 2 -f ddp_model.pt set
	want 2 "ckpt: set: the output is a folder with 'config.json' in it, and one is replaced only if it holds such a set and nothing else"
	rm set/config.json
	ckpt split -n --to safetensors --ranks 4 ddp_model.pt dry; want 0
	[ ! -e dry ]
	(ulimit -f 1; trap '' XFSZ; exec "$CKPT" split --to safetensors --ranks 2 -f ddp_model.pt set) 2> err && return 1
	[[ $(< err) = *"File too large" ]]
	[ "$(ls -A set | wc -l)" = 2 ]
	ckpt diff set ddp_model.pt; want 0
	[ -z "$(find . -name '*.ckpt-*')" ]
}

@test "two files of one rank, or of one number, are no set" {
	mkdir runs && cp ddp_model.pt runs/model_rank_0.pt
	cp ddp_model.pt runs/model_rank_0.bin && cp ddp_model.pt runs/model_rank_2.pt
	for command in "ls runs" "info runs" "verify runs" "convert runs out.pt" "diff runs ddp_model.pt"; do
		ckpt $command
		[[ $status != 0 && $status -lt 64 && $stderr$output = *"two files are of rank 0: 'model_rank_0.bin' and 'model_rank_0.pt'"* ]]
	done
	mv runs/model_rank_0.bin runs/model_rank_1.bin
	ckpt ls runs; want 0
	mv runs/model_rank_1.bin runs/model_rank_00002.bin
	ckpt ls runs; want 2 "ckpt: runs: two files are of rank 2: 'model_rank_00002.bin' and 'model_rank_2.pt'"
	rm runs/model_rank_00002.bin
	ckpt ls runs; want 2 "ckpt: runs: holds 2 of the 3 files 'model_rank_...' of all ranks"
	ckpt convert ddp_model.pt one.safetensors; want 0
	mkdir set && cp one.safetensors set/w-00001-of-00002.safetensors && cp one.safetensors set/w-1-of-00002.safetensors
	ckpt ls set
	want 2 "ckpt: set: two files have the same number: 'w-00001-of-00002.safetensors' and 'w-1-of-00002.safetensors'"
}

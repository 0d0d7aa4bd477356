# SPDX-License-Identifier: Apache-2.0
# Directories of shards, as a user meets them. What is in the files is judged elsewhere: tests/dcp, tests/interop.
load common

@test "split and merge give back the bytes that torch wrote" {
	mkdir there
	ckpt split ddp_trainer.pt shards --ranks 3; want 0
	[[ $output = "38 tensors for 3 ranks, "*" written in "* ]]
	ckpt merge shards there/merged.pt; want 0
	[[ $output = "38 tensors merged, "* ]]
	ckpt ls there/merged.pt; listed=$output
	ckpt ls ddp_trainer.pt
	[ "$(sed 's/  .*//' <<< "$listed")" = "$(sed 's/  .*//' <<< "$output")" ]
	ckpt reshard shards five --ranks 5; want 0
	ckpt merge five there/again.pt; want 0
	cmp <(unzip -p there/merged.pt 'merged/data/*') <(unzip -p there/again.pt 'again/data/*')
	ckpt merge shards there/model.safetensors; want 0
	[[ $output = "'model', 24 tensors beside it left behind, 14 tensors merged, "* ]]
	ckpt merge shards there/model.safetensors
	want 2 "ckpt: there/model.safetensors: the output exists already
hint: -f replaces it" # and no option of convert
	ckpt convert shards there/wanted.safetensors; want 0
	cmp there/model.safetensors there/wanted.safetensors
	ckpt diff --at model there/merged.pt there/model.safetensors --at-b ''; want 0
}

@test "numbers and options that make no sense are usage errors" {
	ckpt split ddp_model.pt x; want 64 "ckpt: split: wanted --ranks N
usage: ckpt split [OPTIONS] IN OUT
hint: 'ckpt split --help' shows the options"
	for wrong in 0 -1 x 1.5 99999999999; do
		ckpt split ddp_model.pt x --ranks $wrong
		[ "$status" = 64 ]
	done
	ckpt split ddp_model.pt x --ranks 2 --dim y; [ "$status" = 64 ]
	for wrong in many -1 17179869184G 99999999999999999999 1T; do
		ckpt split ddp_model.pt x --ranks 2 --keep-whole=$wrong; [ "$status" = 64 ]
	done
	ckpt split ddp_model.pt x --ranks 2 --alignment 0; [ "$status" = 64 ]
	ckpt strip-module -i --hard-link ddp_model.pt; [ "$status" = 64 ]
	[ ! -e x ]
}

@test "an output that is there stays, and only a checkpoint is ever replaced" {
	mkdir folder; echo mine > folder/mine
	ckpt split ddp_model.pt folder --ranks 2; want 2 "ckpt: folder: the output exists already
hint: -f replaces it"
	ckpt split -f ddp_model.pt folder --ranks 2
	want 2 "ckpt: folder: the output is a folder with 'mine' in it, and one is replaced only if it holds such a set and nothing else"
	[ "$(cat folder/mine)" = mine ]
	ckpt split ddp_model.pt shards --ranks 2; want 0
	ckpt split -f ddp_model.pt shards --ranks 3; want 0
	[ -e shards/__2_0.distcp ]
	ckpt reshard -f shards shards --ranks 4
	want 2 "ckpt: shards: the output is the input itself, or the folder it is in; name another"
	ckpt split ddp_model.pt ddp_trainer.pt --ranks 2
	want 2 "ckpt: ddp_trainer.pt: this writes a folder, and that is the name of a file
hint: ckpt split ddp_model.pt ddp_trainer/ --ranks 2"
	ckpt split ddp_model.pt none/x --ranks 2; [ "$status" = 2 ]
	[ -z "$(find . -name '*.ckpt-*')" ]
}

@test "-f of a directory loses nothing that is not a checkpoint's, whichever command writes it" {
	ckpt split ddp_model.pt in --ranks 2; want 0
	ckpt split ddp_model.pt out --ranks 2; want 0
	mkdir -p out/logs out/sub; echo run >out/logs/run.txt; cp out/__0_0.distcp out/sub/
	cp -r out before
	for command in "split -f ddp_model.pt out --ranks 3" "reshard -f in out --ranks 3" "strip-module -f in out" "reindex -f in out"; do
		ckpt $command
		want 2 "ckpt: out: the output is a folder with 'logs/run.txt' in it, and one is replaced only if it holds such a set and nothing else"
		diff -r out before
	done
	rm -r out/logs
	for command in "split -f ddp_model.pt out --ranks 3" "reshard -f in out --ranks 1" "strip-module -f in out" "reindex -f in out"; do
		mkdir out/empty
		ckpt $command
		[[ $status = 2 && $stderr = *"with 'empty' in it"* ]]
		rmdir out/empty
		ckpt $command; want 0
	done
	[ ! -e out/sub ]
	echo note >in/notes.txt # goes along with an edit, and is then the output's own
	ckpt strip-module -f in out; want 0
	ckpt strip-module -f in out; want 0
	[ "$(cat out/notes.txt)" = note ]
	ckpt split -f ddp_model.pt out --ranks 2
	[[ $status = 2 && $stderr = *"with 'notes.txt' in it"* ]]
}

@test "no output takes the place of a file of the input, which may have many" {
	ckpt split ddp_model.pt dcp --ranks 2; want 0
	ckpt convert ddp_model.pt hf --shard-size 2KB; want 0
	mkdir numbered && cp hf/model-*-of-*.safetensors numbered
	ckpt split ddp_trainer.pt parts --to safetensors --ranks 2; want 0
	mkdir ranks && for r in 0 1 2; do cp ddp_model.pt ranks/model_rank_$r.pt; done
	for input in dcp hf numbered parts ranks; do
		cp -r $input before
		[ "$(find $input -type f | wc -l)" -gt 1 ]
		while read -r file; do
			for command in "convert -f $input $file" "merge -f $input $file" "convert -f --to safetensors $input $file" "convert -f --to npz $input $file"; do
				ckpt $command
				[ "$status" = 2 ] || { echo "$command: $status $stderr" >&2; false; }
				diff -r $input before
			done
		done < <(find $input -type f)
		rm -r before
	done
	cp ddp_trainer.pt dcp/meta.pt
	ckpt merge -f dcp dcp/meta.pt
	want 2 "ckpt: dcp/meta.pt: the output is the input itself; name another file"
	cmp ddp_trainer.pt dcp/meta.pt
}

@test "a directory is not replaced where files of the input lie in it" {
	ckpt split ddp_model.pt dcp --ranks 2; want 0
	mkdir dcp/sub links && mv dcp/__0_0.distcp dcp/sub
	ln -s ../links/__0_0.distcp dcp/__0_0.distcp && mv dcp/sub/__0_0.distcp links && rmdir dcp/sub
	for out in links dcp .; do
		ckpt reshard -f dcp $out --ranks 1
		want 2 "ckpt: $out: the output is the input itself, or the folder it is in; name another"
	done
	cmp <(ckpt ls dcp; echo "$output") <(ckpt ls ddp_model.pt; echo "$output") || true
	[ -L dcp/__0_0.distcp ] && [ -s links/__0_0.distcp ]
}

@test "-i of a link to a directory wants -f" {
	ckpt split ddp_model.pt dcp --ranks 2; want 0
	ln -s dcp link
	ckpt strip-module -i link
	want 2 "ckpt: link: is a symbolic link: what it points to would be changed
hint: -f edits it all the same"
	ckpt reindex -i link
	[[ $status = 2 && $stderr = "ckpt: link: is a symbolic link: what it points to would be changed"* ]]
	ckpt reindex -i -f link; want 0
	ckpt strip-module -i -f link; want 0
	ckpt strip-module -i --if-present dcp; want 0
	[ -L link ]
}

@test "files beside the shards arrive whole, however they end" {
	ckpt split ddp_model.pt in --ranks 2; want 0
	truncate -s 3M in/hole in/head in/both
	echo head | dd of=in/head conv=notrunc status=none
	echo head | dd of=in/both conv=notrunc status=none
	echo middle | dd of=in/both seek=1 bs=1M conv=notrunc status=none
	: >in/empty
	echo text >in/text
	for command in "strip-module in out" "reindex in out" "strip-module --reflink=never in out" "strip-module --hard-link in out"; do
		ckpt $command; want 0
		for file in hole head both empty text; do cmp in/$file out/$file; done
		rm -r out
	done
}

@test "whatever lies beside the shards comes along: folders, links, modes" {
	ckpt split ddp_model.pt in --ranks 2; want 0
	echo elsewhere >elsewhere.txt
	mkdir -p in/logs/deep in/empty in/secret
	echo run >in/logs/deep/run.txt
	cp in/__0_0.distcp in/logs/ # not the checkpoint's
	echo mine >in/secret/key; chmod 0640 in/secret/key; chmod 0700 in/secret
	ln -s ../elsewhere.txt in/to-file; ln -s logs in/to-folder; ln -s nowhere in/dangling; ln -s . in/loop
	for command in strip-module reindex "cast f16" "reshard --ranks 3" "split --ranks 3" "strip-module --hard-link"; do
		ckpt $command in out; want 0
		[ "$(cat out/logs/deep/run.txt out/secret/key out/to-file)" = $'run\nmine\nelsewhere' ]
		cmp in/__0_0.distcp out/logs/__0_0.distcp
		[ -d out/empty ]
		[ "$(stat -c %a out/secret out/secret/key out/logs)" = "$(stat -c %a in/secret in/secret/key in/logs)" ]
		[ "$(readlink out/to-folder out/dangling out/loop)" = $'logs\nnowhere\n.' ]
		ckpt $command -f in out; want 0
		rm -r out
	done
	mkfifo in/logs/pipe
	for command in strip-module "cast f16" "reshard --ranks 3"; do
		ckpt $command in out
		want 2 "ckpt: in/logs/pipe: lies beside the shards, and is neither a file nor a folder"
		[ ! -e out ]
	done
}

@test "an index that says a name twice, and not the same, is damaged: nothing is made of it" {
	ckpt split ddp_model.pt in --ranks 2; want 0
	python3 - in/.metadata <<-'END'
	import sys
	data = bytearray(open(sys.argv[1], "rb").read())
	at = data.rindex(b"module.stem.0.weight")
	data[at + 11] ^= 1
	open(sys.argv[1], "wb").write(data)
	END
	ckpt verify -q in; [ "$status" = 1 ]
	for command in "strip-module in out" "cast bf16 in out" "merge in out.pt" "reshard in out --ranks 3" "convert in out.safetensors" "select --drop *bias in out" "strip-module -i in"; do
		ckpt $command
		[ "$status" = 2 ]; [[ $stderr = *"its path says another name than 'module.stem.0.weight'"* ]]
		[ ! -e out ]; [ ! -e out.pt ]; [ ! -e out.safetensors ]
	done
}

@test "who may not read the input may not read what is made of it, nor what is said of it" {
	ckpt split ddp_model.pt in --ranks 2; want 0
	chmod 0600 in/.metadata ddp_model.pt
	ckpt reindex in out; want 0
	[ "$(stat -c %a out/.metadata)" = 600 ]
	ckpt cat ddp_model.pt module.head.bias --json=said.json; want 0
	[ "$(stat -c %a said.json)" = 600 ]
	ckpt verify --json=verdict.json ddp_model.pt ddp_trainer.pt; want 0
	[ "$(stat -c %a verdict.json)" = 600 ]
	ckpt ls --json=public.json ddp_trainer.pt; want 0
	[ "$(stat -c %a public.json)" = 644 ]
}

@test "an output inside the input is not taken for something beside the shards" {
	ckpt split ddp_model.pt in --ranks 2; want 0
	mkdir in/edits; echo note >in/edits/note
	for command in strip-module "cast f16"; do
		ckpt $command in in/edits/out; want 0
		[ "$(cat in/edits/out/edits/note)" = note ]
		[ ! -e in/edits/out/edits/out ]
		ckpt $command -f in in/edits/out; want 0
		[ ! -e in/edits/out/edits/out ]
		rm -r in/edits/out
	done
}

@test "an edit leaves the data files alone" {
	ckpt split ddp_trainer.pt shards --ranks 2; want 0
	before=$(stat -c '%i %Y %s' shards/__*_0.distcp)
	ckpt strip-module -i shards; want 0
	[[ $output = "14 keys renamed in 'model', "* ]]
	[ "$(stat -c '%i %Y %s' shards/__*_0.distcp)" = "$before" ]
	ckpt strip-module -i shards; [ "$status" = 1 ]
	ckpt add-module shards linked --hard-link; want 0
	[ "$(stat -c %i linked/__*_0.distcp)" = "$(stat -c %i shards/__*_0.distcp)" ]
	ckpt select --drop optimizer shards model-only; want 0
	[ "$(stat -c %i model-only/__0_0.distcp)" != "$(stat -c %i shards/__0_0.distcp)" ]
	cmp model-only/__0_0.distcp shards/__0_0.distcp
	ckpt ls model-only; [[ $output = *"14 tensors, "* ]]
	ckpt cast -i bf16 shards
	want 2 "ckpt: shards: tensors would change, which means new data files: name an output"
	ckpt cast bf16 shards cast; want 0
	ckpt ls cast 'model.head.weight'; [[ $output = *"bfloat16  [10, 8]"* ]]
}

@test "files beside the shards come along, and are merged" {
	ckpt split ddp_model.pt shards --ranks 2; want 0
	ckpt extract model ddp_trainer.pt part.pt; want 0
	ckpt select --keep epoch --keep args ddp_trainer.pt shards/meta.pt; want 0
	touch shards/README
	ckpt strip-module shards plain; want 0
	cmp plain/meta.pt shards/meta.pt; [ -e plain/README ]
	ckpt merge plain merged.pt; want 0
	[[ $output = "with meta.pt, 14 tensors merged, "* ]]
	ckpt info merged.pt; [[ $output = *"  epoch                  3"* ]]
	ckpt merge --shards-only plain only.pt; want 0
	ckpt info only.pt; [[ $output != *epoch* ]]
}

@test "info tells in what state a directory is" {
	ckpt split ddp_model.pt shards --ranks 2; want 0
	ckpt info shards; want 0; [[ $output != *note* ]]
	cp -rp shards cut; truncate -s -100 cut/__1_0.distcp; touch -r shards/__1_0.distcp cut/__1_0.distcp
	ckpt info cut; want 0
	[[ $output = *"note        '__1_0.distcp' is too short for 1 of its "*" items: it was cut, or written anew after the index"* ]]
	cp -rp shards gone; rm gone/__1_0.distcp
	ckpt info gone; want 0
	[[ $output = *"note        '__1_0.distcp' is missing, which holds "*" of the items"* ]]
	ckpt merge gone x.pt; [ "$status" = 2 ]; [ ! -e x.pt ]
	[[ $stderr = "ckpt: gone: '"*"' in __1_0.distcp at "*": the data file is missing" ]]
	cp -rp shards unfinished; mv unfinished/.metadata unfinished/.metadata.tmp
	ckpt info unfinished
	want 2 "ckpt: unfinished: has no .metadata, but a whole .metadata.tmp: the save was interrupted at its last step; 'ckpt reindex' completes it"
	ckpt reindex -i unfinished; want 0
	ckpt ls unfinished; want 0; [ ! -e unfinished/.metadata.tmp ]
	truncate -s -1 shards/.metadata; mv shards/.metadata shards/.metadata.tmp
	ckpt ls shards
	want 2 "ckpt: shards: has no .metadata, and a .metadata.tmp that was cut: the save was interrupted, and which tensors the 2 data files hold is lost"
	rm shards/.metadata.tmp
	ckpt ls shards
	want 2 "ckpt: shards: has 2 data files (.distcp), but no .metadata: the save was interrupted, or the index was left behind when the files were copied, for its name is hidden"
	touch gone/__7_0.distcp cut/__0.metadata
	ckpt info gone; [[ $output = *"1 data file of 0 bytes that the index does not mention (__7_0.distcp)"* ]]
	ckpt info cut; [ "$status" = 2 ]; [[ $stderr = *"older than the indexes of single ranks beside it"* ]]
}

@test "the index, and the pickle of an item, can be looked at" {
	ckpt split ddp_trainer.pt shards --ranks 2; want 0
	ckpt dis shards; want 0; [[ $output = *"torch.distributed.checkpoint.metadata"* ]]
	ckpt dis shards epoch; want 0; [ "$output" = "       0: PROTO 2
       2: BININT1 3
       4: STOP" ]
	ckpt dis shards nothing; want 2 "ckpt: shards: there is no 'nothing' in the index"
}

@test "a dry run writes nothing" {
	ckpt split -n ddp_trainer.pt shards --ranks 2; want 0; [ ! -e shards ]
	ckpt split ddp_trainer.pt shards --ranks 2; want 0
	before=$(ls -la --time-style=full-iso shards)
	ckpt merge -n shards x.pt; want 0; [ ! -e x.pt ]
	ckpt strip-module -n -i shards; want 0
	ckpt strip-module -n shards y; want 0; [ ! -e y ]
	ckpt reindex -n -i shards; want 0
	[ "$(ls -la --time-style=full-iso shards)" = "$before" ]
}

@test "keys of an optimizer become numbers again" {
	ckpt split ddp_trainer.pt shards --ranks 2; want 0
	ckpt merge --int-keys shards merged.pt; want 0
	[[ $output = *" keys made numbers, "* ]]
	ckpt dis merged.pt; numbers=$(grep -A2 "BINUNICODE 'state'" <<< "$output" | head -3)
	ckpt merge shards text.pt; want 0
	ckpt dis text.pt; [ "$(grep -A2 "BINUNICODE 'state'" <<< "$output" | head -3)" = "$numbers" ]
	[ "$(unzip -p merged.pt merged/data.pkl | wc -c)" -lt "$(unzip -p text.pt text/data.pkl | wc -c)" ]
}

@test "what DCP cannot hold is refused with its name" {
	ckpt extract epoch ddp_trainer.pt epoch.pt; want 0
	ckpt split epoch.pt x --ranks 2
	want 2 "ckpt: epoch.pt: its root is no dict, and such a directory holds nothing else"
	[ ! -e x ]
}

@test "names with a slash at the end are folders, and convert makes one file" {
	ckpt split ddp_model.pt shards/ --ranks 2; want 0
	ckpt strip-module shards/ plain/; want 0; [ -d plain ]
	ckpt merge plain merged/
	want 2 "ckpt: merged/: the output is named like a folder, wanted a file name
hint: ckpt convert plain merged/ --shard-size 5GB"
	ckpt convert plain one.pt; want 0; [ -f one.pt ]
}

@test "an edit of a directory writes one file if OUT's name says so" {
	mkdir a b
	ckpt split ddp_trainer.pt shards --ranks 2; want 0
	for edit in "cast bf16" "cast fp16 --all" "select --drop optimizer*" "extract model" "strip-module --if-present"; do
		ckpt $edit shards a/x.pt -f; want 0
		ckpt merge shards b/whole.pt -f; want 0
		ckpt $edit b/whole.pt b/x.pt -f; want 0
		ckpt verify a/x.pt; want 0
		ckpt diff a/x.pt b/x.pt; want 0
	done
	ckpt compact --if-present shards a/x.pt -f; want 0
	ckpt merge shards b/x.pt -f; want 0
	cmp a/x.pt b/x.pt
	ckpt cast bf16 -n shards n.PT; want 0; [ ! -e n.PT ]
	ckpt cast bf16 --profile 1.13 shards a/old.pth; want 0; [ -f a/old.pth ]
	ckpt cast bf16 --hard-link shards a/y.pt
	want 2 "ckpt: a/y.pt: this makes one file of a directory, and --hard-link shares nothing there"
	ckpt cast bf16 --reflink always shards a/y.pt
	want 2 "ckpt: a/y.pt: this makes one file of a directory, and --reflink shares nothing there"
	want_files a b shards
}

@test "a set becomes one file if OUT's name says so" {
	ckpt convert ddp_model.pt whole.safetensors; want 0
	ckpt convert whole.safetensors hub --shard-size 2KB; want 0; [ -d hub ]
	ckpt strip-module hub out.safetensors; want 0; [ -f out.safetensors ]
	ckpt strip-module whole.safetensors wanted.safetensors; want 0
	cmp out.safetensors wanted.safetensors
	ckpt strip-module hub out.pt; want 0; [ -f out.pt ]
	ckpt diff out.pt wanted.safetensors; want 0
	ckpt remap --all cuda:1 hub moved.pt; want 0
	ckpt ls --json moved.pt; [[ $output = *'"device":"cuda:1"'* ]]
}

@test "a folder has the name of a file only with a slash, or if it has that name" {
	ckpt split ddp_model.pt shards --ranks 2; want 0
	ckpt strip-module shards epoch=3.ckpt; want 0; [ -f epoch=3.ckpt ]
	ckpt strip-module shards epoch=4.ckpt/; want 0; [ -d epoch=4.ckpt ]
	ckpt add-module epoch=4.ckpt epoch=5.ckpt/; want 0; [ -d epoch=5.ckpt ]
	ckpt strip-module shards epoch=4.ckpt
	want 2 "ckpt: epoch=4.ckpt: the output exists already
hint: -f replaces it"
	ckpt strip-module shards epoch=4.ckpt -f; want 0; [ -d epoch=4.ckpt ]
	for command in "split ddp_model.pt it's.pt --ranks 3" "reshard shards it's.pt --ranks 3"; do
		ckpt $command
		want 2 "ckpt: it's.pt: this writes a folder, and that is the name of a file
hint: ckpt ${command%% *} $(cut -d' ' -f2 <<< "$command") 'it'\\''s/' --ranks 3"
	done
	ckpt convert ddp_model.pt hub.safetensors --shard-size 5KB --cast bf16
	want 2 "ckpt: hub.safetensors: this writes a folder, and that is the name of a file
hint: ckpt convert ddp_model.pt hub/ --shard-size 5KB --cast bf16"
	ckpt merge shards -- -x.npz
	want 2 "ckpt: -x.npz: this writes no such file
hint: ckpt convert shards ./-x.npz"
	want_files epoch=3.ckpt epoch=4.ckpt epoch=5.ckpt shards
}

@test "a data file of DCP is no checkpoint, also where an item in it is one that loads" {
	# two items of one size: the end of the last fits the first
	python3 - <<-'END'
		whole = open("ddp_model.pt", "rb").read()
		open("two.pt", "wb").write(whole + whole)
	END
	cp ddp_model.pt __0_0.distcp
	mkdir parts && cp ddp_model.pt parts/__3_0.distcp
	for file in two.pt __0_0.distcp parts/__3_0.distcp; do
		for command in info ls verify "merge -n" "strip-module -n" "convert -n" stat; do
			ckpt $command $file
			[ "$status" = 2 ] || { echo "$command $file: $status $output"; false; }
			[[ "$output$stderr" = *"of a DCP directory"*"name the directory it belongs to"* ]] || { echo "$command $file: $output $stderr"; false; }
		done
		ckpt why $file; want 0
		[[ $output = "cause: it is one file of a sharded checkpoint (DCP)"*"mend:      ckpt merge "* ]]
	done
}

#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# bats file_tags=edits
# -n of an edit needs no OUT.
load common.bash

@test "a dry run of every edit goes without OUT, and says what it says with one" {
	"$CKPT" remap -q --all cuda:0 ddp_trainer.pt cuda.pt
	printf 'module.head.bias head.bias\n' >list
	while read -r edit; do
		for in in ddp_model.pt ddp_trainer.pt cuda.pt; do
			eval "ckpt $edit -n $in"
			without="$status $output $stderr"
			eval "ckpt $edit -n $in ${in%.*}.x"
			without=${without//.pt OUT/.pt ${in%.*}.x}
			[ "$without" = "$status $output $stderr" ] || { echo "$edit $in: $without, not $status $output $stderr" >&2; return 1; }
			[ -n "$output" ] || [ "$status" != 0 ]
		done
		echo "$edit: $without"
	done <<-'END'
		strip-module
		add-module
		strip-prefix module
		strip-prefix --strip-wrappers
		add-prefix net
		rename -e s/module/net/
		rename --map list
		remap cuda:0=cpu
		remap cuda:0=cpu cuda:1=cpu
		remap --all cpu
		cast bf16
		compact --if-present
		sanitize --if-present
		extract model
		select --drop optimizer
		edit --strip-module --cast bf16
	END
	want_files cuda.pt list
}

@test "in every format, from a pipe, and where nothing can be written" {
	"$CKPT" convert -q ddp_model.pt a.safetensors --strip-module
	"$CKPT" convert -q --shard-size 2KB ddp_model.pt set
	"$CKPT" split -q --ranks 2 ddp_model.pt dcp
	"$CKPT" convert -q --to torch-legacy ddp_model.pt legacy.pt
	for in in set dcp legacy.pt; do
		ckpt strip-module -n $in; want 0 ""
		[[ $output = "14 keys renamed in the state dict, "*" would be written (dry run)" ]]
	done
	ckpt add-module -n a.safetensors; want 0 ""
	ckpt strip-module -n - <ddp_model.pt; want 0 ""
	ckpt remap -n cpu=cuda:1 - <ddp_model.pt; want 0 ""
	mkdir locked && cp ddp_model.pt locked && chmod 555 locked
	ckpt strip-module -n locked/ddp_model.pt; want 0 ""
	chmod 755 locked
	want_files a.safetensors dcp legacy.pt locked set
	[ "$(ls locked)" = ddp_model.pt ]
}

@test "a dry run of what writes another format, or many files, goes without OUT, too" {
	"$CKPT" split -q --ranks 2 ddp_trainer.pt dcp
	for line in "convert ddp_model.pt" "convert --to safetensors ddp_model.pt" "convert --shard-size 5GB ddp_model.pt" \
		"convert --to npy ddp_model.pt" "merge dcp" "merge --only model dcp" "split --ranks 2 ddp_model.pt" \
		"reshard --ranks 3 dcp"; do
		ckpt $line -n; want 0
		[[ $output = *" would be written (dry run)"* ]]
		ckpt $line; [ "$status" = 64 ]
	done
	want_files dcp
}

# How much the last ckpt says that it wrote, or would.
written() { sed -nE 's/^(.*, )?([0-9.]+[A-Z]?( bytes?)?) (would be written \(dry run\)|written in ).*$/\2/p' <<<"$output"; }

@test "a dry run says how much would be written, in every format: as much as the real run writes" {
	"$CKPT" convert -q ddp_model.pt a.safetensors
	"$CKPT" convert -q --shard-size 2KB ddp_model.pt set
	"$CKPT" convert -q --to torch --shard-size 2KB ddp_model.pt bins
	"$CKPT" split -q --ranks 2 ddp_trainer.pt dcp
	"$CKPT" split -q --ranks 2 ddp_model.pt flat
	"$CKPT" convert -q --to torch-legacy ddp_trainer.pt legacy.pt
	"$CKPT" select -q --keep model ddp_trainer.pt dead.pt
	"$CKPT" select -qi --drop '*.bias' dead.pt
	mkdir -p dcp/sub/empty flat/x
	head -c 3000 ddp_model.pt >dcp/sub/notes
	ln -s notes dcp/sub/link
	ln -s nowhere dcp/broken
	echo a: 1 >flat/x/config.yaml
	local in edit dry real count=0 turn=0 each=4
	[ "${CKPT_SANITIZED:-0}" = 0 ] || each=8 # a command takes five times as long
	[ "${CKPT_TEST_LONG:-0}" = 0 ] || each=1
	while read -r edit; do
		for in in ddp_model.pt ddp_trainer.pt legacy.pt dead.pt a.safetensors set bins dcp flat; do
			for out in out.x out.pt out.safetensors dcp/out "-i"; do
				turn=$((turn + 1))
				[ $((turn % each)) = 0 ] || continue
				rm -rf out.x out.pt out.safetensors dcp/out work
				if [ "$out" = -i ]; then
					cp -r "$in" work
					set -- $edit -i work
				else
					set -- $edit "$in" "$out"
				fi
				ckpt "$1" -n "${@:2}"
				[ "$status" = 0 ] || continue # refused: the real run is asked elsewhere
				dry=$(written)
				[ ! -e "$out" ] || { echo "$*: $out is there" >&2; return 1; }
				ckpt "$@"
				real=$(written)
				[ "$status" = 0 ] && [ "$dry" = "$real" ] || { echo "$*: $dry, then $status $output $stderr" >&2; return 1; }
				if [ -n "$real" ]; then count=$((count + 1)); fi
			done
		done
	done <<-'END'
		select --drop *.bias
		select --drop *.exp_avg
		select --drop epoch
		select --drop epoch --hard-link
		cast bf16
		add-module
		strip-module
		strip-module --hard-link
		strip-module --reflink=auto
		remap --all cuda:1
		compact --if-present
		extract model
		edit --strip-module --cast bf16
		edit --set epoch=4
		sanitize --if-present
		convert
		convert --to npz
		convert --to npy
		convert --drop-others --shard-size 2KB
		split --ranks 3
		reshard --ranks 3
		merge
		reindex
		reindex --hard-link
	END
	[ "$count" -gt $((150 / each)) ]
	for in in flat dcp set; do
		ckpt select -n --drop '*.bias' "$in"
		[[ $(written) =~ ^[1-9] ]]
	done
	ckpt select -n --hard-link --drop '*.bias' flat # the index alone
	[[ $(written) =~ ^[1-9] ]]
}

@test "without -n, and with a name too few, it is wrong usage still" {
	ckpt strip-module ddp_model.pt; [ "$status" = 64 ]
	ckpt strip-module -n; [ "$status" = 64 ]
	ckpt strip-prefix -n module.; [ "$status" = 64 ]
	ckpt cast -n bf16; [ "$status" = 64 ]
	ckpt remap -n cuda:0=cpu; [ "$status" = 64 ]
	ckpt rename -n -e s/a/b/; [ "$status" = 64 ]
	want_files
}

# SPDX-License-Identifier: Apache-2.0
# Usage, help, completion, man pages.
load common

commands() { "$CKPT" help | sed -n 's/^  \([a-z][a-z-]*\)  *[a-z].*/\1/p'; }

@test "without a command the overview goes to standard error" {
	ckpt
	[ "$status" = 64 ]
	[ "$output" = "" ]
	[[ $stderr = "ckpt "*"usage: ckpt COMMAND"* ]]
	ckpt --help; want 0
	[[ $output = "ckpt "*"usage: ckpt COMMAND"* ]]
}

@test "a word that is no command is answered with the command that does it, or a plain no" {
	ckpt soup a b c
	want 64 "ckpt: unknown command 'soup'
hint: 'ckpt average A B... OUT' writes the mean of checkpoints"
	ckpt help inspect
	want 64 "ckpt: unknown command 'inspect'
hint: 'ckpt info FILE' shows what is in a file, 'ckpt ls FILE' its tensors, 'ckpt cat FILE NAME' one of them"
	for word in lora peft; do
		ckpt $word base.pt adapter out.pt
		want 64 "ckpt: unknown command '$word'
hint: no: ckpt adds no LoRA adapter to its base; in Python, PEFT does: PeftModel.from_pretrained(base, 'DIR').merge_and_unload()"
	done
	ckpt help lora
	[[ $status = 64 && $stderr = *"
hint: no: "* ]]
	local count=0 known
	known=" $(commands | tr '\n' ' ')"
	# shellcheck disable=SC2013  # words
	for word in $(sed -n 's/.*" \([a-z0-9 -]*\) ".*/\1/p' "$CKPT_SOURCE_DIR/tools/other_words.c"); do
		[[ $known != *" $word "* ]] || { echo "$word is a command" >&2; return 1; }
		ckpt "$word"
		[[ $status = 64 && $stderr = *"hint: "* && $stderr != *"did you mean"* && $stderr != *"lists the commands" ]]
		# shellcheck disable=SC2013  # words
		for name in $(grep -o "ckpt [a-z][a-z-]* " <<<"${stderr#*hint: }" | cut -d ' ' -f 2); do
			[[ $name = adds || $name = uses || $name = runs || $name = downloads || $known = *" $name "* ]] ||
				{ echo "no command $name" >&2; return 1; }
		done
		count=$((count + 1))
	done
	[ "$count" -gt 100 ]
}

@test "a mistyped command gets one suggestion" {
	ckpt lss
	want 64 "ckpt: unknown command 'lss'
hint: did you mean 'ls'?"
	ckpt strip-modul a b
	want 64 "ckpt: unknown command 'strip-modul'
hint: did you mean 'strip-module'?"
	for word in xyzzy quux; do # nothing is near
		ckpt $word a b
		want 64 "ckpt: unknown command '$word'
hint: 'ckpt help' lists the commands"
	done
	ckpt zzzzzzz
	want 64 "ckpt: unknown command 'zzzzzzz'
hint: 'ckpt help' lists the commands"
}

@test "a mistyped option gets one suggestion" {
	ckpt ls --jsn x
	want 64 "ckpt: ls: unknown option '--jsn'
hint: did you mean '--json'?"
	ckpt ls -Z x
	want 64 "ckpt: ls: unknown option '-Z'
hint: 'ckpt ls --help' shows the options"
}

@test "a part of an option, an operand and the name of a value are near it, too" {
	ckpt edit --prefx module. a b
	want 64 "ckpt: edit: unknown option '--prefx'
hint: did you mean '--strip-prefix' or '--add-prefix'?"
	ckpt convert --dtype=bf16 a b
	want 64 "ckpt: convert: unknown option '--dtype=bf16'
hint: did you mean '--cast' or '--cast-all'?"
	ckpt strip-prefix --prefx module. a b
	want 64 "ckpt: strip-prefix: unknown option '--prefx'
hint: PREFIX is no option: ckpt strip-prefix [OPTIONS] PREFIX IN OUT"
	ckpt strip-module --output a b
	want 64 "ckpt: strip-module: unknown option '--output'
hint: OUT is no option: ckpt strip-module [OPTIONS] IN OUT"
	ckpt ls --jsn=x y
	want 64 "ckpt: ls: unknown option '--jsn=x'
hint: did you mean '--json'?"
}

@test "a mistyped value of an option gets one suggestion" {
	ckpt ls --sort sizes ddp_model.pt
	want 64 "ckpt: ls: --sort sizes: wanted 'name', 'size' or 'storage'
usage: ckpt ls [OPTIONS] IN [IN...] [PATTERN...]
hint: did you mean '--sort size'?"
	ckpt ls --sort xyzzy ddp_model.pt
	[[ $status = 64 && $stderr = *"hint: 'ckpt ls --help' shows the options" ]]
	ckpt cast bf17 ddp_model.pt out.pt
	[[ $status = 64 && $stderr = *"hint: did you mean 'bf16'?" ]]
	ckpt convert --cast bfloat61 ddp_model.pt out.pt
	[[ $status = 64 && $stderr = *"hint: did you mean 'bfloat16'?" ]]
	ckpt cast int8 ddp_model.pt out.pt
	[[ $status = 64 && $stderr = *"hint: 'ckpt cast --to-integer' says that it is meant" ]]
	# the words that are suggested are those that are accepted
	local option row words
	for option in "ls sort" "stat sort" "diff sort" "convert to" "split to" "convert shared" "reshard shared" "convert crc" "convert byteorder" \
		"convert from-byteorder" "repair fill" "scan color" "average others" "broadcast if-exists" "broadcast target" "broadcast verify"; do
		set -- $option
		row=$(grep -m 1 -E "^	. (\"$1\"|NULL), \"$2\"," "$CKPT_SOURCE_DIR/tools/words.c")
		words=$(sed 's/.*" \(.*\) ".*/\1/' <<<"$row")
		local more=; [[ $1 != split && $1 != reshard ]] || more="--ranks 2"
		[ "$2" != shared ] || more="$more --to safetensors"
		ckpt "$1" "--$2" "${words%% *}x" $more ddp_model.pt out.pt
		[[ $status = 64 && $stderr = *"hint: did you mean '--$2 ${words%% *}'?" ]] || { echo "$option: $stderr" >&2; return 1; }
		for word in $words; do
			[[ $stderr = *wanted*"$word"* ]] || { echo "$option $word: $stderr" >&2; return 1; }
		done
		for word in $(sed -n "s/.*: wanted //p" <<<"$stderr" | grep -o "'[^']*'" | tr -d "'"); do
			[[ " $words " = *" $word "* ]] || { echo "$option: no row has $word" >&2; return 1; }
		done
	done
}

@test "an option in a group of letters is named itself" {
	for group in -qZ -Zq -qZl; do
		ckpt ls $group x
		want 64 "ckpt: ls: unknown option '-Z'
hint: 'ckpt ls --help' shows the options"
	done
}

@test "a value to an option that takes none is refused" {
	ckpt ls --quiet=yes ddp_model.pt
	[ "$status" = 64 ]
	[[ $stderr = "ckpt: ls: "*"--quiet"* ]]
	[[ $stderr != *"unknown option"* ]]
}

@test "wrong numbers of operands show the usage" {
	ckpt ls
	want 64 "ckpt: ls: too few operands, wanted IN [IN...] [PATTERN...]
usage: ckpt ls [OPTIONS] IN [IN...] [PATTERN...]
hint: 'ckpt ls --help' shows the options"
	ckpt strip-module a b c
	want 64 "ckpt: strip-module: too many operands, wanted IN OUT
usage: ckpt strip-module [OPTIONS] IN OUT
hint: 'ckpt strip-module --help' shows the options"
	ckpt ls --sort
	[ "$status" = 64 ]
	[[ $stderr = "ckpt: ls: option '--sort' needs a value"* ]]
}

@test "operands in each other's place are named, and the line to type" {
	ckpt cast ddp_model.pt out.pt bf16
	want 64 "ckpt: cast: 'ddp_model.pt' stands where DTYPE belongs, and 'bf16' where OUT does
hint: ckpt cast bf16 ddp_model.pt out.pt"
	eval "$CKPT ${stderr#*hint: ckpt }" # it works
	ckpt cast ddp_model.pt torch.half 'o ut.pt'
	[ "$status" = 2 ] # no dtype anywhere
	ckpt cast -n --except '*x y*' ddp_model.pt float16 'o ut.pt'
	want 64 "ckpt: cast: 'ddp_model.pt' stands where DTYPE belongs, and 'float16' where IN does
hint: ckpt cast -n --except '*x y*' float16 ddp_model.pt 'o ut.pt'"
	ckpt cast -i ddp_model.pt ddp_trainer.pt bf16
	want 64 "ckpt: cast: 'ddp_model.pt' stands where DTYPE belongs, and 'bf16' where IN does
hint: ckpt cast -i bf16 ddp_model.pt ddp_trainer.pt"
	ckpt extract ddp_trainer.pt model new.pt
	want 64 "ckpt: extract: 'ddp_trainer.pt' stands where NAME belongs, and 'model' where IN does
hint: ckpt extract model ddp_trainer.pt new.pt"
	ckpt extract ddp_trainer.pt new.pt model
	want 64 "ckpt: extract: 'ddp_trainer.pt' stands where NAME belongs, and 'model' where OUT does
hint: ckpt extract model ddp_trainer.pt new.pt"
	ckpt strip-prefix ddp_model.pt new.pt module.
	[[ $status = 64 && $stderr = *"hint: ckpt strip-prefix module. ddp_model.pt new.pt" ]]
	ckpt add-prefix -i ddp_model.pt a.
	[[ $status = 64 && $stderr = *"hint: ckpt add-prefix -i a. ddp_model.pt" ]]
	ckpt cat module.head.bias ddp_model.pt
	want 64 "ckpt: cat: 'module.head.bias' stands where IN belongs, and 'ddp_model.pt' where NAME does
hint: ckpt cat ddp_model.pt module.head.bias"
	want_files out.pt
	input_is_untouched
}

@test "a device where remap wants a map is given to --all" {
	for operands in "cpu ddp_model.pt new.pt" "ddp_model.pt cpu new.pt" "ddp_model.pt new.pt cpu"; do
		ckpt remap $operands
		want 64 "ckpt: remap: 'cpu': wanted OLD=NEW
hint: ckpt remap --all cpu ddp_model.pt new.pt"
	done
	ckpt remap -i cuda:1 ddp_model.pt
	want 64 "ckpt: remap: 'cuda:1': wanted OLD=NEW
hint: ckpt remap -i --all cuda:1 ddp_model.pt"
	ckpt remap ddp_model.pt new.pt cpu=meta
	want 64 "ckpt: remap: 'ddp_model.pt' stands where OLD=NEW belongs
hint: ckpt remap cpu=meta ddp_model.pt new.pt"
	ckpt remap here ddp_model.pt new.pt
	[[ $status = 64 && $stderr = "ckpt: remap: 'here': wanted OLD=NEW
usage: "* ]]
	ckpt edit --remap cpu ddp_model.pt new.pt
	want 64 "ckpt: 'cpu': wanted OLD=NEW
hint: '--remap-all DEVICE' moves everything"
}

@test "a wrong name of a file is not taken for swapped operands" {
	mkdir model
	for operands in "extract model typo.pt new.pt" "strip-prefix model typo.pt new.pt" "extract model typo new.pt" \
		"cast bf16 typo.pt new.pt"; do
		ckpt $operands
		[[ $status = 2 && $stderr = "ckpt: typo"*": cannot open: No such file or directory" ]]
	done
	rmdir model; cp ddp_model.pt model
	for operands in "extract model typo.pt new" "strip-prefix model typo new" "extract -i model typo"; do
		ckpt $operands
		[[ $status = 2 && $stderr = "ckpt: typo"*": cannot open: No such file or directory" ]]
	done
	touch head.bias
	ckpt cat typo.pt head.bias
	[[ $status = 2 && $stderr = "ckpt: typo.pt: cannot open: No such file or directory" ]]
	cp ddp_model.pt bf16 # a file may have the name of a dtype
	ckpt cast bf16 bf16 new.pt; want 0
}

@test "options may stand behind operands, up to --" {
	ckpt ls ddp_model.pt -q module.head; want 0
	[ "${#lines[@]}" = 2 ]
	ckpt ls ddp_model.pt -- -q
	[ "$status" = 1 ]
}

@test "every command has help, and both ways to it agree" {
	[ "$(commands | wc -l)" -ge 12 ]
	for command in $(commands); do
		ckpt $command --help; want 0
		[[ $output = "usage: ckpt $command "* ]]
		[ "$output" = "$("$CKPT" help $command)" ]
	done
	ckpt help nope
	[ "$status" = 64 ]
	[[ $stderr = "ckpt: unknown command 'nope'"* ]]
}

@test "help lines fit on a terminal" {
	for command in $(commands); do
		"$CKPT" $command --help
	done | awk 'length($0) > 100 { print; bad = 1 } END { exit bad }'
}

@test "every man page renders without a warning" {
	command -v groff >/dev/null || skip "groff is not installed"
	for command in $(commands); do
		"$CKPT" help --man $command | groff -man -Tascii -ww -z 2>warnings
		[ ! -s warnings ] || { echo "$command:"; cat warnings; return 1; }
		"$CKPT" help --man $command | groff -man -Tascii | sed 's/.\x08//g; s/\x1b\[[0-9;]*m//g' >page
		grep -q "ckpt-$command" page
		grep -q "EXIT STATUS" page
	done
}

@test "completion scripts are valid" {
	"$CKPT" completion bash >c.bash
	bash -n c.bash
	if command -v zsh >/dev/null; then "$CKPT" completion zsh >c.zsh; zsh -n c.zsh; fi
	if command -v fish >/dev/null; then "$CKPT" completion fish >c.fish; fish -n c.fish; fi
	ckpt completion tcsh
	want 64 "ckpt: completion: shell 'tcsh' is not known
usage: ckpt completion [OPTIONS] bash|zsh|fish
hint: 'ckpt completion --help' shows the options"
}

@test "bash completes commands, options and files" {
	"$CKPT" completion bash >c.bash
	run bash -c '. ./c.bash
		COMP_WORDS=(ckpt strip-m) COMP_CWORD=1; _ckpt; echo "${COMPREPLY[*]}"
		COMP_WORDS=(ckpt ls --js) COMP_CWORD=2; _ckpt; echo "${COMPREPLY[*]}"
		COMP_WORDS=(ckpt ls ddp_m) COMP_CWORD=2; _ckpt; echo "${COMPREPLY[*]}"'
	[ "$status" = 0 ]
	[ "${lines[0]}" = strip-module ]
	[ "${lines[1]}" = --json ]
	[ "${lines[2]}" = ddp_model.pt ]
}

# words_at N WORD...: what may be word N
words_at() { "$CKPT" completion --words "$1" -- ckpt "${@:2}"; }

@test "values, commands and names in the file are completed" {
	[ "$(words_at 2 help st)" = "words
stat
strip-module
strip-prefix" ]
	[ "$(words_at 2 completion '')" = "words
bash
zsh
fish" ]
	[ "$(words_at 3 convert --to s)" = "words
safetensors" ]
	[ "$(words_at 4 convert --to = torch-)" = "words
torch-legacy" ]
	[ "$(words_at 3 convert --to = | tail -n 1)" = npy ]
	[ "$(words_at 2 convert --to=np)" = "words
--to=npz
--to=npy" ]
	[ "$(words_at 2 cast bf)" = "words
bfloat16
bf16" ]
	[ "$(words_at 3 edit --cast bfl)" = "words
bfloat16" ]
	for command in ls stat diff; do
		[ "$(words_at 3 $command --depth m)" = "words
module" ]
	done
	[ "$(words_at 4 rename ddp_model.pt --profile 1.)" = "words
1.6
1.9
1.13" ]
	[ "$(words_at 3 cat ddp_model.pt module.head.)" = "words
module.head.weight
module.head.bias" ]
	[ "$(words_at 4 cat -q ddp_trainer.pt epo)" = "words
epoch" ]
	[ "$(words_at 3 ls ddp_model.pt module.head.b)" = "files
module.head.bias" ]
	[ "$(words_at 2 extract sched ddp_trainer.pt out.pt | head -n 2)" = "words
scheduler" ]
	[ "$(words_at 3 select --keep optimizer.p ddp_trainer.pt | head -n 2)" = "words
optimizer.param_groups" ]
	[ "$(words_at 3 strip-module --at mod ddp_trainer.pt | head -n 2)" = "words
model" ]
	for line in "2 cat d" "3 strip-module -q d" "3 cat -o x" "5 extract model ddp_trainer.pt -n x"; do
		[ "$(words_at $line)" = files ]
	done
}

@test "completion says nothing of a file that is none, and waits for none" {
	mkfifo pipe; printf 'PK\003\004' >cut.pt; head -c 5000 ddp_model.pt >half.pt; mkdir folder
	for file in pipe cut.pt half.pt folder none.pt /dev/zero; do
		run --separate-stderr timeout 60 "$CKPT" completion --words 3 -- ckpt cat "$file" x
		[ "$status" = 0 ]
		[ "$output$stderr" = words ]
	done
	ckpt completion --words 9 -- ckpt cat; want 0
	ckpt completion --words -100000000 -- ckpt cat; want 0
	ckpt completion --words 3; want 0
	ckpt completion
	[[ $status = 64 && $stderr = "ckpt: completion: too few operands, wanted bash|zsh|fish"* ]]
	ckpt completion bash zsh
	[[ $status = 64 && $stderr = "ckpt: completion: too many operands, wanted bash|zsh|fish"* ]]
}

@test "bash, zsh and fish complete values" {
	mkdir bin; ln -s "$CKPT" bin/ckpt; PATH=$PWD/bin:$PATH
	cp ddp_model.pt 'a b.pt'
	"$CKPT" completion bash >c.bash
	run bash -c '. ./c.bash
		t() { COMP_WORDS=("$@") COMP_CWORD=$(($# - 1)); _ckpt ckpt; echo "${COMPREPLY[*]}"; }
		t ckpt convert x --to = s; t ckpt cast bf; t ckpt help lat; t ckpt cat "'"'a b.pt'"'" module.head.b; t ckpt cat "a\\ b.pt" module.head.b; t ckpt ls ddp_m'
	[ "$output" = "safetensors
bfloat16 bf16
latest
module.head.bias
module.head.bias
ddp_model.pt" ]
	if command -v fish >/dev/null; then
		"$CKPT" completion fish >c.fish
		run env HOME="$PWD" fish -c 'source c.fish; for x in "ckpt cast bf" "ckpt help lat" "ckpt cat ddp_model.pt module.head.b" "ckpt convert --to s"
			complete -C "$x" | cut -f 1; end'
		[ "$output" = "bf16
bfloat16
latest
module.head.bias
safetensors" ]
	fi
	if command -v zsh >/dev/null; then
		"$CKPT" completion zsh >c.zsh
		run zsh -fc 'compadd() { shift; print -r -- "$@" }; _files() { print files }; _describe() { }
			t() { words=("$@") CURRENT=$#; . ./c.zsh }
			t ckpt cast bf; t ckpt help lat; t ckpt cat "a\\ b.pt" module.head.b; t ckpt convert --to s; t ckpt ls x'
		[ "$output" = "bfloat16 bf16
latest
module.head.bias
safetensors
files" ]
	fi
}

@test "fish and zsh scripts have balanced quotes" {
	"$CKPT" completion fish | awk '{ line = $0 } gsub(/"/, "") % 2 { print line; bad = 1 } END { exit bad || !NR }'
	"$CKPT" completion zsh | grep -c '^		"' | grep -qx "$(commands | wc -l)"
}

@test "fish does not ask for an argument that an option may go without" {
	"$CKPT" completion fish >c.fish
	grep -q -- " cat' -l json -d " c.fish
	grep -q -- " stat' -l hist -d " c.fish
	grep -q -- " cat' -l output -s o -r -d " c.fish
}

@test "version says the version, and with -v what was found" {
	ckpt version; want 0
	[[ $output =~ ^ckpt\ [0-9]+\.[0-9]+\.[0-9]+$ ]]
	[ "$("$CKPT" --version)" = "$output" ]
	ckpt version -v; want 0
	[ "${#lines[@]}" -ge 4 ]
	ckpt version extra
	[ "$status" = 64 ]
}

@test "no line of help ends in a blank or in two dots" {
	for command in $(commands); do
		"$CKPT" $command --help >help; "$CKPT" help --man $command >>help
		"$CKPT" $command 1 2 3 4 2>>help >/dev/null || true
		run -1 grep -nE ' $|\.\.$' help
	done
}

@test "what is no name of a file is said so" {
	for command in "ls ''" "info ''" "dis ''" "strip-module '' o" "strip-module ddp_model.pt ''" "convert '' o"; do
		eval "ckpt $command"
		want 2 "ckpt: '' is no name of a file"
	done
	ckpt strip-module ddp_model.pt none/
	want 2 "ckpt: none/: the output is named like a folder, wanted a file name
hint: ckpt convert ddp_model.pt none/ --shard-size 5GB --strip-module"
	ckpt repair ddp_model.pt none/
	want 2 "ckpt: none/: the output is named like a folder, wanted a file name"
	ckpt cat ddp_model.pt module.head.weight -o none/
	want 2 "ckpt: none/: the output is named like a folder, wanted a file name"
}

@test "what is no pickle is not disassembled without a word" {
	echo '<html>' >page.pt
	ckpt dis page.pt
	want 2 "ckpt: page.pt: +0x0: unknown opcode 0x3c
hint: it is no pickle; 'ckpt info' says what it is"
}

@test "a long path is named in full" {
	long=$(printf 'folder-%.0s' {1..12})
	mkdir "$long"
	cp ddp_model.pt "$long/m.pt"
	ckpt rename -e s/xyz/a/ "$long/m.pt" out.pt
	want 1 "ckpt: $long/m.pt: no key matches, nothing was written
hint: --if-present writes OUT unchanged instead, with exit code 0"
}

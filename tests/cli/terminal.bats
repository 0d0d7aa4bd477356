#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# What is different on a terminal: width and colors.
load common.bash

# on_terminal COLUMNS ARGUMENTS...
on_terminal() { python3 "$here/on_terminal.py" "$1" "$CKPT" "${@:2}"; }

widest() { awk '{ if (length($0) > most) most = length($0) } END { print most + 0 }'; }

@test "tables fit the terminal, and long names are shortened in the middle" {
	unset COLUMNS
	on_terminal 66 ls ddp_trainer.pt >seen
	[ "$(widest <seen)" -le 66 ]
	grep -q '^model.module.s....running_mean  float32  ' seen
	on_terminal 200 ls ddp_trainer.pt | diff - <("$CKPT" ls ddp_trainer.pt) # nothing to fit
	on_terminal 132 stat ddp_trainer.pt >seen
	[ "$(widest <seen)" -le 132 ]
	grep -q '^model[^ ]*\.\.\.[^ ]*  ' seen
	"$CKPT" strip-module -q ddp_trainer.pt plain.pt
	on_terminal 90 diff ddp_trainer.pt plain.pt >seen || true
	grep -q '^  model[^ ]*\.\.\.[^ ]*  *-> model.stem' seen
	on_terminal 50 info ddp_trainer.pt | grep -q "^  history  .*\.\.\..*]$"
	[ "$(COLUMNS=60 on_terminal 200 ls ddp_model.pt | widest)" -le 60 ] # COLUMNS comes first
	COLUMNS=none on_terminal 60 ls ddp_model.pt >seen
	[ "$(widest <seen)" -le 60 ]
	input_is_untouched
}

@test "names of other letters are cut between them" {
	python3 - <<-END
	import sys; sys.path.insert(0, "$CKPT_SOURCE_DIR/tests/bad"); from files import state_dict, tensor, torch_file
	open("m.pt", "wb").write(torch_file(state_dict(**{"\u00e4\u6f22" * 40 + ".weight": tensor()})))
	END
	on_terminal 60 ls m.pt | head -n 1 | iconv -f UTF-8 -t UTF-8 >/dev/null
	on_terminal 60 ls m.pt | grep -q '\.\.\.'
}

@test "a pipe sees what it always saw" {
	for command in "ls ddp_trainer.pt" "stat ddp_trainer.pt" "info ddp_trainer.pt" "help convert" "help"; do
		COLUMNS=40 "$CKPT" $command >narrow
		COLUMNS=400 "$CKPT" $command >wide
		cmp narrow wide
	done
}

@test "help fits the terminal, and says the same" {
	unset COLUMNS
	for command in "" ls convert broadcast scan edit; do
		for columns in 60 80; do
			on_terminal $columns help $command >seen
			# what is one word, or a line to be typed, is left whole
			[ "$(grep -v '^  ckpt \|^usage' seen | widest)" -le $columns ] || { awk "length(\$0) > $columns" seen >&2; return 1; }
			[ "$(tr -s ' \n' '\n' <seen)" = "$("$CKPT" help $command | tr -s ' \n' '\n')" ]
		done
	done
	on_terminal 120 help convert | diff - <("$CKPT" help convert)
	on_terminal 60 help verify | grep -q '^$' # paragraphs stay
}

# what stands in color in $output, and in which
colored() { grep -o $'\033\[[0-9;]*m[^\033]*\033\[0m' <<<"$1" | sed $'s/\033\\[0m//; s/\033\\[//; s/m/ /' ; }

@test "verdicts are in color on a terminal, and nowhere else" {
	unset NO_COLOR COLUMNS; export TERM=xterm
	cp ddp_model.pt bad.pt; printf x | dd of=bad.pt bs=1 seek=2000 conv=notrunc status=none
	printf '\x80\x02cposix\nsystem\nq\x00X\x04\x00\x00\x00trueq\x01\x85q\x02Rq\x03.' >evil.pkl
	run on_terminal 200 scan ddp_model.pt evil.pkl; [ "$status" = 1 ]
	[ "$(colored "$output")" = "32 plain
31 dangerous
31 dangerous" ]
	run on_terminal 200 verify ddp_model.pt bad.pt; [ "$status" = 1 ]
	[[ "$(colored "$output")" = "32 sound"*"31 DAMAGED" ]]
	run on_terminal 200 why ddp_model.pt; [ "$status" = 0 ]
	[ "$(colored "$output")" = "33 possible:
32 mend:     " ]
	run on_terminal 200 diff ddp_model.pt ddp_model.pt
	[ "$(colored "$output")" = "32 is the same as" ]
	run on_terminal 200 diff ddp_model.pt ddp_trainer.pt; echo "$output"; [ "$status" = 1 ]
	[[ "$(colored "$output")" = *"31 is not the same as" ]]
	for command in "scan evil.pkl" "verify ddp_model.pt bad.pt" "why ddp_model.pt" "diff ddp_model.pt ddp_trainer.pt"; do
		"$CKPT" $command >seen || true
		! grep -q $'\033' seen
		on_terminal 200 $command --color never >seen || true
		! grep -q $'\033' seen
		NO_COLOR=1 on_terminal 200 $command >seen || true
		! grep -q $'\033' seen
		TERM=dumb on_terminal 200 $command >seen || true
		! grep -q $'\033' seen
		NO_COLOR='' on_terminal 200 $command >seen || true
		grep -q $'\033' seen
		"$CKPT" $command --color always >seen || true # even in a pipe: it was asked for
		grep -q $'\033' seen
		"$CKPT" $command >plain || true
		sed $'s/\033\\[[0-9]*m//g' seen | sed 's/[0-9.]* s$/T/' | diff - <(sed 's/[0-9.]* s$/T/' plain)
		on_terminal 200 $command --json --color always >seen || true
		! grep -q $'\033' seen
	done
	ckpt scan --color alway evil.pkl
	want 64 "ckpt: scan: --color alway: wanted 'auto', 'always' or 'never'
usage: ckpt scan [OPTIONS] IN [IN...]
hint: did you mean '--color always'?"
}

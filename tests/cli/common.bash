# SPDX-License-Identifier: Apache-2.0
# What the tests of the command share. bats runs every test in a process of its own.
bats_require_minimum_version 1.5.0

: "${CKPT_SOURCE_DIR:=$BATS_TEST_DIRNAME/../..}"
export CKPT=${CKPT:-$CKPT_SOURCE_DIR/build-test/ckpt} # the program, not the function of that name below
[ -x "$CKPT" ] || { echo "$CKPT is not there: build it with scripts/test, or let CKPT name another" >&2; exit 1; }
export LC_ALL=C
# A third of the time of a short command: scripts/test --fast does without.
[ -z "${CKPT_TEST_FAST-}" ] || export ASAN_OPTIONS="${ASAN_OPTIONS-}:detect_leaks=0"
# Not a shim in front of it, which would take longer than most commands.
if [ -n "${CKPT_TEST_PYTHON-}" ]; then
	python3() { "$CKPT_TEST_PYTHON" "$@"; }
	export -f python3
fi
ddp=$CKPT_SOURCE_DIR/tests/fixtures/ddp
here=$CKPT_SOURCE_DIR/tests/cli

setup() {
	[ -z "${CKPT_TEST_DIR-}" ] || mkdir -p "$CKPT_TEST_DIR"
	work=$(mktemp -d "${CKPT_TEST_DIR:-${TMPDIR:-/tmp}}/cli.XXXXXX")
	cd "$work" || return 1
	cp "$ddp/ddp_model.pt" "$ddp/ddp_trainer.pt" .
}

teardown() {
	cd /
	[ -z "${work-}" ] || rm -rf "$work"
}

# ckpt ARGUMENTS...: $status, $output (stdout) and $stderr
ckpt() { run --separate-stderr "$CKPT" "$@"; }

# bounded SECONDS COMMAND...: within that much time of a processor, however many others want it; else it is killed
bounded() (
	ulimit -t "$1"
	exec "${@:2}"
)

# want STATUS STDERR: what the last ckpt has to have said, to the letter. Without STDERR: nothing, but for the note that OUT is
# no plain model yet, which many commands on these files print, and which plain_model.bats holds to the letter.
want() {
	local text=${2-}
	if [ $# = 1 ] && [[ $stderr =~ ^"ckpt: note: "[^$'\n']*$'\n'"hint: for a plain model: "[^$'\n']*$ ]]; then
		stderr=
	fi
	[ "$status" = "$1" ] && [ "$stderr" = "$text" ] && return 0
	printf 'status %s, wanted %s\nstderr:\n%s\nwanted:\n%s\nstdout:\n%s\n' "$status" "$1" "$stderr" "$text" \
		"$output" >&2
	return 1
}

# want_files NAME...: nothing else is in the folder, hidden files included
want_files() {
	local there wanted
	there=$(ls -A | sort)
	wanted=$(printf '%s\n' ddp_model.pt ddp_trainer.pt "$@" | sort)
	[ "$there" = "$wanted" ] || { printf 'there:\n%s\nwanted:\n%s\n' "$there" "$wanted" >&2; return 1; }
}

input_is_untouched() {
	cmp ddp_model.pt "$ddp/ddp_model.pt" && cmp ddp_trainer.pt "$ddp/ddp_trainer.pt"
}

# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
#
# What lies beside a checkout where ckpt itself is worked on: a command that runs python with the torch of a Debian release, and
# real checkpoints. To be sourced, behind packages.sh.

# use_torch SUITE...: sets CKPT_PYTHON, unless it is set, to those that can be had; prints a line for each that cannot. The first
# use of a suite downloads it. Returns 1 if one is missing, 2 if there is no such command.
use_torch() {
	local suite tool=../shared/tools/torch-suite rc=0
	[ -z "${CKPT_PYTHON-}" ] || return 0
	[ -x "$tool" ] || return 2
	tool=$(cd "${tool%/*}" && pwd)/${tool##*/}
	CKPT_PYTHON=
	for suite; do
		if "$tool" "$suite" -c 'import torch' </dev/null >/dev/null; then
			CKPT_PYTHON+="${CKPT_PYTHON:+;}$tool $suite"
		else
			echo "${0##*/}: torch of $suite could not be set up"
			rc=1
		fi
	done
	if [ -n "$CKPT_PYTHON" ]; then export CKPT_PYTHON; else unset CKPT_PYTHON; fi
	return "$rc"
}

# use_real: sets CKPT_REAL, unless it is set.
use_real() {
	[ -n "${CKPT_REAL-}" ] || [ ! -d ../shared/real ] || export CKPT_REAL=$PWD/../shared/real
}

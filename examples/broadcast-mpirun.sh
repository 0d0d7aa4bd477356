#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Usage: broadcast-mpirun.sh CHECKPOINT FOLDER [MPIRUN OPTION...]
#
# One copy of the checkpoint in FOLDER on every node of the allocation; prints the path to use: the copy, or
# CHECKPOINT itself if it could not be staged.
set -u
source=$1 folder=$2
shift 2
staged=$folder/$(basename "$source")

# shellcheck disable=SC2016 # for the shell on the node
if mpirun -N 1 "$@" sh -c 'mkdir -p "$0" && exec "${CKPT:-ckpt}" broadcast "$1" "$2"' "$folder" "$source" "$staged" >&2; then
	echo "$staged"
else
	echo "broadcast failed, using $source" >&2
	echo "$source"
fi

#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# broadcast-torchrun.sh CKPT NODES HEAD - on every node: stage CKPT on the node's own disk, then train from there.
# The ranks meet in a folder that all nodes see; or, where CKPT_TOKEN is set, the same on all nodes, at the port
# behind the one that torchrun has on the first node.
set -euo pipefail
ckpt=$1 nodes=$2 head=$3
folder=${CKPT_RDZV_DIR:-$HOME/.ckpt-rdzv} meet=env
staged=/dev/shm/$(basename "$ckpt")
common=(--nnodes "$nodes" --rdzv-backend c10d --rdzv-endpoint "$head:29400")

if [ -z "${CKPT_TOKEN-}" ]; then
	mkdir -p "$folder"
	meet=file:$folder
fi
# one process for each node: it carries the bytes over the node's first GPU if all have one, else over TCP.
# Without the broadcast the job still starts, and reads from the shared file system
torchrun --no-python --nproc-per-node 1 "${common[@]}" \
	ckpt broadcast --rdzv "$meet" "$ckpt" /dev/shm/ || staged=$ckpt
exec torchrun --nproc-per-node 8 "${common[@]}" train.py --resume "$staged"

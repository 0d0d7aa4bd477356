#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# broadcast-torchrun.sh CKPT NODES HEAD - on every node: stage CKPT on the node's own disk, then train from there.
# Needs a folder that all nodes see, where the ranks meet. Where there is none: export the same CKPT_TOKEN on
# all nodes and take --rdzv env, by which they meet at the port behind torchrun's own.
set -euo pipefail
ckpt=$1 nodes=$2 head=$3
meet=${CKPT_RDZV_DIR:-$HOME/.ckpt-rdzv}
staged=/dev/shm/$(basename "$ckpt")
common=(--nnodes "$nodes" --rdzv-backend c10d --rdzv-endpoint "$head:29400")

mkdir -p "$meet"
# one process for each node: it carries the bytes over the node's first GPU if all have one, else over TCP.
# Without the broadcast the job still starts, and reads from the shared file system
torchrun --no-python --nproc-per-node 1 "${common[@]}" \
	ckpt broadcast --rdzv "file:$meet" "$ckpt" /dev/shm/ || staged=$ckpt
exec torchrun --nproc-per-node 8 "${common[@]}" train.py --resume "$staged"

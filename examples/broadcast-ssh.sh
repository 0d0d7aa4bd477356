#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# broadcast-ssh.sh CHECKPOINT FOLDER NODE... - from a shell that reaches all nodes by ssh, without a launcher: one copy of
# the checkpoint in FOLDER on every node. Prints the path to load: the copy, or CHECKPOINT itself if it failed.
#
#   path=$(broadcast-ssh.sh /nfs/step900.pt /dev/shm/ckpt node0 node1 node2)
#
# The first node reads CHECKPOINT and listens at port $CKPT_RDZV_PORT (29400): the others have to reach it by that name, and
# each other at ports that the system chooses. ssh must not ask for passwords.
#
# TIME-OUTS: nodes wait 60 s for each other, and give up after 60 s without a byte.
# WHEN IT FAILS the exit status is that of 'ckpt broadcast', and no node has a copy. If this script is ended, so are the
# ssh, and the nodes find that out when one of them has ended or is silent.
# AFTERWARDS the copies stay; ssh NODE ckpt broadcast --evict FOLDER removes them, where nobody has them open.
set -u
source=${1:?usage: broadcast-ssh.sh CHECKPOINT FOLDER NODE...} folder=${2:?} status=0 pids=()
shift 2
nodes=("$@")
# the token goes to standard input, not to a command line that others can see
token=$(od -An -N32 -tx1 /dev/urandom | tr -d ' \n')
for rank in "${!nodes[@]}"; do
	printf -v command 'read -r CKPT_TOKEN && export CKPT_TOKEN && exec %q broadcast --launcher none --rank %d --world-size %d --rdzv %q \
		--init-timeout 60 --timeout 60 --mkdir %q %q' "${CKPT:-ckpt}" "$rank" "${#nodes[@]}" \
		"tcp://${nodes[0]#*@}:${CKPT_RDZV_PORT:-29400}" "$source" "$folder/"
	ssh -o BatchMode=yes "${nodes[rank]}" "$command" <<<"$token" >&2 &
	pids+=($!)
done
[ "${#nodes[@]}" -gt 0 ] || status=64
trap 'kill "${pids[@]}"; exit 130' INT TERM
for pid in "${pids[@]}"; do
	wait "$pid" || status=$?
done
if [ "$status" = 0 ]; then
	echo "${folder%/}/$(basename "$source")"
else
	echo "broadcast failed, using $source" >&2
	echo "$source"
fi
exit "$status"

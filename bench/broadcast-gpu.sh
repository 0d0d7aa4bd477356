#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# broadcast-gpu.sh [OPTION...] - ckpt broadcast over NCCL, on a machine with at least one GPU: speed, several ranks on
# one GPU, and what happens when something fails. Prints one plain table; what cannot be run is in it, with the reason.
# Exits 1 if something went wrong or a goal was not met, 0 else: also without a GPU.
#
#   --ckpt PATH        the command (default: build/ckpt)
#   --example PATH     examples/broadcast_to_gpus, built (default: beside the command, in examples/)
#   --dir FOLDER       for the source, 2 times --size (default: a new one in /tmp)
#   --shm FOLDER       a tmpfs to stage to (default: /dev/shm)
#   --size 4G          of the source
#   --runs 3           of which the median counts
#   --timeout 15       seconds of patience with a silent rank
#   --transport nccl   another one, to try the script itself: self leaves out all but one rank, and the goals
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
ckpt=$here/../build/ckpt example='' dir='' shm=/dev/shm size=4G runs=3 timeout=15 transport=nccl

while [ $# -gt 0 ]; do
	case $1 in
		--ckpt | --example | --dir | --shm | --size | --runs | --timeout | --transport)
			[ $# -gt 1 ] || { echo "broadcast-gpu.sh: $1 needs a value" >&2; exit 64; }
			declare "${1#--}=$2"
			shift 2 ;;
		*) sed -n '4,17s/^# \{0,1\}//p' "$0"; exit 64 ;;
	esac
done
[ -x "$ckpt" ] || { echo "broadcast-gpu.sh: there is no $ckpt: build it, or give --ckpt" >&2; exit 64; }
ckpt=$(realpath "$ckpt")
example=${example:-$(dirname "$ckpt")/examples/example_broadcast_to_gpus}
work=$(mktemp -d "${dir:-/tmp}/ckpt-gpu-XXXXXX")
staged=$(mktemp -d "$shm/ckpt-gpu-XXXXXX")
mounted=
bad=0
pids=()

# shellcheck disable=SC2317 # by trap
clean_up() {
	for pid in "${pids[@]}"; do kill -KILL "$pid" 2>/dev/null || true; done
	[ -z "$mounted" ] || umount "$mounted" || true
	rm -rf "$work" "$staged"
}
trap clean_up EXIT
trap 'exit 130' INT TERM

# ---- the table ----

row() { printf '%-52s %9s %9s %9s  %s\n' "$@"; }
skip() { row "$1" - - - "skipped: $2"; }
wrong() { row "$1" - - - "WRONG: $2"; bad=1; }
fine() { row "$1" - - - "${2:-ok}"; }

# at_least FIGURE GOAL: as decimal numbers.
at_least() { awk -v a="$1" -v b="$2" 'BEGIN { exit !(a >= b) }'; }

# ---- the machine ----

gpus=0
nccl=0

facts() {
	local details
	details=$("$ckpt" version -v)
	echo "date      $(date -u +%Y-%m-%dT%H:%MZ)"
	echo "machine   $(uname -srm), $(nproc) processors, $(awk '/MemTotal/ { printf "%.0f GiB", $2 / 1048576 }' /proc/meminfo)"
	sed -n 's/^  \(cuda\|nccl\) *\(.*\)/\1      \2/p' <<<"$details"
	if command -v nvidia-smi >/dev/null; then
		nvidia-smi --query-gpu=index,name,driver_version,memory.total,compute_mode,mig.mode.current \
			--format=csv,noheader | sed 's/^/gpu       /' || true
	fi
	echo "mps       $(command -v nvidia-cuda-mps-control || echo not found)"
	echo "source    $size in $work ($(stat -f -c %T "$work")), staged to $staged ($(stat -f -c %T "$staged"))"
	gpus=$(sed -n 's/^  cuda .* \([0-9]*\) GPUs\{0,1\}$/\1/p' <<<"$details")
	gpus=${gpus:-0}
	nccl=$(sed -n 's/^  nccl *\([0-9]*\)\.\([0-9]*\)\.[0-9]* *.*/\1 \2/p' <<<"$details" | awk '{ print $1 * 100 + $2 }')
	nccl=${nccl:-0}
}

# Why nothing can be run over NCCL here, if so.
no_gpu() {
	[ "$transport" = nccl ] || return 1
	if [ "$gpus" = 0 ]; then
		echo "no GPU"
	elif [ "$nccl" = 0 ]; then
		echo "no NCCL"
	else
		return 1
	fi
}

# The same for what is of no use over another transport.
no_gpu_at_all() {
	[ "$gpus" = 0 ] || return 1
	echo "no GPU"
}

# Why no several ranks.
no_ranks() {
	no_gpu && return
	[ "$transport" != nccl ] || return 1
	echo "transport $transport is tried with one rank"
}

# ---- one rank ----

# Bytes in memory, so that no disk is measured.
make_source() {
	source=$work/source
	head -c "$(numfmt --from=iec "$size")" /dev/urandom >"$source"
	cat "$source" >/dev/null
}

number() { sed -n 's/.*"'"$1"'":\([0-9.]*\).*/\1/p'; }

# speed OPTION...: GB/s and all seconds of the median run.
speed() {
	local all=() start json
	for _ in $(seq "$runs"); do
		rm -rf "${staged:?}"/*
		start=$EPOCHREALTIME
		json=$("$ckpt" broadcast --transport "$transport" --timeout "$timeout" --no-sync -q --json "$@") || return
		all+=("$(awk -v n="$(number nbytes <<<"$json")" -v s="$(number seconds <<<"$json")" -v a="$start" -v b="$EPOCHREALTIME" \
			'BEGIN { printf "%.2f %.2f", n / s / 1e9, b - a }')")
	done
	printf '%s\n' "${all[@]}" | sort -n | sed -n "$(((runs + 1) / 2))p"
}

# one_rank LABEL GOAL OPTION...: the goal is for the best of all rows of this kind.
one_rank() {
	local label=$1 goal=$2 found
	shift 2
	if found=$(speed "$@" 2>"$work/err"); then
		row "$label" "${found% *}" "${found#* }" "$goal" ''
		if ! at_least "$best" "${found% *}"; then best=${found% *}; fi
	else
		wrong "$label" "$(tail -n 1 "$work/err")"
	fi
}

judge() {
	[ "$transport" = nccl ] || return 0
	if at_least "$best" "$2"; then row "$1" "$best" - "$2" met; else row "$1" "$best" - "$2" 'NOT MET'; bad=1; fi
}

one_rank_all() {
	local why chunk threads
	if why=$(no_gpu); then
		skip "1 rank, GPU only (--target null)" "$why"
		skip "1 rank, to stay there (--target gpu)" "$why"
		skip "1 rank, to $shm" "$why"
		return
	fi
	make_source
	plain_copies
	goal=$(awk -v p="$pinned" 'BEGIN { print p ? p * 0.6 : 20 }')
	best=0
	one_rank "1 rank, GPU only" "$goal" --target null "$source"
	judge "1 rank, GPU only" "$goal"
	best=0
	if [ "$transport" = nccl ]; then
		one_rank "1 rank, to stay there" "$goal" --target gpu "$source"
		transport=self one_rank "1 rank, to stay there, without NCCL" "$goal" --target gpu "$source"
	fi
	for chunk in 4M 16M; do for threads in 4 8 12; do
		[ "$transport" != nccl ] || one_rank "1 rank, to stay there, chunk $chunk, io-threads $threads" "$goal" \
			--chunk "$chunk" --io-threads "$threads" --target gpu "$source"
	done; done
	judge "1 rank, to stay there: best" "$goal"
	best=0
	for threads in 4 8; do
		one_rank "1 rank, to $shm, io-threads $threads" "$copied" --io-threads "$threads" "$source" "$staged/out"
	done
	[ "$transport" != nccl ] || transport=self one_rank "1 rank, to $shm, without NCCL" "$copied" "$source" "$staged/out"
	judge "1 rank, to $shm: best, beside cp" "$copied"
	cmp "$source" "$staged/out" || wrong "1 rank, to $shm" "other bytes"
}

# What a copy costs that does nothing else: of page-locked memory to the GPU, and of the source by cp.
plain_copies() {
	local start
	pinned=$(python3 -c '
import time, torch
host, there = torch.empty(1 << 28, dtype=torch.uint8, pin_memory=True), torch.empty(1 << 28, dtype=torch.uint8, device="cuda")
best = 0
for _ in range(5):
    torch.cuda.synchronize()
    start = time.perf_counter()
    for _ in range(8):
        there.copy_(host, non_blocking=True)
    torch.cuda.synchronize()
    best = max(best, (8 << 28) / (time.perf_counter() - start) / 1e9)
print("%.1f" % best)' 2>/dev/null) || pinned=
	if [ -n "$pinned" ]; then
		row "page-locked memory to the GPU (torch)" "$pinned" - - ""
	else
		skip "page-locked memory to the GPU (torch)" "python3 has no torch that sees a GPU"
	fi
	cp "$source" "$staged/out"
	rm "$staged/out"
	start=$EPOCHREALTIME
	cp "$source" "$staged/out"
	copied=$(awk -v n="$(stat -c %s "$source")" -v a="$start" -v b="$EPOCHREALTIME" 'BEGIN { printf "%.2f", n / (b - a) / 1e9 }')
	rm "$staged/out"
	row "cp to $shm" "$copied" - - ""
}

# ---- several ranks ----

# As if every rank were on a host of its own: NCCL refuses two ranks on one GPU, and then talks by sockets.
hosts=(NCCL_SOCKET_IFNAME=lo NCCL_NET=Socket NCCL_IB_DISABLE=1 NCCL_MNNVL_ENABLE=0 NCCL_CUMEM_ENABLE=0 NCCL_MAX_CTAS=4)

# start MODE N ARGUMENT...: ranks in the background, in pids. MODE: hosts (all on GPU 0), shared (on GPU 0, one host), gpus.
start() {
	local mode=$1 n=$2 r gpu variables
	shift 2
	pids=()
	rendezvous=$(mktemp -d "$work/rdzv-XXXXXX")
	for ((r = 0; r < n; r++)); do
		gpu=0 variables=()
		case $mode in
			hosts) variables=("${hosts[@]}" "NCCL_HOSTID=host$r") ;;
			shared) variables=(NCCL_MULTI_RANK_GPU_ENABLE=1 NCCL_MAX_CTAS=4) ;;
			gpus) gpu=$r ;;
		esac
		env "${variables[@]}" "$ckpt" broadcast --transport "$transport" --rank "$r" --world-size "$n" --local-rank "$r" \
			--rdzv "file:$rendezvous" --job-key "${rendezvous##*/}" --gpu "$gpu" --timeout "$timeout" --no-sync \
			"$@" >"$work/out.$r" 2>"$work/err.$r" &
		pids+=($!)
	done
}

# The exit statuses of all, "0 0 7".
statuses() {
	local all=() pid rc
	for pid in "${pids[@]}"; do
		rc=0
		wait "$pid" 2>/dev/null || rc=$?
		all+=("$rc")
	done
	pids=()
	echo "${all[*]}"
}

# expect LABEL STATUSES: of all ranks that were started.
expect() {
	local began=$SECONDS found
	statuses >"$work/statuses"
	found=$(cat "$work/statuses")
	if [ "$found" = "$2" ]; then
		fine "$1" "ok: exit $found, $((SECONDS - began)) s"
	else
		wrong "$1" "exit $found, wanted $2: $(tail -q -n 1 "$work"/err.* | head -n 1)"
	fi
}

several() {
	local label=$1 mode=$2 n=$3 r zeros=0 found
	rm -rf "${staged:?}"/*
	start "$mode" "$n" --json "$small" "$staged/out.%r"
	for ((r = 1; r < n; r++)); do zeros+=' 0'; done
	expect "$label" "$zeros"
	for ((r = 0; r < n; r++)); do
		cmp "$small" "$staged/out.$r" || wrong "$label" "rank $r has other bytes"
	done
	found=$(awk -v n="$(number nbytes <"$work/out.0")" -v s="$(number seconds <"$work/out.0")" 'BEGIN { if (s) printf "%.2f %.2f", n / s / 1e9, s }')
	row "$label" "${found% *}" "${found#* }" - "$(stat -c %s "$small") bytes to each rank"
}

several_all() {
	local why n
	if why=$(no_ranks); then
		skip "2 to 4 ranks on one GPU, as separate hosts" "$why"
		skip "2 ranks on one GPU, one host" "$why"
		skip "ranks on GPUs of their own" "$why"
		return
	fi
	for n in 2 3 4; do several "$n ranks on one GPU, as separate hosts" hosts "$n"; done
	if [ "$nccl" -ge 230 ]; then
		several "2 ranks on one GPU, one host" shared 2
	else
		skip "2 ranks on one GPU, one host" "needs NCCL 2.30"
	fi
	if [ "$gpus" -ge 2 ]; then
		for n in 2 4 8; do [ "$n" -gt "$gpus" ] || several "$n ranks on $n GPUs" gpus "$n"; done
	else
		skip "ranks on GPUs of their own" "there is 1 GPU"
	fi
}

# ---- failures ----

# until_read PID: it has read a good part of the source, or is over.
until_read() {
	local read
	while read=$(awk '/^rchar/ { print $2 }' "/proc/$1/io" 2>/dev/null) && [ -n "$read" ]; do
		[ "$read" -lt $((200 << 20)) ] || return 0
		sleep 0.01
	done
	return 1
}

# in_the_middle LABEL STATUSES COMMAND...: COMMAND while the ranks carry. Two ranks on one GPU.
in_the_middle() {
	local label=$1 wanted=$2
	shift 2
	start hosts 2 --target null "$victim"
	if until_read "${pids[0]}"; then
		"$@"
		expect "$label" "$wanted"
	else
		statuses >/dev/null
		skip "$label" "it was over too soon: a larger --size"
	fi
}

# shellcheck disable=SC2317 # by in_the_middle
kill_rank() { kill "$1" "${pids[1]}"; }

# The timeout, 2 s in which the abort is announced, 10 s in which NCCL may come back from it.
stop_rank() {
	local stopped=${pids[1]} began=$SECONDS rc=0
	kill -STOP "$stopped"
	wait "${pids[0]}" || rc=$?
	kill -KILL "$stopped"
	wait "$stopped" 2>/dev/null || true
	pids=()
	if [ "$rc" = 7 ] && [ $((SECONDS - began)) -le $((timeout + 20)) ]; then
		fine "a rank is stopped (kill -STOP)" "ok: exit 7, $((SECONDS - began)) s"
	else
		wrong "a rank is stopped (kill -STOP)" "exit $rc after $((SECONDS - began)) s, wanted 7 within $((timeout + 20)) s"
	fi
}

full_tmpfs() {
	local label="a rank's destination is full"
	mkdir "$work/full" "$work/full/0" "$work/full/1"
	if ! mount -t tmpfs -o size=4m tmpfs "$work/full/1" 2>/dev/null; then
		skip "$label" "no tmpfs can be mounted: not root"
		return
	fi
	mounted=$work/full/1
	start hosts 2 "$small" "$work/full/%r/out"
	expect "$label" "4 4"
	umount "$mounted"
	mounted=
}

failures() {
	local why
	if why=$(no_ranks); then
		for label in "a rank is killed (kill -9)" "a rank is stopped (kill -STOP)" "a rank's destination is full" "the source is cut short"; do
			skip "$label" "$why"
		done
		return
	fi
	victim=$source
	in_the_middle "a rank is killed (kill -9)" "7 137" kill_rank -KILL
	start hosts 2 --target null "$victim"
	if until_read "${pids[0]}"; then
		stop_rank
	else
		statuses >/dev/null
		skip "a rank is stopped (kill -STOP)" "it was over too soon: a larger --size"
	fi
	full_tmpfs
	victim=$work/victim
	cp "$source" "$victim"
	in_the_middle "the source is cut short" "3 3" truncate -s 1M "$victim"
	rm "$victim"
}

# ---- with other programs ----

sanitizer() {
	local label="compute-sanitizer memcheck" why
	if why=$(no_gpu_at_all); then
		skip "$label" "$why"
	elif ! command -v compute-sanitizer >/dev/null; then
		skip "$label" "not found"
	elif compute-sanitizer --tool memcheck --report-api-errors no --error-exitcode 99 "$ckpt" broadcast --transport "$transport" -q --target null "$small" \
		>"$work/sanitizer" 2>&1; then
		fine "$label"
	else
		wrong "$label" "$(tail -n 1 "$work/sanitizer")"
	fi
}

run_example() {
	local label="examples/broadcast_to_gpus" why
	if why=$(no_gpu_at_all); then
		skip "$label" "$why"
	elif [ ! -x "$example" ]; then
		skip "$label" "not built: $example"
	elif "$example" "$here/../tests/fixtures/ddp/ddp_model.pt" >"$work/example" 2>&1; then
		fine "$label" "ok: $(wc -l <"$work/example") lines"
	else
		wrong "$label" "$(tail -n 1 "$work/example")"
	fi
}

facts
echo
row case GB/s 'all s' goal ''
one_rank_all
if ! no_gpu >/dev/null; then
	small=$work/small
	head -c $((256 << 20)) "$source" >"$small"
fi
several_all
failures
sanitizer
run_example
exit "$bad"

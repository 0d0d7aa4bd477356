# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
#
# Debian packages that ckpt needs, and how the scripts here get them. To be sourced.

# What the scripts that source this file use:
# shellcheck disable=SC2034
BUILD_PACKAGES=(
	cmake ninja-build gcc libc6-dev pkg-config
	libzip-dev libdeflate-dev zlib1g-dev libzstd-dev libpcre2-dev libjansson-dev nettle-dev
)
# shellcheck disable=SC2034
TEST_PACKAGES=(libcmocka-dev bats python3 python3-dev python3-pytest python3-numpy unzip xfsprogs zipcmp ziptool zstd strace libopenmpi-dev openmpi-bin libucx-dev)
# What talks to MPI, for which mpicc of another MPI does as well, and to UCX.
# shellcheck disable=SC2034
BROADCAST_PACKAGES=(libopenmpi-dev libucx-dev)
# shellcheck disable=SC2034
TORCH_PACKAGES=(python3-torch)

# die MESSAGE: one line on stderr, exit 2.
die() {
	printf '%s: %s\n' "${0##*/}" "$*" >&2
	exit 2
}

# missing_packages PACKAGE...: prints those that are not installed, one per line.
missing_packages() {
	local package
	for package; do
		[ "$(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null)" = installed ] ||
			printf '%s\n' "$package"
	done
}

# try_packages PACKAGE...: installs what is missing. On failure prints the reason in one line
# on stderr and returns 1. Needs no rights and does nothing where all is there already.
try_packages() {
	local missing=() root=() log
	if ! command -v dpkg-query >/dev/null; then
		echo "${0##*/}: no dpkg here; these Debian packages are taken to be there: $*"
		return 0
	fi
	# No process substitution: a bare chroot has no /dev/fd.
	read -ra missing <<<"$(missing_packages "$@" | tr '\n' ' ')"
	[ ${#missing[@]} -gt 0 ] || return 0
	echo "${0##*/}: installing: ${missing[*]}"
	if [ "$(id -u)" != 0 ]; then
		if ! command -v sudo >/dev/null; then
			echo "${0##*/}: not root, and no sudo: as root run: apt-get install ${missing[*]}" >&2
			return 1
		fi
		root=(sudo)
	fi
	log=$(mktemp)
	if ! apt_get update >"$log" 2>&1; then
		apt_failed update "$log"
	elif ! apt_get install -y --no-install-recommends "${missing[@]}" >>"$log" 2>&1; then
		apt_failed install "$log"
	else
		rm -f "$log"
		return 0
	fi
	return 1
}

# For try_packages, whose `root` (empty, or sudo) it uses.
apt_get() {
	"${root[@]}" env DEBIAN_FRONTEND=noninteractive LC_ALL=C.UTF-8 apt-get -qq "$@" </dev/null
}

# The line of apt's output that says most; a mirror that did not answer is only a warning to apt.
apt_failed() {
	local why mirror
	why=$(grep -m 1 '^E: ' "$2" || tail -n 1 "$2")
	mirror=$(grep -m 1 '^W: Failed to fetch' "$2" || true)
	echo "${0##*/}: apt-get $1 failed: ${why#E: }${mirror:+ (${mirror#W: })}" >&2
	rm -f "$2"
}

# need_packages PACKAGE...: as try_packages, but ends the script on failure.
need_packages() {
	try_packages "$@" || exit 2
}

# configure_and_build FOLDER [CMAKE-OPTION...]: quiet when all is well, the whole log when not.
configure_and_build() {
	local dir=$1 log rc=0
	shift
	if [ ! -e "$dir/CMakeCache.txt" ] && command -v ninja >/dev/null; then
		set -- -G Ninja "$@"
	fi
	if [ ! -e "$dir/CMakeCache.txt" ] && command -v ccache >/dev/null; then
		set -- -DCMAKE_C_COMPILER_LAUNCHER=ccache "$@"
	fi
	mkdir -p "$dir"
	log=$dir/build.log
	cmake -S . -B "$dir" "$@" >"$log" 2>&1 && cmake --build "$dir" -j "$(nproc)" >>"$log" 2>&1 || rc=$?
	[ "$rc" = 0 ] && return 0
	cat "$log" >&2
	die "the build in '$dir' failed; its output is above"
}

# run_tests FOLDER RESULTS.xml [CTEST-OPTION...]: says what fails, and one line for each test. A test counts as two processes, one that
# waits most of the time as one (tests/CMakeLists.txt).
run_tests() {
	local dir=$1 results=$2
	shift 2
	ctest --test-dir "$dir" --output-on-failure --no-tests=error -j $((2 * $(nproc))) "$@" \
		--output-junit "$PWD/$results" --test-output-size-passed 4194304
}

# fetch_safetensors FOLDER: the packages that judge safetensors files and shard sets, with what they need, unpacked in FOLDER, which becomes
# CKPT_SAFETENSORS. Returns 1 where pip cannot fetch them.
fetch_safetensors() {
	local folder=$PWD/$1 wheel
	if [ ! -d "$folder/huggingface_hub" ]; then
		mkdir -p "$folder"
		python3 -m pip download --quiet --no-deps --only-binary=:all: --dest "$folder" safetensors huggingface_hub \
			filelock fsspec packaging pyyaml tqdm typing-extensions requests httpx >/dev/null 2>&1 || return 1
		for wheel in "$folder"/*.whl; do
			python3 -m zipfile -e "$wheel" "$folder" || return 1
		done
	fi
	export CKPT_SAFETENSORS=$folder
}

# SPDX-License-Identifier: Apache-2.0
# A strip of 200 MB that is ended at random moments.
load common

setup_file() {
	[ -z "${CKPT_TEST_DIR-}" ] || mkdir -p "$CKPT_TEST_DIR"
	large_dir=$(mktemp -d "${CKPT_TEST_DIR:-${TMPDIR:-/tmp}}/large.XXXXXX")
	export large_dir
	python3 "$BATS_TEST_DIRNAME/make_large.py" 200 "$large_dir/large.pt"
	sha=$(sha256sum <"$large_dir/large.pt")
	export sha
}

teardown_file() {
	rm -rf "$large_dir"
}

# end_at SIGNAL DELAY: starts a strip, sends SIGNAL; sets $code
end_at() {
	"$CKPT" strip-module "$large_dir/large.pt" out.pt >stdout 2>stderr &
	local pid=$!
	sleep "$2"
	kill "-$1" $pid 2>/dev/null || true
	code=0
	wait $pid || code=$?
	rm -f stdout
}

# What must hold after SIGNAL (number) came: code 128+n and no trace, or it was done before.
check() {
	if [ "$code" = 0 ]; then
		[ -f out.pt ] && "$CKPT" ls -q out.pt >/dev/null && rm out.pt
	else
		[ "$code" = $((128 + $1)) ] || { echo "exit status $code after signal $1"; cat stderr; return 1; }
		interrupted=$((interrupted + 1))
	fi
	[ ! -e out.pt ]
	rm -f stderr
	want_files
}

each_moment() {
	interrupted=0
	for delay in 0.001 0.005 0.01 0.02 0.03 0.05 0.08 0.12 0.2 0.3 0.5; do
		end_at "$1" "$delay"
		check "$2"
	done
	echo "$interrupted of 11 were interrupted"
	[ "$interrupted" -gt 0 ]
	[ "$(sha256sum <"$large_dir/large.pt")" = "$sha" ]
}

@test "SIGTERM leaves nothing behind" { each_moment TERM 15; }

# background jobs of a shell without job control ignore SIGINT: python gives it back
@test "SIGINT leaves nothing behind" {
	interrupted=0
	for delay in 0.01 0.03 0.05 0.1 0.2 0.3; do
		code=0
		python3 -c 'import signal, subprocess, sys, time
p = subprocess.Popen(sys.argv[2:], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                     preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL))
time.sleep(float(sys.argv[1]))
p.send_signal(signal.SIGINT)
rc = p.wait()
sys.exit(128 - rc if rc < 0 else rc)' "$delay" "$CKPT" strip-module "$large_dir/large.pt" out.pt || code=$?
		touch stderr
		check 2
	done
	[ "$interrupted" -gt 0 ]
	[ "$(sha256sum <"$large_dir/large.pt")" = "$sha" ]
}

@test "SIGHUP leaves nothing behind" { end_at HUP 0.05; interrupted=0; check 1; }

@test "kill -9 leaves no OUT, or a whole one" {
	interrupted=0
	for delay in 0.001 0.01 0.03 0.05 0.08 0.12 0.2 0.3; do
		end_at KILL "$delay"
		if [ "$code" = 0 ]; then
			"$CKPT" ls -q out.pt >/dev/null
		else
			[ "$code" = 137 ]
			interrupted=$((interrupted + 1))
			# killed in the last moment, behind the rename: then it is there, and whole
			[ ! -e out.pt ] || unzip -tq out.pt >/dev/null
		fi
		rm -f out.pt .out.pt.*.ckpt-tmp stderr
		want_files
	done
	[ "$interrupted" -gt 0 ]
	[ "$(sha256sum <"$large_dir/large.pt")" = "$sha" ]
}

@test "a file that is to be replaced survives a signal" {
	echo old >out.pt
	"$CKPT" strip-module -f "$large_dir/large.pt" out.pt >/dev/null 2>&1 &
	pid=$!
	sleep 0.03
	kill -TERM $pid
	code=0
	wait $pid || code=$?
	if [ "$code" != 0 ]; then
		[ "$code" = 143 ]
		[ "$(cat out.pt)" = old ]
	fi
	want_files out.pt
}

@test "a signal that is ignored stays ignored" {
	bash -c 'trap "" HUP; "$0" strip-module "$1" out.pt >/dev/null & sleep 0.03; kill -HUP $!; wait $!' "$CKPT" \
		"$large_dir/large.pt"
	"$CKPT" ls -q out.pt
}

@test "the large file is what it should be" {
	ckpt strip-module "$large_dir/large.pt" out.pt; want 0
	python3 - "$large_dir/large.pt" <<-'END'
	import hashlib, sys, zipfile
	def digest(path):
	    archive, h = zipfile.ZipFile(path), hashlib.sha256()
	    name = next(n for n in archive.namelist() if n.endswith("/data/0"))
	    with archive.open(name) as stream:
	        for block in iter(lambda: stream.read(1 << 20), b""):
	            h.update(block)
	    return h.hexdigest()
	assert digest(sys.argv[1]) == digest("out.pt")
	END
}

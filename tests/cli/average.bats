# SPDX-License-Identifier: Apache-2.0
# What numbers average writes is compared with numpy in tests/tasks.
load common

# models NAME...: each has other weights than ddp_model.pt, and all else as it
models() {
	local name n=0
	for name; do
		python3 - "$name" $((++n)) <<-'END'
			import struct, sys, zipfile
			out, n = sys.argv[1], int(sys.argv[2])
			with zipfile.ZipFile("ddp_model.pt") as old, zipfile.ZipFile(out, "w") as new:
			    for info in old.infolist():
			        data = old.read(info)
			        if "/data/" in info.filename and len(data) > 8:
			            count = len(data) // 4
			            data = struct.pack("<%df" % count, *(x * n + n for x in struct.unpack("<%df" % count, data)))
			        new.writestr(info.filename, data)
		END
	done
}

@test "average says what it did, and keeps the container" {
	models a.pt b.pt c.pt
	mkdir out && ckpt average a.pt b.pt c.pt out/a.pt; want 0
	[[ $output = "12 tensors averaged, "*" written in "* ]]
	ckpt diff a.pt out/a.pt
	[ "$status" = 1 ]
	[[ $output != *num_batches_tracked* ]]
	ckpt average -n a.pt b.pt c.pt not; want 0
	[[ $output = "12 tensors averaged, "*" would be written (dry run)" ]]
	[ ! -e not ]
	ckpt average -q --weights 0,1,0 a.pt b.pt c.pt second.pt; want 0
	ckpt diff b.pt second.pt; want 0
	ckpt average -q --ema 0 a.pt b.pt c.pt third.pt; want 0
	ckpt diff c.pt third.pt; want 0
	[ "$(ls)" = "$(printf '%s\n' a.pt b.pt c.pt ddp_model.pt ddp_trainer.pt out second.pt third.pt)" ]
}

@test "average takes one file several times, and writes over no input" {
	ckpt average ddp_model.pt ddp_model.pt same.pt; want 0
	ckpt diff ddp_model.pt same.pt; want 0
	models a.pt b.pt
	ln -s b.pt link.pt
	before=$(cat a.pt b.pt | sha256sum)
	for out in a.pt b.pt ./b.pt link.pt; do
		ckpt average -f a.pt b.pt $out
		want 2 "ckpt: ${out/link/b}: the output is the input itself; name another file" ||
			want 2 "ckpt: $out: the output is the input itself; name another file"
	done
	echo text >other.pt
	ckpt average a.pt b.pt other.pt
	want 2 "ckpt: other.pt: the output exists already
hint: -f replaces it"
	[ "$before" = "$(cat a.pt b.pt | sha256sum)" ]
}

@test "a forgotten OUT costs no input: nobody is told that -f replaces it" {
	models a.pt "b b.pt" c.pt
	before=$(cat a.pt b?b.pt c.pt | sha256sum)
	ckpt average --others last a.pt "b b.pt" c.pt
	want 2 "ckpt: c.pt: it is there, and a checkpoint like the inputs: the last operand is OUT, which seems to be missing
hint: ckpt average --others last a.pt 'b b.pt' c.pt averaged.pt"
	line=${stderr##*hint: }
	eval "${line/#ckpt/\"\$CKPT\"}"
	[ -e averaged.pt ]
	ckpt average a.pt c.pt --weights 1,2,3 "b b.pt" averaged.pt
	[ "$status" = 2 ]
	[[ $stderr = *"hint: ckpt average --weights 1,2,3 a.pt c.pt 'b b.pt' averaged.pt averaged-2.pt" ]]
	[ "$before" = "$(cat a.pt b?b.pt c.pt | sha256sum)" ]
	ckpt average -qf a.pt c.pt averaged.pt; want 0
}

@test "a dry run of average needs no OUT" {
	models a.pt b.pt c.pt
	for line in "a.pt b.pt" "--weights 1,2 a.pt b.pt" "a.pt b.pt c.pt" "--weights 1,2,3 a.pt b.pt c.pt" \
		"--weights 1,2 a.pt b.pt new.pt"; do
		ckpt average -n $line
		note=
		[[ $line != *c.pt ]] || note="ckpt: note: c.pt exists, so it is taken for an input; a run that is not dry wants OUT behind it"
		want 0 "$note"
		[[ $output = "12 tensors averaged, "*" would be written (dry run)" ]]
	done
	ckpt average a.pt b.pt; [ "$status" = 2 ] || [ "$status" = 64 ]
	want_files a.pt b.pt c.pt
}

@test "average names the first thing that does not match, and counts" {
	models a.pt
	ckpt cast -q bf16 a.pt half.pt
	ckpt average a.pt half.pt out.pt
	want 2 "ckpt: half.pt: 'module.stem.0.weight' is bfloat16 [8, 3, 3, 3], in a.pt it is float32 [8, 3, 3, 3] (12 differences in all)
hint: 'ckpt diff --quick A B' lists all differences"
	ckpt strip-module -q a.pt plain.pt
	ckpt average a.pt plain.pt out.pt
	[ "$status" = 2 ]
	[[ $stderr = "ckpt: plain.pt: 'stem.0.weight' is not in a.pt (24 differences in all)"* ]]
	ckpt select -q --drop '*.bias' a.pt less.pt
	ckpt average a.pt less.pt out.pt
	[ "$status" = 2 ]
	[[ $stderr = "ckpt: less.pt: there is no 'module."*".bias', as in a.pt (3 differences in all)"* ]]
	ckpt average a.pt ddp_model.pt --only '*bias' out.pt
	[ "$status" = 2 ]
	[[ $stderr = "ckpt: ddp_model.pt: 'module."*"' has other values than in a.pt, and is not averaged ("*"
hint: --others last takes it from the last input; 'ckpt diff' lists all differences" ]]
	ckpt average a.pt ddp_model.pt --only '*bias' --others last out.pt; want 0
	[ ! -e not.pt ]
}

@test "average refuses what it cannot do" {
	models a.pt b.pt
	ckpt average --only 'nothing*' a.pt b.pt out.pt
	want 1 "ckpt: a.pt: no floating tensor has a name like that to average
hint: 'ckpt ls' lists the names and dtypes"
	ckpt average --only '*' --only 'nothing*' a.pt b.pt out.pt
	want 1 "ckpt: no floating tensor is named like 'nothing*', nothing was written
hint: 'ckpt ls' lists the names"
	for words in "--weights 1" "--weights 1,x" "--weights 1,,2" "--weights 1,2," "--weights 1,-1" "--weights 1,nan" "--weights 1,inf" \
		"--ema 1" "--ema -1" "--ema nan" "--ema x" "--weights 1,2 --ema 0.5" "--others first"; do
		ckpt average $words a.pt b.pt out.pt
		[ "$status" = 64 ]
		[[ $stderr = "ckpt: "* ]]
	done
	ckpt average a.pt out.pt
	[ "$status" = 64 ]
	ckpt average a.pt b.pt out.safetensors
	[ "$status" = 2 ]
	[ "$(ls)" = "$(printf '%s\n' a.pt b.pt ddp_model.pt ddp_trainer.pt)" ]
}

@test "average finds damage in any input" {
	models a.pt b.pt
	ckpt convert -q b.pt sound.pt
	python3 - <<-'END'
		data = bytearray(open("sound.pt", "rb").read())
		at = data.index(b"data/0") + 200
		data[at] ^= 1
		open("bad.pt", "wb").write(data)
	END
	for order in "a.pt bad.pt" "bad.pt a.pt"; do
		ckpt average $order out.pt
		[ "$status" = 2 ]
		[[ $stderr = *"bad.pt: "*"damaged"* ]]
		[ ! -e out.pt ]
	done
	ckpt average -q --ignore-damage a.pt bad.pt out.pt
	[ "$status" = 1 ]
	[ -e out.pt ]
}

@test "an optimizer that is averaged is told of, with what leaves it" {
	ckpt average ddp_trainer.pt ddp_trainer.pt mean.pt
	[ "$status" = 0 ]
	[[ $output = "38 tensors averaged, "*" of them of an optimizer, "* || $output = *" tensors averaged, 24 of them of an optimizer, "* ]]
	[[ $stderr = *"hint: --only 'model.*' --others last averages the model alone, and takes the optimizer from the last input" ]]
	ckpt average --only 'model.*' --others last ddp_trainer.pt ddp_trainer.pt model.pt
	[ "$status" = 0 ]
	[[ $output != *optimizer* && $stderr != *optimizer* ]]
	ckpt average ddp_model.pt ddp_model.pt plain.pt
	[[ $output != *optimizer* && $stderr != *optimizer* ]]
}

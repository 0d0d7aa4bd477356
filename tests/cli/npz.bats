#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# What numpy itself makes of such files is compared in tests/interop/npz.py.
load common.bash

# make FILE "{'name': (class of its storage, [shape], bytes)}": a file of torch with a flat dict
make() {
	PYTHONPATH=$CKPT_SOURCE_DIR/tests/bad python3 -B - "$@" <<-'END'
	import ast, sys
	from files import *
	body, storages = b"}(", []
	for name, (kind, shape, raw) in ast.literal_eval(sys.argv[2]).items():
	    count = 1
	    for n in shape:
	        count *= n
	    body += text(name) + tensor(str(len(storages)), kind, count, shape, [1] * len(shape))
	    storages.append(("data/%d" % len(storages), raw))
	records = torch_records(pickled(body + b"u"), data=None)
	open(sys.argv[1], "wb").write(archive(records + storages))
	END
}

# The archive that Python's zipfile makes of the members of FILE, as numpy.savez() does
as_zipfile_writes() {
	python3 - "$1" "$2" <<-'END'
	import sys, zipfile
	with zipfile.ZipFile(sys.argv[1]) as source, zipfile.ZipFile(sys.argv[2], "w") as out:
	    for info in source.infolist():
	        with out.open(info.filename, "w", force_zip64=True) as member:
	            member.write(source.read(info))
	END
}

# Since then there are no sizes beside those of zip64
zipfile_is_new() { python3 -c 'import sys; sys.exit(sys.version_info < (3, 11, 4))'; }

@test "convert writes the archive that zipfile would" {
	ckpt convert ddp_model.pt out.npz; want 0
	[[ $output = "14 arrays, 7.8K written in "* ]]
	as_zipfile_writes out.npz again.npz
	! zipfile_is_new || cmp out.npz again.npz
	unzip -tqq out.npz
	python3 - <<-'END'
	import ast, struct, zipfile
	raw = zipfile.ZipFile("out.npz").read("module.head.bias.npy")
	assert raw[:10] == b"\x93NUMPY\1\0\x76\0", raw
	assert ast.literal_eval(raw[10:128].decode()) == {"descr": "<f4", "fortran_order": False, "shape": (10,)}
	assert len(raw) == 128 + 40 and raw[127:128] == b"\n"
	END
	"$CKPT" cat -q ddp_model.pt module.head.bias -o bias.npy >/dev/null
	unzip -p out.npz module.head.bias.npy | cmp - bias.npy
	input_is_untouched
}

@test "names that are no ASCII, and more members than the short end record counts" {
	make in.pt "{'gr\u00fc\u00df/e': ('FloatStorage', [1], b'1234'), 'b': ('ByteStorage', [0], b'')}"
	ckpt convert in.pt out.npz; want 0
	as_zipfile_writes out.npz again.npz
	! zipfile_is_new || cmp out.npz again.npz
	[ "$(python3 -c 'import zipfile; print(ascii(zipfile.ZipFile("out.npz").namelist()))')" = "['gr\\xfc\\xdf/e.npy', 'b.npy']" ]
	PYTHONPATH=$CKPT_SOURCE_DIR/tests/bad python3 -B - <<-'END'
	from files import *
	open("many.pt", "wb").write(torch_file(pickled(b"](" + tensor() * 66000 + b"e")))
	END
	ckpt convert many.pt many.npz; want 0
	as_zipfile_writes many.npz again.npz
	! zipfile_is_new || cmp many.npz again.npz
}

@test "what numpy cannot hold is listed, and left out on demand" {
	make in.pt "{'a': ('BFloat16Storage', [2], b'1234'), 'b': ('FloatStorage', [], b'1234'), 'c/../../d': ('ByteStorage', [1], b'1')}"
	ckpt convert in.pt out.npz
	want 2 "ckpt: in.pt: 2 entries cannot be written as npz:
  'a' is bfloat16, which numpy does not have
  'c/../../d' is a path that leads out of the folder where it is unpacked
hint: --cast-all f32 makes float32 of them first
hint: --drop-others leaves them out"
	want_files in.pt
	ckpt convert --drop-others in.pt out.npz; want 0
	[[ $output = "1 array, 2 other entries left out, 260 bytes written in "* ]]
	ckpt convert ddp_trainer.pt trainer.npz
	[[ $status = 2 && $stderr = *"41 entries cannot be written as npz:
  'optimizer.param_groups.0.lr' is no array but a float
"*"
  and 21 more
hint: --drop-others leaves them out" ]]
	ckpt cast -q f32 in.pt wide.pt
	ckpt convert wide.pt wide.npz
	[[ $status = 2 && $stderr = *"1 entry cannot be written as npz:"* ]]
	ckpt convert --drop-others -n ddp_trainer.pt trainer.npz; want 0
	[[ $output = "38 arrays, 41 other entries left out, 22K would be written (dry run)" ]]
	want_files in.pt out.npz wide.pt
}

@test "two names for numpy that are one" {
	make in.pt "{'x': ('ByteStorage', [1], b'1'), 'x.npy': ('ByteStorage', [1], b'2')}"
	ckpt convert in.pt out.npz
	want 2 "ckpt: in.pt: 'x.npy' and the same without '.npy' are both there, and numpy would find one under both names"
	ckpt convert --to npy in.pt out; want 0
	[ "$(ls out)" = "x.npy
x.npy.npy" ]
	want_files in.pt out
}

@test "a folder of files, whose names give the names back" {
	make in.pt "{'a.b': ('FloatStorage', [1], b'1234'), '../50%': ('ByteStorage', [1], b'1'), '-rf': ('ByteStorage', [1], b'1'), '\n': ('ByteStorage', [1], b'1')}"
	ckpt convert --to npy in.pt out/; want 0
	[[ $output = "4 arrays, 519 bytes written in "* ]]
	[ "$(ls -A out)" = "%0A.npy
%2Drf.npy
%2E.%2F50%25.npy
a.b.npy" ]
	"$CKPT" cat -q in.pt a.b -o ab.npy >/dev/null
	cmp ab.npy out/a.b.npy
	ckpt convert --to npy in.pt out
	want 2 "ckpt: out: the output exists already
hint: -f replaces it"
	ckpt convert -f --to npy in.pt out
	want 2 "ckpt: out: the output is a folder already, which may have other files in it: name a new one"
	make long.pt "{'$(printf 'n%.0s' {1..252})': ('ByteStorage', [1], b'1')}"
	ckpt convert --to npy long.pt long
	[[ $status = 2 && $stderr = *" is longer than the name of a file can be, 255 bytes"* ]]
	ckpt convert long.pt long.npz; want 0
	want_files in.pt out ab.npy long.pt long.npz
}

@test "convert to numpy takes no options of torch" {
	ckpt convert --crc off ddp_model.pt out.npz
	[[ $status = 64 && $stderr = "ckpt: convert: --crc means nothing in the format 'npz'"* ]]
	ckpt convert --drop-others ddp_model.pt out.pt
	[[ $status = 64 && $stderr = "ckpt: convert: --drop-others means nothing in the format 'torch'"* ]]
	ckpt convert ddp_model.pt out.npy
	[[ $status = 2 && $stderr = "ckpt: out.npy: a file of that name holds one array"* ]]
	ckpt convert ddp_model.pt out.npz
	ckpt convert ddp_model.pt out.npz
	want 2 "ckpt: out.npz: the output exists already
hint: -f replaces it"
	ckpt convert -f ddp_model.pt out.npz; want 0
	ckpt convert -f --to npz ddp_model.pt ddp_model.pt
	want 2 "ckpt: ddp_model.pt: the output is the input itself; name another file"
	want_files out.npz
	input_is_untouched
}

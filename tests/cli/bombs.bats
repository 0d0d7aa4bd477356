#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# What scan does with files that are made to take for ever.
load common.bash

evil='\x80\x02cposix\nsystem\nq\x00X\x04\x00\x00\x00trueq\x01\x85q\x02Rq\x03.'

@test "one state, and one tuple of arguments, of very many objects" {
	python3 - <<-'END'
	import struct
	def text(s): return b"X" + struct.pack("<I", len(s)) + s
	count = 150000
	state = b"}q\x00(" + b"".join(text(b"a%d" % i) + b"N" for i in range(count)) + b"u0"
	open("state.pkl", "wb").write(b"\x80\x02" + state + b"cmine\nThing\nq\x010" + b"h\x01)\x81h\x00b0" * count + b"N.")
	args = b"(" + b"N" * count + b"tq\x000"
	open("args.pkl", "wb").write(b"\x80\x02" + args + b"ctorch.nn.attention\nSDPBackend\nq\x010" + b"h\x01h\x00R0" * count + b"N.")
	END
	for file in state args; do
		run --separate-stderr bounded 30 "$CKPT" scan $file.pkl
		[[ $status = [12] ]]
	done
	ckpt scan state.pkl
	[[ $output = "state.pkl: unreadable: "*"the same values again and again, more than are looked at"* ]]
}

@test "very many records that no directory knows, and archives one behind the other" {
	PYTHONPATH=$CKPT_SOURCE_DIR/tests/bad python3 -B - <<-'END'
	from files import *
	hidden = (struct.pack("<IHHHHHIIIHH", 0x04034B50, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0) + b"xy") * 60000
	sound = bytearray(torch_file())
	at, end64, end = sound.find(b"PK\1\2"), sound.find(b"PK\6\6"), sound.find(b"PK\5\6")
	struct.pack_into("<Q", sound, end64 + 48, at + len(hidden))
	struct.pack_into("<Q", sound, sound.find(b"PK\6\7") + 8, end64 + len(hidden))
	struct.pack_into("<I", sound, end + 16, at + len(hidden))
	open("hidden.pt", "wb").write(sound[:at] + hidden + sound[at:])
	open("row.distcp", "wb").write(archive([("x", b"1")]) * 30000)
	END
	run --separate-stderr bounded 30 "$CKPT" scan hidden.pt
	[ "$status" = 1 ]
	[[ $output = "hidden.pt: inconsistent: "* ]]
	run --separate-stderr bounded 30 "$CKPT" scan row.distcp
	want 0
	[[ $output = "row.distcp: plain: "* ]]
}

@test "a file of very many names does not end the scan of others" {
	mkdir folder
	PYTHONPATH=$CKPT_SOURCE_DIR/tests/bad python3 -B - <<-'END'
	import zipfile
	from files import *
	def entry(name, size, off):
	    return struct.pack("<IHHHHHHIIIHHHHHII", 0x02014B50, 0, 0, 0, 0, 0, 0, 0, size, size, len(name), 0, 0, 0, 0, 0, off) + name
	def header(name, said, extra=0):
	    return struct.pack("<IHHHHHIIIHH", 0x04034B50, 0, 0, 0, 0, 0, 0, 0, 0, said, extra) + name
	def ends(body, entries):
	    directory = b"".join(entries)
	    count = min(len(entries), 0xFFFF)
	    return body + directory + struct.pack("<IHHHHIIH", 0x06054B50, 0, 0, count, count, len(directory), len(body), 0)
	# each name goes on through the headers behind it
	count = 20000
	open("folder/a.zip", "wb").write(ends(header(b"", 65535) * count + bytes(65535), [entry(b"a", 0, 30 * i) for i in range(count)]))
	# a little that unpacks to much, but not to so much more that it is passed over: each record has a time of its own
	count = 60000
	def dated(record, at, i):
	    return record[:at] + (i * 40503 & 0xFFFF).to_bytes(2, "little") + record[at + 2:]
	inner = ends(b"".join(dated(header(b"x", 1), 10, i) for i in range(count)), [dated(entry(b"x", 0, 31 * i), 12, i) for i in range(count)])
	with zipfile.ZipFile("folder/b.zip", "w", zipfile.ZIP_DEFLATED) as archive:
	    archive.writestr("n" * 2000, inner)
	END
	printf %b "$evil" >folder/c.pkl
	run --separate-stderr bounded 60 "$CKPT" scan -v folder
	[ "$status" = 1 ]
	[[ $output = *"folder/a.zip: inconsistent: "* ]]
	[[ $output = *"folder/b.zip: "* ]]
	[[ $output = *"folder/c.pkl: dangerous: "* ]]
}

@test "numbers that are chosen to stand in one corner of a table" {
	python3 - <<-'END'
	import struct
	# 16 bits from the 20th on are 0 behind what ckpt once did with a number
	inverse, keys, x = pow(0x9E3779B97F4A7C15, -1, 2**64), [], 1
	while len(keys) < 400000:
	    for y in range(8):
	        n = (x << 44 | y) * inverse % 2**64
	        n ^= n >> 32
	        keys += [n] * (n < 2**62 - 57)
	    x += 1
	open("keys.pkl", "wb").write(b"\x80\x02}(" + b"".join(b"\x8a\x08" + struct.pack("<Q", n) + b"N" for n in keys) + b"u.")
	open("twice.pkl", "wb").write(b"\x80\x02}(" + b"".join(b"\x8a\x08" + struct.pack("<Q", n) + b"N" for n in keys + keys[7:8]) + b"u.")
	END
	run --separate-stderr bounded 30 "$CKPT" scan keys.pkl
	want 0
	[ "$output" = "keys.pkl: plain: pickle" ]
	ckpt scan twice.pkl
	[[ $status = 2 && $output = *"two keys that are the same to Python: a load keeps one of them"* ]]
}

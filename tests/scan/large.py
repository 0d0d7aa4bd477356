# SPDX-License-Identifier: Apache-2.0
"""Files of more than 2 and 4 GiB, most of them holes: what readers count in 32 bits, and what is too long to be looked into."""

import os
import struct

import hostile
import rows
import scanned


def header(name, size, extra=b"", flags=0):
    return struct.pack("<IHHHHHIIIHH", 0x04034B50, 20, flags, 0, 0, 0x21, 0, size, size, len(name), len(extra)) + name.encode() + extra


def entry(name, size, at, extra=b"", flags=0):
    return struct.pack("<IHHHHHHIIIHHHHHII", 0x02014B50, 20, 20, flags, 0, 0, 0x21, 0, size, size, len(name), len(extra), 0, 0, 0, 0, at) + name.encode() + extra


def check_wide(count, folder):
    """More than 4 GiB, most of it a hole: zipimport of Python 3.11 knows no zip64, and takes the offset of the directory, which its end record cannot hold, for 4 GiB."""
    members = [("b" * 30, b"x"), ("archive/data.pkl", hostile.assemble.GOOD), ("archive/a.txt", b"one"), ("archive/version", b"3\n")]  # of the first, the entry has as many bytes as the records of zip64
    further = 4096  # that it takes records to lie behind their places
    directory = (1 << 32) - 1 - 76 + further
    for what, wanted in (("other", {"inconsistent", "dangerous"}), ("none", {"plain"})):
        entries, other, path = [], None, os.path.join(folder, "%s.zip" % what)
        with open(path, "wb") as stream:
            for name, data in members:
                entries.append(entry(name, len(data), stream.tell()))
                other = stream.tell() + further if name == "archive/a.txt" else other
                stream.write(header(name, len(data)) + data)
            size = directory - stream.tell() - len(header("archive/data/7", 0, bytes(20)))
            zip64 = struct.pack("<HHQQ", 1, 16, size, size)
            entries.append(entry("archive/data/7", (1 << 32) - 1, stream.tell(), zip64))
            stream.write(header("archive/data/7", (1 << 32) - 1, zip64))
            if what == "other":
                stream.seek(other)
                stream.write(header("archive/a.txt", 3) + b"two")
            stream.seek(directory)
            size = len(b"".join(entries))
            stream.write(b"".join(entries) + rows.zip64_record(len(entries), size, directory) + struct.pack("<IIQI", 0x07064B50, 0, directory + size, 1) + rows.short_end(len(entries), size, (1 << 32) - 1))
        _, found = scanned.scan(path)
        count.expect(found[path]["verdict"] in wanted, "an archive of 4 GiB (%s) is %s" % (what, found[path]))
        os.remove(path)
    # the size of a record in a zip64 field, and so many bytes behind it: zipimport of Python 3.11 reads them
    with open(path, "wb") as stream:
        entries = []
        for name, data in members:
            wide = name == "archive/a.txt"
            entries.append(entry(name, (1 << 32) - 1 if wide else len(data), stream.tell(), struct.pack("<HHQQ", 1, 16, len(data), len(data)) if wide else b""))
            stream.write(header(name, len(data)) + data)
        directory = (1 << 32) - 2
        size = directory - stream.tell() - len(header("archive/data/7", 0))
        entries.append(entry("archive/data/7", size, stream.tell()))
        stream.write(header("archive/data/7", size))
        stream.seek(directory)
        size = len(b"".join(entries))
        stream.write(b"".join(entries) + rows.short_end(len(entries), size, directory))
    _, found = scanned.scan(path)
    count.expect(found[path]["verdict"] == "inconsistent", "an archive of 4 GiB with a record of as many bytes is %s" % found[path])
    os.remove(path)


def check_large(count, folder):
    """More than 2 GiB, most of it a hole: numbers that begin as a pickle might are no pickle, where that breaks off in what is looked at."""
    floats = bytes(range(256)) * 16
    head = b"{'descr': '<f8', 'fortran_order': False, 'shape': (300000000,), }"
    head += b" " * (-(len(head) + 11) % 64) + b"\n"
    names = b'{"w":{"dtype":"F32","shape":[600000000],"data_offsets":[0,2400000000]}}'
    names += b" " * (0x150 - len(names))
    text = lambda code, front: code + front + b"abc\xed\xa0\x80" * 100
    for name, beginning, size, wanted in (("a.npy", b"\x93NUMPY\1\0" + struct.pack("<H", len(head)) + head + floats, 8 * 300000000, {"plain"}), ("p.safetensors", struct.pack("<Q", len(names)) + names, 2400000000 - len(floats), {"plain"}),
                                          ("text.pkl", text(b"X", struct.pack("<I", 3 << 30)), 4 << 30, {"unreadable"}), ("text8.pkl", b"\x80\4" + text(b"\x8d", struct.pack("<Q", 3 << 30)), 4 << 30, {"unreadable"}), ("names.bin", b"c" + b"os" * 700000, 3 << 30, {"unreadable"}),
                                          ("bytes.dat", b"B" + struct.pack("<I", (1 << 31) + 7) + floats, 3 << 30, set()), ("stop.dat", b"." + floats, 3 << 30, set()), ("bytes_call.bin", b"B" + struct.pack("<I", 64) + bytes(64) + b"cos\nsystem\n", 3 << 30, {"dangerous", "unreadable"}),
                                          ("far_call.bin", b"B" + struct.pack("<I", 2 << 30) + floats, 3 << 30, {"dangerous", "unreadable"}),
                                          ("far_memo.dat", b"B" + struct.pack("<I", 2 << 30) + floats, 3 << 30, {"unreadable"}), ("far_digits.dat", b"B" + struct.pack("<I", 2 << 30) + floats, 3 << 30, {"unreadable"}), ("call.bin", b"cos\nsystem\n" + floats, 3 << 30, {"dangerous", "unreadable", "inconsistent"})):
        path = os.path.join(folder, name)
        with open(path, "wb") as stream:
            stream.write(beginning)
            stream.truncate(len(beginning) + size - (len(floats) if name == "a.npy" else 0))
        if name == "p.safetensors":
            os.truncate(path, 8 + len(names) + 2400000000)
        # behind what an unpickler passes over: a call, room for two billion objects, a number of very many digits
        far = {"far_call.bin": b"cos\nsystem\n(S'true'\ntR.", "far_memo.dat": b"r\xff\xff\xff\x7f", "far_digits.dat": b"L" + b"7" * 500000 + b"L\n"}
        if name in far:
            with open(path, "r+b") as stream:
                stream.seek(5 + (2 << 30))
                stream.write(far[name])
        _, found = scanned.scan(path)
        said = [one["text"] for one in found[path]["findings"]]
        # of what no reader takes it is said that it is no checkpoint
        is_as_wanted = found[path]["verdict"] in wanted and (name not in far or any("looked into" in text or "calls" in text for text in said)) if wanted else not any("looked into" in text for text in said)
        count.expect(is_as_wanted, "a large file %s is %s" % (name, found[path]))
        os.remove(path)


def check_large_row(count, folder):
    """Items of a DCP directory behind 4 GiB of its data file, with descriptors behind their records as torch writes them: offsets count from where the item begins."""
    path, size, wide = os.path.join(folder, "__0_0.distcp"), 4 << 30, (1 << 32) - 1
    whole = hostile.assemble.proto(2, b"]")
    small, entries = b"", b""
    for name, data in (("archive/data.pkl", whole), ("archive/version", b"3\n")):
        entries += entry(name, len(data), len(small), flags=8)
        small += header(name, 0, flags=8) + data + struct.pack("<4sIII", b"PK\7\10", 0, len(data), len(data))
    small += entries + rows.short_end(2, len(entries), len(small))
    with open(path, "wb") as stream:
        entries = []
        for name, data in (("archive/data.pkl", whole), ("archive/version", b"3\n")):
            entries.append(entry(name, len(data), stream.tell()))
            stream.write(header(name, len(data)) + data)
        zip64 = struct.pack("<HHQQ", 1, 16, size, size)
        entries.append(entry("archive/data/7", wide, stream.tell(), zip64))
        stream.write(header("archive/data/7", wide, zip64))
        stream.seek(size, os.SEEK_CUR)
        directory, entries = stream.tell(), b"".join(entries)
        stream.write(entries + rows.zip64_record(3, len(entries), directory) + struct.pack("<IIQI", 0x07064B50, 0, directory + len(entries), 1) + rows.short_end(3, len(entries), wide))
        stream.write(small)
    _, found = scanned.scan(path)
    count.expect(found[path]["verdict"] == "plain", "an item behind 4 GiB is %s" % found[path])
    os.remove(path)


def check(count, folder):
    check_wide(count, folder)
    check_large(count, folder)
    check_large_row(count, folder)

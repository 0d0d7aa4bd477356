# SPDX-License-Identifier: Apache-2.0
"""What the layout writes, judged by others: judge_zip.py COMMAND...

Every field is checked with struct against the rules of the format, and zipinfo, unzip and python's
zipfile have to find what was written. The large files are sparse.
"""

import os
import shutil
import struct
import subprocess
import sys
import tempfile
import zipfile

Z32, Z16 = 0xFFFFFFFF, 0xFFFF
ARCHIVES = [       # alignment, sizes, what unzip reads in full
    (64, "5 0 7", None),
    (1, "5 0 7 300", None),
    (100, "5 7 1000000", None),
    (4096, "5 7 1000000", None),
    (32768, "5 0 7", None),
    (64, "3x66003", None),
    (64, "%d 5 0 7" % (Z32 - 1), ["archive/data/1", "archive/data/3"]),
    (64, "%d 5 0 7" % Z32, ["archive/data/1", "archive/data/3"]),
    (64, "%d 5 0 7" % (2**32 + 16), ["archive/data/1", "archive/data/3"]),
    (64, "3000000000 3000000000 4294967295 5", ["archive/data/3"]),
    (64, "%d 5 5" % (Z32 - 1 - 64 - 16), ["archive/data/1", "archive/data/2"]),
    (64, "%d 5 5" % (Z32 - 64 - 16), ["archive/data/1", "archive/data/2"]),
]


def sizes_of(text):
    sizes = []
    for part in text.split():
        size, _, count = part.partition("x")
        sizes += [int(size)] * int(count or 1)
    return sizes


def zip64_block(size, compressed, offset):
    body = b""
    if size >= Z32:
        body += struct.pack("<QQ", size, compressed)
    if offset >= Z32:
        body += struct.pack("<Q", offset)
    return struct.pack("<HH", 1, len(body)) + body if body else b""


def check_local(stream, name, size, cursor, alignment):
    """The local header at CURSOR, byte for byte; returns where the data start."""
    zip64 = zip64_block(size, 0, cursor)
    start = cursor + 30 + len(name) + len(zip64) + 4
    pad = -start % alignment
    stream.seek(cursor)
    want = struct.pack("<IHHHHHIIIHH", 0x04034B50, 0, 0x0808 if size else 0x0800, 0, 0, 0, 0, 0, 0,
                       len(name), len(zip64) + 4 + pad)
    want += name + zip64 + struct.pack("<2sH", b"FB", pad) + b"Z" * pad
    assert stream.read(len(want)) == want, "local header of %r" % name
    return start + pad


def check_bytes(path, sizes, alignment):
    with open(path, "rb") as stream:
        cursor, directory = 0, bytearray()
        for number, size in enumerate(sizes):
            name, header = b"archive/data/%d" % number, cursor
            cursor = check_local(stream, name, size, header, alignment) + size
            stream.seek(cursor)
            crc = 0
            if size:
                wide = size >= Z32 or header >= Z32
                data = stream.read(24 if wide else 16)
                signature, crc, a, b = struct.unpack("<IIQQ" if wide else "<IIII", data)
                assert (signature, a, b) == (0x08074B50, size, size), "descriptor of %r" % name
                cursor += len(data)
            extra = zip64_block(size, size, header)
            directory += struct.pack("<IHHHHHHIIIHHHHHII", 0x02014B50, 0, 0, 0x0808 if size else 0x0800,
                                     0, 0, 0, crc, min(size, Z32), min(size, Z32), len(name),
                                     len(extra), 0, 0, 0, 0, min(header, Z32)) + name + extra
        stream.seek(cursor)
        assert stream.read(len(directory)) == directory, "directory"
        count, end = len(sizes), cursor + len(directory)
        ends = struct.pack("<IQHHIIQQQQ", 0x06064B50, 44, 0x031E, 45, 0, 0, count, count,
                           len(directory), cursor)
        ends += struct.pack("<IIQI", 0x07064B50, 0, end, 1)
        ends += struct.pack("<IHHHHIIH", 0x06054B50, 0, 0, min(count, Z16), min(count, Z16),
                            min(len(directory), Z32), min(cursor, Z32), 0)
        assert stream.read() == ends, "end records"


def check_others(path, sizes, members):
    with zipfile.ZipFile(path) as archive:
        infos = archive.infolist()
        assert [info.file_size for info in infos] == sizes, "sizes that zipfile finds"
        assert len(infos) < 1000 or archive.read(infos[-1]) == b"xxx"
        for info in infos[:20]:
            if info.file_size <= 1 << 20:
                assert archive.read(info) == b"x" * info.file_size, "bytes that zipfile reads"
    # unzip takes exactly 2**32 - 1 for a reference to zip64, even where it comes from there
    if Z32 in sizes or sizes[0] == Z32 - 64 - 16:
        return
    if shutil.which("zipinfo"):
        done = subprocess.run(["zipinfo", "-t", path], stdout=subprocess.PIPE, universal_newlines=True,
                              stderr=subprocess.STDOUT)
        assert done.returncode == 0, done.stdout
        assert done.stdout.startswith("%d file" % len(sizes)), done.stdout
        assert "%d bytes uncompressed" % sum(sizes) in done.stdout, done.stdout
    if shutil.which("unzip"):
        done = subprocess.run(["unzip", "-qq", "-t", path] + (members or []), stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, universal_newlines=True)
        assert done.returncode == 0, done.stdout


def main():
    base = os.environ.get("CKPT_TEST_DIR")
    if base:
        os.makedirs(base, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=base) as folder:
        path = os.path.join(folder, "out.zip")
        for alignment, text, members in ARCHIVES:
            sizes = sizes_of(text)
            subprocess.run([*sys.argv[1:], path, str(alignment)] + text.split(), check=True)
            check_bytes(path, sizes, alignment)
            check_others(path, sizes, members)
            print("alignment %d, records of %s bytes: as they should be" % (alignment, text))
    for tool in ("zipinfo", "unzip"):
        if not shutil.which(tool):
            print("skipped: %s is not installed and judged nothing" % tool)


main()

# SPDX-License-Identifier: Apache-2.0
"""Write a torch file of some size: make_large.py MEGABYTES FILE

Two keys, module.large with a storage of that size (random bytes, the same ones again and again) and
module.small. Made with struct alone.
"""

import os
import struct
import sys
import zlib


def text(value):
    return b"X" + struct.pack("<I", len(value)) + value


def tensor(key, count):
    return (b"ctorch._utils\n_rebuild_tensor_v2\n((" + text(b"storage") + b"ctorch\nByteStorage\n" +
            text(key) + text(b"cpu") + b"J" + struct.pack("<i", count) + b"tQK\0J" +
            struct.pack("<i", count) + b"\x85K\x01\x85\x89ccollections\nOrderedDict\n)RtR")


def main():
    megabytes, path = int(sys.argv[1]), sys.argv[2]
    block = os.urandom(1 << 20)
    pickle = (b"\x80\x02ccollections\nOrderedDict\n)R(" + text(b"module.large") +
              tensor(b"0", megabytes << 20) + text(b"module.small") + tensor(b"1", 8) + b"u.")
    records = [(b"data.pkl", [pickle]), (b"byteorder", [b"little"]), (b"data/0", [block] * megabytes),
               (b"data/1", [b"12345678"]), (b"version", [b"3\n"])]
    directory = b""
    with open(path, "wb") as out:
        for record, parts in records:
            name, offset = b"archive/" + record, out.tell()
            pad = -(offset + 34 + len(name)) % 64
            out.write(struct.pack("<IHHHHHIIIHH", 0x04034B50, 0, 0x0808, 0, 0, 0, 0, 0, 0, len(name), 4 + pad))
            out.write(name + struct.pack("<2sH", b"FB", pad) + b"Z" * pad)
            crc = size = 0
            for part in parts:
                out.write(part)
                crc, size = zlib.crc32(part, crc), size + len(part)
            out.write(struct.pack("<IIII", 0x08074B50, crc, size, size))
            directory += struct.pack("<IHHHHHHIIIHHHHHII", 0x02014B50, 0, 0, 0x0808, 0, 0, 0, crc, size,
                                     size, len(name), 0, 0, 0, 0, 0, offset) + name
        offset = out.tell()
        out.write(directory + struct.pack("<IHHHHIIH", 0x06054B50, 0, 0, len(records), len(records),
                                          len(directory), offset, 0))


main()

# SPDX-License-Identifier: Apache-2.0
"""Archives, streams and tars in which a call of os.system lies somewhere, with fields and bytes changed at random: make(seed) -> bytes, how they are to be loaded.

Most of them are odd. Those that `ckpt scan` calls plain are loaded by traced_load.py, in all ways that there are.
"""

import random
import struct

import assemble
import rows
from assemble import BAD, FACTS, GOOD, KEYS, LEGACY_BODY, MAGIC, NO_KEYS, STORED, Member, VERSION, files, frame, legacy, member, members_with, old_tar, proto, safetensors_before, tar_of, torch_zip, value, zip_of

CONTAINER, ROW = "container", "row"
ROWS = 8  # one of so many is a row of archives, as data files of DCP directories are
MARKS = [b"PK\x03\x04", b"PK\x01\x02", b"PK\x05\x06", b"PK\x06\x06", b"PK\x06\x07"]
# where fields lie behind a mark, and how wide they are
FIELDS = {
    b"PK\x03\x04": [(4, 2), (6, 2), (8, 2), (10, 2), (12, 2), (14, 4), (18, 4), (22, 4), (26, 2), (28, 2)],
    b"PK\x01\x02": [(4, 2), (6, 2), (8, 2), (10, 2), (12, 2), (14, 2), (16, 4), (20, 4), (24, 4), (28, 2), (30, 2), (32, 2), (34, 2), (36, 2), (38, 4), (42, 4)],
    b"PK\x05\x06": [(4, 2), (6, 2), (8, 2), (10, 2), (12, 4), (16, 4), (20, 2)],
    b"PK\x06\x06": [(4, 8), (12, 2), (14, 2), (16, 4), (20, 4), (24, 8), (32, 8), (40, 8), (48, 8)],
    b"PK\x06\x07": [(4, 4), (8, 8), (16, 4)],
}
HARMLESS = {b"PK\x03\x04": [(4, 2), (10, 2), (12, 2)], b"PK\x01\x02": [(4, 2), (6, 2), (12, 2), (14, 2), (36, 2), (38, 4)]}


def zip64(data):
    plain = zip_of(data, end=b"")
    start = plain.index(b"PK\x01\x02")
    size, count = len(plain) - start, plain.count(b"PK\x01\x02")
    return (plain + struct.pack("<IQHHIIQQQQ", 0x06064B50, 44, 45, 45, 0, 0, count, count, size, start) + struct.pack("<IIQI", 0x07064B50, 0, len(plain), 1)
            + struct.pack("<IHHHHIIH", 0x06054B50, 0, 0, 0xFFFF, 0xFFFF, 0xFFFFFFFF, 0xFFFFFFFF, 0))


# what the bytes of a storage may be
STORED_BYTES = [files.FOUR_FLOATS, BAD, BAD + bytes(16), torch_zip(BAD), b"cos\nsystem\n(S'true'\ntR.", b"(lp0\n" + b"S'x'\np1\na" * 20 + b"0cos\nsystem\n(S'true'\ntR.", bytes(100) + BAD]


def package(rng):
    """A torch.package in which a pickle has the storage 0, and a record more of any name, which the importer unpickles when it is asked for it."""
    name = rng.choice([".data/0.storage", "data/0", "DATA/0", "constants/0", "tensors/0", "data/1", "m/n.pkl", "m/x", "x/0", ".data/1.storage", "m//n", "extra/0"])
    more = [] if rng.random() < 0.3 else [Member("pkg/" + name, rng.choice(STORED_BYTES), rng.choice([0, 8]))]
    own = [] if name == ".data/0.storage" and more else [Member("pkg/.data/0.storage", files.FOUR_FLOATS, rng.choice([0, 0, 8]))]
    return zip_of([Member("pkg/m/m.pkl", GOOD, rng.choice([0, 0, 8]))] + own + more + [Member("pkg/.data/extern_modules", b"collections\nos\ntorch._utils\n"), Member("pkg/.data/python_version", b"3.9.2"), Member("pkg/version", b"6\n")])


def compiled(rng):
    """What AOTInductor compiles, by a name that it may take for another."""
    slashes = ["/"] * 9 + ["//", "/./", "\\", "/x/../", "/ ", "/\0/"]
    folder = rng.choice(["archive"] * 5 + ["m", "archive/n", ""]) + rng.choice(slashes) + rng.choice(["data", "data", "DATA", "dat"]) + rng.choice(slashes) + rng.choice(["aotinductor", "aotinductor", "aotinducto", "aot", "constants", "constants", "constant", "weights", "extra", "constants/aot"]) + rng.choice(slashes)
    return zip_of([member("data.pkl", GOOD), member("data/0", files.FOUR_FLOATS), member("version", b"3\n")][:rng.choice([0, 3])]
                  + [Member(folder + rng.choice(["model", "aot"]) + rng.choice(slashes) + "m.wrapper" + ending, b"{}") for ending in (".cpp", ".so", "_metadata.json", "_compile_flags.json", "_linker_flags.json")])


def spelled(rng):
    """A stream whose magic number is written otherwise than by torch, or is nearly that number, in front of a call."""
    number = MAGIC[4:14] if rng.random() < 0.7 else bytes([0x6d]) + MAGIC[5:14]
    before = rng.choice([b"", b"", b"N0", b"]0", b"(1", b"X\x05\0\0\0hello0", b"V text\n0", b"U" + bytes([250]) + b" " * 250 + b"0"]) * rng.choice([1, 1, 30])
    digits = b"%d" % int.from_bytes(number, "little")
    first = before + rng.choice([b"\x8a\x0a" + number, b"\x8a\x0c" + number + bytes(2), b"\x8b\x0a\0\0\0" + number, b"L" + digits + b"L\n", b"I" + digits + b"\n", b"L00" + digits + b"L\n", b"I%#x\n" % int(digits)])
    stream = first + rng.choice([b".", b"q\x00.", b"20.", b"\x85.", b"N0."]) + VERSION + FACTS + rng.choice([BAD, BAD, GOOD]) + NO_KEYS
    return rng.choice([stream, stream, b"\x8c\x06\0\0PTMF0" + stream, safetensors_before(stream), zip_of([member("data.pkl", GOOD), member("data/0", stream, method=rng.choice([0, 8])), member("version", b"3\n")])])


def base(rng):
    """A file, in which the call is not, or is where no loader should meet it."""
    way = rng.randrange(23)
    if way < 3:
        return torch_zip(GOOD)
    if way == 3:
        return zip64(members_with(member("data.pkl", GOOD)))
    if way == 4:
        return zip64(members_with(member("data.pkl", GOOD), member("data.pkl", BAD, hidden=True)))
    if way == 5:
        return zip_of(members_with(member("data.pkl", GOOD), member(rng.choice(["x.pkl", "data.pkl", "__main__.py"]), BAD, hidden=True)))
    if way == 6:
        return zip_of(members_with(member("data.pkl", GOOD)), comment=rng.choice([BAD, torch_zip(BAD), b"text"]))
    if way == 7:
        return zip_of(members_with(member("data.pkl", GOOD, method=8)))
    if way == 8:
        return torch_zip(BAD) + torch_zip(GOOD)
    if way == 9:
        return legacy() + rng.choice([b"", BAD, bytes(40)])
    if way == 10:
        return MAGIC + VERSION + FACTS + b"\x80\x04" + frame(LEGACY_BODY[2:]) + KEYS + STORED
    if way == 11:
        return MAGIC + VERSION + FACTS + b"\x80\x04" + frame(value({"a": 1}) + b".") + rng.choice([b"", BAD]) + NO_KEYS
    if way == 12:
        one = proto(2, b"K\x01")
        stored = proto(2, value((1, "cpu", files.glob("torch", "FloatStorage")))) + struct.pack("<q", 40) + (BAD + bytes(160))[:160]
        return tar_of(old_tar(storages=one + stored + proto(2, b"]")))
    if way == 13:
        return tar_of(old_tar() + ([("notes", BAD)] if rng.random() < 0.5 else []))
    if way == 14:
        return zip_of(members_with(member("data.pkl", GOOD), member("data/1", rng.choice([BAD, torch_zip(BAD), bytes(64)]))))
    if way < 18:
        return package(rng)
    if way == 18:
        return compiled(rng)
    if way == 19:
        return zip_of([member("data.pkl", GOOD), member("data/0", rng.choice(STORED_BYTES), method=8), member("version", b"3\n")])
    if way == 20:
        return spelled(rng)
    return proto(4, frame(value([1, 2, 3])) + b"")


def places(data):
    found = []
    for mark in MARKS:
        at = data.find(mark)
        while at >= 0:
            found.append((at, mark))
            at = data.find(mark, at + 1)
    return found


def set_field(rng, data, fields):
    there = [(at, mark) for at, mark in places(bytes(data)) if mark in fields]
    if not there:
        return
    at, mark = rng.choice(there)
    off, width = rng.choice(fields[mark])
    old = int.from_bytes(data[at + off:at + off + width], "little")
    new = rng.choice([old + 1, old - 1, 0, 1, 0xFFFF, 0xFFFFFFFF, rng.randrange(1 << 16), rng.choice(there)[0], len(data), old ^ 1 << rng.randrange(8 * width), 8])
    data[at + off:at + off + width] = (new % (1 << (8 * width))).to_bytes(width, "little")


def edit(rng, data):
    way = rng.randrange(14)
    at = rng.randrange(len(data))
    if way < 4:
        set_field(rng, data, FIELDS)
    elif way < 7:
        set_field(rng, data, HARMLESS)
    elif way == 7:
        data[at] ^= 1 << rng.randrange(8)
    elif way == 8:
        del data[at:at + rng.choice([1, 2, 4, 22, 30, 46, 512])]
    elif way == 9:
        data[at:at] = rng.choice([b"\0" * rng.choice([1, 22, 64, 512]), BAD, b"PK\x05\x06" + bytes(18), torch_zip(BAD)])
    elif way == 10:
        start = rng.randrange(len(data))
        data[at:at] = data[start:start + rng.choice([4, 22, 46, 100, 512])]
    elif way == 11:
        data += rng.choice([b"\0" * 30, BAD, torch_zip(BAD), b"PK\x05\x06" + bytes(18), bytes(512)])
    elif way == 12:
        start = bytes(data).find(b"\x95")
        if start >= 0 and start + 9 < len(data):
            data[start + 1:start + 9] = struct.pack("<Q", rng.choice([0, 1, 5, len(data), len(data) - start, 1 << 17, rng.randrange(400)]))
    elif len(data) > 600 and data[257:262] == b"ustar":
        start = 512 * rng.randrange(len(data) // 512)
        off = rng.choice([0, 100, 124, 148, 156, 157, 345])
        data[start + off:start + off + 8] = rng.choice([b"pickle\0\0", b"0000644\0", b"storages", b"tensors\0", bytes(8), b"00000001", rng.randbytes(8)])
        block = bytearray(data[start:start + 512])
        block[148:156] = b" " * 8
        data[start + 148:start + 156] = b"%06o\0 " % sum(block)


def make(seed):
    rng = random.Random(seed)
    in_row = seed % ROWS == 0
    data = bytearray(rows.make(rng) if in_row else base(rng))
    for _ in range(rng.choice([0, 0, 0, 1, 2] if in_row else [0, 1, 1, 1, 2, 2, 3, 5])):
        if data:
            edit(rng, data)
    return bytes(data) or b".", ROW if in_row else CONTAINER


assert assemble

# SPDX-License-Identifier: Apache-2.0
"""Small functions that write pickles opcode by opcode, and the files that hold them. Nothing here is ever unpickled."""

import collections
import io
import os
import struct
import sys
import tarfile
import zlib

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "bad"))
import files  # noqa: E402

RUN = {"dangerous"}
DIFFER = {"inconsistent"}
RUN_OR_DIFFER = RUN | DIFFER
NOT_DECIDED = {"unreadable"}
UNKNOWN_CALL = {"dangerous", "needs-objects"}  # what an unknown function does cannot be known

Sample = collections.namedtuple("Sample", "name data why wanted about")
SAMPLES = []


def sample(name, data, why, wanted=frozenset(RUN), about=""):
    """WANTED: the verdicts that are right. ABOUT: an advisory, where it is known for certain."""
    SAMPLES.append(Sample(name, data, why, frozenset(wanted), about))


# ---- opcodes ----


def short(value):
    """SHORT_BINUNICODE"""
    value = value if isinstance(value, bytes) else value.encode()
    return b"\x8c" + bytes([len(value)]) + value


def blob(value):
    """BINBYTES"""
    return b"B" + struct.pack("<I", len(value)) + value


def named(module, name):
    """STACK_GLOBAL"""
    return short(module) + short(name) + b"\x93"


def proto(number, body):
    return b"\x80" + bytes([number]) + body + b"."


def frame(body):
    return b"\x95" + struct.pack("<Q", len(body)) + body


def value(item):
    """The opcodes of a plain value, or ITEM itself if it is opcodes."""
    if isinstance(item, bytes):
        return item
    if item is None or isinstance(item, bool):
        return {None: b"N", True: b"\x88", False: b"\x89"}[item]
    if isinstance(item, str):
        return files.text(item)
    if isinstance(item, int):
        return b"J" + struct.pack("<i", item) if -1 << 31 <= item < 1 << 31 else b"\x8a\x08" + struct.pack("<q", item)
    if isinstance(item, dict):
        return b"}(" + b"".join(value(k) + value(v) for k, v in item.items()) + b"u"
    if isinstance(item, list):
        return b"](" + b"".join(map(value, item)) + b"e"
    return b"(" + b"".join(map(value, item)) + b"t"


def call(function, *arguments):
    """REDUCE of the opcodes of a function."""
    return function + value(arguments) + b"R"


def reduce_(module, name, *arguments):
    return call(files.glob(module, name), *arguments)


def at_line(text):
    """UNICODE, protocol 0"""
    return b"V" + text.encode("raw-unicode-escape") + b"\n"


COMMAND = "true"
SYSTEM = files.glob("os", "system")
SYSTEM_CALL = reduce_("os", "system", COMMAND)
BAD = proto(2, SYSTEM_CALL)
GOOD = files.SOUND
BAD_MODEL = proto(2, value({"weight": files.tensor(), "epoch": SYSTEM_CALL}))  # nothing but the call is wrong with it


# ---- containers ----

MAGIC = bytes.fromhex("80028a0a6cfc9c46f9206aa850192e")
VERSION = proto(2, b"M\xe9\x03")
FACTS = proto(2, value({"protocol_version": 1001, "little_endian": True, "type_sizes": {"short": 2, "int": 4, "long": 4}}))
LEGACY_BODY = proto(
    2,
    value(
        {
            "w": files.glob("torch._utils", "_rebuild_tensor_v2")
            + b"("
            + b"("
            + files.text("storage")
            + files.glob("torch", "FloatStorage")
            + files.text("7")
            + files.text("cpu")
            + b"K\x04NtQ"
            + b"K\x00(K\x04t(K\x01t\x89"
            + files.glob("collections", "OrderedDict")
            + b")RtR"
        }
    ),
)
KEYS, NO_KEYS = proto(2, value(["7"])), proto(2, b"]")
STORED = struct.pack("<q", 4) + files.FOUR_FLOATS


def legacy(magic=MAGIC, version=VERSION, facts=FACTS, body=LEGACY_BODY, keys=None, stored=None):
    """With the storage '7' if BODY mentions any."""
    some = b"Storage" in body
    return (
        magic
        + version
        + facts
        + body
        + ((KEYS if some else NO_KEYS) if keys is None else keys)
        + ((STORED if some else b"") if stored is None else stored)
    )


def torch_zip(pickle, extra=(), data=False):
    """With the record data/0 if PICKLE mentions any storage."""
    if data is False:
        data = files.FOUR_FLOATS if b"Storage" in pickle else None
    return files.torch_file(pickle, data=data, extra=extra)


def stored(data):
    """A checkpoint with DATA as the bytes of a tensor of bytes."""
    body = value({"w": files.glob("torch._utils", "_rebuild_tensor_v2") + b"((" + value("storage") + files.glob("torch", "ByteStorage") + value("0") + value("cpu")
                  + b"J" + struct.pack("<i", len(data)) + b"tQ" + b"K\x00(J" + struct.pack("<i", len(data)) + b"t(K\x01t\x89" + files.glob("collections", "OrderedDict") + b")RtR"})
    return files.torch_file(proto(2, body), data=data)


class Member:
    """What a zip says of a member, twice: a keyword with 'local_' in front counts for the local header only."""

    def __init__(
        self, name, data, method=0, flags=0, crc=None, compressed=None, size=None, extra=b"", local_extra=b"", at=None, **local
    ):
        packed = data
        if method == 8:
            deflate = zlib.compressobj(9, zlib.DEFLATED, -15)
            packed = deflate.compress(data) + deflate.flush()
        self.name = name if isinstance(name, bytes) else name.encode()
        self.packed, self.method, self.flags, self.extra, self.local_extra, self.at = (
            packed,
            method,
            flags,
            extra,
            local_extra,
            at,
        )
        self.crc = zlib.crc32(data) if crc is None else crc
        self.compressed = len(packed) if compressed is None else compressed
        self.size = len(data) if size is None else size
        self.local = local
        self.hidden = False  # no entry in the directory
        self.only_listed = False  # no bytes of its own: AT says where its header is

    def of_local(self, what):
        found = self.local.get("local_" + what, getattr(self, what))
        return found if what != "name" or isinstance(found, bytes) else found.encode()


def zip_of(members, comment=b"", before=b"", between=b"", after=b"", end=None, prefix_counts=True):
    """A plain zip archive, without zip64. BEFORE: bytes in front, which offsets count if PREFIX_COUNTS."""
    out, directory, count = bytearray(before), bytearray(), 0
    base = 0 if prefix_counts else len(before)
    for m in members:
        offset = len(out) - base if m.at is None else m.at
        if not m.only_listed:
            local_name = m.of_local("name")
            out += struct.pack(
                "<IHHHHHIIIHH",
                0x04034B50,
                20,
                m.of_local("flags"),
                m.of_local("method"),
                0,
                0,
                m.of_local("crc"),
                m.of_local("compressed"),
                m.of_local("size"),
                len(local_name),
                len(m.local_extra),
            )
            out += local_name + m.local_extra + m.packed
        if not m.hidden:
            directory += (
                struct.pack(
                    "<IHHHHHHIIIHHHHHII",
                    0x02014B50,
                    20,
                    20,
                    m.flags,
                    m.method,
                    0,
                    0,
                    m.crc,
                    m.compressed,
                    m.size,
                    len(m.name),
                    len(m.extra),
                    0,
                    0,
                    0,
                    0,
                    offset,
                )
                + m.name
                + m.extra
            )
            count += 1
    out += between
    start = len(out) - base
    out += directory
    out += end if end is not None else end_of_zip(count, len(directory), start, comment)
    return bytes(out) + after


def end_of_zip(count, nbytes, start, comment=b""):
    return struct.pack("<IHHHHIIH", 0x06054B50, 0, 0, count, count, nbytes, start, len(comment)) + comment


def tar_of(members, form=tarfile.USTAR_FORMAT):
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:", format=form) as tar:
        for name, data in members:
            info = tarfile.TarInfo(name)
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))
    return out.getvalue()


def old_tar(pickle=None, storages=None, tensors=None):
    """As torch 0.1 wrote them, without tensors."""
    zero = proto(2, b"K\x00")
    return [
        ("sys_info", FACTS),
        ("pickle", pickle or proto(2, value({"a": 1}))),
        ("tensors", tensors or zero),
        ("storages", storages or zero + proto(2, b"]")),
    ]


def npy(header, data, version=1):
    header = header.encode() + b" " * (-(len(header) + 11 + 2 * (version > 1)) % 64) + b"\n"
    return b"\x93NUMPY" + bytes([version, 0]) + struct.pack("<H" if version == 1 else "<I", len(header)) + header + data


def member(name, data, **about):
    """Of an archive as torch has them."""
    hidden, only_listed = about.pop("hidden", False), about.pop("only_listed", False)
    made = Member("archive/" + name, data, **about)
    made.hidden, made.only_listed = hidden, only_listed
    return made


def members_with(pickle_member, *more):
    return [pickle_member, member("data/0", files.FOUR_FLOATS), member("version", b"3\n"), *more]


def safetensors_before(program):
    """The length of its header begins with SHORT_BINSTRING; then there are such texts, one behind the other, until the numbers begin."""
    length, front = 0x1c55, b'{"__metadata__":{"x":"'
    tail = b'"},"t":{"dtype":"U8","shape":[%d],"data_offsets":[0,%d]}}' % (len(program), len(program))
    texts, left = divmod(length - len(front), 128)
    if left - 2 < len(tail):
        texts, left = texts - 1, left + 128
    assert len(front) == 0x1c + 2 - 8 and left < 256 and left - 2 >= len(tail), (len(front), left)
    return struct.pack("<Q", length) + front + (b"U~" + b"A" * 126) * texts + b"U" + bytes([left - 2]) + tail.rjust(left - 2, b"A") + program

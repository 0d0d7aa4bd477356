# SPDX-License-Identifier: Apache-2.0
"""Files as Python, numpy and torch write them, with one thing changed: near_honest.py [SHARE]

Each torch of CKPT_PYTHON writes an object of each kind. Each argument of each opcode takes other values, opcodes that make a value are replaced by
others, and the numbers in storages are changed. What the scan calls plain of these is loaded and used by all torches, as by fuzz_plain.py. A program made at random is hardly ever what a
loader takes for whole; one that is wrong in one place is. SHARE: one of so many of the changed files, by their own sum, are tried.
"""

import os
import pickletools
import shutil
import subprocess
import struct
import sys
import tempfile
import zipfile
import zlib

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import fuzz_plain  # noqa: E402
import language  # noqa: E402
from assemble import FACTS, MAGIC, VERSION, files  # noqa: E402

BATCH = 4000
WRITE = r"""
import array, collections, datetime, decimal, fractions, io, os, pathlib, pickle, sys, time, uuid, warnings
warnings.simplefilter("ignore")
import torch
import numpy as np
t = torch.arange(6, dtype=torch.float32).reshape(2, 3)
zone = datetime.timezone(datetime.timedelta(hours=1))
python = {
    "numbers": [1, -1, 2**40, 2**70, 1.5, True, None, 1 + 2j], "texts": ["a", "\u20ac", b"\xff\0", bytearray(b"ab")], "dicts": {"a": 1, 2: (3, 4), None: [5]}, "sets": [{1, "a"}, frozenset([2, 3])],
    "ordered": collections.OrderedDict([("a", 1), ("b", 2)]), "default": collections.defaultdict(list, {"a": [1]}), "counter": collections.Counter("aab"), "deque": collections.deque([1, 2], 5), "date": datetime.date(2020, 1, 2),
    "datetime": [datetime.datetime(2020, 1, 2, 3, 4, 5, 6), datetime.datetime(2020, 1, 2, tzinfo=zone), datetime.datetime(2020, 1, 2, fold=1)], "time": [datetime.time(1, 2, 3, 4), datetime.time(1, tzinfo=zone)], "span": datetime.timedelta(1, 2, 3),
    "decimal": decimal.Decimal("1.25"), "fraction": fractions.Fraction(3, 4), "path": [pathlib.PurePosixPath("a/b"), pathlib.PureWindowsPath("c:/x")], "uuid": [uuid.UUID(int=5), uuid.UUID(int=6, is_safe=uuid.SafeUUID.unsafe)], "slice": slice(1, 2, 3), "range": range(1, 9, 2), "array": [array.array("d", [1, 2]), array.array("b", [3])],
    "struct_time": time.gmtime(0), "exception": [ValueError("a", 1), KeyError("k"), UnicodeDecodeError("utf-8", b"a\xff", 1, 2, "why"), OSError(2, "no", "file"), StopIteration(3)], "ellipsis": [..., NotImplemented, type(None)], "iterator": [iter([1, 2]), iter((3,))], "bytesio": io.BytesIO(b"abc"),
    "keys": {1: 1, "1": 2, (1, 2): 3, 2.5: 4, b"x": 5, datetime.date(2020, 1, 2): 6, frozenset([1]): 7},
}
dtypes = ["b1", "i1", "u2", "<i4", ">i4", "i8", "f2", "f4", "f8", "c8", "c16", "g", "S3", "U2", "V5", "m8[ms]", "M8[D]", "M8[25s]", "O", [("a", "i4"), ("b", "f8")], {"names": ["a", "b"], "formats": ["i2", "f4"], "offsets": [4, 8], "itemsize": 16},
          [("a", "i4", (2,)), ("b", [("c", "U2"), ("d", "f8", (2, 2))])], np.dtype([("a", "i1"), ("b", "f8")], align=True), [(("title", "a"), "i4")], [("a", "O")], [("t", "M8[s]"), ("s", "S2")]]
numpy = {}
for number, kind in enumerate(dtypes):
    dtype = np.dtype(kind)
    numpy["dtype%d" % number] = dtype
    one = np.zeros((2, 3), dtype)
    numpy["array%d" % number] = one
    if number in (5, 8, 12, 15, 19):
        numpy["fortran%d" % number] = np.asfortranarray(one)
        numpy["empty%d" % number] = np.zeros((0, 3), dtype)
        numpy["none%d" % number] = np.zeros((), dtype)
    numpy["scalar%d" % number] = one[0, 0]
numpy["objects"] = np.array([1, "a", None, [2]], dtype=object)
numpy["keys"] = {np.float32(1): 1, np.int64(2): 2, np.str_("a"): 3}
numpy["alone"] = {np.timedelta64(5, "s"): 1, np.timedelta64(6, "s"): 2}
def tried(make):
    try:
        return make()
    except Exception:
        return None
generator = torch.Generator()
generator.manual_seed(3)
class Nothing: pass
tensors = {
    "strided": lambda: t, "view": lambda: [t[1], t.t(), t[:, 1:]], "scalar": lambda: torch.tensor(1.5), "empty": lambda: torch.zeros(0, 3), "half": lambda: t.half(), "bfloat": lambda: t.bfloat16(), "bool": lambda: t > 2, "long": lambda: t.long(), "byte": lambda: t.byte(), "complex": lambda: t.to(torch.complex64),
    "conj": lambda: t.to(torch.complex64).conj(), "neg": lambda: torch._neg_view(t), "parameter": lambda: torch.nn.Parameter(t), "grad": lambda: t.clone().requires_grad_(), "buffer": lambda: torch.nn.parameter.Buffer(t), "uninitialized": lambda: torch.nn.parameter.UninitializedParameter(),
    "attributes": lambda: dressed(), "state": lambda: dressed(torch.nn.Parameter(t.clone())), "coo": lambda: t.to_sparse(), "coo_hybrid": lambda: t.to_sparse(1), "csr": lambda: t.to_sparse_csr(), "csc": lambda: t.to_sparse_csc(), "bsr": lambda: torch.arange(16.).reshape(4, 4).to_sparse_bsr((2, 2)), "bsc": lambda: torch.arange(16.).reshape(4, 4).to_sparse_bsc((2, 2)),
    "csr_batch": lambda: torch.arange(12.).reshape(2, 2, 3).add(1).to_sparse_csr(), "quantized": lambda: torch.quantize_per_tensor(t, 0.1, 2, torch.qint8), "quantized32": lambda: torch.quantize_per_tensor(t, 0.1, 2, torch.qint32), "channels": lambda: torch.quantize_per_channel(t, torch.tensor([0.1, 0.2]), torch.tensor([0, 1]), 0, torch.quint8),
    "channels_float": lambda: torch.quantize_per_channel(t, torch.tensor([0.1, 0.2]), torch.tensor([0.5, 1.5]), 0, torch.quint8), "four_bits": lambda: torch.quantize_per_channel(t, torch.tensor([0.1, 0.2]), torch.tensor([0.5, 1.5]), 0, torch.quint4x2), "nested": lambda: torch.nested.nested_tensor([torch.ones(2, 3), torch.ones(1, 3)]),
    # of one entry, block, batch or channel: what steps over it is looked at by nobody, but some believe it
    "one_coo": lambda: torch.tensor([[0.0, 0.0], [3.0, 4.0]]).to_sparse(1), "one_csr": lambda: torch.tensor([[0.0, 0.0], [3.0, 0.0]]).to_sparse_csr(), "one_bsr": lambda: torch.nn.functional.pad(torch.ones(2, 2), (0, 2, 0, 2)).to_sparse_bsr((2, 2)),
    "one_batch": lambda: torch.arange(6.).reshape(1, 2, 3).to_sparse_csr(), "one_channel": lambda: torch.quantize_per_channel(t[:1], torch.tensor([0.1]), torch.tensor([1]), 0, torch.qint8), "one_nested": lambda: torch.nested.nested_tensor([torch.ones(1, 3)]), "one_row": lambda: [t[:1], t[:, :1]],
    "meta": lambda: torch.zeros(2, 3, device="meta"), "storage": lambda: t.storage(), "untyped": lambda: t.untyped_storage(), "generator": lambda: generator, "float8": lambda: t.to(torch.float8_e4m3fn), "uint16": lambda: t.to(torch.uint16), "shared": lambda: [t, t.view(-1), t.storage()],
    "optimizer": lambda: stepped().state_dict(), "module": lambda: torch.nn.BatchNorm1d(3).state_dict(), "size": lambda: [torch.Size([1, 2]), torch.device("cuda", 1), torch.float32, torch.strided, torch.channels_last, torch.per_tensor_affine], "types": lambda: torch.max(t, 1), "swapped": lambda: torch.view_as_real(torch.ones(2, dtype=torch.complex64)),
}
def dressed(one=None):
    one = t.clone() if one is None else one
    one.note, one.more = "x", [1, t]
    return one
def stepped():
    p = torch.nn.Parameter(t.clone())
    optimizer = torch.optim.Adam([p], amsgrad=True)
    p.sum().backward()
    optimizer.step()
    return optimizer
def put(name, data):
    with open(name, "wb") as stream:
        stream.write(data)
tag = sys.argv[1]
for name, value in {**python, **numpy}.items():
    for protocol in (2, 4):
        data = tried(lambda: pickle.dumps(value, protocol))
        if data:
            put("%s.%s.%d.bare" % (tag, name, protocol), data)
for name, make in tensors.items():
    value = tried(make)
    if value is None:
        continue
    for kind in ("archive", "stream"):
        stream = io.BytesIO()
        if tried(lambda: (torch.save(value, stream, _use_new_zipfile_serialization=kind == "archive"), 1)):
            put("%s.%s.2.%s" % (tag, name, kind), stream.getvalue())
    data = tried(lambda: pickle.dumps(value, 2))
    if data:
        put("%s.%s.2.bare" % (tag, name), data)
print("done")
"""
INTS = (0, 1, 2, 3, 4, 6, 7, 8, 9, 16, 24, 31, 32, 33, 64, 127, 128, 255, 256, 624, 625, 1 << 15, 1 << 16, (1 << 31) - 1, 1 << 31, (1 << 32) - 1, 1 << 32, 1 << 40, (1 << 62), (1 << 63) - 1, 1 << 63, 1 << 70, -1, -2, -3, -128, -(1 << 31), -(1 << 63), -(1 << 70))
FLOATS = (0.0, -0.0, 1.0, -1.0, 1e300, 5e-324, 1e18, float("inf"), float("-inf"), float("nan"))
TEXTS = ("", "a", "b", "\0", "cpu", "meta", "cuda:0", "mps", "xla", "little", "latin1", "utf-8", "<", ">", "=", "|", "f8", "i4", "O", "U2", "S3", "V8", "m8", "M8", "b1", "g", "d", "s", "W", "generic", "C", "F", "A", "0", "1", "99", "-1", "1e9", "x" * 70, "torch.sparse_csr", "torch.strided",
         "items", "as_subclass", "__setstate__", "\u00e9", "\U0001f600")
BYTES = (b"", b"\0", b"\xff" * 8, bytes(7), bytes(9), bytes(16), b"\0" * 64, b"\xff", b"a")
# whole values
VALUES = (b"N", b"\x88", b"\x89", b")", b"]", b"}", b"K\x01\x85", b"K\x00K\x00\x86", b"J\xff\xff\xff\xff", b"G?\xf0" + bytes(6), files.text("a"), b"U\x01\xff", b"\x8a\x09" + bytes(8) + b"\x01", b"]K\x01a", b"}K\x01K\x02s")
MAKERS = {"NONE", "NEWTRUE", "NEWFALSE", "EMPTY_TUPLE", "EMPTY_LIST", "EMPTY_DICT", "BININT", "BININT1", "BININT2", "LONG1", "BINFLOAT", "BINUNICODE", "SHORT_BINUNICODE", "SHORT_BINBYTES", "BINBYTES", "SHORT_BINSTRING", "BINGET", "EMPTY_SET"}
DTYPES_OF_STORAGES = ("Float", "Double", "Half", "BFloat16", "Long", "Int", "Byte", "Bool", "QInt8", "QUInt8", "QInt32", "QUInt4x2", "ComplexFloat", "ComplexHalf")
# of a storage: its words
WORDS = (0, 1, 2, 3, 5, -1, 624, 625, 1 << 31, 1 << 40, (1 << 63) - 1, -(1 << 63))
MOST_WORDS = 8


def integer(n):
    size = n.bit_length() // 8 + 1
    return b"\x8a" + bytes([size]) + n.to_bytes(size, "little", signed=True) if n > 255 or n < 0 else b"K" + bytes([n])


def blob(data):
    return b"B" + struct.pack("<I", len(data)) + data


def others(name, argument, opcode):
    """What may stand in the place of an opcode."""
    if name in ("BININT", "BININT1", "BININT2", "LONG1"):
        yield from (integer(n) for n in {*INTS, argument + 1, argument - 1, argument * 2, argument + (1 << 32), -argument} - {argument})
    elif name == "BINFLOAT":
        yield from (b"G" + struct.pack(">d", x) for x in FLOATS)
    elif name in ("BINUNICODE", "SHORT_BINUNICODE"):
        yield from (files.text(text) for text in {*TEXTS, argument + "\0", argument + "a", argument[:-1], argument.upper()} - {argument})
        if argument.isascii() and len(argument) < 256:
            yield b"U" + bytes([len(argument)]) + argument.encode()
    elif name in ("BINBYTES", "SHORT_BINBYTES"):
        yield from (blob(data) for data in {*BYTES, argument[:-1], argument + b"\0", argument * 2, argument[::-1]} - {argument})
        for at in range(min(len(argument), 16)):
            yield from (blob(argument[:at] + bytes([byte]) + argument[at + 1:]) for byte in (0, 1, 0x7F, 0x80, 0xFF, argument[at] ^ 1))
    elif name == "GLOBAL":
        module, last = argument.split(" ")
        if last.endswith("Storage"):
            yield from (files.glob("torch", kind + "Storage") for kind in DTYPES_OF_STORAGES)
        else:
            yield from (files.glob(*other) for other in language.FUNCTIONS + language.CLASSES + language.CONSTANTS if other != (module, last))
    elif name == "PROTO":
        return
    if name in MAKERS:
        yield from (value for value in VALUES if value != opcode)
    yield b""
    yield opcode * 2
    if name in MAKERS or name in ("REDUCE", "BUILD", "TUPLE", "TUPLE1", "TUPLE2", "TUPLE3", "BINPERSID"):
        yield opcode + b"0N"
        yield opcode + b"}b"
        yield opcode + b")R"
        yield opcode + b"\x85"
    if name in ("TUPLE", "TUPLE1", "TUPLE2", "TUPLE3"):
        yield b"K\x000" + opcode
    if name == "REDUCE":
        yield b"\x81"
    if name == "NEWOBJ":
        yield b"R"
    if name == "BUILD":
        yield b"0"


def changed(pickle):
    """PICKLE, with one opcode changed; of frames none is left."""
    parts, bounds = [], [at for _, _, at in pickletools.genops(pickle)] + [len(pickle)]
    for (opcode, argument, at), end in zip(pickletools.genops(pickle), bounds[1:]):
        if opcode.name != "FRAME":
            parts.append((opcode.name, argument, pickle[at:end]))
    whole = [part[2] for part in parts]
    for place, (name, argument, opcode) in enumerate(parts[:-1]):
        before, behind = b"".join(whole[:place]), b"".join(whole[place + 1:])
        for other in others(name, argument, opcode):
            yield before + other + behind


def changed_words(data):
    """DATA, with one of its words changed: each of few, and of many the first ones, the last ones and some between."""
    count = len(data) // 8
    for place in range(count) if count <= 2 * MOST_WORDS else [*range(MOST_WORDS), *range(count - MOST_WORDS, count), *range(310, min(320, count))]:
        for word in WORDS:
            yield data[:8 * place] + struct.pack("<q", word) + data[8 * place + 8:]
    yield data[:-1]
    yield data + b"\0"
    yield data[: len(data) // 2]
    yield b""


def end_of(pickle, start):
    return start + max(at for _, _, at in pickletools.genops(pickle[start:])) + 1


def of_archive(data):
    with zipfile.ZipFile(__import__("io").BytesIO(data)) as archive:
        records = [(info.filename.split("/", 1)[1], archive.read(info)) for info in archive.infolist()]
    for place, (name, record) in enumerate(records):
        if name in ("version", "byteorder") or name.startswith("."):
            continue
        for other in changed(record) if name == "data.pkl" else changed_words(record):
            yield files.archive(records[:place] + [(name, other)] + records[place + 1:])


def of_stream(data):
    front = len(MAGIC + VERSION)
    front = end_of(data, front)
    end = end_of(data, front)
    keys_end = end_of(data, end)
    for other in changed(data[front:end]):
        yield data[:front] + other + data[end:]
    for other in changed(data[end:keys_end]):
        yield data[:end] + other + data[keys_end:]
    for other in changed_words(data[keys_end:]):
        yield data[:keys_end] + other


KINDS = {language.ARCHIVE: of_archive, language.STREAM: of_stream, language.BARE: changed}


def honest(commands, folder):
    """Each file once, by what is in it."""
    with open(os.path.join(folder, "write.py"), "w", encoding="utf-8") as script:
        script.write(WRITE)
    for number, command in enumerate(commands):
        done = subprocess.run(command.split() + ["write.py", "t%d" % number], cwd=folder, stdout=subprocess.PIPE, check=False)
        if b"done" not in done.stdout:
            raise RuntimeError("%s did not write" % command)
    found = {}
    for name in sorted(os.listdir(folder)):
        kind = name.rsplit(".", 1)[-1]
        if kind in KINDS:
            with open(os.path.join(folder, name), "rb") as stream:
                found.setdefault((stream.read(), kind), name)
    return found


def main():
    if not os.environ.get("CKPT_SCAN_MANY") or not os.environ.get("CKPT_PYTHON"):
        print("skipped: CKPT_SCAN_MANY or CKPT_PYTHON is not set, no real torch to load with")
        return 77
    share = int(sys.argv[1]) if len(sys.argv) > 1 else 1
    only = sys.argv[2] if len(sys.argv) > 2 else ""
    commands = os.environ["CKPT_PYTHON"].split(";")
    base = os.environ.get("CKPT_TEST_DIR") or "."
    os.makedirs(base, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="honest-", dir=base) as work:
        os.chmod(work, 0o777)
        for name in os.listdir(os.path.dirname(os.path.abspath(__file__))):
            if name.endswith(".py"):
                shutil.copy(os.path.join(os.path.dirname(os.path.abspath(__file__)), name), work)
        with open(os.path.join(work, "names.txt"), "w", encoding="utf-8") as names:
            names.write("\n".join(sorted(fuzz_plain.allowed_names())))
        unnoticed = fuzz_plain.blind(commands, work)
        loads, waiting, seen = fuzz_plain.Loads(commands, work), [], set()
        written = honest(commands, work)
        tried = 0

        def scan(at_end):
            nonlocal waiting, tried
            if waiting and (at_end or len(waiting) >= BATCH):
                tried += len(waiting)
                loads.add([one for one, verdict in zip(waiting, fuzz_plain.verdicts(waiting, work)) if verdict == fuzz_plain.PLAIN], at_end)
                waiting = []

        for (data, kind), name in written.items():
            if only not in name:
                continue
            waiting.append((data, kind))
            for other in KINDS[kind](data):
                number = zlib.crc32(other)
                if number % share == 0 and (len(other), number) not in seen:
                    seen.add((len(other), number))
                    waiting.append((other, kind))
                    scan(False)
            if len(loads.findings) >= fuzz_plain.MOST_FINDINGS:
                break
        scan(True)
    print("%d files as they are written, %d with one thing changed, %d of all plain and loaded by %d torches, %d findings" % (len(written), tried, loads.done, len(commands), len(loads.findings)))
    print("\n".join(unnoticed), end="")
    return 1 if loads.findings or unnoticed else 0


if __name__ == "__main__":
    sys.exit(main())

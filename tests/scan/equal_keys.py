# SPDX-License-Identifier: Apache-2.0
"""Two keys that are one to Python are not plain in one dict: equal_keys.py

Many keys, each of which with itself and each other one the Pythons and torches of CKPT_PYTHON compare; the scan has to refuse a dict of two that are the same to any of them.
"""

import collections
import os
import struct
import subprocess
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import fuzz_plain  # noqa: E402
import language  # noqa: E402
import scanned  # noqa: E402
from assemble import blob, call, files, proto, reduce_, short, value  # noqa: E402

PLAIN = 0

# each prints the pairs that are the same, by numbers; by encodings of texts of Python 2, of which the page speaks
COMPARE = """
import pickle, sys, warnings
warnings.simplefilter("ignore")
import torch
keys = [bytes.fromhex(line) for line in sys.stdin]
same = set()
for options in ({}, {"encoding": "latin1"}, {"encoding": "bytes"}):
    loaded = []
    for number, key in enumerate(keys):
        try:
            one = pickle.loads(key, **options)
            if len({one: 1, pickle.loads(key, **options): 2}) == 1:
                same.add((number, number))
            loaded.append((number, one))
        except Exception:
            pass
    for at, (n, a) in enumerate(loaded):
        for m, b in loaded[at + 1:]:
            try:
                if hash(a) == hash(b) and len({a: 1, b: 2}) == 1:
                    same.add((n, m))
            except Exception:
                pass
for pair in sorted(same):
    print("same %d %d" % pair)
print("done", len(keys))
"""


def number(n):
    size = n.bit_length() // 8 + 1
    return b"\x8a" + bytes([size]) + n.to_bytes(size, "little", signed=True)


def real(x):
    return b"G" + struct.pack(">d", x)


def dtype(code, *state, copy=True):
    return reduce_("numpy", "dtype", code, False, copy) + (value(state) + b"b" if state else b"")


def scalar(code, data, *state):
    if not state:
        state = (3, "<", None, None, None, -1, -1, 0)
    return call(files.glob("numpy.core.multiarray", "scalar"), dtype(code, *state), reduce_("_codecs", "encode", data.decode("latin1"), "latin1"))


def characters(text):
    return scalar("U%d" % len(text), text.encode("utf-32-le"), 3, "<", None, None, None, 4 * len(text), 4, 8)


def padded(data):
    return scalar("S%d" % len(data), data, 3, "|", None, None, None, len(data), 1, 0)


def span(count, unit="s", code="m8"):
    return scalar(code, struct.pack("<q", count), 4, "<", None, None, None, -1, -1, 0, (None, (unit, 1, 1, 1)))


def at_time(hour, zone=None, year=2020):
    moment = b"C" + bytes([10]) + struct.pack(">HBBBBB", year, 2, 3, hour, 30, 0) + bytes(3)
    return reduce_("datetime", "datetime", moment, *([zone] if zone else []))


def of_day(hour, zone=None):
    return reduce_("datetime", "time", b"C" + bytes([6, hour, 30, 0, 0, 0, 0]), *([zone] if zone else []))


def zone(hours, *name):
    return reduce_("datetime", "timezone", reduce_("datetime", "timedelta", 0, 3600 * hours, 0), *name)


def uuid(n):
    return files.glob("uuid", "UUID") + b")\x81" + value({"int": number(n)}) + b"b"


def keys_of_numbers():
    whole = [0, 1, 2, -1, 255, (1 << 31) - 1, 1 << 31, (1 << 53) + 1, 1 << 53, (1 << 63) - 1, -(1 << 63), 1 << 63, (1 << 64) + 1, 1 << 64, (1 << 61) - 1, 10**22, 10**23, (1 << 62) - 57]
    for n in whole:
        yield number(n)
        yield b"I%d\n" % n
        yield b"L%dL\n" % n
        for name in ("int", "float"):
            yield reduce_("builtins", name, number(n))
            yield reduce_("builtins", name, str(n))
        yield reduce_("builtins", "complex", number(n))
        yield reduce_("builtins", "complex", number(n), 0)
        yield reduce_("builtins", "complex", 0, number(n))
        yield reduce_("decimal", "Decimal", str(n))
        yield reduce_("fractions", "Fraction", number(n))
        yield reduce_("fractions", "Fraction", str(n))
        yield reduce_("fractions", "Fraction", number(2 * n), 2)
        yield real(float(n))
        for code, form in (("i8", "<q"), ("u8", "<Q"), ("i4", "<i"), ("u2", "<H"), ("i1", "<b"), ("u1", "<B")):
            try:
                yield scalar(code, struct.pack(form, n))
            except struct.error:
                pass
        for code, form in (("f8", "<d"), ("f4", "<f"), ("f2", "<e"), ("c16", "<dd"), ("c8", "<ff")):
            try:
                yield scalar(code, struct.pack(form, float(n), *([0.0] if form[2:] else [])))
            except OverflowError:
                pass
    for x in (0.5, -0.0, 0.1, 1.5, 1e300, 5e-324, 1e16, 9007199254740993.0, float("inf"), float("-inf"), 0.30000001192092896, 65504.0):
        yield real(x)
        yield b"F" + repr(x).encode() + b"\n"
        yield reduce_("builtins", "float", real(x))
        yield reduce_("builtins", "float", repr(x))
        yield reduce_("builtins", "complex", real(x))
        yield reduce_("builtins", "complex", real(x), real(0.0))
        yield reduce_("decimal", "Decimal", repr(x))
        yield reduce_("fractions", "Fraction", "1/2")
        yield scalar("f8", struct.pack("<d", x))
        yield scalar("c16", struct.pack("<dd", x, 0.0))
        if abs(x) < 1e30 or abs(x) == float("inf"):
            yield scalar("f4", struct.pack("<f", x))
            yield scalar("c8", struct.pack("<ff", x, 0.0))
    # of one hash, and the same to numpy 2, which rounds those of Python before it compares them
    prime = (1 << 61) - 1
    for n in (314159, 2**100, 2**100 + prime, 2**120, 2**120 + prime):
        yield number(n)
        yield real(float(n))
    yield real(314159 * 2.0**976)
    yield reduce_("builtins", "complex", real(1 + 1000003 * 2.0**-52), real(1 + 2.0**-23 - 2.0**-52))
    for code, form, x in (("f2", "<e", float("inf")), ("f2", "<e", float("-inf")), ("f4", "<f", 2.0**100), ("f8", "<d", 2.0**120), ("c16", "<dd", 2.0**120), ("c8", "<ff", 2.0**100)):
        yield scalar(code, struct.pack(form, x, *([0.0] if form[2:] else [])))
    yield scalar("c8", struct.pack("<ff", 1.0, 1 + 2.0**-23))
    for text in ("0", "1", "01", "+1", " 1", "1 ", "1_0", "10", "1.0", "1.", ".5", "0.5", "1/2", "2/4", "00", "-0", "1E+2", "100", "1e2", "1E2", "Infinity", "inf", "NaN", "0.1", "0x1", "\u0661", "1e-1"):
        for module, name in (("builtins", "int"), ("builtins", "float"), ("decimal", "Decimal"), ("fractions", "Fraction"), ("builtins", "long"), ("builtins", "str")):
            yield reduce_(module, name, text)
    for flag in (b"\x88", b"\x89", b"I01\n", b"I00\n"):
        yield flag
        yield reduce_("builtins", "bool", flag)
        yield reduce_("builtins", "int", flag)
        yield reduce_("builtins", "float", flag)
        yield reduce_("fractions", "Fraction", flag)
    for item in (value(""), value("0"), real(float("nan")), real(0.0), b"N"):
        yield reduce_("builtins", "bool", item)
    for bits in (b"\0", b"\1", b"\2"):
        yield scalar("b1", bits)
    for name in ("int", "float", "complex", "bool", "str", "bytes", "tuple", "frozenset", "long", "unicode"):
        yield files.glob("builtins", name) + b")R"


def keys_of_texts():
    for text in ("", "a", "a\0", "a\0b", "\0", "\0a", "é", "\u20ac", "\U0001f600", "ab", "a/b", "cpu", "cuda:1", "1"):
        yield value(text)
        yield short(text)
        yield b"V" + text.encode("raw-unicode-escape").replace(b"\0", b"\\u0000") + b"\n"
        yield reduce_("builtins", "str", text)
        yield reduce_("builtins", "unicode", text)
        if text:
            yield characters(text)
            yield characters(text + "\0")
        raw = text.encode()
        for data in {raw, text.encode("latin1", "ignore")}:
            yield blob(data)
            yield b"U" + bytes([len(data)]) + data
            yield b"S'" + b"".join(b"\\x%02x" % c for c in data) + b"'\n"
            yield reduce_("_codecs", "encode", data.decode("latin1"), "latin1")
            yield reduce_("builtins", "bytes", blob(data))
            yield reduce_("builtins", "bytes", value(list(data)))
            yield reduce_("builtins", "str", b"U" + bytes([len(data)]) + data)
            yield reduce_("torch.torch_version", "TorchVersion", text)
            if data:
                yield padded(data)
                yield padded(data + b"\0")
        for name in ("PosixPath", "PurePosixPath", "WindowsPath", "PureWindowsPath"):
            yield reduce_("pathlib", name, text)
    for name in ("PosixPath", "PurePosixPath", "PureWindowsPath"):
        for parts in ((), (".",), ("/",), ("//",), ("///",), ("/", "a"), ("/a",), ("//a",), ("a", "b"), ("a/b",), ("a//b",), ("a/./b",), ("a/b/",), ("a", "/b"), ("/b",), ("A", "B"), ("a\\b",), ("..",), ("a/../b",), ("c:/x",), ("C:\\x",), ("", "a"), ("./a",)):
            yield reduce_("pathlib", name, *parts)


def keys_of_dates():
    for hour in (9, 10, 11):
        yield at_time(hour)
        yield of_day(hour)
        yield reduce_("datetime", "datetime", 2020, 2, 3, hour, 30)
        yield reduce_("datetime", "time", hour, 30)
        for hours in (0, 1, 2):
            yield at_time(hour, zone(hours))
            yield at_time(hour, zone(hours, "x"))
            yield of_day(hour, zone(hours))
            yield reduce_("datetime", "datetime", 2020, 2, 3, hour, 30, 0, 0, zone(hours))
    fold = b"C" + bytes([10]) + struct.pack(">HBBBBB", 2020, 0x82, 3, 9, 30, 0) + bytes(3)
    yield reduce_("datetime", "datetime", fold)
    yield reduce_("datetime", "datetime", fold, zone(0))
    yield reduce_("datetime", "time", b"C" + bytes([6, 0x89, 30, 0, 0, 0, 0]))
    for moment in (b"C\x04" + struct.pack(">HBB", 2020, 2, 3), b"U\x04" + struct.pack(">HBB", 2020, 2, 3)):
        yield reduce_("datetime", "date", moment)
    yield reduce_("datetime", "date", 2020, 2, 3)
    for hours in (-1, 0, 1, 24):
        yield zone(hours % 24)
        yield zone(hours % 24, "x")
        yield reduce_("datetime", "timedelta", 0, 3600 * hours)
    for parts in ((), (0,), (1,), (0, 86400), (1, 0, 0), (-1, 86400), (0, 0, 1000000), (0, 1), (999999999,), (0, -86400)):
        yield reduce_("datetime", "timedelta", *parts)
    for unit in ("D", "h", "m", "s", "ms", "us", "ns", "Y", "M", "W"):
        for count in (0, 1, 60, 1000, -(1 << 63)):
            yield span(count, unit)
            yield span(count, unit, "M8")
    for fields in (tuple(range(1, 10)), tuple(range(1, 10)) + ("x", 1), tuple(range(1, 10)) + ("y", 2), tuple(range(1, 10)) + ("x",)):
        yield reduce_("time", "struct_time", fields, {})
        yield reduce_("time", "struct_time", fields)
        yield value(fields)


def keys_of_others():
    for n in (0, 1, -1, 1 << 64, (1 << 128) - 1):
        if 0 <= n < 1 << 128:
            yield uuid(n)
    for place in ("cpu", "cuda", "cuda:0", "cuda:1", "cuda:01", "cuda:127", "cuda:128", "cuda:255", "cuda:256", "meta", "cpu:0"):
        yield reduce_("torch", "device", place)
    for place, index in (("cpu", 0), ("cuda", 0), ("cuda", 1), ("cuda", -1), ("cpu", -1), ("cpu", 255), ("cuda", 255), ("cuda", 256), ("cuda", 128), ("cuda", 127)):
        yield reduce_("torch", "device", place, index)
    yield reduce_("torch", "device", "cuda", b"\x88")
    for items in ((), (1,), (1, 2), (True,), (0,), ("a",), (None,)):
        yield value(items)
        yield reduce_("builtins", "tuple", list(items))
        yield reduce_("builtins", "tuple", items)
        yield reduce_("builtins", "frozenset", list(items))
        yield b"(" + b"".join(map(value, items)) + b"\x91"
        yield reduce_("torch", "Size", list(items))
        yield reduce_("torch", "Size", items)
    for many in ((1, 2), (2, 1)):
        yield reduce_("builtins", "frozenset", many)
        yield reduce_("torch.return_types", "max", many)
        yield reduce_("torch.return_types", "min", many)
        yield value((many, 3))
        yield value((reduce_("builtins", "tuple", list(many)), real(3.0)))
    for arguments in ((0,), (1,), (2,), (-1,), (0, 0), (0, 1), (0, 2, 2), (0, 1, 5), (0, 2, 3), (1, 1), (5, 5, -1), (0, -1, -1), (0, -2, -5), (1, 0), (0, 3, 2), (0, 4, 2), (b"\x88",), (b"\x89", b"\x88")):
        yield reduce_("builtins", "range", *arguments)
        yield reduce_("builtins", "xrange", *arguments)
        yield reduce_("builtins", "slice", *arguments)
        yield reduce_("builtins", "slice", *arguments[:2], *[None] * (3 - len(arguments[:2])))
    yield reduce_("builtins", "range", number(1 << 70))
    yield reduce_("builtins", "range", number(1 << 70), number((1 << 70) - 1))
    for code in ("f8", "d", "float64", "<f8", "=f8", ">f8", "i8", "q", "l", "i4", "U1", "S1", "V4", "V8", "O", "O8", "b1", "?", "m8", "M8", "f4", "c8"):
        yield dtype(code)
        yield dtype(code, copy=False)
        for order in ("<", ">", "=", "|"):
            yield dtype(code, 3, order, None, None, None, -1, -1, 0)
    yield dtype("V8", 3, "|", None, ("a",), {"a": (dtype("f8", 3, "<", None, None, None, -1, -1, 0), 0)}, 8, 1, 16)
    kinds = "float16 half float32 float float64 double int8 int16 short int32 int int64 long uint8 bool bfloat16 complex32 chalf complex64 cfloat complex128 cdouble qint8 quint8 qint32 uint16 float8_e5m2"
    for kind in kinds.split():
        yield files.glob("torch", kind)
    for module, name in language.CONSTANTS + [("torch._utils", "torch"), ("torch", "DoubleStorage"), ("torch", "FloatStorage"), ("torch.cuda", "FloatStorage"), ("torch", "FloatTensor"), ("torch", "Storage"), ("torch", "HalfTensor")]:
        yield files.glob(module, name)
    for module, name in language.CLASSES:
        yield files.glob(module, name)
    for name in sorted(fuzz_plain.allowed_names()):  # of which those of functions are never plain
        yield files.glob(*name.rsplit(".", 1))
    for name in language.names_in("exceptions"):
        yield files.glob("exceptions", name)
    for n in (0, 1, 5):
        yield reduce_("torch.jit._pickle", "build_tensor_from_id", n)
    for shape in ((), (1,), (1, 2)):
        yield reduce_("torch", "Size", reduce_("torch", "Size", shape))
        yield reduce_("torch", "Size", reduce_("torch", "Size", reduce_("torch", "Size", list(shape))))
    for module, name in language.CONSTANTS:
        yield reduce_("builtins", "type", files.glob(module, name))
    for text in ("torch.strided", "torch.sparse_coo", "torch.sparse_csr"):
        yield reduce_("torch.serialization", "_get_layout", text)
    for constant in (b"N", files.glob("builtins", "Ellipsis"), files.glob("builtins", "NotImplemented")):
        yield constant
        yield reduce_("builtins", "type", constant)
    yield files.glob("torch.serialization", "StorageType") + b")R"
    yield files.glob("torch", "Generator") + b")R"
    yield files.glob("builtins", "object") + b")R"
    yield files.glob("__builtin__", "NoneType")
    for name in ("contiguous_format", "channels_last"):
        yield call(files.glob("builtins", "getattr"), files.glob("torch._utils", "torch"), name)


def main():
    if not os.environ.get("CKPT_SCAN_MANY") or not os.environ.get("CKPT_PYTHON"):
        print("skipped: CKPT_SCAN_MANY or CKPT_PYTHON is not set, no real torch to compare with")
        return 77
    some = [key for make in (keys_of_numbers, keys_of_texts, keys_of_dates, keys_of_others) for key in make()]
    some = list(dict.fromkeys(some))
    with scanned.Folder("equal-keys") as folder:
        os.chmod(folder, 0o755)
        alone = fuzz_plain.verdicts([(proto(4, b"}" + key + b"Ns"), language.BARE) for key in some], folder)
        keys = [key for key, verdict in zip(some, alone) if verdict == PLAIN]
        with open(os.path.join(folder, "compare.py"), "w", encoding="utf-8") as script:
            script.write(COMPARE)
        lines = "".join(proto(4, key).hex() + "\n" for key in keys)
        same, wrong, missed = {}, [], []
        for command in os.environ["CKPT_PYTHON"].split(";"):
            done = subprocess.run(command.split() + ["compare.py"], cwd=folder, input=lines, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, encoding="utf-8", check=False)
            told = done.stdout.splitlines()
            if not told or told[-1] != "done %d" % len(keys):
                wrong.append("%s ended with status %d" % (command, done.returncode))
            for line in told[:-1]:
                same.setdefault(tuple(map(int, line.split()[1:])), command)
        pairs = sorted(same)
        together = [(proto(4, b"}(" + keys[a] + b"N" + keys[b] + b"Nu"), language.BARE) for a, b in pairs]
        for (a, b), verdict in zip(pairs, fuzz_plain.verdicts(together, folder)):
            if verdict == PLAIN:
                missed.append((a, b))
        while missed:  # those first of which most are about
            often = collections.Counter(number for pair in missed for number in pair).most_common(1)[0][0]
            theirs = [pair for pair in missed if often in pair]
            missed = [pair for pair in missed if often not in pair]
            wrong.append("%d pairs of one key to %s: %r and %r" % (len(theirs), same[theirs[0]], keys[theirs[0][0]], keys[theirs[0][1]]))
    for text in wrong[:40]:
        print("FAIL " + text)
    print("%d keys, %d of them plain, %d pairs of these the same to a loader, %d wrong" % (len(some), len(keys), len(pairs), len(wrong)))
    return 1 if wrong or len(pairs) < 1000 else 0


if __name__ == "__main__":
    sys.exit(main())

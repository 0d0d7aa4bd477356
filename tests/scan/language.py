# SPDX-License-Identifier: Apache-2.0
"""Programs in the language of docs/scan.md, made at random, most of them with something wrong: a value of another type, a function where data
belongs, a state that is set twice, an opcode too many. make(seed) -> bytes, how they are to be loaded.

What comes out is read by `ckpt scan`, and what that calls plain is loaded by traced_load.py. Nothing here unpickles.
"""

import os
import random
import re
import struct

from assemble import FACTS, MAGIC, VERSION, blob, files, proto
from language_tensors import DTYPES, Tensors, count_of, stored_bytes
from python2_texts import spelled, text_of_python2

BARE, STREAM, ARCHIVE = "bare", "stream", "archive"

with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "src", "scan", "table.c"), encoding="utf-8") as source:
    TABLE = source.read()

NAMES_OF_KEYS = [
    "a", "weight", "_metadata", "__setstate__", "__class__", "__dict__", "__module__", "__reduce_ex__", "__getattr__", "__torch_function__", "append", "extend", "add",
    "keys", "items", "update", "dtype", "data", "grad", "_backward_hooks", "requires_grad", "names", "_untyped_storage", "detach", "set_", "device", "real", "shape", "is_leaf",
    "_cdata", "args", "__cause__", "int", "is_safe", "__doc__", "size", "type", "_grad_fn", "untyped_storage", "clone", "__array__", "__len__", "load", "read", "x" * 300,
]
FUNCTIONS = [
    ("torch.storage", "_load_from_bytes"), ("torch._utils", "_rebuild_tensor_v2"), ("torch._utils", "_rebuild_parameter"), ("torch._utils", "torch"), ("_codecs", "encode"),
    ("torch.jit._pickle", "build_intlist"), ("torch.jit._pickle", "restore_type_tag"), ("torch._tensor", "_rebuild_from_type_v2"), ("numpy.core.multiarray", "_reconstruct"),
    ("numpy.core.multiarray", "scalar"), ("torch.serialization", "_get_layout"), ("array", "_array_reconstructor"), ("torch._utils", "_rebuild_parameter_with_state"),
]
CLASSES = [
    ("collections", "OrderedDict"), ("collections", "Counter"), ("collections", "defaultdict"), ("collections", "deque"), ("builtins", "dict"), ("builtins", "list"), ("builtins", "tuple"),
    ("builtins", "set"), ("builtins", "str"), ("builtins", "int"), ("builtins", "bytes"), ("builtins", "bytearray"), ("builtins", "range"), ("builtins", "object"), ("builtins", "type"),
    ("torch", "Size"), ("torch", "device"), ("torch", "Tensor"), ("torch", "Generator"), ("torch.nn.parameter", "Parameter"), ("torch", "FloatTensor"), ("torch", "FloatStorage"),
    ("torch.nn.parameter", "UninitializedParameter"), ("numpy", "ndarray"), ("numpy", "dtype"), ("datetime", "datetime"), ("uuid", "UUID"), ("builtins", "ValueError"), ("builtins", "KeyError"),
    ("decimal", "Decimal"), ("fractions", "Fraction"), ("pathlib", "PosixPath"), ("torch.autograd.variable", "Variable"), ("builtins", "complex"), ("builtins", "slice"),
]
# rows, and of what type each argument is: one of some
# text, then what a state says of size, alignment and flags
SOUND_DTYPES = [("O8", -1, -1, 63), ("b1", -1, -1, 0), ("i1", -1, -1, 0), ("i2", -1, -1, 0), ("i4", -1, -1, 0), ("u8", -1, -1, 0), ("f4", -1, -1, 0), ("f8", -1, -1, 0), ("c16", -1, -1, 0), ("S3", 3, 1, 0), ("U2", 8, 4, 8), ("V4", 4, 1, 0)]
SMALL_CALLS = [
    (("datetime", "datetime"), "moment"), (("datetime", "datetime"), "moment", "zone"), (("datetime", "date"), "moment"), (("datetime", "time"), "moment"), (("datetime", "time"), "moment", "zone"),
    (("datetime", "time"), "small", "small", "small", "int"), (("datetime", "date"), "year", "small", "small"), (("datetime", "timezone"), "zone|int"), (("datetime", "datetime"), "year", "small", "small", "small"),
    (("builtins", "UnicodeTranslateError"), "text", "small", "small", "text"), (("builtins", "SyntaxError"), "text|pair"), (("builtins", "IndentationError"),), (("builtins", "TabError"), "text"),
    (("builtins", "xrange"), "int"), (("builtins", "range"), "int", "int", "small"), (("builtins", "unicode"), "text"), (("builtins", "long"), "digits|float|int"), (("builtins", "object"),),
    (("builtins", "int"), "digits|bool|float"), (("builtins", "float"), "digits|int"), (("decimal", "Decimal"), "digits"), (("fractions", "Fraction"), "digits|int"), (("fractions", "Fraction"), "int", "int"),
    (("array", "_array_reconstructor"), "array_class", "array_code", "kind_of_array", "bytes"), (("itertools", "count"), "float|int", "float|int"), (("time", "struct_time"), "fields", "names_of_fields"),
    (("time", "struct_time"), "fields"), (("pathlib", "PurePosixPath"), "text"), (("pathlib", "WindowsPath"), "text"), (("pathlib", "PureWindowsPath"), "text", "text"), (("pathlib", "PosixPath"), "text", "text"),
    (("torch.serialization", "StorageType"),), (("torch.torch_version", "TorchVersion"), "text|digits"), (("torch.jit._pickle", "build_tensor_from_id"), "int"), (("builtins", "type"), "constant|scalar"),
    (("builtins", "slice"), "scalar", "scalar"), (("builtins", "complex"), "float|int", "float|int"), (("builtins", "bytearray"), "bytes|list|text"), (("torch", "device"), "place", "small"), (("torch", "Size"), "shape"),
    (("numpy.core.numeric", "_frombuffer"), "bytes", "numpy_dtype", "shape", "text"), (("torch.serialization", "_get_layout"), "text"), (("builtins", "frozenset"), "list|shape"), (("builtins", "list"), "list|shape"),
]
CONSTANTS = [("builtins", "Ellipsis"), ("builtins", "NotImplemented"), ("builtins", "NoneType"), ("torch", "per_tensor_affine"), ("torch", "per_tensor_symmetric"), ("torch", "per_channel_symmetric"), ("torch", "preserve_format"),
             ("torch", "channels_last"), ("torch", "channels_last_3d"), ("torch", "contiguous_format"), ("torch", "strided"), ("torch", "sparse_coo"), ("torch.storage", "UntypedStorage"), ("torch.storage", "TypedStorage"),
             ("numpy", "ndarray"), ("torch.distributed.tensor", "DTensor"), ("torch.distributed._tensor", "DTensor"), ("torch.distributed._tensor.api", "DTensor"), ("torch._utils", "torch.channels_last"), ("torch._utils", "torch.channels_last_3d"), ("torch._utils", "torch.contiguous_format"), ("torch._utils", "torch.preserve_format")]
EVIL = [("posix", "mkdir"), ("builtins", "eval"), ("os", "putenv"), ("torch.return_types", "__setattr__"), ("builtins", "getattr"), ("a.b", "C"), ("torch", "hub"), ("torch.hub", "load")]
CANARY = proto(2, b"cposix\nmkdir\n(" + files.text("/canary") + b"tR")
OF_PYTHON2 = 0.1
INNERS = [MAGIC + VERSION + FACTS + CANARY + proto(2, b"]"), CANARY, MAGIC + CANARY]


def names_in(array):
    """Of what is alike the table has names alone."""
    return re.findall(r'"(\w+)"', re.search(r"%s\[\] = \{(.*?)\};" % array, TABLE, re.S).group(1))


RETURN_TYPES = names_in("return_types")
# these have rows of their own, or take a text alone
EXCEPTIONS = sorted(set(names_in("exceptions")) - {"SyntaxError", "IndentationError", "TabError"})


class Program(Tensors):
    BARE, STREAM = BARE, STREAM

    def __init__(self, rng, kind, wrongs):
        self.rng, self.kind, self.wrongs = rng, kind, wrongs
        self.memo, self.count, self.storages, self.depth = {}, 0, {}, 0
        self.all_on_meta = rng.random() < 0.03  # nearly all storages
        self.all_wide = rng.random() < 0.05  # nearly all numbers of tensors have 16 bytes
        self.protocol = rng.choice([2, 2, 2, 3, 4, 5])

    # ---- pieces: each leaves one value ----

    def glob(self, module, name):
        if self.protocol >= 4 and self.rng.random() < 0.5:
            return b"\x8c" + bytes([len(module)]) + module.encode() + b"\x8c" + bytes([len(name)]) + name.encode() + b"\x93"
        return files.glob(module, name)

    def int(self):
        n = self.rng.choice([0, 0, 1, 1, 2, 3, 4, 7, -1, 255, 256, 65535, 1 << 30])
        return b"K" + bytes([n]) if 0 <= n < 256 else b"J" + struct.pack("<i", n)

    def small(self):
        return b"K" + bytes([self.rng.choice([0, 1, 1, 2])])

    def bool(self):
        return self.rng.choice([b"\x88", b"\x89"])

    def float(self):
        return b"G" + struct.pack(">d", self.rng.choice([0.0, 1.5, -2.25, 1e300]))

    def text(self):
        return files.text(self.rng.choice(NAMES_OF_KEYS + ["cpu", "latin1", "utf-8", "f4", "C", "0", "12", "3/4", "1e9", "torch.strided", "torch.sparse_coo"]))

    def key(self):
        return files.text(self.rng.choice(NAMES_OF_KEYS)) if self.rng.random() < 0.9 else self.any()

    def bytes(self):
        data = self.rng.choice([b"", b"b", bytes(4), bytes(8), bytes(16), self.rng.choice(INNERS)])
        return blob(data) if self.protocol >= 3 else self.glob("_codecs", "encode") + b"(" + files.text(data.decode("latin1")) + files.text(self.rng.choice(["latin1"] * 9 + ["utf-8"])) + b"tR"

    def scalar(self):
        return self.rng.choice([self.int, self.bool, self.float, self.text, lambda: b"N"])()

    def tuple(self, *items):
        return b"(" + b"".join(items) + b"t"

    def list(self):
        items = b"".join(self.any() for _ in range(self.rng.randrange(3)))
        return b"](" + items + b"e" if items else b"]"

    def dict(self):
        pairs = b"".join(self.key() + self.any() for _ in range(self.rng.randrange(3)))
        return b"}(" + pairs + b"u" if pairs else b"}"

    def call(self, name, *arguments):
        return self.glob(*name) + self.tuple(*(self.some(a) for a in arguments)) + (b"R" if self.rng.random() < 0.97 else b"\x81")

    def storage(self):
        return self.storage_of(self.rng.choice("012"))

    def shape(self):
        return self.rng.choice([b"(K\x02t", b"(K\x01K\x02t", b")", b"(K\x04t", b"(K\x02K\x02t", b"](K\x02e"]) if self.rng.random() < 0.9 else self.call(("torch", "Size"), "shape")

    def hooks(self):
        return self.rng.choice([self.glob("collections", "OrderedDict") + b")R"] * 5 + [b"N", b"}"])

    def metadata(self):
        return self.rng.choice([b"N", b"}", *(b"}" + files.text(key) + value + b"s" for key in ("neg", "conj", "a") for value in (b"\x88", b"\x89"))])

    def tensor(self):
        if self.rng.random() < 0.7:
            return self.any_tensor()
        return self.call(("torch._utils", "_rebuild_tensor_v2"), "storage", "small", "shape", "shape", "bool", "hooks", *(["metadata"] if self.rng.random() < 0.2 else []))

    def dressed(self):
        if self.rng.random() < 0.5:
            return self.call(("torch._utils", "_rebuild_parameter_with_state"), "tensor", "bool", "hooks", "attributes")
        return (self.glob("torch._tensor", "_rebuild_from_type_v2") + b"(" + self.glob("torch._utils", "_rebuild_tensor_v2") + self.glob(*self.rng.choice([("torch", "Tensor"), ("torch.nn.parameter", "Parameter")]))
                + self.tuple(*(self.some(a) for a in ("storage", "small", "shape", "shape", "bool", "hooks"))) + self.some("attributes") + b"tR")

    def attributes(self):
        if self.rng.random() < 0.1:      # a pair, or what is none
            return self.tuple(*(self.some("attributes") for _ in range(self.rng.choice([0, 1, 2, 2, 2, 3, 4]))))
        names = [n for n in NAMES_OF_KEYS if self.rng.random() < 0.5 or not n.startswith("__")]
        pairs = b"".join(files.text(self.rng.choice(names)) + self.any() for _ in range(self.rng.randrange(3)))
        return (b"}(" + pairs + b"u" if pairs else b"}") if self.rng.random() < 0.9 else self.any()

    def dtype(self):
        return self.glob("torch", self.rng.choice(DTYPES))

    def container(self):
        name = self.rng.choice(["OrderedDict", "OrderedDict", "defaultdict", "Counter", "deque"])
        if name == "deque":
            out = self.glob("collections", "deque") + b")R"
            return out + b"".join(self.any() + b"a" for _ in range(self.rng.randrange(3)))
        out = self.glob("collections", name) + (b"(" + self.glob("builtins", self.rng.choice(["list", "dict", "int"])) + b"t" if name == "defaultdict" else b")") + b"R"
        out += b"".join(self.key() + self.any() + b"s" for _ in range(self.rng.randrange(3)))
        return out + (self.some("attributes") + b"b" if name == "OrderedDict" and self.rng.random() < 0.3 else b"")

    def made_container(self):
        name = self.rng.choice(["dict", "list", "tuple", "set", "frozenset", "str", "bytes", "bytearray", "complex", "int", "float", "bool", "slice", "range"])
        return self.call(("builtins", name), *self.rng.choice([("list",), ("dict",), ("scalar",), ("shape",), ("int", "int"), ("bytes",), ()]))

    def numpy_dtype(self):
        if self.rng.random() < 0.15:
            return self.time_dtype()
        out = self.call(("numpy", "dtype"), "dtype_text", "bool", "bool")
        return out + (self.dtype_state() + b"b" if self.rng.random() < 0.8 else b"")

    def time_dtype(self):
        unit = self.rng.choice([b"N", b"}"]) + b"(" + self.bytes_of(self.rng.choice([b"us", b"ns", b"D", b"", b"x"])) + self.small() + self.small() + self.small() + b"tt"
        return (self.glob("numpy", "dtype") + b"(" + files.text(self.rng.choice(["M8", "m8"])) + b"\x89\x88tR(K\x04" + files.text("<") + b"NNN" + b"J\xff\xff\xff\xff" * 2 + b"K\x00" + b"(" + unit[:1] + unit[1:] + b"tb")

    def bytes_of(self, data):
        return blob(data) if self.protocol >= 3 else self.glob("_codecs", "encode") + b"(" + files.text(data.decode("latin1")) + files.text("latin1") + b"tR"

    def dtype_text(self):
        return files.text(self.rng.choice(["f4", "f8", "i8", "O", "S4", "U2", "V8", "O8", "?", "M8", "i4,f8"]))

    def dtype_state(self):
        size = self.rng.choice([b"J\xff\xff\xff\xff"] * 5 + [b"K\x08"])
        return b"(K\x03" + files.text(self.rng.choice("<<<|>")) + b"NNN" + size + size + b"K" + bytes([self.rng.choice([0, 0, 0, 63, 8])]) + b"t"

    def sound_dtype(self):
        """(opcodes, bytes of an item): all that is said of it fits, but for the order of bytes, at times."""
        text, size, alignment, flags = self.rng.choice(SOUND_DTYPES)
        nbytes = size if size > 0 else int(text[1:])
        order = "<" if text[0] == "U" or (text[0] not in "OSV" and nbytes > 1) else "|"
        order = self.rng.choice([order] * 7 + list("<>|"))
        numbers = b"".join(b"J" + struct.pack("<i", n) for n in (size, alignment, flags))
        return self.glob("numpy", "dtype") + b"(" + files.text(text) + b"\x89\x88tR(K\x03" + files.text(order) + b"NNN" + numbers + b"tb", nbytes

    def sound_array(self):
        dtype, nbytes = self.sound_dtype()
        count, shape = self.rng.choice([(0, b"(K\x00t"), (1, b")"), (1, b"(K\x01t"), (4, b"(K\x02K\x02t")])
        items = self.bytes_of(bytes([65, 0, 0, 0] * (nbytes * count))[:nbytes * count])
        if files.text("O8") in dtype:
            items = b"](" + b"".join(self.scalar() for _ in range(count)) + b"e"
        return (self.glob("numpy.core.multiarray", "_reconstruct") + b"(" + self.glob("numpy", "ndarray") + b"(K\x00t" + self.bytes_of(b"b") + b"tR(K\x01" + shape + dtype + self.bool() + items + b"tb")

    def numpy_array(self):
        if self.rng.random() < 0.4:
            return self.sound_array()
        dtype = self.put(self.numpy_dtype()) if self.rng.random() < 0.7 else self.some("numpy_dtype")
        return (self.glob("numpy.core.multiarray", "_reconstruct") + b"(" + self.glob("numpy", "ndarray") + self.rng.choice([b"(K\x00t"] * 9 + [b"(K\x05t"]) + self.some("bytes") + b"tR"
                + b"(K\x01" + self.shape() + dtype + b"\x89" + self.rng.choice([self.bytes, self.list])() + b"tb")

    def numpy_scalar(self):
        return self.call(("numpy.core.multiarray", "scalar"), "numpy_dtype", "bytes")

    def other(self):
        return self.rng.choice([
            lambda: self.call(("datetime", "timedelta"), "small", "small", "small"),
            lambda: self.call(("datetime", "datetime"), "int", "int", "int"),
            lambda: self.call(("decimal", "Decimal"), "text"),
            lambda: self.call(("fractions", "Fraction"), "text"),
            lambda: self.call(("pathlib", "PosixPath"), "text"),
            lambda: self.call(("builtins", self.rng.choice(["UnicodeDecodeError", "UnicodeEncodeError"])), "text", "text" if self.rng.random() < 0.5 else "bytes", "small", "small", "text"),
            lambda: self.exception() + (self.some("attributes") + b"b" if self.rng.random() < 0.4 else b""),
            lambda: self.call(("torch.return_types", self.rng.choice(RETURN_TYPES)), "pair"),
            lambda: self.generator(),
            lambda: self.small_call(),
            lambda: self.small_call(),
            lambda: self.small_call(),
            lambda: self.call(("torch", "device"), "place"),
            lambda: self.call(("torch", "Generator"), "place") + (b"(K\x05N" + self.some("tensor") + b"tb" if self.rng.random() < 0.5 else b""),
            lambda: self.glob("builtins", "iter") + self.tuple(self.rng.choice([self.list, self.shape])()) + b"R" + self.rng.choice([b"", self.small() + b"b", self.int() + b"b", self.any() + b"b"]),
            lambda: self.glob("_io", "BytesIO") + b")" + self.rng.choice([b"\x81", b"R"]) + self.tuple(self.bytes(), self.rng.choice([b"K\x00", self.small(), self.int()]), self.rng.choice([b"N"] * 5 + [b"}", self.any()])) + b"b",
            lambda: self.call(("builtins", self.rng.choice(["ExceptionGroup", "ExceptionGroup", "BaseExceptionGroup"])), "text", "exceptions") + self.rng.choice([b"", self.noted() + b"b"]),
            lambda: self.exception() + self.noted() + b"b",
            lambda: self.glob("itertools", "count") + b"(" + self.int() + b"tR",
            lambda: self.glob("time", "struct_time") + b"((" + b"".join(self.scalar() for _ in range(9)) + b"t}tR",
            lambda: self.glob("uuid", "UUID") + b")\x81}" + files.text("int") + b"K\x07sb",
            lambda: self.call(("array", "array"), "array_code", "list"),
            lambda: self.call(("torch.jit._pickle", self.rng.choice(["build_intlist", "build_tensorlist", "build_doublelist", "build_boollist"])), "list"),
            lambda: self.call(("torch.jit._pickle", "restore_type_tag"), self.rng.choice(["list", "dict"]), self.rng.choice(["text", "tag"])),
            lambda: self.call(("torch.nn.parameter", self.rng.choice(["Parameter", "UninitializedParameter"])), *self.rng.choice([(), ("bool",), ("tensor", "bool")])),
            lambda: self.call(("torch.storage", "_load_from_bytes"), "bytes") if self.rng.random() < 0.3 else self.storage(),
            lambda: self.glob("builtins", "getattr") + self.tuple(self.glob("torch._utils", "torch"), files.text(self.rng.choice(["channels_last", "contiguous_format", "hub"]))) + b"R",
            lambda: self.call(("builtins", "type"), "scalar"),
        ])()

    def small_call(self):
        """Rows of numbers, dates and names."""
        name, *arguments = self.rng.choice(SMALL_CALLS)
        made = self.call(name, *(self.rng.choice(a.split("|")) for a in arguments))
        return made + (self.some("attributes") + b"b" if name[1] in ("StorageType", "TorchVersion") and self.rng.random() < 0.3 else b"")

    def tag(self):
        return files.text(self.rng.choice(["List[int]", "Dict[str, Tensor]", "List[List[float]]", "Tuple[int, ...]", "int", "[" * 20]))

    def digits(self):
        return files.text(self.rng.choice(["0", "12", "-7", "3/4", "1.5", "nan", " 1 ", "1_0", "\u0663", "9" * 40]))

    def moment(self):
        return self.bytes_of(self.rng.choice([bytes([7, 228, 2, 29, 11, 59, 1, 0, 0, 1]), bytes([7, 228, 2, 29]), bytes([11, 59, 1, 0, 0, 1]), bytes(10), bytes([7, 228, 2, 30]), b"\xff" * 6, b""]))

    def zone(self):
        return self.glob("datetime", "timezone") + self.tuple(self.call(("datetime", "timedelta"), *self.rng.choice([("small", "int", "small"), ("zero", "int", "zero"), ("zero", "hour", "zero")])), *([self.text()] if self.rng.random() < 0.3 else [])) + b"R"

    def zero(self):
        return b"K\x00"

    def hour(self):
        return b"M\x10\x0e"

    def array_class(self):
        return self.glob("array", "array")

    def kind_of_array(self):
        return self.rng.choice([b"K" + bytes([self.rng.choice([0, 1, 8, 14, 21, 22])]), self.small()])

    def fields(self):
        """The parts of a time.struct_time."""
        return self.tuple(*(self.scalar() for _ in range(self.rng.choice([9, 9, 9, 11, 8]))))

    def names_of_fields(self):
        return b"}" if self.rng.random() < 0.5 else b"}" + files.text(self.rng.choice(["tm_zone", "tm_gmtoff", "x"])) + self.scalar() + b"s"

    def year(self):
        return b"M\xe8\x07"

    def constant(self):
        return self.glob(*self.rng.choice(CONSTANTS))

    def exception(self):
        return self.call(("builtins", self.rng.choice(["ValueError", "KeyError", "OSError", self.rng.choice(EXCEPTIONS)])), *self.rng.choice([(), ("any",), ("any",), ("any", "any"), ("int", "text", "text")]))

    def exceptions(self):
        items = b"".join(self.exception() if self.rng.random() < 0.9 else self.any() for _ in range(self.rng.randrange(4)))
        return self.rng.choice([b"](" + items + b"e", b"(" + items + b"t"])

    def noted(self):
        return b"}" + files.text("__notes__") + self.rng.choice([b"](" + b"".join(self.text() for _ in range(self.rng.randrange(3))) + b"e"] * 4 + [self.any()]) + b"s"

    def pair(self):
        return self.tuple(self.any(), self.any())

    def place(self):
        return files.text(self.rng.choice(["cpu", "cpu", "cuda:0", "meta", "x"]))

    def array_code(self):
        return files.text(self.rng.choice("bid"))

    def any(self):
        if self.depth > 3:
            return self.scalar()
        return getattr(self, self.rng.choice(
            ["scalar"] * 6 + ["list", "dict", "dict", "tensor", "tensor", "container", "container", "made_container", "numpy_array", "numpy_scalar", "numpy_dtype", "dressed", "other", "other",
                              "dtype", "constant", "bytes", "shape", "pair"]))()

    # ---- what goes wrong ----

    def put(self, opcodes):
        """... and remember it."""
        self.count += 1
        self.memo[self.count % 200] = True
        return opcodes + b"q" + bytes([self.count % 200])

    def get(self):
        return b"h" + bytes([self.rng.choice(sorted(self.memo))])

    def wrong(self):
        way = self.rng.randrange(12)
        if way < 3:
            return self.glob(*self.rng.choice(FUNCTIONS + CLASSES))
        if way == 3:
            return self.glob(*self.rng.choice(EVIL)) + (b")R" if self.rng.random() < 0.5 else b"")
        if way < 6:
            return self.glob(*self.rng.choice(CLASSES + FUNCTIONS)) + self.tuple(*(self.any() for _ in range(self.rng.randrange(3)))) + b"R"
        if way < 8 and self.memo:
            return self.get()
        if way < 9:
            return self.any() + self.any() + b"b"
        if way < 10:
            return self.any() + self.any() + b"a"
        return self.any()

    def some(self, kind):
        """A value of KIND, or not."""
        self.depth += 1
        try:
            if self.wrongs and self.rng.random() < self.wrongs:
                out = self.wrong()
            elif self.memo and self.rng.random() < 0.02:
                out = self.get()
            else:
                out = getattr(self, kind)()
            return self.put(out) if self.rng.random() < 0.2 else out
        finally:
            self.depth -= 1

    def afterwards(self):
        """Something is done to what was made before."""
        target = self.get()
        return target + self.rng.choice([
            lambda: self.some("attributes") + b"b",
            lambda: self.some("bytes") + b"b",
            lambda: self.some("dtype_state") + b"b",
            lambda: self.some("any") + b"a",
            lambda: b"(" + self.some("any") + b"e",
            lambda: self.key() + self.some("any") + b"s",
            lambda: self.some("pair") + b"b",
            lambda: self.some("pair") + b"R",
        ])() + b"0"

    def body(self):
        keeps = self.rng.random() < 0.6  # all of it, in a list: what is dropped nobody uses
        out = b"]" if keeps else b""
        for _ in range(self.rng.randrange(1, 4)):
            out += self.put(self.some("any")) + (b"a" if keeps else b"0")
            if self.rng.random() < self.wrongs * 3:
                out += self.afterwards()
        return out + self.some("any") + (b"a" if keeps else b"")


def mangle(rng, data):
    data = bytearray(data)
    for _ in range(rng.randrange(1, 4)):
        at = rng.randrange(len(data))
        way = rng.randrange(4)
        if way == 0:
            data[at] = rng.randrange(256)
        elif way == 1:
            del data[at:at + rng.randrange(1, 4)]
        elif way == 2:
            data[at:at] = data[rng.randrange(len(data)):][:rng.randrange(1, 12)]
        else:
            data[at:at] = bytes([rng.choice(b"bRas0\x81q(teu")])
        if not data:
            return b"."
    return bytes(data)


def make(seed):
    """(bytes, BARE, STREAM or ARCHIVE)"""
    rng = random.Random(seed)
    kind = rng.choice([BARE, STREAM, ARCHIVE])
    program = Program(rng, kind, rng.choice([0, 0, 0.02, 0.05, 0.15]))
    body = program.body()
    if rng.random() < 0.1:
        body = mangle(rng, body)
    pickle = b"\x80" + bytes([program.protocol]) + body + b"."
    of_python2 = rng.random() < OF_PYTHON2
    if of_python2:
        pickle = spelled(rng, pickle)
    if kind == BARE:
        return pickle, kind
    keys = sorted(program.storages)
    if kind == ARCHIVE:
        records = [("data.pkl", pickle)] + [("byteorder", rng.choice([b"little"] * 9 + [b"big"]))] * rng.randrange(2) + [("data/" + key, stored_bytes(key)) for key in keys] + [("version", b"3\n")]
        return files.archive(records, begins=rng.choice([0] * 6 + [8, 1])), kind  # 8, 1: as who packs it anew
    stored = b"".join(struct.pack("<q", count_of(key)) + stored_bytes(key) for key in keys)
    named = [text_of_python2(rng, k.encode()) if of_python2 and rng.random() < 0.7 else files.text(k) for k in keys]
    return MAGIC + VERSION + FACTS + pickle + proto(2, b"](" + b"".join(named) + b"e" if keys else b"]") + stored, kind

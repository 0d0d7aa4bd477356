# SPDX-License-Identifier: Apache-2.0
"""The tensors of the language that language.py makes programs of: in each layout and by each function of the table, over storages with numbers that fit, or nearly.

A part of Program there, which has the other values. Nothing here unpickles.
"""

import struct

from assemble import FACTS, MAGIC, VERSION, blob, files, proto

ZERO_TO_FIVE = [0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 0, 1, 2, 3]
# key: class, bytes of a number, what struct calls it or None, numbers: a storage has 16, if it does not have others
STORAGES = {
    "0": ("FloatStorage", 4, "f", [0.5 * n for n in range(16)]),
    "1": ("FloatStorage", 4, "f", [1.0] * 16),
    "2": ("DoubleStorage", 8, "d", [0.25] * 16),
    "rows": ("LongStorage", 8, "q", ZERO_TO_FIVE),
    "ones": ("LongStorage", 8, "q", [0, 1, 1, 2, 2, 0, 1, 0, 1, -1, 4, 4, 2, 1, 0, 1 << 40]),
    "crow": ("LongStorage", 8, "q", [0, 1, 2, 2, 4, 0, 1, 0, 1, 0, 2, 4, 0, 2, 4, 4]),
    "short": ("IntStorage", 4, "i", [0, 1, 2, 2, 4, 0, 1, 0, 1, 0, 2, 4, 0, 2, 4, 4]),
    "q": ("QInt8Storage", 1, None, None),
    "u": ("QUInt8Storage", 1, None, None),
    "q32": ("QInt32Storage", 4, "i", ZERO_TO_FIVE),
    "u4": ("QUInt4x2Storage", 1, None, None),
    "bool": ("BoolStorage", 1, None, None),
    "half": ("HalfStorage", 2, None, None),
    "bf": ("BFloat16Storage", 2, None, None),
    "cf": ("ComplexFloatStorage", 8, None, None),
    "cd": ("ComplexDoubleStorage", 16, None, None),
    "byte": ("ByteStorage", 1, None, None),
    "raw": ("UntypedStorage", 1, None, None),
    # a seed, 600 numbers left, seeded, the next one: of a generator
    "state": ("ByteStorage", 1, "B", list(struct.pack("<QiiQ", 1, 600, 1, 25) + bytes(5056 - 24 + 64))),
}
OF_CLASS = {"QInt8Storage": "q", "QUInt8Storage": "u", "QInt32Storage": "q32"}
COUNT = 16
DTYPES = ["float32", "int64", "bfloat16", "bool", "float64", "int8", "uint8", "complex64", "complex128", "half", "quint8"]


def stored_bytes(key):
    _, size, letter, numbers = STORAGES[key]
    return struct.pack("<%d%s" % (count_of(key), letter), *numbers) if letter else bytes([0, 1] * (COUNT * size // 2))


def count_of(key):
    return len(STORAGES[key][3] or [0] * COUNT)


def ints(values):
    return b"(" + b"".join(b"K" + bytes([v]) if 0 <= v < 256 else b"J" + struct.pack("<i", v) for v in values) + b"t"


class Tensors:
    # ---- storages ----

    def storage_of(self, key):
        name, size, _, _ = STORAGES[key]
        module = "torch.storage" if name == "UntypedStorage" else "torch"
        count = count_of(key) * (self.rng.choice([1] * 20 + [2, 0]))
        if self.kind == self.BARE or self.rng.random() < 0.03:      # as pickle.dump writes it
            mention = b"(" + files.text("storage") + files.glob(module, name) + files.text(key) + files.text("cpu") + ints([count_of(key)])[1:-1]
            data = struct.pack("<q", count_of(key)) + stored_bytes(key)
            inner = MAGIC + VERSION + FACTS + proto(2, self.earlier_mention(mention) + mention + self.view_of(key) + b"tQ") + proto(2, b"](" + files.text(key) + b"e") + data
            return self.glob("torch.storage", "_load_from_bytes") + self.tuple(self.bytes_of(inner)) + b"R"
        self.storages[key] = name
        place = self.rng.choice(["cpu"] * 20 + ["cuda:0", "meta", ""] if not self.all_on_meta else ["meta"] * 9 + ["cpu"])
        if self.rng.random() < self.wrongs or (self.all_on_meta and self.rng.random() < 0.1):  # said to be another one
            module, name = "torch", self.rng.choice(["FloatStorage", "DoubleStorage", "ByteStorage", "LongStorage", "QUInt4x2Storage"])
            count = self.rng.choice([count, count, 0, count * 2, 1 << 20])
        return b"(" + files.text("storage") + self.glob(module, name) + files.text(key) + files.text(place) + ints([count])[1:-1] + (b"Nt" if self.kind == self.STREAM else b"t") + b"Q"

    def view_of(self, key):
        if self.rng.random() < 0.6:
            return b"N"
        whole = (0, count_of(key))
        first, count = self.rng.choice([whole, whole, whole, (1, count_of(key) - 1), (0, 1), (count_of(key) - 1, 1), (0, 0)])
        return b"(" + files.text(self.rng.choice(["v", "v", "v", "w", key])) + ints([first, count])[1:-1] + b"t"

    def earlier_mention(self, mention):
        """Of the same storage, or of a view of it: torch takes what was said first."""
        return mention + self.view_of(self.rng.choice(sorted(STORAGES))) + b"tQ0" if self.rng.random() < 0.2 else b""

    def over(self, key, offset, shape, stride, *metadata):
        """A tensor over that storage, nearly always."""
        if self.rng.random() < self.wrongs:
            key = self.rng.choice(sorted(STORAGES))
        if self.rng.random() < self.wrongs:
            offset = self.rng.choice([0, 1, 3, 12, 15, 16, 17, 200])
        if self.rng.random() < self.wrongs:
            stride = [self.rng.choice([0, 1, 2, 3, 8, -1]) for _ in stride]
        if self.rng.random() < self.wrongs:
            shape = [self.rng.choice([0, 1, 2, 3, 4, 1 << 20]) for _ in shape]
        sizes, strides = ints(shape), ints(stride)
        way = self.rng.randrange(8)
        if key == "raw" or way == 0:
            return (self.glob("torch._utils", "_rebuild_tensor_v3") + b"(" + self.storage_of(key) + ints([offset])[1:-1] + sizes + strides + self.some("bool") + self.some("hooks")
                    + (self.dtype() if key == "raw" or self.rng.random() < self.wrongs else self.dtype_of(key)) + self.metadata_or_none(metadata) + b"tR")
        if way == 1 and not metadata:
            return self.glob("torch._utils", "_rebuild_tensor") + b"(" + self.storage_of(key) + ints([offset])[1:-1] + sizes + strides + b"tR"
        return (self.glob("torch._utils", "_rebuild_tensor_v2") + b"(" + self.storage_of(key) + ints([offset])[1:-1] + sizes + strides + self.some("bool") + self.some("hooks")
                + self.metadata_or_none(metadata) + b"tR")

    def values(self, keys):
        return "cd" if self.all_wide else self.rng.choice(keys)

    def metadata_or_none(self, metadata):
        return metadata[0] if metadata else self.some("metadata") if self.rng.random() < 0.1 else b""

    def dtype_of(self, key):
        kinds = {"Float": "float32", "Double": "float64", "Long": "int64", "Int": "int32", "Bool": "bool", "Half": "float16", "BFloat16": "bfloat16", "ComplexFloat": "complex64", "ComplexDouble": "complex128", "Byte": "uint8",
                 "QInt8": "qint8", "QUInt8": "quint8", "QInt32": "qint32", "QUInt4x2": "quint4x2", "Untyped": "uint8"}
        return self.glob("torch", kinds[STORAGES[key][0][:-len("Storage")]])

    def numbers(self):
        """An ordinary one."""
        key = self.values(["0", "1", "2", "rows", "short", "bool", "half", "bf", "cf", "cd", "byte", "raw"])
        size, shape, stride = self.rng.choice([(0, [4], [1]), (0, [2, 2], [2, 1]), (1, [2, 3], [3, 1]), (0, [2, 2], [1, 2]), (3, [], []), (0, [0], [1]), (2, [1, 4], [0, 1]), (0, [3, 4], [0, 1]), (16, [0, 2], [2, 1])])
        return self.over(key, size, shape, stride)

    # ---- layouts ----

    def layout_named(self, name):
        if self.rng.random() < self.wrongs:
            name = self.rng.choice(["strided", "sparse_coo", "sparse_csr", "sparse_csc", "sparse_bsr", "sparse_bsc", "_mkldnn", "jagged"])
        if name in ("strided", "sparse_coo") and self.rng.random() < 0.5:
            return self.glob("torch", name)
        return self.glob("torch.serialization", "_get_layout") + self.tuple(files.text("torch." + name)) + b"R"

    def kept(self, opcodes):
        return self.put(opcodes) if self.rng.random() < 0.1 else opcodes

    def coo(self):
        count = self.rng.choice([0, 1, 2, 2, 4])
        dims, dense = self.rng.choice([1, 2, 2, 3]), self.rng.choice([0, 0, 1])
        indices = self.over(self.rng.choice(["rows", "rows", "ones", "crow"]), self.rng.choice([0, 0, 1, 4]), [dims, count], [self.rng.choice([count, count, 1]), 1])
        step = self.rng.choice([1 + dense] * 6 + [0, 2, 64]) if count < 2 else 1 + dense
        values = self.over(self.values(["0", "2", "cf", "cd", "bool"]), 0, [count] + [2] * dense, [step] + [1] * dense)
        sizes = ints([self.rng.choice([6, 6, 5, 3, 0])] * dims + [2] * dense)
        # torch 2.1 and later say whether it is coalesced
        return self.glob("torch._utils", "_rebuild_sparse_tensor") + b"(" + self.layout_named("sparse_coo") + self.tuple(
            self.kept(indices), self.kept(values), sizes, *([self.bool()] if self.rng.random() < 0.4 else [])) + b"tR"

    def rows(self):
        """In CSR and the like."""
        name = self.rng.choice(["sparse_csr", "sparse_csr", "sparse_csc", "sparse_bsr", "sparse_bsc"])
        key = self.rng.choice(["crow", "crow", "short"])
        block = [2, 2] if name in ("sparse_bsr", "sparse_bsc") else []
        start, count = self.rng.choice([(0, 4), (0, 2), (2, 2), (9, 2)])
        compressed = self.over(key, start, [self.rng.choice([5, 3]) if start == 0 else 3], [1])
        plain = self.over(key, 5, [count], [1])
        values = self.over(self.values(["0", "0", "cd"]), 0, [count] + block, [4, 2, 1] if block else [1])
        sizes = ints(([4, 2] if start == 0 else [2, 2]) if not block else ([8, 4] if start == 0 else [4, 4]))
        return self.glob("torch._utils", "_rebuild_sparse_csr_tensor") + b"(" + self.layout_named(name) + self.tuple(self.kept(compressed), self.kept(plain), self.kept(values), sizes) + b"tR"

    def nested(self):
        dims = self.rng.choice([1, 2])
        key = self.rng.choice(["crow", "ones"])
        sizes, strides = self.over(key, 1, [2, dims], [dims, 1]), self.over("ones", 1, [2, dims], [dims, 1])
        return self.glob("torch._utils", "_rebuild_nested_tensor") + self.tuple(
            self.over("0", 0, [self.rng.choice([16, 8])], [1]), self.kept(sizes), self.kept(strides), self.over("crow", 0, [2], [1])) + b"R"

    def quantized(self):
        key = self.rng.choice(["q", "u", "q32", "u4", "q"])
        channels = self.rng.random() < 0.5
        shape, stride = self.rng.choice([([2, 2], [2, 1]), ([4], [1]), ([2, 4], [4, 1]), ([0], [1])])
        if channels:
            exact = self.rng.random() < 0.7
            scheme = "per_channel_affine" if exact else "per_channel_affine_float_qparams"
            scales = self.over("2" if exact else "0", 0, [self.rng.choice(shape)], [1])
            points = self.over("rows" if exact else "0", self.rng.choice([0, 4]), [shape[0]], [1])
            quantizer = self.tuple(self.glob("torch", scheme), self.kept(scales), self.kept(points), b"K" + bytes([self.rng.choice([0, 0, 1, 2])]))
        else:
            quantizer = self.tuple(self.glob("torch", "per_tensor_affine"), self.some("float"), self.rng.choice([b"K\x00", b"K\x03", self.int()]))
        if self.rng.random() < self.wrongs:
            quantizer = self.any()
        return self.glob("torch._utils", "_rebuild_qtensor") + self.tuple(self.storage_of(key), ints([self.rng.choice([0, 0, 1, 9])])[1:-1], ints(shape), ints(stride), quantizer, self.some("bool"), self.some("hooks")) + b"R"

    # ---- elsewhere, and wrapped ----

    def sizes(self):
        return ints([self.rng.choice([0, 1, 2, 3, 4, 1 << 20]) for _ in range(self.rng.randrange(4))])

    def on_meta(self):
        return self.glob("torch._utils", "_rebuild_meta_tensor_no_storage") + self.tuple(self.dtype(), self.sizes(), self.some("shape"), self.some("bool")) + b"R"

    def of_array(self):
        name = self.rng.choice(["_rebuild_xla_tensor", "_rebuild_device_tensor_from_numpy", "_rebuild_mlc_tensor"])
        return self.glob("torch._utils", name) + self.tuple(self.some("array_of_numbers"), self.dtype(), self.some("place"), self.some("bool")) + b"R"

    def of_tensor(self):
        return self.glob("torch._utils", "_rebuild_device_tensor_from_cpu_tensor") + self.tuple(self.over("0", 0, [4], [1]), self.glob("torch", self.rng.choice(["float32"] * 6 + DTYPES)), self.some("place"), self.some("bool")) + b"R"

    def array_of_numbers(self):
        dtype = self.glob("numpy", "dtype") + b"(" + files.text(self.rng.choice(["f4", "i4", "f4", "c8", "u4", "V4", "M8"])) + b"\x89\x88tR(K\x03" + files.text("<") + b"NNN" + b"J\xff\xff\xff\xff" * 2 + b"K\x00tb"
        shape = self.rng.choice([ints([4]), ints([2, 2]), ints([1]), ints([8])])
        if self.rng.random() < 0.5:
            data = b"\x96" + struct.pack("<Q", 16) + bytes(16) if self.protocol >= 5 else self.glob("builtins", "bytearray") + self.tuple(self.bytes_of(bytes(16))) + b"R"
            return self.glob("numpy.core.numeric", "_frombuffer") + self.tuple(self.rng.choice([data, data, self.bytes_of(bytes(16))]), dtype, shape, files.text(self.rng.choice("CF"))) + b"R"
        return (self.glob("numpy.core.multiarray", "_reconstruct") + b"(" + self.glob("numpy", "ndarray") + b"(K\x00t" + self.bytes_of(b"b") + b"tR(K\x01" + shape + dtype + b"\x89"
                + self.bytes_of(bytes(16)) + b"tb")

    def wrapped(self):
        """A tensor of a class, with attributes, or none of its own numbers."""
        way = self.rng.randrange(5)
        if way == 0:
            return (self.glob("torch._utils", "_rebuild_wrapper_subclass") + self.tuple(self.glob("torch", "Tensor"), self.dtype(), self.sizes(), self.some("shape"), self.some("small"), self.layout_named("strided"),
                    self.some("place"), self.some("bool")) + b"R")
        if way == 1:
            name = self.rng.choice(["UninitializedParameter", "UninitializedBuffer"])
            return self.glob("torch.nn.parameter", name) + self.tuple(*([self.some("bool")] if self.rng.random() < 0.6 else [])) + b"R" + (self.some("attributes") + b"b" if self.rng.random() < 0.4 else b"")
        if way == 2:
            return self.glob("torch.nn.parameter", self.rng.choice(["Parameter", "Buffer"])) + self.tuple(self.plain_tensor(), self.some("bool")) + b"R"
        module, name = self.rng.choice([("torch._tensor", "_rebuild_from_type_v2"), ("torch._tensor", "_rebuild_from_type"), ("torch.tensor", "_rebuild_from_type")])
        function, arguments = self.rng.choice([("_rebuild_tensor_v2", "numbers_of_v2"), ("_rebuild_sparse_tensor", "numbers_of_sparse"), ("_rebuild_parameter", "numbers_of_parameter")])
        return (self.glob(module, name) + b"(" + self.glob("torch._utils", function) + self.glob(*self.rng.choice([("torch", "Tensor"), ("torch.nn.parameter", "Parameter"), ("torch.nn.parameter", "Buffer")]))
                + getattr(self, arguments)() + self.some("attributes") + b"tR")

    def numbers_of_v2(self):
        return self.tuple(self.storage_of(self.rng.choice(["0", "2", "rows"])), b"K\x00", ints([4]), ints([1]), self.some("bool"), self.some("hooks"))

    def numbers_of_sparse(self):
        return self.tuple(self.layout_named("sparse_coo"), self.tuple(self.over("rows", 0, [1, 4], [4, 1]), self.over("0", 0, [4], [1]), ints([6])))

    def numbers_of_parameter(self):
        return self.tuple(self.plain_tensor(), self.some("bool"), self.some("hooks"))

    def with_gradient(self):
        return self.glob("torch._utils", "_rebuild_parameter") + self.tuple(self.plain_tensor(), self.some("bool"), self.some("hooks")) + b"R"

    def with_state(self):
        name = self.rng.choice([("torch", "Tensor"), ("torch.autograd.variable", "Variable"), ("torch.nn.parameter", "Parameter"), ("torch.nn.parameter", "Buffer")])
        state = self.tuple(self.storage_of("0"), b"K\x00", ints([4]), ints([1])) if self.rng.random() < 0.7 else self.some("attributes")
        return self.glob(*name) + b")R" + self.rng.choice([b"", state + b"b", state + b"b"])

    def plain_tensor(self):
        return self.kept(self.rng.choice([self.numbers, self.numbers, self.coo, self.rows, self.quantized, self.on_meta, self.nested])())

    def generator(self):
        return self.glob(*self.rng.choice([("torch", "Generator"), ("torch._C", "Generator")])) + self.tuple(files.text(self.rng.choice(["cpu", "cpu", "meta", "x"]))) + b"R" + (self.rng.choice([b"", self.state_of_generator() + b"b"]))

    def state_of_generator(self):
        return b"(K\x05N" + self.over("state", self.rng.choice([0, 0, 0, 16, 64]), [5056], [1]) + b"t"

    def any_tensor(self):
        return self.rng.choice([self.numbers, self.numbers, self.numbers, self.coo, self.coo, self.rows, self.rows, self.nested, self.quantized, self.quantized, self.on_meta, self.of_array, self.of_tensor, self.wrapped,
                                self.wrapped, self.with_gradient, self.with_state])()

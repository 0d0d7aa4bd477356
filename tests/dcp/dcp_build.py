# SPDX-License-Identifier: Apache-2.0
"""Makes directories of torch.distributed.checkpoint without torch: every dialect of the index, items of every kind.

A Directory is filled with tensors, cut into boxes, and with values; write_data() makes the data files, write_index()
the index. Between the two a test changes what it wants. Pickles come from CPython's own pickler, which is told what
to write where an object of torch would be.
"""

import io
import itertools
import os
import pickle
import struct
import zipfile

import _compat_pickle

# ---- pickles ----


class Global:
    """A class or function that is only named."""

    def __init__(self, module, name):
        self.module, self.name = module, name

    def __call__(self, *_):
        raise TypeError("%s.%s is a name only" % (self.module, self.name))


class Call:
    """What a function gives for arguments; its state is set afterwards, unless it is None."""

    def __init__(self, function, *arguments, state=None):
        self.function, self.arguments, self.state = function, arguments, state

    def __call__(self, *_):
        raise TypeError("the result of a call, not made yet")


class Object:
    """An object made without arguments; its state is set afterwards, unless it is None."""

    def __init__(self, kind, state=None):
        self.kind, self.state = kind, state


class Storage:
    """A persistent id."""

    def __init__(self, key, kind, location, count):
        self.id = ("storage", Global("torch.storage" if kind == "UntypedStorage" else "torch", kind),
                   key, location, count)


class Pickler(pickle._Pickler):
    """CPython's pickler, in its form in Python, for the kinds above as well."""

    def __init__(self, stream, protocol):
        super().__init__(stream, protocol)
        self.globals = {}

    def persistent_id(self, obj):
        return obj.id if isinstance(obj, Storage) else None

    def save(self, obj, save_persistent_id=True):
        if isinstance(obj, Global):
            return self.save_name(obj)
        if isinstance(obj, Call) and id(obj) not in self.memo:
            return self.save_reduce(obj.function, obj.arguments, obj.state, obj=obj)
        if isinstance(obj, Object) and id(obj) not in self.memo:
            return self.save_object(obj)
        return super().save(obj, save_persistent_id)

    def save_name(self, obj):
        known = self.globals.setdefault((obj.module, obj.name), obj)
        if id(known) in self.memo:
            self.write(self.get(self.memo[id(known)][0]))
            return
        if self.proto >= 4:
            super().save(obj.module)
            super().save(obj.name)
            self.write(pickle.STACK_GLOBAL)
        else:
            module, name = obj.module, obj.name
            if self.proto < 3:
                module, name = _compat_pickle.REVERSE_NAME_MAPPING.get((module, name), (module, name))
                module = _compat_pickle.REVERSE_IMPORT_MAPPING.get(module, module)
            self.write(pickle.GLOBAL + ("%s\n%s\n" % (module, name)).encode())
        self.memoize(known)

    def save_object(self, obj):
        self.save(obj.kind)
        self.write(pickle.EMPTY_TUPLE + pickle.NEWOBJ)
        self.memoize(obj)
        if obj.state is not None:
            self.save(obj.state)
            self.write(pickle.BUILD)


def pickled(value, protocol=2, memo=True):
    stream = io.BytesIO()
    pickler = Pickler(stream, protocol)
    pickler.fast = not memo
    pickler.dump(value)
    return stream.getvalue()


# ---- tensors ----

SIZES = {"float64": 8, "float32": 4, "float16": 2, "bfloat16": 2, "complex64": 8, "complex128": 16, "complex32": 4,
         "int64": 8, "int32": 4, "int16": 2, "int8": 1, "uint8": 1, "bool": 1, "uint16": 2, "uint32": 4, "uint64": 8,
         "float8_e4m3fn": 1, "float8_e5m2": 1, "float8_e4m3fnuz": 1, "float8_e5m2fnuz": 1, "float8_e8m0fnu": 1}
STORAGES = {"float64": "DoubleStorage", "float32": "FloatStorage", "float16": "HalfStorage",
            "bfloat16": "BFloat16Storage", "complex64": "ComplexFloatStorage", "complex128": "ComplexDoubleStorage",
            "int64": "LongStorage", "int32": "IntStorage", "int16": "ShortStorage", "int8": "CharStorage",
            "uint8": "ByteStorage", "bool": "BoolStorage"}


def product(numbers):
    result = 1
    for number in numbers:
        result *= number
    return result


def row_major(shape):
    strides, step = [], 1
    for size in reversed(shape):
        strides.append(step)
        step *= max(size, 1)
    return tuple(reversed(strides))


def positions(shape):
    """All indexes of a shape, in row-major order."""
    return itertools.product(*map(range, shape))


class Tensor:
    """A dtype, a shape, and the bytes in row-major order."""

    def __init__(self, dtype, shape, data):
        self.dtype, self.shape, self.data = dtype, tuple(shape), bytes(data)
        assert len(self.data) == product(shape) * SIZES[dtype]

    def __eq__(self, other):
        return (isinstance(other, Tensor) and self.dtype == other.dtype and self.shape == other.shape
                and self.data == other.data)

    def __repr__(self):
        return "Tensor(%s, %s, %s)" % (self.dtype, list(self.shape), self.data[:24].hex())

    def element(self, index):
        size = SIZES[self.dtype]
        at = sum(i * s for i, s in zip(index, row_major(self.shape))) * size
        return self.data[at:at + size]

    def box(self, offsets, sizes):
        data = b"".join(self.element([o + i for o, i in zip(offsets, index)]) for index in positions(sizes))
        return Tensor(self.dtype, sizes, data)


def numbered(dtype, shape, seed=0):
    """Elements that differ; no random numbers are needed for that."""
    size = SIZES[dtype]
    if dtype == "bool":
        return Tensor(dtype, shape, bytes((i * 7 + seed) // 3 & 1 for i in range(product(shape))))
    data = b"".join(((i + 1) * 0x9E3779B97F4A7C15 + seed * 0x1234567 & (1 << 64) - 1).to_bytes(8, "little") * 2
                    for i in range(product(shape)))
    return Tensor(dtype, shape, b"".join(data[16 * i + 3:16 * i + 3 + size] if size < 16 else data[16 * i:16 * i + 16]
                                         for i in range(product(shape))))


# ---- items ----

ALL_RECORDS = (".format_version", ".storage_alignment", "byteorder", ".data/serialization_id")


def archive(records, name="archive", aligned=True):
    """A zip archive, by zipfile: {record: bytes}."""
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_STORED) as out:
        for record, data in records.items():
            info = zipfile.ZipInfo(name + "/" + record)
            if aligned:
                pad = -(stream.tell() + 30 + len(info.filename) + 4) % 64
                info.extra = b"FB" + struct.pack("<H", pad) + b"Z" * pad
            out.writestr(info, data)
    return stream.getvalue()


def records_of(body, storages, extra=("byteorder",), byteorder="little"):
    records = {"data.pkl": body}
    texts = {".format_version": b"1", ".storage_alignment": b"64", "byteorder": byteorder.encode()}
    records.update({name: texts[name] for name in ALL_RECORDS if name in extra and name in texts})
    records.update({"data/%s" % key: data for key, data in storages.items()})
    records["version"] = b"3\n"
    if ".data/serialization_id" in extra:
        records[".data/serialization_id"] = b"1" * 40
    return records


def rebuilt(tensor, strides=None, offset=0, count=None, key="0", location="cpu", flags=None):
    """The call that makes a tensor; with strides its storage is arranged as they say."""
    strides = row_major(tensor.shape) if strides is None else strides
    count = product(tensor.shape) if count is None else count
    hooks = Call(Global("collections", "OrderedDict"))
    if tensor.dtype in STORAGES:
        storage = Storage(key, STORAGES[tensor.dtype], location, count)
        arguments = [storage, offset, tensor.shape, tuple(strides), False, hooks]
        if flags:
            arguments.append(flags)
        return Call(Global("torch._utils", "_rebuild_tensor_v2"), *arguments)
    storage = Storage(key, "UntypedStorage", location, count * SIZES[tensor.dtype])
    return Call(Global("torch._utils", "_rebuild_tensor_v3"), storage, offset, tensor.shape, tuple(strides), False,
                hooks, Global("torch", tensor.dtype))


def arranged(tensor, strides, offset=0, count=None):
    """The bytes of a storage in which the tensor has these strides."""
    size = SIZES[tensor.dtype]
    count = product(tensor.shape) + offset if count is None else count
    storage = bytearray(b"\xee" * (count * size))
    for index in positions(tensor.shape):
        at = (offset + sum(i * s for i, s in zip(index, strides))) * size
        storage[at:at + size] = tensor.element(index)
    return bytes(storage)


def swapped(data, size):
    return b"".join(data[at:at + size][::-1] for at in range(0, len(data), size))


def tensor_item(tensor, strides=None, offset=0, count=None, flags=None, extra=("byteorder",), byteorder="little",
                name="archive", aligned=True):
    strides = row_major(tensor.shape) if strides is None else strides
    count = product(tensor.shape) + offset if count is None else count
    data = arranged(tensor, strides, offset, count)
    if byteorder == "big":
        unit = SIZES[tensor.dtype] // (2 if tensor.dtype.startswith("complex") else 1)
        data = swapped(data, unit)
    body = pickled(rebuilt(tensor, strides, offset, count, flags=flags))
    return archive(records_of(body, {"0": data}, extra, byteorder), name, aligned)


def value_item(value, storages=None, extra=("byteorder",)):
    return archive(records_of(pickled(value), storages or {}, extra))


# ---- the index ----

class Dialect:
    """How an index is written. RELEASE: the torch it looks like; the others change one thing each."""

    METADATA = "torch.distributed.checkpoint.metadata"
    FILES = "torch.distributed.checkpoint.filesystem"
    OLD = "torch.distributed._shard.checkpoint"
    SHARD = "torch.distributed._shard.sharded_tensor.metadata"

    def __init__(self, release="2.6", protocol=4, memo=True, enum="call", sizes="call", layout="call", path=None,
                 hint="number", scalar_offset="call"):
        self.release, self.protocol, self.memo = release, protocol, memo
        self.enum, self.sizes, self.layout = enum, sizes, layout
        self.hint, self.scalar_offset = hint, scalar_offset
        self.path = path or Call(Global("pathlib", "PosixPath"), "/", "home", "a")
        old = release == "1.13"
        self.metadata = self.OLD + ".metadata" if old else self.METADATA
        self.files = self.OLD + ".filesystem" if old else self.FILES
        new = release not in ("1.13", "2.0", "portable")
        self.properties_module = self.METADATA if new else self.SHARD
        self.enum_name = "_MEM_FORMAT_ENCODING" if new else "MEM_FORMAT_ENCODING"

    def size(self, numbers):
        numbers = tuple(numbers)
        return numbers if self.sizes == "tuple" else Call(Global("torch", "Size"), numbers)

    def properties(self, dtype):
        kind = Global(self.properties_module, self.enum_name)
        memory = Call(kind, 0) if self.enum == "call" else Call(Global("builtins", "getattr"), kind,
                                                                "TORCH_CONTIGUOUS_FORMAT")
        layout = Call(Global("torch.serialization", "_get_layout"), "torch.strided")
        if self.layout == "bare":
            layout = Global("torch", "strided")
        return Object(Global(self.properties_module, "TensorProperties"),
                      (Global("torch", dtype), layout, False, memory, False))

    def tensor(self, dtype, shape, chunks):
        return Object(Global(self.metadata, "TensorStorageMetadata"), {
            "properties": self.properties(dtype), "size": self.size(shape),
            "chunks": [Object(Global(self.metadata, "ChunkStorageMetadata"), {
                "offsets": self.size(offsets), "sizes": self.size(sizes)}) for offsets, sizes in chunks]})

    def value(self):
        return Object(Global(self.metadata, "BytesStorageMetadata"))

    def index(self, item):
        state = {"fqn": item.key}
        if self.hint != "absent":
            state["index"] = item.number if self.hint == "number" else None if self.hint == "none" else 77
        if item.offsets is not None and not (item.offsets == () and self.scalar_offset == "absent"):
            state["offset"] = self.size(item.offsets)
        return Object(Global(self.metadata, "MetadataIndex"), state)

    def storage(self, item):
        state = {"relative_path": item.file, "offset": item.offset, "length": item.length}
        if item.transforms:
            state["transform_descriptors"] = item.transforms
        return Object(Global(self.files, "_StorageInfo"), state)

    def whole(self, entries, planner, items, foreign):
        state = {"state_dict_metadata": entries, "planner_data": planner,
                 "storage_data": {self.index(item): self.storage(item) for item in items}}
        if self.release in ("2.6", "2.14"):
            meta = {"checkpoint_id": self.path, "save_id": "5d6e7a3e-0000-4000-8000-000000000000", "load_id": None}
            if self.release == "2.14":
                meta["modules"] = []
            state["storage_meta"] = Object(Global(self.metadata, "StorageMeta"), meta)
        if self.release == "2.14":
            state["version"] = "1.0.0"
        state.update(foreign)
        return Object(Global(self.metadata, "Metadata"), state)


class Item:
    """A range of a data file, and what the index says of it."""

    def __init__(self, key, number, offsets, file, data):
        self.key, self.number, self.offsets, self.file, self.data = key, number, offsets, file, data
        self.offset, self.length, self.transforms = None, len(data), None


class Directory:
    def __init__(self, path):
        self.path = path
        self.entries = {}       # key: (dtype, shape, [(offsets, sizes)]), or None for a value
        self.planner = {}
        self.items = []
        self.foreign = {}
        self.made_by = None     # of storage_data: what a call gives for it
        self.padding = 0        # between items
        self.trailing = b""     # inside of them, at their end
        os.makedirs(path, exist_ok=True)

    def tensor(self, key, tensor, boxes=None, path=None, make=tensor_item, files=None):
        """Boxes are (offsets, sizes), in one file each: __0_0.distcp, __1_0.distcp ... unless FILES says others."""
        boxes = [((0,) * len(tensor.shape), tensor.shape)] if boxes is None else boxes
        self.entries[key] = (tensor.dtype, tensor.shape, [tuple(map(tuple, box)) for box in boxes])
        self.planner[key] = tuple(key.split(".")) if path is None else path
        for number, (offsets, sizes) in enumerate(boxes):
            file = files[number] if files else "__%d_0.distcp" % number
            self.items.append(Item(key, number, tuple(offsets), file, make(tensor.box(offsets, sizes))))
        return self

    def value(self, key, value, path=None, file="__0_0.distcp", item=None):
        self.entries[key] = None
        self.planner[key] = tuple(key.split(".")) if path is None else path
        self.items.append(Item(key, None, None, file, value_item(value) if item is None else item))
        return self

    def write_data(self):
        """Item after item."""
        streams = {}
        for item in self.items:
            stream = streams.setdefault(item.file, io.BytesIO())
            if stream.tell():
                stream.write(b"\xaa" * self.padding)
            item.offset = stream.tell()
            item.length = len(item.data) + len(self.trailing)
            stream.write(item.data + self.trailing)
        for name, stream in streams.items():
            target = os.path.join(self.path, name)
            os.makedirs(os.path.dirname(target), exist_ok=True)
            with open(target, "wb") as out:
                out.write(stream.getvalue())
        return self

    def index(self, dialect=None, planner=True):
        dialect = dialect or Dialect()
        entries = {key: dialect.value() if entry is None else dialect.tensor(*entry)
                   for key, entry in self.entries.items()}
        planner = (self.planner if planner is True else planner) if dialect.release != "1.13" else None
        whole = dialect.whole(entries, planner, self.items, self.foreign)
        if self.made_by:
            whole.state["storage_data"] = self.made_by(whole.state["storage_data"])
        return pickled(whole, dialect.protocol, dialect.memo)

    def write_index(self, dialect=None, planner=True, name=".metadata"):
        with open(os.path.join(self.path, name), "wb") as out:
            out.write(self.index(dialect, planner))
        return self

    def write(self, dialect=None, planner=True):
        self.write_data()
        return self.write_index(dialect, planner)


def chunked(shape, ranks, dimension=0):
    """Boxes by the rule of torch.chunk."""
    step = -(-shape[dimension] // ranks)
    boxes = []
    for first in range(0, shape[dimension], step or 1):
        offsets, sizes = [0] * len(shape), list(shape)
        offsets[dimension], sizes[dimension] = first, min(step, shape[dimension] - first)
        boxes.append((tuple(offsets), tuple(sizes)))
    return boxes

# SPDX-License-Identifier: Apache-2.0
"""Make one directory of torch.distributed.checkpoint to measure with, every key with 'model.module.':

    generate_dcp.py big OUT BYTES TENSORS RANKS     BYTES in all, in TENSORS float32 matrices, each cut by rows
    generate_dcp.py many OUT CHUNKS RANKS           CHUNKS of 64 bytes, in tensors of RANKS chunks
    generate_dcp.py sparse OUT BYTES TENSORS RANKS  as big, but holes: only the last two numbers of each chunk are there

Needs no torch: its classes are stand-ins here, which the pickler only names. OUT appears when it is complete.
"""
import collections
import enum
import io
import os
import pickle
import random
import shutil
import struct
import sys
import types
import zlib

STEP = 4096  # bytes from the beginning of one chunk's noise to that of the next

# -- torch's classes


def known_as(module, name=None):
    """The decorator of what is torch's MODULE.NAME for the pickler."""
    def register(thing):
        thing.__module__, thing.__qualname__ = module, name or thing.__name__
        words = module.split(".")
        for count in range(1, len(words) + 1):
            part = ".".join(words[:count])
            sys.modules.setdefault(part, types.ModuleType(part))
        setattr(sys.modules[module], thing.__qualname__, thing)
        return thing
    return register


METADATA = "torch.distributed.checkpoint.metadata"


class Record:
    def __init__(self, **state):
        self.__dict__.update(state)


@known_as(METADATA)
class Metadata(Record):
    pass


@known_as(METADATA)
class MetadataIndex(Record):
    pass


@known_as(METADATA)
class ChunkStorageMetadata(Record):
    pass


@known_as(METADATA)
class TensorStorageMetadata(Record):
    pass


@known_as(METADATA)
class BytesStorageMetadata(Record):
    pass


@known_as("torch.distributed.checkpoint.filesystem", "_StorageInfo")
class StorageInfo(Record):
    pass


@known_as(METADATA, "_MEM_FORMAT_ENCODING")
class MemoryFormat(enum.Enum):
    TORCH_CONTIGUOUS_FORMAT = 0


@known_as(METADATA)
class TensorProperties:
    def __getstate__(self):
        return (FLOAT32, STRIDED, False, MemoryFormat.TORCH_CONTIGUOUS_FORMAT, False)


@known_as("torch")
class Size(tuple):
    def __reduce__(self):
        return Size, (tuple(self),)


@known_as("torch.serialization", "_get_layout")
def get_layout(name):
    return name


class Layout:
    def __reduce__(self):
        return get_layout, ("torch.strided",)


class Dtype:
    __qualname__ = "float32"

    def __reduce__(self):
        return "float32"


@known_as("torch._utils", "_rebuild_tensor_v2")
def rebuild_tensor(*_):
    pass


@known_as("torch")
class FloatStorage:
    pass


STRIDED, FLOAT32 = Layout(), known_as("torch", "float32")(Dtype())


class Tensor:
    """A pickled one, with its storage as 'data/0'."""

    def __init__(self, rows, columns):
        self.rows, self.columns = rows, columns

    def __reduce__(self):
        return rebuild_tensor, (Storage(self.rows * self.columns), 0, (self.rows, self.columns), (self.columns, 1),
                                False, collections.OrderedDict())


class Storage:
    def __init__(self, count):
        self.count = count


class Pickler(pickle.Pickler):
    def persistent_id(self, obj):
        return ("storage", FloatStorage, "0", "cpu", obj.count) if isinstance(obj, Storage) else None


# -- items


class Bytes:
    """The contents of a record: HOLE zeros, then DATA."""

    zeros = {}

    def __init__(self, data, hole=0):
        self.data, self.hole, self.size = data, hole, hole + len(data)
        self.crc = zlib.crc32(data, self.crc_of_zeros(hole))

    @classmethod
    def crc_of_zeros(cls, count):
        if count not in cls.zeros:
            cls.zeros[count], left = 0, count
            while left:
                part = min(left, 1 << 20)
                cls.zeros[count], left = zlib.crc32(bytes(part), cls.zeros[count]), left - part
        return cls.zeros[count]

    def write(self, file):
        file.seek(self.hole, os.SEEK_CUR)
        file.write(self.data)


def write_archive(file, records):
    """A zip archive at the end of FILE, its data aligned to 64. Returns its offset and length."""
    start, directory = file.tell(), []
    for name, content in records.items():
        name = ("archive/" + name).encode()
        at = file.tell() - start
        if content.size >= 1 << 32:
            sys.exit("chunks of 4 GiB and more cannot be made")
        facts = struct.pack("<HHHHHIIIH", 20, 0x800, 0, 0, 0x21, content.crc, content.size, content.size, len(name))
        pad = -(at + 30 + len(name) + 4) % 64
        file.write(b"PK\3\4" + facts + struct.pack("<H", pad + 4) + name + struct.pack("<2sH", b"FB", pad) + b"Z" * pad)
        content.write(file)
        directory.append(b"PK\1\2\x14\0" + facts + struct.pack("<HHHHII", 0, 0, 0, 0, 0, at) + name)
    at, directory = file.tell() - start, b"".join(directory)
    count = len(records)
    file.write(directory + struct.pack("<4sHHHHIIH", b"PK\5\6", 0, 0, count, count, len(directory), at, 0))
    return start, file.tell() - start


def pickled(value):
    stream = io.BytesIO()
    Pickler(stream, 2).dump(value)
    return Bytes(stream.getvalue())


def records(body, data=None):
    known = {"data.pkl": body, "byteorder": Bytes(b"little")}
    if data is not None:
        known["data/0"] = data
    known["version"] = Bytes(b"3\n")
    return known


# -- the contents


class Noise:
    """Numbers of 0.5 to 2 and -0.5 to -2."""

    def __init__(self, nbytes, chunks):
        self.range = STEP * min(chunks, 1 << 14)
        make, left, parts = random.Random(1), nbytes + self.range, []
        while left > 0:
            parts.append(make.randbytes(min(left, 1 << 20)))
            left -= 1 << 20
        data = bytearray().join(parts)
        for at, table in ((2, bytes(b | 0x80 if b & 1 else b & 0x7f for b in range(256))),
                          (3, bytes(b & 0x80 | 0x3f for b in range(256)))):
            data[at::4] = data[at::4].translate(table)
        self.data = memoryview(data)

    def __call__(self, number, rank, ranks, nbytes):
        at = (number * ranks + rank) * STEP % self.range
        return Bytes(self.data[at:at + nbytes])


def holes(number, rank, _, nbytes):
    """The number of the tensor, and that of the rank, behind zeros."""
    return Bytes(struct.pack("<2f", number, rank), nbytes - 8)


VALUES = {"epoch": 3, "history": [0.5, 0.25]}


class Directory:
    def __init__(self, folder, ranks, names, rows, columns):
        self.folder, self.ranks, self.names, self.rows, self.columns = folder, ranks, names, rows, columns
        self.each = -(-rows // ranks)
        self.bodies = {}
        self.tensors, self.storage = {}, {}

    def key(self, number):
        """Another object each time, as it comes from every rank: the pickler writes it again."""
        return "model." + self.names(number)

    def store(self, file, key, offset, index, archive):
        place = {} if offset is None else {"offset": Size(offset)}
        start, length = write_archive(file, archive)
        self.storage[MetadataIndex(fqn=key, index=index, **place)] = StorageInfo(
            relative_path=os.path.basename(file.name), offset=start, length=length)

    def write_rank(self, rank, count, contents):
        first = self.each * rank
        rows = min(self.each, self.rows - first)
        with open(os.path.join(self.folder, "__%d_0.distcp" % rank), "wb", buffering=1 << 16) as file:
            for key, value in VALUES.items() if rank == 0 else ():
                self.store(file, key, None, None, records(pickled(value)))
            if rows <= 0:
                return
            body = pickled(Tensor(rows, self.columns))
            for number in range(count):
                self.store(file, self.key(number), (first, 0), rank, records(
                    body, contents(number, rank, self.ranks, 4 * rows * self.columns)))
                chunks = self.tensors.setdefault(number, [])
                chunks.append(ChunkStorageMetadata(offsets=Size((first, 0)), sizes=Size((rows, self.columns))))

    def write_index(self):
        entries, paths = {}, {}
        for number, chunks in self.tensors.items():
            key = self.key(number)
            entries[key] = TensorStorageMetadata(properties=TensorProperties(), size=Size((self.rows, self.columns)),
                                                 chunks=chunks)
            paths[key] = ("model", self.names(number))
        for key in VALUES:
            entries[key] = BytesStorageMetadata()
            paths[key] = (key,)
        index = Metadata(state_dict_metadata=entries, planner_data=paths, storage_data=self.storage, storage_meta=None)
        with open(os.path.join(self.folder, ".metadata"), "wb") as file:
            pickle.dump(index, file, 4)

    def write(self, count, contents):
        for rank in range(self.ranks):
            self.write_rank(rank, count, contents)
        self.write_index()


def matrix_name(number):
    parts = ("attn.qkv.weight", "attn.proj.weight", "mlp.up.weight", "mlp.down.weight")
    return "module.layers.%d.%s" % (number // 4, parts[number % 4])


def matrices(folder, nbytes, count, ranks, sparse):
    rows = max(1, nbytes // count // 4 // 1024)
    directory = Directory(folder, ranks, matrix_name, rows, 1024)
    directory.write(count, holes if sparse else Noise(4096 * directory.each, count * ranks))


def many(folder, chunks, ranks):
    Directory(folder, ranks, lambda number: "module.encoder.layers.%d.weight" % number, 2 * ranks, 8).write(
        chunks // ranks, Noise(64, chunks))


def main():
    kind, out, sizes = sys.argv[1], sys.argv[2], [int(word) for word in sys.argv[3:]]
    part = out + ".part"
    shutil.rmtree(part, ignore_errors=True)
    os.makedirs(part)
    if kind == "many":
        many(part, *sizes)
    else:
        matrices(part, *sizes, {"big": False, "sparse": True}[kind])
    os.rename(part, out)


main()

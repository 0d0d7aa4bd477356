# SPDX-License-Identifier: Apache-2.0
"""Indexes of directories, judged by Python's own pickle: judge_dcp.py COMMAND...

Classes of the same names stand in for those of torch, as strict as those are: an index refers to
nothing that torch 2.0 does not have, and its places are found by key and offset.
"""

import dataclasses
import enum
import io
import pickle
import pickletools
import subprocess
import sys

INDEXES = 12
MODULE = "torch.distributed.checkpoint.metadata"


class Size(tuple):
    def __new__(cls, numbers):
        assert type(numbers) is tuple and all(type(number) is int and number >= 0 for number in numbers), numbers
        return super().__new__(cls, numbers)


@dataclasses.dataclass(frozen=True)
class MetadataIndex:
    fqn: str
    offset: object = None
    index: object = dataclasses.field(hash=False, compare=False, default=None)


@dataclasses.dataclass
class StorageInfo:
    relative_path: str
    offset: int
    length: int


@dataclasses.dataclass
class ChunkStorageMetadata:
    offsets: Size
    sizes: Size


@dataclasses.dataclass
class BytesStorageMetadata:
    pass


@dataclasses.dataclass
class TensorStorageMetadata:
    properties: object
    size: Size
    chunks: list


@dataclasses.dataclass
class Metadata:
    state_dict_metadata: dict
    planner_data: object = None
    storage_data: object = None


class MemoryFormat(enum.Enum):
    TORCH_CONTIGUOUS_FORMAT = 0


@dataclasses.dataclass
class TensorProperties:
    """That of torch 2.0, whose state is a tuple."""
    dtype: object = None
    layout: object = None
    requires_grad: bool = False
    memory_format: object = None
    pin_memory: bool = False

    def __setstate__(self, state):
        self.dtype, self.layout, self.requires_grad, self.memory_format, self.pin_memory = state
        assert self.layout == "strided" and self.memory_format is MemoryFormat.TORCH_CONTIGUOUS_FORMAT
        assert self.requires_grad is False and self.pin_memory is False


class Dtype(str):
    pass


def get_layout(name):
    assert name == "torch.strided"
    return "strided"


CLASSES = {
    (MODULE, "Metadata"): Metadata,
    (MODULE, "TensorStorageMetadata"): TensorStorageMetadata,
    (MODULE, "BytesStorageMetadata"): BytesStorageMetadata,
    (MODULE, "ChunkStorageMetadata"): ChunkStorageMetadata,
    (MODULE, "MetadataIndex"): MetadataIndex,
    ("torch.distributed.checkpoint.filesystem", "_StorageInfo"): StorageInfo,
    ("torch.distributed._shard.sharded_tensor.metadata", "TensorProperties"): TensorProperties,
    ("torch.distributed._shard.sharded_tensor.metadata", "MEM_FORMAT_ENCODING"): MemoryFormat,
    ("torch", "Size"): Size,
    ("torch.serialization", "_get_layout"): get_layout,
}


def unpickler(base):
    class Unpickler(base):
        def find_class(self, module, name):
            return CLASSES.get((module, name)) or (Dtype(name) if module == "torch" else 1 / 0)
    return Unpickler


def dims(numbers):
    return "(%s)" % ",".join(str(number) for number in numbers)


def describe(metadata):
    """The lines that test_dcp_emit.c prints for it; every object has its attributes and no others."""
    assert set(vars(metadata)) == {"state_dict_metadata", "planner_data", "storage_data"}
    assert list(metadata.planner_data) == list(metadata.state_dict_metadata)
    used = 0
    for key, entry in metadata.state_dict_metadata.items():
        octets = key.encode().hex()
        path = ["'%s'" % step if isinstance(step, str) else str(step) for step in metadata.planner_data[key]]
        if isinstance(entry, BytesStorageMetadata):
            assert not vars(entry)
            yield "entry %s" % octets
            chunks = [None]
        else:
            assert set(vars(entry)) == {"properties", "size", "chunks"}
            yield "entry %s %s %s" % (octets, entry.properties.dtype, dims(entry.size))
            chunks = entry.chunks
        yield "path " + " ".join(path)
        for number, chunk in enumerate(chunks):
            index = MetadataIndex(key, chunk and chunk.offsets)
            info = metadata.storage_data[index]
            assert set(vars(info)) == {"relative_path", "offset", "length"}
            used += 1
            yield "chunk %s%s %d %d" % ("%s %s " % (dims(chunk.offsets), dims(chunk.sizes)) if chunk else "",
                                        info.relative_path, info.offset, info.length)
    assert used == len(metadata.storage_data)
    for index in metadata.storage_data:
        entry = metadata.state_dict_metadata[index.fqn]
        if isinstance(entry, TensorStorageMetadata):
            assert entry.chunks[index.index].offsets == index.offset
        else:
            assert index.offset is None and index.index is None


def judge(program, number):
    result = subprocess.run([*program, str(number)], stdout=subprocess.PIPE, check=True).stdout
    length, _, rest = result.partition(b"\n")
    octets, want = rest[:int(length)], rest[int(length):].decode().splitlines()
    last = 0
    for opcode, argument, position in pickletools.genops(octets):
        assert opcode.proto <= 4 and opcode.name != "FRAME"
        last = position
    assert last == len(octets) - 1
    for base in (pickle.Unpickler, pickle._Unpickler) if len(octets) < 100000 else (pickle.Unpickler,):
        found = list(describe(unpickler(base)(io.BytesIO(octets)).load()))
        if found != want:
            for one, other in zip(found, want):
                if one != other:
                    sys.exit("index %d: found %s, wanted %s" % (number, one, other))
            sys.exit("index %d: found %d lines, wanted %d" % (number, len(found), len(want)))
    return len(want)


def main():
    lines = sum(judge(sys.argv[1:], number) for number in range(INDEXES))
    print("%d indexes, %d lines" % (INDEXES, lines))


if __name__ == "__main__":
    main()

# SPDX-License-Identifier: Apache-2.0
"""Reads files of torch.save, and DCP directories, with zipfile and an unpickler that imports nothing.

Tensors become dcp_build.Tensor. Classes that are not known become stand-ins, which remember how they were called.
"""

import collections
import io
import os
import pickle
import zipfile

from dcp_build import SIZES, STORAGES, Tensor, positions, product, row_major

DTYPES = {name: dtype for dtype, name in STORAGES.items()}
PLAIN = {("builtins", "set"): set, ("builtins", "frozenset"): frozenset, ("builtins", "complex"): complex,
         ("builtins", "range"): range, ("builtins", "bytearray"): bytearray, ("_codecs", "encode"): None,
         ("collections", "OrderedDict"): collections.OrderedDict}


class Unknown:
    """An object of a class that is not known here: its name, how it was called, and its state."""

    name, arguments, state = "", (), None

    def __setstate__(self, state):
        self.state = state

    def __eq__(self, other):
        return isinstance(other, Unknown) and (self.name, self.arguments, self.state) == (
            other.name, other.arguments, other.state)

    __hash__ = object.__hash__

    def __repr__(self):
        return "Unknown(%s, %r, %r)" % (self.name, self.arguments, self.state)


def stand_in(module, name):
    def __init__(self, *arguments):
        self.arguments = arguments
    return type(name, (Unknown,), {"__new__": lambda cls, *a: object.__new__(cls), "__init__": __init__,
                                   "name": module + "." + name})


class View(Tensor):
    """A tensor of a file: also where it is, and how it is laid out."""

    def __init__(self, dtype, shape, strides, offset, storage, location, flags):
        size = SIZES[dtype]
        if tuple(strides) == row_major(shape):
            data = storage[offset * size:(offset + product(shape)) * size]
        else:
            data = b"".join(storage[at * size:at * size + size] for at in (
                offset + sum(i * s for i, s in zip(index, strides)) for index in positions(shape)))
        super().__init__(dtype, shape, data)
        self.strides, self.offset, self.storage, self.location, self.flags = strides, offset, storage, location, flags

    def contiguous(self):
        """As torch.save writes a tensor that has its storage for itself."""
        wanted = row_major(self.shape)
        same = all(size == 1 or one == other for size, one, other in zip(self.shape, wanted, self.strides))
        return self.offset == 0 and (same or not product(self.shape)) and len(self.storage) == len(self.data)


class Unpickler(pickle.Unpickler):
    def __init__(self, stream, storages):
        super().__init__(stream, encoding="utf-8")
        self.storages = storages

    def persistent_load(self, pid):
        kind, storage, key, location, count = pid
        assert kind == "storage"
        return storage, key, location, count, self.storages[key]

    def find_class(self, module, name):
        module = {"__builtin__": "builtins"}.get(module, module)
        if (module, name) == ("_codecs", "encode"):
            return lambda text, encoding: text.encode(encoding)
        if (module, name) in PLAIN:
            return PLAIN[module, name]
        if module == "torch" and name in DTYPES:
            return DTYPES[name]
        if (module, name) == ("torch.storage", "UntypedStorage"):
            return "untyped"
        if module == "torch" and name in SIZES:
            return "torch." + name
        if (module, name) == ("torch._utils", "_rebuild_tensor_v2"):
            return self.rebuild
        if (module, name) == ("torch._utils", "_rebuild_tensor_v3"):
            return lambda *a: self.rebuild(*a[:6], None, dtype=a[6])
        return stand_in(module, name)

    def rebuild(self, storage, offset, shape, strides, grad, hooks, flags=None, dtype=None):
        kind, _, location, count, data = storage
        dtype = dtype[6:] if dtype else kind
        wanted = count if kind == "untyped" else count * SIZES[dtype]
        assert len(data) == wanted, "the storage has %d bytes, not %d" % (len(data), wanted)
        return View(dtype, tuple(shape), tuple(strides), offset, data, location, flags)


def load(path):
    """The object; every record is checked against its checksum on the way."""
    with zipfile.ZipFile(path) as zipped:
        names = zipped.namelist()
        bad = zipped.testzip()
        assert bad is None, "wrong checksum in " + str(bad)
        folder = names[0].split("/")[0]
        storages = {name[len(folder) + 6:]: zipped.read(name) for name in names
                    if name.startswith(folder + "/data/")}
        return Unpickler(io.BytesIO(zipped.read(folder + "/data.pkl")), storages).load()


# ---- directories ----

METADATA = "torch.distributed.checkpoint.metadata"


class IndexUnpickler(pickle.Unpickler):
    def find_class(self, module, name):
        if (module, name) == ("torch", "Size"):
            return tuple
        if module == "torch":
            return "torch." + name
        if name in ("_get_layout", "_MEM_FORMAT_ENCODING", "MEM_FORMAT_ENCODING"):
            return lambda value: value
        return stand_in(module, name)


class Chunk:
    """A box of a tensor, or a value (without a box), and the range of the item that holds it."""

    def __init__(self, path, info, offsets=None, sizes=None):
        self.offsets, self.sizes = offsets, sizes
        self.file, self.offset, self.length = (info[name] for name in ("relative_path", "offset", "length"))
        assert not os.path.isabs(self.file) and ".." not in self.file.split("/"), self.file
        with open(os.path.join(path, self.file), "rb") as stream:
            stream.seek(self.offset)
            self.data = stream.read(self.length)
        assert len(self.data) == self.length, "%s has no %d bytes at %d" % (self.file, self.length, self.offset)

    def load(self):
        return load(io.BytesIO(self.data))


class Index:
    """A directory that ckpt wrote: strictly of the form that every torch from 2.0 on reads."""

    def __init__(self, path):
        self.path = path
        with open(os.path.join(path, ".metadata"), "rb") as stream:
            whole = IndexUnpickler(stream, encoding="utf-8").load()
        assert whole.name == METADATA + ".Metadata", whole.name
        self.state = whole.state
        self.paths = self.state["planner_data"]
        self.entries = {key: entry.state for key, entry in self.state["state_dict_metadata"].items()}
        self.infos = {}
        for index, info in self.state["storage_data"].items():
            place = index.state["fqn"], index.state.get("offset")
            assert place not in self.infos, "%s twice" % (place,)
            self.infos[place] = info.state
        self.chunks = {key: self.chunks_of(key, entry) for key, entry in self.entries.items()}
        assert len(self.infos) == sum(map(len, self.chunks.values())), "entries of storage_data that nothing uses"

    def chunks_of(self, key, entry):
        if entry is None:
            return [Chunk(self.path, self.infos[key, None])]
        boxes = [(chunk.state["offsets"], chunk.state["sizes"]) for chunk in entry["chunks"]]
        return [Chunk(self.path, self.infos[key, offsets], offsets, sizes) for offsets, sizes in boxes]

    def dtype(self, key):
        return self.entries[key]["properties"].state[0][6:]

    def tensor(self, key):
        """Put together box by box; every element has to come once."""
        dtype, shape = self.dtype(key), self.entries[key]["size"]
        size, strides = SIZES[dtype], row_major(shape)
        data, seen = bytearray(product(shape) * size), bytearray(product(shape))
        for chunk in self.chunks[key]:
            part = chunk.load()
            assert part.dtype == dtype and part.shape == chunk.sizes, "%s: %r is no %s" % (key, part, chunk.sizes)
            row = chunk.sizes[-1] if chunk.sizes else 1
            for number, index in enumerate(positions(chunk.sizes[:-1]) if row else ()):
                at = sum((o + i) * s for o, i, s in zip(chunk.offsets, (*index, 0), strides))
                assert not any(seen[at:at + row]), "%s: covered twice" % key
                seen[at:at + row] = b"\1" * row
                data[at * size:(at + row) * size] = part.data[number * row * size:(number + 1) * row * size]
        assert all(seen), "%s: not covered" % key
        return Tensor(dtype, shape, data)

    def nested(self):
        """The state, as the paths say; lists are dicts with int keys first."""
        state = {}
        for key, entry in self.entries.items():
            value = self.chunks[key][0].load() if entry is None else self.tensor(key)
            path = self.paths[key]
            assert ".".join(map(str, path)) == key, "%s has the path %s" % (key, path)
            container = state
            for element in path[:-1]:
                container = container.setdefault(element, Branch())
            assert path[-1] not in container, key
            container[path[-1]] = value
        return {key: with_lists(value) for key, value in state.items()}


class Branch(dict):
    """A container that the paths made."""


def with_lists(value):
    if not isinstance(value, Branch):
        return value
    if value and all(isinstance(key, int) for key in value):
        assert sorted(value) == list(range(len(value))), "a list with gaps: %s" % sorted(value)
        return [with_lists(value[at]) for at in range(len(value))]
    return {key: with_lists(item) for key, item in value.items()}

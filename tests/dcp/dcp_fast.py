# SPDX-License-Identifier: Apache-2.0
"""Large indexes, by CPython's pickler in C: classes of this file that bear the names of torch's."""

import contextlib
import pickle
import sys
import types

METADATA = "torch.distributed.checkpoint.metadata"
FILES = "torch.distributed.checkpoint.filesystem"
NAMES = {METADATA: ("Metadata", "TensorStorageMetadata", "ChunkStorageMetadata", "MetadataIndex", "TensorProperties"),
         FILES: ("_StorageInfo",)}


class Size(tuple):
    def __reduce__(self):
        return Size, (tuple(self),)


def fake(module, name):
    def __init__(self, **state):
        self.__dict__.update(state)
    return type(name, (), {"__module__": module, "__init__": __init__})


def enum(value):
    raise TypeError("a name only")


@contextlib.contextmanager
def modules():
    """torch's modules, as far as an index needs them, for as long as it is written."""
    made = {name: types.ModuleType(name) for name in ("torch", "torch.distributed", "torch.distributed.checkpoint",
                                                      METADATA, FILES)}
    for module, names in NAMES.items():
        for name in names:
            setattr(made[module], name, fake(module, name))
    Size.__module__, enum.__module__, enum.__name__, enum.__qualname__ = "torch", METADATA, *["_MEM_FORMAT_ENCODING"] * 2
    made["torch"].Size = Size
    setattr(made[METADATA], "_MEM_FORMAT_ENCODING", enum)
    for name in ("strided", "int64"):
        setattr(made["torch"], name, named(name))
    properties = made[METADATA].TensorProperties
    properties.__getstate__ = lambda self: self.state
    before = {name: sys.modules.get(name) for name in made}
    sys.modules.update(made)
    try:
        yield made
    finally:
        for name, module in before.items():
            sys.modules.pop(name)
            if module:
                sys.modules[name] = module


def named(name):
    """Something that is pickled as torch.NAME."""
    def __reduce__(self):
        return name
    return type("dtype", (), {"__module__": "torch", "__reduce__": __reduce__})()


class Member:
    """A member of the enum: it is called with 0."""

    def __reduce__(self):
        return enum, (0,)


def write_index(path, tensors, chunks, length, protocol, memo):
    """Tensors t0, t1 ... of shape (chunks, 2) and int64, a chunk for every row, items back to back in one file."""
    with modules() as made:
        meta, files = made[METADATA], made[FILES]
        properties = meta.TensorProperties()
        properties.state = (made["torch"].int64, made["torch"].strided, False, Member(), False)
        entries, planner, storage = {}, {}, {}
        for tensor in range(tensors):
            key = "t%d" % tensor
            boxes = [meta.ChunkStorageMetadata(offsets=Size((chunk, 0)), sizes=Size((1, 2))) for chunk in range(chunks)]
            entries[key] = meta.TensorStorageMetadata(properties=properties, size=Size((chunks, 2)), chunks=boxes)
            planner[key] = (key,)
            for chunk in range(chunks):
                index = meta.MetadataIndex(fqn=key, index=chunk, offset=Size((chunk, 0)))
                storage[index] = files._StorageInfo(relative_path="__0_0.distcp", length=length,
                                                    offset=(tensor * chunks + chunk) * length)
        whole = meta.Metadata(state_dict_metadata=entries, planner_data=planner, storage_data=storage)
        with open(path, "wb") as out:
            pickler = pickle.Pickler(out, protocol)
            pickler.fast = not memo
            pickler.dump(whole)

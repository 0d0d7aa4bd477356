# SPDX-License-Identifier: Apache-2.0
"""ckpt.save() beside torch.save(), byte for byte: python_save_judge.py FOLDER [PATTERN or every:N], with the package `ckpt` in this folder.

Each object of the registry is written by both in one process, so that they see the same objects: as it is; with arrays of numpy
in place of its tensors; and once more as ckpt.load() reads it, which has to be what torch.load() and torch.save() make of it.
So are the objects of python_save_dtypes.py. What ckpt.save() refuses is counted, and must be of a kind that it does not know. Prints a line for what is wrong, and counts.
"""

import collections
import fnmatch
import os
import sys
import traceback
import warnings

warnings.simplefilter("ignore")

import numpy  # noqa: E402
import torch  # noqa: E402

import ckpt  # noqa: E402
import fake_cuda  # noqa: E402
import python_save_dtypes  # noqa: E402
import registry  # noqa: E402
import torch_files  # noqa: E402

counts = collections.Counter()
refused = collections.Counter()
NUMPY = {torch.float64, torch.float32, torch.float16, torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8, torch.bool,
         torch.complex64, torch.complex128}
ATOMS = {type(None), bool, int, float, complex, str, bytes, bytearray}
VERSION = registry.torch_version()
PROFILE = None if VERSION >= (2, 14) else "%d.%d" % VERSION


class Other(Exception):
    """There is no such object with arrays of numpy."""


class Arrays:
    """The same object with arrays in place of tensors; those of one storage are views of one array."""

    def __init__(self):
        self.made, self.roots, self.kept, self.count = {}, {}, [], 0

    def of(self, value):
        if id(value) in self.made:
            return self.made[id(value)]
        kind = type(value)
        if kind is torch.Tensor:
            made = self.array(value)
        elif kind in (list, dict, collections.OrderedDict):
            if getattr(value, "__dict__", None):
                raise Other
            made = self.made[id(value)] = kind()
            self.kept.append(value)
            if kind is list:
                made.extend(self.of(item) for item in value)
            else:
                made.update((self.of(key), self.of(item)) for key, item in value.items())
            return made
        elif kind is tuple and not all(type(item) in ATOMS for item in value):
            made = tuple(self.of(item) for item in value)
        elif kind in ATOMS or kind in (tuple, set, frozenset) and all(type(item) in ATOMS for item in value):
            return value
        else:
            raise Other
        self.kept.append(value)
        self.made[id(value)] = made
        return made

    def array(self, value):
        if value.dtype not in NUMPY or value.requires_grad or value.is_sparse or value.layout is not torch.strided or value.__dict__ or \
                value.device.type != "cpu" or value.is_conj() or value.is_neg() or value.is_quantized or value.is_nested or not value.numel() or \
                torch.serialization.location_tag(value.untyped_storage() if hasattr(value, "untyped_storage") else value.storage()) != "cpu":
            raise Other
        self.count += 1
        storage = value.untyped_storage()
        if storage._cdata not in self.roots:
            self.kept.append(storage)
            if storage.nbytes() % value.element_size():
                raise Other
            whole = torch.empty(0, dtype=value.dtype).set_(storage, 0, (storage.nbytes() // value.element_size(),))
            self.roots[storage._cdata] = whole.numpy().copy()
        root, size = self.roots[storage._cdata], value.element_size()
        if root.dtype != value.detach().numpy().dtype:
            raise Other
        return numpy.ndarray(tuple(value.shape), root.dtype, root, value.storage_offset() * size, [size * step for step in value.stride()])


def read(path):
    with open(path, "rb") as stream:
        return stream.read()


def same(name, way, wanted, obj, folder, must=(), **options):
    """Whether ckpt.save() writes the bytes of the file WANTED."""
    path = os.path.join(folder, way, name + ".pt")
    os.makedirs(os.path.dirname(path), exist_ok=True)
    try:
        ckpt.save(obj, path, profile=PROFILE, **options)
    except ckpt.Error as error:
        counts[way + " refused"] += 1
        refused["%s: %s" % (way, error.text[:70])] += 1
        if error.status != "UNSUPPORTED" or os.path.exists(path):
            yield "%s: %s %s" % (way, error.status, error)
        return
    if read(path) == read(wanted):
        counts[way] += 1
    else:
        yield "%s: other bytes: %s" % (way, path)


def check(entry, folder):
    fake_cuda.clear()
    torch.manual_seed(0)
    obj = entry.build()
    source = os.path.join(folder, "torch", entry.name + ".pt")
    try:
        torch.save(obj, source)
    except Exception:
        counts["torch cannot"] += 1
        return
    yield from same(entry.name, "objects", source, obj, folder, arrays="numpy")
    arrays = Arrays()
    try:
        made = arrays.of(obj)
    except (Other, RecursionError):
        return
    if arrays.count:
        yield from same(entry.name, "arrays", source, made, folder)
    again = os.path.join(folder, "again", entry.name + ".pt")
    torch.save(torch_files.load(source), again)
    yield from same(entry.name, "loaded", again, ckpt.load(source), folder)


def check_dtypes(folder):
    """Dtypes of numpy beside its scalars and arrays, as objects that were not loaded."""
    for name, obj in python_save_dtypes.build_all():
        source = os.path.join(folder, "torch", "dtypes_%s.pt" % name)
        try:
            torch.save(obj, source)
        except Exception:
            counts["torch cannot"] += 1
            continue
        name = "dtypes_" + name
        for text in same(name, "objects", source, obj, folder, arrays="numpy"):
            yield "%s: %s" % (name, text)
        if not python_save_dtypes.has_arrays(obj):
            for text in same(name, "arrays", source, obj, folder):
                yield "%s: %s" % (name, text)


def check_short_bytes(folder):
    """Bytes of one byte or none, of which Python has one object for all that are equal, and now and then makes another."""
    for name, make in (("one", lambda: (5).to_bytes(1, "big")), ("none", lambda: b"b" * int("0")), ("common", lambda: b"\5"), ("common_none", lambda: b"")):
        name, source = "short_bytes_" + name, os.path.join(folder, "torch", "short_bytes_%s.pt" % name)
        obj = [make(), make()]
        obj += [obj[0], [obj[1]], b"\5", b""]
        torch.save(obj, source)
        for text in same(name, "objects", source, obj, folder):
            yield "%s: %s" % (name, text)


def main():
    import objects  # noqa: F401

    folder, pattern = sys.argv[1], sys.argv[2] if len(sys.argv) > 2 else "*"
    for part in ("torch", "again"):
        os.makedirs(os.path.join(folder, part), exist_ok=True)
    fake_cuda.install()
    torch.set_num_threads(1)
    wrong = 0
    step = int(pattern[len("every:"):]) if pattern.startswith("every:") else 1
    pattern = pattern if step == 1 and not pattern.startswith("every:") else "*"
    for entry in list(registry.ITEMS.values())[::step]:
        if registry.why_not(entry) or entry.protocol != 2 or not fnmatch.fnmatchcase(entry.name, pattern):
            continue
        try:
            for text in check(entry, folder):
                wrong += 1
                print("BAD\t%s: %s" % (entry.name, text), flush=True)
        except registry.Skip:
            continue
        except Exception:
            wrong += 1
            print("BAD\t%s: %s" % (entry.name, traceback.format_exc()[-700:].replace("\n", " | ")), flush=True)
    for text in [*check_dtypes(folder), *check_short_bytes(folder)]:
        wrong += 1
        print("BAD\t%s" % text, flush=True)
    for text, count in refused.most_common(400 if pattern != "*" else 40):
        print("refused %d\t%s" % (count, text))
    right = sum(counts[way] for way in ("objects", "arrays", "loaded"))
    print("DONE\t%d\t%d\t%s" % (right, wrong, ", ".join("%d %s" % (n, name) for name, n in sorted(counts.items()))))


if __name__ == "__main__":
    with torch_files.clean_exit():
        main()

# SPDX-License-Identifier: Apache-2.0
"""What ckpt writes: directories of one file, or of another directory, taken apart here to the last byte."""

import os
import zipfile
from types import SimpleNamespace

import dcp_read
from dcp_build import Dialect, Directory, Tensor, archive, chunked, numbered, pickled, rebuilt, records_of
from harness import case, difference, require, run

SMALL = 65536     # bytes
RANKS = (1, 2, 3, 8, 64)


def file_of(path, value, tensors):
    """A file of torch.save by hand; TENSORS are the storages in order."""
    with open(path, "wb") as out:
        out.write(archive(records_of(pickled(value), {str(key): tensor.data for key, tensor in enumerate(tensors)}),
                          os.path.basename(path)[:-3]))


def state_of(tensors):
    """A nested state and what has to come back of it; int keys are text then."""
    calls = [rebuilt(tensor, key=str(key)) for key, tensor in enumerate(tensors)]
    names = ["t%d" % number for number in range(len(tensors))]
    value = {"model": dict(zip(names, calls)), "epoch": 3, "none": None, "list": [1, 2], "empty": {},
             "opt": {"state": {0: {"step": 1}, 1: {"step": 2}}, "groups": [{"lr": 0.1, "betas": (0.9, 0.99)}]},
             "tuple": (1, "x"), "text": "grün"}
    wanted = {"model": dict(zip(names, tensors)), "epoch": 3, "none": None, "list": [1, 2],
              "opt": {"state": {"0": {"step": 1}, "1": {"step": 2}}, "groups": [{"lr": 0.1, "betas": (0.9, 0.99)}]},
              "tuple": (1, "x"), "text": "grün"}
    return value, wanted


TENSORS = [numbered("float32", (10, 2000)), numbered("bfloat16", (5, 7000)), numbered("float64", (65, 130)),
           numbered("uint8", (7, 10000)), numbered("int64", (3, 4)), numbered("float32", ()), numbered("int8", (0, 5)),
           numbered("float16", (33000,)), numbered("complex128", (2, 3)), numbered("bool", (1, 70000)),
           numbered("float8_e5m2", (4, 17000)), numbered("int32", (64, 300))]


def sound_items(index):
    """Every item is an archive like torch's: stored, with checksums, alone in its range."""
    ranges = {}
    for key, chunks in index.chunks.items():
        for chunk in chunks:
            require(chunk.data[:4] == b"PK\x03\x04", "%s: no archive" % key)
            with zipfile.ZipFile(dcp_read.io.BytesIO(chunk.data)) as zipped:
                require(zipped.testzip() is None, "%s: wrong checksum" % key)
                names = [info.filename for info in zipped.infolist()]
                require(all(info.compress_type == 0 for info in zipped.infolist()), "%s: compressed" % key)
                require("archive/data.pkl" in names and "archive/byteorder" in names, "%s: records %s" % (key, names))
                require(all(info.header_offset >= 0 for info in zipped.infolist()), "%s: bytes in front" % key)
            require(not chunk.sizes or all(chunk.sizes), "%s: a chunk of no elements" % key)
            ranges.setdefault(chunk.file, set()).add((chunk.offset, chunk.length))
    for file, found in ranges.items():
        end = 0
        for offset, length in sorted(found):
            require(offset >= end, "%s: items overlap at %d" % (file, offset))
            end = offset + length
        require(end == os.path.getsize(os.path.join(index.path, file)), "%s: bytes behind the last item" % file)


def placed_well(index, ranks, dimension=0, keep=0):
    """Tensors are cut by torch.chunk's rule, the part of rank r is in file r; those below KEEP bytes are whole."""
    for key, entry in index.entries.items():
        chunks = index.chunks[key]
        if entry is None:
            require(chunks[0].file == "__0_0.distcp", "%s in %s" % (key, chunks[0].file))
            continue
        shape, nbytes = entry["size"], dcp_read.product(entry["size"]) * dcp_read.SIZES[index.dtype(key)]
        if not nbytes:
            require(not chunks, "%s: chunks without elements" % key)
        elif not shape or nbytes < keep:
            require(len(chunks) == 1, "%s: %d chunks" % (key, len(chunks)))
        else:
            boxes = chunked(shape, ranks, min(dimension, len(shape) - 1))
            wanted = [("__%d_0.distcp" % rank, *box) for rank, box in enumerate(boxes)]
            found = [(chunk.file, chunk.offsets, chunk.sizes) for chunk in chunks]
            require(found == wanted, "%s: %s" % (key, found[:4]))


def portable(index):
    require(set(index.state) == {"state_dict_metadata", "planner_data", "storage_data"}, "fields %s" % list(index.state))
    require(list(index.paths) == list(index.entries) or set(index.paths) == set(index.entries), "planner_data lacks keys")
    for key, entry in index.entries.items():
        if entry is not None:
            require(len(entry["properties"].state) == 5, "%s: properties %s" % (key, entry["properties"]))


def check_directory(path, wanted, ranks, dimension=0, keep=0):
    index = dcp_read.Index(path)
    portable(index)
    sound_items(index)
    placed_well(index, ranks, dimension, keep)
    text = difference(wanted, nested_tensors(index.nested()))
    require(not text, text)
    known = {".metadata"} | {"__%d_0.distcp" % rank for rank in range(ranks)}
    require(set(os.listdir(path)) <= known, "files %s" % sorted(os.listdir(path)))


def check_alignment(path, alignment):
    """Items, and so the numbers in them."""
    for key, chunks in dcp_read.Index(path).chunks.items():
        for chunk in chunks:
            require(chunk.offset % alignment == 0, "%s at %d" % (key, chunk.offset))
            with zipfile.ZipFile(dcp_read.io.BytesIO(chunk.data)) as zipped:
                for info in zipped.infolist():
                    if "/data/" in info.filename:
                        at = info.header_offset
                        name, extra = (int.from_bytes(chunk.data[at + x:at + x + 2], "little") for x in (26, 28))
                        require((chunk.offset + at + 30 + name + extra) % 64 == 0, "%s: data is not aligned" % key)


class Whole(dcp_read.View):
    """What was put together here has no storage of its own to look at."""

    def __init__(self, tensor):
        self.dtype, self.shape, self.data, self.location = tensor.dtype, tensor.shape, tensor.data, "cpu"

    def contiguous(self):
        return True


def nested_tensors(value):
    if isinstance(value, dict):
        return {key: nested_tensors(item) for key, item in value.items()}
    if isinstance(value, list):
        return [nested_tensors(item) for item in value]
    if isinstance(value, dcp_read.Tensor) and not isinstance(value, dcp_read.View):
        return Whole(value)
    return value


def did(*arguments):
    status, _, err = run(*arguments)
    require(status == 0, "ended with %d: %s" % (status, err.strip()[:300]))


@case(22, 23, 24, 27)
def split(t):
    value, wanted = state_of(TENSORS)
    source = t.path("source.pt")
    file_of(source, value, TENSORS)
    for ranks in RANKS:
        target = t.path()
        t.check("split %d" % ranks, did, "split", source, target, "--ranks", str(ranks))
        t.check("contents %d" % ranks, check_directory, target, wanted, ranks)
        t.merges("merge %d" % ranks, target, wanted)
    target = t.path()
    t.check("columns", did, "split", source, target, "--ranks", "3", "--dim", "1")
    t.check("contents of columns", check_directory, target, wanted, 3, 1)
    target = t.path()
    t.check("whole ones", did, "split", source, target, "--ranks", "3", "--keep-whole", str(SMALL))
    t.check("contents of whole ones", check_directory, target, wanted, 3, 0, SMALL)
    for alignment in (64, 4096):
        target = t.path()
        t.check("alignment %d" % alignment, did, "split", source, target, "--ranks", "3", "--alignment", str(alignment))
        t.check("contents, alignment %d" % alignment, check_directory, target, wanted, 3)
        t.check("offsets, alignment %d" % alignment, check_alignment, target, alignment)
    t.refuses("no ranks", "split", source, t.path(), "--ranks", "0", statuses=(2, 64))
    t.refuses("many ranks", "split", source, t.path(), "--ranks", "99999999999999999999", statuses=(2, 64))


@case(22)
def reshard(t):
    value, wanted = state_of(TENSORS)
    source = Directory(t.path())
    for number, tensor in enumerate(TENSORS):
        shape = tensor.shape
        boxes = chunked(shape, 3, len(shape) - 1) if shape and dcp_read.product(shape) else None
        source.tensor("model.t%d" % number, tensor, boxes)
    for key, item in wanted.items():
        if key not in ("model", "opt"):
            source.value(key, item)
    for number in (0, 1):
        source.value("opt.state.%d.step" % number, number + 1)
    source.value("opt.groups.0.lr", 0.1, path=("opt", "groups", 0, "lr"))
    source.value("opt.groups.0.betas", (0.9, 0.99), path=("opt", "groups", 0, "betas"))
    source.write(Dialect("2.14"))
    wanted["opt"] = wanted.pop("opt")       # the order of keys is that of the index
    for ranks in RANKS:
        target = t.path()
        t.check("reshard %d" % ranks, did, "reshard", source.path, target, "--ranks", str(ranks))
        t.check("contents %d" % ranks, check_directory, target, wanted, ranks)
        again = t.path()
        t.check("reshard %d again" % ranks, did, "reshard", target, again, "--ranks", "2")
        t.check("contents %d again" % ranks, check_directory, again, wanted, 2)
    del value


@case(25)
def tied(t):
    """One storage under two keys is one item; a view is not."""
    tensor = numbered("float32", (200, 100))
    part = tensor.box((3, 0), (2, 100))
    value = {"a": rebuilt(tensor), "b": {"a": rebuilt(tensor)},
             "view": rebuilt(part, offset=300, count=20000), "turned": rebuilt(
                 transposed(tensor), strides=(1, 100), count=20000)}
    wanted = {"a": tensor, "b": {"a": tensor}, "view": part, "turned": transposed(tensor)}
    source = t.path("source.pt")
    file_of(source, value, [tensor])
    for ranks in (1, 2, 3):
        target = t.path()
        t.check("split %d" % ranks, did, "split", source, target, "--ranks", str(ranks))
        t.check("contents %d" % ranks, check_directory, target, wanted, ranks)

        def one_item(target=target):
            index = dcp_read.Index(target)
            places = [sorted((c.file, c.offset, c.length) for c in index.chunks[key]) for key in ("a", "b.a")]
            require(places[0] == places[1], "%s" % places)
            size = sum(os.path.getsize(os.path.join(target, name)) for name in os.listdir(target))
            require(size < 3 * len(tensor.data), "%d bytes" % size)
        t.check("one item %d" % ranks, one_item)


def transposed(tensor):
    data = b"".join(tensor.element((row, column)) for column in range(tensor.shape[1]) for row in range(tensor.shape[0]))
    return type(tensor)(tensor.dtype, tuple(reversed(tensor.shape)), data)


@case(17, 23)
def what_cannot_be_split(t):
    """No dict at the top, keys that become one, nothing to write to."""
    tensor = numbered("float32", (3,))
    source = t.path("source.pt")
    file_of(source, [rebuilt(tensor)], [tensor])
    t.refuses("a list", "split", source, t.path(), "--ranks", "2", names=["source.pt"])
    file_of(source, {"a.b": 1, "a": {"b": rebuilt(tensor)}}, [tensor])
    t.refuses("keys that become one", "split", source, t.path(), "--ranks", "2", names=["a.b"])
    file_of(source, {0: 1, "0": rebuilt(tensor)}, [tensor])
    t.refuses("number and text", "split", source, t.path(), "--ranks", "2", names=["0"])
    file_of(source, {"a": rebuilt(tensor)}, [tensor])
    t.refuses("no such folder", "split", source, t.path("no/where"), "--ranks", "2")
    full = t.path()
    os.mkdir(full)
    with open(full + "/x", "w") as out:
        out.write("mine")
    t.refuses("a folder with something in it", "split", source, full, "--ranks", "2")


@case(6, 27)
def large_and_empty(t):
    """Tensors without elements, and repeated ones: what torch.empty() can make, no more."""
    source, scalar = t.path("source.pt"), numbered("float32", (1,))
    for shape in (((1 << 63) - 1, 0, 2), (0, 1, (1 << 63) - 1), (0, 1 << 31, (1 << 32) - 1), (1 << 31, (1 << 33) - 1, 0)):
        tensor, target = Tensor("float32", shape, b""), t.path()
        file_of(source, {"e": rebuilt(tensor)}, [tensor])
        t.check("split %s" % (shape,), did, "split", source, target, "--ranks", "2")
        t.merges("merge %s" % (shape,), target, {"e": tensor})
    for shape, text in (((0, 1 << 61, 4), "too large for torch"), ((0, 1 << 31, 1 << 32), "too large for torch"),
                        ((1 << 32, 1 << 32, 0), "more bytes than any file"), ((1 << 61,), "more bytes than any file"),
                        ((1 << 32, 1 << 32), "more bytes than any file")):
        repeated = SimpleNamespace(dtype="float32", shape=shape)
        file_of(source, {"a": {"e": rebuilt(repeated, strides=(0,) * len(shape), count=1)}}, [scalar])
        t.refuses("split %s" % (shape,), "split", source, t.path(), "--ranks", "2", names=["'a.e'", text])


@case(17, 23)
def lists(t):
    """The nesting rule of 2.4 and later, without gaps."""
    tensor = numbered("float32", (3,))
    T = rebuilt(tensor)
    for label, value, wanted in (
            ("list of tensors", {"l": [T, 5, "x"]}, {"l": [tensor, 5, "x"]}),
            ("list of lists", {"l": [[1, 2], [T]]}, {"l": [[1, 2], [tensor]]}),
            ("list of dicts", {"l": [{"a": 1}, 3]}, {"l": [{"a": 1}, 3]}),
            ("empty list", {"l": [], "t": T}, {"l": [], "t": tensor}),
            ("empty dict", {"e": {}, "t": T}, {"t": tensor}),
            ("keys of other kinds", {"k": {True: 1, None: 2, 3: T}}, {"k": {"True": 1, "None": 2, "3": tensor}})):
        source, target = t.path("source.pt"), t.path()
        file_of(source, value, [tensor])
        t.check(label, did, "split", source, target, "--ranks", "2")
        t.check(label + ", contents", check_directory, target, wanted, 2)
    for label, value in (("gap", {"l": [{}, 3], "t": T}), ("hole in the middle", {"l": [T, {}, T]})):
        source, target = t.path("source.pt"), t.path()
        file_of(source, value, [tensor])

        def check():
            status, _, err = run("split", source, target, "--ranks", "2")
            require(status in (0, 2), "ended with %d: %s" % (status, err))
            if status == 0:
                dcp_read.Index(target).nested()     # no gaps
        t.check(label, check)


@case(23, 30)
def edited(t):
    """Indexes after reindex are of the same strict form; after renaming as the input was."""
    tensor = numbered("float32", (7, 3))
    for release in ("2.0", "2.6", "2.14"):
        source = Directory(t.path()).tensor("m.module.w", tensor, chunked((7, 3), 2), path=("m", "module.w"))
        source.value("n", 5).write(Dialect(release))
        target, renamed = t.path(), t.path()
        t.check("reindex %s" % release, did, "reindex", source.path, target)
        t.check("contents %s" % release, contents, target, {"m": {"module.w": tensor}, "n": 5}, True)
        t.check("strip %s" % release, did, "strip-module", source.path, renamed)
        t.check("contents of strip %s" % release, contents, renamed, {"m": {"w": tensor}, "n": 5}, False)


def contents(path, wanted, strict):
    index = dcp_read.Index(path)
    if strict:
        portable(index)
    text = difference(wanted, nested_tensors(index.nested()))
    require(not text, text)

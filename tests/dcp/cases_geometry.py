# SPDX-License-Identifier: Apache-2.0
"""Chunks: how they cover a tensor, and how they do not."""

import random

from dcp_build import Directory, Item, SIZES, chunked, numbered, row_major, tensor_item
from harness import case

UNEVEN = ((10, 4), (5, 4), (4, 8), (9, 8), (7, 3), (1, 3), (6, 1))


def covered(t, label, tensor, boxes, **options):
    directory = Directory(t.path()).tensor("a.w", tensor, boxes, **options).write()
    t.merges(label, directory.path, {"a": {"w": tensor}})


def grid(shape, *cuts):
    """Boxes of a grid: (dimension, count) of each cut, applied to what the one before left."""
    boxes = [((0,) * len(shape), tuple(shape))]
    for dimension, count in cuts:
        finer = []
        for offsets, sizes in boxes:
            for more, part in chunked(sizes, count, dimension):
                finer.append((tuple(map(sum, zip(offsets, more))), part))
        boxes = finer
    return boxes


@case(14)
def one_dimension(t):
    for rows, ranks in UNEVEN:
        for shape in ((rows,), (rows, 3), (rows, 2, 5)):
            covered(t, "%s by %d" % (shape, ranks), numbered("float32", shape), chunked(shape, ranks))


@case(14)
def grids(t):
    covered(t, "2 x 2", numbered("float32", (5, 7)), grid((5, 7), (0, 2), (1, 2)))
    covered(t, "3 x 4", numbered("bfloat16", (10, 9)), grid((10, 9), (0, 3), (1, 4)))
    covered(t, "columns first", numbered("uint8", (5, 7)), grid((5, 7), (1, 3), (0, 2)))
    covered(t, "one dimension twice", numbered("float32", (10, 3)), grid((10, 3), (0, 2), (0, 4)))
    covered(t, "three dimensions", numbered("float64", (5, 4, 7)), grid((5, 4, 7), (2, 3), (0, 2), (1, 3)))
    covered(t, "layers of experts", numbered("float32", (3, 8, 4, 5)), grid((3, 8, 4, 5), (0, 3), (1, 4), (3, 2)))
    strided = [((0, 0), (2, 3)), ((4, 0), (2, 3)), ((2, 0), (2, 3)), ((6, 0), (2, 3))]
    covered(t, "strided", numbered("float32", (8, 3)), strided)
    backward = list(reversed(chunked((10, 3), 4)))
    covered(t, "backward", numbered("float32", (10, 3)), backward)
    covered(t, "all in one file", numbered("float32", (10, 3)), backward, files=["x"] * 4)


@case(16)
def columns(t):
    """Cut along the last dimension, with odd lengths, for all element sizes."""
    for dtype in ("uint8", "bfloat16", "float32", "complex64", "complex128"):
        for shape, ranks in (((5, 7), 2), ((5, 7), 3), ((4, 1001), 4), ((3, 2, 13), 5), ((1, 9), 2)):
            covered(t, "%s %s by %d" % (dtype, shape, ranks), numbered(dtype, shape), chunked(shape, ranks, len(shape) - 1))
    covered(t, "middle", numbered("int16", (3, 7, 5)), chunked((3, 7, 5), 3, 1))


def halved(generator, box, depth):
    """Cut a box at random, again and again."""
    offsets, sizes = box
    places = [d for d, size in enumerate(sizes) if size > 1]
    if not depth or not places or generator.random() < 0.15:
        return [box]
    d = generator.choice(places)
    at = generator.randrange(1, sizes[d])
    left = (offsets, sizes[:d] + (at,) + sizes[d + 1:])
    right = (offsets[:d] + (offsets[d] + at,) + offsets[d + 1:], sizes[:d] + (sizes[d] - at,) + sizes[d + 1:])
    return halved(generator, left, depth - 1) + halved(generator, right, depth - 1)


@case(14, 16)
def random_boxes(t):
    """Boxes that are no grid, each with strides of its own, several tensors in a file."""
    generator = random.Random(5)
    for number in range(40):
        shape = tuple(generator.randrange(1, 9) for _ in range(generator.randrange(1, 5)))
        dtype = generator.choice([dtype for dtype in SIZES if dtype != "complex32"])
        tensor = numbered(dtype, shape, number)
        boxes = halved(generator, ((0,) * len(shape), shape), 6)
        generator.shuffle(boxes)

        def make(part):
            order = list(range(len(part.shape)))
            generator.shuffle(order)
            strides = [0] * len(order)
            for d, step in zip(order, row_major([part.shape[d] for d in order])):
                strides[d] = step
            return tensor_item(part, strides=strides, aligned=generator.random() < 0.5)
        files = ["__%d_0.distcp" % generator.randrange(3) for _ in boxes]
        covered(t, "%d: %s %s in %d" % (number, dtype, shape, len(boxes)), tensor, boxes, make=make, files=files)


@case(14)
def large_chunks(t):
    """Larger than any buffer, with rows that end anywhere."""
    tensor = numbered("uint8", (1, 1))
    data = bytes(range(251)) * 21000
    for shape, ranks, dimension in (((5, 1050000), 3, 1), ((1999, 2600), 3, 0), ((1999, 2600), 2, 1)):
        whole = type(tensor)("uint8", shape, data[:shape[0] * shape[1]])
        directory = Directory(t.path())
        directory.entries["w"], directory.planner["w"] = ("uint8", shape, chunked(shape, ranks, dimension)), ("w",)
        for number, ((row, column), (rows, count)) in enumerate(directory.entries["w"][2]):
            part = b"".join(whole.data[(row + r) * shape[1] + column:][:count] for r in range(rows))
            item = _plain_item(part, (rows, count))
            directory.items.append(Item("w", number, (row, column), "__%d_0.distcp" % number, item))
        directory.write()
        t.check("%s by %d" % (shape, ranks), _compare_bytes, t, directory.path, whole.data)


def _plain_item(data, shape):
    from dcp_build import Tensor, archive, pickled, rebuilt, records_of
    small = Tensor("uint8", (), b"\0")
    small.shape = tuple(shape)
    return archive(records_of(pickled(rebuilt(small)), {"0": data}))


def _compare_bytes(t, path, data):
    import zipfile
    from harness import require, run
    output = t.path() + ".pt"
    status, _, err = run("merge", path, output)
    require(status == 0, err)
    with zipfile.ZipFile(output) as zipped:
        require(zipped.testzip() is None, "wrong checksum")
        name = next(name for name in zipped.namelist() if name.endswith("/data/0"))
        require(zipped.read(name) == data, "contents differ")


# ---- what does not fit ----

def broken(t, label, boxes, shape=(6, 3), names=("w",), change=None):
    directory = Directory(t.path())
    tensor = numbered("float32", tuple(max(shape[d], max(o[d] + s[d] for o, s in boxes)) for d in range(len(shape))))
    directory.tensor("w", tensor, boxes)
    directory.entries["w"] = ("float32", shape, boxes)
    if change:
        change(directory)
    directory.write()
    t.refuses_merge(label, directory.path, *names)
    t.survives(label + ", ls", "ls", directory.path)


@case(15)
def not_covered(t):
    broken(t, "hole", [((0, 0), (2, 3)), ((4, 0), (2, 3))])
    broken(t, "hole at the end", [((0, 0), (2, 3))])
    broken(t, "hole in the corner", [((0, 0), (6, 2)), ((0, 2), (5, 1))])
    broken(t, "overlap", [((0, 0), (4, 3)), ((3, 0), (3, 3))])
    broken(t, "overlap and hole of one size", [((0, 0), (3, 3)), ((2, 0), (3, 3))])
    broken(t, "overlap of columns", [((0, 0), (6, 2)), ((0, 1), (6, 2))])
    broken(t, "the same chunk twice", [((0, 0), (6, 3)), ((0, 0), (6, 3))])
    broken(t, "larger than the tensor", [((0, 0), (7, 3))])
    broken(t, "beyond the end", [((0, 0), (3, 3)), ((3, 0), (4, 3))])
    broken(t, "same place, two sizes", [((0, 0), (3, 3)), ((0, 0), (6, 3))])


@case(15)
def entries_that_lack(t):
    def without_item(directory):
        directory.items.pop()

    def other_offset(directory):
        directory.items[1].offsets = (2, 0)
    halves = [((0, 0), (3, 3)), ((3, 0), (3, 3))]
    broken(t, "no storage entry", halves, change=without_item)
    broken(t, "storage entry of another place", halves, change=other_offset)
    directory = Directory(t.path()).value("n", 1)
    directory.items.clear()
    directory.write()
    t.refuses_merge("value without storage entry", directory.path, "n")
    directory = Directory(t.path()).tensor("s", numbered("float32", ()))
    directory.items.clear()
    directory.write()
    t.refuses_merge("scalar without storage entry", directory.path, "s")
    directory = Directory(t.path()).tensor("w", numbered("float32", (4,)), boxes=[]).value("n", 1).write()
    t.refuses_merge("no chunks at all", directory.path, "w")


@case(15)
def holes_elsewhere(t):
    """What is not asked for does not matter."""
    good = numbered("float32", (2,))
    directory = Directory(t.path()).tensor("good.w", good).tensor("bad.w", numbered("int8", (4,)), [((0,), (2,))])
    directory.write()
    t.refuses_merge("all", directory.path, "bad.w")
    t.merges("only the good one", directory.path, {"good": {"w": good}}, "--only", "good")

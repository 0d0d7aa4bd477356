# SPDX-License-Identifier: Apache-2.0
"""Items: tensors of every dtype and layout, values of every kind, items that are packed oddly."""

import io
import json
import os
import shutil
import struct
import subprocess

import dcp_read
from dcp_build import (ALL_RECORDS, Call, Directory, Global, Object, SIZES, Tensor, archive, chunked,
                       numbered, pickled, rebuilt, records_of, tensor_item, value_item)
from harness import case, require, run


def one_tensor(t, label, tensor, boxes=None, wanted=None, **options):
    """A directory of one tensor, whose items are made with OPTIONS."""
    directory = Directory(t.path())
    directory.tensor("m.w", tensor, boxes, make=lambda part: tensor_item(part, **options)).value("n", 1).write()
    t.merges(label, directory.path, {"m": {"w": wanted or tensor}, "n": 1})


@case(8)
def dtypes(t):
    for dtype in SIZES:
        if dtype != "complex32":
            one_tensor(t, dtype, numbered(dtype, (5, 3)), chunked((5, 3), 2))
            one_tensor(t, dtype + " whole", numbered(dtype, (3,)))
            one_tensor(t, dtype + " scalar", numbered(dtype, ()))


@case(8)
def no_elements(t):
    for shape in ((0,), (3, 0), (0, 5, 2)):
        one_tensor(t, "with item %s" % (shape,), Tensor("float32", shape, b""))
        directory = Directory(t.path())
        directory.tensor("w", Tensor("bfloat16", shape, b""), boxes=[]).value("n", 1).write()
        t.merges("without chunk %s" % (shape,), directory.path, {"w": Tensor("bfloat16", shape, b""), "n": 1})
    directory = Directory(t.path())
    directory.tensor("w", Tensor("float32", (0, 4), b"")).value("n", 1)
    directory.items = [item for item in directory.items if item.key != "w"]
    directory.write()
    t.merges("chunk without item", directory.path, {"w": Tensor("float32", (0, 4), b""), "n": 1})
    tensor = numbered("float32", (3, 2))
    directory = Directory(t.path()).tensor("w", tensor, chunked((3, 2), 2) + [((3, 0), (0, 2))])
    directory.write()
    t.merges("an empty chunk beside others", directory.path, {"w": tensor})


@case(8)
def layouts(t):
    one_tensor(t, "transposed", numbered("float32", (4, 3)), strides=(1, 4))
    one_tensor(t, "transposed, small", numbered("uint8", (5, 7)), strides=(1, 5))
    one_tensor(t, "transposed, large", numbered("complex128", (3, 2)), strides=(1, 3))
    one_tensor(t, "channels last", numbered("bfloat16", (2, 3, 4, 5)), strides=(60, 1, 15, 3))
    one_tensor(t, "permuted", numbered("int16", (3, 4, 5)), strides=(5, 15, 1))
    one_tensor(t, "offset", numbered("float64", (3,)), offset=4)
    one_tensor(t, "larger storage", numbered("float32", (3, 2)), offset=1, count=11)
    one_tensor(t, "gaps", numbered("float32", (3, 2)), strides=(5, 2), count=13)
    same = numbered("float32", (1, 3))
    one_tensor(t, "expanded", Tensor("float32", (4, 3), same.data * 4), strides=(0, 1), count=3)
    parts = numbered("float16", (6, 5))
    directory = Directory(t.path())
    directory.tensor("w", parts, chunked((6, 5), 3), make=lambda part: tensor_item(part, strides=(1, part.shape[0])))
    t.merges("transposed chunks", directory.write().path, {"w": parts})
    directory = Directory(t.path())
    directory.tensor("w", parts, chunked((6, 5), 2, 1), make=lambda part: tensor_item(part, strides=(1, part.shape[0])))
    t.merges("transposed columns", directory.write().path, {"w": parts})


@case(8)
def flags(t):
    """Conjugate and negative views: what is stored is what they are views of."""
    for dtype, code in (("complex64", "f"), ("complex128", "d")):
        stored = numbered(dtype, (3, 2))
        numbers = struct.unpack("<12" + code, stored.data)
        conjugate = struct.pack("<12" + code, *(-x if at % 2 else x for at, x in enumerate(numbers)))
        one_tensor(t, "conj " + dtype, stored, wanted=Tensor(dtype, (3, 2), conjugate), flags={"conj": True})
        negative = struct.pack("<12" + code, *(-x for x in numbers))
        one_tensor(t, "neg " + dtype, stored, wanted=Tensor(dtype, (3, 2), negative), flags={"neg": True})
        both = struct.pack("<12" + code, *(x if at % 2 else -x for at, x in enumerate(numbers)))
        one_tensor(t, "both " + dtype, stored, wanted=Tensor(dtype, (3, 2), both), flags={"conj": True, "neg": True})
    for dtype, code in (("float32", "f"), ("float64", "d"), ("float16", "e")):
        stored = Tensor(dtype, (6,), struct.pack("<6" + code, 0.0, 1.5, -2.0, float("inf"), -0.0, 3.0))
        negative = struct.pack("<6" + code, -0.0, -1.5, 2.0, -float("inf"), 0.0, -3.0)
        one_tensor(t, "neg " + dtype, stored, wanted=Tensor(dtype, (6,), negative), flags={"neg": True})


@case(9)
def records(t):
    tensor = numbered("float32", (5, 3))
    for extra in ((), ("byteorder",), ALL_RECORDS, (".format_version",), (".data/serialization_id",)):
        one_tensor(t, "with %s" % (extra,), tensor, chunked((5, 3), 2), extra=extra)
    for dtype in ("float32", "int16", "bool", "complex64", "bfloat16", "uint64"):
        tensor = numbered(dtype, (5, 3))
        one_tensor(t, "big-endian " + dtype, tensor, chunked((5, 3), 2), byteorder="big")
        one_tensor(t, "big-endian, whole " + dtype, tensor, byteorder="big")
    one_tensor(t, "other folder", tensor, name="some folder")
    one_tensor(t, "not aligned", tensor, aligned=False)


# ---- values ----

def value_case(t, label, value, storages=None, wanted=None):
    """A value goes through as it is: compared with the same reader's view of its item."""
    item = value_item(value, storages)
    directory = Directory(t.path()).value("a.v", None, item=item).tensor("w", numbered("int8", (2,))).write()
    wanted = dcp_read.load(io.BytesIO(item)) if wanted is None else wanted
    t.merges(label, directory.path, {"a": {"v": wanted}, "w": numbered("int8", (2,))})


@case(10)
def values(t):
    for value in (7, 0, -1, 1 << 40, 1 << 70, -(1 << 100), 0.5, float("inf"), True, False, "text", "", "grün ☃ 𝒳",
                  b"\x00\xff" * 3, [1, "two", [3.0, None]], [], (), (1, (2, 3)), {"k": 1}, {}, 1 + 2j, {3},
                  frozenset({4}), range(3), "x" * 70000, list(range(3000)), {i: str(i) for i in range(2000)}):
        value_case(t, repr(value)[:30], value)
    directory = Directory(t.path()).value("v", None).write()
    t.merges("None", directory.path, {"v": None})


@case(10)
def shared_values(t):
    """Objects that are one inside of an item stay one; those of two items stay two."""
    part = [1, 2]
    value_case(t, "shared list", [part, part, (part,)])
    cycle = []
    cycle.append(cycle)
    directory = Directory(t.path()).value("v", cycle).value("u", part).value("x", [part, part]).write()

    def check():
        found = t.merged(directory.path)
        assert found["v"][0] is found["v"], "the cycle is broken"
        assert found["x"][0] is found["x"][1] and found["x"][0] is not found["u"], "sharing differs"
    t.check("cycle", check)


@case(10)
def tensors_in_values(t):
    """They keep their device, stride and storage, and get records of their own."""
    one, other = numbered("float32", (2, 3)), numbered("uint16", (4,))
    storages = {"0": one.data, "1": other.data}
    value = (rebuilt(one, location="cuda:1"), [rebuilt(other, key="1")], "text")
    value_case(t, "two storages", value, storages)
    value_case(t, "one storage twice", (rebuilt(one, location="cuda:1"), rebuilt(one, location="cuda:1")),
               {"0": one.data})
    value_case(t, "view", (rebuilt(Tensor("float32", (2,), one.data[4:12]), offset=1, count=6),), {"0": one.data})
    value_case(t, "transposed", (rebuilt(Tensor("float32", (3, 2), one.data), strides=(1, 3)),), {"0": one.data})
    directory = Directory(t.path())
    items = [value_item((rebuilt(numbered("int32", (2,), seed)), seed), {"0": numbered("int32", (2,), seed).data})
             for seed in range(3)]
    for seed, item in enumerate(items):
        directory.value("v%d" % seed, None, item=item)
    directory.tensor("w", numbered("int64", (3,))).write()
    t.merges("keys of storages do not clash", directory.path, dict(
        {"v%d" % seed: dcp_read.load(io.BytesIO(item)) for seed, item in enumerate(items)},
        w=numbered("int64", (3,))))


@case(10)
def objects(t):
    """Classes that nobody knows: spliced in as they came, never called."""
    dtype = Call(Global("numpy", "dtype"), "i2", False, True, state=(3, "<", None, None, None, -1, -1, 0))
    value_case(t, "numpy array", Call(Global("numpy._core.multiarray", "_reconstruct"), Global("numpy", "ndarray"),
                                      (0,), b"b", state=(1, (2, 3), dtype, False, bytes(range(12)))))
    value_case(t, "BytesIO", Call(Global("_io", "BytesIO"), state=(b"abc", 3, None)))
    value_case(t, "enum", Call(Global("mine", "Color"), 2))
    value_case(t, "unknown class", Object(Global("mine.deep", "Config"), {"a": 1, "b": [2], "c": (3,)}))
    value_case(t, "a class itself", [Global("mine", "Config"), Global("torch", "float32")])
    value_case(t, "two of a class", [Object(Global("mine", "A"), {"x": 1}), Object(Global("mine", "A"), {"x": 2})])
    value_case(t, "ordered", Call(Global("collections", "OrderedDict"), [("b", 1), ("a", 2)]))
    value_case(t, "list of shards", [[{"rng": (1, 2)}], [None, {"step": 3}]])
    tensor = numbered("float32", (2,))
    value_case(t, "unknown with tensor", Object(Global("mine", "State"), {"t": rebuilt(tensor), "n": 1}),
               {"0": tensor.data})


@case(10)
def values_of_other_protocols(t):
    """torch.save has an option for the protocol."""
    for protocol in (2, 3, 4, 5):
        value = [1, "two", ("x", "x"), {"k": [None, True]}, b"bytes", 1 << 65]
        item = archive(records_of(pickled(value, protocol), {}))
        directory = Directory(t.path()).value("v", None, item=item).write()
        t.merges("protocol %d" % protocol, directory.path, {"v": value})


# ---- packing ----

@case(11)
def transforms(t):
    """A descriptor that is not known: the item is refused by name, the others can be had."""
    directory, tensor = Directory(t.path()), numbered("float32", (3,))
    directory.tensor("good", tensor).tensor("packed", tensor).write_data()
    directory.items[1].transforms = ["stream.unknown/7"]
    directory.write_index()
    t.survives("ls", "ls", directory.path)
    t.refuses_merge("merge", directory.path, "packed", "stream.unknown/7")
    t.merges("the others", directory.path, {"good": tensor}, "--only", "good")


def zstd(data):
    """One frame, without its size, as torch's stream writes it."""
    return subprocess.run(["zstd", "-q", "-c", "--no-content-size"], input=data, stdout=subprocess.PIPE, check=True).stdout


def packed(directory, frames=1, keys=None, version="1"):
    """The items of these keys as FRAMES frames each."""
    for item in directory.items:
        if keys is None or item.key in keys:
            step = -(-len(item.data) // frames)
            item.data = b"".join(zstd(item.data[at:at + step]) for at in range(0, len(item.data), step))
            item.transforms = ["stream.zstd/" + version]
    return directory


def succeeds(*arguments):
    status, _, err = run(*arguments)
    require(status == 0, "ended with %d: %s" % (status, err.strip()[:300]))


@case(11)
def compressed(t):
    if not shutil.which("zstd"):
        t.skip("no zstd here")
        return
    rows, columns = numbered("float32", (301, 70)), numbered("bfloat16", (64, 1501))
    values = {"n": [1, "two", None], "deep": {"x": 1 << 70}}
    for frames in (1, 5):
        directory = Directory(t.path())
        directory.tensor("m.rows", rows, chunked((301, 70), 4)).tensor("m.columns", columns, chunked((64, 1501), 3, 1))
        directory.tensor("m.plain", rows).tensor("m.scalar", numbered("int64", ())).value("n", values["n"])
        directory.value("deep", values["deep"])
        packed(directory, frames, keys=("m.rows", "m.columns", "m.scalar", "n"), version="1" if frames == 1 else "1.3")
        wanted = {"m": {"rows": rows, "columns": columns, "plain": rows, "scalar": numbered("int64", ())}, **values}
        directory.write()
        t.merges("%d frames" % frames, directory.path, wanted)
        t.check("info", succeeds, "info", directory.path)
        edited, shards = t.path(), t.path()
        t.check("rename", succeeds, "rename", "-e", "s/^rows$/lines/", directory.path, edited)
        names = ("lines", "columns", "plain", "scalar")
        t.merges("%d frames, renamed" % frames, edited, {"m": dict(zip(names, wanted["m"].values())), **values})
        t.check("reshard", succeeds, "reshard", "--ranks", "3", directory.path, shards)
        t.merges("%d frames, resharded" % frames, shards, wanted)


@case(11)
def compressed_wrongly(t):
    """Cut, damaged, not compressed at all, or far more than the tensor needs: refused by name."""
    if not shutil.which("zstd"):
        t.skip("no zstd here")
        return
    tensor = numbered("float32", (5000,))
    item = tensor_item(tensor)
    whole = zstd(item)
    bomb = subprocess.run("head -c 1200M /dev/zero | zstd -q -c -1", shell=True, stdout=subprocess.PIPE, check=True).stdout
    middle = len(whole) // 2
    for what, data, text in (("cut", whole[:middle], "cut"), ("one byte", whole[:1], "cut"),
                             ("flipped", whole[:middle] + bytes([whole[middle] ^ 1]) + whole[middle + 1:], "damaged"),
                             ("plain", item, "damaged"), ("more behind", whole + b"rest", "damaged"),
                             ("bomb", bomb, "more than")):
        directory = Directory(t.path()).tensor("good", tensor).tensor("bad", tensor)
        directory.items[1].data, directory.items[1].transforms = data, ["stream.zstd/1"]
        directory.write()
        t.refuses_merge(what, directory.path, "bad", text)
        t.merges(what + ", the others", directory.path, {"good": tensor}, "--only", "good")


@case(12)
def padding(t):
    tensor = numbered("float32", (5, 3))
    for gap, trailing in ((1, b""), (4096, b""), (0, b"x" * 200), (33, b"\0" * 17)):
        directory = Directory(t.path())
        directory.padding, directory.trailing = gap, trailing
        directory.tensor("w", tensor, chunked((5, 3), 2), files=["f"] * 2).value("n", 5).tensor("v", tensor)
        directory.write()
        t.merges("gap %d, %d bytes inside" % (gap, len(trailing)), directory.path, {"w": tensor, "n": 5, "v": tensor})


@case(12, 25)
def aliases(t):
    """Two keys with one range are one storage in the merged file."""
    tensor = numbered("float32", (500,))
    directory = Directory(t.path()).tensor("a", tensor).tensor("b", tensor, files=["none"])
    directory.write_data()
    directory.items[1].file = directory.items[0].file
    os.unlink(directory.path + "/none")
    directory.write_index()
    t.merges("aliases", directory.path, {"a": tensor, "b": tensor})


@case(12)
def spare_files(t):
    tensor = numbered("int32", (4, 2))
    directory = Directory(t.path()).tensor("w", tensor, chunked((4, 2), 2)).write()
    for name, data in (("__2_0.distcp", b""), ("__7_0.distcp", b"PK\x03\x04 an older save"), ("README", b"x")):
        with open(os.path.join(directory.path, name), "wb") as out:
            out.write(data)
    t.merges("zero-byte and unreferenced files", directory.path, {"w": tensor})
    directory = Directory(t.path())
    directory.tensor("w", tensor, chunked((4, 2), 2), files=["sub/x/__1_0.distcp", "any name"]).write()
    t.merges("other names and folders", directory.path, {"w": tensor})


@case(13)
def safetensors(t):
    """A data file of safetensors: items are found by name, in a file that begins where the index has the item."""
    tensor = numbered("float32", (2, 3))

    def made(path, entry, data=tensor.data, lead=b"", tail=b""):
        directory = Directory(path).tensor("w", tensor).write()
        header = json.dumps(entry).encode()
        with open(directory.path + "/__0_0.distcp", "wb") as out:
            out.write(lead + struct.pack("<Q", len(header)) + header + data + tail)
        return directory.path

    right = {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]}
    t.merges("whole", made(t.path(), {"__metadata__": {"format": "pt"}, "w": right}), {"w": tensor})
    more = {"dtype": "U8", "shape": [3], "data_offsets": [0, 3]}
    moved = dict(right, data_offsets=[3, 27])
    t.merges("not aligned", made(t.path(), {"x": more, "w": moved}, b"abc" + tensor.data), {"w": tensor})
    for label, entry in (("no such name", {"v": right}), ("dtype", {"w": dict(right, dtype="I32")}),
                         ("shape", {"w": dict(right, shape=[3, 2])}), ("rank", {"w": dict(right, shape=[6])})):
        t.refuses_merge(label, made(t.path(), entry), "w", "__0_0.distcp")
    t.refuses_merge("trailing bytes", made(t.path(), {"w": right}, tail=b"x"), "w", "__0_0.distcp")
    t.refuses_merge("cut", made(t.path(), {"w": right}, tensor.data[:23]), "w", "__0_0.distcp")
    path = made(t.path(), {"w": right})
    t.refuses("renamed", "add-module", path, t.path(), names=("safetensors",))
    t.refuses("renamed in place", "add-module", "-i", path, names=("safetensors",))


@case(2)
def items_that_contradict(t):
    """Shape, dtype and size of an item have to be those of the index."""
    tensor = numbered("float32", (4, 3))
    for label, other in (("dtype", numbered("int32", (4, 3))), ("shape", numbered("float32", (3, 4))),
                         ("larger", numbered("float32", (5, 3))), ("rank", numbered("float32", (12,))),
                         ("smaller", numbered("float32", (2, 3)))):
        directory = Directory(t.path()).tensor("w", tensor, make=lambda part, other=other: tensor_item(other)).write()
        t.refuses_merge(label, directory.path, "w")
    directory = Directory(t.path()).tensor("w", tensor, make=lambda part: value_item(7)).write()
    t.refuses_merge("a value where a tensor is due", directory.path, "w")
    directory = Directory(t.path()).tensor(
        "w", tensor, make=lambda part: archive(records_of(pickled(rebuilt(part)), {"0": part.data[:40]}))).write()
    t.refuses_merge("short storage", directory.path, "w")


# SPDX-License-Identifier: Apache-2.0
"""Mobile models (FlatBuffers) made byte by byte: what is read, and what is wrong with broken ones."""

import os
import struct

import files
from files import FOUR_FLOATS


# ---- FlatBuffers: a table is a dict of fields, a vector a list, a text bytes; numbers say their width ----

def number(width, value):
    return ("number", width, value)


def words(*values):
    return ("words", values)


def data(value):
    return ("data", value)


def structs(width, value):
    return ("structs", width, value)


class Builder:
    """Parents in front of children, so that all offsets point forward; vtables in front of tables."""

    def __init__(self):
        self.out, self.later, self.placed = bytearray(b"\0\0\0\0PTMF"), [], {}

    def pad(self, width):
        self.out += bytes(-len(self.out) % width)

    def build(self, root):
        self.later.append((0, root))
        while self.later:
            at, node = self.later.pop(0)
            if id(node) not in self.placed:
                self.placed[id(node)] = self.put(node)
            struct.pack_into("<I", self.out, at, self.placed[id(node)] - at)
        return bytes(self.out)

    def put(self, node):
        self.pad(8)
        if isinstance(node, dict):
            return self.put_table(node)
        if isinstance(node, (bytes, list)):
            at = len(self.out)
            self.out += struct.pack("<I", len(node))
            if isinstance(node, bytes):
                self.out += node + b"\0"
                return at
            for item in node:
                self.later.append((len(self.out), item))
                self.out += bytes(4)
            return at
        if node[0] == "number": # a struct of one number
            at = len(self.out)
            self.out += node[2].to_bytes(node[1], "little")
            return at
        if node[0] == "words":
            at = len(self.out)
            self.out += struct.pack("<I", len(node[1])) + b"".join(v.to_bytes(4, "little") for v in node[1])
            return at
        if node[0] == "structs":
            at = len(self.out)
            self.out += struct.pack("<I", len(node[2]) // node[1]) + node[2]
            return at
        self.pad(16)
        self.out += bytes(12) + struct.pack("<I", len(node[1])) + node[1]
        return len(self.out) - len(node[1]) - 4

    def put_table(self, fields):
        vtable = len(self.out)
        self.out += bytes(4 + 2 * (max(fields, default=-1) + 1))
        self.pad(8)
        table = len(self.out)
        self.out += struct.pack("<i", table - vtable)
        for field, value in sorted(fields.items()):
            width = value[1] if value[0] == "number" else 4
            self.pad(width)
            struct.pack_into("<H", self.out, vtable + 4 + 2 * field, len(self.out) - table)
            if value[0] == "number":
                self.out += value[2].to_bytes(width, "little")
            else:
                self.later.append((len(self.out), value[1]))
                self.out += bytes(4)
        struct.pack_into("<HH", self.out, vtable, table - vtable if table - vtable < 65536 else 4, len(self.out) - table)
        struct.pack_into("<H", self.out, vtable, 4 + 2 * (max(fields, default=-1) + 1))
        return table


def to(node):
    return ("to", node)


# ---- models ----

NONE, INT, TENSOR, STRING, LIST, DICT, OBJECT = 0, 1, 5, 6, 7, 9, 10


def value(kind, node):
    return {0: number(1, kind), 1: to(node)}


def tensor(storage=0, dtype=6, offset=0, sizes=(4,), strides=(1,), **more):
    fields = {0: number(4, storage), 1: number(1, dtype), 2: number(4, offset), 3: to(words(*sizes)), 4: to(words(*strides))}
    fields.update(more.get("fields", {}))
    return value(TENSOR, fields)


def items(*numbers):
    return value(LIST, {0: to(words(*numbers))})


def instance(*attributes, kind=0):
    return value(OBJECT, {0: number(4, kind), 2: to(words(*attributes))})


def class_(name=b"__torch__.Net", names=(b"w", b"n"), kind=1):
    return {0: to(name), 1: number(1, kind), 2: to(list(names))}


def module(values=None, state=2, classes=None, storages=(FOUR_FLOATS,), **more):
    values = [tensor(), value(INT, number(8, 5)), instance(0, 1)] if values is None else values
    fields = {0: number(4, 9), 3: number(4, state), 4: to(values), 6: to([{0: to(data(s))} for s in storages]),
              7: to([class_()] if classes is None else classes), 10: number(4, 1)}
    fields.update(more.get("fields", {}))
    return Builder().build(fields)


def with_tensor(**about):
    return module([tensor(**about), value(INT, number(8, 5)), instance(0, 1)])


MODEL = module()
# (what, file, end of the message)
TABLE = [
    ("a value of its own", module([items(0)], 0), "a value refers to one that comes after it, or to none"),
    ("a circle of two", module([items(1), items(0)], 0), "a value refers to one that comes after it, or to none"),
    ("a root that is not there", module(state=3), "a value refers to one that comes after it, or to none"),
    ("a storage that is not there", with_tensor(storage=1), "a tensor whose storage is not in the file"),
    ("a storage with the highest number", with_tensor(storage=0xFFFFFFFF), "a tensor whose storage is not in the file"),
    ("a dtype of the future", with_tensor(dtype=127), "a tensor whose dtype has no known number"),
    ("a negative size", with_tensor(sizes=[0xFFFFFFFF]), "a size or stride that is negative"),
    ("a negative stride", with_tensor(strides=[0x80000000]), "a size or stride that is negative"),
    ("a negative offset", with_tensor(offset=0xFFFFFFFF), "sizes, strides and offset of a tensor do not fit"),
    ("fewer strides than sizes", with_tensor(strides=[]), "sizes, strides and offset of a tensor do not fit"),
    ("65 dimensions", with_tensor(sizes=[1] * 65), "a tensor of more than 64 dimensions"),
    ("a tensor beyond its storage", with_tensor(sizes=[5]),
     "tensor 'w': reaches 20 bytes into its storage '0' of 16 bytes"),
    ("a huge tensor", with_tensor(sizes=[0x7FFFFFFF] * 3, strides=[0x7FFFFFFF] * 3),
     "tensor 'w': reaches more than 18446744073709551615 bytes into its storage '0' of 16 bytes"),
    ("two dtypes over one storage", module([tensor(), tensor(dtype=3), instance(0, 1)]),
     "two tensors of different dtypes over one storage"),
    ("a class that is not there", module([instance(kind=1)], 0), "an object whose class is not in the file"),
    ("more attributes than the class", module([value(INT, number(8, 5)), instance(0, 0, 0)], 1),
     "an object with other attributes than its class"),
    ("a class without module", module(classes=[class_(b"Net")]), "the name of a class is none"),
    ("a class without name", module(classes=[class_(b"__torch__.")]), "the name of a class is none"),
    ("a class in two lines", module(classes=[class_(b"__torch__.Ne\nt")]), "the name of a class is none"),
    ("an attribute that is no text", module(classes=[class_(names=(b"\xff", b"n"))]),
     "the name of an attribute is not UTF-8"),
    ("a kind of the future", module([value(17, {})], 0), "a value of a kind that is not known"),
    ("a kind without a value", module([{0: number(1, INT)}], 0), "a value of which only the kind is there"),
    ("a dict without values", module([value(DICT, {0: to(words(0))})], 0),
     "a dict of more keys than values, or less"),
    ("only the beginning", b"\x08\0\0\0PTMF", "points past the end of the file"),
    ("a root far away", b"\xff\xff\xff\xffPTMF" + bytes(60), "points past the end of the file"),
    ("zeros", b"\x08\0\0\0PTMF" + bytes(60), "a table without a vtable"),
]


class Mobile(files.BadFileTest):
    def test_every_fault_is_said(self):
        for what, file, message in TABLE:
            with self.subTest(what):
                code, out, err = self.ckpt("ls", self.write(file))
                self.assertEqual((code, out), (2, ""), err)
                self.assertEqual(err.count("\n"), 1, err)
                self.assertTrue(err.endswith(message + "\n"), err)

    def test_what_is_in_a_model(self):
        self.assert_listed(MODEL, "w  float32  [4]  cpu      16", "1 tensor, 4 elements, 16 in 1 storage")
        self.assert_listed(module([tensor(), items(0, 0), instance(1, 0)]), "w.0  float32", "n    float32  [4]")

    def test_the_bytes_are_those_of_their_storage(self):
        path = self.write(with_tensor(sizes=[3], offset=1))
        code, out, err = self.ckpt("convert", path, self.path("out.pt"))
        self.assertEqual((code, err), (0, ""))
        self.assertIn("of 1 module without source all tensors were taken", out)
        with open(self.path("out.pt"), "rb") as stream:
            self.assertIn(FOUR_FLOATS, stream.read())

    def test_every_length_is_refused_but_the_whole(self):
        self.assert_beginnings_refused(MODEL)

    def test_any_four_bytes_may_be_others(self):
        """Read or refused; a crash or endless work would show."""
        messages = self.open_many(MODEL[:at] + struct.pack("<I", other) + MODEL[at + 4:]
                                  for at in range(len(MODEL) - 3) for other in (0xFFFFFFFF, 0x7FFFFFFF, 0x80000000, 1))
        self.assertGreater(sum(message is not None for message in messages), 100)

    def test_a_vector_that_all_values_share(self):
        """20,000 lists that are one and the same table of 20,000 items: 3 GB if each were read."""
        shared = items(*[0] * 20000)
        code, out, err = self.ckpt("ls", self.write(module([value(NONE, b"")] + [shared] * 20000, 1)))
        self.assertEqual((code, out), (2, ""))
        self.assertTrue(err.endswith("has more in its vectors than a file of this size can hold\n"), err)

    def test_deep_lists(self):
        """A list in a list, 50,000 times: no recursion."""
        values = [value(NONE, b"")] + [items(i) for i in range(50000)]
        code, _, err = self.ckpt("ls", self.write(module(values, len(values) - 1)))
        self.assertIn(code, (0, 2), err)

    def test_it_is_not_written(self):
        path = self.write(MODEL)
        for command in (["remap", "cpu=cuda:0", path, self.path("no.pt")], ["remap", "cpu=cuda:0", "-i", path]):
            code, _, err = self.ckpt(*command)
            self.assertEqual(code, 2)
            self.assertIn("is a mobile model, whose code only torch can write", err)
        self.assertFalse(os.path.exists(self.path("no.pt")))


if __name__ == "__main__":
    files.main()

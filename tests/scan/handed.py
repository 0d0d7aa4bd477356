# SPDX-License-Identifier: Apache-2.0
"""No file gets a function, a text or a class into a call of a package and still needs no more than objects: handed.py [COUNT] [FIRST SEED]

A seed makes one call of a class or function of which nothing is known, by any opcode or function that calls, and hands it one thing: inside of up to six containers and objects of every kind, put there
by every opcode that can, before the call or behind it. What is handed is a function, a text, bytes or a class, each by several spellings; or a number, for which the file has to need objects in most cases,
or nothing would have been tried.
"""

import os
import random
import struct
import subprocess
import sys

import scanned
from assemble import blob, call, files, proto, reduce_, value

NAME = files.glob
VERDICTS = ("plain", "needs-objects", "unreadable", "inconsistent", "dangerous")
MOST_INSIDE, LEAST_TRIED = 6, 0.3
CLASS = NAME("a.c", "Class")


def functions(rng):
    code = NAME("six", "exec_")
    return rng.choice([code, NAME("a", "_run"), NAME("a.b", "make"), NAME("numpy", "fromfile"), NAME("operator", "add"), NAME("torch.hub", "load"), call(NAME("builtins", "getattr"), CLASS, "make"), call(NAME("functools", "partial"), code),
                       NAME("functools", "partial") + value(()) + b"\x81(" + code + b")}NtbN0", NAME("a.b", "Class.make"), reduce_("operator", "or_", 1, 1) + b"0" + code])


def names(rng):
    """What a class could open, import or run."""
    return rng.choice([value("/tmp/x"), value("os:system"), value("a b"), blob(b"x"), value("x" * 65), reduce_("builtins", "bytes", [105, 100]), reduce_("builtins", "bytearray", [105]), reduce_("array", "array", "b", [105]), reduce_("_codecs", "encode", "x", "latin1"),
                       NAME("_io", "BytesIO") + b")R(" + blob(b"x") + b"K\x00Ntb", reduce_("pathlib", "PosixPath", "x"), NAME("a.b", "Other"), CLASS, reduce_("builtins", "str", "a/b"), call(NAME("builtins", "getattr"), CLASS, "Inner"), b"U\x03a/b",
                       reduce_("torch.torch_version", "TorchVersion", "2.0"), reduce_("datetime", "timezone", reduce_("datetime", "timedelta", 1), "a/b"), NAME("builtins", "ValueError") + value(("a/b",)) + b"R"])


def numbers(rng):
    return rng.choice([value(7), value(None), value(True), b"G" + struct.pack(">d", 2.5), reduce_("builtins", "complex", 1, 2), reduce_("builtins", "slice", 1, 2, 3), NAME("torch", "float32"), reduce_("datetime", "timedelta", 1), reduce_("decimal", "Decimal", "1.5"),
                       CLASS + b")\x81"])


class Maker:
    """Opcodes that leave a value on the stack which holds ITEM; some of them put it there later."""

    def __init__(self, rng, texts):
        self.rng, self.texts, self.memo, self.later = rng, texts, 0, b""

    def keep(self):
        self.memo += 1
        return b"r" + struct.pack("<I", self.memo), b"j" + struct.pack("<I", self.memo)

    def filled(self, empty, item, fill):
        """EMPTY and, now or behind the call, what FILL adds."""
        if self.rng.random() < 0.7:
            return empty + fill(item)
        put, get = self.keep()
        self.later = get + fill(item) + b"0" + self.later  # what is in ITEM gets its own behind that
        return empty + put

    def wrap(self, item):
        key, one = value("k%d" % self.rng.randrange(9) if self.texts else self.rng.randrange(9)), value(1)
        fills = {
            "append": lambda x: x + b"a", "appends": lambda x: b"(" + one + x + b"e", "set": lambda x: one + x + b"s", "sets": lambda x: b"(" + one + x + key + one + b"u", "key": lambda x: x + one + b"s", "add": lambda x: b"(" + x + b"\x90",
            "state": lambda x: b"}" + name + x + b"sb", "slots": lambda x: b"N}" + name + x + b"s\x86b", "bare": lambda x: x + b"b",
        }
        name = value("k") if self.texts else key
        items, pairs, states = ("append", "appends"), ("set", "sets", "key"), ("state", "slots", "bare")
        stranger = self.rng.choice([CLASS + b")\x81", CLASS + b")R", NAME("copyreg", "_reconstructor") + b"(" + CLASS + NAME("builtins", "object") + b"NtR", NAME("copyreg", "__newobj__") + CLASS + b"\x85R"])
        made = [
            lambda: b"(" + one + item + b"t", lambda: item + b"\x85", lambda: one + item + one + b"\x87", lambda: b"(" + item + b"l", lambda: b"(" + one + item + b"d", lambda: b"(" + item + b"\x91",
            *[lambda kind=kind: self.filled(b"]", item, fills[kind]) for kind in items], *[lambda kind=kind: self.filled(b"}", item, fills[kind]) for kind in pairs], lambda: self.filled(b"\x8f", item, fills["add"]),
            *[lambda cls=cls, kind=kind: self.filled(cls, item, fills[kind]) for kind in items for cls in (NAME("collections", "deque") + b")R", reduce_("builtins", "list"), stranger)],
            *[lambda cls=cls, kind=kind: self.filled(cls, item, fills[kind]) for kind in pairs for cls in (NAME("collections", "OrderedDict") + b")R", NAME("collections", "defaultdict") + b"N\x85R", reduce_("builtins", "dict"), reduce_("collections", "Counter"), stranger)],
            *[lambda cls=cls, kind=kind: self.filled(cls, item, fills[kind]) for kind in states for cls in (stranger, stranger, NAME("types", "SimpleNamespace") + b")R", NAME("argparse", "Namespace") + b")\x81", NAME("collections", "UserDict") + b")\x81", NAME("builtins", "ValueError") + b")R")],
            lambda: self.filled(stranger, item, fills["add"]),
            *[lambda name=name: NAME("builtins", name) + b"](" + item + b"e\x85R" for name in ("list", "tuple", "set", "frozenset", "iter")], lambda: NAME("builtins", "dict") + b"}" + key + item + b"s\x85R", lambda: NAME("builtins", "dict") + b"](" + key + item + b"\x86e\x85R",
            lambda: NAME("collections", "OrderedDict") + b"](" + key + item + b"\x86e\x85R", lambda: NAME("collections", "deque") + b"](" + item + b"e\x85R", lambda: NAME("collections", "Counter") + b"}" + key + item + b"s\x85R",
            lambda: NAME("builtins", "ValueError") + item + b"\x85R", lambda: NAME("builtins", "KeyError") + b"(" + one + item + b"tR", lambda: CLASS + item + b"\x85\x81", lambda: CLASS + item + b"\x85}\x92", lambda: CLASS + b")}" + key + item + b"s\x92",
            lambda: NAME("copyreg", "__newobj__") + CLASS + item + b"\x86R", lambda: NAME("copyreg", "__newobj_ex__") + CLASS + item + b"\x85}\x87R", lambda: NAME("types", "MappingProxyType") + b"}" + key + item + b"s\x85R", lambda: NAME("collections", "ChainMap") + b"}" + key + item + b"s\x85R",
            lambda: NAME("numpy.core.multiarray", "_reconstruct") + b"(" + NAME("numpy", "ndarray") + value((0,)) + blob(b"b") + b"tR(K\x01" + value((1,)) + reduce_("numpy", "dtype", "O8", False, True) + value((3, "|", None, None, None, -1, -1, 63)) + b"b\x89](" + item + b"etb",
        ]
        return self.rng.choice(made)()

    def call(self, name, item):
        """The call of NAME, which gets ITEM; and what is done behind it."""
        callee, key = NAME("a.b", name), value("k")
        by_call = [lambda: callee + item + b"\x85R", lambda: callee + value(1) + item + b"\x86R", lambda: b"(" + callee + item + b"o", lambda: b"(" + item + b"ia.b\n" + name.encode() + b"\n",
                   lambda: NAME("torch._tensor", "_rebuild_from_type_v2") + b"(" + callee + NAME("torch", "Tensor") + item + b"\x85}tR", lambda: call(NAME("builtins", "getattr"), NAME("a.b", "Outer"), name) + item + b"\x85R"]
        by_new = [lambda: callee + item + b"\x85\x81", lambda: callee + item + b"\x85}\x92", lambda: callee + b")}" + key + item + b"s\x92", lambda: NAME("copyreg", "__newobj__") + callee + item + b"\x86R",
                  lambda: NAME("copyreg", "__newobj_ex__") + callee + item + b"\x85}\x87R", lambda: NAME("copyreg", "__newobj_ex__") + callee + b")}" + key + item + b"s\x87R", lambda: NAME("copyreg", "_reconstructor") + callee + NAME("builtins", "list") + item + b"\x87R"]
        new = self.rng.random() < 0.4 and name[0] != "_"
        made = self.rng.choice(by_new if new else by_call)()
        return made + self.later + self.rng.choice([b"", b"}" + value("x") + value(1) + b"sb", value(1) + b"a"] if name != "_rebuild" else [b""]), new


def filled(rng):
    """An object that has a function or class, by its keys or from the start, and gets an item or a state: append() or __setstate__() may be what it has."""
    maker, key = Maker(rng, True), value(rng.choice(("append", "__setstate__", "extend", "__dict__", "k")))
    item = functions(rng) if rng.random() < 0.5 else rng.choice([CLASS, NAME("a.b", "Other"), call(NAME("builtins", "getattr"), CLASS, "Inner")])
    for _ in range(rng.randrange(MOST_INSIDE)):
        item = maker.wrap(item)
    stranger = [CLASS + b")\x81", CLASS + b")R", NAME("a", "meta.Class") + b")\x81", NAME("copyreg", "__newobj__") + CLASS + b"\x85R", NAME("copyreg", "_reconstructor") + b"(" + CLASS + NAME("builtins", "object") + b"NtR"]
    by_key = [lambda: rng.choice(stranger) + key + item + b"s", lambda: rng.choice(stranger) + b"(" + value("a") + value(1) + key + item + b"u", lambda: rng.choice(stranger) + value(1) + b"a" + key + item + b"s"]
    by_new = [lambda: CLASS + value("X") + b")}" + key + item + b"s\x87\x81", lambda: NAME("copyreg", "__newobj__") + b"(" + CLASS + value("X") + b")}" + key + item + b"stR", lambda: CLASS + b")}" + key + item + b"s\x92",
              lambda: NAME("copyreg", "_reconstructor") + b"(" + CLASS + NAME("builtins", "dict") + b"}" + key + item + b"stR"]
    fill = rng.choice([value("x") + b"a", b"(" + value("x") + b"e", b"(" + value("x") + value("y") + b"e", value("x") + b"b", b"}" + value("x") + value(1) + b"sb", b"N}" + value("x") + value(1) + b"s\x86b"])
    body = rng.choice(rng.choice((by_key, by_new)))()
    return body + maker.later + fill if rng.random() < 0.5 else body + fill + maker.later


def keyed(rng):
    """An object that has a function or class by a key, and gets another key: __setitem__() may call what it has."""
    item = functions(rng) if rng.random() < 0.5 else rng.choice([CLASS, NAME("a.b", "Other"), call(NAME("builtins", "getattr"), CLASS, "Inner")])
    made = rng.choice([CLASS + b")\x81", CLASS + b")R", NAME("torch.nn.modules.container", "ParameterDict") + b")R", NAME("a", "meta.Class") + b")\x81", NAME("copyreg", "__newobj__") + CLASS + b"\x85R",
                       NAME("copyreg", "_reconstructor") + b"(" + CLASS + NAME("builtins", "object") + b"NtR"])
    first, other = value(rng.choice(("_key_to_attr", "append", "k"))), value(rng.choice(("text", "os:system")))
    return made + rng.choice([first + item + b"s" + other + value(1) + b"s", b"(" + first + item + other + value(1) + b"u", b"(" + first + item + b"u(" + other + value("x") + b"u", first + item + b"s(" + other + value(1) + b"u",
                              b"(" + value("a") + value(1) + first + item + b"u" + other + value(None) + b"s"])


def changed(rng):
    """What a class has as an attribute, and something that is put into it."""
    of = call(NAME("builtins", "getattr"), NAME("a.b", "Class"), "inner")
    return of + rng.choice([value(1) + b"a", b"(" + value(1) + b"e", value("k") + value(1) + b"s", b"(" + value("k") + value(1) + b"u", b"}b", b"N}" + value("k") + value(1) + b"s\x86b"])


def make(seed):
    """(file, what it hands over, the verdicts that are wrong)"""
    rng = random.Random(seed)
    kind = rng.choice(("function", "name", "number", "function", "name", "number", "filled", "keyed", "changed"))
    if kind in ("filled", "keyed", "changed"):
        return proto(4, {"filled": filled, "keyed": keyed, "changed": changed}[kind](rng)), kind, VERDICTS[:2]
    maker = Maker(rng, kind != "number")
    item = {"function": functions, "name": names, "number": numbers}[kind](rng)
    for _ in range(rng.randrange(MOST_INSIDE + 1)):
        item = maker.wrap(item)
    body, new = maker.call(rng.choice(("Class", "Class", "_Class", "_rebuild")), item)
    wrong = {"function": VERDICTS[:2], "name": VERDICTS[:1] if new else VERDICTS[:2], "number": VERDICTS[:1]}[kind]
    return proto(4, body), kind, wrong


def verdicts(samples, work):
    stream = b"".join(struct.pack("<IB", len(data), 1) + data for data in samples)
    done = subprocess.run([os.environ["CKPT_SCAN_MANY"], work], input=stream, stdout=subprocess.PIPE, check=True)
    return [VERDICTS[verdict] for verdict in done.stdout]


def main():
    total = int(sys.argv[1]) if len(sys.argv) > 1 else 8000
    first = int(sys.argv[2]) if len(sys.argv) > 2 else 1
    count, fine, there = scanned.Count(), 0, 0
    samples = [make(seed) for seed in range(first, first + total)]
    with scanned.Folder("handed") as work:
        found = verdicts([data for data, _, _ in samples], work)
    for seed, ((data, kind, wrong), verdict) in enumerate(zip(samples, found), first):
        count.expect(verdict not in wrong, "seed %d hands over a %s and is %s: %s" % (seed, kind, verdict, data.hex()))
        there += kind == "number"
        fine += kind == "number" and verdict == "needs-objects"
    count.expect(fine >= LEAST_TRIED * there, "of %d files that hand over a number %d need objects: little was tried" % (there, fine))
    print("%d files from seed %d; of %d that hand over a number %d need objects" % (total, first, there, fine))
    count.end()


if __name__ == "__main__":
    main()

# SPDX-License-Identifier: Apache-2.0
"""A file that needs objects calls no function of a package, whatever opcodes it has, in the unpicklers of CPython: called.py [COUNT] [FIRST SEED]

The programs are those of handed.py, and others that make objects, fill them and hand them to each other in any order. What `ckpt scan` says needs no more than objects is unpickled, with modules in the place of all packages that have any name: a class, which keeps what it gets and calls
nothing, where the name begins with a capital; else a function, which tells that it is called. Since nobody else calls anything, who calls it is the file. Only names that say that they make objects again
may be called, with numbers.
"""

import builtins
import collections
import datetime
import functools
import importlib
import io
import pickle
import random
import struct
import sys
import types

import handed
import scanned
from assemble import call, files, proto, value

LIBRARY = ("array", "argparse", "collections", "copyreg", "datetime", "decimal", "functools", "operator", "pathlib", "types", "uuid")
DATA = ("numpy.core.multiarray._reconstruct", "numpy.ndarray", "numpy.dtype", "torch.float32", "torch.Tensor", "torch.torch_version.TorchVersion")  # of the table: they keep what they get
LEAST_TRIED = 0.1
told = []


class Kind(type):
    """Of classes that have whatever attribute a name asks for."""

    def __getattr__(cls, name):
        if name.startswith("__") or name == "items":  # what the unpickler in Python asks of a state
            raise AttributeError(name)
        return made(name)


class Object(metaclass=Kind):
    def __new__(cls, *given, **named):
        tell_functions("__new__ of %s" % cls.__name__, given, named)
        return (datetime.tzinfo if issubclass(cls, datetime.tzinfo) else object).__new__(cls)

    def __init__(self, *given, **named):
        tell_functions("__init__ of %s" % type(self).__name__, given, named)

    def append(self, item):
        self.__dict__.setdefault("kept", []).append(item)

    def __setitem__(self, key, item):
        if isinstance(key, str):  # some classes do that
            setattr(self, key, item)

    add = append

    def __call__(self, *given, **named):  # as modules call their hooks
        tell_functions("%s, which is called," % type(self).__name__, vars(self))
        return self


class Optimizer(Object):
    """As torch's are loaded."""

    def __setstate__(self, state):
        vars(self).update(state)
        for group in state["param_groups"]:
            group.setdefault("nesterov", False)


class Dict(Object):
    """As packaging's Version and torch's sparsifiers are loaded."""

    def __setstate__(self, state):
        for ask in (lambda: state.get("_version"), lambda: state.pop("_container")):
            try:
                ask()
            except (AttributeError, KeyError, TypeError):
                pass


class Tensor(Object):
    def as_subclass(self, cls):
        return cls.__new__(cls)


class Zone(Object, datetime.tzinfo):
    """Dates ask it by the names of methods, which their own class has here only to say nothing."""

    def utcoffset(self, date):
        return None


class Member(Object):
    """An enumeration gives the same object each time."""

    members = {}

    def __new__(cls, *given, **named):
        tell_functions("__new__ of %s" % cls.__name__, given, named)
        return Member.members.setdefault((cls.__name__, repr(given)), object.__new__(cls)) if given else object.__new__(cls)


class Data:
    """What rows of the table make."""

    def __init__(self, *given):
        self.given = given

    def __setstate__(self, state):
        self.state = state


def tell_functions(what, *values):
    """Handing a function over is as bad as calling it: WHAT may do so. Containers of Python's library are looked into."""
    waiting, seen = list(values), set()
    while waiting:
        value = waiting.pop()
        if id(value) in seen:
            continue
        seen.add(id(value))
        if isinstance(value, (types.FunctionType, types.BuiltinFunctionType, functools.partial)):
            told.append("%s gets the function %r" % (what, value))
        elif isinstance(value, dict):
            waiting += [*value.keys(), *value.values()]
        elif isinstance(value, (tuple, list, set, frozenset, collections.deque, collections.UserList)):
            waiting += list(value)
        if isinstance(value, (Object, Data, BaseException, types.SimpleNamespace)):
            waiting += [*vars(value).values(), *getattr(value, "args", ())]


BASES = {"Zone": Zone, "Color": Member, "SGD": Optimizer, "Version": Dict}


def from_type(function, cls, given, state):
    """As torch does it."""
    out = function(*given)
    if type(out) is not cls:
        out = out.as_subclass(cls)
    if getattr(type(out), "__setstate__", None):
        out.__setstate__(state)
    elif isinstance(state, dict):
        for key, item in state.items():
            setattr(out, key, item)
    return out


@functools.lru_cache(None)
def made(name):
    """What a package has under NAME."""
    last = name.rsplit(".", 1)[-1]
    if last.lstrip("_")[:1].isupper():
        return Kind(last, (BASES.get(last, Object),), {})

    def function(*given, **named):
        tell_functions(last, given, named)
        if "rebuild" not in last:
            told.append("%s is called" % name)
        return Object()

    function.__name__ = last
    return function


def named(module, name):
    if module in ("builtins", "__builtin__"):
        return getattr(builtins, name)
    if module in LIBRARY:
        return functools.reduce(getattr, name.split("."), importlib.import_module(module))
    if (module, name) == ("torch._tensor", "_rebuild_from_type_v2"):
        return from_type
    if (module, name) == ("_codecs", "encode"):
        return lambda text, encoding: text.encode(encoding)
    if (module, name) == ("torch._utils", "_rebuild_meta_tensor_no_storage"):
        return lambda *given: Tensor()
    full = "%s.%s" % (module, name)
    return Data if full in DATA else made(full)


class Fast(pickle.Unpickler):
    find_class = staticmethod(named)


class Slow(pickle._Unpickler):
    find_class = staticmethod(named)


NAME = files.glob
KEYS = ("append", "extend", "add", "__setstate__", "__setitem__", "__new__", "__init__", "__dict__", "__class__", "__reduce_ex__", "__call__", "__getattr__", "k", "data", "utcoffset", "as_subclass")


class Mix:
    """A program of a few steps: each makes a value, or fills one that is there, and remembers it."""

    def __init__(self, rng):
        self.rng, self.memo = rng, 0

    def old(self):
        return b"j" + struct.pack("<I", self.rng.randrange(1, self.memo + 1)) if self.memo else NAME("a.b", "Class") + b")\x81"

    def cls(self):
        return self.rng.choice([NAME("a.b", "Class"), NAME("a.c", "Other"), call(NAME("builtins", "getattr"), NAME("a.b", "Class"), "Inner"), NAME("a.b", "Class.Inner"), NAME("a.b", "small"), NAME("a", "MyError")])

    def item(self):
        function = self.rng.choice([NAME("a.b", "func"), NAME("torch.nn.functional", "relu"), call(NAME("builtins", "getattr"), NAME("a.b", "Class"), "make"), NAME("functools", "partial") + NAME("a.b", "func") + b"\x85R"])
        one = self.rng.choice([self.old, self.old, lambda: function, self.cls, lambda: value("word"), lambda: value("a/b"), lambda: value(7), lambda: value(None)])()
        return self.rng.choice([one, one, one, b"]" + one + b"a", one + b"\x85", b"}" + value(self.rng.choice(KEYS)) + one + b"s", NAME("collections", "OrderedDict") + b")R" + value("k") + one + b"s"])

    def make(self):
        given = b"(" + b"".join(self.item() for _ in range(self.rng.choice((0, 0, 1, 1, 2)))) + b"t"
        named = b"}" if self.rng.random() < 0.7 else b"}" + value(self.rng.choice(KEYS)) + self.item() + b"s"
        cls = self.cls() if self.rng.random() < 0.9 else self.item()
        return self.rng.choice([
            cls + given + b"\x81", cls + given + b"\x81", cls + given + named + b"\x92", cls + given + b"R", NAME("copyreg", "__newobj__") + b"(" + cls + given[1:] + b"R", NAME("copyreg", "__newobj_ex__") + b"(" + cls + given + named + b"tR",
            NAME("copyreg", "_reconstructor") + b"(" + cls + self.rng.choice([NAME("builtins", "object") + b"N", self.cls() + self.item(), self.item() + self.item()]) + b"tR", NAME("a.b", "_rebuild") + given + b"R",
            NAME("torch._tensor", "_rebuild_from_type_v2") + b"(" + cls + self.cls() + given + b"}tR", NAME("argparse", "Namespace") + b")\x81", NAME("types", "SimpleNamespace") + b")R", NAME("collections", "UserDict") + b")\x81",
            NAME("collections", "ChainMap") + given + b"R", NAME("collections", "defaultdict") + cls + b"\x85R", NAME("functools", "partial") + cls + b"\x85R", NAME("builtins", "ValueError") + given + b"R",
            NAME("collections", "deque") + b")R", b"}", b"]", b"\x8f", NAME("a.b", "Color") + value(("RED",)) + b"R", NAME("a.b", "Color") + value(("RED",)) + b"R", NAME("a.b", "Zone") + b")\x81",
            NAME("datetime", "time") + value((1, 0, 0, 0))[:-1] + self.old() + b"tR", NAME("torch._tensor", "_rebuild_from_type_v2") + b"(" + NAME("builtins", "getattr") + self.cls() + b"(" + self.old() + value(self.rng.choice(KEYS)) + b"t" + self.item() + b"tR",
        ])

    def fill(self):
        key, item = value(self.rng.choice(KEYS)), self.item()
        return self.old() + self.rng.choice([
            item + b"b", b"N}" + value("__dict__") + b"}" + key + item + b"ss\x86b", b"}" + key + item + b"sb", b"}" + key + item + b"sb", b"N}" + key + item + b"s\x86b", item + b"a", b"(" + item + self.item() + b"e", key + item + b"s", b"(" + key + item + value(self.rng.choice(KEYS)) + self.item() + b"u",
            self.item() + item + b"s", b"(" + item + b"\x90", self.old() + value(1) + b"s",
        ])

    def program(self):
        body = b""
        for _ in range(self.rng.randrange(1, 7)):
            body += self.make() if not self.memo or self.rng.random() < 0.5 else self.fill()
            self.memo += 1
            body += b"r" + struct.pack("<I", self.memo) + b"0"
        return proto(4, body + self.old())


def asked(rng):
    """An object that has something under the name of a method, and is asked by that name: by the unpickler, a date, or torch."""
    function = rng.choice([NAME("a.b", "func"), NAME("a.b", "func"), NAME("functools", "partial") + NAME("a.b", "func") + b"\x85R", call(NAME("builtins", "getattr"), NAME("a.b", "Class"), "make")])

    def filled(obj, key):
        pair = b"}" + value(key) + function + b"s"
        return obj + rng.choice([pair + b"b", b"N" + pair + b"\x86b", b"N}" + value("__dict__") + pair + b"s\x86b", b"}" + value("__dict__") + pair + b"sb", value(key) + function + b"s"])

    member = rng.choice([NAME("a.b", "Color") + value((rng.choice(("RED", 1)),)) + b"R", NAME("operator", "or_") + value((1, 2)) + b"R"])
    kind = rng.randrange(5)
    if kind > 2:  # what a load hands on is a function, or an object that has one, under the name of a method
        hooked = rng.choice([function, function, NAME("a.b", "Class") + b")\x81}" + value("hooks") + b"}K\x00" + function + b"ssb", NAME("a.b", "Class") + b")\x81}" + value("n") + value(1) + b"sb", NAME("a.b", "Class"), NAME("a.partial", "partial") + NAME("a.b", "Class") + b"\x85\x81"])
        pair = b"}" + value(rng.choice(("as_subclass", "to")) if kind == 3 else rng.choice(("setdefault", "get", "pop", "k"))) + hooked + b"s"
        if kind == 3:
            v2, sizes = NAME("torch._tensor", "_rebuild_from_type_v2"), value((NAME("torch", "float32"), (2,), (1,), False))
            return v2 + b"(" + v2 + NAME("torch.nn.parameter", "Parameter") + b"(" + NAME("torch._utils", "_rebuild_meta_tensor_no_storage") + rng.choice([NAME("torch", "Tensor"), NAME("a.b", "Own")]) + sizes + rng.choice([pair, b"N" + pair + b"\x86"]) + b"t}tR"
        group = rng.choice([NAME("collections", "OrderedDict") + b")R", NAME("collections", "Counter") + b")R", NAME("a.b", "Class") + b")\x81"]) + pair + b"b"
        return rng.choice([NAME("a.b", "SGD") + b")\x81}" + value("param_groups") + b"]" + group + b"asb", NAME("a.b", "Version") + b")\x81" + group + b"b", NAME("torch.optim.sgd", "SGD") + b")\x81}" + value("param_groups") + b"]" + group + b"a" + value("state") + b"}" + value("defaults") + b"}ub"])
    if kind == 0:
        first = filled(member, rng.choice(("append", "extend", "add", "__setstate__", "k")))
        return first + b"0" + member + rng.choice([value("x") + b"a", b"(" + value("x") + value("y") + b"e", value("x") + b"b", b"}" + value("k") + value("x") + b"sb", b"(" + value("x") + b"\x90"])
    if kind == 1:
        zone = filled(NAME("a.b", "Zone") + b")\x81", rng.choice(("utcoffset", "utcoffset", "dst", "k")))
        date = rng.choice([NAME("datetime", "time") + value((1, 0, 0, 0))[:-1] + zone + b"tR", NAME("datetime", "datetime") + value((2020, 1, 1, 1, 1, 1, 1))[:-1] + zone + b"tR"])
        return rng.choice([b"}" + date + value(1) + b"s", b"\x8f(" + date + b"\x90", b"(" + date + b"\x91", b"}(" + date + value(1) + b"u"])
    inner = filled(rng.choice([NAME("a.b", "Class") + b")\x81", NAME("a.b", "Class") + b")R"]), rng.choice(("as_subclass", "__setstate__", "__setattr__")))
    holder = NAME("a.b", "Class") + b")\x81" + rng.choice([b"}" + value("x") + inner + b"sb", b"N}" + value("x") + inner + b"s\x86b", value("x") + inner + b"s"])
    return NAME("torch._tensor", "_rebuild_from_type_v2") + b"(" + NAME("builtins", "getattr") + rng.choice([NAME("a.b", "Class"), NAME("a.c", "Other")]) + b"(" + holder + value("x") + b"t" + rng.choice([value("x"), b"}" + value("k") + value(1) + b"s", b"N"]) + b"tR"


def make(seed):
    rng = random.Random(seed)
    if rng.random() < 0.15:
        return proto(4, asked(rng))
    return handed.make(seed)[0] if rng.random() < 0.3 else Mix(rng).program()


def main():
    total = int(sys.argv[1]) if len(sys.argv) > 1 else 8000
    first = int(sys.argv[2]) if len(sys.argv) > 2 else 1
    count, tried, bad = scanned.Count(), 0, 0
    samples = [make(seed) for seed in range(first, first + total)]
    with scanned.Folder("called") as work:
        found = handed.verdicts(samples, work)
    for seed, (data, verdict) in enumerate(zip(samples, found), first):
        for unpickler in (Fast, Slow):
            told.clear()
            Member.members.clear()
            try:
                unpickler(io.BytesIO(data)).load()
            except Exception:  # that it does not load is no matter
                pass
            if verdict in ("plain", "needs-objects"):
                count.expect(not told, "seed %d, by the %s unpickler: %s: %s" % (seed, unpickler.__name__, told[:2], data.hex()))
            bad += bool(told)
        tried += verdict == "needs-objects"
    count.expect(bad > LEAST_TRIED * total, "of %d files hardly one calls a function" % total)  # or nobody would hear it
    count.expect(tried >= LEAST_TRIED * total, "%d of %d files need objects: little was tried" % (tried, total))
    print("%d files from seed %d, unpickled twice, of which %d need objects; %d times a function was called, or handed over" % (total, first, tried, bad))
    count.end()


if __name__ == "__main__":
    main()

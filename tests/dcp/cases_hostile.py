# SPDX-License-Identifier: Apache-2.0
"""Indexes and items that are meant to hurt, or are damaged: refused in one line, nothing executed, nothing written."""

import os
import random
import shutil
import struct
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "bad"))

import files  # noqa: E402
from dcp_build import (Call, Dialect, Directory, Global, Object, Tensor, archive, chunked, numbered, pickled, rebuilt, records_of,
                       value_item)  # noqa: E402
from harness import MESSAGE, case, require, rounds, run  # noqa: E402

T = numbered("float32", (4, 3))


def small(path):
    return Directory(path).tensor("m.w", T, chunked((4, 3), 2)).value("n", 1)


def write_raw(path, data, name=".metadata"):
    os.makedirs(path, exist_ok=True)
    with open(os.path.join(path, name), "wb") as out:
        out.write(data)


# ---- execution ----

def calls(canary):
    """{label: value}: whoever unpickles one of them makes the file CANARY."""
    command = "touch '%s'" % canary
    return {"os.system": Call(Global("os", "system"), command),
            "posix.system": Call(Global("posix", "system"), command),
            "eval": Call(Global("builtins", "eval"), "open(%r, 'w').close()" % canary),
            "getattr": Call(Call(Global("builtins", "getattr"), Global("os", "x"), "system"), command),
            "open": Call(Global("builtins", "open"), canary, "w"),
            "subprocess": Call(Global("subprocess", "call"), ["touch", canary]),
            "state": Call(Global("mine", "make"), state=Call(Global("os", "system"), command))}


def untouched(t, label, canary, *arguments):
    def check():
        status, _, err = run(*arguments)
        require(status in (0, 1, 2), "ended with %d" % status)
        require(status != 2 or MESSAGE.match(err), "message: %r" % err[:300])
        require(not os.path.exists(canary), "it was executed")
    t.check(label, check)


@case(6)
def execution_in_the_index(t):
    canary = t.path("canary")
    for label, value in calls(canary).items():
        places = {"root": pickled(value, 2)}
        directory = small(t.path())
        directory.write_data()
        directory.foreign = {"extra": value}
        places["foreign attribute"] = directory.index()
        directory.foreign = {}
        places["planner"] = directory.index(planner=dict(directory.planner, x=value))
        places["path"] = directory.index(Dialect(path=value))
        dialect = Dialect()
        dialect.properties = lambda dtype, value=value: value
        places["properties"] = directory.index(dialect)
        for place, data in places.items():
            write_raw(directory.path, data)
            for command in ("ls", "info", "dis"):
                untouched(t, "%s, %s, %s" % (label, place, command), canary, command, directory.path)
            untouched(t, "%s, %s, merge" % (label, place), canary, "merge", directory.path, t.path() + ".pt")
            untouched(t, "%s, %s, reindex" % (label, place), canary, "reindex", directory.path, t.path())
    t.refuses_merge("a call is no index", write_and_name(t, pickled(calls(canary)["os.system"])))


def write_and_name(t, data):
    path = t.path()
    write_raw(path, data)
    return path


@case(6)
def execution_in_items(t):
    canary = t.path("canary")
    for label, value in calls(canary).items():
        directory = Directory(t.path()).value("v", None, item=value_item(value)).tensor("w", T).write()
        untouched(t, label + " as a value", canary, "merge", directory.path, t.path() + ".pt")
        untouched(t, label + " as a value, split again", canary, "reshard", directory.path, t.path(), "--ranks", "2")
        item = archive(records_of(pickled(value), {"0": T.data}))
        directory = Directory(t.path()).tensor("w", T, make=lambda part, item=item: item).write()
        t.refuses_merge(label + " as a tensor", directory.path)
    require(not os.path.exists(canary), "it was executed")


# ---- paths ----

@case(6)
def paths_outside(t):
    """A sound item lies at the other end: whoever follows the path would find it."""
    inner = t.path("a/b/c")
    directory = small(inner)
    directory.write()
    item = "__1_0.distcp"
    outside = {"../x.distcp": "a/b/x.distcp", "a/../../x.distcp": "a/b/x.distcp", "../../../x.distcp": "x.distcp",
               "./../x.distcp": "a/b/x.distcp", "sub/..": None, "..": None, "": None, ".": None,
               "sub/../../x.distcp": "a/b/x.distcp", "/etc/passwd": None, "//etc/passwd": None,
               t.path("x.distcp"): "x.distcp", "C:\\x.distcp": None, "C:/x.distcp": None, "..\\x.distcp": None,
               "__1_0.distcp\0": None, "\0": None, "a\0b": None, "x" * 5000: None}
    for label, target in outside.items():
        if target:
            shutil.copy(os.path.join(inner, item), t.path(target))
        os.makedirs(os.path.join(inner, "sub"), exist_ok=True)
        os.makedirs(os.path.join(inner, "a"), exist_ok=True)
        directory.items[1].file = label
        directory.write_index()
        name = repr(label)[:40]
        t.refuses_merge(name, inner, "m.w" if not label else os.path.basename(inner))
        t.refuses(name + ", reshard", "reshard", inner, t.path(), "--ranks", "2")
        for options in ([], ["--hard-link"]):
            t.refuses("%s, strip %s" % (name, options), "strip-prefix", "m.", *options, inner, t.path(),
                      statuses=(1, 2))
        t.survives(name + ", ls", "ls", inner)


@case(6)
def paths_to_odd_files(t):
    """Folders, pipes and devices in place of data files."""
    directory = small(t.path()).write()
    file = directory.path + "/__1_0.distcp"
    os.unlink(file)
    os.mkdir(file)
    t.refuses_merge("a folder", directory.path, "__1_0.distcp")
    os.rmdir(file)
    os.mkfifo(file)
    t.refuses_merge("a pipe", directory.path, "__1_0.distcp")
    os.unlink(file)
    os.symlink("__1_0.distcp", file)
    t.refuses_merge("a link to itself", directory.path, "__1_0.distcp")
    path = t.path()
    os.makedirs(path + "/.metadata")
    t.refuses_merge("a folder as the index", path)
    os.rmdir(path + "/.metadata")
    os.mkfifo(path + "/.metadata")
    t.refuses_merge("a pipe as the index", path)


# ---- numbers ----

@case(6)
def ranges(t):
    for label, offset, length in (
            ("negative offset", -1, None), ("very negative offset", -(1 << 63), None), ("huge offset", 1 << 62, None),
            ("offset beyond 64 bits", 1 << 64, None), ("offset and length overflow", (1 << 63) - 100, 1 << 62),
            ("huge length", None, 1 << 62), ("length beyond 64 bits", None, 1 << 80), ("negative length", None, -5),
            ("no length", None, 0), ("length of 1", None, 1), ("one byte too much", None, "more"),
            ("one byte too little", None, "less"), ("offset of one byte", 1, "less")):
        directory = small(t.path()).write_data()
        item = directory.items[1]
        item.offset = item.offset if offset is None else offset
        item.length += {"more": 1, "less": -1}.get(length, 0)
        item.length = item.length if length is None or isinstance(length, str) else length
        directory.write_index()
        t.refuses_merge(label, directory.path)
        t.survives(label + ", ls", "ls", directory.path)
    for label, value in (("text", "0"), ("float", 0.0), ("None", None), ("list", [0])):
        directory = small(t.path()).write_data()
        directory.items[1].offset = value
        directory.write_index()
        t.refuses_merge("offset is " + label, directory.path)


@case(6)
def shapes(t):
    huge = 1 << 62
    for label, shape, boxes in (
            ("negative size", (-4, 3), [((0, 0), (4, 3))]), ("huge size", (huge, 3), [((0, 0), (4, 3))]),
            ("product overflows to 0", (1 << 32, 1 << 32), [((0, 0), (4, 3))]),
            ("product overflows to 12", ((1 << 62) + 3, 4), [((0, 0), (4, 3))]),
            ("size beyond 64 bits", (1 << 64, 1), [((0, 0), (4, 3))]),
            ("negative offset", (4, 3), [((-1, 0), (4, 3))]), ("offset overflows", (4, 3), [(((1 << 63) - 1, 0), (4, 3))]),
            ("negative box", (4, 3), [((0, 0), (-4, -3))]), ("huge box", (4, 3), [((0, 0), (huge, huge))]),
            ("fewer dimensions in the box", (4, 3), [((0,), (4,))]), ("more dimensions", (4, 3), [((0, 0, 0), (4, 3, 1))]),
            ("unequal dimensions", (4, 3), [((0, 0), (4,))]), ("100 dimensions", (1,) * 100, [((0,) * 100, (1,) * 100)])):
        directory = small(t.path()).write_data()
        directory.entries["m.w"] = ("float32", shape, boxes)
        directory.items[0].offsets = boxes[0][0]
        directory.items.pop(1)
        directory.write_index()
        t.refuses_merge(label, directory.path)
        t.survives(label + ", ls", "ls", directory.path)
        t.survives(label + ", reshard", "reshard", directory.path, t.path(), "--ranks", "2")
    for shape, text in (((0, 1 << 61, 4), "too large for torch"), ((1 << 32, 1 << 32, 0), "more bytes than any file")):
        directory = Directory(t.path()).tensor("m.w", Tensor("float32", shape, b""), []).value("n", 5).write()
        t.refuses_merge("no items, strides of %s" % (shape,), directory.path, "'m.w'", text)
    directory = small(t.path())
    directory.entries["m.w"] = ("float99", (4, 3), chunked((4, 3), 2))
    directory.write()
    t.refuses_merge("unknown dtype", directory.path)
    t.survives("unknown dtype, ls", "ls", directory.path)


@case(6)
def numerous(t):
    """Names and sizes that promise much: memory goes by the file, not by what it says."""
    directory = small(t.path()).write_data()
    directory.entries["m.w"] = ("float64", (1 << 40, 1 << 10), [((0, 0), (1 << 40, 1 << 10))])
    directory.write_index()
    t.survives("petabytes, ls", "ls", directory.path)
    t.refuses_merge("petabytes", directory.path)


@case(6)
def one_state(t):
    """Very many objects that have one state, with as many attributes: time goes by the file, not by its square."""
    count = 40000
    state, kind = {"a%d" % i: None for i in range(count)}, Global(Dialect.METADATA, "ChunkStorageMetadata")
    directory = small(t.path())
    directory.foreign = {"mcore_data": [Object(kind, state) for _ in range(count)]}
    directory.write()
    t.survives("one state, verify", "verify", directory.path)
    t.survives("one state, info", "info", directory.path)


# ---- pickles ----

def deep(opcodes, count):
    return b"\x80\x04" + opcodes * count + b"."


@case(6)
def pickles(t):
    bodies = {
        "empty": b"", "zeros": bytes(4096), "not a pickle": b"hello world\n" * 10, "stop only": b".",
        "no stop": b"\x80\x04}",
        "None": b"\x80\x04N.", "a dict": pickled({"a": 1}, 4), "memo out of range": b"\x80\x04h\x07.",
        "long memo out of range": b"\x80\x04j\xff\xff\xff\xff.", "stack is empty": b"\x80\x04R.",
        "huge string": b"\x80\x04\x8d" + struct.pack("<Q", 1 << 62) + b"x.",
        "huge frame": b"\x80\x04\x95" + b"\xff" * 8 + b"N.",
        "unknown protocol": b"\x80\x63N.", "unknown opcode": b"\x80\x04\xfe.",
        "deep lists": deep(b"]", 300000) + b"a" * 299999 + b".",
        "deep tuples": b"\x80\x04N" + b"\x85" * 300000 + b".", "many marks": b"\x80\x04" + b"(" * 500000 + b".",
        "doubling": b"\x80\x04]\x94" + b"".join(b"(h%ch%ce\x94" % (0, 0) for _ in range(3)) + b".",
        "put far away": b"\x80\x02Nr\xff\xff\xff\x7f.", "persistent id": b"\x80\x04NQ.", "extension": b"\x80\x04\x82\x01.",
        "int of a megabyte": b"\x80\x02\x8b" + struct.pack("<i", 1 << 20) + b"\x7f" * (1 << 20) + b".",
        "text int": b"I" + b"9" * 100000 + b"\n.", "build on nothing": b"\x80\x04}}b."}
    for label, data in bodies.items():
        path = write_and_name(t, data)
        t.refuses(label + ", ls", "ls", path, names=[os.path.basename(path)])
        t.refuses_merge(label, path)
        t.survives(label + ", dis", "dis", path)
        t.survives(label + ", info", "info", path)


@case(6)
def types_in_wrong_places(t):
    """Every field of every object, replaced by something else."""
    odd = {"None": None, "int": 5, "text": "x", "list": [1], "dict": {"a": 1}, "tuple": (1, 2), "float": 0.5,
           "object": Object(Global("mine", "A"), {"x": 1}), "global": Global("torch", "float32")}
    sound = small(t.path("sound")).write_data()

    def whole_with(change):
        dialect = Dialect()
        changed = Dialect.whole

        def whole(*arguments):
            result = changed(dialect, *arguments)
            change(result)
            return result
        dialect.whole = whole
        return sound.index(dialect)

    def objects(state):
        entry = state["state_dict_metadata"]["m.w"]
        index, info = next(iter(state["storage_data"].items()))
        return {"Metadata": state, "tensor": entry.state, "chunk": entry.state["chunks"][0].state, "index": index.state,
                "info": info.state}
    probe = {}
    whole_with(lambda result: probe.update({kind: list(state) for kind, state in objects(result.state).items()}))
    for kind, fields in probe.items():
        for field in fields:
            for label, value in list(odd.items()) + [("nothing", "absent")]:
                def change(result, kind=kind, field=field, value=value):
                    state = objects(result.state)[kind]
                    if value == "absent":
                        del state[field]
                    else:
                        state[field] = value
                write_raw(sound.path, whole_with(change))
                t.survives("%s.%s is %s" % (kind, field, label), "merge", sound.path, t.path() + ".pt")
                t.survives("%s.%s is %s, ls" % (kind, field, label), "ls", "--json", sound.path)


def opens_none(directory, variants):
    """Of these indexes none can be opened, and every message names the file."""
    answers = files.many(variants, "open", os.path.join(directory, ".metadata"), directory)
    require(answers, "no answers")
    for number, answer in enumerate(answers):
        require(answer != "opened" and ".metadata" in answer, "index %d: %s" % (number, answer))


@case(6)
def truncated_index(t):
    """At every byte: refused, and the file is named."""
    for dialect in (Dialect(), Dialect(protocol=2, memo=False)):
        directory = small(t.path()).write(dialect)
        data = directory.index(dialect)
        if files.OPEN_MANY:
            t.check("at every byte", opens_none, directory.path, [data[:size] for size in range(len(data))])
        else:
            t.skip("at every byte: CKPT_OPEN_MANY is not set")
        for size in range(0, len(data), rounds(29, 1)):
            write_raw(directory.path, data[:size])
            t.refuses("ls at %d" % size, "ls", directory.path, names=[".metadata"])
            if size % rounds(2, 13) == 0:
                t.refuses_merge("merge at %d" % size, directory.path, ".metadata")


@case(6)
def changed_index(t):
    """Bytes replaced at random: any answer, no crash; and no two answers."""
    generator = random.Random(11)
    directory = small(t.path()).write()
    data = directory.index()
    for number in range(rounds(60, 400)):
        broken = bytearray(data)
        for _ in range(generator.randrange(1, 4)):
            broken[generator.randrange(len(data))] = generator.randrange(256)
        write_raw(directory.path, broken)
        t.survives("ls %d" % number, "ls", directory.path)
        t.survives("merge %d" % number, "merge", directory.path, t.path() + ".pt")
        if number % 10 == 0:
            t.survives("reshard %d" % number, "reshard", directory.path, t.path(), "--ranks", "2")
            t.survives("reindex %d" % number, "reindex", directory.path, t.path())


@case(6, 33)
def changed_items(t):
    """The same for data files; what is merged in spite of it has a checksum that says so."""
    generator = random.Random(12)
    directory = small(t.path()).write()
    file = directory.path + "/__0_0.distcp"
    with open(file, "rb") as stream:
        data = stream.read()
    for number in range(rounds(60, 300)):
        broken = bytearray(data)
        for _ in range(generator.randrange(1, 4)):
            broken[generator.randrange(len(data))] = generator.randrange(256)
        with open(file, "wb") as out:
            out.write(broken)
        t.survives("merge %d" % number, "merge", directory.path, t.path() + ".pt")


@case(6)
def recursion_in_items(t):
    """Values nested deeply, and pickles of items that are garbage."""
    body = b"\x80\x02" + b"]" * 200000 + b"a" * 199999 + b"."
    bodies = {"deep": body, "empty": b"", "garbage": b"garbage", "no stop": b"\x80\x02]", "memo": b"\x80\x02h\x01.",
              "bomb": b"\x80\x02" + b"]q\0" + b"(h\0h\0eq\0" * 50 + b"."}
    for label, data in bodies.items():
        directory = Directory(t.path()).value("v", None, item=archive(records_of(data, {}))).tensor("w", T).write()
        t.survives(label, "merge", directory.path, t.path() + ".pt")
        directory = Directory(t.path()).tensor("w", T, make=lambda part, data=data: archive(
            records_of(data, {"0": part.data}))).write()
        t.refuses_merge(label + " for a tensor", directory.path)
    item = archive({"data.pkl": pickled(rebuilt(T)), "version": b"3\n"})
    directory = Directory(t.path()).tensor("w", T, make=lambda part: item).write()
    t.refuses_merge("no storage record", directory.path)

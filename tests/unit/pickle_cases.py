# SPDX-License-Identifier: Apache-2.0
"""Write pickle_cases.h: what CPython's own pickler makes of many objects.

    python3 pickle_cases.py > pickle_cases.h

CPython 3.8 to 3.12 give the same table; 3.13 and later write the
nested class in another way. Small pickles are written out; of long ones there are the
length and the CRC-32, for a graph that the test builds from the kind and the number.
"""

import argparse
import collections
import datetime
import decimal
import functools
import pickle
import pickletools
import zlib


class WithKeywords:
    def __getnewargs_ex__(self):
        return (1, 2), {"key": 3}

    def __new__(cls, *args, **kwargs):
        return super().__new__(cls)


WithKeywords.__module__ = "package.module"


def fresh(text):
    """A string that shares its object with no literal."""
    return "".join([text[:1], text[1:]])


def recursive_tuple(count):
    inner = []
    made = (inner,) + tuple(range(count - 1))
    inner.append(made)
    return made


def recursive_in_dict():
    inner = {}
    made = (1, inner)
    inner[2] = made
    return made


class HashableList(list):
    __hash__ = object.__hash__

    def __reduce_ex__(self, protocol):
        if protocol < 4:  # a set is a call there, with a new list each time it is written
            raise pickle.PicklingError
        return super().__reduce_ex__(protocol)


def recursive_frozenset():
    inner = HashableList()
    made = frozenset([inner])
    inner.append(made)
    return made


def self_list():
    made = []
    made.append(made)
    return made


def self_dict():
    made = {}
    made[1] = made
    return made


def shared():
    text, items = fresh("shared"), [1]
    return [text, items, text, items, (text, items)]


def objects():
    """(name, object, protocols to read it from and write it at 2)"""
    plain, no_sets = (0, 1, 3, 4, 5), (0, 1)
    ints = [0, 1, 255, 256, 65535, 65536, 2**31 - 1, 2**31, 2**32, 2**63 - 1, 2**63, 2**64, 10**30,
            -1, -128, -129, -32768, -2**31, -2**31 - 1, -2**63, -2**63 - 1, -10**30]
    for value in ints:
        yield "int %d" % value, value, plain
    yield "int 2**2039-1", 2**2039 - 1, plain
    yield "int 2**2039", 2**2039, plain
    yield "int -2**2039", -2**2039, plain
    yield "int -2**2039-1", -2**2039 - 1, plain
    for name in ("0.0", "-0.0", "1.5", "1e300", "inf", "-inf", "nan"):
        yield "float " + name, float(name), plain
    yield "None", None, plain
    yield "True", True, plain
    yield "False", False, plain
    for count in (0, 1, 255, 256):
        yield "str of %d" % count, fresh("x" * count), plain
    yield "str not ascii", "\u00e9\u0100\u6f22\U0001f600", plain
    yield "str lone surrogate", "\ud800x", plain
    yield "str with newline and backslash", "a\nb\\u0041", plain
    yield "list of short strs", [chr(97), chr(97), chr(0xE9), chr(0xE9), "", fresh("ab"), fresh("ab"),
                                 chr(0x100)], ()
    yield "shared str and list", shared(), plain
    for count in (0, 1, 255, 256):
        yield "bytes of %d" % count, bytes(count), (1, 3, 4, 5)
    yield "bytes not ascii", b"a\xff\x80\n", (1, 3, 4, 5)
    yield "two bytes", [b"ab", b"cd"], (1, 3, 4, 5)
    yield "bytearray", bytearray(b"a\xff"), (5,)
    yield "empty bytearray", bytearray(), (5,)
    for count in range(6):
        yield "tuple of %d" % count, tuple(range(count)), plain
    yield "nested tuples", ((), (1,), ((2,), (3, 4)), (5, 6, 7), (8, 9, 10, 11)), plain
    for count in range(1, 6):
        yield "recursive tuple of %d" % count, recursive_tuple(count), plain
    yield "tuple in its dict", recursive_in_dict(), plain
    yield "list in itself", self_list(), plain
    yield "dict in itself", self_dict(), plain
    yield "set", {1, 2, 3}, (4, 5)
    yield "empty set", set(), (4, 5)
    yield "set of one", {1}, (4, 5)
    yield "frozenset", frozenset((1, 2)), (4, 5)
    yield "empty frozenset", frozenset(), (4, 5)
    yield "frozenset in its list", recursive_frozenset(), (4, 5)
    yield "tuple of frozensets", (frozenset((1,)), frozenset((2,))), (4, 5)
    yield "dict", {"lr": 0.1, 1: "one", (1, 2): [None, True]}, plain
    yield "OrderedDict", collections.OrderedDict(weight=1, bias=2), plain
    yield "empty OrderedDict", collections.OrderedDict(), plain
    yield "OrderedDict of one", collections.OrderedDict(weight=1), plain
    yield "defaultdict", collections.defaultdict(list, {1: [2]}), no_sets
    yield "deque", collections.deque([1, 2, 3]), plain
    yield "Counter", collections.Counter("a"), plain
    yield "class", collections.OrderedDict, plain
    yield "nested class", argparse.HelpFormatter._Section, ()
    yield "two names of one module", [argparse.Namespace, argparse.Action,
                                      argparse.Namespace], plain
    yield "Namespace", argparse.Namespace(lr=0.1, name="x"), (3, 4, 5)
    yield "two Namespaces", [argparse.Namespace(lr=1), argparse.Namespace(lr=2)], (3, 4, 5)
    yield "complex", complex(1, -2), no_sets
    yield "date", datetime.date(2024, 2, 29), ()
    yield "Decimal", decimal.Decimal("1.5"), plain
    yield "partial", functools.partial(collections.OrderedDict, 1, a=2), plain
    yield "keyword arguments", WithKeywords(), ()


def big_objects():
    numbers = (0, 1, 2, 3, 999, 1000, 1001, 1002, 1999, 2000, 2001, 3000)
    for count in numbers:
        yield "LIST", count, list(range(count))
        yield "DICT", count, {i: i for i in range(count)}
        yield "ORDERED_DICT", count, collections.OrderedDict((i, i) for i in range(count))
        yield "DEQUE", count, collections.deque(range(count))
        yield "SET", count, set(range(count))
        yield "FROZENSET", count, frozenset(range(count))
        yield "TUPLE", count, tuple(range(count))
    for count in (255, 256, 257, 10000, 70000):
        yield "STRINGS", count, ["string %d" % i for i in range(count)]
    for count in (200, 300):
        yield "TWICE", count, ["string %d" % i for i in range(count)] * 2
    for count in (65530, 65535, 65536, 65537, 200000):
        yield "LONG_STRINGS", count, [0, "x" * count, 1, "y" * count, 2]
        yield "LONG_BYTES", count, [0, b"x" * count, 1, b"y" * count, 2]


def c_string(data, indent):
    text = data.hex(" ")
    lines = [text[i:i + 84] for i in range(0, len(text), 84)] or [""]
    return ("\n" + indent).join('"%s"' % line for line in lines)


def main():
    print("/* SPDX-License-Identifier: Apache-2.0 */")
    print("/* Written by pickle_cases.py; do not edit. clang-format off */\n")
    print("static const struct {\n\tconst char *name;\n\tunsigned byte;\n} opcode_names[] = {")
    for opcode in pickletools.opcodes:
        print('\t{ "%s", 0x%02X },' % (opcode.name, ord(opcode.code)))
    print("};\n")
    print("/* NAME pickled at PROTOCOL; AT_2: what it is at protocol 2 has to come out of it */")
    print("static const struct {\n\tconst char *name;\n\tunsigned protocol;\n\tint at_2;\n"
          "\tconst char *hex;\n} cases[] = {")
    row = 0
    for name, value, sources in objects():
        table = {}
        for protocol in (2, 0, 1, 3, 4, 5):
            try:
                table[protocol] = pickle.dumps(value, protocol)
            except pickle.PicklingError:
                continue
        at_2 = row
        for protocol, data in table.items():
            same = at_2 if 2 in table and (protocol in sources or protocol == 2) else -1
            if protocol == 0 and same < 0:
                continue
            print('\t{ "%s", %d, %d,\n\t  %s },' % (name, protocol, same, c_string(data, "\t  ")))
            row += 1
    print("};\n")
    print("enum big_kind { LIST, DICT, ORDERED_DICT, DEQUE, SET, FROZENSET, TUPLE, STRINGS, TWICE, "
          "LONG_STRINGS, LONG_BYTES };")
    print("static const struct {\n\tenum big_kind kind;\n\tunsigned count, protocol, len;\n"
          "\tuint32_t crc32;\n} big_cases[] = {")
    for kind, count, value in big_objects():
        for protocol in (1, 2, 3, 4, 5):
            data = pickle.dumps(value, protocol)
            print("\t{ %s, %d, %d, %d, 0x%08X }," % (kind, count, protocol, len(data),
                                                     zlib.crc32(data)))
    print("};")


main()

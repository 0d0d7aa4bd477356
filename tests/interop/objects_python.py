# SPDX-License-Identifier: Apache-2.0
"""Plain Python values and objects of the standard library."""

import argparse
import collections
import datetime
import decimal
import fractions
import functools
import ipaddress
import math
import operator
import pathlib
import re
import struct
import types
import uuid

import user_types
from registry import item


@item()
def nothing():
    return None


@item()
def true():
    return True


@item()
def one_int():
    return 7


@item()
def one_float():
    return 0.1


@item()
def one_string():
    return "text"


@item()
def atoms_constants():
    return [None, True, False, Ellipsis, NotImplemented, type(None), type(Ellipsis)]


@item()
def atoms_ints():
    result = [0, 1, 127, 128, 254, 255, 256, 257, 65535, 65536, 65537, -1, -128, -129, -255, -256]
    for bits in (15, 16, 23, 24, 31, 32, 39, 40, 47, 48, 63, 64, 127, 128, 255, 256, 2039, 2040):
        for offset in (-2, -1, 0, 1, 2):
            result += [2 ** bits + offset, -2 ** bits + offset]
    return result


@item()
def atoms_long_int():
    """Integers that need a four-byte length."""
    return [2 ** 2039, -2 ** 2039 - 1, 3 ** 5000, -3 ** 5000]


@item()
def atoms_floats():
    odd_nan = struct.unpack(">d", bytes.fromhex("fff8000000abcdef"))[0]
    return [0.0, -0.0, 1.5, -1.5, 0.1, 1e300, 5e-324, 2.2250738585072014e-308, math.pi,
            float("inf"), float("-inf"), float("nan"), odd_nan, float(2 ** 53)]


@item()
def atoms_complex():
    return [1j, 1 + 2j, complex(-0.0, 0.0), complex(float("inf"), 1.5), complex(0.0, -0.0)]


@item()
def atoms_strings():
    equal = ["".join(["ab", "cd"]) for _ in range(3)]
    short = ["".join(["a"]), chr(0xe9), chr(0xff), chr(0x100), chr(0x100), chr(0x20ac)]
    lone = ["\ud800", "a\udfffb", "\ud83d\ude00", "\U0001f600"]
    odd = ["", "".join([]), "\x00", "a\x00b", "\n", "line\r\nline", "'\"\\", "\x7f\x80\x9f"]
    return [equal, short, short[:], lone, odd, ["abcd", "a", "", chr(0xe9)]]


@item()
def long_strings():
    return ["x" * 255, "x" * 256, "x" * 257, chr(0xe9) * 128, "y" * 65535, "y" * 65536,
            "z" * 70000, chr(0x20ac) * 30000, "end"]


@item()
def atoms_bytes():
    return [b"", b"a", b"a", b"\x80", b"\xff", b"ab", b"ab", bytes(range(256)), b"x" * 300,
            bytes(range(250)) * 280, b"", b"latin1"]


@item()
def bytes_like_latin1():
    """The word of the encoder beside its own use."""
    return ["latin1", b"\x01\x02", "latin1", b"\x03\x04", "".join(["lat", "in1"])]


@item()
def shared_bytes():
    data = b"\x00\x01\xfe\xff"
    return [data, data, bytes(bytearray(data))]


@item()
def atoms_bytearray():
    data = bytearray(b"shared")
    return [bytearray(), bytearray(b"a"), bytearray(b"\x80\xff"), bytearray(70000), data, data]


@item()
def ranges_and_slices():
    return [range(3), range(1, 10, 2), range(-5, 5), range(0), range(2 ** 40), slice(None),
            slice(1, 2), slice(0, None, -1)]


@item()
def dates_and_times():
    zone = datetime.timezone(datetime.timedelta(hours=2), "CEST")
    return [
        datetime.datetime(2024, 2, 29, 13, 5, 7, 123456), datetime.datetime(1, 1, 1),
        datetime.datetime(2024, 10, 27, 2, 30, fold=1), datetime.date(2024, 2, 29),
        datetime.time(23, 59, 59, 999999), datetime.time(0, 0, fold=1),
        datetime.timedelta(days=-1, seconds=5, microseconds=7), datetime.timezone.utc, zone,
        datetime.timezone(datetime.timedelta(seconds=-3600)),
        datetime.datetime(2024, 1, 1, tzinfo=zone), datetime.time(1, 2, tzinfo=zone),
        datetime.datetime(2024, 1, 1, tzinfo=datetime.timezone.utc),
    ]


@item()
def numbers_of_the_library():
    return [decimal.Decimal("1.50"), decimal.Decimal("NaN"), decimal.Decimal("-1E+7"),
            fractions.Fraction(1, 3), fractions.Fraction(-7)]


@item()
def paths():
    return [pathlib.Path("/a/b/c.txt"), pathlib.Path("relative/x"), pathlib.PurePosixPath("."),
            pathlib.PureWindowsPath("C:\\a\\b"), pathlib.Path("/")]


@item()
def identifiers():
    return [uuid.UUID(int=2 ** 127 + 5), uuid.UUID(int=0), ipaddress.ip_address("10.0.0.1")]


@item()
def enums():
    kinds = user_types
    return [kinds.Color.RED, kinds.Color.GREEN, kinds.Level.HIGH, kinds.Access.READ,
            kinds.Color.RED, kinds.Color]


@item()
def enum_flags_together():
    return user_types.Access.READ | user_types.Access.WRITE


@item()
def namespaces():
    arguments = argparse.Namespace(lr=0.1, epochs=90, data="/data", gpu=None, dist=True)
    return [arguments, argparse.Namespace(), types.SimpleNamespace(a=1, b=[2]),
            types.SimpleNamespace()]


@item()
def dataclass_objects():
    return [user_types.Config(1, 0.5, tags=["a", "b"]), user_types.Config(2, 1.5, "wide"),
            user_types.FrozenConfig(3, "frozen")]


@item()
def named_tuples():
    point = user_types.Point(1, "two")
    return [point, point, user_types.Pair([1], None), user_types.TupleChild((1, 2, 3)),
            user_types.TupleChild()]


@item()
def children_of_atoms():
    kinds = user_types
    return [kinds.IntChild(5), kinds.StrChild("text"), kinds.FloatChild(1.5),
            kinds.BytesChild(b"\x80"), kinds.IntChild(2 ** 70)]


@item()
def objects_with_state():
    """One object for every way in which a class tells the pickler what to save."""
    kinds = user_types
    everything = kinds.ReduceAll("everything")
    everything.extend([1, 2])
    everything.pairs["k"] = "v"
    return [kinds.Plain(), kinds.Plain(a=1), kinds.Plain(a=2, b="two"), kinds.Slots(1, "two"),
            kinds.SlotsAndDict(1, 2, 3), kinds.GetState([1, 2]), kinds.GetState([]),
            kinds.NewArgs(), kinds.NewArgs(1, "two"), kinds.NewArgsEx(3, name="ex"), everything,
            kinds.Registered([1]), kinds.Outer.Inner(1), kinds.Outer.Inner(2)]


@item()
def same_attribute_names():
    """Attribute names are one string per name in a new object, and again after a load."""
    plain = user_types.Plain
    return [plain(weight=1, bias="weight"), plain(weight=2, bias="bias"), {"weight": 3},
            plain(a=1, b="a")]


@item()
def attribute_name_as_a_value():
    name = "".join(["attri", "bute"])
    first = user_types.Plain()
    setattr(first, name, name)
    return [name, first, user_types.Plain(attribute=name)]


@item()
def attribute_name_that_no_program_has():
    """Its string is the one of the file after a load: no other was there before."""
    name = "_".join(["unheard", "of", str(7)])
    first = user_types.Plain()
    setattr(first, name, 1)
    other = user_types.Plain()
    setattr(other, "_".join(["unheard", "of", str(7)]), 2)
    return [first, dict(vars(first)), other, {"_".join(["unheard", "of", str(7)]): 3}]


@item()
def attribute_name_after_its_value():
    name = "_".join(["unheard", "of", str(8)])
    first = user_types.Plain()
    setattr(first, name, 1)
    return [{"_".join(["unheard", "of", str(8)]): 3}, list(vars(first)), first]


@item()
def attribute_names_of_one_letter():
    return [user_types.Plain(a="a", b="b"), {"a": "b"}, user_types.Plain(a=1, c="c"), "c"]


@item()
def exceptions():
    error = ValueError("message", 3)
    return [error, KeyError("key"), OSError(2, "no such file", "name"), StopIteration()]


@item()
def partials():
    partial = functools.partial
    nested = partial(user_types.function, value=1)
    return [partial(int, base=2), partial(print, "a", "b", sep=","), nested, partial(nested, 2)]


@item()
def classes_and_functions():
    return [int, str, range, bytes, dict, object, ValueError, KeyError, zip, map, len, print,
            functools.reduce, math.sqrt, operator.add, user_types.function, user_types.Plain,
            user_types.Outer, user_types.Outer.Inner, collections.OrderedDict, dict, len,
            collections.UserDict, BaseException]


@item()
def bound_methods():
    target = user_types.Plain(name="target")
    return [target.method, target, [].append, "text".upper, dict.fromkeys]


@item()
def operators():
    return [operator.itemgetter(1), operator.attrgetter("a.b"), operator.methodcaller("f", 1)]


@item()
def patterns():
    return [re.compile("a+"), re.compile("(?P<x>b)", re.IGNORECASE), re.compile(b"raw")]


@item("dots.in.name")
def dots_in_name():
    return {"a": 1}


@item("ünïcode")
def unicode_name():
    return {"a": 1}


@item("sp ace")
def space_in_name():
    return {"a": 1}


@item()
def odd_keys():
    return {1: "int", "1": "str", 1.5: "float", None: "none", (1, "a"): "tuple", b"b": "bytes",
            -1: "minus", True + 1: "two", "a.b.c": "dots", "": "empty", "ключ": "cyrillic",
            "\U0001f600": "wide", frozenset([1]): "set", "with space\n": "line"}

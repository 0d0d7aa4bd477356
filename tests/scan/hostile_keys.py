# SPDX-License-Identifier: Apache-2.0
"""Keys of dicts and items of sets: such of one hash, which Python holds against each other, and such that are one key to it (docs/scan.md)."""

import struct

from assemble import NOT_DECIDED, RUN, blob, proto, reduce_, sample, torch_zip, value
from hostile_language import NAME, NOT_PLAIN, TENSOR, both


def tuples_alike(count):
    """Of two ints and one hash: what is behind the second follows from what is in front of it."""
    first, second, fifth, whole = 11400714785074694791, 14029467366897019727, 2870177450012600261, (1 << 64) - 1
    found, n = [], 0
    while len(found) < count:
        n += 1
        lane = (fifth + n * second) & whole
        lane = ((lane << 31 | lane >> 33) * first) & whole
        other = (12345 - lane) * pow(second, -1, 1 << 64) & whole
        other -= (1 << 64) * (other >> 63)
        if abs(other) < (1 << 61) - 1:
            found.append((n, other))
    assert len({hash(one) for one in found}) == 1
    return found


def number(n):
    return b"\x8a" + bytes([n.bit_length() // 8 + 1]) + n.to_bytes(n.bit_length() // 8 + 1, "little", signed=True)


def dtypes_as_keys():
    """A dtype that gets its state when it is a key already is another one then: that which the next key is."""
    bare = reduce_("numpy", "dtype", "f8", False, True)
    big = value((3, ">", None, None, None, -1, -1, 0)) + b"b"
    first, then, made = bare + b"q\x01", b"h\x01" + big, bare + big
    for name, body in (("alone", b"}" + first + b"Ns" + then + b"\x86"), ("beside", b"}" + first + b"Ns" + then + b"0" + made + b"Ns"), ("in_tuple", b"}" + first + b"\x85Ns" + then + b"\x86"),
                       ("item", b"\x8f(" + first + b"\x90" + then + b"\x86"), ("in_frozenset", b"(" + first + b"\x91" + then + b"\x86"), ("pairs", NAME("collections", "OrderedDict") + b"](" + first + b"N\x86e\x85R" + then + b"\x86"),
                       ("made", NAME("builtins", "set") + b"](" + first + b"e\x85R" + then + b"\x86")):
        both("dtype_key_%s" % name, body, "a dtype of numpy that is a key before its state is set", protocol=4)


def numpy_number(text, data):
    dtype = reduce_("numpy", "dtype", text, False, True) + value((3, "<", None, None, None, -1, -1, 0)) + b"b"
    return NAME("numpy.core.multiarray", "scalar") + b"(" + dtype + blob(data) + b"tR"


def rounded_keys():
    """numpy 2 rounds a number of Python to the type of its own before it compares both, numpy 1 does not: of one hash they are the same to one of them."""
    prime = (1 << 61) - 1
    real = lambda x: b"G" + struct.pack(">d", x)
    over = 314159 * 2.0**976
    inf = {"f2": struct.pack("<e", float("inf")), "f4": struct.pack("<f", float("inf")), "c8": struct.pack("<ff", float("inf"), 0)}
    for name, mine, theirs in (("half", numpy_number("f2", inf["f2"]), value(314159)), ("half_real", numpy_number("f2", inf["f2"]), real(314159.0)), ("single", numpy_number("f4", inf["f4"]), real(over)), ("complex", numpy_number("c8", inf["c8"]), real(over)),
                               ("huge", numpy_number("f4", struct.pack("<f", 2.0**100)), number(2**100 + prime)), ("huge_double", numpy_number("f8", struct.pack("<d", 2.0**120)), number(2**120 + prime)), ("huge_complex", numpy_number("c16", struct.pack("<dd", 2.0**120, 0)), number(2**120 + prime)),
                               ("of_complex", numpy_number("c8", struct.pack("<ff", 0.5, 0.25)), reduce_("builtins", "complex", real(0.5 + 2.0**-40), real(0.25 - 2.0**-42)))):
        for way, body in (("dict", b"}(" + mine + b"N" + theirs + b"Nu"), ("turned", b"}(" + theirs + b"N" + mine + b"Nu"), ("tuples", b"}(" + mine + b"\x85N" + theirs + b"\x85Nu"), ("frozen", b"(" + mine + theirs + b"\x91"), ("one_by_one", b"}" + mine + b"Ns" + theirs + b"Ns")):
            both("rounded_%s_%s" % (name, way), body, "two keys that are one to numpy 2", protocol=4)
    fine = [numpy_number("f4", struct.pack("<f", 0.1)), numpy_number("f8", struct.pack("<d", 1e9)), numpy_number("c8", struct.pack("<ff", 3.5, 0)), value(314159), real(0.1), real(1e300), number(2**100), reduce_("builtins", "complex", 1, 2)]
    both("rounded_fine", b"}(" + b"".join(key + b"N" for key in fine) + b"u", "numbers of numpy and of Python that are far from each other", {"plain"}, protocol=4)


def slow_keys():
    """Each comparison takes long: an integer of thousands of digits that is turned into a Decimal, sets whose items are all of one hash."""
    prime = (1 << 61) - 1
    long = [b"\x8b" + struct.pack("<i", 1700) + ((5 + prime * (3**8000 + n)) & ((1 << 13590) - 1)).to_bytes(1700, "little") for n in range(8)]
    both("keys_of_many_digits", b"}(" + b"".join(key + b"N" for key in long) + b"u", "integers of some 4,000 digits as keys", NOT_DECIDED)
    both("keys_of_many_digits_decimal", b"}(" + b"".join(reduce_("decimal", "Decimal", "%d" % n + "7" * 4000) + b"N" for n in range(8)) + b"u", "the same of Decimal", NOT_DECIDED)
    alike = [number(n * prime) for n in range(1, 600)]
    sets = [b"(" + b"".join(alike[:63]) + alike[63 + n] + b"\x91" for n in range(250)]
    both("keys_of_sets", b"}(" + b"".join(one + b"N" for one in sets) + b"u", "sets whose items are of one hash", protocol=4)
    some = b"}(" + b"".join(number(n * prime) + b"N" for n in range(1, 1000)) + b"uq\x01"
    both("keys_of_a_dict_again", some + (NAME("collections", "OrderedDict") + b"h\x01\x85R0") * 100, "a dict of keys of one hash, of which others are made", NOT_DECIDED)
    both("keys_of_sets_fine", b"}(" + b"".join(b"(" + b"".join(value(n * 20 + k) for k in range(20)) + b"\x91N" for n in range(40)) + b"u", "ordinary sets", {"plain"}, protocol=4)


def pickled(keys):
    return [b"".join(number(n) for n in one) + b"\x86" if isinstance(one, tuple) else number(one) for one in keys]


def keys():
    """Python hashes what becomes a key: all of it, however deep and however often, and holds those of one hash against each other."""
    alike = pickled(n * ((1 << 61) - 1) for n in range(1, 2100))
    tuples = pickled(tuples_alike(2100))
    nan = [b"G\x7f\xf8" + bytes(6)] * 2100
    made = [reduce_("builtins", "complex", (1000003 * n) % (1 << 30), -n) for n in range(4200)]
    for name, some in (("ints", alike), ("tuples", tuples), ("nan", nan), ("made", made)):
        pairs, items = b"".join(key + b"N" for key in some), b"".join(some)
        both("keys_%s_dict" % name, b"}(" + pairs + b"u", "a dict of keys of one hash")
        both("keys_%s_one_by_one" % name, b"}" + b"".join(key + b"Ns" for key in some), "the same, one by one")
        both("keys_%s_batches" % name, b"}" + b"".join(b"(" + b"".join(key + b"N" for key in some[n : n + 500]) + b"u" for n in range(0, len(some), 500)), "the same, 500 at a time")
        both("keys_%s_old" % name, b"(" + pairs + b"d", "the same with a mark")
        both("keys_%s_items" % name, b"\x8f(" + items + b"\x90", "a set of them", protocol=4)
        both("keys_%s_frozen_items" % name, b"(" + items + b"\x91", "a frozenset of them", protocol=4)
        for kind in ("set", "frozenset"):
            both("keys_%s_%s" % (name, kind), NAME("builtins", kind) + b"](" + items + b"e\x85R", "a %s of a list of them" % kind)
        listed = b"](" + b"".join(key + b"N\x86" for key in some) + b"e"
        for kind in ("OrderedDict", "Counter"):
            both("keys_%s_%s" % (name, kind), NAME("collections", kind) + listed + b"\x85R", "a %s of a list of them" % kind)
            both("keys_%s_%s_set" % (name, kind), NAME("collections", kind) + b")R(" + pairs + b"u", "a %s that gets them" % kind)
    one = lambda bit: b"J" + struct.pack("<i", -1 - bit)  # -1 and -2 have one hash
    both("keys_unfolding", b"}(" + b"".join(b"(" + one(0) + b"2\x86" * 8 + b"".join(one(n >> bit & 1) for bit in range(10)) + b"tN" for n in range(1000)) + b"u", "keys of many values and of one hash")
    deep, wide = b")" + b"\x85" * 300000, b")" + b"2\x86" * 60
    for name, key in (("deep", deep), ("wide", wide), ("frozen", b"(" + wide + b"\x91"), ("made", NAME("builtins", "tuple") + b"](" + wide + b"e\x85R")):
        both("key_%s_dict" % name, b"}" + key + b"Ns", "a key of tuples in tuples", protocol=4)
        both("key_%s_set" % name, b"\x8f(" + key + b"\x90", "an item of a set", protocol=4)
        both("key_%s_called" % name, NAME("builtins", "set") + b"](" + key + b"e\x85R", "an item of what becomes a set", protocol=4)
        both("key_%s_pairs" % name, NAME("collections", "OrderedDict") + b"](" + key + b"N\x86e\x85R", "a key of what becomes a dict", protocol=4)
    nest = b"(" + b"(" * 300000 + b"t" * 300000 + b"I1\nd."
    for name, data in (("end", nest), ("behind", nest + b"\n"), ("behind_much", nest + b"\nand more\n"), ("memo", b"Np999999999\n"), ("memo_end", b"Np999999999\n.\n")):
        for suffix in ("pkl", "txt", "md"):
            sample("text_%s.%s" % (name, suffix), data, "a text, which an unpickler reads as far as STOP: too deep, or a large memo", NOT_PLAIN)
    for name, make in (("fractions", lambda n: reduce_("fractions", "Fraction", "%d/%d" % (n * ((1 << 61) - 1) + 1, 1))), ("ranges", lambda n: reduce_("builtins", "range", n)), ("decimals", lambda n: reduce_("decimal", "Decimal", str(n * ((1 << 61) - 1))))):
        both("keys_%s_eight" % name, b"](" + b"".join(b"}(" + b"".join(make(8000 * d + n) + b"N" for n in range(1100)) + b"u" for d in range(8)) + b"e", "eight dicts of keys that Python compares slowly")
    scalar = NAME("numpy.core.multiarray", "scalar") + b"q\x010" + reduce_("numpy", "dtype", "i8", False, True) + value((3, "<", None, None, None, -1, -1, 0)) + b"bq\x020"
    for name, before, make in (
        ("numpy", scalar, lambda n: b"h\x01h\x02" + reduce_("_codecs", "encode", struct.pack("<q", n).decode("latin1"), "latin1") + b"\x86R"),
        ("dates", b"", lambda n: reduce_("datetime", "date", b"U\x04" + struct.pack(">HBB", 1000 + n // 28, 1, 1 + n % 28))),
        ("decimal", b"", lambda n: reduce_("decimal", "Decimal", "%d.%02d" % (n, n % 100))), ("fraction", b"", lambda n: reduce_("fractions", "Fraction", "%d/7" % n)),
        ("complex", b"", lambda n: reduce_("builtins", "complex", n, -n)), ("path", b"", lambda n: reduce_("pathlib", "PosixPath", "/", "a", str(n))), ("size", b"", lambda n: reduce_("torch", "Size", [n, 3])),
        ("uuid", b"", lambda n: NAME("uuid", "UUID") + b")\x81" + value({"int": number(n * 0x9E3779B97F4A7C15F39CC0605CEDC835 % (1 << 127))}) + b"b"),
    ):
        sample("fine_keys_%s.pkl" % name, proto(2, before + b"}(" + b"".join(make(n) + b"N" for n in range(6000)) + b"u"), "6,000 keys of a kind", {"plain"})
    sample("fine_keys_ids.pkl", proto(2, b"}(" + b"".join(number(140000000000000 + 64 * n) + b"N" for n in range(20000)) + b"u"), "ids of objects", {"plain"})
    sample("fine_keys_pairs.pkl", proto(2, b"}(" + b"".join(value((n // 100, n % 100)) + b"N" for n in range(20000)) + b"u"), "rows and columns", {"plain"})
    sample("fine_keys_texts.pkl", proto(2, b"}(" + b"".join(value(("a%d" % n, "b")) + b"N" for n in range(20000)) + b"u"), "pairs of texts", {"plain"})
    sample("fine_keys_floats.pkl", proto(2, b"}(" + b"".join(b"G" + struct.pack(">d", n / 7) + b"N" for n in range(20000)) + b"u"), "floats", {"plain"})
    sample("fine_keys_negative.pkl", proto(2, b"}(" + b"".join(value(n) + b"N" for n in range(-9999, 9999)) + b"u"), "ints around zero", {"plain"})


def same_keys_of_python2():
    """Keys that one encoding makes the same, and another does not."""
    byte, text, raw = b"U\x01\xe9", value("\xe9"), b"C\x01\xe9"
    for name, first, then, wanted in (("latin1", text, byte, NOT_DECIDED), ("bytes", raw, byte, NOT_DECIDED), ("ascii_bytes", b"C\x01k", b"U\x01k", NOT_DECIDED), ("inside", b"(" + text + b"t", b"(" + byte + b"t", NOT_DECIDED), ("ascii", value("k"), b"U\x01k", NOT_DECIDED),
                                      ("utf8", text, b"U\x02\xc3\xa9", NOT_DECIDED), ("others", text, b"U\x01\xe8", {"plain"}), ("both", byte, b"U\x01\xe8", {"plain"}), ("number", b"K\x01", byte, {"plain"}),
                                      ("path", NAME("pathlib", "PurePosixPath") + b"U\x02\xc3\xa9\x85R", NAME("pathlib", "PurePosixPath") + value("\xc3\xa9") + b"\x85R", NOT_DECIDED), ("path_ascii", NAME("pathlib", "PurePosixPath") + b"U\x01a\x85R", NAME("pathlib", "PurePosixPath") + value("b") + b"\x85R", {"plain"})):
        for form, container in (("dict", b"}(" + first + b"N" + then + b"Nu"), ("later", b"}" + first + b"Ns" + then + b"Ns"), ("set", b"\x8f(" + first + then + b"\x90"), ("ordered", NAME("collections", "OrderedDict") + b")R" + first + b"Ns" + then + b"Ns")):
            sample("same_keys_py2_%s_%s.pkl" % (name, form), proto(4, container), "keys that are the same to some encodings", wanted)


def keys_with_units():
    """np.timedelta64(1, 's') is 1 to a dict, np.datetime64('2020-01-01') the date, whatever the unit."""
    def moment(letter, number, unit):
        dtype = reduce_("numpy", "dtype", letter + "8", False, True) + value((4, "<", None, None, None, -1, -1, 0, ({}, (blob(unit), 1, 1, 1)))) + b"b"
        return reduce_("numpy.core.multiarray", "scalar", dtype, blob(struct.pack("<q", number)))

    day = reduce_("datetime", "date", blob(bytes((7, 228, 1, 1))))
    for name, keys_of_dict, wanted in (("one", (moment("m", 1, b"s"),), {"plain"}), ("two", (moment("m", 1, b"s"), moment("m", 2, b"s")), {"plain"}), ("twice", (moment("m", 1, b"s"), moment("m", 1, b"s")), NOT_DECIDED),
                                       ("number", (b"K\x01", moment("m", 1, b"s")), NOT_DECIDED), ("true", (b"\x88", moment("m", 1, b"D")), NOT_DECIDED), ("units", (moment("m", 1, b"s"), moment("m", 1000, b"ms")), NOT_DECIDED),
                                       ("days", (moment("M", 1, b"D"), moment("M", 2, b"D")), {"plain"}), ("date", (day, moment("M", 18262, b"D")), NOT_DECIDED), ("hours", (moment("M", 1, b"D"), moment("M", 24, b"h")), NOT_DECIDED),
                                       ("inside", (b"K\x01\x85", moment("m", 1, b"s") + b"\x85"), NOT_DECIDED), ("pairs", (moment("m", 1, b"s") + b"K\x01\x86", moment("m", 2, b"s") + b"K\x01\x86"), {"plain"})):
        both("keys_unit_%s" % name, b"}(" + b"".join(key + b"N" for key in keys_of_dict) + b"u", "a date or span of numpy beside others", wanted, protocol=4)


def units_of_numpy():
    """A divisor and an event are always 1. By others numpy reads behind a table, and divides by zero."""
    for name, unit, wanted in (("ms", (blob(b"ms"), 25, 1, 1), {"plain"}), ("divisor", (blob(b"W"), 1, 128, 1), NOT_DECIDED), ("divisor_seconds", (blob(b"s"), 1, 2, 1), NOT_DECIDED), ("event", (blob(b"D"), 1, 1, 2), NOT_DECIDED), ("event_of_25", (blob(b"D"), 1, 1, 25), NOT_DECIDED),
                             ("divided", (blob(b"s"), 1 << 26, 15625, 1), NOT_DECIDED), ("text_divided", (blob(b"s/3"), 1, 1, 1), NOT_DECIDED), ("brackets", (blob(b"[s]"), 1, 1, 1), NOT_DECIDED), ("zero_byte", (blob(b"ns\0"), 1, 1, 1), NOT_DECIDED), ("none", (blob(b""), 1, 1, 1), NOT_DECIDED),
                             ("generic", (blob(b"generic"), 1, 1, 1), {"plain"}), ("five_generic", (blob(b"generic"), 5, 1, 1), NOT_DECIDED), ("coded", (reduce_("_codecs", "encode", "ns", "latin1"), 1, 1, 1), {"plain"}), ("many", (blob(b"ns"), 2**31 - 1, 1, 1), {"plain"})):
        for letter in "mM":
            dtype = reduce_("numpy", "dtype", letter + "8", False, True) + value((4, "<", None, None, None, -1, -1, 0, ({}, unit))) + b"b"
            both("unit_%s_%s" % (letter, name), dtype, "a date or span of numpy whose unit is divided", wanted)
            both("unit_of_number_%s_%s" % (letter, name), reduce_("numpy.core.multiarray", "scalar", dtype, blob(bytes(8))), "a number of it", wanted)


def same_keys():
    """Keys that are one to Python. A load keeps the last value; ls would show both."""
    torch_size, scalar = NAME("torch", "Size"), NAME("numpy.core.multiarray", "scalar")

    def dtype(text, order):
        width = int(text[1:])
        sizes = {"U": (4 * width, 4, 8), "S": (width, 1, 0)}.get(text[0], (-1, -1, 0))
        return reduce_("numpy", "dtype", text, False, True) + value((3, order, None, None, None, *sizes)) + b"b"

    def real(number):
        return b"G" + struct.pack(">d", number)

    for name, key in (("float", NAME("builtins", "float") + b"h\x64\x85R"), ("in_tuple", NAME("builtins", "float") + b"h\x64\x85R\x85")):
        first = real(float("nan")) + b"q\x64" + (b"\x85" if name == "in_tuple" else b"")
        both("same_nan_%s" % name, b"}(" + first + b"N" + key + b"Nu", "float() of a float is that itself", NOT_DECIDED)

    def long(number):
        data = number.to_bytes(number.bit_length() // 8 + 1, "little", signed=True)
        return b"\x8a" + bytes([len(data)]) + data

    def item(text, data):
        return scalar + b"(" + dtype(text, "|" if text[1:] == "1" or text[0] == "S" else "<") + blob(data) + b"tR"

    def number(name, *arguments):
        return reduce_({"Decimal": "decimal", "Fraction": "fractions"}.get(name, "builtins"), name, *arguments)

    one = [b"K\x01", b"\x88", real(1.0), long(1), number("int", "1"), number("int", real(1.5)), number("float", 1), number("float", "1.0"), number("bool", 5), number("complex", 1), number("complex", real(1.0), real(-0.0)),
           number("Decimal", "1"), number("Decimal", "1.00"), number("Decimal", "10E-1"), number("Decimal", "0.1E+1"), number("Fraction", "1"), number("Fraction", "2/2"), number("Fraction", 3, 3), number("Fraction", -3, -3),
           item("i8", struct.pack("<q", 1)), item("u1", b"\x01"), item("b1", b"\x01"), item("f4", struct.pack("<f", 1)), item("f2", b"\x00\x3c"), item("f8", struct.pack("<d", 1)), item("c8", struct.pack("<ff", 1, 0))]
    none = [b"K\x00", b"\x89", real(0.0), real(-0.0), number("int"), number("float", real(-0.0)), number("bool"), number("bool", ""), number("complex", 0, 0), number("Decimal", "-0.0"), number("Fraction", "0"), item("i4", bytes(4)), item("f8", struct.pack("<d", -0.0))]
    half = [real(0.5), number("Decimal", "0.5"), number("Decimal", "5E-1"), number("Fraction", "1/2"), number("Fraction", 2, 4), number("float", "0.5"), item("f4", struct.pack("<f", 0.5)), item("f2", b"\x00\x38"), number("complex", real(0.5), 0)]
    least = [b"J\xff\xff\xff\xff", real(-1.0), number("int", "-1"), number("Decimal", "-1"), number("Fraction", "-3/3"), number("Fraction", 1, -1), item("i1", b"\xff"), item("i8", struct.pack("<q", -1)), item("f4", struct.pack("<f", -1))]
    far = [long(1 << 70), real(2.0**70), number("int", str(1 << 70)), number("Decimal", str(1 << 70)), number("Fraction", str(1 << 70))]
    other = [number("complex", 1, 2), item("c16", struct.pack("<dd", 1, 2)), item("c8", struct.pack("<ff", 1, 2)), number("complex", real(1.0), real(2.0))]
    texts = [value("aé"), b"U\x03a\xc3\xa9", number("str", "aé"), b"\x8c\x03a\xc3\xa9", item("U2", "aé".encode("utf-32-le")), b"Va\\u00e9\n"]
    data = [blob(b"a\xff"), b"C\x02a\xff", reduce_("_codecs", "encode", "aÿ", "latin1"), reduce_("builtins", "bytes", [97, 255]), reduce_("builtins", "bytes", blob(b"a\xff")), item("S4", b"a\xff\0\0")]
    tuples = [b"K\x01K\x02\x86", b"\x88" + real(2.0) + b"\x86", torch_size + value(((1, 2),)) + b"R", reduce_("builtins", "tuple", [1, 2]), NAME("torch.return_types", "max") + value(([1, 2],)) + b"R"]
    deep = [b"K\x01" + value("a") + b"\x86\x85", b"\x88U\x01a\x86\x85"]
    paths = [reduce_("pathlib", "PosixPath", "a/b"), reduce_("pathlib", "PosixPath", "a", "b"), reduce_("pathlib", "PurePosixPath", "a/./b/"), reduce_("pathlib", "PosixPath", "a//b")]
    whole = [reduce_("pathlib", "PosixPath", "/a"), reduce_("pathlib", "PosixPath", "x", "/a"), reduce_("pathlib", "PosixPath", "/", "a")]
    day = b"\x07\xe4\x01\x02"
    dates = [reduce_("datetime", "date", blob(day)), reduce_("datetime", "date", reduce_("_codecs", "encode", day.decode("latin1"), "latin1")), reduce_("datetime", "date", 2020, 1, 2)]
    moment = bytes.fromhex("07e4010203040506 0708".replace(" ", ""))
    moments = [reduce_("datetime", "datetime", blob(moment)), reduce_("datetime", "datetime", blob(moment[:2] + b"\x81" + moment[3:]))]
    spans = [reduce_("datetime", "timedelta", 1), reduce_("datetime", "timedelta", 0, 86400), reduce_("datetime", "timedelta", 0, 86399, 1000000)]
    zones = [reduce_("datetime", "timezone", reduce_("datetime", "timedelta", 0, 3600)), reduce_("datetime", "timezone", reduce_("datetime", "timedelta", 0, 3599, 1000000), "x")]
    ranges_ = [reduce_("builtins", "range", 0, 3, 2), reduce_("builtins", "range", 0, 4, 2), reduce_("builtins", "range", 0, 3, 2)]
    names = [NAME("uuid", "UUID") + b")\x81" + value({"int": 5}) + b"b", NAME("uuid", "UUID") + b")\x81" + value({"int": 5, "is_safe": 0}) + b"b"]
    devices = [reduce_("torch", "device", "cuda:0"), reduce_("torch", "device", "cuda", 0), reduce_("torch", "device", "cuda:0")]
    classes = [NAME("torch", "float32"), NAME("torch", "float32")]
    sets = [b"(K\x01K\x02\x91", b"(K\x02\x88\x91"]
    rounded = [real(2.0**53), number("complex", long((1 << 53) + 1)), number("float", long((1 << 53) + 1)), number("complex", long((1 << 53) + 1), 0)]
    zeros = [value("a\0b"), item("U3", "a\0b".encode("utf-32-le")), item("U5", "a\0b\0\0".encode("utf-32-le"))]
    at = lambda hour, zone: reduce_("datetime", "datetime", blob(b"\x07\xe4\x01\x02" + bytes([hour]) + bytes(5)), zone)
    instants = [at(9, reduce_("datetime", "timezone", reduce_("datetime", "timedelta", 0))), at(10, zones[0])]
    nine = tuple(range(1, 10))
    fields = [reduce_("time", "struct_time", nine, {}), value(nine), reduce_("time", "struct_time", (*nine, "x", 1), {}), reduce_("time", "struct_time", (*nine, "y", 1), {})]
    kinds = [dtype("f8", "<"), dtype("f8", "="), reduce_("numpy", "dtype", "f8", False, True), reduce_("numpy", "dtype", "<f8", False, False), reduce_("numpy", "dtype", "f8", False, False)]
    constants = [NAME("torch", "channels_last"), NAME("torch._utils", "torch.channels_last")]
    layouts = [NAME("torch", "strided"), reduce_("torch.serialization", "_get_layout", "torch.strided")]
    indices = [reduce_("torch", "device", "cuda", -1), reduce_("torch", "device", "cuda"), reduce_("torch", "device", "cuda", 255)]
    groups = {"one": one, "none": none, "half": half, "least": least, "far": far, "other": other, "texts": texts, "data": data, "tuples": tuples, "deep": deep, "paths": paths, "whole": whole, "dates": dates, "moments": moments,
              "spans": spans, "zones": zones, "ranges": ranges_, "names": names, "devices": devices, "classes": classes, "sets": sets, "rounded": rounded, "zeros": zeros, "instants": instants, "fields": fields, "kinds": kinds,
              "constants": constants, "layouts": layouts, "indices": indices, "nothing": [b"N", b"N"]}
    ordered, default = NAME("collections", "OrderedDict"), NAME("collections", "defaultdict")
    for name, keys_ in groups.items():
        rest = b"".join(value("k%d" % n) + b"N" for n in range(30))
        for n, key in enumerate(keys_):
            first, then = (keys_[0], key) if n else (key, keys_[-1])
            for way, body in (("dict", b"}(" + first + TENSOR + then + TENSOR + b"u"), ("single", b"}" + first + TENSOR + b"s" + then + TENSOR + b"s"), ("opcode", b"(" + first + TENSOR + then + TENSOR + b"d"),
                              ("among", b"}(" + rest + first + TENSOR + rest.replace(b"\0k", b"\0x") + then + TENSOR + b"u"), ("batches", b"}(" + first + TENSOR + rest + b"u(" + then + TENSOR + b"u"),
                              ("ordered", ordered + b")R(" + first + TENSOR + then + TENSOR + b"u"), ("default", default + b"N\x85R(" + first + TENSOR + b"u" + then + TENSOR + b"s"),
                              ("set", b"\x8f(" + first + then + b"\x90"), ("frozenset", b"(" + first + then + b"\x91"), ("set_call", NAME("builtins", "set") + b"](" + first + then + b"e\x85R"),
                              ("pairs", ordered + b"](](" + first + TENSOR + b"e](" + then + TENSOR + b"ee\x85R"), ("dict_call", NAME("builtins", "dict") + b"](" + first + TENSOR + b"\x86" + then + TENSOR + b"\x86e\x85R"),
                              ("pairs_and_more", ordered + b"](" + first + TENSOR + b"\x86e\x85R" + then + TENSOR + b"s"), ("given_and_more", NAME("builtins", "dict") + b"}" + first + TENSOR + b"s\x85R" + then + TENSOR + b"s")):
                if way not in ("dict", "set") and n > 1:
                    continue
                sample("same_%s_%d_%s.pt" % (name, n, way), torch_zip(proto(4, body)), "two keys that are one to Python: %s" % name, NOT_DECIDED | RUN)
    fine = [b"K\x01", b"K\x02", b"J\xff\xff\xff\xff", b"J\xfe\xff\xff\xff", real(0.5), real(1.5), real(-1.5), long(1 << 70), long((1 << 70) + 1), value("1"), blob(b"1"), b"N", value("True"), b"K\x01\x85", b"K\x02\x85", b"J\xff\xff\xff\xff\x85", b"J\xfe\xff\xff\xff\x85",
            value(("1",)), real(float("nan")), real(float("inf")), real(float("-inf")), number("complex", 1, 2), number("complex", 2, 1), number("Decimal", "0.25"), number("Fraction", "1/3"), number("Fraction", 2, 3), item("i8", struct.pack("<q", 77)),
            item("f4", struct.pack("<f", 0.1)), real(0.1), number("Decimal", "0.1"), item("S2", b"ab"), value("ab"), item("U2", "cd".encode("utf-32-le")), NAME("torch", "float32"), NAME("torch", "int64"), NAME("torch", "float16"), torch_size + value(((1, 2),)) + b"R",
            reduce_("pathlib", "PosixPath", "a/b"), reduce_("pathlib", "PosixPath", "/a/b"), reduce_("pathlib", "PosixPath", "ab"), reduce_("datetime", "date", blob(day)), reduce_("datetime", "datetime", blob(moment)), spans[0], reduce_("datetime", "timedelta", 2),
            zones[0], names[0], reduce_("torch", "device", "cpu"), reduce_("torch", "device", "cuda:0"), reduce_("torch", "device", "cuda", 1), reduce_("torch", "device", "cuda"), sets[0], b"(K\x02K\x03\x91", b"(\x91", b")", reduce_("builtins", "range", 0, 3), reduce_("builtins", "range", 1, 3), b"\x89", TENSOR, TENSOR]
    for way, body in (("dict", b"}(" + b"".join(key + b"N" for key in fine) + b"u"), ("single", b"}" + b"".join(key + b"Ns" for key in fine)), ("set", b"\x8f(" + b"".join(fine) + b"\x90"), ("frozenset", b"(" + b"".join(fine) + b"\x91"),
                      ("opcode", b"(" + b"".join(key + b"N" for key in fine) + b"d"), ("ordered", ordered + b")R" + b"".join(key + b"Ns" for key in fine))):
        sample("fine_keys_%s.pt" % way, torch_zip(proto(4, body)), "keys of which no two are one to Python", {"plain"})
    many = b"}(" + b"".join(b"J" + struct.pack("<i", n - 5000) + b"N" for n in range(10000)) + b"u"
    sample("fine_keys_many.pkl", proto(2, many), "10,000 integers", {"plain"})
    sample("same_many.pkl", proto(2, many + real(77.0) + b"Ns"), "10,000 integers, and a float that is one of them", NOT_DECIDED)
    sample("same_many_bool.pkl", proto(2, many[:-1] + b"\x88Nu"), "10,000 integers, and True", NOT_DECIDED)
    sample("same_many_texts.pkl", proto(2, b"}" + b"".join(value("k%d" % n) + b"Ns" for n in range(3000)) + value("k1234") + b"Ns"), "3,000 texts, and one of them again", NOT_DECIDED)


keys()
dtypes_as_keys()
rounded_keys()
slow_keys()
same_keys()
same_keys_of_python2()
keys_with_units()
units_of_numpy()

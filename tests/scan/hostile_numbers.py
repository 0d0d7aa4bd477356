# SPDX-License-Identifier: Apache-2.0
"""Calls that copy the numbers of tensors, or look at them: in a stream the bytes of storages come behind the pickle, so they take what was in memory."""

import struct

from assemble import NOT_DECIDED, blob, call, files, legacy, proto, reduce_, sample, value, zip_of, Member

NAME = files.glob
FINE = {"plain"}
EMPTY = NAME("collections", "OrderedDict") + b")R"
COO = reduce_("torch.serialization", "_get_layout", "torch.sparse_coo")
CSR = reduce_("torch.serialization", "_get_layout", "torch.sparse_csr")
FORMATS = {"Char": "b", "Long": "q", "Int": "i", "Short": "h", "Byte": "B", "Float": "f", "Double": "d"}


class Storages:
    """Storages of a file, and tensors of them."""

    def __init__(self, view=b""):
        self.all = []  # (class, numbers)
        self.view = view  # of a stream None, as torch writes it

    def storage(self, kind, numbers, location="cpu"):
        self.all.append((kind, numbers))
        return b"(" + value("storage") + NAME("torch", kind + "Storage") + value(str(len(self.all) - 1)) + value(location) + b"J" + struct.pack("<i", len(numbers)) + self.view + b"tQ"

    def tensor(self, kind, numbers, shape=None, strides=None, location="cpu", version=2, bits=None):
        shape = (len(numbers),) if shape is None else shape
        if strides is None:
            strides = tuple([1] if len(shape) == 1 else [shape[1], 1])
        more = (NAME("torch", "int64"),) if version == 3 else ()
        more += () if bits is None else (bits,)
        arguments = (self.storage(kind, numbers, location), 0, shape, strides, False, EMPTY, *more)
        return reduce_("torch._utils", "_rebuild_tensor_v%d" % version, *arguments)

    def bytes_of(self, number):
        kind, numbers = self.all[number]
        return struct.pack("<%d%s" % (len(numbers), FORMATS[kind]), *numbers)

    def stream(self, body):
        numbers = range(len(self.all))
        stored = b"".join(struct.pack("<q", len(self.all[n][1])) + self.bytes_of(n) for n in numbers)
        return legacy(body=proto(2, body), keys=proto(2, value([str(n) for n in numbers])), stored=stored)

    def archive(self, body):
        members = [Member("archive/data.pkl", proto(2, body))] + [Member("archive/data/%d" % n, self.bytes_of(n)) for n in range(len(self.all))]
        return zip_of(members + [Member("archive/version", b"3\n")])


def both(name, make, why, wanted=NOT_DECIDED, in_stream=None):
    """MAKE(storages) -> opcodes. Verdicts: of an archive; of a stream, if that is another."""
    storages = Storages()
    sample("numbers_%s.pt" % name, storages.archive(make(storages)), why, wanted)
    storages = Storages(b"N")
    sample("numbers_%s_stream.pt" % name, storages.stream(make(storages)), why, wanted if in_stream is None else in_stream)


def from_type(function, arguments):
    """The same call, made by another."""
    return call(NAME("torch._tensor", "_rebuild_from_type_v2"), function, NAME("torch", "Tensor"), arguments, {})


def generators():
    state = list(struct.pack("<QiiQ", 1, 600, 1, 25) + bytes(5056 - 24))
    for name, module in (("torch", "torch"), ("inner", "torch._C")):
        for more in (None, 0):
            both("generator_%s_%s" % (name, more), lambda s, module=module, more=more: NAME(module, "Generator") + value(("cpu",)) + b"R" + value((1, more, s.tensor("Byte", state))) + b"b",
                 "a generator with its state, copied where it is set", FINE, NOT_DECIDED)
    both("generator_dropped", lambda s: b"B" + struct.pack("<I", 5056) + bytes(state) + b"0" + NAME("torch", "Generator") + value(("cpu",)) + b"R" + value((1, None, s.tensor("Byte", state))) + b"b",
         "the state of a generator out of bytes that were dropped", FINE, NOT_DECIDED)
    for offset in (1, 16, 64):
        both("generator_offset_%d" % offset, lambda s, offset=offset: NAME("torch", "Generator") + value(("cpu",)) + b"R" + value((1, None, reduce_("torch._utils", "_rebuild_tensor_v2", s.storage("Byte", [0] * offset + state), offset, (5056,), (1,), False, EMPTY))) + b"b",
             "a state that begins inside of its storage: torch 2.14 takes it from elsewhere", NOT_DECIDED, NOT_DECIDED)
    either_way = list(struct.pack("<QiiQ", 1, 100, 1, 100) + bytes(5056 - 24))
    for bit in ("neg", "conj"):
        both("generator_%s" % bit, lambda s, bit=bit: NAME("torch", "Generator") + value(("cpu",)) + b"R" + value((1, None, reduce_("torch._utils", "_rebuild_tensor_v2", s.storage("Byte", either_way), 0, (5056,), (1,), False, EMPTY, {bit: True}))) + b"b",
             "a state whose bytes torch reads as they lie, though it is said to be negated", NOT_DECIDED, NOT_DECIDED)
    both("generator_alone", lambda s: value([NAME("torch", "Generator") + value(("cpu",)) + b"R", s.tensor("Byte", state)]), "a generator without a state, and a tensor", FINE)


def product(sizes):
    out = 1
    for size in sizes:
        out *= size
    return out


def steps(sizes):
    return tuple(product(sizes[i + 1:]) for i in range(len(sizes)))


def sparse():
    rows, columns = [0, 1, 3], [0, 4, 2]
    values = [1.0, 2.0, 3.0]

    def coo(kind="Long", strides=(3, 1), location="cpu", version=2, function=None, wrap=None):
        def make(s):
            numbers = rows + columns if strides == (3, 1) else [n for pair in zip(rows, columns) for n in pair]
            indices = s.tensor(kind, numbers, (2, 3), strides, location, version)
            if wrap:
                indices = reduce_("torch._utils", "_rebuild_parameter", indices, False, EMPTY)
            arguments = (COO, (indices, s.tensor("Float", values), (4, 5)))
            name = NAME("torch._utils", "_rebuild_sparse_tensor")
            return from_type(name, arguments) if function else call(name, *arguments)

        return make

    both("coo_fine", coo(), "a sparse tensor as torch writes it", FINE)
    both("coo_columns", coo(strides=(1, 2)), "indices that are not one behind the other, as nonzero() makes them", FINE)
    both("coo_dtype", coo(version=3), "indices with a dtype of their own", FINE)
    for kind in ("Int", "Short", "Byte", "Float", "Double"):
        both("coo_%s" % kind, coo(kind), "indices of another dtype, which torch copies", NOT_DECIDED)
        both("coo_%s_from_type" % kind, coo(kind, function=True), "the same, made by another call", NOT_DECIDED)
    both("coo_parameter", coo(wrap=True), "indices that are a parameter", NOT_DECIDED)
    both("coo_location", coo(location="cuda:0"), "indices on another device, from which torch copies them", FINE, NOT_DECIDED)

    def one_entry(strides, sizes=(1, 3)):
        where = [0] * sizes[0]
        return lambda s: reduce_("torch._utils", "_rebuild_sparse_tensor", COO, (s.tensor("Long", where, (1, sizes[0])), s.tensor("Float", values, sizes, strides), (4, *sizes[1:])))

    for step in (3, 0, 1, 2, 4, 64, 2**62):
        both("coo_entry_%d" % step, one_entry((step, 1)), "the stride of one entry, which torch takes for its length", FINE if step == 3 else NOT_DECIDED)
    for sizes, strides, wanted in (((3, 0), (1, 1), FINE), ((3, 0), (64, 1), NOT_DECIDED), ((1, 1, 3), (3, 3, 1), FINE), ((1, 1, 3), (64, 3, 1), NOT_DECIDED), ((1, 1, 3), (64, 64, 1), NOT_DECIDED), ((1, 1, 3), (3, 64, 1), NOT_DECIDED), ((1, 3, 1), (3, 1, 1), FINE), ((1,), (1,), FINE), ((1,), (0,), NOT_DECIDED), ((1,), (9,), NOT_DECIDED),
                                   ((1, 2), (2, 2), NOT_DECIDED), ((1, 2), (64, 2), NOT_DECIDED), ((1, 1, 2), (4, 4, 2), NOT_DECIDED), ((2, 1), (2, 1), FINE), ((2, 1), (1, 2), FINE)):
        both("coo_entry_of_%s_%s" % ("_".join(map(str, sizes)), "_".join(map(str, strides))), one_entry(strides, sizes), "the stride of one entry, or of none", wanted)
    for name, numbers, offset, strides, wanted in (("whole", values, 0, (1,), FINE), ("column", values * 3, 0, (3,), NOT_DECIDED), ("one", values[:1], 0, (0,), NOT_DECIDED), ("all_one", values, 0, (0,), NOT_DECIDED), ("behind", values, 1, (0,), NOT_DECIDED), ("last", values * 2, 3, (0,), NOT_DECIDED), ("second", values * 2, 3, (1,), FINE)):
        for version in (2, 3):
            both("csr_repeated_%s_%d" % (name, version), lambda s, numbers=numbers, offset=offset, strides=strides, version=version: reduce_("torch._utils", "_rebuild_sparse_csr_tensor", CSR, (
                s.tensor("Long", [0, 1, 1, 2, 3]), s.tensor("Long", columns), reduce_("torch._utils", "_rebuild_tensor_v%d" % version, s.storage("Float", numbers), offset, (3,), strides, False, EMPTY, *([NAME("torch", "float32")] if version == 3 else [])), (4, 5))), "values of which torch reads as many as there are", wanted)
    def batches(sizes, strides, layout="torch.sparse_csr"):
        numbers = [1.0] * 64
        return lambda s: call(NAME("torch._utils", "_rebuild_sparse_tensor"), reduce_("torch.serialization", "_get_layout", layout), (
            s.tensor("Long", [0, 1, 2] * 2, (2, 3)), s.tensor("Long", [0, 1] * 2, (2, 2)), s.tensor("Float", numbers, sizes, strides), (2, 4 if len(sizes) == 4 else 2, 4 if len(sizes) == 4 else 2, *(sizes[2:] if len(sizes) == 3 else ()))))

    for name, sizes, strides, wanted in (("fine", (2, 2), (2, 1), FINE), ("zero", (2, 2), (4, 0), NOT_DECIDED), ("apart", (2, 2), (4, 1), NOT_DECIDED), ("hybrid", (2, 2, 2), (4, 2, 1), FINE), ("turned_batches", (2, 2), (1, 2), NOT_DECIDED), ("turned_hybrid", (2, 2, 2), (4, 1, 2), NOT_DECIDED), ("hybrid_one", (2, 2, 1), (2, 1, 1), FINE), ("hybrid_wide", (2, 2, 1), (2, 1, 64), NOT_DECIDED),
                                         ("blocks", (2, 2, 2, 2), (8, 4, 2, 1), FINE), ("turned", (2, 2, 2, 2), (8, 4, 1, 2), FINE), ("blocks_apart", (2, 2, 2, 2), (16, 8, 2, 1), NOT_DECIDED), ("blocks_zero", (2, 2, 2, 2), (8, 4, 2, 0), NOT_DECIDED)):
        both("csr_batches_%s" % name, batches(sizes, strides, "torch.sparse_bsr" if len(sizes) == 4 else "torch.sparse_csr"), "values of batches, which torch reads one behind the other", wanted)
    for strides, wanted in (((1,), FINE), ((5,), NOT_DECIDED)):
        both("csr_entry_%d" % strides, lambda s, strides=strides: reduce_("torch._utils", "_rebuild_sparse_csr_tensor", CSR, (
            s.tensor("Long", [0, 1, 1, 1, 1]), s.tensor("Long", [2]), s.tensor("Float", [1.0], (1,), strides), (4, 5))), "the same in rows", wanted)

    for location in ("meta", "meta:0"):
        both("coo_%s" % location.replace(":", "_"), coo(location=location), "indices that are not there: where the load breaks off behind it, the next one fails", NOT_DECIDED)
        both("coo_%s_all" % location.replace(":", "_"), lambda s, location=location: reduce_("torch._utils", "_rebuild_sparse_tensor", COO, (
            s.tensor("Long", rows + columns, (2, 3), (3, 1), location), s.tensor("Float", values, location=location), (4, 5))), "a sparse tensor without numbers, as no torch writes it", NOT_DECIDED)
        both("csr_%s" % location.replace(":", "_"), lambda s, location=location: reduce_("torch._utils", "_rebuild_sparse_csr_tensor", CSR, (
            s.tensor("Long", [0, 1, 1, 2, 3], location=location), s.tensor("Long", columns, location=location), s.tensor("Float", values, location=location), (4, 5))), "the same in rows", NOT_DECIDED)

    def ordered(rows, columns, coalesced):
        return lambda s: call(NAME("torch._utils", "_rebuild_sparse_tensor"), COO, (s.tensor("Long", rows + columns, (2, len(rows)), (len(rows), 1)), s.tensor("Float", [1.0] * len(rows)), (4, 5), coalesced))

    def gaps(strides, coalesced, numbers):
        return lambda s: call(NAME("torch._utils", "_rebuild_sparse_tensor"), COO, (s.tensor("Long", numbers, (2, 2), strides), s.tensor("Float", [1.0, 2.0]), (2, 2), *coalesced))

    for strides, numbers, right in (((2, 1), [0, 1, 0, 1], True), ((3, 1), [0, 1, 99, 0, 1], True), ((4, 2), [0, 99, 1, 99, 0, 99, 1], False), ((1, 2), [0, 0, 1, 1], False)):
        for name, coalesced in (("coalesced", (True,)), ("uncoalesced", (False,)), ("unsaid", ())):
            both("coo_gaps_%d_%d_%s" % (*strides, name), gaps(strides, coalesced, numbers), "places with others between them, of which torch reads as if there were none", FINE if right or name != "coalesced" else NOT_DECIDED)

    def values_of(sizes, strides, coalesced):
        return lambda s: call(NAME("torch._utils", "_rebuild_sparse_tensor"), COO, (s.tensor("Long", [0, 1, 0, 1], (2, 2)), s.tensor("Float", [1.0] * 8, sizes, strides), (2, 2, *sizes[1:]), *coalesced))

    for sizes, strides, right in (((2,), (1,), True), ((2,), (0,), False), ((2,), (2,), False), ((2, 2), (2, 1), True), ((2, 2), (1, 2), False), ((2, 2), (4, 1), False), ((2, 1), (1, 1), True), ((2, 1), (1, 9), False)):
        for name, coalesced in (("coalesced", (True,)), ("uncoalesced", (False,)), ("unsaid", ())):
            both("coo_values_of_%s_%s_%s" % ("_".join(map(str, sizes)), "_".join(map(str, strides)), name), values_of(sizes, strides, coalesced), "values that to_sparse_csr() takes as they lie", FINE if right or name != "coalesced" else NOT_DECIDED)

    many = [n // 5 for n in range(20)] , [n % 5 for n in range(20)]
    for name, places, right in (("sorted", ([0, 0, 1], [1, 4, 0]), True), ("rows", ([1, 0, 2], [0, 1, 2]), False), ("columns", ([0, 0, 1], [4, 1, 0]), False), ("twice", ([0, 0, 1], [1, 1, 0]), False), ("all", many, True), ("last", ([*many[0][:-1], 0], [*many[1][:-1], 0]), False)):
        both("coo_coalesced_" + name, ordered(*places, True), "places in the order that torch wants" if right else "places out of order, of which torch keeps a list", FINE if right else NOT_DECIDED)
        both("coo_uncoalesced_" + name, ordered(*places, False), "places in any order", FINE)

    def of_bits(bits, part, version, layout, numbers=1):
        def make(s):
            told = [bits if n == part else None for n in range(3)]
            if layout is COO:
                parts = (s.tensor("Long", [numbers] * 2, (2, 1), (1, 1), "cpu", version, told[0]), s.tensor("Float", [1.0], bits=told[1]), (4, 5))
            else:
                parts = (s.tensor("Long", [0, numbers], version=version, bits=told[0]), s.tensor("Long", [0] * numbers, version=version, bits=told[1]), s.tensor("Float", [1.0] * numbers, bits=told[2]), (1, 5))
            return reduce_("torch._utils", "_rebuild_sparse_tensor", layout, parts)
        return make

    for label, bits in (("none", {}), ("off", {"neg": False}), ("on", {"neg": True}), ("conj_off", {"conj": False}), ("both_off", {"conj": False, "neg": False})):
        for version in (2, 3):
            is_negative = "neg" in bits
            for layout, called, places in ((COO, "coo", 1), (CSR, "csr", 1)):
                both("bits_%s_%s_%d" % (called, label, version), of_bits(bits, 0, version, layout, places), "places that are negative if 'neg' is there, whatever is there", NOT_DECIDED if is_negative else FINE, NOT_DECIDED if bits else FINE)
            both("bits_csr_columns_%s_%d" % (label, version), of_bits(bits, 1, version, CSR), "columns that are 0, and so is what is negative", FINE, NOT_DECIDED if bits else FINE)
            both("bits_values_%s_%d" % (label, version), of_bits(bits, 1, version, COO), "values that are negative", FINE, NOT_DECIDED if bits else FINE)
            both("bits_csr_values_%s_%d" % (label, version), of_bits(bits, 2, version, CSR), "values that are negative", FINE, NOT_DECIDED if bits else FINE)

    # a location that is no text, and one object in both: not to be compared as texts
    for label, first in (("tuple", b"(K\x01t"), ("list", b"](K\x01e"), ("dict", b"}"), ("number", b"K\x01"), ("none", b"N"), ("bytes", b"C\x03cpu"), ("storage", b"(" + value("storage") + b"tQ")):
        def make(s, first=first):
            return reduce_("torch._utils", "_rebuild_sparse_tensor", COO, (s.tensor("Long", [0], (1, 1), (1, 1), first + b"q\xc8"), s.tensor("Float", [1.0], location=b"h\xc8"), (1,)))

        both("location_%s" % label, make, "a location that is no text", NOT_DECIDED)

        def channels(s, first=first):
            scales = (NAME("torch", "per_channel_affine"), s.tensor("Double", [1.0], location=b"h\xc8"), s.tensor("Long", [0], location=b"h\xc8"), 0)
            return reduce_("torch._utils", "_rebuild_qtensor", s.storage("Char", [1], first + b"q\xc8").replace(b"CharStorage", b"QInt8Storage"), 0, (1,), (1,), scales, False, EMPTY)

        both("location_of_scales_%s" % label, channels, "a location that is no text", NOT_DECIDED)

    stored = Storages(b"N")
    inner = reduce_("torch.storage", "_load_from_bytes", blob(stored.stream(stored.storage("Float", [1.0, 2.0]))))

    def loaded(*order):
        return lambda s: value([coo()(s) if one == "coo" else inner for one in order])

    both("coo_then_bytes", loaded("coo", "bytes"), "a file that is loaded by a call, behind a sparse tensor: torch looks at both", FINE, NOT_DECIDED)
    both("bytes_then_coo", loaded("bytes", "coo"), "a file that is loaded by a call, before a sparse tensor", FINE)

    def lines(starts, places, function):
        return lambda s: reduce_("torch._utils", function, CSR, (s.tensor("Long", starts), s.tensor("Long", places), s.tensor("Float", [1.0] * len(places)), (len(starts) - 1, 5)))

    for function in ("_rebuild_sparse_tensor", "_rebuild_sparse_csr_tensor"):
        for name, starts, places, right in (("sorted", [0, 2, 2, 5], [1, 4, 0, 1, 2], True), ("first", [0, 2, 2, 5], [4, 1, 0, 1, 2], False), ("last", [0, 2, 2, 5], [1, 4, 0, 2, 1], False), ("twice", [0, 2, 2, 5], [1, 1, 0, 1, 2], False),
                                            ("empty", [0, 0, 0, 0, 2], [0, 1], True), ("long", list(range(0, 5001, 5)), list(range(5)) * 1000, True), ("long_last", list(range(0, 5001, 5)), [*list(range(5)) * 999, 0, 1, 2, 3, 3], False)):
            both("csr_lines_%s%s" % (name, function[15:19]), lines(starts, places, function), "columns that grow in each row" if right else "columns out of order, of which torch keeps a list", FINE if right else NOT_DECIDED)

    def batches(starts, places, values, shape, function):
        def make(s):
            return reduce_("torch._utils", function, CSR, (s.tensor("Long", [0, 1, 1, 2] * (starts[0] if len(starts) > 1 else 1), starts, steps(starts)), s.tensor("Long", [0, 1] * (places[0] if len(places) > 1 else 1), places, steps(places)),
                                                          s.tensor("Float", [1.0] * product(values), values, steps(values)), shape))
        return make

    for function in ("_rebuild_sparse_tensor", "_rebuild_sparse_csr_tensor"):
        for name, starts, places, of, shape, right in (("one", (1, 4), (1, 2), (1, 2), (1, 3, 4), True), ("two", (2, 4), (2, 2), (2, 2), (2, 3, 4), True), ("dense", (4,), (2,), (2, 3), (3, 4, 3), True), ("more", (1, 4), (1, 2), (1, 2), (2, 3, 4), False),
                                                       ("fewer", (2, 4), (2, 2), (2, 2), (1, 3, 4), False), ("places", (2, 4), (1, 2), (2, 2), (2, 3, 4), False), ("values", (2, 4), (2, 2), (1, 2), (2, 3, 4), False), ("no_dense", (4,), (2,), (2, 1), (3, 4), False),
                                                       ("other_dense", (4,), (2,), (2, 3), (3, 4, 2), False), ("only_dense", (4,), (2,), (2,), (3, 4, 1), False), ("none", (0, 4), (0, 2), (0, 2), (0, 3, 4), False), ("none_of_two", (2, 0, 4), (2, 0, 2), (2, 0, 2), (2, 0, 3, 4), False)):
            both("csr_batches_%s%s" % (name, function[15:19]), batches(starts, places, of, shape, function), "sizes that belong together" if right else "sizes that do not", FINE if right else NOT_DECIDED)

    def csr(first="Long", second="Long", strides=(1,), value_strides=(1,), location="cpu", function="_rebuild_sparse_tensor"):
        def make(s):
            starts, places = [0, 1, 1, 2, 3], [0, 4, 2]
            if strides != (1,):
                places = [n for one in places for n in (one, 0)]
            numbers = values if value_strides == (1,) else [n for one in values for n in (one, 0.0)]
            parts = (s.tensor(first, starts), s.tensor(second, places, (3,), strides, location), s.tensor("Float", numbers, (3,), value_strides), (4, 5))
            return reduce_("torch._utils", function, CSR, parts)

        return make

    for function in ("_rebuild_sparse_tensor", "_rebuild_sparse_csr_tensor"):
        name = "csr" + function.replace("_rebuild_sparse", "").replace("_tensor", "")
        both("%s_fine" % name, csr(function=function), "a sparse tensor as torch writes it", FINE)
        both("%s_int" % name, csr("Int", "Int", function=function), "the same with indices of 32 bits", FINE)
        both("%s_values" % name, csr(value_strides=(2,), function=function), "values that are not one behind the other, which torch reads so to sum them up", NOT_DECIDED)
        for one, two in (("Int", "Long"), ("Long", "Int"), ("Short", "Short"), ("Float", "Float"), ("Double", "Double")):
            both("%s_%s_%s" % (name, one, two), csr(one, two, function=function), "indices of other dtypes", NOT_DECIDED)
        both("%s_strides" % name, csr(strides=(2,), function=function), "indices that are not one behind the other, which torch copies", NOT_DECIDED)
        both("%s_location" % name, csr(location="cuda:0", function=function), "indices on another device", FINE, NOT_DECIDED)


def copies():
    """_rebuild_device_tensor_from_cpu_tensor: to(dtype, device)"""
    def copy(kind, dtype, device="cpu", function=None):
        def make(s):
            arguments = (s.tensor(kind, [1, 2, 3, 4]), NAME("torch", dtype), device, False)
            name = NAME("torch._utils", "_rebuild_device_tensor_from_cpu_tensor")
            return from_type(name, arguments) if function else call(name, *arguments)

        return make

    for device in ("cpu", "meta", "xla", "cuda:1"):
        both("copy_%s" % device.replace(":", ""), copy("Float", "float32", device), "a tensor of another device, as torch writes it", FINE, NOT_DECIDED)
        for dtype in ("float64", "float16", "int32", "bfloat16", "bool"):
            both("copy_%s_%s" % (device.replace(":", ""), dtype), copy("Float", dtype, device), "the same with another dtype", NOT_DECIDED)
            both("copy_%s_%s_from_type" % (device.replace(":", ""), dtype), copy("Float", dtype, device, True), "the same, made by another call", NOT_DECIDED)
    # where the tensor is there already, it is given back as it is
    name, rest = NAME("torch._utils", "_rebuild_device_tensor_from_cpu_tensor"), NAME("torch", "float32") + value("cpu") + b"\x89"
    for what, make in (("twice", lambda t: b"](" + name + b"(" + t + rest + b"tq\x64R" + name + b"h\x64Re"), ("behind_itself", lambda t: b"](" + t + b"q\x64" + name + b"(h\x64" + rest + b"tRe"), ("of_two", lambda t: b"](" + t + b"2" + name + b"(h\x64" + rest + b"tRe"),
                       ("before_itself", lambda t: b"](" + name + b"(" + t + b"q\x64" + rest + b"tRh\x64e")):
        both("copy_" + what, lambda s, make=make: make(s.tensor("Float", [1.0, 2.0])), "a tensor in two places, of which one says that it is a copy", NOT_DECIDED, NOT_DECIDED)
    both("copy_with_attributes", copy("Float", "float32", "cpu", True), "a copy that gets attributes", NOT_DECIDED)
    both("copy_of_parameter", lambda s: reduce_("torch._utils", "_rebuild_device_tensor_from_cpu_tensor", reduce_("torch._utils", "_rebuild_parameter", s.tensor("Float", [1.0]), False, EMPTY),
                                                NAME("torch", "float32"), "cpu", False), "of a parameter", NOT_DECIDED)


def quantizers():
    def quantized(scales, points, scheme="per_channel_affine", location="cpu", function=None):
        """SCALES, POINTS: (class, strides), or opcodes"""
        def make(s):
            def numbers(one, some, of_location):
                if not isinstance(one, tuple):
                    return value(one)
                some = some if one[1] == (1,) else [n for each in some for n in (each, 1)]
                return s.tensor(one[0], some, (2,), one[1], of_location)

            storage = s.storage("Byte", [1, 2, 3, 4]).replace(b"ByteStorage", b"QUInt8Storage")
            quantizer = (NAME("torch", scheme), numbers(scales, [1, 2], location), numbers(points, [3, 4], "cpu"), *((0,) if scheme.startswith("per_channel") else ()))
            arguments = (storage, 0, (2, 2), (2, 1), quantizer, False, EMPTY)
            name = NAME("torch._utils", "_rebuild_qtensor")
            return from_type(name, arguments) if function else call(name, *arguments)

        return make

    near, far = (1,), (2,)
    floats = "per_channel_affine_float_qparams"
    both("channels_fine", quantized(("Double", near), ("Long", near)), "scales and zero points as torch keeps them", FINE)
    both("channels_fine_floats", quantized(("Float", near), ("Float", near), floats), "the same that are floats", FINE)
    both("channels_fine_written", quantized(("Float", near), ("Float", near)), "the same, with the scheme that torch writes for them", FINE)
    both("channels_lists", quantized([1, 2], [3, 4]), "the same in lists", FINE)
    for name, one, two in (("float", ("Float", near), ("Long", near)), ("int", ("Double", near), ("Int", near)), ("both", ("Float", near), ("Int", near)), ("byte", ("Double", near), ("Byte", near)),
                           ("double", ("Double", near), ("Double", near)), ("mixed", ("Double", near), ("Float", near)), ("strides", ("Double", far), ("Long", near)),
                           ("point_strides", ("Double", near), ("Long", far)), ("list", [1, 2], ("Long", near)), ("points_list", ("Double", near), [1, 2])):
        for scheme in ("per_channel_affine", floats):
            both("channels_%s_%s" % (name, scheme), quantized(one, two, scheme), "scales or zero points that torch copies", NOT_DECIDED)
        both("channels_%s_from_type" % name, quantized(one, two, function=True), "the same, made by another call", NOT_DECIDED)
    both("channels_location", quantized(("Double", near), ("Long", near), location="cuda:0"), "scales on another device", FINE, NOT_DECIDED)
    for name, one, two in (("scale", ("Double", near), 3), ("point", 1, ("Long", near)), ("both", ("Double", near), ("Long", near))):
        both("whole_%s" % name, quantized(one, two, "per_tensor_affine"), "one scale, or zero point, out of a tensor", NOT_DECIDED)
    both("whole_fine", quantized(1, 3, "per_tensor_affine"), "one scale and zero point", FINE)


def nested():
    def make(s):
        sizes = [2, 2, 3, 2]
        return reduce_("torch._utils", "_rebuild_nested_tensor", s.tensor("Float", [1.0] * 10), s.tensor("Long", sizes, (2, 2)), s.tensor("Long", [2, 1, 2, 1], (2, 2)), s.tensor("Long", [0, 4]))

    both("nested", make, "a nested tensor", FINE, NOT_DECIDED)
    def shifted(s):
        buffer = reduce_("torch._utils", "_rebuild_tensor_v2", s.storage("Float", [99.0] + [1.0] * 10), 1, (10,), (1,), False, EMPTY)
        return reduce_("torch._utils", "_rebuild_nested_tensor", buffer, s.tensor("Long", [2, 2, 3, 2], (2, 2)), s.tensor("Long", [2, 1, 2, 1], (2, 2)), s.tensor("Long", [0, 4]))

    both("nested_offset", shifted, "a nested tensor whose buffer begins inside of its storage: torch 2.14 begins where that does", NOT_DECIDED, NOT_DECIDED)
    both("nested_in_list", lambda s: value([{"a": make(s)}]), "a nested tensor", FINE, NOT_DECIDED)
    both("nested_in_parameter", lambda s: reduce_("torch._utils", "_rebuild_parameter", make(s), False, EMPTY), "a nested tensor", FINE, NOT_DECIDED)
    both("nested_dropped", lambda s: b"B" + struct.pack("<I", 32) + struct.pack("<4q", 2, 2, 3, 2) + b"0" + make(s), "a nested tensor, and its sizes in bytes that were dropped", FINE, NOT_DECIDED)


def turned():
    """Storages of a big-endian machine are turned around by their class, whatever the dtype of the tensor in them."""
    widths = {"Long": 8, "Double": 8, "Int": 4, "Float": 4, "Short": 2, "Byte": 1, "Untyped": 1}
    for kind, width in widths.items():
        def tensor(key, numbers, shape):
            strides = tuple([1] if len(shape) == 1 else [shape[1], 1])
            module = "torch.storage" if kind == "Untyped" else "torch"
            storage = (b"(" + value("storage") + NAME(module, kind + "Storage") + value(key) + value("cpu") + b"J"
                       + struct.pack("<i", len(numbers) * 8 // width) + b"tQ")
            return reduce_("torch._utils", "_rebuild_tensor_v3", storage, 0, shape, strides, False, EMPTY, NAME("torch", "int64"))

        def archive(body, *parts):
            stored = [struct.pack(">%dq" % len(numbers), *numbers) for numbers in parts] + [struct.pack(">10f", *range(10))]
            return zip_of([Member("archive/data.pkl", proto(2, body)), Member("archive/byteorder", b"big"), Member("archive/version", b"3\n")]
                          + [Member("archive/data/%d" % n, one) for n, one in enumerate(stored)])

        def floats(key, count):
            storage = b"(" + value("storage") + NAME("torch", "FloatStorage") + value(key) + value("cpu") + value(10) + b"tQ"
            return reduce_("torch._utils", "_rebuild_tensor_v2", storage, 0, (count,), (1,), False, EMPTY)

        wanted, about = FINE if width == 8 else NOT_DECIDED, "of a big-endian machine, in a %sStorage" % kind
        places, starts = [0, 1, 3, 0, 4, 2], [0, 1, 1, 2, 3]
        coo = reduce_("torch._utils", "_rebuild_sparse_tensor", COO, (tensor("0", places, (2, 3)), floats("1", 3), (4, 5)))
        sample("turned_coo_%s.pt" % kind, archive(coo, places), "indices " + about, wanted)
        for function in ("_rebuild_sparse_tensor", "_rebuild_sparse_csr_tensor"):
            csr = reduce_("torch._utils", function, CSR, (tensor("0", starts, (5,)), tensor("1", places[3:], (3,)), floats("2", 3), (4, 5)))
            sample("turned_csr%s_%s.pt" % (function[15:22].rstrip("_t"), kind), archive(csr, starts, places[3:]), "indices " + about, wanted)
        sizes, strides, offsets = [2, 2, 3, 2], [2, 1, 2, 1], [0, 4]
        nested_one = reduce_("torch._utils", "_rebuild_nested_tensor", floats("3", 10), tensor("0", sizes, (2, 2)), tensor("1", strides, (2, 2)), tensor("2", offsets, (2,)))
        sample("turned_nested_%s.pt" % kind, archive(nested_one, sizes, strides, offsets), "sizes " + about, NOT_DECIDED)


def streams_in_streams():
    """_load_from_bytes of a stream is done when it returns."""
    storages = Storages(b"N")
    inner = storages.stream(storages.storage("Byte", [1, 2, 3, 4]))
    whole = Storages(b"N")
    loaded = reduce_("torch.storage", "_load_from_bytes", b"B" + struct.pack("<I", len(inner)) + inner)
    body = reduce_("torch._utils", "_rebuild_tensor_v2", loaded, 0, (4,), (1,), False, EMPTY)
    sample("numbers_bytes.pkl", proto(3, body), "a storage in the bytes of a pickle", FINE)
    sample("numbers_bytes_stream.pt", whole.stream(body), "the same in a stream, which nobody writes", NOT_DECIDED)
    copy = reduce_("torch._utils", "_rebuild_device_tensor_from_cpu_tensor", body, NAME("torch", "uint8"), "cpu", False)
    sample("numbers_bytes_copy.pkl", proto(3, copy), "a copy of a tensor with the dtype that it has", FINE)
    sample("numbers_bytes_copy_dtype.pkl", proto(3, reduce_("torch._utils", "_rebuild_device_tensor_from_cpu_tensor", body, NAME("torch", "int8"), "cpu", False)), "the same with another", NOT_DECIDED)
    sample("numbers_bytes_copy_stream.pt", whole.stream(copy), "a copy of a tensor in a stream", NOT_DECIDED)


def read_again():
    """torch 2.6 and 2.14 read a record on meta, and unpack it, at each mention of it."""
    large = value(("storage", NAME("torch", "FloatStorage"), "0", "meta", 4 << 20))
    for count, wanted in ((1, {"plain"}), (100, NOT_DECIDED)):
        packed = zip_of([Member("archive/data.pkl", proto(2, b"](" + large + b"q\x01Q" + b"h\x01Q" * (count - 1) + b"e")), Member("archive/data/0", bytes(16 << 20), 8), Member("archive/version", b"3\n")])
        sample("named_large_storages_%d.pt" % count, packed, "a storage on meta, whose packed record is read each time it is named", wanted)


def storages_as_keys():
    """A storage that is mentioned twice is one object."""
    for what, make, wanted in (("dict", lambda p: b"}(" + p + b"K\1" + p + b"K\2u", NOT_DECIDED), ("set", lambda p: NAME("builtins", "set") + b"](" + p + p + b"e\x85R", NOT_DECIDED), ("tuples", lambda p: b"}(" + p + b"K\1\x86N" + p + b"K\1\x86Nu", NOT_DECIDED), ("alone", lambda p: b"}" + p + b"K\1s", FINE)):
        both("storage_as_key_" + what, lambda s, make=make: make(s.storage("Float", [1.0])), "a storage as a key", wanted)


def dropped():
    """What is made and dropped is in nothing that a load gives back: nobody looks at its indices but torch, which refuses the next file."""
    for name, places, wanted in (("right", [0, 1], NOT_DECIDED), ("negative", [0, -1], NOT_DECIDED)):
        for way, wrap, fine in (("pop", lambda one: one + b"0N", False), ("pop_list", lambda one: b"]" + one + b"a0N", False), ("mark", lambda one: b"(" + one + b"1N", False), ("below", lambda one: one + b"N", False), ("kept", lambda one: one + b"N\x86", True)):
            ids = [b"(" + value("storage") + NAME("torch", kind + "Storage") + value(key) + value("cpu") + value(2) + b"tQ" for key, kind in (("0", "Long"), ("1", "Float"))]
            tensors = [reduce_("torch._utils", "_rebuild_tensor_v2", one, 0, shape, stride, False, EMPTY) for one, shape, stride in ((ids[0], (1, 2), (2, 1)), (ids[1], (2,), (1,)))]
            one = reduce_("torch._utils", "_rebuild_sparse_tensor", COO, (*tensors, (3,)))
            records = [("data.pkl", proto(2, wrap(one))), ("data/0", struct.pack("<2q", *places)), ("data/1", struct.pack("<2f", 1, 2)), ("version", b"3\n")]
            sample("dropped_%s_%s.pt" % (name, way), files.archive(records), "a sparse tensor that is made and dropped", FINE if fine and name == "right" else wanted)


def classes_of_tensors():
    """torch 1.8 does not ask whether the class that a tensor is to be of is one of tensors: it writes over what an object of the class has."""
    others = [("torch", name) for name in ("FloatStorage", "FloatTensor", "UntypedStorage", "Size", "device", "Generator")] + [("torch.autograd.variable", "Variable"), ("torch.torch_version", "TorchVersion"), ("torch.return_types", "max"), ("numpy", "ndarray"), ("numpy", "dtype"), ("numpy", "float64")]
    others += [("builtins", name) for name in ("ValueError", "tuple", "range", "slice", "list", "dict", "set", "object", "type", "int", "bytearray")] + [("collections", "OrderedDict"), ("collections", "deque"), ("datetime", "datetime"), ("time", "struct_time"), ("array", "array"), ("uuid", "UUID"), ("fractions", "Fraction")]
    fine = [("torch", "Tensor")] + [("torch.nn.parameter", name) for name in ("Parameter", "Buffer", "UninitializedParameter", "UninitializedBuffer")]
    for module, function in (("torch.tensor", "_rebuild_from_type"), ("torch._tensor", "_rebuild_from_type"), ("torch._tensor", "_rebuild_from_type_v2")):
        for names, wanted in ((others, NOT_DECIDED), (fine, FINE)):
            for name in names:
                both("class_%s_%s_%s_%s" % (module, function[14:], *name), lambda s, name=name: call(NAME(module, function), NAME("torch._utils", "_rebuild_tensor_v2"), NAME(*name), (s.storage("Float", [1, 2]), 0, (2,), (1,), False, EMPTY), {}),
                     "a tensor that is to be of the class %s" % name[1], wanted)
        # of Python's library, of numpy and torch, and such that are nothing without attributes
        for name in (("collections.abc", "Mapping"), ("threading", "Thread"), ("numpy", "matrix"), ("torch.nn.modules.linear", "Linear"), ("torch.nn.modules.module", "Module"), ("torch.distributed.tensor", "DTensor"), ("socket", "socket"), ("functools", "partial"), ("collections", "UserDict"), ("types", "SimpleNamespace"), ("random", "Random"), ("re", "Pattern")):
            both("class_%s_%s_%s_%s" % (module, function[14:], *name), lambda s, name=name: call(NAME(module, function), NAME("torch._utils", "_rebuild_tensor_v2"), NAME(*name), (s.storage("Float", [1, 2]), 0, (2,), (1,), False, EMPTY), {}),
                 "a tensor that is to be of a class of a library", NOT_DECIDED | {"dangerous"})


def strides_of_nothing():
    """torch 1.12 reads behind the shorter one where a tensor without a storage has more sizes than strides, or fewer."""
    dtype = NAME("torch", "float32")
    for sizes, strides in (((3, 2), ()), ((3, 2), (1,)), ((), (1,)), ((3,), (1, 1)), ((3, 2), (2, 1, 1)), ((), ())):
        for form, wrap in (("", lambda one: one), ("sizes", lambda one: reduce_("torch", "Size", one))):
            wanted = FINE if len(sizes) == len(strides) else NOT_DECIDED
            shapes = (wrap(sizes), wrap(strides))
            for way, then in (("kept", b""), ("dropped", b"0N")):
                both("strides_meta_%d_%d_%s_%s" % (len(sizes), len(strides), form, way), lambda s: call(NAME("torch._utils", "_rebuild_meta_tensor_no_storage"), dtype, *shapes, False) + then, "a tensor on meta", wanted)
            wrapper = (NAME("torch.distributed.tensor", "DTensor"), dtype, *shapes, 0, NAME("torch", "strided"), "cpu", False)
            spread = {"_spec": NAME("torch.distributed.tensor._dtensor_spec", "DTensorSpec") + b")\x81"}
            both("strides_wrapper_%d_%d_%s" % (len(sizes), len(strides), form), lambda s: call(NAME("torch._tensor", "_rebuild_from_type_v2"), NAME("torch._utils", "_rebuild_wrapper_subclass"), NAME("torch.distributed.tensor", "DTensor"), wrapper, spread), "a tensor around others",
                 {"needs-objects"} if wanted == FINE else NOT_DECIDED)


def classes_as_methods():
    """Who uses a tensor calls what it finds under the name of a method: of a class of tensors or storages, memory that nobody has set."""
    parameter, rebuild = NAME("torch.nn.parameter", "Parameter"), NAME("torch._utils", "_rebuild_parameter")
    for method in ("sum", "mul", "reshape", "mean", "_reduce_ex_internal", "_typed_storage", "storage_offset", "mine"):
        for module, name in (("torch", "FloatTensor"), ("torch", "FloatStorage"), ("torch", "Tensor"), ("builtins", "list"), ("torch.nn.parameter", "Parameter")):
            state = {method: NAME(module, name)}
            ways = {"with_state": lambda s: call(NAME("torch._utils", "_rebuild_parameter_with_state"), s.tensor("Float", [1, 2]), True, EMPTY, state),
                    "pair": lambda s: call(NAME("torch._utils", "_rebuild_parameter_with_state"), s.tensor("Float", [1, 2]), True, EMPTY, (None, state))}
            for of, function in (("torch._tensor", "_rebuild_from_type_v2"), ("torch._tensor", "_rebuild_from_type"), ("torch.tensor", "_rebuild_from_type")):
                ways[of + function[-3:]] = lambda s, of=of, function=function: call(NAME(of, function), rebuild, parameter, (s.tensor("Float", [1, 2]), True, EMPTY), state)
            for way, make in ways.items():
                both("method_%s_%s_%s" % (method, name, way), make, "a class as an attribute of a tensor")


def arrays_of_others():
    """Of an array of other numbers than the tensor is to have torch converts each, and its versions do so in different ways."""
    sizes = {"b1": "bool", "i1": "int8", "i2": "int16", "i4": "int32", "i8": "int64", "u1": "uint8", "f2": "float16", "f4": "float32", "f8": "float64", "c8": "complex64", "c16": "complex128"}
    for text, own in sizes.items():
        nbytes = int(text[1:])
        dtype = reduce_("numpy", "dtype", text, False, True) + value((3, "|" if nbytes == 1 else "<", None, None, None, -1, -1, 0)) + b"b"
        array = reduce_("numpy.core.multiarray", "_reconstruct", NAME("numpy", "ndarray"), (0,), blob(b"b")) + value((1, (1,))) [:-1] + dtype + b"\x89" + blob(bytes(nbytes)) + b"tb"
        for kind in sorted(set(sizes.values()) | {"bfloat16", "float8_e4m3fn", "float8_e5m2", "uint16"}):
            fine = kind == own or (own, kind) == ("float32", "bfloat16")
            for function in ("_rebuild_device_tensor_from_numpy", "_rebuild_xla_tensor", "_rebuild_mlc_tensor"):
                sample("array_%s_%s_%s.pt" % (text, kind, function[9:12]), files.archive([("data.pkl", proto(2, reduce_("torch._utils", function, array, NAME("torch", kind), "cpu", False))), ("version", b"3\n")]), "an array that becomes a tensor", FINE if fine else NOT_DECIDED)


read_again()
dropped()
arrays_of_others()
classes_as_methods()
strides_of_nothing()
classes_of_tensors()
generators()
sparse()
copies()
quantizers()
nested()
turned()
streams_in_streams()
storages_as_keys()

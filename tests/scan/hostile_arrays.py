# SPDX-License-Identifier: Apache-2.0
"""Tensors and arrays whose parts do not fit together: dtypes, structures, shapes, quantizers, formats of memory; numbers of numpy with one hash."""

import struct

from assemble import Member, blob, call, files, legacy, proto, reduce_, sample, tar_of, torch_zip, value, zip_of
from hostile_objects import NOT_PLAIN, NAME, TENSOR, HOOKS, FINE, both

TENSOR_OF_BYTES = reduce_("torch._utils", "_rebuild_tensor_v2", reduce_("torch.storage", "_load_from_bytes", blob(legacy())), 0, (1,), (1,), False, NAME("collections", "OrderedDict") + b")R")


def masked_arrays():
    """numpy makes an array of this shape and dtype before it has any bytes: of a billion, or of pointers."""
    make = NAME("numpy.ma.core", "_mareconstruct")
    masked, array = NAME("numpy.ma.core", "MaskedArray"), NAME("numpy", "ndarray")
    for name, shape, dtype in (("O", (10**8,), "O"), ("b", (10**9,), "b"), ("two", (0, 10**9), "b"), ("none", (), "b"), ("one", (1,), "b"), ("list", [0], "b"), ("wide", (0,), "V1000000000"), ("fields", (0,), [("a", "O")]), ("minus", (-1,), "b")):
        both("masked_%s" % name, call(make, masked, array, shape, dtype), "a masked array that numpy does not write")
    for name, dtype in (("b", "b"), ("bytes", blob(b"b"))):
        sample("fine_masked_%s.pkl" % name, proto(4, call(make, masked, array, (0,), dtype)), "a masked array as numpy writes it", {"needs-objects"})


def dtypes_without_a_size():
    """numpy writes 'f4', never 'f': 'c' is a text of one byte, and takes the size of a number, -1, as its own."""
    for code in ("c", "S", "U", "f", "i", "b", "?", "V", "O", "d", "<c", "|c"):
        state = value((3, "|", None, None, None, -1, -1, 0)) + b"b"
        dtype = reduce_("numpy", "dtype", code, False, True) + state
        number = code.replace("?", "bool").replace("<", "lt").replace("|", "bar")
        both("no_size_%s" % number, reduce_("numpy.core.multiarray", "scalar", dtype, blob(b"")), "a scalar of a dtype that says no size")
        both("no_size_%s_array" % number, NAME("numpy.core.multiarray", "_reconstruct") + b"(" + NAME("numpy", "ndarray") + value((0,)) + blob(b"b") + b"tR(K\x01" + value((1,)) + dtype + b"\x89" + blob(b"abcd") + b"tb",
             "an array of such a dtype")


def broken_dtypes():
    """Fields that are none, beside one of text: the scan must not look into them."""
    calls = [reduce_("numpy", "dtype", *arguments) for arguments in ((("i4", False, True),), (1, False, True), (None, False, True), ([],), (reduce_("numpy", "dtype", "f4"),), ("x" * 5, False, True), ())]
    for number, first in enumerate([b"N", NAME("torch", "Tensor"), value(1), b")", value((1, 2))] + [b"(" + made + state + value(0) + b"t" for made in calls for state in (b"", value((3, "<", None, None, None, -1, -1, 0)) + b"b")]):
        text = reduce_("numpy", "dtype", "U5", False, True) + value((3, "<", None, None, None, 20, 4, 8)) + b"b"
        fields = b"}(" + value("a") + first + value("b") + b"(" + text + value(20) + b"tu"
        dtype = reduce_("numpy", "dtype", "V40", False, True) + b"(" + value(3) + value("|") + b"N" + value(("a", "b")) + fields + value(40) + value(1) + value(16) + b"tb"
        both("dtype_field_%d" % number, NAME("numpy.core.numeric", "_frombuffer") + b"(" + blob(b"x" * 40) + dtype + value((1,)) + value("C") + b"tR", "a field of a dtype that is none")
        both("dtype_field_state_%d" % number, NAME("numpy.core.multiarray", "_reconstruct") + b"(" + NAME("numpy", "ndarray") + value((0,)) + blob(b"b") + b"tR(" + value(1) + value((1,)) + dtype + b"\x89" + blob(b"x" * 40) + b"tb", "the same in the state of an array")


def versions_of_dtypes():
    """numpy 1.19 follows a pointer to fields that are not there, where the state is of an older version."""
    for text, size, flags in (("U2", 8, 8), ("S8", 8, 0), ("V4", 4, 0), ("f4", -1, 0)):
        for version in (0, 1, 2, 3, 4, 5, -1):
            dtype = reduce_("numpy", "dtype", text, False, True) + value((version, "<" if text[0] in "Uf" else "|", None, None, None, size, -1 if size < 0 else 4 if text[0] == "U" else 1, flags)) + b"b"
            for name, body in (("scalar", NAME("numpy.core.multiarray", "scalar") + b"(" + dtype + blob(bytes(8 if text != "V4" and text != "f4" else 4)) + b"tR"),
                               ("buffer", NAME("numpy.core.numeric", "_frombuffer") + b"(" + blob(bytes(8 if text != "V4" and text != "f4" else 4)) + dtype + value((1,)) + value("C") + b"tR")):
                both("dtype_version_%s_%s_%d" % (name, text, version), body, "the state of a dtype of version %d" % version, FINE if version == 3 else NOT_PLAIN)


def orders_of_bytes():
    """numpy turns around what says that it is of another machine, also one byte, or a pointer to an object, and ends."""
    sizes = {"S3": (3, 1, 0), "U2": (8, 4, 8), "V4": (4, 1, 0)}
    for text, ordered in (("O8", False), ("b1", False), ("i1", False), ("u1", False), ("S3", False), ("V4", False), ("i2", True), ("f4", True), ("c16", True), ("U2", True)):
        size, alignment, flags = sizes.get(text, (-1, -1, 63 if text == "O8" else 0))
        for name, order in (("little", "<"), ("big", ">"), ("none", "|"), ("native", "=")):
            dtype = reduce_("numpy", "dtype", text, False, True) + value((3, order, None, None, None, size, alignment, flags)) + b"b"
            nbytes = size if size > 0 else int(text[1:])
            items = value(["a"]) if text == "O8" else blob(bytes(nbytes))
            both("order_%s_%s" % (text, name), NAME("numpy.core.multiarray", "_reconstruct") + b"(" + NAME("numpy", "ndarray") + value((0,)) + blob(b"b") + b"tR(" + value(1) + value((1,)) + dtype + b"\x89" + items + b"tb",
                 "an array of %s whose bytes have the order %s" % (text, order), FINE if order in ("<>" if ordered else "|") else NOT_PLAIN)


def titles_of_fields():
    """numpy takes a third item of a field for a second name, and does not ask what it is: it looks for it among the fields, or copies the field no more."""
    four = reduce_("numpy", "dtype", "i4", False, True) + value((3, "<", None, None, None, -1, -1, 0)) + b"b"
    for name, title in (("none", b""), ("same", value("a")), ("other", value("b")), ("new", value("t")), ("number", value(5)), ("bytes", blob(b"a")), ("None", b"N")):
        fields = b"}(" + value("a") + b"(" + four + value(0) + title + b"t" + value("b") + b"(" + four + value(4) + b"tu"
        dtype = reduce_("numpy", "dtype", "V8", False, True) + b"(" + value(3) + value("|") + b"N" + value(("a", "b")) + fields + value(8) + value(1) + value(16) + b"tb"
        body = NAME("numpy.core.multiarray", "_reconstruct") + b"(" + NAME("numpy", "ndarray") + value((0,)) + blob(b"b") + b"tR(" + value(1) + value((2,)) + dtype + b"\x89" + blob(bytes(16)) + b"tb"
        both("title_%s" % name, body, "a field with a title that is none", NOT_PLAIN if title else FINE)


def indices_of_devices():
    """torch keeps eight bits of an index, 1.7 sixteen."""
    for name, arguments, wanted in (("127", ("cuda", 127), FINE), ("128", ("cuda", 128), NOT_PLAIN), ("255", ("cuda", 255), NOT_PLAIN), ("16960", ("cuda", 16960), NOT_PLAIN), ("minus", ("cuda", -1), NOT_PLAIN), ("text_127", ("cuda:127",), FINE), ("text_128", ("cuda:128",), NOT_PLAIN),
                                    ("text_256", ("cuda:256",), NOT_PLAIN), ("text_long", ("cuda:" + "9" * 30,), NOT_PLAIN), ("none", ("cuda",), FINE)):
        both("device_index_%s" % name, reduce_("torch", "device", *arguments), "a device with an index that torch does not keep", wanted)
    for number, wanted in ((3, FINE), (200, NOT_PLAIN), (256, NOT_PLAIN)):
        both("device_index_of_generator_%d" % number, reduce_("torch", "Generator", "meta:%d" % number), "the same, as the device of a generator", wanted)


def lies_about_storages():
    """Whoever loads a checkpoint, wherever it lies, believes what its pickle says of its storages: torch until 2.6 looks at no record's size."""
    honest, lying = (proto(2, value({"w": files.tensor(numel=count, shape=(count,))})) for count in (4, 1 << 20))
    missing = proto(2, value({"w": files.tensor(key="9")}))
    for name, body, wanted in (("honest", honest, FINE), ("lying", lying, NOT_PLAIN), ("missing", missing, NOT_PLAIN | {"inconsistent"})):
        zipped = torch_zip(body, data=files.FOUR_FLOATS)
        stream = legacy(body=body, keys=proto(2, value(["0"])), stored=struct.pack("<q", 4) + files.FOUR_FLOATS)
        sample("storages_%s.pt" % name, zipped, "a checkpoint of which the pickle says more than the records", wanted)
        sample("storages_%s.distcp" % name, zipped, "the same as an item of a DCP directory", wanted)
        sample("storages_%s_first.distcp" % name, zipped + torch_zip(proto(2, value({"a": 1}))), "the same as the first of two items", wanted)
        sample("storages_%s_last.distcp" % name, torch_zip(proto(2, value({"a": 1}))) + zipped, "the same as the last of two items", wanted)
        sample("storages_%s_inside.zip" % name, zip_of([Member("policy.pth", zipped), Member("data.json", b"{}")]), "the same in a zip archive", wanted)
        sample("storages_%s_stream_inside.zip" % name, zip_of([Member("policy.pth", stream)]), "a stream in a zip archive", wanted)
        sample("storages_%s_twice.zip" % name, zip_of([Member("a.zip", zip_of([Member("policy.pth", zipped)]))]), "the same in an archive in an archive", wanted)
        sample("storages_%s_inside.tar" % name, tar_of([("model.pth", stream), ("note.txt", b"hello")]), "the same in a tar", wanted)
        package = [(".data/0.storage", files.FOUR_FLOATS), ("m/o.pkl", body), (".data/extern_modules", b"_codecs\n"), (".data/python_version", b"3.9.2"), (".data/version", b"6\n")]
        sample("storages_%s_package.pt" % name, files.archive(package), "the same in an archive of torch.package", wanted)
    for first, then, count in (("Float", "Double", 4), ("Byte", "Float", 4), ("Float", "Float", 3)):
        body = proto(2, b"](" + files.tensor(kind=first) + files.tensor(kind=then, numel=count, shape=(count,)) + b"e")
        package = [(".data/0.storage", bytes(32)), ("m/o.pkl", body), (".data/extern_modules", b"_codecs\n"), (".data/python_version", b"3.9.2"), (".data/version", b"6\n")]
        sample("storages_two_%s_%s_package.pt" % (first, then), files.archive(package), "a storage of a package that is of two classes, or lengths", NOT_PLAIN)


def numpy_dtype(size, fields, names=("a",), version=3):
    """numpy.dtype('V...') with the state of a structure; FIELDS: opcodes of a dict."""
    return reduce_("numpy", "dtype", "V%d" % size, False, True) + b"q\x20(" + value(version) + value("|") + b"N" + value(names) + fields + value(size) + value(1) + value(16) + b"tb"


def structures():
    """What numpy keeps of a dtype, and never looks at again."""
    four = reduce_("numpy", "dtype", "i4", False, True) + value((3, "<", None, None, None, -1, -1, 0)) + b"b"
    field = b"}q\x21" + value("a") + b"(" + four + value(0) + b"ts"
    array = NAME("numpy.core.multiarray", "_reconstruct") + b"(" + NAME("numpy", "ndarray") + value((0,)) + blob(b"b") + b"tR("

    def of(dtype):
        return array + value(1) + value((5,)) + dtype + b"\x89" + blob(b"x" * 20) + b"tb"

    for name, inner, shape in (("structure", reduce_("numpy", "dtype", "V0", False, True) + value((3, "|", None, (), {}, 0, 1, 16)) + b"b", (2**30,)), ("zero", four, (2**20, 0)), ("zeros", four, (0,)), ("one", four, (1,))):
        whole = 4 if name == "one" else 0
        dtype = reduce_("numpy", "dtype", "V%d" % whole, False, True) + b"(" + value(3) + value("|") + b"(" + inner + value(shape) + b"tNN" + value(whole) + value(1) + value(0) + b"tb"
        of_fields = numpy_dtype(4 + whole, b"}(" + value("a") + b"(" + dtype + value(0) + b"t" + value("b") + b"(" + four + value(whole) + b"tu", ("a", "b"))
        sample("structure_of_nothing_%s.pkl" % name, proto(4, of_fields), "a field that is an array of items without bytes", FINE if name == "one" else NOT_PLAIN)
    for name, text, nbytes, right in (("int", "i4", 5, False), ("float", "f4", 8, False), ("short", "i2", 1, False), ("complex", "c8", 16, False), ("text", "S1", 2, False), ("fine", "i4", 4, True), ("fine_text", "S3", 3, True)):
        order = "|" if text[0] == "S" else "<"
        size = int(text[1:]) if text[0] == "S" else -1
        kind = reduce_("numpy", "dtype", text, False, True) + value((3, order, None, None, None, size, 1 if size > 0 else -1, 0)) + b"b"
        for form, data in (("bytes", blob(b"a" * nbytes)), ("encoded", reduce_("_codecs", "encode", "\xe9" * nbytes, "latin1"))):
            both("scalar_bytes_%s_%s" % (name, form), reduce_("numpy.core.multiarray", "scalar", kind, data), "a number of more or fewer bytes than its dtype has", FINE if right else NOT_PLAIN)
    good = numpy_dtype(4, field)
    sample("fine_structure.pkl", proto(2, of(good)), "a structured array", FINE)
    for number, (name, item) in enumerate((("a", b"(" + four + value(2**31 - 1) + b"t"), ("a", b"(h\x20" + value(0) + b"t"), ("b", b"(" + four + value(4) + b"t"), ("a", b"N"))):
        both("structure_later_%d" % number, of(good) + b"0h\x21" + value(name) + item + b"s", "a field of a dtype changes behind its state")
        both("structure_later_key_%d" % number, good + b"0h\x21" + value(name) + item + b"s0}h\x20K\x01s", "the same, and the dtype is a key")
        both("structure_later_items_%d" % number, good + b"0h\x21(" + value(name) + item + b"u", "the same by SETITEMS")
    inside = b"}q\x21" + value("a") + b"(h\x20" + value(0) + b"ts"
    both("structure_itself", numpy_dtype(4, inside), "a dtype in its own field")
    both("structure_itself_key", b"}" + numpy_dtype(4, inside) + b"K\x01s", "the same as a key, which is hashed without end")
    both("structure_name_object", reduce_("numpy", "dtype", "V4", False, True) + b"q\x20(" + value(3) + value("|") + b"N(h\x20t}h\x20(" + four + value(0) + b"ts" + value(4) + value(1) + value(16) + b"tb", "a dtype as the name of its own field")
    both("structure_name_number", numpy_dtype(4, b"}" + value(5) + b"(" + four + value(0) + b"ts", (5,)), "a name of a field that is a number")
    both("structure_array_itself", reduce_("numpy", "dtype", "V4", False, True) + b"q\x20(" + value(3) + value("|") + b"(h\x20" + value((1,)) + b"tNN" + value(4) + value(1) + value(16) + b"tb", "a dtype that is an array of itself")
    both("structure_key", b"}" + good + b"K\x01s", "a structure as a key: its fields are hashed as often as they are met")
    for count in (33, 64, 100, 1000):
        shape = (0,) + (0x4141,) * (count - 1)
        both("dimensions_state_%d" % count, array + value(1) + value(shape) + four + b"\x89" + blob(b"") + b"tb", "an array of %d dimensions, for which numpy 1 has no room" % count)
        both("dimensions_ones_%d" % count, array + value(1) + value((1,) * count) + four + b"\x89" + blob(b"x" * 4) + b"tb", "the same of ones")
        both("dimensions_buffer_%d" % count, NAME("numpy.core.numeric", "_frombuffer") + b"(" + blob(b"x" * 4) + four + value((1,) * count) + value("C") + b"tR", "the same from a buffer")
        both("dimensions_inner_%d" % count, reduce_("numpy", "dtype", "V4", False, True) + b"(" + value(3) + value("|") + b"(" + four + value((1,) * count) + b"tNN" + value(4) + value(1) + value(16) + b"tb", "a dtype of arrays with so many")
    for number, state in enumerate((b"(" + TENSOR + b"\x89" + HOOKS + b"q\x22\x89\x89t", b"(\x89\x89" + HOOKS + b"q\x22t", b"(" + TENSOR + b"\x89}q\x22\x89\x89t")):
        both("later_hooks_state_%d" % number, NAME("torch", "Tensor") + b")R" + state + b"b0h\x22K\x01K\x02s", "hooks of a state that are put in behind it")
    for number, body in ((3, reduce_("__builtin__", "set", [1])), (4, reduce_("__builtin__", "bytearray", "a", "latin1")), (5, reduce_("exceptions", "ValueError", "x")), (3, NAME("__builtin__", "int"))):
        both("python2_name_%d_%d" % (number, len(body)), body, "a name of Python 2, which no unpickler translates from protocol 3 on", protocol=number)


def quantized():
    """Zero points that torch believes: it crashes where those of 32-bit numbers are floats."""
    def tensor(kind, key, numel, size):
        return NAME("torch._utils", "_rebuild_tensor_v2") + b"((" + value("storage") + NAME("torch", kind + "Storage") + value(key) + value("cpu") + value(numel) + b"tQK\x00" + value((size,)) + value((1,)) + b"\x89" + HOOKS + b"tR"

    data = {"1": struct.pack("<4d", 1, 2, 3, 4), "2": struct.pack("<4q", 0, 1, 2, 3), "3": struct.pack("<4f", 1, 2, 3, 4)}
    for kind, width in (("QInt32", 4), ("QUInt8", 1), ("QInt8", 1), ("QUInt4x2", 1)):
        for scheme in ("per_channel_affine", "per_channel_symmetric", "per_channel_affine_float_qparams"):
            floats = scheme.endswith("qparams")
            for zero, points in (("Long", "2"), ("Float", "3"), ("Double", "1")):
                fine = zero == "Long" and not floats or kind != "QInt32" and zero == "Float" and floats
                body = value({"w": NAME("torch._utils", "_rebuild_qtensor") + b"((" + value("storage") + NAME("torch", kind + "Storage") + value("0") + value("cpu") + value(4 if kind != "QUInt4x2" else 8) + b"tQK\x00" + value((4,)) + value((1,))
                              + b"(" + NAME("torch", scheme) + tensor("Float" if floats else "Double", "5" if floats else "4", 4, 4) + tensor(zero, points, 4, 4) + value(0) + b"t\x89" + HOOKS + b"tR"})
                records = [(key, data[key]) for key in "123"] + [("4", data["1"]), ("5", data["3"]), ("0", bytes(range(4 * width if kind != "QUInt4x2" else 8)))]
                sample("quantized_%s_%s_%s.pt" % (kind, scheme, zero), files.archive([("data.pkl", proto(2, body))] + [("data/" + key, item) for key, item in records if ("X" + "\1\0\0\0" + key).encode() in body] + [("version", b"3\n")]),
                       "a tensor quantized with zero points of another dtype", FINE if fine else NOT_PLAIN)


def formats_of_memory():
    """torch.contiguous_format as torch 2 writes it: getattr() is called for that, and is no value."""
    getattr_, torch_ = NAME("__builtin__", "getattr") + b"q\x31", NAME("torch._utils", "torch") + b"q\x32"
    for name in ("channels_last", "channels_last_3d", "contiguous_format", "preserve_format"):
        fine = getattr_ + torch_ + value(name) + b"\x86R"
        sample("fine_getattr_%s.pkl" % name, proto(2, fine), "a format of memory", FINE)
        sample("fine_dotted_%s.pkl" % name, proto(4, value("torch._utils") + value("torch." + name) + b"\x93"), "a format of memory, as protocol 4 has it", FINE)
        for number, body in enumerate((b"(" + fine + b"h\x31t", b"](" + fine + b"h\x31e", fine + b"0}" + value("x") + b"h\x31s", fine + b"0" + NAME("collections", "defaultdict") + b"h\x31\x85R",
                                       fine + b"0h\x31", fine + b"0h\x32", fine + b"0h\x31h\x32" + value("save") + b"\x86R", fine + b"0" + reduce_("functools", "partial", b"h\x31"),
                                       NAME("operator", "getitem") + b"q\x33" + NAME("typing", "Optional") + NAME("builtins", "int") + b"\x86R0h\x33")):
            both("getattr_%s_%d" % (name, number), body, "getattr() as a value, behind a harmless call of it")


def rebuilt(kind, *arguments, numel=4):
    """A call of torch._utils with a storage of KIND in front."""
    stored = b"(" + value("storage") + NAME("torch", kind) + value("0") + value("cpu") + value(numel) + b"tQ"
    return stored, lambda function, *rest: reduce_("torch._utils", function, stored, *rest)


def wrappers():
    """A DTensor without the object that says how it is spread: a copy of it, on a device that is not there, ends torch 2.6 and 2.14."""
    parts = lambda module, place: (NAME(module, "DTensor"), NAME("torch", "float32"), (4,), (1,), 0, NAME("torch", "strided"), place, True)
    spec = reduce_("torch.distributed.tensor._dtensor_spec", "DTensorSpec")
    for module in ("torch.distributed.tensor", "torch.distributed._tensor", "torch.distributed._tensor.api"):
        for place in ("cpu", "mps", "cuda:0"):
            for number, state, wanted in ((0, b"N", NOT_PLAIN), (1, {}, NOT_PLAIN), (2, {"_local_tensor": TENSOR, "_spec": 1}, NOT_PLAIN), (3, {"_local_tensor": TENSOR, "_spec": spec}, {"needs-objects"}), (4, (None, {"_local_tensor": TENSOR, "_spec": spec}), {"needs-objects"}), (5, (None, {"_local_tensor": TENSOR}), NOT_PLAIN), (6, ({"_spec": spec}, {}), NOT_PLAIN)):
                sample("wrapper_%s_%s_%d.pt" % (module[18:], place, number), torch_zip(proto(2, reduce_("torch._tensor", "_rebuild_from_type_v2", NAME("torch._utils", "_rebuild_wrapper_subclass"), NAME(module, "DTensor"), value(parts(module, place)), state))),
                       "a DTensor with parts, or without", wanted)
            sample("wrapper_%s_%s_alone.pt" % (module[18:], place), torch_zip(proto(2, value({"w": TENSOR}) + b"0" + reduce_("torch._utils", "_rebuild_wrapper_subclass", *parts(module, place)))), "a DTensor alone", NOT_PLAIN)


def wide_views():
    """Numbers of 16 bytes have to begin at a multiple of these; a view in a stream may begin anywhere."""
    make = NAME("torch._utils", "_rebuild_tensor_v3")
    for kind, width in (("Double", 8), ("Byte", 1)):
        for dtype in ("complex128", "complex64"):
            for name, view, wanted in (("none", None, {"plain"}), ("odd", ("1", 8 // width, 16 // width), {"plain"} if dtype == "complex64" else NOT_PLAIN)):
                stored = value(("storage", NAME("torch", kind + "Storage"), "0", "cpu", 24 // width, view)) + b"Q"
                body = proto(2, make + value((stored, 0, (1,), (1,), False, HOOKS, NAME("torch", dtype))) + b"R")
                sample("wide_view_%s_%s_%s.pt" % (kind, dtype, name), legacy(body=body, keys=proto(2, value(["0"])), stored=struct.pack("<q", 24 // width) + bytes(24)), "numbers of 16 bytes over a view", wanted)


def wide_records():
    """torch.load(mmap=True) takes numbers where they lie in the archive; those of 16 bytes have to begin at a multiple of these, also where they are no tensor of their own."""
    wide, index = files.tensor(kind="ComplexDoubleStorage"), files.tensor("1", "LongStorage", 4, (1, 4), (4, 1))
    rows, values = files.tensor("1", "LongStorage", 4, (2,), (1,)), files.tensor(kind="ComplexDoubleStorage", shape=(1,))
    shaped = {"sparse_coo": (index, wide, (4,)), "sparse_csr": (rows, files.tensor("1", "LongStorage", 4, (1,), (1,)), values, (1, 4))}
    bodies = {name: reduce_("torch._utils", "_rebuild_sparse_tensor", reduce_("torch.serialization", "_get_layout", "torch." + name), parts) for name, parts in shaped.items()}
    bodies["dtype"] = NAME("torch._utils", "_rebuild_tensor_v3") + value((files.storage(kind="DoubleStorage", numel=8), 0, (4,), (1,), False, HOOKS, NAME("torch", "complex128"))) + b"R"
    bodies.update(tensor=wide, storage=files.storage(kind="ComplexDoubleStorage"), narrow=files.tensor(kind="ComplexFloatStorage", numel=8))
    for what, body in bodies.items():
        for name, offset, wanted in (("fine", 0, {"plain"}), ("odd", 8, {"plain"} if what == "narrow" else NOT_PLAIN)):
            for pads in range(256):
                stored = [Member("a/pad", bytes(pads // 16)), Member("a/data/1", struct.pack("<4q", 0, 1, 2, 3)), Member("a/pad2", bytes(pads % 16)), Member("a/data/0", bytes(64))]
                archive = zip_of([Member("a/data.pkl", proto(2, body)), *stored, Member("a/version", b"3\n")])
                if archive.index(b"a/data/1") % 16 == 8 and archive.index(b"a/data/0") % 16 == (8 + offset) % 16:
                    sample("wide_%s_%s.pt" % (what, name), archive, "numbers of 16 bytes, of which torch.load(mmap=True) takes the place as it is", wanted)


def views_in_bytes():
    """A storage in bytes of a pickle that is a view has as many items as that; torch until 1.13 makes quantized tensors that are larger."""
    scheme = b"(" + NAME("torch", "per_tensor_affine") + b"G?\xf0" + bytes(6) + b"K\x00t"
    for kind in ("QInt8", "QUInt8", "QUInt4x2"):
        for name, view, count, offset, wanted in (("none", None, 8, 0, FINE), ("whole", ("v", 0, 8), 8, 0, FINE), ("part", ("v", 0, 4), 4, 0, FINE), ("part_behind", ("v", 4, 4), 4, 0, FINE), ("small", ("v", 0, 1), 8, 0, NOT_PLAIN), ("empty", ("v", 0, 0), 1, 0, NOT_PLAIN),
                                                  ("offset", ("v", 0, 4), 4, 1, NOT_PLAIN), ("behind", ("v", 6, 2), 4, 0, NOT_PLAIN), ("outside", ("v", 6, 4), 2, 0, NOT_PLAIN), ("negative", ("v", -1, 4), 2, 0, NOT_PLAIN), ("list", ["v", 0, 8], 8, 0, NOT_PLAIN), ("four", ("v", 0, 8, 0), 8, 0, NOT_PLAIN)):
            stored = value(("storage", NAME("torch", kind + "Storage"), "0", "cpu", 8, view)) + b"Q"
            inner = reduce_("torch.storage", "_load_from_bytes", blob(legacy(body=proto(2, stored), keys=proto(2, value(["0"])), stored=struct.pack("<q", 8) + bytes(8))))
            body = NAME("torch._utils", "_rebuild_qtensor") + b"(" + inner + value(offset) + value((count,)) + value((1,)) + scheme + b"\x89" + HOOKS + b"tR"
            sample("view_in_bytes_%s_%s.pkl" % (kind, name), proto(2, body), "a quantized tensor over a view that is in bytes", wanted if kind != "QUInt4x2" or wanted is NOT_PLAIN or view is None else NOT_PLAIN)


def storages_said_twice():
    """Of a key torch takes what was said first, of a view and of what it is a view of."""
    scheme = b"(" + NAME("torch", "per_tensor_affine") + b"G?\xf0" + bytes(6) + b"K\x00t"

    def said(kind, key, count, view=None):
        return value(("storage", NAME("torch", kind + "Storage"), key, "cpu", count, view)) + b"Q"

    for kind in ("QInt8", "QUInt8", "Char"):
        for name, first, last, roots, wanted in (
            ("same", said(kind, "0", 8, ("v", 0, 8)), said(kind, "0", 8, ("v", 0, 8)), {"0": 8}, FINE),
            ("other_view", said(kind, "0", 8, ("u", 7, 1)), said(kind, "0", 8, ("v", 0, 8)), {"0": 8}, FINE),
            ("view", said(kind, "0", 8, ("v", 7, 1)), said(kind, "0", 8, ("v", 0, 8)), {"0": 8}, NOT_PLAIN),
            ("view_of_as_many", said(kind, "0", 8, ("v", 4, 4)), said(kind, "0", 8, ("v", 0, 4)), {"0": 8}, NOT_PLAIN),
            ("view_of_another", said(kind, "1", 1, ("v", 0, 1)), said(kind, "0", 8, ("v", 0, 8)), {"1": 1, "0": 8}, NOT_PLAIN),
            ("view_of_itself", said(kind, "0", 8, ("0", 0, 1)), said(kind, "0", 8), {"0": 8}, NOT_PLAIN),
            ("view_with_a_number", said(kind, "0", 8, (3, 0, 1)), said(kind, "0", 8, (3, 0, 8)), {"0": 8}, NOT_PLAIN),
            ("whole", said(kind, "v", 1), said(kind, "0", 8, ("v", 0, 8)), {"v": 1, "0": 8}, NOT_PLAIN),
            ("whole_later", said(kind, "0", 8, ("v", 0, 1)), said(kind, "v", 8), {"0": 8}, NOT_PLAIN | {"inconsistent"}),
            ("count", said(kind, "0", 1), said(kind, "0", 8), {"0": 1}, NOT_PLAIN),
            ("number", said(kind, 0, 1), said(kind, 0, 8), {0: 1}, NOT_PLAIN | {"inconsistent"}),
            ("number_once", said(kind, 0, 8), said(kind, 0, 8), {0: 8}, NOT_PLAIN | {"inconsistent"}),
        ):
            count = 4 if name == "view_of_as_many" else 8
            inner = reduce_("torch.storage", "_load_from_bytes", blob(legacy(body=proto(2, first + b"0" + last), keys=proto(2, value(list(roots))), stored=b"".join(struct.pack("<q", n) + bytes(n) for n in roots.values()))))
            rest = value(0) + value((count,)) + value((1,)) + (scheme if kind != "Char" else b"") + b"\x89" + HOOKS + b"tR"
            sample("storage_said_twice_%s_%s.pkl" % (kind, name), proto(2, NAME("torch._utils", "_rebuild_qtensor" if kind != "Char" else "_rebuild_tensor_v2") + b"(" + inner + rest), "a storage in bytes, of which two things are said under one key", wanted)


def numbers_of_uuids():
    """A UUID has 128 bits."""
    for name, data, wanted in (("most", b"\xff" * 16 + b"\0", FINE), ("more", bytes(16) + b"\1", NOT_PLAIN), ("negative", b"\xff" * 9, NOT_PLAIN), ("minus", b"\xff", NOT_PLAIN), ("small", b"\5", FINE), ("wide", bytes(15) + b"\x7f", FINE), ("high", bytes(15) + b"\x80", NOT_PLAIN)):
        both("uuid_%s" % name, NAME("uuid", "UUID") + b")\x81" + b"}" + value("int") + b"\x8a" + bytes([len(data)]) + data + b"sb", "a UUID of a number that has more bits, or less", wanted)
    # as uuid1() of Linux says whether it is unique
    for name, state, wanted in (("0", {"int": 5, "is_safe": 0}, FINE), ("unsafe", {"int": 5, "is_safe": -1}, FINE), ("2", {"int": 5, "is_safe": 2}, NOT_PLAIN), ("minus_2", {"int": 5, "is_safe": -2}, NOT_PLAIN), ("alone", {"is_safe": 0}, NOT_PLAIN), ("nothing", {}, NOT_PLAIN)):
        both("uuid_safe_%s" % name, NAME("uuid", "UUID") + b")\x81" + value(state) + b"b", "a UUID that says how safe it is", wanted)


def packed_items():
    """Numbers of less than a byte: torch counts in bytes where they begin."""
    for kind, numel, offset, size, wanted in (("QUInt4x2Storage", 4, 0, 8, {"plain"}), ("QUInt4x2Storage", 4, 2, 4, {"plain"}), ("QUInt4x2Storage", 4, 2, 5, NOT_PLAIN), ("QUInt4x2Storage", 4, 3, 3, NOT_PLAIN), ("QUInt2x4Storage", 4, 3, 4, {"plain"}), ("QUInt2x4Storage", 4, 3, 5, NOT_PLAIN)):
        body = NAME("torch._utils", "_rebuild_qtensor") + b"((" + value("storage") + NAME("torch", kind) + value("0") + value("cpu") + value(numel) + b"tQ" + value(offset) + value((size,)) + value((1,)) + b"(" + NAME("torch", "per_tensor_affine") + b"G?\xf0" + bytes(6) + b"K\x00t\x89" + HOOKS + b"tR"
        sample("quantized_begins_%s_%d_%d.pt" % (kind, offset, size), files.archive([("data.pkl", proto(2, body)), ("data/0", bytes(numel)), ("version", b"3\n")]), "numbers of less than a byte that begin later in their storage", wanted)


def without_a_quantizer():
    """torch makes a tensor of a quantized class without one, and follows the pointer to it that is not there."""
    hooks = NAME("collections", "OrderedDict") + b")R"
    for kind, numel in (("QInt8Storage", 16), ("QUInt8Storage", 16), ("QInt32Storage", 4), ("QUInt4x2Storage", 16), ("QUInt2x4Storage", 16)):
        stored, made = rebuilt(kind, numel=numel)
        shape = (4, (1,))
        for name, body in (
            ("v1", made("_rebuild_tensor", 0, (4,), (1,))),
            ("v2", made("_rebuild_tensor_v2", 0, (4,), (1,), False, hooks)),
            ("neg", made("_rebuild_tensor_v2", 0, (4,), (1,), False, hooks, {"neg": True})),
            ("v3", made("_rebuild_tensor_v3", 0, (4,), (1,), False, hooks, NAME("torch", "float32"), {"neg": True})),
            ("state", NAME("torch", "Tensor") + b")R(" + stored + value(0) + value((4,)) + value((1,)) + b"tb"),
            ("parameter", reduce_("torch._utils", "_rebuild_parameter", made("_rebuild_tensor_v2", 0, (4,), (1,), False, hooks), False, hooks)),
        ):
            both("unquantized_%s_%s" % (kind, name), body, "a tensor of a quantized class without a quantizer: %r" % (shape,))
        first = proto(2, value([stored, files.tensor()]))
        sample("unquantized_%s_first.pt" % kind, torch_zip(first), "a storage that is quantized where it is mentioned first", NOT_PLAIN)
        inside = reduce_("torch.storage", "_load_from_bytes", blob(legacy(body=proto(2, stored), keys=proto(2, value(["0"])), stored=struct.pack("<q", numel) + bytes(16))))
        both("unquantized_%s_inside" % kind, reduce_("torch._utils", "_rebuild_tensor_v2", inside, 0, (4,), (1,), False, hooks), "a storage in the bytes of a pickle")
        mixed = reduce_("torch.storage", "_load_from_bytes", blob(legacy(body=proto(2, stored + b"0" + files.storage()), keys=proto(2, value(["0"])), stored=struct.pack("<q", numel) + bytes(16))))
        both("unquantized_%s_inside_first" % kind, reduce_("torch._utils", "_rebuild_tensor_v2", mixed, 0, (4,), (1,), False, hooks), "the same, of two classes")
    for dtype in ("qint8", "quint8", "qint32", "quint4x2", "quint2x4"):
        kind = NAME("torch", dtype)
        _, made = rebuilt("UntypedStorage", numel=16)
        numpy = NAME("numpy.core.numeric", "_frombuffer") + b"(" + blob(bytes(16)) + reduce_("numpy", "dtype", "f4", False, True) + value((4,)) + value("C") + b"tR"
        for name, body in (
            ("v3", made("_rebuild_tensor_v3", 0, (4,), (1,), False, hooks, kind)),
            ("v3_neg", made("_rebuild_tensor_v3", 0, (4,), (1,), False, hooks, kind, {"neg": True})),
            ("meta", reduce_("torch._utils", "_rebuild_meta_tensor_no_storage", kind, (4,), (1,), False)),
            ("wrapper", reduce_("torch._utils", "_rebuild_wrapper_subclass", NAME("torch", "Tensor"), kind, (4,), (1,), 0, NAME("torch", "strided"), "cpu", False)),
            ("device", reduce_("torch._utils", "_rebuild_device_tensor_from_cpu_tensor", files.tensor(), kind, "cpu", False)),
            ("numpy", reduce_("torch._utils", "_rebuild_device_tensor_from_numpy", numpy, kind, "cpu", False)),
            ("xla", reduce_("torch._utils", "_rebuild_xla_tensor", numpy, kind, "cpu", False)),
            ("mlc", reduce_("torch._utils", "_rebuild_mlc_tensor", numpy, kind, "cpu", False)),
        ):
            both("unquantized_%s_%s" % (dtype, name), body, "a tensor of a quantized dtype without a quantizer")
    both("fine_quantized_dtype", NAME("torch", "qint8"), "a dtype as a value", FINE)


def nested():
    """torch divides by the rows and columns of what it is given, and until 2.6 believes the numbers in it."""
    def one(key, kind, shape, stride=None):
        numel = 1
        steps = []
        for size in reversed(shape):
            steps.insert(0, numel)
            numel *= size
        return reduce_("torch._utils", "_rebuild_tensor_v2", b"(" + value("storage") + NAME("torch", kind + "Storage") + value(key) + value("cpu") + value(numel) + b"tQ", 0, shape,
                       tuple(steps) if stride is None else stride, False, NAME("collections", "OrderedDict") + b")R")

    def record(*numbers):
        return struct.pack("<%dq" % len(numbers), *numbers)

    for name, buffer, sizes, strides, offsets, rows, wanted in (
        ("fine", (18,), (2, 3, 4, 3), (3, 1, 3, 1), (0, 6), (2, 2), FINE), ("fine_turned", (18,), (3, 2, 3, 4), (1, 3, 1, 3), (0, 6), (2, 2), FINE),
        ("fine_empty_member", (3,), (0, 3, 1, 3), (3, 1, 3, 1), (0, 0), (2, 2), FINE), ("fine_lines", (5,), (2, 3), (1, 1), (0, 2), (2, 1), FINE),
        ("no_rows", (4,), (), (), (), (0, 2), NOT_PLAIN), ("no_rows_wide", (4,), (), (), (), (0, 1 << 30), NOT_PLAIN), ("no_columns", (4,), (), (), (0, 1), (2, 0), NOT_PLAIN),
        ("one_dimension", (4,), (2, 2), (1, 1), (0, 2), (2,), NOT_PLAIN), ("size", (18,), (2, 3, 5, 3), (3, 1, 3, 1), (0, 6), (2, 2), NOT_PLAIN),
        ("negative", (18,), (2, 3, -4, 3), (3, 1, 3, 1), (0, 6), (2, 2), NOT_PLAIN), ("stride", (18,), (2, 3, 4, 3), (3, 1, 1 << 40, 1), (0, 6), (2, 2), NOT_PLAIN),
        ("offset", (18,), (2, 3, 4, 3), (3, 1, 3, 1), (0, 7), (2, 2), NOT_PLAIN), ("offset_negative", (18,), (2, 3, 4, 3), (3, 1, 3, 1), (-1, 6), (2, 2), NOT_PLAIN),
        ("few_offsets", (18,), (2, 3, 4, 3), (3, 1, 3, 1), (0,), (2, 2), NOT_PLAIN), ("buffer", (6, 3), (2, 3, 4, 3), (3, 1, 3, 1), (0, 6), (2, 2), NOT_PLAIN),
    ):
        numel = 1
        for size in buffer:
            numel *= size
        body = reduce_("torch._utils", "_rebuild_nested_tensor", one("0", "Float", buffer), one("1", "Long", rows), one("2", "Long", rows), one("3", "Long", (len(offsets),)))
        records = [("data/1", record(*sizes)), ("data/2", record(*strides)), ("data/3", record(*offsets))]
        by_type = reduce_("torch._tensor", "_rebuild_from_type_v2", NAME("torch._utils", "_rebuild_nested_tensor"), NAME("torch", "Tensor"), body[len(NAME("torch._utils", "_rebuild_nested_tensor")) : -1], {})
        for way, whole in (("", body), ("_in_list", value([{"a": (body,)}])), ("_by_type", by_type)):
            sample("nested_%s%s.pt" % (name, way), files.torch_file(proto(2, whole), data=bytes(4 * numel), extra=records), "a nested tensor", wanted)
    for kind in ("Float", "Double", "Int"):
        body = reduce_("torch._utils", "_rebuild_nested_tensor", one("0", "Float", (5,)), one("1", kind, (2, 1)), one("2", "Long", (2, 1)), one("3", "Long", (2,)))
        records = [("data/1", bytes({"Float": 8, "Double": 16, "Int": 8}[kind])), ("data/2", record(1, 1)), ("data/3", record(0, 2))]
        sample("nested_of_%s.pt" % kind, files.torch_file(proto(2, body), data=bytes(20), extra=records), "sizes that are no integers of 64 bits", NOT_PLAIN)
    # torch reads the three from where they begin, whatever their strides are: these lie otherwise, and what their strides lead to is right
    parts = {"0": ("Float", (12,), (1,), bytes(48)), "1": ("Long", (2, 2), (2, 1), record(2, 3, 2, 3)), "2": ("Long", (2, 2), (2, 1), record(3, 1, 3, 1)), "3": ("Long", (2,), (1,), record(0, 6))}
    for name, key, stride, numbers, wanted in (("fine", "3", (1,), record(0, 6), FINE), ("offsets", "3", (2,), record(0, 10**10, 6), NOT_PLAIN), ("offsets_expanded", "3", (0,), record(0), NOT_PLAIN), ("sizes", "1", (4, 1), record(2, 3, 10**9, 3, 2, 3), NOT_PLAIN), ("sizes_turned", "1", (1, 2), record(2, 2, 3, 3), NOT_PLAIN),
                                               ("sizes_expanded", "1", (0, 1), record(2, 3), NOT_PLAIN), ("strides", "2", (3, 1), record(3, 1, 9, 3, 1), NOT_PLAIN), ("buffer", "0", (2,), bytes(96), NOT_PLAIN)):
        these = {**parts, key: (*parts[key][:2], stride, numbers)}
        made = [files.tensor(k, kind + "Storage", len(data) // {"Float": 4, "Long": 8}[kind], shape, strides) for k, (kind, shape, strides, data) in these.items()]
        body = reduce_("torch._utils", "_rebuild_nested_tensor", *made)
        sample("nested_in_a_row_%s.pt" % name, files.torch_file(proto(2, body), data=these["0"][3], extra=[("data/" + k, these[k][3]) for k in "123"]), "a nested tensor whose parts lie otherwise", wanted)
    both("nested_bare", reduce_("torch._utils", "_rebuild_nested_tensor", TENSOR_OF_BYTES, TENSOR_OF_BYTES, TENSOR_OF_BYTES, TENSOR_OF_BYTES), "of storages that are not in the file")


def by_type():
    """A sparse tensor that a call makes which is given the function: its indices are looked at, too."""
    def one(key, kind, shape):
        return reduce_("torch._utils", "_rebuild_tensor_v2", b"(" + value("storage") + NAME("torch", kind + "Storage") + value(key) + value("cpu") + value(shape[0] * (shape[1] if len(shape) > 1 else 1)) + b"tQ", 0,
                       shape, (shape[1], 1) if len(shape) > 1 else (1,), False, NAME("collections", "OrderedDict") + b")R")

    for name, last, wanted in (("fine", 3, FINE), ("far", 4, NOT_PLAIN), ("negative", -1, NOT_PLAIN), ("very_far", 1 << 40, NOT_PLAIN)):
        parts = b"(" + reduce_("torch.serialization", "_get_layout", "torch.sparse_coo") + b"(" + one("0", "Long", (1, 3)) + one("1", "Float", (3,)) + value((4,)) + b"tt"
        for module, function in (("torch._tensor", "_rebuild_from_type_v2"), ("torch._tensor", "_rebuild_from_type"), ("torch.tensor", "_rebuild_from_type")):
            body = reduce_(module, function, NAME("torch._utils", "_rebuild_sparse_tensor"), NAME("torch", "Tensor"), parts, {})
            twice = reduce_(module, function, NAME(module, function), NAME("torch", "Tensor"), b"(" + NAME("torch._utils", "_rebuild_sparse_tensor") + NAME("torch", "Tensor") + parts + b"}t", {})
            for way, whole in (("", body), ("_twice", twice)):
                sample("by_type_%s_%s_%s%s.pt" % (name, module.replace(".", "_"), function, way), files.torch_file(proto(2, whole), data=struct.pack("<3q", 0, 1, last), extra=[("data/1", bytes(12))]),
                       "a sparse tensor, made by a call that is given the function", wanted)


def items_of_nothing():
    """torch makes a tensor of any array of numpy, and divides by the size of an item before it looks what items are."""
    def array(kind, state, data=b"", count=1):
        return NAME("numpy.core.multiarray", "_reconstruct") + b"(" + NAME("numpy", "ndarray") + value((0,)) + blob(b"b") + b"tR(" + value(1) + value((count,)) + reduce_("numpy", "dtype", kind, False, True) + value(state) + b"b\x89" + blob(data) + b"tb"

    arrays = {"S0": array("S0", (3, "|", None, None, None, 0, 1, 0)), "U0": array("U0", (3, "<", None, None, None, 0, 4, 8)), "V0": array("V0", (3, "|", None, None, None, 0, 1, 0)),
              "S4": array("S4", (3, "|", None, None, None, 4, 1, 0), bytes(4)), "V4": array("V4", (3, "|", None, None, None, 4, 1, 0), bytes(4)), "U1": array("U1", (3, "<", None, None, None, 4, 4, 8), bytes(4)),
              "M8": array("M8", (4, "<", None, None, None, -1, -1, 0, ({}, (blob(b"s"), 1, 1, 1))), bytes(8)), "O": array("O8", (3, "|", None, None, None, -1, -1, 63)),
              "no_state": NAME("numpy.core.multiarray", "_reconstruct") + b"(" + NAME("numpy", "ndarray") + value((0,)) + blob(b"b") + b"tR",
              "f4": array("f4", (3, "<", None, None, None, -1, -1, 0), bytes(4))}
    for name, made in arrays.items():
        for function in ("_rebuild_device_tensor_from_numpy", "_rebuild_xla_tensor", "_rebuild_mlc_tensor"):
            both("items_%s%s" % (name, function), reduce_("torch._utils", function, made, NAME("torch", "float32"), "cpu", False), "a tensor of an array of numpy", FINE if name == "f4" else NOT_PLAIN)


def arrays_in_items():
    """numpy has dtypes whose items are arrays for the fields of structures only, and flags of dtypes that its functions believe."""
    def dtype(kind, state):
        return reduce_("numpy", "dtype", kind, False, True) + value(state) + b"b"

    def uses(kind, nbytes):
        yield "array", NAME("numpy.core.multiarray", "_reconstruct") + b"(" + NAME("numpy", "ndarray") + value((0,)) + blob(b"b") + b"tR(" + value(1) + value((1,)) + kind + b"\x89" + blob(bytes(nbytes)) + b"tb"
        yield "scalar", reduce_("numpy.core.multiarray", "scalar", kind, blob(bytes(nbytes)))
        yield "buffer", reduce_("numpy.core.numeric", "_frombuffer", blob(bytes(nbytes)), kind, (1,), "C")

    four = dtype("f4", (3, "<", None, None, None, -1, -1, 0))
    text = dtype("U2", (3, "<", None, None, None, 8, 4, 8))
    several = dtype("V8", (3, "|", (four, (2,)), None, None, 8, 4, 0))
    for name, kind, nbytes in (("several", several, 8), ("texts", dtype("V16", (3, "|", (text, (2,)), None, None, 16, 4, 8)), 16), ("none", dtype("V0", (3, "|", (four, (0,)), None, None, 0, 4, 0)), 0),
                               ("one", dtype("V4", (3, "|", (four, ()), None, None, 4, 4, 0)), 4), ("in_itself", dtype("V16", (3, "|", (several, (2,)), None, None, 16, 4, 0)), 16)):
        for way, body in uses(kind, nbytes):
            both("subarray_%s_%s" % (name, way), body, "numpy makes no arrays of such items")
    for way, body in uses(dtype("V8", (3, "|", None, ("a",), {"a": (several, 0)}, 8, 1, 16)), 8):
        both("subarray_fine_%s" % way, body, "a field that is an array", FINE)
    both("subarray_field_in_itself", dtype("V16", (3, "|", None, ("a",), {"a": (dtype("V16", (3, "|", (several, (2,)), None, None, 16, 4, 0)), 0)}, 16, 1, 16)), "an array of arrays")
    for flags in (0, 1, 2, 4, 8, 17, 24, 32, 63, 64, 128, 136, -112, 144, 16, -128, 255):
        kind = dtype("V4", (3, "|", None, ("a",), {"a": (four, 0)}, 4, 1, flags))
        for way, body in uses(kind, 4):
            both("flags_%d_%s" % (flags, way), body, "a structure of numpy with flags", FINE if flags in (16, -112, 144) else NOT_PLAIN)
    for flags in (8, 16, 0, 24, -104, 152):
        for way, body in uses(dtype("V8", (3, "|", None, ("a",), {"a": (text, 0)}, 8, 1, flags)), 8):
            both("flags_text_%d_%s" % (flags, way), body, "a structure with a text", FINE if flags in (24, -104, 152) else NOT_PLAIN)
    for name, kind, state in (("number", "f4", (3, "<", None, None, None, -1, -1, 8)), ("number_aligned", "f4", (3, "<", None, None, None, -1, -1, 128)), ("text", "U2", (3, "<", None, None, None, 8, 4, 0)),
                              ("text_wide", "U2", (3, "<", None, None, None, 8, 1, 8)), ("bytes", "S4", (3, "|", None, None, None, 4, 1, 8)), ("bytes_wide", "S4", (3, "|", None, None, None, 4, 3, 0)),
                              ("raw", "V4", (3, "|", None, None, None, 4, 1, 16)), ("raw_odd", "V4", (3, "|", None, None, None, 4, 3, 0)), ("raw_none", "V4", (3, "|", None, None, None, 4, 0, 0)),
                              ("several", "V8", (3, "|", (four, (2,)), None, None, 8, 4, 16))):
        both("flags_of_%s" % name, dtype(kind, state), "flags, or an alignment, that numpy has for no such dtype")


def arrays_of_objects():
    """numpy's loops over objects go down into arrays in arrays, without a look at how deep they are, or whether they are in themselves."""
    dtype = reduce_("numpy", "dtype", "O8", False, True) + value((3, "|", None, None, None, -1, -1, 63)) + b"bq\x200"
    empty = NAME("numpy.core.multiarray", "_reconstruct") + b"(" + NAME("numpy", "ndarray") + value((0,)) + blob(b"b") + b"tR"

    def filled(items):
        return b"(" + value(1) + value((1,)) + b"h\x20\x89](" + items + b"etb"

    def deep(count):
        body = b"N"
        for _ in range(count):
            body = empty + filled(body)
        return body

    for name, body, wanted in (
        ("in_itself", empty + b"q\x21" + filled(b"h\x21"), NOT_PLAIN), ("in_its_list", empty + b"q\x21(" + value(1) + value((1,)) + b"h\x20\x89]q\x22(N" + b"etb0h\x22h\x21a", NOT_PLAIN),
        ("list_of_a_list", b"]q\x22" + empty + b"q\x21" + filled(b"h\x22") + b"a", NOT_PLAIN), ("by_dict", b"}q\x22" + value("a") + empty + filled(b"h\x22") + b"s", NOT_PLAIN),
        ("by_tuple", empty + b"q\x21" + filled(b"h\x21\x85"), NOT_PLAIN), ("deep", deep(20), NOT_PLAIN), ("very_deep", deep(900), NOT_PLAIN), ("fine_few", deep(3), FINE), ("fine_flat", empty + filled(b"N"), FINE),
        ("fine_beside", b"](" + deep(2) + deep(2) + b"]q\x22h\x22ae", FINE),
    ):
        both("array_of_objects_%s" % name, dtype + body, "arrays of objects in each other", wanted)


def numbers_of_one_hash():
    """Scalars of numpy as keys: complex numbers share a hash at will, long doubles with all that round to the same double."""
    def dtype(code, size):
        return reduce_("numpy", "dtype", code, False, True) + value((3, "<", None, None, None, -1, -1, 0)) + b"b"

    def keys(code, packed):
        first = dtype(code, len(packed[0])) + b"q\x30"
        scalar = NAME("numpy.core.multiarray", "scalar")
        return b"}(" + b"".join(scalar + b"(" + (first if not n else b"h\x30") + blob(item) + b"tRN" for n, item in enumerate(packed)) + b"u"

    complexes = [struct.pack("<dd", -1000003.0 * n, n) for n in range(1, 4201)]
    ascii_only = [bytes(8) + struct.pack("<d", 0)[:6] + bytes([n & 127, n >> 7]) for n in range(4200)]
    singles = [struct.pack("<ff", -1000003.0 * n * 2**m, n * 2.0**m) for n in range(1, 60) for m in range(1, 72)]
    longs = [struct.pack("<QHxxxxxx", 1 << 63 | n, 16383) for n in range(4200)]
    for name, code, packed in (("c16", "c16", complexes), ("c16_ascii", "c16", ascii_only), ("c8", "c8", singles), ("f16", "f16", longs), ("D", "D", complexes), ("c32", "c32", [c * 2 for c in complexes])):
        both("scalar_keys_%s" % name, keys(code, packed), "scalars of numpy of one hash as keys")
        both("scalar_items_%s" % name, keys(code, packed).replace(b"tRN", b"tR").replace(b"}(", b"\x8f(", 1)[:-1] + b"\x90", "the same in a set", protocol=4)
    for code in ("m8", "M8"):
        scalar = NAME("numpy.core.multiarray", "scalar")
        unit = lambda n: reduce_("numpy", "dtype", code, False, True) + b"(" + value(4) + value("<") + b"NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\x00}(" + blob(b"s") + value(n) + value(1) + value(1) + b"ttb"
        both("scalar_keys_%s_units" % code, b"}(" + b"".join(scalar + b"(" + unit(n + 1) + blob(struct.pack("<q", 7)) + b"tRN" for n in range(4200)) + b"u", "times of one number and many units as keys")
    for code, packed in (("f8", [struct.pack("<d", n) for n in range(4200)]), ("i8", [struct.pack("<q", n) for n in range(4200)]), ("U4", [("%4d" % n).encode("utf-32-le") for n in range(4200)])):
        size = reduce_("numpy", "dtype", code, False, True) + value((3, "<", None, None, None, 16 if code == "U4" else -1, 4 if code == "U4" else -1, 8 if code == "U4" else 0)) + b"b"
        sample("fine_scalar_keys_%s.pkl" % code, proto(2, keys(code, packed).replace(dtype(code, 0), size)), "scalars of numpy as keys", FINE)


arrays_of_objects()
wrappers()
packed_items()
wide_views()
views_in_bytes()
storages_said_twice()
wide_records()
numbers_of_uuids()
without_a_quantizer()
nested()
by_type()
items_of_nothing()
arrays_in_items()
quantized()
formats_of_memory()
structures()
broken_dtypes()
versions_of_dtypes()
orders_of_bytes()
titles_of_fields()
indices_of_devices()
lies_about_storages()
masked_arrays()
dtypes_without_a_size()
numbers_of_one_hash()

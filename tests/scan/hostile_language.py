# SPDX-License-Identifier: Apache-2.0
"""Tricks with names that are allowed: taken for values, given to what looks into them, changed behind the back of what uses them.

All of these were harmless names in harmless places once, and ran code in pickle.load or torch.load, or crashed numpy. docs/scan.md is
the language that they are not in.
"""

import struct

from assemble import BAD, DIFFER, MAGIC, NOT_DECIDED, RUN, SAMPLES, SYSTEM, SYSTEM_CALL, Member, at_line, blob, call, files, legacy, npy, old_tar, proto, reduce_, safetensors_before, sample, tar_of, torch_zip, value, zip_of

NOT_PLAIN = RUN | DIFFER | NOT_DECIDED
NAME = files.glob
LOAD = NAME("torch.storage", "_load_from_bytes")
INNER = legacy(body=BAD)
ORDERED = NAME("collections", "OrderedDict")
EMPTY = ORDERED + b")R"
TENSOR = files.tensor()


def built(instance, state):
    return instance + value(state) + b"b"


def both(name, body, why, wanted=NOT_PLAIN, protocol=2):
    """As a bare pickle, and as a checkpoint of torch."""
    sample("%s.pkl" % name, proto(protocol, body), why, wanted)
    sample("%s.pt" % name, torch_zip(proto(protocol, value({"w": TENSOR}) + b"0" + body)), why, wanted)


def wildcards():
    """Whatever a module has, because some of it is data."""
    for number, name in enumerate(
        ("__setattr__", "__getattribute__", "__dict__", "__class__", "__loader__", "torch", "sys", "warnings", "pytree_register_structseq",
         "all_return_types", "max.__setattr__", "max.__class__", "__spec__", "return_types", "inspect", "_attr", "SequenceKey")
    ):
        both("wild_return_types_%d" % number, reduce_("torch.return_types", name, "x", 1), "not a type of results: %s" % name,
             NOT_PLAIN)
    both("wild_setattr_chain", reduce_("torch.return_types", "__setattr__", "max", LOAD) + b"0" + reduce_("torch.return_types", "max", blob(INNER)),
         "a module is changed, and then called")
    for name in ("Error", "__Error", "XError", "MyWarning", "SomeException", "ValueError.mro", "ValueError.__setattr__", "Warning.__class__"):
        both("wild_exception_%s" % name.replace(".", "_"), reduce_("builtins", name, "x"), "no exception of Python's",
             NOT_PLAIN)
    for name in ("float8", "Float_Storage", "floatStorage", "complex1", "uint9", "FloatTensor.apply_", "Size.count", "Generator.set_state"):
        both("wild_torch_%s" % name.replace(".", "_"), reduce_("torch", name, 1), "nothing that torch has as data",
             NOT_PLAIN | {"needs-objects"})


def identities():
    """Functions that give back what they are given."""
    targets = {
        "class": NAME("collections", "Counter"),
        "function": NAME("torch._utils", "_rebuild_tensor_v2"),
        "module": NAME("torch._utils", "torch"),
        "storage": NAME("torch", "FloatStorage"),
        "tensor_class": NAME("torch", "Tensor"),
    }
    for name, target in targets.items():
        for function in ("build_intlist", "build_tensorlist", "build_tensor_from_id"):
            both("same_%s_%s" % (function, name), built(reduce_("torch.jit._pickle", function, target), {"__setstate__": LOAD}),
                 "the state of a %s, which a function gave back" % name)
        both("same_tag_%s" % name, built(reduce_("torch.jit._pickle", "restore_type_tag", target, "x"), {"x": 1}), "the same by restore_type_tag")
    both("same_twice", built(reduce_("torch.jit._pickle", "restore_type_tag", reduce_("torch.jit._pickle", "build_intlist", targets["module"]), "t"), {"load": LOAD}),
         "given back twice")
    both("same_items", reduce_("torch.jit._pickle", "build_intlist", targets["class"]) + value("a") + value("b") + b"s", "items of a class")
    both("same_appended", reduce_("torch.jit._pickle", "build_intlist", targets["class"]) + value(1) + b"a", "appends to a class")
    both("same_dict_state", built(EMPTY, reduce_("torch.jit._pickle", "restore_type_tag", value({"__setstate__": LOAD}), "Dict[str, int]")),
         "a dict that was given back is a state")


def states():
    """State that comes out of a call, or is set twice, so that the second time calls what the first one set."""
    evil = {"__setstate__": LOAD}
    pairs = value([("__setstate__", LOAD)])
    for name, state in {
        "dict": reduce_("builtins", "dict", pairs),
        "counter": reduce_("collections", "Counter", value(evil)),
        "defaultdict": reduce_("collections", "defaultdict", None, value(evil)),
        "ordered": reduce_("collections", "OrderedDict", pairs),
        "ordered_of_tuples": reduce_("collections", "OrderedDict", value((("__setstate__", LOAD),))),
        "tuple": reduce_("builtins", "tuple", value([evil, None])),
        "tuple_slots": reduce_("builtins", "tuple", value([None, evil])),
        "pair": value((reduce_("builtins", "dict", pairs), None)),
        "slots": value((None, reduce_("collections", "Counter", value(evil)))),
        "made_key": value({}) + reduce_("builtins", "str", "__setstate__") + LOAD + b"s",
        "made_key_unicode": value({}) + reduce_("builtins", "unicode", "__setstate__") + LOAD + b"s",
        "plain": value(evil),
    }.items():
        for target, made in {"ordered": EMPTY, "exception": reduce_("builtins", "ValueError", "x"), "object": NAME("a", "B") + b")\x81",
                             "parameter": NAME("torch.nn.parameter", "UninitializedParameter") + b")R"}.items():
            both("state_%s_of_%s" % (name, target), made + b"q\x05" + state + b"b" + blob(INNER) + b"b", "the second BUILD loads what the first one set")
    # what the unpickler in Python asks for items(), and that in C does not
    dressed = built(ORDERED + b")R" + value("a") + value(1) + b"s", {"items": 1})
    for name, state in {"dict": dressed, "keys": built(ORDERED + b")R" + value("a") + value(1) + b"s", {"keys": 1}), "slots": b"N" + dressed + b"\x86", "first": dressed + b"N\x86", "both": dressed + b"}\x86",
                        "default": built(reduce_("collections", "defaultdict", None), {"items": 1})}.items():
        both("state_with_items_" + name, EMPTY + state + b"b", "a dict with an attribute 'items' is a state")
        both("state_with_items_of_parameter_" + name, reduce_("torch._utils", "_rebuild_parameter_with_state", TENSOR, True, EMPTY, state), "the same by a function of torch")
    hooks = EMPTY
    for name, state in {
        "plain": value(evil),
        "class": value({"__class__": NAME("collections", "Counter")}),
        "dict": reduce_("builtins", "dict", pairs),
        "ordered": reduce_("collections", "OrderedDict", pairs),
        "pair": value((None, evil)),
        "hidden_pair": reduce_("builtins", "tuple", value([None, evil])),
    }.items():
        both("state_parameter_%s" % name, reduce_("torch._utils", "_rebuild_parameter_with_state", TENSOR, True, hooks, state) + blob(INNER) + b"b",
             "a parameter gets attributes that nobody looks at, then BUILD")
        both("state_type_%s" % name, reduce_("torch._tensor", "_rebuild_from_type_v2", NAME("torch._utils", "_rebuild_parameter"), NAME("torch.nn.parameter", "Parameter"),
             value((TENSOR, True, hooks)), state) + blob(INNER) + b"b", "the same by _rebuild_from_type_v2")
    both("state_of_type_later", b"}q\x09" + b"0" + reduce_("torch._tensor", "_rebuild_from_type", NAME("torch._utils", "_rebuild_parameter"), NAME("torch.nn.parameter", "Parameter"),
         value((TENSOR, True, hooks)), b"h\x09") + b"q\x0a0" + b"h\x09" + value("__setstate__") + LOAD + b"s0" + b"h\x0a" + blob(INNER) + b"b",
         "the dict is filled behind the call that keeps it")
    both("state_appends", built(NAME("a", "B") + b")\x81", {"append": LOAD}) + blob(INNER) + b"a", "APPEND calls what BUILD set")
    both("state_extends", built(NAME("a", "B") + b")\x81", {"extend": LOAD}) + b"(" + blob(INNER) + b"e", "APPENDS calls what BUILD set")
    both("state_adds", built(NAME("a", "B") + b")\x81", {"add": LOAD}) + b"(" + blob(INNER) + b"\x90", "ADDITEMS calls what BUILD set", NOT_PLAIN, 4)
    both("state_module_name", reduce_("torch._utils", "_rebuild_tensor", built(EMPTY, {"__module__": "antigravity"}), 0, (1,), (1,)),
         "old torch imports what an object says is its module")
    twice = b"K\x01\x85" + b"2\x86" * 60
    for name, made in (("doubled", twice), ("number", b"K\x01"), ("list", b"]"), ("tuple", b")")):
        stream = reduce_("torch.storage", "_load_from_bytes", blob(legacy(body=proto(2, made), keys=proto(2, value([])), stored=b"")))
        both("loaded_key_" + name, b"}" + stream + b"K\x01s", "a key that is what a stream holds", NOT_PLAIN)
        both("loaded_item_" + name, b"\x8f(" + stream + b"\x90", "an item of a set that is what a stream holds", NOT_PLAIN, 4)
        both("loaded_" + name, b"](" + stream + b"e", "what a stream holds, and is no storage", NOT_PLAIN)
    both("state_no_storage", reduce_("torch._utils", "_rebuild_tensor", reduce_("torch.storage", "_load_from_bytes", blob(legacy(body=proto(2, EMPTY)))), 0, (1,), (1,)),
         "bytes that hold no storage are taken for one")


def values():
    """Functions that are kept."""
    for name, body in {
        "dict": value({"a": LOAD}),
        "list": value([LOAD]),
        "tuple": LOAD + b"\x85",
        "top": LOAD,
        "encode": value({"a": NAME("_codecs", "encode")}),
        "rebuild": value([NAME("torch._utils", "_rebuild_tensor_v2")]),
        "module": value({"a": NAME("torch._utils", "torch")}),
        "factory": reduce_("collections", "defaultdict", LOAD),
        "set": b"\x8f(" + LOAD + b"\x90",
        "deque": reduce_("collections", "deque", value([LOAD])),
        "hooks": reduce_("torch._utils", "_rebuild_parameter", TENSOR, True, EMPTY + value("a") + LOAD + b"s"),
    }.items():
        both("value_%s" % name, body, "a function that is kept as a value", NOT_PLAIN, 4 if name == "set" else 2)
    both("value_in_loads", reduce_("torch.storage", "_load_from_bytes", LOAD), "a function given to itself")
    text = INNER.decode("latin1")
    for number, codec in enumerate(("utf-8", "utf8", "ascii", "utf-16", "rot13", "utf_8", "UTF-8", "latin_1", "cp1252", "idna", "unicode_escape")):
        both("text_as_%d" % number, reduce_("torch.storage", "_load_from_bytes", reduce_("_codecs", "encode", text, codec)),
             "bytes that are other ones in %s" % codec)
    both("text_default", reduce_("torch.storage", "_load_from_bytes", reduce_("_codecs", "encode", text)), "bytes in the default encoding, which is UTF-8")
    both("text_made", reduce_("torch.storage", "_load_from_bytes", reduce_("builtins", "bytes", value(list(INNER)))), "bytes out of a list of numbers")


def numpys():
    def dtype(text="f8"):
        return reduce_("numpy", "dtype", text, False, True)

    def state(kind="<", flags=0, size=-1):
        return value((3, kind, None, None, None, size, size, flags))

    array = NAME("numpy.core.multiarray", "_reconstruct") + value((NAME("numpy", "ndarray"), (0,), blob(b"b"))) + b"R"
    data = value((1, (1,), b"h\x07", False, blob(bytes(8))))
    fine = dtype() + b"q\x07" + state() + b"b0"
    for name, shape, wanted in (("images", (0, 3, 1024, 1024), {"plain"}), ("lists", (1 << 31, 0), NOT_PLAIN), ("product", (1 << 13, 0, 1 << 13), NOT_PLAIN), ("behind", (0, 1 << 40), NOT_PLAIN), ("far", (1 << 40, 0, 1 << 40), NOT_PLAIN)):
        both("array_empty_%s" % name, fine + array + value((1, shape, b"h\x07", False, blob(b""))) + b"b", "an array without items, of which tolist() makes more lists than there is memory for", wanted)
        sample("npy_empty_%s.npy" % name, npy("{'descr': '<f8', 'fortran_order': False, 'shape': %s, }" % (shape,), b""), "the same as a file", wanted)
    both("dtype_fine", fine + array + data + b"b", "an array as numpy writes it", {"plain"})
    for name, shape, wanted in (("fine", (1,), {"plain"}), ("zero", (0, 1 << 62), NOT_PLAIN), ("zeros", (0, 1 << 62, 1 << 62), NOT_PLAIN), ("few", (0, 1 << 24), {"plain"})):
        of_shape = array + value((1, shape, b"h\x07", False, blob(bytes(8) if shape == (1,) else b""))) + b"b"
        for function in ("_rebuild_xla_tensor", "_rebuild_device_tensor_from_numpy"):
            both("array_countable_%s_%s" % (function, name), fine + reduce_("torch._utils", function, of_shape, NAME("torch", "float64"), "cpu", False),
                 "a tensor of an array of more than torch 1.7 can count", wanted)
    for name, sizes, strides, wanted in (("fine", (2, 3), (3, 1), {"plain"}), ("product", (1 << 32, 1 << 32), (0, 0), NOT_PLAIN), ("zero", (0, 1 << 62), (1, 1), NOT_PLAIN), ("negative", (-1, 2), (1, 1), NOT_PLAIN), ("bytes", (1 << 59,), (0,), NOT_PLAIN)):
        both("meta_countable_%s" % name, reduce_("torch._utils", "_rebuild_meta_tensor_no_storage", NAME("torch", "float32"), sizes, strides, False), "sizes of a tensor on meta that torch cannot count", wanted)
    for name, size, wanted in (("many", 1 << 58, {"plain"}), ("bytes", 1 << 59, NOT_PLAIN), ("product", 1 << 62, NOT_PLAIN)):
        one = b"(" + value("storage") + NAME("torch", "FloatStorage") + value("0") + value("cpu") + value(4) + b"tQ"
        sample("repeated_%s.pt" % name, torch_zip(proto(2, reduce_("torch._utils", "_rebuild_tensor_v2", one, 0, (size,), (0,), False, EMPTY))), "one number, so often that torch 1.7 does not count the bytes of a copy", wanted)
    both("dtype_changed", fine + array + data + b"b0" + b"h\x07" + value((3, "|", None, None, None, -1, -1, 63)) + b"b", "a dtype changes behind its array: to objects")
    both("dtype_changed_size", fine + array + data + b"b0" + b"h\x07" + state("<", 0, 800) + b"b", "... to another size")
    both("dtype_twice", dtype() + b"q\x07" + state() + b"b" + state(">") + b"b", "a dtype whose state is set twice")
    both("dtype_late", dtype() + b"q\x070" + array + data + b"b0" + b"h\x07" + state(">") + b"b", "a dtype whose state comes behind its array's")
    both("dtype_of_scalar", dtype() + b"q\x070" + reduce_("numpy.core.multiarray", "scalar", b"h\x07", blob(bytes(8))) + b"0h\x07" + state("|", 63) + b"b",
         "a dtype that changes behind its scalar")
    both("dtype_of_buffer", dtype() + b"q\x070" + NAME("numpy.core.numeric", "_frombuffer") + value((blob(bytes(8)), b"h\x07", (1,), "C")) + b"R0h\x07" + state("|", 63) + b"b",
         "a dtype that changes behind its buffer", NOT_PLAIN)
    both("dtype_in_dtype", dtype() + b"q\x070" + reduce_("numpy", "dtype", "V8", False, True) + value((3, "|", None, ("a",), {"a": (b"h\x07", 0)}, 8, 1, 16)) + b"b0h\x07" + state("|", 63) + b"b",
         "a dtype that changes inside of another")
    both("array_twice", fine + array + data + b"b" + data + b"b", "an array whose state is set twice")
    both("array_size", NAME("numpy.core.multiarray", "_reconstruct") + value((NAME("numpy", "ndarray"), (2**31 - 1,), blob(b"b"))) + b"R", "an array of two billion items, made before it has a state")
    objects = reduce_("numpy", "dtype", "O8", False, True) + value((3, "|", None, None, None, -1, -1, 63)) + b"b"
    for name, shape, items in (("fewer", (2,), [1]), ("none", (), []), ("more", (1,), [1, 2, 3]), ("negative", (-1,), [1]), ("huge", (2**31 - 1, 2**31 - 1, 4), [])):
        both("array_of_objects_%s" % name, array + value((1, shape, objects, False, items)) + b"b", "an array of objects, with another number of them than it says: numpy 1 crashes")
    for name, kind, state_of_it in (("time", "M8", (3, "<", None, None, None, -1, -1, 0)), ("text", "U2", (3, "<", None, None, None, -1, -1, 8)), ("bytes", "S4", (3, "|", None, None, None, 4000, 1, 0)),
                                    ("number", "f4", (3, "<", None, None, None, 8, 8, 0)), ("order", "f4", (3, "x", None, None, None, -1, -1, 0))):
        both("dtype_size_%s" % name, reduce_("numpy", "dtype", kind, False, True) + value(state_of_it) + b"b", "a dtype whose state says another size, or no unit: numpy crashes")
    both("dtype_text", reduce_("numpy", "dtype", "i4,f8", False, True), "a dtype that numpy would parse")
    for name, bad in {"dict": value({}), "text": value("x"), "short": value((1,)), "objects": value((1, 2, EMPTY)), "list": value([1, None, TENSOR]), "number": value(1),
                      "nothing": b"N", "ordered": EMPTY}.items():
        both("generator_%s" % name, reduce_("torch", "Generator", "cpu") + bad + b"b", "a generator whose state is no tuple as torch writes it")


def bombs():
    """Little files that take memory or time without end."""
    large = b"\x8a\x05" + struct.pack("<q", 1 << 36)[:5]
    numbers = NAME("builtins", "range") + large + b"\x85R"
    for name in ("list", "tuple", "set", "frozenset", "bytes", "bytearray"):
        both("bomb_%s" % name, call(NAME("builtins", name), numbers), "%s(range(2**36))" % name)
        both("bomb_size_%s" % name, call(NAME("builtins", name), large), "%s(2**36)" % name)
    both("bomb_deque", call(NAME("collections", "deque"), numbers), "deque(range(2**36))")
    both("bomb_ordered", call(NAME("collections", "OrderedDict"), numbers), "OrderedDict(range(2**36))")
    dag = b"NN\x86" + b"2\x86" * 60
    both("bomb_counter_pair", call(NAME("collections", "Counter"), b"](K\x01" + dag + b"\x86e"), "Counter([(1, t)]) hashes all of t, which is 2^60 values")
    for name in ("ValueError", "KeyError", "OSError"):
        both("bomb_args_%s" % name, call(NAME("builtins", name)) + b"}" + value("args") + numbers + b"sb", "the arguments of an exception become a tuple: range(2**36)")
    for name in ("SyntaxError", "IndentationError", "TabError"):
        both("bomb_%s" % name, call(NAME("builtins", name), value("m"), numbers), "%s('m', range(2**36)) makes a tuple of it" % name)
    both("bomb_counter", call(NAME("collections", "Counter"), numbers), "Counter(range(2**36))")
    both("bomb_size", call(NAME("torch", "Size"), numbers), "torch.Size(range(2**36))")
    both("bomb_array", reduce_("array", "array", "q", numbers), "array('q', range(2**36))")
    for number, text in enumerate(("1e99999999999", "1E99999999", "-1e999999999", "1e+999999999/1", "9" * 200000)):
        both("bomb_fraction_%d" % number, reduce_("fractions", "Fraction", text), "Fraction('%.20s')" % text)
    both("bomb_int", reduce_("builtins", "int", "9" * 200000), "int() of 200,000 digits")
    both("bomb_slice", reduce_("builtins", "list", reduce_("builtins", "slice", 0, 1 << 30)), "list() of a slice")
    for number, opcode in enumerate((b"r" + struct.pack("<I", 805400933), b"p805400933\n", b"r\xff\xff\xff\xff", b"p4000000000\n")):
        both("bomb_memo_%d" % number, b"N" + opcode, "a memo of 12 GB, for one number")
    both("bomb_state", built(NAME("torch", "Tensor") + b")R", reduce_("builtins", "tuple", numbers)), "a state that is unfolded")
    stored = b"(" + value("storage") + NAME("torch", "FloatStorage") + value("0") + value("cpu") + b"K\x04tQ"
    nested = reduce_("torch.storage", "_load_from_bytes", blob(legacy(body=proto(2, stored), keys=proto(2, value(["0"])), stored=struct.pack("<q", 4) + bytes(16))))
    for name, offset, shape, stride in (("shape", 0, (1 << 30, 1 << 10), (1 << 10, 1)), ("offset", 1 << 30, (1,), (1,)), ("stride", 0, (3,), (1 << 30,)), ("one_more", 1, (4,), (1,)), ("empty", 1 << 40, (0,), (1,))):
        for way, storage in (("", stored), ("_nested", nested)):
            both("bomb_tensor_%s%s" % (name, way), reduce_("torch._utils", "_rebuild_tensor_v2", storage, offset, shape, stride, False, EMPTY) + b"0N", "a tensor that reaches out of its storage, and is dropped")
            both("bomb_set_%s%s" % (name, way), NAME("torch", "FloatTensor") + b")R" + value((storage, offset, shape, stride)) + b"b0N", "the same by BUILD")
    both("bomb_quantized", reduce_("torch._utils", "_rebuild_qtensor", b"(" + value("storage") + NAME("torch", "QInt8Storage") + value("0") + value("cpu") + b"K\x04tQ", 0, (1 << 30, 1 << 5), (0, 0),
                                  (NAME("torch", "per_tensor_affine"), 1, 0), False, EMPTY) + b"0N", "a quantized tensor is made before it is a view")
    empty = b"(" + value("storage") + NAME("torch", "FloatStorage") + value("0") + value("cpu") + b"K\x00tQ"
    for name, offset, shape, stride in (("column", 4, (0,), (6,)), ("corner", 999999, (0, 1), (1000000, 1)), ("rows", 2, (3, 0), (0, 1))):
        sample("fine_empty_%s.pt" % name, torch_zip(proto(2, reduce_("torch._utils", "_rebuild_tensor_v2", empty, offset, shape, stride, False, EMPTY)), data=b""),
               "a part of a tensor without numbers, as a detector saves that found nothing", {"plain"})
    sample("fine_nested.pkl", proto(2, reduce_("torch._utils", "_rebuild_tensor_v2", nested, 0, (4,), (1,), False, EMPTY)), "a tensor as pickle.dump writes it", {"plain"})


def amounts():
    """The same values given to call after call, each of which copies them; tensors made of others, which are said to be large."""
    number, text, raw = 100000, "a/" * 50000, bytes(100000)
    numbers = b"](" + b"K\x01" * number + b"e"
    pairs = b"}(" + b"".join(value(n) + b"N" for n in range(number // 6)) + b"u"
    several = {
        "list": ("builtins", "list", numbers), "tuple": ("builtins", "tuple", numbers), "deque": ("collections", "deque", numbers), "bytes": ("builtins", "bytes", numbers),
        "bytearray": ("builtins", "bytearray", blob(raw)), "encode": ("_codecs", "encode", text, "latin1"), "dict": ("builtins", "dict", pairs), "counter": ("collections", "Counter", pairs),
        "ordered": ("collections", "OrderedDict", pairs), "array": ("array", "array", "q", numbers), "path": ("pathlib", "PurePosixPath", text), "decimal": ("decimal", "Decimal", "1" * 4300),
        "nested": ("torch.storage", "_load_from_bytes", blob(legacy(stored=struct.pack("<q", 4) + bytes(16)) + bytes(0))), "tuple_of_coded": ("builtins", "bytes", reduce_("_codecs", "encode", text, "latin1")),
    }
    for name, (module, function, *arguments) in several.items():
        body = NAME(module, function) + b"q\x00" + value(arguments) + b"q\x010](" + b"h\x00h\x01R" * 20000 + b"e"
        both("amount_%s" % name, body, "20,000 copies of what is there once")
    state = value((1, (number,), reduce_("numpy", "dtype", "u1", False, True) + value((3, "|", None, None, None, -1, -1, 0)) + b"b", False, blob(raw)))
    both("amount_arrays", state + b"q\x000](" + (reduce_("numpy.core.multiarray", "_reconstruct", NAME("numpy", "ndarray"), (0,), b"C\x01b") + b"h\x00b") * 3000 + b"e", "3,000 arrays of the same bytes", protocol=4)
    stored = b"(" + value("storage") + NAME("torch", "FloatStorage") + value("0") + value("cpu") + b"K\x04tQ"
    wide = reduce_("torch._utils", "_rebuild_tensor_v2", stored, 0, (1 << 20, 1 << 15), (0, 0), False, EMPTY)
    index = reduce_("torch._utils", "_rebuild_tensor_v2", b"(" + value("storage") + NAME("torch", "LongStorage") + value("0") + value("cpu") + b"K\x02tQ", 0, (1, 1 << 30), (0, 0), False, EMPTY)
    values = reduce_("torch._utils", "_rebuild_tensor_v2", stored, 0, (1 << 30,), (0,), False, EMPTY)
    for name, body in (
        ("device", reduce_("torch._utils", "_rebuild_device_tensor_from_cpu_tensor", wide, NAME("torch", "float64"), "cpu", False)),
        ("sparse", reduce_("torch._utils", "_rebuild_sparse_tensor", reduce_("torch.serialization", "_get_layout", "torch.sparse_coo"), (index, values, (1 << 20,)))),
        ("csr", reduce_("torch._utils", "_rebuild_sparse_csr_tensor", reduce_("torch.serialization", "_get_layout", "torch.sparse_csr"), (values, values, values, (4, 4)))),
        ("parameter", reduce_("torch._utils", "_rebuild_device_tensor_from_cpu_tensor", reduce_("torch._utils", "_rebuild_parameter", wide, False, EMPTY), NAME("torch", "float64"), "cpu", False)),
    ):
        sample("amount_%s.pt" % name, torch_zip(proto(2, body)), "a tensor of a few numbers is made as large as it says it is", NOT_PLAIN)
    for name, made, count in (("torch.Generator", "", 16000), ("torch._C.Generator", "", 16000), ("collections.deque", "", 60000), ("torch.nn.parameter.Parameter", "", 90000)):
        body = NAME(*name.rsplit(".", 1)) + b"q\x000](" + b"h\x00)R" * count + b"e"
        sample("amount_of_%s.pt" % name, torch_zip(proto(2, body)), "objects that are large by themselves", NOT_PLAIN)
        few = NAME(*name.rsplit(".", 1)) + b"q\x000](" + b"h\x00)R" * (count // 2) + b"e"
        sample("fine_amount_of_%s.pt" % name, torch_zip(proto(2, few)), "the same, fewer", {"plain"})
    many_tensors()
    zeros = npy("{'descr': '|u1', 'fortran_order': False, 'shape': (3000000,), }", bytes(3000000))
    for name, count, wanted in (("amount_npz", 13, NOT_PLAIN), ("fine_amount_npz", 8, {"plain"})):
        sample("%s.npz" % name, zip_of([Member("a%d.npy" % n, zeros, method=8) for n in range(count)]), "arrays that unpack to a thousand times the file", wanted)
    sample("fine_amount.pkl", proto(2, b"](" + (NAME("builtins", "set") + value((["a", "b"],)) + b"R") * 3000 + b"e"), "many small sets", {"plain"})
    for name in ("1,9e9", "(1)i8", "i8,i8", "O", "1e9", "V1", "bb"):
        both("letter_%s" % "".join(c if c.isalnum() else "_" for c in name), reduce_("numpy.core.multiarray", "_reconstruct", NAME("numpy", "ndarray"), (0,), name), "a text that numpy takes for a dtype, and parts of which it parses as Python")


def many_tensors():
    """One call of each kind that makes a tensor, again and again by the memo."""
    stored = b"(" + value("storage") + NAME("torch", "FloatStorage") + value("0") + value("cpu") + b"K\x04tQ"
    numbers = b"(" + value("storage") + NAME("torch", "LongStorage") + value("1") + value("cpu") + b"K\x04tQ"
    quantized = b"(" + value("storage") + NAME("torch", "QInt8Storage") + value("2") + value("cpu") + b"K\x04tQ"
    view = (stored, 0, (1,), (1,), False, EMPTY)
    tensor = reduce_("torch._utils", "_rebuild_tensor_v2", *view)
    wide = reduce_("torch._utils", "_rebuild_tensor_v2", stored, 0, (1,) * 64, (1,) * 64, False, EMPTY)
    indices = reduce_("torch._utils", "_rebuild_tensor_v2", numbers, 0, (1, 1), (1, 1), False, EMPTY)
    rows = [reduce_("torch._utils", "_rebuild_tensor_v2", numbers, first, (count,), (1,), False, EMPTY) for first, count in ((0, 2), (2, 1))]
    array = reduce_("numpy.core.multiarray", "_reconstruct", NAME("numpy", "ndarray"), (0,), b"C\x01b") + value((1, (1,), reduce_("numpy", "dtype", "f4", False, True) + value((3, "<", None, None, None, -1, -1, 0)) + b"b", False, blob(bytes(4)))) + b"b"
    dtype, typed = NAME("torch", "float32"), NAME("torch._utils", "_rebuild_tensor_v2")

    def layout(name):
        return reduce_("torch.serialization", "_get_layout", "torch." + name)

    kinds = {
        "torch.Tensor": (), "torch.FloatTensor": (), "torch.autograd.variable.Variable": (), "torch.nn.parameter.Parameter": (tensor,), "torch.nn.parameter.Buffer": (),
        "torch.nn.parameter.UninitializedParameter": (), "torch.nn.parameter.UninitializedBuffer": (True,),
        "torch._utils._rebuild_tensor": view[:4], "torch._utils._rebuild_tensor_v2": view, "torch._utils._rebuild_tensor_v3": (*view, dtype),
        "torch._utils._rebuild_parameter": (tensor, True, EMPTY), "torch._utils._rebuild_parameter_with_state": (tensor, True, EMPTY, {}),
        "torch._utils._rebuild_qtensor": (quantized, 0, (1,), (1,), (NAME("torch", "per_tensor_affine"), 1, 0), False, EMPTY),
        "torch._utils._rebuild_sparse_tensor": (layout("sparse_coo"), (indices, tensor, (1,))),
        "torch._utils._rebuild_sparse_csr_tensor": (layout("sparse_csr"), (*rows, tensor, (1, 1))),
        "torch._utils._rebuild_meta_tensor_no_storage": (dtype, (1,), (1,), False), "torch._utils._rebuild_device_tensor_from_numpy": (array, dtype, "cpu", False),
        "torch._utils._rebuild_device_tensor_from_cpu_tensor": (tensor, dtype, "cpu", False), "torch._utils._rebuild_xla_tensor": (array, dtype, "cpu", False), "torch._utils._rebuild_mlc_tensor": (array, dtype, "cpu", False),
        "torch._utils._rebuild_wrapper_subclass": (NAME("torch.distributed.tensor", "DTensor"), dtype, (1,), (1,), 0, NAME("torch", "strided"), "cpu", False),
        "torch._tensor._rebuild_from_type_v2": (typed, NAME("torch.nn.parameter", "Parameter"), view, {}), "torch._tensor._rebuild_from_type": (typed, NAME("torch.nn.parameter", "Parameter"), view, {}),
        "torch.tensor._rebuild_from_type": (typed, NAME("torch.nn.parameter", "Parameter"), view, {}),
    }

    def calls(what, args, count, behind=b""):
        # protocol 3: the bytes of the array are bytes
        return proto(3, NAME(*what.rsplit(".", 1)) + b"q\x000" + value(args) + b"q\x010" + value({"a": 1}) + b"q\x020](" + (b"h\x00h\x01R" + behind) * count + b"e")

    def archive(pickle, method=0):
        records = {"data.pkl": pickle, "version": b"3\n", "byteorder": b"little", "data/0": bytes(16), "data/1": struct.pack("<4q", 0, 1, 0, 0), "data/2": bytes(4)}
        return zip_of([Member("a/" + name, data, method=method if name == "data.pkl" else 0) for name, data in records.items() if name[:5] != "data/" or b"X\x01\0\0\0" + name[5:].encode() in pickle])

    for what, args in kinds.items():
        for way, method in (("", 0), ("packed_", 8))[: 2 if "_v2" in what or "Uninit" in what else 1]:
            sample("amount_%stensors_%s.pt" % (way, what), archive(calls(what, args, 200000), method), "200,000 tensors by one list of arguments", NOT_PLAIN)
            sample("fine_amount_%stensors_%s.pt" % (way, what), archive(calls(what, args, 12000), method), "the same, fewer", {"plain"} if not any(word in what for word in ("wrapper", "sparse", "from_cpu_tensor")) else NOT_PLAIN)  # a wrapper needs an object; the arguments are dropped here; a tensor to be copied is in one place
    # what makes each of them larger: more sizes than torch has room for in a tensor, a gradient, attributes
    few = 24000
    for name, what, args, small in (
        ("sizes", "torch._utils._rebuild_tensor_v2", (stored, 0, (1,) * 64, (1,) * 64, False, EMPTY), view), ("sizes_within", "torch._utils._rebuild_parameter", (wide, False, EMPTY), (tensor, False, EMPTY)),
        ("gradients", "torch._tensor._rebuild_from_type_v2", (typed, NAME("torch.nn.parameter", "Parameter"), (*view[:4], True, EMPTY), {}), kinds["torch._tensor._rebuild_from_type_v2"]),
        ("attributes", "torch._utils._rebuild_parameter_with_state", (tensor, False, EMPTY, {"a%d" % n: n for n in range(30)}), kinds["torch._utils._rebuild_parameter_with_state"]),
        ("slots", "torch._utils._rebuild_parameter_with_state", (tensor, False, EMPTY, ({}, {"a%d" % n: n for n in range(30)})), kinds["torch._utils._rebuild_parameter_with_state"]),
    ):
        sample("amount_tensors_of_%s.pt" % name, archive(calls(what, args, few)), "24,000 tensors with many of these", NOT_PLAIN)
        sample("fine_amount_tensors_of_%s.pt" % name, archive(calls(what, small, few)), "the same without", {"plain"})
    built_ones = calls("torch.nn.parameter.UninitializedParameter", (), 40000, b"h\x02b")
    sample("amount_tensors_of_set_attributes.pt", archive(built_ones), "40,000 tensors with attributes, set by an opcode", NOT_PLAIN)
    sample("fine_amount_tensors_of_set_attributes.pt", archive(calls("torch.nn.parameter.UninitializedParameter", (), 40000)), "the same without", {"plain"})
    sized = NAME("torch", "Tensor") + b"q\x000" + value((stored, 0, (1,) * 64, (1,) * 64)) + b"q\x010](" + b"h\x00)Rh\x01b" * 24000 + b"e"
    sample("amount_tensors_of_set_sizes.pt", archive(proto(2, sized)), "24,000 tensors of 64 sizes, set by an opcode", NOT_PLAIN)


def contents():
    """Bytes that become dates, or texts of numpy, which nobody has looked at."""
    def text(data):
        return reduce_("_codecs", "encode", data.decode("latin1"), "latin1")

    good = {"date": b"\x07\xe8\x02\x1d", "datetime": b"\x07\xe8\x82\x1d\x17\x3b\x3b\x0f\x42\x3f", "time": b"\x97\x3b\x3b\x0f\x42\x3f"}
    bad = {
        "date": [b"\0\0\1\0", b"\0\1\0\1", b"\0\1\x0d\1", b"\x07\xe7\x02\x1d", b"\x07\xe8\x04\x1f", b"\x27\x10\1\1", b"\x07\xe8\x82\1", b"\0\1\1\xff"],
        "datetime": [b"\0\0\1\0" + bytes(6), b"\0\1\1\1\x18" + bytes(5), b"\0\1\1\1\0\x3c" + bytes(4), b"\0\1\1\1\0\0\xff" + bytes(3), b"\0\1\1\1\0\0\0\x0f\x42\x40", b"\0\1\x80\1" + bytes(6)],
        "time": [b"\x18" + bytes(5), b"\0\x3c" + bytes(4), b"\x98" + bytes(5), b"\0\0\0\xff\xff\xff"],
    }
    for name, data in good.items():
        for way, made in (("bytes", blob(data)), ("text", text(data)), ("old", b"U" + bytes([len(data)]) + data)):
            sample("fine_%s_%s.pkl" % (name, way), proto(2, reduce_("datetime", name, made)), "a %s as Python writes it" % name, {"plain"})
    for name, some in bad.items():
        for number, data in enumerate(some):
            for way, made in (("bytes", blob(data)), ("text", text(data)), ("old", b"U" + bytes([len(data)]) + data), ("list", reduce_("builtins", "bytes", list(data)))):
                both("%s_%d_%s" % (name, number, way), reduce_("datetime", name, made), "a %s that there is not, which crashes CPython when it is shown" % name)

    def dtype(kind, state):
        return reduce_("numpy", "dtype", kind, False, True) + value(state) + b"b"

    def array(shape, kind, data):
        return reduce_("numpy.core.multiarray", "_reconstruct", NAME("numpy", "ndarray"), (0,), blob(b"b")) + value((1, shape, kind, False, data)) + b"b"

    def unicode(order="<"):
        return dtype("U2", (3, order, None, None, None, 8, 4, 8))

    fine, wrong = struct.pack("<II", 0x10FFFF, 97), struct.pack("<II", 97, 0x110000)
    field = dtype("V12", (3, "|", None, ("a", "b"), {"a": (dtype("i4", (3, "<", None, None, None, -1, -1, 0)), 0), "b": (unicode(), 4)}, 12, 1, 24))
    several = dtype("V16", (3, "|", None, ("a",), {"a": (dtype("V16", (3, "|", (unicode(), (2,)), None, None, 16, 4, 8)), 0)}, 16, 1, 24))
    for name, kind, data in (
        ("plain", unicode(), wrong), ("big", unicode(">"), fine[::-1][4:] + wrong[::-1][:4]), ("field", field, bytes(4) + wrong), ("several", several, fine + wrong), ("first", unicode(), wrong[::-1]),
        ("surely", unicode(), b"\xff" * 8),
    ):
        for way, made in (("bytes", blob(data)), ("text", text(data))):
            both("characters_%s_%s_scalar" % (name, way), reduce_("numpy.core.multiarray", "scalar", kind, made), "a text with what is no character")
            both("characters_%s_%s_array" % (name, way), array((1,), kind, made), "an array of them")
            both("characters_%s_%s_last" % (name, way), array((2,), kind, blob(bytes(len(data)) + data)), "the last of an array")
        both("characters_%s_buffer" % name, reduce_("numpy.core.numeric", "_frombuffer", blob(data), kind, (1,), "C"), "in a buffer")
    for name, kind, data in (("plain", unicode(), fine), ("big", unicode(">"), struct.pack(">II", 0x10FFFF, 97)), ("field", field, b"\xff" * 4 + fine), ("several", several, fine + fine)):
        sample("fine_characters_%s.pkl" % name, proto(2, array((2,), kind, blob(data + data))), "texts", {"plain"})
    shared = unicode() + b"q\x01" + b"0" + b"h\x01"
    for level in range(30):
        fields = b"}(" + b"".join(value("f%d" % n) + b"h" + bytes([1 + level]) + b"K\x00\x86" for n in range(8)) + b"u"
        shared += b"0" + reduce_("numpy", "dtype", "V8", False, True) + b"(K\x03" + value("|") + b"N(" + b"".join(value("f%d" % n) for n in range(8)) + b"t" + fields + b"K\x08K\x01K\x18tbq" + bytes([2 + level]) + b"0h" + bytes([2 + level])
    both("characters_unfolded", b"N" + shared + b"0" + reduce_("numpy.core.multiarray", "scalar", b"h\x1f", blob(fine)), "structures of the same structures, thirty deep")


def places():
    """Indices of sparse tensors, and the position of a generator: numbers in storages that torch takes for places in memory."""
    def tensor(kind, key, count, shape, offset=0):
        strides, step = [], 1
        for size in reversed(shape):
            strides.insert(0, step)
            step *= size
        stored = b"(" + value("storage") + NAME("torch", kind + "Storage") + value(key) + value("cpu") + b"J" + struct.pack("<i", count) + b"tQ"
        return reduce_("torch._utils", "_rebuild_tensor_v2", stored, offset, shape, tuple(strides), False, EMPTY)

    def files_of(name, body, storages, why, wanted, in_stream=None):
        first, *rest = storages
        sample("%s.pt" % name, files.torch_file(proto(2, body), data=first, extra=[("data/%d" % (n + 1), data) for n, data in enumerate(rest)]), why, wanted)
        counts = [len(data) // 8 if n < len(storages) - 1 else len(data) // 4 for n, data in enumerate(storages)] if len(storages) > 1 else [len(first)]
        sample("%s_legacy.pt" % name, legacy(body=proto(2, body), keys=proto(2, value([str(n) for n in range(len(storages))])),
                                             stored=b"".join(struct.pack("<q", n) + data for n, data in zip(counts, storages))), why, in_stream or wanted)

    def coo(rows, columns, values=3, count=3):
        return [struct.pack("<6q", *rows, *columns), bytes(4 * values)], reduce_("torch._utils", "_rebuild_sparse_tensor", reduce_("torch.serialization", "_get_layout", "torch.sparse_coo"),
                                                                               (tensor("Long", "0", 6, (2, count)), tensor("Float", "1", values, (values,)), (4, 5)))

    def csr(starts, places, layout="csr"):
        return [struct.pack("<%dq" % len(starts), *starts), struct.pack("<3q", *places), bytes(12)], reduce_(
            "torch._utils", "_rebuild_sparse_tensor", reduce_("torch.serialization", "_get_layout", "torch.sparse_" + layout),
            (tensor("Long", "0", len(starts), (len(starts),)), tensor("Long", "1", 3, (3,)), tensor("Float", "2", 3, (3,)), (4, 5)))

    for name, (storages, body), wanted in (
        ("fine_coo", coo((0, 1, 3), (0, 4, 2)), {"plain"}), ("row", coo((0, 1, 4), (0, 4, 2)), NOT_PLAIN), ("column", coo((0, 1, 3), (0, 5, 2)), NOT_PLAIN),
        ("negative", coo((0, -1, 3), (0, 1, 2)), NOT_PLAIN), ("far", coo((0, 1 << 40, 3), (0, 1, 2)), NOT_PLAIN), ("values", coo((0, 1, 3), (0, 4, 2), values=2), NOT_PLAIN),
        ("fine_csr", csr((0, 1, 1, 2, 3), (0, 4, 2)), {"plain"}), ("csr_place", csr((0, 1, 1, 2, 3), (0, 5, 2)), NOT_PLAIN), ("csr_start", csr((0, 1, 1 << 40, 2, 3), (0, 4, 2)), NOT_PLAIN),
        ("csr_back", csr((0, 2, 1, 2, 3), (0, 4, 2)), NOT_PLAIN), ("csr_first", csr((1, 1, 1, 2, 3), (0, 4, 2)), NOT_PLAIN), ("csr_last", csr((0, 1, 1, 2, 2), (0, 4, 2)), NOT_PLAIN),
        ("csr_few", csr((0, 1, 1, 3), (0, 4, 2)), NOT_PLAIN), ("csr_negative", csr((0, 1, 1, 2, 3), (0, -4, 2)), NOT_PLAIN),
        ("fine_csc", csr((0, 1, 1, 2, 2, 3), (0, 3, 2), "csc"), {"plain"}), ("csc_place", csr((0, 1, 1, 2, 2, 3), (0, 4, 2), "csc"), NOT_PLAIN),
    ):
        for way, whole in (("", body), ("_in_list", value([{"a": (body,)}])), ("_in_parameter", reduce_("torch._utils", "_rebuild_parameter", body, False, EMPTY))):
            if not (name.startswith("fine") and way == "_in_parameter"):
                files_of("places_%s%s" % (name, way), whole, storages, "a sparse tensor", wanted)
        if name.startswith("fine"):
            for packed in range(len(storages)):
                members = [Member("archive/data.pkl", proto(2, body))] + [Member("archive/data/%d" % n, data, 8 if n == packed else 0) for n, data in enumerate(storages)] + [Member("archive/version", b"3\n")]
                sample("places_%s_packed_%d.pt" % (name, packed), zip_of(members), "a sparse tensor with a compressed part: mmap takes the compressed bytes for it", NOT_PLAIN)
            sample("places_%s_bare.pkl" % name, proto(2, reduce_("torch.storage", "_load_from_bytes", blob(legacy())) + b"0" + body), "of storages that are not in the file", NOT_PLAIN)
    for name, left, following, wanted in (("fine", 600, 25, {"plain"}), ("fine_new", 1, 0, {"plain"}), ("behind", 624, 600, NOT_PLAIN), ("end", 2, 624, NOT_PLAIN), ("far", 10, 1 << 33, NOT_PLAIN), ("none", 0, 0, NOT_PLAIN), ("negative", -5, 0, NOT_PLAIN)):
        state = struct.pack("<QiiQ", 1, left, 1, following) + bytes(5056 - 24)
        files_of("places_generator_%s" % name, NAME("torch", "Generator") + value(("cpu",)) + b"R" + value((1, None, tensor("Byte", "0", 5056, (5056,)))) + b"b", [state], "a generator and its state", wanted, NOT_DECIDED)


def numbers():
    """Numbers in text that CPython's two unpicklers, or two of its versions, read in two ways."""
    for text in ("I+1", "I-0", "I+0", "I010", "I+01", "I-01", "I0x1", "I1_0", "I 1", "I1 ", "I-1_0", "L010L", "L+1L", "L-0L", "L0_1L", "L 1L", "L1l", "I0o7", "I007"):
        both("number_%s" % "".join(c if c.isalnum() else "%02x" % ord(c) for c in text), b"](" + text.encode() + b"\ne", "a number in text: %s" % text)
    for text in ("I00", "I01", "I0", "I1", "I-1", "I12", "I-120", "L0L", "L12L", "L-120L", "L99999999999999999999L"):
        sample("fine_number_%s.pkl" % text.replace("-", "m"), proto(2, b"](" + text.encode() + b"\ne"), "a number in text", {"plain"})


def depths():
    """Objects in objects: what CPython frees by going down."""
    deque, default = NAME("collections", "deque"), NAME("collections", "defaultdict")
    count = 100000
    for name, body in (
        ("inside_out", deque + b"q\x000" + b"h\x00)R" + b"q\x010" + b"h\x00)R" + b"h\x00)R" * count + b"a" * count),
        ("outside_in", default + b"q\x000" + b"h\x00)R" + b"K\x01h\x00)R" * count + b"s" * count),
        ("argument", deque + b"q\x000" + b"h\x00](" * count + b"N" + b"e\x85R" * count),
        ("pairs", NAME("collections", "OrderedDict") + b"q\x000" + b"h\x00](K\x01" * count + b"N" + b"\x86e\x85R" * count),
        ("freed", default + b"q\x000" + b"h\x00)R" + b"K\x01h\x00)R" * count + b"s" * count + b"0N"),
        ("joined", deque + b"q\x000" + b"".join(b"h\x00)Rr" + struct.pack("<I", n) + b"0" for n in range(1, 6100)) + b"".join(b"j" + struct.pack("<II", n, 0)[:4] + b"j" + struct.pack("<I", n + 1) + b"a0" for n in sorted(range(1, 6099), key=lambda n: n * 7919 % 6098))),
    ):
        both("depth_%s" % name, body, "100,000 objects, each in the next")
    # CPython 3.13 frees what these have in C by going down: it ends by a signal
    for name, attribute in (("StopIteration", "value"), ("AttributeError", "obj"), ("AttributeError", "name")):
        made = NAME("builtins", name) + b"q\x000" + value(attribute) + b"q\x020" + b"h\x00)Rq\x010"
        inside = b"h\x00)R}h\x02h\x01sbq\x010"
        sample("fine_depth_of_%s_%s.pkl" % (name, attribute), proto(2, made + inside * 20 + b"h\x01"), "20 exceptions, each an attribute of the next", {"plain"})
        for count in (64, 2000, 100000):
            both("depth_of_%s_%s_%d" % (name, attribute, count), made + inside * count + b"h\x01", "%d exceptions, each an attribute of the next" % count, NOT_DECIDED)
            both("depth_of_%s_%s_%d_dropped" % (name, attribute, count), made + inside * count + b"N", "the same, of which nothing is left", NOT_DECIDED)
    sample("fine_depth.pkl", proto(2, deque + b"q\x000" + b"h\x00](" * 900 + b"N" + b"e\x85R" * 900), "900 objects, each in the next", {"plain"})
    sample("fine_depth_many.pkl", proto(2, deque + b"q\x000" + b"h\x00)R(" + b"h\x00)R(NNNe" * 20000 + b"e"), "20,000 objects in one", {"plain"})


def ranges():
    for name, *arguments in (("UnicodeDecodeError", "utf-8", blob(b"abc")), ("UnicodeEncodeError", "utf-8", "abc"), ("UnicodeTranslateError", "abc")):
        sample("fine_%s.pkl" % name, proto(2, reduce_("builtins", name, *arguments, 1, 2, "why")), "an error of Python as it is pickled", {"plain"})
        for number_, (start, end) in enumerate(((-1, 0), (2, 1), (0, 4), (1 << 30, (1 << 30) + 1), (-(1 << 30), 1 - (1 << 30)))):
            both("range_%s_%d" % (name, number_), reduce_("builtins", name, *arguments, start, end, "x"), "to be shown, CPython 3.9 and 3.11 read where there is nothing")
        both("range_%s_state" % name, reduce_("builtins", name, *arguments, 0, 1, "x") + value({"start": -(1 << 30)}) + b"b", "the same by BUILD")


def made_by_new():
    """What __init__() does with its arguments, NEWOBJ does not: a load gives an empty one, and ls would show what is in the arguments."""
    weights = {"w": files.tensor()}
    for name, module, arguments in (
        ("list", "builtins", ([files.tensor()],)), ("dict", "builtins", (weights,)), ("set", "builtins", ([1, 2],)), ("bytearray", "builtins", (blob(b"abc"),)), ("OrderedDict", "collections", (weights,)),
        ("OrderedDict", "collections", ([("w", files.tensor())],)), ("defaultdict", "collections", (NAME("builtins", "list"), weights)), ("defaultdict", "collections", (None,)), ("Counter", "collections", ({"a": 1},)),
        ("deque", "collections", ([files.tensor()],)), ("deque", "collections", ([files.tensor()], 4)), ("PosixPath", "pathlib", ("a",)), ("PurePosixPath", "pathlib", ("a", "b")), ("ValueError", "builtins", ("a",)),
        ("OSError", "builtins", (1, "a")), ("UnicodeDecodeError", "builtins", ("utf-8", blob(b"abc"), 1, 2, "why")), ("SyntaxError", "builtins", ("a",)),
    ):
        number = "%s_%d_%d" % (name, len(arguments), len(SAMPLES))
        many, one = value(arguments), NAME(module, name)
        for way, body in (("newobj", one + many + b"\x81"), ("newobj_ex", one + many + b"}\x92"), ("function", NAME("copyreg", "__newobj__") + b"(" + one + b"".join(map(value, arguments)) + b"tR"),
                          ("list", value([one + many + b"\x81"]))):
            both("new_%s_%s" % (number, way), body, "an instance that __init__() has not seen")
        sample("fine_new_%s.pt" % number, torch_zip(proto(2, value([TENSOR, one + many + b"R"]))), "the same, called", {"plain"})
    for name, module in (("list", "builtins"), ("dict", "builtins"), ("set", "builtins"), ("OrderedDict", "collections"), ("deque", "collections"), ("defaultdict", "collections")):
        sample("fine_new_%s.pkl" % name, proto(2, NAME(module, name) + b")\x81"), "an empty one", {"plain"})
    both("new_path", NAME("pathlib", "PosixPath") + b")\x81", "a path without parts")
    # without arguments these two make an instance as NEWOBJ does
    for module, name, wanted in (("pathlib", "PosixPath", NOT_PLAIN), ("pathlib", "PurePosixPath", NOT_PLAIN), ("pathlib", "WindowsPath", NOT_PLAIN), ("pathlib", "PureWindowsPath", NOT_PLAIN), ("pathlib._local", "PosixPath", NOT_PLAIN),
                                 ("collections", "OrderedDict", {"plain"}), ("collections", "deque", {"plain"}), ("builtins", "ValueError", {"plain"})):
        for way, body in (("obj", b"(" + NAME(module, name) + b"o"), ("inst", b"(i%s\n%s\n" % (module.encode(), name.encode()))):
            both("new_by_%s_%s_%s" % (way, module, name), body, "an instance without arguments", wanted)
    both("new_by_obj_with_parts", b"(" + NAME("pathlib", "PosixPath") + value("a") + b"o", "a path, which is called", {"plain"})


def full_deques():
    """A deque keeps as many as it may, and drops what it had."""
    deque = NAME("collections", "deque")
    for most, held, added, fine in ((0, 1, 0, False), (1, 2, 0, False), (-1, 0, 0, False), (2, 2, 1, False), (2, 1, 2, False), (0, 0, 1, False), (3, 2, 1, True), (5, 0, 5, True), (0, 0, 0, True), (2, 2, 0, True)):
        for way in ("append", "appends", "twice"):
            items = [value(n) for n in range(added)]
            joined = b"".join(one + b"a" for one in items) if way == "append" else b"(" + b"".join(items) + b"e" if way == "appends" else b"(" + b"".join(items[:1]) + b"e(" + b"".join(items[1:]) + b"e"
            body = deque + value((list(range(held)), most)) + b"R" + joined
            name = "deque_%d_%d_%d_%s" % (most, held, added, way)
            if fine:
                sample("fine_%s.pkl" % name, proto(2, body), "a deque with room", {"plain"})
            else:
                both(name, body, "a deque with more items than it keeps")
    tensors = deque + value(([], 1)) + b"R(" + files.tensor() * 3 + b"e"
    both("deque_of_tensors", tensors, "two of three tensors are dropped")


def copied_before():
    """What a call copies, and what is put into that behind the call."""
    tensor, weights = files.tensor(), value("w") + files.tensor()
    for name, module, holder, add in (("list", "builtins", b"]", tensor + b"a"), ("tuple", "builtins", b"]", tensor + b"a"), ("set", "builtins", b"]", tensor + b"a"), ("frozenset", "builtins", b"](", tensor + b"e"),
                                      ("dict", "builtins", b"}", weights + b"s"), ("OrderedDict", "collections", b"}(", weights + b"u"), ("OrderedDict", "collections", b"]", b"(" + weights + b"ta"), ("Counter", "collections", b"}", weights + b"s"),
                                      ("deque", "collections", b"]", tensor + b"a"), ("Size", "torch", b"](K\x02e", b"K\x03a"), ("bytes", "builtins", b"]", b"K\x03a"), ("bytearray", "builtins", b"]", b"K\x03a")):
        start = holder[:-1] if holder.endswith(b"(") else holder
        mark = b"(" if holder.endswith(b"(") else b""
        both("copied_%s_%d" % (name, len(SAMPLES)), start + b"q\x310" + NAME(module, name) + b"h\x31\x85Rq\x320h\x31" + mark + add + b"0h\x32", "what is put in behind the call is in no copy")
    both("copied_set_literal", b"\x8f(K\x01\x90q\x310" + NAME("builtins", "list") + b"h\x31\x85Rq\x320h\x31(K\x02\x900h\x32", "a set that grows behind the call", protocol=4)
    both("copied_pair", b"](](" + weights + b"eq\x31eq\x330" + NAME("collections", "OrderedDict") + b"h\x33\x85R0h\x31K\x01a", "a pair that grows behind the call")
    shape = NAME("torch._utils", "_rebuild_tensor_v2") + b"(" + files.storage("0", "FloatStorage", 4) + b"K\x00](K\x04eq\x31](K\x01eq\x32\x89" + EMPTY + b"tR"
    both("copied_shape", value([shape, b"h\x31K\x01a", b"h\x32K\x01a"]), "the shape of a tensor grows behind the call")
    both("copied_state", NAME("torch", "Tensor") + b")R(" + files.storage("0", "FloatStorage", 4) + b"K\x00](K\x04eq\x31](K\x01eq\x32tb0h\x31K\x01a0h\x32K\x01a", "the same in a state")
    sample("fine_copied.pkl", proto(2, b"](" + NAME("builtins", "list") + b"](K\x01eq\x31\x85Rh\x31e"), "a list that is in another, and a copy of it", {"plain"})


def attributes():
    """Attributes of tensors that nobody has looked at: in what a call makes, or put into what a call keeps."""
    typed, parameter = NAME("torch._utils", "_rebuild_parameter"), NAME("torch.nn.parameter", "Parameter")
    view = NAME("torch._utils", "_rebuild_tensor_v2")
    partial = reduce_("functools", "partial", NAME("mypkg.tools", "touch"), "text")
    array = {"data": value((1, False)), "shape": value((10,)), "typestr": "<f8", "version": 3}
    states_ = {"items": {"items": partial}, "as_subclass": {"as_subclass": partial}, "array": {"__array_interface__": array}, "real": {"real": TENSOR}, "data": {"data": TENSOR},
               "hooks": {"_backward_hooks": 5}, "accumulated": {"_post_accumulate_grad_hooks": TENSOR}, "class": {"__class__": NAME("collections", "Counter")}, "dict": {"__dict__": {"a": 1}}, "fine": {"a": 1}}
    for name, state in states_.items():
        for kind in ("max", "topk", "linalg_svd"):
            hidden = reduce_("torch.return_types", kind, (state, None) if kind == "max" else (state, None, None)[: 2 if kind == "topk" else 3])
            both("hidden_%s_%s_parameter" % (kind, name), reduce_("torch._utils", "_rebuild_parameter_with_state", TENSOR, True, EMPTY, hidden), "a tuple that a call makes has attributes")
            both("hidden_%s_%s_object" % (kind, name), NAME("mypkg", "C") + b")\x81" + hidden + b"b", "the same as the state of an object")
            for module, function in (("torch._tensor", "_rebuild_from_type_v2"), ("torch._tensor", "_rebuild_from_type"), ("torch.tensor", "_rebuild_from_type")):
                both("hidden_%s_%s_%s_%s" % (kind, name, module[6:8], function[-4:]), reduce_(module, function, typed, parameter, value((TENSOR, True, EMPTY)), hidden), "the same by a function of torch")
        if name == "fine":
            continue
        both("tuple_class_%s" % name, NAME("mypkg", "C") + b")\x81" + NAME("mypkg", "Pair") + value(({"a": 1}, state)) + b"\x81b", "the same in a class that may be a tuple") if name in ("class", "dict") else None
        key, item = next(iter(state.items()))
        for module in ("torch._tensor", "torch.tensor"):
            for kind, empty in (("dict", b"}"), ("ordered", EMPTY)):
                both("kept_%s_%s_%s" % (module[6:8], kind, name), empty + b"q\x330" + reduce_(module, "_rebuild_from_type", typed, parameter, value((TENSOR, True, EMPTY)), b"h\x33") + b"0h\x33" + value(key) + value(item) + b"s",
                     "put into the dict of attributes that a tensor keeps")
    for number, hooks in enumerate((EMPTY, b"}")):
        for what, hook in (("class", NAME("numpy", "ndarray")), ("function", partial), ("number", b"K\x05")):
            for module, function in (("torch._tensor", "_rebuild_from_type_v2"), ("torch._tensor", "_rebuild_from_type"), ("torch.tensor", "_rebuild_from_type")):
                both("hooks_inside_%d_%s_%s_%s" % (number, what, module[6:8], function[-4:]), hooks + b"q\x330" + reduce_(module, function, view, NAME("torch", "Tensor"), value((files.storage("0", "FloatStorage", 4), 0, (2,), (1,), True, b"h\x33")), {})
                     + b"0h\x33K\x01" + hook + b"s", "hooks that are put in behind a call in a call")
                both("hooks_inside_parameter_%d_%s_%s_%s" % (number, what, module[6:8], function[-4:]), hooks + b"q\x330" + reduce_(module, function, typed, parameter, value((TENSOR, True, b"h\x33")), {}) + b"0h\x33K\x01" + hook + b"s", "the same of a Parameter")
    for name in ("items", "keys", "as_subclass", "clone", "to", "detach", "cpu", "set_", "numpy"):
        for kind, cls in (("ndarray", NAME("numpy", "ndarray")), ("list", NAME("builtins", "list")), ("tensor", NAME("torch", "Tensor"))):
            both("class_as_%s_%s" % (name, kind), reduce_("torch._tensor", "_rebuild_from_type_v2", typed, parameter, value((TENSOR, True, EMPTY)), {name: cls}), "a load would call a class of the file's choice")
    # torch calls as_subclass() of what a function in the first place makes; of an object that calls another, too
    hooked = NAME("torch.nn.modules.linear", "Identity") + b")\x81" + value({"_forward_hooks": b"}K\x00" + partial + b"s"}) + b"b"
    empty = NAME("torch._utils", "_rebuild_meta_tensor_no_storage") + NAME("torch", "Tensor") + value((NAME("torch", "float32"), (2,), (1,), False))
    for what, thing in (("hooked", hooked), ("object", NAME("mypkg", "Bar") + b")\x81"), ("number", b"K\x05"), ("tensor", TENSOR)):
        attributes = value("as_subclass") + thing
        for how, inner in (("meta", b"(" + empty + b"}" + attributes + b"st"), ("pair", b"(" + empty + b"N}" + attributes + b"s\x86t"), ("ordered", b"(" + empty + EMPTY + attributes + b"st"), ("own", b"(" + empty.replace(b"ctorch\nTensor\n", NAME("mypkg", "Own")) + b"}" + attributes + b"st")):
            v2 = NAME("torch._tensor", "_rebuild_from_type_v2")
            both("as_subclass_%s_%s" % (what, how), v2 + b"(" + v2 + parameter + inner + b"}tR", "the attribute that a load calls", RUN)
            both("as_subclass_%s_%s_parameter" % (what, how), v2 + b"(" + NAME("torch._utils", "_rebuild_parameter_with_state") + NAME("mypkg", "Own") + b"(" + value(TENSOR) + b"\x88" + EMPTY + b"}" + attributes + b"st}tR", "the same of a parameter with attributes", NOT_PLAIN)
    sample("fine_own_attribute.pt", torch_zip(proto(2, b"}q\x330" + reduce_("torch._tensor", "_rebuild_from_type", typed, parameter, value((TENSOR, True, EMPTY)), b"h\x33") + b"q\x340h\x33(" + value("me") + b"h\x34" + value("n") + b"K\x01u")), "a tensor that is its own attribute", {"plain"})


def arguments_as_values():
    """Functions of the tables in what looks like the arguments of a call that takes one."""
    loads, sizes = value((blob(b"x"),)), value(())
    functions = {"load": LOAD, "rebuild": NAME("torch._utils", "_rebuild_tensor_v2"), "encode": NAME("_codecs", "encode"), "from_type": NAME("torch._tensor", "_rebuild_from_type_v2")}
    own, bunch = NAME("mypkg.data", "Own"), NAME("sklearn.utils", "Bunch")
    for name, function in functions.items():
        four = {"second": [1, function, loads, None], "first": [function, NAME("mypkg", "C"), loads, None], "fourth": [1, NAME("mypkg", "C"), loads, function], "load": [function, NAME("torch", "Tensor"), sizes, None]}
        for place, items in four.items():
            args = value(tuple(items))
            both("args_%s_%s_alone" % (name, place), args, "arguments of a call as a value")
            both("args_%s_%s_listed" % (name, place), value(items), "... as a list")
            both("args_%s_%s_in_list" % (name, place), value([args]), "... in a list")
            both("args_%s_%s_in_tuple" % (name, place), value((1, NAME("mypkg", "C"), args, None)), "... in such arguments")
            both("args_%s_%s_new" % (name, place), own + args + b"\x81", "... to a class of a package, without a call")
            both("args_%s_%s_called" % (name, place), NAME("mypkg.data", "OwnError") + args + b"R", "... to one that is called")
            both("args_%s_%s_inst" % (name, place), b"(" + b"".join(value(item) for item in items) + b"imypkg.data\nOwn\n", "... to one by INST")
            both("args_%s_%s_obj" % (name, place), b"(" + own + b"".join(value(item) for item in items) + b"o", "... to one by OBJ")
            both("args_%s_%s_built" % (name, place), own + b")\x81" + args + b"b", "... as a state")
            both("args_%s_%s_appended" % (name, place), own + b")\x81(" + b"".join(value(item) for item in items) + b"e", "... as items")
            both("args_%s_%s_items" % (name, place), bunch + b")\x81(" + value("append") + b"".join(value(item) for item in (function, (), None)) + b"u" + blob(b"x") + b"a", "... as pairs")
            both("args_%s_%s_kept" % (name, place), functions["from_type"] + args + b"q\x3300" + own + b"h\x33\x81", "... of a call that is not made, out of the memo")
            both("args_%s_%s_made" % (name, place), value({"a": args}), "... in a dict")
    for count in range(1, 8):
        for place in {0, count - 1}:
            items = b"".join(LOAD if n == place else b"K\x01" for n in range(count))
            for name, module, cls in (("error", "mypkg.data", "OwnError"), ("own", "mypkg.data", "Own"), ("library", "builtins", "ValueError"), ("tuple", "torch.return_types", "max")):
                both("args_marked_%d_%d_%s_obj" % (count, place, name), b"(" + NAME(module, cls) + items + b"o", "a function among the arguments by OBJ")
                both("args_marked_%d_%d_%s_inst" % (count, place, name), b"(" + items + b"i%s\n%s\n" % (module.encode(), cls.encode()), "the same by INST")
                both("args_marked_%d_%d_%s_tuple" % (count, place, name), NAME(module, cls) + b"(" + items + b"tR", "the same by REDUCE")
    for length in (3, 4):
        args = value(("reduce_package", 1, LOAD, (blob(b"x"),))[:1] + ("reduce_package", 1, LOAD, (blob(b"x"),))[5 - length:] if length == 3 else ("reduce_package", 1, LOAD, (blob(b"x"),)))
        both("args_package_%d" % length, own + args + b"\x81", "what looks like a call of torch.package")
        both("args_package_%d_alone" % length, args, "the same as a value")
        both("args_package_%d_state" % length, own + b")\x81" + args + b"b", "the same as a state")
    module = NAME("torch._utils", "torch")
    for name, body in {"new": own + value((module, "load")) + b"\x81", "alone": value((module, "load")), "pair": bunch + b")\x81" + module + value("load") + b"s", "list": value([module, "load"]), "state": own + b")\x81" + value((module, "load")) + b"b"}.items():
        both("module_" + name, body, "the module torch as a value")


def printed_states():
    """What torch prints of a state that is no pair, while it loads: unfolded, or before the numbers are there."""
    parameter, meta = NAME("torch.nn.parameter", "Parameter"), value((NAME("torch", "float32"), (1,), (1,), False))
    doubled = value("x")
    for _ in range(60):
        doubled = doubled + b"q\x330h\x33h\x33\x86"
    tensors = {"list": [TENSOR], "tuple": (TENSOR,), "dict": {"a": TENSOR}, "deep": {"a": [TENSOR]}}
    states_ = {"doubled": doubled + b"\x85", "texts": b"(" + value("x" * 100000) + b"q\x33" + b"h\x33" * 300 + b"t", "number": value(5), "text": value("x"), "list": value([]), "empty": b")", "one": value(({"a": 1},)), "three": value(({"a": 1}, None, None)),
               "pair_of_lists": value(([], [])), "pair_of_numbers": value((1, 2)), "pair_with_text": value(({"a": 1}, "x")), "pair_with_tensor": value((None, TENSOR))}
    for name, held in tensors.items():
        states_["of_" + name] = value((held,))
        states_["three_of_" + name] = value((held, None, None))
    for name, state in states_.items():
        ways = {"with_state": reduce_("torch._utils", "_rebuild_parameter_with_state", TENSOR, False, EMPTY, state)}
        for cls in (("torch.nn.parameter", "Parameter"), ("torch", "Tensor"), ("torch.distributed.tensor", "DTensor")):
            for module, function in (("torch._tensor", "_rebuild_from_type_v2"), ("torch._tensor", "_rebuild_from_type"), ("torch.tensor", "_rebuild_from_type")):
                ways["%s_%s_%s" % (module[6:8], function[-4:], cls[1])] = reduce_(module, function, NAME("torch._utils", "_rebuild_meta_tensor_no_storage"), NAME(*cls), meta, state)
        for way, body in ways.items():
            both("printed_%s_%s" % (name, way), body, "a state of which torch makes a text")
            sample("printed_%s_%s_stream.pt" % (name, way), legacy(body=proto(2, value([TENSOR]) + b"0" + body)), "the same in a stream, whose numbers follow", NOT_PLAIN)
    for name, state in {"none": b"N", "dict": value({"a": 1}), "pair": value(({"a": 1}, {"b": 2})), "half": value((None, {"b": 2})), "ordered": EMPTY, "nothing": value((None, None))}.items():
        sample("fine_state_%s.pt" % name, torch_zip(proto(2, reduce_("torch._utils", "_rebuild_parameter_with_state", TENSOR, False, EMPTY, state))), "attributes as torch writes them", {"plain"})
        both("fine_state_%s_type" % name, reduce_("torch._tensor", "_rebuild_from_type_v2", NAME("torch._utils", "_rebuild_meta_tensor_no_storage"), parameter, meta, state), "attributes as torch writes them", {"plain"})


def called_at_the_end():
    """What torch.load calls of each sparse tensor when all is read, on the tensor itself."""
    partial = reduce_("functools", "partial", NAME("mypkg.tools", "touch"), "text")
    layout = reduce_("torch.serialization", "_get_layout", "torch.sparse_coo")
    tensor = value((layout, (TENSOR, TENSOR, (4, 4))))
    for name in ("_indices", "_values", "size", "is_coalesced", "crow_indices", "col_indices", "ccol_indices", "row_indices", "values", "layout"):
        for what, item in (("number", 5), ("partial", partial), ("function", NAME("mypkg.tools", "touch")), ("class", NAME("torch", "FloatStorage"))):
            for place, state in (("dict", {name: item}), ("pair", (None, {name: item})), ("ordered", EMPTY + value(name) + value(item) + b"s")):
                for module, function in (("torch._tensor", "_rebuild_from_type_v2"), ("torch._tensor", "_rebuild_from_type"), ("torch.tensor", "_rebuild_from_type")):
                    both("called_%s_%s_%s_%s_%s" % (name, what, place, module[6:8], function[-4:]), reduce_(module, function, NAME("torch._utils", "_rebuild_sparse_tensor"), NAME("torch", "Tensor"), tensor, state), "a load calls this attribute", {"dangerous"})
            # by such a name it may be torch.Tensor itself
            for module, class_ in (("torch.nn.functional", "Tensor"), ("torch.optim.adam", "Tensor"), ("mypkg", "Sub")) if what == "partial" else ():
                for how, function in (("v2", "_rebuild_from_type_v2"), ("v1", "_rebuild_from_type")):
                    both("called_%s_%s_%s_%s" % (name, what, module.replace(".", ""), how), reduce_("torch._tensor", function, NAME("torch._utils", "_rebuild_sparse_tensor"), NAME(module, class_), tensor, {name: item}), "the same of a class of another module", {"dangerous"})
                    again = (NAME("torch._utils", "_rebuild_sparse_tensor"), NAME("torch", "Tensor"), tensor, {})
                    both("called_%s_%s_%s_%s_again" % (name, what, module.replace(".", ""), how), reduce_("torch._tensor", function, NAME("torch._tensor", "_rebuild_from_type_v2"), NAME(module, class_), again, {name: item}), "the same of what another such call makes", {"dangerous"})
            for module in ("torch._tensor", "torch.tensor"):
                both("called_%s_%s_kept_%s" % (name, what, module[6:8]), b"}q\x330" + reduce_(module, "_rebuild_from_type", NAME("torch._utils", "_rebuild_sparse_tensor"), NAME("torch", "Tensor"), tensor, b"h\x33") + b"0h\x33" + value(name) + value(item) + b"s", "the same, put into the dict that the tensor keeps", {"dangerous"})


def modules_of_ids():
    """In a stream torch gives back what stands in the place of the class in ('module', class, file, source), whatever it is."""
    function, member = NAME("mypkg", "func"), reduce_("builtins", "getattr", NAME("mypkg", "Bar"), "baz")
    partial = reduce_("functools", "partial", function, "id")
    things = {"member": member, "partial": partial, "list": value([function]), "dict": value({"a": function}), "tuple": value((function,)), "ordered": EMPTY + value("a") + function + b"s", "object": NAME("mypkg", "Bar") + b")\x81" + value({"a": function}) + b"b",
              "deque": NAME("collections", "deque") + b")R" + function + b"a", "text": value("a"), "none": b"N", "class_in_list": value([NAME("mypkg", "Bar")])}
    for name, thing in things.items():
        pid = value(("module", thing, "f", "s")) + b"Q"
        for way, body in (("newobj", NAME("mypkg", "Bar") + b"(" + pid + b"t\x81"), ("newkw", NAME("mypkg", "Bar") + b")}" + value("k") + pid + b"s\x92"), ("state", NAME("mypkg", "Bar") + b")\x81" + pid + b"b"),
                          ("call", NAME("mypkg", "Bar") + b"(" + pid + b"tR"), ("item", NAME("mypkg", "Bar") + b")\x81" + pid + b"a"), ("alone", pid)):
            sample("module_of_id_%s_%s.pt" % (name, way), legacy(body=proto(4 if way == "newkw" else 2, body), keys=proto(2, b"]"), stored=b""), "a class that is none in a persistent id", NOT_PLAIN)
    named = {"ndarray": ("numpy", "ndarray"), "dtype": ("numpy", "dtype"), "tensor": ("torch", "Tensor"), "bytearray": ("builtins", "bytearray"), "syntax": ("builtins", "SyntaxError"), "parameter": ("torch.nn.parameter", "Parameter"),
             "counter": ("collections", "Counter"), "ordered": ("collections", "OrderedDict"), "strided": ("torch", "strided"), "ellipsis": ("builtins", "Ellipsis"), "list": ("builtins", "list"), "function": ("mypkg", "func"),
             "storage": ("torch", "FloatStorage"), "rebuild": ("torch._utils", "_rebuild_tensor_v2"), "path": ("pathlib", "PosixPath"), "decimal": ("decimal", "Decimal"), "system": ("os", "system")}
    for name, (module, last) in named.items():
        for way, then in (("alone", b""), ("new", b"(K\x08t\x81"), ("call", b"(K\x08tR"), ("built", b")\x81}b")):
            stream, tar = (proto(2, value((*mark, NAME(module, last), None, None)) + b"Q" + then) for mark in (("module",), ()))
            sample("class_of_id_%s_%s.pt" % (name, way), legacy(body=stream, keys=proto(2, b"]"), stored=b""), "a class of the tables, or a function, in a persistent id: it comes back as what it is", NOT_PLAIN)
            sample("class_of_id_%s_%s.tar" % (name, way), tar_of(old_tar(pickle=tar)), "the same in a tar of torch 0.1", NOT_PLAIN)
    # what comes back is what it is where it is named
    for way, then, wanted in (("attribute", NAME("mypkg", "Bar") + b")\x81}" + value("append"), RUN), ("dress", NAME("torch._tensor", "_rebuild_from_type_v2") + b"(" + NAME("torch._utils", "_rebuild_parameter") + NAME("torch.nn.parameter", "Parameter") + value((TENSOR, True, EMPTY)) + b"}" + value("items"), NOT_PLAIN)):
        end = b"sb" if way == "attribute" else b"stR"
        for name, thing in (("function", NAME("mypkg", "func")), ("class", NAME("mypkg", "Bar"))):
            sample("class_of_id_%s_as_%s.pt" % (name, way), legacy(body=proto(2, then + value(("module", thing, None, None)) + b"Q" + end), keys=proto(2, b"]"), stored=b""), "what a load would call comes out of a persistent id", wanted)
    sample("fine_class_of_id.pt", legacy(body=proto(2, value(("module", NAME("torch.nn.modules.linear", "Linear"), "linear.py", "class Linear")) + b"Q)\x81" + value({"training": True}) + b"b"), keys=proto(2, b"]"), stored=b""), "as torch writes a module", {"needs-objects"})
    for name, front in (("safetensors", safetensors_before(b"chelper/util\nmkdir\n(Vx\ntR.")), ("tilde", safetensors_before(b"c~elper\nmkdir\n(Vx\ntR.")), ("ptl", b"\x8c\x06\0\0PTMF0chelper/util\nmkdir\n(Vx\ntR.")):
        sample("module_of_zip_%s" % name, front, "a module of a zip in sys.path, by a path", NOT_PLAIN)


def asked():
    """What asks a tensor its number, before that is read, and what gives a tensor the bytes of somebody else."""
    for name, body in {
        "array": reduce_("array", "array", "q", [TENSOR]), "array_float": reduce_("array", "array", "d", [TENSOR, 1]), "bytes": reduce_("builtins", "bytes", [TENSOR]), "bytes_tuple": reduce_("builtins", "bytes", (TENSOR, 1)),
        "bytearray": reduce_("builtins", "bytearray", [TENSOR]), "bytes_of_object": reduce_("builtins", "bytes", [NAME("mypkg", "C") + b")\x81"]), "blocking": reduce_("builtins", "BlockingIOError", 11, "x", TENSOR),
        "os_error": reduce_("builtins", "OSError", 11, "x", TENSOR), "io_error": reduce_("builtins", "IOError", 11, "x", TENSOR, None), "environment": reduce_("builtins", "EnvironmentError", 11, "x", TENSOR),
        "key": b"}" + reduce_("builtins", "bytes", [TENSOR]) + b"N" + blob(b"a") + b"Ns",
        "written": reduce_("builtins", "BlockingIOError", 11, "x") + value({"characters_written": TENSOR}) + b"b", "written_by_number": reduce_("builtins", "OSError", 11, "x") + value({"characters_written": TENSOR}) + b"b",
        "written_new": NAME("builtins", "BlockingIOError") + b")\x81" + value({"characters_written": TENSOR}) + b"b", "written_object": reduce_("builtins", "BlockingIOError", 11, "x") + value({"characters_written": NAME("mypkg", "C") + b")\x81"}) + b"b",
    }.items():
        both("asks_" + name, body, "Python asks a tensor for its number")
        sample("asks_%s_stream.pt" % name, legacy(body=proto(2, value([TENSOR]) + b"0" + body)), "the same in a stream, whose numbers follow", NOT_PLAIN)
    both("fine_bytes_of_numbers", value([reduce_("builtins", "bytes", [1, 2, 255]), reduce_("array", "array", "q", [1, 2]), reduce_("array", "array", "d", [b"G\x3f\xe0\0\0\0\0\0\0"]), reduce_("builtins", "bytearray", [1])]), "numbers one by one", {"plain"})
    kind = NAME("numpy", "dtype") + value(("u1", False, True)) + b"R"
    for name, data in (("byte", reduce_("_codecs", "encode", "\0", "latin1")), ("empty", blob(b"")), ("bytes", blob(b"ab"))):
        for function in ("_rebuild_device_tensor_from_numpy", "_rebuild_xla_tensor"):
            both("bytes_of_all_%s_%s" % (name, function[9:12]), reduce_("torch._utils", function, reduce_("numpy.core.numeric", "_frombuffer", data, kind, (1 if name == "byte" else 2 if name == "bytes" else 0,), "C"), NAME("torch", "uint8"), "cpu", False),
                 "a tensor over a bytes object, which may be that of the whole process")
    for copy in ((), (False,), (False, False), (False, 0)):
        for order in "<>":
            shared = NAME("numpy", "dtype") + value(("f8", *copy)) + b"R" + value((3, order, None, None, None, -1, -1, 0)) + b"b"
            both("shared_dtype_%d_%s" % (len(copy) + (copy[-1:] == (0,) and copy[-1] is not False), "big" if order == ">" else "little"), NAME("numpy.core.multiarray", "_reconstruct") + value((NAME("numpy", "ndarray"), (0,), blob(b"b"))) + b"R"
                 + value((1, (1,), shared, False, blob(bytes(8)))) + b"b", "the state of a dtype that everybody has, which numpy does not set")
    for first, then in (("float", "float32"), ("double", "float64"), ("half", "float16"), ("long", "int64"), ("int", "int32"), ("short", "int16"), ("cfloat", "complex64")):
        both("same_keys_dtype_%s" % first, b"}(" + NAME("torch", first) + b"K\x01" + NAME("torch", then) + b"K\x02u", "two names of one dtype are two keys", NOT_DECIDED)
    sample("sets.pkl", proto(4, b"](" + b"\x8f" * 400000 + b"e"), "a byte each, and 200 in memory", NOT_DECIDED)
    sample("frozensets.pkl", proto(4, b"](" + b"(\x91" * 400000 + b"e"), "the same of sets that stay as they are", NOT_DECIDED)
    listed = value(list(range(350)))
    for name, cls in (("set", NAME("builtins", "set")), ("frozenset", NAME("builtins", "frozenset"))):
        sample("sets_by_calls_%s.pkl" % name, proto(2, b"](" + cls + b"q\x01" + listed + b"\x85q\x02R" + b"h\x01h\x02R" * 2500 + b"e"), "the same list again and again makes sets", NOT_DECIDED)
    pairs = value({n: None for n in range(22)})
    for name, cls in (("ordered", NAME("collections", "OrderedDict")), ("dict", NAME("builtins", "dict")), ("default", NAME("collections", "defaultdict"))):
        sample("dicts_by_calls_%s.pkl" % name, proto(2, b"](" + cls + b"q\x01" + (b"N" + pairs + b"\x86" if name == "default" else pairs + b"\x85") + b"q\x02R" + b"h\x01h\x02R" * 20000 + b"e"), "the same dict again and again makes dicts", NOT_DECIDED)
    for name, place, count in (("empty", "cpu", 0), ("meta", "meta", 1)):
        pid = value(("storage", NAME("torch", "FloatStorage"), "0", place, count))
        sample("named_storages_%s.pt" % name, torch_zip(proto(2, b"](" + pid + b"q\x01Q" + b"h\x01Q" * 400000 + b"e")), "a storage that torch makes anew each time it is named", NOT_DECIDED)
    sample("fine_empty_copies.pkl", proto(2, b"](" + b"".join(NAME(*cls) + empty + b"\x85R" for cls in (("builtins", "set"), ("builtins", "frozenset"), ("collections", "OrderedDict")) for empty in (b")", b"]", b"}"))
           .replace(NAME("builtins", "set") + b"}\x85R", b"").replace(NAME("builtins", "frozenset") + b"}\x85R", b"") + b"e"), "copies of nothing", {"plain"})
    sample("fine_sets_by_calls.pkl", proto(2, b"](" + b"".join(reduce_("builtins", "set", list(range(n, n + 5))) for n in range(3000)) + b"e"), "sets of protocol 2", {"plain"})
    sample("fine_sets.pkl", proto(4, b"](" + b"\x8f(K\x01K\x02\x90" * 20000 + b"e"), "20,000 small sets", {"plain"})
    for module in ("numpy.core.numeric", "numpy._core.numeric"):
        sample("fine_transposed_%d.pkl" % len(module), proto(5, reduce_(module, "_frombuffer", b"\x96" + struct.pack("<Q", 24) + bytes(24), NAME("numpy", "dtype") + value(("f4", False, True)) + b"R" + value((3, "<", None, None, None, -1, -1, 0)) + b"b", (1, 2, 3), "K", (2, 0, 1))),
               "a transposed array, as numpy 2.4 writes it", {"plain"})


def harmless():
    """What was called dangerous, and is not."""
    fine = {"plain", "needs-objects"}
    sample("fine_thnn.pt", torch_zip(proto(2, built(NAME("torch.nn.modules.linear", "Linear") + b")\x81", {"_backend": reduce_("torch.nn.backends.thnn", "_get_thnn_function_backend"), "training": True}))),
           "a whole module of torch 0.1 to 1.2", fine)
    sample("fine_planner.pt", torch_zip(proto(2, value([reduce_("torch.distributed.checkpoint.planner", "WriteItemType", 2)]))), "an Enum of DCP's plans", fine)
    sample("fine_planner_bare.metadata", proto(4, value([reduce_("torch.distributed.checkpoint.planner", "WriteItemType", 2)])), "an Enum of DCP's plans", fine)
    sample("fine_protocol_0.pkl", b"(lp0\n" + b"".join(at_line("text %d" % n) + b"p%d\na" % (n + 1) for n in range(40)) + b".", "a list of texts in protocol 0", {"plain"})
    sample("fine_lowered.pt", torch_zip(proto(2, built(NAME("__torch__.torch.jit.LoweredModule.net", "Net") + b")\x81", {"a": 1}))), "a module that was lowered for mobile", fine)
    assert MAGIC and SYSTEM


def broken_off():
    """What was imported before a pickle breaks off has run, whatever the file is called."""
    environ = b"Vos\nVenviron\nq\xc2\x93VBROWSER\nVsh -c true\ns0Vantigravity\nVx\nq\xc2\x93"
    fronts = {"module": b"cthis\nfoo bar\n", "parent": b"cthis.x\r\nfoo\r\n", "dot": b"c.this\nx\n", "zero": b"cthis.\0\nx\n", "marked": b"(ithis\nx\n", "stack": b"Vthis\nVx\nq\xc2\x93",
              "item": environ, "call": b"ca_b\nmkdir\n(Vx\ntR", "own": b"cmy-module\nx\n", "letters": "cmodül\nx\n".encode(), "line": b"cthis\n", "word": b"cthisX", "unmarked": b"ithis\nx\n", "frame": b"\x80\x04\x95\xff\0\0\0\0\0\0\0cthis\nx\n"}
    for name, front in fronts.items():
        for end, more in (("end", b""), ("text", b"\nand text\n"), ("byte", b"\xff")):
            label = "broken_%s_%s" % (name, end)
            for ending in ("txt", "json", "md", "csv", "bin"):
                sample("%s.%s" % (label, ending), front + more, "imports, and breaks off", NOT_PLAIN)
            sample(label + ".zip", zip_of([Member("a/readme.txt", front + more)]), "the same in a member", NOT_PLAIN)
            if len(front + more) >= 10:
                sample(label + ".safetensors", safetensors_before(front + more), "the same behind a header", NOT_PLAIN)
    for name, many in (("lists", b"]" * (1 << 21)), ("more_lists", b"]" * (1 << 22))):
        sample("broken_%s.txt" % name, many + b"cthis\nx\n", "imports, behind more than is looked into", NOT_PLAIN)
        sample("broken_%s_whole" % name, many + SYSTEM_CALL + b".", "calls, behind more than is looked into", NOT_PLAIN)
    chain = lambda start: b"(tp%d\n0" % start + b"".join(b"(g%d\ng%d\ntp%d\n0" % (start + i, start + i, start + i + 1) for i in range(40))  # noqa: E731
    costs = {"hash": chain(0) + b"(g40\nNd", "equal": chain(0) + chain(50) + b"(g40\nNg90\nNd", "memo": b"]p268435456\n", "int": b"I" + b"9" * 5000 + b"\n", "long": b"L -1_" + b"9" * 50000 + b"L\n"}
    for name, front in costs.items():
        for ending in ("txt", "json", "md", "csv", "rst", "bin", "pt"):
            sample("cost_%s.%s" % (name, ending), front + b" hello\n", "takes memory or time, and breaks off", NOT_PLAIN)
        sample("cost_%s.safetensors" % name, safetensors_before(front + b" hello\n"), "the same behind a header", NOT_PLAIN)
    for name, front in (("room", b"\x96" + struct.pack("<Q", 1 << 32)), ("slot", b"Nr    ")):
        for ending in ("safetensors", "pt", "bin"):
            sample("cost_%s.%s" % (name, ending), safetensors_before(front + b"hello"), "takes memory, and breaks off", NOT_PLAIN)
    for name, text in (("prose", b"cats are nice\nand dogs, too\n"), ("title", b"c++ is\na language\n"), ("key", b"content: a\nb: c\n"), ("json", b'{"c": "this"}\n'), ("table", b"c,this\nx,y\n"), ("word", b"Vis\nthis\n")):
        sample("fine_text_%s.zip" % name, zip_of([Member("a/readme.txt", text)]), "a text", {"plain"})


wildcards()
broken_off()
identities()
states()
values()
numpys()
bombs()
amounts()
contents()
ranges()
places()
numbers()
depths()
made_by_new()
full_deques()
copied_before()
attributes()
arguments_as_values()
printed_states()
called_at_the_end()
modules_of_ids()
asked()
harmless()

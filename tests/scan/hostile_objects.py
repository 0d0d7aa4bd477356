# SPDX-License-Identifier: Apache-2.0
"""Tricks with what is made: parts of a tensor that are set as attributes, classes that act where they are made, functions of packages."""

import struct
import zlib

from assemble import NOT_DECIDED, RUN, Member, blob, call, files, legacy, proto, reduce_, sample, torch_zip, value, zip_of

NOT_PLAIN = RUN | NOT_DECIDED
NAME = files.glob
TENSOR = files.tensor()
HOOKS = NAME("collections", "OrderedDict") + b")R"
FINE = {"plain"}


def both(name, body, why, wanted=NOT_PLAIN, protocol=2):
    sample("%s.pkl" % name, proto(protocol, body), why, wanted)
    sample("%s.pt" % name, torch_zip(proto(protocol, value({"w": TENSOR}) + b"0" + body)), why, wanted)


def parts_of_tensors():
    """setattr() of a name that a tensor has a part under: with `real` it writes into the bytes of another, behind all checks."""
    names = ("real", "imag", "data", "grad", "_grad", "_backward_hooks", "_post_accumulate_grad_hooks", "_cdata", "_grad_fn", "names", "name", "requires_grad", "T", "shape",
             "dtype", "device", "_version", "volatile", "__class__", "__dict__", "retains_grad", "grad_dtype")
    rebuild = NAME("torch._utils", "_rebuild_tensor_v2")
    for name in names:
        for form, state in (("dict", value({name: TENSOR})), ("slots", value(None) + value({name: TENSOR}) + b"\x86"), ("first", value({name: TENSOR}) + value({}) + b"\x86")):
            both("part_%s_%s" % (name, form), NAME("torch._utils", "_rebuild_parameter_with_state") + b"(" + TENSOR + value(False) + HOOKS + state + b"tR", "a part of a tensor as an attribute: %s" % name)
            inner = TENSOR[len(rebuild):-1]
            for module, function in (("torch._tensor", "_rebuild_from_type_v2"), ("torch._tensor", "_rebuild_from_type"), ("torch.tensor", "_rebuild_from_type")):
                sample("part_%s_%s_%s_%s.pt" % (name, form, function, module), torch_zip(proto(2, NAME(module, function) + b"(" + rebuild + NAME("torch", "Tensor") + inner + state + b"tR")),
                       "a part of a tensor as an attribute: %s" % name, NOT_PLAIN)
    ordered = NAME("collections", "OrderedDict") + b")R" + value("real") + TENSOR + b"s"
    both("part_real_ordered", NAME("torch._utils", "_rebuild_parameter_with_state") + b"(" + TENSOR + value(False) + HOOKS + ordered + b"tR", "a part of a tensor, in an OrderedDict")
    both("part_real_later", NAME("torch._utils", "_rebuild_parameter_with_state") + b"(" + TENSOR + value(False) + HOOKS + b"}q\x05" + b"tR0h\x05" + value("real") + TENSOR + b"s", "put into the dict behind the call", NOT_PLAIN | FINE)
    for name in ("tag", "partition_dim", "realm", "Data", "note", "tensor_model_parallel"):
        sample("fine_attribute_%s.pt" % name, torch_zip(proto(2, value({"w": TENSOR}) + b"0" + NAME("torch._utils", "_rebuild_parameter_with_state") + b"(" + TENSOR + value(False) + HOOKS + value({name: 1}) + b"tR")),
               "an attribute of a parameter", FINE)


def made_with_arguments():
    """Classes of the library and of numpy that open files where they are made, whatever opcode makes them."""
    arguments = value(("out.py", "uint8", "w+", 0, (4,)))
    for module in ("numpy", "numpy.core.memmap", "numpy._core.memmap"):
        cls = NAME(module, "memmap")
        both("memmap_newobj_%s" % module, cls + arguments + b"\x81", "numpy.memmap without a call")
        both("memmap_newobj_ex_%s" % module, cls + arguments + b"}\x92", "numpy.memmap with keywords", protocol=4)
        both("memmap_keywords_%s" % module, cls + b")" + value({"filename": "out.py", "mode": "w+"}) + b"\x92", "numpy.memmap with keywords", protocol=4)
        both("memmap_new_%s" % module, NAME("copyreg", "__newobj__") + b"(" + cls + b"".join(value(a) for a in ("out.py", "uint8", "w+", 0, (4,))) + b"tR", "numpy.memmap by copyreg")
        both("memmap_new_ex_%s" % module, NAME("copyreg", "__newobj_ex__") + b"(" + cls + arguments + b"}tR", "numpy.memmap by copyreg")
        both("memmap_reduce_%s" % module, cls + arguments + b"R", "numpy.memmap, called")
        both("memmap_reconstruct_%s" % module, NAME("numpy.core.multiarray", "_reconstruct") + b"(" + cls + value((0,)) + blob(b"b") + b"tR" + arguments + b"b", "numpy.memmap as the class of an array")
    for module, name in (("logging", "FileHandler"), ("zipfile", "ZipFile"), ("tempfile", "NamedTemporaryFile"), ("http.client", "HTTPConnection"), ("socket", "socket"), ("mailbox", "mbox"),
                         ("multiprocessing.shared_memory", "SharedMemory"), ("logging.handlers", "SocketHandler"), ("xml.sax.saxutils", "XMLGenerator"), ("string", "Formatter"), ("numpy", "DataSource"),
                         ("numpy", "nditer"), ("torch", "PyTorchFileReader"), ("torch._C", "PyTorchFileWriter"), ("torch", "FileCheck"), ("ctypes", "CDLL"), ("threading", "Timer")):
        both("made_%s_%s" % (module, name), NAME(module, name) + value(("out", "w")) + b"\x81", "a class of the library, with arguments")


def functions_of_packages():
    for module, name, *arguments in (("six", "exec_", "pass"), ("six.moves", "exec_", "pass"), ("hydra.utils", "instantiate", {"_target_": "os.system"}), ("hydra.utils", "call", {"_target_": "os.system"}),
                                     ("click", "launch", "x"), ("click", "edit", "x"), ("nltk.data", "load", "x"), ("gensim.utils", "unpickle", "x"), ("networkx", "read_gpickle", "x"), ("transformers", "pipeline", "x"),
                                     ("datasets", "load_dataset", "x"), ("attr._make", "_compile_and_eval", "pass", {}, {}, "x"), ("attr._make", "_make_method", "x", "pass", "x", {}),
                                     ("six", "_import_module", "this"), ("filelock._async", "_capture_call", 1), ("future.backports.misc", "_check_output", ["x"]), ("filelock._soft", "_open", "x"),
                                     ("future.moves.subprocess", "Popen", "x"), ("gevent.subprocess", "Popen", "x"), ("eventlet.green.subprocess", "Popen", "x"), ("tqdm.utils", "Popen", "x"),
                                     ("hypothesis.errors.io", "FileIO", "x", "w"), ("future.moves.socketserver", "TCPServer", ("", 0), None), ("a.b", "CodeType", 1), ("six.moves", "Thing", 1), ("spacy", "load", "x"), ("wandb", "init"), ("scipy.sparse", "load_npz", "x"), ("polars", "read_ipc", "x"), ("a.b.c", "anything", {"x": 1}), ("a.B", "c")):
        both("package_%s_%s" % (module, name), reduce_(module, name, *arguments), "a function of a package, called")
    for module, name, made in (("typing_extensions", "get_type_hints", call(NAME("typing_extensions", "TypedDict"), "X", {"a": "f()"})), ("typing_extensions", "get_type_hints", call(NAME("typing_extensions", "NamedTuple"), "X", [("a", "f()")])),
                               ("a", "resolve", NAME("a.b", "Class") + value(("x",)) + b"\x81"), ("a", "resolve", NAME("a.b", "Class") + b")\x81" + value({"x": 1}) + b"b"), ("a", "resolve", NAME("a.b", "Class") + b")\x81](K\x01e" + b"0" + NAME("a.b", "Class") + b")\x81K\x01K\x02s"),
                               ("a", "resolve", NAME("a.b", "Class") + b")" + value({"x": 1}) + b"\x92")):
        both("package_full_%s_%d" % (name, len(made)), call(NAME(module, name), made), "a function of a package, called with an object that the file fills", protocol=4)
    for module, name, *arguments in (("filelock", "ReadWriteLock", "x.db"), ("filelock._read_write", "ReadWriteLock", "x.db"), ("filelock", "SoftFileLock", "x"), ("filelock._soft", "SoftFileLock"), ("filelock._unix", "UnixFileLock")):
        both("filelock_%s_%s" % (module, name), call(NAME(module, name), *arguments), "a lock, which makes a file, or removes one where it is freed")
        both("filelock_new_%s_%s" % (module, name), NAME(module, name) + b")\x81" + value({"_context": 1}) + b"b", "a lock, which makes a file, or removes one where it is freed")
    for module, cls, name, *arguments in (("attr._make", "attr.exceptions:FrozenError", "attrs", {"f": 1}), ("attr._make", "attr.exceptions:FrozenError", "make_class", "x"), ("attr", "attr.exceptions:FrozenError", "s", {"f": 1}),
                                          ("networkx", "networkx:Graph", "write_edgelist", "x"), ("networkx.readwrite.edgelist", "networkx.classes.graph:Graph", "write_edgelist", "x"), ("networkx", "networkx:Graph", "write_gml", "x"),
                                          ("a.b", "a.c:Class", "save", "x"), ("a", "a:Class", "from_dict", 1), ("a", "a:Class", "make", 1, 2)):
        of = NAME(*cls.split(":"))
        for form, first in (("class", of), ("object", of + b")\x81"), ("made", of + b")R")):
            both("package_own_%s_%s_%s" % (module, name, form), call(NAME(module, name), first, *arguments), "a function of a package, called with a class of it and more")
        both("package_method_%s_%s" % (module, name), call(call(NAME("__builtin__", "getattr"), of, name), of, *arguments), "a method of a class of a package, called")
    for module, name, first in (("a.b", "_unpickle", 1), ("a", "Class", 1), ("a", "_Class", 1), ("a", "__pyx_unpickle_Enum", 1), ("pytz", "_p", "UTC")):
        sample("fine_package_%s_%s.pkl" % (module, name), proto(2, call(NAME(module, name), first)), "what a package writes for its objects", {"needs-objects"})
    for module, name in (("a.b", "set_state"), ("a", "run"), ("a.b", "main"), ("a", "_open"), ("wandb", "init")):
        for form, first in (("made", NAME(module, "Class") + b")\x81"), ("called", NAME(module, "Class") + b")R"), ("inner", NAME(module + ".c", "Class") + b")\x81")):
            both("package_bare_%s.%s_%s" % (module, name, form), call(NAME(module, name), first), "a function of a package, called with an empty object of it", RUN)
    sample("fine_user_string.pkl", proto(2, NAME("collections", "UserString") + value(("text",)) + b"\x81"), "a text that is an object", {"needs-objects"})
    sample("fine_relu.pkl", proto(2, reduce_("__builtin__", "getattr", NAME("torch._C", "_VariableFunctionsClass"), "relu")), "torch.relu as a value", {"needs-objects"})


def numbers_of_numpy():
    """An array of one number."""
    return NAME("numpy.core.multiarray", "_reconstruct") + b"(" + NAME("numpy", "ndarray") + value((0,)) + blob(b"b") + b"tR(" + value(1) + value((1,)) + reduce_("numpy", "dtype", "f4", False, True) + \
        value((3, "<", None, None, None, -1, -1, 0)) + b"b\x89" + blob(struct.pack("<f", 1)) + b"tb"


def functions_that_look_up():
    """A function of a package may import, or call, what a text or a class says that it is given, whatever it is called itself."""
    own, made = NAME("a.c", "Class"), NAME("a.c", "Class") + b")\x81"
    for module, name, *arguments in (("celery.app.base", "_unpickle_appattr", "_canvas.operator._abs.__self__.exec", ("pass",)), ("celery.app.base", "_unpickle_appattr", "loader.import_module", ("this",)),
                                     ("celery.app.registry", "_unpickle_task", "x"), ("celery.app.registry", "_unpickle_task_v2", "x", "this"), ("celery.app.utils", "_unpickle_app", NAME("celery", "Celery"), NAME("celery.app.utils", "AppPickler")),
                                     ("celery.app.utils", "_unpickle_app_v2", NAME("celery", "Celery"), {"main": "x"}), ("PyQt5.sip", "_unpickle_type", "this", "X", ()), ("PyQt6.sip", "_unpickle_type", "this", "X", ()),
                                     ("PyQt5.sip", "_unpickle_enum", "this", "X", 1), ("sip", "_unpickle_enum", "this", "X", 1), ("astropy.units.core", "_recreate_irreducible_unit", NAME("astropy.units", "Unit"), ["m"], True), ("pint", "_unpickle", NAME("pint", "Unit"), "m"),
                                     ("a.b", "_rebuild", "x"), ("a.b", "_reconstruct", blob(b"x")), ("a.b", "_restore", own), ("a.b", "_recreate", own, 1), ("a.b", "_new", "x", 1), ("a.b", "_deserialize", blob(b"x")), ("a.b", "_unreduce", own, ()),
                                     ("a.b", "_do_unpickle", 1, ["x"]), ("a.b", "_unpickle", {"x": 1}), ("a.b", "_unpickle", {1: "x"}), ("a.b", "_unpickle", [[[[[["x"]]]]]]), ("a.b", "_rebuild", reduce_("builtins", "bytes", [105, 100])), ("a.b", "_rebuild", reduce_("builtins", "bytearray", [105, 100])), ("a.b", "_rebuild", reduce_("builtins", "bytearray")), ("a.b", "_rebuild", reduce_("array", "array", "b", [105])), ("a.b", "_rebuild", reduce_("builtins", "str")), ("a.b", "_rebuild", reduce_("pathlib", "PosixPath")), ("a.b", "_rebuild", b"]q\x05" + value("x") + b"a"), ("a.b", "_unpickle", made + value({"x": 1}) + b"b"), ("a.b", "_unpickle", NAME("a.c", "Class") + value(("x",)) + b"\x81"),
                                     ("a.b", "_unpickle", reduce_("collections", "OrderedDict", [("x", 1)])), ("a.b", "_unpickle", NAME("collections", "deque") + b")R" + value("x") + b"a"), ("a.b", "_unpickle", NAME("torch", "FloatStorage")), ("a.b", "_unpickle", NAME("builtins", "list")),
                                     ("a.b", "_unpickle", call(NAME("functools", "partial"), own)), ("a.b", "_unpickle", call(NAME("__builtin__", "getattr"), own, "X")), ("a.b", "_unpickle", reduce_("_codecs", "encode", "x", "latin1")), ("a.b", "_unpickle", *[1] * 15 + ["x"]),
                                     ("a.b", "make", own), ("a.b", "_open", own)):
        body = call(NAME(module, name), *arguments)
        both("look_up_%s_%s_%08x" % (module, name, zlib.crc32(body)), body, "a function of a package, which may look up what it is given", RUN)
    listed = NAME("celery.app.base", "_unpickle_appattr"), value("x") + value(("y",))
    sample("look_up_obj.pkl", proto(1, b"(" + listed[0] + listed[1] + b"o"), "the same by the opcode OBJ", RUN)
    sample("look_up_inst.pkl", proto(1, b"(" + listed[1] + b"icelery.app.base\n_unpickle_appattr\n"), "the same by the opcode INST", RUN)
    both("look_up_from_type", NAME("torch._tensor", "_rebuild_from_type_v2") + b"(" + listed[0] + NAME("torch", "Tensor") + b"(" + listed[1] + b"t}tR", "the same by a function of torch that calls it")
    sum_, empty = 0x1234567, value(None)
    for name, arguments in (("class", (own, sum_, empty)), ("state", (own, sum_, (1, "x", blob(b"y"), {"z": 1}))), ("objects", (own, sum_, b"(" + made + b"t"))):
        sample("fine_cython_%s.pkl" % name, proto(2, call(NAME("a.b", "__pyx_unpickle_Class"), *arguments)), "what Cython writes", {"needs-objects"})
    for name, arguments in (("text", ("x", sum_, empty)), ("other_package", (NAME("b.c", "Class"), sum_, empty)), ("sum", (own, "x", empty)), ("list", (own, sum_, [1])), ("more", (own, sum_, empty, 1)), ("two", (own, sum_)), ("function", (own, sum_, b"(" + NAME("six", "exec_") + b"t")),
                            ("code", (NAME("os", "system"), sum_, empty)), ("dict", (own, sum_, {"x": 1})), ("getattr", (call(NAME("__builtin__", "getattr"), NAME("b.c", "Class"), "X"), sum_, empty))):
        both("cython_%s" % name, call(NAME("a.b", "__pyx_unpickle_Class"), *arguments), "nothing that Cython writes", RUN)
    index, range_, array = NAME("pandas.core.indexes.base", "Index"), NAME("pandas.core.indexes.range", "RangeIndex"), numbers_of_numpy()
    block, stamp, times = ("pandas._libs.internals", "_unpickle_block"), ("pandas._libs.tslibs.timestamps", "_unpickle_timestamp"), ("pandas.core.indexes.datetimes", "_new_DatetimeIndex")
    for (module, name), fine, arguments in (
        (("pandas.core.indexes.base", "_new_Index"), True, (range_, {"name": None, "start": 0, "stop": 3, "step": 1})), (("pandas.core.indexes.base", "_new_Index"), True, (index, b"}" + value("data") + array + b"s" + value("name") + value("x") + b"s")),
        (("pandas.core.indexes.base", "_new_Index"), False, ("x", {})), (("pandas.core.indexes.base", "_new_Index"), False, (NAME("a", "Class"), {})), (("pandas.core.indexes.base", "_new_Index"), False, (NAME("pandas", "read_json"), {})),
        (("pandas.core.indexes.base", "_new_Index"), False, (index, b"}" + value("data") + NAME("six", "exec_") + b"s")), (("pandas.core.indexes.base", "_new_Index"), False, (index, [("name", 1)])), (("pandas.core.indexes.base", "_new_Index"), False, (index,)),
        (times, True, (NAME("pandas", "DatetimeIndex"), {"name": None})), (times, False, (NAME("pandas", "DatetimeIndex"), "x")), (block, True, (array, reduce_("builtins", "slice", 0, 2, 1), 2)), (block, False, ("x", reduce_("builtins", "slice", 0, 2, 1), 2)), (block, False, (array, "x", 2)),
        (block, False, (array, reduce_("builtins", "slice", 0, 2, 1), "x")), (stamp, True, (1, None, None, 10)), (stamp, True, (1, None, reduce_("pytz", "_UTC"), 10)), (stamp, False, (1, None, "dateutil//etc/hostname", 10)), (stamp, False, (1, "D", None)), (stamp, False, ("x", None, None)),
        (("pandas._libs.tslibs.nattype", "_nat_unpickle"), True, (None,)), (("pandas._libs.tslibs.nattype", "__nat_unpickle"), True, (None,)), (("pandas._libs.tslibs.nattype", "__nat_unpickle"), False, ("x",)),
        (("pandas.core.indexes.interval", "_new_IntervalIndex"), True, (NAME("pandas", "IntervalIndex"), {"closed": "right"})), (("pandas.core.indexes.interval", "_new_IntervalIndex"), False, (NAME("a", "Class"), {})), (("pandas._libs.tslibs.nattype", "_nat_unpickle"), False, ("x",)), (("pandas._libs.tslibs.timedeltas", "_timedelta_unpickle"), True, (1, 10)), (("pandas._libs.tslibs.timedeltas", "_timedelta_unpickle"), False, (1, "x")),
        (("sklearn.neighbors._kd_tree", "newObj"), True, (NAME("sklearn.neighbors._kd_tree", "KDTree"),)), (("sklearn.neighbors._kd_tree", "newObj"), False, (NAME("a", "Class"),)), (("sklearn.neighbors._kd_tree", "newObj"), False, ("x",))):
        body = call(NAME(module, name), *arguments)
        sample("%s_%s_%08x.pkl" % ("fine_known" if fine else "known", name, zlib.crc32(body)), proto(4, body), "a function of a package that is known", {"needs-objects"} if fine else RUN)
    sample("fine_look_up_numbers.pkl", proto(2, call(NAME("a.b", "_unpickle"), 1, b"G" + struct.pack(">d", 2.5), (True, None, [3]), [[[[[[[[1]]]]]]]], reduce_("decimal", "Decimal", "1.5"), reduce_("datetime", "date", blob(b"\x07\xe8\x01\x01")), array, NAME("torch", "float32"), NAME("collections", "OrderedDict") + b")R", made)), "a function that is given numbers", {"needs-objects"})
    sample("fine_look_up_tensor.pt", torch_zip(proto(2, call(NAME("a.b", "_rebuild_tensor"), TENSOR, 1))), "a function that is given a tensor", {"needs-objects"})


def functions_as_classes():
    """copyreg._reconstructor(cls, base, state) calls base.__new__(cls, state): what is no class ends the load only if that is Python's own."""
    make, own = NAME("copyreg", "_reconstructor"), NAME("a.b", "Class")
    for name, cls in (("function", NAME("a.b", "func")), ("torch", NAME("torch.nn.functional", "relu")), ("method", call(NAME("builtins", "getattr"), own, "make")), ("partial", call(NAME("functools", "partial"), own)), ("dotted", NAME("a.b", "Class.make"))):
        for state in (value("word"), value(7), value([7])):
            sample("as_class_%s_%08x.pkl" % (name, zlib.crc32(state)), proto(4, make + cls + own + state + b"\x87R"), "a function in the place of a class, for __new__() of a package", NOT_PLAIN)
    for name, base, state in (("object", NAME("builtins", "object"), b"N"), ("dict", NAME("builtins", "dict"), value({"k": 1})), ("int", NAME("builtins", "int"), value(3))):
        sample("fine_small_class_%s.pkl" % name, proto(2, make + NAME("a.b", "my_class") + base + state + b"\x87R"), "a class with a small name, in protocol 1", {"needs-objects"})
    sample("fine_own_base.pkl", proto(2, make + own + NAME("a.b", "Base") + value(3) + b"\x87R"), "a class that is derived from one in C", {"needs-objects"})


def many_names():
    """All that is imported is listed; a file with more than that, or with longer names, is not decided."""
    for count, wanted in ((1100, {"needs-objects"}), (2000, {"needs-objects"}), (2001, NOT_DECIDED)):
        sample("names_%d.pkl" % count, proto(4, b"".join(NAME("a.m%d" % i, "Class") + b")\x810" for i in range(count)) + b"N"), "%d classes" % count, wanted)
    for form, module, name in (("module", "a." + "b" * 400, "Class%s"), ("name", "a.b", "a.b." * 100 + "Class%s"), ("both", "a." * 140 + "b", "a." * 146 + "Class%s"), ("wide", "a", "\u00e9" * 150 + "Class%s")):
        names = [value(module) + value(name % end) + b"\x93)\x81" for end in ("One", "Two")]
        sample("names_long_%s.pkl" % form, proto(4, names[0] + b"0" + names[1]), "two classes whose names are one where they are shown", {"unreadable", "dangerous"})


def functions_handed_over():
    """A class of a package may call the function that the file gives it, with the text that the file gives it."""
    sorted_list, exec_ = NAME("sortedcontainers.sortedlist", "SortedKeyList"), NAME("six", "exec_")
    for name, function in (("six", exec_), ("hypothesis", NAME("hypothesis.internal.reflection", "source_exec_as_module")), ("future", NAME("future.utils", "exec_")), ("memmap", NAME("numpy", "memmap")),
                           ("partial", call(NAME("functools", "partial"), exec_)), ("attribute", call(NAME("__builtin__", "getattr"), NAME("a.b", "Class"), "make")), ("dashed", NAME("a", "_run"))):
        both("handed_%s" % name, call(sorted_list, ["x"], function), "a function of a package, given to a class that may call it")
        both("handed_new_%s" % name, sorted_list + b"(" + value(["x"]) + function + b"t\x81", "the same without __init__()")
        both("handed_keyword_%s" % name, sorted_list + b"(" + value(["x"]) + b"t}" + value("key") + function + b"s\x92", "the same by a keyword", protocol=4)
        both("handed_inside_%s" % name, sorted_list + b"(" + value(["x"]) + b"(" + function + b"ttR", "the same in a tuple")
    for name, given in (("text", value("exec_")), ("object", NAME("a.b", "Class") + b")\x81"), ("dtype", NAME("torch", "float32"))):
        both("handed_key_%s" % name, call(sorted_list, ["x"], given), "a key, which is called with a text if it can be", NOT_DECIDED)
        sample("fine_handed_%s.pkl" % name, proto(2, call(NAME("ordered_set", "OrderedSet"), ["x", given])), "an object of a package that is given what is no function", {"needs-objects"})
    both("handed_class", call(sorted_list, ["x"], NAME("a.b", "Class")), "a class of a package, which is called with a text", NOT_DECIDED)
    for module, name in (("test.__main__", "x"), ("pip.__main__", "Class")):
        both("program_%s" % module, NAME(module, name), "a program, which runs where it is imported")
    for module, name, *arguments in (("networkx.readwrite.gexf", "ElementTree", None, "/etc/hostname"), ("past.translation", "RefactoringTool", ["antigravity.fix_x"])):
        both("library_%s" % name, call(NAME(module, name), *arguments), "a class of Python's library under the name of a package")


def functions_handed_over_inside():
    """The same in what a call makes, in an object, or put there behind the call; handed.py tries all ways that there are."""
    proxy, run, command = NAME("celery.local", "PromiseProxy"), NAME("celery.utils.imports", "instantiate"), ("os:system", "true")
    ordered, deque, lazy, end = NAME("collections", "OrderedDict") + b")R", NAME("collections", "deque") + b")R", NAME("kombu.utils.functional", "lazy") + b")\x81", value({"a": 1}) + b"b"
    filled = b"(" + value("local") + run + value("args") + value(command) + b"u"
    lazy_state = b"}(" + value("_fun") + run + value("_args") + value(command) + b"ub"
    for name, body in (
        ("ordered", proxy + b"(" + proxy + b")" + ordered + filled + b"tR" + end), ("key", proxy + b"(" + proxy + ordered + b"(" + run + value(1) + value(command) + value(1) + b"utR" + end),
        ("default", proxy + b"(" + proxy + b")" + NAME("collections", "defaultdict") + b")R" + filled + b"tR" + end), ("deque", proxy + b"(" + proxy + deque + b"(" + run + value(command) + b"etR" + end),
        ("dict", proxy + b"(" + proxy + b")" + NAME("builtins", "dict") + b"}" + filled + b"\x85RtR" + end), ("object", proxy + b"(" + lazy + lazy_state + b"tR" + end), ("object_new", proxy + lazy + lazy_state + b"\x85\x81"),
        ("items", proxy + b"(" + proxy + NAME("traits.trait_list_object", "TraitList") + b")\x81(" + run + value(command) + b"etR" + end), ("pairs", proxy + b"(" + proxy + b")" + NAME("celery.utils.collections", "AttributeDict") + b")\x81" + filled + b"tR" + end),
        ("method", proxy + deque + call(NAME("builtins", "getattr"), proxy, "x") + b"a\x85R" + end), ("list_later", proxy + b"(" + proxy + b"]q\x09tRh\x09(" + run + value(command) + b"e0" + end),
        ("dict_later", proxy + b"(" + proxy + b")}q\x09tRh\x09" + filled + b"0" + end), ("state_later", proxy + lazy + b"q\x09\x85Rh\x09" + lazy_state + b"0" + end), ("error", proxy + NAME("builtins", "ValueError") + b")R}" + value("a") + run + b"sb\x85R"),
        ("index", NAME("pandas.core.indexes.base", "_new_Index") + NAME("pandas.core.indexes.base", "Index") + b"}" + value("data") + ordered + value(1) + run + b"ss\x86R"),
    ):
        both("handed_inside_%s" % name, body, "a function, inside of what a class of a package is given", RUN, 4)


def keys_that_are_called():
    """ParameterDict calls what it has under one key for the next one; loggers are those of the process; pandas opens the time zone that a text names."""
    for name, made in (("parameters", NAME("torch.nn.modules.container", "ParameterDict") + b")R"), ("stranger", NAME("a.c", "Class") + b")\x81")):
        for kind, code in (("function", NAME("future.utils", "exec_")), ("attribute", call(NAME("builtins", "getattr"), NAME("a.c", "Tool"), "run")), ("partial", call(NAME("functools", "partial"), NAME("a", "run"))), ("class", NAME("a.c", "Tool"))):
            first, then = value("_key_to_attr") + code, value("import os") + value(1)
            for way, body in (("two", first + b"s" + then + b"s"), ("one", b"(" + first + then + b"u"), ("groups", b"(" + first + b"u(" + then + b"u")):
                both("key_called_%s_%s_%s" % (name, kind, way), made + body, "a %s that an object may call for the next key" % kind, NOT_DECIDED if kind == "class" else RUN, 4)
    logger = reduce_("logging", "getLogger", "torch")
    for name, body in (("disabled", b"}" + value("disabled") + value(True) + b"sb"), ("filters", b"}" + value("filters") + b"](" + NAME("a.c", "Filter") + b")\x81esb"), ("slots", b"N}" + value("level") + value(100) + b"s\x86b"), ("item", value("a") + value(1) + b"s"), ("append", value(1) + b"a")):
        both("logger_%s" % name, logger + body, "what a logger of the whole process does", RUN, 4)
    for flags in (128, 128 | 32, True):
        both("pattern_flags_%s" % flags, reduce_("re", "_compile", "a*", flags), "an expression that prints itself", NOT_DECIDED, 4)
    zone, index = "dateutil//tmp/x", NAME("pandas.core.indexes.base", "Index")
    both("zone_index", reduce_("pandas.core.indexes.datetimes", "_new_DatetimeIndex", NAME("pandas", "DatetimeIndex"), {"data": None, "tz": zone, "freq": None}), "a file, as a time zone", RUN, 4)
    both("zone_dtype", reduce_("pandas.core.indexes.base", "_new_Index", index, {"data": None, "dtype": "datetime64[ns, %s]" % zone}), "a file, as a time zone in a dtype", RUN, 4)
    both("zone_interval", reduce_("pandas.core.dtypes.dtypes", "IntervalDtype", "interval[datetime64[ns, %s], right]" % zone), "a file, as a time zone in the dtype of an interval", RUN, 4)


def frames_of_pandas():
    """What a DataFrame is written as: calls in calls, whose classes are looked at where they are."""
    array = numbers_of_numpy()
    dtype, missing = reduce_("pandas", "StringDtype", "python", NAME("pandas", "NA")), NAME("pandas", "NA")
    texts = call(NAME("pandas._libs.arrays", "__pyx_unpickle_NDArrayBacked"), NAME("pandas.core.arrays.string_", "StringArray"), 1, None) + dtype + array + b"}\x87b"
    zone = call(NAME("pandas._libs.arrays", "__pyx_unpickle_NDArrayBacked"), NAME("pandas.core.arrays.datetimes", "DatetimeArray"), 1, None) + array + b"}\x86b"

    def index(data, cls="Index"):
        return NAME("pandas.core.indexes.base", "_new_Index") + NAME("pandas.core.indexes.base", cls) + b"}(" + value("data") + data + value("name") + value("a") + b"u\x86R"

    def frame(data, axis, more=b""):
        block = call(NAME("pandas._libs.internals", "_unpickle_block"), data, reduce_("builtins", "slice", 0, 1, 1), 2)
        manager = NAME("pandas.core.internals.managers", "BlockManager") + block + b"\x85](" + axis + index(texts) + more + b"e\x86R"
        return NAME("pandas", "DataFrame") + b")\x81}(" + value("_mgr") + manager + value("_typ") + value("dataframe") + value("attrs") + b"}ub"

    for name, body in (("numbers", frame(array, index(array))), ("texts", frame(array, index(texts))), ("zone", frame(zone, index(zone, "DatetimeIndex"))), ("missing", frame(array, index(texts), missing)),
                       ("times", reduce_("pandas.core.indexes.timedeltas", "_new_TimedeltaIndex", NAME("pandas", "TimedeltaIndex"), {"data": None, "freq": None})), ("interval", reduce_("pandas", "Interval", 1, 2, "right")), ("period", reduce_("pandas", "PeriodDtype", "period[M]")),
                       ("dtype", NAME("sklearn.preprocessing._encoders", "OneHotEncoder") + b")\x81}" + value("dtype") + NAME("numpy", "float64") + b"sb")):
        sample("fine_frame_%s.pkl" % name, proto(4, body), "what pandas and scikit-learn write", {"needs-objects"})
    for name, body in (("class", frame(array, NAME("a.c", "Class"))), ("index_of_file", frame(array, index(array, "HDFStore"))), ("zone_of_file", frame(array, index(value("dateutil//tmp/x")))), ("function", frame(array, NAME("a.c", "run"))), ("deep_class", frame(array, index(NAME("a.c", "Class") + b"\x85"))),
                       ("cython", frame(array, call(NAME("pandas._libs.arrays", "__pyx_unpickle_NDArrayBacked"), NAME("a.c", "Class"), 1, None))), ("cython_second", frame(array, call(NAME("pandas._libs.arrays", "__pyx_unpickle_NDArrayBacked"), NAME("pandas.core.arrays.string_", "StringArray"), 1, b"(" + NAME("a.c", "Class") + b"t"))),
                       ("dtype", NAME("a.c", "Class") + b")\x81}" + value("dtype") + NAME("a.c", "Class") + b"sb"), ("dtype_function", NAME("a.c", "Class") + b")\x81}" + value("dtype") + NAME("a.c", "run") + b"sb"), ("decode", NAME("a.c", "Class") + b")\x81}" + value("decode") + NAME("numpy", "float64") + b"sb"),
                       ("timedelta", reduce_("pandas.core.indexes.timedeltas", "_new_TimedeltaIndex", NAME("a.c", "Class"), {"data": None})), ("no_missing", frame(array, NAME("pandasx", "NA"))), ("no_missing_inside", frame(array, NAME("pandas.core", "NA"))),
                       ("masked", frame(array, call(NAME("numpy.ma.core", "_mareconstruct"), NAME("a.c", "Masked"), NAME("numpy", "ndarray"), (0,), "b")))):
        sample("frame_%s.pkl" % name, proto(4, body), "nothing that pandas or scikit-learn writes", NOT_DECIDED | RUN)


def classes_called():
    """A class of a package, or what is named like one, may open, import or run what a text names."""
    for module, name, *arguments in (("click.utils", "LazyFile", "/tmp/x", "w"), ("click.utils", "LazyFile", "x", "w"), ("click.utils", "LazyFile", "x.txt"), ("pyomo.contrib.pynumero.asl", "_LoadASLInterface", "x.so"), ("pyomo.contrib.pynumero.asl", "_LoadASLInterface", "x"),
                                     ("a.managers", "MakeProxyType", "x", ["f(self):pass"]), ("a", "Command", "rm -rf x"), ("a", "Command", ["rm"]), ("a", "Connection", "tcp://127.0.0.1:1"), ("a", "Library", blob(b"x")), ("a", "Text", {"x": 1}), ("a", "Text", 1, "x"), ("a", "Text", "x" * 65),
                                     ("a", "Call", NAME("a", "Class"), ("x",)), ("a", "Call", NAME("a", "Class")), ("a", "Path", reduce_("pathlib", "PosixPath", "x")), ("a", "Wrapper", NAME("a", "Class") + b")\x81" + value({"name": "/tmp/x"}) + b"b"), ("a", "Outer.Inner", "/tmp/x"),
                                     ("a", "FooError", NAME("a", "Class"), "x"), ("a", "Errors", "a/b")):
        body = call(NAME(module, name), *arguments)
        both("class_%s_%08x" % (name, zlib.crc32(body)), body, "a class of a package that is not known, called", NOT_DECIDED, 4)
    both("class_later", NAME("a", "Class") + b"]q\x09\x85R0h\x09" + value("/tmp/x") + b"a", "the same behind the call", NOT_DECIDED)
    both("class_keyword", NAME("torch._tensor", "_rebuild_from_type_v2") + b"(" + NAME("a", "Class") + NAME("torch", "Tensor") + value(("/tmp/x",)) + b"}tR", "the same by a function of torch")
    meta, base, text = NAME("pydantic._internal._model_construction", "ModelMetaclass"), NAME("pydantic", "BaseModel"), {"__annotations__": {"a": "f()"}}
    for name, bases in (("tuple", base + b"\x85"), ("table", NAME("builtins", "dict") + b"\x85"), ("list", b"]" + base + b"a"), ("made", NAME("builtins", "tuple") + b"]" + base + b"a\x85R"), ("object", NAME("a", "Row") + base + b"\x85\x81"),
                        ("items", NAME("a", "List") + b")\x81" + base + b"a"), ("keys", b"}" + base + value(1) + b"s"), ("inner", call(NAME("builtins", "getattr"), NAME("a", "Class"), "Inner") + b"\x85")):
        both("metaclass_%s" % name, meta + value(("X", bases, text)) + b"\x81", "a class that a metaclass makes, evaluating annotations", NOT_DECIDED, 4)
    both("metaclass_both", meta + b"(" + base + b"q\x09h\x09\x85" + value(text) + b"t\x81", "the same with the class as an argument, too", NOT_DECIDED)
    both("metaclass_keywords", meta + b")" + value({"cls_name": "X", "bases": base + b"\x85", "namespace": text}) + b"\x92", "the same by keywords", NOT_DECIDED, 4)
    both("metaclass_new", NAME("copyreg", "__newobj__") + b"(" + meta + value("X") + base + b"\x85" + value(text) + b"tR", "the same by copyreg", NOT_DECIDED)
    both("or_objects", call(NAME("operator", "or_"), NAME("a", "Class") + b")\x81" + value({"x": "/tmp/x"}) + b"b", 1), "a method of an object, by an operator", NOT_DECIDED)
    both("or_text", call(NAME("operator", "or_"), reduce_("a", "Kind", "a/b"), 1), "the same of what is no enumeration", NOT_DECIDED)
    for cls in ("HDFStore", "ExcelFile", "DataFrame", "io.pytables.HDFStore", "Other", "_Index", "Index.Index"):
        for module in ("pandas", "pandas.core.indexes.base"):
            both("class_index_%s_%s" % (module, cls), call(NAME("pandas.core.indexes.base", "_new_Index"), NAME(module, cls), {"path": "x", "mode": "w"}), "no index of pandas", RUN)
    for name, body in (
        ("enum", reduce_("transformers.trainer_utils", "IntervalStrategy", "steps")), ("enum_dash", reduce_("a", "Precision", "bf16-mixed")), ("enum_number", reduce_("a", "Color", 1)), ("enum_inner", reduce_("a", "Outer.Kind", "x")), ("enum_empty", reduce_("a", "Kind", "")), ("default", NAME("a", "Groups") + NAME("builtins", "list") + b"\x85R" + value("x") + value(1) + b"s"),
        ("error", reduce_("a.exceptions", "ConnectionError", "no route to http://x/y")), ("warning", reduce_("sklearn.exceptions", "ConvergenceWarning", "a b", 1)), ("numbers", reduce_("a", "Point", 1, [2, (3,)])),
        ("named_tuple", NAME("a", "Row") + value(("/tmp/x", 1)) + b"\x81"), ("interval", reduce_("pandas._libs.interval", "Interval", 1, 2, "right")), ("sorted_dict", reduce_("sortedcontainers.sorteddict", "SortedDict", None, [("a/b", 1)])),
        ("frozen_dict", reduce_("flax.core.frozen_dict", "FrozenDict", {"params": {"w": 1}})), ("or", call(NAME("operator", "or_"), reduce_("re", "RegexFlag", 2), call(NAME("_operator", "or_"), reduce_("a", "Kind", "x"), call(NAME("builtins", "getattr"), NAME("a", "Kind"), "B")))), ("class_in_state", NAME("a", "Row") + NAME("a", "Class") + NAME("a", "Class") + b")\x81}" + value("x") + NAME("a", "Other") + b"sb\x86\x81"),
        ("tensor_of_type", NAME("a", "Row") + b"(" + value([1]) + NAME("torch._utils", "_rebuild_wrapper_subclass") + b"(" + NAME("a", "Tensor") + NAME("torch", "float32") + value((1,)) + value((1,)) + value(0) + NAME("torch", "strided") + value("cpu") + value(False) + b"tRt\x81"),
        ("default_in_new", NAME("a", "Row") + NAME("collections", "defaultdict") + NAME("builtins", "list") + b"\x85R\x85\x81"), ("of_enum", call(NAME("a", "Config"), reduce_("a", "Kind", "x"), 1)), ("number_class", NAME("a", "Row") + NAME("numpy", "float32") + b"\x85\x81"),
        ("object_with_dtype", NAME("a", "Row") + NAME("gym.spaces", "Box") + b")\x81" + b"}" + value("kind") + NAME("numpy", "float32") + b"sb\x85\x81"),
    ):
        sample("fine_class_%s.pkl" % name, proto(4, body), "what packages write", {"needs-objects"})


def states_of_what_has_no_attributes():
    """An empty state is an error for the unpickler in C, and nothing for the one in Python."""
    for name, made in (("array", reduce_("array", "array", "q", [1])), ("version", NAME("torch.torch_version", "TorchVersion") + value(("2.0",)) + b"\x81")):
        both("no_attributes_%s" % name, made + b"}b", "an empty state of what has no attributes")


def errors_of_syntax():
    """To show one, Python opens the file that it is about, or writes as many marks as it says."""
    for name in ("SyntaxError", "IndentationError", "TabError"):
        cls = NAME("builtins", name)
        for number, about in enumerate((("/etc/hostname", 1, 1, "x", 1, 1, (1, 1, None)), ("f.py", 1, 1, "x" * 9, 1, 0x40000001), ("f.py", 1, 0x40000001, "x" * 9, 1, 0x7FFFFFFF), ("f.py", 1, 3, "abcdefg", 1, 0x7FFFFFFE), ("f", 1, 1, "x"))):
            both("syntax_%s_%d" % (name, number), call(cls, "m", about), "an error that is about a file")
        both("syntax_%s_state" % name, call(cls, "m") + value({"text": "abc", "offset": 0x40000001, "end_offset": 0x7FFFFFFF, "lineno": 1, "end_lineno": 1, "filename": "f"}) + b"b", "the same by attributes")
        sample("fine_syntax_%s.pkl" % name, proto(2, call(cls, "m")), "an error with a text", {"plain"})


def errors_that_show_what_is_shared():
    """Where nobody catches it, Python makes a text of an exception, its arguments and notes, and of all in a group: of what is there twice it does so twice, of thirty such in each other without end."""
    error, group = NAME("builtins", "ValueError"), NAME("builtins", "ExceptionGroup")

    def dag(levels, first, wrap):
        """FIRST, and on top of it LEVELS times what holds the one below twice."""
        body = first + b"q\x00"
        for level in range(levels):
            body += b"0" + wrap(b"h" + bytes([level]) + b"h" + bytes([level])) + b"q" + bytes([level + 1])
        return body

    def lists(levels=40, wrap=lambda two: b"](" + two + b"e"):
        return dag(levels, b"]" + value(1) + b"a", wrap)

    for name in ("ExceptionGroup", "BaseExceptionGroup"):
        cls = NAME("builtins", name)
        for levels in (1, 2, 18, 26):
            both("group_twice_%s_%d" % (name, levels), dag(levels, call(error), lambda two: cls + b"(" + value("a") + b"](" + two + b"etR"), "a group in a group, twice", NOT_DECIDED)
        both("group_twice_tuple_%s" % name, dag(18, call(error), lambda two: cls + b"(" + value("a") + b"(" + two + b"ttR"), "the same in tuples", NOT_DECIDED)
        both("group_twice_new_%s" % name, dag(18, call(error), lambda two: cls + b"(" + value("a") + b"](" + two + b"et\x81"), "the same without a call", NOT_DECIDED)
    both("group_of_two", call(error) + b"q\x00" + group + b"(" + value("a") + b"]h\x00atRq\x010" + group + b"(" + value("a") + b"](h\x00h\x01etR", "an exception in a group, and in one of its groups", NOT_DECIDED)
    texts = value("x" * 20000) + b"q\x00"
    both("error_argument", lists() + b"0" + error + b"(h\x28tR", "an argument that is a text without end", NOT_DECIDED)
    both("error_argument_tuples", lists(wrap=lambda two: b"(" + two + b"t") + b"0" + error + b"(h\x28tR", "the same of tuples", NOT_DECIDED)
    both("error_argument_dicts", lists(wrap=lambda two: b"}(K\x01" + two[:2] + b"K\x02" + two[2:] + b"u") + b"0" + error + b"(h\x28tR", "the same of dicts", NOT_DECIDED)
    both("error_argument_deques", lists(wrap=lambda two: NAME("collections", "deque") + b")R(" + two + b"e") + b"0" + error + b"(h\x28tR", "the same of deques", NOT_DECIDED)
    both("error_argument_new", lists() + b"0" + error + b"(h\x28t\x81", "the same without a call", NOT_DECIDED)
    both("error_argument_later", lists() + b"0]q\x640" + error + b"(h\x64tR0h\x64h\x28a", "put into the argument behind the call", NOT_DECIDED)
    both("error_argument_state", lists() + b"0" + error + b")R}" + value("args") + b"(h\x28tsb", "set as the arguments", NOT_DECIDED)
    both("error_code_state", lists() + b"0" + NAME("builtins", "SystemExit") + b")R}" + value("code") + b"h\x28sb", "set as the code of an exit, which Python prints", NOT_DECIDED)
    both("error_in_errors", dag(30, call(error), lambda two: error + b"(" + two + b"tR"), "exceptions as arguments of exceptions, twice each", NOT_DECIDED)
    both("error_texts", texts + b"0" + error + b"((" + b"h\x00" * 500 + b"ttR", "a long text, five hundred times", NOT_DECIDED)
    both("error_notes", texts + b"0" + error + b")R}" + value("__notes__") + b"](" + b"h\x00" * 500 + b"esb", "a long note, five hundred times", NOT_DECIDED)
    both("error_texts_of_many", texts + b"0](" + (error + b"((h\x00ttR") * 500 + b"e", "five hundred exceptions of one long text", NOT_DECIDED)
    both("error_warning", lists() + b"0" + NAME("builtins", "UserWarning") + b"(h\x28tR", "the same of a warning", NOT_DECIDED)
    ones = TENSOR.replace(value((4,)), b"(" + b"\x8a\x06" + struct.pack("<Q", 1 << 40)[:6] + b"t").replace(value((1,)), value((0,)))
    both("error_tensor", error + b"(" + ones + b"tR", "a tensor of one number, 2^40 times", NOT_DECIDED)
    sample("fine_shown_tensor.pt", torch_zip(proto(2, error + b"(" + TENSOR + b"tR")), "a tensor in an exception", FINE)
    for name, body in (("group", call(group, "a", b"](" + call(error, "x") + call(error, "x") + call(group, "b", b"](" + call(error) + b"e") + b"e")), ("argument", call(error, [1, [2, "x"], {"a": (1, 2)}], "x")), ("shared", b"](K\x01eq\x000" + error + b"(h\x00h\x00tR"),
                       ("in_error", call(error, call(error, "x"))), ("many", b"](" + call(error, "text", 1) * 100 + b"e"), ("notes", call(error, "x") + value({"__notes__": ["a", "b"]}) + b"b")):
        sample("fine_shown_%s.pkl" % name, proto(2, body), "an exception that is shown as it is", FINE)


def unpicklers_that_differ():
    """An error for CPython's unpickler in C, a value for the one in Python."""
    for name, text in (("space", b" 1"), ("behind", b"1 "), ("large", b"1e400"), ("hex", b"0x1p3"), ("line", b"1_0")):
        both("float_%s" % name, b"F" + text + b"\n", "a number in text that not all read")
    for name, text in (("inf", b"inf"), ("nan", b"-nan"), ("small", b"1e-400"), ("exponent", b"1E+05")):
        both("fine_float_%s" % name, b"F" + text + b"\n", "a number in text", {"plain"})
    for module, name in (("builtins", "list"), ("builtins", "dict"), ("builtins", "set"), ("collections", "deque"), ("collections", "defaultdict")):
        both("no_dict_%s" % name, reduce_(module, name) + b"}b", "an empty state of what has no attributes")


def long_texts():
    for length in (100, 3000, 40000):
        text = "x" * length
        both("device_%d" % length, reduce_("torch", "device", text), "a device with a name of %d letters, which crashes torch 1.7" % length)
        both("generator_%d" % length, reduce_("torch", "Generator", text), "the same of a generator")
        both("device_digits_%d" % length, reduce_("torch", "device", "cuda:" + "1" * length), "a device with a number of %d digits" % length)
    for text in ("cpu", "cuda", "cuda:15", "privateuseone:0", "meta"):
        sample("fine_device_%s.pkl" % text.replace(":", "_"), proto(2, reduce_("torch", "device", text)), "a device", FINE)


def depths():
    """Rows of objects that a list joins later: the list does not end the row where they are freed."""
    default, rows, length = NAME("collections", "defaultdict"), 55, 4900
    lists = b"".join(b"]q" + bytes([10 + n]) + b"0" for n in range(rows))
    for name, joint in (("append", b"a"), ("extend", b"e")):
        body = default + b"q\x000" + lists
        for n in range(rows):
            body += b"h" + bytes([10 + n]) + (b"(" if joint == b"e" else b"")
            body += b"h\x00)R" + b"K\x01h\x00)R" * length + b"K\x01" + (b"h" + bytes([11 + n]) if n + 1 < rows else b"N") + b"s" * (length + 1) + joint + b"0"
        both("depth_rows_%s" % name, body + b"h\x0a", "%d rows of %d objects, joined by lists" % (rows, length))


def changed_later():
    """What was checked as an argument, and changes behind the call."""
    one = NAME("torch.nn.parameter", "Parameter") + b"(" + TENSOR + b"\x89tR"
    for name, body in (
        ("hooks", NAME("torch._utils", "_rebuild_parameter") + b"(" + TENSOR + b"\x89" + HOOKS + b"q\x05tR0h\x05" + value(0) + NAME("torch", "FloatStorage") + b"s"),
        ("hooks_object", NAME("torch._utils", "_rebuild_parameter") + b"(" + TENSOR + b"\x89" + HOOKS + b"q\x05tR0h\x05" + value(0) + NAME("mypkg", "C") + b"s"),
        ("hooks_dict", NAME("torch._utils", "_rebuild_parameter") + b"(" + TENSOR + b"\x89}q\x05tR0h\x05" + value(0) + NAME("torch", "FloatStorage") + b"s"),
    ):
        both("later_%s" % name, body, "hooks that are put in behind the call")
    for function in ("_rebuild_nested_tensor", "_rebuild_sparse_tensor"):
        arguments = {"_rebuild_nested_tensor": b"(" + TENSOR + one + b"q\x06" + TENSOR + TENSOR + b"tR", "_rebuild_sparse_tensor": b"(" + NAME("torch", "sparse_coo") + b"(" + one + b"q\x06" + TENSOR + value((9,)) + b"ttR"}[function]
        both("later_state_%s" % function, NAME("torch._utils", function) + arguments + b"0h\x06(" + TENSOR + b"\x89" + HOOKS + b"\x89Ntb", "a tensor whose state is set after it was used")


def objects_of_torch():
    """Classes of torch that no checkpoint has, made without arguments: what they do when they are shown, compared or freed is no data."""
    for module, name in (("torch.cuda.gds", "GdsFile"), ("torch._C", "ScriptObject"), ("torch._C", "TensorType"), ("torch._C._distributed_rpc", "PyRRef"), ("torch.storage", "UntypedStorage"), ("torch.multiprocessing.reductions", "StorageWeakRef"),
                         ("torch._C", "ScriptModule"), ("torch.fx.node", "Node"), ("torch.hub", "_Faketqdm"), ("torch._dynamo.guards", "GuardBuilder")):
        both("torch_%s_%s" % (module, name), NAME(module, name) + b")\x81" + value({"handle": None, "fd": 3}) + b"b", "a class of torch that does something where it is freed or shown")


def costly():
    """Keys whose comparison takes long, and arrays of very many items that have no bytes."""
    prime = (1 << 61) - 1
    huge = (prime * (1 << (8 * 200000)) + 1).to_bytes(200100, "little")
    integer = b"\x8b" + len(huge).to_bytes(4, "little") + huge
    decimal, version = reduce_("decimal", "Decimal", "1"), reduce_("torch.torch_version", "TorchVersion", "1.1")
    for name, body in (("decimal", b"}(" + decimal + b"N" + integer + b"Nu"), ("decimal_swapped", b"}(" + integer + b"N" + decimal + b"Nu"), ("decimal_tuple", b"}(" + decimal + b"\x85N" + integer + b"\x85Nu"),
                       ("decimal_set", reduce_("builtins", "set", b"](" + decimal + integer + b"e")), ("integer", b"}" + integer + b"Ns")):
        both("costly_%s" % name, body, "an integer of very many digits as a key")
    for name, body in (("dict", b"}(" + value("1.1") + b"N" + version + b"Nu"), ("tuple", b"}" + version + b"\x85Ns"), ("set", reduce_("builtins", "set", b"](" + value("1.1") + version + b"e"))):
        both("version_%s" % name, body, "a version as a key: to compare it, torch imports a package")
    array = NAME("numpy.core.multiarray", "_reconstruct") + b"(" + NAME("numpy", "ndarray") + value((0,)) + blob(b"b") + b"tR("
    for letter in "SVU":
        empty = reduce_("numpy", "dtype", letter + "0", False, True) + value((3, "|" if letter != "U" else "<", None, None, None, 0, 4 if letter == "U" else 1, 8 if letter == "U" else 0)) + b"b"
        for number, shape in enumerate(((1 << 30,), (1 << 30, 1 << 30), (1 << 16, 1 << 14), (5000,))):
            both("many_empty_%s_%d" % (letter, number), array + value(1) + value(shape) + empty + b"\x89" + blob(b"") + b"tb", "an array of very many items without bytes")


def devices():
    """To make a tensor on some devices that torch has names of ends the process, or imports a module of that name."""
    array = NAME("numpy.core.multiarray", "_reconstruct") + b"(" + NAME("numpy", "ndarray") + value((0,)) + blob(b"b") + b"tR(" + value(1) + value((1,)) + reduce_("numpy", "dtype", "f4", False, True) + \
        value((3, "<", None, None, None, -1, -1, 0)) + b"b\x89" + blob(b"abcd") + b"tb"
    float32 = NAME("torch", "float32")
    rows = (("numpy", "_rebuild_device_tensor_from_numpy", array), ("cpu", "_rebuild_device_tensor_from_cpu_tensor", TENSOR), ("xla", "_rebuild_xla_tensor", array), ("mlc", "_rebuild_mlc_tensor", array))
    for name in ("vulkan", "vulkan:0", "metal", "hpu", "privateuseone", "privateuseone:1", "opengl", "fpga", "mkldnn", "msnpu", "os", "", "cpu\0", "cuda:", ":0", "cudas", "CPU", "ve", "ideep"):
        for row, function, what in rows:
            for form, device in (("text", value(name)), ("device", reduce_("torch", "device", name)), ("index", reduce_("torch", "device", name, 0))):
                both("on_%s_%s_%s" % (row, form, name.replace("\0", "0").replace(":", "_") or "none"), NAME("torch._utils", function) + b"(" + what + float32 + device + b"\x89tR", "a tensor on a device that crashes, or imports")
        both("generator_on_%s" % (name.replace("\0", "0").replace(":", "_") or "none"), reduce_("torch", "Generator", name), "a generator on such a device")
    for name in ("cpu", "cuda", "cuda:1", "cuda:15", "mps", "mps:0", "xla:0", "meta", "xpu:3"):
        for row, function, what in rows:
            for form, device in (("text", value(name)), ("device", reduce_("torch", "device", name))):
                sample("fine_on_%s_%s_%s.pt" % (row, form, name.replace(":", "_")), torch_zip(proto(2, value({"w": TENSOR}) + b"0" + NAME("torch._utils", function) + b"(" + what + float32 + device + b"\x89tR")),
                       "a tensor on a device", FINE)


def classes_by_other_names():
    """What packages import of Python, numpy and torch is there under their names, too."""
    function, data = NAME("mypkg", "func"), value((files.storage("0", "FloatStorage", 4), 0, (1 << 20,), (1,)))
    for name in ("partial", "partialmethod", "methodcaller", "attrgetter", "itemgetter", "starmap", "map", "filter"):
        for way, body in (("new", b"(" + NAME("mypkg", "Foo") + b")\x81t\x81"), ("state", b"(" + NAME("mypkg", "Foo") + b")\x81t\x81" + value((function, ("x",), {}, None)) + b"b"), ("text", value(("system",)) + b"\x81")):
            both("other_name_%s_%s" % (name, way), NAME("networkx.generators.line", name) + body, "what keeps a function and calls it, as packages import it", RUN)
    for name, first in (("Tensor", b"K\x64"), ("ndarray", value((2000,))), ("Parameter", b"K\x64"), ("dtype", value("V8")), ("Fraction", value("1e999999999")), ("memmap", value("out.py"))):
        for module in ("mypkg", "torch.nn.functional", "scipy.linalg"):
            both("other_name_%s_%s" % (name, module.replace(".", "_")), NAME(module, name) + b"(" + first + b"t\x81", "a class of arrays, as packages import it", NOT_PLAIN)
            both("other_name_%s_%s_keywords" % (name, module.replace(".", "_")), NAME(module, name) + b")" + value({"shape": first}) + b"\x92", "the same by keywords", NOT_PLAIN, 4)
    # torch.Tensor.__setstate__() makes the storage as large as that says
    for module, name in (("mypkg", "Tensor"), ("mypkg", "Image"), ("torch.nn.functional", "Tensor"), ("torch.nn.parameter", "Buffer")):
        state = {"tuple": data, "list": value([files.storage("0", "FloatStorage", 4), 0, (1 << 20,), (1,)]), "tensor": value((TENSOR, 0, (1 << 20,), (1,))), "bool": value((TENSOR, False, (1 << 20,), (1,)))}
        for way, what in state.items():
            both("tensor_state_%s_%s_%s" % (module.replace(".", "_"), name, way), NAME(module, name) + b")\x81" + what + b"b", "the state of a tensor that is larger than its storage", NOT_PLAIN)
    four = [files.storage("0", "FloatStorage", 4), 0, (1 << 20,), (1,)]
    kinds = {"deque": NAME("collections", "deque") + b")R(" + b"".join(map(value, four)) + b"e", "list": NAME("builtins", "list") + value((four,)) + b"R", "tuple": NAME("builtins", "tuple") + value((four,)) + b"R", "user_list": NAME("collections", "UserList") + b")\x81" + value({"data": four}) + b"b",
             "frozenset": NAME("builtins", "frozenset") + value((four,)) + b"R", "named": NAME("torch.nn.utils.rnn", "PackedSequence_") + value(tuple(four)) + b"\x81", "object": NAME("mypkg", "Four") + value(tuple(four)) + b"\x81", "appended": NAME("mypkg", "Four") + b")\x81(" + b"".join(map(value, four)) + b"e",
             "keywords": NAME("mypkg", "Four") + b")" + value({"a": four}) + b"\x92", "deep": NAME("mypkg", "Four") + b")\x81" + value({"a": [[four]]}) + b"b"}
    for way, what in kinds.items():
        for module, name in (("mypkg", "Image"), ("torch.distributed.fsdp._flat_param", "FlatParameter")):
            sample("tensor_state_of_%s_%s.pt" % (way, name), torch_zip(proto(4 if way == "keywords" else 2, NAME(module, name) + b")\x81" + what + b"b")), "the same in what a call makes", NOT_PLAIN)
    own = NAME("env", "AttrDict") + b")\x81q\x55" + value("a") + TENSOR + b"s" + value("b") + NAME("env", "AttrDict") + b")\x81q\x56" + value("c") + value(1) + b"sh\x56bsh\x55b"
    sample("fine_own_dict.pt", torch_zip(proto(2, value({"config": own}))), "a dict that is its own __dict__, and has a tensor", {"needs-objects"})
    for name, args in {"Parameter": ("x", 1), "Tensor": ("x", (1, 2))}.items():
        both("fine_record_%s" % name, NAME("mypkg", name) + value(args) + b"\x81", "a namedtuple", {"needs-objects"})
    for way, what in (("dict", value({"data": TENSOR, "n": 3})), ("pair", value((None, {"data": TENSOR}))), ("fields", value([TENSOR, "name", (1,), (2,)])), ("packer", value((TENSOR, TENSOR, None, None))), ("quantized", value((TENSOR, TENSOR, True, NAME("torch", "qint8")))), ("three", value((TENSOR, 1, (2,))))):
        sample("fine_own_state_%s.pt" % way, torch_zip(proto(2, NAME("tinygrad.tensor", "Tensor") + b")\x81" + what + b"b")), "the state of an object", {"needs-objects"})


def methods_as_attributes():
    """What is there under the name of a method of a dict is called by who is handed that: by optimizers as they are loaded, by what takes a dict for its state."""
    function = NAME("mypkg", "func")
    partial = reduce_("functools", "partial", NAME("mypkg", "Foo"), "id")
    hooked = NAME("torch.nn.modules.linear", "Identity") + b")\x81" + value({"_forward_hooks": b"}K\x00" + function + b"s"}) + b"b"
    inside = NAME("mypkg", "Own") + b")\x81" + value({"a": [hooked]}) + b"b"
    for name in ("setdefault", "get", "pop", "update", "items", "copy", "move_to_end"):
        for what, thing in (("function", function), ("partial", partial), ("hooked", hooked), ("inside", inside), ("class", NAME("mypkg", "Foo")), ("tensor", TENSOR)):
            for kind, made in (("ordered", NAME("collections", "OrderedDict") + b")R"), ("counter", NAME("collections", "Counter") + b")R")):
                group = made + b"}" + value(name) + thing + b"sb"
                sample("method_%s_%s_%s.pt" % (name, what, kind), torch_zip(proto(2, value({"a": group}))), "an attribute where a dict has a method", NOT_PLAIN)
                sample("method_%s_%s_%s_group.pt" % (name, what, kind), torch_zip(proto(2, built_of("torch.optim.sgd", "SGD", {"defaults": {}, "state": {}, "param_groups": [group]}))), "the same in the group of an optimizer", NOT_PLAIN)
                sample("method_%s_%s_%s_state.pt" % (name, what, kind), torch_zip(proto(2, NAME("packaging.version", "Version") + b")\x81" + group + b"b")), "the same as the state of an object", NOT_PLAIN)
            group = NAME("mypkg", "Group") + b")\x81}" + value(name) + thing + b"sb"
            if what != "tensor":
                sample("method_%s_%s_own.pt" % (name, what), torch_zip(proto(2, built_of("mypkg", "MySGD", {"param_groups": [group]}))), "the same of an object in the group of an optimizer of a package", NOT_PLAIN)
    sample("fine_method_object.pt", torch_zip(proto(2, built_of("mypkg", "Table", {"items": NAME("mypkg", "Column") + b")\x81" + value({"name": "x"}) + b"b", "get": 3}))), "an object without functions under such a name", {"needs-objects"})
    sample("fine_method_number.pt", torch_zip(proto(2, NAME("collections", "OrderedDict") + b")R" + value({"get": 5, "copy": [1], "values": "x"}) + b"b")), "nothing that could be called", {"plain"})
    sample("fine_metadata_of_dict.pt", torch_zip(proto(2, NAME("collections", "OrderedDict") + b")R" + value({"_metadata": {"": {"version": 1}}}) + b"b")), "as modules have it", {"plain"})


def built_of(module, name, state):
    return NAME(module, name) + b")\x81" + value(state) + b"b"


def classes_of_the_file():
    """A metaclass makes a class of a name, bases and attributes: the next opcode, or a state, calls what the file has put there."""
    moved = built_of("six", "MovedAttribute", {"name": "x", "mod": "builtins", "attr": "exec"})
    lazy = built_of("enum", "property", {"fget": None, "_attr_type": "attr", "name": "write_text", "_cls_type": reduce_("pathlib", "PosixPath", "/canary")})
    made = {"empty": value(("C", (), {"append": moved})), "built": value(("C", (), b"}" + value("__init__") + moved + b"s")), "called": b"(" + value("C") + reduce_("builtins", "tuple", []) + value({"append": moved}) + b"t", "ordered": b"(" + value("C") + b")" + NAME("collections", "OrderedDict") + b")R" + value("append") + moved + b"st",
            "text_call": b"(" + reduce_("builtins", "str", "C") + b")" + value({"append": moved}) + b"t", "more": value(("C", (), {"append": moved}, 1)), "size": b"(" + value("C") + reduce_("torch", "Size", ()) + value({"append": moved}) + b"t", "counter": b"(" + value("C") + reduce_("builtins", "tuple", []) + NAME("collections", "Counter") + b")R" + value("append") + moved + b"st",
            "dict_call": b"(" + value("C") + b")" + reduce_("builtins", "dict", [("append", moved)]) + b"t", "first_meta": b"(" + NAME(*("mypkg", "Meta")) + value("C") + b")" + value({"append": moved}) + b"t", "two": value(("C", {"append": moved})), "turned": value(({"append": moved}, "C", ())), "list": value(("C", [], {"append": moved})),
            "own_text": b"(" + NAME("mypkg", "Text") + value(("C",)) + b"\x81)" + value({"append": moved}) + b"t", "named": b"(" + value("C") + NAME("mypkg", "Bases") + b")\x81" + value({"append": moved}) + b"t"}
    for module, name in (("torch.nn.parameter", "_ParameterMeta"), ("typing_extensions", "_TypedDictMeta"), ("future.types.newdict", "BaseNewDict"), ("mypkg", "Foo")):
        for way, args in made.items():
            for then, more in (("alone", b""), ("append", value(1) + b"a"), ("built", b"}" + value("k") + value(1) + b"sb")):
                both("class_of_file_%s_%s_%s" % (name, way, then), NAME(module, name) + args + b"\x81" + more, "a metaclass makes a class of the file", NOT_PLAIN)
        for way, named in {"all": {"name": "C", "bases": (), "namespace": {"append": moved}}, "special": {"__dict__": {}}}.items():
            both("class_of_file_%s_keywords_%s" % (name, way), NAME(module, name) + b")" + value(named) + b"\x92", "the same by keywords", NOT_PLAIN, 4)
            both("class_of_file_%s_newobj_ex_%s" % (name, way), NAME("copyreg", "__newobj_ex__") + b"(" + NAME(module, name) + b")" + value(named) + b"tR", "the same by copyreg", NOT_PLAIN, 4)
        both("class_of_file_%s_both" % name, NAME(module, name) + value(("C",)) + value({"namespace": {"append": moved}}) + b"\x92", "the same by both", NOT_PLAIN, 4)
    # what torch and Python do with a state is always there
    message = built_of("email.message", "Message", {"_headers": [("text", True)], "policy": built_of("torch.nn.modules.container", "Sequential", {"header_fetch_parse": NAME("mypkg", "Foo")})})
    for name, what in {"message": message, "deep": built_of("email.message", "Message", {"a": [(1, {"b": NAME("mypkg", "Foo") + b")\x81"})]}), "class": built_of("email.message", "Message", {"a": NAME("mypkg", "Foo")}), "later": NAME("email.message", "Message") + b")\x81}" + value("a") + b"]q\x77sb0h\x77" + NAME("mypkg", "Foo") + b")\x81a0h\x77", "appended": NAME("email.message", "Message") + b")\x81" + value("a") + value("b") + b"s", "built": reduce_("copyreg", "__newobj__", NAME("email.message", "Message")) + value({"policy": NAME("mypkg", "Foo") + b")\x81"}) + b"b"}.items():
        sample("library_%s.pt" % name, torch_zip(proto(2, what)), "an object of Python's library with a state that is not data", NOT_PLAIN)
        sample("library_%s_inside.pt" % name, torch_zip(proto(2, built_of("torch.nn.modules.linear", "Identity", {"a": what}))), "the same in an object", NOT_PLAIN)
        sample("library_%s_state.pt" % name, torch_zip(proto(2, NAME("torch.nn.modules.linear", "Identity") + b")\x81" + what + b"b")), "the same as a state", NOT_PLAIN)
    sample("library_method.pt", torch_zip(proto(2, built_of("numpy.ma.core", "_frommethod", {"__name__": "dump"}))), "an object of numpy that calls what a text names", RUN)
    sample("library_moved.pt", torch_zip(proto(2, moved)), "an object that imports", NOT_PLAIN)
    for name, what in {"template": built_of("string", "Template", {"template": "x"}), "normal": built_of("statistics", "NormalDist", (None, {"_mu": 1, "_sigma": 2})), "polynomial": built_of("numpy.polynomial.polynomial", "Polynomial", {"coef": TENSOR, "_symbol": "x"}),
                       "mail": built_of("email.message", "EmailMessage", {"policy": built_of("email.policy", "EmailPolicy", {"utf8": True}), "_headers": [("a", "b")]})}.items():
        sample("fine_library_%s.pt" % name, torch_zip(proto(2, what)), "an object of Python's library or numpy with data", {"needs-objects"})
    for name, args in {"record": ("conv", (1, 2), {"k": 2}), "empty": ("relu", (), {}), "plain": ("relu", (), {"inplace": True, "size": (1, 2)}), "more": ("a", (1,), {"a": 1}, 2), "tensor": ("a", (), {"x": TENSOR})}.items():
        sample("fine_record_%s.pt" % name, torch_zip(proto(2, NAME("mypkg", "OpSpec") + value(args) + b"\x81")), "a namedtuple", {"needs-objects"})
    both("class_of_file_annotations", NAME("mypkg", "Foo") + value(("C", (), {"__annotations__": {"x": "print(1)"}})) + b"\x81", "a class with annotations", NOT_PLAIN)
    own = NAME("mypkg", "State") + b")\x81"
    for name, what in {"object": own, "filled": own + value({"a": 1}) + b"b", "called": NAME("mypkg", "State") + b")R"}.items():
        sample("object_as_state_%s.pt" % name, torch_zip(proto(2, NAME("torch.nn.modules.linear", "Identity") + b")\x81" + what + b"b")), "an object as the state of one of torch's", NOT_PLAIN)
        sample("object_as_state_class_%s.pt" % name, torch_zip(proto(2, NAME("mypkg", "Foo") + b")\x81" + NAME("mypkg", "State") + b")\x81" + value({"a": [NAME("mypkg", "Bar")]}) + b"bb")), "an object with a class as a state", NOT_PLAIN)
    sample("fine_object_as_state.pt", torch_zip(proto(2, NAME("mypkg", "Foo") + b")\x81" + own + value({"a": 1}) + b"bb")), "an object as the state of one of a package", {"needs-objects"})
    for name, args in {"number": value((100000,)), "numbers": value((3, 4)), "truth": value((True,)), "size": b"(" + reduce_("torch", "Size", (100000,)) + b"t"}.items():
        both("sizes_of_torch_%s" % name, NAME("torch.nn.attention.bias", "CausalBias") + args + b"\x81", "a class of tensors, of memory that nobody has set", NOT_PLAIN)
    both("sizes_of_torch_keywords", NAME("torch.nn.attention.bias", "CausalBias") + b")" + value({"size": (100000,)}) + b"\x92", "the same by a keyword", NOT_PLAIN, 4)


def keywords():
    """A class may write its keywords into a program: networkx' Config runs dataclass() with them."""
    text = "a=[print('ran'),\"+x+\"][0]"
    for name, keys in (("text", {text: 1}), ("second", {"a": 1, text: 1}), ("blank", {"a b": 1}), ("digit", {"1a": 1}), ("empty", {"": 1}), ("dot", {"a.b": 1}), ("line", {"a\nb": 1}), ("number", {1: 1}), ("bytes", {b"a": 1}), ("colon", {"a:int": 1})):
        both("keywords_%s" % name, NAME("networkx.utils.configs", "Config") + b")" + value(keys) + b"\x92", "keywords that are no names of arguments", RUN if name != "bytes" else NOT_PLAIN, 4)
        both("keywords_reduce_%s" % name, NAME("copyreg", "__newobj_ex__") + b"(" + NAME("networkx.utils.configs", "Config") + b")" + value(keys) + b"tR", "the same by copyreg", RUN if name != "bytes" else NOT_PLAIN, 4)
    both("keywords_call", NAME("mypkg", "Foo") + b")" + NAME("collections", "OrderedDict") + b")R" + value(text) + b"K\x01s\x92", "the same in a dict that a call makes", NOT_PLAIN, 4)
    both("fine_keywords", NAME("mypkg", "Foo") + b")" + value({"a": 1, "_b2": "x"}) + b"\x92", "keywords", {"needs-objects"}, 4)


def two_classes():
    """A storage is of the class that it was first mentioned with, whatever a later mention says: zero points, and the width of the numbers, are not those of the mention at hand."""
    def stored(kind, key, numel, view=b""):
        view = value(("v" + key, 0, numel)) if view == "whole" else view
        return b"(" + value("storage") + NAME("torch", kind + "Storage") + value(key) + value("cpu") + value(numel) + view + b"tQ"

    def tensor(kind, key, numel, size, view=b""):
        return NAME("torch._utils", "_rebuild_tensor_v2") + b"(" + stored(kind, key, numel, view) + b"K\x00" + value((size,)) + value((1,)) + b"\x89" + HOOKS + b"tR"

    def quantized_so(kind, numel, zero, view, scheme="per_channel_affine"):
        return (NAME("torch._utils", "_rebuild_qtensor") + b"(" + stored(kind, "0", numel, view) + b"K\x00" + value((2, 2)) + value((2, 1)) + b"(" + NAME("torch", scheme)
                + tensor("Float" if zero == "Float" else "Double", "2", 2, 2, view) + tensor(zero, "1", 2, 2, view) + value(0) + b"t\x89" + HOOKS + b"tR")

    widths = {"Byte": 1, "Bool": 1, "QUInt8": 1, "QInt8": 1, "Half": 2, "Int": 4, "Float": 4, "QInt32": 4, "Double": 8, "Long": 8, "ComplexFloat": 8}

    def both_forms(name, first, second, wanted, **classes):
        counts = [(key, numel, numel * widths[classes.get("key" + key, "Double")]) for key, numel in (("0", 4), ("1", 2), ("2", 2))]
        for form, view, whole in (("zip", b"", b""), ("stream", value(None), b""), ("views", "whole", b"")):
            body = b"](" + first(whole or view) + second(view) + b"e"
            if form == "zip":
                records = [("data.pkl", proto(2, body))] + [("data/" + key, bytes(size)) for key, numel, size in counts] + [("version", b"3\n")]
                sample("two_classes_%s.pt" % name, files.archive(records), "a storage of two classes", wanted)
                continue
            keys = proto(2, b"](" + b"".join(value(key) for key, numel, size in counts) + b"e")
            sample("two_classes_%s_%s.pt" % (name, form), legacy(body=proto(2, body), keys=keys, stored=b"".join(struct.pack("<q", numel) + bytes(size) for key, numel, size in counts)), "a storage of two classes, in a stream", wanted)

    for first in ("Float", "Double", "Half", "Int", "Byte", "Bool", "ComplexFloat"):
        for scheme in ("per_channel_affine", "per_channel_symmetric"):
            both_forms("zero_%s_%s" % (first, scheme), lambda view, first=first: tensor(first, "1", 2, 2, view), lambda view, scheme=scheme: quantized_so("QInt32", 4, "Long", view, scheme), NOT_PLAIN,
                       key0="QInt32", key1=first)
    for first in ("QInt32", "QUInt8", "Float"):
        for then in ("QUInt8", "QInt8", "QInt32"):
            for zero in ("Float", "Long"):
                fine = first == then and (first != "QInt32" or zero == "Long")
                both_forms("width_%s_%s_%s" % (first, then, zero), lambda view, first=first: tensor(first, "0", 4, 4, view) if first == "Float" else quantized_so(first, 4, zero, view),
                           lambda view, then=then, zero=zero: quantized_so(then, 4, zero, view), FINE if fine else NOT_PLAIN,
                           key0=first, key1=zero, key2="Float" if zero == "Float" else "Double")


def shared_in_a_package():
    """Pickles of one torch.package share its storages: the first that is loaded gives each its class."""
    hooks = NAME("collections", "OrderedDict") + b")R"
    quantizer = b"(" + NAME("torch", "per_tensor_affine") + b"G" + struct.pack(">d", 0.5) + value(0) + b"t"

    def package(*bodies):
        return files.archive([(".data/0.storage", bytes(32))] + [("m/%d.pkl" % n, proto(2, body)) for n, body in enumerate(bodies)] +
                             [(".data/extern_modules", b"_codecs\n"), (".data/python_version", b"3.9.2"), (".data/version", b"6\n")])

    for first, then, count, wanted in (("FloatStorage", "DoubleStorage", 4, NOT_PLAIN), ("ByteStorage", "FloatStorage", 4, NOT_PLAIN), ("FloatStorage", "FloatStorage", 3, NOT_PLAIN), ("FloatStorage", "FloatStorage", 4, FINE),
                                       ("QInt8Storage", "FloatStorage", 4, NOT_PLAIN)):
        quantized = reduce_("torch._utils", "_rebuild_qtensor", files.storage("0", first, 4), 0, (4,), (1,), quantizer, False, hooks)
        one = quantized if first.startswith("Q") else files.tensor(kind=first)
        other = files.tensor(kind=then, numel=count, shape=(count,))
        sample("package_%s_%s_%d.pt" % (first, then, count), package(one, other), "one storage in two pickles of a package", wanted)
        sample("package_%s_%s_%d_turned.pt" % (first, then, count), package(other, one), "the same, the other way round", wanted)
        sample("package_%s_%s_%d_third.pt" % (first, then, count), package(one, value(1), other), "the same with one between", wanted)


def methods_that_are_attributes():
    """Python and torch ask some values by the names of their methods, which an object may have from the file, or may have had before it was made."""
    function, getattr_ = NAME("a.b", "func"), NAME("builtins", "getattr")
    bag = NAME("a", "Bag") + b")\x81"

    def slots(key):
        return b"N" + value({"__dict__": {key: function}}) + b"\x86b"

    for form, fill in (("state", lambda key: value({key: function}) + b"b"), ("slots", lambda key: b"N" + value({key: function}) + b"\x86b"), ("dict", slots), ("key", lambda key: value(key) + function + b"s")):
        for key in ("utcoffset", "dst", "tzname", "k"):
            zone = NAME("dateutil.tz.tz", "tzrange") + b")\x81" + fill(key)
            date, time = NAME("datetime", "datetime") + b"(" + blob(bytes([7, 227, 1, 1, 0, 0, 0, 0, 0, 0])) + zone + b"tR", NAME("datetime", "time") + b"(" + blob(bytes(6)) + zone + b"tR"
            both("zone_%s_%s" % (form, key), b"}" + date + value(1) + b"s", "a time zone that keeps a function under the name of a method", NOT_PLAIN, 4)
            both("zone_of_time_%s_%s" % (form, key), b"\x8f(" + time + b"\x90", "the same in a set", NOT_PLAIN, 4)
    sample("zone_fine.pkl", proto(4, b"}" + NAME("datetime", "datetime") + b"(" + blob(bytes([7, 227, 1, 1, 0, 0, 0, 0, 0, 0])) + NAME("dateutil.tz.tz", "tzutc") + b")\x81tR" + value(1) + b"s"), "an ordinary time zone", {"needs-objects"})
    for name, module, cls, word in (("http", "http", "HTTPStatus", 200), ("package", "a", "Color", "RED"), ("number", "a", "Color", 2), ("flags", "operator", "or_", None)):
        member = reduce_(module, cls, word) if word is not None else call(NAME(module, cls), reduce_("a", "Color", 1), reduce_("a", "Color", 2))
        for form, first, then in (("set", slots("__setstate__"), value("x") + b"b"), ("kept", value({"k": function}) + b"b", b""), ("append", slots("append"), value(1) + b"a"), ("item", function + b"a", b"")):
            both("member_%s_%s" % (name, form), member + first + b"0" + member + then, "a member of an enumeration, which is the same object each time", NOT_PLAIN, 4)
    both("member_getattr", call(getattr_, NAME("a", "Color"), "RED") + value({"k": 1}) + b"b", "the same by getattr")
    both("slots_dict", bag + slots("append"), "all attributes of an object at once", NOT_PLAIN)
    for module, rebuild in (("torch._tensor", "_rebuild_from_type_v2"), ("torch._tensor", "_rebuild_from_type"), ("torch.tensor", "_rebuild_from_type")):
        for name, of, cls, arguments, state in (
            ("getattr", getattr_, NAME("a", "Bag"), b"(" + bag + value({"x": bag + value({"k": function}) + b"b"}) + b"b" + value("x") + b"t", value(None)), ("dict", getattr_, NAME("a", "Bag"), b"(" + bag + b"N" + value({"__dict__": {"x": bag}}) + b"\x86b" + value("x") + b"t", value("os")),
            ("container", getattr_, NAME("torch.nn.modules.container", "ParameterDict"), b"(" + NAME("torch.nn.parameter", "UninitializedTensorMixin") + b")\x81" + value({"x": reduce_("torch.nn.modules.container", "ParameterDict") + value("__setstate__") + function + b"s"}) + b"b" + value("x") + b"t", value("x")),
            ("logger", NAME("logging", "getLogger"), NAME("logging", "Logger"), value(("x",)), value({"k": function})), ("class", NAME("a", "Bag"), NAME("a", "Bag"), b")", value({"k": 1})), ("function", NAME("a", "_rebuild"), NAME("a", "Bag"), b")", b"}"),
            ("flags", NAME("operator", "or_"), NAME("a", "Color"), b"(" + reduce_("a", "Color", 1) + reduce_("a", "Color", 2) + b"t", value({"k": 1})), ("of_class", getattr_, NAME("a", "Meta"), value((NAME("a", "Class"), "Inner")), value({"load": function})),
            ("partial", NAME("functools", "partial"), NAME("a", "Bag"), NAME("a", "Bag") + b"\x85", b"}"), ("method", call(getattr_, NAME("torch", "Tensor"), "new"), NAME("torch", "Tensor"), b")", b"}"),
            ("to_function", NAME("torch._utils", "_rebuild_tensor_v2"), function, TENSOR[len(NAME("torch._utils", "_rebuild_tensor_v2")):-1], b"}"),
        ):
            both("from_type_%s_%s_%s" % (name, rebuild, module), NAME(module, rebuild) + b"(" + of + cls + arguments + state + b"tR", "torch calls a method of what is no new tensor", NOT_PLAIN, 2)


def modules_of_python2():
    """Of some modules of Python 2 the unpickler knows a few names, and imports a module of that name for all others."""
    for name in ("FileNotFoundError", "TimeoutError", "RecursionError", "ExceptionGroup", "dict", "list", "int", "set", "object", "slice", "Ellipsis", "NoneType"):
        for protocol in (0, 2):
            sample("python2_exceptions_%s_%d.pkl" % (name, protocol), (b"" if not protocol else b"\x80\x02") + b"cexceptions\n" + name.encode() + b"\n(Vtext\ntR.", "a module that may be anybody's", NOT_PLAIN)
        sample("python2_exceptions_%s_named.pkl" % name, proto(2, b"cexceptions\n" + name.encode() + b"\n"), "a module that may be anybody's", NOT_PLAIN | {"needs-objects"})
    for module, name in (("UserDict", "OrderedDict"), ("UserList", "deque"), ("UserString", "Counter"), ("Dialog", "Widget"), ("tkFont", "Font"), ("Tkdnd", "Tcl"), ("tkColorChooser", "Chooser"), ("markupbase", "ParserBase")):
        sample("python2_%s_%s.pkl" % (module, name), proto(2, NAME(module, name) + b"K\x01\x85R"), "a class of Python's library, or of anybody's module", NOT_PLAIN)
    for name in ("ValueError", "IOError", "StandardError", "KeyError"):
        sample("python2_fine_%s.pkl" % name, proto(2, NAME("exceptions", name) + b"(Vtext\ntR"), "an exception of Python 2", FINE)
    marks = value(("x", ("a", 1, 1, "", 1, 300000000)))
    both("incomplete_input", NAME("builtins", "_IncompleteInputError") + marks + b"R", "a syntax error, which writes as many marks as it says")
    both("incomplete_input_state", NAME("builtins", "_IncompleteInputError") + b")R" + value({"filename": "/x", "lineno": 1, "offset": 1}) + b"b", "the same by its state")
    truth = reduce_("numpy", "dtype", "b1", False, True) + value((3, "|", None, None, None, -1, -1, 0)) + b"bq\x200"
    for name, key in (("one", value(1)), ("true", b"\x88"), ("numpy", NAME("numpy.core.multiarray", "scalar") + b"(h\x20" + blob(b"\1") + b"tR")):
        both("keys_truth_%s" % name, truth + b"}(" + NAME("numpy.core.multiarray", "scalar") + b"(h\x20" + blob(b"\2") + b"tRN" + key + b"Nu", "one key twice: True, of whatever byte", NOT_PLAIN)


def whole_modules_pickled_bare():
    """Their storages are in the pickle, each given to a tensor and that to a Parameter, which copy nothing."""
    count = 100000
    stream = legacy(body=proto(2, b"(" + files.text("storage") + NAME("torch", "FloatStorage") + files.text("7") + files.text("cpu") + b"J" + struct.pack("<i", count) + b"NtQ"), stored=struct.pack("<q", count) + bytes(4 * count))
    hooks = NAME("collections", "OrderedDict") + b")R"
    storage = reduce_("torch.storage", "_load_from_bytes", blob(stream))
    parameter = reduce_("torch._utils", "_rebuild_parameter", reduce_("torch._utils", "_rebuild_tensor_v2", storage, 0, (count,), (1,), False, hooks), True, hooks)
    sample("bare_parameters.pkl", proto(4, b"](" + parameter * 8 + b"e"), "parameters with their bytes in the pickle", FINE)
    shared = reduce_("torch.storage", "_load_from_bytes", b"h\x09")
    sample("bare_parameters_of_one.pkl", proto(4, blob(stream) + b"q\x090](" + shared * 20 + b"e"), "one file that is loaded again and again", NOT_PLAIN)


def what_the_table_made_of_objects():
    """Calls that have rows of their own, aliases of dicts, states that are objects: a function goes through none of them."""
    function, getattr_ = NAME("a.b", "func"), NAME("builtins", "getattr")
    bag = NAME("a", "Bag") + b")\x81"

    def holds(key, item=function):
        return bag + value({key: item}) + b"b"

    for form, given in (("bare", function), ("held", holds("stride")), ("listed", b"]" + function + b"a"), ("method", call(getattr_, holds("x"), "x"))):
        both("njt_%s" % form, reduce_("torch.nested._internal.nested_tensor", "_rebuild_njt", b"}" + value("values") + given + b"s"), "torch calls methods of the values")
        both("njt_by_type_%s" % form, NAME("torch._tensor", "_rebuild_from_type_v2") + b"(" + NAME("torch.nested._internal.nested_tensor", "_rebuild_njt") + NAME("a", "Tensor") + b"(}" + value("values") + given + b"st}tR", "the same by a function of torch")
        both("generator_%s" % form, reduce_("numpy.random._pickle", "__generator_ctor", b"(" + given + b"t"), "numpy calls what it is given", NOT_PLAIN)
        both("map_%s" % form, reduce_("collections", "ChainMap", b"}q\x09") + value("k") + given + b"s0" + NAME("a", "Class") + b"h\x09\x85R", "a dict that another object writes into", NOT_PLAIN)
        for number, (module, name) in enumerate((("typing_extensions", "ChainMap"), ("a.vendored", "ChainMap"), ("a.b", "Wraps"), ("a", "shelve.Shelf"))):
            for given_as, container in (("dict", b"}"), ("list", b"]"), ("ordered", NAME("collections", "OrderedDict") + b")R")):
                both("map_alias_%s_%d_%s" % (form, number, given_as), reduce_(module, name, container + b"q\x09") + value("k") + given + b"s0" + NAME("a", "Class") + b"h\x09\x85R", "a container that another object writes into, by another name", NOT_PLAIN)
        both("map_state_%s" % form, reduce_("collections", "ChainMap", b"}q\x09") + value("append") + given + b"s0" + bag + b"h\x09b" + value(1) + b"a", "the same as a state", NOT_PLAIN)
    hidden = bag + call(getattr_, holds("data", value({"items": function})), "data") + b"b"
    for name, state in (("getattr", hidden), ("user_dict", NAME("collections", "UserDict") + b")\x81" + value({"data": {"items": function}}) + b"b"), ("proxy", reduce_("types", "MappingProxyType", value({"items": function}))),
                        ("object", holds("items")), ("slots", b"N" + call(getattr_, holds("data", value({"append": function})), "data") + b"\x86"), ("or", reduce_("operator", "or_", call(getattr_, holds("a"), "a"), call(getattr_, holds("b"), "b")))):
        both("state_object_%s" % name, bag + state + b"b", "a state that is an object, whose items() an unpickler calls", NOT_PLAIN)
    looked_up = call(getattr_, holds("Inner"), "Inner")
    for name, cls in (("of_object", looked_up), ("function", function), ("method", call(getattr_, NAME("a", "Bag"), "method"))):
        for module, function_, arguments in (("numpy.ma.core", "_mareconstruct", (NAME("numpy", "ndarray"), (0,), blob(b"b"))), ("numpy.core.multiarray", "_reconstruct", ((0,), blob(b"b"))), ("collections", "defaultdict", ()),
                                             ("torch._utils", "_rebuild_wrapper_subclass", (NAME("torch", "float32"), (1,), (1,), 0, NAME("torch", "strided"), reduce_("torch", "device", "cpu"), False))):
            both("class_%s_%s" % (function_, name), reduce_(module, function_, cls, *arguments), "a function in the place of a class")
    both("ma_second", reduce_("numpy.ma.core", "_mareconstruct", NAME("numpy.ma.core", "MaskedArray"), looked_up, (0,), blob(b"b")), "a function in the place of a class")
    sample("ma_fine.pkl", proto(2, reduce_("numpy.ma.core", "_mareconstruct", NAME("numpy.ma.core", "MaskedArray"), NAME("numpy", "ndarray"), (0,), blob(b"b"))), "as numpy writes it", {"needs-objects"})
    sample("defaultdict_inner_fine.pkl", proto(2, reduce_("collections", "defaultdict", call(getattr_, NAME("a", "Bag"), "Inner"))), "a class in a class", {"needs-objects"})
    for module in ("_testlimitedcapi", "_testcapi", "_testclinic", "_xxtestfuzz", "_ctypes_test", "__hello__", "xxlimited", "_wmi", "_pylong", "_testinternalcapi"):
        for word in ("PyImport_ImportModule", "Class"):
            both("library_%s_%s" % (module, word), reduce_(module, word, "this"), "a module that belongs to Python")
    for name in ("NamedTuple", "NewType", "TypedDict"):
        both("typing_%s" % name, reduce_("torch.distributed._tensor.placement_types", name, "x"), "a function that a module of enumerations imports")


def in_use():
    """What loads, and ends a process where it is used, or shown."""
    hooks = NAME("collections", "OrderedDict") + b")R"
    huge = 6148914691236517206
    stored = files.storage()

    def number(n):
        return b"\x8a\x08" + struct.pack("<q", n)

    for name, shape, wanted in (("wraps", (3, huge), NOT_PLAIN), ("zero", (0, 1 << 62, 1 << 62), NOT_PLAIN), ("zero_alone", (1, (1 << 63) - 1, 0), NOT_PLAIN), ("fine", (0, 4096, 4096), FINE), ("fine_last", (1 << 20, 0), FINE)):
        sizes = b"(" + b"".join(map(number, shape)) + b"t"
        strides = b"(" + value(0) * len(shape) + b"t"
        sample("sizes_%s.pt" % name, torch_zip(proto(2, NAME("torch._utils", "_rebuild_tensor_v2") + b"(" + stored + value(0) + sizes + strides + b"\x89" + hooks + b"tR")), "sizes whose product torch does not count", wanted)
    for name, state, wanted in (("name_from", {"name": "this", "name_from": "x"}, NOT_PLAIN), ("metadata", {"_metadata": (1, 2, "x")}, NOT_PLAIN), ("fine", {"name": "this", "path": None}, FINE)):
        for error in ("ImportError", "SyntaxError", "ModuleNotFoundError"):
            both("shown_%s_%s" % (error, name), reduce_("builtins", error, "x") + value(state) + b"b", "an exception whose traceback imports, or opens", NOT_PLAIN if error == "SyntaxError" else wanted)
    for name, factory, wanted in (("shutdown", ("logging", "shutdown"), RUN), ("abort", ("os", "abort"), RUN), ("breakpoint", ("builtins", "breakpoint"), RUN), ("list", ("builtins", "list"), FINE), ("int", ("builtins", "int"), FINE)):
        both("factory_%s" % name, reduce_("collections", "defaultdict", NAME(*factory)), "what a defaultdict calls for a key that is not there", wanted)
    for number_, bits in enumerate((0x7FF8000000000000, 0xFFF8000000000001, 0x7FF0000000000001)):
        dtype = reduce_("numpy", "dtype", "f8", False, True) + value((3, "<", None, None, None, -1, -1, 0)) + b"bq\x200"
        keys = b"".join(NAME("numpy.core.multiarray", "scalar") + b"(h\x20" + blob(struct.pack("<Q", bits + (n << 4))) + b"tRN" for n in range(6000))
        both("keys_nan_%d" % number_, dtype + b"}(" + keys + b"u", "6,000 numbers that are none, of one hash until Python 3.10", NOT_PLAIN)


def objects_of_the_library():
    """Harmless ones that ordinary files hold, and what comes close to them."""
    iterator, notes = NAME("builtins", "iter"), files.text("__notes__")
    error = NAME("builtins", "ValueError") + b")R"
    group = NAME("builtins", "ExceptionGroup") + b"(" + files.text("a")
    bytes_io = NAME("_io", "BytesIO") + b")\x81"
    for name, body in (
        ("iter_list", iterator + b"(](K\x01K\x02etRK\x01b"), ("iter_end", iterator + b"(](K\x01etRK\x01b"), ("iter_tuple", iterator + b"((K\x01ttR"), ("group", group + b"](" + error + error + b"etR"),
        ("group_tuple", group + b"(" + error + b"ttR"), ("base_group", NAME("builtins", "BaseExceptionGroup") + b"(" + files.text("a") + b"](" + error + b"etR"), ("notes", error + b"}" + notes + b"](" + files.text("x") + b"esb"),
        ("group_notes", group + b"](" + error + b"etR}" + notes + b"](" + files.text("x") + b"esb"), ("bytes_io", bytes_io + b"(C\x02abK\x02Ntb"), ("bytes_io_coded", bytes_io + b"(" + reduce_("_codecs", "encode", "ab", "latin1") + b"K\x00Ntb"),
    ):
        both("library_%s" % name, body, "an object of Python's library", FINE, 3)
    for name, body in (
        ("iter_minus", iterator + b"(](K\x01etRJ\xff\xff\xff\xffb"), ("iter_far", iterator + b"(](K\x01etRK\x02b"), ("iter_dict", iterator + b"(}tR"), ("iter_two", iterator + b"(" + NAME("builtins", "len") + b"K\x01tR"),
        ("iter_object", iterator + b"(cmine\nThing\n)\x81tR"), ("iter_attributes", iterator + b"(]tR}b"), ("iter_kept", b"]" + iterator + b"a"), ("iter_later", iterator + b"(]q\x05tR0h\x05K\x01a"),
        ("iter_deep", b"cbuiltins\niter\n(]" * 6000 + b"K\x01" + b"atR" * 6000), ("group_one", NAME("builtins", "ExceptionGroup") + b"(" + files.text("a") + b"tR"), ("group_of_range", group + reduce_("builtins", "range", 9) + b"tR"),
        ("group_of_number", group + b"](K\x01etR"), ("group_of_none", group + b"(" + error + b"NttR"), ("group_of_text", group + b"](" + files.text("x") + b"etR"), ("group_of_dict", group + b"](ccollections\nOrderedDict\n)RetR"), ("group_deep", (group + b"](") * 6000 + error + b"etR" * 6000), ("group_later", group + b"](" + error + b"eq\x05tR0h\x05K\x01a"), ("notes_numbers", error + b"}" + notes + b"](K\x01esb"), ("notes_text", error + b"}" + notes + files.text("x") + b"sb"),
        ("notes_later", error + b"}" + notes + b"]q\x05sb0h\x05K\x01a"), ("notes_object", error + b"}" + notes + b"cmine\nThing\n)\x81sb"), ("notes_of_none", NAME("collections", "OrderedDict") + b")R}" + notes + b"](" + files.text("x") + b"esb"),
        ("special", error + b"}" + files.text("__setstate__") + b"](" + files.text("x") + b"esb"), ("bytes_io_minus", bytes_io + b"(C\x02abJ\xff\xff\xff\xffNtb"), ("bytes_io_far", bytes_io + b"(C\x02abK\x03Ntb"),
        ("bytes_io_attributes", bytes_io + b"(C\x02abK\x00}tb"), ("bytes_io_object", bytes_io + b"(cmine\nThing\n)\x81K\x00Ntb"), ("bytes_io_called", NAME("_io", "BytesIO") + b"(C\x02abtR"), ("file_io", NAME("_io", "FileIO") + b")\x81"),
        ("string_io", NAME("_io", "StringIO") + b")\x81"), ("open", NAME("_io", "open") + b"(" + files.text("x") + b"tR"),
    ):
        both("not_library_%s" % name, body, "what comes close to an object of Python's library", NOT_PLAIN | {"needs-objects"} if name == "iter_object" else NOT_PLAIN, 3)
    for name, body in (
        ("regex_flag", reduce_("re", "RegexFlag", 2)), ("http_status", reduce_("http", "HTTPStatus", 200)), ("http_method", reduce_("http", "HTTPMethod", "GET")), ("parameter_kind", reduce_("inspect", "_ParameterKind", 1)),
        ("month", reduce_("calendar", "Month", 5)), ("signal", reduce_("signal", "Signals", 2)), ("signal_name", NAME("signal", "SIGINT")), ("signal_ignore", NAME("signal", "SIG_IGN")), ("getattr", reduce_("builtins", "getattr", NAME("http", "HTTPStatus"), "OK")),
    ):
        both("enum_%s" % name, body, "a member of an enumeration of Python's library", {"needs-objects"})
    for name, body in (
        ("client", reduce_("http", "client.HTTPConnection", "x")), ("method", call(reduce_("builtins", "getattr", NAME("http", "HTTPStatus"), "from_bytes"), 1)), ("object", reduce_("re", "RegexFlag", NAME("mine", "Thing") + b")\x81")),
        ("text", reduce_("inspect", "_ParameterKind", "x")), ("signal_called", reduce_("signal", "SIGINT", 1)), ("signal_function", reduce_("signal", "raise_signal", 9)), ("signal_set", reduce_("signal", "signal", 2, NAME("os", "abort"))),
        ("signal_other", NAME("signal", "SIGnal")),
    ):
        both("not_enum_%s" % name, body, "what comes close to an enumeration", NOT_PLAIN)


methods_that_are_attributes()
what_the_table_made_of_objects()
modules_of_python2()
whole_modules_pickled_bare()
in_use()
shared_in_a_package()
frames_of_pandas()
classes_of_the_file()
methods_as_attributes()
classes_by_other_names()
keywords()
two_classes()
devices()
costly()
changed_later()
objects_of_torch()
parts_of_tensors()
made_with_arguments()
functions_of_packages()
functions_that_look_up()
functions_as_classes()
many_names()
functions_handed_over()
functions_handed_over_inside()
keys_that_are_called()
classes_called()
errors_of_syntax()
errors_that_show_what_is_shared()
states_of_what_has_no_attributes()
unpicklers_that_differ()
long_texts()
depths()
objects_of_the_library()

# SPDX-License-Identifier: Apache-2.0
"""One file for each function that a pickle must not be able to call, in all the ways in which a pickle can call."""

import ast
import os

import assemble
from assemble import (
    BAD,
    COMMAND,
    RUN,
    SYSTEM_CALL,
    UNKNOWN_CALL,
    call,
    files,
    frame,
    legacy,
    named,
    proto,
    reduce_,
    sample,
    short,
    torch_zip,
    value,
)

# functions of other projects: what they do is not known to a scanner, that they are called is
OTHERS = [
    ("mlflow.projects.backend.local", "_run_entry_point", (COMMAND, ".", "", "")),
    ("pandas.io.parsers.readers", "read_csv", ("http://127.0.0.1",)),
    ("transformers.models.auto.auto_factory", "getattribute_from_module", (files.glob("a", "B"), "from_pretrained")),
    ("my_package.helpers", "do_it", (COMMAND,)),
]


def plain_reduce(module, name, arguments):
    return proto(2, assemble.reduce_(module, name, *arguments))


def stack_global(module, name, arguments):
    return proto(4, frame(call(named(module, name), *arguments)))


def dotted(module, name, arguments):
    """GLOBAL follows dots, too, once PROTO has said 4."""
    return proto(4, assemble.reduce_(module, name, *arguments))


def inst(module, name, arguments):
    return b"(" + b"".join(map(value, arguments)) + b"i%s\n%s\n." % (module.encode(), name.encode())


def obj(module, name, arguments):
    return proto(2, b"(" + files.glob(module, name) + b"".join(map(value, arguments)) + b"o")


def dropped(module, name, arguments):
    return proto(3, assemble.reduce_(module, name, *arguments) + b"0" + value({"weight": 1}))


def deep_inside(module, name, arguments):
    return proto(2, value({"state_dict": {"a": [1, (2, assemble.reduce_(module, name, *arguments))]}, "epoch": 3}))


WAYS = [plain_reduce, stack_global, dotted, inst, obj, dropped, deep_inside]
HOMES = [lambda pickle: pickle, torch_zip, lambda pickle: legacy(body=pickle)]
EXTENSIONS = [".pkl", ".pt", ".bin"]


def made(index, module, name, arguments):
    """The ways in turn, but dots mean something from protocol 4 on only."""
    way = (stack_global, dotted)[index % 2] if "." in name else WAYS[index % len(WAYS)]
    home = index // len(WAYS) % len(HOMES)
    return way.__name__, HOMES[home](way(module, name, arguments)), EXTENSIONS[home]


def argument(item):
    """Of calls.txt: opcodes, or what value() takes."""
    if isinstance(item, str) and item.startswith("@"):
        return files.glob(*item[1:].split(" "))
    if isinstance(item, bytes):
        return assemble.blob(item)
    if isinstance(item, (list, tuple)):
        return type(item)(map(argument, item))
    return {key: argument(one) for key, one in item.items()} if isinstance(item, dict) else item


def read_calls():
    """(module, name, arguments, advisory)"""
    with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "calls.txt"), encoding="utf-8") as stream:
        for line in stream:
            if line.strip() and not line.startswith("#"):
                line, _, about = line.rstrip("\n").partition("  # ")
                module, name, arguments = line.split(" ", 2)
                yield module, name, argument(ast.literal_eval(arguments)), about


def make_calls():
    for index, (module, name, arguments, about) in enumerate(read_calls()):
        way, data, extension = made(index, module, name, arguments)
        sample("call_%s.%s%s" % (module, name, extension), data, "%s.%s is called, by %s" % (module, name, way), RUN, about)
    for index, (module, name, arguments) in enumerate(OTHERS):
        way, data, extension = made(index, module, name, arguments)
        sample(
            "other_%s.%s%s" % (module, name, extension), data, "a function that nobody knows is called, by " + way, UNKNOWN_CALL
        )
    for way in WAYS:
        for home, extension in zip(HOMES, EXTENSIONS):
            sample("way_%s%s" % (way.__name__, extension), home(way("os", "system", (COMMAND,))), "os.system by " + way.__name__)


def make_chains():
    """Several calls together, each of which looks like little."""
    got = call(named("builtins", "getattr"), call(named("importlib", "import_module"), short("os")), short("system"))
    sample(
        "chain_import_getattr.pkl",
        proto(4, call(got, short(COMMAND))),
        "getattr(import_module('os'), 'system')('true')",
        RUN,
        "fickling GHSA-q5qq-mvfm-j35x",
    )
    caller = call(named("_operator", "methodcaller"), short("system"), short(COMMAND))
    sample(
        "chain_methodcaller.pkl",
        proto(4, call(caller, call(named("builtins", "__import__"), short("os")))),
        "methodcaller('system', 'true')(__import__('os'))",
        RUN,
        "picklescan GHSA-955r-x9j8-7rhh",
    )
    sample(
        "chain_locate.pkl",
        proto(4, call(call(named("pydoc", "locate"), short("os.system")), short(COMMAND))),
        "what pydoc.locate finds is called",
        RUN,
        "picklescan GHSA-84r2-jw7c-4r5q",
    )
    hidden = call(named("builtins", "getattr"), named("builtins", "eval"), short("__call__"))
    sample(
        "chain_eval_by_getattr.pkl",
        proto(4, call(hidden, short("1"))),
        "getattr(eval, '__call__')",
        RUN,
        "picklescan GHSA-9m3x-qqw2-h32h",
    )
    code = call(named("marshal", "loads"), b"C\x01N")
    function = call(named("types", "FunctionType"), code, b"}")
    sample(
        "chain_marshal_function.pkl",
        proto(4, call(function)),
        "a function made of marshalled code is called",
        RUN,
        "fickling GHSA-565g-hwwr-4pp3",
    )
    kind = call(named("builtins", "type"), named("copy", "copy"))
    sample("chain_type_of_function.pkl", proto(4, call(kind, b"N", b"}")), "FunctionType without its name: type(copy.copy)")
    stored = named("numpy", "size") + b"}" + value({"shape": named("numpy", "__builtins__")}) + b"\x86b"
    sample(
        "chain_numpy_builtins.pkl",
        proto(4, stored + b"0" + call(call(named("numpy", "size"), named("numpy", "size"), short("eval")), short("1"))),
        "an attribute of numpy.size becomes numpy.__builtins__, numpy.size('eval') gives eval",
        RUN,
        "modelscan issue 330",
    )
    sample(
        "chain_dict_get_builtins.pkl",
        proto(5, call(call(named("builtins", "dict.get"), named("numpy", "__builtins__"), short("exec")), short("1"))),
        "dict.get(numpy.__builtins__, 'exec')",
        RUN,
        "modelscan issue 89",
    )
    sample(
        "chain_setattr_builtins.pkl",
        proto(
            4,
            call(
                named("builtins", "__setattr__"),
                short("found"),
                call(named("builtins", "print.__class__.__base__.__subclasses__")),
            )
            + b"0"
            + call(named("builtins", "found.__getitem__"), b"K\x01"),
        ),
        "builtins is changed, then asked",
    )
    sample(
        "chain_lazy_map.pkl",
        proto(
            2,
            call(
                files.glob("collections", "deque"), call(files.glob("itertools", "imap"), files.glob("os", "system"), [COMMAND])
            ),
        ),
        "a lazy map that a harmless container runs",
    )
    sample(
        "chain_lazy_map_ordered.pt",
        torch_zip(
            proto(
                2,
                call(
                    files.glob("collections", "OrderedDict"),
                    call(files.glob("__builtin__", "map"), files.glob("os", "system"), [COMMAND]),
                ),
            )
        ),
        "a lazy map that OrderedDict runs",
    )
    sample(
        "chain_lazy_map_size.pt",
        torch_zip(
            proto(
                2, call(files.glob("torch", "Size"), call(files.glob("builtins", "map"), files.glob("os", "system"), [COMMAND]))
            )
        ),
        "a lazy map that torch.Size runs",
    )
    alone = call(
        files.glob("torch._tensor", "_rebuild_from_type_v2"),
        files.glob("os", "system"),
        files.glob("torch", "Tensor"),
        (COMMAND,),
        {},
    )
    sample("chain_rebuild_from_type.pt", torch_zip(proto(2, alone)), "torch's own _rebuild_from_type_v2 calls its first argument")
    old = call(
        files.glob("torch._tensor", "_rebuild_from_type"),
        files.glob("posix", "system"),
        files.glob("torch", "Tensor"),
        (COMMAND,),
        {},
    )
    sample("chain_rebuild_from_type_old.pt", torch_zip(proto(2, old)), "the same of torch 1.7 to 1.11")
    known = call(
        files.glob("torch._tensor", "_rebuild_from_type_v2"),
        files.glob("builtins", "getattr"),
        files.glob("torch", "Tensor"),
        (files.glob("torch._utils", "torch"), "hub"),
        {},
    )
    sample("chain_rebuild_getattr.pt", torch_zip(proto(2, known)), "_rebuild_from_type_v2 calls getattr")
    sample(
        "chain_getattr_torch_os.pt",
        torch_zip(
            proto(
                2,
                call(
                    call(
                        files.glob("__builtin__", "getattr"),
                        call(files.glob("__builtin__", "getattr"), files.glob("torch._utils", "torch"), "os"),
                        "system",
                    ),
                    COMMAND,
                ),
            )
        ),
        "getattr as torch 2.14 writes it for memory formats, but of 'os'",
    )
    sample(
        "chain_reconstructor.pkl",
        proto(
            2,
            call(
                files.glob("copy_reg", "_reconstructor"),
                files.glob("commands", "Popen"),
                files.glob("commands", "Popen"),
                ["true"],
            ),
        ),
        "copyreg._reconstructor calls __init__ of its second argument",
    )
    sample(
        "chain_type_setstate.pkl",
        proto(
            2,
            call(files.glob("__builtin__", "type"), "A", (), {"__setstate__": files.glob("os", "system")})
            + b")R"
            + value(COMMAND)
            + b"b",
        ),
        "a class is made, and its __setstate__ is os.system",
    )
    sample(
        "chain_newobj_type.pkl",
        proto(
            2,
            files.glob("builtins", "type")
            + value(("A", (), {"__setstate__": files.glob("os", "system")}))
            + b"\x81)R"
            + value(COMMAND)
            + b"b",
        ),
        "the same by NEWOBJ",
    )
    sample(
        "chain_partial_build.pkl",
        proto(
            2,
            files.glob("functools", "partial")
            + value((files.glob("os", "system"),))
            + b"R"
            + value((files.glob("os", "system"), (COMMAND,), {}, None))
            + b"b)R",
        ),
        "functools.partial as pickles have it, then called",
    )
    sample(
        "chain_exec_of_decoded.pkl",
        proto(4, call(named("builtins", "exec"), call(named("zlib", "decompress"), b"C\x01x"))),
        "exec of what zlib unpacks",
    )
    sample(
        "chain_codetype.pkl",
        proto(4, call(call(named("types", "FunctionType"), call(named("types", "CodeType"), 0, 0, 0, 1, 3, 67), b"}"))),
        "code made of numbers",
    )
    sample(
        "chain_ext.pkl",
        proto(2, call(files.glob("copy_reg", "add_extension"), "os", "system", 7) + b"0" + call(b"\x82\x07", COMMAND)),
        "os.system becomes extension 7, and 7 is called",
    )
    sample(
        "chain_printer.pkl",
        proto(2, call(files.glob("functools", "partial"), files.glob("__builtin__", "eval")) + b"q\x000" + call(b"h\x00", "1")),
        "partial(eval), kept in the memo",
    )
    sample(
        "chain_defaultdict.pkl",
        proto(2, call(files.glob("collections", "defaultdict"), files.glob("os", "getcwd"))),
        "a function of os waits for a missing key",
        {"dangerous", "needs-objects"},
    )
    sample(
        "reference_only.pt",
        torch_zip(proto(2, value({"weight": 1, "hook": files.glob("os", "system")}))),
        "os.system is only named: torch may call it later, as a hook",
        {"dangerous", "needs-objects"},
    )
    nested = assemble.reduce_("torch.storage", "_load_from_bytes", assemble.blob(BAD))
    sample("nested_load_from_bytes.pt", torch_zip(proto(3, nested)), "_load_from_bytes unpickles its argument")
    sample(
        "nested_load_from_bytes_legacy.pt",
        torch_zip(proto(3, assemble.reduce_("torch.storage", "_load_from_bytes", assemble.blob(legacy(body=BAD))))),
        "the same, a stream",
    )
    sample(
        "nested_load_from_bytes_zip.pt",
        torch_zip(proto(3, assemble.reduce_("torch.storage", "_load_from_bytes", assemble.blob(torch_zip(BAD))))),
        "the same, an archive",
    )
    encoded = call(files.glob("_codecs", "encode"), legacy(body=BAD).decode("latin-1"), "latin1")
    sample(
        "nested_load_from_bytes_py2.pt",
        torch_zip(proto(2, assemble.reduce_("torch.storage", "_load_from_bytes", encoded))),
        "the same, bytes as protocol 2 has them",
    )
    twice = assemble.reduce_("torch.storage", "_load_from_bytes", assemble.blob(legacy(body=proto(3, nested))))
    sample("nested_twice.pt", torch_zip(proto(3, twice)), "_load_from_bytes in _load_from_bytes")
    sample(
        "nested_argument_made.pt",
        torch_zip(
            proto(3, call(files.glob("torch.storage", "_load_from_bytes"), call(files.glob("_codecs", "encode"), "x", "rot13")))
        ),
        "what is unpickled is made by a call",
        {"dangerous", "needs-objects", "unreadable", "inconsistent"},
    )
    sample("nested_reversed.pkl", proto(4, call(named("_pickle", "loads"), assemble.blob(BAD))), "a pickle in a pickle")


def partial(module, name, *arguments):
    return call(files.glob("functools", "partial"), files.glob(module, name), *arguments)


def namespace(**attributes):
    return files.glob("argparse", "Namespace") + b")\x81" + value(attributes) + b"b"


def make_trampolines():
    """Nothing dangerous is called by an opcode: harmless functions call what objects have for attributes, or their arguments."""
    bad = partial("commands", "run", ["true"])
    for name, function in (
        ("ordered", ("collections", "OrderedDict")),
        ("dict", ("__builtin__", "dict")),
        ("userdict", ("UserDict", "UserDict")),
        ("namespace", ("types", "SimpleNamespace")),
    ):
        sample(
            "tramp_keys_%s.pkl" % name,
            proto(2, call(files.glob(*function), namespace(keys=bad))),
            "%s.%s calls keys() of what it gets" % function,
        )
    rebuild = files.glob("torch._utils", "_rebuild_parameter")
    sample(
        "tramp_detach.pt",
        torch_zip(proto(2, call(rebuild, namespace(detach=bad), False, {}))),
        "_rebuild_parameter calls detach() of what it gets",
    )
    move = files.glob("torch._utils", "_rebuild_device_tensor_from_cpu_tensor")
    sample(
        "tramp_to.pt",
        torch_zip(proto(2, call(move, namespace(to=bad), files.glob("torch", "float32"), "cpu", False))),
        "a function of torch calls to() of what it gets",
    )
    sample(
        "tramp_fraction.pkl",
        proto(2, call(files.glob("fractions", "Fraction"), namespace(as_integer_ratio=bad))),
        "Fraction calls as_integer_ratio()",
    )
    optimizer = (
        files.glob("torch.optim.sgd", "SGD") + b")\x81" + value({"param_groups": [{"lr": 1}], "defaults": {}, "state": {}}) + b"b"
    )
    sample(
        "tramp_lambda_lr.pt",
        torch_zip(proto(2, call(files.glob("torch.optim.lr_scheduler", "LambdaLR"), optimizer, bad))),
        "LambdaLR calls what it gets",
    )
    sample(
        "tramp_averaged.pt",
        torch_zip(proto(2, call(files.glob("torch.optim.swa_utils", "AveragedModel"), namespace(__deepcopy__=bad)))),
        "AveragedModel copies what it gets, by its __deepcopy__",
    )
    for name in (
        "torch.ao.quantization.fx.convert.GraphModule",
        "torch.ao.quantization.fx.graph_module.ObservedGraphModule",
        "torch.nn.intrinsic.GraphModule",
    ):
        module, _, kind = name.rpartition(".")
        sample(
            "tramp_graph_%s.pt" % module,
            torch_zip(proto(2, call(files.glob(module, kind), {}, namespace(_nodes=1)))),
            "GraphModule executes the source of a graph, which the file may have made",
        )
    sample(
        "tramp_reconstructor_unknown.pkl",
        proto(
            2,
            call(
                files.glob("copy_reg", "_reconstructor"),
                files.glob("cStringIO", "FileIO"),
                files.glob("cStringIO", "FileIO"),
                "/tmp/x",
            ),
        ),
        "_reconstructor calls __init__ of a class under its name of Python 2",
    )
    for module, name in (
        ("commands", "run"),
        ("commands", "Popen"),
        ("commands", "check_output"),
        ("StringIO", "open"),
        ("cStringIO", "open"),
        ("UserDict", "namedtuple"),
        ("typing", "_eval_type"),
        ("torch._numpy.testing.utils", "runstring"),
        ("warnings", "_getcategory"),
        ("torch.utils.checkpoint", "checkpoint"),
        ("multiprocessing.forking", "Popen"),
    ):
        wanted = UNKNOWN_CALL if module in ("UserDict", "warnings", "torch.utils.checkpoint") else RUN
        sample(
            "tramp_partial_%s.%s.pkl" % (module, name),
            proto(2, value({"collate_fn": partial(module, name, "x")})),
            "functools.partial of a function that runs code, to be called later",
            wanted,
        )
    state = value((files.glob("commands", "run"), (["true"],), {}, None))
    sample(
        "tramp_partial_state.pkl",
        proto(2, call(files.glob("functools", "partial"), files.glob("collections", "OrderedDict")) + state + b"b"),
        "functools.partial becomes another by its state",
    )
    harmless = call(files.glob("__builtin__", "getattr"), files.glob("torch._utils", "torch"), "channels_last")
    passed = call(
        files.glob("functools", "partial"), files.glob("__builtin__", "getattr"), files.glob("torch._utils", "torch"), "os"
    )
    sample(
        "tramp_getattr_hidden.pt",
        torch_zip(proto(2, value([harmless, namespace(keys=passed)]))),
        "a getattr that is passed on, behind one that is harmless",
    )
    found = call(files.glob("numpy.core", "_ufunc_reconstruct"), "pty", "spawn")
    sample(
        "tramp_ufunc.pkl", proto(2, value({"f": found})), "_ufunc_reconstruct imports any module, and gives any function of it"
    )
    state = value({"param_groups": [{"params": [["/bin/true"]]}], "state": namespace(get=found), "defaults": {}})
    sample(
        "tramp_ufunc_adam.pt",
        torch_zip(proto(2, files.glob("torch.optim.adam", "Adam") + b")\x81" + state + b"b")),
        "__setstate__ of torch's Adam calls state.get(parameter, []): here pty.spawn",
    )
    for name in ("__randomstate_ctor", "__generator_ctor"):
        function = files.glob("torch.nn.attention._fa3", "_fa3_import_module")
        sample(
            "tramp_%s.pkl" % name.strip("_"),
            proto(2, reduce_("numpy.random._pickle", name, "x", function)),
            "%s calls its second argument" % name,
            RUN | assemble.NOT_DECIDED,
        )
    sample(
        "tramp_bit_generator.pkl",
        proto(
            2, reduce_("numpy.random._pickle", "__bit_generator_ctor", files.glob("concurrent.futures", "ProcessPoolExecutor"))
        ),
        "__bit_generator_ctor calls any class",
    )
    for module, name, arguments, wanted in (
        ("torch.distributed._shard.checkpoint._async_process_executor", "TCPStore", ("127.0.0.1", 9), RUN),
        ("torch.distributed._shard.checkpoint.utils", "Stats", ("x.prof",), RUN),
        ("torch.distributed._shard.checkpoint._async_process_executor", "ThreadPoolExecutor", (1,), RUN),
        ("torch.distributed._shard.checkpoint._experimental.checkpoint_process", "Connection", (3,), RUN),
        ("torch.distributed._shard.checkpoint", "FileSystemWriter", ("/tmp/x",), UNKNOWN_CALL),
        ("torch.nested._internal.nested_int", "ForwardRef", ("x",), UNKNOWN_CALL),
        ("torch.ao.quantization.fx._decomposed", "Library", ("aten", "DEF"), UNKNOWN_CALL),
    ):
        sample(
            "alias_%s.%s.pt" % (module, name),
            torch_zip(proto(2, reduce_(module, name, *arguments))),
            "a class of elsewhere under the name of a module of torch",
            wanted,
        )
    many = b"".join(files.glob("package.module", "Class%d" % i) + b"0" for i in range(1500))
    sample("flood_globals.pkl", proto(2, many + SYSTEM_CALL), "1500 names, then the call")
    many = b"".join(files.glob("os", "name%d" % i) + b"0" for i in range(1500))
    sample(
        "flood_code.pkl",
        proto(2, many + call(files.glob("torch._utils", "_import_dotted_name"), "os.system")),
        "1500 names of os, then a call",
    )
    many = b"".join(reduce_("package.module", "Class%d" % i) + b"0" for i in range(1500))
    sample("flood_calls.pkl", proto(2, many + SYSTEM_CALL), "1500 calls, then the bad one")
    sample(
        "flood_unknown.pkl",
        proto(2, b"".join(b"K\x01K\x02b0" for _ in range(1500)) + SYSTEM_CALL),
        "1500 opcodes that fail, then the call: an unpickler ends at the first",
        RUN | assemble.NOT_DECIDED,
    )


make_calls()
make_chains()
make_trampolines()

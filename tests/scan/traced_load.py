# SPDX-License-Identifier: Apache-2.0
"""Loads files that `ckpt scan` calls plain, and tells what they do beyond making data: traced_load.py < FILES

From standard input: for each its kind (a line: "bare", "stream", "archive", "container" or "row", length), then its bytes. One line for each that does more than it may: its number, and
what. Whatever an audit hook hears of is refused before it happens; modules and classes are compared afterwards. To be run in a process of its own,
for a crash is a finding too. Never for files of others. With the argument "unused" what was loaded is not used, which imports parts of torch now and then.
The numbers of all tensors and arrays that were made are told as one sum, so that another process can be compared with this one in which memory that is reserved or freed gets another byte: "free=85".
"""

import copy
import gc
import importlib
import io
import os
import pickle
import re
import resource
import signal
import struct
import sys
import warnings
import zlib

FREE = [word[5:] for word in sys.argv if word.startswith("free=")]
if FREE and "GLIBC_TUNABLES" not in os.environ:  # read where a process begins; what is freed and at hand (tcache) would keep its bytes
    os.execve(sys.executable, [sys.executable, *sys.argv], {**os.environ, "GLIBC_TUNABLES": "glibc.malloc.tcache_count=0:glibc.malloc.perturb=" + FREE[0]})

warnings.simplefilter("ignore")

import array  # noqa: E402,F401
import collections  # noqa: E402
import datetime  # noqa: E402,F401
import decimal  # noqa: E402,F401
import encodings.cp1252  # noqa: E402,F401
import encodings.cp437  # noqa: E402,F401
import encodings.raw_unicode_escape  # noqa: E402,F401
import fractions  # noqa: E402,F401
import pathlib  # noqa: E402,F401
import shutil  # noqa: E402,F401
import tarfile  # noqa: E402,F401
import tempfile  # noqa: E402,F401
import uuid  # noqa: E402,F401
import zipfile  # noqa: E402
import zipimport  # noqa: E402

import torch  # noqa: E402
import torch.jit._pickle  # noqa: E402
import torch.serialization  # noqa: E402

try:
    import torch.package
except ImportError:  # torch 1.7
    pass
try:
    import numpy
    import numpy.core.multiarray  # noqa: F401
    import numpy.core.numeric  # noqa: F401
    import numpy.ma  # noqa: F401
except ImportError:
    numpy = None

for name in ("torch.distributed.tensor", "torch.distributed._tensor", "torch.distributed._tensor.api", "pathlib._local"):  # which a file may name, and some versions have
    try:
        importlib.import_module(name)
    except ImportError:
        pass

MODULES = ("array", "builtins", "__builtin__", "collections", "_codecs", "datetime", "decimal", "fractions", "numpy", "numpy._core", "numpy.core", "numpy.core.multiarray", "numpy.core.numeric", "numpy._core.multiarray",
           "numpy._core.numeric", "pathlib", "pathlib._local", "torch", "torch._C", "torch._tensor", "torch._utils", "torch.autograd.variable", "torch.jit._pickle", "torch.nn.parameter", "torch.return_types",
           "torch.serialization", "torch.storage", "torch.torch_version", "torch.tensor", "uuid", "torch.distributed.tensor", "torch.distributed._tensor", "torch.distributed._tensor.api", "torch.cuda", "_io", "pickle")
# of no consequence: looks at the stack, and what the collector and the allocator say
# ... and what torch does with its tars: it unpacks members into a folder of its own, and reads them
UNPACKS = ("tempfile.", "shutil.", "os.mkdir", "os.rmdir", "os.remove", "os.scandir", "os.listdir", "os.chmod", "os.utime", "os.chown", "os.link", "os.symlink", "os.unlink", "open")
HARMLESS = ("sys._getframe", "sys.unraisablehook", "gc.", "builtins.id", "array.__new__", "cpython._PySys", "object.__getattr__", "sys.monitoring")
MOST_SECONDS = 20
SAMPLE = "sample.%d.pt2" % os.getpid()  # as aoti_load_package() of torch 2.6 wants it
GROWTH = 400 << 10  # KiB, of a batch
MOST_NUMBERS = 1 << 16
# of texts as Python 2 pickled them, by which a load makes of them what it is told
OF_PYTHON2 = re.compile(rb"[UT]|S['\"]")
ENCODINGS = ({"encoding": "latin1"}, {"encoding": "bytes"}, {"encoding": "ascii", "errors": "replace"}, {"encoding": "utf-8", "errors": "surrogateescape"}, {"encoding": "cp1252", "errors": "ignore"})
ADDRESS = re.compile(r"0x[0-9a-f]+")
OTHER_KEYS = ("ascii", "utf-8", "cp1252")  # of ENCODINGS, which the page excludes where keys are told apart

# one name in a line, for torch.package: docs/scan.md says what it is to who unpickles it
LIST_OF_MODULES = "/.data/extern_modules"
MAYBE_COMPILED = b"m.wrapper"
# what torch says of an archive without a program, or which is none: a text is all that tells
NOTHING_COMPILED = ("Failed to find a generated", "No AOTInductor", "PytorchStreamReader", "Failed to initialize zip archive", "Failed to read", "Failed to extract", "[enforce fail")

heard = []
made = []
summed = 0
listening = False
allowed = set()


def hook(event, arguments):
    if not listening or event.startswith(HARMLESS):
        return
    if event == "pickle.find_class":
        if "%s.%s" % arguments[:2] in allowed or (arguments[0] == "torch" and isinstance(getattr(torch, arguments[1], torch.float32), torch.dtype)):
            return
    elif event == "import" and arguments[0] in MODULES:
        return
    elif event.startswith(UNPACKS) and (any(isinstance(a, int) and a > 2 for a in arguments) or "/tmp" in repr(arguments) or SAMPLE in repr(arguments)):
        return
    heard.append("%s%s" % (event, repr(arguments)[:200]))
    raise RuntimeError("refused: " + event)


def things():
    """Modules and classes that nothing may change, by what is in them."""
    found = [m for n, m in sorted(sys.modules.items()) if n in MODULES or n in ("os", "posix", "sys", "copyreg", "functools", "types", "torch.nn", "torch.functional")]
    classes = [torch.Tensor, torch.nn.Parameter, collections.OrderedDict, collections.Counter, collections.defaultdict, collections.deque, pickle._Unpickler, torch.FloatStorage]
    return {str(getattr(x, "__name__", x)): {k: id(v) for k, v in vars(x).items() if k not in ("__warningregistry__", "__builtins__", "_")} for x in found + classes}


def load_members(data):
    """As who opens archives with Python, and loads what is in them."""
    try:
        archive = zipfile.ZipFile(io.BytesIO(data))
    except Exception:
        return
    for info in archive.infolist():
        if info.filename.lower().endswith(LIST_OF_MODULES):
            continue
        try:
            member = archive.read(info)
            if info.filename == "__main__.py":
                heard.append("python FILE runs %s" % info.filename)
            for encoding in encodings(member):
                made.append(pickle.loads(member, **encoding))
        except Exception:
            pass


def load_program(_):
    """As `python FILE` finds what to run."""
    zipimport._zip_directory_cache.clear()
    archive = zipimport.zipimporter(SAMPLE)
    found = archive.find_spec("__main__") if hasattr(archive, "find_spec") else archive.find_module("__main__")
    if found:
        heard.append("python FILE runs a program")


def load_package(data):
    """All that is in it, whatever it is called: the importer unpickles what it is asked for."""
    if not hasattr(torch, "package") or b".data/" not in data:
        return
    importer = torch.package.PackageImporter(SAMPLE)
    for name in zipfile.ZipFile(io.BytesIO(data)).namelist():
        folder, _, resource = name.partition("/")[2].rpartition("/")
        if name.lower().endswith(LIST_OF_MODULES):
            continue
        try:
            made.append(importer.load_pickle(folder.replace("/", "."), resource))
        except Exception:
            pass


def load_compiled(data):
    """AOTInductor says that it finds nothing to compile, or has begun."""
    if MAYBE_COMPILED not in data or "torch._inductor.package" not in sys.modules:
        return
    try:
        torch._inductor.aoti_load_package(SAMPLE)
    except Exception as error:
        if not str(error).startswith(NOTHING_COMPILED) and "refused: " not in str(error):
            heard.append("aoti_load_package: %s" % str(error)[:200])


def encodings(data):
    """Options of loads: none, and where there may be texts of Python 2 one of those that say what these are."""
    return ({}, ENCODINGS[zlib.crc32(data) % len(ENCODINGS)]) if OF_PYTHON2.search(data) else ({},)


def load(kind, data):
    if kind in ("container", "row"):
        attempts = (load_members, load_bare, load_file, load_program, load_package, load_compiled) + ((load_items,) if kind == "row" else ())
    else:
        attempts = ({"archive": load_file, "stream": load_stream, "bare": load_bare}[kind],)
    for attempt in attempts:
        try:
            attempt(data)
        except Exception:  # that it does not load is no matter
            pass


# Sparse tensors that torch looks at when a load is done; the next one does, if this one broke off, as one may of a newer torch's honest file.
LEFT_BY_BROKEN_LOADS = getattr(torch._utils, "_sparse_tensors_to_validate", [])


def load_with_torch(file, data, **options):
    found = []
    for safely in ({"weights_only": False}, {"weights_only": True}) if "weights_only" in torch.load.__code__.co_varnames else ({},):
        for encoding in encodings(data):
            try:
                made.append(torch.load(file(), map_location="cpu", **encoding, **options, **safely))
                found += [] if encoding else [seen(made[-1])]
            except Exception:
                LEFT_BY_BROKEN_LOADS.clear()
    compare(found)


def load_stream(data):
    load_with_torch(lambda: io.BytesIO(data), data)


def load_file(data):
    """Tars of torch 0.1 are only looked for in a file, and only files are mapped."""
    mapped = {"mmap": True} if "mmap" in torch.load.__code__.co_varnames and len(data) % 2 == 0 else {}
    load_with_torch(lambda: SAMPLE, data, **mapped)


def items(data):
    """Of archives one behind the other, zeros between them or not, as zipfile finds where each begins: the last first."""
    while data:
        at = data.rfind(b"PK\5\6")
        nbytes, off = struct.unpack_from("<II", data, at + 12) if 0 <= at <= len(data) - 22 else (0, 1 << 40)
        if data[at - 20 : at - 16] == b"PK\6\7":
            nbytes, off = struct.unpack_from("<QQ", data, at - 36)
            nbytes += 76
        start = at - nbytes - off
        if start < 0 or data[at + 22 :].strip(b"\0"):
            return
        yield data[start : at + 22]
        data = data[:start]


def load_items(data):
    """Each as who goes by an index."""
    for item in items(data):
        load_stream(item)


class Keys(pickle._Unpickler):
    """CPython's, that hears of keys and items of sets which were there before: who reads the opcodes sees more of them than who loads."""

    dispatch = dict(pickle._Unpickler.dispatch)

    def __init__(self, stream, **options):
        super().__init__(stream, **options)
        self.compared = options.get("encoding") not in OTHER_KEYS

    def put(self, opcode, target, before, count):
        pickle._Unpickler.dispatch[opcode](self)
        target = self.stack[-1] if target is None else target
        if self.compared and isinstance(target, (dict, set, frozenset)) and len(target) != before + count:
            heard.append("%d keys or items, of which %d are left" % (before + count, len(target)))

    def put_one(self):
        target = self.stack[-3]
        self.put(pickle.SETITEM[0], target, size(target), 1)

    def put_all(self, opcode, each):
        target = self.metastack[-1][-1]
        self.put(opcode, target, size(target), len(self.stack) // each)

    def make(self, opcode, each):
        self.put(opcode, None, 0, len(self.stack) // each)

    dispatch[pickle.SETITEM[0]] = put_one
    dispatch[pickle.SETITEMS[0]] = lambda self: self.put_all(pickle.SETITEMS[0], 2)
    dispatch[pickle.ADDITEMS[0]] = lambda self: self.put_all(pickle.ADDITEMS[0], 1)
    dispatch[pickle.DICT[0]] = lambda self: self.make(pickle.DICT[0], 2)
    dispatch[pickle.FROZENSET[0]] = lambda self: self.make(pickle.FROZENSET[0], 1)


def size(target):
    return len(target) if isinstance(target, (dict, set)) else 0


def load_bare(data):
    found = []
    for unpickler in (pickle.Unpickler, Keys):
        for encoding in encodings(data):
            try:
                made.append(unpickler(io.BytesIO(data), **encoding).load())
                found += [] if encoding else [seen(made[-1])]
            except Exception as error:
                found += [] if encoding else ["nothing\0" + repr(error)]
    compare(found)


def compare(found):
    """Two loads of one file see the same."""
    for other in found[1:]:
        if other != found[0] and not other.startswith("nothing\0") & found[0].startswith("nothing\0"):
            heard.append("two loads differ: %r / %r" % (found[0][:300], other[:300]))


def seen(value, deep=0):
    """A text of what is in VALUE, which has no addresses."""
    if deep > 12:
        return "..."
    if type(value).__name__ == "StorageType" or (isinstance(value, type) and value.__name__.endswith("Storage")):
        return "a class of storages"  # weights_only=True has an object in its place
    if isinstance(value, (dict, collections.OrderedDict)):
        inside = ",".join(seen(k, deep + 1) + ":" + seen(v, deep + 1) for k, v in value.items())
    elif isinstance(value, (list, tuple, collections.deque)):
        inside = ",".join(seen(v, deep + 1) for v in value)
    elif isinstance(value, (set, frozenset)):
        inside = ",".join(sorted(seen(v, deep + 1) for v in value))
    elif isinstance(value, BaseException):
        inside = seen(value.args, deep + 1)
    elif isinstance(value, torch.Tensor):
        inside = "%s %s %s %s" % (value.dtype, value.shape, value.requires_grad, zlib.crc32(numbers(value)))
    elif isinstance(value, torch.Generator):
        inside = str(zlib.crc32(numbers(value)))
    elif numpy and isinstance(value, (numpy.ndarray, numpy.generic)):
        inside = "%s %s %s" % (value.dtype, value.shape, zlib.crc32(numbers(value)))
    else:
        inside = ADDRESS.sub("", repr(value)[:1000])
    more = getattr(value, "__dict__", None)
    return "%s(%s%s)" % (type(value).__name__, inside, " " + seen(more, deep + 1) if isinstance(more, dict) and more else "")


def tensors_in(value, found, deep=0):
    """All that are in VALUE, up to some depth."""
    if isinstance(value, (torch.Tensor, torch.Generator)) or (numpy and isinstance(value, (numpy.ndarray, numpy.generic, numpy.dtype))):
        found.append(value)
    elif deep < 8 and len(found) < 100:
        if isinstance(value, dict):
            value = [*value.values(), *value]
        elif isinstance(value, BaseException):
            value = value.args
        for item in value if isinstance(value, (list, tuple, set, frozenset, collections.deque)) else ():
            tensors_in(item, found, deep + 1)
    return found


def computed(sparse):
    """What torch makes of the numbers of a sparse tensor, which may be of more than it has."""
    for way in (lambda t: t.to_dense(), lambda t: t.sum(0, keepdim=True).to_dense(), lambda t: t.sum().to_dense()) if small(sparse) else ():
        try:
            yield numbers(way(sparse))
        except (RuntimeError, TypeError, NotImplementedError, ValueError, AttributeError, IndexError):
            pass


def numbers(value):
    """The bytes of its numbers, or what it is if it has none to show."""
    if isinstance(value, torch.Generator):
        return bytes(value.get_state().tolist()) if value.device.type == "cpu" else b""
    if numpy and isinstance(value, numpy.dtype):
        return b""
    if not isinstance(value, torch.Tensor) and getattr(value.dtype, "names", None):  # what is between fields numpy does not copy
        return b"".join(numbers(value[name]) for name in value.dtype.names)
    if not isinstance(value, torch.Tensor):
        return value.tobytes() if value.nbytes <= MOST_NUMBERS and value.dtype.kind != "O" else b""
    try:
        if value.layout is not torch.strided:
            value = value.coalesce() if value.layout is torch.sparse_coo else value
            parts = (value._indices(), value._values()) if value.layout is torch.sparse_coo else (value.values(),)
            return b"".join(numbers(part) for part in parts) + b"".join(computed(value))
        if not small(value):
            return b""
        return repr((value.int_repr().tolist(), value.dequantize().tolist()) if value.is_quantized else value.detach().tolist()).encode()
    except (RuntimeError, TypeError, NotImplementedError, ValueError, AttributeError):
        return b""


def alone(part):
    """Its numbers, one behind the other in a storage of their own."""
    part = part.detach()
    for resolve in ("resolve_conj", "resolve_neg"):
        part = getattr(part, resolve)() if hasattr(part, resolve) else part
    return part.clone(memory_format=torch.contiguous_format)


def equal(tensor):
    """A tensor with the same numbers, made by torch of parts that lie one behind the other; or None, where it has no such function."""
    if tensor.layout is torch.sparse_coo:
        same = torch.sparse_coo_tensor(alone(tensor._indices()), alone(tensor._values()), tensor.shape)
        return same._coalesced_(tensor.is_coalesced())
    if tensor.layout in IN_ROWS:
        return torch.sparse_compressed_tensor(alone(IN_ROWS[tensor.layout][0](tensor)), alone(IN_ROWS[tensor.layout][1](tensor)), alone(tensor.values()), tensor.shape, layout=tensor.layout)
    if getattr(tensor, "is_nested", False):
        return torch.nested.nested_tensor([alone(part) for part in tensor.unbind()])
    if tensor.layout is not torch.strided:
        return None
    if not tensor.is_quantized:
        return alone(tensor)
    if tensor.dtype not in (torch.qint8, torch.quint8, torch.qint32):  # several numbers in a byte
        return None
    if tensor.qscheme() is torch.per_tensor_affine:
        return torch._make_per_tensor_quantized_tensor(alone(tensor.int_repr()), tensor.q_scale(), tensor.q_zero_point())
    return torch._make_per_channel_quantized_tensor(alone(tensor.int_repr()), alone(tensor.q_per_channel_scales()), alone(tensor.q_per_channel_zero_points()), tensor.q_per_channel_axis())


def compare_with_equal(tensor):
    """What torch computes of TENSOR it computes of an equal one, too: else it goes by what the file says of the parts, and not by the numbers."""
    try:
        same = equal(tensor)
    except (RuntimeError, TypeError, NotImplementedError, ValueError, AttributeError):
        return
    for number, use in enumerate(USES if same is not None else ()):
        try:
            one, other = use(tensor.detach()), use(same)
        except (RuntimeError, TypeError, NotImplementedError, ValueError, AttributeError, IndexError):
            continue
        if (one.shape, one.dtype, one.layout) != (other.shape, other.dtype, other.layout) or (numbers(one) != numbers(other) and not close(one, other)):
            heard.append("use %d of a tensor of layout %s gives other numbers than of an equal tensor: %s, %s" % (number, tensor.layout, numbers(one)[:200], numbers(other)[:200]))


def close(one, other):
    """Sums in another order may differ a little. What torch cannot compare differs in nothing that is known."""
    try:
        one, other = (t.dequantize() if t.is_quantized else t.to_dense() if t.layout is not torch.strided else t for t in (one, other))
        wide = torch.complex128 if one.is_complex() else torch.float64
        return torch.allclose(one.to(wide), other.to(wide), rtol=1e-2, equal_nan=True)
    except (RuntimeError, TypeError, NotImplementedError):
        return True


IN_ROWS = {getattr(torch, "sparse_" + name): parts for name, parts in (
    ("csr", (lambda t: t.crow_indices(), lambda t: t.col_indices())), ("bsr", (lambda t: t.crow_indices(), lambda t: t.col_indices())),
    ("csc", (lambda t: t.ccol_indices(), lambda t: t.row_indices())), ("bsc", (lambda t: t.ccol_indices(), lambda t: t.row_indices()))) if hasattr(torch, "sparse_" + name)}
# Each gives a tensor, of its numbers alone. Not select(-1, ...) of one entry, and not a dense tensor and one in rows: there torch ends by tensors of its own.
USES = (
    lambda t: t.to_dense(), lambda t: t.sum(), lambda t: t.sum(0), lambda t: t.sum(-1), lambda t: t.to(torch.float64), lambda t: t + t, lambda t: t * 2, lambda t: t.abs(), lambda t: t.to_sparse(), lambda t: t.to_sparse_csr(), lambda t: t.coalesce(),
    lambda t: t.dequantize(), lambda t: t.t(), lambda t: t.transpose(0, -1).to_dense(), lambda t: t[0], lambda t: t.narrow(0, 0, 1).to_dense(), lambda t: t.reshape(-1), lambda t: t @ t.t(), lambda t: t @ torch.ones(t.shape[-1], dtype=t.dtype),
    lambda t: torch.cat([t, t]), lambda t: t.clone(), lambda t: t.unsqueeze(0).to_dense(), lambda t: t.index_select(0, torch.tensor([0])), lambda t: (t - t).to_dense(), lambda t: copy.deepcopy(t), lambda t: pickle.loads(pickle.dumps(t)),
    lambda t: torch.nn.functional.relu(t), lambda t: torch.sqrt(t * t), lambda t: t.int_repr(), lambda t: t.max(),
)
WAYS = (
    copy.deepcopy, lambda t: t.clone(), lambda t: t.detach(), lambda t: t.sum(), lambda t: t.sum(0, keepdim=True), lambda t: t.to(torch.float64), lambda t: t.contiguous(), lambda t: t + t, lambda t: t == t, lambda t: t.numpy(), lambda t: t.to_dense(), lambda t: t.to_sparse(), lambda t: t.to_sparse_csr(), lambda t: t @ t.t(),
    lambda t: t.coalesce(), lambda t: t.dequantize(), lambda t: t.t(), lambda t: t[0], lambda t: list(t.unbind()), lambda t: t.reshape(-1), lambda t: t.storage().tolist(), lambda t: torch.save(t, io.BytesIO()),
    lambda t: pickle.dumps(t), lambda t: torch.ones(2).to(t.device) if t.layout is torch.strided else None,
)
WAYS_OF_NUMPY = (
    lambda a: a.tolist(), lambda a: a.copy(), lambda a: a.byteswap(), lambda a: a.astype(a.dtype.newbyteorder()), lambda a: repr(a.view(a.dtype.newbyteorder())), lambda a: a.astype("f8"), lambda a: a.astype("O"),
    lambda a: a == a, lambda a: a + a, lambda a: a.sum(), lambda a: numpy.sort(a, axis=None), lambda a: a[0], lambda a: a.flatten(), lambda a: [a[name] for name in a.dtype.names], lambda a: torch.as_tensor(a).sum(), lambda a: pickle.dumps(a), copy.deepcopy,
    lambda a: numpy.save(io.BytesIO(), a), lambda a: numpy.unique(a), lambda a: a.real,
)
WAYS_OF_DTYPE = (
    lambda d: numpy.zeros(2, d).tolist(), lambda d: repr(numpy.zeros(2, d)), lambda d: d.newbyteorder(), lambda d: d == numpy.dtype("f8"), lambda d: numpy.array([1, 2]).astype(d), lambda d: numpy.promote_types(d, "f8"), lambda d: numpy.promote_types(d, d.newbyteorder()),
    lambda d: pickle.dumps(d), lambda d: d.descr, lambda d: numpy.datetime_data(d), lambda d: numpy.frombuffer(bytes(d.itemsize * 2), d).tolist(), copy.deepcopy, lambda d: numpy.array([1.5]).astype(d),
)
WAYS_OF_DATES = (lambda d: numpy.array([5], "m8[s]").astype(d), lambda d: numpy.array(["2020-01-01"], "M8[D]").astype(d))  # not to texts: where these are short, numpy 1.24 writes behind them
WAYS_OF_GENERATOR = (lambda g: torch.rand(3, generator=g), lambda g: torch.randperm(5, generator=g), lambda g: g.set_state(g.get_state()), lambda g: torch.randn(700, generator=g), lambda g: g.manual_seed(3))


def ways_of(value):
    """Of a tensor, array, number, dtype or generator: what is done with it, where that takes little."""
    if isinstance(value, torch.Generator):
        return WAYS_OF_GENERATOR
    if isinstance(value, torch.Tensor):
        return WAYS if small(value) else ()
    if isinstance(value, numpy.dtype):
        return (WAYS_OF_DTYPE if value.itemsize <= MOST_NUMBERS else ()) + (WAYS_OF_DATES if value.kind in "mM" else ())
    return (WAYS_OF_NUMPY if value.nbytes <= MOST_NUMBERS and small(value) else ()) + ways_of(value.dtype)


def small(tensor):
    """What is made of it takes little: a list of a million empty ones does not."""
    try:
        lists = 1
        for size in tensor.shape:
            lists *= max(size, 1)
        return lists <= MOST_NUMBERS
    except Exception:
        return False


def is_again(tensor, used):
    """Several loads of a file make the same: one with the same numbers, at the same place, was used before."""
    if not isinstance(tensor, torch.Tensor) or tensor.layout is not torch.strided or tensor.is_quantized or tensor.__dict__ or not small(tensor):
        return False
    try:
        place = tensor.data_ptr() % 64
    except RuntimeError:  # it has no numbers of its own
        return False
    key = (type(tensor), tensor.dtype, tensor.shape, tensor.stride(), tensor.storage_offset(), tensor.requires_grad, tensor.device, place, numbers(tensor))
    was_there = key in used
    used.add(key)
    return was_there


def use():
    """What was made is shown, hashed and used: what only looks like data crashes here. The sum of all numbers comes first."""
    global summed
    for value in made:
        for tensor in tensors_in(value, []):
            summed = zlib.crc32(numbers(tensor), summed)
    used = set()
    while made:
        value = made.pop()
        if "unused" in sys.argv:
            continue
        for way in (repr, str, hash):
            try:
                way(value)
            except Exception:
                pass
        for tensor in tensors_in(value, []):
            if is_again(tensor, used):
                continue
            for way in ways_of(tensor):
                try:
                    way(tensor)
                except Exception:
                    pass
            if isinstance(tensor, torch.Tensor) and small(tensor):
                compare_with_equal(tensor)


def warm_up():
    """What torch imports late is imported now: by files of its own, for of a sample nobody knows what it does."""
    tensor = torch.ones(2)
    values = [tensor, torch.nn.Parameter(tensor), tensor.to_sparse(), torch.quantize_per_tensor(tensor, 1.0, 0, torch.qint8), torch.Size([1]), torch.device("cpu"), tensor.storage()]
    values += [numpy.ones(2), numpy.float32(1)] if numpy else []
    for value in values:
        for as_zip in (True, False):
            stream = io.BytesIO()
            try:
                torch.save(value, stream, _use_new_zipfile_serialization=as_zip)
                load("container" if as_zip else "stream", stream.getvalue())
                load("stream", stream.getvalue())
                pickle._loads(pickle.dumps(value))
            except Exception:
                pass


def warm_up_compiled():
    """The packages of AOTInductor take seconds to import, and bring much with them."""
    try:
        importlib.import_module("torch._inductor.package")
    except ImportError:
        return
    with zipfile.ZipFile(SAMPLE, "w") as archive:
        archive.writestr("m/version", b"3\n")
    load_compiled(MAYBE_COMPILED)


def guarded(kind, data):
    global listening
    heard.clear()
    if kind in ("container", "archive", "row"):
        with open(SAMPLE, "wb") as sample:
            sample.write(data)
    listening = True
    try:
        load(kind, data)
    except BaseException as error:
        heard.append("raises " + type(error).__name__)
    finally:
        listening = False
    try:
        use()
    except BaseException as error:
        heard.append("raises %s when it is used" % type(error).__name__)
    return list(heard)


def read_all(stream):
    samples = []
    while True:
        line = stream.readline()
        if not line:
            return samples
        kind, length = line.decode().split()
        samples.append((kind, stream.read(int(length))))


def main():
    samples = read_all(sys.stdin.buffer)
    with open(sys.argv[1], encoding="utf-8") as names:
        allowed.update(names.read().split())
    torch.set_num_threads(1)
    sys.addaudithook(hook)
    sys.setrecursionlimit(5000)
    warm_up()
    if any(MAYBE_COMPILED in data for _, data in samples):
        warm_up_compiled()
    gc.collect()
    before, most = things(), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    for number, (kind, data) in enumerate(samples):
        print("at", number, flush=True)
        signal.alarm(MOST_SECONDS)
        for what in guarded(kind, data):
            print("more", number, what, flush=True)
    signal.alarm(0)
    after = things()
    for name in before:
        if before[name] != after.get(name):
            changed = sorted(k for k in set(before[name]) | set(after.get(name, {})) if before[name].get(k) != after.get(name, {}).get(k))
            print("changed", name, changed[:10], flush=True)
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - most
    if grown > GROWTH:
        print("grown", grown, flush=True)
    print("numbers %08x" % summed, flush=True)
    print("done", len(samples), flush=True)
    if os.path.exists(SAMPLE):
        os.unlink(SAMPLE)
    os._exit(0)


main()

# SPDX-License-Identifier: Apache-2.0
"""In a real torch. `make FOLDER`: archives of every kind that this torch writes, and beside each, as NAME.wanted, what torch
itself reads out of it, saved, and as saved/NAME.found, where torch says what it would save. `check FOLDER`: is NAME.found, which ckpt made of it, the same? Values, order, types of containers,
strides, and which tensors share memory.

Prints `made NAME` or `same NAME`; what differs as `FAIL NAME: ...`.
"""
import glob
import os
import sys
import warnings
from collections import OrderedDict

import torch
from torch import nn

warnings.filterwarnings("ignore")
VERSION = tuple(int(n) for n in torch.__version__.split(".")[:2])


# ---- torch.package ----

EXTERN = ["torch.**", "collections", "math", "numpy.**"]


def package_of_values(path):
    base = torch.arange(12.).reshape(3, 4)
    with torch.package.PackageExporter(path) as e:
        e.extern(EXTERN)
        e.save_source_string("mine.helpers", "def f(x):\n    return x + 1\n")
        e.save_text("texts", "readme.txt", "not a pickle.")
        e.save_binary("texts", "nearly", b"\x80\x03 looks like one, but has no end")
        e.save_pickle("models", "views.pkl", {"base": base, "row": base[1], "turned": base.t(), "n": 3, "text": "x"})
        e.save_pickle("models", "again.pkl", OrderedDict(base=base, empty=torch.empty(0), scalar=torch.tensor(2.5)))
        e.save_pickle("models.inner", "alone", torch.ones(3, dtype=torch.float16))
        e.save_pickle("all", "dtypes.pkl", [torch.zeros(2, dtype=d) for d in (
            torch.int8, torch.uint8, torch.int16, torch.int32, torch.int64, torch.bool, torch.bfloat16, torch.float64,
            torch.complex64, torch.complex128)])


def package_of_modules(path):
    torch.manual_seed(1)
    net = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Sequential(nn.Linear(4, 2)))
    with torch.package.PackageExporter(path) as e:
        e.extern(EXTERN)
        e.save_pickle("nets", "net.pkl", net)
        e.save_pickle("nets", "state.pkl", net.state_dict())


def package_of_protocol_4(path):
    with torch.package.PackageExporter(path) as e:
        e.extern(EXTERN)
        e.save_pickle("models", "m.pkl", {"a": torch.ones(2, 2), "b": torch.zeros(3)}, pickle_protocol=4)


def read_package(path):
    """{path of a pickle: what torch reads}"""
    importer, found = torch.package.PackageImporter(path), OrderedDict()
    for name in importer.zip_reader.get_all_records():
        package, _, resource = name.rpartition("/")
        if name.startswith(".data/") or name.endswith((".py", ".txt")) or name in ("byteorder", "texts/nearly"):
            continue
        found[name] = importer.load_pickle(package.replace("/", "."), resource)
    return dict(found)


# ---- torch.export ----


class Program(nn.Module):
    """A parameter that is tied, one that is frozen, buffers that are views and that are not saved, constants."""

    def __init__(self):
        super().__init__()
        self.first = nn.Linear(3, 4)
        self.second = nn.Linear(3, 4, bias=False)
        self.second.weight = self.first.weight
        self.frozen = nn.Parameter(torch.randn(4), requires_grad=False)
        base = torch.arange(24.)
        self.register_buffer("turned", base[2:14].reshape(3, 4).t())
        self.register_buffer("row", base[20:24])
        self.register_buffer("scalar", torch.tensor(2.5))
        self.register_buffer("small", torch.ones(2, 2, dtype=torch.bfloat16), persistent=True)
        self.register_buffer("unsaved", torch.ones(4), persistent=False)
        self.constant = torch.full((4,), 7.)

    def forward(self, x):
        x = self.first(x) + self.second(x) + self.frozen + self.scalar + self.small.sum()
        return x @ self.turned + (self.row + self.unsaved + self.constant).sum()


class Dtypes(nn.Module):
    def __init__(self):
        super().__init__()
        for name in DTYPES:
            self.register_buffer("of_" + name, torch.arange(6).to(getattr(torch, name)))

    def forward(self, x):
        return x + 1


DTYPES = ["float64", "float16", "int8", "uint8", "int16", "int32", "int64", "bool", "complex64", "complex128",
          "float8_e4m3fn", "float8_e5m2", "uint16", "uint32", "uint64"]


def program_of(module, *shape):
    torch.manual_seed(2)
    return torch.export.export(module(), (torch.ones(*shape),))


def export(path):
    torch.export.save(program_of(Program, 2, 3), path, extra_files={"notes.txt": "hello"})


def export_dtypes(path):
    torch.export.save(program_of(Dtypes, 2), path)


class Names(nn.Module):
    """Names of all kinds: keys of dicts, of modules and of arguments, a graph in the graph, conditions on sizes."""

    def __init__(self):
        super().__init__()
        self.by_name = nn.ModuleDict({"my-key": nn.Linear(3, 3), "größe": nn.Linear(3, 3)})

    def forward(self, inputs, *rest, scale=1.0, größe=None):
        x = torch.cat([inputs["in put"], inputs["b/c"]])
        if x.shape[0] > 5:
            x = x[:x.shape[0] // 2]
        x = torch.cond(x.sum() > 0, lambda x: x.sin(), lambda x: x.cos(), (x,))
        for layer in self.by_name.values():
            x = nn.functional.gelu(layer(x), approximate="tanh") * scale
        return {"out (all of it)": x, "a:b": rest[0] + größe}


def export_names(path):
    auto = {0: torch.export.Dim.AUTO}
    program = torch.export.export(Names(), ({"in put": torch.randn(4, 3), "b/c": torch.randn(5, 3)}, torch.ones(2)), {"scale": 2.0, "größe": torch.ones(2)},
                                  dynamic_shapes={"inputs": {"in put": auto, "b/c": auto}, "rest": (None,), "scale": None, "größe": None})
    torch.export.save(program, path)


def export_two(path):
    from torch.export.pt2_archive._package import package_pt2
    package_pt2(path, exported_programs={"a": program_of(Program, 2, 3), "b": program_of(Dtypes, 2)})


def read_second(path):
    from torch.export.pt2_archive._package import load_pt2
    program = load_pt2(path).exported_programs["b"]
    return OrderedDict((k, v.detach()) for k, v in program.state_dict.items())


def read_export(path):
    return OrderedDict((k, v.detach()) for k, v in torch.export.load(path).state_dict.items())


# ---- mobile models ----


class Mobile(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(3, 4)
        self.again = self.first
        self.inner = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4))
        self.number, self.text, self.flags = 5, "some text", [True, False]
        self.numbers, self.reals, self.pair = [1, 2, -3], [0.5, 2.0], (1, "x")
        self.table = {"a": torch.ones(2), "b": torch.zeros(3)}
        self.plain = torch.ones(2, dtype=torch.float16)
        self.register_buffer("turned", torch.arange(20.)[3:9].reshape(2, 3).t())
        self.register_buffer("scalar", torch.tensor(7))
        self.register_buffer("empty", torch.empty(0, 3))
        self.register_buffer("by_tensor", torch.quantize_per_tensor(torch.arange(6.).reshape(2, 3), 0.5, 3, torch.qint8))
        self.register_buffer("by_channel", torch.quantize_per_channel(
            torch.arange(6.).reshape(2, 3), torch.tensor([0.5, 0.25]), torch.tensor([1, 2]), 0, torch.quint8))

    def forward(self, x):
        return self.inner(self.first(x)) + self.number + torch.tensor([1., 2., 3., 4.])


def mobile(path):
    torch.manual_seed(3)
    script = torch.jit.script(Mobile().eval())
    torch.jit.save_jit_module_to_flatbuffer(script, path, _extra_files={"notes.txt": "hello"})


def mobile_lite(path):
    torch.manual_seed(3)
    torch.jit.script(Mobile().eval())._save_for_lite_interpreter(path, _use_flatbuffer=True)


KEPT = []  # the memory of the tensors is that of the module


def read_mobile(path):
    KEPT.append(torch.jit.jit_module_from_flatbuffer(path))
    return OrderedDict((k, v.detach()) for k, v in KEPT[-1].state_dict().items())


# ---- what is compared ----

def shape_of(value, tensors):
    """A value without its tensors, which are added to TENSORS."""
    if isinstance(value, torch.Tensor):
        tensors.append(value.detach())
        return ("tensor", type(value).__name__, value.requires_grad)
    if isinstance(value, nn.Module):
        return (type(value).__name__, shape_of(value.state_dict(), tensors))
    if isinstance(value, dict):
        return (type(value).__name__, [(k, shape_of(v, tensors)) for k, v in value.items()])
    if isinstance(value, (list, tuple)):
        return (type(value).__name__, [shape_of(v, tensors) for v in value])
    return repr(value)


def storage_of(tensor):
    storage = tensor.untyped_storage() if hasattr(tensor, "untyped_storage") else tensor.storage()
    return storage.data_ptr()


def sharing(tensors):
    """For each tensor the number of the first one that is in the same memory, and where in it."""
    first = {}
    return [(first.setdefault(storage_of(t), i) if t.numel() else i, t.storage_offset(), t.stride())
            for i, t in enumerate(tensors)]


def bytes_of(tensor):
    """Of dtypes that numpy does not have, too."""
    if tensor.is_quantized:
        tensor = tensor.int_repr()
    storage = getattr(tensor.clone(memory_format=torch.contiguous_format), "untyped_storage", None)
    return bytes(storage()) if storage else tensor.contiguous().reshape(-1).tolist()


def difference(wanted, found):
    wanted_tensors, found_tensors = [], []
    if shape_of(wanted, wanted_tensors) != shape_of(found, found_tensors):
        return "%.300s is not %.300s" % (shape_of(found, []), shape_of(wanted, []))
    for i, (a, b) in enumerate(zip(wanted_tensors, found_tensors)):
        if a.dtype != b.dtype or a.shape != b.shape or str(a.device) != str(b.device):
            return "tensor %d is %s %s, wanted %s %s" % (i, b.dtype, b.shape, a.dtype, a.shape)
        if a.is_quantized and a.dequantize().tolist() != b.dequantize().tolist():
            return "tensor %d is quantised in another way" % i
        if bytes_of(a) != bytes_of(b):
            return "tensor %d has other numbers" % i
    if sharing(wanted_tensors) != sharing(found_tensors):
        return "sharing %s, wanted %s" % (sharing(found_tensors), sharing(wanted_tensors))
    return None


def load(path):
    return torch.load(path, **({"weights_only": False} if VERSION >= (1, 13) else {}))


# ---- the two halves ----

def archives():
    """(name, maker, reader)"""
    if VERSION < (1, 13):
        return  # older ones have no torch.package, or another form of it
    yield "values.package.pt", package_of_values, read_package
    yield "modules.package.pt", package_of_modules, read_package
    if VERSION >= (2, 0):
        yield "protocol_4.package.pt", package_of_protocol_4, read_package
    if VERSION >= (2, 2):
        yield "program.pt2", export, read_export
        yield "dtypes.pt2", export_dtypes, read_export
    if VERSION >= (1, 13):
        yield "model.ff", mobile, read_mobile
        yield "model.ptl", mobile_lite, read_mobile
    if VERSION >= (2, 6):
        yield "names.pt2", export_names, read_export
    if VERSION >= (2, 8):
        yield "two.pt2", export_two, read_second


def make(folder):
    os.makedirs(folder, exist_ok=True)
    for name, maker, reader in archives():
        path = os.path.join(folder, name)
        maker(path)
        wanted = reader(path)
        torch.save(wanted, path + ".wanted")
        if reader is not read_package:
            os.makedirs(os.path.join(folder, "saved"), exist_ok=True)
            torch.save(wanted, os.path.join(folder, "saved", name + ".found"))
        print("made", name)


def check(folder):
    for name, _, reader in archives():
        path = os.path.join(folder, name)
        parts = (load(path + ".wanted"), load(path + ".found"))
        # torch reads each pickle of a package on its own
        if reader is read_package:
            wrong = None if list(parts[0]) == list(parts[1]) else "pickles %s" % list(parts[1])
            for key in parts[0]:
                wrong = wrong or difference(parts[0][key], parts[1][key])
        else:
            wrong = difference(*parts)
        print("FAIL %s: %s" % (name, wrong) if wrong else "same %s" % name)


if __name__ == "__main__":
    print("torch", torch.__version__)
    {"make": make, "check": check}[sys.argv[1]](sys.argv[2])
    assert VERSION < (1, 13) or glob.glob(os.path.join(sys.argv[2], "*"))

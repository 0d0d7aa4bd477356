# SPDX-License-Identifier: Apache-2.0
"""Objects that weights_only refuses, and what should become of them. sanitize_files.py make | check

make: in/NAME.pt. check: loads out/NAME.pt with weights_only=True and compares; prints what is wrong.
"""

import argparse
import collections
import dataclasses
import datetime
import decimal
import fractions
import os
import pathlib
import sys
import types
import warnings

warnings.simplefilter("ignore")

import numpy as np  # noqa: E402
import torch  # noqa: E402


@dataclasses.dataclass
class Config:
    lr: float = 0.1
    layers: tuple = (1, 2)
    nested: object = None


class Slots:
    __slots__ = ("a", "b")


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = torch.nn.Conv2d(1, 2, 3, bias=False)
        self.body = torch.nn.Sequential(torch.nn.Linear(3, 2), torch.nn.BatchNorm1d(2), torch.nn.ReLU())
        self.register_buffer("kept", torch.ones(2))
        self.register_buffer("unsaved", torch.ones(2), persistent=False)
        self.tied = self.body[0].weight


def stand_in(name):
    """A class of omegaconf 2.4 as far as a pickle shows it."""
    sys.modules.setdefault("omegaconf", types.ModuleType("omegaconf"))
    module = sys.modules.setdefault(name.rpartition(".")[0], types.ModuleType(name.rpartition(".")[0]))
    made = type(name.rpartition(".")[2], (), {"__module__": module.__name__})
    setattr(module, made.__name__, made)
    return made


CONTAINERS = {dict: stand_in("omegaconf.dictconfig.DictConfig"), list: stand_in("omegaconf.listconfig.ListConfig"),
              tuple: stand_in("omegaconf.tupleconfig.TupleConfig")}
NODES = {float: stand_in("omegaconf.nodes.FloatNode"), object: stand_in("omegaconf.nodes.AnyNode")}
METADATA = {kind: stand_in("omegaconf.base." + kind) for kind in ("ContainerMetadata", "Metadata")}


def omegaconf(value, parent=None, key=None):
    """What OmegaConf.create() makes of it: each part knows the whole that it is in."""
    made = CONTAINERS.get(type(value), NODES.get(type(value), NODES[object]))()
    made._metadata = METADATA["ContainerMetadata" if type(value) in CONTAINERS else "Metadata"]()
    made._metadata.__dict__.update(ref_type=type(value), object_type=dict, optional=True, key=key, flags={},
                                   flags_root=False, resolver_cache=collections.defaultdict(dict))
    made._parent = parent
    if isinstance(value, dict):
        made._content = {name: omegaconf(part, made, name) for name, part in value.items()}
    elif isinstance(value, (list, tuple)):
        made._content = [omegaconf(part, made, number) for number, part in enumerate(value)]
    else:
        made._val = value
    return made


def slots():
    made = Slots()
    made.a, made.b = 1, [2]
    return made


torch.manual_seed(0)
NET = Net()
FORTRAN = np.asfortranarray(np.arange(6.).reshape(2, 3))
HYPER = {"a": 1, "b": {"c": [1, 2, {"d": None}], "e": "${a}"}, "lr": 1e-3, "none": {}, "miss": "???", "t": (1, (2,))}
DEFAULT = collections.defaultdict(list, {"x": [1], "y": collections.defaultdict(int)})
NAMESPACE = argparse.Namespace(lr=0.1, model=argparse.Namespace(depth=3, path=pathlib.PurePosixPath("/a/b")))

# name: (object, what it becomes)
CASES = {
    "namespace": (NAMESPACE, {"lr": 0.1, "model": {"depth": 3, "path": "/a/b"}}),
    "simple": (types.SimpleNamespace(a=1, b=types.SimpleNamespace()), {"a": 1, "b": {}}),
    "dataclass": ([Config(), Config(nested=Config(lr=1.0))],
                  [{"lr": 0.1, "layers": (1, 2), "nested": None},
                   {"lr": 0.1, "layers": (1, 2), "nested": {"lr": 1.0, "layers": (1, 2), "nested": None}}]),
    "slots": (slots(), {"a": 1, "b": [2]}),
    "scalars": ([np.float64(1.5), np.float32(0.25), np.float16(2), np.int64(-3), np.int32(-4), np.int8(-5),
                 np.uint8(200), np.uint16(65535), np.uint32(1 << 31), np.bool_(True), np.complex64(1 + 2j)],
                [1.5, 0.25, 2.0, -3, -4, -5, 200, 65535, 1 << 31, True, 1 + 2j]),
    "arrays": ({"a": np.arange(6, dtype=np.float32).reshape(2, 3), "f": FORTRAN, "i": np.array(7), "e": np.ones((0, 2)),
                "b": np.array([True, False]), "c": np.array([1j]), "h": np.array([1.5], np.float16)},
               {"a": torch.arange(6.).reshape(2, 3), "f": torch.from_numpy(FORTRAN), "i": torch.tensor(7),
                "e": torch.ones(0, 2).double(), "b": torch.tensor([True, False]),
                "c": torch.tensor([1j], dtype=torch.complex128), "h": torch.tensor([1.5]).half()}),
    "containers": ([DEFAULT, collections.deque([1, 2]), collections.deque([3], maxlen=4), frozenset([1])],
                   [{"x": [1], "y": {}}, [1, 2], [3], {1}]),
    "library": ([pathlib.PurePosixPath("a/b.c"), pathlib.PurePosixPath("."), datetime.datetime(2024, 2, 29, 1, 2, 3, 4),
                 datetime.datetime(1999, 12, 31, 23, 59), datetime.date(2020, 1, 2), datetime.time(5, 6, 7),
                 decimal.Decimal("1.50"), np.dtype("float32")],
                ["a/b.c", ".", "2024-02-29T01:02:03.000004", "1999-12-31T23:59:00", "2020-01-02", "05:06:07", "1.50",
                 "f4"]),
    "classes": ({"optimizer": torch.optim.Adam, "type": dict, "dtype": torch.float16},
                {"optimizer": "torch.optim.adam.Adam", "type": "__builtin__.dict", "dtype": torch.float16}),
    "module": ({"model": NET, "epoch": np.int64(3)}, {"model": dict(NET.state_dict()), "epoch": 3}),
    "omegaconf": ({"hyper_parameters": omegaconf(HYPER), "lists": [omegaconf([1, [2.5]])] * 2},
                  {"hyper_parameters": HYPER, "lists": [[1, [2.5]]] * 2}),
    "empty": ([argparse.Namespace(), b"", {"k": b""}], [{}, b"", {"k": b""}]),
    "keys": ({np.int64(3): 1, "x": {np.float32(0.5): 2}}, {3: 1, "x": {0.5: 2}}),
    "plain": ({"a": torch.ones(2), "od": collections.OrderedDict(x=1), "s": {1, 2}, "c": 1j, "b": b"abc"},
              {"a": torch.ones(2), "od": collections.OrderedDict(x=1), "s": {1, 2}, "c": 1j, "b": b"abc"}),
}
IMPOSSIBLE = {"huge": 1 << 5000, "frozen_key": {frozenset([1]): 2}, "fraction": fractions.Fraction(1, 2), "objects": np.array([1, "a"], dtype=object),
              "partial": [1, {"f": __import__("functools").partial(print, 1)}]}


def difference(wanted, found, where="root"):
    if isinstance(wanted, torch.Tensor):
        same = type(found) is torch.Tensor and found.dtype == wanted.dtype and torch.equal(found, wanted)
        return "" if same else "%s: %r wanted, %r found" % (where, wanted, found)
    if isinstance(wanted, dict) and isinstance(found, dict):
        if list(wanted) != list(found):
            return "%s: keys %s wanted, %s found" % (where, list(wanted), list(found))
        texts = [difference(wanted[key], found[key], "%s.%s" % (where, key)) for key in wanted]
        return next(filter(None, texts), "")
    if isinstance(wanted, (list, tuple)) and type(found) is type(wanted) and len(found) == len(wanted):
        texts = [difference(*pair, where="%s.%d" % (where, i)) for i, pair in enumerate(zip(wanted, found))]
        return next(filter(None, texts), "")
    return "" if type(wanted) is type(found) and wanted == found else "%s: %r wanted, %r found" % (where, wanted, found)


def main():
    if sys.argv[1] == "make":
        os.makedirs("in", exist_ok=True)
        for protocol in (2, 4):
            for name, (obj, _) in CASES.items():
                torch.save(obj, "in/%s_p%d.pt" % (name, protocol), pickle_protocol=protocol)
            for name, obj in IMPOSSIBLE.items():
                torch.save(obj, "in/%s_p%d.pt" % (name, protocol), pickle_protocol=protocol)
        return
    for name, (_, wanted) in CASES.items():
        for protocol in (2, 4):
            try:
                found = torch.load("out/%s_p%d.pt" % (name, protocol), weights_only=True)
                if protocol == 4 and name == "classes":
                    found["type"] = found["type"].replace("builtins", "__builtin__")
                text = difference(wanted, found)
            except Exception as error:
                text = "%s: %s" % (type(error).__name__, str(error).split("WeightsUnpickler error: ")[-1][:200])
            if text:
                print("FAIL %s, protocol %d: %s" % (name, protocol, text))
    print("done with torch", torch.__version__)


if __name__ == "__main__":
    # as a module that has a name, so that its classes can be found again
    import sanitize_files
    sanitize_files.main()
    sys.stdout.flush()
    os._exit(0)

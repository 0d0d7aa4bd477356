# SPDX-License-Identifier: Apache-2.0
"""Files for the tests of the Python module, written opcode by opcode: no torch, and nothing is unpickled."""

import collections
import ctypes
import os
import struct
import sys

import pytest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(os.path.dirname(HERE), "bad"))
import files as bad_files  # noqa: E402


class Plain:
    """Hooks for the low-level build(): what is not plain becomes a tuple or list that says what it was."""

    calls, in_order = False, True
    size = rebuilt = None

    def tensor(self, index):
        return ("tensor", index)

    def array(self, array, kind):
        return (kind, array.info()["dtype"], array.info()["shape"])

    def storage(self, *args):
        return ("storage",) + args

    def global_(self, module, name):
        return "%s.%s" % (module, name)

    def call(self, function, args, kwargs, is_new):
        return ["call", function, args, kwargs, is_new]

    def fill(self, thing, items, pairs, state, setter):
        thing.append((items, pairs, state, setter))

    def factory(self, function):
        return {"builtins.list": list, "__builtin__.list": list}.get(function)

    def other(self, kind, value):
        return (kind, value)


@pytest.fixture
def hooks():
    return Plain()


@pytest.fixture
def files():
    """tests/bad/files.py: text(), number(), glob(), tensor(), torch_file() ..."""
    return bad_files


@pytest.fixture
def write(tmp_path):
    """write(BODY of a pickle, {key: bytes of a storage}) -> path of a torch.save file"""

    def save(body, storages=None, name="model.pt"):
        records = [("data.pkl", bad_files.pickled(body)), ("byteorder", b"little")]
        records += [("data/%s" % key, data) for key, data in (storages or {}).items()]
        path = tmp_path / name
        path.write_bytes(bad_files.archive(records + [("version", b"3\n")]))
        return str(path)

    return save


@pytest.fixture
def model(write, files):
    """A state dict: `a` of 3 times 4 floats, `b` their first column, `c` its own two."""
    floats = struct.pack("<12f", *range(12))
    body = files.glob("collections", "OrderedDict") + b")R("
    body += files.text("a") + files.tensor("0", numel=12, shape=(3, 4), stride=(4, 1))
    body += files.text("b") + files.tensor("0", numel=12, shape=(3,), stride=(4,))
    body += files.text("c") + files.tensor("1", numel=2, shape=(2,), stride=(1,))
    body += files.text("epoch") + files.number(7) + b"u"
    return write(body, {"0": floats, "1": struct.pack("<2f", 0.5, -1)})


class Floats:
    """Numbers that numpy is not needed for."""

    def __init__(self, *values):
        self.values = (ctypes.c_float * len(values))(*values)
        self.shape = (ctypes.c_int64 * 1)(len(values))

    def __dlpack_device__(self):
        return (1, 0)

    def __dlpack__(self, **_):
        from ckpt._dlpack import _DLTensor

        self.tensor = _DLTensor(ctypes.addressof(self.values), 1, 0, 1, 2, 32, 1, self.shape, None, 0)
        new = ctypes.pythonapi.PyCapsule_New
        new.restype, new.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
        return new(ctypes.addressof(self.tensor), b"dltensor", None)


@pytest.fixture
def trainer(tmp_path):
    """A trainer's file: weights of a wrapped module, an optimizer, numbers."""
    weights = collections.OrderedDict((("module.fc.weight", Floats(1, 2, 3.0001)), ("module.fc.bias", Floats(0.5))))
    weights._metadata = collections.OrderedDict((("", {"version": 1}), ("module", {"version": 1}), ("module.fc", {"version": 1})))
    compiled = {"_orig_mod.w": Floats(1), "_orig_mod.net._orig_mod.b": Floats(2)}
    obj = {"model": weights, "ema": compiled, "epoch": 7, "lr": 0.1, "name": "run", "best": None,
           "optimizer": {"state": {0: {"exp_avg": Floats(1, 2, 3), "step": 3}}, "param_groups": [{"params": [0, 1], "lr": 0.1}]}}
    path = str(tmp_path / "trainer.pt")
    import ckpt

    ckpt.save(obj, path)
    return path


@pytest.fixture
def damaged(trainer):
    import ckpt

    data = bytearray(open(trainer, "rb").read())
    data[ckpt.open(trainer)["model.module.fc.weight"].storage.offset] ^= 1
    path = trainer[:-3] + "-damaged.pt"
    open(path, "wb").write(data)
    return path

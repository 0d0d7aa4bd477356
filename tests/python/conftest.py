# SPDX-License-Identifier: Apache-2.0
"""Files for the tests of the Python module, written opcode by opcode: no torch, and nothing is unpickled."""

import os
import struct
import sys

import pytest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(os.path.dirname(HERE), "bad"))
import files as bad_files  # noqa: E402


class Plain:
    """Hooks for the low-level build(): what is not plain becomes a tuple or list that says what it was."""

    calls = False
    size = None

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

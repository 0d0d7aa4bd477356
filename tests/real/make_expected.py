# SPDX-License-Identifier: Apache-2.0
"""Write expected.json: python3 make_expected.py FOLDER > expected.json

Lists the tensors of every torch zip, TorchScript archive and legacy stream below FOLDER with a reader of its own: zipfile
and an Unpickler that imports nothing and calls nothing of what a file names - every class and function becomes an
inert stub. Files of any other kind are left out, and so are those that are known to be hostile.
"""

import hashlib
import io
import json
import math
import os
import pickle
import sys
import zipfile

HOSTILE = ("malicious", "bypass")
DTYPES = {"Double": "float64", "Float": "float32", "Half": "float16", "BFloat16": "bfloat16",
         "Long": "int64", "Int": "int32", "Short": "int16", "Char": "int8", "Byte": "uint8",
         "Bool": "bool", "QInt8": "qint8", "QUInt8": "quint8", "QInt32": "qint32",
         "ComplexFloat": "complex64", "ComplexDouble": "complex128"}


class Made:
    """What a call in the pickle would have made; remembers the call."""

    def __init__(self, name, arguments):
        self.name, self.arguments, self.items, self.pairs, self.state = name, arguments, [], [], None

    def append(self, value):
        self.items.append(value)

    def extend(self, values):
        self.items.extend(values)

    def __setitem__(self, key, value):
        self.pairs.append((key, value))

    def __setstate__(self, state):
        self.state = state


def stub(module, name):
    """A class without any behaviour: calling it or instantiating it makes a Made."""
    def new(cls, *arguments, **_):
        made = object.__new__(Made)
        Made.__init__(made, module + "." + name, arguments)
        return made
    return type("Stub", (), {"__new__": new, "full": module + "." + name})


class Reader(pickle.Unpickler):
    def __init__(self, data):
        super().__init__(data if hasattr(data, "read") else io.BytesIO(data), encoding="latin-1")
        self.stubs = {}

    def find_class(self, module, name):
        return self.stubs.setdefault((module, name), stub(module, name))

    def persistent_load(self, pid):
        return pid[1] if pid[0] == "module" else Made("storage", pid)


def mapping(value):
    """The items of a dict, or of an OrderedDict; None: it is neither."""
    if isinstance(value, dict):
        return list(value.items())
    return value.pairs if isinstance(value, Made) and value.name == "collections.OrderedDict" else None


def attributes(state):
    """Of an object. What a module's mappings hold goes by the names that its state_dict() has."""
    inside = {key: mapping(state.get(key)) for key in ("_parameters", "_buffers", "_modules")}
    found = []
    for key, value in state.items():
        found += inside[key] if key in inside and None not in inside.values() else [(key, value)]
    return found


def tensors_in(value, name, found, seen):
    """Depth first, in the order of the file: (name, dtype, shape, device)."""
    if isinstance(value, Made):
        short = value.name.rsplit(".", 1)[-1]
        if short in ("_rebuild_parameter", "_rebuild_parameter_with_state"):
            return tensors_in(value.arguments[0], name, found, seen)
        if short in ("_rebuild_tensor_v2", "_rebuild_tensor_v3", "_rebuild_tensor", "_rebuild_qtensor"):
            storage = value.arguments[0].arguments
            kind = storage[1].full.rsplit(".", 1)[-1][:-len("Storage")]
            found.append([name, DTYPES.get(kind, kind), list(value.arguments[2]), storage[3]])
            return
    if isinstance(value, (dict, list, tuple, Made)):
        if id(value) in seen:
            return
        seen.add(id(value))
    if isinstance(value, dict):
        children = list(value.items())
    elif isinstance(value, Made) and value.name == "collections.OrderedDict" and value.arguments:
        children = [tuple(pair) for pair in value.arguments[0]]  # as Python 2 wrote it
    elif isinstance(value, (list, tuple)):
        children = list(enumerate(value))
    elif isinstance(value, Made):
        state = value.state
        children = list(enumerate(value.arguments)) + list(enumerate(value.items)) + value.pairs
        if isinstance(state, tuple) and len(state) == 2 and isinstance(state[1], dict):
            children += list((state[0] or {}).items()) + list(state[1].items())
        elif isinstance(state, dict):
            children += attributes(state)
        elif state is not None:
            children.append(("state", state))
    else:
        return
    for key, child in children:
        tensors_in(child, "%s.%s" % (name, key) if name else str(key), found, seen)


def tally(values):
    return {key: values.count(key) for key in sorted(set(values))}


def digest(rows):
    return hashlib.sha256("\n".join(json.dumps(row) for row in rows).encode()).hexdigest()[:16]


def facts(rows):
    """What expected.json says of a file; run.py makes the same from 'ckpt ls --json'."""
    shapes = [row[2] for row in rows]
    return {"tensors": len(rows), "dtypes": tally([row[1] for row in rows]),
            "devices": tally([row[3] for row in rows]),
            "elements": sum(math.prod(shape) for shape in shapes),
            "names": digest([row[0] for row in rows]), "shapes": digest(shapes), "all": digest(rows)}


def read_legacy(path):
    """The rows of a legacy stream, or None if it is not one."""
    with open(path, "rb") as file:
        if file.read(32).find(bytes.fromhex("8a0a6cfc9c46f920")) < 0:
            return None
        file.seek(0)
        small = [Reader(file).load() for _ in range(3)]
        value, keys = Reader(file).load(), Reader(file).load()
    if small[0] != 0x1950A86A20F9469CFC6C or small[1] != 1001 or not isinstance(keys, list):
        return None
    found = []
    tensors_in(value, "", found, set())
    return found


def read(path):
    """The rows of a torch file, or None if it is not one."""
    if any(word in path for word in HOSTILE):
        return None
    if not zipfile.is_zipfile(path):
        return read_legacy(path)
    with zipfile.ZipFile(path) as archive:
        names = archive.namelist()
        folder = names[0].split("/")[0] if names else ""
        if not names or archive.infolist()[0].header_offset:    # several archives in one file
            return None
        if folder + "/data.pkl" not in names:
            return None
        found = []
        tensors_in(Reader(archive.read(folder + "/data.pkl")).load(), "", found, set())
        if folder + "/constants.pkl" in names:      # TorchScript
            tensors_in(Reader(archive.read(folder + "/constants.pkl")).load(), "constants", found, set())
        return found


def main():
    table = {}
    for folder, _, names in sorted(os.walk(sys.argv[1])):
        for name in sorted(names):
            path = os.path.join(folder, name)
            rows = read(path)
            if rows is not None:
                table[os.path.relpath(path, sys.argv[1])] = facts(rows)
    json.dump(table, sys.stdout, indent=1, sort_keys=True)
    print()


if __name__ == "__main__":
    main()

# SPDX-License-Identifier: Apache-2.0
"""The same objects in files that torch loads, though it would not have written them this way."""

import io
import pickle
import pickletools
import types
import zipfile

import torch

import torch_files

NAMES = (
    "trainer_checkpoint", "ddp_state_dict", "tensor_views", "tied_tensors", "atoms_ints",
    "atoms_strings", "atoms_bytes", "list_1001", "dict_1000", "dict_1001", "ordereddict_1001",
    "numpy_arrays", "objects_with_state", "tuples_in_themselves", "memo_over_256", "shared_parts",
    "quantised_per_channel", "records_25", "tensor_empties", "dtype_all", "storages_typed",
    "complex_views", "conj_of_complex32",
)


def pure_python_pickler():
    """A pickle module whose pickler is the one written in Python."""
    module = types.ModuleType("pure_pickle")
    module.__dict__.update({name: getattr(pickle, name) for name in pickle.__all__})
    module.Pickler, module.Unpickler = pickle._Pickler, pickle._Unpickler
    module.dump, module.dumps = pickle._dump, pickle._dumps
    return module


def read_records(path):
    with zipfile.ZipFile(path) as archive:
        return [(info.filename, archive.read(info)) for info in archive.infolist()]


def write_records(path, records, method=zipfile.ZIP_STORED, folders=False):
    with zipfile.ZipFile(path, "w", method) as archive:
        if folders:
            root = records[0][0].split("/")[0]
            archive.writestr(root + "/", b"")
            archive.writestr(root + "/data/", b"")
        for name, data in records:
            archive.writestr(name, data)


def with_pickle(change):
    """A maker of files in which the pickle was changed, and nothing else."""

    def make(source, target, _obj):
        records = read_records(source)
        write_records(target, [(name, change(data) if name.endswith("/data.pkl") else data)
                               for name, data in records])

    return make


def rezipped(method, folders):
    """A maker of files with the same records, packed by another zip writer, last one first."""

    def make(source, target, _obj):
        records = read_records(source)
        write_records(target, records[:1] + records[:0:-1], method, folders)

    return make


def renumbered(data):
    """Other memo numbers: with gaps, from 1000 on, the text form for every third one."""
    output = io.BytesIO()
    steps = list(pickletools.genops(data))
    ends = [position for _, _, position in steps[1:]] + [len(data)]
    for (opcode, argument, position), end in zip(steps, ends):
        if opcode.name in ("PUT", "BINPUT", "LONG_BINPUT"):
            output.write(memo_operation(b"p", b"r", int(argument)))
        elif opcode.name in ("GET", "BINGET", "LONG_BINGET"):
            output.write(memo_operation(b"g", b"j", int(argument)))
        else:
            output.write(data[position:end])
    return output.getvalue()


def memo_operation(text, binary, number):
    number = 1000 + 7 * number
    if number % 3 == 0:
        return text + b"%d\n" % number
    return binary + number.to_bytes(4, "little")


def save_pure_python(_source, target, obj):
    torch.save(obj, target, pickle_module=pure_python_pickler())


def save_legacy(_source, target, obj):
    torch.save(obj, target, _use_new_zipfile_serialization=False)


def turned_tensor(rebuild):
    """torch leaves storages alone that have no dtype; on the machine that it pretends to be, they are turned, too."""
    done = set()

    def rebuild_turned(*arguments):
        tensor = rebuild(*arguments)
        storage = tensor.untyped_storage()
        width = tensor.dtype.itemsize // (2 if tensor.dtype.is_complex or "complex" in str(tensor.dtype) else 1)
        if storage.data_ptr() not in done:
            done.add(storage.data_ptr())
            numbers = torch.empty(0, dtype=torch.uint8).set_(storage).view(-1, width)
            numbers.copy_(numbers.flip(1))
        return tensor

    return rebuild_turned


def save_big_endian(source, target, _obj):
    """A torch that takes this machine for a big-endian one swaps what it loads, and says so."""
    real, rebuild = torch.serialization.sys, getattr(torch._utils, "_rebuild_tensor_v3", None)  # since 2.1
    torch.serialization.sys = types.SimpleNamespace(**vars(real))
    torch.serialization.sys.byteorder = "big"
    if rebuild:
        torch._utils._rebuild_tensor_v3 = turned_tensor(rebuild)
    try:
        obj = torch_files.load(source)
        if rebuild:
            torch._utils._rebuild_tensor_v3 = rebuild
        torch.save(obj, target)
    finally:
        torch.serialization.sys = real
        if rebuild:
            torch._utils._rebuild_tensor_v3 = rebuild


def save_to_stream(_source, target, obj):
    """The archive's name is `archive` then."""
    with open(target, "wb") as stream:
        torch.save(obj, stream)


VARIANTS = {
    "optimised": with_pickle(pickletools.optimize),
    "renumbered": with_pickle(renumbered),
    "pure_python": save_pure_python,
    "stored": rezipped(zipfile.ZIP_STORED, False),
    "stored_folders": rezipped(zipfile.ZIP_STORED, True),
    "deflated": rezipped(zipfile.ZIP_DEFLATED, False),
    "deflated_folders": rezipped(zipfile.ZIP_DEFLATED, True),
    "legacy": save_legacy,
    "stream": save_to_stream,
    "big_endian": save_big_endian,
}

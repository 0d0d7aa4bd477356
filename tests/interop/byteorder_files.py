# SPDX-License-Identifier: Apache-2.0
"""Files as big-endian machines write them, and what this torch loads of big-endian ones: byteorder_files.py make|load

make: little/NAME.pt, big/NAME.pt (the records turned around by the dtype of their tensors, and labelled) for a tensor of
every dtype and for tensors that hold others. load: FILE..., prints `NAME same` or `NAME other` as what torch loads of
FILE is what it loads of little/NAME.pt.
"""
import os
import re
import sys
import warnings

warnings.simplefilter("ignore")

import torch  # noqa: E402

import odd_files  # noqa: E402
import torch_files  # noqa: E402

WIDTH = {"complex128": 8, "complex64": 4, "complex32": 2, "bcomplex32": 2}


def numbers(name):
    """Eight elements whose bytes count up; of bool only what is one."""
    dtype = getattr(torch, name)
    if name == "bool":
        return torch.tensor([True, False] * 4)
    return torch.arange(8 * dtype.itemsize, dtype=torch.uint8).view(dtype)


def dtypes():
    """Without those that are quantised, made in another way, and those of a few bits, which torch does not save."""
    found = {str(value)[6:] for value in vars(torch).values() if isinstance(value, torch.dtype)}
    return sorted(name for name in found if not re.match("q|u?int[1-7]$", name))


def values():
    """{name: (object, widths of its records in the order of their keys)}"""
    found = {}
    for name in dtypes():
        found[name] = {"t": numbers(name)}, [WIDTH.get(name, getattr(torch, name).itemsize)]
    base = torch.arange(12, dtype=torch.float64)
    found["sparse_coo"] = torch.sparse_coo_tensor([[0, 2]], torch.tensor([1.5, -2.5]), (5,)), [8, 4]
    found["sparse_csr"] = torch.tensor([[0, 1.5], [2.5, 0]]).to_sparse_csr(), [8, 8, 4]
    found["sparse_uint16"] = torch.sparse_coo_tensor(torch.tensor([[0, 2]]), numbers("uint16")[:2].clone(), (5,)), [8, 2]
    found["quantised"] = torch.quantize_per_tensor(torch.tensor([1., 2.]), .1, 3, torch.qint32), [4]
    found["per_channel"] = torch.quantize_per_channel(torch.tensor([[1., 2.]]), torch.tensor([.1], dtype=torch.float64),
                                                      torch.tensor([3]), 0, torch.qint8), [1, 8, 8]
    found["views"] = [base, base[2:4], base.view(3, 4).t()], [8]
    found["uint64_views"] = [numbers("uint64"), numbers("uint64")[::2]], [8, 8]
    found["parameter"] = torch.nn.Parameter(torch.tensor([1.5, 2.5], dtype=torch.bfloat16)), [2]
    found["storage"] = torch.arange(3, dtype=torch.int32).storage(), [4]
    return found


def turned(data, width):
    assert len(data) % width == 0
    return b"".join(data[i:i + width][::-1] for i in range(0, len(data), width))


def make():
    os.makedirs("little")
    os.makedirs("big")
    for name, (value, widths) in values().items():
        little = "little/%s.pt" % name
        torch.save(value, little)
        records = []
        for record, data in odd_files.read_records(little):
            key = re.search("/data/([0-9]+)$", record)
            if key:
                data = turned(data, widths[int(key[1])])
            records.append((record, b"big" if record.endswith("/byteorder") else data))
        odd_files.write_records("big/%s.pt" % name, records)
        print("made", name)


def same_bytes(left, right):
    left, right = odd_files.read_records(left), odd_files.read_records(right)
    return [data for name, data in left if "/data/" in name] == [data for name, data in right if "/data/" in name]


def load(paths):
    """What is loaded of each, saved again, has the bytes of the little-endian one, or not."""
    for path in paths:
        name = os.path.basename(path)
        torch.save(torch_files.load(path), "again.pt")
        print(name[:-3], "same" if same_bytes("again.pt", "little/" + name) else "other")


with torch_files.clean_exit():
    print("torch", torch.__version__)
    if sys.argv[1] == "make":
        make()
    else:
        load(sys.argv[2:])

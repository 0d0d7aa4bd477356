# SPDX-License-Identifier: Apache-2.0
"""Made by torch: numbers of every floating dtype, and what Tensor.to() makes of them. cast_files.py OUTDIR

OUTDIR/in/NAME.pt are the inputs, OUTDIR/DTYPE/NAME.pt those loaded, cast and saved. Storages are cast
as a whole, so that tensors that share one still do.
"""

import os
import sys
import warnings

warnings.simplefilter("ignore")

import torch  # noqa: E402

import torch_files  # noqa: E402

FLOATING = [getattr(torch, name) for name in (
    "float64", "float32", "float16", "bfloat16", "float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz",
    "float8_e5m2fnuz", "float8_e8m0fnu") if hasattr(torch, name)]
INTEGERS = [torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8, torch.bool]
BITS = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}


def name_of(dtype):
    return str(dtype).replace("torch.", "")


def item_size(dtype):
    return torch.empty(0, dtype=dtype).element_size()


def all_bits(dtype):
    """Every number of a narrow type; for the wide ones those near where the narrow ones change."""
    torch.manual_seed(0)
    size = item_size(dtype)
    if size <= 2:
        bits = torch.arange(1 << 8 * size)
        return bits.sub(1 << 15).to(torch.int16).view(dtype) if size == 2 \
            else bits.to(torch.uint8).view(dtype)
    high = torch.arange(1 << 16).reshape(-1, 1) << 16
    lows = [0, 1, 0xFFF, 0x1000, 0x1001, 0x7FFF, 0x8000, 0x8001, 0xFFFF]
    bits = (high + torch.tensor(lows)).flatten()
    random = torch.randint(0, 1 << 32, (200003,))
    narrow = torch.cat([bits, random]).sub(1 << 31).to(torch.int32).view(torch.float32)
    if size == 4:
        return narrow
    wide = narrow.double().view(torch.int64)
    near = torch.cat([wide, wide + 1, wide - 1, wide + (1 << 28), wide + (1 << 28) + 1,
                      torch.randint(-(1 << 62), 1 << 62, (100003,)) * 2 + 1])
    return near.view(torch.float64)


def numbers():
    return {name_of(dtype): all_bits(dtype) for dtype in FLOATING}


def in_range():
    """Numbers that all integers can hold."""
    return {name_of(dtype): torch.cat([torch.arange(0, 120), torch.tensor([0.4, 0.5, 0.6, 1.9, 99.99])])
            .to(dtype) for dtype in FLOATING[:4]}


def shared():
    """Tied, viewed, transposed, empty tensors and parameters, others that stay; of one dtype."""
    base = torch.arange(24.0)
    parameter = torch.nn.Parameter(torch.randn(3))
    return {"a": base[2:8], "b": base.reshape(4, 6).t(), "tied": base, "again": base, "empty": torch.ones(0),
            "step": torch.tensor(3), "mask": torch.tensor([True]), "p": parameter, "p2": parameter,
            "scalar": torch.tensor(1.5), "expanded": torch.ones(1).expand(5),
            "nested": [{"x": torch.ones(2), "z": torch.ones(2, dtype=torch.complex64)}, 1.5]}


INPUTS = {"numbers": (numbers, FLOATING), "in_range": (in_range, INTEGERS), "shared": (shared, FLOATING)}


class Caster:
    """Casts storages, each once."""

    def __init__(self, dtype):
        self.dtype, self.storages, self.tensors = dtype, {}, {}

    def cast(self, value):
        if isinstance(value, dict):
            return {key: self.cast(item) for key, item in value.items()}
        if isinstance(value, list):
            return [self.cast(item) for item in value]
        if isinstance(value, torch.Tensor) and value.dtype in FLOATING and value.dtype != self.dtype:
            return self.cast_tensor(value)
        return value

    def cast_tensor(self, tensor):
        if id(tensor) not in self.tensors:
            self.tensors[id(tensor)] = tensor, self.new_tensor(tensor)
        return self.tensors[id(tensor)][1]

    def new_tensor(self, tensor):
        address = tensor.storage().data_ptr() or id(tensor)
        if address not in self.storages:
            count = tensor.storage().size()
            whole = torch.empty(0, dtype=tensor.dtype).set_(tensor.storage(), 0, (count,), (1,))
            self.storages[address] = whole.to(self.dtype)
        cast = self.storages[address].as_strided(tensor.size(), tensor.stride(), tensor.storage_offset())
        if isinstance(tensor, torch.nn.Parameter):
            return torch.nn.Parameter(cast, tensor.requires_grad)
        return cast


def main():
    out = sys.argv[1]
    print("torch version", torch.__version__)
    torch.set_num_threads(1)
    if not hasattr(torch, "float8_e4m3fn") and tuple(map(int, torch.__version__.split(".")[:2])) < (1, 10):
        return      # no Tensor.view(dtype): the bits cannot be looked at
    for name, (make, targets) in INPUTS.items():
        source = os.path.join(out, "in", name + ".pt")
        os.makedirs(os.path.dirname(source), exist_ok=True)
        torch.save(make(), source)
        for dtype in targets:
            os.makedirs(os.path.join(out, name_of(dtype)), exist_ok=True)
            torch.save(Caster(dtype).cast(torch_files.load(source)),
                       os.path.join(out, name_of(dtype), name + ".pt"))


if __name__ == "__main__":
    main()

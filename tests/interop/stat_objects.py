# SPDX-License-Identifier: Apache-2.0
"""Objects for stat.py beside those of cat.py: numbers that are hard to add up, shared ones, and where NaN stand."""

import numpy as np
import torch

from registry import item, torch_version

LONG = 700000       # several blocks, and not a whole number of them


def floats(rng):
    normal = rng.standard_normal(LONG)
    half = rng.standard_normal(LONG // 2) * 1e8
    return {"far from zero": 1e6 + 1e-3 * normal, "very far": 1e9 + 1e-4 * normal, "cancelled": np.concatenate([half, -half, [1.0]]),
            "same": np.full(LONG, 0.1), "tiny": normal * 1e-30, "wide": normal * 10.0 ** rng.uniform(-20, 20, LONG),
            "steps": np.where(np.arange(LONG) < LONG // 2, 1e5, 1e5 + 1), "one off": np.where(np.arange(LONG) == 77777, 2.0, 1.0)}


@item()
def stat_floats():
    tensors = {}
    for name, values in floats(np.random.RandomState(7)).items():
        wide = torch.from_numpy(values)
        tensors.update({name: wide, name + ", float32": wide.to(torch.float32), name + ", float16": wide.to(torch.float16),
                        name + ", bfloat16": wide.to(torch.bfloat16)})
    return tensors


@item()
def stat_integers():
    rng = np.random.RandomState(8)
    wide = torch.from_numpy(rng.randint(-2 ** 62, 2 ** 62, LONG // 4) * 2 + rng.randint(0, 2, LONG // 4))
    tensors = {"int64": wide, "times": 1700000000000000000 + wide % 1000, "int32": wide.to(torch.int32), "int16": wide.to(torch.int16),
               "int8": wide.to(torch.int8), "uint8": wide.to(torch.uint8), "bool": wide % 3 == 0,
               "ends": torch.tensor([-2 ** 63, 2 ** 63 - 1])}
    if torch_version() >= (2, 3):
        tensors.update({name: wide.view(getattr(torch, name)) for name in ("uint16", "uint32", "uint64")})
    return tensors


@item()
def stat_not_finite():
    rng = np.random.RandomState(9)
    tensors = {}
    for i, dtype in enumerate((torch.float64, torch.float32, torch.float16, torch.bfloat16, torch.complex64)):
        values = torch.from_numpy(rng.standard_normal((300, 500))).to(dtype)
        values.view(-1)[torch.from_numpy(rng.randint(1000, 150000, 30))] = float("nan")
        values.view(-1)[torch.from_numpy(rng.randint(900, 150000, 10))] = float("inf")
        values.view(-1)[torch.from_numpy(rng.randint(0, 150000, 10))] = 0
        tensors.update({"plain %d" % i: values, "turned %d" % i: values.t(), "columns %d" % i: values[:, 3:200],
                        "wide %d" % i: values[:7, 100:103].unsqueeze(1).expand(7, 5, 3), "deep %d" % i: values.view(3, 100, 10, 50).permute(2, 0, 3, 1)})
    tensors.update({"all": torch.full((70000,), float("nan")), "infinite": torch.full((3, 2), float("-inf")), "none": torch.zeros(0, 5)})
    return tensors


@item()
def stat_shared():
    flat = torch.arange(1000, dtype=torch.float32)
    return {"first": flat[:600].view(20, 30), "second": flat[600:], "all": flat, "again": flat, "turned": flat[:600].view(20, 30).t(),
            "other": torch.arange(7.0), "columns": flat.view(10, 100)[:, 5:9]}

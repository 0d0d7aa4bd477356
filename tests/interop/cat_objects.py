# SPDX-License-Identifier: Apache-2.0
"""Objects for cat.py beside those of objects.py: arrays of random shapes, values and strides."""

import numpy as np
import torch

from registry import Skip, item, torch_version

KINDS = ("f2", "f4", "f8", "c8", "c16", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "b1")
DTYPES = ("float64", "float32", "float16", "bfloat16", "int64", "int32", "int16", "int8", "uint8", "bool", "complex64",
          "complex128")
NUMPY_ARRAYS, TENSORS = 700, 150


def random_shape(rng):
    kind = rng.random_sample()
    if kind < 0.1:
        return [int(rng.randint(900, 1200))]
    if kind < 0.2:
        return [int(n) for n in rng.randint(1, 60, 2)]
    shape = [int(n) for n in rng.choice([1, 2, 3, 4, 5, 6, 7, 8, 9, 20], rng.randint(0, 6))]
    if kind > 0.95 and shape:
        shape[rng.randint(len(shape))] = 0
    return shape if np.prod(shape) <= 20000 else shape[:2]


def random_floats(rng, dtype, count):
    kind = rng.randint(9)
    if kind == 0:
        values = rng.standard_normal(count)
    elif kind == 1:
        values = rng.standard_normal(count) * 10.0 ** rng.randint(-12, 12)
    elif kind == 2:
        values = rng.standard_normal(count) * 10.0 ** rng.uniform(-3, 3, count)
    elif kind == 3:
        values = rng.randint(-50, 50, count).astype("f8")
    elif kind == 4:
        values = rng.randint(-1000, 1000, count) / 8
    elif kind == 5:      # any bits
        values = np.frombuffer(rng.bytes(count * np.dtype(dtype).itemsize), dtype=dtype)
    elif kind == 6:
        values = np.round(rng.random_sample(count), int(rng.randint(1, 10)))
    elif kind == 7:
        values = np.zeros(count) * rng.choice([1, -1])
    else:
        values = 2.0 ** rng.randint(-30, 30, count)
    with np.errstate(all="ignore"):
        values = np.array(values).astype(dtype)
    for special, often in ((rng.choice([np.nan, np.inf, -np.inf]), 0.2), (-0.0, 0.1)):
        if count and rng.random_sample() < often:
            values[rng.randint(0, count, max(1, count // 5))] = special
    return values


def random_array(rng, kind, shape):
    count = int(np.prod(shape))
    if kind[0] == "f":
        return random_floats(rng, kind, count).reshape(shape)
    if kind[0] == "c":
        half = "f4" if kind == "c8" else "f8"
        values = np.empty(count, dtype=kind)
        values.real, values.imag = random_floats(rng, half, count), random_floats(rng, half, count)
        return values.reshape(shape)
    values = np.frombuffer(rng.bytes(count * np.dtype(kind).itemsize), dtype=kind) if kind != "b1" else rng.randint(0, 2, count)
    if kind != "b1" and rng.random_sample() < 0.5:
        values = values % 100
    return values.astype(kind).reshape(shape)


@item()
def cat_numpy_arrays():
    rng = np.random.RandomState(1)
    return [random_array(rng, KINDS[rng.randint(len(KINDS))], random_shape(rng)) for _ in range(NUMPY_ARRAYS)]


@item()
def cat_numpy_layouts():
    rng = np.random.RandomState(2)
    return {"big": random_array(rng, "f4", (3, 400)).astype(">f4"), "complex": random_array(rng, "c16", (3, 4)).astype(">c16"),
            "fortran": np.asfortranarray(random_array(rng, "i4", (30, 50, 2))), "scalar": np.float32(0.1),
            "short": np.int16(-5), "deep": {"of": [np.float64(1e300), np.complex64(1 - 2j), np.bool_(True)]}}


@item(protocol=5)
def cat_numpy_axes():
    """numpy 2.4 writes the order of the axes of these."""
    rng = np.random.RandomState(4)
    shapes = [(2, 3, 4), (1, 5, 2), (2, 0, 3), (2, 3, 2, 2), (3, 1, 1, 2), (1, 2, 1, 3, 2)]
    return [np.ascontiguousarray(random_array(rng, kind, shape)).transpose(axes) for shape in shapes for kind in ("f4", "i8", "c16", ">i2")
            for axes in ([*range(1, len(shape)), 0], [len(shape) - 1, *range(len(shape) - 1)], [1, 0, *range(2, len(shape))])]


def a_view(tensor, rng):
    """One of the ways to look at a tensor."""
    kind = rng.randint(7)
    if kind == 0 and tensor.dim() > 1:
        return tensor.transpose(0, -1)
    if kind == 1 and tensor.dim():
        return tensor[::2]
    if kind == 2 and tensor.dim():
        return tensor.narrow(-1, tensor.shape[-1] // 2, tensor.shape[-1] - tensor.shape[-1] // 2)
    if kind == 3:
        return tensor.unsqueeze(0).expand(3, *tensor.shape)
    if kind == 4 and tensor.dim() > 2:
        return tensor.permute(*reversed(range(tensor.dim())))
    if kind == 5 and tensor.is_complex() and hasattr(tensor, "conj_physical"):
        return tensor.conj()
    if kind == 6 and tensor.is_complex() and hasattr(tensor, "conj_physical"):
        return tensor.conj().imag
    return tensor


@item()
def cat_tensors():
    rng, tensors = np.random.RandomState(3), []
    for i in range(TENSORS):
        dtype = DTYPES[rng.randint(len(DTYPES))]
        kind = {"bool": "b1", "bfloat16": "f4"}.get(dtype) or np.dtype(dtype).str[1:]
        tensor = torch.from_numpy(random_array(rng, kind, random_shape(rng)).copy()).to(getattr(torch, dtype))
        tensors.append(a_view(a_view(tensor, rng), rng))
    return tensors


@item(since=(2, 6))
def cat_float8():
    codes = torch.arange(256, dtype=torch.uint8).view(16, 16)
    names = ("float8_e5m2", "float8_e4m3fn", "float8_e5m2fnuz", "float8_e4m3fnuz", "float8_e8m0fnu")
    return {name: codes.view(getattr(torch, name)).t() for name in names if hasattr(torch, name)}


@item()
def cat_long_rows():
    wide = torch.arange(3000000, dtype=torch.int32).view(1500, 2000)
    return {"wide": wide, "turned": wide.t(), "steps": wide[3::7, 5::11], "all": wide.t().reshape(-1)[:100]}


@item()
def cat_quantised():
    values = torch.arange(-300, 300).to(torch.float32).view(3, 10, 20) / 7
    scales = torch.arange(1, 11).to(torch.float64) / 30
    zeros = torch.arange(10) - 4
    tensors = {kind: torch.quantize_per_tensor(values, 0.1, 12 if kind == "quint8" else -3, getattr(torch, kind))
               for kind in ("qint8", "quint8", "qint32")}
    tensors.update({"view": tensors["qint8"][1:, ::3].transpose(0, 2), "channels": torch.quantize_per_channel(
        values, scales, zeros, 1, torch.qint8)})
    if torch_version() > (1, 10):
        tensors["floats"] = torch.quantize_per_channel(values[0], scales.to(torch.float32),
                                                       zeros.to(torch.float32) / 3, 0, torch.quint8)
        tensors["four"] = torch.quantize_per_channel(values[0], scales.to(torch.float32),
                                                     zeros.to(torch.float32) / 3, 0, torch.quint4x2)
    return tensors


@item()
def cat_sparse():
    torch.manual_seed(4)
    rows, values = torch.randint(0, 5, (2, 40)), torch.randint(-8, 8, (40,))
    tensors = {str(dtype): torch.sparse_coo_tensor(rows, values.to(dtype), (5, 6))
               for dtype in (torch.float32, torch.float64, torch.int64, torch.float16, torch.complex64)}
    tensors["hybrid"] = torch.sparse_coo_tensor(rows, torch.randn(40, 3), (5, 6, 3)).coalesce()
    tensors["nothing"] = torch.sparse_coo_tensor((4, 0, 3))
    return tensors


@item(since=(2, 6))
def cat_sparse_compressed():
    torch.manual_seed(5)
    dense = torch.randn(6, 8) * (torch.rand(6, 8) < 0.4)
    batch = torch.stack([dense, dense.roll(0), dense])
    deep = (torch.rand(6, 8) < 0.3).unsqueeze(-1) * torch.randn(6, 8, 3)
    tensors = {"csr": dense.to_sparse_csr(), "csc": dense.to_sparse_csc(), "bsr": dense.to_sparse_bsr((3, 2)),
               "bsc": dense.to_sparse_bsc((2, 4)), "batch": batch.to_sparse_csr()}
    try:
        tensors["dense"] = deep.to_sparse_csr(dense_dim=1)
        tensors["batch of blocks"] = batch.to_sparse_bsr((2, 2))
    except RuntimeError as error:
        raise Skip(str(error))
    return tensors

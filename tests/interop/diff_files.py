# SPDX-License-Identifier: Apache-2.0
"""Pairs of files of real torch, and how far apart their tensors are, as torch, numpy and exact sums see it. diff_files.py OUTDIR

OUTDIR/numbers-a.pt and -b.pt hold pairs of tensors under one name; OUTDIR/want.json says what is between them, null where
they are equal. OUTDIR/same/*.pt, or directories, all hold the same values in another form; OUTDIR/close.json says what
torch.allclose() finds with some tolerances.
"""
import collections
import fractions
import json
import math
import os
import random
import sys
import warnings

warnings.simplefilter("ignore")

import numpy as np  # noqa: E402
import torch  # noqa: E402

import torch_files  # noqa: E402

VERSION = tuple(int(part) for part in torch.__version__.split(".")[:2])
TOLERANCES = ((0, 0), (1e-8, 1e-5), (1e-3, 0), (0, 1e-2), (1e-2, 1e-2), (0.5, 0.5), (1e6, 0))


def named(*names):
    return [getattr(torch, name) for name in names if hasattr(torch, name)]


FLOATS = named("float64", "float32", "float16", "bfloat16")
FLOAT8 = named("float8_e5m2", "float8_e4m3fn", "float8_e5m2fnuz", "float8_e4m3fnuz", "float8_e8m0fnu")
INTEGERS = named("int64", "int32", "int16", "int8", "uint8", "uint16", "uint32", "uint64")
COMPLEX = named("complex64", "complex128", "complex32", "bcomplex32")
VIEW_AS = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}


# ---- what is between two tensors ----

def size_of(dtype):
    return torch.empty(0, dtype=dtype).element_size()


def plain(tensor):
    """Strided, dense and real: what the tensor shows."""
    if tensor.is_quantized:
        tensor = tensor.dequantize()
    if tensor.layout != torch.strided:
        tensor = tensor.to_dense()
    if hasattr(tensor, "resolve_conj"):
        tensor = tensor.resolve_conj()
    if hasattr(tensor, "resolve_neg"):
        tensor = tensor.resolve_neg()
    return torch.view_as_real(tensor) if tensor.is_complex() else tensor


def exact(tensor):
    """Its numbers as Python's: integers are exact."""
    tensor = plain(tensor).flatten()
    if tensor.dtype in INTEGERS[5:]:
        raw = tensor.view(VIEW_AS[size_of(tensor.dtype)]).tolist()
        return [v & (256 ** size_of(tensor.dtype) - 1) for v in raw]
    if tensor.dtype in FLOAT8:
        tensor = tensor.to(torch.float32)
    if tensor.dtype == torch.bool:
        return [int(v) for v in tensor.tolist()]
    return (tensor.to(torch.float64) if tensor.is_floating_point() else tensor).tolist()


def bits_of(tensor):
    """The bits of its numbers, as they are counted up."""
    tensor = plain(tensor).flatten().contiguous()
    if VERSION < (1, 10):
        numbers = {torch.float64: np.int64, torch.float32: np.int32, torch.float16: np.int16}
        if tensor.dtype not in numbers:
            return None
        return [int(v) for v in tensor.numpy().view(numbers[tensor.dtype])]
    return tensor.view(VIEW_AS[size_of(tensor.dtype)]).tolist()


def all_numbers(dtype, cache={}):
    """All finite numbers of a narrow dtype, each once, smallest first."""
    if dtype not in cache:
        width = size_of(dtype)
        kind = torch.uint8 if width == 1 else torch.int16
        numbers = torch.arange(256 ** width).to(torch.int32).to(kind).view(dtype)
        numbers = set(v for v in exact(numbers) if math.isfinite(v))
        cache[dtype] = {v: i for i, v in enumerate(sorted(numbers))}
    return cache[dtype]


def steps_between(dtype, a, b, raw_a, raw_b):
    """How often one goes to the next number of DTYPE on the way from A to B."""
    if size_of(dtype) <= 2 and VERSION >= (1, 10):
        order = all_numbers(dtype)
        return abs(order[a] - order[b])
    low = -2 ** (8 * size_of(dtype) - 1)
    place = [v if v >= 0 else low - v for v in (raw_a, raw_b)]
    return abs(place[0] - place[1])


def real_dtype(tensor):
    return plain(tensor).dtype


def with_parts(a, b, tensor_a, tensor_b):
    """A real number beside a complex one has an imaginary part, too."""
    if tensor_a.is_complex() and not tensor_b.is_complex():
        b = [v for w in b for v in (w, 0)]
    if tensor_b.is_complex() and not tensor_a.is_complex():
        a = [v for w in a for v in (w, 0)]
    return a, b


def gap_of(x, y):
    if isinstance(x, int) != isinstance(y, int):
        return float(abs(fractions.Fraction(x) - fractions.Fraction(y)))
    return float(abs(x - y))


def finite_sums(pairs):
    gaps = [gap_of(x, y) for x, y in pairs]
    if any(abs(float(v)) > 1e150 for pair in pairs for v in pair):
        return {}  # squares are infinite
    sums = [math.fsum(v) for v in ((g * g for g in gaps), (float(x) * float(x) for x, _ in pairs),
                                   (float(y) * float(y) for _, y in pairs),
                                   (float(x) * float(y) for x, y in pairs))]
    norm = math.sqrt(sums[1]) * math.sqrt(sums[2])
    return {
        "rms": math.sqrt(sums[0] / len(pairs)) if pairs else 0.0,
        "change": math.sqrt(sums[0]) / math.sqrt(max(sums[1:3])) if sums[0] else 0.0,
        "cosine": sums[3] / norm if norm else None,
    }


def relative(x, y):
    gap = gap_of(x, y)
    return gap / max(abs(float(x)), abs(float(y))) if gap else 0.0


def between(tensor_a, tensor_b):
    a, b = with_parts(exact(tensor_a), exact(tensor_b), tensor_a, tensor_b)
    nan = [(x != x, y != y) for x, y in zip(a, b)]
    inf = [(isinstance(x, float) and math.isinf(x), isinstance(y, float) and math.isinf(y)) for x, y in zip(a, b)]
    finite = [(x, y) for x, y, n, i in zip(a, b, nan, inf) if not any(n) and not any(i)]
    same = [x == y or all(n) for x, y, n in zip(a, b, nan)]
    wild = any(not s and any(i) and not any(n) for s, i, n in zip(same, inf, nan))
    want = {
        "count": len(a),
        "differing": same.count(False),
        "nan_appeared": nan.count((False, True)), "nan_vanished": nan.count((True, False)),
        "nan_both": nan.count((True, True)),
        "inf_appeared": inf.count((False, True)), "inf_vanished": inf.count((True, False)),
        "max_abs": "inf" if wild else max([gap_of(x, y) for x, y in finite] or [0.0]),
        "max_rel": "inf" if wild else max([relative(x, y) for x, y in finite] or [0.0]),
        "max_ulp": None,
    }
    want.update(finite_sums(finite))
    if want["max_abs"] == math.inf:
        want["max_abs"] = "inf"
    if want["max_rel"] == math.inf:
        want["max_rel"] = "inf"
    dtype = real_dtype(tensor_a)
    if dtype == real_dtype(tensor_b) and dtype.is_floating_point and tensor_a.dtype == tensor_b.dtype:
        raw_a, raw_b = bits_of(tensor_a), bits_of(tensor_b)
        if raw_a is None:
            want["max_ulp"] = "unknown"
        else:
            want["max_ulp"] = max([steps_between(dtype, x, y, p, q) for x, y, p, q in zip(a, b, raw_a, raw_b)
                                   if math.isfinite(x) and math.isfinite(y)] or [0])
            want["other_bits"] = sum(p != q and s for p, q, s in zip(raw_a, raw_b, same))
    if not want["differing"] and not want.get("other_bits") and tensor_a.dtype == tensor_b.dtype:
        return None if want["max_ulp"] != "unknown" else want
    return want


# ---- pairs ----

def from_bits(values, dtype):
    """Numbers by their bits."""
    width = size_of(dtype)
    raw = np.array(values, dtype="u%d" % width)
    if dtype in (torch.float64, torch.float32, torch.float16):
        return torch.from_numpy(raw.view("f%d" % width).copy())
    signed = torch.from_numpy(raw.view("u1" if width == 1 else "i%d" % width).copy())
    return signed.view(dtype)


def odd_bits(dtype, count):
    """Any bits at all, and numbers that are close to each other."""
    width = size_of(dtype)
    top = 256 ** width - 1
    some = [0, 1, 2, top, top - 1, top >> 1, (top >> 1) + 1, (top >> 1) + 2]
    return some + [random.randrange(top + 1) for _ in range(count - len(some))]


def odd_pair(dtype):
    a = odd_bits(dtype, 3000)
    b = [v if random.random() < 0.3 else (v ^ random.randrange(4)) if random.random() < 0.6 else w
         for v, w in zip(a, odd_bits(dtype, 3000))]
    return from_bits(a, dtype), from_bits(b, dtype)


def close_pair(dtype, *shape):
    a = torch.randn(shape, dtype=torch.float64)
    b = a + torch.randn(shape, dtype=torch.float64) * 1e-3 * (torch.rand(shape) < 0.7)
    return a.to(dtype), b.to(dtype)


def integers(dtype, count):
    info_bits = 8 * size_of(dtype)
    raw = [random.randrange(2 ** info_bits) for _ in range(count)]
    return raw, [v if random.random() < 0.5 else (v + random.randrange(9)) % 2 ** info_bits for v in raw]


def integer_tensor(raw, dtype):
    width = size_of(dtype)
    kind = "u1" if dtype == torch.uint8 else "i%d" % width
    tensor = torch.from_numpy(np.array(raw, dtype="u%d" % width).view(kind).copy())
    return tensor if tensor.dtype == dtype else tensor.view(dtype)


def pairs_of_floats():
    for dtype in FLOATS:
        name = str(dtype).split(".")[1]
        for count in (1, 7, 8, 1025, 100003):
            yield "%s.%d" % (name, count), close_pair(dtype, count)
        yield name + ".empty", (torch.zeros(0, 3, dtype=dtype), torch.zeros(0, 3, dtype=dtype))
        yield name + ".scalar", close_pair(dtype)
        yield name + ".zeros", (torch.zeros(5, dtype=dtype), -torch.zeros(5, dtype=dtype))
        yield name + ".from_zero", (torch.zeros(100, dtype=dtype), torch.ones(100, dtype=dtype))
        scaled = close_pair(dtype, 5000)[0]
        yield name + ".scaled", (scaled, scaled * 1.125)
    for dtype in FLOATS + FLOAT8:
        if VERSION >= (1, 10) or dtype not in (torch.bfloat16, ):
            yield "odd." + str(dtype).split(".")[1], odd_pair(dtype)
    wide = torch.tensor([1.0, -1.0, 3.5, float("inf"), float("inf"), float("nan"), float("nan"), 0.0, float("-inf")])
    other = torch.tensor([1.0, 1.0, float("inf"), float("inf"), 2.0, float("nan"), 1.0, float("nan"), float("inf")])
    yield "special", (wide, other)
    yield "special64", (wide.double().repeat(1000), other.double().repeat(1000))
    yield "same", (wide, wide.clone())


def pairs_of_integers():
    for dtype in INTEGERS:
        if dtype in INTEGERS[5:] and VERSION < (2, 3):
            continue
        a, b = integers(dtype, 5000)
        yield "int." + str(dtype).split(".")[1], (integer_tensor(a, dtype), integer_tensor(b, dtype))
    yield "bool", (torch.rand(3000) < 0.5, torch.rand(3000) < 0.5)
    large = torch.tensor([2 ** 62, 2 ** 53 + 1, -2 ** 63, 2 ** 63 - 1, 5])
    yield "large", (large, torch.tensor([2 ** 62 + 1, 2 ** 53, 2 ** 63 - 1, -2 ** 63, 5]))
    yield "large.float", (large, large.double())
    yield "large.small", (large, torch.tensor([1, -2, 3, -4, 5], dtype=torch.int16))


def pairs_of_complex():
    for dtype in COMPLEX:
        part = {"complex64": torch.float32, "complex128": torch.float64}.get(str(dtype).split(".")[1])
        if part is None:
            if VERSION < (2, 0) or str(dtype) != "torch.complex32":
                continue
            part = torch.float16
        a, b = close_pair(part, 999, 2)
        yield str(dtype).split(".")[1], (torch.view_as_complex(a), torch.view_as_complex(b))
    a, b = close_pair(torch.float32, 40, 2)
    a, b = torch.view_as_complex(a), torch.view_as_complex(b)
    yield "complex.both", (a, b.to(torch.complex128))
    yield "complex.real", (a, b.real.clone())
    yield "real.complex", (torch.arange(40), b)
    yield "conj", (a.conj(), b)
    if hasattr(torch, "_neg_view"):
        yield "neg", (torch._neg_view(close_pair(torch.float32, 30)[0]), close_pair(torch.float32, 30)[1])


def pairs_of_two_dtypes():
    a, b = close_pair(torch.float64, 4000)
    for left, right in ((torch.float64, torch.float32), (torch.float32, torch.bfloat16), (torch.float16, torch.bfloat16),
                        (torch.float32, torch.int32), (torch.int64, torch.float32), (torch.uint8, torch.bool),
                        (torch.int8, torch.float16), (torch.int64, torch.uint8)):
        yield "two.%s.%s" % (str(left)[6:], str(right)[6:]), ((a * 10).to(left), (b * 10).to(right))
    for dtype in FLOAT8[:1]:
        yield "two.float8", (a.float().to(dtype), b.float())


def pairs_of_views():
    a, b = close_pair(torch.float32, 300, 500)
    yield "view.transposed", (a.t(), b.t())
    yield "view.one", (a.t(), b.t().contiguous())
    yield "view.equal", (a.t(), a.t().contiguous())
    yield "view.stride", (a[::3, 5::7], b[::3, 5::7].contiguous())
    yield "view.slice", (a[5:9], b[5:9])
    yield "view.row", (a[7], b[7].clone())
    yield "view.expanded", (a[:, :1].expand(300, 40), b[:, :1].expand(300, 40))
    yield "view.expanded.one", (a[:, :1].expand(300, 40), b[:, :1].expand(300, 40).contiguous())
    yield "view.expanded.all", (torch.ones(1).expand(1000), torch.full((1,), 1.5).expand(1000))
    image, other = close_pair(torch.float32, 4, 3, 8, 8)
    yield "view.channels", (image.contiguous(memory_format=torch.channels_last),
                            other.contiguous(memory_format=torch.channels_last))
    yield "view.channels.one", (image.contiguous(memory_format=torch.channels_last), other)


def pairs_of_layouts():
    a, b = close_pair(torch.float32, 6, 50)
    if VERSION >= (1, 13):  # older ones round in another way
        yield from pairs_of_quantized(a, b)
    mask = torch.rand(6, 50) < 0.2
    yield "sparse", ((a * mask).to_sparse(), (b * (torch.rand(6, 50) < 0.2)).to_sparse())
    yield "sparse.dense", ((a * mask).to_sparse(), b * mask)
    yield "sparse.equal", ((a * mask).to_sparse(), a * mask)
    if hasattr(a, "to_sparse_csr") and VERSION >= (2, 0):
        yield "sparse.csr", ((a * mask).to_sparse_csr(), (b * mask).to_sparse_csr())


def pairs_of_quantized(a, b):
    yield "quantized", (torch.quantize_per_tensor(a, 0.05, 3, torch.qint8), torch.quantize_per_tensor(b, 0.05, 3, torch.qint8))
    yield "quantized.scale", (torch.quantize_per_tensor(a, 0.05, 3, torch.quint8),
                              torch.quantize_per_tensor(b, 0.0625, 2, torch.quint8))
    scales, zeros = torch.rand(6).double() + 0.01, torch.arange(6)
    yield "quantized.channel", (torch.quantize_per_channel(a, scales, zeros, 0, torch.qint8),
                                torch.quantize_per_channel(b, scales, zeros, 0, torch.qint8))


def all_pairs():
    for maker in (pairs_of_floats, pairs_of_integers, pairs_of_complex, pairs_of_two_dtypes, pairs_of_views,
                  pairs_of_layouts):
        yield from maker()


# ---- files ----

def saved(tensors, folder, name):
    """As they are loaded: torch 1.13 forgets that a tensor is conjugated."""
    path = os.path.join(folder, name)
    torch.save(tensors, path)
    return torch_files.load(path)


def save_numbers(folder):
    a, b = collections.OrderedDict(), {}
    for name, (left, right) in all_pairs():
        a[name], b[name] = left, right
    a, b = saved(a, folder, "numbers-a.pt"), saved(dict(reversed(list(b.items()))), folder, "numbers-b.pt")
    want = {name: between(a[name], b[name]) for name in a}
    with open(os.path.join(folder, "want.json"), "w") as file:
        json.dump(want, file)
    close = []
    for atol, rtol in TOLERANCES:
        names = [name for name in a if a[name].layout == b[name].layout == torch.strided and not a[name].is_quantized
                 and a[name].dtype == b[name].dtype and not a[name].is_complex() and a[name].is_floating_point()
                 and a[name].dtype not in FLOAT8]
        close.append([atol, rtol, {name: torch.allclose(plain(a[name]).double(), plain(b[name]).double(), rtol=rtol,
                                                        atol=atol, equal_nan=True) for name in names}])
    with open(os.path.join(folder, "close.json"), "w") as file:
        json.dump(close, file)


def trainer():
    torch.manual_seed(7)
    model = torch.nn.Sequential(torch.nn.Conv2d(3, 8, 3), torch.nn.BatchNorm2d(8), torch.nn.Linear(4, 4))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.1, betas=(0.8, 0.99))
    model(torch.rand(2, 3, 6, 6)).sum().backward()
    optimizer.step()
    return {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "epoch": 3, "names": ["a", "b"],
            "shared": None, "tags": {"x", "y", "zz", "www"}}


def save_same(folder):
    state = trainer()
    state["shared"] = state["model"]
    torch.save(state, os.path.join(folder, "zip.pt"))
    torch.save(state, os.path.join(folder, "legacy.pt"), _use_new_zipfile_serialization=False)
    torch.save(state, os.path.join(folder, "protocol4.pt"), pickle_protocol=4)
    copied = {key: state[key] for key in reversed(list(state))}
    copied["model"] = {key: value.t().contiguous().t() if value.dim() == 2 else value.clone()
                       for key, value in state["model"].items()}
    copied["shared"] = collections.OrderedDict((key, value.clone()) for key, value in state["model"].items())
    copied["names"] = ("a", "b")
    torch.save(copied, os.path.join(folder, "copied.pt"))
    if VERSION >= (2, 3):
        from torch.distributed.checkpoint.format_utils import torch_save_to_dcp
        torch_save_to_dcp(os.path.join(folder, "zip.pt"), os.path.join(folder, "dcp"))


def main():
    folder = sys.argv[1]
    os.makedirs(os.path.join(folder, "same"))
    random.seed(3)
    torch.manual_seed(3)
    torch.set_num_threads(1)
    save_numbers(folder)
    save_same(os.path.join(folder, "same"))


if __name__ == "__main__":
    with torch_files.clean_exit():
        main()

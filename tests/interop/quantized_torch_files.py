# SPDX-License-Identifier: Apache-2.0
"""Quantized tensors of torch itself, and what torch makes of them.

    python quantized_torch_files.py write      in.pt, in old.pt the same as it was written before zip files
                                               shared.pt: FP8 weights that are tied, views, or Parameters (torch 2.1 and later)
    python quantized_torch_files.py judge FILE DTYPE    FILE against dequantize().to(DTYPE), bit for bit
    python quantized_torch_files.py shared FILE DTYPE   the same of what shared.pt became
"""

import collections
import sys
import warnings

import torch

warnings.simplefilter("ignore")

VERSION = tuple(int(part) for part in torch.__version__.split(".")[:2])


def numbers(*shape):
    torch.manual_seed(7)
    return torch.randn(*shape) * 3


def per_channel(x, dtype, axis, zeros=torch.int64, scale=0.013):
    scales = (torch.arange(x.shape[axis], dtype=torch.float64) + 1) * scale
    points = torch.arange(x.shape[axis]) % 5
    return torch.quantize_per_channel(x, scales if zeros is torch.int64 else scales.float(), points.to(zeros), axis, dtype)


def cases():
    out = collections.OrderedDict()
    for name in ("qint8", "quint8", "qint32"):
        dtype = getattr(torch, name)
        out[name] = torch.quantize_per_tensor(numbers(5, 7), 0.0625, 3, dtype)
        out[name + "_odd"] = torch.quantize_per_tensor(numbers(300, 257), 0.1, 3, dtype)
        out[name + "_channel"] = per_channel(numbers(6, 4, 3), dtype, 0)
        out[name + "_channel1"] = per_channel(numbers(6, 4, 3), dtype, 1)
        out[name + "_scalar"] = torch.quantize_per_tensor(torch.tensor(1.5), 0.5, 0, dtype)
        out[name + "_none"] = torch.quantize_per_tensor(torch.zeros(0, 3), 0.5, 0, dtype)
    out["large"] = torch.quantize_per_tensor(numbers(4, 4) * 1e6, 1e5, 0, torch.qint32)
    for zero in (1, 3, -5) if torch.__version__[:3] != "1.7" else ():
        for side in (-1e30, 1e30):
            out["least %d %g" % (zero, side)] = torch.quantize_per_tensor(torch.full((3, 5), side), 0.5, zero, torch.qint32)
    out["tiny"] = torch.quantize_per_tensor(numbers(4, 4) * 1e-7, 1e-9, 0, torch.qint32)
    for name in ("quint4x2", "quint2x4"):
        if hasattr(torch, name):
            try:
                out[name] = per_channel(numbers(5, 8), getattr(torch, name), 0, torch.float32, 0.5)
                out[name + "_odd"] = per_channel(numbers(3, 5), getattr(torch, name), 0, torch.float32, 0.5)
            except (RuntimeError, TypeError):
                pass
    out["view"] = out["qint8_odd"][3:9, ::2]
    out["view_t"] = out["quint8"].t()
    out["tied"] = out["qint8"]
    out["shown_again"] = out["qint8"][1:3]
    out["plain"] = numbers(3)
    out["in_tuple"] = (torch.quantize_per_tensor(numbers(4, 3), 0.5, 1, torch.qint8), numbers(4))
    if VERSION >= (1, 8):
        out["parameter"] = torch.nn.Parameter(torch.quantize_per_tensor(numbers(2, 3), 0.5, 1, torch.qint8), requires_grad=False)
    return out


def shared():
    """{name: tensor}, and how many times what it stands for."""
    base = (numbers(40, 6) * 4).to(torch.float8_e4m3fn)
    scale, other = torch.tensor([[0.37]]), torch.tensor([[1.6]])
    out = collections.OrderedDict()
    out["whole.weight"], out["whole.weight_scale_inv"] = base, scale
    out["tied.weight"], out["tied.weight_scale_inv"] = base.detach(), scale.detach()
    out["other.weight"], out["other.weight_scale_inv"] = base.detach(), other
    out["view.weight"], out["view.weight_scale_inv"] = base[8:20], scale.clone()
    out["across.weight"], out["across.weight_scale_inv"] = base.t(), scale.clone()
    out["same.weight"], out["same.weight_scale_inv"] = base, scale
    out["codes.weight"], out["codes.weight_scale_inv"] = base, other        # one object, other scales
    out["codes2.weight"], out["codes2.weight_scale_inv"] = base, torch.tensor([[7.5]])
    out["codes3.weight"], out["codes3.weight_scale_inv"] = base, other
    out["p.weight"] = torch.nn.Parameter((numbers(3, 4) * 2).to(torch.float8_e4m3fn), requires_grad=False)
    out["p.weight_scale_inv"] = torch.nn.Parameter(torch.tensor([[0.11]]), requires_grad=False)
    out["p2.weight"], out["p2.weight_scale_inv"] = out["p.weight"], torch.tensor([[0.5]])
    out["norm.weight"] = torch.nn.Parameter(numbers(4))
    return out


def judge_shared(path, dtype):
    given, found, wrong = shared(), torch.load(path, weights_only=False), []
    if list(found) != [name for name in given if not name.endswith("_scale_inv")]:
        return ["names are %s" % list(found)]
    for name, now in found.items():
        was = given[name]
        if name != "norm.weight":
            was = (was.data.float() * given[name + "_scale_inv"].data).to(dtype)
        if type(now) is not type(given[name]) or now.requires_grad != given[name].requires_grad:
            wrong.append("%s is a %s" % (name, type(now)))
        if now.dtype != was.dtype or now.shape != was.shape or not now.is_contiguous() or bits(now.data) != bits(was.data):
            wrong.append("%s has other numbers" % name)
    first = found["whole.weight"].untyped_storage().data_ptr()
    if found["tied.weight"].untyped_storage().data_ptr() != first or found["same.weight"] is not found["whole.weight"]:
        wrong.append("what was tied is not")
    if found["codes3.weight"] is not found["codes.weight"]:
        wrong.append("what was one object is two")
    apart = ["whole.weight", "other.weight", "codes.weight", "codes2.weight", "p.weight", "p2.weight"]
    if len({found[name].untyped_storage().data_ptr() for name in apart}) != len(apart) - 1:
        wrong.append("what has another scale is tied")
    return wrong


def bits(t):
    if t.dtype in (torch.bfloat16, torch.float16):
        return t.contiguous().numpy().view("uint16").tolist() if t.dtype == torch.float16 else [t.float().contiguous().numpy().view("uint32").tolist()]
    return t.contiguous().numpy().view("uint32").tolist()


def compare(name, was, now, dtype, wrong):
    if isinstance(was, tuple):
        for i, (one, other) in enumerate(zip(was, now)):
            compare("%s.%d" % (name, i), one, other, dtype, wrong)
        return
    wanted = was.dequantize().to(dtype) if was.is_quantized else was
    if type(now) is not type(was):
        wrong.append("%s is a %s" % (name, type(now)))
    if now.is_quantized or now.dtype != wanted.dtype or now.shape != wanted.shape or not now.is_contiguous():
        wrong.append("%s is %s %s" % (name, now.dtype, tuple(now.shape)))
    elif bits(now.data) != bits(wanted.data):
        wrong.append("%s has other numbers" % name)


def main(what, *arguments):
    if what == "write":
        torch.save(cases(), "in.pt")
        torch.save(cases(), "old.pt", _use_new_zipfile_serialization=False)
        if VERSION >= (2, 1):
            torch.save(shared(), "shared.pt")
        print("torch version", torch.__version__)
        return
    path, dtype = arguments
    if what == "shared":
        print("; ".join(judge_shared(path, getattr(torch, dtype))))
        return
    found, wrong = torch.load(path, **({"weights_only": False} if VERSION >= (1, 13) else {})), []
    given = cases()
    if list(found) != list(given):
        wrong.append("names are %s" % list(found))
    for name in given:
        if name in found:
            compare(name, given[name], found[name], getattr(torch, dtype), wrong)
    if found["tied"] is not found["qint8"]:
        wrong.append("what was one tensor is two")
    print("; ".join(wrong))


main(*sys.argv[1:])

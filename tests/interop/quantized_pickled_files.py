# SPDX-License-Identifier: Apache-2.0
"""Tensors of torchao's classes as torch.save() pickles them. Needs torchao in packages/ or installed.

    python quantized_pickled_files.py write              in.pt
    python quantized_pickled_files.py judge FILE DTYPE   FILE against dequantize() of torchao, bit for bit
"""

import collections
import os
import sys
import warnings

warnings.simplefilter("ignore")
sys.path.insert(0, os.path.join(os.getcwd(), "packages"))

import torch  # noqa: E402


def weight(dtype=torch.bfloat16, rows=32, cols=64):
    return torch.randn(rows, cols, dtype=torch.float32).mul(0.7).to(dtype)


def cases():
    from torchao.prototype.mx_formats.mx_tensor import MXTensor
    from torchao.prototype.mx_formats.nvfp4_tensor import NVFP4Tensor
    from torchao.quantization import Float8Tensor, Int8Tensor, Int8WeightOnlyConfig, IntxUnpackedToInt8Tensor, quantize_
    from torchao.quantization.granularity import PerRow, PerTensor
    torch.manual_seed(3)
    out = collections.OrderedDict()
    for dtype in (torch.bfloat16, torch.float32):
        end = "" if dtype == torch.bfloat16 else "_f32"
        out["float8_rows" + end] = Float8Tensor.from_hp(weight(dtype), float8_dtype=torch.float8_e4m3fn, granularity=PerRow())
        out["float8_tensor" + end] = Float8Tensor.from_hp(weight(dtype), float8_dtype=torch.float8_e4m3fn, granularity=PerTensor())
        out["int8" + end] = Int8Tensor.from_hp(weight(dtype), granularity=PerRow())
        out["intx" + end] = IntxUnpackedToInt8Tensor.from_hp(weight(dtype), (1, 32), torch.int4)
        out["mxfp8" + end] = MXTensor.to_mx(weight(dtype), torch.float8_e4m3fn, 32)
        out["mxfp4" + end] = MXTensor.to_mx(weight(dtype), torch.float4_e2m1fn_x2, 32)
        out["nvfp4" + end] = NVFP4Tensor.to_nvfp4(weight(dtype))
        out["nvfp4_scale" + end] = NVFP4Tensor.to_nvfp4(weight(dtype), per_tensor_scale=torch.tensor(0.01))
    module = torch.nn.Linear(64, 32).bfloat16()
    quantize_(module, Int8WeightOnlyConfig(version=2))
    out["parameter"], out["state"], out["bias"] = module.weight, module.state_dict()["weight"], module.bias.detach()
    out["shown_again"] = out["int8"]
    return out


def numbers_of(t, dtype):
    if type(t).__name__ in ("Tensor", "Parameter"):
        return t.detach()
    return t.dequantize().to(dtype) if type(t).__name__ == "IntxUnpackedToInt8Tensor" else t.dequantize(dtype)


def bits(t):
    return t.contiguous().view(torch.int32 if t.dtype == torch.float32 else torch.int16)


def judge(path, dtype):
    given, found, wrong = torch.load("in.pt", weights_only=False), torch.load(path, weights_only=True), []
    if list(found) != list(given):
        return ["names are %s" % list(found)]
    for name, was in given.items():
        now, wanted = found[name], numbers_of(was, dtype).detach()
        if isinstance(now, torch.nn.Parameter) != isinstance(was, torch.nn.Parameter) or now.requires_grad != was.requires_grad:
            wrong.append("%s is a %s" % (name, type(now)))
        now = now.detach()
        if now.dtype != wanted.dtype or now.shape != wanted.shape:
            wrong.append("%s is %s %s" % (name, now.dtype, tuple(now.shape)))
        elif not torch.equal(bits(now), bits(wanted)):
            wrong.append("%s has other numbers" % name)
    return wrong


def main(what, *arguments):
    if what == "write":
        torch.save(cases(), "in.pt")
        print("written")
    else:
        print("; ".join(judge(arguments[0], getattr(torch, arguments[1]))))


main(*sys.argv[1:])

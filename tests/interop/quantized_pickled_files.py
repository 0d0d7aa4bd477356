# SPDX-License-Identifier: Apache-2.0
"""Tensors of torchao's classes and of Transformer Engine's as torch.save() pickles them.

torchao's are written if it is in packages/ or installed; those of Transformer Engine, which needs a GPU, are stand-ins that pickle alike.

    python quantized_pickled_files.py write              in.pt
    python quantized_pickled_files.py judge FILE DTYPE   FILE against dequantize() of torchao, bit for bit
"""

import collections
import enum
import os
import sys
import types
import warnings

warnings.simplefilter("ignore")
sys.path.insert(0, os.path.join(os.getcwd(), "packages"))

import torch  # noqa: E402


def weight(dtype=torch.bfloat16, rows=32, cols=64):
    return torch.randn(rows, cols, dtype=torch.float32).mul(0.7).to(dtype)


def todays_cases():
    from torchao.prototype.mx_formats.mx_tensor import MXTensor
    from torchao.prototype.mx_formats.nvfp4_tensor import NVFP4Tensor
    from torchao.quantization import Float8Tensor, Int8Tensor, Int8WeightOnlyConfig, IntxUnpackedToInt8Tensor, quantize_
    from torchao.quantization.granularity import PerRow, PerTensor
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
        for number, scale in enumerate((0.01, 0.0123, 1.0, 3e-5)):
            out["nvfp4_scale_%d%s" % (number, end)] = NVFP4Tensor.to_nvfp4(weight(dtype), per_tensor_scale=torch.tensor(scale))
        for rows, cols in ((16, 64), (144, 96), (272, 2112)):     # in the order of cuBLAS
            key = "_swizzled_%dx%d%s" % (rows, cols, end)
            out["mxfp8" + key] = MXTensor.to_mx(weight(dtype, rows, cols), torch.float8_e4m3fn, 32, is_swizzled_scales=True)
            out["mxfp4" + key] = MXTensor.to_mx(weight(dtype, rows, cols), torch.float4_e2m1fn_x2, 32, is_swizzled_scales=True)
            out["nvfp4" + key] = NVFP4Tensor.to_nvfp4(weight(dtype, rows, cols), is_swizzled_scales=True)
            out["nvfp4_scale" + key] = NVFP4Tensor.to_nvfp4(weight(dtype, rows, cols), per_tensor_scale=torch.tensor(0.0123), is_swizzled_scales=True)
        for count, rows in ((3, 128), (2, 112)):
            key = "_swizzled_experts_%dx%d%s" % (count, rows, end)
            experts = weight(dtype, count * rows, 96).view(count, rows, 96)
            out["mxfp8" + key] = MXTensor.to_mx(experts, torch.float8_e4m3fn, 32, is_swizzled_scales=True)
            out["nvfp4" + key] = NVFP4Tensor.to_nvfp4(experts, is_swizzled_scales=True)
        experts = weight(dtype, 3 * 128, 96).view(3, 128, 96)
        for order, is_swizzled in (("", False), ("_swizzled", True)):
            try:
                t = NVFP4Tensor.to_nvfp4(experts, per_tensor_scale=torch.tensor([0.0123, 1.5, 3e-5]).view(3, 1, 1), is_swizzled_scales=is_swizzled)
                t.dequantize(dtype)
            except (AssertionError, RuntimeError):     # torchao up to 0.17, of which some take no such scales, and none does in the order of cuBLAS
                continue
            out["nvfp4_scale_of_experts%s%s" % (order, end)] = t
        try:
            out["nvfp4_scale_with_dimension" + end] = NVFP4Tensor.to_nvfp4(weight(dtype), per_tensor_scale=torch.tensor([0.0123]))
        except AssertionError:     # torchao 0.18
            pass
    module = torch.nn.Linear(64, 32).bfloat16()
    quantize_(module, Int8WeightOnlyConfig(version=2))
    out["parameter"], out["state"], out["bias"] = module.weight, module.state_dict()["weight"], module.bias.detach()
    out["shown_again"] = out["int8"]
    unread = [] if hasattr(out["mxfp8"], "elem_dtype") else ["mxfp8", "mxfp4"]     # torchao 0.15 calls it otherwise, and it is not read
    unread += [] if hasattr(out["nvfp4"], "qdata") else ["nvfp4"]     # 0.12 and before
    out = collections.OrderedDict((name, t) for name, t in out.items() if not name.startswith(tuple(unread)))
    return out


def affine_classes():
    """The class, its plain impl and layout, its float8 ones and the domains of zero points, whatever this torchao calls them."""
    from torchao.dtypes import affine_quantized_tensor as affine, utils
    from torchao.quantization.quant_primitives import ZeroPointDomain
    try:
        from torchao.dtypes.floatx.float8_layout import Float8AQTTensorImpl, Float8Layout
        from torchao.dtypes.uintx.plain_layout import PlainAQTTensorImpl
        return affine.AffineQuantizedTensor, (PlainAQTTensorImpl, utils.PlainLayout), (Float8AQTTensorImpl, Float8Layout), ZeroPointDomain
    except ImportError:
        return (affine.AffineQuantizedTensor, (affine.PlainAQTLayout, utils.PlainLayoutType),
                (affine.Float8AQTLayout, affine.Float8LayoutType), ZeroPointDomain)


def scales_of(shape, dtype):
    """Some of them make numbers that float16 does not hold."""
    out = torch.rand(shape, dtype=torch.float32).mul(0.05) + 0.001
    flat = out.view(-1)
    for at, value in enumerate((600.0, 3e-7, 1e-9)[:flat.numel() // 4]):
        flat[at * 3] = value
    return out.to(dtype)


def affine_plain(domain, item, block, shape=(32, 64), scale=torch.bfloat16, zero=None, bounds=(None, None), keeps=True):
    """One of random integers. KEEPS: scales have a dimension of 1 for what is one block, as reductions that keep it make them."""
    kind, (impl, layout), _, domains = affine_classes()
    low, high = bounds if bounds[0] is not None else (torch.iinfo(item).min, torch.iinfo(item).max)
    counts = [size // of for size, of in zip(shape, block)]
    counts = counts if keeps else [count for count, of, size in zip(counts, block, shape) if of != size or of == 1]
    zeros = None
    if zero is not None:
        zeros = torch.randint(low, high + 1, counts).to(zero) if domain == "INT" else torch.randn(counts).to(zero)
    data = torch.randint(low, high + 1, shape).to(item)
    return kind(impl(data, scales_of(counts, scale), zeros, layout()), tuple(block), torch.Size(shape), *bounds, domains[domain], dtype=torch.bfloat16)


def affine_float8(item, block, shape=(32, 64), scale=torch.float32, keeps=True, domain="NONE"):
    kind, _, (impl, layout), domains = affine_classes()
    counts = [size // of for size, of in zip(shape, block)]
    counts = counts if keeps else [count for count, of, size in zip(counts, block, shape) if of != size or of == 1]
    data = torch.randn(shape).to(item)
    return kind(impl(data, scales_of(counts, scale), False, layout()), tuple(block), torch.Size(shape), None, None, domains[domain], dtype=torch.bfloat16)


def affine_cases():
    from torchao.quantization import quantize_, quant_api
    named = {"int8": ("int8_weight_only", "Int8WeightOnlyConfig", {"version": 1}), "int8_groups": ("int8_weight_only", "Int8WeightOnlyConfig", {"version": 1, "group_size": 32}),
             "float8": ("float8_weight_only", "Float8WeightOnlyConfig", {"version": 1})}
    out = collections.OrderedDict()
    domains = affine_classes()[3].__members__
    for name, (old, new, settings) in named.items():
        config = getattr(quant_api, new, None)
        known = getattr(config, "__dataclass_fields__", None)
        settings = {key: value for key, value in settings.items() if (key in known if known else key != "version")}
        module = torch.nn.Linear(64, 32).bfloat16()
        try:
            quantize_(module, config(**settings) if known else getattr(quant_api, old)(**settings))
        except (AttributeError, AssertionError, TypeError):     # a setting that came later, or a version that is gone
            continue
        out["affine_" + name], out["affine_state_" + name] = module.weight, module.state_dict()["weight"]
    floats = (torch.float32, torch.float16, torch.bfloat16)
    for scale in floats:
        end = "_" + str(scale).rpartition(".")[2]
        for block in ((1, 64), (1, 16), (32, 64), (8, 16), (32, 1), (1, 1), (4, 64)):
            for keeps in (True, False):
                key = "_%dx%d%s%s" % (*block, end, "" if keeps else "_flat")
                out["int" + key] = affine_plain("INT", torch.int8, block, scale=scale, zero=torch.int64, keeps=keeps)
                out["float" + key] = affine_plain("FLOAT", torch.uint8, block, scale=scale, zero=scale, keeps=keeps)
        for zero in (None, torch.int8, torch.int32, *floats):
            out["zero_%s%s" % (zero, end)] = affine_plain("INT", torch.int8, (1, 32), scale=scale, zero=zero, bounds=(-8, 7))
        for zero in (None, *floats):
            out["added_%s%s" % (zero, end)] = affine_plain("FLOAT", torch.uint8, (1, 32), scale=scale, zero=zero, bounds=(0, 15))
        out["unsigned" + end] = affine_plain("INT", torch.uint8, (1, 32), scale=scale, zero=torch.uint8)
        if "NONE" in domains:
            out["none" + end] = affine_plain("NONE", torch.int8, (1, 32), scale=scale)
        out["matrices" + end] = affine_plain("INT", torch.int8, (1, 1, 16), shape=(3, 8, 32), scale=scale, zero=torch.int64)
        out["one_for_matrices" + end] = affine_plain("INT", torch.int8, (3, 8, 32), shape=(3, 8, 32), scale=scale, zero=torch.int64)
        for item in (torch.float8_e4m3fn, torch.float8_e5m2):
            if "NONE" in domains:
                out["fp8_%s_rows%s" % (item, end)] = affine_float8(item, (1, 64), scale=scale)
                out["fp8_%s_all%s" % (item, end)] = affine_float8(item, (32, 64), scale=scale)
    out["affine_turned"] = affine_plain("INT", torch.int8, (1, 64), zero=torch.int64, keeps=False).t()
    out["affine_again"] = out["unsigned_float32"]
    return out


# ---- Transformer Engine ----

class Float8Tensor:
    """As the one of Transformer Engine pickles, and with the numbers that its kernel makes: float8 times the scale in float32."""
    requires_grad = False

    def __init__(self, *parts):
        self.parts = parts

    @classmethod
    def _make_in_reduce_ex(cls, *parts):
        return cls(*parts)

    def __reduce_ex__(self, protocol):
        return Float8Tensor._make_in_reduce_ex, self.parts

    def dequantize(self, dtype):
        data, code, scale = self.parts[:3]
        kind = torch.float8_e4m3fn if int(code) == (7 if len(self.parts) == 5 else 6) else torch.float8_e5m2
        return (data.view(kind).float() * scale.reshape(())).to(dtype)


class Float8TensorOfFunction(Float8Tensor):
    def __reduce_ex__(self, protocol):
        return _make_float8_tensor_in_reduce_ex, self.parts


def _make_float8_tensor_in_reduce_ex(*parts):
    return Float8TensorOfFunction(*parts)


class OldDType:
    """As an enum of pybind11: an object whose state is a number."""
    def __init__(self, number):
        self.number = number

    def __int__(self):
        return self.number

    def __getstate__(self):
        return self.number

    def __setstate__(self, number):
        self.number = number


NewDType = enum.IntEnum("DType", {"kFloat8E4M3": 7, "kFloat8E5M2": 8})


def put_stand_ins():
    for module, name, thing in (("transformer_engine.pytorch.tensor.float8_tensor", "Float8Tensor", Float8Tensor), ("transformer_engine_torch", "DType", OldDType),
                                ("transformer_engine.pytorch.tensor.float8_tensor", "_make_float8_tensor_in_reduce_ex", _make_float8_tensor_in_reduce_ex),
                                ("transformer_engine.pytorch.constants", "DType", NewDType)):
        parts = module.split(".")
        for at in range(len(parts)):
            sys.modules.setdefault(".".join(parts[:at + 1]), types.ModuleType(module))
        setattr(sys.modules[module], name, thing)
        thing.__module__, thing.__name__, thing.__qualname__ = module, name, name


def engine_cases():
    out = collections.OrderedDict()
    codes = {"e4m3": [code for code in range(256) if code & 127 != 127], "e5m2": [code for code in range(256) if code & 127 <= 124]}
    for dtype in (torch.bfloat16, torch.float32, torch.float16):
        for kind, numbers in codes.items():
            for shape in ((16, 32), (2, 8, 16)):
                data = torch.tensor((numbers * 3)[:torch.Size(shape).numel()], dtype=torch.uint8).view(shape)
                scale = torch.rand(1) + 0.01
                number = 7 if kind == "e4m3" else 8
                key = "_%s_%s_%d" % (kind, str(dtype).rpartition(".")[2], len(shape))
                out["engine_2" + key] = Float8Tensor(data, OldDType(number), scale, dtype, data.shape)
                out["engine_1" + key] = Float8Tensor(data, OldDType(number - 1), scale, dtype)
                out["engine_function" + key] = Float8TensorOfFunction(data, NewDType(number), scale.reshape(()), dtype, data.shape)
                out["engine_large" + key] = Float8Tensor(data.clone(), OldDType(number), scale * 3e36, dtype, data.shape)
    out["engine_again"] = out["engine_large_e4m3_bfloat16_2"]
    return out


def cases():
    """Those of the classes that there are, and what was left out."""
    torch.manual_seed(3)
    out, left_out = engine_cases(), []
    for some in (todays_cases, affine_cases):
        try:
            out.update(some())
        except (ImportError, AttributeError) as error:  # torchao for another torch, or none
            if isinstance(error, AttributeError) and not str(error).startswith("module 'torch"):
                raise
            left_out.append("%s: %s" % (some.__name__, error))
    return out, left_out


def write_safetensors(out):
    """in.safetensors, as this torchao writes it, of the tensors that it can write so. NAME becomes m.NAME.weight."""
    try:
        from safetensors.torch import save_file
        from torchao.prototype.safetensors.safetensors_support import flatten_tensor_state_dict
    except (ImportError, AttributeError):
        return
    kept = {}
    for name, t in out.items():
        t = t.data if isinstance(t, torch.nn.Parameter) else t
        try:
            flatten_tensor_state_dict({"m.weight": t})
        except (AttributeError, ValueError):     # a class that this torchao does not write
            continue
        if type(t).__module__.startswith("torchao."):
            kept["m.%s.weight" % name] = t
    if kept:
        tensors, metadata = flatten_tensor_state_dict(kept)
        save_file({name: t.clone().contiguous() for name, t in tensors.items()}, "in.safetensors", metadata=metadata)


def judge_safetensors(path, dtype):
    from safetensors.torch import load_file
    given, found, wrong = torch.load("in.pt", weights_only=False), load_file(path), []
    for name, now in found.items():
        wanted = numbers_of(given[name[2:-7]], dtype).detach()
        if now.dtype != wanted.dtype or now.shape != wanted.shape or not torch.equal(bits(now), bits(wanted)):
            wrong.append("%s has other numbers" % name)
    return wrong if found else ["no tensors"]


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
        if not hasattr(torch, "float8_e4m3fn"):
            sys.exit("torch %s has no float8" % torch.__version__)
        out, left_out = cases()
        torch.save(out, "in.pt")
        write_safetensors(out)
        print("judged:", "; ".join(left_out))
    else:
        judge_of = judge if arguments[0].endswith(".pt") else judge_safetensors
        print("judged:", "; ".join(judge_of(arguments[0], getattr(torch, arguments[1]))))


put_stand_ins()
main(*sys.argv[1:])

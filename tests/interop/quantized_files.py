# SPDX-License-Identifier: Apache-2.0
"""Quantized weights of every scheme that `ckpt cast --dequantize` knows, and the numbers that they stand for. Run by torch of 2.8 or later:

    quantized_files.py OUTDIR [PATTERN...]      of the cases' names, as of files'

OUTDIR/CASE/ has model.safetensors and config.json as the scheme's package writes them, expected-{bf16,f16,f32}.safetensors with the
numbers, and case.json: the dtypes in which the tensors of the input are consumed, and who made the numbers.

The numbers come from the formula here, which names the code it stands for. Where ./packages has that code (quantized.py puts
it there), quantized_packages.py runs it, and a number that differs from the formula is told: exit status 1. So the formulas are
held against the packages where those are, and stand for them elsewhere.
"""

import fnmatch
import json
import os
import random
import sys
import warnings

warnings.simplefilter("ignore")

import torch  # noqa: E402

BF16, F16, F32 = torch.bfloat16, torch.float16, torch.float32
E4M3, E5M2, E8M0 = torch.float8_e4m3fn, torch.float8_e5m2, torch.float8_e8m0fnu
TARGETS = {"bf16": BF16, "f16": F16, "f32": F32}
CODES = {torch.float64: "F64", F32: "F32", F16: "F16", BF16: "BF16", torch.int64: "I64", torch.int32: "I32", torch.int16: "I16", torch.int8: "I8",
         torch.uint8: "U8", torch.bool: "BOOL", E4M3: "F8_E4M3", E5M2: "F8_E5M2", E8M0: "F8_E8M0"}
E2M1 = [0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0, -0.0, -0.5, -1.0, -1.5, -2.0, -3.0, -4.0, -6.0]
E2M3 = [m / 8 for m in range(8)] + [(1 + m / 8) * 2 ** e for e in range(3) for m in range(8)]
NF4 = [-1.0, -0.6961928009986877, -0.5250730514526367, -0.39491748809814453, -0.28444138169288635, -0.18477343022823334,
       -0.09105003625154495, 0.0, 0.07958029955625534, 0.16093020141124725, 0.24611230194568634, 0.33791524171829224,
       0.44070982933044434, 0.5626170039176941, 0.7229568362236023, 1.0]
FP4 = [x / 12 for x in (0, 0.0625, 8.0, 12.0, 4.0, 6.0, 2.0, 3.0, 0, -0.0625, -8.0, -12.0, -4.0, -6.0, -2.0, -3.0)]
SPECIAL = [1.0, 0.0, 2.0 ** -149, 1e-40, 2.0 ** -127, 2.0 ** -126, 3e-8, 6e-5, 65504.0, 3.4e38, float("inf"), float("nan"), -1.5, -0.0]
AWQ_FIELDS = [0, 4, 1, 5, 2, 6, 3, 7]       # in which field of a word each of eight columns is


def save(path, tensors, metadata=None):
    header, at = {}, 0
    if metadata:
        header["__metadata__"] = metadata
    for name in sorted(tensors):
        tensor = tensors[name]
        header[name] = {"dtype": CODES[tensor.dtype], "shape": list(tensor.shape), "data_offsets": [at, at + tensor.numel() * tensor.element_size()]}
        at += tensor.numel() * tensor.element_size()
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as stream:
        stream.write(len(text).to_bytes(8, "little") + text)
        for name in sorted(tensors):
            stream.write(tensors[name].contiguous().reshape(-1).view(torch.uint8).numpy().tobytes())


class Weight:
    """One weight: its name, the tensors it is made of by their local names, what else its formula needs, and the formula itself."""

    def __init__(self, name, parts, options, formula):
        self.name, self.parts, self.options, self.formula = name, parts, options, formula


class Case:
    def __init__(self, name, kind, config):
        self.name, self.kind, self.config = name, kind, config
        self.tensors, self.weights, self.gone, self.metadata, self.files = {}, [], [], None, {}
        self.read_as = None      # what --as has to say

    def add(self, name, parts, formula, **options):
        """PARTS: for each local name, the name in the file and the tensor. OPTIONS: what quantized_packages.py has to know."""
        for local, (full, tensor) in parts.items():
            assert full not in self.tensors, full
            self.tensors[full] = tensor
            if full != name:
                self.gone.append(full)
        self.weights.append(Weight(name, {local: tensor for local, (_, tensor) in parts.items()}, options, formula))

    def drop(self, name, tensor):
        """Of no use without the quantization: scales of activations."""
        self.tensors[name] = tensor
        self.gone.append(name)

    def keep(self, name, tensor):
        self.tensors[name] = tensor


# ---- what files are made of

def seeded(*parts):
    r = random.Random("/".join(str(part) for part in parts))
    torch.manual_seed(r.randrange(1 << 31))
    return r


def codes_of(dtype, shape):
    """Every code of a type of 8 bits, in an order of no kind."""
    count = 1
    for size in shape:
        count *= size
    codes = torch.cat([torch.randperm(256) for _ in range(-(-count // 256))])[:count].to(torch.uint8)
    return codes.view(dtype).reshape(shape) if dtype != torch.uint8 else codes.reshape(shape)


def scales_of(shape, dtype, special):
    """Those of a trained model, or with numbers that are at an end of something."""
    scales = torch.rand(shape, dtype=torch.float64) * 0.02 + 1e-4
    flat = scales.reshape(-1)
    if special:
        for n in range(flat.numel()):
            if n % 3 == 0 or flat.numel() <= 8:
                flat[n] = SPECIAL[(n // 3 if flat.numel() > 8 else n) % len(SPECIAL)]
    return scales.to(F32).to(dtype)


def e8m0_of(shape, special, dtype=torch.uint8):
    codes = torch.randint(110, 130, shape)
    flat = codes.reshape(-1)
    if special:
        ends = [0, 1, 2, 7, 100, 103, 113, 127, 140, 142, 143, 250, 252, 253, 254, 255]
        for n in range(flat.numel()):
            if n % 2 == 0 or flat.numel() <= 16:
                flat[n] = ends[(n // 2 if flat.numel() > 16 else n) % len(ends)]
    codes = codes.to(torch.uint8)
    return codes if dtype == torch.uint8 else codes.view(dtype)


def spread(scale, rows, cols, block):
    """A scale for each item, of blocks whose last ones may be cut off."""
    return scale.repeat_interleave(block[0], -2)[..., :rows, :].repeat_interleave(block[1], -1)[..., :cols]


def nibbles(packed, high_first=False):
    low, high = packed & 15, packed >> 4
    pair = (high, low) if high_first else (low, high)
    return torch.stack(pair, -1).reshape(*packed.shape[:-1], -1).long()


def e2m1(packed):
    return torch.tensor(E2M1)[nibbles(packed.view(torch.uint8))]


def pack_words(items, bits, dense):
    """Along the last dimension, lowest bits first; DENSE: items may cross words."""
    rows = items.reshape(-1, items.shape[-1]).tolist()
    out = []
    for row in rows:
        words = []
        if dense:
            stream = 0
            for n, item in enumerate(row):
                stream |= item << n * bits
            count = -(-len(row) * bits // 32)
            words = [stream >> 32 * n & 0xFFFFFFFF for n in range(count)]
        else:
            each = 32 // bits
            for at in range(0, len(row), each):
                words.append(sum(item << n * bits for n, item in enumerate(row[at:at + each])))
        out.append([word - (1 << 32) if word >> 31 else word for word in words])
    return torch.tensor(out, dtype=torch.int32).reshape(*items.shape[:-1], -1)


def words_of(shape, bits):
    """Items along the last dimension, and the words that hold them. Of many items the words are made first, which Python does not do one by one."""
    if shape[0] * shape[1] < 100000 or 32 % bits:
        items = torch.randint(0, 1 << bits, shape)
        return items, pack_words(items, bits, True)
    words = torch.randint(-(1 << 31), 1 << 31, (shape[0], shape[1] * bits // 32)).to(torch.int32)
    items = (words.long().unsqueeze(-1) >> torch.arange(0, 32, bits)) & (1 << bits) - 1
    return items.reshape(shape), words


def old_words_of(shape, bits):
    """No item crosses words: as compressed-tensors packed before 0.18."""
    items = torch.randint(0, 1 << bits, shape)
    return items, pack_words(items, bits, False)


def standard(case):
    """What is in every model, and stays."""
    case.keep("model.embed_tokens.weight", torch.randn(7, 5).to(BF16))
    case.keep("model.norm.weight", torch.randn(9).to(BF16))
    case.keep("lm_head.weight", torch.randn(3, 6).to(F32))
    return case


def layer(n, part):
    return "model.layers.%d.%s" % (n, part)


# ---- FP8 with blocks: DeepSeek V3 and V4, Qwen, MiniMax

def fp8_config(block, **more):
    return {"model_type": "deepseek_v3", "torch_dtype": "bfloat16", "quantization_config": {
        "quant_method": "fp8", "fmt": "e4m3", "activation_scheme": "dynamic", "weight_block_size": block, **more}}


def product32(items, scale, dtype):
    """DeepSeek's weight_dequant_kernel, compressed-tensors' FP8BlockDequantizer, Fp8Dequantize of transformers: one product in
    float32, rounded once."""
    return (items.to(F32) * scale.to(F32)).to(dtype)


def fp8_blocks(name, block, shapes, scale_dtype=F32, special=True):
    case = standard(Case(name, "fp8_blocks", fp8_config(block)))
    for n, shape in enumerate(shapes):
        seeded(name, n)
        base = layer(n, "self_attn.kv_a_proj_with_mqa")
        grid = shape[:-2] + (-(-shape[-2] // block[0]), -(-shape[-1] // block[1]))
        items, scale = codes_of(E4M3, shape), scales_of(grid, scale_dtype, special and n)
        if len(shape) == 3:
            base = layer(n, "mlp.experts.gate_up_proj")
            parts = {"weight": (base, items), "weight_scale_inv": (base + "_scale_inv", scale)}
            weight = base
        else:
            weight = base + ".weight"
            parts = {"weight": (weight, items), "weight_scale_inv": (weight + "_scale_inv", scale)}
        case.add(weight, parts, lambda dtype, i=items, s=scale, b=block: product32(i, spread(s, *i.shape[-2:], b), dtype), block=block)
        case.keep(base + ".bias", torch.randn(shape[-2]).to(BF16))
    return case


def fp8_tensor():
    """weight_block_size null: one scale for each weight."""
    case = standard(Case("fp8_tensor", "fp8_tensor", fp8_config(None, activation_scheme="static")))
    for n, scale in enumerate((0.0123, 1e-40, float("nan"), 3e38, 0.0)):
        seeded("fp8_tensor", n)
        base, items = layer(n, "mlp.up_proj"), codes_of(E4M3, (9, 31))
        scale = torch.tensor(scale) if n % 2 else torch.tensor([scale])
        case.add(base + ".weight", {"weight": (base + ".weight", items), "weight_scale_inv": (base + ".weight_scale_inv", scale)},
                 lambda dtype, i=items, s=scale: product32(i, s, dtype))
        case.drop(base + ".activation_scale", torch.tensor(0.5))
    return case


def fp8_mx(name, method, dtype):
    """Fp8Dequantize with scales that are powers of two, 32 items to each: bytes in `mxfp8`, of which 255 is infinite; or float8_e8m0fnu, of which it is NaN."""
    config = fp8_config([1, 32], scale_fmt="ue8m0")
    config["quantization_config"]["quant_method"] = method
    case = standard(Case(name, "fp8_blocks", config))
    for n, shape in enumerate(((16, 64), (3, 32), (2, 5, 96))):
        seeded(name, n)
        base, items = layer(n, "mlp.up_proj") if n < 2 else layer(n, "mlp.experts.down_proj"), codes_of(E4M3, shape)
        scale = e8m0_of(shape[:-1] + (shape[-1] // 32,), n, dtype)
        weight = base + (".weight" if n < 2 else "")

        def formula(target, i=items, s=scale):
            wide = power_of_two(s) if s.dtype == torch.uint8 else s.to(F32)
            return product32(i, wide.repeat_interleave(32, -1), target)
        case.add(weight, {"weight": (weight, items), "weight_scale_inv": (weight + "_scale_inv", scale)}, formula, block=(1, 32))
    return case


def fp8_e8m0(name, special):
    """DeepSeek V4: `.scale` of float8_e8m0fnu; the experts are pairs of E2M1 in int8, 32 to a scale."""
    config = fp8_config([128, 128], scale_fmt="ue8m0")
    config.update(model_type="deepseek_v4", expert_dtype="fp4")
    case = standard(Case(name, "deepseek_v4", config))
    for n, shape in enumerate(((128, 256), (130, 260), (5, 7), (192, 64))):
        seeded(name, n)
        base, items = "layers.%d.attn.wq_a" % n, codes_of(E4M3, shape)
        scale = e8m0_of((-(-shape[0] // 128), -(-shape[1] // 128)), special, E8M0)
        case.add(base + ".weight", {"weight": (base + ".weight", items), "scale": (base + ".scale", scale)},
                 lambda dtype, i=items, s=scale: product32(i, spread(s.to(F32), *i.shape, (128, 128)), dtype), block=(128, 128))
    for n, shape in enumerate(((8, 64), (3, 32), (5, 512))):
        seeded(name, "expert", n)
        base, items = "layers.0.ffn.experts.%d.w1" % n, codes_of(torch.int8, (shape[0], shape[1] // 2))
        scale = e8m0_of((shape[0], shape[1] // 32), special, E8M0)
        case.add(base + ".weight", {"weight": (base + ".weight", items), "scale": (base + ".scale", scale)},
                 lambda dtype, i=items, s=scale: product32(e2m1(i), s.to(F32).repeat_interleave(32, 1), dtype), block=(1, 32))
    return case


# ---- compressed-tensors

def ct_config(form, weights, activations=None, **more):
    group = {"targets": ["Linear"], "weights": weights, "input_activations": activations, "output_activations": None, "format": form}
    return {"model_type": "llama", "torch_dtype": "bfloat16", "quantization_config": {
        "quant_method": "compressed-tensors", "format": form, "quantization_status": "compressed", "ignore": ["lm_head"],
        "global_compression_ratio": None, "kv_cache_scheme": None, "config_groups": {"group_0": group}, **more}}


def ct_weights(bits, kind, strategy, symmetric=True, **more):
    return {"num_bits": bits, "type": kind, "strategy": strategy, "symmetric": symmetric, "dynamic": False, "group_size": None, **more}


ACTIVATIONS = {"num_bits": 8, "type": "float", "strategy": "token", "symmetric": True, "dynamic": True, "group_size": None}


def in_scale_dtype(items, scale, zero=None):
    """compressed-tensors' _dequantize: every step in the dtype of the scale."""
    value = items.to(scale.dtype)
    if zero is not None:
        value = value - zero.to(scale.dtype)
    return value * scale


def ct_grid(strategy, shape, weights):
    """The shape of the scales, and the block that one of them is for."""
    rows, cols = shape
    if strategy == "tensor":
        return (1,), (rows, cols)
    if strategy == "channel":
        return (rows, 1), (1, cols)
    if strategy == "group":
        return (rows, cols // weights["group_size"]), (1, weights["group_size"])
    height, width = weights["block_structure"]
    return (-(-rows // height), -(-cols // width)), (height, width)


def ct_plain(name, form, weights, dtype, shapes):
    """float-quantized and int-quantized: an item is a number."""
    floating = weights["type"] == "float"
    case = standard(Case(name, "ct", ct_config(form, weights, ACTIVATIONS if form != "naive-quantized" else None)))
    for n, shape in enumerate(shapes):
        seeded(name, n)
        base = layer(n, "self_attn.q_proj")
        grid, block = ct_grid(weights["strategy"], shape, weights)
        items = codes_of(E4M3 if floating else torch.int8, shape)
        scale = scales_of(grid, dtype, n)
        if n and grid == (1,):
            scale = torch.tensor([SPECIAL[n % len(SPECIAL)]]).to(dtype)
        parts = {"weight": (base + ".weight", items), "weight_scale": (base + ".weight_scale", scale)}
        zero = None
        if not weights["symmetric"]:
            zero = torch.randint(-128, 128, grid).to(torch.int8)
            parts["weight_zero_point"] = (base + ".weight_zero_point", zero)

        def formula(target, i=items, s=scale, z=zero, b=block):
            wide = [part if part is None or part.dim() < 2 else spread(part, *i.shape, b) for part in (s, z)]
            return in_scale_dtype(i, *wide).to(target)
        case.add(base + ".weight", parts, formula, form=form, weights=weights)
        case.keep(base + ".bias", torch.randn(shape[0]).to(BF16))
        if weights["strategy"] == "tensor":
            case.drop(base + ".input_scale", torch.tensor([0.125]).to(dtype))
    return case


def ct_packed(name, bits, strategy, symmetric, dtype, shapes, group=None, order=None, dense=True):
    """pack-quantized: fields of unsigned integers in int32 words; zero points are packed along the rows."""
    weights = ct_weights(bits, "int", strategy, symmetric, group_size=group, **({"actorder": order} if order else {}))
    new = dense and order != "group"
    case = standard(Case(name, "ct" if new else "ct_old", ct_config("pack-quantized", weights, version="0.20.0" if new else "0.15.0.1")))
    half = 1 << bits - 1
    for n, shape in enumerate(shapes):
        r = seeded(name, n)
        base = layer(n, "mlp.down_proj")
        grid, block = ct_grid(strategy, shape, weights)
        items, words = words_of(shape, bits) if dense else old_words_of(shape, bits)
        scale = scales_of(grid, dtype, n)
        zero = torch.randint(0, 1 << bits, grid) if not symmetric else None
        parts = {"weight_packed": (base + ".weight_packed", words),
                 "weight_scale": (base + ".weight_scale", scale),
                 "weight_shape": (base + ".weight_shape", torch.tensor(shape, dtype=torch.int32 if n == 1 else torch.int64))}
        if zero is not None:
            parts["weight_zero_point"] = (base + ".weight_zero_point", pack_words(zero.t(), bits, dense).t().contiguous())
        index = None
        if order == "group":
            where = [column // group for column in range(shape[1])]
            r.shuffle(where)
            index = torch.tensor(where if n < 2 else [-1] * shape[1], dtype=torch.int32)     # -1: never set, and of no order
            parts["weight_g_idx"] = (base + ".weight_g_idx", index)
            index = index if n < 2 else None

        def formula(target, i=items, s=scale, z=zero, b=block, g=index):
            if g is not None:
                s, z = (part if part is None else part[:, g.long()] for part in (s, z))
            elif s.dim() > 1:
                s, z = (part if part is None else spread(part, *i.shape, b) for part in (s, z))
            return in_scale_dtype(i - half, s, None if z is None else z - half).to(target)
        case.add(base + ".weight", parts, formula, form="pack-quantized", weights=weights)
    return case


def ct_nvfp4(name, tops=(1234.5, 7.0, 3e38, 1e-38, 0.0, float("inf"), 0.1), shape=(16, 48)):
    """NVFP4PackedCompressor.decompress: bfloat16 comes out, whatever is asked for."""
    weights = ct_weights(4, "float", "tensor_group", group_size=16, scale_dtype="torch.float8_e4m3fn", zp_dtype="torch.float8_e4m3fn")
    case = standard(Case(name, "ct", ct_config("nvfp4-pack-quantized", weights)))
    for n, top in enumerate(tops):
        seeded(name, n)
        base = layer(n, "mlp.gate_proj")
        items, scale = codes_of(torch.uint8, (shape[0], shape[1] // 2)), codes_of(E4M3, (shape[0], shape[1] // 16))
        top = torch.tensor([top])
        parts = {"weight_packed": (base + ".weight_packed", items), "weight_scale": (base + ".weight_scale", scale),
                 "weight_global_scale": (base + ".weight_global_scale", top)}
        case.add(base + ".weight", parts, lambda target, i=items, s=scale, t=top: (
            e2m1(i) * (s.to(F32) / t).repeat_interleave(16, 1)).to(BF16).to(target), form="nvfp4-pack-quantized", weights=weights)
        case.drop(base + ".input_global_scale", torch.tensor([3.5]))
    return case


def power_of_two(codes):
    """2.0 ** (code - 127), in float32: 255 is infinite here, which is what the packages make of a uint8."""
    return torch.tensor([2.0 ** (code - 127) if code < 255 else float("inf") for code in range(256)], dtype=torch.float64).to(F32)[codes.long()]


def ct_mx(name, bits):
    """mxfp4-pack-quantized, mxfp6-pack-quantized, mxfp8-quantized: all in bfloat16."""
    form = "mxfp8-quantized" if bits == 8 else "mxfp%d-pack-quantized" % bits
    weights = ct_weights(bits, "float", "group", group_size=32, scale_dtype="torch.uint8", zp_dtype="torch.uint8")
    case = standard(Case(name, "ct", ct_config(form, weights)))
    for n, shape in enumerate(((32, 64), (5, 32), (7, 256))):
        seeded(name, n)
        base = layer(n, "mlp.up_proj")
        scale = e8m0_of((shape[0], shape[1] // 32), n)
        if bits == 8:
            items = codes_of(E4M3, shape)
            local, value = "weight", items.to(F32)
        elif bits == 6:
            items = codes_of(torch.uint8, (shape[0], shape[1] * 3 // 4))
            local, value = "weight_packed", e2m3(items)
        else:
            items = codes_of(torch.uint8, (shape[0], shape[1] // 2))
            local, value = "weight_packed", e2m1(items)
        parts = {local: (base + "." + local, items), "weight_scale": (base + ".weight_scale", scale)}
        case.add(base + ".weight", parts, lambda target, v=value, s=scale: (
            v * power_of_two(s).repeat_interleave(32, 1)).to(BF16).to(target), form=form, weights=weights)
    return case


def e2m3(packed):
    word = packed.reshape(packed.shape[0], -1, 3).long()
    word = word[..., 0] | word[..., 1] << 8 | word[..., 2] << 16
    codes = torch.stack([word >> shift & 63 for shift in (0, 6, 12, 18)], -1).reshape(packed.shape[0], -1)
    value = torch.tensor(E2M3)[codes & 31]
    return torch.where(codes >= 32, -value, value)


# ---- gpt-oss

def gpt_oss(name, original, shapes=((2, 6, 3, 16), (3, 5, 1, 16), (1, 40, 2, 16))):
    """transformers' convert_moe_packed_tensors transposes, as its model wants it; gpt_oss.torch.weights does not. Both use torch.ldexp,
    which is exact in torch 2.14: of the scale 255, too, a zero is a zero. (Torch 2.6 multiplies by 2.0 ** 128, which is infinite.)"""
    config = {"model_type": "gpt_oss", "torch_dtype": "bfloat16", "quantization_config": {
        "quant_method": "mxfp4", "modules_to_not_convert": ["model.layers.*.self_attn", "model.layers.*.mlp.router", "model.embed_tokens", "lm_head"]}}
    case = standard(Case(name, "gpt_oss_original" if original else "gpt_oss", config))
    for n, shape in enumerate(shapes):
        seeded(name, n)
        base = "block.%d.mlp.mlp1_weight" % n if original else layer(n, "mlp.experts.gate_up_proj" if n % 2 else "mlp.experts.down_proj")
        blocks, scales = codes_of(torch.uint8, shape), e8m0_of(shape[:-1], n)
        between = "." if original else "_"
        parts = {"blocks": (base + between + "blocks", blocks), "scales": (base + between + "scales", scales)}

        def formula(target, b=blocks, s=scales):
            exact = e2m1(b).double() * torch.exp2(s.double() - 127).unsqueeze(-1)
            value = exact.to(F32).to(target).reshape(*b.shape[:2], -1)
            return value if original else value.transpose(1, 2).contiguous()
        case.add(base, parts, formula)
        case.keep("block.%d.mlp.mlp1_bias" % n if original else base + "_bias", torch.randn(shape[:2]).to(BF16))
    return case


# ---- ModelOpt

def modelopt(name, algorithm, group=None, **more):
    """`hf_quant_config.json` beside a config.json that says the same."""
    config = {"model_type": "llama", "torch_dtype": "bfloat16", "quantization_config": {
        "quant_method": "modelopt", "quant_algo": algorithm, "ignore": ["lm_head"], "producer": {"name": "modelopt", "version": "0.47.0"}}}
    inner = {"quant_algo": algorithm, "kv_cache_quant_algo": None, "exclude_modules": ["lm_head"], **({"group_size": group} if group else {})}
    case = standard(Case(name, "modelopt", config))
    case.files["hf_quant_config.json"] = {"producer": {"name": "modelopt", "version": "0.47.0"}, "quantization": {**inner, **more}}
    return case


def modelopt_8bits(name, algorithm, dtype, channels):
    """FP8QTensor.dequantize, INT8QTensor.dequantize: the scale is rounded to the target, too, before the product."""
    case = modelopt(name, algorithm)
    for n, scale in enumerate((0.0123, 1e-40, float("nan"), 3e38, 0.0, 1e-5)):
        seeded(name, n)
        base, items = layer(n, "self_attn.o_proj"), codes_of(dtype, (12, 33))
        scale = scales_of((12,), F32, n) if channels else torch.tensor(scale)
        parts = {"weight": (base + ".weight", items), "weight_scale": (base + ".weight_scale", scale)}
        case.add(base + ".weight", parts, lambda target, i=items, s=scale: i.to(target) * (s[:, None] if channels else s).to(target), algorithm=algorithm)
        case.drop(base + ".input_scale", torch.tensor(0.25))
    return case


def modelopt_nvfp4(name):
    """NVFP4QTensor.dequantize: both scales multiplied in float32; the code 8 is +0.0, unlike elsewhere."""
    case = modelopt(name, "NVFP4", 16)
    for n, (top, shape) in enumerate(((1.7e-4, (16,)), (1.0, (16,)), (3e38, (16,)), (1e-41, (5,)), (0.0, (16,)), (float("nan"), (3,)), (0.01, (3, 8)))):
        seeded(name, n)
        base = layer(n, "mlp.gate_proj")
        items, scale, top = codes_of(torch.uint8, (*shape, 24)), codes_of(E4M3, (*shape, 3)), torch.tensor(top)
        parts = {"weight": (base + ".weight", items), "weight_scale": (base + ".weight_scale", scale), "weight_scale_2": (base + ".weight_scale_2", top)}

        def formula(target, i=items, s=scale, t=top):
            value = torch.tensor([0.0 if x == 0 else x for x in E2M1])[nibbles(i)]
            return (value * (s.to(F32) * t).repeat_interleave(16, -1)).to(target)
        case.add(base + ".weight", parts, formula, algorithm="NVFP4")
        case.drop(base + ".input_scale", torch.tensor(0.25))
    return case


def modelopt_mx(name, algorithm):
    case = modelopt(name, algorithm, 32)
    for n, shape in enumerate(((16, 64), (3, 32), (6, 288), (2, 6, 64))):
        seeded(name, n)
        base, scale = layer(n, "mlp.up_proj"), e8m0_of(shape[:-1] + (shape[-1] // 32,), n)
        items = codes_of(E4M3, shape) if algorithm == "MXFP8" else codes_of(torch.uint8, shape[:-1] + (shape[-1] // 2,))
        parts = {"weight": (base + ".weight", items), "weight_scale": (base + ".weight_scale", scale)}
        case.add(base + ".weight", parts, lambda target, i=items, s=scale: (
            (i.to(F32) if algorithm == "MXFP8" else e2m1(i)) * power_of_two(s).repeat_interleave(32, -1)).to(target), algorithm=algorithm)
    return case


# ---- GPTQ and AWQ

def gptq(name, bits, group, form="gptq", act=False, dtype=F16, shapes=((64, 32), (96, 64)), highest=False, wraps=True):
    """auto_gptq's qlinear_cuda_old and gptqmodel's PackableQuantLinear.dequantize_weight: scales * (weight - zeros) in the dtype of the
    scales; what a Linear has is the transpose of it. A stored zero is one less than it means, but in gptq_v2. WRAPS: the highest one means 0,
    as in qlinear_cuda_old and gptqmodel's converter; else 2 ** bits, as in qlinear_cuda, and in all of auto_gptq up to 0.6."""
    config = {"model_type": "llama", "torch_dtype": "float16", "quantization_config": {
        "quant_method": "gptq", "bits": bits, "group_size": group, "desc_act": act, "sym": False, "checkpoint_format": form, "damp_percent": 0.01}}
    case = standard(Case(name, "gptq", config))
    case.read_as = None if wraps else "auto_gptq_0.6"
    for n, (cols, rows) in enumerate(shapes):
        r = seeded(name, n)
        base, size = layer(n, "self_attn.v_proj"), cols if group == -1 else group
        groups = -(-cols // size)
        (items, words), fields = words_of((rows, cols), bits), torch.randint(0, 1 << bits, (groups, rows))
        if form == "gptq" and not highest:
            fields = fields.clamp(max=(1 << bits) - 2)
        index = [column // size for column in range(cols)]
        if act:
            r.shuffle(index)
        index = torch.tensor(index, dtype=torch.int32)
        scales = scales_of((groups, rows), dtype, n)
        parts = {"qweight": (base + ".qweight", words.t().contiguous()), "qzeros": (base + ".qzeros", pack_words(fields, bits, True)),
                 "scales": (base + ".scales", scales), "g_idx": (base + ".g_idx", index)}

        def formula(target, i=items, f=fields, s=scales, g=index.long()):
            zeros = f if form == "gptq_v2" else (f + 1) & (1 << bits) - 1 if wraps else f + 1
            return (s[g] * (i.t() - zeros[g]).to(s.dtype)).t().contiguous().to(target)
        case.add(base + ".weight", parts, formula, bits=bits, group=size, form=form, highest=highest, wraps=wraps)
        case.keep(base + ".bias", torch.randn(rows).to(F16))
    return case


def awq(name, group, dtype=F16, shapes=((64, 16), (96, 40))):
    """autoawq's dequantize_gemm: (weight - zero) * scale in the dtype of the scales, and the transpose of it."""
    config = {"model_type": "llama", "torch_dtype": "float16", "quantization_config": {
        "quant_method": "awq", "bits": 4, "group_size": group, "zero_point": True, "version": "gemm", "modules_to_not_convert": None}}
    case = standard(Case(name, "awq", config))
    for n, (cols, rows) in enumerate(shapes):
        seeded(name, n)
        base, size = layer(n, "mlp.down_proj"), cols if group == -1 else group
        fields, items = words_of((cols, rows), 4)
        zero_fields, zeros = words_of((cols // size, rows), 4)
        scales = scales_of((cols // size, rows), dtype, n)
        parts = {"qweight": (base + ".qweight", items), "qzeros": (base + ".qzeros", zeros), "scales": (base + ".scales", scales)}
        items, zeros = (value.reshape(value.shape[0], -1, 8)[..., AWQ_FIELDS].reshape(value.shape) for value in (fields, zero_fields))
        case.add(base + ".weight", parts, lambda target, i=items, z=zeros, s=scales, g=size: (
            (i - z.repeat_interleave(g, 0)).to(s.dtype) * s.repeat_interleave(g, 0)).t().contiguous().to(target), group=size)
    return case


# ---- bitsandbytes

def bnb_config(**more):
    return {"model_type": "llama", "torch_dtype": "bfloat16", "quantization_config": {
        "quant_method": "bitsandbytes", "load_in_4bit": False, "load_in_8bit": False, "bnb_4bit_compute_dtype": "bfloat16", "bnb_4bit_quant_storage": "uint8",
        "llm_int8_threshold": 6.0, "llm_int8_has_fp16_weight": False, "llm_int8_skip_modules": None, "llm_int8_enable_fp32_cpu_offload": False, **more}}


def bnb_4bits(name, kind, nested, dtype, shapes, block=64, storage=torch.uint8):
    """bitsandbytes' dequantize_4bit: a table times absmax in float32, rounded to the dtype that the state says. Blocks run on over rows.
    The code 8 of fp4 is 0.0, as in the table; some kernels make -0.0 of it."""
    case = standard(Case(name, "bnb_4bits", bnb_config(load_in_4bit=True, bnb_4bit_quant_type=kind, bnb_4bit_use_double_quant=nested,
                                                       bnb_4bit_quant_storage=str(storage)[6:])))
    table = torch.tensor(NF4 if kind == "nf4" else FP4)
    for n, shape in enumerate(shapes):
        seeded(name, n)
        base = layer(n, "mlp.gate_proj") + ".weight"
        count = shape[0] * shape[1]
        blocks = -(-count // block)
        items = codes_of(torch.uint8, (-(-count // 2), 1))
        state = {"quant_type": kind, "blocksize": block, "dtype": str(dtype)[6:], "shape": list(shape)}
        parts = {"weight": (base, items.reshape(-1).view(storage).reshape(-1, 1)), "quant_map": (base + ".quant_map", table.clone())}
        if nested:
            state.update(nested_blocksize=256, nested_dtype="float32", nested_offset=0.0371234567)
            inner = torch.linspace(-0.99, 1.0, 256)
            codes, scale = codes_of(torch.uint8, (blocks,)), torch.rand(-(-blocks // 256)) * 0.01
            parts.update(absmax=(base + ".absmax", codes), nested_absmax=(base + ".nested_absmax", scale), nested_quant_map=(base + ".nested_quant_map", inner))
            absmax = inner[codes.long()] * scale.repeat_interleave(256)[:blocks] + torch.tensor(state["nested_offset"])
        else:
            absmax = scales_of((blocks,), F32, n)
            parts["absmax"] = (base + ".absmax", absmax)
        text = torch.tensor(list(json.dumps(state).encode()), dtype=torch.uint8)
        parts["quant_state"] = (base + ".quant_state.bitsandbytes__" + kind, text)
        case.add(base, parts, lambda target, i=items, a=absmax, s=shape, c=count, t=table: (
            t[nibbles(i.reshape(-1), True)[:c]] * a.repeat_interleave(block)[:c]).reshape(s).to(dtype).to(target), quant=kind, block=block, nested=nested, dtype=dtype, storage=storage)
    return case


def bnb_int8():
    """int8_vectorwise_dequant: two products in float32, the second with the float32 of 1/127 as it is written there."""
    case = standard(Case("bnb_int8", "bnb_int8", bnb_config(load_in_8bit=True)))
    for n, shape in enumerate(((16, 33), (256, 2), (14, 5))):
        seeded("bnb_int8", n)
        base, items, scale = layer(n, "mlp.up_proj"), codes_of(torch.int8, shape), scales_of(shape[:1], F32, n) * 100
        parts = {"weight": (base + ".weight", items), "SCB": (base + ".SCB", scale), "weight_format": (base + ".weight_format", torch.tensor(0, dtype=torch.uint8))}
        case.add(base + ".weight", parts, lambda target, i=items, s=scale: (i.to(F32) * s[:, None] * torch.tensor(7.874015718698502e-3)).to(target))
    return case


# ---- torchao

def torchao(name, config):
    case = standard(Case(name, "torchao", {"model_type": "llama", "torch_dtype": "bfloat16", "quantization_config": {
        "quant_method": "torchao", "quant_type": {"default": config}, "modules_to_not_convert": None, "include_input_output_embeddings": False}}))
    case.metadata = {"format": "pt"}
    return case


def torchao_add(case, n, kind, data, formula, of="mlp.down_proj.weight", **tensors):
    name = layer(n, of)
    module, own = name.rsplit(".", 1)
    parts = {local: ("%s._%s_%s" % (module, own, local), tensor) for local, tensor in tensors.items()}
    case.metadata[name] = json.dumps({"_type": kind, "_data": data, "_tensor_data_names": list(tensors)})
    case.add(name, parts, formula)
    return case


def torchao_finish(case):
    names = [weight.name for weight in case.weights] + [name for name in case.tensors if name not in case.gone]
    for name in names:
        case.metadata.setdefault(name, json.dumps({"_type": "Tensor"}))
    case.metadata["tensor_names"] = json.dumps(names)
    return case


def dtype_data(dtype):
    return {"_type": "torch.dtype", "_data": str(dtype)[6:]}


def torchao_float8(name, dtype, scale_dtype, item=E4M3):
    """_dequantize_affine_float8: in float32, rounded to the dtype that is asked for."""
    case = torchao(name, {"_type": "Float8WeightOnlyConfig", "_version": 2, "_data": {
        "weight_dtype": dtype_data(item), "set_inductor_config": True, "granularity": {"_type": "PerRow", "_version": 1, "_data": {"dim": -1}}}})
    for n, (shape, grid, block) in enumerate((((12, 32), (12, 1), (1, 32)), ((5, 7), (1, 1), (5, 7)), ((8, 64), (4, 2), (2, 32)))):
        seeded(name, n)
        items, scale = codes_of(item, shape), scales_of(grid, scale_dtype, n)
        data = {"block_size": list(block), "mm_config": None, "act_quant_kwargs": None,
                "kernel_preference": {"_type": "KernelPreference", "_data": "AUTO"}, "dtype": dtype_data(dtype)}
        torchao_add(case, n, "Float8Tensor", data, lambda target, i=items, s=scale, b=block: product32(i, spread(s, *i.shape, b), target), qdata=items, scale=scale)
    return torchao_finish(case)


def torchao_experts(name):
    """Parameters that are not called weight, of three dimensions: a scale for each row of each matrix, for blocks, or for all."""
    case = torchao(name, {"_type": "Float8WeightOnlyConfig", "_version": 2, "_data": {}})
    for n, (of, shape, grid, block) in enumerate((("mlp.experts.w1", (3, 12, 32), (3, 12, 1), (1, 1, 32)), ("mlp.experts.gate_up_proj", (2, 8, 64), (2, 4, 2), (1, 2, 32)),
                                                  ("mlp.experts._act_scale_", (2, 5, 16), (1, 1, 1), (2, 5, 16)), ("mlp.router.w", (5, 8), (5, 1), (1, 8)))):
        seeded(name, n)
        items, scale = codes_of(E4M3, shape), scales_of(grid, F32, n)
        data = {"block_size": list(block), "mm_config": None, "act_quant_kwargs": None,
                "kernel_preference": {"_type": "KernelPreference", "_data": "AUTO"}, "dtype": dtype_data(BF16)}
        torchao_add(case, n, "Float8Tensor", data, lambda target, i=items, s=scale, b=block: product32(i, spread(s, *i.shape[-2:], b[-2:]), target), of=of,
                    qdata=items, scale=scale)
    for n, (of, shape) in enumerate((("mlp.experts.w2", (3, 12, 32)), ("mlp.experts.down", (2, 4, 7)))):
        seeded(name, "int8", n)
        items, scale, zero = codes_of(torch.int8, shape), scales_of((*shape[:2], 1), BF16, n), torch.randint(-128, 128, (*shape[:2], 1)).to(torch.int8)
        data = {"act_quant_kwargs": None, "reduce_range": False, "block_size": [1, 1, shape[2]], "dtype": dtype_data(BF16)}
        torchao_add(case, n, "Int8Tensor", data, lambda target, i=items, s=scale, z=zero: affine(i, s, z, target), of=of, zero_point=zero, qdata=items, scale=scale)
    return torchao_finish(case)


def affine(items, scale, zero, target):
    """torchao's _dequantize_affine_no_dtype_check: items and zero points as numbers of the target, times the scale as it is."""
    value = items.to(target)
    if zero is not None:
        value = value - zero.to(target)
    return (value * scale).to(target)


def torchao_int8(name, dtype, scale_dtype, zeros):
    case = torchao(name, {"_type": "Int8WeightOnlyConfig", "_version": 2, "_data": {
        "group_size": None, "granularity": {"_type": "PerRow", "_version": 1, "_data": {"dim": -1}}, "set_inductor_config": True}})
    for n, shape in enumerate(((12, 32), (40, 7))):
        seeded(name, n)
        items, scale = codes_of(torch.int8, shape), scales_of((shape[0], 1), scale_dtype, n)
        zero = torch.randint(-128, 128, (shape[0], 1)).to(torch.int8) if zeros else None
        data = {"act_quant_kwargs": None, "reduce_range": False, "block_size": [1, shape[1]], "dtype": dtype_data(dtype)}
        more = {"zero_point": zero} if zeros else {}
        torchao_add(case, n, "Int8Tensor", data, lambda target, i=items, s=scale, z=zero: affine(i, s, z, target), **more, qdata=items, scale=scale)
    return torchao_finish(case)


def torchao_intx(name, dtype):
    """IntxUnpackedToInt8Tensor.dequantize takes no dtype: the tensor's own comes out."""
    case = torchao(name, {"_type": "IntxWeightOnlyConfig", "_version": 2, "_data": {}})
    for n, (shape, group) in enumerate((((12, 64), 32), ((3, 16), 16))):
        seeded(name, n)
        items, scale = torch.randint(-8, 8, shape).to(torch.int8), scales_of((shape[0], shape[1] // group), dtype, n)
        zero = torch.randint(-8, 8, scale.shape).to(torch.int8)
        data = {"target_dtype": dtype_data(torch.int4), "block_size": [1, group], "dtype": dtype_data(dtype), "activation_quantization": None}
        torchao_add(case, n, "IntxUnpackedToInt8Tensor", data, lambda target, i=items, s=scale, z=zero, g=group: affine(
            i, s.repeat_interleave(g, 1), z.repeat_interleave(g, 1), dtype).to(target), qdata=items, scale=scale, zero_point=zero)
    return torchao_finish(case)


def torchao_mx(name, four_bits):
    """to_dtype: items and scales as numbers of the target, and their product there; the scale 255 is NaN."""
    case = torchao(name, {"_type": "MXDynamicActivationMXWeightConfig", "_version": 1, "_data": {}})
    for n, shape in enumerate(((12, 64), (5, 32), (4, 256))):
        seeded(name, n)
        items = codes_of(torch.uint8, (shape[0], shape[1] // 2)) if four_bits else codes_of(E4M3, shape)
        scale = e8m0_of((shape[0], shape[1] // 32), n, E8M0)
        data = {"elem_dtype": dtype_data(torch.float4_e2m1fn_x2 if four_bits else E4M3), "block_size": 32, "orig_dtype": dtype_data(BF16),
                "kernel_preference": {"_type": "KernelPreference", "_data": "EMULATED"}, "act_quant_kwargs": None, "is_swizzled_scales": False}

        def formula(target, i=items, s=scale):
            codes = s.view(torch.uint8)
            wide = torch.where(codes == 255, float("nan"), power_of_two(codes)).to(target).repeat_interleave(32, 1)
            return (e2m1(i) if four_bits else i).to(target) * wide
        torchao_add(case, n, "MXTensor", data, formula, qdata=items, scale=scale)
    return torchao_finish(case)


def to_blocked(scale, shape):
    """to_blocked() of torchao, as cuBLAS says it, of the scales of all matrices; and codes of NaN, which nobody may look at, where there are none."""
    codes = scale.view(torch.uint8).reshape(-1, scale.shape[-1])
    tiles, row, col = -(-codes.shape[1] // 4), torch.arange(codes.shape[0])[:, None], torch.arange(codes.shape[1])[None, :]
    out = torch.full((-(-codes.shape[0] // 128) * tiles * 512,), 255 if scale.dtype == E8M0 else 127, dtype=torch.uint8)
    out[(row // 128 * tiles + col // 4) * 512 + row % 32 * 16 + row % 128 // 32 * 4 + col % 4] = codes
    return out.view(scale.dtype).reshape(shape)


# The shape of a weight, and that of its scales, which torchao writes as [..., 32 * ceil(M / 128), 16 * ceil(scales of a row / 4)], and reads in any: of
# experts, from_blocked() takes those of all matrices for one matrix.
SWIZZLED_MX = (((16, 64), (32, 16)), ((128, 128), (32, 16)), ((300, 160), (96, 32)), ((129, 4128), (64, 528)), ((33, 96), (512,)), ((1, 32), (1, 2, 256)),
               ((3, 128, 96), (3, 32, 16)), ((2, 100, 160), (2, 32, 32)), ((3, 40, 64), (32, 16)), ((5, 7, 288), (512, 3)), ((2, 2, 64, 64), (2, 2, 16, 16)))
SWIZZLED_NVFP4 = (((16, 64), (32, 16)), ((128, 128), (32, 32)), ((144, 48), (64, 16)), ((272, 80), (96, 32)), ((5, 2096), (32, 528)), ((48, 16), (512,)),
                  ((3, 128, 48), (3, 32, 16)), ((2, 112, 80), (2, 32, 32)), ((3, 32, 64), (32, 16)))


def torchao_mx_swizzled(name, four_bits, item=E4M3):
    case = torchao(name, {"_type": "MXDynamicActivationMXWeightConfig", "_version": 1, "_data": {}})
    for n, (shape, stored) in enumerate(SWIZZLED_MX):
        seeded(name, n)
        items = codes_of(torch.uint8, (*shape[:-1], shape[-1] // 2)) if four_bits else codes_of(item, shape)
        scale = e8m0_of((*shape[:-1], shape[-1] // 32), n % 2, E8M0)
        data = {"elem_dtype": dtype_data(torch.float4_e2m1fn_x2 if four_bits else item), "block_size": 32, "orig_dtype": dtype_data(BF16),
                "kernel_preference": {"_type": "KernelPreference", "_data": "AUTO"}, "act_quant_kwargs": None, "is_swizzled_scales": True}

        def formula(target, i=items, s=scale):
            codes = s.view(torch.uint8)
            wide = torch.where(codes == 255, float("nan"), power_of_two(codes)).to(target).repeat_interleave(32, -1)
            return (e2m1(i) if four_bits else i).to(target) * wide
        torchao_add(case, n, "MXTensor", data, formula, of="mlp.experts.w%d" % n, qdata=items, scale=to_blocked(scale, stored))
    return torchao_finish(case)


def torchao_nvfp4_swizzled(name, tops):
    case = torchao(name, {"_type": "NVFP4DynamicActivationNVFP4WeightConfig", "_version": 1, "_data": {}})
    for n, (shape, stored) in enumerate(SWIZZLED_NVFP4):
        seeded(name, n)
        items, scale = codes_of(torch.uint8, (*shape[:-1], shape[-1] // 2)), codes_of(E4M3, (*shape[:-1], shape[-1] // 16))
        data = {"is_swizzled_scales": True, "use_triton_kernel": False, "act_quant_kwargs": None, "block_size": 16, "orig_dtype": dtype_data(BF16)}
        more = {"per_tensor_scale": torch.tensor(tops[n % len(tops)])} if tops else {}

        def formula(target, i=items, s=scale, t=more.get("per_tensor_scale")):
            wide = s.to(F32) if t is None else t * s.to(F32)
            return (e2m1(i) * wide.repeat_interleave(16, -1)).to(target)
        torchao_add(case, n, "NVFP4Tensor", data, formula, of="mlp.experts.w%d" % n, **more, qdata=items, scale=to_blocked(scale, stored))
    return torchao_finish(case)


def torchao_nvfp4_experts(name):
    """A second scale for each matrix, and one for all that has dimensions, as 0.18 takes them: with scales row by row and in the order of cuBLAS."""
    case = torchao(name, {"_type": "NVFP4DynamicActivationNVFP4WeightConfig", "_version": 1, "_data": {}})
    for n, (shape, stored, tops) in enumerate((((3, 128, 48), (3, 32, 16), [1.7e-4, 3e38, 0.03]), ((2, 112, 80), (2, 32, 32), [0.4, 1e-41]), ((3, 32, 64), None, [0.5, 2e-3, 7e4]),
                                               ((2, 5, 16), None, [0.7]), ((2, 128, 16), (64, 16), [0.7]), ((16, 48), None, [0.03]), ((144, 48), (64, 16), [0.03]))):
        seeded(name, n)
        items, scale = codes_of(torch.uint8, (*shape[:-1], shape[-1] // 2)), codes_of(E4M3, (*shape[:-1], shape[-1] // 16))
        top = torch.tensor(tops).view(-1, 1, 1)
        data = {"is_swizzled_scales": stored is not None, "use_triton_kernel": False, "act_quant_kwargs": None, "block_size": 16, "orig_dtype": dtype_data(BF16)}

        def formula(target, i=items, s=scale, t=top):
            return (e2m1(i) * (t * s.to(F32)).view(s.shape).repeat_interleave(16, -1)).to(target)
        torchao_add(case, n, "NVFP4Tensor", data, formula, of="mlp.experts.w%d" % n, per_tensor_scale=top, qdata=items,
                    scale=scale if stored is None else to_blocked(scale, stored))
    return torchao_finish(case)


def torchao_nvfp4(name):
    case = torchao(name, {"_type": "NVFP4WeightOnlyConfig", "_version": 1, "_data": {}})
    for n, top in enumerate((None, 1.7e-4, 1e-41, 3e38)):
        seeded(name, n)
        items, scale = codes_of(torch.uint8, (16, 24)), codes_of(E4M3, (16, 3))
        data = {"is_swizzled_scales": False, "use_triton_kernel": False, "act_quant_kwargs": None, "block_size": 16, "orig_dtype": dtype_data(BF16)}
        more = {} if top is None else {"per_tensor_scale": torch.tensor(top)}

        def formula(target, i=items, s=scale, t=more.get("per_tensor_scale")):
            wide = s.to(F32) if t is None else t * s.to(F32)
            return (e2m1(i) * wide.repeat_interleave(16, 1)).to(target)
        torchao_add(case, n, "NVFP4Tensor", data, formula, **more, qdata=items, scale=scale)
    return torchao_finish(case)


# ---- all of them

BLOCKS = ((130, 257), (192, 128), (64, 64))
MANY = ((64, 96), (33, 50), (1, 1), (2, 64, 96), (100, 7))


def cases():
    yield fp8_blocks("fp8_blocks", [128, 128], BLOCKS)
    yield fp8_blocks("fp8_small_blocks", [32, 16], MANY)
    yield fp8_blocks("fp8_bf16_scales", [32, 16], MANY[:3], BF16)
    yield fp8_mx("fp8_mxfp8", "mxfp8", torch.uint8)
    yield fp8_mx("fp8_ue8m0", "fp8", E8M0)
    yield fp8_tensor()
    yield fp8_e8m0("deepseek_v4", True)
    for text, dtype in TARGETS.items():
        yield ct_plain("ct_fp8_tensor_" + text, "float-quantized", ct_weights(8, "float", "tensor"), dtype, [(16, 17)] * 9)
        yield ct_plain("ct_fp8_channel_" + text, "float-quantized", ct_weights(8, "float", "channel"), dtype, [(16, 33), (42, 8)])
        yield ct_plain("ct_fp8_block_" + text, "float-quantized", ct_weights(8, "float", "block", block_structure=[32, 16]), dtype, [(64, 32), (50, 64)])
        yield ct_plain("ct_int8_channel_" + text, "int-quantized", ct_weights(8, "int", "channel"), dtype, [(16, 33), (42, 8)])
        yield ct_packed("ct_int4_group_" + text, 4, "group", True, dtype, [(8, 64), (5, 96)], 32)
        yield ct_packed("ct_int4_group_asymmetric_" + text, 4, "group", False, dtype, [(8, 64), (5, 96)], 32)
    yield ct_plain("ct_fp8_group", "naive-quantized", ct_weights(8, "float", "group", group_size=32), BF16, [(16, 64)])
    yield ct_plain("ct_int8_tensor_asymmetric", "int-quantized", ct_weights(8, "int", "tensor", False), BF16, [(16, 17)] * 5)
    yield ct_plain("ct_int8_channel_asymmetric", "int-quantized", ct_weights(8, "int", "channel", False), BF16, [(16, 33), (42, 8)])
    yield ct_plain("ct_int8_group_asymmetric", "naive-quantized", ct_weights(8, "int", "group", False, group_size=16), F16, [(16, 64)])
    yield ct_packed("ct_int4_channel", 4, "channel", True, BF16, [(8, 37), (3, 64), (1, 1)])
    yield ct_packed("ct_int4_channel_asymmetric", 4, "channel", False, F16, [(8, 37), (3, 64)])
    yield ct_packed("ct_int4_group_order", 4, "group", True, BF16, [(8, 64), (6, 128)], 16, "weight")
    yield ct_packed("ct_int4_g_idx", 4, "group", True, F16, [(8, 64), (6, 128), (4, 32)], 16, "group", False)
    yield ct_packed("ct_int4_g_idx_asymmetric", 4, "group", False, BF16, [(8, 64), (6, 128), (4, 32)], 16, "group", False)
    for bits in (2, 8):
        yield ct_packed("ct_int%d_packed" % bits, bits, "group", True, BF16, [(8, 64), (5, 96)], 32)
        yield ct_packed("ct_int%d_packed_asymmetric" % bits, bits, "group", False, BF16, [(8, 64), (5, 96)], 32)
    for bits in (3, 5, 6, 7):
        yield ct_packed("ct_int%d_dense" % bits, bits, "group", False, BF16, [(8, 64), (5, 96)], 32)
        for dense in (True, False):     # as many words either way, and other bits in them
            yield ct_packed("ct_int%d_by_version_%s" % (bits, "dense" if dense else "apart"), bits, "channel", False, BF16, [(20, 20), (12, 12), (40, 6)], dense=dense)
    yield ct_packed("ct_int3_old", 3, "group", False, BF16, [(8, 64), (5, 96)], 32, dense=False)
    yield ct_nvfp4("ct_nvfp4")
    for bits in (4, 6, 8):
        yield ct_mx("ct_mxfp%d" % bits, bits)
    yield gpt_oss("gpt_oss", False)
    yield gpt_oss("gpt_oss_original", True)
    yield modelopt_8bits("modelopt_fp8", "FP8", E4M3, False)
    yield modelopt_8bits("modelopt_fp8_channel", "FP8_PER_CHANNEL_PER_TOKEN", E4M3, True)
    yield modelopt_8bits("modelopt_int8", "W8A8_SQ_PER_CHANNEL", torch.int8, True)
    yield modelopt_nvfp4("modelopt_nvfp4")
    yield modelopt_mx("modelopt_mxfp8", "MXFP8")
    yield modelopt_mx("modelopt_mxfp4", "W4A8_MXFP4_FP8")
    for bits in (2, 3, 4, 8):
        yield gptq("gptq_%d" % bits, bits, 32, shapes=((64, 32), (96, 64), *(((80, 48),) if bits != 3 else ())))
    yield gptq("gptq_highest_zero", 4, 32, highest=True)
    for bits in (2, 3, 4, 8):
        yield gptq("gptq_highest_zero_0.6_%d" % bits, bits, 32, highest=True, wraps=False)
    yield gptq("gptq_v2", 4, 32, "gptq_v2")
    yield gptq("gptq_v2_3", 3, 32, "gptq_v2")
    yield gptq("gptq_act", 4, 16, act=True)
    yield gptq("gptq_column", 4, -1)
    yield gptq("gptq_bf16", 4, 32, dtype=BF16)
    yield awq("awq", 32)
    yield awq("awq_column", -1)
    yield bnb_4bits("bnb_nf4", "nf4", False, BF16, ((16, 64), (6, 50), (9, 100), (1, 64)))
    yield bnb_4bits("bnb_nf4_odd", "nf4", False, F16, ((5, 33), (3, 1)))
    yield bnb_4bits("bnb_nf4_f32", "nf4", False, F32, ((16, 64), (9, 100)), 128)
    yield bnb_4bits("bnb_nf4_nested", "nf4", True, BF16, ((16, 64), (300, 64)))
    yield bnb_4bits("bnb_fp4", "fp4", False, F16, ((16, 64), (9, 100)))
    yield bnb_4bits("bnb_fp4_odd", "fp4", False, BF16, ((5, 33),))
    yield bnb_4bits("bnb_fp4_nested", "fp4", True, F16, ((16, 64),))
    yield bnb_4bits("bnb_nf4_in_bf16", "nf4", False, BF16, ((16, 64), (6, 50)), storage=BF16)      # bytes in the dtype of other weights: FSDP
    yield bnb_4bits("bnb_nf4_in_f32", "nf4", True, F16, ((16, 64),), storage=F32)
    yield bnb_int8()
    yield torchao_float8("torchao_float8", BF16, F32)
    yield torchao_float8("torchao_float8_bf16", BF16, BF16)
    yield torchao_float8("torchao_float8_e5m2", BF16, F32, torch.float8_e5m2)
    yield torchao_experts("torchao_experts")
    yield torchao_int8("torchao_int8", BF16, BF16, False)
    yield torchao_int8("torchao_int8_f32", BF16, F32, True)
    yield torchao_intx("torchao_intx", BF16)
    yield torchao_mx("torchao_mxfp8", False)
    yield torchao_mx("torchao_mxfp4", True)
    yield torchao_nvfp4("torchao_nvfp4")
    yield torchao_mx_swizzled("torchao_mxfp8_swizzled", False)
    yield torchao_mx_swizzled("torchao_mxfp8_e5m2_swizzled", False, E5M2)
    yield torchao_mx_swizzled("torchao_mxfp4_swizzled", True)
    yield torchao_nvfp4_experts("torchao_nvfp4_experts")
    yield torchao_nvfp4_swizzled("torchao_nvfp4_swizzled", ())
    yield torchao_nvfp4_swizzled("torchao_nvfp4_swizzled_scaled", (1.7e-4, 1e-41, 3e38, 0.03))
    # Large enough for several threads and for more than one band of rows.
    yield fp8_blocks("large_fp8_blocks", [128, 128], ((1700, 1111),))
    yield fp8_blocks("large_fp8_experts", [128, 128], ((3, 700, 900),))
    yield ct_plain("large_ct_int8_channel", "int-quantized", ct_weights(8, "int", "channel", False), BF16, [(1500, 1033)])
    yield ct_packed("large_ct_int4_group", 4, "group", False, BF16, [(1024, 1536)], 128)
    yield ct_packed("large_ct_int4_g_idx", 4, "group", False, F16, [(1024, 1536)], 128, "group", True)
    yield ct_nvfp4("large_ct_nvfp4", (1234.5,), (1025, 1040))
    yield gpt_oss("large_gpt_oss", False, ((3, 530, 31, 16),))
    yield gptq("large_gptq_4", 4, 128, shapes=((1536, 1024),))
    yield gptq("large_gptq_act", 4, 128, act=True, shapes=((1536, 1024),))
    yield awq("large_awq", 128, shapes=((1536, 1032),))
    yield bnb_4bits("large_bnb_nf4", "nf4", True, BF16, ((1111, 1210),))


def same(one, other):
    """Bit by bit; a NaN is a NaN."""
    if one.dtype != other.dtype or one.shape != other.shape:
        return "%s %s, not %s %s" % (one.dtype, tuple(one.shape), other.dtype, tuple(other.shape))
    kind = torch.int32 if one.dtype == F32 else torch.int16
    differ = (one.contiguous().view(kind) != other.contiguous().view(kind)) & ~(one.isnan() & other.isnan())
    if not differ.any():
        return ""
    at = int(differ.flatten().nonzero()[0])
    return "%d of %d differ, the first at %d: %r, not %r" % (int(differ.sum()), differ.numel(), at, one.flatten()[at].item(), other.flatten()[at].item())


def numbers(case, packages, told):
    """{target: {weight: its numbers}}, and who made them."""
    made, by = {}, set()
    for text, target in TARGETS.items():
        made[text] = {}
        for weight in case.weights:
            value = weight.formula(target)
            for source, found in packages.reference(case, weight, target) if packages else ():
                difference = same(value, found)
                if difference:
                    told.append("%s, %s, %s: the formula and %s: %s" % (case.name, weight.name, text, source, difference))
                    value = found
                by.add(source)
            made[text][weight.name] = value
    return made, sorted(by) or ["the formula"]


def add_written(case, packages, made, by):
    """One more weight, as the package itself writes it."""
    for name, parts, source, numbers_of in packages.written(case):
        for full, tensor in parts.values():
            case.tensors[full] = tensor
        case.gone += [full for full, _ in parts.values() if full != name]
        case.weights.append(Weight(name, {}, {}, None))
        by.append(source)
        for text, target in TARGETS.items():
            made[text][name] = numbers_of(target)


def write(folder, case, packages, told):
    os.makedirs(folder, exist_ok=True)
    made, by = numbers(case, packages, told)
    if packages:
        add_written(case, packages, made, by)
    save(os.path.join(folder, "model.safetensors"), case.tensors, case.metadata)
    files = {"config.json": case.config, **case.files,
             "case.json": {"kind": case.kind, "as": case.read_as, "by": by, "gone": sorted(case.gone), "weights": sorted(weight.name for weight in case.weights)}}
    for name, value in files.items():
        with open(os.path.join(folder, name), "w", encoding="utf-8") as stream:
            json.dump(value, stream, indent=1)
    for text, tensors in made.items():
        save(os.path.join(folder, "expected-%s.safetensors" % text), tensors)
    return by


def main():
    packages = None
    if os.path.isdir("packages"):
        import quantized_packages as packages
        print("packages:", packages.describe())
    told = []
    for case in cases():
        if sys.argv[2:] and not any(fnmatch.fnmatch(case.name, pattern) for pattern in sys.argv[2:]):
            continue
        by = write(os.path.join(sys.argv[1], case.name), case, packages, told)
        print("%s: %d weights by %s" % (case.name, len(case.weights), ", ".join(by)))
    for text in told:
        print("FAIL", text)
    sys.exit(1 if told else 0)


if __name__ == "__main__":
    main()

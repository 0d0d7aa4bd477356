# SPDX-License-Identifier: Apache-2.0
"""Quantized weights whose parts do not fit together: each is an error, and never numbers. Needs no torch.

    CKPT=build/ckpt python3 tests/interop/quantized_damaged.py [SCHEME...]
    python3 tests/interop/quantized_damaged.py write FOLDER           only the files, FOLDER/SCHEME/NUMBER/{model.safetensors,config.json,why}

Of each scheme there is a sound file, which has to be read, and damaged ones: a part is missing, has another shape or a dtype that the scheme does
not know, is there under two names, or the config says something else than the tensors. Only damage is tried that leaves no meaning at all:
nothing is, for instance, taken off a dimension whose last block may be cut off.
"""

import copy
import json
import os
import random
import shlex
import shutil
import struct
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True      # the scripts' folder stays as it is

SIZES = {"F64": 8, "F32": 4, "F16": 2, "BF16": 2, "I64": 8, "I32": 4, "I16": 2, "I8": 1, "U8": 1, "U16": 2, "BOOL": 1, "F8_E4M3": 1, "F8_E5M2": 1, "F8_E8M0": 1}
FLOATS = ("F32", "F16", "BF16", "F64")
# What nothing is quantized to, beside what a part is: a dtype is only tried where no package reads it.
STRANGE = ("I64", "I16", "U16", "BOOL", "F8_E5M2", "F64")


def count_of(shape):
    count = 1
    for size in shape:
        count *= size
    return count


class File:
    def __init__(self, config, seed):
        self.tensors, self.config, self.metadata, self.files = {}, config, {}, {}
        self.random = random.Random(seed)
        self.add("model.norm.weight", "BF16", [9])

    def add(self, name, code, shape, data=None):
        size = count_of(shape) * SIZES[code]
        self.tensors[name] = (code, list(shape), self.number(code, size) if data is None else data)

    def number(self, code, size):
        """Bytes that are ordinary numbers."""
        if code == "F32":
            return b"".join((0x3C000000 + self.random.randrange(1 << 24)).to_bytes(4, "little") for _ in range(size // 4))
        if code in ("F16", "BF16"):
            return b"".join(((0x2000 if code == "F16" else 0x3C00) + self.random.randrange(1 << 9)).to_bytes(2, "little") for _ in range(size // 2))
        if code in ("F8_E4M3", "F8_E8M0"):
            return bytes(self.random.randrange(1, 120) for _ in range(size))
        return self.random.randbytes(size)

    def resize(self, name, code, shape):
        size = count_of(shape) * SIZES[code]
        data = self.tensors[name][2]
        self.tensors[name] = (code, list(shape), (data * (size // max(1, len(data)) + 1))[:size] if data else bytes(size))

    def write(self, folder):
        os.makedirs(folder)
        header, at = {}, 0
        if self.metadata:
            header["__metadata__"] = self.metadata
        for name, (code, shape, data) in self.tensors.items():
            header[name] = {"dtype": code, "shape": shape, "data_offsets": [at, at + len(data)]}
            at += len(data)
        text = json.dumps(header).encode()
        with open(os.path.join(folder, "model.safetensors"), "wb") as stream:
            stream.write(len(text).to_bytes(8, "little") + text + b"".join(data for _, _, data in self.tensors.values()))
        for name, value in {"config.json": self.config, **self.files}.items():
            with open(os.path.join(folder, name), "w", encoding="utf-8") as stream:
                json.dump(value, stream)


def i32(values):
    return b"".join((value & 0xFFFFFFFF).to_bytes(4, "little") for value in values)


def i64(values):
    return b"".join(value.to_bytes(8, "little", signed=True) for value in values)


X = "model.layers.0.mlp.up_proj"


class Part:
    """FITS: by how much each dimension can be changed and nothing fits any more; KNOWN: what else it can be; ALSO: another name it has in other files."""

    def __init__(self, local, fits=(), known=(), also=(), optional=False, base=X):
        self.name = local if local.startswith("model.") else base + local
        self.fits, self.known, self.also, self.optional = fits, known, also, optional


BOTH = ((0, 1), (0, -1), (1, 1), (1, -1))
ROWS, COLS = ((0, 1), (0, -1)), ((1, 1), (1, -1))
ONE = ((0, 1), (0, -1))


# ---- a sound file of each scheme: a File, its parts, and what the config can say that is not so: (path, value), in the quantization_config

def quantization(method, **more):
    return {"model_type": "llama", "torch_dtype": "bfloat16", "quantization_config": {"quant_method": method, **more}}


def fp8_blocks():
    file = File(quantization("fp8", fmt="e4m3", activation_scheme="dynamic", weight_block_size=[32, 16]), 1)
    file.add(X + ".weight", "F8_E4M3", [64, 48])
    file.add(X + ".weight_scale_inv", "F32", [2, 3])
    parts = [Part(".weight", ((0, 1), (0, -32), (1, 1), (1, -16)), ("F16", "BF16", "F32", "F8_E5M2")),
             Part(".weight_scale_inv", BOTH, FLOATS + ("U8",), (X + ".scale", X + ".weight_scale"))]
    return file, parts, [("weight_block_size", value) for value in ([128, 128], [16, 32], [32, 32], [0, 0], [32], [32, 16, 1], [-32, 16], "32x16", [32, 0],
                                                                    [1, 1], [1 << 63, 1 << 63], 32, None)]


def fp8_experts():
    name = "model.layers.0.mlp.experts.gate_up_proj"
    file = File(quantization("fp8", fmt="e4m3", activation_scheme="dynamic", weight_block_size=[32, 16]), 2)
    file.add(name, "F8_E4M3", [3, 64, 48])
    file.add(name + "_scale_inv", "F32", [3, 2, 3])
    parts = [Part(name, ((0, 1), (0, -1), (1, 1), (2, 1)), ("F16", "BF16", "F32", "F8_E5M2")),
             Part(name + "_scale_inv", ((0, 1), (0, -1), (1, 1), (1, -1), (2, 1), (2, -1)), FLOATS + ("U8",))]
    return file, parts, [("weight_block_size", value) for value in ([128, 128], [16, 32], [0, 16], [32])]


def fp8_mx():
    file = File(quantization("mxfp8", fmt="e4m3", scale_fmt="ue8m0", activation_scheme="dynamic", weight_block_size=[1, 32]), 61)
    file.add(X + ".weight", "F8_E4M3", [12, 96])
    file.add(X + ".weight_scale_inv", "U8", [12, 3])
    parts = [Part(".weight", BOTH, FLOATS + ("F8_E5M2", "U8")), Part(".weight_scale_inv", BOTH, FLOATS + ("F8_E8M0",))]
    return file, parts, [("weight_block_size", value) for value in ([1, 16], [128, 128], [32, 1], [1, 0], [1, -32])]


def deepseek_v4_dense():
    config = quantization("fp8", fmt="e4m3", scale_fmt="ue8m0", activation_scheme="dynamic", weight_block_size=[32, 16])
    config["model_type"] = "deepseek_v4"
    file, base = File(config, 62), "layers.0.attn.wq_a"
    file.add(base + ".weight", "F8_E4M3", [64, 48])
    file.add(base + ".scale", "F8_E8M0", [2, 3])
    parts = [Part(".weight", ((0, 1), (0, -32), (1, 1), (1, -16)), FLOATS + ("U8", "F8_E5M2"), base=base),
             Part(".scale", BOTH, FLOATS + ("U8", "F8_E5M2"), (base + ".weight_scale_inv",), base=base)]
    return file, parts, [("weight_block_size", value) for value in ([128, 128], [16, 32], [0, 16], [32])]


def deepseek_v4():
    config = quantization("fp8", fmt="e4m3", scale_fmt="ue8m0", activation_scheme="dynamic", weight_block_size=[128, 128])
    config.update(model_type="deepseek_v4", expert_dtype="fp4")
    file, base = File(config, 3), "layers.0.ffn.experts.3.w1"
    file.add(base + ".weight", "I8", [6, 32])
    file.add(base + ".scale", "F8_E8M0", [6, 2])
    parts = [Part(".weight", BOTH, ("F8_E4M3",) + FLOATS + ("U8",), base=base),
             Part(".scale", BOTH, ("U8",) + FLOATS, (base + ".weight_scale_inv",), base=base)]
    return file, parts, []


def ct(form, bits, kind, strategy, activations=None, **more):
    weights = {"num_bits": bits, "type": kind, "strategy": strategy, "symmetric": True, "dynamic": False, "group_size": None, **more}
    group = {"targets": ["Linear"], "weights": weights, "input_activations": activations, "output_activations": None, "format": form}
    return quantization("compressed-tensors", format=form, quantization_status="compressed", ignore=["lm_head"], config_groups={"group_0": group})


WEIGHTS = "config_groups/group_0/weights/"
FORMATS = ("float-quantized", "int-quantized", "pack-quantized", "nvfp4-pack-quantized", "mxfp4-pack-quantized", "mxfp8-quantized", "marlin-24",
           "sparse-24-bitmask", "strange")


def other_formats(*those):
    return [(("format", "config_groups/group_0/format"), value) for value in FORMATS if value not in those]


def ct_fp8_channel():
    file = File(ct("float-quantized", 8, "float", "channel", {"num_bits": 8, "type": "float", "strategy": "token", "dynamic": True, "symmetric": True}), 4)
    file.add(X + ".weight", "F8_E4M3", [24, 40])
    file.add(X + ".weight_scale", "BF16", [24, 1])
    parts = [Part(".weight", ROWS, FLOATS + ("F8_E5M2", "I8")), Part(".weight_scale", BOTH[:3], FLOATS, (X + ".weight_scale_inv",))]
    return file, parts, other_formats("float-quantized", "int-quantized") + [(WEIGHTS + "num_bits", 4), (WEIGHTS + "num_bits", 16),
            (WEIGHTS + "type", "int"), (WEIGHTS + "strategy", "block"), (WEIGHTS + "strategy", "tensor"), (WEIGHTS + "strategy", "strange"),
            (WEIGHTS + "symmetric", False)]


def ct_fp8_block():
    file = File(ct("float-quantized", 8, "float", "block", {"num_bits": 8, "type": "float", "strategy": "group", "group_size": 128, "dynamic": True,
                                                            "symmetric": True}, block_structure=[32, 16]), 5)
    file.add(X + ".weight", "F8_E4M3", [64, 48])
    file.add(X + ".weight_scale", "BF16", [2, 3])
    parts = [Part(".weight", ((0, 1), (0, -32), (1, 1), (1, -16)), FLOATS + ("F8_E5M2", "I8")), Part(".weight_scale", BOTH, FLOATS, (X + ".weight_scale_inv",))]
    return file, parts, [(WEIGHTS + "block_structure", value) for value in ([128, 128], [16, 32], [0, 0], [32], None, [-32, -16],
            "16x32")] + [(WEIGHTS + "strategy", "channel"), (WEIGHTS + "strategy", "tensor"), (WEIGHTS + "num_bits", 4),
                         (WEIGHTS + "type", "int")] + other_formats("float-quantized", "int-quantized")


def ct_int8_asymmetric():
    file = File(ct("int-quantized", 8, "int", "channel", {"num_bits": 8, "type": "int", "strategy": "token", "dynamic": True, "symmetric": True},
                   symmetric=False), 6)
    file.add(X + ".weight", "I8", [24, 40])
    file.add(X + ".weight_scale", "BF16", [24, 1])
    file.add(X + ".weight_zero_point", "I8", [24, 1])
    parts = [Part(".weight", ROWS, FLOATS + ("F8_E4M3", "U8")), Part(".weight_scale", BOTH[:3], FLOATS),
             Part(".weight_zero_point", BOTH[:3], FLOATS + ("U8", "I16", "I64"))]
    return file, parts, other_formats("float-quantized", "int-quantized") + [(WEIGHTS + "num_bits", 16), (WEIGHTS + "num_bits", 0), (WEIGHTS + "type", "float"),
            (WEIGHTS + "strategy", "block")]


def packed(bits, symmetric, g_idx=False):
    more = {"actorder": "group"} if g_idx else {}
    file = File(ct("pack-quantized", bits, "int", "group", group_size=32, symmetric=symmetric, **more), 7 + bits)
    file.add(X + ".weight_packed", "I32", [16, 96 * bits // 32])
    file.add(X + ".weight_scale", "BF16", [16, 3])
    file.add(X + ".weight_shape", "I64", [2], i64([16, 96]))
    parts = [Part(".weight_packed", BOTH, ("U8", "F8_E4M3")), Part(".weight_scale", BOTH, FLOATS), Part(".weight_shape", ONE, ("I32", "I16", "U16"))]
    if not symmetric:
        file.add(X + ".weight_zero_point", "I32", [16 * bits // 32, 3])
        parts.append(Part(".weight_zero_point", ((0, 1), (0, -1), (1, 1), (1, -1)), ("I8",)))
    if g_idx:
        file.add(X + ".weight_g_idx", "I32", [96], i32([n * 7 % 96 // 32 for n in range(96)]))
        parts.append(Part(".weight_g_idx", ONE, ("I64", "I16", "U16")))
    wrong = [(WEIGHTS + "num_bits", value) for value in (1, 2, 3, 5, 16, 0, -4, 8 if bits == 4 else 4)]
    wrong += [(WEIGHTS + "group_size", value) for value in (16, 64, 128, 0, -2, 96, 1 << 64)] + [(WEIGHTS + "type", "float"), (WEIGHTS + "type", "strange"), (WEIGHTS + "strategy",
            "channel"), (WEIGHTS + "strategy", "block")]
    return file, parts, wrong + other_formats("pack-quantized") + ([(WEIGHTS + "symmetric", False)] if symmetric else [])


def ct_int4():
    return packed(4, True)


def ct_int4_asymmetric():
    return packed(4, False)


def ct_int8_packed():
    return packed(8, False)


def ct_int4_g_idx():
    return packed(4, True, True)


def ct_nvfp4():
    file = File(ct("nvfp4-pack-quantized", 4, "float", "tensor_group", group_size=16), 20)
    file.add(X + ".weight_packed", "U8", [12, 24])
    file.add(X + ".weight_scale", "F8_E4M3", [12, 3])
    file.add(X + ".weight_global_scale", "F32", [1])
    parts = [Part(".weight_packed", BOTH, ("I8",)), Part(".weight_scale", BOTH, ("U8", "F8_E8M0") + FLOATS),
             Part(".weight_global_scale", ((0, 1), (0, 2), (0, -1)), FLOATS, (X + ".weight_scale_2",))]
    return file, parts, [(WEIGHTS + "group_size", value) for value in (32, 8, 128, 0, -1, None)] + [(WEIGHTS + "num_bits", 8),
            (WEIGHTS + "type", "int")] + other_formats("nvfp4-pack-quantized")


def ct_mxfp4():
    file = File(ct("mxfp4-pack-quantized", 4, "float", "group", group_size=32), 21)
    file.add(X + ".weight_packed", "U8", [12, 48])
    file.add(X + ".weight_scale", "U8", [12, 3])
    parts = [Part(".weight_packed", BOTH, ("I8",)), Part(".weight_scale", BOTH, ("F8_E8M0", "F8_E4M3") + FLOATS)]
    return file, parts, [(WEIGHTS + "group_size", value) for value in (16, 64, 0, -1, None)] + [(WEIGHTS + "num_bits", 8),
            (WEIGHTS + "type", "int")] + other_formats("mxfp4-pack-quantized")


def ct_mxfp8():
    file = File(ct("mxfp8-quantized", 8, "float", "group", group_size=32), 22)
    file.add(X + ".weight", "F8_E4M3", [12, 96])
    file.add(X + ".weight_scale", "U8", [12, 3])
    parts = [Part(".weight", BOTH, ("F8_E5M2", "I8") + FLOATS), Part(".weight_scale", BOTH, ("F8_E8M0",) + FLOATS)]
    return file, parts, [(WEIGHTS + "group_size", value) for value in (16, 64, 0, -1)] + [(WEIGHTS + "num_bits", 4),
            (WEIGHTS + "type", "int")] + other_formats("mxfp8-quantized", "float-quantized")


def gpt_oss():
    name = "model.layers.0.mlp.experts.gate_up_proj"
    config = quantization("mxfp4", modules_to_not_convert=["lm_head"])
    config["model_type"] = "gpt_oss"
    file = File(config, 23)
    file.add(name + "_blocks", "U8", [3, 12, 2, 16])
    file.add(name + "_scales", "U8", [3, 12, 2])
    file.add(name + "_bias", "BF16", [3, 12])
    parts = [Part(name + "_blocks", ((0, 1), (0, -1), (1, 1), (1, -1), (2, 1), (2, -1), (3, 1), (3, -1), (3, -8), (3, 16)), ("I8",)),
             Part(name + "_scales", ((0, 1), (0, -1), (1, 1), (1, -1), (2, 1), (2, -1)), ("I8", "F8_E8M0"))]
    return file, parts, []


def modelopt(algorithm, seed, **more):
    config = quantization("modelopt", quant_algo=algorithm, ignore=["lm_head"], producer={"name": "modelopt", "version": "0.47.0"})
    file = File(config, seed)
    file.files["hf_quant_config.json"] = {"producer": {"name": "modelopt", "version": "0.47.0"},
                                          "quantization": {"quant_algo": algorithm, "kv_cache_quant_algo": None, "exclude_modules": ["lm_head"], **more}}
    return file


def modelopt_fp8_channel():
    file = modelopt("FP8_PER_CHANNEL_PER_TOKEN", 63)
    file.add(X + ".weight", "F8_E4M3", [12, 33])
    file.add(X + ".weight_scale", "F32", [12])
    return file, [Part(".weight", ROWS, FLOATS + ("F8_E5M2", "U8")), Part(".weight_scale", ONE, FLOATS)], other_algorithms("FP8_PER_CHANNEL_PER_TOKEN", "FP8")


def modelopt_mxfp4():
    file = modelopt("W4A8_MXFP4_FP8", 64, group_size=32)
    file.add(X + ".weight", "U8", [12, 48])
    file.add(X + ".weight_scale", "U8", [12, 3])
    parts = [Part(".weight", BOTH, FLOATS + ("I8", "F8_E4M3")), Part(".weight_scale", BOTH, ("F8_E8M0", "F8_E4M3") + FLOATS)]
    return file, parts, other_algorithms("W4A8_MXFP4_FP8")


def other_algorithms(*those):
    return [("quant_algo", value) for value in ("FP8", "NVFP4", "FP8_PER_CHANNEL_PER_TOKEN", "MXFP8", "W4A16_AWQ", "W4A8_AWQ", "NVFP4_SVD",
                                                "STRANGE") if value not in those]


def modelopt_fp8():
    file = modelopt("FP8", 24)
    file.add(X + ".weight", "F8_E4M3", [12, 33])
    file.add(X + ".weight_scale", "F32", [])
    return file, [Part(".weight", (), FLOATS + ("F8_E5M2", "U8")), Part(".weight_scale", (), FLOATS, (X + ".weight_scale_inv",))], other_algorithms("FP8")


def modelopt_nvfp4():
    file = modelopt("NVFP4", 25, group_size=16)
    file.add(X + ".weight", "U8", [12, 24])
    file.add(X + ".weight_scale", "F8_E4M3", [12, 3])
    file.add(X + ".weight_scale_2", "F32", [])
    parts = [Part(".weight", BOTH, ("I8", "F8_E4M3") + FLOATS), Part(".weight_scale", BOTH, ("U8", "F8_E8M0") + FLOATS),
             Part(".weight_scale_2", (), FLOATS, (X + ".weight_global_scale",))]
    return file, parts, other_algorithms("NVFP4", "W4A16_NVFP4")


def modelopt_mxfp8():
    file = modelopt("MXFP8", 26, group_size=32)
    file.add(X + ".weight", "F8_E4M3", [12, 96])
    file.add(X + ".weight_scale", "U8", [12, 3])
    return file, [Part(".weight", BOTH, FLOATS + ("F8_E5M2", "U8")), Part(".weight_scale", BOTH, ("F8_E8M0",) + FLOATS)], other_algorithms("MXFP8")


def gptq(bits=4, act=False):
    config = quantization("gptq", bits=bits, group_size=32, desc_act=act, sym=False, checkpoint_format="gptq")
    file, cols, rows = File(config, 30 + bits + act), 96, 64
    file.add(X + ".qweight", "I32", [cols * bits // 32, rows])
    file.add(X + ".qzeros", "I32", [3, rows * bits // 32])
    file.add(X + ".scales", "F16", [3, rows])
    file.add(X + ".g_idx", "I32", [cols], i32([(n * 7 % cols if act else n) // 32 for n in range(cols)]))
    parts = [Part(".qweight", BOTH, ("U8",)), Part(".qzeros", BOTH, ("U8",)), Part(".scales", BOTH, FLOATS),
             Part(".g_idx", ONE, ("I64", "I16", "U16"), optional=not act)]
    wrong = [("bits", value) for value in (1, 2, 3, 5, 8 if bits == 4 else 4, 16, 0, -4)] + [("group_size", value) for value in (16, 64, 0, -1, -2, 1 << 70)]
    return file, parts, wrong + [("checkpoint_format", value) for value in ("marlin", "bitblas", "strange")] + [("quant_method", value) for value in ("awq",
            "strange", "fp8", "bitsandbytes")]


def gptq_act():
    return gptq(4, True)


def gptq_8():
    return gptq(8)


def awq():
    file, cols, rows = File(quantization("awq", bits=4, group_size=32, zero_point=True, version="gemm"), 40), 96, 64
    file.add(X + ".qweight", "I32", [cols, rows // 8])
    file.add(X + ".qzeros", "I32", [3, rows // 8])
    file.add(X + ".scales", "F16", [3, rows])
    parts = [Part(".qweight", BOTH, ("U8",)), Part(".qzeros", BOTH, ("U8",)), Part(".scales", BOTH, FLOATS)]
    wrong = [("bits", value) for value in (2, 3, 8, 0)] + [("group_size", value) for value in (16, 64, 0, -1, -3, 128)]
    return file, parts, wrong + [("version", value) for value in ("gemv", "gemv_fast", "marlin", "exllama", "strange")] + [("quant_method",
            value) for value in ("gptq", "strange", "fp8")]


def bnb(nested, storage=("U8", 1)):
    config = quantization("bitsandbytes", load_in_4bit=True, load_in_8bit=False, bnb_4bit_quant_type="nf4", bnb_4bit_use_double_quant=nested,
                          bnb_4bit_compute_dtype="bfloat16")
    file, blocks = File(config, 50 + nested), 300
    state = {"quant_type": "nf4", "blocksize": 64, "dtype": "bfloat16", "shape": [150, 128]}
    dtype, size = storage
    if size > 1:
        config["quantization_config"]["bnb_4bit_quant_storage"] = "bfloat16"
    file.add(X + ".weight", dtype, [150 * 64 // size, 1])
    file.add(X + ".weight.quant_map", "F32", [16], NF4)
    parts = [Part(".weight", ((0, 1), (0, -1)), ("U8", "BF16", "F16", "F32", "I8")), Part(".weight.quant_map", ONE, ("F64",), optional=True)]
    if nested:
        state.update(nested_blocksize=256, nested_dtype="float32", nested_offset=0.037)
        file.add(X + ".weight.absmax", "U8", [blocks])
        file.add(X + ".weight.nested_absmax", "F32", [2])
        file.add(X + ".weight.nested_quant_map", "F32", [256])
        parts += [Part(".weight.absmax", ONE, FLOATS), Part(".weight.nested_absmax", ONE, FLOATS), Part(".weight.nested_quant_map", ONE, FLOATS)]
    else:
        file.add(X + ".weight.absmax", "F32", [blocks])
        parts += [Part(".weight.absmax", ONE, FLOATS)]
    text = json.dumps(state).encode()
    file.add(X + ".weight.quant_state.bitsandbytes__nf4", "U8", [len(text)], text)
    parts.append(Part(".weight.quant_state.bitsandbytes__nf4", (), ("I8",), (X + ".weight.quant_state.bitsandbytes__fp4",)))
    return file, parts, [("quant_method", value) for value in ("gptq", "strange", "fp8")]


NF4 = struct.pack("<16f", *[-1.0, -0.6961928009986877, -0.5250730514526367, -0.39491748809814453, -0.28444138169288635, -0.18477343022823334,
                            -0.09105003625154495, 0.0,
               0.07958029955625534, 0.16093020141124725, 0.24611230194568634, 0.33791524171829224, 0.44070982933044434, 0.5626170039176941, 0.7229568362236023, 1.0])


def bnb_nf4():
    return bnb(False)


def bnb_nf4_of_bf16():
    """Codes that are stored as bfloat16, which FSDP asks for."""
    return bnb(False, ("BF16", 2))


def bnb_nf4_nested():
    return bnb(True)


def bnb_int8():
    file = File(quantization("bitsandbytes", load_in_4bit=False, load_in_8bit=True, llm_int8_threshold=6.0), 52)
    file.add(X + ".weight", "I8", [24, 40])
    file.add(X + ".SCB", "F32", [24])
    file.add(X + ".weight_format", "U8", [], b"\0")
    return file, [Part(".weight", ROWS, FLOATS + ("U8",)), Part(".SCB", ONE, FLOATS),
                  Part(".weight_format", (), ("I64", "I32", "I16", "I8"), optional=True)], [("quant_method", "gptq"), ("quant_method", "strange")]


def torchao(kind, data, of="weight", **tensors):
    config = quantization("torchao", quant_type={"default": {"_type": kind, "_version": 2, "_data": {}}})
    file = File(config, 60)
    name = X + "." + of
    for local, (code, shape) in tensors.items():
        file.add("%s._%s_%s" % (X, of, local), code, shape)
    file.metadata = {"format": "pt", "tensor_names": json.dumps([name, "model.norm.weight"]), "model.norm.weight": json.dumps({"_type": "Tensor"}),
                     name: json.dumps({"_type": kind, "_data": data, "_tensor_data_names": list(tensors)})}
    return file


def torchao_mx():
    file = torchao("MXTensor", {"elem_dtype": dtype("float8_e4m3fn"), "block_size": 32, "orig_dtype": dtype("bfloat16"),
                                "kernel_preference": {"_type": "KernelPreference", "_data": "EMULATED"}, "act_quant_kwargs": None,
                                "is_swizzled_scales": False}, qdata=("F8_E4M3", [12, 96]), scale=("F8_E8M0", [12, 3]))
    return file, [Part("._weight_qdata", BOTH, FLOATS + ("F8_E5M2", "U8")), Part("._weight_scale", BOTH, ("U8",))], []


def torchao_nvfp4():
    file = torchao("NVFP4Tensor", {"is_swizzled_scales": False, "use_triton_kernel": False, "act_quant_kwargs": None, "block_size": 16,
                                   "orig_dtype": dtype("bfloat16")}, per_tensor_scale=("F32", []), qdata=("U8", [12, 24]), scale=("F8_E4M3", [12, 3]))
    return file, [Part("._weight_qdata", BOTH, FLOATS + ("I8",)), Part("._weight_scale", BOTH, ("U8",) + FLOATS),
                  Part("._weight_per_tensor_scale", (), FLOATS)], []


def torchao_mx_swizzled():
    file = torchao("MXTensor", {"elem_dtype": dtype("float8_e4m3fn"), "block_size": 32, "orig_dtype": dtype("bfloat16"),
                                "kernel_preference": {"_type": "KernelPreference", "_data": "AUTO"}, "act_quant_kwargs": None,
                                "is_swizzled_scales": True}, qdata=("F8_E4M3", [128, 96]), scale=("F8_E8M0", [32, 16]))
    return file, [Part("._weight_qdata", ((0, 1), (1, 64)), FLOATS + ("F8_E5M2", "U8")), Part("._weight_scale", ONE, ("U8",))], []


def torchao_nvfp4_swizzled():
    """Experts: their 128 rows are in one tile, where tiles for each of them would be four."""
    file = torchao("NVFP4Tensor", {"is_swizzled_scales": True, "use_triton_kernel": False, "act_quant_kwargs": None, "block_size": 16,
                                   "orig_dtype": dtype("bfloat16")}, of="w1", per_tensor_scale=("F32", []), qdata=("U8", [4, 32, 32]), scale=("F8_E4M3", [32, 16]))
    return file, [Part("._w1_qdata", ((0, 1), (1, 1), (2, 1), (2, -1), (2, 8)), FLOATS + ("I8",)), Part("._w1_scale", ONE, ("U8",) + FLOATS),
                  Part("._w1_per_tensor_scale", (), FLOATS)], []


# For one tile, in whatever shape: cut ones, longer ones, a tile for each expert, and scales that are in no tiles.
OTHER_TILES = ([511], [513], [496], [528], [1024], [2, 32, 16], [4, 32, 16], [32, 32], [64, 16], [32, 15], [32, 17], [32, 16, 2], [128, 3], [4, 32, 3], [0], [1],
               [], [0, 16], [32, 0], [2, 0, 32, 16])


def dtype(name):
    return {"_type": "torch.dtype", "_data": name}


def torchao_float8():
    file = torchao("Float8Tensor", {"block_size": [1, 40], "mm_config": None, "act_quant_kwargs": None,
                                    "kernel_preference": {"_type": "KernelPreference", "_data": "AUTO"}, "dtype": dtype("bfloat16")},
                   qdata=("F8_E4M3", [24, 40]), scale=("F32", [24, 1]))
    return file, [Part("._weight_qdata", ROWS, FLOATS + ("F8_E5M2", "I8")), Part("._weight_scale", BOTH[:3], FLOATS)], []


def torchao_float8_activations():
    """With scales of activations, which torchao needs to build the tensor, and that it is not called weight."""
    file = torchao("Float8Tensor", {"block_size": [1, 40], "mm_config": None, "act_quant_kwargs": None,
                                    "kernel_preference": {"_type": "KernelPreference", "_data": "AUTO"}, "dtype": dtype("bfloat16")}, of="gate_up_proj",
                   qdata=("F8_E4M3", [24, 40]), scale=("F32", [24, 1]), act_quant_scale=("F32", [1]), act_per_tensor_scale=("F32", []))
    return file, [Part("._gate_up_proj_qdata", ROWS, FLOATS + ("F8_E5M2", "I8")), Part("._gate_up_proj_scale", BOTH[:3], FLOATS),
                  Part("._gate_up_proj_act_quant_scale", (), STRANGE + FLOATS), Part("._gate_up_proj_act_per_tensor_scale", (), STRANGE + FLOATS)], []


def torchao_intx():
    file = torchao("IntxUnpackedToInt8Tensor", {"target_dtype": dtype("int4"), "block_size": [1, 40], "dtype": dtype("bfloat16"), "activation_quantization": None},
                   qdata=("I8", [24, 40]), scale=("BF16", [24, 1]), zero_point=("I8", [24, 1]))
    return file, [Part("._weight_qdata", ROWS, FLOATS + ("U8",)), Part("._weight_scale", BOTH[:3], FLOATS)], []


def torchao_int8():
    file = torchao("Int8Tensor", {"act_quant_kwargs": None, "reduce_range": False, "block_size": [1, 40], "dtype": dtype("bfloat16")},
                   qdata=("I8", [24, 40]), scale=("BF16", [24, 1]))
    return file, [Part("._weight_qdata", ROWS, FLOATS + ("U8",)), Part("._weight_scale", BOTH[:3], FLOATS)], []


SCHEMES = [fp8_blocks, fp8_experts, fp8_mx, deepseek_v4, deepseek_v4_dense, ct_fp8_channel, ct_fp8_block, ct_int8_asymmetric, ct_int4, ct_int4_asymmetric,
           ct_int8_packed, ct_int4_g_idx, ct_nvfp4, ct_mxfp4, ct_mxfp8, gpt_oss, modelopt_fp8, modelopt_fp8_channel, modelopt_nvfp4, modelopt_mxfp8,
           modelopt_mxfp4, gptq, gptq_act, gptq_8, awq, bnb_nf4, bnb_nf4_of_bf16, bnb_nf4_nested, bnb_int8, torchao_float8,
           torchao_float8_activations, torchao_int8, torchao_intx, torchao_mx, torchao_nvfp4, torchao_mx_swizzled, torchao_nvfp4_swizzled]


# ---- damage: (what it is, a File)

def changed(file):
    """A copy to change."""
    return copy.deepcopy(file)


def missing(file, parts):
    for part in parts:
        if not part.optional:
            other = changed(file)
            del other.tensors[part.name]
            yield "'%s' is missing" % part.name, other


def other_dtypes(file, parts):
    for part in parts:
        code, shape, _ = file.tensors[part.name]
        for strange in STRANGE:
            if strange != code and strange not in part.known:
                other = changed(file)
                other.resize(part.name, strange, shape)
                yield "'%s' is %s" % (part.name, strange), other


def other_shapes(file, parts):
    for part in parts:
        code, shape, _ = file.tensors[part.name]
        made = []
        for axis, by in part.fits:
            made.append(shape[:axis] + [shape[axis] + by] + shape[axis + 1:])
        if len(shape) >= 2 and shape[-1] != shape[-2] and 1 not in shape[-2:] and len(part.fits) > 2:
            made.append(shape[:-2] + [shape[-1], shape[-2]])
        if len(part.fits) > 3:
            made += [[count_of(shape)], shape + [1, 1], [2] + shape, [0] + shape[1:], shape[:-1] + [0]]
            made += [[size * 2 for size in shape], [size * 3 for size in shape]]
        for new in made:
            if new != shape:
                other = changed(file)
                other.resize(part.name, code, new)
                yield "'%s' is %s, not %s" % (part.name, new, shape), other


def two_names(file, parts):
    for part in parts:
        for name in part.also:
            other = changed(file)
            other.tensors[name] = other.tensors[part.name]
            yield "'%s' is there as '%s', too" % (part.name, name), other
    own = next((name for name in file.metadata if name.startswith(X)), X + ".weight")
    if own not in file.tensors and any(name.startswith(X + ".") for name in file.tensors):
        other = changed(file)
        other.add(own, "BF16", [16, 96])
        yield "a plain '%s' is there, too" % own, other
    plain = parts[0].name
    for between in ("_blocks", ):
        if plain.endswith(between):
            other = changed(file)
            other.add(plain[:-len(between)], "BF16", [3, 64, 12])
            yield "a plain '%s' is there, too" % plain[:-len(between)], other


def set_path(config, path, value):
    at = config["quantization_config"]
    *way, last = path.split("/")
    for step in way:
        at = at[step]
    at[last] = value


def other_configs(file, wrong):
    for paths, value in wrong:
        other = changed(file)
        for path in paths if isinstance(paths, tuple) else (paths,):
            set_path(other.config, path, value)
            if path == "quant_algo":
                other.files["hf_quant_config.json"]["quantization"]["quant_algo"] = value
        yield "the config says %s %r" % (paths, value), other


def with_bytes(file, name, data, text, shape=None):
    other = changed(file)
    code, old, _ = other.tensors[name]
    other.tensors[name] = (code, shape or old, data)
    return text, other


# Lists of modules that are not quantized, by what the configuration calls the package.
EXCLUDING = {"fp8": ("modules_to_not_convert", "ignored_layers"), "compressed-tensors": ("ignore",), "modelopt": ("ignore",),
             "awq": ("modules_to_not_convert",), "gptq": ("modules_to_not_convert",), "bitsandbytes": ("llm_int8_skip_modules",), "torchao": ("modules_to_not_convert",)}


def special(scheme, file):
    """What only one scheme can have."""
    if X + ".weight_g_idx" in file.tensors or scheme == "gptq_act":
        name = X + (".g_idx" if scheme == "gptq_act" else ".weight_g_idx")
        good = [int.from_bytes(file.tensors[name][2][at:at + 4], "little") for at in range(0, 384, 4)]
        for index, value in ((0, 3), (95, 1 << 30), (50, -5), (7, -(1 << 31)), (95, 100)):
            yield with_bytes(file, name, i32(good[:index] + [value] + good[index + 1:]), "'%s' has %d" % (name, value))
    if X + ".weight_shape" in file.tensors:
        for value in ([16, 95], [15, 96], [96, 16], [16, 97], [17, 96], [0, 96], [16, 0], [-16, 96], [16, -96], [1 << 40, 96], [16, 1 << 62],
                      [1 << 62, 1 << 62], [32, 48], [8, 192]):
            yield with_bytes(file, X + ".weight_shape", i64(value), "weight_shape is %s" % value)
    if scheme.startswith("bnb_nf4"):
        name = X + ".weight.quant_state.bitsandbytes__nf4"
        good = json.loads(file.tensors[name][2])
        for key, value in (("quant_type", "fp4"), ("quant_type", "af4"), ("quant_type", None), ("blocksize", 0), ("blocksize", -64), ("blocksize", 128),
                           ("blocksize", 32), ("blocksize", 63), ("blocksize", 1 << 70), ("blocksize", "64"), ("blocksize", 64.5), ("dtype", "int8"),
                           ("dtype", "strange"), ("dtype", None), ("shape", [150, 127]), ("shape", [151, 128]), ("shape", [1 << 40, 1 << 40]),
                           ("shape", [-150, -128]), ("shape", []), ("shape", None), ("shape", "150,128"), ("shape", [150, 0]), ("shape", 19200)):
            text = json.dumps({**good, key: value}).encode()
            yield with_bytes(file, name, text, "quant_state: %s is %r" % (key, value), [len(text)])
        for key in good:
            if key != "nested_dtype":
                text = json.dumps({one: value for one, value in good.items() if one != key}).encode()
                yield with_bytes(file, name, text, "quant_state without %s" % key, [len(text)])
        if "nested_offset" in good:
            for key, value in (("nested_blocksize", 0), ("nested_blocksize", 128), ("nested_blocksize", -1), ("nested_offset", "strange"),
                               ("nested_offset", None), ("nested_offset", []), ("nested_blocksize", 1 << 65)):
                text = json.dumps({**good, key: value}).encode()
                yield with_bytes(file, name, text, "quant_state: %s is %r" % (key, value), [len(text)])
        for text in (b"", b"{", b"[]", b"null", b"\xff\xfe", b"{}", json.dumps(good).encode()[:-1], b"[" * 200, b'{"shape":' * 50,
                     json.dumps(good).encode() + b"x"):
            yield with_bytes(file, name, text, "quant_state is %r" % text[:20], [len(text)])
    if scheme == "awq":
        other = changed(file)
        other.add(X + ".g_idx", "I32", [96], i32([n // 32 for n in range(96)]))
        yield "a g_idx is there", other
    if scheme.startswith("modelopt"):
        for value in ("FP8", "NVFP4", "MXFP8", "STRANGE", None, 4):
            if value != file.config["quantization_config"]["quant_algo"] and not (scheme == "modelopt_fp8_channel" and value == "FP8"):
                other = changed(file)
                other.files["hf_quant_config.json"]["quantization"]["quant_algo"] = value
                yield "hf_quant_config.json says %r" % value, other
    # what only the second file says
    beside = {"gptq": ("quantize_config.json", ({"sym": True}, {"modules_in_block_to_quantize": [["strange"]]}, {"modules_to_not_convert": [X]}, {"dynamic": {"-:.*up_proj": {}}})),
              "awq": ("quant_config.json", ({"modules_to_not_convert": [X]}, {"version": "gemv"}))}
    if scheme in beside:
        name, rows = beside[scheme]
        for more in rows:
            other = changed(file)
            both = {**other.config["quantization_config"], **more}
            for key in more:
                other.config["quantization_config"].pop(key, None)
            both.pop("quant_method")
            other.files[name] = both
            yield "%s alone says %r" % (name, more), other
    if scheme.startswith("modelopt"):
        other = changed(file)
        other.config["quantization_config"].pop("ignore", None)
        other.files["hf_quant_config.json"]["quantization"]["exclude_modules"] = [X]
        yield "hf_quant_config.json alone excludes the module", other
    alone = {"fp8_blocks": ("I8", [2, 64, 32]), "modelopt_nvfp4": ("U8", [2, 64, 32]), "ct_fp8_channel": ("I8", [64, 32])}
    if scheme in alone:
        other = changed(file)
        other.add("model.layers.1.mlp.experts.gate_up_proj", *alone[scheme])
        yield "codes without scales in no module of their own", other
    if scheme in ("ct_int4", "fp8_blocks", "modelopt_nvfp4", "gptq"):
        for inner in ("R_input.weight", "inner.deeper.scale", "transform"):
            other = changed(file)
            other.add(X + "." + inner, "F32", [96, 96])
            yield "'%s' inside of the quantized module" % inner, other
        for inner in ("input_scale", "output_scale", "k_scale", "input_zero_point"):
            other = changed(file)
            other.add(X + ".inner." + inner, "F32", [1])
            yield "'%s' of activations inside of the quantized module" % inner, other
    if scheme == "ct_nvfp4":
        other = changed(file)
        other.resize(X + ".weight_global_scale", "F32", [])
        yield "weight_global_scale without dimensions", other
    if scheme in ("ct_mxfp8", "ct_mxfp4"):
        for key, value in (("format", "float-quantized"), ("format", "naive-quantized")):
            other = changed(file)
            other.config["quantization_config"][key] = value
            other.config["quantization_config"]["config_groups"]["group_0"][key] = value
            yield "the configuration says the %s %s" % (key, value), other
        for strategy in ("channel", "block", "tensor"):
            other = changed(file)
            other.config["quantization_config"]["config_groups"]["group_0"]["weights"]["strategy"] = strategy
            yield "the strategy is %s" % strategy, other
    patterns = {"fp8_blocks": "modules_to_not_convert", "awq": "modules_to_not_convert", "bnb_nf4": "llm_int8_skip_modules"}
    for pattern in (".*up_proj", "proj", "", r"model\.layers\.\d+", "model.", "model.layers.*.mlp", "lm_head|model.*") if scheme in patterns else ():
        other = changed(file)
        other.config["quantization_config"][patterns[scheme]] = ["lm_head", pattern]
        yield "%s has the pattern %s" % (patterns[scheme], pattern), other
    for pattern in ("experts", "mlp.experts", "model.layers.*.mlp") if scheme == "gpt_oss" else ():
        other = changed(file)
        other.config["quantization_config"]["modules_to_not_convert"] = [pattern]
        yield "modules_to_not_convert has the pattern %s" % pattern, other
    says = file.config.get("quantization_config", {})
    for key in EXCLUDING.get(says.get("quant_method"), ()):
        if not any(name.startswith(X + ".") for name in file.tensors):
            continue
        other = changed(file)
        other.config["quantization_config"][key] = ["strange", X]
        yield "%s has the module" % key, other
        for value in (X, {X: 1}, [1], [[X]], 3):
            other = changed(file)
            other.config["quantization_config"][key] = value
            yield "%s is %r" % (key, value), other
    settings = {"gptq_act": ({"desc_act": False},), "bnb_int8": ({"load_in_8bit": False, "load_in_4bit": True}, {"load_in_8bit": False}),
                "gptq": ({"dynamic": {"-:.*up_proj": {}}}, {"dynamic": {"+:.*down": {"bits": 8}, "model.layers": {"group_size": 64}}}, {"dynamic": {"model": {"bits": 8}}},
                         {"dynamic": ["model"]}, {"dynamic": {"(": {}}}, {"pack_dtype": "int64"}, {"desc_act": "no"}, {"sym": 1}, {"sym": True}, {"method": "awq"}, {"method": "qqq"}, {"dynamic": {"+:.*": {"format": "gptq_v2"}}}, {"rotation": "hadamard"}, {"format": "gptq_v2"}, {"is_marlin_format": True},
                         {"modules_in_block_to_quantize": [["self_attn.q_proj"]]}, {"modules_in_block_to_quantize": "up_proj"}, {"modules_in_block_to_quantize": ["up_proj"]}),
                "awq": ({"w_bit": 8}, {"q_group_size": 64}, {"backend": "llm-awq"}, {"zero_point": False}, {"zero_point": 0}, {"zero_point": "no"}), "modelopt_fp8": ({"group_size": 16},),
                "ct_int4": ({"transform_config": {"config_groups": {"u": {"type": "hadamard"}}}}, {"transform_config": []},
                            {"config_groups": {"W8A16": ["Linear"]}}, {"config_groups": {"W4A16": ["Linear"]}}),
                "modelopt_nvfp4": ({"group_size": 32},), "modelopt_mxfp4": ({"group_size": 16},), "fp8_blocks": ({"fmt": "e5m2"},)}
    for more in settings.get(scheme, ({"bnb_4bit_quant_type": "fp4"}, {"load_in_8bit": True, "load_in_4bit": False}) if scheme.startswith("bnb") else ()):
        other = changed(file)
        other.config["quantization_config"].update(more)
        yield "the configuration says %r" % more, other
    if scheme == "ct_int4_g_idx":
        for value in (None, False, "static", "weight"):
            other = changed(file)
            other.config["quantization_config"]["config_groups"]["group_0"]["weights"]["actorder"] = value
            yield "actorder is %r, and weight_g_idx is shuffled" % value, other
    if scheme == "bnb_int8":
        for value in (1, 2, 3, 255):
            yield with_bytes(file, X + ".weight_format", bytes([value]), "weight_format is %d" % value)
    if scheme.startswith("torchao"):
        name = next(name for name in file.metadata if name.startswith(X))
        good = json.loads(file.metadata[name])
        for key, value in (("_type", "Int4Tensor"), ("_type", "NF4Tensor"), ("_type", "strange"), ("_type", None), ("_type", "IntxUnpackedToInt8Tensor"),
                           ("_type", "Tensor"), ("_data", None), ("_data", []), ("_tensor_data_names", ["qdata"]),
                           ("_tensor_data_names", ["qdata", "scale", "strange"]), ("_tensor_data_names", None), ("_tensor_data_names", []),
                           ("_tensor_data_names", good["_tensor_data_names"] + ["qdata"]), ("_tensor_data_names", ["qdata"] * len(good["_tensor_data_names"]))):
            if good[key] == value:
                continue
            other = changed(file)
            other.metadata[name] = json.dumps({**good, key: value})
            yield "the metadata: %s is %r" % (key, value), other
        plain = isinstance(good["_data"]["block_size"], int)
        for value in (8, 64, 0, -32, 1 << 65, [32], "32") if plain else ([1, 20], [24, 40], [1], [2, 40], None, [0, 0], [-1, 40], [1, 40, 1], "1,40",
                [1 << 65, 1]):
            other = changed(file)
            other.metadata[name] = json.dumps({**good, "_data": {**good["_data"], "block_size": value}})
            yield "the metadata: block_size is %r" % value, other
        for text in ("", "{", "[]", "null", "{}", "x", "[" * 1000):
            other = changed(file)
            other.metadata[name] = text
            yield "the metadata of the weight is %r" % text[:9], other
        other = changed(file)
        del other.metadata[name]
        yield "the metadata has no weight", other
        other = changed(file)
        del other.metadata["tensor_names"]
        yield "the metadata has no tensor_names", other
        for names in ([], ["model.norm.weight"], [name + "x"], [name, 3], [name, "x.weight"], {name: 1}, name, None):
            other = changed(file)
            other.metadata["tensor_names"] = json.dumps(names)
            yield "tensor_names is %r" % names, other
        other = changed(file)
        other.metadata["tensor_names"] = "["
        yield "tensor_names is no JSON", other
        # what torchao's classes are given, and cannot be made of, or have no default for
        of_dtype = "orig_dtype" if good["_type"] in ("MXTensor", "NVFP4Tensor") else "dtype"
        changes = [({of_dtype: value}, ()) for value in ({"_type": "torch.dtype", "_data": "x"}, {"_type": "x", "_data": "bfloat16"}, {"_type": "torch.dtype", "_data": 3}, "bfloat16")]
        swizzled = good["_data"].get("is_swizzled_scales", False)   # the other order needs other scales, and other classes have none
        changes += [({"is_swizzled_scales": value}, ()) for value in (1, 0, "x", "false", [1], None, not swizzled)] + [({"_is_swizzled_scales": not swizzled}, ())]
        for shape in OTHER_TILES if swizzled else ():
            other = changed(file)
            scale = next(part for part in other.tensors if part.endswith("_scale") and not part.endswith("tensor_scale"))
            other.resize(scale, other.tensors[scale][0], shape)
            yield "scales of the shape %r" % shape, other
        changes += [({}, (key,)) for key in (of_dtype, "kernel_preference", "is_swizzled_scales") if key in good["_data"] and
                    (good["_type"] == "MXTensor" or key == of_dtype and good["_type"] != "Float8Tensor")]
        changes += [({"target_dtype": dtype(value)}, ()) for value in ("x", "float32", "uint8", "int9", "int", "int16")]
        for more, less in changes:
            other = changed(file)
            other.metadata[name] = json.dumps({**good, "_data": {key: value for key, value in {**good["_data"], **more}.items() if key not in less}})
            yield "the metadata: %r, and without %r" % (more, less), other
        other = changed(file)
        other.metadata["tensor_names"] = json.dumps([name, "model.norm.weight", name])
        yield "tensor_names lists the weight twice", other
        own = "%s._%s_" % tuple(name.rsplit(".", 1))
        for more in ("act_quant_scale", "act_quant_zero_point", "act_per_tensor_scale", "act_pre_scale", "act_strange"):
            if own + more in file.tensors:
                continue
            other = changed(file)
            other.metadata[name] = json.dumps({**good, "_tensor_data_names": good["_tensor_data_names"] + [more]})
            yield "the metadata lists '%s', which is missing" % more, other
            other = changed(file)
            other.add(own + more, "F32", [1])
            yield "'%s' is there, and the metadata do not list it" % more, other


def another_format(file):
    """Weights of another format beside those of the configured one, or in their place: whoever reads the one takes codes of the other for numbers."""
    method = file.config["quantization_config"]["quant_method"]
    for make in (fp8_blocks, ct_int4, gptq, awq, bnb_int8, bnb_nf4, bnb_nf4_of_bf16, gpt_oss):
        more = make()[0]
        if more.config["quantization_config"]["quant_method"] == method:
            continue
        for alone in (False, True):
            other = changed(file)
            if alone:
                other.tensors = {name: one for name, one in other.tensors.items() if name == "model.norm.weight"}
            other.tensors.update({name.replace("layers.0", "layers.1"): one for name, one in more.tensors.items()})
            yield "weights of %s %s" % (make.__name__, "alone" if alone else "as well"), other


def neighbours(file, parts):
    """A second weight like the first, but for one part; and names that no tensor of a new file can have."""
    own = {name: one for name, one in file.tensors.items() if name.startswith(X)}
    if file.metadata or not own:
        return
    twice = changed(file)
    twice.tensors.update({name.replace("layers.0", "layers.1"): one for name, one in own.items()})
    for part in parts:
        lost = part.name.replace("layers.0", "layers.1")
        if lost == part.name or lost not in twice.tensors or part.optional:
            continue
        for config in (file.config, {}):
            if not config and not part.name.endswith(("g_idx", "weight_zero_point")):
                continue
            other = changed(twice)
            other.config = config
            del other.tensors[lost]
            yield "of two weights one lacks '%s', %s" % (part.name[len(X):], "with its config" if config else "without a config"), other
    if file.config["quantization_config"].get("quant_method") == "bitsandbytes":
        other = changed(twice)
        for name in own:
            if not name.endswith(".weight"):
                del other.tensors[name.replace("layers.0", "layers.1")]
        yield "of two weights one has nothing but its codes", other
    other = changed(file)
    other.tensors = {name.replace("model.layers.0", "a\0z"): one for name, one in file.tensors.items()}
    yield "a zero byte in the name", other


def damages(scheme, file, parts, wrong):
    yield from another_format(file)
    yield from neighbours(file, parts)
    yield from missing(file, parts)
    yield from two_names(file, parts)
    yield from other_configs(file, wrong)
    yield from special(scheme, file)
    yield from other_shapes(file, parts)
    yield from other_dtypes(file, parts)


def everything(only):
    """(scheme, why, File); WHY is None for the sound one."""
    schemes = [(make.__name__, *make()) for make in SCHEMES if not only or make.__name__ in only]
    for scheme, file, parts, wrong in schemes:
        yield scheme, None, file
        for why, other in damages(scheme, file, parts, wrong):
            yield scheme, why, other


def check(ckpt, folder, why, target):
    out = os.path.join(folder, "out.safetensors")
    done = subprocess.run([*shlex.split(ckpt), "cast", "--dequantize", target, os.path.join(folder, "model.safetensors"), out], stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, encoding="utf-8", errors="replace", timeout=60)
    there = os.path.exists(out)
    if why is None:
        return "" if done.returncode == 0 and there else "the sound file: exit status %d: %s" % (done.returncode, done.stderr.strip())
    if done.returncode == 0 or there:
        return "%s: exit status %d%s" % (why, done.returncode, ", and numbers" if there else "")
    if done.returncode not in (1, 2, 3, 4, 5, 6) or not done.stderr.startswith("ckpt: "):
        return "%s: exit status %d: %s" % (why, done.returncode, done.stderr.strip()[:200])
    return ""


def main():
    if sys.argv[1:2] == ["write"]:
        for number, (scheme, why, file) in enumerate(everything([])):
            folder = os.path.join(sys.argv[2], scheme, "%04d" % number)
            file.write(folder)
            with open(os.path.join(folder, "why"), "w", encoding="utf-8") as stream:
                stream.write((why or "sound") + "\n")
        return 0
    passed, failed = 0, []
    base = os.environ.get("CKPT_TEST_DIR") or "."
    os.makedirs(base, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="quantized-damaged-", dir=base) as work:
        for number, (scheme, why, file) in enumerate(everything(sys.argv[1:])):
            folder = os.path.join(work, "one")
            file.write(folder)
            text = check(os.environ["CKPT"], folder, why, ("bf16", "f16", "f32")[number % 3])
            passed += not text
            failed += [scheme + ": " + text] if text else []
            shutil.rmtree(folder)
    for text in failed:
        print("FAIL", text)
    print("%d passed, %d failed" % (passed, len(failed)))
    return 1 if failed or not passed else 0


if __name__ == "__main__":
    sys.exit(main())

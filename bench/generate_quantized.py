#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Make a folder with one quantized model.safetensors to measure with, and its config.json, without torch:

    generate_quantized.py SCHEME FOLDER BYTES     BYTES in all, in weights of 4096 times 8192 numbers

SCHEME: fp8, blocks of 128 times 128 as DeepSeek has them; nvfp4 and int4, groups of 16 and of 128, both as compressed-tensors
packs them. The codes are random, but none is NaN. FOLDER appears when it is complete.
"""
import json
import os
import random
import shutil
import struct
import sys

ROWS, COLUMNS = 4096, 8192
COMPRESSED = {"quant_method": "compressed-tensors", "quantization_status": "compressed", "ignore": ["lm_head"]}
GROUP = {"type": "float", "symmetric": True, "dynamic": False}


def no_nan(data):
    """The codes 0x7f and 0xff of float8_e4m3fn are NaN."""
    return data.translate(bytes(code - 1 if code & 0x7f == 0x7f else code for code in range(256)))


def compressed(form, **weights):
    group = {"targets": ["Linear"], "weights": {**GROUP, **weights}, "input_activations": None, "output_activations": None, "format": form}
    return {**COMPRESSED, "format": form, "config_groups": {"group_0": group}}


def fp8(rng):
    config = {"quant_method": "fp8", "fmt": "e4m3", "activation_scheme": "dynamic", "weight_block_size": [128, 128]}
    scales = struct.pack("<2048f", *(rng.uniform(1e-5, 1e-3) for _ in range(ROWS // 128 * (COLUMNS // 128))))
    return config, [("weight", "F8_E4M3", [ROWS, COLUMNS], no_nan(rng.randbytes(ROWS * COLUMNS))),
                    ("weight_scale_inv", "F32", [ROWS // 128, COLUMNS // 128], scales)]


def nvfp4(rng):
    scales = bytes(rng.randrange(0x20, 0x7f) for _ in range(65536)) * (ROWS * COLUMNS // 16 // 65536)
    return (compressed("nvfp4-pack-quantized", num_bits=4, strategy="tensor_group", group_size=16, scale_dtype="torch.float8_e4m3fn",
                       zp_dtype="torch.float8_e4m3fn"),
            [("weight_packed", "U8", [ROWS, COLUMNS // 2], rng.randbytes(ROWS * COLUMNS // 2)),
             ("weight_scale", "F8_E4M3", [ROWS, COLUMNS // 16], scales),
             ("weight_global_scale", "F32", [1], struct.pack("<f", 2688.0))])


def int4(rng):
    scales = b"".join(struct.pack("<f", rng.uniform(1e-3, 1e-2))[2:] for _ in range(ROWS * COLUMNS // 128))
    return (compressed("pack-quantized", num_bits=4, type="int", strategy="group", group_size=128),
            [("weight_packed", "I32", [ROWS, COLUMNS // 8], rng.randbytes(ROWS * COLUMNS // 2)),
             ("weight_scale", "BF16", [ROWS, COLUMNS // 128], scales),
             ("weight_shape", "I64", [2], struct.pack("<2q", ROWS, COLUMNS))])


def main():
    scheme, out, nbytes = sys.argv[1], sys.argv[2], int(sys.argv[3])
    config, parts = {"fp8": fp8, "nvfp4": nvfp4, "int4": int4}[scheme](random.Random(1))
    count = max(1, nbytes // sum(len(data) for _, _, _, data in parts))
    header, at = {"__metadata__": {"format": "pt"}}, 0
    for i in range(count):
        for name, dtype, shape, data in parts:
            header["model.layers.%d.mlp.down_proj.%s" % (i, name)] = {"dtype": dtype, "shape": shape, "data_offsets": [at, at + len(data)]}
            at += len(data)
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    part = out + ".part"
    shutil.rmtree(part, ignore_errors=True)
    os.makedirs(part)
    with open(os.path.join(part, "model.safetensors"), "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        for _ in range(count):
            for _, _, _, data in parts:
                file.write(data)
    with open(os.path.join(part, "config.json"), "w", encoding="ascii") as file:
        json.dump({"model_type": "deepseek_v3" if scheme == "fp8" else "llama", "torch_dtype": "bfloat16", "quantization_config": config}, file)
    os.rename(part, out)


main()

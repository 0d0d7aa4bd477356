# SPDX-License-Identifier: Apache-2.0
"""Files for random_safetensors.py, made and judged by the running torch.

    random_safetensors_files.py make FOLDER COUNT SEED     FOLDER/N.pt, dicts of random tensors and of what is none
    random_safetensors_files.py check FOLDER COUNT         N.safetensors and N.back.pt, which ckpt made of them: a line for each that is wrong

The files of safetensors are read here, by their description: 8 bytes of length, JSON, tensors.
"""
import json
import os
import random
import struct
import sys
import warnings

warnings.simplefilter("ignore")

import torch  # noqa: E402

import fake_cuda  # noqa: E402
import random_build  # noqa: E402
import random_plans  # noqa: E402
import safetensors_files  # noqa: E402
import torch_files  # noqa: E402

CODES = {"F64": "float64", "F32": "float32", "F16": "float16", "BF16": "bfloat16", "I64": "int64", "I32": "int32", "I16": "int16", "I8": "int8", "U8": "uint8",
         "BOOL": "bool", "C64": "complex64", "F8_E5M2": "float8_e5m2", "F8_E4M3": "float8_e4m3fn", "F8_E5M2FNUZ": "float8_e5m2fnuz", "F8_E4M3FNUZ": "float8_e4m3fnuz",
         "F8_E8M0": "float8_e8m0fnu", "F4": "float4_e2m1fn_x2", "U16": "uint16", "U32": "uint32", "U64": "uint64"}


def version():
    return tuple(int(part) for part in torch.__version__.split(".")[:2])


def make(folder, count, seed):
    os.makedirs(folder)
    for number in range(int(count)):
        r = random.Random(int(seed) + number)
        made, tensors = {}, []
        for _ in range(r.choice((1, 2, 4, 8))):
            kind = r.choice(("tensor", "tensor", "view", "view", "odd_tensor", "int"))
            if kind == "view" and not tensors:
                kind = "tensor"
            detail = r.choice(random_plans.VIEWS) if kind == "view" else random_plans.LEAVES[kind][1](r, version())
            try:
                value = random_build.node(kind, detail, [r.choice(tensors)] if kind == "view" else [])
                if kind in ("tensor", "view") and isinstance(value, torch.Tensor):
                    safetensors_files.resolved(value)       # negated bools cannot be
                    tensors.append(value)
            except (random_build.Skip, RuntimeError):
                continue
            made[r.choice(random_plans.TEXTS[6:40]) + ".%d" % len(made)] = value
        try:
            torch.save(made, os.path.join(folder, "%d.pt" % number))
        except RuntimeError:        # views of other types, in torch 1.13
            torch.save({"w": torch.ones(2)}, os.path.join(folder, "%d.pt" % number))


def read(path):
    """{name: (code, shape, bytes)}"""
    with open(path, "rb") as stream:
        size = struct.unpack("<Q", stream.read(8))[0]
        header, data = json.loads(stream.read(size).decode("utf-8")), stream.read()
    header.pop("__metadata__", None)
    return {name: (entry["dtype"], entry["shape"], data[slice(*entry["data_offsets"])]) for name, entry in header.items()}


def fits(value):
    """True for what the format has."""
    return isinstance(value, torch.Tensor) and "Uninitialized" not in type(value).__name__ and value.layout == torch.strided and value.device.type != "meta" and not value.is_quantized \
        and not getattr(value, "is_nested", False) and (value.dim() or "float4" not in str(value.dtype)) and str(value.dtype)[6:] in CODES.values()


def raw(tensor):
    return safetensors_files.bits(tensor) if tensor.numel() else b""


def wrong_with(wanted, path):
    fitting = {name: value for name, value in wanted.items() if fits(value)}
    if not fitting and not os.path.exists(path + ".safetensors"):
        return ""
    if not os.path.exists(path + ".safetensors"):
        return "not written"
    found, back = read(path + ".safetensors"), torch_files.load(path + ".back.pt")
    if set(found) != set(fitting) or set(back) != set(fitting):
        return "names %s, %s, wanted %s" % (sorted(found), sorted(back), sorted(fitting))
    for name, value in fitting.items():
        code, shape, data = found[name]
        if not value.numel() and version() < (2, 1):     # which loads views of an empty tensor with the type of the first
            continue
        wanted_shape = list(value.shape[:-1]) + [2 * value.shape[-1]] if code == "F4" else list(value.shape)       # two numbers in a byte
        if CODES[code] != str(value.dtype)[6:] or wanted_shape != shape:
            return "%s: %s %s, wanted %s %s" % (name, code, shape, value.dtype, list(value.shape))
        if value.dtype != torch.bfloat16 or hasattr(value, "untyped_storage"):
            if data != raw(value):
                return "%s: other bytes" % name
        if back[name].dtype != value.dtype or back[name].shape != value.shape or raw(back[name]) != raw(value):
            return "%s: comes back otherwise" % name
    return ""


def check(folder, count):
    for number in range(int(count)):
        path = os.path.join(folder, str(number))
        try:
            wanted = torch_files.load(path + ".pt", map_location="cpu")
        except Exception as error:
            print("%d\tleft out: torch cannot load it: %s" % (number, str(error).split("\n", maxsplit=1)[0]))
            continue
        print("%d\t%s" % (number, wrong_with(wanted, path) or "right"))


if __name__ == "__main__":
    fake_cuda.install()
    with torch_files.clean_exit():
        {"make": make, "check": check}[sys.argv[1]](*sys.argv[2:])

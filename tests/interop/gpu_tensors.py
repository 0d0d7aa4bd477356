# SPDX-License-Identifier: Apache-2.0
"""Save a checkpoint as FILE, load it again and print what torch says of each tensor: gpu_tensors.py FILE

A line for each: name, dtype, shape, and the 64-bit FNV-1a of its bytes in C order.
"""
import sys
import warnings

warnings.simplefilter("ignore")

import torch  # noqa: E402

DTYPES = ("float32", "float64", "float16", "bfloat16", "int64", "int32", "int16", "int8", "uint8", "bool",
          "complex64", "float8_e4m3fn")


def fnv1a(data):
    value = 0xcbf29ce484222325
    for byte in data:
        value = ((value ^ byte) * 0x100000001b3) & 0xffffffffffffffff
    return value


def data_of(tensor):
    if str(tensor.dtype) == "torch.bfloat16":  # the upper half of a float32
        return (tensor.float().numpy().view("uint32") >> 16).astype("uint16").tobytes()
    if "float8" in str(tensor.dtype):
        tensor = tensor.view(torch.uint8)
    return tensor.numpy().tobytes()


def make():
    torch.manual_seed(1)
    base = torch.randn(40, 30)
    state = {"by_dtype": {}, "shared": base, "row": base[7], "rows": base[3:9], "scalar": torch.tensor(2.5)}
    for name in DTYPES:
        dtype = getattr(torch, name, None)
        if dtype is not None:
            state["by_dtype"][name] = (torch.randn(7, 5) * 9).to(dtype)
    state["list"] = [torch.arange(11), {"deep": torch.ones(2, 3, 4)}]
    return state


def walk(value, path):
    if isinstance(value, torch.Tensor):
        yield ".".join(path), value
    elif isinstance(value, (dict, list)):
        for key, inner in value.items() if isinstance(value, dict) else enumerate(value):
            yield from walk(inner, path + [str(key)])


def main():
    torch.save(make(), sys.argv[1])
    for name, tensor in walk(torch.load(sys.argv[1], map_location="cpu"), []):
        shape = ", ".join(map(str, tensor.shape))
        print("%s\t%s\t(%s)\t%016x" % (name, str(tensor.dtype)[6:], shape, fnv1a(data_of(tensor.contiguous()))))


main()

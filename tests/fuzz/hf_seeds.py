# SPDX-License-Identifier: Apache-2.0
"""Seeds of fuzz_hf: python3 tests/fuzz/hf_seeds.py tests/fuzz/corpus/fuzz_hf"""

import json
import os
import struct
import sys

ONE, TWO = "model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"
MAP = {"a": ONE, "b": ONE, "c": TWO}
INDEXES = {
    "sound": {"metadata": {"total_size": 10}, "weight_map": MAP},
    "alias": {"metadata": {"total_size": 10.0, "tied": "a", "too": "a", "b": "a", "format": "a"}, "weight_map": MAP},
    "unnamed": {"weight_map": {"a": ONE, "c": TWO}},
    "elsewhere": {"weight_map": {"a": TWO, "b": ONE, "c": TWO}},
    "absent": {"weight_map": dict(MAP, d=TWO)},
    "numbers": {"weight_map": {"a": ONE, "b": ONE}},
    "missing": {"weight_map": dict(MAP, d="model-00003-of-00003.safetensors")},
    "outside": {"weight_map": {"a": "../" + ONE}},
}


def safetensors(info, **tensors):
    header, data = {"__metadata__": {"DCP_SHARDING_INFO": json.dumps({n: {"saved_offsets": o} for n, o in info.items()})}}, b""
    for name, (dtype, shape, stored) in tensors.items():
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [len(data), len(data) + len(stored)]}
        data += stored
    packed = json.dumps(header, separators=(",", ":")).encode()
    return struct.pack("<Q", len(packed)) + packed + data


def pair(first, second):
    """The first file's length has to be 4 times something: its header gets spaces behind it."""
    pad = -len(first) % 4
    length = int.from_bytes(first[:8], "little")
    first = struct.pack("<Q", length + pad) + first[8:8 + length] + b" " * pad + first[8 + length:]
    assert len(first) < 1024
    return bytes([len(first) // 4]) + first + second


W = ("U8", [2, 2], b"abcd")
PARTS = {
    "columns": pair(safetensors({"w": [0, 0]}, w=W, z=("I32", [], b"1234")), safetensors({"w": [0, 2]}, w=("U8", [2, 1], b"xy"))),
    "rows": pair(safetensors({"w": [0, 0]}, w=W), safetensors({"w": [2, 0]}, w=W)),
    "twice": pair(safetensors({"w": [0, 0]}, w=W), safetensors({"w": [0, 0]}, w=W)),
    "hole": pair(safetensors({"w": [0, 0]}, w=W), safetensors({"w": [3, 0]}, w=W)),
    "overlap": pair(safetensors({"w": [0, 0]}, w=W), safetensors({"w": [1, 0]}, w=W)),
    "rank": pair(safetensors({"w": [0, 0]}, w=W), safetensors({"w": [0]}, w=W)),
    "far": pair(safetensors({"w": [0, 0]}, w=W), safetensors({"w": [2**62, 0]}, w=W)),
}


def main(folder):
    os.makedirs(folder, exist_ok=True)
    for name, index in INDEXES.items():
        with open(os.path.join(folder, "index-" + name), "wb") as stream:
            stream.write(b"i" + json.dumps(index).encode())
    for name, data in PARTS.items():
        with open(os.path.join(folder, "parts-" + name), "wb") as stream:
            stream.write(data)


main(sys.argv[1])

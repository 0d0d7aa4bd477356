# SPDX-License-Identifier: Apache-2.0
"""torch_dequantize.py [IN OUT]: FP8 blocks of 128 times 128 to bfloat16, as DeepSeek's fp8_cast_bf16.py computes them: one product in
float32, rounded once. Reads and writes with the package safetensors. Prints a line of JSON with the time and the peak memory.
"""
import json
import os
import resource
import sys
import time

import torch

sys.path.insert(0, os.path.join(os.getcwd(), "site"))
try:
    from safetensors import safe_open
    from safetensors.torch import save_file
except ImportError as error:
    print(json.dumps({"error": str(error)}))
    sys.exit()


def weight_dequant(weight, scale, block=128):
    rows, columns = weight.shape
    tiles = weight.to(torch.float32).view(rows // block, block, columns // block, block)
    return (tiles * scale.view(rows // block, 1, columns // block, 1)).view(rows, columns).to(torch.bfloat16)


start = time.monotonic()
if len(sys.argv) > 1:
    state = {}
    with safe_open(sys.argv[1], framework="pt") as source:
        for name in source.keys():
            if not name.endswith("_scale_inv"):
                state[name] = weight_dequant(source.get_tensor(name), source.get_tensor(name + "_scale_inv"))
    save_file(state, sys.argv[2])
print(json.dumps({"seconds": time.monotonic() - start, "kib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss}))

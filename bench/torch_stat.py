# SPDX-License-Identifier: Apache-2.0
"""What one does without ckpt: torch_stat.py IN

Loads IN and takes min, max, mean, std, zeros, NaN and infinities of every tensor, with torch's own functions. Prints one JSON
object: seconds (importing torch is not counted), peak memory in KiB, torch's version.
"""
import json
import resource
import sys
import time

import torch


def main():
    facts = {"version": str(torch.__version__).split("+")[0]}
    start = time.monotonic()
    found = {}
    for name, tensor in torch.load(sys.argv[1]).items():
        wide = tensor.to(torch.float64)
        counts = [int(test(tensor).sum()) for test in (torch.isnan, torch.isinf, lambda t: t == 0)]
        found[name] = (tensor.min().item(), tensor.max().item(), wide.mean().item(), wide.std(unbiased=False).item(), counts)
    facts["seconds"] = time.monotonic() - start
    facts["kib"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    print(json.dumps(facts))


main()

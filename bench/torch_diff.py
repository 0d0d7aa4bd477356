# SPDX-License-Identifier: Apache-2.0
"""What one does without ckpt: torch_diff.py A B

Loads both with mmap and compares every tensor: largest difference, RMS, cosine. Prints one JSON object: seconds (importing torch is not
counted), peak memory in KiB.
"""
import json
import resource
import sys
import time

import torch


def main():
    facts = {"version": str(torch.__version__).split("+")[0]}
    start = time.monotonic()
    try:
        a, b = (torch.load(path, mmap=True) for path in sys.argv[1:3])
    except TypeError:
        facts["error"] = "torch %s has no mmap" % facts["version"]
    else:
        for key in a:
            x, y = a[key].flatten(), b[key].flatten()
            gap = x - y
            gap.abs().max(), gap.double().square().mean().sqrt(), torch.dot(x, y) / (x.norm() * y.norm())
        facts["seconds"] = time.monotonic() - start
        facts["kib"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    print(json.dumps(facts))


main()

# SPDX-License-Identifier: Apache-2.0
"""What one does without ckpt: torch_strip.py IN OUT [mmap | cast | remap]

Loads IN, takes 'module.' off with torch's own function (or casts every tensor to bfloat16, or takes the tags of
devices off), saves to OUT. Prints one JSON object: seconds for these three steps (importing torch is not counted),
peak memory in KiB, torch's version.
"""
import json
import resource
import sys
import time

import torch
from torch.nn.modules.utils import consume_prefix_in_state_dict_if_present


def main():
    how = sys.argv[3] if len(sys.argv) > 3 else "strip"
    options = {"mmap": {"mmap": True}, "remap": {"map_location": "cpu"}}.get(how, {})
    facts = {"version": str(torch.__version__).split("+")[0]}
    start = time.monotonic()
    try:
        state = torch.load(sys.argv[1], **options)
    except TypeError:
        facts["error"] = "torch %s has no mmap" % facts["version"]
    else:
        if how == "cast":
            state = {key: tensor.to(torch.bfloat16) for key, tensor in state.items()}
        elif how != "remap":
            consume_prefix_in_state_dict_if_present(state, "module.")
        torch.save(state, sys.argv[2])
        facts["seconds"] = time.monotonic() - start
        facts["kib"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    print(json.dumps(facts))


main()

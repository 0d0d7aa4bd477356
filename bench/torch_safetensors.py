# SPDX-License-Identifier: Apache-2.0
"""torch_safetensors.py [IN OUT]: torch.load, safetensors.torch.save_file. Prints a line of JSON with the time and the peak memory."""
import json
import os
import resource
import sys
import time

import torch

sys.path.insert(0, os.path.join(os.getcwd(), "site"))
try:
    from safetensors.torch import save_file
except ImportError as error:
    print(json.dumps({"error": str(error)}))
    sys.exit()

start = time.monotonic()
if len(sys.argv) > 1:
    save_file(torch.load(sys.argv[1], weights_only=True), sys.argv[2])
print(json.dumps({"seconds": time.monotonic() - start, "kib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss}))

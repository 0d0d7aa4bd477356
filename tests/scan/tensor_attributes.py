# SPDX-License-Identifier: Apache-2.0
"""The names under which a tensor has parts of its own are all in src/scan/states.c, which refuses attributes of these names.

CKPT, CKPT_PYTHON and CKPT_TEST_DIR as for the tests of interop.
"""

import os
import re
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(os.path.dirname(HERE), "interop"))
import each_torch  # noqa: E402

IN_TORCH = """
import torch
classes = [torch.Tensor, torch.nn.Parameter] + [getattr(torch.nn.parameter, name) for name in ("Buffer", "UninitializedParameter", "UninitializedBuffer") if hasattr(torch.nn.parameter, name)]
for cls in classes:
    for base in cls.__mro__:
        for name, value in vars(base).items():
            if hasattr(type(value), "__set__"):
                print("part", name)
"""


def known():
    with open(os.path.join(HERE, "..", "..", "src", "scan", "states.c"), encoding="utf-8") as file:
        return set(re.findall(r'"(\w+)"', re.search(r"parts_of_tensors\[\] = \{(.*?)\}", file.read(), re.S)[1]))


def check(_, command, work):
    printed = subprocess.run(command.split() + ["-c", IN_TORCH], cwd=work, check=True, stdout=subprocess.PIPE, encoding="utf-8").stdout
    found = set(re.findall(r"^part (\w+)$", printed, re.M))
    missing = sorted(name for name in found - known() if not (name.startswith("__") and name.endswith("__")))  # Python's own are refused anyway
    return len(found), ["src/scan/states.c does not know that a tensor has the part '%s'" % name for name in missing]


if __name__ == "__main__":
    each_torch.main("tensor-attributes", check)

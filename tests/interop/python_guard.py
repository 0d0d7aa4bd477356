# SPDX-License-Identifier: Apache-2.0
"""ckpt.torch.guard() with real torch: none of the files that tests/scan/ makes to harm is loaded, and what torch wrote is.

CKPT, CKPT_TEST_DIR, CKPT_PYTHON, CKPT_PYTHON_MODULE as for python_module.py; judges are those torches whose Python loads
the package.
"""

import os
import shutil
import sys

import each_torch
import python_module

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "scan"))
import hostile  # noqa: E402


def judge(command, work):
    """(how many things are right, [what is wrong])"""
    os.makedirs(os.path.join(work, "hostile"))
    samples = hostile.write(os.path.join(work, "hostile")).values()
    with open(os.path.join(work, "maybe_plain.txt"), "w", encoding="utf-8") as stream:
        stream.write("\n".join(one.name for one in samples if "plain" in one.wanted))
    os.makedirs(os.path.join(work, "out"))
    python_module.run(command, work, "generate.py", "out", "only-build:every:%d:0" % each_torch.STEP)
    every_way = ["every-way"] if os.environ.get("CKPT_TEST_LONG") == "1" else []
    return python_module.judge_of(command, work, "python_guard_judge.py", *every_way)


if __name__ == "__main__":
    sys.exit(python_module.run_each("python-guard", judge))

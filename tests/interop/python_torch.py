# SPDX-License-Identifier: Apache-2.0
"""ckpt.torch.load() beside torch.load(weights_only=True), on the files that python_module.py has, and on those of CKPT_REAL.

CKPT, CKPT_TEST_DIR, CKPT_PYTHON, CKPT_PYTHON_MODULE as for that; judges are those torches whose Python loads the package.
"""

import os
import shutil
import sys

import python_module

REAL = (".pt", ".pth", ".bin", ".ckpt", ".zip", ".tar")
MOST_REAL = 64 << 20  # bytes of a file


def copy_real(work):
    """[(source, reference)] of the files of CKPT_REAL, below WORK; those made to harm are none of them."""
    folder = os.environ.get("CKPT_REAL") or ""
    pairs = []
    for at, folders, files in os.walk(folder):
        folders[:] = sorted(name for name in folders if "picklescan" not in name)
        for name in sorted(files):
            path = os.path.join(at, name)
            if name.endswith(REAL) and os.path.isfile(path) and os.path.getsize(path) < MOST_REAL:
                target = "real%d-%s" % (len(pairs), name)
                shutil.copyfile(path, os.path.join(work, target))
                pairs.append((target, target))
    return pairs


def more(command, work):
    """Real files are judged once."""
    return copy_real(work) if command == os.environ["CKPT_PYTHON"].split(";")[-1] else []


if __name__ == "__main__":
    sys.exit(python_module.main("python-torch", "python_torch_judge.py", more))

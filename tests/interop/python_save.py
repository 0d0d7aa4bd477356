# SPDX-License-Identifier: Apache-2.0
"""ckpt.save() beside torch.save(), in every torch of CKPT_PYTHON from 2.1 on whose Python loads the module.

CKPT_PYTHON_MODULE: the package, with the libraries that other systems lack. See python_save_judge.py.
"""

import os
import shutil

import each_torch
from python_module import judge_of, run

ASK = "import torch, ckpt; raise SystemExit(tuple(map(int, torch.__version__.split('.')[:2])) < (2, 1))"


def check(ckpt, command, work):
    package = os.environ.get("CKPT_PYTHON_MODULE") or ""
    if not os.path.isdir(package):
        print("CKPT_PYTHON_MODULE is no folder, there is no module for other systems")
        return 0, []
    shutil.copytree(package, os.path.join(work, "ckpt"))
    if run(command, work, "-c", ASK).returncode:
        return 0, []
    return judge_of(command, work, "python_save_judge.py", "out", "every:%d" % each_torch.STEP)


if __name__ == "__main__":
    each_torch.main("python-save", check, optional=True)

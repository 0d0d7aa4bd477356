# SPDX-License-Identifier: Apache-2.0
"""ckpt.save() beside torch.save(), in every torch of CKPT_PYTHON from 2.1 on whose Python loads the module.

CKPT_PYTHON_MODULE: the package, with the libraries that other systems lack. See python_save_judge.py.
"""

import os
import shutil
import subprocess

import each_torch

ASK = "import torch, ckpt; raise SystemExit(tuple(map(int, torch.__version__.split('.')[:2])) < (2, 1))"


def run(command, work, *arguments):
    return subprocess.run(command.split() + list(arguments), cwd=work, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          encoding="utf-8", errors="replace")


def check(ckpt, command, work):
    package = os.environ.get("CKPT_PYTHON_MODULE") or ""
    if not os.path.isdir(package):
        print("CKPT_PYTHON_MODULE is no folder, there is no module for other systems")
        return 0, []
    shutil.copytree(package, os.path.join(work, "ckpt"))
    if run(command, work, "-c", ASK).returncode:
        return 0, []
    done = run(command, work, "python_save_judge.py", "out", "every:%d" % each_torch.STEP)
    lines = done.stdout.splitlines()
    ends = [line.split("\t") for line in lines if line.startswith("DONE\t")]
    if not ends:
        return 0, ["ended with %d: %s" % (done.returncode, done.stdout[-1500:])]
    print("%s: %s" % (command, ends[0][3]), flush=True)
    return int(ends[0][1]), [line[4:] for line in lines if line.startswith("BAD\t")]


if __name__ == "__main__":
    each_torch.main("python-save", check, optional=True)

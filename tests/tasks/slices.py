# SPDX-License-Identifier: Apache-2.0
"""Parts of tensors, as numpy takes them: 'w[0:2, ::4]' printed, and written with -o, beside what numpy prints and saves of array[0:2, ::4].

Each torch makes the files and takes the parts (slices_files.py). CKPT, CKPT_PYTHON and CKPT_TEST_DIR as for tests/interop/run.py.
"""
import json
import os
import shutil
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "interop"))
import cat
import each_torch


def check(ckpt, command, work):
    os.mkdir(os.path.join(work, "found"))
    shutil.copy(os.path.join(HERE, "slices_files.py"), work)
    subprocess.run(command.split() + ["slices_files.py", "out"], cwd=work, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    with open(os.path.join(work, "out", "manifest.json")) as file:
        entries = json.load(file)[::8 * each_torch.STEP]
    pairs, wrong, _ = cat.check_all(ckpt, work, entries)
    with open(os.path.join(work, "pairs.json"), "w") as file:
        json.dump(pairs, file)
    subprocess.run(command.split() + ["cat_want.py", "out", "--compare", "pairs.json", "result.json"], cwd=work, check=True, stderr=subprocess.DEVNULL)
    with open(os.path.join(work, "result.json")) as file:
        wrong += json.load(file)
    return len(entries) - len(wrong), wrong


if __name__ == "__main__":
    each_torch.main("slices", check)

# SPDX-License-Identifier: Apache-2.0
"""Casts, compared with Tensor.to() of real torch: whole files, byte for byte.

CKPT, CKPT_PYTHON and CKPT_TEST_DIR as for run.py. Torch before 2.6 rounds the same but keeps other bits of
NaN in float16 and has fewer types, torch before 2.7 or so makes NaN of what is too large for float8_e4m3fn:
there only the numbers that both have in common are compared.
"""

import os
import re
import subprocess

import each_torch


def generate(command, work):
    done = subprocess.run(command.split() + ["cast_files.py", "files"], cwd=work, check=True,
                          stdout=subprocess.PIPE, encoding="utf-8")
    return tuple(int(part) for part in re.search(r"torch version (\d+)\.(\d+)", done.stdout).groups())


def cast(ckpt, source, dtype, target):
    os.makedirs(os.path.dirname(target), exist_ok=True)
    options = ["--to-integer"] if "int" in dtype or dtype == "bool" else []
    done = subprocess.run([ckpt, "cast", "-q", "--all", "--if-present", *options, dtype, source, target],
                          stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    return "exit status %d: %s" % (done.returncode, done.stderr.strip()) if done.returncode else ""


def compare(command, work, wanted, found, dtype):
    """The files are the same, or torch says how their tensors differ."""
    with open(os.path.join(work, wanted), "rb") as one, open(os.path.join(work, found), "rb") as other:
        if one.read() == other.read():
            return ""
    done = subprocess.run(command.split() + ["cast_common.py", wanted, found, dtype], cwd=work,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, encoding="utf-8")
    return done.stdout.strip() or ("exit status %d" % done.returncode if done.returncode else "")


def check(ckpt, command, work):
    version = generate(command, work)
    passed, wrong = 0, []
    folder = os.path.join(work, "files")
    if not os.path.exists(folder):
        print("skipped: torch %d.%d cannot look at the bits of a tensor" % version)
        return 0, []
    for dtype in sorted(os.listdir(folder)):
        for name in sorted(os.listdir(os.path.join(folder, dtype))) if dtype != "in" else ():
            wanted, found = "files/%s/%s" % (dtype, name), "found/%s/%s" % (dtype, name)
            text = cast(ckpt, os.path.join(folder, "in", name), dtype, os.path.join(work, found))
            text = text or compare(command, work, wanted, found, dtype)
            passed += not text
            if text:
                wrong.append("torch %d.%d, %s, %s: %s" % (*version, name, dtype, text))
    return passed, wrong


if __name__ == "__main__":
    each_torch.main("cast", check)

# SPDX-License-Identifier: Apache-2.0
"""Casts, compared with Tensor.to() of real torch: whole files, byte for byte.

CKPT, CKPT_PYTHON and CKPT_TEST_DIR as for run.py. Torch before 2.6 rounds the same but keeps other bits of
NaN in float16 and has fewer types, torch before 2.7 or so makes NaN of what is too large for float8_e4m3fn:
there only the numbers that both have in common are compared.
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))


def generate(command, work):
    for name in ("cast_files.py", "torch_files.py", "cast_common.py"):
        shutil.copy(os.path.join(HERE, name), work)
    done = subprocess.run(command.split() + ["cast_files.py", "files"], cwd=work, check=True,
                          stdout=subprocess.PIPE, encoding="utf-8")
    return tuple(int(part) for part in re.search(r"torch version (\d+)\.(\d+)", done.stdout).groups())


def cast(ckpt, source, dtype, target):
    os.makedirs(os.path.dirname(target), exist_ok=True)
    options = ["--to-integer"] if "int" in dtype or dtype == "bool" else []
    done = subprocess.run([ckpt, "cast", "-q", "--if-present", *options, dtype, source, target],
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
    failed = passed = 0
    folder = os.path.join(work, "files")
    if not os.path.exists(folder):
        print("skipped: torch %d.%d cannot look at the bits of a tensor" % version)
        return 0, 0
    for dtype in sorted(os.listdir(folder)):
        for name in sorted(os.listdir(os.path.join(folder, dtype))) if dtype != "in" else ():
            wanted, found = "files/%s/%s" % (dtype, name), "found/%s/%s" % (dtype, name)
            text = cast(ckpt, os.path.join(folder, "in", name), dtype, os.path.join(work, found))
            text = text or compare(command, work, wanted, found, dtype)
            failed += bool(text)
            passed += not text
            if text:
                print("FAIL torch %d.%d, %s, %s: %s" % (*version, name, dtype, text))
    return passed, failed


def main():
    ckpt, pythons = os.environ.get("CKPT"), os.environ.get("CKPT_PYTHON")
    if not ckpt or not pythons:
        print("skipped: CKPT or CKPT_PYTHON is not set, no real torch to compare with")
        return 77
    base = os.environ.get("CKPT_TEST_DIR") or "."
    os.makedirs(base, exist_ok=True)
    totals = [0, 0]
    for command in pythons.split(";"):
        with tempfile.TemporaryDirectory(prefix="cast-", dir=base) as work:
            os.chmod(work, 0o755)
            for i, count in enumerate(check(os.path.abspath(ckpt), command, work)):
                totals[i] += count
    print("%d passed, %d failed" % tuple(totals))
    return 1 if totals[1] or not totals[0] else 0


if __name__ == "__main__":
    sys.exit(main())

# SPDX-License-Identifier: Apache-2.0
"""What ckpt sanitize writes loads with weights_only=True in torch 2.6 and later, and means the same.

CKPT, CKPT_PYTHON and CKPT_TEST_DIR as for run.py; older torches are left out.
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile

import each_torch

HERE = os.path.dirname(os.path.abspath(__file__))
IMPOSSIBLE = ("fraction", "objects", "partial", "huge", "frozen_key")


def run(command, work, verb):
    done = subprocess.run(command.split() + ["sanitize_files.py", verb], cwd=work, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, encoding="utf-8")
    return done.stdout


def sanitize(ckpt, work):
    """Failures of the command itself."""
    os.mkdir(os.path.join(work, "out"))
    failures = []
    for name in sorted(os.listdir(os.path.join(work, "in"))):
        done = subprocess.run([ckpt, "sanitize", "--if-present", "in/" + name, "out/" + name], cwd=work,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        impossible = name.startswith(IMPOSSIBLE)
        if done.returncode != (2 if impossible else 0):
            failures.append("FAIL %s: exit status %d: %s" % (name, done.returncode, done.stderr.strip()))
        elif impossible and not re.search("cannot be told without calling|weights_only reads", done.stderr):
            failures.append("FAIL %s: %s" % (name, done.stderr.strip()))
    return failures


def main():
    ckpt, pythons = os.environ.get("CKPT"), os.environ.get("CKPT_PYTHON")
    if not ckpt or not pythons:
        print("skipped: CKPT or CKPT_PYTHON is not set, no real torch to load with")
        return 77
    base = os.environ.get("CKPT_TEST_DIR") or "."
    os.makedirs(base, exist_ok=True)
    failures, checked = [], 0
    for maker in pythons.split(";"):
        version = subprocess.run(maker.split() + ["-c", each_torch.ASK_VERSION],
                                 stdout=subprocess.PIPE, encoding="utf-8").stdout
        numbers = re.search(r"version (\d+)\.(\d+)", version)
        if not numbers or tuple(map(int, numbers.groups())) < (2, 6):
            continue
        with tempfile.TemporaryDirectory(prefix="sanitize-", dir=base) as work:
            os.chmod(work, 0o755)
            shutil.copy(os.path.join(HERE, "sanitize_files.py"), work)
            printed = run(maker, work, "make")
            if printed.strip():
                failures.append("FAIL make: " + printed[-400:])
            failures += sanitize(os.path.abspath(ckpt), work)
            printed = run(maker, work, "check")
            checked += "done with torch" in printed
            failures += [line for line in printed.splitlines() if not line.startswith("done")]
    for text in failures:
        print(text)
    print("%d torches, %d failures" % (checked, len(failures)))
    if not checked and not failures:
        print("skipped: no torch of 2.6 or later")
        return 77
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())

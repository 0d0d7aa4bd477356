# SPDX-License-Identifier: Apache-2.0
"""ckpt compact beside Tensor.clone() of real torch: whole files, byte for byte.

CKPT, CKPT_PYTHON and CKPT_TEST_DIR as for run.py.
"""

import filecmp
import os
import shutil
import subprocess
import sys
import tempfile

import same_file

HERE = os.path.dirname(os.path.abspath(__file__))


def check(ckpt, command, work):
    """What is wrong, or an empty text."""
    for name in ("compact_files.py", "torch_files.py"):
        shutil.copy(os.path.join(HERE, name), work)
    printed = subprocess.run(command.split() + ["compact_files.py", "files"], cwd=work, check=True,
                             stdout=subprocess.PIPE, encoding="utf-8").stdout
    wanted, found = (os.path.join(work, part, "views.pt") for part in ("files/out", "found"))
    os.mkdir(os.path.dirname(found))
    done = subprocess.run([ckpt, "compact", os.path.join(work, "files/in/views.pt"), found],
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    if done.returncode:
        return "exit status %d: %s" % (done.returncode, done.stderr.strip())
    if filecmp.cmp(wanted, found, shallow=False):
        return ""
    if "version 1." in printed and int(printed.split("version 1.")[1].split(".")[0]) < 9:
        return same_file.difference_but_for_keys(wanted, found)
    return same_file.difference(wanted, found)


def main():
    ckpt, pythons = os.environ.get("CKPT"), os.environ.get("CKPT_PYTHON")
    if not ckpt or not pythons:
        print("skipped: CKPT or CKPT_PYTHON is not set, no real torch to compare with")
        return 77
    base = os.environ.get("CKPT_TEST_DIR") or "."
    os.makedirs(base, exist_ok=True)
    failed = passed = 0
    for command in pythons.split(";"):
        with tempfile.TemporaryDirectory(prefix="compact-", dir=base) as work:
            os.chmod(work, 0o755)
            text = check(os.path.abspath(ckpt), command, work)
            failed += bool(text)
            passed += not text
            if text:
                print("FAIL %s: %s" % (command, text))
    print("%d passed, %d failed" % (passed, failed))
    return 1 if failed or not passed else 0


if __name__ == "__main__":
    sys.exit(main())

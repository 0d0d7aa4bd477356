# SPDX-License-Identifier: Apache-2.0
"""Archives that are no torch.save files (torch.package, torch.export, mobile models): what `ckpt convert` makes of them is what
real torch reads out of them. CKPT, CKPT_PYTHON and CKPT_TEST_DIR as for run.py.
"""
import filecmp
import glob
import os
import re
import subprocess
import sys

import each_torch

sys.path.append(os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "scan"))
import benign  # noqa: E402


def run_torch(command, work, *args):
    return subprocess.run(command.split() + ["package_files.py", *args], cwd=work, check=True, stdout=subprocess.PIPE,
                          encoding="utf-8").stdout


def convert(ckpt, version, work):
    """[what is wrong]; NAME.found beside each NAME."""
    wrong = []
    for wanted in sorted(glob.glob(os.path.join(work, "out", "*.wanted"))):
        source = wanted[:-len(".wanted")]
        which = ["--at", "b.state_dict"] if source.endswith("two.pt2") else []
        done = subprocess.run([ckpt, "convert", "-q", *which, "--profile", version, source, source + ".found"],
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, check=False)
        if done.returncode:
            wrong.append("%s: exit status %d: %s" % (os.path.basename(source), done.returncode, done.stderr.strip()))
    return wrong


def compare_bytes(work):
    """Where torch says what it would save, that is what is saved."""
    wrong, right = [], 0
    for wanted in sorted(glob.glob(os.path.join(work, "out", "*", "*"))):
        found = os.path.join(work, "out", os.path.basename(wanted))
        if not os.path.exists(found) or not filecmp.cmp(wanted, found, shallow=False):
            wrong.append("%s: other bytes" % os.path.basename(wanted))
        else:
            right += 1
    return wrong, right


def check_torch(ckpt, command, work):
    printed = run_torch(command, work, "make", "out")
    version = re.search(r"torch (\d+\.\d+)", printed)[1]
    harmless, dangerous = benign.check_packages(os.path.join(work, "out"))
    wrong, passed = convert(ckpt, version, work), 0
    if not wrong:
        checked = run_torch(command, work, "check", "out")
        wrong = re.findall("^FAIL (.*)$", checked, re.M)
        passed = checked.count("same ")
        if passed + len(wrong) != printed.count("made "):
            wrong.append("not all were compared")
    others, right = compare_bytes(work)
    return passed + right + harmless, wrong + others + dangerous


if __name__ == "__main__":
    each_torch.main("package", check_torch)

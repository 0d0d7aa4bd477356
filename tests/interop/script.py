# SPDX-License-Identifier: Apache-2.0
"""State dicts out of modules that were saved whole and of TorchScript archives, beside those that torch makes.

`ckpt convert` writes the file that torch.save writes for the state dict, byte for byte, `ckpt ls` lists all of its
tensors by the same names, and torch loads what was written with weights_only=True, where it has that. CKPT,
CKPT_PYTHON and CKPT_TEST_DIR as for run.py.
"""

import filecmp
import json
import os
import re
import shutil
import subprocess
import sys

import each_torch

sys.path.append(os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "scan"))
import benign  # noqa: E402

LEAST = 40  # cases that even torch 1.7 can make


def call(ckpt, *arguments):
    done = subprocess.run([ckpt, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, check=False)
    if done.returncode:
        return None, "ckpt %s: exit status %d: %s" % (arguments[0], done.returncode, done.stderr.strip())
    return done.stdout, ""


def check_listing(ckpt, case, source):
    text, wrong = call(ckpt, "ls", "--json", source)
    if wrong:
        return wrong
    rows = {row["name"]: row for row in json.loads(text)["tensors"]}
    constants = len({row["storage"] for name, row in rows.items() if name.startswith("constants.")})
    if constants < case.get("constants", 0):
        return "%d constants are listed, %d are in the archive" % (constants, case["constants"])
    for name, (dtype, shape, stride, gradient) in (case["listed"] or {}).items():
        row = rows.get(case["prefix"] + name)
        if row is None:
            return "'%s' is not listed, but %s" % (name, sorted(rows)[:20])
        if [row["dtype"], row["shape"], row["requires_grad"]] != [dtype, shape, gradient]:
            return "'%s' is listed as %s" % (name, row)
        if stride is not None and row["layout"] == "strided" and row["stride"] != stride:
            return "'%s' has stride %s, not %s" % (name, row["stride"], stride)
    return ""


def check(ckpt, version, work, case):
    source = os.path.join(work, "files", "in", case["name"] + ".pt")
    wanted = os.path.join(work, "files", "want", case["name"] + ".pt")
    found = os.path.join(work, "files", "found", case["name"] + ".pt")
    os.makedirs(os.path.dirname(found), exist_ok=True)
    _, wrong = call(ckpt, "convert", "-q", "--profile", version, *case["arguments"], source, found)
    if not wrong and case["same_bytes"] and not filecmp.cmp(wanted, found, shallow=False):
        wrong = "other bytes than torch.save of the state dict"
    return wrong or check_listing(ckpt, case, source)


def check_loading(command, work):
    """Torch loads all that was written, as safely as it can."""
    done = subprocess.run(command.split() + ["script_load.py", "files"], cwd=work, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, encoding="utf-8", check=False)
    return [line for line in done.stdout.splitlines() if line.startswith("FAIL")] or (
        ["script_load.py: exit status %d: %s" % (done.returncode, done.stdout[-500:])] if done.returncode else [])


def check_torch(ckpt, command, work):
    printed = subprocess.run(command.split() + ["script_files.py", "files"], cwd=work, check=True,
                             stdout=subprocess.PIPE, encoding="utf-8").stdout
    version = re.search(r"torch version (\d+\.\d+)", printed)[1]
    print("torch %s:\n%s" % (version, "\n".join(re.findall("left out: .*", printed))))
    with open(os.path.join(work, "files", "cases.json")) as file:
        cases = json.load(file)
    wrong = ["%s: %s" % (case["name"], text) for case in cases for text in [check(ckpt, version, work, case)] if text]
    if len(cases) < LEAST:
        wrong.append("torch made only %d files" % len(cases))
    if os.environ.get("CKPT_KEEP"):
        shutil.copytree(work, os.path.join(os.environ["CKPT_KEEP"], version), dirs_exist_ok=True)
    harmless, others = benign.check_packages(os.path.join(work, "files", "in"))
    if harmless < LEAST:
        others.append("only %d files were scanned" % harmless)
    return len(cases) - len(wrong) + harmless, wrong + others + check_loading(command, work)


if __name__ == "__main__":
    each_torch.main("script", check_torch)

# SPDX-License-Identifier: Apache-2.0
"""Every file that torch writes is sound, and what is not finite in it is counted as torch counts it.

CKPT, CKPT_PYTHON and CKPT_TEST_DIR as for run.py.
"""
import glob
import json
import os
import re
import subprocess
import sys

import each_torch

sys.path.append(os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "scan"))
import benign  # noqa: E402

NUMBERS = re.compile(r"^numbers (\S+) (\d+) (\d+)$", re.M)


def verify(ckpt, *arguments):
    done = subprocess.run([ckpt, "verify", "--json", *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          text=True, check=False)
    return done.returncode, json.loads(done.stdout)["inputs"]


def check_objects(ckpt, work):
    wrong, right = [], 0
    files = sorted(glob.glob(os.path.join(work, "out", "objects", "*.pt")))
    for found in verify(ckpt, *files)[1]:
        name = os.path.basename(found["input"]["path"])
        if found["verdict"] != "sound" or found["findings"]:
            wrong.append("%s is %s: %s" % (name, found["verdict"], json.dumps(found)[:300]))
        else:
            right += 1
    return wrong, right


def check_numbers(ckpt, work, printed):
    wrong, right = [], 0
    for name, *counts in NUMBERS.findall(printed):
        path = os.path.join(work, "out", "numbers", name + ".pt")
        code, inputs = verify(ckpt, "--check-finite", path)
        text = "'x' has %s NaN and %s infinite values" % tuple(counts)
        wanted = [] if counts == ["0", "0"] else [text]
        found = [finding["text"] for finding in inputs[0]["findings"]]
        if found != wanted or code != bool(wanted):
            wrong.append("%s: exit status %d, found %s, torch counts %s" % (name, code, found, wanted))
        elif verify(ckpt, path)[0]:
            wrong.append("%s: not sound" % name)
        else:
            right += 1
    return wrong, right


def check_torch(ckpt, command, work):
    printed = subprocess.run(command.split() + ["verify_files.py", "out"], cwd=work, check=True, stdout=subprocess.PIPE,
                             encoding="utf-8").stdout
    wrong, objects = check_objects(ckpt, work)
    more, numbers = check_numbers(ckpt, work, printed)
    wrong += more
    if objects + len(wrong) < printed.count("made ") or objects < 200 or numbers + len(more) != len(NUMBERS.findall(printed)):
        wrong.append("%d objects and %d dtypes are right" % (objects, numbers))
    plain, others = benign.check_files(os.path.join(work, "out"))
    if plain + len(others) != printed.count("made ") + len(NUMBERS.findall(printed)):
        others.append("%d files were scanned" % (plain + len(others)))
    return objects + numbers + plain, wrong + others


if __name__ == "__main__":
    each_torch.main("verify", check_torch)

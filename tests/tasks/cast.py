# SPDX-License-Identifier: Apache-2.0
"""A trainer's checkpoint is cast for inference: no counter, moment or master weight changes unless asked for. Real torch is the judge.

CKPT, CKPT_PYTHON and CKPT_TEST_DIR as for the tests in interop/.
"""

import glob
import os
import re
import shutil
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "interop"))

import each_torch  # noqa: E402


def run(*words, cwd):
    return subprocess.run(words, cwd=cwd, stdout=subprocess.PIPE, stderr=subprocess.PIPE, encoding="utf-8")


def judged(command, work, how, dtype, pairs):
    """What is wrong with files that were cast."""
    words = [path for pair in pairs for path in pair]
    done = run(*command.split(), "cast_judge.py", how, dtype, *words, cwd=work)
    lines = done.stdout.splitlines()
    wrong = ["%s, %s: %s" % (how, dtype, line) for line in lines if not line.endswith(": right")]
    if len(lines) != len(pairs):
        wrong.append(done.stderr[-2000:])
    return len(lines) - len(wrong), wrong


def cast(ckpt, work, pairs, *words):
    wrong = []
    for before, after in pairs:
        done = run(ckpt, *[before if word == "IN" else after if word == "OUT" else word for word in words], cwd=work)
        if done.returncode:
            wrong.append("%s: exit status %d: %s" % (" ".join(words), done.returncode, done.stderr.strip()))
    return wrong


def counted(ckpt, command, work, dtype):
    """What the notes say, beside what torch counts."""
    done = run(ckpt, "cast", dtype, "in-losses/losses.pt", dtype + ".pt", cwd=work)
    notes = re.findall(r"ckpt: note: ([0-9,]+) numbers? (?:was|were) too (?:large|small) .* at (\S.*)", done.stderr)
    told = [number.replace(",", "") + " " + place for number, place in notes]
    torch = run(*command.split(), "cast_judge.py", "count", dtype, "in-losses/losses.pt", dtype + ".pt", cwd=work)
    if torch.stdout.splitlines() != told or len(told) != 2:
        return 0, ["%s: torch counts %s %s, ckpt says %s" % (dtype, torch.stdout.splitlines(), torch.stderr[-1000:], done.stderr)]
    done = run(ckpt, "cast", dtype, "--check-overflow", "in-losses/losses.pt", "no.pt", cwd=work)
    if done.returncode != 1 or os.path.exists(os.path.join(work, "no.pt")):
        return 0, ["%s: --check-overflow exits with %d" % (dtype, done.returncode)]
    return 1, []


def dtensors(ckpt, command, work):
    """Where torch has DTensors: those that are cast and those that are not may have one DTensorSpec."""
    if run(*command.split(), "cast_dtensor.py", "make", "dtensors.pt", cwd=work).returncode:
        return 0, []
    right, wrong = 0, []
    for how, options in ("weights", []), ("moments", ["--only", "*.exp_avg*"]):
        done = run(ckpt, "cast", "bf16", *options, "dtensors.pt", how + ".pt", cwd=work)
        told = run(*command.split(), "cast_dtensor.py", "judge", how, "dtensors.pt", how + ".pt", cwd=work)
        if told.stdout == "right\n":
            right += 1
        else:
            wrong.append("DTensors, %s: %s %s %s" % (how, done.stderr, told.stdout, told.stderr[-1000:]))
    return right, wrong


def check(ckpt, command, work):
    for script in glob.glob(os.path.join(HERE, "cast_*.py")):
        shutil.copy(script, work)
    made = run(*command.split(), "cast_files.py", "in", cwd=work)
    if "torch version" not in made.stdout: # torch 1.7 may abort when all is made
        return 0, [made.stderr[-2000:]]
    names = sorted(os.listdir(os.path.join(work, "in")))
    dtype = "bfloat16" if "version 1.7" not in made.stdout else "float16"
    right, wrong = 0, []
    for number, (how, words) in enumerate([
            ("weights", ["cast", dtype, "IN", "OUT"]), ("all", ["cast", "--all", dtype, "IN", "OUT"]),
            ("weights", ["edit", "--cast", dtype, "IN", "OUT"]), ("all", ["convert", "--cast-all", dtype, "IN", "OUT"]),
            ("all", ["cast", "float16", "--only", "*", "IN", "OUT"])]):
        folder = "out%d" % number
        os.mkdir(os.path.join(work, folder))
        pairs = [("in/" + name, "%s/%s" % (folder, name)) for name in names if number == 0 or name.startswith("trainer") and ("convert" not in words or name.endswith(".pt"))]
        wrong += cast(ckpt, work, pairs, *words)
        found = judged(command, work, how, "float16" if "float16" in words else dtype, pairs)
        right, wrong = right + found[0], wrong + found[1]
    in_place = [("in/" + name, "place/" + name) for name in names if name.startswith("trainer") and name.endswith(".pt")]
    shutil.copytree(os.path.join(work, "in"), os.path.join(work, "place"))
    wrong += cast(ckpt, work, in_place, "cast", "-i", dtype, "OUT")
    found = judged(command, work, "weights", dtype, in_place)
    right, wrong = right + found[0], wrong + found[1]
    for target in ("float16", "bfloat16") + (("float8_e5m2",) if "version 2." in made.stdout else ()):
        found = counted(ckpt, command, work, target)
        right, wrong = right + found[0], wrong + found[1]
    found = dtensors(ckpt, command, work)
    return right + found[0], wrong + found[1]


if __name__ == "__main__":
    each_torch.main("cast", check)

# SPDX-License-Identifier: Apache-2.0
"""`ckpt stat`, compared with what numpy says of the values that real torch loads. CKPT, CKPT_PYTHON and CKPT_TEST_DIR as for run.py.

Counts have to be the same; mean, standard deviation and norm are right to 1e-9 of what they are, computed with more digits than numpy takes, or the
same as numpy's where the squares are beyond the range of a float64.
"""
import collections
import json
import math
import os
import re
import subprocess

import each_torch

STEP = re.compile(r'\["((?:[^"\\]|\\.)*)"\]|\[(\d+)\]')
EXACT = ("count", "nan", "inf", "zeros", "min", "max", "absmax")
LAST_DIGIT = 4e-16      # numpy's own abs() of complex numbers differs from machine to machine
LOOSE, NEAR = 3e-7, 1e-9
QUANTILES = (0, 0.001, 0.37, 0.5, 0.99, 1)      # as stat_want.py has them


def dotted(name):
    """'["a"][0]' -> 'a.0'"""
    return ".".join(key or position for key, position in STEP.findall(name))


def stat(ckpt, path, *arguments, before=()):
    done = subprocess.run([*before, ckpt, "stat", "--json", *arguments, path], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          text=True, check=False)
    return json.loads(done.stdout) if done.returncode == 0 else None, done.stderr


def is_near(found, wanted, also, near):
    """ALSO: what numpy makes of it, with the digits of a float64."""
    if not math.isfinite(float(also)) and (found is None or not math.isfinite(float(found))):
        return True
    found, wanted, also = float(found), float(wanted), float(also)
    return abs(found - wanted) <= near * abs(wanted) or abs(found - also) <= near * abs(also)


def is_same(found, wanted, near):
    """Integers beyond int64 are strings."""
    if isinstance(found, str) and isinstance(wanted, int):
        found = int(found)
    if found is None or wanted is None or not near:
        return found == wanted
    return abs(found - wanted) <= near * abs(wanted)


def are_quantiles(found, wanted, near):
    reach = max(abs(float(found["min"])), abs(float(found["max"])))
    return [row["q"] for row in found["quantiles"]] == list(QUANTILES) and all(
        abs(row["value"] - q) <= near * reach for row, q in zip(found["quantiles"], wanted))


def difference(found, wanted):
    near = LOOSE if wanted["loose"] else LAST_DIGIT if found.get("magnitudes") else 0
    for key in EXACT:
        if not is_same(found.get(key), wanted.get(key), near if key in ("min", "max", "absmax") else 0):
            return "%s %r, wanted %r" % (key, found.get(key), wanted.get(key))
    if found.get("first_not_finite") != wanted["first"]:
        return "first not finite at %r, wanted %r" % (found.get("first_not_finite"), wanted["first"])
    if "mean" in wanted:
        for i, key in enumerate(("mean", "std", "norm")):
            if not is_near(found[key], wanted[key], wanted["numpy"][i], max(near, NEAR)):
                return "%s %r, wanted %r, numpy has %r" % (key, found[key], wanted[key], wanted["numpy"][i])
    if "quantiles" in wanted and not are_quantiles(found, wanted["quantiles"], near):
        return "quantiles %r, wanted %r" % (found["quantiles"], wanted["quantiles"])
    if "bins" in wanted and not near and found["histogram"]["counts"] != wanted["bins"]:
        return "bins %r, wanted %r" % (found["histogram"]["counts"], wanted["bins"])
    return ""


def check_file(ckpt, work, path, entries):
    found, complaint = stat(ckpt, os.path.join(work, path), "--hist=10", "--quantiles", ",".join(map(str, QUANTILES)))
    if found is None:
        return 0, ["%s: %s" % (path, complaint.strip())]
    rows, wrong = collections.defaultdict(list), []
    for row in found["tensors"]:
        rows[row["name"]].append(row)
    for wanted in entries:
        texts = [row.get("why_not") or difference(row, wanted) for row in rows[dotted(wanted["name"])]] or ["is not there"]
        if all(texts):      # two may have one name
            wrong.append("%s %s: %s" % (os.path.basename(path), wanted["name"], texts[0]))
    return len(entries) - len(wrong), wrong


def check_totals(ckpt, work):
    """Shared values are in them once; one thread or many: the same to the last digit."""
    wrong = []
    totals = {row["dtype"]: row for row in stat(ckpt, os.path.join(work, "out", "stat_shared.zip.pt"))[0]["totals"]}
    if totals[None]["count"] != 1007 or totals[None]["tensors"] != 7 or totals[None]["max"] != 999:
        wrong.append("totals of shared tensors: %r" % totals[None])
    path = os.path.join(work, "out", "stat_floats.zip.pt")
    more = ("--hist", "--depth=1", "--quantiles=0.1,0.5,0.123")
    if stat(ckpt, path, *more) != stat(ckpt, path, *more, before=("taskset", "-c", "0")):
        wrong.append("one thread gives other results than many")
    return 2 - len(wrong), wrong


def check_torch(ckpt, command, work):
    done = subprocess.run(command.split() + ["stat_want.py", "out", str(each_torch.STEP)], cwd=work, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          encoding="utf-8")
    print(done.stdout.strip()[-1500:])
    with open(os.path.join(work, "out", "manifest.json")) as stream:
        entries = json.load(stream)
    files = collections.defaultdict(list)
    for entry in entries:
        files[entry["file"]].append(entry)
    right, wrong = check_totals(ckpt, work)
    for path in sorted(files):
        good, bad = check_file(ckpt, work, path, files[path])
        right, wrong = right + good, wrong + bad
    if right < 300:
        wrong.append("only %d arrays are right" % right)
    return right, wrong


if __name__ == "__main__":
    each_torch.main("stat", check_torch)

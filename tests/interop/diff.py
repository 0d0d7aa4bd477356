# SPDX-License-Identifier: Apache-2.0
"""What 'ckpt diff' says of the tensors of real torch is what torch, numpy and exact sums say.

CKPT, CKPT_PYTHON and CKPT_TEST_DIR as for run.py.
"""
import json
import math
import os
import subprocess

import each_torch

CLOSE = 1e-12  # sums are added in another order
EXACT = ("count", "differing", "nan_appeared", "nan_vanished", "nan_both", "inf_appeared", "inf_vanished", "max_abs",
         "other_bits")


def diff(ckpt, *arguments):
    done = subprocess.run([ckpt, "diff", *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                          check=False)
    return done.returncode, done.stdout, done.stderr


def load(path):
    with open(path, encoding="utf-8") as file:
        return json.load(file)


def differences(ckpt, *arguments):
    code, out, err = diff(ckpt, "--json", *arguments)
    document = json.loads(out)
    found = {f["name"]: f for f in document["inputs"][0]["differences"]}
    return code, found, document["inputs"][0], err


def is_close(found, want):
    if found is None or want is None or isinstance(found, str) or isinstance(want, str):
        return found == want
    return abs(found - want) <= CLOSE * max(abs(found), abs(want))


def check_one(name, want, found):
    if want is None:
        return ["%s: is equal, found %s" % (name, json.dumps(found)[:300])] if found else []
    if found is None:
        return [] if not want["differing"] else ["%s: not found, want %s" % (name, want)]
    numbers = found.get("numbers")
    if not numbers:
        return ["%s: no numbers in %s" % (name, json.dumps(found)[:300])]
    wrong = ["%s: %s is %s, want %s" % (name, key, numbers[key], want[key]) for key in EXACT
             if key in want and numbers[key] != want[key]]
    wrong += ["%s: %s is %r, want %r" % (name, key, numbers[key], want[key]) for key in ("max_rel", "rms", "change", "cosine")
              if key in want and not is_close(numbers[key], want[key])]
    if want["max_ulp"] != "unknown" and str(numbers["max_ulp"]) != str(want["max_ulp"]):
        wrong.append("%s: max_ulp is %s, want %s" % (name, numbers["max_ulp"], want["max_ulp"]))
    return wrong


def check_numbers(ckpt, out):
    a, b, want = (os.path.join(out, name) for name in ("numbers-a.pt", "numbers-b.pt", "want.json"))
    want = load(want)
    wrong = []
    for options in (["--read", "--strict"], ["--strict"]):
        code, found, whole, err = differences(ckpt, *options, a, b)
        found.pop("", None)  # one is an OrderedDict
        if code != 1 or err or set(found) - set(want):
            wrong.append("exit status %d, %s, %s" % (code, err, sorted(set(found) - set(want))[:5]))
        for name in want:
            one = found.get(name)
            if one and want[name] is None and set(one["what"]) <= {"order", "strides", "layout"}:
                one = None
            wrong += check_one(name, want[name], one)
    if diff(ckpt, "--json", "--read", a, b)[1] != diff(ckpt, "--json", "--read", a, b)[1]:
        wrong.append("two runs print two documents")
    changes = [f["numbers"]["change"] for f in found.values()
               if "value" in f["what"] and not any(f["numbers"][k] for k in f["numbers"] if k[:4] in ("nan_", "inf_") and k != "nan_both")]
    changes = [math.inf if isinstance(v, str) else v for v in changes]
    if changes != sorted(changes, reverse=True):
        wrong.append("not sorted by change: %s" % changes[:20])
    return 2 * len(want), wrong


def check_close(ckpt, out):
    wrong, right = [], 0
    for atol, rtol, close in load(os.path.join(out, "close.json")):
        found = differences(ckpt, "--tolerance", "%r,%r" % (atol, rtol), os.path.join(out, "numbers-a.pt"),
                            os.path.join(out, "numbers-b.pt"))[1]
        again = differences(ckpt, "--atol", repr(atol), "--rtol", repr(rtol), os.path.join(out, "numbers-a.pt"),
                            os.path.join(out, "numbers-b.pt"))[1]
        if found != again:
            wrong.append("--tolerance is not --atol and --rtol")
        for name, want in close.items():
            is_same = name not in found or "value" not in found[name]["what"]
            if is_same != want:
                wrong.append("%s: allclose(rtol=%r, atol=%r) is %s" % (name, rtol, atol, want))
            right += is_same == want
    return right, wrong


def check_same(ckpt, out):
    folder = os.path.join(out, "same")
    names = sorted(os.listdir(folder))
    paths = [os.path.join(folder, name) for name in names]
    wrong, right = [], 0
    for first in paths:
        for options in ([], ["--read"]):
            code, text, err = diff(ckpt, *options, first, *paths)
            if code or err or text.count(" is the same as ") != len(paths):
                wrong.append("%s %s: exit status %d\n%s%s" % (options, first, code, text[:1500], err))
            right += code == 0
    return right, wrong


def check_values(ckpt, out):
    """What is no tensor by itself: 'the same' is said of nothing else."""
    folder = os.path.join(out, "values")
    wrong, right = [], 0
    for name in sorted({file[:-5] for file in os.listdir(folder)}):
        a, b = ("%s/%s-%s.pt" % (folder, name, side) for side in "ab")
        kind = name.split("-")[0]
        tries = [(0, [a, a])] + [(kind == "differ", both) for both in ([a, b], [b, a])]
        if kind == "strict":
            tries.append((1, ["--strict", a, b]))
        for want, arguments in tries:
            code, text, err = diff(ckpt, *arguments)
            if code != want or err:
                wrong.append("%s: exit status %d, want %d\n%s%s" % (name, code, want, text[:500], err))
            right += code == want
    return right, wrong


def check_torch(ckpt, command, work):
    subprocess.run(command.split() + ["diff_files.py", "out"], cwd=work, check=True)
    subprocess.run(command.split() + ["diff_values.py", "out/values"], cwd=work, check=True)
    out = os.path.join(work, "out")
    right, wrong = 0, []
    for check in (check_numbers, check_close, check_same, check_values):
        passed, failed = check(ckpt, out)
        right += passed
        wrong += failed
    return right, wrong


if __name__ == "__main__":
    each_torch.main("diff", check_torch)

# SPDX-License-Identifier: Apache-2.0
"""Random pairs of small tensors: what 'ckpt diff' says of them is what exact sums say, the same in every form of a file and by any path of reading.

    CKPT=build/ckpt CKPT_PYTHON='python3;other-python' python3 tests/interop/random_diff.py [COUNT [SEED]]

Small tensors of one stretch of a file are read with what lies behind them (src/diff/small.c); views with gaps, big-endian files and compressed ones
never are: both have to find the same, to the bit. random_diff_files.py makes the files.
"""
import json
import os
import random
import subprocess
import sys

import diff
import each_torch

COUNT, SEED = (100 if os.environ.get("CKPT_TEST_LONG") == "1" else 1), 4100
FORMS = ("packed", "deflated", "stream", "gaps", "big", "safetensors", "dcp")
ANY_ORDER = {"transposed", "expanded"}      # read as their storages lie: sums are added in the order of that
FORM_ONLY = {"strides", "layout", "class", "order", "device"}       # in which forms differ, and tensors do not


def differences(ckpt, *arguments):
    """{name: what was found} of tensors in both."""
    code, out, err = diff.diff(ckpt, "--json", *arguments)
    if code not in (0, 1) and "unreadable" not in out:
        return {"": "exit status %d: %s" % (code, err)}
    found = {}
    for one in json.loads(out)["inputs"][0]["differences"]:
        one["what"] = sorted(set(one.get("what", ())) - FORM_ONLY)
        numbers = one.get("numbers") or {"differing": 0, "other_bits": 0}
        if one["kind"] == "changed" and one["name"] and (one["what"] or numbers["differing"] or numbers["other_bits"]):
            found[one["name"]] = {key: one.get(key) for key in ("what", "numbers")}
            found[one["name"]]["dtypes"] = [one[side].get("dtype") for side in "ab"]
    return found


def names_of(ckpt, path):
    done = subprocess.run([ckpt, "ls", "--json", path], stdout=subprocess.PIPE, text=True, check=True)
    return {one["name"] for one in json.loads(done.stdout)["tensors"]}


def check_want(ckpt, out, want):
    right, wrong = 0, []
    for options in ([], ["--strict"]):
        found = differences(ckpt, *options, out + "/a-zip", out + "/b-zip")
        for name, numbers in want["between"].items():
            if numbers != "unknown":
                one = found.get(name)
                wrong += diff.check_one(name, numbers, one if one and one["numbers"] else None)
                right += 1
    for atol, rtol, counts in want["outside"]:
        found = differences(ckpt, "--atol", repr(atol), "--rtol", repr(rtol), out + "/a-zip", out + "/b-zip")
        for name, count in counts.items():
            outside = (found.get(name, {}).get("numbers") or {}).get("outside", 0)
            right += outside == count
            if outside != count:
                wrong.append("%s: %s outside of %r, %r, want %d" % (name, outside, atol, rtol, count))
    return right, wrong


def is_same(name, one, other):
    if name.split(".tied", maxsplit=1)[0] in ANY_ORDER and one and other:
        return one["what"] == other["what"] and all(diff.is_close(value, other["numbers"][key]) for key, value in one["numbers"].items())
    return one == other


def check_forms(ckpt, out, r):
    """Any two forms have the differences that the plainest ones have."""
    right, wrong = 0, []
    forms = [form for form in FORMS if os.path.exists(out + "/a-" + form)]
    names = {side + form: names_of(ckpt, "%s/%s-%s" % (out, side, form)) for form in forms for side in "ab"}
    for options in ([], ["--strict"], ["--ignore-dtype", "--tolerance", "1e-3,1e-2"]):
        wanted = differences(ckpt, *options, out + "/a-zip", out + "/b-zip")
        for form, other in zip(forms, r.sample(forms, len(forms))):
            found = differences(ckpt, *options, "%s/a-%s" % (out, form), "%s/b-%s" % (out, other))
            for name in sorted(names["a" + form] & names["b" + other] | {""}):
                same = is_same(name, found.get(name), wanted.get(name))
                right += same
                if not same:
                    wrong.append("%s, %s and %s, %s: %s, want %s" % (name, form, other, options, found.get(name), wanted.get(name)))
    return right, wrong


def check_torch(ckpt, command, work):
    given = [int(value) for value in sys.argv[1:3]]
    count, seed = given + [COUNT, SEED][len(given):]
    subprocess.run(command.split() + ["random_diff_files.py", "out", str(seed), str(count)], cwd=work, check=True, stderr=subprocess.DEVNULL)
    right, wrong = 0, []
    for number in range(seed, seed + count):
        out = os.path.join(work, "out", str(number))
        for passed, failed in (check_want(ckpt, out, diff.load(out + "/want.json")), check_forms(ckpt, out, random.Random(number))):
            right += passed
            wrong += ["seed %d: %s" % (number, text) for text in failed]
    return right, wrong


if __name__ == "__main__":
    each_torch.main("random_diff", check_torch)

# SPDX-License-Identifier: Apache-2.0
"""`ckpt cat`, compared with what real torch loads and real numpy prints. CKPT, CKPT_PYTHON and CKPT_TEST_DIR as for run.py.

Every array in the files of cat_want.py is printed, which has to give what numpy.array2string() gives of it (in newest numpy),
and written as .npy, of which numpy.load() has to make the same array, bit for bit.
"""

import concurrent.futures
import json
import os
import subprocess

import each_torch

PROCESSES = 2


def run(ckpt, *arguments):
    done = subprocess.run([ckpt, "cat", "-q", *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    return done.returncode, done.stdout, done.stderr.strip()


def check_one(ckpt, work, number, entry):
    """(what is wrong or None, name of the .npy that was written or None, was a text compared)"""
    source = os.path.join(work, "out", entry["file"])
    what = "%s %s%s" % (entry["file"], entry["name"], " " + entry["part"] if entry.get("part") else "")
    part = ["--part", entry["part"]] if entry.get("part") else []
    target = os.path.join("found", "%d.npy" % number)
    status, _, complaint = run(ckpt, "--no-sync", *part, source, entry["name"], "-o", os.path.join(work, target))
    if entry.get("refused"):
        return (None if status else what + ": was not refused"), None, False
    if status:
        return "%s: exit status %d: %s" % (what, status, complaint), None, False
    if "text" in entry:
        status, text, complaint = run(ckpt, *part, source, entry["name"])
        if status or text != entry["text"] + "\n":
            return "%s: printed (%d, %s)\n%s\nwanted\n%s" % (what, status, complaint, text[:800], entry["text"][:800]), target, True
    return None, target, "text" in entry


def check_all(ckpt, work, entries):
    pairs, wrong, texts = [], [], 0
    with concurrent.futures.ThreadPoolExecutor(PROCESSES) as pool:
        results = pool.map(lambda pair: check_one(ckpt, work, *pair), enumerate(entries))
        for entry, (text, target, compared) in zip(entries, results):
            texts += compared
            if text:
                wrong.append(text)
            if target:
                pairs.append(["%s %s %s" % (entry["file"], entry["name"], entry["part"] or ""),
                              os.path.join("out", entry["npy"]), target])
    return pairs, wrong, texts


def check(ckpt, command, work):
    os.mkdir(os.path.join(work, "found"))
    done = subprocess.run(command.split() + ["cat_want.py", "out", str(each_torch.STEP)], cwd=work, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, encoding="utf-8")
    print(done.stdout.strip())
    with open(os.path.join(work, "out", "manifest.json")) as stream:
        entries = json.load(stream)
    pairs, wrong, texts = check_all(ckpt, work, entries)
    with open(os.path.join(work, "pairs.json"), "w") as stream:
        json.dump(pairs, stream)
    subprocess.run(command.split() + ["cat_want.py", "out", "--compare", "pairs.json", "result.json"], cwd=work, check=True)
    with open(os.path.join(work, "result.json")) as stream:
        wrong += json.load(stream)
    print("%d arrays, %d of them as text: %d wrong" % (len(entries), texts, len(wrong)))
    return len(entries) - len(wrong), wrong


if __name__ == "__main__":
    each_torch.main("cat", check)

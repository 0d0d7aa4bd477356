# SPDX-License-Identifier: Apache-2.0
"""`ckpt convert` to .npz and folders of .npy, read by the numpy of each torch: the arrays that torch makes with .numpy(), bit for bit; and where
a file is a flat dict, the very bytes of numpy.savez(). CKPT, CKPT_PYTHON and CKPT_TEST_DIR as for run.py.
"""
import filecmp
import json
import os
import shutil
import subprocess

import each_torch

LEAST = 150         # files that have to be right
SAME = 20           # ... to the byte, where numpy is new enough


def convert(ckpt, source, target, *options):
    done = subprocess.run([ckpt, "convert", "--no-sync", *options, source, target], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          encoding="utf-8", check=False)
    return done.returncode, done.stderr.strip()


def check_refused(ckpt, source, target, entry):
    """Of a flat dict it is known whether anything has to be left out."""
    status, said = convert(ckpt, source, target)
    if status != (2 if entry["refused"] else 0):
        return ["%s: exit status %d without --drop-others: %s" % (entry["file"], status, said[:300])]
    if status == 2:
        return ["%s: %s is not named: %s" % (entry["file"], name, said) for name in entry["refused"][:20]
                if "'%s' " % name not in said] + (["%s: written nevertheless" % target] if os.path.exists(target) else [])
    os.unlink(target)
    return []


def check_file(ckpt, work, number, entry, pairs):
    source, target = os.path.join(work, "out", entry["file"]), os.path.join(work, "found", str(number))
    wrong = check_refused(ckpt, source, target + ".npz", entry) if entry["flat"] and not entry["clash"] else []
    status, said = convert(ckpt, source, target + ".npz", "--drop-others")
    if entry["clash"] or (entry["flat"] and not entry["arrays"]):
        return wrong + ([] if status == 2 else ["%s: exit status %d: %s" % (entry["file"], status, said[:300])])
    if status and not entry["arrays"]:
        return wrong
    if status:
        return wrong + ["%s: exit status %d: %s" % (entry["file"], status, said[:300])]
    pairs.append([os.path.join("found", "%d.npz" % number), entry])
    if entry["exact"] and not filecmp.cmp(target + ".npz", source[:-3] + ".npz", shallow=False):
        wrong.append("%s: not the bytes of numpy.savez()" % entry["file"])
    if number % 5 == 0:
        status, said = convert(ckpt, source, target, "--drop-others", "--to", "npy")
        pairs.append([os.path.join("found", str(number)), entry])
        if status:
            wrong.append("%s: to a folder: %s" % (entry["file"], said[:300]))
    return wrong


def unzip_agrees(work, pairs):
    if not shutil.which("unzip"):
        return []
    return ["unzip -t %s" % path for path, _ in pairs[::5] if path.endswith(".npz") and
            subprocess.run(["unzip", "-tqq", os.path.join(work, path)], stdout=subprocess.DEVNULL, check=False).returncode]


def check_torch(ckpt, command, work):
    done = subprocess.run(command.split() + ["npz_want.py", "out", str(min(each_torch.STEP, 3))], cwd=work, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          encoding="utf-8", check=False)
    print(done.stdout.strip()[-1500:])
    with open(os.path.join(work, "out", "manifest.json")) as stream:
        entries = json.load(stream)
    os.mkdir(os.path.join(work, "found"))
    wrong, pairs = [], []
    for number, entry in enumerate(entries):
        wrong += check_file(ckpt, work, number, entry, pairs)
    wrong += unzip_agrees(work, pairs)
    with open(os.path.join(work, "pairs.json"), "w") as stream:
        json.dump(pairs, stream)
    subprocess.run(command.split() + ["npz_want.py", "out", "--compare", "pairs.json", "result.json"], cwd=work, check=True)
    with open(os.path.join(work, "result.json")) as stream:
        wrong += json.load(stream)
    exact = sum(entry["exact"] for _, entry in pairs)
    print("%d files and folders of numpy, %d of them like those of numpy.savez()" % (len(pairs), exact))
    return len(pairs) + exact, wrong


if __name__ == "__main__":
    each_torch.main("npz", check_torch)

#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Two builds of ckpt do the same: tests/same_output.py OLD NEW FILE-OR-FOLDER...

For changes that must change nothing, such as a move of code. Every command that takes one file is run by both on every file below the
operands (a folder that holds a .metadata, a latest or several shards is one operand): what they print, their exit codes, and the names and bytes of all that they
write have to be equal. CKPT_SAME_ALL=1: on files of any size. The exit code is 1 if anything differs.
"""

import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile

MOST = 4 << 20  # bytes of a file, and seconds of a command
SECONDS = 60
READS = (
    ["ls"], ["ls", "--long"], ["ls", "--json"], ["ls", "--records"], ["info"], ["info", "--json"], ["dis"], ["stat"], ["stat", "--json"], ["verify"], ["verify", "--quick"], ["verify", "--json"],
    ["scan"], ["scan", "--strict", "--json"], ["why"], ["latest"],
)
WRITES = (
    ("pt", ["convert"]), ("safetensors", ["convert"]), ("safetensors", ["convert", "--drop-others"]), ("npz", ["convert", "--drop-others"]), ("pt", ["convert", "--profile", "1.13"]),
    ("pt", ["convert", "--legacy"]), ("pt", ["convert", "--state-dict"]), ("pt", ["strip-module"]), ("pt", ["strip-module", "--if-present"]), ("pt", ["add-module"]), ("pt", ["strip-prefix", "model."]),
    ("pt", ["add-prefix", "x."]), ("pt", ["rename", "-e", "s/weight/w/"]), ("pt", ["remap", "cpu=cuda:0"]), ("pt", ["remap", "--all", "cpu"]), ("pt", ["cast", "bf16"]), ("pt", ["compact"]),
    ("pt", ["sanitize"]), ("pt", ["extract", "model"]), ("pt", ["select", "--drop", "optimizer"]), ("pt", ["select", "*weight"]), ("pt", ["edit", "--strip-module", "--drop", "*.bias"]),
    ("pt", ["merge"]), ("dir", ["split", "--ranks", "2"]), ("dir", ["split", "--ranks", "2", "--to", "safetensors"]), ("dir", ["reshard", "--ranks", "3"]), ("pt", ["repair"]), ("pt", ["repair", "--fill", "zeros"]),
)
IN_PLACE = (["strip-module", "-i"], ["add-module", "-i"], ["select", "-i", "--drop", "*.bias"], ["remap", "-i", "--all", "cpu"], ["reindex", "-i"])
TIMES = re.compile(rb"in \d+\.\d+ s|\d+\.\d+ s\b")


def inputs(operands):
    for operand in operands:
        if os.path.isfile(operand):
            yield operand
        for folder, folders, names in os.walk(operand):
            folders.sort()
            if ".metadata" in names or "latest" in names or "metadata.pkl" in names or any("-of-" in name for name in names):
                yield folder
            for name in sorted(names):
                path = os.path.join(folder, name)
                if os.path.isfile(path) and (os.path.getsize(path) <= MOST or os.environ.get("CKPT_SAME_ALL") == "1"):
                    yield path


def listing(folder):
    """{name: what it is}"""
    found = {}
    for where, folders, names in os.walk(folder):
        for name in sorted(names + folders):
            path = os.path.join(where, name)
            short = os.path.relpath(path, folder)
            if os.path.islink(path):
                found[short] = "link to " + os.readlink(path)
            elif os.path.isfile(path):
                with open(path, "rb") as stream:
                    found[short] = "%o %s" % (os.stat(path).st_mode, hashlib.sha256(stream.read()).hexdigest())
            else:
                found[short] = "%o folder" % os.stat(path).st_mode
    return found


def run(binary, arguments, folder):
    try:
        done = subprocess.run([binary, *arguments], cwd=folder, stdin=subprocess.DEVNULL, capture_output=True, timeout=SECONDS, env=dict(os.environ, LC_ALL="C"))
    except subprocess.TimeoutExpired:
        return "took more than %d s" % SECONDS
    return done.returncode, TIMES.sub(b"T s", done.stdout), TIMES.sub(b"T s", done.stderr), listing(folder)


def copy_of(path, folder):
    target = os.path.join(folder, "in" + os.path.splitext(path)[1])
    if os.path.isdir(path):
        shutil.copytree(path, target, symlinks=True)
    else:
        shutil.copy2(path, target)
    return os.path.basename(target)


def both(binaries, arguments, path, in_place=False):
    """What each of BINARIES does, in a new folder of one name."""
    results = []
    for binary in binaries:
        with tempfile.TemporaryDirectory(prefix="same", dir=os.environ.get("CKPT_TEST_DIR")) as work:
            folder = os.path.join(work, "w")
            os.mkdir(folder)
            name = copy_of(path, folder) if in_place else os.path.abspath(path)
            result = run(binary, [name if word == "IN" else word for word in arguments], folder)
            results.append(tuple(part.replace(work.encode(), b"W") if isinstance(part, bytes) else part for part in result) if isinstance(result, tuple) else result)
    return results


def cases():
    for words in READS:
        yield [*words, "IN"], False
    for ending, words in WRITES:
        yield [*words, "IN", "out" if ending == "dir" else "out." + ending], False
    for words in IN_PLACE:
        yield [*words, "IN"], True


def main():
    if len(sys.argv) < 4:
        print(__doc__.strip().splitlines()[0])
        return 64
    binaries = [os.path.abspath(path) for path in sys.argv[1:3]]
    count = wrong = 0
    for path in inputs(sys.argv[3:]):
        for arguments, in_place in cases():
            old, new = both(binaries, arguments, path, in_place)
            count += 1
            if old != new:
                wrong += 1
                parts = ["exit code", "stdout", "stderr", "files"]
                text = [parts[i] for i in range(4) if old[i] != new[i]] if isinstance(old, tuple) and isinstance(new, tuple) else [str(old)[:80], str(new)[:80]]
                print("%s: %s: other %s" % (path, " ".join(arguments), ", ".join(text)))
    print("%d runs, %d of them differ" % (count, wrong))
    return 1 if wrong or not count else 0


if __name__ == "__main__":
    sys.exit(main())

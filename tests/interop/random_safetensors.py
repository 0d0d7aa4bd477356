# SPDX-License-Identifier: Apache-2.0
"""Dicts of random tensors to safetensors and back, judged by real torch: every dtype, layout and view that the format has, and nothing else.

    CKPT=build/ckpt CKPT_PYTHON='python3;other-python' python3 tests/interop/random_safetensors.py [COUNT [SEED]]

CKPT_TEST_LONG=1: more of them. Ends with 77 if there is no torch.
"""
import os
import subprocess
import sys

import each_torch

SEED, COUNT, LONG_COUNT = 15000, 60, 1000


def ckpt(program, *arguments):
    done = subprocess.run([program, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, encoding="utf-8", errors="replace", timeout=60, check=False)
    return done.returncode, done.stderr.strip()


def check(program, command, work):
    given = [int(text) for text in sys.argv[1:3]]
    count = given[0] if given else LONG_COUNT if os.environ.get("CKPT_TEST_LONG") == "1" else COUNT
    seed = given[1] if len(given) > 1 else SEED

    def torch(*arguments):
        return subprocess.run(command.split() + ["random_safetensors_files.py", *arguments], cwd=work, stdout=subprocess.PIPE, encoding="utf-8", check=True).stdout

    torch("make", "files", str(count), str(seed))
    said = {}
    for number in range(count):
        path = os.path.join(work, "files", str(number))
        status, said[number] = ckpt(program, "convert", "-q", "--drop-others", "--shared", "clone", path + ".pt", path + ".safetensors")
        if status == 0:
            said[number] = ckpt(program, "convert", "-q", path + ".safetensors", path + ".back.pt")[1]
    results = dict(line.split("\t", 1) for line in torch("check", "files", str(count)).splitlines() if "\t" in line)
    left_out = [text for text in results.values() if text.startswith("left out")]
    wrong = ["seed %d: %s (%s)" % (seed + number, results.get(str(number), "no answer"), said[number])
             for number in range(count) if results.get(str(number)) not in ["right", *left_out]]
    print("%d dicts, %d that torch cannot load" % (count, len(left_out)), flush=True)
    return count - len(wrong) - len(left_out), wrong


if __name__ == "__main__":
    sys.exit(each_torch.run("random-safetensors", check))

# SPDX-License-Identifier: Apache-2.0
"""ckpt.torch.load_broadcast() on 1, 2, 4 and 8 processes beside torch.load(weights_only=True).

CKPT, CKPT_TEST_DIR, CKPT_PYTHON, CKPT_PYTHON_MODULE as for python_module.py; judges are those torches whose Python loads
the package. Of the files of python_module.py some: the rest is what ckpt.torch.load() is tested with.
"""

import os
import subprocess
import sys

import each_torch
import python_module


def shards(work, files):
    """[(directory of safetensors, what ckpt makes of it)] of some of FILES, below WORK"""
    pairs = []
    for path in files:
        target, back = path[:-3] + ".shards", path[:-3] + ".shards.pt"
        for arguments in (["split", "-q", "--no-sync", "--to", "safetensors", "--ranks", "2", path, target], ["merge", "-q", "--no-sync", target, back]):
            done = subprocess.run([os.environ["CKPT"], *arguments], cwd=work, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            if done.returncode:
                break
        else:
            pairs.append((target, back))
        if len(pairs) == 3:
            break
    print("%d directories of safetensors" % len(pairs))
    return pairs


def judge(command, work):
    """(how many things are right, [what is wrong])"""
    more = [] if os.environ.get("CKPT_TEST_LONG") == "1" else ["every:%d:1" % (3 * each_torch.STEP)]
    pairs = python_module.write_files(command, work, *more)
    pairs += shards(work, [source for source, _ in pairs if source.endswith(".pt")])
    with open(os.path.join(work, "pairs.txt"), "w", encoding="utf-8") as stream:
        stream.writelines("%s\t%s\n" % pair for pair in pairs)
    every_step = ["every-step"] if os.environ.get("CKPT_TEST_LONG") == "1" else []
    return python_module.judge_of(command, work, "python_broadcast_judge.py", "pairs.txt", *every_step)


if __name__ == "__main__":
    sys.exit(python_module.run_each("python-broadcast", judge))

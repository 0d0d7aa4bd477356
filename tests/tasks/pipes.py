# SPDX-License-Identifier: Apache-2.0
"""Checkpoints that go through pipes: what torch writes into one, ckpt reads out of it, and the other way round.

Each torch saves a checkpoint to its standard output, ckpt edits it between two pipes, and torch loads it from its standard input. What
'ckpt convert IN -' writes is, byte for byte, what torch.save() writes to a buffer.
CKPT, CKPT_PYTHON and CKPT_TEST_DIR as for tests/interop/run.py.
"""
import os
import shutil
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "interop"))
import each_torch

# Starting torch takes most of the time, so that one output is judged by it, and others are the same bytes.
PIPES = [
    "TORCH save | CKPT extract model - - | CKPT strip-module - - | TORCH strip",
    "TORCH save >x.pt && CKPT convert x.pt - | tee y.pt | TORCH same",
    "cat x.pt | CKPT convert - - | cmp - y.pt",
    "CKPT convert <(cat x.pt) /dev/stdout | cmp - y.pt",
    "cat x.pt | CKPT compact --if-present - - | cmp - x.pt",
    "cat x.pt | CKPT edit - - --extract model --strip-module | CKPT convert - x.safetensors",
    "CKPT convert x.safetensors - | CKPT ls - | grep -q '^0.weight '",
    "cat x.pt | CKPT scan -",
    "CKPT split -q x.pt shards --ranks 2 && CKPT merge shards - | CKPT diff - x.pt",
]


def check_torch(ckpt, command, work):
    wrong = []
    shutil.copy(os.path.join(HERE, "pipes_files.py"), work)
    for line in PIPES:
        line = line.replace("TORCH", command + " pipes_files.py").replace("CKPT", ckpt)
        done = subprocess.run(["bash", "-c", "set -o pipefail; " + line], cwd=work, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                              encoding="utf-8", errors="replace", check=False)
        if done.returncode:
            wrong.append("%s: %d %s%s" % (line, done.returncode, done.stdout[-500:], done.stderr[-1000:]))
    return len(PIPES) - len(wrong), wrong


if __name__ == "__main__":
    each_torch.main("pipes", check_torch)

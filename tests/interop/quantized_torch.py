# SPDX-License-Identifier: Apache-2.0
"""`ckpt cast --dequantize` of torch's own quantized tensors, held against dequantize() of real torch, bit for bit.

CKPT, CKPT_PYTHON and CKPT_TEST_DIR as for run.py. Torch before 1.13 takes a double as the scale of a tensor: only the numbers of
channels are those of ckpt there, which the judge of a newer torch looks at.
"""

import os
import re
import subprocess

import each_torch

TARGETS = {"f32": "float32", "f16": "float16", "bf16": "bfloat16"}


def ask(command, work, *arguments):
    done = subprocess.run(command.split() + ["quantized_torch_files.py", *arguments], cwd=work, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, encoding="utf-8")
    return done.returncode, done.stdout.strip()


def check(ckpt, command, work):
    status, text = ask(command, work, "write")
    version = re.search(r"torch version (\d+)\.(\d+)", text)
    if status or not version:
        return 0, [text]
    is_old = tuple(int(part) for part in version.groups()) < (1, 13)
    passed, wrong = 0, []
    for name in ("in.pt", "old.pt", "shared.pt"):
        if not os.path.exists(os.path.join(work, name)):
            continue
        for short, dtype in TARGETS.items():
            out = "out-%s-%s" % (short, name)
            done = subprocess.run([ckpt, "cast", "-q", "--dequantize", short, name, out], cwd=work, stdout=subprocess.PIPE,
                                  stderr=subprocess.STDOUT, encoding="utf-8")
            judge = "shared" if name == "shared.pt" else "judge"
            text = done.stdout if done.returncode else ask(command, work, judge, out, dtype)[1]
            if is_old and not done.returncode:
                text = "; ".join(one for one in text.split("; ") if not re.match(r"\S+ has other numbers$", one))
            passed += not text
            if text:
                wrong.append("%s, %s: %s" % (name, short, text))
    return passed, wrong


if __name__ == "__main__":
    each_torch.main("quantized_torch", check)

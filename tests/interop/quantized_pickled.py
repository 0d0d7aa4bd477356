# SPDX-License-Identifier: Apache-2.0
"""`ckpt cast --dequantize` of torchao's tensors in torch.save files, held against torchao's own dequantize(), bit for bit.

CKPT, CKPT_PYTHON and CKPT_TEST_DIR as for run.py; CKPT_QUANT_SITE as for quantized.py. Ends with 77 if no torch of CKPT_PYTHON can
import torchao.
"""

import os
import shlex
import subprocess
import sys

import each_torch
import quantized

TARGETS = {"f32": "float32", "f16": "float16", "bf16": "bfloat16"}


def ask(command, work, *arguments):
    done = subprocess.run([*shlex.split(command), "quantized_pickled_files.py", *arguments], cwd=work, stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, encoding="utf-8", errors="replace")
    return done.returncode, done.stdout.strip(), done.stderr.strip()


def check(ckpt, command, work):
    passed, wrong = 0, []
    for short, dtype in TARGETS.items():
        done = subprocess.run([ckpt, "cast", "-q", "--dequantize", short, "in.pt", short + ".pt"], cwd=work, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, encoding="utf-8")
        status, text, error = (0, done.stdout, "") if done.returncode else ask(command, work, "judge", short + ".pt", dtype)
        text = error[-1000:] if status else text
        passed += not text
        if text:
            wrong.append("%s: %s" % (short, text))
    return passed, wrong


def main():
    command = None if each_torch.has_none() else quantized.newest_torch()
    if command is None:
        return each_torch.SKIPPED
    with each_torch.folder("quantized_pickled") as work:
        quantized.put_packages(os.environ.get("CKPT_QUANT_SITE", "").split(";")[0], work)
        status, _, error = ask(command, work, "write")
        if status:
            print("skipped: torchao cannot be used: %s" % error.rpartition("\n")[2])
            return each_torch.SKIPPED
        passed, wrong = check(os.path.abspath(os.environ["CKPT"]), command, work)
    for text in wrong:
        print("FAIL", text)
    return each_torch.tell(passed, len(wrong))


if __name__ == "__main__":
    sys.exit(main())

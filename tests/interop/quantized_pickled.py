# SPDX-License-Identifier: Apache-2.0
"""`ckpt cast --dequantize` of torchao's tensors in torch.save files, and in safetensors where torchao writes them, held against torchao's own dequantize(), bit for bit; of stand-ins for
Transformer Engine's against float8 of torch.

CKPT, CKPT_PYTHON and CKPT_TEST_DIR as for run.py; CKPT_QUANT_SITE as for quantized.py. Ends with 77 if no torch of CKPT_PYTHON has
float8.
"""

import glob
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
    return done.returncode, done.stdout.partition("judged:")[2].strip(), done.stderr.strip()  # an import of torchao may print, too


def as_of(work):
    """Files of torchao 0.16 and 0.17 look like those of 0.18, which multiplies the two scales of NVFP4 in another dtype."""
    found = glob.glob(os.path.join(work, "packages", "torchao-0.1[67].*.dist-info"))
    return ["--as", "torchao_0.17"] if found else []


def check(ckpt, command, work):
    passed, wrong = 0, []
    for source in sorted(glob.glob(os.path.join(work, "in.*"))):
        for short, dtype in TARGETS.items():
            target = short + os.path.splitext(source)[1]
            done = subprocess.run([ckpt, "cast", "-q", "--dequantize", short, *as_of(work), source, target], cwd=work, stdout=subprocess.PIPE,
                                  stderr=subprocess.STDOUT, encoding="utf-8")
            status, text, error = (0, done.stdout, "") if done.returncode else ask(command, work, "judge", target, dtype)
            text = error[-1000:] if status else text
            passed += not text
            if text:
                wrong.append("%s: %s" % (target, text))
    return passed, wrong


def commands():
    given = os.environ.get("CKPT_PYTHON", "")
    return list(reversed(given.split(";"))) if given else []


def main():
    """Every torch is asked with every torchao: old ones have classes that new ones do not, and the other way around."""
    if each_torch.has_none():
        return each_torch.SKIPPED
    ckpt, passed, wrong, skipped = os.path.abspath(os.environ["CKPT"]), 0, [], []
    for site in os.environ.get("CKPT_QUANT_SITE", "").split(";"):
        for command in commands():
            with each_torch.folder("quantized_pickled") as work:
                quantized.put_packages(site, work)
                status, left_out, error = ask(command, work, "write")
                if status or left_out:
                    skipped.append("%s: %s" % (command, error.rpartition("\n")[2] if status else left_out))
                if status:
                    continue
                found, bad = check(ckpt, command, work)
                passed += found
                wrong += ["%s: %s" % (command, text) for text in bad]
    for text in skipped:
        print("skipped:", text)
    for text in wrong:
        print("FAIL", text)
    return each_torch.tell(passed, len(wrong)) if passed or wrong else each_torch.SKIPPED


if __name__ == "__main__":
    sys.exit(main())

# SPDX-License-Identifier: Apache-2.0
"""Legacy streams that real torch wrote: read and written again they are the same, byte for byte.

Each was loaded and saved by torch before, so that torch itself would change nothing in it but the keys of storages.
With protocol 2 `convert --to torch-legacy` writes it, with others an edit that finds nothing to do. CKPT, CKPT_PYTHON
and CKPT_TEST_DIR as for run.py.
"""
import filecmp
import fnmatch
import glob
import os
import re
import subprocess
import sys

import each_torch

sys.path.append(os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "scan"))
import benign  # noqa: E402


# What is written in another way than torch does it, in zip files, too: exceptions.txt says why.
KNOWN = ("attribute_name_after_its_value", "attribute_name_that_no_program_has", "random_numpy", "numpy_masked",
         "random_numpy_generator", "classes_and_functions_p[45]", "found_modules_with_names_that_their_classes_do_not_assign")


def known(name):
    return any(fnmatch.fnmatch(name, pattern) for pattern in KNOWN)


def arguments(name, version, source, target):
    if re.search("_p[345]$", name):
        return ["remap", "--if-present", "-q", "--profile", version, "nothing:0=cpu", source, target]
    return ["convert", "-q", "--to", "torch-legacy", "--profile", version, source, target]


def check(ckpt, version, work):
    """[what is wrong], how many files are right, how many are known to differ."""
    wrong, right, passed_over = [], 0, 0
    for source in sorted(glob.glob(os.path.join(work, "out", "*.pt"))):
        name = os.path.basename(source)[:-3]
        target = os.path.join(work, "found.pt")
        done = subprocess.run([ckpt, *arguments(name, version, source, target)], stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, text=True, check=False)
        if done.returncode:
            wrong.append("%s: exit status %d: %s" % (name, done.returncode, done.stderr.strip()))
        elif known(name):
            passed_over += 1
        elif not filecmp.cmp(source, target, shallow=False):
            wrong.append("%s: other bytes" % name)
        else:
            right += 1
        if os.path.exists(target):
            os.unlink(target)
    return wrong, right, passed_over


def check_torch(ckpt, command, work):
    printed = subprocess.run(command.split() + ["legacy_files.py", "out"], cwd=work, check=True, stdout=subprocess.PIPE,
                             encoding="utf-8").stdout
    version = re.search(r"torch (\d+\.\d+)", printed)[1]
    wrong, right, passed_over = check(ckpt, version, work)
    if right + len(wrong) + passed_over < printed.count("made ") or right < 200:
        wrong.append("%d files are right, torch made %d" % (right, printed.count("made ")))
    plain, others = benign.check_files(os.path.join(work, "out"), benign.wanted_of_streams)
    if plain < 400:
        others.append("%d streams were scanned, of which there are two for each object" % plain)
    return right + plain, wrong + others


if __name__ == "__main__":
    each_torch.main("legacy", check_torch)

# SPDX-License-Identifier: Apache-2.0
"""ckpt compact beside Tensor.clone() of real torch: whole files, byte for byte.

CKPT, CKPT_PYTHON and CKPT_TEST_DIR as for run.py.
"""

import filecmp
import os
import subprocess

import each_torch
import same_file



def check(ckpt, command, work):
    """What is wrong, or an empty text."""
    printed = subprocess.run(command.split() + ["compact_files.py", "files"], cwd=work, check=True,
                             stdout=subprocess.PIPE, encoding="utf-8").stdout
    wanted, found = (os.path.join(work, part, "views.pt") for part in ("files/out", "found"))
    os.mkdir(os.path.dirname(found))
    done = subprocess.run([ckpt, "compact", os.path.join(work, "files/in/views.pt"), found],
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    if done.returncode:
        return "exit status %d: %s" % (done.returncode, done.stderr.strip())
    if filecmp.cmp(wanted, found, shallow=False):
        return ""
    if "version 1." in printed and int(printed.split("version 1.")[1].split(".")[0]) < 9:
        return same_file.difference_but_for_keys(wanted, found)
    return same_file.difference(wanted, found)


def check_torch(ckpt, command, work):
    text = check(ckpt, command, work)
    return not text, [text] if text else []


if __name__ == "__main__":
    each_torch.main("compact", check_torch)

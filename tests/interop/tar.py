# SPDX-License-Identifier: Apache-2.0
"""Tar archives of torch 0.1, read by real torch and by `ckpt convert`: both save the same file.

Byte for byte from torch 1.9 on; before, keys of storages are addresses, and the files are compared as torch loads them. CKPT,
CKPT_PYTHON and CKPT_TEST_DIR as for run.py.
"""
import filecmp
import os
import re
import subprocess

import each_torch
import tar_build
import tar_cases

# A module gets attributes that came later when torch loads it, which is its class's own doing.
KNOWN = ("module_p1", "module_p2")


def write_cases(folder):
    names = []
    for name, arguments, options in tar_cases.each():
        tar_build.save(os.path.join(folder, name + ".pt"), *arguments, **options)
        names.append(name)
    return names


def convert(ckpt, version, name, work):
    source, target = (os.path.join(work, folder, name + ".pt") for folder in ("in", "found"))
    done = subprocess.run([ckpt, "convert", "-q", "--profile", version, source, target], stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, text=True, check=False)
    return done.stderr.strip() or "exit status %d" % done.returncode if done.returncode else ""


def check_loads(command, names, work):
    """What torch says of the files when it loads both."""
    with open(os.path.join(work, "list"), "w") as stream:
        stream.writelines("made/%s.pt\tfound/%s.pt\n" % (name, name) for name in names)
    subprocess.run(command.split() + ["check_load.py", "list", "result"], cwd=work, check=True, stdout=subprocess.PIPE)
    with open(os.path.join(work, "result")) as stream:
        lines = stream.read().splitlines()
    if not lines or not lines[-1].startswith("done"):
        return ["torch died at: " + (lines[-1] if lines else "the first file")]
    return [line for line in lines if line.startswith("bad")]


def check(ckpt, command, work):
    for folder in ("in", "made", "found"):
        os.mkdir(os.path.join(work, folder))
    names = write_cases(os.path.join(work, "in"))
    printed = subprocess.run(command.split() + ["tar_files.py", "in", "made"], cwd=work, check=True,
                             stdout=subprocess.PIPE, encoding="utf-8").stdout
    major, minor = re.search(r"torch (\d+)\.(\d+)", printed).groups()
    wrong = [line for line in printed.splitlines() if line.startswith("refused")]
    for name in names:
        said = convert(ckpt, major + "." + minor, name, work)
        made, found = (os.path.join(work, folder, name + ".pt") for folder in ("made", "found"))
        if said:
            wrong.append("%s: %s" % (name, said))
        elif (int(major), int(minor)) < (1, 9) or name in KNOWN or not os.path.exists(made):
            continue
        elif not filecmp.cmp(made, found, shallow=False):
            wrong.append("%s: other bytes" % name)
    return len(names), wrong + check_loads(command, names, work)


if __name__ == "__main__":
    each_torch.main("tar", check)

# SPDX-License-Identifier: Apache-2.0
"""Files at the limits of the zip format: torch writes them, ckpt writes them again, same bytes.

CKPT, CKPT_PYTHON and CKPT_TEST_DIR as for run.py. With CKPT_HUGE=1 also records around 4 GiB, which
take about 10 GB of disk and a minute per torch.
"""

import filecmp
import os
import subprocess

import each_torch



def generate(command, work):
    huge = ["--huge"] if os.environ.get("CKPT_HUGE") else []
    subprocess.run(command.split() + ["large_files.py", "in"] + huge, cwd=work, check=True,
                   stdout=subprocess.DEVNULL)


def rewrite(ckpt, arguments, source, target):
    result = subprocess.run([ckpt] + arguments + [source, target], stdout=subprocess.DEVNULL,
                            stderr=subprocess.PIPE, text=True)
    return result.returncode, result.stderr.strip()


def differs(ckpt, work, arguments, name, wanted):
    target = os.path.join(work, "out", name)
    code, message = rewrite(ckpt, arguments + ["--no-sync"], os.path.join(work, "in", name), target)
    if code:
        return "%s: exit status %d: %s" % (arguments[0], code, message)
    same = filecmp.cmp(wanted, target, shallow=False)
    os.unlink(target)
    return None if same else "%s: the bytes differ" % arguments[0]


def check(ckpt, work, name):
    """An edit that changes nothing keeps every byte: layout, alignment and checksums. A conversion
    drops these settings, as load and save do."""
    os.makedirs(os.path.join(work, "out"), exist_ok=True)
    problem = differs(ckpt, work, ["strip-prefix", "--if-present", "nothing."], name,
                      os.path.join(work, "in", name))
    again = os.path.join(work, "in_again", name)
    if problem is None and os.path.exists(again):
        problem = differs(ckpt, work, ["convert"], name, again)
    return problem


def check_torch(ckpt, command, work):
    passed, wrong = 0, []
    generate(command, work)
    for name in sorted(os.listdir(os.path.join(work, "in"))):
        problem = check(ckpt, work, name)
        passed += problem is None
        if problem:
            wrong.append("%s: %s" % (name, problem))
        os.unlink(os.path.join(work, "in", name))
    return passed, wrong


if __name__ == "__main__":
    each_torch.main("large", check_torch)

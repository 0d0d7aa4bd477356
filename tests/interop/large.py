# SPDX-License-Identifier: Apache-2.0
"""Files at the limits of the zip format: torch writes them, ckpt writes them again, same bytes.

CKPT, CKPT_PYTHON and CKPT_TEST_DIR as for run.py. With CKPT_HUGE=1 also records around 4 GiB, which
take about 10 GB of disk and a minute per torch.
"""

import filecmp
import os
import shutil
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))


def generate(command, work):
    shutil.copy(os.path.join(HERE, "large_files.py"), work)
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


def main():
    ckpt, pythons = os.environ.get("CKPT"), os.environ.get("CKPT_PYTHON")
    if not ckpt or not pythons:
        print("skipped: CKPT or CKPT_PYTHON is not set, no real torch to compare with")
        return 77
    base = os.environ.get("CKPT_TEST_DIR") or "."
    os.makedirs(base, exist_ok=True)
    failed = passed = 0
    for command in pythons.split(";"):
        with tempfile.TemporaryDirectory(dir=base) as work:
            generate(command, work)
            for name in sorted(os.listdir(os.path.join(work, "in"))):
                problem = check(os.path.abspath(ckpt), work, name)
                passed += problem is None
                failed += problem is not None
                if problem:
                    print("FAIL %s, %s: %s" % (command.split("/")[-1], name, problem))
                os.unlink(os.path.join(work, "in", name))
    print("%d passed, %d failed" % (passed, failed))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())

# SPDX-License-Identifier: Apache-2.0
"""Drop the optimizer and 'module.' from all files of a run in place, and find the one with a NaN: a command each. Real torch is the judge.

CKPT, CKPT_PYTHON and CKPT_TEST_DIR as for the tests in interop/.
"""

import os
import shutil
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "interop"))

import each_torch  # noqa: E402


def run(*words, cwd):
    return subprocess.run(words, cwd=cwd, stdout=subprocess.PIPE, stderr=subprocess.PIPE, encoding="utf-8")


def check(ckpt, command, work):
    right, wrong = 0, []

    def want(done, code, *texts):
        nonlocal right
        if done.returncode == code and all(text in done.stdout + done.stderr for text in texts):
            right += 1
        else:
            wrong.append("%s: exit status %d\n%s%s" % (" ".join(done.args[1:]), done.returncode, done.stdout, done.stderr[-2000:]))

    shutil.copy(os.path.join(HERE, "many_files_of_torch.py"), work)
    made = run(*command.split(), "many_files_of_torch.py", "make", cwd=work)
    if made.returncode:
        return 0, [made.stderr[-2000:]]
    os.mkdir(os.path.join(work, "others"))
    shutil.move(os.path.join(work, "nan.pt"), os.path.join(work, "others", "nan.pt"))
    want(run(ckpt, "edit", "-i", "--free", "run", "--drop", "optimizer", "--strip-module", "-j", "4", cwd=work), 0, "12 inputs: 12 edited", "1 other file skipped")
    judged = run(*command.split(), "many_files_of_torch.py", "judge", cwd=work)
    lines = judged.stdout.splitlines()
    if [line[4:] for line in lines] != ["right"] * 12:
        wrong.append(judged.stdout[-1000:] + judged.stderr[-2000:])
    right += 12
    want(run(ckpt, "stat", "--check-finite", "-j", "2", "run", "others", cwd=work), 1, "13 inputs: 12 finite, 1 not finite", "others/nan.pt: NOT FINITE: 1 tensor",
         "the first not finite at [3, 4]")
    want(run(ckpt, "ls", "run", cwd=work), 0, "12 inputs: 12 listed; 48 tensors, 12,288 elements")
    return right, wrong


if __name__ == "__main__":
    each_torch.main("many_files", check)

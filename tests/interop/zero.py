# SPDX-License-Identifier: Apache-2.0
"""Directories as DeepSpeed's ZeRO stages 1, 2 and 3 leave them are merged, and compared with what they were cut of and with what
DeepSpeed's own zero_to_fp32.py makes of them: bit for bit, the same names in the same order.

    CKPT=build/ckpt CKPT_PYTHON='python3;other-python' CKPT_DEEPSPEED=FOLDER python3 tests/interop/zero.py

CKPT_DEEPSPEED names folders of unpacked packages, separated by ';': of each only `deepspeed/utils/zero_to_fp32.py` and
`deepspeed/checkpoint/constants.py` are used. Without it the merges are held against the tensors only. Work goes on in a new
folder below CKPT_TEST_DIR, or else the current one. Ends with 77 if there is no torch.
"""

import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True      # the scripts' folder stays as it is

import each_torch  # noqa: E402

HERE = os.path.dirname(os.path.abspath(__file__))
USED = ("utils/zero_to_fp32.py", "checkpoint/constants.py")


class Checks:
    passed = failed = 0

    def check(self, right, text):
        if right:
            self.passed += 1
        else:
            self.failed += 1
            print("FAIL " + text)


def script(python, *words):
    done = subprocess.run(python + ["zero_files.py", *words], capture_output=True, encoding="utf-8", timeout=900)
    if done.returncode:
        raise SystemExit("zero_files.py %s failed:\n%s%s" % (words[0], done.stdout, done.stderr[-4000:]))
    return done.stdout


def merge_all(folder, checks):
    for name in sorted(os.listdir(folder)):
        case = os.path.join(folder, name)
        if not os.path.isdir(case):
            continue
        done = subprocess.run([os.environ["CKPT"], "merge", "-q", "--no-sync", case + "/saved", case + "/merged.pt"],
                              capture_output=True, encoding="utf-8", timeout=120)
        checks.check(done.returncode == 0, "%s: %s" % (case, done.stderr))
        shutil.copy(case + "/merged.pt", case + "/copy.pt")
        os.unlink(case + "/merged.pt")      # and the same by the name of the folder itself
        done = subprocess.run([os.environ["CKPT"], "merge", "-q", "--no-sync", case + "/saved/global_step7", case + "/merged.pt"],
                              capture_output=True, encoding="utf-8", timeout=120)
        with open(case + "/merged.pt", "rb") as one, open(case + "/copy.pt", "rb") as other:
            checks.check(one.read() == other.read(), "%s: the folder of 'latest' is another" % case)


def compare(python, folder, checks, least):
    """Every line that is printed says EQUAL, and there are LEAST of them."""
    lines = script(python, "compare", folder).splitlines()
    for line in lines:
        checks.check(line.startswith("EQUAL"), folder + ": " + line)
    checks.check(len(lines) >= least, "%s: %d comparisons, wanted %d" % (folder, len(lines), least))


def judge_all(python, packages, folder, checks):
    for number in range(packages):
        judged = re.search(r"judged (\d+) cases", script(python, "judge", "package%d" % number, folder))
        cases = len([name for name in os.listdir(folder) if os.path.isdir(os.path.join(folder, name))])
        checks.check(int(judged.group(1)) >= 4, "package %d judged no more than %s" % (number, judged.group(1)))
        compare(python, folder, checks, cases + int(judged.group(1)))


def check_torch(number, python, packages, checks):
    text = subprocess.run(python + ["-c", each_torch.ASK_VERSION],
                          capture_output=True, encoding="utf-8", timeout=600).stdout
    version = re.search(r"torch version (\d+)\.(\d+)", text)
    if not version:
        return False
    folder = "torch%d" % number
    script(python, "save", folder)
    merge_all(folder, checks)
    if tuple(map(int, version.groups())) >= (2, 1):     # what the script itself needs
        judge_all(python, packages, folder, checks)
    if not packages or tuple(map(int, version.groups())) < (2, 1):
        compare(python, folder, checks, len(os.listdir(folder)) - 1)
    shutil.rmtree(folder)
    return True


def copy_packages(work):
    folders = [path for path in os.environ.get("CKPT_DEEPSPEED", "").split(";") if path]
    for number, folder in enumerate(folders):
        for name in USED:
            source = os.path.join(folder, "deepspeed", name)
            target = os.path.join(work, "package%d" % number, "deepspeed", name)
            os.makedirs(os.path.dirname(target), exist_ok=True)
            if os.path.exists(source):
                shutil.copy(source, target)
    return len(folders)


def main():
    pythons = [shlex.split(command) for command in os.environ.get("CKPT_PYTHON", "").split(";") if command.strip()]
    os.environ["CKPT"] = os.path.abspath(os.environ["CKPT"])
    base = os.environ.get("CKPT_TEST_DIR", ".")
    os.makedirs(base, exist_ok=True)
    work = tempfile.mkdtemp(prefix="zero-", dir=base)
    packages = copy_packages(work)
    checks, used = Checks(), 0
    os.chdir(work)
    shutil.copy(os.path.join(HERE, "zero_files.py"), ".")
    try:
        for number, python in enumerate(pythons):
            used += check_torch(number, python, packages, checks)
    finally:
        os.chdir("/")
        shutil.rmtree(work, ignore_errors=True)
    if not used:
        print("skipped: CKPT_PYTHON names no torch")
        return 77
    if not packages:
        print("note: CKPT_DEEPSPEED names no package: zero_to_fp32.py did not judge")
    print("%d passed, %d failed" % (checks.passed, checks.failed))
    return 1 if checks.failed else 0


if __name__ == "__main__":
    sys.exit(main())

# SPDX-License-Identifier: Apache-2.0
"""ckpt.torch.load() beside torch.load(weights_only=True), on the files that python_module.py has, and on those of CKPT_REAL.

CKPT, CKPT_TEST_DIR, CKPT_PYTHON, CKPT_PYTHON_MODULE as for that; judges are those torches whose Python loads the package.
"""

import os
import shutil
import sys

import each_torch
import python_module

REAL = (".pt", ".pth", ".bin", ".ckpt", ".zip", ".tar")
MOST_REAL = 64 << 20  # bytes of a file


def copy_real(work):
    """[(source, reference)] of the files of CKPT_REAL, below WORK; those made to harm are none of them."""
    folder = os.environ.get("CKPT_REAL") or ""
    pairs = []
    for at, folders, files in os.walk(folder):
        folders[:] = sorted(name for name in folders if "picklescan" not in name)
        for name in sorted(files):
            path = os.path.join(at, name)
            if name.endswith(REAL) and os.path.isfile(path) and os.path.getsize(path) < MOST_REAL:
                target = "real%d-%s" % (len(pairs), name)
                shutil.copyfile(path, os.path.join(work, target))
                pairs.append((target, target))
    return pairs


def judge(command, work, pairs):
    """(how many are equal, [what is wrong])"""
    with open(os.path.join(work, "pairs.txt"), "w", encoding="utf-8") as stream:
        stream.writelines("%s\t%s\n" % pair for pair in pairs)
    done = python_module.run(command, work, "python_torch_judge.py", "pairs.txt")
    lines = done.stdout.splitlines()
    ends = [line.split("\t") for line in lines if line.startswith("DONE\t")]
    if not ends:
        return 0, ["ended with %d: %s" % (done.returncode, done.stdout[-1500:])]
    print("%s: %s" % (command, ends[0][3]), flush=True)
    return int(ends[0][1]), [line[4:] for line in lines if line.startswith("BAD\t")]


def main():
    package = os.environ.get("CKPT_PYTHON_MODULE")
    if each_torch.has_none():
        return each_torch.SKIPPED
    if not package or not os.path.isdir(package):
        print("skipped: CKPT_PYTHON_MODULE is no folder, there is no module for other systems")
        return each_torch.SKIPPED
    commands = os.environ["CKPT_PYTHON"].split(";")
    passed, failed = 0, []
    for command in commands:
        with each_torch.folder("python-torch") as work:
            shutil.copytree(package, os.path.join(work, "ckpt"))
            pairs = python_module.write_files(command, work)
            if command == commands[-1]:
                pairs += copy_real(work)
            print("%s: %d files" % (command, len(pairs)), flush=True)
            for other in commands:
                if python_module.run(other, work, "-c", python_module.ASK).returncode:
                    continue
                right, wrong = judge(other, work, pairs)
                passed += right
                failed += ["%s, files of %s: %s" % (other, command, text) for text in wrong]
    for text in failed[:60]:
        print("FAIL " + text)
    return each_torch.tell(passed, len(failed))


if __name__ == "__main__":
    sys.exit(main())

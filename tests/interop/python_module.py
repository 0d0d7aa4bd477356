# SPDX-License-Identifier: Apache-2.0
"""ckpt.load() beside torch.load(weights_only=True), on files of every torch of CKPT_PYTHON; CKPT, CKPT_TEST_DIR as for run.py.

CKPT_PYTHON_MODULE: the package, with the libraries that other systems lack. Judges are those torches whose Python loads it
and which have weights_only: every object, DCP directory, and what ckpt makes of these objects in safetensors.
"""

import glob
import os
import shutil
import subprocess
import sys

import each_torch

ASK = "import inspect, sys, torch, ckpt; sys.exit(torch.__version__ < '2.6' and torch.__version__[:3] != '2.1')"
# with one torch that is enough, as this is about sharing of tensors and reading of chunks
DCP = ("plain", "nested", "dtypes", "layouts", "values", "containers", "tied", "scalars", "sharded", "names")


def run(command, work, *arguments):
    return subprocess.run(command.split() + list(arguments), cwd=work, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          encoding="utf-8", errors="replace")


def write_files(command, work, which=""):
    """What this torch saves below WORK, all or WHICH generate.py knows. Returns [(source, reference)], relative to it."""
    os.makedirs(os.path.join(work, "out"))
    run(command, work, "generate.py", "out", "only-build:" + which)
    files = sorted(glob.glob(os.path.join(work, "out", "a", "*.pt")))
    pairs = [(path, path) for path in files]
    for path in files[::each_torch.STEP]:  # through safetensors, where that can hold it
        target = path[:-3] + ".safetensors"
        done = subprocess.run([os.environ["CKPT"], "convert", "-q", path, target], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        if done.returncode == 0:
            back = path[:-3] + ".back.pt"
            done = subprocess.run([os.environ["CKPT"], "convert", "-q", target, back], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            pairs += [(target, back)] if done.returncode == 0 else []
    run(command, work, "dcp_save.py", "dcp", *DCP)
    for reference in sorted(glob.glob(os.path.join(work, "dcp", "*.torch.pt"))):
        source = reference[:-len(".torch.pt")]
        if os.path.isdir(source):
            pairs.append((source, reference))
    return [(os.path.relpath(source, work), os.path.relpath(reference, work)) for source, reference in pairs]


def judge(command, work, pairs, script):
    """(how many are equal, [what is wrong]), by SCRIPT"""
    with open(os.path.join(work, "pairs.txt"), "w", encoding="utf-8") as stream:
        stream.writelines("%s\t%s\n" % pair for pair in pairs)
    return judge_of(command, work, script, "pairs.txt")


def judge_of(command, work, *arguments):
    """The same, of a script that judges by itself."""
    done = run(command, work, *arguments)
    lines = done.stdout.splitlines()
    ends = [line.split("\t") for line in lines if line.startswith("DONE\t")]
    if not ends:
        return 0, ["ended with %d: %s" % (done.returncode, done.stdout[-1500:])]
    print("%s: %s" % (command, ends[0][3]), flush=True)
    return int(ends[0][1]), [line[4:] for line in lines if line.startswith("BAD\t")]


def has_none():
    """True, and it is said: there is no torch, or no module."""
    if each_torch.has_none():
        return True
    if os.path.isdir(os.environ.get("CKPT_PYTHON_MODULE") or ""):
        return False
    print("skipped: CKPT_PYTHON_MODULE is no folder, there is no module for other systems")
    return True


def run_each(name, judge):
    """judge(command, work) -> how many things are right, [what is wrong]; of each torch that can, with the package in WORK."""
    if has_none():
        return each_torch.SKIPPED
    passed, failed = 0, []
    for command in os.environ["CKPT_PYTHON"].split(";"):
        with each_torch.folder(name) as work:
            shutil.copytree(os.environ["CKPT_PYTHON_MODULE"], os.path.join(work, "ckpt"))
            if run(command, work, "-c", ASK).returncode == 0:
                right, wrong = judge(command, work)
                passed += right
                failed += ["%s: %s" % (command, text) for text in wrong]
    for text in failed[:60]:
        print("FAIL " + text)
    return each_torch.tell(passed, len(failed))


def main(name="python", script="python_judge.py", more=lambda command, work: []):
    """Each torch writes files, and each that can judges them by SCRIPT. MORE: pairs beside those."""
    if has_none():
        return each_torch.SKIPPED
    package = os.environ["CKPT_PYTHON_MODULE"]
    commands = os.environ["CKPT_PYTHON"].split(";")
    passed, failed = 0, []
    for command in commands:
        with each_torch.folder(name) as work:
            shutil.copytree(package, os.path.join(work, "ckpt"))
            pairs = write_files(command, work) + more(command, work)
            print("%s: %d files" % (command, len(pairs)), flush=True)
            for other in commands:
                if run(other, work, "-c", ASK).returncode:
                    continue
                right, wrong = judge(other, work, pairs, script)
                passed += right
                failed += ["%s, files of %s: %s" % (other, command, text) for text in wrong]
    for text in failed[:60]:
        print("FAIL " + text)
    return each_torch.tell(passed, len(failed))


if __name__ == "__main__":
    sys.exit(main())

# SPDX-License-Identifier: Apache-2.0
"""What torch writes is never dangerous, and `ckpt scan` foretells of each file what torch.load(weights_only=True) says of it.

Every torch makes its files; every torch that has weights_only loads those of all, and agrees. CKPT, CKPT_PYTHON and
CKPT_TEST_DIR as for run.py.
"""
import glob
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
LINE = re.compile(r"^load (\S+) (yes|no)(?: (.*))?$", re.M)
FORETOLD = ("1.13", "2.6", "2.14")

# not the unpickler's doing: what is rebuilt does not fit this torch, or the bytes of a tensor do not
ELSEWHERE = re.compile(
    r"don't know how to restore data location|Expected one of cpu|has no attribute|record size|"
    r"Trying to resize|Unknown layout|not recognized|Could not run|not implemented|Torch not compiled|"
    r"does not match expected size|missing .* required positional|takes \d+ positional|device type|storage has wrong byte size|"
    r"read.* past the end|invalid device|Invalid device|CUDA|unexpected keyword"
)
ITS_DOING = re.compile(r"Weights only load failed|Unsupported operand|Unsupported class|Unsupported global|weights_only")


def run(command, work, *arguments):
    done = subprocess.run(command.split() + ["scan_files.py", *arguments], cwd=work, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, encoding="utf-8", errors="replace", check=False)
    return done.stdout


def version_of(command, work):
    done = subprocess.run(command.split() + ["-c", "import torch; print('version', torch.__version__)"], cwd=work,
                          stdout=subprocess.PIPE, encoding="utf-8", check=False)
    found = re.search(r"version (\d+\.\d+)", done.stdout)
    return found.group(1) if found else None


def scan(ckpt, folder):
    done = subprocess.run([ckpt, "scan", "--json", folder], stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False)
    return json.loads(done.stdout)["files"]


def check_verdicts(found):
    bad = [f for f in found if f["verdict"] not in ("plain", "needs-objects")]
    return ["%s is %s: %s" % (f["path"], f["verdict"], json.dumps(f["findings"])[:300]) for f in bad]


def check_loads(printed, version, foretold):
    right, wrong = 0, []
    for path, loads, why in LINE.findall(printed):
        wanted = foretold[path]["weights_only"][version]
        if loads == "no" and not ITS_DOING.search(why) and ELSEWHERE.search(why) and wanted:
            continue
        if wanted == (loads == "yes"):
            right += 1
        else:
            wrong.append("%s: foretold %s, torch %s says %s %s; refusals %s" % (
                path, wanted, version, loads, why[:300], json.dumps(foretold[path].get("refusals"))[:300]))
    return right, wrong


def main():
    ckpt, pythons = os.environ.get("CKPT"), os.environ.get("CKPT_PYTHON")
    if not ckpt or not pythons:
        print("skipped: CKPT or CKPT_PYTHON is not set, no real torch to compare with")
        return 77
    base = os.environ.get("CKPT_TEST_DIR") or "."
    os.makedirs(base, exist_ok=True)
    right, wrong, foretold, versions = 0, [], {}, {}
    with tempfile.TemporaryDirectory(prefix="scan-", dir=base) as work:
        os.chmod(work, 0o755)
        for script in glob.glob(os.path.join(HERE, "*.py")):
            shutil.copy(script, work)
        for command in pythons.split(";"):
            version = version_of(command, work)
            if version:
                versions[version] = command
                run(command, work, "make", "out-" + version)
        for version in versions:
            found = scan(os.path.abspath(ckpt), os.path.join(work, "out-" + version))
            print("torch %s wrote %d files" % (version, len(found)))
            wrong += check_verdicts(found)
            right += len(found)
            foretold.update({os.path.relpath(f["path"], work): f for f in found})
        for version, command in versions.items():
            if version in FORETOLD:
                printed = run(command, work, "load", *("out-" + v for v in versions))
                more, bad = check_loads(printed, version, foretold)
                print("torch %s agrees on %d files, not on %d" % (version, more, len(bad)))
                if more < 300:
                    wrong.append("torch %s loads %d files: %s" % (version, more, printed[-300:]))
                right += more
                wrong += bad
    for text in wrong[:60]:
        print("FAIL", text)
    print("%d right, %d wrong" % (right, len(wrong)))
    return 1 if wrong or not right else 0


if __name__ == "__main__":
    sys.exit(main())

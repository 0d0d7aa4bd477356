# SPDX-License-Identifier: Apache-2.0
"""Files of single ranks with DTensors in them are merged, and compared with the whole tensors by torch.

    CKPT=build/ckpt CKPT_PYTHON='python3;other-python' python3 tests/interop/ranks.py

Work goes on in a new folder below CKPT_TEST_DIR, or else the current one. Ends with 77 if there is no torch of 2.6 or
later.
"""

import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import zipfile

sys.dont_write_bytecode = True      # the scripts' folder stays as it is

import each_torch  # noqa: E402

HERE = os.path.dirname(os.path.abspath(__file__))
COMPARE = """
import sys, torch
def bits(t):
    return t.contiguous().reshape(-1).view(torch.uint8)
for folder in sys.argv[1:]:
    whole, merged = torch.load(folder + "/whole.pt"), torch.load(folder + "/merged.pt", weights_only=True)
    bad = [n for n in whole if n not in merged or type(whole[n]) is not type(merged[n])]
    bad += [n for n in merged if n not in whole]
    for n in whole:
        if n not in bad and isinstance(whole[n], torch.Tensor):
            a, b = whole[n], merged[n]
            if a.dtype != b.dtype or a.shape != b.shape or not torch.equal(bits(a), bits(b)):
                bad.append(n)
        elif n not in bad and whole[n] != merged[n]:
            bad.append(n)
    if merged["tied"].data_ptr() != merged[next(iter(whole))].data_ptr():
        bad.append("tied")
    print("DIFFERENT" if bad else "EQUAL", folder, *bad)
"""


def ckpt(*arguments):
    done = subprocess.run([os.environ["CKPT"], *arguments], capture_output=True, encoding="utf-8", timeout=120)
    return done.returncode, done.stdout, done.stderr


def say_big(path):
    """The same file, of a machine of the other byte order."""
    with zipfile.ZipFile(path) as source:
        members = [(name, b"big" if name.endswith("/byteorder") else source.read(name)) for name in source.namelist()]
    with zipfile.ZipFile(path, "w") as target:
        for member in members:
            target.writestr(*member)


class Checks:
    passed = failed = 0

    def check(self, right, text):
        if right:
            self.passed += 1
        else:
            self.failed += 1
            print("FAIL " + text)


def check_torch(number, python, checks):
    text = subprocess.run(python + ["-c", each_torch.ASK_VERSION],
                          capture_output=True, encoding="utf-8", timeout=600).stdout
    version = re.search(r"torch version (\d+)\.(\d+)", text)
    if not version or tuple(map(int, version.groups())) < (2, 6):
        return False
    folder = "torch%d" % number
    done = subprocess.run(python + ["ranks_save.py", folder], capture_output=True, encoding="utf-8", timeout=900)
    if "saved" not in done.stdout:
        raise SystemExit("ranks_save.py failed:\n" + done.stdout + done.stderr)
    meshes = sorted(os.path.join(folder, name) for name in os.listdir(folder))
    for mesh in meshes:
        status, _, err = ckpt("merge", mesh, mesh + "/merged.pt")
        checks.check(status == 0, "%s: %s" % (mesh, err))
    done = subprocess.run(python + ["-c", COMPARE, *meshes], capture_output=True, encoding="utf-8", timeout=600)
    for mesh in meshes:
        checks.check("EQUAL %s\n" % mesh in done.stdout, "%s: %s" % (mesh, done.stdout + done.stderr[-500:]))
    for number in (0, 2):
        turned = os.path.join(folder, "turned%d" % number)
        shutil.copytree(os.path.join(folder, "four"), turned)
        os.remove(turned + "/merged.pt")
        say_big(turned + "/model_world_size_4_rank_%d.pt" % number)
        status, _, err = ckpt("merge", turned, turned + "/none.pt")
        checks.check(status == 2 and "rank_%d.pt: is big-endian" % number in err and not os.path.exists(turned + "/none.pt"), "a file of another byte order: " + err)
    incomplete = os.path.join(folder, "four")
    os.remove(incomplete + "/model_world_size_4_rank_2.pt")
    status, _, err = ckpt("merge", incomplete, incomplete + "/none.pt")
    checks.check(status == 2 and "3 of the 4 files" in err and not os.path.exists(incomplete + "/none.pt"), err)
    os.rename(incomplete + "/model_world_size_4_rank_3.pt", incomplete + "/model_world_size_4_rank_2.pt")
    shutil.copy(incomplete + "/model_world_size_4_rank_1.pt", incomplete + "/model_world_size_4_rank_3.pt")
    status, _, err = ckpt("merge", incomplete, incomplete + "/none.pt")
    checks.check(status == 2 and "another shape than its place" in err, "files under wrong numbers: " + err)
    return True


def main():
    pythons = [shlex.split(command) for command in os.environ.get("CKPT_PYTHON", "").split(";") if command.strip()]
    os.environ["CKPT"] = os.path.abspath(os.environ["CKPT"])
    base = os.environ.get("CKPT_TEST_DIR", ".")
    os.makedirs(base, exist_ok=True)
    work = tempfile.mkdtemp(prefix="ranks-", dir=base)
    checks, used = Checks(), 0
    os.chdir(work)
    shutil.copy(os.path.join(HERE, "ranks_save.py"), ".")
    try:
        for number, python in enumerate(pythons):
            used += check_torch(number, python, checks)
    finally:
        os.chdir("/")
        shutil.rmtree(work, ignore_errors=True)
    if not used:
        print("skipped: CKPT_PYTHON names no torch of 2.6 or later")
        return 77
    print("%d passed, %d failed" % (checks.passed, checks.failed))
    return 1 if checks.failed else 0


if __name__ == "__main__":
    sys.exit(main())

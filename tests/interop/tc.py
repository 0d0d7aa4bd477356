# SPDX-License-Identifier: Apache-2.0
"""Directories that the package torch_checkpointing saved are merged, and compared with the whole tensors by torch.

    CKPT=build/ckpt CKPT_PYTHON='python3;other-python' python3 tests/interop/tc.py

The package is the python's own, or lies in the folder that CKPT_TORCH_CHECKPOINTING names. Work goes on in a new folder
below CKPT_TEST_DIR, or else the current one. Ends with 77 if there is no torch of 2.6 or later, or no package.
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
COMPARE = """
import sys, torch
def bits(t):
    return t.contiguous().reshape(-1).view(torch.uint8)
def differences(a, b, at):
    if type(a) is not type(b):
        return [at]
    if isinstance(a, torch.Tensor):
        same = a.dtype == b.dtype and a.shape == b.shape and torch.equal(bits(a), bits(b))
        return [] if same else [at]
    if isinstance(a, dict):
        if set(a) != set(b):
            return [at + " keys"]
        return [bad for key in a for bad in differences(a[key], b[key], at + "." + str(key))]
    if isinstance(a, (list, tuple)):
        if len(a) != len(b):
            return [at + " length"]
        return [bad for n in range(len(a)) for bad in differences(a[n], b[n], at + "." + str(n))]
    return [] if a == b else [at]
for folder in sys.argv[1:]:
    whole = torch.load(folder + "/whole.pt", weights_only=True)
    for name in ("save", "save1", "split"):
        merged = torch.load(folder + "/" + name + ".pt", weights_only=True)
        if name == "split":     # DCP makes keys of dicts texts
            merged["optimizer"]["state"] = {int(key): value for key, value in merged["optimizer"]["state"].items()}
        bad = differences(whole, merged, "")
        model = merged["model"]
        first = model[next(iter(whole["model"]))]
        if not model["tied"].data_ptr() == model["view"].data_ptr() == first.data_ptr():
            bad.append("tied")
        print("DIFFERENT" if bad else "EQUAL", folder, name, *bad)
"""


def ckpt(*arguments):
    done = subprocess.run([os.environ["CKPT"], *arguments], capture_output=True, encoding="utf-8", timeout=120)
    return done.returncode, done.stdout, done.stderr


class Checks:
    passed = failed = 0

    def check(self, right, text):
        if right:
            self.passed += 1
        else:
            self.failed += 1
            print("FAIL " + text)


def check_mesh(mesh, checks):
    for name in ("save", "save1"):
        status, _, err = ckpt("merge", mesh + "/" + name, mesh + "/" + name + ".pt")
        checks.check(status == 0, "%s: %s" % (mesh, err))
    status, _, err = ckpt("split", mesh + "/save", mesh + "/split", "--ranks", "3")
    checks.check(status == 0, "%s: %s" % (mesh, err))
    status, _, err = ckpt("merge", mesh + "/split", mesh + "/split.pt")
    checks.check(status == 0, "%s: %s" % (mesh, err))


def check_damage(folder, checks):
    """A file of the set is gone, or under another rank's name."""
    damaged = folder + "/four/save"
    os.rename(damaged + "/model_2.pt", damaged + "/kept")
    status, _, err = ckpt("merge", damaged, folder + "/none.pt")
    checks.check(status == 2 and "'model_2.pt' is missing" in err and not os.path.exists(folder + "/none.pt"), err)
    shutil.copy(damaged + "/model_3.pt", damaged + "/model_2.pt")
    status, _, err = ckpt("merge", damaged, folder + "/none.pt")
    checks.check(status == 2 and "model_2.pt" in err and "another shape than its place" in err, err)


def check_torch(number, python, checks):
    text = subprocess.run(python + ["-c", each_torch.ASK_VERSION],
                          capture_output=True, encoding="utf-8", timeout=600).stdout
    version = re.search(r"torch version (\d+)\.(\d+)", text)
    if not version or tuple(map(int, version.groups())) < (2, 6):
        return False
    folder = "torch%d" % number
    done = subprocess.run(python + ["tc_save.py", folder], capture_output=True, encoding="utf-8", timeout=900)
    if "no package" in done.stdout:
        return False
    if "saved" not in done.stdout:
        raise SystemExit("tc_save.py failed:\n" + done.stdout + done.stderr[-4000:])
    meshes = sorted(os.path.join(folder, name) for name in os.listdir(folder))
    for mesh in meshes:
        check_mesh(mesh, checks)
    done = subprocess.run(python + ["-c", COMPARE, *meshes], capture_output=True, encoding="utf-8", timeout=600)
    for mesh in meshes:
        for name in ("save", "save1", "split"):
            checks.check("EQUAL %s %s\n" % (mesh, name) in done.stdout,
                         "%s %s: %s" % (mesh, name, done.stdout + done.stderr[-500:]))
    check_damage(folder, checks)
    return True


def main():
    pythons = [shlex.split(command) for command in os.environ.get("CKPT_PYTHON", "").split(";") if command.strip()]
    os.environ["CKPT"] = os.path.abspath(os.environ["CKPT"])
    package = os.environ.get("CKPT_TORCH_CHECKPOINTING")
    base = os.environ.get("CKPT_TEST_DIR", ".")
    os.makedirs(base, exist_ok=True)
    work = tempfile.mkdtemp(prefix="tc-", dir=base)
    if package:
        shutil.copytree(os.path.join(package, "torch_checkpointing"), os.path.join(work, "torch_checkpointing"))
    checks, used = Checks(), 0
    os.chdir(work)
    shutil.copy(os.path.join(HERE, "tc_save.py"), ".")
    try:
        for number, python in enumerate(pythons):
            used += check_torch(number, python, checks)
    finally:
        os.chdir("/")
        shutil.rmtree(work, ignore_errors=True)
    if not used:
        print("skipped: CKPT_PYTHON names no torch of 2.6 or later with the package torch_checkpointing")
        return 77
    print("%d passed, %d failed" % (checks.passed, checks.failed))
    return 1 if checks.failed else 0


if __name__ == "__main__":
    sys.exit(main())

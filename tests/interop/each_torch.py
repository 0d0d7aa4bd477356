# SPDX-License-Identifier: Apache-2.0
"""What the tests with real torch share: each torch of CKPT_PYTHON, in a folder of its own with a copy of these scripts."""
import glob
import os
import shutil
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
SKIPPED = 77


def run(name, check, optional=False):
    """
    check(ckpt, command, work) -> how many things are right, [what is wrong]; COMMAND runs python with that torch. Returns the exit
    status: skipped where there is no torch, failed where nothing was right. OPTIONAL: older torches cannot do it at all.
    """
    ckpt, pythons = os.environ.get("CKPT"), os.environ.get("CKPT_PYTHON")
    if not ckpt or not pythons:
        print("skipped: CKPT or CKPT_PYTHON is not set, no real torch to compare with")
        return SKIPPED
    base = os.environ.get("CKPT_TEST_DIR") or "."
    os.makedirs(base, exist_ok=True)
    failed = passed = 0
    for command in pythons.split(";"):
        with tempfile.TemporaryDirectory(prefix=name + "-", dir=base) as work:
            os.chmod(work, 0o755)
            for script in glob.glob(os.path.join(HERE, "*.py")):
                shutil.copy(script, work)
            right, wrong = check(os.path.abspath(ckpt), command, work)
        passed += right
        failed += len(wrong)
        for text in wrong[:40]:
            print("FAIL %s: %s" % (command, text), flush=True)
    print("%d passed, %d failed" % (passed, failed))
    if optional and not passed and not failed:
        return SKIPPED
    return 1 if failed or not passed else 0


def main(name, check, optional=False):
    sys.exit(run(name, check, optional))

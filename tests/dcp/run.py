# SPDX-License-Identifier: Apache-2.0
"""Directories of torch.distributed.checkpoint that Python's zipfile and pickler made, read by ckpt, without any torch.

    CKPT=build/ckpt python3 tests/dcp/run.py [CASE...]

CASE is one of the files below (cases_index), or a part of the name of a function in them. Work goes on below CKPT_TEST_DIR, or in a temporary folder.
What is expected is computed here; merged files are read back by dcp_read.py.
"""

import os
import shutil
import sys
import tempfile

sys.dont_write_bytecode = True      # the scripts' folder stays as it is

import harness  # noqa: E402
import cases_geometry  # noqa: E402, F401
import cases_hostile  # noqa: E402, F401
import cases_index  # noqa: E402, F401
import cases_items  # noqa: E402, F401
import cases_nesting  # noqa: E402, F401
import cases_recovery  # noqa: E402, F401
import cases_split  # noqa: E402, F401
import cases_tc  # noqa: E402, F401
import cases_zero  # noqa: E402, F401


def run_case(name, function, base):
    folder = tempfile.mkdtemp(prefix=name + "-", dir=base)
    test = harness.Test(name, folder)
    try:
        test.check("setup", function, test)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return test


def main():
    if not os.environ.get("CKPT"):
        print("skipped: CKPT is not set, so there is no ckpt to test")
        return 77
    harness.CKPT = shutil.which(os.environ["CKPT"]) or os.path.abspath(os.environ["CKPT"])
    base = os.environ.get("CKPT_TEST_DIR")
    if base:
        os.makedirs(base, exist_ok=True)
    passed, failed, skipped = 0, 0, 0
    with tempfile.TemporaryDirectory(prefix="dcp-", dir=base) as work:
        for name, numbers, function in harness.CASES:
            if sys.argv[1:] and not any(part in name or part == function.__module__ for part in sys.argv[1:]):
                continue
            test = run_case(name, function, work)
            passed, failed, skipped = passed + test.passed, failed + len(test.failed), skipped + len(test.skipped)
            for text in test.failed:
                print("FAIL %s: %s" % (name, text))
            for text in test.skipped:
                print("skipped %s: %s" % (name, text))
    print("%d passed, %d failed, %d skipped" % (passed, failed, skipped))
    return 1 if failed or not passed else 0


if __name__ == "__main__":
    sys.exit(main())

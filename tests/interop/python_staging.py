# SPDX-License-Identifier: Apache-2.0
"""ckpt.torch.load() to a device that main memory stands in for, with real torch.

CKPT, CKPT_TEST_DIR, CKPT_PYTHON, CKPT_PYTHON_MODULE as for python_module.py; judges are those torches whose Python loads
the package.
"""

import sys

import python_module


def judge(command, work):
    """(how many things are right, [what is wrong])"""
    return python_module.judge_of(command, work, "python_staging_judge.py")


if __name__ == "__main__":
    sys.exit(python_module.run_each("python-staging", judge))

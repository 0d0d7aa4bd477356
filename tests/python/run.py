# SPDX-License-Identifier: Apache-2.0
"""Run pytest over these tests, with a Python that has it: run.py FOLDER OF THE PACKAGE [ARGUMENT...]

One file of the extension is for all Pythons from 3.11 on, so it need not be the one of the build. 77: none has pytest.
CKPT_PRELOAD: the libraries of sanitizers, if the extension has them.
"""

import os
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
ASK = "import sys, pytest; sys.exit(sys.version_info < (3, 11))"


def main():
    for python in (sys.executable, "/usr/bin/python3"):
        if os.path.exists(python) and subprocess.run([python, "-c", ASK], stderr=subprocess.DEVNULL).returncode == 0:
            break
    else:
        print("skipped: no Python from 3.11 on has pytest")
        return 77
    env = dict(os.environ, PYTHONPATH=os.path.abspath(sys.argv[1]), PYTHONDONTWRITEBYTECODE="1")
    if os.environ.get("CKPT_PRELOAD"):
        # Python itself keeps much until it ends, and has an allocator that hides what is wrong
        checks = [os.environ["ASAN_OPTIONS"]] if os.environ.get("ASAN_OPTIONS") else []
        env.update(LD_PRELOAD=os.environ["CKPT_PRELOAD"], PYTHONMALLOC="malloc", ASAN_OPTIONS=":".join(checks + ["detect_leaks=0"]))
    command = [python, "-X", "faulthandler", "-m", "pytest", "-q", "-p", "no:cacheprovider"]
    base = os.environ.get("CKPT_TEST_DIR")
    if base:
        command.append("--basetemp=" + base)
    return subprocess.run(command + (sys.argv[2:] or [HERE]), env=env, cwd=HERE).returncode


if __name__ == "__main__":
    sys.exit(main())

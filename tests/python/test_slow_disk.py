# SPDX-License-Identifier: Apache-2.0
"""Ctrl-C ends whatever writes at once, whichever system call the disk holds, and leaves nothing."""

import os
import subprocess
import sys

import pytest

HERE = os.path.dirname(os.path.abspath(__file__))
LIBRARY = os.environ.get("CKPT_SLOW_DISK_LIB")


@pytest.mark.skipif(not LIBRARY, reason="CKPT_SLOW_DISK_LIB names no library")
@pytest.mark.parametrize("how", [[], ["ends"], ["forks"], ["forgets"], ["opens"]], ids=" ".join)
def test_a_signal_does_not_wait_for_the_disk(tmp_path, how):
    if how == ["forgets"]:
        pytest.importorskip("numpy")
    folder = tmp_path / "disk"
    folder.mkdir()
    preload = ":".join(filter(None, [os.environ.get("CKPT_PRELOAD"), LIBRARY]))
    env = dict(os.environ, LD_PRELOAD=preload, SLOW_DISK=str(folder), TMPDIR=str(folder))
    done = subprocess.run([sys.executable, os.path.join(HERE, "slow_disk_judge.py")] + how, env=env, timeout=120, text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    assert done.returncode == 0 and "Error" not in done.stdout, done.stdout
    assert os.listdir(folder) == []

# SPDX-License-Identifier: Apache-2.0
"""No file makes ckpt.open() or ckpt.load() run, import or look up anything; and no file ends the process."""

import os
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))

# Events of Python's audit hooks: whatever is called from a file would have to pass one of them.
CHILD = r"""
import os, sys, threading, struct, reprlib, collections, operator
import ckpt, ckpt._load
try:
    import numpy, ckpt._numpy
except ImportError:
    pass
found, armed = [], False
HARMLESS = {"builtins.id", "object.__getattr__", "sys._getframe", "gc.get_objects"}

def hook(event, args):
    if armed and event not in HARMLESS:
        found.append((event, repr(args)[:200]))

files = [os.path.join(sys.argv[1], name) for name in sorted(os.listdir(sys.argv[1]))]
sys.addaudithook(hook)
loaded = refused = 0
for path in files:
    modules = set(sys.modules)
    for how in ("opaque", "plain", "error"):
        armed = True
        try:
            value = ckpt.load(path, objects=how)
            with ckpt.open(path) as f:
                f.tree(), list(f), f.value(""), f.metadata(), f.info
                for tensor in f.tensors()[:20]:
                    try:
                        if tensor.numel() < 1 << 20:  # some claim terabytes
                            tensor.memoryview()
                        tensor.storage and tensor.storage.nbytes
                    except (ckpt.Error, MemoryError):
                        pass
            loaded += 1
        except (ckpt.Error, MemoryError, RecursionError):
            refused += 1
        armed = False
        value = None
    if found or set(sys.modules) != modules:
        print(path, found[:5], set(sys.modules) - modules)
        sys.exit(1)
print(len(files), loaded, refused)
"""


def run(folder):
    return subprocess.run([sys.executable, "-X", "faulthandler", "-c", CHILD, str(folder)], stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True)


def test_hostile_files_run_nothing(tmp_path):
    sys.path.insert(0, os.path.join(os.path.dirname(HERE), "scan"))
    import hostile

    (tmp_path / "files").mkdir()
    hostile.write(str(tmp_path / "files"))
    done = run(tmp_path / "files")
    assert done.returncode == 0, done.stdout[-3000:]
    count, loaded, refused = map(int, done.stdout.split())
    assert count > 100 and loaded > 50 and refused > 50


def test_the_canary_would_be_seen(tmp_path):
    (tmp_path / "a.pt").write_bytes(b"")
    done = subprocess.run([sys.executable, "-c", CHILD.replace("value = ckpt.load", "os.makedirs(path + '.d', exist_ok=True); value = ckpt.load"),
                           str(tmp_path)], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    assert done.returncode == 1 and "os.mkdir" in done.stdout

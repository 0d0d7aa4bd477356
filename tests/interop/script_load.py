# SPDX-License-Identifier: Apache-2.0
"""Load what script.py let ckpt write, and compare it with what torch wrote, if it is not the same to the byte.

script_load.py FOLDER
"""

import filecmp
import glob
import os
import sys

import torch

from compare import Difference, compare
from torch_files import LOAD_OPTIONS, clean_exit, load

with clean_exit():
    for path in sorted(glob.glob(os.path.join(sys.argv[1], "found", "*.pt"))):
        name = os.path.basename(path)
        wanted = os.path.join(sys.argv[1], "want", name)
        strict = "weights_only" in LOAD_OPTIONS and not name.startswith("cpp_")
        try:
            found = load(path, weights_only=strict)
            if not filecmp.cmp(wanted, path, shallow=False):
                compare(load(wanted), found)
        except (Difference, Exception) as error:
            if filecmp.cmp(wanted, path, shallow=False):
                print("torch cannot load its own %s safely: %s" % (name, str(error).splitlines()[:1]))
                continue
            print("FAIL %s: %s" % (name, str(error).splitlines()[:2]))
    print("torch version", torch.__version__)

# SPDX-License-Identifier: Apache-2.0
"""Load the tar archives of a folder with the running torch, and save what was loaded: tar_files.py IN OUT

Prints the version and, of every file that torch does not load, what it says.
"""
import glob
import os
import sys
import warnings

warnings.simplefilter("ignore")

import torch  # noqa: E402

import fake_cuda  # noqa: E402
import torch_files  # noqa: E402


def main():
    fake_cuda.install()
    print("torch", torch.__version__)
    for path in sorted(glob.glob(os.path.join(sys.argv[1], "*.pt"))):
        fake_cuda.clear()
        try:
            torch.save(torch_files.load(path), os.path.join(sys.argv[2], os.path.basename(path)))
        except Exception as error:
            print("refused", os.path.basename(path), type(error).__name__, str(error).split("\n")[0][:200])


with torch_files.clean_exit():
    main()

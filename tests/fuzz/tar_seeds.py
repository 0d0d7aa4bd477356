# SPDX-License-Identifier: Apache-2.0
"""Makes what fuzz_tar begins with, from the cases of tests/interop: python3 tests/fuzz/tar_seeds.py SEEDS"""

import os
import sys
import tarfile

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "interop"))

from tar_build import archive, members  # noqa: E402
import tar_cases  # noqa: E402


def main():
    os.makedirs(sys.argv[1], exist_ok=True)
    for name, arguments, options in tar_cases.each():
        form = tarfile.PAX_FORMAT if name.endswith("2") else tarfile.GNU_FORMAT
        with open(os.path.join(sys.argv[1], name), "wb") as stream:
            stream.write(archive(members(*arguments, **options), form).rstrip(b"\0"))


main()

# SPDX-License-Identifier: Apache-2.0
"""Seeds for fuzz_why: every message of tests/bad/test_why.py with its file. why_seeds.py OUTDIR"""
import os
import struct
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "bad"))
import test_why  # noqa: E402

for number, (_, _, message, data, _) in enumerate(test_why.TEXTS):
    with open(os.path.join(sys.argv[1], "t%02d" % number), "wb") as file:
        file.write(struct.pack("<H", len(message)) + message.encode() + (data or test_why.weights("module.a", "b")))

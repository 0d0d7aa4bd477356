# SPDX-License-Identifier: Apache-2.0
"""Texts as Python 2 pickled them: bytes, which become whatever the `encoding` of a load makes of them. spelled(rng, pickle) -> pickle.

Nothing here unpickles.
"""

import pickletools
import struct

TEXTS = ("BINUNICODE", "SHORT_BINUNICODE", "UNICODE")
LATER = (b"\xe9", b"\xc3\xa9", b"\xff", b"\x80")  # latin1, UTF-8, and neither


def text_of_python2(rng, data):
    """One of the opcodes that give DATA, or nearly that: with a character that is no ASCII."""
    if rng.random() < 0.15:
        at = rng.randrange(len(data) + 1)
        data = data[:at] + rng.choice(LATER) + data[at:]
    way = rng.randrange(3)
    if way == 0 and len(data) < 256:
        return b"U" + bytes([len(data)]) + data
    if way == 1:
        return b"S'" + b"".join(b"\\x%02x" % c for c in data) + b"'\n"
    return b"T" + struct.pack("<I", len(data)) + data


def spelled(rng, pickle):
    """PICKLE with some or all of its texts so; PICKLE itself where that has no end, or frames."""
    share = rng.choice([0.05, 0.3, 1])
    try:
        operations = [(operation.name, argument, at) for operation, argument, at in pickletools.genops(pickle)]
    except (ValueError, UnicodeDecodeError, OverflowError):
        return pickle
    if any(name == "FRAME" for name, _, _ in operations):
        return pickle
    out = b""
    ends = [at for _, _, at in operations[1:]] + [operations[-1][2] + 1]
    for (name, argument, at), end in zip(operations, ends):
        made = pickle[at:end]
        if name in TEXTS and rng.random() < share:
            made = text_of_python2(rng, argument.encode("utf-8", "surrogatepass"))
        out += made
    return out

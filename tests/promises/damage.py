# SPDX-License-Identifier: Apache-2.0
"""Damage in the input, and every command that writes: an exit code that is not 0, or an output in which verify finds it, too."""

import json
import os

import common
from common import Finding, ckpt

# what of an input has checksums; of the others damage cannot be known
WITH_CHECKSUMS = ["torch", "trainer", "big", "dcp", "dcp-columns", "dcp-whole", "dcp-beside", "hf-pickles", "ranks"]


def flip(rng, path):
    """A bit of the file, or of one of the directory's. Says where."""
    if os.path.isdir(path):
        path = os.path.join(path, rng.choice(sorted(n for n in os.listdir(path) if not n.endswith((".metadata", ".json", ".txt")))))
    with open(path, "r+b") as file:
        data = file.read()
        at = rng.randrange(len(data))
        file.seek(at)
        file.write(bytes([data[at] ^ 1 << rng.randrange(8)]))
    return "%s at %d" % (path, at)


def damaged(path):
    """How many things verify finds damaged; None: it is sound, or cannot be told."""
    result = ckpt("verify", "--json", path)
    return json.loads(result.out)["damaged"] if result.code == 1 else None


def program(rng, inputs, work):
    kind = rng.choice(WITH_CHECKSUMS)
    sound, source, out, wanted = os.path.join(inputs, kind), *(os.path.join(work, *name) for name in ([kind], ["out"], ["wanted", "out"]))
    words, _ = rng.choice(common.COMMANDS)
    if "--hard-link" in words or words[0] in ("broadcast", "repair"):
        return  # bytes as they are; repair says itself what it proves
    common.copy(sound, source)
    where = flip(rng, source)
    if ckpt("verify", "-q", source).code == 0:
        return
    result = ckpt(*common.fill(words, source, out))
    if result.code:
        if os.path.lexists(out):
            raise Finding("an output is left: %s" % result)
        return
    if ckpt("verify", "-q", out).code:
        return
    os.mkdir(os.path.dirname(wanted))  # torch names what is in a file after it
    ckpt(*common.fill(words, sound, wanted))
    # an edited directory keeps its data files, with what no entry is made of any more
    if common.bytes_of(out) != common.bytes_of(wanted) and ckpt("diff", "--read", "-q", out, wanted).code:
        raise Finding("%s: damage got through as sound: %s\n%s" % (where, result, ckpt("verify", source)))


if __name__ == "__main__":
    common.rounds(program, 150, 3000)

# SPDX-License-Identifier: Apache-2.0
"""What a command writes is the same whichever of its standard streams are closed: nothing that is printed gets into a file."""

import os

import common
from common import Finding, ckpt


def program(rng, inputs, work):
    kind = rng.choice(sorted(common.KINDS))
    source = os.path.join(inputs, kind)
    words, _ = rng.choice([*common.COMMANDS, *[(["broadcast", "IN", "OUT"], None)] * 5])
    options = []
    if words[0] == "broadcast":
        options = rng.choice([[], ["--progress"], ["--progress=json"]])
        source = os.path.join(work, "large")  # it takes a while, so that there is something to be said
        with open(source, "wb") as file:
            file.write(rng.randbytes(3 << 20))
    outs = [os.path.join(work, name, "out") for name in ("open", "closed")]
    for out in outs:
        os.mkdir(os.path.dirname(out))
    wanted = ckpt(*common.fill(words, source, outs[0], options))
    before = common.bytes_of(source)
    closed = rng.choice([(0,), (1,), (2,), (2,), (0, 1), (0, 2), (1, 2), (0, 1, 2)])
    found = ckpt(*common.fill(words, source, outs[1], options), closed=closed)
    told = "%s closed; %s" % (closed, found)
    if found.code != wanted.code and not (found.code == 2 and 1 in closed):  # it cannot print what it has to
        raise Finding("exit code %s with all open, %s" % (wanted.code, told))
    written = [common.bytes_of(out) for out in outs]
    for files in written:
        if isinstance(files, dict):
            files.pop(".ckpt-staged", None)  # says which inode the copy has
    if found.code == wanted.code and written[0] != written[1]:
        raise Finding("another output, " + told)
    if common.bytes_of(source) != before:
        raise Finding("the input is another, " + told)


if __name__ == "__main__":
    common.rounds(program, 60, 2000)

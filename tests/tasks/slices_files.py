# SPDX-License-Identifier: Apache-2.0
"""As tests/interop/cat_want.py, but of each array a part that numpy's basic indexing gives. slices_files.py OUTDIR"""
import random
import sys

import cat_objects  # noqa: F401
import cat_want
import objects  # noqa: F401
import registry

RANDOM = random.Random(9)


def bound(length):
    return RANDOM.choice(["", "", str(RANDOM.randint(-length - 2, length + 2)), str(RANDOM.randint(0, length))])


def one(length):
    """An index of a dimension."""
    kind = RANDOM.randrange(8)
    if kind == 0 and length:
        return str(RANDOM.randrange(-length, length))
    if kind == 1:
        return ":"
    step = RANDOM.choice(["", ":", ":-1", ":2", ":-3", ":%d" % (length + 1), ":-99999999999999999999"])
    return "%s:%s%s" % (bound(length), bound(length), step)


def index_of(shape):
    """Text of an index into such an array; "" if there is none."""
    count = RANDOM.randint(0, len(shape))
    words = [one(length) for length in shape[:count]]
    if RANDOM.randrange(3) == 0 or not words:
        tail = [one(length) for length in reversed(shape[count:])][:RANDOM.randint(0, 2)]
        words += ["..."] + tail[::-1]
    return RANDOM.choice([",", ", "]).join(words)


Whole = cat_want.Writer


class Writer(Whole):
    def add(self, name, array, part=None, printed=True):
        text = index_of(array.shape)
        if printed:
            Whole.add(self, "%s[%s]" % (name, text), cat_want.np.asarray(eval("array[%s]" % text)), part)


if __name__ == "__main__":
    for name in [name for name in registry.ITEMS if not name.startswith("cat_") or name == "cat_long_rows"]:
        del registry.ITEMS[name]
    cat_want.Writer = Writer
    cat_want.write_all(sys.argv[1])

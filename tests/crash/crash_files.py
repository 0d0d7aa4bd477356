# SPDX-License-Identifier: Apache-2.0
"""Checkpoints for the crash tests, made by torch; and what torch says of files. crash_files.py make OUTDIR | check

check: for every file that stdin names one line: its first keys and the sum of its first tensor, or the error, both with and
without mmap.
"""

import collections
import os
import sys
import warnings

warnings.simplefilter("ignore")

import torch  # noqa: E402

COUNT = {"small": 6, "large": 60, "wide": 6}
FIRST = {"wide": 20000}                         # numbers of its first tensor: some blocks of the disk
LONG = {"small": "", "wide": "", "large": "x" * 1500}       # its pickle and its directory are longer than 64 KiB


def make(out):
    for name, count in COUNT.items():
        entries = [("module.first", torch.arange(FIRST.get(name, 8)).float())]
        entries += [("module.layer%d.%sweight" % (i, LONG[name]), torch.full((3,), float(i))) for i in range(count)]
        torch.save(collections.OrderedDict(entries), os.path.join(out, name + ".pt"))
    print("torch version", torch.__version__)


def describe(path, **options):
    try:
        obj = torch.load(path, **options)
        last = list(obj)[-1]
        return "%s %s %d %s" % (list(obj)[0], last[:30], len(obj), [float(t.double().sum()) for t in
                                                                (list(obj.values())[0], obj[last])])
    except Exception as error:
        return "ERROR " + str(error).split("\n")[0][:100]


def mmap_works():
    return tuple(int(part) for part in torch.__version__.split(".")[:2]) >= (2, 1)


def main():
    if sys.argv[1] == "make":
        make(sys.argv[2])
        return
    # cuda tags are read as cpu
    for path in iter(sys.stdin.readline, ""):
        path = path.rstrip("\n")
        text = describe(path, map_location="cpu")
        if mmap_works() and describe(path, map_location="cpu", mmap=True) != text:
            text = "ERROR with mmap: " + describe(path, map_location="cpu", mmap=True)
        print(path + "\t" + text, flush=True)


if __name__ == "__main__":
    main()
    sys.stdout.flush()
    os._exit(0)

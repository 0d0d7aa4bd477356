# SPDX-License-Identifier: Apache-2.0
"""Load pairs of files in every way this torch knows, and compare what comes out.

    python check_load.py LIST RESULT

LIST has lines REFERENCE<tab>OUTPUT. Wherever the reference loads, the output has to load, and to
give an equal object. RESULT gets one line per output file before it is tried (`at`), one per
failure (`bad`), and at the end `done` with the numbers of loads compared and of loads that the
reference refuses.
"""

import sys
import warnings

warnings.simplefilter("ignore")

import torch  # noqa: E402

import compare  # noqa: E402
import fake_cuda  # noqa: E402
import torch_files  # noqa: E402


def describe(error):
    return ("%s: %s" % (type(error).__name__, error)).split("\n")[0][:300]


def check(reference, output, weights_only, mmap):
    """What is wrong with OUTPUT: a text, "" for nothing, None if the reference does not load."""
    fake_cuda.clear()
    try:
        wanted = torch_files.load(reference, weights_only, mmap)
    except Exception:
        return None
    try:
        found = torch_files.load(output, weights_only, mmap)
        compare.compare(wanted, found)
    except Exception as error:
        return describe(error)
    return ""


def check_pair(reference, output, result):
    """Try one pair in all ways; returns how many loads were compared, and how many refused."""
    compared = refused = 0
    for weights_only, mmap in torch_files.ways_to_load():
        text = check(reference, output, weights_only, mmap)
        compared += text is not None
        refused += text is None
        if text:
            way = "weights_only=%s mmap=%s" % (weights_only, mmap)
            result.write("bad\t%s\t%s\t%s\n" % (output, way, text))
    return compared, refused


def main():
    fake_cuda.install()
    torch.set_num_threads(1)
    sys.setrecursionlimit(20000)
    totals = [0, 0]
    with open(sys.argv[1], encoding="utf-8") as pairs, \
            open(sys.argv[2], "w", encoding="utf-8") as result:
        for line in pairs:
            reference, output = line.rstrip("\n").split("\t")
            result.write("at\t%s\n" % output)
            result.flush()
            for index, count in enumerate(check_pair(reference, output, result)):
                totals[index] += count
        result.write("done\t%d\t%d\n" % tuple(totals))


if __name__ == "__main__":
    with torch_files.clean_exit():
        main()

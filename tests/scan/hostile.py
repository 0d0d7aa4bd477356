# SPDX-License-Identifier: Apache-2.0
"""Hostile files, made from scratch: hostile.py FOLDER writes them, and prints name, verdicts, trick and advisory of each.

They are the tricks of the public advisories on picklescan, fickling and modelscan, and others. What they would run is `true`, and nothing here
or in the tests that use them ever loads one.
"""

import os
import sys

import assemble
import hostile_arrays  # noqa: F401
import hostile_files  # noqa: F401
import hostile_globals  # noqa: F401
import hostile_keys  # noqa: F401
import hostile_language  # noqa: F401
import hostile_numbers  # noqa: F401
import hostile_objects  # noqa: F401
import hostile_pickles  # noqa: F401
import hostile_programs  # noqa: F401
import hostile_readers  # noqa: F401
import hostile_rows  # noqa: F401
import hostile_zips  # noqa: F401

SAMPLES = assemble.SAMPLES


def write(folder):
    """{path: sample}"""
    paths = {}
    for one in SAMPLES:
        path = os.path.join(folder, one.name)
        if path in paths:
            raise ValueError("two samples are called '%s'" % one.name)
        with open(path, "wb") as stream:
            stream.write(one.data)
        paths[path] = one
    return paths


def main():
    os.makedirs(sys.argv[1], exist_ok=True)
    write(sys.argv[1])
    for one in SAMPLES:
        print("%-50s %-35s %s%s" % (one.name, "|".join(sorted(one.wanted)), one.why, " [%s]" % one.about if one.about else ""))
    print("%d files" % len(SAMPLES))


if __name__ == "__main__":
    main()

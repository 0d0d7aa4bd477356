#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Breaks the code on purpose, one place at a time, in a copy: a test has to notice each.

run.py [--only TEXT] [--list] FOLDER     builds in FOLDER, and keeps it for the next time
run.py --check                           every place is there once (quick)

Prints a line for each mutant, and those that nobody noticed at the end. Exit 1 if there are any, or a place is gone.
"""

import argparse
import os
import subprocess
import sys

sys.dont_write_bytecode = True
HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
SECONDS = 300  # of one suite: one that hangs has noticed
OPTIONS = ["-G", "Ninja", "-DCMAKE_BUILD_TYPE=Debug", "-DBUILD_TESTING=ON", "-DCKPT_SANITIZE=ON"]


def text_of(root, path):
    with open(os.path.join(root, path), encoding="utf-8") as stream:
        return stream.read()


def write(root, path, text):
    with open(os.path.join(root, path), "w", encoding="utf-8") as stream:
        stream.write(text)


def places_that_are_gone(mutants):
    for number, (path, before, after, suites) in enumerate(mutants):
        count = text_of(ROOT, path).count(before)
        if count != 1 or before == after or not suites:
            yield "mutant %d: %s has %d of %r" % (number, path, count, before)


def run(words, **options):
    return subprocess.run(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False, **options)


def copy_tree(to):
    """What is in the repository, as it is now; only what differs is written, so that little is built again."""
    names = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True).stdout.split("\0")
    for name in filter(None, names):
        source, target = os.path.join(ROOT, name), os.path.join(to, name)
        if not os.path.isfile(source):
            continue
        with open(source, "rb") as stream:
            data = stream.read()
        if os.path.exists(target):
            with open(target, "rb") as stream:
                if stream.read() == data:
                    continue
        os.makedirs(os.path.dirname(target), exist_ok=True)
        with open(target, "wb") as stream:
            stream.write(data)
        os.chmod(target, os.stat(source).st_mode)


def build(tree, folder):
    done = run(["ninja", "-C", folder, "unit_tests"])
    if done.returncode:
        raise SystemExit("%s does not build:\n%s" % (tree, done.stdout[-3000:]))


def who_notices(folder, suites):
    """The first suite that fails; None: all pass."""
    environment = dict(os.environ, ASAN_OPTIONS="detect_leaks=1", UBSAN_OPTIONS="halt_on_error=1")
    for suite in suites:
        try:
            done = run([os.path.join(folder, "tests", "unit_tests"), suite], timeout=SECONDS, env=environment)
        except subprocess.TimeoutExpired:
            return suite + " (hangs)"
        if done.returncode:
            return suite
    return None


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="mutants whose file or text has this in it")
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--list", action="store_true")
    parser.add_argument("folder", nargs="?")
    options = parser.parse_args()
    sys.path.insert(0, HERE)
    from gpu import MUTANTS

    gone = list(places_that_are_gone(MUTANTS))
    print("\n".join(gone) if gone else "%d mutants, each has its place" % len(MUTANTS))
    if gone or options.check:
        return 1 if gone else 0
    chosen = [(n, m) for n, m in enumerate(MUTANTS) if options.only in m[0] or options.only in m[1]]
    if options.list or not options.folder:
        for number, (path, before, after, _) in chosen:
            print("%2d %s: %s -> %s" % (number, path, before.strip(), after.strip() or "nothing"))
        return 0
    tree, folder = os.path.join(options.folder, "tree"), os.path.join(options.folder, "build")
    copy_tree(tree)
    done = run(["cmake", "-S", tree, "-B", folder, *OPTIONS])
    if done.returncode:
        raise SystemExit(done.stdout[-3000:])
    build(tree, folder)
    for suite in sorted({suite for _, mutant in chosen for suite in mutant[3]}):
        if who_notices(folder, [suite]):
            raise SystemExit("%s fails without any mutant" % suite)
    unnoticed = []
    for number, (path, before, after, suites) in chosen:
        original = text_of(tree, path)
        write(tree, path, original.replace(before, after))
        try:
            build(tree, folder)
            noticed = who_notices(folder, suites)
        finally:
            write(tree, path, original)
        print("%2d %-34s %-24s %s" % (number, path, noticed or "NOBODY", before.strip().split("\n")[0][:70]), flush=True)
        if not noticed:
            unnoticed.append(number)
    build(tree, folder)
    print("%d of %d noticed%s" % (len(chosen) - len(unnoticed), len(chosen), "; not: %s" % unnoticed if unnoticed else ""))
    return 1 if unnoticed else 0


if __name__ == "__main__":
    sys.exit(main())

# SPDX-License-Identifier: Apache-2.0
"""Programs with a locale: what is read from files, written and said must not depend on it.

run.py unit UNIT_TESTS [SUITE... | -SUITE...]   unit tests in a program that writes 1,5: all, some, all but some
run.py cli BATS SET_LOCALE FOLDER K/P           tests of the command, which set_locale.c is preloaded into: of P parts the Kth
run.py library USE_LIBRARY                      what use_library.c is told, in several locales
"""

import glob
import os
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
COMMA = "de_DE.UTF-8"
# Another point, for which all is tried; from OTHERS on a part: bytes above 127 that are letters; I that is no large i; a point of two bytes.
LOCALES = {"de_DE.UTF-8": ",", "de_DE.ISO-8859-1": ",", "tr_TR.UTF-8": ",", "tr_TR.ISO-8859-9": ",", "ps_AF.UTF-8": "\u066b"}
OTHERS = "de_DE.ISO-8859-1"


def make_locale(folder, name):
    """Why there is none, or ''."""
    language, charset = name.split(".")
    try:
        made = subprocess.run(["localedef", "-i", language, "-f", charset, os.path.join(folder, name)],
                              capture_output=True, check=False)
    except OSError as why:
        return str(why)
    if os.path.exists(os.path.join(folder, name)):
        return ""
    return made.stderr.decode(errors="replace").strip().replace("\n", " ") or "localedef fails"


def unit(folder, program, *suites):
    env = dict(os.environ, LOCPATH=folder, LC_ALL=COMMA, CKPT_TEST_LOCALE="1")
    if not suites or suites[0].startswith("-"):
        listed = subprocess.run([program], stdout=subprocess.PIPE, check=True).stdout.decode().split()
        left_out = [name[1:] for name in suites]
        suites = [name for name in listed if name.startswith("test_") and name not in left_out]
    failed = [suite for suite in suites if subprocess.run([program, suite], env=env, check=False).returncode]
    print("failed with a comma: %s" % ", ".join(failed) if failed else "%d suites" % len(suites))
    return 1 if failed else 0


def cli(folder, bats, set_locale, tests, part):
    """The shell and other programs of a test keep their own locale."""
    command = os.path.join(folder, "ckpt")
    with open(command, "w", encoding="utf-8") as stream:
        stream.write('#!/bin/sh\nexport LOCPATH="%s" CKPT_TEST_LOCALE=%s LD_PRELOAD="%s"\n'
                     'export ASAN_OPTIONS="${ASAN_OPTIONS-}:verify_asan_link_order=0"\nexec "%s" "$@"\n'
                     % (folder, COMMA, set_locale, os.environ["CKPT"]))
    os.chmod(command, 0o755)
    env = dict(os.environ, CKPT=command)
    number, parts = map(int, part.split("/"))
    # those of bombs.bats are about time and memory
    files = [path for path in sorted(glob.glob(os.path.join(tests, "*.bats"))) if not path.endswith("/bombs.bats")][number - 1::parts]
    return subprocess.run([bats, "--tap"] + files, env=env, check=False).returncode if files else 1


def inputs(folder):
    """(paths to work with, paths to scan)"""
    tests = os.path.dirname(HERE)
    sys.path[:0] = [os.path.join(tests, name) for name in ("promises", "scan", "bad")]
    import common  # pylint: disable=import-outside-toplevel
    import files  # pylint: disable=import-outside-toplevel
    import hostile  # pylint: disable=import-outside-toplevel

    os.makedirs(os.path.join(folder, "kinds"))
    common.make_inputs(os.path.join(folder, "kinds"))
    # floats as text; names of bytes above 127 and of letters that Turkish has twice; a float in JSON
    special = {
        "floats.pt": files.torch_file(b"(dS'w'\n" + files.tensor() + b"sS'INDEX'\nF2246339797973633.5\nsS'e'\nF-1.5e-07\nsS'F'\nFINF\ns."),
        "names.pt": files.torch_file(files.pickled(b"}(" + files.text("gr\u00f6\u00dfe.weight") + files.tensor() +
                                                   files.text("TITLE\u0130\u0131i") + files.number(1) + b"u")),
        "io.pt": files.torch_file(b"cPIP\nmain\n(S'I'\ntR."),
        "umlaut.pt": files.torch_file(b"c\xc3\xa4os\nsyst\xc3\xa9m\n(S'\\xe4'\ntR."),
        "latin.pkl": b"\x80\x02X\x04\x00\x00\x00\xe4\xf6\xfc\xdf.",
    }
    for name, data in special.items():
        with open(os.path.join(folder, "kinds", name), "wb") as stream:
            stream.write(data)
    work = sorted(glob.glob(os.path.join(folder, "kinds", "*"))) + [os.path.join(folder, "kinds", "no.pt")]
    os.makedirs(os.path.join(folder, "hostile"))
    return work, sorted(hostile.write(os.path.join(folder, "hostile")))


def tree(folder):
    found = {}
    for top, _, names in os.walk(folder):
        for name in names:
            with open(os.path.join(top, name), "rb") as stream:
                found[os.path.relpath(os.path.join(top, name), folder)] = stream.read()
    return found


def use(program, folder, work, scanned, locale, point):
    """What the program prints, and what it leaves."""
    out = os.path.join(folder, "out")
    os.makedirs(out)
    env = dict(os.environ, LOCPATH=folder, LC_ALL=locale)
    printed = []
    for words in [[program, point, out] + work, [program, point, out, "-s"] + scanned]:
        made = subprocess.run(words, env=env, stdout=subprocess.PIPE, check=False)
        if made.returncode:
            raise SystemExit("%s in %s: ended with %d" % (program, locale, made.returncode))
        printed.append(made.stdout)
    files = tree(out)
    subprocess.run(["rm", "-r", out], check=True)
    return b"".join(printed), files


def library(folder, program):
    work, scanned = inputs(folder)
    printed, files = use(program, folder, work, scanned, "C", ".")
    told, count = printed.count(b"\n"), len(files)
    if count < 50 or told < 5000:
        print("only %d files and %d lines" % (count, told))
        return 1
    failed = []
    for locale, point in LOCALES.items():
        if locale == OTHERS and os.environ.get("CKPT_TEST_LONG") != "1":
            scanned = scanned[::5]
            printed, files = use(program, folder, work, scanned, "C", ".")
        why = make_locale(folder, locale)
        if why:
            print("%s: left out: %s" % (locale, why))
            continue
        other, others = use(program, folder, work, scanned, locale, point)
        if other != printed:
            lines = [pair for pair in zip(printed.split(b"\n"), other.split(b"\n")) if pair[0] != pair[1]]
            failed.append("%s: %d lines, the first %r, not %r" % (locale, len(lines), lines[0][1], lines[0][0]))
        failed += ["%s: %s" % (locale, name) for name in sorted(set(files) | set(others)) if files.get(name) != others.get(name)]
    print("\n".join(failed) if failed else "%d lines, %d files" % (told, count))
    return 1 if failed else 0


def main():
    with tempfile.TemporaryDirectory() as folder:
        why = make_locale(folder, COMMA)
        if why:
            print("no locale with a comma can be made here: %s" % why)
            return 77
        return {"unit": unit, "cli": cli, "library": library}[sys.argv[1]](folder, *sys.argv[2:])


sys.exit(main())

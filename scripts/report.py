# SPDX-License-Identifier: Apache-2.0
"""Say what a run of ctest did: report.py [--share SECONDS] [--parts PASSED FAILED] RESULTS.xml... (as ctest --output-junit writes them)

What was skipped and why, the ten slowest tests, those that took more than SECONDS, and in the last line how many passed and failed,
PARTS that are no run of ctest counted in. Exit code 1: one failed, or took more than its share.

A whole test is skipped by exit code 77, with the reason in its last line. Within a test that ran,
the marks of bats ('ok 3 name # skip why'), cmocka and unittest count.
"""
import argparse
import os
import re
import sys
import xml.etree.ElementTree as ElementTree

BATS = re.compile(r"^ok \d+ (?P<name>.*?) ?# skip ?(?P<why>.*)$")
CMOCKA = re.compile(r"^\[  SKIPPED \] (?P<name>\w+)(?P<why>)$")
UNITTEST = re.compile(r"^(?P<name>\w+) \(.*\) ?\.\.\. skipped (?P<why>.*)$")
OWN = re.compile(r"^(?P<name>)(?:skip|skipped|SKIP|SKIPPED): *(?P<why>.*)$")


def parts_skipped(output):
    """Lines for what was skipped inside one test."""
    lines = []
    for line in output.splitlines():
        for mark in (BATS, CMOCKA, UNITTEST, OWN):
            found = mark.match(line.strip())
            if found:
                lines.append(": ".join(filter(None, (found["name"], found["why"].strip("'\"")))))
                break
    return list(dict.fromkeys(lines))  # cmocka says it twice


def is_skipped(case):
    """It ended with 77. One that could not be started is 'notrun', too."""
    skipped = case.find("skipped")
    return skipped is not None and skipped.get("message") == "SKIP_RETURN_CODE=77"


def is_failed(case):
    return not is_skipped(case) and case.get("status") != "run"


def why_skipped(case):
    output = case.findtext("system-out") or ""
    if not is_skipped(case):
        return parts_skipped(output)
    said = [line.strip() for line in output.splitlines() if line.strip()]
    return [said[-1]] if said else ["it gave no reason"]


def read_cases(path):
    """None: there are no results."""
    try:
        return list(ElementTree.parse(path).getroot().iter("testcase"))
    except (OSError, ElementTree.ParseError):
        return None


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--share", type=float, default=float("inf"))
    parser.add_argument("--parts", type=int, nargs=2, default=(0, 0), metavar=("PASSED", "FAILED"))
    parser.add_argument("results", nargs="+")
    options = parser.parse_args()
    passed, failed = options.parts
    skipped, cases, lines = 0, [], []
    for path in options.results:
        found = read_cases(path)
        where = os.path.dirname(path) + ", " if len(options.results) > 1 else ""
        if not found:
            print("failed: there are no results of ctest in " + path)
            failed += 1
        for case in found or ():
            name, seconds = where + case.get("name"), float(case.get("time") or 0)
            cases.append((seconds, name))
            lines += ["%s: %s" % (name, why) for why in why_skipped(case)]
            if is_skipped(case):
                skipped += 1
            elif is_failed(case):
                print("failed: " + name)
                failed += 1
            elif seconds > options.share:
                print("failed: %s took %.1f s, its share is %.0f s" % (name, seconds, options.share))
                failed += 1
            else:
                passed += 1
    print("skipped, and why:")
    for line in lines or ["no test, and no part of one"]:
        print("  " + line)
    print("slowest, in seconds:")
    for seconds, name in sorted(cases, reverse=True)[:10]:
        print("  %6.1f %s" % (seconds, name))
    print("%d passed, %d failed, %d skipped" % (passed, failed, skipped))
    return 1 if failed or not cases else 0


sys.exit(main())

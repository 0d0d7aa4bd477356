# SPDX-License-Identifier: Apache-2.0
"""Print what a run of ctest skipped: skipped.py RESULTS.xml (as ctest --output-junit writes it).

A whole test is skipped by exit code 77, with the reason in its last line. Within a test that ran,
the marks of bats ('ok 3 name # skip why'), cmocka and unittest count.
"""
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


def main():
    try:
        cases = ElementTree.parse(sys.argv[1]).getroot().iter("testcase")
    except (OSError, ElementTree.ParseError) as error:
        print("  unknown: no results of ctest (%s)" % error)
        return
    count = 0
    for case in cases:
        output = case.findtext("system-out") or ""
        if case.find("skipped") is not None or case.get("status") == "notrun":
            said = [line.strip() for line in output.splitlines() if line.strip()]
            found = [said[-1]] if said else ["it gave no reason"]
        else:
            found = parts_skipped(output)
        for why in found:
            print("  %s: %s" % (case.get("name"), why))
            count += 1
    if count == 0:
        print("  no test, and no part of one")


main()

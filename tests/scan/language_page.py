# SPDX-License-Identifier: Apache-2.0
"""docs/scan.md has the rows of src/scan/table.c, and no others; the tests that it names are there: language_page.py [SOURCE FOLDER]"""

import os
import re
import sys

ROW = re.compile(r'^\t(?:(?:HEAVY_)?(?:FUNC|TYPE)\(|\{ )"([\w.]+)", "([\w.]+)", ', re.M)
NAME = re.compile(r'^\tNAME\("([\w.]+)", "([\w.]+)", ', re.M)
ON_PAGE = re.compile(r"^\| `([\w.]+\.\w+)` \|", re.M)


def main():
    root = sys.argv[1] if len(sys.argv) > 1 else os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
    with open(os.path.join(root, "src", "scan", "table.c"), encoding="utf-8") as file:
        table = file.read()
    with open(os.path.join(root, "docs", "scan.md"), encoding="utf-8") as file:
        page = file.read()
    wanted = {"%s.%s" % row for row in ROW.findall(table) + NAME.findall(table)}
    on_page = set(ON_PAGE.findall(page))
    tests = {name for name in on_page if name.endswith(".py")}
    there = on_page - tests
    missing = sorted(name for name in tests if not os.path.exists(os.path.join(root, "tests", "scan", name)))
    for name in missing:
        print("docs/scan.md names %s, which is not in tests/scan" % name)
    for name in sorted(wanted - there):
        print("docs/scan.md has no row for %s" % name)
    for name in sorted(there - wanted):
        print("src/scan/table.c has no row for %s" % name)
    print("%d rows, %d tests" % (len(wanted), len(tests)))
    return 1 if wanted != there or len(wanted) < 90 or missing or not tests else 0


if __name__ == "__main__":
    sys.exit(main())

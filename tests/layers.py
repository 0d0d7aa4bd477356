# SPDX-License-Identifier: Apache-2.0
"""Check every #include against the table src/LAYERS: layers.py [SOURCE FOLDER]"""

import os
import re
import sys

INCLUDE = re.compile(r'^\s*#\s*include\s*(["<])([^">]+)[">]')


def read_table(path):
    """Row -> set of rows that its files may include: those that it names, what is around it, and what that may include."""
    table = {}
    with open(path, encoding="utf-8") as stream:
        for line in stream:
            line = line.split("#")[0].strip()
            if line:
                name, below = line.split(":")
                table[name.strip()] = set(below.split())
    for name in sorted(table, key=len):
        around = row_of(table, os.path.dirname(name)) if "/" in name else None
        if around:
            table[name] |= {around} | table[around]
    return table


def row_of(table, path):
    """The longest row that PATH, below src/, begins with, or None."""
    parts = path.split("/")
    names = ("/".join(parts[:count]) for count in range(len(parts), 0, -1))
    return next((name for name in names if name in table), "." if len(parts) == 1 else None)


def problems_of(table, root):
    """What is wrong with the table itself."""
    for name, below in table.items():
        for unknown in sorted(below - set(table)):
            yield "'%s' uses '%s', which has no row" % (name, unknown)
        if name not in ("include", "tools") and not os.path.exists(os.path.join(root, "src", name)):
            yield "'%s' is not there, below src/" % name
    loop = cycle_in(table)
    if loop:
        yield "'%s' is used by what it uses" % loop


def cycle_in(table):
    """A row that is used by what it uses, or None."""
    def reaches(start, end, seen):
        for below in table.get(start, ()):
            if below == end or (below not in seen and reaches(below, end, seen | {below})):
                return True
        return False
    return next((name for name in table if reaches(name, name, set())), None)


def sources(root, table):
    """Every C file below root, as (its row of the table, path)."""
    for top in ("src", "include", "tools"):
        for folder, _, names in os.walk(os.path.join(root, top)):
            for name in sorted(names):
                path = os.path.join(folder, name)
                if name.endswith((".c", ".h")):
                    below = os.path.relpath(path, os.path.join(root, "src")).replace(os.sep, "/")
                    yield row_of(table, below) if top == "src" else top, path


def problem(table, layer, folder, quoted, target, root):
    """What is wrong with one #include, or None."""
    first = target.split("/")[0]
    if first == "ckpt":
        return "is a public header, wanted <%s>" % target if quoted else None
    if not quoted:
        inside = os.path.isdir(os.path.join(root, "src", first)) and first in table
        return "is our own header, wanted quotes" if inside else None
    if layer in ("tools", "include"):
        return None if os.path.exists(os.path.join(folder, target)) and "/" not in target else \
            "is not <ckpt/*.h>"
    if not os.path.exists(os.path.join(root, "src", target)):
        return "is not there, below src/"
    row = row_of(table, target)
    if row == layer or row in table[layer]:
        return None
    return "is above or beside '%s'" % layer


def main():
    root = sys.argv[1] if len(sys.argv) > 1 else os.path.join(os.path.dirname(__file__), "..")
    table = read_table(os.path.join(root, "src", "LAYERS"))
    failures, count = ["src/LAYERS: " + text for text in problems_of(table, root)], 0
    for layer, path in sources(root, table):
        if layer not in table:
            failures.append("%s: is of no folder that is in src/LAYERS" % path)
            continue
        with open(path, encoding="utf-8") as stream:
            for number, line in enumerate(stream, 1):
                found = INCLUDE.match(line)
                if not found:
                    continue
                count += 1
                why = problem(table, layer, os.path.dirname(path), found[1] == '"', found[2], root)
                if why:
                    failures.append("%s:%d: '%s' %s" % (path, number, found[2], why))
    for text in failures:
        print(text)
    print("%d #includes, %d against the table" % (count, len(failures)))
    return 1 if failures or not count else 0


sys.exit(main())

# SPDX-License-Identifier: Apache-2.0
"""Check every #include against the table src/LAYERS, and that the library leaves the process alone: layers.py [SOURCE FOLDER]"""

import os
import re
import sys

# What all threads of a program share, which may be in the middle of using it.
SHARED = re.compile(r"\b(setenv|unsetenv|putenv|clearenv|setlocale|umask|chdir|fchdir|setrlimit|srand|strtok)\s*\(")
INCLUDE = re.compile(r'^\s*#\s*include\s*(["<])([^">]+)[">]')


def read_table(path):
    """Folder -> set of folders it may include."""
    table = {}
    with open(path, encoding="utf-8") as stream:
        for line in stream:
            line = line.split("#")[0].strip()
            if line:
                name, below = line.split(":")
                table[name.strip()] = set(below.split())
    return table


def cycle_in(table):
    """A folder that is used by what it uses, or None."""
    def reaches(start, end, seen):
        for below in table.get(start, ()):
            if below == end or (below not in seen and reaches(below, end, seen | {below})):
                return True
        return False
    return next((name for name in table if reaches(name, name, set())), None)


def sources(root):
    """Every C file below root, as (folder of the table, path)."""
    for top in ("src", "include", "tools"):
        for folder, _, names in os.walk(os.path.join(root, top)):
            below = os.path.relpath(folder, os.path.join(root, "src")).split(os.sep)[0]
            for name in sorted(names):
                if name.endswith((".c", ".h")):
                    yield below if top == "src" else top, os.path.join(folder, name)


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
    if first == layer or first in table[layer]:
        return None
    return "is above or beside '%s'" % layer


def main():
    root = sys.argv[1] if len(sys.argv) > 1 else os.path.join(os.path.dirname(__file__), "..")
    table = read_table(os.path.join(root, "src", "LAYERS"))
    failures, count = [], 0
    loop = cycle_in(table)
    if loop:
        failures.append("src/LAYERS: '%s' is used by what it uses" % loop)
    for layer, path in sources(root):
        if layer not in table:
            failures.append("%s: the folder '%s' is not in src/LAYERS" % (path, layer))
            continue
        with open(path, encoding="utf-8") as stream:
            for number, line in enumerate(stream, 1):
                found = SHARED.search(line)
                if found and layer != "tools":
                    failures.append("%s:%d: %s() changes what all threads share" % (path, number, found[1]))
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

# SPDX-License-Identifier: Apache-2.0
"""What every source file has: sources.py SOURCE

The license in its first lines; over 150 lines, a comment at the head that says what it does. Tests read the text of an error by a function, since
it is scrambled in one of the builds; the command makes errors by set_error(), which scrambles, too.
"""

import os
import re
import sys

LONG = 150
FOLDERS = ("include", "src", "tools", "python", "tests", "examples", "bench")
TEXT = re.compile(r"assert_\w+\(\w*err(\.|->)text\b")

MADE = re.compile(r"printf\(\w*err(\.|->)text\b")


def problems(path, text):
    lines = text.split("\n")
    if not any("SPDX-License-Identifier: Apache-2.0" in line for line in lines[:3]):
        yield "has no license in its first lines"
    if path.endswith((".c", ".h")) and not path.startswith("tests/"):
        code = [line for line in lines[1:] if line and not line.startswith("#") and not re.match(r'extern "C"', line)]
        if len(lines) > LONG and not code[0].startswith("/*"):
            yield "has more than %d lines, and no comment at its head that says what it does" % LONG
    if TEXT.search(text):
        yield "asks for the text of an error, which is scrambled in one of the builds: unit_text()"
    if path.startswith("tools/") and path != "tools/text.c" and MADE.search(text):
        yield "makes the text of an error by hand: set_error()"


def main():
    source, found, count = sys.argv[1], [], 0
    for folder, folders, names in (step for top in FOLDERS for step in os.walk(os.path.join(source, top))):
        folders[:] = [name for name in folders if name not in ("fixtures", "__pycache__") and not name.startswith(".")]
        for name in names:
            path = os.path.relpath(os.path.join(folder, name), source)
            if name.endswith((".c", ".h", ".py", ".sh", ".bash", ".bats")):
                count += 1
                with open(os.path.join(folder, name), encoding="utf-8") as stream:
                    found += ["%s %s" % (path, text) for text in problems(path, stream.read())]
    print("\n".join(found + ["%d files" % count]))
    return 1 if found or count < 500 else 0


sys.exit(main())

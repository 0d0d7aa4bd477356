# SPDX-License-Identifier: Apache-2.0
"""Every relative link in the documents leads to a file, and to a heading of it; every guide is in docs/guide/README.md; README is short."""

import glob
import os
import re
import sys

SOURCE = os.environ["CKPT_SOURCE_DIR"]
LINES = {"CONTRIBUTING.md": 250}   # at most; who wants to write more has a page below docs/
wrong = []


def read(path):
    with open(path, encoding="utf-8") as file:
        return file.read()


def headings(path):
    """As GitHub makes anchors of them."""
    text = re.sub(r"^```.*?^```", "", read(path), flags=re.M | re.S)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in re.findall(r"^#+ (.*?) *$", text, re.M)}


def check(page):
    text = re.sub(r"^```.*?^```|`[^`\n]*`", "", read(page), flags=re.M | re.S)
    for link in re.findall(r"\]\(([^)\s]+)\)", text):
        if re.match(r"\w+:", link):
            continue
        path, _, anchor = link.partition("#")
        target = os.path.normpath(os.path.join(os.path.dirname(page), path)) if path else page
        if not os.path.exists(target):
            wrong.append("%s: no file %s" % (os.path.relpath(page, SOURCE), link))
        elif anchor and anchor not in headings(target):
            wrong.append("%s: no heading %s" % (os.path.relpath(page, SOURCE), link))


def main():
    pages = [path for pattern in ("*.md", "docs/*.md", "docs/guide/*.md", "bench/*.md", "tests/*.md", "tests/*/*.md")
             for path in glob.glob(os.path.join(SOURCE, pattern))]
    for page in pages:
        check(page)
    listed = read(os.path.join(SOURCE, "docs", "guide", "README.md"))
    for page in glob.glob(os.path.join(SOURCE, "docs", "guide", "*.md")):
        name = os.path.basename(page)
        if name != "README.md" and "(%s)" % name not in listed:
            wrong.append("docs/guide/README.md does not list %s" % name)
    for name, most in LINES.items():
        path = os.path.join(SOURCE, name)
        count = read(path).count("\n") if os.path.exists(path) else 0
        if count > most:
            wrong.append("%s has %d lines, wanted %d at most" % (name, count, most))
    if wrong:
        sys.exit("\n".join(wrong))
    print("%d pages: all links lead somewhere" % len(pages))


main()

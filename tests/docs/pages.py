# SPDX-License-Identifier: Apache-2.0
"""Links lead to files and headings; README has every command, docs/guide/README.md every guide; pages that have to be short are."""

import glob
import os
import re
import subprocess
import sys

SOURCE = os.environ["CKPT_SOURCE_DIR"]
LINES = {"README.md": 220, "CONTRIBUTING.md": 250}   # at most; who wants to write more has a page below docs/
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


def commands():
    """The table of README, and `ckpt help`."""
    help_text = subprocess.run([os.environ["CKPT"], "help"], capture_output=True, text=True, check=True).stdout
    there = set(re.findall(r"^  ([a-z-]+)  ", help_text, re.M))
    table = re.findall(r"^\| (`ckpt .*?) \|", read(os.path.join(SOURCE, "README.md")), re.M)
    listed = {name.replace("ckpt ", "") for cell in table for name in re.findall(r"`(.*?)`", cell)}
    for name in sorted(there ^ listed):
        wrong.append("README.md %s 'ckpt %s'" % ("lacks" if name in there else "has no such command as", name))


def main():
    pages = [path for pattern in ("*.md", "docs/*.md", "docs/guide/*.md", "bench/*.md", "tests/*.md", "tests/*/*.md")
             for path in glob.glob(os.path.join(SOURCE, pattern))]
    for page in pages:
        check(page)
    commands()
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

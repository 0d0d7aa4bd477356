# SPDX-License-Identifier: Apache-2.0
"""Runs `ckpt scan --json`, and what its tests share."""

import json
import os
import shutil
import subprocess
import sys
import tempfile

CKPT = os.path.abspath(os.environ.get("CKPT", "ckpt"))
SANITIZED = os.environ.get("CKPT_SANITIZED") == "1"
SECONDS = 120
VERDICTS = ("plain", "needs-objects", "unreadable", "inconsistent", "dangerous")
FINE, FOUND, UNDECIDED = 0, 1, 2
EXIT = {"plain": FINE, "needs-objects": FINE, "unreadable": UNDECIDED, "inconsistent": FOUND, "dangerous": FOUND}


def run(*arguments):
    """(exit status, stdout, stderr); a crash ends the test."""
    done = subprocess.run(
        [CKPT, "scan", *arguments],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    if done.returncode not in (FINE, FOUND, UNDECIDED, 64):
        sys.exit("ckpt scan %s: exit status %d\n%s" % (" ".join(arguments)[:300], done.returncode, done.stderr[-3000:]))
    return done.returncode, done.stdout, done.stderr


def scan(*paths):
    """exit status, {path: what the document says of it}"""
    code, out, err = run("--json", "--", *paths)
    try:
        files = json.loads(out)["files"]
    except (ValueError, KeyError):
        sys.exit("ckpt scan --json %s: no document\n%s\n%s" % (" ".join(paths)[:300], out[:1000], err[-3000:]))
    return code, {one["path"]: one for one in files}


def worst_exit(found):
    codes = {EXIT[one["verdict"]] for one in found.values()}
    return FOUND if FOUND in codes else UNDECIDED if UNDECIDED in codes else FINE


SHORT = {"\\": "\\\\", "\n": "\\n", "\r": "\\r", "\t": "\\t"}


def shown(text):
    """As names are printed: escaped, and not without end."""
    return "".join(SHORT.get(c) or ("\\x%02x" % ord(c) if c < " " or c == "\x7f" else c) for c in text)[:250]


def names_of(one):
    return {entry["name"][:250] for entry in one["globals"]}


def left_out(found, names):
    """Of (module, name, offset), those that the list of globals does not have."""
    return {shown("%s.%s" % (module, name)) for module, name, _ in names} - names_of(found)


class Folder:
    """A temporary folder below CKPT_TEST_DIR."""

    def __init__(self, prefix):
        base = os.environ.get("CKPT_TEST_DIR")
        if base:
            os.makedirs(base, exist_ok=True)
        self.path = tempfile.mkdtemp(prefix=prefix + "-", dir=base)

    def __enter__(self):
        return self.path

    def __exit__(self, *_):
        shutil.rmtree(self.path)


class Count:
    def __init__(self):
        self.right, self.wrong = 0, []

    def expect(self, good, text):
        if good:
            self.right += 1
        else:
            self.wrong.append(text)

    def end(self):
        for text in self.wrong[:60]:
            print("FAIL " + text)
        print("%d right, %d wrong" % (self.right, len(self.wrong)))
        sys.exit(1 if self.wrong or not self.right else 0)

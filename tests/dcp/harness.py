# SPDX-License-Identifier: Apache-2.0
"""Runs ckpt on directories, within limits, and keeps the score."""

import os
import re
import resource
import subprocess

import dcp_read
from dcp_build import Tensor

CKPT = os.environ.get("CKPT", "ckpt")
SANITIZED = os.environ.get("CKPT_SANITIZED") == "1"
SECONDS = 60    # of a processor: a guard against runaway work
MEGABYTES = 512
LONG = os.environ.get("CKPT_TEST_LONG") == "1"  # scripts/test --all
REPORTS = ("AddressSanitizer", "runtime error:", "LeakSanitizer", "UndefinedBehavior")
MESSAGE = re.compile(r"ckpt: [^\n]+\n(?:hint: [^\n]+\n)*\Z")

CASES = []


def case(*numbers):
    """A case of the test plan; NUMBERS are those of its list."""
    def register(function):
        CASES.append((function.__name__, numbers, function))
        return function
    return register


def rounds(some, many):
    """MANY in a long run."""
    return many if LONG else some


class Failure(Exception):
    pass


def require(condition, text):
    if not condition:
        raise Failure(text)


def limit():
    if not SANITIZED:
        resource.setrlimit(resource.RLIMIT_AS, (MEGABYTES << 20, MEGABYTES << 20))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_CPU, (SECONDS, SECONDS))


def run(*arguments, cwd=None):
    """ckpt's exit status, output and messages; a crash or a report of a sanitizer is a failure."""
    done = subprocess.run([CKPT, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=280,
                          preexec_fn=limit, cwd=cwd)
    out, err = done.stdout.decode(errors="replace"), done.stderr.decode(errors="replace")
    require(done.returncode >= 0, "ended by signal %d: %s" % (-done.returncode, err[-300:]))
    require(not any(text in err for text in REPORTS), "sanitizer: " + err[:600])
    return done.returncode, out, err


def difference(wanted, found, where="object", inside=False):
    """What differs, or an empty text. Tensors are contiguous, but for those inside of tuples."""
    if isinstance(wanted, Tensor):
        if not isinstance(found, Tensor):
            return "%s: %r is no tensor" % (where, found)
        if wanted != found:
            return "%s: %r, not %r" % (where, found, wanted)
        if isinstance(wanted, dcp_read.View):
            same = (wanted.strides, wanted.location, wanted.flags) == (found.strides, found.location, found.flags)
            return "" if same else "%s: other strides, device or flags" % where
        if not inside and not found.contiguous():
            return "%s: strides %s, offset %d, storage of %d bytes" % (
                where, found.strides, found.offset, len(found.storage))
        return "" if inside or found.location == "cpu" else "%s: on %s" % (where, found.location)
    if type(wanted) is not type(found) and not isinstance(wanted, dcp_read.Unknown):
        return "%s: %s, not %s" % (where, type(found).__name__, type(wanted).__name__)
    if isinstance(wanted, dict):
        if list(wanted) != list(found):
            return "%s: keys %.200r, not %.200r" % (where, list(found), list(wanted))
        texts = (difference(wanted[key], found[key], "%s[%.40r]" % (where, key), inside) for key in wanted)
        return next(filter(None, texts), "")
    if isinstance(wanted, (list, tuple)):
        if len(wanted) != len(found):
            return "%s: %d parts, not %d" % (where, len(found), len(wanted))
        inside = inside or isinstance(wanted, tuple)
        texts = (difference(one, other, "%s[%d]" % (where, at), inside)
                 for at, (one, other) in enumerate(zip(wanted, found)))
        return next(filter(None, texts), "")
    return "" if wanted == found or repr(wanted) == repr(found) else "%s: %.200r, not %.200r" % (where, found, wanted)


NUMPY = ("float64", "float32", "float16", "int64", "int32", "int16", "int8", "uint8", "bool", "complex64", "complex128")


def some_tensors(wanted, most=2):
    """(exact name, tensor) of the first tensors in nested dicts that numpy has a dtype for."""
    found, left = [], [("", wanted)]
    while left and len(found) < most:
        name, value = left.pop(0)
        if isinstance(value, dict):
            left += [('%s["%s"]' % (name, key), item) for key, item in value.items()
                     if isinstance(key, str) and key.isidentifier() and key.isascii()]
        elif isinstance(value, Tensor) and value.dtype in NUMPY:
            found.append((name, value))
    return found


def tree(folder):
    """{path: (size, time)} of everything below a folder."""
    found = {}
    for path, folders, files in os.walk(folder):
        for name in folders + files:
            full = os.path.join(path, name)
            status = os.lstat(full)
            found[full] = (status.st_size, status.st_mtime_ns) if name in files else None
    return found


class Test:
    """The checks of one case, in a folder of its own."""

    def __init__(self, name, folder):
        self.name, self.folder = name, folder
        self.passed, self.failed, self.skipped = 0, [], []
        self.number = 0

    def path(self, name=None):
        """A new path in the folder, or one of this name."""
        if name is None:
            self.number += 1
            name = "n%d" % self.number
        return os.path.join(self.folder, name)

    def check(self, label, function, *arguments):
        """One check: it may raise."""
        try:
            function(*arguments)
            self.passed += 1
        except (Failure, AssertionError) as error:
            self.failed.append("%s: %s" % (label, str(error).replace("\n", " | ")[:400]))
        except subprocess.TimeoutExpired:
            self.failed.append("%s: did not end" % label)
        except Exception as error:
            self.failed.append("%s: %s: %s" % (label, type(error).__name__, str(error)[:300]))

    def skip(self, label):
        self.skipped.append(label)

    def merged(self, directory, *options, output=None):
        """What ckpt merges of a directory, read back."""
        output = output or self.path() + ".pt"
        status, _, err = run("merge", *options, directory, output)
        require(status == 0, "merge ended with %d: %s" % (status, err.strip()[:300]))
        return dcp_read.load(output)

    def merges(self, label, directory, wanted, *options):
        def check():
            output = self.path() + ".pt"
            text = difference(wanted, self.merged(directory, *options, output=output))
            require(not text, text)
            for name, tensor in some_tensors(wanted):
                self.shows(directory, output, name, tensor)
        self.check(label, check)

    def shows(self, directory, merged, name, tensor):
        """`ckpt cat` has the numbers of a directory's tensor, all of them and only the edges."""
        array = self.path() + ".npy"
        status, _, err = run("cat", "-q", "--no-sync", directory, name, "-o", array)
        require(status == 0, "cat of %s ended with %d: %s" % (name, status, err.strip()[:300]))
        with open(array, "rb") as stream:
            data = stream.read()
        os.unlink(array)
        require(data[10 + data[8] + 256 * data[9]:] == bytes(tensor.data), "cat of %s wrote other numbers" % name)
        texts = [run("cat", "-q", source, name) for source in (directory, merged)]
        require(texts[0][0] == 0 and texts[0] == texts[1], "cat of %s prints %r, wanted %r" % (name, *texts))

    def refuses(self, label, *arguments, names=(), output=None, statuses=(2,)):
        """Ends with 2 and one line that has all of NAMES; nothing is written beside what there was."""
        def check():
            before = tree(self.folder)
            status, _, err = run(*arguments)
            require(status in statuses, "ended with %d: %s" % (status, err.strip()[:200]))
            require(status == 64 or MESSAGE.match(err), "message: %r" % err[:300])
            for name in names:
                require(name in err, "%r is not in the message: %s" % (name, err.strip()[:300]))
            after = tree(self.folder)
            require(before == after, "changed: %s" % sorted(set(before.items()) ^ set(after.items()), key=str)[:4])
        self.check(label, check)

    def refuses_merge(self, label, directory, *names):
        self.refuses(label, "merge", directory, self.path() + ".pt", names=names or (os.path.basename(directory),))

    def survives(self, label, *arguments):
        """Any answer will do, in proper form."""
        def check():
            status, _, err = run(*arguments)
            require(status in (0, 1, 2), "ended with %d: %s" % (status, err.strip()[:200]))
            require(status != 2 or MESSAGE.match(err), "message: %r" % err[:300])
        self.check(label, check)

#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Wall time and peak memory of one command: peak.py [-o FILE] COMMAND [ARGUMENT...]

The peak is the resident set that the kernel reports for the finished process (ru_maxrss). A child
begins as a copy of this interpreter, so peaks below some 10 MiB cannot be told apart: floor().
Prints one line on stderr, or with -o writes 'SECONDS KIB CODE' to FILE. Exits as COMMAND did.
"""
import os
import sys
import time


def find(name):
    """The path of a command. Looked up before the clock starts, which os.execvp() would not do."""
    if "/" in name:
        return name
    for folder in os.environ.get("PATH", os.defpath).split(":"):
        path = os.path.join(folder, name)
        if os.access(path, os.X_OK):
            return path
    return name


def run_here(argv):
    """Run ARGV as a child of this process; returns (seconds, peak in KiB, exit code)."""
    path = find(argv[0])
    start = time.monotonic()
    pid = os.fork()
    if pid == 0:
        try:
            os.execv(path, argv)
        except OSError as error:
            os.write(2, ("peak.py: %s: %s\n" % (argv[0], error.strerror)).encode())
        os._exit(127)
    _, status, usage = os.wait4(pid, 0)
    code = -os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status)
    return time.monotonic() - start, usage.ru_maxrss, code


def run(argv, stdout=os.devnull):
    """The same from a small interpreter of its own, with ARGV's stdout to the file STDOUT."""
    import subprocess
    import tempfile

    with tempfile.NamedTemporaryFile("r") as report, open(stdout, "wb") as out:
        subprocess.run([sys.executable, "-I", "-S", os.path.abspath(__file__), "-o", report.name, *argv],
                       stdout=out, check=False)
        seconds, kib, code = report.read().split()
    return float(seconds), int(kib), int(code)


def floor():
    """The smallest peak, in KiB, that run() can report."""
    return run(["true"])[1]


def text(kib, least):
    """A peak in MiB, with a mark where it is hidden below the floor."""
    if kib <= least * 1.05:
        return "<%.0f" % (least * 1.05 / 1024 + 1)
    return "%.0f" % (kib / 1024)


def main():
    words = sys.argv[1:]
    report = None
    if len(words) > 1 and words[0] == "-o":
        report, words = words[1], words[2:]
    if not words:
        print(__doc__.strip(), file=sys.stderr)
        return 64
    seconds, kib, code = run_here(words)
    if report:
        with open(report, "w") as file:
            file.write("%.6f %d %d" % (seconds, kib, code))
    else:
        print("%.3f s, peak %.1f MiB" % (seconds, kib / 1024), file=sys.stderr)
    return code if code >= 0 else 128 - code


if __name__ == "__main__":
    sys.exit(main())

# SPDX-License-Identifier: Apache-2.0
"""kill -9 at random moments of an edit: nothing unreadable may be left. kill.py CKPT [KILLS]

Half of the runs edit in place, half write another file, some of them over one that is there. After each the file is
one of those that real torch was seen to load: the old one or the new one. CKPT_PYTHON and CKPT_TEST_DIR as for run.py.
"""

import hashlib
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))


def digest(path):
    with open(path, "rb") as stream:
        return hashlib.sha256(stream.read()).hexdigest()


def longest(command):
    """How long it takes unharmed, in seconds."""
    start = time.monotonic()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return time.monotonic() - start


def killed(command, moment):
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        process.wait(timeout=moment)
    except subprocess.TimeoutExpired:
        process.send_signal(signal.SIGKILL)
    return process.wait() == -signal.SIGKILL


class Runs:
    def __init__(self, ckpt, work):
        self.ckpt, self.work = ckpt, work
        self.states = {}        # digest: name of a copy
        self.killed = self.leftovers = 0

    def note(self, path):
        key = digest(path)
        if key not in self.states:
            self.states[key] = "states/%d.pt" % len(self.states)
            shutil.copy(path, os.path.join(self.work, self.states[key]))

    def in_place(self, source, moment):
        victim = os.path.join(self.work, "victim.pt")
        shutil.copy(source, victim)
        self.killed += killed([self.ckpt, "strip-module", "-i", victim], moment)
        self.note(victim)

    def to_another(self, source, moment, replace):
        folder = os.path.join(self.work, "out")
        shutil.rmtree(folder, ignore_errors=True)
        os.mkdir(folder)
        out = os.path.join(folder, "victim.pt")
        if replace:
            shutil.copy(source, out)
        self.killed += killed([self.ckpt, "strip-module", "-f", source, out], moment)
        for name in os.listdir(folder):
            if name == "victim.pt":
                self.note(out)
            else:
                self.leftovers += 1


def unreadable(commands, work, paths):
    """Those that some torch does not load as the old or the new checkpoint."""
    bad = []
    for command in commands:
        done = subprocess.run(command.split() + ["crash_files.py", "check"], cwd=work, input="\n".join(paths),
                              stdout=subprocess.PIPE, encoding="utf-8")
        said = dict(line.split("\t", 1) for line in done.stdout.splitlines() if "\t" in line)
        for path in paths:
            text = said.get(path, "no answer")
            if not text.startswith(("module.first module.layer", "first layer")):
                bad.append("%s: %s" % (path, text))
    return bad


def main():
    if not os.environ.get("CKPT_PYTHON"):
        print("skipped: CKPT_PYTHON is not set, no real torch to load the files")
        return 77
    commands = [part for part in os.environ["CKPT_PYTHON"].split(";") if part.strip()]
    count = int(sys.argv[2]) if len(sys.argv) > 2 else 300
    base = os.environ.get("CKPT_TEST_DIR") or "."
    os.makedirs(base, exist_ok=True)
    random.seed(count)
    with tempfile.TemporaryDirectory(prefix="kill-", dir=base) as work:
        os.chmod(work, 0o755)
        shutil.copy(os.path.join(HERE, "crash_files.py"), work)
        os.mkdir(os.path.join(work, "states"))
        subprocess.run(commands[-1].split() + ["crash_files.py", "make", "."], cwd=work, check=True,
                       stdout=subprocess.DEVNULL)
        runs, source = Runs(os.path.abspath(sys.argv[1]), work), os.path.join(work, "large.pt")
        once = os.path.join(work, "once.pt")
        shutil.copy(source, once)
        most = longest([runs.ckpt, "strip-module", "-i", once])
        run = 0
        while runs.killed < count and run < 20 * count:
            run += 1
            moment, before, start = random.random() * most, runs.killed, time.monotonic()
            if run % 2:
                runs.in_place(source, moment)
            else:
                runs.to_another(source, moment, run % 4 == 0)
            if runs.killed == before:  # the one that was measured may have waited for the disk
                most = min(most, 2 * (time.monotonic() - start))
        bad = unreadable(commands, work, list(runs.states.values()))
        for text in bad[:20]:
            print("FAIL " + text)
        print("%d runs, %d of them killed on the way, %d different files left, %d unreadable, %d hidden files "
              "left" % (run, runs.killed, len(runs.states), len(bad), runs.leftovers))
        return 1 if bad or runs.killed < count else 0


if __name__ == "__main__":
    sys.exit(main())

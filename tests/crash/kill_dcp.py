# SPDX-License-Identifier: Apache-2.0
"""Kill ckpt at random moments while it writes directories of shards: never a mixture.

    python3 tests/crash/kill_dcp.py CKPT [KILLS]

Splits, reshards, merges, edits and new indexes of a directory, with and without -f and -i, are killed (SIGKILL).
Afterwards the output is not there, or what it was before, or whole: told by merging it and comparing the bytes with
those of a run that was not killed. Inputs must not change. Work goes on in a new folder below CKPT_TEST_DIR, or else
the current one.
"""

import hashlib
import os
import pathlib
import random
import shutil
import subprocess
import sys
import tempfile
import time

KILLS = 300
FIXTURES = pathlib.Path(__file__).resolve().parent.parent / "fixtures" / "ddp"


def ckpt(*arguments):
    return subprocess.run([CKPT, *map(str, arguments)], capture_output=True, encoding="utf-8", check=False)


def content(path):
    """What a checkpoint holds: the bytes of its merged form; None if it is not there."""
    if not path.exists():
        return None
    with tempfile.TemporaryDirectory(dir=".") as folder:
        merged = os.path.join(folder, "merged.pt")      # one name: torch writes it into the file
        done = ckpt("merge" if path.is_dir() else "convert", path, merged)
        if done.returncode:
            return "broken: " + done.stderr
        return hashlib.sha256(pathlib.Path(merged).read_bytes()).hexdigest()


def files(path):
    return {str(p.relative_to(path)): hashlib.sha256(p.read_bytes()).hexdigest()
            for p in sorted(path.rglob("*")) if p.is_file()}


def run_for(arguments, seconds):
    process = subprocess.Popen([CKPT, *map(str, arguments)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        return process.wait(timeout=seconds)
    except subprocess.TimeoutExpired:
        process.kill()
        return process.wait()


class Case:
    def __init__(self, name, arguments, output, copy_of=None):
        self.name, self.arguments, self.output, self.copy_of = name, arguments, pathlib.Path(output), copy_of
        self.seen = {}
        self.prepare()
        self.before = content(self.output)
        start = time.monotonic()
        done = ckpt(*self.arguments)
        self.seconds = time.monotonic() - start
        if done.returncode:
            raise SystemExit("%s: %s" % (name, done.stderr))
        self.after = content(self.output)

    def prepare(self):
        """The output as it is before the command: not there, or a copy of something."""
        if self.output.is_dir():
            shutil.rmtree(self.output)
        elif self.output.exists():
            self.output.unlink()
        if self.copy_of:
            (shutil.copytree if os.path.isdir(self.copy_of) else shutil.copy)(self.copy_of, self.output)

    def kill(self):
        self.prepare()
        code = run_for(self.arguments, random.uniform(0, 1.2 * self.seconds))
        found = content(self.output)
        what = "before" if found == self.before else "after" if found == self.after else "broken"
        self.seen[what] = self.seen.get(what, 0) + 1
        if what == "broken" or (code == 0 and what != "after" and self.before != self.after):
            print("FAIL %s: %s (exit code %s)" % (self.name, found, code))
            return False
        return True


def cases():
    return [
        Case("split", ["split", "in.pt", "split", "--ranks", "3"], "split"),
        Case("split -f", ["split", "in.pt", "split-f", "--ranks", "3", "-f"], "split-f", "other"),
        Case("reshard", ["reshard", "shards", "reshard", "--ranks", "5"], "reshard"),
        Case("merge", ["merge", "shards", "merged.pt"], "merged.pt"),
        Case("merge -f", ["merge", "shards", "merged-f.pt", "-f"], "merged-f.pt", "small.pt"),
        Case("strip-module", ["strip-module", "shards", "stripped"], "stripped"),
        Case("strip-module -i", ["strip-module", "-i", "stripped-i"], "stripped-i", "shards"),
        Case("remap -i", ["remap", "-i", "cuda:0=cpu", "moved", "--if-present"], "moved", "shards"),
        Case("reindex", ["reindex", "shards", "reindexed"], "reindexed"),
        Case("reindex -i", ["reindex", "-i", "reindexed-i"], "reindexed-i", "shards"),
    ]


def main():
    global CKPT
    CKPT = os.path.abspath(sys.argv[1])
    kills = int(sys.argv[2]) if len(sys.argv) > 2 else KILLS
    base = os.environ.get("CKPT_TEST_DIR", ".")
    os.makedirs(base, exist_ok=True)
    work = tempfile.mkdtemp(prefix="kill-", dir=base)
    os.chdir(work)
    try:
        shutil.copy(FIXTURES / "ddp_trainer.pt", "in.pt")
        ckpt("extract", "model", "in.pt", "small.pt")
        ckpt("split", "in.pt", "shards", "--ranks", "4")
        ckpt("split", "small.pt", "other", "--ranks", "2")
        inputs = {name: files(pathlib.Path(name)) for name in ("shards", "other")}
        all_cases = cases()
        failed = sum(not all_cases[n % len(all_cases)].kill() for n in range(kills))
        for name, wanted in inputs.items():
            if files(pathlib.Path(name)) != wanted:
                print("FAIL the input %s was changed" % name)
                failed += 1
        for case in all_cases:
            print("%-18s %s" % (case.name, ", ".join("%s %d" % pair for pair in sorted(case.seen.items()))))
        print("%d kills, %d failed" % (kills, failed))
        return 1 if failed else 0
    finally:
        os.chdir("/")
        shutil.rmtree(work, ignore_errors=True)


sys.exit(main())

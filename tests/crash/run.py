# SPDX-License-Identifier: Apache-2.0
"""The machine stops in the middle of an edit in place: is the file the old checkpoint or the new one?

    CKPT_PYTHON='...' python3 tests/crash/run.py LOG_IN_PLACE [SUBSETS]

LOG_IN_PLACE (log_in_place.c) writes down what an edit writes and syncs. Between two syncs the disk may have any part of
the writes, torn at sectors of 512 bytes. For every such interval all prefixes and SUBSETS random parts (24, with CKPT_TEST_LONG=1 200) are
put together, and each generation of real torch loads them. The states of EDITED_AGAIN are edited once more, as somebody would
do who starts the job again: torch loads these, too, nothing may be left of the names that are not in the file, and it must not
have grown. CKPT_TEST_DIR: where to work.
"""

import hashlib
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
SECTOR = 512
LONG = os.environ.get("CKPT_TEST_LONG") == "1"
EDITS = ("strip", "remap", "drop")
EDITED_AGAIN = ("strip", "free")
OLD_NAME, NEW_NAME = b"\x0c\0\0\0module.first", b"\x05\0\0\0first"       # as they lie in the pickle
AGED = "aged_"          # a file that was edited in place twice before: the next edit finds room inside of it


class Hole(tuple):
    """A write of zeros, which does not make the file longer."""


def read_log(path):
    """[[(offset, bytes) or size, ...], ...]: what was done in every interval between syncs."""
    intervals = [[]]
    with open(path, "rb") as stream:
        while True:
            words = stream.readline().split()
            if not words:
                return [interval for interval in intervals if interval]
            if words[0] == b"write":
                intervals[-1].append((int(words[1]), stream.read(int(words[2]))))
            elif words[0] == b"hole":
                intervals[-1].append(Hole((int(words[1]), bytes(int(words[2])))))
            elif words[0] == b"cut":
                intervals[-1].append(int(words[1]))
            else:
                intervals.append([])


def sectors(interval):
    """The writes, torn."""
    pieces = []
    for entry in interval:
        if isinstance(entry, int):
            pieces.append(entry)
            continue
        offset, data = entry
        if isinstance(entry, Hole) and offset % SECTOR == 0:
            pieces += [Hole((at, bytes(SECTOR))) for at in range(offset, offset + len(data), SECTOR)]
            continue
        while data:
            room = SECTOR - offset % SECTOR
            pieces.append((offset, data[:room]))
            offset, data = offset + room, data[room:]
    return pieces


def apply(base, pieces):
    image = bytearray(base)
    for piece in pieces:
        if isinstance(piece, int):
            del image[piece:]
            continue
        offset, data = piece
        if isinstance(piece, Hole):
            data = data[: max(0, len(image) - offset)]
            if not data:
                continue
        image.extend(bytes(max(0, offset + len(data) - len(image))))
        image[offset:offset + len(data)] = data
    return bytes(image)


def states(old, intervals, subsets):
    """Everything that may be on the disk, each once."""
    seen, base = set(), old
    for interval in intervals:
        pieces = sectors(interval)
        step = max(1, len(pieces) // 100)
        parts = [pieces[:n] for n in range(0, len(pieces) + 1, step)] + [pieces]
        for _ in range(subsets):
            share = random.random()
            parts.append([piece for piece in pieces if random.random() < share])
        for part in parts:
            image = apply(base, part)
            digest = hashlib.sha256(image).digest()
            if digest not in seen:
                seen.add(digest)
                yield image
        base = apply(base, pieces)


class Loader:
    """One process of a torch, which loads whatever file it is told: to start it takes longer than to load hundreds."""

    def __init__(self, command, work):
        self.process = subprocess.Popen(command.split() + ["crash_files.py", "check"], cwd=work, stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, encoding="utf-8")

    def ask(self, path):
        try:
            self.process.stdin.write(path + "\n")
            self.process.stdin.flush()
        except BrokenPipeError:
            pass    # answer() has none

    def answer(self, path):
        """Of what was asked first."""
        for line in self.process.stdout:
            if line.startswith(path + "\t"):
                return line.rstrip("\n").split("\t", 1)[1]
        return "no answer"

    def close(self):
        self.process.stdin.close()
        self.process.wait()


def torches_say(loaders, paths):
    """[{path: what it says} for each of LOADERS], which work side by side."""
    said = [{} for _ in loaders]
    for path in paths:
        for loader in loaders:
            loader.ask(path)
        for loader, of_one in zip(loaders, said):
            of_one[path] = loader.answer(path)
    return said


def size_after(tool, work, source, edits):
    path = os.path.join(work, "again.pt")
    shutil.copy(source, path)
    for edit in edits:
        subprocess.run([tool, path, edit, os.path.join(work, "log")], check=True)
    return os.path.getsize(path)


def edit_again(tool, work, case, paths):
    """Edit each of PATHS; returns the results, and what is wrong with them."""
    name, edit = case
    source = os.path.join(work, name + ".pt")
    most = max(size_after(tool, work, source, edits) for edits in (["remap"], [edit, "remap"]))
    if name.startswith(AGED):       # where metadata were torn that lie inside of the file, their place is lost
        most += os.path.getsize(source) - os.path.getsize(source.replace(AGED, ""))
    again, failures, grown = [], [], 0
    for path in paths:
        again.append(path.replace(".pt", "_again.pt"))
        target = os.path.join(work, again[-1])
        shutil.copy(os.path.join(work, path), target)
        done = subprocess.run([tool, target, "remap", os.path.join(work, "log")], stderr=subprocess.PIPE, encoding="utf-8")
        if done.returncode:
            failures.append("%s, %s, %s: cannot be edited again: %s" % (name, edit, path, done.stderr))
            continue
        with open(target, "rb") as stream:
            image = stream.read()
        names = [text for text in (OLD_NAME, NEW_NAME) if text in image]
        if len(names) > 1 and not name.startswith(AGED):
            failures.append("%s, %s, %s: has names of two checkpoints" % (name, edit, path))
        grown += len(image) > most + 1024
    if grown:
        failures.append("%s, %s: %d of %d grew beyond %d bytes when they were edited again" % (name, edit, grown, len(paths), most))
    return again, failures


def check(tool, loaders, work, name, edit, subsets):
    """One edit of one file; returns how many states were looked at, and the failures."""
    source = os.path.join(work, name + ".pt")
    with open(source, "rb") as stream:
        old = stream.read()
    victim = os.path.join(work, "victim.pt")
    shutil.copy(source, victim)
    subprocess.run([tool, victim, edit, os.path.join(work, "log")], check=True)
    with open(victim, "rb") as stream:
        new = stream.read()
    intervals = read_log(os.path.join(work, "log"))
    if edit == "free":
        assert any(isinstance(entry, Hole) and entry[0] < len(new) for interval in intervals for entry in interval), "%s: gave nothing back" % name
    if name.startswith(AGED):
        assert any(isinstance(entry, int) for interval in intervals for entry in interval), "%s, %s: found no room" % (name, edit)
        assert len(new) < len(old), "%s, %s: grew from %d to %d bytes" % (name, edit, len(old), len(new))
    assert apply(old, [entry for interval in intervals for entry in interval]) == new
    folder = os.path.join(work, "states")
    shutil.rmtree(folder, ignore_errors=True)
    os.mkdir(folder)
    paths = []
    for image in states(old, intervals, subsets):
        paths.append("states/%d.pt" % len(paths))
        with open(os.path.join(work, paths[-1]), "wb") as stream:
            stream.write(image)
    failures = []
    if edit in EDITED_AGAIN and ("large" not in name or LONG):
        again, failures = edit_again(tool, work, (name, edit), paths)
        paths += again
    for said in torches_say(loaders, [name + ".pt", "victim.pt"] + paths):
        allowed = {said[name + ".pt"], said["victim.pt"]}
        if any(text.startswith("ERROR") or text == "no answer" for text in allowed):
            failures.append("%s, %s: %s" % (name, edit, allowed))
        if edit != "remap" and len(allowed) != 2:
            failures.append("%s, %s: the edit did nothing" % (name, edit))
        failures += ["%s, %s, %s: %s" % (name, edit, path, said[path]) for path in paths
                     if said[path] not in allowed]
    return len(paths), failures


def age(tool, work, name):
    """Two edits, after which it holds the same."""
    aged = os.path.join(work, AGED + name + ".pt")
    shutil.copy(os.path.join(work, name + ".pt"), aged)
    for edit in ("strip", "add"):
        subprocess.run([tool, aged, edit, os.path.join(work, "log")], check=True)


def main():
    if not os.environ.get("CKPT_PYTHON"):
        print("skipped: CKPT_PYTHON is not set, no real torch to load the files")
        return 77
    commands = [part for part in os.environ["CKPT_PYTHON"].split(";") if part.strip()]
    tool = os.path.abspath(sys.argv[1])
    subsets = int(sys.argv[2]) if len(sys.argv) > 2 else 200 if LONG else 24
    base = os.environ.get("CKPT_TEST_DIR") or "."
    os.makedirs(base, exist_ok=True)
    random.seed(1)
    looked, failures = 0, []
    with tempfile.TemporaryDirectory(prefix="crash-", dir=base) as work:
        os.chmod(work, 0o755)
        shutil.copy(os.path.join(HERE, "crash_files.py"), work)
        loaders = [Loader(command, work) for command in commands]
        for maker in (commands[-1], commands[0]):
            subprocess.run(maker.split() + ["crash_files.py", "make", "."], cwd=work, check=True,
                           stdout=subprocess.DEVNULL)
            for name in ("small", "large"):
                age(tool, work, name)
                cases = [(name, edit) for edit in EDITS]
                if maker == commands[-1]: # the large one has more of the same states
                    cases += [(AGED + name, edit) for edit in (("strip", "drop") if name == "small" else ("strip",))]
                    if name == "small":
                        cases.append(("wide", "free"))
                for case, edit in cases:
                    count, bad = check(tool, loaders, work, case, edit, subsets if case == name else subsets * 2 // 5)
                    looked += count
                    failures += bad
        for loader in loaders:
            loader.close()
    for text in failures[:40]:
        print("FAIL " + text)
    print("%d states, each loaded by %d torches, %d failures" % (looked, len(commands), len(failures)))
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())

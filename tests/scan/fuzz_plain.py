# SPDX-License-Identifier: Apache-2.0
"""What `ckpt scan` calls plain does nothing but make data, in real torch and CPython: fuzz_plain.py [COUNT] [FIRST SEED] [containers] [--only-newly-plain OLD_SCAN_MANY]

language.py makes programs, containers.py archives, streams and tars; scan_many reads them, and traced_load.py loads the plain ones, a thousand at a time in one process; where one of a batch does
more than it may, halves of it find out which. The rate of plain ones is said: were it below one in ten, little would be tried.

A seed makes the same file each time, and what loading it does depends on nothing that the scan says. So where these seeds were loaded without a finding for another build, only files that were not plain
for that one have to be loaded: --only-newly-plain takes its scan_many, and says how many these are. That the generator and the torches are those of then is for the caller to see to: a hash of all files
is printed.
"""

import argparse
import glob
import hashlib
import os
import re
import shutil
import struct
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import assemble  # noqa: E402
import containers  # noqa: E402
import language  # noqa: E402
from assemble import files  # noqa: E402

HERE = os.path.dirname(os.path.abspath(__file__))
BATCH, LOADS, MOST_FINDINGS, FEW = 4000, 4000, 10, 40
ENOUGH = 40000  # programs, of which some that are plain have each name of the table
PLAIN = 0
NAMES = {language.BARE: 1, containers.ROW: 2}  # of scan_many: "a.pkl", "a.distcp"; others are "a.pt"
LEAST_PLAIN = 0.1
UNSET = "numbers that are not in the file"
NEEDS_AN_OBJECT = {"torch._utils._rebuild_wrapper_subclass"}  # beside it


def rows():
    """The names of the table, as the source has it."""
    return {"%s.%s" % pair for pair in re.findall(r'^\t(?:(?:HEAVY_)?(?:FUNC|TYPE)\(|NAME\(|\{ )"([\w.]*)", "([\w.]+)"', language.TABLE, re.M)}


def allowed_names():
    """... and what else may be named."""
    names = rows()
    for array, module in (("return_types", "torch.return_types"), ("exceptions", "builtins")):
        names |= {"%s.%s" % (module, name) for name in language.names_in(array)}
    kinds = "Float Double Half BFloat16 Long Int Short Char Byte Bool ComplexFloat ComplexDouble QInt8 QUInt8 QInt32 QUInt4x2 QUInt2x4 ComplexHalf".split()
    names |= {"torch.%sStorage" % kind for kind in kinds} | {"torch.%sTensor" % kind for kind in kinds} | {"torch.Storage"}
    names |= {"torch." + n for n in "float16 float32 float64 bfloat16 int8 int16 int32 int64 uint8 bool complex64 complex128 half float double long int short".split()}
    names |= {"builtins.getattr", "numpy._core.multiarray._reconstruct", "numpy._core.multiarray.scalar", "numpy._core.numeric._frombuffer"}
    names |= {name.replace("pathlib.", "pathlib._local.") for name in names if name.startswith("pathlib.")}  # of Python 3.13
    old = {name[9:] for name in names if name.startswith("builtins.")}
    return names | {module + "." + name for module in ("__builtin__", "exceptions") for name in old}


def verdicts(samples, work, scan_many=None):
    stream = b"".join(struct.pack("<IB", len(data), NAMES.get(kind, 0)) + data for data, kind in samples)
    done = subprocess.run([scan_many or os.environ["CKPT_SCAN_MANY"], work], input=stream, stdout=subprocess.PIPE, check=True)
    if len(done.stdout) != len(samples):
        raise RuntimeError("%d verdicts of %d" % (len(done.stdout), len(samples)))
    return done.stdout


def loaded(command, work, samples, free, *words):
    """What loading SAMPLES told where free memory has the byte FREE: lines, and the sum of all numbers."""
    stream = b"".join(b"%s %d\n" % (kind.encode(), len(data)) + data for data, kind in samples)
    # what would be made would be made in here
    done = subprocess.run(command.split() + ["traced_load.py", "names.txt", "free=" + free, *words], cwd=work, input=stream, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=False)
    lines = done.stdout.decode(errors="replace").splitlines()
    told = [line for line in lines if not line.startswith(("at ", "done ", "numbers "))]
    if "done %d" % len(samples) not in lines:
        told.append("ended with status %d behind '%s'" % (done.returncode, lines[-1] if lines else ""))
    return told, [line for line in lines if line.startswith("numbers ")]


def tripped(command, work, samples, *words):
    """What loading SAMPLES told, and '' if that is nothing. Numbers that depend on what was in free memory are not the file's."""
    told, numbers = loaded(command, work, samples, "85", *words)
    if not told and loaded(command, work, samples, "170", "unused") != (told, numbers):
        told = ["other numbers where other bytes are in free memory"]
    return "\n".join(told)


def find(command, work, samples):
    """The samples that trip by themselves, with what they tell: those that are named, else by halves; the batch if none does."""
    told = tripped(command, work, samples)
    if not told:
        return []
    if all(line.startswith("changed ") for line in told.splitlines()):  # by loading it, or by what it takes to show it?
        told = tripped(command, work, samples, "unused")
        if not told:
            return []
    if len(samples) == 1:
        return [(samples[0], told)]
    named = {int(n) for pair in re.findall(r"(?m)^more (\d+) |behind 'at (\d+)'", told) for n in pair if n}
    alone = {n: find(command, work, [samples[n]]) for n in sorted(named)[:MOST_FINDINGS] if n < len(samples)}
    found = [one for several in alone.values() for one in several]
    if found:
        return found + find(command, work, [one for n, one in enumerate(samples) if not alone.get(n)])
    half = len(samples) // 2
    found = find(command, work, samples[:half]) + find(command, work, samples[half:])
    if not found and len(samples) <= FEW:  # of one process: in the order that they were in
        print("\n".join("%s %s" % (kind, data.hex()) for data, kind in samples))
    return found or [((b"", "%d together" % len(samples)), told)]


def blind(commands, work):
    """Where loads that do more than they may are not noticed, this fuzzer finds nothing: a function is called, a tensor has numbers that are not in the file, and `True` takes the place of `1`. Of None nothing is told."""
    unset = files.glob("torch", "FloatStorage") + b"K\x40\x85R"
    tensor = files.glob("torch._utils", "_rebuild_tensor") + b"(" + unset + b"K\x00(K\x40t(K\x01ttR"
    samples = {"a call of a function": language.CANARY, "a key that is there": b"\x80\x02}(K\x01NI01\nNu.", "a number that Python reads, and its unpickler in C does not": b"\x80\x02F1_0\n.",
               UNSET: b"\x80\x02" + tensor + b".", "None": b"\x80\x02N."}
    batch = [(data, language.BARE) for data in samples.values()]
    wrong = []
    for command in commands:
        (told, numbers), (_, others) = loaded(command, work, batch, "85"), loaded(command, work, batch, "170", "unused")
        for number, what in enumerate(samples):
            noticed = any(line.startswith("more %d " % number) for line in told) or (what == UNSET and numbers != others)
            if noticed == (what == "None"):
                wrong.append("%s %s: %s" % (command, "tells of None" if noticed else "does not notice " + what, " / ".join(told)[:300]))
    return wrong


def never_plain(names, samples):
    """Of NAMES, those that are in none of the plain SAMPLES."""
    everything = b"\0".join(data for data, _ in samples)
    spelled = {name: name.rsplit(".", 1) if not name.startswith("torch._utils.torch.") else ("torch._utils", name[13:]) for name in names}
    return {name for name, (module, last) in spelled.items() if files.glob(module, last) not in everything and assemble.named(module, last) not in everything}


class Loads:
    """Plain programs, to be loaded when there are enough of them."""

    def __init__(self, commands, work):
        self.commands, self.work, self.waiting, self.done, self.findings = commands, work, [], 0, []

    def add(self, samples, at_end):
        self.waiting += samples
        while len(self.waiting) >= LOADS or (at_end and self.waiting):
            batch, self.waiting = self.waiting[:LOADS], self.waiting[LOADS:]
            self.done += len(batch)
            for command in self.commands:
                for one in find(command, self.work, batch):
                    self.findings.append((command, *one))
                    print("%s, %s: %s\n%s" % (command, one[0][1], one[1], one[0][0].hex()), flush=True)


class Sums:
    """What was seen of all files: how many are plain, now and for the build before, and a hash of them."""

    def __init__(self):
        self.plain, self.old_plain, self.files = 0, 0, hashlib.sha256()

    def add(self, samples, now, old):
        self.plain += now.count(PLAIN)
        self.old_plain += old.count(PLAIN)
        for data, kind in samples:
            self.files.update(struct.pack("<IB", len(data), NAMES.get(kind, 0)) + data)


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("count", type=int, nargs="?", default=20000)
    parser.add_argument("first", type=int, nargs="?", default=1)
    parser.add_argument("kind", nargs="?", default="programs", choices=("programs", "containers"))
    parser.add_argument("--only-newly-plain", metavar="OLD_SCAN_MANY")
    return parser.parse_args()


def main():
    if not os.environ.get("CKPT_SCAN_MANY") or not os.environ.get("CKPT_PYTHON"):
        print("skipped: CKPT_SCAN_MANY or CKPT_PYTHON is not set, no real torch to load with")
        return 77
    wanted = arguments()
    count, first, old_scan_many = wanted.count, wanted.first, wanted.only_newly_plain
    make = containers.make if wanted.kind == "containers" else language.make
    base = os.environ.get("CKPT_TEST_DIR") or "."
    os.makedirs(base, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="language-", dir=base) as work:
        os.chmod(work, 0o755)
        for script in glob.glob(os.path.join(HERE, "*.py")):
            shutil.copy(script, work)
        with open(os.path.join(work, "names.txt"), "w", encoding="utf-8") as names:
            names.write("\n".join(sorted(allowed_names())))
        commands = os.environ["CKPT_PYTHON"].split(";")
        unnoticed = blind(commands, work)
        if unnoticed:
            print("\n".join(unnoticed))
            return 1
        loads, sums, missed = Loads(commands, work), Sums(), rows() - NEEDS_AN_OBJECT if wanted.kind == "programs" else set()
        for start in range(first, first + count, BATCH):
            samples = [make(seed) for seed in range(start, min(start + BATCH, first + count))]
            now = verdicts(samples, work)
            old = verdicts(samples, work, old_scan_many) if old_scan_many else b""
            sums.add(samples, now, old)
            missed = never_plain(missed, [s for i, s in enumerate(samples) if now[i] == PLAIN])
            chosen = [s for i, s in enumerate(samples) if now[i] == PLAIN and (not old or old[i] != PLAIN)]
            loads.add(chosen, start + BATCH >= first + count)
            if len(loads.findings) >= MOST_FINDINGS:
                count = min(start + BATCH - first, count)
                break
    share = sums.plain / count
    if old_scan_many:
        print("%d files from seed %d (sha256 %s), %d of them plain for the build before, %d for this one, %d newly and loaded by %d torches, %d findings"
              % (count, first, sums.files.hexdigest()[:16], sums.old_plain, sums.plain, loads.done, len(loads.commands), len(loads.findings)))
    else:
        print("%d files from seed %d, %d of them plain (%.1f%%) and loaded by %d torches, %d findings" % (count, first, loads.done, 100 * share, len(loads.commands), len(loads.findings)))
    if share < LEAST_PLAIN:
        print("fewer than one in ten are plain: little was tried")
    if missed and count >= ENOUGH:
        print("no plain program has %s: they were not tried" % ", ".join(sorted(missed)))
        return 1
    return 1 if loads.findings or share < LEAST_PLAIN else 0


if __name__ == "__main__":
    sys.exit(main())

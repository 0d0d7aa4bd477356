#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Measure ckpt side by side with cp and torch. The rules are in README.md, beside this file."""
import argparse
import filecmp
import json
import math
import os
import platform
import shlex
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

sys.dont_write_bytecode = True  # this folder stays as it is
import peak  # noqa: E402
import throttle  # noqa: E402

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.append(os.path.join(os.path.dirname(HERE), "tests", "broadcast"))
MIB = 1024  # KiB
CASES = ("sync", "nosync", "torch", "small", "storages", "look", "scale", "legacy", "verify", "stat", "scan", "diff", "memory",
         "remap", "safetensors", "cast", "dequantize", "average", "inplace", "reflink", "merge", "zero", "split", "split-safetensors", "dcp-large",
         "broadcast", "broadcast-hosts", "broadcast-transports", "broadcast-memory", "throttled")
RANKS = 8  # of the directories of shards
UNDO = {"strip-module": ["add-module"], "remap": ["remap", "--all", "cpu"]}


def fail(text):
    print("bench: " + text, file=sys.stderr)
    sys.exit(2)


def parse_size(text):
    """'4G' -> bytes."""
    units = {"K": 10, "M": 20, "G": 30, "T": 40}
    number, unit = (text[:-1], text[-1].upper()) if text[-1:].isalpha() else (text, "")
    try:
        return int(float(number) * 2 ** (units[unit] if unit else 0))
    except (ValueError, KeyError):
        raise argparse.ArgumentTypeError("'%s' is no size (64M, 4G)" % text) from None


def size_text(nbytes):
    for unit, shift in (("GiB", 30), ("MiB", 20), ("KiB", 10)):
        if nbytes >= 1 << shift:
            return "%.4g %s" % (nbytes / (1 << shift), unit)
    return "%d B" % nbytes


def time_text(seconds):
    return "%.1f ms" % (seconds * 1e3) if abs(seconds) < 1 else "%.2f s" % seconds


def files_of(path):
    """The file, or all files below the directory."""
    if not os.path.isdir(path):
        return [path]
    return [os.path.join(folder, name) for folder, _, names in os.walk(path) for name in names]


def touch_free_memory(nbytes):
    """Virtual machines hand memory back to their host some seconds after it was freed, and get it page
    by page again, which takes longer than any copy. So all that a run may need is in use right before."""
    if nbytes < 1 << 30:
        return
    with open("/proc/meminfo", encoding="ascii") as file:
        free = next(int(line.split()[1]) << 10 for line in file if line.startswith("MemFree:"))
    nbytes = min(nbytes, free * 9 // 10)
    subprocess.run([sys.executable, "-c", "b'x' * %d" % nbytes], check=True)


class Torch:
    """The last interpreter of CKPT_PYTHON. It may see nothing but its working folder."""

    def __init__(self, folder):
        commands = [c for c in os.environ.get("CKPT_PYTHON", "python3").split(";") if c.strip()]
        self.folder = folder
        self.command = shlex.split(commands[-1]) if commands else ["python3"]
        if "/" in self.command[0]:
            self.command[0] = os.path.abspath(self.command[0])

    def run(self, script, *words):
        shutil.copy(os.path.join(HERE, script), self.folder)
        done = subprocess.run(
            self.command + [script, *map(str, words)], cwd=self.folder, stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, check=False, text=True,
        )
        os.unlink(os.path.join(self.folder, script))
        if done.returncode:
            fail("%s %s failed (set CKPT_PYTHON to a python that has torch)" % (
                shlex.join(self.command), script))
        return done.stdout

    def version(self):
        code = "import torch; print(str(torch.__version__).split('+')[0])"
        done = subprocess.run(self.command + ["-c", code], cwd=self.folder, check=False, text=True,
                              stdin=subprocess.DEVNULL, capture_output=True)
        return done.stdout.strip() if done.returncode == 0 else None


class Table:
    """Rows of a plain table, printed as they come."""

    HEAD = ("what", "ckpt", "against", "its time", "ratio (spread)", "peak MiB", "its peak", "goal", "")
    WIDTH = (39, 9, 18, 9, 28, 8, 8, 20, 7)

    def __init__(self):
        self.missed = 0

    def line(self, cells):
        print(" ".join(str(c).ljust(w) for c, w in zip(cells, self.WIDTH)).rstrip(), flush=True)

    def head(self):
        self.line(self.HEAD)
        self.line(["-" * w for w in self.WIDTH])

    def row(self, cells, goal="", met=None):
        verdict = "" if met is None else "met" if met else "NOT MET"
        self.missed += met is False
        self.line([*cells, goal, verdict])


class Series:
    """The runs of one contender."""

    def __init__(self, seconds, kib):
        self.seconds = seconds
        self.kib = max(kib)
        self.median = statistics.median(seconds)


class Bench:
    def __init__(self, options):
        self.options = options
        self.ckpt = os.path.abspath(options.ckpt)
        self.folder = os.path.abspath(options.dir)
        os.makedirs(self.folder, exist_ok=True)
        self.torch = Torch(self.folder)
        self.torch_version = self.torch.version()
        self.table = Table()
        self.floor = peak.floor()
        self.out = os.path.join(self.folder, "out")

    # -- inputs

    def input(self, kind, *sizes, suffix=".pt"):
        """A file to measure with, made at its first use and kept."""
        name = "-".join([kind, *map(str, sizes)]) + suffix
        path = os.path.join(self.folder, name)
        if not os.path.exists(path):
            if self.torch_version is None:
                fail("no torch to make '%s' with: set CKPT_PYTHON to a python that has it" % name)
            print("bench: making %s" % name, file=sys.stderr, flush=True)
            self.torch.run("generate.py", kind, name, *sizes)
        return path

    def directory(self, kind, *sizes):
        """A directory of shards, made without torch."""
        path = os.path.join(self.folder, "-".join(["dcp", kind, *map(str, sizes)]))
        if not os.path.exists(path):
            print("bench: making %s" % os.path.basename(path), file=sys.stderr, flush=True)
            subprocess.run([sys.executable, os.path.join(HERE, "generate_dcp.py"), kind, path, *map(str, sizes)],
                           check=True)
        return path

    def big(self):
        return self.input("big", self.options.size, 128)

    def small(self, count):
        return self.input("small", count)

    # -- runs

    def clean(self):
        shutil.rmtree(self.out, ignore_errors=True)

    def prepare(self, source, writes=True, room=None):
        """The same state before every run: no output, nothing left to write back, input in memory, and
        memory for what is to come where the run writes: ROOM bytes, or two and a half times the input."""
        self.clean()
        os.makedirs(self.out)
        os.sync()
        block = bytearray(8 << 20)
        for path in files_of(source):
            with open(path, "rb", buffering=0) as file:
                while file.readinto(block):
                    pass
        if writes:
            touch_free_memory(room or 5 * sum(map(os.path.getsize, files_of(source))) // 2)

    def command(self, *argv):
        """A contender that runs ARGV."""
        def run():
            seconds, kib, code = peak.run(list(argv), stdout=os.path.join(self.out, "stdout"))
            if code:
                fail("exit %d: %s" % (code, shlex.join(argv)))
            return seconds, kib
        return run

    def strip(self, source, *flags):
        return self.command(self.ckpt, "strip-module", *flags, source, os.path.join(self.out, "ckpt.pt"))

    def copy(self, source):
        return self.command("cp", source, os.path.join(self.out, "cp.pt"))

    def copy_sync(self, source):
        return self.command("sh", "-c", 'cp "$1" "$2" && sync "$2"', "sh", source,
                            os.path.join(self.out, "cp.pt"))

    def torch_run(self, script, *words):
        """A contender that is a script with torch; it tells its time itself."""
        def run():
            facts = json.loads(self.torch.run(script, *words))
            if "error" in facts:
                return None
            return facts["seconds"], facts["kib"]
        return run

    def torch_strip(self, source, *flags):
        return self.torch_run("torch_strip.py", os.path.basename(source), "out/torch.pt", *flags)

    def torch_says(self, *words):
        """What torch_dcp.py finds out about results; None if it cannot."""
        facts = json.loads(self.torch.run("torch_dcp.py", *words))
        if "error" in facts:
            print("left out: " + facts["error"])
        return facts.get("same")

    def series(self, source, *contenders, writes=True, room=None):
        """Interleaved runs, who begins changes from round to round, the first round dropped."""
        results = [[] for _ in contenders]
        for number in range(self.options.runs):
            turn = list(range(len(contenders)))
            for i in turn[number % len(turn):] + turn[:number % len(turn)]:
                self.prepare(source, writes, room)
                results[i].append(contenders[i]())
        self.clean()
        return [None if None in r else Series(*zip(*r[1:])) for r in results]

    # -- rows

    def ratio_row(self, what, ours, against, other, goal="", met=None, inverse=False):
        """OURS beside OTHER; the ratio is the median over the pairs, the spread their extremes."""
        pairs = [a / b for a, b in zip(ours.seconds, other.seconds)]
        if inverse:
            pairs = [1 / p for p in pairs]
        middle = statistics.median(pairs)
        self.table.row(
            (what, time_text(ours.median), against, time_text(other.median),
             "%.2f%s (%.2f to %.2f)" % (middle, " x faster" if inverse else "", min(pairs), max(pairs)),
             peak.text(ours.kib, self.floor), peak.text(other.kib, self.floor)),
            goal, None if met is None else met(middle))

    def peak_row(self, what, kib, limit):
        self.table.row((what, "", "", "", "", peak.text(kib, self.floor), ""),
                       "peak <= %d MiB" % limit, kib <= limit * MIB)

    def time_row(self, what, ours, limit=None):
        """Without anything beside it."""
        self.table.row((what, time_text(ours.median), "", "",
                        "(%s to %s)" % (time_text(min(ours.seconds)), time_text(max(ours.seconds))),
                        peak.text(ours.kib, self.floor), ""),
                       "< %s" % time_text(limit) if limit else "", ours.median < limit if limit else None)

    # -- cases

    def case_sync(self):
        source = self.big()
        ours, other = self.series(source, self.strip(source), self.copy_sync(source))
        self.ratio_row("strip-module " + size_text(self.options.size), ours, "cp + sync FILE", other,
                       "ratio <= 1.10", lambda r: r <= 1.10)
        self.peak_row("  its memory", ours.kib, 64)

    def case_nosync(self):
        source = self.big()
        ours, other = self.series(source, self.strip(source, "--no-sync"), self.copy(source))
        self.ratio_row("strip-module --no-sync " + size_text(self.options.size), ours, "cp", other,
                       "ratio <= 1.10", lambda r: r <= 1.10)
        self.peak_row("  its memory", ours.kib, 64)

    def case_torch(self):
        if self.torch_version is None:
            print("torch: left out, no torch here (CKPT_PYTHON)")
            return
        source = self.big()
        ours, plain, mapped = self.series(source, self.strip(source, "--no-sync"),
                                          self.torch_strip(source), self.torch_strip(source, "mmap"))
        name = "strip-module --no-sync " + size_text(self.options.size)
        self.ratio_row(name, ours, "torch load+save", plain, ">= 5 x faster",
                       lambda r: r >= 5, inverse=True)
        if mapped is None:
            print("torch load(mmap)+save: left out, torch %s has no mmap" % self.torch_version)
        else:
            self.ratio_row(name, ours, "torch mmap+save", mapped, ">= 1 x faster",
                           lambda r: r >= 1, inverse=True)
        self.same_row(source)
        self.same_row(self.small(self.options.small))

    def same_row(self, source):
        """The output is the file that torch writes, byte for byte."""
        self.prepare(source)
        os.makedirs(os.path.join(self.out, "a"))
        ours, theirs = os.path.join(self.out, "a", "torch.pt"), os.path.join(self.out, "torch.pt")
        self.command(self.ckpt, "strip-module", source, ours)()
        self.torch_strip(source)()
        same = filecmp.cmp(ours, theirs, shallow=False)
        self.clean()
        self.table.row((os.path.basename(source), "", "torch load+save", "", "", "", ""),
                       "the same bytes", same)

    def excess_row(self, what, count, ours, against, other):
        """OURS beside a copy, and the time above that for every 100,000 tensors."""
        per = [(a - b) * 1e5 / count for a, b in zip(ours.seconds, other.seconds)]
        middle = statistics.median(per)
        self.ratio_row(what, ours, against, other)
        self.table.row(("  above it, for every 100,000 of them", time_text(middle), "", "",
                        "(%.2f s to %.2f s)" % (min(per), max(per)), "", ""),
                       "<= 0.5 s", middle <= 0.5)

    def case_small(self):
        most = self.options.small
        each = {}
        for count in (most // 4, most // 2, most):
            source = self.small(count)
            name = "strip-module %d tensors" % count
            ours, other = self.series(source, self.strip(source), self.copy_sync(source))
            self.excess_row(name, count, ours, "cp + sync FILE", other)
            self.peak_row("  its memory", ours.kib, 256)
            ours, other = self.series(source, self.strip(source, "--no-sync"), self.copy(source))
            self.excess_row(name + " --no-sync", count, ours, "cp", other)
            each[count] = ours.median / count
        growth = each[most] / each[most // 4]
        self.table.row(("linear: --no-sync, time per tensor", "", "%d : %d" % (most, most // 4), "",
                        "%.2f" % growth, "", ""), "ratio <= 1.25", growth <= 1.25)

    def case_storages(self):
        count, nbytes = self.options.storages, 16384
        source = self.input("storages", count, nbytes)
        name = "strip-module %d storages" % count
        ours, other = self.series(source, self.strip(source), self.copy_sync(source))
        self.excess_row(name, count, ours, "cp + sync FILE", other)
        ours, other = self.series(source, self.strip(source, "--no-sync"), self.copy(source))
        self.excess_row(name + " --no-sync", count, ours, "cp", other)
        self.peak_row("  its memory", ours.kib, 64)

    def case_look(self):
        files = ((size_text(self.options.size), self.big(), 0.020),
                 ("%d tensors" % self.options.small, self.small(self.options.small), 1.0))
        for text, source, limit in files:
            for verb in ("ls", "info"):
                contenders = [self.command(self.ckpt, verb, source)]
                if shutil.which("unzip"):
                    contenders.append(self.command("unzip", "-l", source))
                ours, *other = self.series(source, *contenders)
                goal = "< %s" % time_text(limit)
                name = "%s %s" % (verb, text)
                if other:
                    self.ratio_row(name, ours, "unzip -l", other[0], goal, lambda _: ours.median < limit)
                else:
                    self.table.row((name, time_text(ours.median), "", "", "",
                                    peak.text(ours.kib, self.floor), ""), goal, ours.median < limit)

    def case_scale(self):
        """A million tensors of one number, or as many as --many says: the goals are of a million."""
        count, other = self.options.many, os.path.join(self.out, "other.pt")
        source = self.input("storages", count, 4)
        for what, argv, limit, most in (("ls", ["ls", source], 2.4, 573), ("convert --no-sync", ["convert", "--no-sync", source, other], 2.1, 768),
                                        ("diff, with itself", ["diff", source, source], 4.5, 1229)):
            (ours,) = self.series(source, self.command(self.ckpt, *argv))
            share = count / 1e6
            self.time_row("%s %d tensors" % (what, count), ours, limit * share)
            self.peak_row("  its memory, %d bytes a tensor" % (ours.kib * 1024 // count), ours.kib, math.ceil(most * share))

    def case_legacy(self):
        """The form of torch up to 1.5 has no checksums: to make a zip of it, all bytes have to be looked at."""
        source = self.input("legacy", self.options.size, 128)
        name, target = size_text(self.options.size), os.path.join(self.out, "ckpt.pt")
        (ours,) = self.series(source, self.command(self.ckpt, "ls", source))
        self.time_row("ls of legacy " + name, ours, 0.050)
        ours, other = self.series(source, self.command(self.ckpt, "convert", "--no-sync", source, target),
                                  self.copy(source))
        self.ratio_row("convert --no-sync legacy " + name, ours, "cp", other, "ratio <= 1.30", lambda r: r <= 1.3)
        self.peak_row("  its memory", ours.kib, 64)
        ours, other = self.series(source, self.command(self.ckpt, "convert", source, target), self.copy_sync(source))
        self.ratio_row("convert legacy " + name, ours, "cp + sync FILE", other, "ratio <= 1.30", lambda r: r <= 1.3)

    def case_verify(self):
        """The bytes have to be read, which cat does, and looked at."""
        source = self.big()
        contenders = [self.command(self.ckpt, "verify", source), self.command("sh", "-c", 'cat "$1" >/dev/null', "sh", source),
                      self.command(self.ckpt, "verify", "--check-finite", source)]
        if shutil.which("unzip"):
            contenders.append(self.command("unzip", "-tqq", source))
        ours, cat, finite, *unzip = self.series(source, *contenders)
        name = "verify " + size_text(self.options.size)
        self.ratio_row(name, ours, "cat >/dev/null", cat, "ratio <= 1.11", lambda r: r <= 1 / 0.9)
        self.peak_row("  its memory", ours.kib, 64)
        self.ratio_row("verify --check-finite " + size_text(self.options.size), finite, "cat >/dev/null", cat)
        if unzip:
            self.ratio_row(name, ours, "unzip -t", unzip[0], ">= 5 x faster", lambda r: r >= 5, inverse=True)

    def case_stat(self):
        """The bytes have to be read, which cat does, and counted."""
        for kind, dtype in (("big", "float32"), ("bfloat16", "bfloat16")):
            source = self.input(kind, self.options.size, 128)
            contenders = [self.command(self.ckpt, "stat", source), self.command("sh", "-c", 'cat "$1" >/dev/null', "sh", source)]
            if self.torch_version:
                contenders.append(self.torch_run("torch_stat.py", os.path.basename(source)))
            ours, cat, *other = self.series(source, *contenders)
            name = "stat %s %s" % (dtype, size_text(self.options.size))
            self.ratio_row(name, ours, "cat >/dev/null", cat, "ratio <= 2.00", lambda r: r <= 2)
            self.peak_row("  its memory", ours.kib, 64)
            if other:
                self.ratio_row(name, ours, "torch load, count", other[0], inverse=True)

    def files(self, *sizes):
        """A folder of files that torch made."""
        name = "-".join(["many", *map(str, sizes)])
        path = os.path.join(self.folder, name)
        if not os.path.exists(path):
            if self.torch_version is None:
                fail("no torch to make '%s' with: set CKPT_PYTHON to a python that has it" % name)
            print("bench: making %s" % name, file=sys.stderr, flush=True)
            self.torch.run("generate.py", "many", name, *sizes)
        return path

    def case_scan(self):
        """Against what only lists the opcodes of the pickles, and reads all bytes for their checksums."""
        source = self.files(1 << 20, 16, 1000)
        ours, theirs = self.series(source, self.command(self.ckpt, "scan", source),
                                   self.command(sys.executable, os.path.join(HERE, "scan_python.py"), source))
        self.ratio_row("scan 1000 files of 1 MiB", ours, "zipfile, genops", theirs, ">= 4 x faster", lambda r: r >= 4, inverse=True)
        self.time_row("  its time", ours, 5)
        self.peak_row("  its memory", ours.kib, 64)
        if os.environ.get("CKPT_OLD"):  # of few and of many storages: what is done once for a file, and once for each
            for tensors in (1, 16, 400):
                source = self.files(1 << 20, tensors, 1000)
                ours, before = self.series(source, *(self.command(one, "scan", source) for one in (self.ckpt, os.environ["CKPT_OLD"])))
                self.ratio_row("scan 1000 files, tensors: %d" % tensors, ours, "ckpt before", before, "ratio <= 1.30", lambda r: r <= 1.3)

    def case_diff(self):
        """Both files have to be read, as cmp does, which ends at the first difference: it gets a copy."""
        source, changed = self.big(), self.input("changed", self.options.size, 128)
        copy = os.path.join(self.folder, "copy-" + os.path.basename(source))
        if not os.path.exists(copy):
            shutil.copy(source, copy)
        ours, same, proven, cmp, torch = self.series(
            source, self.command("sh", "-c", '"$0" diff "$1" "$2"; [ $? = 1 ]', self.ckpt, source, changed),
            self.command(self.ckpt, "diff", source, copy), self.command(self.ckpt, "diff", "--trust-checksums", source, copy),
            self.command("cmp", source, copy),
            self.torch_run("torch_diff.py", os.path.basename(source), os.path.basename(changed)))
        size = size_text(self.options.size)
        self.ratio_row("diff %s, all other numbers" % size, ours, "cmp of a copy", cmp, "ratio <= 2", lambda r: r <= 2)
        self.ratio_row("diff %s, a copy" % size, same, "cmp of a copy", cmp, "ratio <= 2", lambda r: r <= 2)
        self.peak_row("  its memory", same.kib, 64)
        self.time_row("diff --trust-checksums %s, a copy" % size, proven, 0.1)
        if torch:
            self.ratio_row("diff %s, all other numbers" % size, ours, "torch", torch)
        os.unlink(copy)

    def safetensors_package(self):
        """True: torch finds the package, from CKPT_SAFETENSORS or its own."""
        package, site = os.environ.get("CKPT_SAFETENSORS"), os.path.join(self.folder, "site")
        if package and not os.path.exists(site):
            shutil.copytree(package, site)
        facts = json.loads(self.torch.run("torch_safetensors.py"))
        if "error" in facts:
            print("safetensors: left out, torch alone: " + facts["error"])
        return "error" not in facts

    def case_safetensors(self):
        """The bytes go as they are, as those of cp; the header is small beside the pickle's memory."""
        source, target = self.big(), os.path.join(self.out, "ckpt.safetensors")
        name = "to safetensors --no-sync " + size_text(self.options.size)
        contenders = [self.command(self.ckpt, "convert", "--no-sync", source, target), self.copy(source)]
        if self.torch_version is not None and self.safetensors_package():
            contenders.append(self.torch_run("torch_safetensors.py", os.path.basename(source), "out/torch.safetensors"))
        ours, other, *theirs = self.series(source, *contenders)
        self.ratio_row(name, ours, "cp", other, "ratio <= 1.10", lambda r: r <= 1.1)
        self.peak_row("  its memory", ours.kib, 96)
        if theirs and theirs[0]:
            self.ratio_row(name, ours, "load+save_file", theirs[0], ">= 3 x faster", lambda r: r >= 3, inverse=True)
        most, each = self.options.small, {}
        for count in (most // 4, most):
            (ours,) = self.series(self.small(count), self.command(self.ckpt, "convert", "--no-sync", self.small(count), target))
            self.time_row("to safetensors --no-sync %d tensors" % count, ours)
            self.peak_row("  its memory", ours.kib, 96 + 3 * count // 2048)
            each[count] = ours.median / count
        growth = each[most] / each[most // 4]
        self.table.row(("linear: time per tensor", "", "%d : %d" % (most, most // 4), "", "%.2f" % growth, "", ""),
                       "ratio <= 1.25", growth <= 1.25)

    def case_remap(self):
        source = self.big()
        target = os.path.join(self.out, "ckpt.pt")
        ours, other = self.series(
            source, self.command(self.ckpt, "remap", "--no-sync", "--all", "cuda:0", source, target),
            self.copy(source))
        self.ratio_row("remap --no-sync " + size_text(self.options.size), ours, "cp", other,
                       "ratio <= 1.10", lambda r: r <= 1.10)
        self.peak_row("  its memory", ours.kib, 96)

    def case_cast(self):
        """float32 to bfloat16: reads all, writes half; a copy of 3/4 of the input moves as many bytes."""
        source = self.big()
        part = os.path.join(self.folder, "part-" + os.path.basename(source))
        size = os.path.getsize(source) * 3 // 4
        if not os.path.exists(part) or os.path.getsize(part) != size:
            subprocess.run(["sh", "-c", 'head -c "$1" "$2" >"$3"', "sh", str(size), source, part],
                           check=True)
        cast = self.command(self.ckpt, "cast", "--no-sync", "bf16", source,
                            os.path.join(self.out, "ckpt.pt"))
        name = "cast --no-sync bf16 " + size_text(self.options.size)
        ours, other = self.series(source, cast, self.copy(part))
        self.ratio_row(name, ours, "cp of 3/4 of it", other, "ratio <= 1.15", lambda r: r <= 1.15)
        self.peak_row("  its memory", ours.kib, 96)
        if self.torch_version is None:
            return
        ours, other = self.series(source, cast, self.torch_strip(source, "cast"))
        self.ratio_row(name, ours, "torch load, to, save", other, ">= 4 x faster",
                       lambda r: r >= 4, inverse=True)

    def quantized(self, scheme, size):
        """A folder with a model of that scheme, made at its first use and kept."""
        path = os.path.join(self.folder, "quantized-%s-%d" % (scheme, size))
        if not os.path.exists(path):
            print("bench: making %s" % os.path.basename(path), file=sys.stderr, flush=True)
            subprocess.run([sys.executable, os.path.join(HERE, "generate_quantized.py"), scheme, path, str(size)], check=True)
        return path

    def case_dequantize(self):
        """Reads all, writes two to four times as much: a copy of half of both together moves as many bytes. The files of 4 bits are
        smaller, so that the outputs are about as large."""
        for scheme, size, limit in (("fp8", self.options.size, 1.25), ("nvfp4", self.options.size * 9 // 16, 1.5), ("int4", self.options.size // 2, 1.5)):
            folder = self.quantized(scheme, size)
            source, target = os.path.join(folder, "model.safetensors"), os.path.join(self.out, "ckpt.safetensors")
            cast = self.command(self.ckpt, "cast", "--no-sync", "--dequantize", "bf16", source, target)
            self.prepare(source)
            cast()
            room = os.path.getsize(target) * 9 // 8
            half = (os.path.getsize(source) + os.path.getsize(target)) // 2
            part = os.path.join(self.folder, "half")
            self.clean()
            if not os.path.exists(part) or os.path.getsize(part) != half:
                subprocess.run(["sh", "-c", 'cat "$2" "$2" "$2" "$2" | head -c "$1" >"$3"', "sh", str(half), source, part], check=True)
            name = "cast --no-sync --dequantize bf16 %s %s" % (scheme, size_text(os.path.getsize(source)))
            ours, other = self.series(folder, cast, self.copy(part), room=room)
            self.ratio_row(name, ours, "cp of " + size_text(half), other, "ratio <= %.2f" % limit, lambda r, most=limit: r <= most)
            self.peak_row("  its memory", ours.kib, 96)
            os.unlink(part)
            if scheme == "fp8" and self.torch_version is not None and self.safetensors_package():
                inner = os.path.join(os.path.basename(folder), "model.safetensors")
                ours, theirs = self.series(folder, cast, self.torch_run("torch_dequantize.py", inner, "out/torch.safetensors"))
                self.ratio_row(name, ours, "torch, same products", theirs, ">= 10 x faster", lambda r: r >= 10, inverse=True)

    def case_average(self):
        """Three files become one. All of them are read, and one is written; cp reads one of them again, out of memory. Of bfloat16
        there are twice as many numbers in as many bytes: the ratio is told, without a goal."""
        for kind in ("big", "bfloat16"):
            first = self.input(kind, self.options.size, 128)
            folder = os.path.join(self.folder, "three-" + os.path.basename(first))
            paths = [os.path.join(folder, name + ".pt") for name in "abc"]
            if not os.path.exists(folder):
                os.makedirs(folder + ".new", exist_ok=True)
                for path in paths:
                    shutil.copy(first, os.path.join(folder + ".new", os.path.basename(path)))
                os.rename(folder + ".new", folder)
            ours, other = self.series(
                folder, self.command(self.ckpt, "average", "--no-sync", *paths, os.path.join(self.out, "ckpt.pt")),
                self.command("sh", "-c", 'cat "$1" "$2" "$3" >/dev/null && cp "$1" "$4"', "sh", *paths, os.path.join(self.out, "cp.pt")))
            self.ratio_row("average --no-sync 3 x %s%s" % (size_text(self.options.size), "" if kind == "big" else " bf16"), ours, "cat 3, cp 1",
                           other, *(("ratio <= 1.15", lambda r: r <= 1.15) if kind == "big" else ()))
            self.peak_row("  its memory", ours.kib, 96)
            shutil.rmtree(folder)

    def in_place(self, source, *words):
        """An edit of SOURCE itself, and one that undoes it, so that the next round finds it as it was."""
        def run():
            os.sync()
            facts = self.command(self.ckpt, *words, "-i", source)()
            self.command(self.ckpt, *UNDO[words[0]], "-i", source)()
            return facts
        return run

    def case_inplace(self):
        """Every round a sync before it; the file grows by its metadata with every edit."""
        files = [("big", self.input("big", self.options.large, 256)),
                 ("sparse", self.input("sparse", 4 * self.options.large, 256))]
        for kind, source in files:
            name = size_text(os.path.getsize(source) // (1 << 20) * (1 << 20))
            self.prepare_nothing()
            strip, remap = [], []
            for _ in range(self.options.runs):
                strip.append(self.in_place(source, "strip-module")())
                remap.append(self.in_place(source, "remap", "--all", "cuda:0")())
            strip, remap = Series(*zip(*strip[1:])), Series(*zip(*remap[1:]))
            for words, ours in (("strip-module", strip), ("remap", remap)):
                self.table.row(("%s -i %s %s" % (words, kind, name), time_text(ours.median), "", "",
                                "(%s to %s)" % (time_text(min(ours.seconds)), time_text(max(ours.seconds))),
                                peak.text(ours.kib, self.floor), ""), "< 100 ms", ours.median < 0.1)
                self.peak_row("  its memory", ours.kib, 96)
            if kind == "big" and self.torch_version is not None:
                self.prepare_nothing()
                theirs = self.torch_strip(source)()
                self.table.row(("  against torch, one run", time_text(strip.median), "torch load+save",
                                time_text(theirs[0]), "%.0f x faster" % (theirs[0] / strip.median),
                                "", peak.text(theirs[1], self.floor)), ">= 100 x faster",
                               theirs[0] / strip.median >= 100)
                self.clean()

    def case_reflink(self):
        """On a file system made for it, which takes root and xfsprogs."""
        mount, image = os.path.join(self.folder, "xfs"), os.path.join(self.folder, "xfs.img")
        source = self.input("big", self.options.large, 256)
        script = 'truncate -s "$1" "$2" && mkfs.xfs -qf "$2" && mkdir -p "$3" && mount -o loop "$2" "$3"'
        made = subprocess.run(["sh", "-c", script, "sh", str(self.options.large * 5 // 4 + (1 << 30)), image,
                               mount], capture_output=True, check=False)
        if made.returncode:
            print("reflink: left out, no XFS can be mounted here")
            return
        try:
            ours = Series(*zip(*self.reflink_rounds(source, mount)[1:]))
        finally:
            subprocess.run(["umount", mount], check=False)
            os.unlink(image)
        name = "strip-module --reflink always " + size_text(self.options.large)
        self.table.row((name, time_text(ours.median), "", "",
                        "(%s to %s)" % (time_text(min(ours.seconds)), time_text(max(ours.seconds))),
                        peak.text(ours.kib, self.floor), ""), "< 300 ms", ours.median < 0.3)
        self.peak_row("  its memory", ours.kib, 96)

    def reflink_rounds(self, source, mount):
        copy, target = os.path.join(mount, "in.pt"), os.path.join(mount, "out.pt")
        shutil.copy(source, copy)
        results = []
        self.prepare_nothing()
        for _ in range(self.options.runs):
            os.sync()
            results.append(self.command(self.ckpt, "strip-module", "--reflink", "always", copy, target)())
            os.unlink(target)
        return results

    def prepare_nothing(self):
        self.clean()
        os.makedirs(self.out)
        os.sync()

    def case_memory(self):
        """Peak memory of every command on every kind of file, one run each."""
        files = ((self.big(), 64), (self.input("storages", self.options.storages, 16384), 64),
                 (self.small(self.options.small), 256))
        for source, limit in files:
            for verb in ("ls", "info", "strip-module"):
                self.prepare(source)
                target = [os.path.join(self.out, "ckpt.pt")] if verb == "strip-module" else []
                _, kib = self.command(self.ckpt, verb, source, *target)()
                self.peak_row("%s %s" % (verb, os.path.basename(source)), kib, limit)
        self.clean()

    # -- directories of shards

    def case_merge(self):
        self.dcp_merge(self.directory("big", self.options.size, 128, RANKS))

    def case_zero(self):
        for stage in (3, 2):
            self.zero_merge(self.input("zero%d" % stage, self.options.size, 128, RANKS, suffix=""))

    def zero_merge(self, source):
        """Every parameter lies in as many places as there are ranks, and no part has a checksum of its own."""
        def merge(*flags):
            return self.command(self.ckpt, "merge", *flags, source, os.path.join(self.out, "ckpt.pt"))
        copy = os.path.join(self.out, "cp")
        synced, plain, copy_synced, copy_plain = self.series(
            source, merge(), merge("--no-sync"),
            self.command("sh", "-c", 'cp -r "$1" "$2" && sync "$2"/*/*', "sh", source, copy),
            self.command("cp", "-r", source, copy))
        what = "merge%%s %s" % os.path.basename(source)
        self.ratio_row(what % "", synced, "cp -r + sync FILES", copy_synced, "ratio <= 1.5", lambda r: r <= 1.5)
        self.ratio_row(what % " --no-sync", plain, "cp -r", copy_plain, "ratio <= 1.5", lambda r: r <= 1.5)
        self.peak_row("  its memory", max(synced.kib, plain.kib), 256)

    def case_split(self):
        if self.torch_version is None:
            print("split: left out, no torch here (CKPT_PYTHON)")
            return
        self.dcp_split(self.big())

    def dcp_rows(self, what, source, ours, copies, theirs):
        """OURS(*FLAGS) against two COPIES, synced and not, and each of THEIRS: (flags of ours, name, contender,
        goal). All in the same rounds."""
        names = [name for name, _ in copies]
        results = self.series(source, ours(), ours("--no-sync"), *[copy for _, copy in copies],
                              *[contender for _, _, contender, _ in theirs])
        synced, plain, copy_synced, copy_plain, *others = results
        text = "%s%%s %s" % (what, size_text(self.options.size))
        self.ratio_row(text % "", synced, names[0], copy_synced, "ratio <= 1.25", lambda r: r <= 1.25)
        self.ratio_row(text % " --no-sync", plain, names[1], copy_plain, "ratio <= 1.25", lambda r: r <= 1.25)
        for (flags, name, _, goal), other in zip(theirs, others):
            if other is None:
                print("%s: left out, torch %s has none" % (name, self.torch_version))
                continue
            self.ratio_row(text % flags, plain if flags else synced, name, other, ">= %d x faster" % goal,
                           lambda r, goal=goal: r >= goal, inverse=True)
        self.peak_row("  its memory", max(synced.kib, plain.kib), 128)
        return None not in others

    def dcp_merge(self, source):
        copy = os.path.join(self.out, "cp")

        def merge(*flags):
            return self.command(self.ckpt, "merge", *flags, source, os.path.join(self.out, "ckpt.pt"))
        theirs = self.torch_run("torch_dcp.py", "merge", os.path.basename(source), "out/torch.pt")
        has_torch = self.dcp_rows(
            "merge", source, merge,
            [("cp -r + sync FILES", self.command("sh", "-c", 'cp -r "$1" "$2" && sync "$2"/.metadata "$2"/*', "sh",
                                                 source, copy)),
             ("cp -r", self.command("cp", "-r", source, copy))],
            [(" --no-sync", "dcp_to_torch_save", theirs, 6)] if self.torch_version else [])
        if has_torch and self.torch_version:
            self.same_merge_row(source, theirs)

    def same_merge_row(self, source, theirs):
        self.prepare(source)
        os.makedirs(os.path.join(self.out, "a"))
        ours = os.path.join(self.out, "a", "torch.pt")
        self.command(self.ckpt, "merge", source, ours)()
        theirs()
        same = filecmp.cmp(ours, os.path.join(self.out, "torch.pt"), shallow=False)
        self.clean()
        self.table.row((os.path.basename(source), "", "dcp_to_torch_save", "", "", "", ""), "the same bytes", same)

    def dcp_split(self, source):
        """Torch writes one file for one rank, and syncs it; taking that away makes a pair without syncing."""
        name, shards = os.path.basename(source), os.path.join(self.out, "ckpt")

        def split(*flags):
            return self.command(self.ckpt, "split", *flags, "--ranks", str(RANKS), source, shards)

        def theirs(*flags):
            return self.torch_run("torch_dcp.py", "split", name, "out/torch", *flags)
        has_torch = self.dcp_rows(
            "split", source, split, [("cp + sync FILE", self.copy_sync(source)), ("cp", self.copy(source))],
            [("", "torch_save_to_dcp", theirs(), 5),
             (" --no-sync", "the same, no fsync", theirs("no-sync"), 5)])
        if not has_torch:
            return
        self.prepare(source)
        split()()
        self.torch_run("torch_dcp.py", "merge", "out/ckpt", "out/torch.pt")()
        same = self.torch_says("same", name, "out/torch.pt")
        self.clean()
        self.table.row((name, "", "dcp_to_torch_save", "", "", "", ""), "the same tensors", same)

    def case_split_safetensors(self):
        source, shards = self.big(), os.path.join(self.out, "ckpt")

        def split(*flags):
            return self.command(self.ckpt, "split", "--to", "safetensors", *flags, "--ranks", str(RANKS), source, shards)
        synced, plain, copy_synced, copy_plain = self.series(
            source, split(), split("--no-sync"), self.copy_sync(source), self.copy(source))
        name = "split --to safetensors%s " + size_text(self.options.size)
        self.ratio_row(name % "", synced, "cp + sync FILE", copy_synced, "ratio <= 1.25", lambda r: r <= 1.25)
        self.ratio_row(name % " --no-sync", plain, "cp", copy_plain, "ratio <= 1.25", lambda r: r <= 1.25)
        self.peak_row("  its memory", max(synced.kib, plain.kib), 128)

    def case_dcp_large(self):
        self.dcp_holes(self.directory("sparse", self.options.holes, 320, RANKS))
        self.dcp_chunks(self.directory("many", self.options.chunks, RANKS))

    def dcp_holes(self, source):
        """All but the last two numbers of each chunk is holes, and has to be so in the result."""
        target = os.path.join(self.out, "ckpt.pt")
        rounds = []
        for _ in range(self.options.runs):
            self.prepare_nothing()
            rounds.append(self.command(self.ckpt, "merge", "--no-sync", source, target)())
        ours = Series(*zip(*rounds[1:]))
        self.time_row("merge --no-sync %s of holes" % size_text(self.options.holes), ours)
        self.peak_row("  its memory", ours.kib, 256)
        facts = os.stat(target)
        took = facts.st_blocks * 512
        self.table.row(("  its result on disk", "", "", "", "%s of %s" % (size_text(took), size_text(facts.st_size)),
                        "", ""), "<= 1 % of it", took <= facts.st_size // 100)
        right = self.torch_says("holes", "out/ckpt.pt", RANKS) if self.torch_version else None
        if right is not None:
            self.table.row(("  numbers at the end of each chunk", "", "torch.load", "", "", "", ""),
                           "the right ones", right)
        self.clean()

    def dcp_chunks(self, source):
        """Edits of names alone. In place the index is put back before every round."""
        text = "%d chunks" % self.options.chunks
        self.prepare(source)
        work, links = os.path.join(self.out, "work"), os.path.join(self.out, "links")
        shutil.copytree(source, work)
        look, strip, link = [], [], []
        can_link = "--hard-link" in subprocess.run([self.ckpt, "help", "strip-module"], capture_output=True, text=True,
                                                   check=False).stdout
        for _ in range(self.options.runs):
            shutil.copy(os.path.join(source, ".metadata"), work)
            shutil.rmtree(links, ignore_errors=True)
            os.sync()
            look.append(self.command(self.ckpt, "ls", source)())
            strip.append(self.command(self.ckpt, "strip-module", "-i", work)())
            if can_link:
                link.append(self.command(self.ckpt, "strip-module", "--hard-link", source, links)())
        rows = [("ls", look), ("strip-module -i", strip)] + [("strip-module --hard-link", link)] * can_link
        for what, rounds in rows:
            self.time_row("%s %s" % (what, text), Series(*zip(*rounds[1:])), 1.0)
        self.same_strip_row(source, [work] + [links] * can_link)
        self.clean()

    def same_strip_row(self, source, stripped):
        """Merging after the strip gives the same as before it."""
        files = [os.path.join(self.out, str(number), "x.pt") for number in range(len(stripped) + 2)]
        for path in files:
            os.makedirs(os.path.dirname(path))
        self.command(self.ckpt, "merge", source, files[0])()
        self.command(self.ckpt, "strip-module", files[0], files[1])()
        for one, path in zip(stripped, files[2:]):
            self.command(self.ckpt, "merge", one, path)()
        same = all(filecmp.cmp(files[1], path, shallow=False) for path in files[2:])
        self.table.row(("  merged after it", "", "merged before it", "", "", "", ""), "the same bytes", same)

    # -- several ranks

    def run_ranks(self, ranks, *argv, before=()):
        """What RANKS processes print; mpirun may stand behind another command."""
        env = dict(os.environ, OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1")
        done = subprocess.run([*before, "mpirun", "--oversubscribe", "-np", str(ranks), *argv], stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, text=True, env=env, check=False)
        if done.returncode:
            fail("exit %d: %s: %s" % (done.returncode, shlex.join(argv), done.stderr[-300:]))
        return done.stdout

    def mpirun(self, ranks, seconds, *argv):
        """A contender of RANKS processes, which says itself how long it took: without the start of MPI."""
        return lambda: (seconds(self.run_ranks(ranks, *argv)), 0)

    @staticmethod
    def settled(run):
        """The best of three runs in a row: a virtual machine takes back what the contender before it has freed, GiB of
        it, and the first one pays for that."""
        return lambda: min(run(), run(), run())

    def has_ranks(self, name):
        bare = os.path.join(os.path.dirname(self.ckpt), "mpi_bcast")
        if not shutil.which("mpirun") or not os.path.exists(bare):
            print("%s: left out, no mpirun, or ckpt was built without MPI" % name)
            return None
        return bare

    def case_broadcast(self):
        """Rank 0 reads a file that is in memory; nothing is written."""
        bare = self.has_ranks("broadcast")
        if not bare:
            return
        source = self.big()
        size, ours = os.path.getsize(source), [self.ckpt, "broadcast", "-q", "--json", "--target", "null"]
        for ranks in (2, 4):
            runs = [self.mpirun(ranks, lambda text: json.loads(text)["seconds"], *ours, *flags, source)
                    for flags in ([], ["--verify", "none"])]
            runs.append(self.mpirun(ranks, float, bare, str(size), str(4 << 20)))
            checked, plain, other = self.series(source, *map(self.settled, runs), writes=False)
            text = "broadcast%s %s, %d ranks"
            self.ratio_row(text % (" --verify none", size_text(size), ranks), plain, "MPI_Bcast", other,
                           "speed >= 0.90", lambda r: r <= 1 / 0.9)
            self.ratio_row(text % ("", size_text(size), ranks), checked, "--verify none", plain)

    def case_broadcast_hosts(self):
        """Network namespaces as hosts, each of which can send 100 MB/s. What one host has to send twice shows."""
        bare = self.has_ranks("broadcast-hosts")
        if not bare:
            return
        os.environ["CKPT"] = self.ckpt  # asked for by what follows
        import hosts  # pylint: disable=import-outside-toplevel
        source = self.input("big", min(self.options.size, 256 << 20), 16)
        size = os.path.getsize(source)
        with tempfile.TemporaryDirectory() as work:
            for count in (2, 4):
                net = hosts.Hosts(work, count)
                try:
                    if not net.make() or not net.limit("800mbit"):
                        print("broadcast-hosts: left out, no network namespaces can be made and limited: not root")
                        return
                    self.hosts_rows(net, count, source, size, bare)
                finally:
                    net.remove()

    def hosts_rows(self, net, count, source, size, bare):
        def each(seconds, *argv):
            def run():
                job = net.start_each(*argv)
                out, err = job.communicate()
                if job.returncode:
                    fail("exit %d: %s: %s" % (job.returncode, shlex.join(argv), err[-300:]))
                return seconds(out), 0
            return run
        ours, other = self.series(source, each(lambda text: json.loads(text)["seconds"], self.ckpt, "broadcast", "-q",
                                               "--json", "--target", "null", source),
                                  each(float, bare, str(size), str(4 << 20)))
        label = "broadcast %s, %d hosts of 100 MB/s" % (size_text(size), count)
        self.ratio_row(label, ours, "MPI_Bcast", other, "speed >= 0.90", lambda r: r <= 1 / 0.9)
        self.time_row("  of which the links need %s" % time_text(size / 1e8), ours, size / 1e8 / 0.9)

    def case_broadcast_transports(self):
        """What tcp and ucx carry without a launcher, beside MPI and iperf3; and how soon they begin."""
        if not self.has_ranks("broadcast-transports"):
            return
        os.environ["CKPT"] = self.ckpt  # asked for by what follows
        import tcp  # pylint: disable=import-outside-toplevel
        import tcp_hosts  # pylint: disable=import-outside-toplevel
        source = self.input("big", min(self.options.size, 256 << 20), 16)
        with tempfile.TemporaryDirectory() as work:
            net = tcp_hosts.Hosts(work, 2)
            try:
                if net.make() and net.limit("400mbit"):
                    self.shaped_rows(net, source, lambda: tcp_hosts.Job(work, net))
                else:
                    print("broadcast-transports: between hosts left out, no network namespaces can be made and limited: not root")
            finally:
                net.remove()
            self.transport_rows(self.big(), lambda: tcp.Job(work, 2))
            net = tcp_hosts.Hosts(work, 1)
            try:
                if net.make():
                    self.start_rows(work, tcp.Job, net.inside(0))
            finally:
                net.remove()

    def by_hand(self, make_job, transport, source, *flags, before=lambda rank: ()):
        """Ranks without a launcher, each behind the command BEFORE(rank); how long it took is what rank 0 says, or the time of
        all, from the first one's start."""
        def run():
            job, begin = make_job(), time.monotonic()
            report = os.path.join(job.work, "report.%d.json" % job.port)
            for rank in range(job.size):
                job.start(rank, "-q", "--json=" + report, "--target", "null", "--transport", transport, *flags, source,
                          before=before(rank))
            ended = job.end(600)
            took = time.monotonic() - begin
            if any(code for code, _ in ended.values()):
                fail("broadcast over %s: %s" % (transport, ended))
            with open(report, encoding="utf-8") as file:
                os.unlink(report)
                return (json.load(file)["seconds"] if "--init-timeout" not in flags else took), 0
        return run

    def shaped_rows(self, net, source, make_job):
        size = os.path.getsize(source)

        def over_mpi():
            job = net.start_each(self.ckpt, "broadcast", "-q", "--json", "--target", "null", "--transport", "mpi", source)
            out, err = job.communicate()
            if job.returncode:
                fail("exit %d over MPI: %s" % (job.returncode, err[-300:]))
            return json.loads(out)["seconds"], 0

        def iperf():
            server = subprocess.Popen(["ip", "netns", "exec", net.names[1], "iperf3", "-s", "-1"], stdout=subprocess.DEVNULL)
            time.sleep(0.3)
            out = subprocess.run(["ip", "netns", "exec", net.names[0], "iperf3", "-J", "-c", "10.213.7.2", "-n", str(size)],
                                 stdout=subprocess.PIPE, check=True).stdout
            server.wait()
            return size * 8 / json.loads(out)["end"]["sum_received"]["bits_per_second"], 0
        has_iperf = shutil.which("iperf3")
        if not has_iperf:
            print("broadcast-transports: iperf3 is left out, there is none")
        ours = [self.by_hand(make_job, name, source) for name in ("tcp", "ucx")]
        by_tcp, by_ucx, by_mpi, *by_iperf = self.series(source, *ours, over_mpi, *([iperf] if has_iperf else []), writes=False)
        for name, one in (("tcp", by_tcp), ("ucx", by_ucx)):
            label = "broadcast %s over %s, 2 hosts of 400 Mbit/s" % (size_text(size), name)
            self.ratio_row(label, one, "over MPI", by_mpi, "speed >= 0.95", lambda r: r <= 1 / 0.95)
            if by_iperf:
                self.ratio_row("  the same", one, "iperf3", by_iperf[0], "speed >= 0.95", lambda r: r <= 1 / 0.95)

    def transport_rows(self, source, make_job):
        """On one machine, whose processors are what limits it: each rank is bound to one, which mpirun does with two ranks by
        itself, or the system chooses."""
        processors = sorted(os.sched_getaffinity(0))

        def bind(rank):
            return ("taskset", "-c", str(processors[rank % len(processors)]))
        text = "broadcast --verify none %s over %%s, 2 ranks" % size_text(os.path.getsize(source))
        for label, bound in ((text, True), ("  unbound, over %s", False)):
            mpi = self.mpirun(2, lambda out: json.loads(out)["seconds"], "--bind-to", "core" if bound else "none", self.ckpt,
                              "broadcast", "-q", "--json", "--target", "null", "--transport", "mpi", "--verify", "none", source)
            runs = [self.by_hand(make_job, name, source, "--verify", "none", before=bind if bound else lambda rank: ())
                    for name in ("tcp", "ucx")]
            by_tcp, by_ucx, by_mpi = self.series(source, *map(self.settled, [*runs, mpi]), writes=False)
            goal = ("speed >= 0.90", lambda r: r <= 1 / 0.9) if bound else ()
            self.ratio_row(label % "ucx", by_ucx, "over MPI", by_mpi, *goal)
            self.ratio_row(label % "tcp", by_tcp, "over MPI", by_mpi)

    def start_rows(self, work, make_job, before):
        """From the start of the first process to the end of all, of a source of one byte; on a host with three interfaces: UCX
        asks the kernel about each that there is."""
        source = os.path.join(work, "one")
        with open(source, "wb") as out:
            out.write(b"x")
        for ranks, most in ((2, 0.3), (8, 1.0)):
            for name in ("tcp", "ucx"):
                run = self.by_hand(lambda: make_job(work, ranks), name, source, "--init-timeout", "60", before=lambda rank: before)
                took, = self.series(source, run, writes=False)
                self.time_row("broadcast 1 byte over %s, %d ranks, all" % (name, ranks), took, most)

    def case_broadcast_memory(self):
        """The peak of the rank that has the largest, each of which writes a file."""
        if not self.has_ranks("broadcast-memory"):
            return
        source = self.big()
        for ranks in (1, 4):
            self.prepare(source)
            wrapped = 'exec "$0" -I -S "$1" -o "$2/peak.$OMPI_COMM_WORLD_RANK" "$3" broadcast -q --no-sync "$4" "$2/%r.pt"'
            self.run_ranks(ranks, "sh", "-c", wrapped, sys.executable, peak.__file__, self.out, self.ckpt, source)
            peaks = []
            for rank in range(ranks):
                with open(os.path.join(self.out, "peak.%d" % rank), encoding="ascii") as file:
                    peaks.append(int(file.read().split()[1]))
            self.clean()
            self.peak_row("broadcast %s, %d rank%s" % (size_text(self.options.size), ranks, "s" * (ranks > 1)),
                          max(peaks), 716)

    def case_throttled(self):
        """A source that gives 100 MiB/s to all together, as a shared one does: each rank copies it for itself past
        the page cache, which real nodes do not share, or ckpt brings it to all."""
        if not self.has_ranks("throttled"):
            return
        ranks, size = 4, min(self.options.size, 512 << 20)
        source = self.input("big", size, 16)
        shm = os.path.join("/dev/shm", "ckpt-bench-%d" % os.getpid())
        with throttle.Throttle(source, 100 << 20) as slow:
            if slow.why_not:
                print("throttled: left out, " + slow.why_not)
                return

            def timed(work):
                def run():
                    os.mkdir(shm)
                    throttle.forget(source)
                    seconds = work()
                    shutil.rmtree(shm)
                    return seconds, 0
                return run

            def each():
                return slow.seconds("sh", "-c", 'for i in $(seq "$3"); do dd if="$1" of="$2/$i" bs=4M iflag=direct & '
                                    'done 2>"$2/err"; wait', "sh", source, shm, str(ranks))

            def ours():
                begin = time.monotonic()
                self.run_ranks(ranks, self.ckpt, "broadcast", "-q", source, shm + "/%r", before=slow.before)
                return time.monotonic() - begin
            ours, other = self.series(source, timed(ours), timed(each))
        self.ratio_row("broadcast %s at 100 MiB/s, %d ranks" % (size_text(size), ranks), ours, "%d x dd" % ranks, other,
                       ">= 3 x faster", lambda r: r >= 3, inverse=True)

    # -- all of it

    def describe(self):
        """What the figures depend on."""
        with open("/proc/cpuinfo") as file:
            model = next((l.split(":", 1)[1].strip() for l in file if l.startswith("model name")),
                         platform.machine())
        memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
        kind = subprocess.run(["df", "--output=fstype", self.folder], capture_output=True, text=True,
                              check=False).stdout.split()[-1:]
        version = subprocess.run([self.ckpt, "version"], capture_output=True, text=True,
                                 check=False).stdout.strip().splitlines()
        print("%s, %d cores, %s of memory, Linux %s, file system %s" % (
            model, os.cpu_count(), size_text(memory), platform.release(), *kind))
        print("%s; torch %s; %d rounds, the first dropped" % (
            version[0] if version else "ckpt", self.torch_version or "is not here", self.options.runs))
        ratios = [int(open("/proc/sys/vm/" + name, encoding="ascii").read()) for name in ("dirty_background_ratio", "dirty_ratio")]
        if all(ratios): # else they are given in bytes
            print("the disk sets the pace of outputs above about %s (vm.dirty_background_ratio %d, vm.dirty_ratio %d)" % (
                size_text(memory * sum(ratios) // 200), *ratios))
        print("peaks below %d MiB cannot be told apart\n" % (self.floor * 1.05 / MIB + 1))

    def run(self):
        cases = self.options.only or CASES
        times = 6 if "average" in cases else 5 if {"merge", "split", "broadcast-memory"} & set(cases) else 3
        if shutil.disk_usage(self.folder).free < times * self.options.size + (2 << 30):
            fail("'%s' has not %d times the size free" % (self.folder, times))
        self.describe()
        self.table.head()
        for name in cases:
            getattr(self, "case_" + name.replace("-", "_"))()
        print()
        print("%d goals NOT MET" % self.table.missed if self.table.missed else "all goals met")
        return 1 if self.table.missed else 0


def main():
    parser = argparse.ArgumentParser(
        prog="bench/run.sh", description="Measure ckpt side by side with cp and torch.",
        epilog="Exit code: 0 all goals met, 1 some were not, 2 could not measure.")
    root = os.path.dirname(HERE)
    parser.add_argument("--ckpt", default=os.path.join(root, "build", "ckpt"), metavar="PATH")
    parser.add_argument("--dir", default=os.path.join(root, "build", "bench"), metavar="FOLDER",
                        help="work folder, on the disk to measure (default: build/bench)")
    parser.add_argument("--size", type=parse_size, default="4G", help="of the large file (4G)")
    parser.add_argument("--large", type=parse_size, default="10G",
                        help="of the file that is edited in place (10G); another, all holes, has four times that")
    parser.add_argument("--small", type=int, default=100000, metavar="N",
                        help="tensors in the largest small-tensor file (100000)")
    parser.add_argument("--many", type=int, default=1000000, metavar="N", help="tensors in the file of the case scale (1000000)")
    parser.add_argument("--storages", type=int, default=10000, metavar="N", help="(10000)")
    parser.add_argument("--holes", type=parse_size, default="100G",
                        help="of the directory of shards that is nearly all holes (100G)")
    parser.add_argument("--chunks", type=int, default=100000, metavar="N",
                        help="in the directory of the most shards (100000)")
    parser.add_argument("--runs", type=int, default=8, metavar="N",
                        help="rounds, of which the first is dropped (8)")
    parser.add_argument("--only", action="append", choices=CASES, metavar="NAME",
                        help="only this case, may be repeated: " + ", ".join(CASES))
    options = parser.parse_args()
    if options.runs < 2:
        parser.error("--runs must be at least 2")
    if not os.access(options.ckpt, os.X_OK):
        fail("no '%s': build a release first (scripts/quickstart)" % options.ckpt)
    return Bench(options).run()


if __name__ == "__main__":
    sys.exit(main())

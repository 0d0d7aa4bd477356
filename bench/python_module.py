#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Measure the Python module side by side with torch: python_module.py [--size 1G] [--small 100000] [--runs 5]

CKPT_PYTHON names the interpreters that have torch, separated by `;`; the last one is used. CKPT_PYTHON_MODULE is the folder of the package
(default: build/python-bundle/ckpt). Both do the same in processes of their own, in rounds, of which the first is dropped. Times are taken
inside of the process, without imports but in the case `import`. Prints medians, the ratio (module to torch; below 1 the module is faster)
with its smallest and largest, and the peak memory of both. Exits with 1 if one of them failed.

`throttled` is another thing: four processes want the tensors of one file of 256 MiB, whose reads slow_reads.c keeps to 100 MiB/s for all
together; with the module one of them reads it. Its time is from the moment when the first has imported what it needs to when the last is done.
"""
import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import time

LARGE, SMALL, SLOW = "large.pt", "small.pt", "slow.pt"
SLICE = 1 << 18  # items of four bytes, from the middle
# (case, what it is, its half with ckpt, its half with torch)
CASES = (
    ("import", "import of the package", "import ckpt", "import torch"),
    ("import-torch", "import ckpt.torch, and torch alone", "import ckpt.torch", "import torch"),
    ("list", "open, and list the names of all small tensors", "f = ckpt.open(SMALL, brief=True); names = list(f); size = len(names)",
     "names = list(torch.load(SMALL, mmap=True, weights_only=True)); size = len(names)"),
    ("load", "load the large file", "made = ckpt.torch.load(LARGE); size = len(made)", "made = torch.load(LARGE, weights_only=True); size = len(made)"),
    ("load-mmap", "the same with mmap=True", "made = ckpt.torch.load(LARGE, mmap=True); size = len(made)",
     "made = torch.load(LARGE, mmap=True, weights_only=True); size = len(made)"),
    ("small", "load all small tensors", "made = ckpt.torch.load(SMALL); size = len(made)", "made = torch.load(SMALL, weights_only=True); size = len(made)"),
    ("slice", "open, and 1 MiB of a large tensor", "part = ckpt.open(LARGE)['t0'][AT:AT + SLICE]; size = len(part)",
     "part = torch.load(LARGE, mmap=True, weights_only=True)['t0'][AT:AT + SLICE].clone(); size = len(part)"),
)
THROTTLED, RANKS, RATE = 256 << 20, 4, 100 << 20
BEFORE = {"ckpt": "import ckpt, ckpt.torch, numpy", "torch": "import torch"}
# of what the module can do without torch, an import of that would be most of the memory
ALONE = {"list": "import ckpt", "slice": "import ckpt, numpy"}


def parse_size(text):
    return int(float(text[:-1]) * 2 ** {"K": 10, "M": 20, "G": 30}[text[-1]]) if text[-1] in "KMG" else int(text)


def make(size, small):
    """In a process with torch: noise in eight tensors, and SMALL tensors of 16 numbers."""
    import torch

    torch.manual_seed(1)
    torch.save({"t%d" % i: torch.randn(size // 32) for i in range(8)}, LARGE)
    torch.save({"layer.%d.weight" % i: torch.randn(16) for i in range(small)}, SMALL)
    print(json.dumps({"version": str(torch.__version__).split("+")[0], "python": sys.version.split()[0]}))


def child(before, code):
    """Run CODE, and tell how long it took."""
    scope = {"LARGE": LARGE, "SMALL": SMALL, "SLICE": SLICE, "size": 1}
    exec(before, scope)
    if os.path.exists(LARGE):
        scope["AT"] = os.path.getsize(LARGE) // 64
    start = time.perf_counter()
    exec(code, scope)
    seconds = time.perf_counter() - start
    import resource

    print(json.dumps({"seconds": seconds, "size": scope["size"], "kib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss}))


def rank(who, number):
    """One of those that want the tensors of the slow file."""
    import torch

    if who == "ckpt":
        import ckpt.torch
        import torch.distributed

        torch.distributed.init_process_group("gloo", init_method="file://" + os.path.abspath("meeting"), rank=number, world_size=RANKS)
    begin = time.monotonic()
    made = ckpt.torch.load_broadcast(SLOW) if who == "ckpt" else torch.load(SLOW, weights_only=True)
    end = time.monotonic()
    print(json.dumps({"begin": begin, "end": end, "sum": sum(float(tensor.double().sum()) for tensor in made.values())}))


def ranks(who):
    """All of them at once."""
    for path, data in (("meeting", None), ("slow.state", bytes(8))):
        if os.path.exists(path):
            os.unlink(path)
        if data:
            with open(path, "wb") as state:
                state.write(data)
    env = dict(os.environ, LD_PRELOAD=os.path.abspath("slow_reads.so"), SLOW_FILE=os.path.abspath(SLOW), SLOW_STATE=os.path.abspath("slow.state"), SLOW_RATE=str(RATE))
    children = [subprocess.Popen([sys.executable, "-B", __file__, "rank", who, str(number)], env=env, stdout=subprocess.PIPE) for number in range(RANKS)]
    found = [json.loads(child.communicate()[0]) for child in children]
    print(json.dumps({"seconds": max(one["end"] for one in found) - min(one["begin"] for one in found), "sums": [one["sum"] for one in found]}))


def start(command, folder, *arguments):
    done = subprocess.run(command.split() + ["-B", "bench_child.py", *arguments], cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        return json.loads(done.stdout.splitlines()[-1])
    except (IndexError, ValueError):
        print("FAILED: %s: %s" % (arguments, done.stderr[-600:]), file=sys.stderr)
        return None


def measure(command, folder, case, runs):
    """One line of the table; None if something failed."""
    name, what, mine, theirs = case
    is_import = name.startswith("import")
    halves = {"ckpt": ("" if is_import else ALONE.get(name, BEFORE["ckpt"]), mine), "torch": ("" if is_import else BEFORE["torch"], theirs)}
    found = {"ckpt": [], "torch": []}
    for number in range(runs + 1):
        for who in ("ckpt", "torch") if number % 2 else ("torch", "ckpt"):
            one = start(command, folder, "child", *halves[who])
            if one is None:
                return None
            if number:
                found[who].append(one)
    if {one["size"] for one in found["ckpt"]} != {one["size"] for one in found["torch"]}:
        print("FAILED: %s: %s" % (name, found), file=sys.stderr)
        return None
    ratios = [a["seconds"] / b["seconds"] for a, b in zip(found["ckpt"], found["torch"])]
    times = [statistics.median(one["seconds"] for one in found[who]) for who in ("ckpt", "torch")]
    peaks = [max(one["kib"] for one in found[who]) / 1024 for who in ("ckpt", "torch")]
    return "| %s | %.2f ms, %.0f MiB | %.2f ms, %.0f MiB | %.3f (%.3f to %.3f) |" % (
        what, times[0] * 1e3, peaks[0], times[1] * 1e3, peaks[1], statistics.median(ratios), min(ratios), max(ratios))


def throttled(command, folder, runs):
    library = os.path.join(folder, "slow_reads.so")
    source = os.path.join(os.path.dirname(os.path.abspath(__file__)), "slow_reads.c")
    subprocess.run(["cc", "-shared", "-fPIC", "-O2", "-o", library, source], check=True)
    if start(command, folder, "make-slow") is None:
        return None
    found = {"ckpt": [], "torch": []}
    for _ in range(runs):
        for who in found:
            one = start(command, folder, "ranks", who)
            if one is None:
                return None
            found[who].append(one)
    if len({total for who in found for one in found[who] for total in one["sums"]}) != 1:
        print("FAILED: throttled: %s" % found, file=sys.stderr)
        return None
    ratios = [a["seconds"] / b["seconds"] for a, b in zip(found["ckpt"], found["torch"])]
    times = [statistics.median(one["seconds"] for one in found[who]) for who in ("ckpt", "torch")]
    return "| %d MiB to %d ranks, reads at %d MiB/s | %.0f ms | %.0f ms | %.3f (%.3f to %.3f) |" % (
        THROTTLED >> 20, RANKS, RATE >> 20, times[0] * 1e3, times[1] * 1e3, statistics.median(ratios), min(ratios), max(ratios))


def main():
    parser = argparse.ArgumentParser(description="the Python module beside torch")
    parser.add_argument("--dir", default="build/bench-python", help="work folder")
    parser.add_argument("--size", type=parse_size, default=1 << 30, help="of the large file, 8 tensors")
    parser.add_argument("--small", type=int, default=100000, help="tensors in the other file")
    parser.add_argument("--runs", type=int, default=5, help="rounds that count")
    parser.add_argument("--only", action="append", choices=[case[0] for case in CASES] + ["throttled"])
    options = parser.parse_args()
    command = (os.environ.get("CKPT_PYTHON") or sys.executable).split(";")[-1]
    package = os.environ.get("CKPT_PYTHON_MODULE") or "build/python-bundle/ckpt"
    os.makedirs(options.dir, exist_ok=True)
    shutil.rmtree(os.path.join(options.dir, "ckpt"), ignore_errors=True)
    shutil.copytree(package, os.path.join(options.dir, "ckpt"))
    shutil.copy(os.path.abspath(__file__), os.path.join(options.dir, "bench_child.py"))
    # as pip does when it installs a package, and as torch is here
    subprocess.run(command.split() + ["-m", "compileall", "-q", "ckpt"], cwd=options.dir, check=True)
    facts = start(command, options.dir, "make", str(options.size), str(options.small))
    if facts is None:
        return 1
    print("torch %s, Python %s; %d MiB in 8 tensors, %d small tensors; %d rounds, load of the machine %.1f" % (
        facts["version"], facts["python"], options.size >> 20, options.small, options.runs, os.getloadavg()[0]))
    print("| | ckpt: time, peak | torch: time, peak | ratio |\n| --- | --- | --- | --- |")
    failed = 0
    for case in CASES:
        if not options.only or case[0] in options.only:
            line = measure(command, options.dir, case, options.runs)
            failed += line is None
            print(line or "| %s | FAILED | | |" % case[1], flush=True)
    if not options.only or "throttled" in options.only:
        line = throttled(command, options.dir, min(options.runs, 3))
        failed += line is None
        print(line or "| throttled | FAILED | | |", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    if sys.argv[1:2] == ["make"]:
        make(int(sys.argv[2]), int(sys.argv[3]))
    elif sys.argv[1:2] == ["make-slow"]:
        import torch

        torch.save({"t%d" % i: torch.randn(THROTTLED // 32) for i in range(8)}, SLOW)
        print("{}")
    elif sys.argv[1:2] == ["ranks"]:
        ranks(sys.argv[2])
    elif sys.argv[1:2] == ["rank"]:
        rank(sys.argv[2], int(sys.argv[3]))
    elif sys.argv[1:2] == ["child"]:
        child(sys.argv[2], sys.argv[3])
    else:
        sys.exit(main())

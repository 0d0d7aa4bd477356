# SPDX-License-Identifier: Apache-2.0
"""ckpt.torch.load_broadcast() in one torch: python_broadcast_judge.py PAIRS, with the package `ckpt` in this folder.

PAIRS: lines SOURCE<tab>REFERENCE, as of python_torch_judge.py. Ranks are forks of this process, which makes no threads before. Prints a line
for what is wrong, and at the end the counts.
"""

import collections
import datetime
import glob
import os
import pickle
import resource
import select
import signal
import sys
import tempfile
import time
import traceback
import warnings
import zipfile

warnings.simplefilter("ignore")
os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")

import torch  # noqa: E402
import torch.distributed as dist  # noqa: E402

import ckpt  # noqa: E402
import ckpt.torch  # noqa: E402
from ckpt import _broadcast  # noqa: E402
from python_torch_judge import Judge  # noqa: E402

SECONDS = 5  # the time-out of the groups in which a rank fails
LONG = 60
MOST = 40
NOWHERE = "/nowhere/at/all"
counts = collections.Counter()
wrong = []


def ranks(world, work, seconds=LONG, stopped=None):
    """[what work(rank) returned; an exception; None if it was killed] of WORLD processes, and the seconds of each.

    STOPPED: a rank that is not waited for.
    """
    # what killed ranks leave there would be met by those of the next run
    with tempfile.TemporaryDirectory(prefix="meeting", dir=os.getcwd()) as folder:
        return ranks_at(os.path.join(folder, "ranks"), world, work, seconds, stopped)


def ranks_at(meeting, world, work, seconds, stopped):
    started, pipes = [], {}
    for rank in range(world):
        reader, writer = os.pipe()
        pid = os.fork()
        if not pid:
            os.close(reader)
            for other in pipes:
                os.close(other)
            with os.fdopen(writer, "wb") as out:
                run_rank(world, rank, meeting, work, seconds, out)
            os._exit(0)
        os.close(writer)
        started.append(pid)
        pipes[reader] = rank
    answers, end = {}, time.monotonic() + MOST + seconds
    while set(pipes.values()) - {stopped}:
        ready = select.select(list(pipes), [], [], max(0, end - time.monotonic()))[0]
        if not ready:
            break
        for reader in ready:
            piece = os.read(reader, 1 << 16)
            rank = pipes[reader]
            answers[rank] = answers.get(rank, b"") + piece
            if not piece:
                del pipes[reader]
                os.close(reader)
    for rank in pipes.values():
        answers[rank] = pickle.dumps((RuntimeError("hangs"), MOST))
    for reader in pipes:
        os.close(reader)
    for pid in started:
        if pipes:
            os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
    return [pickle.loads(answers[rank]) if answers.get(rank) else (None, 0) for rank in range(world)]


def run_rank(world, rank, meeting, work, seconds, out):
    begun = time.monotonic()
    try:
        with open(os.devnull, "w") as nothing:
            os.dup2(nothing.fileno(), 2)
        store = dist.FileStore(meeting, world)
        dist.init_process_group("gloo", store=store, rank=rank, world_size=world, timeout=datetime.timedelta(seconds=seconds))
        store.set("connected/%d" % rank, "")  # who is killed before the others have connected is a failure of gloo
        store.wait(["connected/%d" % other for other in range(world)], datetime.timedelta(seconds=LONG))
        begun = time.monotonic()
        result = work(rank)
    except BaseException as error:
        result = error
        if not isinstance(error, (ckpt.Error, Planned)):
            result = RuntimeError("%r %s" % (error, traceback.format_exc()[-700:]))
        result.notes = getattr(error, "__notes__", [])
    pickle.dump((result, time.monotonic() - begun), out)
    out.flush()
    if seconds != LONG:
        time.sleep(0.2)  # a process that stays a while, with what it still has of the connection


class Planned(Exception):
    pass


def expect(condition, text, *values):
    counts["right" if condition else "wrong"] += 1
    if not condition:
        wrong.append(text % values)


def check_equal(pairs, world, device=None):
    """Every rank has what torch.load gives; only the source has a path."""
    noted = {"x": torch.nn.Parameter(torch.ones(4).to(torch.float8_e4m3fn), requires_grad=False), "y": torch.ones(2, dtype=torch.int32).to(torch.uint16)}
    for one in noted.values():
        one.note = "an attribute: torch makes the tensor out of a storage without a dtype"
    torch.save(noted, "noted.pt")
    pairs = [*pairs, ("noted.pt", "noted.pt")]

    def work(rank):
        failed = []
        for source, reference in pairs:
            try:
                wanted = torch.load(reference, map_location=device, weights_only=True)
            except Exception:
                wanted = None
            try:
                found = ckpt.torch.load_broadcast(source if rank == world - 1 else NOWHERE, src=world - 1, device=device, bucket=1 << 12)
            except Exception as error:
                if wanted is not None or NOWHERE in str(error):
                    failed.append("%s: %r" % (source, error))
                continue
            try:
                if wanted is not None:
                    Judge().compare(wanted, found)
            except Exception as error:
                failed.append("%s: %r" % (source, error))
        return failed

    for rank, (failed, _) in enumerate(ranks(world, work)):
        expect(failed == [], "%d ranks, rank %d: %s", world, rank, str(failed)[:600])
    counts["files on %d ranks" % world] += len(pairs)


def write_located(path, location):
    """Storages that say they come from LOCATION."""
    usual = torch.serialization.location_tag
    torch.serialization.location_tag = lambda storage: location
    try:
        torch.save({"a": torch.arange(10.0), "b": [torch.ones(3, dtype=torch.int16)] * 2, "none": torch.empty(0)}, path)
    finally:
        torch.serialization.location_tag = usual


def check_devices(world):
    """Each rank has what torch.load gives with its device as map_location, wherever the file says."""
    write_located("on_meta.pt", "meta")
    write_located("on_cuda.pt", "cuda:1")
    for path, devices in (("mine.pt", ("cpu",)), ("mine.pt", (None, "cpu")), ("on_cuda.pt", ("cpu",)), ("on_meta.pt", ("cpu", None))):
        for mixed in (False, True):
            def work(rank, path=path, devices=devices, mixed=mixed):
                device = devices[(rank if mixed else 0) % len(devices)]
                Judge().compare(torch.load(path, map_location=device, weights_only=True), ckpt.torch.load_broadcast(path if rank == 0 else NOWHERE, device=device))
                return "equal"

            found = [one for one, _ in ranks(world, work)]
            expect(found == ["equal"] * world, "%s to %s, mixed %s: %s", path, devices, mixed, found)

    def numbers_of_meta(rank):
        try:
            return ckpt.torch.load_broadcast("on_meta.pt", device="cpu" if rank else None)
        except ValueError as error:
            return str(error)
    if world > 1:
        found = [one for one, _ in ranks(world, numbers_of_meta)]
        expect(all(isinstance(one, str) and "have no numbers on the rank that reads" in one for one in found), "numbers of meta: %s", found)


def check_errors(world):
    """All ranks raise the same."""
    torch.save({"a": torch.ones(3)}, "cut.pt")
    with open("cut.pt", "r+b") as stream:
        stream.truncate(os.path.getsize("cut.pt") - 300)
    torch.save({"a": Planned}, "class.pt")
    for path in (NOWHERE, "cut.pt", "class.pt"):
        found = [one for one, _ in ranks(world, lambda rank: ckpt.torch.load_broadcast(path))]
        expect(all(isinstance(one, Exception) and type(one) is type(found[0]) and str(one) == str(found[0]) and
                   one.notes == ["on rank 0 of the group"] for one in found), "%s: %s", path, found)
    found = [one for one, _ in ranks(world, lambda rank: ckpt.torch.load_broadcast("good.pt", device="cuda:7" if rank == world - 1 else None))]
    expect(all("cuda" in str(one).lower() and "good.pt" in str(one) for one in found), "a device that is not there: %s", found)

    # one rank is called with other arguments than the rest: it takes part, so that nobody waits for it
    for wrong_one in ({"bucket": 0}, {"bucket": "1"}, {"src": 99}, {"src": None}, {"src": -1}, {"device": "meta"}) + ({"src": 1},) * (world > 1):
        for odd in {0, world - 1}:
            def call(rank, odd=odd, arguments=wrong_one):
                try:
                    return ckpt.torch.load_broadcast("good.pt", **(arguments if rank == odd else {}))
                except (TypeError, ValueError) as error:
                    return "%s: %s" % (type(error).__name__, error)
            found = ranks(world, call)
            expect(all(isinstance(one, str) and one == found[0][0] and seconds < LONG / 2 for one, seconds in found),
                   "rank %d of %d has %s: %s", odd, world, wrong_one, found)

    def later(rank):
        """After an error that was agreed on the group is as good as before."""
        try:
            ckpt.torch.load_broadcast(NOWHERE)
        except ckpt.Error:
            return ckpt.torch.load_broadcast("good.pt")["n"]
        return None
    found = [one for one, _ in ranks(world, later)]
    expect(found == [7] * world, "a load after one that failed: %s", found)


def steps_of(world):
    """Names of the steps of a load of good.pt in buckets of 1 KiB, in their order, of each rank."""
    def work(rank):
        steps = []
        _broadcast._step = steps.append
        ckpt.torch.load_broadcast("good.pt", bucket=1 << 10)
        return steps
    return [steps for steps, _ in ranks(world, work)]


def check_failures(world, every):
    """At each step a rank raises, or is killed: all end, and in time."""
    for rank, steps in enumerate(steps_of(world)):
        expect(len(steps) > 8, "steps of rank %d: %s", rank, steps)
        counts["steps"] += len(steps)
        for number in range(rank * 2 % every, len(steps), every):
            for way in ("raises", "is killed"):
                fail_at(world, rank, number, steps[number], way)
        fail_at(world, rank, 3 + rank, steps[3 + rank], "is stopped")


def fail_at(world, failing, number, name, way):
    ends = {"is killed": signal.SIGKILL, "is stopped": signal.SIGSTOP}

    def work(rank):
        left = [number]

        def step(_):
            left[0] -= 1
            if rank == failing and left[0] < 0:
                if way in ends:
                    os.kill(os.getpid(), ends[way])
                raise Planned("at %s" % name)
        _broadcast._step = step
        ckpt.torch.load_broadcast("good.pt", bucket=1 << 10)
        return "loaded"

    found = ranks(world, work, SECONDS, failing if way == "is stopped" else None)
    what = "rank %d of %d %s at step %d, %s" % (failing, world, way, number, name)
    found[failing] = found[failing] if way == "raises" else (None, 0)
    expect(all(seconds < 2 * SECONDS for _, seconds in found), "%s: seconds %s", what, [seconds for _, seconds in found])
    if way in ends:
        others = [one for rank, (one, _) in enumerate(found) if rank != failing]
        expect(all(isinstance(one, ckpt.Error) and one.status == "PEER" for one in others), "%s: %s", what, others)
    else:
        expect(all(isinstance(one, Planned) and str(one) == "at %s" % name for one, _ in found), "%s: %s", what, [one for one, _ in found])


def check_leaving(world):
    """No rank returns, or raises, before all know how it ends: it may exit at once, and its connections with it."""
    together = _broadcast._Meeting._together

    def run(path, slow, last):
        def work(rank):
            calls = [0]

            def slowly(self, call):
                together(self, call)
                calls[0] += 1
                if rank == slow and calls[0] == last:
                    time.sleep(0.5)
                    calls.append(time.monotonic())
            _broadcast._Meeting._together = slowly
            try:
                end = ckpt.torch.load_broadcast(path if rank == 0 else NOWHERE)["n"]
            except ckpt.Error as error:
                end = error.status
            return end, calls, time.monotonic()
        return [one for one, _ in ranks(world, work)]

    for path, end in (("good.pt", 7), (NOWHERE, "IO")):
        last = run(path, 0, -1)[0][1][0]
        for slow in range(world):
            found = run(path, slow, last)
            known = found[slow][1][-1]
            expect(all(one[0] == end and one[2] >= known for one in found), "%s, rank %d of %d is slow: %s", path, slow, world, found)


def check_group():
    """A group of some ranks, whose source has another number in it; the others do something else."""
    def work(rank):
        group = dist.new_group([1, 3])
        if rank not in (1, 3):
            try:
                ckpt.torch.load_broadcast("good.pt", group=group)
            except (ValueError, RuntimeError):
                return "not in it"
            return None
        made = ckpt.torch.load_broadcast("good.pt" if rank == 3 else NOWHERE, group=group, src=3)["n"]
        try:
            ckpt.torch.load_broadcast(NOWHERE, group=group, src=3)
        except ckpt.Error as error:
            return made, error.__notes__
    found = [one for one, _ in ranks(4, work)]
    expect(found == ["not in it", (7, ["on rank 1 of the group"])] * 2, "a group: %s", found)


def check_guard():
    def work(rank):
        with ckpt.torch.guard():
            return ckpt.torch.load_broadcast("good.pt" if rank == 0 else NOWHERE)["n"]
    found = [one for one, _ in ranks(2, work)]
    expect(found == [7, 7], "under a guard: %s", found)


def status(name):
    with open("/proc/self/status", encoding="utf-8") as stream:
        return next(int(line.split()[1]) << 10 for line in stream if line.startswith(name))


def read_bytes():
    with open("/proc/self/io", encoding="utf-8") as stream:
        return int(stream.readline().split()[1])


def deflated(path, target):
    with zipfile.ZipFile(path) as source, zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as out:
        for name in source.namelist():
            out.writestr(name, source.read(name))


def check_memory_and_reading():
    size = 96 << 20
    for path, each in (("big.pt", 1000), ("few.pt", size // 64)):
        torch.save({"a": torch.ones(size // 8), "b": [torch.full((each,), float(i)) for i in range(size // 8 // each)]}, path)
    ckpt.split("few.pt", "big_dcp", ranks=4)     # each piece takes 2 KiB in the table, too
    deflated("big.pt", "deflated.pt")
    for path, count in (("big.pt", size // 8000), ("big_dcp", 8), ("deflated.pt", size // 8000)):
        check_memory_and_reading_of(path, count)


def total(path):
    """Bytes of a file, or of all files in a folder."""
    return os.path.getsize(path) if os.path.isfile(path) else sum(os.path.getsize(os.path.join(path, name)) for name in os.listdir(path))


def check_memory_and_reading_of(path, count):
    """Beside the result at most two buckets; the source is read once, and by its rank alone."""
    bucket, slack = 8 << 20, 6 << 20

    def work(rank):
        small = ckpt.torch.load_broadcast("good.pt")
        usual = -read_bytes()
        if rank == 0:
            ckpt.torch.load(path)
        usual += read_bytes()
        before, read = status("VmRSS"), read_bytes()
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10
        made = ckpt.torch.load_broadcast(path if rank == 0 else NOWHERE, bucket=bucket)
        read = read_bytes() - read
        most = max(status("VmHWM"), peak)
        return usual, most - status("VmRSS"), read, bool((made["a"] == 1).all()) and float(made["b"][-1][0]), small["n"]

    for rank, (found, _) in enumerate(ranks(2, work)):
        if not isinstance(found, tuple):
            expect(False, "memory, %s: %r", path, found)
            continue
        usual, above, read, last, _ = found
        expect(last == float(count - 1), "%s, rank %d: the last value is %r", path, rank, last)
        expect(above <= 2 * bucket + slack, "%s, rank %d: %d bytes beside the result", path, rank, above)
        counts["KiB beside the result, %s, rank %d" % (path, rank)] = above >> 10
        counts["KiB read, %s, rank %d" % (path, rank)] = read >> 10
        # what comes through the connections is not counted by the kernel
        # of a compressed archive of records that are next to nothing, most is the directory, which libzip reads, too
        most = 1.01 * usual if path == "deflated.pt" else 1.01 * min(usual, total(path)) + (1 << 20)
        expect(read <= (most if rank == 0 else 1 << 20), "%s of %d bytes, rank %d reads %d bytes, load() %d", path, total(path), rank, read, usual)


def write_mine():
    """A file that has something of each kind."""
    base, parameter = torch.arange(5000.0), torch.nn.Parameter(torch.ones(3, 3))
    torch.save({"base": base, "view": base[10:40:3], "turned": base[:12].view(3, 4).t(), "again": base, "parameter": parameter, "tied": parameter,
                "fixed": torch.nn.Parameter(torch.ones(2), requires_grad=False), "grad": torch.ones(2, requires_grad=True), "empty": torch.empty(0),
                "sparse": torch.eye(3).to_sparse(), "csr": torch.eye(3).to_sparse_csr(), "quantized": torch.quantize_per_tensor(torch.ones(3), 1.0, 0, torch.qint8),
                "meta": torch.empty(3, device="meta"), "conj": torch.ones(2, dtype=torch.complex64).conj(), "model": torch.nn.Linear(3, 3).state_dict(),
                "bfloat16": torch.ones(3, dtype=torch.bfloat16), "values": [1, "a", None, (2.5,), {1: True}]}, "mine.pt")


def main():
    torch.set_num_threads(1)
    write_mine()
    with open(sys.argv[1], encoding="utf-8") as stream:
        pairs = [tuple(line.rstrip("\n").split("\t")) for line in stream]
    torch.save({"a": torch.arange(1000.0), "b": [torch.full((n,), n) for n in range(1, 40)], "n": 7, "s": torch.eye(3).to_sparse()}, "good.pt")
    for world, some, device in ((1, pairs[::9], None), (2, pairs, None), (2, pairs[::3], "cpu"), (4, pairs[::9], None), (8, pairs[::27], "cpu")):
        check_equal([("mine.pt", "mine.pt")] + some, world, device)
    check_devices(1)
    check_devices(2)
    check_devices(3)
    check_errors(2)
    check_errors(3)
    check_failures(3, 1 if "every-step" in sys.argv else 6)
    check_leaving(2)
    check_leaving(3)
    check_group()
    check_guard()
    check_memory_and_reading()
    expect(not glob.glob("meeting*"), "left behind: %s", glob.glob("meeting*"))
    for text in wrong[:40]:
        print("BAD\t%s" % text.replace("\n", " "))
    right, failed = counts.pop("right"), counts.pop("wrong", 0)
    print("DONE\t%d\t%d\t%s" % (right, failed, ", ".join("%d %s" % (n, name) for name, n in sorted(counts.items()))))


if __name__ == "__main__":
    main()

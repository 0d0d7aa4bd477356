# SPDX-License-Identifier: Apache-2.0
"""ckpt broadcast over TCP or UCX, row by row of the table of failures in docs/broadcast.md: tcp_rows.py [ucx]

Here are the rows that are of one rank's disk, source or memory, and of bytes that change on their way. Ranks that do not meet, that die
or are interrupted are in tcp.py, tcp_kills.py and tcp_hosts.py. CKPT_FAULTS_LIB names faults.c's library.
"""

import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

import failures
import ranks
import tcp
from tcp import HOST, SLOW, TRANSPORT, Job, empty_folder, expect, expect_empty, long_source, note, same, timed

FAULTS = os.environ.get("CKPT_FAULTS_LIB")
SIZE = 24 << 20
TARGET = "/%r.pt"
SPARE = 4                                           # seconds, for processes that start and end on a busy machine


def first_says(label, ended, status, *patterns):
    """All end with STATUS, and rank 0 prints the reason."""
    expect(label, ended, status)
    expect(label, {0: ended[0]}, status, *patterns)


def fault(kind, path, at=1):
    """Variables for a rank with a fault."""
    preload = ":".join(filter(None, [os.environ.get("LD_PRELOAD"), FAULTS]))
    checks = ":".join(filter(None, [os.environ.get("ASAN_OPTIONS"), "verify_asan_link_order=0"]))
    return {"LD_PRELOAD": preload, "CKPT_FAULT": kind, "CKPT_FAULT_PATH": path, "CKPT_FAULT_AT": str(at), "ASAN_OPTIONS": checks}


def start_with(job, victim, faulty, *arguments):
    for rank in range(job.size):
        job.start(rank, *arguments, **(faulty if rank == victim else {}))
    return job


# ---- the source


def touch(path):
    os.utime(path, (1, 1))


def replace(path):
    shutil.copy(path, path + ".new")
    os.rename(path + ".new", path)


def write_and_put_mtime_back(path):
    before = os.stat(path)
    with open(path, "r+b") as out:
        out.seek(SIZE - 5)
        out.write(b"other")
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


def check_source(work, _):
    """It changes on the way: found by whoever reads it, and told to all."""
    for change in (touch, replace, write_and_put_mtime_back, lambda path: os.truncate(path, 1 << 20)):
        for readers in ("1", "3"):
            out, source = empty_folder(work, "source"), long_source(work, SIZE)
            job = Job(work, 3).start_all(*SLOW, "--readers", readers, source, out + TARGET)
            job.wait_for_bytes(out)
            change(source)
            first_says("a source that changes", job.end(), 3, r"rank \d \(%s\): .*long.pt: " % HOST)
            expect_empty("source", out)


# ---- the destination


def check_small_disk(work, source):
    with failures.Tmpfs(work, "4M") as disk:
        if not disk.made:
            print("not looked at: a disk that is too small (nothing can be mounted)")
            return
        job = Job(work, 3).start_all(source, disk.top + "/%r/a.pt")
        first_says("too small", job.end(), 4, r"rank 1 \(%s\): needs 9.0 MiB, 4.0 MiB are free in '" % HOST)
        for rank in range(3):
            note(os.listdir("%s/%d" % (disk.top, rank)) == [], "too small: something is left")
        job = Job(work, 3).start_all("--keep-going", source, disk.top + "/%r/a.pt")
        first_says("too small, the others go on", job.end(), 9, r"rank 1 \(")
        note(os.listdir(disk.small) == [], "too small, the others go on: something is left")
        note(all(same(source, "%s/%d/a.pt" % (disk.top, rank)) for rank in (0, 2)), "too small, the others go on: other bytes")
    shutil.rmtree(disk.top)


def check_full_disk(work, _):
    """There was room, but somebody else takes it."""
    source = long_source(work, SIZE)
    for flags, status in (((), 4), (("--keep-going",), 9)):
        with failures.Tmpfs(work, "%dK" % ((SIZE >> 10) + 1024)) as disk:
            if not disk.made:
                return
            job = Job(work, 3).start_all(*SLOW, *flags, source, disk.top + "/%r/a.pt")
            job.wait_for_bytes(disk.top)
            subprocess.run("cat /dev/zero >%s/filler" % disk.small, shell=True, stderr=subprocess.DEVNULL)
            first_says("full on the way", job.end(), status, r"rank 1 \(%s\): .*/1/a.pt: cannot write: No space left on device" % HOST)
            os.unlink(disk.small + "/filler")
            note(os.listdir(disk.small) == [], "full on the way: something is left")
            for rank in (0, 2):
                there = os.path.exists("%s/%d/a.pt" % (disk.top, rank))
                note(there == (status == 9), "full on the way, %s: rank %d has %s" % (flags, rank, there and "it" or "nothing"))
                note(not there or same(source, "%s/%d/a.pt" % (disk.top, rank)), "full on the way: other bytes")
        shutil.rmtree(disk.top)


def check_memory_limit(work, _):
    """What lies in a tmpfs is memory of the job: refused, where the kernel would end a rank."""
    found = failures.memory_group()
    if not found or not os.path.isdir("/dev/shm"):
        print("not looked at: limits of memory (no memory cgroup can be made, or there is no /dev/shm)")
        return
    group, limit = found
    source, target = long_source(work, 320 << 20), "/dev/shm/ckpt-test-%d-%%r.pt" % os.getpid()
    before = ("sh", "-c", 'echo $$ >"$0/cgroup.procs"; exec "$@"', group)
    try:
        ended = Job(work, 2).start_all(source, target, before=before).end()
        first_says("memory limit", ended, 4, r"rank 0 \(", "of memory, as the destination is a tmpfs", re.escape(limit))
        note(not any(os.path.exists(target.replace("%r", str(rank))) for rank in range(2)), "memory limit: something is left")
    finally:
        time.sleep(0.2)
        os.rmdir(group)


def check_names(work, source):
    """The name is taken, something is in the way, a folder is missing on one rank, a file where it should be."""
    out = empty_folder(work, "names")
    with open(out + "/1.pt", "w") as stream:
        stream.write("mine")
    ended = Job(work, 3).start_all("--if-exists", "error", source, out + TARGET).end()
    first_says("the name is taken", ended, 4, r"rank 1 \(%s\): .*/1.pt" % HOST)
    note(os.listdir(out) == ["1.pt"] and open(out + "/1.pt").read() == "mine", "the name is taken: %s" % os.listdir(out))
    os.unlink(out + "/1.pt")
    os.mkdir(out + "/1.pt")
    os.mkdir(out + "/1.pt/source.pt")
    first_says("something is in the way", Job(work, 3).start_all(source, out + TARGET).end(), 4, r"rank 1 \(%s\): " % HOST)
    shutil.rmtree(out)
    out = empty_folder(work, "names")
    with open(out + "/1", "w"):
        pass
    ended = Job(work, 3).start_all("--mkdir", source, out + "/%r/new/a.pt").end()
    first_says("made folders go again", ended, 4, r"rank 1 \(%s\): " % HOST)
    note(os.listdir(out) == ["1"], "made folders go again: %s" % os.listdir(out))
    shutil.rmtree(out)


def check_last_step(work, source):
    """One cannot give the name: the others keep theirs, or, with --all-or-none, none has it."""
    for flags, kept in (((), [0, 2]), (("--all-or-none",), [])):
        out = empty_folder(work, "last")
        job = start_with(Job(work, 3), 1, fault("link", out), *flags, source, out + TARGET)
        first_says("no name", job.end(), 4, r"rank 1 \(%s\): .*cannot name the output" % HOST)
        there = [rank for rank in range(3) if os.path.exists("%s/%d.pt" % (out, rank))]
        note(there == kept and all(same(source, "%s/%d.pt" % (out, rank)) for rank in there), "no name, %s: %s" % (flags, there))
        shutil.rmtree(out)


# ---- bytes that change


def check_damage(work, source):
    """On the way: a byte of a packet, of which the kernel's checksum knows nothing; on the disk: only who reads again sees it."""
    net = {"UCX_TLS": "tcp"}                        # and not memory, out of which nothing is received
    for flags in ((), ("--keep-going",)):
        for at in (1, 5):
            out = empty_folder(work, "damage")
            job = Job(work, 3)
            for rank in range(3):
                job.start(rank, *flags, source, out + TARGET, **net, **(fault("flip", "", at) if rank == 1 else {}))
            first_says("other bytes came", job.end(), 5, r"rank \d \(%s\): other bytes came than rank 0 has" % HOST)
            expect_empty("other bytes came", out)
    for flags, status in ((("--verify", "reread"), 5), ((), 0)):
        out = empty_folder(work, "damage")
        job = start_with(Job(work, 3), 2, fault("spoil", out, 3), *flags, source, out + TARGET)
        ended = job.end()
        if status == 5:
            first_says("the disk has other bytes", ended, 5,
                       r"rank 2 \(%s\): .*/2.pt: .*the disk gives back other bytes than were written.*[0-9a-f]{8}.*wanted [0-9a-f]{8}" % HOST)
            expect_empty("the disk has other bytes", out)
        else:
            expect("a disk that nobody reads", ended, 0)
            note(not same(source, out + "/2.pt"), "a disk that nobody reads: nothing was spoiled")
            shutil.rmtree(out)


# ---- ranks


def check_ranks(work, source):
    """Two of one rank, other counts, other versions of SRC, and a signal of each kind."""
    out = empty_folder(work, "ranks")
    for way in ("tcp", "file"):
        job = Job(work, 3, way)
        job.start(0, "--init-timeout", "4", source, out + TARGET)
        first = job.start(1, "--init-timeout", "4", source, out + TARGET)
        job.processes["1, first"] = first
        job.start(1, "--init-timeout", "4", source, out + TARGET)
        expect("twice, " + way, job.end(), 6, r"two processes say that they are rank 1")
        job = Job(work, 2, way)
        job.start(0, "--init-timeout", "4", source, out + TARGET)
        job.size = 3
        job.start(1, "--init-timeout", "4", source, out + TARGET)
        expect("other counts, " + way, job.end(), 6, r"rank 1 \(%s.* of 3|of 3 ranks|3" % HOST)
    expect_empty("ranks", out)
    for number in (signal.SIGHUP, signal.SIGTERM, signal.SIGINT):
        for victim in range(3):
            out, long = empty_folder(work, "signal"), long_source(work, SIZE)
            job = Job(work, 3).start_all(*SLOW, long, out + TARGET)
            job.wait_for_bytes(out)
            job.processes[victim].send_signal(number)
            ended, took = timed(job)
            note(took < 2, "%s: took %.1f s" % (number.name, took))
            first_says("%s, rank %d" % (number.name, victim), ended, 128 + number, "interrupted, nothing was written")
            expect_empty(number.name, out)


# ---- disks that hang


def check_hanging_disk(work, _):
    """The process is there and answers, its disk does not: all end in time, and it says so itself. While it syncs it can
    say nothing: it does not answer."""
    timeout, long = 3, long_source(work, SIZE)
    for kind, victim, words in (("hang-read", 0, "read nothing for 2 s, .*source"), ("hang-write", 1, "written nothing for 2 s, .*destination"),
                                ("hang-write", 0, "written nothing for 2 s, .*destination"), ("hang-sync", 2, "no answer from rank 2")):
        out, label = empty_folder(work, "hanging"), "%s on rank %d" % (kind, victim)
        faulty = fault(kind, long if kind == "hang-read" else out, 1 if kind == "hang-sync" else 3)
        job = start_with(Job(work, 3), victim, faulty, "--timeout", str(timeout), long, out + TARGET)
        process = job.processes.pop(victim)
        ended, took = timed(job, 30)
        expect(label, ended, 7, (r"rank %d \(%s\): this rank has " % (victim, HOST) if kind != "hang-sync" else "") + words)
        note(took < 1.25 * timeout + SPARE, "%s: the others ended after %.1f s" % (label, took))
        if kind != "hang-sync":                     # which ends when the disk lets it
            job.processes[victim] = process
            expect(label + ", this rank", job.end(timeout + SPARE), 7, "this rank has " + words)
        process.kill()
        process.communicate()
        expect_empty(label, out)
        print("%s, %s: the others ended after %.1f s (--timeout %d)" % (TRANSPORT, label, took, timeout))


def check_slow_disk(work, _):
    """A node whose disk is slower than the others' is named; if all are alike, none is."""
    long = long_source(work, SIZE)
    for victims, wanted in (([1], r"all waited ([0-9.]+) of ([0-9.]+) s for the disk of rank 1 \(%s\)" % HOST), ([0, 1, 2], None), ([], None)):
        out = empty_folder(work, "slow")
        job = Job(work, 3)
        for rank in range(3):
            job.start(rank, "--chunk", "1M", long, out + TARGET, **(fault("slow-write", out, 300) if rank in victims else {}))
        ended = job.end()
        expect("slow disk", ended, 0)
        said = [rank for rank in range(3) if "all waited" in ended[rank][1]]
        note(said == ([0] if wanted else []), "slow disks %s: %s" % (victims, ended))
        if wanted:
            found = re.search(wanted, ended[0][1])
            note(found and float(found[1]) <= float(found[2]), "slow disk: %r" % ended[0][1])
        shutil.rmtree(out)


def check_descriptors(work, source):
    """Rank 0 needs more open files than a process gets by itself, and not more than it may have; or it says how many."""
    if not shutil.which("prlimit"):
        print("not looked at: limits of open files (no prlimit)")
        return
    for limit, status, words in (("20:4096", 0, ""), ("20:20", 6, r"rank 0 has a connection to each of 3 ranks, and may open 20 files: raise that to \d+ \(ulimit -n\)")):
        out = empty_folder(work, "descriptors")
        job = Job(work, 3)
        for rank in range(3):
            job.start(rank, "--init-timeout", "20", source, out + TARGET, before=("prlimit", "--nofile=" + limit) if rank == 0 else ())
        ended, took = timed(job)
        expect("open files", ended, status, words)          # all ranks say it, and none waits for the others
        note(took < 10, "open files: took %.1f s" % took)
        shutil.rmtree(out)
    job = Job(work, 2)
    for rank in range(2):
        job.start(rank, "--timeout", "2", "--target", "null", source, before=("prlimit", "--nofile=8:8") if rank == 1 and TRANSPORT == "tcp" else ())
    if TRANSPORT == "tcp":
        expect("open files of a rank", job.end(), 6, "cannot accept a connection: this process may open too few files")
    else:
        expect("as many open files as there are", job.end(), 0)
    if TRANSPORT == "ucx":                              # which ends the process where it cannot make a pipe
        job = Job(work, 2)
        for rank in range(2):
            job.start(rank, "--target", "null", source, before=("prlimit", "--nofile=10:10") if rank == 1 else ())
        expect("open files of UCX", job.end(), 6, r"this process may open 10 files: raise that to \d+ .ulimit -n.")


# ---- UCX


def check_abort(work, _):
    """An assertion of UCX that fails ends the broadcast, not the process: all say so, and nothing is left."""
    if TRANSPORT != "ucx":
        return
    long = long_source(work, SIZE)
    for victim, at, status in ((0, 1, 6), (1, 1, 6), (2, 40, 7), (1, 200, 7)):      # as they meet, or later
        out, label = empty_folder(work, "abort"), "UCX gives up on rank %d, call %d" % (victim, at)
        ended, took = timed(start_with(Job(work, 3), victim, fault("ucx-abort", "", at), "--chunk", "64K", long, out + TARGET))
        expect(label, {victim: ended.pop(victim)}, status, "UCX has given up by an assertion of its own")
        expect(label, ended, status, r"rank %d \(%s\)" % (victim, HOST))
        note(took < SPARE, "%s: took %.1f s" % (label, took))
        expect_empty(label, out)


def check_shared_memory(work, source):
    """Where ranks of one host cannot share memory, UCX gives up; what it says names the cause and a way on."""
    if TRANSPORT != "ucx" or os.geteuid() != 0 or not shutil.which("setpriv") or not shutil.which("unshare"):
        print("not looked at: memory that cannot be shared (over UCX, as root)")
        return
    os.chmod(work, 0o755)
    user = ("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups")
    full = ("unshare", "--mount", "sh", "-c", 'mount -t tmpfs -o size=64k tmpfs /dev/shm && exec "$@"', "sh")
    for label, before, status, more, words in (
            ("two users", user, 6, {}, "but shares no memory: another user's, or in another container. .--transport tcp"),
            ("two users, told", user, 0, {"UCX_TLS": "tcp"}, ""),
            ("a full /dev/shm", full, 6, {"UCX_TLS": "posix,tcp"}, "is /dev/shm full. .--transport tcp"),
            ("a full /dev/shm, told", full, 0, {"UCX_TLS": "tcp"}, "")):
        job = Job(work, 2)
        for rank in range(2):
            job.start(rank, "--target", "null", source, before=before if rank == 1 else (), **more)
        ended = job.end()
        if ended[1][0] in (1, 126, 127) and "Permission denied" in ended[1][1]:
            print("not looked at: %s (%s)" % (label, ended[1][1].strip()))
            continue
        expect(label, ended, status, "")
        note(any(re.search(words, err) for _, err in ended.values()), "%s: %r" % (label, ended))


def main():
    base = os.environ.get("CKPT_TEST_DIR") or None
    if base:
        os.makedirs(base, exist_ok=True)
    if not FAULTS:
        print("CKPT_FAULTS_LIB names no library: left out is what it makes go wrong")
    with tempfile.TemporaryDirectory(prefix="tcp-rows-", dir=base) as work:
        source = ranks.make_file(os.path.join(work, "source.pt"), (9 << 20) + 12345)
        for check in (check_source, check_small_disk, check_full_disk, check_memory_limit, check_descriptors, check_names, check_ranks, check_shared_memory):
            check(work, source)
        for check in (check_last_step, check_damage, check_hanging_disk, check_slow_disk, check_abort) if FAULTS else ():
            check(work, source)
    print("%d failures" % len(tcp.FAILURES))
    return 1 if tcp.FAILURES else 0


if __name__ == "__main__":
    sys.exit(main())

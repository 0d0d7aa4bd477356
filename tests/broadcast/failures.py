# SPDX-License-Identifier: Apache-2.0
"""What may go wrong between real processes, one by one: the exit status, who is named, and that nothing is left."""

import os
import signal
import subprocess
import sys
import time

from ranks import (CKPT, command, environment, finish, kill_all, make_file, mpirun, note, ranks_of, run, same,
                   send, start, wait_for_bytes)

SLOW = ("--chunk", "4K", "--depth", "1")  # for long enough that something can happen meanwhile
LONG = 24 << 20                           # ... but no longer: an interruption is told at the end, as it is less than a vote's GiB
TARGET = "/%r.pt"


def expect(label, done, status, *texts):
    found, err = done
    note(found == status, "%s: %s, wanted %d: %s" % (label, found, status, err[-600:]))
    for text in texts:
        note(text in err, "%s: no '%s' in: %s" % (label, text, err[-600:]))


def empty_folder(work, name):
    path = os.path.join(work, name)
    os.mkdir(path)
    return path


def expect_empty(label, folder):
    note(os.listdir(folder) == [], "%s: something is left: %s" % (label, os.listdir(folder)))


def long_source(work):
    """Holes: it takes long to carry and no room."""
    path = os.path.join(work, "long.pt")
    with open(path, "wb") as out:
        out.truncate(LONG)
    return path


def on_the_way(argv, ranks, folder, happen):
    """Something happens when the bytes are on their way into FOLDER; HAPPEN gets the ranks' process ids."""
    job = start(argv)
    pids = ranks_of(job, ranks)
    wait_for_bytes(job, pids, folder)
    time.sleep(0.1)
    happen(pids)
    done = finish(job, 180)
    kill_all(pids)
    return done


def check_source(work, _):
    out, source = empty_folder(work, "source"), long_source(work)
    expect("no source", mpirun(3, source + "x", out + TARGET), 3, "rank 0 (", "long.ptx: cannot open")
    done = on_the_way(command(3, *SLOW, source, out + TARGET), 3, out, lambda _: os.truncate(source, 1 << 20))
    expect("a source cut on the way", done, 3, "rank 0 (", "long.pt: ")
    expect_empty("source", out)


def check_signal(work, _):
    """One rank alone gets it: that is how a node is drained."""
    out, source = empty_folder(work, "signal"), long_source(work)
    for number in (signal.SIGTERM, signal.SIGINT):
        done = on_the_way(command(3, *SLOW, source, out + TARGET), 3, out, lambda pids: send(pids[1], number))
        expect(number.name, done, 128 + number, "interrupted, nothing was written")
    expect_empty("signal", out)


def check_hanging(work, _):
    out, source = empty_folder(work, "hangs"), long_source(work)
    job = start(command(3, *SLOW, "--timeout", "2", source, out + TARGET))
    pids = ranks_of(job, 3)
    wait_for_bytes(job, pids, out)
    time.sleep(0.1)
    begin = time.monotonic()
    send(pids[1], signal.SIGSTOP)
    others = [pids[0], pids[2]]
    while any(os.path.exists("/proc/%d" % pid) for pid in others) and time.monotonic() - begin < 30:
        time.sleep(0.05)
    took = time.monotonic() - begin
    kill_all(pids)                                  # Open MPI may wait for a stopped rank
    expect("a rank hangs", finish(job, 30), 7, "no bytes came for 2 s", "no answer from rank 1 (")
    note(took < 12, "a rank hangs: the others ended after %.1f s" % took)
    expect_empty("hangs", out)


def check_setup(work, source):
    """Ranks that do not fit together, or that never come."""
    out = empty_folder(work, "setup")
    one = [CKPT, "broadcast", "--timeout", "10", "--init-timeout", "10"]
    short = [CKPT, "broadcast", "--init-timeout", "2"]
    last = [source, out + TARGET]
    expect("different chunks", together(one + ["--chunk", "1M"] + last, one + ["--chunk", "2M"] + last), 6,
           "was started with other options than rank 0")
    expect("a wrong count", mpirun(2, "--world-size", "3", *last), 6, "MPI says rank ", " of 2, ")
    expect("a rank that never comes", together(["sleep", "5"], short + last), 6, "MPI_Init did not come back within 2 s")
    env = environment(CKPT_MPI_PLUGIN=work + "/nothing.so")
    done = subprocess.run(["mpirun", "--oversubscribe", "-np", "2", *one, *last], env=env, stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, text=True, timeout=60)
    expect("no transport", (done.returncode, done.stderr), 8, "cannot load MPI")
    expect_empty("setup", out)


def together(first, second):
    return finish(start(["mpirun", "--oversubscribe", "-np", "1", *first, ":", "-np", "1", *second]), 60)


class Tmpfs:
    """A small disk for rank 1. None where nothing may be mounted."""

    def __init__(self, work, size):
        self.top = empty_folder(work, "tmpfs-" + size)
        for rank in range(3):
            os.mkdir("%s/%d" % (self.top, rank))
        self.small = self.top + "/1"
        self.made = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=" + size, "tmpfs", self.small],
                                   stderr=subprocess.DEVNULL).returncode == 0

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.made:
            subprocess.run(["umount", self.small], check=True)


def check_small_disk(work, source):
    with Tmpfs(work, "4M") as disk:
        if not disk.made:
            print("not looked at: a disk that is too small (nothing can be mounted)")
            return
        expect("too small", mpirun(3, source, disk.top + "/%r/a.pt"), 4, "rank 1 (", "): needs 9.0 MiB, 4.0 MiB are free in '")
        for rank in range(3):
            expect_empty("too small", "%s/%d" % (disk.top, rank))
        expect("the others go on", mpirun(3, "--keep-going", source, disk.top + "/%r/a.pt"), 9, "rank 1 (")
        expect_empty("the others go on", disk.small)
        note(all(same(source, "%s/%d/a.pt" % (disk.top, rank)) for rank in (0, 2)), "the others go on: other bytes")


def check_full_disk(work, _):
    """There was room, but somebody else takes it."""
    source = long_source(work)
    with Tmpfs(work, "%dK" % ((LONG >> 10) + 1024)) as disk:
        if not disk.made:
            return
        done = on_the_way(command(3, *SLOW, source, disk.top + "/%r/a.pt"), 3, disk.top,
                          lambda _: subprocess.run("cat /dev/zero >%s/filler" % disk.small, shell=True,
                                                   stderr=subprocess.DEVNULL))
        expect("full on the way", done, 4, "rank 1 (", "/1/a.pt: cannot write: No space left on device")
        os.unlink(disk.small + "/filler")
        for rank in range(3):
            expect_empty("full on the way", "%s/%d" % (disk.top, rank))


def memory_group():
    """A memory cgroup of 256 MiB below our own, enough for ThreadSanitizer's memory: its folder and the file with the
    limit, or None."""
    with open("/proc/self/cgroup") as lines:
        groups = dict(line.rstrip("\n").split(":", 2)[1:] for line in lines)
    for key, top, limit in (("memory", "/sys/fs/cgroup/memory", "memory.limit_in_bytes"), ("", "/sys/fs/cgroup", "memory.max")):
        folder = "%s%s/ckpt-test-%d" % (top, groups.get(key, "/"), os.getpid())
        if not os.path.exists(top + "/cgroup.procs"):   # a plain folder, around those of version 1
            continue
        try:
            os.mkdir(folder)
        except OSError:
            continue
        try:
            with open(os.path.join(folder, limit), "w") as out:
                out.write(str(256 << 20))
            return folder, limit
        except OSError:
            os.rmdir(folder)
    return None


def check_memory_limit(work, _):
    """What lies in a tmpfs is memory of the job: refused, where the kernel would end a rank."""
    found = memory_group()
    if not found or not os.path.isdir("/dev/shm"):
        print("not looked at: limits of memory (no memory cgroup can be made, or there is no /dev/shm)")
        return
    folder, limit = found
    source = make_file(os.path.join(work, "large.pt"), 1)
    os.truncate(source, 320 << 20)
    target = "/dev/shm/ckpt-test-%d.pt" % os.getpid()
    try:
        done = finish(start(["sh", "-c", 'echo $$ >"$0/cgroup.procs"; exec "$@"', folder,
                             *command(2, source, target)]), 60)
        expect("memory limit", done, 4, "rank 0 (", "of memory, as the destination is a tmpfs", limit)
        note(not os.path.exists(target), "memory limit: something is left")
    finally:
        time.sleep(0.2)
        os.rmdir(folder)


if __name__ == "__main__":
    sys.exit(run(check_source, check_signal, check_hanging, check_setup, check_small_disk, check_full_disk,
                 check_memory_limit))

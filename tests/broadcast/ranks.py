# SPDX-License-Identifier: Apache-2.0
"""Broadcasts over MPI, as a user starts them: what the tests here share."""

import os
import random
import shutil
import signal
import subprocess
import tempfile
import time

CKPT = os.path.abspath(os.environ.get("CKPT", "ckpt"))
FAILURES = []


def note(condition, text):
    if not condition:
        FAILURES.append(text)
        print("FAIL", text, flush=True)


def environment(**more):
    env = dict(os.environ, OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1", **more)
    env.setdefault("OMPI_MCA_rmaps_base_oversubscribe", "1")
    env.setdefault("ASAN_OPTIONS", "detect_leaks=0")    # MPI's own; ours are looked for where ranks are threads
    return env


def command(ranks, *arguments, before=()):
    """Of RANKS ranks, whose own command may stand behind others."""
    return ["mpirun", "--oversubscribe", "-np", str(ranks), *before, CKPT, "broadcast", *arguments]


def mpirun(ranks, *arguments, before=()):
    """Exit status and messages."""
    return finish(start(command(ranks, *arguments, before=before)), 120)


def start(argv):
    return subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment())


def finish(job, seconds):
    try:
        err = job.communicate(timeout=seconds)[1]
    except subprocess.TimeoutExpired:
        job.kill()
        err = "no end within %d s: %s" % (seconds, job.communicate()[1])
    return job.returncode, err


def ranks_of(job, count=0, seconds=10):
    """Process ids of ckpt below mpirun, once there are COUNT."""
    end = time.monotonic() + seconds
    while True:
        found = subprocess.run(["pgrep", "-P", str(job.pid)], stdout=subprocess.PIPE, text=True).stdout.split()
        if len(found) >= count or time.monotonic() > end:
            return sorted(map(int, found))
        time.sleep(0.01)


def writes(pid, folder):
    """Has it begun with a file? One without a name, or in a folder that is hidden."""
    try:
        links = [os.readlink("/proc/%d/fd/%s" % (pid, fd)) for fd in os.listdir("/proc/%d/fd" % pid)]
    except OSError:
        return False
    return any(link.startswith(folder) and ("/#" in link or ".ckpt-" in link) for link in links)


def wait_for_bytes(job, pids, folder, seconds=60):
    """Until one of the ranks writes into FOLDER, or a folder below."""
    end = time.monotonic() + seconds
    while job.poll() is None and not any(writes(pid, folder) for pid in pids) and time.monotonic() < end:
        time.sleep(0.001)


def is_alive(pid):
    try:
        with open("/proc/%d/stat" % pid) as stat:
            return stat.read().rpartition(")")[2].split()[0] not in "ZT"
    except OSError:
        return False


def send(pid, number):
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        pass


def kill_all(pids):
    for pid in pids:
        send(pid, signal.SIGKILL)


def same(left, right):
    return subprocess.run(["cmp", "-s", left, right]).returncode == 0


def same_tree(left, right):
    return subprocess.run(["diff", "-rq", "-x", ".ckpt-staged", left, right],
                          stdout=subprocess.DEVNULL).returncode == 0


def make_file(path, size, seed=1):
    with open(path, "wb") as out:
        out.write(random.Random(seed).randbytes(size))
    return path


def run(*checks):
    """Each with a work folder and a source of 9 MiB and a bit."""
    plugin = os.path.join(os.path.dirname(CKPT), "ckpt-mpi.so")
    if not shutil.which("mpirun") or not (os.path.exists(plugin) or os.environ.get("CKPT_MPI_PLUGIN")):
        print("skipped: no mpirun, or no ckpt-mpi.so beside ckpt")
        return 77
    base = os.environ.get("CKPT_TEST_DIR") or None
    if base:
        os.makedirs(base, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="mpi-", dir=base) as work:
        source = make_file(os.path.join(work, "source.pt"), (9 << 20) + 12345)
        for check in checks:
            check(work, source)
    print("%d failures" % len(FAILURES))
    return 1 if FAILURES else 0

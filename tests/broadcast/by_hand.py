# SPDX-License-Identifier: Apache-2.0
"""ckpt broadcast by processes that nobody's launcher has started, which meet in a folder: by_hand.py

What they carry over is NCCL. Without a GPU it is looked at how they meet, and that all hear why they cannot go on;
with the doubles of CUDA and NCCL in CKPT_DOUBLES, whose ranks do not reach beyond one process, also what they decide.
"""

import json
import os
import random
import re
import signal
import socket
import subprocess
import sys
import tempfile
import time

CKPT = os.path.abspath(os.environ.get("CKPT", "ckpt"))
DOUBLES = os.environ.get("CKPT_DOUBLES", "")
HOST = re.escape(socket.gethostname())
LAUNCHERS = re.compile(r"CKPT_|SLURM_|OMPI_|PMIX?_|TORCHELASTIC_|JOB_COMPLETION_INDEX$|(LOCAL_)?RANK$|WORLD_SIZE$")
FAILURES = []


def note(condition, text):
    if not condition:
        FAILURES.append(text)
        print("FAIL", text)


def environment(**more):
    env = {name: value for name, value in os.environ.items() if not LAUNCHERS.match(name)}
    env["CKPT_CUDA_LIB"] = "/nowhere/libcuda.so.1"      # the same on machines with a GPU
    return dict(env, **more)


class Ranks:
    """Processes, and what became of them."""

    def __init__(self, work):
        self.folder = os.path.join(work, "meet")
        self.source = os.path.join(work, "source.pt")
        self.out = os.path.join(work, "%r.pt")
        self.processes = {}

    def start(self, name, rank, size, *arguments, key="K", **more):
        more.setdefault("FAKE_CUDA_FIRST", str(rank))   # ranks have GPUs of their own
        command = [CKPT, "broadcast", "--rank", str(rank), "--world-size", str(size), "--rdzv", "file:" + self.folder,
                   "--job-key", key, *arguments, self.source, self.out]
        self.processes[name] = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
                                                env=environment(**more))
        return self.processes[name]

    def end(self):
        """name -> (exit status, messages)"""
        ended = {}
        for name, process in self.processes.items():
            try:
                err = process.communicate(timeout=60)[1]
            except subprocess.TimeoutExpired:
                process.kill()
                err = process.communicate()[1] + "(hangs)"
            ended[name] = (process.returncode, err)
        self.processes = {}
        return ended

    def left(self):
        return [os.path.join(folder, name) for folder, _, names in os.walk(self.folder) for name in names]

    def wait_for(self, pattern):
        """... a file of that name in the folder."""
        end = time.monotonic() + 20
        while time.monotonic() < end:
            if any(re.search(pattern, name) for name in self.left()):
                return
            time.sleep(0.01)
        note(False, "there is no %s among %s" % (pattern, self.left()))


def expect(label, ended, status, pattern):
    for name, (code, err) in ended.items():
        note(code == status and re.search(pattern, err),
             "%s, %s: %d, wanted %d and '%s': %s" % (label, name, code, status, pattern, err[-500:]))


def check_no_gpu(ranks):
    """All end with the same sentence, which names a rank and its host."""
    for size in (1, 2, 5):
        for rank in range(size):
            ranks.start(rank, rank, size, "--transport", "nccl")
        expect("no GPU", ranks.end(), 8, r"rank 0 \(%s\): cannot load the library that CKPT_CUDA_LIB names" % HOST)
        note(not ranks.left(), "no GPU: left are %s" % ranks.left())


def check_missing(ranks):
    for missing in (0, 1, 2):
        start = time.monotonic()
        for rank in {0, 1, 2} - {missing}:
            ranks.start(rank, rank, 3, "--init-timeout", "2")
        expect("missing", ranks.end(), 6, r"waiting for rank %d of 3 in '.*/meet/K': start them, or" % missing)
        note(time.monotonic() - start < 12, "missing: took %.1f s" % (time.monotonic() - start))
        note(not ranks.left(), "missing: left are %s" % ranks.left())


def check_misfits(ranks):
    """Other options, another size, a rank twice."""
    for rank in range(3):
        ranks.start(rank, rank, 3, "--chunk", "2M" if rank == 1 else "1M")
    expect("options", ranks.end(), 6, r"rank 1 \(%s\) was started with other options than rank 0 \(%s\)" % (HOST, HOST))
    for rank in range(3):
        ranks.start(rank, rank, 4 if rank == 2 else 3)
    expect("sizes", ranks.end(), 6, r"rank 2 \(%s, pid \d+\) was started for 4 ranks, rank 0 \(%s, pid \d+\) for 3" % (HOST, HOST))
    for name in ("0", "1", "1 again"):
        ranks.start(name, int(name[0]), 3)
    ended = ranks.end()
    expect("twice", ended, 6, r"two processes say that they are rank 1 of 'K': %s \(pid \d+\) and %s \(pid \d+\)" % (HOST, HOST))
    note(not ranks.left(), "misfits: left are %s" % ranks.left())


def check_stopped(ranks):
    """A rank that hangs after it has come is missing for the others; when it goes on it ends, too."""
    ranks.start(1, 1, 2, "--init-timeout", "60")
    ranks.wait_for("hello.1.")
    victim = ranks.processes.pop(1)
    victim.send_signal(signal.SIGSTOP)
    ranks.start(0, 0, 2, "--init-timeout", "2")
    expect("stopped", ranks.end(), 6, "waiting for rank 1 of 2 in")
    victim.send_signal(signal.SIGCONT)
    victim.send_signal(signal.SIGTERM)
    ranks.processes[1] = victim
    expect("goes on", ranks.end(), 128 + signal.SIGTERM, "interrupted while the ranks met")
    note(not ranks.left(), "stopped: left are %s" % ranks.left())


def check_interrupted(ranks):
    for rank in range(2):
        ranks.start(rank, rank, 3)
    ranks.wait_for("seen.*[.]1[.]")
    for process in ranks.processes.values():
        process.send_signal(signal.SIGINT)
    ended = ranks.end()
    expect("interrupted", {0: ended[0]}, 128 + signal.SIGINT, "interrupted while the ranks met")
    if ended[1][0] == 6:                                # rank 0 was quicker than the signal
        expect("interrupted", {1: ended[1]}, 6, r"rank 0 \(%s\): interrupted while the ranks met" % HOST)
    else:
        expect("interrupted", {1: ended[1]}, 128 + signal.SIGINT, "interrupted while the ranks met")
    note(not ranks.left(), "interrupted: left are %s" % ranks.left())


def check_killed(ranks, times):
    """Ranks are killed at random times; whoever starts again with the same key meets the living, not the dead."""
    for number in range(times):
        for rank in range(3):
            ranks.start(rank, rank, 3, "--transport", "nccl", "--init-timeout", "3")
        time.sleep(random.uniform(0, 0.3))
        for process in ranks.processes.values():
            process.kill()
        ranks.end()
        for rank in range(3):
            ranks.start(rank, rank, 3, "--transport", "nccl", "--init-timeout", "30")
        expect("behind kill %d" % number, ranks.end(), 8, r"rank 0 \(%s\): cannot load" % HOST)
    print("%d starts were killed, %d of their files are there" % (times, len(ranks.left())))


def check_no_way(ranks):
    ended = {}
    for label, status, more, pattern in (
            ("no folder", 8, (), r"rank 1 of 2 \(launcher none\) has no way to meet the others: give all --rdzv file:DIR, a folder that all nodes see, or --rdzv tcp://HOST:PORT"),
            ("no key", 64, ("--rdzv", "file:" + ranks.folder), "give all ranks of each start a --job-key of its own"),
            ("no such way", 64, ("--rdzv", "smoke"), "wanted auto, pmix, mpi, file:DIR, tcp://HOST:PORT, env or id:HEX"),
            ("id too short", 64, ("--rdzv", "id:12ab"), "the id of NCCL after id: has 4 hex digits, wanted 256"),
            ("no such folder", 6, ("--rdzv", "file:/no/such", "--job-key", "K"), "/no/such: cannot make the folder: No such file"),
            ("no PMIx", 8, ("--rdzv", "pmix"), "there is no PMIx server, PMIX_NAMESPACE is not set")):
        done = subprocess.run([CKPT, "broadcast", "--rank", "1", "--world-size", "2", *more, ranks.source, ranks.out],
                              stderr=subprocess.PIPE, text=True, timeout=60, env=environment())
        ended[label] = (done.returncode, done.stderr)
        expect(label, {label: ended[label]}, status, pattern)


def double(cuda="fake_cuda.so", nccl="stub_nccl.so", **more):
    return dict(more, CKPT_CUDA_LIB=os.path.join(DOUBLES, cuda), CKPT_NCCL_LIB=os.path.join(DOUBLES, nccl))


def check_decisions(ranks):
    """What one of two ranks lacks is known before anybody waits in NCCL."""
    cases = (("versions", 6, double(STUB_NCCL_VERSION="22703"), (),
              r"rank 1 \(%s\) has NCCL 2.27.3 \(.*stub_nccl.so\), rank 0 \(%s\) has 2.28.9 \(.*\): give all nodes the same" % (HOST, HOST)),
             ("GPU is full", 8, double(FAKE_CUDA_FAIL="cuDevicePrimaryCtxRetain:2:1"), (),
              r"rank 1 \(%s\): cuDevicePrimaryCtxRetain on GPU 0: CUDA_ERROR_OUT_OF_MEMORY" % HOST),
             ("CUDA 13", 8, double(nccl="stub_nccl_cuda13.so"), (),
              r"rank 1 \(%s\): the NCCL at .* was built for CUDA 13, the driver supports 12.4" % HOST),
             ("no NCCL", 8, double(nccl="none.so"), (), r"rank 1 \(%s\): cannot load the library that CKPT_NCCL_LIB names" % HOST),
             ("no driver", 8, double(cuda="none.so"), (), r"rank 1 \(%s\): cannot load the library that CKPT_CUDA_LIB names" % HOST),
             ("one GPU", 8, double(FAKE_CUDA_FIRST="0"), (),
              r"rank 0 \(%s\) and rank 1 \(%s\) both use GPU-abababab-abab-abab-abab-ababababab00 at 0000:00:00.0: give each rank" % (HOST, HOST)),
             ("slices", 8, double(FAKE_CUDA_SLICES="2"), (), r"rank 0 \(%s\) and rank 1 \(%s\) use two MIG slices \(GPU-\S+00, GPU-\S+01\) of the GPU" % (HOST, HOST)),
             ("no such GPU", 8, double(), ("--gpu", "3"), r"rank 1 \(%s\) is to use GPU 3, but sees 1, from 0 on" % HOST))
    for label, status, env, more, pattern in cases:
        ranks.start(0, 0, 2, "--transport", "nccl", **double())
        ranks.start(1, 1, 2, "--transport", "nccl", *more, **env)
        expect(label, ranks.end(), status, pattern)
        note(not ranks.left(), "%s: left are %s" % (label, ranks.left()))


def check_alone(ranks):
    """One rank goes all the way, over the double of NCCL."""
    out = ranks.out.replace("%r", "0")
    ranks.start(0, 0, 1, "--transport", "nccl", "-v", **double())
    expect("alone", ranks.end(), 0, "rank 0 of 1 on .* transport nccl")
    note(subprocess.run(["cmp", ranks.source, out]).returncode == 0, "alone: other bytes")
    os.unlink(out)
    for name, mine, wanted in (("CUDA_MODULE_LOADING", "", "LAZY"), ("CUDA_MODULE_LOADING", "EAGER", "EAGER"),
                               ("NCCL_DEBUG_FILE", "", ""), ("NCCL_RAS_ENABLE", "", "0"),
                               ("NCCL_NVLS_ENABLE", "", "0"), ("NCCL_NVLS_ENABLE", "1", "1"),
                               ("NCCL_COMM_BLOCKING", "1", "0"), ("NCCL_ALGO", "Tree", "")):
        ranks.start(0, 0, 1, "--transport", "nccl", **double(FAKE_CUDA_SHOW=name, **({name: mine} if mine else {})))
        expect("variables", ranks.end(), 0, r"fake_cuda: %s=%s\n" % (name, wanted))
        os.unlink(out)


# the real one without a GPU: those of CKPT_REAL_NCCL, ";" between them, or the toolkit's
REAL_NCCL = os.environ["CKPT_REAL_NCCL"].split(";") if os.environ.get("CKPT_REAL_NCCL") else \
    [path for path in ("/usr/local/cuda/lib64/libnccl.so.2", "/usr/local/cuda/lib/libnccl.so.2") if os.path.exists(path)][:1]


def check_logs(ranks, work):
    """NCCL logs to standard output: only the result is there, and the file that standard error goes to keeps what it had."""
    cases = [("stub", 0, double(), "NCCL INFO of the stub"), ("socket", 0, double(), None)]
    cases += [(path, 6, dict(double(FAKE_CUDA_VERSION="99000"), CKPT_NCCL_LIB=path), "NCCL INFO") for path in REAL_NCCL]
    out = ranks.out.replace("%r", "0")
    for label, status, env, said in cases:
        log = os.path.join(work, "job.log")
        with open(log, "w", encoding="utf-8") as stream:
            stream.write("what was logged before\n" * 100)
        here, there = socket.socketpair()               # as systemd gives one: it cannot be opened by a name
        with open(log, "ab") as stream, here, there:
            done = subprocess.run([CKPT, "broadcast", "--transport", "nccl", "--rank", "0", "--world-size", "1", "--json", ranks.source, out],
                                  stdout=subprocess.PIPE, stderr=there if label == "socket" else stream, text=True, timeout=60,
                                  env=environment(NCCL_DEBUG="INFO", **env))
        with open(log, encoding="utf-8") as stream:
            logged = stream.read()
        note(done.returncode == status, "logs, %s: %d, wanted %d: %s" % (label, done.returncode, status, logged[-500:]))
        note(done.stdout.startswith('{"ckpt_json"') and done.stdout.count("\n") == 1 and json.loads(done.stdout)["code"] == status,
             "logs, %s: standard output is %r" % (label, done.stdout))
        note(logged.startswith("what was logged before\n" * 100), "logs, %s: the log was truncated: %r" % (label, logged[:100]))
        note(said is None or said in logged, "logs, %s: no '%s' in %r" % (label, said, logged[-500:]))
        if status == 0:
            os.unlink(out)


def boards():
    """Of all broadcasts of this user."""
    return {name for name in os.listdir("/dev/shm") if name.startswith("ckpt-%d-" % os.getuid())}


def stay(names):
    """Whether some of those boards stay: those of others that are running now go soon."""
    end = time.monotonic() + 20
    while names & boards() and time.monotonic() < end:
        time.sleep(0.05)
    return bool(names & boards())


def check_opening(ranks):
    """NCCL opens on none, or fails on one: all end with the same status and the same sentence, soon."""
    before = boards()
    for rank in range(2):                               # the double's ranks do not find those of another process
        ranks.start(rank, rank, 2, "--init-timeout", "2", **double())
    expect("nobody opens", ranks.end(), 6, r"broadcast: rank [01] \(%s\): NCCL did not find all 2 ranks in time" % HOST)
    ranks.start(0, 0, 2, "--init-timeout", "5", **double())
    time.sleep(3.5)                                     # NCCL has its whole time from here on, also on rank 0
    start = time.monotonic()
    ranks.start(1, 1, 2, "--init-timeout", "5", **double())
    expect("comes late", ranks.end(), 6, "NCCL did not find all 2 ranks in time")
    note(time.monotonic() - start > 4.5, "comes late: NCCL had %.1f s of 5" % (time.monotonic() - start))
    for fault, status, pattern in (("ncclCommInitRankConfig:1:1", 6, "ncclCommInitRankConfig: unhandled cuda error"),
                                   ("ncclCommInitRankConfig:2:1", 6, "ncclCommInitRankConfig: unhandled system error"),
                                   ("ncclCommInitRankConfig:5:1", 8, "ncclCommInitRankConfig: invalid usage")):
        start = time.monotonic()
        for rank in range(3):
            more = {"STUB_NCCL_FAIL": fault} if rank == 1 else {}
            ranks.start(rank, rank, 3, "--init-timeout", "50", **double(**more))
        expect(fault, ranks.end(), status, r"broadcast: rank 1 \(%s\): %s" % (HOST, pattern))
        note(time.monotonic() - start < 15, "%s: took %.1f s" % (fault, time.monotonic() - start))
    note(not ranks.left(), "opening: left are %s" % ranks.left())
    note(not stay(boards() - before), "opening: a board is left")


def check_end_that_hangs(ranks):
    """NCCL does not come back from its end: the command is done after the grace period, and runs no exit handlers."""
    start = time.monotonic()
    ranks.start(0, 0, 1, "--transport", "nccl",
                **double(STUB_NCCL_HANG="ncclCommFinalize:1:1", STUB_NCCL_LATE="ncclCommAbort:50000:1", FAKE_CUDA_STRICT="1"))
    expect("end that hangs", ranks.end(), 0, "to 1 rank in")    # the double would complain in an exit handler, and abort
    note(time.monotonic() - start < 25, "end that hangs: took %.1f s" % (time.monotonic() - start))
    os.unlink(ranks.out.replace("%r", "0"))


def check_lost(ranks):
    """All have met, and then one hangs: the others' wait for it ends, and they say who it is."""
    for rank in range(2):
        ranks.start(rank, rank, 2, "--init-timeout", "4", **double())
    ranks.wait_for("answer[.]")
    while any("seen." in name for name in ranks.left()):
        time.sleep(0.01)
    victim = ranks.processes.pop(1)
    victim.send_signal(signal.SIGSTOP)
    for path in ranks.left():
        if "hello.1." in path:
            os.utime(path, (time.time() - 20, time.time() - 20))    # it has been silent for a while
    expect("lost", ranks.end(), 7, r"; rank 1 \(%s, pid %d\) was last heard of \d+ s ago" % (HOST, victim.pid))
    victim.kill()
    victim.communicate()


def main():
    base = os.environ.get("CKPT_TEST_DIR") or None
    if base:
        os.makedirs(base, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="by-hand-", dir=base) as work:
        ranks = Ranks(work)
        with open(ranks.source, "wb") as out:
            out.write(random.Random(1).randbytes(100000))
        check_no_gpu(ranks)
        check_missing(ranks)
        check_misfits(ranks)
        check_stopped(ranks)
        check_interrupted(ranks)
        check_no_way(ranks)
        if os.path.exists(os.path.join(DOUBLES, "stub_nccl.so")):
            check_decisions(ranks)
            check_alone(ranks)
            check_logs(ranks, work)
            check_opening(ranks)
            check_end_that_hangs(ranks)
            check_lost(ranks)
        else:
            print("no doubles of CUDA and NCCL: what the ranks decide is not looked at")
        check_killed(ranks, int(sys.argv[1]) if len(sys.argv) > 1 else 6)
        note(not [name for name in os.listdir(work) if name.endswith(".pt") and name != "source.pt"],
             "there are files of nobody: %s" % os.listdir(work))
    print("%d failures" % len(FAILURES))
    return 1 if FAILURES else 0


if __name__ == "__main__":
    sys.exit(main())

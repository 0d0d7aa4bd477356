# SPDX-License-Identifier: Apache-2.0
"""ckpt broadcast over plain TCP, by processes that nobody's launcher has started: tcp.py [ucx]"""

import os
import random
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time

CKPT = os.path.abspath(os.environ.get("CKPT", "ckpt"))
LONG = os.environ.get("CKPT_TEST_LONG") == "1"
HOST = re.escape(socket.gethostname())
LAUNCHERS = re.compile(r"CKPT_|SLURM_|OMPI_|PMIX?_|TORCHELASTIC_|JOB_COMPLETION_INDEX$|(LOCAL_)?RANK$|WORLD_SIZE$|MASTER_")
TOKEN = "a secret of sixteen bytes, or more"
SLOW = ("--chunk", "4K", "--depth", "1")            # so that something can happen meanwhile
SLOWER = float(os.environ.get("CKPT_SLOWER", "1"))    # with ThreadSanitizer
FAILURES = []


def note(condition, text):
    if not condition:
        FAILURES.append(text)
        print("FAIL", text, flush=True)


def environment(**more):
    env = {name: value for name, value in os.environ.items() if not LAUNCHERS.match(name)}
    env["CKPT_CUDA_LIB"] = "/nowhere/libcuda.so.1"      # the same on machines with a GPU
    env.update(more)
    if TRANSPORT == "ucx":                              # LeakSanitizer may fail on threads of UCX that were interrupted
        env["ASAN_OPTIONS"] = ":".join(filter(None, ["detect_leaks=0", env.get("ASAN_OPTIONS")]))
    return env


def with_leaks():
    """Variables of ranks that end as they should: their leaks are looked for over UCX, too."""
    return {"ASAN_OPTIONS": ":".join(filter(None, [os.environ.get("ASAN_OPTIONS"), "detect_leaks=1"]))}


TRANSPORT = "ucx" if "ucx" in sys.argv[1:] else "tcp"


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


class Job:
    """Ranks, and what became of them. WAY: "tcp" or "file"."""

    def __init__(self, work, size, way="tcp", host="127.0.0.1"):
        self.work, self.size, self.way = work, size, way
        self.port = free_port()
        self.rdzv = "tcp://%s:%d" % (host, self.port) if way == "tcp" else "file:" + os.path.join(work, "meet")
        self.processes = {}

    def start(self, rank, *arguments, before=(), **more):
        env = environment(**more)
        if self.way == "tcp" and more.get("CKPT_TOKEN", TOKEN):
            env.setdefault("CKPT_TOKEN", TOKEN)
        argv = [*before, CKPT, "broadcast"]
        if "--launcher" not in arguments:
            argv += ["--rank", str(rank), "--world-size", str(self.size)]
        if "--rdzv" not in arguments:
            argv += ["--rdzv", self.rdzv]
        if "--transport" not in arguments and "--launcher" not in arguments:
            argv += ["--transport", TRANSPORT]
        if self.way == "file":
            argv += ["--job-key", "K%d" % self.port]
        self.processes[rank] = subprocess.Popen(argv + list(arguments), stdout=subprocess.DEVNULL,
                                                stderr=subprocess.PIPE, text=True, env=env)
        return self.processes[rank]

    def start_all(self, *arguments, **more):
        for rank in range(self.size):
            self.start(rank, *arguments, **more)
        return self

    def end(self, seconds=60):
        """rank -> (exit status, messages)"""
        ended, until = {}, time.monotonic() + seconds
        for rank, process in self.processes.items():
            try:
                err = process.communicate(timeout=max(0.1, until - time.monotonic()))[1]
            except subprocess.TimeoutExpired:
                process.kill()
                err = process.communicate()[1] + "(hangs)"
            ended[rank] = (process.returncode, err)
        self.processes = {}
        return ended

    def wait_for_bytes(self, folder, seconds=30):
        """Until all ranks write into FOLDER."""
        end = time.monotonic() + seconds
        while time.monotonic() < end and any(p.poll() is None for p in self.processes.values()):
            if all(writes(p.pid, folder) for p in self.processes.values()):
                return
            time.sleep(0.002)


def writes(pid, folder):
    """Has it begun with a file? One without a name."""
    try:
        links = [os.readlink("/proc/%d/fd/%s" % (pid, fd)) for fd in os.listdir("/proc/%d/fd" % pid)]
    except OSError:
        return False
    return any(link.startswith(folder) and ("/#" in link or ".ckpt-" in link) for link in links)


def same(left, right):
    return subprocess.run(["cmp", "-s", left, right]).returncode == 0


def expect(label, ended, status, *patterns):
    for rank, (code, err) in ended.items():
        note(code == status, "%s, rank %s: %s, wanted %d: %s" % (label, rank, code, status, err[-600:]))
        for pattern in patterns:
            note(re.search(pattern, err), "%s, rank %s: no '%s' in: %s" % (label, rank, pattern, err[-600:]))


def empty_folder(work, name):
    path = os.path.join(work, name)
    os.mkdir(path)
    return path


def expect_empty(label, folder):
    note(os.listdir(folder) == [], "%s: something is left: %s" % (label, os.listdir(folder)))
    shutil.rmtree(folder)


def long_source(work, size=24 << 20):
    path = os.path.join(work, "long.pt")
    with open(path, "wb") as out:
        out.truncate(size)
    return path


# ---- what works


def check_files(work, source):
    """Every rank has the file; there is nothing else, and no word on standard error but of rank 0."""
    for size in (2, 3, 4):
        for way in ("tcp", "file"):
            for readers in (1, size):
                out = empty_folder(work, "out")
                job = Job(work, size, way)
                ended = job.start_all("-v", "--readers", str(readers), "--chunk", "1M", source, out + "/%r.pt", **with_leaks()).end()
                label = "%s, %d ranks, %d read" % (way, size, readers)
                expect(label, ended, 0, r"ckpt: rank \d of %d on %s \(launcher none, transport %s( by [^)]*)?\)" % (size, HOST, TRANSPORT))
                names = {"%d.pt" % rank for rank in range(size)} | {".%d.pt.ckpt-staged" % rank for rank in range(size)}
                note(set(os.listdir(out)) == names, "%s: %s" % (label, os.listdir(out)))
                for rank in range(size):
                    note(same(source, "%s/%d.pt" % (out, rank)), "%s: rank %d has other bytes" % (label, rank))
                ended = job.start_all(source, out + "/%r.pt").end()     # the same port again
                expect(label + ", again", {0: ended[0]}, 0, "there already on all %d ranks" % size)
                shutil.rmtree(out)
    note(not os.path.exists(os.path.join(work, "meet")) or os.listdir(os.path.join(work, "meet")) == [],
         "files of a meeting are left")


def check_depth(work, source):
    """Ranks that read run ahead of the others, which have room for few chunks."""
    for size, readers, depth in ((3, 3, 1), (3, 2, 1), (4, 3, 2), (4, 4, 1), (4, 2, 3)):
        out = empty_folder(work, "depth")
        flags = ("--readers", str(readers), "--depth", str(depth), "--chunk", "64K", "--timeout", "10")
        label = "%d ranks, %d read, depth %d" % (size, readers, depth)
        expect(label, Job(work, size).start_all(*flags, source, out + "/%r.pt").end(), 0)
        note(all(same(source, "%s/%d.pt" % (out, rank)) for rank in range(size)), "%s: other bytes" % label)
        shutil.rmtree(out)


def check_ways(work, source):
    """By a name, by IPv6, by the variables of torchrun, with a file for the token; alone, without any."""
    out = empty_folder(work, "ways")
    token = os.path.join(work, "token")
    with open(token, "w") as stream:
        stream.write(TOKEN + "\n")
    os.chmod(token, 0o600)
    for label, host in (("name", "localhost"), ("IPv6", "[::1]")):
        if label == "IPv6" and not has_ipv6():
            continue
        expect(label, Job(work, 2, host=host).start_all(source, out + "/" + label + "%r.pt").end(), 0)
    job = Job(work, 2)
    job.start(0, "--token-file", token, source, out + "/t%r.pt", CKPT_TOKEN="")
    job.start(1, source, out + "/t%r.pt")
    expect("token in a file", job.end(), 0)
    for name, port in (("MASTER_PORT", -1), ("CKPT_RDZV_PORT", 0)):
        job = Job(work, 2)
        variables = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "1", name: str(job.port + port)}
        job.start_all("--rdzv", "env", source, out + "/" + name + "%r.pt", **variables)
        expect("env, " + name, job.end(), 0)
    job = Job(work, 1)
    job.start(0, source, out + "/alone.pt", CKPT_TOKEN="")
    expect("alone", job.end(), 0)
    job = Job(work, 2).start_all("--interface", "lo", "--transport", "tcp", source, out + "/i%r.pt")
    expect("interface", job.end(), 0)
    shutil.rmtree(out)


def check_folders(work, source):
    """What is a folder on one node has to be one on all, or the copy has two paths."""
    out = empty_folder(work, "folders")
    os.makedirs(os.path.join(out, "1", "at"))
    os.mkdir(os.path.join(out, "0"))
    ended = Job(work, 2).start_all(source, out + "/%r/at").end()
    expect("a folder on one node", ended, 4)
    expect("a folder on one node", {0: ended[0]}, 4, r"rank 1 \(%s\): %s: is where the copy would go on this node, as the destination is a folder here" %
           (HOST, re.escape(os.path.join(out, "1", "at", os.path.basename(source)))))
    note(os.listdir(os.path.join(out, "0")) == [], "a copy was made beside the folder of another node")
    os.mkdir(os.path.join(out, "0", "at"))
    expect("a folder on both", Job(work, 2).start_all(source, out + "/%r/at").end(), 0)
    expect("again", Job(work, 2).start_all(source, out + "/%r/at").end(), 0)
    for rank in "01":
        note(same(source, os.path.join(out, rank, "at", os.path.basename(source))), "no copy in the folder of rank " + rank)
    shutil.rmtree(out)


def has_ipv6():
    try:
        with socket.socket(socket.AF_INET6) as s:
            s.bind(("::1", 0))
        return True
    except OSError:
        return False


def check_strangers(work, source):
    """They connect before, meanwhile and say nothing, half of something, or garbage: nothing stops."""
    out = empty_folder(work, "strangers")
    job = Job(work, 3)
    job.start(0, source, out + "/%r.pt")
    strangers = [connect(job.port) for _ in range(40)]
    for number, stranger in enumerate(strangers):
        if number % 4 == 1:
            stranger.sendall(b"GET / HTTP/1.0\r\n\r\n" + b"x" * 300)
        elif number % 4 == 2:
            stranger.sendall(b"CKPTMEET\1\0\0\0\1")
        elif number % 4 == 3:
            stranger.close()
    for rank in (1, 2):
        job.start(rank, source, out + "/%r.pt")
    expect("strangers", job.end(), 0)
    for rank in range(3):
        note(same(source, "%s/%d.pt" % (out, rank)), "strangers: rank %d has other bytes" % rank)
    for stranger in strangers:
        stranger.close()
    shutil.rmtree(out)


def connect(port, seconds=20):
    end = time.monotonic() + seconds
    while True:
        try:
            return socket.create_connection(("127.0.0.1", port), timeout=5)
        except OSError:
            if time.monotonic() > end:
                raise
            time.sleep(0.01)


class Relay(threading.Thread):
    """Between a rank and rank 0: keeps what both say, and changes what the rank says by CHANGE(bytes)."""

    def __init__(self, port, change=lambda data: data):
        super().__init__(daemon=True)
        self.target, self.change, self.said = port, change, {"rank": b"", "rank 0": b""}
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        self.start()

    def run(self):
        while True:
            try:
                near = self.listener.accept()[0]
            except OSError:
                return
            far = connect(self.target)
            threading.Thread(target=self.carry, args=(near, far, "rank", self.change), daemon=True).start()
            threading.Thread(target=self.carry, args=(far, near, "rank 0", bytes), daemon=True).start()

    def carry(self, source, target, who, change):
        try:
            while data := source.recv(1 << 16):
                self.said[who] += data
                target.sendall(change(data))
            target.shutdown(socket.SHUT_WR)
        except OSError:
            pass

    def stop(self):
        self.listener.close()


def check_wire(work, source):
    """Who listens on the way learns neither the token nor anything that opens another connection; who changes a
    byte of a meeting is found out."""
    out = empty_folder(work, "wire")
    heard = []
    for number in range(2):
        job = Job(work, 2)
        relay = Relay(job.port)
        job.start(0, source, out + "/%r.pt")
        job.start(1, "--rdzv", "tcp://127.0.0.1:%d" % relay.port, source, out + "/%r.pt")
        expect("a relay", job.end(), 0)
        relay.stop()
        heard.append(relay.said)
        for who, said in relay.said.items():
            note(len(said) > 200, "the relay heard %d bytes of %s" % (len(said), who))
            note(TOKEN.encode() not in said and TOKEN.encode()[:8] not in said, "%s says the token" % who)
    for who, start in (("rank", 168), ("rank 0", 112)):     # behind a JOIN or a CHALLENGE: proofs
        first, second = (said[who][start:start + 32] for said in heard)
        note(first != second, "%s proves twice by the same bytes" % who)
    job = Job(work, 2)
    job.start(0, "--init-timeout", "3", source, out + "/%r.pt")
    replayed = connect(job.port)                            # all that the rank said the last time
    replayed.sendall(heard[1]["rank"])
    relay = Relay(job.port, lambda data: data if len(data) < 1000 else data[:500] + bytes([data[500] ^ 1]) + data[501:])
    job.start(1, "--rdzv", "tcp://127.0.0.1:%d" % relay.port, "--init-timeout", "3", source, out + "/%r.pt")
    expect("a byte is changed", job.end(), 6, "waiting for rank")
    replayed.close()
    relay.stop()
    shutil.rmtree(out)


# ---- ranks that do not meet


def check_tokens(work, source):
    out = empty_folder(work, "tokens")
    last = (source, out + "/%r.pt")
    job = Job(work, 2)
    job.start(1, *last, CKPT_TOKEN="")
    expect("no token", job.end(), 64, "give all ranks the same CKPT_TOKEN, or a --token-file")
    job.start(1, *last, CKPT_TOKEN="short")
    expect("short token", job.end(), 64, "has 5 bytes, wanted 16 to 1024")
    token = os.path.join(work, "token")
    for mode, status in ((0o644, 64), (0o640, 64), (0o600, 6)):
        os.chmod(token, mode)
        job.start(1, "--token-file", token, "--init-timeout", "1", *last, CKPT_TOKEN="")
        expect("mode %o" % mode, job.end(), status, "chmod 600" if status == 64 else "waiting for rank 0")
    start = time.monotonic()
    job = Job(work, 2)
    job.start(0, "--init-timeout", "3", *last)
    job.start(1, "--init-timeout", "60", *last, CKPT_TOKEN="another secret of enough bytes")
    ended = job.end()
    expect("wrong token", {1: ended[1]}, 6, r"rank 0 \(%s, pid \d+\) at '127.0.0.1:\d+' has another token" % HOST)
    expect("wrong token", {0: ended[0]}, 6, r"came from 127.0.0.1 as rank 1 \(%s, pid \d+\) has another token" % HOST,
           "waiting for rank 1 of 2")
    note(time.monotonic() - start < 15, "wrong token: took %.1f s" % (time.monotonic() - start))
    for words in (err for _, err in ended.values()):
        note(TOKEN not in words and "another secret" not in words, "a token is printed: " + words)
    expect_empty("tokens", out)


def check_meeting(work, source):
    """Nobody listens, the port is taken, a rank never comes, options differ: who and where is named."""
    out = empty_folder(work, "meeting")
    last = ("--init-timeout", "2", source, out + "/%r.pt")
    job = Job(work, 2)
    job.start(1, *last)
    expect("nobody listens", job.end(), 6, r"waiting for rank 0 of 2 at '127.0.0.1:%d': start it" % job.port,
           "Connection refused; '127.0.0.1' is this host itself: if rank 0 runs on another one, name that")
    job = Job(work, 3)
    job.start(0, *last)
    job.start(2, *last)
    expect("rank 1 never comes", job.end(), 6, r"waiting for rank 1 of 3 at '127.0.0.1:%d': start them" % job.port)
    job = Job(work, 2)
    job.start(0, *last)
    expect("the loopback", job.end(), 6, "on this host, which no other host reaches: ranks on other hosts need a name or address of this one")
    job = Job(work, 2)
    with socket.socket() as other:
        other.bind(("127.0.0.1", job.port))
        other.listen(5)
        job.start(0, *last)
        expect("port taken", job.end(), 6, r"port %d of '127.0.0.1' is taken" % job.port)
    job = Job(work, 2, host="192.0.2.1")
    job.start(0, *last)
    expect("another host", job.end(), 6, r"rank 0 runs on %s, and '192.0.2.1' \(192.0.2.1:\d+\) is no address of that host" % HOST)
    job = Job(work, 2)
    job.start(0, *last)
    job.start(1, "--chunk", "2M", *last)
    expect("other options", job.end(), 6, r"rank 1 \(%s\) was started with other options than rank 0 \(%s\) \(--chunk or --bandwidth, --depth\)" % (HOST, HOST))
    for way in ("tcp", "file"):                     # with two of one name, in two folders
        for other in (source + "x", os.path.join(work, "elsewhere", os.path.basename(source)), os.path.relpath(source)):
            job = Job(work, 2, way)
            job.start(0, *last)
            job.start(1, "--init-timeout", "2", other, out + "/%r.pt")
            expect("other SRC", job.end(), 6, r"rank 1 \(%s\) was started with SRC '[^']*', rank 0 \(%s\) with '[^']*'" % (HOST, HOST))
    job = Job(work, 2)
    job.start(0, "--interface", "lo", *last)        # which is no wish of all
    job.start(1, "--keep-going", *last)
    expect("other flags", job.end(), 6, r"rank 1 \(%s\) was started with other options than rank 0 \(%s\) \(--keep-going\)" % (HOST, HOST))
    job = Job(work, 2)
    job.start(0, *last)
    job.start(1, "--interface", "none7", *last)
    expect("no interface", job.end(), 8, r"rank 1 \(%s\): this host has no interface 'none7' with an address, it has: " % HOST)
    for wish, pattern in (("tcp://nohost", "has no port, wanted HOST:PORT"), ("tcp://a:99999", "wanted a port from 1 to 65535"),
                          ("env", "--rdzv env goes by MASTER_ADDR, which is not set")):
        job = Job(work, 2)
        job.start(0, "--rdzv", wish, *last)
        expect(wish, job.end(), 64, pattern)
    expect_empty("meeting", out)


def timed(job, seconds=60):
    """What became of the ranks, and how long that took."""
    begin = time.monotonic()
    ended = job.end(seconds)
    return ended, time.monotonic() - begin


def wait_until_met(job, count):
    """Until rank 0 knows that COUNT others are there."""
    process, end = job.processes[0], time.monotonic() + 20
    while time.monotonic() < end and process.poll() is None:
        if job.way == "tcp":
            with open("/proc/%d/net/tcp" % process.pid) as table:
                there = sum(line.split()[1].endswith(":%04X" % job.port) and line.split()[3] == "01" for line in table)
        else:
            folder = os.path.join(job.work, "meet", "K%d" % job.port)
            there = len([n for n in os.listdir(folder) if n.startswith("seen.")]) if os.path.isdir(folder) else 0
        if there >= count:
            return
        time.sleep(0.01)


def check_leaving(work, source):
    """A rank that cannot go on, or is interrupted, before all have met: the others hear why, and end at once."""
    out = empty_folder(work, "leaving")
    last = ("--init-timeout", "60", source, out + "/%r.pt")
    for way in ("tcp", "file"):
        for victim in (0, 1, 2):                    # while rank 3 is not there
            for number in (signal.SIGINT, signal.SIGTERM):
                job = Job(work, 4, way)
                for rank in range(3):
                    job.start(rank, *last)
                wait_until_met(job, 2)
                job.processes[victim].send_signal(number)
                ended, took = timed(job)
                label = "%s: rank %d gets %s in the meeting" % (way, victim, number.name)
                others = {rank: what for rank, what in ended.items() if rank != victim}
                expect(label, ended, 128 + number, "interrupted while the ranks met, nothing was written")
                expect(label, others, 128 + number, r"rank %d \(%s\): interrupted" % (victim, HOST))
                note(took < 4, "%s: took %.1f s" % (label, took))
        for victim in (0, 1):                       # which is wrong before it meets anybody
            for status, wrong, said in ((64, ("--target", "foo"), "--target foo: wanted file, gpu or null"),
                                        (8, ("--transport", "mpi"), "cannot load MPI")):
                job = Job(work, 3, way)
                for rank in range(3):
                    if rank != victim:
                        job.start(rank, *last)
                job.start(victim, *wrong, *last, CKPT_MPI_PLUGIN="/no.so")
                ended, took = timed(job)
                label = "%s: rank %d has %s" % (way, victim, wrong)
                others = {rank: what for rank, what in ended.items() if rank != victim}
                expect(label, ended, status, said)
                expect(label, others, status, r"rank %d \(%s\): .*%s" % (victim, HOST, said))
                note(took < 8, "%s: took %.1f s" % (label, took))
    job = Job(work, 2)
    job.start(1, *last)
    job.start(0, *last, CKPT_TOKEN="")
    ended, took = timed(job)
    expect("rank 0 has no token", {1: ended[1]}, 6, "has another token, or none")
    expect("rank 0 has no token", {0: ended[0]}, 64, "give all ranks the same CKPT_TOKEN")
    note(took < 8, "rank 0 has no token: took %.1f s" % took)
    job = Job(work, 2)
    job.start(0, "--init-timeout", "4", source, out + "/%r.pt")
    job.start(1, *last, CKPT_TOKEN="")
    expect("rank 1 has no token", {0: job.end()[0]}, 6, r"as rank 1 \(%s, pid \d+\) has another token, or none" % HOST)
    note(not os.path.exists(os.path.join(work, "meet")) or os.listdir(os.path.join(work, "meet")) == [],
         "files of a meeting are left: %s" % list(os.walk(os.path.join(work, "meet"))))
    expect_empty("leaving", out)


def check_left_over(work, source):
    """Ranks of an earlier start with the same key that were killed: nothing of them is taken for this start's."""
    out = empty_folder(work, "leftover")
    for number in range(2):
        job = Job(work, 3, "file")
        for victim in (0, 1, 2):
            job.start(victim, "--init-timeout", "60", source, out + "/%r.pt")
            if victim == 1:
                wait_until_met(job, 1)
                for process in job.processes.values():
                    process.kill()
                job.end()
        job.processes[2].kill()                     # it may have seen the dead rank 0
        job.end()
        folder = os.path.join(work, "meet", "K%d" % job.port)
        note(len(os.listdir(folder)) >= 2, "left over: nothing was left: %s" % os.listdir(folder))
        if number == 0:
            job.start(0, "--init-timeout", "2", source, out + "/%r.pt")
            job.start(1, "--init-timeout", "2", source, out + "/%r.pt")
            expect("left over, rank 2 is missing", job.end(), 6, "waiting for rank 2 of 3 in")
        else:
            job.start(1, "--init-timeout", "2", source, out + "/%r.pt")
            expect("left over, rank 0 is missing", job.end(), 6, "waiting for ranks 0, 2 of 3 in|waiting for rank 0 of 3 in")
            expect("left over", job.start_all(source, out + "/%r.pt").end(), 0)
        note(not os.path.exists(folder), "left over: there is still %s" % (os.path.exists(folder) and os.listdir(folder)))
    shutil.rmtree(out)


# ---- failures on the way


def lose(work, size, way, victim, number, timeout, readers=1):
    """Rank VICTIM gets signal NUMBER on the way; what the others say, and how long they took."""
    out, source = empty_folder(work, "lose"), long_source(work)
    job = Job(work, size, way)
    job.start_all(*SLOW, "--readers", str(readers), "--timeout", str(timeout), source, out + "/%r.pt")
    job.wait_for_bytes(out)
    process = job.processes.pop(victim)
    process.send_signal(number)
    begin = time.monotonic()
    ended = job.end()
    took = time.monotonic() - begin
    process.kill()
    process.communicate()
    expect_empty("lose %d" % victim, out)
    return ended, took


def check_lost(work, _):
    """The others end soon if it died, in the time if it hangs, and all name it."""
    for way in ("tcp", "file"):
        for size, victim in ((2, 0), (2, 1), (4, 0), (4, 1), (4, 2), (4, 3)):
            if way == "file" and size == 2:
                continue
            ended, took = lose(work, size, way, victim, signal.SIGKILL, 20, readers=1 + victim % 2)
            label = "%s: rank %d of %d dies" % (way, victim, size)
            expect(label, ended, 7, r"no answer from rank %d \(%s\)" % (victim, HOST))
            note(took < 5, "%s: the others ended after %.1f s" % (label, took))
    for size, victim in ((3, 1), (3, 0), (2, 1)):
        ended, took = lose(work, size, "tcp", victim, signal.SIGSTOP, 4)
        label = "rank %d of %d hangs" % (victim, size)
        expect(label, ended, 7, r"no answer from rank %d \(%s\)" % (victim, HOST))
        note(took < (1.25 * 4 + 0.5) * SLOWER, "%s: the others ended after %.1f s" % (label, took))
        print("%s: the others ended after %.1f s (--timeout 4)" % (label, took))


def check_removed(work, _):
    """What killed ranks have left of a directory goes with the next broadcast to the same place."""
    out, source = empty_folder(work, "removed"), empty_folder(work, "set")
    os.rename(long_source(work), os.path.join(source, "a.bin"))
    job = Job(work, 2).start_all(*SLOW, source, out + "/%r")
    end = time.monotonic() + 30
    while len(os.listdir(out)) < 2 and time.monotonic() < end:
        time.sleep(0.01)
    for process in job.processes.values():
        process.kill()
    job.end()
    note(sum(name.endswith(".ckpt-tmp") for name in os.listdir(out)) == 2, "nothing was left: %s" % os.listdir(out))
    expect("removed", Job(work, 2).start_all(source, out + "/%r").end(), 0)
    note(sorted(os.listdir(out)) == ["0", "1"], "there is still something: %s" % os.listdir(out))
    note(sorted(os.listdir(out + "/1")) == [".ckpt-staged", "a.bin"], "in the copy: %s" % os.listdir(out + "/1"))
    shutil.rmtree(out)
    shutil.rmtree(source)


def check_woken(work, _):
    """A rank that was stopped, and goes on when the others have given it up."""
    out, source = empty_folder(work, "woken"), long_source(work)
    job = Job(work, 3).start_all(*SLOW, "--timeout", "2", source, out + "/%r.pt")
    job.wait_for_bytes(out)
    process = job.processes.pop(1)
    process.send_signal(signal.SIGSTOP)
    expect("woken: the others", job.end(), 7, r"no answer from rank 1 \(%s\)" % HOST)
    process.send_signal(signal.SIGCONT)
    job.processes[1] = process
    expect("woken", job.end(20), 7, r"no answer from rank 1 \(%s\)" % HOST)
    expect_empty("woken", out)


def check_signal(work, _):
    """One rank alone gets it: that is how a node is drained. All end at once."""
    for number in (signal.SIGTERM, signal.SIGINT):
        out, source = empty_folder(work, "signal"), long_source(work)
        job = Job(work, 3).start_all(*SLOW, source, out + "/%r.pt")
        job.wait_for_bytes(out)
        job.processes[1].send_signal(number)
        ended, took = timed(job)
        note(took < 2, "%s: took %.1f s" % (number.name, took))
        expect(number.name, ended, 128 + number)
        expect(number.name, {0: ended[0]}, 128 + number, r"rank 1 \(%s\): interrupted, nothing was written" % HOST)
        expect_empty(number.name, out)
    job = Job(work, 2)
    process = job.start(0, source, out + "/%r.pt")
    connect(job.port).close()                       # it listens
    process.send_signal(signal.SIGINT)
    expect("interrupted", job.end(), 128 + signal.SIGINT, "interrupted while the ranks met")


def check_early_signal(work, _):
    """One rank gets it while they connect, or a moment before or after."""
    source = long_source(work)
    for step in range(1, 13 if LONG else 7):
        delay, victim = (0.02 if LONG else 0.04) * step * SLOWER, step % 3
        out = empty_folder(work, "early-%d" % step)
        job = Job(work, 3).start_all(*SLOW, source, out + "/%r.pt")
        try:
            job.processes[victim].wait(delay)
        except subprocess.TimeoutExpired:
            pass
        job.processes[victim].send_signal(signal.SIGTERM)
        ended, took = timed(job)
        label = "SIGTERM for rank %d after %.2f s" % (victim, delay)
        if ended[victim][0] == -signal.SIGTERM:         # it had not begun, and nobody knows of it
            continue
        note(took < 4 * SLOWER, "%s: took %.1f s" % (label, took))
        expect(label, ended, 128 + signal.SIGTERM)
        expect_empty(label, out)


def check_rows(work, source):
    """Of the table of failures: what is no matter of the transport ends as it does over MPI."""
    out = empty_folder(work, "rows")
    ended = Job(work, 3).start_all(source + "x", out + "/%r.pt").end()
    expect("no source", ended, 3)
    expect("no source", {0: ended[0]}, 3, r"rank 0 \(", "source.ptx: cannot open")
    job = Job(work, 3)
    for rank in range(3):
        job.start(rank, source, out + "/%r/a.pt")
    ended = job.end()
    expect("no folder", ended, 4)
    expect("no folder", {0: ended[0]}, 4, r"rank 0 \(", "--mkdir")
    ended = Job(work, 2).start_all("--expect", "12345678", source, out + "/%r.pt").end()
    expect("another checksum", ended, 5)
    expect("no MPI", Job(work, 2).start_all("--transport", "mpi", source, out + "/%r.pt", CKPT_MPI_PLUGIN="/no.so").end(), 8)
    ended = Job(work, 2).start_all("--transport", "nccl", source, out + "/%r.pt").end()
    expect("no GPU", ended, 8)
    os.mkdir(out + "/0")
    os.mkdir(out + "/2")
    ended = Job(work, 3).start_all("--keep-going", source, out + "/%r/a.pt").end()
    expect("the others go on", ended, 9)
    note(all(same(source, "%s/%d/a.pt" % (out, rank)) for rank in (0, 2)), "the others go on: other bytes")
    shutil.rmtree(out)
    out, long = empty_folder(work, "rows"), long_source(work)
    job = Job(work, 3).start_all(*SLOW, long, out + "/%r.pt")
    job.wait_for_bytes(out)
    os.truncate(long, 1 << 20)
    ended = job.end()
    expect("a source cut on the way", ended, 3)
    expect_empty("rows", out)


def main():
    base = os.environ.get("CKPT_TEST_DIR") or None
    if base:
        os.makedirs(base, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="tcp-", dir=base) as work:
        source = os.path.join(work, "source.pt")
        with open(source, "wb") as out:
            out.write(random.Random(1).randbytes((9 << 20) + 12345))
        for check in (check_files, check_depth, check_ways, check_folders, check_strangers, check_wire, check_tokens, check_meeting, check_leaving, check_left_over, check_lost, check_removed, check_woken,
                      check_signal, check_early_signal, check_rows):
            check(work, source)
    print("%d failures" % len(FAILURES))
    return 1 if FAILURES else 0


if __name__ == "__main__":
    sys.exit(main())

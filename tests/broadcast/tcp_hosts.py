# SPDX-License-Identifier: Apache-2.0
"""ckpt broadcast over plain TCP between hosts: network namespaces on a bridge, each with a second network.

Needs root and what makes namespaces; exits with 77 where there is none.
"""

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time

import hosts
import tcp
from tcp import empty_folder, expect, expect_empty, long_source, note, same

INSIDE = 'hostname "$0" && exec "$@"'
RATE_MBIT = 400


class Hosts(hosts.Hosts):
    """HOST i has the addresses 10.213.7.i on eth0, and 10.213.8.i on fast0."""

    def make(self):
        steps = []
        for i, name in enumerate(self.names):
            inside = ("ip", "netns", "exec", name, "ip")
            link = self.links[i] + "f"
            steps += [("ip", "link", "add", link, "type", "veth", "peer", "name", "fast0", "netns", name),
                      ("ip", "link", "set", link, "master", self.bridge, "up"),
                      inside + ("addr", "add", "10.213.8.%d/24" % (i + 1), "dev", "fast0"),
                      inside + ("link", "set", "fast0", "up")]
        return super().make() and all(hosts.sh(*step) for step in steps)

    def remove(self):
        for link in self.links:
            hosts.sh("ip", "link", "del", link + "f")
        super().remove()

    def inside(self, number):
        return ("ip", "netns", "exec", self.names[number], "unshare", "--uts", "sh", "-c", INSIDE, self.names[number])


class Job(tcp.Job):
    """One rank on each of HOSTS, the first of which others find at 10.213.7.1."""

    def __init__(self, work, some, way="tcp"):
        super().__init__(work, len(some.names), way, host="10.213.7.1")
        self.hosts = some

    def start(self, rank, *arguments, before=(), **more):
        return super().start(rank, *arguments, before=(*self.hosts.inside(rank), *before), **more)


def check_bytes(some, work, source):
    """All hosts have the same bytes, whichever way they meet and whichever network they take."""
    for way in ("tcp", "file"):
        for more in ((), ("--interface", "fast0"), ("--readers", str(len(some.names)), "--chunk", "1M")):
            out = empty_folder(work, "bytes")
            ended = Job(work, some, way).start_all("-v", *more, source, out + "/%h.pt").end()
            label = "%d hosts, %s, %s" % (len(some.names), way, " ".join(more))
            expect(label, ended, 0, "transport " + tcp.TRANSPORT + (" by .*tcp/" + (more[1] if "--interface" in more else "") if tcp.TRANSPORT == "ucx" else ""))
            for name in some.names:
                note(same(source, "%s/%s.pt" % (out, name)), "%s: %s has other bytes" % (label, name))
            shutil.rmtree(out)


def check_link_local(some, work, source):
    """At an address that each host calls by the name of its own interface."""
    for number, name in enumerate(some.names):
        if not hosts.sh("ip", "netns", "exec", name, "ip", "addr", "add", "fe80::70%d/64" % number, "dev", "eth0", "nodad"):
            print("no IPv6 here")
            return
    out, address = empty_folder(work, "link"), "fe80::700"
    job = Job(work, some)
    ended = job.start_all("--rdzv", "tcp://[%s%%eth0]:%d" % (address, job.port), "--init-timeout", "20", source, out + "/%h.pt").end()
    expect("link-local", ended, 0)
    note(all(same(source, "%s/%s.pt" % (out, name)) for name in some.names), "link-local: other bytes")
    shutil.rmtree(out)


def check_cut(some, work, number):
    """The others end in time and name the host; nobody has a part of the file."""
    timeout, out, source = 2, empty_folder(work, "cut"), long_source(work, 1 << 30)
    job = Job(work, some).start_all("--timeout", str(timeout), "--chunk", "64K", "--depth", "2", source, out + "/%h.pt")
    job.wait_for_bytes(out)
    note(some.cut(number), "cut %d: the link stays up" % number)
    begin = time.monotonic()
    far = job.processes.pop(number)
    ended = job.end()
    took = time.monotonic() - begin
    label = "cut off from rank %d" % number
    expect(label, ended, 7, r"no answer from rank %d \(%s\)" % (number, some.names[number]))
    note(took < 3 * timeout + 6, "%s: the others ended after %.1f s" % (label, took))
    job.processes[number] = far
    expect(label + ", the one that was", job.end(20), 7)
    expect_empty(label, out)
    print("%s: the others ended after %.1f s (--timeout %d)" % (label, took, timeout))


def check_short_cut(some, work, source):
    """A link that comes back within the time is no failure."""
    out = empty_folder(work, "short")
    note(some.limit("%dmbit" % RATE_MBIT), "no rate can be set")
    job = Job(work, some).start_all("--timeout", "20", "--chunk", "64K", long_source(work, 64 << 20), out + "/%h.pt")
    job.wait_for_bytes(out)
    note(some.cut(1), "the link stays up")
    time.sleep(1)                                   # so long it is down
    hosts.sh("ip", "link", "set", some.links[1], "up")
    expect("a link that comes back", job.end(), 0)
    shutil.rmtree(out)


def check_filtered(some, work, source):
    """All meet, but two of them cannot connect: both are named, and what to do."""
    out = empty_folder(work, "filtered")
    inside = ("ip", "netns", "exec", some.names[1], "ip", "route", "add")
    note(hosts.sh(*inside, "blackhole", "10.213.7.3/32"), "nothing can be filtered")
    job = Job(work, some).start_all("--timeout", "3", source, out + "/%h.pt")
    ended = job.end()
    expect("filtered", ended, 6, r"rank 1 \(%s\) cannot connect to rank 2 \(%s\) at 10.213.7.3:\d+: " % tuple(some.names[1:3]),
           "--interface NAME chooses another network")
    job = Job(work, some).start_all("--interface", "fast0", source, out + "/%h.pt")
    expect("around it", job.end(), 0)
    shutil.rmtree(out)


def check_dropped(some, work, source):
    """The same where packets are dropped, and nothing comes back: the two are known before the others have waited enough."""
    out = empty_folder(work, "dropped")
    rules = "add table ip f; add chain ip f i { type filter hook input priority 0; }; add rule ip f i ip saddr 10.213.7.2 drop"
    if not hosts.sh("ip", "netns", "exec", some.names[2], "nft", rules):
        print("not looked at: packets that are dropped (no nftables)")
        return
    ended = Job(work, some).start_all("--timeout", "3", source, out + "/%h.pt").end()
    expect("dropped", ended, 6, r"rank 1 \(%s\) (cannot|did not) connect to rank 2 \(%s\) at 10.213.7.3:\d+: " % tuple(some.names[1:3]))
    expect_empty("dropped", out)


def check_first_address(some, work, source):
    """They meet in a folder, and one address of rank 0's host, maybe the first, leads nowhere: they take another."""
    for address in ("10.213.7.1/32", "10.213.8.1/32"):
        out = empty_folder(work, "first")
        for name in some.names[1:]:
            note(hosts.sh("ip", "netns", "exec", name, "ip", "route", "add", "blackhole", address), "nothing can be filtered")
        expect("not " + address, Job(work, some, "file").start_all(source, out + "/%r.pt").end(), 0)
        for name in some.names[1:]:
            hosts.sh("ip", "netns", "exec", name, "ip", "route", "del", "blackhole", address)
        shutil.rmtree(out)


def check_pods(some, work, source):
    """As the pods of an Indexed Job: a number from the job, and a name of rank 0 that is known some time after the start."""
    out, names = empty_folder(work, "pods"), os.path.join(work, "names")
    with open(names, "w") as stream:
        stream.write("127.0.0.1 localhost\n")
    job = Job(work, some)
    own = ("unshare", "--mount", "sh", "-c", 'mount --bind "$0" /etc/hosts && exec "$@"', names)
    for rank in range(len(some.names)):
        job.start(rank, "--launcher", "k8s", "--rdzv", "tcp://train-0.train:29400", source, out + "/%r.pt", before=own,
                  JOB_COMPLETION_INDEX=str(rank), CKPT_WORLD_SIZE=str(len(some.names)))
    hosts.wait_for(lambda: sum(is_at_work(p.pid) for p in job.processes.values()) == len(some.names), 10)
    with open(names, "a") as stream:
        stream.write("10.213.7.1 train-0.train\n")
    expect("pods", job.end(), 0)
    for rank in range(len(some.names)):
        note(same(source, "%s/%d.pt" % (out, rank)), "pods: rank %d has other bytes" % rank)
    shutil.rmtree(out)


def is_at_work(pid):
    """It has come to where it meets the others, which it does in threads."""
    return hosts.executable(pid) == "ckpt" and len(os.listdir("/proc/%d/task" % pid)) > 1


def check_stranger(some, work, source):
    """Somebody on the network connects to every port of a host while the ranks meet, and holds the connections."""
    out = empty_folder(work, "stranger")
    job = Job(work, some)
    knock = ("import socket,sys,time\nheld=[]\nend=time.monotonic()+float(sys.argv[1])\nwhile time.monotonic()<end:\n"
             " for port in range(32768, 61000, 7):\n  s=socket.socket(); s.setblocking(False)\n"
             "  s.connect_ex(('10.213.7.1', port)); held.append(s)\n  held[-400:-300]=[]\n")
    knocker = subprocess.Popen([*some.inside(2), sys.executable, "-c", knock, "3"], stderr=subprocess.DEVNULL)
    job.start_all(source, out + "/%h.pt")
    expect("a port scanner", job.end(), 0)
    knocker.kill()
    knocker.wait()
    shutil.rmtree(out)


def check_reboot(some, work, _):
    """A host goes down without a word and comes back: its kernel knows no such connection."""
    out, source = empty_folder(work, "reboot"), long_source(work, 1 << 30)
    job = Job(work, some).start_all("--timeout", "3", "--chunk", "64K", "--depth", "2", source, out + "/%h.pt")
    job.wait_for_bytes(out)
    victim = job.processes.pop(1)
    some.cut(1)
    victim.send_signal(signal.SIGKILL)              # what it would say goes nowhere
    victim.communicate()
    hosts.sh("ip", "netns", "exec", some.names[1], "ss", "-K", "dst", "10.213.7.0/24")
    hosts.sh("ip", "link", "set", some.links[1], "up")
    begin = time.monotonic()
    ended = job.end()
    expect("a host that starts again", ended, 7, r"no answer from rank 1 \(%s\)" % some.names[1])
    note(time.monotonic() - begin < 15, "a host that starts again: %.1f s" % (time.monotonic() - begin))
    expect_empty("reboot", out)


def check_speed(some, work, _):
    """No slower than what a link carries, however many hosts there are."""
    size = 64 << 20
    note(some.limit("%dmbit" % RATE_MBIT), "no rate can be set")
    source = long_source(work, size)
    begin = time.monotonic()
    job = Job(work, some)
    ended = job.start_all("--target", "null", source).end()
    took = time.monotonic() - begin
    expect("speed", ended, 0)
    print("%d hosts of %d Mbit/s: %.2f s for %d MiB, the links need %.2f s; %s" % (
        len(some.names), RATE_MBIT, took, size >> 20, size * 8 / RATE_MBIT / 1e6, ended[0][1].strip()))


def with_hosts(work, source, check, count=3, *more):
    """Made anew for each: what a cut leaves behind takes minutes to go."""
    hosts.Hosts.made %= 6
    some = Hosts(work, count)
    try:
        if not some.make():
            print("skipped: no network namespaces can be made here")
            sys.exit(77)
        check(some, work, *(more or (source,)))
    finally:
        hosts.kill_all([pid for pids in some.processes("") for pid in pids])
        some.remove()


def main():
    if not hosts.can_be_made():
        print("skipped: hosts are made of network namespaces, which takes root and iproute2")
        return 77
    base = os.environ.get("CKPT_TEST_DIR") or None
    if base:
        os.makedirs(base, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="tcp-hosts-", dir=base) as work:
        source = os.path.join(work, "source.pt")
        with open(source, "wb") as out:
            out.write(os.urandom((9 << 20) + 12345))
        for count in (2, 4, 8):
            with_hosts(work, source, check_bytes, count)
        with_hosts(work, source, check_link_local, 3)
        for number in (2, 1, 0):
            with_hosts(work, source, check_cut, 3, number)
        for check in (check_short_cut, check_filtered, check_dropped, check_first_address, check_pods, check_stranger, check_reboot):
            with_hosts(work, source, check)
        for count in (2, 4, 8):
            with_hosts(work, source, check_speed, count)
    print("%d failures" % len(tcp.FAILURES))
    return 1 if tcp.FAILURES else 0


if __name__ == "__main__":
    sys.exit(main())

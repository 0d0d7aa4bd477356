# SPDX-License-Identifier: Apache-2.0
"""ckpt broadcast over TCP or UCX between hosts whose network is bad: packets are lost, come late, or go slowly: tcp_network.py [ucx]

It takes time and is no failure: all have the same bytes. Needs root and network namespaces (77 where there are none); loss takes
nftables, and packets are late in a relay between TUN devices, as kernels often have no netem.
"""

import collections
import ctypes
import fcntl
import os
import random
import re
import select
import shutil
import struct
import sys
import tempfile
import threading
import time

import hosts
import tcp
from tcp import LONG, TRANSPORT, empty_folder, expect, note, same
from tcp_hosts import Job, with_hosts

TIMEOUT = 5                                         # nothing may be taken for a failure that takes less
COUNT = 3
BUSY_TRIES = 3
TUNSETIFF, IFF_TUN, IFF_NO_PI, CLONE_NEWNET = 0x400454CA, 1, 0x1000, 0x40000000
SIZE = 9 << 20


def broadcast(some, work, source, label, most, *arguments, **more):
    """All have it within MOST seconds."""
    out = empty_folder(work, "network")
    begin = time.monotonic()
    ended = Job(work, some).start_all("--timeout", str(TIMEOUT), *arguments, source, out + "/%h.pt", **more).end(most + 60)
    took = time.monotonic() - begin
    expect(label, ended, 0)
    for name in some.names:
        note(same(source, "%s/%s.pt" % (out, name)), "%s: %s has other bytes" % (label, name))
    note(took < most, "%s: took %.1f s, wanted %d" % (label, took, most))
    print("%s, %s: %.2f s for %.1f MiB to %d hosts" % (TRANSPORT, label, took, os.path.getsize(source) / 2**20, len(some.names)), flush=True)
    shutil.rmtree(out)


def check_loss(some, work, source, percent):
    rules = "add table inet t; add chain inet t c { type filter hook input priority 0; }; add rule inet t c iifname != lo numgen random mod 100 < %d drop"
    if not all(hosts.sh("ip", "netns", "exec", name, "nft", rules % percent) for name in some.names):
        print("not looked at: packets that are lost (no nftables)")
        return
    broadcast(some, work, source, "%d %% of the packets are lost" % percent, 60)


def check_slow(some, work, source):
    """So slowly that the buffers of the kernel hold more than what goes within a second."""
    note(some.limit("20mbit"), "no rate can be set")
    broadcast(some, work, source, "20 Mbit/s", 4 * SIZE * 8 / 20e6)


def check_slow_way(some, work, source):
    """The way that all wait for is named by its two ends, where it is slower than others, and else none is."""
    if TRANSPORT == "ucx":                          # which does not say
        return
    words = r"all waited for the network from rank 1 \(%s\) to rank 2 \(%s\): it took [34]\.\d MB/s, another one \d+\.\d\n" % tuple(some.names[1:3])
    for slow in ((1,), ()):
        # on a busy machine the network may wait for the rank, and then it is not named; where it is as fast as others, never
        for left in range(BUSY_TRIES if slow else 1, 0, -1):
            note(some.limit("32mbit", *slow), "no rate can be set")
            ended = Job(work, some).start_all("--target", "null", source).end()
            for host in some.names:
                hosts.sh("ip", "netns", "exec", host, "tc", "qdisc", "del", "dev", "eth0", "root")
            expect("a slow way", ended, 0)
            note("network from" not in "".join(err for rank, (_, err) in ended.items() if rank), "a slow way: %s" % ended)
            named = bool(re.search(words if slow else "network from", ended[0][1]))
            if named == bool(slow) or left == 1:
                break
        note(named == bool(slow), "slow at %s: %r" % (slow, ended[0][1]))


def check_slow_end(some, work, source):
    """The last rank gets long after all others have, and wait for its vote: it moves, and is not given up."""
    note(some.limit("6mbit", len(some.names) - 2), "no rate can be set")
    small = os.path.join(work, "small.pt")
    with open(small, "wb") as out:
        out.write(random.Random(2).randbytes(3 << 20))
    broadcast(some, work, small, "6 Mbit/s before the last host", 30, "--timeout", "1")
    hosts.sh("ip", "netns", "exec", some.names[-2], "tc", "qdisc", "del", "dev", "eth0", "root")
    some.limit("2mbit", 0, burst="32kb")
    os.truncate(small, 1 << 20)
    broadcast(some, work, small, "2 Mbit/s, and a chunk takes twice the time-out", 30, "--timeout", "2", "--chunk", "1M")


class Relay(threading.Thread):
    """Between tun0 of all hosts, which have 10.213.9.i there: each packet comes MSEC to 1.5 times MSEC late, in order."""

    def __init__(self, some, msec):
        super().__init__(daemon=True)
        self.delay, self.ends, self.stopped = msec / 1e3, [], False
        for number, name in enumerate(some.names):
            self.ends.append(open_tun(name))
            inside = ("ip", "netns", "exec", name, "ip")
            note(hosts.sh(*inside, "addr", "add", "10.213.9.%d/24" % (number + 1), "dev", "tun0") and
                 hosts.sh(*inside, "link", "set", "tun0", "up"), "no TUN device")
        self.start()

    def run(self):
        late = collections.deque()                  # (when, where to, packet)
        while not self.stopped:
            wait = max(0, late[0][0] - time.monotonic()) if late else 0.1
            for end in select.select(self.ends, [], [], min(wait, 0.1))[0]:
                packet = os.read(end, 65536)
                if packet[0] >> 4 == 4 and packet[16:19] == bytes((10, 213, 9)) and 1 <= packet[19] <= len(self.ends):
                    when = time.monotonic() + self.delay * random.uniform(1, 1.5)
                    late.append((max(when, late[-1][0]) if late else when, self.ends[packet[19] - 1], packet))
            while late and late[0][0] <= time.monotonic():
                _, end, packet = late.popleft()
                os.write(end, packet)

    def stop(self):
        self.stopped = True
        self.join()
        for end in self.ends:
            os.close(end)


def open_tun(name):
    """tun0 of a namespace; a thread of its own enters that."""
    found = []

    def enter():
        libc = ctypes.CDLL(None, use_errno=True)
        with open("/run/netns/" + name) as space:
            if libc.setns(space.fileno(), CLONE_NEWNET) != 0:
                return
        end = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
        fcntl.ioctl(end, TUNSETIFF, struct.pack("16sH22x", b"tun0", IFF_TUN | IFF_NO_PI))
        found.append(end)
    thread = threading.Thread(target=enter)
    thread.start()
    thread.join()
    return found[0]


def check_delay(some, work, source, msec):
    if not os.path.exists("/dev/net/tun"):
        print("not looked at: packets that are late (no /dev/net/tun)")
        return
    relay = Relay(some, msec)
    port = tcp.free_port()
    try:
        broadcast(some, work, source, "packets are %d ms late" % msec, 60, "--rdzv", "tcp://10.213.9.1:%d" % port)
    finally:
        relay.stop()


def main():
    if not hosts.can_be_made():
        print("skipped: hosts are made of network namespaces, which takes root and iproute2")
        return 77
    base = os.environ.get("CKPT_TEST_DIR") or None
    if base:
        os.makedirs(base, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="tcp-network-", dir=base) as work:
        source = os.path.join(work, "source.pt")
        with open(source, "wb") as out:
            out.write(random.Random(1).randbytes(SIZE + 12345))
        for percent in (1, 5) if LONG else (1,):
            with_hosts(work, source, check_loss, COUNT, source, percent)
        for msec in (20, 100) if LONG else (20,):
            with_hosts(work, source, check_delay, COUNT, source, msec)
        with_hosts(work, source, check_slow, COUNT)
        with_hosts(work, source, check_slow_way, COUNT)
        with_hosts(work, source, check_slow_end, COUNT)
    print("%d failures" % len(tcp.FAILURES))
    return 1 if tcp.FAILURES else 0


if __name__ == "__main__":
    sys.exit(main())

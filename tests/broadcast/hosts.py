# SPDX-License-Identifier: Apache-2.0
"""ckpt broadcast between hosts: network namespaces on a bridge. One of them is cut off on the way.

Needs root and what makes namespaces; exits with 77 where there is none.
"""

import os
import shutil
import subprocess
import sys
import time

import ranks
from ranks import CKPT, environment, is_alive, kill_all, note, same

COUNT = 3
# mpirun starts its helper on HOST with this; the host has a name of its own as well
AGENT = """#!/bin/sh
host=$1
shift
exec ip netns exec "$host" unshare --uts sh -c 'hostname "$0" && exec sh -c "$*"' "$host" "$@"
"""


def sh(*argv):
    return subprocess.run(argv, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL).returncode == 0


class Hosts:
    """HOST i has the address 10.213.7.i; the first runs mpirun."""

    made = 0

    def __init__(self, work, count=COUNT):
        Hosts.made += 1                             # what is removed may take a while to go
        key = "%d%c" % (os.getpid() % 100000, "abcdefgh"[Hosts.made])
        self.bridge = "ckb" + key
        self.names = ["ck%sn%d" % (key, i + 1) for i in range(count)]
        self.links = ["ck%sv%d" % (key, i + 1) for i in range(count)]
        self.agent = os.path.join(work, "agent")
        with open(self.agent, "w") as out:
            out.write(AGENT)
        os.chmod(self.agent, 0o755)
        self.hostfile = os.path.join(work, "hosts")
        with open(self.hostfile, "w") as out:
            out.writelines("%s slots=1\n" % name for name in self.names)

    def make(self):
        steps = [("ip", "link", "add", self.bridge, "type", "bridge"), ("ip", "link", "set", self.bridge, "up")]
        for i, (name, link) in enumerate(zip(self.names, self.links)):
            inside = ("ip", "netns", "exec", name, "ip")
            steps += [("ip", "netns", "add", name),
                      ("ip", "link", "add", link, "type", "veth", "peer", "name", "eth0", "netns", name),
                      ("ip", "link", "set", link, "master", self.bridge, "up"),
                      inside + ("addr", "add", "10.213.7.%d/24" % (i + 1), "dev", "eth0"),
                      inside + ("link", "set", "eth0", "up"), inside + ("link", "set", "lo", "up")]
        return all(sh(*step) for step in steps)

    def remove(self):
        for name, link in zip(self.names, self.links):
            sh("ip", "link", "del", link)
            sh("ip", "netns", "del", name)
        sh("ip", "link", "del", self.bridge)

    def limit(self, rate, *numbers, burst="512kb"):
        """Each, or those of these numbers, sends so much at most, "800mbit"; BURST waits in front of that at most."""
        return all(sh("ip", "netns", "exec", name, "tc", "qdisc", "add", "dev", "eth0", "root", "tbf", "rate", rate,
                      "burst", burst, "latency", "50ms") for name in ([self.names[i] for i in numbers] or self.names))

    def cut(self, number):
        return sh("ip", "link", "set", self.links[number], "down")

    def start(self, *arguments):
        return self.start_each(CKPT, "broadcast", *arguments)

    def start_each(self, *command):
        """One process on every host."""
        argv = ["mpirun", "--hostfile", self.hostfile, "--mca", "plm_rsh_agent", self.agent, "--mca", "plm", "rsh",
                "--mca", "btl", "tcp,self", "--mca", "btl_tcp_if_include", "10.213.7.0/24", "--mca",
                "oob_tcp_if_include", "10.213.7.0/24", "-N", "1", *command]
        inside = ["ip", "netns", "exec", self.names[0], "unshare", "--uts", "sh", "-c", 'hostname "$0" && exec "$@"',
                  self.names[0], *argv]
        return subprocess.Popen(inside, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment(),
                                start_new_session=True)

    def processes(self, what="ckpt"):
        """Of each host, those that run ckpt."""
        found = []
        for name in self.names:
            pids = subprocess.run(["ip", "netns", "pids", name], stdout=subprocess.PIPE, text=True).stdout.split()
            found.append([int(pid) for pid in pids if what in executable(pid)])
        return found


def executable(pid):
    try:
        return os.path.basename(os.readlink("/proc/%s/exe" % pid))
    except OSError:
        return ""


def check_three(hosts, work, source):
    out = os.path.join(work, "three")
    os.mkdir(out)
    job = hosts.start("--timeout", "20", source, out + "/%h.pt")
    try:
        err = job.communicate(timeout=60)[1]
    except subprocess.TimeoutExpired:
        stop(hosts, job)
        err = "no end"
    note(job.returncode == 0, "three hosts: %s %s" % (job.returncode, err[-600:]))
    for name in hosts.names:
        note(same(source, "%s/%s.pt" % (out, name)), "three hosts: %s has other bytes" % name)


def stop(hosts, job):
    job.kill()
    kill_all([pid for pids in hosts.processes("") for pid in pids])
    job.communicate()


def wait_for(condition, seconds):
    end = time.monotonic() + seconds
    while not condition() and time.monotonic() < end:
        time.sleep(0.05)
    return condition()


def check_cut(hosts, work, number):
    """The others end in time and name the host; nobody has a part of the file."""
    timeout, out = 2, os.path.join(work, "cut-%d" % number)
    os.mkdir(out)
    source = os.path.join(work, "long.pt")
    with open(source, "wb") as file:
        file.truncate(1 << 30)
    job = hosts.start("--timeout", str(timeout), "--chunk", "64K", "--depth", "2", source, out + "/%h.pt")
    wait_for(lambda: all(any(ranks.writes(pid, out) for pid in pids) for pids in hosts.processes()), 20)
    mine = hosts.processes()
    note(all(mine), "cut %d: not all hosts are at work: %s" % (number, mine))
    note(hosts.cut(number), "cut %d: the link stays up" % number)
    begin = time.monotonic()
    near = [pid for i, pids in enumerate(mine) if i != number for pid in pids]
    over = wait_for(lambda: not any(map(is_alive, near)), 40)
    took = time.monotonic() - begin
    note(over and took < 3 * timeout + 6, "cut %d: the others ended after %.1f s" % (number, took))
    far = wait_for(lambda: not any(map(is_alive, mine[number])), 20)
    note(far, "cut %d: the one that was cut off is still there" % number)
    try:
        err = job.communicate(timeout=10)[1]
    except subprocess.TimeoutExpired:               # mpirun waits for its helper there
        job.terminate()
        try:
            err = job.communicate(timeout=10)[1]
        except subprocess.TimeoutExpired:
            job.kill()
            kill_all([pid for pids in hosts.processes("") for pid in pids])
            err = job.communicate()[1]
    note("no answer from rank %d (%s)" % (number, hosts.names[number]) in err, "cut %d: it is not named: %s" % (
        number, err[-900:]))
    note(os.listdir(out) == [], "cut %d: something is left: %s" % (number, os.listdir(out)))
    print("cut off from rank %d: the others ended after %.1f s (--timeout %d)" % (number, took, timeout))


def with_hosts(work, check):
    """Made anew for each: what a cut leaves behind takes minutes to go."""
    hosts = Hosts(work)
    try:
        if not hosts.make():
            print("skipped: no network namespaces can be made here")
            sys.exit(77)
        check(hosts)
    finally:
        kill_all([pid for pids in hosts.processes("") for pid in pids])
        hosts.remove()


def can_be_made():
    """Nothing says no before it is tried: it takes root and iproute2."""
    return os.geteuid() == 0 and bool(shutil.which("ip")) and bool(shutil.which("unshare"))


def main():
    if not can_be_made():
        print("skipped: hosts are made of network namespaces, which takes root and iproute2")
        return 77

    def check(work, source):
        with_hosts(work, lambda hosts: check_three(hosts, work, source))
        for number in (2, 1):
            with_hosts(work, lambda hosts, number=number: check_cut(hosts, work, number))
    return ranks.run(check)


if __name__ == "__main__":
    sys.exit(main())

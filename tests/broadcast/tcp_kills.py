# SPDX-License-Identifier: Apache-2.0
"""ckpt broadcast over TCP or UCX: a rank is killed or stopped at a random time: tcp_kills.py [ucx] [KILLS]

The others end in time, all with the same status, name the rank that is lost, and leave nothing but whole files. One half
of the kills is on this host, the other between network namespaces where these can be made. KILLS: how many (8, in a
long run 300); CKPT_SEED: the number of the first.
"""

import os
import random
import re
import shutil
import signal
import sys
import tempfile
import time

import hosts
import tcp
import tcp_hosts
from tcp import LONG, TRANSPORT, empty_folder, note, same

TIMEOUT, INIT_TIMEOUT, MOST_RANKS = 2, 4, 5
SPARE = 5                                           # seconds, for processes that start and end on a busy machine
FIRST = int(os.environ.get("CKPT_SEED", "0"))


class Kill:
    """One broadcast, of which one rank is lost at a random time."""

    def __init__(self, work, seed, some, source):
        self.pick = random.Random(seed)
        self.work, self.seed, self.source = work, seed, source
        self.size = self.pick.randint(2, MOST_RANKS)
        self.victim = self.pick.randrange(self.size)
        self.how = signal.SIGSTOP if self.pick.random() < 0.25 else signal.SIGKILL
        self.way = self.pick.choice(("tcp", "file"))
        if some:
            self.job = tcp_hosts.Job(work, some, self.way)
            self.job.size = self.size
        else:
            self.job = tcp.Job(work, self.size, self.way)
        self.names = some.names if some else [None] * self.size
        self.label = "kill %d (%s, rank %d of %d, %s%s)" % (seed, self.how.name, self.victim, self.size, self.way,
                                                             ", between hosts" if some else "")

    def options(self):
        pick = self.pick.choice
        flags = ["--timeout", str(TIMEOUT), "--init-timeout", str(INIT_TIMEOUT), "--chunk", pick(("4K", "64K", "1M")),
                 "--depth", pick(("1", "2", "16")), "--readers", str(self.pick.randint(1, self.size))]
        flags += pick(([], [], ["--no-sync"], ["--verify", "reread"]))
        return flags + pick(([], [], ["--keep-going"], ["--all-or-none"]))

    def wait(self, out):
        """Seven of ten times while bytes are carried or after that, else maybe while the ranks meet."""
        if self.pick.random() < 0.7:
            self.job.wait_for_bytes(out)
            time.sleep(self.pick.uniform(0, 0.6) ** 2)
        else:
            time.sleep(self.pick.uniform(0, 0.7) ** 2)

    def run(self, out):
        """What became of the others, and how long that took."""
        self.job.start_all(*self.options(), self.source, out + "/%r.pt")
        self.wait(out)
        process = self.job.processes.pop(self.victim)
        process.send_signal(self.how)
        begin = time.monotonic()
        ended = self.job.end(40)
        took = time.monotonic() - begin
        process.kill()
        process.communicate()
        self.was_over = process.returncode != -signal.SIGKILL
        return ended, took

    def check(self):
        """Status of the others, and how long they took."""
        out = empty_folder(self.work, "kill")
        ended, took = self.run(out)
        codes = {code for code, _ in ended.values()}
        note(len(codes) == 1 and codes <= {0, 6, 7}, "%s: %s" % (self.label, ended))
        status = max(codes)
        if status == 7 or (status == 6 and not self.was_over):
            self.check_names(ended, status)
        most = {0: 10, 6: INIT_TIMEOUT, 7: 1.25 * TIMEOUT if self.how == signal.SIGSTOP else 1}[status] + SPARE
        note(took < most, "%s: status %d after %.1f s" % (self.label, status, took))
        self.check_left(out, status)
        return status, took

    def check_names(self, ended, status):
        """A meeting says who does not come, or that two cannot connect."""
        host = self.names[self.victim] or tcp.HOST
        words = r"no answer from rank %d \(%s\)" % (self.victim, host)
        if status == 6:
            words += r"|waiting for ranks? (\d+, )*%d\b|rank %d \(%s|rank %d did not answer" % (self.victim, self.victim, host, self.victim)
        for rank, (_, err) in ended.items():
            note(re.search(words, err), "%s: rank %d does not name it: %s" % (self.label, rank, err[-500:]))

    def check_left(self, out, status):
        """The others have all of it or nothing, and nothing else; after a failure a name can only be there from the last step."""
        for name in os.listdir(out):
            if re.fullmatch(r"\d\.pt", name):
                note(same(self.source, os.path.join(out, name)), "%s: %s has other bytes" % (self.label, name))
            else:
                note(re.fullmatch(r"\.\d\.pt\.ckpt-staged", name), "%s: %s is left" % (self.label, name))
        for rank in range(self.size):
            there = os.path.exists("%s/%d.pt" % (out, rank))
            note(there or status != 0 or rank == self.victim, "%s: rank %d has nothing" % (self.label, rank))
        shutil.rmtree(out)


def shared_memory():
    """UCX opens a file there and removes its name at once: a kill between the two leaves it, which is not ours to mend."""
    return {name for name in os.listdir("/dev/shm") if name.startswith("ucx_shm")} if os.path.isdir("/dev/shm") else set()


def check_kills(work, seeds, some, source):
    before, found = shared_memory(), {}
    for seed in seeds:
        kill = Kill(work, seed, some, source)
        status, took = kill.check()
        found.setdefault((kill.how.name, status), []).append(took)
    if shared_memory() - before:
        print("in /dev/shm, of these or of others: %d files" % len(shared_memory() - before))
    for (how, status), times in sorted(found.items()):
        times.sort()
        print("%s, %s, %s: %3d ended with %d, after %.2f s (median), %.2f s (the latest)" % (
            TRANSPORT, "between hosts" if some else "on one host", how, len(times), status, times[len(times) // 2], times[-1]))


def main():
    count = int(sys.argv[-1]) if sys.argv[-1].isdigit() else 300 if LONG else 8
    base = os.environ.get("CKPT_TEST_DIR") or None
    if base:
        os.makedirs(base, exist_ok=True)
    seeds = range(FIRST, FIRST + count)
    near, far = seeds[::2], seeds[1::2]
    with tempfile.TemporaryDirectory(prefix="tcp-kills-", dir=base) as work:
        source = os.path.join(work, "source.pt")
        with open(source, "wb") as out:
            out.write(random.Random(1).randbytes((9 << 20) + 12345))
        if hosts.can_be_made():
            tcp_hosts.with_hosts(work, source, lambda some, *_: check_kills(work, far, some, source), MOST_RANKS)
        else:
            near = seeds
        check_kills(work, near, None, source)
    print("%d failures" % len(tcp.FAILURES))
    return 1 if tcp.FAILURES else 0


if __name__ == "__main__":
    sys.exit(main())

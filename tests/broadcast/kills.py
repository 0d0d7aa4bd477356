# SPDX-License-Identifier: Apache-2.0
"""A rank is killed or stopped at a random time of a random broadcast: who has the name has all of it, the old or the
new, and the job ends."""

import os
import random
import shutil
import signal
import subprocess
import time

from ranks import command, is_alive, kill_all, make_file, note, ranks_of, same, same_tree, send, start, wait_for_bytes


class Case:
    """One broadcast: what is brought, to where, how."""

    def __init__(self, folder, seed):
        self.random = random.Random(seed)
        self.folder = folder
        self.ranks = self.random.randint(2, 5)
        self.kind = self.random.choice(("file", "file", "files", "directory"))
        self.size = self.random.choice((0, 1, 1 << 20, self.random.randrange(30 << 20), 30 << 20))
        self.sources = self.make_sources("source")
        self.has_old = self.random.random() < 0.4
        self.old = self.make_sources("old") if self.has_old else []
        if self.has_old:
            self.put_old()

    def make_sources(self, name):
        """Made anew with other bytes for each NAME; the files' names are the same."""
        top = os.path.join(self.folder, name)
        os.mkdir(top)
        if self.kind == "file":
            return [make_file(top + "/model.pt", self.size, name)]
        names = ["a", "b", "c"] if self.kind == "files" else ["a", "sub/b", ".metadata"]
        os.mkdir(top + "/sub")
        paths = [make_file(os.path.join(top, one), self.size // 3, name + one) for one in names]
        return paths if self.kind == "files" else [top]

    def target(self, rank):
        return os.path.join(self.folder, "out-%s" % rank)

    def put_old(self):
        """Something that was staged before; of a directory only such a one is replaced."""
        for rank in range(self.ranks):
            if self.kind == "file":
                shutil.copy(self.old[0], self.target(rank))
            elif self.kind == "files":
                os.mkdir(self.target(rank))
                for path in self.old:
                    shutil.copy(path, self.target(rank))
            else:
                shutil.copytree(self.old[0], self.target(rank))
                open(self.target(rank) + "/.ckpt-staged", "w").close()

    def options(self):
        pick = self.random.choice
        flags = ["--timeout", "2", "--init-timeout", "5", "--chunk", pick(("4K", "4K", "64K", "1M", "4M")), "--depth", pick(("1", "2", "3", "4", "16")),
                 "--readers", str(self.random.randint(1, self.ranks))]
        flags += pick(([], ["--no-sync"], ["--verify", "reread"], ["--verify", "none"]))
        flags += pick(([], ["--keep-going"], ["--all-or-none"]))
        if self.kind == "files" and not self.has_old:
            for rank in range(self.ranks):
                os.mkdir(self.target(rank))
        return flags

    def argv(self):
        return command(self.ranks, *self.options(), *self.sources, self.target("%r"))

    def found(self, rank):
        """How many names of rank RANK there are: each has to be the whole of the source's, or of the old one."""
        target = self.target(rank)
        if self.kind == "files":
            return sum(self.check(os.path.join(target, os.path.basename(path)), path, same) for path in self.sources)
        return self.check(target, self.sources[0], same if self.kind == "file" else same_tree)

    def check(self, target, source, same_as):
        if not os.path.exists(target):
            note(not self.has_old, "%s: the old one is gone" % target)
            return 0
        is_new = same_as(target, source)
        note(is_new or (self.has_old and same_as(target, source.replace("/source", "/old"))),
             "%s (%s of %d bytes) is neither the source nor what was there" % (target, self.kind, self.size))
        return int(is_new)


def end(job, victims, label):
    """Open MPI 4.1 may wait for ever for a stopped child that it killed itself; our ranks must be gone."""
    try:
        job.communicate(timeout=15)
    except subprocess.TimeoutExpired:
        note(not any(map(is_alive, victims)), label + ": ranks hang")
        job.kill()
        job.communicate()
    finally:
        kill_all(victims)


def one(folder, seed):
    """Names that are there, and whether it was over before."""
    case = Case(folder, seed)
    job = start(case.argv())
    victims = ranks_of(job, case.ranks)
    if case.random.random() < 0.7:                  # else it may still be MPI that starts
        wait_for_bytes(job, victims, folder)
        time.sleep(case.random.uniform(0, 0.3) ** 2)
    else:
        time.sleep(case.random.uniform(0, 0.6))
    how = signal.SIGSTOP if seed % 6 == 5 else signal.SIGKILL
    if victims:
        send(case.random.choice(victims), how)
    label = "kill %d (%s)" % (seed, how.name)
    end(job, victims, label)
    names = sum(case.found(rank) for rank in range(case.ranks))
    whole = case.ranks * (len(case.sources) if case.kind == "files" else 1)
    if job.returncode == 0:
        note(names == whole, "%s: fine, but %d of %d files" % (label, names, whole))
    return names, job.returncode == 0, 0 < names < whole


def check(work, count):
    names = fine = some = 0
    for seed in range(count):
        folder = os.path.join(work, "kill-%d" % seed)
        os.mkdir(folder)
        more, was_fine, only_some = one(folder, seed)
        names, fine, some = names + more, fine + was_fine, some + only_some
        shutil.rmtree(folder)
    print("%d kills: %d came too late, %d left a part of the names, %d names in all" % (count, fine, some, names))

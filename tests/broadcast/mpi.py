# SPDX-License-Identifier: Apache-2.0
"""ckpt broadcast over MPI, as a user starts it: mpi.py [KILLS]

Needs mpirun, and ckpt-mpi.so beside CKPT; exits with 77 where one is missing. KILLS: how often a rank is
killed or stopped at a random time (6).
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

CKPT = os.path.abspath(os.environ.get("CKPT", "ckpt"))
FAILURES = []


def note(condition, text):
    if not condition:
        FAILURES.append(text)
        print("FAIL", text)


def environment(**more):
    env = dict(os.environ, OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1", **more)
    env.setdefault("OMPI_MCA_rmaps_base_oversubscribe", "1")
    env.setdefault("ASAN_OPTIONS", "detect_leaks=0")    # MPI's own; ours are looked for where ranks are threads
    return env


def mpirun(ranks, *arguments, before=()):
    """Exit status and messages; the ranks' own command may stand behind others."""
    command = ["mpirun", "--oversubscribe", "-np", str(ranks), *before, CKPT, "broadcast", *arguments]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=120,
                          env=environment())
    return done.returncode, done.stderr


def same(left, right):
    return subprocess.run(["cmp", "-s", left, right]).returncode == 0


def check_files(work, source):
    """Every rank has the file; there is nothing else."""
    for ranks in (1, 2, 3, 4, 8):
        for readers in (1, ranks):
            out = os.path.join(work, "out")
            os.mkdir(out)
            status, err = mpirun(ranks, "--readers", str(readers), "--chunk", "1M", "--depth", "3", source,
                                 out + "/%r.pt")
            label = "%d ranks, %d read" % (ranks, readers)
            note(status == 0, "%s: %d %s" % (label, status, err[-300:]))
            names = {"%d.pt" % rank for rank in range(ranks)} | {".%d.pt.ckpt-staged" % rank for rank in range(ranks)}
            note(set(os.listdir(out)) == names, "%s: %s" % (label, os.listdir(out)))
            for rank in range(ranks):
                note(same(source, "%s/%d.pt" % (out, rank)), "%s: rank %d has other bytes" % (label, rank))
            shutil.rmtree(out)


def check_one_writer(work, source):
    """Without %r the first of the node's ranks writes."""
    out = os.path.join(work, "one.pt")
    status, err = mpirun(3, source, out)
    note(status == 0 and same(source, out), "one writer: %d %s" % (status, err[-300:]))


def bytes_read(work):
    """In the traces, one file for each thread."""
    total = 0
    for name in os.listdir(work):
        if name.startswith("trace."):
            with open(os.path.join(work, name)) as lines:
                found = [re.search(r"(?:pread64|read)\(.* = (\d+)$", line) for line in lines]
            total += sum(int(match[1]) for match in found if match)
            os.unlink(os.path.join(work, name))
    return total


def check_reads(work, source):
    """The source is read once, however many ranks there are; what is there already is not read at all."""
    if not shutil.which("strace"):
        print("no strace: how much is read is not looked at")
        return
    size = os.path.getsize(source)
    for ranks in (1, 2, 4, 8):
        for again in (False, True):
            trace = os.path.join(work, "trace")
            out = os.path.join(work, "reads-%d-%%r.pt" % ranks)
            status, err = mpirun(ranks, source, out, before=("strace", "-ff", "-o", trace, "-P", source, "-e",
                                                             "trace=read,pread64,copy_file_range,mmap"))
            note(status == 0, "reads: %d %s" % (status, err[-300:]))
            found = bytes_read(work)
            note(found == (0 if again else size),
                 "%d ranks%s read %d bytes of %d" % (ranks, ", again," * again, found, size))


def check_codes(work, source):
    """One rank's trouble is everybody's: the code is the same, the message names the rank, nothing is there."""
    readonly = os.path.join(work, "1")
    os.mkdir(os.path.join(work, "0"))
    os.mkdir(os.path.join(work, "2"))
    with open(readonly, "w"):
        pass                                        # a file where rank 1 wants a folder
    cases = (("no source", 3, (source + "x", work + "/%r/a.pt"), "rank 0 ("),
             ("no folder on one rank", 4, (source, work + "/%r/a.pt"), "rank 1 ("),
             ("wrong letter", 4, (source, work + "/%q"), "'%q'"))
    for label, code, arguments, text in cases:
        status, err = mpirun(3, *arguments)
        note(status == code and text in err, "%s: %d, wanted %d: %s" % (label, status, code, err[-300:]))
    for rank in ("0", "2"):
        note(os.listdir(os.path.join(work, rank)) == [], "something is left: %s" % os.listdir(os.path.join(work, rank)))


def ranks_of(pid):
    """Process ids of ckpt below mpirun."""
    found = subprocess.run(["pgrep", "-P", str(pid)], stdout=subprocess.PIPE, text=True).stdout.split()
    return [int(one) for one in found]


def check_job_script(work, source):
    """examples/broadcast-mpirun.sh, on a cluster of this one machine."""
    script = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "examples", "broadcast-mpirun.sh")
    for name, wanted in ((source, work + "/node/source.pt"), (source + "x", source + "x")):
        done = subprocess.run([script, name, work + "/node"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                              timeout=120, env=environment(CKPT=CKPT))
        note(done.returncode == 0 and done.stdout == wanted + "\n", "job script: %r %s" % (done.stdout, done.stderr[-300:]))
    note(same(source, work + "/node/source.pt"), "job script: other bytes")


def is_alive(pid):
    try:
        with open("/proc/%d/stat" % pid) as stat:
            return stat.read().rpartition(")")[2].split()[0] not in "ZT"
    except OSError:
        return False


def check_kills(work, source, kills):
    """A rank dies or hangs at a random time: the job ends, and who has the name has the whole file."""
    names = 0
    for number in range(kills):
        out = os.path.join(work, "kill-%d" % number)
        os.mkdir(out)
        job = subprocess.Popen(["mpirun", "--oversubscribe", "-np", "3", CKPT, "broadcast", "--timeout", "2", "--chunk",
                                "1M", source, out + "/%r.pt"], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                               text=True, env=environment())
        time.sleep(random.uniform(0.05, 0.6))
        how = random.choice((signal.SIGKILL, signal.SIGSTOP))
        victims = ranks_of(job.pid)
        if victims:
            try:
                os.kill(random.choice(victims), how)
            except ProcessLookupError:
                pass
        try:
            job.communicate(timeout=15)
        except subprocess.TimeoutExpired:
            # Open MPI 4.1 may wait for ever for a stopped child that it killed itself; our ranks must be gone
            note(not any(map(is_alive, victims)), "kill %d (%s): ranks hang" % (number, how.name))
            job.kill()
            job.communicate()
        finally:
            for rank in victims:
                subprocess.run(["kill", "-9", str(rank)], stderr=subprocess.DEVNULL)
        done = [name for name in os.listdir(out) if re.fullmatch(r"\d\.pt", name)]
        names += len(done)
        for name in done:
            note(same(source, os.path.join(out, name)), "kill %d: %s is not the source" % (number, name))
        if job.returncode == 0 and how == signal.SIGKILL:
            note(len(done) == 3, "kill %d: fine, but %d files" % (number, len(done)))
        shutil.rmtree(out)
    print("%d kills, %d files had their name" % (kills, names))


def main():
    plugin = os.path.join(os.path.dirname(CKPT), "ckpt-mpi.so")
    if not shutil.which("mpirun") or not (os.path.exists(plugin) or os.environ.get("CKPT_MPI_PLUGIN")):
        print("skipped: no mpirun, or no ckpt-mpi.so beside ckpt")
        return 77
    base = os.environ.get("CKPT_TEST_DIR") or None
    if base:
        os.makedirs(base, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="mpi-", dir=base) as work:
        source = os.path.join(work, "source.pt")
        with open(source, "wb") as out:
            out.write(random.Random(1).randbytes((9 << 20) + 12345))
        check_files(work, source)
        check_one_writer(work, source)
        check_reads(work, source)
        check_codes(work, source)
        check_job_script(work, source)
        check_kills(work, source, int(sys.argv[1]) if len(sys.argv) > 1 else 6)
    print("%d failures" % len(FAILURES))
    return 1 if FAILURES else 0


if __name__ == "__main__":
    sys.exit(main())

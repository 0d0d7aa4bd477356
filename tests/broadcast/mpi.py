# SPDX-License-Identifier: Apache-2.0
"""ckpt broadcast over MPI: mpi.py [KILLS]

Needs mpirun, and ckpt-mpi.so beside CKPT; exits with 77 where one is missing. KILLS: how often a rank is
killed or stopped at a random time (4, in a long run 24).
"""

import os
import re
import shutil
import subprocess
import sys

import kills
from ranks import CKPT, environment, mpirun, note, run, same

LONG = os.environ.get("CKPT_TEST_LONG") == "1"
MOST_OPENED = 8                                     # by the threads that read first, and to look at it


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
    """In the traces, one file for each thread; and how often the source was opened."""
    total, opened = 0, 0
    for name in os.listdir(work):
        if name.startswith("trace."):
            with open(os.path.join(work, name)) as file:
                lines = file.readlines()
            found = [re.search(r"(?:pread64|read)\(.* = (\d+)$", line) for line in lines]
            opened += sum("openat(" in line for line in lines)
            total += sum(int(match[1]) for match in found if match)
            os.unlink(os.path.join(work, name))
    return total, opened


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
                                                             "trace=openat,read,pread64,copy_file_range,mmap"))
            note(status == 0, "reads: %d %s" % (status, err[-300:]))
            found, opened = bytes_read(work)
            note(found == (0 if again else size),
                 "%d ranks%s read %d bytes of %d" % (ranks, ", again," * again, found, size))
            note(opened <= MOST_OPENED, "%d ranks%s opened the source %d times" % (ranks, ", again," * again, opened))


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


def check_job_script(work, source):
    """examples/broadcast-mpirun.sh, on a cluster of this one machine."""
    script = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "examples", "broadcast-mpirun.sh")
    for name, wanted in ((source, work + "/node/source.pt"), (source + "x", source + "x")):
        done = subprocess.run([script, name, work + "/node"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                              timeout=120, env=environment(CKPT=CKPT))
        note(done.returncode == 0 and done.stdout == wanted + "\n", "job script: %r %s" % (done.stdout, done.stderr[-300:]))
    note(same(source, work + "/node/source.pt"), "job script: other bytes")


def check_kills(work, _):
    kills.check(work, int(sys.argv[1]) if len(sys.argv) > 1 else 24 if LONG else 4)


if __name__ == "__main__":
    sys.exit(run(check_files, check_one_writer, check_reads, check_codes, check_job_script, check_kills))

# SPDX-License-Identifier: Apache-2.0
"""How ranks meet through a PMIx server, that of Open MPI's mpirun: pmix.py MEET_PMIX

Exits with 77 where there is no mpirun, or no ckpt-pmix.so beside CKPT.
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile

CKPT = os.path.abspath(os.environ.get("CKPT", "ckpt"))
PLUGIN = os.path.join(os.path.dirname(CKPT), "ckpt-pmix.so")
FAILURES = []


def note(condition, text):
    if not condition:
        FAILURES.append(text)
        print("FAIL", text)


def environment(**more):
    env = dict(os.environ, OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1", CKPT_PMIX_PLUGIN=PLUGIN, **more)
    env.setdefault("ASAN_OPTIONS", "detect_leaks=0")    # PMIx's own
    return env


def run(*command, **more):
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=120,
                          env=environment(**more))
    return done.returncode, done.stdout


def mpirun(ranks, *command, **more):
    return run("mpirun", "--oversubscribe", "-np", str(ranks), *command, **more)


def has_children(process):
    """True if a process that PROCESS started is still there."""
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            try:
                with open("/proc/%s/stat" % entry, encoding="utf-8", errors="replace") as stream:
                    state, parent = stream.read().rpartition(")")[2].split()[:2]
            except OSError:     # it has just gone
                continue
            if int(parent) == process.pid and state != "Z":
                return True
    return False


def mpirun_until_ranks_end(ranks, *command):
    """
    As mpirun(). The libpmix of Open MPI 4 can lock itself up in mpirun when ranks go away from a fence that did not come about (in
    ext3x_server_deregister_client, about one time in fifty): that is no fault of the ranks, which have ended.
    """
    with tempfile.TemporaryFile("w+", encoding="utf-8") as output:
        process = subprocess.Popen(["mpirun", "--oversubscribe", "-np", str(ranks), *command], stdout=output, stderr=subprocess.STDOUT, env=environment())
        try:
            status = process.wait(20)
        except subprocess.TimeoutExpired:
            status = "mpirun waits for ranks" if has_children(process) else 0
            process.kill()
            process.wait()
            print("mpirun did not end by itself")
        output.seek(0)
        return status, output.read()


def check_meetings(meet):
    """Every rank's hello is with rank 0, and rank 0's answer with all; several times in one process."""
    for ranks in (1, 2, 4, 8):
        status, text = mpirun(ranks, meet, "3")
        note(status == 0 and text == "", "%d ranks: %d %s" % (ranks, status, text[-500:]))


def check_missing(meet):
    """A rank that does not come is named by the others, in time: within 20 seconds all have ended."""
    for missing in (0, 2):
        status, text = mpirun_until_ranks_end(3, meet, "1", "3", str(missing))
        want = "waiting for rank %d of 3 at PMIx's fence" % missing
        note(status == 0 and text.count(want) == 2, "rank %d missing: %d %s" % (missing, status, text[-500:]))


def check_none(meet):
    """No server, or one that is gone."""
    status, text = run(meet, RANK="0", WORLD_SIZE="2")
    note(status == 6 and "there is no PMIx server, PMIX_NAMESPACE is not set" in text, "no server: %d %s" % (status, text))
    status, text = run(meet, RANK="0", WORLD_SIZE="2", PMIX_NAMESPACE="gone.1", PMIX_RANK="0",
                       PMIX_SERVER_URI2="gone.1;tcp4://127.0.0.1:9", PMIX_SERVER_URI21="gone.1;tcp4://127.0.0.1:9")
    note(status == 6 and "PMIx has no server here" in text, "server gone: %d %s" % (status, text[-500:]))
    status, text = mpirun(2, meet, TORCHELASTIC_RUN_ID="x", RANK="0", WORLD_SIZE="4")
    note(re.search("PMIx says rank [01] of 2, torchrun says rank 0 of 4", text), "other world: %d %s" % (status, text[-500:]))


def main():
    if not shutil.which("mpirun") or not os.path.exists(PLUGIN):
        print("skipped: no mpirun, or no ckpt-pmix.so beside ckpt")
        return 77
    meet = sys.argv[1]
    check_meetings(meet)
    check_missing(meet)
    check_none(meet)
    print("%d failures" % len(FAILURES))
    return 1 if FAILURES else 0


if __name__ == "__main__":
    sys.exit(main())

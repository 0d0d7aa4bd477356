# SPDX-License-Identifier: Apache-2.0
"""ckpt broadcast in the Prolog of Slurm: a controller and four slurmd, each in network, UTS and mount namespaces of its own.

examples/broadcast-slurm-prolog.sh stages a checkpoint on all nodes before the job's tasks start and tells these its path, the next job finds
it there, and where it fails the nodes are drained, if the script is set so. Needs root, network namespaces, Slurm and MUNGE; exits with 77 where there are none.
"""

import os
import random
import shutil
import subprocess
import sys
import tempfile
import time

import hosts
import tcp
from hosts import wait_for
from tcp import CKPT, note

NODES = 4
HERE = os.path.dirname(os.path.abspath(__file__))
PROLOG = os.path.join(HERE, "..", "..", "examples", "broadcast-slurm-prolog.sh")
TOOLS = ("slurmctld", "slurmd", "munged", "srun", "sinfo", "scontrol", "nsenter")
CONF = """ClusterName=t
SlurmctldHost={controller}(10.213.7.1)
SlurmUser=root
AuthType=auth/munge
AuthInfo=socket={top}/munge.socket
StateSaveLocation={top}/state
SlurmctldPidFile={top}/ctld.pid
SlurmdPidFile={top}/slurmd.%n.pid
SlurmdSpoolDir={top}/spool.%n
SlurmctldLogFile={top}/ctld.log
SlurmdLogFile={top}/slurmd.%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
Prolog={top}/prolog.sh
Epilog={top}/stage.sh
TaskProlog={top}/stage.sh
PrologFlags=Alloc
{nodes}
PartitionName=stage Nodes=ALL Default=YES State=UP
PartitionName=broken Nodes=ALL State=UP
"""
SETTINGS = (
    ("export PATH=/usr/local/bin:/usr/bin:/bin ", "export PATH={top}/bin:{bin}:/usr/local/bin:/usr/bin:/bin "),
    ("state=/run/ckpt-stage ", "state=/dev/shm/ckpt-stage "),                                                # of each node
    ("on_failure=start ", 'on_failure=start; [ "$SLURM_JOB_PARTITION" != broken ] || on_failure=drain '),
    ("init=60 silence=60 ", "init=20 silence=20 "),
    ("keep=3d free=64G ", "keep=3d free=1M "),
)
INSIDE = 'hostname "$0" && mount --bind "$1" /etc && mount -t tmpfs tmpfs /dev/shm && shift && exec "$@"'


def write(path, text, mode=0o644):
    with open(path, "w", encoding="utf-8") as out:
        out.write(text)
    os.chmod(path, mode)


class Cluster:
    """Host 0 has the controller, the others are nodes."""

    def __init__(self, top, some):
        self.top, self.hosts, self.nodes, self.processes = top, some, some.names[1:], []
        self.etc = os.path.join(top, "etc")
        shutil.copytree("/etc", self.etc, symlinks=True, ignore_dangling_symlinks=True, ignore=shutil.ignore_patterns("ssl", "ssh", "ckpt"))
        os.makedirs(self.etc + "/ckpt/stage")
        write(self.etc + "/ckpt/token", tcp.TOKEN + "\n", 0o600)
        write(self.etc + "/ckpt/stage/stage", "MODEL %s/model.pt\n" % top)
        write(self.etc + "/ckpt/stage/broken", "MODEL %s/gone.pt\n" % top)
        write(self.etc + "/hosts", "127.0.0.1 localhost\n" + "".join("10.213.7.%d %s\n" % (i + 1, n) for i, n in enumerate(some.names)))
        lines = ["NodeName=%s NodeHostname=%s NodeAddr=10.213.7.%d CPUs=1 State=UNKNOWN" % (n, n, i + 2) for i, n in enumerate(self.nodes)]
        self.conf = os.path.join(top, "slurm.conf")
        write(self.conf, CONF.format(controller=some.names[0], top=top, nodes="\n".join(lines)))
        write(top + "/stage.sh", self.script(), 0o755)
        write(top + "/prolog.sh", '#!/bin/sh\nbegin=$(date +%%s%%N)\n%s/stage.sh "$@"\ncode=$?\necho "$SLURM_JOB_ID $(hostname) $((($(date +%%s%%N) - begin) / 1000000))" >>%s/prolog.log\n'
              "exit $code\n" % (top, top), 0o755)
        os.mkdir(top + "/bin")
        write(top + "/bin/logger", '#!/bin/sh\nshift 2\necho "$(hostname): $*" >>%s/stage.log\n' % top, 0o755)
        os.mkdir(top + "/state")
        with open(top + "/munge.key", "wb") as out:
            out.write(os.urandom(1024))
        os.chmod(top + "/munge.key", 0o400)

    def script(self):
        with open(PROLOG, encoding="utf-8") as example:
            text = example.read()
        for old, new in SETTINGS:
            if text.count("\n" + old) != 1:
                raise ValueError("the example has no longer: " + old)
            text = text.replace("\n" + old, "\n" + new.format(bin=os.path.dirname(CKPT), top=self.top), 1)
        return text

    def inside(self, number, *argv):
        """Without 'ip netns exec', which mounts a /sys that has no cgroups in it, and slurmd wants these."""
        name = self.hosts.names[number]
        return ["nsenter", "--net=/run/netns/" + name, "unshare", "--uts", "--mount", "sh", "-c", INSIDE, name, self.etc, *argv]

    def start(self, *argv):
        env = dict(tcp.environment(), SLURM_CONF=self.conf)
        with open(self.top + "/daemons.log", "ab") as log:
            self.processes.append(subprocess.Popen(argv, env=env, stdout=log, stderr=log, start_new_session=True))

    def start_all(self):
        top = self.top
        self.start("munged", "--foreground", "--force", "--socket=" + top + "/munge.socket", "--key-file=" + top + "/munge.key",
                   "--log-file=" + top + "/munge.log", "--pid-file=" + top + "/munge.pid", "--seed-file=" + top + "/munge.seed")
        wait_for(lambda: os.path.exists(top + "/munge.socket"), 10)
        self.start(*self.inside(0, "slurmctld", "-D", "-f", self.conf))
        for number, name in enumerate(self.nodes):
            os.mkdir("%s/spool.%s" % (top, name))
            self.start(*self.inside(number + 1, "slurmd", "-D", "-N", name, "-f", self.conf))
        return wait_for(lambda: self.states().count("idle") == NODES, 60)

    def run(self, *argv, seconds=60):
        env = dict(tcp.environment(), SLURM_CONF=self.conf)
        try:
            return subprocess.run(self.inside(0, *argv), env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=seconds)
        except subprocess.TimeoutExpired as late:
            return subprocess.CompletedProcess(argv, 124, str(late.stdout))

    def states(self):
        return self.run("sinfo", "-h", "-N", "-p", "stage", "-o", "%T").stdout.split()

    def prologs(self, job):
        """{node: seconds that its Prolog took}; Slurm itself waits for nodes, and takes its time."""
        with open(self.top + "/prolog.log", encoding="ascii") as log:
            lines = [line.split() for line in log]
        return {node: int(msec) / 1e3 for number, node, msec in lines if number == str(job)}

    def logs(self):
        text = ""
        for name in sorted(os.listdir(self.top)):
            if name.endswith(".log"):
                with open(os.path.join(self.top, name), encoding="utf-8", errors="replace") as log:
                    text += "== %s\n%s\n" % (name, log.read()[-2500:])
        return text

    def stop(self):
        for process in reversed(self.processes):
            process.terminate()
        for process in self.processes:
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def check_staged(cluster, source):
    """Before the first task starts, every node has the bytes; the second job waits for nothing, unless the machine is busy with something else."""
    task = '[ "$MODEL" = /dev/shm/ckpt/MODEL-model.pt ] && cmp "$1" "$MODEL" && hostname && stat -c %i.%Y /dev/shm/ckpt/MODEL-model.pt'
    before, tries, slowest = None, 5, 0
    for job in range(1, 2 + tries):
        label, most = ("the first job", 30) if job == 1 else ("a later job", 2)
        if job > 2 and slowest < most:
            break
        begin = time.monotonic()
        done = cluster.run("srun", "-N", str(NODES), "-p", "stage", "--chdir=/", "sh", "-c", task, "sh", source)
        took = time.monotonic() - begin
        prologs = cluster.prologs(job)
        words = sorted(line for line in done.stdout.splitlines() if not line.startswith("srun: job"))  # which waits for the end of the one before
        note(done.returncode == 0 and set(cluster.nodes) <= set(words), "%s: %s %s" % (label, done.returncode, done.stdout[-500:]))
        slowest = max(prologs.values(), default=0)
        note(took < 30 and len(prologs) == NODES and (slowest < most or job <= tries), "%s took %.2f s, its Prologs %s" % (label, took, prologs))
        note(before in (None, words), "%s: copied again: %s, before %s" % (label, words, before))
        before = words
        print("%s: %.2f s with srun, %.2f s in the slowest Prolog" % (label, took, slowest))


def check_drained(cluster):
    """No source: the Prolog fails on all nodes, and Slurm takes no more jobs there."""
    cluster.run("srun", "-N", str(NODES), "-p", "broken", "--chdir=/", "--immediate=15", "true", seconds=25)
    note(wait_for(lambda: all(state.startswith("drain") for state in cluster.states()), 20), "after a failure: %s" % cluster.states())


def main():
    if not hosts.can_be_made() or not all(map(shutil.which, TOOLS)):
        print("skipped: takes root, network namespaces, Slurm and MUNGE")
        return 77
    with tempfile.TemporaryDirectory(prefix="ckpt-slurm-") as top:
        os.chmod(top, 0o755)
        some = hosts.Hosts(top, NODES + 1)
        cluster = None
        try:
            if not some.make():
                print("skipped: no network namespaces can be made here")
                return 77
            source = os.path.join(top, "model.pt")
            with open(source, "wb") as out:
                out.write(random.Random(1).randbytes((32 << 20) + 12345))
            cluster = Cluster(top, some)
            if not cluster.start_all():
                print("skipped: Slurm does not start here: %s\n%s" % (cluster.states(), cluster.logs()))
                return 77
            check_staged(cluster, source)
            check_drained(cluster)
            if tcp.FAILURES:
                print(cluster.logs())
        finally:
            if cluster:
                cluster.stop()
            hosts.kill_all([pid for pids in some.processes("") for pid in pids])
            some.remove()
    print("%d failures" % len(tcp.FAILURES))
    return 1 if tcp.FAILURES else 0


if __name__ == "__main__":
    sys.exit(main())

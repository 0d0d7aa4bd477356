# SPDX-License-Identifier: Apache-2.0
"""A disk that gives only so many bytes a second, to all processes of a cgroup together."""
import os
import subprocess
import time


def forget(path):
    """The next read of the file comes from the disk."""
    with open(path, "rb") as file:
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def disk_of(path):
    """"254:0" of the whole disk, or None where there is none: a tmpfs, a network."""
    number = os.stat(path).st_dev
    folder = "/sys/dev/block/%d:%d" % (os.major(number), os.minor(number))
    if os.path.exists(folder + "/partition"):
        folder = os.path.join(os.path.realpath(folder), "..")
    try:
        with open(folder + "/dev", encoding="ascii") as file:
            return file.read().strip()
    except OSError:
        return None


class Throttle:
    """Reads from PATH's disk, RATE bytes a second; by cgroup version 2, or 1. WHY_NOT: it cannot be done here."""

    def __init__(self, path, rate):
        self.why_not = None
        self.folder = None
        disk = disk_of(path)
        for top, name, text in (("/sys/fs/cgroup", "io.max", "%s rbps=%d"),
                                ("/sys/fs/cgroup/blkio", "blkio.throttle.read_bps_device", "%s %d")):
            if disk and not self.folder:
                self.try_group(top, name, text % (disk, rate))
        if not self.folder:
            self.why_not = "no cgroup can limit reads of its disk (it takes root, and the io or blkio controller)"
        self.before = ["sh", "-c", 'echo $$ >"$0/cgroup.procs" && exec "$@"', self.folder or ""]

    def try_group(self, top, name, text):
        folder = os.path.join(top, "ckpt-bench-%d" % os.getpid())
        if not os.path.exists(top + "/cgroup.procs"):   # a plain folder, around those of version 1
            return
        try:
            os.mkdir(folder)
        except OSError:
            return
        try:
            with open(os.path.join(folder, name), "w", encoding="ascii") as out:
                out.write(text)
            self.folder = folder
        except OSError:
            os.rmdir(folder)

    def seconds(self, *argv):
        """How long a command takes that may read no faster."""
        begin = time.monotonic()
        subprocess.run([*self.before, *argv], check=True)
        return time.monotonic() - begin

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.folder:
            os.rmdir(self.folder)

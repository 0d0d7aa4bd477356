# SPDX-License-Identifier: Apache-2.0
"""Makes files for the tests of bad and strange input, and runs ckpt on them within limits."""

import os
import resource
import shutil
import signal
import struct
import subprocess
import tempfile
import unittest
import zlib

CKPT = os.environ.get("CKPT", "ckpt")
OPEN_MANY = os.environ.get("CKPT_OPEN_MANY")  # open_many.c
SANITIZED = os.environ.get("CKPT_SANITIZED") == "1"
SECONDS = 30 # of a processor: a guard against runaway work; speed itself is measured in bench
MEGABYTES = 512


# ---- pickles, protocol 2 ----

def text(value):
    value = value if isinstance(value, bytes) else value.encode()
    return b"X" + struct.pack("<I", len(value)) + value


def number(value):
    if 0 <= value < 2**31:
        return b"J" + struct.pack("<i", value)
    data = value.to_bytes(value.bit_length() // 8 + 1, "little", signed=True)
    return b"\x8a" + bytes([len(data)]) + data


def numbers(values):
    return b"(" + b"".join(number(v) for v in values) + b"t"


def glob(module, name):
    return b"c" + module.encode() + b"\n" + name.encode() + b"\n"


def storage(key="0", kind="FloatStorage", numel=4, location="cpu"):
    return (b"(" + text("storage") + glob("torch", kind) + text(key) + text(location) +
            number(numel) + b"tQ")


def tensor(key="0", kind="FloatStorage", numel=4, shape=(4,), stride=(1,), offset=0):
    return (glob("torch._utils", "_rebuild_tensor_v2") + b"(" + storage(key, kind, numel) +
            number(offset) + numbers(shape) + numbers(stride) + b"\x89" +
            glob("collections", "OrderedDict") + b")RtR")


def pickled(body):
    return b"\x80\x02" + body + b"."


def state_dict(**tensors):
    body = glob("collections", "OrderedDict") + b")R("
    for name, value in tensors.items():
        body += text(name) + value
    return pickled(body + b"u")


SOUND = state_dict(weight=tensor())
FOUR_FLOATS = struct.pack("<4f", 1, 2, 3, 4)


# ---- archives, by struct alone ----

def archive(records, name="archive", comment=b"", tail=b"", begins=0):
    """As torch lays it out: (record, bytes) in order, data aligned to 64, or BEGINS bytes behind that."""
    out, directory = bytearray(), bytearray()
    for record, data in records:
        full = (name + "/" if name else "").encode() + (
            record if isinstance(record, bytes) else record.encode())
        offset, flags = len(out), 0x0808 if data else 0x0800
        pad = (begins - (offset + 30 + len(full) + 4)) % 64
        out += struct.pack("<IHHHHHIIIHH", 0x04034B50, 0, flags, 0, 0, 0, 0, 0, 0, len(full), 4 + pad)
        out += full + struct.pack("<2sH", b"FB", pad) + b"Z" * pad + data
        if data:
            out += struct.pack("<IIII", 0x08074B50, zlib.crc32(data), len(data), len(data))
        directory += struct.pack("<IHHHHHHIIIHHHHHII", 0x02014B50, 0, 0, flags, 0, 0, 0,
                                 zlib.crc32(data), len(data), len(data), len(full), 0, 0, 0, 0, 0,
                                 offset) + full
    at, end = len(out), len(out) + len(directory)
    out += directory
    out += struct.pack("<IQHHIIQQQQ", 0x06064B50, 44, 0x031E, 45, 0, 0, len(records), len(records),
                       len(directory), at)
    out += struct.pack("<IIQI", 0x07064B50, 0, end, 1)
    out += struct.pack("<IHHHHIIH", 0x06054B50, 0, 0, min(len(records), 0xFFFF),
                       min(len(records), 0xFFFF), len(directory), at, len(comment))
    return bytes(out) + comment + tail


def torch_records(pickle=SOUND, version=b"3\n", data=FOUR_FLOATS):
    records = [("data.pkl", pickle)]
    if data is not None:
        records.append(("data/0", data))
    if version is not None:
        records.append(("version", version))
    return records


def torch_file(pickle=SOUND, version=b"3\n", data=FOUR_FLOATS, extra=()):
    return archive(torch_records(pickle, version, data) + list(extra))


# ---- running ----

def limits():
    """Where memory can be limited from outside: a sanitizer needs terabytes of addresses."""
    if not SANITIZED:
        resource.setrlimit(resource.RLIMIT_AS, (MEGABYTES << 20, MEGABYTES << 20))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def limits_of_a_command():
    limits()
    resource.setrlimit(resource.RLIMIT_CPU, (SECONDS, SECONDS + 5))


def environment():
    env = dict(os.environ, LC_ALL="C")
    if SANITIZED:
        options = env.get("ASAN_OPTIONS", "")
        if os.environ.get("CKPT_TEST_FAST"):
            options += ":detect_leaks=0"    # a third of the time of a short command
        env["ASAN_OPTIONS"] = options + ":hard_rss_limit_mb=%d:quarantine_size_mb=1" % (3 * MEGABYTES)
    return env


def many(variants, *mode):
    """The answer to each, all in one process, where commands would take minutes; see open_many.c for MODE."""
    variants = list(variants)
    given = b"".join(struct.pack("<I", len(data)) + data for data in variants)
    done = subprocess.run([OPEN_MANY, *mode], input=given, stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=280,
                          env=environment(), preexec_fn=limits)
    lines = done.stdout.decode("utf-8", "backslashreplace").splitlines()
    if (done.returncode, len(lines)) != (0, len(variants)):
        raise AssertionError("open_many: exit status %d, %d answers of %d: %s" % (
            done.returncode, len(lines), len(variants), done.stderr.decode(errors="replace")[:3000]))
    return lines


class BadFileTest(unittest.TestCase):
    maxDiff = None

    @classmethod
    def setUpClass(cls):
        base = os.environ.get("CKPT_TEST_DIR")
        if base:
            os.makedirs(base, exist_ok=True)
        cls.folder = tempfile.mkdtemp(dir=base)

    @classmethod
    def tearDownClass(cls):
        shutil.rmtree(cls.folder)

    def path(self, name):
        return os.path.join(self.folder, name)

    def write(self, data, name="bad.pt"):
        with open(self.path(name), "wb") as stream:
            stream.write(data)
        return self.path(name)

    def ckpt(self, *arguments):
        """(exit code, stdout, stderr); a crash, too much time or memory fails the test."""
        done = subprocess.run([CKPT, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                              stdin=subprocess.DEVNULL, timeout=280, env=environment(),
                              preexec_fn=limits_of_a_command)
        out, err = (part.decode("utf-8", "backslashreplace") for part in (done.stdout, done.stderr))
        self.assertNotEqual(done.returncode, -signal.SIGXCPU, "%s took more than %d s" % (arguments, SECONDS))
        self.assertIn(done.returncode, (0, 1, 2, 64), "%s\n%s" % (arguments, err[:2000]))
        self.assertNotIn("Sanitizer", err)
        return done.returncode, out, err

    def open_many(self, variants):
        """The message for each, None if it opens."""
        if not OPEN_MANY:
            self.skipTest("CKPT_OPEN_MANY is not set")
        return [None if line == "opened" else line for line in many(variants)]

    def assert_beginnings_refused(self, data, lengths=None):
        """DATA cut at every byte; and whole it opens."""
        lengths = list(range(len(data)) if lengths is None else lengths)
        for length, message in zip(lengths, self.open_many(data[:length] for length in lengths)):
            self.assertTrue(message, "%d bytes open" % length)

    def assert_refused(self, data, message, command="ls"):
        """Exit code 2 and exactly 'ckpt: PATH: MESSAGE'."""
        path = self.write(data)
        code, out, err = self.ckpt(command, path)
        self.assertEqual(err, "ckpt: %s: %s\n" % (path, message))
        self.assertEqual((code, out), (2, ""))

    def assert_listed(self, data, *lines):
        path = self.write(data)
        code, out, err = self.ckpt("ls", path)
        self.assertEqual((code, err), (0, ""))
        for line in lines:
            self.assertIn(line, out)


def main():
    unittest.main(module="__main__")

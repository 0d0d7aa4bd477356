# SPDX-License-Identifier: Apache-2.0
"""What the tests of promises share: inputs of every kind, commands that write, and trees as they were and are.

A promise holds for all commands and inputs, so these are tables, and the tests take from them at random. With CKPT_SEED a
run is repeated; CKPT_SECONDS says how long it goes on, else ROUNDS of each program.
"""

import hashlib
import os
import random
import shutil
import stat
import subprocess
import sys
import tempfile
import time

CKPT = os.environ["CKPT"]
SOURCE = os.environ["CKPT_SOURCE_DIR"]
DDP = os.path.join(SOURCE, "tests", "fixtures", "ddp")
TIMEOUT = 60  # seconds; none takes one
GOOD_CODES = (0, 1, 2)  # fine, the answer is no, error: all that a command may answer here


class Finding(Exception):
    """A promise that does not hold."""


class Result:
    def __init__(self, argv, code, out, err):
        self.argv, self.code, self.out, self.err = argv, code, out, err

    def __str__(self):
        return "ckpt %s\nexit code %s\n%s%s" % (" ".join(self.argv), self.code, self.out[:2000], self.err[:2000])


def ckpt(*argv, cwd=None, env=None, closed=()):
    """Run it, with those standard streams CLOSED; a crash, a hang and a leak are findings."""

    def close():
        for fd in closed:
            os.close(fd)

    settings = dict(os.environ, LC_ALL="C", **(env or {}))
    try:
        done = subprocess.run([CKPT, *argv], cwd=cwd, env=settings, capture_output=True, timeout=TIMEOUT, check=False,
                              preexec_fn=close if closed else None)
    except subprocess.TimeoutExpired as e:
        raise Finding("ckpt %s: still running after %d s" % (" ".join(argv), TIMEOUT)) from e
    result = Result(argv, done.returncode, done.stdout.decode(errors="replace"), done.stderr.decode(errors="replace"))
    good = range(11) if argv[0] == "broadcast" else GOOD_CODES
    if result.code not in (*good, 64) or "Sanitizer" in result.err or "runtime error" in result.err:
        raise Finding(str(result))
    if result.code == 2 and not result.err.startswith("ckpt: ") and not result.out and 2 not in closed:
        raise Finding("an error without a message: " + str(result))
    return result


# ---- inputs ----


def must(*argv, cwd=None):
    result = ckpt(*argv, cwd=cwd)
    if result.code:
        raise RuntimeError("cannot make an input: " + str(result))


def make_torch(path):
    shutil.copy(os.path.join(DDP, "ddp_model.pt"), path)


def make_trainer(path):
    shutil.copy(os.path.join(DDP, "ddp_trainer.pt"), path)


def make_by(*argv, of="ddp_model.pt"):
    def make(path):
        must(*(os.path.join(DDP, of) if word == "IN" else path if word == "OUT" else word for word in argv))

    return make


def make_numbered(path):
    must("convert", "-q", os.path.join(DDP, "ddp_model.pt"), path, "--shard-size", "2KB")
    os.unlink(os.path.join(path, "model.safetensors.index.json"))


def make_ranks(path):
    os.mkdir(path)
    for rank in range(3):
        shutil.copy(os.path.join(DDP, "ddp_model.pt"), os.path.join(path, "model_rank_%d.pt" % rank))


def make_dcp_beside(path):
    must("split", "-q", "--ranks", "2", os.path.join(DDP, "ddp_model.pt"), path)
    shutil.copy(os.path.join(DDP, "ddp_trainer.pt"), os.path.join(path, "meta.pt"))
    with open(os.path.join(path, "notes.txt"), "w") as file:
        file.write("notes\n")


# name: (how it is made, whether it is a directory)
KINDS = {
    "torch": (make_torch, False),
    "trainer": (make_trainer, False),
    "legacy": (make_by("convert", "-q", "--to", "torch-legacy", "IN", "OUT"), False),
    "big": (make_by("convert", "-q", "--byteorder", "big", "IN", "OUT"), False),
    "no-crc": (make_by("convert", "-q", "--crc", "off", "IN", "OUT"), False),
    "safetensors": (make_by("convert", "-q", "--to", "safetensors", "IN", "OUT"), False),
    "dcp": (make_by("split", "-q", "--ranks", "3", "IN", "OUT", of="ddp_trainer.pt"), True),
    "dcp-columns": (make_by("split", "-q", "--ranks", "2", "--dim", "1", "IN", "OUT"), True),
    "dcp-whole": (make_by("split", "-q", "--ranks", "2", "--keep-whole", "1M", "IN", "OUT"), True),
    "dcp-beside": (make_dcp_beside, True),
    "hf": (make_by("convert", "-q", "--to", "safetensors", "--shard-size", "2KB", "IN", "OUT"), True),
    "hf-pickles": (make_by("convert", "-q", "--to", "torch", "--shard-size", "2KB", "IN", "OUT"), True),
    "hf-numbered": (make_numbered, True),
    "hf-parts": (make_by("split", "-q", "--to", "safetensors", "--ranks", "3", "--drop-others", "IN", "OUT", of="ddp_trainer.pt"), True),
    "ranks": (make_ranks, True),
}


def make_inputs(folder):
    """One of each kind, in FOLDER/KIND."""
    for name, (make, _) in KINDS.items():
        make(os.path.join(folder, name))


# ---- commands that write ----

# (words, whether OUT is a directory); IN and OUT are put in their places. What a kind of input has no use for is refused.
COMMANDS = [
    (["convert", "--to", "torch", "IN", "OUT"], False),
    (["convert", "--to", "torch", "--profile", "1.13", "IN", "OUT"], False),
    (["convert", "--to", "torch", "--crc", "off", "IN", "OUT"], False),
    (["convert", "--to", "torch", "--byteorder", "big", "IN", "OUT"], False),
    (["convert", "--to", "torch-legacy", "IN", "OUT"], False),
    (["convert", "--to", "safetensors", "--drop-others", "--shared", "clone", "IN", "OUT"], False),
    (["convert", "--to", "npz", "--drop-others", "IN", "OUT"], False),
    (["convert", "--to", "npy", "--drop-others", "IN", "OUT"], True),
    (["convert", "--to", "safetensors", "--drop-others", "--shared", "clone", "--shard-size", "2KB", "IN", "OUT"], True),
    (["convert", "--to", "torch", "--drop-others", "--shared", "clone", "--shard-size", "2KB", "IN", "OUT"], True),
    (["split", "--ranks", "2", "IN", "OUT"], True),
    (["split", "--ranks", "3", "--dim", "1", "IN", "OUT"], True),
    (["split", "--ranks", "3", "--dim", "best", "IN", "OUT"], True),
    (["split", "--ranks", "2", "--to", "safetensors", "--drop-others", "--shared", "clone", "IN", "OUT"], True),
    (["reshard", "--ranks", "4", "IN", "OUT"], True),
    (["reshard", "--ranks", "2", "--dim", "1", "IN", "OUT"], True),
    (["reshard", "--ranks", "2", "--to", "safetensors", "--drop-others", "--shared", "clone", "IN", "OUT"], True),
    (["merge", "IN", "OUT"], False),
    (["merge", "--shards-only", "IN", "OUT"], False),
    (["reindex", "IN", "OUT"], True),
    (["reindex", "--hard-link", "IN", "OUT"], True),
    (["strip-module", "--if-present", "IN", "OUT"], None),
    (["strip-module", "--if-present", "--hard-link", "IN", "OUT"], None),
    (["add-module", "IN", "OUT"], None),
    (["add-prefix", "x.", "IN", "OUT"], None),
    (["strip-prefix", "--if-present", "stem.", "IN", "OUT"], None),
    (["strip-prefix", "--if-present", "--strip-wrappers", "IN", "OUT"], None),
    (["rename", "--if-present", "-e", "s/stem/stalk/", "IN", "OUT"], None),
    (["remap", "--if-present", "--all", "cpu", "IN", "OUT"], None),
    (["cast", "bfloat16", "IN", "OUT"], None),
    (["cast", "float64", "--only", "*0*", "IN", "OUT"], None),
    (["compact", "--if-present", "IN", "OUT"], None),
    (["average", "--weights", "1,2", "IN", "IN", "OUT"], None),
    (["sanitize", "--if-present", "IN", "OUT"], None),
    (["select", "--drop", "*.bias", "IN", "OUT"], None),
    (["select", "--keep", "*weight", "IN", "OUT"], None),
    (["extract", "model", "IN", "OUT"], None),
    (["edit", "--add-prefix", "y.", "--cast", "float16", "IN", "OUT"], None),
    (["edit", "--if-present", "--set-json", "epoch=null", "IN", "OUT"], None),
    (["repair", "--if-present", "IN", "OUT"], False),
    (["broadcast", "-q", "IN", "OUT"], None),
]


def fill(words, source, out, extra=()):
    """The command with IN and OUT, and with EXTRA options behind its name."""
    named = [source if word == "IN" else out if word == "OUT" else word for word in words]
    return [named[0], *extra, *named[1:]]


# ---- trees ----


def look(path):
    """What is at PATH, but for the time of the last access."""
    st = os.lstat(path)
    if stat.S_ISLNK(st.st_mode):
        return ("link", os.readlink(path))
    if stat.S_ISDIR(st.st_mode):
        return ("folder", stat.S_IMODE(st.st_mode))
    if not stat.S_ISREG(st.st_mode):
        return ("other", stat.S_IFMT(st.st_mode))
    with open(path, "rb") as file:
        digest = hashlib.sha256(file.read()).hexdigest()
    return ("file", stat.S_IMODE(st.st_mode), st.st_size, st.st_mtime_ns, st.st_ino, digest)


def snapshot(root, without=None):
    """Everything below ROOT by its path, but for WITHOUT and what is in it."""
    found = {}
    for folder, folders, files in os.walk(root):
        for name in folders + files:
            path = os.path.join(folder, name)
            if path != without and not (without and path.startswith(without + os.sep)):
                found[os.path.relpath(path, root)] = look(path)
        folders[:] = [name for name in folders if os.path.join(folder, name) != without and not os.path.islink(os.path.join(folder, name))]
    return found


def difference(before, after):
    """In words, or ''."""
    lines = ["new: " + name for name in sorted(set(after) - set(before))]
    lines += ["gone: " + name for name in sorted(set(before) - set(after))]
    lines += ["changed: %s: %s -> %s" % (name, before[name], after[name]) for name in sorted(set(before) & set(after)) if before[name] != after[name]]
    return "\n".join(lines)


def bytes_of(path):
    """The content of a file, or of all files of a directory by name; None: nothing is there."""
    if os.path.isdir(path):
        return {os.path.relpath(os.path.join(folder, name), path): bytes_of(os.path.join(folder, name)) for folder, _, files in os.walk(path) for name in files}
    if not os.path.exists(path):
        return None
    with open(path, "rb") as file:
        return file.read()


def copy(source, to):
    if os.path.isdir(source):
        shutil.copytree(source, to, symlinks=True)
    else:
        shutil.copy2(source, to)


# ---- rounds ----


def rounds(program, few, many):
    """Run PROGRAM(rng, inputs, work) again and again, each time in a new folder WORK. Exits with 1 after a finding."""
    seed = int(os.environ.get("CKPT_SEED") or (random.SystemRandom().getrandbits(32) if os.environ.get("CKPT_TEST_LONG") else 1))
    count = 1 if os.environ.get("CKPT_ONE_ROUND") else many if os.environ.get("CKPT_TEST_LONG") else few
    end = time.monotonic() + float(os.environ["CKPT_SECONDS"]) if os.environ.get("CKPT_SECONDS") else None
    done = failed = 0
    root = tempfile.mkdtemp(prefix="promises.", dir=os.environ.get("CKPT_TEST_DIR"))
    try:
        inputs = os.path.join(root, "inputs")
        os.mkdir(inputs)
        make_inputs(inputs)
        while time.monotonic() < end if end else done < count:
            work = os.path.join(root, "work")
            os.mkdir(work)
            try:
                program(random.Random(seed + done), inputs, work)
            except Finding as e:
                failed += 1
                print("CKPT_SEED=%d CKPT_ONE_ROUND=1: %s\n" % (seed + done, e), flush=True)
            finally:
                subprocess.run(["chmod", "-R", "u+rwX", work], check=True)
                shutil.rmtree(work)
            done += 1
            if failed >= 20:
                break
    finally:
        shutil.rmtree(root, ignore_errors=True)
    print("%d rounds from seed %d, %d findings" % (done, seed, failed))
    sys.exit(1 if failed else 0)

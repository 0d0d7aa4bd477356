# SPDX-License-Identifier: Apache-2.0
"""Ctrl-C while the disk holds a system call of whatever writes, for test_slow_disk.py: [HOW].

slow_disk.so is preloaded. HOW: what happens while a call is held, "ends", "forks" or "forgets", or what is held, "opens"; without it, all ways to write.
"""

import ctypes
import gc
import json
import os
import shutil
import signal
import struct
import sys
import threading
import time
import weakref

import ckpt

LIMIT = 0.2 + float(os.environ.get("CKPT_SLACK", "0.4"))  # what a busy machine adds
CALLS = ("pwrite64", "copy_file_range", "fsync", "sync_file_range", "ftruncate64", "close")
disk = ctypes.CDLL(None)
folder = os.environ["SLOW_DISK"]
given = os.path.dirname(folder)  # what is read lies beside it


def make_inputs():
    names = ["a.%d" % number for number in range(4)]
    each = 128 << 10
    head = json.dumps({name: {"dtype": "F32", "shape": [each // 4], "data_offsets": [i * each, (i + 1) * each]}
                       for i, name in enumerate(names)}).encode()
    head += b" " * (4096 - 8 - len(head))
    path = os.path.join(given, "in.safetensors")
    with open(path, "wb") as stream:
        stream.write(struct.pack("<Q", len(head)) + head + bytes(each * len(names)))
    ckpt.split(path, os.path.join(given, "in.dcp"), ranks=2)
    ckpt.convert(path, os.path.join(given, "mod.pt"), "torch")  # its records lie where those of "out" do
    return path, os.path.join(given, "in.dcp"), os.path.join(given, "mod.pt")


def entries(path, directory, torch):
    """Each way to write, by its name."""
    state, opened = ckpt.load(path), ckpt.open(path)

    def to_stream(out):
        with open(os.path.join(given, "stream"), "wb") as stream:
            ckpt.save(state, stream)

    yield "save", lambda out: ckpt.save(state, out)
    yield "save to a stream", to_stream
    yield "edit", lambda out: opened.rename("s/a/b/").save(out)
    yield "edit of a torch file", lambda out: ckpt.open(torch).rename("s/a/b/").save(out)
    yield "cast", lambda out: opened.cast("bf16").save(out)
    yield "convert", lambda out: ckpt.convert(path, out, "torch")
    yield "npy", lambda out: opened.save(out, format="npy")
    yield "merge", lambda out: ckpt.merge(directory, out)
    yield "split", lambda out: ckpt.split(path, out, ranks=2)
    yield "split into safetensors", lambda out: ckpt.split(path, out, ranks=2, to="safetensors")
    yield "reindex", lambda out: ckpt.reindex(directory, out)
    yield "average", lambda out: ckpt.average([path, path], out)


def names():
    """In the folder, without what a directory is made in, which may need the disk to go away."""
    return sorted(name for name in os.listdir(folder) if not (name.startswith(".") and os.path.isdir(os.path.join(folder, name))))


def interrupt(call, out, first, then=""):
    """Make CALL, and a signal while FIRST is held, which is let go then, and THEN held. Seconds; None: it was never met."""
    done, sent = threading.Event(), []

    def send():
        while not disk.slow_disk_met():
            if done.wait(0.001):
                return
        sent.append(time.monotonic())
        os.kill(os.getpid(), signal.SIGINT)
        if then:
            time.sleep(0.03)
            disk.slow_disk_hold(then.encode())

    disk.slow_disk_hold(first.encode())
    thread = threading.Thread(target=send)
    thread.start()
    try:
        call(out)
        done.set()
        thread.join()
        ended = None
        if sent:
            time.sleep(0.01)
            ended = "no KeyboardInterrupt"
    except KeyboardInterrupt:
        ended = time.monotonic() - sent[0]
    thread.join()
    return ended


def main():
    met = set()
    for name, call in entries(*make_inputs()):
        for first, then in [(first, "") for first in CALLS] + [("pwrite64", "close"), ("pwrite64", "unlinkat")]:
            what, out = "%s, %s %s" % (name, first, then), os.path.join(folder, "out")
            taken = interrupt(call, out, first, then)
            before = names()
            disk.slow_disk_hold(b"")
            ckpt._ckpt.wait_for_tasks()
            after = sorted(os.listdir(folder))
            assert after == before, (what, before, after)
            if taken is not None:
                assert taken != "no KeyboardInterrupt" and taken < LIMIT, (what, taken)
                met.add((name, first))
                # the name comes before the sync of the folder, and the close
                assert before == [] or first in ("fsync", "close"), (what, before)
            if os.path.isdir(out):
                shutil.rmtree(out)
            elif os.path.exists(out):
                os.unlink(out)
    for name, first in (("save", "pwrite64"), ("edit of a torch file", "copy_file_range"), ("merge", "fsync"), ("split", "pwrite64"),
                        ("save to a stream", "pwrite64"), ("cast", "sync_file_range")):
        assert (name, first) in met, (name, first, met)
    return 0


def open_slowly():
    """The source of what writes, which is on the disk that is held, is being opened."""
    path, directory, torch = [shutil.move(one, folder) for one in make_inputs()]
    before, out = names(), os.path.join(folder, "out")
    for name, call in (("open", lambda out: ckpt.open(torch)), ("load", lambda out: ckpt.load(torch)), ("convert", lambda out: ckpt.convert(torch, out, "safetensors")),
                       ("split", lambda out: ckpt.split(torch, out, ranks=2)), ("merge", lambda out: ckpt.merge(directory, out)),
                       ("average", lambda out: ckpt.average([torch, torch], out)), ("repair", lambda out: ckpt.repair(torch, out)), ("convert a safetensors", lambda out: ckpt.convert(path, out, "torch"))):
        taken = interrupt(call, out, "pread64")
        assert taken is not None and taken != "no KeyboardInterrupt" and taken < LIMIT, (name, taken)
        disk.slow_disk_hold(b"")
        ckpt._ckpt.wait_for_tasks()
        assert names() == before, (name, names())
    for one in (path, torch):
        os.unlink(one)
    shutil.rmtree(directory)


def end(how):
    """Python ends, or a child does, or the caller forgets its memory, while a call is held."""
    if how == "opens":
        return open_slowly()
    _, save = next(entries(*make_inputs()))
    memory = None
    if how == "forgets":
        numpy = __import__("numpy")
        array = numpy.zeros(1 << 20, dtype="f4")
        memory, state = weakref.ref(array), {"a": array}
        save = lambda out: ckpt.save(state, out)
    assert interrupt(save, os.path.join(folder, "out"), "pwrite64") < LIMIT
    if how == "forgets":
        del array, state, save
        gc.collect()
        assert memory() is not None
        disk.slow_disk_hold(b"")
        ckpt._ckpt.wait_for_tasks()
        gc.collect()
        assert memory() is None
    if how == "forks":
        child = os.fork()
        if child == 0:
            sys.exit(0)
        assert os.waitpid(child, 0)[1] == 0
    threading.Timer(0.1, disk.slow_disk_hold, (b"",)).start()


sys.exit(end(sys.argv[1]) if len(sys.argv) > 1 else main())

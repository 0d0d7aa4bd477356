# SPDX-License-Identifier: Apache-2.0
"""Ctrl-C, progress, and what they raise."""

import io
import json
import os
import shutil
import signal
import struct
import threading
import time

import pytest

import ckpt
from ckpt import _files

MEGABYTES = 64


@pytest.fixture
def large(tmp_path, files):
    body = files.glob("collections", "OrderedDict") + b")R(" + files.text("a")
    body += files.tensor("0", kind="ByteStorage", numel=MEGABYTES << 20, shape=(MEGABYTES << 20,)) + b"u"
    path = tmp_path / "large.pt"
    path.write_bytes(files.archive([("data.pkl", files.pickled(body)), ("data/0", bytes(MEGABYTES << 20)), ("version", b"3\n")]))
    return str(path)


class Slow:
    """An open file that takes its time."""

    def __init__(self, path):
        self.file = open(path, "rb")
        self.slow = False

    def seek(self, *where):
        return self.file.seek(*where)

    def read(self, nbytes):
        if self.slow:
            time.sleep(0.02)
            nbytes = min(nbytes, 1 << 18)  # 12 MiB a second
        return self.file.read(nbytes)


def ends_by_signal(call):
    """Seconds from the signal to KeyboardInterrupt."""
    sent = []

    def send():
        sent.append(time.monotonic())
        os.kill(os.getpid(), signal.SIGINT)

    timer = threading.Timer(0.5, send)
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        call()
    taken = time.monotonic() - sent[0]
    timer.join()
    return taken


@pytest.mark.parametrize("threads", [1, 4])
def test_a_signal_ends_reading(large, threads):
    source = Slow(large)
    with ckpt.open(source) as f:
        source.slow = True
        buffer = bytearray(MEGABYTES << 20)
        taken = ends_by_signal(lambda: f.read_storages([(0, 0, len(buffer), buffer)], threads=threads))
        assert taken < 0.6  # 0.2 s and what a busy machine adds
        source.slow = False
        f.read_storages([(0, 0, 10, bytearray(10))])


@pytest.mark.parametrize("stop", ["_is_memory", "_read"])
def test_a_file_can_be_read_after_a_signal_at_any_call(large, stop, monkeypatch):
    shared = _files._Shared(io.BytesIO(b"0123456789"))
    shared.source.seek(3)

    def interrupt(*args):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(shared, stop, interrupt)
        with pytest.raises(KeyboardInterrupt):
            shared.pread(0, 4)
    assert shared.pread(4, 2) == b"45" and shared.source.tell() == 3


def test_what_progress_raises_ends_reading(large):
    class Enough(Exception):
        pass

    calls = []

    def progress(done, total):
        calls.append(done)
        if done:
            raise Enough()

    with ckpt.open(large) as f:
        buffer = bytearray(MEGABYTES << 20)
        with pytest.raises(Enough):
            f.read_storages([(0, 0, len(buffer), buffer)], progress=progress)
        assert calls[-1] < len(buffer)


def test_other_threads_go_on_while_one_reads(large):
    source, counted = Slow(large), []
    with ckpt.open(source) as f:
        source.slow = True
        end = threading.Event()

        def count():
            while not end.is_set():
                counted.append(1)
                time.sleep(0.01)

        thread = threading.Thread(target=count)
        thread.start()
        f.read_storages([(0, 0, 4 << 20, bytearray(4 << 20))])
        end.set()
        thread.join()
    assert len(counted) > 5


def test_forked_processes_can_write(large, tmp_path):
    with ckpt.open(large) as f:
        edited = f.rename("s/a/b/")
        edited.save(tmp_path / "parent.pt", no_sync=True)  # its threads are not those of the children
        children = []
        for number in range(3):
            child = os.fork()
            if child == 0:
                try:
                    edited.save(tmp_path / ("%d.pt" % number), no_sync=True)
                    ckpt.save({"n": number, "t": f["a"]}, tmp_path / ("s%d.pt" % number), no_sync=True)
                    os._exit(0)
                finally:
                    os._exit(2)
            children.append(child)
        assert [os.waitpid(child, 0)[1] for child in children] == [0, 0, 0]
    for number in range(3):
        assert ckpt.load(tmp_path / ("s%d.pt" % number))["n"] == number
        with ckpt.open(tmp_path / ("%d.pt" % number)) as f:
            assert f["b"].storage.crc32 == ckpt.open(large)["a"].storage.crc32


def test_a_signal_ends_a_save_and_leaves_nothing(large, tmp_path):
    stream = Slow(large)
    state = ckpt.load(stream)
    stream.slow = True
    assert ends_by_signal(lambda: ckpt.save(state, tmp_path / "new.pt", check=False)) < 0.6
    assert os.listdir(tmp_path) == ["large.pt"]


def test_a_forked_process_can_read(large):
    with ckpt.open(large) as f:
        child = os.fork()
        if child == 0:
            try:
                os._exit(0 if f["a"][5:6].tolist() == [0] and f["a"].memoryview()[7] == 0 else 1)
            finally:
                os._exit(2)
        assert os.waitpid(child, 0)[1] == 0


def test_a_signal_while_the_disk_is_waited_for_leaves_nothing(large, tmp_path):
    state, out = ckpt.load(large), tmp_path / "new.pt"
    for _ in range(4):
        end, saved = threading.Event(), False

        def send():
            end.wait()
            os.kill(os.getpid(), signal.SIGINT)

        thread = threading.Thread(target=send)
        thread.start()
        try:
            ckpt.save(state, out, check=False, progress=lambda done, total: end.set() if done == total else None)
            saved = True
            thread.join()
            time.sleep(0.01)
        except KeyboardInterrupt:
            # or the signal came behind the last step, when the file was whole
            assert saved or not out.exists() or ckpt.verify(out)["findings"] == []
        thread.join()
        out.unlink(missing_ok=True)
    assert os.listdir(tmp_path) == ["large.pt"]


def test_a_signal_ends_the_comparison_of_an_average(tmp_path):
    paths = [str(tmp_path / name) for name in ("a.safetensors", "b.safetensors")]
    nbytes = 256 << 20
    head = json.dumps({"w": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]},
                       "x": {"dtype": "U8", "shape": [nbytes], "data_offsets": [4, nbytes + 4]}}).encode()
    for path in paths:
        with open(path, "wb") as stream:
            stream.write(struct.pack("<Q", len(head)) + head)
            stream.truncate(8 + len(head) + 4 + nbytes)  # a hole
    for _ in range(2):  # the first is slower
        begun = time.monotonic()
        ckpt.average(paths, tmp_path / "mean.safetensors", dry_run=True)
        whole = time.monotonic() - begun
    before = signal.signal(signal.SIGALRM, signal.default_int_handler)
    signal.setitimer(signal.ITIMER_REAL, whole / 5)
    try:
        begun = time.monotonic()
        with pytest.raises(KeyboardInterrupt):
            ckpt.average(paths, tmp_path / "mean.safetensors", dry_run=True)
        assert time.monotonic() - begun < whole * 0.7
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert sorted(os.listdir(tmp_path)) == ["a.safetensors", "b.safetensors"]


@pytest.fixture
def directory(large, tmp_path):
    """A DCP directory of many files."""
    os.mkdir(tmp_path / "dcp")
    ckpt.split(large, tmp_path / "dcp" / "in", ranks=16)
    return str(tmp_path / "dcp" / "in")


def test_what_progress_raises_ends_a_reindex_and_leaves_nothing(directory):
    class Enough(Exception):
        pass

    seen, last = [], []

    def progress(done, total):
        seen.append((done, total))
        if last and len(seen) == last[0]:
            raise Enough

    ckpt.reindex(directory, directory + "2", progress=progress)
    assert [done for done, _ in seen] == sorted(done for done, _ in seen) and seen[-1][0] == seen[-1][1] >= MEGABYTES << 20
    files = sorted(os.listdir(os.path.dirname(directory)))
    for number in range(1, len(seen) + 1, 3):
        seen.clear()
        last[:] = [number]
        with pytest.raises(Enough):
            ckpt.reindex(directory, directory + "3", progress=progress)
        assert sorted(os.listdir(os.path.dirname(directory))) == files


def test_a_signal_ends_a_reindex_and_leaves_nothing(directory):
    """One that comes when all is written is too late."""
    begun, ended, target = time.monotonic(), 0, directory + "2"
    ckpt.reindex(directory, target)
    whole = time.monotonic() - begun
    shutil.rmtree(target)
    before = signal.signal(signal.SIGALRM, signal.default_int_handler)
    try:
        for part in range(1, 20):
            signal.setitimer(signal.ITIMER_REAL, whole * part / 20)
            try:
                ckpt.reindex(directory, target)
                signal.setitimer(signal.ITIMER_REAL, 0)
            except KeyboardInterrupt:
                ended += not os.path.exists(target)
            ckpt._ckpt.wait_for_tasks()  # the hidden directory may need the disk to go away
            shutil.rmtree(target, ignore_errors=True)
            assert os.listdir(os.path.dirname(directory)) == ["in"]
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert ended

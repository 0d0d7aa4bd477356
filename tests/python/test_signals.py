# SPDX-License-Identifier: Apache-2.0
"""Ctrl-C, progress, and what they raise."""

import os
import signal
import threading
import time

import pytest

import ckpt

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
    assert ends_by_signal(lambda: ckpt.save(state, tmp_path / "new.pt", check=False)) < 2
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
            assert saved or not out.exists()
        thread.join()
        out.unlink(missing_ok=True)
    assert os.listdir(tmp_path) == ["large.pt"]

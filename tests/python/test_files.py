# SPDX-License-Identifier: Apache-2.0
"""Open files as checkpoints: threads, forks and signals that use the same one, and what is no such file."""

import gzip
import io
import mmap
import os
import signal
import tempfile
import threading
import zipfile

import pytest

import ckpt

COUNT = 40


@pytest.fixture
def many(write, files):
    """Tensors "0" ... of 1000 floats; all of tensor i are i."""
    import struct

    body = files.glob("collections", "OrderedDict") + b")R("
    for i in range(COUNT):
        body += files.text(str(i)) + files.tensor(str(i), numel=1000, shape=(1000,))
    return write(body + b"u", {str(i): struct.pack("<f", i) * 1000 for i in range(COUNT)}, name="many.pt")


def wrong(f, times=5):
    """How many of its tensors are not what they should be."""
    return sum(f[str(i)].memoryview().tolist() != [i] * 1000 for _ in range(times) for i in range(COUNT))


def in_child(work):
    """What WORK prints in a forked process, which ends before 20 s."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        signal.alarm(20)
        try:
            try:
                text = str(work())
            except BaseException as error:
                text = "%s: %s" % (type(error).__name__, error)
            os.write(writing, text.encode())
        finally:
            os._exit(0)
    os.close(writing)
    return child, os.fdopen(reading)


def result(child):
    with child[1] as stream:
        text = stream.read()
    os.waitpid(child[0], 0)
    return text


class Own:
    """An open file of one's own. BEFORE is called before each read."""

    def __init__(self, path, before=lambda: None):
        self.file, self.before = open(path, "rb"), before

    def seek(self, *where):
        return self.file.seek(*where)

    def read(self, nbytes):
        self.before()
        return self.file.read(nbytes)


def unnamed(path):
    stream = tempfile.TemporaryFile()
    stream.write(open(path, "rb").read())  # some of it is not written yet
    return stream


def named(path):
    stream = tempfile.NamedTemporaryFile()
    stream.write(open(path, "rb").read())
    return stream


def mapped(path):
    with open(path, "rb") as stream:
        return mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ)


KINDS = {"buffered": lambda path: open(path, "rb"), "raw": lambda path: open(path, "rb", buffering=0), "changeable": lambda path: open(path, "r+b"),
         "unnamed": unnamed, "named": named, "memory": lambda path: io.BytesIO(open(path, "rb").read()), "map": mapped}


@pytest.mark.parametrize("kind", KINDS)
def test_a_forked_process_reads_what_is_there(kind, many):
    source = KINDS[kind](many)
    f = ckpt.open(source)
    children = [in_child(lambda: wrong(f)) for _ in range(2)]
    assert wrong(f) == 0 and [result(child) for child in children] == ["0", "0"]


def test_a_forked_process_does_not_read_by_a_position_that_it_shares(many):
    f = ckpt.open(Own(many))
    child = in_child(lambda: f["3"].memoryview())
    assert wrong(f) == 0 and "forked" in result(child)
    again = in_child(lambda: wrong(ckpt.open(open(many, "rb"))))
    assert result(again) == "0"


def test_a_process_may_be_forked_while_another_thread_reads(many):
    held, go = threading.Event(), threading.Event()

    def before():
        if armed:
            held.set()
            go.wait(10)

    class Slow(io.BytesIO):
        def read(self, nbytes):
            before()
            return super().read(nbytes)

    armed = False
    for make in (lambda: Own(many, before), lambda: Slow(open(many, "rb").read())):
        held.clear(), go.clear()
        armed = False
        source = make()
        f, g = ckpt.open(source), ckpt.open(source)
        armed = True
        thread = threading.Thread(target=lambda: f["1"].memoryview())
        thread.start()
        held.wait(10)
        child = in_child(lambda: g["2"].memoryview())
        assert "forked" in result(child)
        armed = False
        go.set()
        thread.join()
        assert wrong(f, 1) == 0


@pytest.mark.parametrize("kind", [*KINDS, "own"])
def test_checkpoints_of_one_open_file_are_used_by_threads(kind, many):
    source = {**KINDS, "own": Own}[kind](many)
    opened = [ckpt.open(source) for _ in range(3)]
    found = []
    threads = [threading.Thread(target=lambda f=f: found.append(wrong(f, 3))) for f in opened * 2]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [0] * 6
    for f in opened:
        f.close()
    assert not ckpt._files._shared


def test_a_file_keeps_its_position_and_may_be_closed(many):
    for kind in ("buffered", "raw", "changeable"):
        source = KINDS[kind](many)
        source.seek(7)
        f = ckpt.open(source)
        assert wrong(f, 1) == 0 and source.tell() == 7
        source.close()
        assert wrong(f, 1) == 0
    f = source = None
    before = len(os.listdir("/proc/self/fd"))
    with open(many, "rb") as source, ckpt.open(source) as f:
        assert wrong(f, 1) == 0
    assert len(os.listdir("/proc/self/fd")) == before


def test_a_checkpoint_may_be_saved_over_the_memory_that_it_is_read_from(many):
    data = open(many, "rb").read()
    for at in (0, 5):
        source, elsewhere = io.BytesIO(bytes(at) + data), io.BytesIO()
        view = source if not at else io.BytesIO(data)
        state = ckpt.load(view)
        assert view.tell() == 0
        ckpt.save(state, elsewhere)
        assert view.tell() == 0
        source.seek(at)
        ckpt.save(state, source)
        assert source.getvalue()[at:at + len(elsewhere.getvalue())] == elsewhere.getvalue()


def test_what_has_a_descriptor_and_other_bytes_is_read_by_its_own_functions(many, tmp_path):
    packed = str(tmp_path / "x.gz")
    with gzip.open(packed, "wb") as stream:
        stream.write(open(many, "rb").read())
    with gzip.open(packed) as stream, ckpt.open(stream) as f:
        assert wrong(f, 1) == 0
    with zipfile.ZipFile(tmp_path / "x.zip", "w") as archive:
        archive.write(many, "m.pt")
    with zipfile.ZipFile(tmp_path / "x.zip") as archive, archive.open("m.pt") as stream, ckpt.open(stream) as f:
        assert wrong(f, 1) == 0


class Signalled:
    """Own functions during which a signal is handled, by HANDLER."""

    def __init__(self, handler):
        self.before = signal.signal(signal.SIGUSR1, lambda *_: handler())
        self.armed = 0

    def __call__(self):
        if self.armed > 0:
            self.armed -= 1
            os.kill(os.getpid(), signal.SIGUSR1)


@pytest.fixture
def usr1():
    before = signal.getsignal(signal.SIGUSR1)
    signal.alarm(20)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGUSR1, before)


@pytest.mark.parametrize("what", ["the same", "another of the same file", "an array", "a list", "a save"])
def test_a_handler_that_reads_what_a_read_is_about_gets_an_error(what, many, usr1, tmp_path):
    told, opened = [], {}

    def handler():
        reads = {"the same": lambda: opened["f"]["1"].memoryview(), "another of the same file": lambda: opened["g"]["1"].memoryview(),
                 "an array": lambda: opened["array"].read(), "a list": lambda: ckpt.open(source)["1"].memoryview(),
                 "a save": lambda: opened["f"].save(str(tmp_path / "out.pt"))}
        try:
            reads[what]()
            told.append("read")
        except ckpt.Error as error:
            told.append(error)

    signalled = Signalled(handler)
    source = Own(many, signalled)
    opened["f"], opened["g"] = ckpt.open(source), ckpt.open(source)
    opened["array"] = opened["f"]._model.open_array("2")
    signalled.armed = 1
    assert opened["f"]["3"].memoryview().tolist() == [3] * 1000
    assert len(told) == 1 and isinstance(told[0], ckpt.Error) and "by this thread already" in str(told[0])
    assert opened["f"]["1"].memoryview().tolist() == [1] * 1000 and wrong(opened["g"], 1) == 0
    told.clear()
    signalled.armed = 1  # while tensors are listed, or the file is opened
    assert wrong(ckpt.open(source), 1) == 0 and len(told) == 1


def test_a_handler_reads_a_file_of_the_system(many, usr1):
    told = []
    f = ckpt.open(open(many, "rb"))
    signalled = Signalled(lambda: told.append(wrong(f, 1)))
    g = ckpt.open(Own(many, signalled))
    signalled.armed = 1
    assert wrong(g, 1) == 0 and told == [0]


def test_what_gives_less_than_there_was_is_an_error_of_the_system(many, tmp_path):
    class Short(Own):
        def read(self, nbytes):
            return b"" if short else super().read(nbytes)

    short = False
    f = ckpt.open(Short(many))
    short = True
    cut = str(tmp_path / "cut.pt")
    open(cut, "wb").write(open(many, "rb").read())
    g = ckpt.open(open(cut, "rb"))
    os.truncate(cut, 100)
    for one in (f, g):
        with pytest.raises(ckpt.Error, match="the open file gave 0 bytes at offset [0-9]+, wanted") as caught:
            one["5"].memoryview()
        assert isinstance(caught.value, OSError) and caught.value.errno and caught.value.status == "IO"


def test_what_cannot_be_read_is_said(many, tmp_path):
    with open(many, encoding="latin-1") as stream, pytest.raises(TypeError, match="rb"):
        ckpt.open(stream)
    with pytest.raises(TypeError, match="gave a str"):
        ckpt.open(type("Text", (), {"seek": lambda self, *_: 5, "read": lambda self, nbytes: "x" * nbytes})())
    with open(tmp_path / "w", "wb", buffering=0) as stream, pytest.raises(OSError):
        stream.write(bytes(1000))
        ckpt.open(stream)
    reading, writing = os.pipe()
    with os.fdopen(reading, "rb") as stream, pytest.raises(OSError):
        ckpt.open(stream)
    os.close(writing)
    with open(many, "rb") as stream:
        pass
    with pytest.raises(ValueError, match="closed"):
        ckpt.open(stream)

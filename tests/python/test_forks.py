# SPDX-License-Identifier: Apache-2.0
"""Processes that are forked in `progress` of a call that writes and return from it: it goes on in the first one, and raises in them."""

import os
import signal

import pytest

import ckpt

COUNT, NBYTES = 6, 1 << 20


@pytest.fixture
def folder(tmp_path, files):
    def make(name, byte):
        body = files.glob("collections", "OrderedDict") + b")R("
        for i in range(COUNT):
            body += files.text("w%d" % i) + files.tensor(str(i), kind="FloatStorage", numel=NBYTES // 4, shape=(NBYTES // 4,))
        records = [("data.pkl", files.pickled(body + b"u"))] + [("data/%d" % i, bytes((byte,)) * NBYTES) for i in range(COUNT)]
        (tmp_path / name).write_bytes(files.archive(records + [("version", b"3\n")]))

    make("a.pt", 0)
    make("b.pt", 0)
    ckpt.split(str(tmp_path / "a.pt"), str(tmp_path / "a.dcp"), ranks=2)
    return str(tmp_path) + "/"


def read(at, progress, threads):
    with ckpt.open(at + "a.pt") as f:
        f.read_storages([(i, 0, NBYTES, bytearray(NBYTES)) for i in range(COUNT)], threads=threads, progress=progress)


def to_stream(at, progress):
    with open(at + "stream", "wb") as stream:
        ckpt.save(ckpt.load(at + "a.pt"), stream, progress=progress)


CALLS = {
    "save": lambda at, p: ckpt.save(ckpt.load(at + "a.pt"), at + "out.pt", progress=p), "save to a stream": to_stream,
    "cast": lambda at, p: ckpt.open(at + "a.pt").cast("bf16").save(at + "out.pt", progress=p),
    "split": lambda at, p: ckpt.split(at + "a.pt", at + "out.dcp", ranks=2, progress=p),
    "merge": lambda at, p: ckpt.merge(at + "a.dcp", at + "out.pt", progress=p),
    "average": lambda at, p: ckpt.average([at + "a.pt", at + "b.pt"], at + "out.pt", progress=p),
    "read by one thread": lambda at, p: read(at, p, 1),
}


@pytest.mark.parametrize("which", [0, 2])
@pytest.mark.parametrize("name", CALLS)
def test_a_process_that_is_forked_meanwhile_gets_an_error(name, which, folder):
    first, calls, child = os.getpid(), [], []

    def progress(done, total):
        calls.append(done)
        if os.getpid() == first and len(calls) == which + 1:
            child.append(os.fork())
            if not child[0]:
                signal.alarm(5)

    code = 1
    try:
        CALLS[name](folder, progress)
        code = 2
        if os.getpid() == first and child:
            waited = os.waitpid(child[0], 0)[1]
    except RuntimeError as error:
        code = 3 if "forked" in str(error) else 4
        if os.getpid() == first:
            raise
    finally:
        if os.getpid() != first:
            try:  # it is of use
                ckpt.save({"x": 1}, folder + "child.pt")
                code += 10
            finally:
                os._exit(code)
    if not child:
        pytest.skip("it was not called so often")
    assert os.waitstatus_to_exitcode(waited) == 13
    if os.path.exists(folder + "out.pt"):
        assert ckpt.verify(folder + "out.pt")["verdict"] == "sound"

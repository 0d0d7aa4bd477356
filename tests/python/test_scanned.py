# SPDX-License-Identifier: Apache-2.0
"""What a guard has scanned: where a pickle ends, and copies that nobody changes. Without torch; nothing hostile is unpickled."""

import io
import os
import pickle
import pickletools
import sys

import pytest

from ckpt import _ckpt, _scanned

VALUES = [None, [1, "a", b"b", 2.5, {"k": (1, 2, 3, 4)}], "x" * 70000, list(range(300)), {1: [], "\u20ac\n": {2}}, 1 << 3000, b"y" * 300, b"z" * 200000, -1, ""]


class Dribble:
    """A stream without a way back, which tells how much was taken of it."""

    def __init__(self, data):
        self._stream = io.BytesIO(data)

    def read(self, count):
        assert count > 0
        return self._stream.read(min(count, 100))

    def readline(self):
        return self._stream.readline()

    @property
    def taken(self):
        return self._stream.tell()


def sealed(data):
    copy = _scanned.Copy()
    copy.write(data)
    copy.seal()
    return copy


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_a_pickle_ends_where_pickle_says(protocol):
    for value in VALUES:
        data = pickle.dumps(value, protocol)
        for rest in (b"", b"rest", data, b"." * 70000):
            assert _scanned.cut_pickle(data + rest) == data
            for stream in (io.BytesIO(data + rest), Dribble(data + rest)):
                assert _scanned.TakenPickle(stream).data == data
                place = stream.taken if isinstance(stream, Dribble) else stream.tell()
                assert place == len(data)


def test_every_opcode_has_the_length_that_pickletools_says():
    samples = {"GLOBAL": b"os\nsystem\n", "INST": b"os\nsystem\n", "FRAME": b"\0" * 8}
    for code in pickletools.opcodes:
        if code.name == "STOP":
            continue
        argument = samples.get(code.name)
        if argument is None:
            n = code.arg.n if code.arg is not None else 0
            argument = {pickletools.UP_TO_NEWLINE: b"1\n", pickletools.TAKEN_FROM_ARGUMENT1: b"\3abc", pickletools.TAKEN_FROM_ARGUMENT4: b"\3\0\0\0abc",
                        pickletools.TAKEN_FROM_ARGUMENT4U: b"\3\0\0\0abc", pickletools.TAKEN_FROM_ARGUMENT8U: b"\3" + b"\0" * 7 + b"abc"}.get(n, b"." * max(n, 0))
        data = code.code.encode("latin1") + argument + b"."
        assert _scanned.cut_pickle(data + b"rest.") == data, code.name


def test_what_is_cut_off_or_no_pickle_is_taken_as_it_is():
    whole = pickle.dumps(VALUES[1], 4)
    for length in range(len(whole)):
        assert _scanned.cut_pickle(whole[:length]) == whole[:length]
    assert _scanned.cut_pickle(b"\xff" * 10) == b"\xff" * 10
    assert _scanned.TakenPickle(Dribble(b"B\xff\xff\xff\xffabc")).data == b"B\xff\xff\xff\xffabc"


def test_a_whole_pickle_is_taken_at_the_start_alone(tmp_path, monkeypatch):
    data = pickle.dumps([1, "a"])
    (tmp_path / "a").write_bytes(data)
    for buffering in (0, -1):
        with open(tmp_path / "a", "rb", buffering=buffering) as stream:
            assert _scanned.whole_pickle(stream) == data and stream.tell() == len(data)
            assert _scanned.whole_pickle(stream) is None and stream.tell() == len(data)
    for other in (b"", data + data, data[:-1], b"cos\nsystem\n(Vtrue\ntR.", b"hello"):
        stream = io.BytesIO(other)
        assert _scanned.whole_pickle(stream) is None and stream.tell() == 0
    assert _scanned.whole_pickle(Dribble(data)) is None
    monkeypatch.setattr(_scanned, "_SHORT", 3)
    assert _scanned.whole_pickle(io.BytesIO(data)) is None


def test_put_back_is_where_it_was(tmp_path):
    (tmp_path / "a").write_bytes(b"head" + pickle.dumps([1]) * 3)
    with open(tmp_path / "a", "rb") as stream:
        stream.seek(4)
        taken = _scanned.TakenPickle(stream)
        assert stream.tell() == 4 + len(taken.data)
        taken.put_back()
        assert stream.tell() == 4


def test_a_pickle_that_recalls_is_known():
    shared = [1]
    assert _scanned.TakenPickle(io.BytesIO(pickle.dumps([shared, shared], 4))).recalls
    assert not _scanned.TakenPickle(io.BytesIO(pickle.dumps(["ghj", b"\x94hh"], 4))).recalls
    assert not _scanned.TakenPickle(io.BytesIO(pickle.dumps([shared, shared], 2))).recalls


def test_a_copy_cannot_be_changed():
    with sealed(b"abc") as copy:
        with pytest.raises(PermissionError):
            os.write(copy.number, b"d")
        with pytest.raises(PermissionError):
            os.ftruncate(copy.number, 0)
        with pytest.raises(PermissionError), open(copy.path, "r+b", buffering=0) as again:
            again.write(b"d")
        with copy.stream(True) as stream:
            assert stream.fileno() >= 0 and stream.read() == b"abc"
        with copy.stream(False) as stream, pytest.raises(io.UnsupportedOperation):
            stream.fileno()


@pytest.mark.parametrize("data, verdict", [(b"cos\nsystem\n(Vtrue\ntR.", "dangerous"), (b"\x80\x04]K\x01a", "unreadable"),
                                           (pickle.dumps([1]) + b"rest", "inconsistent"), (b"hello", "unreadable"),
                                           (b"ca_package\nThing\n)\x81.", "needs-objects")])
def test_what_is_not_plain_is_refused_with_what_was_found(data, verdict):
    with pytest.raises(_scanned.Refused) as caught:
        _scanned.check_pickle(data, "name.pkl")
    error = caught.value
    assert error.verdict == verdict and isinstance(error, pickle.UnpicklingError) and str(error).startswith("name.pkl: ")
    if verdict == "needs-objects":
        assert "a_package.Thing" in str(error) and error.globals[0][:3] == ("a_package.Thing", "object", True)
    again = pickle.loads(pickle.dumps(error))
    assert str(again) == str(error) and again.findings == error.findings


def test_the_scan_lists_globals(tmp_path):
    (tmp_path / "a.pkl").write_bytes(b"\x80\x02(ccollections\nOrderedDict\n)Rcos\nsystem\nt.")
    (path, verdict, form, findings, names), = _ckpt.scan(str(tmp_path / "a.pkl"))
    assert (path, form) == (str(tmp_path / "a.pkl"), "pickle") and verdict == "dangerous" and findings
    assert [name[:3] for name in names] == [("collections.OrderedDict", "data", True), ("os.system", "code", False)]
    assert all(record == "" and offset > 0 for _, _, _, record, offset in names)


def interrupted_at_every_step(call):
    """How often Ctrl-C came before CALL was done: before each opcode of Python that it runs, one after the other."""
    for number in range(1 << 30):
        left = [number]

        def step(frame, event, _, left=left):
            frame.f_trace_opcodes = True
            if event == "opcode":
                left[0] -= 1
                if left[0] < 0:
                    raise KeyboardInterrupt
            return step

        before = sys.gettrace()
        sys.settrace(step)
        try:
            call()
        except KeyboardInterrupt:
            continue
        finally:
            sys.settrace(before)
        return number


def read_a_copy():
    with _scanned.Copy() as copy:
        copy.write(b"some")
        copy.seal()
        with copy.stream(True) as stream, copy.stream(False) as other:
            assert stream.read() == other.read()


@pytest.mark.parametrize("call", [read_a_copy, lambda: _scanned.check_pickle(pickle.dumps([1, 2]))])
def test_what_is_interrupted_leaves_no_file_open(call):
    call()
    before = os.listdir("/proc/self/fd")
    if interrupted_at_every_step(lambda: [None]) == 0:
        pytest.skip("Python 3.12.1 tells of no opcodes here")
    assert interrupted_at_every_step(call) > 50
    assert len(os.listdir("/proc/self/fd")) == len(before)

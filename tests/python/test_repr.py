# SPDX-License-Identifier: Apache-2.0
"""repr() of what a file holds is short, whatever that is, and nothing that a terminal acts on."""

import argparse
import collections
import io
import signal

import pytest

import ckpt
from conftest import Floats

MOST = 4000


@pytest.fixture(autouse=True)
def in_time():
    signal.alarm(20)
    yield
    signal.alarm(0)


def opaque(**parts):
    made = ckpt.Opaque(ckpt.Global("m", "C"), (), None, False)
    for name, value in parts.items():
        setattr(made, name, value)
    return made


def test_what_objects_are_is_shown():
    made = opaque(args=(1, "x"), state={"lr": 0.1, "none": None}, items=[b"a", {2}], pairs=[(1, frozenset((3,)))])
    assert repr(made) == "<ckpt.Opaque m.C args=(1, 'x') state={'lr': 0.1, 'none': None} items=[b'a', {2}] pairs=[(1, frozenset({3}))]>"
    assert repr(opaque(state=0)) == "<ckpt.Opaque m.C state=0>" and repr(opaque()) == "<ckpt.Opaque m.C>"
    assert repr(ckpt.Opaque(made, (), None, False)).startswith("<ckpt.Opaque <ckpt.Opaque m.C args=")
    assert repr(opaque(state=collections.OrderedDict(b=1, a=2))) == "<ckpt.Opaque m.C state=OrderedDict({'b': 1, 'a': 2})>"
    assert repr(opaque(state=[set(), frozenset(), (1,)])) == "<ckpt.Opaque m.C state=[set(), frozenset(), (1,)]>"
    assert repr(ckpt.Factory(ckpt.Global("m", "f"))) == "<ckpt.Factory <ckpt.Global m.f>>"
    assert repr(ckpt.Missing("gone")) == "<ckpt.Missing: gone>"


def test_lazy_tensors_are_parts(model):
    tensor = ckpt.load(model)["a"]
    assert "ckpt.Tensor 'a'" in repr(opaque(state=tensor)) and "ckpt.Tensor 'a'" in repr(opaque(args=(tensor,)))


@pytest.mark.parametrize("wrap", [
    lambda o: opaque(args=(o, o, o)), lambda o: opaque(state={"a": o, "b": o, "c": o}), lambda o: opaque(items=[o] * 9, pairs=[(o, o)] * 9),
    lambda o: opaque(state=collections.OrderedDict(a=o, b=o, c=collections.defaultdict(list, d=o, e=o))), lambda o: ckpt.Opaque(o, (o, o), None, False),
    lambda o: opaque(state={o, ckpt.Global("m", "x")}, args=(frozenset((o, 1)), o)), lambda o: ckpt.Factory(opaque(args=(o, o)))],
    ids=["args", "state", "items", "ordered", "callable", "sets", "factory"])
def test_objects_that_are_shared_are_shown_in_no_time(wrap):
    made = opaque()
    for _ in range(200):
        made = wrap(made)
    assert len(repr(made)) < MOST


def test_objects_of_a_file_that_contain_themselves_are_shown(tmp_path):
    made = argparse.Namespace()
    made.a = made.b = made
    for _ in range(20):
        made = argparse.Namespace(a=made, b=made, c=[made])
    ckpt.save({"o": made}, str(tmp_path / "x.pt"))
    assert len(repr(ckpt.load(str(tmp_path / "x.pt")))) < MOST


def test_what_is_large_or_no_text_for_a_terminal_is_cut():
    large = (1 << 10**6, -(1 << 10**6), b"x" * 10**7, "\x1b" * 10**7, bytearray(10**7), list(range(10**6)), ckpt.Global("\x1b[31m" * 10000, "b\n" * 10000))
    for made in (opaque(args=large), opaque(state=dict(enumerate(large))), large[-1], ckpt.Opaque(large[-1], large, None, False), ckpt.Factory(large[-1]),
                 ckpt.Missing("\x1b\n")):
        assert len(repr(made)) < MOST and repr(made).isprintable()


def test_text_of_the_file_in_a_tensor_is_printable(write, files):
    tensor = files.tensor("0", numel=1, shape=(1,)).replace(files.text("cpu"), files.text("cpu\x1b"))
    path = write(files.glob("collections", "OrderedDict") + b")R" + files.text("a\x1b") + tensor + b"s", {"0": b"\0\0\0\0"})
    assert repr(ckpt.load(path)["a\x1b"]).isprintable()


def test_bytes_of_protocol_2_are_bytes():
    stream = io.BytesIO()
    keys = [b"q", b"", b"\x7f\x80\xff'", b"a" * 300]
    ckpt.save({key: {"x": Floats(1), "y": key} for key in keys}, stream)
    with ckpt.open(stream) as f:
        assert list(f) == ["b'q'.x", "b''.x", "b\"\\x7f\\x80\\xff'\".x", "b'" + "a" * 200 + "...'.x"]
        assert "object>" not in f.tree()

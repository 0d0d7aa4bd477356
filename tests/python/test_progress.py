# SPDX-License-Identifier: Apache-2.0
"""What docs/python.md says of `progress`, of all calls that take it."""

import inspect
import io
import os
import shutil

import ckpt
import pytest

from conftest import Floats

COUNT = 300000  # of floats: a few blocks


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """The same checkpoint in all formats, one that is damaged, one that is cut off, and some of a run."""
    at = tmp_path_factory.mktemp("progress")
    first, second = Floats(*range(COUNT)), Floats(*[1.0] * COUNT)
    ckpt.save({"a": first, "b": second, "c": {"d": second}, "n": 1}, at / "x.pt")
    ckpt.split(at / "x.pt", at / "x.dcp", ranks=4)
    ckpt.convert(at / "x.pt", at / "x.safetensors", drop_others=True, shared="clone")
    ckpt.convert(at / "x.pt", at / "x.hf", to="safetensors", shard_size=COUNT * 5, drop_others=True, shared="clone")
    data = bytearray((at / "x.pt").read_bytes())
    data[len(data) // 2] ^= 1
    (at / "bad.pt").write_bytes(data)
    (at / "cut.pt").write_bytes(data[:len(data) // 2])
    (at / "runs").mkdir()
    ckpt.save({"a": first}, at / "runs" / "step1.pt")
    shutil.copy(at / "bad.pt", at / "runs" / "step2.pt")
    return at


def read_storages(at, p):
    with ckpt.open(at / "x.pt") as f:
        f.read_storages([(i, 0, 4 * COUNT, bytearray(4 * COUNT)) for i in range(2)], threads=2, progress=p)


def save_in_place(at, p):
    shutil.copy(at / "x.pt", at / "out.pt")
    with ckpt.open(at / "out.pt") as f:
        f.cast("bf16").save_in_place(progress=p)


def reindex_in_place(at, p):
    shutil.copytree(at / "x.dcp", at / "out")
    ckpt.reindex(at / "out", progress=p)


def save_to_file(at, p):
    with open(at / "out.pt", "wb") as stream:
        ckpt.save(ckpt.load(at / "x.pt"), stream, progress=p)


CALLS = {
    "read_storages": read_storages, "save_in_place": save_in_place, "save to a file": save_to_file,
    "verify": lambda at, p: ckpt.verify(at / "x.pt", progress=p), "verify finite": lambda at, p: ckpt.verify(at / "x.pt", check_finite=True, progress=p),
    "verify dcp": lambda at, p: ckpt.verify(at / "x.dcp", progress=p), "verify dcp finite": lambda at, p: ckpt.verify(at / "x.dcp", check_finite=True, progress=p),
    "verify safetensors": lambda at, p: ckpt.verify(at / "x.safetensors", check_finite=True, progress=p),
    "verify sha256": lambda at, p: ckpt.verify(at / "x.pt", sha256="0" * 64, progress=p),
    "verify hf": lambda at, p: ckpt.verify(at / "x.hf", check_finite=True, progress=p), "verify damaged": lambda at, p: ckpt.verify(at / "bad.pt", progress=p),
    "scan": lambda at, p: ckpt.scan(at / "x.pt", progress=p), "scan dcp": lambda at, p: ckpt.scan(at / "x.dcp", progress=p), "scan all": lambda at, p: ckpt.scan(at, progress=p),
    "stat": lambda at, p: ckpt.stat(at / "x.pt", progress=p), "stat quantiles": lambda at, p: ckpt.stat(at / "x.dcp", quantiles=[0.5], progress=p),
    "stat of one": lambda at, p: ckpt.stat(at / "x.pt", "a", progress=p), "diff": lambda at, p: ckpt.diff(at / "x.pt", at / "x.dcp", progress=p),
    "save": lambda at, p: ckpt.save(ckpt.load(at / "x.pt"), at / "out.pt", progress=p),
    "save to memory": lambda at, p: ckpt.save(ckpt.load(at / "x.pt"), io.BytesIO(), progress=p),
    "cast": lambda at, p: ckpt.open(at / "x.pt").cast("bf16").save(at / "out.pt", progress=p),
    "select": lambda at, p: ckpt.open(at / "x.pt").select("a").save(at / "out.pt", progress=p),
    "convert": lambda at, p: ckpt.convert(at / "x.pt", at / "out.safetensors", drop_others=True, shared="clone", progress=p),
    "convert npz": lambda at, p: ckpt.convert(at / "x.pt", at / "out.npz", drop_others=True, shared="clone", progress=p),
    "convert npy": lambda at, p: ckpt.convert(at / "x.pt", at / "out", to="npy", drop_others=True, shared="clone", progress=p),
    "convert legacy": lambda at, p: ckpt.convert(at / "x.pt", at / "out.pt", to="torch-legacy", progress=p),
    "convert hf": lambda at, p: ckpt.convert(at / "x.pt", at / "out", to="safetensors", shard_size=COUNT * 5, drop_others=True, shared="clone", progress=p),
    "merge": lambda at, p: ckpt.merge(at / "x.dcp", at / "out.pt", progress=p), "merge hf": lambda at, p: ckpt.merge(at / "x.hf", at / "out.safetensors", progress=p),
    "split": lambda at, p: ckpt.split(at / "x.pt", at / "out", ranks=3, progress=p), "split dcp": lambda at, p: ckpt.split(at / "x.dcp", at / "out", ranks=2, progress=p),
    "split whole": lambda at, p: ckpt.split(at / "x.pt", at / "out", ranks=3, keep_whole=1 << 30, progress=p),
    "split safetensors": lambda at, p: ckpt.split(at / "x.safetensors", at / "out", ranks=3, to="safetensors", progress=p),
    "average": lambda at, p: ckpt.average([at / "x.pt", at / "x.pt"], at / "out.pt", progress=p),
    "reindex": lambda at, p: ckpt.reindex(at / "x.dcp", at / "out", progress=p), "reindex in place": reindex_in_place,
    "repair": lambda at, p: ckpt.repair(at / "bad.pt", progress=p), "repair to": lambda at, p: ckpt.repair(at / "bad.pt", at / "out.pt", fill="zeros", progress=p),
    "repair what is cut off": lambda at, p: ckpt.repair(at / "cut.pt", at / "out.pt", fill="zeros", progress=p),
    "latest": lambda at, p: ckpt.latest(at / "runs", progress=p),
}
MAY_BE_SILENT = {"reindex in place"}  # it writes an index


def remove_outputs(at):
    for name in os.listdir(at):
        if name.startswith("out"):
            if os.path.isdir(at / name):
                shutil.rmtree(at / name)
            else:
                os.unlink(at / name)


@pytest.mark.parametrize("name", CALLS)
def test_done_never_falls_and_ends_at_the_total(name, folder):
    seen = []
    remove_outputs(folder)
    CALLS[name](folder, lambda done, total: seen.append((done, total)))
    assert seen or name in MAY_BE_SILENT
    for (done, total), (then, of) in zip(seen, seen[1:]):
        assert done <= then and total <= of and (done, total) != (then, of)
    assert all(0 <= done <= total and total > 0 for done, total in seen)
    assert not seen or seen[-1][0] == seen[-1][1]


def test_all_that_take_it_are_called_here():
    takers = {name for where in (ckpt, ckpt.Checkpoint) for name, one in vars(where).items()
              if not name.startswith("_") and inspect.isfunction(one) and "progress" in inspect.signature(one).parameters}
    assert len(takers) > 10 and takers <= {name.split()[0] for name in CALLS}

# SPDX-License-Identifier: Apache-2.0
"""verify(), scan(), why(), diff(), stat(), repair(), latest(): dicts with what the command prints with --json."""

import json
import math
import os
import struct
import subprocess

import pytest

import ckpt
from ckpt import _ckpt
from conftest import Floats

COMMAND = os.environ.get("CKPT")
needs_command = pytest.mark.skipif(not COMMAND, reason="CKPT is not set, there is no command to compare with")


def printed(*arguments):
    done = subprocess.run([COMMAND] + [str(one) for one in arguments] + ["--json"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert done.stdout, done.stderr
    document = json.loads(done.stdout)
    del document["ckpt_json"], document["command"]
    return document


def as_json(value):
    """VALUE as the command has it: infinity is a text there."""
    if isinstance(value, dict):
        return {key: as_json(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [as_json(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None if math.isnan(value) else "-inf" if value < 0 else "inf"
    return str(value) if isinstance(value, os.PathLike) else value


@needs_command
def test_verify_tells_what_the_command_tells(trainer, damaged, tmp_path):
    for path, verdict in ((trainer, "sound"), (damaged, "damaged")):
        report = ckpt.verify(path)
        assert report["verdict"] == verdict and as_json(report) == printed("verify", path)["inputs"][0]
    assert ckpt.verify(damaged, quick=True)["verdict"] == "sound"
    ckpt.open(trainer).weights("model").save(tmp_path / "x.safetensors", format="safetensors")
    assert ckpt.verify(tmp_path / "x.safetensors")["verdict"] == "complete"
    assert ckpt.verify(tmp_path / "x.safetensors", require_checksums=True)["verdict"] == "unproven"
    assert ckpt.verify(trainer, sha256="0" * 64)["verdict"] == "damaged"
    for wrong in (lambda: ckpt.verify(__file__), lambda: ckpt.verify(tmp_path / "none"), lambda: ckpt.verify(trainer, sha256="x"),
                  lambda: ckpt.verify(trainer, sha256sums=str(tmp_path / "none"))):
        with pytest.raises(ckpt.Error):
            wrong()
    with pytest.raises(ValueError, match="quick"):
        ckpt.verify(trainer, quick=True, check_finite=True)


@needs_command
def test_scan_tells_what_the_command_tells(trainer, write, files, tmp_path):
    write(files.glob("os", "system") + files.text("true") + b"\x85R", name="bad.pt")
    report = ckpt.scan(tmp_path)
    assert as_json(report) == printed("scan", tmp_path) and "numpy.load" in report["loaders"] and [one["verdict"] for one in report["files"]] == ["dangerous", "plain"]
    with pytest.raises(FileNotFoundError):
        ckpt.scan(tmp_path / "none")


@needs_command
def test_why_tells_what_the_command_tells(trainer, tmp_path):
    report = ckpt.why(trainer)
    assert as_json(report) == printed("why", trainer) and report["causes"][0]["mends"]
    message = 'Missing key(s) in state_dict: "fc.weight", "fc.bias". Unexpected key(s) in state_dict: "module.fc.weight"'
    assert as_json(ckpt.why(trainer, error=message)) == printed("why", trainer, "--error", message)
    try:
        raise RuntimeError(message)
    except RuntimeError as error:
        assert ckpt.why(trainer, error=error)["causes"] == ckpt.why(trainer, error=message)["causes"]
    assert ckpt.why(error=message)["opened"] is False
    with pytest.raises(ValueError):
        ckpt.why()


@needs_command
def test_diff_tells_what_the_command_tells(trainer, tmp_path):
    other = str(tmp_path / "other.pt")
    ckpt.open(trainer).set("epoch", 8).cast("bf16").drop("ema").remap("cuda").save(other)
    for options, words in (({}, []), ({"quick": True}, ["--quick"]), ({"strict": True}, ["--strict"]), ({"ignore_device": True, "ignore_dtype": True}, ["--ignore-device", "--ignore-dtype"]),
                           ({"rtol": 0.5, "order": "name"}, ["--rtol", "0.5", "--sort", "name"]), ({"trust_checksums": True}, ["--trust-checksums"])):
        theirs = printed("diff", trainer, other, *words)["inputs"][0]
        del theirs["input"]
        assert as_json(ckpt.diff(trainer, other, **options)) == theirs, options
    with ckpt.open(trainer) as f:
        assert ckpt.diff(f, trainer)["verdict"] == "same" and not f.closed
        assert ckpt.diff(f, f.strip_module())["report"]["prefix"] == "module."
        assert ckpt.diff(f, other, keep="epoch")["values"]["changed"] == 1
    with pytest.raises(KeyError):
        ckpt.diff(trainer, other, keep="nothing")
    with pytest.raises(ValueError, match="order"):
        ckpt.diff(trainer, other, order="size")


@needs_command
def test_stat_tells_what_the_command_tells(trainer, tmp_path):
    path = str(tmp_path / "numbers.pt")
    ckpt.save({"a": Floats(1, float("nan"), float("inf"), -3), "b.c": Floats(0, 2), "b.d": Floats(), "n": Floats(float("nan"))}, path)
    for options, words in (({}, []), ({"bins": 4}, ["--hist=4"]), ({"quantiles": [0, 0.5]}, ["--quantiles", "0,0.5"]), ({"depth": 1}, ["--depth", "1"]), ({"depth": "module"}, ["--depth", "module"])):
        for one in (path, trainer):
            assert as_json(ckpt.stat(one, **options)) == printed("stat", one, *words), options
    report = ckpt.stat(path, "a", "b.*", progress=lambda done, total: None)
    assert [one["name"] for one in report["tensors"]] == ["a", "b.c", "b.d"] and report["tensors"][0]["first_not_finite"] == [1]
    with pytest.raises(ValueError, match="32"):
        ckpt.stat(path, quantiles=[0.5] * 33)
    with pytest.raises(ZeroDivisionError):
        ckpt.stat(path, progress=lambda done, total: 1 / 0)


@needs_command
def test_repair_tells_and_writes_what_the_command_does(trainer, damaged, tmp_path):
    for fill in (None, "zeros", "nan"):
        ours, theirs = tmp_path / "ours", tmp_path / "theirs"
        ours.mkdir()
        theirs.mkdir()
        report = ckpt.repair(damaged, ours / "out.pt", fill=fill)
        said = printed("repair", damaged, theirs / "out.pt", *(["--fill", fill] if fill else []))
        assert as_json(dict(report, output=None)) == dict(said, output=None) and report["verdict"] == "partial" and report["lost"] == 1
        assert (ours / "out.pt").read_bytes() == (theirs / "out.pt").read_bytes()
        for folder in (ours, theirs):
            (folder / "out.pt").unlink()
            folder.rmdir()
    assert ckpt.repair(damaged)["written"] == 0 and ckpt.repair(trainer, tmp_path / "x.pt")["verdict"] == "sound"
    assert not (tmp_path / "x.pt").exists()
    with pytest.raises(ckpt.Error, match="keeps the format"):
        ckpt.repair(damaged, tmp_path / "x.safetensors")
    with pytest.raises(ValueError, match="fill"):
        ckpt.repair(damaged, fill="ones")
    with pytest.raises(ckpt.Error):
        ckpt.repair(__file__)


@needs_command
def test_latest_is_that_of_the_command(trainer, damaged, tmp_path):
    run = tmp_path / "run"
    run.mkdir()
    assert ckpt.latest(run) is None
    data = open(trainer, "rb").read()
    for number, name in enumerate(("step-2.pt", "step-10.pt", "notes.txt", ".hidden.pt")):
        (run / name).write_bytes(data if name.endswith(".pt") else b"hello")
        os.utime(run / name, ns=(0, 10 ** 18 + (number > 1)))
    (run / "step-11.pt").write_bytes(open(damaged, "rb").read())
    found = ckpt.latest(run)
    assert found == str(run / "step-10.pt") == subprocess.run([COMMAND, "latest", "-q", str(run)], stdout=subprocess.PIPE, text=True).stdout.strip()
    assert ckpt.latest(run, quick=True) == str(run / "step-11.pt")
    with pytest.raises(FileNotFoundError):
        ckpt.latest(tmp_path / "none")


@needs_command
@pytest.mark.parametrize("out, call, words", [
    ("x.safetensors", lambda a, out: ckpt.convert(a, out, at="model"), ["convert", "--at", "model"]),
    ("x.pt", lambda a, out: ckpt.convert(a, out, profile="2.0"), ["convert", "--profile", "2.0"]),
    ("x.pt", lambda a, out: ckpt.convert(a, out, to="torch-legacy"), ["convert", "--to", "torch-legacy"]),
    ("x.pt", lambda a, out: ckpt.convert(a, out, crc=False, alignment=4096), ["convert", "--crc", "off", "--alignment", "4096"]),
    ("x.npz", lambda a, out: ckpt.convert(a, out, drop_others=True), ["convert", "--drop-others"]),
    ("hub", lambda a, out: ckpt.convert(a, out, at="model", shard_size=10), ["convert", "--at", "model", "--shard-size", "10"]),
    ("dcp", lambda a, out: ckpt.split(a, out, ranks=2), ["split", "--ranks", "2"]),
    ("dcp", lambda a, out: ckpt.split(ckpt.open(a), out, 3, dim="best", keep_whole=8), ["split", "--ranks", "3", "--dim", "best", "--keep-whole", "8"]),
    ("hf", lambda a, out: ckpt.split(a, out, ranks=2, to="safetensors", at="model"), ["split", "--ranks", "2", "--to", "safetensors", "--at", "model"]),
])
def test_conversions_write_what_the_command_writes(out, call, words, trainer, tmp_path):
    for folder in ("ours", "theirs"):
        (tmp_path / folder).mkdir()
    call(trainer, tmp_path / "ours" / out)
    done = subprocess.run([COMMAND, words[0], "-q", trainer, str(tmp_path / "theirs" / out)] + words[1:], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    assert done.returncode == 0, done.stdout
    assert same_trees(tmp_path / "ours", tmp_path / "theirs") > 0


@needs_command
@pytest.mark.parametrize("out, call, words", [
    ("x.pt", lambda a, out: ckpt.merge(a, out), []),
    ("x.pt", lambda a, out: ckpt.merge(a, out, only="optimizer", int_keys=True, profile="2.6"), ["--only", "optimizer", "--int-keys", "--profile", "2.6"]),
    ("x.pt", lambda a, out: ckpt.merge(a, out, shards_only=True), ["--shards-only"]),
    ("x.safetensors", lambda a, out: ckpt.merge(a, out, only=["model"]), ["--only", "model"]),
])
def test_merge_writes_what_the_command_writes(out, call, words, trainer, tmp_path):
    ckpt.split(trainer, tmp_path / "dcp", ranks=2)
    ckpt.save({"beside": 1}, tmp_path / "dcp" / "meta.pt")
    for folder in ("ours", "theirs"):
        (tmp_path / folder).mkdir()
    call(tmp_path / "dcp", tmp_path / "ours" / out)
    subprocess.run([COMMAND, "merge", "-q", str(tmp_path / "dcp"), str(tmp_path / "theirs" / out)] + words, check=True)
    assert same_trees(tmp_path / "ours", tmp_path / "theirs") == 1


@needs_command
@pytest.mark.parametrize("options, words", [
    ({}, []), ({"weights": [1, 2, 0.5]}, ["--weights", "1,2,0.5"]), ({"ema": 0.9, "only": "model.*", "others": "last"}, ["--ema", "0.9", "--only", "model.*", "--others", "last"]),
    ({"profile": "2.0"}, ["--profile", "2.0"])])
def test_average_writes_what_the_command_writes(options, words, trainer, tmp_path):
    paths = [trainer]
    for number in (1, 2):
        state = ckpt.load(trainer)
        state["model"]["module.fc.bias"] = Floats(number)
        if "others" in options:
            state["epoch"] = number
        paths.append(str(tmp_path / ("%d.pt" % number)))
        ckpt.save(state, paths[-1])
    for folder in ("ours", "theirs"):
        (tmp_path / folder).mkdir()
    ckpt.average([paths[0], ckpt.open(paths[1]), ckpt.open(open(paths[2], "rb").read())], tmp_path / "ours" / "x.pt", **options)
    subprocess.run([COMMAND, "average", "-q", *paths, str(tmp_path / "theirs" / "x.pt")] + words, check=True)
    assert same_trees(tmp_path / "ours", tmp_path / "theirs") == 1


def test_an_average_keeps_what_it_is_made_of(trainer):
    """Memory, functions and files of all, though they are closed; and lets them go."""
    data = bytearray(open(trainer, "rb").read())
    models = [_ckpt.open(trainer), _ckpt.open_memory(data), _ckpt.open_reader(lambda offset, nbytes: bytes(data[offset:offset + nbytes]), len(data))]
    mean, report = _ckpt.average(models, 0, [], None, 0.0, None)
    for model in models:
        model.close()
    with pytest.raises(BufferError):
        data.clear()
    assert mean.open_array("model.module.fc.bias").read() == struct.pack("<f", 0.5)
    mean.close()
    data.clear()


def test_averages_that_cannot_be_write_nothing(trainer, damaged, tmp_path):
    other = str(tmp_path / "other.pt")
    ckpt.save({"a": Floats(1)}, other)
    before, out = sorted(os.listdir(tmp_path)), tmp_path / "x.pt"
    for sources, options, status in (([trainer, other], {}, "UNSUPPORTED"), ([trainer, trainer], {"only": "nowhere"}, "NOTFOUND"),
                                     ([trainer, trainer], {"weights": [1, -1]}, "ARG"), ([trainer, tmp_path / "none"], {}, "IO")):
        with pytest.raises(ckpt.Error) as raised:
            ckpt.average(sources, out, **options)
        assert raised.value.status == status
    for sources, options in (([trainer], {"weights": [1, 2]}), ([], {}), ([trainer], {"others": "first"}), ([trainer], {"ema": 0.5, "weights": [1]})):
        with pytest.raises(ValueError):
            ckpt.average(sources, out, **options)
    assert sorted(os.listdir(tmp_path)) == before


@needs_command
@pytest.mark.parametrize("options, words", [({}, []), ({"for_torch": "1.13"}, ["--for-torch", "1.13"]), ({"hard_link": True, "no_sync": True}, ["--hard-link", "--no-sync"])])
def test_reindex_writes_what_the_command_writes(options, words, trainer, tmp_path):
    ckpt.split(trainer, tmp_path / "dcp", ranks=2)
    report = ckpt.reindex(tmp_path / "dcp", tmp_path / "ours", **options)
    subprocess.run([COMMAND, "reindex", str(tmp_path / "dcp"), str(tmp_path / "theirs")] + words, check=True, stdout=subprocess.DEVNULL)
    assert same_trees(tmp_path / "ours", tmp_path / "theirs") > 1
    assert report["source"] == ".metadata" and report["uncovered"] == 0 and report["nbytes"] == os.path.getsize(tmp_path / "ours" / ".metadata")
    with pytest.raises(ckpt.Error) as raised:
        ckpt.reindex(tmp_path / "dcp", tmp_path / "ours")
    assert raised.value.status == "EXISTS"
    assert ckpt.reindex(tmp_path / "dcp", dry_run=True)["nbytes"] > 0
    ckpt.reindex(tmp_path / "dcp")
    assert ckpt.verify(tmp_path / "dcp")["verdict"] in ("sound", "complete")


def same_trees(a, b):
    """How many files there are, all of which are equal."""
    files = sorted(path.relative_to(a) for path in a.rglob("*") if path.is_file())
    assert files == sorted(path.relative_to(b) for path in b.rglob("*") if path.is_file())
    for name in files:
        assert (a / name).read_bytes() == (b / name).read_bytes(), name
    return len(files)


def test_names_that_say_something_else_are_refused(trainer, tmp_path):
    for call in (lambda: ckpt.convert(trainer, tmp_path / "x.onnx"), lambda: ckpt.convert(trainer, tmp_path / "x.npy"), lambda: ckpt.merge(trainer, tmp_path / "x.npz"),
                 lambda: ckpt.split(trainer, tmp_path / "x", ranks=0), lambda: ckpt.split(trainer, tmp_path / "x", ranks=1, to="npz")):
        with pytest.raises((ckpt.Error, ValueError)):
            call()
    assert os.listdir(tmp_path) == ["trainer.pt"]


def test_the_newest_of_what_is_no_folder_is_an_error_of_the_system(tmp_path, trainer):
    for path, kind in ((str(tmp_path / "missing"), FileNotFoundError), (tmp_path / "missing", FileNotFoundError), (trainer, OSError)):
        with pytest.raises(ckpt.Error) as caught:
            ckpt.latest(path)
        error = caught.value
        assert isinstance(error, kind) and error.status == "IO" and error.errno and error.filename == error.path == str(path) and str(error).startswith(str(path))
    (tmp_path / "empty").mkdir()
    (tmp_path / "empty" / "dangling").symlink_to("nowhere")
    assert ckpt.latest(tmp_path / "empty") is None


@pytest.mark.parametrize("number", [-1, 1 << 32, 1 << 40, -(1 << 70), 1 << 70])
def test_numbers_that_make_no_sense_are_refused(number, trainer, tmp_path):
    out = str(tmp_path / "out.pt")
    f = ckpt.open(trainer)
    for call in (lambda: ckpt.verify(trainer, threads=number), lambda: ckpt.scan(trainer, threads=number), lambda: ckpt.why(trainer, threads=number),
                 lambda: ckpt.diff(trainer, trainer, threads=number), lambda: ckpt.stat(trainer, threads=number), lambda: ckpt.stat(trainer, bins=number),
                 lambda: ckpt.repair(trainer, threads=number), lambda: f.read_storages([(0, 0, 4, bytearray(4))], threads=number), lambda: f.save(out, threads=number),
                 lambda: f.save(out, alignment=number), lambda: f.save(out, ranks=number, format="dcp"), lambda: ckpt.stat(trainer, depth=-1)):
        with pytest.raises(ValueError):
            call()
    assert not os.path.exists(out)
    for call in (lambda: ckpt.verify(trainer, threads="2"), lambda: f.rename(5), lambda: f.remap(5), lambda: f.remap(None)):
        with pytest.raises(TypeError):
            call()


def test_what_another_format_has_no_place_for_is_in_the_report(tmp_path):
    source, out = str(tmp_path / "in.pt"), tmp_path / "out.safetensors"
    ckpt.save({"model": {"w": Floats(1), "b": Floats(2)}, "optimizer": {"m": Floats(3)}, "best": Floats(4)}, source)
    report = ckpt.convert(source, out)
    assert [(edit["edit"], edit["tensors_dropped"]) for edit in report["edits"]] == [("weights", 2)]
    with ckpt.open(out) as made:
        assert sorted(made) == ["b", "w"]
    with ckpt.open(source) as f:
        taken = f.select("model.*")
        assert [edit["edit"] for edit in ckpt.convert(taken, out, overwrite=True)["edits"]] == ["weights"]
        assert ckpt.convert(taken, tmp_path / "out.pt")["edits"] == []

# SPDX-License-Identifier: Apache-2.0
"""Edits in a chain, written once: the bytes of `ckpt edit` with the same options."""

import os
import struct
import subprocess

import pytest

import ckpt
from conftest import Floats

COMMAND = os.environ.get("CKPT")


CHAINS = [
    (lambda f: f.strip_module(), ["--strip-module"]),
    (lambda f: f.strip_module().add_module(), ["--strip-module", "--add-module"]),
    (lambda f: f.add_module().set("epoch", 1), ["--add-module", "--set", "epoch=1"]),
    (lambda f: f.extract("model").add_module(), ["--extract", "model", "--add-module"]),
    (lambda f: f.strip_prefix("module"), ["--strip-prefix", "module"]),
    (lambda f: f.strip_wrappers(), ["--strip-wrappers"]),
    (lambda f: f.add_prefix("net."), ["--add-prefix", "net."]),
    (lambda f: f.rename("s/fc/head/", "s/bias$/b/"), ["--rename", "s/fc/head/", "--rename", "s/bias$/b/"]),
    (lambda f: f.rename({"module.fc.bias": "b", "module.fc.weight": "w"}), ["--rename-map", "MAP"]),
    (lambda f: f.remap({"cpu": "cuda:1"}), ["--remap", "cpu=cuda:1"]),
    (lambda f: f.remap("cuda").remap({"cuda:*": "cpu", "cuda:1": "cuda:2"}),
     ["--remap-all", "cuda", "--remap", "cuda:*=cpu", "--remap", "cuda:1=cuda:2"]),
    (lambda f: f.extract("model"), ["--extract", "model"]),
    (lambda f: f.select("model*", "epoch"), ["--keep", "model*", "--keep", "epoch"]),
    (lambda f: f.drop("optimizer", "re:^e"), ["--drop", "optimizer", "--drop", "re:^e"]),
    (lambda f: f.cast("bf16"), ["--cast", "bf16"]),
    (lambda f: f.cast("float16", all=True), ["--cast-all", "float16"]),
    (lambda f: f.cast("bf16", only="model.*"), ["--cast", "bf16", "--cast-only", "model.*"]),
    (lambda f: f.set("epoch", 8).set("lr", 1e-4).set("best", "x\u00e4").set("name", None).set("optimizer.param_groups.0.lr", True),
     ["--set-json", "epoch=8", "--set-json", "lr=1e-4", "--set-json", 'best="x\u00e4"', "--set-json", "name=null", "--set-json", "optimizer.param_groups.0.lr=true"]),
    (lambda f: f.set("lr", float("inf")), ["--set", "lr=inf"]),
    (lambda f: f.drop("model.module.fc.bias").compact(), ["--drop", "model.module.fc.bias", "--compact"]),
    (lambda f: f.strip_module().remap({"cuda:*": "cpu"}).cast("bf16").select("model*").rename("s/fc/head/").extract("model"),
     ["--strip-module", "--remap", "cuda:*=cpu", "--cast", "bf16", "--keep", "model*", "--rename", "s/fc/head/", "--extract", "model"]),
]


KINDS = {
    "trainer": lambda path, out: os.rename(path, out),
    "legacy": lambda path, out: ckpt.convert(path, out, to="torch-legacy"),
    "safetensors": lambda path, out: ckpt.convert(path, out, at="model"),
    "dcp": lambda path, out: ckpt.split(path, out, ranks=2),
    "hub": lambda path, out: ckpt.convert(path, out, at="model", to="safetensors", shard_size=10),
}
NAMES = {"safetensors": "in.safetensors", "dcp": "in", "hub": "in"}


def tree(folder):
    return {path.relative_to(folder): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.skipif(not COMMAND, reason="CKPT is not set, there is no command to compare with")
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("number", range(len(CHAINS)))
def test_a_chain_writes_what_the_command_writes(number, kind, trainer, tmp_path):
    chain, options = CHAINS[number]
    (tmp_path / "map.txt").write_text("module.fc.bias\tb\nmodule.fc.weight\tw\n")
    options = [str(tmp_path / "map.txt") if option == "MAP" else option for option in options]
    for folder in ("ours", "theirs"):
        (tmp_path / folder).mkdir()
    source = str(tmp_path / NAMES.get(kind, "in.pt"))
    KINDS[kind](trainer, source)
    out = os.path.basename(source).replace("in", "out")
    done = subprocess.run([COMMAND, "edit", "-q", "--no-sync", "--if-present", source, str(tmp_path / "theirs" / out)] + options,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    with ckpt.open(source) as f:
        if done.returncode == 0:
            chain(f).save(tmp_path / "ours" / out, no_sync=True)
        elif "of devices" not in done.stdout:  # what the command refuses as nothing of it is written
            with pytest.raises((ckpt.Error, ValueError)):
                chain(f).save(tmp_path / "ours" / out, no_sync=True)
    assert tree(tmp_path / "ours") == tree(tmp_path / "theirs") or "of devices" in done.stdout
    assert done.returncode or tree(tmp_path / "ours")


@pytest.mark.skipif(not COMMAND, reason="CKPT is not set, there is no command to compare with")
def test_objects_become_plain_data_as_by_the_command(write, files, tmp_path):
    path = write(b"}" + files.text("args") + files.glob("argparse", "Namespace") + b")\x81}" + files.text("lr") + b"G" + struct.pack(">d", 0.1) + b"sbs")
    for folder in ("ours", "theirs"):
        (tmp_path / folder).mkdir()
    with ckpt.open(path) as f:
        made = f.sanitize()
        assert made.edits[0]["changes"] == [{"name": "args", "was": "Namespace", "is": "dict"}]
        made.save(tmp_path / "ours" / "x.pt")
    subprocess.run([COMMAND, "sanitize", "-q", path, str(tmp_path / "theirs" / "x.pt")], check=True)
    assert tree(tmp_path / "ours") == tree(tmp_path / "theirs") and ckpt.load(tmp_path / "ours" / "x.pt") == {"args": {"lr": 0.1}}


def test_edits_are_new_objects_and_say_what_they_did(trainer):
    with ckpt.open(trainer) as f:
        edited = f.strip_module().cast("bf16").drop("optimizer")
        assert "model.module.fc.bias" in f and f["model.module.fc.bias"].dtype == "float32" and f.edits == []
    assert "model.fc.bias" in edited and edited["model.fc.bias"].dtype == "bfloat16"
    assert edited["model.fc.bias"].memoryview().tolist() == [0x3F00]  # its values, too
    assert [one["edit"] for one in edited.edits] == ["strip_module", "cast", "drop"]
    assert edited.edits[0]["renamed"] == 2 and edited.edits[1]["tensors_cast"] == 4 and edited.edits[2]["entries_dropped"] == 1
    assert edited.edits[0]["places"] == [{"name": "model", "renamed": 2}]
    assert edited.strip_module().edits[-1]["renamed"] == 0
    assert edited.add_module().add_module().edits[-1]["renamed"] == 0
    assert edited.weights()._model.walk()[1][0] == "fc.weight" and edited.extract("epoch").value() == 7


def test_what_makes_no_sense_is_an_error(trainer, tmp_path):
    f = ckpt.open(trainer)
    for call, kind, message in (
            (lambda: f.select("nothing*"), KeyError, "nothing"), (lambda: f.extract("nothing"), KeyError, "nothing"),
            (lambda: f.cast("float31"), ValueError, "float31"), (lambda: f.rename("x/y"), ValueError, "x/y"),
            (lambda: f.rename({"nothing": "x"}), KeyError, "nothing"), (lambda: f.remap("nowhere"), ValueError, "nowhere"),
            (lambda: f.set("model", 1), ckpt.Error, "model"), (lambda: f.strip_module(at="nothing"), KeyError, "nothing"),
            (lambda: f.rename({}, {}), TypeError, "one dict"), (lambda: f.cast("int8"), ValueError, "int8"),
            (lambda: f.drop("epoch", 1), TypeError, "str"), (lambda: f.save(trainer, overwrite=True), ckpt.Error, "input"),
            (lambda: f.save(tmp_path / "x.safetensors"), ckpt.Error, "keeps the format"), (lambda: f.save(trainer), ckpt.Error, "input")):
        with pytest.raises(kind, match=message):
            call()
    assert os.listdir(tmp_path) == ["trainer.pt"]
    assert f.rename({"nothing": "x"}, if_present=True).edits[0]["unused"] == ["nothing"]


def test_a_conversion_is_a_format(trainer, tmp_path):
    f = ckpt.open(trainer).weights("model").strip_module()
    f.save(tmp_path / "x.safetensors", format="safetensors")
    with ckpt.open(tmp_path / "x.safetensors") as other:
        assert sorted(other) == ["fc.bias", "fc.weight"]
        with pytest.raises(ckpt.Error, match="keeps the format"):
            other.save(tmp_path / "y.pt")
        assert other.save(tmp_path / "y.pt", format="torch")["nbytes"] == os.path.getsize(tmp_path / "y.pt")
    with pytest.raises(ckpt.Error) as raised:
        ckpt.open(trainer).save(tmp_path / "z.safetensors", format="safetensors")
    assert raised.value.unfit and not (tmp_path / "z.safetensors").exists()
    ckpt.open(trainer).save(tmp_path / "dcp", format="dcp", ranks=2)
    ckpt.open(tmp_path / "dcp").set("epoch", 9).save(tmp_path / "back.pt")
    assert ckpt.open(tmp_path / "back.pt").info["format"] == "torch zip" and ckpt.load(tmp_path / "back.pt")["epoch"] == 9


def test_dry_runs_write_nothing_and_tell_what_casts_lose(trainer, tmp_path):
    f = ckpt.open(trainer).set("epoch", 8)
    assert f.save(tmp_path / "x.pt", dry_run=True)["written"] > 0 and os.listdir(tmp_path) == ["trainer.pt"]
    ckpt.save({"w": Floats(1e9, 1)}, tmp_path / "large.pt")
    cast = ckpt.open(tmp_path / "large.pt").cast("float16")
    with pytest.raises(ckpt.Error) as raised:
        cast.save(tmp_path / "x.pt", check_casts=True)
    assert raised.value.reason == "CAST_LOSES" and cast.cast_losses()["overflow"]["count"] == 1
    assert cast.cast_losses()["overflow"]["place"] == "'w'[0]" and not (tmp_path / "x.pt").exists()


def test_the_file_itself_can_be_edited(trainer):
    size = os.path.getsize(trainer)
    with ckpt.open(trainer) as f:
        report = f.strip_module().set("epoch", 8).save_in_place()
    assert report["written"] < size + 4096 and ckpt.load(trainer)["epoch"] == 8 and "model.fc.bias" in ckpt.open(trainer)


@pytest.mark.parametrize("value", [[1, 2], {"a": 1}, (1,), b"x", 1j, object()])
def test_set_takes_single_values(value, tmp_path):
    ckpt.save({"epoch": 1}, tmp_path / "x.pt")
    with pytest.raises(TypeError, match=r"set\(\) takes a number, text, bool or None, not "):
        ckpt.open(tmp_path / "x.pt").set("epoch", value)

# SPDX-License-Identifier: Apache-2.0
"""Loads that fail, with whichever torch this is. why_cases.py make | check

make: each case has a folder out/NAME with the file it fails on, and what torch printed. check: todo.json says what 'ckpt why'
advised, [[NAME, "command" or "python", the file that the command wrote or the expression]]; each is loaded.
"""
import argparse
import collections
import io
import json
import os
import pickle
import resource
import shutil
import signal
import struct
import sys
import tarfile
import traceback
import types
import warnings
import zipfile

import numpy as np
import torch
from torch import nn

V = tuple(int(x) for x in torch.__version__.split("+")[0].split(".")[:2])
CASES = {}


def case(*causes, file="a.pt", check="load", since=(0, 0), until=(99, 0), name=None):
    """
    CAUSES: which ids are right, for the first that is told. CHECK: what a mended file has to do: a function of this module, or
    None if nothing mends it. The function fails in torch.
    """
    def add(function):
        if since <= V < until:
            CASES[name or function.__name__] = (function, causes, file, check)
        return function
    return add


# ---- loading ----

def load(path, **options):
    if V >= (1, 13) and "weights_only" not in options:
        options["weights_only"] = False
    return torch.load(path, **options)


class Net(nn.Module):
    def __init__(self, classes=4):
        super().__init__()
        self.conv = nn.Conv2d(1, 2, 3)
        self.norm = nn.BatchNorm2d(2)
        self.fc = nn.Linear(8, classes)


def fits(path):
    """Into the model that it did not fit before."""
    Net().load_state_dict(load(path, map_location="cpu"))


def fits_model(path):
    Net().load_state_dict(load(path)["model"])


def fits_loosely(path):
    Net().load_state_dict(load(path), strict=False)


def plain(path):
    if V >= (2, 6):
        torch.load(path, weights_only=True)
    load(path)


def by_script(path):
    load(path)
    assert torch.load(path), "the state dict is empty"


# ---- files ----

def prefixed(state, prefix):
    return collections.OrderedDict((prefix + key, value) for key, value in state.items())


def some():
    return {"w": torch.zeros(1000), "v": torch.ones(10)}


def cut(count, path="a.pt"):
    with open(path, "rb") as file:
        data = file.read()
    with open(path, "wb") as file:
        file.write(data[:count])


def write(data, path="a.pt"):
    with open(path, "wb") as file:
        file.write(data)


def edit(change=lambda record, data: data, drop=(), add=()):
    """The archive a.pt anew: RECORD without the folder."""
    with zipfile.ZipFile("a.pt") as old, zipfile.ZipFile("new.pt", "w") as new:
        for info in old.infolist():
            folder, record = info.filename.split("/", 1)
            if record not in drop:
                new.writestr(info.filename, change(record, old.read(info)))
        for record, data in add:
            new.writestr(record.replace("FOLDER", folder), data)
    os.replace("new.pt", "a.pt")


def edit_pickle(old, new):
    edit(lambda record, data: data.replace(old, new) if record == "data.pkl" else data)


def first_record(folder):
    with zipfile.ZipFile("a.pt") as archive:
        return min(name.split("/", 1)[1] for name in archive.namelist() if "/%s/" % folder in name)


# ---- names ----

@case("prefix", check="fits")
def prefix_module():
    torch.save(prefixed(Net().state_dict(), "module."), "a.pt")
    Net().load_state_dict(load("a.pt"))


@case("prefix", check="fits")
def prefix_compiled():
    torch.save(prefixed(Net().state_dict(), "_orig_mod."), "a.pt")
    Net().load_state_dict(load("a.pt"))


@case("prefix", check="fits")
def prefix_both():
    torch.save(prefixed(Net().state_dict(), "module._orig_mod."), "a.pt")
    Net().load_state_dict(load("a.pt"))


@case("prefix", check="fits")
def prefix_inside():
    state = collections.OrderedDict((k.replace(".", "._orig_mod.", 1), v) for k, v in Net().state_dict().items())
    torch.save(state, "a.pt")
    Net().load_state_dict(load("a.pt"))


@case("prefix", check="fits_model")
def prefix_in_trainer_file():
    torch.save({"model": prefixed(Net().state_dict(), "module."), "epoch": 3}, "a.pt")
    Net().load_state_dict(load("a.pt")["model"])


@case("prefix_wanted", check="fits_parallel")
def prefix_wanted():
    torch.save(Net().state_dict(), "a.pt")
    nn.DataParallel(Net()).load_state_dict(load("a.pt"))


def fits_parallel(path):
    nn.DataParallel(Net()).load_state_dict(load(path))


@case("prefix", check="fits")
def lightning_state_dict():
    torch.save({"state_dict": prefixed(Net().state_dict(), "model."), "epoch": 1}, "a.pt")
    Net().load_state_dict(load("a.pt")["state_dict"])


def fits_state_dict(path):
    Net().load_state_dict(load(path)["state_dict"])


CASES.pop("lightning_state_dict", None)
case("prefix", check="fits_state_dict")(lightning_state_dict)


@case("renamed", check="fits")
def renamed():
    state = Net().state_dict()
    torch.save(collections.OrderedDict((k.replace("conv.", "stem.").replace("fc.", "head."), v) for k, v in state.items()), "a.pt")
    Net().load_state_dict(load("a.pt"))


@case("renamed", check="fits")
def renamed_at_the_end():
    names = {"norm.weight": "norm.gamma", "norm.bias": "norm.beta"}
    torch.save(collections.OrderedDict((names.get(k, k), v) for k, v in Net().state_dict().items()), "a.pt")
    Net().load_state_dict(load("a.pt"))


@case("renamed", check="fits")
def prefix_for_some():
    state = Net().state_dict()
    torch.save(collections.OrderedDict((k[5:] if k.startswith("norm.") else k, v) for k, v in state.items()), "a.pt")
    Net().load_state_dict(load("a.pt"))


CASES.pop("prefix_for_some", None)


class Outer(nn.Module):
    def __init__(self):
        super().__init__()
        self.backbone = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2))
        self.head = nn.Linear(2, 2)


@case("renamed", check="fits_outer")
def moved_into_another():
    state = Outer().state_dict()
    torch.save(collections.OrderedDict((k.replace("backbone.", ""), v) for k, v in state.items()), "a.pt")
    Outer().load_state_dict(load("a.pt"))


def fits_outer(path):
    Outer().load_state_dict(load(path))


@case("nested", check="fits")
def nested():
    torch.save({"model": Net().state_dict(), "epoch": 1}, "a.pt")
    Net().load_state_dict(load("a.pt"))


@case("nested", check="fits")
def nested_and_wrapped():
    torch.save({"model": prefixed(Net().state_dict(), "module."), "epoch": 1}, "a.pt")
    Net().load_state_dict(load("a.pt"))


@case("nested", check="fits")
def nested_numbers():
    torch.save({"model": Net().state_dict(), 3: 4}, "a.pt")
    Net().load_state_dict(load("a.pt"))


@case("missing_keys", check="fits_loosely")
def missing():
    state = Net().state_dict()
    del state["fc.weight"]
    torch.save(state, "a.pt")
    Net().load_state_dict(load("a.pt"))


@case("unexpected_keys", check="fits")
def unexpected():
    state = Net().state_dict()
    state["aux.weight"] = state["fc.extra"] = torch.zeros(3)
    torch.save(state, "a.pt")
    Net().load_state_dict(load("a.pt"))


@case("other_model", check=None)
def other_model():
    torch.save({"a.b.c": torch.zeros(1), "d.e": torch.zeros(2)}, "a.pt")
    Net().load_state_dict(load("a.pt"))


@case("size_mismatch", check="fits_loosely")
def size_mismatch():
    torch.save(Net(7).state_dict(), "a.pt")
    Net().load_state_dict(load("a.pt"))


def quantized():
    """The state of Net, with fc in 8 bits and one scale for a block; fc.weight[0] stands for 0.5, -1 ..."""
    state = Net().state_dict()
    state["fc.weight"] = torch.tensor([1.0, -2.0] * 16).reshape(4, 8).to(torch.float8_e4m3fn)
    state["fc.weight_scale_inv"] = torch.full((1, 1), 0.5)
    torch.save(state, "a.pt")
    return state


def fits_and_is_scaled(path):
    net = Net()
    net.load_state_dict(load(path))
    assert net.fc.weight[0, :2].tolist() == [0.5, -1], net.fc.weight


@case("quantized", check="fits_and_is_scaled", since=(2, 1))
def quantized_keys():
    quantized()
    Net().load_state_dict(load("a.pt"))


@case("quantized", check="fits_and_is_scaled", since=(2, 6))
def quantized_product():
    nn.functional.linear(torch.zeros(1, 8), quantized()["fc.weight"])


@case("quantized", check="fits_and_is_scaled", since=(2, 1))
def quantized_sum():
    quantized()["fc.weight"].sum()


@case("quantized", check="fits_and_is_scaled", since=(2, 6))
def quantized_promotion():
    quantized()["fc.weight"] * torch.zeros(8)


@case("partitioned", check=None)
def empty_parts():
    torch.save({k: torch.zeros(0) if k[:2] == "fc" else v for k, v in Net().state_dict().items()}, "a.pt")
    Net().load_state_dict(load("a.pt"), strict=False)


@case("meta_tensors", check=None, since=(1, 13))
def meta():
    torch.save({k: v.to("meta") for k, v in Net().state_dict().items()}, "a.pt")
    Net().load_state_dict(load("a.pt"))


@case("other_kind", check=None)
def sparse():
    state = nn.Linear(2, 2).state_dict()
    state["weight"] = state["weight"].to_sparse()
    torch.save(state, "a.pt")
    nn.Linear(2, 2).load_state_dict(load("a.pt"))


@case("not_a_tensor", check="fits_linear", since=(1, 13))
def numpy_weights():
    torch.save({"weight": np.zeros((2, 2), dtype=np.float32), "bias": torch.zeros(2)}, "a.pt")
    nn.Linear(2, 2).load_state_dict(load("a.pt"))


def fits_linear(path):
    nn.Linear(2, 2).load_state_dict(load(path))


@case("whole_module", check="fits")
def module_for_state_dict():
    torch.save(Net(), "a.pt")
    Net().load_state_dict(load("a.pt"))


@case("not_a_dict", check=None)
def list_for_state_dict():
    torch.save([1], "a.pt")
    Net().load_state_dict(load("a.pt"))


CASES.pop("list_for_state_dict", None) if V < (1, 13) else None


@case("not_a_model", check=None)
def dict_for_model():
    torch.save(Net().state_dict(), "a.pt")
    load("a.pt").eval()


@case("not_a_model", check=None)
def trainer_file_for_model():
    torch.save({"net": Net().state_dict(), "epoch": 3}, "a.pt")
    load("a.pt").cuda()


@case("no_entry", check=None)
def entry():
    torch.save(Net().state_dict(), "a.pt")
    load("a.pt")["state_dict"]


@case("whole_module", check="load")
def class_changed():
    module = nn.Upsample(scale_factor=2)
    del module.__dict__["align_corners"]
    module.conv = nn.Conv2d(1, 1, 1)
    torch.save(module, "a.pt")
    load("a.pt")(torch.zeros(1, 1, 2, 2))


# ---- optimizers ----

def stepped(groups=1):
    model = Net()
    parts = [{"params": model.conv.parameters()}, {"params": model.fc.parameters()}]
    optimizer = torch.optim.Adam(parts if groups == 2 else model.parameters())
    for parameter in model.parameters():
        parameter.grad = torch.zeros_like(parameter)
    optimizer.step()
    return model, optimizer


@case("optimizer_mismatch", check="load")
def optimizer_size():
    model, optimizer = stepped()
    torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict()}, "a.pt")
    torch.optim.Adam(nn.Linear(2, 2).parameters()).load_state_dict(load("a.pt")["optimizer"])


@case("optimizer_mismatch", check="load")
def optimizer_groups():
    torch.save(stepped(2)[1].state_dict(), "a.pt")
    stepped()[1].load_state_dict(load("a.pt"))


@case("optimizer_given", check=None)
def optimizer_for_model():
    torch.save(stepped()[1].state_dict(), "a.pt")
    Net().load_state_dict(load("a.pt"))


@case("no_entry", check=None)
def model_for_optimizer():
    model, optimizer = stepped()
    torch.save(model.state_dict(), "a.pt")
    optimizer.load_state_dict(load("a.pt"))


# ---- files that are cut off, damaged, packed anew ----

def save_cut(count, **options):
    torch.save(some(), "a.pt", **options)
    cut(count)


@case("truncated", check=None)
def cut_in_half():
    save_cut(2000)
    load("a.pt")


@case("truncated", check=None)
def cut_early():
    save_cut(100)
    load("a.pt")


@case("truncated", check=None)
def cut_to_nothing():
    save_cut(5)
    load("a.pt")


@case("truncated", check="load")
def cut_by_one():
    save_cut(-1)
    load("a.pt")


@case("truncated", check=None)
def cut_for_script():
    save_cut(2000)
    torch.jit.load("a.pt")


@case("truncated", check="load")
def cut_stream():
    save_cut(-100, _use_new_zipfile_serialization=False)
    load("a.pt")


@case("truncated", check=None)
def cut_stream_in_pickle():
    save_cut(100, _use_new_zipfile_serialization=False)
    load("a.pt")


@case("truncated", check=None)
def cut_stream_behind_pickle():
    save_cut(300, _use_new_zipfile_serialization=False)
    load("a.pt")


@case("damaged", check="load")
def wrong_directory():
    torch.save(some(), "a.pt")
    with open("a.pt", "rb") as file:
        data = bytearray(file.read())
    data[data.rfind(b"PK\1\2")] = 0
    write(data)
    load("a.pt")


@case("damaged", check="load")
def wrong_header():
    torch.save(some(), "a.pt")
    with open("a.pt", "rb") as file:
        data = bytearray(file.read())
    data[data.find(b"PK\3\4", 10)] = 0
    write(data)
    load("a.pt")


@case("damaged", check=None)
def wrong_size():
    torch.save(some(), "a.pt", _use_new_zipfile_serialization=False)
    with open("a.pt", "rb") as file:
        data = file.read()
    write(data.replace(struct.pack("<q", 1000), struct.pack("<q", 999), 1))
    load("a.pt")


@case("damaged", check="load")
def no_storage():
    torch.save(some(), "a.pt")
    edit(drop=[first_record("data")])
    load("a.pt")


@case("damaged", "other_zip", check=None)
def no_pickle():
    torch.save(some(), "a.pt")
    edit(drop=["data.pkl"])
    load("a.pt")


@case("damaged", check="load")
def no_version():
    torch.save(some(), "a.pt")
    edit(drop=["version"])
    load("a.pt")


@case("damaged", check="load", since=(2, 10))
def short_record():
    torch.save(some(), "a.pt")
    edit(lambda record, data: data[:-8] if len(data) == 4000 else data)
    load("a.pt")


@case("damaged", check="load", since=(1, 13))
def empty_record():
    torch.save(some(), "a.pt")
    edit(lambda record, data: b"" if len(data) == 4000 else data)
    load("a.pt")["w"].sum()


@case("damaged", check=None, since=(2, 1))
def byteorder():
    torch.save(some(), "a.pt")
    edit(drop=["byteorder"], add=[("FOLDER/byteorder", "middle")])
    load("a.pt")


@case("repacked", check="load")
def packed_on_a_mac():
    torch.save(some(), "a.pt")
    edit(add=[("__MACOSX/x", "")])
    load("a.pt")


@case("other_zip", check=None)
def zip_of_files():
    with zipfile.ZipFile("a.pt", "w") as archive:
        archive.writestr("readme.txt", "hello")
    load("a.pt")


@case("other_zip", check=None)
def zip_of_a_folder():
    with zipfile.ZipFile("a.pt", "w") as archive:
        archive.writestr("folder/readme.txt", "hello")
    load("a.pt")


@case("other_zip", check="load")
def zip_with_a_checkpoint():
    torch.save(some(), "model.pth")
    with zipfile.ZipFile("a.zip", "w") as archive:
        archive.write("model.pth")
        archive.writestr("x/y", "z")
    shutil.move("a.zip", "a.pt")
    os.remove("model.pth")
    load("a.pt")


@case("torch_too_old", check=None)
def version_of_the_future():
    torch.save(some(), "a.pt")
    edit(lambda record, data: b"11\n" if record == "version" else data)
    load("a.pt")


@case("damaged", check=None)
def version_zero():
    torch.save(some(), "a.pt")
    edit(lambda record, data: b"0\n" if record == "version" else data)
    load("a.pt")


@case("damaged", check=None)
def pickle_without_end():
    torch.save(some(), "a.pt")
    edit(lambda record, data: data[:-1] if record == "data.pkl" else data)
    load("a.pt")


@case("damaged", check=None, name="pickle_stack")
def pickle_stack():
    torch.save(some(), "a.pt")
    edit(lambda record, data: data[:2] + b"s" + data[3:] if record == "data.pkl" else data)
    load("a.pt")


@case("damaged", check=None)
def pickle_mark():
    torch.save(some(), "a.pt")
    edit(lambda record, data: data[:2] + b"u" + data[3:] if record == "data.pkl" else data)
    load("a.pt")


# ---- other files in the place of a checkpoint ----

def safetensors(header=b'{"w":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}'):
    return struct.pack("<Q", len(header)) + header + bytes(4)


def tar():
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as archive:
        archive.addfile(tarfile.TarInfo("readme.txt"), io.BytesIO())
    return out.getvalue()


OTHERS = {
    "empty": ("empty", b""),
    "zeros": ("empty", bytes(5000)),
    "lfs": ("lfs_pointer", b"version https://git-lfs.github.com/spec/v1\noid sha256:%s\nsize 12345\n" % (b"ab" * 32)),
    "annex": ("annex_pointer", b"/annex/objects/SHA256E-s12345--" + b"ab" * 32 + b".pt\n"),
    "html": ("web_page", b"<!DOCTYPE html><html><body>404</body></html>"),
    "html_after_blanks": ("web_page", b"\n<html>"),
    "xml": ("web_page", b"<?xml version='1.0'?><Error><Code>AccessDenied</Code></Error>"),
    "json": ("web_page", b'{"error":"Repository not found"}'),
    "words": ("web_page", b"Not Found"),
    "more_words": ("web_page", b"Entry not found"),
    "gzip": ("compressed", b"\x1f\x8b\x08\0" + bytes(40)),
    "bzip2": ("compressed", b"BZh91AY&SY" + bytes(50)),
    "xz": ("compressed", b"\xfd7zXZ\0" + bytes(60)),
    "hdf5": ("other_format", b"\x89HDF\r\n\x1a\n" + bytes(100)),
    "gguf": ("other_format", b"GGUF\3\0\0\0" + bytes(60)),
    "npy": ("other_format", b"\x93NUMPY\1\0v\0{'descr': '<f8', 'fortran_order': False, 'shape': (3,), }" + b" " * 60),
    "tflite": ("other_format", b"\x1c\0\0\0TFL3" + bytes(60)),
    "safetensors": ("safetensors", safetensors()),
    "noise": ("other_format", bytes(range(128, 256)) * 4),
    "zip_mark": ("truncated", b"PK\3\4" + bytes(100)),
    "pickle2": ("bare_pickle", pickle.dumps({"a": 1}, 2)),
    "pickle5": ("bare_pickle", pickle.dumps({"a": 1.5, "b": [1, 2, "c"]}, 5)),
    "tar": ("tar", tar()),
}


def add_others():
    for what, (cause, data) in OTHERS.items():
        for safe in (False, True) if V >= (1, 13) else (None,):
            def fail(data=data, safe=safe):
                write(data)
                torch.load("a.pt", **({} if safe is None else {"weights_only": safe}))
            case(cause, check=None, name="other_%s%s" % (what, "_safe" if safe else ""))(fail)


add_others()


@case("compressed", check="load")
def really_compressed():
    import gzip
    torch.save(some(), "b.pt")
    with open("b.pt", "rb") as file:
        write(gzip.compress(file.read()))
    os.remove("b.pt")
    load("a.pt")


@case("lfs_pointer", check=None)
def script_of_a_pointer():
    write(OTHERS["lfs"][1])
    torch.jit.load("a.pt")


@case("not_torchscript", check=None)
def script_of_weights():
    torch.save(some(), "a.pt")
    torch.jit.load("a.pt")


@case("wrong_reader", check=None)
def pickle_of_an_archive():
    torch.save(some(), "a.pt")
    with open("a.pt", "rb") as file:
        pickle.load(file)


@case("wrong_reader", check="load")
def pickle_of_a_stream():
    torch.save(some(), "a.pt", _use_new_zipfile_serialization=False)
    with open("a.pt", "rb") as file:
        for _ in range(5):
            pickle.load(file)


@case("mmap", check="load", since=(2, 1))
def mapped_stream():
    torch.save(some(), "a.pt", _use_new_zipfile_serialization=False)
    load("a.pt", mmap=True)


@case("mmap", check="load", since=(2, 1))
def mapped_object():
    torch.save(some(), "a.pt")
    with open("a.pt", "rb") as file:
        load(file, mmap=True)


@case("torch_too_old", check=None, until=(1, 13))
def no_weights_only_yet():
    torch.save(some(), "a.pt")
    torch.load("a.pt", weights_only=True)


@case("no_file", check=None, file=None)
def no_file():
    load("nothing.pt")


@case("directory", check=None, file="folder")
def a_folder():
    os.mkdir("folder")
    load("folder")


@case("python2_text", check=None)
def python2():
    parts = [0x1950A86A20F9469CFC6C, 1001, dict(protocol_version=1001, little_endian=True, type_sizes={})]
    write(b"".join(pickle.dumps(part, 2) for part in parts) + b"\x80\x02}q\x00U\x02\xe9\xe8q\x01K\x01s." + pickle.dumps([], 2))
    load("a.pt", encoding="ascii")


@case("no_folder", "no_file", check=None, file=None)
def no_folder():
    torch.save(some(), "nowhere/a.pt")


def full_disk():
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (20000, 20000))


@case("truncated", check=None, since=(2, 1))
def disk_full():
    full_disk()
    torch.save({"w": torch.zeros(100000)}, "a.pt")


@case("truncated", check=None)
def disk_full_stream():
    full_disk()
    torch.save({"w": torch.zeros(100000)}, "a.pt", _use_new_zipfile_serialization=False)


# ---- devices ----

def tagged(tag):
    torch.save({"w": torch.zeros(100)}, "a.pt")
    edit_pickle(b"X\3\0\0\0cpu", b"X" + struct.pack("<I", len(tag)) + tag)


def add_devices():
    for tag in (b"cuda:0", b"cuda:3", b"mps", b"mps:0", b"xla:0", b"hpu:0", b"npu:0", b"xpu:0", b"mtia:0", b"privateuseone:0", b"cpu:0"):
        def fail(tag=tag):
            tagged(tag)
            load("a.pt")
        case("device", check="load", name="device_" + tag.decode().replace(":", "_"))(fail)


add_devices()


@case("device", check=None)
def device_number():
    tagged(b"cuda:3")
    torch.cuda.is_available = lambda: True
    torch.cuda.device_count = lambda: 1
    load("a.pt")


@case("device", check=None, since=(1, 13))
def device_asked_for():
    torch.save(some(), "a.pt")
    load("a.pt", map_location="cuda")


# ---- weights_only ----

def add_objects():
    values = {"namespace": argparse.Namespace(a=1), "number": np.float64(1.5), "array": np.zeros(3), "empty_bytes": b"",
              "defaultdict": collections.defaultdict(list), "deque": collections.deque([1])}
    for name, value in values.items():
        def fail(value=value):
            torch.save({"w": torch.zeros(1), "o": value}, "a.pt")
            torch.load("a.pt", weights_only=True)
        case("weights_only", check="plain", since=(2, 6), name="safe_" + name)(fail)


add_objects()


@case("weights_only", check=None, since=(1, 13), until=(2, 6))
def old_safe():
    torch.save({"w": torch.zeros(1), "o": argparse.Namespace(a=1)}, "a.pt")
    torch.load("a.pt", weights_only=True)


@case("weights_only", check=None, since=(2, 6))
def safe_function():
    torch.save({"w": torch.zeros(1), "o": nn.functional.relu}, "a.pt")
    torch.load("a.pt")


@case("weights_only", "whole_module", check="plain", since=(2, 6))
def safe_module():
    torch.save(Net(), "a.pt")
    torch.load("a.pt")


@case("weights_only", check="plain", since=(2, 6))
def safe_protocol():
    torch.save({"w": torch.zeros(1), "o": [1, 2]}, "a.pt", pickle_protocol=4)
    torch.load("a.pt")


@case("weights_only", check=None, since=(2, 6))
def safe_huge_number():
    torch.save({"w": torch.zeros(1), "o": 1 << 5000}, "a.pt")
    torch.load("a.pt")


@case("torch_too_old", check=None, since=(1, 13), until=(2, 1))
def old_safe_float():
    torch.save({"w": torch.zeros(1), "lr": 1.5}, "a.pt")
    torch.load("a.pt", weights_only=True)


# ---- programs ----

@case("torchscript", check="by_script", since=(2, 6))
def safe_script():
    torch.jit.script(nn.Linear(2, 2)).save("a.pt")
    torch.load("a.pt")


@case("torchscript", check="by_script", since=(1, 13))
def script_for_state_dict():
    torch.jit.script(nn.Linear(2, 2)).save("a.pt")
    nn.Linear(2, 2).load_state_dict(load("a.pt"))


@case("torchscript", check="by_script", since=(1, 13))
def script_warning():
    torch.jit.script(nn.Linear(2, 2)).save("a.pt")
    warnings.simplefilter("error")
    load("a.pt")


@case("torch_package", check="load", since=(1, 13))
def package():
    from torch import package as packages
    with packages.PackageExporter("a.pt") as exporter:
        exporter.save_pickle("models", "m.pkl", {"a": torch.zeros(2)})
    load("a.pt")


# ---- classes and versions ----

@case("needs_code", check="plain")
def no_module():
    module = sys.modules["my_project"] = types.ModuleType("my_project")
    exec("class Config:\n  pass", module.__dict__)
    module.Config.__module__ = "my_project"
    config = module.Config()
    config.width = 3
    torch.save({"w": torch.zeros(1), "config": config}, "a.pt")
    del sys.modules["my_project"]
    load("a.pt")


@case("needs_code", check="plain")
def no_class():
    class Old:
        pass
    Old.__qualname__ = "Old"
    globals()["Old"] = Old
    torch.save({"w": torch.zeros(1), "config": Old()}, "a.pt")
    del globals()["Old"]
    load("a.pt")


@case("torch_too_old", check=None)
def function_of_the_future():
    torch.save(some(), "a.pt")
    edit_pickle(b"_rebuild_tensor_v2", b"_rebuild_tensor_v9")
    load("a.pt")


@case("torch_too_old", check=None, since=(1, 13))
def safe_function_of_the_future():
    torch.save(some(), "a.pt")
    edit_pickle(b"_rebuild_tensor_v2", b"_rebuild_tensor_v9")
    torch.load("a.pt", weights_only=True)


@case("torch_too_old", check=None)
def dtype_of_the_future():
    torch.save({"w": torch.zeros(1), "x": torch.float16}, "a.pt")
    edit_pickle(b"float16", b"float99")
    load("a.pt")


@case("torch_too_old", check="load", until=(2, 1))
def float8():
    """As torch 2.1 and later write it."""
    torch.save({"w": torch.zeros(4, dtype=torch.uint8)}, "a.pt")
    pickled = (b"\x80\x02}X\x01\0\0\0wctorch._utils\n_rebuild_tensor_v3\n((X\x07\0\0\0storagectorch.storage\nUntypedStorage\nX\x01\0\0\0%s"
               b"X\x03\0\0\0cpuK\x04tQK\0K\x04\x85K\x01\x85\x89ccollections\nOrderedDict\n)Rctorch\nfloat8_e5m2\ntRs.")
    key = first_record("data")[5:].encode()
    edit(lambda record, data: pickled.replace(b"X\x01\0\0\0%s", b"X" + struct.pack("<I", len(key)) + key)
         if record == "data.pkl" else data)
    load("a.pt")


@case("numpy_version", check="load", until=(2, 6))
def numpy2():
    torch.save({"w": np.zeros(3)}, "a.pt")
    edit_pickle(b"numpy.core.", b"numpy._core.")
    load("a.pt")


# ---- directories ----

def save_dcp():
    import torch.distributed.checkpoint as dcp
    dcp.save({"model": {"a.w": torch.zeros(4, 4), "b.w": torch.ones(3)}, "step": 5}, checkpoint_id="dcp")


def load_dcp(path, **more):
    import torch.distributed.checkpoint as dcp
    state = {"model": {"a.w": torch.zeros(4, 4), "b.w": torch.zeros(3)}}
    state["model"].update(more.get("model", {}))
    if "wanted" in more:
        state = more["wanted"]
    dcp.load(state, checkpoint_id=path)
    return state


@case("missing_keys", file="dcp", check=None, since=(2, 6))
def dcp_key():
    save_dcp()
    load_dcp("dcp", model={"c.w": torch.zeros(1)})


def fits_dcp(path):
    assert load_dcp(path)["model"]["b.w"].sum() == 3


@case("prefix", file="dcp", check="fits_dcp", since=(2, 6))
def dcp_prefix():
    import torch.distributed.checkpoint as dcp
    dcp.save({"model": {"module.a.w": torch.zeros(4, 4), "module.b.w": torch.ones(3)}}, checkpoint_id="dcp")
    load_dcp("dcp")


def fits_dcp_module(path):
    load_dcp(path, wanted={"model": {"module.a.w": torch.zeros(4, 4), "module.b.w": torch.zeros(3)}})


@case("prefix_wanted", file="dcp", check="fits_dcp_module", since=(2, 6))
def dcp_prefix_wanted():
    save_dcp()
    fits_dcp_module("dcp")


@case("size_mismatch", file="dcp", check=None, since=(2, 6))
def dcp_size():
    save_dcp()
    load_dcp("dcp", model={"a.w": torch.zeros(5, 4)})


@case("dcp_no_index", file="dcp", check=None, since=(2, 6))
def dcp_without_index():
    save_dcp()
    os.remove("dcp/.metadata")
    load_dcp("dcp")


@case("dcp_no_index", file="dcp", check="fits_dcp", since=(2, 6))
def dcp_interrupted():
    save_dcp()
    os.rename("dcp/.metadata", "dcp/.metadata.tmp")
    load_dcp("dcp")


@case("dcp_incomplete", file="dcp", check=None, since=(2, 6))
def dcp_without_data():
    save_dcp()
    os.remove("dcp/__0_0.distcp")
    load_dcp("dcp")


@case("dcp_incomplete", file="dcp", check=None, since=(2, 6))
def dcp_cut():
    save_dcp()
    cut(500, "dcp/__0_0.distcp")
    load_dcp("dcp")


@case("dcp_incomplete", "damaged", file="dcp", check=None, since=(2, 6))
def dcp_index_cut():
    save_dcp()
    cut(100, "dcp/.metadata")
    load_dcp("dcp")


@case("sharded", file="dcp", check="load", since=(2, 6))
def dcp_for_load():
    save_dcp()
    load("dcp")


@case("part_of_directory", file="dcp/__0_0.distcp", check=None, since=(2, 6))
def dcp_item_for_load():
    save_dcp()
    load("dcp/__0_0.distcp")


@case("part_of_directory", file="dcp/.metadata", check=None, since=(2, 6))
def dcp_index_for_load():
    save_dcp()
    load("dcp/.metadata")


@case("not_sharded", check=None, since=(2, 6))
def file_for_dcp():
    torch.save(some(), "a.pt")
    load_dcp("a.pt")


@case("exists", file="dcp", check=None, since=(2, 6))
def dcp_exists():
    import torch.distributed.checkpoint as dcp
    save_dcp()
    dcp.save({"a": torch.zeros(1)}, storage_writer=dcp.FileSystemWriter("dcp", overwrite=False))


# ---- running ----

def fail(name, folder):
    """In a child: what was printed, as a message alone and with its traceback."""
    os.chdir(folder)
    text = trace = ""
    try:
        with warnings.catch_warnings(record=True):
            warnings.simplefilter("always")
            CASES[name][0]()
    except BaseException as error:
        text = "".join(traceback.format_exception_only(type(error), error))
        trace = traceback.format_exc()
    resource.setrlimit(resource.RLIMIT_FSIZE, resource.getrlimit(resource.RLIMIT_FSIZE))
    return text, trace


def in_child(function, *arguments):
    """A pipe, not a file: the child may have taken its own right to write files."""
    out, into = os.pipe()
    child = os.fork()
    if not child:
        os.close(out)
        try:
            os.write(into, json.dumps(function(*arguments)).encode())
        finally:
            os._exit(0)
    os.close(into)
    with os.fdopen(out, "rb") as file:
        data = file.read()
    os.waitpid(child, 0)
    return json.loads(data.decode()) if data else None


def make():
    made = {}
    for name, (_, causes, file, check) in CASES.items():
        folder = os.path.abspath(os.path.join("out", name))
        os.makedirs(folder)
        done = in_child(fail, name, folder)
        made[name] = {"causes": causes, "file": file, "mends": check is not None, "messages": done}
    with open("made.json", "w") as file:
        json.dump(made, file)


def try_mend(name, kind, text):
    check = globals().get(CASES[name][3] or "load")
    os.chdir(os.path.join("out", name))
    try:
        if kind == "command":
            check(text)
        else:
            eval(text, {"torch": torch, "model": Net()})
    except BaseException as error:
        return "%s: %s" % (type(error).__name__, str(error)[:500])
    return ""


def check():
    with open("todo.json") as file:
        todo = json.load(file)
    with open("checked.json", "w") as file:
        json.dump([in_child(try_mend, *one) for one in todo], file)


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    {"make": make, "check": check}[sys.argv[1]]()
    sys.stdout.flush()
    os._exit(0)

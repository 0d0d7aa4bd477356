# SPDX-License-Identifier: Apache-2.0
"""Modules that real torch saved whole, and its TorchScript archives, each with the state dict that torch makes of it.

script_files.py OUT writes OUT/in/NAME.pt, and what is to come out of it: OUT/want/NAME.pt, an OrderedDict of
exactly the state dict's tensors. OUT/cases.json says how ckpt has to be called, what 'ckpt ls' has to list, and which.
"""

import collections
import functools
import json
import os
import sys
import warnings
import zipfile

import torch
from torch import nn

from torch_files import clean_exit, load
import script_modules as modules

warnings.simplefilter("ignore")
OUT = sys.argv[1]
CASES = []


def plain(state):
    """Nothing but the entries: state_dict() has `_metadata` besides."""
    return collections.OrderedDict(state.items())


def path(folder, name):
    folder = os.path.join(OUT, folder)
    os.makedirs(folder, exist_ok=True)
    return os.path.join(folder, name + ".pt")


def facts(tensors):
    return {name: [str(t.dtype)[6:], list(t.shape), list(t.stride()) if t.layout == torch.strided else None,
                   t.requires_grad] for name, t in tensors}


def add(name, state, arguments=(), listed=None, prefix="", same_bytes=True, **options):
    torch.save(plain(state), path("want", name), **options)
    CASES.append({"name": name, "arguments": list(arguments), "listed": listed, "prefix": prefix,
                  "same_bytes": same_bytes})
    print("made", name)


def attempt(make):
    """What this torch cannot make is left out, and said so."""
    try:
        make()
    except Exception as error:  # of whichever kind
        print("left out: %s: %s: %s" % (make.__name__, type(error).__name__, str(error).splitlines()[:1]))


def members(net):
    """All parameters and buffers, saved or not. A module that hangs in several places is listed where it is met first."""
    for prefix, module in named_modules(net):
        for kind in (module._parameters, module._buffers):
            for name, tensor in kind.items():
                if tensor is not None:
                    yield prefix + name, tensor


def named_modules(net):
    for name, module in net.named_modules():
        yield name + "." if name else "", module


def whole(name, net, options, arguments):
    torch.save(net, path("in", name), **options)
    add(name, net.state_dict(), ["--state-dict", *arguments], facts(members(net)), **options)


def make_whole():
    for name, make in sorted(modules.WHOLE.items()):
        def one():
            torch.manual_seed(1)
            net = make()
            whole("whole_" + name, net, {}, [])
            if name != "float8":  # which no torch can load from a legacy stream
                whole("legacy_" + name, net, {"_use_new_zipfile_serialization": False}, ["--to", "torch-legacy"])
        one.__name__ = name
        attempt(one)


def make_inside():
    """In a dict beside other things, and two of them."""
    net = modules.Net()
    trainer = {"epoch": 3, "model": net, "optimizer": torch.optim.SGD(net.parameters(), lr=.1, momentum=.9).state_dict(),
               "again": net}
    for name, options in (("inside", ["--state-dict"]), ("inside_at", ["--at", "model"]),
                          ("inside_part", ["--at", "model.seq"])):
        torch.save(trainer, path("in", name))
        part = net.seq if name == "inside_part" else net
        add(name, part.state_dict(), options, facts(members(part)), "model.seq." if part is net.seq else "model.")
    torch.save([nn.Linear(2, 2), net], path("in", "inside_list"))
    add("inside_list", net.state_dict(), ["--state-dict", "--at", "1"], facts(members(net)), "1.")


# ---- TorchScript ----

# Up to 1.8 the keys of storages are addresses, which no archive tells.
NUMBERED_KEYS = tuple(int(part) for part in torch.__version__.split(".")[:2]) >= (1, 9)


def script(name, archive):
    loaded = torch.jit.load(archive)
    state = loaded.state_dict()
    add(name, state, [], facts((key, functools.reduce(getattr, key.split("."), loaded)) for key in state),
        same_bytes=NUMBERED_KEYS)


def make_scripts():
    for name, make in sorted(modules.SCRIPTED.items()):
        def one():
            torch.manual_seed(2)
            program = make()
            extra = {"meta.json": '{"a": 1}', "nested/notes.txt": "x"} if name == "net" else {}
            torch.jit.save(program, path("in", "script_" + name), _extra_files=extra)
            script("script_" + name, path("in", "script_" + name))
        one.__name__ = name
        attempt(one)

        def lite():
            make()._save_for_lite_interpreter(path("in", "lite_" + name))
            script("lite_" + name, path("in", "lite_" + name))
        lite.__name__ = "lite " + name
        attempt(lite)


def cpp_pickles():
    """torch._C._pickle_save writes torch.save's archive in the C++ dialect: load and save it to see what it holds."""
    for name, value in sorted(modules.IVALUES.items()):
        def one():
            written = bytes(torch._C._pickle_save(value))
            with open(path("in", "cpp_" + name), "wb") as out:
                out.write(written)
            torch.save(load(path("in", "cpp_" + name)), path("want", "cpp_" + name))
            CASES.append({"name": "cpp_" + name, "arguments": [], "listed": None, "prefix": "",
                          "same_bytes": NUMBERED_KEYS})
            print("made cpp_" + name)
        one.__name__ = "cpp_" + name
        attempt(one)


def count_constants():
    for case in CASES:
        with open(path("in", case["name"]), "rb") as file:
            if file.read(2) != b"PK":
                continue
        names = zipfile.ZipFile(path("in", case["name"])).namelist()
        case["constants"] = sum("/constants/" in name for name in names)


with clean_exit():
    make_whole()
    make_inside()
    make_scripts()
    cpp_pickles()
    count_constants()
    with open(os.path.join(OUT, "cases.json"), "w") as out:
        json.dump(CASES, out)
    print("torch version", torch.__version__)

# SPDX-License-Identifier: Apache-2.0
"""Files with wrappers in their names, by whichever torch this is. wrappers_files.py make | check

make: out/NAME.pt of each case, and made.json: {NAME: {"entry": where the weights are, or null, "errors": what torch prints, "names": what
the optimizer's names have to be, or null}}. check: todo.json is [[FILE, NAME, ENTRY, NAMES]]; what is wrong with each goes into checked.json.
"""
import collections
import json
import os
import sys

import torch
from torch import nn

V = tuple(int(x) for x in torch.__version__.split("+")[0].split(".")[:2])
MODULE, COMPILED, LIGHTNING = "module.", "_orig_mod.", "_forward_module."
FSDP, CHECKPOINT = "_fsdp_wrapped_module.", "_checkpoint_wrapped_module."


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(2, 2, 3)
        self.norm = nn.BatchNorm2d(2)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = nn.Conv2d(1, 2, 3)
        self.layers = nn.ModuleList([Block(), Block()])
        self.head = nn.Linear(8, 4)


class OwnNet(nn.Module):
    """It has an attribute of the name that DistributedDataParallel uses."""

    def __init__(self):
        super().__init__()
        self.backbone = nn.Module()
        self.backbone.module = nn.Linear(3, 3)
        self.head = nn.Linear(3, 2)


def model(kind):
    torch.manual_seed(7)
    return {"net": Net, "own": OwnNet}[kind]()


def load(path):
    options = {"weights_only": False} if V >= (1, 13) else {}
    return torch.load(path, **options)


def renamed(state, new_name):
    """As hooks of wrappers that this torch has not rename keys, in this order; without _metadata."""
    return collections.OrderedDict((new_name(i, key), value) for i, (key, value) in enumerate(state.items()))


def put(prefix):
    return renamed(model("net").state_dict(), lambda i, key: prefix + key)


def compiled(module):
    """torch.compile's own, where there is one."""
    return torch.compile(module) if hasattr(torch, "compile") else None


def wrapped_by_torch(net):
    """DataParallel around a module of which some parts are compiled."""
    net.layers[0] = compiled(net.layers[0])
    return nn.DataParallel(compiled(net))


def rounds(i, key):
    return (MODULE + COMPILED, COMPILED + MODULE, MODULE, "")[i % 4] + key


def inside(key):
    return key.replace("layers.0.", "layers.0." + COMPILED).replace("conv.", FSDP + CHECKPOINT + "conv.")


def optimizer(names):
    return {"state": {name: {"exp_avg": torch.zeros(2)} for name in names}, "param_groups": [{"params": list(names), "lr": 0.1}]}


def cases():
    """NAME: (what is saved, where the weights are in it)"""
    net = lambda: model("net").state_dict()
    made = {
        "ddp": (nn.DataParallel(model("net")).state_dict(), None),
        "mixed": (renamed(net(), rounds), None),
        "submodules": (renamed(net(), lambda i, key: inside(key)), None),
        "mixed_submodules": (renamed(net(), lambda i, key: rounds(i, inside(key))), None),
        "both_ends": (renamed(net(), lambda i, key: COMPILED + key.replace("layers.1.", "layers.1." + COMPILED)), None),
        "twice": (put(MODULE + MODULE), None),
        "all": (put(LIGHTNING + MODULE + COMPILED + FSDP + CHECKPOINT), None),
        "trainer": ({"model": put(MODULE), "epoch": 3}, "model"),
        "mixed_trainer": ({"model": renamed(net(), lambda i, key: rounds(i, inside(key))), "epoch": 3}, "model"),
        "own": (renamed(model("own").state_dict(), lambda i, key: rounds(i, key)), None),
        "own_trainer": ({"model": renamed(model("own").state_dict(), lambda i, key: COMPILED + MODULE + key)}, "model"),
        "fsdp_optimizer": ({"model": renamed(net(), lambda i, key: FSDP + inside(key)),
                            "optimizer": optimizer([FSDP + inside(key) for key in net()])}, "model"),
    }
    if compiled(nn.Linear(1, 1)) is not None:
        made["torch_compiled"] = (compiled(model("net")).state_dict(), None)
        made["torch_both"] = (wrapped_by_torch(model("net")).state_dict(), None)
        inner = model("net")
        inner.layers[1].conv = compiled(inner.layers[1].conv)
        made["torch_submodule"] = (inner.state_dict(), None)
    for name, prefix, more in (("lightning", "model.", {}), ("lightning_compiled", "model." + COMPILED, {}),
                               ("lightning_forward", LIGHTNING + "model.", {}), ("lightning_mixed", None, {}),
                               ("lightning_loss", "model.", {"criterion.weight": torch.ones(4)}), ("lightning_net", "net.", {}),
                               ("lightning_loss_forward", LIGHTNING + "model.", {LIGHTNING + "criterion.weight": torch.ones(4)})):
        state = put(prefix) if prefix else renamed(net(), lambda i, key: rounds(i, "model." + inside(key)))
        state.update(more)
        made[name] = ({"epoch": 1, "global_step": 10, "pytorch-lightning_version": "2.2.0", "state_dict": state, "loops": {},
                       "callbacks": {}, "optimizer_states": [], "lr_schedulers": []}, "state_dict")
    return made


def kind_of(name):
    return "own" if name.startswith("own") else "net"


def error_of(name, state):
    try:
        model(kind_of(name)).load_state_dict(state)
    except Exception as e:      # what a user sees
        return "%s: %s" % (type(e).__name__, e)
    return None


def make():
    os.makedirs("out", exist_ok=True)
    made = {}
    for name, (obj, entry) in cases().items():
        torch.save(obj, "out/%s.pt" % name)
        parts = [obj] + ([obj[entry]] if entry else [])
        names = list(model("net").state_dict()) if name == "fsdp_optimizer" else None
        made[name] = {"entry": entry, "names": names, "errors": [error_of(name, part) for part in parts]}
        assert all(made[name]["errors"]), name
    with open("made.json", "w") as file:
        json.dump(made, file)


def wrong_with(path, name, entry, names):
    """A plain model takes it, and it is what a plain model would have saved."""
    obj = load(path)
    state, plain = obj[entry] if entry else obj, model(kind_of(name))
    want = model(kind_of(name)).state_dict()
    for value in plain.parameters():
        nn.init.zeros_(value)
    try:
        plain.load_state_dict(state)
    except Exception as e:
        return "does not load: %s" % e
    if list(state) != list(want):
        return "other names: %s" % list(state)
    if not all(torch.equal(plain.state_dict()[key], want[key]) for key in want):
        return "other values"
    metadata = getattr(state, "_metadata", None)
    if metadata is not None and list(metadata.items()) != list(want._metadata.items()):
        return "other modules: %s" % list(metadata.items())
    if names and (list(obj["optimizer"]["state"]) != names or obj["optimizer"]["param_groups"][0]["params"] != names):
        return "other names of the optimizer: %s" % obj["optimizer"]
    return None


def check():
    with open("todo.json") as file:
        todo = json.load(file)
    with open("checked.json", "w") as file:
        json.dump([wrong_with(*one) for one in todo], file)


if __name__ == "__main__":
    {"make": make, "check": check}[sys.argv[1]]()

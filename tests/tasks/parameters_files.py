# SPDX-License-Identifier: Apache-2.0
"""Models with buffers, optimizers and copies, by whichever torch this is. parameters_files.py make | check

make: out/NAME.pt of each case, and made.json: {NAME: {"told_by": [...], "parameters": elements, "buffers", "optimizer", "copies", "others",
"blocks": {FIRST PARTS: elements}, "large": [ids that 'ckpt why' has to report]}}; what is absent does not matter. check: todo.json is
[[FILE, NAME, ENTRY]], of which the weights have to be those of out/NAME.pt; what is wrong with each goes into checked.json.
"""
import collections
import copy
import json
import os
import sys

import torch
from torch import nn

V = tuple(int(x) for x in torch.__version__.split("+")[0].split(".")[:2])


class Net(nn.Module):
    def __init__(self, extra=False, tied=False):
        super().__init__()
        self.stem = nn.Conv2d(1, 4, 3)
        self.norm = nn.BatchNorm2d(4)
        self.blocks = nn.ModuleList([nn.Linear(4, 4) for _ in range(3)])
        self.last = nn.BatchNorm1d(4)
        self.head = nn.Linear(4, 4, bias=False)
        if tied:
            self.head.weight = self.blocks[0].weight
        if extra:  # buffers of no known name: of a shape that parameters have, too; a mask called bias; an index
            self.register_buffer("scale", torch.ones(4))
            self.register_buffer("bias", torch.ones(1, 1, 5, 5))
            self.register_buffer("position_ids", torch.arange(7))

    def forward(self, x):
        x = self.norm(self.stem(x)).mean((2, 3))
        for block in self.blocks:
            x = block(x)
        return self.head(self.last(x))


def net(**options):
    torch.manual_seed(7)
    return Net(**options)


def train(model, optimizer):
    for _ in range(2):
        model(torch.randn(3, 1, 5, 5)).pow(2).sum().backward()
        optimizer.step()
    return optimizer


def elements(tensors):
    return sum(t.numel() for t in tensors)


def tensors_in(value):
    if torch.is_tensor(value):
        return [value]
    items = list(value.values()) if isinstance(value, dict) else value if isinstance(value, (list, tuple)) else []
    return [t for item in items for t in tensors_in(item)]


def counts(model, optimizer=None, copies=None):
    return {"parameters": elements(model.parameters()), "buffers": elements(model.buffers()),
            "optimizer": elements(tensors_in(optimizer.state_dict()["state"])) if optimizer else 0,
            "copies": elements(tensors_in(copies or {})), "others": 0}


def blocks(model):
    found = collections.OrderedDict()
    for name, tensor in model.state_dict().items():
        found[name.split(".")[0]] = found.get(name.split(".")[0], 0) + tensor.numel()
    return found


def decayed(model):
    """Two groups, as many trainers make them: the order of the optimizer is not that of the model."""
    return [{"params": [p for p in model.parameters() if p.dim() > 1]},
            {"params": [p for p in model.parameters() if p.dim() <= 1], "weight_decay": 0.0}]


class Maker:
    def __init__(self):
        self.made = {}

    def add(self, name, value, told_by, want, old=False, **more):
        options = {} if V < (1, 6) else {"_use_new_zipfile_serialization": not old}
        torch.save(value, "out/%s.pt" % name, **options)
        self.made[name] = dict(want, told_by=told_by, **more)


def make_plain(maker):
    model = net()
    maker.add("state", model.state_dict(), ["names"], counts(model), blocks=blocks(model))
    maker.add("stream", model.state_dict(), ["names"], counts(model), old=True, blocks=blocks(model))
    maker.add("entry", {"state_dict": model.state_dict(), "epoch": 3}, ["names"], counts(model))
    maker.add("vars", model.state_dict(keep_vars=True), ["parameters"], counts(model))
    maker.add("whole", model, ["parameters"], counts(model))
    model = net(tied=True)
    maker.add("tied", model.state_dict(), ["names"], counts(model))
    maker.add("tied_whole", {"net": model}, ["parameters"], counts(model))
    model = net(extra=True)
    maker.add("whole_extra", model, ["parameters"], counts(model))
    maker.add("rng", {"model": net().state_dict(), "rng_state": torch.get_rng_state(), "best": torch.tensor(0.5)}, ["names"],
              dict(counts(net()), others=torch.get_rng_state().numel() + 1))


OPTIMIZERS = {
    "adam": lambda p: torch.optim.Adam(p, amsgrad=True),
    "adamw": lambda p: torch.optim.AdamW(p),
    "sgd": lambda p: torch.optim.SGD(p, lr=0.01, momentum=0.9),
    "adagrad": lambda p: torch.optim.Adagrad(p),
    "rmsprop": lambda p: torch.optim.RMSprop(p, momentum=0.9),
    "adadelta": lambda p: torch.optim.Adadelta(p),
    "adamax": lambda p: torch.optim.Adamax(p),
    "asgd": lambda p: torch.optim.ASGD(p),
    "rprop": lambda p: torch.optim.Rprop(p),
}


def make_trainers(maker):
    for name, new in sorted(OPTIMIZERS.items()):
        for kind, options in (("", {}), ("_extra", {"extra": True}), ("_tied", {"tied": True})):
            model = net(**options)
            optimizer = train(model, new(decayed(model)))
            maker.add(name + kind, {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "epoch": 3}, ["optimizer"],
                      counts(model, optimizer), large=["large_optimizer"])
    model = net()
    optimizer = train(model, torch.optim.SGD(model.parameters(), lr=0.01))  # it has no state
    maker.add("no_state", {"model": model.state_dict(), "optimizer": optimizer.state_dict()}, ["names"], counts(model, optimizer))
    model = net()
    for parameter in model.stem.parameters():
        parameter.requires_grad_(False)  # trained in part: it does not say what the rest is
    optimizer = train(model, torch.optim.Adam([p for p in model.parameters() if p.requires_grad]))
    maker.add("frozen", {"model": model.state_dict(), "optimizer": optimizer.state_dict()}, ["names"], counts(model, optimizer))
    model = net(extra=True)
    optimizer = train(model, torch.optim.Adam(model.parameters()))
    others = {"adam": optimizer.state_dict(), "moments": torch.zeros(500), "by_name": {"moments": [torch.zeros(7)]}}
    with_others = dict(counts(model, optimizer), optimizer=counts(model, optimizer)["optimizer"] + 507)
    maker.add("beside_extra", {"model": model.state_dict(), "optimizer": others}, ["optimizer"], with_others, large=["large_optimizer"])
    maker.add("object", {"model": model.state_dict(), "optimizer": optimizer}, ["parameters"], counts(model, optimizer))
    one, two = net(extra=True), net()
    first, second = train(one, torch.optim.Adam(one.parameters())), train(two, torch.optim.AdamW(two.parameters()))
    both = {key: counts(one, first)[key] + counts(two, second)[key] for key in counts(one)}
    maker.add("gan", {"generator": one.state_dict(), "critic": two.state_dict(), "optimizers": [first.state_dict(), second.state_dict()]},
              ["optimizer"], both)


def make_copies(maker):
    model = net()
    optimizer = train(model, torch.optim.Adam(model.parameters()))
    ema = collections.OrderedDict((k, v.clone()) for k, v in model.state_dict().items())
    maker.add("ema", {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "model_ema": ema}, ["optimizer"],
              counts(model, optimizer, ema), large=["large_optimizer", "large_copies"])
    shadow = {"decay": 0.99, "shadow_params": [p.detach().clone() for p in model.parameters()]}
    maker.add("shadow", {"model": model.state_dict(), "ema": shadow}, ["names"], counts(model, copies=shadow), large=["large_copies"])
    inside = collections.OrderedDict(("model." + k, v) for k, v in model.state_dict().items())
    inside.update(("model_ema." + k.replace(".", ""), v.detach().clone()) for k, v in model.named_parameters())
    maker.add("inside", {"state_dict": inside}, ["names"],
              counts(model, copies={k: v for k, v in inside.items() if k.startswith("model_ema")}), large=["large_copies"])
    if V >= (1, 6):
        from torch.optim.swa_utils import AveragedModel
        swa = AveragedModel(model).state_dict()
        maker.add("swa", {"model": model.state_dict(), "swa": swa}, ["names"], counts(model, copies=swa), large=["large_copies"])
    maker.add("twins", {"model": model.state_dict(), "best": copy.deepcopy(model).state_dict()}, ["names"],
              {"copies": 0}, large=["large_twins"])


def make_views(maker):
    big = torch.randn(200, 100)
    maker.add("views", {"a": big[:2], "b": big[100:103], "c": torch.randn(100)}, ["names"], {"parameters": 600}, large=["large_views"])
    maker.add("columns", {"w": big[:, :5]}, ["names"], {"parameters": 1000}, large=["large_views"])
    maker.add("fused", {"qkv.weight": big, "q.weight": big[:100], "k.weight": big[100:]}, ["names"], {}, large=[])
    model = net()
    wide = collections.OrderedDict((k, torch.cat([v.reshape(-1), torch.zeros(4000, dtype=v.dtype)])[:v.numel()].reshape(v.shape))
                                   for k, v in model.state_dict().items())
    maker.add("wide", {"model": wide, "step": 4}, ["names"], counts(model), large=["large_views"])


def make_script(maker):
    if V < (1, 13):
        return
    model = net(extra=True)
    torch.jit.script(model).save("out/script.pt")
    maker.made["script"] = dict(counts(model), told_by=["program"])


def make():
    os.makedirs("out")
    maker = Maker()
    for add in (make_plain, make_trainers, make_copies, make_views, make_script):
        add(maker)
    with open("made.json", "w") as file:
        json.dump(maker.made, file)


def load(path):
    return torch.load(path, **({"weights_only": False} if V >= (1, 13) else {}))


def weights_of(path):
    value = load(path)
    for key in ("model", "state_dict"):
        if key in value:
            value = value[key]
    return {k: v for k, v in value.items() if torch.is_tensor(v) and not k.startswith("model_ema")}


def check_one(path, name):
    have, want = weights_of(path), weights_of("out/%s.pt" % name)
    if list(have) != list(want):
        return "names %s, wanted %s" % (list(have), list(want))
    for key, value in want.items():
        if have[key].dtype != value.dtype or not torch.equal(have[key], value):
            return "%s is another" % key
    return ""


def check():
    with open("todo.json") as file:
        todo = json.load(file)
    with open("checked.json", "w") as file:
        json.dump([check_one(*one) for one in todo], file)


{"make": make, "check": check}[sys.argv[1]]()
os._exit(0)  # torch 1.7 aborts where it ends the threads that went backward

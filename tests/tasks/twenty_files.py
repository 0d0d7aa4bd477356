# SPDX-License-Identifier: Apache-2.0
"""What an engineer has after a week of training, by whichever torch this is. twenty_files.py make | check

make: the inputs of twenty.py below in/, and made.json: facts that only torch can tell, by task. check: todo.json is [[TASK, ...]], the
tasks whose output lies below out/; what is wrong with each goes into checked.json.
"""
import argparse
import collections
import json
import os
import struct
import sys

import numpy
import torch
from torch import nn

V = tuple(int(x) for x in torch.__version__.split("+")[0].split(".")[:2])
HAS_DCP = V >= (2, 3)
STEPS = (100, 200, 300)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = nn.Conv2d(1, 4, 3)
        self.norm = nn.BatchNorm2d(4)
        self.layers = nn.ModuleList([nn.Linear(8, 8) for _ in range(3)])
        self.head = nn.Linear(8, 4)

    def forward(self, x):
        x = self.norm(self.stem(x)).flatten(1)[:, :8]
        for layer in self.layers:
            x = layer(x)
        return self.head(x)


def net(seed=7):
    torch.manual_seed(seed)
    return Net()


def trained(steps=1, seed=7):
    """A model and its optimizer after some steps."""
    model = net(seed)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    for _ in range(steps):
        optimizer.zero_grad()
        model(torch.randn(2, 1, 5, 5)).pow(2).sum().backward()
        optimizer.step()
    return model, optimizer


def load(path, safe=False):
    if V >= (1, 13):
        return torch.load(path, map_location="cpu", weights_only=safe)
    return torch.load(path, map_location="cpu")


def renamed(state, new_name):
    return collections.OrderedDict((new_name(i, key), value) for i, (key, value) in enumerate(state.items()))


def on_device(path, value, device):
    """Saved as on that device, which this machine does not have."""
    torch.serialization.register_package(1, lambda storage: device, lambda storage, location: None)
    torch.save(value, path)
    torch.serialization._package_registry = [one for one in torch.serialization._package_registry if one[0] != 1]


# ---- inputs ----


def make_trainer(name, steps, wrap=lambda state: state):
    model, optimizer = trained(steps)
    torch.save({"model": wrap(model.state_dict()), "optimizer": optimizer.state_dict(), "epoch": steps}, name)


def make_dcp():
    import torch.distributed.checkpoint as dcp
    model, optimizer = trained()
    dcp.save({"model": model.state_dict(), "optimizer": {"exp_avg": torch.ones(8, 8)}, "step": 5}, checkpoint_id="in/fsdp")


def make_hub():
    """Shards as Hugging Face's libraries write them, by hand: no such library is at hand."""
    state = net().state_dict()
    keys, weight_map = list(state), {}
    os.makedirs("in/hub", exist_ok=True)
    for number, part in enumerate((keys[:5], keys[5:]), 1):
        name = "model-%05d-of-00002.safetensors" % number
        header, data = {}, b""
        for key in part:
            tensor = state[key].contiguous()
            raw = tensor.numpy().tobytes()
            header[key] = {"dtype": {torch.float32: "F32", torch.int64: "I64"}[tensor.dtype], "shape": list(tensor.shape),
                           "data_offsets": [len(data), len(data) + len(raw)]}
            data += raw
            weight_map[key] = name
        text = json.dumps(header).encode()
        text += b" " * (-len(text) % 8)
        with open("in/hub/" + name, "wb") as file:
            file.write(struct.pack("<Q", len(text)) + text + data)
    with open("in/hub/model.safetensors.index.json", "w") as file:
        json.dump({"metadata": {"total_size": 0}, "weight_map": weight_map}, file)


def make():
    made = {}
    os.makedirs("in/many", exist_ok=True)
    os.makedirs("in/strangers", exist_ok=True)
    os.makedirs("out", exist_ok=True)
    make_trainer("in/ddp.pt", 1, lambda state: renamed(state, lambda i, key: "module." + key))
    torch.save(renamed(net().state_dict(), lambda i, key: ("module._orig_mod.", "_orig_mod.module.", "module.", "")[i % 4] + key), "in/mixed.pt")
    torch.save({"epoch": 3, "pytorch-lightning_version": "2.5.0", "callbacks": {}, "optimizer_states": [trained()[1].state_dict()],
                "state_dict": renamed(net().state_dict(), lambda i, key: "model." + key)}, "in/lightning.ckpt")
    on_device("in/gpu.pt", net().state_dict(), "cuda:3")
    if HAS_DCP:
        make_dcp()
    make_hub()
    for steps in STEPS:
        make_trainer("in/step%d.pt" % steps, steps // 100)
    model = trained(1)[0]
    made["parameters"] = sum(p.numel() for p in model.parameters())
    made["buffers"] = sum(b.numel() for b in model.buffers())
    made["blocks"] = {name: sum(p.numel() for p in child.parameters()) for name, child in model.named_children()}
    weights = dict(model.named_parameters())
    made["norms"] = {name: float(p.detach().double().norm()) for name, p in weights.items()}
    bad = model.state_dict()
    bad["head.weight"] = bad["head.weight"].clone()
    bad["head.weight"][1, 2] = float("nan")
    torch.save(bad, "in/nan.pt")
    other = trained(2)[0].state_dict()
    made["changes"] = {key: float((other[key].double() - value.double()).pow(2).mean().sqrt())
                       for key, value in model.state_dict().items() if value.is_floating_point()}
    with open("in/step100.pt", "rb") as whole, open("in/cut.pt", "wb") as cut:
        data = whole.read()
        cut.write(data[:len(data) * 2 // 3])
    for number in range(3):
        torch.save(net(number).state_dict(), "in/strangers/%d.pt" % number)
    with open("in/strangers/evil.pt", "wb") as file:
        file.write(b"\x80\x02cposix\nsystem\nX\x04\x00\x00\x00true\x85R.")
    torch.save({"model": net().state_dict(), "args": argparse.Namespace(lr=0.1, name="x"), "best": numpy.float64(0.5)}, "in/args.pt")
    for number in range(30):
        model, optimizer = trained(1, number)
        torch.save({"model": model.state_dict(), "optimizer": {"adam": optimizer.state_dict(), "moments": torch.ones(1 << 16)}},
                   "in/many/%02d.pt" % number)
    big = torch.zeros(64, 1024)
    torch.save({"model": net().state_dict(), "row": big[0]}, "in/twice.pt")
    with open("in/pairs.txt", "w") as file:
        file.writelines("%s\tnet.%s\n" % (key, key.replace("layers", "blocks")) for key in net().state_dict())
    torch.save(net().state_dict(), "in/plain.pt")
    torch.save(renamed(net().state_dict(), lambda i, key: "base_model.model.%s.lora_A.weight" % key), "in/lora.pt")
    with open("made.json", "w") as file:
        json.dump(made, file)


# ---- results ----


def fits(state, seed=7, steps=0):
    """It is what a plain model loads, and has its values."""
    model = trained(steps, seed)[0] if steps else net(seed)
    want = model.state_dict()
    model.load_state_dict(state)
    return all(torch.equal(want[key], value) for key, value in model.state_dict().items())


def read_safetensors(folder):
    """{name: (dtype, shape, bytes)} of all files in a folder."""
    found = {}
    for name in sorted(os.listdir(folder)):
        if name.endswith(".safetensors"):
            with open(os.path.join(folder, name), "rb") as file:
                data = file.read()
            length = struct.unpack("<Q", data[:8])[0]
            for key, one in json.loads(data[8:8 + length]).items():
                if key != "__metadata__":
                    begin, end = one["data_offsets"]
                    found[key] = (one["dtype"], one["shape"], data[8 + length + begin:8 + length + end])
    return found


def hub_is_right():
    found, want = read_safetensors("out/hub"), trained()[0].state_dict()
    if sorted(found) != sorted(want):
        return False
    for key, value in want.items():
        dtype, shape, data = found[key]
        if value.is_floating_point():
            value = value.to(torch.bfloat16)
            same = dtype == "BF16" and data == value.contiguous().view(torch.int16).numpy().tobytes()
        else:
            same = data == value.numpy().tobytes()
        if not same or shape != list(value.shape):
            return False
    return True


def mean_is_right():
    states = [load("in/step%d.pt" % steps)["model"] for steps in STEPS]
    for key, value in load("out/average.pt")["model"].items():
        if value.is_floating_point():
            mean = torch.stack([state[key].double() for state in states]).mean(0).to(value.dtype)
            if not torch.equal(mean, value):
                return False
    return True


def dcp_is_right():
    import torch.distributed.checkpoint as dcp
    state = {"model": net(1).state_dict(), "step": 0}
    dcp.load(state, checkpoint_id="out/resharded")
    want = trained()[0].state_dict()
    return state["step"] == 5 and all(torch.equal(want[key], value) for key, value in state["model"].items())


def without_optimizer():
    for number in range(30):
        found = load("in/many/%02d.pt" % number)
        if list(found) != ["model"] or not fits(found["model"], number, 1):
            return False
    return True


def saved_is_right():
    """What was saved of the cut file are tensors of the whole one."""
    whole, found = load("in/step100.pt"), load("out/saved.pt")
    return found["epoch"] == whole["epoch"] and found["model"] and all(torch.equal(whole["model"][key], value)
                                                                       for key, value in found["model"].items())


def set_is_right():
    before, after = load("in/step100.pt"), load("out/set.pt")
    return after["epoch"] == 0 and type(after["epoch"]) is int and list(after) == list(before) and fits(after["model"], steps=1)


def safe_is_right():
    found = load("out/sane.pt", safe=V >= (2, 0))  # 1.13 refuses every float
    args = found["args"]
    return fits(found["model"]) and (args if isinstance(args, dict) else vars(args)) == {"lr": 0.1, "name": "x"} and found["best"] == 0.5


def at_devices(path):
    """Which devices torch is asked for."""
    seen = set()

    def note(storage, location):
        seen.add(location)
        return storage

    if V >= (1, 13):
        torch.load(path, map_location=note, weights_only=False)
    else:
        torch.load(path, map_location=note)
    return seen


CHECKS = {
    "ddp": lambda: fits(load("out/ddp.pt"), steps=1),
    "mixed": lambda: fits(load("out/mixed.pt")),
    "lightning": lambda: fits(load("out/lightning.pt")),
    "cpu": lambda: fits(load("out/cpu.pt")) and at_devices("out/cpu.pt") == {"cpu"},
    "cuda1": lambda: at_devices("out/cuda1.pt") == {"cuda:1"},
    "merged": lambda: fits(load("out/merged.pt")["model"], steps=1),
    "hub": hub_is_right,
    "unhub": lambda: fits(renamed(load("out/unhub.pt"), lambda i, key: key[len("module."):] if key.startswith("module.") else "?")),
    "saved": saved_is_right,
    "sane": safe_is_right,
    "many": without_optimizer,
    "average": mean_is_right,
    "small": lambda: fits(load("out/small.pt")["model"]) and load("out/small.pt")["row"].shape == (1024,),
    "renamed": lambda: fits(renamed(load("out/renamed.pt"), lambda i, key: key[4:].replace("blocks", "layers"))),
    "npy": lambda: numpy.array_equal(numpy.load("out/w.npy"), load("in/plain.pt")["head.weight"].numpy()),
    "slice": lambda: numpy.array_equal(numpy.load("out/part.npy"), load("in/plain.pt")["head.weight"].numpy()[0:2, ::4]),
    "set": set_is_right,
    "resharded": dcp_is_right,
}


def check():
    with open("todo.json") as file:
        todo = json.load(file)
    answers = []
    for name in todo:
        try:
            answers.append(None if CHECKS[name]() else "is not what torch has")
        except Exception as error:  # whatever a wrong file does
            answers.append("%s: %s" % (type(error).__name__, str(error)[:300]))
    with open("checked.json", "w") as file:
        json.dump(answers, file)


if __name__ == "__main__":
    {"make": make, "check": check}[sys.argv[1]]()
    sys.stdout.flush()
    os._exit(0)  # torch 1.7 aborts where it ends the threads that went backward

# SPDX-License-Identifier: Apache-2.0
"""Models with other names for the same modules, by whichever torch this is. rename_map_files.py make | check

make: old.pt (a trainer's file) and old_model.pt, map.txt and map.json from their keys to those of New. check: each of todo.json is loaded into New; what is
wrong with it goes into checked.json.
"""
import json
import sys

import torch
from torch import nn

V = tuple(int(x) for x in torch.__version__.split("+")[0].split(".")[:2])


class Old(nn.Module):
    def __init__(self):
        super().__init__()
        self.features = nn.Sequential(nn.Conv2d(1, 2, 3), nn.BatchNorm2d(2), nn.ReLU(), nn.Conv2d(2, 2, 3))
        self.left = nn.Linear(3, 3)
        self.right = nn.Linear(3, 3)
        self.fc = nn.Linear(8, 4)


class New(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(1, 2, 3), nn.BatchNorm2d(2), nn.ReLU(), nn.Conv2d(2, 2, 3))
        self.right = nn.Linear(3, 3)
        self.left = nn.Linear(3, 3)
        self.heads = nn.ModuleDict({"main": nn.Linear(8, 4)})


def new_name(key):
    for old, new in (("features.", "stem."), ("left.", "right."), ("right.", "left."), ("fc.", "heads.main.")):
        if key.startswith(old):
            return new + key[len(old):]
    return key


def load(path):
    return torch.load(path, **({"weights_only": False} if V >= (1, 13) else {}))


def make():
    torch.manual_seed(3)
    model = Old()
    optimizer = torch.optim.Adam(model.parameters())
    for parameter in model.parameters():
        parameter.grad = torch.ones_like(parameter)
    optimizer.step()
    torch.save(model.state_dict(), "old_model.pt")
    torch.save({"epoch": 3, "model": model.state_dict(), "optimizer": optimizer.state_dict()}, "old.pt")
    names = {key: new_name(key) for key in model.state_dict()}
    with open("map.txt", "w") as file:
        file.writelines("%s%s%s\n" % (old, " \t"[i % 2], new) for i, (old, new) in enumerate(names.items()))
    with open("map.json", "w") as file:
        json.dump(names, file)


def wrong(path, entry):
    state, old = load(path), load("old_model.pt")
    state = state[entry] if entry else state
    model = New()
    model.load_state_dict(state)  # strict: every key, and no other
    if list(state) != [new_name(key) for key in old]:
        return "order: %s" % list(state)
    if not all(torch.equal(state[new_name(key)], old[key]) for key in old):
        return "other values"
    wanted, found = dict(model.state_dict()._metadata), dict(state._metadata)
    wanted.pop("heads")  # of a module that Old has not
    return "modules %s, wanted %s" % (found, wanted) if found != wanted else ""


if __name__ == "__main__":
    if sys.argv[1] == "make":
        make()
    else:
        with open("todo.json") as file:
            answers = [wrong(path, entry) for path, entry in json.load(file)]
        with open("checked.json", "w") as file:
            json.dump(answers, file)

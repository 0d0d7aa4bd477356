# SPDX-License-Identifier: Apache-2.0
"""A run of real torch, and what is left of it: many_files_of_torch.py make | judge STEP...

make: run/NN.pt, trainers of a model in DistributedDataParallel, every fourth a legacy stream, and run/model.safetensors.txt, which is
none; nan.pt has a NaN. judge: each has lost its optimizer and 'module.', and else is as it was made.
"""

import os
import sys

import torch

STEPS = 12


def trainer(step):
    torch.manual_seed(step)
    weights = {"module.layer%d.weight" % i: torch.randn(16, 16) for i in range(4)}
    moments = {i: {"step": torch.tensor(float(step)), "exp_avg": torch.randn(16, 16)} for i in range(4)}
    return {"model": weights, "optimizer": {"state": moments, "param_groups": [{"lr": 0.1, "params": [0, 1, 2, 3]}]}, "epoch": step}


def make():
    os.mkdir("run")
    for step in range(STEPS):
        torch.save(trainer(step), "run/%02d.pt" % step, _use_new_zipfile_serialization=step % 4 != 3)
    with open("run/model.safetensors.txt", "w") as file:
        file.write("notes\n")
    broken = trainer(99)
    broken["model"]["module.layer2.weight"][3, 4] = float("nan")
    torch.save(broken, "nan.pt")


def judge(steps):
    for step in steps:
        found, wanted = torch.load("run/%02d.pt" % step), trainer(step)
        model = {name[len("module."):]: t for name, t in wanted["model"].items()}
        same = list(found) == ["model", "epoch"] and found["epoch"] == step and list(found["model"]) == list(model)
        print("%02d: %s" % (step, "right" if same and all(torch.equal(found["model"][n], model[n]) for n in model) else found))


if __name__ == "__main__":
    make() if sys.argv[1] == "make" else judge(range(STEPS))

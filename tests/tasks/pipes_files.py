# SPDX-License-Identifier: Apache-2.0
"""What tests/tasks/pipes.py needs of torch: pipes_files.py save | strip | same FILE"""
import io
import sys

import torch


def checkpoint():
    torch.manual_seed(7)
    net = torch.nn.Sequential(torch.nn.Linear(40, 60), torch.nn.BatchNorm1d(60), torch.nn.Linear(60, 3))
    state = net.state_dict()
    wrapped = type(state)(("module." + name, value) for name, value in state.items())
    return {"model": wrapped, "epoch": 3}


def same(a, b):
    if isinstance(a, torch.Tensor):
        return a.dtype == b.dtype and torch.equal(a, b)
    if isinstance(a, dict):
        return list(a) == list(b) and all(same(a[key], b[key]) for key in a)
    return a == b


def main():
    if sys.argv[1] == "save":  # torch wants to seek
        buffer = io.BytesIO()
        torch.save(checkpoint(), buffer)
        sys.stdout.buffer.write(buffer.getvalue())
        return 0
    data = sys.stdin.buffer.read()
    loaded = torch.load(io.BytesIO(data))
    if sys.argv[1] == "strip":
        want = checkpoint()["model"]
        want = type(want)((name[7:], value) for name, value in want.items())
        if not same(want, loaded):
            return "it is another state dict: %s" % list(loaded)
        torch.nn.Sequential(torch.nn.Linear(40, 60), torch.nn.BatchNorm1d(60), torch.nn.Linear(60, 3)).load_state_dict(loaded)
        return 0
    buffer = io.BytesIO()
    torch.save(loaded, buffer)
    # older ones name storages by their addresses
    if tuple(int(part) for part in torch.__version__.split(".")[:2]) >= (1, 9) and buffer.getvalue() != data:
        return "torch.save() writes other bytes"
    return 0 if same(checkpoint(), loaded) else "it is another checkpoint"


sys.exit(main())

# SPDX-License-Identifier: Apache-2.0
"""What ckpt cast left, and what it changed, as torch loads it. cast_judge.py HOW DTYPE IN OUT [IN OUT...]

HOW is "weights": a tensor of an optimizer or without a dimension has to be what it was, all other floating ones what
Tensor.to() makes of them; or "all": all are cast. What is an optimizer's is told here by names that no weight of these files has.
"""

import inspect
import os
import sys
import tempfile
import warnings

import torch

OPTIMIZERS = ("optim", "optimizer", "optimizer_states", "g_optimizer", "d_optimizer", "optimizer_state_dict")


def tensors(value, name=""):
    if torch.is_tensor(value):
        yield name, value
        return
    if isinstance(value, torch.optim.Optimizer):
        value = value.state_dict()
    parts = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, (list, tuple)) else ()
    for part, inner in parts:
        yield from tensors(inner, "%s.%s" % (name, part) if name else str(part))


def load(path):
    if not os.path.isdir(path):
        whole = {"weights_only": False} if "_whole" in path and "weights_only" in inspect.signature(torch.load).parameters else {}
        return torch.load(path, map_location="cpu", **whole)
    warnings.simplefilter("ignore")
    from torch.distributed.checkpoint.format_utils import dcp_to_torch_save
    with tempfile.TemporaryDirectory() as work:
        dcp_to_torch_save(path, os.path.join(work, "one.pt"))
        return torch.load(os.path.join(work, "one.pt"), map_location="cpu")


def wanted(how, dtype, name, value):
    if not value.is_floating_point():
        return value
    if how == "weights" and (value.dim() == 0 or name.split(".")[0] in OPTIMIZERS):
        return value
    return value.to(dtype)


def judge(how, dtype, before, after):
    old, new = dict(tensors(load(before))), dict(tensors(load(after)))
    if list(old) != list(new) or not old:
        return "other names"
    for name, value in old.items():
        want = wanted(how, dtype, name, value)
        if new[name].dtype != want.dtype or not torch.equal(new[name].float(), want.float()):
            return "'%s' is %s, wanted %s" % (name, new[name].flatten()[:3], want.flatten()[:3])
    return ""


def at(name, lost, value):
    """The first number that is lost, in the order of the storage."""
    place = min(torch.nonzero(lost).tolist(), key=lambda index: sum(i * step for i, step in zip(index, value.stride())))
    return "'%s'%s" % (name, place)


def count(dtype, before, after):
    """As the notes of ckpt have it: how many numbers are infinite and 0 in AFTER that were not, and where the first is."""
    old, new = dict(tensors(load(before))), dict(tensors(load(after)))
    found = []
    for is_lost in (lambda x, y: torch.isfinite(x) & torch.isinf(y), lambda x, y: (x != 0) & (y == 0)):
        total, first = 0, ""
        for name, value in old.items():
            if value.is_floating_point():
                lost = is_lost(value.double(), new[name].double())
                first = first or (at(name, lost, value) if lost.any() else "")
                total += int(lost.sum())
        found.append("%d %s" % (total, first))
    return found


def main():
    if sys.argv[1] == "count":
        print("\n".join(count(getattr(torch, sys.argv[2]), *sys.argv[3:])))
        return
    how, dtype = sys.argv[1], getattr(torch, sys.argv[2])
    paths = sys.argv[3:]
    for before, after in zip(paths[::2], paths[1::2]):
        text = judge(how, dtype, before, after)
        print("%s: %s" % (os.path.basename(before), text or "right"))


if __name__ == "__main__":
    main()

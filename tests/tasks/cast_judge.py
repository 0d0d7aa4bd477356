# SPDX-License-Identifier: Apache-2.0
"""What ckpt cast left, and what it changed, as torch loads it. cast_judge.py HOW DTYPE IN OUT [IN OUT...]

HOW is "weights": a tensor of an optimizer or without a dimension has to be what it was, all other floating ones what
Tensor.to() makes of them; or "all": all are cast. What is an optimizer's is told here by names that no weight of these files has.
"""

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
    parts = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, (list, tuple)) else ()
    for part, inner in parts:
        yield from tensors(inner, "%s.%s" % (name, part) if name else str(part))


def load(path):
    if not os.path.isdir(path):
        return torch.load(path, map_location="cpu")
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


def main():
    how, dtype = sys.argv[1], getattr(torch, sys.argv[2])
    paths = sys.argv[3:]
    for before, after in zip(paths[::2], paths[1::2]):
        text = judge(how, dtype, before, after)
        print("%s: %s" % (os.path.basename(before), text or "right"))


if __name__ == "__main__":
    main()

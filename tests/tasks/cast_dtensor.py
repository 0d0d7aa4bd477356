# SPDX-License-Identifier: Apache-2.0
"""DTensors of a model and its optimizer, which share what says their dtype: cast_dtensor.py make OUT, or judge HOW IN OUT

HOW is "weights" or "moments": which of them were cast to bfloat16.
"""

import sys
import warnings

import torch
import torch.distributed as dist

warnings.simplefilter("ignore")
dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)

from torch.distributed.device_mesh import init_device_mesh  # noqa: E402
from torch.distributed.tensor import DTensor, Shard, distribute_tensor  # noqa: E402


def make(path):
    mesh = init_device_mesh("cpu", (1,))
    model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Linear(4, 4))
    for module in model:
        for name, parameter in list(module.named_parameters()):
            setattr(module, name, torch.nn.Parameter(distribute_tensor(parameter.data, mesh, [Shard(0)])))
    optimizer = torch.optim.Adam(model.parameters(), lr=.1)
    model(distribute_tensor(torch.randn(8, 4), mesh, [Shard(0)])).sum().backward()
    optimizer.step()
    torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict()}, path)


def tensors(value, name=""):
    if torch.is_tensor(value):
        yield name, value
    elif isinstance(value, dict):
        for part, inner in value.items():
            yield from tensors(inner, "%s.%s" % (name, part))


def local(tensor):
    return tensor.to_local() if isinstance(tensor, DTensor) else tensor


def judge(how, before, after):
    old, new = (dict(tensors(torch.load(path, weights_only=False))) for path in (before, after))
    if list(old) != list(new):
        return "other names"
    for name, value in old.items():
        part = "weights" if name.startswith(".model") else "steps" if name.endswith(".step") else "moments"
        want = local(value).to(torch.bfloat16) if part == how else local(value)
        got = new[name]
        if got.dtype != want.dtype or not torch.equal(local(got), want):
            return "%s is %s" % (name, got)
        if isinstance(got, DTensor) and (got._spec.tensor_meta.dtype != want.dtype or got._spec.placements != value._spec.placements):
            return "%s has the spec %s" % (name, got._spec)
    return "right"


if sys.argv[1] == "make":
    make(sys.argv[2])
else:
    print(judge(*sys.argv[2:]))
dist.destroy_process_group()

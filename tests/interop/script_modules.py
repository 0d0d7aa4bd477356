# SPDX-License-Identifier: Apache-2.0
"""Modules of many kinds: WHOLE for torch.save, SCRIPTED for torch.jit.save, IVALUES for the C++ pickler."""

from typing import Dict, List, Optional, Tuple

import torch
from torch import nn


class Inner(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(3, 2)
        self.register_buffer("run", torch.ones(2))
        self.plain = torch.arange(4.)
        self.sizes: List[int] = [1, 2, 3]
        self.table: Dict[str, torch.Tensor] = {"a": torch.ones(1)}
        self.pair: Tuple[int, str] = (3, "x")
        self.maybe: Optional[int] = None

    def forward(self, x):
        return self.fc(x) + self.run + self.plain[:2] + self.sizes[0] + self.table["a"]


class Net(nn.Module):
    """Shared modules, shared parameters, views, None, and buffers that are not saved."""

    def __init__(self):
        super().__init__()
        self.inner = Inner()
        self.seq = nn.Sequential(nn.Linear(3, 3, bias=False), nn.ReLU(), nn.Linear(3, 3))
        self.tied = self.seq[0]
        self.w = nn.Parameter(torch.arange(6.).reshape(2, 3).t())
        self.frozen = nn.Parameter(torch.ones(3), requires_grad=False)
        self.register_parameter("nothing", None)
        self.register_buffer("none", None)
        self.register_buffer("count", torch.tensor(7))
        self.register_buffer("mask", torch.tensor([True, False]))
        try:
            self.register_buffer("temp", torch.zeros(3), persistent=False)
        except TypeError:  # before torch 1.5
            pass
        self.register_buffer("view", self.frozen.detach()[1:])
        self.name = "a name"

    def forward(self, x):
        return self.inner(self.tied(self.seq(x))) + x.div(2).sum() + self.frozen.sum()


class SharedWeight(nn.Module):
    """One Parameter in two modules: two tensors over one storage."""

    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(5, 4)
        self.head = nn.Linear(4, 5)
        self.head.weight = self.embedding.weight

    def forward(self, x):
        return self.head(x)


class Dtypes(nn.Module):
    def __init__(self):
        super().__init__()
        for name in ("float16", "bfloat16", "float64", "int8", "uint8", "int16", "complex64", "bool"):
            self.register_buffer("of_" + name, torch.ones(2, 2).to(getattr(torch, name)))
        self.half_ = nn.Parameter(torch.ones(2, dtype=torch.float16))
        self.register_buffer("empty", torch.zeros(0, 3))


class Attributes(nn.Module):
    """A parameter with an attribute, a module without anything, names like those of torch itself."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(2))
        self.weight.tag = "important"
        self.nothing = nn.Identity()
        self.modules_ = nn.ModuleDict({"_": nn.Linear(1, 1), "0": nn.Linear(1, 1)})
        self.listed = nn.ParameterList([nn.Parameter(torch.ones(1)), nn.Parameter(torch.zeros(1))])
        self.named = nn.ParameterDict({"a": nn.Parameter(torch.ones(1))})
        self.children_ = nn.ModuleList([nn.Linear(1, 1), nn.Conv1d(1, 1, 1)])


class SparseBuffer(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("sparse", torch.eye(3).to_sparse())


class QuantizedBuffer(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("q", torch.quantize_per_tensor(torch.ones(3), .1, 2, torch.quint8))


class Float8(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("f8", torch.ones(4).to(torch.float8_e4m3fn))
        self.register_buffer("u16", torch.ones(4).to(torch.uint16))


class NewBuffer(nn.Module):
    def __init__(self):
        super().__init__()
        self.saved = nn.Buffer(torch.ones(2))
        self.unsaved = nn.Buffer(torch.zeros(2), persistent=False)


class Subclass(torch.Tensor):
    pass


def deep():
    net = nn.Linear(2, 2)
    for _ in range(60):
        net = nn.Sequential(net)
    return net


def graph_module():
    import torch.fx
    return torch.fx.symbolic_trace(nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2)))


def on_meta():
    return nn.Linear(2, 3, device="meta")


def conjugate():
    net = nn.Module()
    net.register_buffer("c", torch.ones(2, dtype=torch.complex64).conj())
    return net


WHOLE = {
    "net": Net, "inner": Inner, "shared_weight": SharedWeight, "dtypes": Dtypes, "attributes": Attributes,
    "sparse": SparseBuffer, "quantized": QuantizedBuffer, "float8": Float8, "new_buffer": NewBuffer, "deep": deep,
    "graph_module": graph_module, "on_meta": on_meta, "conjugate": conjugate,
    "batch_norm": lambda: nn.BatchNorm2d(3), "lstm": lambda: nn.LSTM(3, 4, num_layers=2, bidirectional=True),
    "transformer": lambda: nn.TransformerEncoder(nn.TransformerEncoderLayer(8, 2, 8), 2),
    "attention": lambda: nn.MultiheadAttention(4, 2), "nothing": nn.ReLU,
    "weight_norm": lambda: nn.utils.weight_norm(nn.Linear(2, 3)),
    "spectral_norm": lambda: nn.utils.spectral_norm(nn.Linear(2, 3)),
    "data_parallel": lambda: nn.DataParallel(nn.Linear(2, 2)),
}


class Constants(nn.Module):
    def forward(self, x):
        return x + torch.tensor([7., 8.]) * torch.tensor([[1.], [2.]])


class Wrapped(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2))
        self.constants = Constants()

    def forward(self, x):
        return self.constants(self.inner(x))


def traced_tied():
    net = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2))
    net[1].weight = net[0].weight
    return torch.jit.trace(net, torch.ones(1, 2))


SCRIPTED = {
    "net": lambda: torch.jit.script(Net()),
    "shared_weight": lambda: torch.jit.script(SharedWeight()),
    "lstm": lambda: torch.jit.script(nn.LSTM(3, 4)),
    "traced_net": lambda: torch.jit.trace(Net(), torch.ones(2, 3)),
    "traced_constants": lambda: torch.jit.trace(Wrapped().eval(), torch.ones(2, 2)),
    "traced_tied": traced_tied,
    "traced_batch_norm": lambda: torch.jit.trace(nn.BatchNorm2d(3).half().float(), torch.ones(1, 3, 2, 2)),
    "traced_nothing": lambda: torch.jit.trace(nn.ReLU(), torch.ones(1)),
    "frozen": lambda: torch.jit.freeze(torch.jit.script(Wrapped().eval())),
    "traced_frozen": lambda: torch.jit.freeze(torch.jit.trace(Wrapped().eval(), torch.ones(2, 2))),
}

IVALUES = {
    "tensor": torch.arange(6.).reshape(2, 3).t(),
    "tensors": [torch.ones(2), torch.zeros(3, dtype=torch.int64)],
    "dict": {"a": torch.ones(2), "b": torch.zeros(2)},
    "ints": [1, 2, 300, -5, 2 ** 40],
    "floats": [1.5, -2.0],
    "bools": [True, False],
    "tuple": (1, "x", 2.5, None),
    "nested": {"x": [1, 2], "y": [3]},
    "complex": 1.5 - 2j,
    "text": "text",
    "shared": (lambda t: [t, t[1:], t])(torch.arange(3.)),
}

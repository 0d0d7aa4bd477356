# SPDX-License-Identifier: Apache-2.0
"""Random states for dcp.save, as those of dcp_states.py: what each holds, by how many processes it is saved, and with which options."""
import collections
import datetime
import random

import numpy
import torch

import dcp_states
import random_plans

# without "0": beside an int key 0 both are one place, and what torch makes of that depends on how many items are there
KEYS = tuple(text for text in random_plans.TEXTS if text != "0") + ("model", "optimizer", "layers.0.weight", "a/b", "../up", "tab\tnew\nline", "\u2603")
SHAPES = ([], [1], [5], [0], [2, 3], [7, 3], [3, 0], [1, 4], [2, 1, 3], [4, 3, 2, 2], [17], [33, 20])
LAYOUTS = ("plain",) * 6 + ("turned", "step", "expand", "channels_last", "slice")
WORLDS = (1, 1, 1, 2, 2, 3, 4)


def states(seed, count):
    """{name: State} of COUNT seeds from SEED on."""
    made = [state(number) for number in range(seed, seed + count)]
    return {one.name: one for one in made}


def state(seed):
    r = random.Random("state %d" % seed)
    world = r.choice(WORLDS)
    mesh = (2, 2) if world == 4 and r.random() < .6 else (world,)
    options = {}
    if r.random() < .25:
        options["thread_count"] = r.choice((2, 3))
    if r.random() < .15:
        options["single_file_per_rank"] = False
    if r.random() < .2:
        options["lowest"] = True
    if r.random() < .05:
        options["flatten"] = False
    return dcp_states.State("r%d" % seed, lambda place: Maker(seed, place, mesh, options.get("flatten", True)).top(), world, mesh, options, (2, 0))


class Maker:
    """Makes the state of SEED; the same in every process but for what PLACE gives each."""

    def __init__(self, seed, place, mesh, opened):
        self.random = random.Random("content %d" % seed)
        self.place = place
        self.mesh = mesh
        self.known = []     # what may come again
        self.closed = not opened    # what is inside of a value is pickled, and a DTensor there is known to one torch only
        self.serial = seed % 1000

    def top(self):
        r = self.random
        result = self.mapping(r.choice((1, 2, 4, 8, 14)), 0)
        if not r.randrange(4):
            result["model"] = {"module." + key: self.tensor() for key in r.sample(("0.weight", "0.bias", "1.weight", "norm.bias"), r.randrange(1, 5))}
        return result

    def key(self):
        r = self.random
        if r.random() < .12:
            return r.choice((0, 1, 2, 10, -1))
        return r.choice(KEYS) if r.random() < .6 else "k%d" % r.randrange(40)

    def mapping(self, count, depth):
        return {self.key(): self.value(depth + 1) for _ in range(count)}

    def value(self, depth):
        r = self.random
        known = [one for closed, one in self.known if closed or not self.closed]
        if known and r.random() < .1:
            return r.choice(known)
        kind = r.choices(("tensor", "leaf", "dict", "list", "tuple", "ordered", "default"), (40, 30, 14, 10, 4, 3, 1))[0]
        if depth > 5 and kind not in ("tensor", "leaf"):
            kind = "leaf"
        result = getattr(self, "make_" + kind)(depth)
        if r.random() < .3:
            self.known.append((self.closed, result))
        return result

    def make_dict(self, depth):
        return self.mapping(self.random.randrange(0, 5), depth)

    def make_ordered(self, depth):
        return collections.OrderedDict(self.mapping(self.random.randrange(0, 4), depth))

    def make_default(self, depth):
        return collections.defaultdict(list, self.mapping(self.random.randrange(0, 3), depth))

    def make_list(self, depth):
        return [self.value(depth + 1) for _ in range(self.random.randrange(0, 5))]

    def make_tuple(self, depth):
        before, self.closed = self.closed, True
        result = tuple(self.make_list(depth))
        self.closed = before
        return result

    def make_leaf(self, _):
        r = self.random
        return r.choice((
            lambda: r.choice(random_plans.INTS), lambda: r.choice(random_plans.FLOATS), lambda: r.choice(KEYS), lambda: r.random() < .5, lambda: None,
            lambda: bytes(range(r.randrange(5))), lambda: 1 + 2j, lambda: {r.randrange(9)}, lambda: range(3), lambda: torch.Size([2, 3]), lambda: torch.bfloat16, lambda: torch.device("cpu"),
            lambda: datetime.timedelta(days=1), lambda: numpy.arange(6, dtype=numpy.int16).reshape(2, 3), lambda: numpy.float64(.5), lambda: (0.9, 0.999)))()

    def make_tensor(self, _):
        return self.tensor()

    def tensor(self):
        r = self.random
        self.serial += 1
        dtype = getattr(torch, r.choice(dcp_states.DTYPES) if r.random() < .5 else r.choice(("float32", "bfloat16", "int64")))
        tensor = self.laid_out(dcp_states.numbers(r.choice(SHAPES), dtype, self.serial))
        if self.known and r.random() < .08:
            tensors = [one for _, one in self.known if type(one) is torch.Tensor and one.dim()]
            if tensors:
                return r.choice(tensors)[:1]
        if tensor.dim() and r.random() < .5:
            return self.placed(tensor.detach())
        if tensor.is_floating_point() and r.random() < .15:
            return torch.nn.Parameter(tensor, r.random() < .5)
        if tensor.is_complex() and dtype != torch.complex32 and r.random() < .3:
            return tensor.conj()
        return tensor

    def laid_out(self, tensor):
        layout = self.random.choice(LAYOUTS)
        if layout == "channels_last" and tensor.dim() == 4:
            return tensor.contiguous(memory_format=torch.channels_last)
        if not tensor.dim() or layout in ("plain", "channels_last"):
            return tensor
        return {"turned": lambda: tensor.transpose(0, -1), "step": lambda: tensor[::2], "slice": lambda: tensor[1:], "expand": lambda: tensor.expand(2, *tensor.shape)}[layout]()

    def placed(self, tensor):
        """Random numbers are drawn for plain files, too, so that both hold the same."""
        r = self.random
        names = [r.choice(["R"] + ["S%d" % dimension for dimension in range(tensor.dim())] * 2) for _ in self.mesh]
        if r.random() < .15 and tensor.dim() > 1:
            names.append("turned")
        return tensor if self.closed else self.place(tensor, *names)

# SPDX-License-Identifier: Apache-2.0
"""What torch 0.1 saved: {name: arguments of tar_build.members()}. Nothing here needs torch."""

from collections import OrderedDict

from tar_build import FORMATS, Global, New, Ref, Storage, Tensor, Text

W = Storage(94203401, "FloatStorage", [x / 4 for x in range(24)])
B = Storage(94203555, "DoubleStorage", [.5, -1., 1e300])
LONG = Storage(1 << 40, "LongStorage", [-1, 1 << 40, 0, 7])
EMPTY = Storage(77, "FloatStorage", [])
HOOKS = "_backward_hooks"


def plain():
    state = OrderedDict([("w", Ref(1)), ("b", Ref(2)), ("ids", Ref(3))])
    return state, [W, B, LONG], [Tensor(1, W.key, (4, 6)), Tensor(2, B.key, (3,), kind="DoubleTensor"),
                                 Tensor(3, LONG.key, (2, 2), kind="LongTensor")]


def views():
    """One storage under several tensors, one tensor under several names."""
    tied = Ref(2)
    state = OrderedDict([("all", Ref(1)), ("row", tied), ("again", tied), ("same", Ref(2)), ("turned", Ref(3)),
                         ("same_place", Ref(4)), ("gaps", Ref(5)), ("none", Ref(6)), ("spread", Ref(7))])
    return state, [W], [Tensor(1, W.key, (4, 6)), Tensor(2, W.key, (6,), offset=6), Tensor(3, W.key, (6, 4), (1, 6)),
                        Tensor(4, W.key, (6,), offset=6), Tensor(5, W.key, (2, 3), (12, 2), 1),
                        Tensor(6, W.key, (0, 6)), Tensor(7, W.key, (3, 2), (0, 1))]


def storage_views():
    """Storages that are parts of others; and storages in the object itself."""
    state = {"tensor": Ref(1), "part": Ref(2), "whole": Ref(W.key), "storage": Ref(501), "longs": Ref(502),
             "all": Ref(LONG.key)}
    return (state, [W, LONG], [Tensor(1, W.key, (2, 2)), Tensor(2, 501, (2, 4))],
            [(501, W.key, 4, 8), (502, LONG.key, 1, 2)])


def dtypes():
    values = [0, 1, 100, 3]
    storages = [Storage(1000 + i, kind, values) for i, kind in enumerate(FORMATS)]
    tensors = [Tensor(i + 1, s.key, (2, 2), kind=s.kind.replace("Storage", "Tensor")) for i, s in enumerate(storages)]
    return OrderedDict((s.kind, Ref(t.key)) for s, t in zip(storages, tensors)), storages, tensors


def parameter(tensor, cls="Parameter", module="torch.nn.parameter", grad=True):
    return New(Global(module, cls), (tensor, None, OrderedDict(), grad, False))


def parameters():
    shared = parameter(Ref(1))
    state = {"p": shared, "again": shared, "frozen": parameter(Ref(2), grad=False),
             "v": parameter(Ref(2), "Variable", "torch.autograd.variable", False)}
    return state, [W, B], [Tensor(1, W.key, (4, 6)), Tensor(2, B.key, (3,), kind="DoubleTensor")]


def later_parameters():
    """As torch 0.1.10 to 0.3 wrote them."""
    cls = Global("torch.nn.parameter", "Parameter")
    state = {"called": New(cls, (True, False, OrderedDict()), (Ref(1),), True),
             "new": New(cls, (False, False, OrderedDict()), (Ref(2),)),
             "v": New(Global("torch.autograd.variable", "Variable"), (True, False, OrderedDict()), (Ref(2),), True)}
    return state, [W, B], [Tensor(1, W.key, (4, 6)), Tensor(2, B.key, (3,), kind="DoubleTensor")]


def module():
    """A whole module, whose classes come with their source text the first time."""
    linear = Global("torch.nn.modules.linear", "Linear")

    def layer(cls, weight, bias):
        return New(cls, {"in_features": 6, "out_features": 4, "training": True, "_buffers": OrderedDict(),
                         HOOKS: OrderedDict(), "_forward_hooks": OrderedDict(), "_modules": OrderedDict(),
                         "_parameters": OrderedDict([("weight", parameter(weight)), ("bias", bias)])})
    state = [layer(Ref((linear, "linear.py", "")), Ref(1), None), layer(linear, Ref(2), None)]
    return state, [W], [Tensor(1, W.key, (4, 6)), Tensor(2, W.key, (2, 3))]


def python2():
    """Strings of Python 2 as keys and values; a key that is no ASCII is not loaded by all torches."""
    state = OrderedDict([(Text(b"w"), Ref(1)), (Text(b"name"), Text(b"resnet"))])
    return {Text(b"state_dict"): state, Text(b"arch"): Text(b"a" * 300), Text(b"epoch"): 3}, [W], [
        Tensor(1, W.key, (4, 6))]


def devices():
    state = {"gpu": Ref(1), "cpu": Ref(2)}
    return state, [Storage(5, "FloatStorage", [1., 2.], "cuda:1"), B], [Tensor(1, 5, (2,)), Tensor(2, B.key, (3,))]


def others():
    state = {"epoch": 90, "lr": 1e-3, "flags": (True, None, [1, 2 ** 70, "text"]), "w": [Ref(1), (Ref(1),)],
             "empty": Ref(2), "number": Ref(3)}
    return state, [W, EMPTY], [Tensor(1, W.key, (4, 6)), Tensor(2, EMPTY.key, (0,)), Tensor(3, W.key, (), (), 5)]


CASES = {f.__name__: f for f in (plain, views, storage_views, dtypes, parameters, later_parameters, module, python2, devices,
                                 others)}
# Protocol 0 writes a class with its source as text, which torch cannot load.
PROTOCOLS = {"module": (1, 2)}


def each():
    """(name, arguments, options)"""
    for name, make in CASES.items():
        for protocol in PROTOCOLS.get(name, (0, 1, 2)):
            yield "%s_p%d" % (name, protocol), make(), {"protocol": protocol}

# SPDX-License-Identifier: Apache-2.0
"""Pairs of files whose other values, attributes, keys and numpy arrays are different, or the same. diff_values.py OUTDIR

OUTDIR/NAME-a.pt and NAME-b.pt: NAME begins with what 'ckpt diff' has to find: differ, same, or strict (the same, but not with --strict).
"""
import collections
import os
import sys
import warnings

warnings.simplefilter("ignore")

import numpy as np  # noqa: E402
import torch  # noqa: E402
from torch import nn  # noqa: E402


LONG = "k" * 300000     # more than a name has


class Key:
    """What can be a key, or in a set."""

    def __init__(self, value):
        self.value = value

    def __eq__(self, other):
        return self.value is other.value

    def __hash__(self):
        return 7


class MakesBytes:
    def __reduce__(self):
        return bytes, ("a", "latin1")


def tensor(value, **attributes):
    made = torch.tensor([value])
    for name in attributes:
        setattr(made, name, attributes[name])
    return made


def parameter(value, **attributes):
    made = nn.Parameter(torch.tensor([value]))
    for name in attributes:
        setattr(made, name, attributes[name])
    return made


def quantized(value):
    return torch.quantize_per_tensor(torch.tensor([value]), .5, 0, torch.qint8)


def with_attribute(items, attribute):
    made = collections.OrderedDict(items)
    made.x = attribute
    return made


def objects(*items):
    array = np.empty(len(items), object)
    for i, item in enumerate(items):
        array[i] = item
    return array


def inside_itself(kind):
    if kind == "array":
        made = objects(1, 2)
        made[0] = made
        return made
    if kind == "tensor":
        made = torch.ones(2)
        made.me = made
        return made
    key = Key(1)
    made = kind([key])
    key.value = made
    return made


def keeps_attributes(save):
    """torch before 2.0 leaves them out of what it saves."""
    save({"a": parameter(1., foo=1)}, "probe.pt")
    kept = getattr(torch.load("probe.pt", weights_only=False)["a"] if int(torch.__version__.split(".")[0]) > 1 else torch.load("probe.pt")["a"], "foo", None) == 1
    os.remove("probe.pt")
    return kept


def pairs(with_attributes):
    one, two = torch.tensor([1.]), torch.tensor([2.])
    found = {
        "differ-key-0": ({0: one, "0": two}, {"0": one, 0: two}),
        "differ-key-none": ({None: one, "None": two}, {"None": one, None: two}),
        "differ-key-tuple": ({(1,): one, "(1,)": two}, {"(1,)": one, (1,): two}),
        "differ-key-dot": ({"a.b": one, "a": {"b": two}}, {"a.b": two, "a": {"b": one}}),
        "differ-key-less": ({0: one, "0": two}, {"0": two}),
        "differ-key-object": ({Key(1): 1}, {Key(2): 1}),
        "differ-key-object-values": ({Key(1): {"a": 1}, Key(2): {"b": 2}}, {Key(1): {"b": 2}, Key(2): {"a": 1}}),
        "differ-key-0-below": ({0: {"a": 1}, "0": {"b": 2}}, {0: {"b": 2}, "0": {"a": 1}}),
        "differ-key-0-empty": ({0: {}, "0": {"a": 1}}, {0: {"a": 1}, "0": {}}),
        "differ-key-0-tensors": ({0: {"a": one}, "0": {"b": two}}, {0: {"b": two}, "0": {"a": one}}),
        "differ-key-0-moved": ({0: {"a": 1}, "0": {"b": 2}}, {0: {"a": 1, "b": 2}, "0": {}}),
        "differ-key-int": ({10 ** 100 + 1: 1}, {10 ** 100 + 3: 1}),
        "differ-key-attribute": (with_attribute({"x": {"a": 1}}, {"b": 2}), with_attribute({"x": {"b": 2}}, {"a": 1})),
        "same-key-objects": ({Key(1): {"a": 1}, Key(2): {"b": 2}}, {Key(1): {"a": 1}, Key(2): {"b": 2}}),
        "same-key-0-below": ({0: {"a": 1}, "0": {"b": 2}}, {"0": {"b": 2}, 0: {"a": 1}}),
        "differ-key-long": ({LONG + "a": 1, LONG + "b": 2}, {LONG + "a": 1, LONG + "c": 2}),
        "differ-key-long-below": ({LONG + "a": {"z": one}, LONG + "b": {"z": two}}, {LONG + "b": {"z": one}, LONG + "a": {"z": two}}),
        "same-key-long": ({LONG + "a": {"z": one}, LONG + "b": {"z": two}}, {LONG + "b": {"z": two}, LONG + "a": {"z": one}}),
        "same-bytes-reduced": ([MakesBytes()], [MakesBytes()]),
        "differ-set-tensor": ({"a": {Key(one)}}, {"a": {Key(two)}}),
        "differ-set-storage": ({"a": {Key(one.storage())}}, {"a": {Key(two.storage())}}),
        "differ-objects-tensor": ({"a": objects(one, 1)}, {"a": objects(two, 1)}),
        "differ-objects-list": ({"a": objects([one], 1)}, {"a": objects([two], 1)}),
        "differ-objects-array": ({"a": objects(np.arange(2), 1)}, {"a": objects(np.arange(1, 3), 1)}),
        "differ-time": ({"a": np.array([1], "M8[D]")}, {"a": np.array([1], "M8[h]")}),
        "differ-time-25": ({"a": np.array([1], "M8[25s]")}, {"a": np.array([1], "M8[s]")}),
        "differ-time-delta": ({"a": np.array([1], "m8[s]")}, {"a": np.array([1], "m8[ms]")}),
        "differ-time-scalar": ({"a": np.datetime64(1, "D")}, {"a": np.datetime64(1, "h")}),
        "differ-fields": ({"a": np.zeros(1, [("a", "i4"), ("b", "i4")])}, {"a": np.zeros(1, [("b", "i4"), ("a", "i4")])}),
        "same-order": ({0: one, "0": two}, {"0": two, 0: one}),
        "same-order-dot": ({"a.b": one, "a": {"b": two}}, {"a": {"b": two}, "a.b": one}),
        "same-key": ({0: one, "x": two}, {"0": one, "x": two}),
        "same-set": ({"a": {Key(one)}}, {"a": {Key(one.clone())}}),
        "same-objects": ({"a": objects(one, np.arange(3))}, {"a": objects(one.clone(), np.arange(3))}),
        "same-itself-array": (inside_itself("array"), inside_itself("array")),
        "same-itself-set": ([inside_itself(set)], [inside_itself(set)]),
        "same-itself-frozenset": ([inside_itself(frozenset)], [inside_itself(frozenset)]),
        "strict-matrix": ({"a": np.matrix("1 2")}, {"a": np.array([[1, 2]])}),
        "strict-endian": ({"a": np.arange(3, dtype=">i4")}, {"a": np.arange(3, dtype="<i4")}),
        "strict-order": ({"a": np.asfortranarray(np.arange(6).reshape(2, 3))}, {"a": np.arange(6).reshape(2, 3)}),
    }
    if with_attributes:
        found.update({
            "differ-attribute": ({"a": tensor(1., foo=1)}, {"a": tensor(1., foo=2)}),
            "differ-attribute-none": ({"a": tensor(1., foo=1)}, {"a": tensor(1.)}),
            "differ-attribute-tensor": ({"a": parameter(1., foo=one)}, {"a": parameter(1., foo=two)}),
            "same-attribute": ({"a": parameter(1., foo=[one])}, {"a": parameter(1., foo=[one.clone()])}),
            "differ-attribute-moved": ({"a": objects(tensor(1., x=1), tensor(2.), {"x": 1})}, {"a": objects(tensor(1.), {"x": 1}, tensor(2., x=1))}),
            "same-attribute-sparse": ({"a": parameter(1., foo=torch.ones(2).to_sparse())}, {"a": parameter(1., foo=torch.ones(2).to_sparse())}),
            "same-attribute-quantized": ({"a": parameter(1., foo=quantized(1.))}, {"a": parameter(1., foo=quantized(1.))}),
            "differ-attribute-sparse": ({"a": parameter(1., foo=torch.ones(2).to_sparse())}, {"a": parameter(1., foo=(2 * torch.ones(2)).to_sparse())}),
            "differ-attribute-quantized": ({"a": parameter(1., foo=quantized(1.))}, {"a": parameter(1., foo=quantized(2.))}),
            "same-attribute-meta": ({"a": parameter(1., foo=torch.ones(2, device="meta"))}, {"a": parameter(1., foo=torch.ones(2, device="meta"))}),
            "same-itself-tensor": ([inside_itself("tensor")], [inside_itself("tensor")]),
        })
    return found


class Listed:
    """Its items come as those of a list, or of a dict."""

    def __init__(self, items=(), pairs=()):
        self.items, self.pairs = list(items), dict(pairs)

    def append(self, item):
        self.items.append(item)

    def extend(self, items):
        self.items.extend(items)

    def __setitem__(self, key, value):
        self.pairs[key] = value

    def __reduce__(self):
        return Listed, (), None, iter(self.items) if self.items else None, iter(self.pairs.items()) if self.pairs else None


def in_places(with_attributes):
    """What a strict comparison tells apart, inside of what is compared as a whole."""
    flat = torch.arange(4.)
    small = {
        "class": (torch.ones(1), nn.Parameter(torch.ones(1), requires_grad=False)), "grad": (torch.ones(1), torch.ones(1, requires_grad=True)),
        "strides": (flat.view(2, 2), flat.view(2, 2).t().contiguous().t()), "matrix": (np.matrix("1 2"), np.array([[1, 2]])), "fortran": (np.asfortranarray(np.arange(6).reshape(2, 3)), np.arange(6).reshape(2, 3)),
        "endian": (np.arange(3, dtype=">i4"), np.arange(3, dtype="<i4")), "order": ({"a": 1, "b": 2}, {"b": 2, "a": 1}), "list": ([1, 2], (1, 2)), "zero": (0., -0.),
        "ordered": (collections.OrderedDict([("a", 1), ("b", 2)]), collections.OrderedDict([("b", 2), ("a", 1)])),
    }
    places = {"array": objects, "set": lambda value: {Key(value)}, "key": lambda value: {Key(value): 1}}
    if with_attributes:
        places.update({"tensor": lambda value: tensor(1., x=value), "parameter": lambda value: parameter(1., x=value)})
    for place, put in places.items():
        for name, (one, other) in small.items():
            yield "strict-%s-in-%s" % (name, place), ({"a": put(one)}, {"a": put(other)})
        for name, value in (("nan", float("nan")), ("tensor", torch.ones(2))):
            yield "same-%s-in-%s" % (name, place), ({"a": put(value)}, {"a": put(value)})
    yield "differ-items-or-pairs", (Listed([1]), Listed((), {0: 1}))
    yield "same-items", (Listed([1], {0: 1}), Listed([1], {0: 1}))


def main(out):
    os.makedirs(out, exist_ok=True)
    for name, both in list(pairs(keeps_attributes(torch.save)).items()) + list(in_places(keeps_attributes(torch.save))):
        for side, value in zip("ab", both):
            torch.save(value, "%s/%s-%s.pt" % (out, name, side))
    names = [range(3), list, int, str, collections.defaultdict(list), torch.optim.Adam([parameter(1.)]), b"hi", np.array(["a", "bc"]), np.array([1], "M8[D]")]
    for protocol in (3, 4):
        torch.save(names, "%s/same-protocol-%d-a.pt" % (out, protocol))
        torch.save(names, "%s/same-protocol-%d-b.pt" % (out, protocol), pickle_protocol=protocol)


if __name__ == "__main__":
    main(sys.argv[1])

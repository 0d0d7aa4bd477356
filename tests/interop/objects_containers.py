# SPDX-License-Identifier: Apache-2.0
"""Containers of every size at which a pickler changes its way of writing, and object sharing."""

import collections

import torch

import user_types
from registry import add, item

SIZES = (0, 1, 2, 3, 4, 5, 255, 256, 257, 999, 1000, 1001, 1002, 2000, 2001)


def pairs(count):
    return [("k%d" % i, i) for i in range(count)]


def with_default(count):
    result = collections.defaultdict(int)
    result.update(pairs(count))
    return result


MAKERS = {
    "dict": lambda count: {i: i for i in range(count)},
    "ordereddict": lambda count: collections.OrderedDict(pairs(count)),
    "list": lambda count: list(range(count)),
    "tuple": lambda count: tuple(range(count)),
    "deque": lambda count: collections.deque(range(count)),
    "defaultdict": with_default,
    "counter": lambda count: collections.Counter(dict(pairs(count))),
    "set": lambda count: set(range(count)),
    "frozenset": lambda count: frozenset(range(count)),
}


def add_sizes():
    for kind, make in MAKERS.items():
        for size in SIZES:
            add("%s_%d" % (kind, size), lambda make=make, size=size: make(size))


add_sizes()


@item()
def dict_of_strings_1001():
    return dict(("key%d" % i, "value%d" % i) for i in range(1001))


@item()
def list_child_1001():
    return user_types.ListChild(range(1001))


@item()
def dict_child_1000():
    return user_types.DictChild(pairs(1000))


@item()
def children_with_attributes():
    result = []
    for make in (user_types.ListChild, user_types.DictChild, user_types.OrderedChild,
                 user_types.SetChild, collections.OrderedDict):
        child = make()
        if make is not collections.OrderedDict:
            child.note = "attribute"
        else:
            child.note = "other"
            child["key"] = 1
        result.append(child)
    return result


@item()
def deque_with_limit():
    return [collections.deque([1, 2, 3], maxlen=2), collections.deque((), 0)]


@item()
def defaultdict_factories():
    return [collections.defaultdict(None, {1: 2}), collections.defaultdict(list, a=[1]),
            collections.defaultdict(user_types.Plain)]


@item()
def chain_map_and_user_dict():
    return [collections.ChainMap({"a": 1}, {"b": 2}), collections.UserDict(a=1),
            collections.UserList([1, 2]), collections.UserString("text")]


@item()
def set_with_collisions():
    """Small integers that fall into one slot, in an order that only insertion explains."""
    return [set([8, 0, 16]), set([0, 8, 16]), set([1, 9]), set([9, 1])]


@item()
def set_out_of_a_larger_table():
    """A set that lost members keeps its large table; one that is loaded has a small one."""
    result = set(range(100))
    result -= set(range(3, 64)) | set(range(65, 100))
    return result


@item()
def set_of_one_string():
    return [{"text"}, frozenset(["text"])]


@item()
def set_of_tuples():
    return {(1, 2)}


@item()
def list_in_itself():
    result = [1]
    result.append(result)
    return result


@item()
def dict_in_itself():
    result = {"a": 1}
    result["self"] = result
    return result


@item()
def tuples_in_themselves():
    result = []
    for size in range(1, 7):
        inner = []
        group = tuple([inner] + list(range(size - 1)))
        inner.append(group)
        result.append(group)
    return result


@item()
def tuple_in_itself_at_the_root():
    inner = {}
    group = (1, inner)
    inner["up"] = group
    return group


@item()
def tuple_of_four_in_itself_at_the_root():
    inner = []
    group = (1, 2, 3, inner)
    inner.append(group)
    return group


@item()
def object_in_its_own_arguments():
    items = []
    holder = user_types.HoldsItself(items)
    items.append(holder)
    return holder


@item()
def object_in_its_own_state():
    first = user_types.Plain(name="first")
    second = user_types.Plain(name="second", other=first)
    first.other = second
    return {"objects": [first, second]}


@item()
def shared_parts():
    part_list, part_dict, part_tuple = [1, 2], {"k": 1}, (1, "two")
    text = "".join(["sha", "red"])
    tensor = torch.arange(3)
    parts = [part_list, part_dict, part_tuple, text, tensor]
    return {"first": parts, "second": list(parts), text: part_tuple, "third": parts}


@item()
def nested_lists_200():
    result = []
    for _ in range(200):
        result = [result]
    return result


@item()
def nested_dicts_200():
    result = {}
    for depth in range(200):
        result = {depth: result}
    return result


@item()
def nested_tuples_200():
    result = ()
    for _ in range(200):
        result = (result,)
    return result


@item()
def nested_tuples_of_five_200():
    result = ()
    for depth in range(200):
        result = (1, 2, depth, result, "end")
    return result


@item()
def memo_over_256():
    """Strings read back across the border between one-byte and four-byte memo numbers."""
    names = ["name%d" % i for i in range(300)]
    return [names, list(reversed(names))]


@item()
def memo_over_65536():
    names = ["n%d" % i for i in range(66000)]
    return [names, names[:3], names[-3:]]


@item()
def memo_border_on_tensors():
    return collections.OrderedDict(("t%d" % i, torch.full((1,), float(i))) for i in range(40))

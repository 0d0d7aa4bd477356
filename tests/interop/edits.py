# SPDX-License-Identifier: Apache-2.0
"""Edits other than those of prefixes: what torch makes of an object, and the command for ckpt."""

import collections
import re

import torch

import torch_files

MAPPINGS = (dict, collections.OrderedDict, collections.defaultdict)
MAPS = {"cuda:0": "cuda:3", "cuda:1": "cpu", "cpu": "cuda:2"}


def map_location():
    """MAPS for torch.load, which looks devices of wrapper subclasses up as objects, not as text."""
    both = dict(MAPS)
    both.update({torch.device(text): target for text, target in MAPS.items()})
    return both


def first_name(obj):
    """The first key of a dict that a pattern can name, and nothing else with it."""
    keys = list(obj) if type(obj) in MAPPINGS else []
    for key in keys:
        if isinstance(key, str) and re.fullmatch("[A-Za-z0-9_]+", key) and \
                not any(re.match(key + r"(\.|$)", str(other)) for other in keys if other is not key):
            return key
    return None


def remap(source):
    return torch_files.load(source, map_location=map_location()), \
        ["remap"] + ["%s=%s" % pair for pair in MAPS.items()]


def remap_all(source):
    return torch_files.load(source, map_location="cuda:5"), ["remap", "--all", "cuda:5"]


def extract(source):
    obj = torch_files.load(source)
    name = first_name(obj)
    return None if name is None else (obj[name], ["extract", name])


def drop(source):
    obj = torch_files.load(source)
    name = first_name(obj)
    if name is None:
        return None
    del obj[name]
    return obj, ["select", "--drop", name]


def scalars(obj, path=(), depth=0, around=()):
    """(path, value) of what --set can set, in dicts and lists."""
    if any(obj is one for one in around):
        return
    if type(obj) in MAPPINGS or type(obj) is list:
        for key, value in obj.items() if type(obj) is not list else enumerate(obj):
            if depth < 8 and ((type(key) is int and abs(key) < 1 << 40) or (type(key) is str and re.fullmatch("[A-Za-z0-9_.]+", key))):
                yield from scalars(value, path + (key,), depth + 1, around + (obj,))
    elif type(obj) in (bool, int, float, str, type(None)) and path:
        yield path, obj


def another(value):
    """Another value of the same type, and the option that sets it; of None, of another one."""
    if type(value) is bool:
        return not value, "--set", str(not value)
    if type(value) is int:
        return (value - 1, "--set", str(value - 1)) if abs(value) < 1 << 62 else (5, "--set", "5")
    if type(value) is float:
        value = 0.5 if value != value or value > 1e300 else value / 2 + 1
        return value, "--set", repr(value)
    if type(value) is str:
        value = "set to " + str(len(value))
        return value, "--set", value
    return 7, "--set-json", "7"


def set_values(source):
    """The first and the last of them."""
    obj = torch_files.load(source)
    found = list(scalars(obj))
    command = ["edit"]
    for path, value in found[:1] + found[1:][-1:]:
        value, option, text = another(value)
        holder = obj
        for key in path[:-1]:
            holder = holder[key]
        holder[path[-1]] = value
        command += [option, "".join("[%s]" % (key if type(key) is int else '"%s"' % key) for key in path) + "=" + text]
    return (obj, command) if found else None


EDITS = {"set": set_values, "remap": remap, "remap-all": remap_all, "extract": extract, "drop": drop}


def save(edit, source, target, options):
    """Write what EDIT makes of SOURCE; returns ckpt's command for it, or "none"."""
    done = EDITS[edit](source)
    if done is None:
        return "none"
    torch.save(done[0], target, **options)
    return done[1] + ([] if edit == "extract" else ["--if-present"])

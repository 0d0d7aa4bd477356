# SPDX-License-Identifier: Apache-2.0
"""What stripping and adding `module.` means: the reference that ckpt's commands are compared with.

A state dict is a mapping in which a tensor, or a dict with a tensor in it, stands under a string key,
wherever it is among the dicts, lists, tuples, deques and objects of an object, but for modules. Every entry keeps its place.
"""

import collections

import torch

PREFIX = "module."


class Clash(Exception):
    """Two keys would become one."""


def strip(obj):
    """Take the prefix off, in place. Returns how many names changed."""
    return rename(obj, stripped, strip_metadata)


def add(obj):
    """Put the prefix on, as DistributedDataParallel has it, in place."""
    return rename(obj, lambda name: PREFIX + name, add_metadata)


def may_add(obj):
    """True where there is no doubt about which mappings are a model's: the root, or all in it."""
    parts = obj if isinstance(obj, (list, tuple)) else [obj]
    return bool(parts) and all(is_only_tensors(part) for part in parts)


def is_only_tensors(value):
    return isinstance(value, dict) and bool(value) and all(
        isinstance(key, str) and isinstance(entry, torch.Tensor) for key, entry in value.items())


def is_state_dict(value):
    return isinstance(value, dict) and any(
        isinstance(key, str) and (isinstance(entry, torch.Tensor) or is_dict_with_tensors(entry))
        for key, entry in value.items())


def is_dict_with_tensors(value):
    """Quantized layers have numbers beside theirs."""
    return isinstance(value, dict) and any(isinstance(entry, torch.Tensor) for entry in value.values())


def rename(obj, new_name, rename_metadata):
    count = 0
    for container in containers_in(obj):
        if is_state_dict(container):
            count += rename_keys(container, new_name)
            metadata = getattr(container, "_metadata", None)
            if metadata:
                count += rename_metadata(metadata)
        for names in lists_of_names(container):
            count += rename_list(names, new_name)
    return count


def containers_in(obj):
    """Every dict, list, tuple and deque that is reached from OBJ, through such ones and through what objects are made of, once."""
    seen, found, waiting, kept = set(), [], [obj], []
    while waiting:
        value = waiting.pop()
        if id(value) in seen:
            continue
        seen.add(id(value))
        kept.append(value)      # so that no other object gets its id
        if isinstance(value, (dict, list, tuple, collections.deque)):
            found.append(value)
            waiting.extend(value.values() if isinstance(value, dict) else value)
        waiting.extend(parts_of(value))
    return found


def parts_of(value):
    """What an object of a class was made of, and its attributes: as a pickler sees it. A module's names are its program's."""
    plain = (str, bytes, bytearray, int, float, complex, bool, type(None), dict, list, tuple)
    if type(value) in plain or isinstance(value, (type, type(len), torch.Tensor, torch.nn.Module)) or torch.is_storage(value):
        return []
    try:
        parts = value.__reduce_ex__(2)
    except Exception:
        return []
    if isinstance(parts, str):
        return []
    made = list(parts[1])
    state = parts[2] if len(parts) > 2 else None
    slots = type(state) is tuple and len(state) == 2 and type(state[1]) is dict and type(state[0]) in (dict, type(None))
    for part in state if slots else [state]:
        made += part.values() if type(part) is dict else [part]
    items, pairs = (list(parts[3:5]) + [None, None])[:2]
    return made + list(items or []) + [value for _, value in pairs or []]


def rename_keys(mapping, new_name):
    """Give every string key its new name; the mapping stays the same object."""
    entries = list(mapping.items())
    renamed = [(new_name(key) if isinstance(key, str) else key, value) for key, value in entries]
    if len(set(key for key, _ in renamed)) != len(entries):
        raise Clash()
    mapping.clear()
    for key, value in renamed:
        mapping[key] = value
    return sum(new is not old for (new, _), (old, _) in zip(renamed, entries))


def stripped(name):
    return name[len(PREFIX):] if name.startswith(PREFIX) else name


def strip_metadata(metadata):
    """`module` takes the place of the root entry, which described the wrapper; `module.x` is x."""
    root = PREFIX.rstrip(".")
    count = 0
    if root in metadata and "" in metadata:
        metadata[""] = metadata.pop(root)
        count = 1
    return count + rename_keys(metadata, lambda key: "" if key == root else stripped(key))


def add_metadata(metadata):
    """The wrapper's own entry comes first, under the empty key; the old root becomes `module`."""
    count = rename_keys(metadata, lambda key: PREFIX + key if key else PREFIX.rstrip("."))
    entries = list(metadata.items())
    metadata.clear()
    metadata[""] = {"version": 1}
    metadata.update(entries)
    return count


def lists_of_names(container):
    """Lists of parameter names that a dict of an optimizer holds."""
    if not isinstance(container, dict):
        return []
    lists = [container.get("param_names")]
    groups = container.get("param_groups")
    for group in groups if isinstance(groups, list) else []:
        lists.append(group.get("params") if isinstance(group, dict) else None)
    return [names for names in lists if isinstance(names, list)]


def rename_list(names, new_name):
    count = 0
    for index, name in enumerate(names):
        if isinstance(name, str):
            names[index] = new_name(name)
            count += names[index] is not name
    return count

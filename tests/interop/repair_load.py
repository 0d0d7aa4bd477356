# SPDX-License-Identifier: Apache-2.0
"""Repaired files, loaded by torch beside the ones they were. repair_load.py CASES.json

Each case is {"was", "is": paths; "gone": [path of keys], "fill": null, "zeros" or "nan", "lost": [path of keys]}. A line for each: "right",
or "wrong" and why.
"""
import inspect
import json
import sys
import warnings

warnings.simplefilter("ignore")

import torch  # noqa: E402


def load(path):
    """As strictly as this torch can load what has not been cut off."""
    if "weights_only" in inspect.signature(torch.load).parameters:
        try:
            return torch.load(path, weights_only=True), True
        except Exception:
            return torch.load(path, weights_only=False), False  # made by repair_files.py
    return torch.load(path), False


def same_bits(one, other):
    if one.dtype != other.dtype or one.shape != other.shape or one.layout != other.layout:
        return False
    if one.is_sparse:
        return torch.equal(one.to_dense(), other.to_dense())
    if one.is_quantized:
        return torch.equal(one.int_repr(), other.int_repr()) and str(one.qscheme()) == str(other.qscheme())
    if one.is_complex():
        one, other = torch.view_as_real(one), torch.view_as_real(other)
    one, other = one.detach().reshape(-1).clone(), other.detach().reshape(-1).clone()
    if not one.numel():
        return True
    return bytes(one.numpy().tobytes() if one.dtype != torch.bfloat16 else one.float().numpy().tobytes()) == \
        bytes(other.numpy().tobytes() if other.dtype != torch.bfloat16 else other.float().numpy().tobytes()) \
        if not str(one.dtype).startswith("torch.float8") else torch.equal(one.view(torch.uint8), other.view(torch.uint8))


def is_filled(tensor, fill):
    if tensor.is_sparse or tensor.is_quantized or str(tensor.dtype).startswith("torch.uint"):
        return True  # what they are then is not what is asked for here
    if tensor.is_complex():
        tensor = torch.view_as_real(tensor)
    if fill == "nan" and tensor.is_floating_point():
        return not bool((~torch.isnan(tensor.float())).any())
    return not bool((tensor.float() != 0).any())


def compare(case, was, now, path=()):
    if list(path) in case["lost"] and case["fill"]:
        return None if is_filled(now, case["fill"]) else "%s is not filled with %s: %s" % (path, case["fill"], now)
    if isinstance(was, torch.Tensor):
        same = type(was) is type(now) and same_bits(was, now) and was.requires_grad == now.requires_grad and \
            (was.layout != torch.strided or was.stride() == now.stride())
        return None if same else "%s: %s is %s" % (path, was, now)
    if isinstance(was, dict):
        keys = [key for key in was if list(path) + [key] not in case["gone"]]
        if keys != list(now) or type(was) is not type(now):
            return "%s: keys %s, wanted %s" % (path, list(now), keys)
        if getattr(was, "_metadata", None) != getattr(now, "_metadata", None):
            return "%s: other _metadata" % (path,)
        pairs = [(key, was[key], now[key]) for key in keys]
    elif isinstance(was, (list, tuple)):
        if type(was) is not type(now) or len(was) != len(now):
            return "%s: %s is %s" % (path, was, now)
        pairs = [(i, was[i], now[i]) for i in range(len(was))]
    else:
        return None if was == now else "%s: %r is %r" % (path, was, now)
    for key, one, other in pairs:
        wrong = compare(case, one, other, path + (key,))
        if wrong:
            return wrong
    return None


def main():
    with open(sys.argv[1]) as file:
        cases = json.load(file)
    for case in cases:
        try:
            (was, strictly), (now, still) = load(case["was"]), load(case["is"])
            wrong = compare(case, was, now) or (None if still or not strictly else "weights_only does not load it")
        except Exception as error:
            wrong = "%s: %s" % (type(error).__name__, error)
        print("wrong " + " ".join(wrong.split())[:300] if wrong else "right", flush=True)


if __name__ == "__main__":
    main()

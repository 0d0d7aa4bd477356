# SPDX-License-Identifier: Apache-2.0
"""Directories of shards with torch's own converters: torch_dcp.py VERB ...

    merge DIR OUT            dcp_to_torch_save
    split IN OUT [no-sync]   torch_save_to_dcp; it syncs what it writes, unless no-sync takes that away
    same A B                 do both files hold the same dicts and lists, and tensors with the same bytes?
    holes FILE RANKS         does FILE hold the numbers that generate_dcp.py puts into a sparse directory?

Prints one JSON object: seconds for the converter (importing torch is not counted) and peak memory in KiB, or
what `same` and `holes` found.
"""
import contextlib
import io
import json
import mmap
import os
import resource
import sys
import time
import warnings

warnings.simplefilter("ignore")

import torch  # noqa: E402

FACTS = {}


def converter(name, *words):
    try:
        from torch.distributed.checkpoint import format_utils
        convert = getattr(format_utils, name)
    except (ImportError, AttributeError):
        FACTS["error"] = "torch %s has no %s" % (torch.__version__, name)
        return
    with contextlib.redirect_stdout(io.StringIO()):
        start = time.monotonic()
        convert(*words)
        FACTS["seconds"] = time.monotonic() - start
    FACTS["kib"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def merge(source, target):
    converter("dcp_to_torch_save", source, target)


def split(source, target, how="sync"):
    if how == "no-sync":
        os.fsync = os.fdatasync = lambda _: None
    converter("torch_save_to_dcp", source, target)


def load(path):
    return torch.load(path, mmap=True, weights_only=False)


def equal(left, right):
    """Also if one has OrderedDict where the other has dict."""
    if isinstance(left, torch.Tensor):
        return (isinstance(right, torch.Tensor) and left.dtype == right.dtype and left.stride() == right.stride()
                and left.shape == right.shape and torch.equal(left.flatten().view(torch.uint8),
                                                              right.flatten().view(torch.uint8)))
    if isinstance(left, dict):
        return (isinstance(right, dict) and list(left) == list(right)
                and all(equal(value, right[key]) for key, value in left.items()))
    if isinstance(left, list):
        return isinstance(right, list) and len(left) == len(right) and all(map(equal, left, right))
    return type(left) is type(right) and left == right


def same(left, right):
    FACTS["same"] = equal(load(left), load(right))


def holes(path, ranks):
    """Before the first of its two numbers each chunk has zeros; some of them are looked at."""
    if not hasattr(torch.serialization, "set_default_mmap_options"):
        FACTS["error"] = "torch %s can map no file that is larger than the memory" % torch.__version__
        return
    torch.serialization.set_default_mmap_options(mmap.MAP_SHARED)  # a private one has to fit
    FACTS["same"] = True
    for number, tensor in enumerate(load(path)["model"].values()):
        for rank, chunk in enumerate(tensor.chunk(int(ranks))):
            last = [0] * (chunk.shape[1] - 2) + [number, rank]
            FACTS["same"] &= chunk[-1].tolist() == last and (len(chunk) == 1 or not chunk[0].any().item())


def main():
    {"merge": merge, "split": split, "same": same, "holes": holes}[sys.argv[1]](*sys.argv[2:])
    print(json.dumps(FACTS))


main()

# SPDX-License-Identifier: Apache-2.0
"""Loading with whichever torch this is."""

import contextlib
import inspect
import os
import sys
import traceback

import torch

LOAD_OPTIONS = set(inspect.signature(torch.load).parameters)


def load(path, weights_only=False, mmap=False, map_location=None):
    """torch.load with the options that this torch knows; weights_only is off by default."""
    options = {"map_location": map_location}
    if "weights_only" in LOAD_OPTIONS:
        options["weights_only"] = weights_only
    if mmap:
        options["mmap"] = True
    return torch.load(path, **options)


def ways_to_load():
    """Every pair (weights_only, mmap) that this torch can do."""
    kinds = [False, True] if "weights_only" in LOAD_OPTIONS else [False]
    maps = [False, True] if "mmap" in LOAD_OPTIONS else [False]
    return [(weights_only, mmap) for weights_only in kinds for mmap in maps]


@contextlib.contextmanager
def clean_exit():
    """Leave without torch's own clean-up, whose threads make some versions abort at exit."""
    status = 0
    try:
        yield
    except SystemExit as leave:
        status = leave.code or 0
    except BaseException:
        traceback.print_exc()
        status = 1
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)

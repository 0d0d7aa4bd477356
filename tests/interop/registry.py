# SPDX-License-Identifier: Apache-2.0
"""The table of interop objects: a name, a function that builds the object, what it needs."""

import collections
import re

import torch

Item = collections.namedtuple("Item", "name build since until protocol legacy", defaults=(False,))

ITEMS = {}


class Skip(Exception):
    """Raised by a builder that finds out that its object cannot be had here."""


def torch_version():
    """The running torch as (major, minor)."""
    return tuple(int(part) for part in re.match(r"(\d+)\.(\d+)", torch.__version__).groups())


def add(name, build, since=None, until=None, protocol=2):
    """Register BUILD under NAME. SINCE and UNTIL are (major, minor), both inclusive."""
    if name in ITEMS:
        raise ValueError("two objects are called '%s'" % name)
    ITEMS[name] = Item(name, build, since, until, protocol)


def item(name=None, **needs):
    """Decorator form of add(); the default name is the function's."""

    def register(build):
        add(name or build.__name__, build, **needs)
        return build

    return register


def why_not(entry):
    """The reason why this torch has no such object, or None."""
    here = torch_version()
    if entry.since and here < entry.since:
        return "needs torch %d.%d" % entry.since
    if entry.until and here > entry.until:
        return "only up to torch %d.%d" % entry.until
    return None

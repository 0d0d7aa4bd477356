# SPDX-License-Identifier: Apache-2.0
"""The order of a set's items in a file.

The library writes a set as Python would after a load: numbers go into a table in the order that they are given in, and come
out as they stand in it. torch.save() of the set itself writes how they stand now. So they are given in an order that leads to it.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Iterator, List

_NUMBERS = (int, float, bool)
_FEW = 6  # of which every order is tried


def order_of(items: List[Any]) -> List[Any]:
    """ITEMS, which is how a set of them stands, so that a set that is made of the result stands so; ITEMS if none is found."""
    if len(items) < 2 or not all(type(item) in _NUMBERS for item in items):
        return items  # hashes of texts are others in each process: the library leaves these as they are
    for candidate in _candidates(items):
        if list(set(candidate)) == items:
            return candidate
    return items


def _candidates(items: List[Any]) -> Iterator[List[Any]]:
    yield items
    yield items[::-1]
    yield sorted(items)
    yield sorted(items, reverse=True)
    # those that stand where their hash says come first, as they were there before what had to give way
    size = 8
    while size <= 16 * len(items):
        homes = [hash(item) & (size - 1) for item in items]
        inside = [i for i in range(len(items)) if all(homes[j] <= homes[i] for j in (i - 1,) if j >= 0)
                  and all(homes[j] >= homes[i] for j in (i + 1,) if j < len(items))]
        first = set(inside)
        yield [items[i] for i in inside] + [items[i] for i in range(len(items)) if i not in first]
        size *= 2
    if len(items) <= _FEW:
        from itertools import permutations

        for candidate in permutations(items):
            yield list(candidate)

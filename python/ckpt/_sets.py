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
_FEW, _MANY = 6, 64  # up to which every order, and better ones, are tried


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
    if len(items) <= _MANY:
        yield _improved(items, items)
        yield _improved(items[::-1], items)
    if len(items) <= _FEW:
        from itertools import permutations

        for candidate in permutations(items):
            yield list(candidate)


def _wrong(candidate: List[Any], items: List[Any]) -> List[Any]:
    """Those that do not stand where they should."""
    return [item for item, wanted in zip(set(candidate), items) if item != wanted]


def _improved(candidate: List[Any], items: List[Any]) -> List[Any]:
    """CANDIDATE with some first, so that they stand where their hashes say, and others last, as they gave way."""
    wrong = _wrong(candidate, items)
    better = True
    while wrong and better:
        better = False
        for item in wrong:
            rest = [other for other in candidate if other != item]
            for moved in ([item] + rest, rest + [item]):
                found = _wrong(moved, items)
                if len(found) < len(wrong):
                    candidate, wrong, better = moved, found, True
                    break
            if better:
                break
    return candidate

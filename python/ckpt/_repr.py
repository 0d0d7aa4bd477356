# SPDX-License-Identifier: Apache-2.0
"""repr() of what load() gives: short and quick, whatever the file holds, and without characters that a terminal acts on."""

from __future__ import annotations

import reprlib
from itertools import islice

from ._errors import shown

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Iterable

    from ._load import Factory, Global, Missing, Opaque

_MOST_PARTS = 100  # objects in objects that are shown
_MOST_NAME = 100


def name_text(text: Any) -> str:
    """A name of the file."""
    name = shown(str(text)[:_MOST_NAME + 1])
    return name if len(name) <= _MOST_NAME else name[:_MOST_NAME] + "..."


def _is_nothing(value: Any) -> bool:
    return value is None or isinstance(value, (tuple, list, dict)) and not value


class _Repr(reprlib.Repr):
    """Of one object. What is shared in the file is met again in each place: so many parts are shown, and no more."""

    def __init__(self) -> None:
        super().__init__()
        self._left = _MOST_PARTS
        self.maxother = 100

    def repr1(self, x: Any, level: int) -> str:
        self._left -= 1
        return super().repr1(x, level) if self._left >= 0 else "..."

    def _row(self, items: Iterable[Any], count: int, level: int, most: int) -> str:
        if level <= 0:
            return "..." if count else ""
        texts = [self.repr1(item, level - 1) for item in islice(items, most)]
        return ", ".join(texts + ["..."] if count > most else texts)

    # unlike those of reprlib, in the order that they have: to sort them is work without a limit

    def repr_set(self, x: Any, level: int) -> str:
        return "{%s}" % self._row(x, len(x), level, self.maxset) if x else "set()"

    def repr_frozenset(self, x: Any, level: int) -> str:
        return "frozenset({%s})" % self._row(x, len(x), level, self.maxfrozenset) if x else "frozenset()"

    def repr_dict(self, x: Any, level: int) -> str:
        if level <= 0:
            return "{...}" if x else "{}"
        texts = ["%s: %s" % (self.repr1(key, level - 1), self.repr1(value, level - 1)) for key, value in islice(x.items(), self.maxdict)]
        return "{%s}" % ", ".join(texts + ["..."] if len(x) > self.maxdict else texts)

    def repr_int(self, x: int, level: int) -> str:
        if x.bit_length() > 128:  # more digits than Python makes, perhaps
            return "<int of %d bits>" % x.bit_length()
        return repr(x)

    def repr_bytes(self, x: Any, level: int) -> str:
        return repr(x) if len(x) <= self.maxstring else repr(x[:self.maxstring]) + "..."

    repr_bytearray = repr_bytes

    def repr_instance(self, x: Any, level: int) -> str:
        name = type(x).__name__
        if isinstance(x, dict):  # OrderedDict, defaultdict, Counter
            return "%s(%s)" % (name, self.repr_dict(x, level))
        if isinstance(x, tuple):
            return "%s(%s)" % (name, self._row(x, len(x), level, self.maxtuple))
        return super().repr_instance(x, level)

    def repr_Size(self, x: Any, level: int) -> str:
        return "ckpt.Size([%s])" % self._row(x, len(x), level, self.maxtuple)

    def repr_Global(self, x: Global, level: int) -> str:
        return "<ckpt.Global %s.%s>" % (name_text(x.module), name_text(x.name))

    def repr_Factory(self, x: Factory, level: int) -> str:
        return "<ckpt.Factory %s>" % self._one(x.made_by, level)

    def repr_Missing(self, x: Missing, level: int) -> str:
        return "<ckpt.Missing: %s>" % shown(x.why)

    def repr_Opaque(self, x: Opaque, level: int) -> str:
        text = self._one(x.callable, level) if x.module is None else "%s.%s" % (name_text(x.module), name_text(x.name))
        if level > 0:
            parts = (("args", x.args), ("state", x.state), ("items", x.items), ("pairs", x.pairs))
            text += "".join(" %s=%s" % (key, self.repr1(value, level - 1)) for key, value in parts if not _is_nothing(value))
        return "<ckpt.Opaque %s>" % text

    def _one(self, x: Any, level: int) -> str:
        return self.repr1(x, level - 1) if level > 0 else "..."


def brief(x: Any) -> str:
    return _Repr().repr(x)

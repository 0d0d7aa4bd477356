# SPDX-License-Identifier: Apache-2.0
"""Whether Python keeps a text once for all that use it, as it does with names in programs.

Of those, equal ones are one object, also with texts that torch writes itself ("cpu"), and pickle writes an object once.
"""

from __future__ import annotations

import sys

_WORDS = tuple(sys.intern(word) for word in ("cpu", "storage", "cuda:0", "latin1"))
_MOST = 256  # no name is longer


def _by_a_copy(text: str) -> bool:
    """Up to 3.11: interning a copy gives TEXT, or the copy, which is forgotten then."""
    return len(text) <= _MOST and sys.intern(("\0" + text)[1:]) is text


def _of_words(text: str) -> bool:
    """3.12 has no word for it, and keeps forever what is interned: only texts of torch's are looked at."""
    return text in _WORDS and any(text is word for word in _WORDS)


_is_kept = getattr(sys, "_is_interned", _by_a_copy if sys.version_info < (3, 12) else _of_words)


def is_interned(text: str) -> bool:
    """Whether TEXT is kept once; a letter is, unless a subclass of str made it as a copy of itself."""
    return len(text) == 1 and text < "\u0100" and text is chr(ord(text)) or _is_kept(text)

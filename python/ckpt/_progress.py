# SPDX-License-Identifier: Apache-2.0
"""What `progress=` may be: a function of (done, total), a bar of tqdm, or its class.

Whatever the call is, DONE never falls and is never more than TOTAL, TOTAL only grows, and a call that did not fail told its end, if it told anything.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable, Optional


class Told:
    """`with Told(progress) as tell`: TELL is for the library, or for a call inside of this one. A block that did not fail ends with all done."""

    def __init__(self, progress: Any) -> None:
        is_class = isinstance(progress, type) and hasattr(progress, "update")
        self._make: Any = progress if is_class else None
        self._bar: Any = progress if not is_class and hasattr(progress, "update") and hasattr(progress, "n") else None
        self._function: Optional[Callable[[int, int], object]] = None
        self._before = 0  # what earlier steps had to do
        self._done = 0
        self._total = 0
        if self._make is not None or self._bar is not None:
            self._function = self._move
        elif progress is not None:
            if not callable(progress):
                raise TypeError("progress is a function of (done, total), or a bar of tqdm, not %r" % (progress,))
            self._function = progress

    def _move(self, done: int, total: int) -> None:
        if self._bar is None:
            self._bar = self._make(total=total, unit="B", unit_scale=True)
        elif self._bar.total != total:
            self._bar.total = total
        self._bar.update(done - self._bar.n)

    def _tell(self, done: int, total: int) -> None:
        total = max(self._total, self._before + total)
        done = max(self._done, min(self._before + done, total))
        if total and (done, total) != (self._done, self._total):
            self._done, self._total = done, total
            assert self._function is not None
            self._function(done, total)

    def next(self) -> None:
        """Another step begins, with a total of its own."""
        self._before = self._total

    def __enter__(self) -> Optional[Callable[[int, int], object]]:
        return None if self._function is None else self._tell

    def __exit__(self, kind: Any, *_: object) -> None:
        try:
            if kind is None and self._done < self._total:  # what needed no reading is not told
                self._tell(self._total, self._total)
        finally:
            if self._make is not None and self._bar is not None:
                self._bar.close()

# SPDX-License-Identifier: Apache-2.0
"""What `progress=` may be: a function of (done, total), a bar of tqdm, or its class."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable, Optional


class Told:
    """`with Told(progress) as tell`: TELL is for the library, and a bar is at its end after a block that did not fail."""

    def __init__(self, progress: Any) -> None:
        is_class = isinstance(progress, type) and hasattr(progress, "update")
        self._make: Any = progress if is_class else None
        self._bar: Any = progress if not is_class and hasattr(progress, "update") and hasattr(progress, "n") else None
        self._function: Optional[Callable[[int, int], object]] = None
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

    def __enter__(self) -> Optional[Callable[[int, int], object]]:
        return self._function

    def __exit__(self, kind: Any, *_: object) -> None:
        if self._bar is None:
            return
        if kind is None and self._bar.total is not None:  # what needed no reading is not told
            self._move(self._bar.total, self._bar.total)
        if self._make is not None:
            self._bar.close()

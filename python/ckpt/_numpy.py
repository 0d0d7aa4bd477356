# SPDX-License-Identifier: Apache-2.0
"""What is a class of numpy's, and so only imported when numpy is used."""

from __future__ import annotations

from typing import Any, Optional, Tuple

import numpy


class BitsArray(numpy.ndarray):  # type: ignore
    """Integers that are the bits of a dtype which numpy does not have: `ckpt_dtype`, "bfloat16" say."""

    _bits: Tuple[Optional[str], Any] = (None, None)  # what the items are, and the dtype that they have as long as they are that

    @property
    def ckpt_dtype(self) -> Optional[str]:
        name, dtype = self._bits
        return name if dtype == self.dtype else None  # view("f2") is of other numbers

    @ckpt_dtype.setter
    def ckpt_dtype(self, name: Optional[str]) -> None:
        self._bits = (name, self.dtype)

    def __array_finalize__(self, base: Any) -> None:
        self._bits = getattr(base, "_bits", (None, None))

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **options: Any) -> Any:
        """What is computed of the bits are no bits of numbers any more."""
        plain = [one.view(numpy.ndarray) if isinstance(one, BitsArray) else one for one in inputs]
        out = options.get("out")
        if out is not None:
            options["out"] = tuple(one.view(numpy.ndarray) if isinstance(one, BitsArray) else one for one in out)
        made = getattr(ufunc, method)(*plain, **options)
        return made if out is None or len(out) != 1 else out[0]

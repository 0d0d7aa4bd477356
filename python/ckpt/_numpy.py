# SPDX-License-Identifier: Apache-2.0
"""What is a class of numpy's, and so only imported when numpy is used."""

from __future__ import annotations

from typing import Any, Optional

import numpy


class BitsArray(numpy.ndarray):  # type: ignore
    """Integers that are the bits of a dtype which numpy does not have: `ckpt_dtype`, "bfloat16" say."""

    ckpt_dtype: Optional[str] = None

    def __array_finalize__(self, base: Any) -> None:
        # of views; what is computed of integers are no bits of floats any more
        if base is not None and self.dtype == base.dtype:
            self.ckpt_dtype = getattr(base, "ckpt_dtype", None)

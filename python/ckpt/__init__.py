# SPDX-License-Identifier: Apache-2.0
"""PyTorch checkpoints without torch: read in part, safely, on any machine."""

from ._ckpt import version
from ._errors import Error

__all__ = ["Error", "version"]
__version__ = version()

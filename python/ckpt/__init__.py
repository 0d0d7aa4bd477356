# SPDX-License-Identifier: Apache-2.0
"""PyTorch checkpoints without torch: read in part, safely, on any machine.

    with ckpt.open("model.pt") as f:
        f["encoder.weight"][0:10, ::2]      # reads only that
        f.value("epoch")
    state = ckpt.load("model.pt")           # classes become ckpt.Opaque; nothing is executed

numpy and torch are used if they are there and asked for; neither is needed.
"""

from __future__ import annotations

# all of them now: a signal's handler may use any, and must not interrupt the import of one
from . import _files, _progress, _repr, _write  # noqa: F401
from ._checkpoint import Checkpoint, Storage, Tensor
from ._ckpt import version as _version
from ._convert import average, convert, merge, reindex, repair, split
from ._errors import Error
from ._load import Factory, Global, Missing, Opaque, Size, Values, load
from ._reports import diff, latest, scan, stat, verify, why
from ._save import save

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, List, Optional

__version__ = _version()
__all__ = [
    "Checkpoint", "Error", "Factory", "Global", "Missing", "Opaque", "Size", "Storage", "Tensor", "Values", "average", "convert", "diff", "latest",
    "load", "merge", "open", "reindex", "repair", "safe_open", "save", "scan", "split", "stat", "verify", "why",
]


def open(source: Any, framework: Optional[str] = None, device: Any = "cpu", brief: bool = False) -> Checkpoint:
    """Open a checkpoint: a mapping from the names of its tensors to lazy ckpt.Tensor objects.

    SOURCE     a path of anything that `ckpt ls` reads: a file of torch.save or safetensors, a DCP,
               ZeRO or Hugging Face directory, "archive.zip::model.pt"; or bytes; or an open file
    FRAMEWORK  "numpy" or "torch": what indexing and get_tensor() give. None: numpy, or memoryviews
               where there is no numpy
    DEVICE     where tensors of torch go
    BRIEF      it will only be listed: half of the time and memory for very many tensors
    """
    return Checkpoint(source, framework=framework, device=device, brief=brief)


def safe_open(filename: Any, framework: Optional[str] = None, device: Any = "cpu") -> Checkpoint:
    """open(), by the name and words that safetensors has for it."""
    return Checkpoint(filename, framework=framework, device=device)


def __getattr__(name: str) -> Any:
    if name == "torch":
        from importlib import import_module

        try:
            return import_module(".torch", __name__)
        except ModuleNotFoundError as error:
            if error.name != "torch":
                raise
            # no other error: who looks through a module, as help() does, goes on then
            raise AttributeError("ckpt.torch needs torch, which is not installed") from error
    raise AttributeError("module 'ckpt' has no attribute %r" % name)


def __dir__() -> List[str]:
    return sorted(set(globals()) | {"torch"})

# SPDX-License-Identifier: Apache-2.0
"""From one form to another: the bytes of the commands `ckpt convert`, `merge`, `split`, `average`, `reindex` and `repair`."""

from __future__ import annotations

from . import _ckpt
from ._checkpoint import Checkpoint
from ._edits import _TORCH_NAMES, names_of
from ._progress import Told
from ._values import refuse

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Dict, List, Optional, Sequence, Union

    Names = Union[str, Sequence[str]]

_PROVEN_ONLY = 1
_OTHERS_LAST, _EMA = 1, 2  # enum ckpt_average_flags
_REPLACE, _NO_SYNC, _DRY_RUN, _HARD_LINK = 1, 2, 8, 16  # enum ckpt_save_flags
_FILLS = {None: 0, "zeros": 1, "nan": 2}
_FOREIGN = (".gguf", ".onnx", ".h5", ".hdf5", ".pb", ".tflite", ".msgpack", ".npy")


def _format_of(target: Any) -> str:
    """What TARGET is to be, by its name."""
    import os

    if hasattr(target, "write"):
        return "torch"
    text = os.fsdecode(target)
    end = os.path.splitext(text)[1].lower()
    if end in _FOREIGN or text.lower().endswith(".index.json"):
        raise refuse("%s: that is the name of a format that is not written; to=... says which it is to be" % text, "ARG")
    return {".safetensors": "safetensors", ".npz": "npz"}.get(end, "torch")


def _with_edits(report: Dict[str, Any], f: Checkpoint, before: int) -> Dict[str, Any]:
    """What was done on the way is a part of what is said: how many tensors another format had no place for."""
    report["edits"] = f.edits[before:]
    return report


def convert(source: Any, target: Any, to: Optional[str] = None, at: Optional[str] = None, state_dict: bool = False,
            overwrite: bool = False, progress: Any = None, dequantize: Optional[str] = None, as_: Optional[str] = None, config: Any = None,
            **options: Any) -> Dict[str, Any]:
    """Write SOURCE, a path or an open checkpoint, to TARGET in another format. Returns facts about the new file, and in "edits" about
    what was done on the way: "tensors_dropped" of {"edit": "weights", ...} are those that stood beside the state dict and are not in it.

    TO          "torch", "torch-legacy", "safetensors", "npz", "npy"; None: what TARGET is named like
    AT          safetensors: which state dict; else, and with STATE_DICT: of which module
    STATE_DICT  take what the state_dict() of a module that was saved whole, or of a program, holds
    DEQUANTIZE  "bf16", "f16", "f32": quantized weights become plain ones of that dtype; AS_ and CONFIG are those of Checkpoint.dequantize()
    OPTIONS     profile, shared, drop_others, shard_size, byteorder, alignment, crc ...: see Checkpoint.save()
    """
    if dequantize is None and (as_ is not None or config is not None):
        raise ValueError("as_ and config say how weights are quantized, which only dequantize= asks")
    opened = None if isinstance(source, Checkpoint) else Checkpoint(source)
    f: Checkpoint = source if opened is None else opened
    before = len(f.edits)
    try:
        if dequantize is not None:
            f = f.dequantize(dequantize, as_, config)
        form = to or ("safetensors" if options.get("shard_size") else _format_of(target))
        weights = form == "safetensors" or bool(options.get("shard_size"))
        first = state_dict or f.info["is_program"] or (at is not None and not weights)
        if first:
            f = f.state_dict(at)
        if weights:
            f = f.weights(None if first else at)
        report = f.save(target, overwrite=overwrite, format=form, progress=progress, canonical=True, **options)
        return _with_edits(report, f, before)
    finally:
        if opened is not None:
            opened.close()


def merge(source: Any, target: Any, only: Names = (), int_keys: bool = False, shards_only: bool = False,
          overwrite: bool = False, progress: Any = None, **options: Any) -> Dict[str, Any]:
    """Write a directory of shards (DCP, DeepSpeed, Hugging Face, files of ranks) as one file, without torch.

    ONLY         patterns of the entries to take
    INT_KEYS     turn the keys "0", "1" ... of an optimizer's state back into numbers
    SHARDS_ONLY  leave out Lightning's meta.pt and Megatron's common.pt
    OPTIONS      profile ...: see Checkpoint.save()
    """
    import os

    form = _format_of(target)
    if form == "npz":
        raise refuse("%s: merge writes a file of torch or safetensors" % os.fsdecode(target), "ARG")
    f = opened = Checkpoint(source)
    try:
        for name in ("meta.pt", "common.pt") if not shards_only and form == "torch" else ():
            beside = os.path.join(os.fsdecode(source), name)
            if os.path.exists(beside):
                f = f._derived(f._model.add_file(beside), {"edit": "add_file"})
        if names_of(only):
            f = f.select(*names_of(only))
        if int_keys:
            f = f.number_keys()
        if form == "safetensors":
            f = f.weights()
        return _with_edits(f.save(target, overwrite=overwrite, format=form, progress=progress, **options), f, 0)
    finally:
        opened.close()


def split(source: Any, target: Any, ranks: int, to: str = "dcp", dim: Union[int, str] = 0, keep_whole: int = 0,
          at: Optional[str] = None, overwrite: bool = False, progress: Any = None, **options: Any) -> Dict[str, Any]:
    """Write SOURCE, a path or an open checkpoint, as a directory of shards for RANKS ranks.

    TO          "dcp", or "safetensors": one state dict, as torch's HuggingFaceStorageWriter leaves it
    DIM         which dimension of a tensor is cut, or "best": for each the one that fits best
    KEEP_WHOLE  tensors of fewer bytes stay whole
    AT          safetensors: which state dict
    OPTIONS     shared, drop_others, alignment ...: see Checkpoint.save()
    """
    if to not in ("dcp", "safetensors"):
        raise ValueError("to is 'dcp' or 'safetensors', not %r" % (to,))
    if ranks < 1:
        raise ValueError("ranks is a number from 1 on, not %r" % (ranks,))
    opened = None if isinstance(source, Checkpoint) else Checkpoint(source)
    f: Checkpoint = source if opened is None else opened
    before = len(f.edits)
    try:
        if to == "safetensors":
            f = f.weights(at)
        report = f.save(target, overwrite=overwrite, format=to, ranks=ranks, shard_dim=-1 if dim == "best" else dim,
                        least_shard=keep_whole, progress=progress, **options)
        return _with_edits(report, f, before)
    finally:
        if opened is not None:
            opened.close()


def average(sources: Sequence[Any], target: Any, weights: Optional[Sequence[float]] = None, ema: Optional[float] = None,
            only: Names = (), others: Optional[str] = None, profile: Optional[str] = None, overwrite: bool = False,
            progress: Any = None, as_: Optional[str] = None, **options: Any) -> Dict[str, Any]:
    """Write the mean of SOURCES, paths or open checkpoints, to TARGET: of each floating and complex tensor, number by number.

    WEIGHTS  a number for each of SOURCES, divided by their sum; None: all the same
    EMA      as a training averages: e = EMA * e + (1 - EMA) * x, the oldest first
    ONLY     patterns of the tensors to average
    OTHERS   "last": all else is that of the last of SOURCES; None: it has to be equal in all of them
    AS_      how weights are quantized, as of Checkpoint.cast(): their parts have no mean (error QUANTIZED). "plain": not at all
    OPTIONS  no_sync, dry_run ...: see Checkpoint.save()

    The format is that of the first, or of the last with OTHERS="last".
    """
    if others not in (None, "last"):
        raise ValueError("others is 'last' or None, not %r" % (others,))
    if weights is not None and ema is not None:
        raise ValueError("weights and ema exclude each other")
    opened: List[Checkpoint] = []
    try:
        inputs: List[Checkpoint] = []
        for source in sources:
            if not isinstance(source, Checkpoint):
                opened.append(Checkpoint(source))
            inputs.append(source if isinstance(source, Checkpoint) else opened[-1])
        numbers = None if weights is None else [float(weight) for weight in weights]
        flags = (_OTHERS_LAST if others else 0) | (_EMA if ema is not None else 0)
        model, report = _ckpt.average([one._model for one in inputs], flags, names_of(only), numbers, ema or 0.0, as_)
        f = inputs[-1 if others else 0]._derived(model, dict(report, edit="average"))
        try:
            if report["unmatched"] is not None:
                raise refuse("no floating tensor is named like '%s'" % report["unmatched"], "NOTFOUND")
            return f.save(target, overwrite=overwrite, profile=profile, progress=progress, **options)
        finally:
            f.close()
    finally:
        for one in opened:
            one.close()


def reindex(path: Any, target: Any = None, for_torch: Optional[str] = None, from_ranks: bool = False, overwrite: bool = False,
            no_sync: bool = False, dry_run: bool = False, hard_link: bool = False, progress: Any = None) -> Dict[str, Any]:
    """Write the index of the DCP directory PATH anew: in place, or in TARGET, a new directory with the same data files.

    FOR_TORCH   the oldest torch that has to load it: "1.13", or "2.0" and later; None: "2.0"
    FROM_RANKS  from the indexes of single ranks, although there is a .metadata
    HARD_LINK   TARGET gets names of the same data files

    Returns "source" and "indexes" (what it was made from), "entries", "chunks", "uncovered", "nbytes".
    """
    flags = (_REPLACE if overwrite else 0) | (_NO_SYNC if no_sync else 0) | (_DRY_RUN if dry_run else 0) | (_HARD_LINK if hard_link else 0)
    with Told(progress) as tell:
        return _ckpt.reindex(path, target, flags, for_torch, from_ranks, tell)


def repair(path: Any, target: Any = None, fill: Optional[str] = None, proven_only: bool = False, overwrite: bool = False,
           dry_run: bool = False, threads: int = 0, progress: Any = None) -> Dict[str, Any]:
    """Write what the damaged file PATH still holds to TARGET; None: only say what that is. Returns what `ckpt repair --json` prints.

    "verdict" is "repaired" (all of it), "partial", or "sound": then there is nothing to repair, and nothing is written.
    FILL: lost tensors become "zeros" or "nan"; None: they are left out. PROVEN_ONLY: what no checksum proves counts as lost.
    """
    if fill not in _FILLS:
        raise ValueError("fill is 'zeros' or 'nan', not %r" % (fill,))
    written = 0
    steps = Told(progress)
    with steps as tell:
        model, report, findings = _ckpt.repair_open(path, _PROVEN_ONLY if proven_only else 0, _FILLS[fill], threads, tell)
        try:
            if target is not None and report["verdict"] != "sound":
                _check_name(model, target)
                steps.next()
                written = model.save(target, overwrite=overwrite, dry_run=dry_run, threads=threads, progress=tell)["written"]
        finally:
            model.close()
    head = {"input": {"path": path}}
    if target is not None:
        head["output"] = {"path": target}
    return dict(head, findings=findings, written=written, dry_run=dry_run, **report)


def _check_name(model: _ckpt.Model, target: Any) -> None:
    """What is written has the form of what was read, and TARGET must not say otherwise."""
    import os

    text = os.fsdecode(target)
    end = os.path.splitext(text)[1].lower()
    safetensors = model.file_info()["format_code"] == 8  # CKPT_FORMAT_SAFETENSORS
    if safetensors and end in _TORCH_NAMES or not safetensors and end == ".safetensors":
        raise refuse("%s: a repair keeps the format, and that is the name of another one" % text, "ARG")

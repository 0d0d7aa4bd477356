# SPDX-License-Identifier: Apache-2.0
"""What is in a checkpoint, and what is wrong with it: dicts in the shape of the command's --json (docs/json.md).

Numbers that JSON lacks are floats here: infinity is no text. Nothing in a file is executed.
"""

from __future__ import annotations

from . import _ckpt
from ._checkpoint import Checkpoint
from ._edits import names_of
from ._errors import shown
from ._progress import Told

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Dict, List, Optional, Sequence, Union

    Names = Union[str, Sequence[str]]
    Report = Dict[str, Any]

# flags of <ckpt/verify.h> and <ckpt/diff.h>
_QUICK, _FINITE, _REQUIRE_CHECKSUMS = 1, 2, 4
_DIFF_QUICK, _DIFF_READ, _STRICT, _IGNORE_DEVICE, _IGNORE_DTYPE, _TRUST_CHECKSUMS = 1, 2, 4, 8, 16, 32
_ORDERS = ("change", "rms", "name")
_DEPTH_MODULE = 2**64 - 1  # CKPT_DEPTH_MODULE of <ckpt/text.h>


def verify(path: Any, quick: bool = False, check_finite: bool = False, require_checksums: bool = False,
           sha256: Optional[str] = None, sha256sums: Optional[str] = None, threads: int = 0, progress: Any = None) -> Report:
    """Whether the file or directory PATH is as it was written: "verdict" is "sound", "complete", "unproven" or "damaged".

    "findings" is a list of what is wrong, odd or cannot be told. QUICK: read no bytes of tensors. CHECK_FINITE: NaN and
    infinity are findings. SHA256, SHA256SUMS: the sum of the file, or a list of sums as sha256sum writes it, to compare with.
    PROGRESS: called with bytes (done, total), or a bar of tqdm, or its class; what it raises ends it.
    """
    flags = (_QUICK if quick else 0) | (_FINITE if check_finite else 0) | (_REQUIRE_CHECKSUMS if require_checksums else 0)
    if quick and (check_finite or sha256 or sha256sums):
        raise ValueError("check_finite and sha256 read what quick leaves out")
    with Told(progress) as tell:
        return dict({"input": {"path": path}}, **_ckpt.verify(path, flags, sha256, sha256sums, threads, tell))


def scan(path: Any, threads: int = 0, progress: Any = None) -> Report:
    """What loading the file PATH, or each file in the folder, would import and run. Nothing is loaded.

    "files" is a list, each with its "verdict": "plain", "needs-objects", "unreadable", "inconsistent" or "dangerous"; and
    "counts" says how many have which. "loaders": for these that holds.
    """
    with Told(progress) as tell:
        return _ckpt.scan_report(path, threads, tell)


def why(path: Any = None, error: Union[None, str, BaseException] = None, threads: int = 0) -> Report:
    """Why the checkpoint at PATH does not load: "causes", the most likely first, each with "mends".

    ERROR  the exception that the load raised, or what it printed. Without one the causes are all that can go wrong;
           without PATH they are what the error means.
    """
    text: Union[None, str, bytes] = None
    if isinstance(error, BaseException):
        import traceback

        text = "".join(traceback.format_exception(type(error), error, error.__traceback__))
    else:
        text = error
    if text is not None and isinstance(text, str):
        text = text.encode("utf-8", "backslashreplace")
    report = _ckpt.why(path, text, threads)
    large = [cause for cause in report["causes"] if cause["certainty"] == "large"]
    report["causes"] = [cause for cause in report["causes"] if cause["certainty"] != "large"]
    report["large"] = large
    return dict({"input": {"path": path}}, **report) if path is not None else report


def diff(a: Any, b: Any, keep: Names = (), drop: Names = (), quick: bool = False, strict: bool = False, rtol: float = 0.0,
         atol: float = 0.0, ignore_device: bool = False, ignore_dtype: bool = False, trust_checksums: bool = False,
         order: str = "change", threads: int = 0, progress: Any = None) -> Report:
    """What differs in B from A, two paths or open checkpoints: "verdict" is "same", "different" or "unreadable".

    "differences" has what is removed, added, renamed and changed, with how far the numbers are apart. KEEP, DROP: patterns
    over names. QUICK: read no bytes of tensors. STRICT: also strides, classes, the order of keys. RTOL, ATOL: as for
    numpy.allclose(). TRUST_CHECKSUMS: equal recorded checksums are enough. ORDER: of changed tensors, "change", "rms" or "name".
    """
    if order not in _ORDERS:
        raise ValueError("order is one of %s, not %r" % (", ".join(_ORDERS), order))
    flags = (_DIFF_QUICK if quick else 0) | (_STRICT if strict else 0) | (_IGNORE_DEVICE if ignore_device else 0)
    flags |= (_IGNORE_DTYPE if ignore_dtype else 0) | (_TRUST_CHECKSUMS if trust_checksums else 0)
    opened: List[Checkpoint] = []
    try:
        sides = [_open(one, opened) for one in (a, b)]
        with Told(progress) as tell:
            return sides[0]._model.diff(sides[1]._model, flags, names_of(keep), names_of(drop), rtol, atol, _ORDERS.index(order),
                                        threads, tell)
    finally:
        for one in opened:
            one.close()


def stat(source: Any, *patterns: str, bins: int = 0, quantiles: Sequence[float] = (), depth: Union[int, str] = 0, threads: int = 0,
         progress: Any = None) -> Report:
    """Statistics of the tensors of SOURCE, a path or an open checkpoint, whose names match one of PATTERNS, or of all.

    "tensors" has min, max, mean, std, norm and how many are zero, NaN and infinite of each; "totals" those of all, and of
    each dtype. BINS: with histograms. QUANTILES: numbers from 0 to 1. DEPTH: "groups" by so many first parts of the names;
    "module": by all parts but the last.
    """
    if isinstance(depth, str) and depth != "module":
        raise ValueError('depth is a number or "module", not %r' % (depth,))
    if not isinstance(depth, str) and depth < 0:
        raise ValueError("depth is a number from 0 on, not %r" % (depth,))
    parts = _DEPTH_MODULE if isinstance(depth, str) else depth
    opened: List[Checkpoint] = []
    try:
        with Told(progress) as tell:
            return _open(source, opened)._model.stat(patterns, bins, quantiles, parts, threads, tell)
    finally:
        for one in opened:
            one.close()


def _open(source: Any, opened: List[Checkpoint]) -> Checkpoint:
    """SOURCE if it is open, else opened, and put into OPENED."""
    if isinstance(source, Checkpoint):
        return source
    opened.append(Checkpoint(source))
    return opened[-1]


# ---- the newest ----

# what is written last of a directory, and tells its time
_INDEXES = (".metadata", "metadata.pkl", "model.safetensors.index.json", "pytorch_model.bin.index.json")


def latest(folder: Any, quick: bool = False, progress: Any = None) -> Optional[str]:
    """The path of the newest checkpoint in FOLDER that verifies, or None: what is damaged or unfinished is passed over.

    The time of a directory is that of its index. One without checksums counts if nothing else is wrong with it.
    """
    import os
    import re

    from ._errors import Error, make

    where: str = os.fsdecode(folder)
    found = []
    try:
        names = os.listdir(where)
    except OSError as error:
        raise make(-3, error.errno or 0, shown(where), "", None, 0, "cannot list it: %s" % error.strerror) from None
    for name in names:
        path = os.path.join(where, name)
        if not name.startswith(".") and (os.path.isfile(path) or os.path.isdir(path)):
            # of the same time, the later name first; numbers in it count as numbers
            parts = [(int(part), part) if part.isdecimal() and part.isascii() else (-1, part) for part in re.split(r"([0-9]+)", path)]
            try:
                found.append((_time_of(path), parts, path))
            except OSError:  # it is gone meanwhile
                continue
    steps = Told(progress)
    with steps as tell:
        for _, _, path in sorted(found, reverse=True):
            steps.next()
            try:
                if verify(path, quick=quick, progress=tell)["verdict"] != "damaged":
                    return path
            except Error:
                continue
    return None


def _time_of(path: str) -> int:
    import os

    for name in _INDEXES if os.path.isdir(path) else ():
        try:
            return os.stat(os.path.join(path, name)).st_mtime_ns
        except OSError:
            continue
    return os.stat(path).st_mtime_ns

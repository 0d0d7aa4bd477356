# SPDX-License-Identifier: Apache-2.0
"""A model goes to a path or to an open file."""

from __future__ import annotations

from . import _ckpt
from ._progress import Told

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Dict, Optional

PIECE = 1 << 20


def position(target: Any) -> Optional[int]:
    """Where an open file stands that has a position: it may be the one that tensors are read from, which moves it."""
    seekable = getattr(target, "seekable", None)
    if not hasattr(target, "write") or seekable is None or not seekable():
        return None
    at: int = target.tell()
    return at


def write(model: _ckpt.Model, target: Any, progress: Any = None, at: Optional[int] = None, **options: Any) -> Dict[str, Any]:
    """Save MODEL. An open file gets nothing before all of it is there, and that where it stands, or stood AT."""
    with Told(progress) as tell:
        if not hasattr(target, "write"):
            return model.save(target, progress=tell, **options)
        return _write_stream(model, target, tell, position(target) if at is None else at, options)


def _write_stream(model: _ckpt.Model, target: Any, tell: Any, at: Optional[int], options: Dict[str, Any]) -> Dict[str, Any]:
    import tempfile

    stream = tempfile.TemporaryFile()
    try:
        return _send(model, stream, target, tell, at, options)
    finally:
        _close_later(stream)


def _close_later(stream: Any) -> None:
    """The close() of an unnamed file gives its bytes back, for which a disk may take seconds: Ctrl-C does not wait."""
    import threading

    try:
        threading.Thread(target=stream.close).start()
    except RuntimeError:  # the interpreter ends
        stream.close()


def _send(model: _ckpt.Model, stream: Any, target: Any, tell: Any, at: Optional[int], options: Dict[str, Any]) -> Dict[str, Any]:
    import tempfile

    options["spool_folder"] = options.get("spool_folder") or tempfile.gettempdir()
    report = model.save("<file>", out_fd=stream.fileno(), progress=tell, **options)
    stream.seek(0)
    if at is not None and target.tell() != at:
        target.seek(at)
    end = _end_of(target)
    if end is None:
        _copy(stream, target)
        return report
    raw = getattr(target, "raw", target)  # past its buffer, which keeps what a full disk did not take
    try:
        _copy(stream, raw)
        end = raw.tell()
    except BaseException:
        try:  # why it did not take the bytes is what there is to say, whatever a device, or a BytesIO without memory, says now
            raw.truncate(end)
            target.seek(end)
        except (OSError, ValueError):
            pass
        raise
    target.seek(end)
    return report


def _copy(stream: Any, target: Any) -> None:
    import errno
    import io

    while True:
        piece = memoryview(stream.read(PIECE))
        if not piece:
            return
        while piece:
            taken = target.write(piece)
            if taken is None and not isinstance(target, io.RawIOBase):
                taken = len(piece)  # as objects of one's own, which take all, often say
            if not taken or not 0 < taken <= len(piece):
                raise BlockingIOError(errno.EAGAIN, "the file took only a part of the checkpoint")
            piece = piece[taken:]


def _end_of(target: Any) -> Optional[int]:
    """Where a file of the system, or of memory, ends, if it is there that it is written to: to cut it off again."""
    import io

    if type(target) not in (io.FileIO, io.BufferedWriter, io.BufferedRandom, io.BytesIO) or not target.seekable():
        return None
    raw = getattr(target, "raw", target)
    if type(raw) not in (io.FileIO, io.BytesIO):
        return None
    at: int = target.tell()
    if target is not raw:
        target.flush()
    end: int = target.seek(0, 2)
    if end != at:
        target.seek(at)
    return at if end == at else None

# SPDX-License-Identifier: Apache-2.0
"""Open files as what the library reads: any part of them, in any thread.

What must stay true: a file of the system is read by offset, as its position is shared with processes that are forked. All
others have one position, too, however many checkpoints are opened of them: one lock for each file keeps it. Memory stands
afterwards where it stood, as files of the system do, and what is written to it goes there; of others going back may mean to
unpack all again.
"""

from __future__ import annotations

import io
import os
import stat
import sys
from _thread import RLock  # threading takes longer to import than all of this module

from . import _ckpt
from ._values import refuse

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable, Dict, Optional


class _Shared:
    """What all checkpoints of one open file have in common."""

    def __init__(self, source: Any) -> None:
        self.source = source  # so that nothing else gets its id()
        self.users = 0
        self._renew()
        self._is_elsewhere = False

    def _renew(self) -> None:
        self._lock = RLock()
        self._is_read = False

    def _is_memory(self) -> bool:
        mmap = sys.modules.get("mmap")
        return type(self.source) is io.BytesIO or mmap is not None and type(self.source) is mmap.mmap

    def after_fork(self) -> None:
        """The lock may be another thread's, which is not here. Where its bytes are, and the position, only memory is known to have."""
        self._renew()
        self._is_elsewhere = not self._is_memory()

    def _alone(self, use: Callable[[], Any]) -> Any:
        """What USE gives, which uses its position."""
        if self._is_elsewhere:
            raise refuse("the open file is shared with the process that this one was forked from: open it and the checkpoint again")
        with self._lock:
            # what a signal reads between these two lines is read before anything else
            if self._is_read:
                raise refuse("the open file is being read by this thread already, which a signal interrupted")
            at = self.source.tell() if self._is_memory() else None
            try:
                self._is_read = True
                return use()
            finally:  # an exception that a signal raises comes behind a call, at the earliest
                self._is_read = False
                if at is not None:
                    self.source.seek(at)

    def size(self) -> int:
        def use() -> Any:
            end = self.source.seek(0, 2)
            return self.source.tell() if end is None else end

        nbytes: int = self._alone(use)
        return nbytes

    def pread(self, offset: int, nbytes: int) -> bytes:
        data: bytes = self._alone(lambda: self._read(offset, nbytes))
        return data

    def _read(self, offset: int, nbytes: int) -> bytes:
        self.source.seek(offset)
        pieces = []
        while nbytes > 0:
            piece = self.source.read(nbytes)
            if not piece:
                break
            if not isinstance(piece, (bytes, bytearray, memoryview)):
                raise TypeError("read() of the open file gave a %s, not bytes" % type(piece).__name__)
            pieces.append(piece)
            nbytes -= len(piece)
        return b"".join(pieces)

    def drop(self) -> None:
        with _lock:
            self.users -= 1
            if not self.users:
                _shared.pop(id(self.source), None)


_shared: Dict[int, _Shared] = {}  # by the id() of the file
_lock = RLock()


def _after_fork() -> None:
    global _lock
    _lock = RLock()
    for one in list(_shared.values()):
        one.after_fork()


os.register_at_fork(after_in_child=_after_fork)


def _shared_of(source: Any) -> _Shared:
    with _lock:
        found = _shared.get(id(source))
        if found is None:
            found = _shared[id(source)] = _Shared(source)
        found.users += 1
        return found


def _descriptor(source: Any) -> Optional[int]:
    """Of a file of the system whose bytes are those of SOURCE; None: there is none, or only SOURCE itself knows how it is read."""
    tempfile = sys.modules.get("tempfile")
    if tempfile is not None and type(source) is tempfile._TemporaryFileWrapper:
        source = source.file
    if type(source) is io.BufferedRandom:
        source.flush()
    raw = source.raw if type(source) in (io.BufferedReader, io.BufferedRandom) else source
    if type(raw) is not io.FileIO or not raw.readable():
        return None
    return raw.fileno() if stat.S_ISREG(os.fstat(raw.fileno()).st_mode) else None


def open_file(source: Any) -> _ckpt.Model:
    """A model of an open file, which stays as it is meanwhile. One of the system may be closed, and keeps its position."""
    if isinstance(source, io.TextIOBase):
        raise TypeError("the open file is one of text: open it with 'rb'")
    if not hasattr(source, "seek"):
        raise TypeError("a %s is neither a path, bytes nor an open file that can be read from any place" % type(source).__name__)
    number = _descriptor(source)
    if number is not None:
        return _ckpt.open_descriptor(number, os.fstat(number).st_size)
    shared = _shared_of(source)
    try:
        nbytes = shared.size()
    except BaseException:
        shared.drop()
        raise
    return _ckpt.open_reader(shared.pread, nbytes, shared.drop, shared)

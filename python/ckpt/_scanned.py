# SPDX-License-Identifier: Apache-2.0
"""Private copies of what is about to be loaded, and what the scan says of them. No torch here.

What must stay true: a copy is made once, cannot be changed afterwards (a sealed file in memory), and is all that a
loader gets. Nothing reads the original again.
"""

from __future__ import annotations

import fcntl
import io
import os
import pickle
import pickletools

from . import _ckpt
from ._errors import Error

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, List, Optional, Tuple

_PIECE = 1 << 20
_SHORT = 64 << 20
_SEALS = 1 | 2 | 4 | 8  # F_SEAL_SEAL, _SHRINK, _GROW, _WRITE of <linux/fcntl.h>
_PLAIN_ANYWHERE = "text"  # plain, as no loader takes it for a program; none loads it, either


class Refused(Error, pickle.UnpicklingError):
    """A guard refused a load, of which nothing was done.

    verdict   "needs-objects", "unreadable", "inconsistent" or "dangerous": docs/scan.md
    findings  [(verdict, kind, record, offset, text)], the worst first
    globals   [(name, kind, called, record, offset)]: what the load would have imported
    """

    verdict: str = "unreadable"
    findings: List[_ckpt.Finding] = []
    globals: List[Tuple[str, str, bool, str, int]] = []


def refused(text: str, path: Optional[str] = None, verdict: str = "unreadable") -> Refused:
    error = Refused(text)
    error.status, error.text, error.path, error.verdict = "UNSUPPORTED", text, path, verdict
    return error


def _refused_as(verdict: str, findings: List[Any], names: List[Any], path: Optional[str]) -> Refused:
    worst = next((finding for finding in findings if finding[0] == verdict and finding[1] != "objects"), None)
    if worst is not None:
        text = worst[4]
    else:
        some = ["%s" % name for name, kind, _, _, _ in names if kind != "data"]
        text = "it imports %s%s" % (", ".join(some[:3]), " and others" if len(some) > 3 else "")
    error = refused("refused, as it is not plain but %s: %s" % (verdict, text), path, verdict)
    error.findings, error.globals = findings, names
    if worst is not None:
        error.record, error.offset = worst[2] or None, worst[3]
    return error


class Copy:
    """A file in memory with bytes that nobody can change any more. Its descriptor is closed with it, whatever interrupts its user."""

    def __init__(self) -> None:
        self._file = _ckpt.memory_file()

    number = property(lambda self: self._file.fileno())
    path = property(lambda self: "/proc/self/fd/%d" % self.number)
    nbytes = property(lambda self: os.fstat(self.number).st_size)

    def __enter__(self) -> Copy:
        return self

    def __exit__(self, *error: object) -> None:
        self._file.close()

    def write(self, data: Any) -> None:
        left = memoryview(data).cast("B")
        while left:
            left = left[self._file.write(left):]

    def fill(self, stream: Any, most: Optional[int] = None) -> None:
        """With what STREAM has left, or MOST bytes of it."""
        while most is None or most > 0:
            piece = stream.read(_PIECE if most is None else min(most, _PIECE))
            if not piece:
                break
            self.write(piece)
            most = None if most is None else most - len(piece)

    def seal(self) -> None:
        fcntl.fcntl(self.number, getattr(fcntl, "F_ADD_SEALS", 1033), _SEALS)

    def verdict(self) -> Tuple[str, str, List[Any], List[Any]]:
        """(verdict, format, findings, globals)"""
        found = _ckpt.scan(self.path)
        return found[0][1:] if len(found) == 1 else ("unreadable", "unknown", [], [])

    def check(self, path: Optional[str], wanted: Optional[str] = None) -> None:
        """Raise Refused unless it is plain, and of the format WANTED if that is not None. PATH: what messages call it."""
        verdict, form, findings, names = self.verdict()
        if verdict != "plain":
            raise _refused_as(verdict, findings, names, path)
        if form == _PLAIN_ANYWHERE or wanted is not None and form != wanted:
            raise refused("refused, as it is no %s: it is a %s" % (wanted or "checkpoint", form), path)

    def stream(self, as_file: bool) -> Any:
        """To read it, from its start. AS_FILE: with a fileno(), as loaders have ways of their own for files."""
        raw = io.FileIO(self.path, "r")
        return io.BufferedReader(raw) if as_file else _NoFile(raw)


class _NoFile(io.BufferedReader):
    def fileno(self) -> int:
        raise io.UnsupportedOperation("fileno")


def check_pickle(data: bytes, path: Optional[str] = None) -> None:
    """Raise Refused unless DATA is one pickle, to its last byte, and plain."""
    with Copy() as copy:
        copy.write(data)
        copy.seal()
        copy.check(path, "pickle")


# ---- where a pickle ends ----

# of an opcode: how many bytes its argument has; or one of these
_LENGTH1, _LENGTH4, _LENGTH8, _LINE, _LINES, _FRAME, _NONE = -1, -2, -3, -4, -5, -6, -7
_LENGTHS = {_LENGTH1: 1, _LENGTH4: 4, _LENGTH8: 8}
_STOP = ord(".")
_GETS, _MEMOIZE = (ord("g"), ord("h"), ord("j")), 0x94


def _arguments() -> List[int]:
    kinds = {pickletools.UP_TO_NEWLINE: _LINE, pickletools.TAKEN_FROM_ARGUMENT1: _LENGTH1,
             pickletools.TAKEN_FROM_ARGUMENT4: _LENGTH4, pickletools.TAKEN_FROM_ARGUMENT4U: _LENGTH4,
             pickletools.TAKEN_FROM_ARGUMENT8U: _LENGTH8}
    table = [_NONE] * 256
    for code in pickletools.opcodes:
        n = code.arg.n if code.arg is not None else 0
        table[ord(code.code)] = kinds.get(n, n)
        if code.name in ("GLOBAL", "INST"):
            table[ord(code.code)] = _LINES
        elif code.name == "FRAME":
            table[ord(code.code)] = _FRAME
    return table


_ARGUMENTS = _arguments()


class _Bytes:
    """The bytes that a pickle in STREAM has so far. AHEAD: more than are needed may be read, as they can be put back."""

    def __init__(self, stream: Any, ahead: bool) -> None:
        self._read, self._readline, self._ahead = stream.read, stream.readline, ahead
        self._most = 1 << 13
        self.data = bytearray()
        self.has = bytearray(256)  # which opcodes

    def need(self, count: int) -> bool:
        """Have COUNT bytes from the start; False: there are not so many."""
        while len(self.data) < count:
            wanted = count - len(self.data)
            if self._ahead:
                wanted = max(wanted, self._most)
                self._most = min(2 * self._most, _PIECE)
            piece = self._read(min(wanted, _PIECE))
            if not piece:
                return False
            self.data += piece
        return True

    def line(self, at: int) -> int:
        """Where the line that begins at AT ends; -1: nowhere."""
        if not self._ahead and at == len(self.data):
            self.data += self._readline()
        searched = at
        while True:
            end = self.data.find(b"\n", searched)
            if end >= 0:
                return end + 1
            searched = len(self.data)
            if not self.need(searched + 1):
                return -1


def _end(source: _Bytes) -> int:
    """Where the pickle at the start of SOURCE ends; what is no pickle, or is cut off, ends with the bytes that there are."""
    at = 0
    while at < len(source.data) or source.need(at + 1):
        code = source.data[at]
        kind = _ARGUMENTS[code]
        source.has[code] = 1
        at += 1
        if kind > 0:
            at += kind
        elif code == _STOP:
            return at
        elif kind in _LENGTHS:
            width = _LENGTHS[kind]
            if not source.need(at + width):
                break
            at += width + int.from_bytes(source.data[at:at + width], "little")
        elif kind == _FRAME:
            if not source.need(at + 8):
                break
            at += 8
            # who reads it reads all of it at once
            if not source.need(at + int.from_bytes(source.data[at - 8:at], "little")):
                break
        elif kind in (_LINE, _LINES):
            for _ in range(1 if kind == _LINE else 2):
                at = source.line(at)
                if at < 0:
                    return len(source.data)
        elif kind == _NONE:
            break
    return len(source.data)


def cut_pickle(data: bytes) -> bytes:
    """The pickle that DATA begins with."""
    stream = io.BytesIO(data)
    return data[:_end(_Bytes(stream, True))]


def _goes_back(stream: Any) -> bool:
    """Whether what was read of STREAM can be put back cheaply."""
    if isinstance(stream, (io.BufferedReader, io.BufferedRandom)):
        stream = stream.raw
    return type(stream) in (io.BytesIO, io.FileIO) and bool(stream.seekable())


def whole_pickle(stream: Any) -> Optional[bytes]:
    """All of STREAM, if that is one pickle, plain and not too long; else None, and it stands where it was.

    As most files hold one pickle, which the library sees sooner than _end(). Only at the start, so that it is tried once.
    """
    if not _goes_back(stream) or stream.tell():
        return None
    size = stream.seek(0, io.SEEK_END)
    stream.seek(0)
    if not 0 < size <= _SHORT:
        return None
    try:
        data = bytes(stream.read(size))
        check_pickle(data, name_of(stream))
    except BaseException as error:
        stream.seek(0)
        if not isinstance(error, Refused):
            raise
        return None
    return data


class TakenPickle:
    """The next pickle of STREAM, which stands behind it then. put_back(): as if it had not been read, where that is possible."""

    def __init__(self, stream: Any) -> None:
        ahead = _goes_back(stream)
        self._stream, self._start = stream, stream.tell() if ahead else None
        source = _Bytes(stream, ahead)
        end = _end(source)
        self.data = bytes(source.data[:end]) if ahead else bytes(source.data)
        # by numbers that count from 0, unless there was a pickle before it
        self.recalls = bool(source.has[_MEMOIZE]) and any(source.has[code] for code in _GETS)
        if self._start is not None and len(source.data) > end:
            stream.seek(self._start + end)

    def put_back(self) -> None:
        if self._start is not None:
            self._stream.seek(self._start)


def name_of(stream: Any) -> Optional[str]:
    """What messages call STREAM."""
    name = getattr(stream, "name", None)
    return ascii(name)[1:-1] if isinstance(name, str) else None

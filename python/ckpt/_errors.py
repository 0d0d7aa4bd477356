# SPDX-License-Identifier: Apache-2.0
"""What the module raises."""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Dict, Optional, Tuple, Type

# enum ckpt_status and enum ckpt_reason of <ckpt/error.h>, without their prefix
STATUSES = {
    -1: "ARG", -2: "NOMEM", -3: "IO", -4: "FORMAT", -5: "LIMIT", -6: "UNSUPPORTED", -7: "EXISTS",
    -8: "NOTFOUND", -9: "CLASH", -10: "CHANGED", -11: "CANCELLED", -12: "OUTPUT", -13: "PEER",
    -14: "GPU", -15: "DAMAGED",
}
REASONS = {
    1: "TRUNCATED", 2: "STORAGES_MISSING", 3: "ZIP_DIRECTORY", 4: "REPACKED", 5: "DCP_NO_INDEX",
    6: "DCP_REINDEX", 7: "DCP_OLD_INDEX", 8: "DCP_DATA_FILE", 9: "SAME_BYTES", 10: "COMMON_BYTES",
    11: "NO_RECORD", 12: "NOT_ALIKE", 13: "NOT_EQUAL", 14: "OTHER_LAYOUT", 15: "CAST_LOSES",
    16: "QUANTIZED",
}


def escaped(c: str) -> str:
    """As the codec unicode_escape has it, which would be imported for that while a file is read."""
    code = ord(c)
    return {"\t": "\\t", "\n": "\\n", "\r": "\\r"}.get(c) or ("\\x%02x" if code < 0x100 else "\\u%04x" if code < 0x10000 else "\\U%08x") % code


def shown(text: str) -> str:
    """TEXT of a file, as a terminal may get it: on one line, and without characters that it would act on."""
    return text if text.isprintable() else "".join(c if c.isprintable() else escaped(c) for c in text)


class Error(Exception):
    """Something about a checkpoint is wrong, or was asked for in vain.

    status  "FORMAT", "IO", "LIMIT" ...: enum ckpt_status of <ckpt/error.h> without its prefix
    reason  "TRUNCATED", "REPACKED" ... where a program can act on it, else None
    path    of the file, escaped so that it is safe to print; or None
    record  of the archive in it, or None
    offset  in the record or file, in bytes, or None
    text    the message without the place
    """

    status: str = "ARG"
    reason: Optional[str] = None
    path: Optional[str] = None
    record: Optional[str] = None
    offset: Optional[int] = None
    text: str = ""

    def __str__(self) -> str:
        parts = [self.path] if self.path else []
        place = self.record or ""
        if self.offset is not None:
            place += "+0x%x" % self.offset
        if place:
            parts.append(place)
        return ": ".join(parts + [self.text or "failed"])

    def __reduce__(self) -> Tuple[Any, ...]:
        # across processes: OSError and KeyError would be made again of other arguments
        attributes = dict(self.__dict__)
        if isinstance(self, OSError):
            attributes.update(errno=self.errno, strerror=self.strerror, filename=self.filename)
        return (_again, (type(self), attributes))


class IOFailure(Error, OSError):
    """The system refused to read or write; `errno`, `strerror` and `filename` say what."""


class FileMissing(IOFailure, FileNotFoundError):
    """There is no such file."""


class NotPermitted(IOFailure, PermissionError):
    """The file may not be read or written."""


class NameMissing(Error, KeyError):
    """The checkpoint has nothing of that name."""


class OutOfMemory(Error, MemoryError):
    """The system has no memory left."""


class BadObject(Error, RuntimeError):
    """The file has an object that torch does not make, or is none that torch.load() reads."""


class BadArgument(Error, ValueError):
    """The caller asked for something that makes no sense."""


_CLASSES: Dict[str, Type[Error]] = {
    "IO": IOFailure, "NOTFOUND": NameMissing, "NOMEM": OutOfMemory, "ARG": BadArgument,
}


# what torch's functions raise of arguments that are wrong
TORCH_ERRORS = (ArithmeticError, AssertionError, AttributeError, LookupError, NotImplementedError, RuntimeError, TypeError, ValueError)


def bad_object(what: str, error: BaseException) -> BadObject:
    """For ERROR, which torch raised, while it made WHAT of the file."""
    text = shown("%s cannot be made: %s: %s" % (what, type(error).__name__, str(error).split("\n")[0]))
    made = BadObject(text)
    made.text, made.status = text, "FORMAT"
    return made


def at_path(error: Error, source: object) -> Error:
    """ERROR, which is about SOURCE, if that is a path and it does not say so."""
    if error.path is None and (isinstance(source, str) or hasattr(source, "__fspath__")):
        error.path = shown(os.fsdecode(source))  # type: ignore[arg-type]
    return error


def _again(kind: Type[Error], attributes: Dict[str, object]) -> Error:
    error = kind.__new__(kind)
    error.args = (attributes.get("text", ""),)
    for name, value in attributes.items():
        setattr(error, name, value)
    return error


def make(status: int, errno: int, path: str, record: str, offset: Optional[int], reason: int,
         text: str) -> Error:
    """Make the exception for a struct ckpt_error; called by the extension."""
    name = STATUSES.get(status, str(status))
    kind = _CLASSES.get(name, Error)
    if kind is IOFailure:
        import errno as codes
        kind = {codes.ENOENT: FileMissing, codes.EACCES: NotPermitted,
                codes.EPERM: NotPermitted}.get(errno, IOFailure)
        error: Error = kind(errno or codes.EIO, os.strerror(errno or codes.EIO), path or None)
    else:
        error = kind(text)
    error.status = name
    error.reason = REASONS.get(reason, str(reason)) if reason else None
    error.path = path or None
    error.record = record or None
    error.offset = offset
    error.text = text
    return error

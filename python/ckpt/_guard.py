# SPDX-License-Identifier: Apache-2.0
"""ckpt.torch.guard(): loaders of torch, pickle and numpy load nothing but what the scan calls plain.

What must stay true: a loader gets the bytes that were scanned and no others (_scanned.py). What a loader calls on its
way, other loaders among it, is not scanned a second time; functions of the program that run meanwhile (map_location,
handlers of signals, finalizers) are not on its way. The stack tells which it is, so that nothing has to be put back.
Each time the loaders are replaced, the functions in their place are new ones: somebody else may have put a function of
his own around those of before, and then calls of both end in the same one.
"""

from __future__ import annotations

import _pickle
import contextlib
import functools
import inspect
import io
import os
import pickle
import sys
import tempfile
import threading

import torch

from ._scanned import Copy, Refused, TakenPickle, check_pickle, cut_pickle, name_of, refused, whole_pickle

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable, Dict, Iterator, List, Optional, Tuple

__all__ = ["Refused", "guard", "install_guard"]

_lock = threading.RLock()
_guards = 0
_installed = False
_replaced: List[Tuple[Any, str, Any, Any]] = []  # (where, name, before, in its place)
# What is between a loader and the loaders that it calls.
_LOADERS = frozenset(("torch", "numpy", "pickle", "zipfile", "tarfile", "contextlib", "functools"))
_OWN = frozenset((__name__, __package__ + "._scanned"))


def _scanned_load(function: Any, *args: Any, **options: Any) -> Any:
    """FUNCTION loads bytes that were scanned: what calls a loader from in here need not be."""
    return function(*args, **options)


def unguarded(function: Any, *args: Any, **options: Any) -> Any:
    """FUNCTION loads what the package itself made."""
    return function(*args, **options)


def _is_idle() -> bool:
    """Is there no guard, or do a loader's own functions, and no others, lie between here and a load of scanned bytes?"""
    if not _guards:
        return True
    frame = sys._getframe(1)
    while frame is not None:
        code, module = frame.f_code, frame.f_globals.get("__name__")
        if code is _scanned_load.__code__ or code is unguarded.__code__:
            return True
        if code is _outside_code or not (module in _OWN or (isinstance(module, str) and module.split(".")[0] in _LOADERS)):
            return False
        frame = frame.f_back  # type: ignore[assignment]
    return False


def _outside(function: Any) -> Any:
    """A function of the caller's, called by a loader: what it loads in turn is scanned, though it be one of C."""
    @functools.wraps(function, updated=())
    def call(*args: Any, **options: Any) -> Any:
        return function(*args, **options)
    return call


_outside_code = _outside(len).__code__


# ---- pickle ----


def _load_taken(stream: Any, load: Callable[[bytes], Any], alone: bool = True) -> Any:
    """load(THE NEXT PICKLE OF STREAM), if that is plain. Nothing at all is no pickle, and LOAD says so.

    Not ALONE: who loads it knows the objects of a pickle before it, by the numbers that MEMOIZE goes on counting.
    """
    if not (hasattr(stream, "read") and hasattr(stream, "readline")):
        raise TypeError("file must have 'read' and 'readline' attributes")
    whole = whole_pickle(stream) if alone else None
    if whole is not None:
        return load(whole)
    taken = TakenPickle(stream)
    if taken.data:
        try:
            check_pickle(taken.data, name_of(stream))
            if not alone and taken.recalls:
                raise refused("refused, as it may use objects of the pickle before it, and each is scanned alone",
                              name_of(stream))
        except BaseException:
            taken.put_back()
            raise
    return load(taken.data)


def _pickle_load(original: Any) -> Any:
    @functools.wraps(original)
    def load(file: Any, **options: Any) -> Any:
        if _is_idle():
            return original(file, **options)
        return _load_taken(file, lambda data: original(io.BytesIO(data), **options))
    return load


def _pickle_loads(original: Any) -> Any:
    @functools.wraps(original)
    def loads(data: Any, /, **options: Any) -> Any:
        if _is_idle():
            return original(data, **options)
        if type(data) is not bytes:
            data = memoryview(data).tobytes()
        if data:
            try:
                check_pickle(data)
            except Refused:
                cut = cut_pickle(data)  # what is behind it is not loaded
                if len(cut) == len(data):
                    raise
                check_pickle(cut)
                data = cut
        return original(data, **options)
    return loads


class _Scanning:
    """What the classes in the place of pickle.Unpickler and its double in Python share."""

    _ckpt_stream: Any = None
    _ckpt_loads = 0

    def _ckpt_load(self, load: Callable[[bytes], Any]) -> Any:
        self._ckpt_loads += 1
        return _load_taken(self._ckpt_stream, load, self._ckpt_loads == 1)


def _unpickler_in_c(original: Any) -> Any:
    if issubclass(original, _Scanning):  # made of one of ours, which goes on scanning
        return original

    class Unpickler(_Scanning, original):  # type: ignore[misc]
        def __init__(self, file: Any, **options: Any) -> None:
            idle = _is_idle()
            self._ckpt_stream, self._ckpt_options = None if idle else file, options
            super().__init__(file if idle else io.BytesIO(), **options)

        def load(self) -> Any:
            if self._ckpt_stream is None:
                return super().load()
            return self._ckpt_load(self._ckpt_load_new)

        def _ckpt_load_new(self, data: bytes) -> Any:
            """By an unpickler of its own, as one of C never forgets what it loaded; with this one's find_class()."""
            find_class = self.find_class

            class Inner(original):  # type: ignore[misc]
                def find_class(self, module: str, name: str) -> Any:
                    return find_class(module, name)
            return Inner(io.BytesIO(data), **self._ckpt_options).load()
    return _named_like(Unpickler, original)


def _unpickler_in_python(original: Any) -> Any:
    if issubclass(original, _Scanning):
        return original

    class Unpickler(_Scanning, original):  # type: ignore[misc]
        def __init__(self, file: Any, **options: Any) -> None:
            self._ckpt_stream, self._ckpt_options = None if _is_idle() else file, options
            super().__init__(file, **options)

        def load(self) -> Any:
            if self._ckpt_stream is None:
                return super().load()
            return self._ckpt_load(self._ckpt_load_again)

        def _ckpt_load_again(self, data: bytes) -> Any:
            original.__init__(self, io.BytesIO(data), **self._ckpt_options)
            return original.load(self)
    return _named_like(Unpickler, original)


def _named_like(made: Any, original: Any) -> Any:
    for name in ("__module__", "__name__", "__qualname__", "__doc__"):
        setattr(made, name, getattr(original, name))
    return made


# ---- torch and numpy ----


@contextlib.contextmanager
def _scanned_path(path: Any) -> Iterator[Copy]:
    with open(path, "rb", buffering=0) as stream, Copy() as copy:
        copy.fill(stream)
        copy.seal()
        if copy.nbytes:  # else the loader says so
            copy.check(ascii(os.fsdecode(path))[1:-1])
        yield copy


@contextlib.contextmanager
def _scanned_stream(stream: Any, cut: Optional[Callable[[Any], int]] = None) -> Iterator[Any]:
    """What STREAM has left, to read; afterwards STREAM stands where its reader stopped. CUT: how much of it is loaded."""
    start = stream.tell()
    try:
        is_file = not start and stream.fileno() >= 0
    except (AttributeError, OSError):
        is_file = False
    with Copy() as copy:
        try:
            if cut is None:
                copy.fill(stream)
            else:
                length = cut(stream)
                stream.seek(start)
                copy.fill(stream, length)
            copy.seal()
            if copy.nbytes:
                copy.check(name_of(stream))
        except BaseException:
            stream.seek(start)
            raise
        private = copy.stream(is_file)
    try:
        yield private
    except GeneratorExit:  # interrupted before its user had it, and STREAM may be closed by now
        raise
    except BaseException:
        stream.seek(start + private.tell())
        raise
    stream.seek(start + private.tell())


@contextlib.contextmanager
def _path_of(copy: Copy, path: Any) -> Iterator[str]:
    """A name of COPY. torch 2.14 decides by the end of PATH, too."""
    if not os.fsdecode(path).endswith(".safetensors"):
        yield copy.path
        return
    with tempfile.TemporaryDirectory(prefix="ckpt-guard-") as folder:
        link = os.path.join(folder, "copy.safetensors")
        os.symlink(copy.path, link)
        yield link


def _torch_load(original: Any) -> Any:
    @functools.wraps(original)
    def load(f: Any, map_location: Any = None, *args: Any, **options: Any) -> Any:
        if _is_idle():
            return original(f, map_location, *args, **options)
        if callable(map_location) and not isinstance(map_location, torch.device):
            map_location = _outside(map_location)
        if isinstance(f, (str, os.PathLike)):
            with _scanned_path(f) as copy, _path_of(copy, f) as path:
                return _scanned_load(original, path, map_location, *args, **options)
        torch.serialization._check_seekable(f)
        with _scanned_stream(f) as private:
            return _scanned_load(original, private, map_location, *args, **options)
    return load


def _array_length(stream: Any) -> int:
    """How many bytes of STREAM numpy.load() reads."""
    import numpy

    start = stream.tell()
    head = stream.read(6)
    stream.seek(start)
    if head[:4] in (b"PK\3\4", b"PK\5\6"):
        length = stream.seek(0, 2) - start
    elif head != b"\x93NUMPY":
        length = len(TakenPickle(stream).data)
    else:
        form: Any = numpy.lib.format
        version = form.read_magic(stream)[0]
        try:
            shape, _, dtype = (form.read_array_header_1_0 if version == 1 else form.read_array_header_2_0)(stream)
        except ValueError as error:
            raise refused("refused, as its header is not numpy's: %s" % error, name_of(stream)) from None
        if dtype.hasobject:
            length = stream.tell() - start + len(TakenPickle(stream).data)
        else:
            count = 1
            for size in shape:
                count *= size
            length = stream.tell() - start + count * dtype.itemsize
    stream.seek(start)
    return int(length)


def _numpy_load(original: Any) -> Any:
    @functools.wraps(original)
    def load(file: Any, mmap_mode: Any = None, allow_pickle: Any = False, *args: Any, **options: Any) -> Any:
        if _is_idle() or not allow_pickle:  # without pickles it makes numbers of whatever it reads
            return original(file, mmap_mode, allow_pickle, *args, **options)
        if hasattr(file, "read"):
            with _scanned_stream(file, _array_length) as private:
                return _scanned_load(original, private, mmap_mode, True, *args, **options)
        with _scanned_path(file) as copy:
            with copy.stream(True) as stream:
                is_array = stream.read(6) == b"\x93NUMPY"
            if mmap_mode and is_array:  # a map of the file itself: there are no objects in it
                return original(file, mmap_mode, False, *args, **options)
            return _scanned_load(original, copy.path, None, True, *args, **options)
    return load


# ---- putting in place, and back ----


def _places() -> List[Tuple[Any, str, Callable[[Any], Any]]]:
    places: List[Tuple[Any, str, Callable[[Any], Any]]] = []
    for module in (pickle, _pickle):
        places += [(module, "load", _pickle_load), (module, "loads", _pickle_loads),
                   (module, "Unpickler", _unpickler_in_c)]
    places += [(pickle, "_load", _pickle_load), (pickle, "_loads", _pickle_loads),
               (pickle, "_Unpickler", _unpickler_in_python),
               (torch, "load", _torch_load), (torch.serialization, "load", _torch_load)]
    try:
        import numpy
    except ImportError:
        return places
    for where in (numpy, getattr(numpy.lib, "npyio", None), getattr(numpy.lib, "_npyio_impl", None)):
        if hasattr(where, "load"):
            places.append((where, "load", _numpy_load))
    return places


def _replace() -> None:
    made: Dict[int, Any] = {}  # what has several names gets several names
    found = [(module, name, getattr(module, name), make) for module, name, make in _places()]
    for _, _, before, make in found:
        if id(before) not in made:
            made[id(before)] = make(before)
    try:
        for module, name, before, _ in found:
            _replaced.append((module, name, before, made[id(before)]))
            setattr(module, name, made[id(before)])
    except BaseException:
        _restore()
        raise


def _restore() -> None:
    for module, name, before, after in reversed(_replaced):
        if getattr(module, name) is after:  # else somebody else's is there, which calls ours
            setattr(module, name, before)
    _replaced.clear()


def _begin() -> None:
    global _guards

    with _lock:
        if not _guards:
            _replace()
        _guards += 1


def _end() -> None:
    global _guards

    with _lock:
        _guards -= 1
        if not _guards:
            _restore()


class guard(contextlib.ContextDecorator):
    """While this is entered, torch.load, pickle.load, pickle.loads, pickle.Unpickler and numpy.load(allow_pickle=True)
    load only what `ckpt scan` calls plain, in all threads; else they raise ckpt.torch.Refused, and nothing is loaded.

        with ckpt.torch.guard():
            state = torch.load("model.pt", weights_only=False)

    What is loaded are the bytes that were scanned: a copy in memory, made at once. It takes as much memory as the file
    has bytes while torch.load runs; with mmap=True the tensors are a private map of the copy, for which there is
    no MAP_SHARED. A stream stands behind what was loaded, and where it was if that is refused (unless it has no way
    back). Of an unpickler with several pickles, none may use objects of an earlier one.

    Guards may be nested, be entered by several threads, and end in any order: what they replaced is put back by the last.

    Not caught is who took a loader before (`from torch import load`, a class made of pickle.Unpickler, so joblib,
    cloudpickle, dill, shelve, multiprocessing), and whoever does not ask these: torch.jit.load, torch.package,
    torch.export, marshal. With `pickle_module=` and find_class() a program may give names another meaning than the scan
    knows. Processes that are started have no guard, forked ones do.
    """

    _entered = 0  # how often, by all threads

    def __call__(self, function: Any) -> Any:
        """Use it as a decorator. What a generator or an async function does, it does after its call."""
        if any(is_later(function) for is_later in (inspect.isgeneratorfunction, inspect.iscoroutinefunction, inspect.isasyncgenfunction)):
            raise TypeError("guard() around a generator or an async function ends before that runs: enter it inside, with guard():")
        return super().__call__(function)

    def __enter__(self) -> guard:
        _begin()
        with _lock:
            self._entered += 1
        return self

    def __exit__(self, *error: object) -> None:
        with _lock:
            if not self._entered:  # it would end a guard of somebody else
                raise RuntimeError("this guard was not entered")
            self._entered -= 1
        _end()


def install_guard() -> None:
    """guard() for the rest of this process. Objects of the program's own are no plain data: pickles of them are refused, too."""
    global _installed

    with _lock:
        if not _installed:
            _begin()
            _installed = True

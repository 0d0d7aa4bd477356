# SPDX-License-Identifier: Apache-2.0
"""Bytes of files straight to a GPU: read into a few page-locked buffers by several threads, and copied from there.

A thread takes the next batch and the buffer that was used longest ago, waits until the copies out of that buffer are done,
reads, and starts the copies of the batch in a stream of ours. So files are read while the GPU copies.

What must stay true: a buffer is written to, or given back, only when its last copies are done, whatever fails; and what is copied to
lives as long. That is why one thread of ours, and not the caller, which Ctrl-C may stop anywhere, starts, joins, and frees all: it holds
whatever the copies need.
"""

from __future__ import annotations

import contextlib
import ctypes
import math
import mmap
import os
import threading
from collections import deque
from typing import Any, Deque, Iterator, List, NamedTuple, Optional, Tuple

import torch

from . import _ckpt

# bytes of a buffer at most, how many there are, and how many threads read into them. All together are what is page-locked, which
# takes time
BUFFER, BUFFERS, THREADS = 4 << 20, 14, 12
# the least that one thread takes, that memory is page-locked for, and that a single tensor goes this way for
SHARE, PAGE_LOCKED, SINGLE = 1 << 20, 2 << 20, 16 << 20
_ALIGNED, _HUGE = 64, 2 << 20


class Wanted(NamedTuple):
    """A storage of a device, and where its bytes are."""

    storage: Any
    device: Any
    number: int  # of the storage in the model, in which they begin at START
    start: int
    path: str  # of the file, in which they begin at PLACE
    place: int


class _Piece(NamedTuple):
    wanted: Wanted
    offset: int  # in the storage of the device
    nbytes: int
    at: int  # in the buffer


def _number(status: Any) -> int:
    """Of an error of CUDA, which may be a number already."""
    return int(getattr(status, "value", status))


class Cuda:
    """What is done on a GPU. A test has one of its own, in main memory."""

    def __init__(self) -> None:
        self._streams: Any = {}

    def begin(self, device: Any) -> None:
        """Called by the thread that allocated on DEVICE: its stream may still use the memory for what was there before."""
        stream = self._streams[device] = torch.cuda.Stream(device=device)
        stream.wait_stream(torch.cuda.current_stream(device))

    def use(self, device: Any) -> Any:
        """A `with` block, in which this thread works with DEVICE."""
        return torch.cuda.stream(self._streams[device])

    def copy(self, wanted: Wanted, offset: int, source: torch.Tensor) -> None:
        """Begin to copy SOURCE to OFFSET of a storage."""
        target = torch.empty((0,), dtype=torch.uint8, device=wanted.device)
        target.set_(wanted.storage, offset, (source.numel(),), (1,))
        target.copy_(source, non_blocking=True)

    def mark(self, device: Any) -> Any:
        """What has a synchronize(), which waits until all copies that were begun are done."""
        event = torch.cuda.Event(blocking=True)
        event.record(self._streams[device])
        return event

    def finish(self, device: Any) -> None:
        """Wait for all copies to DEVICE."""
        self._streams[device].synchronize()

    def lock(self, address: int, nbytes: int) -> bool:
        """Page-lock memory. Without that copies are slow, and right."""
        register = getattr(torch.cuda.cudart(), "cudaHostRegister", None)
        if register is None or not hasattr(torch.cuda.cudart(), "cudaHostUnregister"):
            return False
        if _number(register(address, nbytes, 1)) == 0:  # cudaHostRegisterPortable: for all devices
            return True
        try:  # or the next kernel of somebody else would be told of the error
            torch.ones((1,), device="cuda")
        except RuntimeError:
            pass
        return False

    def unlock(self, address: int) -> None:
        status = _number(torch.cuda.cudart().cudaHostUnregister(address))
        if status:
            raise RuntimeError("cudaHostUnregister: error %d" % status)


def takes(location: str) -> bool:
    """Whether storages of LOCATION, as torch calls it, may go there straight."""
    return location.startswith("cuda") and torch.cuda.is_available()


def is_fed(device: Any) -> bool:
    """Whether read() knows DEVICE, to which a storage was restored."""
    return bool(device.type == "cuda")


def allocate(nbytes: int, device: Any) -> Any:
    """A storage that read() may fill."""
    return torch.UntypedStorage(nbytes, device=device)


def _processors() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


class _Area:
    """Memory for buffers, in large pages if there are such, which are page-locked much faster."""

    def __init__(self, nbytes: int) -> None:
        private = mmap.mmap(-1, nbytes + _HUGE, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        # a child must not share it: after a write here the device would read the page of the child
        for advice in ("MADV_HUGEPAGE", "MADV_DONTFORK"):
            with contextlib.suppress(AttributeError, OSError, ValueError):
                private.madvise(getattr(mmap, advice))
        whole = torch.frombuffer(private, dtype=torch.uint8)
        skip = -whole.data_ptr() % _HUGE
        self.tensor = whole[skip:skip + nbytes]
        self.bytes = memoryview(private)[skip:skip + nbytes]
        self.address, self.nbytes = self.tensor.data_ptr(), nbytes


class _Buffer:
    def __init__(self, area: _Area, start: int, nbytes: int) -> None:
        self.tensor, self.bytes = area.tensor[start:start + nbytes], area.bytes[start:start + nbytes]
        self.event: Any = None

    def wait(self) -> None:
        if self.event is not None:
            self.event.synchronize()
            self.event = None


def _batches(wanted: List[Wanted], room_of: int) -> Iterator[List[_Piece]]:
    """WANTED in the order of the files, cut into what fits in a buffer of ROOM_OF bytes, each for one device."""
    batch: List[_Piece] = []
    at = 0
    for one in sorted(wanted, key=lambda one: (one.path, one.place)):
        if batch and batch[0].wanted.device != one.device:
            yield batch
            batch, at = [], 0
        offset, nbytes = 0, one.storage.nbytes()
        while offset < nbytes:
            if at >= room_of:
                yield batch
                batch, at = [], 0
            count = min(room_of - at, nbytes - offset)
            batch.append(_Piece(one, offset, count, at))
            offset += count
            at += -(-count // _ALIGNED) * _ALIGNED
    if batch:
        yield batch


_lost: List[Any] = []  # what a device that failed may still read


class _Staging:
    def __init__(self, model: _ckpt.Model, wanted: List[Wanted]) -> None:
        self._model, self._backend = model, Cuda()
        self._devices = list(dict.fromkeys(one.device for one in wanted))
        total = sum(one.storage.nbytes() for one in wanted)
        threads = min(THREADS, _processors())
        share = -(-total // threads // _ALIGNED) * _ALIGNED
        self._size = min(BUFFER, max(SHARE, share))
        batches = list(_batches(wanted, self._size))
        self._count = min(BUFFERS, len(batches))
        self._threads = min(threads, self._count)
        self._batches = enumerate(batches)
        self._locks_pages = total >= PAGE_LOCKED
        self._area: Any = None
        self._free: Deque[_Buffer] = deque()  # the one that was used longest ago is the first; there are as many as threads, or more
        self._gate = threading.Lock()  # for _batches, _free and _error; never held by the caller, whom a signal may stop with it
        self._stopped = self._begun = self._finished = False
        self._cancel = ctypes.c_int(0)  # the same as _stopped, for the library
        self._locked = threading.Event()  # the memory is page-locked, or will not be
        self._done = threading.Lock()  # held until _finished
        self._error: Optional[Tuple[int, BaseException]] = None  # with the number of its batch

    # ---- in the thread of the caller ----

    def run(self) -> None:
        for device in self._devices:
            self._backend.begin(device)
        self._done.acquire()
        try:
            thread = threading.Thread(target=self._work, name="ckpt staging")
            try:
                thread.start()
            except RuntimeError:  # no more threads, or the interpreter is about to end
                self._work()
            else:
                self._wait()
                thread.join()
            if self._error is not None:
                raise self._error[1]
        except BaseException:  # Ctrl-C, or what another signal raises
            self._stop()
            while self._begun and not self._finished:
                with contextlib.suppress(BaseException):
                    self._wait()
            self._error = None  # its traceback has this object, and would keep the storages until the next collection
            raise

    def _wait(self) -> None:
        while not self._finished:
            self._done.acquire(True, 0.1)

    def _stop(self) -> None:
        self._stopped = True
        self._cancel.value = 1

    # ---- in threads of ours ----

    def _fail(self, number: int, error: BaseException) -> None:
        with self._gate:
            # what was cancelled because of the first failure is none
            if self._error is None or number < self._error[0] and getattr(error, "status", "") != "CANCELLED":
                self._error = number, error
            self._stop()

    def _work(self) -> None:
        self._begun = True
        try:
            if not self._stopped:  # else the caller may have looked at _begun before
                with self._backend.use(self._devices[0]):
                    self._read_all()
        except BaseException as error:
            self._fail(-1, error)
        finally:
            self._finished = True
            self._done.release()

    def _read_all(self) -> None:
        others: List[threading.Thread] = []
        is_locked = False
        self._area = area = _Area(self._count * self._size)
        try:
            for start in range(0, area.nbytes, self._size):
                self._free.append(_Buffer(area, start, self._size))
            for _ in range(self._threads - 1):
                thread = threading.Thread(target=self._help, name="ckpt staging")
                try:
                    thread.start()
                except RuntimeError:
                    break
                others.append(thread)
            try:  # while the others read what they read first
                is_locked = self._locks_pages and self._backend.lock(area.address, area.nbytes)
            finally:
                self._locked.set()
            self._read_some()
        except BaseException as error:
            self._fail(-1, error)
        finally:
            self._locked.set()
            for thread in others:
                thread.join()
            self._free_all(is_locked)

    def _free_all(self, is_locked: bool) -> None:
        """When no thread begins copies any more."""
        for device in self._devices:
            try:
                self._backend.finish(device)
            except BaseException as error:
                _lost.append(self)  # nobody knows what it still does
                self._fail(-1, error)
                return
        if is_locked:
            try:
                self._backend.unlock(self._area.address)
            except BaseException as error:
                _lost.append(self._area)
                self._fail(-1, error)
        self._free.clear()
        self._area = None

    def _help(self) -> None:
        try:
            with self._backend.use(self._devices[0]):
                self._read_some()
        except BaseException as error:
            self._fail(-1, error)

    def _take(self) -> Optional[Tuple[int, List[_Piece], _Buffer]]:
        with self._gate:
            number, batch = (0, None) if self._stopped else next(self._batches, (0, None))
            return None if batch is None else (number, batch, self._free.popleft())

    def _read_some(self) -> None:
        taken = self._take()
        while taken is not None:
            number, batch, buffer = taken
            try:
                self._read_batch(batch, buffer)
            except BaseException as error:
                self._fail(number, error)
                return  # and the buffer, which may be in use, is nobody's
            with self._gate:
                self._free.append(buffer)
            taken = self._take()

    def _read_batch(self, batch: List[_Piece], buffer: _Buffer) -> None:
        buffer.wait()
        ranges = [(piece.wanted.number, piece.wanted.start + piece.offset, piece.nbytes, buffer.bytes[piece.at:piece.at + piece.nbytes])
                  for piece in batch]
        self._model.read_storages(ranges, threads=1, cancel=self._cancel)
        self._locked.wait()
        if self._stopped:
            return
        device = batch[0].wanted.device
        with contextlib.nullcontext() if device == self._devices[0] else self._backend.use(device):
            for piece in batch:
                self._backend.copy(piece.wanted, piece.offset, buffer.tensor[piece.at:piece.at + piece.nbytes])
            buffer.event = self._backend.mark(device)


def read(model: _ckpt.Model, wanted: List[Wanted]) -> None:
    """Fill the storages of WANTED, each whole, and of one byte at least. The copies are done when this returns or raises."""
    _Staging(model, wanted).run()


def read_tensor(model: _ckpt.Model, index: int, start: int, dtype: str, shape: Tuple[int, ...], device: Any) -> Any:
    """A tensor of SHAPE on DEVICE, of what is in storage INDEX from byte START on; None: that cannot be done here."""
    try:
        wanted = torch.device(device)
    except (RuntimeError, TypeError):
        return None
    kind = getattr(torch, dtype, None)
    info = model.storage_info(index)
    if not isinstance(kind, torch.dtype) or info["path"] is None or not takes(str(wanted)):
        return None
    made = torch.empty((0,), dtype=kind, device=wanted)
    nbytes = made.element_size() * math.prod(shape)
    if not is_fed(made.device) or start + nbytes > info["nbytes"] or nbytes < SINGLE:
        return None
    storage = allocate(nbytes, made.device)
    read(model, [Wanted(storage, made.device, index, start, info["path"], info["offset"] + start)])
    strides = [math.prod(shape[axis + 1:]) for axis in range(len(shape))]
    return made.set_(storage, 0, shape, strides)

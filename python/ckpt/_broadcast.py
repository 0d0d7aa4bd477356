# SPDX-License-Identifier: Apache-2.0
"""ckpt.torch.load_broadcast(): one rank reads, all have it.

The source makes the result as load() does, but leaves the bytes of storages in the file. It sends the objects as a
pickle in which storages are numbers, then all bytes in buckets, which it reads one ahead. The others make
storages, fill them, and then the objects, as some are made from values (sparse tensors).

What must stay true: every rank calls the same collectives in the same order, whatever happens to it. What fails on a
rank is kept until the ranks agree that all go on (_Meeting.agree), and is raised there by all of them; none returns or raises before all
know that (_Meeting.leave). Only a failure of a collective itself ends a rank at once; the others then end with the connection, or
by the time-out of the group.
"""

from __future__ import annotations

import collections
import ctypes
import io
import operator
import os
import pickle
import threading
from typing import Any, Callable, Dict, Iterator, List, Optional, Set, Tuple

import torch
import torch.distributed as dist

from ._checkpoint import Checkpoint
from ._errors import Error, at_path
from ._guard import unguarded
from ._values import refuse
from .torch import _build, _open, _Place, _Storages

_PART = 4 << 20  # bytes of what is no tensor that are sent at once
_Described = Tuple[int, Optional[str], bool]  # a storage: bytes, where the file says it is (None: the file has no such storage), whether its bytes travel
_Piece = Tuple[int, int, int]  # number of a storage, offset, bytes


class PeerError(Error, RuntimeError):
    """Another rank ended, or did not answer in time."""


def _peer_error(text: str) -> PeerError:
    error = PeerError(text)
    error.status, error.text = "PEER", text
    return error


def _step(name: str) -> None:
    """Called at the start of every step; for tests."""


def _global_rank(group: Any, rank: int) -> int:
    return rank if group is None or group is dist.group.WORLD else int(dist.get_global_rank(group, rank))


def _device_of(group: Any) -> torch.device:
    """Where tensors have to be for the collectives of GROUP."""
    backend = str(dist.get_backend(group))
    if backend == "nccl":
        return torch.device("cuda", torch.cuda.current_device())
    if backend in ("gloo", "mpi", "ucc"):
        return torch.device("cpu")
    find = getattr(dist.distributed_c10d, "_get_object_coll_device", None)
    return torch.device(find(group)) if find is not None else torch.device("cpu")


class _Meeting:
    """The ranks of a group, and what went wrong on this one."""

    def __init__(self, group: Any, src: Any, device: Any, bucket: Any) -> None:
        # only who is in the group can tell the others of what else is wrong
        if not dist.is_initialized():
            raise RuntimeError("load_broadcast() needs torch.distributed.init_process_group()")
        self._group, self._source = group, 0
        self._rank, self._world = dist.get_rank(group), dist.get_world_size(group)
        if self._rank < 0:
            raise ValueError("this rank is not in the group")
        self.device = _device_of(group)
        self._error: Optional[BaseException] = None
        self.local("arguments", lambda: self._take(src, device, bucket))
        self.is_source = self._error is None and _global_rank(group, self._rank) == self._source

    def _take(self, src: Any, device: Any, bucket: Any) -> None:
        self._source = operator.index(src)
        if self._source not in [_global_rank(self._group, rank) for rank in range(self._world)]:
            raise ValueError("rank %d, the source, is not in the group" % self._source)
        if operator.index(bucket) < 1:
            raise ValueError("a bucket has at least one byte")
        if str(device) == "meta":
            raise ValueError("device is one that holds numbers, not meta")

    def local(self, name: str, work: Callable[[], Any]) -> Any:
        """What WORK gives; None if it failed, or something before it."""
        if self._error is None:
            try:
                _step(name)
                return work()
            except BaseException as error:
                self._error = error
        return None

    def _together(self, call: Callable[[], Any]) -> None:
        try:
            call()
        except Exception as error:
            if self._error is not None:
                raise self._error from error
            raise _peer_error("a rank ended, or did not answer in time: %s" % error) from error

    def broadcast(self, tensor: torch.Tensor, source: Optional[int] = None) -> None:
        self._together(lambda: dist.broadcast(tensor, self._source if source is None else source, group=self._group))

    def _number(self, value: int, source: int) -> int:
        tensor = torch.tensor([value], dtype=torch.int64, device=self.device)
        self.broadcast(tensor, source)
        return int(tensor.item())

    def send(self, data: Optional[bytes], source: Optional[int] = None) -> bytes:
        """DATA of the source, on all ranks."""
        rank = self._source if source is None else source
        nbytes = self._number(len(data) if data is not None else 0, rank)
        whole = bytearray(data) if data is not None else bytearray(nbytes)
        for start in range(0, nbytes, _PART):
            part = torch.frombuffer(whole, dtype=torch.uint8, count=min(_PART, nbytes - start), offset=start)
            moved = part.to(self.device)
            self.broadcast(moved, rank)
            if moved is not part:
                part.copy_(moved)
        return bytes(whole)

    def agree(self) -> None:
        """All ranks are well and name one source, or all raise what the first of them that is not has."""
        mine_now = [self._world if self._error is None else self._rank, self._source, -self._source]
        least = torch.tensor(mine_now, dtype=torch.int64, device=self.device)
        self._together(lambda: dist.all_reduce(least, op=dist.ReduceOp.MIN, group=self._group))
        rank, first, last = least.tolist()
        if rank == self._world and first == -last:
            return
        if rank == self._world:
            self.leave()
            raise ValueError("the ranks name different sources, from rank %d to rank %d" % (first, -last))
        mine = self._error if rank == self._rank else None
        sent = self.send(_packed(mine) if mine is not None else None, _global_rank(self._group, rank))
        self.leave()
        error = mine if mine is not None else _unpacked(sent)
        error.add_note("on rank %d of the group" % rank)
        raise error

    def leave(self) -> None:
        """Wait until all ranks know how it ended.

        A rank may exit as soon as it knows, and what others have not received by then may be lost with its connections. If
        this fails, a rank is gone, which changes nothing of what is known here.
        """
        try:
            last = torch.zeros((1,), dtype=torch.int64, device=self.device)
            dist.all_reduce(last, group=self._group)
            last.item()
        except Exception:
            pass


def _packed(error: BaseException) -> bytes:
    """ERROR for other processes; what cannot be sent, and what is no Exception, is told in words."""
    if isinstance(error, Exception):
        try:
            data = pickle.dumps(error)
            if str(unguarded(pickle.loads, data)) == str(error):
                return data
        except Exception:
            pass
    return pickle.dumps(_peer_error("%s: %s" % (type(error).__name__, error)))


def _unpacked(data: bytes) -> BaseException:
    error = unguarded(pickle.loads, data)
    return error if isinstance(error, BaseException) else _peer_error("a rank failed")


# ---- objects, in which storages are numbers ----

_receiving = threading.local()


def _storage(number: int, dtype: torch.dtype) -> Any:
    """A typed one over a storage of the receiver that unpickles in this thread."""
    found = _receiving.made.get((number, dtype))
    if found is None:
        found = torch.storage.TypedStorage(wrap_storage=_receiving.storages[number], dtype=dtype, _internal=True)
        _receiving.made[number, dtype] = found
    return found


def _tensor(number: int, dtype: torch.dtype, offset: int, size: Any, stride: Any, requires_grad: bool, has_hooks: bool) -> Any:
    storage = _receiving.storages[number]
    made = torch.empty((0,), dtype=dtype, device=storage.device)
    made.set_(storage, offset, size, stride)
    made.requires_grad = requires_grad
    made._backward_hooks = collections.OrderedDict() if has_hooks else None
    return made


class _Pickler(pickle.Pickler):
    def __init__(self, stream: Any) -> None:
        super().__init__(stream, protocol=pickle.HIGHEST_PROTOCOL)
        self.storages: List[Any] = []
        self._numbers: Dict[int, int] = {}

    def _number(self, storage: Any) -> int:
        number = self._numbers.get(storage._cdata)
        if number is None:
            number = self._numbers[storage._cdata] = len(self.storages)
            self.storages.append(storage)
        return number

    def reducer_override(self, value: Any) -> Any:
        kind = type(value)
        if kind is torch.Tensor:
            # as most are; its own __reduce_ex__ takes ten times as long
            if (value.layout is torch.strided and not value.is_quantized and not value.is_nested and not value.__dict__
                    and not value.is_conj() and not value.is_neg()):
                return _tensor, (self._number(value.untyped_storage()), value.dtype, value.storage_offset(), tuple(value.size()),
                                 value.stride(), value.requires_grad, value._backward_hooks is not None)
        elif kind is torch.storage.TypedStorage:
            return _storage, (self._number(value._untyped_storage), value.dtype)
        elif kind is torch.UntypedStorage:
            return _storage, (self._number(value), torch.uint8)  # torch hands it to functions so, which a load gives a typed one
        return NotImplemented


def _unpickled(objects: bytes, storages: List[Any]) -> Any:
    _receiving.storages, _receiving.made = storages, {}
    try:
        unpickler = unguarded(pickle.Unpickler, io.BytesIO(objects))
        return unguarded(unpickler.load)
    finally:
        del _receiving.storages, _receiving.made


# ---- the two sides ----


class _Bytes:
    """The storages of a rank, cut into buckets: into the same on all ranks, wherever each has them. On meta there is no place for bytes."""

    def __init__(self, storages: List[Any], travel: List[bool], device: torch.device, bucket: int) -> None:
        self._storages, self._travel, self._device, self._bucket = storages, travel, device, bucket
        self._staging: Optional[torch.Tensor] = None

    def buckets(self) -> Iterator[List[_Piece]]:
        pieces: List[_Piece] = []
        room = self._bucket
        for number, storage in enumerate(self._storages):
            at, nbytes = 0, storage.nbytes() if self._travel[number] else 0
            while at < nbytes:
                count = min(room, nbytes - at)
                pieces.append((number, at, count))
                at, room = at + count, room - count
                if not room:
                    yield pieces
                    pieces, room = [], self._bucket
        if pieces:
            yield pieces

    def _view(self, piece: _Piece) -> torch.Tensor:
        number, offset, nbytes = piece
        storage = self._storages[number]
        return torch.empty((0,), dtype=torch.uint8, device=storage.device).set_(storage, offset, (nbytes,), (1,))

    def _is_direct(self, pieces: List[_Piece]) -> bool:
        return len(pieces) == 1 and self._storages[pieces[0][0]].device == self._device

    def carrier(self, pieces: List[_Piece], filled: bool) -> torch.Tensor:
        """What the collective gets for PIECES: the memory of the result, or a bucket, FILLED with them."""
        if self._is_direct(pieces):
            return self._view(pieces[0])
        if self._staging is None:
            self._staging = torch.empty((self._bucket,), dtype=torch.uint8, device=self._device)
        at = 0
        for piece in pieces:
            if filled:
                self._staging[at:at + piece[2]].copy_(self._view(piece))
            at += piece[2]
        return self._staging[:at]

    def unpack(self, pieces: List[_Piece], carrier: torch.Tensor) -> None:
        if not self._is_direct(pieces):
            at = 0
            for piece in pieces:
                if self._storages[piece[0]].device.type != "meta":
                    self._view(piece).copy_(carrier[at:at + piece[2]])
                at += piece[2]


class _Source:
    """Reads PATH: all but the bytes of storages in main memory when it is made, these bucket by bucket."""

    def __init__(self, path: Any, device: Any, weights_only: Optional[bool]) -> None:
        if isinstance(path, Checkpoint):
            raise refuse("load_broadcast() takes a path, and no open checkpoint", "ARG")
        try:
            self._model, strict = _open(path, weights_only)
        except Error as error:
            raise at_path(error, path)
        self._path = os.fsdecode(path) if isinstance(path, str) or hasattr(path, "__fspath__") else None  # that errors of all ranks name
        self._reader: Optional[threading.Thread] = None
        self._whole: Set[int] = set()  # storages that are read whole with their first piece
        try:
            place = _Place(device)
            made = _Storages(self._model, place, False, notes_locations=True)
            assert made.locations is not None
            self.result = _build(self._model, made, place, strict, read=False)
            stream = io.BytesIO()
            pickler = _Pickler(stream)
            pickler.dump(self.result)
            self._objects, self.storages = stream.getvalue(), pickler.storages
            pending = {buffer.data_ptr(): index for buffer, (index, _, _, _) in zip(made._kept, made._ranges)}
            memory = {buffer.data_ptr(): target for buffer, (_, _, _, target) in zip(made._kept, made._ranges)}
            self._pending = {number: (pending[storage.data_ptr()], memory[storage.data_ptr()])
                             for number, storage in enumerate(self.storages) if storage.data_ptr() in pending}
            self.travel = [storage.device.type != "meta" for storage in self.storages]
            self._table = [(storage.nbytes(), made.locations.get(storage._cdata, None if storage.device.type == "meta" else str(storage.device)), travels)
                           for storage, travels in zip(self.storages, self.travel)]
        except BaseException as error:
            self._model.close()
            if isinstance(error, Error):
                at_path(error, path)
            raise

    def description(self, bucket: int) -> bytes:
        """All that the others have to know before the bytes come."""
        data = pickle.dumps((self._objects, self._table, bucket, self._path), protocol=pickle.HIGHEST_PROTOCOL)
        self._objects = b""
        return data

    def read_ahead(self, pieces: List[_Piece]) -> None:
        """Begin to read PIECES into the memory of the result."""
        ranges = []
        for number, offset, nbytes in pieces:
            if number not in self._pending or number in self._whole:
                continue
            index, target = self._pending[number]
            if not offset and nbytes < self.storages[number].nbytes() and self._model.storage_info(index)["one_way"]:
                nbytes = self.storages[number].nbytes()  # a piece in the middle would cost all that is in front of it
                self._whole.add(number)
            ranges.append((index, offset, nbytes, (ctypes.c_char * nbytes).from_buffer(target, offset)))
        self._failure: Optional[BaseException] = None
        if ranges:
            self._reader = threading.Thread(target=self._read, args=(ranges,), daemon=True)
            self._reader.start()

    def _read(self, ranges: List[Any]) -> None:
        try:
            self._model.read_storages(ranges)
        except BaseException as error:
            self._failure = error

    def wait(self) -> None:
        if self._reader is not None:
            self._reader.join()
            self._reader = None
            if self._failure is not None:
                raise self._failure

    def close(self) -> None:
        if self._reader is not None:
            self._reader.join()
        self._model.close()


def _make_storages(table: List[_Described], device: Any) -> List[Any]:
    """Storages for what the source described, where load() would put them."""
    place = _Place(device)
    devices: Dict[Optional[str], torch.device] = {None: torch.device("meta")}
    for location in {location for _, location, _ in table if location is not None}:
        if place.stays(location) or (location == "meta" and device is None):
            devices[location] = torch.device("cpu" if place.stays(location) else "meta")
        else:  # restoring an empty one says where others go, or why that cannot be
            devices[location] = place.restore(torch.UntypedStorage(0), location).device
    for nbytes, where, travels in table:
        if nbytes and not travels and devices[where].type != "meta":
            raise ValueError("storages on '%s' have no numbers on the rank that reads, which has to be called with a device, too" % where)
    return [torch.UntypedStorage(nbytes, device=devices[location]) for nbytes, location, _ in table]


def load_broadcast(path: Any, group: Any, src: int, device: Any, weights_only: Optional[bool], bucket: int) -> Any:
    """See ckpt.torch.load_broadcast()."""
    meeting = _Meeting(group, src, device, bucket)
    if not meeting.is_source:
        return _receive(meeting, device)
    source = meeting.local("open", lambda: _Source(path, device, weights_only))
    try:
        return _send(meeting, source, bucket)
    finally:
        if source is not None:
            source.close()


def _send(meeting: _Meeting, source: Any, bucket: int) -> Any:
    description = meeting.local("describe", lambda: source.description(bucket))
    meeting.agree()
    meeting.send(description)
    del description
    data = _Bytes(source.storages, source.travel, meeting.device, bucket)
    following = data.buckets()
    pieces = next(following, None)
    meeting.local("allocate", lambda: source.read_ahead(pieces or []))
    meeting.agree()
    while pieces is not None:
        after = next(following, None)

        def pack(pieces: List[_Piece] = pieces, after: Optional[List[_Piece]] = after) -> torch.Tensor:
            source.wait()
            carrier = data.carrier(pieces, True)
            source.read_ahead(after or [])
            return carrier

        carrier = meeting.local("read", pack)
        meeting.agree()
        meeting.broadcast(carrier)
        meeting.local("written", lambda: None)
        pieces = after
    meeting.local("build", lambda: None)
    meeting.agree()
    meeting.leave()
    return source.result


def _receive(meeting: _Meeting, device: Any) -> Any:
    meeting.local("open", lambda: _Place(device))
    meeting.local("describe", lambda: None)
    meeting.agree()
    description = meeting.send(None)
    made = meeting.local("allocate", lambda: _prepared(description, device, meeting.device))
    del description
    meeting.agree()
    objects, storages, data = made
    for pieces in data.buckets():
        carrier = meeting.local("read", lambda: data.carrier(pieces, False))
        meeting.agree()
        meeting.broadcast(carrier)
        meeting.local("written", lambda: data.unpack(pieces, carrier))
    result = meeting.local("build", lambda: _unpickled(objects, storages))
    meeting.agree()
    meeting.leave()
    return result


def _prepared(description: bytes, device: Any, carrying: torch.device) -> Tuple[bytes, List[Any], _Bytes]:
    objects, table, bucket, path = unguarded(pickle.loads, description)
    try:
        storages = _make_storages(table, device)
    except Error as error:
        raise at_path(error, path)
    return objects, storages, _Bytes(storages, [travels for _, _, travels in table], carrying, bucket)

# SPDX-License-Identifier: Apache-2.0
"""Arrays and tensors of others become tensors of a file: their memory is borrowed, and views of one memory share a storage.

Neither numpy nor torch is imported: whoever has an object of theirs has imported them.
"""

from __future__ import annotations

import sys

from ._ckpt import Map
from ._checkpoint import _CONJ, _NEG, _PARAMETER, _REQUIRES_GRAD, _TURNED_ALONE, Storage, Tensor
from ._dtypes import DTYPES
from ._values import PIECE, refuse

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Dict, List, Optional, Tuple

    from ._ckpt import Array, Builder

_HOST = (1, 3, 13)  # kDLCPU, kDLCUDAHost, kDLCUDAManaged


class Arrays:
    """Makes tensors, and the storages that they share."""

    def __init__(self, builder: Builder, kept: List[Any], check: bool) -> None:
        self._builder, self._kept, self._check = builder, kept, check
        self._storages: Dict[Any, Tuple[int, str]] = {}  # node and dtype, by what it is of
        self._dtypes: Dict[Any, str] = {}  # names of those of numpy

    def node(self, value: Any, as_numpy: bool) -> Optional[int]:
        """The node of VALUE; None: it is no tensor."""
        any_value: Any = value
        if isinstance(value, Tensor):
            return self._lazy(value)
        if isinstance(value, Storage):
            return self._lazy_storage(value)
        torch: Any = sys.modules.get("torch")
        numpy: Any = sys.modules.get("numpy")
        if torch is not None and isinstance(value, getattr(torch, "Tensor", ())):
            return self._torch(value, torch)
        if torch is not None and isinstance(value, getattr(torch, "TypedStorage", ())):
            untyped = any_value._untyped_storage
            return self._storage(("torch", untyped._cdata), str(any_value.dtype)[6:], _location(torch, untyped), lambda: self._bytes(untyped))
        if torch is not None and isinstance(value, getattr(torch, "UntypedStorage", ())):
            raise refuse("a storage without a dtype cannot be written yet")
        if numpy is not None and isinstance(value, getattr(numpy, "ndarray", ())):
            return None if as_numpy else self._numpy(value, numpy)
        if hasattr(type(value), "__dlpack__"):
            return self._dlpack(value)
        return None

    def _storage(self, key: Any, dtype: str, device: str, make: Any) -> int:
        """The storage that KEY is the key of. MAKE: gives its memory."""
        known = self._storages.get(key)
        if known is None:
            known = (self._builder.storage(dtype, device, make()), dtype)
            self._storages[key] = known
        elif known[1] != dtype:
            raise refuse("a tensor shows bytes as %s that another one shows as %s; copy one of them" % (dtype, known[1]))
        return known[0]

    # ---- of open checkpoints ----

    def _lazy_storage(self, value: Storage, user: Any = None) -> int:
        model = value._checkpoint._model
        # torch.load() makes a new storage for each tensor that has no bytes
        key = ("file", id(model), value.index if value.nbytes else ("empty", id(user)))
        known = self._storages.get(key)
        if known is None:
            self._kept += [model, user]
            if self._check:
                _check_sum(value)
            known = self._storages[key] = (self._builder.storage_from(model, value.index), value.dtype)
        return known[0]

    def _lazy(self, value: Tensor) -> int:
        flags, storage = value._column("flags"), value.storage
        if value.layout != "strided" or value.class_name not in (None, "Parameter") or storage is None:
            raise refuse("a tensor of layout %s%s cannot be written yet" %
                         (value.layout, " and class " + value.class_name if value.class_name else ""))
        if flags & _TURNED_ALONE:
            raise refuse("numbers of %s of a big-endian machine cannot be written yet; 'ckpt convert' turns them around" % value.dtype)
        parameter = bool(flags & _PARAMETER)
        grad = bool(flags & _REQUIRES_GRAD)
        if flags & (_CONJ | _NEG):
            if storage.dtype != value.dtype:
                raise refuse("a conjugate or negative view that shows %s as %s cannot be written yet" % (storage.dtype, value.dtype))
            node = self._with_metadata(value, self._lazy_storage(storage, value), flags, grad and not parameter)
        else:
            node = self._builder.tensor(self._lazy_storage(storage, value), value.dtype, value.shape, value.stride(),
                                        value.storage_offset(), grad and not parameter)
        return self._builder.parameter(node, grad) if parameter else node

    def _with_metadata(self, value: Tensor, storage: int, flags: int, grad: bool) -> int:
        """A conjugate or negative view: torch says what it is in one more argument."""
        build = self._builder
        hooks, metadata = build.container("OrderedDict"), build.container("dict")
        for flag, name in ((_NEG, "neg"), (_CONJ, "conj")):
            if flags & flag:
                build.put(metadata, build.atom(name), build.atom(True))
        shape, stride = (build.tuple([build.atom(n) for n in numbers]) for numbers in (value.shape, value.stride() or ()))
        args = [storage, build.atom(value.storage_offset()), shape, stride, build.atom(grad), hooks, metadata]
        return build.call(build.global_("torch._utils", "_rebuild_tensor_v2"), build.tuple(args), False)

    def unnamed(self, array: Array) -> int:
        """A tensor that the file has where none can be named, as the key of a dict: a copy, which shares nothing."""
        info = array.info()
        if info["layout"] != "strided" or info["qscheme"] or info["reads"] not in DTYPES:
            raise refuse("a tensor of layout %s and dtype %s that has no name cannot be written yet" % (info["layout"], info["dtype"]))
        storage = self._builder.storage(info["reads"], "cpu", bytes(array.read()))
        return self._builder.tensor(storage, None, info["shape"], None, 0, False)

    # ---- torch ----

    def _torch(self, value: Any, torch: Any) -> Optional[int]:
        """None: it is no plain one, and what torch makes of it for pickle is to be written."""
        parameter = type(value) is torch.nn.Parameter
        if value.device.type == "meta":
            raise refuse("a meta tensor has no values")
        if not hasattr(value, "untyped_storage"):
            raise refuse("tensors of a torch before 2.0 cannot be written")
        if type(value) is not torch.Tensor and not parameter or value.layout is not torch.strided or value.is_quantized or \
                value.is_nested or value.is_conj() or value.is_neg() or getattr(value, "__dict__", None):
            return None
        plain = value.detach()
        storage = plain.untyped_storage()
        node = self._builder.tensor(
            self._storage(("torch", storage._cdata), str(value.dtype)[6:], _location(torch, storage), lambda: self._bytes(storage)),
            None, tuple(plain.shape), tuple(plain.stride()), plain.storage_offset(), bool(value.requires_grad) and not parameter)
        return self._builder.parameter(node, bool(value.requires_grad)) if parameter else node

    def _bytes(self, storage: Any) -> Any:
        """The memory of a storage, which stays there: a copy if it is on another device."""
        self._kept.append(storage)  # no other gets its address
        host = storage if storage.device.type == "cpu" else storage.cpu()
        return _memory(host.data_ptr(), host.nbytes(), host)

    # ---- numpy ----

    def _numpy(self, value: Any, numpy: Any) -> int:
        dtype = getattr(value, "ckpt_dtype", None) or self._dtypes.get(value.dtype)
        if dtype is None:
            dtype = self._dtypes[value.dtype] = value.dtype.name  # which takes numpy long to make
        if dtype not in DTYPES or value.dtype.fields is not None:
            raise refuse("no tensor has the dtype %s of this array; arrays='numpy' keeps arrays" % value.dtype)
        if type(value).__module__.partition(".")[0] == "numpy" and type(value) not in (numpy.ndarray, numpy.memmap):
            raise refuse("an array of class %s becomes no tensor; arrays='numpy' keeps arrays" % type(value).__qualname__)
        size = value.dtype.itemsize
        root, start, nbytes = _root_of(value)
        offset = value.__array_interface__["data"][0] - start
        last = sum((length - 1) * step for length, step in zip(value.shape, value.strides))
        if value.size == 0 or nbytes < 0 or not value.dtype.isnative or nbytes % size or offset % size or \
                not 0 <= offset <= nbytes - size - last or any(step < 0 or step % size for step in value.strides):
            root = value = numpy.array(value, dtype=value.dtype.newbyteorder("="), order="C", subok=False)
            start, nbytes, offset = value.__array_interface__["data"][0], value.nbytes, 0
            self._kept.append(value)
        self._kept.append(root)
        storage = self._storage(("memory", start, nbytes) if nbytes else ("empty", id(value)), dtype, "cpu",
                                lambda: _memory(start, nbytes, root))
        strides = tuple(step // size for step in value.strides) if value.size else None
        return self._builder.tensor(storage, None, value.shape, strides, offset // size, False)

    # ---- everybody else ----

    def _dlpack(self, value: Any) -> int:
        from ._dlpack import open_dlpack

        device = value.__dlpack_device__()
        if not isinstance(device, tuple) or len(device) != 2:
            raise refuse("its __dlpack_device__() gave %r, and not a kind of device and a number" % (device,))
        device = device[0]
        if device not in _HOST:
            raise refuse("is on a device (DLPack calls it %d); copy it to the host first" % device)
        found = open_dlpack(value)
        self._kept.append(found)
        storage = self._storage(("memory", found.start, found.nbytes) if found.nbytes else ("empty", id(value)), found.dtype, "cpu",
                                lambda: _memory(found.start, found.nbytes, found))
        return self._builder.tensor(storage, None, found.shape, found.strides, 0, False)


def _check_sum(storage: Storage) -> None:
    """Compare the recorded checksum, if there is one: the new file gets one of its own, which would hide what is damaged."""
    if storage.crc32 is None:
        return
    if storage.path is None:  # it is of other bytes than those in memory: only the library knows
        storage._checkpoint._model.read_storages([(storage.index, 0, storage.nbytes, bytearray(storage.nbytes))], check=True)
        return
    from zlib import crc32

    found = 0
    for offset in range(0, storage.nbytes, PIECE):
        found = crc32(storage.read(offset, min(PIECE, storage.nbytes - offset)), found)
    if found != storage.crc32:
        raise refuse("is damaged: its %d bytes have the checksum %08x, recorded is %08x; check=False takes them as they are"
                     % (storage.nbytes, found, storage.crc32), "DAMAGED")


def _location(torch: Any, storage: Any) -> str:
    """Where torch.load() is to put STORAGE: "cpu", "cuda:0"."""
    tag: str = torch.serialization.location_tag(storage)
    return tag


def _memory(address: int, nbytes: int, owner: Any) -> Any:
    """A buffer of that memory, which keeps OWNER."""
    import ctypes

    if not nbytes:
        return b""
    buffer: Any = (ctypes.c_char * nbytes).from_address(address)
    buffer.owner = owner
    return buffer


def _root_of(array: Any) -> Tuple[Any, int, int]:
    """The memory that ARRAY is a view of: its owner, address and size."""
    root = array
    while root.base is not None:
        base = root.base.base if type(root.base).__name__ == "DummyArray" else root.base  # of as_strided()
        if not isinstance(base, type(root).__mro__[-2]):
            break
        root = base
    if root.base is not None and isinstance(root.base, Map):  # Tensor.numpy(): of a storage in a file
        return root, _address(root.base), memoryview(root.base).nbytes
    start: int = root.__array_interface__["data"][0]
    if not root.flags.forc:
        return root, start, -1  # it has gaps: views of it are copied
    return root, start, root.nbytes


def _address(view: Any) -> int:
    import numpy

    address: int = numpy.frombuffer(view, numpy.uint8).__array_interface__["data"][0]
    return address

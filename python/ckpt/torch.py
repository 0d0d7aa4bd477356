# SPDX-License-Identifier: Apache-2.0
"""Checkpoints as objects of torch: what torch.load gives, without an unpickler.

The file is decoded by the library. Tensors are made by the functions of the torch that runs here, and only by those
that its own torch.load(weights_only=True) calls; nothing is imported because a file says so.
"""

from __future__ import annotations

import ctypes
import os
import pickle
import struct
import zlib
from collections import OrderedDict
from contextlib import contextmanager
from typing import Any, Callable, Dict, Iterator, List, Optional, Sequence, Tuple

import torch

from . import _ckpt, _staging
from ._checkpoint import Checkpoint, _open_model
from ._errors import TORCH_ERRORS, BadObject, Error, at_path, bad_object
from ._guard import Refused, guard, install_guard
from ._load import Global, Missing, Opaque, factory_of
from ._values import refuse, to_torch

__all__ = ["Refused", "UnpicklingError", "guard", "install_guard", "load", "load_broadcast"]

# They only keep the storage that they are given; what is in it is read later, all of it at once.
_KEEPERS = ("_rebuild_tensor", "_rebuild_tensor_v2", "_rebuild_tensor_v3", "_rebuild_parameter")
_LEGACY = 2  # CKPT_FORMAT_TORCH_LEGACY
_BLOCKED = ("sys", "os", "posix", "nt")
# edits that leave nothing away
_IN_ORDER = ("strip_module", "add_module", "strip_prefix", "add_prefix", "strip_wrappers", "rename", "number_keys", "remap", "cast", "dequantize", "compact", "set")
_FLAG_REQUIRES_GRAD, _FLAG_PARAMETER = 1, 2  # enum ckpt_tensor_flags


_OutOfMemory: Any = getattr(torch.cuda, "OutOfMemoryError", MemoryError)


class UnpicklingError(Error, pickle.UnpicklingError):
    """The file needs a class or function that is not allowed. Nothing of it was called."""


@contextmanager
def _making(what: str) -> Iterator[None]:
    """What torch raises of wrong arguments is the file's mistake; memory that is missing is not, and errors of our own say what they say."""
    try:
        yield
    except (Error, _OutOfMemory):
        raise
    except TORCH_ERRORS as error:
        raise bad_object(what, error) from error


def _has_opaque(value: Any, depth: int = 8) -> bool:
    """Whether something in VALUE stands for what was not looked up."""
    if isinstance(value, (Global, Opaque, Missing)):
        return True
    parts = [*value, *value.values()] if isinstance(value, dict) else value if isinstance(value, (list, tuple, set, frozenset)) else ()
    return depth > 0 and any(_has_opaque(part, depth - 1) for part in parts)


def _refused(text: str) -> UnpicklingError:
    error = UnpicklingError(text)
    error.text, error.status = text, "UNSUPPORTED"
    return error


def _compares_sizes() -> bool:
    """Whether this torch refuses a record that is longer than its storage, as 2.14 does: it is asked."""
    import io

    try:
        torch._C.PyTorchFileReader(io.BytesIO(_archive_of(b"N."))).get_storage_from_record("data.pkl", 1, torch.UntypedStorage)
    except RuntimeError:
        return True
    return False


def _mapped(module: str, name: str) -> Tuple[str, str]:
    """As Python 3 calls it."""
    names: Dict[Tuple[str, str], Tuple[str, str]] = torch._utils.NAME_MAPPING
    modules: Dict[str, str] = torch._utils.IMPORT_MAPPING
    return names.get((module, name), (modules.get(module, module), name))


def _mapped_name(path: str) -> str:
    return ".".join(_mapped(*path.rsplit(".", 1))) if "." in path else path


def _not_allowed(path: str) -> UnpicklingError:
    return _refused("the file wants %s, which is not allowed: if you trust what it does with its arguments, "
                    "torch.serialization.add_safe_globals([%s]) allows it; ckpt.torch.load(..., weights_only=False) "
                    "gives ckpt.Opaque in its place" % (path, path.rpartition(".")[2]))


def _allowed() -> Dict[str, Any]:
    """What torch.load(weights_only=True) may call, by name; the user's own safe globals, too."""
    from torch import _weights_only_unpickler as unpickler

    names = dict(unpickler._get_user_allowed_globals())
    names.update(unpickler._get_allowed_globals())
    return names


class _Place:
    """Where storages go: map_location of torch.load."""

    def __init__(self, map_location: Any) -> None:
        self.map_location = map_location
        self._restore = torch.serialization._get_restore_location(map_location)
        self.is_function = not (map_location is None or isinstance(map_location, (str, dict, torch.device)))
        self.meta = map_location == "meta" or isinstance(map_location, torch.device) and map_location.type == "meta"
        self._devices: Dict[str, Any] = {}  # by location
        if map_location is None:
            self._target: Callable[[str], Any] = lambda location: location
        elif isinstance(map_location, dict):
            self._target = lambda location: map_location.get(location, location)
        elif isinstance(map_location, (str, torch.device)):
            everywhere = str(map_location)
            self._target = lambda location: everywhere
        else:  # a function, which has to see the storage itself
            self._target = lambda location: None

    def stays(self, location: str) -> bool:
        """Whether a storage of LOCATION simply stays in main memory."""
        return bool(self._target(location) == "cpu")

    def device(self, location: str) -> Any:
        """The device to which storages of LOCATION may be read straight; None: restore() has to bring them there."""
        if location not in self._devices:
            target, device = self._target(location), None
            if isinstance(target, str) and _staging.takes(target):
                # restoring an empty one says where others go, or why that cannot be
                device = self.restore(torch.UntypedStorage(0), location).device
                if not _staging.is_fed(device):
                    device = None
            self._devices[location] = device
        return self._devices[location]

    def restore(self, storage: Any, location: str) -> Any:
        if self.is_function:
            restored = self._restore(storage, location)  # a function, whose errors are its own
            if not isinstance(restored, (torch.UntypedStorage, torch.TypedStorage)):
                raise TypeError("map_location gave %r for a storage on '%s': it has to give a storage, or None" % (restored, location))
            return restored
        if isinstance(self.map_location, dict) and not isinstance(self._target(location), str):
            raise TypeError("map_location gives %r for '%s', wanted the name of a device" % (self._target(location), location))
        with _making("a storage on '%s'" % location):
            return self._restore(storage, location)


class _Storages:
    """The storages of a model in memory of torch: allocated when they are named, read together."""

    def __init__(self, model: _ckpt.Model, place: _Place, mmap: bool, notes_locations: bool = False) -> None:
        self._model, self._place, self._mmap = model, place, mmap
        self._made: Dict[int, Any] = {}
        self._is_legacy = model.file_info()["format_code"] == _LEGACY
        self._without_memory: Dict[int, Any] = {}  # in a legacy file: where those are that were named
        self._ranges: List[Tuple[int, int, int, Any]] = []
        self._kept: List[Any] = []  # what _ranges are the memory of
        self._staged: List[_staging.Wanted] = []  # on devices, to be read there straight
        self._types: Dict[int, Any] = {}
        # as the file says, by _cdata
        self.locations: Optional[Dict[int, str]] = {} if notes_locations else None
        self._files: Dict[int, Any] = {}  # maps, by descriptor
        self._sizes: List[Tuple[Any, int]] = []  # of all that were handed out, but for those of get_simple() that are in _kept
        tls = getattr(torch.serialization, "_serialization_tls", None)
        self._skip = bool(getattr(tls, "skip_data", False))
        detect = getattr(getattr(torch, "_guards", None), "detect_fake_mode", None)
        self._fake = bool(detect is not None and detect(None) is not None)
        # the checks of its constructor take longer than all else that is done for a small storage
        sample = torch.storage.TypedStorage(wrap_storage=torch.UntypedStorage(0), dtype=torch.uint8, _internal=True)
        self._plain_typed = sorted(vars(sample)) == ["_untyped_storage", "dtype"]

    def is_simple(self, location: str) -> bool:
        """Whether storages of LOCATION are nothing but memory here, into which the file is read: get_simple() makes them."""
        return not (self._mmap or self._fake or self._skip or self._place.meta) and self._plain_typed and self._place.stays(location)

    def get_simple(self, index: int, dtype: Any, location: str, nbytes: int) -> Any:
        """As get() makes them, at once: of a storage that has bytes and is_simple()."""
        typed = self._made.get(index)
        if typed is None:
            untyped = torch.UntypedStorage(nbytes)
            kind = self._types.get(nbytes)
            if kind is None:
                kind = self._types[nbytes] = ctypes.c_char * nbytes
            self._ranges.append((index, 0, nbytes, kind.from_address(untyped.data_ptr())))
            self._kept.append(untyped)
            if self.locations is not None:
                self.locations[untyped._cdata] = location
            typed = self._made[index] = object.__new__(torch.storage.TypedStorage)
            typed.dtype, typed._untyped_storage = dtype, untyped
        return typed

    def get(self, index: int, dtype: Any, location: str, nbytes: int) -> Any:
        """Storage INDEX as a TypedStorage. Before flush() its values need not be there yet."""
        typed = self._made.get(index)
        if typed is not None and not nbytes and typed.dtype is not dtype:  # with mmap, torch.load() gives the first dtype to all
            return torch.storage.TypedStorage(wrap_storage=typed._untyped_storage, dtype=dtype, _internal=True)
        if typed is None:
            place = self._without_memory.get(index)
            untyped = self._untyped(index, location, nbytes) if place is None else torch.UntypedStorage(0, device=place)
            if self.locations is not None:
                self.locations[untyped._cdata] = location
            self._sizes.append((untyped, untyped.nbytes()))
            if self._plain_typed:
                typed = object.__new__(torch.storage.TypedStorage)
                typed.dtype, typed._untyped_storage = dtype, untyped
            else:
                typed = torch.storage.TypedStorage(wrap_storage=untyped, dtype=dtype, _internal=True)
            # torch.load makes another one each time of what has no memory (an empty map has an address), wherever map_location put it; then it may be
            # of another dtype, too. Of a legacy file that is an empty one beside the first, without asking map_location again;
            # it grows to what a tensor shows of it
            if (nbytes or self._mmap) and not self._fake and untyped.device.type != "meta":
                self._made[index] = typed
            elif self._is_legacy:
                self._without_memory[index] = untyped.device
        return typed

    def reads_whole(self, index: int) -> bool:
        """Whether torch.load would read the record of storage INDEX now, and compare its size with that in the pickle."""
        return not (index in self._made or self._mmap or self._fake or self._skip or self._place.meta) and _compares_sizes()

    def _untyped(self, index: int, location: str, nbytes: int) -> Any:
        if self._fake or self._place.meta:
            storage = torch.UntypedStorage(nbytes, device="meta")
            if self._fake and not self._is_legacy and not self._place.meta:  # torch does not say it there
                storage._fake_device = location
            return storage
        if not self._mmap:
            storage = self._on_device(index, location, nbytes)
            if storage is not None:
                return storage
        storage = self._mapped(index, nbytes) if self._mmap and not self._skip else None
        if storage is None:
            storage = torch.UntypedStorage(nbytes)
            if nbytes and not self._skip:
                kind = self._types.get(nbytes)
                if kind is None:
                    kind = self._types[nbytes] = ctypes.c_char * nbytes
                self._ranges.append((index, 0, nbytes, kind.from_address(storage.data_ptr())))
                self._kept.append(storage)
        if self._place.stays(location):
            return storage
        self._flush_here()  # one at a time, so that memory here holds no more than one that goes elsewhere
        return self._place.restore(storage, location)

    def _mapped(self, index: int, nbytes: int) -> Any:
        """A slice of the file; None: its bytes are not there as they have to be in memory."""
        info = self._model.storage_info(index)
        descriptor, offset = info["descriptor"], info["offset"]
        if descriptor < 0 or not nbytes:
            return None
        whole = self._files.get(descriptor)
        if whole is None:
            get = getattr(torch.serialization, "get_default_mmap_options", None)
            import mmap

            shared = bool(get is not None and get() == mmap.MAP_SHARED)
            # the file that was opened, whatever has its name now
            whole = self._files[descriptor] = torch.UntypedStorage.from_file("/proc/self/fd/%d" % descriptor, shared, os.fstat(descriptor).st_size)
        return whole[offset:offset + nbytes]

    def _on_device(self, index: int, location: str, nbytes: int) -> Any:
        """On a device, to be read there straight; None: that cannot be, or its bytes are not in one stretch of a file."""
        device = self._place.device(location)
        if device is None:
            return None
        if not nbytes or self._skip:
            return _staging.allocate(nbytes, device)
        info = self._model.storage_info(index)
        if info["path"] is None or info["nbytes"] != nbytes:
            return None
        storage = _staging.allocate(nbytes, device)
        self._staged.append(_staging.Wanted(storage, device, index, 0, info["path"], info["offset"]))
        return storage

    def check(self) -> None:
        """Before anything is read: a tensor that shows more than its storage has makes torch grow it, in other memory than was named."""
        for storage, (index, _, nbytes, _) in zip(self._kept, self._ranges):
            if storage.nbytes() != nbytes:
                self._ranges, self._kept = [], []
                raise refuse("a tensor goes on behind its storage, number %d of %d bytes" % (index, nbytes), "FORMAT")

    def check_sizes(self) -> None:
        """When all is made: what a tensor made larger shows memory that nobody has set. torch.load() makes storages that cannot grow."""
        for storage, nbytes in self._sizes:
            if storage.nbytes() != nbytes and storage.device.type != "meta":
                raise refuse("a tensor goes on behind its storage, of %d bytes" % nbytes, "FORMAT")

    def _flush_here(self, is_last: bool = False) -> None:
        if self._ranges:
            self.check()
            self._model.read_storages(self._ranges)
            if not is_last:  # tensors that are made later may still make them larger
                self._sizes += [(storage, nbytes) for storage, (_, _, nbytes, _) in zip(self._kept, self._ranges)]
            self._ranges, self._kept = [], []

    def flush_devices(self) -> None:
        """Read what was named and is on devices."""
        if self._staged:
            staged, self._staged = self._staged, []
            _staging.read(self._model, staged)

    def flush(self, is_last: bool = False) -> None:
        """Read what was named. IS_LAST: nothing more will be made of it."""
        self._flush_here(is_last)
        self.flush_devices()


# what makes tensors of those dtypes that have no class of storages; torch before 2.1 has none
_WITH_DTYPE: Any = getattr(torch._utils, "_rebuild_tensor_v3", None)


# torch.FloatTensor() and so on: empty ones in main memory, in a third of the time that torch.empty() takes
_EMPTY: Dict[Any, Callable[[], Any]] = {getattr(torch, dtype): getattr(torch, name) for dtype, name in (
    ("float32", "FloatTensor"), ("float64", "DoubleTensor"), ("float16", "HalfTensor"), ("bfloat16", "BFloat16Tensor"),
    ("int64", "LongTensor"), ("int32", "IntTensor"), ("int16", "ShortTensor"), ("int8", "CharTensor"), ("uint8", "ByteTensor"),
    ("bool", "BoolTensor")) if hasattr(torch, name)}


class _Hooks:
    """Makes what is not plain, for the walker of the extension: see python/ckpt/_build.c."""

    calls = True

    def __init__(self, model: _ckpt.Model, storages: _Storages, place: _Place, weights_only: bool, edits: Sequence[str]) -> None:
        self.in_order = all(edit in _IN_ORDER for edit in edits)
        self._is_cast = "cast" in edits
        self._model, self._storages, self._place, self._strict = model, storages, place, weights_only
        self._allowed = _allowed()
        self._callable = {id(value) for value in self._allowed.values()}
        self._keepers = {id(getattr(torch._utils, name)) for name in _KEEPERS if hasattr(torch._utils, name)}
        self._dtypes: Dict[str, Tuple[Any, int]] = {}
        self._columns: Any = None
        self._quick = None if storages._fake else torch._utils._rebuild_tensor_v2
        self._simple: Dict[str, bool] = {}  # by location
        self._is_simple = True  # all storages that were made

    @property
    def rebuilt(self) -> Any:
        """What makes tensors at once; None: only calls make them."""
        usual = self._quick is not None and all(self._allowed.get(name) is value for name, value in (
            ("torch._utils._rebuild_tensor_v2", self._quick), ("collections.OrderedDict", OrderedDict)))
        return self._rebuilt if usual else None

    # ---- tensors and storages ----

    def _dtype(self, name: str) -> Tuple[Any, int]:
        known = self._dtypes.get(name)
        if known is None:
            dtype = getattr(torch, name, None)
            if not isinstance(dtype, torch.dtype):
                raise refuse("this torch has no dtype %s" % name)
            known = self._dtypes[name] = (dtype, torch._utils._element_size(dtype))
        return known

    def storage(self, index: int, dtype: str, device: str, numel: int, is_cut: bool) -> Any:
        known = self._dtypes.get(dtype)
        kind, size = known if known is not None else self._dtype(dtype)
        simple = self._simple.get(device)
        if simple is None:
            simple = self._simple[device] = self._storages.is_simple(device)
        if simple and numel and not is_cut:
            return self._storages.get_simple(index, kind, device, numel * size)
        self._is_simple = False
        if is_cut and self._storages.reads_whole(index):
            raise refuse("the record of storage '%s' is longer than %d bytes, which the pickle says; this torch reads it with mmap=True only" % (self._model.storage_info(index)["key"], numel * size), "FORMAT")
        return self._storages.get(index, kind, device, numel * size)

    def tensor(self, index: int) -> Any:
        """Of a format without pickles."""
        with _making("a tensor"):
            return self._tensor(index)

    def _tensor(self, index: int) -> Any:
        if self._columns is None:
            self._columns = self._model.table()
        column = {name: values[index] for name, values in self._columns.items()
                  if name in ("dtypes", "shapes", "strides", "offsets", "storages", "flags", "devices", "layouts")}
        if column["storages"] >= 0 and column["layouts"] == "strided":
            dtype, size = self._dtype(column["dtypes"])
            nbytes = self._model.storage_info(column["storages"])["nbytes"]
            storage = self._storages.get(column["storages"], dtype, column["devices"], nbytes)
            made = torch._utils._rebuild_tensor(storage, column["offsets"], column["shapes"], column["strides"])
            if made.dtype != dtype:
                made = made.view(dtype)
        else:
            made = to_torch(lambda: self._model.open_array(index), None)
            if self._place.meta:
                made = made.to("meta")
            elif not self._place.stays(column["devices"]) and made.layout is torch.strided:
                storage = self._place.restore(made.untyped_storage(), column["devices"])
                typed = torch.storage.TypedStorage(wrap_storage=storage, dtype=made.dtype, _internal=True)
                made = torch._utils._rebuild_tensor(typed, 0, made.size(), made.stride())
        if column["flags"] & _FLAG_PARAMETER:
            return torch.nn.Parameter(made, bool(column["flags"] & _FLAG_REQUIRES_GRAD))
        return made.requires_grad_() if column["flags"] & _FLAG_REQUIRES_GRAD else made

    def array(self, array: _ckpt.Array, kind: str) -> Any:
        raise _refused("there is a %s of numpy that no call makes" % kind)

    # ---- classes and functions ----

    def global_(self, module: str, name: str) -> Any:
        module, name = _mapped(module, name)
        path = "%s.%s" % (module, name)
        if module not in _BLOCKED and path in self._allowed:
            return self._allowed[path]
        if not self._strict:
            return Global(module, name)
        if module in _BLOCKED:
            raise _refused("the file wants %s, and nothing of module '%s' is ever allowed" % (path, module))
        raise _not_allowed(path)

    def _rebuilt(self, storage: Any, offset: Any, size: Any, stride: Any, requires_grad: Any, hooks: Any, is_simple: bool = True) -> Any:
        """What torch._utils._rebuild_tensor_v2() does, without its calls: most objects of a checkpoint are made here."""
        try:
            untyped = storage._untyped_storage
            empty = _EMPTY.get(storage.dtype) if is_simple and self._is_simple else None
            made = empty() if empty is not None else torch.empty((0,), dtype=storage.dtype, device=untyped.device)
            made.set_(untyped, offset, size, stride)
            if requires_grad is not False:
                made.requires_grad = requires_grad
            made._backward_hooks = hooks
            return made
        except _OutOfMemory:
            raise
        except TORCH_ERRORS as error:
            raise bad_object("a tensor", error) from error

    def call(self, function: Any, args: Any, kwargs: Any, is_new: bool) -> Any:
        if function is self._quick and type(args) is tuple and len(args) == 6 and kwargs is None and not is_new:
            if type(args[0]) is torch.storage.TypedStorage:
                return self._rebuilt(*args, is_simple=False)
        if self._is_cast and function is _WITH_DTYPE and type(args) is tuple and len(args) >= 7:
            # of tensors that no edit walks to, keys of dicts; storages are bytes where they were not cast
            storage = args[0]
            if type(storage) is torch.storage.TypedStorage and storage.dtype is not torch.uint8:
                args = (*args[:6], storage.dtype, *args[7:])
        if id(function) not in self._callable or type(args) is not tuple or kwargs is not None:
            if not self._strict:
                return Opaque(function, args, kwargs, is_new)
            raise _refused("the file calls %r in a way that torch.load(weights_only=True) does not allow" % (function,))
        if id(function) not in self._keepers:
            self._storages.flush()
        try:
            return self._make(function, args, is_new)
        except (Error, _OutOfMemory):
            raise
        except TORCH_ERRORS as error:
            if self._strict or not _has_opaque(args):
                raise bad_object("what %s() gives" % getattr(function, "__name__", function), error) from error
            # one of the arguments is a class that was not looked up
            named = [path for path, value in self._allowed.items() if value is function]
            module, _, name = named[0].rpartition(".")
            return Opaque(Global(module, name), args, kwargs, is_new)

    def _make(self, function: Any, args: Tuple[Any, ...], is_new: bool) -> Any:
        if is_new and function is not torch.nn.Parameter:
            made = function.__new__(function, *args)
        else:
            made = function(*args)
        if function in torch._tensor_classes and "sparse" in function.__module__:
            torch._utils._sparse_tensors_to_validate.append(made)
        return made

    def fill(self, made: Any, items: List[Any], pairs: List[Tuple[Any, Any]], state: Tuple[Any, ...],
             setter: Any) -> None:
        if type(made) is Opaque:
            made.items, made.pairs, made.setter = items, pairs, setter
            if state:
                made.state = state[0]
            return
        with _making("a %s" % type(made).__name__):
            self._fill(made, items, pairs, state, setter)

    def _fill(self, made: Any, items: List[Any], pairs: List[Tuple[Any, Any]], state: Tuple[Any, ...], setter: Any) -> None:
        if items:
            if not isinstance(made, list):
                raise _refused("the file appends to an object of %r" % type(made))
            made.extend(items)
        if pairs:
            if not isinstance(made, dict):
                raise _refused("the file sets items of an object of %r" % type(made))
            for key, value in pairs:
                made[key] = value
        if state:
            if setter is not None:
                raise _refused("the file sets the state of an object with a function of its own")
            self._set_state(made, state[0])

    def _set_state(self, made: Any, state: Any) -> None:
        kind = type(made)
        if kind is torch.Tensor and self._strict:
            made.set_(*state)
        elif kind is torch.nn.Parameter:
            made.__setstate__(state)
        elif kind is OrderedDict and self._strict:  # in pairs, too, or whatever dict.update() takes
            made.__dict__.update(state)
        elif id(kind) not in self._callable:
            raise _refused("the file sets the state of an object of %r" % kind)
        elif hasattr(made, "__setstate__"):
            made.__setstate__(state)
        else:
            slots = None
            if isinstance(state, tuple) and len(state) == 2:
                state, slots = state
            if not self._strict and not all(part is None or isinstance(part, dict) for part in (state, slots)):
                raise refuse("the state of a %s is no dict" % kind.__name__, "FORMAT")  # as the unpickler in C has it
            if state if self._strict else state is not None:
                made.__dict__.update(state)
            for name, value in (slots or {}).items():
                setattr(made, name, value)

    def factory(self, function: Any) -> Any:
        if self._strict and "collections.defaultdict" not in self._allowed:
            self.global_("collections", "defaultdict")
        if isinstance(function, (Global, Opaque)):
            return factory_of(function)
        if function is not None and not callable(function):
            raise refuse("a defaultdict cannot make its items by %r" % (function,), "FORMAT")
        return function

    def size(self, items: Tuple[Any, ...]) -> Any:
        with _making("a torch.Size"):
            return torch.Size(items)

    def other(self, kind: str, value: Any) -> Any:
        if kind == "missing":
            if self._strict:
                raise refuse("a part could not be read: %s" % value, "FORMAT")
            return Missing(value)
        if self._strict:
            raise _refused("the file has an object that only the registry of copyreg knows" if kind == "extension" else
                           "the file has a persistent id that is no storage")
        return Opaque(Global("copyreg" if kind == "extension" else "torch.serialization", kind), (value,), None, False)


def _validate_sparse(weights_only: bool) -> None:
    validate = torch._utils._validate_loaded_sparse_tensors
    with _making("a sparse tensor"):
        if "weights_only" in validate.__code__.co_varnames[:validate.__code__.co_argcount]:
            validate(weights_only=weights_only)
        else:
            validate()


def _build(model: _ckpt.Model, storages: _Storages, place: _Place, weights_only: bool, read: bool = True, edits: Sequence[str] = ()) -> Any:
    """What MODEL holds. Not READ: the bytes that STORAGES.flush() reads into main memory are not there yet. EDITS: what was done to it."""
    hooks = _Hooks(model, storages, place, weights_only, edits)
    tls = getattr(torch.serialization, "_serialization_tls", None)
    if tls is not None:
        before, tls.map_location = tls.map_location, place.map_location
    try:
        # a function sees what it would see of torch.load(), the collector of garbage at work as well
        result = model.build("", hooks, not place.is_function)
        storages.check_sizes()
        if read:
            storages.flush(is_last=True)
        else:
            storages.check()
            storages.flush_devices()
    except BaseException:
        # tensors of a load that failed are nobody's to look at
        torch._utils._sparse_tensors_to_validate.clear()
        raise
    finally:
        if tls is not None:
            tls.map_location = before
    _validate_sparse(weights_only)
    return result


def _config_mmap() -> bool:
    try:
        from torch.utils.serialization import config
    except ImportError:  # torch before 2.7
        return False
    return bool(config.load.mmap)


def _archive_of(data: bytes) -> bytes:
    """A zip archive of two stored records, in a fifth of the time that zipfile takes for its first one."""
    records = ((b"archive/data.pkl", data), (b"archive/version", b"3\n"))
    parts, directory, offset = [], b"", 0
    for name, stored in records:
        common = struct.pack("<5H3L2H", 20, 0, 0, 0, 0x21, zlib.crc32(stored), len(stored), len(stored), len(name), 0)
        parts += [b"PK\3\4", common, name, stored]
        directory += b"PK\1\2" + struct.pack("<H", 20) + common + struct.pack("<3H2L", 0, 0, 0, 0, offset) + name
        offset += 30 + len(name) + len(stored)
    end = b"PK\5\6" + struct.pack("<4H2LH", 0, 0, len(records), len(records), len(directory), offset, 0)
    return b"".join((*parts, directory, end))


def _check_opcodes(model: _ckpt.Model, allowed: Dict[str, Any]) -> None:
    """Refuse what torch's unpickler does not execute, also where nothing of the result comes from it."""
    bit = 4 if tuple(map(int, torch.__version__.split(".")[:2])) >= (2, 14) else 2
    for name, versions, can_be_allowed, record, _, text in model.refusals():
        if not versions & bit or name is not None and can_be_allowed and _mapped_name(name) in allowed:
            continue
        if name is not None and can_be_allowed:
            raise _not_allowed(_mapped_name(name))
        raise _refused("%s%s" % (record + ": " if record else "", text))


def _is_forced() -> bool:
    """Whether the environment has torch.load() take nothing that weights_only=True refuses, whatever it is asked for."""
    return os.environ.get("TORCH_FORCE_WEIGHTS_ONLY_LOAD", "0").lower() in ("1", "y", "yes", "true")


def _open(f: Any, weights_only: Optional[bool]) -> Tuple[_ckpt.Model, bool]:
    """The model of F, if it may be loaded; and whether only what torch.load(weights_only=True) allows may be in it."""
    own = not isinstance(f, Checkpoint)
    model = _open_model(f, False) if own else f._model
    if not own:
        f._check_open()
    try:
        if model.file_info()["is_program"]:
            text = "this is a TorchScript archive: torch.jit.load() runs it, and `ckpt convert` makes a checkpoint of its tensors"
            error = BadObject(text)
            error.text, error.status = text, "UNSUPPORTED"
            raise error
        strict = weights_only is None or bool(weights_only) or _is_forced()
        if strict and (own or not f.edits):  # what edits left away is not asked for
            _check_opcodes(model, _allowed())
    except BaseException:
        if own:
            model.close()
        raise
    return model, strict


def load(f: Any, map_location: Any = None, weights_only: Optional[bool] = True, mmap: Optional[bool] = None) -> Any:
    """What torch.load(f) gives: the same objects, in the same order, sharing the same storages.

    F             a path of whatever ckpt.open() takes, an open binary file, or an open checkpoint, perhaps with edits
    MAP_LOCATION  as torch.load has it: None, "cuda:1", a torch.device, a dict or a function
    WEIGHTS_ONLY  True: what needs a class or function that neither torch.load(weights_only=True) nor
                  torch.serialization.add_safe_globals() allows is refused with an UnpicklingError
                  (a pickle.UnpicklingError). False: it becomes ckpt.Opaque. Nothing is imported, ever
    MMAP          storages are maps of the file, and read when they are used. None: what
                  torch.utils.serialization.config.load.mmap says

    Without MMAP, threads read all storages straight into the memory of their tensors; for a GPU through a little page-locked
    memory, from which they are copied meanwhile.
    """
    if mmap is None:
        mmap = _config_mmap()
    if mmap and hasattr(f, "read"):
        raise ValueError("mmap needs a path, not an open file")
    try:
        model, strict = _open(f, weights_only)
        try:
            place = _Place(map_location)
            edits = [edit["edit"] for edit in f.edits] if isinstance(f, Checkpoint) else []
            return _build(model, _Storages(model, place, bool(mmap)), place, strict, edits=edits)
        finally:
            if not isinstance(f, Checkpoint):
                model.close()
    except Error as error:
        at_path(error, f._source if isinstance(f, Checkpoint) else f)
        raise


os.register_at_fork(after_in_child=_ckpt.resume_collector)


def load_broadcast(path: Any, group: Any = None, src: int = 0, device: Any = None, weights_only: Optional[bool] = True,
                   bucket: int = 64 << 20) -> Any:
    """load(PATH) on all ranks of a group of torch.distributed, of which one reads the file, once.

    PATH          a file or directory, as load() has it. Only the rank SRC looks at it
    GROUP         None: the default one, whatever its back end is
    SRC           which rank reads: its number in the job, as torch.distributed.broadcast() has it
    DEVICE        where the tensors of this rank go, "cuda:1" say. None: where the file says
    WEIGHTS_ONLY  as load() has it
    BUCKET        bytes that are sent at once. Beside the result no rank needs more than two buckets, and memory for what
                  is not the bytes of tensors

    All ranks have to call it. All return what load() gives, or all raise the same error: that of the first rank that
    has one (a note says which). A rank that ends early lets the others raise a ckpt.Error with the status "PEER"
    (a RuntimeError), within the time-out of the group, which is of no use then, as after any collective that failed.
    """
    from ._broadcast import load_broadcast

    return load_broadcast(path, group, src, device, weights_only, bucket)

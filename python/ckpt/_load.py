# SPDX-License-Identifier: Apache-2.0
"""Values of a checkpoint as plain objects of Python. Nothing is imported or called because a file says so."""

from __future__ import annotations

import collections

from . import _ckpt
from ._checkpoint import Checkpoint, Storage, Tensor, View
from ._errors import Error, NameMissing, at_path
from ._values import convert, number_of, refuse, to_memoryview, to_numpy, to_torch

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Dict, List, Optional, Tuple

OBJECTS = ("opaque", "plain", "error")


def _brief(value: Any) -> str:
    from ._repr import brief

    return brief(value)


class Global:
    """A class, function or constant that the file names. It is not looked up."""

    __slots__ = ("module", "name")

    def __init__(self, module: str, name: str) -> None:
        self.module, self.name = module, name

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Global) and (other.module, other.name) == (self.module, self.name)

    def __hash__(self) -> int:
        return hash((self.module, self.name))

    def __repr__(self) -> str:
        return _brief(self)


class Opaque:
    """An object of a class, or what a function would return: all that the file says of it.

    module, name  what was called, "argparse" and "Namespace"; None if that was no global
    callable      the same as an object: a Global, or whatever it is
    args, kwargs  with what; IS_NEW: by class.__new__()
    state         what __setstate__ would get, a dict of attributes mostly; None if there is none
    items, pairs  what append() and o[key] = value would get
    setter        what is called with the object and STATE, in place of __setstate__; None mostly
    """

    __slots__ = ("callable", "args", "kwargs", "is_new", "state", "items", "pairs", "setter", "__weakref__")

    def __init__(self, callable: Any, args: Tuple[Any, ...], kwargs: Optional[Dict[str, Any]], is_new: bool) -> None:
        self.callable, self.args, self.kwargs, self.is_new = callable, args, kwargs, is_new
        self.state: Any = None
        self.setter: Any = None
        self.items: List[Any] = []
        self.pairs: List[Tuple[Any, Any]] = []

    @property
    def module(self) -> Optional[str]:
        return self.callable.module if isinstance(self.callable, Global) else None

    @property
    def name(self) -> Optional[str]:
        return self.callable.name if isinstance(self.callable, Global) else None

    def __repr__(self) -> str:
        return _brief(self)


class Size(Tuple[int, ...] if TYPE_CHECKING else tuple):  # type: ignore[misc]
    """A torch.Size: the tuple that it is, which save() writes as what it was."""

    __slots__ = ()

    def numel(self) -> int:
        """How many items a tensor of this shape has."""
        from math import prod

        return prod(self)

    def __repr__(self) -> str:
        return "ckpt.Size(%r)" % (list(self),)


class Factory:
    """What a defaultdict of the file calls for a key that is not there: `made_by`, a Global or Opaque. It is not called."""

    __slots__ = ("made_by",)

    def __init__(self, made_by: Any) -> None:
        self.made_by = made_by

    def __call__(self) -> Any:
        text = "there is no such key, and what the file has for it, %r, is not called" % (self.made_by,)
        error = NameMissing(text)
        error.text, error.status = text, "NOTFOUND"
        raise error

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Factory) and bool(other.made_by == self.made_by)

    def __hash__(self) -> int:
        return hash(self.made_by)

    def __repr__(self) -> str:
        return _brief(self)


# of tensors, as Tensor.class_name has them
_CLASSES_OF_TORCH = {None, "Tensor", "Parameter", "Buffer", "UninitializedParameter", "UninitializedBuffer", "Variable", "DTensor"}

# what defaultdicts call that does nothing but make an empty object, by the names of both Pythons
_BUILTINS: Dict[str, Any] = {kind.__name__: kind for kind in (
    list, dict, set, frozenset, tuple, int, float, complex, bool, str, bytes, bytearray, object)}
_BUILTINS.update({"long": int, "unicode": str})
_COLLECTIONS: Dict[str, Any] = {kind.__name__: kind for kind in (
    collections.OrderedDict, collections.defaultdict, collections.Counter, collections.deque)}
_FACTORIES: Dict[str, Dict[str, Any]] = {"builtins": _BUILTINS, "__builtin__": _BUILTINS, "collections": _COLLECTIONS}


def factory_of(function: Any) -> Any:
    """What a defaultdict gets for FUNCTION of the file: what makes an empty object, a Factory, or None if there is none."""
    if isinstance(function, Global):
        made = _FACTORIES.get(function.module, {}).get(function.name)
        return Factory(function) if made is None else made
    return Factory(function) if isinstance(function, Opaque) else None


class Missing:
    """What could not be read, and why."""

    __slots__ = ("why",)

    def __init__(self, why: str) -> None:
        self.why = why

    def __repr__(self) -> str:
        return _brief(self)


class Values:
    """An array of numpy in a pickle, or a tensor that has no name, being the key of a dict, say."""

    __slots__ = ("_array", "_kind", "_checkpoint")

    def __init__(self, checkpoint: Checkpoint, array: _ckpt.Array, kind: str) -> None:
        self._checkpoint, self._array, self._kind = checkpoint, array, kind

    dtype = property(lambda self: self._array.info()["dtype"])
    shape = property(lambda self: self._array.info()["shape"])
    nbytes = property(lambda self: self._array.info()["nbytes"])

    def numpy(self) -> Any:
        """A new array of numpy."""
        return to_numpy(self._array)

    def torch(self, device: Any = None) -> Any:
        """A new tensor of torch."""
        return to_torch(lambda: self._array, device)

    def memoryview(self) -> View:
        """The values in C order, without numpy."""
        info = self._array.info()
        return to_memoryview(self._array.read(), info["reads"], info["shape"])

    def __array__(self, dtype: Any = None, copy: Optional[bool] = None) -> Any:
        values = self.numpy()
        return values if dtype is None else values.astype(dtype)

    def __getitem__(self, key: Any) -> Any:
        return convert(lambda: self._array, self._checkpoint._framework, self._checkpoint._device)[key]

    def __repr__(self) -> str:
        return "<ckpt.Values of %s, %s [%s]>" % (self._kind, self.dtype, ", ".join(map(str, self.shape)))


class Hooks:
    """Makes what is not plain, for the walker of the extension: see python/ckpt/_build.c."""

    calls, in_order = False, True
    size, rebuilt = Size, None

    def __init__(self, checkpoint: Checkpoint, objects: str) -> None:
        self._checkpoint, self._objects = checkpoint, objects

    def tensor(self, index: int) -> Tensor:
        made = Tensor(self._checkpoint, index)
        if self._objects == "error" and made.class_name not in _CLASSES_OF_TORCH:
            raise refuse("there is a tensor of the class %s" % made.class_name)
        return made

    def array(self, array: _ckpt.Array, kind: str) -> Any:
        return number_of(array) if kind == "scalar" else Values(self._checkpoint, array, kind)

    def storage(self, index: int, dtype: str, device: str, numel: int, is_cut: bool) -> Storage:
        return Storage(self._checkpoint, index)

    def global_(self, module: str, name: str) -> Global:
        return Global(module, name)

    def call(self, function: Any, args: Any, kwargs: Any, is_new: bool) -> Opaque:
        made = Opaque(function, args, kwargs, is_new)
        if self._objects == "error":
            raise refuse("there is an object of %s.%s" % (made.module, made.name) if made.module is not None
                         else "there is an object that %r makes" % (function,))
        return made

    def fill(self, made: Opaque, items: List[Any], pairs: List[Tuple[Any, Any]], state: Tuple[Any, ...],
             setter: Any) -> None:
        made.items, made.pairs, made.setter = items, pairs, setter
        if state:
            made.state = state[0]

    def factory(self, function: Any) -> Any:
        return factory_of(function)

    def other(self, kind: str, value: Any) -> Any:
        if kind == "missing":
            return Missing(value)
        return self.call(Global("copyreg" if kind == "extension" else "torch.serialization",
                                kind), (value,), None, False)


def build(checkpoint: Checkpoint, name: str, objects: str = "opaque") -> Any:
    """The value called NAME of CHECKPOINT."""
    if objects not in OBJECTS:
        raise ValueError("objects is one of %s, not %r" % (", ".join(OBJECTS), objects))
    if objects == "plain":
        checkpoint = checkpoint.sanitize()
    try:
        return checkpoint._model.build(name, Hooks(checkpoint, objects))
    except Error as error:
        at_path(error, checkpoint._source)
        raise


def load(source: Any, only: Any = None, objects: str = "opaque", framework: Optional[str] = None,
         device: Any = "cpu") -> Any:
    """What is in a checkpoint, as nested dicts, lists, tuples, sets, numbers and texts.

    Tensors are lazy (ckpt.Tensor) and keep the file open as long as they live; arrays of numpy
    are ckpt.Values, its scalars numbers. What two places share is one object.

    SOURCE   a path of whatever ckpt.open() takes, bytes, or an open file
    ONLY     a pattern, or several, of the names to keep: "model.*", or "re:" and a regular expression
    OBJECTS  "opaque": objects of classes become ckpt.Opaque; "plain": as plain data as `ckpt
             sanitize` makes of them; "error": ckpt.Error if there are some

    Nothing in the file is ever called or imported.
    """
    checkpoint = Checkpoint(source, framework=framework, device=device)
    if only is not None:
        checkpoint = checkpoint.select(*((only,) if isinstance(only, str) else only))
    return build(checkpoint, "", objects)

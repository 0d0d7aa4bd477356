# SPDX-License-Identifier: Apache-2.0
"""save(): objects in memory become a file of torch.save, without torch.

Here is what becomes what; _arrays.py knows arrays and tensors. The graph is made without recursion: what can change is made
empty and filled later, so that cycles close; a tuple waits for its items. One object is one node, as pickle memoizes them.
"""

from __future__ import annotations

import sys
from collections import OrderedDict, defaultdict

from . import _ckpt
from ._arrays import Arrays
from ._checkpoint import Checkpoint
from ._errors import Error
from ._interned import is_interned
from ._sets import order_of
from ._values import refuse
from ._write import position, write

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Dict, List, Optional, Tuple

    Path = Tuple[Any, Any, int]  # (path of what it is in, its key, how many levels); None: the root

# what __reduce_ex__() says of these is a call that is the same in every process
_PLAIN = {
    "builtins": ("range", "slice", "ellipsis", "NotImplementedType"), "collections": ("defaultdict", "Counter"),
    "datetime": None, "decimal": ("Decimal",), "fractions": ("Fraction",),
    "torch": ("Size", "device", "dtype", "layout", "memory_format", "qscheme"),
}
_ATOMS = (type(None), bool, int, float)
_TEXTS = (complex, str, bytes, bytearray)
_MOST_NESTED = 9990  # load() reads a few more, and counts what a tensor is made of, too


def _is_numpy(value: Any) -> bool:
    """Whether it is an array, scalar or dtype of numpy."""
    numpy = sys.modules.get("numpy")
    return numpy is not None and isinstance(value, (numpy.ndarray, numpy.generic, numpy.dtype))


def _is_tensor(value: Any) -> bool:
    """Whether it is a tensor of torch, which says itself how it is made again: one that is sparse, quantized, of a class ..."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(value, torch.Tensor)


def _module_of(value: Any, name: str) -> str:
    """Where pickle finds VALUE: in its own module, or the first that has it."""
    module = getattr(value, "__module__", None)
    if module is not None:
        return str(module)
    for found, module in list(sys.modules.items()):
        if found not in ("__main__", "__mp_main__") and module is not None and getattr(module, name, None) is value:
            return found
    return "__main__"


def path_text(path: Optional[Path]) -> str:
    """'model.fc.weight', as `ckpt ls` would name it."""
    steps: List[str] = []
    while path is not None:
        path, step, _ = path
        steps.append(str(step))
    steps.reverse()
    return ".".join(steps if len(steps) <= 40 else steps[:20] + ["[...]"] + steps[-20:])


def _levels(path: Optional[Path]) -> int:
    """Of what is in what PATH leads to."""
    return 1 if path is None else path[2] + 1


def _is_nobodys(value: Any) -> bool:
    """Whether it does not matter who else has the argument VALUE of a call: of others only pickle itself finds out."""
    return type(value) in _ATOMS or type(value) is str or isinstance(value, type) or type(value) is tuple and not value


def _what_is_wrong(how: Any) -> Optional[str]:
    """Of what a __reduce__ gave, as pickle looks at it."""
    if not isinstance(how, tuple):
        return "gave %r, which is no tuple and no text" % (how,)
    if not 2 <= len(how) <= 6:
        return "gave a tuple of %d, not of 2 to 6" % len(how)
    if not (callable(how[0]) or type(how[0]).__module__ == "ckpt._load"):
        return "asks to call %r" % (how[0],)
    if not isinstance(how[1], tuple):
        return "gave %r for arguments" % (how[1],)
    for part in how[3:5]:
        if part is not None and not hasattr(type(part), "__next__"):
            return "gave %r for items, which is no iterator" % (part,)
    return None


class _Parts:
    """What an object gets behind the call that makes it."""

    def __init__(self, items: List[Any], pairs: List[Tuple[Any, Any]]) -> None:
        self.items, self.pairs = items, pairs


class Graph:
    """The nodes of one save."""

    def __init__(self, arrays: str, check: bool) -> None:
        self.builder = _ckpt.builder()
        self.kept: List[Any] = []  # what has a node, so that nothing else gets its id()
        self._nodes: Dict[int, int] = {}
        self._empty: List[Tuple[Any, int, Optional[Path]]] = []  # what is to be filled
        self._as_numpy = arrays == "numpy"
        self._arrays = Arrays(self.builder, self.kept, check)

    def remember(self, value: Any, node: int) -> int:
        self._nodes[id(value)] = node
        self.kept.append(value)
        return node

    def model(self, root: Any) -> _ckpt.Model:
        try:
            top = self.node(root, None)
            while self._empty:
                value, node, path = self._empty.pop()
                self._fill(value, node, path)
        except RecursionError:
            raise refuse("objects that calls make are nested too deep", "LIMIT") from None
        return self.builder.finish(top)

    # ---- one object ----

    def node(self, value: Any, path: Optional[Path]) -> int:
        """The node of VALUE. What tuples in tuples need first is on a stack of our own."""
        stack, made = [(value, path)], 0
        while stack:
            value, path = stack[-1]
            missing = self._missing(value, path)
            if missing:
                self._check_depth(path)
                stack += reversed(missing)
                continue
            try:
                made = self._node(value, path)
            except Error as error:
                raise self._with_place(error, path)
            stack.pop()
        return made

    def _missing(self, value: Any, path: Optional[Path]) -> List[Tuple[Any, Optional[Path]]]:
        """The parts of VALUE that have to be made before it."""
        if type(value) not in (tuple, frozenset) or id(value) in self._nodes:
            return []
        depth = _levels(path)
        return [(item, (path, i, depth)) for i, item in enumerate(value)
                if type(item) not in _ATOMS and id(item) not in self._nodes]

    def _node(self, value: Any, path: Optional[Path]) -> int:
        kind = type(value)
        if kind in _ATOMS:
            return self.builder.atom(value)
        made = self._nodes.get(id(value))
        if made is not None:
            return made
        if kind in _TEXTS:
            once = kind is str and is_interned(value)
            return self.remember(value, self.builder.interned(value) if once else self.builder.atom(value))
        if kind is tuple or kind is frozenset:
            return self._row(value, kind is tuple)
        if kind in (dict, list, set):
            return self._later(value, self.builder.container(kind.__name__), path)
        if kind is OrderedDict:
            return self._ordered_dict(value, path)
        made = self._arrays.node(value, self._as_numpy)
        if made is not None:
            return self.remember(value, made)
        return self._other(value, path)

    def _row(self, value: Any, is_tuple: bool) -> int:
        parts = list(value) if is_tuple else order_of(list(value))
        items = [self.builder.atom(item) if type(item) in _ATOMS else self._nodes[id(item)] for item in parts]
        return self.remember(value, self.builder.tuple(items) if is_tuple else self.builder.frozenset(items))

    def _check_depth(self, path: Optional[Path]) -> None:
        if path is not None and path[2] > _MOST_NESTED:
            raise refuse("objects are nested deeper than %d levels" % _MOST_NESTED, "LIMIT")

    def _later(self, value: Any, node: int, path: Optional[Path]) -> int:
        self._check_depth(path)
        self._empty.append((value, node, path))
        return self.remember(value, node)

    def _ordered_dict(self, value: Any, path: Optional[Path]) -> int:
        node = self._later(value, self.builder.container("OrderedDict"), path)
        state = dict(vars(value))  # __reduce_ex__() would call what stands there as "items"
        if state:
            self.builder.set_state(node, self.node(state, (path, "__dict__", _levels(path))))
        return node

    def _fill(self, value: Any, node: int, path: Optional[Path]) -> None:
        depth = _levels(path)
        if isinstance(value, dict):
            for key, item in (OrderedDict if isinstance(value, OrderedDict) else dict).items(value):
                self.builder.put(node, self.node(key, (path, key, depth)), self.node(item, (path, key, depth)))
        elif hasattr(value, "pairs"):  # an Opaque, or _Parts
            for i, item in enumerate(value.items):
                self.builder.append(node, self.node(item, (path, i, depth)))
            for key, item in value.pairs:
                self.builder.put(node, self.node(key, (path, key, depth)), self.node(item, (path, key, depth)))
        else:
            for i, item in enumerate(order_of(list(value)) if isinstance(value, set) else value):
                self.builder.append(node, self.node(item, (path, i, depth)))

    # ---- classes, and what they make ----

    def _other(self, value: Any, path: Optional[Path]) -> int:
        from ._load import Factory, Global, Missing, Opaque, Size, Values

        kind = type(value)
        if kind is Global:
            return self.remember(value, self.builder.global_(value.module, value.name))
        if kind is Size:
            return self._call(value, Global("torch", "Size"), (tuple(value),), (), path)
        if kind is Factory:
            return self.remember(value, self.node(value.made_by, path))
        if kind is Missing:
            raise self.cannot(path, value, "could not be read: %s" % value.why)
        if kind is Values:
            return self.remember(value, self._values(value, path))
        if kind is Opaque:
            if value.kwargs is not None or value.setter is not None:
                raise self.cannot(path, value, "was made in a way that cannot be written")
            state = () if value.state is None else (value.state,)
            node = self._call(value, value.callable, value.args, state, path, value.is_new)
            if value.items or value.pairs:
                self._empty.append((value, node, path))
            return node
        if isinstance(value, type) or kind.__name__ in ("function", "builtin_function_or_method"):
            return self._global(value, value.__qualname__, path)
        return self._reduced(value, self._reduce(value, path), path)

    def _values(self, value: Any, path: Optional[Path]) -> int:
        """An array of numpy in a file, which stays one, or a tensor that has no name there."""
        if value._kind == "tensor":
            return self._arrays.unnamed(value._array)
        try:
            array = value.numpy()
        except ImportError:
            raise self.cannot(path, value, "cannot be written without numpy") from None
        if type(array).__module__ != "numpy":
            raise self.cannot(path, value, "has a dtype, %s, that numpy does not have" % value.dtype)
        return self._reduced(array, array.__reduce_ex__(2), path)

    def _global(self, value: Any, name: str, path: Optional[Path]) -> int:
        """VALUE by the name of its module and its own, which have to lead to it, as for pickle."""
        module = _module_of(value, name)
        if "." in name or getattr(sys.modules.get(module), name, None) is not value:
            raise self.cannot(path, value, "is not found as %s.%s" % (module, name))
        return self.remember(value, self.builder.global_(module, name))

    def _reduce(self, value: Any, path: Optional[Path]) -> Any:
        import copyreg

        reduce = copyreg.dispatch_table.get(type(value))
        try:
            return value.__reduce_ex__(2) if reduce is None else reduce(value)
        except Error:
            raise
        except Exception as error:
            raise self.cannot(path, value, "cannot be pickled: %s" % error)

    def _reduced(self, value: Any, how: Any, path: Optional[Path]) -> int:
        """VALUE as its __reduce_ex__() says, if that is a call and perhaps a state."""
        if isinstance(how, str):
            return self._global(value, how, path)
        wrong = _what_is_wrong(how)
        if wrong is not None:
            raise self.cannot(path, value, "cannot be pickled: its __reduce__ %s" % wrong)
        function, args, state, items, pairs, setter = (tuple(how) + (None,) * 6)[:6]
        name = getattr(function, "__name__", "")
        if name == "__newobj_ex__" or setter is not None:
            raise self.cannot(path, value)
        is_new = name == "__newobj__"  # as pickle looks at it
        if is_new:
            function, args = args[0], args[1:]
            if not hasattr(function, "__new__") or type(value) is not function:
                raise self.cannot(path, value)
        root = type(value).__module__.partition(".")[0]
        names = _PLAIN.get(root, ())
        if not (names is None or type(value).__name__ in names or _is_numpy(value) or _is_tensor(value)):
            if root == "torch" or not all(map(_is_nobodys, args)):
                raise self.cannot(path, value)
        node = self._call(value, function, args, () if state is None else (state,), path, is_new)
        if type(value) is defaultdict:
            self._empty.append((value, node, path))
            return node
        items, pairs = list(items or ()), list(pairs or ())
        if not all(isinstance(pair, tuple) and len(pair) == 2 for pair in pairs):
            raise self.cannot(path, value, "cannot be pickled: its __reduce__ gave what are no pairs")
        self._empty.append((_Parts(items, pairs), node, path))
        return node

    def _call(self, value: Any, function: Any, args: Any, state: Tuple[Any, ...], path: Optional[Path], is_new: bool = False) -> int:
        depth = _levels(path)
        node = self.builder.call(self.node(function, (path, "()", depth)), self.node(args, (path, "()", depth)), is_new)
        self.remember(value, node)
        if state:
            self.builder.set_state(node, self.node(state[0], (path, "__dict__", depth)))
        return node

    # ---- mistakes ----

    def cannot(self, path: Optional[Path], value: Any, why: str = "cannot be written without torch or pickle") -> Error:
        kind = type(value)
        return self._with_place(refuse("a %s.%s %s" % (kind.__module__, kind.__qualname__, why)), path)

    def _with_place(self, error: Error, path: Optional[Path]) -> Error:
        """ERROR, which says where in the objects it is. Only the first to know says so."""
        name = path_text(path)
        if name and error.record is None:
            error.record = "".join(c if c.isprintable() else "\\x%02x" % ord(c) for c in name)
        return error


def save(obj: Any, path: Any, profile: Optional[str] = None, arrays: str = "tensor", overwrite: bool = True,
         check: bool = True, progress: Any = None, **options: Any) -> Dict[str, Any]:
    """Write what torch.save() would write for OBJ, byte for byte, without torch.

    OBJ        dicts, lists, tuples, sets, numbers, texts, bytes; ckpt.Tensor and whatever else load() gives; arrays of
               numpy, tensors of torch, and of others with __dlpack__; scalars of numpy; an open checkpoint
    PATH       a file, which gets its name when it is complete; or an open binary file
    PROFILE    which torch to write like, "1.6" to "2.14"; None: the newest
    ARRAYS     "tensor": arrays of numpy become tensors, and views of one array share a storage; "numpy": they stay arrays
    OVERWRITE  whether PATH may be there already
    CHECK      compare checksums that are recorded of lazy tensors, which reads them twice
    PROGRESS   called with bytes (done, total), or a bar of tqdm, or its class; what it raises ends it

    Other options: see Checkpoint.save(). Returns facts about the new file: nbytes ...
    """
    if isinstance(obj, Checkpoint):
        return obj.save(path, profile=profile, overwrite=overwrite, progress=progress, canonical=True, **options)
    if arrays not in ("tensor", "numpy"):
        raise ValueError("arrays is 'tensor' or 'numpy', not %r" % (arrays,))
    at = position(path)
    model = Graph(arrays, check).model(obj)
    try:
        return write(model, path, at=at, profile=profile, overwrite=overwrite, progress=progress, canonical=True, **options)
    finally:
        model.close()

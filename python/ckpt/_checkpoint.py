# SPDX-License-Identifier: Apache-2.0
"""An open checkpoint as a mapping of lazy tensors."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from . import _ckpt
from ._dtypes import DTYPES, numpy_dtype
from ._edits import Edits, config_text
from ._errors import Error, NameMissing, at_path, shown
from ._values import NUMPY, TORCH, convert, has_format, index_text, named, number_of, refuse, to_memoryview, to_numpy, to_torch

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Dict, Iterator, List, Optional, Sequence, Tuple

View = memoryview  # classes here have a method of that name
_REQUIRES_GRAD, _PARAMETER, _CONJ, _NEG, _TURNED_ALONE = 1, 2, 4, 8, 16  # enum ckpt_tensor_flags


def _open_model(source: Any, brief: bool) -> _ckpt.Model:
    """A model of a path, of bytes, or of an open file."""
    if isinstance(source, (bytes, bytearray, memoryview)):
        return _ckpt.open_memory(source)
    if not hasattr(source, "read"):
        return _ckpt.open(source, brief)
    from ._files import open_file

    return open_file(source)


class Checkpoint(Edits, Mapping):  # type: ignore[type-arg]
    """An open checkpoint: a mapping from names, those of `ckpt ls`, to lazy tensors.

    Made by ckpt.open(). It stays open until close(), the end of its `with` block, or until nobody
    has it or a tensor of it any more. Threads may share it.
    """

    def __init__(self, source: Any, framework: Optional[str] = None, device: Any = "cpu", brief: bool = False) -> None:
        if framework is not None and framework not in NUMPY + TORCH:
            raise ValueError("framework is 'numpy' or 'torch', not %r" % (framework,))
        self._source = source if isinstance(source, str) or hasattr(source, "__fspath__") else None
        self._framework, self._device = framework, device
        self.edits: List[Dict[str, Any]] = []
        self._set_model(_open_model(source, brief))

    def _set_model(self, model: _ckpt.Model) -> None:
        self._model = model
        self._columns: Any = None
        self._index: Dict[str, int] = {}
        self._shared_names: Dict[str, int] = {}  # those of several tensors, and how many
        # plain weights that tensors asked for: by dtype and options
        self._plain: Dict[Any, Tuple[Optional[Checkpoint], Dict[str, str]]] = {}

    def _derived(self, model: _ckpt.Model, report: Dict[str, Any]) -> Checkpoint:
        """The same, with MODEL, which was made of this one's."""
        other = Checkpoint.__new__(type(self))
        other._source, other._framework, other._device = self._source, self._framework, self._device
        other.edits = self.edits + [report]
        other._set_model(model)
        return other

    @property
    def _table(self) -> Any:
        if self._columns is None:
            columns = self._model.table()
            names = columns["names"]
            self._index = dict(zip(reversed(names), range(len(names) - 1, -1, -1)))
            if len(self._index) < len(names):  # "a.b" may be a key, and "b" in "a"
                self._shared_names = {name: count for name, count in Counter(names).items() if count > 1}
            self._columns = columns
        return self._columns

    # ---- the mapping ----

    def _missing(self, name: str, text: str) -> Error:
        error = NameMissing(name)
        error.text, error.status = text, "NOTFOUND"
        return at_path(error, self._source)

    def __getitem__(self, name: str) -> Tensor:
        self._check_open()
        self._table
        number = self._index.get(name)
        if number is None:
            raise self._missing(name, "there is no tensor %r" % (name,))
        if name in self._shared_names:
            raise at_path(refuse("%d tensors are called %r: tensors() and load() have them all" % (self._shared_names[name], name), "CLASH"), self._source)
        return Tensor(self, number)

    def _plain_weight(self, name: str, dtype: str, as_: Optional[str], config: Any) -> Tensor:
        """Of the quantized weight whose numbers are in the tensor NAME. All are found once, as that reads all names."""
        text = config_text(config)
        key = (dtype, as_, text)
        made = self._plain.get(key)
        if made is None:
            found = self.quantized(as_, text) or {"weights": ()}
            names = {one["items"]: one["name"] for one in found["weights"]}
            made = self._plain.setdefault(key, (self.dequantize(dtype, as_, text) if names else None, names))
        plain, names = made
        if plain is None or name not in names:
            raise self._missing(name, "%r holds the numbers of no quantized weight" % name)
        return plain[names[name]]

    def __iter__(self) -> Iterator[str]:
        self._check_open()
        return iter(dict.fromkeys(self._table["names"]))

    def __len__(self) -> int:
        self._check_open()
        self._table
        return len(self._index)

    def __contains__(self, name: object) -> bool:
        self._check_open()
        self._table
        return name in self._index

    def _check_open(self) -> None:
        if self.closed:
            raise ValueError("the checkpoint is closed")

    def __reduce_ex__(self, protocol: object) -> Any:
        raise TypeError("an open checkpoint can be neither copied nor pickled: open its path once more")

    __hash__ = object.__hash__

    def __eq__(self, other: object) -> bool:
        return self is other

    def tensors(self) -> List[Tensor]:
        """All tensors in the order of the file, also those whose name another one has, too."""
        self._check_open()
        return [Tensor(self, number) for number in range(len(self._table["names"]))]

    # ---- the words of safetensors.safe_open ----

    def get_tensor(self, name: str) -> Any:
        """All values of the tensor NAME, as `framework` says."""
        return self[name]._convert()

    def get_slice(self, name: str) -> Tensor:
        """The tensor NAME, of which [...] reads a part."""
        return self[name]

    def offset_keys(self) -> List[str]:
        """The names in the order of the bytes in the file."""
        self._check_open()
        table = self._table
        index, storages, offsets = self._index, table["storages"], table["offsets"]
        return sorted(index, key=lambda name: (storages[index[name]], offsets[index[name]]))

    def metadata(self) -> Dict[str, str]:
        """The pairs of strings that safetensors keeps beside its tensors (`__metadata__`)."""
        return self._model.metadata()

    # ---- everything else ----

    @property
    def info(self) -> Dict[str, Any]:
        """Facts about the file: format, writer, byteorder, file_nbytes, tensor_count ..."""
        return self._model.file_info()

    def value(self, name: str = "", objects: str = "opaque") -> Any:
        """The value called NAME, "epoch" say, which need not be a tensor; "" is all of it. See load()."""
        from ._load import build

        return build(self, name, objects)

    def show(self, name: str = "") -> str:
        """The value called NAME as repr() would show it."""
        return self._model.show(name)

    def tree(self, depth: Optional[int] = None) -> str:
        """What is in it, one line for each value, down to DEPTH levels; None: 100, as each line has the whole name."""
        rows = self._model.walk(100 if depth is None else depth)
        numbers = {name: i for i, name in reversed(list(enumerate(self._table["names"])))}
        return "\n".join(_tree_line(self, row, numbers) for row in rows)

    def storages(self) -> List[Storage]:
        """All storages: the blocks of bytes that tensors show parts of."""
        return [Storage(self, number) for number in range(self._model.file_info()["storage_count"])]

    def read_storages(self, ranges: Sequence[Tuple[int, int, int, Any]], threads: int = 0, check: bool = False,
                      progress: Any = None) -> None:
        """Read many ranges (index of a storage, offset, nbytes, writable buffer) at once.

        THREADS: how many work at once, 0: up to 4. CHECK: compare recorded checksums of storages
        that are read whole. PROGRESS: called with bytes (done, total), or a bar of tqdm; what it raises ends it.
        """
        from ._progress import Told

        with Told(progress) as tell:
            self._model.read_storages(ranges, threads=threads, check=check, progress=tell)

    def close(self) -> None:
        """Close the file. Maps of it stay valid while somebody has them."""
        self._model.close()
        for plain, _ in list(self._plain.values()):
            if plain is not None:
                plain.close()

    @property
    def closed(self) -> bool:
        return self._model.closed

    def __enter__(self) -> Checkpoint:
        self._check_open()
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def __repr__(self) -> str:
        name = "in memory" if self._source is None else repr(self._source)
        if self.closed:
            return "<ckpt.Checkpoint %s, closed>" % name
        info = self._model.file_info()
        return "<ckpt.Checkpoint %s, %s, %d tensors>" % (name, info["format"], info["tensor_count"])

    def _repr_html_(self) -> str:
        from ._html import checkpoint_html

        return checkpoint_html(self)


def _tree_line(checkpoint: Checkpoint, row: Any, numbers: Dict[str, int]) -> str:
    name, depth, kind, type_name, text, count, mapping, seen, _ = row
    label, type_name, text = "  " * depth + shown(name or "(all)"), shown(type_name or ""), shown(text or "")
    if kind == 0 and name in numbers:
        return "%s: %s" % (label, Tensor(checkpoint, numbers[name])._brief())
    if kind == 1:
        size = " of %d" % count if count or mapping or type_name in ("list", "tuple", "set", "frozenset") else ""
        return "%s: %s%s%s" % (label, type_name, size, ", as above" if seen else "")
    return "%s: %s" % (label, text)


class Storage:
    """A block of bytes that tensors show parts of; those that share it are tied or views."""

    __slots__ = ("_checkpoint", "index", "_facts")

    def __init__(self, checkpoint: Checkpoint, index: int) -> None:
        self._checkpoint, self.index = checkpoint, index
        self._facts: Optional[Dict[str, Any]] = None

    @property
    def _info(self) -> Dict[str, Any]:
        if self._facts is None:
            self._facts = self._checkpoint._model.storage_info(self.index)
        return self._facts

    nbytes = property(lambda self: self._info["nbytes"], doc="bytes of it")
    key = property(lambda self: self._info["key"], doc="of its record, data/KEY")
    dtype = property(lambda self: self._info["dtype"], doc='"uint8" if it is untyped')
    device = property(lambda self: self._info["device"], doc="as the file says")
    path = property(lambda self: self._info["path"], doc="the file, if its bytes lie in one stretch of it; or None")
    offset = property(lambda self: self._info["offset"], doc="in that file, in bytes; or None")
    crc32 = property(lambda self: self._info["crc32"], doc="the checksum that is recorded, or None")

    def map(self) -> View:
        """Its bytes in a read-only map of the file, which stays as long as somebody has it."""
        return self._checkpoint._model.storage_map(self.index)

    def read(self, offset: int = 0, nbytes: Optional[int] = None) -> bytearray:
        """A copy of its bytes."""
        count: int = self.nbytes - offset if nbytes is None else nbytes
        if not 0 <= offset <= self.nbytes or not 0 <= count <= self.nbytes - offset:
            raise ValueError("bytes %d to %d are wanted of a storage of %d" % (offset, offset + count, self.nbytes))
        buffer = bytearray(count)
        self._checkpoint._model.read_storages([(self.index, offset, count, buffer)])
        return buffer

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Storage) and other._checkpoint is self._checkpoint and other.index == self.index

    def __hash__(self) -> int:
        return hash((id(self._checkpoint), self.index))

    def __repr__(self) -> str:
        return "<ckpt.Storage %d, %d bytes>" % (self.index, self.nbytes)


class Tensor:
    """A tensor in a file. Its values are read when they are asked for, and only those.

    tensor[0:10, ::2] is an array of numpy, or what `framework=` of open() says. Two are equal if they are the same one of the
    same open checkpoint, whatever their values.
    """

    __slots__ = ("_checkpoint", "_number", "__weakref__")

    def __init__(self, checkpoint: Checkpoint, number: int) -> None:
        self._checkpoint, self._number = checkpoint, number

    def _column(self, name: str) -> Any:
        return self._checkpoint._table[name][self._number]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Tensor) and other._checkpoint is self._checkpoint and other._number == self._number

    def __hash__(self) -> int:
        return hash((id(self._checkpoint), self._number))

    def __copy__(self) -> Tensor:
        return self  # it cannot change

    def __deepcopy__(self, memo: object) -> Tensor:
        return self

    def __reduce_ex__(self, protocol: object) -> Any:
        raise TypeError("a lazy tensor cannot be pickled, as it reads an open file: .numpy() or .torch() gives what can")

    name = property(lambda self: self._column("names"), doc="as `ckpt ls` prints it")
    dtype = property(lambda self: self._column("dtypes"), doc='"float32", "bfloat16" ... as torch names it')
    shape = property(lambda self: self._column("shapes"), doc="a tuple")
    device = property(lambda self: self._column("devices"), doc='"cpu", "cuda:0" ... as the file says')
    layout = property(lambda self: self._column("layouts"), doc='"strided", "sparse_coo", "quantized" ...')
    class_name = property(lambda self: self._column("class_names"), doc='"Parameter", "DTensor" ...; None: plain')
    nbytes = property(lambda self: self._column("nbytes"), doc="of its values as they are stored")
    requires_grad = property(lambda self: bool(self._column("flags") & _REQUIRES_GRAD))
    ndim = property(lambda self: len(self.shape))

    @property
    def storage(self) -> Optional[Storage]:
        """The storage that it shows, or None: it has none, or several."""
        number = self._column("storages")
        return None if number < 0 else Storage(self._checkpoint, number)

    def storage_offset(self) -> int:
        """Of the first item in the storage, in items."""
        offset: int = self._column("offsets")
        return offset

    def stride(self) -> Optional[Tuple[int, ...]]:
        """In items; None if it is sparse or nested."""
        strides: Optional[Tuple[int, ...]] = self._column("strides")
        return strides

    def numel(self) -> int:
        count: int = self._column("numels")
        return count

    def get_shape(self) -> List[int]:
        """A word of safetensors: the shape as a list."""
        return list(self.shape)

    def get_dtype(self) -> str:
        """A word of safetensors: "F32", "BF16" ...; torch's name where that has none."""
        known = DTYPES.get(self.dtype)
        name: str = known[3] if known and known[3] else self.dtype
        return name

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("len() of a 0-d tensor")
        length: int = self.shape[0]
        return length

    def __bool__(self) -> bool:
        raise TypeError("a tensor in a file is neither true nor false; read it first")

    # ---- values ----

    def _open(self, text: Optional[str] = None) -> _ckpt.Array:
        array = self._checkpoint._model.open_array(self._number)
        if text:
            array.slice(text)
        return array

    def _convert(self, text: Optional[str] = None) -> Any:
        made = self._on_device(self._checkpoint._device) if text is None and self._checkpoint._framework in TORCH else None
        try:
            return made if made is not None else convert(lambda: self._open(text), self._checkpoint._framework, self._checkpoint._device)
        except Error as error:
            raise at_path(error, self._checkpoint._source)

    def _on_device(self, device: Any) -> Any:
        """A tensor of torch on DEVICE, to which its bytes are read straight; None: they are too few, or not as they are there."""
        if device is None or str(device) == "cpu" or self.nbytes < 1 << 20:
            return None
        if not self._is_as_in_storage() or not self._is_contiguous():
            return None
        if self._open().info()["reads"] != self.dtype or self.dtype not in DTYPES:
            return None
        from ._staging import read_tensor

        start = self.storage_offset() * DTYPES[self.dtype][0]
        return read_tensor(self._checkpoint._model, self._column("storages"), start, self.dtype, self.shape, device)

    def __getitem__(self, key: Any) -> Any:
        return self._convert(index_text(key, self.shape))

    def _is_as_in_storage(self) -> bool:
        """Are its numbers those that the bytes of a storage are in memory?"""
        return self.layout == "strided" and not self._column("flags") & (_CONJ | _NEG | _TURNED_ALONE) and self._column("storages") >= 0

    def _map(self) -> Optional[View]:
        """The storage in memory, if its bytes are the values as they are."""
        if not self._is_as_in_storage():
            return None
        try:
            view = self._checkpoint._model.storage_map(self._column("storages"))
        except Error as error:
            if error.status != "UNSUPPORTED":
                raise
            return None
        # a damaged file may have a tensor that goes on behind its storage: reading says what is wrong
        last = self.storage_offset() + sum((length - 1) * step for length, step in zip(self.shape, self.stride() or ()))
        fits = not self.numel() or (last + 1) * DTYPES[self.dtype][0] <= len(view) if self.dtype in DTYPES else False
        return view if fits else None

    def numpy(self, copy: Optional[bool] = None) -> Any:
        """An array of numpy. bfloat16 and float8 are dtypes of ml_dtypes, if that is there, else
        integers of the same size with `ckpt_dtype`. Quantized tensors become float32.

        COPY None: a read-only map of the file where that is possible, else read, and read-only,
        too; True: always read, and writable; False: a map, or ValueError.
        """
        import numpy

        view = None if copy else self._map()
        if view is None:
            if copy is False:
                raise ValueError("the values of '%s' do not lie in the file as they are in memory" % self.name)
            values = to_numpy(self._open())
            values.flags.writeable = bool(copy)
            return values
        size = DTYPES[self.dtype][0] if self.dtype in DTYPES else 1
        dtype, same = numpy_dtype(self.dtype, size)
        if self.numel() == 0:
            values = numpy.empty(self.shape, dtype)
            values.flags.writeable = False
        else:
            strides = [size * step for step in self.stride() or ()]
            values = numpy.ndarray(self.shape, dtype, view, size * self.storage_offset(), strides)
        return values if same else named(values, self.dtype)

    def torch(self, device: Any = None) -> Any:
        """A tensor of torch with memory of its own, contiguous; sparse and quantized stay so."""
        made = self._on_device(device)
        try:
            return made if made is not None else to_torch(self._open, device)
        except Error as error:
            raise at_path(error, self._checkpoint._source)

    def memoryview(self) -> View:
        """The values in C order, read-only; without numpy. What has no format of its own is integers."""
        size = DTYPES[self.dtype][0] if self.dtype in DTYPES else 0
        view = self._map() if size and self._is_contiguous() else None
        if view is not None:
            start = size * self.storage_offset()
            return to_memoryview(view[start:start + size * self.numel()], self.dtype, self.shape)
        array = self._open()
        info = array.info()
        return to_memoryview(array.read(), info["reads"], info["shape"]).toreadonly()

    def _is_contiguous(self) -> bool:
        expected = 1
        for length, step in zip(reversed(self.shape), reversed(self.stride() or ())):
            if length != 1 and step != expected:
                return False
            expected *= length
        return True

    def dequantize(self, dtype: str, as_: Optional[str] = None, config: Any = None) -> Tensor:
        """The plain weight of DTYPE ("bf16", "f16", "f32") whose quantized numbers are in this tensor; it is read when it is asked for.

        This is `items` of one of the weights that Checkpoint.quantized() lists, "up_proj.weight_packed" say. The result has
        the name and shape of the plain weight, "up_proj.weight", and ends with the checkpoint. AS_, CONFIG and errors are
        those of Checkpoint.dequantize(); NOTFOUND, a KeyError, if this is no such tensor. For tensors that torch quantized
        itself (layout "quantized"), see numpy().
        """
        return self._checkpoint._plain_weight(self.name, dtype, as_, config)

    def part(self, name: str) -> Any:
        """One part of a sparse ("values", "indices" ...), quantized ("int_repr" ...) or nested tensor."""
        checkpoint = self._checkpoint
        return convert(lambda: self._open().part(name), checkpoint._framework, checkpoint._device)

    @property
    def parts(self) -> List[str]:
        """What part() takes."""
        names: List[str] = self._open().info()["parts"]
        return names

    def __array__(self, dtype: Any = None, copy: Optional[bool] = None) -> Any:
        values = self.numpy(copy=copy)
        return values if dtype is None or values.dtype == dtype else values.astype(dtype)

    def __buffer__(self, flags: int) -> View:  # Python 3.12 and later
        # numpy.asarray() asks for this first, and would take integers that stand for other numbers for what they are
        if not has_format(self.dtype, self.shape):
            raise BufferError("a memoryview has no format for %s [%s]; .memoryview() is of integers" % (self.dtype, ", ".join(map(str, self.shape))))
        return self.memoryview()

    def _value(self) -> Any:
        if self.numel() != 1:
            raise TypeError("'%s' has %d numbers, not one" % (self.name, self.numel()))
        number = number_of(self._open())
        if isinstance(number, bytes):
            raise TypeError("'%s' is %s, for which Python has no number" % (self.name, self.dtype))
        return number

    def __float__(self) -> float:
        return float(self._value())

    def __int__(self) -> int:
        return int(self._value())

    def __complex__(self) -> complex:
        return complex(self._value())

    def __dlpack__(self, **options: Any) -> Any:
        # by a copy: a consumer may write to what it gets
        if numpy_or_none(self.dtype):
            return self.numpy(copy=True).__dlpack__(**options)
        return self.torch().__dlpack__(**options)

    def __dlpack_device__(self) -> Tuple[int, int]:
        return (1, 0)  # kDLCPU

    def _brief(self) -> str:
        text: str = "%s [%s]" % (self.dtype, ", ".join(map(str, self.shape)))
        if self.layout != "strided":
            text += " " + self.layout
        return text if self.device == "cpu" else "%s %s" % (text, shown(self.device))

    def __repr__(self) -> str:
        if self._checkpoint.closed and self._checkpoint._columns is None:
            return "<ckpt.Tensor, closed>"
        return "<ckpt.Tensor %r, %s>" % (self.name, self._brief())

    def _repr_html_(self) -> str:
        from ._html import tensor_html

        return tensor_html(self)


def numpy_or_none(dtype: str) -> bool:
    """Whether numpy can hand out DTYPE by DLPack."""
    try:
        import numpy  # noqa: F401
    except ImportError:
        return False
    return dtype in DTYPES and DTYPES[dtype][2] == dtype



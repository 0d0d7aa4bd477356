# SPDX-License-Identifier: Apache-2.0
"""Bytes become arrays of numpy, tensors of torch, or memoryviews; each of them only if it is asked for."""

from __future__ import annotations

from ._dtypes import DTYPES, numpy_dtype
from ._errors import TORCH_ERRORS, Error, bad_object

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable, List, Sequence, Tuple, Union

    from ._ckpt import Array

NUMPY, TORCH = ("np", "numpy"), ("pt", "torch", "pytorch")
# an array is read in pieces of so many bytes, so that Ctrl-C is seen in between
PIECE = 16 << 20


def refuse(text: str, status: str = "UNSUPPORTED") -> Error:
    """An Error of our own."""
    error = Error(text)
    error.text, error.status = text, status
    return error


def index_text(key: Any, shape: Sequence[int]) -> str:
    """KEY, as in array[KEY] of numpy's basic indexing, in the form that the library takes."""
    from operator import index

    keys = key if isinstance(key, tuple) else (key,)
    given = sum(one is not Ellipsis for one in keys)
    if given > len(shape):
        raise IndexError("too many indices: the tensor has %d dimensions, and %d were indexed" % (len(shape), given))
    words: List[str] = []
    axis = 0
    for one in keys:
        if one is Ellipsis:
            if "..." in words:
                raise IndexError("an index can only have a single ellipsis ('...')")
            words.append("...")
            axis += len(shape) - given
        elif isinstance(one, slice):
            parts = (one.start, one.stop, one.step)
            start, stop, step = ("" if part is None else str(index(part)) for part in parts)
            words.append("%s:%s:%s" % (start, stop, step) if step else "%s:%s" % (start, stop))
            axis += 1
        elif isinstance(one, bool) or not hasattr(one, "__index__") or getattr(one, "ndim", 0) > 0:
            raise TypeError("a tensor in a file takes integers, slices and '...'; read it to index it with other things")
        else:
            number = index(one)
            if not -shape[axis] <= number < shape[axis]:
                raise IndexError("index %d is out of bounds for axis %d with size %d" % (number, axis, shape[axis]))
            words.append(str(number))
            axis += 1
    return ", ".join(words)


def read_into(array: Array, buffer: Any, info: Any) -> None:
    """Read all of ARRAY; what is compressed or sparse would be read again for each piece."""
    array.read(buffer, step=max(1, PIECE // max(1, info["itemsize"])) if info["layout"] == "strided" else 0)


def to_numpy(array: Array) -> Any:
    """A new array of numpy, in C order."""
    import numpy

    info = array.info()
    dtype, same = numpy_dtype(info["reads"], info["itemsize"])
    try:
        values = numpy.empty(info["shape"], dtype)
    except ValueError as error:  # more dimensions, or items, than numpy can have
        raise refuse("numpy has no array of this shape: %s" % error) from None
    if info["numel"]:
        read_into(array, values.reshape(-1).view(numpy.uint8), info)
    return values if same else named(values, info["reads"])


def named(values: Any, dtype: str) -> Any:
    """VALUES of an integer type, with `ckpt_dtype`: what they are the bits of."""
    from ._numpy import BitsArray

    values = values.view(BitsArray)
    values.ckpt_dtype = dtype
    return values


def bytes_to_torch(buffer: bytearray, dtype: str, shape: Tuple[int, ...]) -> Any:
    """A tensor that has the memory of BUFFER."""
    import torch  # type: ignore

    kind = getattr(torch, dtype, None)
    if kind is None:
        raise refuse("this torch has no dtype '%s'" % dtype)
    if not buffer:
        return torch.empty(shape, dtype=kind)
    # all dtypes, also those that torch.frombuffer() does not take
    return torch.frombuffer(buffer, dtype=torch.uint8).view(kind).reshape(shape)


def to_torch(open_array: Callable[[], Array], device: Any = None) -> Any:
    """A new tensor, contiguous, of the same layout: strided, sparse or quantized; a part of a quantized one is float32."""
    array = open_array()
    info = array.info()
    try:
        if info["qscheme"] and "int_repr" in info["parts"]:
            tensor = _quantized(array, info)
        elif info["layout"].startswith("sparse"):
            tensor = _sparse(array, info)
        else:
            tensor = _dense(array)
    except Error:
        raise
    except TORCH_ERRORS as error:
        raise bad_object("a %s tensor" % info["layout"], error) from error
    return tensor if device is None or str(device) == "cpu" else tensor.to(device)


def _dense(array: Array) -> Any:
    info = array.info()
    if not info["readable"]:
        raise refuse("the tensor has no values")
    buffer = bytearray(info["nbytes"])
    read_into(array, buffer, info)
    return bytes_to_torch(buffer, info["reads"], info["shape"])


def _sparse(array: Array, info: Any) -> Any:
    import torch

    parts = {name: _dense(array.part(name)) for name in info["parts"]}
    if info["layout"] == "sparse_coo":
        return torch.sparse_coo_tensor(parts["indices"], parts["values"], info["shape"])
    layout = getattr(torch, info["layout"])
    rows = parts.get("crow_indices", parts.get("ccol_indices"))
    columns = parts.get("col_indices", parts.get("row_indices"))
    return torch.sparse_compressed_tensor(rows, columns, parts["values"], info["shape"], layout=layout)


def _quantized(array: Array, info: Any) -> Any:
    import torch

    if info["dtype"] in ("quint4x2", "quint2x4"):
        raise refuse("torch has no way to make a '%s' of its bits" % info["dtype"])
    stored = _dense(array.part("int_repr"))
    if info["qscheme"] == "per_tensor_affine":
        return torch._make_per_tensor_quantized_tensor(stored, info["scale"], info["zero_point"])
    scales, points = _dense(array.part("scales")), _dense(array.part("zero_points"))
    return torch._make_per_channel_quantized_tensor(stored, scales, points, info["axis"])


def to_memoryview(data: Union[bytes, bytearray, memoryview], dtype: str, shape: Tuple[int, ...]) -> memoryview:
    """DATA with that shape, and a format if there is one; else as unsigned integers of the same size. What is unknown is bytes.

    Without items it has one dimension: Python casts no memoryview to a shape with a 0 in it.
    """
    view = memoryview(data).cast("B")
    if dtype not in DTYPES:
        return view
    size = DTYPES[dtype][0]
    kind: Any = DTYPES[dtype][1]  # of struct: more than a memoryview is said to take
    if kind is None or kind == "e":  # a memoryview cannot be cast to "e"
        kind = {2: "H", 4: "I", 8: "Q"}.get(size, "B")
    if 0 in shape:
        return view.cast(kind)
    return view.cast(kind, shape) if size in (1, 2, 4, 8) else view


def has_format(dtype: str, shape: Tuple[int, ...]) -> bool:
    """Is a memoryview of them what they are, and not integers of the same size or without a dimension?"""
    return DTYPES.get(dtype, (0, None))[1] not in (None, "e") and (0 not in shape or len(shape) == 1)


def number_of(array: Array) -> Any:
    """The only number of ARRAY; its bytes if Python has no such number."""
    import struct
    import sys

    info = array.info()
    data = bytes(array.read())
    formats = {"float64": "=d", "float32": "=f", "float16": "=e", "int64": "=q", "int32": "=i", "int16": "=h",
               "int8": "=b", "uint8": "=B", "uint16": "=H", "uint32": "=I", "uint64": "=Q", "bool": "=?"}
    if info["reads"] in formats:
        return struct.unpack(formats[info["reads"]], data)[0]
    if info["reads"] == "bfloat16":
        return struct.unpack("=f", bytes(2) + data if sys.byteorder == "little" else data + bytes(2))[0]
    if info["reads"] in ("complex64", "complex128"):
        return complex(*struct.unpack("=2f" if info["reads"] == "complex64" else "=2d", data))
    return data


def convert(open_array: Callable[[], Array], framework: Any, device: Any) -> Any:
    """The values in the form that the words of open() ask for."""
    if framework in TORCH:
        return to_torch(open_array, device)
    if framework in NUMPY:
        return to_numpy(open_array())
    if framework is not None:
        raise ValueError("framework is 'numpy' or 'torch', not %r" % (framework,))
    try:
        return to_numpy(open_array())
    except ImportError:
        array = open_array()
        info = array.info()
        return to_memoryview(array.read(), info["reads"], info["shape"])

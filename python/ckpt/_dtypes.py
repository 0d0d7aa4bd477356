# SPDX-License-Identifier: Apache-2.0
"""What the dtypes of torch are elsewhere. Nothing is imported before somebody asks for an array."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Dict, Optional, Tuple

# dtype: bytes of an item; format of struct, None if that has none; dtype of numpy, else the integer
# of that size; dtype of safetensors
DTYPES: Dict[str, Tuple[int, Optional[str], str, Optional[str]]] = {
    "float64": (8, "d", "float64", "F64"),
    "float32": (4, "f", "float32", "F32"),
    "float16": (2, "e", "float16", "F16"),
    "bfloat16": (2, None, "uint16", "BF16"),
    "int64": (8, "q", "int64", "I64"),
    "int32": (4, "i", "int32", "I32"),
    "int16": (2, "h", "int16", "I16"),
    "int8": (1, "b", "int8", "I8"),
    "uint8": (1, "B", "uint8", "U8"),
    "uint16": (2, "H", "uint16", "U16"),
    "uint32": (4, "I", "uint32", "U32"),
    "uint64": (8, "Q", "uint64", "U64"),
    "bool": (1, "?", "bool", "BOOL"),
    "complex128": (16, None, "complex128", None),
    "complex64": (8, None, "complex64", "C64"),
    "complex32": (4, None, "uint32", None),
    "float8_e5m2": (1, None, "uint8", "F8_E5M2"),
    "float8_e4m3fn": (1, None, "uint8", "F8_E4M3"),
    "float8_e5m2fnuz": (1, None, "uint8", "F8_E5M2FNUZ"),
    "float8_e4m3fnuz": (1, None, "uint8", "F8_E4M3FNUZ"),
    "float8_e8m0fnu": (1, None, "uint8", "F8_E8M0"),
    "float4_e2m1fn_x2": (1, None, "uint8", "F4"),
    "bits8": (1, None, "uint8", None),
    "bits16": (2, None, "uint16", None),
}
# of what has no dtype in numpy: its name in the package ml_dtypes
ML_DTYPES = frozenset(
    ["bfloat16", "float8_e5m2", "float8_e4m3fn", "float8_e5m2fnuz", "float8_e4m3fnuz", "float8_e8m0fnu"]
)


def numpy_dtype(name: str, itemsize: int) -> Tuple[Any, bool]:
    """The dtype of numpy for NAME, and whether it says the same; False: it is only of the same size."""
    import numpy

    if name in ML_DTYPES:
        try:
            import ml_dtypes  # type: ignore

            return numpy.dtype(getattr(ml_dtypes, name)), True
        except (ImportError, AttributeError):
            pass
    known = DTYPES.get(name)
    if known:
        return numpy.dtype(known[2]), known[2] == name
    try:
        return numpy.dtype(name), True  # one that only numpy has
    except TypeError:
        return numpy.dtype("uint%d" % (8 * itemsize)), False

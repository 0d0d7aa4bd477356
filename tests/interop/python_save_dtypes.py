# SPDX-License-Identifier: Apache-2.0
"""Objects with dtypes of numpy beside its scalars and arrays, for python_save_judge.py: which of them are one object decides what pickle writes.

numpy has one object for each builtin dtype of the machine's byte order, and makes all others anew.
"""

import numpy as np

KINDS = {
    "float32": lambda: np.dtype("f4"), "bool": lambda: np.dtype("?"), "int64": lambda: np.dtype("i8"), "longlong": lambda: np.dtype("longlong"),
    "complex64": lambda: np.dtype("c8"), "text": lambda: np.dtype("U3"), "bytes": lambda: np.dtype("S3"), "object": lambda: np.dtype("O"),
    "swapped": lambda: np.dtype(">f4"), "swapped_text": lambda: np.dtype(">U3"), "datetime": lambda: np.dtype("M8[us]"),
    "timedelta": lambda: np.dtype("m8[s]"), "swapped_datetime": lambda: np.dtype(">M8[us]"),
    "structured": lambda: np.dtype([("a", "i4"), ("b", "f8", (2,))]), "swapped_structured": lambda: np.dtype([("a", ">i4"), ("b", "f4")]),
    "nested": lambda: np.dtype([("a", [("b", "f4")]), ("c", "f4")]), "aligned": lambda: np.dtype([("a", "u1"), ("b", "f8")], align=True),
    "subarray": lambda: np.dtype(("f4", (2,))),
}


def scalar_of(dtype):
    return np.zeros(1, dtype)[0]


WAYS = {
    "alone": lambda d: d,
    "twice": lambda d: [d, d],
    "equal": lambda d: [d, d.newbyteorder("S").newbyteorder("S"), np.dtype(d.descr) if d.fields else np.dtype(d.str)],
    "with_scalar": lambda d: {"dtype": d, "value": scalar_of(d)},
    "after_scalar": lambda d: {"value": scalar_of(d), "dtype": d},
    "with_scalars": lambda d: [scalar_of(d), d, scalar_of(d), scalar_of(d).dtype, np.float32(2), np.dtype("f4")],
    "one_scalar": lambda d: (lambda one: [one, one, d])(scalar_of(d)),
    "with_array": lambda d: [d, np.zeros(2, d)],
    "after_array": lambda d: [np.zeros(2, d), d, np.zeros(2, d).dtype],
    "array_and_scalar": lambda d: (lambda a: [a, a[1:], a[0], a.dtype, d])(np.zeros(3, d)),
    "scalar_and_arrays": lambda d: (scalar_of(d), np.zeros((2, 3), d), np.zeros((), d), np.zeros(0, d)),
    "two_orders": lambda d: [d, d.newbyteorder("S"), d.newbyteorder("="), np.zeros(1, d.newbyteorder("S")), np.zeros(1, d)],
    "as_keys": lambda d: {d: 1, (d, 1): (d, (d,)), ("n", (d, (2, d))): d},
    "scalar_as_key": lambda d: {(d, 1): scalar_of(np.dtype("f4")), np.float32(3): np.dtype("f4"), (np.int64(4), d): np.dtype("i8")},
    "fields": lambda d: [d] + [d.fields[name][0] for name in d.names or ()] + [np.dtype("i4"), np.dtype("f4"), np.float32(1)],
    "attributes": lambda d: {"dtype": d, "base": d.base, "type": d.type, "metadata": np.dtype(d, metadata={"a": 1}), "again": d},
}


def has_arrays(value):
    """Whether there is an array in VALUE, which would become a tensor."""
    if isinstance(value, dict):
        return any(has_arrays(item) for item in value.values())
    return isinstance(value, np.ndarray) or isinstance(value, (list, tuple)) and any(has_arrays(item) for item in value)


def build_all():
    """(name, object) of each."""
    for kind, make in KINDS.items():
        for way, build in WAYS.items():
            try:
                yield "%s_%s" % (kind, way), build(make())
            except (AttributeError, TypeError, ValueError):  # numpy has no such thing
                continue

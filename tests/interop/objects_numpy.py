# SPDX-License-Identifier: Apache-2.0
"""numpy arrays, scalars and dtypes; random-number states of all three libraries."""

import random

import numpy as np
import torch

from registry import item

KINDS = ("bool", "i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", "f2", "f4", "f8", "c8", "c16")
FOREIGN = (">f4", ">i8")


@item()
def numpy_arrays():
    return {kind: np.arange(6).reshape(2, 3).astype(kind) for kind in KINDS}


@item()
def numpy_big_endian():
    """numpy turns these into arrays of the machine's own order while it loads them."""
    return [np.arange(6).astype(kind) for kind in FOREIGN]


@item()
def numpy_one_array():
    return np.arange(4, dtype="f4")


@item()
def numpy_shapes():
    return [np.array(5), np.array(2.5, dtype="f4"), np.zeros(0), np.zeros((0, 3), dtype="i4"),
            np.ones((1, 1, 1)), np.asfortranarray(np.arange(6).reshape(2, 3)),
            np.arange(10)[::2], np.arange(6).reshape(2, 3).T, np.broadcast_to(np.arange(2), (3, 2))]


@item()
def numpy_strings():
    return [np.array(["a", "bcd"]), np.array([b"a", b"bcd"]), np.array(["é\U0001f600"]),
            np.array("scalar"), np.array([], dtype="U5")]


@item()
def numpy_structured():
    plain = np.zeros(2, dtype=[("a", "<i4"), ("b", "<f8", (2,))])
    nested = np.zeros(1, dtype=[("x", [("y", "u1"), ("z", "S3")])])
    aligned = np.zeros(1, dtype=np.dtype([("a", "u1"), ("b", "f8")], align=True))
    return [plain, nested, aligned, plain[0]]


@item()
def numpy_times():
    return [np.array(["2024-02-29", "NaT"], dtype="M8[D]"), np.array([1, 2], dtype="m8[ns]"),
            np.datetime64("2024-02-29T12:00"), np.timedelta64(3, "s")]


@item()
def numpy_of_objects():
    return np.array([1, "two", None, [3]], dtype=object)


@item()
def numpy_scalars():
    return [np.float64(1.5), np.float32(1.5), np.float16(0.5), np.int64(-1), np.int32(7),
            np.uint8(255), np.bool_(True), np.bool_(False), np.complex128(1 + 2j),
            np.complex64(1j), np.str_("text"), np.bytes_(b"raw"), np.float64("nan")]


@item()
def numpy_dtypes():
    others = ("U7", "S3", "O", [("a", "i4")], "M8[us]")
    return [np.dtype(kind) for kind in KINDS + FOREIGN + others]


@item()
def numpy_types():
    return [np.float32, np.int64, np.ndarray, np.bool_]


@item()
def numpy_shared():
    """One array twice, two arrays of one dtype, a view: a view is written on its own."""
    base = np.arange(4.0)
    return [base, base, base[1:], np.arange(3.0), np.float64(2.0), base.dtype]


@item()
def numpy_masked():
    return np.ma.masked_array([1, 2, 3], mask=[0, 1, 0])


@item()
def numpy_large():
    return np.arange(40000, dtype="u2")


@item()
def random_python():
    return random.Random(1).getstate()


@item()
def random_numpy():
    state = np.random.RandomState(1)
    return {"tuple": state.get_state(), "dict": state.get_state(legacy=False), "object": state}


@item()
def random_numpy_generator():
    return np.random.default_rng(5)


@item()
def random_torch():
    return torch.Generator().manual_seed(3).get_state()


@item()
def random_states_together():
    torch.manual_seed(4)
    return {"python": random.Random(2).getstate(), "torch": torch.get_rng_state(),
            "numpy": np.random.RandomState(2).get_state(), "cuda": [torch.get_rng_state()]}

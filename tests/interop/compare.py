# SPDX-License-Identifier: Apache-2.0
"""Are two loaded objects the same: values, types, order, and which parts are shared?"""

import copyreg
import ctypes
import enum
import struct
import types

import numpy as np
import torch

import fake_cuda

SAME_OBJECT = (type, types.FunctionType, types.ModuleType, torch.dtype, torch.layout,
               torch.memory_format, torch.qscheme, enum.Enum)
EQUAL = (torch.device, set, frozenset, np.dtype)
COMPRESSED = {"torch.sparse_csr": ("crow_indices", "col_indices"),
              "torch.sparse_bsr": ("crow_indices", "col_indices"),
              "torch.sparse_csc": ("ccol_indices", "row_indices"),
              "torch.sparse_bsc": ("ccol_indices", "row_indices")}


class Difference(Exception):
    pass


def compare(left, right):
    """Raise Difference, which names the place, unless the objects are the same."""
    Comparer().compare(left, right, "object")


def require(condition, where, text, *values):
    if not condition:
        raise Difference("%s: %s" % (where, text % tuple(repr(value)[:80] for value in values)))


class Comparer:
    def __init__(self):
        self.partner = {}   # id on the left: id on the right; and the other way round
        self.owner = {}
        self.visited = set()
        self.kept = []      # whatever an id was taken of has to live on
        self.storages = {}

    def compare(self, left, right, where):
        require(type(left) is type(right), where, "types %s and %s", type(left), type(right))
        kind = type(left)
        if isinstance(left, SAME_OBJECT):
            require(left is right, where, "%s is not %s", left, right)
        elif kind is tuple or kind is torch.Size:
            if self.first_visit(left, right):
                self.sequence(left, right, where)
        elif kind in ATOMS:
            require(ATOMS[kind](left) == ATOMS[kind](right), where, "%s, %s", left, right)
        elif isinstance(left, (set, frozenset)) and left != right:  # of objects, which are equal to nothing but themselves
            if self.first_visit(left, right):
                one, other = (sorted(items, key=lambda v: str(vars(v).get("number", v) if hasattr(v, "__dict__") else v)) for items in (left, right))
                self.sequence(one, other, where)
        elif isinstance(left, EQUAL):
            require(left == right, where, "%s, %s", left, right)
        else:
            self.check_sharing(left, right, where)
            if self.first_visit(left, right):
                self.compound(left, right, where)

    def first_visit(self, left, right):
        pair = (id(left), id(right))
        if pair in self.visited:
            return False
        self.visited.add(pair)
        self.kept.append((left, right))
        return True

    def check_sharing(self, left, right, where):
        known = self.partner.setdefault(id(left), id(right)) == id(right)
        known = known and self.owner.setdefault(id(right), id(left)) == id(left)
        require(known, where, "shared with another part on one side only")

    def compound(self, left, right, where):
        if isinstance(left, torch.Tensor):
            self.tensor(left, right, where)
        elif torch.is_storage(left):
            self.storage(left, right, where)
        elif isinstance(left, torch.Generator):
            self.compare(left.get_state(), right.get_state(), where + ".get_state()")
        elif type(left) is np.ndarray:
            self.array(left, right, where)
        elif isinstance(left, np.generic):
            self.array(np.asarray(left), np.asarray(right), where)
        elif type(left) is list:
            self.sequence(left, right, where)
        elif type(left) is dict:
            self.mapping(left, right, where)
        elif isinstance(left, (np.random.RandomState, np.random.Generator)):
            one, other = random_state(left), random_state(right)
            self.kept.append((one, other))
            self.compare(one, other, where + ".state")
        elif isinstance(left, (types.MethodType, types.BuiltinFunctionType)):
            self.method(left, right, where)
        else:
            self.reduced(left, right, where)

    def sequence(self, left, right, where):
        require(len(left) == len(right), where, "lengths %s, %s", len(left), len(right))
        for index, (one, other) in enumerate(zip(left, right)):
            self.compare(one, other, "%s[%d]" % (where, index))

    def mapping(self, left, right, where):
        require(len(left) == len(right), where, "lengths %s, %s", len(left), len(right))
        for (key, one), (other_key, other) in zip(left.items(), right.items()):
            self.compare(key, other_key, where + " key")
            self.compare(one, other, "%s[%.60r]" % (where, key))

    def method(self, left, right, where):
        require(left.__name__ == right.__name__, where, "methods %s, %s", left, right)
        if isinstance(left.__self__, types.ModuleType):
            require(left is right, where, "functions %s, %s", left, right)
        else:
            self.compare(left.__self__, right.__self__, where + ".__self__")

    def reduced(self, left, right, where):
        """What the pickler would take apart, compared part by part."""
        parts, others = reduce_parts(left), reduce_parts(right)
        self.kept.append((parts, others))
        require(len(parts) == len(others), where, "numbers of parts %s, %s", parts, others)
        for number, (one, other) in enumerate(zip(parts, others)):
            self.compare(one, other, "%s<%s:%d>" % (where, type(left).__name__, number))

    def array(self, left, right, where):
        require(left.dtype == right.dtype, where, "dtypes %s, %s", left.dtype, right.dtype)
        require(left.shape == right.shape, where, "shapes %s, %s", left.shape, right.shape)
        require(left.flags.f_contiguous == right.flags.f_contiguous, where, "orders differ")
        if left.dtype.hasobject:
            self.compare(left.tolist(), right.tolist(), where)
        else:
            require(left.tobytes() == right.tobytes(), where, "contents differ")

    def tensor(self, left, right, where):
        for name in ("dtype", "layout", "device", "requires_grad", "is_quantized"):
            one, other = getattr(left, name), getattr(right, name)
            require(one == other, where + "." + name, "%s, %s", one, other)
        if hasattr(left, "__tensor_flatten__"):
            return self.wrapper(left, right, where)
        self.compare(vars(left), vars(right), where + ".__dict__")
        if getattr(torch.nn.parameter, "is_lazy", lambda _: False)(left):
            return
        if getattr(left, "is_nested", False):
            self.compare(left.unbind(), right.unbind(), where + ".unbind()")
        elif left.layout != torch.strided:
            self.sparse(left, right, where)
        else:
            self.strided(left, right, where)

    def wrapper(self, left, right, where):
        (names, context), (others, other_context) = (
            left.__tensor_flatten__(), right.__tensor_flatten__())
        self.compare(names, others, where)
        for name in names:
            self.compare(getattr(left, name), getattr(right, name), where + "." + name)
        if str(left.layout) != "torch.jagged":  # its lengths have names, new ones at every load
            self.compare(str(context), str(other_context), where + " context")

    def sparse(self, left, right, where):
        require(left.shape == right.shape, where, "shapes %s, %s", left.shape, right.shape)
        names = COMPRESSED.get(str(left.layout), ("_indices",)) + (
            "values" if str(left.layout) in COMPRESSED else "_values",)
        if names[0] == "_indices":
            require(left.is_coalesced() == right.is_coalesced(), where, "coalesced on one side")
        for name in names:
            one, other = getattr(left, name)().detach(), getattr(right, name)().detach()
            self.compare(one, other, "%s.%s()" % (where, name))

    def strided(self, left, right, where):
        for name in ("size", "stride", "storage_offset", "is_conj", "is_neg"):
            if hasattr(left, name):
                one, other = getattr(left, name)(), getattr(right, name)()
                require(one == other, "%s.%s()" % (where, name), "%s, %s", one, other)
        if left.is_quantized:
            self.quantiser(left, right, where)
        if left.device.type != "meta":
            self.storage(storage_of(left), storage_of(right), where + ".storage()")

    def quantiser(self, left, right, where):
        require(left.qscheme() == right.qscheme(), where, "schemes differ")
        names = ("q_scale", "q_zero_point")
        if left.qscheme() not in (torch.per_tensor_affine, torch.per_tensor_symmetric):
            names = ("q_per_channel_scales", "q_per_channel_zero_points", "q_per_channel_axis")
        for name in names:
            one, other = getattr(left, name)(), getattr(right, name)()
            if isinstance(one, torch.Tensor):
                one, other = (one.dtype, one.tolist()), (other.dtype, other.tolist())
            self.compare(one, other, "%s.%s()" % (where, name))

    def storage(self, left, right, where):
        dtypes = [getattr(one, "dtype", None) for one in (left, right)]
        require(dtypes[0] == dtypes[1], where, "storage dtypes %s, %s", *dtypes)
        tags = [fake_cuda.tag(one) for one in (left, right)]
        require(tags[0] == tags[1], where, "locations %s, %s", *tags)
        sizes = [nbytes(one) for one in (left, right)]
        require(sizes[0] == sizes[1], where, "sizes %s, %s", *sizes)
        if not sizes[0]:
            return
        one, other = left.data_ptr(), right.data_ptr()
        known = self.storages.setdefault(("left", one), other) == other
        known = known and self.storages.setdefault(("right", other), one) == one
        require(known, where, "storage shared with another tensor on one side only")
        same = ctypes.string_at(one, sizes[0]) == ctypes.string_at(other, sizes[0])
        require(same, where, "contents differ")


def storage_of(tensor):
    return tensor.untyped_storage() if hasattr(tensor, "untyped_storage") else tensor.storage()


def nbytes(storage):
    if hasattr(storage, "nbytes"):
        return storage.nbytes()
    return storage.size() * storage.element_size()


def random_state(source):
    """The state alone: older numpy reduces to a generator with a new, random seed as well."""
    if isinstance(source, np.random.Generator):
        return source.bit_generator.state
    return source.get_state(legacy=False)


def reduce_parts(obj):
    reducer = copyreg.dispatch_table.get(type(obj))
    parts = reducer(obj) if reducer else obj.__reduce_ex__(2)
    if isinstance(parts, str):
        return (parts,)
    return tuple(list(part) if index in (3, 4) and part is not None else part
                 for index, part in enumerate(parts))


def float_bits(value):
    return struct.pack("<d", value)


def itself(value):
    return value


ATOMS = {kind: itself for kind in (int, bool, str, bytes, bytearray, type(None), type(Ellipsis),
                                   type(NotImplemented), range)}
ATOMS[float] = float_bits
ATOMS[complex] = lambda value: (float_bits(value.real), float_bits(value.imag))

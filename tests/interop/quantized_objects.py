# SPDX-License-Identifier: Apache-2.0
"""Quantized tensors that are objects of a class, in torch.save files: the sound ones are numbers, the damaged ones errors. Needs no torch.

    CKPT=build/ckpt python3 tests/interop/quantized_objects.py

The pickles are written here opcode by opcode, so that nothing has to have the classes. What is damaged has to be an error that names the
tensor, and leaves no file.
"""

import os
import struct
import subprocess
import sys
import tempfile
import zipfile

STORAGES = {"float32": ("FloatStorage", 4), "float16": ("HalfStorage", 2), "bfloat16": ("BFloat16Storage", 2), "float64": ("DoubleStorage", 8),
            "int8": ("CharStorage", 1), "uint8": ("ByteStorage", 1), "int32": ("IntStorage", 4), "int64": ("LongStorage", 8), "bool": ("BoolStorage", 1),
            "qint8": ("QInt8Storage", 1), "quint8": ("QUInt8Storage", 1), "qint32": ("QInt32Storage", 4)}
CODES = {"float32": "f", "float16": "e", "float64": "d", "int8": "b", "uint8": "B", "int32": "i", "int64": "q", "bool": "?"}


class Global:
    def __init__(self, module, name):
        self.module, self.name = module, name


class Call:
    """FUNC(*ARGS); with KIND b"\\x81" FUNC.__new__(*ARGS)."""

    def __init__(self, func, *args, kind=b"R", state=None):
        self.func, self.args, self.kind, self.state = func, args, kind, state


class Storage:
    def __init__(self, dtype, data):
        self.dtype, self.data = dtype, data


class Writer:
    def __init__(self):
        self.out, self.storages, self.calls = bytearray(b"\x80\x02"), [], []

    def put(self, v):
        if v is None or isinstance(v, bool):
            self.out += {None: b"N", True: b"\x88", False: b"\x89"}[v]
        elif isinstance(v, int):
            self.out += b"J" + struct.pack("<i", v) if -2**31 <= v < 2**31 else b"\x8a\x08" + struct.pack("<q", v)
        elif isinstance(v, float):
            self.out += b"G" + struct.pack(">d", v)
        elif isinstance(v, str):
            self.out += b"X" + struct.pack("<I", len(v.encode())) + v.encode()
        elif isinstance(v, Global):
            self.out += b"c%s\n%s\n" % (v.module.encode(), v.name.encode())
        elif isinstance(v, (tuple, list, dict)):
            self.put_items(v)
        elif isinstance(v, Call) and v in self.calls:
            self.out += b"j" + struct.pack("<I", self.calls.index(v))
        elif isinstance(v, Call):
            self.put(v.func)
            self.put(tuple(v.args))
            self.out += v.kind
            if v.state is not None:
                self.put(v.state)
                self.out += b"b"
            self.out += b"r" + struct.pack("<I", len(self.calls))
            self.calls.append(v)
        else:
            self.put_storage(v)

    def put_items(self, v):
        self.out += {tuple: b"(", list: b"](", dict: b"}("}[type(v)]
        for item in [part for pair in v.items() for part in pair] if isinstance(v, dict) else v:
            self.put(item)
        self.out += {tuple: b"t", list: b"e", dict: b"u"}[type(v)]

    def put_storage(self, v):
        if v not in self.storages:
            self.storages.append(v)
        name, size = STORAGES.get(v.dtype, ("UntypedStorage", 1))
        self.put(("storage", Global("torch" if v.dtype in STORAGES else "torch.storage", name), str(self.storages.index(v)), "cpu", len(v.data) // size))
        self.out += b"Q"


def write(path, value):
    writer = Writer()
    writer.put(value)
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("x/data.pkl", bytes(writer.out) + b".")
        archive.writestr("x/byteorder", "little")
        for key, storage in enumerate(writer.storages):
            archive.writestr("x/data/%d" % key, storage.data)
        archive.writestr("x/version", "3\n")


def tensor(dtype, shape, numbers):
    """NUMBERS: a list, or the bytes."""
    data = bytes(numbers) if dtype not in CODES or isinstance(numbers, bytes) else struct.pack("<%d%s" % (len(numbers), CODES[dtype]), *numbers)
    stride, step = [], 1
    for size in reversed(shape):
        stride.insert(0, step)
        step *= size
    arguments = [Storage(dtype, data), 0, tuple(shape), tuple(stride), False, Call(Global("collections", "OrderedDict"))]
    if dtype in STORAGES:
        return Call(Global("torch._utils", "_rebuild_tensor_v2"), *arguments)
    return Call(Global("torch._utils", "_rebuild_tensor_v3"), *arguments, Global("torch", dtype))


def wrapper(module, name, dtype, shape, attributes):
    kind = Global(module, name)
    strided = Call(Global("torch.serialization", "_get_layout"), "torch.strided")
    device = Call(Global("torch", "device"), "cpu")
    stride = tuple(16 ** (len(shape) - 1 - at) for at in range(len(shape)))
    return Call(Global("torch._tensor", "_rebuild_from_type_v2"), Global("torch._utils", "_rebuild_wrapper_subclass"), kind,
                (kind, Global("torch", dtype), tuple(shape), stride, 0, strided, device, False), attributes)


# ---- AffineQuantizedTensor of torchao ----

DTYPES = "torchao.dtypes."
ABSENT = object()
IMPLS = {"PlainAQTTensorImpl": "uintx.plain_layout", "Float8AQTTensorImpl": "floatx.float8_layout", "TensorCoreTiledAQTTensorImpl": "uintx.tensor_core_tiled_layout",
         "UintxAQTTensorImpl": "uintx.uintx_layout"}


def layout(name="PlainLayout"):
    return Call(Global(DTYPES + "utils", name), kind=b"\x81")


def domain(value):
    return Call(Global("torchao.quantization.quant_primitives", "ZeroPointDomain"), value)


def without_absent(attributes):
    return {name: value for name, value in attributes.items() if value is not ABSENT}


ROWS, COLS = 4, 16
ITEMS = [at * 7 % 256 - 128 for at in range(ROWS * COLS)]
SCALES = [0.5 + at for at in range(8)]
ZEROS = [at - 3 for at in range(8)]


def affine(impl="PlainAQTTensorImpl", impl_layout=None, items=None, scale=None, zero=None, shape=(ROWS, COLS), tensor_impl=None, more=None, **settings):
    """Sound as it is: int8 in groups of 8, with zero points."""
    inner = {"int_data": tensor("int8", [ROWS, COLS], ITEMS) if items is None else items,
             "scale": tensor("float32", [ROWS, 2], SCALES) if scale is None else scale,
             "zero_point": tensor("int64", [ROWS, 2], ZEROS) if zero is None else zero,
             "_layout": layout() if impl_layout is None else impl_layout, **(more or {})}
    made = wrapper(DTYPES + IMPLS.get(impl, "utils"), impl, "int8", [ROWS, COLS], without_absent(inner)) if tensor_impl is None else tensor_impl
    outer = {"tensor_impl": made, "block_size": (1, 8), "quant_min": None, "quant_max": None, "zero_point_domain": domain(1), **settings}
    return wrapper(DTYPES + "affine_quantized_tensor", "AffineQuantizedTensor", "bfloat16", list(shape), without_absent(outer))


def float8(**changes):
    given = {"impl": "Float8AQTTensorImpl", "impl_layout": layout("Float8Layout"), "items": ABSENT, "zero": ABSENT, "zero_point_domain": domain(3)}
    more = {"float8_data": tensor("float8_e4m3fn", [ROWS, COLS], [0x38 + at % 8 for at in range(ROWS * COLS)]), "transposed": False}
    more.update(changes.pop("more", {}))
    return affine(**{**given, **changes, "more": more})


def numbers_of(subtract=True, add=False, middle=0):
    return [(item - middle - (ZEROS[at // 8] if subtract else 0)) * SCALES[at // 8] + (ZEROS[at // 8] if add else 0) for at, item in enumerate(ITEMS)]


FLOAT_ZEROS = tensor("float32", [ROWS, 2], ZEROS)
E4M3 = [(1 + at % 8 / 8) * SCALES[at // 8] for at in range(ROWS * COLS)]


def by_name(name):
    return Call(Global("__builtin__", "getattr"), Global("torchao.quantization.quant_primitives", "ZeroPointDomain"), name)


AFFINE_SOUND = {
    "as it is": (affine(), numbers_of()),
    "no zero points": (affine(zero=ABSENT), numbers_of(False)),
    "None for zero points": (affine(zero=ABSENT, more={"zero_point": None}), numbers_of(False)),
    "domain NONE": (affine(zero=ABSENT, zero_point_domain=domain(3)), numbers_of(False)),
    "domain by name": (affine(zero_point_domain=by_name("INT")), numbers_of()),
    "domain FLOAT": (affine(zero=FLOAT_ZEROS, zero_point_domain=domain(2)), numbers_of(False, True)),
    "domain FLOAT by name": (affine(zero=FLOAT_ZEROS, zero_point_domain=by_name("FLOAT")), numbers_of(False, True)),
    "domain FLOAT with a middle": (affine(zero=FLOAT_ZEROS, zero_point_domain=domain(2), quant_min=0, quant_max=15), numbers_of(False, True, 8)),
    "zero points of float32": (affine(zero=FLOAT_ZEROS), numbers_of()),
    "bounds": (affine(quant_min=-128, quant_max=127), numbers_of()),
    "a list for block_size": (affine(block_size=[1, 8]), numbers_of()),
    "a torch.Size for block_size": (affine(block_size=Call(Global("torch", "Size"), (1, 8))), numbers_of()),
    "one scale for a column": (affine(block_size=(4, 1), scale=tensor("float32", [COLS], [0.5] * COLS), zero=tensor("int64", [1, COLS], [0] * COLS)), [item / 2 for item in ITEMS]),
    "float8": (float8(), E4M3),
    "float8, domain INT": (float8(zero_point_domain=domain(1)), E4M3),
    "float8, domain None": (float8(zero_point_domain=None, quant_min=-448.0, quant_max=448), E4M3),
    "float8, cut": (float8(more={"transposed": None}), E4M3),
}

AFFINE_DAMAGED = {
    "no impl": (affine(tensor_impl=ABSENT), "its tensor_impl is missing"),
    "impl None": (wrapper(DTYPES + "affine_quantized_tensor", "AffineQuantizedTensor", "bfloat16", [ROWS, COLS], {"tensor_impl": None}),
                  "its tensor_impl is missing"),
    "impl a plain tensor": (affine(tensor_impl=tensor("int8", [ROWS, COLS], ITEMS)), "its tensor_impl is missing, or none of torchao"),
    "impl of somebody": (affine(tensor_impl=wrapper("some.module", "PlainAQTTensorImpl", "int8", [ROWS, COLS], {})), "or none of torchao"),
    "tiled": (affine(impl="TensorCoreTiledAQTTensorImpl", impl_layout=layout("TensorCoreTiledLayout")), "TensorCoreTiledAQTTensorImpl with TensorCoreTiledLayout"),
    "uintx": (affine(impl="UintxAQTTensorImpl", impl_layout=layout("UintxLayout")), "UintxAQTTensorImpl with UintxLayout"),
    "layout of another impl": (affine(impl_layout=layout("Float8Layout")), "PlainAQTTensorImpl with Float8Layout"),
    "layout of an impl that is not known": (affine(impl_layout=layout("SemiSparseLayout")), "PlainAQTTensorImpl with SemiSparseLayout"),
    "no layout": (affine(impl_layout=ABSENT), "PlainAQTTensorImpl with no layout"),
    "no numbers": (affine(items=ABSENT), "its numbers are missing"),
    "no scale": (affine(scale=ABSENT), "its scale is missing"),
    "numbers that are a wrapper": (affine(items=wrapper("some.module", "Thing", "int8", [ROWS, COLS], {})), "has a int_data that is no plain tensor"),
    "numbers of int32": (affine(items=tensor("int32", [ROWS, COLS], ITEMS)), "w.int_data' is int32 [4, 16]: wanted int8 or uint8"),
    "numbers of another shape": (affine(items=tensor("int8", [2, COLS], ITEMS[:2 * COLS]), scale=tensor("float32", [2, 2], SCALES[:4]), zero=ABSENT), "has another shape"),
    "numbers of one dimension": (affine(items=tensor("int8", [COLS], ITEMS[:COLS]), block_size=(8,)), "has two dimensions or more"),
    "scales of int8": (affine(scale=tensor("int8", [ROWS, 2], ZEROS)), "w.scale' is int8 [4, 2]: wanted float32, float16 or bfloat16"),
    "scales of float64": (affine(scale=tensor("float64", [ROWS, 2], SCALES)), "wanted float32, float16 or bfloat16"),
    "scales for rows": (affine(scale=tensor("float32", [ROWS], SCALES[:4])), "w.scale' is float32 [4]: wanted one for each block"),
    "scales turned": (affine(scale=tensor("float32", [2, ROWS], SCALES)), "wanted one for each block"),
    "scales in one row": (affine(scale=tensor("float32", [8], SCALES)), "wanted one for each block"),
    "zero points for rows": (affine(zero=tensor("int64", [ROWS], ZEROS[:4])), "w.zero_point' is int64 [4]: wanted one for each block"),
    "zero points turned": (affine(zero=tensor("int64", [2, ROWS], ZEROS)), "wanted one for each block"),
    "no block_size": (affine(block_size=ABSENT), "its block_size has not a size for each dimension"),
    "block_size a number": (affine(block_size=8), "its block_size has not a size for each dimension"),
    "block_size of one": (affine(block_size=(8,)), "its block_size has not a size for each dimension"),
    "block_size of three": (affine(block_size=(1, 1, 8)), "its block_size has not a size for each dimension"),
    "block_size 0": (affine(block_size=(1, 0)), "whole blocks"),
    "block_size -1": (affine(block_size=(1, -1)), "whole blocks"),
    "block_size that does not divide": (affine(block_size=(1, 5)), "whole blocks"),
    "block_size too large": (affine(block_size=(8, 8)), "whole blocks"),
    "block_size a float": (affine(block_size=(1, 8.0)), "whole blocks"),
    "block_size of rows": (affine(block_size=(1, 16)), "wanted one for each block"),
    "quant_min too small": (affine(quant_min=-129), "quant_min and quant_max"),
    "quant_max too large": (affine(quant_max=128), "quant_min and quant_max"),
    "quant_max of unsigned": (affine(quant_min=0, quant_max=255), "quant_min and quant_max"),
    "quant_min above quant_max": (affine(quant_min=5, quant_max=5), "quant_min and quant_max"),
    "quant_min a text": (affine(quant_min="0"), "quant_min and quant_max"),
    "quant_min a float": (affine(quant_min=-8.0), "quant_min and quant_max"),
    "bounds without a middle": (affine(zero=FLOAT_ZEROS, zero_point_domain=domain(2), quant_min=0, quant_max=14), "have no middle"),
    "no domain": (affine(zero_point_domain=ABSENT), "its zero_point_domain is missing"),
    "domain None": (affine(zero_point_domain=None), "its zero_point_domain is none that ckpt knows"),
    "domain 0": (affine(zero_point_domain=domain(0)), "its zero_point_domain is none that ckpt knows"),
    "domain 4": (affine(zero_point_domain=domain(4)), "its zero_point_domain is none that ckpt knows"),
    "domain a number": (affine(zero_point_domain=1), "its zero_point_domain is none that ckpt knows"),
    "domain of another class": (affine(zero_point_domain=Call(Global("torchao.quantization.quant_primitives", "MappingType"), 1)), "its zero_point_domain is none that ckpt knows"),
    "domain of somebody": (affine(zero_point_domain=Call(Global("some.module", "ZeroPointDomain"), 1)), "its zero_point_domain is none that ckpt knows"),
    "domain of another name": (affine(zero_point_domain=by_name("INTEGER")), "its zero_point_domain is none that ckpt knows"),
    "domain NONE with zero points": (affine(zero_point_domain=domain(3)), "the zero_point_domain says that there is none"),
    "domain FLOAT with integers": (affine(zero_point_domain=domain(2)), "a zero point of domain FLOAT has another dtype"),
    "zero points of bool": (affine(zero=tensor("bool", [ROWS, 2], [True] * 8)), "a zero point of domain INT has another dtype"),
    "zero points of float64": (affine(zero=tensor("float64", [ROWS, 2], ZEROS)), "a zero point of domain INT has another dtype"),
    "a zero point of 300": (affine(zero=tensor("int64", [ROWS, 2], [0] * 7 + [300])), "w.zero_point' has 300, wanted whole numbers"),
    "a zero point of 2.5": (affine(zero=tensor("float32", [ROWS, 2], [0] * 7 + [2.5])), "w.zero_point' has 2.5, wanted whole numbers"),
    "another shape of the whole": (affine(shape=(COLS, ROWS)), "the tensor that it is a part of has another shape"),
    "float8 of int8": (float8(more={"float8_data": tensor("int8", [ROWS, COLS], ITEMS)}), "wanted a float8 type"),
    "float8 without numbers": (float8(more={"float8_data": None}), "its numbers are missing"),
    "float8 with zero points": (float8(zero=tensor("int64", [ROWS, 2], ZEROS)), "float8 has none"),
    "float8 transposed": (float8(more={"transposed": True}), "is transposed, and its float8_data is not"),
    "float8, domain FLOAT": (float8(zero_point_domain=domain(2)), "its zero_point_domain is FLOAT"),
    "float8, bounds of integers": (float8(quant_min=-449, quant_max=448), "quant_min and quant_max"),
    "float8 with a plain impl": (affine(items=tensor("float8_e4m3fn", [ROWS, COLS], [0] * 64), zero=ABSENT), "wanted int8 or uint8"),
    "activations": (wrapper("torchao.quantization.linear_activation_quantized_tensor", "LinearActivationQuantizedTensor", "bfloat16", [ROWS, COLS],
                            {"original_weight_tensor": affine(), "input_quant_func": Global("torchao.quantization.quant_api", "_int8_symm_per_token_reduced_range_quant"), "quant_kwargs": {}}),
                    "is a LinearActivationQuantizedTensor of torchao around AffineQuantizedTensor, which ckpt does not know"),
    "static activations": (wrapper("torchao.quantization.weight_tensor_linear_activation_quantization", "WeightTensorWithLinearActivationQuantizationMetadata", "bfloat16", [ROWS, COLS],
                                   {"original_weight_tensor": tensor("float32", [ROWS, COLS], [0] * 64)}),
                           "WeightTensorWithLinearActivationQuantizationMetadata of torchao around a tensor"),
}

SQUARE = {"shape": (4, 4), "block_size": (1, 4), "items": ABSENT}
SQUARE_ITEMS = {"float8_data": tensor("float8_e4m3fn", [4, 4], [0x38 + at % 8 for at in range(16)])}
SQUARE_NUMBERS = [(1 + at % 8 / 8) * SCALES[at // 4] for at in range(16)]
AFFINE_SOUND.update({
    "float8, a square": (float8(scale=tensor("float32", [4, 1], SCALES[:4]), more=SQUARE_ITEMS, **SQUARE), SQUARE_NUMBERS),
    "float8, scales of one dimension for rows": (float8(scale=tensor("float32", [4], SCALES[:4]), block_size=(1, 16)), [(1 + at % 8 / 8) * SCALES[at // 16] for at in range(64)]),
})
AFFINE_DAMAGED.update({
    "float8, scales turned": (float8(scale=tensor("float32", [1, 4], SCALES[:4]), block_size=(1, 16)), "w.scale' is float32 [1, 4]: wanted one for each block"),
    "float8, scales turned in a square": (float8(scale=tensor("float32", [1, 4], SCALES[:4]), more=SQUARE_ITEMS, **SQUARE), "wanted one for each block"),
    "float8, scales of one dimension in a square": (float8(scale=tensor("float32", [4], SCALES[:4]), more=SQUARE_ITEMS, **SQUARE), "wanted one for each block"),
    "another tensor in the impl": (affine(more={"pre_scale": tensor("float32", [COLS], [2] * COLS)}), "with a tensor 'pre_scale', which ckpt does not know"),
    "another tensor in the whole": (affine(pre_scale=tensor("float32", [COLS], [2] * COLS)), "with a tensor 'pre_scale', which ckpt does not know"),
    "a module that torchao does not have": (wrapper("torchao.evil", "AffineQuantizedTensor", "bfloat16", [ROWS, COLS], {"tensor_impl": None}),
                                            "is a AffineQuantizedTensor of 'torchao.evil', a module that torchao does not have"),
    "a module whose name begins as one of torchao's": (wrapper("torchao.dtypesx", "AffineQuantizedTensor", "bfloat16", [ROWS, COLS], {"tensor_impl": None}),
                                                       "a module that torchao does not have"),
})

# ---- NVFP4Tensor of torchao ----


def nvfp4(shape=(ROWS, COLS), **more):
    """Codes 1 to 7 and their negatives, a scale of float8 for 16 of them, and one for all. `orig_dtype` is what 0.16 and later have, `_orig_dtype` what is older."""
    return wrapper("torchao.prototype.mx_formats.nvfp4_tensor", "NVFP4Tensor", "bfloat16", list(shape), without_absent({
        "qdata": tensor("uint8", [ROWS, COLS // 2], FOURS), "scale": tensor("float8_e4m3fn", [ROWS, 1], FOUR_SCALE_CODES),
        "per_tensor_scale": tensor("float32", [], [PER_TENSOR]), "block_size": 16, **more}))


def bf16(value):
    bits = struct.unpack("<I", struct.pack("<f", value))[0]
    return struct.unpack("<f", struct.pack("<I", (bits + 0x7FFF + (bits >> 16 & 1)) >> 16 << 16))[0]


def f32(value):
    return struct.unpack("<f", struct.pack("<f", value))[0]


FOURS = [at * 37 % 256 for at in range(ROWS * COLS // 2)]
E2M1 = [0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0, -0.0, -0.5, -1.0, -1.5, -2.0, -3.0, -4.0, -6.0]
PER_TENSOR = f32(0.0123)
FOUR_SCALES = [1.125, 1.375, 1.625, 1.875]
FOUR_SCALE_CODES = [0x39, 0x3B, 0x3D, 0x3F]
BFLOAT16 = Global("torch", "bfloat16")


def nvfp4_numbers(scale_of):
    return [f32(E2M1[FOURS[at // 2] >> at % 2 * 4 & 15] * scale_of(FOUR_SCALES[at // COLS])) for at in range(ROWS * COLS)]


NVFP4_SOUND = {
    "nvfp4 of 0.18": (nvfp4(orig_dtype=BFLOAT16), nvfp4_numbers(lambda scale: f32(scale * PER_TENSOR))),
    "nvfp4 up to 0.15": (nvfp4(_orig_dtype=BFLOAT16), nvfp4_numbers(lambda scale: bf16(scale * bf16(PER_TENSOR)))),
    "nvfp4 up to 0.15, float32": (nvfp4(_orig_dtype=Global("torch", "float32")), nvfp4_numbers(lambda scale: f32(scale * PER_TENSOR))),
    "nvfp4 up to 0.15, a scale with a dimension": (nvfp4(_orig_dtype=BFLOAT16, per_tensor_scale=tensor("float32", [1], [PER_TENSOR])),
                                                    nvfp4_numbers(lambda scale: f32(scale * PER_TENSOR))),
    "nvfp4 without a scale for all": (nvfp4(_orig_dtype=BFLOAT16, per_tensor_scale=ABSENT), nvfp4_numbers(lambda scale: scale)),
}

AS_0_17 = {
    "nvfp4": (nvfp4(orig_dtype=BFLOAT16), nvfp4_numbers(lambda scale: bf16(scale * bf16(PER_TENSOR)))),
    "nvfp4, float32": (nvfp4(orig_dtype=Global("torch", "float32")), nvfp4_numbers(lambda scale: f32(scale * PER_TENSOR))),
    "nvfp4, a scale with a dimension": (nvfp4(orig_dtype=BFLOAT16, per_tensor_scale=tensor("float32", [1], [PER_TENSOR])),
                                        nvfp4_numbers(lambda scale: f32(scale * PER_TENSOR))),
    "nvfp4 up to 0.15": NVFP4_SOUND["nvfp4 up to 0.15"],
    "nvfp4 without a scale for all": (nvfp4(orig_dtype=BFLOAT16, per_tensor_scale=ABSENT), nvfp4_numbers(lambda scale: scale)),
}

# In the order of cuBLAS: row R of a tile begins at R * 16, and what is not the first of its four scales is NaN here.
TILE = [FOUR_SCALE_CODES[at // 16] if at % 16 == 0 and at < 16 * ROWS else 0x7F for at in range(512)]


def swizzled(shape=(32, 16), codes=None, key="is_swizzled_scales", value=True, **more):
    return nvfp4(**{"scale": tensor("float8_e4m3fn", list(shape), TILE if codes is None else codes), key: value, **more})


def turned(t):
    """A view whose two dimensions are exchanged."""
    storage, at, shape, stride, *rest = t.args
    return Call(t.func, storage, at, shape[::-1], stride[::-1], *rest)


NVFP4_SOUND.update({
    "nvfp4 of 0.18, cuBLAS": (swizzled(orig_dtype=BFLOAT16), NVFP4_SOUND["nvfp4 of 0.18"][1]),
    "nvfp4 of 0.18, cuBLAS, scales in one row": (swizzled((512,), orig_dtype=BFLOAT16), NVFP4_SOUND["nvfp4 of 0.18"][1]),
    "nvfp4 up to 0.15, cuBLAS": (swizzled(key="_is_swizzled_scales", _orig_dtype=BFLOAT16), NVFP4_SOUND["nvfp4 up to 0.15"][1]),
    "nvfp4 of 0.18, cuBLAS, without a scale for all": (swizzled(orig_dtype=BFLOAT16, per_tensor_scale=ABSENT), nvfp4_numbers(lambda scale: scale)),
    "nvfp4 of 0.18, not cuBLAS": (nvfp4(orig_dtype=BFLOAT16, is_swizzled_scales=False), NVFP4_SOUND["nvfp4 of 0.18"][1]),
})


def experts(*of_each, **more):
    """The four rows as two matrices. OF_EACH: the shape of a second scale, and its numbers."""
    return nvfp4((2, ROWS // 2, COLS), **{"qdata": tensor("uint8", [2, ROWS // 2, COLS // 2], FOURS), "scale": tensor("float8_e4m3fn", [2, ROWS // 2, 1], FOUR_SCALE_CODES),
                                          "per_tensor_scale": tensor("float32", *of_each), **more})


PER_EXPERT = [PER_TENSOR, 2.5]
OF_EXPERTS = [f32(E2M1[FOURS[at // 2] >> at % 2 * 4 & 15] * f32(FOUR_SCALES[at // COLS] * PER_EXPERT[at // COLS // 2])) for at in range(ROWS * COLS)]
TILES = tensor("float8_e4m3fn", [32, 16], TILE)
NVFP4_SOUND.update({
    "nvfp4 of 0.18, a scale for each matrix": (experts([2, 1, 1], PER_EXPERT, orig_dtype=BFLOAT16), OF_EXPERTS),
    "nvfp4 of 0.18, a scale for each matrix, cuBLAS": (experts([2, 1, 1], PER_EXPERT, orig_dtype=BFLOAT16, scale=TILES, is_swizzled_scales=True), OF_EXPERTS),
    "nvfp4 of 0.18, one of three dimensions": (nvfp4(orig_dtype=BFLOAT16, per_tensor_scale=tensor("float32", [1, 1, 1], [PER_TENSOR])), NVFP4_SOUND["nvfp4 of 0.18"][1]),
    "nvfp4 up to 0.15, a scale for each matrix": (experts([2, 1, 1], PER_EXPERT, _orig_dtype=BFLOAT16), OF_EXPERTS),
})
AS_0_17["nvfp4, cuBLAS"] = (swizzled(orig_dtype=BFLOAT16), AS_0_17["nvfp4"][1])

NVFP4_DAMAGED = {
    "nvfp4 of no version": (nvfp4(), "neither orig_dtype nor _orig_dtype says alone in which dtype it is multiplied"),
    "nvfp4 of two versions": (nvfp4(orig_dtype=BFLOAT16, _orig_dtype=BFLOAT16), "neither orig_dtype nor _orig_dtype says alone"),
    "nvfp4 of another dtype": (nvfp4(_orig_dtype=Global("torch", "float64")), "neither orig_dtype nor _orig_dtype says alone"),
    "nvfp4 of 0.18, a scale with a dimension": (nvfp4(orig_dtype=BFLOAT16, per_tensor_scale=tensor("float32", [1], [PER_TENSOR])), "wanted one number without dimensions"),
    "nvfp4 of 0.18, two scales for two matrices": (experts([2], PER_EXPERT, orig_dtype=BFLOAT16), "wanted one number without dimensions, or [E, 1, 1]"),
    "nvfp4 of 0.18, three scales for two matrices": (experts([3, 1, 1], PER_EXPERT + [1], orig_dtype=BFLOAT16), "wanted one number without dimensions, or [E, 1, 1]"),
    "nvfp4 of 0.18, two scales for one matrix": (nvfp4(orig_dtype=BFLOAT16, per_tensor_scale=tensor("float32", [2, 1, 1], PER_EXPERT)), "wanted one number without dimensions"),
    "nvfp4 of 0.18, a scale of two dimensions": (nvfp4(orig_dtype=BFLOAT16, per_tensor_scale=tensor("float32", [1, 1], [PER_TENSOR])), "wanted one number without dimensions"),
    "nvfp4 up to 0.15, two scales for two matrices": (experts([2], PER_EXPERT, _orig_dtype=BFLOAT16), "wanted one number"),
    "nvfp4 up to 0.15, a scale for each matrix, cuBLAS": (experts([2, 1, 1], PER_EXPERT, _orig_dtype=BFLOAT16, scale=TILES, _is_swizzled_scales=True), "wanted one number"),
    "nvfp4 up to 0.15, two scales for all": (nvfp4(_orig_dtype=BFLOAT16, per_tensor_scale=tensor("float32", [2], [PER_TENSOR, PER_TENSOR])), "wanted one number"),
    "nvfp4 of 0.18, cuBLAS, no tiles": (nvfp4(orig_dtype=BFLOAT16, is_swizzled_scales=True), "w.scale' is float8_e4m3fn [4, 1]: wanted 512 scales in the order of cuBLAS"),
    "nvfp4 up to 0.15, cuBLAS, no tiles": (nvfp4(_orig_dtype=BFLOAT16, _is_swizzled_scales=True), "wanted 512 scales in the order of cuBLAS"),
    "nvfp4 of 0.18, tiles, and not cuBLAS": (swizzled(value=False, orig_dtype=BFLOAT16), "wanted [4, 1] for 4 x 16 numbers"),
    "nvfp4 of 0.18, cuBLAS, a scale less": (swizzled((511,), TILE[:-1], orig_dtype=BFLOAT16), "wanted 512 scales in the order of cuBLAS"),
    "nvfp4 of 0.18, cuBLAS, a scale more": (swizzled((513,), TILE + [0x39], orig_dtype=BFLOAT16), "wanted 512 scales in the order of cuBLAS"),
    "nvfp4 of 0.18, cuBLAS, a tile more": (swizzled((2, 32, 16), TILE * 2, orig_dtype=BFLOAT16), "wanted 512 scales in the order of cuBLAS"),
    "nvfp4 of 0.18, cuBLAS, scales turned": (swizzled(orig_dtype=BFLOAT16, scale=turned(tensor("float8_e4m3fn", [32, 16], TILE))),
                                             "w.scale' is float8_e4m3fn [16, 32]: scales in the order of cuBLAS have to lie one behind the other"),
    "nvfp4 of 0.18, cuBLAS, numbers turned": (swizzled(orig_dtype=BFLOAT16, qdata=turned(tensor("uint8", [16, 8], FOURS + FOURS * 3))),
                                              "w.qdata' is uint8 [8, 16]: it is transposed, and its scales are in the order of cuBLAS"),
    "nvfp4 of 0.18, cuBLAS 1": (swizzled(value=1, orig_dtype=BFLOAT16), "its is_swizzled_scales is neither true nor false"),
    "nvfp4 of 0.18, cuBLAS 0": (nvfp4(orig_dtype=BFLOAT16, is_swizzled_scales=0), "its is_swizzled_scales is neither true nor false"),
    "nvfp4 of 0.18, cuBLAS a text": (swizzled(value="True", orig_dtype=BFLOAT16), "its is_swizzled_scales is neither true nor false"),
}

# ---- Float8Tensor of Transformer Engine ----

ENGINE = "transformer_engine.pytorch.tensor.float8_tensor"
ENGINE_1 = "transformer_engine.pytorch.float8_tensor"


def method(module=ENGINE, name="_make_in_reduce_ex", kind="Float8Tensor", getattr_of="__builtin__"):
    return Call(Global(getattr_of, "getattr"), Global(module, kind), name)


def fp8_dtype(number, module="transformer_engine_torch"):
    """As enums of pybind11 pickle."""
    return Call(Global(module, "DType"), kind=b"\x81", state=number)


def engine(func=None, data=None, code=None, scale=None, dtype=Global("torch", "bfloat16"), shape=(ROWS, COLS), more=(), state=None):
    """Sound as it is: of a version after 2.2. SHAPE ABSENT: of 1.x."""
    size = () if shape is ABSENT else (Call(Global("torch", "Size"), shape),)
    return Call(func or method(), tensor("uint8", [ROWS, COLS], FP8) if data is None else data, fp8_dtype(7) if code is None else code,
                tensor("float32", [1], [0.375]) if scale is None else scale, dtype, *size, *more, state=state)


def float8_number(code, exponent_bits, bias):
    mantissa_bits = 7 - exponent_bits
    mantissa, exponent = code & (1 << mantissa_bits) - 1, code >> mantissa_bits & (1 << exponent_bits) - 1
    value = ((1 << mantissa_bits) + mantissa) * 2.0 ** (exponent - bias - mantissa_bits) if exponent else mantissa * 2.0 ** (1 - bias - mantissa_bits)
    return -value if code & 128 else value


FP8 = [at * 37 % 120 + at % 2 * 128 for at in range(ROWS * COLS)]
AS_E4M3 = [float8_number(code, 4, 7) * 0.375 for code in FP8]
AS_E5M2 = [float8_number(code, 5, 15) * 0.375 for code in FP8]
FUNCTION = Global(ENGINE, "_make_float8_tensor_in_reduce_ex")
OTHER = "transformer_engine.pytorch.tensor."

ENGINE_SOUND = {
    "engine after 2.2": (engine(), AS_E4M3),
    "engine after 2.2, e5m2": (engine(code=fp8_dtype(8)), AS_E5M2),
    "engine 2.0": (engine(code=fp8_dtype(6)), AS_E4M3),
    "engine 2.16": (engine(func=FUNCTION, code=Call(Global("transformer_engine_torch", "DType"), 7)), AS_E4M3),
    "engine 2.16, e5m2": (engine(func=FUNCTION, code=Call(Global("transformer_engine_torch", "DType"), 8)), AS_E5M2),
    "engine with an enum of Python": (engine(func=FUNCTION, code=Call(Global("transformer_engine.pytorch.constants", "DType"), 7)), AS_E4M3),
    "engine 1": (engine(code=fp8_dtype(6), shape=ABSENT), AS_E4M3),
    "engine 1, e5m2": (engine(code=fp8_dtype(7), shape=ABSENT), AS_E5M2),
    "engine 1, first module": (engine(func=method(ENGINE_1), code=fp8_dtype(6, "transformer_engine_extensions"), shape=ABSENT), AS_E4M3),
    "engine, getattr of Python 3": (engine(func=method(getattr_of="builtins")), AS_E4M3),
    "engine, a scale without dimensions": (engine(scale=tensor("float32", [], [0.375])), AS_E4M3),
    "engine, a scale of two dimensions": (engine(scale=tensor("float32", [1, 1], [0.375])), AS_E4M3),
    "engine, float32": (engine(dtype=Global("torch", "float32")), AS_E4M3),
}

ENGINE_DAMAGED = {
    "engine, fp8_dtype %d of 2" % number: (engine(code=fp8_dtype(number)), "its fp8_dtype is none that ckpt knows") for number in (0, 5, 9, 10, -1)
}
ENGINE_DAMAGED.update({
    "engine, fp8_dtype %d of 1" % number: (engine(code=fp8_dtype(number), shape=ABSENT), "its fp8_dtype is none that ckpt knows") for number in (5, 8, 9)
})
ENGINE_DAMAGED.update({
    "engine, a new enum with an old number": (engine(code=Call(Global("transformer_engine_torch", "DType"), 6)), "its fp8_dtype is none that ckpt knows"),
    "engine, a new enum of 1": (engine(code=Call(Global("transformer_engine_torch", "DType"), 7), shape=ABSENT), "its fp8_dtype is none that ckpt knows"),
    "engine, fp8_dtype a number": (engine(code=7), "its fp8_dtype is none that ckpt knows"),
    "engine, fp8_dtype of another class": (engine(code=Call(Global("transformer_engine_torch", "Format"), 7)), "its fp8_dtype is none that ckpt knows"),
    "engine, fp8_dtype of somebody": (engine(code=Call(Global("some.module", "DType"), 7)), "its fp8_dtype is none that ckpt knows"),
    "engine, fp8_dtype without a state": (engine(code=Call(Global("transformer_engine_torch", "DType"), kind=b"\x81")), "its fp8_dtype is none that ckpt knows"),
    "engine, fp8_dtype with a text": (engine(code=fp8_dtype("7")), "its fp8_dtype is none that ckpt knows"),
    "engine, fp8_dtype a dtype of torch": (engine(code=Global("torch", "float8_e4m3fn")), "its fp8_dtype is none that ckpt knows"),
    "engine, data None": (engine(data=Call(Global("collections", "OrderedDict"))), "has a data that is no plain tensor"),
    "engine, data of int8": (engine(data=tensor("int8", [ROWS, COLS], ITEMS)), "w.data' is int8 [4, 16]: wanted uint8"),
    "engine, data of float8": (engine(data=tensor("float8_e4m3fn", [ROWS, COLS], FP8)), "wanted uint8"),
    "engine, data of one dimension": (engine(data=tensor("uint8", [COLS], FP8[:COLS]), shape=(COLS,)), "has two dimensions or more"),
    "engine, two scales": (engine(scale=tensor("float32", [2], [1, 2])), "w.fp8_scale_inv' is float32 [2]: wanted one number of float32"),
    "engine, no scale": (engine(scale=tensor("float32", [0], [])), "wanted one number of float32"),
    "engine, scale of float64": (engine(scale=tensor("float64", [1], [1])), "wanted one number of float32"),
    "engine, scale a number": (engine(scale=0.5), "has a fp8_scale_inv that is no plain tensor"),
    "engine, dtype of float8": (engine(dtype=Global("torch", "float8_e4m3fn")), "its dtype is not float32, float16 or bfloat16"),
    "engine, dtype None": (engine(dtype=None), "its dtype is not float32, float16 or bfloat16"),
    "engine, another shape": (engine(shape=(COLS, ROWS)), "its shape is said to be another"),
    "engine, a flat shape": (engine(shape=(ROWS * COLS,)), "its shape is said to be another"),
    "engine, three arguments": (Call(method(), tensor("uint8", [ROWS, COLS], FP8), fp8_dtype(7), tensor("float32", [1], [1])), "it is not made as versions 1 and 2 make it"),
    "engine, six arguments": (engine(more=(1,)), "it is not made as versions 1 and 2 make it"),
    "engine, attributes": (engine(state={"a": 1}), "it is not made as versions 1 and 2 make it"),
    "engine, another method": (engine(func=method(name="_make")), "is made by Float8Tensor of Transformer Engine"),
    "engine, a method by another call": (engine(func=Call(Global("some.module", "getattr"), Global(ENGINE, "Float8Tensor"), "_make_in_reduce_ex")), "is made by Float8Tensor"),
    "engine, another class": (engine(func=method(kind="Float8TensorStorage")), "is made by Float8TensorStorage of Transformer Engine"),
    "engine, another function": (engine(func=Global(ENGINE, "_make")), "is made by _make of Transformer Engine"),
    "engine, another module": (engine(func=method(OTHER + "other_tensor")), "is made by Float8Tensor of Transformer Engine"),
    "engine, MXFP8Tensor": (engine(func=method(OTHER + "mxfp8_tensor", kind="MXFP8Tensor")), "is made by MXFP8Tensor of Transformer Engine"),
    "engine, Float8BlockwiseQTensor": (engine(func=method(OTHER + "float8_blockwise_tensor", kind="Float8BlockwiseQTensor")), "is made by Float8BlockwiseQTensor"),
    "engine, NVFP4Tensor": (engine(func=Global(OTHER + "nvfp4_tensor", "_make_nvfp4_tensor_in_reduce_ex")), "is made by _make_nvfp4_tensor_in_reduce_ex"),
    "engine, a subclass by torch": (wrapper(ENGINE, "Float8Tensor", "bfloat16", [ROWS, COLS], {}), "is made by Float8Tensor of Transformer Engine"),
})

# ---- torch ----

def quantized(dtype, quantizer):
    """[2, 2] of integers 1 to 4."""
    return Call(Global("torch._utils", "_rebuild_qtensor"), Storage(dtype, struct.pack("<4" + {"qint8": "b", "quint8": "B", "qint32": "i"}[dtype], 1, 2, 3, 4)), 0, (2, 2), (2, 1),
                quantizer, False, Call(Global("collections", "OrderedDict")))


def per_tensor(zero):
    return (Global("torch", "per_tensor_affine"), 0.5, zero)


def per_channel(zeros, scheme="per_channel_affine", dtype="int64"):
    return (Global("torch", scheme), tensor("float64" if dtype == "int64" else dtype, [2], [0.5, 0.5]), tensor(dtype, [2], zeros), 0)


TORCH_SOUND = {"%s, zero point %d" % (dtype, zero): (quantized(dtype, per_tensor(zero)), [(at - zero) / 2 for at in range(1, 5)])
               for dtype, zeros in (("qint8", (-128, 127)), ("quint8", (0, 255)), ("qint32", (-1000, 1000))) for zero in zeros}
TORCH_SOUND.update({
    "qint8, zero points of channels": (quantized("qint8", per_channel([-128, 127])), [64.5, 65, -62, -61.5]),
    "quint8, zero points of channels": (quantized("quint8", per_channel([0, 255])), [0.5, 1, -126, -125.5]),
    "quint8, zero points that are floats": (quantized("quint8", per_channel([-2, 300], "per_channel_affine_float_qparams", "float32")), [1.5, 2, -148.5, -148]),
})
TORCH_DAMAGED = {"%s, zero point %d" % (dtype, zero): (quantized(dtype, per_tensor(zero)), "has the zero point %d, and its integers are from " % zero)
                 for dtype, zeros in (("qint8", (-129, 128, 300, -300)), ("quint8", (-1, 256, 300)), ("qint32", (-1 << 32, 1 << 31))) for zero in zeros}
TORCH_DAMAGED.update({"%s, zero points of channels %d" % (dtype, zero): (quantized(dtype, per_channel([1, zero])), "has the zero point %d, and its integers are from " % zero)
                      for dtype, zeros in (("qint8", (-129, 300)), ("quint8", (-1, 256))) for zero in zeros})

# ---- all of them ----

SOUND = {**AFFINE_SOUND, **NVFP4_SOUND, **ENGINE_SOUND, **TORCH_SOUND}
DAMAGED = {**AFFINE_DAMAGED, **NVFP4_DAMAGED, **ENGINE_DAMAGED, **TORCH_DAMAGED}


def dequantize(ckpt, work, value, *arguments):
    source, target = os.path.join(work, "in.pt"), os.path.join(work, "out.pt")
    write(source, {"w": value, "plain": tensor("float32", [2], [1, 2])})
    if os.path.exists(target):
        os.remove(target)
    done = subprocess.run([ckpt, "cast", "-q", *arguments, "--dequantize", "f32", source, target], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, encoding="utf-8")
    return done.returncode, done.stdout.strip(), target


def check_sound(ckpt, work, value, numbers, *arguments):
    status, said, target = dequantize(ckpt, work, value, *arguments)
    if status:
        return said
    with zipfile.ZipFile(target) as archive:
        found = [archive.read(name) for name in archive.namelist() if "/data/" in name]
    wanted = struct.pack("<%df" % len(numbers), *numbers)
    return "" if sorted(map(len, found)) == [8, len(wanted)] and wanted in found else "has other numbers"


def check_damaged(ckpt, work, value, text):
    status, said, target = dequantize(ckpt, work, value)
    if status == 0 or os.path.exists(target):
        return "is no error"
    return "" if status == 2 and text in said and "'w" in said else "status %d: %s" % (status, said)


def check_twice(ckpt, work, value):
    """One object under two names is one weight, and one afterwards."""
    source, target = os.path.join(work, "in.pt"), os.path.join(work, "out.pt")
    write(source, {"w": value, "again": value})
    done = subprocess.run([ckpt, "cast", "-f", "--dequantize", "f32", source, target], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, encoding="utf-8")
    if done.returncode or not done.stdout.startswith("1 weight dequantized"):
        return done.stdout.strip()
    with zipfile.ZipFile(target) as archive:
        return "" if len([name for name in archive.namelist() if "/data/" in name]) == 1 else "is two weights afterwards"


def check_elsewhere(ckpt, work, before):
    """Codes that are a tensor of their own elsewhere, too: the same object is an error, which names both, another one stays."""
    items, copy = tensor("int8", [ROWS, COLS], ITEMS), tensor("int8", [ROWS, COLS], ITEMS)
    source, target = os.path.join(work, "in.pt"), os.path.join(work, "out.pt")
    if os.path.exists(target):
        os.remove(target)
    for raw in (items, [1, items], {"x": items}):
        write(source, {"raw": raw, "w": affine(items=items)} if before else {"w": affine(items=items), "raw": raw})
        done = subprocess.run([ckpt, "cast", "-q", "--dequantize", "f32", source, target], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, encoding="utf-8")
        if done.returncode != 2 or "'w.int_data' and 'raw" not in done.stdout or "are one tensor" not in done.stdout or os.path.exists(target):
            return "status %d: %s" % (done.returncode, done.stdout.strip())
    copy.args = (items.args[0],) + tuple(copy.args[1:])
    write(source, {"w": affine(items=items), "raw": copy})
    done = subprocess.run([ckpt, "cast", "-q", "-f", "--dequantize", "f32", source, target], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, encoding="utf-8")
    with zipfile.ZipFile(target) as archive:
        found = [archive.read(name) for name in archive.namelist() if "/data/" in name]
    return "" if not done.returncode and struct.pack("<64b", *ITEMS) in found else "the codes of a tensor beside it are not as they were"


def check_cast(ckpt, work, value):
    """A cast without --dequantize leaves the codes and scales of a quantized object alone, and casts the rest."""
    source, target = os.path.join(work, "in.pt"), os.path.join(work, "out.pt")
    write(source, {"w": value, "plain": tensor("float32", [3], [1, 2, 3])})
    done = subprocess.run([ckpt, "cast", "-f", "f16", source, target], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, encoding="utf-8")
    if done.returncode:
        return done.stdout.strip()
    with zipfile.ZipFile(source) as was, zipfile.ZipFile(target) as now:
        before, after = ([archive.read(name) for name in archive.namelist() if "/data/" in name] for archive in (was, now))
    return "" if after == [struct.pack("<3e", 1, 2, 3) if item == struct.pack("<3f", 1, 2, 3) else item for item in before] else "other numbers are cast, or none"


def main():
    ckpt, wrong, count = os.path.abspath(os.environ["CKPT"]), [], 0
    with tempfile.TemporaryDirectory(dir=os.environ.get("CKPT_TEST_DIR") or None) as work:
        for cases, check in ((SOUND, check_sound), (DAMAGED, check_damaged)):
            for name, (value, wanted) in cases.items():
                count += 1
                text = check(ckpt, work, value, wanted)
                if text:
                    wrong.append("%s: %s" % (name, text))
        for name, (value, _) in {**SOUND, **ENGINE_DAMAGED}.items():
            count += 1
            text = check_cast(ckpt, work, value)
            if text:
                wrong.append("%s, cast: %s" % (name, text))
        for name, value in (("affine, twice", affine()), ("engine, twice", engine())):
            count += 1
            text = check_twice(ckpt, work, value)
            if text:
                wrong.append("%s: %s" % (name, text))
        for name, (value, numbers) in AS_0_17.items():
            count += 1
            text = check_sound(ckpt, work, value, numbers, "--as", "torchao_0.17")
            if text:
                wrong.append("%s, as 0.17: %s" % (name, text))
        for before in (False, True):
            count += 1
            text = check_elsewhere(ckpt, work, before)
            if text:
                wrong.append("affine, codes elsewhere: %s" % text)
    for text in wrong:
        print("FAIL", text)
    print("%d cases, %d wrong" % (count, len(wrong)))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())

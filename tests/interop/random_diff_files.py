# SPDX-License-Identifier: Apache-2.0
"""Random pairs of dicts of small tensors in files of every form, and what is between them: random_diff_files.py OUTDIR SEED COUNT

Those of each seed in a folder NUMBER of OUTDIR: a-FORM and b-FORM hold the same numbers in each FORM: storages of their own or shared, as views with gaps, compressed, as a stream, big-endian,
as safetensors, as a directory of torch.distributed.checkpoint. want.json: {"between": {name: as diff_files.py, or "unknown"},
"outside": [[atol, rtol, {name: how many}]]}.
"""
import json
import os
import random
import struct
import sys
import warnings
import zipfile

warnings.simplefilter("ignore")

import torch  # noqa: E402

import diff_files  # noqa: E402
import odd_files  # noqa: E402
import torch_files  # noqa: E402
from diff_files import FLOAT8, FLOATS, INTEGERS, VERSION, size_of  # noqa: E402

CODES = {"float64": "F64", "float32": "F32", "float16": "F16", "bfloat16": "BF16", "int64": "I64", "int32": "I32", "int16": "I16", "int8": "I8", "uint8": "U8", "bool": "BOOL",
         "complex64": "C64", "float8_e5m2": "F8_E5M2", "float8_e4m3fn": "F8_E4M3", "float8_e5m2fnuz": "F8_E5M2FNUZ", "float8_e4m3fnuz": "F8_E4M3FNUZ", "float8_e8m0fnu": "F8_E8M0",
         "uint16": "U16", "uint32": "U32", "uint64": "U64"}
SMALL = 4096        # bytes of the largest tensor that ckpt reads with others at once
PIECE = 1024        # numbers that it compares at once
EDGES = (0, 1, 2, 7, 8, 9, PIECE // 2, PIECE - 1, PIECE, PIECE + 1)
NO_NUMBERS = diff_files.named("float4_e2m1fn_x2", "bits8", "bits16")
DTYPES = FLOATS[:4 if VERSION >= (1, 10) else 3] + [kind for kind in FLOAT8 + INTEGERS if VERSION >= (2, 3) or kind not in INTEGERS[5:]] + [torch.bool] + diff_files.named("complex64", "complex128")
DTYPES += (diff_files.named("complex32") if VERSION >= (2, 0) else []) + NO_NUMBERS
WIDE = {torch.int64, torch.float64, torch.float32, torch.complex64, torch.complex128}     # have large numbers
PART = {torch.complex64: torch.float32, torch.complex128: torch.float64, getattr(torch, "complex32", None): torch.float16}


# ---- numbers ----

def tensor_of(raw, dtype):
    """The numbers whose bits are RAW, of complex ones their parts."""
    if dtype in PART:
        return torch.view_as_complex(diff_files.from_bits(raw, PART[dtype]).view(-1, 2))
    if dtype == torch.bool:
        return torch.tensor([v & 1 == 1 for v in raw], dtype=torch.bool)
    return diff_files.integer_tensor(raw, dtype) if dtype in INTEGERS else diff_files.from_bits(raw, dtype)


def random_bits(dtype, count):
    width = size_of(dtype)
    special = [0, 256 ** width // 2, 1, 256 ** width - 1, 256 ** width // 2 - 1] + {4: [0x7F800000, 0xFF800000, 0x7FC00001], 2: [0x7C00, 0x7F80, 0xFC00]}.get(width, [])
    return [random.choice(special) if random.random() < .05 else random.randrange(256 ** width) for _ in range(count)]


def near_bits(raw, dtype, relation):
    """Of the numbers beside RAW: all equal, some changed in their last bits, or any."""
    top = 256 ** size_of(dtype)
    if relation == "any":
        return random_bits(dtype, len(raw))
    if relation == "one" and raw:
        at = random.randrange(len(raw))
        return raw[:at] + [raw[at] ^ random.randrange(1, 4)] + raw[at + 1:]
    if relation == "signs":     # of zeros, and kinds of NaN
        return [v ^ top // 2 if v * 2 % top == 0 else v ^ 1 if random.random() < .1 else v for v in raw]
    return [v ^ random.randrange(16) if relation == "near" and random.random() < .5 else v for v in raw]


def tame_pair(kinds, count):
    """Numbers that dtypes have in common, more or less."""
    scales = (.1, 1, 50) + ((2.0 ** 54, 2.0 ** 60) if set(kinds) <= WIDE else ())
    wave = torch.randn(count, dtype=torch.float64) * random.choice(scales)
    other = wave + torch.randn(count, dtype=torch.float64) * random.choice((0, 1e-9, 1e-3))
    made = []
    for kind, numbers in zip(kinds, (wave, other)):
        if kind in PART:
            numbers = torch.view_as_complex(torch.stack([numbers, numbers.flip(0)], 1).to(PART[kind]))
        made.append((numbers.abs() if kind == torch.uint8 else numbers).to(kind))
    return made


def pair():
    kind = other = random.choice(DTYPES)
    if random.random() < .3 and kind not in NO_NUMBERS + FLOAT8:
        other = random.choice([dtype for dtype in DTYPES if dtype not in NO_NUMBERS + FLOAT8 + INTEGERS[5:]])
    edge = SMALL // max(size_of(kind), size_of(other) if random.random() < .5 else 1)
    count = random.choice(EDGES + (edge - 1, edge, edge + 1, random.randrange(1, 40)))
    if kind == other:
        real = PART.get(kind, kind)
        raw = random_bits(real, count * (2 if kind in PART else 1))
        near = near_bits(raw, real, random.choice(("same", "same", "one", "near", "signs", "any")))
        one, two = tensor_of(raw, kind), tensor_of(near, kind)
    else:
        kind, other = [torch.int64 if dtype in INTEGERS[5:] else dtype for dtype in (kind, other)]
        one, two = tame_pair((kind, other), count)
    shapes = [[count]] + [[count // n, n] for n in (2, 3, 8) if count % n == 0] + [[1, count, 1]] + ([[]] if count == 1 else [])
    shape = random.choice(shapes)
    return one.reshape(shape), two.reshape(shape)


def odd_pairs():
    a, b = diff_files.close_pair(torch.float32, 6, 10)
    if VERSION >= (1, 13):
        yield from diff_files.pairs_of_quantized(a, b)
    mask = torch.rand(6, 10) < .3
    yield "sparse", ((a * mask).to_sparse(), (b * mask).to_sparse())
    yield "sparse.dense", ((a * mask).to_sparse(), b * mask)
    yield "expanded", (a[:, :1].expand(6, 10), b[:, :1].expand(6, 10))
    yield "transposed", (a.t(), b.t())
    yield "one.transposed", (a.t(), b.t().contiguous())
    yield "other.shape", (a, b.reshape(10, 6))
    if hasattr(torch, "_neg_view") and VERSION >= (2, 0):
        yield "negative", (torch._neg_view(a), b)
        yield "conjugate", [torch.view_as_complex(tensor.clone().view(6, 5, 2)).conj() for tensor in (a, b)]


def pairs():
    found = {"%03d" % number: pair() for number in range(random.choice((5, 40, 120)))}
    found.update(odd_pairs())
    for name in random.sample(sorted(found), 3):
        found[name + ".tied"] = found[name]
    if random.random() < .5:        # so much that several threads compare
        found["large"] = diff_files.close_pair(torch.float32, 300000)
    return found


# ---- what is between them ----

def outside(one, two, atol, rtol):
    a, b = diff_files.with_parts(diff_files.exact(one), diff_files.exact(two), one, two)
    finite = lambda v: v == v and abs(v) != float("inf")
    return sum(x != y and not (x != x and y != y) and not (finite(x) and finite(y) and diff_files.gap_of(x, y) <= atol + rtol * abs(float(y))) for x, y in zip(a, b))


def between(one, two):
    if one.shape != two.shape or one.dtype in NO_NUMBERS or (VERSION < (1, 10) and torch.bfloat16 in (one.dtype, two.dtype)):
        return "unknown"
    return diff_files.between(one, two)


# ---- forms of a file ----

def is_plain(tensor):
    return tensor.layout == torch.strided and not tensor.is_quantized and not getattr(tensor, "is_neg", bool)() and not getattr(tensor, "is_conj", bool)()


def with_gaps(tensor):
    """Every second number of a storage."""
    if not is_plain(tensor) or not tensor.dim() or tensor.dtype in NO_NUMBERS:
        return tensor
    base = torch.zeros(list(tensor.shape) + [2], dtype=tensor.dtype) if size_of(tensor.dtype) > 1 or tensor.dtype not in FLOAT8 else torch.zeros(
        list(tensor.shape) + [2], dtype=torch.uint8).view(tensor.dtype)
    base[..., 0] = tensor
    return base[..., 0]


def packed(tensors):
    """Those of a dtype in one storage."""
    result, by_kind = dict(tensors), {}
    for name, tensor in tensors.items():
        if is_plain(tensor) and tensor.is_contiguous() and tensor.dtype not in NO_NUMBERS + FLOAT8:
            by_kind.setdefault(tensor.dtype, []).append(name)
    for names in by_kind.values():
        whole = torch.cat([tensors[name].reshape(-1) for name in names])
        at = 0
        for name in names:
            result[name] = whole[at:at + tensors[name].numel()].view(tensors[name].shape)
            at += tensors[name].numel()
    return result


def plain_ones(tensors):
    """Each with a storage of its own."""
    return {name: tensor.contiguous().clone() for name, tensor in tensors.items() if is_plain(tensor)}


def save_big_endian(tensors, path):
    tensors = plain_ones(tensors)
    torch.save(tensors, path)
    widths = [size_of(PART.get(tensor.dtype, tensor.dtype)) for tensor in tensors.values()]
    records = []
    for name, data in odd_files.read_records(path):
        key = name.split("/data/")
        if len(key) == 2:
            width = widths[int(key[1])]
            data = b"".join(data[i:i + width][::-1] for i in range(0, len(data), width))
        records.append((name, b"big" if name.endswith("/byteorder") else data))
    odd_files.write_records(path, records)


def save_safetensors(tensors, path):
    header, data = {}, b""
    for name, tensor in plain_ones(tensors).items():
        code = CODES.get(str(tensor.dtype)[6:])
        if code:
            raw = bytes(tensor.reshape(-1).view(torch.uint8).numpy()) if tensor.numel() else b""
            header[name] = {"dtype": code, "shape": list(tensor.shape), "data_offsets": [len(data), len(data) + len(raw)]}
            data += raw
    text = json.dumps(header).encode()
    with open(path, "wb") as stream:
        stream.write(struct.pack("<Q", len(text)) + text + data)


def save_dcp(tensors, path):
    from torch.distributed import checkpoint
    checkpoint.save({name: tensor for name, tensor in tensors.items() if is_plain(tensor) and tensor.dtype not in NO_NUMBERS}, checkpoint_id=path)


def save_all(tensors, start):
    torch.save(tensors, start + "zip")
    torch.save(tensors, start + "stream", _use_new_zipfile_serialization=False)
    torch.save(packed(tensors), start + "packed")
    odd_files.write_records(start + "deflated", odd_files.read_records(start + "zip"), zipfile.ZIP_DEFLATED)
    torch.save({name: with_gaps(tensor) for name, tensor in tensors.items()}, start + "gaps")
    if VERSION >= (2, 1):
        save_big_endian(tensors, start + "big")
        save_safetensors(tensors, start + "safetensors")
        save_dcp(tensors, start + "dcp")


def make(out, seed):
    os.makedirs(out)
    random.seed(seed)
    torch.manual_seed(seed)
    found = pairs()
    for side, letter in enumerate("ab"):
        save_all({name: both[side] for name, both in found.items()}, os.path.join(out, letter + "-"))
    small = {name: both for name, both in found.items() if name != "large"}
    want = {"between": {name: between(*both) for name, both in small.items()}}
    known = {name: both for name, both in small.items() if want["between"][name] != "unknown" and both[0].dtype not in INTEGERS and both[1].dtype not in INTEGERS}
    want["outside"] = [[atol, rtol, {name: outside(*both, atol, rtol) for name, both in known.items()}] for atol, rtol in ((1e-3, 0), (0, 1e-2), (.5, .25))]
    with open(os.path.join(out, "want.json"), "w", encoding="utf-8") as stream:
        json.dump(want, stream)


def main(out, seed, count):
    for number in range(int(seed), int(seed) + int(count)):
        make(os.path.join(out, str(number)), number)


if __name__ == "__main__":
    with torch_files.clean_exit():
        main(*sys.argv[1:])

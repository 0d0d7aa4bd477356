# SPDX-License-Identifier: Apache-2.0
"""Files of real torch, and what torch and numpy make of every array in them. cat_want.py OUTDIR [STEP]

OUTDIR/NAME.KIND.pt are the files, OUTDIR/NAME.KIND/I.npy what torch loads, as numpy saves it, and OUTDIR/manifest.json says
which value that is, and how numpy prints it: {"file", "name", "part", "npy", "text"}; "refused" instead of "npy" for
what has no values. Of the values every STEPth is there. cat_want.py OUTDIR --compare LIST RESULT compares pairs of files of a JSON list, and writes what differs.
"""

import collections
import itertools
import json
import os
import re
import sys
import traceback
import warnings
import zipfile

warnings.simplefilter("ignore")

import numpy as np  # noqa: E402
import torch  # noqa: E402

import torch_files  # noqa: E402

ALPHABET = set("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789 ._-")
MOST_TEXT = 20000       # numbers of an array whose text is compared
MOST_VALUES = 40        # of a file that is not made for this test
MANY = ("records_", "tensors_1500", "tensors_of_every_size", "fake_cuda_checkpoint")
# The rule for the exponent depends on the dtype since this numpy.
VERSION = tuple(int(part) for part in torch.__version__.split(".")[:2])
NEWEST = np.array2string(np.array([2e6], dtype="f4")) == "[2.e+06]"


# ---- what numpy sees ----

def named(*names):
    return [getattr(torch, name) for name in names if hasattr(torch, name)]


WIDENED = named("bfloat16", "float8_e5m2", "float8_e4m3fn", "float8_e5m2fnuz", "float8_e4m3fnuz", "float8_e8m0fnu")
HALVES = named("complex32", "bcomplex32")
BYTES = named("bits8", "bits1x8", "bits2x4", "bits4x2", "float4_e2m1fn_x2")
SHORTS = named("bits16")


def to_numpy(tensor):
    tensor = tensor.detach()
    tensor = getattr(tensor, "_local_tensor", tensor)
    if tensor.is_quantized:
        tensor = tensor.dequantize()
    if tensor.layout != torch.strided:
        tensor = tensor.to_dense()
    if hasattr(tensor, "resolve_conj"):
        tensor = tensor.resolve_conj().resolve_neg()
    if tensor.dtype in WIDENED:
        tensor = tensor.to(torch.float32)
    elif tensor.dtype in HALVES:
        halves = torch.view_as_real(tensor).to(torch.float32)
        tensor = torch.view_as_complex(halves.contiguous())
    elif tensor.dtype in BYTES:
        tensor = tensor.view(torch.uint8)
    elif tensor.dtype in SHORTS:
        tensor = tensor.view(torch.uint16)
    return np.asarray(tensor.numpy())


def parts_of(tensor):
    """[(name of the part, tensor)]"""
    if tensor.is_quantized:
        parts = [("int_repr", tensor.int_repr())]
        if "channel" in str(tensor.qscheme()):
            parts += [("scales", tensor.q_per_channel_scales()), ("zero_points", tensor.q_per_channel_zero_points())]
        return parts
    if tensor.layout == torch.sparse_coo:
        return [("indices", tensor._indices()), ("values", tensor._values())]
    layout = str(tensor.layout)
    if layout in ("torch.sparse_csr", "torch.sparse_bsr"):
        return [("crow_indices", tensor.crow_indices()), ("col_indices", tensor.col_indices()),
                ("values", tensor.values())]
    if layout in ("torch.sparse_csc", "torch.sparse_bsc"):
        return [("ccol_indices", tensor.ccol_indices()), ("row_indices", tensor.row_indices()),
                ("values", tensor.values())]
    return []


def has_no_values(tensor):
    uninitialized = getattr(torch.nn.parameter, "UninitializedTensorMixin", ())
    return getattr(tensor, "is_meta", False) or getattr(tensor, "is_nested", False) or isinstance(tensor, uninitialized)


# ---- all values of an object ----

def plain_key(key):
    return type(key) is int or (type(key) is str and set(key) <= ALPHABET)


def walk(value, name, seen):
    """(exact name, value) of all tensors and arrays in plain containers."""
    if isinstance(value, (torch.Tensor, np.ndarray, np.generic)):
        yield name, value
        return
    if id(value) in seen:
        return
    seen.add(id(value))
    if type(value) in (list, tuple):
        for i, item in enumerate(value):
            yield from walk(item, "%s[%d]" % (name, i), seen)
    elif type(value) in (dict, collections.OrderedDict):
        for key, item in value.items():
            if plain_key(key):
                yield from walk(item, "%s[%s]" % (name, json.dumps(key)), seen)


class Writer:
    step, seen = 1, itertools.count()   # of all files together

    def __init__(self, folder, path):
        self.folder, self.path, self.count, self.entries = folder, path, 0, []

    def add(self, name, array, part=None, printed=True):
        if next(Writer.seen) % Writer.step:
            self.count += 1
            return
        entry = {"file": os.path.basename(self.path), "name": name, "part": part}
        os.makedirs(self.path[:-3], exist_ok=True)
        target = "%s/%d.npy" % (self.path[:-3], self.count)
        self.count += 1
        np.save(target, array)
        entry["npy"] = os.path.relpath(target, self.folder)
        if array.size <= MOST_TEXT and NEWEST and printed:
            entry["text"] = np.array2string(array)
        self.entries.append(entry)

    def refuse(self, name):
        if next(Writer.seen) % Writer.step == 0:
            self.entries.append({"file": os.path.basename(self.path), "name": name, "refused": True})

    def add_value(self, name, value):
        if isinstance(value, np.generic):
            value = np.asarray(value)
        if isinstance(value, np.ndarray):
            if value.dtype.kind in "biufc" and value.dtype.itemsize <= 16 and value.dtype.char not in "gG":
                self.add(name, value.astype(value.dtype.newbyteorder("=")))
        elif has_no_values(value):
            self.refuse(name)
        else:
            self.add(name, to_numpy(value), printed=value.layout == torch.strided)      # a sparse one in parts
            for part, tensor in parts_of(value):
                self.add(name, to_numpy(tensor), part)


def describe(folder, path, skipped):
    writer = Writer(folder, path)
    try:
        obj = torch_files.load(path)
    except Exception as error:
        skipped.append("%s: %s" % (os.path.basename(path), str(error).split("\n")[0][:100]))
        return []
    for name, value in walk(obj, "", set()):
        if writer.count > MOST_VALUES and not os.path.basename(path).startswith("cat_"):
            break
        try:
            writer.add_value(name, value)
        except Exception as error:
            skipped.append("%s %s: %s" % (os.path.basename(path), name, str(error).split("\n")[0][:100]))
    return writer.entries


# ---- files ----

# torch leaves numbers without a storage class of their own as they are, and so has them wrong
NEVER_TURNED = ["torch." + name for name in ("uint16", "uint32", "uint64", "complex32", "bcomplex32", "bits16")]


def repacked(source, target, method, byteorder=None):
    with zipfile.ZipFile(source) as before, zipfile.ZipFile(target, "w", method) as after:
        for info in before.infolist():
            data = before.read(info)
            if info.filename.endswith("/byteorder") and byteorder:
                data = byteorder
            after.writestr(info.filename, data)


def may_be_turned(value):
    """Do other numbers make no index of it that torch would follow, and does torch turn them around?"""
    return not isinstance(value, torch.Tensor) or (value.layout == torch.strided and not value.is_quantized and
                                                   str(value.dtype) not in NEVER_TURNED)


def variants(obj, folder, name, protocol):
    """Paths of files that hold OBJ."""
    path = os.path.join(folder, name)
    torch.save(obj, path + ".zip.pt", pickle_protocol=protocol)
    yield path + ".zip.pt"
    try:
        torch.save(obj, path + ".legacy.pt", pickle_protocol=protocol, _use_new_zipfile_serialization=False)
        yield path + ".legacy.pt"
    except Exception:
        pass
    repacked(path + ".zip.pt", path + ".deflated.pt", zipfile.ZIP_DEFLATED)
    yield path + ".deflated.pt"
    with zipfile.ZipFile(path + ".zip.pt") as archive:
        marked = any(info.filename.endswith("/byteorder") for info in archive.infolist())
    if marked and all(may_be_turned(value) for _, value in walk(obj, "", set())):
        repacked(path + ".zip.pt", path + ".big.pt", zipfile.ZIP_STORED, b"big")
        yield path + ".big.pt"


def write_all(folder, describe=describe, step=1):
    """DESCRIBE(folder, path, skipped) -> entries of the manifest, for every STEPth file."""
    import cat_objects  # noqa: F401
    import fake_cuda
    import objects  # noqa: F401
    import registry

    fake_cuda.install()
    entries, skipped, files, seen = [], [], 0, itertools.count()
    os.makedirs(folder)
    for entry in registry.ITEMS.values():
        fake_cuda.clear()
        torch.manual_seed(0)
        try:
            if registry.why_not(entry) or entry.name.startswith(MANY):
                continue
            obj = entry.build()
            if not any(True for _ in walk(obj, "", set())):
                continue
            for path in variants(obj, folder, entry.name, entry.protocol):
                if next(seen) % step:
                    continue
                found = describe(folder, path, skipped)
                entries += found
                files += bool(found)
        except registry.Skip:
            pass
        except Exception as error:
            skipped.append("%s: %s" % (entry.name, str(error).split("\n")[0][:100]))
    with open(os.path.join(folder, "manifest.json"), "w") as stream:
        json.dump(entries, stream)
    for line in skipped:
        print("not compared:", line)
    print("torch version %s, numpy %s: %d arrays in %d files" % (torch.__version__, np.__version__, len(entries), files))


# ---- comparing ----

# torch 1.x gives empty tensors that share a storage the dtype of the first of them, whatever the file says of the others.
FORGETS_EMPTY = torch.__version__.startswith("1.") and re.compile("found_empty_(of_two_types|complex)")


def is_forgotten(file, array, wanted):
    return bool(FORGETS_EMPTY and FORGETS_EMPTY.match(file) and array.shape == wanted.shape and not wanted.size)


def difference(wanted, found, before_1_13=False):
    """NaN of any kind counts as equal where a number went through another dtype; all else bit by bit."""
    wanted, found = np.load(wanted), np.load(found)
    if wanted.dtype != found.dtype or wanted.shape != found.shape:
        return "%s %s wanted, %s %s found" % (wanted.dtype, wanted.shape, found.dtype, found.shape)
    if np.ascontiguousarray(wanted).tobytes() == np.ascontiguousarray(found).tobytes():
        return ""
    if wanted.dtype.kind in "fc" and np.array_equal(wanted, found, equal_nan=True):
        same_sign = np.signbit(wanted.real) == np.signbit(found.real)
        if np.all(same_sign | np.isnan(wanted)):
            return ""
    if before_1_13 and np.allclose(wanted, found, rtol=3e-7, atol=0):
        return ""
    differ = (wanted != found) | (np.signbit(wanted.real) != np.signbit(found.real)) if wanted.dtype.kind in "fc" else wanted != found
    at = np.flatnonzero(differ.ravel())
    return "%d of %d differ%s" % (len(at), wanted.size, ", the first: %r wanted, %r found" % (
        wanted.ravel()[at[0]], found.ravel()[at[0]]) if len(at) else "")


def compare_all(listed, result):
    with open(listed) as stream:
        pairs = json.load(stream)
    wrong = []
    for what, wanted, found in pairs:
        try:
            # older ones multiply by the scale of a quantized tensor as a double
            text = "" if is_forgotten(what, np.load(found), np.load(wanted)) else difference(wanted, found, "quanti" in what and VERSION < (1, 13))
        except Exception as error:
            text = str(error)
        if text:
            wrong.append("%s: %s" % (what, text))
    with open(result, "w") as stream:
        json.dump(wrong, stream)


def main():
    if "--compare" in sys.argv:
        compare_all(*sys.argv[-2:])
    else:
        Writer.step = int(sys.argv[2]) if len(sys.argv) > 2 else 1
        write_all(sys.argv[1])


if __name__ == "__main__":
    try:
        main()
    except Exception:
        traceback.print_exc()
        sys.stdout.flush()
        os._exit(1)
    sys.stdout.flush()
    os._exit(0)

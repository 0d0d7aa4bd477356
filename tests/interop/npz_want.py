# SPDX-License-Identifier: Apache-2.0
"""Files of real torch, and the arrays that torch makes of their tensors with .numpy(). npz_want.py OUTDIR STEP

As cat_want.py; OUTDIR/manifest.json has {"file", "arrays": {name: .npy}, "refused": names of tensors that have no .numpy(), "exact"}. With
"exact", a file is a flat dict, and OUTDIR/FILE.npz what numpy.savez() writes of it.
npz_want.py OUTDIR --compare LIST RESULT: LIST has [file of numpy or folder of such, entry of the manifest]; RESULT gets what is wrong.
"""
import json
import os
import re
import sys
import urllib.parse
import warnings
import zipfile

warnings.simplefilter("ignore")

import numpy as np  # noqa: E402
import torch  # noqa: E402

import cat_want  # noqa: E402
import torch_files  # noqa: E402

STEP = re.compile(r'\["((?:[^"\\]|\\.)*)"\]|\[(\d+)\]')
# The bytes of numpy.savez() depend on the releases of numpy (spaces in a header) and of Python (sizes in a header).
SAME_BYTES = (tuple(int(part) for part in np.__version__.split(".")[:2]) >= (1, 25) and sys.version_info >= (3, 11, 4))


def dotted(name):
    """'["a"][0]' -> 'a.0'"""
    return ".".join(key or position for key, position in STEP.findall(name)) or "arr_0"


def to_numpy(value):
    """None: torch makes no array of it."""
    if isinstance(value, (np.ndarray, np.generic)):
        if isinstance(value, np.ma.MaskedArray):
            return None
        value = np.asarray(value)
        if value.dtype.kind not in "biufc" or value.dtype.char in "gG":
            return None
        return value.astype(value.dtype.newbyteorder("="))
    if cat_want.has_no_values(value) or value.is_quantized or hasattr(value, "_local_tensor"):
        return None
    value = value.detach()
    if value.layout != torch.strided:
        value = value.to_dense()
    if hasattr(value, "resolve_conj"):
        value = value.resolve_conj().resolve_neg()
    try:
        return value.cpu().numpy()
    except TypeError:       # no such dtype
        return None


def describe(folder, path, skipped):
    name = os.path.basename(path)
    try:
        obj = torch_files.load(path)
        found = [(dotted(exact), to_numpy(value)) for exact, value in cat_want.walk(obj, "", set())]
    except Exception as error:
        skipped.append("%s: %s" % (name, str(error).split("\n")[0][:100]))
        return []
    arrays = {}
    os.makedirs(path[:-3], exist_ok=True)
    for i, (key, array) in enumerate(found):
        if array is not None:
            arrays[key] = os.path.join(name[:-3], "%d.npy" % i)
            np.save(os.path.join(folder, arrays[key]), array)
    refused = [key for key, array in found if array is None]
    flat = (type(obj) is dict and len(obj) == len(found) and
            all(isinstance(value, (torch.Tensor, np.ndarray, np.generic)) for value in obj.values()))
    exact = flat and not refused and SAME_BYTES and all(array.flags.c_contiguous for _, array in found)
    if exact:
        np.savez(path[:-3] + ".npz", **dict(found))
    return [{"file": name, "arrays": arrays, "refused": refused, "exact": exact, "flat": flat,
             "clash": len(set(key for key, _ in found)) < len(found)}]


# ---- comparing ----

class Folder:
    """A folder of .npy files, as numpy.load() shows an archive of them."""
    def __init__(self, path):
        self.paths = {urllib.parse.unquote(name)[:-4]: os.path.join(path, name) for name in os.listdir(path)}
        self.files = list(self.paths)

    def __getitem__(self, name):
        return np.load(self.paths[name], allow_pickle=False)


def compare(folder, path, entry):
    if os.path.isdir(path):
        found = Folder(path)
    else:
        found = np.load(path, allow_pickle=False)
        damaged = zipfile.ZipFile(path).testzip()
        if damaged:
            yield "%s: %s is damaged" % (entry["file"], damaged)
    if entry["flat"] and sorted(found.files) != sorted(entry["arrays"]):
        yield "%s: has %s, wanted %s" % (entry["file"], sorted(found.files), sorted(entry["arrays"]))
    for key, name in entry["arrays"].items():
        wanted = np.load(os.path.join(folder, name))
        if key not in found.files:
            yield "%s: no %s" % (entry["file"], key)
            continue
        array = found[key]
        if cat_want.is_forgotten(entry["file"], array, wanted):
            continue
        if array.dtype != wanted.dtype or array.shape != wanted.shape or array.tobytes() != wanted.tobytes():
            yield "%s: %s is %s %s, wanted %s %s, or the numbers are not the same" % (
                entry["file"], key, array.dtype, array.shape, wanted.dtype, wanted.shape)
    for key in entry["refused"]:
        if key in found.files:
            yield "%s: has %s, of which torch makes no array" % (entry["file"], key)


def compare_all(folder, listed, result):
    with open(listed) as stream:
        pairs = json.load(stream)
    with open(result, "w") as stream:
        json.dump([text for path, entry in pairs for text in compare(folder, path, entry)], stream)


if __name__ == "__main__":
    if "--compare" in sys.argv:
        compare_all(sys.argv[1], *sys.argv[3:])
    else:
        cat_want.write_all(sys.argv[1], describe, int(sys.argv[2]))

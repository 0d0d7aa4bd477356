# SPDX-License-Identifier: Apache-2.0
"""Are the objects in pairs of files equal, whatever they share? dcp_compare.py LIST RESULT, or dcp_compare.py WANTED FOUND

LIST has lines WANTED<tab>FOUND; FOUND may also be a directory, which dcp_to_torch_save then converts. RESULT
gets a line `ok` or `bad` for each, with FOUND and, for `bad`, what is wrong, and at the end `done`. Equal means:
the same nesting, types and order of keys, and tensors with the same dtype, shape, strides and bits.
"""

import contextlib
import io
import os
import sys
import tempfile
import warnings

warnings.simplefilter("ignore")

import torch  # noqa: E402

import compare  # noqa: E402
import torch_files  # noqa: E402

BITS = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}


class Comparer(compare.Comparer):
    """Like the strict one, but what is shared may differ, and only the bytes that a tensor shows count."""

    def check_sharing(self, left, right, where):
        pass

    def strided(self, left, right, where):
        for name in ("size", "stride", "is_conj", "is_neg"):
            one, other = getattr(left, name)(), getattr(right, name)()
            compare.require(one == other, "%s.%s()" % (where, name), "%s, %s", one, other)
        if not left.is_quantized:
            compare.require(same_bits(left, right), where, "contents differ")

    def storage(self, left, right, where):
        compare.require(bytes(left.untyped()) == bytes(right.untyped()), where, "contents differ")


def bits_of(tensor):
    """The elements in order as integers, so that NaN equals itself and -0.0 differs from 0.0."""
    tensor = tensor.detach()
    if tensor.is_conj() or tensor.is_neg():
        tensor = tensor.resolve_conj().resolve_neg()
    tensor = tensor.contiguous()
    size = tensor.element_size()
    flat = torch.empty(0, dtype=torch.uint8).set_(tensor.untyped_storage(), tensor.storage_offset() * size,
                                                  (tensor.numel() * size,), (1,))
    return flat.clone().view(BITS.get(size, torch.uint8)) if size in BITS else flat.clone()


def same_bits(left, right):
    return torch.equal(bits_of(left), bits_of(right))


def describe(error):
    lines = [line for line in str(error).split("\n") if line.strip()] or [""]
    return "%s: %s" % (type(error).__name__, " | ".join(dict.fromkeys(lines[:1] + lines[-1:]))[:300])


def load(path):
    if not os.path.isdir(path):
        return torch_files.load(path)
    from torch.distributed.checkpoint import format_utils
    with tempfile.TemporaryDirectory(dir=".") as folder, contextlib.redirect_stdout(io.StringIO()):
        format_utils.dcp_to_torch_save(path, os.path.join(folder, "x.pt"))
        return torch_files.load(os.path.join(folder, "x.pt"))


def difference(wanted, found):
    """What differs, or an empty text."""
    try:
        Comparer().compare(load(wanted), load(found), "object")
    except BaseException as error:
        return describe(error)
    return ""


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    torch.set_num_threads(1)
    if sys.argv[1].endswith(".pt"):
        text = difference(sys.argv[1], sys.argv[2])
        print(text or "equal")
        sys.exit(1 if text else 0)
    with open(sys.argv[1], encoding="utf-8") as pairs, open(sys.argv[2], "w", encoding="utf-8") as result:
        for line in pairs:
            wanted, found = line.rstrip("\n").split("\t")
            text = difference(wanted, found)
            result.write("%s\t%s\t%s\n" % ("bad" if text else "ok", found, text))
            result.flush()
        result.write("done\t\t\n")


if __name__ == "__main__":
    with torch_files.clean_exit():
        main()

# SPDX-License-Identifier: Apache-2.0
"""Two files of one cast: do they differ in more than what torch itself changed since? cast_common.py WANTED FOUND DTYPE

Prints the differences. Torch up to 2.0 made other bits of a NaN in float16, torch up to 2.6 a NaN of what is too
large for float8_e4m3fn.
"""

import sys

import torch

import torch_files

BITS = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}
VERSION = tuple(int(part) for part in torch.__version__.split(".")[:2])


def bits_of(tensor):
    return tensor.contiguous().view(BITS[tensor.element_size()])


def excused(wanted, found, dtype):
    """Where a difference is known: a mask."""
    if dtype == "float16" and VERSION < (2, 1):
        return torch.isnan(wanted) & torch.isnan(found)
    if dtype == "float8_e4m3fn" and VERSION < (2, 14):
        codes, theirs = bits_of(found), bits_of(wanted)
        return ((codes & 0x7F) == 0x7E) & ((theirs & 0x7F) == 0x7F) & ((codes ^ theirs) < 0x80)
    return torch.zeros(wanted.shape, dtype=torch.bool)


def main():
    wanted, found = (torch_files.load(path) for path in sys.argv[1:3])
    for name, tensor in wanted.items() if isinstance(wanted, dict) else ():
        if not isinstance(tensor, torch.Tensor):
            continue
        if tensor.dtype != found[name].dtype or tensor.shape != found[name].shape:
            print("%s: %s %s wanted, %s %s found" % (name, tensor.dtype, tuple(tensor.shape),
                                                     found[name].dtype, tuple(found[name].shape)))
            continue
        differ = (bits_of(tensor) != bits_of(found[name])) & ~excused(tensor, found[name], sys.argv[3])
        if differ.any():
            at = int(differ.flatten().nonzero()[0])
            print("%s: %d of %d differ, the first at %d: 0x%x wanted, 0x%x found" % (
                name, int(differ.sum()), differ.numel(), at,
                int(bits_of(tensor).flatten()[at]) & (1 << 8 * tensor.element_size()) - 1,
                int(bits_of(found[name]).flatten()[at]) & (1 << 8 * tensor.element_size()) - 1))
    if not any(excused(tensor, found[name], sys.argv[3]).any() for name, tensor in wanted.items()
               if isinstance(tensor, torch.Tensor)):
        print("the files differ")


if __name__ == "__main__":
    main()

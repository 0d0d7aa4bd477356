# SPDX-License-Identifier: Apache-2.0
"""Make one checkpoint to measure with, every key with 'module.':

    generate.py big OUT BYTES TENSORS     BYTES in all, in TENSORS float32 matrices
    generate.py bfloat16 OUT BYTES TENSORS  the same in bfloat16
    generate.py changed OUT BYTES TENSORS  as big, with other numbers in every tensor
    generate.py small OUT TENSORS         tensors of 1 to 64 elements, each with its own storage
    generate.py storages OUT COUNT BYTES  COUNT storages of BYTES each
    generate.py legacy OUT BYTES TENSORS  as big, in the form of torch up to 1.5
    generate.py sparse OUT BYTES TENSORS  as big, but all holes: takes no disk (torch 2.6 and later)
    generate.py many OUT BYTES TENSORS COUNT  COUNT files as big in the folder OUT

Runs on any torch since 1.6. OUT appears when it is complete.
"""
import collections
import os
import shutil
import sys

import torch


def big(nbytes, count):
    columns = 1024
    rows = max(1, nbytes // count // 4 // columns)
    torch.manual_seed(1)
    noise = torch.randn(rows, columns)
    parts = ("attn.qkv.weight", "attn.proj.weight", "mlp.up.weight", "mlp.down.weight")
    for i in range(count):
        yield "module.layers.%d.%s" % (i // 4, parts[i % 4]), noise + i


def bfloat16(nbytes, count):
    for name, tensor in big(2 * nbytes, count):
        yield name, tensor.to(torch.bfloat16)


def changed(nbytes, count):
    for name, tensor in big(nbytes, count):
        yield name, tensor * 1.001


def small(count):
    dtypes = (torch.float32, torch.float32, torch.float16, torch.int64)
    for i in range(count):
        shape = (i % 8 + 1,) if i % 3 else (i % 8 + 1, 8)
        part = ("weight", "bias", "running_mean", "num")[i % 4]
        yield "module.encoder.layers.%d.%s" % (i // 4, part), torch.full(shape, i % 100, dtype=dtypes[i % 4])


def storages(count, nbytes):
    torch.manual_seed(1)
    noise = torch.randn(max(1, nbytes // 4))
    for i in range(count):
        yield "module.table.%d.weight" % i, noise + i


def sparse(nbytes, count):
    """Tensors over a file that is one hole."""
    numel = nbytes // count // 4
    with open("hole", "wb") as file:
        file.truncate(4 * numel)
    for i in range(count):
        yield "module.layers.%d.weight" % i, torch.from_file("hole", shared=True, size=numel)
    os.unlink("hole")


def many(out, nbytes, tensors, count):
    """Files that differ in their numbers."""
    part = "part-of-" + out
    shutil.rmtree(part, ignore_errors=True)
    os.makedirs(part)
    for i in range(count):
        state = collections.OrderedDict((name, tensor + i) for name, tensor in big(nbytes, tensors))
        torch.save({"state_dict": state, "epoch": i, "lr": 0.1}, os.path.join(part, "%04d.pt" % i))
    os.rename(part, out)


def main():
    kind, out, sizes = sys.argv[1], sys.argv[2], [int(word) for word in sys.argv[3:]]
    if kind == "many":
        many(out, *sizes)
        return
    # In a folder of its own: the file's name becomes part of the file, so it must be the last one.
    os.makedirs("part", exist_ok=True)
    part = os.path.join("part", out)
    make = {"big": big, "bfloat16": bfloat16, "changed": changed, "legacy": big, "small": small, "storages": storages,
            "sparse": sparse}[kind]
    state = collections.OrderedDict(make(*sizes))
    if kind == "sparse":
        with torch.serialization.skip_data():
            torch.save(state, part)
    else:
        torch.save(state, part, _use_new_zipfile_serialization=kind != "legacy")
    os.replace(part, out)
    os.rmdir("part")


main()

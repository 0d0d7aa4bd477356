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
    generate.py zero2 OUT BYTES TENSORS RANKS  as big, as DeepSpeed leaves it in the folder OUT: ZeRO stage 2, no moments
    generate.py zero3 OUT BYTES TENSORS RANKS  the same in stage 3

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


def zero_states(stage, shapes, ranks):
    """What DeepSpeed calls model states, of one rank."""
    module = collections.OrderedDict((name, torch.empty(0, dtype=torch.float16)) for name in shapes)
    return {"module": module, "buffer_names": [], "param_shapes": [shapes], "shared_params": {}, "ds_version": "0.15.4",
            "dp_world_size": ranks, "mp_world_size": 1}


def zero(out, nbytes, count, ranks, stage):
    """Stage 2 cuts one long vector, stage 3 every parameter; here all of them can be cut in equal parts."""
    part = "part-of-" + out
    shutil.rmtree(part, ignore_errors=True)
    os.makedirs(part + "/global_step1")
    noise = next(iter(big(nbytes, count)))[1]
    shapes = collections.OrderedDict((name[len("module."):], noise.shape) for name, _ in big(nbytes, count))
    share, each = noise.numel() // ranks, count // ranks
    for rank in range(ranks):
        if stage == 3:
            own = noise.reshape(-1)[rank * share:(rank + 1) * share]
            groups = [torch.cat([own + i for i in range(first, first + 16)]) for first in range(0, count, 16)]
            weights = {"fp32_flat_groups": groups, "partition_count": ranks}
        else:
            vector = torch.cat([noise.reshape(-1) + i for i in range(rank * each, (rank + 1) * each)])
            weights = {"single_partition_of_fp32_groups": [vector], "partition_count": [ranks]}
        state = {"optimizer_state_dict": dict(weights, zero_stage=stage), "ds_version": "0.15.4"}
        torch.save(state, part + "/global_step1/zero_pp_rank_%d_mp_rank_00_optim_states.pt" % rank)
        name = "zero_pp_rank_%d_mp_rank_00_model_states.pt" % rank if stage == 3 else "mp_rank_00_model_states.pt"
        torch.save(zero_states(stage, shapes, ranks), part + "/global_step1/" + name)
    with open(part + "/latest", "w") as file:
        file.write("global_step1")
    os.rename(part, out)


def main():
    kind, out, sizes = sys.argv[1], sys.argv[2], [int(word) for word in sys.argv[3:]]
    if kind == "many":
        many(out, *sizes)
        return
    if kind in ("zero2", "zero3"):
        zero(out, *sizes, int(kind[-1]))
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

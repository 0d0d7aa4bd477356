# SPDX-License-Identifier: Apache-2.0
"""What DCP of torch 2.9 and later writes as safetensors, for hf_sets.py.

    hf_dcp_save.py FOLDER               one, two: one process; dist, dist2: four, each its own files; rows: four, of what has rows;
                                        generic, mixed: with `.metadata`; cons: with torch's own consolidation, which knows
                                        floating tensors only. whole.pt, part.pt, rows.pt: the state dicts
    hf_dcp_save.py FOLDER load NAME...  is what torch reads in each of the folders that of whole.pt?
"""

import os
import sys
import warnings

warnings.simplefilter("ignore")
sys.path.insert(0, os.path.join(os.getcwd(), "packages"))

import torch  # noqa: E402
import torch.distributed as dist  # noqa: E402
import torch.distributed.checkpoint as dcp  # noqa: E402
import torch.multiprocessing as multiprocessing  # noqa: E402
from torch.distributed.checkpoint import HuggingFaceStorageReader, HuggingFaceStorageWriter  # noqa: E402
from torch.distributed.checkpoint.filesystem import FileSystemWriter, SerializationFormat  # noqa: E402
from torch.distributed.device_mesh import init_device_mesh  # noqa: E402
from torch.distributed.tensor import DTensor, Replicate, Shard  # noqa: E402
from torch.distributed.tensor._utils import compute_local_shape_and_global_offset  # noqa: E402

WORLD = 4
PART = ("a.weight", "d.bf16", "rep", "f")
PLACEMENTS = {"a.weight": [Shard(0), Shard(1)], "b.bias": [Shard(0), Replicate()], "c": [Shard(0), Shard(0)],
              "d.bf16": [Shard(1), Replicate()], "u8": [Replicate(), Shard(1)]}


def whole():
    generator = torch.Generator().manual_seed(1)
    return {"a.weight": torch.randn(10, 6, generator=generator), "b.bias": torch.arange(7),
            "c": torch.randint(0, 2, (5, 3), generator=generator).bool(),
            "d.bf16": torch.randn(9, 4, generator=generator).bfloat16(), "scalar": torch.tensor(3, dtype=torch.int32),
            "f": torch.tensor(2.5), "u8": torch.arange(12, dtype=torch.uint8).reshape(4, 3),
            "rep": torch.randn(3, generator=generator)}


def with_rows(state):
    return {name: value for name, value in state.items() if value.dim()}


def spread(value, mesh, placements):
    shape, offset = compute_local_shape_and_global_offset(value.shape, mesh, placements)
    local = value[tuple(slice(at, at + size) for at, size in zip(offset, shape))].contiguous()
    return DTensor.from_local(local, mesh, placements, run_check=False, shape=value.shape, stride=value.stride())


def process(rank, folder):
    dist.init_process_group("gloo", init_method="file://" + os.path.abspath(folder) + "/meeting", rank=rank, world_size=WORLD)
    mesh = init_device_mesh("cpu", (2, WORLD // 2))
    state = {name: spread(value, mesh, PLACEMENTS[name]) if name in PLACEMENTS else value for name, value in whole().items()}
    row = init_device_mesh("cpu", (WORLD,))
    rows = {name: spread(value, row, [Shard(0)]) for name, value in with_rows(whole()).items()}
    dcp.save(rows, storage_writer=HuggingFaceStorageWriter(path=folder + "/rows", save_distributed=True))
    files = {name: 1 + i % 2 for i, name in enumerate(state)}
    dcp.save(state, storage_writer=HuggingFaceStorageWriter(path=folder + "/dist", save_distributed=True))
    dcp.save(state, storage_writer=HuggingFaceStorageWriter(path=folder + "/dist2", save_distributed=True,
                                                            fqn_to_index_mapping=files))
    for name, more in (("generic", {}), ("mixed", {"epoch": 7, "name": "hello"})):
        dcp.save({**state, **more}, storage_writer=FileSystemWriter(
            folder + "/" + name, serialization_format=SerializationFormat.SAFETENSORS))
    dcp.save({name: state[name] for name in PART},
             storage_writer=HuggingFaceStorageWriter(path=folder + "/cons", save_distributed=True, enable_consolidation=True))
    dist.barrier()
    dist.destroy_process_group()


def main(folder):
    os.makedirs(folder)
    state = whole()
    torch.save(state, folder + "/whole.pt")
    torch.save({name: state[name] for name in PART}, folder + "/part.pt")
    torch.save(with_rows(state), folder + "/rows.pt")
    dcp.save(state, storage_writer=HuggingFaceStorageWriter(path=folder + "/one"), no_dist=True)
    dcp.save(state, storage_writer=HuggingFaceStorageWriter(
        path=folder + "/two", fqn_to_index_mapping={name: 1 + i % 2 for i, name in enumerate(state)}), no_dist=True)
    multiprocessing.spawn(process, args=(folder,), nprocs=WORLD)
    print("saved by torch", torch.__version__)


def load(folder, names):
    wanted = torch.load(folder + "/whole.pt", weights_only=True)
    for name in names:
        state = {key: torch.full_like(value, 1) for key, value in wanted.items()}
        dcp.load(state, storage_reader=HuggingFaceStorageReader(path=os.path.join(folder, name)), no_dist=True)
        wrong = [key for key in wanted if not torch.equal(state[key], wanted[key])]
        print("%s %s %s" % ("DIFFERENT" if wrong else "EQUAL", name, " ".join(wrong)))


if __name__ == "__main__":
    if sys.argv[2:3] == ["load"]:
        load(sys.argv[1], sys.argv[3:])
    else:
        main(sys.argv[1])

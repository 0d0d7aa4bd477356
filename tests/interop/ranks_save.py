# SPDX-License-Identifier: Apache-2.0
"""Files that every rank saves for itself with torch.save, with DTensors in them, and what they make together.

    python3 ranks_save.py FOLDER

Run by a torch of 2.6 or later. FOLDER gets one folder per mesh with model_world_size_N_rank_R.pt, an optimizer's set
beside it, and whole.pt: the same state with whole tensors.
"""

import datetime
import multiprocessing
import os
import sys

import torch
import torch.distributed as dist
from torch.distributed.tensor import Replicate, Shard, distribute_tensor, init_device_mesh

MESHES = {"one": (1,), "three": (3,), "four": (4,), "replicated": (2, 2), "grid": (2, 2), "cube": (2, 2, 2)}
PLACEMENTS = {
    "one": [[Shard(0)], [Shard(1)], [Replicate()]],
    "three": [[Shard(0)], [Shard(1)], [Replicate()]],
    "four": [[Shard(0)], [Shard(1)], [Replicate()]],
    "replicated": [[Replicate(), Shard(0)], [Replicate(), Shard(1)], [Shard(0), Replicate()]],
    "grid": [[Shard(0), Shard(1)], [Shard(1), Shard(0)], [Shard(0), Shard(0)]],
    "cube": [[Replicate(), Shard(0), Shard(1)], [Shard(0), Shard(0), Replicate()], [Shard(1), Replicate(), Shard(0)]],
}
SHAPES = [(10, 4), (7, 3), (8, 8), (3, 5, 2), (2, 2)]
DTYPES = [torch.float32, torch.float64, torch.int64]


def whole_state(mesh):
    state = {}
    for n, placements in enumerate(PLACEMENTS[mesh]):
        for shape in SHAPES:
            for dtype in DTYPES:
                size = 1
                for length in shape:
                    size *= length
                name = "layer%d.%s.%s" % (n, "x".join(map(str, shape)), str(dtype)[6:])
                state[name] = (torch.arange(size).reshape(shape).to(dtype) + n, placements)
    return state


def sharded_rows(tensor, rows, rank):
    """A ShardedTensor, as FSDP1 makes them, of which every rank has some rows."""
    from torch.distributed._shard.metadata import ShardMetadata
    from torch.distributed._shard.sharded_tensor import Shard as LocalShard, init_from_local_shards
    metadata = ShardMetadata([rows[rank], 0], [rows[rank + 1] - rows[rank], tensor.shape[1]], "rank:%d/cpu" % rank)
    local = LocalShard(tensor[rows[rank]:rows[rank + 1]].clone(), metadata)
    return init_from_local_shards([local], *tensor.shape)


def process(mesh, rank, world, meeting, folder):
    dist.init_process_group("gloo", init_method="file://" + meeting, rank=rank, world_size=world,
                            timeout=datetime.timedelta(seconds=60))
    torch.manual_seed(1)
    device_mesh = init_device_mesh("cpu", MESHES[mesh])
    state = {name: distribute_tensor(tensor, device_mesh, placements)
             for name, (tensor, placements) in whole_state(mesh).items()}
    whole = {name: tensor for name, (tensor, _) in whole_state(mesh).items()}
    if mesh in ("one", "three", "four"):
        whole["sharded"] = torch.arange(30.).reshape(10, 3)
        rows = [10 * n // world for n in range(world + 1)]
        state["sharded"] = sharded_rows(whole["sharded"], rows, rank)
    for part in (state, whole):
        part["buffer"] = torch.ones(3)
        part["step"] = 5
    tied = next(iter(whole))
    state["tied"], whole["tied"] = state[tied], whole[tied]
    torch.save(state, os.path.join(folder, "model_world_size_%d_rank_%d.pt" % (world, rank)))
    torch.save({"lr": 0.1}, os.path.join(folder, "optim_world_size_%d_rank_%d.pt" % (world, rank)))
    if rank == 0:
        torch.save(whole, os.path.join(folder, "whole.pt"))
    dist.barrier()
    sys.stdout.flush()
    os._exit(0)     # taking the process group down may hang


def main():
    import torch.distributed._shard.sharded_tensor  # noqa: F401 once for all ranks
    context = multiprocessing.get_context("fork")   # 24 ranks in all, each of which would import torch
    torch.set_num_threads(1)
    for mesh, shape in MESHES.items():
        folder = os.path.join(os.path.abspath(sys.argv[1]), mesh)
        os.makedirs(folder)
        world = 1
        for length in shape:
            world *= length
        ranks = [context.Process(target=process, args=(mesh, rank, world, folder + "/meeting", folder)) for rank in range(world)]
        for rank in ranks:
            rank.start()
        for rank in ranks:
            rank.join(120)
        if any(rank.exitcode != 0 for rank in ranks):
            raise SystemExit("a rank of mesh %s failed" % mesh)
    print("saved")


if __name__ == "__main__":
    main()

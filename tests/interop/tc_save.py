# SPDX-License-Identifier: Apache-2.0
"""Directories that the package torch_checkpointing writes, and what they make together.

    python3 tc_save.py FOLDER

Run by a torch of 2.6 or later; the package may lie beside this file. FOLDER gets one folder per mesh with the
checkpoint in it, `save`, the same with metadata of version 1.0, `save1`, and whole.pt: the same state with whole
tensors. Prints "no package" if there is none.
"""

import datetime
import os
import pickle
import shutil
import subprocess
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

try:
    import torch_checkpointing
except ImportError:
    print("no package")
    sys.exit(0)

import torch
import torch.distributed as dist
from torch.distributed.tensor import DTensor, Replicate, Shard, distribute_tensor, init_device_mesh
from torch.distributed.tensor.placement_types import _StridedShard
from torch_checkpointing import CheckpointManager, ItemSpec
from torch_checkpointing.checkpoint_layout import LayoutInfo, TorchSerialization
from torch_checkpointing.config import SyncCheckpointSaverConfig
from torch_checkpointing.default_metadata import DefaultShardingMetadata
from torch_checkpointing.default_resharder import DefaultResharder
from torch_checkpointing.distributed_metadata import DistributedMetadata
from torch_checkpointing.metadata_manager import DefaultMetadataManager
from torch_checkpointing.storage.filesystem import LocalFileSystemStorageConfig

MESHES = {"one": (1,), "two": (2,), "four": (4,), "replicated": (2, 2), "grid": (2, 2)}
LINE = [[Shard(0)], [Shard(1)], [Replicate()]]
PLACEMENTS = {
    "one": LINE, "two": LINE, "four": LINE,
    "replicated": [[Replicate(), Shard(0)], [Replicate(), Shard(1)], [Shard(0), Replicate()], [Replicate()] * 2],
    "grid": [[Shard(0), Shard(1)], [Shard(1), Shard(0)], [Shard(0), Shard(0)]],
}
SHAPES = [(10, 4), (7, 3), (8, 8), (3, 5, 2), (2, 2)]
DTYPES = [torch.float32, torch.bfloat16, torch.int64]


class Boxes(DefaultResharder):
    """Local tensors whose place is told by themselves: default_tensor_v1."""

    def extract_sharding_metadata(self, item_key, item_value):
        return {(name,): DefaultShardingMetadata(dtype=str(tensor.dtype), **self.places[name])
                for name, tensor in item_value.items()}


def numbers(shape, dtype, start):
    size = 1
    for length in shape:
        size *= length
    return ((torch.arange(size) * 7 + start) % 251).reshape(shape).to(dtype)


def spread_out(tensor, device_mesh, placements):
    """distribute_tensor() where gloo does not know the dtype."""
    return distribute_tensor(tensor.double(), device_mesh, placements).to(tensor.dtype)


def make_model(mesh, device_mesh):
    """The parts, and the wholes."""
    part, whole = {}, {}
    for at, placements in enumerate(PLACEMENTS[mesh]):
        for shape in SHAPES:
            for dtype in DTYPES:
                name = "layer%d.%s.%s" % (at, "x".join(map(str, shape)), str(dtype)[6:])
                whole[name] = numbers(shape, dtype, at)
                part[name] = spread_out(whole[name], device_mesh, placements)
    if mesh == "grid":      # FSDP2 over tensor parallelism
        whole["strided"] = numbers((8, 6), torch.float32, 5)
        part["strided"] = distribute_tensor(whole["strided"], device_mesh, [_StridedShard(0, split_factor=2), Shard(0)])
    first = next(iter(whole))
    whole["tied"], part["tied"] = whole[first], part[first]
    whole["view"] = whole[first].detach()
    part["view"] = DTensor.from_local(part[first].to_local().detach(), device_mesh, part[first].placements,
                                      shape=part[first].shape, stride=part[first].stride())
    whole["buffer"] = part["buffer"] = torch.arange(6.).reshape(2, 3).t()
    return part, whole


def make_state(mesh, rank, world):
    device_mesh = init_device_mesh("cpu", MESHES[mesh])
    spread = PLACEMENTS[mesh][0]
    model, whole_model = make_model(mesh, device_mesh)
    moments = [numbers((9, 4), torch.float32, at) for at in range(2)]
    groups = [{"lr": 0.1, "betas": (0.9, 0.99), "params": [0, 1]}]
    optimizer = {"state": {at: {"step": torch.tensor(3.), "exp_avg": distribute_tensor(moment, device_mesh, spread)}
                           for at, moment in enumerate(moments)}, "param_groups": groups}
    whole_optimizer = {"state": {at: {"step": torch.tensor(3.), "exp_avg": moment}
                                 for at, moment in enumerate(moments)}, "param_groups": groups}
    state = {"model": model, "optimizer": optimizer, "step": 7, "trainer": {
        "epoch": 2, "ema": [distribute_tensor(moments[0], device_mesh, spread)], "names": ["a", "b"]}}
    whole = {"model": whole_model, "optimizer": whole_optimizer, "step": 7,
             "trainer": {"epoch": 2, "ema": [moments[0]], "names": ["a", "b"]}}
    # a stage of a pipeline: what only this rank has
    stages = {"stage%d" % at: numbers((3, 2), torch.float32, at) for at in range(world)}
    state["stages"] = {"stage%d" % rank: stages["stage%d" % rank], "common": 1}
    whole["stages"] = {"stage0": stages["stage0"], "common": 1, **stages}
    rows = numbers((2 * world + 1, 3), torch.float32, 9)
    low, high = 2 * rank, 2 * rank + 2 + (rank == world - 1)
    state["boxes"], whole["boxes"] = {"rows": torch.cat([torch.zeros(1, 3), rows[low:high]])}, {"rows": rows}
    Boxes.places = {"rows": {"global_shape": rows.shape, "global_offsets": [(low, 0)], "local_offsets": [(1, 0)],
                             "local_sizes": [(high - low, 3)]}}
    if rank == world - 1:
        state["last"] = {"only": torch.ones(2)}
    whole["last"] = {"only": torch.ones(2)}
    return state, whole


def items():
    return {"model": ItemSpec(resharder=DefaultResharder()),
            "optimizer": ItemSpec(resharder=DefaultResharder(),
                                  layout=LayoutInfo("optim/rank-{rank}.pt", TorchSerialization())),
            "stages": ItemSpec(resharder=DefaultResharder()), "boxes": ItemSpec(resharder=Boxes())}


def gather(self, data, process_group=None):
    """What the package does on a GPU."""
    world = dist.get_world_size(process_group)
    everything = [None] * world
    dist.all_gather_object(everything, data, group=process_group)
    return dict(enumerate(everything))


def process(mesh, rank, world, meeting, folder):
    dist.init_process_group("gloo", init_method="file://" + meeting, rank=rank, world_size=world,
                            timeout=datetime.timedelta(seconds=60))
    if not torch.cuda.is_available():
        DefaultMetadataManager._all_gather_pickled_data = gather
    state, whole = make_state(mesh, rank, world)
    manager = CheckpointManager(CheckpointManager.Config(
        items=items(), save=SyncCheckpointSaverConfig(),
        storage_config=LocalFileSystemStorageConfig(use_direct_io=False)))      # not every file system has it
    manager.save(folder + "/save", state)
    if rank == 0:
        torch.save(whole, folder + "/whole.pt")
    dist.barrier()
    sys.stdout.flush()
    os._exit(0)     # taking the process group down may hang


def older(data, ranks):
    """Version 1.0 of the same metadata."""
    import json
    flat = {json.dumps([item, *json.loads(path)], separators=(",", ":")): groups
            for item, value in data["metadata"].items() for path, groups in value["nested_path_to_metadata"].items()}
    layouts = {rank: {item: value["rank_to_layout_info"][rank] for item, value in data["metadata"].items()}
               for rank in range(ranks)}
    return {"metadata": flat, "rank_to_layout_info_mappings": layouts, "world_size": data["world_size"],
            "version": "1.0"}


def write_older(folder, ranks):
    shutil.copytree(folder + "/save", folder + "/save1")
    with open(folder + "/save/metadata.pkl", "rb") as stream:
        data = pickle.load(stream)
    old = older(data, ranks)
    assert DistributedMetadata.from_dict(old) == DistributedMetadata.from_dict(data)
    with open(folder + "/save1/metadata.pkl", "wb") as stream:
        pickle.dump(old, stream)


def main():
    if len(sys.argv) > 2:
        mesh, rank, world, meeting, folder = sys.argv[1:]
        process(mesh, int(rank), int(world), meeting, folder)
    for mesh, shape in MESHES.items():
        folder = os.path.join(os.path.abspath(sys.argv[1]), mesh)
        os.makedirs(folder)
        world = 1
        for length in shape:
            world *= length
        ranks = [subprocess.Popen([sys.executable, os.path.abspath(__file__), mesh, str(rank), str(world),
                                   folder + "/meeting", folder]) for rank in range(world)]
        if any(rank.wait(120) for rank in ranks):
            raise SystemExit("a rank of mesh %s failed" % mesh)
        write_older(folder, world)
    print("saved by torch_checkpointing", torch_checkpointing.__version__)


main()

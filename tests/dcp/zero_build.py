# SPDX-License-Identifier: Apache-2.0
"""Makes directories of DeepSpeed without torch: the optimizer's and the model's states of every rank, of known tensors."""

import os

from dcp_build import Call, Global, SIZES, Tensor
from tc_build import View, torch_save

STEP = "global_step10"
ENUM = Global("deepspeed.runtime.zero.config", "ZeroStageEnum")


def size(shape):
    return Call(Global("torch", "Size"), tuple(shape))


def vector(dtype, data):
    return Tensor(dtype, (len(data) // SIZES[dtype],), data)


def filled(data, dtype, to):
    """DATA and zeros, up to a multiple of TO items."""
    to *= SIZES[dtype]
    return data + bytes(-len(data) % to)


def cut(data, world, rank):
    part = len(data) // world
    return data[rank * part:(rank + 1) * part]


def share(tensor, world, rank):
    return vector(tensor.dtype, cut(filled(tensor.data, tensor.dtype, world), world, rank))


class Zero:
    """GROUPS: a dict of tensors each. What ranks have is in MODEL and OPTIM, to be changed before write()."""

    def __init__(self, path, stage, world, groups, buffers=None, frozen=None, shared=None):
        self.path, self.stage, self.world, self.groups = path, stage, world, groups
        self.buffers, self.frozen, self.shared = buffers or {}, frozen or {}, shared or {}
        self.latest = STEP
        self.prefix = ""
        self.optim = [{"optimizer_state_dict": {**self.weights(rank), "zero_stage": Call(ENUM, stage), "partition_count":
                                                world if stage == 3 else [world] * len(groups)},
                       "ds_config": {}, "ds_version": "0.15.4"} for rank in range(world)]
        self.model = [self.states(rank) for rank in range(world if stage == 3 else 1)]

    def weights(self, rank):
        if self.stage == 3:
            flat = [vector("float32", b"".join(share(tensor, self.world, rank).data for tensor in group.values()))
                    for group in self.groups]
            return {"fp32_flat_groups": flat, "optimizer_state_dict": {"state": {}, "param_groups": []}}
        wholes = [b"".join(tensor.data for tensor in group.values()) for group in self.groups]
        parts = []
        for whole in wholes:        # the padding at the end is in the storage, and not in the tensor
            padded = filled(whole, "float32", 2 * self.world)
            part = vector("float32", cut(padded, self.world, rank))
            less = max(part.shape[0] - (len(padded) - len(whole)) // 4, 0)
            short = Tensor("float32", (less,), part.data[:4 * less])
            parts.append(View(short, (1,), 0, part) if rank == self.world - 1 and less < part.shape[0] else part)
        return {"single_partition_of_fp32_groups": parts, "base_optimizer_state": {}, "group_paddings": [0] * len(parts)}

    def states(self, rank):
        names = [name for group in self.groups for name in group] + list(self.frozen)
        module = {name: Tensor("float16", (0,), b"") for name in names}
        if self.stage < 3:
            module = {name: Tensor("float16", (2,), bytes(4)) for name in names}
        module.update(self.buffers)
        fragments = {name: share(tensor, self.world, rank) if self.stage == 3 else tensor
                     for name, tensor in self.frozen.items()}
        return {"module": module, "buffer_names": list(self.buffers),
                "param_shapes": [{name: size(tensor.shape) for name, tensor in group.items()} for group in self.groups],
                "frozen_param_shapes": {name: size(tensor.shape) for name, tensor in self.frozen.items()},
                "frozen_param_fragments": fragments, "shared_params": dict(self.shared) if rank == 0 else {},
                "dp_world_size": self.world, "mp_world_size": 1, "ds_version": "0.15.4"}

    def wanted(self):
        made = dict(self.buffers)
        made.update(self.frozen)
        for group in self.groups:
            made.update(group)
        for alias, source in self.shared.items():
            if source in made:
                made[alias] = made[source]
        return made

    def optim_name(self, rank):
        return "%szero_pp_rank_%d_mp_rank_00_optim_states.pt" % (self.prefix, rank)

    def model_name(self, rank):
        return "zero_pp_rank_%d_mp_rank_00_model_states.pt" % rank if self.stage == 3 else "mp_rank_00_model_states.pt"

    def file(self, name):
        return os.path.join(self.path, STEP, name)

    def write(self):
        os.makedirs(os.path.join(self.path, STEP))
        files = {self.optim_name(rank): value for rank, value in enumerate(self.optim)}
        files.update((self.model_name(rank), value) for rank, value in enumerate(self.model))
        for name, value in files.items():
            with open(self.file(name), "wb") as out:
                out.write(torch_save(value))
        if self.latest is not None:
            with open(os.path.join(self.path, "latest"), "w") as out:
                out.write(self.latest)
        with open(os.path.join(self.path, "zero_to_fp32.py"), "w") as out:
            out.write("raise SystemExit('not the script')\n")
        return self


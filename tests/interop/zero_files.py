# SPDX-License-Identifier: Apache-2.0
"""Directories as DeepSpeed's engine writes them, and what its own zero_to_fp32.py makes of them.

    python3 zero_files.py save FOLDER           a folder per case: the directory `saved`, and wanted.pt
    python3 zero_files.py judge PACKAGE FOLDER  real.pt of every case, by the script of an unpacked deepspeed
    python3 zero_files.py compare FOLDER        merged.pt of every case beside wanted.pt and real.pt

Run by any torch; the script wants 2.1 or later. DeepSpeed itself runs nowhere: the files are cut by its rules (runtime/zero/
stage_1_and_2.py, stage3.py, bf16_optimizer.py, engine.py), out of tensors that are known; its classes are stand-ins.
"""

import collections
import dataclasses
import enum
import functools
import importlib.util
import json
import math
import os
import random
import sys
import types

import torch

ODict = collections.OrderedDict
SHAPES = [(7, 5), (11,), (3, 2, 4), (1,), (), (64, 3), (2, 9), (130,), (5, 1, 5), (16, 16), (33, 7), (8,)]
WORLDS = (1, 2, 3, 8)


# ---- classes that the pickles name ----

def module_of(name, **names):
    module = types.ModuleType(name)
    module.__path__ = []
    for key, value in names.items():
        value.__module__ = name
        setattr(module, key, value)
    sys.modules[name] = module
    parent, _, last = name.rpartition(".")
    if parent:
        setattr(sys.modules[parent], last, module)
    return module


class ZeroStageEnum(int, enum.Enum):
    disabled = 0
    optimizer_states = 1
    gradients = 2
    weights = 3


class LossScaler:
    def __init__(self):
        self.cur_scale, self.dynamic = 65536., True


@dataclasses.dataclass
class fragment_address:
    numel: int
    start: int


class Logger:
    def info(self, *_):
        pass


def install():
    for name in ("deepspeed", "deepspeed.runtime", "deepspeed.runtime.zero", "deepspeed.runtime.fp16", "deepspeed.utils",
                 "deepspeed.checkpoint"):
        module_of(name)
    module_of("deepspeed.runtime.zero.config", ZeroStageEnum=ZeroStageEnum)
    module_of("deepspeed.runtime.fp16.loss_scaler", LossScaler=LossScaler)
    module_of("deepspeed.utils.tensor_fragment", fragment_address=fragment_address)
    sys.modules["deepspeed.utils"].logger = Logger()


# ---- cutting, as the optimizers do ----

def flat(tensors):
    return torch.cat([tensor.reshape(-1) for tensor in tensors]) if tensors else torch.zeros(0)


def aligned(vector, to):
    return torch.cat([vector, vector.new_zeros(-len(vector) % to)])


def cut_in_partitions(group, world, keep_padding, paddings=None):
    """Stages 1 and 2: one vector per group, in equal parts; what was filled up is taken away from the last one again."""
    whole = flat([piece for tensor, padding in zip(group, paddings or [0] * len(group))
                  for piece in (tensor.reshape(-1), tensor.new_zeros(padding))])
    padded = aligned(whole, 2 * world)
    size, lost = len(padded) // world, len(padded) - len(whole)
    parts = [padded[rank * size:(rank + 1) * size].clone() for rank in range(world)]
    return parts if keep_padding else parts[:-1] + [parts[-1][:len(parts[-1]) - lost]]


def share(tensor, world, rank):
    """Stage 3: every parameter in equal parts, the last of them filled up."""
    padded = aligned(tensor.reshape(-1), world)
    size = math.ceil(tensor.numel() / world)
    return padded[rank * size:(rank + 1) * size].clone()


class Case:
    """One checkpoint: parameters in groups, buffers, frozen and shared ones."""

    def __init__(self, stage, world, groups, buffers=(), frozen=(), shared=(), **options):
        self.stage, self.world, self.groups = stage, world, groups
        self.buffers, self.frozen, self.shared = ODict(buffers), ODict(frozen), ODict(shared)
        self.options = options          # bf16, old, paddings, straddle, judges

    def optim(self, rank):
        if self.stage == 3:
            flats = [flat([share(tensor, self.world, rank) for tensor in group.values()]) for group in self.groups]
            if self.options.get("straddle"):
                flats = list(flat(flats).split(self.options["straddle"]))
            weights = {"fp32_flat_groups": flats, "optimizer_state_dict": {"state": {
                at: {"step": 3, "exp_avg": torch.zeros_like(one)} for at, one in enumerate(flats)}, "param_groups": []}}
            count = self.world
        else:
            paddings = self.options.get("paddings")
            weights = {"single_partition_of_fp32_groups": [
                cut_in_partitions(list(group.values()), self.world, self.options.get("bf16"),
                                  paddings and paddings[at])[rank] for at, group in enumerate(self.groups)],
                "base_optimizer_state": {"state": {}, "param_groups": [{"lr": 1e-3, "params": [0]}]},
                "group_paddings": [0] * len(self.groups), "param_slice_mappings": [
                    ODict((name, fragment_address(tensor.numel(), 0)) for name, tensor in group.items())
                    for group in self.groups]}
            count = [self.world] * len(self.groups)
            if paddings:
                weights["param_alignment_paddings"] = paddings
        state = {"loss_scaler": LossScaler(), "overflow": False, **weights, "partition_count": count}
        if not self.options.get("bf16"):
            state["zero_stage"] = ZeroStageEnum(self.stage)
        saved = {"optimizer_state_dict": state, "ds_config": {"zero_optimization": {"stage": self.stage}},
                 "ds_version": "0.15.4"}
        if self.options.get("old"):
            saved["param_shapes"] = self.shapes()
        return saved

    def shapes(self):
        made = [ODict((name, tensor.shape) for name, tensor in group.items()) for group in self.groups]
        return made[0] if self.options.get("old") == "one dict" else made

    def module(self, rank):
        """What the model is in training: 16 bits, and in stage 3 nothing but buffers."""
        half = torch.bfloat16 if self.options.get("bf16") else torch.float16
        names = [(name, tensor) for group in self.groups for name, tensor in group.items()]
        module = ODict()
        for name, tensor in [*names, *self.frozen.items()]:
            module[name] = torch.empty(0, dtype=half) if self.stage == 3 else tensor.to(half)
        for alias, source in self.shared.items():
            module[alias] = module[source]
        module.update(self.buffers)
        order = sorted(module, key=lambda name: hash_of(name))
        return ODict((name, module[name]) for name in order)

    def model(self, rank):
        saved = {"module": self.module(rank), "buffer_names": list(self.buffers), "optimizer": None,
                 "lr_scheduler": None, "global_steps": 7, "dp_world_size": self.world, "mp_world_size": 1,
                 "ds_config": {"train_batch_size": 8}, "ds_version": "0.15.4", "client_state": {"epoch": 1}}
        if not self.options.get("old"):
            fragments = ODict((name, share(tensor, self.world, rank) if self.stage == 3 else tensor)
                              for name, tensor in self.frozen.items())
            saved.update(param_shapes=self.shapes(), shared_params=dict(self.shared) if rank == 0 else {},
                         frozen_param_shapes=ODict((name, tensor.shape) for name, tensor in self.frozen.items()),
                         frozen_param_fragments=fragments)
        return saved

    def wanted(self):
        """The names and tensors in the order of zero_to_fp32.py."""
        made = ODict((name, self.buffers[name].float() if self.buffers[name].is_floating_point() else self.buffers[name])
                     for name in self.module(0) if name in self.buffers)
        made.update(self.frozen)
        for group in self.groups:
            made.update(group)
        made.update((alias, made[source]) for alias, source in self.shared.items())
        return made

    def write(self, folder):
        step = os.path.join(folder, "global_step7")
        os.makedirs(step)
        with open(os.path.join(folder, "latest"), "w") as out:
            out.write("global_step7")
        for rank in range(self.world):
            prefix = "bf16_" if self.options.get("bf16") or self.options.get("prefix") else ""
            torch.save(self.optim(rank), "%s/%szero_pp_rank_%d_mp_rank_00_optim_states.pt" % (step, prefix, rank))
            if self.stage == 3:
                torch.save(self.model(rank), "%s/zero_pp_rank_%d_mp_rank_00_model_states.pt" % (step, rank))
        if self.stage < 3:
            torch.save(self.model(0), "%s/mp_rank_00_model_states.pt" % step)


def hash_of(name):
    return sum((at + 1) * ord(letter) for at, letter in enumerate(name)) % 1009


# ---- the cases ----

def numbers(shape, seed):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def parameters(prefix, count, seed):
    chosen = random.Random(seed)
    return ODict(("%s.%d.weight" % (prefix, at), numbers(chosen.choice(SHAPES), 100 * seed + at)) for at in range(count))


BUFFERS = [("norm.running_mean", torch.randn(6).half()), ("norm.num_batches_tracked", torch.tensor(12)),
           ("mask", torch.ones(4, 4, dtype=torch.bool).tril()), ("rope.inv", torch.rand(3, 5).bfloat16().t()),
           ("scale", torch.rand(2, 3, dtype=torch.float64)), ("table", torch.rand(8, 2)[2:5])]


def cases():
    torch.manual_seed(5)
    seed = 0
    for stage in (1, 2, 3):
        for world in WORLDS:
            for groups in (1, 3):
                seed += 1
                made = [parameters("group%d" % at, 2 + (seed + at) % 6, 10 * seed + at) for at in range(groups)]
                first = next(iter(made[0]))
                frozen = [("frozen.%d" % at, numbers(shape, seed + at).to(dtype)) for at, (shape, dtype) in enumerate(
                    [((4, 7), torch.float32), ((3,), torch.float16), ((9, 2), torch.bfloat16), ((0, 4), torch.float32)])]
                yield "stage%d-world%d-groups%d" % (stage, world, groups), Case(
                    stage, world, made, BUFFERS, frozen if seed % 2 else (), {"head.weight": first}, prefix=seed % 3 == 0)
    for world in WORLDS:
        made = [parameters("a", 5, world), parameters("b", 3, 50 + world)]
        yield "bf16-world%d" % world, Case(1, world, made, BUFFERS, bf16=True)
        yield "straddle-world%d" % world, Case(3, world, made, straddle=17, judges="cat")
        paddings = [[3, 0, 5, 2, 1], [0, 7, 4]]
        yield "paddings-world%d" % world, Case(2, world, made, paddings=paddings, judges="padded")
        for stage in (2, 3):
            yield "old%d-world%d" % (stage, world), Case(stage, world, made, BUFFERS[:1], old="list", judges="old")
    yield "tiny", Case(2, 8, [{"a": numbers((1,), 1)}])
    yield "one-dict2", Case(2, 3, [parameters("a", 4, 7)], old="one dict", judges="none")
    yield "one-dict3", Case(3, 3, [parameters("a", 4, 7), parameters("b", 2, 8)][:1], old="one dict", judges="none")
    yield "same-name", Case(2, 2, [{"x": numbers((4,), 1), "y": numbers((3,), 2)}], [("x", torch.zeros(2))],
                            shared=[("z", "y"), ("w", "no such"), ("x", "y")][:1])
    texts = {"tab\t\u00e9": numbers((2,), 1), "\U0001d4b3.weight": numbers((3,), 2)}
    yield "texts", Case(3, 2, [texts])


def save(folder):
    os.makedirs(folder)
    judges = {}
    for name, case in cases():
        place = os.path.join(folder, name)
        case.write(os.path.join(place, "saved"))
        if case.options.get("bf16"):    # the script wants a stage; the files are those of stage 1 but for that
            told = Case(1, case.world, case.groups, case.buffers.items(), bf16=True)
            told.optim = functools.partial(with_stage, told.optim)
            told.write(os.path.join(place, "judged"))
        wanted = case.wanted()
        torch.save({"items": list(wanted.items()), "ties": ties(wanted)}, os.path.join(place, "wanted.pt"))
        judges[name] = case.options.get("judges", "all")
    with open(os.path.join(folder, "judges.json"), "w") as out:
        json.dump(judges, out)
    print("saved %d cases by torch %s" % (len(judges), torch.__version__))


def with_stage(optim, rank):
    saved = optim(rank)
    saved["optimizer_state_dict"]["zero_stage"] = ZeroStageEnum.optimizer_states
    return saved


def ties(state):
    """Names of one object, by the first of them."""
    first, made = {}, {}
    for name, tensor in state.items():
        if first.setdefault(id(tensor), name) != name:
            made[name] = first[id(tensor)]
    return made


# ---- the real script ----

def load_script(package):
    for name in ("tqdm", "numpy"):
        try:
            __import__(name)
        except ImportError:
            module_of(name)
            sys.modules["tqdm"].tqdm = lambda items, **_: items
            if name == "numpy":
                sys.modules["numpy"].cumsum = lambda items: torch.tensor(items).cumsum(0).tolist()
    for name in ("checkpoint.constants", "utils.zero_to_fp32"):
        path = os.path.join(package, "deepspeed", name.replace(".", "/") + ".py")
        if not os.path.exists(path):
            continue
        spec = importlib.util.spec_from_file_location("deepspeed." + name, path)
        module = importlib.util.module_from_spec(spec)
        sys.modules["deepspeed." + name] = module
        spec.loader.exec_module(module)
    return module


def kind_of(package):
    with open(os.path.join(package, "deepspeed", "utils", "zero_to_fp32.py")) as stream:
        text = stream.read()
    return {"padded": "param_alignment_paddings" in text, "cat": "shared_params" in text and "GatheredTensor" not in text,
            "old": "state_dicts[0][\"param_shapes\"]" in text, "shared": "shared_params" in text,
            "stage1": "zero_stage <= 2" in text}


def judge(package, folder):
    kind = kind_of(package)
    script = load_script(package)
    load = torch.load
    torch.load = lambda *words, **named: load(*words, **{"weights_only": False, **named})
    stdout, sys.stdout = sys.stdout, open(os.devnull, "w")
    judged = 0
    with open(os.path.join(folder, "judges.json")) as stream:
        judges = json.load(stream)
    for name, by in judges.items():
        place = os.path.join(folder, name)
        if by != "all" and not kind.get(by) or (by == "all" and not kind["shared"]):
            continue
        if by == "all" and not kind["stage1"] and ("stage1" in name or "bf16" in name):
            continue
        source = "judged" if os.path.exists(os.path.join(place, "judged")) else "saved"
        state = script.get_fp32_state_dict_from_zero_checkpoint(os.path.join(place, source))
        # a view of a flat vector would be saved with all of that
        items = [(key, tensor.detach().clone()) for key, tensor in state.items()]
        torch.save({"items": items, "ties": ties(state)}, os.path.join(place, "real.pt"))
        judged += 1
    sys.stdout = stdout
    print("judged %d cases" % judged)


# ---- comparing ----

def bits(tensor):
    tensor = tensor.contiguous().reshape(-1)
    try:
        return tensor.view(torch.uint8)
    except TypeError:       # torch before 1.8
        return tensor.float() if tensor.dtype == torch.bfloat16 else tensor


def difference(wanted, merged, exact):
    if list(merged) != [name for name, _ in wanted["items"]]:
        return "names: %s" % list(merged)
    for name, tensor in wanted["items"]:
        found = merged[name]
        if not exact and not found.is_floating_point():
            found = found.to(tensor.dtype)      # older releases made float32 of all buffers
        if tensor.dtype != found.dtype or tensor.shape != found.shape or not torch.equal(bits(tensor), bits(found)):
            return "%s: %s %s, wanted %s %s" % (name, found.dtype, found.shape, tensor.dtype, tensor.shape)
        if not found.is_contiguous() or found.storage_offset():
            return "%s: strides %s" % (name, found.stride())
    for name, source in wanted["ties"].items():
        if merged[name].numel() and merged[name].data_ptr() != merged[source].data_ptr():
            return "%s and %s are not one" % (name, source)
    return ""


def compare(folder):
    with open(os.path.join(folder, "judges.json")) as stream:
        names = json.load(stream)
    for name in names:
        place = os.path.join(folder, name)
        merged = torch.load(place + "/merged.pt")
        if type(merged) is not ODict:
            print("DIFFERENT", name, "wanted", type(merged))
        for against in ("wanted", "real"):
            if os.path.exists(place + "/%s.pt" % against):
                text = difference(torch.load(place + "/%s.pt" % against), merged, against == "wanted")
                print("DIFFERENT" if text else "EQUAL", name, against, text)
                if against == "real":
                    os.unlink(place + "/real.pt")


if __name__ == "__main__":
    sys.dont_write_bytecode = True
    install()
    {"save": save, "judge": judge, "compare": compare}[sys.argv[1]](*sys.argv[2:])

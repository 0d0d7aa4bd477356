# SPDX-License-Identifier: Apache-2.0
"""Made by torch: checkpoints with weights beside an optimizer's state, in many forms. cast_files.py OUTDIR

Every file holds a model with a parameter and buffers of its own, and what an optimizer keeps for it; step counters are 10001,
which bfloat16 rounds to 9984, and second moments 1e-9, which is 0 in float16. A name with "weights" before the dot says that there is no optimizer.
"""

import os
import sys

import torch


def module():
    torch.manual_seed(1)
    made = torch.nn.Sequential(torch.nn.Linear(6, 5), torch.nn.BatchNorm1d(5), torch.nn.Linear(5, 3))
    made.register_parameter("logit_scale", torch.nn.Parameter(torch.tensor(2.6592)))
    return made


def trained(model, kind, **options):
    optimizer = kind(model.parameters(), **options)
    for _ in range(2):
        optimizer.zero_grad()
        (model(torch.randn(4, 6)).sum() * model.logit_scale).backward()
        optimizer.step()
    for state in optimizer.state.values():
        state["step"] = torch.tensor(10001.)
        if "exp_avg_sq" in state:
            state["exp_avg_sq"].fill_(1e-9)
    return optimizer


def flat(value, name=""):
    """As DCP names it."""
    if isinstance(value, dict) and value:
        parts = value.items()
    elif isinstance(value, list) and value:
        parts = enumerate(value)
    else:
        return {name: value}
    return {key: one for part, inner in parts
            for key, one in flat(inner, (name + "." if name else "") + str(part)).items()}


def by_name(model, state):
    """As FSDP.optim_state_dict() and get_optimizer_state_dict() have it: names in place of numbers."""
    names = [name for name, _ in model.named_parameters()]
    return {"state": {names[number]: slots for number, slots in state["state"].items()},
            "param_groups": [dict(group, params=[names[number] for number in group["params"]]) for group in state["param_groups"]]}


def kinds():
    """All optimizers of this torch that keep tensors and take a step of any parameter."""
    for name in sorted(vars(torch.optim)):
        kind = getattr(torch.optim, name)
        if isinstance(kind, type) and issubclass(kind, torch.optim.Optimizer) and name not in ("Optimizer", "SGD", "SparseAdam", "LBFGS", "Muon"):
            yield kind


def files():
    model = module()
    weights = model.state_dict()
    adam = trained(model, torch.optim.Adam, lr=1e-3)
    state = adam.state_dict()
    adam_by_name = by_name(model, state)
    made = {"trainer": {"model": weights, "optimizer": state, "epoch": 3},
            "optimizer_first": {"optimizer": state, "model": weights},
            "lightning": {"state_dict": weights, "optimizer_states": [state], "lr_schedulers": []},
            "by_name": {"model": weights, "optim": adam_by_name},
            "flat": flat({"model": weights, "optimizer": state}),
            "flat_by_name": flat({"model": weights, "optim": by_name(model, state)}),
            "two": {"g": weights, "g_optimizer": state, "d": module().state_dict(),
                    "d_optimizer": trained(module(), torch.optim.SGD, lr=1., momentum=.9).state_dict()},
            "megatron": {"model": weights, "optimizer": {
                "optimizer": state, "fp32_from_fp16_params": [[p.detach().clone() for p in model.parameters()]]}},
            "deepspeed": {"module": weights, "optimizer_state_dict": {
                "base_optimizer_state": state, "zero_stage": 1, "single_partition_of_fp32_groups": [torch.randn(50)]}},
            "weights": dict(weights)}
    for kind in kinds():
        made[kind.__name__ + "_states"] = {"model": weights, "optimizer": [trained(model, kind).state_dict()["state"]]}
        made[kind.__name__ + "_flat"] = {key: one for key, one in flat(made[kind.__name__ + "_states"]).items() if torch.is_tensor(one)}
        made[kind.__name__ + "_whole"] = {"model": {key: one.clone() for key, one in weights.items()}, "optimizer": trained(model, kind)}
    slots = adam_by_name["state"]
    made["megatron_flat"] = flat({"model": weights, "optimizer": {"state": {
        slot: {name: slots[name][slot] for name in slots} for slot in ("exp_avg", "exp_avg_sq")}}})
    made["megatron_flat"].update({"optimizer.state.fp32_param." + name: weights[name].clone() for name in slots})
    made["flat_tensors"] = {name: value for name, value in made["flat"].items() if torch.is_tensor(value)}
    for name, value in made.items():
        yield name, value


def losses():
    """Numbers of all magnitudes: many are too large or too small for any narrow type."""
    torch.manual_seed(2)
    def some(*shape, dtype=torch.float32):
        return (torch.randn(shape, dtype=torch.float64) * 10. ** torch.randint(-60, 60, shape).double()).to(dtype)
    return {"a": torch.ones(7), "b": some(300, 1000), "c": some(33, 65).t(), "d": some(1001, dtype=torch.float64),
            "e": some(41, 3, dtype=torch.float16), "f": some(500, 2, dtype=torch.bfloat16), "steps": torch.arange(4)}


def save_dcp(folder, value):
    import warnings
    warnings.simplefilter("ignore")
    import torch.distributed.checkpoint as dcp
    dcp.save(value, checkpoint_id=folder)


def main():
    out = sys.argv[1]
    os.makedirs(out)
    version = tuple(int(part) for part in torch.__version__.split(".")[:2])
    for name, value in files():
        torch.save(value, os.path.join(out, name + ".pt"))
        if name == "trainer" and version >= (1, 6):
            torch.save(value, os.path.join(out, name + "_legacy.pt"), _use_new_zipfile_serialization=False)
        if name in ("trainer", "by_name", "megatron") and version >= (2, 3):
            save_dcp(os.path.join(out, name + ".dcp"), value)
    os.makedirs(out + "-losses")
    torch.save(losses(), os.path.join(out + "-losses", "losses.pt"))
    print("torch version %d.%d" % version)


if __name__ == "__main__":
    main()

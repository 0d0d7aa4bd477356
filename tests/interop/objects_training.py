# SPDX-License-Identifier: Apache-2.0
"""What training programs save: state dicts, optimizers, whole checkpoints, whole modules."""

import argparse
import collections
import copy
import random

import numpy as np
import torch

import user_types
from objects_tensors import fill
from registry import item


def small_model():
    model = torch.nn.Sequential(collections.OrderedDict([
        ("conv", torch.nn.Conv2d(1, 2, 3, bias=False)),
        ("norm", torch.nn.BatchNorm2d(2)),
        ("head", torch.nn.Sequential(torch.nn.ReLU(), torch.nn.Linear(2, 3))),
    ]))
    fill(model)
    return model


def linear():
    model = torch.nn.Linear(3, 2)
    fill(model)
    return model


class Wrapper(torch.nn.Module):
    """The shape of DistributedDataParallel: one child called `module`."""

    def __init__(self, module):
        super().__init__()
        self.module = module


def ddp_state(model):
    return Wrapper(model).state_dict()


def take_steps(model, make_optimizer, make_scheduler=None, steps=3):
    """Train a few steps on fixed gradients; returns the optimizer and the scheduler."""
    optimizer = make_optimizer(model.parameters())
    scheduler = make_scheduler(optimizer) if make_scheduler else None
    for step in range(steps):
        for parameter in model.parameters():
            parameter.grad = torch.full_like(parameter, 0.5 + step)
        optimizer.step()
        if scheduler:
            scheduler.step()
    return optimizer, scheduler


def sgd(parameters):
    return torch.optim.SGD(parameters, lr=0.1, momentum=0.9, weight_decay=1e-4)


@item()
def linear_state_dict():
    return linear().state_dict()


@item()
def linear_state_dict_plain():
    return dict(linear().state_dict())


@item()
def batch_norm_state_dict():
    return torch.nn.BatchNorm1d(4).state_dict()


@item()
def sequential_state_dict():
    return small_model().state_dict()


@item()
def user_net_state_dict():
    net = user_types.Net()
    fill(net)
    return net.state_dict()


@item()
def recurrent_state_dict():
    model = torch.nn.LSTM(2, 3, num_layers=2)
    fill(model)
    return model.state_dict()


@item()
def transformer_state_dict():
    model = torch.nn.TransformerEncoderLayer(8, 2, dim_feedforward=16)
    fill(model)
    return model.state_dict()


@item()
def state_dict_keep_vars():
    return linear().state_dict(keep_vars=True)


@item()
def ddp_state_dict():
    return ddp_state(small_model())


@item()
def ddp_state_dict_linear():
    return ddp_state(linear())


@item()
def ddp_state_dict_one_letter():
    """Names that become one letter, or nothing, share their string with equal ones."""
    result = collections.OrderedDict()
    result["module.w"] = torch.ones(1)
    result["module.b"] = torch.zeros(1)
    result["module."] = torch.ones(2)
    result["module.é"] = torch.ones(3)
    return [result, "w", "b", "", {"w": 1}]


@item()
def ddp_state_dict_plain():
    return dict(ddp_state(small_model()))


@item()
def ddp_state_dict_no_metadata():
    return collections.OrderedDict(ddp_state(small_model()))


@item()
def ddp_state_dict_no_root_metadata():
    result = ddp_state(linear())
    del result._metadata[""]
    return result


@item()
def ddp_state_dict_root_metadata_last():
    result = ddp_state(small_model())
    result._metadata[""] = result._metadata.pop("")
    return result


@item()
def ddp_twice():
    return Wrapper(Wrapper(linear())).state_dict()


@item()
def ddp_1000_entries():
    return collections.OrderedDict(("module.p%d" % i, torch.tensor([i])) for i in range(1000))


@item()
def ddp_1001_entries_plain():
    return {"module.p%d" % i: torch.tensor([i]) for i in range(1001)}


@item()
def ddp_partial():
    """Only some keys have the prefix; others have it in the middle or as a whole name."""
    state = ddp_state(linear())
    state["head.weight"] = torch.ones(2)
    state["backbone.module.conv"] = torch.ones(3)
    state["module"] = torch.ones(4)
    state["modules.weight"] = torch.ones(5)
    state["module.steps"] = 7
    state["module.tail"] = torch.ones(6)
    state._metadata["head"] = {"version": 1}
    return state


@item()
def ddp_clash():
    """Stripping would make one name out of two."""
    return collections.OrderedDict([("module.a", torch.ones(1)), ("b", torch.ones(2)),
                                    ("a", torch.ones(3))])


@item()
def ddp_tied():
    model = torch.nn.Sequential(torch.nn.Linear(3, 3), torch.nn.Linear(3, 3))
    model[1].weight = model[0].weight
    fill(model)
    return ddp_state(model)


@item()
def ddp_several_in_a_dict():
    model = small_model()
    return {"model": ddp_state(model), "ema": ddp_state(copy.deepcopy(model)), "epoch": 3,
            "other": linear().state_dict()}


@item()
def ddp_several_in_a_list():
    return [ddp_state(linear()), ddp_state(linear())]


@item()
def ddp_several_in_a_tuple():
    return (ddp_state(linear()), dict(ddp_state(linear())))


@item()
def ddp_shared():
    """One state dict at two places of the file, and its keys once more as a list."""
    state = ddp_state(linear())
    return {"model": state, "best": state, "keys": list(state)}


@item()
def ddp_same_keys_twice():
    """A copy of a state dict shares its key strings."""
    state = ddp_state(linear())
    copied = collections.OrderedDict((key, value.clone()) for key, value in state.items())
    return {"model": state, "ema": copied}


@item()
def ddp_deep():
    return {"a": [{"b": ({"c": ddp_state(linear())}, 1)}, 2]}


@item()
def ddp_with_extra_state():
    state = ddp_state(linear())
    state["module.config"] = {"depth": 3}
    state["module.packed"] = (torch.ones(1), None)
    return state


@item()
def ddp_parameters():
    return Wrapper(small_model()).state_dict(keep_vars=True)


@item()
def ddp_int_keys():
    return {0: torch.ones(1), "module.a": torch.ones(2), ("module.b",): torch.ones(3)}


@item()
def ddp_names_beside_it():
    """Lists of parameter names: as newer optimizers and as sharded optimizers keep them."""
    state = ddp_state(linear())
    names = list(state)
    moments = {name: {"step": torch.tensor(1.0), "exp_avg": torch.zeros_like(value)}
               for name, value in state.items()}
    group = {"lr": 0.1, "params": [0, 1], "param_names": list(names)}
    by_name = {"state": moments, "param_groups": [{"lr": 0.1, "params": names}]}
    return {"model": state, "optimizer": {"state": {}, "param_groups": [group]},
            "optimizer_by_name": by_name}


@item()
def dict_of_dicts_of_tensors():
    return {"module.a": {"x": torch.ones(1)}, "module.b": {"x": torch.ones(1)}}


@item()
def state_dict_of_unicode_keys():
    return collections.OrderedDict([("слой.вес", torch.ones(1)), ("module.слой", torch.ones(2)),
                                    ("module.\U0001f600", torch.ones(3))])


@item()
def state_dict_of_int_keys():
    return {0: torch.ones(1), 1: torch.zeros(2)}


@item()
def optimizer_sgd():
    return take_steps(linear(), sgd)[0].state_dict()


@item()
def optimizer_sgd_fresh():
    return sgd(linear().parameters()).state_dict()


@item()
def optimizer_adam():
    return take_steps(small_model(), lambda p: torch.optim.Adam(p, lr=1e-3))[0].state_dict()


@item()
def optimizer_adamw():
    make = torch.optim.AdamW
    return take_steps(linear(), lambda p: make(p, lr=1e-3, amsgrad=True))[0].state_dict()


@item()
def optimizer_groups():
    model = small_model()
    groups = [{"params": list(model.conv.parameters()), "lr": 0.01},
              {"params": list(model.head.parameters()), "name": "head"}]
    return torch.optim.RMSprop(groups, lr=0.1).state_dict()


@item()
def optimizer_whole():
    """The optimizer object itself, which holds the parameters."""
    return take_steps(linear(), sgd)[0]


def step_scheduler(optimizer):
    return torch.optim.lr_scheduler.StepLR(optimizer, 2)


@item()
def scheduler_states():
    kinds = torch.optim.lr_scheduler
    makers = (step_scheduler, lambda o: kinds.MultiStepLR(o, [1, 3, 3]),
              lambda o: kinds.CosineAnnealingLR(o, 10),
              lambda o: kinds.LambdaLR(o, user_types.function))
    return [take_steps(linear(), sgd, make)[1].state_dict() for make in makers]


@item()
def scheduler_one_cycle():
    kinds = torch.optim.lr_scheduler
    make = lambda o: kinds.OneCycleLR(o, 0.1, total_steps=10)  # noqa: E731
    return take_steps(linear(), sgd, make)[1].state_dict()


@item()
def scheduler_plateau():
    optimizer = sgd(linear().parameters())
    scheduler = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer)
    scheduler.step(1.0)
    return {k: v for k, v in scheduler.state_dict().items() if not callable(v)}


def trainer(model_state, ema_state, optimizer, scheduler):
    arguments = argparse.Namespace(arch="resnet18", lr=0.1, batch_size=256, resume="", gpu=None,
                                   schedule=[30, 60], seed=1, distributed=True)
    return {"model": model_state, "ema": ema_state, "optimizer": optimizer.state_dict(),
            "scheduler": scheduler.state_dict(), "epoch": 12, "args": arguments,
            "best_acc": torch.tensor(71.5), "best_loss": 0.25, "history": [0.5, 0.25],
            "rng": {"python": random.Random(1).getstate(), "torch": torch.zeros(16).byte(),
                    "numpy": np.random.RandomState(1).get_state()}, "scaler": None}


@item()
def trainer_checkpoint():
    model = small_model()
    optimizer, scheduler = take_steps(model, sgd, step_scheduler)
    return trainer(ddp_state(model), ddp_state(copy.deepcopy(model)), optimizer, scheduler)


@item()
def trainer_checkpoint_without_prefix():
    model = small_model()
    optimizer, scheduler = take_steps(model, lambda p: torch.optim.AdamW(p), step_scheduler)
    return trainer(model.state_dict(), copy.deepcopy(model).state_dict(), optimizer, scheduler)


@item()
def lightning_checkpoint():
    model = small_model()
    optimizer, scheduler = take_steps(model, lambda p: torch.optim.Adam(p), step_scheduler)
    progress = {"total": {"ready": 10, "completed": 10}, "current": {"ready": 2, "completed": 2}}
    state = collections.OrderedDict(("model." + k, v) for k, v in model.state_dict().items())
    return {
        "epoch": 2, "global_step": 300, "pytorch-lightning_version": "2.2.0", "state_dict": state,
        "loops": {"fit_loop": {"state_dict": {}, "epoch_progress": progress},
                  "validate_loop": {"state_dict": {}, "epoch_progress": copy.deepcopy(progress)}},
        "callbacks": {"ModelCheckpoint{'monitor': 'val_loss'}": {
            "monitor": "val_loss", "best_model_score": torch.tensor(0.3),
            "best_model_path": "epoch=24-step=18750.ckpt", "dirpath": "checkpoints"}},
        "optimizer_states": [optimizer.state_dict()], "lr_schedulers": [scheduler.state_dict()],
        "MixedPrecision": None, "hparams_name": "kwargs",
        "hyper_parameters": {"lr": 1e-3, "layers": [1, 2], "act": "relu"},
    }


@item()
def whole_linear():
    return linear()


@item()
def whole_sequential():
    return small_model()


@item()
def whole_trained_net():
    net = user_types.Net()
    fill(net)
    net.eval()
    return {"net": net, "epoch": 1}


@item()
def whole_transformer():
    model = torch.nn.TransformerEncoderLayer(8, 2, dim_feedforward=16)
    fill(model)
    return model


@item()
def whole_recurrent():
    model = torch.nn.GRU(2, 3)
    fill(model)
    return model


@item()
def whole_with_hooks():
    model = linear()
    model.register_forward_hook(user_types.function)
    model.register_buffer("mask", None)
    return model


@item()
def whole_data_parallel():
    return torch.nn.DataParallel(linear())


@item()
def quantised_state_dict():
    """A dynamically quantised layer: its parameters are a packed pair."""
    weight = torch.quantize_per_tensor(torch.ones(2, 3), 0.5, 0, torch.qint8)
    state = collections.OrderedDict()
    state["module.fc.scale"] = torch.tensor(1.0)
    state["module.fc._packed_params.dtype"] = torch.qint8
    state["module.fc._packed_params._packed_params"] = (weight, torch.zeros(2))
    return state

# SPDX-License-Identifier: Apache-2.0
"""The object of a plan of random_plans.py, in the running torch. What this torch or Python does not have raises Skip."""
import argparse
import array
import collections
import datetime
import decimal
import fractions
import functools
import importlib
import io
import ipaddress
import operator
import pathlib
import pickle
import random
import re
import sys
import time
import types
import uuid

import numpy as np
import torch

import fake_cuda
import objects_training
import torch_files
import user_types
from registry import Item, Skip

EASY = {"none", "bool", "int", "float", "str", "bytes", "tensor", "list", "tuple", "dict", "state_dict"}


def entries(plans):
    """The registry's form of PLANS."""
    return [Item(plan["name"], functools.partial(build, plan), None, None, plan["protocol"], plan.get("legacy", False)) for plan in plans]


def build(plan):
    built = []
    for kind, detail, parts in plan["nodes"]:
        built.append(node(kind, detail, [built[part] for part in parts]))
    for into, value in plan["late"]:
        put(built[into], built[value])
    return built[-1]


def node(kind, detail, parts):
    """None if there is no such thing here, or if torch cannot save it."""
    try:
        value = globals()["make_" + kind](detail, parts)
        if not parts and kind not in EASY:
            stream = io.BytesIO()
            torch.save(value, stream)
            stream.seek(0)
            torch_files.load(stream)
        return value
    except (Skip, pickle.PicklingError, TypeError, AttributeError, NotImplementedError, RuntimeError, ValueError):
        return None


def put(container, value):
    """VALUE into CONTAINER, where that may have more."""
    if isinstance(container, (list, collections.deque)):
        container.append(value)
    elif isinstance(container, dict):
        container["version"] = value
    elif isinstance(container, torch.Tensor) or hasattr(container, "__dict__"):
        try:
            container.version = value
        except Exception as error:
            raise Skip(str(error))


# ---- Python's own ----

def itself(detail, _):
    return detail


make_none = make_bool = make_int = make_float = itself


def make_odd_float(detail, _):
    return float(detail)


def make_complex(detail, _):
    return complex(detail)


def make_str(detail, _):
    return "".join(list(detail[0])) if detail[1] else sys.intern(detail[0])


def make_bytes(detail, _):
    return bytes.fromhex(detail)


def make_bytearray(detail, _):
    return bytearray.fromhex(detail)


def make_range(detail, _):
    return range(*detail)


def make_ellipsis(detail, _):
    return Ellipsis if detail else NotImplemented


def make_slice(_, __):
    return slice(1, None, 2)


def make_list(_, parts):
    return list(parts)


def make_tuple(_, parts):
    return tuple(parts)


def pairs(parts):
    return list(zip(parts[::2], parts[1::2]))


def make_dict(_, parts):
    return dict(pairs(parts))


def make_ordered(_, parts):
    return collections.OrderedDict(pairs(parts))


def make_named(detail, parts):
    return make_ordered(None, parts) if detail == "ordered" else make_dict(None, parts)


def make_defaultdict(detail, parts):
    result = collections.defaultdict({"list": list, "int": int, None: None}[detail])
    result.update(pairs(parts))
    return result


def make_counter(_, parts):
    return collections.Counter(parts)


def make_set(_, parts):
    return set(parts)


def make_frozenset(_, parts):
    return frozenset(parts)


def make_int_set(detail, _):
    return set(detail)


def make_deque(detail, parts):
    return collections.deque(parts, detail)


def make_object(detail, parts):
    one, two, three = parts
    if detail == "Plain":
        return user_types.Plain(first=one, second=two, third=three)
    if detail in ("Slots", "Point", "Pair"):
        return getattr(user_types, detail)(one, two)
    if detail == "SlotsAndDict":
        return user_types.SlotsAndDict(one, two, three)
    if detail == "GetState":
        return user_types.GetState(parts)
    if detail == "NewArgs":
        return user_types.NewArgs(one, two)
    if detail == "NewArgsEx":
        return user_types.NewArgsEx(one, name=two)
    if detail == "ReduceAll":
        result = user_types.ReduceAll("label")
        result.append(one)
        result["pair"] = two
        return result
    if detail == "HoldsItself":
        return user_types.HoldsItself([one, two])
    if detail == "GivesItsArgs":
        return user_types.GivesItsArgs(one, two)
    if detail == "GivesArgsAlone":
        result = user_types.GivesArgsAlone(one, two)
        return [result, result.args]
    if detail.startswith("Error"):
        result = ValueError(one, two)
        result.saved = result.args if detail == "ErrorWithItsArgs" else three
        return [result, result.args] if detail == "ErrorBesideItsArgs" else result
    if detail == "Config":
        return user_types.Config(one, two, three)
    if detail == "FrozenConfig":
        return user_types.FrozenConfig(one, two)
    return {"Registered": user_types.Registered, "Inner": user_types.Outer.Inner}[detail](one)


def make_child(detail, parts):
    kind = getattr(user_types, detail)
    if detail in ("IntChild", "FloatChild"):
        child = kind(7)
    elif detail == "StrChild":
        child = kind("text")
    elif detail == "BytesChild":
        child = kind(b"raw")
    elif detail in ("DictChild", "OrderedChild"):
        child = kind((("k%d" % i), part) for i, part in enumerate(parts))
    elif detail == "SetChild":
        child = kind(range(len(parts)))
    else:
        child = kind(parts)
    if len(parts) > 2:
        child.note = parts[2]
    return child


def make_partial(detail, parts):
    return functools.partial(make_global(detail, None), *parts[:1], **{"k%d" % i: part for i, part in enumerate(parts[1:])})


def make_method(_, parts):
    return user_types.Plain(first=parts[0]).method


def make_like_optimizer(_, parts):
    return {"state": {0: parts[0]}, "param_groups": [{"lr": 0.1, "params": [0], "name": parts[1]}]}


def make_many(detail, parts):
    return {"many%d" % i: parts[0] for i in range(detail)}


def make_deep(detail, parts):
    result = parts[0]
    for _ in range(detail[1]):
        result = {"list": lambda: [result], "dict": lambda: {"in": result}, "tuple": lambda: (result,)}[detail[0]]()
    return result


def make_global(detail, _):
    module, name = detail.split(":")
    try:
        result = importlib.import_module(module)
        for part in name.split("."):
            result = getattr(result, part)
    except (ImportError, AttributeError) as error:
        raise Skip(str(error))
    return result


def make_enum(detail, _):
    kind, name = detail.split(".")
    return user_types.Access(3) if name == "BOTH" else getattr(user_types, kind)[name]


def make_time(detail, _):
    utc, two = datetime.timezone.utc, datetime.timezone(datetime.timedelta(hours=2), "two")
    return {"date": lambda: datetime.date(2024, 2, 29), "datetime": lambda: datetime.datetime(2024, 2, 29, 12, 30, 1, 5), "time": lambda: datetime.time(1, 2, 3),
            "fold": lambda: datetime.datetime(2024, 2, 29, fold=1), "time_fold": lambda: datetime.time(1, fold=1), "timedelta": lambda: datetime.timedelta(3, 4, 5), "utc": lambda: utc,
            "zone": lambda: two, "aware": lambda: datetime.datetime(2024, 1, 1, tzinfo=utc)}[detail]()


def random_state():
    return random.Random(1).getstate()


STDLIB = {
    "decimal": lambda: decimal.Decimal("1.5"), "fraction": lambda: fractions.Fraction(1, 3), "uuid": lambda: uuid.UUID(int=5), "path": lambda: pathlib.Path("/data/model/a"),
    "pure_path": lambda: pathlib.PureWindowsPath("c:/data"), "pattern": lambda: re.compile("a+", re.I), "ip": lambda: ipaddress.ip_address("127.0.0.1"),
    "namespace": lambda: argparse.Namespace(lr=0.1, name="run", layers=[1, 2]), "itemgetter": lambda: operator.itemgetter(1, "a"), "attrgetter": lambda: operator.attrgetter("a.b"),
    "methodcaller": lambda: operator.methodcaller("get", 1), "exception": lambda: ValueError("text", 1), "random_state": random_state, "array": lambda: array.array("f", [1.0, 2.0]),
    "simple_namespace": lambda: types.SimpleNamespace(a=1, name="n"), "struct_time": lambda: time.gmtime(0), "iterator": lambda: iter((1, 2)), "list_iterator": lambda: iter([1, 2]),
    "enumerate": lambda: enumerate([1]), "counter_from": lambda: collections.Counter("aab"), "user_dict": lambda: collections.UserDict(a=1), "user_list": lambda: collections.UserList([1]),
    "user_string": lambda: collections.UserString("text"), "chain_map": lambda: collections.ChainMap({"a": 1}), "memoryview_bytes": lambda: bytes(memoryview(b"abc")),
    "lru": lambda: functools.partial(int, base=2), "ellipsis_class": lambda: type(None), "map_error": lambda: KeyError("k"),
}


def make_stdlib(detail, _):
    if detail == "zoneinfo":
        try:
            return importlib.import_module("zoneinfo").ZoneInfo("UTC")
        except Exception as error:
            raise Skip(str(error))
    return STDLIB[detail]()


# ---- torch ----

def values(dtype, shape):
    count = 1
    for size in shape:
        count *= size
    kind = getattr(torch, dtype)
    try:
        if dtype == "bool":
            return (torch.arange(count) % 3 == 0).view(shape)
        if dtype.startswith(("float8", "float4", "bits", "uint16", "uint32", "uint64", "complex32")):
            return torch.arange(count * torch.empty(1, dtype=kind).element_size(), dtype=torch.uint8).view(kind).view(shape)
        return torch.arange(count).to(kind).view(shape)
    except RuntimeError as error:
        raise Skip(str(error))


def make_tensor(detail, _):
    if detail["device"] == "meta":
        if not hasattr(torch, "_is_zerotensor") and torch.__version__.startswith("1.7"):
            raise Skip("no meta tensors")
        return torch.empty(detail["shape"], dtype=getattr(torch, detail["dtype"]), device="meta")
    result = values(detail["dtype"], detail["shape"])
    if result.numel():
        fake_cuda.mark(result, detail["device"])
    if detail["parameter"]:
        return torch.nn.Parameter(result, requires_grad=detail["grad"] and (result.is_floating_point() or result.is_complex()))
    if detail["grad"] and (result.is_floating_point() or result.is_complex()):
        result.requires_grad_()
    return result


def make_view(detail, parts):
    base = parts[0]
    try:
        return VIEWS[detail](base)
    except (RuntimeError, IndexError, AttributeError, NotImplementedError, TypeError, KeyError) as error:
        raise Skip("no such view: %s" % error)


VIEWS = {
    "same": lambda t: t, "t": lambda t: t.t(), "row": lambda t: t[0], "flat": lambda t: t.view(-1), "first": lambda t: t.view(-1)[:2], "empty": lambda t: t.view(-1)[:0],
    "expand": lambda t: t.expand(2, *t.shape), "detach": lambda t: t.detach(), "step": lambda t: t.view(-1)[::2], "unsqueeze": lambda t: t.unsqueeze(0),
    "as_bytes": lambda t: t.detach().view(torch.uint8), "as_int32": lambda t: t.detach().view(torch.int32), "real": lambda t: t.real, "imag": lambda t: t.imag,
    "conj": lambda t: t.conj(), "neg": lambda t: torch._neg_view(t), "parameter": lambda t: torch.nn.Parameter(t.detach(), False), "data": lambda t: t.data, "clone": lambda t: t.clone().detach(),
}


def make_attributes(detail, parts):
    try:
        setattr(parts[0], detail, parts[1])
    except Exception as error:
        raise Skip(str(error))
    return parts[0]


def make_storage_of(detail, parts):
    try:
        return parts[0].storage() if detail == "typed" else parts[0].untyped_storage()
    except (RuntimeError, AttributeError, NotImplementedError) as error:
        raise Skip(str(error))


def make_storage(detail, _):
    return values(detail[0], [detail[1]]).storage()


def make_torch_value(detail, _):
    return getattr(torch, detail)


def make_size(detail, _):
    return torch.Size(detail)


def make_device(detail, _):
    return torch.device(detail)


def make_generator(_, __):
    try:
        generator = torch.Generator().manual_seed(5)
        return generator if hasattr(generator, "__reduce__") and torch.__version__ >= "2.6" else generator.get_state()
    except TypeError as error:
        raise Skip(str(error))


def make_torch_version(_, __):
    return torch.__version__


def make_odd_tensor(detail, _):
    flat = torch.arange(6.0)
    dense = torch.arange(16.0).view(4, 4) % 3
    rows = [torch.ones(2, 3), torch.zeros(1, 3)]
    try:
        return {
            "coo": lambda: torch.sparse_coo_tensor([[0, 1, 1], [2, 0, 0]], [3.0, 4.0, 5.0], (2, 4)), "coo_coalesced": lambda: torch.sparse_coo_tensor([[0, 1], [2, 0]], [3.0, 4.0], (2, 4)).coalesce(),
            "coo_empty": lambda: torch.sparse_coo_tensor((2, 3)), "quantized": lambda: torch.quantize_per_tensor(flat, 0.5, 2, torch.quint8),
            "quantized_channels": lambda: torch.quantize_per_channel(flat.view(2, 3), torch.tensor([.5, .25], dtype=torch.float64), torch.tensor([1, 2]), 0, torch.qint8),
            "child": lambda: noted(flat.as_subclass(user_types.TensorChild)), "noted": lambda: noted(flat), "uninitialized": lambda: torch.nn.parameter.UninitializedParameter(),
            "csr": lambda: dense.to_sparse_csr(), "csc": lambda: dense.to_sparse_csc(), "nested": lambda: torch.nested.nested_tensor(rows), "buffer": lambda: torch.nn.Buffer(flat),
            "jagged": lambda: torch.nested.nested_tensor(rows, layout=torch.jagged)}[detail]()
    except (AttributeError, RuntimeError) as error:
        raise Skip(str(error))


def noted(tensor):
    tensor.note = "attribute"
    return tensor


# ---- numpy ----

def array_of(kind, shape):
    count = int(np.prod(shape)) if shape else 1
    if kind == "record":
        return np.zeros(shape, dtype=[("a", "<i4"), ("b", "<f8", (2,))])
    if kind in ("U2", ">U2"):
        return np.array(["é%d" % (i % 9) for i in range(count)], dtype=kind).reshape(shape)
    if kind in ("S3", "V4"):
        return np.array([b"ab"] * count, dtype="S4" if kind == "V4" else kind).astype(kind).reshape(shape)
    return np.arange(count).astype("i8").astype(kind).reshape(shape)


def make_numpy(detail, _):
    kind, shape, order = detail
    result = array_of(kind, shape)
    if order == "F":
        return np.asfortranarray(result) if shape else result
    return result[..., ::2] if order == "step" and shape else result


def make_numpy_scalar(detail, _):
    return array_of(detail, [1])[0]


def make_numpy_dtype(detail, _):
    return array_of(detail, [1]).dtype


def make_numpy_state(detail, _):
    state = np.random.RandomState(1)
    return {"legacy": lambda: state.get_state(), "dict": lambda: state.get_state(legacy=False), "matrix": lambda: np.matrix([[1, 2]])}[detail]()


def make_object_array(_, parts):
    result = np.empty(len(parts), dtype=object)
    for index, part in enumerate(parts):
        result[index] = part
    return result


# ---- what programs save ----

def module_of(kind):
    nn = torch.nn
    makers = {"linear": lambda: nn.Linear(3, 2), "sequential": lambda: objects_training.small_model(), "norm": lambda: nn.BatchNorm1d(4), "conv": lambda: nn.Conv2d(1, 2, 3), "relu": lambda: nn.ReLU(),
              "embedding": lambda: nn.Embedding(4, 2), "lstm": lambda: nn.LSTM(2, 3), "net": lambda: user_types.Net(), "loss": lambda: nn.CrossEntropyLoss(weight=torch.ones(3)), "dropout": lambda: nn.Dropout(.2),
              "transformer": lambda: nn.TransformerEncoderLayer(8, 2, dim_feedforward=16), "parameter_list": lambda: nn.ParameterList([nn.Parameter(torch.ones(2))]),
              "parameter_dict": lambda: nn.ParameterDict({"a": nn.Parameter(torch.ones(2))}), "module_dict": lambda: nn.ModuleDict({"a": nn.Linear(1, 1)})}
    result = makers[kind]()
    objects_training.fill(result)
    return result


def make_module(detail, _):
    return module_of(detail)


def make_state_dict(detail, _):
    kind, prefix, form = detail
    model = module_of(kind)
    state = (objects_training.Wrapper(model) if prefix else model).state_dict(keep_vars=form == "vars")
    return dict(state) if form == "plain" else collections.OrderedDict(state) if form == "bare" else state


def optimizer_of(kind, steps):
    maker = getattr(torch.optim, kind, None)
    if not maker:
        raise Skip("no " + kind)
    if kind == "SparseAdam":
        return maker(list(objects_training.linear().parameters()))
    model = objects_training.linear()
    optimizer = maker(model.parameters(), lr=0.1)
    for step in range(steps):
        for parameter in model.parameters():
            parameter.grad = torch.full_like(parameter, 0.5 + step)
        optimizer.step(*([lambda: torch.tensor(1.0)] if kind == "LBFGS" else []))
    return optimizer


def make_optimizer(detail, _):
    return optimizer_of(*detail)


def make_optimizer_state(detail, _):
    return optimizer_of(*detail).state_dict()


def make_scheduler(detail, _):
    kinds, optimizer = torch.optim.lr_scheduler, optimizer_of("SGD", 1)
    makers = {"StepLR": lambda: kinds.StepLR(optimizer, 2), "MultiStepLR": lambda: kinds.MultiStepLR(optimizer, [1, 3, 3]), "ExponentialLR": lambda: kinds.ExponentialLR(optimizer, .9),
              "CosineAnnealingLR": lambda: kinds.CosineAnnealingLR(optimizer, 10), "LambdaLR": lambda: kinds.LambdaLR(optimizer, user_types.function), "CyclicLR": lambda: kinds.CyclicLR(optimizer, .1, .2, cycle_momentum=False),
              "OneCycleLR": lambda: kinds.OneCycleLR(optimizer, .1, total_steps=10), "ReduceLROnPlateau": lambda: kinds.ReduceLROnPlateau(optimizer), "LinearLR": lambda: kinds.LinearLR(optimizer),
              "SequentialLR": lambda: kinds.SequentialLR(optimizer, [kinds.StepLR(optimizer, 1), kinds.StepLR(optimizer, 2)], [2])}
    try:
        scheduler = makers[detail[0]]()
    except AttributeError as error:
        raise Skip(str(error))
    return scheduler if detail[1] else {key: value for key, value in scheduler.state_dict().items() if key not in ("_schedulers", "is_better")}

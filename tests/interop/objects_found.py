# SPDX-License-Identifier: Apache-2.0
"""What random objects (random_objects.py) were found to be written otherwise, as small as it gets."""
import array
import collections
import datetime
import decimal
import fractions
import pathlib

import numpy as np
import torch

import objects_training
import user_types
from registry import add, item


def found(**needs):
    return lambda build: item("found_" + build.__name__, **needs)(build)


# ---- storages without bytes ----

@found()
def empty_views():
    base = torch.empty(0)
    return [base, base[:0], base.view(0, 3)]


@found(since=(1, 13))
def empty_of_two_types():
    base = torch.empty(0)
    return [base, base.view(torch.int32)]


@found(since=(1, 13))
def empty_complex_and_its_real_part():
    base = torch.empty(0, dtype=torch.complex64)
    return [base, base.real]


@found(since=(2, 6))
def empty_and_its_untyped_storage():
    base = torch.empty(0)
    return [base, base.untyped_storage()]


@found()
def empty_tied_parameters():
    weight = torch.nn.Parameter(torch.empty(0))
    return collections.OrderedDict([("module.a", weight), ("module.b", torch.nn.Parameter(weight.data)), ("module.c", weight)])


@found(since=(2, 6))
def empty_uint16_and_bytes():
    base = torch.empty(0, dtype=torch.uint16)
    return {"a": base, "b": base.view(torch.uint8), "c": torch.ones(1)}


# ---- tensors in their own attributes ----

@found()
def tensor_in_a_list_in_itself():
    tensor = torch.ones(2)
    tensor.note = [tensor]
    return tensor


@found()
def tensor_in_itself():
    tensor = torch.ones(2)
    tensor.note = tensor
    return [tensor, tensor]


@found()
def tensors_in_each_other():
    one, other = torch.ones(1), torch.zeros(1)
    one.note, other.note = other, one
    return {"one": one, "other": other}


@found()
def parameter_in_itself():
    parameter = torch.nn.Parameter(torch.ones(2))
    parameter.note, parameter.other = [parameter], 1
    return {"module.a": parameter}


@found()
def tensor_in_a_list_that_it_holds():
    tensor = torch.ones(2)
    tensor.note = [tensor]
    return [tensor.note, tensor]


@found()
def empty_tensor_in_itself():
    tensor = torch.empty(0)
    tensor.note = [tensor]
    return [tensor, tensor[:0]]


@found()
def empty_tensor_in_the_dict_that_it_holds():
    tensor, holder = torch.empty(0, dtype=torch.int32), collections.OrderedDict()
    holder["k"], holder["other"] = tensor, [tensor]
    tensor.note = holder
    return holder


# ---- generators ----

@found(since=(2, 6), protocol=4)
def generators_and_functions_p4():
    return [torch.Generator().manual_seed(5), torch.relu, torch.Generator().manual_seed(6), torch.sum]


# ---- numpy ----

@found()
def numpy_big_endian_empty():
    return [np.zeros(0, dtype=">i4"), np.zeros((0, 2), dtype=">f8")]


@found()
def numpy_big_endian_text():
    return [np.array(["ab", "é"], dtype=">U2"), np.dtype(">U2"), np.array("x", dtype=">U1")[()]]


@found()
def numpy_swapped_and_scalars():
    swapped = np.array([1.0], dtype=">f4")
    return [swapped, np.float32(2), np.arange(2, dtype=">f4"), swapped, np.float32(1), np.array([1], dtype=">i8"), np.int64(1), np.arange(2, dtype="f4")]


@found()
def numpy_dates():
    """Not in one piece, so that the file has them in the form of protocol 2."""
    dates, record = np.arange(6).astype("M8[D]"), np.zeros((4,), dtype=[("when", "M8[s]"), ("n", "<i4")])
    return [dates[::2], np.arange(6).astype("m8[ns]")[::2], record[::2], np.zeros((4,), dtype=[("a", "<f8"), ("n", "<i4")])[::2]]


@found()
def numpy_not_in_one_piece():
    base = np.arange(24, dtype="f4").reshape(2, 3, 4)
    return [base[:, ::2], np.asfortranarray(base), base[0, 0, ::2], np.arange(6, dtype=">i4")[::2], np.zeros((0, 2))[::2], base[1], np.array(["a", "b", "c"])[::2], np.array([1, "x"], dtype=object)[::1]]


@found()
def numpy_of_quantized():
    return [torch.quantize_per_tensor(torch.ones(2), 0.5, 2, torch.qint8), np.float64(1.5), np.arange(2.0)]


# ---- objects that are written twice, and that are one ----

def group():
    return {"state": {0: torch.ones(1)}, "param_groups": [{"lr": 0.1, "params": [0]}]}


@found()
def optimizer_and_a_dict_like_it():
    return [objects_training.sgd(objects_training.linear().parameters()), group()]


@found()
def dict_like_an_optimizer_and_one():
    return [group(), objects_training.sgd(objects_training.linear().parameters())]


@found()
def names_of_modules_as_texts():
    return ["torch", "collections", "datetime", datetime.date(2024, 1, 2), collections.OrderedDict(), torch.ones(1), "numpy"]


@found()
def bytearrays():
    return [bytearray(b"a"), bytearray(b"a"), bytearray(b""), bytearray(b"\xff\x00")]


@found()
def enum_members():
    return [user_types.Color.RED, user_types.Level.LOW, user_types.Color.GREEN, "RED", user_types.Access(3)]


@found()
def paths():
    return [pathlib.Path("/data/model"), pathlib.Path("data"), "data", "model"]


@found()
def sets_whose_hashes_collide():
    return [{0, 8, 16, 24}, {32, 0, 64}, {-1, -2}, {2**61 - 1, 0}, {2**61, 1}, set(range(0, 80, 8)), {True, 9, 17}, frozenset([8, 0])]


@found()
def folds():
    return [datetime.datetime(2024, 1, 2, fold=1), datetime.time(1, 2, fold=1)]


@found()
def arrays():
    return [array.array("f", [1.0, 2.0]), array.array("b"), array.array("q", [1])]


@found()
def functions_of_c():
    return [torch.relu, torch.add, torch.relu, torch.sum]


@found()
def storage_classes():
    return [torch.FloatStorage, torch.ByteStorage, torch.FloatStorage, torch.ones(1)]


def add_found_optimizers():
    for kind in ("LBFGS", "AdamW", "Adagrad", "Adadelta", "Adamax", "Rprop", "ASGD", "RMSprop", "NAdam", "RAdam", "SGD", "Adam"):
        for steps in (0, 2):
            add("found_optimizer_%s_%d" % (kind, steps), lambda kind=kind, steps=steps: whole_optimizer(kind, steps))


def whole_optimizer(kind, steps):
    import random_build
    return random_build.make_optimizer([kind, steps], None)


add_found_optimizers()

# ---- sets, and what is derived of them, in their own items ----

def set_of_objects(make, count):
    nodes = [user_types.Plain(number=n) for n in range(count)]
    made = make(nodes[:1]) if count == 1 else make(nodes)
    for node in nodes:
        node.peers = made
    return {"group": made, "w": torch.ones(2)}


@found()
def set_in_its_item():
    return set_of_objects(set, 1)


@found()
def frozenset_in_its_item():
    return set_of_objects(frozenset, 1)


@found()
def set_child_in_its_item():
    return set_of_objects(user_types.SetChild, 1)


@found()
def set_in_itself_by_a_list():
    node = user_types.Plain(number=1)
    node.all = [frozenset([node]), 1]
    return node


@found()
def tuple_child_in_its_item():
    node = user_types.Plain()
    node.pair = user_types.TupleChild(("x", {"all": [node]}))
    return [node.pair, node]


@found()
def tuple_child_in_a_tensor_in_it():
    tensor = torch.ones(1)
    tensor.pair = user_types.TupleChild(("name", {"exp_avg": [tensor]}))
    return ([[tensor.pair]], tensor)


@found()
def holder_of_tuple_in_it():
    items = [1]
    holder = user_types.HoldsItself(items)
    items.append((holder, 2))
    return [holder, items]


@found()
def sets_of_tuples():
    return [{(1, 2), (3, 4), (5,)}, frozenset([(n, n * 1.5) for n in range(40)]), {((1, 2), (3,)), ((4,), 5)}, {torch.Size([8]), torch.Size([16]), torch.Size([0, 1])}]


# ---- names of methods, copies of letters, iterators ----

@found()
def names_of_methods():
    return ["method", user_types.Plain(a=1).method, {"method": user_types.Plain(a=2).method}]


@found()
def letters():
    return [user_types.StrChild("x"), "x", user_types.StrChild("x"), decimal.Decimal("5"), "5", fractions.Fraction(5), user_types.Plain(a=user_types.StrChild("y"), b="y")]


@found()
def iterators():
    return [iter([1, 2]), iter({1: 2}), iter([]), iter((1, 2)), iter({3}), iter(collections.OrderedDict(a=1))]


# ---- arguments that others know ----

@found()
def exceptions_and_their_arguments():
    one, two = ValueError(1, "x"), KeyError([1])
    items = []
    three = RuntimeError(items)
    items.append(three)
    two.saved = two.args
    return [one, one.args, [two.args, two], three, OSError(2, "x")]


@found()
def arguments_in_the_state():
    one, two = user_types.GivesItsArgs(1, "a"), user_types.GivesItsArgs([2], user_types.GivesItsArgs())
    return [one, two, two.args, [user_types.GivesItsArgs(one)]]


@found()
def arguments_of_nobody():
    one = user_types.GivesArgsAlone(1, 2)
    return [one, one.args, user_types.GivesArgsAlone(one)]


# ---- names of the attributes of modules ----

@found()
def modules_with_names_of_others():
    nn = torch.nn
    modules = [nn.Sequential(nn.Linear(1, 1), nn.ReLU(), nn.Dropout()), nn.MultiheadAttention(2, 1), nn.TransformerEncoderLayer(2, 1, 2), nn.MultiheadAttention(2, 1), nn.ModuleDict({"dropout": nn.ReLU(), "in_features": nn.GRU(1, 1)})]
    for module in modules:
        objects_training.fill(module)
    modules[1].dropout_of = "dropout"
    return {"models": modules, "in_features": ["dropout", "inplace", "_modules"]}


@found()
def modules_nested_deeper_than_names_are_shared():
    module = torch.nn.Sequential(torch.nn.Linear(1, 1))
    for _ in range(40):
        module = torch.nn.Sequential(module)
    objects_training.fill(module)
    return module


@found()
def modules_of_a_user():
    wide, net = user_types.Wide(), user_types.Net()
    objects_training.fill(net)
    return [wide, net, torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Dropout()), user_types.Wide(), {"width": 1, "dropout": 2}]


@found()
def modules_with_names_that_their_classes_do_not_assign():
    modules = [user_types.LinearChild(1, 1), user_types.Net(), torch.nn.Linear(1, 1)]
    for module in modules:
        objects_training.fill(module)
    modules[1].in_features = 1
    return modules


# ---- what is a state dict ----

@found()
def dicts_with_some_tensors():
    return {"module.fc": {"weight": torch.ones(1), "bits": 4}, "module.head": {"scale": 1.0}, "epoch": 3}


@found()
def state_dicts_in_objects():
    state = {"module.a": torch.ones(1)}
    return [user_types.Plain(model=state), user_types.GetState([state, {"module.b": torch.ones(2)}]), user_types.Config(1, 0.1, {"module.d": torch.ones(4)})]


for protocol in (3, 4, 5):
    for build in (empty_views, names_of_modules_as_texts, bytearrays, enum_members, folds, arrays, functions_of_c, storage_classes, numpy_big_endian_text, paths, tensor_in_itself, set_in_its_item, frozenset_in_its_item, letters, names_of_methods, exceptions_and_their_arguments, arguments_in_the_state, numpy_not_in_one_piece, numpy_dates, numpy_swapped_and_scalars):
        add("found_%s_p%d" % (build.__name__, protocol), build, protocol=protocol)

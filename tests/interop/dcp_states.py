# SPDX-License-Identifier: Apache-2.0
"""The states that dcp_save.py saves: what each holds, by how many processes, and with which options.

A state is a function of `place`, which makes a DTensor of a tensor: place(tensor, "S0") shards it over a
mesh of one dimension, place(tensor, "R", "S1") over one of two. With `whole` in its place the function
gives the same state without any sharding.
"""

import collections
import datetime
import types

import torch

State = collections.namedtuple("State", "name make world mesh options since")
STATES = {}

# options: thread_count and single_file_per_rank of the writer; flatten=False; lowest=True
# (dedup_save_to_lowest_rank); collectives=False (rank-local indexes)


def state(world=1, mesh=None, since=(2, 0), **options):
    def register(make):
        STATES[make.__name__] = State(make.__name__, make, world, mesh or (world,), options, since)
        return make
    return register


def whole(tensor, *_):
    return tensor


def numbers(shape, dtype=torch.float32, seed=0):
    """A tensor whose elements all differ as far as the dtype allows; the same bits in every process."""
    count = 1
    for size in shape:
        count *= size
    generator = torch.Generator().manual_seed(seed + count)
    width = torch.empty(0, dtype=dtype).element_size()
    octets = torch.randint(0, 256, (count * width,), dtype=torch.uint8, generator=generator)
    if dtype == torch.bool:
        return (octets & 1).bool().reshape(shape)
    if dtype in (torch.float32, torch.float64, torch.complex64):
        return torch.randn(shape, dtype=dtype, generator=generator)
    return octets.view(dtype).reshape(shape) if count else torch.empty(shape, dtype=dtype)


def placed(value, place, *placements):
    """All tensors of VALUE that have a dimension, placed."""
    if isinstance(value, torch.Tensor):
        return place(value.detach(), *placements) if value.dim() else value
    if isinstance(value, dict):
        return {key: placed(item, place, *placements) for key, item in value.items()}
    if isinstance(value, list):
        return [placed(item, place, *placements) for item in value]
    return value


def trained():
    """A model and its optimizer after two steps, the same in every process."""
    torch.manual_seed(7)
    model = torch.nn.Sequential(torch.nn.Linear(7, 10), torch.nn.ReLU(), torch.nn.BatchNorm1d(10),
                                torch.nn.Linear(10, 3))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    for step in range(2):
        optimizer.zero_grad()
        model(torch.randn(5, 7, generator=torch.Generator().manual_seed(step))).sum().backward()
        optimizer.step()
    return model, optimizer


def trainer(place, *placements):
    model, optimizer = trained()
    return {"model": placed(dict(model.state_dict()), place, *placements),
            "optimizer": placed(optimizer.state_dict(), place, *placements),
            "epoch": 3, "best": 0.25, "name": "run", "args": {"lr": 0.01, "sizes": [7, 10, 3]}}


# ---- one process ----

@state()
def nested(place):
    return trainer(place, "S0")


@state()
def scalars(place):
    return {"steps": {"s%d" % number: torch.tensor(number + 1).to(dtype) for number, dtype in enumerate(
        (torch.float32, torch.int64, torch.bool, torch.bfloat16, torch.float64, torch.complex64))},
        "one": torch.tensor([5.0]), "flag": True, "count": 3}


DTYPES = ("float64", "float32", "float16", "bfloat16", "complex32", "complex64", "complex128", "int64", "int32",
          "int16", "int8", "uint8", "bool", "uint16", "uint32", "uint64", "float8_e4m3fn", "float8_e5m2",
          "float8_e4m3fnuz", "float8_e5m2fnuz")
NEW_DTYPES = ("float8_e8m0fnu", "float4_e2m1fn_x2")


def of_all(names):
    return {name: numbers((3, 5), getattr(torch, name), 1) for name in names if hasattr(torch, name)}


@state()
def dtypes(place):
    return of_all(DTYPES)


@state(since=(2, 9))
def dtypes_new(place):
    return of_all(NEW_DTYPES)


@state()
def layouts(place):
    cube = numbers((2, 3, 4, 5))
    return {"transposed": numbers((3, 4)).t(), "last": cube.contiguous(memory_format=torch.channels_last),
            "permuted": numbers((4, 5, 6)).permute(2, 0, 1), "slice": numbers((10, 4))[2:5],
            "column": numbers((6, 6))[:, 2], "expanded": numbers((1, 4)).expand(3, 4),
            "empty": torch.empty(0), "hollow": torch.empty(3, 0, 2), "thin": numbers((1, 1, 5)),
            "parameter": torch.nn.Parameter(numbers((3,))), "bits": numbers((2, 3), torch.bfloat16).t()}


@state()
def flags(place):
    def values(seed):
        return numbers((3, 2), torch.complex64, seed)
    return {"conj": values(1).conj(), "neg": torch._neg_view(numbers((3, 2), seed=1)),
            "both": torch._neg_view(values(2).conj()), "turned": values(3).t().conj(), "imag": values(4).conj().imag}


Pair = collections.namedtuple("Pair", "first second")


@state()
def values(place):
    tensor = numbers((2, 3))
    return {"int": 7, "long": 1 << 70, "minus": -5, "float": 0.1, "text": "grün ☃", "empty text": "",
            "none": None, "true": True, "false": False, "bytes": b"\x00\xff", "complex": 1 + 2j,
            "list": [1, "two", None, [3.0]], "nothing": [], "tuple": (1, (2,), ()), "tensors": (tensor, tensor[1:], "x"),
            "same": (tensor, tensor), "set": {3}, "range": range(3), "size": torch.Size([2, 3]), "dtype": torch.bfloat16,
            "device": torch.device("cpu"), "ordered": (collections.OrderedDict(a=1, b=tensor),),
            "open": {"a": {"b": {"c": 1}}}, "w": tensor, "shared": [1, [2]], "when": datetime.timedelta(days=1)}


@state()
def numpy_values(place):
    import numpy
    return {"array": numpy.arange(6, dtype=numpy.int16).reshape(2, 3), "number": numpy.float64(0.5),
            "random": numpy.random.RandomState(3).get_state(), "torch_random": torch.Generator().manual_seed(1).get_state(),
            "w": numbers((2,))}


@state()
def containers(place):
    tensor = numbers((2, 2))
    return {"ordered": collections.OrderedDict([("z", tensor), ("a", 1)]),
            "default": collections.defaultdict(list, {"k": [1, tensor], "j": [2]}),
            "hollow": {"ordered": collections.OrderedDict(), "default": collections.defaultdict(list), "dict": {}},
            "deep": [[tensor], [[{"x": 1}]]],
            "int keys": {0: {"a": tensor + 1}, 10: {"a": tensor + 2}, 2: {"a": 3}}}


@state()
def mappings(place):
    """Whatever is a mapping is opened."""
    return {"chain": collections.ChainMap({"a": 1}), "proxy": types.MappingProxyType({"a": numbers((3,))})}


@state()
def subclasses(place):
    return {"counter": collections.Counter("aab"), "user": collections.UserDict(a=numbers((2,)), b=1)}


@state()
def odd_keys(place):
    return {"keys": {True: 1, None: numbers((2,)), (1, 2): 3, 1.5: "x"}, 5: numbers((3,))}


@state(tied=True)
def tied(place):
    tensor = numbers((4, 3))
    return {"a": tensor, "b": tensor, "view": tensor[1:3], "turned": tensor.t(), "again": {"a": tensor}}


@state()
def names(place):
    tensor = numbers((2,))
    return {"model": {"layers.0.weight": tensor, "layers": {"1.weight": tensor + 1}, "": tensor + 2, "a b": tensor + 3},
            "grün.☃": tensor + 4, "𝒳": tensor + 5, "": {"": tensor + 6}, "tab\tnew\nline": 7, "/shard_0_16": tensor + 7,
            "long" * 1024: tensor + 8, "quote'\"\\": tensor + 9, "0": [tensor, 8], "../up": tensor, "a/b": 1}


@state()
def big(place):
    """Tensors of 64 KiB and more, which a split with --keep-whole cuts, and smaller ones."""
    return {"model": {"ten": numbers((10, 2000)), "five": numbers((5, 8000), torch.bfloat16),
                      "seven": numbers((7, 1500), torch.float64), "three": numbers((3, 3000), torch.int64),
                      "even": numbers((160, 128)), "nine": numbers((9, 8000), torch.uint8), "one": numbers((1, 20000)),
                      "vector": numbers((20001,)), "turned": numbers((33, 1000)).t(), "small": numbers((3, 3)),
                      "short": numbers((8, 9000), torch.float8_e4m3fn), "cube": numbers((4, 70, 71), torch.float16),
                      "complex": numbers((12, 1000), torch.complex64), "odd": numbers((5, 40000), torch.uint16)[:, 1:]},
            "step": torch.tensor(5), "epoch": 3, "lists": [numbers((2, 2)), {"a": 1}]}


@state()
def nothing(place):
    return {}


@state(single_file_per_rank=False)
def file_per_item(place):
    return trainer(place, "S0")


@state(thread_count=3)
def threads(place):
    return trainer(place, "S0")


@state(flatten=False)
def flat(place):
    return {"a.w": numbers((3, 2)), "b": numbers((4,)), "n": 5, "list": [1, {"x": 2}]}


def table():
    """The nesting rule, one state for every case; T is a tensor."""
    T = numbers((2, 3))
    return {"model": {"model": {"w": T}},
            "optimizer": {"optimizer": {"state": {0: {"step": T[0], "exp_avg": T}}}},
            "groups": {"optimizer": {"state": {0: {"step": T}}, "param_groups": [
                {"lr": .1, "betas": (.9, .99), "params": [0]}]}},
            "history": {"hist": [1, 2, 3], "elist": [], "t": T}, "tuple": {"tup": (T, T)}, "mixed": {"mix": [T, {"a": 1}]},
            "config": {"cfg": {"d": {"e": 1}}, "t": T}, "empty": {"empty": {}, "t": T}, "gap": {"l": [{}, 3], "t": T},
            "hollow": {"l": [{}], "t": T}, "list_of_tuple": {"l": [(T, 1)]}, "lists": {"l": [[1, 2], [T]]},
            "list_of_dict": {"l": [{"a": 1}, 3]}, "plain_lists": {"l": [[1, 2], [3]]}, "top_int": {0: T},
            "holes": {"l": [T, T + 1, T + 2, {"a": [T, {"b": [T]}]}]}}


def register_table():
    for name in table():
        STATES["table_" + name] = State("table_" + name, lambda place, name=name: table()[name], 1, (1,), {}, (2, 0))


register_table()


# ---- several processes ----

UNEVEN = ((10, 3), (5,), (7, 2), (4, 4, 4), (1, 6), (2, 5), (9,), (3, 1), (8, 2))


def uneven(place):
    state = {"x".join(map(str, shape)): place(numbers(shape, seed=number), "S0")
             for number, shape in enumerate(UNEVEN)}
    state["plain"] = numbers((3, 3), seed=1)
    state["scalar"], state["epoch"], state["text"] = torch.tensor(2.5), 4, "x"
    return {"model": state, "empty": place(torch.empty(0, 3), "S0"), "list": [place(numbers((6,)), "S0"), {"a": 1}]}


@state(world=2)
def uneven_2(place):
    return uneven(place)


@state(world=3)
def uneven_3(place):
    return uneven(place)


@state(world=4)
def uneven_4(place):
    return uneven(place)


@state(world=3, lowest=True)
def lowest_3(place):
    return uneven(place)


@state(world=2, single_file_per_rank=False)
def file_per_item_2(place):
    return trainer(place, "S0")


@state(world=2, thread_count=2)
def threads_2(place):
    return trainer(place, "S0")


@state(world=3)
def trainer_3(place):
    return trainer(place, "S0")


@state(world=4, mesh=(2, 2))
def trainer_4(place):
    return trainer(place, "R", "S0")


@state(world=2)
def columns_2(place):
    """Cut along other dimensions, with elements of all sizes and odd lengths of the rows."""
    sizes = (torch.uint8, torch.bfloat16, torch.float32, torch.float64, torch.complex128)
    rows = {"e%d" % number: place(numbers((5, 7, 3), dtype), "S1") for number, dtype in enumerate(sizes)}
    rows["last"] = place(numbers((3, 4, 5)), "S2")
    rows["wide"] = place(numbers((2, 1001), torch.float16), "S1")
    return rows


@state(world=3)
def columns_3(place):
    return columns_2(place)


@state(world=4)
def dtypes_4(place):
    return {name: place(tensor, "S0") for name, tensor in of_all(DTYPES).items()}


@state(world=2)
def transposed_2(place):
    """Every process writes a chunk whose rows are not in the order of memory."""
    return {"t": place(numbers((6, 5)), "S0", "turned"), "u": place(numbers((7, 4, 3)), "S0", "turned"),
            "b": place(numbers((5, 6), torch.bfloat16), "S1", "turned")}


@state(world=4, mesh=(2, 2))
def grid_4(place):
    return {"even": place(numbers((4, 6)), "S0", "S1"), "odd": place(numbers((5, 7), torch.bfloat16), "S0", "S1"),
            "other": place(numbers((5, 3, 7)), "S2", "S0"), "copies": place(numbers((3, 5)), "R", "S1"),
            "first": place(numbers((5, 3)), "S0", "R"), "all": place(numbers((2, 2)), "R", "R"), "n": 1}


@state(world=4, mesh=(2, 2))
def twice_4(place):
    """One dimension cut by both dimensions of the mesh."""
    return {"w": place(numbers((8, 3)), "S0", "S0"), "v": place(numbers((16,)), "S0", "S0")}


@state(world=4, mesh=(2, 2))
def strided_4(place):
    """As FSDP2 over tensor parallelism places it."""
    return {"w": place(numbers((8, 3)), "strided", "S0"), "v": place(numbers((4, 2), torch.bfloat16), "strided", "S0")}


@state(world=4)
def big_4(place):
    return {"w": place(numbers((130, 257)), "S0"), "c": place(numbers((67, 1001), torch.bfloat16), "S1"),
            "t": place(numbers((90, 300)), "S0", "turned"), "r": numbers((5000,), torch.float64)}


# ---- the same under other names ----

def keys(place, rename=lambda key: key):
    return {rename(key): placed(tensor, place, "S0") for key, tensor in trained()[0].state_dict().items()}


@state(world=2)
def keys_2(place):
    return keys(place)


@state(world=2)
def keys_module_2(place):
    return keys(place, lambda key: "module." + key)


@state(world=2)
def keys_compiled_2(place):
    return keys(place, lambda key: key.replace(".", "._orig_mod.", 1))


@state(world=2)
def keys_renamed_2(place):
    return keys(place, lambda key: key.replace("0.", "first.", 1))


@state(world=2)
def trainer_2(place):
    return trainer(place, "S0")


@state(world=2)
def trainer_module_2(place):
    value = trainer(place, "S0")
    value["model"] = {"module." + key: tensor for key, tensor in value["model"].items()}
    return value


# ---- rank-local indexes, and what makes tensors of its own ----

@state(world=2, since=(2, 9), collectives=False)
def rank_local_2(place):
    return uneven(place)


@state(world=3, since=(2, 9), collectives=False)
def rank_local_3(place):
    return trainer(place, "S0")


@state(world=1, since=(2, 9), collectives=False)
def rank_local_1(place):
    return trainer(place, "S0")


def sharded(place, bounds):
    """ShardedTensors, as FSDP1 saves them; not every process has rows."""
    if place is whole:
        return {"model": {"w": numbers((bounds[-1], 3)), "n": 1}}
    return {"model": {"w": place.rows(numbers((bounds[-1], 3)), bounds), "n": 1}}


@state(world=2, since=(2, 0))
def sharded_2(place):
    return sharded(place, (0, 3, 5))


@state(world=3)
def sharded_3(place):
    return sharded(place, (0, 4, 8, 8))


@state(world=2, since=(2, 14), built=True)
def fsdp_2(place):
    """FSDP2 with Adam, after two steps."""
    from torch.distributed.checkpoint.state_dict import get_state_dict
    from torch.distributed.fsdp import fully_shard
    torch.manual_seed(3)
    model = torch.nn.Sequential(torch.nn.Linear(7, 10), torch.nn.Tanh(), torch.nn.Linear(10, 5))
    for layer in (model[0], model[2], model):
        fully_shard(layer, mesh=place.mesh)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    for step in range(2):
        optimizer.zero_grad()
        model(torch.ones(4, 7) * step).sum().backward()
        optimizer.step()
    model_state, optimizer_state = get_state_dict(model, optimizer)
    return {"model": model_state, "optimizer": optimizer_state, "epoch": 1}

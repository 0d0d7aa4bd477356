# SPDX-License-Identifier: Apache-2.0
"""Random objects as plans: what an object is made of, as JSON, so that it can be built by any torch and made smaller.

A plan is {"seed", "protocol", "nodes": [[kind, detail, [nodes it is made of]], ...], "late": [[into, node], ...]}. The last node is the object;
a node is made of ones before it, so one may be part of several. LATE are put into containers when all is built: circles come
from there. random_build.py builds objects from plans; nothing here needs torch.
"""
import random

TEXTS = ("", "a", "w", "é", "\x80", "ab", "weight", "bias", "module", "module.", "module.weight", "module.0.bias", "module.a", "a.b", "state", "param_groups",
         "params", "lr", "step", "exp_avg", "name", "value", "note", "torch", "collections", "OrderedDict", "_rebuild_tensor_v2", "datetime", "builtins", "cpu",
         "cuda:0", "storage", "FloatStorage", "latin1", "numpy", "f4", "<", "слой", "\U0001f600", "x" * 255, "y" * 256, "with space", "data", "0", "None", "_metadata", "version",
         "model_state_dict", "optimizer", "epoch", "args", "RED", "big", "little", "training", "fold")
INTS = (0, 1, 2, 3, 7, 8, 16, 31, 32, 64, 127, 128, 255, 256, 257, 65535, 65536, 2**31 - 1, 2**31, -2**31, -1, -2, -128, -129, 2**32, 2**61 - 1, 2**63 - 1, 2**63, -2**63, 2**64, 10**30, 2**2040)
FLOATS = (0.0, -0.0, 1.0, 0.1, -1.5, 1e-320, 1e308, 2.0**53, 3.0)
DTYPES = ("float32", "float32", "float32", "float64", "float16", "bfloat16", "int64", "int64", "int32", "int16", "int8", "uint8", "bool", "complex64", "complex128")
NEW_DTYPES = {"float8_e5m2": (2, 6), "float8_e4m3fn": (2, 6), "float8_e4m3fnuz": (2, 6), "float8_e8m0fnu": (2, 14), "float4_e2m1fn_x2": (2, 14), "uint16": (2, 6), "uint32": (2, 6),
              "uint64": (2, 6), "complex32": (2, 6), "bits8": (2, 6), "bits16": (2, 6)}
SHAPES = ([], [0], [1], [2], [5], [2, 3], [1, 1], [3, 0], [2, 1, 2], [7, 3])
VIEWS = ("same", "t", "row", "flat", "first", "empty", "expand", "detach", "step", "unsqueeze", "as_bytes", "as_int32", "real", "imag", "conj", "neg", "parameter", "data", "clone")
NUMPY = ("bool", "i1", "u1", "i2", "i4", "u4", "i8", "u8", "f2", "f4", "f8", "c8", "c16", ">f4", ">i8", ">u2", "U2", ">U2", "S3", "O", "M8[D]", "m8[ns]", "record", "V4")
# storage classes and masked arrays are left out: exceptions.txt has them, and objects_found.py and objects_numpy.py try them
GLOBALS = ("torch.nn.functional:relu", "torch:relu", "torch:add", "torch:sum", "torch:Tensor", "torch.nn:Linear", "torch.optim:SGD", "builtins:int", "builtins:dict", "builtins:len",
           "collections:OrderedDict", "datetime:datetime", "numpy:float32", "numpy:ndarray", "user_types:function", "user_types:Plain", "user_types:Outer.Inner", "math:sin", "operator:itemgetter",
           "torch:device", "torch:Size", "torch.nn:Parameter", "builtins:ValueError", "os.path:join", "functools:partial", "torch:save", "torch:dtype", "collections:defaultdict", "torch:nn")
TORCH_VALUES = ("float32", "float16", "int64", "bool", "strided", "sparse_coo", "per_tensor_affine", "qint8", "complex64")
TIMES = ("date", "datetime", "time", "fold", "time_fold", "timedelta", "utc", "zone", "aware")
STDLIB = ("decimal", "fraction", "uuid", "path", "pure_path", "pattern", "ip", "namespace", "itemgetter", "attrgetter", "methodcaller", "exception", "random_state", "array", "simple_namespace", "struct_time",
          "iterator", "list_iterator", "enumerate", "counter_from", "user_dict", "user_list", "user_string", "chain_map", "memoryview_bytes", "lru", "ellipsis_class", "map_error", "zoneinfo")
MODULES = ("linear", "sequential", "norm", "conv", "relu", "embedding", "lstm", "net", "loss", "dropout", "transformer", "parameter_list", "parameter_dict", "module_dict")
OPTIMIZERS = ("SGD", "Adam", "AdamW", "Adagrad", "Adadelta", "Adamax", "RMSprop", "Rprop", "ASGD", "LBFGS", "NAdam", "RAdam", "SparseAdam")
SCHEDULERS = ("StepLR", "MultiStepLR", "ExponentialLR", "CosineAnnealingLR", "LambdaLR", "CyclicLR", "OneCycleLR", "ReduceLROnPlateau", "LinearLR", "SequentialLR")
ENUMS = ("Color.RED", "Color.GREEN", "Level.LOW", "Level.HIGH", "Access.READ", "Access.BOTH")
OBJECTS = ("Plain", "Slots", "SlotsAndDict", "GetState", "NewArgs", "NewArgsEx", "ReduceAll", "HoldsItself", "Registered", "Inner", "Config", "FrozenConfig", "Point", "Pair",
           "GivesItsArgs", "GivesArgsAlone", "ErrorWithItsArgs", "ErrorBesideItsArgs")
CHILDREN = ("IntChild", "StrChild", "FloatChild", "BytesChild", "TupleChild", "ListChild", "DictChild", "OrderedChild", "SetChild")


def number(r):
    return r.choice(INTS) if r.random() < .7 else r.randrange(-300, 3000)


def text(r):
    return [r.choice(TEXTS) if r.random() < .85 else "k%d" % r.randrange(50), r.random() < .5]


def tensor(r, torch):
    dtypes = DTYPES + tuple(name for name, since in NEW_DTYPES.items() if torch >= since and r.random() < .3)
    return {"dtype": r.choice(dtypes), "shape": r.choice(SHAPES), "grad": r.random() < .1, "parameter": r.random() < .15, "device": r.choice(("cpu",) * 7 + ("cuda:0", "cuda:1", "meta"))}


def odd_tensor(r, torch):
    kinds = ["coo", "coo_coalesced", "coo_empty", "quantized", "quantized_channels", "child", "noted", "uninitialized"]
    kinds += ["csr"] if torch >= (1, 13) else []
    kinds += ["csc", "nested", "buffer", "jagged"] if torch >= (2, 6) else []
    return r.choice(kinds)


# kind: (how often, detail(r, torch), least and most parts, what parts it takes)
LEAVES = {
    "none": (3, lambda r, t: None), "bool": (4, lambda r, t: r.random() < .5), "int": (10, lambda r, t: number(r)), "float": (5, lambda r, t: r.choice(FLOATS)),
    "odd_float": (1, lambda r, t: r.choice(("nan", "inf", "-inf"))), "complex": (1, lambda r, t: r.choice(("1+2j", "0j", "-1j"))), "str": (18, lambda r, t: text(r)),
    "bytes": (3, lambda r, t: r.choice(("", "61", "ff00", "80", "00" * 300, "e9"))), "bytearray": (2, lambda r, t: r.choice(("", "61", "ff00"))),
    "range": (1, lambda r, t: [0, number(r) % 100, r.choice((1, 2))]), "ellipsis": (1, lambda r, t: r.random() < .5), "slice": (1, lambda r, t: None),
    "tensor": (22, tensor), "odd_tensor": (4, odd_tensor), "storage": (2, lambda r, t: [r.choice(DTYPES), r.choice((0, 1, 4))]), "torch_value": (3, lambda r, t: r.choice(TORCH_VALUES)),
    "size": (2, lambda r, t: r.choice(SHAPES)), "device": (1, lambda r, t: r.choice(("cpu", "cuda", "cuda:1"))), "generator": (1, lambda r, t: None), "torch_version": (1, lambda r, t: None),
    "numpy": (6, lambda r, t: [r.choice(NUMPY), r.choice(([], [0], [1], [4], [2, 3])), r.choice(("C", "F", "step"))]), "numpy_scalar": (3, lambda r, t: r.choice(NUMPY)),
    "numpy_dtype": (2, lambda r, t: r.choice(NUMPY)), "numpy_state": (1, lambda r, t: r.choice(("legacy", "dict", "matrix"))), "global": (5, lambda r, t: r.choice(GLOBALS)),
    "time": (4, lambda r, t: r.choice(TIMES)), "stdlib": (6, lambda r, t: r.choice(STDLIB)), "enum": (3, lambda r, t: r.choice(ENUMS)), "module": (2, lambda r, t: r.choice(MODULES)),
    "state_dict": (6, lambda r, t: [r.choice(MODULES), r.choice(("", "module.")), r.choice(("ordered", "plain", "vars", "bare"))]),
    "optimizer": (2, lambda r, t: [r.choice(OPTIMIZERS), r.choice((0, 1, 2))]), "optimizer_state": (4, lambda r, t: [r.choice(OPTIMIZERS), r.choice((0, 1, 2))]),
    "scheduler": (2, lambda r, t: [r.choice(SCHEDULERS), r.random() < .3]),
}
# kind: (how often, detail, least parts, most parts, which parts: any, hashable, pairs of both, tensor)
PARTS = {
    "list": (10, lambda r, t: None, 0, 6, "any"), "tuple": (8, lambda r, t: None, 0, 5, "any"), "dict": (14, lambda r, t: None, 0, 6, "pairs"), "ordered": (8, lambda r, t: None, 0, 6, "pairs"),
    "named": (8, lambda r, t: r.choice(("dict", "ordered")), 1, 6, "named"), "defaultdict": (2, lambda r, t: r.choice(("list", "int", None)), 0, 4, "pairs"), "counter": (1, lambda r, t: None, 0, 4, "hashable"),
    "set": (4, lambda r, t: None, 0, 6, "hashable"), "frozenset": (2, lambda r, t: None, 0, 5, "hashable"), "deque": (2, lambda r, t: r.choice((None, 3)), 0, 4, "any"),
    "int_set": (2, lambda r, t: [r.randrange(-5, 90) for _ in range(r.randrange(1, 9))], 0, 0, "any"), "view": (8, lambda r, t: r.choice(VIEWS), 1, 1, "tensor"),
    "storage_of": (2, lambda r, t: r.choice(("typed", "untyped")), 1, 1, "tensor"), "attributes": (2, lambda r, t: r.choice(("weight", "version", "state")), 2, 2, "on_tensor"),
    "object": (6, lambda r, t: r.choice(OBJECTS), 3, 3, "any"), "child": (4, lambda r, t: r.choice(CHILDREN), 2, 3, "any"), "partial": (2, lambda r, t: r.choice(GLOBALS[:4] + ("user_types:function",)), 0, 3, "any"),
    "method": (1, lambda r, t: None, 1, 1, "any"), "like_optimizer": (2, lambda r, t: None, 2, 2, "any"), "many": (1, lambda r, t: r.choice((256, 300, 1001)), 1, 1, "any"),
    "deep": (1, lambda r, t: [r.choice(("list", "dict", "tuple")), r.choice((5, 40, 200))], 1, 1, "any"), "object_array": (1, lambda r, t: None, 1, 3, "any"),
}
HASHABLE = {"none", "bool", "int", "float", "complex", "str", "bytes", "ellipsis", "enum", "size", "global", "time", "frozenset", "torch_value", "range"}
TENSORS = {"tensor", "view"}


def is_hashable(nodes, index):
    kind, _, parts = nodes[index]
    return kind in HASHABLE or (kind == "tuple" and all(is_hashable(nodes, part) for part in parts))


def make(seed, torch):
    """The plan of SEED, for the generation TORCH, such as (2, 14)."""
    r = random.Random("%d %d.%d" % (seed, *torch))
    nodes = []
    size = r.choice((1, 2, 3, 4, 6, 8, 12, 16, 24))
    for _ in range(size):
        nodes.append(leaf(r, torch))
        while r.random() < .45:
            nodes.append(whole(r, torch, nodes))
    top = r.choice(("dict", "ordered", "list", "named", "tuple", "dict"))
    unused = sorted(set(range(len(nodes))) - {part for node in nodes for part in node[2]})
    nodes.append(["str", ["top", False], []])
    if len(unused) > 1 or r.random() < .5:
        extra = [r.randrange(len(nodes) - 1) for _ in range(r.choice((0, 0, 1, 2)))]
        parts = unused + extra
        r.shuffle(parts)
        detail = "ordered" if top == "named" else None
        nodes.append([top, detail, named(r, nodes, parts) if top in ("dict", "ordered", "named") else parts])
    else:
        nodes.pop()
    late = []
    if r.random() < .2:
        into = [i for i, node in enumerate(nodes) if node[0] in ("list", "dict", "ordered", "deque", "object", "view", "tensor")]
        late = [[r.choice(into), r.randrange(len(nodes))] for _ in range(r.choice((1, 1, 2))) if into]
    return {"seed": seed, "protocol": r.choice((2, 2, 2, 2, 2, 2, 3, 4, 5)), "nodes": nodes, "late": late}


def leaf(r, torch):
    kind = r.choices(list(LEAVES), [row[0] for row in LEAVES.values()])[0]
    return [kind, LEAVES[kind][1](r, torch), []]


def named(r, nodes, values):
    """Pairs of a text, which becomes a node, and each value."""
    pairs = []
    for value in values:
        nodes.append(["str", text(r), []])
        pairs += [len(nodes) - 1, value]
    return pairs


def whole(r, torch, nodes):
    """A node that is made of some of NODES."""
    kind = r.choices(list(PARTS), [row[0] for row in PARTS.values()])[0]
    _, detail, least, most, takes = PARTS[kind]
    count = r.randint(least, most)
    everyone = list(range(len(nodes)))
    recent = everyone[-6:] if r.random() < .7 else everyone
    hashable = [i for i in everyone if is_hashable(nodes, i)]
    tensors = [i for i in everyone if nodes[i][0] in TENSORS]
    if takes == "tensor" or takes == "on_tensor":
        if not tensors:
            return leaf(r, torch)
        return [kind, detail(r, torch), [r.choice(tensors)] + ([r.choice(everyone)] if takes == "on_tensor" else [])]
    if takes in ("hashable", "pairs") and not hashable:
        return leaf(r, torch)
    if kind in ("set", "frozenset"):     # of texts and objects the order is another one in every process
        numbers = [i for i in hashable if nodes[i][0] in ("int", "bool", "float")]
        return [kind, None, [r.choice(numbers) for _ in range(count)] if numbers and r.random() < .7 else [r.choice(hashable)]]
    if takes == "hashable":
        return [kind, detail(r, torch), [r.choice(hashable) for _ in range(count)]]
    if takes == "pairs":
        return [kind, detail(r, torch), [part for _ in range(count) for part in (r.choice(hashable), r.choice(recent))]]
    parts = [r.choice(recent) for _ in range(count)]
    if takes == "named":
        parts = named(r, nodes, parts)
    return [kind, detail(r, torch), parts]


# ---- smaller ones ----

def without_unused(plan):
    """The plan without nodes that the last one does not reach."""
    nodes, reached, todo = plan["nodes"], set(), [len(plan["nodes"]) - 1]
    while todo:
        index = todo.pop()
        if index not in reached:
            reached.add(index)
            todo += nodes[index][2] + [node for into, node in plan["late"] if into == index]
    number_of = {old: new for new, old in enumerate(sorted(reached))}
    return dict(plan, nodes=[[nodes[old][0], nodes[old][1], [number_of[part] for part in nodes[old][2]]] for old in sorted(reached)],
                late=[[number_of[into], number_of[node]] for into, node in plan["late"] if into in reached])


def cuts(plan):
    """Plans that lack something that PLAN has, those that lack most first."""
    nodes, last = plan["nodes"], len(plan["nodes"]) - 1

    def changed(index, node):
        return dict(plan, nodes=nodes[:index] + [node] + nodes[index + 1:])

    if not plan["late"]:
        for part in sorted(set(nodes[last][2]), reverse=True):    # a part alone
            yield dict(plan, nodes=nodes[:part + 1])
    for index in range(len(plan["late"])):
        yield dict(plan, late=plan["late"][:index] + plan["late"][index + 1:])
    for index in range(last, -1, -1):
        kind, detail, parts = nodes[index]
        step = 2 if kind in ("dict", "ordered", "named", "defaultdict") else 1
        fixed = kind in PARTS and PARTS[kind][2] == PARTS[kind][3]
        if not fixed and len(parts) > 2 * step:
            half = len(parts) // (2 * step) * step
            yield changed(index, [kind, detail, parts[:half]])
            yield changed(index, [kind, detail, parts[half:]])
        for at in range(0, 0 if fixed else len(parts), step):
            yield changed(index, [kind, detail, parts[:at] + parts[at + step:]])
        if kind not in ("none", "int", "str") and index != last:
            yield changed(index, ["none", None, []])
        if parts and index != last and kind != "list":
            yield changed(index, ["list", None, parts])
    if plan["protocol"] != 2:
        yield dict(plan, protocol=2)


def smaller(plan):
    """Each of cuts(), without what is unused, if it is smaller indeed."""
    seen = set()
    for cut in cuts(plan):
        cut = without_unused(cut)
        key = repr(cut)
        if key not in seen and weight(cut) < weight(plan):
            seen.add(key)
            yield cut


def weight(plan):
    return len(plan["nodes"]) * 4 + sum(len(node[2]) for node in plan["nodes"]) + sum(node[0] not in ("none", "list") for node in plan["nodes"]) + len(plan["late"]) * 3 + (plan["protocol"] != 2)


def kinds(plan):
    """{kind or kind:detail} of all nodes, for exceptions.txt."""
    found = set()
    for kind, detail, parts in plan["nodes"]:
        found.add(kind)
        if detail in ("NewArgs", "NewArgsEx") and any(plan["nodes"][part][0] == "storage" and not plan["nodes"][part][1][1] for part in parts[:2]):
            found.add("empty_storage_repeated") # in the arguments, and in the state
        for part in detail if isinstance(detail, list) else [detail]:
            if isinstance(part, str) and kind != "str":
                found.add("%s:%s" % (kind, part))
    for into, _ in plan["late"]:
        found.add("late:" + plan["nodes"][into][0])
    return found | {"p%d:%s" % (plan["protocol"], kind) for kind in found} | {"legacy:" + kind for kind in found if plan.get("legacy")}

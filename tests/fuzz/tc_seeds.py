# SPDX-License-Identifier: Apache-2.0
"""Makes what fuzz_tc begins with, as tests/dcp does, without torch: the data files that lie beside each input, and inputs.

    python3 tests/fuzz/tc_seeds.py FILES SEEDS

FILES is tests/fuzz/tc; SEEDS may be any folder, from which pack.py takes into the corpus what it does not have.
Inputs that were found before depend on the files: new ones are to be added, and none to be changed.
"""

from collections import OrderedDict
import os
import pickle
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "dcp"))

from cases_tc import LAYOUTS, W as PATH, WRONG, at, small  # noqa: E402
from dcp_build import Call, Global, Tensor, numbered  # noqa: E402
from tc_build import (R, S, Checkpoint, Mesh, View, boxes, described, device_mesh, dtensor, local_of,  # noqa: E402
                      mesh_layout, numbered_ranks, spec, torch_save)

W = numbered("float32", (5, 3))
B = numbered("int64", (3,))
HALF = numbered("bfloat16", (8, 6), 1)
BYTE = numbered("float8_e4m3fn", (8,), 2)
LONG = numbered("uint8", (130,))
EMPTY = Tensor("float32", (0, 2, 3), b"")
SCALAR = numbered("float64", ())
TEXTS = ["tab\t\n\"\\/", "gr\u00fcn", "\U0001d4b3", "\ud800", "\ud800x", "", "\x7f"]
LINE, GRID, ONE = Mesh((2,)), Mesh((2, 2)), Mesh((1,))
VERSIONS = ("2.0", "1.0", None)
RANKS = numbered_ranks((2,))


# ---- the data files ----

def model(rank):
    """Two ranks have it; what goes by other names is only for those who look for it."""
    w, own = (local_of(W, LINE, [S(0)], rank) for _ in range(2))
    half, new = (local_of(HALF, LINE, [S(1)], rank) for _ in range(2))
    one = View(w, (3, 1))
    shared = {"w": w}
    state = {"w": w, "b": B, "half": half, "byte": local_of(BYTE, LINE, [S(0)], rank), "empty": EMPTY, "scalar": SCALAR,
             "long": LONG.box((65 * rank,), (65,)), "tied": one, "view": View(w, (3, 1)), "again": one,
             "turned": View(half, (1, half.shape[0])),
             "own": dtensor(own, W, spec(device_mesh(RANKS, listed=(0, 1)), S(0))),
             "new": dtensor(new, HALF, spec(device_mesh(RANKS, mesh_layout(shape=(2,), stride=(1,))), S(1))),
             "list": [0, w, (w, 1)] + [w] * rank, "one": shared, "two": shared, "n": rank, "kind": [1] if rank else 2,
             0: w, -3: w, "a.b": w, "\u2603": B, "of%d" % rank: B, 1.5: w, True: 1, None: w, (1, 2): w,
             "ordered": OrderedDict([("x", 1), ("of%d" % rank, 2)]), "differs": numbered("int16", (2,), rank)}
    return state


def optimizer(rank):
    """Four ranks, a grid."""
    return {"state": {0: {"exp_avg": local_of(W, GRID, [S(0), S(1)], rank), "step": SCALAR},
                      1: {"exp_avg": local_of(HALF, GRID, [S(0, 2), S(0)], rank)},
                      2: {"exp_avg": local_of(W, GRID, [R, S(0)], rank)}},
            "param_groups": [{"lr": .1, "params": [0, 1, 2]}]}


def kinds():
    """Tensors that are no plain ones."""
    def utils(name, *arguments):
        return Call(Global("torch._utils", "_rebuild_" + name), *arguments)
    layout = Call(Global("torch.serialization", "_get_layout"), "torch.sparse_coo")
    meta = utils("meta_tensor_no_storage", Global("torch", "float32"), (5, 3), (3, 1), False)
    return {"w": utils("parameter", W, True, Call(Global("collections", "OrderedDict"))), "meta": meta,
            "sparse": utils("sparse_tensor", layout, (numbered("int64", (1, 2)), numbered("float32", (2,)), (9,))),
            "lazy": Call(Global("torch.nn.parameter", "UninitializedParameter"))}


def deep(levels):
    value = dtensor(W, W)
    for _ in range(levels):
        value = [value]
    return value


def wrapped():
    """DTensors that do not say how they are spread, or otherwise than model's; each in a file of its own."""
    meta, far = kinds()["meta"], View(Tensor("int64", (0,), b""), (1,), (1 << 61) - 1, RANKS)
    mesh, flat = device_mesh(RANKS), mesh_layout(shape=(2,), stride=(1,))
    one = mesh_layout(axes=(flat, mesh_layout(shape=(), stride=())))
    meshes = {"strided": (mesh, S(0, 2)), "unplaced": (mesh,), "far": (mesh, S(7)), "partial": (mesh, ("Partial",)),
              "other": (device_mesh(RANKS, listed=(8, 9)), S(0)), "axes": (device_mesh(RANKS, one), S(0), R),
              "meta-mesh": (device_mesh(meta), S(0)), "layout": (device_mesh(meta, flat), S(0)),
              "nowhere": (device_mesh(far, flat), S(0))}
    return {"meta": dtensor(meta, W), "none": dtensor(None, W), "seven": dtensor(7, W), "mine": dtensor(W, W, 7),
            "unspread": dtensor(W, W), "plain": W, "local": dtensor(meta, W, spec(mesh, S(0))),
            "dtype": dtensor(HALF, HALF, spec(mesh, S(0))),
            **{name: dtensor(local_of(W, LINE, [S(0)], 1), W, spec(*arguments)) for name, arguments in meshes.items()}}


def odd_files():
    """What an input has to name to get it."""
    odd = {"kinds": kinds(), "bare0": local_of(W, LINE, [S(0)], 0), "bare1": local_of(W, LINE, [S(0)], 1),
           "shape": {"w": B, "b": W, "list": [0, W, (W, 1, 2)], "one": [1], "two": {"w": W}, "n": W, "scalar": {"x": 1}},
           "dtype": {"w": numbered("int32", (2, 3))}, "list0": [W, [1]], "list1": [W, [1, W], W, {"x": B}],
           "texts": {key: W for key in TEXTS}, "deep": deep(80), "value": "text", "cut": None}
    odd.update(("wrapped-" + name, {"w": value, "own": value}) for name, value in wrapped().items())
    return odd


def write_files(folder):
    files = {"odd/%s.pt" % name: value for name, value in odd_files().items()}
    files.update(("model_%d.pt" % rank, model(rank)) for rank in range(2))
    files.update(("optimizer_%d.pt" % rank, optimizer(rank)) for rank in range(4))
    files.update({"step_0.pt": 5, "notes.txt": "left out"})
    os.makedirs(os.path.join(folder, "odd"), exist_ok=True)
    for name, value in files.items():
        with open(os.path.join(folder, name), "wb") as out:
            out.write(torch_save(value)[:200 if value is None else None])


# ---- the inputs: {name: Checkpoint}, of which only the metadata are written ----

BOTH = (0, 1)


def over(world):
    return Checkpoint(".", world)


def one_of(world, path, metadata, ranks, item="model"):
    return over(world).place(item, path, metadata, ranks)


def sound():
    line, grid, absent, texts = over(2), over(4), over(8), over(2).layout("t", 0, "odd/texts.pt")
    for name in ("w", "tied", "view", "again", "own", "a.b", 0, -3):
        line.place("model", (name,), described(W, LINE, [S(0)]), BOTH)
    for name, tensor, placement in (("half", HALF, S(1)), ("turned", HALF, S(1)), ("byte", BYTE, S(0)), ("b", B, R),
                                    ("\u2603", B, R), ("empty", EMPTY, R), ("scalar", SCALAR, R)):
        line.place("model", (name,), described(tensor, LINE, [placement]), BOTH)
    for path in (("list", 1), ("list", 2, 0), ("one", "w"), ("two", "w")):
        line.place("model", path, described(W, LINE, [S(0)]), BOTH)
    for number, (tensor, placements) in enumerate(((W, [S(0), S(1)]), (HALF, [S(0, 2), S(0)]), (W, [R, S(0)]))):
        grid.place("optimizer", ("state", number, "exp_avg"), described(tensor, GRID, placements), range(4))
    grid.place("optimizer", ("state", 0, "step"), described(SCALAR, GRID, [R, R]), range(4))
    absent.place("optimizer", ("state", 2, "exp_avg"), described(W, Mesh((4, 2)), [R, S(0)]), range(8))
    absent.place("model", ("b",), described(B, Mesh((8,)), [R]), range(8))
    for text in TEXTS:
        texts.place("t", (text,), described(W, ONE, [R]), [0])
    beside = one_of(2, ("w",), described(W, LINE, [S(0)]), BOTH).layout("config", 0, "config.json", "JsonSerialization")
    return {"line": line, "grid": grid, "absent": absent, "texts": texts, "beside": beside, "nothing": over(2)}


def in_boxes():
    apart = one_of(2, ("w",), boxes(W, ((0, 0), (0, 0), (3, 3))), [0])
    apart.place("model", ("w",), boxes(W, ((3, 1), (0, 1), (2, 2)), ((3, 0), (0, 0), (2, 1))), [1])
    for rank in BOTH:
        apart.place("model", ("scalar",), boxes(SCALAR, ((), (), ())), [rank])
        apart.place("model", ("empty",), boxes(EMPTY), [rank])
        apart.place("model", ("differs",), described(numbered("int16", (2,)), ONE, [R]), [rank])
    first = boxes(W, ((0, 0), (0, 0), (2, 3)))
    overlap = one_of(2, ("w",), first, [0]).place("model", ("w",), boxes(W, ((1, 0), (0, 0), (2, 3))), [1])
    return {"boxes": apart, "overlap": overlap, "hole": one_of(3, ("w",), first, BOTH),
            "absent-part": one_of(3, ("w",), first, range(3)),
            "no-items": one_of(2, ("empty",), boxes(Tensor("float32", (0, 1 << 61, 4), b"")), BOTH)}


def named():
    """Files under other names than theirs."""
    bare = one_of(2, (), described(W, LINE, [S(0)]), BOTH, "bare")
    several = one_of(2, (0,), described(W, ONE, [R]), [0], "list")
    several.place("list", (0,), described(W, Mesh((1,), (1,)), [R]), [1])
    for rank in BOTH:
        bare.layout("bare", rank, "odd/bare%d.pt" % rank)
        several.layout("list", rank, "odd/list%d.pt" % rank)
    made = {"bare": bare, "list": several}
    for name, whole in (("w", W), ("meta", W), ("sparse", numbered("float32", (9,))), ("lazy", numbered("float32", ()))):
        made["kind-" + name] = one_of(2, (name,), described(whole, ONE, [R]), [0], "kinds")
        made["kind-" + name].layout("kinds", 0, "./odd//kinds.pt")
    return made


def with_odd(name):
    """The file for one rank's, described and not, and for an item of its own."""
    path, made = "odd/%s.pt" % name, {}
    for rank in BOTH:
        made["%s-%d" % (name, rank)] = one_of(2, ("w",), described(W, LINE, [S(0)]), BOTH).layout("model", rank, path)
    for item, rank in (("model", 1), ("x", 0)):
        made["%s-%s" % (name, item)] = over(2).layout(item, rank, path)
        made["%s-%s" % (name, item)].places[item] = {}
    return made


def cut():
    """Meshes that fit, and others."""
    table = [("byte", BYTE, [S(0, 2)], LINE), ("byte", BYTE, [S(0, 65)], LINE), ("long", LONG, [S(0, 65)], LINE),
             ("long", LONG, [S(0, 13)], LINE), ("half", HALF, [S(1, 2)], Mesh((1, 2))),
             ("byte", BYTE, [S(0, 2), S(0)], GRID), ("w", W, [R, S(0)], Mesh((1, 2))),
             ("w", W, [S(1), S(0)], Mesh((1, 2))), ("w", W, [], Mesh(())), ("w", W, [S(0)], Mesh((2,), (1, 2)))]
    return {"cut-%d" % number: one_of(4, (name,), described(tensor, mesh, placements), BOTH)
            for number, (name, tensor, placements, mesh) in enumerate(table)}


def contradicting():
    good = described(W, LINE, [S(0)])
    table = [
        (described(W, ONE, [S(0)]), BOTH), (good, [0]), (described(B, LINE, [S(0)]), [1]),
        (boxes(B, ((0,), (0,), (3,))), BOTH), (described(B, LINE, [R]), BOTH), (described(W, LINE, [R]), BOTH)]
    made = {"other-%d" % number: one_of(2, ("w",), *one) for number, one in enumerate(table)}
    for number, path in enumerate(((), (3, "w"), ("model", 0, -7, "a.b"))):
        made["path-%d" % number] = one_of(2, path, good, BOTH)
    made["two-shapes"] = one_of(2, ("w",), good, BOTH).place("model", ("w",), described(B, LINE, [R]), [])
    copies = made["copies"] = one_of(2, ("b",), described(B, LINE, [R]), BOTH)
    copies.layout("model", 0, "model_1.pt").layout("model", 1, "odd/shape.pt")
    return made


def checkpoints():
    made = {**sound(), **in_boxes(), **named(), **cut(), **contradicting()}
    for name in ("kinds", "shape", "dtype", "value", "cut", "deep", *("wrapped-" + name for name in wrapped())):
        made.update(with_odd(name))
    return made


# ---- one thing changed, beyond what cases_tc changes ----

RANKED, SHARDING = "rank_to_layout_info_mappings", PATH + (0, "sharding_metadata")
CONFIG = {"file_path": "config.json", "serialization_format": {"type": "JsonSerialization"}}
NAMED = {"file_path": "model_0.pt", "serialization_format": {"type": "TorchSerialization"}}
BOX = boxes(W, ((0, 0), (0, 0), (3, 3)))["data"]
MORE = [
    ("2.0", LAYOUTS + (1,), CONFIG), ("2.0", LAYOUTS, {0: NAMED, 1: NAMED}), ("2.0", LAYOUTS, {"0": NAMED, "1": None}),
    ("2.0", LAYOUTS, {0: NAMED, "0": dict(NAMED, file_path="odd/bare0.pt")}),
    ("2.0", LAYOUTS + (1,), dict(NAMED, file_path="../x")), ("2.0", LAYOUTS + (1,), dict(NAMED, file_path=None)),
    ("2.0", PATH[:3] + ('["no"]',), [{"ranks": (9, "x", -1, 1)}]), ("2.0", PATH + (0, "ranks"), [1]),
    ("2.0", ("metadata", "none"), {"nested_path_to_metadata": {"[]": []}, "rank_to_layout_info": {}}),
    ("2.0", ("metadata", "empty"), {"nested_path_to_metadata": {}, "rank_to_layout_info": {}}),
    ("1.0", (RANKED,), None), ("1.0", (RANKED, 0), None), ("1.0", (RANKED, 0), {7: None}), ("1.0", (RANKED, 0), {"": None}),
    ("1.0", (RANKED, 0), {"model": 5}), ("1.0", (RANKED, "1"), {"model": NAMED}), ("1.0", (RANKED, 0, "config"), CONFIG),
    ("1.0", (RANKED,), {"0": {"model": None}}),
]
for name, value in (("dtype", BOX["dtype"]), ("local_sizes", 5), ("local_sizes", [[3]]), ("local_offsets", [[1, 0]]),
                    ("global_offsets", []), ("global_offsets", [5]), ("global_offsets", [[4, 0]]),
                    ("global_offsets", [[0, "0"]]), ("global_shape", [5, 3, 1]), ("global_shape", [1 << 40, 1 << 40])):
    MORE.append(("2.0", SHARDING, {"type": "default_tensor_v1", "data": {**BOX, name: value}}))
for text in ("[]", "[0]", "null", '["model"', ' [ "model" ,\t"\\u2603" ]', '["model","\\ud83D\\uDE00\\b"]',
             '["model","\\ud83d\\u0041\\u00Ae"]', '["model","\\u00g0"]', '["model","\\', '["model",-0]', '["model",- 1]'):
    MORE.append(("1.0", ("metadata", text), []))


def changed(version, where, what):
    data = small(".").metadata(version).data
    if not where:
        return what
    into, key = at(data, *where)
    into[key] = what
    return data


def write_seeds(folder):
    os.makedirs(folder, exist_ok=True)

    def write(name, data, protocol=4):
        with open(os.path.join(folder, name), "wb") as out:
            out.write(pickle.dumps(data, protocol))
    for name, checkpoint in checkpoints().items():
        for version in VERSIONS:
            write("%s-%s" % (name, version), checkpoint.metadata(version).data, 4 if version else 2)
    for number, change in enumerate([("2.0", *one[:2]) for one in WRONG] + MORE):
        write("wrong-%d" % number, changed(*change))


if __name__ == "__main__":
    write_files(sys.argv[1])
    write_seeds(sys.argv[2])

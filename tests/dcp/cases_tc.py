# SPDX-License-Identifier: Apache-2.0
"""Directories of torch_checkpointing ("DCP v2"): metadata.pkl 1.0 and 2.0, and a torch.save file per item and rank."""

import copy
import os
import pickle
import random
import shutil
from types import SimpleNamespace

from cases_hostile import calls, untouched
from dcp_build import Call, Global, Tensor, numbered, pickled
from harness import case, require, rounds, run
from tc_build import (R, S, Checkpoint, Mesh, View, boxes, described, device_mesh, dtensor, local_of, mesh_layout,
                      numbered_ranks, spec, torch_save)

VERSIONS = ("2.0", "1.0", None)
T = numbered("float32", (5, 3))
LINE = Mesh((2,))


def both_versions(t, label, checkpoint, wanted):
    checkpoint.write_data()
    for version in VERSIONS:
        checkpoint.metadata(version).write_metadata()
        t.merges("%s, version %s" % (label, version), checkpoint.path, wanted)


def small(path):
    """Two ranks: model.w in rows, model.b on both, model.n a number."""
    checkpoint = Checkpoint(path, 2)
    checkpoint.tensor("model", ("w",), T, LINE, [S(0)])
    checkpoint.tensor("model", ("b",), numbered("int64", (3,)), LINE, [R])
    for rank in range(2):
        checkpoint.values["model", rank]["n"] = 1
    return checkpoint


SMALL = {"model": {"w": T, "b": numbered("int64", (3,)), "n": 1}}


# ---- geometry ----

MESHES = [
    ("one rank", Mesh((1,)), [[S(0)], [R]]),
    ("a line", Mesh((4,)), [[S(0)], [S(1)], [R]]),
    ("a line, turned", Mesh((4,), (2, 0, 3, 1)), [[S(0)], [S(1)]]),
    ("replicas", Mesh((2, 2)), [[R, S(0)], [S(0), R], [R, R], [R, S(1)]]),
    ("a grid", Mesh((2, 2)), [[S(0), S(1)], [S(1), S(0)], [S(0), S(0)]]),
    ("a grid, across", Mesh((2, 2), (0, 2, 1, 3)), [[S(0), S(1)], [S(0), S(0)]]),
    ("a cube", Mesh((2, 2, 2)), [[R, S(0), S(1)], [S(0), R, S(0)], [S(1), S(0), S(1)]]),
]
SHAPES = [(8, 6), (10, 4), (5, 3), (4, 1), (1, 9), (7, 3, 2), (0, 3), (2, 2)]


@case(42)
def tc_meshes(t):
    for label, mesh, table in MESHES:
        for number, placements in enumerate(table):
            checkpoint, wanted = Checkpoint(t.path(), len(mesh.ranks)), {}
            for at, dtype in enumerate(("float32", "int16", "complex128", "uint8", "float8_e4m3fn")):
                for shape in SHAPES:
                    name = "%s.%s" % (dtype, "x".join(map(str, shape)))
                    wanted[name] = numbered(dtype, shape, at)
                    checkpoint.tensor("model", (name,), wanted[name], mesh, placements)
            both_versions(t, "%s, %d" % (label, number), checkpoint, {"model": wanted})


@case(42)
def tc_strided_shards(t):
    """FSDP2 over tensor parallelism: the rank's rows lie in several stretches until the second cut."""
    for shape in ((8, 3), (16, 2), (24, 1)):
        for mesh, placements in ((Mesh((2, 2)), [S(0, 2), S(0)]), (Mesh((2, 4)), [S(0, 4), S(0)]),
                                 (Mesh((4,)), [S(0, 2)]), (Mesh((2, 2)), [S(0, 2), R])):
            whole = numbered("float32", shape)
            checkpoint = Checkpoint(t.path(), len(mesh.ranks)).tensor("model", ("w",), whole, mesh, placements)
            both_versions(t, "%s, %s" % (shape, placements), checkpoint, {"model": {"w": whole}})


@case(42)
def tc_meshes_of_some_ranks(t):
    """Stages of a pipeline: each tensor is on the ranks of its stage only."""
    first, last = Mesh((2,), (0, 1)), Mesh((2,), (2, 3))
    other = numbered("float32", (4, 2), 3)
    checkpoint = Checkpoint(t.path(), 4).tensor("model", ("a",), T, first, [S(0)])
    checkpoint.tensor("model", ("b",), other, last, [S(1)])
    both_versions(t, "stages", checkpoint, {"model": {"a": T, "b": other}})
    checkpoint.place("model", ("w",), described(T, first, [S(0)]), (0, 1))
    checkpoint.place("model", ("w",), described(T, last, [S(0)]), (2, 3))
    for rank in range(4):
        checkpoint.values["model", rank]["w"] = local_of(T, LINE, [S(0)], rank % 2)
    both_versions(t, "two groups", checkpoint, {"model": {"a": T, "w": T, "b": other}})


@case(42)
def tc_boxes(t):
    """default_tensor_v1: tensors that tell their own place, in several boxes."""
    checkpoint = Checkpoint(t.path(), 2)
    top, rest = T.box((0, 0), (2, 3)), T.box((2, 0), (3, 3))
    checkpoint.value("model", {"w": Tensor("float32", (4, 3), bytes(24) + top.data)}, [0])
    checkpoint.value("model", {"w": rest}, [1])
    checkpoint.place("model", ("w",), boxes(T, ((0, 0), (2, 0), (2, 3))), [0])
    checkpoint.place("model", ("w",), boxes(T, ((2, 1), (0, 1), (3, 2)), ((2, 0), (0, 0), (3, 1))), [1])
    both_versions(t, "boxes", checkpoint, {"model": {"w": T}})
    scalar = numbered("float64", ())
    checkpoint = Checkpoint(t.path(), 2).value("model", {"s": scalar})
    for rank in range(2):
        checkpoint.place("model", ("s",), boxes(scalar, ((), (), ())), [rank])
    both_versions(t, "scalar", checkpoint, {"model": {"s": scalar}})


@case(42)
def tc_dtensors_in_files(t):
    """Saved without being unwrapped, as the package's own saver does; strides of a transposed part."""
    checkpoint = Checkpoint(t.path(), 2).tensor("model", ("w",), T, LINE, [S(0)], wrap=True)
    checkpoint.tensor("model", ("r",), T, LINE, [R], wrap=True)
    both_versions(t, "wrapped", checkpoint, {"model": {"w": T, "r": T}})
    checkpoint = Checkpoint(t.path(), 2).tensor("model", ("w",), T, LINE, [S(0)])
    for rank in range(2):
        local = checkpoint.values["model", rank]["w"]
        checkpoint.values["model", rank]["w"] = View(local, (1, local.shape[0]))
    both_versions(t, "transposed", checkpoint, {"model": {"w": T}})


def saying(path, mesh, *placements):
    """Two ranks, whose DTensors only say themselves how they are spread."""
    checkpoint = Checkpoint(path, 2)
    checkpoint.places["model"] = {}
    for rank in range(2):
        checkpoint.value("model", {"w": dtensor(local_of(T, LINE, placements[-1:], rank), T, spec(mesh, *placements))}, [rank])
    return checkpoint


@case(42)
def tc_dtensors_of_their_own(t):
    flat, one = mesh_layout(shape=(2,), stride=(1,)), mesh_layout(shape=(), stride=())
    for label, layout in (("a tensor", None), ("a layout", flat), ("axes", mesh_layout(axes=(one, flat)))):
        for listed in (None, (0, 1)):
            for placement in (S(0), S(1)):
                placements = (R, placement) if label == "axes" else (placement,)
                checkpoint = saying(t.path(), device_mesh(numbered_ranks((2,)), layout, listed), *placements)
                both_versions(t, "%s, %s, %s" % (label, listed, placement), checkpoint, {"model": {"w": T}})


@case(42, 6)
def tc_meshes_without_ranks(t):
    """The mesh's tensor is of a kind without bytes, or begins where its storage has long ended."""
    layout, none = mesh_layout(shape=(2,), stride=(1,)), Tensor("int64", (0,), b"")
    meta = Call(Global("torch._utils", "_rebuild_meta_tensor_no_storage"), Global("torch", "int64"), (2,), (1,), False)
    for label, ranks, text in (("meta", meta, "no integers"), ("bool", numbered("bool", (2,)), "no integers"),
                               ("far", View(none, (1,), (1 << 61) - 1, numbered_ranks((2,))), "0 of 15"),
                               ("farther", View(none, (1,), (1 << 63) - 1, numbered_ranks((2,))), "0 of 15")):
        checkpoint = saying(t.path(), device_mesh(ranks, layout), S(0)).write()
        t.refuses_merge(label, checkpoint.path, "'model.w'", text)


def saying_much(checkpoint, specs):
    """As saying(), but a tensor for each of SPECS, which all ranks have."""
    checkpoint.places["model"] = {}
    for rank in range(2):
        local = local_of(T, LINE, [S(0)], rank)
        checkpoint.value("model", {"w%d" % number: dtensor(local, T, one) for number, one in enumerate(specs)}, [rank])
    return checkpoint


@case(42, 6)
def tc_large_meshes(t):
    """To find rank 1 takes 2^19 steps; a short file can ask for them many times."""
    layout, ranks = mesh_layout(shape=(2, 1 << 19), stride=(1, 0)), numbered_ranks((2,))
    shared = [spec(device_mesh(ranks, layout, (0, 1)), S(0), R)] * 100
    apart = [spec(device_mesh(ranks, layout, (0, 1)), S(0), R) for _ in range(100)]
    long = numbered_ranks((1 << 17,))
    lists = [spec(device_mesh(long, mesh_layout(shape=(2,), stride=(1,))), S(0)) for _ in range(100)]
    for label, specs, merges in (("one mesh", shared, True), ("many meshes", apart, False),
                                 ("one list of ranks", lists[:1] * 100, True), ("many lists", lists, False)):
        checkpoint = saying_much(Checkpoint(t.path(), 2), specs).write()
        loose = t.path()
        os.mkdir(loose)
        for rank in range(2):
            shutil.copy(checkpoint.path + "/model_%d.pt" % rank, loose + "/model_world_size_2_rank_%d.pt" % rank)
        whole = {"w%d" % number: T for number in range(len(specs))}
        for directory, wanted in ((checkpoint.path, {"model": whole}), (loose, whole)):
            if merges:
                t.merges(label, directory, wanted)
            else:
                t.refuses_merge(label, directory, "w", "more meshes of ranks")


@case(42, 6)
def tc_states_of_three(t):
    """The state of an object is its dict, or a pair; what stands behind that is not looked at."""
    one = dtensor(T, T, spec(device_mesh(numbered_ranks((1,))), R))
    state = one.arguments[3][1]
    for label, parts in (("a dict", state), ("a pair", (state, None)), ("three", (None, {"_local_tensor": T}, state))):
        changed = Checkpoint(t.path(), 1).value("model", {"w": Call(one.function, *one.arguments[:3], parts)})
        changed.places["model"] = {}
        if label == "three":
            t.refuses_merge(label, changed.write().path, "'model.w'", "does not say how it is spread")
        else:
            t.merges(label, changed.write().path, {"model": {"w": T}})


# ---- values ----

@case(42)
def tc_paths(t):
    mesh, other = LINE, numbered("int32", (4,), 2)
    keys = ["a.b", "grün.☃", "𝒳", "", "tab\t\n\"\\/", "\ud800", "x" * 4096, "0", 0, -3, 7]
    checkpoint = Checkpoint(t.path(), 2)
    for key in keys:
        checkpoint.tensor("model", (key,), T, mesh, [S(0)])
    both_versions(t, "keys", checkpoint, {"model": {key: T for key in keys}})
    checkpoint = Checkpoint(t.path(), 2)
    for rank in range(2):
        w, m = (local_of(one, mesh, [S(0)], rank) for one in (T, other))
        checkpoint.value("optimizer", {"state": {0: {"exp_avg": w}, 1: {"exp_avg": m}}, "more": [1, [w, (m, "x")]],
                                       "param_groups": [{"lr": .1, "params": [0, 1]}]}, [rank])
        checkpoint.value("list", [w, m], [rank]).value("bare", w, [rank])
    for item, path, tensor in (("optimizer", ("state", 0, "exp_avg"), T), ("optimizer", ("state", 1, "exp_avg"), other),
                               ("optimizer", ("more", 1, 0), T), ("optimizer", ("more", 1, 1, 0), other),
                               ("list", (0,), T), ("list", (1,), other), ("bare", (), T)):
        checkpoint.place(item, path, described(tensor, mesh, [S(0)]), (0, 1))
    both_versions(t, "nested", checkpoint, {
        "optimizer": {"state": {0: {"exp_avg": T}, 1: {"exp_avg": other}}, "more": [1, [T, (other, "x")]],
                      "param_groups": [{"lr": .1, "params": [0, 1]}]}, "list": [T, other], "bare": T})


@case(42)
def tc_values_of_ranks(t):
    """The lowest rank's count; what others have beyond them is added."""
    checkpoint = small(t.path())
    for rank in range(2):
        values = checkpoint.values["model", rank]
        values.update({"rank": rank, "same": {"a": [1, 2], "of%d" % rank: rank}, "list": [0] + [rank] * rank,
                       "plain%d" % rank: numbered("int16", (2,), rank), "kind": [1] if rank else 2})
    checkpoint.value("step", 5).value("late", {"x": 1}, [1]).value("rng", numbered("uint8", (4,), 3), [1])
    checkpoint.values["rng", 0] = numbered("uint8", (3,), 2)
    wanted = {"model": {**SMALL["model"], "rank": 0, "same": {"a": [1, 2], "of0": 0, "of1": 1}, "list": [0, 1],
                        "plain0": numbered("int16", (2,), 0), "kind": 2, "plain1": numbered("int16", (2,), 1)},
              "late": {"x": 1}, "rng": numbered("uint8", (3,), 2), "step": 5}
    both_versions(t, "union", checkpoint, wanted)


@case(42)
def tc_items_of_ranks(t):
    """An item that only some ranks have; files under other names; files that are no items."""
    checkpoint = small(t.path())
    checkpoint.tensor("ema", ("w",), T, Mesh((1,), (1,)), [S(0)])
    checkpoint.layout("model", 0, "parts/zero.bin").layout("model", 1, "model_0.pt").value("a-b_1", [2], [0])
    both_versions(t, "layouts", checkpoint, {**SMALL, "ema": {"w": T}, "a-b_1": [2]})
    for name in ("notes.txt", "model_7.pt", "model_00.pt", "model_1.json", "x y_0.pt"):
        shutil.copy(os.path.join(checkpoint.path, "ema_1.pt"), os.path.join(checkpoint.path, name))
    os.mkdir(os.path.join(checkpoint.path, "folder_0.pt"))
    t.merges("strange names", checkpoint.path, {**SMALL, "ema": {"w": T}, "a-b_1": [2]})
    t.check("info", says, checkpoint.path, "5 files are left out", "'model_00.pt' ...")
    checkpoint = small(t.path()).layout("config", 0, "config.json", "JsonSerialization").write("1.0")
    t.merges("JSON beside", checkpoint.path, SMALL)
    t.check("info of JSON", says, checkpoint.path, "item 'config' is left out")


@case(42)
def tc_shared_tensors(t):
    checkpoint = Checkpoint(t.path(), 2)
    for rank in range(2):
        w = local_of(T, LINE, [S(0)], rank)
        one = View(w, (3, 1))       # what state_dict() makes of a tied weight: other tensors over one storage
        checkpoint.value("model", {"a": one, "b": View(w, (3, 1)), "c": one, "group": {"d": View(w, (3, 1))}}, [rank])
    for path in (("a",), ("b",), ("c",), ("group", "d")):
        checkpoint.place("model", path, described(T, LINE, [S(0)]), (0, 1))
    checkpoint.write()
    t.merges("ties", checkpoint.path, {"model": {"a": T, "b": T, "c": T, "group": {"d": T}}})

    def one_storage():
        status, out, _ = run("ls", checkpoint.path)
        require(status == 0 and out.count("shares storage with model.a") == 3, out)
    t.check("ties are kept", one_storage)
    t.check("and counted", says, checkpoint.path, "60 bytes in 1 storage")
    shared = {"w": T}
    checkpoint = Checkpoint(t.path(), 2).value("model", {"one": shared, "two": shared})
    for path in (("one", "w"), ("two", "w")):
        checkpoint.place("model", path, described(T, LINE, [R]), (0, 1))
    both_versions(t, "one dict twice", checkpoint, {"model": {"one": {"w": T}, "two": {"w": T}}})


@case(42)
def tc_other_commands(t):
    checkpoint = small(t.path()).value("step", 5).write()

    def commands():
        status, out, err = run("ls", checkpoint.path)
        require(status == 0 and "model.w" in out and "[5, 3]" in out and "2 tensors" in out, out + err)
        status, out, err = run("info", checkpoint.path)
        require(status == 0 and "torch_checkpointing (metadata 2.0)" in out and "note" not in out, out + err)
        require("2 items in 4 data files" in out, out)
        require("EMPTY_DICT" in run("dis", checkpoint.path)[1], "dis")
        for command in ("split", "reshard"):
            target = t.path()
            require(run(command, checkpoint.path, target, "--ranks", "2")[0] == 0, command)
            merged = t.path() + ".pt"
            require(run("merge", target, merged)[0] == 0, "merge of what %s wrote" % command)
        output = t.path() + ".pt"
        status, out, err = run("cast", "float64", checkpoint.path, output)
        require(status == 0, "cast: " + err)
        require("float64" in run("ls", output)[1], "what cast wrote")
    t.check("commands", commands)
    t.refuses("in place", "cast", "-i", "float64", checkpoint.path, names=["made of several files"])
    t.merges("only", checkpoint.path, {"step": 5}, "--only", "step")


# ---- what is wrong with it ----

def says(path, *texts):
    status, out, err = run("info", path)
    require(status == 0, err)
    for text in texts:
        require(text in out, "%r is not in: %s" % (text, out))


@case(42)
def tc_missing(t):
    for name, texts in (("model_1.pt", ("'model.w'", "'model_1.pt' is missing", "9 of 15")),
                        ("model_0.pt", ("'model.w'", "'model_0.pt' is missing"))):
        checkpoint = small(t.path()).write()
        os.remove(os.path.join(checkpoint.path, name))
        t.refuses_merge("without " + name, checkpoint.path, *texts)
    checkpoint = small(t.path()).write()
    for rank in range(2):
        os.remove(os.path.join(checkpoint.path, "model_%d.pt" % rank))
    t.refuses_merge("without both", checkpoint.path, "none of the files of item 'model'")
    checkpoint = small(t.path()).layout("model", 1, "there/m.pt").write()
    os.remove(os.path.join(checkpoint.path, "there/m.pt"))
    t.refuses_merge("without a named file", checkpoint.path, "there/m.pt")
    checkpoint = small(t.path())
    del checkpoint.values["model", 1]["w"]
    t.refuses_merge("without a part", checkpoint.write().path, "'model.w'", "'model_1.pt' does not have rank 1's part")
    checkpoint = small(t.path()).place("model", ("no", 1), described(T, LINE, [S(0)]), (0, 1))
    t.refuses_merge("without a tensor", checkpoint.write().path, '["no",1]', "'model_0.pt' does not have")
    checkpoint = small(t.path()).place("model", ("n",), described(T, LINE, [S(0)]), (0, 1))
    t.refuses_merge("a number", checkpoint.write().path, '["n"]')
    checkpoint = small(t.path()).value("model", "text", [0])
    t.refuses_merge("a text of the whole", checkpoint.write().path, '["w"]', "'model_0.pt' does not have rank 0's part")
    checkpoint = small(t.path()).write()
    with open(os.path.join(checkpoint.path, "model_1.pt"), "r+b") as stream:
        stream.truncate(200)
    t.refuses_merge("cut", checkpoint.path, "model_1.pt")
    mesh = Mesh((2, 2))
    checkpoint = Checkpoint(t.path(), 4).tensor("model", ("w",), T, mesh, [R, S(0)]).write()
    os.remove(os.path.join(checkpoint.path, "model_3.pt"))
    t.merges("a replica less", checkpoint.path, {"model": {"w": T}})
    t.check("a replica less is noted", says, checkpoint.path, "'model_3.pt' is missing")


@case(42)
def tc_contradictions(t):
    def changed(label, change, *texts):
        checkpoint = small(t.path())
        change(checkpoint)
        t.refuses_merge(label, checkpoint.write().path, *texts)

    def put(rank, name, value):
        def change(checkpoint):
            checkpoint.values["model", rank][name] = value
        return change

    def replace(name, metadata, ranks=(0, 1)):
        def change(checkpoint):
            checkpoint.places["model"][name,] = [(metadata, ranks)]
        return change
    changed("another shape", put(1, "w", numbered("float32", (2, 2))), "'model.w' in model_1.pt", "another shape")

    def swap(checkpoint):
        values = checkpoint.values
        values["model", 0], values["model", 1] = values["model", 1], values["model", 0]
    changed("swapped", swap, "'model.w' in model_0.pt", "another shape")
    changed("another dtype", put(1, "w", numbered("int32", (2, 3))), "'model.w' in model_1.pt", "int32")
    changed("another replica", put(1, "b", numbered("int64", (4,))), "'model.b' in model_1.pt", "another shape")
    changed("said dtype", replace("w", described(T, LINE, [S(0)], dtype="torch.float64")), "'model.w'", "float64")
    changed("rank not in mesh", replace("w", described(T, Mesh((1,), (0,)), [S(0)]), (0, 1)), "'model.w'")
    changed("rank in no group", replace("w", described(T, LINE, [S(0)]), (0,)), "'model.w' in model_1.pt", "rank 1")
    both = boxes(T, ((0, 0), (0, 0), (3, 3)))
    overlapping = boxes(T, ((2, 0), (0, 0), (2, 3)))

    def overlap(checkpoint):
        checkpoint.places["model"]["w",] = [(both, (0,)), (overlapping, (1,))]
    changed("overlap", overlap, "'model.w'", "chunks overlap", "model_0.pt", "model_1.pt")
    outside = boxes(T, ((4, 0), (0, 0), (2, 3)))
    inside = boxes(T, ((3, 0), (1, 0), (2, 3)))
    for label, metadata in (("out of the tensor", outside), ("out of the part", inside)):
        def out(checkpoint, metadata=metadata):
            checkpoint.places["model"]["w",] = [(both, (0,)), (metadata, (1,))]
        changed(label, out, "'model.w' in model_1.pt", "reaches out")
    for kind in ("SafetensorsSerialization", "JsonSerialization", "RawSerialization", "Other\n"):
        changed(kind, lambda c, kind=kind: c.layout("model", 1, "m.x", kind), "item 'model'", kind.strip(), "m.x")
    for shape, text in (((0, 1 << 61, 4), "too large for torch"), ((1 << 40, 1 << 40, 0), "more bytes than any file")):
        long = boxes(Tensor("float32", shape, b""))
        empty = Checkpoint(t.path(), 1).value("model", {"e": numbered("float32", (0, 2, 3))}).place("model", ("e",), long, [0])
        t.refuses_merge("no items, strides of %s" % (shape,), empty.write().path, "'model.e'", text)
    differing = small(t.path())
    put(1, "b", numbered("int64", (3,), 9))(differing)
    t.merges("replicas that differ", differing.write().path, SMALL)
    t.check("are noted", says, differing.path, "1 tensor that every rank has in full differs", "'model.b'")


def at(data, *path):
    for key in path[:-1]:
        data = data[key]
    return data, path[-1]


W = ("metadata", "model", "nested_path_to_metadata", '["w"]')
LAYOUTS = ("metadata", "model", "rank_to_layout_info")
META = W + (0, "sharding_metadata", "data")
WRONG = [
    # where, what, what is said
    ((), [], "found list"), ((), None, "None"), ((), {}, "found nothing"), ((), {"metadata": []}, "found list"),
    (("version",), "3.0", "version '3.0'"), (("version",), 2, "found int"),
    (("world_size",), 0, "world_size of 0"),
    (("world_size",), -1, "world_size of -1"),
    (("world_size",), "2", "found str"),
    (("world_size",), 1 << 40, "the limit is 65536"),
    (("world_size",), 1 << 70, "int"),
    (("world_size",), 1, "rank 1 of 1"),
    (("metadata", "../x"), {}, "'../x' is no name"),
    (("metadata", ""), {}, "'' is no name"),
    (("metadata", 7), {}, "found int"),
    (("metadata", "model"), 5, "item 'model'"), (("metadata", "model"), {}, "nested_path_to_metadata"),
    (LAYOUTS, [], "rank_to_layout_info"),
    (LAYOUTS + (2,), None, "rank 2 of 2"),
    (LAYOUTS + (-1,), None, "rank -1 of 2"),
    (LAYOUTS + ("x",), None, "rank 'x' of 2"),
    (LAYOUTS + (None,), None, "rank None of 2"),
    (LAYOUTS + ("9" * 30,), None, "of 2"),
    (LAYOUTS + (0,), 5, "found int"),
    (LAYOUTS + (0,), {"file_path": "a"}, "serialization_format"),
    (W[:3] + ("w",), [], "is not a list of strings"), (W[:3] + ('["w",[1]]',), [], "is not a list"),
    (W[:3] + ("[" * 5000,), [], "is not a list"),
    (W[:3] + ('["w"] ',), [], "is not a list"),
    (W[:3] + ('["\\x"]',), [], "is not a list"),
    (W[:3] + ("[1.5]",), [], "is not a list"), (W[:3] + ("[99999999999999999999]",), [], "is not a list"),
    (W[:3] + ('["w', ), [], "is not a list"), (W[:3] + ('["\\ud8',), [], "is not a list"), (W[:3] + (5,), [], "found int"),
    (W[:3] + ("[" + "1," * 2000 + "1]",), [], "is not a list"),
    (W, 5, "list of groups"), (W, [], "no ranks"), (W, [5], "tuple of ranks"),
    (W + (0, "ranks"), 5, "tuple of ranks"),
    (W + (0, "ranks"),
    (0, 0), "rank 0 twice"),
    (W + (0, "ranks"),
    (0, 2), "rank 2 of 2"),
    (W + (0, "ranks"), (0, -1), "is -1"), (W + (0, "ranks"), ("0",), "found str"),
    (W + (0, "sharding_metadata"), None, "sharding_metadata"),
    (W + (0, "sharding_metadata", "type"), "mine", "type 'mine'"),
    (W + (0, "sharding_metadata", "data"), [], "global_shape"),
    (META + ("global_shape",), [5, -3], "is -3"), (META + ("global_shape",), [5], "another shape"),
    (META + ("global_shape",), 5, "found int"), (META + ("global_shape",), [1] * 65, "at most 64"),
    (META + ("global_shape",), [1 << 62, 1 << 62], "another shape"),
    (META + ("global_shape",), [6, 3], "another shape"),
    (META + ("dtype",), None, "dtype"), (META + ("dtype",), "float32", "float32"),
    (META + ("mesh_spec",), None, "mesh_shape"), (META + ("mesh_spec", "mesh_shape"), (3,), "wants 3"),
    (META + ("mesh_spec", "mesh_shape"), (0,), "0 ranks"), (META + ("mesh_spec", "mesh_shape"), (-2,), "is -2"),
    (META + ("mesh_spec", "mesh_shape"),
    (1 << 20,) * 8, "larger"),
    (META + ("mesh_spec", "mesh_shape"),
    (1,) * 9, "the limit is 8"),
    (META + ("mesh_spec", "mesh_data"), (0, 0), "rank 0 twice"), (META + ("mesh_spec", "mesh_data"), (0, 2), "rank 2"),
    (META + ("mesh_spec", "mesh_data"), (0, -1), "is -1"), (META + ("mesh_spec", "mesh_data"), 5, "mesh_data"),
    (META + ("placements",), [], "one placement"), (META + ("placements",), [5], "placement"),
    (META + ("placements",), [{"type": "Partial"}], "'Partial'"),
    (META + ("placements",), [{"type": "Shard", "dim": 2}], "dimension 2"),
    (META + ("placements",), [{"type": "Shard", "dim": -1}], "is -1"),
    (META + ("placements",), [{"type": "Shard"}], "dim"),
    (META + ("placements",), [{"type": "StridedShard", "dim": 0, "split_factor": 0}], "split_factor of 0"),
    (META + ("placements",), [{"type": "StridedShard", "dim": 0, "split_factor": 1 << 50}], "split_factor"),
]


@case(42, 6)
def tc_wrong_metadata(t):
    checkpoint = small(t.path()).write()
    good = pickle.dumps(checkpoint.data)
    for where, what, text in WRONG:
        data = pickle.loads(good)
        if where:
            into, key = at(data, *where)
            into[key] = what
        else:
            data = what
        checkpoint.write_metadata(pickle.dumps(data))
        t.refuses_merge("%s = %.30r" % (where[-2:], what), checkpoint.path, text)


@case(42, 6)
def tc_paths_outside(t):
    outside = t.path("outside.pt")
    with open(outside, "wb") as out:
        out.write(torch_save(small(t.path()).values["model", 1]))
    for path in (outside, "../outside.pt", "a/../../outside.pt", "..\\outside.pt", "C:outside.pt", "", "x\0y", 5, None):
        for version in ("1.0", "2.0"):
            checkpoint = small(t.path()).layout("model", 1, "model_1.pt")
            checkpoint.write(version)
            checkpoint.layouts["model", 1]["file_path"] = path
            checkpoint.metadata(version).write_metadata()
            text = "lies outside" if str(path).endswith("outside.pt") else "file"
            t.refuses_merge("%.20r, %s" % (path, version), checkpoint.path, "item 'model'", text)
    checkpoint = small(t.path())
    checkpoint.layout("model", 0, "one.pt").layout("model", 1, "one.pt")
    t.refuses_merge("one file for two", checkpoint.write().path, "'one.pt' is the file of two")
    for path in ("./one.pt", ".//././one.pt", "one.pt/", "one.pt/."):
        checkpoint.layouts["model", 1]["file_path"] = path
        t.refuses_merge(path, checkpoint.metadata().write_metadata().path, "'one.pt' is the file of two")
    for path in (".", "./", "././."):
        checkpoint.layouts["model", 1]["file_path"] = path
        t.refuses_merge(path, checkpoint.metadata().write_metadata().path)
    checkpoint = small(t.path()).layout("model", 0, "./a//b/./.zero").layout("model", 1, "./model_1.pt")
    both_versions(t, "dots", checkpoint, SMALL)


@case(42, 6)
def tc_execution(t):
    canary = t.path("canary")
    for label, value in calls(canary).items():
        for where in ((), ("metadata",), ("version",), ("world_size",), ("metadata", "model"), W, META,
                      META + ("placements",)):
            checkpoint = small(t.path()).write()
            data = copy.deepcopy(checkpoint.data)
            if where:
                into, key = at(data, *where)
                into[key] = value
            checkpoint.write_metadata(pickled(data if where else value, 4))
            for command in ("ls", "info", "dis"):
                untouched(t, "%s at %s, %s" % (label, where[-1:], command), canary, command, checkpoint.path)
            untouched(t, "%s at %s" % (label, where[-1:]), canary, "merge", checkpoint.path, t.path() + ".pt")
        checkpoint = small(t.path())
        checkpoint.values["model", 1]["x"] = value
        untouched(t, label + " in a file", canary, "merge", checkpoint.write().path, t.path() + ".pt")


@case(42, 6)
def tc_damage(t):
    """Metadata that were cut or changed at any place: any answer in proper form."""
    checkpoint = small(t.path()).write()
    body = pickle.dumps(checkpoint.data)
    for end in range(0, len(body), rounds(29, 7)):
        checkpoint.write_metadata(body[:end])
        t.refuses("cut at %d" % end, "ls", checkpoint.path)
    source = random.Random(42)
    for number in range(rounds(40, 150)):
        changed = bytearray(body)
        for _ in range(source.randint(1, 4)):
            changed[source.randrange(len(changed))] = source.randrange(256)
        checkpoint.write_metadata(bytes(changed))
        t.survives("change %d" % number, "merge", "-f", checkpoint.path, t.path("out.pt"))
    checkpoint.write_metadata(b"\x80\x04" + b"(" * 20000 + b"]" + b"t" * 20000 + b".")
    t.refuses("deep", "ls", checkpoint.path)
    many = Checkpoint(t.path(), 1).value("model", {"w": T})
    for number in range(20000):
        many.place("model", (str(number),), described(T, Mesh((1,)), [S(0)]), (0,))
    t.refuses("places without tensors", "ls", many.write().path, names=['["0"]'])


@case(42, 6)
def tc_shared_lists(t):
    """Short metadata in which all tensors have the same long list."""
    scalar, whole = numbered("float32", (1,)), Tensor("float32", (), bytes(4))
    many = {str(number): View(whole, (), 0, scalar) for number in range(4000)}
    group = {"sharding_metadata": described(whole, Mesh((1,)), [R]), "ranks": ()}
    groups = [group] * 100000 + [dict(group, ranks=(0,))]
    shards = [{"sharding_metadata": boxes(T, ((0, 0), (0, 0), (5, 3))), "ranks": (0,)}]
    for name in ("global_offsets", "local_offsets", "local_sizes"):
        shards[0]["sharding_metadata"]["data"][name][1:] = [[0, 0]] * 100000
    for label, shared, values in (("groups", groups, many),
                                  ("boxes", shards, {name: View(T, (3, 1), 0, T) for name in many})):
        checkpoint = Checkpoint(t.path(), 1).value("model", values)
        checkpoint.places["model"] = {}
        checkpoint.metadata().data["metadata"]["model"]["nested_path_to_metadata"] = {'["%s"]' % name: shared for name in many}
        t.refuses_merge(label, checkpoint.write_data().write_metadata().path, "'model.", "many tensors share")


@case(42, 6)
def tc_too_many_stretches(t):
    """One element that stands for 33 rows, columns ... each of which a rank has apart from the others."""
    for ndim in (4, 8):
        one = View(SimpleNamespace(dtype="uint8", shape=(33,) * ndim), (0,) * ndim, 0, numbered("uint8", (1,)))
        metadata = described(Tensor("uint8", (0,) * ndim, b""), Mesh((2,) * ndim), [S(dim, 33) for dim in range(ndim)],
                             global_shape=[66] * ndim)
        checkpoint = Checkpoint(t.path(), 1 << ndim).value("model", {"w": one}, [0])
        checkpoint.place("model", ("w",), metadata, range(1 << ndim))
        t.refuses_merge("%d dimensions" % ndim, checkpoint.write().path, "'model.w'", "MiB of memory, which is the limit")

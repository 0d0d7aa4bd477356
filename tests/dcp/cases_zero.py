# SPDX-License-Identifier: Apache-2.0
"""Directories of DeepSpeed with ZeRO 1, 2 and 3: put together, and refused by name where that cannot be."""

import collections
import json
import os
import shutil
import struct

from cases_hostile import calls, untouched
from dcp_build import Call, Global, Tensor, numbered
from harness import case, difference, require, run
from tc_build import View, torch_save
from zero_build import ENUM, STEP, Zero, size, vector

SINGLE, FLAT = "single_partition_of_fp32_groups", "fp32_flat_groups"
WORLDS = (1, 2, 3, 8)
SHAPES = [(5, 3), (1,), (7,), (), (2, 3, 4), (16,), (0, 3), (64,)]


def tensors(prefix, shapes, seed=0):
    return {"%s.%d" % (prefix, at): numbered("float32", shape, seed + at) for at, shape in enumerate(shapes)}


def groups():
    return [tensors("a", SHAPES), tensors("b", SHAPES[2:5], 40)]


def small(path, stage=2, world=2):
    return Zero(path, stage, world, [tensors("w", [(5, 3), (4,)]), tensors("v", [(3,)], 9)],
                {"mean": numbered("float32", (3,), 2)}, {"frozen": numbered("float32", (3, 2), 5)}, {"tied": "w.0"})


def ordered(wanted):
    return collections.OrderedDict(wanted)


# ---- what is put together ----

@case(37)
def zero_stages(t):
    for stage in (1, 2, 3):
        for world in WORLDS:
            for number in (1, 2):
                made = Zero(t.path(), stage, world, groups()[:number]).write()
                label = "stage %d, %d ranks, %d groups" % (stage, world, number)
                t.merges(label, made.path, ordered(made.wanted()))
                t.merges(label + ", the folder", made.file(""), ordered(made.wanted()))


@case(37)
def zero_other_states(t):
    """Buffers become float32 if they are floating, frozen parameters stay as they are, shared ones are one tensor."""
    halves = struct.pack("<6e", 0, 1, -2.5, 65504, 2 ** -24, float("inf"))
    buffers = {"half": Tensor("float16", (2, 3), halves), "count": numbered("int64", ()), "mask": numbered("bool", (5,)),
               "turned": View(Tensor("float32", (3, 2), numbered("float32", (3, 2)).data), (1, 3))}
    frozen = {"f.0": numbered("bfloat16", (5, 2)), "f.1": numbered("float32", (3,)), "f.2": numbered("float32", (0, 7))}
    for stage in (1, 2, 3):
        for world in (1, 3):
            made = Zero(t.path(), stage, world, groups(), buffers, frozen, {"tied": "a.0", "twice": "mask"}).write()
            wanted = made.wanted()
            wanted["half"] = Tensor("float32", (2, 3), struct.pack("<6f", *struct.unpack("<6e", halves)))
            wanted["turned"] = made.buffers["turned"].tensor
            t.merges("stage %d, %d ranks" % (stage, world), made.path, ordered(wanted))

            def shared(made=made):
                merged = t.merged(made.path)
                require(merged["tied"].storage is merged["a.0"].storage, "the tied tensor has a storage of its own")
            t.check("stage %d, %d ranks: tied" % (stage, world), shared)


@case(37)
def zero_names_again(t):
    """As in a dict of Python: who comes later takes the place of who was there, where that was."""
    made = small(t.path())
    made.buffers = {"w.1": numbered("float32", (2,)), **made.buffers}
    made.shared = {"w.0": "v.0", "frozen": "nobody", "new": "w.1"}
    made.model = [made.states(0)]
    t.merges("stage 2", made.write().path, ordered(made.wanted()))
    made = small(t.path(), 3)
    made.buffers["twice"] = made.buffers["mean"]
    made.model = [made.states(rank) for rank in range(2)]
    made.write()

    def shared():
        merged = t.merged(made.path)
        require(merged["twice"].storage is merged["mean"].storage, "one buffer under two names became two")
    t.check("a buffer twice", shared)


@case(37)
def zero_views(t):
    """Vectors and buffers that are a part of their storage, and vectors without items, of whatever dtype."""
    for stage in (2, 3):
        made = small(t.path(), stage)
        for optim in made.optim:
            state = optim["optimizer_state_dict"]
            key = SINGLE if stage == 2 else FLAT
            moved = []
            for part in state[key]:
                tensor, behind = (part.tensor, part.whole) if isinstance(part, View) else (part, part)
                moved.append(View(tensor, (1,), 3, vector("float32", bytes(range(12)) + behind.data + bytes(8))))
                if stage == 3:
                    moved.append(Tensor("int64", (0,), b""))
            state[key] = moved
        whole = numbered("float32", (4, 3), 7)
        part = whole.box((1, 0), (3, 3))
        made.buffers["mean"] = part
        for model in made.model:
            model["module"]["mean"] = View(part, (3, 1), 3, whole)
        t.merges("stage %d" % stage, made.write().path, ordered(made.wanted()))


def notes_of(t, made):
    status, out, err = run("info", "--json", made.path)
    require(status == 0, err)
    return json.loads(out)


@case(37)
def zero_notes(t):
    made = small(t.path())
    made.model[0]["module"]["extra"] = numbered("float32", (2,))
    made.model[0]["frozen_param_fragments"]["frozen"] = numbered("float16", (3, 2))
    made.model[0]["dp_world_size"] = 4
    made.write()

    def check():
        told = notes_of(t, made)
        for text in ("1 frozen parameter is kept as float16", "'extra'", "speak of 4 data-parallel ranks"):
            require(any(text in note for note in told["notes"]), "%r is not in %s" % (text, told["notes"]))
        require(told["file"]["format"] == "DeepSpeed ZeRO-2 directory", told["file"]["format"])
        require(told["file"]["data_files"] == 3 and "0.15.4" in told["file"]["writer"], str(told["file"]))
    t.check("notes", check)
    plain = small(t.path())
    del plain.model[0]["module"]["frozen"]
    plain.write()
    t.check("none", lambda: require(notes_of(t, plain)["notes"] == [], "notes of a sound one"))


@case(37)
def zero_spellings(t):
    """How releases of DeepSpeed and of Python write the same."""
    by_name = Call(Global("builtins", "getattr"), ENUM, "gradients")
    for label, stage in (("number", 2), ("by name", by_name), ("enum", Call(ENUM, 2))):
        made = small(t.path())
        for optim in made.optim:
            optim["optimizer_state_dict"]["zero_stage"] = stage
        t.merges("stage as " + label, made.write().path, ordered(made.wanted()))
    for stage in (2, 3):
        made = small(t.path(), stage)
        for optim in made.optim:
            optim["optimizer_state_dict"]["partition_count"] = 2
            optim["param_shapes"] = made.model[0]["param_shapes"]
        for model in made.model:
            for key in ("param_shapes", "shared_params", "frozen_param_shapes", "frozen_param_fragments"):
                model.pop(key)
        wanted = {name: tensor for name, tensor in made.wanted().items() if name not in ("frozen", "tied")}
        t.merges("stage %d before 0.6" % stage, made.write().path, ordered(wanted))
    made = Zero(t.path(), 3, 2, [tensors("w", [(5, 3), (4,)])])
    for model in made.model:
        model["param_shapes"] = {name: tuple(tensor.shape) for name, tensor in made.groups[0].items()}
    t.merges("one dict, of tuples", made.write().path, ordered(made.wanted()))
    made = small(t.path())
    made.prefix, made.latest = "bf16_", "  %s\n" % STEP
    t.merges("bf16_, white space", made.write().path, ordered(made.wanted()))


@case(37)
def zero_bf16_optimizer(t):
    """No stage, and vectors with all of their padding."""
    for world in WORLDS:
        made = Zero(t.path(), 1, world, groups())
        made.prefix = "bf16_"
        for rank, optim in enumerate(made.optim):
            state = optim["optimizer_state_dict"]
            del state["zero_stage"]
            state["single_partition_of_fp32_groups"] = [
                part.whole if isinstance(part, View) else part for part in state["single_partition_of_fp32_groups"]]
        t.merges("%d ranks" % world, made.write().path, ordered(made.wanted()))


@case(37)
def zero_alignment(t):
    """Newer releases leave room behind each parameter."""
    made = Zero(t.path(), 2, 2, [tensors("w", [(3,), (2,), (4,)])])
    w = made.groups[0]
    data = w["w.0"].data + bytes(8) + w["w.1"].data + w["w.2"].data + bytes(12)
    for rank, optim in enumerate(made.optim):
        part = vector("float32", data[28 * rank:28 * (rank + 1)])
        optim["optimizer_state_dict"].update(single_partition_of_fp32_groups=[part], param_alignment_paddings=[[2, 0, 3]])
    t.merges("aligned", made.write().path, ordered(made.wanted()))


@case(37)
def zero_straddling(t):
    """In stage 3 a rank's vectors are one stream, wherever they are cut; those without items count for nothing."""
    for piece in (1, 4, 7):
        made = Zero(t.path(), 3, 3, groups())
        for optim in made.optim:
            state = optim["optimizer_state_dict"]
            data = b"".join(part.data for part in state["fp32_flat_groups"])
            state["fp32_flat_groups"] = [part for at in range(0, len(data), 4 * piece) for part in (
                vector("float32", data[at:at + 4 * piece]), Tensor("int64", (0,), b""))]
        t.merges("vectors of %d" % piece, made.write().path, ordered(made.wanted()))


@case(37)
def zero_without_zero(t):
    """Stage 0: the model states are all there is, and the weights are in them."""
    made = small(t.path())
    made.optim = []
    made.model[0].update(param_shapes=None, module={"w": numbered("float32", (2, 3)), "h": numbered("float16", (4,))})
    made.write()

    def check():
        text = difference(made.model[0]["module"], t.merged(made.path))
        require(not text, text)
    t.check("module", check)
    t.refuses("in place", "rename", "-i", "-e", "s/w/v/", made.path, names=("name an output",))
    made.model[0]["param_shapes"] = [{}]
    os.unlink(made.file("mp_rank_00_model_states.pt"))
    shutil.rmtree(made.file(""))
    made.write()
    t.refuses_merge("the optimizer's files are gone", made.path, "no *_optim_states.pt")


@case(37)
def zero_commands(t):
    made = small(t.path(), 3, 3).write()
    merged = t.path() + ".pt"
    t.merged(made.path, output=merged)

    def check(*arguments, wanted=0, text=""):
        status, out, err = run(*arguments)
        require(status == wanted and text in out + err, "%s: %d, %s" % (arguments[0], status, (out + err)[:300]))
    t.check("diff", check, "diff", made.path, merged)
    t.check("ls", lambda: check("ls", made.path, text="shares storage with w.0"))
    t.check("stat", check, "stat", made.path)
    t.check("verify", lambda: check("verify", made.path, text=": sound: "))
    t.check("verify the folder", lambda: check("verify", made.file(""), text=": sound: "))
    t.check("why", lambda: check("why", made.path, text="ckpt merge"))
    t.check("cast", check, "cast", "bf16", made.path, t.path() + ".pt")
    t.check("split", check, "split", "--ranks", "2", made.path, t.path())
    t.refuses("in place", "cast", "bf16", "-i", made.path, names=("several files",))
    name = made.optim_name(1)
    with open(made.file(name), "r+b") as file:
        body = file.read()
        place = body.index(made.optim[1]["optimizer_state_dict"]["fp32_flat_groups"][0].data)
        file.seek(place)
        file.write(b"\xff")
    t.check("a bit", lambda: check("verify", made.path, wanted=1, text=STEP + "/" + name))
    t.check("a bit", lambda: check("verify", made.file(""), wanted=1, text=name))
    os.truncate(made.file(name), 1000)
    t.check("a cut file", lambda: check("verify", made.path, wanted=1, text=STEP + "/" + name))
    os.unlink(made.file(name))
    t.check("a missing one", lambda: check("verify", made.path, wanted=1, text="rank 1 is missing"))


# ---- what is refused ----

def optim(key, value, rank=None):
    """Another value in the optimizer's state, of one rank or all; value None: none."""
    def change(made):
        for number, state in enumerate(made.optim):
            if rank is None or number == rank:
                state["optimizer_state_dict"][key] = value
                if value is None:
                    del state["optimizer_state_dict"][key]
    return change


def model(key, value, rank=0):
    def change(made):
        made.model[rank][key] = value
        if value is None:
            del made.model[rank][key]
    return change


def half(made):
    made.optim[0]["optimizer_state_dict"]["single_partition_of_fp32_groups"][0] = numbered("float16", (10,))


F = numbered("float32", (4,))
META = Call(Global("torch._utils", "_rebuild_meta_tensor_no_storage"), Global("torch", "float32"), (4,), (1,), False)
W = {"w.0": size((5, 3)), "w.1": size((4,))}
V = {"v.0": size((3,))}
WRONG = [  # stage, change, words of the message
    (2, lambda made: made.optim[1].clear(), "rank_1", "no 'optimizer_state_dict'"),
    (2, lambda made: made.optim.__setitem__(1, 5), "rank_1", "holds no dict"),
    (2, optim("zero_stage", 7), "'zero_stage' is no stage"),
    (2, optim("zero_stage", "two"), "'zero_stage' is no stage"),
    (2, optim("zero_stage", Call(ENUM, 0)), "'zero_stage' is no stage"),
    (2, optim("zero_stage", 3), "is of ZeRO stage 3, and the model states beside it are not of stage 3"),
    (3, optim("zero_stage", 2), "is of ZeRO stage 2, and the model states beside it are those of stage 3"),
    (2, optim("zero_stage", 1, 1), "rank_1", "is of ZeRO stage 1, rank 0's file is of stage 2"),
    (3, optim("zero_stage", None), "has no 'zero_stage', and no weights of another optimizer"),
    (2, optim("zero_stage", None, 1), "is of ZeRO stage 1 (BF16_Optimizer), rank 0's file is of stage 2"),
    (2, optim("partition_count", None), "'partition_count' is not there, wanted a number"),
    (2, optim("partition_count", []), "'partition_count' is an empty list"),
    (2, optim("partition_count", [2, 1]), "spread over 2 and over 1 ranks", "MoE"),
    (2, optim("partition_count", [2, "2"]), "'partition_count' is str, wanted a number"),
    (2, optim("partition_count", 4), "was saved by 4 ranks, and there are the files of 2", "rank 2 and after it are missing"),
    (2, optim("partition_count", 1), "was saved by 1 ranks, and there are the files of 2", "left over"),
    (2, optim("partition_count", 3, 1), "rank_1", "was saved by 3 ranks"),
    (2, optim("partition_count", -2), "'partition_count' is -2"),
    (2, optim(SINGLE, None), "'" + SINGLE + "' is not there"),
    (2, optim(SINGLE, F), "wanted a list"),
    (2, optim(SINGLE, [F], 1), "rank_1", "has 1 vectors, rank 0's 2"),
    (2, optim(SINGLE, [F, 5]), "vector '1': is int, wanted a plain tensor"),
    (2, optim(SINGLE, [F, META]), "vector '1': is a tensor of another kind"),
    (2, optim(SINGLE, [F, numbered("float32", (2, 2))]), "vector '1': is a tensor of 2 dimensions"),
    (2, optim(SINGLE, [F, View(F, (2,), 0, numbered("float32", (8,)))]), "1 dimensions with gaps"),
    (2, optim(SINGLE, [F, F]), "'w.0': ends behind the 8 items that there are in its group"),
    (2, optim(SINGLE, [numbered("float32", (16,)), F]), "group 0: its parameters have 19 items, the vectors of all ranks 32"),
    (2, half, "'w.0': its parts are of several dtypes"),
    (2, optim("param_alignment_paddings", [[1, 1]]), "has 1 groups, there are 2"),
    (2, optim("param_alignment_paddings", [[1], [1]]), "has 1 numbers for a group of 2"),
    (2, optim("param_alignment_paddings", [[0, 1 << 62], [1]]), "group 0"),
    (2, optim("param_alignment_paddings", [[1 << 62, 1 << 62], [1]]), "'w.1': ends behind"),
    (2, optim("param_alignment_paddings", [["x", 1], [1]]), "is str, wanted a number"),
    (1, lambda made: [optim(SINGLE, None)(made), optim("local_sub_partitions_of_fp32_groups", [])(made)],
     "first releases of DeepSpeed"),
    (3, optim(FLAT, None), "'" + FLAT + "' is not there"),
    (3, optim(FLAT, [numbered("float32", (9,)), numbered("float32", (3,))], 0),
     "rank_1", "vector '0': has 10 items of float32, rank 0's 9"),
    (3, optim(FLAT, [numbered("float32", (10,)), numbered("int32", (2,))], 1), "vector '1': has 2 items of int32"),
    (3, optim(FLAT, [numbered("float32", (11,)), numbered("float32", (2,))]),
     "the parameters have 12 items on each rank, its vectors 13"),
    (3, optim(FLAT, [numbered("float32", (9,)), numbered("float32", (2,))]),
     "'v.0': ends behind the 11 items that there are of each rank"),
    (3, optim("ds_zero_partition_groups", [{}]), "AutoEP"),
    (2, model("module", None), "'module' is not there, wanted a dict"),
    (2, model("module", [1]), "'module' is list, wanted a dict"),
    (2, model("buffer_names", None), "'buffer_names' is not there, wanted a list"),
    (2, model("buffer_names", [5]), "'buffer_names' has int as a name"),
    (2, lambda made: made.model[0]["module"].update(mean=[1]), "buffer 'mean': is list, wanted a plain tensor"),
    (2, lambda made: made.model[0]["module"].update(mean=META), "buffer 'mean': is a tensor of another kind"),
    (2, model("param_shapes", None), "has no 'param_shapes'"),
    (2, model("param_shapes", 5), "'param_shapes' is int, wanted a list"),
    (2, model("param_shapes", [W]), "'param_shapes' has 1 groups of parameters, the optimizer 2"),
    (2, model("param_shapes", {**W, **V}), "'param_shapes' has 1 groups of parameters, the optimizer 2"),
    (2, model("param_shapes", [W, 7]), "'param_shapes' is int, wanted a dict"),
    (2, model("param_shapes", [W, {5: size((3,))}]), "'param_shapes' has int as a name"),
    (2, model("param_shapes", [W, {"v.0": 5}]), "'v.0': 'shape' is int, wanted a list"),
    (2, model("param_shapes", [W, {"v.0": size((3, "x"))}]), "'v.0': 'shape' is str, wanted a number"),
    (2, model("param_shapes", [W, {"v.0": size((-3,))}]), "'v.0': 'shape' is -3, wanted 0 or more"),
    (2, model("param_shapes", [W, {"v.0": size((1,) * 65)}]), "'v.0': its shape has 65 dimensions"),
    (2, model("param_shapes", [W, {"v.0": size((1 << 40, 1 << 40))}]), "'v.0'"),
    (2, model("param_shapes", [W, {"v.0": size((1 << 59,))}]), "'v.0': ends behind"),
    (2, model("mp_world_size", 2), "'mp_world_size' is 2"),
    (2, model("checkpoint_parallel_dimensions", {"pp_degree": 1, "tp_degree": 4}), "'tp_degree' is 4"),
    (3, model("ds_autoep_layers", [{}]), "AutoEP"),
    (2, model("frozen_param_shapes", {}), None),
    (2, model("frozen_param_shapes", 5), "'frozen_param_shapes' is int"),
    (2, model("frozen_param_fragments", None), "'frozen_param_fragments' is not there"),
    (2, model("frozen_param_fragments", {}), "'frozen_param_shapes' has 1 names, 'frozen_param_fragments' 0"),
    (2, model("frozen_param_fragments", {"other": F}), "'frozen': has another place in 'frozen_param_fragments'"),
    (2, model("frozen_param_fragments", {"frozen": F}), "'frozen': is of another shape than 'frozen_param_shapes' says"),
    (3, model("frozen_param_fragments", {"other": F}, 1), "rank_1", "other names than rank 0's file"),
    (3, model("frozen_param_fragments", {}, 1), "rank_1", "'frozen_param_fragments' has 0 names, rank 0's more"),
    (3, model("frozen_param_fragments", {"frozen": F}, 1), "rank_1", "'frozen': has 4 items, where a share of 6 is 3"),
    (3, model("frozen_param_fragments", {"frozen": numbered("float16", (3,))}, 1), "'frozen': its parts are of several dtypes"),
    (2, model("shared_params", 5), "'shared_params' is int"),
    (2, model("shared_params", {5: "w.0"}), "'shared_params' has int as a name"),
    (2, model("shared_params", {"x": "nobody", "y": 5}), None),
]


@case(37)
def zero_wrong_states(t):
    for number, (stage, change, *names) in enumerate(WRONG):
        made = small(t.path("wrong%d" % number), stage)
        change(made)
        made.write()
        if names == [None]:
            t.check("wrong %d" % number, t.merged, made.path)
        else:
            t.refuses_merge("wrong %d, %s" % (number, names), made.path, *names)


def rename(*pairs):
    def change(made):
        for old, new in pairs:
            os.rename(made.file(old), made.file(new))
    return change


def copy(old, new):
    return lambda made: shutil.copy(made.file(old), made.file(new))


def remove(*names):
    return lambda made: [os.unlink(made.file(name)) for name in names]


def latest(text):
    def change(made):
        os.unlink(os.path.join(made.path, "latest"))
        if text is not None:
            with open(os.path.join(made.path, "latest"), "w") as out:
                out.write(text)
    return change


def write_empty(*names):
    return lambda made: [open(made.file(name), "wb").close() for name in names]


MODEL, RANK = "mp_rank_00_model_states.pt", "zero_pp_rank_%d_mp_rank_00_%s_states.pt"
FILES = [
    (2, remove(RANK % (0, "optim")), "optimizer's states of 1 of at least 2 ranks: that of rank 0 is missing"),
    (2, remove(RANK % (1, "optim")), "was saved by 2 ranks, and there are the files of 1"),
    (2, remove(MODEL), "no *_model_states.pt"),
    (2, remove(RANK % (0, "optim"), RANK % (1, "optim")), "no *_optim_states.pt"),
    (3, remove(RANK % (0, "optim"), RANK % (1, "optim")), "no *_optim_states.pt"),
    (3, remove(RANK % (0, "model")), "the model states of 1 of at least 2 ranks: that of rank 0 is missing"),
    (3, remove(RANK % (1, "model")), "the model states of 1 ranks and the optimizer's states of 2"),
    (3, copy(RANK % (0, "model"), MODEL), "model states of ZeRO stage 3 and of another one"),
    (2, copy(RANK % (0, "optim"), "bf16_" + RANK % (0, "optim")), "of two runs"),
    (2, copy(RANK % (0, "optim"), RANK % (2, "optim")), "was saved by 2 ranks, and there are the files of 3"),
    (2, copy(RANK % (0, "optim"), "zero_pp_rank_0_mp_rank_01_optim_states.pt"), "tensor parallelism"),
    (2, copy(MODEL, "mp_rank_01_model_states.pt"), "tensor parallelism"),
    (2, copy(MODEL, "layer_00-model_00-model_states.pt"), "pipeline"),
    (2, copy(MODEL, "layer_0_expert_1_mp_rank_00_model_states.pt"), "experts (MoE)"),
    (2, copy(RANK % (0, "optim"), "expp_rank_0_mp_rank_00_optim_states.pt"), "experts (MoE)"),
    (2, lambda made: os.mkdir(made.file("zero")), "universal checkpoint"),
    (2, write_empty(RANK % (1, "optim")), RANK % (1, "optim")),
    (2, latest(None), "has no file 'latest'", "'%s'" % STEP),
    (2, latest("global_step11"), "'latest' names 'global_step11', where there are no files of DeepSpeed"),
    (2, latest("../x"), "lies outside"),
    (2, latest("/etc"), "lies outside"),
    (2, latest("a/../../b"), "lies outside"),
    (2, latest("x\x1b[31m"), "'latest' names 'x\\x1b[31m'"),
    (2, latest(""), "has no file 'latest'"),
]


@case(37)
def zero_wrong_files(t):
    for number, (stage, change, *names) in enumerate(FILES):
        made = small(t.path("files%d" % number), stage).write()
        change(made)
        t.refuses_merge("files %d, %s" % (number, names), made.path, *names)


@case(37)
def zero_folders(t):
    """A tag may be a path below, and other files may lie beside."""
    made = small(t.path()).write()
    os.makedirs(os.path.join(made.path, "deep"))
    os.rename(made.file(""), os.path.join(made.path, "deep", "tag"))
    latest("deep/tag")(made)
    for name in ("model.safetensors.index.json", "config.json"):
        with open(os.path.join(made.path, name), "w") as out:
            out.write("{}")
    t.merges("below, with others", made.path, ordered(made.wanted()))
    made = small(t.path()).write()
    for name in ("mp_rank_00_model_states.pt.tmp", "xmp_rank_00_model_states.pt", "zero_pp_rank_x_mp_rank_00_optim_states.pt",
                 "zero_pp_rank_99999999_mp_rank_00_optim_states.pt"):
        open(made.file(name), "wb").close()
    t.merges("names that are none", made.path, ordered(made.wanted()))
    os.unlink(os.path.join(made.path, "zero_to_fp32.py"))
    shutil.rmtree(made.file(""))
    t.refuses("another program's latest", "ls", made.path, names=("no sharded checkpoint",))


# ---- hostile ones ----

@case(37, 6)
def zero_execution(t):
    canary = t.path("canary")
    for label, value in calls(canary).items():
        for stage in (2, 3):
            made = small(t.path(), stage)
            made.optim[0]["x"] = value
            made.model[0]["module"]["x"] = value
            made.optim[1]["optimizer_state_dict"]["loss_scaler"] = value
            made.write()
            untouched(t, "%s, stage %d" % (label, stage), canary, "merge", made.path, t.path() + ".pt")
        made = small(t.path())
        made.optim[0]["optimizer_state_dict"]["zero_stage"] = value
        untouched(t, label + " as stage", canary, "merge", made.write().path, t.path() + ".pt")


@case(37, 6)
def zero_shared_lists(t):
    """One long list in many places: what it names in all is more than a file of its size can."""
    long = {"p.%d" % at: size((0,)) for at in range(20000)}
    made = Zero(t.path(), 3, 1, [{}])
    made.model[0]["param_shapes"] = [long] * 20000
    t.refuses_merge("groups", made.write().path, "lists more than a file of this size can name")
    flat = numbered("float32", (0,))
    made = Zero(t.path(), 2, 1, [{}])
    made.optim[0]["optimizer_state_dict"].update(single_partition_of_fp32_groups=[flat] * 3, partition_count=1,
                                                 param_alignment_paddings=[[0] * 50000] * 3)
    made.model[0]["param_shapes"] = [{}, {}, {}]
    t.refuses_merge("paddings", made.write().path, "'param_alignment_paddings'")


@case(37, 6)
def zero_cut_short(t):
    """Every file is cut at many places: any answer, in proper form."""
    made = small(t.path(), 3).write()
    for name in (RANK % (0, "optim"), RANK % (1, "model")):
        with open(made.file(name), "rb") as file:
            body = file.read()
        for length in list(range(0, len(body), 97)) + [len(body) - 1]:
            with open(made.file(name), "wb") as out:
                out.write(body[:length])
            t.refuses("%s cut to %d" % (name, length), "ls", made.path, names=(name,))
        with open(made.file(name), "wb") as out:
            out.write(body)
    t.merges("whole again", made.path, ordered(made.wanted()))


@case(37, 6)
def zero_big_endian(t):
    made = small(t.path()).write()
    with open(made.file(RANK % (1, "optim")), "wb") as out:
        out.write(torch_save(made.optim[1], byteorder="big"))
    t.refuses_merge("big-endian", made.path, "is big-endian")

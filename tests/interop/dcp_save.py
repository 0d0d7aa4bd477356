# SPDX-License-Identifier: Apache-2.0
"""Made by torch: directories of torch.distributed.checkpoint, saved by one to four processes. dcp_save.py FOLDER [NAME... | random:SEED:COUNT]

FOLDER/NAME is a directory, FOLDER/NAME.torch.pt what dcp_to_torch_save makes of it. Beside some of them:
NAME.int.pt has int keys below `state`, NAME.only.pt is the part `model`, as torch loads it, NAME.extract.pt what
stands below `model`, NAME.drop.pt has no optimizer. FOLDER/plain/NAME.pt is a file of
torch.save, FOLDER/plain/NAME.torch.pt the same after torch_save_to_dcp and dcp_to_torch_save.
FOLDER/manifest.json says what there is.
"""

import contextlib
import datetime
import io
import json
import logging
import os
import sys
import tempfile
import traceback
import warnings

warnings.simplefilter("ignore")

import torch  # noqa: E402
import torch.distributed as dist  # noqa: E402
import torch.distributed.checkpoint as dcp  # noqa: E402
import torch.multiprocessing as multiprocessing  # noqa: E402
from torch.distributed.checkpoint import format_utils  # noqa: E402
from torch.distributed.checkpoint.default_planner import DefaultSavePlanner, _EmptyStateDictLoadPlanner  # noqa: E402
from torch.distributed.checkpoint.state_dict_loader import _load_state_dict  # noqa: E402
from torch.distributed.device_mesh import init_device_mesh  # noqa: E402
from torch.distributed.tensor import DTensor, Replicate, Shard  # noqa: E402

import dcp_states  # noqa: E402
import random_states  # noqa: E402
import torch_files  # noqa: E402

VERSION = tuple(int(part) for part in torch.__version__.split(".")[:2])
PLAIN = ("nested", "scalars", "dtypes", "layouts", "values", "containers", "tied", "names", "big", "table_lists",
         "table_mixed", "table_tuple", "numpy_values", "flags", "subclasses")
MINUTE = datetime.timedelta(seconds=60)


def describe(error):
    lines = [line for line in str(error).split("\n") if line.strip()]
    return "%s: %s" % (type(error).__name__, " | ".join(dict.fromkeys(lines[:1] + lines[-1:])))


# ---- placing ----

class Placer:
    """Makes DTensors of whole tensors, on a mesh of all processes."""

    def __init__(self, shape):
        self.shape = shape
        self.mesh = init_device_mesh("cpu", shape)

    def __call__(self, tensor, *names):
        turned = "turned" in names
        placements = [self.placement(name) for name in names if name != "turned"]
        local = self.local(tensor, placements)
        if turned:
            local = local.mT.contiguous().mT
        return DTensor.from_local(local, self.mesh, placements, run_check=False, shape=tensor.shape,
                                  stride=tensor.contiguous().stride())

    def placement(self, name):
        if name == "strided":
            from torch.distributed.tensor.placement_types import _StridedShard
            return _StridedShard(0, split_factor=self.shape[1])
        return Replicate() if name == "R" else Shard(int(name[1:]))

    def local(self, tensor, placements):
        place = self.mesh.get_coordinate()
        if type(placements[0]) is not Shard and not isinstance(placements[0], Replicate):
            # strided, even: cut into pieces by both dimensions, and given out the other way round
            pieces = tensor.chunk(self.shape[0] * self.shape[1])
            return pieces[place[1] * self.shape[0] + place[0]].clone()
        for placement, count, index in zip(placements, self.shape, place):
            if isinstance(placement, Shard):
                pieces = tensor.chunk(count, placement.dim)
                tensor = pieces[index] if index < len(pieces) else tensor.narrow(placement.dim, 0, 0)
        return tensor.clone(memory_format=torch.contiguous_format)

    def rows(self, tensor, bounds):
        """A ShardedTensor; process R has the rows from bounds[R] to bounds[R + 1]."""
        from torch.distributed._shard.sharded_tensor import Shard as Part, init_from_local_shards
        rank = dist.get_rank()
        first, end = bounds[rank], bounds[rank + 1]
        parts = [Part.from_tensor_and_offsets(tensor[first:end].clone(), [first, 0], rank)] if end > first else []
        return init_from_local_shards(parts, *tensor.shape)


# ---- saving ----

def save(state, value, path):
    options = state.options
    writer = dcp.FileSystemWriter(path, single_file_per_rank=options.get("single_file_per_rank", True),
                                  thread_count=options.get("thread_count", 1))
    planner = DefaultSavePlanner(flatten_state_dict=options.get("flatten", True),
                                 dedup_save_to_lowest_rank=options.get("lowest", False))
    more = {} if options.get("collectives", True) else {"use_collectives": False}
    dcp.save(value, storage_writer=writer, planner=planner, **more)


def save_states(states, folder, rank):
    """Save one after another; returns {name: what went wrong}."""
    errors = {}
    for state in states:
        try:
            save(state, state.make(Placer(state.mesh)), os.path.join(folder, state.name))
        except BaseException as error:
            errors[state.name] = describe(error)
            traceback.print_exc()
        dist.barrier()
    return errors


def process(rank, world, meeting, states, folder):
    with torch_files.clean_exit():
        dist.init_process_group("gloo", init_method="file://" + meeting, rank=rank, world_size=world, timeout=MINUTE)
        errors = save_states(states, folder, rank)
        if rank == 0:
            with open("%s/errors%d.json" % (folder, world), "w", encoding="utf-8") as stream:
                json.dump(errors, stream)


def save_with(world, states, folder):
    """Save STATES by WORLD processes, which are copies of this one."""
    meeting = tempfile.mktemp(prefix="meeting", dir=os.path.abspath(folder))
    context = multiprocessing.get_context("fork")
    processes = [context.Process(target=process, args=(rank, world, meeting, states, folder)) for rank in range(world)]
    for one in processes:
        one.start()
    for one in processes:
        one.join()
    try:
        with open("%s/errors%d.json" % (folder, world), encoding="utf-8") as stream:
            return json.load(stream)
    except OSError:
        return {state.name: "the processes ended with %s" % [one.exitcode for one in processes] for state in states}


def save_all(states, folder):
    errors = {}
    # processes are copied while this one has no threads yet; a world of one has a process group too, for ranks
    for world in sorted({state.world for state in states}, reverse=True):
        errors.update(save_with(world, [state for state in states if state.world == world], folder))
    return errors


# ---- what torch makes of a directory ----

def flattened(value):
    from torch.distributed.checkpoint._nested_dict import flatten_state_dict
    return flatten_state_dict(value)


def unflattened(flat, paths):
    from torch.distributed.checkpoint._nested_dict import unflatten_state_dict
    return unflatten_state_dict(flat, paths)


def tidy(value):
    """Tensors contiguous and without a gradient, as the converter leaves them."""
    if isinstance(value, torch.Tensor):
        return value.detach().resolve_conj().resolve_neg().clone(memory_format=torch.contiguous_format)
    return value


def saved_values(directory):
    """{key: value} of what is in the data files as a whole, as torch saved it."""
    found = {}
    for index, place in dcp.FileSystemReader(directory).read_metadata().storage_data.items():
        if index.offset is None:
            with open(os.path.join(directory, place.relative_path), "rb") as stream:
                stream.seek(place.offset)
                found[index.fqn] = torch_files.load(io.BytesIO(stream.read(place.length)))
    return found


def reference_of_state(state, directory, path):
    """The converter cannot do these directories; what it would give if it could."""
    value = state.make(dcp_states.whole)
    if state.options.get("flatten", True):
        flat, paths = flattened(value)
    else:
        # torch leaves out empty dicts, and makes plain ones of other mappings
        flat = dict(value, **saved_values(directory))
        flat = {key: flat[key] for key, _, _ in index_of(directory)}
        paths = {key: (key,) for key in flat}
    torch.save(unflattened({key: tidy(item) for key, item in flat.items()}, paths), path)


def make_reference(state, directory, path):
    if not state.options.get("flatten", True) or not state.options.get("collectives", True):
        return reference_of_state(state, directory, path)
    with contextlib.redirect_stdout(io.StringIO()):
        format_utils.dcp_to_torch_save(directory, path)


def index_of(directory):
    """The keys as torch sees them: [key, dtype, shape], in order; no dtype for values."""
    metadata = dcp.FileSystemReader(directory).read_metadata()
    rows = []
    for key, entry in metadata.state_dict_metadata.items():
        if isinstance(entry, dcp.metadata.TensorStorageMetadata):
            rows.append([key, str(entry.properties.dtype)[6:], list(entry.size)])
        else:
            rows.append([key, None, None])
    return rows


def with_int_keys(value, below_state=False):
    if isinstance(value, dict):
        to_int = below_state and value and all(str(key).isdecimal() for key in value)
        return {int(key) if to_int else key: with_int_keys(item, key == "state") for key, item in value.items()}
    if isinstance(value, list):
        return [with_int_keys(item) for item in value]
    return value


def make_int_keys(reference, path):
    """With them a plain optimizer takes its state again."""
    state = with_int_keys(torch_files.load(reference))
    _, optimizer = dcp_states.trained()
    optimizer.load_state_dict(state["optimizer"])
    torch.save(state, path)


def make_parts(directory, base):
    state = {}
    _load_state_dict(state, storage_reader=dcp.FileSystemReader(directory), no_dist=True,
                     planner=_EmptyStateDictLoadPlanner(keys={"model"}))
    torch.save(state, base + "only.pt")
    state = torch_files.load(base + "torch.pt")
    torch.save(state["model"], base + "extract.pt")
    torch.save({key: value for key, value in state.items() if key != "optimizer"}, base + "drop.pt")


def facts_of(state, folder):
    """Make the files beside a directory; returns what the manifest says of it."""
    directory = os.path.join(folder, state.name)
    base = directory + "."
    facts = {"world": state.world, "options": state.options, "reference": None, "parts": False, "keys": None}
    try:
        make_reference(state, directory, base + "torch.pt")
        facts["reference"] = state.name + ".torch.pt"
    except BaseException as error:
        facts["refused"] = describe(error)
        with contextlib.suppress(OSError):
            os.unlink(base + "torch.pt")
    if state.options.get("collectives", True):
        facts["keys"] = index_of(directory)
    keys = [row[0] for row in facts["keys"] or ()]
    if "optimizer.state.0.step" in keys and "epoch" in keys:
        make_int_keys(base + "torch.pt", base + "int.pt")
        make_parts(directory, base)
        facts["parts"] = True
    return facts


def make_plain(state, folder):
    """A file, and what torch's two converters make of it. Returns what is wrong, or None."""
    plain = os.path.join(folder, "plain", state.name)
    try:
        torch.save(state.make(dcp_states.whole), plain + ".pt")
        with contextlib.redirect_stdout(io.StringIO()):
            format_utils.torch_save_to_dcp(plain + ".pt", plain + ".dcp")
            format_utils.dcp_to_torch_save(plain + ".dcp", plain + ".torch.pt")
    except BaseException as error:
        return describe(error)
    return None


def chosen(wanted):
    """{name: State} of all that are WANTED, and the names of those that get a plain file, too."""
    if wanted and wanted[0].startswith("random:"):
        states = random_states.states(*map(int, wanted[0].split(":")[1:]))
        return states, list(states)
    return {name: state for name, state in dcp_states.STATES.items() if not wanted or name in wanted}, [
        name for name in PLAIN if not wanted or name in wanted]


def main():
    folder = sys.argv[1]
    by_name, plain = chosen(sys.argv[2:])
    print("torch version", torch.__version__)
    torch.set_num_threads(1)
    logging.disable(logging.WARNING)
    os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
    os.makedirs(os.path.join(folder, "plain"), exist_ok=True)
    states = list(by_name.values())
    skipped = [state.name for state in states if VERSION < state.since]
    states = [state for state in states if VERSION >= state.since]
    errors = save_all(states, folder)
    manifest = {"torch": "%d.%d" % VERSION, "errors": errors, "skipped": skipped, "states": {}, "plain": {}}
    for state in states:
        if state.name not in errors:
            manifest["states"][state.name] = facts_of(state, folder)
    for name in plain:
        manifest["plain"][name] = make_plain(by_name[name], folder)
    with open(os.path.join(folder, "manifest.json"), "w", encoding="utf-8") as stream:
        json.dump(manifest, stream, indent=1)


if __name__ == "__main__":
    with torch_files.clean_exit():
        main()

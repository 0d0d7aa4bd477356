# SPDX-License-Identifier: Apache-2.0
"""Load directories with torch.distributed.checkpoint in several processes. dcp_load.py WORLD LIST RESULT

LIST has lines DIRECTORY<tab>REFERENCE<tab>RANKS: REFERENCE is a file of torch.save with what has to come out; with
as many processes as RANKS each has to open no other data file than its own, for tensors that are cut. Targets are nested,
full of wrong numbers, and in worlds of several processes cut along dimension 0. RESULT gets a line `ok` or `bad` for
each directory, and at the end `done`.
"""

import contextlib
import datetime
import logging
import os
import sys
import tempfile
import warnings

warnings.simplefilter("ignore")

import torch  # noqa: E402
import torch.distributed as dist  # noqa: E402
import torch.distributed.checkpoint as dcp  # noqa: E402
import torch.multiprocessing as multiprocessing  # noqa: E402
from torch.distributed.checkpoint._nested_dict import flatten_state_dict, unflatten_state_dict  # noqa: E402
from torch.distributed.checkpoint.filesystem import FileSystem  # noqa: E402
from torch.distributed.device_mesh import init_device_mesh  # noqa: E402
from torch.distributed.tensor import DTensor, Shard  # noqa: E402

import compare  # noqa: E402
import dcp_compare  # noqa: E402
import torch_files  # noqa: E402

UNSET = "not loaded"


def wrong(tensor):
    """A tensor like this one with other bits everywhere; contiguous."""
    bits = dcp_compare.bits_of(tensor)
    other = torch.bitwise_not(bits)
    if tensor.dtype == torch.bool:
        other = 1 - bits
    return other.view(tensor.dtype).reshape(tensor.shape) if tensor.numel() else torch.empty_like(tensor)


def piece(tensor, rank, world):
    pieces = tensor.chunk(world)
    return pieces[rank].clone() if rank < len(pieces) else tensor[:0].clone()


class Target:
    """The reference with wrong numbers; tensors with dimensions are cut over the mesh, if there is one."""

    def __init__(self, reference, mesh, only_cut=None):
        self.wanted, paths = flatten_state_dict(reference)
        self.mesh = mesh
        flat = {key: self.entry(value) for key, value in self.wanted.items()
                if only_cut is None or key in only_cut}
        self.wanted = {key: self.wanted[key] for key in flat}
        self.state = unflatten_state_dict(flat, {key: paths[key] for key in flat}) if only_cut is None else flat

    def cut(self, value):
        return self.mesh is not None and value.dim() > 0 and value.numel() > 0

    def entry(self, value):
        if not isinstance(value, torch.Tensor):
            return UNSET
        other = wrong(value)
        if not self.cut(value):
            return other
        rank, world = dist.get_rank(), dist.get_world_size()
        return DTensor.from_local(piece(other, rank, world), self.mesh, [Shard(0)], run_check=False,
                                  shape=other.shape, stride=other.stride())

    def check(self):
        found = flatten_state_dict(self.state)[0]
        compare.require(list(found) == list(self.wanted), "keys", "%s, %s", list(self.wanted), list(found))
        for key, value in self.wanted.items():
            one = found[key]
            if isinstance(one, DTensor):
                value, one = piece(value.contiguous(), dist.get_rank(), dist.get_world_size()), one.to_local()
            if isinstance(value, torch.Tensor):
                compare.require(one.dtype == value.dtype and one.shape == value.shape, key, "%s, %s", value, one)
                compare.require(dcp_compare.same_bits(value, one), key, "contents differ")
            else:
                dcp_compare.Comparer().compare(value, one, key)


@contextlib.contextmanager
def opened_files():
    """The names of the data files that are opened meanwhile."""
    names, create = set(), FileSystem.create_stream

    def create_stream(self, path, mode):
        if mode == "rb" and str(path).endswith(".distcp"):
            names.add(os.path.basename(str(path)))
        return create(self, path, mode)
    FileSystem.create_stream = create_stream
    try:
        yield names
    finally:
        FileSystem.create_stream = create


def load(directory, state):
    dcp.load(state, storage_reader=dcp.FileSystemReader(directory))


def check_own(directory, reference, mesh):
    """The tensors that are cut into as many chunks as there are processes are read from the own file."""
    metadata = dcp.FileSystemReader(directory).read_metadata()
    world, rank = dist.get_world_size(), dist.get_rank()
    cut = {key for key, entry in metadata.state_dict_metadata.items() if len(getattr(entry, "chunks", ())) > 1}
    target = Target(reference, mesh, cut)
    with opened_files() as names:
        load(directory, target.state)
    target.check()
    rows = {key: target.wanted[key].shape[0] for key in cut}
    others = names - {"__%d_0.distcp" % rank}
    compare.require(not others, "files", "%s opened by process %s of %s for %s", sorted(others), rank, world, rows)


def check(directory, reference, own, mesh):
    """What is wrong, or an empty text."""
    try:
        wanted = torch_files.load(reference)
        target = Target(wanted, mesh)
        load(directory, target.state)
        target.check()
        if own and mesh is not None:
            check_own(directory, wanted, mesh)
    except BaseException as error:
        return dcp_compare.describe(error)
    return ""


def check_list(path, out):
    world = dist.get_world_size()
    mesh = init_device_mesh("cpu", (world,)) if world > 1 else None
    with open(path, encoding="utf-8") as stream:
        lines = [line.rstrip("\n").split("\t") for line in stream]
    for directory, reference, ranks in lines:
        text = check(directory, reference, int(ranks) == world, mesh)
        texts = [None] * world
        dist.all_gather_object(texts, text)
        text = next(filter(None, texts), "")
        out.write("%s\t%s\t%s\n" % ("bad" if text else "ok", directory, text.replace("\t", " ")))
        out.flush()
    out.write("done\t\t\n")


def process(rank, world, meeting, path, result):
    with torch_files.clean_exit():
        dist.init_process_group("gloo", init_method="file://" + meeting, rank=rank, world_size=world,
                                timeout=datetime.timedelta(seconds=60))
        with open(result if rank == 0 else os.devnull, "w", encoding="utf-8") as out:
            check_list(path, out)


def main():
    world, path, result = int(sys.argv[1]), sys.argv[2], sys.argv[3]
    torch.set_num_threads(1)
    logging.disable(logging.WARNING)
    os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
    meeting = tempfile.mktemp(prefix="meeting", dir=os.getcwd())
    context = multiprocessing.get_context("fork")
    processes = [context.Process(target=process, args=(rank, world, meeting, path, result)) for rank in range(world)]
    for one in processes:
        one.start()
    for one in processes:
        one.join()


if __name__ == "__main__":
    with torch_files.clean_exit():
        main()

# SPDX-License-Identifier: Apache-2.0
"""Makes directories of torch_checkpointing without torch: metadata.pkl, and what every rank has of every item."""

import itertools
import json
import os
import pickle

from dcp_build import Call, Global, Object, Tensor, archive, arranged, pickled, product, rebuilt, records_of, row_major


def torch_save(value, extra=("byteorder",), byteorder="little"):
    """A file of torch.save; tensors may stand anywhere in VALUE."""
    storages, made = {}, {}

    def convert(part):
        if isinstance(part, Tensor):
            if id(part) not in made:
                key = str(len(storages))
                storages[key] = arranged(part, row_major(part.shape))
                made[id(part)] = rebuilt(part, key=key)
            return made[id(part)]
        if isinstance(part, View):
            if id(part) not in made:
                made[id(part)] = part.call(made, storages)
            return made[id(part)]
        if isinstance(part, Call):
            if id(part) not in made:
                made[id(part)] = Call(part.function, *map(convert, part.arguments), state=part.state)
            return made[id(part)]
        if isinstance(part, Object):
            if id(part) not in made:
                made[id(part)] = Object(part.kind, convert(part.state))
            return made[id(part)]
        if type(part) is dict:
            if id(part) not in made:
                made[id(part)] = {key: convert(one) for key, one in part.items()}
            return made[id(part)]
        if type(part) in (list, tuple):
            return type(part)(convert(one) for one in part)
        return part
    return archive(records_of(pickled(convert(value)), storages, extra, byteorder))


class View:
    """A tensor with strides of its own; views of one WHOLE share its storage."""

    def __init__(self, tensor, strides, offset=0, whole=None):
        self.tensor, self.strides, self.offset, self.whole = tensor, strides, offset, whole or tensor

    def call(self, made, storages):
        if ("storage", id(self.whole)) not in made:
            made["storage", id(self.whole)] = str(len(storages))
            storages[str(len(storages))] = arranged(self.whole, self.strides if self.whole is self.tensor else
                                                    row_major(self.whole.shape))
        return rebuilt(self.tensor, self.strides, self.offset, product(self.whole.shape),
                       key=made["storage", id(self.whole)])


def dtensor(local, whole, spec=None):
    """A DTensor as it is pickled."""
    kind = Global("torch.distributed.tensor", "DTensor")
    made = (kind, Global("torch", whole.dtype), whole.shape, row_major(whole.shape), 0,
            Call(Global("torch.serialization", "_get_layout"), "torch.strided"),
            Call(Global("torch", "device"), "cpu"), False)
    return Call(Global("torch._tensor", "_rebuild_from_type_v2"), Global("torch._utils", "_rebuild_wrapper_subclass"),
                kind, made, (None, {"_local_tensor": local, "_spec": spec}))


# ---- which rank has what ----

class Mesh:
    def __init__(self, shape, ranks=None):
        self.shape, self.ranks = tuple(shape), tuple(range(product(shape)) if ranks is None else ranks)

    def coordinate(self, rank):
        at, place = [], self.ranks.index(rank)
        for size in reversed(self.shape):
            at.append(place % size)
            place //= size
        return tuple(reversed(at))

    def spec(self):
        return {"device_type": "cpu", "mesh_shape": self.shape, "mesh_data": self.ranks, "mesh_dim_names": None}


R = ("Replicate",)


def S(dim, factor=None):
    return ("Shard", dim) if factor is None else ("StridedShard", dim, factor)


def part_of(indexes, count, at, factor=1):
    """By torch.chunk's rule in factor * count pieces, of which every count-th is ours."""
    size = -(-len(indexes) // (count * factor)) or 1
    pieces = [indexes[first:first + size] for first in range(0, len(indexes), size)]
    return [one for piece in pieces[at::count] for one in piece]


def local_of(tensor, mesh, placements, rank):
    indexes = [list(range(size)) for size in tensor.shape]
    for size, at, placement in zip(mesh.shape, mesh.coordinate(rank), placements):
        if placement != R:
            indexes[placement[1]] = part_of(indexes[placement[1]], size, at, *placement[2:])
    data = b"".join(tensor.element(index) for index in itertools.product(*indexes))
    return Tensor(tensor.dtype, [len(one) for one in indexes], data)


def described(tensor, mesh, placements, **changes):
    kinds = {"Replicate": (), "Shard": ("dim",), "StridedShard": ("dim", "split_factor")}
    data = {"global_shape": list(tensor.shape), "dtype": "torch." + tensor.dtype,
            "stride": list(row_major(tensor.shape)), "mesh_spec": mesh.spec(),
            "placements": [{"type": one[0], **dict(zip(kinds[one[0]], one[1:]))} for one in placements]}
    data.update(changes)
    return {"type": "DTensorShardingMetadata", "data": data}


def boxes(tensor, *corners):
    """corners: (global offset, local offset, size)"""
    return {"type": "default_tensor_v1", "data": {
        "global_shape": list(tensor.shape), "global_offsets": [list(one[0]) for one in corners],
        "local_offsets": [list(one[1]) for one in corners], "local_sizes": [list(one[2]) for one in corners],
        "dtype": "torch." + tensor.dtype}}


# ---- what DTensors say of themselves ----

def numbered_ranks(shape):
    return Tensor("int64", shape, b"".join(rank.to_bytes(8, "little") for rank in range(product(shape))))


def mesh_layout(**state):
    """What later releases of torch have in a mesh: with shape and stride, or with axes that have them."""
    return Object(Global("torch.distributed._mesh_layout", "_MeshLayout"), state)


def device_mesh(ranks, layout=None, listed=None):
    """RANKS: a tensor. LISTED: the same as numbers."""
    state = {"device_type": "cpu", "_rank_map" if layout else "mesh": ranks}
    if layout:
        state["_layout"] = layout
    if listed:
        state["_flatten_rank_map" if layout else "_flatten_mesh_list"] = tuple(listed)
    return Object(Global("torch.distributed.device_mesh", "DeviceMesh"), state)


def spec(mesh, *placements):
    names = {"StridedShard": "_StridedShard"}
    made = tuple(Object(Global("torch.distributed.tensor.placement_types", names.get(kind, kind)),
                        dict(zip(("dim", "split_factor"), numbers))) for kind, *numbers in placements)
    return Object(Global("torch.distributed.tensor._dtensor_spec", "DTensorSpec"), {"mesh": mesh, "placements": made})


# ---- the directory ----

class Checkpoint:
    def __init__(self, path, world):
        self.path, self.world = path, world
        self.values = {}        # (item, rank): value
        self.places = {}        # item: {path: [(metadata, ranks)]}
        self.layouts = {}       # (item, rank): layout
        self.data = None        # what goes to metadata.pkl, after metadata()
        os.makedirs(path, exist_ok=True)

    def value(self, item, value, ranks=None):
        for rank in range(self.world) if ranks is None else ranks:
            self.values[item, rank] = value
        return self

    def layout(self, item, rank, path, kind="TorchSerialization"):
        self.layouts[item, rank] = {"file_path": path, "serialization_format": {"type": kind}}
        return self

    def place(self, item, path, metadata, ranks):
        self.places.setdefault(item, {}).setdefault(tuple(path), []).append((metadata, tuple(ranks)))
        return self

    def tensor(self, item, path, tensor, mesh, placements, wrap=False):
        """Put the parts into the dicts of the ranks, which are made, and describe them."""
        for rank in mesh.ranks:
            into = self.values.setdefault((item, rank), {})
            for key in path[:-1]:
                into = into.setdefault(key, {})
            local = local_of(tensor, mesh, placements, rank)
            into[path[-1]] = dtensor(local, tensor) if wrap else local
        return self.place(item, path, described(tensor, mesh, placements), sorted(mesh.ranks))

    def metadata(self, version="2.0"):
        def groups(listed):
            return [{"sharding_metadata": metadata, "ranks": ranks} for metadata, ranks in listed]

        def text(*path):
            return json.dumps(list(path), separators=(",", ":"))
        if version == "2.0":
            data = {"metadata": {item: {
                "nested_path_to_metadata": {text(*path): groups(listed) for path, listed in places.items()},
                "rank_to_layout_info": {rank: self.layouts.get((item, rank)) for rank in range(self.world)}}
                for item, places in self.places.items()}}
        else:
            data = {"metadata": {text(item, *path): groups(listed) for item, places in self.places.items()
                                 for path, listed in places.items()},
                    "rank_to_layout_info_mappings": {rank: {
                        item: self.layouts.get((item, rank))
                        for item in list(self.places) + sorted({i for i, r in self.layouts} - set(self.places))
                        if (item, rank) in self.values or (item, rank) in self.layouts} for rank in range(self.world)}}
        data["world_size"] = self.world
        if version:
            data["version"] = version
        self.data = data
        return self

    def write_data(self):
        for (item, rank), value in self.values.items():
            name = self.layouts.get((item, rank), {}).get("file_path", "%s_%d.pt" % (item, rank))
            target = os.path.join(self.path, name)
            os.makedirs(os.path.dirname(target), exist_ok=True)
            with open(target, "wb") as out:
                out.write(torch_save(value))
        return self

    def write_metadata(self, body=None, protocol=5):
        with open(os.path.join(self.path, "metadata.pkl"), "wb") as out:
            out.write(pickle.dumps(self.data, protocol) if body is None else body)
        return self

    def write(self, version="2.0", protocol=5):
        return self.metadata(version).write_data().write_metadata(protocol=protocol)

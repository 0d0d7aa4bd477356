# SPDX-License-Identifier: Apache-2.0
"""The index: dialects of all releases and Pythons, odd but sound ones, large ones."""

import json
import os
import resource
import struct
import zlib

from dcp_build import (Call, Dialect, Directory, Global, Object, Tensor, chunked, numbered, tensor_item)
from harness import SANITIZED, case, require, rounds, run

SECONDS = 25  # of a processor


def sample(path):
    """A directory with a bit of everything, and what it merges to."""
    w, b, s = numbered("float32", (5, 3)), numbered("bfloat16", (4, 2)), numbered("int64", ())
    directory = Directory(path)
    directory.tensor("model.w", w, chunked((5, 3), 2)).tensor("model.b", b).tensor("model.s", s)
    directory.value("step", 3).value("opt.0.lr", 0.5, path=("opt", 0, "lr")).value("name", "run")
    return directory, {"model": {"w": w, "b": b, "s": s}, "step": 3, "opt": [{"lr": 0.5}], "name": "run"}


def try_dialect(t, label, dialect, wanted_flat=False, **options):
    directory, wanted = sample(t.path())
    directory.write(dialect, **options)
    if wanted_flat:
        model = wanted["model"]
        wanted = {"model.w": model["w"], "model.b": model["b"], "model.s": model["s"], "step": 3, "opt.0.lr": 0.5,
                  "name": "run"}
    t.merges(label, directory.path, wanted)


@case(1)
def pythons(t):
    """Protocols, with and without memo, both forms of an enum."""
    for protocol in (2, 3, 4, 5):
        for enum in ("call", "getattr"):
            try_dialect(t, "protocol %d, enum %s" % (protocol, enum), Dialect(protocol=protocol, enum=enum))
        try_dialect(t, "protocol %d, no memo" % protocol, Dialect(protocol=protocol, memo=False))


@case(1)
def paths(t):
    posix, windows = ("/", "a", "b"), ("C:\\", "a")
    for module in ("pathlib", "pathlib._local"):
        for kind in ("PosixPath", "PurePosixPath"):
            try_dialect(t, "%s.%s of parts" % (module, kind), Dialect(path=Call(Global(module, kind), *posix)))
            try_dialect(t, "%s.%s of one" % (module, kind), Dialect(path=Call(Global(module, kind), "/a/b")))
        try_dialect(t, module + ".WindowsPath", Dialect(path=Call(Global(module, "WindowsPath"), *windows)))
    try_dialect(t, "str", Dialect(path="/a/b"))


@case(2)
def releases(t):
    for release in ("1.13", "2.0", "2.3", "2.6", "2.14", "portable"):
        try_dialect(t, release, Dialect(release), wanted_flat=release == "1.13")
    try_dialect(t, "1.13 by 3.11.2", Dialect("1.13", enum="getattr"), wanted_flat=True)
    try_dialect(t, "2.0, protocol 2, getattr", Dialect("2.0", protocol=2, enum="getattr"))


@case(2)
def prototype(t):
    """The schema of 1.11 and 1.12 is refused by name."""
    path = t.path()
    os.mkdir(path)
    module = "torch.distributed._shard.checkpoint.metadata"
    whole = Object(Global(module, "Metadata"), {"state_dict_metadata": {"w": Object(Global(
        module, "ShardedTensorStorageMetadata"), {"storage_metadata": [Object(Global(
            module, "ShardStorageMetadata"), {"storage_key": "a", "length": 4})]})}})
    from dcp_build import pickled
    with open(path + "/.metadata", "wb") as out:
        out.write(pickled(whole, 4))
    t.refuses("ls", "ls", path, names=[".metadata"])
    t.refuses_merge("merge", path, ".metadata")


@case(3)
def odd_indexes(t):
    for hint in ("number", "none", "absent", "wrong"):
        try_dialect(t, "hint " + hint, Dialect(hint=hint))
    directory, _ = sample(t.path())
    directory.write(Dialect(scalar_offset="absent"))        # torch does not find it then
    t.survives("scalar without offset", "merge", directory.path, t.path() + ".pt")
    try_dialect(t, "tuples for sizes", Dialect(sizes="tuple"))
    try_dialect(t, "tuples, no memo, protocol 2", Dialect(sizes="tuple", memo=False, protocol=2))
    try_dialect(t, "layout by name", Dialect(layout="bare"))
    try_dialect(t, "portable, no memo, tuples", Dialect("portable", memo=False, sizes="tuple", hint="absent"))


@case(4)
def foreign_attributes(t):
    """What Megatron-Core leaves on the object, and classes that nobody knows."""
    megatron = Global("megatron.core.dist_checkpointing.strategies.torch", "MCoreSavePlan")
    directory, wanted = sample(t.path())
    directory.foreign = {"mcore_data": {"model.w": {"nd_reformulated_orig_global_shape": (5, 3)}},
                         "all_local_plans": [Object(megatron, {"items": [slice(1, 2)], "planner_data": None})],
                         "other": Call(Global("mine", "make"), 1, 2, state={"a": (1,)})}
    directory.write()
    t.merges("merge", directory.path, wanted)
    t.check("ls", lambda: require(run("ls", directory.path)[0] == 0, "ls fails"))
    t.check("info", lambda: require(run("info", directory.path)[0] == 0, "info fails"))
    target = t.path()

    def reindexed():
        status, _, err = run("reindex", directory.path, target)
        require(status == 0, err)
    t.check("reindex", reindexed)
    t.merges("merge of that", target, wanted)


@case(4)
def plans_of_torch(t):
    """Megatron-Core keeps the plans of a save: objects of torch's planner. One bit in a name of theirs is damage."""
    def planner(name):
        return Global("torch.distributed.checkpoint.planner", name)

    def metadata(name):
        return Global("torch.distributed.checkpoint.metadata", name)

    item = Object(planner("WriteItem"), {
        "index": Object(metadata("MetadataIndex"), {"fqn": "model.w", "offset": None, "index": None}),
        "type": Call(planner("WriteItemType"), 2),
        "bytes_io_data": Object(planner("BytesIOWriteData"), {"nbytes": 4}),
        "tensor_data": Object(planner("TensorWriteData"), {"chunk": None, "properties": None, "size": None})})
    plan = Object(planner("SavePlan"), {"items": [item], "storage_data": None, "planner_data": None, "usable": True})
    directory, _ = sample(t.path())
    directory.foreign = {"all_local_plans": [plan]}
    directory.write()

    def verified(status, text):
        found, out, _ = run("verify", directory.path)
        require(found == status and text in out, out)
    t.check("sound", verified, 0, ": sound but for its index, which has no checksum: ")
    path = os.path.join(directory.path, ".metadata")
    with open(path, "rb") as file:
        sound = file.read()
    for name in (b"WriteItemType", b"TensorWriteData", b"tensor_data", b"bytes_io_data", b"SavePlan", b"usable"):
        at = sound.index(name) + 2
        with open(path, "wb") as file:
            file.write(sound[:at] + bytes([sound[at] ^ 2]) + sound[at + 1:])
        t.check("a bit of %s" % name.decode(), verified, 1, "DAMAGED")


@case(4)
def foreign_classes_in_place(t):
    """Unknown classes where nothing is needed of them do not hurt; where something is, they are named."""
    directory, wanted = sample(t.path())
    directory.write_data()
    dialect = Dialect()
    properties = dialect.properties
    dialect.properties = lambda dtype: Object(Global("mine", "Properties"), (Global("torch", dtype),))
    directory.write_index(dialect)
    t.survives("unknown properties", "ls", directory.path)
    dialect.properties = properties
    dialect.storage = lambda item: Object(Global("mine", "_StorageInfo"), {"path": item.file})
    directory.write_index(dialect)
    t.refuses_merge("unknown storage", directory.path)
    del wanted


@case(3)
def listing(t):
    """ls --json: names, dtypes and shapes as they were put in."""
    directory, _ = sample(t.path())
    directory.write()

    def check():
        status, out, err = run("ls", "--json", directory.path)
        require(status == 0 and err == "", err)
        rows = [(row["name"], row["dtype"], row["shape"], row["nbytes"]) for row in json.loads(out)["tensors"]]
        wanted = [("model.w", "float32", [5, 3], 60), ("model.b", "bfloat16", [4, 2], 16), ("model.s", "int64", [], 8)]
        require(rows == wanted, "%s" % rows)
    t.check("json", check)


# ---- large ones ----

def timed(*arguments):
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    status, out, err = run(*arguments)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    took = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    require(status == 0, "ended with %d: %s" % (status, err.strip()[:300]))
    require(took < SECONDS, "took %.0f s" % took)
    return out


class Many:
    """Tensors of one row per chunk, each row an item of 16 bytes: made from one item, with new data and checksum."""

    def __init__(self, path, tensors, chunks):
        self.directory = Directory(path)
        self.tensors, self.chunks = tensors, chunks
        self.template = tensor_item(Tensor("int64", (1, 2), b"\x77" * 16), aligned=False)
        self.at = self.template.index(b"\x77" * 16)
        self.old_sum = struct.pack("<I", zlib.crc32(b"\x77" * 16))
        self.sums = [i for i in range(len(self.template)) if self.template.startswith(self.old_sum, i)]

    def row(self, tensor, chunk):
        return struct.pack("<QQ", tensor, chunk * 7)

    def item(self, data):
        item = bytearray(self.template)
        item[self.at:self.at + 16] = data
        for at in self.sums:
            item[at:at + 4] = struct.pack("<I", zlib.crc32(data))
        return item

    def write_data(self):
        with open(self.directory.path + "/__0_0.distcp", "wb") as out:
            for tensor in range(self.tensors):
                for chunk in range(self.chunks):
                    out.write(self.item(self.row(tensor, chunk)))

    def write_index(self, protocol=4, memo=True):
        """By CPython's pickler in C: stand-in classes under the right names."""
        from dcp_fast import write_index
        write_index(self.directory.path + "/.metadata", self.tensors, self.chunks, len(self.template), protocol, memo)

    def wanted(self):
        return {"t%d" % tensor: Tensor("int64", (self.chunks, 2), b"".join(
            self.row(tensor, chunk) for chunk in range(self.chunks))) for tensor in range(self.tensors)}


@case(5, 45)
def many_tensors(t):
    """As many tensors of one chunk: frames, memo slots above 65,535; only the index is read for a list."""
    count = rounds(20000 if SANITIZED else 70000, 100000)
    many = Many(t.path(), count, 1)
    many.write_index()
    size = os.path.getsize(many.directory.path + "/.metadata")
    require(size > 100 * count, "the index has %d bytes only" % size)

    def check():
        out = timed("ls", many.directory.path)
        require(out.count("\n") >= count, "%d lines" % out.count("\n"))
    t.check("ls", check)
    t.check("info", timed, "info", many.directory.path)
    for protocol in rounds((2,), (2, 5)):
        many.write_index(protocol)
        t.check("ls, protocol %d" % protocol, timed, "ls", many.directory.path)


@case(5)
def many_chunks(t):
    """One tensor of 10^5 chunks: the work grows with their number, not with its square."""
    many = Many(t.path(), 1, 20000 if SANITIZED else 100000)
    many.write_index()
    t.check("ls", timed, "ls", many.directory.path)
    many.write_data()
    output = t.path("out.pt")
    t.check("merge", timed, "merge", many.directory.path, output)

    def check():
        import dcp_read
        with_sums = dcp_read.zipfile.ZipFile(output)
        require(with_sums.testzip() is None, "wrong checksum")
        data = next(with_sums.read(name) for name in with_sums.namelist() if name.endswith("/data/0"))
        require(data == many.wanted()["t0"].data, "contents differ")
    t.check("contents", check)


@case(45)
def many_items(t):
    many = Many(t.path(), 10000, 2)
    many.write_index()
    many.write_data()
    t.merges("merge", many.directory.path, many.wanted())


@case(7)
def far_offsets(t):
    """Items above 2 GiB, 4 GiB and 1 TiB, in a file of holes."""
    for at in (1 << 31, (1 << 32) + 123, 1 << 40):
        directory, wanted = sample(t.path())
        directory.write_data()
        file = directory.path + "/far.distcp"
        try:
            with open(file, "wb") as out:
                for item in directory.items:
                    out.seek(at + len(item.data))
                    item.file, item.offset = "far.distcp", out.tell()
                    out.write(item.data)
                    at += 2 * len(item.data)
        except OSError as error:
            t.skip("%d: %s" % (at, error))
            continue
        directory.write_index(Dialect(protocol=2 if at < 1 << 32 else 4))
        t.merges("at %d" % at, directory.path, wanted)


@case(1)
def memo_of_each_kind(t):
    """The same index, with every value stored again, gives the same file."""
    one, wanted = sample(t.path())
    one.write(Dialect(memo=True))
    other, _ = sample(t.path())
    other.write(Dialect(memo=False))
    t.merges("memo", one.path, wanted)
    t.merges("none", other.path, wanted)
    outputs = [t.path("%d/x.pt" % number) for number in range(2)]
    for path, output in zip((one.path, other.path), outputs):
        os.mkdir(os.path.dirname(output))
        run("merge", path, output)

    def check():
        with open(outputs[0], "rb") as left, open(outputs[1], "rb") as right:
            require(left.read() == right.read(), "the files differ")
    t.check("same bytes", check)

# SPDX-License-Identifier: Apache-2.0
"""Saves that were stopped, files that are missing or stale, indexes of single ranks."""

import os
import re
import shutil
import signal
import subprocess
import time

import harness
from dcp_build import Dialect, Directory, Global, Object, chunked, numbered
from harness import case, require, run

T = numbered("float32", (7, 3))
B = numbered("int64", (2,))


def sample(path):
    """Three files: rows of a tensor in each, a value and a replicated tensor in the first."""
    return Directory(path).tensor("m.w", T, chunked((7, 3), 3)).tensor("m.b", B).value("n", 5)


WANTED = {"m": {"w": T, "b": B}, "n": 5}


def done(t, label, *arguments):
    def check():
        status, _, err = run(*arguments)
        require(status == 0, "ended with %d: %s" % (status, err.strip()[:300]))
    t.check(label, check)


@case(31)
def no_index(t):
    directory = sample(t.path()).write_data()
    for command in ("ls", "info"):
        t.refuses(command, command, directory.path, names=[".metadata"])
    t.refuses_merge("merge", directory.path, ".metadata")
    t.refuses("reindex", "reindex", "-i", directory.path, names=[".metadata"])
    t.refuses("split of a directory that is none", "reshard", directory.path, t.path(), "--ranks", "2")
    empty = t.path()
    os.mkdir(empty)
    t.refuses_merge("an empty folder", empty)
    t.refuses_merge("no folder", t.path("nowhere"), "nowhere")


@case(31)
def promoted(t):
    """The new index is complete but still has its temporary name."""
    directory = sample(t.path()).write_data().write_index(name=".metadata.tmp")
    t.refuses("merge names it", "merge", directory.path, t.path() + ".pt", names=[".metadata.tmp"])
    done(t, "reindex", "reindex", "-i", directory.path)
    t.merges("merge", directory.path, WANTED)
    directory = sample(t.path()).write_data()
    data = directory.index()
    for size in (0, 1, len(data) // 2, len(data) - 1):
        with open(directory.path + "/.metadata.tmp", "wb") as out:
            out.write(data[:size])
        t.refuses("truncated at %d" % size, "reindex", "-i", directory.path, names=[".metadata.tmp"])


@case(31)
def both_indexes(t):
    """The good index counts, whatever its half-written successor holds."""
    directory = sample(t.path()).write()
    with open(directory.path + "/.metadata.tmp", "wb") as out:
        out.write(b"\x80\x04half")
    t.merges("merge", directory.path, WANTED)


@case(31)
def missing_files(t):
    """They are named; what does not need them can be had."""
    directory = sample(t.path()).write()
    os.unlink(directory.path + "/__1_0.distcp")
    t.refuses_merge("one", directory.path, "__1_0.distcp")
    t.merges("the others", directory.path, {"m": {"b": B}}, "--only", "m.b")
    t.survives("ls", "ls", directory.path)
    os.unlink(directory.path + "/__0_0.distcp")
    t.refuses_merge("two", directory.path)
    t.refuses("reshard", "reshard", directory.path, t.path(), "--ranks", "2")


@case(31)
def shortened_files(t):
    """An overwriting save was stopped: the index is older than the data."""
    for size in (0, 1, 100, 500, -1, -30, -200):
        directory = sample(t.path()).write()
        file = directory.path + "/__0_0.distcp"
        whole = os.path.getsize(file)
        os.truncate(file, size if size >= 0 else whole + size)
        t.refuses_merge("%d bytes" % size, directory.path, "__0_0.distcp")
        t.survives("%d bytes, ls" % size, "ls", directory.path)


@case(33)
def swapped_files(t):
    """Items of one size in each other's place: the shapes, or the dtypes, say so."""
    one, other = numbered("float32", (4, 3)), numbered("float32", (3, 4))
    directory = Directory(t.path()).tensor("a", one, files=["a"]).tensor("b", other, files=["b"]).write()
    os.rename(directory.path + "/a", directory.path + "/x")
    os.rename(directory.path + "/b", directory.path + "/a")
    os.rename(directory.path + "/x", directory.path + "/b")
    t.refuses_merge("shapes", directory.path, "a")


@case(33)
def flipped_bytes(t):
    """In the data of a tensor: refused, or the checksum of the merged file still tells."""
    for label, boxes in (("one chunk", None), ("three chunks", chunked((7, 3), 3)), ("columns", chunked((7, 3), 2, 1))):
        directory = Directory(t.path()).tensor("w", T, boxes).write()
        file = directory.path + "/__0_0.distcp"
        with open(file, "rb") as stream:
            data = bytearray(stream.read())
        first = T.box(*(boxes or [((0, 0), (7, 3))])[0]).data
        data[data.index(first) + 5] ^= 0x10
        with open(file, "wb") as out:
            out.write(data)

        def check(path=directory.path):
            import zipfile
            output = t.path() + ".pt"
            status, _, err = run("merge", path, output)
            if status == 0:
                with zipfile.ZipFile(output) as zipped:
                    require(zipped.testzip() is not None, "the checksum was made anew of changed bytes")
            else:
                require(status == 2 and "__0_0.distcp" in err, err)
        t.check(label, check)


# ---- rank-local indexes ----

def rank_local(path, ranks, rows=7, leave_out=()):
    """Every rank has its own index of its own chunks, and its own copy of what is not cut."""
    whole = numbered("float32", (rows, 3))
    for rank, box in enumerate(chunked((rows, 3), ranks)):
        directory = Directory(path).tensor("m.w", whole, [box], files=["__%d_0.distcp" % rank])
        directory.tensor("m.b", B, files=["__%d_0.distcp" % rank]).value("n", 5, file="__%d_0.distcp" % rank)
        if rank not in leave_out:
            directory.write_data().write_index(Dialect("2.14"), name="__%d.metadata" % rank)
    return whole


@case(32)
def rank_local_indexes(t):
    for ranks in (1, 2, 3):
        path = t.path()
        whole = rank_local(path, ranks)
        wanted = {"m": {"w": whole, "b": B}, "n": 5}
        t.refuses("merge of %d says what to do" % ranks, "merge", path, t.path() + ".pt", names=["reindex"])
        target = t.path()
        done(t, "reindex of %d" % ranks, "reindex", path, target)
        t.merges("merge of that, %d" % ranks, target, wanted)
        done(t, "reindex -i of %d" % ranks, "reindex", "-i", path)
        t.merges("merge of that, -i, %d" % ranks, path, wanted)
    path = t.path()
    whole = rank_local(path, 12, rows=24)
    done(t, "reindex of more than ten", "reindex", "-i", path)
    t.merges("more than ten", path, {"m": {"w": whole, "b": B}, "n": 5})


@case(32)
def missing_ranks(t):
    for missing in (0, 1, 2):
        path = t.path()
        rank_local(path, 3, leave_out=[missing])
        t.refuses("reindex, rank %d" % missing, "reindex", path, t.path(), names=["m.w"])


@case(32)
def stale_index_beside(t):
    """An old .metadata beside newer indexes of ranks is not to be believed in silence, although it fits the files."""
    path = t.path()
    whole = rank_local(path, 2)
    old = Directory(path).tensor("m.w", whole, chunked((7, 3), 2)).write_data().write_index()
    rank_local(path, 2)
    for item in old.items:
        item.offset = 0
    old.write_index()
    past = time.time() - 1000
    os.utime(path + "/.metadata", (past, past))

    def check():
        status, _, err = run("merge", path, t.path() + ".pt")
        require(status == 2 or err, "merged without a word")
        require("metadata" in err, err)
    t.check("merge", check)


@case(32)
def ranks_that_contradict(t):
    path = t.path()
    rank_local(path, 2)
    other = Directory(path).tensor("m.w", numbered("float32", (9, 3)), chunked((9, 3), 2)[1:], files=["__1_0.distcp"])
    other.write_data().write_index(Dialect("2.14"), name="__1.metadata")
    t.refuses("sizes", "reindex", path, t.path(), names=["m.w"])
    other = Directory(path).tensor("m.w", numbered("int32", (7, 3)), chunked((7, 3), 2)[1:], files=["__1_0.distcp"])
    other.write_data().write_index(Dialect("2.14"), name="__1.metadata")
    t.refuses("dtypes", "reindex", path, t.path(), names=["m.w"])
    with open(path + "/__1.metadata", "wb") as out:
        out.write(b"\x80\x04half")
    t.refuses("half", "reindex", path, t.path(), names=["__1.metadata"])


# ---- new indexes ----

@case(30)
def downgraded(t):
    """What an old torch or Python cannot read is gone; the data files are the same."""
    names = (b"pathlib", b"StorageMeta(?!data)", b"checkpoint_id", b"_MEM_FORMAT", b"mcore", b"version")
    directory = sample(t.path())
    directory.foreign = {"mcore_data": {"x": Object(Global("megatron.core", "Plan"), {"a": 1})}}
    for release in ("1.13", "2.0", "2.6", "2.14"):
        directory.write(Dialect(release, protocol=5 if release == "2.14" else 4))
        target = t.path()
        done(t, release, "reindex", directory.path, target)

        def check():
            with open(target + "/.metadata", "rb") as stream:
                data = stream.read()
            found = [name for name in names if re.search(name, data)]
            require(not found, "%s in the index" % found)
            require(data[1] <= 4, "protocol %d" % data[1])
            require(b"torch.distributed.checkpoint.metadata" in data, "other modules")
        t.check(release + ", names", check)
        wanted = WANTED if release != "1.13" else {"m.w": T, "m.b": B, "n": 5}
        t.merges(release + ", merge", target, wanted)


@case(28)
def renaming(t):
    """Keys change in all three tables; what becomes of data files."""
    wanted = {"w": T, "b": B}
    directory = Directory(t.path()).tensor("module.w", T, chunked((7, 3), 3), path=("module.w",))
    directory.tensor("module.b", B, path=("module.b",)).write()
    target = t.path()
    done(t, "copy", "strip-module", directory.path, target)
    t.merges("copy, merge", target, wanted)
    linked = t.path()
    done(t, "link", "strip-module", "--hard-link", directory.path, linked)
    t.merges("link, merge", linked, wanted)
    t.check("linked", lambda: require(os.path.samefile(linked + "/__1_0.distcp", directory.path + "/__1_0.distcp"),
                                      "the data files are copies"))
    done(t, "back", "add-prefix", "module.", target, t.path("back"))
    t.merges("back, merge", t.path("back"), {"module.w": T, "module.b": B})
    done(t, "in place", "strip-module", "-i", directory.path)
    t.merges("in place, merge", directory.path, wanted)
    t.refuses("nothing left", "strip-module", directory.path, t.path(), statuses=(1,), names=["module."])
    t.refuses("clash", "rename", "-e", "s/[wb]/x/", directory.path, t.path(), names=["x"])
    t.refuses("clash in place", "rename", "-i", "-e", "s/[wb]/x/", directory.path, names=["x"])


@case(29)
def devices(t):
    """Inside of values only; the tensors are on cpu anyway."""
    from dcp_build import rebuilt, value_item
    directory = Directory(t.path()).tensor("w", T)
    directory.value("v", None, item=value_item((rebuilt(B, location="cuda:1"), 7), {"0": B.data})).write()
    target = t.path()
    done(t, "remap", "remap", "cuda:*=cpu", directory.path, target)

    def check():
        found = t.merged(target)
        require(found["w"] == T and found["v"][1] == 7 and found["v"][0] == B, "other contents")
        require(found["v"][0].location == "cpu", "still on " + found["v"][0].location)
    t.check("contents", check)


@case(26)
def killed(t):
    """Killed while the index is replaced: the old one or the new one is there, never half of one."""
    source = Directory(t.path())
    for number in range(300):
        source.tensor("module.w%d" % number, B, path=("module.w%d" % number,))
    source.write()
    with open(source.path + "/.metadata", "rb") as stream:
        before = stream.read()
    after = None
    for number in range(40):
        target = t.path()
        shutil.copytree(source.path, target)
        process = subprocess.Popen([harness.CKPT, "strip-module", "-q", "-i", target], stderr=subprocess.DEVNULL)
        if number:
            time.sleep(number * 0.0004)
            process.send_signal(signal.SIGKILL)
        process.wait()
        with open(target + "/.metadata", "rb") as stream:
            found = stream.read()
        after = after or found
        t.check("kill %d" % number, lambda: require(found in (before, after), "an index of %d bytes" % len(found)))
        t.survives("ls %d" % number, "ls", target)
    require(after != before, "nothing was done")

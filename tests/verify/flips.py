# SPDX-License-Identifier: Apache-2.0
"""One bit of a small file is turned around: `ckpt verify` finds it, or the bit has no meaning.

    flips.py [COUNT]    COUNT bits of every kind of file (400, in a long run 4,000), or all if it has fewer

Files as torch lays them out have no byte without a purpose: every flip has to be found. In the data files of `ckpt split` there are
zeros between items, which nobody reads. An index has no checksum: what it says is held against the items and against itself, what is
not found must change nothing for a loader, and a class or dtype that torch may have one day makes the verdict "cannot tell". Of an archive that another program packed, what is not found must change nothing
for Python's zipfile either. A legacy stream has no checksums: a flip is found, or
the verdict stays "cannot tell", never "sound".

The flipped files are verified in one process (tests/bad/open_many.c); of some the command has to say the same. CKPT, CKPT_OPEN_MANY,
CKPT_TEST_DIR and CKPT_TEST_LONG as for the other tests.
"""
import collections
import io
import os
import pickle
import random
import shutil
import subprocess
import sys
import tempfile
import zipfile

TESTS = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, os.path.join(TESTS, "bad"))
import files  # noqa: E402

CKPT = os.path.abspath(os.environ.get("CKPT", "ckpt"))
FIXTURES = os.path.join(TESTS, "fixtures", "ddp")
SOUND, DAMAGED, UNPROVEN = 0, 1, 2
BY_COMMAND = 10  # of each kind
zipfile.MAX_EXTRACT_VERSION = 0xFFFF  # what "version needed" says means nothing to torch


def ckpt(*arguments):
    return subprocess.run([CKPT, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=60,
                          check=False)


def make(*arguments):
    done = ckpt(*arguments)
    if done.returncode:
        sys.exit("ckpt %s: %s" % (" ".join(arguments), done.stderr))


def repack(source, target, method):
    with zipfile.ZipFile(source) as old, zipfile.ZipFile(target, "w", method) as new:
        for info in old.infolist():
            new.writestr(info.filename, old.read(info))


def contents(data):
    """What a zip holds for a reader that looks at everything it needs; None: it cannot be read."""
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            return [(info.filename, archive.read(info)) for info in archive.infolist()]
    except Exception:  # whatever it is, the file cannot be read
        return None


def between_items(before, after):
    """Is what differs outside of all items? They are archives, from a first local header to the 22 bytes of the end."""
    at, end = next(i for i, (a, b) in enumerate(zip(before, after)) if a != b), 0
    while end < len(before):
        begin = before.index(b"PK\3\4", end)
        if at < begin:
            return True
        end = before.index(b"PK\5\6", begin) + 22
        if at < end:
            return False
    return True


class Index(pickle.Unpickler):
    """The index of a DCP directory as torch's loaders understand it, without torch.

    Of the properties of a tensor they use the dtype alone, and they do not rely on `index` of a place.
    """
    METADATA = ("Metadata", "TensorStorageMetadata", "BytesStorageMetadata", "ChunkStorageMetadata", "TensorProperties",
                "MetadataIndex", "StorageMeta", "_MEM_FORMAT_ENCODING")
    CLASSES = {"torch.distributed.checkpoint.metadata": METADATA,
               "torch.distributed.checkpoint.filesystem": ("_StorageInfo",),
               "torch.distributed._shard.sharded_tensor.metadata": ("TensorProperties", "MEM_FORMAT_ENCODING")}

    class Instance:
        def __setstate__(self, state):
            if type(self).__name__ == "TensorProperties":
                dtype, _layout, _grad, _format, _pinned = state
                state = {"dtype": dtype}
            self.__dict__.update(state)

    def find_class(self, module, name):
        if module == "torch" and name == "Size":
            return tuple
        if module == "torch":
            return "dtype %s" % {"bool": "bool"}.get(name, name)
        if (module, name) == ("torch.serialization", "_get_layout"):
            return {"torch.strided": "strided"}.__getitem__
        if name not in self.CLASSES[module]:
            raise KeyError(name)
        if name.endswith("MEM_FORMAT_ENCODING"):
            return range(3).index
        return type(name, (self.Instance,), {"__hash__": object.__hash__})

    @classmethod
    def meaning(cls, data):
        try:
            root = cls(io.BytesIO(data)).load()
            entries = [(name, [(c.offsets, c.sizes) for c in value.chunks], value.size, value.properties.dtype)
                       if hasattr(value, "chunks") else (name, type(value).__name__)
                       for name, value in root.state_dict_metadata.items()]
            # a dict as torch sees it: equal places are one, and the last one counts
            places = {(place.fqn, getattr(place, "offset", None)):
                      (info.relative_path, info.offset, info.length, getattr(info, "transform_descriptors", None))
                      for place, info in root.storage_data.items()}
            return entries, places, root.planner_data
        except Exception:  # whatever it is, the index cannot be read
            return None

    @classmethod
    def same(cls, before, after):
        return cls.meaning(before) == cls.meaning(after) is not None


class Kind:
    """A file, or a file in a directory, and what may be said of it with one bit turned around."""

    def __init__(self, name, path, inside=None, sound=SOUND, judge=lambda before, after: False, unproven=False):
        """JUDGE: has a flip no meaning? UNPROVEN: it is enough that it is not called sound."""
        self.name, self.path, self.inside, self.sound, self.judge = name, path, inside, sound, judge
        self.unproven = unproven or sound == UNPROVEN
        with open(os.path.join(path, inside) if inside else path, "rb") as file:
            self.bytes = file.read()

    def place(self, folder):
        """A copy that can be changed: what is verified, and the file that is changed."""
        target = os.path.join(folder, "flipped")
        if self.inside:
            shutil.copytree(self.path, target)
            return target, os.path.join(target, self.inside)
        shutil.copy(self.path, target)
        return target, target

    def flip(self, bits):
        """[(bit, exit status, output)] of what was neither found nor allowed, and how often each status came."""
        wrong, seen = [], collections.Counter()
        flipped = [self.with_flipped(bit) for bit in bits]
        with tempfile.TemporaryDirectory(dir=os.environ.get("CKPT_TEST_DIR")) as folder:
            target, changed = self.place(folder)
            answers = files.many(flipped, "verify", changed, target)
            for number, (bit, data, answer) in enumerate(zip(bits, flipped, answers)):
                status = {"sound": SOUND, "damaged": DAMAGED}.get(answer, UNPROVEN)  # or a message, which is the same status
                seen[status] += 1
                found = status == DAMAGED or (status == UNPROVEN and self.unproven)
                if not found and not self.judge(self.bytes, data):
                    wrong.append((bit, status, answer))
                if number < BY_COMMAND:
                    with open(changed, "wb") as file:
                        file.write(data)
                    done = ckpt("verify", target)
                    if done.returncode != status:
                        wrong.append((bit, done.returncode, "but in the library: " + answer))
        return wrong, seen

    def with_flipped(self, bit):
        data = bytearray(self.bytes)
        data[bit // 8] ^= 1 << bit % 8
        return bytes(data)


def kinds(work):
    model = os.path.join(FIXTURES, "ddp_model.pt")

    def path(name):
        return os.path.join(work, name)

    for profile in ("1.6", "1.13", "2.6"):
        make("convert", "--profile", profile, model, path("as-%s.pt" % profile))
        yield Kind("zip of torch " + profile, path("as-%s.pt" % profile))
    yield Kind("zip of torch 2.14", model)
    # no tensor: of the oldest torch two records are all that there is
    make("extract", "global_step", os.path.join(FIXTURES, "ddp_trainer.pt"), path("number.pt"))
    for profile in ("1.6", "2.6"):
        make("convert", "--profile", profile, path("number.pt"), path("number-%s.pt" % profile))
        yield Kind("zip of torch %s without tensors" % profile, path("number-%s.pt" % profile))
    make("convert", "--alignment", "4096", model, path("aligned.pt"))
    yield Kind("zip, alignment 4096", path("aligned.pt"))
    make("split", "--ranks", "2", model, path("dcp"))
    for name in ("__0_0.distcp", "__1_0.distcp"):
        yield Kind("data file of a DCP directory", path("dcp"), name, judge=between_items)
    # all names of this one have a path of several parts: a name without has no second copy
    make("split", "--ranks", "2", os.path.join(FIXTURES, "ddp_trainer.pt"), path("nested"))
    make("select", "-i", "--drop", "epoch", "--drop", "global_step", "--drop", "best_loss", "--drop", "history",
         "--drop", "torch_version", path("nested"))
    yield Kind("index of a DCP directory", path("nested"), ".metadata", judge=Index.same, unproven=True)
    repack(path("as-2.6.pt"), path("stored.pt"), zipfile.ZIP_STORED)
    yield Kind("zip, packed anew", path("stored.pt"), judge=lambda a, b: contents(a) == contents(b))
    repack(path("as-2.6.pt"), path("deflated.pt"), zipfile.ZIP_DEFLATED)
    yield Kind("zip, compressed", path("deflated.pt"), judge=lambda a, b: contents(a) == contents(b))
    make("convert", "--to", "torch-legacy", model, path("legacy.bin"))
    yield Kind("legacy stream", path("legacy.bin"), sound=UNPROVEN)
    make("convert", "--crc", "off", model, path("no-crc.pt"))
    yield Kind("zip without checksums", path("no-crc.pt"), sound=UNPROVEN)


def main():
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 4000 if os.environ.get("CKPT_TEST_LONG") == "1" else 400
    if not files.OPEN_MANY:
        print("skipped: CKPT_OPEN_MANY is not set")
        return 77
    failed = 0
    base = os.environ.get("CKPT_TEST_DIR") or "."
    os.makedirs(base, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="flips-", dir=base) as work:
        for kind in kinds(work):
            before = ckpt("verify", kind.path).returncode
            bits = random.Random(1).sample(range(8 * len(kind.bytes)), min(count, 8 * len(kind.bytes)))
            wrong, seen = kind.flip(bits)
            if before != kind.sound:
                wrong.append((-1, before, "untouched"))
            print("%-30s %6d bytes, %5d flips: %5d found, %d cannot tell, %d not found, %d of them wrong" % (
                kind.name, len(kind.bytes), len(bits), seen[DAMAGED], seen[UNPROVEN], seen[SOUND], len(wrong)))
            for text in wrong[:10]:
                print("FAIL %s: bit %d: exit status %d: %s" % (kind.name, *text))
            failed += len(wrong)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())

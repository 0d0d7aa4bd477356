# SPDX-License-Identifier: Apache-2.0
"""ckpt.torch.load() beside torch.load(weights_only=True): python_torch_judge.py LIST, with the package `ckpt` in this folder.

LIST is that of python_judge.py: lines SOURCE<tab>REFERENCE, both absolute or relative to this folder. Each file is loaded
from its path, with and without mmap, as an open file, and as an open checkpoint with and without edits. What torch refuses has to be refused, too. Prints a line for what
is wrong, and at the end the counts.
"""

import argparse
import collections
import io
import math
import os
import pickle
import shutil
import struct
import sys
import traceback
import warnings
import zipfile

warnings.simplefilter("ignore")

import torch  # noqa: E402

import ckpt  # noqa: E402

BITS = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}
counts = collections.Counter()


class Different(Exception):
    pass


def require(condition, where, text, *values):
    if not condition:
        raise Different("%s: %s" % (where, text % tuple(repr(value)[:100] for value in values)))


def bits(tensor):
    tensor = tensor.detach().cpu().resolve_conj().resolve_neg().contiguous()
    if tensor.is_complex():
        tensor = torch.view_as_real(tensor)
    return tensor.reshape(-1).view(BITS[tensor.element_size()]) if tensor.numel() else torch.empty(0)


def untyped(storage):
    return storage._untyped_storage if isinstance(storage, torch.storage.TypedStorage) else storage


class Judge:
    def __init__(self):
        self.partner, self.kept = {}, []

    def same_identity(self, wanted, found, where):
        for left, right in ((("w", wanted), ("f", found)), (("f", found), ("w", wanted))):
            require(self.partner.setdefault(left, right) == right, where, "shared on one side only")

    def compare(self, wanted, found, where="object"):
        """With a stack of its own, as objects may be nested deeper than Python calls."""
        todo, seen = [(wanted, found, where)], set()
        while todo:
            wanted, found, where = todo.pop()
            require(type(wanted) is type(found), where, "types %s, %s", type(wanted), type(found))
            if isinstance(wanted, (torch.Tensor, dict, list, set, bytearray)) or hasattr(wanted, "__dict__"):
                self.same_identity(id(wanted), id(found), where)
            if isinstance(wanted, (torch.Tensor, dict, list, tuple)) or hasattr(wanted, "__dict__"):
                if id(wanted) in seen:
                    continue
                seen.add(id(wanted))
                self.kept.append((wanted, found))
            if isinstance(wanted, torch.Tensor):
                counts["tensors"] += 1
                todo += self.tensor(wanted, found, where)
                wanted = found = None
            elif isinstance(wanted, (torch.storage.TypedStorage, torch.UntypedStorage)):
                self.storage(wanted, found, where)
            elif isinstance(wanted, dict):
                require(len(wanted) == len(found), where, "%s and %s items", len(wanted), len(found))
                todo += [(a, b, "%s[%.40r]" % (where, key)) for (key, a), b in zip(wanted.items(), found.values())]
                todo += [(a, b, where + " (key)") for a, b in zip(wanted, found)]
                if hasattr(wanted, "__dict__"):
                    todo.append((wanted.__dict__, found.__dict__, where + ".__dict__"))
            elif isinstance(wanted, (list, tuple)):
                require(len(wanted) == len(found), where, "%s and %s items", len(wanted), len(found))
                todo += [(a, b, "%s[%d]" % (where, i)) for i, (a, b) in enumerate(zip(wanted, found))]
            elif isinstance(wanted, float):
                require(struct.pack("d", wanted) == struct.pack("d", found) or math.isnan(wanted) and math.isnan(found),
                        where, "%s, %s", wanted, found)
            elif isinstance(wanted, complex):
                require(repr(wanted) == repr(found), where, "%s, %s", wanted, found)
            elif isinstance(wanted, BaseException):
                todo.append((wanted.args, found.args, where + ".args"))
            elif type(wanted).__name__ == "StorageType":
                require(vars(wanted) == vars(found), where, "%s, %s", vars(wanted), vars(found))
            elif isinstance(wanted, torch.Generator):
                require(torch.equal(wanted.get_state(), found.get_state()), where, "states")
            elif type(wanted).__module__ == "numpy" or type(wanted).__eq__ is object.__eq__ and not isinstance(wanted, type):
                require(pickle.dumps(wanted) == pickle.dumps(found), where, "%s, %s", wanted, found)
            else:
                require(wanted == found or pickle.dumps(wanted) == pickle.dumps(found), where, "%s, %s", wanted, found)

    def storage(self, wanted, found, where):
        wanted_bytes, found_bytes = untyped(wanted), untyped(found)
        require(wanted_bytes.device == found_bytes.device, where, "%s, %s", wanted_bytes.device, found_bytes.device)
        require(wanted_bytes.nbytes() == found_bytes.nbytes(), where, "%s and %s bytes", wanted_bytes.nbytes(), found_bytes.nbytes())
        if isinstance(wanted, torch.storage.TypedStorage):
            require(wanted.dtype == found.dtype, where, "%s, %s", wanted.dtype, found.dtype)
        if wanted_bytes.nbytes() and wanted_bytes.device.type != "meta":
            self.same_identity(("s", wanted_bytes.data_ptr()), ("s", found_bytes.data_ptr()), where)
            self.kept.append((wanted_bytes, found_bytes))
            left, right = (torch.empty(0, dtype=torch.uint8, device=one.device).set_(one) for one in (wanted_bytes, found_bytes))
            require(torch.equal(left, right), where, "other bytes")

    def tensor(self, wanted, found, where):
        """Compare what a tensor itself has; [(wanted, found, where)] of what else there is to compare."""
        for name in ("dtype", "device", "layout", "requires_grad", "is_quantized", "is_nested", "is_sparse"):
            require(getattr(wanted, name) == getattr(found, name), where, name + " %s, %s", getattr(wanted, name), getattr(found, name))
        more = [(wanted.__dict__, found.__dict__, where + ".__dict__")]
        if wanted.is_nested and wanted.layout is torch.strided:
            counts["nested"] += 1
            return more + list(zip(wanted.detach().unbind(), found.detach().unbind(), [where + " (nested)"] * wanted.size(0)))
        require(wanted.shape == found.shape, where, "%s, %s", wanted.shape, found.shape)
        plain, other = wanted.detach(), found.detach()
        if wanted.layout is torch.sparse_coo:
            counts["sparse"] += 1
            require(wanted.is_coalesced() == found.is_coalesced(), where, "is_coalesced")
            return more + [(plain._indices(), other._indices(), where + " (indices)"), (plain._values(), other._values(), where + " (values)")]
        if wanted.layout is not torch.strided:
            counts["sparse"] += 1
            rows = wanted.layout in (torch.sparse_csr, torch.sparse_bsr)
            names = ("crow_indices", "col_indices", "values") if rows else ("ccol_indices", "row_indices", "values")
            return more + [(getattr(plain, name)(), getattr(other, name)(), where + " " + name) for name in names]
        for name in ("stride", "storage_offset", "is_conj", "is_neg", "is_contiguous"):
            require(getattr(wanted, name)() == getattr(found, name)(), where, name + " %s, %s", getattr(wanted, name)(), getattr(found, name)())
        if wanted.device.type == "meta":
            counts["meta"] += 1
            sizes = [one.untyped_storage().nbytes() for one in (wanted, found)]
            require(sizes[0] == sizes[1], where, "%s and %s bytes on meta", *sizes)
            return more
        self.storage(wanted.untyped_storage(), found.untyped_storage(), where)
        if wanted.is_quantized:
            counts["quantized"] += 1
            require(wanted.qscheme() == found.qscheme(), where, "qscheme")
            if wanted.qscheme() in (torch.per_tensor_affine, torch.per_tensor_symmetric):
                require((wanted.q_scale(), wanted.q_zero_point()) == (found.q_scale(), found.q_zero_point()), where, "scale")
            else:
                require(wanted.q_per_channel_axis() == found.q_per_channel_axis(), where, "axis")
                more += [(wanted.q_per_channel_scales(), found.q_per_channel_scales(), where + " (scales)"),
                         (wanted.q_per_channel_zero_points(), found.q_per_channel_zero_points(), where + " (zero points)")]
        elif wanted.dtype not in (torch.quint4x2, torch.quint2x4):
            require(torch.equal(bits(plain), bits(other)), where, "values %s, %s", wanted, found)
        return more


def ways(source):
    """(name, how to load SOURCE)"""
    yield "path", lambda: ckpt.torch.load(source)
    if os.path.isfile(source):
        def opened():
            with open(source, "rb") as stream:
                return ckpt.torch.load(stream)

        yield "mmap", lambda: ckpt.torch.load(source, mmap=True)
        yield "file", opened
    yield "checkpoint", lambda: ckpt.torch.load(ckpt.open(source))
    yield "edited", lambda: ckpt.torch.load(ckpt.open(source).remap({"xla:77": "cpu"}))


def check(source, reference):
    try:
        wanted = torch.load(reference, weights_only=True)
    except pickle.UnpicklingError as error:
        counts["refused by torch"] += 1
        try:
            ckpt.torch.load(source)
        except Exception:
            return None
        return "is not refused; torch says %s" % str(error)[-300:]
    except Exception:
        counts["failed in torch"] += 1
        return None
    for name, load in ways(source):
        try:
            Judge().compare(wanted, load())
        except Different as error:
            return "%s: %s" % (name, error)
        except ckpt.Error as error:
            return "%s: %s: %s" % (name, type(error).__name__, error)
    counts["equal"] += 1
    return None


def to_meta(storage, location):
    return torch.UntypedStorage(storage.nbytes(), device="meta")


def sharing(state):
    """Devices, sizes, and which of the tensors, or storages, have one storage."""
    storages = [untyped(one) if isinstance(one, torch.storage.TypedStorage) else one.untyped_storage() for one in state]
    return [(one.device.type, one.nbytes(), [one._cdata == other._cdata for other in storages]) for one in storages]


def check_places():
    """What shares a storage, wherever map_location puts it, and however it says so; lines of what is wrong."""
    base = torch.arange(6.0)
    state = [base, base[2:], torch.nn.Parameter(base), base.view(2, 3), torch.ones(2), base[1:3], base.storage(), base.storage(), base[:1]]
    places = {"nothing": None, "cpu": "cpu", "meta": "meta", "device": torch.device("meta"), "dict": {"cpu": "meta"}, "other dict": {"cuda:0": "meta"},
              "function": to_meta, "function of nothing": lambda storage, location: None,
              "some": lambda storage, location: to_meta(storage, location) if storage.nbytes() == 24 else storage}
    for path, zipped in (("places.pt", True), ("places-old.pt", False)):
        torch.save(state, path, _use_new_zipfile_serialization=zipped)
        for name, place in places.items():
            wanted = sharing(torch.load(path, map_location=place, weights_only=True))
            for mmap in (None, True) if zipped else (None,):
                found = sharing(ckpt.torch.load(path, map_location=place, mmap=mmap))
                counts["places"] += 1
                if found != wanted:
                    yield "%s, map_location %s: %s, torch %s" % (path, name, found, wanted)


def check_broken():
    """Whatever byte of a pickle is another one: it is loaded, or a ckpt.Error names the file; lines of what is wrong."""
    torch.save({"a": torch.ones(2), "p": torch.nn.Parameter(torch.ones(1)), "s": torch.ones(2).to_sparse(), "n": [1, (2.5, "x")]}, "whole.pt")
    with zipfile.ZipFile("whole.pt") as archive:
        records = {name.split("/", 1)[1]: archive.read(name) for name in archive.namelist()}
    data = records["data.pkl"]
    for at in range(2, len(data)):
        records["data.pkl"] = data[:at] + bytes((data[at] ^ (0x80 if at % 2 else 0x03),)) + data[at + 1:]
        with zipfile.ZipFile("broken.pt", "w") as archive:
            for name, content in records.items():
                archive.writestr("whole/" + name, content)
        for name, load in (("all", lambda: ckpt.torch.load("broken.pt")), ("opaque", lambda: ckpt.torch.load("broken.pt", weights_only=False)),
                           ("meta", lambda: ckpt.torch.load("broken.pt", map_location="meta")),
                           ("tensors", lambda: [tensor.torch() for tensor in ckpt.open("broken.pt").tensors()])):
            counts["broken"] += 1
            try:
                load()
            except ckpt.Error as error:
                if not str(error).startswith("broken.pt: ") or not str(error).isprintable():
                    yield "byte %d, %s: %r does not name the file" % (at, name, str(error))
            except Exception as error:
                yield "byte %d, %s: %r" % (at, name, error)


def check_behind():
    """Parts of a sparse tensor that go on behind their storage, which torch would grow, are refused, and nothing is read into memory that was given back."""
    numel = 1 << 20
    number, smaller = (struct.pack("<BI", 0x4a, count) for count in (numel, numel // 2))
    torch.save({"s": torch.ones(numel).to_sparse()}, "whole.pt")
    with zipfile.ZipFile("whole.pt") as archive:
        records = {name: archive.read(name) for name in archive.namelist()}
    with zipfile.ZipFile("behind.pt", "w") as archive:
        for name, content in records.items():  # the first storage has half of its numbers
            archive.writestr(name, content.replace(number, smaller, 1) if name.endswith("data.pkl") else content)
    for strict in (True, False):
        counts["behind"] += 1
        try:
            ckpt.torch.load("behind.pt", weights_only=strict)
            yield "behind.pt is loaded"
        except ckpt.Error as error:
            if not str(error).startswith("behind.pt: "):
                yield str(error)


def check_grown():
    """A tensor where no list has it, a key of a dict or set by BUILD, that goes on behind its storage: refused, wherever the storage goes."""
    storage = b"(X\7\0\0\0storagectorch\nByteStorage\nX\1\0\0\x000X\3\0\0\0cpuK%ctQ"
    for numel in (0, 4):
        tensor = b"ctorch._utils\n_rebuild_tensor_v2\n(" + storage % numel + b"K\0K\x09\x85K\1\x85\x89ccollections\nOrderedDict\n)RtR"
        for body in (b"}" + tensor + b"K\1s", b"}" + tensor + b"\x85K\1s", b"ctorch\nTensor\n)R(" + storage % numel + b"K\0K\x09\x85K\1\x85tb"):
            with zipfile.ZipFile("grown.pt", "w") as archive:
                archive.writestr("grown/data.pkl", b"\x80\x02" + body + b".")
                archive.writestr("grown/data/0", bytes(numel))
                archive.writestr("grown/version", "3\n")
            for place in (None, "cpu", lambda one, where: one):
                counts["grown"] += 1
                answers = list(answers_of("grown.pt", True, map_location=place))
                if answers != [None, None]:
                    yield "%r on %s: torch %r, ckpt %r" % (body[-12:], place, *answers)


def check_keys():
    """A tensor that is a key, and shares the storage of one that is cast."""
    for name in ("float8_e4m3fn", "float8_e5m2", "float16"):
        weight = torch.tensor([1, 2, -3, 0.5]).to(getattr(torch, name))
        torch.save({"w": weight, "by": {weight[2:]: 1, (weight[1:], 2): 3}}, "keys.pt")
        for to in ("f32", "bf16", "float8_e5m2"):
            with ckpt.open("keys.pt") as f:
                edited = f.cast(to)
                edited.save("edited.pt", overwrite=True)
                wanted, found = ([(key[0] if isinstance(key, tuple) else key) for key in load["by"]] for load in (torch.load("edited.pt", weights_only=True), ckpt.torch.load(edited)))
            counts["keys"] += 1
            if [(a.dtype, a.float().tolist()) for a in wanted] != [(b.dtype, b.float().tolist()) for b in found]:
                yield "%s to %s: keys %s, wanted %s" % (name, to, found, wanted)


def check_texts():
    """Texts that are not UTF-8, of both Pythons and as values and keys: an error where torch has one, else the same."""
    torch.save({"a": 1}, "whole.pt")
    with zipfile.ZipFile("whole.pt") as archive:
        records = {name: archive.read(name) for name in archive.namelist()}
    for text in (b"fine", b"\xc3\xa9", b"\xed\xa0\x80", b"\xff", b"a\x80", b"\xc0\x80", b"\xf5\x80\x80\x80"):
        for made in (b"X" + struct.pack("<I", len(text)) + text, b"U" + bytes((len(text),)) + text, b"T" + struct.pack("<I", len(text)) + text):
            for body in (b"}" + made + b"K\x01s", b"}K\x01" + made + b"s"):
                with zipfile.ZipFile("texts.pt", "w") as archive:
                    for name, content in records.items():
                        archive.writestr(name, b"\x80\x02" + body + b"." if name.endswith("data.pkl") else content)
                answers = []
                for load in (torch.load, ckpt.torch.load):
                    try:
                        answers.append(load("texts.pt", weights_only=True))
                    except ckpt.Error as error:
                        answers.append(None if str(error).startswith("texts.pt: ") else str(error))
                    except Exception:
                        answers.append(None)
                counts["texts"] += 1
                if answers[0] != answers[1]:
                    yield "%r: torch %r, ckpt %r" % (body, *answers)


def check_edits():
    """An open checkpoint with edits is loaded as what they write; and it stays open."""
    base = torch.arange(6.0)
    torch.save({"model": collections.OrderedDict([("module.a", base), ("module.b", base[2:]), ("module.w", torch.nn.Parameter(torch.ones(2, 2)))]), "n": 7,
                "other": [torch.ones(3, dtype=torch.int32)]}, "edits.pt")
    small = torch.arange(6.0).to(torch.float8_e4m3fn)
    noted = torch.nn.Parameter(small[:3], requires_grad=False)
    noted.note = "x"
    torch.save({"a": small, "b": small[2:], "noted": noted, "c": small.to(torch.float8_e5m2), "u": torch.arange(3, dtype=torch.int32).to(torch.uint16), "f": torch.ones(2)}, "small.pt")
    small = ckpt.open("small.pt")
    with ckpt.open("edits.pt") as f:
        for name, edited in (("strip", f.strip_module()), ("cast", f.cast("bf16")), ("both", f.strip_module().cast("f16")), ("select", f.select("model.*")),
                             *(("float8 to " + dtype, small.cast(dtype)) for dtype in ("bf16", "f16", "f32", "f64", "float8_e5m2", "float8_e4m3fn")),
                             ("float8 to bf16 and on", small.cast("bf16").cast("f32").select("*")), ("float8", small.remap({"cuda:*": "cpu"})),
                             ("set", f.set("n", "text")), ("remap", f.remap({"cuda:*": "cpu"})), ("sanitize", f.sanitize()), ("nothing", f)):
            counts["edits"] += 1
            edited.save("edited.pt", overwrite=True)
            try:
                Judge().compare(torch.load("edited.pt", weights_only=True), ckpt.torch.load(edited))
                Judge().compare(torch.load("edited.pt", weights_only=True, map_location="meta"), ckpt.torch.load(edited, map_location="meta"))
            except Different as error:
                yield "%s: %s" % (name, error)
        if len(f) != 4:
            yield "the checkpoint has %d tensors then" % len(f)
    try:
        ckpt.torch.load(f)
        yield "a closed checkpoint is loaded"
    except ValueError:
        pass


def check_cycles():
    """Tensors that are attributes of each other, of which the first place is left away: as what is written, or an error, never less."""
    x, y, z = torch.ones(2), torch.zeros(3), torch.ones(1)
    x.foo, y.rel, x.rel = 1, x, y
    z.rel = [y]
    torch.save({"k1": y, "k2": x, "k3": z}, "cycle.pt")
    for name, edit in (("drop", lambda f: f.drop("k1")), ("select", lambda f: f.select("k2")), ("two", lambda f: f.drop("k1").drop("k2")), ("rename", lambda f: f.rename("s/k/q/")), ("cast", lambda f: f.cast("bf16"))):
        with ckpt.open("cycle.pt") as f:
            edit(f).save("edited.pt", overwrite=True)
            wanted = torch.load("edited.pt", weights_only=True)
            counts["cycles"] += 1
            try:
                found = ckpt.torch.load(edit(f))
            except ckpt.Error as error:
                if name in ("rename", "cast") or "save it" not in str(error):
                    yield "%s: %r" % (name, error)
                continue
            for key, tensor in wanted.items():
                if sorted(vars(tensor)) != sorted(vars(found[key])):
                    yield "%s: %s has %s, wanted %s" % (name, key, sorted(vars(found[key])), sorted(vars(tensor)))


def check_set_items():
    """What is put into a tensor by the opcode for dicts and lists is done, or refused, never passed over."""
    torch.save({"t": torch.zeros(4)}, "items.pt")
    with zipfile.ZipFile("items.pt") as archive:
        records = {name: archive.read(name) for name in archive.namelist()}
    data = next(content for name, content in records.items() if name.endswith("data.pkl"))
    made = data[data.index(b"ctorch._utils"):data.rindex(b"s.")]
    for body in (made + b"K\0K\5s", made + b"(K\0K\5u", made + b"X\1\0\0\0xK\1s", made + b"K\1a"):
        with zipfile.ZipFile("items.pt", "w") as archive:
            for name, content in records.items():
                archive.writestr(name, b"\x80\x02" + body + b"." if name.endswith("data.pkl") else content)
        for strict in (True, False):
            counts["items"] += 1
            try:
                yield "%r is loaded: %r" % (body[-10:], ckpt.torch.load("items.pt", weights_only=strict))
            except ckpt.Error:
                pass


def check_empty():
    """Tensors without numbers share their storage where torch lets them: the same bytes are written again."""
    several = torch.empty(0)
    torch.save([several, several.view(torch.float64), several.view(torch.int32)], "several.pt")
    for options in ({}, {"map_location": "meta"}):
        wanted, found = ([tensor.dtype for tensor in load("several.pt", weights_only=True, **options)] for load in (torch.load, ckpt.torch.load))
        counts["empty"] += 1
        if wanted != found:
            yield "empty tensors of several dtypes, %s: %s, wanted %s" % (options, found, wanted)
    empty = torch.empty(0, 3)
    torch.save([empty, torch.nn.Parameter(empty), torch.empty(0), torch.ones(3), empty[:, :2]], "empty.pt")
    for mmap in (True, False):
        for place in (None, "cpu", "meta"):
            written = []
            for load in (torch.load, ckpt.torch.load):
                stream = io.BytesIO()
                torch.save(load("empty.pt", mmap=mmap, map_location=place, weights_only=True), stream)
                written.append(stream.getvalue())
            counts["empty"] += 1
            if written[0] != written[1]:
                yield "empty.pt, mmap %s, on %s: other bytes" % (mmap, place)


def check_calls():
    """What cannot be made is an error that names the file."""
    for body in (b"ctorch\nSize\nN\x85\x85R.", b"ctorch\nSize\nX\1\0\0\0a\x85\x85R.", b"ccollections\ndefaultdict\nK\x01\x85R.", b"ccollections\ndefaultdict\nctorch\nfloat16\n\x85R."):
        with zipfile.ZipFile("calls.pt", "w") as archive:
            archive.writestr("calls/data.pkl", b"\x80\x02" + body)
            archive.writestr("calls/version", "3\n")
        for strict in (True, False):
            counts["calls"] += 1
            try:
                yield "%r, weights_only %s: %r" % (body, strict, ckpt.torch.load("calls.pt", weights_only=strict))
            except ckpt.Error as error:
                if not str(error).startswith("calls.pt: "):
                    yield "%r, weights_only %s: %r" % (body, strict, error)
            except Exception as error:
                yield "%r, weights_only %s: %r" % (body, strict, error)


def answers_of(path, strict, **options):
    """What torch says of a file, and ckpt: an object shown, or None for an error."""
    for load in (torch.load, ckpt.torch.load):
        try:
            made = load(path, weights_only=strict, **options)
            yield (type(made), repr(made), repr(getattr(made, "__dict__", None)))
        except ckpt.Error as error:
            yield None if str(error).startswith(path + ": ") else str(error)
        except Exception:
            yield None


def check_states():
    """What BUILD sets on what calls made: what torch refuses is refused, what it takes has the same items and attributes."""
    text = b"X\1\0\0\0"
    pairs = b"](" + text + b"aK\1te"
    storage = b"(X\7\0\0\0storagectorch\nFloatStorage\n" + text + b"0X\3\0\0\0cpuK\4tQ"
    made = {"OrderedDict": b"ccollections\nOrderedDict\n)R", "OrderedDict of pairs": b"ccollections\nOrderedDict\n](" + text + b"aK\1\x86e\x85R", "OrderedDict by NEWOBJ": b"ccollections\nOrderedDict\n)\x81",
            "Counter": b"ccollections\nCounter\n)R", "defaultdict": b"ccollections\ndefaultdict\nN\x85R", "Size": b"ctorch\nSize\nK\1K\2\x86\x85R", "set": b"c__builtin__\nset\n]\x85R",
            "complex": b"c__builtin__\ncomplex\nK\1K\2\x86R", "bytearray": b"c__builtin__\nbytearray\n)R", "device": b"ctorch\ndevice\nX\3\0\0\0cpu\x85R",
            "tensor": b"ctorch._utils\n_rebuild_tensor_v2\n(" + storage + b"K\0K\4\x85K\1\x85\x89ccollections\nOrderedDict\n)RtR", "Tensor": b"ctorch\nTensor\n)R"}
    states = {"an int": b"K\5", "0": b"K\0", "None": b"N", "True": b"\x88", "{}": b"}", "a dict": b"}" + text + b"aK\1s", "a key that is no text": b"}K\1K\2s", "[]": b"]", "pairs": b"](" + text + b"aK\2\x86e",
              "()": b")", "(1,)": b"K\1\x85", "two dicts": b"}" + text + b"aK\1s}" + text + b"bK\2s\x86", "None and a dict": b"N}" + text + b"bK\2s\x86", "a text": text + b"a", "two texts": b"X\2\0\0\0ab",
              "an OrderedDict": b"ccollections\nOrderedDict\n)R" + text + b"kK\1s", "items": b"}X\5\0\0\0itemsK\1s", "a wrong item": pairs}
    for name, thing in made.items():
        for kind, state in states.items():
            with zipfile.ZipFile("states.pt", "w") as archive:
                archive.writestr("states/data.pkl", b"\x80\x02" + thing + state + b"b.")
                archive.writestr("states/data/0", bytes(16))
                archive.writestr("states/version", "3\n")
            for strict in (True, False):
                counts["states"] += 1
                wanted, found = answers_of("states.pt", strict)
                opaque = not strict and type(found) is tuple and found[0] is ckpt.Opaque
                if wanted != found and not opaque:
                    yield "%s, state %s, weights_only %s: torch %r, ckpt %r" % (name, kind, strict, wanted, found)


def check_records():
    """Records that are longer than the pickle says, which some versions of torch read, and some only with mmap."""
    for nbytes in (16, 17, 20, 64):
        for numel in (4, 0):
            with zipfile.ZipFile("records.pt", "w") as archive:
                archive.writestr("records/data.pkl", b"\x80\x02ctorch._utils\n_rebuild_tensor_v2\n((X\7\0\0\0storagectorch\nFloatStorage\nX\1\0\0\0" + b"0X\3\0\0\0cpuK" + bytes([numel]) +
                                 b"tQK\0K" + bytes([numel]) + b"\x85K\1\x85\x89ccollections\nOrderedDict\n)RtR.")
                archive.writestr("records/data/0", bytes(nbytes))
                archive.writestr("records/version", "3\n")
            for options in ({}, {"mmap": True}, {"map_location": "meta"}):
                counts["records"] += 1
                wanted, found = answers_of("records.pt", True, **options)
                if wanted != found:
                    yield "%d bytes for %d numbers, %s: torch %r, ckpt %r" % (nbytes, numel, options, wanted, found)


def check_bytes():
    """Errors about bytes in memory have no path."""
    for content in (b"no checkpoint", b"PK\x03\x04" + bytes(60), b"\x80\x02cos\nsystem\n."):
        counts["bytes"] += 1
        try:
            ckpt.torch.load(content)
            yield "%r is loaded" % content
        except ckpt.Error as error:
            if error.path is not None:
                yield "%r: path %r" % (content, error.path)


def check_replaced():
    """A file that gets the name of one that is being loaded is not mixed with that, and not asked in its place."""
    for name, number in (("first.pt", 1.0), ("second.pt", 2.0)):
        torch.save({"%s%d" % (name, i): torch.full((1000,), number) for i in range(4)}, name)
    torch.save({"a": argparse.Namespace(x=1)}, "refused.pt")  # a class that is not allowed
    for mmap in (False, True):
        for behind in ("second.pt", "refused.pt"):
            counts["replaced"] += 1
            shutil.copy("first.pt", "current.pt")
            shutil.copy(behind, "next.pt")
            with ckpt.open("current.pt") as opened:
                os.replace("next.pt", "current.pt")
                found = ckpt.torch.load(opened, mmap=mmap)
            if not all(bool((tensor == 1).all()) for tensor in found.values()):
                yield "a file that was replaced by %s, mmap=%s: other numbers" % (behind, mmap)
    with open("refused.pt", "rb") as stream:
        data = stream.read()
    with zipfile.ZipFile("outer.zip", "w") as archive:
        archive.write("refused.pt", "in.pt")
    for what, source in (("bytes", data), ("BytesIO", io.BytesIO(data)), ("an open file", open("refused.pt", "rb")), ("a file in a zip", "outer.zip::in.pt"),
                         ("open bytes", ckpt.open(data)), ("an open BytesIO", ckpt.open(io.BytesIO(data)))):
        counts["replaced"] += 1
        before = source.tell() if hasattr(source, "tell") else None
        try:
            ckpt.torch.load(source)
            yield "%s: what torch refuses is loaded" % what
        except pickle.UnpicklingError:
            if before is not None and source.tell() != before:
                yield "%s: it stands elsewhere afterwards" % what


def main():
    torch.set_num_threads(1)
    wrong = 0
    for text in [*check_places(), *check_broken(), *check_behind(), *check_texts(), *check_edits(), *check_grown(), *check_keys(), *check_empty(), *check_cycles(), *check_set_items(), *check_calls(), *check_states(), *check_records(), *check_bytes(), *check_replaced()]:
        wrong += 1
        print("BAD\t%s" % text)
    with open(sys.argv[1], encoding="utf-8") as stream:
        pairs = [line.rstrip("\n").split("\t") for line in stream]
    for source, reference in pairs:
        try:
            text = check(source, reference)
        except Exception as error:
            text = "%s: %s %s" % (type(error).__name__, error, traceback.format_exc()[-600:])
        if text:
            wrong += 1
            print("BAD\t%s: %s" % (source, text), flush=True)
    print("DONE\t%d\t%d\t%s" % (counts["equal"], wrong, ", ".join("%d %s" % (n, name) for name, n in sorted(counts.items()))))


if __name__ == "__main__":
    main()

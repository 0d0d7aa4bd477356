# SPDX-License-Identifier: Apache-2.0
"""ckpt.save(): what it writes, what it refuses, and that it leaves nothing half done."""

import argparse
import collections
import ctypes
import dataclasses
import enum
import io
import os
import pathlib
import pickle
import pickletools
import sys
import threading
import types
import zipfile

import pytest

import ckpt


def names(path):
    with zipfile.ZipFile(path) as archive:
        return [name.split("/", 1)[1] for name in archive.namelist()]


def again(obj, tmp_path, **options):
    path = str(tmp_path / "new.pt")
    ckpt.save(obj, path, **options)
    return ckpt.load(path)


def test_plain_data_comes_back(tmp_path):
    obj = {"none": None, "yes": True, "int": -7, "long": 1 << 200, "minus": -(1 << 64), "float": 0.1, "text": "\u00e4\ud800\0",
           "list": [1, [2, []]], "tuple": (1, (), ("a", (2,))), "set": {1, 2, 3}, 3: "key", (1, 2): "tuple",
           "ordered": collections.OrderedDict(b=1, a=2), "default": collections.defaultdict(list, x=[1]),
           "bytes": b"\0\xff", "array": bytearray(b"ab"), "frozen": frozenset("x"), "complex": 1 - 2j}
    found = again(obj, tmp_path)
    assert found == obj and list(found) == list(obj)
    assert type(found["ordered"]) is collections.OrderedDict and found["default"].default_factory is list
    assert [type(found[name]) for name in ("int", "float", "bytes", "array", "set", "frozen")] == [int, float, bytes, bytearray, set, frozenset]


def test_what_is_shared_stays_shared_and_cycles_close(tmp_path):
    shared, tree = [1], {}
    tree["self"] = tree["list"] = [tree]
    tree["tuple"] = (shared, (shared, tree))
    tree["shared"] = shared
    found = again(tree, tmp_path)
    assert found["self"] is found["list"] and found["list"][0] is found
    assert found["tuple"][0] is found["shared"] is found["tuple"][1][0] and found["tuple"][1][1] is found


def test_depth_has_no_limit_of_the_stack(tmp_path):
    nested, wrapped = [], ()
    for _ in range(3000):
        nested, wrapped = [nested], (wrapped,)
    ckpt.save([nested, wrapped], str(tmp_path / "deep.pt"))
    assert ckpt.open(str(tmp_path / "deep.pt")).info["format"] == "torch zip"


def test_attributes_of_an_ordered_dict_are_kept(tmp_path):
    state = collections.OrderedDict(w=1)
    state._metadata = collections.OrderedDict([("", {"version": 1})])
    found = again(state, tmp_path)
    assert found._metadata == state._metadata


def test_arrays_become_tensors_and_their_views_share_a_storage(tmp_path):
    numpy = pytest.importorskip("numpy")
    base = numpy.arange(12, dtype="float32").reshape(3, 4)
    obj = {"a": base, "row": base[1], "column": base[:, 1], "other": base.copy(), "turned": base.T, "back": base[::-1],
           "scalar": numpy.array(5), "empty": numpy.zeros((0, 3)), "swapped": numpy.arange(3, dtype=">i4"), "bool": numpy.array([True])}
    found = again(obj, tmp_path)
    for name, array in obj.items():
        assert found[name].dtype == array.dtype.name and found[name].shape == array.shape, name
        assert found[name].numpy().tolist() == array.tolist(), name
    assert len({found[name].storage.index for name in ("a", "row", "column", "turned")}) == 1
    assert found["column"].stride() == (4,) and found["column"].storage_offset() == 1 and found["turned"].stride() == (1, 4)
    assert found["other"].storage != found["a"].storage != found["back"].storage
    assert found["empty"].stride() == (3, 1)


def test_arrays_stay_arrays_where_that_is_wanted(tmp_path):
    numpy = pytest.importorskip("numpy")
    found = again({"a": numpy.arange(3), "n": numpy.float32(0.5), "t": numpy.array(["x"])}, tmp_path, arrays="numpy")
    assert isinstance(found["a"], ckpt.Values) and found["a"].numpy().tolist() == [0, 1, 2] and found["n"] == 0.5
    with pytest.raises(ValueError, match="arrays"):
        ckpt.save([], str(tmp_path / "x.pt"), arrays="torch")


def test_arrays_that_were_loaded_can_be_saved(tmp_path):
    numpy = pytest.importorskip("numpy")
    obj = {"a": numpy.arange(6, dtype="f2").reshape(2, 3), "list": [numpy.zeros((0, 2)), numpy.array(3), numpy.array([True])], "same": None,
           "texts": numpy.array(["ab", "c"]), "complex": numpy.array([1j])}
    obj["same"] = obj["a"]
    ckpt.save(obj, tmp_path / "x.pt", arrays="numpy")
    found = ckpt.load(tmp_path / "x.pt")
    assert isinstance(found["a"], ckpt.Values) and found["same"] is found["a"]
    for arrays in ("tensor", "numpy"):
        ckpt.save(found, tmp_path / "y.pt", arrays=arrays)
        assert ckpt.diff(tmp_path / "x.pt", tmp_path / "y.pt", strict=True)["verdict"] == "same"
        with zipfile.ZipFile(tmp_path / "x.pt") as old, zipfile.ZipFile(tmp_path / "y.pt") as new:
            assert old.read("x/data.pkl") == new.read("y/data.pkl")


def test_a_tensor_that_is_a_key_stays_one(model, tmp_path):
    ckpt.save({ckpt.load(model)["a"]: "key"}, tmp_path / "x.pt")
    ckpt.save(ckpt.load(tmp_path / "x.pt"), tmp_path / "y.pt")
    (key, value), = ckpt.load(tmp_path / "y.pt").items()
    assert value == "key" and (key.dtype, key.shape) == (ckpt.open(model)["a"].dtype, ckpt.open(model)["a"].shape)
    assert key.memoryview() == ckpt.open(model)["a"].memoryview()


def test_windows_of_an_array_are_views_of_it(tmp_path):
    numpy = pytest.importorskip("numpy")
    base = numpy.arange(100000, dtype="float32")
    windows = numpy.lib.stride_tricks.sliding_window_view(base, 50000)
    turned = numpy.lib.stride_tricks.as_strided(base[5:], (3, 2), (8, 4))
    report = ckpt.save({"windows": windows, "base": base, "turned": turned}, tmp_path / "x.pt")
    assert report["nbytes"] < 500000
    found = ckpt.load(tmp_path / "x.pt")
    assert found["windows"].storage == found["base"].storage == found["turned"].storage
    assert found["windows"].shape == windows.shape and found["windows"][7, 3] == 10 and found["turned"].numpy().tolist() == turned.tolist()
    beyond = numpy.lib.stride_tricks.as_strided(base[:4], (3,), (-4,))[:1]
    assert again([beyond], tmp_path)[0].numpy().tolist() == [0]


@pytest.mark.parametrize("mode", ["wb", "ab", "w+b"])
@pytest.mark.parametrize("buffering", [0, -1])
def test_an_open_file_gets_all_or_nothing(mode, buffering, tmp_path):
    resource, numpy = pytest.importorskip("resource"), pytest.importorskip("numpy")
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    data = {"w": b"x" * (3 << 20)}
    with open(tmp_path / "out", mode, buffering=buffering) as out:
        out.write(b"head")
        ckpt.save({"n": 1}, out)
        size = out.tell()
        write = ckpt._write._copy

        def with_a_full_disk(stream, target):
            resource.setrlimit(resource.RLIMIT_FSIZE, (2 << 20, before[1]))
            try:
                write(stream, target)
            finally:
                resource.setrlimit(resource.RLIMIT_FSIZE, before)
        ckpt._write._copy = with_a_full_disk
        try:
            with pytest.raises(OSError):
                ckpt.save(data, out)
        finally:
            ckpt._write._copy = write
        assert out.tell() == size
        out.write(b"tail")
    found = (tmp_path / "out").read_bytes()
    assert found[:4] == b"head" and found[-4:] == b"tail" and len(found) == size + 4
    assert ckpt.load(found[4:-4]) == {"n": 1}


def test_a_dtype_beside_what_has_it_is_written_once(tmp_path):
    numpy = pytest.importorskip("numpy")
    swapped = numpy.arange(2, dtype=">f8")
    for obj, dtypes in (([numpy.dtype("f4"), numpy.float32(1), numpy.float32(2), numpy.ones(2, "f4")], 1), ([swapped, swapped.dtype], 1),
                        ([numpy.float32(1), numpy.dtype("f8")], 2), ([numpy.dtype(">f4"), numpy.dtype(">f4")], 2)):
        ckpt.save(obj, tmp_path / "x.pt", arrays="numpy")
        with zipfile.ZipFile(tmp_path / "x.pt") as archive:
            codes = list(pickletools.genops(archive.read("x/data.pkl")))
        assert sum(code.name == "BUILD" for code, _, _ in codes) - sum(isinstance(item, numpy.ndarray) for item in obj) == dtypes, obj


def test_lazy_tensors_are_read_when_they_are_written(model, tmp_path):
    state = ckpt.load(model)
    state["more"] = [state["a"], state["epoch"]]
    path = str(tmp_path / "copy.pt")
    ckpt.save(state, path)
    with ckpt.open(path) as f:
        assert list(f) == ["a", "b", "c", "more.0"] and f.value("epoch") == 7
        assert f["a"].memoryview().tolist()[2] == [8, 9, 10, 11] and f["b"].storage == f["a"].storage == f["more.0"].storage
        assert f["c"].storage.crc32 == ckpt.open(model)["c"].storage.crc32


@pytest.mark.parametrize("kind", ["torch", "legacy", "dcp", "safetensors", "hub", "compressed"])
def test_what_is_loaded_of_any_format_can_be_saved(kind, trainer, tmp_path):
    source = str(tmp_path / "source")
    if kind == "legacy":
        ckpt.convert(trainer, source, to="torch-legacy")
    elif kind == "dcp":
        ckpt.split(trainer, source, ranks=2)
    elif kind in ("safetensors", "hub"):
        ckpt.convert(trainer, source, to="safetensors", at="model", **({"shard_size": 10} if kind == "hub" else {}))
    elif kind == "compressed":
        with zipfile.ZipFile(trainer) as old, zipfile.ZipFile(source, "w", zipfile.ZIP_DEFLATED) as new:
            for name in old.namelist():
                new.writestr(name, old.read(name))
    else:
        os.rename(trainer, source)
    ckpt.save(ckpt.load(source), tmp_path / "new.pt")
    assert ckpt.diff(source, tmp_path / "new.pt", strict=kind == "torch")["verdict"] == "same"


@pytest.mark.parametrize("mode", [0o600, 0o640, 0o644])
def test_who_cannot_read_a_file_cannot_read_what_is_made_of_it(model, tmp_path, mode):
    os.chmod(model, mode)
    before = os.umask(0o022)
    try:
        ckpt.save({"old": list(ckpt.load(model, only="a").values())}, tmp_path / "new.pt")
        (tmp_path / "old.pt").write_bytes(b"")
        os.chmod(tmp_path / "old.pt", 0o644)
        ckpt.save(ckpt.load(model), tmp_path / "old.pt")
    finally:
        os.umask(before)
    assert [os.stat(tmp_path / name).st_mode & 0o777 for name in ("new.pt", "old.pt")] == [mode, mode]


def test_a_file_can_take_the_place_of_what_it_is_made_of(model):
    state = ckpt.load(model)
    state["epoch"] = 8
    ckpt.save(state, model)
    assert state["a"].memoryview().tolist()[2] == [8, 9, 10, 11]  # of the file that was opened
    again = ckpt.load(model)
    assert again["epoch"] == 8 and again["a"].memoryview().tolist()[2] == [8, 9, 10, 11]
    again["epoch"] = 9
    ckpt.save(again, model)
    assert ckpt.load(model)["epoch"] == 9 and ckpt.verify(model)["verdict"] == "sound"


def test_objects_that_are_nested_too_deep_are_an_error(tmp_path):
    thing = ckpt.Opaque(ckpt.Global("m", "f"), (), None, False)
    for _ in range(5000):
        thing = ckpt.Opaque(ckpt.Global("m", "f"), (thing,), None, False)
    with pytest.raises(ckpt.Error, match="nested too deep|nested deeper than"):
        ckpt.save(thing, tmp_path / "x.pt")


@pytest.mark.parametrize("kind", [list, tuple, dict])
def test_what_can_be_written_can_be_read_however_deep_it_is(kind, tmp_path):
    for levels, is_taken in ((9990, True), (10000, False), (30000, False)):
        nested = kind()
        for _ in range(levels):
            nested = {"k": nested} if kind is dict else kind([nested])
        if is_taken:
            ckpt.save(nested, tmp_path / "x.pt")
            assert ckpt.load(tmp_path / "x.pt") and ckpt.open(tmp_path / "x.pt").tree().count("\n") == 100
        else:
            with pytest.raises(ckpt.Error, match="nested deeper than") as caught:
                ckpt.save(nested, tmp_path / "x.pt")
            assert caught.value.status == "LIMIT" and len(str(caught.value)) < 400


def test_maps_of_tied_tensors_share_a_storage(model, tmp_path):
    pytest.importorskip("numpy")
    f = ckpt.open(model)
    found = again({"a": f["a"].numpy(), "b": f["b"].numpy()}, tmp_path)
    assert found["a"].storage == found["b"].storage and found["b"].numpy().tolist() == [0, 4, 8]


class Lent:
    """An object with __dlpack__ of no library: 2 times 3 numbers of bfloat16, every second one."""

    def __init__(self, device=1):
        self.device = device
        self.values = (ctypes.c_uint16 * 12)(*range(12))
        self.shape, self.strides = (ctypes.c_int64 * 2)(2, 3), (ctypes.c_int64 * 2)(6, 2)

    def __dlpack_device__(self):
        return (self.device, 0)

    def __dlpack__(self, **_):
        from ckpt._dlpack import _DLTensor

        self.tensor = _DLTensor(ctypes.addressof(self.values), 1, 0, 2, 4, 16, 1, self.shape, self.strides, 2)
        new = ctypes.pythonapi.PyCapsule_New
        new.restype, new.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
        return new(ctypes.addressof(self.tensor), b"dltensor", None)


def test_whatever_has_dlpack_becomes_a_tensor(tmp_path):
    lent = Lent()
    found = again([lent, lent], tmp_path)[0]
    assert (found.dtype, found.shape, found.stride(), found.storage.nbytes) == ("bfloat16", (2, 3), (6, 2), 22)
    assert found.memoryview().tolist() == [[1, 3, 5], [7, 9, 11]]
    with pytest.raises(ckpt.Error, match="on a device"):
        ckpt.save([Lent(device=2)], str(tmp_path / "x.pt"))


class Thing:
    def __eq__(self, other):
        return type(self) is type(other) and self.__dict__ == other.__dict__


class Row(list):
    pass


class Kind(enum.Enum):
    TRAIN = "train"
    TEST = 7


@dataclasses.dataclass
class Config:
    rate: float
    layers: list
    kind: Kind = Kind.TEST


def make_objects():
    thing, row = Thing(), Row([1, [2]])
    thing.me, thing.row, row.note = thing, row, ("x", thing)
    return {"args": argparse.Namespace(lr=0.1, names=["a"]), "deque": collections.deque([1, (2, 3)], 5), "config": Config(0.5, [row]), "kinds": list(Kind),
            "path": pathlib.PurePosixPath("a/b"), "row": row, "thing": thing, "space": types.SimpleNamespace(a=1), "counter": collections.Counter("aab")}


def test_objects_of_classes_are_what_pickle_makes_of_them(tmp_path):
    made = make_objects()
    ckpt.save(made, tmp_path / "x.pt")
    with zipfile.ZipFile(tmp_path / "x.pt") as archive:
        found = pickle.loads(archive.read("x/data.pkl"))
    thing, row = found.pop("thing"), found.pop("row")
    assert thing.me is thing and thing.row is row and row == [1, [2]] and row.note == ("x", thing) and found["config"].layers[0] is row
    del made["thing"], made["row"]
    for config in (found["config"], made["config"]):
        config.layers = None  # it has the thing that has itself
    assert str(found) == str(made) and found["kinds"][0] is Kind.TRAIN and found["deque"].maxlen == 5


def test_objects_that_were_loaded_are_written_again(tmp_path):
    path = tmp_path / "x.pt"
    made = make_objects()
    ckpt.save(made, path)
    loaded = ckpt.load(path)
    assert loaded["args"].name == "Namespace" and loaded["row"].items[0] == 1
    ckpt.save(loaded, path)
    with zipfile.ZipFile(path) as archive:
        found = pickle.loads(archive.read("x/data.pkl"))
    assert all(str(found[name]) == str(made[name]) for name in ("args", "deque", "kinds", "path", "space", "counter"))
    assert found["thing"].me is found["thing"] and found["config"].layers[0] is found["row"] and found["row"].note[1] is found["thing"]
    loaded["thing"].kwargs = {}
    with pytest.raises(ckpt.Error, match="^thing: a .*Opaque was made in a way that cannot be written"):
        ckpt.save(loaded, path)


@pytest.mark.parametrize("obj, message", [
    ({"model": {"layers": [0, KeyError(1, [2])]}}, r"^model\.layers\.1: a builtins.KeyError cannot be written"),
    (iter([1]), r"^a builtins.list_iterator cannot be written"),
    ({"\n": threading.Lock()}, r"^\\x0a: a _thread.lock cannot be pickled"),
    ([lambda: 0], r"^0: a builtins.function is not found as "),
])
def test_what_cannot_be_written_is_named_and_leaves_no_file(obj, message, tmp_path):
    path = tmp_path / "x.pt"
    path.write_bytes(b"old")
    with pytest.raises(ckpt.Error, match=message) as raised:
        ckpt.save(obj, path)
    assert raised.value.status == "UNSUPPORTED" and path.read_bytes() == b"old" and os.listdir(tmp_path) == ["x.pt"]


def test_arrays_without_a_dtype_of_torch_are_refused(tmp_path):
    numpy = pytest.importorskip("numpy")
    for array in (numpy.array(["a"]), numpy.array([None]), numpy.array(1, "M8[s]"), numpy.zeros(2, [("x", "f4")]), numpy.longdouble([1])):
        with pytest.raises(ckpt.Error, match=r"^w: no tensor has the dtype"):
            ckpt.save({"w": array}, tmp_path / "x.pt")
    base = numpy.zeros(4, "int32")
    with pytest.raises(ckpt.Error, match="shows bytes as float32 that another one shows as int32"):
        ckpt.save([base, base.view("float32")], tmp_path / "x.pt")


def test_files_are_replaced_only_if_that_is_allowed(tmp_path):
    path = tmp_path / "x.pt"
    ckpt.save([1], path)
    ckpt.save([2], path)
    with pytest.raises(ckpt.Error) as raised:
        ckpt.save([3], path, overwrite=False)
    assert raised.value.status == "EXISTS" and ckpt.load(path) == [2]
    with pytest.raises(FileNotFoundError):
        ckpt.save([1], tmp_path / "none" / "x.pt")
    with pytest.raises(TypeError, match="no option 'protocol'"):
        ckpt.save([1], path, protocol=4)


def test_profiles_are_those_of_the_library(tmp_path):
    ckpt.save([1], tmp_path / "new.pt")
    ckpt.save([1], tmp_path / "old.pt", profile="2.0")
    assert ".format_version" in names(tmp_path / "new.pt") and names(tmp_path / "old.pt") == ["data.pkl", "version"]
    with pytest.raises(ckpt.Error):
        ckpt.save([1], tmp_path / "x.pt", profile="0.1")


def test_open_files_get_all_of_it_or_nothing(tmp_path):
    stream = io.BytesIO()
    ckpt.save({"a": [1]}, stream)
    assert ckpt.load(stream.getvalue()) == {"a": [1]} and ckpt.open(stream.getvalue()).info["archive_name"] == "archive"
    stream = io.BytesIO()
    with pytest.raises(ckpt.Error):
        ckpt.save([iter([1])], stream)
    assert stream.getvalue() == b""


@pytest.mark.parametrize("taken", [0, -1, None, 1 << 40])
def test_a_file_that_takes_a_part_is_an_error(taken):
    class Pipe(io.RawIOBase):
        def writable(self):
            return True

        def write(self, piece):
            return taken

    with pytest.raises(BlockingIOError):
        ckpt.save({"a": [1]}, Pipe())


def test_a_file_may_take_small_pieces_or_say_nothing_of_them():
    class File:
        def __init__(self, says):
            self.says, self.data = says, b""

        def write(self, piece):
            piece = piece[:100] if self.says else piece
            self.data += piece
            return len(piece) if self.says else None

    for says in (True, False):
        file = File(says)
        ckpt.save({"a": [1]}, file)
        assert ckpt.load(file.data) == {"a": [1]}


def test_what_progress_raises_ends_it(tmp_path):
    numpy = pytest.importorskip("numpy")
    seen = []
    ckpt.save(numpy.zeros(1 << 20), tmp_path / "x.pt", progress=lambda done, total: seen.append((done, total)))
    assert seen and seen[-1][0] == seen[-1][1] >= 8 << 20

    def stop(done, total):
        raise KeyError("enough")

    with pytest.raises(KeyError, match="enough"):
        ckpt.save(numpy.zeros(1 << 20), tmp_path / "y.pt", progress=stop)
    assert os.listdir(tmp_path) == ["x.pt"]


def test_a_new_checksum_hides_no_damage(damaged, tmp_path):
    state = ckpt.load(damaged)
    with pytest.raises(ckpt.Error, match=r"^model\.module\.fc\.weight: is damaged: its 12 bytes have") as raised:
        ckpt.save(state, tmp_path / "x.pt")
    assert raised.value.status == "DAMAGED" and not (tmp_path / "x.pt").exists()
    ckpt.save(state, tmp_path / "x.pt", check=False)
    assert ckpt.verify(tmp_path / "x.pt")["verdict"] == "sound"


def test_numbers_in_a_set_stand_as_they_do(tmp_path):
    for items in ({77, 44, 45}, {1.5, -1, 2}, frozenset([77, 44, 45]), {44, 45, 77, 8}):
        ckpt.save([items], tmp_path / "x.pt")
        with zipfile.ZipFile(tmp_path / "x.pt") as archive:
            opcodes = pickletools.genops(archive.read("x/data.pkl"))
        assert [argument for code, argument, _ in opcodes if code.name in ("BININT1", "BININT", "BINFLOAT")] == list(items)
        assert ckpt.load(tmp_path / "x.pt") == [items]


def test_damage_in_a_lazy_tensor_ends_the_save(tmp_path):
    class Broken(io.BytesIO):
        broken = False

        def read(self, count=-1):
            if self.broken:
                raise OSError(5, "the store is gone")
            return super().read(count)

    ckpt.save({"x": 1, "s": Lent()}, tmp_path / "x.pt")
    stream = Broken((tmp_path / "x.pt").read_bytes())
    state = ckpt.load(stream)
    stream.broken = True
    with pytest.raises(OSError, match="the store is gone"):
        ckpt.save(state, tmp_path / "y.pt")
    assert os.listdir(tmp_path) == ["x.pt"]


def test_memory_is_let_go_after_the_save(tmp_path):
    numpy = pytest.importorskip("numpy")
    array = numpy.zeros(10)
    before = sys.getrefcount(array)
    ckpt.save({"a": array, "b": array[1:]}, tmp_path / "x.pt")
    assert sys.getrefcount(array) == before


def test_threads_save_at_once(tmp_path, model):
    state = ckpt.load(model)
    wrong = []

    def work(number):
        try:
            for _ in range(10):
                ckpt.save(dict(state, number=number), tmp_path / ("%d.pt" % number))
            if ckpt.load(tmp_path / ("%d.pt" % number))["number"] != number:
                wrong.append(number)
        except BaseException as error:
            wrong.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_a_builder_takes_only_its_own_nodes(model):
    from ckpt import _ckpt

    builder = _ckpt.builder()
    number, row = builder.atom(1), builder.container("list")
    for call in (lambda: builder.append(number, row), lambda: builder.append(row, 99), lambda: builder.append(-1, row), lambda: builder.put(row, "x", 1),
                 lambda: builder.tensor(99, None, (), None, 0, False), lambda: builder.tuple([1 << 70]), lambda: builder.finish(7),
                 lambda: builder.container("deque")):
        with pytest.raises((ValueError, OverflowError)):
            call()
    builder.append(row, number)
    built = builder.finish(row)
    assert built.walk()[1][0] == "0"
    with pytest.raises(ValueError, match="finished"):
        builder.atom(1)
    built.close()
    with pytest.raises(ValueError, match="closed"):
        built.save("x.pt")


def test_a_link_is_replaced_and_what_it_leads_to_is_not(model, tmp_path):
    """As the command does: torch.save() would write through it."""
    for number, write in enumerate((lambda path: ckpt.save({"n": 1}, path), lambda path: ckpt.open(model).save(path, overwrite=True),
                                    lambda path: ckpt.convert(model, path, to="torch-legacy", overwrite=True))):
        link, target, nowhere = (tmp_path / ("%s%d.pt" % (name, number)) for name in ("latest", "epoch", "nowhere"))
        target.write_bytes(b"precious")
        link.symlink_to(target.name)
        write(link)
        assert not link.is_symlink() and len(ckpt.load(link)) > 0 and target.read_bytes() == b"precious"
        link.unlink()
        link.symlink_to(nowhere.name)
        write(link)
        assert not link.is_symlink() and not nowhere.exists()
    link.unlink()
    link.symlink_to(target.name)
    with pytest.raises(ckpt.Error) as raised:
        ckpt.save({"n": 1}, link, overwrite=False)
    assert raised.value.status == "EXISTS" and link.is_symlink()
    with open(link, "wb") as stream:  # who wants that
        ckpt.save({"n": 1}, stream)
    assert link.is_symlink() and ckpt.load(target) == {"n": 1}


@pytest.mark.parametrize("names", [("collections", "OrderedDict\n0cbuiltins\nlen"), ("a\nb", "c"), ("a", "b\n"), ("a", "b.c\nd"), ("\n", "b")])
def test_no_name_of_a_class_becomes_opcodes(names, tmp_path):
    stranger = type("Stranger", (), {})
    stranger.__module__, stranger.__qualname__ = names
    path = str(tmp_path / "new.pt")
    for obj in (ckpt.Global(*names), ckpt.Opaque(ckpt.Global(*names), (), None, False), ckpt.Opaque(ckpt.Global("a", "b"), (ckpt.Global(*names),), None, True),
                stranger, stranger()):
        with pytest.raises(ckpt.Error) as caught:
            ckpt.save({"k": [obj]}, path)
        assert caught.value.record.startswith("k.0") and not os.path.exists(path)


def test_a_name_of_a_class_is_any_text(tmp_path):
    for names in (("\u00e4", "x"), ("a b", "c\td"), ("\ud800", "x")):
        assert again({"k": ckpt.Global(*names)}, tmp_path)["k"] == ckpt.Global(*names)
    for names in ((1, "x"), ("x", None)):
        with pytest.raises(TypeError, match="name is a str"):
            ckpt.save(ckpt.Global(*names), str(tmp_path / "x.pt"))


FACTORIES = [int, float, complex, bool, str, bytes, bytearray, tuple, list, set, frozenset, dict, object, collections.OrderedDict,
             collections.defaultdict, collections.Counter, collections.deque]


@pytest.mark.parametrize("factory", FACTORIES, ids=lambda kind: kind.__name__)
def test_what_a_defaultdict_calls_is_kept(factory, write, files, tmp_path):
    assert again(collections.defaultdict(factory, x=1), tmp_path).default_factory is factory
    module = "collections" if factory.__module__ == "collections" else "__builtin__"
    for name in {factory.__name__, {int: "long", str: "unicode"}.get(factory, factory.__name__)}:
        made = ckpt.load(write(files.glob("collections", "defaultdict") + files.glob(module, name) + b"\x85R"))
        assert made.default_factory is factory and type(made["no such key"]) is factory


def test_what_a_defaultdict_calls_is_kept_but_not_called(write, files, tmp_path):
    call = files.glob("functools", "partial") + b"(" + files.glob("m", "f") + files.number(3) + b"tR"
    for function, kind in ((files.glob("os", "getcwd"), ckpt.Global), (files.glob("builtins", "print"), ckpt.Global), (call, ckpt.Opaque)):
        path = write(files.glob("collections", "defaultdict") + function + b"\x85R" + files.text("x") + files.number(1) + b"s")
        made = ckpt.load(path)
        assert type(made) is collections.defaultdict and type(made.default_factory) is ckpt.Factory and dict(made) == {"x": 1}
        assert type(made.default_factory.made_by) is kind
        with pytest.raises(KeyError, match="not called") as caught:
            made["no such key"]
        assert isinstance(caught.value, ckpt.Error) and dict(made) == {"x": 1}
        new = str(tmp_path / "new.pt")
        ckpt.save([made, made.default_factory], new)
        found = ckpt.load(new)
        assert found[0].default_factory.made_by is found[1]
        assert repr(found[1]).replace("__builtin__", "builtins") == repr(made.default_factory.made_by)
    assert ckpt.load(write(files.glob("collections", "defaultdict") + b"N\x85R")).default_factory is None


def test_a_size_of_torch_is_a_tuple_and_stays_one_of_torch(write, files, tmp_path):
    size = files.glob("torch", "Size") + files.number(3) + files.number(4) + b"\x86\x85R"
    path = write(b"]" + b"(" + size + b"q\x63" + b"h\x63" + files.glob("torch", "Size") + b")\x85Re")
    found = ckpt.load(path)
    assert found == [(3, 4), (3, 4), ()] and found[0] is found[1] and found[0].numel() == 12 and repr(found) == "[ckpt.Size([3, 4]), ckpt.Size([3, 4]), ckpt.Size([])]"
    assert type(found[0]) is ckpt.Size and {found[0]: 1}[3, 4] == 1 and found[0][0:1] == (3,) and pickle.loads(pickle.dumps(found[0])) == found[0]
    new = str(tmp_path / "new.pt")
    ckpt.save(found, new)
    again = ckpt.load(new)
    assert again == found and again[0] is again[1] and [type(one) for one in again] == [ckpt.Size] * 3
    assert [(name["name"]) for name in ckpt.scan(new)["files"][0]["globals"]] == ["torch.Size"]
    assert type(ckpt.load(new, objects="plain")[0]) in (tuple, ckpt.Size)


class Reduced:
    """Whose __reduce__ says what it is told to."""

    def __init__(self, how):
        self.how = how

    def __reduce_ex__(self, protocol):
        return self.how


@pytest.mark.parametrize("how", [
    5, None, (), (int,), (int, 5), (5, ()), (int, (), 1, 2, 3), (int, (), None, [1]), (int, (), None, None, [5]), (int, (), None, None, iter([5])),
    (int, (), None, None, iter([(1, 2, 3)])), (1, 2, 3, 4, 5, 6, 7),
])
def test_what_pickle_refuses_of_a_reduce_is_refused(how, tmp_path):
    with pytest.raises(ckpt.Error, match=r"^x: a test_save.Reduced cannot be pickled: its __reduce__ "):
        ckpt.save({"x": Reduced(how)}, tmp_path / "x.pt")
    assert not os.listdir(tmp_path)


@pytest.mark.parametrize("device, capsule", [((1, 0), 5), ((1, 0), None), (5, 5), (None, None), ((1,), 5)])
def test_what_is_no_dlpack_is_refused(device, capsule, tmp_path):
    class Wrong:
        def __dlpack_device__(self):
            return device

        def __dlpack__(self, **_):
            return capsule

    with pytest.raises(ckpt.Error, match=r"^x: its __dlpack(_device)?__\(\) gave "):
        ckpt.save({"x": Wrong()}, tmp_path / "x.pt")


@pytest.mark.parametrize("target", ("file", "folder"))
def test_without_descriptors_an_older_output_stays_as_it_was(tmp_path, target):
    """However many are left: an error means that nothing was replaced."""
    resource, numpy = pytest.importorskip("resource"), pytest.importorskip("numpy")
    source, out = tmp_path / "in.pt", tmp_path / ("out.pt" if target == "file" else "out")
    ckpt.save({"w": numpy.arange(4096, dtype="f4")}, source)
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    outcomes = set()

    def limit(left):
        used = {fd for fd in range(200) if os.path.exists("/proc/self/fd/%d" % fd)}
        return next(n for n in range(200) if n - len([fd for fd in used if fd < n]) == left and n > 3)

    def write(number):
        if target == "file":
            ckpt.save({"n": number}, out, overwrite=True)
        else:
            ckpt.split(source, out, 2, overwrite=True)

    def content():
        files = [out] if target == "file" else sorted(out.iterdir())
        return [(path.name, path.read_bytes(), path.stat().st_ino) for path in files]

    write(0)
    for left in range(0, 14):
        old = content()
        resource.setrlimit(resource.RLIMIT_NOFILE, (limit(left), before[1]))
        try:
            write(left + 1)
            outcomes.add(True)
        except (OSError, ckpt.Error):
            outcomes.add(False)
            resource.setrlimit(resource.RLIMIT_NOFILE, before)
            assert content() == old, left
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, before)
    assert outcomes == {True, False}
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(["in.pt", out.name])

# SPDX-License-Identifier: Apache-2.0
"""ckpt.open(): lazy tensors and everything else in a file."""

import copy
import io
import os
import pickle
import struct
import subprocess
import sys
import threading

import pytest

import ckpt
from conftest import Floats

ALL = list(map(float, range(12)))


def test_a_checkpoint_is_a_mapping_of_lazy_tensors(model):
    with ckpt.open(model) as f:
        assert list(f) == ["a", "b", "c"] and len(f) == 3 and "a" in f and "epoch" not in f
        assert [name for name, tensor in f.items()] == list(f.keys())
        a = f["a"]
        assert (a.dtype, a.shape, a.stride(), a.device, a.nbytes, a.name) == ("float32", (3, 4), (4, 1), "cpu", 48, "a")
        assert (a.ndim, a.numel(), len(a), a.layout, a.requires_grad) == (2, 12, 3, "strided", False)
        assert a.storage == f["b"].storage and a.storage != f["c"].storage
        assert repr(a) == "<ckpt.Tensor 'a', float32 [3, 4]>"
        assert "3 tensors" in repr(f)
        with pytest.raises(KeyError) as raised:
            f["d"]
        assert isinstance(raised.value, ckpt.Error) and str(raised.value) == "%s: there is no tensor 'd'" % model
    assert f.closed and "closed" in repr(f)
    with pytest.raises(ValueError, match="closed"):
        a.memoryview()


def test_a_name_of_two_tensors_is_an_error_and_loses_none(tmp_path):
    numpy = pytest.importorskip("numpy")
    one, two = numpy.array([1.0]), numpy.array([2.0])
    for obj in ({"a.b": one, "a": {"b": two}}, {1: one, "1": two}, {None: one, "None": two}):
        ckpt.save(obj, tmp_path / "x.pt")
        with ckpt.open(tmp_path / "x.pt") as f:
            name, = f
            assert len(f) == 1 and name in f and [tensor[0] for tensor in f.tensors()] == [1.0, 2.0]
            for get in (f.__getitem__, f.get_tensor, f.get_slice, lambda name: dict(f)):
                with pytest.raises(ckpt.Error, match="2 tensors are called") as raised:
                    get(name)
                assert raised.value.status == "CLASH" and not isinstance(raised.value, KeyError)


def test_errors_about_a_file_say_which(model):
    f = ckpt.open(model)
    for call in (lambda: f["d"], lambda: f.value("d"), lambda: f.show("d"), lambda: f.select("d*"), lambda: f["a"].part("d"),
                 lambda: f["a"].dequantize("bf16"), lambda: f.select("a").value("d"), lambda: f.get_slice("d")):
        with pytest.raises(KeyError) as raised:
            call()
        assert raised.value.path == model and str(raised.value).startswith(model + ": ")


def test_bytes_that_are_read_are_no_path(model, tmp_path):
    content = open(model, "rb").read()
    f = ckpt.open(content)
    for call in (lambda: f["d"], lambda: f.value("d"), lambda: f.select("d*"), lambda: ckpt.open(b"nothing of the kind")):
        with pytest.raises(ckpt.Error) as raised:
            call()
        assert raised.value.path is None
    odd = os.path.join(os.fsencode(str(tmp_path)), b"\xff.pt")
    with open(odd, "wb") as out:
        out.write(content)
    with pytest.raises(KeyError) as raised:
        ckpt.open(os.fsdecode(odd)).value("d")
    assert raised.value.path.endswith("\\udcff.pt")


def test_ranges_of_storages_do_not_wrap(model):
    f = ckpt.open(model)
    for place in range(3):
        for number in (1 << 64, (1 << 64) + 1, -1, 1 << 200):
            wanted = [0, 0, 1]
            wanted[place] = number
            with pytest.raises(ValueError):
                f.read_storages([(*wanted, bytearray(8))])


def test_a_part_is_read_by_the_indexing_of_numpy(model):
    numpy = pytest.importorskip("numpy")
    whole = numpy.arange(12, dtype="float32").reshape(3, 4)
    with ckpt.open(model) as f:
        for key in (0, -1, slice(1, None), (slice(None), 2), (slice(None, None, -2), slice(1, 3)), (1, 2), Ellipsis,
                    (Ellipsis, 0), (), slice(5, 9), numpy.int64(1), (slice(2, 0, -1), Ellipsis, slice(None, None, 3))):
            found = f["a"][key]
            assert found.dtype == whole.dtype and numpy.array_equal(found, whole[key]), key
            assert found.flags.writeable
        for key, error in ((3, IndexError), (-4, IndexError), ((0, 0, 0), IndexError), ((Ellipsis, Ellipsis), IndexError),
                           (None, TypeError), ([0], TypeError), (1.5, TypeError), (True, TypeError), ("a", TypeError)):
            with pytest.raises(error):
                f["a"][key]


def test_numpy_shares_the_file_where_it_can(model):
    numpy = pytest.importorskip("numpy")
    with ckpt.open(model) as f:
        mapped, column, copy = f["a"].numpy(), f["b"].numpy(), f["a"].numpy(copy=True)
        array = numpy.asarray(f["c"])
    assert mapped.tolist() == [ALL[0:4], ALL[4:8], ALL[8:12]] and not mapped.flags.writeable and not mapped.flags.owndata
    assert column.tolist() == [0, 4, 8] and column.strides == (16,)
    assert numpy.shares_memory(mapped, column)
    assert copy.flags.writeable and not numpy.shares_memory(mapped, copy)
    assert array.tolist() == [0.5, -1]
    mapped_again = ckpt.open(io.BytesIO(open(model, "rb").read()))["a"]
    assert not mapped_again.numpy().flags.writeable
    with pytest.raises(ValueError):
        mapped_again.numpy(copy=False)


@pytest.mark.parametrize("dtype, code", [("uint16", "H"), ("uint32", "I"), ("uint64", "Q"), ("float64", "d")])
def test_numbers_of_big_endian_machines_are_the_same_however_they_are_read(tmp_path, files, dtype, code):
    """torch turns around what the class of the storage says, which is bytes here."""
    numpy = pytest.importorskip("numpy")
    size = struct.calcsize(code)
    storage = files.text("storage") + files.glob("torch.storage", "UntypedStorage") + files.text("0") + files.text("cpu") + files.number(3 * size)
    body = files.glob("torch._utils", "_rebuild_tensor_v3") + b"((" + storage + b"tQ" + files.number(0) + files.numbers((3,)) + files.numbers((1,))
    body += b"\x89" + files.glob("collections", "OrderedDict") + b")R" + files.glob("torch", dtype) + b"tR"
    body = files.glob("collections", "OrderedDict") + b")R(" + files.text("w") + body + b"u"
    records = [("data.pkl", files.pickled(body)), ("byteorder", b"big"), ("data/0", struct.pack(">3" + code, 1, 258, 7)), ("version", b"3\n")]
    path = str(tmp_path / "big.pt")
    with open(path, "wb") as stream:
        stream.write(files.archive(records))
    with ckpt.open(path) as f:
        w = f["w"]
        read = [w.numpy(), w.numpy(copy=True), w[()], w[0:3], numpy.asarray(w), w.memoryview()]
        assert [list(map(int, values)) for values in read] == [[1, 258, 7]] * len(read)
        with pytest.raises(ValueError):
            w.numpy(copy=False)
        with pytest.raises(ckpt.Error, match="big-endian"):
            ckpt.save({"w": w}, tmp_path / "out.pt")
    with pytest.raises(ckpt.Error, match="big-endian"):
        ckpt.save(ckpt.load(path), tmp_path / "out.pt")
    assert not os.path.exists(tmp_path / "out.pt")
    ckpt.convert(path, tmp_path / "little.pt")
    with ckpt.open(tmp_path / "little.pt") as f:
        assert list(map(int, f["w"].numpy())) == [1, 258, 7]


def test_a_tensor_beyond_its_storage_is_an_error(write, files):
    path = write(files.tensor("0", numel=4, shape=(2,), stride=(4,)), {"0": bytes(16)})
    with pytest.raises(ckpt.Error, match="reaches 20 bytes into its storage"):
        ckpt.load(path)


def test_memoryviews_need_no_numpy(model):
    with ckpt.open(model) as f:
        view = f["a"].memoryview()
        assert view.tolist() == [ALL[0:4], ALL[4:8], ALL[8:12]] and view.readonly and view.format == "f"
        assert f["b"].memoryview().tolist() == [0, 4, 8]
        if sys.version_info >= (3, 12):
            assert memoryview(f["c"]).tolist() == [0.5, -1]


@pytest.mark.parametrize("kind, size, data, number", [
    ("HalfStorage", 2, struct.pack("<e", 1.5), 1.5), ("BFloat16Storage", 2, b"\xc0\x3f", 1.5), ("ComplexFloatStorage", 8, struct.pack("<2f", 1.5, -2), 1.5 - 2j),
    ("FloatStorage", 4, struct.pack("<f", -1.5), -1.5), ("ByteStorage", 1, b"7", 55), ("LongStorage", 8, struct.pack("<q", -1 << 40), -1 << 40), ("BoolStorage", 1, b"\1", True)])
def test_a_tensor_is_taken_for_no_other_numbers(write, files, kind, size, data, number):
    """By numpy.asarray(), which asks for a memoryview first, int() and float(), which parse one, and by Python itself."""
    try:
        import numpy
    except ImportError:
        numpy = None
    for shape in ((), (1,), (1, 1)):
        path = write(files.tensor("0", kind=kind, numel=1, shape=shape, stride=(1,) * len(shape)), {"0": data})
        tensor = ckpt.load(path)
        assert complex(tensor) == number
        if not isinstance(number, complex):
            assert (float(tensor), int(tensor)) == (number, int(number))
        if sys.version_info >= (3, 12):
            if kind in ("HalfStorage", "BFloat16Storage", "ComplexFloatStorage"):
                with pytest.raises(BufferError, match="has no format for"):
                    memoryview(tensor)
            else:
                assert memoryview(tensor).tobytes() == data and memoryview(tensor).shape == shape
        if numpy and kind != "BFloat16Storage":
            assert numpy.asarray(tensor).shape == shape and numpy.asarray(tensor).item() == number
    two = ckpt.load(write(files.tensor("0", kind=kind, numel=2, shape=(2,)), {"0": data * 2}))
    none = ckpt.load(write(files.tensor("0", kind=kind, numel=2, shape=(0, 3), stride=(3, 1)), {"0": data * 2}))
    for tensor, count in ((two, 2), (none, 0)):
        for kind_of_number in (float, int, complex):
            with pytest.raises(TypeError, match="has %d numbers, not one" % count):
                kind_of_number(tensor)
    if sys.version_info >= (3, 12):
        with pytest.raises(BufferError):
            memoryview(none)


def test_errors_of_the_system_survive_a_pickle(tmp_path):
    for make in (lambda: ckpt.open(tmp_path / "none.pt"), lambda: ckpt.open(tmp_path)):
        with pytest.raises(ckpt.Error) as raised:
            make()
        again = pickle.loads(pickle.dumps(raised.value))
        assert type(again) is type(raised.value) and str(again) == str(raised.value) and again.__dict__ == raised.value.__dict__
        if isinstance(again, OSError):
            assert (again.errno, again.strerror, again.filename) == (raised.value.errno, raised.value.strerror, raised.value.filename) and again.errno


@pytest.mark.parametrize("kind, dtype", [("BFloat16Storage", "bfloat16")])
def test_what_numpy_has_no_dtype_for_says_what_it_is(write, files, kind, dtype):
    numpy = pytest.importorskip("numpy")
    path = write(files.tensor("0", kind=kind, numel=2, shape=(2,)), {"0": b"\x80\x3f\0\x40"})
    tensor = ckpt.load(path)
    assert tensor.dtype == dtype
    for values in (tensor.numpy(), tensor.numpy(copy=True), tensor[:]):
        if "ml_dtypes" in sys.modules:
            assert values.tolist() == [1, 2]
        else:
            assert values.dtype == numpy.uint16 and values.tolist() == [0x3F80, 0x4000]
            assert values.ckpt_dtype == dtype and values[1:].ckpt_dtype == dtype
            for other in (values.view("f2"), values.view("i2"), values.view("u1"), values + 1, values * values, values.astype("f4")):
                assert getattr(other, "ckpt_dtype", None) is None
            assert values.view("i2").view("u2").ckpt_dtype == values.copy().ckpt_dtype == values.reshape(2, 1).T.ckpt_dtype == dtype
            for name, other, wanted in (("i2", values.view("i2"), "int16"), ("f2", values.view("f2"), "float16"), ("u1", values.view("u1"), "uint8"), ("sum", values + 1, "uint16"), ("same", values, dtype)):
                ckpt.save({"v": other}, path + name)
                assert ckpt.open(path + name)["v"].dtype == wanted, name
    assert tensor.memoryview().tolist() == [0x3F80, 0x4000]


def test_bytes_and_files_can_be_opened(model):
    data = open(model, "rb").read()
    for source in (data, bytearray(data), io.BytesIO(data), open(model, "rb")):
        with ckpt.open(source) as f:
            assert f["a"].memoryview().tolist()[2] == ALL[8:12]
            assert f["a"].storage.read(4, 8) == struct.pack("<2f", 1, 2)


def test_the_words_of_safetensors_work(tmp_path):
    numpy = pytest.importorskip("numpy")
    header = b'{"__metadata__":{"by":"me"},"w":{"dtype":"F32","shape":[2,2],"data_offsets":[0,16]}}'
    path = tmp_path / "model.safetensors"
    path.write_bytes(struct.pack("<Q", len(header)) + header + struct.pack("<4f", 1, 2, 3, 4))
    with ckpt.safe_open(path, framework="np", device="cpu") as f:
        assert list(f.keys()) == ["w"] and f.offset_keys() == ["w"] and f.metadata() == {"by": "me"}
        assert numpy.array_equal(f.get_tensor("w"), [[1, 2], [3, 4]])
        part = f.get_slice("w")
        assert part.get_shape() == [2, 2] and part.get_dtype() == "F32"
        assert part[:, 1].tolist() == [2, 4]
    with pytest.raises(ValueError, match="framework"):
        ckpt.safe_open(path, framework="tf")


def test_values_that_are_no_tensors_can_be_had(model):
    with ckpt.open(model) as f:
        assert f.value("epoch") == 7 and f.show("epoch") == "7"
        assert f.tree() == ("(all): OrderedDict of 4\n  a: float32 [3, 4]\n  b: float32 [3]\n  c: float32 [2]\n  epoch: 7")
        with pytest.raises(KeyError):
            f.value("nothing")
        assert list(f.select("re:^[ab]$")) == ["a", "b"]
        assert f.info["format"] == "torch zip"


def test_load_gives_plain_objects(model):
    state = ckpt.load(model)
    assert list(state) == ["a", "b", "c", "epoch"] and state["epoch"] == 7
    assert isinstance(state["a"], ckpt.Tensor) and state["a"].memoryview().tolist()[0] == ALL[:4]
    assert list(ckpt.load(model, only="b")) == ["b"]
    assert list(ckpt.load(model, only=["b", "epoch"])) == ["b", "epoch"]


def namespace(files):
    return (files.glob("argparse", "Namespace") + b")\x81}" + files.text("lr") + b"G" + struct.pack(">d", 0.1) +
            b"sb")


def test_objects_are_opaque_plain_or_an_error(write, files):
    path = write(b"}" + files.text("args") + namespace(files) + b"s")
    args = ckpt.load(path)["args"]
    assert isinstance(args, ckpt.Opaque) and (args.module, args.name, args.args) == ("argparse", "Namespace", ())
    assert args.state == {"lr": 0.1} and args.is_new
    assert repr(args) == "<ckpt.Opaque argparse.Namespace state={'lr': 0.1}>"
    assert ckpt.load(path, objects="plain") == {"args": {"lr": 0.1}}
    with pytest.raises(ckpt.Error, match="argparse.Namespace"):
        ckpt.load(path, objects="error")
    with pytest.raises(ValueError, match="opaque, plain, error"):
        ckpt.load(path, objects="all")


def array_of(files, module, name):
    dtype = files.glob("numpy", "dtype") + files.text("f8") + b"K\0K\1\x87R(K\3" + files.text("<") + b"NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\0tb"
    made = files.glob("numpy.core.multiarray", "_reconstruct") + files.glob(module, name) + b"K\0\x85" + files.text("b") + b"\x87R"
    data = files.glob("_codecs", "encode") + files.text("\0" * 8) + files.text("latin1") + b"\x86R"
    return made + b"(K\1K\1\x85" + dtype + b"\x89" + data + b"tb"


def test_arrays_of_another_class_are_objects(write, files):
    for module, name, kind in (("numpy", "ndarray", ckpt.Values), ("numpy", "matrix", ckpt.Opaque), ("numpy", "memmap", ckpt.Opaque), ("a.b", "ndarray", ckpt.Opaque)):
        path = write(b"}" + files.text("x") + array_of(files, module, name) + b"s")
        found = ckpt.load(path)["x"]
        assert type(found) is kind
        if kind is ckpt.Opaque:
            assert found.args[0] == ckpt.Global(module, name)
            with pytest.raises(ckpt.Error, match="_reconstruct"):
                ckpt.load(path, objects="error")


def test_a_tensor_of_a_class_of_somebody_is_an_object_of_one(write, files):
    def made(module, name):
        plain = files.tensor()
        call, args = plain.split(b"(", 1)
        return (files.glob("torch._tensor", "_rebuild_from_type_v2") + b"(" + call + files.glob(module, name) + b"(" + args[:-1] + b"}tR")
    for module, name, refused in (("torch.nn.parameter", "Parameter", False), ("a.b", "Mine", True)):
        path = write(b"}" + files.text("x") + made(module, name) + b"s", {"0": bytes(16)})
        assert ckpt.load(path)["x"].class_name == name
        if refused:
            with pytest.raises(ckpt.Error, match="a tensor of the class Mine"):
                ckpt.load(path, objects="error")
        else:
            assert ckpt.load(path, objects="error")["x"].shape == (4,)


def test_a_tensor_is_equal_to_itself(model):
    with ckpt.open(model) as f, ckpt.open(model) as other:
        name = next(iter(f))
        assert f[name] == f[name] and f[name] in [f[name]] and len({f[name], f[name]}) == 1
        assert f[name] != other[name] and f[name] != 3
        assert all((f[a] == f[b]) == (a == b) for a in f for b in f)


def test_globals_and_scalars_of_numpy_are_data(write, files):
    scalar = files.glob("numpy.core.multiarray", "scalar") + files.glob("numpy", "dtype") + files.text("f8")
    scalar += b"K\0K\1\x87R(K\3" + files.text("<") + b"NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\0tb"
    scalar += files.glob("_codecs", "encode") + files.text("\0\0\0\0\0\0\u00e0?") + files.text("latin1") + b"\x86R\x86R"
    value = ckpt.load(write(b"](" + files.glob("torch", "float16") + scalar + b"e"))
    assert value[0] == value[0] and (value[0].module, value[0].name) == ("torch", "float16")
    assert value[1] == 0.5


def test_errors_survive_pickle(tmp_path):
    for path, kind in ((str(tmp_path / "none.pt"), FileNotFoundError), (__file__, ckpt.Error)):
        with pytest.raises(kind) as raised:
            ckpt.open(path)
        again = pickle.loads(pickle.dumps(raised.value))
        assert type(again) is type(raised.value) and str(again) == str(raised.value)
        assert (again.status, again.path) == (raised.value.status, raised.value.path)


def test_many_threads_read_one_checkpoint(model):
    wrong = []
    with ckpt.open(model) as f:
        def work():
            for _ in range(100):
                if f["a"].memoryview().tolist()[1] != ALL[4:8] or f.value("epoch") != 7 or len(f.tree()) < 10:
                    wrong.append(1)
        threads = [threading.Thread(target=work) for _ in range(8)]
        for one in threads:
            one.start()
        for one in threads:
            one.join()
    assert not wrong


def test_import_brings_nothing_large():
    code = ("import sys; before = set(sys.modules); import ckpt; "
            "print(sorted((set(sys.modules) - before) & {'numpy', 'torch', 'typing', 'ml_dtypes', 'threading', 're'}))")
    env = dict(os.environ, PYTHONPATH=os.path.dirname(os.path.dirname(ckpt.__file__)))
    out = subprocess.run([sys.executable, "-S", "-c", code], stdout=subprocess.PIPE, check=True, text=True, env=env).stdout
    assert out == "[]\n"


@pytest.mark.parametrize("framework", [None, "numpy"])
def test_one_item_is_an_array_without_dimensions(model, framework, tmp_path):
    """As safetensors gives it; numpy itself would give a scalar."""
    numpy = pytest.importorskip("numpy")
    path = str(tmp_path / "scalar.pt")
    ckpt.save({"n": numpy.array(1.5, "float32")}, path)
    with ckpt.open(path, framework=framework) as f, ckpt.open(model, framework=framework) as g:
        for found, wanted in ((f["n"][()], 1.5), (f["n"][...], 1.5), (f.get_tensor("n"), 1.5), (g["c"][1], -1.0), (g["a"][2, 3], 11.0)):
            assert type(found) is numpy.ndarray and found.shape == () and found.dtype == "float32" and found.item() == wanted


def test_bytes_of_a_checkpoint_are_no_name(model, write, files):
    data = open(model, "rb").read()
    for source in (data, bytearray(data), memoryview(data)):
        with ckpt.open(source) as f:
            assert repr(f) == "<ckpt.Checkpoint in memory, torch zip, 3 tensors>" and repr(f.select("a")).startswith("<ckpt.Checkpoint in memory")
    hostile = write(files.glob("m", "C") + b")R")
    with pytest.raises(ckpt.Error) as caught:
        ckpt.load(open(hostile, "rb").read(), objects="error")
    assert caught.value.path is None and str(caught.value) == "there is an object of m.C"
    with pytest.raises(ckpt.Error) as caught:
        ckpt.load(hostile, objects="error")
    assert caught.value.path == hostile


def test_a_closed_checkpoint_is_closed(tmp_path):
    ckpt.save({"a": Floats(1)}, tmp_path / "x.pt")
    with ckpt.open(tmp_path / "x.pt") as f:
        tensor = f["a"]
    for use in (list, len, lambda f: "a" in f, lambda f: f["a"].memoryview(), lambda f: f.value(), lambda f: f.tree(), lambda f: f.info, lambda f: f.strip_module(),
                lambda f: f.save(tmp_path / "y.pt"), lambda f: tensor.memoryview(), lambda f: f.show(),
                lambda f: f["a"], lambda f: f.get_tensor("a"), lambda f: f.get_slice("a"), lambda f: f.tensors(), lambda f: f.offset_keys(), lambda f: f.__enter__()):
        with pytest.raises(ValueError, match="the checkpoint is closed"):
            use(f)
    assert "closed" in repr(f) and repr(tensor)


def test_lazy_tensors_are_copied_as_themselves_and_not_pickled(tmp_path):
    ckpt.save({"a": [Floats(1), 2]}, tmp_path / "x.pt")
    state = ckpt.load(tmp_path / "x.pt")
    copied = copy.deepcopy(state)
    assert copied["a"] is not state["a"] and copied["a"][0] is state["a"][0]
    for what, text in ((state, "a lazy tensor cannot be pickled"), (ckpt.open(tmp_path / "x.pt"), "an open checkpoint can be neither")):
        with pytest.raises(TypeError, match=text):
            pickle.dumps(what)
    with pytest.raises(TypeError, match="an open checkpoint can be neither"):
        copy.copy(ckpt.open(tmp_path / "x.pt"))

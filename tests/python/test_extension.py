# SPDX-License-Identifier: Apache-2.0
"""ckpt._ckpt, the extension: what the package is made of."""

import collections
import gc
import os
import signal
import struct
import sys
import threading
import time
import weakref

import pytest

import ckpt
from ckpt import _ckpt


def test_one_call_gives_the_table_of_all_tensors(model):
    table = _ckpt.open(model).table()
    assert table["names"] == ["a", "b", "c"]
    assert table["dtypes"] == ["float32"] * 3 and table["dtypes"][0] is table["dtypes"][2]
    assert table["shapes"] == [(3, 4), (3,), (2,)]
    assert table["strides"] == [(4, 1), (4,), (1,)]
    assert list(table["storages"]) == [0, 0, 1]
    assert list(table["nbytes"]) == [48, 12, 8]
    assert list(table["storage_nbytes"]) == [48, 48, 8]
    assert table["devices"] == ["cpu"] * 3 and table["layouts"] == ["strided"] * 3


def test_a_model_in_memory_keeps_the_memory(model):
    data = bytearray(open(model, "rb").read())
    opened = _ckpt.open_memory(data)
    with pytest.raises(BufferError):
        data.clear()
    assert opened.table()["names"] == ["a", "b", "c"]
    opened.close()
    data.clear()


def test_a_model_is_read_by_functions(model):
    data, closed = open(model, "rb").read(), []
    opened = _ckpt.open_reader(lambda offset, nbytes: data[offset:offset + nbytes], len(data), close=lambda: closed.append(1))
    assert opened.open_array("a").read() == struct.pack("<12f", *range(12))
    assert not closed
    opened.close()
    assert closed == [1]


def test_what_a_function_raises_comes_out(model):
    data, fail = open(model, "rb").read(), []

    def pread(offset, nbytes):
        if fail:
            raise fail[0]
        return data[offset:offset + nbytes]

    opened = _ckpt.open_reader(pread, len(data))
    for error in (RuntimeError("gone"), OSError(5, "broken"), KeyboardInterrupt()):
        fail[:] = [error]
        with pytest.raises(type(error)) as raised:
            opened.open_array("a").read()
        assert raised.value is error
    fail.clear()
    assert len(opened.open_array("a").read()) == 48
    with pytest.raises(OSError, match="gave 0 bytes"):
        _ckpt.open_reader(lambda offset, nbytes: b"", len(data))


def test_errors_say_what_and_where(tmp_path, model):
    with pytest.raises(FileNotFoundError) as raised:
        _ckpt.open(str(tmp_path / "none.pt"))
    assert isinstance(raised.value, ckpt.Error) and raised.value.filename.endswith("none.pt")
    assert raised.value.errno == 2 and raised.value.status == "IO"
    with pytest.raises(KeyError) as raised:
        _ckpt.open(model).open_array("z")
    assert isinstance(raised.value, ckpt.Error) and "z" in str(raised.value)
    cut = tmp_path / "cut.pt"
    cut.write_bytes(open(model, "rb").read()[:-30])
    with pytest.raises(ckpt.Error) as raised:
        _ckpt.open(str(cut))
    assert raised.value.status == "FORMAT" and raised.value.path == str(cut)
    with pytest.raises(ValueError):
        _ckpt.open("a\0b")


def test_a_closed_model_says_so_and_its_arrays_stay(model):
    opened = _ckpt.open(model)
    array, view = opened.open_array("a"), opened.storage_map(1)
    opened.close()
    opened.close()
    assert opened.closed
    with pytest.raises(ValueError, match="closed"):
        opened.table()
    assert array.read(first=1, count=1) == struct.pack("<f", 1)
    assert bytes(view) == struct.pack("<2f", 0.5, -1)
    assert view.readonly


def test_a_map_keeps_the_model(model):
    view = _ckpt.open(model).storage_map(0)
    gc.collect()
    assert struct.unpack("<12f", view)[11] == 11


def test_arrays_are_sliced_and_read_into_buffers(model):
    opened = _ckpt.open(model)
    array = opened.open_array("a")
    array.slice("1:, ::3")
    assert array.info()["shape"] == (2, 2)
    buffer = bytearray(16)
    assert array.read(buffer) is buffer
    assert struct.unpack("<4f", buffer) == (4, 7, 8, 11)
    with pytest.raises(ValueError, match="has 3 bytes, wanted 16"):
        array.read(bytearray(3))
    with pytest.raises(BufferError):
        array.read(bytes(16))
    assert opened.open_array("a").read(step=5) == struct.pack("<12f", *range(12))


def test_storages_say_where_they_are(model):
    info = _ckpt.open(model).storage_info(0)
    assert info["path"] == model and info["nbytes"] == 48 and info["key"] == "0"
    with open(model, "rb") as stream:
        stream.seek(info["offset"])
        assert stream.read(48) == struct.pack("<12f", *range(12))


def test_ranges_of_storages_are_read_at_once(model):
    buffers, seen = [bytearray(8), bytearray(8)], []
    _ckpt.open(model).read_storages([(0, 4, 8, buffers[0]), (1, 0, 8, buffers[1])], threads=2, check=True,
                                    progress=lambda done, total: seen.append((done, total)))
    assert struct.unpack("<2f", buffers[0]) == (1, 2) and struct.unpack("<2f", buffers[1]) == (0.5, -1)
    assert all(total == 16 for _, total in seen)
    with pytest.raises(ValueError):
        _ckpt.open(model).read_storages([(0, 40, 16, bytearray(16))])
    with pytest.raises(TypeError):
        _ckpt.open(model).read_storages([(0, 0, 4, bytes(4))])


def test_a_flag_ends_reading(model):
    import ctypes

    flag, buffer = ctypes.c_int(0), bytearray(8)
    opened = _ckpt.open(model)
    opened.read_storages([(0, 4, 8, buffer)], threads=1, cancel=flag)
    assert buffer != bytearray(8)
    flag.value = 1
    with pytest.raises(Exception) as caught:
        opened.read_storages([(0, 4, 8, buffer)], threads=1, cancel=flag)
    assert caught.value.status == "CANCELLED"
    for wrong in (ctypes.c_char(), ctypes.c_longlong(), bytearray(5)):
        with pytest.raises(ValueError):
            opened.read_storages([(0, 4, 8, buffer)], cancel=wrong)
    with pytest.raises(TypeError):
        opened.read_storages([(0, 4, 8, buffer)], cancel=1)


def test_plain_values_are_made(write, files, hooks):
    body = b"](" + b"NI01\nI00\n\x88K\x07" + b"\x8a\x0a" + bytes(9) + b"\x01" + b"\x8a\x09" + bytes(8) + b"\xff"
    body += b"G" + struct.pack(">d", 0.5) + files.text("a\u00e9") + files.text(b"\xed\xa0\x80") + b"))" + b"K\1K\2\x86e"
    value = _ckpt.open(write(body)).build("", hooks)
    assert value == [None, True, False, True, 7, 1 << 72, -1 << 64, 0.5, "a\u00e9", "\ud800", (), (), (1, 2)]


def test_containers_of_collections_are_made(write, files, hooks):
    ordered = files.glob("collections", "OrderedDict") + b")R" + files.text("k") + b"K\1s" + b"}" + files.text("extra") + b"K\2sb"
    default = files.glob("collections", "defaultdict") + files.glob("__builtin__", "list") + b"\x85R" + files.text("k") + b"K\3s"
    counter = files.glob("collections", "Counter") + b"}" + files.text("x") + b"K\4s\x85R"
    some = files.glob("__builtin__", "set") + b"](K\1K\2e\x85R"
    value = _ckpt.open(write(b"(" + ordered + default + counter + some + b"l")).build("", hooks)
    assert [type(one) for one in value] == [collections.OrderedDict, collections.defaultdict, collections.Counter, set]
    assert value[0] == {"k": 1} and value[0].extra == 2
    assert value[1] == {"k": 3} and value[1].default_factory is list
    assert value[2] == {"x": 4} and value[3] == {1, 2}


def test_what_is_one_object_in_the_file_is_one_object(write, files, hooks):
    value = _ckpt.open(write(b"](]q\1h\1" + files.text("name") + b"q\2h\2e")).build("", hooks)
    assert value[0] is value[1] and value[2] is value[3]


def test_cycles_are_made(write, files, hooks):
    value = _ckpt.open(write(b"]q\0h\0a")).build("", hooks)  # a list in itself
    assert value[0] is value
    value = _ckpt.open(write(b"}q\0" + files.text("me") + b"h\0s")).build("", hooks)
    assert value["me"] is value
    # t = ([t],): the tuple is begun twice
    value = _ckpt.open(write(b"]q\0(h\0tq\1h\0h\1a0")).build("", hooks)
    assert type(value) is tuple and value[0][0] is value
    # an object whose state holds it
    thing = files.glob("m", "C") + b")\x81q\0}" + files.text("me") + b"h\0sb"
    value = _ckpt.open(write(thing)).build("", hooks)
    assert value[:2] == ["call", "m.C"] and value[4] is True
    assert value[5][2][0]["me"] is value


def test_deep_nesting_ends_with_an_error(write, hooks):
    value = _ckpt.open(write(b"](" * 5000 + b"e" * 5000)).build("", hooks)
    for _ in range(4999):
        value, = value
    assert value == []
    for opening, closing in ((b"](", b"e"), (b"(", b"t")):
        with pytest.raises(ckpt.Error) as raised:
            _ckpt.open(write(opening * 200000 + closing * 200000)).build("", hooks)
        assert raised.value.status == "LIMIT"


def test_keys_without_a_hash_are_the_files_mistake(write, files, hooks):
    with pytest.raises(ckpt.Error, match="unhashable"):
        _ckpt.open(write(b"}]K\1s")).build("", hooks)
    with pytest.raises(ckpt.Error, match="unhashable"):
        _ckpt.open(write(files.glob("__builtin__", "set") + b"](]e\x85R")).build("", hooks)


def test_keys_that_take_forever_to_hash_are_refused(write, files, hooks):
    bomb = b")" + b"2\x86" * 60
    for body in (b"}" + bomb + b"K\1s", files.glob("__builtin__", "set") + b"](" + bomb + b"e\x85R",
                 files.glob("__builtin__", "frozenset") + b"](" + bomb + b"e\x85R"):
        with pytest.raises(ckpt.Error, match="keys are tuples of too many items") as raised:
            _ckpt.open(write(body)).build("", hooks)
        assert raised.value.status == "LIMIT"
    value = _ckpt.open(write(b"}" + b")" + b"2\x86" * 10 + b"K\1s")).build("", hooks)
    assert list(value.values()) == [1]


def test_calls_are_left_to_the_hooks(write, files, hooks):
    body = files.glob("os", "system") + files.text("echo no") + b"\x85R"
    assert _ckpt.open(write(body)).build("", hooks) == ["call", "os.system", ("echo no",), None, False]
    hooks.call = lambda *args: 1 / 0
    with pytest.raises(ZeroDivisionError):
        _ckpt.open(write(body)).build("", hooks)


def test_in_call_mode_tensors_are_calls(model, hooks):
    hooks.calls = True
    value = _ckpt.open(model).build("b", hooks)
    assert value[:2] == ["call", "torch._utils._rebuild_tensor_v2"]
    storage, offset, shape, stride, grad, backward = value[2]
    assert storage == ("storage", 0, "float32", "cpu", 12, False)
    assert (offset, shape, stride, grad) == (0, (3,), (4,), False) and backward == {}


def test_usual_tensors_are_made_at_once(write, files, hooks):
    def tensor(axes, hooks_of, last=b""):
        return (files.glob("torch._utils", "_rebuild_tensor_v2") + b"(" + files.storage(numel=12) + files.number(1)
                + files.numbers(axes) + files.numbers([0] * len(axes)) + b"\x89" + hooks_of + last + b"tR")

    none = files.glob("collections", "OrderedDict") + b")R"
    shared = files.glob("collections", "OrderedDict") + b")Rq\x07"
    hooks.calls, made = True, []
    hooks.rebuilt = lambda *args: made.append(args) or ("rebuilt", len(made))
    body = (b"]q\1(" + tensor([3, 2], none) + tensor([], none) + tensor([2] * 17, none) + tensor([1], none, last=b"N") + tensor([1], shared) + b"h\x07"
            + tensor([1], b"N") + b"e")
    value = _ckpt.open(write(body, {"0": bytes(48)})).build("", hooks)
    assert value[:2] == [("rebuilt", 1), ("rebuilt", 2)] and [part[0] for part in value[2:5] + value[6:]] == ["call"] * 4
    assert value[4][2][5] is value[5]  # hooks that are elsewhere, too, are one object
    storage = ("storage", 0, "float32", "cpu", 12, False)
    assert made == [(storage, 1, (3, 2), (0, 0), False, {}), (storage, 1, (), (), False, {})]
    assert type(made[0][5]).__name__ == "OrderedDict"
    hooks.rebuilt = lambda *args: 1 / 0
    with pytest.raises(ZeroDivisionError):
        _ckpt.open(write(body, {"0": bytes(48)})).build("", hooks)
    hooks.rebuilt = lambda *args: ("rebuilt",)
    call = tensor([1], none)[:-1]
    body = b"]q\1(" + call + b"q\x08R" + files.glob("torch._utils", "_rebuild_tensor_v2") + b"h\x08Re"
    value = _ckpt.open(write(body, {"0": bytes(48)})).build("", hooks)
    assert value[0][2][5] is value[1][2][5]  # of arguments that two calls share as well


def test_the_collector_waits_and_others_have_the_last_word(write, files, hooks):
    path = write(b"(" + files.glob("os", "system") + b")Rt", {})
    before, seen = gc.get_threshold(), []

    def build(call):
        hooks.call = lambda *args: seen.append((gc.get_threshold()[0], call()))
        _ckpt.open(path).build("", hooks, True)
        after = gc.get_threshold(), gc.isenabled()
        gc.enable()
        gc.set_threshold(*before)
        return after

    assert build(lambda: None) == (before, True) and seen[0][0] > 10 ** 9
    assert build(gc.disable) == (before, False)
    assert build(lambda: gc.set_threshold(123, 4))[0][:2] == (123, 4)
    assert build(lambda: _ckpt.open(path).build("", type(hooks)(), True)) == (before, True)
    assert build(lambda: (_ckpt.resume_collector(), seen.append(gc.get_threshold()))) == (before, True) and seen[-2] == before
    hooks.call = lambda *args: 1 / 0
    with pytest.raises(ZeroDivisionError):
        _ckpt.open(path).build("", hooks, True)
    hooks.call = lambda *args: os.kill(os.getpid(), signal.SIGINT)
    with pytest.raises(KeyboardInterrupt):
        _ckpt.open(path).build("", hooks, True)
        time.sleep(10)
    assert gc.get_threshold() == before and gc.isenabled()


def test_what_torch_refuses_is_of_what_was_read(write, files, tmp_path):
    good, bad = write(b"N", name="good.pt"), write(files.glob("os", "system") + b"0N", name="bad.pt")
    
    def names(model):
        return [refusal[0] for refusal in model.refusals() if refusal[0]]

    opened = _ckpt.open(good), _ckpt.open(bad)
    with open(bad, "rb") as file:
        assert names(_ckpt.open_memory(file.read())) == ["os.system"]
    os.replace(bad, good)
    assert [names(model) for model in opened] == [[], ["os.system"]]
    (tmp_path / "safe.safetensors").write_bytes(b"\2\0\0\0\0\0\0\0{}")
    assert names(_ckpt.open(str(tmp_path / "safe.safetensors"))) == []


def test_the_descriptor_of_a_storage_is_of_what_was_read(model, tmp_path):
    opened = _ckpt.open(model)
    info = opened.storage_info(0)
    with open(model, "rb") as file:
        wanted = file.read()[info["offset"]:info["offset"] + info["nbytes"]]
    os.rename(model, str(tmp_path / "elsewhere"))
    assert os.pread(info["descriptor"], info["nbytes"], info["offset"]) == wanted
    assert _ckpt.open_memory((tmp_path / "elsewhere").read_bytes()).storage_info(0)["descriptor"] == -1


def test_parts_and_edits_are_models(model, hooks):
    opened = _ckpt.open(model)
    selected, report = opened.edit("select", ["a", "epoch"], [], 0)
    assert report["entries_dropped"] == 2
    opened.close()
    assert selected.build("", hooks) == {"a": ("tensor", 0), "epoch": 7}
    assert selected.open_array("a").info()["shape"] == (3, 4)
    with pytest.raises(KeyError):
        _ckpt.open(model).edit("select", ["nothing"], [], 0)
    for wrong in (("nothing", [], [], 0), ("extract", [], [], 0), ("extract", [None], [], 0), ("select", [1], [], 0)):
        with pytest.raises((TypeError, ValueError)):
            _ckpt.open(model).edit(*wrong)


def test_walk_and_show_tell_what_is_there(model):
    opened = _ckpt.open(model)
    rows = opened.walk()
    assert [row[0] for row in rows] == ["", "a", "b", "c", "epoch"]
    assert rows[4][3:5] == ("int", "7")
    assert opened.show("epoch") == "7" and opened.show("epoch", True) == "7"
    assert len(opened.walk(0)) == 1


def test_threads_use_one_model_while_another_closes_it(tmp_path, files):
    data = os.urandom(1 << 20)
    body = files.glob("collections", "OrderedDict") + b")R(" + files.text("a")
    body += files.tensor("0", numel=1 << 18, shape=(1 << 18,), stride=(1,)) + b"u"
    path = tmp_path / "big.pt"
    path.write_bytes(files.archive([("data.pkl", files.pickled(body)), ("data/0", data), ("version", b"3\n")]))
    opened, wrong = _ckpt.open(str(path)), []

    def work():
        try:
            for _ in range(200):
                if opened.open_array(0).read() != data:
                    wrong.append("other bytes")
        except ValueError as error:
            if "closed" not in str(error):
                wrong.append(error)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for one in threads:
        one.start()
    opened.close()
    for one in threads:
        one.join()
    assert not wrong


def test_nothing_is_kept(model, hooks):
    opened = _ckpt.open(model)

    class Kept:
        pass

    kept = Kept()
    hooks.tensor = lambda index, kept=kept: kept
    value = opened.build("", hooks)
    gone = weakref.ref(kept)
    del value, kept, hooks.tensor
    gc.collect()
    assert gone() is None
    counts = []
    for _ in range(6):
        for _ in range(200):
            opened.build("", hooks)
            opened.table()
            opened.storage_map(0)
            try:
                opened.open_array("z")
            except KeyError:
                pass
        gc.collect()
        counts.append(sys.getallocatedblocks())
    # Python fills its own caches at some time in the first hundreds; what is lost in each round is lost in all of them
    assert min(after - before for before, after in zip(counts, counts[1:])) < 50

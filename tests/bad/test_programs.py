# SPDX-License-Identifier: Apache-2.0
"""Archives of torch.package and torch.export made byte by byte: what is read, and what is wrong with broken ones."""

import json
import os
import zipfile

import files
from files import FOUR_FLOATS, archive, glob, number, numbers, pickled, text, torch_file

MARKS = [(".data/version", b"6\n"), ("byteorder", b"little")]


# ---- torch.package ----

def int_storage(key=b"K\x00", kind="FloatStorage", numel=4):
    return b"(" + text("storage") + glob("torch", kind) + key + text("cpu") + number(numel) + b"tQ"


def tensor(saved=None, shape=(4,), stride=(1,)):
    return (glob("torch._utils", "_rebuild_tensor_v2") + b"(" + (saved or int_storage()) + number(0) + numbers(shape) +
            numbers(stride) + b"\x89" + glob("collections", "OrderedDict") + b")RtR")


def pickle_of(**values):
    return b"\x80\x03}(" + b"".join(text(k) + v for k, v in values.items()) + b"u."


def package(*records, storages=((".data/0.storage", FOUR_FLOATS),)):
    return archive(list(storages) + list(records) + [(".data/extern_modules", b"torch\n"),
                                                     (".data/python_version", b"3.11.2")] + MARKS, "p")


REDUCED = (b"(" + text("reduce_package") + number(7) + glob("torch.fx.graph_module", "reduce_package_graph_module") +
           b"(}" + text("weight") + tensor() + b"s" + text("fx-generated._0") + b"ttQ")

# ---- torch.export ----


def meta(dtype=7, sizes=(4,), strides=(1,), offset=0, device=None, layout=7, grad=False):
    return {"dtype": dtype, "sizes": [{"as_int": n} for n in sizes], "strides": [{"as_int": n} for n in strides],
            "requires_grad": grad, "device": device or {"type": "cpu", "index": None},
            "storage_offset": {"as_int": offset}, "layout": layout}


def payload(path="weight_0", is_param=False, use_pickle=False, **about):
    return {"path_name": path, "is_param": is_param, "use_pickle": use_pickle, "tensor_meta": meta(**about)}


def program(config=None, weights=None, constants=None, extra=(), model="model"):
    """CONFIG: a dict of payloads, or the bytes of the text."""
    config = {"w": payload()} if config is None else config
    if not isinstance(config, bytes):
        config = json.dumps({"config": config}).encode()
    weights = {"weight_0": FOUR_FLOATS} if weights is None else weights
    records = [("data/weights/" + name, data) for name, data in weights.items()]
    records += [("data/weights/%s_weights_config.json" % model, config),
                ("data/constants/%s_constants_config.json" % model, json.dumps({"config": constants or {}}).encode()),
                ("models/%s.json" % model, b"{}"), ("archive_format", b"pt2"), ("archive_version", b"0")]
    return archive(records + MARKS + list(extra), "m")


CONFIG = "m/data/weights/model_weights_config.json"


def with_item(**changes):
    item = payload()
    for key, value in changes.items():
        if key in item:
            item[key] = value
        else:
            item["tensor_meta"][key] = value
    return program({"w": item})


# (what, file, message)
PROGRAMS = [
    ("a size that is negative", with_item(sizes=[{"as_int": -4}]),
     CONFIG + ": tensor 'w': 'sizes' is -4, wanted 0 or more"),
    ("a stride that is negative", with_item(strides=[{"as_int": -1}]),
     CONFIG + ": tensor 'w': 'strides' is -1, wanted 0 or more"),
    ("a stride that is huge", with_item(strides=[{"as_int": 2**62}]),
     "tensor 'state_dict.w': reaches more than 18446744073709551615 bytes into its storage 'data/weights/weight_0' "
     "of 16 bytes"),
    ("an offset beyond the end", with_item(storage_offset={"as_int": 1}),
     "tensor 'state_dict.w': reaches 20 bytes into its storage 'data/weights/weight_0' of 16 bytes"),
    ("an integer that is none", with_item(sizes=[{"as_int": 4.5}]),
     CONFIG + ": tensor 'w': 'sizes': wanted an integer, found a number"),
    ("an integer of 200 digits", program(json.dumps({"config": {"w": payload()}}).replace(
        '"as_int": 4', '"as_int": ' + "9" * 200).encode()), None),
    ("a size that is an expression", with_item(sizes=[{"as_expr": {"expr_str": "s0"}}]),
     CONFIG + ": tensor 'w': 'sizes': wanted an integer, found nothing"),
    ("65 dimensions", with_item(sizes=[{"as_int": 1}] * 65),
     CONFIG + ": tensor 'w': 'sizes' has 65 dimensions, torch has at most 64"),
    ("fewer strides than sizes", with_item(strides=[]),
     CONFIG + ": tensor 'w': 'sizes' has 1 dimensions, 'strides' 0"),
    ("dtype 0", with_item(dtype=0), CONFIG + ": tensor 'w': dtype number 0 is not known"),
    ("dtype in a gap", with_item(dtype=20), CONFIG + ": tensor 'w': dtype number 20 is not known"),
    ("dtype of the future", with_item(dtype=99), CONFIG + ": tensor 'w': dtype number 99 is not known"),
    ("dtype by name", with_item(dtype="float32"), CONFIG + ": tensor 'w': 'dtype': wanted an integer, found a text"),
    ("a sparse layout", with_item(layout=1),
     CONFIG + ": tensor 'w': layout number 1, wanted 7: a strided tensor"),
    ("a device without type", with_item(device={"index": 0}),
     CONFIG + ": tensor 'w': 'device': wanted the name of a type, found nothing"),
    ("no meta", with_item(tensor_meta=None), CONFIG + ": tensor 'w': 'tensor_meta': wanted an object, found null"),
    ("no path", with_item(path_name=None), CONFIG + ": tensor 'w': 'path_name': wanted a text, found null"),
    ("a path upwards", with_item(path_name="../constants/tensor_0"),
     CONFIG + ": tensor 'w': 'path_name' is not the name of a record in 'data/weights/': '../constants/tensor_0'"),
    ("an absolute path", with_item(path_name="/etc/passwd"),
     CONFIG + ": tensor 'w': 'path_name' is not the name of a record in 'data/weights/': '/etc/passwd'"),
    ("an empty path", with_item(path_name=""),
     CONFIG + ": tensor 'w': 'path_name' is not the name of a record in 'data/weights/': ''"),
    ("a record that is missing", with_item(path_name="weight_1"),
     CONFIG + ": tensor 'w': the record 'data/weights/weight_1' is missing"),
    ("a record of odd length", program(weights={"weight_0": FOUR_FLOATS + b"x"}),
     CONFIG + ": tensor 'w': the record 'data/weights/weight_0' has 17 bytes, no multiple of the 4 of float32"),
    ("two dtypes over one record", program({"a": payload(), "b": payload(dtype=1, sizes=[16])}),
     CONFIG + ": tensor 'b': is of uint8, another tensor over the same record 'data/weights/weight_0' of float32, "
     "which torch does not read as what it was"),
    ("two records but for their case", program({"a": payload(), "b": payload("WEIGHT_0")}),
     "two storages have keys that differ in case only; torch reads both from 'm/data/weights/weight_0'"),
    ("is_param as a number", with_item(is_param=1),
     CONFIG + ": tensor 'w': 'is_param': wanted true or false, found an integer"),
    ("a payload that is a list", program({"w": []}),
     CONFIG + ": tensor 'w': 'config': wanted an object for each tensor, found an array"),
    ("no config", program(b"{}"), CONFIG + ": 'config': wanted an object, found nothing"),
    ("a list as config", program(b'{"config": []}'), CONFIG + ": 'config': wanted an object, found an array"),
    ("no JSON", program(b"\x80\x02}."), None),
    ("nothing", program(b""), None),
    ("text that is not UTF-8", program(b'{"config": {"\xff": 1}}'), None),
    ("a name twice", program(b'{"config": {}, "config": {}}'), None),
    ("100,000 levels", program(b"[" * 100000), None),
    ("a torch.save file that is none", with_item(use_pickle=True),
     "m/data/weights/weight_0: is a truncated zip archive: 16 bytes are there, the end with the directory is missing; "
     "download or copy it again"),
    ("another archive format", archive([("archive_format", b"pt3")] + MARKS, "m"),
     "archive_format: archive format 'pt3', wanted 'pt2'"),
    ("no weights", archive([("archive_format", b"pt2"), ("models/x.json", b"{}")] + MARKS, "m"),
     "x: the record 'data/weights/x_weights_config.json' is missing"),
    ("big-endian", archive([("archive_format", b"pt2"), (".data/version", b"6\n"), ("byteorder", b"big")], "m"),
     "is a big-endian torch.export program, which is not read"),
    ("a record outside", archive([("m/archive_format", b"pt2"), ("m/.data/version", b"6\n"), ("x", b"1")], ""),
     "'x' is outside of the folder 'm/': the archive was repacked by another tool, and torch will not load it"),
]

LIST_KEY = pickle_of(a=tensor(int_storage(b"]")))
PACKAGES = [
    ("a storage that is missing", package(("m.pkl", pickle_of(a=tensor())), storages=()),
     "the record '.data/0.storage' is missing, which holds 16 bytes of tensors"),
    ("a storage that is too short", package(("m.pkl", pickle_of(a=tensor())),
                                            storages=[(".data/0.storage", FOUR_FLOATS[:8])]),
     "p/.data/0.storage: has 8 bytes, the pickle wants 16 (4 of float32)"),
    ("a key that is a path", package(("m.pkl", pickle_of(a=tensor(int_storage(text("../../etc/passwd")))))),
     "the record '.data/../../etc/passwd.storage' is missing, which holds 16 bytes of tensors"),
    ("a key that is a list", package(("m.pkl", LIST_KEY)),
     "+0x%x: storage id: wanted a text as key, found list" % LIST_KEY.index(b"Q")),
    ("an unknown opcode", package(("m.pkl", b"\x80\x03\xff.")), "p/m.pkl+0x2: unknown opcode 0xff"),
    ("no value", package(("m.pkl", b"\x80\x03.")), None),
]


class Programs(files.BadFileTest):
    def check(self, table):
        for what, data, message in table:
            with self.subTest(what):
                path = self.write(data)
                code, out, err = self.ckpt("ls", path)
                self.assertEqual((code, out), (2, ""), err)
                self.assertEqual(err.count("\n"), 1, err)
                if message:
                    self.assertEqual(err, "ckpt: %s: %s\n" % (path, message) if message[0] != "+" else err)
                    self.assertTrue(err.endswith(message + "\n"), err)

    def test_every_fault_of_a_program_is_said(self):
        self.check(PROGRAMS)

    def test_every_fault_of_a_package_is_said(self):
        self.check(PACKAGES)

    def test_every_length_is_refused_but_the_whole(self):
        for whole in (package(("m.pkl", pickle_of(a=tensor()))), program(), self.old_program()):
            self.assert_beginnings_refused(whole)
            self.assert_listed(whole, "float32  [4]  cpu      16")

    def old_program(self, state=None, **others):
        path = self.path("old.pt2")
        with zipfile.ZipFile(path, "w") as out:
            out.writestr("serialized_exported_program.json", "{}")
            out.writestr("serialized_state_dict.pt", torch_file() if state is None else state)
            out.writestr("version", "8.2")
            for name, data in others.items():
                out.writestr(name, data)
        with open(path, "rb") as stream:
            return stream.read()

    def test_what_is_in_a_program(self):
        self.assert_listed(program({"a": payload(is_param=True, grad=True), "b": payload(sizes=[2], offset=2)}),
                           "state_dict.a  float32  [4]  cpu      16", "state_dict.b  float32  [2]  cpu       8 of 16  shares")
        self.assert_listed(self.old_program(), "state_dict.weight  float32  [4]")
        self.assert_listed(program({"w": payload(device={"type": "cuda", "index": 1})}), "w  float32  [4]  cuda:1")
        self.assert_listed(program({"w": payload(use_pickle=True)}, {"weight_0": torch_file()}),
                           "state_dict.w.weight  float32  [4]")

    def test_an_old_program_that_is_broken_inside(self):
        path = self.write(self.old_program(torch_file()[:-30]))
        code, out, err = self.ckpt("ls", path)
        self.assertEqual((code, out), (2, ""))
        self.assertIn("ckpt: %s: serialized_state_dict.pt: " % path, err)
        path = self.write(self.old_program(torch_file(data=None)))
        self.assertIn("the record 'data/0' is missing", self.ckpt("ls", path)[2])

    def test_bytes_that_were_left_out(self):
        path = self.write(program(weights={"weight_0": b""}))
        self.assertEqual(self.ckpt("ls", path)[0], 0)
        code, _, err = self.ckpt("convert", path, self.path("out.pt"))
        self.assertEqual(code, 2)
        self.assertTrue(err.endswith("the bytes of a tensor were left out, as they are of fake tensors\n"), err)
        self.assertFalse(os.path.exists(self.path("out.pt")))

    def test_what_only_an_importer_can_make(self):
        path = self.write(package(("m.pkl", pickle_of(net=REDUCED))))
        self.assert_listed(package(("m.pkl", pickle_of(net=REDUCED))), "m.pkl.net.0.weight  float32  [4]")
        code, _, err = self.ckpt("convert", path, self.path("out.pt"))
        self.assertEqual(code, 2)
        self.assertIn("holds an object that only a reader of the archive can make", err)

    def test_resources_that_are_no_pickles(self):
        self.assert_listed(package(("m.pkl", pickle_of(a=tensor())), ("b.bin", b"\x80\x03 no end"), ("e", b""),
                                   ("t", b"."), ("c.py", b"\x80\x03]."), ("d/", b"")), "m.pkl.a  float32", "1 tensor,")

    def test_archives_are_not_written(self):
        for data in (package(("m.pkl", pickle_of(a=tensor()))), program()):
            path = self.write(data)
            for more in (["out.pt"], ["-i"]):
                command = ["remap", "cpu=cuda:0"] + (["-i", path] if more == ["-i"] else [path, self.path("out.pt")])
                code, _, err = self.ckpt(*command)
                self.assertEqual(code, 2, err)
                self.assertIn("is not written, only read", err)
            with open(path, "rb") as stream:
                self.assertEqual(stream.read(), data)

    def test_memory_in_proportion(self):
        """A text of many small values, 8 MB: refused or read within the limit of all these tests."""
        many = b'{"config": {' + b",".join(b'"%d":0' % i for i in range(400000)) + b"}}"
        code, _, err = self.ckpt("ls", self.write(program(many)))
        self.assertEqual(code, 2)
        self.assertIn("tensor '0': ", err)

    def test_a_compressed_text_of_very_many_values(self):
        """200 KB that are 100 MB of JSON, and would be 3 GB as a tree."""
        path = self.path("bomb.pt2")
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as out:
            out.writestr("m/archive_format", "pt2")
            out.writestr("m/.data/version", "6")
            out.writestr("m/models/model.json", "{}")
            out.writestr(CONFIG, '{"config": [' + "0," * 50000000 + "0]}")
        code, out, err = self.ckpt("ls", path)
        self.assertEqual((code, out), (2, ""))
        self.assertTrue(err.startswith("ckpt: %s: %s: " % (path, CONFIG)), err)

    def test_many_tensors_over_one_record(self):
        config = {"t%d" % i: payload() for i in range(20000)}
        code, out, err = self.ckpt("ls", self.write(program(config)))
        self.assertEqual((code, err), (0, ""))
        self.assertEqual(out.splitlines()[-1], "20,000 tensors, 4 elements, 16 in 1 storage")


if __name__ == "__main__":
    files.main()

# SPDX-License-Identifier: Apache-2.0
"""Shard sets: what a set is read as, and what is said where index and files do not agree."""

import json
import os
import struct
import shutil
import tempfile

import files
from files import glob, number, pickled, state_dict, tensor, text, torch_file

INDEX = "pytorch_model.bin.index.json"
ONE, TWO = "pytorch_model-00001-of-00002.bin", "pytorch_model-00002-of-00002.bin"


def plain_dict(value):
    return pickled(b"}(" + value + b"u")


def safetensors(info=None, **tensors):
    """NAME=(dtype, shape, bytes); INFO: {NAME: where it begins}."""
    header, at, data = {}, 0, b""
    if info is not None:
        text = info if isinstance(info, str) else json.dumps({name: {"saved_offsets": o} for name, o in info.items()})
        header["__metadata__"] = {"DCP_SHARDING_INFO": text, "DCP_VERSION": "1.0", "format": "pt"}
    for name, (dtype, shape, stored) in tensors.items():
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [at, at + len(stored)]}
        at += len(stored)
        data += stored
    packed = json.dumps(header).encode()
    return struct.pack("<Q", len(packed)) + packed + data


def bytes_of(*shape):
    """A part of a tensor of uint8."""
    count = 1
    for size in shape:
        count *= size
    return "U8", list(shape), bytes(range(count))


class ShardSets(files.BadFileTest):
    def setUp(self):
        self.set = tempfile.mkdtemp(dir=self.folder)

    def tearDown(self):
        shutil.rmtree(self.set)

    def put(self, name, data):
        path = os.path.join(self.set, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "wb") as stream:
            stream.write(data if isinstance(data, bytes) else data.encode())
        return path

    def index(self, weight_map, name=INDEX, **metadata):
        return self.put(name, json.dumps({"metadata": metadata, "weight_map": weight_map}, indent=2))

    def sound(self):
        self.put(ONE, torch_file(state_dict(a=tensor(), b=tensor())))
        self.put(TWO, torch_file(state_dict(c=tensor())))
        return self.index({"a": ONE, "b": ONE, "c": TWO}, total_size=32)

    def names(self, path=None):
        code, out, err = self.ckpt("ls", path or self.set)
        self.assertEqual((code, err), (0, ""))
        return [line.split()[0] for line in out.splitlines()[:-1]]

    def notes(self):
        code, out, err = self.ckpt("info", "--json", self.set)
        self.assertEqual((code, err), (0, ""))
        return json.loads(out).get("notes", [])

    def refused(self, message, where=None):
        code, out, err = self.ckpt("ls", self.set)
        path = os.path.join(self.set, where) if where else self.set
        self.assertEqual(err, "ckpt: %s: %s\n" % (path, message))
        self.assertEqual((code, out), (2, ""))

    # ---- what is read ----

    def test_a_set_is_one_state_dict_in_the_order_of_its_files(self):
        index = self.sound()
        self.assertEqual(self.names(), ["a", "b", "c"])
        self.assertEqual(self.names(index), ["a", "b", "c"])
        self.assertEqual(self.notes(), [])
        code, out, _ = self.ckpt("verify", self.set)
        self.assertEqual(code, 0, out)
        self.assertIn("sound but for its index, which has no checksum: 3 tensors", out)

    def test_tied_weights_stay_tied(self):
        self.sound()
        self.assertIn("shares storage with a", self.ckpt("ls", self.set)[1])

    def test_only_what_the_index_names_is_read(self):
        self.sound()
        self.put("optimizer.bin", b"not a checkpoint")
        self.put("config.json", "{}")
        self.assertEqual(self.names(), ["a", "b", "c"])
        self.assertEqual(self.ckpt("verify", self.set)[0], 0)

    def test_files_in_a_folder_below(self):
        self.put("sub/x.bin", torch_file(state_dict(a=tensor())))
        self.index({"a": "sub/x.bin"})
        self.assertEqual(self.names(), ["a"])

    def test_without_an_index_the_numbers_say_what_belongs_together(self):
        os.remove(self.sound())
        self.assertEqual(self.names(), ["a", "b", "c"])
        self.assertEqual(self.notes(), ["has no index, which transformers needs; which tensor is where the files say "
                                        "themselves"])
        os.remove(os.path.join(self.set, ONE))
        self.refused("has no index, and 1 of 2 files: '%s' is missing" % ONE)

    def test_a_folder_around_one_model_is_that_model(self):
        self.put("config.json", "{}")
        self.put("training_args.bin", b"x")
        self.put("pytorch_model.bin", torch_file(state_dict(a=tensor())))
        self.assertEqual(self.names(), ["a"])
        self.assertEqual(self.ckpt("verify", self.set)[0], 0)

    def test_a_variant_is_taken_if_there_is_nothing_else(self):
        name = "pytorch_model.fp16-00001-of-00001.bin"
        self.put(name, torch_file(state_dict(half=tensor())))
        variant = self.index({"half": name}, "pytorch_model.bin.index.fp16.json")
        self.assertEqual(self.names(), ["half"])
        self.sound()
        self.assertEqual(self.names(), ["a", "b", "c"])
        self.assertEqual(self.names(variant), ["half"])
        self.assertEqual(self.notes(), ["beside it is 'pytorch_model.bin.index.fp16.json', which was not read"])

    def test_one_model_comes_before_a_set_of_the_same_kind(self):
        self.sound()
        self.put("pytorch_model.bin", torch_file(state_dict(whole=tensor())))
        self.assertEqual(self.names(), ["whole"])

    # ---- what is refused ----

    def test_missing_files_are_named_and_what_is_in_them_counted(self):
        self.sound()
        os.remove(os.path.join(self.set, ONE))
        self.refused("the file '%s' is missing, with 2 of the 3 tensors" % ONE)
        os.remove(os.path.join(self.set, TWO))
        self.refused("2 of 2 files are missing, with 3 of the 3 tensors: '%s' ..." % ONE)
        code, out, _ = self.ckpt("verify", self.set)
        self.assertEqual(code, 1)
        self.assertIn("2 of 2 files are missing", out)

    def test_a_tensor_that_is_not_where_the_index_has_it(self):
        self.sound()
        self.index({"a": ONE, "b": ONE, "c": TWO, "d": TWO})
        self.refused("'d' is not in '%s', where the index has it" % TWO)
        self.index({"a": ONE, "b": ONE, "c": TWO, "d": TWO, "e": ONE})
        self.refused("'d' is not in '%s', where the index has it, nor is 1 other in its file" % TWO)
        self.index({"a": ONE, "b": TWO, "c": TWO})
        self.refused("'b' in '%s' belongs to '%s', as the index has it" % (ONE, TWO), ONE)

    def test_a_tensor_in_two_files(self):
        self.sound()
        self.put(TWO, torch_file(state_dict(c=tensor(), a=tensor())))
        self.refused("'a' in '%s' belongs to '%s', as the index has it" % (TWO, ONE), TWO)
        os.remove(os.path.join(self.set, INDEX))
        self.refused("'a' in '%s' is in '%s' as well" % (TWO, ONE), TWO)

    def test_numbers_that_do_not_fit(self):
        three = "pytorch_model-00002-of-00003.bin"
        for name in (ONE, three):
            self.put(name, torch_file(state_dict(**{"x" + name[16]: tensor()})))
        self.index({"x1": ONE})
        self.refused("the file '%s' is one of 2, by its name, and the index has 1 of them" % ONE)
        self.index({"x1": ONE, "x2": three})
        self.refused("the file '%s' is one of 3, by its name, and others are of 2" % three)
        odd = "pytorch_model-00005-of-00002.bin"
        self.put(odd, torch_file(state_dict(x5=tensor())))
        self.index({"x1": ONE, "x5": odd})
        self.refused("the file '%s' has a number that is not 1 to 2" % odd)

    def test_paths_that_lead_out(self):
        for name in ("/etc/passwd", "../x.bin", "a/../../x.bin", "c:x.bin", "\\\\host\\x.bin"):
            self.index({"a": name})
            self.refused("'a' is in the file '%s', which lies outside of the directory; it is not read"
                         % name.replace("\\", "\\\\"), INDEX)

    def test_an_index_that_is_none(self):
        self.put(INDEX, "")
        self.refused("the index is not JSON: '[' or '{' expected near end of file", INDEX)
        self.put(INDEX, "{}")
        self.refused("'weight_map': wanted an object, found nothing", INDEX)
        self.put(INDEX, "[" * 100000)
        self.assertEqual(self.ckpt("ls", self.set)[0], 2)

    def test_what_a_set_cannot_hold(self):
        self.index({"a": "x.bin"})
        self.put("x.bin", torch_file(plain_dict(text("a") + tensor() + text("epoch") + number(3)), data=files.FOUR_FLOATS))
        self.refused("'epoch' in 'x.bin' is no tensor", "x.bin")
        self.put("x.bin", torch_file(plain_dict(number(1) + tensor())))
        self.refused("holds a key that is a int, wanted names of tensors", "x.bin")
        self.put("x.bin", torch_file(pickled(b"]"), data=None))
        self.refused("holds no dict of tensors", "x.bin")
        self.put("x.bin", torch_file(state_dict(a=tensor()), extra=[("byteorder", b"big")]))
        self.refused("is big-endian; 'ckpt convert' of this file turns it around", "x.bin")
        self.put("x.bin", torch_file()[:-30])
        code, _, err = self.ckpt("ls", self.set)
        self.assertEqual(code, 2)
        self.assertIn("x.bin: ", err)
        nested = glob("collections", "OrderedDict") + b")R(" + text("inner") + tensor() + b"u"
        self.put("x.bin", torch_file(plain_dict(text("a") + nested)))
        self.refused("'a' in 'x.bin' is no tensor", "x.bin")

    # ---- what is odd ----

    def test_what_the_index_does_not_say_is_noted(self):
        self.sound()
        self.index({"a": ONE, "c": TWO}, total_size=1000)
        self.assertEqual(self.names(), ["a", "b", "c"])
        self.assertEqual(self.notes(), [
            "1 tensor is in the files, which the index does not name: 'b'",
            "the index has total_size 1000, and the files have 48 bytes of tensors"])
        self.index({"a": ONE, "b": ONE, "c": TWO}, total_size=48.0)
        self.assertEqual(self.notes(), [])

    def test_a_set_is_not_edited_in_place(self):
        self.sound()
        code, _, err = self.ckpt("add-module", "-i", self.set)
        self.assertEqual((code, err), (2, "ckpt: %s: is made of several files, none of which could take its place: "
                                          "name an output\n" % self.set))

    # ---- parts of tensors, as DCP's writer leaves them ----

    def parts(self, *shards):
        for number, data in enumerate(shards):
            self.put("shard-%05d-model-00001-of-00001.safetensors" % (number + 1), data)

    def test_parts_are_put_together(self):
        self.parts(safetensors({"w": [0, 0]}, w=bytes_of(2, 2), zero=("I32", [], b"\7\0\0\0")),
                   safetensors({"w": [0, 2], "b": [0]}, w=bytes_of(2, 1), b=("BOOL", [2], b"\1\0")),
                   safetensors({"b": [2]}, b=("BOOL", [1], b"\1")))
        self.assertEqual(self.names(), ["w", "zero", "b"])
        self.assertIn("[0 1 0]\n [2 3 1]", self.ckpt("cat", self.set, "w")[1])
        self.assertIn("[ True False  True]", self.ckpt("cat", self.set, "b")[1])
        self.assertIn("\n7\n", self.ckpt("cat", self.set, "zero")[1])
        self.assertIn("no file says how large a tensor is", self.notes()[0])

    def test_parts_that_do_not_fit(self):
        one, two = ("shard-%05d-model-00001-of-00001.safetensors" % n for n in (1, 2))
        first = safetensors({"w": [0]}, w=bytes_of(4))
        self.parts(first, safetensors({"w": [6]}, w=bytes_of(2)))
        self.refused("'w': its chunks hold 6 of 8 items; the one at [4:5] is in none of them")
        self.parts(first, safetensors({"w": [3]}, w=bytes_of(2)))
        self.refused("'w': chunks overlap: [0:4] in %s and [3:5] in %s" % (one, two))
        self.parts(first, safetensors({"w": [4]}, w=("I8", [2], b"\0\0")))
        self.refused("'w' in '%s' is of another dtype or has other dimensions than in the files before" % two, two)
        self.parts(first, safetensors({"w": [4, 0]}, w=bytes_of(2, 1)))
        self.refused("'w' in '%s' is of another dtype or has other dimensions than in the files before" % two, two)
        for wrong in ([], [1, 2], ["x"], [-1], [2**63 - 1], {}, None):
            self.parts(first, safetensors({"w": wrong}, w=bytes_of(2)))
            code, _, err = self.ckpt("ls", self.set)
            self.assertEqual(code, 2)
            self.assertIn("'w' in '%s' " % two, err)
        self.parts(first, safetensors("{", w=bytes_of(2)))
        self.refused("DCP_SHARDING_INFO is no JSON object: string or '}' expected near end of file", two)
        self.parts(first, safetensors("[]", w=bytes_of(2)))
        self.refused("DCP_SHARDING_INFO is no JSON object: it is something else", two)
        self.parts(first, torch_file())
        self.refused("is no safetensors file, as others of the set are", two)

    def test_a_part_twice_counts_once(self):
        self.parts(safetensors({"w": [0]}, w=bytes_of(4)), safetensors({"w": [0]}, w=bytes_of(4)))
        self.assertIn("[0 1 2 3]", self.ckpt("cat", self.set, "w")[1])

    def test_a_set_of_safetensors_with_other_names_for_what_is_shared(self):
        one, two = "model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"
        self.put(one, safetensors(None, a=bytes_of(4)))
        self.put(two, safetensors(None, b=bytes_of(2)))
        self.index({"a": one, "b": two}, "model.safetensors.index.json", total_size=6, tied="a", other="none")
        code, out, _ = self.ckpt("ls", self.set)
        self.assertEqual((code, [line.split()[0] for line in out.splitlines()]), (0, ["a", "tied", "b", "3"]))
        self.assertIn("shares storage with a", out)


if __name__ == "__main__":
    files.main()

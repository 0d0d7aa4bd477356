# SPDX-License-Identifier: Apache-2.0
"""Legacy streams made byte by byte: what is read, and what is wrong with broken ones."""

import os
import pickletools
import struct
import zipfile

import files
from files import glob, number, numbers, pickled, state_dict, text

MAGIC = b"\x80\x02\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19."
VERSION = b"\x80\x02M\xe9\x03."
FACTS = pickled(b"}(" + text("little_endian") + b"\x88" + text("protocol_version") + number(1001) + b"u")
FLOATS = struct.pack("<6f", *range(1, 7))


def storage(key, numel, kind="FloatStorage", location="cpu", view=b"N", module="torch"):
    return (b"(" + text("storage") + glob(module, kind) + text(key) + text(location) + number(numel) + view +
            b"tQ")


def tensor(saved, shape, stride, offset=0, func="_rebuild_tensor_v2"):
    return (glob("torch._utils", func) + b"(" + saved + number(offset) + numbers(shape) + numbers(stride) +
            (b"\x89" + glob("collections", "OrderedDict") + b")R" if func.endswith("v2") else b"") + b"tR")


def keys(*names):
    return pickled(b"](" + b"".join(text(name) for name in names) + b"e")


def stored(numel, data):
    return struct.pack("<q", numel) + data


A = state_dict(a=tensor(storage("94", 6), (2, 3), (3, 1)))
B = state_dict(a=tensor(storage("94", 6), (2, 3), (3, 1)), b=tensor(storage("7", 2, "LongStorage"), (2,), (1,)))
LONGS = struct.pack("<2q", -1, 1 << 40)


def legacy(body=A, names=("94",), data=stored(6, FLOATS), facts=FACTS, magic=MAGIC, version=VERSION):
    return magic + version + facts + body + keys(*names) + data


HEAD = len(MAGIC + VERSION + FACTS)
# (what, file, message)
TABLE = [
    ("version", legacy(version=pickled(number(1002))),
     "+0xf: the version of the stream is 1002, torch has only 1001"),
    ("no version", legacy(version=pickled(text("x"))), "+0xf: the version of the stream is a str, wanted 1001"),
    ("no object", MAGIC + VERSION + FACTS, "+0x%x: the pickle ends before STOP" % HEAD),
    ("unknown opcode", legacy(body=b"\x80\x02\xff."), "+0x%x: unknown opcode 0xff" % (HEAD + 2)),
    ("no list", MAGIC + VERSION + FACTS + A + pickled(b"}"), "the list of storages is a dict, wanted a list"),
    ("numbers as keys", MAGIC + VERSION + FACTS + A + pickled(b"]K\x01a"),
     "the list of storages has a int in it, wanted texts"),
    ("a key that is not mentioned", legacy(names=("94", "95")),
     "storage '95' is in the file, but no tensor mentions it: how long it is cannot be known"),
    ("a key twice", legacy(names=("94", "94"), data=2 * stored(6, FLOATS)), "storage '94' is in the file twice"),
    ("another count", legacy(data=stored(5, FLOATS)),
     "+0x%x: storage '94' has 5 elements, the pickle wants 6" % (len(legacy()) - 32)),
    ("a count in the other byte order", legacy(data=struct.pack(">q", 6) + FLOATS),
     "+0x%x: storage '94' has 432345564227567616 elements, the pickle wants 6: the count is big-endian, as some "
     "early torch on such machines wrote it" % (len(legacy()) - 32)),
    ("cut off in a storage", legacy()[:-1],
     "+0x%x: the file ends in storage '94', number 1 of 1: 1 bytes are missing of this one; it was cut off"
     % (len(legacy()) - 24)),
    ("a view outside", legacy(body=state_dict(a=tensor(storage(
        "94", 6, view=b"(" + text("5") + number(4) + number(3) + b"t"), (2,), (1,)))),
     " [the object's pickle]: storage id: a view of 3 elements at 4 of a storage with 6"),
    ("a view without size", legacy(body=state_dict(a=tensor(storage(
        "94", 6, view=b"(" + text("5") + number(4) + b"t"), (2,), (1,)))),
     " [the object's pickle]: storage id: wanted key, offset and size of a view, found tuple"),
    ("storages as text", legacy(body=b"(dVa\nP('storage', <class 'torch.FloatStorage'>, '94', 'cpu', 6, None)\ns."),
     "was saved with pickle protocol 0, which writes storages as text: torch cannot load it either"),
]


class Legacy(files.BadFileTest):
    def converted(self, data):
        """The records with bytes of tensors, in the file that 'ckpt convert' makes of DATA."""
        source, target = self.write(data), self.path("out.pt")
        code, _, err = self.ckpt("convert", "-q", "-f", source, target)
        self.assertEqual((code, err), (0, ""))
        with zipfile.ZipFile(target) as archive:
            return [archive.read(name) for name in sorted(archive.namelist()) if "/data/" in name]

    def test_every_fault_is_said(self):
        for what, data, message in TABLE:
            with self.subTest(what):
                path = self.write(data)
                code, out, err = self.ckpt("ls", path)
                self.assertEqual((code, out), (2, ""))
                if what == "cut off in a storage":
                    err = err.replace("hint: to save what is whole: ckpt repair %s OUT\n" % path, "")
                self.assertEqual(err.count("\n"), 1)
                self.assertTrue(err.endswith(message.lstrip("+").split("]: ")[-1] + "\n"), err)
                if message.startswith("+"):
                    self.assertIn(message.split(":")[0] + ":", err)

    def test_every_length_is_refused_but_the_whole(self):
        whole = legacy(B, ("7", "94"), stored(2, LONGS) + stored(6, FLOATS))
        self.assert_beginnings_refused(whole)
        self.assert_listed(whole, "a  float32", "b  int64")

    def test_the_bytes_are_those_of_their_storage(self):
        whole = legacy(B, ("7", "94"), stored(2, LONGS) + stored(6, FLOATS))
        self.assertEqual(self.converted(whole), [FLOATS, LONGS])

    def test_storages_of_a_gpu_by_their_old_name(self):
        body = state_dict(a=tensor(storage("94", 6, "FloatStorage", "cuda:1", module="torch.cuda"), (6,), (1,)))
        self.assert_listed(legacy(body), "a  float32  [6]  cuda:1")

    def test_a_tensor_of_the_first_kind(self):
        body = state_dict(a=tensor(storage("94", 6), (3, 2), (2, 1), func="_rebuild_tensor"))
        self.assert_listed(legacy(body), "a  float32  [3, 2]")
        self.assertEqual(self.converted(legacy(body)), [FLOATS])

    def test_views_of_other_storages(self):
        view = b"(" + text("5") + number(2) + number(3) + b"t"
        body = state_dict(whole=tensor(storage("94", 6), (6,), (1,)),
                          part=tensor(storage("94", 6, view=view), (3,), (1,)),
                          same=tensor(storage("94", 6, view=view), (2,), (1,), offset=1))
        self.assert_listed(legacy(body), "part   float32  [3]", "same   float32  [2]  cpu")
        self.assertEqual(self.converted(legacy(body)), [FLOATS, FLOATS[8:20]])

    def test_strings_of_python_2(self):
        body = A.replace(text("94"), b"U\x0294").replace(text("storage"), b"U\x07storage").replace(
            text("cpu"), b"U\x03cpu")
        whole = MAGIC + VERSION + FACTS + body + pickled(b"]U\x0294a") + stored(6, FLOATS)
        self.assert_listed(whole, "a  float32  [2, 3]  cpu")

    def test_storages_that_are_not_in_the_file(self):
        whole = legacy(B, ("94",))
        self.assert_listed(whole, "b  int64    [2]")
        _, out, _ = self.ckpt("info", self.write(whole))
        self.assertIn("1 storage is mentioned, but not in the file: torch leaves them uninitialised", out)
        code, _, err = self.ckpt("convert", self.write(whole), self.path("other.pt"))
        self.assertEqual(code, 2)
        self.assertTrue(err.endswith("storage '7' is not in the file, only mentioned\n"), err)

    def test_what_follows_is_said_and_left_alone(self):
        whole = legacy() + legacy()
        self.assert_listed(whole, "a  float32")
        _, out, _ = self.ckpt("info", self.write(whole))
        self.assertIn("%d bytes follow the last storage" % len(legacy()), out)

    def test_a_big_endian_writer_is_said(self):
        facts = pickled(b"}(" + text("little_endian") + b"\x89u")
        _, out, _ = self.ckpt("info", self.write(legacy(facts=facts)))
        self.assertIn("was written on a big-endian machine", out)
        self.assertEqual(self.converted(legacy(facts=facts)), [FLOATS])

    def test_classes_with_their_source(self):
        cls = b"(" + text("module") + glob("my.nets", "Net") + text("net.py") + text("class Net: pass") + b"tQ"
        body = pickled(cls + b")\x81}(" + text("_parameters") + b"}" + text("a") +
                       tensor(storage("94", 6), (6,), (1,)) + b"sub")
        self.assert_listed(legacy(body), "_parameters.a  float32  [6]")
        _, out, _ = self.ckpt("info", self.write(legacy(body)))
        self.assertIn("root        Net of 1", out)

    def test_a_class_inside_of_another_one_with_its_source(self):
        """Protocol 2 names it by a call; fuzz_legacy found that it stayed a persistent id, which no zip can have."""
        cls = (b"(" + text("module") + glob("__builtin__", "getattr") + glob("my.nets", "Outer") + text("Net") +
               b"\x86R" + text("net.py") + text("class Net: pass") + b"tQ")
        source, target = self.write(legacy(pickled(cls + b")\x81" + A[2:-1] + b"b"))), self.path("nested.pt")
        self.assertEqual(self.ckpt("convert", "-q", source, target), (0, "", ""))
        with zipfile.ZipFile(target) as file:
            calls = [op.name for op, _, _ in pickletools.genops(file.read("nested/data.pkl"))]
        self.assertEqual(calls.count("BINPERSID"), 1)  # the storage

    def test_pickles_are_shown_by_number(self):
        path = self.write(legacy())
        self.assertIn("LONG1 0x1950a86a20f9469cfc6c", self.ckpt("dis", path, "1")[1])
        self.assertIn("BINUNICODE '94'", self.ckpt("dis", path, "5")[1])
        self.assertEqual(self.ckpt("dis", path)[1], self.ckpt("dis", path, "4")[1])
        for wrong in ("0", "6", "data.pkl"):
            self.assertEqual(self.ckpt("dis", path, wrong)[0], 2)
        code, out, _ = self.ckpt("dis", self.write(legacy()[:HEAD + 20]))
        self.assertEqual(code, 2)
        self.assertIn("GLOBAL 'collections", self.ckpt("dis", self.write(legacy()[:HEAD + 40]))[1])
        self.assertNotEqual(out, "")

    def test_edits_keep_the_form(self):
        body = state_dict(**{"module.a": tensor(storage("94", 6), (2, 3), (3, 1))})
        path, out = self.write(legacy(body)), self.path("edited.pt")
        for arguments, line in ((["strip-module"], "a  float32  [2, 3]  cpu"),
                                (["remap", "cpu=cuda:3"], "module.a  float32  [2, 3]  cuda:3")):
            code, _, err = self.ckpt(*arguments, "-q", "-f", path, out)
            self.assertEqual((code, err), (0, ""))
            with open(out, "rb") as stream:
                data = stream.read()
            self.assertTrue(data.startswith(MAGIC + VERSION), data[:40])
            self.assertTrue(data.endswith(stored(6, FLOATS)))
            self.assertIn(text("94"), data)
            self.assertIn(line, self.ckpt("ls", out)[1])
        with open(path, "rb") as stream:
            self.assertEqual(stream.read(), legacy(body))

    def test_edits_in_place_write_it_anew(self):
        path = self.write(legacy())
        code, _, err = self.ckpt("remap", "-q", "-i", "cpu=cuda:0", path)
        self.assertEqual((code, err), (0, ""))
        self.assertIn("a  float32  [2, 3]  cuda:0", self.ckpt("ls", path)[1])
        with open(path, "rb") as stream:
            self.assertTrue(stream.read().endswith(stored(6, FLOATS)))
        self.assertEqual([name for name in os.listdir(self.folder) if "ckpt-tmp" in name], [])

    def test_a_zip_becomes_a_stream_and_a_zip_again(self):
        source, stream, back = self.write(files.torch_file()), self.path("stream.pt"), self.path("back.pt")
        self.assertEqual(self.ckpt("convert", "-q", "-f", "--to", "torch-legacy", source, stream)[0], 0)
        with open(stream, "rb") as file:
            data = file.read()
        self.assertTrue(data.startswith(MAGIC + VERSION))
        self.assertTrue(data.endswith(stored(4, files.FOUR_FLOATS)))
        self.assertEqual(self.ckpt("convert", "-q", "-f", stream, back)[0], 0)
        with zipfile.ZipFile(back) as archive:
            self.assertEqual(archive.read("back/data/0"), files.FOUR_FLOATS)

    def test_what_a_stream_does_not_have_is_no_option(self):
        source = self.write(files.torch_file())
        for option in (["--crc", "on"], ["--alignment", "64"]):
            code, _, err = self.ckpt("convert", "--to", "torch-legacy", *option, source, self.path("never.pt"))
            self.assertEqual(code, 64)
            self.assertIn("a legacy stream has no alignment and no checksums", err)


files.main()

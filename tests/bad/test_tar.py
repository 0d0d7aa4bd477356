# SPDX-License-Identifier: Apache-2.0
"""Tar archives of torch 0.1 made byte by byte: what is read, and what is wrong with broken ones."""

import os
import struct
import sys
import tarfile
import zipfile

import files

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "interop"))

import tar_build  # noqa: E402
import tar_cases  # noqa: E402
from tar_build import Global, Ref, Storage, Tensor, archive, dumps, members  # noqa: E402

BLOCK = 512
W = Storage(7, "FloatStorage", [1, 2, 3, 4, 5, 6])


def made(tensors=(Tensor(1, 7, (2, 3)),), obj=None, storages=(W,), views=(), **options):
    return members({"w": Ref(1)} if obj is None else obj, storages, tensors, views, **options)


def tar(*arguments, **options):
    return archive(made(*arguments, **options), mtime=0)


def replaced(name, data, parts=None):
    return archive([(n, data if n == name else d) for n, d in (parts or made())], mtime=0)


def table(*pieces):
    return b"".join(piece if isinstance(piece, bytes) else dumps(piece, 2) for piece in pieces)


def header(data, number, **fields):
    """DATA with the fields of header NUMBER changed, and its checksum made right."""
    at = 0
    for _ in range(number):
        size = int(data[at + 124:at + 135], 8)
        at += BLOCK + -(-size // BLOCK) * BLOCK
    changed = bytearray(data[at:at + BLOCK])
    for field, value in fields.items():
        start = {"name": 0, "size": 124, "type": 156, "magic": 257}[field]
        changed[start:start + len(value)] = value
    changed[148:156] = b" " * 8
    changed[148:156] = b"%06o\0 " % sum(changed)
    return data[:at] + bytes(changed) + data[at + BLOCK:]


SOUND = tar()
LINE = "w  float32  [2, 3]  cpu      24\n"
FLOAT = Global("torch", "FloatStorage")
SIX = struct.pack("<q6f", 6, *range(1, 7))
KEY = Global("torch", "FloatTensor")


def storages(*pieces):
    return replaced("storages", table(*pieces))


def tensors(*pieces):
    return replaced("tensors", table(*pieces))


def shape(*numbers):
    return struct.pack("<%dq" % len(numbers), *numbers)


# (what, file, end of the message)
TABLE = [
    ("no storages", archive(made()[:3]),
     "a tar archive of torch 0.1 without the member 'storages': it was cut off, or repacked without it"),
    ("no pickle", archive(made()[2:]),
     "a tar archive of torch 0.1 without the member 'pickle': it was cut off, or repacked without it"),
    ("a member twice", archive(made() + made()[3:]), "the member 'storages' is there twice"),
    ("a link", header(SOUND, 3, type=b"2"), "the member 'storages' is no plain file"),
    ("a wrong checksum", SOUND[:4 * BLOCK + 8] + b"\1" + SOUND[4 * BLOCK + 9:],
     "the checksum of a header of the tar archive is wrong"),
    ("a size that is no number", header(SOUND, 3, size=b"8"), "the size in a header of the tar archive is not a number"),
    ("a size of 2^63", header(SOUND, 3, size=b"\x80\0\0\0\x80" + bytes(7)),
     "the size in a header of the tar archive is not a number"),
    ("a size of 2^62", header(SOUND, 3, size=b"\x80\0\0\0\x40" + bytes(7)),
     "the tar archive is cut off: member 'storages' has 4611686018427387904 bytes, 6656 are there"),
    ("a size of 2^80", header(SOUND, 3, size=b"\x80\0\1" + bytes(9)),
     "the size in a header of the tar archive is not a number"),
    ("a negative size", header(SOUND, 3, size=b"\xff" * 12), "the size in a header of the tar archive is not a number"),
    ("more members than torch wrote", archive(made() + [("x%d" % i, b"") for i in range(70)]),
     "is a tar archive of more than 64 members, torch wrote 4"),
    ("a count that is a text", storages("x"), "wanted the number of storages, found str"),
    ("a negative count", storages(-1), "wanted the number of storages, found int"),
    ("a count that is too large", storages(2, (7, "cpu", FLOAT), SIX, []),
     "wanted the key, the location and the class of a storage, found list"),
    ("no storage class", storages(1, (7, "cpu", Global("os", "system")), SIX, []),
     "'os.system' is not a storage class of torch"),
    ("a location that is a number", storages(1, (7, 0, FLOAT), SIX, []), "wanted the text of a device, found int"),
    ("a key that is a text", storages(1, ("7", "cpu", FLOAT), SIX, []), "wanted a number as key, found str"),
    ("a storage twice", storages(2, (7, "cpu", FLOAT), SIX, (7, "cpu", FLOAT), SIX, []),
     "there are two things with the key 7"),
    ("a storage beyond its member", storages(1, (7, "cpu", FLOAT), struct.pack("<q", 1 << 40), bytes(24), []),
     "storage 7 has 1099511627776 elements of 4 bytes, 30 bytes are left"),
    ("a storage of 2^63 elements", storages(1, (7, "cpu", FLOAT), struct.pack("<q", -1), bytes(24), []),
     "storage 7 has 18446744073709551615 elements of 4 bytes, 30 bytes are left"),
    ("views that are a dict", storages(1, (7, "cpu", FLOAT), SIX, {}), "wanted the list of views, found dict"),
    ("a view of nothing", tar(views=[(9, 8, 0, 1)]), "a view of a storage that is not there"),
    ("a view beyond its root", tar(views=[(9, 7, 4, 3)]),
     "a view of 3 elements at 4 of storage 7 with 6"),
    ("a view far beyond", tar(views=[(9, 7, 1 << 62, 1 << 62)]),
     "a view of 4611686018427387904 elements at 4611686018427387904 of storage 7 with 6"),
    ("a view with a negative offset", tar(views=[(9, 7, -1, 1)]),
     "wanted two keys, the offset and the size of a view, found tuple"),
    ("a view under a taken key", tar(views=[(7, 7, 0, 1)]), "there are two things with the key 7"),
    ("a tensor of an unknown storage", tar([Tensor(1, 8, (2,))]), "tensor 1 is one of a storage that is not there"),
    ("a tensor of a tensor", tar([Tensor(2, 7, (2,)), Tensor(1, 2, (2,))]),
     "tensor 1 is one of a storage that is not there"),
    ("a tensor with the key of a storage", tar([Tensor(7, 7, (2,))]), "there are two things with the key 7"),
    ("a negative stride", tar([Tensor(1, 7, (2,), (-1,), 1)]), "a tensor with a negative stride"),
    ("a negative size of a tensor", tar([Tensor(1, 7, (-2,), (1,))]), "a tensor with a negative size"),
    ("a negative offset", tar([Tensor(1, 7, (2,), offset=-1)]), "a tensor with a negative offset"),
    ("too many dimensions", tensors(1, (1, 7, KEY), shape(65, *[1] * 131)),
     "a tensor with 65 dimensions, torch has at most 64"),
    ("a tensor that is cut off", tensors(1, (1, 7, KEY), shape(2, 2, 3, 3)),
     "the member ends in the middle of an entry"),
    ("a tensor beyond its storage", tar([Tensor(1, 7, (2, 4))]),
     "tensor 'w': reaches 32 bytes into its storage '7' of 24 bytes"),
    ("a tensor far beyond", tar([Tensor(1, 7, (2, 1 << 62), (1 << 62, 1 << 61))]), None),
    ("an unknown id", tar(obj={"w": Ref(3)}), "persistent id 3: there is no such tensor or storage"),
    ("an id that is no number", tar(obj={"w": Ref("w")}), "persistent id: wanted the number of a tensor, found str"),
    ("an id that is a list", replaced("pickle", b"\x80\x02]Q."),
     "persistent id: wanted the number of a tensor, found list"),
    ("no pickle at all", replaced("pickle", b"\x80\x02}"), None),
    ("an extended header that is damaged", archive([("sys_info", b"")] + made()[1:], mtime=.5)
     .replace(b" mtime=0.5", b" mtime+0.5"), None),
]


class Tar(files.BadFileTest):
    def test_every_fault_is_said(self):
        for what, data, message in TABLE:
            with self.subTest(what):
                path = self.write(data)
                code, out, err = self.ckpt("ls", path)
                self.assertEqual((code, out, err.count("\n")), (2, "", 1), err)
                self.assertTrue(err.endswith((message or "") + "\n"), err)
                self.assertTrue(message or "tar archive" in err or "pickle" in err or "extended" in err, err)

    def test_every_length_is_refused_but_those_that_have_all(self):
        """What follows the last member is zeros only."""
        last = len(SOUND.rstrip(b"\0"))
        self.assert_beginnings_refused(SOUND, range(last))
        for length in range(last, len(SOUND), 100):
            self.assert_listed(SOUND[:length], LINE)

    def test_every_case_has_its_bytes_in_the_file_that_is_made(self):
        for name, arguments, options in tar_cases.each():
            with self.subTest(name):
                source, target = self.write(archive(members(*arguments, **options)), name + ".pt"), self.path("out.pt")
                code, _, err = self.ckpt("convert", "-q", "-f", source, target)
                self.assertEqual((code, err), (0, ""))
                with zipfile.ZipFile(target) as zipped:
                    found = {zipped.read(n) for n in zipped.namelist() if "/data/" in n}
                self.assertLessEqual({storage.data for storage in arguments[1]}, found)

    def test_other_writers(self):
        """Names and sizes in the forms that other tar programs write; members in any order, and more of them."""
        parts = made()
        for form in (tarfile.USTAR_FORMAT, tarfile.GNU_FORMAT, tarfile.PAX_FORMAT):
            for order in (parts, parts[::-1], [("d" * 60 + "/" + "n" * 90, b"x")] + parts + [("d/" + "m" * 99, b"y" * 600)]):
                with self.subTest(form=form):
                    self.assert_listed(archive(order, form), LINE)
        base256 = header(SOUND, 3, size=b"\x80" + (len(parts[3][1])).to_bytes(11, "big"))
        self.assert_listed(base256, LINE)

    def test_an_empty_tensor_may_have_no_storage(self):
        self.assert_listed(tar([Tensor(1, None, (), kind="DoubleTensor")], storages=()), "w  float64  [0]  cpu       0\n")
        self.assert_refused(tar([Tensor(1, None, (), kind="Variable")], storages=()),
                            "tensors+0xa05: wanted the class of a tensor, found global")

    def test_a_tar_of_something_else_is_named(self):
        for names in (["pickle"], ["sys_info", "x"], ["a%d" % i for i in range(70)] + ["storages"]):
            self.assert_refused(archive([(name, b"x") for name in names]),
                                "is a tar archive; unpack it first (many .pth.tar files are not tar archives, this is one)")

    def test_it_is_not_written(self):
        path, target = self.write(SOUND, "old.pt"), self.path("new.pt")
        text = ("ckpt: %s: the tar form of torch 0.1 cannot be written; 'ckpt convert' makes a file of today, which can be "
                "edited\n" % path)
        self.assertEqual(self.ckpt("add-prefix", "x.", path, target), (2, "", text))
        self.assertEqual(self.ckpt("add-prefix", "--in-place", "x.", path), (2, "", text))
        self.assertFalse(os.path.exists(target))
        self.assertEqual(self.ckpt("convert", "-q", path, target)[0], 0)
        self.assertEqual(self.ckpt("add-prefix", "-q", "x.", target, self.path("edited.pt"))[0], 0)
        self.assertIn("x.w  float32  [2, 3]", self.ckpt("ls", self.path("edited.pt"))[1])

    def test_members_are_disassembled(self):
        path = self.write(SOUND)
        self.assertIn("BINPERSID", self.ckpt("dis", path)[1])
        for member, count in (("pickle", 1), ("sys_info", 1), ("tensors", 2), ("storages", 3)):
            code, out, err = self.ckpt("dis", path, member)
            self.assertEqual((code, err, out.count("STOP")), (0, "", count))
        self.assertEqual(self.ckpt("dis", path, "nothing")[0], 2)

    def test_damage_elsewhere_keeps_no_member_from_being_shown(self):
        path = self.write(SOUND[:4 * BLOCK])  # it ends before the tables
        code, out, err = self.ckpt("dis", path, "pickle")
        self.assertEqual((code, err, out.count("STOP")), (0, "", 1))
        self.assertEqual(self.ckpt("dis", path, "tensors")[0], 2)

    def test_a_big_endian_machine_is_told(self):
        path = self.write(tar(little=False))
        self.assertIn("big-endian", self.ckpt("info", path)[1])
        self.assertNotIn("big-endian", self.ckpt("info", self.write(SOUND))[1])


if __name__ == "__main__":
    files.main()

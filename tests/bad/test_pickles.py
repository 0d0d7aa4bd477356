# SPDX-License-Identifier: Apache-2.0
"""Hostile and broken pickles inside of sound archives."""

import pickletools
import struct
import zipfile

import files
from files import glob, number, numbers, pickled, state_dict, storage, tensor, text, torch_file

HERE = "archive/data.pkl"


def rebuild(*arguments, func="_rebuild_tensor_v2"):
    return glob("torch._utils", func) + b"(" + b"".join(arguments) + b"tR"


def one(value):
    return state_dict(w=value)


FLOAT32 = glob("torch", "float32")
ORDERED = glob("collections", "OrderedDict") + b")R"

# (what, pickle, message behind 'archive/data.pkl')
TABLE = [
    ("empty", b"", "+0x0: the pickle ends before STOP"),
    ("no STOP", b"\x80\x02}", "+0x3: the pickle ends before STOP"),
    ("unknown opcode", b"\x80\x02\xff.", "+0x2: unknown opcode 0xff"),
    ("protocol", b"\x80\x09N.", "+0x0: pickle protocol 9, wanted 0 to 5"),
    ("underflow", b"\x80\x02R.", "+0x2: REDUCE needs 2 values, the stack has 0"),
    ("no mark", b"\x80\x02}u.", "+0x3: SETITEMS needs a MARK, there is none"),
    ("memo", b"\x80\x02h\x07.", "+0x2: BINGET of memo entry 7, which is not set"),
    ("huge string", b"\x80\x04\x8d" + b"\xff" * 7 + b"\x7fabc.",
     "+0x2: the operand of BINUNICODE8 reaches past the end of the pickle"),
    ("huge bytes", b"\x80\x04\x8e" + struct.pack("<Q", 1 << 40) + b"abc.",
     "+0x2: the operand of BINBYTES8 reaches past the end of the pickle"),
    ("huge bytearray", b"\x80\x05\x96" + struct.pack("<Q", 1 << 62) + b"abc.",
     "+0x2: the operand of BYTEARRAY8 reaches past the end of the pickle"),
    ("frame longer than the file", b"\x80\x04\x95" + b"\xff" * 8 + b"}.",
     "+0x2: a frame of 18446744073709551615 bytes reaches past the end of the pickle"),
    ("negative length", b"\x80\x02T\xff\xff\xff\xffabc.",
     "+0x2: the operand of BINSTRING reaches past the end of the pickle"),
    ("negative long", b"\x80\x02\x8b\xff\xff\xff\xffabc.",
     "+0x2: the operand of LONG4 reaches past the end of the pickle"),
    ("a dict as a class", b"\x80\x02})\x81.", "+0x4: NEWOBJ needs a class or a function, found dict"),
    ("a number as a function", b"\x80\x02K\x01)R.", "+0x5: REDUCE needs a class or a function, found int"),
    ("another state", b"\x80\x02ca\nb\n)\x81q\0}X\x01\0\0\0xK\x01sbh\0}X\x01\0\0\0yK\x02sb\x86.",
     "+0x22: BUILD of an object that has its state already"),
    ("buffer", b"\x80\x05\x97.", "+0x2: NEXT_BUFFER wants a buffer from outside of the pickle"),
    ("nul in a global", b"\x80\x02cos\nsys\0tem\n.", "+0x2: GLOBAL has a name that no class can have"),
]

# what the pickle may hold and still be listed
SOUND = [
    ("frame of nothing", b"\x80\x04\x95" + bytes(8) + b"}."),
    ("huge memo index", b"\x80\x02}r\xff\xff\xff\xff."),
    ("list in itself", b"\x80\x02]q\0h\0a."),
    ("dict in itself", b"\x80\x02}q\0K\x01h\0s."),
    ("tuple in its list", b"\x80\x02]q\0h\0\x85a."),
    ("object in its own state", b"\x80\x02ca\nb\n)Rq\0}X\x01\0\0\0xh\0sb."),
    ("the same attributes twice",
     b"\x80\x02ca\nb\n)\x81q\0}X\x01\0\0\0xK\x01sbh\0}X\x01\0\0\0xK\x02sb\x86."),
    ("os.system", b"\x80\x02cposix\nsystem\nX\x02\0\0\0id\x85R."),
    ("bytes behind STOP", b"\x80\x02}.garbage"),
    ("None", b"\x80\x02N."),
    ("protocol 0", b"(dp0\nVa\np1\nI1\ns."),
]


class Pickles(files.BadFileTest):
    def test_every_error_has_its_place(self):
        for what, data, message in TABLE:
            with self.subTest(what):
                self.assert_refused(torch_file(data), HERE + message)

    def test_what_is_sound_is_listed(self):
        for what, data in SOUND:
            with self.subTest(what):
                self.assert_listed(torch_file(data), "0 tensors")
                code, _, err = self.ckpt("info", self.path("bad.pt"))
                self.assertEqual((code, err), (0, ""))

    def test_keys_with_zero_bytes_are_told_apart(self):
        data = state_dict(**{"a": tensor(), "a\0b": tensor(), "\0": tensor()})
        _, out, _ = self.ckpt("ls", "-q", self.write(torch_file(data)))
        self.assertEqual([line.split()[0] for line in out.splitlines()], ["a", "a\u2400b", "\u2400"])
        target = self.path("renamed.pt")
        code, _, err = self.ckpt("rename", "-f", "-e", "s/b$/c/", self.path("bad.pt"), target)
        self.assertEqual((code, err), (0, ""))
        with open(target, "rb") as stream:
            self.assertIn(text("a\0c"), stream.read())

    def test_prefixes_of_python_2_strings_are_counted(self):
        key = b"U\x08module.w"
        data = torch_file(pickled(glob("collections", "OrderedDict") + b")R(" + key + tensor() + b"u"))
        _, out, _ = self.ckpt("info", self.write(data))
        self.assertIn("module.", out)

    def test_it_can_be_disassembled_up_to_the_damage(self):
        for what, data, message in TABLE:
            with self.subTest(what):
                code, out, _ = self.ckpt("dis", self.write(torch_file(data)))
                self.assertIn(code, (0, 2))
        for what, data in SOUND:
            code, out, err = self.ckpt("dis", self.write(torch_file(data)))
            self.assertEqual((code, err, out.rstrip().endswith("STOP")), (0, "", True), what)


class Tensors(files.BadFileTest):
    """Tensors that cannot be: an error that says why, no crash, no overflow."""

    def refuse(self, value, pattern):
        code, out, err = self.ckpt("ls", self.write(torch_file(one(value))))
        self.assertEqual((code, out), (2, ""))
        self.assertRegex(err, pattern)
        self.assertRegex(err, r"^ckpt: .*bad.pt: .*data.pkl")

    def test_tensors_reach_no_further_than_their_storage(self):
        self.refuse(tensor(shape=(5,)), r"20 bytes into its storage '0' of 16 bytes")
        self.refuse(tensor(shape=(4,), offset=1), r"20 bytes into its storage '0' of 16 bytes")
        self.refuse(tensor(shape=(2,), stride=(4,)), r"20 bytes into its storage '0' of 16 bytes")

    def test_products_that_overflow(self):
        big = 2**62
        for shape, stride in [((big, 4), (4, 1)), ((big, big), (1, 1)), ((2, 2), (big, big)),
                              ((2**63 - 1,), (2**63 - 1,)), ((4,), (2**63 - 1,))]:
            with self.subTest(shape):
                self.refuse(tensor(shape=shape, stride=stride), r"reaches more than|bytes into its storage")

    def test_numbers_out_of_range(self):
        for value in (tensor(shape=(-1,)), tensor(offset=-1), tensor(shape=(2**70,)), tensor(numel=-1),
                      tensor(numel=2**62), tensor(numel=2**70)):
            code, _, err = self.ckpt("ls", self.write(torch_file(one(value))))
            self.assertEqual(code, 2, err)
            self.assertIn("data.pkl", err)

    def test_wrong_kinds(self):
        shape = numbers((4,))
        for what, value in [
            ("no storage", rebuild(b"N", number(0), shape, shape, b"\x89", ORDERED)),
            ("too few arguments", rebuild(storage(), number(0))),
            ("shape is no tuple", rebuild(storage(), number(0), b"N", shape, b"\x89", ORDERED)),
            ("stride is shorter", rebuild(storage(), number(0), numbers((2, 2)), numbers((1,)), b"\x89",
                                          ORDERED)),
            ("stride of a meta tensor is shorter",
             rebuild(FLOAT32, numbers((2, 2, 2)), numbers((7,)), b"\x89",
                     func="_rebuild_meta_tensor_no_storage")),
            ("stride of a wrapper is longer",
             rebuild(glob("a", "b"), FLOAT32, numbers((2,)), numbers((2, 1)), number(0), b"NN\x89",
                     func="_rebuild_wrapper_subclass")),
            ("shape of strings", rebuild(storage(), number(0), b"(" + text("4") + b"t", shape, b"\x89",
                                         ORDERED)),
            ("storage class", rebuild(storage(kind="FileStorage"), number(0), shape, numbers((1,)), b"\x89",
                                      ORDERED)),
            ("key is a number", rebuild(b"(" + text("storage") + glob("torch", "FloatStorage") + b"K\0" +
                                        text("cpu") + b"K\x04tQ", number(0), shape, numbers((1,)), b"\x89",
                                        ORDERED)),
            ("65 dimensions", tensor(shape=(1,) * 65, stride=(1,) * 65)),
        ]:
            with self.subTest(what):
                code, _, err = self.ckpt("ls", self.write(torch_file(one(value))))
                self.assertEqual(code, 2, err)
                self.assertIn("data.pkl", err)

    def test_keys_cannot_leave_the_archive(self):
        for key in ("../../etc/passwd", "/etc/passwd", "0\0", "a" * 300):
            with self.subTest(key):
                code, _, err = self.ckpt("ls", self.write(torch_file(one(tensor(key=key)))))
                self.assertEqual(code, 2, err)

    def test_a_state_dict_of_python_2(self):
        pair = b"](U\x08module.w" + tensor() + b"e"
        path = self.write(torch_file(b"\x80\x02" + glob("collections", "OrderedDict") + b"]" + pair +
                                     b"a\x85R."))
        code, out, err = self.ckpt("strip-module", "-f", path, self.path("out.pt"))
        self.assertEqual((code, err), (0, ""))
        for name, key in ((path, "module.w"), (self.path("out.pt"), "w")):
            code, out, err = self.ckpt("ls", name)
            self.assertEqual((code, err), (0, ""))
            self.assertRegex(out, r"(?m)^%s +float32" % key)


class Classes(files.BadFileTest):
    def test_of_two_classes_of_one_storage_the_first_counts(self):
        """As in torch.load, which makes the storage once; fuzz_script found that the other was written."""
        pair = state_dict(a=tensor(shape=(2,)), b=tensor(kind="LongStorage", numel=2, shape=(2,)))
        self.assert_listed(torch_file(pair), "a  float32  [2]", "b  float32  [2]")
        source, target = self.write(torch_file(pair)), self.path("out.pt")
        self.assertEqual(self.ckpt("convert", "-q", source, target), (0, "", ""))
        with zipfile.ZipFile(target) as archive:
            ops = pickletools.genops(archive.read("archive/data.pkl"))
            self.assertEqual([arg for op, arg, _ in ops if op.name == "GLOBAL" and "Storage" in arg],
                             ["torch FloatStorage"])


files.main()

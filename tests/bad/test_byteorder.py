# SPDX-License-Identifier: Apache-2.0
"""The byte order of files: what is turned around, what cannot be, and what is said of it."""

import struct
import zipfile

import files
from files import glob, number, numbers, state_dict, tensor, text, torch_file

SHORTS = struct.pack(">4H", 1, 2, 3, 0x1234)
FLOATS = struct.pack(">2f", 1.5, -2)


def untyped(key, dtype, shape, nbytes):
    """As torch 2 saves what has no class of storages."""
    storage = (b"(" + text("storage") + glob("torch.storage", "UntypedStorage") + text(key) + text("cpu") +
               number(nbytes) + b"tQ")
    return (glob("torch._utils", "_rebuild_tensor_v3") + b"(" + storage + number(0) + numbers(shape) + numbers((1,)) +
            b"\x89" + glob("collections", "OrderedDict") + b")R" + glob("torch", dtype) + b"tR")


def saved(data=SHORTS, order=b"big", **tensors):
    extra = [("byteorder", order)] if order else []
    return torch_file(state_dict(**tensors), data=data, extra=extra)


class Byteorder(files.BadFileTest):
    def converted(self, data, *options):
        """(the record, its byte order, what was said)"""
        source, target = self.write(data), self.path("out.pt")
        code, _, err = self.ckpt("convert", "-f", *options, source, target)
        self.assertEqual(code, 0, err)
        with zipfile.ZipFile(target) as archive:
            return archive.read("out/data/0"), archive.read("out/byteorder"), err

    def test_numbers_are_turned_by_the_dtype_of_their_tensor(self):
        data = saved(a=untyped("0", "uint16", (4,), 8))
        record, order, said = self.converted(data)
        self.assertEqual((record, order), (struct.pack("<4H", 1, 2, 3, 0x1234), b"little"))
        self.assertIn("1 storage was turned around that torch would have left alone", said)
        self.assertIn("1 big-endian tensor of dtypes that torch does not turn around", self.ckpt("info", self.write(data))[1])
        self.assertNotIn("note", self.ckpt("info", self.write(saved(a=untyped("0", "uint8", (8,), 8))))[1])
        self.assertEqual(self.ckpt("cat", self.write(data), "a")[1].splitlines()[1], "[   1    2    3 4660]")

    def test_a_class_of_storages_says_it_too(self):
        data = saved(FLOATS, a=tensor(numel=2, shape=(2,)))
        self.assertEqual(self.converted(data), (struct.pack("<2f", 1.5, -2), b"little", ""))
        self.assertEqual(self.converted(data, "--byteorder", "big"), (FLOATS, b"big", ""))
        self.assertEqual(self.converted(data, "--from-byteorder", "little", "--byteorder", "big"),
                         (struct.pack("<2f", 1.5, -2), b"big", ""))
        for order in (None, b"little"):
            data = saved(FLOATS, order, a=tensor(numel=2, shape=(2,)))
            self.assertEqual(self.converted(data, "--profile", "2.14")[0], FLOATS)
            self.assertEqual(self.converted(data, "--profile", "2.14", "--from-byteorder", "big")[0],
                             struct.pack("<2f", 1.5, -2))

    def test_one_storage_under_numbers_of_two_widths(self):
        data = saved(a=untyped("0", "uint16", (4,), 8), b=tensor(kind="ByteStorage", numel=8, shape=(8,)))
        path = self.write(data)
        code, _, err = self.ckpt("convert", path, self.path("none.pt"))
        self.assertEqual((code, err), (2, "ckpt: %s: tensors see numbers of several widths in storage '0': no order of its "
                                          "bytes is the other byte order for all of them\n" % path))
        self.assertEqual(self.converted(data, "--byteorder", "big")[0], SHORTS)

    def test_what_cannot_be(self):
        path, out = self.write(saved(FLOATS, a=tensor(numel=2, shape=(2,)))), self.path("none.pt")
        self.assertEqual(self.ckpt("convert", "--byteorder", "middle", path, out)[0], 64)
        self.assertEqual(self.ckpt("convert", "--from-byteorder", "", path, out)[0], 64)
        self.assertEqual(self.ckpt("convert", "--to", "torch-legacy", "--byteorder", "big", path, out)[0], 64)
        code, _, err = self.ckpt("convert", "--profile", "1.13", "--byteorder", "big", path, out)
        self.assertEqual((code, err), (2, "ckpt: %s: the file would be big-endian, and torch before 2.1 cannot be told so\n" % path))


if __name__ == "__main__":
    files.main()

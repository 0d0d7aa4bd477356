# SPDX-License-Identifier: Apache-2.0
"""Safetensors files that break each rule of the format once, and hostile ones."""

import json
import struct

import files


def entry(dtype="F32", shape=(1,), begin=0, end=4, **more):
    return dict({"dtype": dtype, "shape": list(shape), "data_offsets": [begin, end]}, **more)


def made(header, data=b"\0\0\0\0", length=None):
    """HEADER: a dict, or its text."""
    if isinstance(header, dict):
        header = json.dumps(header, separators=(",", ":"))
    if isinstance(header, str):
        header = header.encode()
    return struct.pack("<Q", len(header) if length is None else length) + header + data


A = '"dtype":"F32","shape":[1],"data_offsets":[0,4]'

REFUSED = [
    # the length
    ("too large a header", made({"a": entry()}, length=100000001).ljust(1000),
     "is not a torch checkpoint: it begins with '\\x01\\xe1\\xf5\\x05\\x00\\x00\\x00\\x00{\"a\":{\"d'"),
    ("a header longer than the file", made({"a": entry()}, length=62),
     "+0x0: the header is said to have 62 bytes, the file has 58 after their number: it is cut short"),
    ("a header that ends too early", made({"a": entry()}, length=53), "+0x3d: wanted ',' or '}' after a value, the JSON ends"),
    # the JSON
    ("no UTF-8", made(b'{"a\xff":{' + A.encode() + b"}}"), "+0xb: the header is not UTF-8"),
    ("a surrogate", made('{"a\\ud800":{%s}}' % A), "+0x12: is not JSON: invalid Unicode '\\uD800' near '\"a\\ud800\"'"),
    ("a control character", made('{"a\x01":{%s}}' % A), "+0xb: is not JSON: control character 0x1 near '\"a'"),
    ("a comma at the end", made('{"a":{%s},}' % A), "+0x3e: wanted a name in quotes, found '}'"),
    ("text behind the object", made('{"a":{%s}} x' % A), "+0x3f: wanted nothing but blanks after the object, found 'x'"),
    ("a NUL behind the object", made('{"a":{%s}}\0' % A), "+0x3e: wanted nothing but blanks after the object, found '\\x00'"),
    ("values nested too deep", made('{"a":{%s,"x":%s}}' % (A, "[" * 126 + "]" * 126)),
     "+0xbe: values are nested deeper than 127 levels"),
    # entries
    ("no object", made('{"a":[1]}'), "+0xd: tensor 'a': its entry is not an object"),
    ("no dtype", made('{"a":{"shape":[1],"data_offsets":[0,4]}}'), "+0xd: tensor 'a': has no dtype"),
    ("no shape", made('{"a":{"dtype":"F32","data_offsets":[0,4]}}'), "+0xd: tensor 'a': has no shape"),
    ("no data_offsets", made('{"a":{"dtype":"F32","shape":[1]}}'), "+0xd: tensor 'a': has no data_offsets"),
    ("the same field twice", made('{"a":{%s,"dtype":"F32"}}' % A), "+0x45: tensor 'a': says the same twice"),
    ("an unknown dtype", made({"a": entry("C128", (), 0, 16)}, bytes(16)), "+0x16: tensor 'a': the format has no dtype 'C128'"),
    ("a size that is no integer", made('{"a":{"dtype":"F32","shape":[1.0],"data_offsets":[0,4]}}'),
     "+0x24: tensor 'a': its shape is not an array of sizes"),
    ("a negative size", made({"a": entry(shape=(-1,))}), "+0x24: tensor 'a': its shape is not an array of sizes"),
    ("three offsets", made('{"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4,4]}}'),
     "+0x37: tensor 'a': its data_offsets are not two integers"),
    ("two tensors of one name", made('{"a":{%s},"a":{%s}}' % (A, A)), "+0x42: tensor 'a': there are two entries of this name"),
    # places
    ("an end before the beginning", made({"a": entry(begin=4, end=0)}),
     "+0xd: tensor 'a': its data_offsets [4, 0] end before they begin"),
    ("a gap at the beginning", made({"a": entry(begin=4, end=8)}, bytes(8)),
     "+0xd: tensor 'a': its data begin at 4, and the 4 bytes before belong to no tensor"),
    ("a gap", made({"a": entry(), "b": entry(begin=8, end=12)}, bytes(12)),
     "+0x42: tensor 'b': its data begin at 8, and the 4 bytes before belong to no tensor"),
    ("an overlap", made({"a": entry(shape=(2,), end=8), "b": entry(begin=4, end=8)}, bytes(8)),
     "+0x42: tensor 'b': its data begin at 4, inside of those of 'a', which end at 8"),
    ("one tensor over another", made({"a": entry(), "b": entry()}),
     "+0x42: tensor 'b': its data begin at 0, inside of those of 'a', which end at 4"),
    ("fewer bytes than the shape", made({"a": entry(shape=(2,))}),
     "+0xd: tensor 'a': F32 [2] takes 8 bytes, its data_offsets [0, 4] hold 4"),
    ("bits that are no bytes", made({"a": entry("F4", (3,), 0, 2)}, b"\0\0"),
     "+0xd: tensor 'a': F4 [3] takes 12 bits, which are not whole bytes"),
    ("more items than can be counted", made({"a": entry(shape=(2**62, 4, 0), end=0)}, b""),
     "+0xd: tensor 'a': F32 [4611686018427387904, 4, 0] is more than can be counted"),
    ("a file that is cut", made({"a": entry()}, b"\0\0\0"),
     "+0x41: the tensors take 4 bytes, the file has 3 after its header: it is cut short"),
    ("bytes behind the last tensor", made({"a": entry()}, bytes(9)),
     "+0x42: 5 bytes at the end of the file belong to no tensor"),
    # metadata
    ("metadata that are no object", made({"__metadata__": "x", "a": entry()}),
     "+0x18: wanted an object of strings as __metadata__, found '\"'"),
    ("metadata that are no string", made({"__metadata__": {"n": 1}, "a": entry()}), "+0x1d: __metadata__: 'n' is not a string"),
    ("metadata twice", made('{"__metadata__":{},"__metadata__":{},"a":{%s}}' % A), "+0x2a: __metadata__ is there twice"),
]

SOUND = made({"__metadata__": {"format": "pt"}, "a": entry(), "b\u00e9": entry("BF16", (2, 1), 4, 8)}, bytes(8))


class Safetensors(files.BadFileTest):
    def test_every_rule(self):
        for what, data, message in REFUSED:
            with self.subTest(what):
                self.assert_refused(data, message)

    def test_beginnings(self):
        self.assert_beginnings_refused(SOUND)
        self.assertEqual(self.open_many([SOUND]), [None])

    def test_every_other_byte(self):
        """Whatever one byte of the header is: it opens or not, and no sanitizer says a word."""
        end = len(SOUND) - 8
        messages = self.open_many(SOUND[:at] + bytes([byte]) + SOUND[at + 1:] for at in range(end) for byte in range(0, 256, 3))
        self.assertIn(None, messages)
        self.assertGreater(sum(message is not None for message in messages), len(messages) // 2)

    def test_what_torch_lacks_is_shown_and_not_written(self):
        data = made({"a": entry("F6_E2M3", (4,), 0, 3), "b": entry("F4", (2, 3), 3, 6), "c": entry("U8", [1] * 65, 6, 7),
                     "d": entry("F32", (0, 2**61, 8), 7, 7), "e": entry("U8", (1,), 7, 8)}, bytes(8))
        path = self.write(data, "odd.safetensors")
        code, out, err = self.ckpt("ls", path)
        self.assertEqual((code, err), (0, ""))
        self.assertEqual(out.splitlines()[0].split()[0], "e")
        code, out, err = self.ckpt("info", path)
        self.assertIn("note        1 tensor of dtypes that torch does not have, shown as missing", out)
        self.assertIn("  a                      <missing>", out)
        code, out, err = self.ckpt("convert", path, self.path("odd.pt"))
        self.assertEqual((code, err), (2, "ckpt: %s: 'a' is a tensor (F6_E2M3) of a dtype that torch does not have\n" % path))
        code, out, err = self.ckpt("convert", path, self.path("two.safetensors"))
        self.assertIn(": 4 entries cannot be written as safetensors:\n", err)
        code, out, err = self.ckpt("convert", "--drop-others", path, self.path("one.safetensors"))
        self.assertEqual((code, err), (0, ""))
        self.assertIn("4 other entries left out, ", out)

    def test_data_may_begin_anywhere(self):
        """As torch's own consolidation writes it: no padding, blanks behind colons and commas."""
        header = json.dumps({"a": entry("F64", (2,), 1, 17), "b": entry("BOOL", (), 0, 1), "c": entry("C64", (1,), 17, 25)})
        data = b"\1" + struct.pack("<2d", 1.5, -2) + struct.pack("<2f", 3, 4)
        for pad in range(8):
            path = self.write(made(header + " " * pad, data), "anywhere.safetensors")
            self.assertEqual(self.ckpt("cat", path, "a")[1].splitlines()[1], "[ 1.5 -2. ]")
            self.assertEqual(self.ckpt("stat", path)[0], 0)
            self.assertEqual(self.ckpt("convert", "-f", path, self.path("anywhere.pt"))[0], 0)
            self.assertEqual(self.ckpt("diff", path, self.path("anywhere.pt"))[0], 0)

    def test_many_tensors_in_little_memory(self):
        count = 3000 if files.SANITIZED else 100000
        header = {"t%d" % i: entry("U8", (1,), i, i + 1) for i in range(count)}
        path = self.write(made(header, bytes(count)), "many.safetensors")
        code, out, err = self.ckpt("ls", path)
        self.assertEqual((code, err), (0, ""))
        self.assertEqual(len(out.splitlines()), count + 1)
        code, out, err = self.ckpt("convert", path, self.path("many.pt"))
        self.assertEqual((code, err), (0, ""))

    def test_names_for_one_tensor_by_the_thousand(self):
        """Aliases cost no more than they say."""
        metadata = {"alias%d" % i: "a" for i in range(20000)}
        path = self.write(made({"__metadata__": metadata, "a": entry()}), "aliases.safetensors")
        code, out, err = self.ckpt("convert", path, self.path("again.safetensors"))
        self.assertEqual((code, err), (0, ""))
        self.assertIn("20,000 tensors are aliases of others", out)


files.main()

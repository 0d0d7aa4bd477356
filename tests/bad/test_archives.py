# SPDX-License-Identifier: Apache-2.0
"""Archives that are cut, repacked, lied about or damaged."""

import io
import os
import re
import struct
import zipfile

import files
from files import (FOUR_FLOATS, SOUND, archive, pickled, state_dict, tensor, text,
                   torch_file, torch_records)

SOUND_LINE = "weight  float32  [4]  cpu      16"
OUTSIDE = ("is outside of the folder 'archive/': the archive was repacked by another tool, and torch "
           "will not load it")


def repacked(method=zipfile.ZIP_STORED, names=None, before=(), behind=(), comment=b""):
    """The sound file as a general zip tool makes it anew."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", method) as made:
        for name, data in list(before):
            made.writestr(name, data)
        for record, data in torch_records():
            made.writestr((names or {}).get(record, "archive/" + record), data)
        for name, data in list(behind):
            made.writestr(name, data)
        made.comment = comment
    return out.getvalue()


def patched(data, marker, which, offset, value):
    """DATA with bytes changed, OFFSET behind the WHICHth MARKER."""
    at = -1
    for _ in range(which + 1):
        at = data.index(marker, at + 1)
    return data[:at + offset] + value + data[at + offset + len(value):]


LOCAL, ENTRY = b"PK\x03\x04", b"PK\x01\x02"


class Tolerance(files.BadFileTest):
    """What torch loads is listed."""

    def test_repacked_archives_are_read(self):
        for what, data in [
            ("stored", repacked()),
            ("deflated", repacked(zipfile.ZIP_DEFLATED)),
            ("with folder entries", repacked(before=[("archive/", b""), ("archive/data/", b"")])),
            ("with a comment", repacked(comment=b"hello")),
            ("torch's own with a comment", archive(torch_records(), comment=b"hello")),
            ("with 100 trailing bytes", archive(torch_records(), tail=bytes(100))),
            ("in upper case", repacked(names={"data.pkl": "archive/DATA.PKL", "version": "archive/VERSION",
                                              "data/0": "archive/DATA/0"})),
            ("version in another order", archive([torch_records()[2], *torch_records()[:2]])),
        ]:
            with self.subTest(what):
                self.assert_listed(data, SOUND_LINE)

    def test_compressed_storages_are_a_warning(self):
        path = self.write(repacked(zipfile.ZIP_DEFLATED))
        code, out, _ = self.ckpt("info", path)
        self.assertEqual(code, 0)
        self.assertIn("1 storage is compressed: mmap=True would load garbage; 'ckpt convert' mends that",
                      out)

    def test_a_repacked_archive_is_mended_by_convert(self):
        out = self.path("mended.pt")
        for method in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            path = self.write(repacked(method))
            code, _, err = self.ckpt("convert", "-f", path, out)
            self.assertEqual((code, err), (0, ""))
            with zipfile.ZipFile(out) as made:
                self.assertIsNone(made.testzip())
                info = made.getinfo("archive/data/0")
                self.assertEqual((info.compress_type, made.read(info)), (zipfile.ZIP_STORED, FOUR_FLOATS))


class Refused(files.BadFileTest):
    def test_records_outside_of_the_folder(self):
        self.assert_refused(repacked(behind=[("__MACOSX/._data.pkl", b"x")]), "'__MACOSX/._data.pkl' " + OUTSIDE)
        self.assert_refused(repacked(behind=[("README", b"x")]), "'README' " + OUTSIDE)
        self.assert_refused(
            repacked(before=[("README", b"x")]),
            "the records are not in one folder: the archive begins with 'README', but the pickle is "
            "'archive/data.pkl'; it was repacked by another tool")
        self.assert_refused(
            repacked(before=[("other/file", b"x")]),
            "the records are not in one folder: the archive begins with 'other/file', but the pickle is "
            "'archive/data.pkl'; it was repacked by another tool")
        self.assert_refused(
            archive(torch_records(), name="x/y"),
            "the records are not in one folder: the archive begins with 'x/y/data.pkl', but the pickle is "
            "'x/y/data.pkl'; it was repacked by another tool")

    def test_duplicates(self):
        for second in ("data/0", "DATA/0"):
            data = archive(torch_records() + [(second, b"x")])
            self.assert_refused(data, "two records are named 'archive/%s'; which one counts depends on "
                                      "the reader" % second)

    def test_interrupted_saves(self):
        message = "holds no data.pkl: an interrupted torch.save, nothing of the checkpoint was written"
        self.assert_refused(archive([("version", b"3\n")]), message)
        self.assert_refused(archive([("version", b"3\n"), ("byteorder", b"little"),
                                     (".data/serialization_id", b"0" * 40)]), message)

    def test_constants_make_torchscript_only_at_the_top(self):
        path = self.write(archive(torch_records() + [("x/constants.pkl", pickled(b")"))]))
        self.assertIn("format      torch zip", self.ckpt("info", path)[1])
        path = self.write(archive(torch_records() + [("constants.pkl", pickled(b")"))]))
        self.assertIn("format      TorchScript", self.ckpt("info", path)[1])

    def test_version(self):
        for text in (b"1", b"3\n", b"10", b" 3", b"3abc"):
            with self.subTest(text):
                self.assert_listed(torch_file(version=text), SOUND_LINE)
        for text in (b"0", b"11", b"-3", b"abc", b"3" * 15):
            with self.subTest(text):
                self.assert_refused(torch_file(version=text), "version: file format version '%s', torch loads "
                                                              "1 to 10" % text.decode())
        self.assert_refused(torch_file(version=b"3" * 23), "archive/version: has 23 bytes, the limit is 15")
        missing = "there is no record 'version', torch will not load the file"
        self.assert_refused(torch_file(version=None), missing)
        self.assert_listed(torch_file(version=None, extra=[(".data/version", b"3\n")]), SOUND_LINE)
        self.assert_refused(torch_file(version=b"3", extra=[(".data/version", b"11")]),
                            "version: file format version '11', torch loads 1 to 10")

    def test_an_empty_version_is_not_a_missing_one(self):
        path = self.write(torch_file(version=b""))
        code, _, err = self.ckpt("ls", path)
        self.assertEqual(code, 2)
        self.assertIn("version", err)

    def test_byteorder(self):
        for text in (b"little", b"big"):
            self.assert_listed(torch_file(extra=[("byteorder", text)]), SOUND_LINE)
        for text in (b"middle", b"Little", b"big\n"):
            shown = text.decode().replace("\n", "\\n")
            self.assert_refused(torch_file(extra=[("byteorder", text)]),
                                "byteorder: byte order '%s', wanted 'little' or 'big'" % shown)

    def test_alignment(self):
        self.assert_listed(torch_file(extra=[(".storage_alignment", b"4096")]), SOUND_LINE)
        for text in ("0", "x", "64x", "99999999"):
            self.assert_refused(torch_file(extra=[(".storage_alignment", text.encode())]),
                                ".storage_alignment: no alignment: '%s'" % text)

    def test_sizes_of_storages(self):
        self.assert_refused(torch_file(data=FOUR_FLOATS[:-1]),
                            "archive/data/0: has 15 bytes, the pickle wants 16 (4 of float32)")
        self.assert_refused(torch_file(data=b""),
                            "archive/data/0: has 0 bytes, the pickle wants 16 (4 of float32)")
        self.assert_refused(torch_file(data=None),
                            "the record 'data/0' is missing, which holds 16 bytes of tensors")
        self.assert_listed(torch_file(data=FOUR_FLOATS + b"more"), SOUND_LINE)

    def test_a_flipped_bit_in_the_pickle_is_seen(self):
        data = torch_file()
        at = data.index(SOUND) + len(SOUND) - 3
        self.write(data[:at] + bytes([data[at] ^ 1]) + data[at + 1:])
        code, _, err = self.ckpt("ls", self.path("bad.pt"))
        self.assertEqual(code, 2)
        self.assertRegex(err, r"archive/data.pkl: damaged: its CRC-32 is [0-9a-f]{8}, [0-9a-f]{8} is "
                              r"recorded\n$")

    def test_a_truncated_file_says_how_much_is_there(self):
        data = torch_file()
        self.assert_refused(data[:30], "is a truncated zip archive: 30 bytes are there, the end with the "
                                       "directory is missing; download or copy it again")
        self.assert_refused(data[:100], "is truncated: 100 bytes are there, not even the list of tensors is "
                                        "whole; download or copy it again")
        path = self.write(data[:-1])
        code, _, err = self.ckpt("ls", path)
        self.assertEqual(code, 2)
        self.assertIn("is truncated: %d bytes are there, at least " % (len(data) - 1), err)
        self.assertIn("the list of tensors and the first 1 of 1 storages are whole", err)
        data = repacked(zipfile.ZIP_DEFLATED)[:-60]
        self.assert_refused(data, "is truncated: %d bytes are there, at least 60 are missing; the list of tensors and the "
                                  "first 1 of 1 storages are whole; download or copy it again\n"
                                  "hint: to save what is whole: ckpt repair %s OUT" % (len(data), self.write(data)))

    def test_what_is_missing_of_a_truncated_file_is_never_less(self):
        """Too much is never said, and all bytes of tensors that are gone are in it, unless records may be compressed."""
        storages = [(name, 4 * numel) for name, numel in (("0", 700), ("1", 4), ("2", 300), ("3", 1))]
        root = b"}(" + b"".join(text("w" + name) + tensor(key=name, numel=nbytes // 4, shape=(nbytes // 4,)) for name, nbytes in storages) + b"u"
        records = [("data.pkl", b"\x80\x02" + root + b"."), ("byteorder", b"little")]
        records += [("data/" + name, bytes(nbytes)) for name, nbytes in storages] + [("version", b"3\n")]
        files = {"stored": archive(records)}
        for what, method in (("stored by Python", zipfile.ZIP_STORED), ("deflated", zipfile.ZIP_DEFLATED)):
            out = io.BytesIO()
            with zipfile.ZipFile(out, "w", method) as new:
                for name, data in records:
                    new.writestr("archive/" + name, data)
            files[what] = out.getvalue()
        with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "fixtures", "ddp", "ddp_trainer.pt"), "rb") as f:
            files["of torch"] = f.read()
        for what, data in files.items():
            first = data.index(b"archive/data/0" if what != "of torch" else b"ddp_trainer/data/0")
            for length in sorted({*range(first, len(data) - 1, (len(data) - first) // 25), len(data) - 1, len(data) - 22, len(data) - 23}):
                with self.subTest(what=what, length=length):
                    _, _, err = self.ckpt("ls", self.write(data[:length]))
                    said = re.search(r"at least (\d+) are missing; .* first (\d+) of (\d+) storages", err)
                    self.assertTrue(said, err)
                    missing, whole, count = map(int, said.groups())
                    self.assertLessEqual(missing, len(data) - length)
                    # an entry of the directory and a header for each, at the least
                    self.assertGreaterEqual(missing, 1 if whole == count else (count - whole - 1) * 76)
                    if what.startswith("stored"):
                        gone = sum(nbytes for _, nbytes in storages[whole + 1:])
                        self.assertGreaterEqual(missing, gone + count * 46 if whole < count else 1)

    def test_a_truncated_pickle_of_any_length_is_found(self):
        for length in (0, 2**20 - 300, 2**20, 5 * 2**20):
            with self.subTest(length):
                whole = torch_file(state_dict(w=tensor(), filler=text("x" * length)))
                code, _, err = self.ckpt("ls", self.write(whole[:-50]))
                self.assertEqual(code, 2)
                self.assertIn("the list of tensors and the first 1 of 1 storages are whole", err)

    def test_other_encodings_of_names_are_no_second_directory(self):
        """A name in code page 437 is no UTF-8: libzip converts what it shows of it."""
        data = repacked(zipfile.ZIP_DEFLATED).replace(b"archive/", b"arch\x8ave/")
        self.assert_listed(data, SOUND_LINE)

    def test_lies_of_headers(self):
        for what, data, message in [
            ("encrypted", patched(patched(torch_file(), ENTRY, 1, 8, b"\x09"), LOCAL, 1, 6, b"\x09"),
             "the record is encrypted"),
            ("strong encryption", patched(torch_file(), ENTRY, 0, 8, b"\x48"),
             "the flags 0x0848 in the directory ask for what torch does not know"),
            ("method", patched(patched(torch_file(), ENTRY, 0, 10, b"\x0c"), LOCAL, 0, 8, b"\x0c"),
             "compression method 12, torch reads only 0 (stored) and 8 (deflated)"),
            ("stored as deflated", patched(patched(torch_file(), ENTRY, 0, 10, b"\x08"), LOCAL, 0, 8, b"\x08"),
             "archive/data.pkl: "),
            ("two methods", patched(torch_file(), LOCAL, 0, 8, b"\x08"), "local header (method 8"),
            ("two names", patched(torch_file(), LOCAL, 0, 30, b"X"),
             "the local header calls the record 'Xrchive/data.pkl'"),
            ("overlap", patched(torch_file(), ENTRY, 1, 42, b"\x10\0\0\0"), "overlaps what lies at"),
            ("huge size", patched(torch_file(), ENTRY, 1, 20, b"\xff\xff\xff\x7f\xff\xff\xff\x7f"),
             "the record of 2147483647 bytes overlaps"),
            ("uncompressed size", patched(torch_file(), ENTRY, 1, 24, b"\xff\xff\xff\x7f"), "claims to hold"),
        ]:
            with self.subTest(what):
                path = self.write(data)
                for command in (("ls", path), ("strip-module", "--if-present", path, self.path("out.pt"))):
                    code, _, err = self.ckpt(*command)
                    if command[0] == "ls" and code == 0 and what in ("encrypted", "uncompressed size"):
                        continue    # of a storage, which is looked at when it is copied
                    self.assertEqual(code, 2, command)
                    self.assertIn(message, err)
                self.assertFalse(os.path.exists(self.path("out.pt")))


class Damage(files.BadFileTest):
    """Whatever is cut or changed: an error or a listing, never a crash. One process for many files
    would be faster; but a crash must not be lost in it."""

    def test_a_file_cut_at_every_byte_is_refused(self):
        self.assert_beginnings_refused(torch_file())

    def test_a_file_with_any_byte_changed_does_not_crash(self):
        data = torch_file()
        places = [at for at in range(len(data)) if data[at] != 0x5A]
        messages = self.open_many(data[:at] + bytes([data[at] ^ flip]) + data[at + 1:]
                                  for at in places for flip in (0xFF, 0x01))
        self.assertGreater(sum(message is not None for message in messages), len(places) // 2)

    def test_a_bomb_of_zeros_is_refused_or_read(self):
        out = io.BytesIO()
        with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as made:
            with made.open("archive/data.pkl", "w") as stream:
                for _ in range(100):
                    stream.write(bytes(10 << 20))
            made.writestr("archive/version", "3\n")
        path = self.write(out.getvalue())
        code, _, err = self.ckpt("ls", path)
        self.assertEqual(code, 2)
        self.assertIn("archive/data.pkl", err)

    def test_a_directory_that_announces_millions_of_records_is_refused(self):
        data = patched(torch_file(), b"PK\x06\x06", 0, 24, struct.pack("<QQ", 1 << 40, 1 << 40))
        self.assert_refused(data, "+0x%x: %d records are announced, %d bytes of directory cannot hold "
                                  "them" % (len(data) - 22, 1 << 40, 183))


class Strange(files.BadFileTest):
    def test_names_from_the_file_are_escaped(self):
        data = archive(torch_records(state_dict(**{"a\x1b[31m\n\u202eb": tensor()})), name="arch\x1bive")
        path = self.write(data)
        for command in ("ls", "info"):
            code, out, _ = self.ckpt(command, path)
            self.assertEqual(code, 0)
            self.assertNotIn("\x1b", out)
            self.assertNotIn("\u202e", out)
        self.assertIn("arch\\x1bive", out)

    def test_records_with_nul_in_their_name_do_not_confuse(self):
        data = archive(torch_records() + [(b"data/0\0x", b"x")])
        code, out, err = self.ckpt("ls", self.write(data))
        self.assertIn(code, (0, 2), err)

    def test_a_long_archive_name(self):
        self.assert_listed(archive(torch_records(), name="n" * 500), SOUND_LINE)
        self.assert_listed(archive(torch_records(), name="n" * 60000), SOUND_LINE)

    def test_what_is_no_regular_file_is_refused(self):
        fifo = self.path("fifo")
        os.mkfifo(fifo)
        code, _, err = self.ckpt("ls", fifo)
        self.assertEqual((code, err), (2, "ckpt: %s: is not a regular file\n" % fifo))
        code, _, err = self.ckpt("ls", "/dev/null")
        self.assertEqual((code, err), (2, "ckpt: /dev/null: is not a regular file\n"))
        code, _, err = self.ckpt("cat", self.folder, "x")
        self.assertEqual((code, err), (2, "ckpt: %s: is a directory, but no sharded checkpoint: it has no "
                                       ".metadata; name a file in it, such as 'bad.pt'\n" % self.folder))


files.main()

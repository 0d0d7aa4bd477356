# SPDX-License-Identifier: Apache-2.0
"""Checkpoints inside of zip archives: what is read, and what is wrong with broken and hostile ones."""

import io
import struct
import zipfile
import zlib

import files
from files import torch_file

SOUND = torch_file()
LINE = "weight  float32  [4]  cpu      16\n"


def zipped(*members, method=zipfile.ZIP_STORED):
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", method) as archive:
        for name, data in members:
            archive.writestr(name, data)
    return out.getvalue()


def agent(method=zipfile.ZIP_STORED):
    return zipped(("data", b'{"policy_class": 1}'), ("policy.pth", SOUND), method=method)


class Container(files.BadFileTest):
    def both(self, data, inner, name="agent.zip"):
        path = self.write(data, name)
        return self.ckpt("ls", path + "::" + inner)

    def assert_absent(self, data, inner, message):
        code, out, err = self.both(data, inner)
        self.assertEqual((code, out, err), (2, "", "ckpt: %s::%s: %s\n" % (self.path("agent.zip"), inner, message)))

    def test_stored_and_compressed_ones_are_read(self):
        for method in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            code, out, err = self.both(agent(method), "policy.pth")
            self.assertEqual((code, err), (0, ""))
            self.assertIn(LINE, out)
            source, target = self.path("agent.zip::policy.pth"), self.path("a.pt")
            plain = self.write(SOUND, "plain.pt")
            for command in (["convert"], ["add-prefix", "x."], ["cast", "float16"]):
                made = []
                for name in (source, plain):
                    self.assertEqual(self.ckpt(*command, "-q", "-f", name, target), (0, "", ""))
                    with open(target, "rb") as stream:
                        made.append(stream.read())
                self.assertEqual(made[0], made[1], command)

    def test_files_are_listed(self):
        for method in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            path = self.write(agent(method), "agent.zip")
            for command in ("ls", "info"):
                code, out, err = self.ckpt(command, path)
                self.assertEqual((code, err), (0, ""))
                self.assertRegex(out, "(?m)^policy.pth +%d  torch zip, 1 tensor(, compressed to [0-9]+)?$" % len(SOUND))
                self.assertRegex(out, "(?m)^data +19( .*)?$")
        self.assertIn("zip archive", self.ckpt("ls", self.write(zipped(("in.zip", agent()))))[1])

    def test_archives_in_archives(self):
        data = b"x"
        for depth in range(10):
            data = zipped(("a", agent() if depth == 0 else data))
            code, out, err = self.both(data, "::".join(["a"] * (depth + 1) + ["policy.pth"]))
            if depth + 2 <= 8:
                self.assertEqual((code, err), (0, ""))
                self.assertIn(LINE, out)
            else:
                self.assertEqual(code, 2)
                self.assertTrue(err.endswith("archives in archives, more than 8 deep\n"), err)

    def test_what_is_not_there(self):
        self.assert_absent(agent(), "policy", "there is no 'policy' in the archive; there is 'data', 'policy.pth'")
        self.assert_absent(zipped(("d/", b"")), "d/", "there is no 'd/' in the archive; there is nothing")
        many = zipped(*(("f%d" % i, b"") for i in range(9)))
        self.assert_absent(many, "x", "there is no 'x' in the archive; there is 'f0', 'f1', 'f2', 'f3', 'f4', 'f5' and 3 more")
        self.assert_absent(agent(), "data::x", "is not a zip archive, in which 'x' could be")
        self.assert_absent(SOUND[:100], "x", "is not a zip archive, in which 'x' could be")
        self.assert_absent(agent(), "data", "is JSON text: a config, an index of shards, or an error message, not the model")

    def test_names_with_the_separator(self):
        self.write(SOUND, "odd::name.pt")
        self.assertIn(LINE, self.ckpt("ls", self.path("odd::name.pt"))[1])
        self.assertIn(LINE, self.both(zipped(("a::b.pt", SOUND)), "a::b.pt")[1])
        self.assertIn(LINE, self.both(agent(), "policy.pth", "odd::agent.zip")[1])

    def test_an_archive_is_left_as_it_is(self):
        before = agent()
        path = self.write(before, "agent.zip")
        code, _, err = self.ckpt("add-prefix", "-i", "x.", path + "::policy.pth")
        self.assertEqual((code, err), (2, "ckpt: %s::policy.pth: is inside of an archive, which is left as it is: name an "
                                          "output\n" % path))
        code, _, err = self.ckpt("add-prefix", "-f", "x.", path + "::policy.pth", path)
        self.assertEqual((code, err), (2, "ckpt: %s: the output is the input itself; name another file\n" % path))
        with open(path, "rb") as stream:
            self.assertEqual(stream.read(), before)

    def test_every_length_is_refused(self):
        for method, step in ((zipfile.ZIP_STORED, 1), (zipfile.ZIP_DEFLATED, 5)):
            whole = agent(method)
            for length in range(0, len(whole), 5 if files.SANITIZED else step):
                code, out, err = self.both(whole[:length], "policy.pth")
                self.assertEqual((code, out, err.count("\n")), (2, "", 1), "%d: %s" % (length, err))

    def test_sizes_that_are_not_true(self):
        """A directory that promises more than there is, and a member that unpacks to far more than the file."""
        whole = bytearray(agent())
        at = whole.rindex(b"PK\1\2")
        for size in (len(SOUND) + 1, 1 << 31, 0xFFFFFFF0):
            changed = bytearray(whole)
            changed[at + 20:at + 28] = struct.pack("<II", size, size)
            self.assertEqual(self.both(bytes(changed), "policy.pth")[0], 2)
        bomb = zipped(("bomb.pth", bytes(100 << 20)), method=zipfile.ZIP_DEFLATED)
        code, _, err = self.both(bomb, "bomb.pth")
        self.assertEqual(code, 2)
        self.assertIn("104857600", err)
        code, out, err = self.ckpt("ls", self.path("agent.zip"))
        self.assertEqual((code, out), (2, ""))

    def test_damage_is_found_before_anything_is_believed(self):
        whole = agent(zipfile.ZIP_DEFLATED)
        at = whole.index(zlib.compress(SOUND)[2:6])
        code, _, err = self.both(whole[:at + 20] + bytes([whole[at + 20] ^ 0x40]) + whole[at + 21:], "policy.pth")
        self.assertEqual((code, err.count("\n")), (2, 1))

    def test_two_members_of_one_name(self):
        out = io.BytesIO()
        with zipfile.ZipFile(out, "w") as archive:
            archive.writestr("policy.pth", SOUND)
            archive.writestr("Policy.pth", SOUND)
        self.assertEqual(self.both(out.getvalue(), "policy.pth")[0], 2)


if __name__ == "__main__":
    files.main()

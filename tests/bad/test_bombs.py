# SPDX-License-Identifier: Apache-2.0
"""Pickles that are small, and would take for ever or all memory: an answer within limits."""

import files
from files import tensor, text, torch_file


class Bombs(files.BadFileTest):
    """An answer, within the limits of files.py."""

    def answer(self, data, commands=("ls", "info")):
        path = self.write(torch_file(data))
        for command in commands:
            code, _, err = self.ckpt(command, path)
            self.assertIn(code, (0, 2))
            if code:
                self.assertRegex(err, r"^ckpt: .*bad.pt: .*(nested deeper than|MiB of memory|out of memory|a name is longer than)")
        return path

    def test_ten_million_lists_in_a_row(self):
        self.answer(b"\x80\x02" + b"]" * 10**7 + b".")

    def test_ten_million_nested_lists(self):
        self.answer(b"\x80\x02" + b"]" * 10**7 + b"a" * (10**7 - 1) + b".")

    def test_ten_million_nested_tuples(self):
        self.answer(b"\x80\x02" + b")" + b"\x85" * 10**7 + b".")

    def test_ten_million_marks(self):
        self.answer(b"\x80\x02" + b"(" * 10**7 + b"N.")

    def test_eight_thousand_levels_are_read_and_written(self):
        for data in (b"\x80\x02" + b"]" * 8000 + b"a" * 7999 + b".",
                     b"\x80\x02N" + b"\x85" * 8000 + b"."):
            path = self.write(torch_file(data))
            code, _, err = self.ckpt("ls", path)
            self.assertEqual((code, err), (0, ""))
            code, _, err = self.ckpt("strip-module", "-f", "--if-present", path, self.path("out.pt"))
            self.assertEqual((code, err), (0, ""))

    def test_a_long_chain_of_attributes(self):
        """Names grow with the depth: quadratic if each is written out."""
        level = b"}" + text("k" * 100)
        self.answer(b"\x80\x02" + level * 50000 + b"N" + b"s" * 50000 + b".")

    def test_a_value_shared_a_billion_times(self):
        """Each list holds the one below twice: 2**40 ways to the innermost."""
        data = b"\x80\x02]q\0"
        for _ in range(40):
            data += b"0](h\0h\0eq\0"
        path = self.write(torch_file(data + b"."))
        for command in (("ls", path), ("info", path), ("strip-module", "-f", "--if-present", path,
                                                       self.path("out.pt"))):
            code, _, err = self.ckpt(*command)
            self.assertEqual((code, err), (0, ""))

    def test_one_tensor_under_very_many_names(self):
        names = 10**5 if files.SANITIZED else 10**6
        data = b"\x80\x02" + tensor() + b"q\0" + b"0]q\1(" + b"h\0" * names + b"e."
        self.answer(data)

    def test_keys_that_are_all_the_same(self):
        data = b"\x80\x02}(" + (text("same") + b"N") * 200000 + b"u."
        self.answer(data)

    def test_numbers_of_many_digits(self):
        self.answer(b"L" + b"9" * 4000 + b"L\n.")
        code, _, err = self.ckpt("ls", self.write(torch_file(b"L" + b"9" * 10**6 + b"L\n.")))
        self.assertEqual(code, 2)
        self.assertIn("is not an integer", err)
        self.answer(b"(" + (b"L" + b"9" * 4300 + b"L\n") * 200 + b"l.")


files.main()

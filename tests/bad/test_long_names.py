# SPDX-License-Identifier: Apache-2.0
"""Names that are too long to be shown stop nothing: they are shortened where they are shown."""

import os
import subprocess
import tempfile
import unittest

from files import CKPT, tensor, text, torch_file


def nested(levels, key):
    return b"\x80\x02" + (b"}" + text(key)) * levels + tensor() + b"s" * levels + b"."


class LongNames(unittest.TestCase):
    def test_long_names_stop_nothing(self):
        for pickle in (nested(1, "k" * 20000), nested(100, "n" * 300), nested(20000, "m")):
            with tempfile.TemporaryDirectory() as folder:
                source, target = os.path.join(folder, "in.pt"), os.path.join(folder, "out.pt")
                with open(source, "wb") as file:
                    file.write(torch_file(pickle))
                for arguments in (["convert", source, target], ["ls", source], ["info", source], ["remap", "--if-present", "cuda:0=cpu", source, target + "2"], ["verify", target]):
                    done = subprocess.run([CKPT, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False)
                    self.assertEqual(done.returncode, 0, (arguments[0], done.stderr[:200]))
                    self.assertLess(max(map(len, done.stdout.splitlines() or [b""])), 4000)


if __name__ == "__main__":
    unittest.main()

# SPDX-License-Identifier: Apache-2.0
"""What layers.py finds in small trees: test_layers.py"""

import os
import subprocess
import sys
import tempfile
import unittest

LAYERS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "layers.py")
TABLE = """
base:
set: base
set/dcp:
set/hf:
set/set.c: set/dcp set/hf
verify: base set
.: base set
"""
FILES = ("base/text.h", "set/listing.h", "set/dcp/index.h", "set/hf/index.h", "set/set.h", "verify/verify.h")


def problems(path, target, table=TABLE):
    """What layers.py says of a tree in which src/PATH includes TARGET."""
    with tempfile.TemporaryDirectory() as root:
        def write(name, text):
            name = os.path.join(root, "src", name)
            os.makedirs(os.path.dirname(name), exist_ok=True)
            with open(name, "w", encoding="utf-8") as stream:
                stream.write(text)
        for name in FILES:
            write(name, "")
        write("LAYERS", table)
        write("set/set.c", '#include "set/set.h"\n')
        write(path, '#include "%s"\n' % target)
        done = subprocess.run([sys.executable, LAYERS, root], stdout=subprocess.PIPE, universal_newlines=True, check=False)
        lines = done.stdout.replace(root + "/src/", "").splitlines()[:-1]
        assert done.returncode == (1 if lines else 0), done
        return lines


class Layers(unittest.TestCase):
    def test_down_is_fine(self):
        for path, target in (("set/a.c", "base/text.h"), ("set/a.c", "set/listing.h"), ("verify/a.c", "set/set.h"), ("a.c", "set/set.h")):
            self.assertEqual(problems(path, target), [])

    def test_up_is_not(self):
        self.assertEqual(problems("set/a.c", "verify/verify.h"), ["set/a.c:1: 'verify/verify.h' is above or beside 'set'"])

    def test_a_room_uses_what_is_around_it_and_below_that(self):
        for target in ("set/listing.h", "set/dcp/index.h", "base/text.h"):
            self.assertEqual(problems("set/dcp/a.c", target), [])

    def test_rooms_beside_each_other_do_not_know_each_other(self):
        self.assertEqual(problems("set/hf/a.c", "set/dcp/index.h"), ["set/hf/a.c:1: 'set/dcp/index.h' is above or beside 'set/hf'"])

    def test_who_is_around_a_room_has_to_name_it(self):
        self.assertEqual(problems("set/a.c", "set/hf/index.h"), ["set/a.c:1: 'set/hf/index.h' is above or beside 'set'"])
        self.assertEqual(problems("verify/a.c", "set/hf/index.h"), ["verify/a.c:1: 'set/hf/index.h' is above or beside 'verify'"])

    def test_one_file_may_have_a_row(self):
        self.assertEqual(problems("set/set.c", "set/hf/index.h"), [])
        self.assertEqual(problems("set/set.c", "verify/verify.h"), ["set/set.c:1: 'verify/verify.h' is above or beside 'set/set.c'"])

    def test_a_folder_in_a_folder_without_a_row_is_of_that_one(self):
        self.assertEqual(problems("verify/deep/a.c", "set/set.h"), [])
        self.assertEqual(problems("other/a.c", "base/text.h"), ["other/a.c: is of no folder that is in src/LAYERS"])

    def test_the_table_itself(self):
        self.assertEqual(problems("set/a.c", "base/text.h", TABLE.replace("base:", "base: verify"))[0],
                         "src/LAYERS: 'base' is used by what it uses")
        self.assertEqual(problems("set/a.c", "base/text.h", TABLE + "set/tc:\nscan: nowhere\n"),
                         ["src/LAYERS: 'set/tc' is not there, below src/",
                          "src/LAYERS: 'scan' uses 'nowhere', which has no row",
                          "src/LAYERS: 'scan' is not there, below src/"])


if __name__ == "__main__":
    unittest.main()

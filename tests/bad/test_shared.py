# SPDX-License-Identifier: Apache-2.0
"""One long thing of a pickle in many places, where work for each place would take for ever."""

import files
from files import glob, number, numbers, storage, tensor, text, torch_file


class Shared(files.BadFileTest):
    """One long thing that a hundred thousand objects mention: nobody may look through it each time."""

    COUNT = 100000

    def check(self, shared, parts, each, commands, message=""):
        """SHARED is in the memo at 0, each of PARTS from 1 on; EACH makes an object of them."""
        data = b"\x80\x02" + shared + b"q\0"
        for i, part in enumerate(parts):
            data += b"0" + part + b"q" + bytes([i + 1])
        path = self.write(torch_file(data + b"0](" + each * self.COUNT + b"e."))
        for command in commands:
            more = () if command == "ls" else ("-f", "--if-present")
            code, _, err = self.ckpt(command, *more, path, *([] if command == "ls" else
                                                             [self.path("out.pt")]))
            self.assertEqual(code, 2 if message or err else 0)
            self.assertRegex(err, message or r"^$|would grow to more than \d+ MiB")

    def long_dict(self, *last):
        return b"}(" + b"".join(number(i) + b"N" for i in range(self.COUNT)) + b"".join(last) + b"u"

    def from_type(self, func, args):
        """The parts of a tensor subclass: _rebuild_from_type_v2(func, class, args, the dict)."""
        return ((func, args, glob("torch._tensor", "_rebuild_from_type_v2")),
                b"h\3(h\1" + glob("a", "b") + b"h\2h\0tR")

    def test_a_module_state(self):
        state = self.long_dict(text("_parameters") + b"N" + text("_modules") + b"N")
        self.check(state, (), glob("a", "b") + b")Rh\0b", ("ls", "strip-module"))

    def test_a_state_that_is_no_pair_of_dicts(self):
        self.check(self.long_dict() + b"K\5\x86", (), glob("a", "b") + b")Rh\0b",
                   ("ls", "strip-module"))

    def test_the_metadata_of_tensors(self):
        parts = (glob("torch._utils", "_rebuild_tensor_v2"), storage(), numbers((4,)), numbers((1,)))
        self.check(self.long_dict(), parts, b"h\1(h\2K\0h\3h\4\x89Nh\0tR", ("ls",),
                   r"metadata of a tensor with 100000 entries, the limit is 256")

    def test_the_metadata_of_a_state_dict(self):
        parts = (tensor(), text("w"), glob("collections", "OrderedDict"))
        self.check(self.long_dict(), parts, b"h\3)Rh\2h\1sh\0b", ("ls", "strip-module"))

    def test_the_attributes_of_wrapped_tensors(self):
        args = (b"(" + glob("a", "b") + glob("torch", "float32") + numbers((4,)) + numbers((1,)) +
                b"K\0N" + text("cpu") + b"\x89t")
        self.check(self.long_dict(), *self.from_type(
            glob("torch._utils", "_rebuild_wrapper_subclass"), args), ("ls",))

    def test_a_text_inside_of_a_tensor(self):
        args = text(b"a" * 10 * self.COUNT) + text("latin1") + b"\x86"
        self.check(b"}", *self.from_type(glob("_codecs", "encode"), args), ("ls", "strip-module"))


files.main()

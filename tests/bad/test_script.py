# SPDX-License-Identifier: Apache-2.0
"""TorchScript archives and modules that were pickled whole, made byte by byte: what is read, and what is refused."""

import json
import os
import zipfile

import files
from files import archive, glob, number, pickled, tensor, text, torch_file
from modules import DATA, NET, NET_CODE, NO_CONSTANTS, members, parameter, records, script, source, torch_script, whole


def nested(depth, make, name="a"):
    """DEPTH modules in each other: what is before the innermost one, and what is behind it."""
    begin, end = make(name)
    return begin * depth, end * depth


def script_around(name):
    return glob("__torch__", "Net") + b")\x81}(" + text(name), b"ub"


def whole_around(name):
    before, behind = whole(modules=[(name, b"\xff")]).split(b"\xff")
    return before, behind


# (what, archive, message)
REFUSED = [
    ("a storage is missing", torch_script(pickled(NET), NET_CODE, left_out=["data/3"]),
     "the record 'data/3' is missing, which holds 16 bytes of tensors"),
    ("a constant's storage is missing", torch_script(pickled(NET), NET_CODE, pickled(tensor("0") + b"\x85")),
     "the record 'constants/0' is missing, which holds 16 bytes of tensors"),
    ("a constant reaches too far",
     torch_script(pickled(NET), NET_CODE, pickled(tensor("0", shape=(5,)) + b"\x85"), [("constants/0", b"x" * 16)]),
     "constants.pkl+0x8a: tensor 'constants.0': reaches 20 bytes into its storage 'constants/0' of 16 bytes"),
    ("a constant of a storage that is none",
     torch_script(pickled(NET), NET_CODE, pickled(tensor("0", kind="FooStorage") + b"\x85")),
     "constants.pkl+0x%x: storage id: 'torch.FooStorage' is not a storage class of torch" % (
         (b"\x80\x02" + tensor("0", kind="FooStorage")).index(b"tQ") + 1)),
    ("broken constants", torch_script(pickled(NET), NET_CODE, b"\x80\x02\xff."),
     "archive/constants.pkl+0x2: unknown opcode 0xff"),
    ("no version", torch_script(pickled(NET), left_out=["version"]),
     "there is no record 'version', torch will not load the file"),
    ("a version of the future", archive([(n, b"99" if n == "version" else d) for n, d in records(pickled(NET))]),
     "version: file format version '99', torch loads 1 to 10"),
    ("torch 1.0", archive([("model.json", b"{}"), ("tensors/0", b"x" * 16), ("code/m.py", b""), ("version", b"1\n")]),
     "is a TorchScript archive of torch 1.0 to 1.3 (model.json), which is not read; torch.jit.load and torch.jit.save "
     "of a later torch make one that is"),
    ("no constants and no data", archive([("constants.pkl", NO_CONSTANTS), ("code/__torch__.py", b""), *DATA,
                                          ("version", b"3\n")]),
     "is a zip archive, but not one of torch, which has a folder with 'data.pkl' in it; its first record is "
     "'archive/constants.pkl'"),
]


class Converting(files.BadFileTest):
    def rows(self, path):
        code, out, err = self.ckpt("ls", "--json", path)
        self.assertEqual((code, err), (0, ""))
        return {row["name"]: row for row in json.loads(out)["tensors"]}

    def converted(self, data, *arguments):
        """Names and first bytes of the tensors in what convert writes, and what it said."""
        code, out, err = self.ckpt("convert", "-f", *arguments, self.write(data, "in.pt"), self.path("out.pt"))
        self.assertEqual((code, err), (0, ""))
        rows = self.rows(self.path("out.pt"))
        with zipfile.ZipFile(self.path("out.pt")) as written:
            folder = written.namelist()[0].split("/")[0]
            bytes_of = [written.read("%s/data/%d" % (folder, row["storage"]))[0] for row in rows.values()]
        self.assertEqual([row["requires_grad"] for row in rows.values()], [False] * len(rows))
        return dict(zip(rows, bytes_of)), out

    def refused(self, data, message, *arguments):
        path, target = self.write(data, "in.pt"), self.path("none.pt")
        code, out, err = self.ckpt("convert", *arguments, path, target)
        self.assertEqual((code, out), (2, ""), err)
        self.assertIn(message, err)
        self.assertFalse(os.path.exists(target))


class Script(Converting):
    def test_what_is_wrong_is_said(self):
        for what, data, message in REFUSED:
            with self.subTest(what):
                self.assert_refused(data, message)

    def test_tensors_constants_and_records_are_listed(self):
        data = torch_script(pickled(NET), NET_CODE, pickled(tensor("0") + text("x") + tensor("1") + b"\x87"),
                            [("constants/0", b"c" * 16), ("constants/1", b"d" * 16), ("extra/a.txt", b"hello"),
                             ("bytecode.pkl", pickled(b")")), ("other.bin", b"?")])
        path = self.write(data)
        self.assertEqual(list(self.rows(path)), ["weight", "mean", "plain", "sub.bias", "constants.0", "constants.2"])
        code, out, _ = self.ckpt("ls", "--json", "--records", path)
        kinds = {row["name"]: row["kind"] for row in json.loads(out)["records"]}
        self.assertEqual((code, [kinds[name] for name in ("data/0", "data.pkl", "code/__torch__.py", "constants/0",
                                                          "extra/a.txt", "bytecode.pkl", "version", "other.bin")]),
                         (0, ["storage", "pickle", "code", "constant", "extra", "pickle", "mark", "other"]))
        code, out, _ = self.ckpt("info", path)
        for line in ("code        1 file, %d bytes" % len(NET_CODE), "extra       1 file, 5 bytes: a.txt",
                     "operators   version 3", "note        for the lite interpreter"):
            self.assertIn(line, out)
        self.assertEqual(self.ckpt("dis", path, "constants.pkl")[1].count("BINPERSID"), 2)

    def test_parameters_go_before_buffers_and_other_attributes_stay_out(self):
        swapped = script("Net", [("mean", tensor("1")), ("plain", tensor("2")), ("weight", tensor("0"))])
        self.assertEqual(self.converted(torch_script(pickled(NET), NET_CODE))[0], {"weight": 0, "mean": 1, "sub.bias": 3})
        self.assertEqual(list(self.converted(torch_script(pickled(swapped), NET_CODE))[0].items()),
                         [("weight", 0), ("mean", 1)])

    def test_names_are_unescaped_and_other_classes_are_no_modules(self):
        net = script("Net", [('a"b', tensor("0")), ("c\n", tensor("1")), ("\x01", tensor("3")),
                             ("data", script("Data", [("held", tensor("2"))]))])
        code = source("Net", ['a\\"b', "c\\n", "\\001"]) + source("Data", ["held"], base="")
        self.assertEqual(self.converted(torch_script(pickled(net), code))[0], {'a"b': 0, "c\n": 1, "\x01": 3})

    def test_without_source_all_tensors_are_taken_and_that_is_said(self):
        for more in ({"left_out": ["code/__torch__.py"]}, {"code": source("Sub", ["bias"])},
                     {"code": "def Net():\n  __parameters__ = []\n" + source("Sub", ["bias"])}):
            tensors, said = self.converted(torch_script(pickled(NET), **more))
            self.assertEqual(tensors, {"weight": 0, "mean": 1, "plain": 2, "sub.bias": 3})
            self.assertIn("without source all tensors were taken", said)
        self.assertNotIn("without source", self.converted(torch_script(pickled(NET), NET_CODE))[1])

    def test_a_source_that_unpacks_to_very_much_is_no_source(self):
        path = self.write(b"", "in.pt")
        with zipfile.ZipFile(path, "w") as out:
            for name, data in records(pickled(NET)):
                bomb = NET_CODE + "#" * (300 << 20) if name.startswith("code") else data
                out.writestr("archive/" + name, bomb, zipfile.ZIP_DEFLATED if name.startswith("code") else None)
        code, out, err = self.ckpt("convert", path, self.path("out.pt"))
        self.assertEqual((code, err), (0, ""))
        self.assertIn("without source", out)

    def test_calls_of_the_cpp_pickler_are_what_they_give(self):
        def call(name, *arguments):
            return glob("torch.jit._pickle", name) + b"(" + b"".join(arguments) + b"tR"

        ints, typed = b"](" + number(1) + number(2) + b"e", text("List[int]")
        for what, is_text in ((call("build_intlist", ints), "[1, 2]"), (call("build_doublelist", b"]"), "[]"),
                              (call("restore_type_tag", ints, typed), "[1, 2]"),
                              (call("restore_type_tag", call("restore_type_tag", ints, typed), typed), "[1, 2]"),
                              (call("build_intlist"), "build_intlist of 0"),
                              (call("build_intlist", ints, ints), "build_intlist of 0"),
                              (call("build_intlist", text("x")), "'x'"),
                              (call("build_intlist", ints) + b"}b", "build_intlist of 0"),
                              (call("build_exploit", ints), "build_exploit of 0")):
            path = self.write(torch_file(pickled(members([("it", what), ("w", tensor())]))))
            code, out, err = self.ckpt("info", path)
            self.assertEqual((code, err), (0, ""))
            self.assertIn("  it                     %s\n" % is_text, out)
        itself = b"]q\x01(" + call("build_intlist", b"h\x01") + b"e"
        self.assertEqual(self.ckpt("info", self.write(torch_file(pickled(itself))))[0], 0)
        called = call("build_intlist", ints) + b")R"    # fuzz_script: what was written could not be read
        code, _, err = self.ckpt("info", self.write(torch_file(pickled(called))))
        self.assertEqual(code, 2)
        self.assertIn("calls what build_intlist gives, which is not a function", err)

    def test_every_beginning_of_an_archive_is_read_or_refused(self):
        data = torch_script(pickled(NET), NET_CODE, pickled(tensor("0") + b"\x85"), [("constants/0", b"c" * 16)])
        self.assert_beginnings_refused(data)

    def test_every_pickle_that_is_cut_is_refused(self):
        net, constants = pickled(NET), pickled(tensor("0") + b"\x85")
        cut = [torch_script(net[:end], NET_CODE) for end in range(len(net))]
        cut += [torch_script(net, NET_CODE, constants[:end], [("constants/0", b"c" * 16)])
                for end in range(len(constants))]
        self.assertNotIn(None, self.open_many(cut))


class Modules(Converting):
    """Both kinds: ('--state-dict',) says which."""

    def kinds(self, make_script, make_whole):
        yield torch_script(pickled(make_script), NET_CODE), ()
        yield torch_file(pickled(make_whole)), ("--state-dict",)

    def test_modules_that_contain_themselves_end(self):
        cycle = script("Net", [("a", b"h\x01"), ("weight", tensor("0"))], memo=b"q\x01")
        again = (glob("user.code", "Net") + b")\x81q\x01" + members([
            ("_parameters", b"}"), ("_buffers", b"}"), ("_modules", members([("a", b"h\x01")]))]) + b"b")
        for data, arguments in self.kinds(cycle, again):
            self.assertEqual(self.ckpt("ls", self.write(data))[0], 0)
            self.refused(data, " than ", *arguments)

    def test_very_many_nested_modules_end(self):
        for name in ("a", ""):
            (a, b), (c, d) = nested(100000, script_around, name), nested(100000, whole_around, name)
            for data, arguments in self.kinds(a + script("Net", []) + b, c + whole() + d):
                self.assertEqual(self.ckpt("ls", self.write(data))[0], 2)
                self.refused(data, " than ", *arguments)

    def test_few_modules_that_stand_for_very_many_end(self):
        def doubled(make, level):
            body = make([])
            for i in range(level):
                body = make([("a", body + b"q" + bytes([i])), ("b", b"h" + bytes([i]))])
            return body
        for entry in ([], [("weight", tensor("0"))]):
            for data, arguments in self.kinds(doubled(lambda m: script("Net", m + entry), 40),
                                              doubled(lambda m: whole(entry, modules=m), 40)):
                self.refused(data, "", *arguments)

    def test_long_lists_of_names_are_not_looked_through_again_and_again(self):
        names = ["b%d" % i for i in range(3000)]
        unsaved = glob("__builtin__", "set") + b"](" + b"".join(text(n) for n in names) + b"e\x85R"
        buffers = [(name, b"h\x7f") for name in names]
        body = whole(buffers=buffers, others=[("_non_persistent_buffers_set", unsaved)])
        for i in range(20):
            body = whole(modules=[("a", body + b"q" + bytes([i])), ("b", b"h" + bytes([i]))])
        data = torch_file(pickled(tensor() + b"q\x7f0" + body))
        self.refused(data, "modules with more than 200000000 members", "--state-dict")

    def test_members_that_are_none_or_strange(self):
        net = whole([("w", parameter("0")), ("none", b"N")], [("b", tensor("0"))],
                    [("nothing", b"N"), ("sub", whole([("x", parameter("0"))]))],
                    [("_non_persistent_buffers_set", glob("__builtin__", "set") + b"]" + text("u") + b"a\x85R")])
        self.assertEqual(self.converted(torch_file(pickled(net)), "--state-dict")[0], {"w": 0, "b": 0, "sub.x": 0})
        self.refused(torch_file(pickled(whole(modules=[("sub", glob("user", "make") + b")R")]))),
                     "module 'sub' is a make that was not pickled as its attributes", "--state-dict")
        self.refused(torch_file(pickled(whole().replace(text("_modules") + b"}(u", text("_modules") + b"}(" +
                                                        number(1) + b"}u"))), "is named by int, wanted a text",
                     "--state-dict")

    def test_where_the_module_stands(self):
        net = whole([("w", parameter("0"))])
        one = pickled(members([("model", net), ("epoch", number(3))]))
        two = pickled(members([("model", net), ("ema", net)]))
        self.assertEqual(self.converted(torch_file(one), "--state-dict")[0], {"w": 0})
        self.assertEqual(self.converted(torch_file(two), "--state-dict", "--at", "ema")[0], {"w": 0})
        path = self.write(torch_file(two), "in.pt")
        self.assertEqual(self.ckpt("convert", "--state-dict", path, self.path("none.pt")),
                         (64, "", "ckpt: %s: holds 2 modules: 'model', 'ema'\nhint: --at NAME says which one\n" % path))
        self.refused(torch_file(one), "'epoch' is no module but a int", "--at", "epoch")
        self.refused(torch_file(one), "nothing is named 'nope'", "--at", "nope")
        self.refused(torch_file(), "holds no module", "--state-dict")

    def test_what_only_looks_like_a_module_is_none(self):
        almost = script("Net", [("_parameters", b"}"), ("_buffers", text("x")), ("_modules", b"}")], "user.code")
        self.refused(torch_file(pickled(almost)), "holds no module", "--state-dict")


files.main()

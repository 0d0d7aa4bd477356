# SPDX-License-Identifier: Apache-2.0
"""Write seeds for fuzz_script and fuzz_model: python3 script_seeds.py CORPUS [ARCHIVE...]

ARCHIVEs are small TorchScript archives that torch wrote, and modules that it saved whole.
"""

import hashlib
import os
import struct
import sys
import zipfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "bad"))
from files import glob, number, pickled, tensor, text  # noqa: E402
from modules import NET, NET_CODE, NO_CONSTANTS, members, parameter, script, source, whole  # noqa: E402

MOST = 6000


def write(folder, data):
    folder = os.path.join(sys.argv[1], folder)
    os.makedirs(folder, exist_ok=True)
    if len(data) <= MOST:
        with open(os.path.join(folder, hashlib.sha1(data).hexdigest()), "wb") as out:
            out.write(data)


def archive(data, constants=NO_CONSTANTS, code=NET_CODE):
    code = code.encode() if isinstance(code, str) else code
    write("fuzz_script", b"".join(struct.pack("<H", len(part)) + part for part in (data, constants, code)))


def call(name, *arguments):
    return glob("torch.jit._pickle", name) + b"(" + b"".join(arguments) + b"tR"


def made():
    archive(pickled(NET), pickled(tensor("0") + text("x") + tensor("1", "LongStorage") + b"\x87"))
    archive(pickled(script("Net", [("a", b"h\x01"), ("w", tensor("0"))], memo=b"q\x01")), code=source("Net", ["w"]))
    archive(pickled(script("M", [("a\n", tensor("0")), ("d", script("D", [("x", tensor("1"))], "__torch__.m"))],
                           "__torch__.m")), code=source("M", ["a\\n", "\\001"]) + source("D", ["x"], base=""))
    lists = [("i", call("build_intlist", b"](" + number(1) + b"e")), ("t", call("build_tensorlist", b"](" + tensor() + b"e")),
             ("r", call("restore_type_tag", members([("k", tensor("2"))]), text("Dict[str, Tensor]"))),
             ("c", glob("builtins", "complex") + b"G" + b"\0" * 8 + b"G" + b"\0" * 8 + b"\x86R")]
    archive(pickled(script("Net", lists)), code="")
    archive(pickled(tensor()), pickled(b"]"), "")
    net = whole([("w", parameter("0")), ("n", b"N")], [("b", tensor("1"))], [("sub", whole([("x", parameter("2"))]))],
                [("_non_persistent_buffers_set", glob("__builtin__", "set") + b"]" + text("b") + b"a\x85R")])
    write("fuzz_model", pickled(net))
    write("fuzz_model", pickled(members([("model", net), ("a", net)])))
    write("fuzz_model", pickled(members(lists)))
    write("fuzz_model", pickled(glob("torch.fx.graph_module", "reduce_graph_module") + b"(" + members(
        [("_parameters", b"}"), ("_buffers", b"}"), ("_modules", members([("sub", net)]))]) + text("") + b"tR"))


def found(path):
    with zipfile.ZipFile(path) as read:
        names = read.namelist()
        folder = names[0].split("/")[0] + "/"
        if folder + "constants.pkl" in names:
            code = b"".join(read.read(name) for name in names if name.endswith(".py"))
            archive(read.read(folder + "data.pkl"), read.read(folder + "constants.pkl"), code)
        else:
            write("fuzz_model", read.read(folder + "data.pkl"))


made()
for name in sys.argv[2:]:
    found(name)

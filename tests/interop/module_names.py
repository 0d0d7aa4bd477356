# SPDX-License-Identifier: Apache-2.0
"""src/resave/module_names.c has what classes of torch.nn assign to themselves, in the torch that it is about.

    CKPT=build/ckpt CKPT_PYTHON='python3;other-python' python3 tests/interop/module_names.py

Other torches say nothing about it. Ends with 77 if there is none.
"""
import json
import os
import re
import shlex
import subprocess

import each_torch

VERSION = "2.14"
SOURCE = os.path.join(os.environ.get("CKPT_SOURCE_DIR") or os.path.join(each_torch.HERE, "..", ".."), "src", "resave", "module_names.c")
PROGRAM = """
import json, torch

def classes(of):
    yield of
    for one in of.__subclasses__():
        yield from classes(one)

names = {}
for one in set(classes(torch.nn.Module)):
    if one.__module__.startswith("torch.nn.") and "<" not in one.__qualname__:
        names.setdefault(one.__qualname__, []).append(" ".join(getattr(one, "__dict__").get("__static_attributes__", ())))
print("answer", json.dumps([torch.__version__, names, list(torch.nn.Module().__dict__)]))
"""


def check(ckpt, command, work):
    text = subprocess.run(shlex.split(command) + ["-c", PROGRAM], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, encoding="utf-8", cwd=work).stdout
    version, found, attributes = json.loads(re.search("^answer (.*)$", text, re.M).group(1))
    if not version.startswith(VERSION + "."):
        return 0, []
    with open(SOURCE, encoding="utf-8") as stream:
        source = stream.read()
    rows = re.findall(r'\{ "(\w+)",\s+((?:"[^"]+"\s*)+)\}', source)
    table = [(name, "".join(re.findall('"([^"]*)"', texts))) for name, texts in rows]
    known = re.findall(r'^\t"(\w+)",$', source, re.M)
    wrong = ["the table is not sorted"] * (table != sorted(table))
    wrong += ["%s: %r, in torch %r" % (name, dict(table).get(name, ""), names) for name, names in sorted(found.items()) if names != [dict(table).get(name, "")]]
    wrong += ["%s: no such class" % name for name, _ in table if name not in found]
    wrong += ["attributes of each module: %r, in torch %r" % (known, attributes)] * (known != attributes)
    return len(found), wrong


each_torch.main("names", check, optional=True)

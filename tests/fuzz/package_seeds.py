# SPDX-License-Identifier: Apache-2.0
"""Makes what fuzz_package begins with, as tests/bad does:

    python3 tests/fuzz/package_seeds.py FOLDER
"""
import hashlib
import json
import os
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "bad"))

from files import FOUR_FLOATS, text, torch_file  # noqa: E402
import test_mobile as mobile  # noqa: E402
import test_programs as programs  # noqa: E402


def configs():
    payload = programs.payload
    yield {"w": payload(is_param=True, grad=True), "tied": payload(is_param=True, grad=True)}
    yield {"v": payload(sizes=[2, 2], strides=[1, 2]), "e": payload("empty", sizes=[0])}
    yield {"cuda": payload("weight_1", device={"type": "cuda", "index": 1}, dtype=13, sizes=[]),
           "left out": payload("empty"), "object": payload("custom_obj_0", use_pickle=True)}
    yield {"t": payload("tensor_0", dtype=29, sizes=[64])}


def models():
    m = mobile
    yield m.MODEL
    yield m.module([m.tensor(sizes=[2], offset=1), m.items(0, 0), m.instance(1, 0)])
    quantizer = {0: m.number(1, 0), 1: m.number(8, 0x3FE0000000000000), 2: m.number(4, 3)}
    yield m.module([m.tensor(dtype=12, sizes=[16], fields={6: m.to(quantizer)}), m.value(m.STRING, {0: m.to(b"x")}),
                    m.instance(0, 1)])
    yield m.module([m.tensor(), m.value(m.DICT, {0: m.to(m.words(0)), 1: m.to(m.words(0))}), m.instance(0, 1)],
                   fields={9: m.to(m.words(0)), 1: m.to([{0: m.to(b"notes"), 1: m.to(b"text")}]),
                           8: m.to([{0: m.to(b"__torch__"), 1: m.to(
                               b'class Net(Module):\n  __parameters__ = ["w", ]\n  __buffers__ = []\n')}])})
    yield m.module([m.value(2, m.number(1, 1)), m.value(3, m.number(8, 1)), m.value(4, m.data(FOUR_FLOATS)),
                    m.value(11, {0: m.to(m.words(1, 2))}), m.value(14, {0: m.to(b"cpu")}), m.instance(0, 1)], 5)


def seeds():
    for model in models():
        yield b"\0" + model
    for body in ({"a": programs.tensor()}, {"net": programs.REDUCED},
                 {"u": programs.tensor(programs.int_storage(text("1"), "LongStorage", 2), (2,))}):
        yield b"\1" + programs.pickle_of(**body)
    for config in configs():
        yield b"\2" + json.dumps({"config": config}).encode()
    yield b"\3" + torch_file()
    yield b"\3"


for seed in seeds():
    with open(os.path.join(sys.argv[1], hashlib.sha1(seed).hexdigest()), "wb") as out:
        out.write(seed)

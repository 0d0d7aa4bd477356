# SPDX-License-Identifier: Apache-2.0
"""Pickles made at random, that name things in odd ways. A pickle is a walk over a model of the stack, so that most go far."""

import random
import struct

from assemble import SYSTEM_CALL, blob, files, frame, short

MODULES = [
    "os",
    "posix",
    "torch",
    "torch._utils",
    "collections",
    "builtins",
    "__builtin__",
    "numpy",
    "a",
    "a.b",
    "évil",
    "copy_reg",
]
NAMES = ["system", "OrderedDict", "Size", "_rebuild_tensor_v2", "getattr", "eval", "x", "x.y", "set", "FloatStorage", "ünknown"]
TEXT, ANY, CALLABLE, DICT, LIST, TUPLE, OBJECT, SET, MARK = (
    "text",
    "any",
    "callable",
    "dict",
    "list",
    "tuple",
    "object",
    "set",
    "mark",
)


def in_some_way(rng, text):
    """A text by one of the opcodes that make texts."""
    data = text.encode()
    ways = [short(text), files.text(text), b"\x8d" + struct.pack("<Q", len(data)) + data]
    if text.isascii():
        ways += [
            b"V" + data + b"\n",
            b"S'" + data + b"'\n",
            b"U" + bytes([len(data)]) + data,
            b"T" + struct.pack("<I", len(data)) + data,
            b"V" + b"".join(b"\\u%04x" % c for c in data) + b"\n",
            b'S"' + b"".join(b"\\x%02x" % c for c in data) + b'"\n',
        ]
    return rng.choice(ways)


class Walk:
    def __init__(self, rng):
        self.rng, self.out, self.stack, self.memo = rng, bytearray(), [], {}

    def top(self, count):
        """The COUNT uppermost values, or None if a mark is among them or too few are there."""
        values = self.stack[-count:] if count else []
        return None if len(values) < count or MARK in values else values

    def push(self, opcodes, kind):
        self.out += opcodes
        self.stack.append(kind)

    def take(self, opcodes, count, kind):
        if self.top(count) is None:
            return
        del self.stack[len(self.stack) - count :]
        self.push(opcodes, kind)

    def text(self):
        self.push(in_some_way(self.rng, self.rng.choice(MODULES + NAMES)), TEXT)

    def atom(self):
        opcodes, kind = self.rng.choice(
            [
                (b"N", ANY),
                (b"\x88", ANY),
                (b"K\x01", ANY),
                (b"J\xff\xff\xff\xff", ANY),
                (b"I5\n", ANY),
                (b"L7L\n", ANY),
                (b"F1.5\n", ANY),
                (b"]", LIST),
                (b"}", DICT),
                (b")", TUPLE),
                (b"\x8f", SET),
                (blob(b"ab"), ANY),
                (b"G" + bytes(8), ANY),
                (b"\x8a\x01\x05", ANY),
                (b"C\x03\x80\x02.", ANY),
                (b"I01\n", ANY),
            ]
        )
        self.push(opcodes, kind)

    def global_(self):
        self.push(files.glob(self.rng.choice(MODULES), self.rng.choice(NAMES)), CALLABLE)

    def stack_global(self):
        self.text()
        if self.rng.random() < 0.3:
            self.noise()
        self.text()
        if self.rng.random() < 0.3:
            self.noise()
        if self.top(2) == [TEXT, TEXT]:
            self.take(b"\x93", 2, CALLABLE)

    def inst(self):
        self.out += b"("
        self.out += b"".join(in_some_way(self.rng, "x") for _ in range(self.rng.randrange(3)))
        self.push(b"i%s\n%s\n" % (self.rng.choice(MODULES).encode(), self.rng.choice(NAMES).encode()), OBJECT)

    def obj(self):
        self.out += b"("
        self.global_()
        self.stack.pop()
        self.push(b"K\x01o", OBJECT)

    def noise(self):
        """What leaves the stack as it was."""
        if self.top(1) is None:
            return
        way = self.rng.randrange(7)
        index = self.rng.choice([0, 1, 2, 3, 7, 255, 256, 70000])
        if way == 0:
            self.out += self.rng.choice([b"20", b"N0", b"(1", b"(0", b"(N1", b"K\x05(0" + b"0"])
        elif way == 1:
            self.out += b"\x94"
            self.memo[len(self.memo)] = self.stack[-1]
        elif way in (2, 3):
            self.out += self.rng.choice(
                [b"p%d\n" % index, b"r" + struct.pack("<I", index)] + ([b"q" + bytes([index])] if index < 256 else [])
            )
            self.memo[index] = self.stack[-1]
        elif way == 4 and self.memo:
            index = self.rng.choice(list(self.memo))
            if self.memo[index] == self.stack[-1]:
                self.out += b"0" + self.get(index)
        elif way == 5:
            self.out += b"\x80" + bytes([self.rng.randrange(6)])

    def get(self, index):
        return self.rng.choice(
            [b"g%d\n" % index, b"j" + struct.pack("<I", index)] + ([b"h" + bytes([index])] if index < 256 else [])
        )

    def recall(self):
        if self.memo:
            index = self.rng.choice(list(self.memo))
            self.push(self.get(index), self.memo[index])

    def call(self):
        if self.top(2) and self.stack[-2] == CALLABLE and self.stack[-1] == TUPLE:
            self.take(self.rng.choice([b"R", b"R", b"\x81"]), 2, OBJECT)
        elif self.top(1) == [CALLABLE]:
            self.push(self.rng.choice([b")", b"K\x01\x85", b"(K\x01t"]), TUPLE)
            self.call()

    def gather(self):
        count = self.rng.randrange(4)
        if self.top(count) is not None:
            self.take([b")", b"\x85", b"\x86", b"\x87"][count], count, TUPLE)

    def mark(self):
        self.push(b"(", MARK)

    def close(self):
        if MARK not in self.stack:
            return
        while self.stack.pop() != MARK:
            pass
        self.push(b"t", TUPLE)

    def add(self):
        if self.top(2) and self.stack[-2] == LIST:
            self.take(b"a", 2, LIST)
        elif self.top(3) and self.stack[-3] == DICT:
            self.take(b"s", 3, DICT)
        elif self.top(2) and self.stack[-2] == OBJECT:
            self.take(self.rng.choice([b"b", b"b", b"a"]), 2, OBJECT)
        elif self.top(2) and self.stack[-2] == CALLABLE and self.rng.random() < 0.2:
            self.take(b"b", 2, CALLABLE)

    def drop(self):
        if self.top(1):
            self.out += b"0"
            self.stack.pop()

    def break_(self):
        """Now and then something that ends it, or that few readers take."""
        self.out += self.rng.choice([b"I0x10\n0", b"p0_1\n", b"\x82\x01", b"P1\n0", b"\xff", b"}K\x01b", b"K\x01K\x02a"])

    def run(self):
        steps = [
            (self.text, 4),
            (self.atom, 4),
            (self.global_, 3),
            (self.stack_global, 6),
            (self.inst, 1),
            (self.obj, 1),
            (self.noise, 6),
            (self.recall, 3),
            (self.call, 5),
            (self.gather, 3),
            (self.mark, 1),
            (self.close, 1),
            (self.add, 4),
            (self.drop, 3),
        ]
        choices, weights = zip(*steps)
        for _ in range(self.rng.randrange(3, 40)):
            self.rng.choices(choices, weights)[0]()
            if self.rng.random() < 0.004:
                self.break_()
        if self.rng.random() < 0.2:
            self.out += SYSTEM_CALL
        if not self.stack or self.stack[-1] == MARK:
            self.out += b"N"
        return bytes(self.out) + b"."


def make(seed):
    rng = random.Random(seed)
    body = Walk(rng).run()
    start = rng.choice([b"", b"\x80\x02", b"\x80\x03", b"\x80\x04", b"\x80\x05"])
    return start + (frame(body) if start > b"\x80\x03" and rng.random() < 0.5 else body)

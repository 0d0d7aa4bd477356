# SPDX-License-Identifier: Apache-2.0
"""Another judge of pickles: what do they import? On top of pickletools.genops, with a stack of kinds on which texts are known.

It follows what CPython's unpickler does, opcode by opcode, and stops where that stops. Nothing is imported, made or called.
"""

import io
import pickletools


class Kind(str):
    """What is on the stack. Texts are plain strs."""


MARK, ATOM, TUPLE, LIST, DICT, SET, OBJECT = map(Kind, ("mark", "atom", "tuple", "list", "dict", "set", "object"))


class Stop(Exception):
    """The unpickler would end here, well or not."""


def is_text(value):
    return not isinstance(value, Kind)


TEXTS = {"STRING", "BINSTRING", "SHORT_BINSTRING", "UNICODE", "BINUNICODE", "SHORT_BINUNICODE", "BINUNICODE8"}
PUSHES = dict.fromkeys(
    (
        "NONE",
        "NEWTRUE",
        "NEWFALSE",
        "INT",
        "BININT",
        "BININT1",
        "BININT2",
        "LONG",
        "LONG1",
        "LONG4",
        "FLOAT",
        "BINFLOAT",
        "BINBYTES",
        "SHORT_BINBYTES",
        "BINBYTES8",
        "BYTEARRAY8",
    ),
    ATOM,
)
PUSHES.update(
    EMPTY_LIST=LIST,
    EMPTY_TUPLE=TUPLE,
    EMPTY_DICT=DICT,
    EMPTY_SET=SET,
    PERSID=OBJECT,
    EXT1=OBJECT,
    EXT2=OBJECT,
    EXT4=OBJECT,
    MARK=MARK,
)
GATHERS = {"TUPLE": TUPLE, "LIST": LIST, "DICT": DICT, "FROZENSET": ATOM}
TUPLES = {"TUPLE1": 1, "TUPLE2": 2, "TUPLE3": 3}
CALLS = {"REDUCE": 1, "NEWOBJ": 1, "NEWOBJ_EX": 2}
ADDS = {"APPEND": LIST, "APPENDS": LIST, "SETITEM": DICT, "SETITEMS": DICT, "ADDITEMS": SET}


class Machine:
    def __init__(self):
        self.stack, self.memo, self.found = [], {}, []

    def pop(self, *kinds):
        if not self.stack or self.stack[-1] is MARK or (kinds and self.stack[-1] not in kinds):
            raise Stop
        return self.stack.pop()

    def to_mark(self):
        items = []
        while self.stack and self.stack[-1] is not MARK:
            items.append(self.stack.pop())
        if not self.stack:
            raise Stop
        self.stack.pop()
        return items[::-1]

    def named(self, module, name, position):
        self.found.append((module, name, position))
        self.stack.append(OBJECT)

    def memoize(self, index):
        if not self.stack or self.stack[-1] is MARK:
            raise Stop
        self.memo[index] = self.stack[-1]

    def call(self, extra):
        self.pop(TUPLE, OBJECT)
        for _ in range(extra - 1):
            self.pop()
        self.pop(OBJECT)
        self.stack.append(OBJECT)

    def add(self, opcode):
        added = self.to_mark() if opcode.endswith("S") else [self.pop() for _ in range(2 if opcode == "SETITEM" else 1)]
        if added or opcode != "SETITEMS":
            self.stack.append(self.pop(ADDS[opcode], OBJECT) if added else self.pop())
        if opcode == "SETITEMS" and len(added) % 2:
            raise Stop

    def build(self):
        self.pop()
        self.stack.append(self.pop(OBJECT))

    def name_on_stack(self, position):
        name, module = self.pop(), self.pop()
        if is_text(name) and is_text(module):
            self.named(module, name, position)
        elif OBJECT in (name, module):
            self.stack.append(OBJECT)  # a name that is made by a call
        else:
            raise Stop

    def obj(self):
        if (self.to_mark() or [ATOM])[0] is not OBJECT:
            raise Stop
        self.stack.append(OBJECT)

    def get(self, index):
        if index not in self.memo:
            raise Stop
        self.stack.append(self.memo[index])

    def step(self, opcode, argument, position):
        stack = self.stack
        if opcode in TEXTS:
            stack.append(argument if isinstance(argument, str) else argument.decode("ascii"))
        elif opcode in PUSHES:
            stack.append(PUSHES[opcode])
        elif opcode in GATHERS:
            self.to_mark()
            stack.append(GATHERS[opcode])
        elif opcode in TUPLES:
            for _ in range(TUPLES[opcode]):
                self.pop()
            stack.append(TUPLE)
        elif opcode in CALLS:
            self.call(CALLS[opcode])
        elif opcode in ADDS:
            self.add(opcode)
        elif opcode == "INST":
            self.to_mark()
            self.named(*argument, position)
        elif opcode == "GLOBAL":
            self.named(*argument, position)
        elif opcode == "STACK_GLOBAL":
            self.name_on_stack(position)
        elif opcode == "OBJ":
            self.obj()
        elif opcode == "BUILD":
            self.build()
        elif opcode == "BINPERSID":
            self.pop()
            stack.append(OBJECT)
        elif opcode == "POP":
            if not stack:
                raise Stop
            stack.pop()
        elif opcode == "POP_MARK":
            self.to_mark()
        elif opcode == "DUP":
            value = self.pop()
            stack.extend((value, value))
        elif opcode in ("PUT", "BINPUT", "LONG_BINPUT"):
            self.memoize(argument)
        elif opcode == "MEMOIZE":
            self.memoize(len(self.memo))
        elif opcode in ("GET", "BINGET", "LONG_BINGET"):
            self.get(argument)
        elif opcode in ("STOP", "NEXT_BUFFER", "READONLY_BUFFER") or (opcode == "PROTO" and argument > 5):
            raise Stop


def two_lines(data, position, encoding):
    """Of GLOBAL and INST, as CPython reads them: genops wants ASCII and takes backslashes for escapes."""
    lines = data[position + 1 :].split(b"\n", 2)
    if len(lines) < 3:
        raise Stop
    return (lines[0].decode(encoding), lines[1].decode(encoding)), len(data) - len(lines[2])


ENCODINGS = {"GLOBAL": "utf-8", "INST": "ascii"}


def operations(data):
    """Of genops, but that of GLOBAL and INST the operand is (module, name). ValueError: it cannot be read on."""
    stream, position = io.BytesIO(data), 0
    while True:
        stream.seek(position)
        try:
            for opcode, argument, at in pickletools.genops(stream):
                if opcode.name in ENCODINGS:
                    argument, _ = two_lines(data, at, ENCODINGS[opcode.name])
                position = at
                yield opcode.name, argument, at
                position = stream.tell()
            return
        except ValueError:
            if data[position : position + 1] != b"c":
                raise
            argument, end = two_lines(data, position, "utf-8")
            yield "GLOBAL", argument, position
            position = end


def imports(data):
    """[(module, name, offset)] of the pickle at the start of DATA, and where it ends."""
    machine, end = Machine(), 0
    try:
        for opcode, argument, position in operations(data):
            end = position + 1
            machine.step(opcode, argument, position)
    except (Stop, ValueError):
        pass  # the end, for an unpickler or for genops
    return machine.found, end

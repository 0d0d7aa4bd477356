# SPDX-License-Identifier: Apache-2.0
"""States of numpy's dtypes and arrays that are plain are exactly those that numpy writes: numpy_states.py

The numpy of each Python of CKPT_PYTHON writes many dtypes and arrays. One value of each state is changed; what is plain then, each numpy loads, and has to write the same again. So nothing is
taken that numpy would take and never say.
"""

import os
import subprocess
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import fuzz_plain  # noqa: E402
import language  # noqa: E402
import scanned  # noqa: E402

PLAIN = 0
LEAST_READ = 100  # numpy refuses many, whose data are not as many as their shape says

WRITE = """
import pickle
import numpy as np

VALUES = [None, *range(-2, 34), 63, 64, 127, 128, 255, 256, -128, -112, True, False, 1.0, "<", ">", "=", "|", "", (), {}, "a", b"a", ("x",), ({}, (b"s", 1, 1, 1)), (None, (b"s", 1, 1, 1)), ({}, (b"D", 25, 1, 1)), (1,), [1]]
KINDS = "b1 i1 i2 >i4 i8 u1 u8 f2 f4 >f8 f16 c8 >c16 c32 S3 U3 >U3 V5 O m8[s] M8[ns] >M8[25D] m8".split()
dtypes = [np.dtype(kind) for kind in KINDS] + [np.dtype([("x", "f4"), ("y", ">i2")]), np.dtype([("x", "f4"), ("y", "i1", (2, 3))]), np.dtype({"names": ["a", "b"], "formats": ["i1", "f8"]}, align=True),
          np.dtype(("f4", (2,))), np.dtype([("x", [("z", "U2")])])]


class Made:
    def __reduce__(self):
        return self.parts


def changed(value, deep=0):
    # with another value at one place, at any depth, or one more, or one less
    if isinstance(value, tuple) and deep < 4:
        for place, one in enumerate(value):
            for other in [*(VALUES if deep == 0 else VALUES[::3] + list(value)), *changed(one, deep + 1)]:
                yield value[:place] + (other,) + value[place + 1:]
        yield value[:-1]
        for other in (0, None, "a", "x", *value):
            yield value + (other,)
    elif isinstance(value, dict) and deep < 4:
        for key, one in value.items():
            for other in [*VALUES[::3], *changed(one, deep + 1)]:
                yield {**value, key: other}
            yield {k: v for k, v in value.items() if k != key}
            for other in ("a", b"x", 1, (key,)):
                yield {(other if k == key else k): v for k, v in value.items()}
                yield {**value, other: one}


arrays = [np.zeros(shape, kind) for shape in ((), (1,), (3,), (2, 2), (0,), (0, 2), (1, 2, 1)) for kind in ("f4", "O", "U2", "S3", "M8[s]", [("x", "i2"), ("y", "f8")])] + [np.asfortranarray(np.arange(6.0).reshape(2, 3))]
for value in dtypes + arrays:
    function, arguments, state = value.__reduce__()[:3]
    states = [state, *changed(state)]
    for one in states if arguments else ():
        made = Made()
        made.parts = (function, arguments, one)
        print(pickle.dumps(made, 2).hex())
"""

READ = """
import io, pickle, sys
import numpy as np

ALIGNED = 0x80  # numpy 1 says it of structures that are laid out as in C, and has a sign


class Told:
    def __init__(self, *arguments):
        self.state = None

    def __setstate__(self, state):
        self.state = state


class Teller(pickle.Unpickler):
    def find_class(self, module, name):
        return Told if name in ("dtype", "_reconstruct") else str if name == "ndarray" else super().find_class(module, name)


def said(value):
    if isinstance(value, (np.dtype, np.ndarray)):
        parts = value.__reduce__()
        return said_by(parts[2] if len(parts) > 2 else None)
    if isinstance(value, Told):
        return said_by(value.state)
    if isinstance(value, dict):
        return {said(k): said(v) for k, v in value.items()}
    return tuple(map(said, value)) if isinstance(value, (tuple, list)) else (type(value).__name__, value)


def said_by(state):
    if state and len(state) == 5:  # an array: of one dimension, or of one item, both orders are the same
        state = state[:3] + (isinstance(state[3], bool) and "an order",) + state[4:]
    elif state and isinstance(state[7], int):
        state = state[:7] + (state[7] & 0xFF & ~ALIGNED,) + state[8:]
    return tuple(map(said, state)) if state else None


read = 0
for number, line in enumerate(sys.stdin):
    data = bytes.fromhex(line)
    print("at", number, flush=True)
    try:
        value = pickle.loads(data)
    except Exception:
        continue
    read += 1
    if said(value) != said(Teller(io.BytesIO(data)).load()):
        print("other", number, flush=True)
print("done", read)
"""


def run(command, folder, script, text, lines):
    with open(os.path.join(folder, script), "w", encoding="utf-8") as stream:
        stream.write(text)
    return subprocess.run(command.split() + [script], cwd=folder, input=lines, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, encoding="utf-8", check=False)


def main():
    if not os.environ.get("CKPT_SCAN_MANY") or not os.environ.get("CKPT_PYTHON"):
        print("skipped: CKPT_SCAN_MANY or CKPT_PYTHON is not set, no numpy to ask")
        return 77
    commands, wrong, states = os.environ["CKPT_PYTHON"].split(";"), [], {}
    with scanned.Folder("numpy-states") as folder:
        os.chmod(folder, 0o755)
        for command in commands:
            states.update(dict.fromkeys(run(command, folder, "write.py", WRITE, "").stdout.split()))
        verdicts = fuzz_plain.verdicts([(bytes.fromhex(line), language.BARE) for line in states], folder)
        plain = [line for line, verdict in zip(states, verdicts) if verdict == PLAIN]
        for command in commands:
            done = run(command, folder, "read.py", READ, "".join(line + "\n" for line in plain))
            told = done.stdout.splitlines()
            if not told or not told[-1].startswith("done"):
                wrong.append("%s ended with status %d, behind %s" % (command, done.returncode, plain[int(told[-1].split()[1])] if told else "nothing"))
            elif int(told[-1].split()[1]) < LEAST_READ:
                wrong.append("%s reads %s of %d" % (command, told[-1], len(plain)))
            wrong += ["%s writes otherwise what it reads: %s" % (command, plain[int(line.split()[1])]) for line in told if line.startswith("other")]
    for text in wrong[:40]:
        print("FAIL " + text)
    print("%d states, %d of them plain, %d wrong" % (len(states), len(plain), len(wrong)))
    return 1 if wrong or len(plain) < 20 else 0


if __name__ == "__main__":
    sys.exit(main())

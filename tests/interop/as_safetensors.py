# SPDX-License-Identifier: Apache-2.0
"""torch -> safetensors -> torch, to the bit, judged by torch and by the package safetensors; and headers that are wrong.

    CKPT=build/ckpt CKPT_PYTHON='python3;other-python' CKPT_SAFETENSORS=FOLDER python3 tests/interop/as_safetensors.py

FOLDER holds the unpacked package (pip download --no-deps safetensors; unzip). Without it, or where it is none for a torch's Python,
what ckpt makes of its own files is held against torch alone. CKPT_OPEN_MANY: the program of tests/bad. (A
script called safetensors.py would stand in the package's place wherever it is copied to.)
"""

import json
import os
import random
import shlex
import shutil
import struct
import subprocess
import sys

sys.dont_write_bytecode = True

import each_torch

MUTATED = 20000
BITS = dict(BOOL=8, F4=4, F6_E2M3=6, F6_E3M2=6, U8=8, I8=8, F8_E5M2=8, F8_E4M3=8, F8_E8M0=8, F8_E4M3FNUZ=8, F8_E5M2FNUZ=8, I16=16,
            U16=16, F16=16, BF16=16, I32=32, U32=32, F32=32, C64=64, F64=64, I64=64, U64=64)
TOKENS = [b"{", b"}", b"[", b"]", b",", b":", b'"', b"-", b"0", b"1", b"9", b".", b"e", b"null", b"true", b'"F32"', b'"dtype"', b'"shape"',
          b'"data_offsets"', b'"__metadata__"', b"{}", b"[]", b" ", b"\\", b"\\u0000", b"\\ud83d\\ude00", b"\\ud800", b"\0", b"\xff",
          b"\xc3\xa9", b"\n", b"18446744073709551616", b"9223372036854775807", b"1.0", b"-0", b'"x":1,', b'"x":{"y":[]},', b"0,",
          b'"a":"b",']
# what the package takes, and why it is refused here
STATED = {
    "there are two entries of this name": "the format forbids it, the package takes the last",
    "is there twice": "the same in the metadata",
    "its entry is not an object": "an array of values in the order of its own fields, which the format does not have",
    "its dtype is not a string": "an object with the dtype as key, which the format does not have",
    "too big integer": "sizes beyond 2^63 - 1, which torch cannot hold",
}


# ---- headers ----

def sound(rnd):
    header, end = {}, 0
    if rnd.random() < .5:
        header["__metadata__"] = {"format": "pt", "k\u00e9\"": "v\n"}
    entries = []
    for i in range(rnd.randint(0, 4)):
        dtype, shape = rnd.choice(sorted(BITS)), [rnd.choice([0, 1, 2, 3, 4, 8]) for _ in range(rnd.randint(0, 3))]
        bits = BITS[dtype]
        for size in shape:
            bits *= size
        if bits % 8 == 0:
            items = [("dtype", dtype), ("shape", shape), ("data_offsets", [end, end + bits // 8])]
            rnd.shuffle(items)
            entries.append((rnd.choice("abcdef") + str(i), dict(items)))
            end += bits // 8
    rnd.shuffle(entries)
    header.update(entries)
    text = json.dumps(header, separators=rnd.choice([(",", ":"), (", ", ": ")]), ensure_ascii=rnd.random() < .5).encode()
    return text + b" " * (-len(text) % 8 if rnd.random() < .5 else 0), bytes(end)


def mutated(rnd):
    text, data = sound(rnd)
    text = bytearray(text)
    for _ in range(rnd.choice([0, 1, 1, 1, 1, 2, 3])):
        at, kind = rnd.randrange(len(text) + 1), rnd.randrange(7)
        if kind == 0:
            text[at:at] = rnd.choice(TOKENS)
        elif kind == 1:
            del text[at:at + rnd.choice([1, 1, 2, 5])]
        elif kind == 2 and at < len(text):
            text[at] = rnd.randrange(256)
        elif kind == 3:
            a, b = sorted((at, rnd.randrange(len(text) + 1)))
            text[a:b] = text[a:b] * 2
        elif kind == 4:
            text[at:at + rnd.choice([1, 2, 3])] = rnd.choice(TOKENS)
        elif kind == 5:
            digits = [i for i, byte in enumerate(text) if 48 <= byte <= 57]
            if digits:
                text[rnd.choice(digits)] = rnd.choice(b"0123456789")
        elif kind == 6:
            data = data + b"\0" if rnd.random() < .5 else data[:-1]
    length = len(text)
    if rnd.random() < .03:
        length = max(0, length + rnd.choice([-1, 1, 8, 2**32, 2**63]))
    return struct.pack("<Q", length) + bytes(text) + data


def check_headers(python, work, open_many):
    rnd = random.Random(11)
    files = [mutated(rnd) for _ in range(MUTATED)]
    given = b"".join(struct.pack("<I", len(data)) + data for data in files)
    with open(os.path.join(work, "mutated.bin"), "wb") as out:
        out.write(given)
    subprocess.run(python + ["safetensors_files.py", "judge", "mutated.bin", "verdicts"], cwd=work, check=True, timeout=600)
    with open(os.path.join(work, "verdicts")) as stream:
        theirs = stream.read().splitlines()
    done = subprocess.run([open_many], input=given, stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=600)
    ours = done.stdout.decode("utf-8", "backslashreplace").splitlines()
    if not len(ours) == len(theirs) == MUTATED:
        return 0, ["%d and %d verdicts of %d: %s" % (len(ours), len(theirs), MUTATED, done.stderr.decode()[-2000:])]
    wrong = ["%s | %s | %r" % (their, our, data[:300]) for data, their, our in zip(files, theirs, ours)
             if (their == "ok") != (our == "opened")
             and not (their == "ok" and any(text in our for text in STATED))]
    if not 1000 < theirs.count("ok") < MUTATED - 1000:
        wrong.append("the package takes %d of %d" % (theirs.count("ok"), MUTATED))
    return MUTATED - len(wrong), wrong


# ---- files ----

class Checks:
    def __init__(self, ckpt, folder):
        self.program, self.folder, self.right, self.wrong = ckpt, folder, 0, []

    def check(self, right, text):
        self.right += bool(right)
        if not right:
            self.wrong.append(text)

    def ckpt(self, *arguments, status=0):
        done = subprocess.run([self.program, *arguments], cwd=self.folder, capture_output=True, encoding="utf-8", timeout=300)
        self.check(done.returncode == status, "%s: %d, %s" % (" ".join(arguments), done.returncode, done.stderr))
        return done.stderr

    def identical(self, a, b):
        read = lambda name: open(os.path.join(self.folder, name), "rb").read()
        self.check(read(a) == read(b), "%s and %s differ" % (a, b))


def split(path):
    """(header, data): the package writes the metadata in any order."""
    with open(path, "rb") as stream:
        data = stream.read()
    end = 8 + struct.unpack("<Q", data[:8])[0]
    return json.loads(data[8:end]), data[end:]


def convert_all(c, has_package, unfit):
    for name in ("views", "plain", "tied"):
        shared = ["--shared", "alias"] if name == "tied" else []
        c.ckpt("convert", name + ".pt", name + ".safetensors", *shared)
        c.ckpt("convert", name + ".safetensors", name + ".back.pt")
        c.ckpt("verify", name + ".back.pt")
        c.ckpt("convert", name + ".back.pt", name + ".again.safetensors", *shared)
        c.identical(name + ".safetensors", name + ".again.safetensors")
    c.ckpt("convert", "plain.pt", "cast.safetensors", "--cast", "bf16")
    c.ckpt("convert", "shared.pt", "no.safetensors", status=2)
    c.ckpt("convert", "shared.pt", "no.safetensors", "--shared", "alias", status=2)
    c.ckpt("convert", "shared.pt", "clone.safetensors", "--shared", "clone")
    said = c.ckpt("convert", "mixed.pt", "no.safetensors", status=2)
    for key in unfit:
        c.check("\n  '%s' " % key in said, "%s is not listed: %s" % (key, said))
    c.check(": %d entries cannot be" % len(unfit) in said, said)
    c.ckpt("convert", "mixed.pt", "mixed.safetensors", "--drop-others")
    c.ckpt("diff", "views.pt", "views.safetensors")
    if has_package:
        c.identical("views.safetensors", "views.want")
        c.check(split(os.path.join(c.folder, "tied.safetensors")) == split(os.path.join(c.folder, "tied.want")),
                "tied.safetensors is not what save_model() writes")
        c.ckpt("convert", "plain.want", "plain.same.safetensors")
        c.identical("plain.same.safetensors", "plain.want")
        c.ckpt("convert", "tied.want", "tied.theirs.pt")
        c.ckpt("diff", "tied.pt", "tied.theirs.pt")


def check(ckpt, command, work):
    package, open_many = os.environ.get("CKPT_SAFETENSORS"), os.environ.get("CKPT_OPEN_MANY")
    python = shlex.split(command)
    if package:
        shutil.copytree(package, os.path.join(work, "site"))
    done = subprocess.run(python + ["safetensors_files.py", "make", "files"], cwd=work, capture_output=True, encoding="utf-8",
                          timeout=900)
    if done.returncode:
        return 0, [done.stdout + done.stderr[-3000:]]
    has_package = "\npackage " in "\n" + done.stdout
    unfit = next(line for line in done.stdout.splitlines() if line.startswith("unfit")).split()[1:]
    print("%s: %s" % (command, done.stdout.replace("\n", "; ")))
    c = Checks(ckpt, os.path.join(work, "files"))
    convert_all(c, has_package, unfit)
    done = subprocess.run(python + ["safetensors_files.py", "check", "files"], cwd=work, capture_output=True, encoding="utf-8",
                          timeout=900)
    c.check(done.returncode == 0, done.stderr[-3000:])
    lines = done.stdout.splitlines()
    for name in ("views", "plain", "tied"):
        for line in ["back %s equal" % name, "type %s OrderedDict" % name] + (["file %s equal" % name] if has_package else []):
            c.check(line in lines, "%s: %s" % (line, done.stdout))
    for line in ["tied True"] + (["cast equal", "model equal", "clone equal"] if has_package else []):
        c.check(line in lines, "%s: %s" % (line, done.stdout))
    if has_package and open_many:
        right, wrong = check_headers(python, work, open_many)
        return c.right + right, c.wrong + wrong
    return c.right, c.wrong


each_torch.main("safetensors", check)

# SPDX-License-Identifier: Apache-2.0
"""Small files whose shared containers unfold without end ("a billion laughs"), and every command: an answer within ten seconds and
a gibibyte."""

import os
import resource
import subprocess
import sys
import tempfile
import time

import common

sys.path.insert(0, os.path.join(common.SOURCE, "tests", "bad"))
from files import archive, glob, number, pickled, tensor, text, torch_file, torch_records  # noqa: E402

LEVELS = 40  # 2**40 ways to the innermost
SECONDS = 10
MEGABYTES = 1024

READING = [["ls", "IN"], ["ls", "--json", "IN"], ["info", "IN"], ["cat", "IN", "a"], ["verify", "IN"], ["stat", "IN"], ["scan", "IN"],
           ["scan", "--strict", "IN"], ["why", "IN"], ["dis", "-q", "IN"], ["diff", "IN", "IN"], ["diff", "--strict", "IN", "IN"],
           ["latest", "FOLDER"], ["edit", "--sanitize", "--compact", "IN", "OUT"], ["merge", "--int-keys", "IN", "OUT"], ["average", "IN", "IN", "OUT"],
           ["convert", "--state-dict", "IN", "OUT"], ["convert", "--at", "a", "IN", "OUT"], ["select", "--keep", "re:.*", "IN", "OUT"],
           ["rename", "--at", "a", "-e", "s/a/b/", "IN", "OUT"], ["convert", "--sanitize", "--to", "safetensors", "--drop-others", "IN", "OUT"]]


def double(leaf, twice):
    """LEAF, then TWICE(the one before, how to mention it) LEVELS times. Each is kept in the memo under a number of its own."""
    data = leaf + b"r\0\0\0\0" + b"0"
    for i in range(LEVELS):
        before = b"j" + i.to_bytes(4, "little")
        data += twice(before) + b"r" + (i + 1).to_bytes(4, "little") + b"0"
    return data + b"j" + LEVELS.to_bytes(4, "little")


def mapping(kind):
    return lambda before: kind + b"(" + text("a") + before + text("b") + before + b"u"


def thing(state):
    """An object of a class of the user's."""
    return glob("mine", "Net") + b")\x81" + state + b"b"


def module(before):
    members = b"}(" + text("a") + before + text("b") + before + b"u"
    return thing(b"}(" + text("_parameters") + b"}" + text("_buffers") + b"}" + text("_modules") + members + text("training") + b"\x88u")


ORDERED = glob("collections", "OrderedDict") + b")R"
COUNTED = glob("collections", "Counter")
NUMPY = glob("numpy.core.multiarray", "_reconstruct") + glob("numpy", "ndarray") + b"K\0\x85" + text("b") + b"\x87R"

BOMBS = {
    "lists": double(b"]", lambda before: b"](" + before * 2 + b"e"),
    "tuples": double(b")", lambda before: before * 2 + b"\x86"),
    "dicts": double(b"}", mapping(b"}")),
    "dicts with a tensor": double(b"}" + text("w") + tensor() + b"s", mapping(b"}")),
    "ordered": double(b"}" + text("w") + tensor() + b"s", mapping(ORDERED)),
    "lists with a tensor": double(b"]" + tensor() + b"a", lambda before: b"](" + before * 2 + b"e"),
    "tuples with a tensor": double(tensor() + b"\x85", lambda before: before * 2 + b"\x86"),
    "lists of dicts": double(b"}" + text("w") + tensor() + b"s", lambda before: b"](" + (b"}" + text("a") + before + b"s") * 2 + b"e"),
    "counters": double(b"}", lambda before: COUNTED + b"}(" + text("a") + before + text("b") + before + b"u\x85R"),
    "keys": double(b")", lambda before: before * 2 + b"\x86") + b"r\xff\0\0\0" + b"0}j\xff\0\0\0" + tensor() + b"s",
    "objects": double(thing(b"}"), lambda before: thing(b"}(" + text("a") + before + text("b") + before + b"u")),
    "modules": double(module(b"N"), module),
    "arguments": double(b")", lambda before: glob("mine", "make") + before * 2 + b"\x86R"),
    "states": double(b"}", lambda before: NUMPY + b"(" + before * 2 + b"tb"),
    "sets": double(b")", lambda before: glob("builtins", "set") + b"](" + before + before + b"\x86" + before + b"e\x85R0" + before * 2 + b"\x86"),
    "groups": double(b"}", lambda before: b"}(" + text("state") + before + text("param_groups") + b"](" + before * 2 + b"eu"),
    "metadata": double(b"}", lambda before: ORDERED + b"(" + text("a") + before + b"u}" + text("_metadata") + before + b"sb"),
    "tensor attributes": double(tensor(), lambda before: glob("torch._utils", "_rebuild_parameter_with_state") + b"(" + before + b"\x88"
                                + ORDERED + b"}(" + text("x") + before + text("y") + before + b"utR"),
}


def wide(data):
    """The same behind a root that commands look into."""
    return b"}(" + text("a") + data + text("model") + ORDERED + b"(" + text("module.w") + tensor() + b"u" + text("epoch") + number(3) + b"u"


def inputs(folder):
    for name, data in BOMBS.items():
        base = os.path.join(folder, name.replace(" ", "_"))
        for form, pickle in (("root", data), ("entry", wide(data))):
            with open("%s.%s.pt" % (base, form), "wb") as file:
                file.write(torch_file(pickled(pickle)))
        with open(base + ".pkl", "wb") as file:
            file.write(pickled(data))
        os.mkdir(base + ".ranks")
        for rank in range(2):
            with open(os.path.join(base + ".ranks", "model_rank_%d.pt" % rank), "wb") as file:
                file.write(torch_file(pickled(wide(data))))
        with open(base + ".package", "wb") as file:
            file.write(archive([(".data/version", b"6\n"), ("m/model.pkl", pickled(data)), (".data/extern_modules", b"")]))
    assert torch_records()
    return sorted(os.path.join(folder, name) for name in os.listdir(folder))


def limits():
    resource.setrlimit(resource.RLIMIT_CPU, (SECONDS, SECONDS))
    resource.setrlimit(resource.RLIMIT_AS, (MEGABYTES << 20, MEGABYTES << 20))


def run(arguments):
    start = time.monotonic()
    try:
        done = subprocess.run([common.CKPT, *arguments], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                              preexec_fn=limits, timeout=6 * SECONDS, check=False)
    except subprocess.TimeoutExpired:
        return "did not end"
    err = done.stderr.decode(errors="replace")
    if done.returncode not in (0, 1, 2, 3, 4, 64) or "Sanitizer" in err:
        return "exit code %d after %.1f s: %s" % (done.returncode, time.monotonic() - start, err[:300])
    if len(done.stdout) > 64 << 20:
        return "%d bytes of output" % len(done.stdout)
    return None


def main():
    if os.environ.get("CKPT_SANITIZED") == "1":
        print("time and memory are those of a build without sanitizers")
        return 77
    findings = count = 0
    commands = READING + [words for words, _ in common.COMMANDS]
    if not os.environ.get("CKPT_TEST_LONG"):
        commands = commands[::2]
    with tempfile.TemporaryDirectory(dir=os.environ.get("CKPT_TEST_DIR")) as folder:
        os.mkdir(os.path.join(folder, "in"))
        for source in inputs(os.path.join(folder, "in")):
            if not os.environ.get("CKPT_TEST_LONG") and not source.endswith(".entry.pt"):
                continue
            for words in commands:
                out = os.path.join(folder, "out")
                words = [os.path.dirname(source) if word == "FOLDER" else word for word in words]
                wrong = run(common.fill(words, source, out))
                count += 1
                if wrong:
                    findings += 1
                    print("%s of %s: %s" % (" ".join(words), os.path.basename(source), wrong), flush=True)
                subprocess.run(["rm", "-rf", out, os.path.join(folder, ".out.ckpt-staged")], check=True)
    print("%d commands, %d findings" % (count, findings))
    return 1 if findings else 0


if __name__ == "__main__":
    os.makedirs(os.environ.get("CKPT_TEST_DIR") or tempfile.gettempdir(), exist_ok=True)
    sys.exit(main())

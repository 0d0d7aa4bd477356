# SPDX-License-Identifier: Apache-2.0
"""`ckpt scan` of pickles made at random lists everything that another judge finds in them: random_judge.py [COUNT] [FIRST SEED]

And a call of os.system is found whatever comes behind it; so is an import before a pickle breaks off, in what is called a text.
"""

import os
import random
import re
import sys

import assemble
import judge
import random_pickles
import scanned

HARMLESS = {
    "collections.OrderedDict",
    "torch.Size",
    "torch._utils._rebuild_tensor_v2",
    "builtins.set",
    "__builtin__.set",
    "torch.FloatStorage",
}
BATCH = 500


def write(folder, name, data):
    path = os.path.join(folder, name)
    with open(path, "wb") as stream:
        stream.write(data)
    return path


def check_one(count, name, data, found):
    imports, _ = judge.imports(data)
    if not found and (not imports or (len(imports) == 1 and data[:1] == b"c")):
        return  # a text that has nothing to run, or whose first line begins with c
    if not found:
        count.expect(False, "seed %s was passed over" % name)
        return
    missing = scanned.left_out(found, imports)
    # without PROTO, and broken before anything is called: bytes of no kind, which are unreadable
    of_no_kind = found["verdict"] == "unreadable" and data[:1] != b"\x80"
    count.expect(not missing or of_no_kind, "seed %s: the list of globals leaves out %s" % (name, ", ".join(sorted(missing))))
    names = {"%s.%s" % (module, what) for module, what, _ in imports}
    verdict = found["verdict"]
    count.expect(
        names <= HARMLESS or verdict != "plain", "seed %s is plain and imports %s" % (name, ", ".join(sorted(names - HARMLESS)))
    )
    called = "os.system" in names and data.endswith(assemble.SYSTEM_CALL + b".")
    count.expect(not called or verdict == "dangerous", "seed %s is %s and ends with a call of os.system" % (name, verdict))


def check_random(count, folder, seeds):
    for seed in seeds:
        write(folder, "%d.pkl" % seed, random_pickles.make(seed))
    _, found = scanned.scan(folder)
    for seed in seeds:
        path = os.path.join(folder, "%d.pkl" % seed)
        check_one(count, seed, random_pickles.make(seed), found.get(path))


def check_tails(count, folder, seeds):
    """The call, and behind it anything."""
    paths = []
    for seed in seeds:
        rng = random.Random(seed)
        body = random_pickles.Walk(rng).run()
        tail = bytes(rng.randrange(256) for _ in range(rng.randrange(40))) if seed % 2 else body[: rng.randrange(len(body))]
        paths.append(
            write(
                folder,
                "tail_%d.pkl" % seed,
                rng.choice([b"", b"\x80\x02", b"\x80\x04"]) + assemble.SYSTEM_CALL + rng.choice([b"", b"0"]) + tail,
            )
        )
    _, found = scanned.scan(folder)
    for path in paths:
        verdict = found.get(path, {"verdict": "passed over"})["verdict"]
        count.expect(verdict == "dangerous", "%s is %s: a call of os.system, then something" % (os.path.basename(path), verdict))


# What Python would import first, wherever the name leads: docs/scan.md
MODULE = re.compile(r"\.*([\w-]+)(?:$|\.)")


def may_import(module):
    first = MODULE.match(module)
    return bool(first) and ("\0" not in module or first.group(1) in sys.stdlib_module_names)


def check_cut(count, folder, seeds):
    """It breaks off anywhere, and is called a text."""
    made = {}
    for seed in seeds:
        rng = random.Random(seed)
        data = bytes(random_pickles.make(seed))
        data = data[2:] if data[:1] == b"\x80" and rng.random() < 0.7 else data
        data = rng.choice([b"", b"", b"cthis\n", b"(ithis.x\n", b"Vos\nVx\n\x93"])[:rng.randrange(12)] + data[: rng.randrange(1, len(data) + 1)]
        data += rng.choice([b"", b"\n", b"\nand a text\n", b"\xff", b"and\nlines\n"])
        made[write(folder, "cut_%d.%s" % (seed, rng.choice(["txt", "json", "md", "csv"])), data)] = data
    _, found = scanned.scan(*made)
    for path, data in made.items():
        modules = [module for module, _, _ in judge.imports(data)[0] if may_import(module)]
        own = {"%s.%s" % (module, what) for module, what, _ in judge.imports(data)[0]} - HARMLESS
        verdict = found.get(path, {"verdict": "plain"})["verdict"]
        count.expect(not modules or not own or verdict != "plain", "%s is %s, and imports %s" % (os.path.basename(path), verdict, ", ".join(modules)))


def main():
    total = int(sys.argv[1]) if len(sys.argv) > 1 else 1000 if scanned.SANITIZED else 4000
    first = int(sys.argv[2]) if len(sys.argv) > 2 else 0
    count = scanned.Count()
    for start in range(first, first + total, BATCH):
        with scanned.Folder("random") as folder:
            check_random(count, folder, range(start, min(start + BATCH, first + total)))
        with scanned.Folder("tails") as folder:
            check_tails(count, folder, range(start, min(start + BATCH, first + total)))
        with scanned.Folder("cut") as folder:
            check_cut(count, folder, range(start, min(start + BATCH, first + total)))
    count.end()


if __name__ == "__main__":
    main()

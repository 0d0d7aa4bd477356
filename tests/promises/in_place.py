# SPDX-License-Identifier: Apache-2.0
"""An edit in place changes its file and nothing else, to what the same edit writes to OUT; or it changes nothing.

After each edit, whatever it was: `ckpt diff --strict` finds no difference to IN OUT, `ckpt verify` no damage, links lead where
they led, all names of one file show one file, modes stay, and nothing is left beside it. Several edits follow each other in one
file, some with --free.
"""

import os
import shutil
import stat

import common
from common import Finding, ckpt

# those of COMMANDS that have -i, and some with options that only matter there
MORE = [
    ["cast", "--all", "float16", "IN", "OUT"],
    ["cast", "--check-overflow", "float16", "IN", "OUT"],
    ["cast", "--all", "--check-overflow", "float8_e4m3fn", "IN", "OUT"],
    ["edit", "--if-present", "--drop", "optimizer", "--strip-module", "--cast-all", "bfloat16", "IN", "OUT"],
    ["edit", "--strip-wrappers", "--if-present", "--check-overflow", "--cast", "float16", "IN", "OUT"],
    ["select", "--drop", "optimizer", "--if-present", "IN", "OUT"],
    ["select", "--drop", "*.0.*", "--if-present", "IN", "OUT"],
]
WITHOUT_PLACE = ("convert", "split", "reshard", "merge", "reindex", "average", "repair", "broadcast")
EDITS = [words for words, _ in common.COMMANDS if words[0] not in WITHOUT_PLACE and "--hard-link" not in words] + MORE


def names_of(rng, source, work):
    """Other names of a file: what they are called, and the one that the edit is given."""
    how = rng.choice(["one", "one", "one", "hard link", "link", "link elsewhere"])
    if os.path.isdir(source) or how == "one":
        return "one", source
    other = os.path.join(work, "sub", "other") if how == "link elsewhere" else os.path.join(work, "other")
    os.makedirs(os.path.dirname(other), exist_ok=True)
    if how == "hard link":
        os.link(source, other)
    else:
        os.symlink(os.path.relpath(source, os.path.dirname(other)), other)
    return how, other


def check_same(source, wanted, told):
    if os.path.exists(wanted):
        # the order of the keys of a set is that of its files, which IN OUT writes in their order
        strict = ["--strict"] * (not os.path.basename(source).startswith("hf"))
        same = ckpt("diff", *strict, source, wanted)
        if same.code:
            raise Finding("not what IN OUT gives: %s\n%s" % (same, told))
    sound = ckpt("verify", "-q", source)
    if sound.code == 1:
        raise Finding("damaged: %s\n%s" % (sound, told))


def edit(rng, source, named, work):
    words = rng.choice(EDITS)
    options = rng.sample(["-f", "-n", "--free"], rng.choice([0, 0, 1, 1, 2]))
    if words[0] == "sanitize" or os.path.isdir(source):
        options = [option for option in options if option != "--free"]
    wanted = os.path.join(os.path.dirname(work), os.path.basename(work) + ".wanted")
    before, mode = common.snapshot(work), stat.S_IMODE(os.stat(source).st_mode)
    there = ckpt(*common.fill(words, source, wanted, [option for option in options if option == "-n"]))
    if common.difference(before, common.snapshot(work)):
        raise Finding("IN OUT changed something: %s" % there)
    argv = [words[0], "-i", *options, *[named if word == "IN" else word for word in words[1:] if word != "OUT"]]
    done = ckpt(*argv, cwd=work)
    told = "%s\nIN OUT: %s" % (done, there)
    after = common.snapshot(work)
    if done.code or "-n" in options:
        if common.difference(before, after):
            raise Finding("%s\n%s" % (common.difference(before, after), told))
    else:
        if there.code:
            raise Finding("done in place, but not to OUT: " + told)
        changed = [name for name in set(before) | set(after) if before.get(name) != after.get(name)]
        inside = [name for name in changed if name != os.path.relpath(source, work) and not name.startswith(os.path.relpath(source, work) + os.sep)]
        inside = [name for name in inside if not (name in after and after[name][0] == "file" and os.path.samefile(os.path.join(work, name), source))]
        if inside:
            raise Finding("beside the file %s changed: %s" % (inside, told))
        if stat.S_IMODE(os.stat(source).st_mode) != mode:
            raise Finding("another mode: " + told)
        if not os.path.samefile(source, named):
            raise Finding("its names have parted: " + told)
        check_same(source, wanted, told)
    if os.path.isdir(wanted):
        shutil.rmtree(wanted)
    elif os.path.lexists(wanted):
        os.unlink(wanted)
    return done.code == 0 and "-n" not in options


def program(rng, inputs, work):
    kind = rng.choice(sorted(common.KINDS))
    source = os.path.join(work, kind)
    common.copy(os.path.join(inputs, kind), source)
    if not os.path.isdir(source):
        os.chmod(source, rng.choice([0o600, 0o644, 0o640, 0o664]))
    with open(os.path.join(work, "notes.txt"), "w") as file:
        file.write("mine\n")
    _, named = names_of(rng, source, work)
    for _ in range(rng.choice([1, 1, 2, 5])):
        edit(rng, source, named, work)


if __name__ == "__main__":
    common.rounds(program, 100, 3000)

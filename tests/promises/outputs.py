# SPDX-License-Identifier: Apache-2.0
"""Nothing but OUT changes, whatever OUT is, and not even that where the command fails or is a dry run."""

import os

import common
from common import Finding, ckpt

FOREIGN = {"notes.txt": "mine\n", "logs/run.txt": "mine, too\n"}


def write(path, text):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w") as file:
        file.write(text)


def files_of(path):
    if not os.path.isdir(path):
        return [path]
    return sorted(os.path.join(folder, name) for folder, _, names in os.walk(path) for name in names)


def put_foreign(out):
    for name, text in FOREIGN.items():
        write(os.path.join(out, name), text)


def choose_out(rng, words, source, work):
    """What OUT is, made as it has to be: the path, and files in it that must stay."""
    out = os.path.join(work, rng.choice(["out", "out", "a\nb", "-out", "sub/out", "out.safetensors", "out.npz"]))
    os.makedirs(os.path.dirname(out), exist_ok=True)
    how = rng.choice(["new", "file", "empty", "foreign", "own", "own and foreign", "input", "file of input", "around", "link to input",
                      "link to file", "dangling", "nowhere", "slash", "below"])
    keep = {}
    if how == "file":
        write(out, "old\n")
    elif how == "empty":
        os.mkdir(out)
    elif how == "foreign":
        put_foreign(out)
        keep = FOREIGN
    elif how.startswith("own"):
        ckpt(*common.fill(words, source, out))
        if how != "own" and os.path.isdir(out):
            put_foreign(out)
            keep = FOREIGN
    elif how == "input":
        out = source
    elif how == "file of input":
        out = rng.choice(files_of(source))
    elif how == "around":
        out = work
    elif how == "link to input":
        os.symlink(rng.choice([source, os.path.basename(source), rng.choice(files_of(source))]), out)
    elif how == "link to file":
        os.symlink("elsewhere/file", out)
    elif how == "dangling":
        os.symlink("elsewhere/none", out)
    elif how == "nowhere":
        out = os.path.join(work, "none", "out")
    elif how == "slash":
        out += "/"
    elif how == "below":
        out = os.path.join(source, "new") if os.path.isdir(source) else out
    return how, out, keep


def program(rng, inputs, work):
    kind = rng.choice(sorted(common.KINDS))
    words, _ = rng.choice(common.COMMANDS)
    options = rng.choice([[], ["-f"], ["-f"], ["-n"], ["-f", "-n"], ["--no-sync", "-f"]])
    if words[0] == "broadcast":
        options = rng.choice([[], ["--if-exists", "replace"], ["--if-exists", "error"], ["--if-exists", "reuse"]])
    source = os.path.join(work, kind)
    common.copy(os.path.join(inputs, kind), source)
    write(os.path.join(work, "elsewhere", "file"), "elsewhere\n")
    how, out, keep = choose_out(rng, words, source, work)
    relative = rng.random() < 0.3
    arguments = common.fill(words, source, out, options)
    if relative:
        arguments = [os.path.relpath(word, work) + "/" * word.endswith("/") if word.startswith("/") else word for word in arguments]
    place = out.rstrip("/")
    before, whole = common.snapshot(work, place), common.snapshot(work)
    result = ckpt(*arguments, cwd=work)
    told = "OUT is %s: %s" % (how, result)
    there = common.snapshot(work, place)
    if words[0] == "broadcast":
        # cp's rule: into a folder, under the source's name; and a note of what was staged
        before, there = ({name: what for name, what in tree.items() if not name.endswith(".ckpt-staged")} for tree in (before, there))
    if how != "around" and common.difference(before, there):
        raise Finding("something beside OUT changed: %s\n%s" % (common.difference(before, there), told))
    if result.code or "-n" in options:
        if common.difference(whole, common.snapshot(work)):
            raise Finding("%s\n%s" % (common.difference(whole, common.snapshot(work)), told))
    elif os.path.relpath(source, work) in whole and place == source:
        raise Finding("the input was overwritten: " + told)
    for name, text in keep.items():
        if not os.path.exists(os.path.join(out, name)) or open(os.path.join(out, name)).read() != text:
            raise Finding("%s is gone: %s" % (name, told))
    for name in common.snapshot(work):
        if ".ckpt-" in name and not name.endswith(".ckpt-staged") and name not in whole:
            raise Finding("%s is left: %s" % (name, told))


if __name__ == "__main__":
    common.rounds(program, 150, 3000)

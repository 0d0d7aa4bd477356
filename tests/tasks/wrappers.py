# SPDX-License-Identifier: Apache-2.0
"""Names of wrappers: one command takes them off, and 'ckpt why' says one whose result a plain model loads.

Each torch makes the files of wrappers_files.py and loads what ckpt makes of them: with --strip-wrappers of strip-prefix, edit and
convert, in place, and by the line that 'ckpt why' prints of the file alone and of each message of torch. And where what a user would
type first does not make a plain model, it prints the one line that does.
CKPT, CKPT_PYTHON and CKPT_TEST_DIR as for tests/interop/run.py.
"""
import json
import os
import shlex
import shutil
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "interop"))
import each_torch


def run(ckpt, work, arguments, text=""):
    return subprocess.run([ckpt] + arguments, cwd=work, input=text, stdout=subprocess.PIPE, stderr=subprocess.PIPE, encoding="utf-8",
                          errors="replace", check=False)


def notes(stderr):
    """All but that the model is a part of the file, as was asked for."""
    lines = stderr.splitlines()
    return [line for i, line in enumerate(lines) if not (line.startswith("ckpt: note: the model is still under '") or
                                                         i and lines[i - 1].startswith("ckpt: note: the model is still under '"))]


def strip(ckpt, work, name, one):
    """[[FILE, NAME, ENTRY, NAMES]] to be loaded, and what is wrong already."""
    source, todo, wrong = "out/%s.pt" % name, [], []
    shutil.copy(os.path.join(work, source), os.path.join(work, "out/%s-i.pt" % name))
    for out, arguments in (("out/%s-1.pt" % name, ["strip-prefix", "--strip-wrappers", source]),
                           ("out/%s-2.pt" % name, ["edit", "--strip-wrappers", source]),
                           ("out/%s-3.pt" % name, ["convert", source, "--strip-wrappers"]),
                           ("out/%s-i.pt" % name, ["strip-prefix", "-i", "--strip-wrappers"])):
        done = run(ckpt, work, arguments + [out])
        if done.returncode or notes(done.stderr):
            wrong.append("%s: %s: %d %s" % (name, arguments, done.returncode, done.stderr))
        else:
            todo.append([out, name, one["entry"], one["names"]])
    return todo, wrong


def why(ckpt, work, name, error, entry):
    """The same of the line that is advised; there has to be one."""
    done = run(ckpt, work, ["why", "--json", "out/%s.pt" % name] + (["--error", "-"] if error else []), error or "")
    causes = json.loads(done.stdout)["causes"] if done.stdout else []
    lines = [way["text"] for cause in causes for way in cause["mends"] if way["kind"] == "command"]
    python = [way["text"] for cause in causes for way in cause["mends"] if way["kind"] == "python"]
    if len(lines) != 1 or python:
        return [], ["%s: why %s: %s %s %s" % (name, (error or "alone")[:200], lines, python, done.stderr)]
    words = shlex.split(lines[0])
    path = os.path.dirname(ckpt) + os.pathsep + os.environ["PATH"]
    done = subprocess.run(["sh", "-c", lines[0]], cwd=work, env=dict(os.environ, PATH=path), stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, encoding="utf-8", check=False)
    out = words[3] if words[1] == "edit" else words[-1]
    if done.returncode or notes(done.stderr):
        return [], ["%s: %s: %d %s" % (name, lines[0], done.returncode, done.stderr)]
    kept = "out/%s-why%d.pt" % (name, len(os.listdir(os.path.join(work, "out"))))
    os.rename(os.path.join(work, out), os.path.join(work, kept))
    return [[kept, name, entry, None, lines[0]]], []


GUESSES = (["strip-module"], ["strip-prefix", "module."], ["strip-prefix", "model."], ["strip-prefix", "--strip-wrappers"],
           ["extract", "model"], ["extract", "state_dict"], ["convert"], ["edit", "--strip-module"], ["convert", "--strip-module"])
FOR_PLAIN = "hint: for a plain model: "


def first_guess(ckpt, work, name):
    """The same of a trainer's file, where a guess or the line that it prints makes a plain model: nothing else is left over."""
    todo, wrong = [], []
    path = os.path.dirname(ckpt) + os.pathsep + os.environ["PATH"]
    for i, words in enumerate(GUESSES):
        out = "out/%s-guess%d.pt" % (name, i)
        done = run(ckpt, work, words + ["out/%s.pt" % name, out])
        lines = [line[len(FOR_PLAIN):] for line in done.stderr.splitlines() if line.startswith(FOR_PLAIN)]
        line = lines[0] if lines else ""
        if lines:
            done = subprocess.run(["sh", "-c", line], cwd=work, env=dict(os.environ, PATH=path), stdout=subprocess.PIPE,
                                  stderr=subprocess.PIPE, encoding="utf-8", check=False)
        if len(lines) > 1 or done.returncode or done.stderr:
            wrong.append("%s: %s: %s: %d %s" % (name, words, line, done.returncode, done.stderr))
        else:
            todo.append([out, name, None, None, "%s: %s" % (words, line)])
    return todo, wrong


def check_torch(ckpt, command, work):
    shutil.copy(os.path.join(HERE, "wrappers_files.py"), work)
    subprocess.run(command.split() + ["wrappers_files.py", "make"], cwd=work, check=True, stderr=subprocess.DEVNULL)
    with open(os.path.join(work, "made.json")) as file:
        made = json.load(file)
    todo, wrong = [], []
    for name, one in sorted(made.items()):
        # --strip-wrappers takes the model's own "module", too; and an attribute of Lightning stays
        found = [strip(ckpt, work, name, one)] if not name.startswith(("own", "lightning")) else []
        found.append(why(ckpt, work, name, None, None))
        if one["entry"] and not name.startswith("own"):
            found.append(first_guess(ckpt, work, name))
        for error, entry in zip(one["errors"], [None, one["entry"]]):
            found.append(why(ckpt, work, name, error, entry))
        for files, what in found:
            todo += files
            wrong += what
    with open(os.path.join(work, "todo.json"), "w") as file:
        json.dump([one[:4] for one in todo], file)
    subprocess.run(command.split() + ["wrappers_files.py", "check"], cwd=work, check=True, stderr=subprocess.DEVNULL)
    with open(os.path.join(work, "checked.json")) as file:
        wrong += ["%s: %s" % (one, answer) for one, answer in zip(todo, json.load(file)) if answer]
    return len(todo), wrong


if __name__ == "__main__":
    each_torch.main("wrappers", check_torch)

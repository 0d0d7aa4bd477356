# SPDX-License-Identifier: Apache-2.0
"""'ckpt why' knows what real torch says of a load that fails, and what it advises makes it load.

Each torch makes the files of why_cases.py and fails on them; what it printed is given to 'ckpt why', which has to find the cause.
Its command lines are run by a shell, and what they write, and its lines of Python, are loaded by the same torch.
CKPT, CKPT_PYTHON and CKPT_TEST_DIR as for run.py.
"""
import json
import os
import shlex
import shutil
import subprocess

import each_torch

# what a shell may be told beside ckpt, if it is there
OTHERS = ("gzip", "tar")
# what fails by itself: the package is not there, or it wants the caller's own model
NOT_RUN = ("safetensors.", "torch.package.", "torch.distributed.")


def why(ckpt, folder, file, text):
    command = [ckpt, "why", "--json"] + ([file] if file else []) + (["--error", "-"] if text is not None else [])
    done = subprocess.run(command, cwd=folder, input=(text or "").encode(), stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          check=False)
    if done.returncode not in (0, 1):
        return None, "exit status %d: %s" % (done.returncode, done.stderr.decode()[:300])
    try:
        return json.loads(done.stdout.decode())["causes"], ""
    except ValueError:
        return [], "exit status %d, no JSON: %s" % (done.returncode, done.stderr.decode()[:2000])


def run_line(ckpt, folder, line):
    """The file that the line writes; what is wrong."""
    words = shlex.split(line)
    if words[0] != "ckpt" and (words[0] not in OTHERS or not shutil.which(words[0])):
        return None, ""
    path = os.path.dirname(ckpt) + os.pathsep + os.environ["PATH"]
    done = subprocess.run(["sh", "-c", line], cwd=folder, env=dict(os.environ, PATH=path), stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, encoding="utf-8", errors="replace", check=False)
    if done.returncode > (words[:2] == ["ckpt", "repair"]): # 1: not all of it could be saved
        return None, "%s: exit status %d: %s" % (line, done.returncode, done.stdout[:300])
    out = words[3] if words[1] == "edit" else words[-1].lstrip(">")
    if not os.path.exists(os.path.join(folder, out)):
        return None, "%s: there is no %s" % (line, out)
    return out, ""


def mend(ckpt, folder, name, one, cause, todo):
    """What is wrong; what torch is to load goes into the last argument."""
    wrong = []
    for way in cause["mends"]:
        if way["kind"] == "command" and (one["mends"] or way["text"].startswith("ckpt")):
            out, what = run_line(ckpt, folder, way["text"])
            if what:
                wrong.append("%s: %s" % (name, what))
            if out and one["mends"]:
                todo.append([name, "command", out])
        elif way["kind"] == "python" and not way["text"].startswith(NOT_RUN):
            todo.append([name, "python", way["text"]])
    return wrong


def check_case(ckpt, work, name, one, todo):
    """Both forms of the message lead to the cause; the first way out that mends is tried."""
    folder = os.path.join(work, "out", name)
    if not one["messages"] or not one["messages"][0]:
        return ["%s: torch does not fail" % name]
    for text in one["messages"]:
        causes, what = why(ckpt, folder, one["file"], text)
        if causes is None or not causes or causes[0]["id"] not in one["causes"]:
            return ["%s: found %s %s, wanted %s: %s" % (name, [c["id"] for c in causes or []], what, one["causes"], text[-300:])]
    wrong = mend(ckpt, folder, name, one, causes[0], todo)
    general, what = why(ckpt, folder, None, one["messages"][0])
    if not general and not what and one["causes"][0] not in ("truncated",):
        what = "nothing is said without the file"
    if what:
        wrong.append("%s: %s" % (name, what))
    if one["file"]: # alone, nothing may go wrong
        what = why(ckpt, folder, one["file"], None)[1]
        if what:
            wrong.append("%s: alone: %s" % (name, what))
    return wrong


def is_expected(name, kind, text, answer, made):
    """Python that this torch, or this machine, cannot do: what it is about is the message itself."""
    if "weights_only" in answer or "out of range" in answer:
        return True
    return kind == "python" and not made[name]["mends"]


def check_torch(ckpt, command, work):
    subprocess.run(command.split() + ["why_cases.py", "make"], cwd=work, check=True, stderr=subprocess.DEVNULL)
    with open(os.path.join(work, "made.json")) as file:
        made = json.load(file)
    wrong, todo = [], []
    for name, one in sorted(made.items()):
        wrong += check_case(ckpt, work, name, one, todo)
    with open(os.path.join(work, "todo.json"), "w") as file:
        json.dump(todo, file)
    subprocess.run(command.split() + ["why_cases.py", "check"], cwd=work, check=True)
    with open(os.path.join(work, "checked.json")) as file:
        answers = json.load(file)
    for (name, kind, text), answer in zip(todo, answers):
        if answer is None or (answer and not is_expected(name, kind, text, answer, made)):
            wrong.append("%s: after %s %s: %s" % (name, kind, text, answer))
    print("%d messages, %d ways out tried" % (len(made), len(todo)))
    return len(made) + len(todo), wrong


if __name__ == "__main__":
    each_torch.main("why", check_torch)

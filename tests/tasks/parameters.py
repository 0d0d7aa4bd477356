# SPDX-License-Identifier: Apache-2.0
"""How many parameters has the model, and why is the file so much larger? 'ckpt info', 'ls --depth' and 'why', judged by torch.

Each torch makes the files of parameters_files.py. Counts have to be those of model.parameters() and buffers(), also where the files have
become safetensors, a DCP directory or a shard set; and what 'ckpt why' advises of a large file has to make a smaller one, with the same
weights. CKPT, CKPT_PYTHON and CKPT_TEST_DIR as for tests/interop/run.py.
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

KEYS = ("parameters", "buffers", "optimizer", "copies", "others")


def run(ckpt, work, arguments):
    return subprocess.run([ckpt] + arguments, cwd=work, stdout=subprocess.PIPE, stderr=subprocess.PIPE, encoding="utf-8", check=False)


def json_of(ckpt, work, arguments):
    done = run(ckpt, work, arguments)
    return json.loads(done.stdout) if done.stdout else {"parts": {"told_by": done.stderr}, "groups": [], "large": []}


def count(ckpt, work, path, want):
    """What is wrong with what 'info' counts in PATH."""
    parts = json_of(ckpt, work, ["info", "--json", path])["parts"]
    wrong = ["%s: %s: %s, wanted %s" % (path, key, parts.get(key, {}).get("elements"), want[key]) for key in KEYS
             if key in want and parts.get(key, {}).get("elements") != want[key]]
    if parts["told_by"] != want["told_by"]:
        wrong.append("%s: told by %s, wanted %s" % (path, parts["told_by"], want["told_by"]))
    return wrong


def depth(ckpt, work, path, blocks):
    groups = json_of(ckpt, work, ["ls", "--json", "--depth", "1", path])["groups"]
    have = {one["name"]: one["elements"] for one in groups}
    share = sum(one["share"] for one in groups)
    return [] if have == blocks and abs(share - 1) < 1e-9 else ["%s: --depth 1: %s, wanted %s" % (path, groups, blocks)]


def converted(ckpt, work, name, want):
    """The same counts where other formats keep all that tells parameters and buffers apart: shapes and names."""
    wrong, path = [], "out/%s.pt" % name
    told_by = [word for word in want["told_by"] if word in ("optimizer", "names")]
    if not told_by or "others" not in want or want["copies"] or want["others"] or "tied" in name:
        return []
    # a tensor that stands under two names in one file is two in a directory or in safetensors
    for arguments, out in ((["split", "--ranks", "2", path, "out/%s.dcp" % name], "out/%s.dcp" % name),
                           (["convert", "--drop-others", path, "out/%s.safetensors" % name], "out/%s.safetensors" % name)):
        done = run(ckpt, work, arguments)
        other = want
        if out.endswith(".safetensors"):  # it takes the weights alone
            other = dict(want, optimizer=0, told_by=["names"])
            if "extra" in name or name == "gan":
                continue
        wrong += ["%s: %s" % (out, done.stderr)] if done.returncode else count(ckpt, work, out, other)
    return wrong


def large(ckpt, work, name, ids):
    """[[FILE, NAME]] that the advised commands make, and what is wrong already."""
    todo, wrong, path = [], [], "out/%s.pt" % name
    causes = json_of(ckpt, work, ["why", "--json", path])["large"]
    if [one["id"] for one in causes] != ids:
        return [], ["%s: large: %s, wanted %s" % (path, [one["id"] for one in causes], ids)]
    for i, one in enumerate(causes):
        line = [mend["text"] for mend in one["mends"] if mend["kind"] == "command"]
        if len(line) != 1:
            wrong.append("%s: %s: %s" % (path, one["id"], line))
            continue
        done = subprocess.run(["sh", "-c", line[0]], cwd=work, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, encoding="utf-8", check=False,
                              env=dict(os.environ, PATH=os.path.dirname(ckpt) + os.pathsep + os.environ["PATH"]))
        out, kept = shlex.split(line[0])[-1], "out/%s-%d.pt" % (name, i)
        if done.returncode:
            wrong.append("%s: %s: %s" % (path, line[0], done.stdout))
            continue
        os.rename(os.path.join(work, out), os.path.join(work, kept))
        if os.path.getsize(os.path.join(work, kept)) >= os.path.getsize(os.path.join(work, path)):
            wrong.append("%s: %s: it is not smaller" % (path, line[0]))
        if one["id"] in [again["id"] for again in json_of(ckpt, work, ["why", "--json", kept])["large"]]:
            wrong.append("%s: %s: it is there still" % (path, line[0]))
        todo.append([kept, name])
    return todo, wrong


def check_torch(ckpt, command, work):
    shutil.copy(os.path.join(HERE, "parameters_files.py"), work)
    subprocess.run(command.split() + ["parameters_files.py", "make"], cwd=work, check=True, stderr=subprocess.DEVNULL)
    with open(os.path.join(work, "made.json")) as file:
        made = json.load(file)
    todo, wrong = [], []
    for name, want in sorted(made.items()):
        path = "out/%s.pt" % name
        wrong += count(ckpt, work, path, want) + converted(ckpt, work, name, want)
        if "blocks" in want:
            wrong += depth(ckpt, work, path, want["blocks"])
        if "large" in want:
            files, what = large(ckpt, work, name, want["large"])
            todo += files
            wrong += what
    with open(os.path.join(work, "todo.json"), "w") as file:
        json.dump(todo, file)
    subprocess.run(command.split() + ["parameters_files.py", "check"], cwd=work, check=True, stderr=subprocess.DEVNULL)
    with open(os.path.join(work, "checked.json")) as file:
        wrong += ["%s: %s" % (one, answer) for one, answer in zip(todo, json.load(file)) if answer]
    return len(made), wrong


if __name__ == "__main__":
    each_torch.main("parameters", check_torch)

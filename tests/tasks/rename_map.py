# SPDX-License-Identifier: Apache-2.0
"""One command gives the keys of a file the names that another model has, by a map, and a strict load_state_dict() takes them.

Each torch makes the files of rename_map_files.py and loads what ckpt makes of them: in columns, JSON, in place, of every format, as a step of
edit and convert, and there and back again. CKPT, CKPT_PYTHON and CKPT_TEST_DIR as for tests/interop/run.py.
"""
import json
import os
import shutil
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "interop"))
import each_torch

CASES = (
    ("1.pt", "model", ["rename", "--map", "map.txt", "old.pt", "1.pt"]),
    ("2.pt", None, ["rename", "-m", "map.json", "old_model.pt", "2.pt"]),
    ("3.pt", None, ["edit", "old.pt", "3.pt", "--extract", "model", "--rename-map", "map.txt"]),
    ("4.pt", None, ["convert", "old_model.pt", "4.pt", "--rename-map", "map.json"]),
    ("in_place.pt", "model", ["rename", "-i", "--map", "map.txt", "in_place.pt"]),
    ("legacy.pt", "model", ["rename", "-i", "--map", "map.txt", "legacy.pt"]),
)


def check_torch(ckpt, command, work):
    def run(*words):
        done = subprocess.run([ckpt, words[0], *words[1:]], cwd=work, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        if done.returncode or done.stderr:
            wrong.append("%s: %d %s" % (" ".join(words), done.returncode, done.stderr))
        return done.stdout

    wrong, todo = [], []
    shutil.copy(os.path.join(HERE, "rename_map_files.py"), work)
    subprocess.run(command.split() + ["rename_map_files.py", "make"], cwd=work, check=True, stderr=subprocess.DEVNULL)
    shutil.copy(os.path.join(work, "old.pt"), os.path.join(work, "in_place.pt"))
    run("convert", "--to", "torch-legacy", "old.pt", "legacy.pt")
    for out, entry, words in CASES:
        run(*words)
        todo.append([out, entry])
    for form in "map.txt", "map.json":
        with open(os.path.join(work, "back." + form), "w") as file:
            file.write(run("rename", "--map", form, "--invert"))
        run("rename", "-f", "--map", "back." + form, "1.pt", "old2.pt")
        run("diff", "old.pt", "old2.pt")
    for words, back in ((["split", "--ranks", "2", "old.pt", "dcp"], ["merge", "dcp2", "dcp.pt"]),
                        (["convert", "old_model.pt", "set.safetensors"], ["convert", "set2.safetensors", "set.pt"])):
        made, out = words[-1], words[-1].replace("dcp", "dcp2").replace("set.", "set2.")
        run(*words)
        run("rename", "--map", "map.json", made, out)
        run(*back)
        names = run("ls", "--json", back[-1])
        with open(os.path.join(work, "map.json")) as file:
            lost = [name for name in json.load(file).values() if '%s"' % name not in names]
        wrong.extend("%s lacks %s" % (back[-1], name) for name in lost)
    with open(os.path.join(work, "todo.json"), "w") as file:
        json.dump(todo, file)
    subprocess.run(command.split() + ["rename_map_files.py", "check"], cwd=work, check=True, stderr=subprocess.DEVNULL)
    with open(os.path.join(work, "checked.json")) as file:
        wrong += ["%s: %s" % (one, answer) for one, answer in zip(todo, json.load(file)) if answer]
    return len(todo), wrong


if __name__ == "__main__":
    each_torch.main("rename_map", check_torch)

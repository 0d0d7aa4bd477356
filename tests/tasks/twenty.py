# SPDX-License-Identifier: Apache-2.0
"""Twenty tasks of an engineer's week, each by one command (or two, where two things are wanted), whose results real torch judges.

Each torch makes the files of twenty_files.py. What a command prints is compared with what torch knows; what it writes, torch loads.
Of the twenty, merging a LoRA adapter is not ckpt's work, and has to be said; broadcasts are tried where a launcher is (tests/broadcast).
CKPT, CKPT_PYTHON and CKPT_TEST_DIR as for tests/interop/run.py.
"""
import json
import os
import shutil
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "interop"))
import each_torch


class Week:
    def __init__(self, ckpt, work):
        self.ckpt, self.work = ckpt, work
        self.todo, self.wrong, self.right = [], [], 0

    def run(self, *arguments):
        return subprocess.run([self.ckpt] + list(arguments), cwd=self.work, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                              encoding="utf-8", errors="replace", check=False)

    def writes(self, name, *arguments):
        """The command succeeds, and torch judges what it wrote."""
        done = self.run(*arguments)
        if done.returncode:
            self.wrong.append("%s: %s: %d %s" % (name, " ".join(arguments), done.returncode, done.stderr[:400]))
        else:
            self.todo.append(name)

    def on_disk(self, files):
        return sum(os.stat(os.path.join(self.work, name)).st_blocks * 512 for name in files)

    def says(self, name, right, done):
        """RIGHT: what DONE printed is so."""
        if right:
            self.right += 1
        else:
            self.wrong.append("%s: %s: %d %s%s" % (name, " ".join(done.args[1:]), done.returncode, done.stdout[:600], done.stderr[:400]))


def is_near(a, b):
    return abs(a - b) <= 1e-6 * max(abs(a), abs(b), 1e-30)


def look(week, made):
    """Tasks 7 to 9: how many parameters, the norms, NaN, what changed."""
    done = week.run("info", "--json", "in/step100.pt")
    parts = json.loads(done.stdout)["parts"]
    week.says("7 parameters", [parts[kind]["elements"] for kind in ("parameters", "buffers")] == [made["parameters"], made["buffers"]], done)
    done = week.run("ls", "--parameters", "--depth", "2", "--json", "in/step100.pt")
    blocks = {one["name"]: one["elements"] for one in json.loads(done.stdout)["groups"]}
    week.says("7 blocks", blocks == {"model." + name: count for name, count in made["blocks"].items()}, done)
    done = week.run("stat", "--json", "--sort", "norm", "--at", "model", "in/step100.pt")
    norms = {one["name"]: one["norm"] for one in json.loads(done.stdout)["tensors"]}
    week.says("8 norms", all(is_near(norms.get(name, -1), norm) for name, norm in made["norms"].items()), done)
    done = week.run("stat", "--check-finite", "in/nan.pt")
    week.says("8 NaN", done.returncode == 1 and "head.weight" in done.stdout, done)
    done = week.run("diff", "in/step100.pt", "in/step200.pt", "--at", "model", "--sort", "rms", "--top", "1")
    most = max(made["changes"], key=made["changes"].get)
    week.says("9 what changed", done.returncode == 1 and most in done.stdout, done)


def safety(week):
    """Tasks 10 to 12: complete, safe, weights_only."""
    done = week.run("verify", "in/cut.pt")
    week.says("10 complete", done.returncode in (1, 2) and week.run("verify", "in/step100.pt").returncode == 0, done)
    done = week.run("repair", "in/cut.pt", "out/saved.pt")
    if done.returncode in (0, 1) and os.path.exists(os.path.join(week.work, "out/saved.pt")):
        week.todo.append("saved")
    else:
        week.says("10 saved", False, done)
    done = week.run("scan", "--strict", "--json", "in/strangers")
    files = {os.path.basename(one["path"]): one["verdict"] for one in json.loads(done.stdout)["files"]}
    week.says("11 safe", done.returncode == 1 and files == {"0.pt": "plain", "1.pt": "plain", "2.pt": "plain", "evil.pt": "dangerous"} and
              "posix.system" in done.stdout, done)
    week.writes("sane", "sanitize", "in/args.pt", "out/sane.pt")


def smaller(week):
    """Tasks 13 and 16: optimizers of many files, what makes a file large."""
    files = ["in/many/%02d.pt" % number for number in range(30)]
    before = week.on_disk(files)
    week.writes("many", "select", "-i", "--free", "--drop", "optimizer", *files)
    week.says("13 freed", week.on_disk(files) < before / 5, week.run("info", files[0]))
    done = week.run("why", "in/twice.pt")
    week.says("16 why", "compact" in done.stdout, done)
    week.writes("small", "compact", "in/twice.pt", "out/small.pt")
    sizes = [os.path.getsize(os.path.join(week.work, name)) for name in ("in/twice.pt", "out/small.pt")]
    week.says("16 small", sizes[1] < sizes[0] / 2, week.run("info", "out/small.pt"))


def all_tasks(week, made):
    has_dcp = os.path.exists(os.path.join(week.work, "in/fsdp"))
    week.writes("ddp", "edit", "in/ddp.pt", "out/ddp.pt", "--extract", "model", "--strip-wrappers")
    week.writes("mixed", "strip-prefix", "--strip-wrappers", "in/mixed.pt", "out/mixed.pt")
    week.writes("lightning", "edit", "in/lightning.ckpt", "out/lightning.pt", "--extract", "state_dict", "--strip-prefix", "model.")
    week.writes("cpu", "remap", "--all", "cpu", "in/gpu.pt", "out/cpu.pt")
    week.writes("cuda1", "remap", "cuda:3=cuda:1", "in/gpu.pt", "out/cuda1.pt")
    if has_dcp:
        week.writes("merged", "merge", "in/fsdp", "out/merged.pt")
        week.writes("hub", "convert", "in/fsdp", "out/hub", "--extract", "model", "--shard-size", "1KB", "--cast", "bf16")
        week.writes("resharded", "reshard", "--ranks", "2", "in/fsdp", "out/resharded")
    week.writes("unhub", "convert", "in/hub", "out/unhub.pt", "--add-module")
    look(week, made)
    safety(week)
    smaller(week)
    week.writes("average", "average", "--others", "last", "in/step100.pt", "in/step200.pt", "in/step300.pt", "out/average.pt")
    done = week.run("lora", "in/plain.pt", "in/lora.pt", "out/x.pt")
    week.says("15 LoRA", done.returncode == 64 and "no LoRA adapter" in done.stderr, done)
    week.writes("renamed", "rename", "--map", "in/pairs.txt", "in/plain.pt", "out/renamed.pt")
    week.writes("npy", "cat", "-o", "out/w.npy", "in/plain.pt", "head.weight")
    week.writes("slice", "cat", "-o", "out/part.npy", "in/plain.pt", "head.weight[0:2, ::4]")
    week.writes("set", "edit", "in/step100.pt", "out/set.pt", "--set", "epoch=0")


def check_torch(ckpt, command, work):
    shutil.copy(os.path.join(HERE, "twenty_files.py"), work)
    subprocess.run(command.split() + ["twenty_files.py", "make"], cwd=work, check=True, stderr=subprocess.DEVNULL)
    with open(os.path.join(work, "made.json")) as file:
        made = json.load(file)
    week = Week(ckpt, work)
    all_tasks(week, made)
    with open(os.path.join(work, "todo.json"), "w") as file:
        json.dump(week.todo, file)
    subprocess.run(command.split() + ["twenty_files.py", "check"], cwd=work, check=True, stderr=subprocess.DEVNULL)
    with open(os.path.join(work, "checked.json")) as file:
        answers = json.load(file)
    week.wrong += ["%s: %s" % (name, answer) for name, answer in zip(week.todo, answers) if answer]
    return week.right + sum(answer is None for answer in answers), week.wrong


if __name__ == "__main__":
    each_torch.main("twenty", check_torch)

# SPDX-License-Identifier: Apache-2.0
"""What changed between two checkpoints of a training: weights first, the optimizer as one line, counters last; blocks; the largest first.

ckpt diff beside torch, of what each torch saved. CKPT, CKPT_PYTHON and CKPT_TEST_DIR as for tests/interop/run.py.
"""

import json
import math
import os
import shutil
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(os.path.dirname(HERE), "interop"))
import each_torch  # noqa: E402


class Trial:
    def __init__(self, ckpt, work):
        self.ckpt, self.work, self.passed, self.failed = ckpt, work, 0, []

    def run(self, *words, code=0):
        done = subprocess.run([self.ckpt, *words], cwd=self.work, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.check(done.returncode == code, "%s: exit status %d, %s" % (" ".join(words), done.returncode, done.stderr))
        return done.stdout

    def check(self, good, text):
        self.passed += bool(good)
        self.failed += [] if good else [text]

    def rows(self, *words):
        """The first cells of the rows of changed tensors."""
        lines = self.run("diff", "--limit", "0", *words, code=1).split("\n")
        begin = lines.index("changed tensors:") + 2
        rows = []
        while begin + len(rows) < len(lines) and lines[begin + len(rows)].startswith("  "):
            rows.append(lines[begin + len(rows)])
        return rows

    def near(self, found, wanted, what):
        for key, value in wanted.items():
            number = found[key] if key in found else found["numbers"][key]
            self.check(math.isclose(number, value, rel_tol=1e-9), "%s: %s is %r, wanted %r" % (what, key, number, value))


def names(rows):
    return [row.split()[0] for row in rows]


def check_order(trial, want, a, b):
    weights = want["weights"]
    by = {key: sorted(weights, key=lambda name: -weights[name][key]) for key in ("change", "rms")}
    for option, order in (("change", by["change"]), ("rms", by["rms"]), ("name", sorted(weights))):
        rows = trial.rows("--sort", option, a, b)
        trial.check(names(rows) == order + ["optimizer.state.*"] + want["counters"], "--sort %s: %r" % (option, rows))
    trial.check(trial.rows(a, b) == trial.rows("--sort", "change", a, b), "the order is another one")
    row = next(row for row in trial.rows(a, b) if row.startswith("  optimizer"))
    optimizer = want["optimizer"]
    trial.check("  %d tensors" % optimizer["tensors"] in row and " of the optimizer " in row, row)
    trial.check("  %.2e  " % optimizer["change"] in row and "  %.2e  " % optimizer["rms"] in row, "%r: %s" % (optimizer, row))
    rows = trial.rows("-v", a, b)
    trial.check(len(rows) >= len(weights) + optimizer["tensors"] + len(want["counters"]) and names(rows)[-1] == want["counters"][-1], "-v: %r" % rows)
    rows = trial.rows("--top", "2", a, b)
    trial.check(names(rows) == by["change"][:2] + ["optimizer.state.*", "..."] and "--top 0 shows all" in rows[-1], "--top: %r" % rows)


def check_blocks(trial, want, a, b):
    blocks = want["blocks"]
    for key in ("change", "rms"):
        rows = trial.rows("--depth", "2", "--sort", key, a, b)
        order = sorted(blocks, key=lambda name: -blocks[name][key])
        trial.check(names(rows) == order + ["optimizer.state.*", "(counters)"], "--depth 2 --sort %s: %r" % (key, rows))
    found = json.loads(trial.run("diff", "--json", "--depth", "2", a, b, code=1))["inputs"][0]
    trial.check(sorted(block["name"] for block in found["blocks"]) == sorted(blocks), "blocks: %r" % found["blocks"])
    for block in found["blocks"]:
        trial.near(block, blocks[block["name"]], block["name"])
    changed = [f for f in found["differences"] if f["kind"] == "changed" and f["tensor"]]
    uses = ["optimizer" if f.get("optimizer") else "counter" if f.get("counter") else "weight" for f in changed]
    trial.check(uses == sorted(uses, key=["weight", "optimizer", "counter"].index), "JSON has the order %r" % uses)
    for f in changed:
        if f["name"] in want["weights"]:
            trial.near(f, {key: want["weights"][f["name"]][key] for key in ("change", "rms", "max_abs", "cosine")}, f["name"])
    whole = json.loads(trial.run("diff", "--json", "--depth", "1", "--keep", "model", a, b, code=1))["inputs"][0]["blocks"]
    trial.check([block["name"] for block in whole] == ["model"], "one block: %r" % whole)


def check_torch(ckpt, command, work):
    shutil.copy(os.path.join(HERE, "diff_files.py"), work)
    subprocess.run(command.split() + ["diff_files.py", "want.json"], cwd=work, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    with open(os.path.join(work, "want.json")) as stream:
        want = json.load(stream)
    trial = Trial(ckpt, work)
    check_order(trial, want, "a.pt", "b.pt")
    check_blocks(trial, want, "a.pt", "b.pt")
    trial.run("split", "-q", "--ranks", "2", "a.pt", "a.dcp")
    check_order(trial, want, "a.dcp", "b.pt")
    check_blocks(trial, want, "a.dcp", "b.pt")
    rows = trial.rows("a-optimizer.pt", "b-optimizer.pt")     # where there is nothing but an optimizer, it is listed
    trial.check(len(rows) >= want["optimizer"]["tensors"] and " of the optimizer" not in "".join(rows), "an optimizer alone: %r" % rows)
    rows = trial.rows("--at", "optimizer", "a.pt", "b.pt")
    trial.check(len(rows) >= want["optimizer"]["tensors"], "--at optimizer: %r" % rows)
    return trial.passed, trial.failed


if __name__ == "__main__":
    each_torch.main("task_diff", check_torch)

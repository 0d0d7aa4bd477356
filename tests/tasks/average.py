# SPDX-License-Identifier: Apache-2.0
"""Three checkpoints of a training become one: ckpt average beside numpy, of what each torch saved.

One command for each result, judged by torch. CKPT, CKPT_PYTHON and CKPT_TEST_DIR as for tests/interop/run.py.
"""

import os
import shutil
import subprocess
import sys
import zipfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(os.path.dirname(HERE), "interop"))
import each_torch  # noqa: E402

# what is made, of what, how
CASES = [
    ("want_mean.pt", "mean/a.pt", ["a.pt", "b.pt", "c.pt"]),
    ("want_weights.pt", "weights.pt", ["--weights", "1,2,1", "a.pt", "b.pt", "c.pt"]),
    ("want_ema.pt", "ema.pt", ["--ema", "0.9", "a.pt", "b.pt", "c.pt"]),
    ("want_mean.pt", "mean.legacy", ["a.legacy", "b.legacy", "c.legacy"]),
    ("want_shared.pt", "shared.pt", ["s0.pt", "s1.pt"]),
    ("want_trainer.pt", "trainer.pt", ["--only", "model.*", "--others", "last", "1.pt", "2.pt", "3.pt"]),
]
# a form of what torch saved, whose mean is turned back: (how to make it of IN, the end of OUT's name)
FORMS = [
    (["convert", "--drop-others", "--shared", "clone"], ".safetensors"),
    (["convert", "--drop-others", "--shared", "clone", "--shard-size", "1MB"], ".set"),
    (["split", "--ranks", "3"], ".dcp"),
]


def pickle_of(path):
    with zipfile.ZipFile(path) as archive:
        return next(archive.read(name) for name in archive.namelist() if name.endswith("/data.pkl"))


class Trial:
    def __init__(self, ckpt, command, work):
        self.ckpt, self.command, self.work = ckpt, command, work
        self.passed, self.failed, self.pairs = 0, [], []

    def run(self, *words):
        done = subprocess.run([self.ckpt, words[0], "-q", *words[1:]], cwd=self.work, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        if done.returncode:
            self.failed.append("ckpt %s: exit status %d: %s" % (" ".join(words), done.returncode, done.stderr.strip()))
        return done.returncode == 0

    def python(self, *words):
        done = subprocess.run(self.command.split() + ["average_files.py", *words], cwd=self.work, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        return done.stdout + (done.stderr if done.returncode else "")

    def judge(self, wanted, found, order="same"):
        self.pairs += [wanted, found, order]

    def judge_all(self):
        """With one process, as torch takes long to start."""
        wrong = self.python("check", *self.pairs).splitlines()
        self.passed += len(self.pairs) // 3 - len(wrong)
        self.failed += wrong


def check(ckpt, command, work):
    t = Trial(ckpt, command, work)
    shutil.copy(os.path.join(HERE, "average_files.py"), work)
    os.mkdir(os.path.join(work, "mean"))
    said = t.python("make")
    if said:
        return 0, [said]
    for wanted, out, words in CASES:
        if t.run("average", *words, out):
            t.judge(wanted, out)
    if pickle_of(os.path.join(work, "a.pt")) != pickle_of(os.path.join(work, "mean/a.pt")):
        t.failed.append("the pickle is not that of a.pt")
    for words, end in FORMS:
        names = [name + end for name in "abc"]
        if not all(t.run(*words, name + ".pt", out) for name, out in zip("abc", names)) or not t.run("average", *names, "mean" + end):
            continue
        if t.run("convert", "--to", "torch", "mean" + end, "back%s.pt" % end):
            t.judge("want_mean.pt", "back%s.pt" % end, "apart")
    # formats mixed: the first is the one whose tensors lie as they like
    if t.run("average", "a.dcp", "b.pt", "c.dcp", "mixed.dcp") and t.run("merge", "mixed.dcp", "mixed.pt"):
        t.judge("want_mean.pt", "mixed.pt", "apart")
    t.judge_all()
    return t.passed, t.failed


if __name__ == "__main__":
    each_torch.main("average", check)

# SPDX-License-Identifier: Apache-2.0
"""Big-endian files of every dtype: what `ckpt convert` makes of them is what torch wrote on a little-endian machine.

They are made of torch's own files, each record turned around by the dtype of its tensor, as such a machine has it. torch reads
them, too, but for dtypes without a storage class: that these are the ones is checked. CKPT, CKPT_PYTHON and CKPT_TEST_DIR as
for run.py; torch before 2.6 writes fewer dtypes, and is left out.
"""
import filecmp
import os
import re
import shutil
import subprocess
import zipfile

import each_torch

# load_tensor() in torch/serialization.py turns a storage around by its class; these have an untyped one.
TORCH_IS_WRONG = {"uint16", "uint32", "uint64", "complex32", "bcomplex32", "bits16", "sparse_uint16", "uint64_views"}


class Checker:
    def __init__(self, ckpt, command, work):
        self.ckpt, self.command, self.work, self.wrong, self.version = ckpt, command.split(), work, [], ""

    def path(self, *parts):
        return os.path.join(self.work, *parts)

    def torch(self, *arguments):
        done = subprocess.run(self.command + ["byteorder_files.py", *arguments], cwd=self.work, check=True,
                              stdout=subprocess.PIPE, encoding="utf-8")
        return done.stdout.splitlines()

    def convert(self, name, *arguments):
        """(stderr, the file that was made)"""
        target = self.path("found", name + ".pt")
        done = subprocess.run([self.ckpt, "convert", "-f", "--profile", self.version, *arguments, target],
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, check=False)
        if done.returncode == 2 and "which no torch can load from a legacy stream" in done.stderr:
            return done.stderr, None
        if done.returncode:
            self.wrong.append("%s: %s" % (" ".join(arguments), done.stderr.strip()))
        return done.stderr, target

    def require(self, condition, *text):
        if not condition:
            self.wrong.append(" ".join(text))

    def records(self, path):
        with zipfile.ZipFile(path) as archive:
            return {i.filename: archive.read(i) for i in archive.infolist() if not i.filename.endswith("serialization_id")}

    def check_one(self, name):
        little, big = (self.path(order, name + ".pt") for order in ("little", "big"))
        said, target = self.convert(name, big)
        self.require(filecmp.cmp(target, little, shallow=False), name, "is not what torch wrote")
        self.require(("would have left alone" in said) == (name in TORCH_IS_WRONG), name, "note:", repr(said))
        target = self.convert(name, "--byteorder", "big", little)[1]
        self.require(self.records(target) == self.records(big), name, "turned to big-endian has other records")
        shutil.copy(target, self.path("made", name + ".pt"))
        self.require(filecmp.cmp(self.convert(name, "--byteorder", "big", big)[1], target, shallow=False) or
                     self.records(self.path("found", name + ".pt")) == self.records(big), name, "big to big differs")
        self.check_override(name, little, big)
        made = []
        for source in (little, big):
            target = self.convert(name, "--to", "torch-legacy", source)[1]
            made.append(open(target, "rb").read() if target else None)
        self.require(made[0] == made[1], name, "differs as a legacy stream")

    def check_override(self, name, little, big):
        """Files that say nothing, as torch 1.6 to 2.0 wrote them, and such that say the wrong thing."""
        records = self.records(big)
        for what in (None, b"little"):
            silent = self.path("silent", name + ".pt")
            with zipfile.ZipFile(silent, "w") as archive:
                for record, data in records.items():
                    if not record.endswith("/byteorder"):
                        archive.writestr(record, data)
                    elif what:
                        archive.writestr(record, what)
            target = self.convert(name, "--from-byteorder", "big", silent)[1]
            self.require(filecmp.cmp(target, little, shallow=False), name, "says", str(what), "and is not turned around")

    def run(self):
        self.version = re.search(r"torch (\d+\.\d+)", subprocess.run(
            self.command + ["-c", "import torch; print('torch', torch.__version__)"], cwd=self.work, check=True,
            stdout=subprocess.PIPE, encoding="utf-8").stdout)[1]
        if tuple(map(int, self.version.split("."))) < (2, 6):
            return 0
        for folder in ("found", "made", "silent"):
            os.mkdir(self.path(folder))
        names = [line[5:] for line in self.torch("make") if line.startswith("made ")]
        for name in names:
            self.check_one(name)
        for folder in ("big", "made"):
            found = set(line for line in self.torch("load", *("%s/%s.pt" % (folder, name) for name in names))
                        if not line.startswith("torch "))
            wanted = {"%s %s" % (name, "other" if name in TORCH_IS_WRONG else "same") for name in names}
            self.require(found == wanted, folder, "is loaded otherwise:", str(sorted(found ^ wanted)))
        return len(names)


def check_torch(ckpt, command, work):
    checker = Checker(ckpt, command, work)
    return checker.run(), checker.wrong


if __name__ == "__main__":
    each_torch.main("byteorder", check_torch, optional=True)

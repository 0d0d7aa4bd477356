# SPDX-License-Identifier: Apache-2.0
"""Lists real checkpoints of public repositories, below CKPT_REAL, and compares with expected.json."""

import hashlib
import json
import os
import subprocess
import sys
import tempfile
import unittest
import zipfile

import make_expected

CKPT = os.environ.get("CKPT", "ckpt")
REAL = os.environ.get("CKPT_REAL", "")
SHARD = "as data files (.distcp) of a DCP directory do: name the directory it belongs to"
DATA = "mmaitre314__picklescan/tests/data/"

# file -> the end of the message
OTHERS = {
    "NVIDIA__Megatron-LM/tp2/ckpt/.metadata":
        "is the .metadata index of a distributed checkpoint (DCP), not a checkpoint file by itself",
    "NVIDIA__Megatron-LM/tp2/ckpt/__0_0.distcp": SHARD,
    "NVIDIA__Megatron-LM/tp2/ckpt/__0_1.distcp": SHARD,
    "NVIDIA__Megatron-LM/tp2/ckpt/__1_0.distcp": SHARD,
    "NVIDIA__Megatron-LM/tp2/ckpt/__1_1.distcp": SHARD,
    DATA + "bad_pytorch.pt": "is a PNG image, not a torch checkpoint",
    # hostile, and never unpickled by anything here
    DATA + "malicious0.pkl": "is a bare pickle of protocol 0 or 1, made by pickle.dump, not by torch.save; 'ckpt dis' shows what is in it",
    DATA + "malicious1.zip": "is a zip archive, but not one of torch, which has a folder with 'data.pkl' in it; its first record "
                             "is 'data.pkl'",
    DATA + "malicious1_0x1.zip": "",
    DATA + "malicious1_central_directory.zip": "its first record is 'data.pkl'",
    DATA + "pytorch_magic_bypass.pt": "is a bare pickle, made by pickle.dump, not by torch.save; 'ckpt dis' shows what is in it",
}

# archives of files, each with checkpoints in it
ARCHIVES = ["DLR-RM__rl-trained-agents/a2c/CartPole-v1_1/best_model.zip"]


def run(*arguments):
    done = subprocess.run([CKPT, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=60)
    return done.returncode, done.stdout.decode(), done.stderr.decode()


def sha256(path):
    with open(path, "rb") as stream:
        return hashlib.sha256(stream.read()).hexdigest()


class Real(unittest.TestCase):
    maxDiff = None

    def test_tensors_are_those_that_another_reader_finds(self):
        with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "expected.json")) as stream:
            expected = json.load(stream)
        missing = [name for name in expected if not os.path.exists(os.path.join(REAL, name))]
        self.assertLess(len(missing), len(expected), "no known file is below CKPT_REAL")
        for name in sorted(set(expected) - set(missing)):
            with self.subTest(name):
                code, out, err = run("ls", "--json", os.path.join(REAL, name))
                self.assertEqual((code, err), (0, ""))
                document = json.loads(out)
                rows = [[t["name"], t["dtype"], t["shape"], t["device"]] for t in document["tensors"]]
                self.assertEqual(make_expected.facts(rows), expected[name])
                self.assertEqual(document["count"], len(rows))

    def test_files_in_archives_are_those_that_are_in_them(self):
        """Each, taken out by python's zipfile, is what ckpt reads where it is; another reader counts the tensors."""
        for name in ARCHIVES:
            path = os.path.join(REAL, name)
            if not os.path.exists(path):
                continue
            listed = {f["name"]: f for f in json.loads(run("ls", "--json", path)[1])["files"]}
            with zipfile.ZipFile(path) as archive, tempfile.TemporaryDirectory() as folder:
                self.assertEqual({i.filename: i.file_size for i in archive.infolist()},
                                 {n: f["nbytes"] for n, f in listed.items()})
                for inner in archive.namelist():
                    taken = archive.extract(inner, folder)
                    rows = make_expected.read(taken)
                    self.assertEqual(listed[inner]["kind"] is not None, rows is not None, inner)
                    self.assertEqual(listed[inner]["tensors"], len(rows or []), inner)
                    inside = run("ls", "--json", path + "::" + inner)
                    self.assertEqual(inside[:2], run("ls", "--json", taken)[:2])
                    self.assertEqual(inside[0], 0 if rows is not None else 2)

    def test_other_files_are_named_for_what_they_are(self):
        for name, message in OTHERS.items():
            path = os.path.join(REAL, name)
            if not os.path.exists(path):
                continue
            with self.subTest(name):
                for command in ("ls", "info"):
                    code, out, err = run(command, path)
                    self.assertEqual((code, out), (2, ""))
                    self.assertTrue(err.startswith("ckpt: %s: " % path), err)
                    self.assertTrue(err.endswith(message + "\n"), err)
                    self.assertEqual(err.count("\n"), 1)

    def test_every_file_is_either_listed_or_refused_and_left_alone(self):
        for folder, _, names in os.walk(REAL):
            for path in (os.path.join(folder, name) for name in names):
                before = sha256(path)
                for command in (["ls"], ["info"], ["ls", "--json"], ["dis"]):
                    code, _, err = run(*command, path)
                    self.assertIn(code, (0, 2), "%s %s: %s" % (command, path, err))
                    self.assertEqual(code != 0, err != "", path)
                self.assertEqual(sha256(path), before)


if __name__ == "__main__":
    if not REAL or not os.path.isdir(REAL):
        print("CKPT_REAL names no folder of real checkpoints")
        sys.exit(77)
    unittest.main(verbosity=2)

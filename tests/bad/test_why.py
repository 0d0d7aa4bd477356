# SPDX-License-Identifier: Apache-2.0
"""ckpt why: messages of packages that are not installed, and hostile ones.

What torch itself prints is caught from real torch (tests/interop/why.py). These texts are from public threads, named beside each; the
names and paths in them are changed.
"""

import json
import os
import random
import shlex
import subprocess
import unittest

import files
from files import CKPT, FOUR_FLOATS, SOUND, archive, pickled, state_dict, tensor, text, torch_file

LFS = b"version https://git-lfs.github.com/spec/v1\noid sha256:" + b"4d7a" * 16 + b"\nsize 44730000\n"
SAFETENSORS = b"\x36\0\0\0\0\0\0\0" + b'{"w":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}' + bytes(4)


def weights(*names):
    """A state dict of tensors of 4 floats over one storage."""
    return torch_file(state_dict(**{name: tensor() for name in names}))


def nested(*names):
    body = b"}(" + text("epoch") + b"K\x01" + text("model") + state_dict(**{name: tensor() for name in names})[2:-1] + b"u"
    return torch_file(pickled(body))


# (what, source, the message, the file, causes)
TEXTS = [
    ("no weights in the folder", "huggingface/transformers#24687",
     "OSError: Error no file named pytorch_model.bin, tf_model.h5, model.ckpt.index or flax_model.msgpack found in directory models/x.",
     None, ["directory"]),
    ("no weights, newer", "QwenLM/Qwen3-VL#1514",
     "OSError: Error no file named model.safetensors, or pytorch_model.bin, found in directory models/x.", None, ["directory"]),
    ("cannot load weights, pointer", "huggingface/transformers#6620",
     "OSError: Unable to load weights from pytorch checkpoint file for './m' at './m/pytorch_model.bin'. If you tried to load a "
     "PyTorch model from a TF 2.0 checkpoint, please set from_tf=True.", LFS, ["lfs_pointer"]),
    ("cannot load weights, no file at hand", "huggingface/transformers#6620",
     "OSError: Unable to load weights from pytorch checkpoint file for './m' at './m/pytorch_model.bin'. If you tried to load a "
     "PyTorch model from a TF 2.0 checkpoint, please set from_tf=True.", None, ["not_a_checkpoint"]),
    ("newly initialized", "JIA-Lab-research/LISA#177",
     "Some weights of Lisa were not initialized from the model checkpoint at runs/pytorch_model.bin and are newly initialized: "
     "['layers.6.norm.weight', 'head.weight']\nYou should probably TRAIN this model on a down-stream task to be able to use it for "
     "predictions and inference.", weights("layers.0.norm.weight"), ["missing_keys"]),
    ("not used and newly initialized: a prefix", "robbyant-research/DepthLab#17",
     "Some weights of the model checkpoint at ./m were not used when initializing UNet: ['module.a.weight', 'module.b.weight']\n- This IS "
     "expected if you are initializing UNet from the checkpoint of a model trained on another task\nSome weights of UNet were not "
     "initialized from the model checkpoint at ./m and are newly initialized: ['a.weight', 'b.weight']\n",
     weights("module.a.weight", "module.b.weight"), ["prefix"]),
    ("mismatched sizes", "robbyant-research/DepthLab#17",
     "Some weights of UNet were not initialized from the model checkpoint at ./m and are newly initialized because the shapes did not "
     "match:\n- conv_in.weight: found shape torch.Size([4]) in the checkpoint and torch.Size([12]) in the model instantiated\n",
     weights("conv_in.weight"), ["size_mismatch"]),
    ("mismatched sizes, as a table", "visualbruno/ComfyUI-Trellis2#110",
     "embeddings.bias        | MISMATCH   | Reinit due to size mismatch - ckpt: torch.Size([4]) vs model:torch.Size([384])\n",
     weights("embeddings.bias"), ["size_mismatch"]),
    ("other names, as a table", "transformers 5.24, utils/loading_report.py",
     "Key      | Status     | | \n---------+------------+-+-\nb.weight | UNEXPECTED | | \na.weight | MISSING    | | \n", weights("b.weight"), ["other_model"]),
    ("other names, as a table, and a prefix", "transformers 5.24, utils/loading_report.py",
     "module.a.weight | UNEXPECTED | | \na.weight        | MISSING    | | \n", weights("module.a.weight"), ["prefix"]),
    ("ZeRO-3 left empty tensors", "texttron/tevatron#203",
     "- lm_head.weight: found shape torch.Size([0]) in the checkpoint and torch.Size([151936, 1536]) in the model instantiated\n",
     None, ["partitioned"]),
    ("transformers wants torch 2.6", "huggingface/transformers#38464",
     "ValueError: Due to a serious vulnerability issue in `torch.load`, even with `weights_only=True`, we now require users to upgrade "
     "torch to at least v2.6 in order to use the function. This version restriction does not apply when loading files with "
     "safetensors.", SOUND and torch_file(), ["transformers_version"]),
    ("Lightning on a file of torch.save", "baudm/parseq#137", "KeyError: 'pytorch-lightning_version'",
     weights("a.weight"), ["not_lightning"]),
    ("Lightning, no file at hand", "baudm/parseq#137", "KeyError: 'pytorch-lightning_version'", None, ["not_lightning"]),
    ("Lightning: weights alone", "Lightning-AI/pytorch-lightning#20230",
     "KeyError: 'Trying to restore optimizer state but checkpoint contains only the model. This is probably due to "
     "`ModelCheckpoint.save_weights_only` being set to `True`.'", nested("a"), ["only_weights"]),
    ("Lightning: weights alone, older", "bytedance/music_source_separation#20",
     "KeyError: 'Trying to restore training state but checkpoint contains only the model. This is probably due to "
     "`ModelCheckpoint.save_weights_only` being set to `True`.'", None, ["only_weights"]),
    ("Lightning's module", "format of torch, class of Lightning",
     "RuntimeError: Error(s) in loading state_dict for LitModel:\n\tMissing key(s) in state_dict: \"model.a\", \"model.b\". \n\tUnexpected "
     "key(s) in state_dict: \"a\", \"b\". ", weights("a", "b"), ["prefix_wanted"]),
    ("safetensors, header too large", "1230young/bizgen#15",
     "safetensors_rust.SafetensorError: Error while deserializing header: HeaderTooLarge", LFS, ["lfs_pointer"]),
    ("safetensors, newer words", "safetensors/safetensors#668",
     "SafetensorError: Error while deserializing header: header too large", torch_file(), ["not_safetensors"]),
    ("safetensors, cut off", "lyogavin/airllm#137",
     "safetensors_rust.SafetensorError: Error while deserializing header: MetadataIncompleteBuffer", SAFETENSORS, ["truncated"]),
    ("safetensors, no header", "format of the above",
     "safetensors_rust.SafetensorError: Error while deserializing header: InvalidHeaderDeserialization", None, ["not_safetensors"]),
    ("DeepSpeed, no file latest", "lean-dojo/ReProver#71",
     "[WARNING] [engine.py:2796:load_checkpoint] Unable to find latest file at runs/x/latest, if trying to load latest checkpoint "
     "please ensure this file exists or pass an explicit checkpoint tag when loading a checkpoint.", None, ["no_file"]),
    ("a warning of torch 2.4 and 2.5", "torch 2.4, torch/serialization.py",
     "FutureWarning: You are using `torch.load` with `weights_only=False` (the current default value), which uses the default pickle "
     "module implicitly.", None, ["warning_only"]),
    ("torch 1.5 on the zip form", "torch 1.5, torch/serialization.py",
     "RuntimeError: model.pt is a zip archive (did you mean to use torch.jit.load()?)", torch_file(), ["torch_too_old"]),
    ("torch 1.4 on the zip form", "torch 1.4",
     "RuntimeError: version_ <= kMaxSupportedFileFormatVersion INTERNAL ASSERT FAILED at ../caffe2/serialize/inline_container.cc:132, "
     "please report a bug to PyTorch. Attempted to read a PyTorch file with version 3, but the maximum supported version for reading is "
     "2. Your PyTorch installation may be too old.", torch_file(), ["torch_too_old"]),
    ("operators of torchvision", "torch.jit.load", "RuntimeError: \nUnknown builtin op: torchvision::nms.\nCould not find any similar ops",
     None, ["needs_operators"]),
    ("GPU memory", "torch", "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 8 GiB",
     torch_file(), ["device"]),
    ("what load_state_dict(strict=False) returns", "torch, repr()",
     "_IncompatibleKeys(missing_keys=['a.w'], unexpected_keys=['net.a.w'])", weights("net.a.w"), ["prefix"]),
    ("keys with quotes and commas", "form of torch",
     "Missing key(s) in state_dict: \"a'b, c\", \"d\". \n\tUnexpected key(s) in state_dict: \"module.a'b, c\", \"module.d\". ",
     weights("module.a'b, c", "module.d"), ["prefix"]),
    ("numbers that were not made by torch.save", "torch 0.4",
     "RuntimeError: storage has wrong size: expected -4763968474018398421 got 9408", torch_file(), ["damaged"]),
    ("mmcv", "open-mmlab/mmcv, load_state_dict()",
     "The model and loaded state dict do not match exactly\n\nunexpected key in source state_dict: 'module.a', 'module.b'\n\nmissing keys "
     "in source state_dict: 'a', 'b'\n", None, ["prefix"]),
    ("none that is known", "nobody", "ValueError: something else", torch_file(), []),
]


class Why(files.BadFileTest):
    def why(self, error, path=None, code=0):
        given = ["why", "--json"]
        if error is not None:
            given += ["--error", "@" + self.write(error if isinstance(error, bytes) else error.encode(), "error.txt")]
        status, out, err = self.ckpt(*given + ([path] if path else []))
        self.assertEqual(status, code, err)
        return json.loads(out)

    def test_texts_of_other_packages(self):
        for what, _, message, data, causes in TEXTS:
            with self.subTest(what):
                path = self.write(data) if data else None
                found = self.why(message, path, 0 if causes else 1)
                self.assertEqual([cause["id"] for cause in found["causes"]], causes)

    def test_mends_are_lines_that_run(self):
        path = self.write(weights("module.a.weight"), "-a 'b'\n$(touch x).pt")
        message = 'Missing key(s) in state_dict: "a.weight". \n Unexpected key(s) in state_dict: "module.a.weight".'
        here = os.getcwd()
        os.chdir(self.folder)
        try:
            for name in (path, os.path.basename(path)):
                given = ["why", "--json", "--error", message] + ["./" + name if name[0] == "-" else name]
                line = json.loads(self.ckpt(*given)[1])["causes"][0]["mends"][0]["text"]
                self.assertNotIn("\n", line)
                done = subprocess.run(["bash", "-c", line.replace("ckpt ", shlex.quote(os.path.abspath(CKPT)) + " ", 1)],
                                      stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
                self.assertEqual(done.returncode, 0, (line, done.stdout))
            self.assertFalse(os.path.exists("x"))
            self.assertEqual(sorted(n for n in os.listdir(".") if "mended" in n),
                             ["-a 'b'\n$(touch x)-mended-2.pt", "-a 'b'\n$(touch x)-mended.pt"])
        finally:
            os.chdir(here)

    def test_source_lines_are_no_messages(self):
        trace = ("Traceback (most recent call last):\n"
                 '  File "x.py", line 3, in load\n    raise RuntimeError(f"Missing key in checkpoint state_dict: {fqn}.")\n'
                 "               ^^^^^^^^^\n[rank0]: ValueError: bad\n")
        self.assertEqual(self.why(trace, code=1)["messages"], 0)
        self.assertEqual(self.why(trace + "RuntimeError: Missing key in checkpoint state_dict: a.b.\n")["messages"], 1)

    def test_hostile_messages(self):
        path = self.write(weights("module.a.weight"))
        dice = random.Random(1)
        keys = ", ".join('"%s"' % ".".join("abcdefgh"[dice.randrange(8)] for _ in range(40)) for _ in range(3000))
        hostile = [
            b"", b"\0" * 1000, bytes(range(256)) * 100, b"Missing key(s) in state_dict: " * 20000,
            b'Missing key(s) in state_dict: "' + b"a" * 5000000, b"size mismatch for " * 50000, b"KeyError: '" + b"a" * 1000000,
            b"whose dimensions in the model are " * 50000, b"Missing key in checkpoint state_dict: " + b". " * 500000,
            b"module '" + b"'" * 100000, b"(" * 100000, b"\x1b[" * 100000, b"[rank" * 100000, b"File \"" * 100000,
            ("Missing key(s) in state_dict: %s. \nUnexpected key(s) in state_dict: %s. " % (keys, keys[::-1])).encode(),
            ("Missing key(s) in state_dict: \"%s\". \nUnexpected key(s) in state_dict: \"%s\". " % ("a." * 50000, "b." * 50000)).encode(),
            b"size mismatch for a: copying a param with shape torch.Size([" + b"9" * 1000 + b"]) from checkpoint, the shape in current "
            b"model is torch.Size([1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18]).",
            b"Size mismatch between saved torch.Size([]) and current: torch.Size([]) for \x1b[31mx",
        ]
        for data in hostile:
            for given in ([], [path]):
                with self.subTest(data[:60]):
                    status, out, err = self.ckpt("why", "--error", "@" + self.write(data, "error.txt"), *given)
                    self.assertIn(status, (0, 1), err)
                    self.assertNotIn("\x1b", out + err)

    def test_random_messages_made_of_patterns(self):
        words = [message for _, _, message, _, _ in TEXTS] + ["\0", "\n\t", "'", '"', "torch.Size([", "])", "{", "[rank0]: "]
        dice = random.Random(2)
        path = self.write(nested("module.a.weight", "b"))
        for _ in range(15 if files.SANITIZED else 60):
            data = "".join(w[dice.randrange(len(w)):][:dice.randrange(1, 200)] for w in dice.choices(words, k=30)).encode()
            status, _, err = self.ckpt("why", "--error", "@" + self.write(data, "error.txt"), path)
            self.assertIn(status, (0, 1), err)

    def test_too_long(self):
        status, _, err = self.ckpt("why", "--error", "@" + self.write(b"a" * (17 << 20), "error.txt"))
        self.assertEqual(status, 64)
        self.assertIn("wanted up to 16777216", err)

    def test_many_wrappers(self):
        """More wrappers, in front of names and inside, than one command takes off."""
        wrappers = ["module.", "_orig_mod.", "_forward_module.", "_fsdp_wrapped_module.", "_checkpoint_wrapped_module."]
        for one in wrappers:
            for count in range(1, 10):
                for put in ("%s%s", "a.%s%s"):
                    path = self.write(weights(one * count + "w", *(put % (other, "b") for other in wrappers), *(put % (other * 8, "c") for other in wrappers)))
                    status, _, err = self.ckpt("why", path)
                    self.assertIn(status, (0, 1), err)

    def test_wrappers_alone(self):
        """Without a message: one command after which no wrapper is left, and an attribute of the model is."""
        table = [
            (weights("module._orig_mod.a", "_orig_mod.module.b", "module.c", "d"), "ckpt strip-prefix --strip-wrappers IN OUT"),
            (weights("module.a", "l._orig_mod.b"), "ckpt strip-prefix --strip-wrappers IN OUT"),
            (weights("module.module.a"), "ckpt strip-prefix --strip-wrappers IN OUT"),
            (weights("_orig_mod.a", "l._orig_mod.b"), "ckpt strip-prefix --anywhere _orig_mod. IN OUT"),
            (weights("module.a", "module.b.module.c"), "ckpt strip-module IN OUT"),
            (weights("module._orig_mod.a.module.b", "module.c._orig_mod.d"),
             "ckpt rename -e 's/^((module|_orig_mod)\\.)+//' -e 's/\\.(module\\.)*(_orig_mod)\\.((module|_orig_mod)\\.)*/./g' IN OUT"),
            (nested("module.a", "module.b"), "ckpt edit IN OUT --extract model --strip-prefix module."),
            (nested("module.a", "b._orig_mod.c"), "ckpt edit IN OUT --extract model --strip-wrappers"),
            (weights("module.a", "a"), None),
            (weights("module.a.b", "_orig_mod.a.b"), None),
        ]
        for data, line in table:
            with self.subTest(line):
                path = self.write(data)
                causes = self.why(None, path)["causes"]
                mends = causes[0]["mends"]
                self.assertEqual([c["id"] for c in causes], ["prefix"])
                if not line:
                    self.assertEqual([way["kind"] for way in mends], ["advice"])
                    self.assertIn("no edit makes the names plain: ", mends[0]["text"])
                    continue
                out = path[:-3] + "-mended.pt"
                self.assertEqual(mends[0]["text"], line.replace("IN", path).replace("OUT", out))
                self.assertEqual([way["kind"] for way in mends[1:]], ["advice"] * ("--extract" in line))
                words = shlex.split(mends[0]["text"])
                self.assertEqual(self.ckpt(*words[1:])[0], 0)
                self.assertEqual(self.why(None, out, code=1)["causes"], [])
                os.unlink(out)

    def test_a_name_in_both_lists(self):
        path = self.write(weights("module.a", "b"))
        for message in ('Missing key(s) in state_dict: "a". Unexpected key(s) in state_dict: "a".',
                        'Missing key(s) in state_dict: "b", "a". Unexpected key(s) in state_dict: "b", "module.a".'):
            for given in ([], [path]):
                self.assertIn(self.ckpt("why", "--error", message, *given)[0], (0, 1))

    def test_what_the_model_has_not_goes_with_the_prefix(self):
        path = self.write(weights("model.a.w", "model.norm.running_mean", "model.norm.num_batches_tracked", "criterion.w"))
        message = ('Missing key(s) in state_dict: "a.w", "norm.running_mean". \n\tUnexpected key(s) in state_dict: "model.a.w", '
                   '"model.norm.running_mean", "model.norm.num_batches_tracked", "criterion.w". ')
        self.assertEqual(self.why(message, path)["causes"][0]["mends"][0]["text"],
                         "ckpt edit %s %s --drop criterion --strip-prefix model." % (path, path[:-3] + "-mended.pt"))

    def test_rules(self):
        """Names in the file, in the model, and the line that makes one of the other."""
        table = [
            (["module.a.w", "module.b.w"], ["a.w", "b.w"], "ckpt strip-module"),
            (["a._orig_mod.w", "b._orig_mod.w"], ["a.w", "b.w"], "ckpt strip-prefix --anywhere _orig_mod."),
            (["a.w", "b.w"], ["net.a.w", "net.b.w"], "ckpt add-prefix net."),
            (["enc.0.w", "enc.1.w", "head.w"], ["enc.layer.0.w", "enc.layer.1.w", "head.w"], "ckpt rename -e 's/^enc\\./enc.layer./'"),
            (["x.layer.0.w", "x.layer.1.w"], ["x.layers.0.w", "x.layers.1.w"], "ckpt rename -e 's/\\.layer\\./.layers./'"),
            (["n.gamma", "n.beta"], ["n.weight", "n.bias"], "ckpt rename -e 's/\\.beta$/.bias/' -e 's/\\.gamma$/.weight/'"),
            (["module.stem.w", "module.fc.w"], ["conv1.w", "fc.w"],
             "ckpt edit IN OUT --strip-prefix module. --rename 's/^stem\\./conv1./'"),
        ]
        for have, want, line in table:
            with self.subTest(line):
                path = self.write(weights(*have))
                missing = [n for n in want if n not in have]
                unexpected = [n for n in have if n not in want]
                lists = [", ".join('"%s"' % name for name in names) for names in (missing, unexpected)]
                message = "Missing key(s) in state_dict: %s. \n\tUnexpected key(s) in state_dict: %s. " % tuple(lists)
                text_of = self.why(message, path)["causes"][0]["mends"][0]["text"]
                out = path[:-3] + "-mended.pt"
                wanted = line.replace("IN OUT", "%s %s" % (path, out)) if "IN OUT" in line else "%s %s %s" % (line, path, out)
                self.assertEqual(text_of, wanted)

    def test_keys_that_are_right_stay_so(self):
        """Where some names are right, a prefix is put before the others alone."""
        path = self.write(weights("fc.w", "fc.b", "stem.w"))
        message = ('Missing key(s) in state_dict: "head.fc.w", "head.fc.b". \n\tUnexpected key(s) in state_dict: "fc.w", "fc.b". ')
        self.assertTrue(self.why(message, path)["causes"][0]["mends"][0]["text"].startswith("ckpt rename -e 's/^fc\\./head.fc./' "))

    def test_a_part_of_the_message(self):
        path = self.write(weights("net.a.w", "net.b.w", "net.c.w"))
        for dots, causes in (("", ["other_model"]), (", ...", ["prefix"])):
            message = 'Missing key(s) in state_dict: "a.w"%s \n\tUnexpected key(s) in state_dict: "net.a.w"%s ' % (dots, dots)
            self.assertEqual([c["id"] for c in self.why(message, path)["causes"]], causes)

    def test_what_runs_code_is_never_advised(self):
        """Whatever the message: no way out is offered that would run what the file says."""
        call = b"cposix\nsystem\n(" + text("true") + b"tR"
        hostile = {"archive": torch_file(pickled(b"}(" + text("a") + tensor() + text("b") + call + b"u")), "pickle": b"\x80\x02" + call + b"."}
        messages = ["Weights only load failed", "Unsupported global: GLOBAL posix.system was not", "No module named 'posix'",
                    "Invalid magic number; corrupt file?", "'ascii' codec can't decode byte 0xe9", ""]
        for what, data in hostile.items():
            path = self.write(data)
            for message in messages:
                with self.subTest((what, message)):
                    _, out, err = self.ckpt("why", "--json", *(["--error", message] if message else []), path)
                    ways = [way["text"] for cause in json.loads(out)["causes"] for way in cause["mends"] if way["kind"] != "advice"]
                    self.assertNotIn("weights_only=False", " ".join(ways), err)
            self.assertEqual(json.loads(self.ckpt("why", "--json", path)[1])["causes"][0]["id"], "dangerous")

    def test_alone(self):
        for data, causes in ((weights("a.w"), []), (weights("module.a"), ["prefix"]), (nested("a.w"), ["nested"]), (LFS, ["lfs_pointer"]),
                             (archive([("x", b"y")]), ["other_zip"]), (torch_file()[:-1], ["truncated"])):
            path = self.write(data)
            status, out, err = self.ckpt("why", "--json", path)
            self.assertEqual((status, [c["id"] for c in json.loads(out)["causes"]]), (0 if causes else 1, causes), err)

    def test_every_beginning(self):
        data = torch_file(data=FOUR_FLOATS)
        for length in range(0, len(data), 97 if files.SANITIZED else 23):
            status, out, err = self.ckpt("why", self.write(data[:length]))
            self.assertEqual(status, 0, (length, out, err))


if __name__ == "__main__":
    unittest.main()

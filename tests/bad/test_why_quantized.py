# SPDX-License-Identifier: Apache-2.0
"""ckpt why: quantized weights, what loaders say that do not know them, and parts that do not fit.

The messages are from public threads, named beside each, or from the code of packages; names and paths in them are changed.
"""

import json
import os
import shlex
import struct
import subprocess
import unittest

import files
from files import CKPT, tensor, text, torch_file, pickled, glob

FP8 = {"quantization_config": {"quant_method": "fp8", "weight_block_size": [2, 2]}}
UP = "model.layers.0.mlp.up_proj.weight"


def safetensors(tensors, metadata=None):
    header, at, data = {"__metadata__": metadata} if metadata else {}, 0, b""
    for name, (dtype, shape, values) in tensors.items():
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [at, at + len(values)]}
        at += len(values)
        data += values
    head = json.dumps(header).encode()
    return struct.pack("<Q", len(head)) + head + data


def fp8(scale=(2, 1), name=UP):
    """A weight of 3 x 2 numbers in blocks of 2 x 2, and one that is plain."""
    tensors = {"model.norm.weight": ("F32", [2], bytes(8)), name: ("F8_E4M3", [3, 2], bytes(range(6)))}
    if scale:
        tensors[name + "_scale_inv"] = ("F32", list(scale), struct.pack("<f", 0.5) * scale[0] * scale[1])
    return safetensors(tensors)


PLAIN = safetensors({UP: ("BF16", [3, 2], bytes(12)), "model.norm.weight": ("F32", [2], bytes(8))})
AGREE, METHOD = "do not agree which weights are quantized", "does not know weights that are quantized as"
HARDWARE, FLOAT8, STATE, SHAPE = "does not compute with", "was given numbers of 8 bits", "without their state", "a packed weight has another shape"

# (what, source, message, words of the cause, words of a fact with the FP8 file)
TEXTS = [
    ("vLLM has no such parameter", "vllm-project/llm-compressor#996",
     "ValueError: There is no module or parameter named 'lm_head.weight_scale' in Phi3ForCausalLM\n", AGREE,
     "'lm_head.weight_scale' is not in the file: the scales of 'lm_head.weight'"),
    ("vLLM has no such key", "vllm-project/llm-compressor#959", "KeyError: 'layers.0.mlp.up_proj.weight_scale_inv'\n", AGREE,
     "'layers.0.mlp.up_proj.weight_scale_inv' is in the file: the scales of 'layers.0.mlp.up_proj.weight'"),
    ("vLLM, a scale of the cache", "vllm-project/llm-compressor#967", "KeyError: 'model.layers.0.self_attn.k_scale'\n", AGREE,
     "'model.layers.0.self_attn.k_scale' is not in the file: a scale of the KV cache, which only quantized weights need"),
    ("vLLM, bitsandbytes", "vllm-project/vllm#11010", "KeyError: 'layers.0.mlp.down_proj.weight.absmax'", AGREE,
     "'layers.0.mlp.down_proj.weight.absmax' is not in the file: the scales of 'layers.0.mlp.down_proj.weight'"),
    ("transformers does not use them", "the words of huggingface/transformers#5403 and declare-lab/flacuna#2",
     "Some weights of the model checkpoint at ./m were not used when initializing LlamaForCausalLM: ['%s_scale_inv']\n- This IS expected if "
     "you are initializing" % UP, AGREE, "'%s_scale_inv' is in the file: the scales of '%s'" % (UP, UP)),
    ("transformers has them new", "the words of QwenLM/Qwen3#930",
     "Some weights of Qwen2ForCausalLM were not initialized from the model checkpoint at ./m and are newly initialized: "
     "['model.layers.0.mlp.up_proj.qweight', 'model.layers.0.mlp.up_proj.qzeros']\n", AGREE,
     "'model.layers.0.mlp.up_proj.qzeros' is not in the file: the zero points of '%s'" % UP),
    ("load_state_dict, bitsandbytes", "AnswerDotAI/fsdp_qlora#70",
     'RuntimeError: Error(s) in loading state_dict for M:\n\tUnexpected key(s) in state_dict: "a.weight.absmax", "a.weight.quant_map", '
     '"a.weight.quant_state.bitsandbytes__nf4". ', AGREE, "'a.weight.absmax' is not in the file"),
    ("the table of transformers 5", "transformers 5.24, utils/loading_report.py",
     "Key                                            | Status     |  | \n-----------------------------------------------+------------+--+-\n"
     "model.norm.bias                                     | MISSING    |  | \n"
     "model.layers.{0, 1, 5}.mlp.up_proj.weight_scale_inv | UNEXPECTED |  | \n\nNotes:\n", AGREE,
     "'model.layers.{0, 1, 5}.mlp.up_proj.weight_scale_inv' is in the file: the scales of 'model.layers.{0, 1, 5}.mlp.up_proj.weight'"),
    ("transformers does not know fp8", "deepseek-ai/DeepSeek-V3#558",
     "ValueError: Unknown quantization type, got fp8 - supported types are: ['awq', 'bitsandbytes_4bit', 'gptq', 'aqlm']\n", METHOD + " 'fp8'", None),
    ("vLLM does not know gptq", "vllm-project/vllm#1769", "Unknown quantization method: gptq. Must be one of ['awq', 'squeezellm'].", METHOD + " 'gptq'", None),
    ("gptqmodel does not know fp8", "ModelCloud/GPTQModel#1596", "ValueError: QuantizeConfig: Unknown quantization method: `fp8`.", METHOD + " 'fp8'", None),
    ("an old GPU", "vllm-project/vllm#4327",
     "ValueError: The quantization method fp8 is not supported for the current GPU. Minimum capability: 90. Current capability: 86.", HARDWARE, None),
    ("an old GPU, triton", "vllm-project/vllm#17581",
     "ValueError: type fp8e4nv not supported in this architecture. The supported fp8 dtypes are ('fp8e4b15', 'fp8e5')", HARDWARE, None),
    ("an old GPU, newer words", "hiyouga/LlamaFactory#6777", "AssertionError: fp8e4nv data type is not supported on CUDA arch < 89", HARDWARE, None),
    ("no GPU", "transformers 5.24, quantizers/quantizer_finegrained_fp8.py",
     "RuntimeError: No GPU or XPU found. A GPU or XPU is needed for FP8 quantization.", HARDWARE, None),
    ("vLLM, a model without", "vllm-project/vllm#10263",
     "AttributeError: Model Qwen2ForCausalLM does not support BitsAndBytes quantization yet.", HARDWARE, None),
    ("no operation", "AUTOMATIC1111/stable-diffusion-webui#16484", "RuntimeError: \"index_select_cuda\" not implemented for 'Float8_e4m3fn'", FLOAT8, None),
    ("no promotion", "logtd/ComfyUI-LTXTricks#25", "Promotion for Float8 Types is not supported, attempted to promote BFloat16 and Float8_e4m3fn", FLOAT8, None),
    ("no product", "kijai/ComfyUI-ControlNeXt-SVD#7", "RuntimeError: mat1 and mat2 must have the same dtype, but got Half and Float8_e4m3fn", FLOAT8, None),
    ("no product, newer words", "torch 2.14",
     "RuntimeError: expected m1 and m2 to have the same dtype, but got: c10::BFloat16 != c10::Float8_e4m3fn", FLOAT8, None),
    ("no product of integers", "torch 2.14", "RuntimeError: expected m1 and m2 to have the same dtype, but got: float != signed char", FLOAT8, None),
    ("no state", "haotian-liu/LLaVA#1028", "AttributeError: 'Parameter' object has no attribute 'quant_state'", STATE, None),
    ("no state, 8 bits", "bitsandbytes-foundation/bitsandbytes#1268", "AttributeError: 'Parameter' object has no attribute 'SCB'", STATE, None),
    ("no state, a warning", "haotian-liu/LLaVA#1028",
     "FP4 quantization state not initialized. Please call .cuda() or .to(device) on the LinearFP4 layer first.", STATE, None),
    ("other groups", "oobabooga/textgen#541",
     "RuntimeError: Error(s) in loading state_dict for LlamaForCausalLM:\n        size mismatch for model.layers.0.k_proj.qzeros: copying a param with "
     "shape torch.Size([1, 512]) from checkpoint, the shape in current model is torch.Size([32, 512]).\n", SHAPE, "'model.layers.0.k_proj.qzeros' is not in the file"),
    ("numbers in another form", "form of torch",
     "size mismatch for %s: copying a param with shape torch.Size([3, 2]) from checkpoint, the shape in current model is torch.Size([6, 1]).\n" % UP,
     None, "'%s' is in the file" % UP),
    ("vLLM, nothing of a scale", "vllm, model_executor/model_loader/default_loader.py",
     "ValueError: Following weights were not initialized from checkpoint: {'model.layers.0.mlp.up_proj.weight_scale', 'model.layers.0.mlp.up_proj.weight_scale_inv'}\n",
     AGREE, "'model.layers.0.mlp.up_proj.weight_scale' is not in the file: the scales of '%s'" % UP),
    ("a module without scales", "the form of torch", "AttributeError: 'Linear' object has no attribute 'weight_scale_inv'\n", AGREE,
     "'%s_scale_inv' is in the file: the scales of '%s'" % (UP, UP)),
    ("a module without codes", "the form of torch", "AttributeError: 'Linear' object has no attribute 'qweight'. Did you mean: 'weight'?\n", AGREE,
     "'qweight' is not in the file"),
]

GRID = "ValueError: Weight shape (3, 2) not divisible by scale grid (2, 1).\n"        # transformers 5.24, integrations/finegrained_fp8.py
CLASS = "ValueError: Failed to find class %s in any of the allowed modules: Float8Tensor, Int4Tensor\n"       # torchao 0.18, prototype/safetensors
LIST = "    raise ValueError(\"No tensors found\")\nValueError: No tensors found\n"
INVALID = "ValueError: Invalid torchao safetensors metadata\n"          # transformers 5.24, integrations/torchao.py


def torchao(kind="Int8Tensor", preference="AUTO", listed=True):
    metadata = {UP: json.dumps({"_type": kind, "_data": {"block_size": [1, 2], "dtype": {"_type": "torch.dtype", "_data": "bfloat16"},
                                                         "kernel_preference": {"_type": preference, "_data": "AUTO"}}, "_tensor_data_names": ["qdata", "scale"]})}
    if listed:
        metadata["tensor_names"] = json.dumps([UP])
    front = UP.replace(".weight", "._weight_")
    return safetensors({front + "qdata": ("I8", [3, 2], bytes(6)), front + "scale": ("F32", [3, 1], bytes(12))}, metadata)


class WhyQuantized(files.BadFileTest):
    def folder_of(self, name, data, config=None):
        folder = os.path.join(self.folder, name)
        os.makedirs(folder, exist_ok=True)
        for path, content in (("model.safetensors", data), ("config.json", config and json.dumps(config).encode())):
            if content:
                with open(os.path.join(folder, path), "wb") as stream:
                    stream.write(content)
        return os.path.join(folder, "model.safetensors")

    def why(self, message=None, path=None):
        """The causes; without a message all but that torch.load() does not take safetensors."""
        given = ["why", "--json"] + (["--error", "@" + self.write(message.encode(), "error.txt")] if message else []) + ([path] if path else [])
        status, out, err = self.ckpt(*given)
        causes = json.loads(out)["causes"]
        self.assertEqual(status, 0 if causes else 1, out + err)
        return causes if message else [c for c in causes if c["id"] not in ("safetensors", "sharded")]

    def test_messages_without_a_file(self):
        for what, _, message, words, _ in TEXTS:
            with self.subTest(what):
                if not words:
                    continue
                causes = self.why(message)
                self.assertEqual([(c["id"], c["certainty"]) for c in causes], [("quantized", "likely")])
                self.assertIn(words, causes[0]["text"])
                self.assertIn("ckpt cast --dequantize bf16 IN OUT", [m["text"] for m in causes[0]["mends"]])

    def test_messages_and_a_sound_file(self):
        path = self.folder_of("sound", fp8(), FP8)
        for what, _, message, words, fact in TEXTS:
            with self.subTest(what):
                causes = self.why(message, path)
                self.assertEqual([(c["id"], c["certainty"]) for c in causes], [("quantized", "certain")])
                self.assertIn(words or SHAPE, causes[0]["text"])
                self.assertIn("1 weight is quantized, as fp8 has it: '%s' is FP8 (e4m3), blocks of 2 x 2, in 2 tensors" % UP, causes[0]["found"])
                self.assertIn(fact or "", "\n".join(causes[0]["found"]))
                self.assertEqual(causes[0]["mends"][0]["kind"], "command")
                self.assertTrue(causes[0]["mends"][0]["text"].startswith("ckpt cast --dequantize bf16 "), causes)

    def test_messages_and_a_file_that_is_plain(self):
        path = self.folder_of("plain", PLAIN)
        for what, _, message, words, _ in TEXTS:
            if not words or words == FLOAT8:
                continue
            with self.subTest(what):
                causes = self.why(message, path)
                self.assertEqual([(c["id"], c["certainty"]) for c in causes], [("quantized", "likely")])
                self.assertIn("no weight in this file is quantized, as far as names and dtypes tell", causes[0]["found"])
                self.assertNotIn("command", [m["kind"] for m in causes[0]["mends"]])

    def test_messages_and_a_file_that_lost_its_scales(self):
        path = self.folder_of("lost", fp8(scale=None), FP8)
        for what, _, message, _, _ in TEXTS[:4] + TEXTS[8:]:
            if "size mismatch" in message:
                continue
            with self.subTest(what):
                causes = self.why(message, path)
                self.assertEqual([(c["id"], c["certainty"]) for c in causes], [("quantized_parts", "certain")])
                self.assertEqual(causes[0]["found"], ["'%s' has no scales beside it" % UP])

    def test_shapes_of_blocks_that_are_cut_off(self):
        causes = self.why(GRID)
        self.assertEqual([(c["id"], c["certainty"]) for c in causes], [("quantized", "likely")])
        self.assertIn("the last blocks of a weight are cut off", causes[0]["text"])
        path = self.folder_of("grid", fp8(), FP8)
        causes = self.why(GRID, path)
        self.assertEqual([(c["id"], c["certainty"]) for c in causes], [("quantized", "certain")])
        self.assertEqual(causes[0]["found"][0], "'%s' is 3 x 2 numbers with 2 x 1 scales" % UP)
        self.assertTrue(causes[0]["mends"][0]["text"].startswith("ckpt cast --dequantize bf16 "), causes)
        for message in (GRID.replace("3, 2", "4, 2"), GRID.replace("2, 1", "2, 2")):
            causes = self.why(message, path)
            self.assertEqual([(c["id"], c["certainty"]) for c in causes], [("quantized", "likely")])
            self.assertEqual(causes[0]["found"][0], "no quantized weight of this file has these shapes")
        self.assertEqual([c["id"] for c in self.why(GRID, self.folder_of("grid-lost", fp8(scale=None), FP8))], ["quantized_parts"])

    def test_a_class_that_torchao_does_not_know(self):
        words = "torchao, in this version, does not know the class 'Preference', which the metadata of the checkpoint name"
        rows = [(None, "likely", []), (self.folder_of("class", torchao(preference="Preference")), "certain", ["the metadata name it of '%s'" % UP, "1 weight is quantized, "]),
                (self.folder_of("other", torchao()), "likely", ["the metadata of this file do not name it", "1 weight is quantized, "]),
                (self.folder_of("plain-class", PLAIN), "likely", ["the metadata of this file do not name it"]),
                (self.folder_of("unknown", torchao(kind="Preference")), "certain", ["the metadata name it of '%s'" % UP])]
        for path, certainty, facts in rows:
            with self.subTest(path):
                causes = self.why(CLASS % "Preference", path)
                self.assertEqual([(c["id"], c["certainty"], c["text"]) for c in causes], [("quantized", certainty, words)])
                self.assertEqual(len(causes[0]["found"]), len(facts))
                for found, fact in zip(causes[0]["found"], facts):
                    self.assertIn(fact, found)
        self.assertIn("the class 'NewTensor'", self.why("ValueError: Unsupported tensor type: NewTensor")[0]["text"])

    def test_metadata_of_torchao_without_a_list(self):
        rows = [(None, "likely", None), (self.folder_of("unlisted", torchao(listed=False)), "certain", "have no 'tensor_names', and name classes of torchao of '%s'" % UP),
                (self.folder_of("listed", torchao()), "likely", "have 'tensor_names', and name classes of torchao of '%s'" % UP),
                (self.folder_of("plain-list", PLAIN), "likely", "the metadata of this file name no class of torchao")]
        for path, certainty, fact in rows:
            for message in (LIST, INVALID):
                with self.subTest(path):
                    causes = self.why(message, path)
                    self.assertEqual([(c["id"], c["certainty"]) for c in causes], [("quantized", certainty)])
                    self.assertIn("'tensor_names'", causes[0]["text"])
                    self.assertIn(fact or "", "\n".join(causes[0]["found"]))

    def test_parts_that_vllm_makes_one_of(self):
        name = "model.layers.0.self_attn.q_proj.weight"
        path = self.folder_of("fused", fp8(name=name), FP8)
        causes = self.why("ValueError: Following weights were not initialized from checkpoint: {'model.layers.0.self_attn.qkv_proj.weight_scale_inv'}", path)
        self.assertEqual([(c["id"], c["certainty"]) for c in causes], [("quantized", "certain")])
        self.assertEqual(causes[0]["found"][0], "'%s_scale_inv', of which vLLM makes 'model.layers.0.self_attn.qkv_proj.weight_scale_inv', is in the file" % name)
        # of plain weights it is a matter of names
        causes = self.why("ValueError: Following weights were not initialized from checkpoint: {'lm_head.weight'}", self.folder_of("vllm-plain", PLAIN))
        self.assertEqual([c["id"] for c in causes], ["missing_keys"])

    def test_the_mend_runs(self):
        for path in (self.folder_of("mend", fp8(), FP8), os.path.join(self.folder, "mend")):
            line = self.why(TEXTS[0][2], path)[0]["mends"][0]["text"]
            done = subprocess.run(["bash", "-c", line.replace("ckpt ", shlex.quote(os.path.abspath(CKPT)) + " ", 1)],
                                  stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
            self.assertEqual(done.returncode, 0, (line, done.stdout))
            out = shlex.split(line)[-1]
            self.assertEqual(self.why(None, out), [])

    def test_alone(self):
        rows = [
            ("alone", fp8(), FP8, "quantized", "possible", "1 weight is quantized, as fp8 has it: "),
            ("alone-lost", fp8(scale=None), FP8, "quantized_parts", "certain", "'%s' has no scales beside it" % UP),
            ("alone-shape", fp8(scale=(1, 1)), FP8, "quantized_parts", "certain", "'%s_scale_inv' is float32 [1, 1]: wanted [2, 1] for 3 x 2 numbers" % UP),
            ("alone-other", fp8(), {"quantization_config": {"quant_method": "of-nobody"}}, "quantized", "possible", "quantized by 'of-nobody'"),
            # no configuration: a guess, and a cast to 8 bits is no damage
            ("alone-cast", fp8(scale=None), None, "quantized_parts", "possible", "'%s' has no scales beside it" % UP),
            ("alone-guess", fp8(), None, "quantized_parts", "possible", "'%s_scale_inv' is float32 [2, 1]: wanted [1, 1] for 3 x 2 numbers" % UP),
        ]
        for name, data, config, cause, certainty, fact in rows:
            with self.subTest(name):
                causes = self.why(None, self.folder_of(name, data, config))
                self.assertEqual([(c["id"], c["certainty"]) for c in causes], [(cause, certainty)])
                self.assertIn(fact, "\n".join(causes[0]["found"]))
        self.assertEqual(self.why(None, self.folder_of("alone-plain", PLAIN)), [])
        self.assertEqual(self.why(None, self.folder_of("alone-nothing", PLAIN, FP8)), [])

    def test_a_config_that_cannot_be_read_is_told_where_a_message_asks(self):
        path = self.folder_of("json", fp8(), FP8)
        with open(os.path.join(self.folder, "json", "config.json"), "w", encoding="ascii") as stream:
            stream.write("{")
        self.assertEqual(self.why(None, path), [])
        causes = self.why(TEXTS[1][2], path)
        self.assertEqual([c["id"] for c in causes], ["quantized_parts"])
        self.assertIn("is not JSON", causes[0]["found"][0])

    def test_prefixes_are_still_prefixes(self):
        path = self.folder_of("prefix", fp8(), FP8)
        name = UP[len("model."):]
        message = ('Missing key(s) in state_dict: "%s", "%s_scale_inv", "norm.weight". \n\tUnexpected key(s) in state_dict: "%s", "%s_scale_inv", '
                   '"model.norm.weight". ' % (name, name, UP, UP))
        self.assertEqual([c["id"] for c in self.why(message, path)], ["prefix"])

    def test_no_plain_cast_is_advised_for_weights_with_scales(self):
        """A file of torch.save: older versions of torch lack float8, and a cast would leave the scales behind."""
        dtype = glob("torch", "float8_e4m3fn")
        storage = files.storage("1", "ByteStorage", 4)
        weight = (glob("torch._utils", "_rebuild_tensor_v3") + b"(" + storage + files.number(0) + files.numbers((2, 2)) + files.numbers((2, 1)) + b"\x89" +
                  glob("collections", "OrderedDict") + b")R" + dtype + b"tR")
        body = b"}(" + text("a.weight") + weight + text("a.weight_scale_inv") + tensor(numel=4, shape=(1, 1), stride=(1, 1)) + b"u"
        path = self.write(torch_file(pickled(body), extra=[("data/1", bytes(4))]), "float8.pt")
        causes = {c["id"]: c for c in self.why(None, path)}
        self.assertEqual(sorted(causes), ["quantized", "torch_too_old"])
        broken = {c["id"]: c for c in self.why(None, os.path.dirname(self.folder_of("broken", fp8(scale=None), FP8)))}
        self.assertNotIn("command", [m["kind"] for m in broken["torch_too_old"]["mends"]])
        plain = {c["id"]: c for c in self.why(None, os.path.dirname(self.folder_of("cast", fp8(scale=None))))}
        self.assertIn("command", [m["kind"] for m in plain["torch_too_old"]["mends"]])
        self.assertNotIn("command", [m["kind"] for m in causes["torch_too_old"]["mends"]])
        self.assertTrue(causes["quantized"]["mends"][0]["text"].startswith("ckpt cast --dequantize bf16 "))


if __name__ == "__main__":
    unittest.main()

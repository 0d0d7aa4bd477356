# SPDX-License-Identifier: Apache-2.0
"""What a configuration says of quantized weights, and tensors that are left over of others: an error with its reason, or the numbers of the sound file.
Needs no torch.

    CKPT=build/ckpt python3 tests/interop/quantized_said.py [SCHEME...]

The sound files are those of quantized_damaged.py. A case is what is changed of one, and the text of the error, or SAME.
"""

import json
import os
import shlex
import struct
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True      # the scripts' folder stays as it is

import quantized_damaged as damaged  # noqa: E402

X, SAME, GONE = damaged.X, None, object()
ADDED = object()        # the numbers of the sound file, and what was added as it is
OTHER = object()        # numbers, and others than those
Q, W, GROUP = "quantization_config/", "quantization_config/config_groups/group_0/weights/", "quantization_config/config_groups/group_0/"


def nested(file, keep=(), **more):
    """Another quantization_config in the one that is there, as MORE changes it; the outer one keeps KEEP of what it said."""
    outer = file.config["quantization_config"]
    inner = {**outer, **more}
    file.config["quantization_config"] = {"quant_method": outer["quant_method"], **{key: outer[key] for key in keep}, "quantization_config": inner}


def inner_only(file):
    """As SparseAutoModel wrote it: compression_config, and no method around the inner one."""
    file.config["compression_config"] = {"quantization_config": file.config.pop("quantization_config"), "sparsity_config": {"format": "dense"}}


def weights_of(file, **more):
    group = file.config["quantization_config"]["config_groups"]["group_0"]
    return {"group_0": {**group, "weights": {**group["weights"], **more}}}


def flat(tensor):
    code, shape, data = tensor
    return code, shape[:1], data


def turned(tensor):
    code, shape, data = tensor
    return code, shape[::-1], data


def fp8_named():
    """Of a module whose name is not ASCII."""
    file = damaged.File(damaged.quantization("fp8", weight_block_size=[32, 16]), 70)
    file.add("m.é.ü.weight", "F8_E4M3", [64, 48])
    file.add("m.é.ü.weight_scale_inv", "F32", [2, 3])
    return file, None, None


def ct_int3():
    """20 numbers of 3 bits take two words, whether they may cross words or not."""
    file = damaged.File(damaged.ct("pack-quantized", 3, "int", "channel"), 71)
    file.config["quantization_config"]["version"] = "0.20.1"
    file.add(X + ".weight_packed", "I32", [16, 2])
    file.add(X + ".weight_scale", "BF16", [16, 1])
    file.add(X + ".weight_shape", "I64", [2], damaged.i64([16, 20]))
    return file, None, None


def ct_int3_zeros():
    """10 numbers take one word, which is the same either way, and the zero points of 20 rows two."""
    file = damaged.File(damaged.ct("pack-quantized", 3, "int", "channel", symmetric=False), 72)
    file.config["quantization_config"]["version"] = "0.17.1"
    file.add(X + ".weight_packed", "I32", [20, 1])
    file.add(X + ".weight_scale", "BF16", [20, 1])
    file.add(X + ".weight_shape", "I64", [2], damaged.i64([20, 10]))
    file.add(X + ".weight_zero_point", "I32", [2, 1])
    return file, None, None


def beside_intx(file):
    """A second weight, of another class, which has zero points; the metadata say all, and there is no configuration."""
    other, (first, second) = damaged.torchao_intx()[0], (X, X + "2")
    file.tensors.update((name.replace(first, second), tensor) for name, tensor in other.tensors.items() if name.startswith(first + "._"))
    file.metadata["tensor_names"] = json.dumps([*json.loads(file.metadata["tensor_names"]), second + ".weight"])
    file.metadata[second + ".weight"] = other.metadata[first + ".weight"]
    del file.config["quantization_config"]


def rename(file, name):
    """Another name of the module."""
    file.tensors = {name + key[len(X):] if key.startswith(X + ".") else key: tensor for key, tensor in file.tensors.items()}


def of_short_group(**more):
    """104 inputs in four groups, of 32 or of 26, and no g_idx."""
    def change_of(file):
        for part, dtype, shape in ((".qweight", "I32", [13, 64]), (".qzeros", "I32", [4, 8]), (".scales", "F16", [4, 64])):
            file.add(X + part, dtype, shape)
        del file.tensors[X + ".g_idx"], file.config["quantization_config"]["group_size"]
        file.config["quantization_config"].update(more)
    return change_of


def of_gptq_alone(**more):
    """quantize_config.json, and nothing in config.json."""
    def change_of(file):
        said = {key: value for key, value in file.config.pop("quantization_config").items() if key != "quant_method"}
        file.files["quantize_config.json"] = {**said, **more}
    return change_of


NESTED = "the quantization_config in quantization_config says another %s than that around it"
STRATEGY = "the configuration says that the strategy is '%s'"
ORDER = "the configuration orders groups (actorder), and weight_g_idx is missing"
ZEROS = "the configuration says that there are zero points"
GPTQ = {"bits": 4, "group_size": 32, "desc_act": False}
ROTATED = "transform_config says that weights are transformed, which ckpt does not undo"

PACKED = "can be packed densely, as by compressed-tensors from 0.18 on, or item by item, as before, and no configuration says its version"
UNKNOWN = (GONE, None, 20, "", "0.17.2", "0.17.2.a20260801", "0.18.0a1", "0.18.0.dev3", "nightly", "0.18")

CASES = {
    "ct_int3": [({Q + "version": version}, PACKED) for version in UNKNOWN] + [({Q + "version": version}, SAME) for version in ("0.18.0", "0.19.0", "1.0.0")] + [
        ({Q + "version": version}, OTHER) for version in ("0.17.1", "0.15.0.1", "0.9.4")] + [(lambda file: nested(file, ("version",)), SAME)],
    "ct_int3_zeros": [({Q + "version": version}, PACKED) for version in UNKNOWN] + [({Q + "version": version}, SAME) for version in ("0.17.0", "0.15.0", "0.3.0")] + [
        ({Q + "version": version}, OTHER) for version in ("0.18.0", "0.20.1")],
    "ct_int4": [
        (nested, SAME), (inner_only, SAME),
        (lambda file: nested(file, ("config_groups", "format", "ignore", "quantization_status")), SAME),
        (lambda file: nested(file, config_groups=weights_of(file, num_bits=8)), "numbers of a row do not take"),
        (lambda file: nested(file, config_groups=weights_of(file, symmetric=False)), ZEROS),
        (lambda file: nested(file, ignore=[X]), "the configuration excludes '%s' (ignore)" % X),
        (lambda file: nested(file, transform_config={"config_groups": {"u": {}}}), ROTATED),
        (lambda file: nested(file, sparsity_config={"format": "sparse-24-bitmask"}), "sparsity_config says 'sparse-24-bitmask'"),
        (lambda file: nested(file, ("config_groups",), config_groups=weights_of(file, num_bits=8)), NESTED % "config_groups"),
        (lambda file: nested(file, ("format",), format="int-quantized"), NESTED % "format"),
        (lambda file: nested(file, ("ignore",), ignore=[]), NESTED % "ignore"),
        (lambda file: nested(file, quant_method="gptq"), NESTED % "quant_method"),
        (lambda file: file.config["quantization_config"].update(quantization_config={"quant_method": "compressed-tensors"}), NESTED % "config_groups"),
        ({Q + "quantization_config": [1]}, "quantization_config is no JSON object"),
        # only the outer one says it: who reads that sees it
        (lambda file: (nested(file), file.config["quantization_config"].update(transform_config={"config_groups": {"u": {}}})), ROTATED),
        (lambda file: (nested(file, ignore=GONE), file.config["quantization_config"].update(ignore=[X])), "the configuration excludes '%s' (ignore)" % X),
        ({W + "actorder": "group"}, ORDER), ({W + "actorder": "GROUP"}, ORDER), ({W + "actorder": "weight"}, SAME),
        ({W + "strategy": "tensor_group"}, STRATEGY % "tensor_group"), ({W + "strategy": "GROUP"}, SAME), ({W + "type": "INT"}, SAME),
        ({W + "num_bits": GONE}, "numbers of a row do not take"), ({W + "num_bits": "4"}, SAME), ({W + "num_bits": 4.0}, SAME), ({W + "group_size": 32.0}, SAME),
        ({W + "num_bits": "four"}, "the configuration's num_bits is no integer"), ({W + "num_bits": 4.5}, "the configuration's num_bits is no integer"),
        ({W + "num_bits": "8"}, "numbers of a row do not take"),
        ({W + "num_bits": [4]}, "the configuration's num_bits is no integer"), ({W + "group_size": "32"}, "the configuration's group_size is no integer"),
        ({W + "group_size": [32]}, "the configuration's group_size is no integer"), ({W + "strategy": {}}, "the configuration's strategy is no text"),
        ({W + "strategy": 3}, "the configuration's strategy is no text"), ({W + "type": 3}, "the configuration's type is no text"),
        ({W + "symmetric": 1}, "the configuration's symmetric is neither true nor false"),
        # a group without weights is of activations or attention: it says nothing of a weight
        *(({Q + "config_groups/a_first": {"targets": targets, "input_activations": {"num_bits": 8}, **more}}, SAME)
          for targets in (["LlamaAttention"], ["Linear"], [X], ["re:.*"]) for more in ({}, {"weights": None})),
        *(({GROUP + "weights": value}, "the configuration names it nowhere (config_groups)") for value in (None, GONE)),
        ({Q + "config_groups": 1}, "config_groups is no JSON object"), ({Q + "config_groups": ["Linear"]}, "config_groups is no JSON object"),
        ({Q + "format": ["pack-quantized"]}, "format is no text"), ({GROUP + "format": ["pack-quantized"]}, "format is no text"), ({GROUP + "format": None}, SAME),
        ({Q + "quant_method": ["gptq"]}, "quant_method is no text"), ({Q + "quant_method": 7}, "quant_method is no text"), ({Q + "quant_method": GONE}, SAME),
        ({Q + "transform_config": {"a": 1}}, ROTATED), ({Q + "transform_config": {"config_groups": 1}}, ROTATED), ({Q + "transform_config": {"config_groups": [1]}}, ROTATED),
        ({Q + "transform_config": {"a": 1, "config_groups": {}}}, ROTATED), ({Q + "transform_config": {}}, SAME), ({Q + "transform_config": {"config_groups": {}}}, SAME),
        ({Q + "transform_config": {"config_groups": None}}, SAME), ({Q + "transform_config": None}, SAME),
        ({Q + "sparsity_config": {"format": 1}}, "sparsity_config says '?'"), ({Q + "sparsity_config": {}}, SAME), ({Q + "sparsity_config": {"format": "dense"}}, SAME),
    ],
    "ct_fp8_channel": [(lambda file: file.tensors.update({X + ".weight_scale": flat(file.tensors[X + ".weight_scale"])}), "1]: torch multiplies columns by a row of scales")] + [
        ({W + "actorder": order}, ORDER) for order in ("group", True, "dynamic")] + [
        ({W + "type": "FLOAT", W + "strategy": "CHANNEL", W + "num_bits": "8"}, SAME), ({W + "strategy": "Tensor"}, STRATEGY % "tensor")],
    "ct_int8_asymmetric": [({W + "actorder": order}, ORDER) for order in ("group", True, "dynamic")],
    "ct_nvfp4": [({W + "actorder": order}, ORDER) for order in ("group", True, "dynamic")] + [({W + "symmetric": False}, ZEROS)] + [
        ({W + "strategy": strategy}, STRATEGY % strategy) for strategy in ("group", "channel", "tensor", "block", "strange")],
    "ct_mxfp4": [({W + "actorder": order}, ORDER) for order in ("group", True, "dynamic")] + [({W + "symmetric": False}, ZEROS),
        ({W + "strategy": "tensor_group"}, STRATEGY % "tensor_group")],
    "torchao_int8": [(beside_intx, ADDED)],
    "torchao_nvfp4": [(lambda file: [file.tensors.update({name: (code, [1], data)}) for name, (code, shape, data) in list(file.tensors.items())
                                     if name.endswith("per_tensor_scale")], "wanted one number without dimensions")],
    "ct_mxfp8": [({W + "actorder": "group"}, ORDER), ({W + "symmetric": False}, ZEROS)],
    "fp8_blocks": [({Q + "modules_to_not_convert": ["(?:[a-z._0-9]+)+[!?]"]}, "'(?:[a-z._0-9]+)+[!?]' takes too long to match"), ({Q + "bits": 4}, "the configuration says another number of bits"), ({Q + "bits": "8"}, "the configuration says another number of bits"),
                   ({Q + "bits": 8}, SAME), ({Q + "bits": None}, SAME), ({Q + "quant_method": ["fp8"]}, "quant_method is no text"),
                   *(({Q + key: value}, "says %s, as gptqmodel does" % key) for key, value in (("weight_scale_semantics", "inverse"), ("weight_scale_semantics", "x"), ("weight_scale_method", "block"), ("rotation", "hadamard"))),
                   *(({Q + key: None}, SAME) for key in ("weight_scale_semantics", "weight_scale_method", "rotation")), ({Q + "method": "gptq"}, "the configuration says the method 'gptq'"), ({Q + "method": "fp8"}, SAME),
                   *(({Q + key: "float8_e5m2"}, "the configuration says the format 'float8_e5m2'") for key in ("format", "checkpoint_format")), ({Q + "checkpoint_format": "float8_e4m3fn"}, SAME),
                   (lambda file: file.tensors.update({X + "_activation_scale": ("F32", [1], struct.pack("<f", 1))}), SAME)],
    "fp8_named": [({Q + key: [pattern]}, "the configuration excludes") for key in ("modules_to_not_convert",) for pattern in ("m.é.ü", r"m\.é\..", r"m\.\w\.\w", r"m\.[é]")] + [
        ({Q + "modules_to_not_convert": [r"m\.é\..."]}, SAME), ({Q + "modules_to_not_convert": [r"m\.\w\w"]}, SAME)] + [
        ({Q + "modules_to_not_convert": [pattern]}, "'%s' is no pattern" % pattern) for pattern in ("(", "*", "[", "*.mlp")],
    "awq": [({Q + key: value}, "AWQ's layout is '%s' (%s), and only 'gemm' is known" % (value, key)) for key in ("format", "checkpoint_format", "version")
            for value in ("gemv", "gemv_fast", "llm-awq", "marlin", "")] + [
        ({Q + key: value}, "config.json: %s is no text" % key) for key in ("format", "checkpoint_format", "version") for value in (1, ["gemv"], True, {})] + [
        ({Q + key: value}, SAME) for key in ("format", "checkpoint_format", "version") for value in ("gemm", "GEMM", None)] + [
        ({Q + "bits": GONE, Q + key: value}, "config.json: %s is no integer" % key) for key in ("bits", "w_bit") for value in ("4", "8", 2.5, [8], 4.0, None, True)] + [
        ({Q + "bits": GONE, Q + "w_bit": 4}, SAME)],
    "gptq": [
        *((lambda file, name=name: rename(file, name), "' is an embedding") for name in ("wte", "wpe", "model.embed_tokens", "a.word_embeddings", "shared")),
        *((lambda file, name=name: rename(file, name), ADDED) for name in ("embed_out", "a.embed_proj", "embedding_hidden_mapping_in", "unembedding_projection", "embed.0", "shared_expert")),
        *((lambda file, said=said: file.config.update(said), wanted) for said, wanted in (({"vocab_size": 96}, "' is an embedding"), ({"vocab_size": 64}, SAME), ({"text_config": {"vocab_size": 96}}, "' is an embedding"), ({"vocab_size": 100}, SAME))),
        (lambda file: (rename(file, "embed_tokens"), file.config.update(vocab_size=64)), ADDED),
        (of_short_group(), "104 inputs can be in groups of 32 or of 26"), *((of_short_group(group_size=size), OTHER) for size in (32, 26)),
        # transformers reads config.json, where the form that is not said is gptq
        ({Q + "checkpoint_format": GONE, "quantize_config.json": {**GPTQ, "checkpoint_format": "gptq_v2"}}, "quantize_config.json: says another format than config.json beside it"),
        ({Q + "checkpoint_format": GONE, "quantize_config.json": {**GPTQ, "checkpoint_format": "gptq"}}, SAME), ({"quantize_config.json": GPTQ}, SAME),
        ({Q + "dynamic": {"-:(?:[a-z._0-9]+)+[!?]": {}}}, "'-:(?:[a-z._0-9]+)+[!?]' takes too long to match"), ({Q + "dynamic": {"-:(": {}}}, "'-:(' is no pattern"),
        ({Q + "quant_method": "fp8", "quantize_config.json": GPTQ}, "quantize_config.json: says another format than config.json beside it"),
        ({Q + "quant_method": ["gptq"]}, "quant_method is no text")],
    "bnb_nf4": [(lambda file: file.tensors.update({X + ".weight": turned(file.tensors[X + ".weight"])}), "bitsandbytes takes a row for a weight that is turned around"), ({"+z": ("I8", [2, 4])}, "'z' is int8 and has no scales beside it"), ({"+z": ("U8", [2, 4])}, "'z' is uint8 and has no scales beside it"),
                ({Q + "bnb_4bit_quant_type": 4}, "the configuration's bnb_4bit_quant_type is no text"), ({Q + "load_in_8bit": True}, "the configuration says load_in_4bit and load_in_8bit"),
                ({Q + "load_in_4bit": 1}, "the configuration's load_in_4bit is neither true nor false"), ({Q + "quant_method": ["gptq"]}, "quant_method is no text"),
                ({Q + "quant_method": GONE}, SAME), ({Q + "quant_method": None}, SAME)],
    "bnb_int8": [({"+z.weight": ("U8", [2, 4])}, "'z.weight' is uint8 and has no scales beside it"), ({"+z": ("U8", [2, 4])}, "'z' is uint8 and has no scales beside it"),
                 ({"+z": ("I8", [2, 4])}, "'z' is int8 and has no scales beside it"), ({Q + "bnb_4bit_quant_type": 4}, "the configuration's bnb_4bit_quant_type is no text"), ({Q + "load_in_4bit": True}, "the configuration says load_in_4bit and load_in_8bit"),
                 ({Q + "load_in_8bit": "yes"}, "the configuration's load_in_8bit is neither true nor false"), ({Q + "bnb_4bit_quant_type": "fp4"}, SAME)],
    "modelopt_nvfp4": [({at + flag: value}, text % flag) for at in (Q, "hf_quant_config.json/quantization/") for flag in ("pre_quant_scale", "has_zero_point")
                       for value, text in ((True, "the configuration says %s, and there is none"), ("yes", "the configuration's %s is neither true nor false"))] + [
        ({Q + "pre_quant_scale": False, Q + "has_zero_point": None}, SAME),
        ({Q + "config_groups": {"group_0": {"targets": ["Linear"], "weights": {"num_bits": 4, "type": "float", "group_size": 16}, "pre_quant_scale": True}}},
         "the configuration says pre_quant_scale, and there is none"),
        ({Q + "config_groups": 1}, "config_groups is no JSON object")],
}


# Parts that no plain module has, and the format that has them. They are left over beside a plain weight, without one, and in a module that is excluded.
LEFT = {"fp8": ("weight_scale_inv",), "compressed-tensors": ("weight_packed", "weight_global_scale", "weight_zero_point", "weight_g_idx"), "modelopt": ("weight_scale_2",),
        "gptq or awq": ("qweight", "qzeros"),
        "bitsandbytes": ("SCB", "weight.absmax", "weight.quant_map", "weight.nested_absmax", "weight.nested_quant_map", "weight.quant_state.bitsandbytes__nf4",
                         "weight.quant_state.bitsandbytes__fp4", "gate.quant_map")}
PLAIN = {"+z." + name: ("BF16", [2, 4]) for name in ("weight", "bias", "scale", "scales", "zeros", "weight_scale_factor", "absmax", "shape", "g_idx", "format")}
EXCLUDED = {"modelopt_nvfp4": {Q + "ignore": ["z"], "hf_quant_config.json/quantization/exclude_modules": ["z"]}}
LEFT_IN = ("fp8_blocks", "ct_int4", "gptq", "awq", "bnb_nf4", "bnb_int8", "modelopt_nvfp4", "gpt_oss")


AS_RELEASES_WRITE = {
    # integers of fewer bits in a byte each, as compressed-tensors 0.12 to 0.15 write them unasked
    "ct_int8_asymmetric": [({W + "num_bits": bits}, SAME) for bits in (3, 4, 7)],
    "modelopt_mxfp4": [({Q + "quant_algo": "mxfp4", "hf_quant_config.json/quantization/quant_algo": "mxfp4"}, SAME)],
    "modelopt_nvfp4": [({Q + "group_size": 32, "hf_quant_config.json/quantization/group_size": 32}, "the configuration says groups of 32, and ckpt knows this format with groups of 16 only")],
    "gptq": [(of_gptq_alone(quant_method=method), wanted) for method, wanted in (("gptq", SAME), (None, SAME), ("hqq", "quantized by 'hqq', which ckpt does not know"), (3, "quant_method is no text"), ("awq", "'"))],
}


def cases_of(scheme):
    yield from CASES.get(scheme, ())
    yield from AS_RELEASES_WRITE.get(scheme, ())
    if scheme not in LEFT_IN:
        return
    for kind, names in LEFT.items():
        for name in names:
            text = "'z.%s' is a part of a weight that is quantized as %s has it, and the rest of that is missing" % (name, kind)
            own = kind.startswith({"fp8_blocks": "fp8", "ct_int4": "compressed", "gptq": "gptq", "awq": "gptq", "bnb_nf4": "bits", "bnb_int8": "bits",
                                   "modelopt_nvfp4": "modelopt"}.get(scheme, "none"))
            for more in ({}, {"+z.weight": ("BF16", [2, 4])}, {"+z.weight": ("BF16", [2, 4]), **EXCLUDED.get(scheme, {Q + "ignore": ["z"]})}):
                # where the format of the file has such a part, the rest is missing, or a part has another dtype
                # and what says that it is codes is read as such
                both = own or (len(more) and name.startswith(("weight.quant_map", "weight.quant_state")))
                yield {"+z." + name: ("F32", [2, 4]), **more}, "'z." if both else text
    if scheme in ("ct_int4", "bnb_nf4", "bnb_int8"):
        yield (lambda file: [file.add(name[1:], *value) for name, value in PLAIN.items() if scheme == "ct_int4" or name != "+z.absmax"]), ADDED




def change(file, what):
    if callable(what):
        what(file)
        outer = file.config.get("quantization_config", {})
        inner = outer.get("quantization_config")
        if isinstance(inner, dict):
            outer["quantization_config"] = {key: value for key, value in inner.items() if value is not GONE}
        return
    for path, value in what.items():
        if path[0] == "+":                     # a tensor
            file.add(path[1:], *value)
            continue
        if path.endswith(".json"):             # another file
            file.files[path] = value
            continue
        *way, last = path.split("/")
        at = file.config if way[0] not in file.files else file.files
        for step in way:
            at = at[step]
        if value is GONE:
            at.pop(last, None)
        else:
            at[last] = value


def dequantize(ckpt, file, folder):
    """The exit status, the message, and the tensors, or None."""
    file.write(folder)
    out = os.path.join(folder, "out.safetensors")
    done = subprocess.run([*shlex.split(ckpt), "cast", "-q", "--dequantize", "f32", os.path.join(folder, "model.safetensors"), out], stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, encoding="utf-8", errors="replace", timeout=60)
    if not os.path.exists(out):
        return done.returncode, done.stderr.strip(), None
    with open(out, "rb") as stream:
        return done.returncode, done.stderr.strip(), stream.read()


def main():
    count, failed, base = 0, [], os.environ.get("CKPT_TEST_DIR") or "."
    os.makedirs(base, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="quantized-said-", dir=base) as work:
        for scheme in sys.argv[1:] or dict.fromkeys([*CASES, *LEFT_IN, *AS_RELEASES_WRITE]):
            make = globals().get(scheme) or getattr(damaged, scheme)
            status, said, sound = dequantize(os.environ["CKPT"], make()[0], os.path.join(work, scheme))
            if status or sound is None:
                failed.append("%s: the sound file: %d: %s" % (scheme, status, said))
                continue
            for number, (what, wanted) in enumerate(cases_of(scheme)):
                file = make()[0]
                change(file, what)
                status, said, numbers = dequantize(os.environ["CKPT"], file, os.path.join(work, "%s-%d" % (scheme, number)))
                count += 1
                if wanted in (ADDED, OTHER):
                    if status or numbers is None or (wanted is OTHER and numbers == sound):
                        failed.append("%s, %d: %s" % (scheme, number, said[:300]))
                elif (numbers != sound or status) if wanted is SAME else (status != 2 or numbers is not None or wanted not in said):
                    failed.append("%s, %d, %s: status %d%s: %s" % (scheme, number, "a function" if callable(what) else what, status, "" if numbers is None else ", and numbers", said[:300]))
    for text in failed:
        print("FAIL", text)
    print("%d cases, %d failed" % (count, len(failed)))
    return 1 if failed or not count else 0


if __name__ == "__main__":
    sys.exit(main())

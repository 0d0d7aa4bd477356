# SPDX-License-Identifier: Apache-2.0
"""The packages' own dequantization of what quantized_files.py makes, for those that ./packages has and that run without a GPU.

reference(case, weight, target) gives pairs: which code it was, and the numbers. A package that is not there, or that refuses a
weight, gives none. Parts of packages that cannot be imported as a whole (they want a GPU, or more packages) are loaded as files.
"""

import ast
import importlib
import importlib.util
import json
import logging
import os
import re
import sys
import types
import warnings

warnings.simplefilter("ignore")
logging.disable(logging.WARNING)
os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")

HERE = os.path.join(os.getcwd(), "packages")
sys.path.insert(0, HERE)

import torch  # noqa: E402

LOADED, ABSENT = {}, {}


def load(name, how):
    """What HOW gives; None, and why, if it cannot be had."""
    if name not in LOADED:
        try:
            LOADED[name] = how()
        except Exception as e:      # whatever a package raises that lacks another
            LOADED[name], ABSENT[name] = None, "%s: %s" % (type(e).__name__, str(e).split("\n")[0])
    return LOADED[name]


def version(package):
    for name in os.listdir(HERE):
        if name.lower().startswith(package.lower() + "-") and name.endswith(".dist-info"):
            return name[len(package) + 1:-len(".dist-info")]
    with open(os.path.join(HERE, package, "version.py"), encoding="utf-8") as stream:       # a package that is only there as source
        return re.search('__version__ = "([^"]+)"', stream.read()).group(1)


def named(package, where):
    return "%s %s %s" % (package.replace("_", "-"), version(package), where)


def from_file(path, name):
    spec = importlib.util.spec_from_file_location(name, os.path.join(HERE, path))
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def stub(name, **attributes):
    module = types.ModuleType(name)
    module.__dict__.update(attributes)
    module.__path__ = []
    sys.modules[name] = module
    return module


# ---- how each is loaded

def fp8_dequantize():
    return importlib.import_module("transformers.integrations.finegrained_fp8").Fp8Dequantize(None)


def block_dequantizer():
    return importlib.import_module("compressed_tensors.entrypoints.convert").FP8BlockDequantizer


def mxfp4():
    return importlib.import_module("transformers.integrations.mxfp4")._convert_moe_packed_tensors


def gpt_oss():
    return importlib.import_module("gpt_oss.torch.weights").Checkpoint


def compressed_tensors():
    """The compressors by their format, and what makes a scheme of a dict."""
    compressors = importlib.import_module("compressed_tensors.compressors")
    quantization = importlib.import_module("compressed_tensors.quantization")
    return compressors.BaseCompressor, quantization.QuantizationScheme


def modelopt():
    """The classes of qtensor, whose package wants more than they do."""
    found = importlib.util.find_spec("modelopt")
    root = os.path.join(os.path.dirname(found.origin), "torch", "quantization")
    for name in ("modelopt.torch", "modelopt.torch.quantization", "modelopt.torch.quantization.qtensor"):
        sys.modules.setdefault(name, stub(name))
    sys.modules["modelopt.torch.quantization"].__path__ = [root]
    sys.modules["modelopt.torch.quantization.qtensor"].__path__ = [os.path.join(root, "qtensor")]
    stub("modelopt.torch.quantization.config", QuantizerAttributeConfig=object)
    stub("modelopt.torch.quantization.utils", reduce_block_padding=reduce_block_padding, reduce_amax=None, reduce_block_amax=None,
         convert_quantization_axis_to_reduce_axis=None)
    stub("modelopt.torch.quantization.utils.numeric_utils", E2M1_MAX=6.0, E4M3_MAX=448.0, fp8_max_for_normalization=None)
    stub("modelopt.torch.quantization.backends")
    stub("modelopt.torch.quantization.backends.utils", fp4_compatible=None)
    base = "modelopt.torch.quantization.qtensor."
    stub(base + "base_qtensor", BaseQuantizedTensor=quantized_tensor(os.path.join(root, "qtensor", "base_qtensor.py")))
    return {name: getattr(importlib.import_module(base + module), name) for module, name in (
        ("fp8_tensor", "FP8QTensor"), ("int8_tensor", "INT8QTensor"), ("nvfp4_tensor", "NVFP4QTensor"), ("mxfp8_tensor", "MXFP8QTensor"),
        ("mxfp4_tensor", "MXFP4QTensor"))}


def reduce_block_padding(tensor, block_sizes):
    assert all(tensor.shape[axis] % size == 0 for axis, size in block_sizes.items())
    return tensor


def quantized_tensor(path):
    assert os.path.exists(path)

    class BaseQuantizedTensor:
        def __init__(self, shape, dtype, data):
            self.metadata, self._quantized_data = {"shape": shape, "dtype": dtype}, data
    return BaseQuantizedTensor


def auto_gptq():
    """QuantLinear of qlinear_cuda and qlinear_cuda_old, whose kernels for CPUs are torch."""
    transformers = stub("transformers") if importlib.util.find_spec("transformers") is None else importlib.import_module("transformers")
    utils = types.SimpleNamespace(Conv1D=type(None))
    if not hasattr(transformers, "pytorch_utils"):
        transformers.pytorch_utils = utils
    stub("auto_gptq")
    stub("auto_gptq.nn_modules")
    stub("auto_gptq.nn_modules.qlinear", GeneralQuantLinear=object)
    return {name: from_file("auto_gptq/nn_modules/qlinear/%s.py" % name, "auto_gptq.nn_modules.qlinear." + name)
            for name in ("qlinear_cuda_old", "qlinear_cuda")}


def gptqmodel():
    """PackableQuantLinear's dequantize_weight, taken out of its file, which wants the whole package."""
    with open(os.path.join(HERE, "gptqmodel/nn_modules/qlinear/__init__.py"), encoding="utf-8") as stream:
        tree = ast.parse(stream.read())
    wanted = {"_torch_right_shift", "_torch_left_shift", "_wf_device", "_init_wf_unsqueeze_buffers", "dequantize_weight", "_dequantize_from_codes"}
    body = [node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name in wanted]
    (found,) = [node for node in tree.body if isinstance(node, ast.ClassDef) and node.name == "PackableQuantLinear"]
    found.body = [node for node in found.body if isinstance(node, ast.FunctionDef) and node.name in wanted]
    names = {"t": torch, "GPTQQuantLinear": torch.nn.Module}
    exec(compile(ast.Module(body + [found], []), "gptqmodel", "exec"), names)
    return names["PackableQuantLinear"]


def awq():
    return from_file("awq/utils/packing_utils.py", "awq_packing_utils").dequantize_gemm


def bitsandbytes():
    return importlib.import_module("bitsandbytes")


def torchao():
    return importlib.import_module("torchao.prototype.safetensors.safetensors_support").unflatten_tensor_state_dict


# ---- what each makes of a weight

def blocks_reference(case, weight, target):
    parts = list(weight.parts.values())
    yield from transformers_fp8(parts[0], parts[1], target, weight.options.get("block"))
    dequantizer = load("FP8BlockDequantizer", block_dequantizer)
    block = weight.options.get("block")
    if dequantizer and block and parts[0].dim() == 2 and parts[0].dtype == torch.float8_e4m3fn and parts[1].dtype != torch.uint8:
        one = dequantizer(weight_block_size=tuple(block), dtype=target)
        yield named("compressed_tensors", "FP8BlockDequantizer"), one._create_dequantized_weight(parts[0], parts[1])


def transformers_fp8(items, scale, target, block):
    """It takes the block from the shapes: only where that gives the block that is meant."""
    one = load("Fp8Dequantize", fp8_dequantize)
    cols = items.shape[-1] * (2 if items.dtype == torch.int8 else 1)
    if one is None or block and any(size % (count * part) or size != count * part for size, count, part in zip((items.shape[-2], cols), scale.shape[-2:], block)):
        return
    yield named("transformers", "Fp8Dequantize"), one._dequantize_one(items, scale, target)


def tensor_reference(case, weight, target):
    one = load("Fp8Dequantize", fp8_dequantize)
    if one and weight.parts["weight_scale_inv"].dim() == 0:
        yield named("transformers", "Fp8Dequantize"), one._dequantize_one(weight.parts["weight"], weight.parts["weight_scale_inv"], target)


def ct_reference(case, weight, target):
    found = load("compressed-tensors", compressed_tensors)
    if found is None or (version("compressed_tensors") < "0.19") != (case.kind == "ct_old"):
        return
    base, scheme_of = found
    scheme = scheme_of.model_validate({"targets": ["Linear"], "weights": weight.options["weights"], "format": weight.options["form"]})
    compressor = base.get_value_from_registry(weight.options["form"])
    value = compressor.decompress(dict(weight.parts), scheme)["weight"]
    yield named("compressed_tensors", compressor.__name__ + ".decompress"), value.to(target)


def gpt_oss_reference(case, weight, target):
    convert = load("mxfp4", mxfp4)
    if convert and case.kind == "gpt_oss":
        yield named("transformers", "_convert_moe_packed_tensors"), convert(weight.parts["blocks"], weight.parts["scales"], dtype=target)


def gpt_oss_original_reference(case, weight, target):
    checkpoint = load("gpt-oss", gpt_oss)
    if checkpoint:
        class InMemory(checkpoint):
            def __init__(self):
                self.tensor_name_to_file = dict.fromkeys(weight.parts)

            def _get_tensor(self, name):
                return weight.parts[name]
        yield named("gpt_oss", "Checkpoint._get_mxfp4_tensor"), InMemory()._get_mxfp4_tensor("blocks", "scales", dtype=target)


def modelopt_reference(case, weight, target):
    classes = load("modelopt", modelopt)
    if classes is None:
        return
    items, scale = weight.parts["weight"], weight.parts["weight_scale"]
    algorithm = weight.options["algorithm"]
    if algorithm == "NVFP4":
        shape = torch.Size((*items.shape[:-1], items.shape[-1] * 2))
        value = classes["NVFP4QTensor"](shape, target, items).dequantize(target, scale=scale, double_scale=weight.parts["weight_scale_2"], block_sizes={-1: 16})
    elif algorithm == "MXFP8":
        value = classes["MXFP8QTensor"](items.shape, target, items).dequantize(target, scale=scale)
    elif algorithm == "W4A8_MXFP4_FP8":
        shape = torch.Size((*items.shape[:-1], items.shape[-1] * 2))
        value = classes["MXFP4QTensor"](shape, target, items).dequantize(target, scale=scale, block_sizes={-1: 32})
    else:
        kind = "INT8QTensor" if items.dtype == torch.int8 else "FP8QTensor"
        value = classes[kind](items.shape, target, items).dequantize(target, scale=scale[:, None] if scale.dim() else scale)
    yield named("nvidia_modelopt", "dequantize of " + algorithm), value


class Seen(Exception):
    pass


def gptq_reference(case, weight, target):
    """The weight that the layer multiplies with, taken where it does so."""
    modules = load("auto_gptq", auto_gptq)
    if weight.options["form"] == "gptq_v2":
        yield from gptq_v2_reference(weight, target)
    if modules is None or weight.options["form"] != "gptq":
        return
    parts, bits = weight.parts, weight.options["bits"]
    rows, cols = parts["scales"].shape[1], parts["g_idx"].shape[0]
    straight = bool((parts["g_idx"][1:] >= parts["g_idx"][:-1]).all())
    # which of the two makes what of the highest zero point, by release
    old_wraps, highest, wraps = version("auto_gptq") >= "0.7", weight.options["highest"], weight.options["wraps"]
    names = ["qlinear_cuda_old"] if straight and cols % weight.options["group"] == 0 and (not highest or wraps == old_wraps) else []
    names += [] if highest and wraps else ["qlinear_cuda"]
    for name in names:
        one = modules[name].QuantLinear(bits, weight.options["group"], cols, rows, False, weight_dtype=parts["scales"].dtype)
        for part, tensor in parts.items():
            one.register_buffer(part, tensor.clone())
        found, matmul = [], torch.matmul

        def seen(x, value):
            found.append(value)
            raise Seen
        torch.matmul = seen
        try:
            one(torch.zeros(1, cols, dtype=parts["scales"].dtype))
        except Seen:
            pass
        finally:
            torch.matmul = matmul
        yield named("auto_gptq", name), found[0].t().contiguous().to(target)


def gptq_v2_reference(weight, target):
    linear = load("gptqmodel", gptqmodel)
    if linear:
        one, bits = linear(), weight.options["bits"]
        one.planar, one.bits, one.maxq, one.pack_factor, one.pack_dtype_bits, one.enable_wf_unsqueeze = False, bits, 2 ** bits - 1, 32 // bits, 32, True
        one.dequant_dtype = torch.int16 if bits == 8 else torch.int8
        one.in_features = weight.parts["g_idx"].shape[0]
        for part, tensor in weight.parts.items():
            one.register_buffer(part, tensor.clone())
        yield named("gptqmodel", "PackableQuantLinear.dequantize_weight"), one.dequantize_weight().t().contiguous().to(target)


def awq_reference(case, weight, target):
    dequantize = load("autoawq", awq)
    if dequantize:
        parts = weight.parts
        yield named("autoawq", "dequantize_gemm"), dequantize(parts["qweight"], parts["qzeros"], parts["scales"], 4, weight.options["group"]).t().contiguous().to(target)


def bnb_dequantize(bnb, items, state):
    """Its arithmetic in torch, where it is: of rows that are no whole blocks its kernel for AVX-512 takes the scales of other blocks (0.50.2)."""
    default = importlib.import_module("bitsandbytes.backends.default.ops")
    if not hasattr(default, "_dequantize_4bit_compute"):
        return bnb.functional.dequantize_4bit(items, state)
    scales = state.absmax
    if state.nested:
        scales = bnb.functional.dequantize_blockwise(scales, state.state2) + state.offset
    code = importlib.import_module("bitsandbytes.backends.utils")._get_4bit_code(state.quant_type, items.device)
    return default._dequantize_4bit_compute(items.view(torch.uint8).reshape(-1), scales.float(), code, state.blocksize, state.shape, state.dtype)


def bnb_4bits_reference(case, weight, target):
    bnb = load("bitsandbytes", bitsandbytes)
    if bnb is None:
        return
    parts = {local: tensor.clone() for local, tensor in weight.parts.items()}
    items, state = parts.pop("weight"), parts.pop("quant_state")
    parts["quant_state.bitsandbytes__" + weight.options["quant"]] = state
    state = bnb.functional.QuantState.from_dict(parts, torch.device("cpu"))
    yield named("bitsandbytes", "dequantize_4bit"), bnb_dequantize(bnb, items, state).to(target)


def bnb_int8_reference(case, weight, target):
    if load("bitsandbytes", bitsandbytes):
        yield (named("bitsandbytes", "int8_vectorwise_dequant"),
               torch.ops.bitsandbytes.int8_vectorwise_dequant(weight.parts["weight"], weight.parts["SCB"]).to(target))


def torchao_reference(case, weight, target):
    unflatten = load("torchao", torchao)
    if unflatten is None:
        return
    prefix = "%s._%s_" % tuple(weight.name.rsplit(".", 1))
    tensors = {prefix + local: tensor.clone() for local, tensor in weight.parts.items()}
    found, left = unflatten(tensors, {weight.name: case.metadata[weight.name], "tensor_names": json.dumps([weight.name])})
    assert not left, left
    value = found[weight.name]
    kind = type(value).__name__
    yield named("torchao", kind), value.dequantize().to(target) if kind == "IntxUnpackedToInt8Tensor" else value.dequantize(target)


# ---- weights as the packages themselves write them: (name, {local name: (name, tensor)}, who, numbers of a target)

BASE = "model.layers.77.packed_by_its_package"


def plain(rows, cols, dtype=torch.bfloat16):
    """A weight with a row of zeros, subnormal numbers and one that is large."""
    torch.manual_seed(rows * cols)
    value = torch.randn(rows, cols, dtype=torch.float32)
    value[1] = 0
    value[2] *= 1e-38
    value[3, 5] = 60000.0
    return value.to(dtype)


def of_state(state, whole):
    return {local: (BASE + "." + local, tensor.detach().clone()) for local, tensor in state.items() if local not in whole}


def reduced(value, weights):
    """The least and the greatest of what one scale is for."""
    rows, cols = value.shape
    value = value.float()
    if weights.strategy == "tensor":
        parts = value.reshape(1, -1)
    elif weights.strategy == "channel":
        parts = value.reshape(rows, 1, cols)
    elif weights.strategy == "block":
        height, width = weights.block_structure
        value = torch.nn.functional.pad(value, (0, -cols % width, 0, -rows % height))
        parts = value.reshape(value.shape[0] // height, height, value.shape[1] // width, width).transpose(1, 2).flatten(2)
    else:
        parts = value.reshape(rows, cols // weights.group_size, weights.group_size)
    return parts.amin(-1), parts.amax(-1)


def ct_written(case):
    found = load("compressed-tensors", compressed_tensors)
    if found is None or (version("compressed_tensors") < "0.19") != (case.kind == "ct_old"):
        return
    quantization = importlib.import_module("compressed_tensors.quantization")
    helpers = importlib.import_module("compressed_tensors.quantization.utils.helpers")
    options = case.weights[0].options
    scheme = found[1].model_validate({"targets": ["Linear"], "weights": options["weights"], "format": options["form"]})
    weights = scheme.weights
    dtype = case.tensors[case.weights[0].name.removesuffix("weight") + "weight_scale"].dtype
    cols = 2 * weights.group_size if weights.group_size and weights.group_size > 48 else 96
    layer = torch.nn.Linear(cols, 64, bias=False, dtype=dtype if dtype.itemsize > 1 else torch.bfloat16)
    layer.weight.data = plain(64, cols, layer.weight.dtype)
    quantization.initialize_module_for_quantization(layer, scheme)
    least, most = reduced(layer.weight.data, weights)
    more = {}
    if weights.strategy == "tensor_group":
        layer.weight_global_scale.data = helpers.generate_gparam(least.min().reshape(1), most.max().reshape(1))
        more["global_scale"] = layer.weight_global_scale.data
    scale, zero = helpers.calculate_qparams(least, most, weights, **more)
    layer.weight_scale.data = scale.to(layer.weight_scale.dtype).reshape(layer.weight_scale.shape)
    if getattr(layer, "weight_zero_point", None) is not None:
        layer.weight_zero_point.data = zero.to(layer.weight_zero_point.dtype).reshape(layer.weight_zero_point.shape)
    compressor = found[0].get_value_from_registry(options["form"])
    compressor.compress_module(layer)
    state = {local: tensor.detach().clone() for local, tensor in layer.state_dict().items()}
    value = compressor.decompress(dict(state), scheme)["weight"]
    yield BASE + ".weight", of_state(state, ()), named("compressed_tensors", compressor.__name__ + ".compress_module"), value.to


def fp8_written(case):
    one = load("Fp8Dequantize", fp8_dequantize)
    block = case.config["quantization_config"]["weight_block_size"]
    if one is None or block is None or block[0] == 1:
        return
    module = importlib.import_module("transformers.integrations.finegrained_fp8")
    config = types.SimpleNamespace(weight_block_size=block, scale_fmt="float")
    value = plain(2 * block[0], 3 * block[1])
    state = module.Fp8Quantize(types.SimpleNamespace(quantization_config=config)).convert({BASE + ".weight": value})
    state = {name.removeprefix(BASE + "."): tensor for name, tensor in state.items()}
    yield (BASE + ".weight", of_state(state, ()), named("transformers", "Fp8Quantize"),
           lambda target: one._dequantize_one(state["weight"], state["weight_scale_inv"], target))


def bnb_4bits_written(case):
    bnb = load("bitsandbytes", bitsandbytes)
    if bnb is None:
        return
    options = case.weights[0].options
    given = {"quant_type": options["quant"], "compress_statistics": options["nested"], "blocksize": options["block"], "quant_storage": options["storage"]}
    weight = bnb.nn.Params4bit(plain(33, 96, options["dtype"]), requires_grad=False, **given)
    layer = bnb.nn.Linear4bit(96, 33, bias=False, compress_statistics=options["nested"], quant_type=options["quant"], quant_storage=options["storage"])
    layer.weight = weight
    layer = layer.to("cpu")
    parts = of_state(layer.state_dict(), ())
    value = bnb_dequantize(bnb, layer.weight.data, layer.weight.quant_state)
    yield BASE + ".weight", parts, named("bitsandbytes", "Linear4bit"), value.to


def bnb_int8_written(case):
    bnb = load("bitsandbytes", bitsandbytes)
    if bnb:
        layer = bnb.nn.Linear8bitLt(96, 33, bias=False, has_fp16_weights=False)
        layer.weight = bnb.nn.Int8Params(plain(33, 96, torch.float16), requires_grad=False, has_fp16_weights=False)
        layer = layer.to("cpu")
        state = layer.state_dict()
        value = torch.ops.bitsandbytes.int8_vectorwise_dequant(state["weight"], state["SCB"])
        yield BASE + ".weight", of_state(state, ()), named("bitsandbytes", "Linear8bitLt"), value.to


def count_of_groups(case):
    return 1 if case.config["quantization_config"]["group_size"] == -1 else 2


def gptq_written(case):
    modules, options = load("auto_gptq", auto_gptq), case.weights[0].options
    act = not bool((case.weights[0].parts["g_idx"].diff() >= 0).all())
    if modules is None or options["form"] != "gptq" or options["highest"] or act:
        return
    bits, count, rows = options["bits"], count_of_groups(case), 64
    cols = count * options["group"]
    dtype = case.weights[0].parts["scales"].dtype
    layer = torch.nn.Linear(cols, rows, bias=False, dtype=dtype)
    layer.weight.data = (plain(rows, cols).clamp(-3, 3) * 0.01).to(dtype)
    groups = layer.weight.data.float().reshape(rows, count, -1)
    scales = ((groups.amax(-1) - groups.amin(-1)) / (2 ** bits - 1)).clamp(min=1e-5)
    zeros = (-groups.amin(-1) / scales).round().clamp(1, 2 ** bits - 1)
    one = modules["qlinear_cuda_old"].QuantLinear(bits, options["group"], cols, rows, False, weight_dtype=dtype)
    items = ((groups / scales.unsqueeze(-1) + zeros.unsqueeze(-1)).round().clamp(0, 2 ** bits - 1) - zeros.unsqueeze(-1)) * scales.unsqueeze(-1)
    layer.weight.data = items.reshape(rows, cols).to(dtype)
    one.pack(layer, scales.to(dtype), zeros.clone(), None)
    parts = of_state(one.state_dict(), ())
    weight = types.SimpleNamespace(parts={local: tensor for local, (_, tensor) in parts.items()}, options=options)
    yield (BASE + ".weight", parts, named("auto_gptq", "QuantLinear.pack"), lambda target: next(gptq_reference(case, weight, target))[1])


def awq_linear():
    stub("awq")
    stub("awq.utils")
    stub("awq.utils.module", try_import=lambda name: (None, ""))
    stub("awq.utils.utils", get_best_device=lambda: "cpu")
    stub("awq.utils.packing_utils", dequantize_gemm=None)
    return from_file("awq/modules/linear/gemm.py", "awq_linear_gemm").WQLinear_GEMM


def awq_written(case):
    linear, dequantize = load("awq linear", awq_linear), load("autoawq", awq)
    if linear is None or dequantize is None:
        return
    group, count, rows = case.weights[0].options["group"], count_of_groups(case), 64
    cols = count * group
    groups = (plain(rows, cols).clamp(-3, 3) * 0.01).float().reshape(rows, count, -1)
    scales = ((groups.amax(-1) - groups.amin(-1)) / 15).clamp(min=1e-5).half()
    zeros = (-groups.amin(-1) / scales).round().clamp(0, 15)
    items = ((groups / scales.unsqueeze(-1) + zeros.unsqueeze(-1)).round().clamp(0, 15) - zeros.unsqueeze(-1)) * scales.unsqueeze(-1)
    layer = torch.nn.Linear(cols, rows, bias=False)
    layer.weight.data = items.reshape(rows, cols)
    one = linear.from_linear(layer, 4, group, scales=scales.t().contiguous(), zeros=zeros.t().contiguous())
    parts = of_state(one.state_dict(), ())
    value = dequantize(one.qweight, one.qzeros, one.scales, 4, group).t().contiguous()
    yield BASE + ".weight", parts, named("autoawq", "WQLinear_GEMM.from_linear"), value.to


def torchao_written(case):
    """Configurations of torchao whose scales are in the order of cuBLAS, at work."""
    if not case.name.endswith("swizzled") or load("torchao", torchao) is None:
        return
    quantize = importlib.import_module("torchao.quantization").quantize_
    flatten = importlib.import_module("torchao.prototype.safetensors.safetensors_support").flatten_tensor_state_dict
    formats = importlib.import_module("torchao.prototype.mx_formats")
    if "nvfp4" in case.name:
        config = formats.NVFP4WeightOnlyConfig()
    else:
        dtype = json.loads(case.metadata[case.weights[0].name])["_data"]["elem_dtype"]["_data"]
        if dtype == "float8_e5m2":      # the configuration takes no other than e4m3
            return
        config = formats.MXDynamicActivationMXWeightConfig(activation_dtype=getattr(torch, dtype), weight_dtype=getattr(torch, dtype))
    layer = torch.nn.Linear(416, 144, bias=False).bfloat16()
    layer.weight.data = plain(144, 416)
    quantize(layer, config)
    name = BASE + ".weight"
    tensors, metadata = flatten({name: layer.weight.data})
    case.metadata[name] = metadata[name]
    case.metadata["tensor_names"] = json.dumps(json.loads(case.metadata["tensor_names"]) + [name])
    own = BASE + "._weight_"
    yield (name, {full.removeprefix(own): (full, tensor.detach().clone()) for full, tensor in tensors.items()}, named("torchao", type(config).__name__),
           lambda target: layer.weight.data.dequantize(target))


WRITTEN = {"torchao": torchao_written, "ct": ct_written, "ct_old": ct_written, "fp8_blocks": fp8_written, "bnb_4bits": bnb_4bits_written, "bnb_int8": bnb_int8_written, "gptq": gptq_written, "awq": awq_written}


def written(case):
    return list(WRITTEN[case.kind](case)) if case.kind in WRITTEN else []


REFERENCES = {"fp8_blocks": blocks_reference, "fp8_tensor": tensor_reference, "deepseek_v4": blocks_reference, "ct": ct_reference, "ct_old": ct_reference,
              "gpt_oss": gpt_oss_reference, "gpt_oss_original": gpt_oss_original_reference, "modelopt": modelopt_reference, "gptq": gptq_reference,
              "awq": awq_reference, "bnb_4bits": bnb_4bits_reference, "bnb_int8": bnb_int8_reference, "torchao": torchao_reference}


def reference(case, weight, target):
    return list(REFERENCES[case.kind](case, weight, target))


def describe():
    names = sorted(name[:-len(".dist-info")] for name in os.listdir(HERE) if name.endswith(".dist-info"))
    return ", ".join(names) or "none"


def absent():
    return ABSENT

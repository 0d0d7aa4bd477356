# SPDX-License-Identifier: Apache-2.0
"""Quantized weights: what there are, and the plain ones in their place, against numbers that are worked out here."""

import io
import json
import os
import struct
import subprocess

import pytest

import ckpt

COMMAND = os.environ.get("CKPT")


def save(path, tensors):
    """A safetensors file of {name: (dtype, shape, bytes)}."""
    header, at = {}, 0
    for name, (dtype, shape, data) in tensors.items():
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [at, at + len(data)]}
        at += len(data)
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as stream:
        stream.write(struct.pack("<Q", len(text)) + text + b"".join(data for _, _, data in tensors.values()))


def e4m3(code):
    sign, exponent, fraction = -1.0 if code & 128 else 1.0, code >> 3 & 15, code & 7
    if exponent == 15 and fraction == 7:
        return float("nan")
    return sign * (fraction / 8 * 2.0 ** -6 if exponent == 0 else (1 + fraction / 8) * 2.0 ** (exponent - 7))


def f32(value):
    return struct.unpack("<f", struct.pack("<f", value))[0]


def bf16(value):
    """Rounded to bfloat16, ties to even, as its two bytes."""
    bits = struct.unpack("<I", struct.pack("<f", value))[0]
    return struct.pack("<H", (bits + 0x7fff + (bits >> 16 & 1)) >> 16)


def from_bf16(two):
    return struct.unpack("<f", b"\0\0" + two)[0]


FP8 = {"quantization_config": {"quant_method": "fp8", "fmt": "e4m3", "weight_block_size": [2, 4]}}
INT4 = {"quantization_config": {"quant_method": "compressed-tensors", "format": "pack-quantized", "config_groups": {"group_0": {
    "targets": ["Linear"], "weights": {"num_bits": 4, "type": "int", "strategy": "group", "group_size": 8, "symmetric": True}}}}}
CODES = bytes(code for code in range(3 * 6 * 4) if code & 127 != 127)[:18]
SCALES = [0.5, 0.013, 3.0, -0.7]
BLOCKS = [SCALES[(row // 2) * 2 + column // 4] for row in range(3) for column in range(6)]
FP8_NUMBERS = [f32(e4m3(code) * f32(scale)) for code, scale in zip(CODES, BLOCKS)]
NORM = struct.pack("<2f", 1, 2)


def fp8_parts():
    """net.up, of 3 rows and 6 columns in blocks of 2 times 4; net.norm is plain."""
    return {"net.norm.weight": ("F32", [2], NORM), "net.up.weight": ("F8_E4M3", [3, 6], CODES),
            "net.up.weight_scale_inv": ("F32", [2, 2], struct.pack("<4f", *SCALES)),
            "net.up.activation_scale": ("F32", [1], struct.pack("<f", 4))}


@pytest.fixture
def fp8(tmp_path):
    save(tmp_path / "model.safetensors", fp8_parts())
    (tmp_path / "config.json").write_text(json.dumps(FP8))
    return str(tmp_path / "model.safetensors")


ITEMS = [(7 * n + 3) % 16 for n in range(2 * 16)]
GROUPS = [bf16(scale) for scale in (0.1, 0.37, -2.5, 1e-3)]
INT4_BYTES = b"".join(bf16((item - 8) * from_bf16(GROUPS[n // 8])) for n, item in enumerate(ITEMS))


@pytest.fixture
def int4(tmp_path):
    """head, of 2 rows and 16 columns in groups of 8, of compressed-tensors: the plain weight has a name that no tensor has."""
    packed = struct.pack("<4I", *(sum(item << 4 * k for k, item in enumerate(ITEMS[n:n + 8])) for n in range(0, 32, 8)))
    folder = tmp_path / "int4"
    folder.mkdir()
    save(folder / "model.safetensors", {
        "head.weight_packed": ("I32", [2, 2], packed), "head.weight_scale": ("BF16", [2, 2], b"".join(GROUPS)),
        "head.weight_shape": ("I64", [2], struct.pack("<2q", 2, 16)), "head.bias": ("BF16", [2], b"\0\0\0\0")})
    (folder / "config.json").write_text(json.dumps(INT4))
    return str(folder / "model.safetensors")


def floats(tensor):
    return struct.unpack("<%df" % tensor.numel(), tensor.memoryview().tobytes())


def test_quantized_lists_weights_and_what_they_take(fp8, int4, model):
    with ckpt.open(fp8) as f:
        assert f.quantized() == {"format": "fp8", "weights": [
            {"name": "net.up.weight", "scheme": f.quantized()["weights"][0]["scheme"], "shape": (3, 6), "nbytes": 18 + 16, "parts": 2,
             "items": "net.up.weight"}], "dropped": ["net.up.activation_scale"]}
        assert "FP8" in f.quantized()["weights"][0]["scheme"]
    with ckpt.open(int4) as f:
        found = f.quantized()
        assert found["format"] == "compressed-tensors" and found["dropped"] == []
        assert [(one["name"], one["items"], one["shape"], one["nbytes"], one["parts"]) for one in found["weights"]] == [
            ("head.weight", "head.weight_packed", (2, 16), 16 + 8 + 16, 3)]
        assert f.dequantize("bf16").quantized() is None
    with ckpt.open(model) as f:
        assert f.quantized() is None


def test_dequantize_gives_the_numbers_that_stand_there(fp8, int4):
    with ckpt.open(fp8) as f:
        plain = f.dequantize("f32")
        assert list(plain) == ["net.norm.weight", "net.up.weight"]
        assert (plain["net.up.weight"].dtype, plain["net.up.weight"].shape) == ("float32", (3, 6))
        assert floats(plain["net.up.weight"]) == tuple(FP8_NUMBERS)
        assert f.dequantize("bf16")["net.up.weight"].memoryview().tobytes() == b"".join(map(bf16, FP8_NUMBERS))
        assert f["net.up.weight"].dtype == "float8_e4m3fn"
    with ckpt.open(int4) as f:
        plain = f.dequantize("bf16")
        assert set(plain) == {"head.weight", "head.bias"}
        assert plain["head.weight"].memoryview().tobytes() == INT4_BYTES


def test_parts_of_plain_weights_are_read_lazily(fp8, int4):
    numpy = pytest.importorskip("numpy")
    with ckpt.open(fp8) as f:
        rows = f.dequantize("f32")["net.up.weight"][1:, ::3]
        assert rows.tolist() == [[FP8_NUMBERS[6 * row + column] for column in (0, 3)] for row in (1, 2)]
        assert numpy.asarray(f["net.up.weight"].dequantize("f32")).shape == (3, 6)


def test_a_chain_writes_what_the_command_writes(fp8, int4, tmp_path):
    for source in (fp8, int4):
        out = tmp_path / "out.safetensors"
        with ckpt.open(source) as f:
            made = f.drop("*bias").dequantize("bf16").add_prefix("model.")
            report = made.save(out, no_sync=True, overwrite=True)
        assert report["nbytes"] == out.stat().st_size
        did = next(one for one in made.edits if one["edit"] == "dequantize")
        assert (did["tensors_dequantized"], did["scales_dropped"]) == (1, int(source == fp8))
        with ckpt.open(out) as f:
            assert f.quantized() is None and all(name.startswith("model.") for name in f)
        if COMMAND:
            theirs = tmp_path / "theirs.safetensors"
            subprocess.run([COMMAND, "edit", "-q", "-f", "--no-sync", "--if-present", source, theirs, "--dequantize", "bf16", "--add-prefix", "model.",
                            "--drop", "*bias"], check=True)
            assert theirs.read_bytes() == out.read_bytes()


@pytest.mark.skipif(not COMMAND, reason="CKPT is not set, there is no command to compare with")
def test_dequantize_alone_writes_what_cast_writes(fp8, int4, tmp_path):
    for number, source in enumerate((fp8, int4)):
        for dtype in ("bf16", "f16", "f32"):
            ours, theirs = tmp_path / ("ours%d.safetensors" % number), tmp_path / ("theirs%d.safetensors" % number)
            subprocess.run([COMMAND, "cast", "-q", "-f", "--no-sync", "--dequantize", dtype, source, theirs], check=True)
            with ckpt.open(source) as f:
                f.dequantize(dtype).save(ours, no_sync=True, overwrite=True)
            assert ours.read_bytes() == theirs.read_bytes()


def test_scales_may_be_in_another_file_of_a_directory(tmp_path):
    folder, parts = tmp_path / "hub", fp8_parts()
    folder.mkdir()
    files = {"a.safetensors": ["net.norm.weight", "net.up.weight"], "b.safetensors": ["net.up.weight_scale_inv", "net.up.activation_scale"]}
    for name, names in files.items():
        save(folder / name, {one: parts[one] for one in names})
    (folder / "model.safetensors.index.json").write_text(
        json.dumps({"metadata": {"total_size": 46}, "weight_map": {one: name for name, names in files.items() for one in names}}))
    (folder / "config.json").write_text(json.dumps(FP8))
    with ckpt.open(folder) as f:
        assert [one["name"] for one in f.quantized()["weights"]] == ["net.up.weight"]
        assert floats(f["net.up.weight"].dequantize("f32")) == tuple(FP8_NUMBERS)
        f.dequantize("f32").save(tmp_path / "plain", no_sync=True)
        f.dequantize("f32").save(tmp_path / "plain.pt", no_sync=True, format="torch")
    for path in (tmp_path / "plain", tmp_path / "plain.pt"):
        with ckpt.open(path) as f:
            assert set(f) == {"net.norm.weight", "net.up.weight"} and f.quantized() is None
            assert floats(f["net.up.weight"]) == tuple(FP8_NUMBERS)


def test_a_tensor_gives_the_plain_weight_whose_items_it_has(fp8, int4, tmp_path):
    with ckpt.open(int4) as f:
        weight = f["head.weight_packed"].dequantize("bf16")
        assert (weight.name, weight.dtype, weight.shape) == ("head.weight", "bfloat16", (2, 16))
        assert weight.memoryview().tobytes() == INT4_BYTES
        assert f["head.weight_packed"].dequantize("float32").dtype == "float32"
        with pytest.raises(KeyError):
            f["head.weight"]
        for name in ("head.weight_scale", "head.weight_shape", "head.bias"):
            with pytest.raises(ckpt.Error, match="'%s' holds the numbers of no quantized weight" % name) as caught:
                f[name].dequantize("bf16")
            assert caught.value.status == "NOTFOUND" and isinstance(caught.value, KeyError)
    with pytest.raises(ValueError, match="closed"):
        weight.memoryview()
    with ckpt.open(fp8) as f:
        assert floats(f["net.up.weight"].dequantize("f32")) == tuple(FP8_NUMBERS)


def test_a_tensor_of_an_edited_checkpoint_is_dequantized_there(fp8):
    with ckpt.open(fp8) as f:
        renamed = f.rename("s/^net/model/")
        assert floats(renamed["model.up.weight"].dequantize("f32")) == tuple(FP8_NUMBERS)
        assert renamed["model.up.weight"].dequantize("f32").name == "model.up.weight"


def test_the_result_outlives_what_it_was_made_of(fp8):
    f = ckpt.open(fp8)
    plain = f.dequantize("f32")
    f.close()
    del f
    assert floats(plain["net.up.weight"]) == tuple(FP8_NUMBERS)
    plain.close()


def test_in_place_the_file_holds_plain_weights(fp8):
    with ckpt.open(fp8) as f:
        f.dequantize("f32").save_in_place()
    with ckpt.open(fp8) as f:
        assert f.quantized() is None and floats(f["net.up.weight"]) == tuple(FP8_NUMBERS)


def test_without_a_path_config_says_what_config_json_would(fp8):
    data = open(fp8, "rb").read()
    for source in (data, io.BytesIO(data)):
        for config in (FP8, json.dumps(FP8), json.dumps(FP8).encode()):
            with ckpt.open(source) as f:
                assert f.quantized(config=config)["format"] == "fp8"
                assert floats(f.dequantize("f32", config=config)["net.up.weight"]) == tuple(FP8_NUMBERS)
                assert floats(f["net.up.weight"].dequantize("f32", config=config)) == tuple(FP8_NUMBERS)


def test_as_overrules_what_config_json_says(fp8, tmp_path):
    (tmp_path / "config.json").write_text(json.dumps({"quantization_config": {"quant_method": "of-nobody"}}))
    with ckpt.open(fp8) as f:
        for call in (f.quantized, lambda: f.dequantize("bf16")):
            with pytest.raises(ckpt.Error, match="of-nobody") as caught:
                call()
            assert caught.value.status == "UNSUPPORTED"
        with pytest.raises(ValueError, match="there is no format of quantized weights 'of-somebody'"):
            f.quantized(as_="of-somebody")
        with pytest.raises(TypeError):
            f.quantized(config=7)
        for empty in ("", b"", " \n"):
            with pytest.raises(ValueError, match="no configuration"):
                f.quantized(config=empty)


def test_what_does_not_fit_is_an_error_that_names_the_tensor(fp8, tmp_path):
    parts = fp8_parts()
    del parts["net.up.weight_scale_inv"]
    save(fp8, parts)
    with ckpt.open(fp8) as f:
        assert f["net.norm.weight"].memoryview().tobytes() == NORM
        for call in (f.quantized, lambda: f.dequantize("bf16"), lambda: f["net.up.weight"].dequantize("bf16")):
            with pytest.raises(ckpt.Error, match="net.up"):
                call()


def test_nothing_quantized_gives_an_equal_checkpoint(model, tmp_path):
    with ckpt.open(model) as f:
        same = f.dequantize("bf16")
        assert list(same) == list(f) and same.edits[-1]["tensors_dequantized"] == 0 and same.edits[-1]["edit"] == "dequantize"
        with pytest.raises(ValueError, match="quantized weights become bfloat16, float16 or float32, not 'int8'"):
            f.dequantize("int8")
        assert f.dequantize("bf16", as_="gptq").edits[-1]["tensors_dequantized"] == 0
        with pytest.raises(ckpt.Error, match="'a' holds the numbers of no quantized weight"):
            f["a"].dequantize("bf16")


def test_one_reading_of_all_names_serves_all_tensors(fp8, monkeypatch):
    with ckpt.open(fp8) as f:
        assert f["net.up.weight"].dequantize("f32")._checkpoint is f["net.up.weight"].dequantize("f32")._checkpoint
        assert f["net.up.weight"].dequantize("bf16").dtype == "bfloat16"
        assert f["net.up.weight"].dequantize("f32").dtype == "float32"


def test_threads_may_ask_one_checkpoint(fp8):
    import concurrent.futures

    with ckpt.open(fp8) as f, concurrent.futures.ThreadPoolExecutor(8) as pool:
        results = list(pool.map(lambda _: floats(f["net.up.weight"].dequantize("f32")), range(64)))
    assert set(results) == {tuple(FP8_NUMBERS)}


def test_convert_takes_dequantize(fp8, int4, tmp_path):
    for source, to in ((fp8, "pt"), (fp8, "safetensors"), (int4, "safetensors")):
        out = str(tmp_path / ("converted." + to))
        report = ckpt.convert(source, out, dequantize="bf16", overwrite=True, no_sync=True)
        assert report["nbytes"] == os.path.getsize(out)
        with ckpt.open(out) as f:
            assert f.quantized() is None and {one.dtype for name, one in f.items() if name != "net.norm.weight"} == {"bfloat16"}
        if COMMAND:
            by = tmp_path / "by" / ("converted." + to)
            by.parent.mkdir(exist_ok=True)
            subprocess.run([COMMAND, "convert", "-q", "-f", "--dequantize", "bf16", source, by], check=True)
            with open(out, "rb") as one, open(by, "rb") as other:
                assert one.read() == other.read()
    out = str(tmp_path / "converted.safetensors")
    ckpt.convert(io.BytesIO(open(fp8, "rb").read()), out, dequantize="f32", as_="fp8", config=FP8, overwrite=True, no_sync=True)
    with ckpt.open(out) as f:
        assert floats(f["net.up.weight"]) == tuple(FP8_NUMBERS)
    with pytest.raises(ValueError):
        ckpt.convert(fp8, out, as_="fp8", overwrite=True)


def test_a_cast_leaves_the_parts_of_quantized_weights(fp8):
    with ckpt.open(fp8) as f:
        left = f.cast("f16")
        assert left.edits[-1]["quantized_left"] == 3  # codes, scales and the scale of activations
        assert len(left.quantized()["weights"]) == 1
        assert f.cast("f16", as_="plain").edits[-1]["quantized_left"] == 0
        with pytest.raises(ckpt.Error) as caught:
            f.cast("f16", as_="gptq_v3")
        assert caught.value.status == "ARG"


def test_an_average_takes_no_parts_of_quantized_weights(fp8, tmp_path):
    out = tmp_path / "mean.safetensors"
    for options in ({}, {"as_": "fp8"}):
        with pytest.raises(ckpt.Error) as caught:
            ckpt.average([fp8, fp8], out, **options)
        assert (caught.value.reason, out.exists()) == ("QUANTIZED", False)
    ckpt.average([fp8, fp8], out, as_="plain")
    with ckpt.open(out) as mean, ckpt.open(fp8) as f:
        assert set(mean) == set(f) and all(mean[name].memoryview().tobytes() == f[name].memoryview().tobytes() for name in f)

# SPDX-License-Identifier: Apache-2.0
"""The examples of docs/python.md do what it says."""

import doctest
import os
import re
import struct

import pytest

from test_quantized import save

PAGE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "docs", "python.md")


def test_examples_of_the_page_run(write, files, tmp_path, monkeypatch):
    pytest.importorskip("numpy")
    body = b"}(" + files.text("encoder.weight") + files.tensor("0", numel=12, shape=(3, 4), stride=(4, 1))
    body += files.text("encoder.bias") + files.tensor("1", numel=2, shape=(2,))
    body += files.text("tied") + files.tensor("0", numel=12, shape=(3,), stride=(4,))
    body += files.text("epoch") + files.number(7)
    body += files.text("args") + files.glob("argparse", "Namespace") + b")\x81}" + files.text("lr") + b"G" + struct.pack(">d", 0.1) + b"sbu"
    write(body, {"0": struct.pack("<12f", *range(12)), "1": struct.pack("<2f", 0.5, -1)})
    (tmp_path / "quantized").mkdir()
    save(tmp_path / "quantized" / "model.safetensors", {
        "up.weight": ("F8_E4M3", [2, 8], bytes([0x38, 0xc0] + [0] * 14)), "up.weight_scale_inv": ("F32", [1, 1], struct.pack("<f", 0.5)),
        "norm.weight": ("F32", [1], struct.pack("<f", 1))})
    (tmp_path / "quantized" / "config.json").write_text('{"quantization_config": {"quant_method": "fp8", "weight_block_size": [128, 128]}}')
    (tmp_path / "README.txt").write_text("hello")
    monkeypatch.chdir(tmp_path)
    with open(PAGE, encoding="utf-8") as stream:
        blocks = re.findall(r"^```python\n(.*?)^```$", stream.read(), re.M | re.S)
    test = doctest.DocTestParser().get_doctest("\n".join(blocks), {}, "docs/python.md", PAGE, 0)
    runner, printed = doctest.DocTestRunner(), []
    runner.run(test, out=printed.append)
    result = runner.summarize(verbose=False)
    assert result.attempted > 15 and not result.failed, "".join(printed)

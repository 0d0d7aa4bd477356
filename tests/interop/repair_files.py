# SPDX-License-Identifier: Apache-2.0
"""Made by torch: files to be cut off. repair_files.py OUTDIR"""
import os
import sys
import warnings

warnings.simplefilter("ignore")

import torch  # noqa: E402

import repair_load  # noqa: E402

VERSION = tuple(map(int, torch.__version__.split(".")[:2]))


def network():
    return torch.nn.Sequential(torch.nn.Conv2d(3, 8, 3), torch.nn.BatchNorm2d(8), torch.nn.ReLU(), torch.nn.Linear(8, 5))


def trainer():
    net = network()
    optimizer = torch.optim.Adam(net.parameters(), lr=0.1)
    for parameter in net.parameters():
        parameter.grad = torch.randn(parameter.shape)
    optimizer.step()
    return {"model": net.state_dict(), "optimizer": optimizer.state_dict(), "epoch": 3, "args": {"lr": 0.1, "name": "run"}}


def dtypes():
    made = {"float%d" % bits: torch.randn(7, 3).to(getattr(torch, "float%d" % bits)) for bits in (16, 32, 64)}
    made.update({"int%d" % bits: torch.arange(20).to(getattr(torch, "int%d" % bits)) for bits in (8, 16, 32, 64)})
    made["uint8"] = torch.arange(200).to(torch.uint8)
    made["bool"] = torch.arange(11) % 2 == 0
    made["bfloat16"] = torch.randn(33).bfloat16()
    made["complex64"] = torch.view_as_complex(torch.randn(9, 2))
    made["complex128"] = torch.view_as_complex(torch.randn(9, 2).double())
    for name in ("float8_e5m2", "float8_e4m3fn", "uint16", "uint32", "uint64"):
        if hasattr(torch, name) and name.startswith("float"):
            made[name] = torch.randn(40).to(getattr(torch, name))
        elif hasattr(torch, name):
            made[name] = torch.arange(40).to(getattr(torch, name))
    return made


def views():
    whole, other = torch.randn(40, 50), torch.randn(60)
    return {"whole": whole, "row": whole[3], "column": whole[:, 7], "turned": whole.t(), "other": other, "again": other,
            "expanded": other[:1].expand(9), "scalar": torch.tensor(4.5), "empty": torch.zeros(0, 3), "tail": other[50:]}


def kinds():
    weights = torch.nn.Parameter(torch.randn(6, 6))
    return {"parameter": weights, "frozen": torch.nn.Parameter(torch.randn(5), requires_grad=False),
            "sparse": torch.eye(5).to_sparse(),
            "quantized": torch.quantize_per_tensor(torch.randn(30), 0.1, 3, torch.qint8),
            "by channel": torch.quantize_per_channel(torch.randn(4, 6), torch.rand(4).double() + 0.1, torch.zeros(4).long(), 0,
                                                     torch.quint8),
            "plain": torch.randn(12)}


def lists():
    return {"moments": [torch.randn(5), torch.randn(50)], "pair": ({"a": torch.randn(9)}, {"b": torch.randn(3)}),
            "large": torch.randn(90000), "last": torch.ones(4)}


def main():
    torch.manual_seed(1)
    os.makedirs(sys.argv[1])
    for build in (lambda: network().state_dict(), trainer, dtypes, views, kinds, lists):
        name = "model" if build.__name__ == "<lambda>" else build.__name__
        value = build()
        for form, zipped in (("zip", True), ("stream", False)):
            if not zipped and name == "kinds" and VERSION < (2, 1):
                value.pop("sparse")  # an edited stream gets the form of today, which this torch does not know
            path = os.path.join(sys.argv[1], "%s.%s" % (name, form))
            try:
                torch.save(value, path, _use_new_zipfile_serialization=zipped)
                repair_load.load(path)
            except Exception as error:  # not every torch can write, or load again, all of them
                os.remove(path)
                print("not made:", name, form, str(error)[:80].replace("\n", " "))


main()
sys.stdout.flush()
os._exit(0)  # torch 1.7 may abort when its threads end

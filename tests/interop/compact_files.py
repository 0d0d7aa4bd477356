# SPDX-License-Identifier: Apache-2.0
"""Made by torch: views of all kinds, and what they are when each has a storage of its own. compact_files.py OUTDIR

OUTDIR/in/views.pt, and OUTDIR/out/views.pt: loaded, every view cloned, those that share bytes together, saved.
"""

import os
import sys
import warnings

warnings.simplefilter("ignore")

import torch  # noqa: E402

import torch_files  # noqa: E402


def views():
    big, cube, y = torch.arange(1000.), torch.arange(4 * 6 * 8).reshape(4, 6, 8), torch.arange(20).double()
    square, tied, whole = torch.randn(10, 10), torch.arange(50, dtype=torch.int16), torch.randn(3, 4)
    parameter = torch.nn.Parameter(torch.randn(9)[1:4])
    old = torch.__version__.startswith("1.7.")      # Tensor.clone() arranged what had gaps in rows
    return {
        "head": big[:2], "tail": big[990:], "row": torch.randn(10, 10)[3], "column": square[:, 2],
        "tied": tied[5:10], "tied2": tied[5:10], "left": y[2:8], "right": y[6:11],
        "transposed": torch.randn(8, 3)[2:6].t(), "whole": whole, "whole.t": whole.t(),
        "steps": cube[::2, 1:4, ::3], "permuted": torch.randn(4, 6, 8)[1:3, ::1 + (not old)].permute(2, 0, 1),
        "expanded": torch.randn(7)[3:4].expand(5), "scalar": torch.randn(7)[4], "empty": torch.randn(7)[3:3],
        "parameter": parameter, "again": parameter, "one": torch.randn(6, 1, 5)[::2, :, 1:2],
        "half": torch.randn(64).half()[7:9], "bool": (torch.randn(9) > 0)[::3], "complex": torch.randn(
            6, dtype=torch.complex64)[::2], "twice": [torch.arange(10)[::3], 1]}


def strided(base, view, offset):
    return base.as_strided(view.size(), view.stride(), offset)


def cloned(obj):
    new = {key: value.clone() for key, value in obj.items()
           if isinstance(value, torch.Tensor) and not isinstance(value, torch.nn.Parameter)}
    new["tied2"] = strided(new["tied"], obj["tied2"], 0)
    shared = obj["left"].as_strided((9,), (1,), 2).clone()
    new["left"], new["right"] = strided(shared, obj["left"], 0), strided(shared, obj["right"], 4)
    new["whole"], new["whole.t"] = obj["whole"], obj["whole.t"]
    # what is expanded stays expanded, over the one item that there is
    new["expanded"] = strided(obj["expanded"][:1].clone(), obj["expanded"], 0)
    new["parameter"] = new["again"] = torch.nn.Parameter(obj["parameter"].detach().clone())
    new["twice"] = [obj["twice"][0].clone(), 1]
    return {key: new[key] for key in obj}


def main():
    out = sys.argv[1]
    torch.manual_seed(0)
    for part in ("in", "out"):
        os.makedirs(os.path.join(out, part), exist_ok=True)
    source = os.path.join(out, "in", "views.pt")
    torch.save(views(), source)
    torch.save(cloned(torch_files.load(source)), os.path.join(out, "out", "views.pt"))
    print("torch version", torch.__version__)


if __name__ == "__main__":
    main()

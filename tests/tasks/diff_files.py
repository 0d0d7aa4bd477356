# SPDX-License-Identifier: Apache-2.0
"""diff_files.py OUT.json: two checkpoints of a training, a.pt and b.pt, and what torch says of how far they are apart."""

import json
import sys

import torch


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = torch.nn.Sequential(torch.nn.Conv2d(3, 8, 3), torch.nn.BatchNorm2d(8))
        self.layers = torch.nn.ModuleList([torch.nn.Linear(8, 8) for _ in range(4)])
        self.head = torch.nn.Linear(8, 10)

    def forward(self, x):
        x = self.stem(x).mean(3).mean(2)
        for layer in self.layers:
            x = torch.relu(layer(x))
        return self.head(x)


def norm(tensors):
    return sum(float((t.double() ** 2).sum()) for t in tensors) ** 0.5


def apart(a, b):
    """Of two lists of tensors, as one vector each."""
    differences = [x.double() - y.double() for x, y in zip(a, b)]
    count = sum(d.numel() for d in differences)
    return {"change": norm(differences) / max(norm(a), norm(b)), "rms": norm(differences) / count ** 0.5, "count": count,
            "cosine": sum(float((x.double() * y.double()).sum()) for x, y in zip(a, b)) / (norm(a) * norm(b)),
            "max_abs": max(float(d.abs().max()) for d in differences), "tensors": len(differences)}


def main(out):
    torch.manual_seed(5)
    net, saved = Net(), []
    optimizer = torch.optim.Adam(net.parameters(), lr=0.01)
    for name in "ab":
        for _ in range(3):
            optimizer.zero_grad()
            (net(torch.randn(4, 3, 8, 8)) ** 2).mean().backward()
            optimizer.step()
        saved.append({key: value.clone() for key, value in net.state_dict().items()})
        moments = [s[key].clone() for s in optimizer.state_dict()["state"].values() for key in ("exp_avg", "exp_avg_sq")]
        saved.append(moments)
        torch.save({"epoch": len(saved), "optimizer": optimizer.state_dict(), "model": net.state_dict()}, name + ".pt")
        torch.save(optimizer.state_dict(), name + "-optimizer.pt")
        optimizer.param_groups[0]["lr"] = 0.005
    a, moments_a, b, moments_b = saved
    weights = [key for key in a if a[key].is_floating_point()]
    blocks = {}
    for key in weights:
        blocks.setdefault("model." + key.split(".")[0], []).append(key)
    with open(out, "w") as stream:
        json.dump({"weights": {"model." + key: apart([a[key]], [b[key]]) for key in weights},
                   "blocks": {block: apart([a[key] for key in keys], [b[key] for key in keys]) for block, keys in blocks.items()},
                   "optimizer": apart(moments_a, moments_b), "counters": ["model." + key for key in a if key not in weights]}, stream)


if __name__ == "__main__":
    main(sys.argv[1])

# SPDX-License-Identifier: Apache-2.0
"""Checkpoints made by torch, and their means made by numpy: average_files.py make | check WANTED.pt FOUND.pt ORDER ...

make: a.pt, b.pt, c.pt, the same as streams in a.legacy ..., trainers in 1.pt, 2.pt, 3.pt, models in two places in s0.pt, s1.pt, and want_*.pt. The mean of N is that of
float64, summed from the left and rounded once: numpy rounds float32 and float16 so; what it has not (bfloat16, float8) is
looked up in a table of all numbers of the dtype.
"""

import sys
import warnings

warnings.simplefilter("ignore")

import numpy as np  # noqa: E402
import torch  # noqa: E402

FLOAT8 = [getattr(torch, name) for name in ("float8_e5m2", "float8_e4m3fn", "float8_e5m2fnuz", "float8_e4m3fnuz") if hasattr(torch, name)]
TABLES = {}


def state(seed):
    torch.manual_seed(seed)
    odd = torch.tensor([0., -0., float("inf"), float("-inf"), float("nan"), 1e-45, 3e38, seed])
    if seed == 2:
        odd = torch.tensor([-0., -0., float("-inf"), float("-inf"), 1, 2e-45, 3e38, 7])
    flat = torch.randn(600)
    tied = torch.nn.Parameter(torch.randn(20, 30))
    out = {
        "large": torch.randn(700, 500), "large16": torch.randn(300001).half(), "double": torch.randn(9, 9).double(),
        "half": torch.randn(4099).half(), "tiny": torch.randn(500).half() * 1e-6, "brain": torch.randn(800001).bfloat16(),
        "odd": odd, "odd16": odd.half(), "oddb": odd.bfloat16(), "scalar": torch.randn(()), "empty": torch.zeros(0, 3),
        "transposed": torch.randn(30, 40).t(), "column": torch.randn(10, 10)[:, 3], "view1": flat[:200].view(10, 20), "view2": flat[150:],
        "tied": tied, "again": tied, "complex": torch.view_as_complex(torch.randn(50, 2)),
        "complex128": torch.view_as_complex(torch.randn(50, 2).double()),
        "num_batches_tracked": torch.tensor(7), "mask": torch.arange(5) > 2, "version": "x", "dims": (3, 4.5), "expanded": torch.randn(3, 1).expand(3, 4),
    }
    for dtype in FLOAT8:
        out[str(dtype)[6:]] = (torch.randn(3001) * 20).to(dtype)
    return out


def of_codes(codes, dtype):
    if dtype == torch.bfloat16:
        return torch.from_numpy((codes.astype("uint32") << 16).view("float32")).bfloat16()
    return torch.from_numpy(codes.astype("uint8")).view(dtype)


def table(dtype):
    """All numbers of a dtype that are not NaN, and their codes, as numbers go up."""
    if dtype not in TABLES:
        values = of_codes(np.arange(65536 if dtype == torch.bfloat16 else 256), dtype).float().numpy().astype("float64")
        codes = np.arange(len(values))
        keep = np.isfinite(values) & ~((values == 0) & (codes > 0))
        order = np.argsort(values[keep])
        TABLES[dtype] = values[keep][order], codes[keep][order]
    return TABLES[dtype]


def rounded(numbers, dtype):
    """A float64 array as DTYPE, rounded once."""
    if dtype in (torch.float64, torch.float32, torch.float16):
        return torch.from_numpy(numbers.astype(str(dtype)[6:]))
    values, codes = table(dtype)
    wide = np.abs(numbers).ravel()
    at = np.clip(np.searchsorted(values, wide), 1, len(values) - 1)
    low, high = values[at - 1], values[at]
    middle = (low + high) / 2
    even = codes[at] % 2 == 0
    up = (wide > middle) | ((wide == middle) & even)
    code = np.where(up, codes[at], codes[at - 1])
    if dtype == torch.bfloat16:         # beyond the largest by half a step: infinity
        code = np.where(wide >= values[-1] + (values[-1] - values[-2]) / 2, 0x7F80, code)
    else:
        assert not np.isinf(wide).any() and not np.isnan(wide).any()
    unsigned = "fnuz" in str(dtype)
    sign = np.signbit(numbers.ravel()) & ~(unsigned & (code == 0))
    code = code | np.where(sign, 1 << (8 * (2 if dtype == torch.bfloat16 else 1) - 1), 0)
    code = np.where(np.isnan(wide), 0x7FC0, code)
    return of_codes(code, dtype).reshape(numbers.shape)


def mean(tensors, weights=None, decay=None):
    first = tensors[0]
    if first.is_complex():
        parts = [torch.view_as_real(t) for t in tensors]
        return torch.view_as_complex(mean(parts, weights, decay))
    numbers = [np.asarray(t.detach().contiguous().float().double().numpy() if t.dtype not in (torch.float64, torch.float32)
                          else t.detach().contiguous().double().numpy()) for t in tensors]
    with np.errstate(all="ignore"):
        if decay is not None:
            total = numbers[0]
            for number in numbers[1:]:
                total = decay * total + (1 - decay) * number
        elif weights:
            total = np.average(np.stack(numbers), axis=0, weights=weights)
        else:
            total = np.mean(np.stack(numbers), axis=0)
        return rounded(np.asarray(total), first.dtype)


def means(states, **how):
    return {key: mean([s[key] for s in states], **how) if isinstance(value, torch.Tensor) and (value.is_floating_point() or value.is_complex())
            else value for key, value in states[0].items()}


def make():
    states = [state(seed) for seed in range(3)]
    for name, one in zip("abc", states):
        torch.save(one, name + ".pt")
        torch.save({k: v for k, v in one.items() if "8" not in k or "complex" in k}, name + ".legacy", _use_new_zipfile_serialization=False)
    torch.save(means(states), "want_mean.pt")
    torch.save(means(states, weights=[1, 2, 1]), "want_weights.pt")
    torch.save(means(states, decay=0.9), "want_ema.pt")
    for number in range(2):             # one dict in two places
        model = {"w": states[number]["double"]}
        torch.save({"model": model, "best": model}, "s%d.pt" % number)
    model = {"w": mean([s["double"] for s in states[:2]])}
    torch.save({"model": model, "best": model}, "want_shared.pt")
    for step, one in zip("123", states):
        model = {"conv.weight": one["double"], "conv.num_batches_tracked": torch.tensor(int(step))}
        torch.save({"model": model, "epoch": int(step), "optimizer": {"exp_avg": one["half"], "lr": 0.1 * int(step)}}, step + ".pt")
        torch.save({"model": dict(model, **{"conv.weight": mean([s["double"] for s in states])}), "epoch": 3,
                    "optimizer": {"exp_avg": states[2]["half"], "lr": 0.1 * 3}}, "want_trainer.pt")


def load(path):
    try:
        return torch.load(path, weights_only=False)
    except TypeError:
        return torch.load(path)


def bits(tensor):
    tensor = tensor.detach()
    if tensor.is_complex():
        tensor = torch.view_as_real(tensor)
    tensor = tensor.contiguous()
    if tensor.is_floating_point() and tensor.dtype != torch.float64:
        tensor = tensor.float()             # exact, and back
    numbers = tensor.numpy()
    if numbers.dtype.kind != "f":
        return numbers
    whole = np.frombuffer(numbers.tobytes(), "int%d" % (8 * numbers.itemsize)).copy()
    whole[np.isnan(numbers).ravel()] = 0     # NaN has no bits of its own
    return whole


def compare(wanted, found, name):
    if isinstance(wanted, dict):
        if list(wanted) != list(found):
            print("%s: %s wanted, %s found" % (name, list(wanted), list(found)))
            return
        for key, value in wanted.items():
            compare(value, found[key], name + key + " ")
    elif not isinstance(wanted, torch.Tensor):
        if wanted != found:
            print("%s: %r wanted, %r found" % (name, wanted, found))
    elif wanted.dtype != found.dtype or wanted.shape != found.shape:
        print("%s: %s %s wanted, %s %s found" % (name, wanted.dtype, tuple(wanted.shape), found.dtype, tuple(found.shape)))
    else:
        one, other = bits(wanted).ravel(), bits(found).ravel()
        differ = one != other
        if differ.any():
            at = int(differ.nonzero()[0][0])
            print("%s: %d of %d differ, the first at %d: 0x%x wanted, 0x%x found" % (name, int(differ.sum()), len(one), at, int(one[at]), int(other[at])))


def check(wanted, found, order):
    """ORDER: "same", or "apart" for a form that sorts the names, and has no word for tensors that share bytes."""
    name, wanted, found = found, load(wanted), load(found)
    if order == "apart":
        found = {key: found[key] for key in wanted if key in found}
    compare({key: value for key, value in wanted.items() if key in found}, found, name + ": ")
    if order == "same" and "tied" in found and found["tied"].data_ptr() != found["again"].data_ptr():
        print("%s: tied tensors are two" % name)
    if order == "same" and "view1" in found and found["view1"].data_ptr() + 150 * 4 != found["view2"].data_ptr():
        print("%s: views are two storages" % name)


def main():
    if sys.argv[1] == "make":
        make()
    for at in range(2, len(sys.argv), 3):
        check(*sys.argv[at:at + 3])


if __name__ == "__main__":
    main()

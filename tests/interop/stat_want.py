# SPDX-License-Identifier: Apache-2.0
"""Files of real torch, and what numpy says of the values of every array in them. stat_want.py OUTDIR STEP

Of the files every STEPth is described. As cat_want.py; OUTDIR/manifest.json has {"file", "name", "count", "nan", "inf", "zeros", "min", "max", "mean", "std", "norm", "absmax", "first",
"bins", "quantiles"}. Sums are
those of math.fsum(), fractions or long doubles, which are more than a float64 can hold; "numpy" has what numpy makes of float64. "loose":
this torch takes other digits of the scale than later ones.
"""

import fractions
import math
import sys
import warnings

warnings.simplefilter("ignore")

import numpy as np  # noqa: E402
import torch  # noqa: E402

import cat_want  # noqa: E402
import torch_files  # noqa: E402

BINS = 10
QUANTILES = (0, 0.001, 0.37, 0.5, 0.99, 1)


def looked_at(value):
    """The array that is counted: stored values, magnitudes."""
    if isinstance(value, (np.ndarray, np.generic)):
        array = np.asarray(value)
    else:
        value = value.detach()
        value = getattr(value, "_local_tensor", value)
        if value.layout == torch.sparse_coo:
            value = value._values()
        elif value.layout != torch.strided:
            value = value.values()
        array = cat_want.to_numpy(value)
    if array.dtype.kind == "c":
        return np.abs(array.astype(np.complex128))
    return array


def number(v):
    """For JSON; integers as they are."""
    if isinstance(v, (int, np.integer)):
        return int(v)
    v = float(v)
    return v if math.isfinite(v) else repr(v)


def exact(finite):
    """(mean, std, norm) of an array."""
    long = finite.astype(np.longdouble)
    mean = np.longdouble(math.fsum(finite.tolist())) / finite.size if np.all(np.abs(finite) < 1e300) else long.mean()
    apart = long - mean
    std = np.sqrt(np.square(apart - apart.mean()).mean()) if np.any(long != long[0]) else 0
    return mean, std, np.sqrt(np.square(long).sum())


def exact_integers(numbers):
    """The same of integers."""
    total, count = sum(numbers), len(numbers)
    squares = sum(n * n for n in numbers)
    variance = fractions.Fraction(squares, count) - fractions.Fraction(total, count) ** 2
    return float(fractions.Fraction(total, count)), math.sqrt(variance), math.sqrt(squares)


def quantiles(wide):
    """Of numpy. Versions before 1.22 go between two numbers in another way, and have other last digits."""
    if tuple(map(int, np.__version__.split(".")[:2])) >= (1, 22):
        return np.quantile(wide, QUANTILES)
    numbers, places = np.sort(wide) + 0.0, np.array(QUANTILES) * (wide.size - 1)
    low = np.floor(places).astype(int)
    t, a, b = places - low, numbers[low], numbers[np.minimum(low + 1, wide.size - 1)]
    return np.where(t >= 0.5, b - (b - a) * (1 - t), a + (b - a) * t)


def facts_of(array):
    kind, flat = array.dtype.kind, array.ravel()
    if kind == "b":
        flat = flat.astype(np.uint8)
    finite = flat[np.isfinite(flat)] if kind == "f" else flat
    facts = {"count": flat.size, "nan": int(np.isnan(flat).sum()) if kind == "f" else 0,
             "inf": int(np.isinf(flat).sum()) if kind == "f" else 0, "zeros": int((flat == 0).sum())}
    bad = np.flatnonzero(~np.isfinite(flat)) if kind == "f" else []
    facts["first"] = [int(i) for i in np.unravel_index(bad[0], array.shape)] if len(bad) else None
    if finite.size:
        wide = finite.astype(np.float64)
        facts.update(min=number(finite.min()), max=number(finite.max()))
        facts["absmax"] = max(abs(facts["min"]), abs(facts["max"]))
        facts["mean"], facts["std"], facts["norm"] = map(number, exact(wide) if kind == "f" else exact_integers(finite.tolist()))
        facts["numpy"] = [number(np.mean(wide)), number(np.std(wide)), number(np.linalg.norm(wide))]
        spread = wide.max() - wide.min()
        if np.isfinite(spread):
            facts["quantiles"] = [number(q) for q in quantiles(wide)]
        if np.isfinite(spread) and (spread == 0 or spread / BINS > 1e-300):
            try:
                facts["bins"] = [int(n) for n in np.histogram(wide, bins=BINS)[0]]
            except ValueError:      # too many bins for so small a range
                pass
    return facts


def describe(folder, path, skipped):
    entries = []
    try:
        obj = torch_files.load(path)
    except Exception as error:
        skipped.append("%s: %s" % (path, str(error).split("\n")[0][:100]))
        return []
    for name, value in cat_want.walk(obj, "", set()):
        if isinstance(value, np.generic):
            continue
        if isinstance(value, np.ndarray) and (type(value) is not np.ndarray or value.dtype.kind not in "biufc" or value.dtype.char in "gG"):
            continue
        if isinstance(value, torch.Tensor) and cat_want.has_no_values(value):
            continue
        try:
            facts = facts_of(looked_at(value))
        except Exception as error:
            skipped.append("%s %s: %s" % (path, name, str(error).split("\n")[0][:100]))
            continue
        facts.update(file=path, name=name, loose=cat_want.VERSION < (1, 13) and getattr(value, "is_quantized", False))
        entries.append(facts)
    return entries


if __name__ == "__main__":
    import stat_objects  # noqa: F401
    cat_want.write_all(sys.argv[1], describe, int(sys.argv[2]))

# SPDX-License-Identifier: Apache-2.0
"""Files for as_safetensors.py, made and judged by real torch and the real package, which is in the folder SITE if anywhere.

    safetensors_files.py make FOLDER     checkpoints, and where the package is, what it writes of the same dicts
    safetensors_files.py check FOLDER    what ckpt made of them
    safetensors_files.py judge FILE OUT  a line for each of the files in FILE: "ok", or what the package says against it
"""

import collections
import io
import os
import struct
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "site"))

try:
    import safetensors
except ImportError:     # no package, or one for another Python
    safetensors = None

NAMES = ("float64 float32 float16 bfloat16 int64 int32 int16 int8 uint8 bool complex64 float8_e5m2 float8_e4m3fn float8_e5m2fnuz "
         "float8_e4m3fnuz float8_e8m0fnu float4_e2m1fn_x2 uint16 uint32 uint64").split()
FOREIGN = "complex128 complex32 bcomplex32 bits8".split()


def random_tensor(torch, name):
    dtype = getattr(torch, name, None)
    if dtype is None:
        return None
    size = torch.empty(0, dtype=dtype).element_size()
    raw = torch.randint(0, 2 if name == "bool" else 256, (6 * size,), dtype=torch.uint8)
    storage = raw.numpy().tobytes()
    if hasattr(raw, "view") and hasattr(torch, "frombuffer"):
        return torch.frombuffer(bytearray(storage), dtype=dtype).clone().reshape(2, 3)
    return None if dtype.is_complex else raw[:6].to(dtype).reshape(2, 3)


def plain_dict(torch, names=NAMES):
    torch.manual_seed(5)
    made = collections.OrderedDict((name, random_tensor(torch, name)) for name in names)
    return collections.OrderedDict(("t." + name, t) for name, t in made.items() if t is not None)


def views(torch):
    d = plain_dict(torch)
    base = torch.arange(24.).reshape(4, 6)
    d["view.t"], d["view.row"] = base.t(), torch.arange(12.).reshape(3, 4)[1]
    d["view.columns"] = torch.arange(12.).reshape(3, 4)[:, 1:3]
    d["expanded"], d["empty"], d["scalar"] = torch.arange(3.).expand(4, 3), torch.empty(0, 3), torch.tensor(3.5)
    d["b\u00e9\"\\\n\x01\x1f\x7f/"] = torch.ones(2)
    d["parameter"] = torch.nn.Parameter(torch.ones(3))
    d["large"] = torch.arange(100000, dtype=torch.int64).reshape(100, 1000)[:, ::2]
    if hasattr(torch, "_neg_view"):
        d["negative"], d["conjugate"] = torch._neg_view(torch.arange(4.)), torch.randn(3, dtype=torch.complex64).conj()
    return d


def resolved(t):
    t = t.detach()
    if hasattr(t, "resolve_neg"):
        t = t.resolve_neg().resolve_conj()
    return t.contiguous().clone()


class Tied:
    """A module with tied weights, made where torch is."""

    def __new__(cls, torch):
        module = torch.nn.Module()
        module.a, module.b = torch.nn.Linear(3, 3, bias=False), torch.nn.Linear(3, 3)
        module.b.weight = module.a.weight
        return module


def make(folder):
    import torch
    os.makedirs(folder)
    save = lambda value, name: torch.save(value, os.path.join(folder, name))
    save(views(torch), "views.pt")
    save(plain_dict(torch), "plain.pt")
    model, a = Tied(torch), torch.arange(6.).reshape(2, 3)
    save(model.state_dict(), "tied.pt")
    save({"a": a, "b": a, "c": a[0]}, "shared.pt")
    mixed = {"w": a}
    for key, value in (
            (5, lambda: a.clone()), ("n", lambda: {"x": a}), ("epoch", lambda: 3), ("sparse", lambda: torch.eye(3).to_sparse()),
            ("q", lambda: torch.quantize_per_tensor(torch.ones(2), .1, 0, torch.qint8)),
            ("meta", lambda: torch.empty(2, device="meta")), *(
                (name, lambda name=name: random_tensor(torch, name)) for name in FOREIGN if hasattr(torch, name))):
        try:
            made = value()
            torch.save(made, io.BytesIO())
        except Exception:       # not every torch can
            continue
        if made is not None:
            mixed[key] = made
    save(mixed, "mixed.pt")
    print("unfit", *list(mixed)[1:])
    if safetensors is None:
        print("no package")
        return
    from safetensors.torch import save_file, save_model
    path = lambda name: os.path.join(folder, name)
    saved = load(torch, path("views.pt"))       # torch 1.13 forgets that a tensor is negated
    save_file({key: resolved(t) for key, t in saved.items()}, path("views.want"), metadata={"format": "pt"})
    save_file(plain_dict(torch), path("plain.want"))
    save_model(model, path("tied.want"), metadata={"format": "pt"})
    print("package", safetensors.__version__)


def bits(t):
    import torch
    t = resolved(t).reshape(-1)
    if hasattr(t, "untyped_storage"):
        return bytes(t.untyped_storage())
    if t.dtype == torch.bfloat16:
        t = t.float()
    return t.numpy().tobytes()


def same(a, b):
    return a.dtype == b.dtype and a.shape == b.shape and bits(a) == bits(b)


def load(torch, path):
    try:
        return torch.load(path, weights_only=True)
    except TypeError:       # older than that option
        return torch.load(path)


def check(folder):
    import torch
    path = lambda name: os.path.join(folder, name)
    for name in ("views", "plain", "tied"):
        want, back = load(torch, path(name + ".pt")), load(torch, path(name + ".back.pt"))
        bad = [key for key in want if key not in back or not same(want[key], back[key])]
        print("back", name, "equal" if not bad and set(back) == set(want) else "differs", *map(repr, bad))
        print("type", name, type(back).__name__)
        if safetensors is None:
            continue
        from safetensors.torch import load_file
        mine = load_file(path(name + ".safetensors"))
        bad = [key for key in mine if not same(want[key], mine[key])]
        print("file", name, "equal" if not bad and (name == "tied" or set(mine) == set(want)) else "differs", *map(repr, bad))
    back = load(torch, path("tied.back.pt"))
    print("tied", back["a.weight"].data_ptr() == back["b.weight"].data_ptr())
    if safetensors is not None:
        from safetensors.torch import load_file, load_model
        cast = load_file(path("cast.safetensors"))
        want = {key: t.bfloat16() if t.is_floating_point() and "float8" not in str(t.dtype) and "float4" not in str(t.dtype) else t
                for key, t in load(torch, path("plain.pt")).items()}
        wrong = [key for key in cast if "float8" not in key and "float4" not in key
                 and not (same(cast[key], want[key]) or torch.isnan(want[key]).any())]
        print("cast", "equal" if not wrong and set(cast) == set(want) else "differs", *wrong)
        model = Tied(torch)
        missing, unexpected = load_model(model, path("tied.safetensors"))
        print("model", "equal" if not missing and not unexpected and same(model.a.weight, back["a.weight"]) else "differs")
        clone = load_file(path("clone.safetensors"))
        shared = load(torch, path("shared.pt"))
        print("clone", "equal" if all(same(clone[key], shared[key]) for key in shared) else "differs")


def judge(given, verdicts):
    with open(given, "rb") as stream, open(verdicts, "w") as out:
        while True:
            head = stream.read(4)
            if not head:
                break
            data = stream.read(struct.unpack("<I", head)[0])
            try:
                safetensors.deserialize(data)
                print("ok", file=out)
            except safetensors.SafetensorError as error:
                print("no", ascii(str(error)), file=out)


if __name__ == "__main__":
    {"make": make, "check": check, "judge": judge}[sys.argv[1]](*sys.argv[2:])

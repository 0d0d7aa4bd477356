# SPDX-License-Identifier: Apache-2.0
"""Shard sets that huggingface_hub writes of random state dicts, for hf_sets.py; and what ckpt made of them, compared.

    python3 hf_save.py save FOLDER CASES     FOLDER/N/{in.pt,limit,st,pt}: the state dict, and the sets of both kinds
    python3 hf_save.py compare FOLDER        FOLDER/N/{st,pt}.pt: each is the state dict again
"""

import os
import random
import sys

sys.path.insert(0, os.path.join(os.getcwd(), "packages"))

import torch

DTYPES = [torch.float32, torch.float16, torch.bfloat16, torch.float64, torch.int64, torch.int32, torch.int16, torch.int8,
          torch.uint8, torch.bool, torch.complex64, torch.float8_e4m3fn, torch.float8_e5m2]
NAMES = ["layers.%d.weight", "model.layers.%d.self_attn.q_proj.weight", "größe %d", 'quote"back\\slash %d', "tab\t%d", "\U0001f600%d",
         "del\x7f%d", "a/b%d"]


def tensor(rng, most):
    shape = [rng.randrange(0, most) for _ in range(rng.randrange(0, 3))]
    if shape and rng.random() < 0.9:
        shape = [max(1, size) for size in shape]
    dtype = rng.choice(DTYPES)
    value = torch.randint(0, 2 if dtype == torch.bool else 100, shape).to(dtype)
    if value.dim() == 2 and rng.random() < 0.2:
        value = value.t()
    return value


def state_dict(rng, case):
    made = {}
    for n in range(rng.randrange(1, 14)):
        made[rng.choice(NAMES) % n] = tensor(rng, rng.choice((5, 5, 9, 40)))
    whole = [name for name, value in made.items() if value.is_contiguous() and value.numel()]
    for n in range(rng.randrange(0, 3) if case % 2 else 0):         # tied weights
        if whole:
            made["tied %d" % n] = made[rng.choice(whole)]
    names = list(made)
    rng.shuffle(names)
    return {name: made[name] for name in names}


def views(rng, made):
    """Parts of a storage, and a tensor that shows one: pickles can hold them."""
    base = torch.arange(rng.randrange(4, 60))
    made["view.1"], made["view.2"], made["view.3"] = base[:2], base[1:], torch.randn(7)[3:5]
    return made


def limit_of(rng, made):
    sizes = [value.untyped_storage().nbytes() for value in made.values()]
    kind = rng.randrange(4)
    if kind == 0:       # an exact fit, or a byte less
        return max(1, sum(sizes[:rng.randrange(1, len(sizes) + 1)]) - rng.randrange(2))
    if kind == 1:
        return 10**6    # one file
    return rng.randrange(1, max(2, sum(sizes)))


def save(folder, cases):
    try:
        from huggingface_hub import save_torch_state_dict
        import safetensors.torch
    except ImportError as e:
        print("no package: %s" % e)
        return
    for case in range(cases):
        rng = random.Random(case)
        torch.manual_seed(case)
        made = state_dict(rng, case)
        if case % 3 == 0:
            kinds = [("pt", False)]
            made = views(rng, made)
        else:
            kinds = [("st", True), ("pt", False)]
        limit = limit_of(rng, made)
        at = os.path.join(folder, str(case))
        os.makedirs(at)
        torch.save(made, os.path.join(at, "in.pt"))
        with open(os.path.join(at, "limit"), "w") as stream:
            stream.write(str(limit))
        for name, safe in kinds:
            os.mkdir(os.path.join(at, name))
            save_torch_state_dict(dict(made), os.path.join(at, name), max_shard_size=limit, safe_serialization=safe)
    print("saved by torch", torch.__version__)


def bits(value):
    return value.contiguous().reshape(-1).view(torch.uint8)


def compare(folder):
    for case in sorted(os.listdir(folder)):
        at = os.path.join(folder, case)
        want = torch.load(os.path.join(at, "in.pt"), weights_only=True)
        for name in ("st", "pt"):
            if not os.path.isdir(os.path.join(at, name)):
                continue
            got = torch.load(os.path.join(at, name + ".pt"), weights_only=True)
            bad = [key for key in want if key not in got]
            bad += [key for key in got if key not in want or got[key].dtype != want[key].dtype
                    or got[key].shape != want[key].shape or not torch.equal(bits(got[key]), bits(want[key]))]
            shared = {key: other for key in want for other in want if want[key].numel() and key != other
                      and want[key].data_ptr() == want[other].data_ptr() and want[key].shape == want[other].shape}
            bad += [key for key, other in shared.items() if not bad and got[key].data_ptr() != got[other].data_ptr()]
            print("%s %s %s" % ("DIFFERENT" if bad else "EQUAL", case, name), ascii(bad) if bad else "")


if sys.argv[1] == "save":
    save(sys.argv[2], int(sys.argv[3]))
else:
    compare(sys.argv[2])

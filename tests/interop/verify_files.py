# SPDX-License-Identifier: Apache-2.0
"""Made by torch: files to verify. verify_files.py OUTDIR

OUTDIR/objects/NAME.pt is every interop object, OUTDIR/numbers/NAME.pt all bits of a floating dtype; what torch says of these is
printed: "numbers NAME NANS INFINITIES".
"""
import os
import sys
import warnings

warnings.simplefilter("ignore")

import torch  # noqa: E402

import cast_files  # noqa: E402
import fake_cuda  # noqa: E402
import generate  # noqa: E402


def save(entry, path):
    fake_cuda.clear()
    torch.manual_seed(0)
    torch.save(entry.build(), path, pickle_protocol=entry.protocol)
    return {}


def save_objects(folder):
    import objects  # noqa: F401
    import registry

    for entry in registry.ITEMS.values():
        if registry.why_not(entry) or "/" in entry.name:
            continue
        done = generate.guarded(save, entry, os.path.join(folder, entry.name + ".pt"))
        if "error" not in done:
            print("made", entry.name, flush=True)


def parts(tensor):
    """Real numbers that can tell of themselves: not all dtypes can."""
    if tensor.is_complex():
        tensor = torch.view_as_real(tensor)
    return tensor.flatten() if tensor.dtype == torch.float64 else tensor.flatten().float()


def save_numbers(folder):
    if tuple(map(int, torch.__version__.split(".")[:2])) < (1, 13):
        return  # cannot make numbers of bits
    numbers = cast_files.numbers()
    numbers["complex64"] = torch.view_as_complex(numbers["float32"][:20000].reshape(-1, 2).contiguous())
    numbers["complex128"] = torch.view_as_complex(numbers["float64"][:20000].reshape(-1, 2).contiguous())
    numbers["integers"] = torch.full((1000,), -1)
    for dtype in ("float32", "bfloat16"):
        values = numbers[dtype][:20000]
        numbers["sparse_" + dtype] = torch.sparse_coo_tensor(torch.arange(len(values)).unsqueeze(0), values)
    for name, tensor in numbers.items():
        flat = parts(tensor._values() if tensor.is_sparse else tensor)
        torch.save({"x": tensor, "again": tensor if tensor.is_sparse else tensor[1:]}, os.path.join(folder, name + ".pt"))
        print("numbers", name, int(torch.isnan(flat).sum()), int(torch.isinf(flat).sum()))


def main():
    for kind in ("objects", "numbers"):
        os.makedirs(os.path.join(sys.argv[1], kind))
    fake_cuda.install()
    torch.set_num_threads(1)
    save_objects(os.path.join(sys.argv[1], "objects"))
    save_numbers(os.path.join(sys.argv[1], "numbers"))


if __name__ == "__main__":
    main()

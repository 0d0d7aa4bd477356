# SPDX-License-Identifier: Apache-2.0
"""Made by torch: files at the limits of the zip format. large_files.py OUTDIR

OUTDIR_again gets what torch.load and torch.save make of those with unusual settings.
"""

import os
import sys

import torch

Z32 = 0xFFFFFFFF


def save(obj, path, **kwargs):
    torch.save(obj, path, **kwargs)
    print(path, os.path.getsize(path), flush=True)


def around_4_gib(out):
    """Records of just below, exactly and just above 2**32 - 1 bytes, small ones behind them."""
    for name, size in (("below", Z32 - 1), ("exact", Z32), ("above", 2**32 + 16)):
        big = torch.zeros(size, dtype=torch.uint8)
        big[-1] = 7
        save({"module.big": big, "module.small": torch.ones(3), "module.empty": torch.ones(0)},
             os.path.join(out, name + ".pt"))
        del big


def many_records(out):
    """More than 65,535 records: the classic end record cannot count them."""
    save([torch.full((1,), i, dtype=torch.int32) for i in range(66000)],
         os.path.join(out, "many.pt"))


def writer_settings(out):
    """Alignments, no checksums, skipped data: what newer torch can be told to do."""
    obj = {"module.a": torch.arange(10.0), "module.b": torch.arange(5), "module.e": torch.ones(0),
           "module.pk": torch.tensor([0x50, 0x4B, 7, 8, 1, 2, 3, 4, 5], dtype=torch.uint8)}
    config = getattr(getattr(torch.utils, "serialization", None), "config", None)
    if config is not None and hasattr(config.save, "storage_alignment"):
        for alignment in (1, 100, 4096, 32768):
            config.save.storage_alignment = alignment
            save(obj, os.path.join(out, "align%d.pt" % alignment))
        config.save.storage_alignment = 64
    if hasattr(torch.serialization, "set_crc32_options"):
        torch.serialization.set_crc32_options(False)
        save(obj, os.path.join(out, "no_crc.pt"))
        torch.serialization.set_crc32_options(True)
    again(out)
    if hasattr(torch.serialization, "skip_data"):
        with torch.serialization.skip_data():
            save(obj, os.path.join(out, "skipped.pt"))


def again(out):
    """What load and save make of each file, under its name in a folder beside it."""
    folder = out + "_again"
    os.makedirs(folder, exist_ok=True)
    for name in os.listdir(out):
        torch.save(torch.load(os.path.join(out, name)), os.path.join(folder, name))


def main():
    out = sys.argv[1]
    os.makedirs(out, exist_ok=True)
    try:
        import torch.utils.serialization  # noqa: F401  (not imported by torch itself)
    except ImportError:
        pass
    writer_settings(out)
    many_records(out)
    if "--huge" in sys.argv:
        around_4_gib(out)


if __name__ == "__main__":
    main()

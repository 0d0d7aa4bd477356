# SPDX-License-Identifier: Apache-2.0
"""Made by torch, and loaded by it with weights_only=True. scan_files.py make OUTDIR | load DIR...

make: every interop object, as archive and as legacy stream, some in all protocols; load: one line for each file, "load PATH yes" or "load PATH no WHY".
"""
import glob
import os
import sys
import warnings

warnings.simplefilter("ignore")

import torch  # noqa: E402

import fake_cuda  # noqa: E402
import generate  # noqa: E402
import torch_files  # noqa: E402

EVERY_PROTOCOL = 9  # one object in so many
PART = 40  # objects of one process


def save_all(entry, stem, ways):
    """Each way that this torch can."""
    for suffix, options in ways:
        fake_cuda.clear()
        torch.manual_seed(0)
        try:
            torch.save(entry.build(), stem + suffix + ".pt", **options)
        except Exception:  # no object of this protocol
            if os.path.exists(stem + suffix + ".pt"):
                os.unlink(stem + suffix + ".pt")
    return {}


def ways(number, entry):
    """What is added to the name, and options of torch.save."""
    yield "", {"pickle_protocol": entry.protocol}
    yield ".legacy", {"pickle_protocol": entry.protocol, "_use_new_zipfile_serialization": False}
    for protocol in range(6) if number % EVERY_PROTOCOL == 0 else ():
        yield ".p%d" % protocol, {"pickle_protocol": protocol}


def save_part(folder, numbered):
    for number, entry in numbered:
        generate.guarded(save_all, entry, os.path.join(folder, entry.name), list(ways(number, entry)))
    return {}


def make(folder):
    import objects  # noqa: F401
    import registry

    os.makedirs(folder)
    entries = [e for e in registry.ITEMS.values() if not registry.why_not(e) and "/" not in e.name]
    numbered = list(enumerate(entries))
    for at in range(0, len(numbered), PART):
        part = numbered[at:at + PART]
        if "error" in generate.in_child(save_part, folder, part):  # a save that torch cannot do may end the process
            for one in part:
                generate.in_child(save_part, folder, [one])


def load(folders):
    if "weights_only" not in torch_files.LOAD_OPTIONS:
        return
    for folder in folders:
        for path in sorted(glob.glob(os.path.join(folder, "*.pt"))):
            try:
                torch.load(path, weights_only=True, map_location="cpu")
                print("load", path, "yes", flush=True)
            except Exception as error:  # whatever it is, it did not load
                print("load", path, "no", type(error).__name__, " ".join(str(error).split())[:2000], flush=True)


if __name__ == "__main__":
    with torch_files.clean_exit():
        if sys.argv[1] == "make":
            make(sys.argv[2])
        else:
            load(sys.argv[2:])

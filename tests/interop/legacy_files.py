# SPDX-License-Identifier: Apache-2.0
"""Write every interop object as a legacy stream with the running torch: legacy_files.py OUTDIR

OUTDIR/NAME.pt is the object, saved, and twice loaded and saved again: another load and save would change nothing in it but
the keys of its storages, which are addresses. Once is too little for big-endian numbers of numpy, which share numpy's own
dtype after one load, and not after the next. OUTDIR/once/NAME.pt was saved once. Prints the names that were written.
"""
import os
import sys
import warnings

warnings.simplefilter("ignore")

import torch  # noqa: E402

import fake_cuda  # noqa: E402
import generate  # noqa: E402
import torch_files  # noqa: E402


def save(obj, path, protocol):
    torch.save(obj, path, pickle_protocol=protocol, _use_new_zipfile_serialization=False)


def build(entry, path):
    fake_cuda.clear()
    torch.manual_seed(0)
    save(entry.build(), path, entry.protocol)
    return {}


def build_all(entries, folder):
    """Names of those that this torch makes."""
    return [entry.name for entry in entries if "error" not in generate.guarded(build, entry, os.path.join(folder, entry.name + ".pt"))]


def again(source, target, protocol):
    save(torch_files.load(source), target, protocol)
    save(torch_files.load(target), target, protocol)
    return {}


def main():
    import objects  # noqa: F401
    import registry

    folder = sys.argv[1]
    fake_cuda.install()
    torch.set_num_threads(1)
    os.makedirs(os.path.join(folder, "once"))
    print("torch", torch.__version__)
    entries = {entry.name: entry for entry in registry.ITEMS.values() if not registry.why_not(entry) and "/" not in entry.name}
    # a process that has built objects is not one that loads them
    built = generate.in_child(build_all, list(entries.values()), os.path.join(folder, "once"))
    assert isinstance(built, list), built
    for name in built:
        once, target = (os.path.join(folder, part, name + ".pt") for part in ("once", ""))
        if "error" not in generate.in_child(generate.guarded, again, once, target, entries[name].protocol):
            print("made", name, flush=True)


with torch_files.clean_exit():
    main()

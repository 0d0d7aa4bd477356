#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Measure loads to a GPU side by side with torch and safetensors: python_cuda.py [--size 1G] [--many 1000] [--runs 5] [--dir FOLDER]

In a Python that has the package `ckpt` (PYTHONPATH=build/python), a torch that sees a GPU, and safetensors, if that is to be measured. The
files, one tensor and MANY of the same size together, are in the page cache. All is done in one process, where CUDA was started before, in
rounds that each begin with another one. Prints for each the time of the first call, the best one, bytes per second at that, and the ratio (ckpt to this;
below 1 ckpt is faster). The allocator of torch gives its memory back before each call, so that all pay for new one; --keep: it does not.
Exits with 1 if a result is wrong, 77 without a GPU.
"""
import argparse
import os
import sys
import time

import torch

import ckpt
import ckpt.torch


def parse_size(text):
    return int(float(text[:-1]) * 2 ** {"K": 10, "M": 20, "G": 30}[text[-1]]) if text[-1] in "KMG" else int(text)


def single(path, name, device):
    """One tensor, by its name."""
    with ckpt.open(path) as f:
        return {name: f[name].torch(device=device)}


def loaders(path, safe, names, device):
    """(what, function) of each; the first is what others are compared with."""
    found = [("ckpt.torch.load", lambda: ckpt.torch.load(path, map_location=device)),
             ("ckpt.torch.load, mmap", lambda: ckpt.torch.load(path, map_location=device, mmap=True)),
             ("torch.load", lambda: torch.load(path, map_location=device, weights_only=True)),
             ("torch.load, mmap", lambda: torch.load(path, map_location=device, weights_only=True, mmap=True))]
    if len(names) == 1:
        found.append(("ckpt.open()[name].torch()", lambda: single(path, names[0], device)))
    if safe:
        from safetensors.torch import load_file

        found += [("safetensors.load_file", lambda: load_file(safe, device=str(device))),
                  ("ckpt.torch.load of safetensors", lambda: ckpt.torch.load(safe, map_location=device))]
    return found


def measure(function, sums, device, keep):
    """Seconds, and whether the result was right."""
    if not keep:
        torch.cuda.empty_cache()
    torch.cuda.synchronize(device)
    begin = time.perf_counter()
    made = function()
    torch.cuda.synchronize(device)
    seconds = time.perf_counter() - begin
    return seconds, all(tensor.device == device and int(tensor.view(torch.int32).sum()) == sums[name] for name, tensor in made.items())


def read_all(path):
    """Into the page cache."""
    with open(path, "rb") as stream:
        while stream.read(1 << 24):
            pass


def table(what, folder, size, count, device, options):
    """Prints it; whether all was right."""
    names = ["layer.%d.weight" % number for number in range(count)]
    state = {name: torch.randn(size // count // 4) for name in names}
    sums = {name: int(tensor.view(torch.int32).sum()) for name, tensor in state.items()}
    nbytes = sum(tensor.nbytes for tensor in state.values())
    path, safe = os.path.join(folder, "cuda.pt"), os.path.join(folder, "cuda.safetensors")
    torch.save(state, path)
    try:
        from safetensors.torch import save_file

        save_file(state, safe)
    except ImportError:
        safe = None
    del state
    for one in filter(None, (path, safe)):
        read_all(one)
    found = loaders(path, safe, names, device)
    times, right = {name: [] for name, _ in found}, True
    for number in range(options.runs):
        for name, function in found[number % len(found):] + found[:number % len(found)]:
            seconds, good = measure(function, sums, device, options.keep)
            times[name].append(seconds)
            if not good:
                print("WRONG: %s" % name)
                right = False
    print("\n%s, %d MiB\n\n| | first, s | best of %d, s | GB/s | ratio |\n| --- | --- | --- | --- | --- |" % (what, nbytes >> 20, options.runs))
    mine = min(times[found[0][0]])
    for name, _ in found:
        best = min(times[name])
        print("| %s | %.4f | %.4f | %.1f | %.2f |" % (name, times[name][0], best, nbytes / best / 1e9, mine / best))
    for one in filter(None, (path, safe)):
        os.unlink(one)
    return right


def main():
    parser = argparse.ArgumentParser(description="loads to a GPU")
    parser.add_argument("--dir", default="build/bench-cuda", help="work folder")
    parser.add_argument("--size", type=parse_size, default=1 << 30, help="of the file")
    parser.add_argument("--many", type=int, default=1000, help="tensors in the second file")
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--keep", action="store_true", help="the allocator keeps its memory from call to call")
    parser.add_argument("--device", default="cuda:0")
    options = parser.parse_args()
    if not torch.cuda.is_available():
        print("skipped: torch sees no GPU")
        return 77
    device = torch.device(options.device)
    torch.ones(1, device=device).sum().item()  # CUDA starts
    os.makedirs(options.dir, exist_ok=True)
    print("torch %s, %s, %d processors" % (torch.__version__, torch.cuda.get_device_name(device), len(os.sched_getaffinity(0))))
    right = table("one tensor", options.dir, options.size, 1, device, options)
    right = table("%d tensors" % options.many, options.dir, options.size, options.many, device, options) and right
    return 0 if right else 1


if __name__ == "__main__":
    sys.exit(main())

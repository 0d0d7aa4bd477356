# SPDX-License-Identifier: Apache-2.0
"""Checkpoints of tensors on a GPU, beside real torch there: python_cuda_judge.py FOLDER

In a Python that has the package `ckpt` and a torch that sees a GPU; CKPT is the command. Skipped (77) without one.
With CKPT_JUDGE_DEVICE=cpu the script itself can be tried anywhere. Prints a line for what is wrong, and at the end the counts.
"""

import collections
import filecmp
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
import traceback
import warnings

warnings.simplefilter("ignore")
os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")

import torch  # noqa: E402
import torch.distributed as dist  # noqa: E402
import torch.distributed.checkpoint as dcp  # noqa: E402
from torch.distributed.checkpoint.format_utils import dcp_to_torch_save  # noqa: E402

import ckpt  # noqa: E402
import ckpt.torch  # noqa: E402
from ckpt import _staging  # noqa: E402
from python_torch_judge import Different, Judge, bits  # noqa: E402

DEVICE = os.environ.get("CKPT_JUDGE_DEVICE", "cuda:0")
CKPT = os.environ["CKPT"]
MIB = 1 << 20
counts = collections.Counter()


def train():
    """A model, an optimizer and what else a training keeps, on the GPU."""
    torch.manual_seed(1)
    model = torch.nn.Sequential(torch.nn.Linear(64, 128), torch.nn.LayerNorm(128), torch.nn.Linear(128, 10)).to(DEVICE)
    fused = {"fused": True} if DEVICE != "cpu" else {}
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, **fused)
    scaler = torch.amp.GradScaler(DEVICE.split(":")[0])
    for _ in range(3):
        with torch.autocast(DEVICE.split(":")[0], dtype=torch.bfloat16):
            loss = model(torch.randn(8, 64, device=DEVICE)).square().mean()
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad()
    random = torch.cuda.get_rng_state_all() if DEVICE != "cpu" else [torch.get_rng_state()]
    return {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "scaler": scaler.state_dict(), "random": random, "epoch": 3}


def kinds():
    """Tensors of all kinds that a GPU has."""
    torch.manual_seed(2)
    base = torch.randn(300, 20, device=DEVICE)
    state = {"base": base, "row": base[7], "turned": base.t(), "every": base[::3, 1::2], "parameter": torch.nn.Parameter(base),
             "empty": torch.empty(0, 4, device=DEVICE), "scalar": torch.tensor(2.5, device=DEVICE), "host": torch.arange(5),
             "sparse": torch.eye(6, device=DEVICE).to_sparse(), "csr": torch.eye(6, device=DEVICE).to_sparse_csr(),
             "complex": torch.randn(3, 4, dtype=torch.complex64, device=DEVICE).conj(), "device": torch.device(DEVICE)}
    for name in ("float64", "float16", "bfloat16", "int64", "int8", "uint8", "bool", "float8_e4m3fn", "float8_e5m2", "uint16"):
        state[name] = (torch.randn(7, 5, device=DEVICE) * 9).abs().to(getattr(torch, name))
    return state


OBJECTS = {"train": train, "kinds": kinds, "large": lambda: {"w": torch.arange(40 * MIB, device=DEVICE) * 3, "v": torch.ones(5, device=DEVICE)}}
PLACES = {"nothing": None, "cpu": "cpu", "device": DEVICE, "any": DEVICE.split(":")[0], "torch.device": torch.device(DEVICE),
          "dict": {DEVICE: "cpu"}, "from the host": {"cpu": DEVICE}, "function": lambda storage, location: storage.cpu() if location == "cpu" else None}


def equal(what, wanted, found):
    counts["compared"] += 1
    try:
        Judge().compare(wanted, found)
    except Different as error:
        yield "%s: %s" % (what, error)


def same_file(what, wanted, found):
    counts["files"] += 1
    if not filecmp.cmp(wanted, found, shallow=False):
        yield "%s: other bytes" % what


def run(*words):
    done = subprocess.run([CKPT, *words], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, encoding="utf-8", check=False)
    if done.returncode:
        raise RuntimeError("%s: exit %d: %s" % (" ".join(words), done.returncode, done.stdout[-400:]))


def check_load(name, make):
    """load() as torch has it, wherever the tensors are to go."""
    for zipped in (True, False):
        path = "%s-%s.pt" % (name, "zip" if zipped else "old")
        torch.save(make(), path, _use_new_zipfile_serialization=zipped)
        for mmap in (False, True) if zipped else (False,):
            for place_name, place in PLACES.items():
                what = "load(%s, %s, mmap=%s)" % (path, place_name, mmap)
                try:
                    wanted = torch.load(path, map_location=place, weights_only=True, mmap=mmap)
                except Exception as error:
                    counts["refused by torch"] += 1
                    torch._utils._sparse_tensors_to_validate.clear()  # else torch refuses the next file, too
                    try:
                        ckpt.torch.load(path, map_location=place, mmap=mmap)
                        yield "%s: torch refuses: %r" % (what, error)
                    except Exception:
                        pass
                    continue
                yield from equal(what, wanted, ckpt.torch.load(path, map_location=place, mmap=mmap))


def check_save(name, make):
    """save() of what is on the GPU: torch's bytes."""
    made = make()
    profile = "2.6" if tuple(map(int, torch.__version__.split(".")[:2])) < (2, 7) else None
    for folder, save in (("torch", torch.save), ("ckpt", lambda made, path: ckpt.save(made, path, profile=profile))):
        os.makedirs(folder, exist_ok=True)
        save(made, folder + "/saved.pt")  # the name of the file is in it
    yield from same_file("save(%s)" % name, "torch/saved.pt", "ckpt/saved.pt")


def check_remap(name, make):
    """The command moves a file to other devices as torch would save it after load(map_location)."""
    if DEVICE == "cpu":
        return
    os.makedirs("remapped", exist_ok=True)
    torch.save(make(), "remapped/x.pt")
    run("remap", DEVICE + "=cpu", "remapped/x.pt", "x.pt", "-f")
    yield from equal("remap(%s)" % name, torch.load("remapped/x.pt", map_location={DEVICE: "cpu"}, weights_only=True),
                     torch.load("x.pt", weights_only=True))
    run("remap", "cpu=" + DEVICE, "x.pt", "y.pt", "-f")
    loaded = torch.load("y.pt", weights_only=True)
    yield from equal("remap(%s) and back" % name, torch.load("x.pt", map_location={"cpu": DEVICE}, weights_only=True), loaded)


def check_lazy(name, make):
    """Single tensors from the file to the GPU."""
    torch.save(make(), "lazy.pt")
    wanted = torch.load("lazy.pt", map_location=DEVICE, weights_only=True)
    wanted = {key: value for key, value in wanted.items() if type(value) is torch.Tensor and value.layout is torch.strided}
    with ckpt.open("lazy.pt") as f:
        for key, value in wanted.items():
            found = f[key].torch(device=DEVICE)
            counts["single"] += 1
            if (found.dtype, found.device) != (value.dtype, value.device) or not torch.equal(bits(found), bits(value)):
                yield "%s[%s]: %r, torch %r" % (name, key, found, value)


def check_dcp(name, make):
    """A directory that was saved from the GPU: merged as torch merges it, and loaded."""
    state = {key: value for key, value in make().items() if key not in ("sparse", "csr", "complex", "device")}
    folder = "dcp-" + name
    dcp.save(state, checkpoint_id=folder)
    dcp_to_torch_save(folder, "dcp.pt")
    run("merge", folder, "merged.pt", "-f")
    yield from equal("merge(%s)" % name, torch.load("dcp.pt", weights_only=True), torch.load("merged.pt", weights_only=True))
    for place in (None, DEVICE):
        yield from equal("load(%s)" % folder, torch.load("dcp.pt", weights_only=True, map_location=place), ckpt.torch.load(folder, map_location=place))


def check_group(backend, world):
    """load_broadcast() to GPUs, in a group of torch's own."""
    import multiprocessing

    torch.save(kinds(), "broadcast.pt")
    context = multiprocessing.get_context("spawn")
    meeting = tempfile.mktemp(dir=os.getcwd())
    results = context.Queue()
    started = [context.Process(target=in_group, args=(backend, rank, world, meeting, results)) for rank in range(world)]
    for process in started:
        process.start()
    try:
        for _ in started:
            yield from results.get(timeout=90)
        counts["groups"] += 1
    except Exception as error:
        yield "load_broadcast over %s, %d ranks: %r" % (backend, world, error)
    for process in started:
        process.join(20)
        process.kill()


def in_group(backend, rank, world, meeting, results):
    found = []
    try:
        os.environ["NCCL_HOSTID"] = "host%d" % rank  # else NCCL refuses two ranks on one GPU
        if DEVICE != "cpu":
            torch.cuda.set_device(DEVICE)
        dist.init_process_group(backend, init_method="file://" + meeting, rank=rank, world_size=world)
        for bucket in (1 << 12, 64 << 20):
            for device in (DEVICE, "cpu", None):
                loaded = ckpt.torch.load_broadcast("broadcast.pt" if not rank else "nowhere", device=device, bucket=bucket)
                wanted = torch.load("broadcast.pt", map_location=device, weights_only=True)
                found += equal("load_broadcast over %s to %s, rank %d of %d" % (backend, device, rank, world), wanted, loaded)
        dist.destroy_process_group()
    except BaseException as error:
        found.append("load_broadcast over %s, rank %d of %d: %r %s" % (backend, rank, world, error, traceback.format_exc()[-500:]))
    results.put(found)


# ---- storages that are read straight to the GPU ----


def mixes():
    """Sizes of storages, around those of the buffers that they go through."""
    most, locked = _staging.BUFFER, _staging.PAGE_LOCKED
    return {"nothing": [0], "bytes": [1, 0, 3], "less": [locked - 1], "locked": [locked, 1], "buffer": [most], "around": [most - 1, most + 1, 1, 0, most, 2] * 4,
            "small": [n % 5000 for n in range(4000)], "long": [most * 50 + 7, 5], "mixed": [1, 5 * most, 3, 0, 9 * most + 1, 70000, 511, 2 * most - 1] * 3}


def bytes_of(sizes):
    torch.manual_seed(len(sizes))
    return [torch.randint(0, 256, (nbytes,), dtype=torch.uint8) for nbytes in sizes]


class Counted(_staging.Cuda):
    """Counts what goes through it."""

    locked, loads, copies = {}, 0, 0

    def begin(self, device):
        Counted.loads += 1
        super().begin(device)

    def copy(self, wanted, offset, source):
        Counted.copies += 1
        super().copy(wanted, offset, source)

    def lock(self, address, nbytes):
        done = super().lock(address, nbytes)
        if done:
            Counted.locked[address] = nbytes
        return done

    def unlock(self, address):
        super().unlock(address)
        del Counted.locked[address]


def after_staging(what):
    """Nothing may be left of a load."""
    deadline = time.monotonic() + 5  # they may be about to end
    while any(thread.name == "ckpt staging" for thread in threading.enumerate()):
        if time.monotonic() > deadline:
            yield "%s: threads were left" % what
            break
        time.sleep(0.001)
    if Counted.locked or _staging._lost:
        yield "%s: memory is still page-locked: %r, lost %r" % (what, Counted.locked, _staging._lost)
    torch.ones(3, device=DEVICE).sum().item()  # an error that nobody was told would be raised here


def check_mixes():
    for name, sizes in mixes().items():
        for zipped in (True, False):
            path = "mix-%s-%d.pt" % (name, zipped)
            torch.save(bytes_of(sizes), path, _use_new_zipfile_serialization=zipped)
            for place in (DEVICE, torch.device(DEVICE), DEVICE.split(":")[0], {"cpu": DEVICE}, lambda storage, location: storage.to(device=DEVICE)):
                what = "load(%s, %s)" % (path, place)
                before = Counted.loads
                yield from equal(what, torch.load(path, map_location=place, weights_only=True), ckpt.torch.load(path, map_location=place))
                if DEVICE != "cpu" and (Counted.loads > before) != (any(sizes) and not callable(place)):
                    yield "%s: %d loads went straight to the GPU" % (what, Counted.loads - before)
                yield from after_staging(what)
    on_gpu = [tensor.to(DEVICE) for tensor in bytes_of(mixes()["mixed"])]
    torch.save(on_gpu, "on-gpu.pt")
    yield from equal("load(on-gpu.pt)", on_gpu, ckpt.torch.load("on-gpu.pt"))
    with ckpt.open("on-gpu.pt") as f:
        for tensor, wanted in zip(f.tensors(), on_gpu):
            if not torch.equal(tensor.torch(device=DEVICE), wanted):
                yield "%r.torch(): other values" % tensor
            counts["single"] += 1
    yield from after_staging("load(on-gpu.pt)")


def check_streams():
    """The result may be used at once in the stream of the caller, and its memory may be what that stream has just given back."""
    made = [torch.arange(30 * MIB + number, dtype=torch.int32) for number in range(3)]
    torch.save(made, "streams.pt")
    sums = [int(tensor.sum()) for tensor in made]
    for number in range(6):
        stream = torch.cuda.Stream(device=DEVICE) if number % 2 else torch.cuda.current_stream(DEVICE)
        with torch.cuda.stream(stream):
            busy = [torch.ones(30 * MIB, dtype=torch.int32, device=DEVICE) for _ in range(3)]
            for _ in range(20):
                for tensor in busy:
                    tensor.mul_(3).add_(1)
            del busy  # the allocator gives it again while the stream still works with it
            found = [int(tensor.sum()) for tensor in ckpt.torch.load("streams.pt", map_location=DEVICE)]
        counts["compared"] += 1
        if found != sums:
            yield "load() in a stream, round %d: %r, wanted %r" % (number, found, sums)
    yield from after_staging("streams")


def check_threads():
    """Two threads load at once, and a third one works."""
    failed = []

    def load(path, times):
        try:
            wanted = torch.load(path, map_location=DEVICE, weights_only=True)
            for _ in range(times):
                failed.extend(equal("load(%s) in a thread" % path, wanted, ckpt.torch.load(path, map_location=DEVICE)))
        except BaseException as error:
            failed.append("load(%s) in a thread: %r" % (path, error))

    threads = [threading.Thread(target=load, args=arguments) for arguments in (("mix-mixed-1.pt", 5), ("mix-small-0.pt", 2))]
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):
        torch.randn(500, 500, device=DEVICE).mm(torch.randn(500, 500, device=DEVICE)).sum().item()
    yield from failed
    yield from after_staging("threads")


def requested():
    """Bytes of the GPU that are in use, without what the allocator adds."""
    return torch.cuda.memory_stats(DEVICE)["requested_bytes.all.current"]


def check_memory():
    """A load takes what its storages take, and gives all back; also one that fails."""
    for name, sizes in mixes().items():
        path = "mix-%s-1.pt" % name
        before = requested()
        loaded = ckpt.torch.load(path, map_location=DEVICE)
        taken = requested() - before
        counts["compared"] += 1
        del loaded
        if taken != sum(sizes) or requested() != before:
            yield "load(%s) takes %d bytes of the GPU, wanted %d; %d are left" % (path, taken, sum(sizes), requested() - before)
    torch.cuda.empty_cache()
    before = requested()
    torch.cuda.set_per_process_memory_fraction(64 * MIB / torch.cuda.get_device_properties(DEVICE).total_memory, DEVICE)
    for load in (torch.load, ckpt.torch.load):
        try:
            load("mix-long-1.pt", map_location=DEVICE, weights_only=True)
            yield "%r: memory of the GPU was to end" % load
        except torch.OutOfMemoryError:
            counts["refused"] += 1
    torch.cuda.set_per_process_memory_fraction(1.0, DEVICE)
    if requested() != before:
        yield "out of memory: %d bytes of the GPU are left" % (requested() - before)
    told = []
    for load in (torch.load, ckpt.torch.load):
        try:
            load("mix-long-1.pt", map_location="cuda:77", weights_only=True)
        except Exception as error:
            told.append((type(error), str(error)))
    if len(told) != 2 or told[0] != told[1]:
        yield "no such device: %r" % told
    if _staging.Cuda().lock(1 << 20, 1 << 20):
        yield "memory that there is none of was page-locked"
    yield from after_staging("memory")


def check_interrupt():
    """Ctrl-C at any moment."""
    wanted = torch.load("mix-long-1.pt", map_location=DEVICE, weights_only=True)
    ended = 0
    for number in range(30):
        before = requested()
        timer = threading.Timer(number * 0.001, os.kill, (os.getpid(), signal.SIGINT))
        loaded = None
        try:
            timer.start()
            loaded = ckpt.torch.load("mix-long-1.pt", map_location=DEVICE)
            timer.join()
            time.sleep(0.01)
        except KeyboardInterrupt:
            ended += 1
        timer.join()
        if loaded is not None:
            yield from equal("load(mix-long-1.pt)", wanted, loaded)
        loaded = None
        yield from after_staging("Ctrl-C after %d ms" % number)
        if requested() != before:
            yield "Ctrl-C after %d ms: %d bytes of the GPU are left" % (number, requested() - before)
    counts["ended by Ctrl-C"] += ended
    yield from equal("load(mix-long-1.pt) after Ctrl-C", wanted, ckpt.torch.load("mix-long-1.pt", map_location=DEVICE))


def check_staging():
    _staging.Cuda = Counted
    for check in (check_mixes,) if DEVICE == "cpu" else (check_mixes, check_streams, check_threads, check_memory, check_interrupt):
        try:
            yield from check()
        except BaseException as error:
            yield "%s: %r %s" % (check.__name__, error, traceback.format_exc()[-700:])
    counts["straight to the GPU"] = Counted.loads
    if DEVICE != "cpu" and not Counted.copies:
        yield "nothing was copied straight to the GPU"


def check_all():
    yield from check_staging()
    for check in (check_load, check_save, check_remap, check_lazy, check_dcp):
        for name, make in OBJECTS.items():
            try:
                yield from check(name, make)
            except Exception as error:
                yield "%s(%s): %r %s" % (check.__name__, name, error, traceback.format_exc()[-700:])
    for backend, world in [("gloo", 1), ("gloo", 2)] + ([("nccl", 1), ("nccl", 2)] if DEVICE != "cpu" else []):
        yield from check_group(backend, world)


def main():
    if DEVICE != "cpu" and not torch.cuda.is_available():
        print("skipped: torch sees no GPU")
        return 77
    os.makedirs(sys.argv[1], exist_ok=True)
    os.chdir(sys.argv[1])
    wrong = 0
    for text in check_all():
        wrong += 1
        print("BAD\t%s" % text, flush=True)
    print("DONE\t%d wrong, %s" % (wrong, ", ".join("%d %s" % (n, name) for name, n in sorted(counts.items()))))
    return 1 if wrong or not counts["compared"] else 0


if __name__ == "__main__":
    sys.exit(main())

# SPDX-License-Identifier: Apache-2.0
"""ckpt.torch.load() to a device that main memory stands in for, beside torch.load: in a folder with the package `ckpt`.

The device copies as late as it may: when somebody waits for it. By then what is to be copied must not have changed, and afterwards
it is overwritten. Prints a line for what is wrong, and at the end the counts.
"""

import contextlib
import os
import signal
import sys
import threading
import time
import traceback
import warnings

warnings.simplefilter("ignore")

import torch  # noqa: E402

import ckpt  # noqa: E402
import ckpt.torch  # noqa: E402
from ckpt import _staging  # noqa: E402
from python_torch_judge import Different, Judge  # noqa: E402

POISON = 0xEE
OutOfMemory = getattr(torch, "OutOfMemoryError", torch.cuda.OutOfMemoryError)
right, wrong = 0, []
wanted_from = {}


class Event:
    def __init__(self, device, count):
        self.device, self.count = device, count

    def synchronize(self):
        self.device.complete(self.count)


class Device:
    """In place of _staging.Cuda. HOOKS: what is called before the steps of these names, with the number of the call."""

    made = []
    hooks = {}
    can_lock = True

    def __init__(self):
        self.made.append(self)
        self.calls, self.problems, self.locked, self.devices = {}, [], {}, []
        self.gate = threading.Lock()
        self.pending, self.issued = [], 0
        self.here = threading.local()

    def step(self, name):
        with self.gate:
            self.calls[name] = self.calls.get(name, 0) + 1
            number = self.calls[name]
        if name in self.hooks:
            self.hooks[name](number)

    def complete(self, count):
        with self.gate:
            while self.pending and self.pending[0][0] < count:
                _, target, source, before = self.pending.pop(0)
                if not torch.equal(source, before):
                    self.problems.append("a buffer changed before it was copied from")
                target.copy_(source)
                source.fill_(POISON)

    def begin(self, device):
        self.devices.append(device)
        self.step("begin")

    @contextlib.contextmanager
    def use(self, device):
        if device not in self.devices:
            self.problems.append("use of a device without a beginning")
        before, self.here.device = getattr(self.here, "device", None), device
        yield
        self.here.device = before

    def copy(self, wanted, offset, source):
        self.step("copy")
        if getattr(self.here, "device", None) != wanted.device:
            self.problems.append("a copy with another device in use")
        if self.can_lock and not self.locked and self.calls.get("lock"):
            self.problems.append("a copy before memory was page-locked")
        target = torch.empty((0,), dtype=torch.uint8).set_(wanted.storage, offset, (source.numel(),), (1,))
        with self.gate:
            self.pending.append((self.issued, target, source, source.clone()))
            self.issued += 1

    def mark(self, device):
        self.step("mark")
        with self.gate:
            return Event(self, self.issued)

    def finish(self, device):
        self.step("finish")
        self.complete(1 << 60)

    def lock(self, address, nbytes):
        self.step("lock")
        if self.can_lock:
            self.locked[address] = nbytes
        return self.can_lock

    def unlock(self, address):
        self.step("unlock")
        if self.pending:
            self.problems.append("memory was unlocked before copies were done")
        del self.locked[address]

    def check(self):
        if self.pending:
            self.problems.append("copies were left")
        if self.locked:
            self.problems.append("memory was left locked")
        return self.problems


@contextlib.contextmanager
def device(hooks=None, can_lock=True, **values):
    """VALUES: of _staging, BUFFER say."""
    values = dict({"Cuda": Device, "takes": lambda location: location.startswith("cuda"), "is_fed": lambda device: True,
                   "allocate": lambda nbytes, device: torch.UntypedStorage(nbytes).fill_(POISON)}, **values)
    before = {name: getattr(_staging, name) for name in values}
    Device.hooks, Device.can_lock, Device.made = hooks or {}, can_lock, []
    for name, value in values.items():
        setattr(_staging, name, value)
    try:
        yield Device.made
    finally:
        for name, value in before.items():
            setattr(_staging, name, value)


def threads_are_left():
    """After a while, as they may be about to end."""
    deadline = time.monotonic() + 5
    while any(thread.name == "ckpt staging" for thread in threading.enumerate()):
        if time.monotonic() > deadline:
            return True
        time.sleep(0.001)
    return False


def case(what):
    """A function that raises Different, or yields nothing, becomes a case."""
    def decorate(function):
        global right
        try:
            function()
            require(not threads_are_left(), "threads were left")
            for one in Device.made:
                require(not one.check(), "%r" % one.problems)
            right += 1
        except BaseException as error:
            wrong.append("%s: %r %s" % (what, error, "" if isinstance(error, Different) else traceback.format_exc()[-900:]))
        return function
    return decorate


def require(condition, text):
    if not condition:
        raise Different(text)


def equal(path, **arguments):
    """Load PATH to the device, as torch loads it to main memory; how many copies were made."""
    if path not in wanted_from:
        wanted_from[path] = torch.load(path, weights_only=True, map_location="cpu")
    count = len(Device.made)
    found = ckpt.torch.load(path, **arguments)
    Judge().compare(wanted_from[path], found)
    return sum(one.calls.get("copy", 0) for one in Device.made[count:])


def tensors(sizes):
    torch.manual_seed(len(sizes))
    return [torch.randint(0, 256, (nbytes,), dtype=torch.uint8) for nbytes in sizes]


KIB = 1 << 10
B = 64 * KIB
SMALL = {"BUFFER": B, "SHARE": B, "PAGE_LOCKED": 1, "SINGLE": 1 << 20}
MIXES = {
    "nothing": [0], "one byte": [1], "empty and one": [0, 1, 0], "a buffer": [B], "less by one": [B - 1], "more by one": [B + 1],
    "around a buffer": [B - 1, 1, B, B + 1, 0, 1, B - 1, 2], "many small": [n % 300 for n in range(1200)], "one large": [37 * B + 5],
    "large and small": [1, 5 * B, 3, 0, 9 * B + 1, B, 7, 2 * B - 1] * 3, "aligned": [64] * 1200, "just not aligned": [63, 65] * 550,
}
BIG = [5 * B + 3] * 20
# no tagger that comes with torch says so of a storage in main memory
torch.serialization.register_package(1, lambda storage: None, lambda storage, location: storage if location.startswith("cuda") else None)


def save(path, made, **options):
    torch.save(made, path, **options)
    return path


for name, sizes in MIXES.items():
    for zipped in (True, False):
        path = save("mix-%s-%d.pt" % (name.replace(" ", "-"), zipped), tensors(sizes), _use_new_zipfile_serialization=zipped)
        for processors in (1, 2, 16):
            @case("%s, zip=%s, %d processors" % (name, zipped, processors))
            def mix():
                with device(_processors=lambda: processors, **SMALL):
                    copies = equal(path, map_location="cuda:0")
                    require(copies >= sum(nbytes > 0 for nbytes in sizes), "%d copies" % copies)
                    require(bool(Device.made) == any(sizes), "staging of nothing")

for count in (1, 2, 3, 14):
    @case("%d buffers, 12 threads" % count)
    def few_buffers():
        with device(BUFFERS=count, _processors=lambda: 12, **SMALL):
            require(equal("mix-large-and-small-1.pt", map_location="cuda"), "not staged")


@case("the sizes as they are")
def usual():
    path = save("usual.pt", tensors([40 << 20, 3, 5 << 20, 0, 100 << 10]))
    with device(_processors=lambda: 4):
        require(equal(path, map_location="cuda"), "not staged")
        require(Device.made[0].calls["lock"] == 1, "no page-locked memory")
    with device():
        require(equal(save("tiny.pt", tensors([3, 500])), map_location="cuda") == 2, "not staged")
        require("lock" not in Device.made[0].calls, "page-locked for little")


@case("memory that cannot be page-locked")
def no_lock():
    with device(can_lock=False, **SMALL):
        require(equal("mix-large-and-small-1.pt", map_location="cuda"), "not staged")


def shared():
    base = torch.arange(200000, dtype=torch.float32).reshape(200, 1000)
    other = torch.randn(70000).to(torch.bfloat16)
    return {"base": base, "row": base[7], "turned": base.t(), "other": other, "again": [other, other[5:9]], "parameter": torch.nn.Parameter(base),
            "empty": torch.empty(0, 4), "scalar": torch.tensor(2.5), "sparse": torch.eye(60).to_sparse(), "csr": torch.eye(6).to_sparse_csr(),
            "complex": torch.randn(3, 4, dtype=torch.complex64).conj(), "number": 5, "quantized": torch.quantize_per_tensor(torch.randn(50), 0.1, 3, torch.qint8)}


places = {"string": "cuda:0", "any": "cuda", "torch.device": torch.device("cuda:0"), "dict": {"cpu": "cuda:0"}}
for zipped in (True, False):
    save("shared-%d.pt" % zipped, shared(), _use_new_zipfile_serialization=zipped)
    for name, place in places.items():
        @case("sharing, zip=%s, to %s" % (zipped, name))
        def sharing():
            with device(**SMALL):
                require(equal("shared-%d.pt" % zipped, map_location=place) >= 3, "not staged")

    @case("what stays, or has to be seen, is not staged, zip=%s" % zipped)
    def not_staged():
        with device(**SMALL):
            for place in ("cpu", None, {"cuda:0": "cpu"}, {"cpu": "cpu"}, lambda storage, location: storage, torch.device("cpu")):
                require(not equal("shared-%d.pt" % zipped, map_location=place), "staged")
            require(not zipped or not equal("shared-1.pt", map_location="cuda", mmap=True), "staged with mmap")
            seen = []

            def place(storage, location):
                seen.append((storage.nbytes(), storage.device.type, bytes(storage[:4])))
                return storage

            ckpt.torch.load("shared-%d.pt" % zipped, map_location=place)
            wanted = list(seen)
            seen.clear()
            torch.load("shared-%d.pt" % zipped, map_location=place, weights_only=True)
            require(sorted(size for size, _, _ in seen) == sorted(size for size, _, _ in wanted), "the function saw others")


@case("a file that says where they are")
def says():
    import fake_cuda

    fake_cuda.install()
    data = tensors(BIG)
    for number, tensor in enumerate(data):
        fake_cuda.mark(tensor, "cuda:%d" % (number % 3))
    save("says.pt", data)
    fake_cuda.clear()
    with device(**SMALL):
        require(equal("says.pt", map_location=None), "not staged")
        require(equal("says.pt", map_location={"cuda:1": "cuda:0", "cuda:2": "cpu"}), "not staged")
        require(not equal("says.pt", map_location="cpu"), "staged")


@case("several devices in one file")
def several():
    class Named:  # what devices are is nothing to the stand-in
        pass

    names = [Named(), Named()]
    data = tensors([B // 3] * 40)
    wanted = []
    with device(**SMALL):
        save("several.pt", data)
        with ckpt.open("several.pt") as f:
            for storage in f.storages():
                made = torch.UntypedStorage(storage.nbytes)
                wanted.append(_staging.Wanted(made, names[storage.index // 3 % 2], storage.index, 0, storage.path, storage.offset))
            _staging.read(f._model, wanted)
            for one in wanted:
                require(one.storage.tolist() == list(f.storages()[one.number].read()), "other bytes")
        require(len(Device.made[0].devices) == 2, "%r" % Device.made[0].devices)


@case("single tensors")
def single():
    base = torch.arange(1200000, dtype=torch.float32)
    state = {"base": base, "part": base[300000:900000].reshape(3, 200, 1000), "turned": base.reshape(1000, 1200).t(), "small": torch.ones(5),
             "bfloat16": torch.randn(900000).to(torch.bfloat16), "conj": torch.randn(300000, dtype=torch.complex64).conj(),
             "bool": torch.randn(1 << 20) > 0, "scalar": torch.tensor(3), "float8": torch.randn(2 << 20).to(torch.float8_e4m3fn)}
    save("single.pt", state)
    staged = []
    with device(**SMALL):
        before = torch.device
        torch.device = lambda name: before("cpu") if str(name) == "stand-in" else before(name)  # which torch does not know
        _staging.takes = lambda location: True
        try:
            for f in ckpt.open("single.pt"), ckpt.open("single.pt", framework="pt", device="stand-in"):
                for name, tensor in state.items():
                    try:
                        found = f[name].torch(device="stand-in") if f._framework is None else f.get_tensor(name)
                    except RuntimeError as error:  # by way of Tensor.to()
                        require("stand-in" in str(error), str(error))
                        continue
                    staged.append(name)
                    require((found.dtype, found.shape, found.stride()) == (tensor.dtype, tensor.shape, tensor.stride()), name)
                    require(torch.equal(found.view(torch.uint8), tensor.view(torch.uint8)), name)
                    require(found.untyped_storage().nbytes() == tensor.numel() * tensor.element_size(), "the storage of " + name)
        finally:
            torch.device = before
    require(staged == ["base", "part", "bfloat16", "bool", "float8"] * 2, "%r" % staged)


@case("memory and open files")
def not_in_files():
    import io

    with open("mix-large-and-small-1.pt", "rb") as stream:
        data = stream.read()
    wanted = torch.load(io.BytesIO(data), weights_only=True)
    with device(**SMALL):
        Judge().compare(wanted, ckpt.torch.load(io.BytesIO(data), map_location="cuda"))
        with open("mix-large-and-small-1.pt", "rb") as stream:
            Judge().compare(wanted, ckpt.torch.load(stream, map_location="cuda"))


@case("compressed records beside others")
def compressed():
    import zipfile

    source = zipfile.ZipFile("mix-large-and-small-1.pt")
    with zipfile.ZipFile("compressed.pt", "w") as target:
        for number, name in enumerate(source.namelist()):
            target.writestr(name, source.read(name), zipfile.ZIP_DEFLATED if name[-1] in "05" else zipfile.ZIP_STORED)
    with device(**SMALL):
        Judge().compare(torch.load("mix-large-and-small-1.pt", weights_only=True), ckpt.torch.load("compressed.pt", map_location="cuda"))
        require(len(Device.made) == 1, "staged one at a time")


@case("two threads at once")
def two():
    with device(_processors=lambda: 4, **SMALL):
        torch.load("mix-one-large-1.pt", weights_only=True)
        failed = []

        def load(path):
            try:
                for _ in range(5):
                    equal(path, map_location="cuda")
            except BaseException as error:
                failed.append(error)

        threads = [threading.Thread(target=load, args=(path,)) for path in ("mix-one-large-1.pt", "mix-many-small-1.pt")]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        require(not failed, "%r" % failed)


# ---- what fails ----

save("big.pt", tensors(BIG))


class Wrong(Exception):
    pass


def fail_at(number, error=Wrong):
    def hook(count):
        if count == number:
            raise error("call %d" % count)
    return hook


def raises(kind, **values):
    values = dict(SMALL, _processors=lambda: 6, **values)
    before = set(_staging._lost)
    with device(**values):
        try:
            ckpt.torch.load("big.pt", map_location="cuda")
        except kind as error:
            return error
        finally:
            lost = [one for one in _staging._lost if one not in before]
            del _staging._lost[:]
        raise Different("nothing was raised, lost %r" % lost)


for name in ("begin", "copy", "mark", "lock"):
    for number in (1,) if name in ("begin", "lock") else (1, 2, 13, 70):
        @case("%s fails, call %d" % (name, number))
        def fails():
            require("call %d" % number in str(raises(Wrong, hooks={name: fail_at(number)})), "another error")


@case("memory of the device ends")
def no_memory():
    made = []

    def allocate(nbytes, device):
        made.append(nbytes)
        if len(made) > 10:
            raise OutOfMemory("CUDA out of memory")
        return torch.UntypedStorage(nbytes)

    raises(OutOfMemory, allocate=allocate)
    require(not Device.made, "staged")


@case("the file is cut meanwhile")
def cut():
    with open("big.pt", "rb") as stream:
        whole = stream.read()
    try:
        error = raises(ckpt.Error, hooks={"begin": lambda count: os.truncate("big.pt", len(whole) // 2)})
        require(error.status in ("IO", "FORMAT", "CHANGED"), error.status)
    finally:
        with open("big.pt", "wb") as stream:
            stream.write(whole)


@case("no more threads")
def no_threads():
    start = threading.Thread.start

    def refuse(thread):
        raise RuntimeError("can't start new thread")

    threading.Thread.start = refuse
    try:
        with device(_processors=lambda: 6, **SMALL):
            require(equal("big.pt", map_location="cuda"), "not staged")
        require("call 3" in str(raises(Wrong, hooks={"copy": fail_at(3)})), "another error")
    finally:
        threading.Thread.start = start


@case("waiting for the device fails")
def device_fails():
    values = dict(SMALL, _processors=lambda: 6)
    with device(hooks={"finish": fail_at(1)}, **values):
        try:
            ckpt.torch.load("big.pt", map_location="cuda")
            raise Different("nothing was raised")
        except Wrong:
            pass
        require(len(_staging._lost) == 1 and Device.made[0].locked, "memory that may be in use was freed")
        del _staging._lost[:]
        Device.made[0].complete(1 << 60)
        Device.made[0].locked.clear()


for name, number, times in (("copy", 1, 1), ("copy", 30, 1), ("copy", 30, 4), ("mark", 5, 1), ("lock", 1, 1), ("finish", 1, 1), ("begin", 1, 1)):
    @case("Ctrl-C at call %d of %s, %d times" % (number, name, times))
    def interrupt():
        sent = []

        def hook(count):
            if number <= count < number + times:
                sent.append(time.monotonic())
                os.kill(os.getpid(), signal.SIGINT)
                time.sleep(0.02)

        raises(KeyboardInterrupt, hooks={name: hook})
        require(time.monotonic() - sent[-1] < 2, "took %.1f s" % (time.monotonic() - sent[-1]))


@case("Ctrl-C at any moment")
def any_moment():
    ended = 0
    for number in range(60):
        with device(_processors=lambda: 4, **SMALL):
            timer = threading.Timer(number * 0.0007, os.kill, (os.getpid(), signal.SIGINT))
            try:
                timer.start()
                equal("big.pt", map_location="cuda")
                timer.join()
                time.sleep(0.01)
            except KeyboardInterrupt:
                ended += 1
            timer.join()
            require(not threads_are_left(), "threads were left")
            for one in Device.made:
                require(not one.check(), "%r after %.1f ms" % (one.problems, number * 0.7))
    require(ended, "none came in time")


@case("a load that ended leaves no cycle that keeps storages")
def no_cycles():
    import gc
    import weakref

    kept = []

    def allocate(nbytes, device):
        made = torch.UntypedStorage(nbytes)
        kept.append(weakref.ref(made))
        return made

    def interrupt(count):
        if count == 9:
            os.kill(os.getpid(), signal.SIGINT)
            time.sleep(0.02)

    gc.collect()
    gc.disable()
    try:
        for kind, hook in ((KeyboardInterrupt, interrupt), (Wrong, fail_at(9))):
            raises(kind, allocate=allocate, hooks={"copy": hook})
            require(not threads_are_left(), "threads were left")
            del Device.made[:]
            require(kept and not [one for one in kept if one() is not None], "%r: storages are kept" % kind)
    finally:
        gc.enable()


@case("after all that, a load is right")
def at_last():
    require(not _staging._lost, "memory was lost")
    with device(**SMALL):
        require(equal("big.pt", map_location="cuda"), "not staged")


for text in wrong:
    print("BAD\t" + text.replace("\n", " / "))
print("DONE\t%d\t%d\ttorch %s: %d right, %d wrong" % (right, len(wrong), torch.__version__, right, len(wrong)))
sys.exit(1 if wrong else 0)

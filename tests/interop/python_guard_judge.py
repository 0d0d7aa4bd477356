# SPDX-License-Identifier: Apache-2.0
"""ckpt.torch.guard() in one torch: python_guard_judge.py, with the package `ckpt` in this folder.

hostile/: files made to harm, none of which may be loaded. out/a/: what torch wrote; it loads as without the guard if it
is plain. Prints a line for what is wrong, and at the end the counts, as python_torch_judge.py does.
"""

import collections
import copy
import functools
import gc
import gzip
import io
import os
import pickle
import random
import signal
import sys
import threading
import time
import traceback
import types
import warnings

warnings.simplefilter("ignore")
sys.dont_write_bytecode = True  # imports would make folders

import numpy  # noqa: E402
import torch  # noqa: E402

import ckpt  # noqa: E402
from ckpt import _ckpt  # noqa: E402
from python_torch_judge import Judge  # noqa: E402

CANARY = "canary"
RUNS = ("os.system", "os.exec", "os.posix_spawn", "os.spawn", "os.fork", "os.mkdir", "os.remove", "subprocess.", "socket.", "ctypes.dlopen",
        "shutil.", "webbrowser.", "code.")
UNPACKS = ("os.mkdir", "os.remove", "shutil.")  # as torch does with tars, in a folder of its own
counts = collections.Counter()
wrong = []
heard = []
listening = threading.local()
LOADERS = ((torch, "load"), (torch.serialization, "load"), (pickle, "load"), (pickle, "loads"), (pickle, "Unpickler"), (pickle, "_Unpickler"),
           (numpy, "load"))


def hook(event, arguments):
    if getattr(listening, "now", False) and (event == "pickle.find_class" or event.startswith(RUNS)):
        if event.startswith(UNPACKS) and ("/tmp/" in repr(arguments) or isinstance(arguments[-1], int) and arguments[-1] > 2):
            return
        heard.append(event)
        if event != "pickle.find_class":
            raise RuntimeError("refused: %s%r" % (event, arguments))


def expect(condition, text, *values):
    counts["right" if condition else "wrong"] += 1
    if not condition:
        wrong.append(text % values)


class Evil:
    def __reduce__(self):
        return os.mkdir, (CANARY,)


def listened(function):
    """(result or exception, events)"""
    heard.clear()
    listening.now = True
    try:
        result = function()
    except Exception as error:
        result = error
    finally:
        listening.now = False
    return result, list(heard)


def ways_into(path, data):
    """(name, how to load PATH, a file with DATA)"""
    options = {"weights_only": False, "map_location": "cpu"}
    return (("torch.load", lambda: torch.load(path, **options)),
            ("torch.load of a stream", lambda: torch.load(io.BytesIO(data), **options)),
            ("pickle.load", lambda: pickle.load(io.BytesIO(data))),
            ("pickle.loads", lambda: pickle.loads(data)),
            ("pickle.Unpickler", lambda: pickle.Unpickler(io.BytesIO(data)).load()),
            ("pickle._Unpickler", lambda: pickle._Unpickler(io.BytesIO(data)).load()),
            ("numpy.load", lambda: numpy.load(path, allow_pickle=True)))


def check_hostile(folder, maybe_plain, every_way):
    """Each file by torch.load, and every second by one of the other ways, in turn; or by all. None but MAYBE_PLAIN is loaded."""
    for number, name in enumerate(sorted(os.listdir(folder))):
        path = os.path.join(folder, name)
        with open(path, "rb") as stream:
            data = stream.read()
        # what an index of DCP says is for its own reader: torch.load takes it by what is in it
        named = path
        if name.startswith("index_class_"):
            named = path + ".pkl"
            with open(named, "wb") as stream:
                stream.write(data)
        plain = (name in maybe_plain or named != path) and _ckpt.scan(named)[0][1] == "plain"
        counts["hostile files" if not plain else "files that are plain after all"] += 1
        ways = ways_into(path, data)
        for way, load in ways if every_way else ways[:1] if number % 2 else (ways[0], ways[1 + number // 2 % (len(ways) - 1)]):
            result, events = listened(load)
            if plain:
                expect(not [event for event in events if event != "pickle.find_class"], "%s: %s: %s", name, way, events)
                continue
            if way.startswith(("pickle", "numpy")) and not isinstance(result, ckpt.Error) and not events:
                # the pickle that it begins with is harmless, and the rest nothing that is loaded by this
                counts["beginnings that are plain"] += 1
                continue
            expect(isinstance(result, ckpt.torch.Refused) or isinstance(result, EOFError) and not data, "%s: %s gives %.200r", name, way, result)
            expect(not events, "%s: %s: %s", name, way, events)
    expect(not os.path.exists(CANARY), "the canary is there")


def check_beginning():
    """Of a stream only the pickle is scanned that is loaded, and a hostile one behind it later."""
    evil = pickle.dumps(Evil())
    for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
        values = [[1, "a", b"b", 2.5, None, {"k": (1, 2, 3, 4)}], "x" * 70000, list(range(300)), {1: [], "\u20ac\n": {2}}]
        data = b"".join(pickle.dumps(value, protocol) for value in values) + evil + b"rest"
        for name, make in (("BytesIO", lambda: io.BytesIO(data)), ("file", lambda: written("many.pkl", data)), ("pipe", lambda: piped(data)),
                           ("gzip", lambda: gzip.GzipFile(fileobj=io.BytesIO(gzip.compress(data)))), ("raw", lambda: io.FileIO("many.pkl"))):
            stream = make()
            for value in values:
                found = pickle.load(stream)
                expect(found == value, "%s, protocol %d: %.50r is %.50r", name, protocol, value, found)
            result, events = listened(lambda: pickle.load(stream))
            expect(isinstance(result, ckpt.torch.Refused) and result.verdict == "dangerous" and not events, "%s, protocol %d: %r", name, protocol, result)
            left = stream.read()
            expect(left == (b"rest" if name in ("pipe", "gzip") else evil + b"rest"), "%s, protocol %d: %d bytes are left", name, protocol, len(left))
            stream.close()


def written(path, data):
    with open(path, "wb") as stream:
        stream.write(data)
    return open(path, "rb")


def piped(data):
    """From a thread that writes no more than is wanted, and does not close: reading ahead would hang."""
    reader, writer = os.pipe()

    def write():
        with open(writer, "wb") as stream:
            stream.write(data)

    threading.Thread(target=write, daemon=True).start()
    return open(reader, "rb", buffering=0)


class Changing(io.BytesIO):
    """Plain when it is read first, hostile afterwards."""

    def __init__(self, first, then):
        super().__init__(first)
        self.then, self.was_read = then, False

    def read(self, *count):
        if self.was_read:
            where = self.tell()
            super().__init__(self.then)
            self.seek(where)
        self.was_read = bool(not count or self.tell() >= len(self.getvalue()) - 1)
        return super().read(*count)


def check_one_reading():
    """What is loaded is what was scanned, whatever becomes of the file meanwhile."""
    good, evil = pickle.dumps({"a": 1}), pickle.dumps(Evil())
    torch.save({"a": torch.arange(3)}, "good.pt")
    torch.save({"a": torch.arange(3), "b": Evil()}, "evil.pt")
    scan = _ckpt.scan

    def swapping(path):
        found = scan(path)
        for name, text in files.items():
            with open(name, "wb") as stream:
                stream.write(text)
        return found

    files = {}
    for load in (lambda: torch.load("swapped", weights_only=False), lambda: torch.load("swapped", weights_only=False, mmap=True),
                 lambda: torch.load(open("swapped", "rb"), weights_only=False)):
        with open("good.pt", "rb") as stream, open("swapped", "wb") as to:
            to.write(stream.read())
        with open("evil.pt", "rb") as stream:
            files = {"swapped": stream.read()}
        _ckpt.scan = swapping
        try:
            result, events = listened(load)
        finally:
            _ckpt.scan = scan
        expect(isinstance(result, dict) and torch.equal(result["a"], torch.arange(3)), "a file that changes: %r %r", result, events)
    with open("swapped", "wb") as to:
        to.write(good)
    files = {"swapped": evil}
    _ckpt.scan = swapping
    try:
        with open("swapped", "rb", buffering=0) as stream:
            result, events = listened(lambda: pickle.load(stream))
            expect(result == {"a": 1} and not events, "a pickle that changes: %r", result)
        files = {}
        text = b"\x80\2X" + (len(evil) - 8).to_bytes(4, "little") + b"a" * (len(evil) - 8) + b"."  # as long as the hostile one
        view = bytearray(text)

        def overwriting(path):
            found = scan(path)
            view[:] = evil
            return found

        _ckpt.scan = overwriting
        result, events = listened(lambda: pickle.loads(view))
        expect(result == "a" * (len(evil) - 8) and view == evil and not events, "bytes that change: %r", result)
    finally:
        _ckpt.scan = scan
    for first, then in ((good, evil), (evil, good)):
        result, events = listened(lambda: pickle.load(Changing(first, then)))
        expect(not events, "a stream that changes: %r %s", result, events)


def check_unpicklers():
    class Mine(pickle.Unpickler):
        asked = []

        def find_class(self, module, name):
            self.asked.append(name)
            return super().find_class(module, name)

    stream = io.BytesIO(pickle.dumps(collections.OrderedDict(a=1)) + pickle.dumps(collections.Counter("ab")) + pickle.dumps([1, Evil()]))
    unpickler = Mine(stream)
    found = [unpickler.load()]
    expect(found == [{"a": 1}] and Mine.asked == ["OrderedDict"], "a class of its own: %r %r", found, Mine.asked)
    result, events = listened(unpickler.load)
    result, events = listened(lambda: Mine(io.BytesIO(pickle.dumps([1, Evil()]))).load())
    expect(isinstance(result, ckpt.torch.Refused) and not events, "a class of its own, hostile: %r", result)
    for kind in (pickle.Unpickler, pickle._Unpickler):
        # one pickler's numbers go on: the second pickle alone would be another value
        out = io.BytesIO()
        pickler = pickle.Pickler(out, 4)
        shared = ["shared"]
        pickler.dump(shared)
        pickler.dump([["other"], shared])
        both = kind(io.BytesIO(out.getvalue()))
        expect(both.load() == ["shared"], "%s: the first pickle", kind)
        result, events = listened(both.load)
        expect(isinstance(result, ckpt.torch.Refused), "%s: objects of another pickle: %r", kind, result)
        apart = kind(io.BytesIO(pickle.dumps([1, 2]) + pickle.dumps("text of ghj") + b""))
        expect([apart.load(), apart.load()] == [[1, 2], "text of ghj"], "%s: two pickles", kind)
        expect(isinstance(listened(apart.load)[0], EOFError), "%s: no third", kind)


def check_arrays():
    objects = numpy.array([1, "a", None], dtype=object)
    numpy.save("objects.npy", objects)
    numpy.savez("both.npz", a=objects, b=numpy.arange(5))
    numpy.save("evil.npy", numpy.array([Evil()], dtype=object))
    numpy.savez("evil.npz", a=numpy.array([Evil()], dtype=object))
    numpy.save("numbers.npy", numpy.arange(1000))
    expect(list(numpy.load("objects.npy", allow_pickle=True)) == [1, "a", None], "objects.npy")
    archive = numpy.load("both.npz", allow_pickle=True)
    expect(list(archive["a"]) == [1, "a", None] and list(archive["b"]) == [0, 1, 2, 3, 4], "both.npz")
    mapped = numpy.load("numbers.npy", mmap_mode="r", allow_pickle=True)
    expect(isinstance(mapped, numpy.memmap) and mapped[999] == 999, "a map")
    for name in ("evil.npy", "evil.npz"):
        result, events = listened(lambda: numpy.load(name, allow_pickle=True))
        expect(isinstance(result, ckpt.torch.Refused) and not events, "%s: %r", name, result)
    result, events = listened(lambda: numpy.load("evil.npy"))
    expect(isinstance(result, ValueError) and not events, "numpy.load without pickles: %r", result)
    stream = io.BytesIO()
    for value in (objects, numpy.arange(3), numpy.ones((2, 2))):
        numpy.save(stream, value, allow_pickle=True)
    stream.write(b"rest")
    stream.seek(0)
    for value in (objects, numpy.arange(3), numpy.ones((2, 2))):
        expect(numpy.array_equal(numpy.load(stream, allow_pickle=True), value), "arrays of a stream")
    expect(stream.read() == b"rest", "the rest of a stream of arrays")


def check_putting_back(before):
    now = lambda: [getattr(module, name) for module, name in LOADERS]  # noqa: E731
    first, second = ckpt.torch.guard(), ckpt.torch.guard()
    evil = pickle.dumps(Evil())
    refused = lambda: isinstance(listened(lambda: pickle.loads(evil))[0], ckpt.torch.Refused)  # noqa: E731
    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)
    expect(refused(), "the second of two guards")
    for left in (first, ckpt.torch.guard()):
        try:
            left.__exit__(None, None, None)
            expect(False, "a guard that was not entered is left")
        except RuntimeError:
            pass
    expect(refused(), "the second of two guards, after others were left that were not entered")
    second.__exit__(None, None, None)
    expect(now() == before, "what two guards replaced is put back")
    try:
        with ckpt.torch.guard(), ckpt.torch.guard():
            raise KeyError
    except KeyError:
        pass
    expect(now() == before, "what was replaced is put back after an exception")

    @ckpt.torch.guard()
    def decorated():
        return refused()

    expect(decorated() and now() == before, "as a decorator")

    def later():
        yield refused()

    async def much_later():
        return refused()

    async def both():
        yield refused()

    for one in (later, much_later, both):
        try:
            ckpt.torch.guard()(one)
            expect(False, "a decorator of %s, which runs after it" % one.__name__)
        except TypeError as error:
            expect("enter it inside" in str(error), "a decorator of %s: %s" % (one.__name__, error))
    # somebody puts a function around ours, and a later guard one around that
    with ckpt.torch.guard():
        ours = pickle.loads
        theirs = functools.wraps(ours)(lambda data, **options: ours(data, **options))
        pickle.loads = theirs
    expect(pickle.loads is theirs and pickle.loads(pickle.dumps(1)) == 1, "a function of somebody else stays")
    with ckpt.torch.guard():
        expect(refused() and pickle.loads(pickle.dumps([1])) == [1], "around somebody else's")
    pickle.loads = before[LOADERS.index((pickle, "loads"))]
    expect(now() == before, "put back by hand")
    # threads that come and go
    failed = []

    def work():
        for _ in range(30):
            try:
                with ckpt.torch.guard():
                    if pickle.loads(pickle.dumps([1])) != [1] or not isinstance(caught(lambda: pickle.loads(evil)), ckpt.torch.Refused):
                        failed.append("loads")
                    if not torch.equal(torch.load("good.pt")["a"], torch.arange(3)):
                        failed.append("load")
            except Exception as error:
                failed.append(repr(error))

    threads = [threading.Thread(target=work) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    expect(not failed and now() == before, "threads: %s", failed[:3])


def caught(function):
    try:
        return function()
    except Exception as error:
        return error


def check_callbacks():
    """What a loader calls of the caller is guarded as well."""
    evil = pickle.dumps(Evil())
    seen = []

    def place(storage, location):
        seen.append(caught(lambda: pickle.loads(evil)))
        return storage

    torch.load("good.pt", map_location=place)
    expect(seen and all(isinstance(one, ckpt.torch.Refused) for one in seen), "map_location: %r", seen)
    class Places(dict):
        def get(self, key, default=None):
            seen.append(caught(lambda: pickle.loads(evil)))
            return default

    class Finding(pickle.Unpickler):
        def find_class(self, module, name):
            seen.append(caught(lambda: pickle.loads(evil)))
            return super().find_class(module, name)

    class Freed:
        def __del__(self):
            seen.append(caught(lambda: pickle.loads(evil)))

    def of_package(storage, location):
        if programs:
            programs.pop()()

    module = types.ModuleType("finding")
    module.Unpickler, module.load = Finding, pickle.load
    programs = []
    torch.serialization.register_package(1, lambda storage: None, of_package)
    kept = [Freed()]
    ways = {
        "a dict": lambda: torch.load("good.pt", map_location=Places()),
        "pickle_module": lambda: torch.load("good.pt", weights_only=False, pickle_module=module),
        "a package's function": lambda: (programs.append(lambda: seen.append(caught(lambda: pickle.loads(evil)))), torch.load("good.pt")),
        "a finalizer": lambda: (programs.append(kept.clear), torch.load("good.pt")),
        "a signal": lambda: (programs.append(lambda: signal.raise_signal(signal.SIGUSR1)), torch.load("good.pt")),
    }
    before = signal.signal(signal.SIGUSR1, lambda number, frame: seen.append(caught(lambda: pickle.loads(evil))))
    for name, way in ways.items():
        seen.clear()
        caught(way)
        expect(seen and all(isinstance(one, ckpt.torch.Refused) for one in seen), "%s: %r", name, seen)
    signal.signal(signal.SIGUSR1, before)

    def interrupted(storage, location):
        raise KeyboardInterrupt

    try:
        torch.load("good.pt", map_location=interrupted)
    except KeyboardInterrupt as error:  # its frames are alive
        expect(isinstance(caught(lambda: pickle.loads(evil)), ckpt.torch.Refused), "a load that was interrupted: %r", error)
    expect(torch.equal(torch.load("good.pt", map_location=torch.device("cpu"))["a"], torch.arange(3)), "map_location as a device")


class Interrupted(BaseException):
    pass


def check_interrupts(times=250):
    """Signals at any moment of a load: no descriptor stays open."""
    torch.save({"a": torch.arange(1000.0), "b": [torch.ones(2)] * 20}, "plain.pt")
    numpy.save("plain.npy", numpy.array([1, "a", None], dtype=object))
    state = pickle.dumps({"a": list(range(300))})

    def stream(name, load):
        with open(name, "rb") as opened:
            return load(opened)

    ways = {"path": lambda: torch.load("plain.pt"), "mmap": lambda: torch.load("plain.pt", mmap=True), "stream": lambda: stream("plain.pt", torch.load),
            "array": lambda: numpy.load("plain.npy", allow_pickle=True), "pickle": lambda: pickle.loads(state),
            "stream of a pickle": lambda: pickle.load(io.BytesIO(state)), "ckpt": lambda: ckpt.torch.load("plain.pt")}

    def interrupt(number, frame):
        if armed:
            raise Interrupted

    chance = random.Random(os.environ.get("CKPT_SEED", "1"))
    armed = False
    handler = signal.signal(signal.SIGALRM, interrupt)
    try:
        for name, way in ways.items():
            begun = time.monotonic()
            way()
            taken = time.monotonic() - begun
            gc.collect()
            open_before, interrupted = os.listdir("/proc/self/fd"), 0
            for _ in range(times):
                try:
                    armed = True
                    signal.setitimer(signal.ITIMER_REAL, chance.uniform(1e-6, taken))
                    way()
                    armed = False
                    taken = max(taken * 0.97, 1e-5)  # the machine was slower when the time was taken
                except Interrupted:
                    interrupted += 1
                    taken *= 1.02
                finally:
                    armed = False
                    signal.setitimer(signal.ITIMER_REAL, 0)
            gc.collect()
            expect(interrupted > times // 10, "%s: only %d of %d were interrupted", name, interrupted, times)
            expect(len(os.listdir("/proc/self/fd")) == len(open_before), "%s, interrupted: %s are open, before %s", name,
                   len(os.listdir("/proc/self/fd")), len(open_before))
            counts["interrupts"] += interrupted
    finally:
        signal.signal(signal.SIGALRM, handler)


def same_position(path, options):
    """A stream stands where torch leaves it."""
    places = []
    for guarded in (False, True):
        with open(path, "rb") as stream:
            if guarded:
                with ckpt.torch.guard():
                    torch.load(stream, **options)
            else:
                torch.load(stream, **options)
            places.append(stream.tell())
    return places[0] == places[1]


def check_plain(folder):
    options = {"weights_only": False}
    for name in sorted(os.listdir(folder)):
        path = os.path.join(folder, name)
        if _ckpt.scan(path)[0][1] != "plain":
            counts["not plain"] += 1
            with ckpt.torch.guard():
                result, events = listened(lambda: torch.load(path, **options))
            expect(isinstance(result, ckpt.torch.Refused) and not events, "%s: %r", name, result)
            continue
        counts["plain"] += 1
        ways = {"path": lambda: torch.load(path, **options), "file": lambda: torch.load(open(path, "rb"), **options),
                "bytes": lambda: torch.load(io.BytesIO(open(path, "rb").read()), **options)}
        with open(path, "rb") as stream:
            if stream.read(2) == b"PK" and torch.__version__ > "2.1":
                ways["mmap"] = lambda: torch.load(path, mmap=True, **options)
        for way, load in ways.items():
            wanted = caught(load)
            if isinstance(wanted, Exception):
                continue
            try:
                with ckpt.torch.guard():
                    found = load()
                Judge().compare(wanted, found)
                counts["right"] += 1
            except Exception as error:
                expect(False, "%s: %s: %r", name, way, error)
        if not isinstance(caught(ways["path"]), Exception):
            expect(same_position(path, options), "%s: the position of the stream", name)


def main():
    torch.set_num_threads(1)
    sys.addaudithook(hook)
    before = [getattr(module, name) for module, name in LOADERS]
    result, events = listened(lambda: pickle.loads(pickle.dumps(Evil())))
    expect(isinstance(result, RuntimeError) and events == ["pickle.find_class", "os.mkdir"], "the canary would be seen: %r", events)
    check_plain(os.path.join("out", "a"))
    with ckpt.torch.guard():
        with open("maybe_plain.txt", encoding="utf-8") as stream:
            check_hostile("hostile", set(stream.read().split("\n")), "every-way" in sys.argv)
        for check in (check_beginning, check_one_reading, check_unpicklers, check_arrays, check_callbacks, check_interrupts):
            try:
                check()
            except Exception as error:
                expect(False, "%s: %r %s", check.__name__, error, traceback.format_exc()[-900:])
    expect([getattr(module, name) for module, name in LOADERS] == before, "what was replaced is put back")
    check_putting_back(before)
    ckpt.torch.install_guard()
    ckpt.torch.install_guard()
    expect(isinstance(caught(lambda: pickle.loads(pickle.dumps(Evil()))), ckpt.torch.Refused), "installed")
    with ckpt.torch.guard():
        pass
    expect(isinstance(caught(lambda: pickle.loads(pickle.dumps(Evil()))), ckpt.torch.Refused) and not os.path.exists(CANARY), "still installed")
    for text in wrong[:40]:
        print("BAD\t%s" % text.replace("\n", " "))
    right, failed = counts.pop("right"), counts.pop("wrong", 0)
    print("DONE\t%d\t%d\t%s" % (right, failed, ", ".join("%d %s" % (n, name) for name, n in sorted(counts.items()))))


if __name__ == "__main__":
    main()

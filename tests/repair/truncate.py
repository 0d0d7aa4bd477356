# SPDX-License-Identifier: Apache-2.0
"""Files cut off at random places: `ckpt repair` recovers every tensor that is all there, and claims no other.

    truncate.py [COUNT [SEED]]    COUNT places (60), spread over all kinds of files

remains.py, which is neither torch nor ckpt, says what is all there and what is proven; it also reads the result. CKPT and
CKPT_TEST_DIR as for the other tests.
"""
import collections
import json
import os
import random
import subprocess
import sys
import zipfile

import remains
import rounds

CKPT = os.path.abspath(os.environ.get("CKPT", "ckpt"))
TESTS = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
FIXTURES = os.path.join(TESTS, "fixtures", "ddp")
sys.path.insert(0, os.path.join(TESTS, "bad"))
import files  # noqa: E402

RECOVERED, PARTIAL, NOTHING = 0, 1, 2


def ckpt(*arguments):
    return subprocess.run([CKPT, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=120,
                          check=False, env=dict(os.environ, LC_ALL="C"))


def make(*arguments):
    done = ckpt(*arguments)
    if done.returncode:
        sys.exit("ckpt %s: %s" % (" ".join(arguments), done.stderr))


def repack(source, target, method):
    with zipfile.ZipFile(source) as old, zipfile.ZipFile(target, "w", method) as new:
        for info in old.infolist():
            with old.open(info) as file:
                new.writestr(info.filename, file.read())


def in_lists(path):
    """Tensors in a list, in a tuple of dicts, one storage shown by several, a large one."""
    def tensor(key, numel, **view):
        return files.tensor(key, numel=numel, **view)
    body = (b"}(" + files.text("list") + b"](" + tensor("0", 8, shape=(8,)) + tensor("1", 40, shape=(5, 8), stride=(8, 1)) + b"e" +
            files.text("pair") + b"(}(" + files.text("a") + tensor("2", 30, shape=(30,)) + files.text("b") +
            tensor("3", 3, shape=(3,)) + b"u}(" + files.text("view") + tensor("2", 30, shape=(10,), offset=20) +
            files.text("epoch") + files.number(7) + b"ut" + files.text("large") + tensor("4", 100000, shape=(100000,)) +
            files.text("last") + tensor("5", 4) + b"u")
    rng = random.Random(3)
    records = [("data.pkl", files.pickled(body)), ("byteorder", b"little")]
    records += [("data/%d" % i, rng.randbytes(4 * numel)) for i, numel in enumerate((8, 40, 30, 3, 100000, 4))]
    records += [("version", b"3\n"), (".data/serialization_id", b"0" * 40)]
    with open(path, "wb") as file:
        file.write(files.archive(records))


def kinds(work):
    """(what it is, path)"""
    trainer = os.path.join(FIXTURES, "ddp_trainer.pt")

    def path(name):
        return os.path.join(work, name)

    for profile in ("1.6", "1.9", "1.13", "2.6", "2.14"):
        make("convert", "--profile", profile, trainer, path("as-%s.pt" % profile))
        yield "zip of torch " + profile, path("as-%s.pt" % profile)
    yield "zip of torch 2.14, a model", os.path.join(FIXTURES, "ddp_model.pt")
    make("convert", "--alignment", "4096", trainer, path("aligned.pt"))
    yield "zip, alignment 4096", path("aligned.pt")
    make("convert", "--crc", "off", trainer, path("no-crc.pt"))
    yield "zip without checksums", path("no-crc.pt")
    for name, method in (("stored", zipfile.ZIP_STORED), ("deflated", zipfile.ZIP_DEFLATED)):
        repack(path("as-2.6.pt"), path(name + ".pt"), method)
        yield "zip, packed anew, " + name, path(name + ".pt")
    make("convert", "--to", "torch-legacy", trainer, path("legacy.bin"))
    yield "legacy stream", path("legacy.bin")
    in_lists(path("lists.pt"))
    yield "zip with tensors in lists", path("lists.pt")


NANS = {"Float": b"\0\0\xc0\x7f", "Double": b"\0\0\0\0\0\0\xf8\x7f", "Half": b"\0\x7e", "BFloat16": b"\xc0\x7f"}


def filling(storage, fill):
    number = NANS.get(storage.kind, b"\0") if fill == "nan" else b"\0"
    return number * (storage.nbytes // len(number))


class Kind:
    def __init__(self, name, path):
        self.name = name
        with open(path, "rb") as file:
            self.data = file.read()
        self.whole = remains.read(self.data)

    def judge(self, at, folder, fill):
        """What is wrong with the repair of the first AT bytes."""
        left = self.data[:at]
        cut, out = os.path.join(folder, "cut.pt"), os.path.join(folder, "out.pt")
        with open(cut, "wb") as file:
            file.write(left)
        if os.path.exists(out):
            os.remove(out)
        done = ckpt("repair", "--json", *(["--fill", fill] if fill else []), cut, out)
        if done.returncode not in (RECOVERED, PARTIAL, NOTHING):
            return "exit status %d: %s" % (done.returncode, done.stderr)
        states = remains.states(self.whole, left)
        lost = {path for path in states or () if states[path] == "lost"}
        stuck = [path for path in lost if not remains.is_entry(self.whole.object, path)]
        if states is None or len(lost) == len(states) or (stuck and not fill):
            if done.returncode != NOTHING or os.path.exists(out):
                return "exit status %d, with OUT %s; nothing can be saved" % (done.returncode, os.path.exists(out))
            return None
        return (self.judge_said(states, done) or self.judge_object(left, out, lost, fill) or
                self.judge_verdict(out, states))

    def judge_said(self, states, done):
        said, counts = json.loads(done.stdout), collections.Counter(states.values())
        for state in remains.WORST:
            names = sorted(".".join(map(str, path)) for path in states if states[path] == state)
            told = sorted(finding["name"] for finding in said["findings"] if finding["kind"] == state)
            if said[state] != counts[state] or (state != "proven" and names != told):
                return "%d are %s, wanted %d: %s" % (said[state], state, counts[state], done.stdout[-600:])
        wanted = RECOVERED if counts["proven"] == len(states) else PARTIAL
        return None if done.returncode == wanted else "exit status %d, wanted %d" % (done.returncode, wanted)

    def judge_object(self, left, out, lost, fill):
        with open(out, "rb") as file:
            found = remains.read(file.read())

        def bytes_wanted(storage):
            if self.whole.storage_state(left, storage) == "lost":
                return filling(storage, fill)
            return self.whole.bytes[storage.key]
        return remains.same(self.whole.object, found.object, bytes_wanted, lambda storage: found.bytes[storage.key],
                            () if fill else lost)

    @staticmethod
    def judge_verdict(out, states):
        verdict = ckpt("verify", out)
        wanted = 2 if "unproven" in states.values() else 0
        if verdict.returncode != wanted:
            return "verify of OUT: exit status %d, wanted %d: %s" % (verdict.returncode, wanted, verdict.stdout)
        return None


def places(kind, count, rng):
    """Anywhere, as far as that goes; and half of them where a record begins or ends, or near to it."""
    edges = [0]
    if isinstance(kind.whole, remains.Zip):
        for record in kind.whole.records.values():
            edges += [record.begin, record.begin + record.size, record.end_of_crc, record.begin + record.size + 16]
    else:
        for begin, size in kind.whole.places.values():
            edges += [begin - 8, begin, begin + size]
    near = [edge + delta for edge in edges for delta in (-1, 0, 1) if 0 <= edge + delta < len(kind.data)]
    return [rng.choice(near) if i % 2 else rng.randrange(len(kind.data)) for i in range(count)]


def rounds_of(work, count, rng):
    every = [Kind(name, path) for name, path in kinds(work)]
    for number, kind in enumerate(every):
        share = count // len(every) + (number < count % len(every))
        cuts = [(at, rng.choice((None, None, "zeros", "nan"))) for at in places(kind, share, rng)]
        yield ("%-32s %7d bytes, cut at %4d places" % (kind.name, len(kind.data), len(cuts)),
               [(kind, at, fill, "%s: the first %d bytes, --fill %s" % (kind.name, at, fill)) for at, fill in cuts])


if __name__ == "__main__":
    sys.exit(rounds.run("truncate", 60, rounds_of, "places"))

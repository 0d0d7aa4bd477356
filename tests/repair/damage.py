# SPDX-License-Identifier: Apache-2.0
"""Files damaged at random: what `ckpt repair` calls proven is what was written, and what was not touched is recovered.

    damage.py [COUNT [SEED]]    COUNT damaged files (104), of all kinds of files and damage

Judged as in truncate.py, whose kinds of files these are.
"""
import collections
import json
import os
import sys

import remains
import rounds
import truncate


# ---- damage: (bytes, random numbers) -> bytes ----

def somewhere(data, rng, most=8192):
    begin = rng.randrange(len(data))
    return begin, min(len(data), begin + rng.choice((1, 2, 40, 512, rng.randrange(1, most))))


def flipped(data, rng):
    at = rng.randrange(len(data))
    return data[:at] + bytes([data[at] ^ 1 << rng.randrange(8)]) + data[at + 1:]


def blank(data, rng):
    begin, end = somewhere(data, rng)
    return data[:begin] + bytes(end - begin) + data[end:]


def garbage(data, rng):
    begin, end = somewhere(data, rng)
    return data[:begin] + rng.randbytes(end - begin) + data[end:]


def without(data, rng):
    begin, end = somewhere(data, rng, 2048)
    return data[:begin] + data[end:]


def with_more(data, rng):
    begin, end = somewhere(data, rng, 2048)
    return data[:begin] + rng.randbytes(end - begin) + data[begin:]


def behind_junk(data, rng):
    return rng.randbytes(rng.randrange(1, 5000)) + data


def no_directory(data, rng):
    at = data.find(b"PK\1\2")
    at = at if at >= 0 else len(data) // 2
    return data[:at] + rng.choice((bytes, rng.randbytes))(len(data) - at)


def bad_directory(data, rng):
    at = data.find(b"PK\1\2")
    at = rng.randrange(at if at >= 0 else 0, len(data) - 4)
    return data[:at] + rng.randbytes(4) + data[at + 4:]


def never_written(data, rng):
    at = rng.randrange(len(data))
    return data[:at] + bytes(len(data) - at)


def twice(data, rng):
    return data + data[:rng.randrange(len(data) + 1)]


def flipped_and_cut(data, rng):
    data = flipped(data, rng)
    return data[:rng.randrange(len(data) // 2, len(data))]


def several(data, rng):
    for _ in range(rng.randrange(2, 6)):
        data = rng.choice((flipped, blank, garbage, without))(data, rng) or b"\0"
    return data


def lined_up(kind, rng):
    """From within one record to the same place in another of its size is nothing, and the directory is gone."""
    archive = kind.whole
    if not isinstance(archive, remains.Zip):
        return without(kind.data, rng)
    named = [record for name, record in archive.records.items() if name.startswith("data/")]
    pairs = [(a, b) for a in named for b in named
             if a.begin < b.begin and (a.size, len(a.name)) == (b.size, len(b.name)) and archive.bytes[a.name[5:]] != archive.bytes[b.name[5:]]]
    if not pairs:
        return without(kind.data, rng)
    first, second = rng.choice(pairs)
    within = rng.randrange(-4, first.size // 2)
    left = kind.data[:kind.data.find(b"PK\1\2")]
    return left[:first.begin + within] + left[second.begin + within:]


DAMAGES = (flipped, blank, garbage, without, with_more, behind_junk, no_directory, bad_directory, never_written, twice,
           flipped_and_cut, several, lined_up)


class Kind(truncate.Kind):
    def untouched(self, left):
        """Paths of tensors that stand in LEFT with all that is around them."""
        if not isinstance(self.whole, remains.Zip):
            return set()

        def stands(name):
            record = self.whole.records[name]
            return self.data[record.header:record.end] in left
        if not stands("data.pkl"):
            return set()
        return {path for path, _, storages in remains.leaves(self.whole.object)
                if all(stands("data/" + storage.key) for storage in storages)}

    def judge(self, left, folder, _):
        cut, out = os.path.join(folder, "damaged.pt"), os.path.join(folder, "out.pt")
        with open(cut, "wb") as file:
            file.write(left)
        done = truncate.ckpt("repair", "--json", "--if-present", "--fill", "zeros", cut, out)
        if done.returncode not in (truncate.RECOVERED, truncate.PARTIAL, truncate.NOTHING):
            return "exit status %d: %s" % (done.returncode, done.stderr)
        untouched = self.untouched(left)
        if done.returncode == truncate.NOTHING:
            if os.path.exists(out):
                return "exit status 2, and there is an output"
            return "%d tensors are whole, and nothing was saved: %s" % (len(untouched), done.stderr) if untouched else None
        return self.judge_claims(out, json.loads(done.stdout), untouched)

    def judge_claims(self, out, said, untouched):
        told = collections.defaultdict(set)
        for finding in said["findings"]:
            told[finding["kind"]].add(finding.get("name"))
        lost = {path for path in untouched if ".".join(map(str, path)) in told["lost"]}
        if lost:
            return "%s were not touched, and are said to be lost" % sorted(lost)[:3]
        if said["proven"]:  # else the pickle may be anything
            wrong = self.judge_proven(out, told)
            if wrong:
                return wrong
        elif untouched and self.whole.checksums_on:
            return "%d tensors were not touched, and none is said to be proven" % len(untouched)
        verdict = truncate.ckpt("verify", out)
        if verdict.returncode == 1 or (verdict.returncode == 2 and not told["unproven"] and self.whole.checksums_on):
            return "verify of OUT: exit status %d: %s" % (verdict.returncode, verdict.stdout)
        return None

    def judge_proven(self, out, told):
        with open(out, "rb") as file:
            found = remains.read(file.read())
        wrong = remains.same(self.whole.object, found.object, lambda storage: b"", lambda storage: b"")
        now = {path: storages for path, _, storages in remains.leaves(found.object)}
        for path, _, storages in remains.leaves(self.whole.object):
            proven = not wrong and ".".join(map(str, path)) not in told["lost"] | told["unproven"]
            if proven and [self.whole.bytes[s.key] for s in storages] != [found.bytes[s.key] for s in now[path]]:
                return "%s is said to be proven, and has other bytes" % (path,)
        return wrong


def rounds_of(work, count, rng):
    kinds = [Kind(name, path) for name, path in truncate.kinds(work)]
    for kind in kinds:
        kind.whole.checksums_on = isinstance(kind.whole, remains.Zip) and kind.whole.records["data.pkl"].crc != 0
    for number, damage in enumerate(DAMAGES):
        share = count // len(DAMAGES) + (number < count % len(DAMAGES))
        hit = [(kind, damage(kind if damage is lined_up else kind.data, rng)) for kind in (rng.choice(kinds) for _ in range(share))]
        yield ("%-16s %4d files" % (damage.__name__, len(hit)),
               [(kind, left, None, "%s, %s" % (damage.__name__, kind.name)) for kind, left in hit])


if __name__ == "__main__":
    sys.exit(rounds.run("damage", 104, rounds_of, "files"))

# SPDX-License-Identifier: Apache-2.0
"""Archives one behind the other, as in data files of DCP directories, in whose numbers another archive lies: make(rng) -> bytes.

Who opens the whole file takes it for one archive, and goes by offsets from its beginning; who reads one of them by an index, by offsets from there.
"""

import struct

from assemble import BAD, GOOD, Member, stored, torch_zip, zip_of

END64, LOCATOR, END = b"PK\6\6", b"PK\6\7", b"PK\5\6"
LENGTH = 3200  # of numbers with something in them


def located(archive):
    """Where its zip64 record lies, and its locator says so."""
    return archive.rindex(END64)


def zip64_record(count, size, off, length=44):
    return END64 + struct.pack("<QHHIIQQQQ", length, 45, 45, 0, 0, count, count, size, off)


def directory(whole):
    """Of an archive without zip64: count, size, and where it begins."""
    return struct.unpack_from("<HII", whole, len(whole) - 12)


def small(pickle, numbers=b"", folder="archive", before=b""):
    """An archive without zip64, whose offsets count what lies before it."""
    return zip_of([Member(folder + "/data.pkl", pickle), Member(folder + "/data/0", numbers), Member(folder + "/version", b"3\n")], before=before)


def hides(pickle, start, end, behind, folder):
    """Numbers of a tensor that begin at START: an archive with PICKLE, whose offsets count from the beginning of the file, and whose directory ends at END, where BEHIND(count, size, offset) lies."""
    size = len(small(pickle, folder=folder)) - 22
    whole = small(pickle, folder=folder, before=bytes(end - size))
    return bytes(end - size - start) + whole[end - size : -22] + behind(*directory(whole))


def pointed(archive, place):
    """ARCHIVE, whose zip64 locator points to PLACE."""
    at = archive.rindex(LOCATOR)
    return archive[: at + 8] + struct.pack("<Q", place) + archive[at + 16 :]


def hiding(pickle, end, behind, front=b"", folder="a_longer_name"):
    """FRONT, and a checkpoint in whose numbers that is."""
    start = len(front) + stored(b"\xa5" * LENGTH).index(b"\xa5" * 64)
    data = hides(pickle, start, end, behind, folder)
    return front + stored(data + bytes(LENGTH - len(data)))


def short_end(count, size, off):
    return END + struct.pack("<HHHHIIH", 0, 0, count, count, size, off, 0)


def behind(rng, between):
    """What lies behind a hidden directory, where the last archive may point: BETWEEN bytes are from here to its own record."""
    return rng.choice([lambda *said: zip64_record(*said), lambda *said: zip64_record(*said, 44 + between), lambda *said: b"", short_end, lambda *said: short_end(*said) + b"PK\3\4"])


def item(rng):
    return rng.choice([torch_zip(GOOD), stored(b"\1" * rng.choice([8, 2000, LENGTH])), small(GOOD, bytes(2000))])


def make(rng):
    last = rng.choice([stored(bytes(2000)), stored(bytes(2000)), small(GOOD, bytes(2000))])
    place = located(last) if END64 in last else sum(directory(last)[1:])
    front = b"".join(item(rng) for _ in range(rng.choice([0, 0, 1])))
    length = len(front + stored(bytes(LENGTH)))
    folder = rng.choice(["archive", "a_longer_name"])
    if rng.random() < 0.3:
        row = [front, item(rng)]
    elif len(front) < 1000:
        row = [hiding(BAD, place + rng.choice([0] * 9 + [1, 20]), behind(rng, length), front, folder)]
    else:
        row = [front, stored(torch_zip(BAD) + bytes(LENGTH - len(torch_zip(BAD)))) if rng.random() < 0.2 else item(rng)]
    row += [item(rng)] * rng.choice([0, 0, 1])
    if rng.random() < 0.2:
        row = [pointed(one, rng.choice([0, place, place + 1, length])) if LOCATOR in one else one for one in row]
    row += [last] if rng.random() < 0.8 else []
    between = rng.choice([b""] * 6 + [bytes(40), b"\1", BAD])
    return between.join(one for one in row if one) + rng.choice([b""] * 9 + [bytes(30), b"\1"])

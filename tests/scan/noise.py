# SPDX-License-Identifier: Apache-2.0
"""Numbers are not programs: noise.py [STORAGES] [SEED]

Files of random weights are plain, and random bytes beside them are no pickles, though one in some thousands begins as a pickle could. Half of the
storages begin with an opcode that an unpickler could begin with.
"""

import io
import os
import random
import struct
import sys
import tarfile

import assemble
import scanned
files = assemble.files

OF_A_FILE = 500
OPENINGS = [b"\x80\x02", b"\x80\x04\x95", b"c", b"(", b"(c", b"]", b"}", b"N", b"\x82\x01", b"i", b"(i", b"X", b"\x8c", b"]q\x00", b"K\x00", b"S", b"V", b"I", b"L", b"F", b"P", b"G", b"M", b"J", b")", b"\x88"]


def noise(dice):
    kind, count = dice.randrange(4), dice.randrange(1, 120)
    if kind == 0:
        data = struct.pack("<%df" % count, *(dice.gauss(0, 1) for _ in range(count)))
    elif kind == 1:
        data = b"".join(struct.pack("<f", dice.gauss(0, 0.02))[2:] for _ in range(count))  # bfloat16
    elif kind == 2:
        data = struct.pack("<%dq" % count, *(dice.randrange(60000) for _ in range(count)))
    else:
        data = bytes(dice.randrange(256) for _ in range(4 * count))
    opening = dice.choice(OPENINGS) if dice.random() < 0.5 else b""
    return (opening + data)[: max(len(data), len(opening))]


def tensor(key, nbytes):
    storage = assemble.value("storage") + files.glob("torch", "ByteStorage") + assemble.value(key) + assemble.value("cpu") + b"J" + struct.pack("<i", nbytes)
    return files.glob("torch._utils", "_rebuild_tensor_v2") + b"((" + storage + b"tQK\x00(J" + struct.pack("<i", nbytes) + b"t(K\x01t\x89" + files.glob("collections", "OrderedDict") + b")RtR"


def checkpoint(blobs):
    pickle = assemble.proto(2, assemble.value({"w%d" % n: tensor(str(n), len(blob)) for n, blob in enumerate(blobs)}))
    return files.torch_file(pickle, data=blobs[0], extra=[("data/%d" % n, blob) for n, blob in enumerate(blobs) if n])


def is_tar(blob):
    """As torch.load asks it: one block of numbers in some thousands is a header for Python's tarfile."""
    try:
        tarfile.open(fileobj=io.BytesIO(blob), mode="r:").close()
    except (tarfile.TarError, ValueError):
        return False
    return len(blob) >= 512


def is_word(blob):
    """A few bytes behind an opcode that imports, which are letters: the unpickler in Python takes the end of a file for that of a line."""
    text = blob.lstrip(b"(]}N)\x88")
    try:
        return text[:1] in (b"c", b"i") and bool(text[1:-1].decode())
    except UnicodeDecodeError:
        return False


def main():
    storages = int(sys.argv[1]) if len(sys.argv) > 1 else 20000
    dice = random.Random(int(sys.argv[2]) if len(sys.argv) > 2 else 1)
    count = scanned.Count()
    harmless = set()
    with scanned.Folder("noise") as folder:
        for number in range(storages // OF_A_FILE):
            blobs = [noise(dice) for _ in range(OF_A_FILE)]
            with open(os.path.join(folder, "weights%d.pt" % number), "wb") as stream:
                stream.write(checkpoint(blobs))
            others = [blob for blob in blobs if blob[:1] != b"\x80" and not is_word(blob)][:50]  # with PROTO in front it would be one
            with open(os.path.join(folder, "parts%d.zip" % number), "wb") as stream:
                stream.write(assemble.zip_of([assemble.member("part%d" % n, blob) for n, blob in enumerate(others)]))
            tars = {"raw%d_%d.dat" % (number, n) for n, blob in enumerate(others) if is_tar(blob)}
            harmless |= tars | ({"parts%d.zip" % number} if tars else set())
            for n, blob in enumerate(others):
                with open(os.path.join(folder, "raw%d_%d.dat" % (number, n)), "wb") as stream:
                    stream.write(blob)
        _, found = scanned.scan(folder)
        for path, one in sorted(found.items()):
            name = os.path.basename(path)
            fine = one["verdict"] == "plain" or (name in harmless and one["verdict"] in ("inconsistent", "unreadable")) or (name.startswith("raw") and one["verdict"] == "unreadable")
            if name.startswith("parts") and one["findings"] and one["findings"][0]["kind"] == "amount":
                continue  # it is a program: an unpickler makes room for a value of a high number before it meets nonsense
            count.expect(fine, "%s, of random numbers, is %s: %s" % (name, one["verdict"], one["findings"][:2]))
        checkpoints = sum(os.path.basename(path).startswith("weights") for path in found)
        count.expect(checkpoints == storages // OF_A_FILE, "%d of %d checkpoints were looked at" % (checkpoints, storages // OF_A_FILE))
    count.end()


if __name__ == "__main__":
    main()

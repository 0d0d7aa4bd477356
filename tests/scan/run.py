# SPDX-License-Identifier: Apache-2.0
"""No hostile file is called plain by `ckpt scan`: those that hostile.py makes, and those of CKPT_REAL.

Nothing is unpickled here. Of bare pickles, and of those in sound archives, another judge says what they import (judge.py): the scan has to list it.
"""

import io
import json
import os
import resource
import struct
import subprocess
import sys
import tarfile
import zipfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "dcp"))
import dcp_build  # noqa: E402
import hostile  # noqa: E402
import judge  # noqa: E402
import large  # noqa: E402
import rows  # noqa: E402
import scanned  # noqa: E402

ORDER = ("plain", "needs-objects", "unreadable", "inconsistent", "dangerous")
ITEMS = 4000  # of a data file, few bytes each
HOSTILE_REAL = ("malicious", "bypass")
FIXTURES = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "fixtures", "ddp")


def pickles_of(one):
    """The pickles of a sample, where it is easy to tell: bare ones, and data.pkl of archives that torch_zip() made."""
    if not one.name.startswith(
        ("call_", "way_", "other_", "chain_", "name_", "end_", "first_", "frame_", "proto_", "nested_", "change_")
    ):
        return []
    if one.data[:4] == b"PK\3\4":
        return [zipfile.ZipFile(io.BytesIO(one.data)).read("archive/data.pkl")]
    if one.data[:2] == b"\x80\x02" and one.name.endswith(".bin"):  # a stream
        return []
    return [one.data]


def check_verdicts(count, found, samples, how):
    for path, one in samples.items():
        if path not in found and one.name.startswith("empty_") and how == "in a folder":
            continue  # of no kind, and so one of those that are counted only
        if path not in found:
            count.expect(False, "%s was passed over, %s (%s)" % (one.name, how, one.why))
            continue
        verdict = found[path]["verdict"]
        count.expect(
            verdict in one.wanted,
            "%s is %s, wanted %s, %s (%s)" % (one.name, verdict, " or ".join(sorted(one.wanted)), how, one.why),
        )


def check_imports(count, found, samples):
    for path, one in samples.items():
        for pickle in pickles_of(one):
            missing = scanned.left_out(found.get(path, {"globals": []}), judge.imports(pickle)[0])
            count.expect(not missing, "%s: the list of globals leaves out %s" % (one.name, ", ".join(sorted(missing))))


def check_hostile(count, folder):
    samples = hostile.write(folder)
    code, found = scanned.scan(folder)
    check_verdicts(count, found, samples, "in a folder")
    check_imports(count, found, samples)
    count.expect(code == scanned.FOUND, "the folder of hostile files has exit status %d" % code)
    count.expect(not set(found) - set(samples), "files that are not there: %s" % sorted(set(found) - set(samples))[:5])
    paths = sorted(samples)[:: 3 if os.environ.get("CKPT_SANITIZED") == "1" else 1]  # which takes a second for two hundred
    alone = {}
    for start in range(0, len(paths), 200):
        code, some = scanned.scan(*paths[start : start + 200])
        count.expect(code == scanned.worst_exit(some), "exit status %d of operands %d to %d" % (code, start, start + 200))
        alone.update(some)
    check_verdicts(count, alone, {path: samples[path] for path in paths}, "as an operand")
    for path in paths[::40]:
        code, one = scanned.scan(path)
        count.expect(
            code == scanned.worst_exit(one), "%s: exit status %d for %s" % (samples[path].name, code, one[path]["verdict"])
        )
    plain = [one.name for one in samples.values() if "plain" in one.wanted]
    print("%d hostile files, %d of them may be plain" % (len(samples), len(plain)))


def check_real(count, real):
    hostile_paths, others = [], []
    for folder, _, names in sorted(os.walk(real)):
        for name in sorted(names):
            if name != "INDEX.md":
                (hostile_paths if any(word in name for word in HOSTILE_REAL) else others).append(os.path.join(folder, name))
    code, found = scanned.scan(*hostile_paths)
    count.expect(code == scanned.FOUND, "the hostile real files have exit status %d" % code)
    for path in hostile_paths:
        count.expect(found[path]["verdict"] in ("dangerous", "inconsistent"), "%s is %s" % (path, found[path]["verdict"]))
    _, found = scanned.scan(*others)
    for path in others:
        count.expect(
            found[path]["verdict"] not in ("dangerous", "inconsistent"),
            "%s is %s: %s" % (path, found[path]["verdict"], found[path]["findings"][:2]),
        )
    print("%d hostile real files, %d others" % (len(hostile_paths), len(others)))


def verdicts_of(folder):
    """The worst of the data files, and of the index."""
    _, found = scanned.scan(folder)
    data = {one["verdict"] for path, one in found.items() if path.endswith(".distcp")}
    return max(data, key=ORDER.index), found[os.path.join(folder, ".metadata")]["verdict"]


def check_index_alone(count, path):
    """Who names the index means what it leads to: the verdict is no better than that of the folder."""
    _, of_folder = scanned.scan(path)
    _, alone = scanned.scan(os.path.join(path, ".metadata"))
    wanted = max((one["verdict"] for one in of_folder.values()), key=ORDER.index)
    found = [one["verdict"] for one in alone.values()]
    count.expect(found and ORDER.index(found[0]) >= ORDER.index(wanted), "%s is %s, its index alone %s" % (path, wanted, found))


def zstd_stored(data, block=1 << 17, empty=0):
    """A frame of raw blocks (RFC 8878), with as many EMPTY ones behind the first."""
    blocks = [data[at : at + block] for at in range(0, len(data), block)] or [b""]
    blocks[1:1] = [b""] * empty
    return b"\x28\xb5\x2f\xfd\xa0" + struct.pack("<I", len(data)) + b"".join(struct.pack("<I", (n == len(blocks) - 1) | len(one) << 3)[:3] + one for n, one in enumerate(blocks))


GOOD_ITEM = hostile.assemble.torch_zip(hostile.assemble.GOOD)
ZSTD_OF_A_CALL = zstd_stored(hostile.assemble.torch_zip(hostile.assemble.BAD))


def safetensors_of(data):
    header = json.dumps({"a": {"dtype": "U8", "shape": [len(data)], "data_offsets": [0, len(data)]}}).encode()
    return struct.pack("<Q", len(header)) + header + data


def check_dcp(count, folder):
    """Items are what lies one behind the other in data files: an index that points elsewhere makes a load read what nobody looked into."""
    evil = hostile.assemble.torch_zip(hostile.assemble.BAD)

    def made(name):
        directory = dcp_build.Directory(os.path.join(folder, name))
        directory.tensor("a", dcp_build.numbered("float32", (4, 4)))
        directory.value("b", {"x": 1})
        return directory.tensor("c", dcp_build.numbered("int64", (5,)))

    for padding in (0, 20):
        fine = made("fine%d" % padding)
        fine.padding = padding
        fine.write_data()
        path = os.path.join(fine.path, "__0_0.distcp")
        with open(path, "rb") as stream:
            data = stream.read().replace(b"\xaa" * 20, bytes(20))
        with open(path, "wb") as stream:
            stream.write(data)
        fine.write_index()
        for release in ("2.6", "1.13"):
            fine.write_index(dcp_build.Dialect(release=release))
            count.expect(verdicts_of(fine.path) == ("plain", "needs-objects"), "a sound directory of %s is %s" % (release, verdicts_of(fine.path)))
    for name in ("tensor", "overlap", "gap"):
        bad = made(name)
        hidden = hostile.hostile_readers.stored(b"\1\2\3\4" * 20000 + evil + b"\5\6\7" * 30000)  # in the middle of a tensor's bytes
        carrier = dcp_build.Item("b", None, None, "__0_0.distcp", hidden)
        victim = next(item for item in bad.items if item.key == "b")
        if name == "tensor":
            bad.items.append(carrier)
        bad.write_data()
        if name == "tensor":
            bad.items.remove(carrier)
            victim.offset, victim.length = carrier.offset + hidden.index(evil), len(evil)
        elif name == "overlap":
            victim.offset += 1
        else:
            victim.length -= 1
        bad.write_index()
        verdict = verdicts_of(bad.path)[1]
        count.expect(verdict in ("inconsistent", "dangerous"), "an index that points elsewhere (%s) is %s" % (name, verdict))
    for number, name in enumerate(("__0_0.distcp", "__1_0.distcp", "e.txt", ".hidden", "e", "below/e.bin", "e.json", "e.md",
                                  "e.safetensors", "below/e.safetensors", "e.npy", "e.metadata")):
        led = made("led%d" % number)
        carrier = dcp_build.Item("b", None, None, name, evil)
        led.items = [item for item in led.items if item.key != "b"] + [carrier]
        os.makedirs(os.path.dirname(os.path.join(led.path, name)), exist_ok=True)
        led.write_data()
        led.write_index()
        _, alone = scanned.scan(os.path.join(led.path, ".metadata"))
        count.expect([one["verdict"] for one in alone.values()] == ["dangerous"], "an index that leads to a call in %s is %s" % (name, alone))
    for number, (text, name) in enumerate(((b"a\xed\xb2\x80.txt", b"a\x80.txt"), (b"a\xed\xb3\xbf.txt", b"a\xff.txt"))):       # as Python opens it
        led = made("byte%d" % number)
        led.items = [item for item in led.items if item.key != "b"] + [dcp_build.Item("b", None, None, "a@@@.txt", b"# Read me\nThis is text. " + hostile.assemble.BAD)]
        led.write_data()
        led.write_index()
        at = os.fsencode(led.path) + b"/"
        os.rename(at + b"a@@@.txt", at + name)
        with open(at + b".metadata", "r+b") as stream:
            data = stream.read()
            stream.seek(0)
            stream.write(data.replace(b"a@@@.txt", text))
        _, found = scanned.scan(led.path)
        count.expect("inconsistent" in [one["verdict"] for one in found.values()], "an index that leads to a call in %r is %s" % (name, found))
    ordered, default = dcp_build.Global("collections", "OrderedDict"), dcp_build.Global("collections", "defaultdict")

    def chained(items):
        """An object that takes items, and has others by its state."""
        made_of = dcp_build.Call(dcp_build.Global("typing_extensions", "ChainMap"), state={"maps": [items]})
        return made_of

    calls = {"ordered_tuple": lambda items: dcp_build.Call(ordered, tuple(items.items())), "ordered_dict": lambda items: dcp_build.Call(ordered, items),
             "default_list": lambda items: dcp_build.Call(default, None, [list(pair) for pair in items.items()]), "default_tuple": lambda items: dcp_build.Call(default, None, tuple(items.items())),
             "default_dict": lambda items: dcp_build.Call(default, None, items), "object": lambda items: chained(items), "object_empty": lambda items: chained({}), "with_state": lambda items: dcp_build.Call(ordered, state={"items": 1}), "default_class": lambda items: dcp_build.Call(default, dcp_build.Global("torch.distributed.checkpoint.metadata", "BytesStorageMetadata"))}
    for name in ["/", "/.", "//./", "/./", "/.//"] + sorted(calls):
        named = made("named_%s" % name.replace("/", "s").replace(".", "d"))
        hidden = hostile.hostile_readers.stored(b"\1\2\3\4" * 20000 + evil + b"\5\6\7" * 30000)
        carrier = dcp_build.Item("b", None, None, "__0_0.distcp", hidden)
        named.items.append(carrier)
        named.write_data()
        named.items.remove(carrier)
        victim = next(item for item in named.items if item.key == "b")
        victim.offset, victim.length = carrier.offset + hidden.index(evil), len(evil)
        if name in calls:
            named.made_by = calls[name]
        else:
            victim.file += name
        named.write_index()
        verdict = verdicts_of(named.path)[1]
        count.expect(verdict in ("inconsistent", "dangerous", "unreadable"), "an index with '%s' is %s" % (name, verdict))
    for name, transforms, data in (("zstd", ["stream.zstd/1"], ZSTD_OF_A_CALL), ("zstd_tuple", ("stream.zstd/1",), ZSTD_OF_A_CALL), ("zstd_list_of_two", ["stream.zstd/1", "stream.zstd/1"], ZSTD_OF_A_CALL),
                                   ("other", ["stream.other/1"], evil)):
        packed = made("packed_%s" % name)
        packed.items = [item for item in packed.items if item.key != "b"] + [dcp_build.Item("b", None, None, "__0_0.distcp", data)]
        packed.items[-1].transforms = transforms
        packed.write_data()
        packed.write_index()
        verdict = verdicts_of(packed.path)[1]
        count.expect(verdict in ("dangerous", "inconsistent", "unreadable"), "an index with a packed item (%s) is %s" % (name, verdict))
    packed = made("packed_fine")  # as torch writes them, all items packed, one behind the other
    for n in range(30):
        packed.value("more.%d" % n, n)
    for item in packed.items:
        item.transforms = ["stream.zstd/1"]
        item.data = zstd_stored(item.data, 10)  # as compressed bytes, in which no archive can be seen
        item.length = len(item.data)
    packed.write_data()
    packed.write_index()
    for operand in (packed.path, os.path.join(packed.path, ".metadata")):
        _, found = scanned.scan(operand)
        count.expect({one["verdict"] for one in found.values()} <= {"plain", "needs-objects"}, "packed items are %s" % found)
    # torch 2.14 with pyzstd takes 134 KiB of which nothing comes for the end of an item
    skipped = [b"\x50\x2a\x4d\x18" + struct.pack("<I", size) + bytes(size) for size in (100000, 300000)]
    good = hostile.assemble.torch_zip(hostile.assemble.GOOD)
    # ... and that of as many packed bytes, if what came of them fills up what Python reads at a time, and is an archive
    first = next(one for one in (rows.small(good, b"\1" * n) for n in range(7000, 16000)) if len(one) % 8192 == 0)
    packed = zstd_stored(first, 10)
    aligned = [packed + b"\x50\x2a\x4d\x18" + struct.pack("<I", size) + bytes(size) + zstd_stored(good, 10) for size in (137216 - len(packed) - 8, 137216 - len(packed) - 24)]
    for name, data, wanted in (("aligned", aligned[0], {"unreadable"}), ("not_aligned", aligned[1], {"inconsistent"}), ("few", zstd_stored(good, 10, 40000), {"plain", "needs-objects"}), ("many", zstd_stored(good, 10, 50000), {"unreadable"}), ("skipped_few", zstd_stored(good[:400], 10) + skipped[0] + zstd_stored(good[400:], 10), {"plain", "needs-objects"}),
                               ("skipped", zstd_stored(good[:400], 10) + skipped[1] + zstd_stored(good[400:], 10), {"unreadable"}), ("skipped_often", zstd_stored(good[:400], 10) + skipped[0] * 2 + zstd_stored(good[400:], 10), {"unreadable"})):
        silent = made("silent_%s" % name)
        silent.items = [dcp_build.Item("b", None, None, "__0_0.distcp", data)]
        silent.items[0].transforms = ["stream.zstd/1"]
        silent.write_data()
        silent.write_index()
        _, found = scanned.scan(os.path.join(silent.path, ".metadata"))
        count.expect({one["verdict"] for one in found.values()} <= wanted, "a packed item with nothing in it for a while (%s) is %s" % (name, [one["verdict"] for one in found.values()]))
    for name in ("e.safetensors", "e.bin", "e"):
        data = b"\1" * 64 + evil + b"\1" * 200000
        numbers = made("numbers_%s" % name.replace(".", "_"))
        numbers.items = [item for item in numbers.items if item.key != "b"]
        numbers.write_data()
        with open(os.path.join(numbers.path, name), "wb") as stream:
            stream.write(safetensors_of(data))
        inside = dcp_build.Item("b", None, None, name, data)
        inside.offset, inside.length = safetensors_of(data).index(evil), len(evil)
        numbers.items.append(inside)
        numbers.write_index()
        verdict = verdicts_of(numbers.path)[1]
        count.expect(verdict in ("inconsistent", "dangerous"), "an index that points into numbers of %s is %s" % (name, verdict))
        inside.offset, inside.length = len(safetensors_of(data)) - 100000, 100000
        for other in ("x", "y"):  # the same bytes twice, and once more
            numbers.value(other, 1)
            again = next(item for item in numbers.items if item.key == other)
            again.file, again.offset, again.length = name, inside.offset, inside.length
        numbers.write_index()
        verdict = verdicts_of(numbers.path)[1]
        count.expect(verdict == "inconsistent", "an index that means the same numbers of %s three times is %s" % (name, verdict))
    for name in ("__0_0.safetensors", "__0_0.distcp"):
        plain = made("numbers_alone_%s" % name[-4:])  # as FileSystemWriter(serialization_format=SAFETENSORS) writes them
        plain.items = [item for item in plain.items if item.key != "b"]
        del plain.entries["b"]
        data = b"".join(bytes(range(item.length % 251)) * 3 for item in plain.items)
        with open(os.path.join(plain.path, name), "wb") as stream:
            stream.write(safetensors_of(data))
        start, step = len(safetensors_of(data)) - len(data), len(data) // len(plain.items)
        for number, item in enumerate(plain.items):
            item.file, item.offset, item.length = name, start + number * step, step
        plain.write_index()
        _, found = scanned.scan(plain.path)
        count.expect({one["verdict"] for one in found.values()} == {"plain", "needs-objects"}, "numbers as safetensors are %s" % found)
    for count_of_names, wanted in ((2, "needs-objects"), (300, "unreadable")):
        many = made("names%d" % count_of_names)
        many.write_data()
        os.makedirs(os.path.join(many.path, "s"))
        os.rename(os.path.join(many.path, "__0_0.distcp"), os.path.join(many.path, "s", "__0_0.distcp"))
        for one in many.items:
            one.file = "s/__0_0.distcp"
        for number in range(count_of_names):  # one file, under as many names
            many.value("n%d" % number, 1)
            many.items[-1].file = "s" + "/" * (number + 2) + "__0_0.distcp"
            many.items[-1].offset, many.items[-1].length = many.items[0].offset, many.items[0].length
        many.write_index()
        verdicts = verdicts_of(many.path)
        count.expect(verdicts[1] == wanted, "a data file under %d names is %s" % (count_of_names, verdicts))
    for name, meta in (("class", dcp_build.Global("torch.nn", "Module")), ("logger", dcp_build.Call(dcp_build.Global("logging", "getLogger"), "x")), ("object", dcp_build.Object(dcp_build.Global("a.b", "C"), {}))):
        attribute = made("storage_meta_%s" % name)
        attribute.write_data()
        attribute.foreign = {"storage_meta": meta}
        attribute.write_index()
        verdicts = verdicts_of(attribute.path)
        count.expect(verdicts[1] in ("unreadable", "dangerous"), "an index whose storage_meta is a %s is %s" % (name, verdicts))
    ranked = made("ranked")
    ranked.write_data()
    ranked.write_index(name="__0.metadata")
    write_all(ranked.path, {".metadata": b"\x80\x02N."})
    twice = made("twice")
    twice.write_data()
    other = dcp_build.Item("b", None, (0,), "__0_0.distcp", b"")
    victim = next(item for item in twice.items if item.key == "b")
    other.offset, other.length = victim.offset, victim.length
    twice.items.append(other)
    victim.offset += 1
    twice.write_index()
    for one, why in ((ranked, "with one of a rank beside it"), (twice, "that says an item twice")):
        _, alone = scanned.scan(os.path.join(one.path, ".metadata"))
        count.expect([found["verdict"] for found in alone.values()][0] in ("unreadable", "inconsistent"), "an index %s is %s" % (why, alone))
    lost = made("lost")
    lost.write_data()
    next(item for item in lost.items if item.key == "b").file = "../__0_0.distcp"
    lost.write_index()
    count.expect(verdicts_of(lost.path)[1] == "unreadable", "an index whose items cannot be found is %s" % (verdicts_of(lost.path),))
    for name in sorted(os.listdir(folder)):
        check_index_alone(count, os.path.join(folder, name))


def check_items_read_on(count, folder):
    """torch 1.13 to 2.3 unpickle an item that is no archive from where it begins, and read on behind its end."""
    call = hostile.assemble.SYSTEM_CALL + b"."
    stream = hostile.assemble.legacy(body=hostile.assemble.BAD)
    magic = len(hostile.assemble.MAGIC)
    skipped = b"\x55\x2a\x4d\x18" + struct.pack("<I", 36 + len(call)) + bytes(36) + call + zstd_stored(GOOD_ITEM)
    # bytes, of which so many are the item; what unpacks it; in numbers of safetensors, where all items are such
    cases = {"empty": (call, 0), "empty_later": (b"N0" * 5000 + call, 0), "empty_proto": (b"\x80\x02" + call, 0), "stream": (stream, 0), "letter": (call, 1, None, True), "signature": (b"\x80\x02" + call, 2, None, True),
             "text": (b"X\0\x20\0\0" + b"a" * 0x2000 + b"0" + call, 8, None, True), "line": (b"V" + b"a" * 9000 + b"\n0" + call, 4, None, True), "first_of_stream": (stream, magic, None, True), "magic": (stream, magic + 3, None, True), "whole_stream": (hostile.assemble.legacy(), len(hostile.assemble.legacy()), None, True),
             "long": (b"N0" * 5000 + call, 10000, None, True), "packed": (skipped, len(skipped), ["stream.zstd/1"]), "packed_empty": (b"c" + call, 0, ["stream.zstd/1"])}
    tar = hostile.assemble.tar_of(hostile.assemble.old_tar(pickle=hostile.assemble.BAD))
    for length in (0, 1, 4, 17, 512, 1024, 1536, len(tar)):
        cases["tar_%d" % length] = (tar, length, None, length > 0)
    for name, case in cases.items():
        data, length, transforms, in_safetensors = (*case, None, False)[:4]
        made = dcp_build.Directory(os.path.join(folder, name))
        made.tensor("a", dcp_build.numbered("float32", (4, 4)))
        made.value("b", 1)
        item = made.items.pop()
        if in_safetensors:
            item.file, item.offset = "n.safetensors", len(safetensors_of(data)) - len(data)
            write_all(made.path, {"n.safetensors": safetensors_of(data + bytes(64))})
        elif transforms:
            item.file, item.offset = "p.distcp", len(zstd_stored(GOOD_ITEM))
            write_all(made.path, {"p.distcp": zstd_stored(GOOD_ITEM) + data})
        else:
            item.data = hostile.hostile_readers.stored(data)
            made.items.append(item)
        made.write_data()
        if item in made.items:
            item.offset += item.data.index(data)
        else:
            made.items.append(item)
        item.length, item.transforms = length, transforms
        made.write_index()
        verdict = verdicts_of(made.path)[1]
        count.expect(verdict in ("inconsistent", "dangerous"), "an item behind whose end a pickle goes on (%s) is %s" % (name, verdict))
    counters = dcp_build.Directory(os.path.join(folder, "counters"))
    data = b"".join(struct.pack("<q", n) + struct.pack("<8f", *(0.37 * k - n for k in range(8))) for n in range(256) if n != ord("V"))
    for number in range(len(data) // 40):
        counters.tensor("n%d" % number, dcp_build.numbered("int64", (1,)))
        item = counters.items[-1]
        item.file, item.offset, item.length = "n.safetensors", len(safetensors_of(data)) - len(data) + 40 * number, 8
    write_all(counters.path, {"n.safetensors": safetensors_of(data)})
    counters.write_index()
    _, found = scanned.scan(counters.path)
    count.expect({one["verdict"] for one in found.values()} == {"plain", "needs-objects"}, "counters as numbers are %s" % found)


def check_long_row(count, folder):
    """Thousands of items, zeros between them: one after the other, not one in the other; and an index of which each item is odd."""
    item = hostile.assemble.torch_zip(hostile.assemble.GOOD)
    for name, padding, shift in (("row", 50, 0), ("odd", 0, 1)):
        row = dcp_build.Directory(os.path.join(folder, name))
        with open(os.path.join(row.path, "__0_0.distcp"), "wb") as stream:
            stream.write((item + bytes(padding)) * ITEMS)
        for number in range(ITEMS):
            row.value("k%d" % number, None)
            row.items[-1].offset, row.items[-1].length = number * (len(item) + padding) + shift, len(item) - shift
        row.write_index()
        _, found = scanned.scan(row.path)
        verdicts = {os.path.basename(path): one["verdict"] for path, one in found.items()}
        wanted = {"__0_0.distcp": "plain", ".metadata": "inconsistent" if shift else "needs-objects"}
        count.expect(verdicts == wanted, "a long row (%s) is %s" % (name, verdicts))


def check_long_tar(count, folder):
    """More members than are looked into are said to be that, and nothing else."""
    path = os.path.join(folder, "long.tar")
    with open(path, "wb") as stream:
        stream.write(hostile.hostile_readers.tar_header("./x") * 100001 + bytes(1024))
    _, found = scanned.scan(path)
    said = [(one["verdict"], one["text"]) for one in found[path]["findings"]]
    count.expect(said == [("unreadable", "more than 100000 members: the others are not looked into")], "a long tar is %s" % said)


def write_all(folder, files):
    for name, data in files.items():
        path = os.path.join(folder, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "wb") as stream:
            stream.write(data)


def check_packages(count, folder):
    """A folder that torch.package.PackageImporter takes for a package is judged as one."""
    assemble = hostile.assemble
    plain, own = assemble.proto(2, b"}"), assemble.proto(2, b"cmod\nC\n)\x81")
    storage = assemble.proto(2, assemble.value({"w": assemble.files.tensor()}))
    mark, source = {".data/extern_modules": b""}, {"mod/__init__.py": b"class C:\n    pass\n"}
    for name, files, wanted in (
        ("sources", {**mark, **source, "model/model.pkl": own}, {"mod/__init__.py": "dangerous", "model/model.pkl": "needs-objects"}),
        ("parts", {".data/extern_modules": b"." * 70000, "model/model.pkl": plain}, {".data/extern_modules": "unreadable", "model/model.pkl": "plain"}),
        ("lines", {".data/extern_modules": b"os\ntorch.nn\n" * 300, "model/model.pkl": plain}, {"model/model.pkl": "plain"}),
        ("there", {".data/extern_modules": b"torch\nthis\n", "this/.o.pkl": plain}, {".data/extern_modules": "inconsistent", "this/.o.pkl": "plain"}),
        ("there[1]", {".data/extern_modules": b"this.that", "this/that/o.pkl": plain}, {".data/extern_modules": "inconsistent", "this/that/o.pkl": "plain"}),
        ("beside", {".data/extern_modules": b"this.that\nmodel\n\nno..thing", "this/model/o.pkl": plain}, {"this/model/o.pkl": "plain"}),
        ("names", {".data/extern_modules": b"collections\ntorch._utils\n", "model/model.pkl": plain}, {"model/model.pkl": "plain"}),
        ("program", {".data/extern_modules": b"cos\nsymlink\ncoptparse\nNO_DEFAULT\nR.\n", "model/model.pkl": plain}, {".data/extern_modules": "dangerous", "model/model.pkl": "plain"}),
        ("program_in_name", {".data/extern_modules": b"cos\nsymlink\ncoptparse\nNO_DEFAULT\nR.x\n", "model/model.pkl": plain}, {".data/extern_modules": "dangerous", "model/model.pkl": "plain"}),
        ("memo", {".data/extern_modules": b"cos\nsymlink\nqA0coptparse\nNO_DEFAULT\nqB0hAhBR.x", "model/model.pkl": plain}, {".data/extern_modules": "dangerous", "model/model.pkl": "plain"}),
        ("state", {".data/extern_modules": b"cfoo\nbar\ncfoo\nstate\nb.x", "model/model.pkl": plain}, {".data/extern_modules": "dangerous", "model/model.pkl": "plain"}),
        ("opcodes", {".data/extern_modules": b"cos\nsystem\n(S'true'\ntR.", "model/model.pkl": plain}, {".data/extern_modules": "dangerous", "model/model.pkl": "plain"}),
        ("of_1_8", {"extern_modules": b"os\n", "torch/__init__.py": b"", "model/model.pkl": plain}, {"torch/__init__.py": "dangerous", "model/model.pkl": "plain"}),
        ("of_1_8_below", {"a/extern_modules": b"os\n", "a/torch/__init__.py": b"", "model/model.pkl": plain}, {"a/torch/__init__.py": "dangerous", "model/model.pkl": "plain"}),
        ("of_1_8_there", {"extern_modules": b"this\n", "this/o.pkl": plain}, {"extern_modules": "inconsistent", "this/o.pkl": "plain"}),
        ("of_1_8_program", {"extern_modules": b"cos\nsymlink\ncoptparse\nNO_DEFAULT\nR.\n", "model/model.pkl": plain}, {"extern_modules": "dangerous", "model/model.pkl": "plain"}),
        ("of_1_8_storage", {"extern_modules": b"os\n", "model/model.pkl": storage, "data/0": assemble.files.FOUR_FLOATS}, {"model/model.pkl": "unreadable"}),
        ("inside", {**mark, ".data/q/.data/extern_modules": b"", ".data/q/collections/__init__.py": b"", ".data/q/m/o.pkl": plain}, {".data/q/collections/__init__.py": "dangerous", ".data/q/m/o.pkl": "plain"}),
        ("inside_1_8", {**mark, ".data/x/y/extern_modules": b"", ".data/x/y/collections/__init__.py": b"", "o.pkl": plain}, {".data/x/y/collections/__init__.py": "dangerous", "o.pkl": "plain"}),
        ("data_inside", {**mark, ".data/.data/extern_modules": b"", ".data/collections/__init__.py": b"", "o.pkl": plain}, {".data/collections/__init__.py": "dangerous", "o.pkl": "plain"}),
        ("data_deep", {**mark, ".data/.data/.data/extern_modules": b"", ".data/.data/a.py": b"", ".data/ts_code/code/x.py": b"", "o.pkl": plain}, {".data/.data/a.py": "dangerous", "o.pkl": "plain"}),
        ("upper", {**mark, "mod.PY": b"", "model/model.pkl": plain}, {"mod.PY": "dangerous", "model/model.pkl": "plain"}),
        ("data", {**mark, "model/model.pkl": plain}, {"model/model.pkl": "plain"}),
        ("storage", {**mark, "model/model.pkl": storage, ".data/0.storage": assemble.files.FOUR_FLOATS}, {"model/model.pkl": "unreadable"}),
        ("below", {"a/b/" + path: data for path, data in {**mark, **source}.items()}, {"a/b/mod/__init__.py": "dangerous"}),
        ("script", {**mark, ".data/ts_code/code/x.py": b"", "p.pkl": plain}, {"p.pkl": "plain"}),
        ("none", {**source, ".data/python_version": b"3.11", "model/model.pkl": own}, {"model/model.pkl": "needs-objects"}),
    ):
        path = os.path.join(folder, name)
        write_all(path, files)
        for operand in (path, path + "//"):
            _, found = scanned.scan(operand)
            told = {os.path.relpath(p, path): one["verdict"] for p, one in found.items()}
            count.expect(told == wanted, "an unpacked package (%s) is %s" % (name, told))
    linked = os.path.join(folder, "linked")
    os.mkdir(linked)
    for name in (".data", "mod", "model"):
        os.symlink(os.path.join("..", "sources", name), os.path.join(linked, name))
    for operand in (linked, folder):
        _, found = scanned.scan(operand)
        verdicts = {one["verdict"] for path, one in found.items() if path.startswith(linked)}
        count.expect(verdicts == {"unreadable"}, "a package of links is %s" % verdicts)


def check_hf_index(count, folder):
    """An index of Hugging Face that leads out of its folder: what is beside it says nothing of what a load opens."""
    plain = hostile.assemble.torch_zip(hostile.assemble.GOOD)
    for number, (text, wanted) in enumerate((
        ('{"metadata": {"path": "/a/b"}, "weight_map": {"a": "m.bin", "b": "sub/n..bin"}}', None),
        ('{"metadata": {}, "weight_map": {"a": "m.bin", "b": "../m.bin"}}', "inconsistent"),
        ('{"weight_map": {"a": "/m.bin"}}', "inconsistent"),
        ('{"weight_map": {"a": "sub/../../m.bin"}}', "inconsistent"),
        ('{"weight_map": {"a": "m.bin"}, "weight_map" : { "a" : "\\u002e\\u002e\\/m.bin"}}', "inconsistent"),
        ('{"weight\\u005fmap": {"a": "..\\\\m.bin"}}', "inconsistent"),
        ('{"weight_map": {"a": "C:\\\\m.bin"}}', "inconsistent"),
        ('{"weight_map": {"a": "%s"}}' % ("m" * 5000), "inconsistent"),
        ('{"weight_map": {"a": null, "b": "../m.bin"}}', "unreadable"),
        ('{"weight_map": {"a": "m.bin", "b": 3}}', "unreadable"),
        ('{"weight_map": {}}', None),
        ('{"a": "m.bin", "b": "../m.bin"}', "inconsistent"),
        ('{"a": "weight_map", "b": "../m.bin"}', "inconsistent"),
        ('{"a": "m.bin", "b": 3, "c": "../m.bin"}', None),
        ('{"path": "/a/b", "weight_map": {"a": "m.bin"}}', None),
    )):
        inside = os.path.join(folder, "hf%d" % number)
        os.mkdir(inside)
        index = "pytorch_model.bin.index.%sjson" % ("fp16." if number % 2 else "")
        for name, data in ((index, text.encode()), ("m.bin", plain)):
            with open(os.path.join(inside, name), "wb") as stream:
                stream.write(data)
        _, found = scanned.scan(inside)
        found = {os.path.relpath(path, inside): one["verdict"] for path, one in found.items()}
        count.expect(found == {"m.bin": "plain", **({index: wanted} if wanted else {})}, "an index %s gives %s" % (text[:80], found))


def check_latest(count, folder):
    """DeepSpeed loads the folder that is named in a file called "latest"."""
    plain = hostile.assemble.torch_zip(hostile.assemble.GOOD)
    for number, (text, wanted) in enumerate((("global_step100", None), ("a/b\n", None), ("", None), (" \n", None), ("../global_step1", "inconsistent"), ("/tmp/global_step1", "inconsistent"), ("\n a/../../b \n", "inconsistent"),
                                             ("..\\b", "inconsistent"), ("C:\\b", "inconsistent"), ("..", "inconsistent"), ("the latest news\n../b\n", None), ("x\n/../../b", "inconsistent"),
                                             # blanks that str.strip() takes off, and others
                                             ("\u00a0../b", "inconsistent"), ("\x1c../b", "inconsistent"), ("\x1f/etc", "inconsistent"), ("\u2028../b\u3000", "inconsistent"), ("\u3000/etc", "inconsistent"), ("\x85../b", "inconsistent"), ("..\u00a0", "inconsistent"),
                                             ("\u1680\u205f..", "inconsistent"), (" " * 70000 + "../b", "inconsistent"), ("\ufeff../b", None), ("\u200b..", None), ("step\u00a0", None), (" " * (1 << 20) + "..", "unreadable"))):
        for name in ("latest", "latest_universal", "latest.txt"):
            inside = os.path.join(folder, "latest%d_%s" % (number, name))
            os.makedirs(os.path.join(inside, "global_step100"))
            for path, data in ((name, text.encode()), ("global_step100/mp_rank_00_model_states.pt", plain)):
                with open(os.path.join(inside, path), "wb") as stream:
                    stream.write(data)
            _, found = scanned.scan(inside)
            found = {os.path.relpath(path, inside): one["verdict"] for path, one in found.items()}
            about = {name: wanted} if wanted and name != "latest.txt" else {}
            count.expect(found == {"global_step100/mp_rank_00_model_states.pt": "plain", **about}, "%s with %r gives %s" % (name, text, found))


def zip_of_many(prefix, most):
    """(archive, bytes of its directory): MOST empty records."""
    records, directory = bytearray(), bytearray()
    for number in range(most):
        name = b"%s%x" % (prefix, number)
        directory += struct.pack("<IHHHHHHIIIHHHHHII", 0x02014B50, 20, 20, 0, 0, 0, 0, 0, 0, 0, len(name), 0, 0, 0, 0, 0, len(records)) + name
        records += struct.pack("<IHHHHHIIIHH", 0x04034B50, 20, 0, 0, 0, 0, 0, 0, 0, len(name), 0) + name
    wide = struct.pack("<IQHHIIQQQQ", 0x06064B50, 44, 45, 45, 0, 0, most, most, len(directory), len(records)) + struct.pack("<IIQI", 0x07064B50, 0, len(records) + len(directory), 1)
    return bytes(records + directory) + wide + struct.pack("<IHHHHIIH", 0x06054B50, 0, 0, 0xFFFF, 0xFFFF, len(directory), len(records), 0), len(directory)


def memory_of(path):
    """Of a scan, in bytes; and the verdict."""
    # by a process that is small itself, for what it forks begins with its memory
    of_child = "import resource, subprocess, sys; subprocess.run(sys.argv[1:]); print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)"
    done = subprocess.run([sys.executable, "-c", of_child, scanned.CKPT, "scan", path], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, encoding="utf-8", check=True)
    lines = done.stdout.splitlines()
    return int(lines[-1]) << 10, lines[0].split(": ")[1]


def check_memory(count, folder):
    """docs/scan.md: 64 MiB, 32 bytes for each of a pickle, 4 for each of a directory."""
    short, long_ = zip_of_many(b"", 1000000), zip_of_many(b"n" * 40, 200000)
    inner = io.BytesIO()
    with zipfile.ZipFile(inner, "w") as outer:
        outer.writestr("x" * 200, long_[0])
    names = hostile.assemble.proto(2, hostile.assemble.files.glob("collections", "OrderedDict") + b"0" + b"ccollections\nOrderedDict\n0" * 40000 + b"N")
    named = io.BytesIO()
    with zipfile.ZipFile(named, "w") as outer:
        outer.writestr("x" * 250 + ".pkl", names)
        outer.writestr("numbers", bytes(100 << 20))
    package, most = io.BytesIO(), 100000
    with zipfile.ZipFile(package, "w") as outer:
        for name, data in [(".data/extern_modules", b""), (".data/version", b"6\n")] + [("m/m%d.pkl" % n, b"\x80\x02].") for n in range(most)]:
            outer.writestr("a/" + name, data)
    for name, data, directory, pickle, wanted in (("short", short[0], short[1], 0, "plain"), ("package", package.getvalue(), (46 + 9) * most, 4 * most, "plain"), ("inside", inner.getvalue(), long_[1], 0, "plain"), ("names", named.getvalue(), 0, len(names), "plain")):
        path = os.path.join(folder, "memory_%s.zip" % name)
        with open(path, "wb") as stream:
            stream.write(data)
        most = (64 << 20) + 4 * directory + 32 * pickle
        memory, verdict = memory_of(path)
        count.expect(memory <= most and verdict == wanted, "%s is %s, and takes %d bytes, the bound is %d" % (name, verdict, memory, most))
        print("%s: %.1f MiB of at most %.1f" % (name, memory / 1048576, most / 1048576))
        os.unlink(path)
    # objects in each other, whose tables grow by doubling; and a packed list, which counts with 24 times its packed size
    for many in (400000, 700000, 750000, 800000, 1500000):
        data = hostile.assemble.proto(4, b"cbuiltins\nValueError\nq\0" + b"h\0" * many + b"N" + b"\x85R" * many)
        path = os.path.join(folder, "memory_nested.pkl")
        with open(path, "wb") as stream:
            stream.write(data)
        memory, verdict = memory_of(path)
        most = (64 << 20) + 32 * len(data)
        count.expect(memory <= most and verdict == "unreadable", "%d exceptions in each other are %s, and take %d bytes, the bound is %d" % (many, verdict, memory, most))
        print("nested %d: %.1f MiB of at most %.1f" % (many, memory / 1048576, most / 1048576))
        os.unlink(path)
    for many in (2000000, 2400000, 2700000, 3000000, 3200000):
        path = os.path.join(folder, "memory_packed.pt")
        with zipfile.ZipFile(path, "w") as outer:
            outer.writestr("a/data.pkl", hostile.assemble.proto(2, b"](" + b")" * many + b"e"), zipfile.ZIP_DEFLATED)
            outer.writestr("a/version", b"3\n")
        memory, verdict = memory_of(path)
        most = (64 << 20) + 32 * 24 * os.path.getsize(path)
        count.expect(memory <= most, "a packed list of %d is %s, and takes %d bytes, the bound is %d" % (many, verdict, memory, most))
        print("packed %d: %s, %.1f MiB of at most %.1f" % (many, verdict, memory / 1048576, most / 1048576))
        os.unlink(path)


def check_bombs(count, folder):
    """docs/scan.md: what is unpacked and looked at has a limit by the size of the file, however deep it is packed."""
    imports = {"called": b"(ia\nb\n" * 400000, "named": b"ca\nb\n" * 500000, "text": b"cabc\n" * 500000, "zeros": bytes(300000), "marks": b"(" * 2800000, "pickle": b"\x80\x02].", "pickles": b"\x80\x02}." * 700000}
    for name, leaf in imports.items():
        for widths in ((6, 6, 6), (8,) * 6) if name == "named" else ((6, 6, 6),):
            data = leaf
            for width in widths:
                outer = io.BytesIO()
                with zipfile.ZipFile(outer, "w", zipfile.ZIP_DEFLATED) as archive:
                    for n in range(width):
                        archive.writestr("a%d" % n, data)
                data = outer.getvalue()
            path = os.path.join(folder, "bomb_%s_%d_%d.zip" % (name, len(widths), widths[0]))
            with open(path, "wb") as stream:
                stream.write(data)
            before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
            memory, verdict = memory_of(path)
            took = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - before
            print("%s: %d bytes, %.2f s, %.1f MiB, %s" % (os.path.basename(path), len(data), took, memory / 1048576, verdict))
            count.expect(took <= 15, "%s takes %.1f s" % (path, took))
            count.expect(memory <= (64 << 20) + 32 * 24 * len(data), "%s takes %d bytes of memory" % (path, memory))
            count.expect(verdict != "plain" or name in ("pickle", "zeros"), "%s is %s" % (path, verdict))
            os.unlink(path)


def check_uses(count, folder):
    """A long name, text or object that is used again and again, which a few opcodes of the memo do: time by the size."""
    def text(data):
        return b"X" + struct.pack("<I", len(data)) + data

    def name(module, what):
        return b"c" + module + b"\n" + what + b"\n"

    long = text(b"a" * (1 << 18)) + b"q\x00"
    once = {"name": (name(b"foo", b"B" * (1 << 18)) + b"q\x00", b"h\x00)R"), "module": (name(b"B" * (1 << 18), b"foo") + b"q\x00", b"h\x00)\x81"),
            "key": (long, b"(h\x00Nh\x00Nd"), "key of a set": (b"\x8fq\x01" + long, b"(h\x00\x90h\x01"), "item": (long, b"}h\x00Ns"), "tuple": (long + b"\x85q\x01", b"}h\x01Ns"),
            "stack": (long, b"h\x00h\x00\x93"), "state": (name(b"foo", b"Bar") + b"q\x02" + long, b"h\x02)Rh\x00b"), "persistent id": (long + b"\x85q\x01", b"h\x01Q")}
    for module, what in ((b"datetime", b"datetime"), (b"fractions", b"Fraction"), (b"builtins", b"float"), (b"torch", b"device"), (b"numpy", b"dtype"), (b"torch.storage", b"_load_from_bytes"),
                         (b"foo", b"bar"), (b"builtins", b"KeyError")):
        once["%s.%s" % (module.decode(), what.decode())] = (long + name(module, what) + b"q\x01", b"h\x01h\x00\x85R")
    once["getattr"] = (long + name(b"foo", b"Bar") + b"q\x01" + name(b"builtins", b"getattr") + b"q\x02", b"h\x02h\x01h\x00\x86R")
    fields = b"(" + b"".join(text(b"f%d" % n) for n in range(20000)) + b"tq\x00"
    once["fields"] = (fields + name(b"numpy", b"dtype") + b"q\x01" + b"h\x01" + text(b"V8") + b"\x89\x88\x87R(K\x03" + text(b"|") + b"Nh\x00}K\x08K\x01K\x10tbq\x02" +
                      name(b"numpy.core.multiarray", b"scalar") + b"q\x03", b"h\x03h\x02C\x08abcdefgh\x86R")
    for what, (front, use) in once.items():
        path = os.path.join(folder, "uses.zip")
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr("data.pkl", b"\x80\x04" + front + (use + b"0") * (1 << 16) + b"N.")
        before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
        _, verdict = memory_of(path)
        took = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - before
        print("%s 65,536 times: %d bytes, %.2f s, %s" % (what, os.path.getsize(path), took, verdict))
        count.expect(took <= 8, "%s takes %.1f s" % (what, took))
        count.expect(verdict in ("unreadable", "dangerous", "inconsistent", "needs-objects"), "%s is %s" % (what, verdict))


def check_many_archives(count, folder):
    """Archives one behind the other, with bytes between them, or in a tar: time by their size, and no call for each."""
    small = hostile.assemble.zip_of([hostile.assemble.Member("a", b"")])
    behind_each_other = b"hello\n" + (small + b"x" * 60) * 3000
    in_a_tar = io.BytesIO()
    with tarfile.open(fileobj=in_a_tar, mode="w", format=tarfile.USTAR_FORMAT) as tar:
        for number in range(2000):
            about = tarfile.TarInfo("%d.zip" % number)
            about.size = len(small)
            tar.addfile(about, io.BytesIO(small))
    for name, data in (("row.dat", behind_each_other), ("row.zip", behind_each_other[6:]), ("zips.tar", in_a_tar.getvalue()), ("cut.tar", in_a_tar.getvalue().rstrip(b"\0"))):
        path = os.path.join(folder, name)
        with open(path, "wb") as stream:
            stream.write(data)
        before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
        _, verdict = memory_of(path)
        took = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - before
        print("%s: %d bytes, %.2f s, %s" % (name, len(data), took, verdict))
        count.expect(took <= 3, "%s takes %.1f s" % (name, took))
        count.expect(verdict in ("inconsistent", "unreadable"), "%s is %s" % (name, verdict))


def check_folder(count, folder):
    """What is in a folder beside files: links to files are followed, what cannot be looked at is said, nothing is waited for."""
    os.makedirs(os.path.join(folder, "a", "b"))
    outside = os.path.join(folder, "outside")
    os.mkdir(outside)
    inside = os.path.join(folder, "a")
    for name, data in (
        ("b/deep.pkl", hostile.assemble.BAD),
        ("text.md", b"# Just text\n"),
        ("config.json", b'{"a": 1}'),
        ("empty", b""),
    ):
        with open(os.path.join(inside, name), "wb") as stream:
            stream.write(data)
    with open(os.path.join(outside, "x.pkl"), "wb") as stream:
        stream.write(hostile.assemble.BAD)
    os.symlink(outside, os.path.join(inside, "link"))
    os.symlink(os.path.join(outside, "x.pkl"), os.path.join(inside, "link.pkl"))
    os.symlink("..", os.path.join(inside, "b", "loop"))
    os.symlink("nowhere", os.path.join(inside, "dangling"))
    os.mkfifo(os.path.join(inside, "fifo"))
    _, found = scanned.scan(inside)
    names = {os.path.relpath(path, inside) for path in found}
    count.expect(
        names >= {"b/deep.pkl", "link.pkl", "link", "fifo", "dangling"} and not names & {"text.md", "config.json", "link/x.pkl", "b/loop"},
        "a folder gives %s" % sorted(names),
    )
    code, found = scanned.scan(os.path.join(inside, "link.pkl"))
    count.expect(code == scanned.FOUND, "a symbolic link as an operand has exit status %d" % code)
    code, _, err = scanned.run("--json", os.path.join(inside, "nothing.pt"))
    count.expect(code == scanned.UNDECIDED and "nothing.pt" in err, "a file that is not there has exit status %d" % code)


def main():
    count = scanned.Count()
    if sys.argv[1:] == ["memory"]:
        if scanned.SANITIZED:
            print("skipped: time and memory are those of a build without sanitizers")
            sys.exit(77)
        with scanned.Folder("memory") as folder:
            check_memory(count, folder)
            check_bombs(count, folder)
            check_uses(count, folder)
            check_many_archives(count, folder)
        count.end()
    with scanned.Folder("hostile") as folder:
        check_hostile(count, folder)
    with scanned.Folder("folder") as folder:
        check_folder(count, folder)
        check_long_tar(count, folder)
        large.check(count, folder)
    with scanned.Folder("packages") as folder:
        check_packages(count, folder)
        check_latest(count, folder)
        check_hf_index(count, folder)
    with scanned.Folder("dcp") as folder:
        check_dcp(count, folder)
        check_items_read_on(count, os.path.join(folder, "read_on"))
        check_long_row(count, folder)
    _, found = scanned.scan(FIXTURES)
    for path, one in found.items():
        count.expect(one["verdict"] == "plain", "%s is %s" % (path, one["verdict"]))
    count.expect(len(found) == 4, "the folder of fixtures has %s" % sorted(found))
    if os.environ.get("CKPT_REAL"):
        check_real(count, os.environ["CKPT_REAL"])
    else:
        print("CKPT_REAL is not set: no hostile real files")
    count.end()


if __name__ == "__main__":
    main()

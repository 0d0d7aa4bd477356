# SPDX-License-Identifier: Apache-2.0
"""Files that loaders read in different ways: frames, end records, tables of torch 0.1, archives in the bytes of tensors."""

import io
import struct
import tarfile
import zipfile
import zlib

from assemble import (
    BAD,
    DIFFER,
    FACTS,
    GOOD,
    KEYS,
    LEGACY_BODY,
    MAGIC,
    Member,
    NOT_DECIDED,
    NO_KEYS,
    RUN,
    RUN_OR_DIFFER,
    STORED,
    SYSTEM_CALL,
    VERSION,
    end_of_zip,
    files,
    frame,
    legacy,
    member,
    members_with,
    npy,
    old_tar,
    proto,
    reduce_,
    safetensors_before,
    sample,
    stored,
    tar_of,
    torch_zip,
    value,
    zip_of,
)

NOT_PLAIN = RUN | DIFFER | NOT_DECIDED
FILLER = b"\0" * 40


def longer_frame(body, more):
    """A pickle of protocol 4 whose frame is MORE bytes longer than it."""
    return b"\x80\x04\x95" + struct.pack("<Q", len(body) + 1 + more) + body + b"."


def frames():
    sample("frame_in_stream_facts.pt", MAGIC + VERSION + longer_frame(value({"a": 1}), 40) + FILLER + BAD + b"", "the frame of the third pickle goes on over what is behind it", NOT_PLAIN)
    sample("frame_in_stream_body.pt", MAGIC + VERSION + FACTS + longer_frame(value({"a": 1}), len(NO_KEYS) + 60) + NO_KEYS + bytes(60) + BAD, "the frame of the object hides the list of keys", NOT_PLAIN)
    for more in (1, 12, 5000, 1 << 17, 1 << 20, 1 << 40):
        padding = bytes(min(more, 1 << 20))
        sample("frame_tensor_bytes_%d.pt" % more, MAGIC + VERSION + FACTS + longer_frame(LEGACY_BODY[2:-1], more) + KEYS + STORED + padding, "a frame that reaches into the bytes of tensors", NOT_PLAIN)
        sample("frame_bare_%d.pkl" % more, longer_frame(value([1, 2]), more) + padding, "a bare pickle with a frame that goes on", NOT_PLAIN)
        sample("frame_in_zip_%d.pt" % more, torch_zip(longer_frame(value([1, 2]), more)), "the same in an archive", NOT_PLAIN)
    body = value([1, 2, 3])
    sample("frame_in_frame.pkl", b"\x80\x04" + frame(b"N0" + frame(body)[:9] + body[:2]) + body[2:] + b".", "a frame in a frame", NOT_PLAIN)
    sample("frame_in_opcode.pkl", b"\x80\x04" + frame(b"\x8c\x05ab") + b"cde.", "a frame that ends in a text", NOT_PLAIN)
    sample("frame_fine.pkl", b"\x80\x04" + frame(b"](" + b"K\x01" * 50) + frame(b"K\x02e."), "two frames, as Python writes them", {"plain"})


def with_zip64(data, points_to=None, behind=b"", disks=1, length=44, disk=0):
    """An archive of torch with a zip64 end record, and a locator that POINTS_TO somewhere."""
    plain = zip_of(members_with(member("data.pkl", data)), end=b"")
    start = plain.index(b"PK\x01\x02")
    size, count = len(plain) - start, plain.count(b"PK\x01\x02")
    record = struct.pack("<IQHHIIQQQQ", 0x06064B50, length, 45, 45, 0, 0, count, count, size, start)
    at = len(plain) + len(behind) if points_to is None else points_to
    return plain + behind + record + struct.pack("<IIQI", 0x07064B50, disk, at, disks) + struct.pack("<IHHHHIIH", 0x06054B50, 0, 0, 0xFFFF, 0xFFFF, 0xFFFFFFFF, 0xFFFFFFFF, 0)


def locators():
    sample("zip64_fine.pt", with_zip64(GOOD), "a zip64 end record where it belongs", {"plain"})
    hidden = zip_of(members_with(member("data.pkl", BAD)), end=b"")
    start = hidden.index(b"PK\x01\x02")
    record = struct.pack("<IQHHIIQQQQ", 0x06064B50, 44, 45, 45, 0, 0, 3, 3, len(hidden) - start, start)
    sample("zip64_elsewhere.pt", hidden + record + with_zip64(GOOD, len(hidden)), "the locator points to another end record, with another directory", RUN_OR_DIFFER)
    fine = with_zip64(GOOD)
    for number, at in enumerate((0, 1, 0x1000, len(fine) - 22, (1 << 63) + 5, len(fine) + 100)):
        sample("zip64_points_%d.pt" % number, with_zip64(GOOD, at), "the locator points to 0x%x" % at, NOT_PLAIN)
    sample("zip64_disks.pt", with_zip64(GOOD, disks=2), "an archive on two disks", NOT_PLAIN)
    sample("zip64_disk.pt", with_zip64(GOOD, disk=1), "a directory on another disk", NOT_PLAIN)
    sample("zip64_length.pt", with_zip64(GOOD, length=100), "an end record of another length", NOT_PLAIN)
    sample("zip64_gap.pt", with_zip64(GOOD, behind=b"\0" * 56), "zeros between directory and end record", NOT_PLAIN)
    filler = value({"a": 1})
    directory = zip_of(members_with(member("data.pkl", GOOD)), end=b"")
    start = directory.index(b"PK\x01\x02")
    sample("directory_longer.pt", directory + filler + end_of_zip(3, len(directory) - start + len(filler), start), "bytes in the directory behind its last record", NOT_PLAIN)


def attributes():
    good = torch_zip(GOOD)
    for name, bits in (("folder", 0x10), ("folder_and_archive", 0x30), ("folder_of_unix", 0x41ED0010)):
        data = bytearray(good)
        at = data.index(b"PK\x01\x02")
        data[at + 38:at + 42] = struct.pack("<I", bits)
        sample("attribute_%s.pt" % name, bytes(data), "the pickle has the attribute of a folder: torch reads nothing, and takes what was in its memory", RUN_OR_DIFFER)
    data = bytearray(good)
    at = data.index(b"PK\x01\x02")
    data[at + 38:at + 42] = struct.pack("<I", 0x81A40020)
    sample("attribute_fine.pt", bytes(data), "attributes of a file", {"plain"})


def tails():
    """An archive at the end of something else, whose directory lies far in front of the end."""
    for name, front in {"stream": legacy(), "pickle": proto(2, value([1])), "text": b"# a text\n" * 20, "numbers": struct.pack("<f", 1.5) * 1000}.items():
        for extra, comment in ((0, 0), (60000, 0), (0, 65535), (65000, 65000), (65530, 65535)):
            field = struct.pack("<HH", 0x9999, extra - 4) + bytes(extra - 4) if extra else b""
            evil = zip_of([member("../__main__.py", b"import os\n", extra=field), member("data.pkl", BAD)][1 - (name != "stream"):], comment=b"c" * comment)
            evil = zip_of([member("__main__.py", b"print(1)\n", extra=field)], comment=b"c" * comment) if name == "stream" else evil
            sample("tail_%s_%d_%d.pt" % (name, extra, comment), front + evil, "an archive at its end, which `python FILE` and zipfile read", NOT_PLAIN)


def tables():
    """torch 0.1: what lies between the pickles of a table is numbers, as many as are said."""
    one = proto(2, b"K\x01")
    views = proto(2, b"]")
    described = proto(2, value((1, "cpu", files.glob("torch", "FloatStorage"))))
    numbers = struct.pack("<q", 2) + struct.pack("<2f", 1, 2)
    tensor = proto(2, value((10, 1, files.glob("torch", "FloatTensor")))) + struct.pack("<ii", 1, 0) + struct.pack("<qqq", 2, 1, 0)
    sample("table_fine.pt", tar_of(old_tar(storages=one + described + numbers + views, tensors=one + tensor)), "a file of torch 0.1", {"plain"})
    for number, bad in enumerate((b"c" + SYSTEM_CALL[1:] + b".", b"(" + SYSTEM_CALL + b"t.", b"\x80\x03" + SYSTEM_CALL + b".", b"\x95" + bytes(8) + SYSTEM_CALL + b".", b"N0" + SYSTEM_CALL + b".", b"]" + SYSTEM_CALL + b"a.")):
        sample("table_storages_%d.pt" % number, tar_of(old_tar(storages=one + described + numbers + bad)), "the pickle behind the numbers begins with %r" % bad[:2])
        sample("table_second_%d.pt" % number, tar_of(old_tar(storages=proto(2, b"K\x02") + described + numbers + bad)), "the second of two storages is a call")
        sample("table_tensors_%d.pt" % number, tar_of(old_tar(tensors=proto(2, b"K\x02") + tensor + bad)), "the second of two tensors is a call")
    sample("table_shorter.pt", tar_of(old_tar(storages=one + described + struct.pack("<q", 1) + struct.pack("<f", 1) + b"(" + SYSTEM_CALL + b"t.")), "fewer numbers, and then a pickle")
    sample("table_behind.pt", tar_of(old_tar(storages=one + described + numbers + views + BAD)), "a pickle behind the last that is read", RUN_OR_DIFFER)
    sample("table_too_many.pt", tar_of(old_tar(storages=proto(2, b"J\xff\xff\xff\x7f") + described + numbers + views)), "two billion storages", NOT_PLAIN)
    linked = tarfile.TarInfo("pickle")
    linked.type, linked.linkname = tarfile.LNKTYPE, "other"
    for kind in (tarfile.LNKTYPE, tarfile.SYMTYPE):
        linked.type = kind
        members = tar_of([("other", BAD)] + [m for m in old_tar() if m[0] != "pickle"])
        sample("table_link_%s.pt" % kind.decode(), linked.tobuf(tarfile.USTAR_FORMAT) + members, "the pickle is a link", RUN_OR_DIFFER)


def storages():
    sample("bytes_of_zip.pt", stored(torch_zip(BAD)), "the bytes of a tensor are an archive, which may be loaded by its name", RUN_OR_DIFFER)
    sample("bytes_of_zip_behind.pt", stored(b"\1\2\3\4" * 5 + torch_zip(BAD)), "... behind other bytes", RUN_OR_DIFFER)
    sample("bytes_of_stream.pt", stored(legacy(body=BAD)), "... a stream", RUN_OR_DIFFER)
    sample("bytes_of_pickle.pt", stored(BAD), "... a pickle", RUN_OR_DIFFER)
    sample("bytes_of_good.pt", stored(torch_zip(GOOD)), "... an archive in which there is nothing to run", {"plain"})


def shadows():
    """zipimport, by which `python FILE` runs, knew no zip64 until 3.12 and can be told not to since: it counts the directory back from the end record."""
    program = b"print('ran')\n"
    hidden = struct.pack("<IHHHHHIIIHH", 0x04034B50, 20, 0, 0, 0, 0, zlib.crc32(program), len(program), len(program), 11, 0) + b"__main__.py" + program
    sound = stored(b"\1\2\3\4" * 40 + hidden + b"\5\6\7" * 40)
    start = struct.unpack_from("<I", sound, len(sound) - 6)[0]
    ends = sound.index(b"PK\x06\x06")
    entry = struct.pack("<IHHHHHHIIIHHHHHII", 0x02014B50, 0, 20, 0, 0, 0, 0, zlib.crc32(program), len(program), len(program), 11, 0, 0, 0, 0, 0, sound.index(hidden) - 76) + b"__main__.py"
    name, extra = struct.unpack_from("<HH", sound, start + 28)
    assert extra == 0 and name < 30

    def with_more(comment, field, change=lambda record, end: (record, end)):
        first = bytearray(sound[start : start + 46 + name])
        more = bytes(30 - name - (4 if field else 0)) + comment
        more = struct.pack("<HH", 0x7A7A, len(more)) + more if field else more
        struct.pack_into("<H", first, 30 if field else 32, len(more))
        record, locator, end = bytearray(sound[ends : ends + 56]), bytearray(sound[ends + 56 : ends + 76]), bytearray(sound[ends + 76 :])
        size = ends - start + len(more)
        struct.pack_into("<Q", record, 40, size)
        struct.pack_into("<Q", locator, 8, ends + len(more))
        struct.pack_into("<I", end, 12, size)
        record, end = change(bytes(record), bytes(end))
        return sound[:start] + bytes(first) + more + sound[start + 46 + name : ends] + record + bytes(locator) + end

    for field in (False, True):
        where = "field" if field else "comment"
        sample("shadow_%s.pt" % where, with_more(entry, field), "a directory inside of a record of the directory, in a %s" % where, RUN_OR_DIFFER)
        sample("shadow_%s_mark.pt" % where, with_more(entry, field, lambda record, end: (record[:12] + b"PK\6\6" + record[16:], end)), "... and a second mark of zip64, in the versions", RUN_OR_DIFFER)
        sample("shadow_%s_behind.pt" % where, with_more(entry, field, lambda record, end: (record, end[:20] + b"\4\0PK\6\6")), "... and a second mark of zip64, in the comment", RUN_OR_DIFFER)
        sample("shadow_%s_fine.pt" % where, with_more(bytes(40), field), "zeros in the same place", {"plain"})
    # a name of 30 bytes: the second record of the directory begins 76 bytes behind the first
    sample("shadow_fine_name.pt", files.archive(files.torch_records(files.state_dict(weight=files.tensor())), name="a" * 21), "a directory whose second record begins there", {"plain"})


def descriptors():
    """zipfile writes sizes of 8 bytes behind the data of small records if it cannot go back."""
    class Pipe(io.RawIOBase):
        def __init__(self):
            self.data = b""

        def writable(self):
            return True

        def write(self, data):
            self.data += bytes(data)
            return len(data)

    for number, sizes in enumerate(((8,), (0,), (8, 0, 3), (100, 100))):
        pipe = Pipe()
        with zipfile.ZipFile(pipe, "w") as made:
            for n, size in enumerate(sizes):
                with made.open("a%d.npy" % n, "w", force_zip64=True) as member_:
                    member_.write(npy("{'descr': '|u1', 'fortran_order': False, 'shape': (%d,), }" % size, bytes(range(size))))
        sample("pipe_%d.npz" % number, pipe.data, "what numpy.savez writes to a pipe", {"plain"})


def programs():
    """Archives that `python FILE` runs."""
    program = b"print('ran')\n"
    for name in ("__main__.py", "__main__.pyc"):
        main = Member(name, program)
        packed = Member(name, program, method=8)
        suffix = name.rpartition(".")[2]
        sample("main_only_%s.zip" % suffix, zip_of([main]), "a program", RUN)
        sample("main_packed_%s.npz" % suffix, zip_of([Member("a.npy", npy("{'descr': '|u1', 'fortran_order': False, 'shape': (4,), }", b"1234")), packed]), "an array, and a program", RUN)
        sample("main_first_%s.pt" % suffix, zip_of([main, *members_with(member("data.pkl", GOOD))]), "a program in front of a checkpoint", RUN)
        sample("main_last_%s.pt" % suffix, zip_of([*members_with(member("data.pkl", GOOD)), main]), "a program behind a checkpoint", RUN)


def library_modules():
    """`python FILE` has FILE in front of its path before it imports runpy and what that needs."""
    good = member("data.pkl", GOOD)
    for name in ("types.py", "types.pyc", "importlib/__init__.py", "runpy.py", "warnings/__init__.pyc", "Types.PY", "keyword.py"):
        wanted = RUN if name != "Types.PY" else {"plain", "inconsistent"}
        label = name.replace("/", "_")
        sample("module_%s.zip" % label, zip_of([Member(name, b"print('ran')\n")]), "a module of Python's library", wanted)
        sample("module_%s.npz" % label, zip_of([Member("a.npy", npy("{'descr': '|u1', 'fortran_order': False, 'shape': (4,), }", b"1234")), Member(name, b"print('ran')\n")]), "... beside an array", wanted)
        sample("module_beside_%s.pt" % label, zip_of([*members_with(good), Member(name, b"print('ran')\n")]), "... beside a checkpoint", RUN_OR_DIFFER)
    for name in ("importlib", "collections", "types"):
        inside = [Member(m.name.replace(b"archive/", name.encode() + b"/"), m.packed) for m in members_with(good)]
        sample("module_folder_%s.pt" % name, zip_of([*inside, Member(name + "/__init__.py", b"print('ran')\n")]), "the archive has the name of a module, and is one", RUN)
        sample("module_folder_fine_%s.pt" % name, zip_of(inside), "the archive has the name of a module", {"plain"})
    sample("module_other.zip", zip_of([Member("setup_of_mine.py", b"x = 1\n")]), "a module that nobody imports", {"plain", "needs-objects"})


def far_tails():
    """An archive whose end lies further from that of the file than a comment could be long."""
    for name, front in {"stream": legacy(), "pickle": proto(2, value([1])), "numbers": struct.pack("<f", 1.5) * 1000, "npy": npy("{'descr': '|u1', 'fortran_order': False, 'shape': (70000,), }", b"")}.items():
        for behind in (65540, 65600, 65633, 68000, 69600):
            evil = zip_of([member("../__main__.py", b"import os\n"), member("data.pkl", BAD)][1 - (name != "stream"):])
            sample("far_tail_%s_%d.pt" % (name, behind), front + evil + b"z" * behind, "an archive that some readers find, %d bytes before the end" % behind, NOT_PLAIN)


def locators_left_out():
    """zipimport of Python 3.13 takes a zip64 end record in front of the end record, with a locator between or without."""
    inner = zip_of([Member("__main__.py", b"print('ran')\n")], end=b"")
    start = inner.index(b"PK\x01\x02")
    for place in ("comment", "extra"):
        for locator in (bytes(20), b"x" * 20, b"PK\x06\x08" + bytes(16)):
            record = struct.pack("<IQHHIIQQQQ", 0x06064B50, 44, 45, 45, 0, 0, 1, 1, len(inner) - start, start) + locator
            plain = zip_of(members_with(member("data.pkl", GOOD)), end=b"")
            at = plain.index(b"PK\x01\x02")
            last = plain.rindex(b"PK\x01\x02")
            head = bytearray(plain[last:last + 46])
            if place == "extra":
                record = struct.pack("<HH", 0x9999, len(record)) + record
            offset = 30 if place == "extra" else 32
            head[offset:offset + 2] = struct.pack("<H", len(record))
            directory = plain[at:last] + bytes(head) + plain[last + 46:] + record
            sample("no_locator_%s_%d.pt" % (place, locator[0]), plain[:at] + directory + end_of_zip(plain.count(b"PK\x01\x02"), len(directory), at), "a zip64 end record in the last entry of the directory", NOT_PLAIN)


def tar_header(name, kind=b"0", size=0, **fields):
    info = tarfile.TarInfo(name)
    info.size, info.type = size, kind
    header = bytearray(info.tobuf(tarfile.USTAR_FORMAT))
    for at, text in fields.items():
        header[int(at[1:]):int(at[1:]) + len(text)] = text
    header[148:156] = b" " * 8
    header[148:156] = b"%06o\0 " % sum(header)
    return bytes(header)


def padded(data):
    return data + bytes(-len(data) % 512)


def pax(text):
    return tar_header("x", b"x", len(text)) + padded(text)


def unusual_headers():
    """Headers of a tar that Pythons take in different ways; what one takes for bytes of a member is a header for another."""
    good, evil = old_tar(), old_tar(BAD)
    front = b"".join(tar_header(name, size=len(data)) + padded(data) for name, data in good)
    hidden = b"".join(tar_header(name, size=len(data)) + padded(data) for name, data in evil)
    end = bytes(1024)
    for label, member in {
            "folder_with_bytes": tar_header("x/", b"\0", len(hidden)) + hidden, "folder_with_bytes_5": tar_header("x/", b"5", len(hidden)) + hidden,
            "two_sizes": pax(b"10 size=0\n") + pax(b"13 size=5000\n") + tar_header("y", size=512) + hidden, "size_then_name": pax(b"13 size=5000\n") + tar_header("L", b"L", 4) + padded(b"foo\0") + tar_header("y") + hidden,
            "empty_keyword": pax(b"4 =\n13 size=5000\n") + tar_header("y") + hidden, "path_with_slash": pax(b"16 path=pickle/\n") + tar_header("y", size=len(BAD)) + padded(BAD),
            "mode": tar_header("y", _100=b"0x0644\0\0"), "uid": tar_header("y", _108=b"user\0"), "major": tar_header("y", _329=b"x\0"), "name_with_slash": tar_header("y", _0=b"pickle/\0", size=len(BAD)) + padded(BAD),
            "name_at_end": tar_header("L", b"L", 4) + padded(b"foo\0"), "no_magic": tar_header("y", _257=bytes(8)), "global": tar_header("g", b"g", 13) + padded(b"13 mtime=1.5\n"), "size_in_base_256": tar_header("y", _124=b"\x80" + bytes(11))}.items():
        sample("tar_header_%s.pt" % label, front + member + end, "a header of a tar that not all readers take alike", NOT_PLAIN)
    times = pax(b"30 mtime=1700000000.123456789\n")
    sample("tar_header_fine.pt", front + end, "the headers of tarfile", {"plain"})
    sample("tar_header_fine_times.pt", times + front + end, "with a time of parts of a second", {"plain"})
    sample("tar_header_fine_folder.pt", front + tar_header("folder/", b"5") + end, "with a folder", {"plain"})


def views_of_streams():
    """What is no tuple torch takes apart all the same."""
    for label, view, wanted in (("none", b"N", {"plain"}), ("list", value(["7", 0, 4]), NOT_PLAIN), ("dict", value({"7": 1, 0: 2, 4: 3}), NOT_PLAIN), ("bytes", b"C\x037\x00\x04", NOT_PLAIN), ("empty", b")", NOT_PLAIN), ("text", value("704"), NOT_PLAIN),
                                ("call", files.glob("builtins", "tuple") + value(["7", 0, 4]) + b"\x85R", NOT_PLAIN), ("number", b"K\x07", NOT_PLAIN)):
        body = LEGACY_BODY.replace(b"K\x04NtQ", b"K\x04" + view + b"tQ")
        sample("stream_view_%s.pt" % label, legacy(body=body), "a view of a storage: %s" % label, wanted)


def bits_in_streams():
    """A negative or conjugated part is copied while the pickle runs, before there are bytes. torch sets what is called so, False as True."""
    def tensor(key, dtype, size, bits=b""):
        storage = value("storage") + files.glob("torch", dtype + "Storage") + value(key) + value("cpu") + b"K" + bytes([size])
        return (files.glob("torch._utils", "_rebuild_tensor_v2") + b"((" + storage + b"NtQK\x00K" + bytes([size]) + b"\x85K\x01\x85\x89" + files.glob("collections", "OrderedDict") + b")R" + bits + b"tR")

    for label, bits, wanted in (("none", b"", {"plain"}), ("off", value({"neg": False}), NOT_PLAIN), ("neg", value({"neg": True}), NOT_PLAIN), ("conj", value({"conj": True}), NOT_PLAIN), ("conj_off", value({"conj": False}), NOT_PLAIN)):
        quantizer = b"(" + files.glob("torch", "per_channel_affine") + tensor("1", "Double", 2, bits) + tensor("2", "Long", 2) + b"K\x00t"
        storage = value("storage") + files.glob("torch", "QInt8Storage") + value("0") + value("cpu") + b"K\x02N"
        body = proto(2, files.glob("torch._utils", "_rebuild_qtensor") + b"((" + storage + b"tQK\x00K\x02\x85K\x01\x85" + quantizer + b"\x89" + files.glob("collections", "OrderedDict") + b")RtR")
        numbers = struct.pack("<q2b", 2, 1, 2) + struct.pack("<q2d", 2, .5, .25) + struct.pack("<q2q", 2, 0, 0)
        sample("stream_bits_%s.pt" % label, legacy(body=body, keys=proto(2, value(["0", "1", "2"])), stored=numbers), "scales with bits: %s" % label, wanted)


def names_as_cp437():
    """A name that is no ASCII, and is not said to be UTF-8, is one of cp437 for Python."""
    array = npy("{'descr': '|u1', 'fortran_order': False, 'shape': (4,), }", b"1234")
    name = "\u00e9.npy".encode()
    field = struct.pack("<HHBI", 0x7075, 5 + len(name), 1, zlib.crc32(name)) + name
    sample("cp437_field.npz", zip_of([Member(name, array, extra=field)]), "a field that says the name once more, as UTF-8", NOT_PLAIN)
    sample("cp437_field_flag.npz", zip_of([Member(name, array, flags=0x800, extra=field)]), "... of one that is said to be UTF-8", NOT_PLAIN | {"plain"})
    sample("cp437_field_ascii.npz", zip_of([Member("e.npy", array, extra=struct.pack("<HHBI", 0x7075, 10, 1, zlib.crc32(b"e.npy")) + b"e.npy")]), "... of a name in ASCII", {"plain"})
    sample("cp437_two.npz", zip_of([Member(name.decode("cp437"), array, flags=0x800), Member(name, array)]), "two names that are one for Python", NOT_PLAIN)
    sample("cp437_mixed.npz", zip_of([Member("\u00e4.npy", array, flags=0x800), Member("\u00f6.npy", array)]), "one name is said to be UTF-8, one is not", NOT_PLAIN)
    sample("cp437_fine.npz", zip_of([Member("\u00e4.npy", array, flags=0x800), Member("b.npy", array), Member("\u00f6.npy", array, flags=0x800)]), "as Python writes them", {"plain"})


def slashes():
    for key in ("0/", "/", "x/", "0//"):
        body = value({"w": files.glob("torch._utils", "_rebuild_tensor_v2") + b"((" + value("storage") + files.glob("torch", "FloatStorage") + value(key) + value("cpu") + b"K\x04tQK\x00(K\x04t(K\x01t\x89"
                            + files.glob("collections", "OrderedDict") + b")RtR"})
        name = "".join(c if c.isalnum() else "s" for c in key)
        sample("slash_%s.pt" % name, files.archive([("data.pkl", proto(2, body)), ("data/" + key, files.FOUR_FLOATS), ("version", b"3\n")]), "a storage whose record has the name of a folder", RUN_OR_DIFFER)
        sample("slash_%s_unused.pt" % name, files.torch_file(files.state_dict(weight=files.tensor()), extra=[("data/" + key, b"1234")]), "a record that has the name of a folder", RUN_OR_DIFFER)
    sample("slash_fine.pt", files.torch_file(files.state_dict(weight=files.tensor()), extra=[("extra/", b"")]), "a folder", {"plain", "inconsistent"})


def texts():
    for order, pack in (("<", "<I"), (">", ">I")):
        for name, code, wanted in (("fine", 0x10FFFF, {"plain"}), ("high", 0x110000, NOT_PLAIN), ("all", 0xFFFFFFFF, NOT_PLAIN)):
            data = struct.pack(pack, 97) * 3000 + struct.pack(pack, code) + struct.pack(pack, 98)
            array = npy("{'descr': '%sU2', 'fortran_order': False, 'shape': (1501,), }" % order, data)
            label = "npy_text_%s_%s" % (name, "little" if order == "<" else "big")
            sample(label + ".npy", array, "texts of numpy", wanted)
            sample(label + ".npz", zip_of([Member("a.npy", array)]), "texts of numpy", wanted)


def many_items():
    """Items without bytes, and dimensions that numpy 1 has no room for."""
    for name, descr, shape, wanted in (("zero", "|S0", "(1000000000000,)", NOT_PLAIN), ("zeros", "<U0", "(100000, 100000)", NOT_PLAIN), ("void", "|V0", "(5000,)", NOT_PLAIN), ("dims", "<f4", "(%s)" % ("1, " * 40), NOT_PLAIN),
                                       ("empty_dims", "<f4", "(0, %s)" % ("7, " * 32), NOT_PLAIN), ("few", "|S0", "(4000,)", NOT_PLAIN), ("one", "<U0", "(1,)", NOT_PLAIN), ("none", "|V0", "(0,)", NOT_PLAIN), ("empty", "<f4", "(0, 1000000)", {"plain"}), ("deep", "<f4", "(%s)" % ("1, " * 32), {"plain"})):
        array = npy("{'descr': '%s', 'fortran_order': False, 'shape': %s, }" % (descr, shape.replace(", )", ",)")), b"1234" if "dee" in name or name == "dims" else b"")
        sample("npy_items_%s.npy" % name, array, "an array of items without bytes, or of many dimensions", wanted)
        sample("npy_items_%s.npz" % name, zip_of([Member("a.npy", array)]), "an array of items without bytes, or of many dimensions", wanted)


def headers_of_no_numpy():
    """Headers that every numpy refuses: a number for a shape, a number with a nought in front, types of sizes that there are not, a minor version; and units of dates that numpy does not write."""
    for number, (descr, shape, wanted) in enumerate((("<f4", "(2)", NOT_PLAIN), ("<f4", "(02,)", NOT_PLAIN), ("<f4", "(2, 01)", NOT_PLAIN), ("<f4", "(00,)", NOT_PLAIN), ("<b4", "(2,)", NOT_PLAIN), ("<i3", "(2,)", NOT_PLAIN), ("<u16", "(2,)", NOT_PLAIN),
                                                     ("<f1", "(2,)", NOT_PLAIN), ("<c4", "(2,)", NOT_PLAIN), ("<M4", "(2,)", NOT_PLAIN), ("<f04", "(2,)", NOT_PLAIN), ("<f4", "(2, 1)", {"plain"}), ("<f4", "(0,)", {"plain"}), ("|b1", "(2,)", {"plain"}),
                                                     ("<f4", "()", {"plain"}), ("<f4", "(2,1)", {"plain"}), ("<M8[ns]", "(2,)", {"plain"}), ("|S3", "(2,)", {"plain"}),
                                                     *(("<%s8[%s]" % (letter, unit), "(2,)", wanted) for letter in "mM" for unit, wanted in (("25s", {"plain"}), ("2147483647Y", {"plain"}), ("2147483648s", NOT_PLAIN), ("9999999999s", NOT_PLAIN), ("0s", NOT_PLAIN),
                                                                                                                                             ("B", NOT_PLAIN), ("sec", NOT_PLAIN), ("", NOT_PLAIN), ("s3", NOT_PLAIN), ("generic", NOT_PLAIN))))):
        digits = int("".join(c for c in descr.split("[")[0] if c.isdigit()))
        array = npy("{'descr': '%s', 'fortran_order': False, 'shape': %s, }" % (descr, shape), bytes(digits * (0 if "0," in shape and "02" not in shape else 1 if shape == "()" else 2)))
        for minor in (0, 1):
            one = array[:7] + bytes([minor]) + array[8:]
            sample("npy_header_%d_%d.npy" % (number, minor), one, "a header: %s, %s" % (descr, shape), NOT_PLAIN if minor else wanted)
            sample("npy_header_%d_%d.npz" % (number, minor), zip_of([Member("a.npy", one)]), "a header: %s, %s" % (descr, shape), NOT_PLAIN if minor else wanted)


def items_of_unknown_types():
    """Types that numpy knows and does not write: how many items there are, and how large, is not known, whatever stands where they belong."""
    for number, descr in enumerate(("'V'", "'void'", "'d'", "'float'", "[]", "{}", "'V0,V0'", "'a0,a0'", "[('a', 'a0')]", "[('a', '<f8', (0,))]", "'i4294967304'", "'U536870912'", "'O,O'", "'object'", "('|O', (1000000000000,))", "{'names': ['a'], 'formats': ['O']}", "'|O9'")):
        for what, data in (("none", b""), ("pickle", b"\x80\x02]."), ("numbers", b"1234")):
            sample("npy_type_%d_%s.npy" % (number, what), npy("{'descr': %s, 'fortran_order': False, 'shape': (1000000000000,), }" % descr, data), "an array of %s" % descr, NOT_PLAIN)
    for number, descr in enumerate(("'|O'", "'|O8'", "'|O4'", "[('a', '|O'), ('b', '<f4')]")):
        data = b"\x80\x02cnumpy.core.multiarray\n_reconstruct\ncnumpy\nndarray\nK\0\x85U\x01b\x87R(K\x01K\x01\x85cnumpy\ndtype\nU\x02O8K\0K\x01\x87R(K\x03U\x01|NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK?tb\x89]K\x01atb."
        sample("npy_objects_%d.npy" % number, npy("{'descr': %s, 'fortran_order': False, 'shape': (1,), }" % descr, data), "an array of objects", {"plain"} if number < 3 else {"plain", "unreadable"})


def structures_in_files():
    shape = "'fortran_order': False, 'shape': (2,), }"
    for number, (descr, size, wanted) in enumerate((("[('a', '<f4'), ('b', '<i8', (3,))]", 56, {"plain"}), ("[('x', '|u1')]", 2, {"plain"}), ("[('x', '|u1'), ('y', '|u1')]", 2, NOT_PLAIN), ("[('x', '|O')]", 16, NOT_PLAIN),
                                                    ("[('x', '<U2')]", 16, NOT_PLAIN), ("[]", 0, NOT_PLAIN), ("[(('t', 'x'), '<f4')]", 8, NOT_PLAIN), ("[('x', '|V0')]", 0, NOT_PLAIN), ("[('x', [('y', '<f4')])]", 8, {"plain"}),
                                                    ("[('x', '<f4', (%s))]" % ("1, " * 40), 8, NOT_PLAIN), ("[('x', '<f4'),('y', '<f4')]", 16, NOT_PLAIN), ("[('x', '<f4', (1000000000000, 0))]", 0, NOT_PLAIN), ("[('a b/c (d)', '<f4')]", 8, {"plain"}), ("[('x\\n', '<f4')]", 8, NOT_PLAIN),
                                                    ("[('\\'', '<f4')]", 8, NOT_PLAIN), ("[('a\"', '<f4')]", 8, NOT_PLAIN), ("[('a\n', '<f4')]", 8, NOT_PLAIN))):
        array = npy("{'descr': %s, %s" % (descr, shape), bytes(size))
        sample("npy_structure_%d.npy" % number, array, "a structured array: %s" % descr, wanted)
        sample("npy_structure_%d.npz" % number, zip_of([Member("a.npy", array)]), "a structured array: %s" % descr, wanted)
    for number, (version, name, wanted) in enumerate(((1, b"\xe9", {"plain"}), (3, b"\xc3\xa9", {"plain"}), (3, b"\xe9", NOT_PLAIN), (3, b"\xed\xa0\x80", NOT_PLAIN), (1, b"\x7f", NOT_PLAIN), (2, b"\xe9\0", NOT_PLAIN))):
        array = npy("{'descr': [('@', '<f4')], %s" % shape, bytes(8), version).replace(b"@", name).replace(b"  ", b"  "[len(name) - 1:], 1)
        sample("npy_name_%d.npy" % number, array, "a name of a field that is not ASCII", wanted)


def keys_of_streams():
    for name, keys in (("none", []), ("other", ["8"]), ("case", ["7 "])):
        sample("stream_keys_%s.pt" % name, legacy(keys=proto(2, value(keys)), stored=b"" if not keys else None), "a storage that is not in the list of keys", NOT_PLAIN)


def packed():
    """Zeros that are a thousand times as many as the file has bytes."""
    for name, size, wanted in (("bomb", 48 << 20, NOT_PLAIN), ("fine", 2 << 20, {"plain"})):
        body = value({"w": files.glob("torch._utils", "_rebuild_tensor_v2") + b"((" + value("storage") + files.glob("torch", "ByteStorage") + value("0") + value("cpu")
                            + b"J" + struct.pack("<i", size) + b"tQK\x00(J" + struct.pack("<i", size) + b"t(K\x01t\x89" + files.glob("collections", "OrderedDict") + b")RtR"})
        sample("packed_storage_%s.pt" % name, zip_of([member("data.pkl", proto(2, body)), member("data/0", bytes(size), method=8), member("version", b"3\n")]), "a storage of zeros, deflated", wanted)


def named(archive, name):
    """A tar whose first header has another name, of up to 100 bytes."""
    header = bytearray(archive[:512])
    header[:100] = name + bytes(100 - len(name))
    header[148:156] = b" " * 8
    header[148:156] = b"%06o\0 " % sum(header)
    return bytes(header) + archive[512:]


def first_names():
    """The name of its first member begins a tar: a program in bytecode or in text, or a pickle."""
    # Python until 3.11 takes the second line for the rest of the name: it is empty here
    bare, torch = tar_of([("a.bin", b"x\n\nimport os\n"), ("b.bin", b"2")]), tar_of([("x", b"x\n\nimport os\n")] + old_tar())
    for name, first in (
        ("pyc39", b"\x61\x0d\x0d\x0a" + bytes(12) + b"\xe3\0"), ("pyc311", b"\xa7\x0d\x0d\x0a" + bytes(12) + b"\xe3\0"), ("pyc313", b"\xf3\x0d\x0d\x0a" + bytes(12) + b"\xe3\0"),
        ("pyc314", b"\x2b\x0e\x0d\x0a" + bytes(12) + b"\xe3\0"), ("source", b'#coding:latin1\nimport os\nos.mkdir("x")\nr"""'), ("shell", b"#!/bin/sh\ntouch x\nexit\n"), ("comment", b"#"),
        ("number", b"1"), ("sum", b"1/2"), ("minus", b"-1"), ("builtin", b"print"), ("attribute", b"int.real"), ("statement", b"pass"), ("import", b"import os"), ("text", b"'a'"), ("tuple", b"()"), ("dunder", b"__name__"), ("error", b"OSError"),
        ("pickle", b"}."), ("pickle_none", b"N."), ("pickle_list", b"]."), ("memo", b"}raaaa"), ("memo_long", b"}r\xff\xff\xff\x3f"), ("behind", b"a.bin\0N."),
    ):
        for kind, archive in (("", bare), ("_torch", torch)):
            sample("first_name_%s%s.tar" % (name, kind), named(archive, first), "a tar that begins as a program, or a pickle: %r" % first, NOT_PLAIN)
    for number, name in enumerate((b"model/weights.bin", b"./data", b"2024-01/model", b"my model (1)/a", b"printer", b"_model", b"D\xc3\xa4nemark/a")):
        sample("fine_first_name_%d.tar" % number, named(bare, name), "an ordinary name: %r" % name, {"plain"})
    fine = [("dir/a.txt", b"hello\nworld\n"), ("print/model.bin", b"\n\x80\xff"), ("type", b"\n\xff"), ("README.md", b"# Title\n\ntext\n"), ("config.json", b'{\n  "a": 1\n}\n'), ("data.csv", b"1,2\n3,4\n"), ("notes.txt", b"hello\n"),
            ("lr.yaml", b"lr: 1\nwd: 2\n"), ("CMakeLists.txt", b"\n\n"), ("CHANGES", b"a\n b\n"), ("len/x", b"\0\0")]
    for number, (name, data) in enumerate(fine):
        sample("fine_first_member_%d.tar" % number, tar_of([(name, data), ("b.bin", b"2")]), "an ordinary member: %r" % name, {"plain"})
    # what runs in Python 3.9 and 3.11, where the second line goes on behind the name
    for number, (name, line) in enumerate([("data", "=1;%s"), ("data", ":%s"), ("model/x.bin", " if 0 else %s"), ("sub/data.txt", " and 0 if %s else 0"), ("data.pkl", "=%s"), ("x-1if-0else-1", "\n%s"), ("1or-x", "\n%s"), ("0x1for-x", "\n%s"),
                                           ("*'',", " %s"), ("...", "\n%s"), (" #", "\n%s"), ("\uff4c\uff45\uff4e", "\n%s"), ("StopIteration", "\n%s"), ("r", "'';%s"), ("match", " x:\n case _:%s"), ("data", "\0\n=%s")]):
        text = (b"x\n" + line.replace("%s", "print(1)").encode() + b"\n")
        sample("first_member_program_%d.tar" % number, tar_of([(name, text), ("b.bin", b"2")]), "a tar that is a program: %r and %r" % (name, line), NOT_PLAIN)


def devices_of_a_storage():
    """torch 1.13 keeps a storage of the device meta, which has no numbers; later ones take the next mention of it."""
    def tensor(location):
        return files.tensor().replace(value("cpu"), value(location))

    for name, first, then, wanted in (("meta_cpu", "meta", "cpu", NOT_PLAIN), ("cpu_meta", "cpu", "meta", NOT_PLAIN), ("cuda_meta", "cuda:0", "meta", NOT_PLAIN), ("cpu_cpu", "cpu", "cpu", {"plain"})):
        sample("storage_on_%s.pt" % name, torch_zip(proto(2, b"](" + tensor(first) + tensor(then) + b"e")), "one storage on two devices", wanted)
    for name, first, then, wanted in (("meta_longer", ("meta", "Float", 4), ("meta", "Float", 1000), NOT_PLAIN), ("meta_class", ("meta", "Float", 4), ("meta", "Double", 2), NOT_PLAIN), ("meta_same", ("meta", "Float", 4), ("meta", "Float", 4), {"plain"}), ("empty_longer", ("cpu", "Float", 0), ("cpu", "Double", 1000), NOT_PLAIN),
                                      ("longer_empty", ("cpu", "Float", 4), ("cpu", "Double", 0), NOT_PLAIN), ("empty_class", ("cpu", "Float", 0), ("cpu", "Double", 0), {"plain"})):
        ids = b"".join(value(("storage", files.glob("torch", kind + "Storage"), "0", location, count)) + b"Q" for location, kind, count in (first, then))
        data = b"" if first[2] == 0 else files.FOUR_FLOATS
        sample("storage_said_%s.pt" % name, files.archive([("data.pkl", proto(2, b"](" + ids + b"e")), ("byteorder", b"big" if wanted == NOT_PLAIN else b"little"), ("data/0", data), ("version", b"3\n")]), "a storage without numbers that is said to be another one later: torch 2.6 swaps the bytes of that", wanted)


def arrays_of_one_name():
    """numpy.load() takes '.npy' off the names of an archive's members."""
    array = npy("{'descr': '|u1', 'fortran_order': False, 'shape': (4,), }", b"abcd")
    # torch's miniz alone takes two names that differ in case for one
    one = npy("{'descr': '|u1', 'fortran_order': False, 'shape': (4,), }", b"1234")
    for name, members, wanted in (("numpy", ("w.npy", "W.npy"), {"plain"}), ("folder", ("m/w", "m/W", "m/x"), {"plain"}), ("torch", ("m/w", "m/W", "m/version"), DIFFER), ("upper", ("m/w", "m/W", "M/VERSION"), DIFFER), ("hidden", ("m/w", "m/W", "m/.data/Version"), DIFFER),
                                  ("same", ("w.npy", "w.npy"), DIFFER), ("between", ("w.npy", "W.npy", "w.npy"), DIFFER)):
        sample("case_%s.npz" % name, zip_of([Member(each, one) for each in members]), "names that differ in case", wanted)
    sample("empty.npz", b"PK\5\6" + bytes(18), "what numpy.savez writes without arrays", {"plain"})
    for name, data in (("comment.npz", b"PK\5\6" + bytes(16) + b"\1\0a"), ("count.npz", b"PK\5\6" + bytes(4) + b"\1\0\1\0" + bytes(10)), ("other.pt", b"PK\5\6" + bytes(18))):
        sample("empty_%s" % name, data, "nearly that", NOT_DECIDED)
    for name, members, wanted in (("a_and_a_npy", ("a", "a.npy"), NOT_PLAIN), ("npy_npy", ("a.npy", "a.npy.npy"), NOT_PLAIN), ("between", ("a", "a.n", "a.npx", "a.npy"), NOT_PLAIN), ("fine", ("a.npy", "b.npy", "ab", "a.n"), {"plain"})):
        sample("npz_%s.npz" % name, zip_of([Member(one, array) for one in members]), "members that numpy calls alike", wanted)
    for name in ("archive/__main__.py", "archive/sub/__main__.py", "sub/__main__.pyc"):
        sample("main_in_%s.zip" % name.replace("/", "_"), zip_of([Member("archive/a.txt", b"a"), Member(name, b"a = 1\n")]), "'python FILE/FOLDER' runs it", RUN)


def packages_of_modules():
    """Names of modules, which could be opcodes."""
    for name, modules, wanted in (("fine", b"collections\ntorch._utils\nos\n", {"plain"}), ("fine_star", b"**\n", {"plain"}), ("opcodes", b"cos\nsystem\n(S'true'\ntR.", RUN), ("ends", b"cos\nsystem\n.", NOT_PLAIN), ("ends_in_a_name", b"cos\nsystem\n.x\n", NOT_PLAIN), ("program", b"cos\nsymlink\ncoptparse\nNO_DEFAULT\nR.\n", RUN), ("in_a_name", b"cos\nsymlink\ncoptparse\nNO_DEFAULT\nR.x\n", RUN)):
        package = [("m/o.pkl", proto(2, value({"w": 1}))), (".data/extern_modules", modules), (".data/python_version", b"3.9.2"), (".data/version", b"6\n")]
        sample("modules_%s.pt" % name, files.archive(package), "the list of modules of a torch.package", wanted)


def arrays_in_storages():
    """numpy.load takes every member that begins as an array for one, and unpickles it if it is one of objects: the bytes of tensors, too."""
    shape = "'fortran_order': False, 'shape': (1,), }"
    objects, numbers = "{'descr': '|O', " + shape, "{'descr': '<f8', " + shape
    arrays = [("objects_%d" % version, npy(objects, BAD, version), RUN) for version in (1, 2, 3)]
    arrays += [
        ("version_9", b"\x93NUMPY\x09\0" + npy(objects, BAD)[8:], NOT_DECIDED),
        ("odd_header", npy("{ 'descr':\t'|O', " + shape, BAD), RUN),
        ("structure", npy("{'descr': [('a', '|O')], " + shape, BAD), RUN),
        ("objects_and_more", npy(objects, BAD) + bytes(100), RUN),
        ("objects_cut", npy(objects, BAD)[:-1], RUN),
        ("cut", npy(objects, BAD)[:20], NOT_DECIDED),
        ("harmless_objects", npy(objects, proto(2, value([1, 2, 3]))), {"plain"}),
        ("numbers", npy(numbers, bytes(8)), {"plain"}),
        ("numbers_and_more", npy(numbers, bytes(8)) + bytes(100), {"plain"}),
        ("no_array", b"\x93NUMPX" + npy(objects, BAD)[6:], {"plain"}),
    ]
    for name, array, wanted in arrays:
        body = proto(2, value({"w": files.tensor(kind="ByteStorage", numel=len(array), shape=(len(array),))}))
        for way, method in (("stored", 0), ("packed", 8)):
            members = [Member("a/data.pkl", body), Member("a/data/0", array, method), Member("a/version", b"3\n")]
            sample("array_in_storage_%s_%s.pt" % (name, way), zip_of(members), "the bytes of a tensor begin as an array of numpy", wanted)
        package = [(".data/0.storage", array), ("m/0.pkl", body), (".data/extern_modules", b"_codecs\n"), (".data/python_version", b"3.9.2"), (".data/version", b"6\n")]
        sample("array_in_storage_%s_package.pt" % name, files.archive(package), "the same in a torch.package", wanted)
    second = proto(2, value([files.tensor(), files.tensor(key="1", kind="ByteStorage", numel=len(arrays[0][1]), shape=(len(arrays[0][1]),))]))
    sample("array_in_storage_second.pt", files.archive([("data.pkl", second), ("data/0", files.FOUR_FLOATS), ("data/1", arrays[0][1]), ("version", b"3\n")]), "the second storage", RUN)


def keys_of_python2():
    """torch.load(encoding=...) makes of a key in bytes of Python 2 what it is told, and looks for the record, or the storage, of that name."""
    def body(*keys):
        ids = [b"(" + value("storage") + files.glob("torch", "FloatStorage") + key + value("cpu") + b"K\x04tQ" for key in keys]
        return proto(2, value([reduce_("torch._utils", "_rebuild_tensor_v2", one, 0, (4,), (1,), False, files.glob("collections", "OrderedDict") + b")R") for one in ids]))

    old = {"latin": b"U\x02\xc3\xa9", "digit": b"U\x010", "long": b"T\x01\0\0\x000", "text": b"S'0'\n"}
    for name, key in old.items():
        records = [member("data.pkl", body(key)), member("data/0", files.FOUR_FLOATS), member("data/b'0'", files.FOUR_FLOATS), member("data/\u00e9", files.FOUR_FLOATS), member("version", b"3\n")]
        sample("key_of_python2_%s.pt" % name, zip_of(records), "a key as bytes of Python 2 in an archive", NOT_PLAIN)
    four = struct.pack("<q", 4) + files.FOUR_FLOATS
    streams = {"mixed": ((b"U\x01k", b"X\x01\0\0\0k"), value(["k"]), four), "list": ((b"U\x01k",), value(["k"]), four), "ids": ((b"X\x01\0\0\0k",), b"]U\x01ka", four), "latin": ((b"U\x02\xc3\xa9",), b"]U\x02\xc3\xa9a", four)}
    for name, (keys, listed, stored) in streams.items():
        sample("key_of_python2_%s_stream.pt" % name, legacy(body=body(*keys), keys=proto(2, listed), stored=stored), "keys as bytes of Python 2 and as texts", NOT_PLAIN)
    views = {"root": (b"X\x01\0\0\0k", b"U\x01v"), "view": (b"U\x01k", b"X\x01\0\0\0v"), "bytes": (b"U\x01k", b"U\x02v\xff")}
    for name, (root, view) in views.items():
        pid = b"(" + value("storage") + files.glob("torch", "FloatStorage") + root + value("cpu") + b"K\x04(" + view + b"K\x00K\x02ttQ"
        tensor = reduce_("torch._utils", "_rebuild_tensor_v2", pid, 0, (2,), (1,), False, files.glob("collections", "OrderedDict") + b")R")
        sample("key_of_python2_view_%s.pt" % name, legacy(body=proto(2, tensor), keys=proto(2, b"]" + root + b"a"), stored=four), "a view whose key is of another kind", NOT_PLAIN)
    text = b"U\x02\xc3\xa9"

    def structure(names, fields):
        return b"".join((files.glob("numpy", "dtype"), value(("V8", False, True)), b"R(K\x03U\x01|N", b"(" + b"".join(names) + b"t", b"}" + b"".join(name + field + b"s" for name, field in fields), b"K\x08K\x01K\x10tb"))

    number = b"(" + files.glob("numpy", "dtype") + value(("f4", False, True)) + b"R(K\x03U\x01<NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\x00tbK\x00t"
    a, b = b"X\x01\0\0\0a", b"X\x01\0\0\0b"
    for name, (names, keys) in {"other": ((a,), (b,)), "latin": ((text,), (value("\u00c3\u00a9"),)), "mixed": ((a,), (b"U\x01a",)), "python2": ((text,), (text,)), "twice": ((a, a), (a, b))}.items():
        sample("fields_%s.pkl" % name, structure(names, [(key, number) for key in keys]).join((b"\x80\x02", b".")), "names of a structure that are no fields of it, or are by an encoding", NOT_PLAIN)
    for name, (names, keys) in {"python2": ((b"U\x01a",), (b"U\x01a",)), "turned": ((b, a), (a, b))}.items():
        sample("fine_fields_%s.pkl" % name, structure(names, [(key, number) for key in keys]).join((b"\x80\x02", b".")), "a structure", {"plain"})
    encoded = {"array": files.glob("numpy.core.multiarray", "_reconstruct") + value((files.glob("numpy", "ndarray"), (0,), b"U\x01b")) + b"R(K\x01K\x01\x85" + files.glob("numpy", "dtype") + value(("U1", False, True)) + b"R(K\x03U\x01<NNNK\x04K\x04K\x08tb\x89U\x05\xc3\xa9\0\0\x7ftb",
               "scalar": files.glob("numpy.core.multiarray", "scalar") + b"(" + number[1:-3] + b"U\x10" + b"\xc3\xa9" * 8 + b"tR", "encode": reduce_("_codecs", "encode", text, "latin1"),
               "attribute": files.glob("builtins", "ValueError") + b")R}U\x03_\xffiK\x01sb"}
    for name, body_ in encoded.items():
        sample("encoded_%s.pkl" % name, proto(2, body_), "bytes of Python 2 that are something else by an encoding", NOT_PLAIN)
    sample("fine_key_of_python2.pt", legacy(body=body(b"U\x01k"), keys=proto(2, b"]U\x01ka"), stored=four), "keys as Python 2 wrote them", {"plain"})


def magic_otherwise():
    """First pickles that give the magic number of torch's streams by other opcodes than torch writes. torch.load then goes on with the next four."""
    number, digits = bytes.fromhex("6cfc9c46f9206aa85019"), b"119547037146038801333356"
    long1 = b"\x8a\x0a" + number
    yield from (("long4", b"\x8b\x0a\0\0\0" + number + b"."), ("long4_proto", b"\x80\x02\x8b\x0a\0\0\0" + number + b"."), ("zeros", b"\x8a\x0d" + number + bytes(3) + b"."), ("int", b"I" + digits + b"\n."), ("long", b"L" + digits + b"\n."),
                ("behind_list", b"]0L" + digits + b"L\n."), ("behind_mark", b"(1L" + digits + b"L\n."), ("behind_none", b"N0L" + digits + b"L\n."), ("text", b"Vhello world, this is a text\n0L" + digits + b"L\n."), ("plus", b"L+" + digits + b"L\n."),
                ("hex", b"I0x1950a86a20f9469cfc6c\n."), ("zero", b"I" + digits + b"\0 and more\n."), ("zero_long", b"L" + digits + b"\0 and moreL\n."), ("blanks", b"I \t" + digits + b" \x0b\n."), ("lines", b"L" + digits + b"L\r\n."), ("octal", b"I0o%o\n." % int(digits)), ("binary", b"I0b%s\n." % bin(int(digits))[2:].encode()), ("padded", b"L000" + digits + b"L\n."), ("underscores", b"L119_547_037146038801333356\n."), ("far", b"X" + struct.pack("<I", 40) + b" " * 40 + b"0" + long1 + b"."),
                ("farther", b"X" + struct.pack("<I", 5000) + b" " * 5000 + b"0" + long1 + b"."), ("farthest", b"X" + struct.pack("<I", 300000) + b" " * 300000 + b"0" + long1 + b"."), ("long_bytes", b"B" + struct.pack("<I", 200000) + b" " * 200000 + b"0" + long1 + b"."), ("long_line", b"V" + b"x" * 150000 + b"\n0N0" + long1 + b"."),
                ("long_zeros", b"\x8b" + struct.pack("<I", 100000) + number + bytes(100000 - 10) + b"."), ("many", b"N0" * 60000 + long1 + b"."), ("two_hops", (b"\x8e" + struct.pack("<Q", 70000) + bytes(70000) + b"0") * 2 + long1 + b"."), ("memo", b"N0" * 20 + long1 + b"q\x000Nh\x00\x86" + b"0h\x00."),
                ("dup", b"N0" * 20 + long1 + b"20."), ("near", b"\x80\x02N0" + long1 + b"."), ("frame", b"\x80\x04\x95" + struct.pack("<Q", 40) + b"N0" * 13 + long1 + b"N0."))


def odd_streams():
    evil = proto(2, SYSTEM_CALL)
    for name, first in magic_otherwise():
        for where, data in (("second", first + evil), ("fourth", first + VERSION + FACTS + evil + NO_KEYS), ("fifth", first + b"I1001\n.(d.N." + evil), ("text", first + b"I1001\n.(d.cos\nsystem\n(S'true'\ntR.(l.")):
            for ending in ("", ".txt", ".pt") if where == "fourth" else ("",):
                sample("odd_stream_%s_%s%s" % (name, where, ending), data, "a stream of torch that begins otherwise", RUN_OR_DIFFER)
            sample("odd_stream_%s_%s_mobile.ptl" % (name, where), b"\x8c\x06\0\0PTMF0" + (data[2:] if data[:2] == b"\x80\x02" else data), "the same behind the mark of a mobile model", RUN_OR_DIFFER)
            for method in (0, 8) if where == "fourth" else ():
                sample("odd_stream_%s_%s_storage_%d.pt" % (name, where, method), zip_of([member("data.pkl", GOOD), member("data/0", data, method=method), member("version", b"3\n")]), "the same as the bytes of a tensor", RUN_OR_DIFFER)
                sample("odd_stream_%s_%s_record_%d.pt" % (name, where, method), zip_of([Member("m/archive_format", b"pt2"), Member("m/data/weights/model.pt", data, method)]), "the same as a record", RUN_OR_DIFFER)
    for name, first in magic_otherwise():
        sample("odd_stream_%s_hop.safetensors" % name, safetensors_before(first + VERSION + FACTS + evil + NO_KEYS), "the same behind a header, as numbers", NOT_PLAIN)
    sample("fine_big_number.pkl", b"\x80\x02L" + b"9" * 30 + b"L\n.", "a number alone", {"plain"})


keys_of_python2()
odd_streams()
arrays_in_storages()
first_names()
devices_of_a_storage()
arrays_of_one_name()
packages_of_modules()
frames()
slashes()
packed()
texts()
many_items()
items_of_unknown_types()
structures_in_files()
headers_of_no_numpy()
keys_of_streams()
programs()
library_modules()
far_tails()
locators_left_out()
names_as_cp437()
unusual_headers()
views_of_streams()
bits_in_streams()
shadows()
descriptors()
locators()
attributes()
tails()
tables()
storages()

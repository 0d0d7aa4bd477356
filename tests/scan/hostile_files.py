# SPDX-License-Identifier: Apache-2.0
"""Streams, tar archives, arrays, packed files, and files that are two formats at once."""

import bz2
import gzip
import io
import lzma
import os
import struct
import sys
import tarfile
import zlib

from assemble import (
    BAD,
    COMMAND,
    DIFFER,
    FACTS,
    GOOD,
    KEYS,
    LEGACY_BODY,
    MAGIC,
    NOT_DECIDED,
    RUN,
    RUN_OR_DIFFER,
    STORED,
    SYSTEM,
    SYSTEM_CALL,
    VERSION,
    Member,
    blob,
    call,
    files,
    frame,
    legacy,
    named,
    npy,
    old_tar,
    proto,
    reduce_,
    sample,
    short,
    tar_of,
    torch_zip,
    value,
    zip_of,
)
import test_mobile

HIDDEN = RUN_OR_DIFFER | NOT_DECIDED


def streams():
    sample("legacy_body.pth", legacy(body=BAD), "a stream whose object is a call")
    sample("legacy_facts.pth", legacy(facts=BAD), "the call is in sys_info, the third pickle")
    sample(
        "legacy_facts_nested.pth",
        legacy(facts=proto(2, value({"protocol_version": 1001, "little_endian": SYSTEM_CALL}))),
        "the call is deep in sys_info",
    )
    sample("legacy_version.pth", legacy(version=BAD), "the call is in place of the version")
    sample(
        "legacy_version_dropped.pth", legacy(version=proto(2, SYSTEM_CALL + b"0M\xe9\x03")), "the call is in front of the version"
    )
    sample(
        "legacy_magic_call.pth",
        legacy(magic=proto(2, SYSTEM_CALL + b"0" + MAGIC[2:-1])),
        "the call is in front of the magic number",
    )
    sample(
        "legacy_magic_eval.pt",
        proto(2, reduce_("__builtin__", "eval", "119547037146038801333356")),
        "the magic number is made by eval",
        RUN,
        "picklescan pytorch_magic_bypass.pt",
    )
    sample(
        "legacy_magic_long4.pth", legacy(magic=proto(2, b"\x8b\x0a\0\0\0" + MAGIC[4:14]), body=BAD), "the magic number as LONG4"
    )
    sample("legacy_magic_text.pth", legacy(magic=b"L119547037146038801333356L\n.", body=BAD), "the magic number as text")
    sample(
        "legacy_magic_wrong.pth",
        legacy(magic=MAGIC[:4] + bytes(10) + b".", body=BAD),
        "another number in place of the magic one",
        RUN_OR_DIFFER,
    )
    sample("legacy_keys.pth", legacy(keys=BAD), "the call is in the list of keys")
    sample(
        "legacy_keys_dropped.pth",
        legacy(keys=proto(2, SYSTEM_CALL + b"0](" + files.text("7") + b"e")),
        "the call is in front of the list of keys",
    )
    sample("legacy_behind.pth", legacy() + BAD, "a pickle behind the storages", RUN_OR_DIFFER)
    sample("legacy_two.pth", legacy() + legacy(body=BAD), "a second stream behind the first", RUN_OR_DIFFER)
    sample("legacy_garbage_behind.pth", legacy() + b"garbage!" * 4, "bytes behind the storages", DIFFER | NOT_DECIDED)
    sample(
        "legacy_protocol_4.pth",
        legacy(magic=b"\x80\x04" + frame(MAGIC[2:-1] + b"."), body=proto(4, frame(call(named("os", "system"), short(COMMAND))))),
        "protocol 4",
    )
    sample(
        "legacy_protocol_0.pth",
        legacy(
            magic=b"L119547037146038801333356L\n.",
            version=b"I1001\n.",
            facts=b"(d.",
            body=b"cos\nsystem\n(S'true'\ntR.",
            keys=b"(l.",
            stored=b"",
        ),
        "protocol 0",
    )
    sample("legacy_truncated.pth", legacy(body=BAD)[:-4], "the call, and then the end", RUN)
    source = value(("module", files.glob("evil", "Net"), "x.py", "import os")) + b"Q"
    sample(
        "legacy_module.pth",
        legacy(body=proto(2, source + b")\x81}b")),
        "a module class with its source",
        {"needs-objects", "dangerous", "inconsistent"},
    )
    sample(
        "legacy_module_call.pth",
        legacy(body=proto(2, value(("module", SYSTEM, "x.py", "x")) + b"Q" + value((COMMAND,)) + b"R")),
        "a module class that is os.system",
    )
    popen = value(("module", files.glob("commands", "Popen"), "x.py", "x")) + b"Q"
    why = "a module class that is Popen, under its name of Python 2"
    sample("legacy_module_python2.pth", legacy(body=proto(2, popen + value((["true"],)) + b"R")), why)
    function = value(("module", files.glob("typing", "_eval_type"), "x.py", "x")) + b"Q"
    sample(
        "legacy_module_function.pth",
        legacy(body=proto(2, function + value((1,)) + b"R")),
        "a module class that is a function, called",
    )
    sample(
        "legacy_view.pth",
        legacy(body=LEGACY_BODY.replace(b"K\x04NtQ", b"K\x04" + SYSTEM_CALL + b"tQ")),
        "the view of a storage is the result of os.system",
    )
    sample("legacy_cut_after_keys.pth", MAGIC + VERSION + FACTS + proto(2, value({"a": 1})) + BAD, "the fifth pickle is the call")


def tensors_of_tars():
    """torch makes every tensor of the table, and its storage as large as the tensor wants it, whether the object has it or not."""
    for kind, size in (("QInt8", 1), ("QUInt8", 1), ("QInt32", 4), ("QUInt4x2", 1), ("QUInt2x4", 1)):
        storages = proto(2, b"K\x01") + proto(2, b"(K\x01" + value("cpu") + files.glob("torch", kind + "Storage") + b"t") + struct.pack("<q", 4) + bytes(4 * size) + proto(2, b"]")
        one = proto(2, b"(K\x02K\x01" + files.glob("torch", kind + "Tensor") + b"t") + struct.pack("<iiqqq", 1, 0, 4, 1, 0)
        for use, body in (("none", value({"a": 1})), ("value", b"}(" + value("w") + b"U\x012Qu")):
            sample("tar_quantized_%s_%s.pt" % (kind, use), tar_of(old_tar(proto(2, body), storages, proto(2, b"K\x01") + one)), "a quantized tensor without the numbers that it is quantized by", NOT_DECIDED)
    storages = proto(2, b"K\x01") + proto(2, b"(K\x01" + value("cpu") + files.glob("torch", "FloatStorage") + b"t") + struct.pack("<q", 4) + bytes(16) + proto(2, b"]")
    for name, sizes, strides, offset, wanted in (("fine", (4,), (1,), 0, {"plain"}), ("empty", (0,), (1,), 0, {"plain"}), ("size", (5,), (1,), 0, NOT_DECIDED), ("many", (1 << 30,), (1,), 0, NOT_DECIDED), ("stride", (2, 2), (1 << 40, 1), 0, NOT_DECIDED),
                                                 ("offset", (1,), (1,), 4, NOT_DECIDED), ("product", (8, (1 << 61) + 1), (0, 0), 0, NOT_DECIDED), ("zero", (0, 1 << 62), (1, 1), 0, NOT_DECIDED), ("number", (), (), 3, {"plain"}), ("no_end", (1 << 62, 2), (1 << 62, 1), 0, NOT_DECIDED), ("row", (2, 2), (2, 1), 0, {"plain"})):
        one = proto(2, b"(K\x02K\x01" + files.glob("torch", "FloatTensor") + b"t") + struct.pack("<ii", len(sizes), 0) + struct.pack("<%dq" % (2 * len(sizes) + 1), *sizes, *strides, offset)
        for use, body in (("none", value({"a": 1})), ("key", b"}(U\x012QK\x01u"), ("value", b"}(" + value("w") + b"U\x012Qu"), ("second", b"](U\x013QU\x012Qe")):
            more = (proto(2, b"(K\x03K\x01" + files.glob("torch", "FloatTensor") + b"t") + struct.pack("<iiqqq", 1, 0, 4, 1, 0)) if use == "second" else b""
            table = proto(2, b"K" + bytes([1 + bool(more)])) + one + more
            sample("tar_tensor_%s_%s.pt" % (name, use), tar_of(old_tar(proto(2, body), storages, table)), "a tensor of a tar that is not in its storage", wanted)
    for kind in ("Float", "Double", "Byte"):
        storages = proto(2, b"K\x01") + proto(2, b"(K\x01" + value("cpu") + files.glob("torch", kind + "Storage") + b"t") + struct.pack("<q", 0) + proto(2, b"]")
        for offset in (0, 4000, 1 << 60):
            one = proto(2, b"(K\x02K\x01" + files.glob("torch", kind + "Tensor") + b"t") + struct.pack("<iiq", 0, 0, offset)
            for use, body in (("none", value({"a": 1})), ("value", b"}(" + value("w") + b"U\x012Qu")):
                sample("tar_number_of_nothing_%s_%d_%s.pt" % (kind, offset, use), tar_of(old_tar(proto(2, body), storages, proto(2, b"K\x01") + one)), "one number of a storage that has none: memory that nobody has set", NOT_DECIDED)


def tars():
    tensors_of_tars()
    sample("tar_pickle.pt", tar_of(old_tar(BAD)), "a file of torch 0.1 whose object is a call")
    sample("tar_storages.pt", tar_of(old_tar(storages=BAD)), "the call is in the table of storages")
    sample("tar_storages_second.pt", tar_of(old_tar(storages=proto(2, b"K\x00") + BAD)), "the call is in the list of views")
    sample("tar_tensors.pt", tar_of(old_tar(tensors=BAD)), "the call is in the table of tensors")
    sample("tar_sys_info.pt", tar_of([("sys_info", BAD)] + old_tar()[1:]), "the call is in sys_info", RUN_OR_DIFFER)
    sample("tar_twice.pt", tar_of(old_tar() + [("pickle", BAD)]), "the member pickle twice: the last one counts", RUN_OR_DIFFER)
    sample(
        "tar_twice_first.pt",
        tar_of([("pickle", BAD)] + old_tar()),
        "the member pickle twice: the first one is bad",
        RUN_OR_DIFFER,
    )
    sample("tar_slash.pt", tar_of([("./" + name, data) for name, data in old_tar(BAD)]), "names that begin with ./", HIDDEN)
    sample("tar_pax_path.pt", pax_renamed(), "a pax header calls another member pickle", RUN_OR_DIFFER)
    sample("tar_plain.tar", tar_of([("model.pkl", BAD)]), "a tar of one pickle")
    sample("tar_of_zip.tar", tar_of([("a/model.pt", torch_zip(BAD))]), "a torch file in a tar")
    sample("tar_text.tar", tar_of([("notes.txt", b"hello"), ("data.txt", BAD)]), "a pickle called .txt in a tar")
    sample("tar_behind.tar", tar_of([("notes.txt", b"hello")]) + BAD, "a pickle behind a tar", HIDDEN)
    sample(
        "tar_name.tar",
        tar_of([("cos\nsystem\n(S'true'\ntR.", b"hello")]),
        "the name of the first member is a pickle",
        RUN_OR_DIFFER,
    )
    for n, name in enumerate(("../x.txt", "/etc/x.txt", "a/../../x.txt", "a\\..\\..\\x.txt", "C:x.txt", "..", "a/../x.txt")):
        sample("tar_out_%d.tar" % n, tar_of([("notes.txt", b"hello\n"), (name, b"hello\n")]), "a name that leads out of the tar, as in a zip", DIFFER)
        sample("zip_out_%d.zip" % n, zip_of([Member("notes.txt", b"hello\n"), Member(name, b"hello\n")]), "a name that leads out of the zip", DIFFER)
    sample("tar_in.tar", tar_of([("numbers.bin", bytes(range(256))), ("./a/..x.txt", b"hello\n"), ("a/x..", b"hello\n")]), "names that do not lead out", {"plain"})
    sample("tar_link.pt", linked(), "the member pickle is a link out of the archive", HIDDEN)
    sample("tar_hard_link.pt", hard_link(), "the member pickle is a hard link to another member", RUN_OR_DIFFER)
    sample("tar_gz.tar.gz", gzip.compress(tar_of([("model.pkl", BAD)]), mtime=0), "a packed tar", RUN | NOT_DECIDED)
    sample(
        "tar_zip.pt",
        tar_of(old_tar(BAD)) + torch_zip(GOOD),
        "a tar, and behind it an archive",
        RUN_OR_DIFFER,
        "fickling polyglot",
    )
    sample(
        "tar_in_legacy.pth",
        stream_and_tar(BAD),
        "a sound stream that is a tar for those who try tar first, as torch.load does",
        RUN_OR_DIFFER,
    )
    sample("tar_in_legacy_harmless.pth", stream_and_tar(proto(2, value({"a": 1}))), "the same with a good pickle", DIFFER)
    checksums = (
        ("signed", SIGNED),
        ("base256", BASE_256),
        ("prefix", b"0o%o"),
        ("underscore", b"0_%o"),
        ("blank", b"  %o "),
        ("plus", b"+%o"),
        ("separator_in_front", b"\x1c%o"),
        ("separators", b"\x1d%o\x1e"),
        ("separator_behind", b"%o \x1f"),
        ("none", ZERO),
        ("blanks", ZERO + b"        "),
        ("separator_alone", ZERO + b"\x1c"),
    )
    for name, checksum in checksums:
        why = "the same, with a checksum that is written in another way"
        sample("tar_in_legacy_%s.pth" % name, stream_and_tar(BAD, False, checksum), why, RUN_OR_DIFFER)
    sample(
        "tar_in_legacy_data.pth",
        stream_and_tar(BAD, behind=False),
        "the same, all of it in the bytes of a storage",
        RUN_OR_DIFFER,
    )


def hard_link():
    """The member pickle is a link to another one."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:", format=tarfile.USTAR_FORMAT) as tar:
        for name, data in [("numbers", BAD)] + [pair for pair in old_tar() if pair[0] != "pickle"]:
            info = tarfile.TarInfo(name)
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))
        info = tarfile.TarInfo("pickle")
        info.type, info.linkname = tarfile.LNKTYPE, "numbers"
        tar.addfile(info)
    return out.getvalue()


def pax_renamed():
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:", format=tarfile.PAX_FORMAT) as tar:
        for name, data in old_tar() + [("zzz", BAD)]:
            info = tarfile.TarInfo(name)
            info.size = len(data)
            if name == "zzz":
                info.pax_headers = {"path": "pickle"}
            tar.addfile(info, io.BytesIO(data))
    return out.getvalue()


def linked():
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:", format=tarfile.USTAR_FORMAT) as tar:
        for name, data in old_tar():
            info = tarfile.TarInfo(name)
            if name == "pickle":
                info.type, info.linkname = tarfile.SYMTYPE, "/dev/shm/x"
                tar.addfile(info)
            else:
                info.size = len(data)
                tar.addfile(info, io.BytesIO(data))
    return out.getvalue()


ZERO = b"0:"            # a sum of signed bytes that is 0, and what stands in the place of the checksum
SIGNED, BASE_256 = b"%06o\0", b"256"  # other ways to write the checksum of a header that Python's tarfile takes


def stream_and_tar(pickle, behind=True, checksum=b"%06o\0 "):
    """The first 512 bytes are three pickles of a stream, and the header of a tar without a magic number."""
    head = MAGIC + VERSION + b"\x80\x02X" + struct.pack("<I", 512 - 21 - 7 - 1)
    header = bytearray(head + bytes(511 - len(head)) + b".")
    evil = tar_of(old_tar(pickle))
    if behind:
        body = LEGACY_BODY + KEYS + STORED
        body += bytes(-len(body) % 512)
        size, rest = len(body), body + evil
    else:
        opening = LEGACY_BODY + KEYS
        gap = -(len(opening) + 8) % 512
        count = (gap + len(evil)) // 4
        opening = legacy_body_of(count) + KEYS
        gap = -(len(opening) + 8) % 512
        while (gap + len(evil)) // 4 != count or (gap + len(evil)) % 4:
            count = -(-(gap + len(evil)) // 4)
            opening = legacy_body_of(count) + KEYS
            gap = -(len(opening) + 8) % 512
            evil += bytes(-(gap + len(evil)) % 4)
        rest = opening + struct.pack("<q", count) + bytes(gap) + evil
        size = len(opening) + 8 + gap
    for at, field in (
        (100, b"0000644\0"),
        (108, b"0000000\0"),
        (116, b"0000000\0"),
        (124, b"%011o\0" % size),
        (136, b"00000000000\0"),
        (148, b" " * 8),
        (156, b"0"),
    ):
        header[at : at + len(field)] = field
    if checksum.startswith(ZERO):       # letters whose bytes are negative numbers, as the text is UTF-8
        total = sum(header) - 256 * sum(byte > 127 for byte in header)
        pairs = -(-total // 190)
        left = pairs * 190 - total
        for i in range(pairs):
            more = min(left, 63)
            header[160 + 2 * i:162 + 2 * i] = bytes((0xC2, 0x80 + more))
            left -= more
        header[148:156] = checksum[len(ZERO):].ljust(8, b"\0")
        return bytes(header) + rest
    number = sum(header) if checksum != SIGNED else sum(header) - 256 * sum(byte > 127 for byte in header)
    header[148:156] = struct.pack(">Q", 1 << 63 | number) if checksum == BASE_256 else (checksum % number).ljust(8, b"\0")
    return bytes(header) + rest


def legacy_body_of(count):
    """A tensor of COUNT floats; its length does not depend on COUNT."""
    return LEGACY_BODY.replace(b"K\x04NtQ", b"J" + struct.pack("<i", count) + b"NtQ").replace(
        b"(K\x04t(K\x01t", b"(J" + struct.pack("<i", count) + b"t(K\x01t"
    )


def arrays():
    def with_header(name, header, why, wanted=frozenset(RUN), version=1):
        sample("npy_%s.npy" % name, npy(header, BAD, version), why, wanted)

    shape = "'fortran_order': False, 'shape': (1,), }"
    with_header("object", "{'descr': '|O', " + shape, "an array of objects is a pickle", RUN)
    with_header("object_2", "{'descr': '|O', " + shape, "the same, version 2", RUN, 2)
    with_header("object_3", "{'descr': '|O', " + shape, "the same, version 3", RUN, 3)
    with_header("O8", "{'descr': 'O8', " + shape, "objects as 'O8'")
    with_header("O", "{'descr': 'O', " + shape, "objects as 'O'")
    with_header("word", "{'descr': 'object', " + shape, "objects as 'object'", RUN | NOT_DECIDED)
    with_header("quotes", '{"descr": "|O", "fortran_order": False, "shape": (1,)}', "other quotes", RUN | NOT_DECIDED)
    with_header("escape", "{'descr': '\\x7cO', " + shape, "an escape in the text", RUN | NOT_DECIDED)
    with_header("joined", "{'descr': '|' 'O', " + shape, "two texts that Python joins", RUN | NOT_DECIDED)
    with_header(
        "record", "{'descr': [('a', '<i4'), ('b', '|O')], " + shape, "a record with a field of objects", RUN | NOT_DECIDED
    )
    with_header("record_nested", "{'descr': [('a', [('b', [('c', '|O')])])], " + shape, "a record in a record", RUN | NOT_DECIDED)
    sample("npy_records_in_records.npy", npy("{'descr': [('a', '<i4'), ('b', [('c', '<f4'), ('d', [('e', '|u1', (3,))], (2,))])], 'fortran_order': False, 'shape': (2,), }", bytes(2 * 14)),
           "numbers in a record in a record", {"plain"})
    with_header("records_too_deep", "{'descr': " + "[('a', " * 40 + "'<i4'" + ")]" * 40 + ", " + shape, "records that numpy would nest, deeper than is looked into", RUN | NOT_DECIDED)
    with_header("record_shape", "{'descr': [('a', '|O', (2,))], " + shape, "a field of several objects", RUN | NOT_DECIDED)
    with_header("comma", "{'descr': 'i4,O', " + shape, "a record as a text", RUN | NOT_DECIDED)
    with_header("repeated", "{'descr': '2O', " + shape, "a repeated type", RUN | NOT_DECIDED)
    with_header("twice", "{'descr': '<f8', 'descr': '|O', " + shape, "descr twice: the last one counts", HIDDEN)
    with_header("order", "{'shape': (1,), 'fortran_order': False, 'descr': '|O'}", "another order")
    with_header("no_blanks", "{'descr':'|O','fortran_order':False,'shape':(1,)}", "no blanks")
    with_header("comment", "{'descr': '|O', #'descr': '<f8',\n " + shape, "a comment in the header", RUN | NOT_DECIDED)
    with_header("in_text", "{'x': \"'descr': '<f8'\", 'descr': '|O', " + shape, "another descr in a text", HIDDEN)
    with_header("not_a_header", "__import__('os').system('true')", "a header that is an expression", HIDDEN)
    with_header("empty_shape", "{'descr': '|O', 'fortran_order': False, 'shape': (), }", "one object")
    with_header(
        "no_items", "{'descr': '|O', 'fortran_order': False, 'shape': (0,), }", "no objects: the pickle is loaded all the same"
    )
    sample(
        "npy_version_9.npy",
        b"\x93NUMPY\x09\x00" + npy("{'descr': '|O', " + shape, BAD)[8:],
        "a version that is not there",
        RUN | NOT_DECIDED,
    )
    sample(
        "npy_exfiltration.npy",
        npy("{'descr': '|O', " + shape, proto(4, call(named("ssl", "get_server_certificate"), short("127.0.0.1")))),
        "a name is looked up",
        RUN,
        "picklescan CVE-2025-46417",
    )
    sample(
        "npy_behind.npy",
        npy("{'descr': '<f8', " + shape, bytes(8) + BAD),
        "a pickle behind the numbers",
        RUN_OR_DIFFER | NOT_DECIDED,
    )
    sample("npy_truncated.npy", npy("{'descr': '|O', " + shape, BAD)[:-3], "the pickle of objects is cut off", RUN)


def packed():
    sample("packed.pkl.gz", gzip.compress(BAD, mtime=0), "gzip", RUN | NOT_DECIDED)
    sample("packed.pkl.bz2", bz2.compress(BAD), "bzip2", RUN | NOT_DECIDED)
    sample("packed.pkl.xz", lzma.compress(BAD), "xz", RUN | NOT_DECIDED)
    sample("packed.pkl.lzma", lzma.compress(BAD, lzma.FORMAT_ALONE), "lzma", RUN | NOT_DECIDED)
    sample("packed.joblib", zlib.compress(BAD), "zlib, as joblib packs", RUN | NOT_DECIDED)
    sample(
        "packed.pt.zst",
        b"\x28\xb5\x2f\xfd\x20" + bytes([len(BAD)]) + struct.pack("<I", len(BAD) << 3 | 1)[:3] + BAD,
        "zstd, one raw block",
        RUN | NOT_DECIDED,
    )
    sample(
        "packed.7z",
        b"7z\xbc\xaf\x27\x1c\x00\x04" + bytes(24) + BAD,
        "7z, as nullifAI had it",
        HIDDEN,
        "picklescan issue of nullifAI",
    )
    sample("packed.rar", b"Rar!\x1a\x07\x01\x00" + BAD, "rar", HIDDEN)
    sample("packed.lz4", b"\x04\x22\x4d\x18" + BAD, "lz4", HIDDEN)
    sample("packed_gzip_called.pt", gzip.compress(torch_zip(BAD), mtime=0), "gzip around an archive", RUN | NOT_DECIDED)


def empty():
    for name, data in (
        ("nothing", b""),
        ("proto", b"\x80"),
        ("proto_4", b"\x80\x04"),
        ("zeros", bytes(64)),
        ("zip_magic", b"PK\x03\x04"),
        ("zip_end", end_only()),
        ("png", b"\x89PNG\r\n\x1a\n"),
        ("magic", MAGIC),
        ("half_magic", MAGIC[:7]),
        ("npy_magic", b"\x93NUMPY"),
        ("elf", b"\x7fELF" + bytes(60)),
        ("exe", b"MZ" + bytes(62)),
    ):
        sample("empty_%s.pt" % name, data, "nothing to decide on", NOT_DECIDED | DIFFER)


def end_only():
    return struct.pack("<IHHHHIIH", 0x06054B50, 0, 0, 0, 0, 0, 0, 0)


def two_formats():
    """What one reader takes for data is a pickle to another: pickle.load and torch.load do not ask what a file is."""
    sample("gguf_pickle.gguf", b"GGUF\x03\0\0\0\0" + BAD[2:], "the magic of GGUF is a float to a pickle", HIDDEN)
    sample("exe_pickle.bin", b"MZ\x900" + BAD[2:], "the magic of an executable is a number", HIDDEN)
    sample("flatbuffer_pickle.ptl", b"U\x06\0\0PTMF0" + SYSTEM_CALL + b".", "the magic of a mobile model is in a text", HIDDEN)
    sample("flatbuffer_model.ptl", mobile(), "a sound mobile model whose first bytes are a pickle", RUN_OR_DIFFER)
    sample("safetensors_head.safetensors", safetensors_head(), "the head of a safetensors file is a text to a pickle", HIDDEN)
    sample("safetensors_sound.safetensors", safetensors_sound(), "a sound safetensors file that is a pickle, too", RUN_OR_DIFFER)
    sample("html_pickle.html", b"V<!DOCTYPE html><html></html>\n0" + BAD[2:], "a web page in a text", HIDDEN)
    sample("lfs_pickle.pt", b"Vversion https://git-lfs.github.com/spec/v1\n0" + BAD[2:], "an LFS pointer in a text", HIDDEN)
    both = zip_of(
        [Member("archive/data.pkl", GOOD), Member("archive/data/0", files.FOUR_FLOATS), Member("archive/version", b"3\n")],
        before=BAD,
    )
    sample("pickle_zip.pt", both, "a pickle in front of an archive", RUN_OR_DIFFER, "fickling polyglot")
    sample(
        "dcp_item.distcp",
        torch_zip(GOOD) + torch_zip(BAD) + torch_zip(GOOD),
        "archives one behind the other, as the items of a data file of DCP",
        RUN_OR_DIFFER,
    )
    sample("dcp_bytes.distcp", torch_zip(GOOD) + BAD + torch_zip(GOOD), "a pickle between two items", RUN_OR_DIFFER)
    sample(
        ".metadata",
        proto(2, reduce_("torch.distributed.checkpoint.metadata", "Metadata", SYSTEM_CALL)),
        "an index of DCP with a call",
        RUN,
    )
    sample(
        "data_is_no_code.pt",
        torch_zip(files.state_dict(w=files.tensor(kind="ByteStorage", numel=len(BAD), shape=(len(BAD),))), data=BAD),
        "the bytes of a tensor are a pickle, which may be loaded by its name",
        RUN_OR_DIFFER,
    )
    sample(
        "joblib_array.joblib",
        proto(3, call(files.glob("joblib.numpy_pickle", "NumpyArrayWrapper")) + b"}b")[:-1] + bytes(16) + SYSTEM_CALL + b".",
        "raw numbers in the middle of a pickle, as joblib writes them",
        HIDDEN,
    )


def mobile():
    """NEWTRUE, SHORT_BINSTRING of 5 bytes: the number 0x55588, where the root table is. The builder puts a vtable of 32 bytes in front of it."""
    root = 0x00055588
    builder = test_mobile.Builder()
    code = b"0" + SYSTEM_CALL + b"."
    builder.out = bytearray(struct.pack("<I", root) + b"PTMF" + code)
    builder.out += bytes(root - 32 - len(builder.out))
    number, to = test_mobile.number, test_mobile.to
    values = [test_mobile.tensor(), test_mobile.value(test_mobile.INT, number(8, 5)), test_mobile.instance(0, 1)]
    made = builder.build(
        {
            0: number(4, 9),
            3: number(4, 2),
            4: to(values),
            6: to([{0: to(test_mobile.data(files.FOUR_FLOATS))}]),
            7: to([test_mobile.class_()]),
            10: number(4, 1),
        }
    )
    assert struct.unpack("<I", made[:4])[0] == root, made[:8]
    return made


def functions_of_mobile():
    """A load of a mobile model runs what its objects name as their __setstate__, in bytecode, and torch.jit.load compiles its sources."""
    number, to, value, words = test_mobile.number, test_mobile.to, test_mobile.value, test_mobile.words
    sound = struct.pack("<BxHi", 4, 2, 1) + struct.pack("<BxHi", 12, 0, 0)  # STOREN, RET

    def function(name=b"__torch__.Net.__setstate__", operators=(), instructions=sound):
        return value(16, {0: to(name), 1: to(test_mobile.structs(8, instructions)), 2: to([{0: to(o)} for o in operators]), 3: to(words()), 5: number(4, 2)})

    def model(kind=3, setstate=1, sources=(), **about):
        made = {0: number(4, 0), 1: number(4, 0), 2: to(words()), 3: number(4, setstate)}
        more = {8: to([{0: to(b"__torch__.py"), 1: to(s)} for s in sources])} if sources else {}
        return test_mobile.module([value(test_mobile.INT, number(8, 5)), function(**about), value(test_mobile.OBJECT, made)], 2, [test_mobile.class_(names=(), kind=kind)], fields=more)

    for n, operators in enumerate(([b"aten::save"], [b"aten::from_file"], [b"aten::eq", b"aten::save"], [b"aten::ones"], [b"mine::conv_prepack"], [b"quantized::conv2d"], [b"prim::Print"])):
        sample("mobile_setstate_%d.ptl" % n, model(operators=operators), "a mobile model whose __setstate__ calls an operator", RUN)
        sample("mobile_named_%d.ptl" % n, model(operators=operators, name=b"f"), "the same by another name", RUN)
        sample("mobile_forward_%d.ptl" % n, model(kind=2, operators=operators), "the same operator, which no load calls", {"needs-objects"})
    for opcode in (11, 14, 19, 20, 28, 44, 50, 255):
        sample("mobile_opcode_%d.ptl" % opcode, model(instructions=sound + struct.pack("<BxHi", opcode, 0, 0)), "a __setstate__ with an instruction that calls or repeats", RUN)
    sample("mobile_packed.ptl", model(operators=[b"aten::eq", b"prim::TupleUnpack", b"quantized::conv2d_prepack"]), "a __setstate__ as torch writes it, which is not followed", {"unreadable"})
    sample("mobile_nowhere.ptl", model(setstate=77), "a __setstate__ that is not there", {"unreadable"})
    for n, text in enumerate((b"def f(self, x: int=f()) -> int:\n  return 1\n", b"class M(Module):\n  def __setstate__(self, s: int) -> NoneType:\n    torch.save(s, 'x')\n")):
        sample("mobile_source_%d.ptl" % n, model(kind=1, sources=[text]), "a source that a load runs", RUN)
        sample("mobile_inside_%d.zip" % n, zip_of([Member("a.ptl", model(kind=1, sources=[text]))]), "the same in an archive", RUN)
    for n, name in enumerate((b"__torch__.torch.classes.aten.OpaqueObject", b"__torch__.torch.classes.c10d.ProcessGroup")):
        opaque = test_mobile.module([value(test_mobile.INT, number(8, 5)), value(test_mobile.OBJECT, {0: number(4, 0), 1: number(4, 0), 2: to(words()), 3: number(4, 1)})], 1, [test_mobile.class_(name=name, names=(), kind=4)])
        sample("mobile_opaque_%d.ptl" % n, opaque, "a mobile model with an object of C++ that unpickles, or connects", RUN)
    for n, name in enumerate((b" __torch__.torch.classes.aten.OpaqueObject", b"__torch__ .torch.classes.aten.OpaqueObject", b"\t__torch__.torch.classes.aten.OpaqueObject", b"torch.classes.aten.OpaqueObject", b"Optional[__torch__.torch.classes.aten.OpaqueObject]", b"__torch__.Net\n", b"", b"int")):
        odd = test_mobile.module([value(test_mobile.INT, number(8, 5)), value(test_mobile.OBJECT, {0: number(4, 0), 1: number(4, 0), 2: to(words()), 3: number(4, 1)})], 1, [test_mobile.class_(name=name, names=(), kind=4)])
        sample("mobile_odd_class_%d.ptl" % n, odd, "a class by a text that torch parses as a type", RUN if b"classes" in name else {"unreadable"})
    sample("mobile_source.ptl", model(kind=1, sources=[b"class M(Module):\n  x : int\n"]), "a source that runs nothing", {"needs-objects"})


def safetensors_head():
    length = 0x58 + (40 << 8)
    inside = b'{"' + b" " * (5 + 40 - 10) + b"0" + SYSTEM_CALL + b"."
    return struct.pack("<Q", length) + inside + b" " * (length - len(inside)) + bytes(16)


def safetensors_sound():
    """BINUNICODE, whose length is the upper bytes of the header's; then SHORT_BINSTRINGs of 32 letters, one behind the other, until the numbers begin."""
    jump = 60
    length = 0x58 + (jump << 8)
    front = b'{"__metadata__":{"a":"'
    inside = front + b"-" * (5 + jump - 8 - len(front))
    tail = b'"},"w":{"dtype":"U8","shape":[%d],"data_offsets":[0,%d]}}'
    code = b"0" * 4 + SYSTEM_CALL + b"."
    size = 300 + len(code)
    tail = tail % (size, size)
    while len(inside) + 34 < length - len(tail):
        inside += b"U " + b"-" * 32
    start = len(inside)
    inside += b"U~" + b"-" * (length - len(tail) - len(inside) - 2)
    inside += tail
    assert len(inside) == length and length - start < 2 + 126, (len(inside), length, start)
    left = 126 - (length - start - 2)
    numbers = b"-" * left + code
    return struct.pack("<Q", length) + inside + numbers + bytes(size - len(numbers))


streams()
tars()
arrays()
packed()
empty()
two_formats()
functions_of_mobile()

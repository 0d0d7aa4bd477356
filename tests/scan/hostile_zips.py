# SPDX-License-Identifier: Apache-2.0
"""Zip archives that two loaders read differently, and archives that hold a pickle where nobody looks."""

import io
import json
import struct
import zipfile
import zlib

from assemble import (
    BAD,
    BAD_MODEL,
    COMMAND,
    DIFFER,
    GOOD,
    NOT_DECIDED,
    RUN,
    RUN_OR_DIFFER,
    Member,
    blob,
    call,
    end_of_zip,
    files,
    legacy,
    member,
    members_with,
    npy,
    proto,
    reduce_,
    sample,
    torch_zip,
    value,
    zip_of,
)

HIDDEN = RUN_OR_DIFFER | NOT_DECIDED


def both(name, why, build, about="", wanted=RUN_OR_DIFFER, harmless=DIFFER):
    """BUILD(pickle) with a bad pickle, and with a good one: the trick alone is enough not to be plain."""
    sample("zip_%s.pt" % name, build(BAD_MODEL), why, wanted, about)
    if harmless:
        sample("zip_%s_harmless.pt" % name, build(GOOD), why + ", around a good pickle", harmless, about)


def one(**about):
    return lambda pickle: zip_of(members_with(member("data.pkl", pickle, **about)))


def headers():
    sample("zip_sound.pt", torch_zip(BAD), "a sound archive with a bad pickle")
    for bit in (0x1, 0x20, 0x40, 0x2000):
        both("local_flag_%x" % bit, "a forged flag bit in the local header", one(local_flags=bit), "picklescan CVE-2025-1945")
        both(
            "central_flag_%x" % bit,
            "a forged flag bit in the directory",
            one(flags=bit, local_flags=0),
            "picklescan CVE-2025-1945",
            HIDDEN,
            DIFFER | NOT_DECIDED,
        )
    both("encrypted", "the flag of encryption in both headers, without any", one(flags=1), "", HIDDEN, DIFFER | NOT_DECIDED)
    both("crc", "a wrong CRC", one(crc=0x12345678), "picklescan GHSA-mjqp-26hc-grxg, CVE-2025-10156")
    both("crc_local", "a wrong CRC in the local header", one(local_crc=0x12345678))
    both(
        "crc_central",
        "a wrong CRC in the directory",
        one(crc=0x12345678, local_crc=0),
        "picklescan GHSA-mjqp-26hc-grxg, CVE-2025-10156",
    )
    both("name", "another name in the local header", one(local_name="archive/data.pal"), "picklescan CVE-2025-1944")
    both("name_length", "a longer name in the local header", one(local_name="archive/data.pkl.txt"), "picklescan CVE-2025-1944")
    both(
        "name_swapped",
        "local headers call data.pkl and data/0 by each other's names",
        lambda pickle: zip_of(
            [
                member("data.pkl", pickle, local_name="archive/data/000"),
                member("data/000", files.FOUR_FLOATS, local_name="archive/data.pkl"),
                member("version", b"3\n"),
            ]
        ),
    )
    both("method_local", "the local header says deflated, the directory stored", one(local_method=8))
    both("method_central", "the directory says deflated, the local header stored", one(method=8, local_method=0), "", HIDDEN)
    both("method_99", "a method that only few know", one(method=0, local_method=99))
    both("size_local", "another size in the local header", one(local_size=7))
    both(
        "size_central",
        "the directory says a smaller size than is compressed",
        lambda pickle: one(compressed=len(pickle) - 3)(pickle),
        "",
        HIDDEN,
        DIFFER | NOT_DECIDED,
    )
    both(
        "size_short",
        "the directory says fewer bytes, the call is cut off for some",
        lambda pickle: one(size=len(pickle) // 2, local_size=len(pickle))(pickle),
        "",
        HIDDEN,
        DIFFER | NOT_DECIDED,
    )
    both(
        "local_extra",
        "the local header has a field that only it has",
        one(local_extra=struct.pack("<HH", 0x4246, len(GOOD)) + GOOD),
        "",
        RUN_OR_DIFFER,
        None,
    )
    both(
        "unicode_path",
        "a field with another, Unicode, name, which Python's zipfile follows since 3.12",
        one(extra=struct.pack("<HHBI", 0x7075, 5 + 9, 1, zlib.crc32(b"archive/data.pkl")) + b"other.txt"),
        "",
        RUN_OR_DIFFER,
        DIFFER | NOT_DECIDED,
    )
    sample("zip_deflated.pt", one(method=8)(BAD), "a deflated pickle")
    both(
        "zip64_size",
        "sizes of the zip64 field differ from the local header",
        lambda pickle: one(
            compressed=0xFFFFFFFF,
            size=0xFFFFFFFF,
            local_compressed=len(pickle),
            local_size=len(pickle),
            extra=struct.pack("<HHQQ", 1, 16, 10, 10),
        )(pickle),
        "",
        HIDDEN,
        HIDDEN,
    )
    both(
        "zip64_offset",
        "the zip64 field has another offset",
        lambda pickle: zip_of(
            [member("other", BAD, hidden=True)]
            + members_with(member("data.pkl", pickle, at=0xFFFFFFFF, extra=struct.pack("<HHQ", 1, 8, 0)))
        ),
        "",
        HIDDEN,
        HIDDEN,
    )


def names():
    def renamed(name):
        return lambda pickle: zip_of(members_with(member(name, pickle)))

    both("upper", "DATA.PKL: torch does not mind case", renamed("DATA.PKL"), "", RUN_OR_DIFFER, None)
    both("name_nul", "a NUL in the name: some stop there", renamed(b"data.pkl\0.txt".decode()), "", HIDDEN, DIFFER | NOT_DECIDED)
    both("name_backslash", "a backslash in the name", renamed("\\data.pkl"), "", HIDDEN, None)
    both("name_dot", "./ in the name", renamed("./data.pkl"), "", HIDDEN, None)
    both(
        "other_name",
        "a bad pickle under another name, beside a good one",
        lambda pickle: zip_of(members_with(member("data.pkl", GOOD), member("extra.pkl", pickle))),
        "",
        RUN_OR_DIFFER,
        None,
    )
    for name in ("notes.txt", "helper.py", "data/readme", ".data/extra", "archive/data.pkl", "data.pkl.bak", "byteorder2"):
        sample(
            "zip_record_%s.pt" % name.replace("/", "_"),
            torch_zip(GOOD, extra=[(name, BAD)]),
            "a pickle in the record %s" % name,
            RUN_OR_DIFFER,
            "picklescan CVE-2025-1889" if name.endswith("txt") else "",
        )
    both(
        "twice_first",
        "data.pkl twice: the first is bad",
        lambda pickle: zip_of([member("data.pkl", pickle)] + members_with(member("data.pkl", GOOD))),
    )
    both(
        "twice_last",
        "data.pkl twice: the last is bad",
        lambda pickle: zip_of(members_with(member("data.pkl", GOOD), member("data.pkl", pickle))),
    )
    both(
        "twice_case",
        "data.pkl and Data.pkl",
        lambda pickle: zip_of(members_with(member("data.pkl", GOOD), member("Data.pkl", pickle))),
    )
    both(
        "two_roots",
        "two folders with a data.pkl each",
        lambda pickle: zip_of(
            members_with(member("data.pkl", GOOD), Member("other/data.pkl", pickle), Member("other/version", b"3\n"))
        ),
    )
    both(
        "two_roots_first",
        "two folders, the bad one first",
        lambda pickle: zip_of(
            [Member("a/data.pkl", pickle), Member("a/version", b"3\n")] + members_with(member("data.pkl", GOOD))
        ),
    )
    both("root", "data.pkl in no folder", lambda pickle: zip_of([Member("data.pkl", pickle)]), "", RUN_OR_DIFFER, None)
    both(
        "deeper",
        "data.pkl one folder deeper",
        lambda pickle: zip_of([Member("x/y/data.pkl", pickle), Member("x/y/version", b"3\n")]),
        "",
        RUN_OR_DIFFER,
        None,
    )
    both(
        "absolute",
        "a name that begins with a slash",
        lambda pickle: zip_of(members_with(member("data.pkl", GOOD), Member("/etc/data.pkl", pickle))),
    )
    both("up", "a name with ..", lambda pickle: zip_of(members_with(member("data.pkl", GOOD), member("../../x.pkl", pickle))))
    sample(
        "zip_only_txt.zip",
        zip_of([Member("data.txt", BAD)]),
        "an archive of one pickle that is called .txt",
        RUN,
        "picklescan CVE-2025-1889",
    )
    sample("zip_plain.zip", zip_of([Member("model.pkl", BAD)]), "an archive of one pickle")
    sample("zip_nested.zip", zip_of([Member("inner.zip", zip_of([Member("x.pkl", BAD)]))]), "a zip in a zip")
    sample("zip_nested_deflated.zip", zip_of([Member("inner.pt", torch_zip(BAD), method=8)]), "a torch file, deflated, in a zip")
    sample(
        "zip_nested_three.zip",
        zip_of([Member("a.zip", zip_of([Member("b.zip", zip_of([Member("c.pt", torch_zip(BAD))]))]))]),
        "three deep",
        RUN | NOT_DECIDED,
    )
    sample(
        "zip_nested_in_record.pt",
        torch_zip(GOOD, extra=[("backup.pt", torch_zip(BAD))]),
        "a torch file in a record of a torch file",
        RUN_OR_DIFFER,
    )
    sample("zip_nested_legacy.zip", zip_of([Member("policy.pth", legacy(body=BAD))]), "a stream in a zip")
    sample(
        "zip_stable_baselines.zip",
        zip_of([Member("data", b"{}"), Member("policy.pth", torch_zip(GOOD)), Member("pytorch_variables.pth", torch_zip(BAD))]),
        "as Stable-Baselines3 has it",
    )


def ends():
    def two_ends(pickle):
        inner = zip_of(members_with(member("data.pkl", GOOD)))
        return zip_of(members_with(member("data.pkl", pickle)), comment=inner)

    both("comment_archive", "the comment is an archive", two_ends)

    def end_in_comment(pickle):
        first = members_with(member("data.pkl", pickle))
        body = zip_of(first, end=b"")
        start = body.index(b"PK\x01\x02")
        other = end_of_zip(3, len(body) - start, start)
        good = zip_of(members_with(member("data.pkl", GOOD)), before=body, end=b"")
        good_start = good.index(b"PK\x01\x02", len(body))
        return good + end_of_zip(3, len(good) - good_start, good_start, other)

    def larger_than_it_is(pickle):
        """A directory right in front of the other, for readers that look for it as far from the end as it is said to be long."""
        local = struct.pack("<IHHHHHIIIHH", 0x04034B50, 20, 0, 0, 0, 0x21, zlib.crc32(pickle), len(pickle), len(pickle), 9, 0)
        numbers = bytes(range(200)) + local + b"model.pkl" + pickle + bytes(range(50))
        first = zip_of([Member("numbers.bin", numbers)])
        start = first.rfind(b"PK\1\2")
        long = first[start:first.rfind(b"PK\5\6")]
        entry = struct.pack("<IHHHHHHIIIHHHHHII", 0x02014B50, 20, 20, 0, 0, 0, 0x21, zlib.crc32(pickle), len(pickle), len(pickle),
                            9, 0, 0, 0, 0, 0, first.find(local) + 46 + 9) + b"model.pkl"
        return first[:start] + entry + long + end_of_zip(1, len(entry) + len(long), start + len(entry))

    both("directory_in_front", "a directory that Python's zipfile reads, and others do not", larger_than_it_is)
    both("end_in_comment", "two directories: an end record in the comment of the other", end_in_comment)

    def two_in_one(pickle):
        bad, good = zip_of(members_with(member("data.pkl", pickle))), zip_of(members_with(member("data.pkl", GOOD)))
        return bad + good

    both("behind_another", "an archive behind an archive", two_in_one)

    def same_layout(pickle):
        """Who counts offsets from the start of the file finds the first one, who corrects them the second."""
        longest = max(len(pickle), len(GOOD))
        return zip_of(members_with(member("data.pkl", pickle + bytes(longest - len(pickle))))) + zip_of(
            members_with(member("data.pkl", GOOD + bytes(longest - len(GOOD))))
        )

    both("same_layout", "two archives of the same layout, one behind the other", same_layout)
    both(
        "before",
        "bytes in front of the archive that offsets count",
        lambda pickle: zip_of(members_with(member("data.pkl", pickle)), before=b"#!/bin/sh\n"),
        "",
        HIDDEN,
        DIFFER | NOT_DECIDED,
    )
    both(
        "before_not_counted",
        "bytes in front of the archive that offsets do not count",
        lambda pickle: zip_of(members_with(member("data.pkl", pickle)), before=b"#!/bin/sh\n", prefix_counts=False),
        "",
        HIDDEN,
        DIFFER | NOT_DECIDED,
    )
    both(
        "behind_pickle",
        "a pickle, and behind it an archive: torch.load sees the pickle",
        lambda pickle: zip_of(members_with(member("data.pkl", GOOD)), before=pickle),
        "fickling polyglot",
    )
    both(
        "behind_legacy",
        "a stream, and behind it an archive",
        lambda pickle: zip_of(members_with(member("data.pkl", GOOD)), before=legacy(body=pickle)),
        "fickling polyglot",
    )
    both("pickle_behind", "an archive, and behind it a pickle", lambda pickle: torch_zip(GOOD) + pickle)
    both("legacy_behind", "an archive, and behind it a stream", lambda pickle: torch_zip(GOOD) + legacy(body=pickle))
    both(
        "between",
        "a pickle between the members and the directory",
        lambda pickle: zip_of(members_with(member("data.pkl", GOOD)), between=pickle),
    )
    both(
        "hidden",
        "a member that the directory does not have",
        lambda pickle: zip_of(members_with(member("data.pkl", GOOD), member("data2.pkl", pickle, hidden=True))),
    )
    both(
        "hidden_same_name",
        "a second data.pkl that the directory does not have",
        lambda pickle: zip_of([member("data.pkl", pickle, hidden=True)] + members_with(member("data.pkl", GOOD))),
    )
    both(
        "count_less",
        "the end record counts fewer members than there are",
        lambda pickle: counted(members_with(member("data.pkl", GOOD), member("x.pkl", pickle)), 3),
        "",
        HIDDEN,
        DIFFER | NOT_DECIDED,
    )
    both(
        "count_more",
        "the end record counts more members than there are",
        lambda pickle: counted(members_with(member("data.pkl", pickle)), 5),
        "",
        HIDDEN,
        DIFFER | NOT_DECIDED,
    )
    both("overlap", "the header of data.pkl is in the bytes of a storage", overlapping)
    both("zip64_elsewhere", "the zip64 locator points at another directory", zip64_elsewhere, "", HIDDEN, DIFFER | NOT_DECIDED)
    both(
        "zip64_differs",
        "the zip64 end record says another directory than the end record",
        zip64_differs,
        "",
        HIDDEN,
        DIFFER | NOT_DECIDED,
    )
    sample("zip_no_end.pt", torch_zip(BAD)[:-30], "the end is cut off", HIDDEN)
    sample("zip_spanned.pt", b"PK\x07\x08" + torch_zip(BAD), "the mark of a spanned archive in front", HIDDEN)


def counted(members, count):
    body = zip_of(members, end=b"")
    start = body.index(b"PK\x01\x02")
    return body + end_of_zip(count, len(body) - start, start)


def overlapping(pickle):
    header = (
        struct.pack("<IHHHHHIIIHH", 0x04034B50, 20, 0, 0, 0, 0, zlib.crc32(pickle), len(pickle), len(pickle), 16, 0)
        + b"archive/data.pkl"
    )
    floats = files.FOUR_FLOATS + header + pickle
    floats += bytes(-len(floats) % 4)
    first = member("data/0", floats)
    at = 30 + len(first.name) + 16
    return zip_of([first, member("data.pkl", pickle, at=at, only_listed=True), member("version", b"3\n")])


def directory_at(body, start):
    return struct.pack("<IQHHIIQQQQ", 0x06064B50, 44, 45, 45, 0, 0, 3, 3, len(body) - start, start)


def two_directories(pickle):
    """The bytes of two archives, and where the directory of each starts and ends."""
    bad = zip_of(members_with(member("data.pkl", pickle)), end=b"")
    good = zip_of(members_with(member("data.pkl", GOOD)), before=bad, end=b"")
    return good, (bad.index(b"PK\x01\x02"), len(bad)), (good.index(b"PK\x01\x02", len(bad)), len(good))


def zip64_elsewhere(pickle):
    body, (bad, bad_end), (good, good_end) = two_directories(pickle)
    far = directory_at(body[:bad_end], bad)
    near = directory_at(body[:good_end], good)
    at = len(body)
    return (
        body
        + far
        + near
        + struct.pack("<IIQI", 0x07064B50, 0, at, 1)
        + struct.pack("<IHHHHIIH", 0x06054B50, 0, 0, 0xFFFF, 0xFFFF, 0xFFFFFFFF, 0xFFFFFFFF, 0)
    )


def zip64_differs(pickle):
    body, (bad, bad_end), (good, good_end) = two_directories(pickle)
    return (
        body
        + directory_at(body[:bad_end], bad)
        + struct.pack("<IIQI", 0x07064B50, 0, len(body), 1)
        + end_of_zip(3, good_end - good, good)
    )


def further_records():
    """zipimport of Python 3.11 counts the directory back from the end, past records of zip64: 76 bytes further, and so it takes all that the directory names. Its first entry has just so many."""
    name = "a" * 30
    for what, hidden, wanted in (("other", True, DIFFER), ("none", False, {"plain"})):
        members = [(name, b"x"), ("archive/data.pkl", GOOD), ("archive/data/0", files.FOUR_FLOATS), ("archive/version", b"3\n"), ("archive/a.txt", b"one")]
        body, entries = b"", b""
        for member_name, data in members:
            if hidden and member_name == "archive/a.txt":  # inside of its data, 76 bytes behind its header, is another header
                inner = struct.pack("<IHHHHHIIIHH", 0x04034B50, 20, 0, 0, 0, 0, zlib.crc32(b"TWO"), 3, 3, len(member_name), 0) + member_name.encode() + b"TWO"
                data = b"o" * (76 - 30 - len(member_name)) + inner
            one = zip_of([Member(member_name, data)])
            at = one.index(b"PK\1\2")
            entry = bytearray(one[at : one.index(b"PK\5\6")])
            entry[42:46] = struct.pack("<I", len(body))
            body, entries = body + one[:at], entries + bytes(entry)
        end64 = struct.pack("<IQHHIIQQQQ", 0x06064B50, 44, 45, 45, 0, 0, len(members), len(members), len(entries), len(body)) + struct.pack("<IIQI", 0x07064B50, 0, len(body) + len(entries), 1)
        sample("zip64_further_%s.zip" % what, body + entries + end64 + end_of_zip(len(members), len(entries), len(body)), "records that lie further behind for who knows no zip64", wanted)


def packed_otherwise():
    """By methods that Python's zipfile has, and torch has not."""
    for name, method in (("bzip2", zipfile.ZIP_BZIP2), ("lzma", zipfile.ZIP_LZMA)):
        packed = io.BytesIO()
        with zipfile.ZipFile(packed, "w") as archive:
            archive.writestr(zipfile.ZipInfo("a.txt"), b"text " * 100, method)
        sample("packed_%s.zip" % name, packed.getvalue(), "a sound archive, packed by a method that is not looked into", NOT_DECIDED)


def names_of_modules():
    """torch.package keeps an object for each part of a name, of which a packed list has very many."""
    own, number = proto(2, reduce_("torch", "Size", (1,))), lambda key: proto(2, reduce_("torch._utils", "_rebuild_tensor_v2", files.storage(key=key), 0, (4,), (1,), False, files.glob("collections", "OrderedDict") + b")R"))
    old, new = [Member("p/extern_modules", b"os\n")], [Member("p/.data/extern_modules", b"os\n"), Member("p/.data/python_version", b"3.9.2")]
    for what, members, wanted in (("source", [*old, Member("p/torch/__init__.py", b"")], RUN), ("none", old, {"plain"}), ("there", [Member("p/extern_modules", b"m\n")], DIFFER), ("both", [*old, *new], DIFFER), ("both_version", [*old, new[1]], DIFFER), ("program", [Member("p/extern_modules", b"cos\nsymlink\ncoptparse\nNO_DEFAULT\nR.")], RUN)):
        sample("package_of_1_8_%s.pt" % what, zip_of([*members, Member("p/m/w.pkl", own), Member("p/version", b"3\n")]), "a torch.package of torch 1.8, whose list of modules lies elsewhere", wanted)
    for key, wanted in (("0", {"plain"}), ("12", {"plain"}), ("00", NOT_DECIDED), ("+1", NOT_DECIDED), (" 1", NOT_DECIDED), ("1_0", NOT_DECIDED), ("a", NOT_DECIDED), ("", NOT_DECIDED), ("\u0661", NOT_DECIDED), ("-1", NOT_DECIDED)):
        sample("package_key_%s.pt" % "_".join("%x" % ord(one) for one in key), zip_of([*new, Member("p/m/w.pkl", number(key)), Member("p/.data/%s.storage" % key, files.FOUR_FLOATS), Member("p/.data/version", b"6\n"), *([Member("p/.data/0.storage", b"abcd")] if key != "0" else [])]), "a torch.package with a key of which torch 1.10 takes int()", wanted)
    for what, depth, wanted in (("deep", 240, NOT_DECIDED), ("flat", 4, {"plain"})):
        members = [Member("p/.data/extern_modules", b""), Member("p/.data/version", b"6\n"), Member("p/.data/python_version", b"3.9.2")] + [Member("p/" + "/".join("%x" % ((n >> (4 * at)) & 15 if at < 4 else 0) for at in range(depth)) + "/w", b"") for n in range(2000)]
        sample("package_folders_%s.pt" % what, zip_of(members), "a torch.package with records deep in folders, for each of which it keeps an object", wanted)
    for what, names, wanted in (("dots", b"." * 70000, NOT_DECIDED), ("lines", b"a\n" * 70000, NOT_DECIDED), ("parts", b"a." * 70000 + b"a", NOT_DECIDED), ("few", b"torch.nn.modules\n" * 500, {"plain"})):
        for method in (0, 8):
            members = [Member("p/.data/extern_modules", names, method), Member("p/.data/version", b"6\n"), Member("p/.data/python_version", b"3.9.2"), Member("p/m/w.pkl", proto(2, value({"a": 1})))]
            sample("package_modules_%s_%d.pt" % (what, method), zip_of(members), "a torch.package with names of modules", wanted)
    for what, names, record, wanted in (("record", b"torch\nthis\n", "this/o.pkl", DIFFER), ("hidden", b"this\n", "this/.o.pkl", DIFFER), ("other_case", b"this\n", "This/o.pkl", DIFFER), ("of_capitals", b"THIS\n", "this/o.pkl", DIFFER), ("below", b"this\n", "this/that/o.pkl", DIFFER),
                                        ("inner", b"this.that\n", "this/that/o.pkl", DIFFER), ("returns", b"torch\rthis\r", "this/o.pkl", DIFFER), ("feeds", b"torch\x0cthis", "this/o.pkl", DIFFER), ("outer", b"this.that\n", "this/o.pkl", {"plain"}), ("longer", b"thi\nthis_\n", "this/o.pkl", {"plain"}),
                                        ("wide", b"this\xe2\x80\xa8that\n", "m/o.pkl", NOT_DECIDED), ("zero", b"this\0\n", "m/o.pkl", NOT_DECIDED), ("deep", b"a." * 40 + b"a\n", "m/o.pkl", NOT_DECIDED), ("many", b"torch.nn.modules\n" * 500 + b"this\n", "this/o.pkl", DIFFER)):
        for method in (0, 8):
            members = [Member("p/" + record, proto(2, value({"a": 1}))), Member("p/.data/extern_modules", names, method), Member("p/.data/version", b"6\n"), Member("p/.data/python_version", b"3.9.2")]
            sample("package_extern_%s_%d.pt" % (what, method), zip_of(members), "a torch.package with a record in a package that is said to be elsewhere, which a load of it imports", wanted)


def relatives():
    """TorchScript, torch.package, torch.export, numpy, keras: archives that are none of torch.save."""
    none = proto(2, b")")
    sample(
        "script_bad_data.pt",
        torch_zip(BAD, extra=[("constants.pkl", none), ("code/__torch__.py", b"")]),
        "TorchScript with a call in data.pkl",
    )
    sample(
        "script_bad_constants.pt",
        torch_zip(GOOD, extra=[("constants.pkl", BAD), ("code/__torch__.py", b"")]),
        "TorchScript with a call in constants.pkl",
    )
    sample(
        "script_upper_constants.pt",
        torch_zip(BAD, extra=[("CONSTANTS.PKL", none)]),
        "CONSTANTS.PKL does not make it TorchScript for torch.load",
        RUN_OR_DIFFER,
    )
    sample(
        "script_code.pt",
        torch_zip(GOOD, extra=[("constants.pkl", none), ("code/__torch__.py", b"def forward(self):\n  return None\n")]),
        "TorchScript code runs when it is called",
        {"needs-objects", "dangerous", "inconsistent", "unreadable"},
    )
    sample(
        "script_bytecode.pt",
        torch_zip(GOOD, extra=[("constants.pkl", none), ("bytecode.pkl", BAD)]),
        "TorchScript with a call in bytecode.pkl",
        RUN_OR_DIFFER,
    )
    sample(
        "script_debug.pt",
        torch_zip(GOOD, extra=[("constants.pkl", none), ("code/__torch__.py.debug_pkl", BAD)]),
        "TorchScript with a call in debug_pkl",
        RUN_OR_DIFFER,
    )
    package = [
        (".data/extern_modules", b"os\n"),
        (".data/python_version", b"3.13"),
        (".data/version", b"6\n"),
        ("byteorder", b"little"),
    ]
    sample(
        "package_source.pt",
        files.archive(package + [("net/__init__.py", b"import os\nos.system('true')\n")]),
        "torch.package with a source that calls os.system",
        RUN,
    )
    sample("package_pickle.pt", files.archive(package + [("net/model.pkl", BAD)]), "torch.package with a call in a pickle")
    inside = value(("reduce_package", 1, files.glob("os", "system"), (COMMAND,))) + b"Q"
    sample(
        "package_reduce.pt",
        files.archive(package + [("net/model.pkl", proto(3, inside))]),
        "a persistent id of torch.package that calls os.system",
        RUN,
    )
    program = [("archive_format", b"pt2"), ("archive_version", b"0"), (".data/version", b"6\n"), ("byteorder", b"little")]
    sample(
        "export_sample_inputs.pt2",
        files.archive(program + [("models/model.json", b"{}"), ("data/sample_inputs/model.pt", torch_zip(BAD))]),
        "a .pt2 whose example inputs are a bad file",
    )
    sample(
        "export_constants.pt2",
        files.archive(program + [("models/model.json", b"{}"), ("data/constants/custom_obj_0", BAD)]),
        "a .pt2 with a pickle for an object",
        RUN_OR_DIFFER,
    )
    sample(
        "export_library.pt2",
        files.archive(program + [("models/model.json", b"{}"), ("data/aotinductor/model/x.so", b"\x7fELF" + bytes(60))]),
        "a .pt2 with a shared library that is loaded",
        {"needs-objects", "dangerous", "inconsistent", "unreadable"},
    )
    expression = b'{"graph_module":{"graph":{"inputs":[{"as_sym_int":{"as_name":"s0"}}]}},"range_constraints":{},"expr_str":"__import__(\'os\').system(\'true\')"}'
    sample(
        "export_expression.pt2",
        files.archive(program + [("models/model.json", expression)]),
        "a .pt2 with an expression that sympy evaluates",
        {"needs-objects", "dangerous", "inconsistent", "unreadable"},
    )
    for number, (ranges, wanted) in enumerate((
        ('{"s39":{"min_val":2,"max_val":60},"2*s39":{"min_val":4,"max_val":120},"s23 + 1":{"min_val":null,"max_val":null},"Max(1, u0)":{}}', {"needs-objects"}),
        ('{"__import__(\'os\')":{}}', RUN), ('{"s0.f()":{}}', RUN), ('{"2*s0":{"2*s0":1}}', RUN), ('{"a[0]":{}}', RUN), ('{"9**9**9**9":{}}', RUN), ('{"s0\\u0000":{}}', RUN),
        ('{"u9999999999999":{"min_val":0,"max_val":5}}', RUN), ('{"zuf9999999999999":{"min_val":0,"max_val":5}}', RUN), ('{"u99_999_999_999":{}}', RUN), ('{"u\\u0039999999999":{}}', RUN), ('{"u12":{"min_val":0,"max_val":5},"zuf3":{}}', {"needs-objects"}),
    )):
        sample("export_ranges_%d.pt2" % number, files.archive(program + [("models/model.json", b'{"graph_module":{},"range_constraints":' + ranges.encode() + b"}")]),
               "bounds of sizes that are computed from others", wanted)
    symbols = ["Symbol('s%d')" % n for n in range(30)]
    grown = {"power": ("Pow(Add(%s),Integer(60))" % ",".join(symbols[:12]), RUN), "raised": ("(s0+s1+s2+s3)**60", RUN), "mul": ("Mul(%s)" % ",".join("Add(%s,%s)" % (symbols[n], symbols[29 - n]) for n in range(14)), RUN), "times": ("*".join("(s%d+1)" % n for n in range(14)), RUN),
             "inside": ("Max(1,FloorDiv(Pow(Add(s0,s1,s2,Mul(s3,Add(s4,s5))),20),2))", RUN), "again": ("(((s0+1)**9+1)**9+1)**9", RUN), "natural": ("PowByNatural(Add(%s),9)" % ",".join(symbols[:9]), RUN), "sum_of_products": ("*".join(["(s0*s1+s2)"] * 10), RUN), "minus": ("*".join("(s%d-1)" % n for n in range(14)), RUN),
             "fine_sum": ("Add(%s)" % ",".join(symbols), {"needs-objects"}), "fine_square": ("(s0+s1)**2*(s2+1)", {"needs-objects"}), "fine_floor": ("((s0*s1 + 3)//4)*((s2 - 1)//2)*s3*s4*s5", {"needs-objects"}), "fine_conv": ("Add(Mul(Integer(4),FloorDiv(Add(s0,Integer(-1)),Integer(2))),Pow(s1,Integer(2)),Mul(s0,s1,s2,s3))", {"needs-objects"}),
             "fine_sums": ("+".join("s%d*(s1+%d)" % (n, n) for n in range(200)), {"needs-objects"}), "fine_many": ("Pow(Add(%s),2)" % ",".join("Symbol('s%d')" % n for n in range(40)), {"needs-objects"}), "fine_powers": ("s0**2*s1**3*s2", {"needs-objects"})}
    for name, (text, wanted) in grown.items():
        made = json.dumps({"graph_module": {"graph": {"tensor_values": {"x": {"sizes": [{"as_expr": {"expr_str": text, "hint": {"as_int": 2}}}]}}}}, "range_constraints": {}}).encode()
        sample("export_terms_%s.pt2" % name, files.archive(program + [("models/model.json", made)]), "a formula that is multiplied out", wanted)
    sample("export_formula_elsewhere.pt2", files.archive(program + [("models/model.json", b'{"graph_module":{"name":"2*s0"},"range_constraints":{}}')]), "a formula for a name", RUN)
    sample(
        "export_old.pt2",
        zip_of(
            [
                Member("serialized_exported_program.json", b"{}"),
                Member("serialized_state_dict.pt", torch_zip(BAD)),
                Member("version", b"8.2"),
            ]
        ),
        "an old .pt2 with a bad state dict",
    )
    objects = "{'descr': '|O', 'fortran_order': False, 'shape': (1,), }"
    floats = "{'descr': '<f8', 'fortran_order': False, 'shape': (1,), }"
    sample("npz_object.npz", zip_of([Member("a.npy", npy(objects, BAD))]), "an object array in .npz")
    sample(
        "npz_object_deflated.npz",
        zip_of([Member("x.npy", npy(floats, bytes(8))), Member("a.npy", npy(objects, BAD), method=8)]),
        "the second array is one of objects, deflated",
    )
    sample(
        "npz_pickle.npz",
        zip_of([Member("a.npy", npy(floats, bytes(8))), Member("b.pkl", BAD)]),
        "a pickle beside arrays",
        RUN_OR_DIFFER,
    )
    sample("npz_not_npy.npz", zip_of([Member("a.npy", BAD)]), "a member called .npy that is a pickle", RUN_OR_DIFFER)
    sample(
        "keras_weights.keras",
        zip_of([Member("config.json", b"{}"), Member("metadata.json", b"{}"), Member("model.weights.npz", BAD)]),
        "a Keras archive whose weights are a pickle",
        RUN_OR_DIFFER,
        "modelscan pull request 262",
    )
    sample(
        "keras_weights_npz.keras",
        zip_of([Member("config.json", b"{}"), Member("model.weights.npz", zip_of([Member("a.npy", npy(objects, BAD))]))]),
        "a Keras archive with an array of objects",
    )


def sizes():
    """What the pickle says of storages is not what the archive has."""
    sample(
        "size_numel.pt",
        torch_zip(files.state_dict(w=files.tensor(numel=4000, shape=(4000,)))),
        "a storage with fewer bytes than its tensor wants: torch 1.13 reads past them",
        DIFFER | NOT_DECIDED,
    )
    sample(
        "size_tensor.pt",
        torch_zip(files.state_dict(w=files.tensor(shape=(400,)))),
        "a tensor larger than its storage",
        DIFFER | NOT_DECIDED,
    )
    sample(
        "size_offset.pt",
        torch_zip(files.state_dict(w=files.tensor(offset=1 << 20))),
        "a tensor that begins behind its storage",
        DIFFER | NOT_DECIDED,
    )
    sample(
        "size_overflow.pt",
        torch_zip(files.state_dict(w=files.tensor(shape=(1 << 62, 4), stride=(4, 1)))),
        "a shape whose product overflows",
        DIFFER | NOT_DECIDED,
    )
    sample("size_missing.pt", torch_zip(GOOD, data=None), "a storage that is not there", DIFFER | NOT_DECIDED)
    sample(
        "size_unmentioned.pt",
        torch_zip(GOOD, extra=[("data/99", BAD)]),
        "a storage that no tensor mentions, with a pickle in it",
        RUN_OR_DIFFER,
    )
    sample(
        "size_unmentioned_harmless.pt",
        torch_zip(GOOD, extra=[("data/99", bytes(64))]),
        "a storage that no tensor mentions",
        DIFFER | {"plain"},
    )
    tail = call(
        files.glob("numpy.core.multiarray", "scalar"),
        call(files.glob("numpy", "dtype"), "O8", False, True) + value((3, "|", None, None, None, -1, -1, 0)) + b"b",
        blob(b"A" * 8),
    )
    sample(
        "numpy_object_scalar.pt",
        torch_zip(proto(3, tail)),
        "a numpy scalar of objects with forged flags, made of bytes: pointers",
        RUN_OR_DIFFER | NOT_DECIDED | {"needs-objects"},
    )
    array = reduce_("numpy.core.multiarray", "_reconstruct", files.glob("numpy", "ndarray"), (0,), blob(b"b"))
    forged = call(files.glob("numpy", "dtype"), "O8", False, True) + value((3, "|", None, None, None, -1, -1, 0)) + b"b"
    sample(
        "numpy_object_array.pt",
        torch_zip(proto(3, array + value((1, (1,), forged, False, blob(b"A" * 8))) + b"b")),
        "an array of objects with forged flags, made of bytes: pointers",
        RUN_OR_DIFFER | NOT_DECIDED | {"needs-objects"},
    )
    sample(
        "numpy_memmap_called.pt",
        torch_zip(proto(2, reduce_("numpy", "memmap", "x"))),
        "numpy.memmap opens a file",
        RUN | NOT_DECIDED,
    )
    memmap = reduce_("numpy.core.multiarray", "_reconstruct", files.glob("numpy", "memmap"), (0,), blob(b"b"))
    sample(
        "numpy_memmap.pt",
        torch_zip(proto(3, memmap)),
        "_reconstruct of another class",
        RUN_OR_DIFFER | NOT_DECIDED | {"needs-objects"},
    )


headers()
names()
ends()
further_records()
packed_otherwise()
names_of_modules()
relatives()
sizes()

# SPDX-License-Identifier: Apache-2.0
"""What `ckpt scan` foretells of torch.load(weights_only=True) for files that no torch writes: odd marks, disks, storages without a dtype, TorchScript.

The answers of torch 1.13, 2.6 and 2.14 are written down here. With CKPT_PYTHON, the interpreters that it names are asked as well.
"""

import io
import os
import re
import struct
import subprocess
import sys
import zipfile
import zlib

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import scanned  # noqa: E402
from assemble import FACTS, GOOD, KEYS, MAGIC, STORED, VERSION, files, old_tar, proto, tar_of, value  # noqa: E402

FLOATS = files.FOUR_FLOATS
VERSIONS = ("1.13", "2.6", "2.14")
ALL, NONE, OLD, OLDEST, MIDDLE, NEW = (True, True, True), (False, False, False), (True, False, False), (True, False, False), (True, True, False), (False, True, True)
SOUND = {"data.pkl": GOOD, "data/0": FLOATS, "version": b"3\n"}
# asked of torch in a process of its own
ASK = """
import sys, warnings, torch
warnings.simplefilter("ignore")
print("version", torch.__version__)
for path in sys.argv[1:]:
    try:
        torch.load(path, map_location="cpu", weights_only=True)
        print("load", path, "yes")
    except Exception as error:
        print("load", path, "no", str(error)[:200].replace("\\n", " "))
"""


def archive(**changed):
    """A sound archive but for some records; None: it has none of this name."""
    out = io.BytesIO()
    records = dict(SOUND)
    records.update(changed)
    with zipfile.ZipFile(out, "w", zipfile.ZIP_STORED) as zipped:
        for name, data in records.items():
            if data is not None:
                zipped.writestr("archive/" + name, data)
    return out.getvalue()


# its blocks begin 4,096 + n * 4,093 bytes in front of the end of the file: the first of them at the end record
COMMENT = 4096 + 4093 - 22


def commented(length):
    """A sound archive with a comment: torch's miniz finds the end of some."""
    data = archive()
    return data[:-2] + struct.pack("<H", length) + b"x" * length


def packed(length, front=b""):
    """A text of that many letters behind FRONT, as the pickle of an archive, compressed to a thousandth."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as zipped:
        zipped.writestr("archive/data.pkl", proto(2, front + b"X" + struct.pack("<I", length) + b"a" * length))
        zipped.writestr("archive/version", b"3\n", zipfile.ZIP_STORED)
    return out.getvalue()


def patched(at, form, *numbers):
    """A sound archive with other numbers in its end record (AT from there), or in its first entry of the directory (a negative AT)."""
    data = bytearray(archive())
    start = data.rindex(b"PK\5\6") + at if at >= 0 else data.index(b"PK\1\2") - at
    struct.pack_into(form, data, start, *numbers)
    return bytes(data)


def of_disk_one():
    """Nothing but a disk 1, everywhere."""
    data = bytearray(patched(4, "<HH", 1, 1))
    at = data.find(b"PK\1\2")
    while at >= 0:
        struct.pack_into("<H", data, at + 34, 1)
        at = data.find(b"PK\1\2", at + 4)
    return bytes(data)


def zip64(disk=0, directory=0, here=3, locator=0, disks=1, narrow=(0, 0, 3, 3)):
    data = archive()
    start, end = data.index(b"PK\1\2"), data.rindex(b"PK\5\6")
    record = struct.pack("<IQHHIIQQQQ", 0x06064B50, 44, 45, 45, disk, directory, here, 3, end - start, start)
    return data[:end] + record + struct.pack("<IIQI", 0x07064B50, locator, end, disks) + struct.pack("<IHHHHIIH", 0x06054B50, *narrow, end - start, start, 0)


def storage(module, name, count, view=b""):
    return b"(" + files.text("storage") + files.glob(module, name) + files.text("7") + files.text("cpu") + value(count) + view + b"tQ"


def stream(module, name, count, stored=STORED):
    return MAGIC + VERSION + FACTS + proto(2, value({"w": storage(module, name, count, b"N")})) + KEYS + stored


def storage_in_zip(module, name, count):
    return archive(**{"data.pkl": proto(2, value({"w": storage(module, name, count)})), "data/7": FLOATS, "data/0": None})


def script(main=proto(2, b")"), **more):
    return archive(**{"data.pkl": main, "constants.pkl": proto(2, b")"), "data/0": None}, **more)


ORDERED = files.glob("collections", "OrderedDict") + b")R"
OBJECT = proto(2, b"c__torch__\nM\n)\x81}(X\x08\0\0\0training\x88ub")
CLASS = b"class M(Module):\n  __parameters__ = []\n  __buffers__ = []\n  training : bool\n  def forward(self: __torch__.M,\n    x: Tensor) -> Tensor:\n    return x\n"

def tar(program):
    return tar_of(old_tar(proto(2, program)))


def tar_with_tensor(cls=b"torch\nFloatStorage\n", count=1):
    """One tensor of torch 0.1, which the pickle calls by its number, a text."""
    stored = proto(2, b"K\x01") + proto(2, b"(K\x05X\x03\0\0\0cpuc" + cls + b"t") + struct.pack("<qf", count, 0) + proto(2, b"]")
    tensors = proto(2, b"K\x01") + proto(2, b"(K\x07K\x05ctorch\nFloatTensor\nt") + struct.pack("<qqqq", 1, 1, 1, 0)
    return tar_of(old_tar(proto(2, b"}X\x01\0\0\0wX\x01\0\0\x007Qs"), stored, tensors))


# name: (bytes, answers)
def wide_entry(which=(0, 1, 2), size=False, packed=False, offset=True, field=True, end=False):
    """Some entries of the directory have their numbers in a zip64 field; END: the archive has records of zip64 behind it, too."""
    local, directory, most = bytearray(), bytearray(), 0xFFFFFFFF
    for number, (name, data) in enumerate((("archive/" + name).encode(), data) for name, data in SOUND.items()):
        fields, place, common = [size, packed, offset] if number in which else [False] * 3, len(local), (zlib.crc32(data), len(data), len(data))
        local += struct.pack("<IHHHHHIIIHH", 0x04034B50, 45, 0, 0, 0, 0x21, *common, len(name), 0) + name + data
        inside = b"".join(struct.pack("<Q", n) for n, wanted in zip((len(data), len(data), place), fields) if wanted)
        extra = struct.pack("<HH", 1, len(inside)) + inside if field and inside else b""
        directory += struct.pack("<IHHHHHHIIIHHHHHII", 0x02014B50, 45, 45, 0, 0, 0, 0x21, common[0], most if fields[1] else len(data), most if fields[0] else len(data), len(name), len(extra), 0, 0, 0, 0,
                                 most if fields[2] else place) + name + extra
    out = bytes(local + directory)
    if end:
        out += struct.pack("<IQHHIIQQQQ", 0x06064B50, 44, 45, 45, 0, 0, 3, 3, len(directory), len(local)) + struct.pack("<IIQI", 0x07064B50, 0, len(local) + len(directory), 1)
    return out + struct.pack("<IHHHHIIH", 0x06054B50, 0, 0, 3, 3, len(directory), len(local), 0)


SAMPLES = {
    "sound": (archive(), ALL),
    # torch says Unknown endianness since it has the record
    "byteorder_little": (archive(byteorder=b"little"), ALL),
    "byteorder_big": (archive(byteorder=b"big"), ALL),
    "comment_short": (commented(100), ALL),
    "comment_fits": (commented(COMMENT), ALL),
    "comment_missed": (commented(COMMENT + 1), NONE),
    "comment_fits_long": (commented(COMMENT + 14 * 4093), ALL),
    "comment_missed_long": (commented(COMMENT + 14 * 4093 + 1), NONE),
    "byteorder_zero": (archive(byteorder=b"big\0"), OLDEST),
    "byteorder_zero_more": (archive(byteorder=b"little\0x"), OLDEST),
    "byteorder_empty": (archive(byteorder=b""), OLDEST),
    "byteorder_line": (archive(byteorder=b"little\n"), OLDEST),
    "byteorder_upper": (archive(byteorder=b"LITTLE"), OLDEST),
    "byteorder_case": (archive(ByteOrder=b"junk"), OLDEST),
    # int() of it
    "alignment": (archive(**{".storage_alignment": b"64"}), ALL),
    "alignment_empty": (archive(**{".storage_alignment": b""}), MIDDLE),
    "alignment_word": (archive(**{".storage_alignment": b"junk"}), MIDDLE),
    "alignment_point": (archive(**{".storage_alignment": b"64.0"}), MIDDLE),
    "alignment_zero": (archive(**{".storage_alignment": b"0"}), ALL),
    "alignment_minus": (archive(**{".storage_alignment": b"-64"}), ALL),
    "alignment_blanks": (archive(**{".storage_alignment": b" 6_4 "}), ALL),
    "alignment_two_bars": (archive(**{".storage_alignment": b"6__4"}), MIDDLE),
    "alignment_digits": (archive(**{".storage_alignment": b"1" * 4301}), MIDDLE),
    # of the format, which std::stoull() reads
    "version_none": (archive(version=None), NONE),
    "version_empty": (archive(version=b""), NONE),
    "version_word": (archive(version=b"junk"), NONE),
    "version_0": (archive(version=b"0"), NONE),
    "version_10": (archive(version=b"10"), ALL),
    "version_11": (archive(version=b"11"), NONE),
    "version_minus": (archive(version=b"-5"), NONE),
    "version_more": (archive(version=b" +3abc"), ALL),
    "version_of_package": (archive(version=None, **{".data/version": b"3\n"}), ALL),
    "version_of_package_first": (archive(**{".data/version": b"99\n"}), NONE),
    # disks, of which Python's zipfile does not ask
    "disk_1": (patched(4, "<H", 1), NONE),
    "disk_ffff": (patched(4, "<H", 0xFFFF), NONE),
    "disk_of_directory": (patched(6, "<H", 0xFFFF), NONE),
    "disks_ffff": (patched(4, "<HH", 0xFFFF, 0xFFFF), NONE),
    "disks_1": (patched(4, "<HH", 1, 1), NONE),
    "disks_all_1": (of_disk_one(), ALL),
    "entries_here": (patched(8, "<H", 4), NONE),
    "disk_of_entry_1": (patched(-34, "<H", 1), ALL),
    "disk_of_entry_2": (patched(-34, "<H", 2), NONE),
    "disk_of_entry_ffff": (patched(-34, "<H", 0xFFFF), NONE),
    "wide": (zip64(), ALL),
    "wide_disk": (zip64(disk=1), NONE),
    "wide_directory": (zip64(directory=1), NONE),
    "wide_here": (zip64(here=4), NONE),
    "wide_locator": (zip64(locator=1), ALL),
    "wide_no_disks": (zip64(disks=0), NONE),
    "wide_two_disks": (zip64(disks=2), NONE),
    "wide_narrow_ffff": (zip64(narrow=(0xFFFF, 0xFFFF, 3, 3)), ALL),
    "wide_narrow_here": (zip64(narrow=(0, 0, 0xFFFF, 3)), ALL),
    # numbers of an entry in its zip64 field: until 1.13 the offset counts as it is, if the size does
    "entry_offset": (wide_entry(), NEW),
    "entry_offset_first": (wide_entry((0,)), NEW),
    "entry_offset_last": (wide_entry((2,)), NEW),
    "entry_offset_end": (wide_entry(end=True), NEW),
    "entry_offset_size": (wide_entry(size=True), NEW),
    "entry_offset_packed": (wide_entry(packed=True), ALL),
    "entry_offset_both": (wide_entry(size=True, packed=True), ALL),
    "entry_offset_both_end": (wide_entry(size=True, packed=True, end=True), ALL),
    "entry_size": (wide_entry(size=True, offset=False), ALL),
    "entry_packed": (wide_entry(packed=True, offset=False), ALL),
    "entry_offset_nowhere": (wide_entry(field=False), NONE),
    # classes without a dtype, which a stream is asked for
    "stream_float": (stream("torch", "FloatStorage", 4), ALL),
    "stream_untyped": (stream("torch.storage", "UntypedStorage", 16, struct.pack("<q", 16) + FLOATS), NONE),
    "stream_typed": (stream("torch.storage", "TypedStorage", 4), NONE),
    "zip_float": (storage_in_zip("torch", "FloatStorage", 4), ALL),
    "zip_untyped": (storage_in_zip("torch.storage", "UntypedStorage", 16), ALL),
    "zip_typed": (storage_in_zip("torch.storage", "TypedStorage", 4), NONE),
    # 1.13 gives what has constants.pkl to torch.jit.load, whatever weights_only says
    "script": (script(OBJECT, **{"code/__torch__.py": CLASS}), OLD),
    "script_of_ten": (script(OBJECT, version=b"11", **{"code/__torch__.py": CLASS}), NONE),
    # what is behind STOP nobody reads
    "behind_stop": (archive(**{"data.pkl": proto(2, b"}") + b"I1\n."}), ALL),
    "text_not_utf8": (archive(**{"data.pkl": proto(2, b"U\x01\xff")}), NONE),
    "new_of_function": (archive(**{"data.pkl": proto(2, files.glob("torch._utils", "_rebuild_parameter") + b")\x81")}), NONE),
    # 2.14 compares the record with what the pickle says of it
    "record_longer": (archive(**{"data/0": FLOATS + b"\0"}), MIDDLE),
    "record_longer_by_a_number": (archive(**{"data/0": FLOATS + bytes(4)}), MIDDLE),
    # texts are UTF-8, or halves of pairs
    "unicode_not_utf8": (archive(**{"data.pkl": proto(2, b"X\1\0\0\0\xda")}), NONE),
    "unicode_key_not_utf8": (archive(**{"data.pkl": proto(2, b"}X\2\0\0\0\xc0\x80K\1s")}), NONE),
    "unicode_half": (archive(**{"data.pkl": proto(2, b"X\3\0\0\0\xed\xa0\x80")}), ALL),
    # what __dict__.update() and set_() do not take
    "ordered_none": (archive(**{"data.pkl": proto(2, ORDERED + b"Nb")}), NONE),
    "counter_none": (archive(**{"data.pkl": proto(2, files.glob("collections", "Counter") + b")RNb")}), NEW),
    **{"state_of_three_" + name: (archive(**{"data.pkl": proto(2, files.glob("torch", cls) + made + b"\x89\x89" + ORDERED + b"\x87b")}), NONE)
       for cls in ("Tensor", "FloatTensor") for name, made in ((cls + "_called", b")R"), (cls + "_new", b")\x81"))},
    **{"state_of_four_" + cls: (archive(**{"data.pkl": proto(2, files.glob("torch", cls) + b")R(" + storage("torch", "FloatStorage", 4) + b"K\0K\4\x85K\1\x85tb"), "data/7": FLOATS, "data/0": None}), ALL)
       for cls in ("Tensor", "FloatTensor")},
    # nobody reads it
    "tar_facts": (tar_of([("sys_info", proto(2, b"G" + struct.pack(">d", 0.5))), *old_tar()[1:]]), OLD),
    "tar_unicode": (tar(b"X\1\0\0\0\xda"), NONE),
    "stream_five": (MAGIC + VERSION + FACTS + proto(2, value({"w": storage("torch", "FloatStorage", 4)})) + KEYS + STORED, NONE),
    # of torch 0.1, which 1.13 reads with the same unpickler
    "tar": (tar(value({"a": 1})), OLD),
    "tar_tensor": (tar_with_tensor(), OLD),
    "tar_untyped": (tar_with_tensor(b"torch.storage\nUntypedStorage\n", 4), NONE),
    "tar_untyped_short": (tar_with_tensor(b"torch\nUntypedStorage\n", 4), NONE),
    "tar_typed": (tar_with_tensor(b"torch.storage\nTypedStorage\n"), NONE),
    "tar_float": (tar(b"G" + struct.pack(">d", 0.5)), NONE),
    "tar_short_text": (tar(b"\x8c\x01a"), NONE),
    "tar_counter": (tar(files.glob("collections", "Counter") + b")R"), NONE),
    "tar_ordered": (tar(files.glob("collections", "OrderedDict") + b")R"), OLD),
    "tar_command": (tar(files.glob("os", "getpid") + b")R"), NONE),
    "tar_number": (tar(b"K\x07Q"), NONE),
    # by a path, which says what it is
    "named.safetensors": (archive(), MIDDLE),
    "stream_named.safetensors": (stream("torch", "FloatStorage", 4), MIDDLE),
    "named.Safetensors": (archive(), ALL),
    "empty": (archive(**{"data.pkl": b""}), NONE),
    "script_upper": (archive(**{"Constants.pkl": proto(2, b")")}), ALL),
}


# what torch takes, or not, and the scan does not look at to its end
UNKNOWN = (None, None, None)
SAMPLES.update({
    "packed": (packed(9 << 20), ALL), "packed_known": (packed(1 << 20), ALL),
    "packed_cut": (packed(80 << 20), ALL),
    "packed_refused": (packed(9 << 20, b"\x8c\x01a0"), NONE),
    "packed_number": (packed(80 << 20, b"G" + bytes(8)), NEW),
})
FORETOLD = {"packed": UNKNOWN, "packed_cut": UNKNOWN, "packed_number": (False, None, None)}


def path_of(name):
    return name if "." in name else name + ".pt"


def write(folder):
    for name, (data, _) in SAMPLES.items():
        with open(os.path.join(folder, path_of(name)), "wb") as stream_:
            stream_.write(data)
    return list(SAMPLES)


def check_scan(count, folder, names):
    _, found = scanned.scan(*(os.path.join(folder, path_of(name)) for name in names))
    for name in names:
        one = found[os.path.join(folder, path_of(name))]
        said = tuple(one["weights_only"][version] for version in VERSIONS)
        wanted = FORETOLD.get(name, SAMPLES[name][1])
        count.expect(said == wanted, "%s: weights_only of %s takes it: %s, foretold %s" % (name, ", ".join(VERSIONS), wanted, said))


def check_torch(count, folder, names, command):
    with open(os.path.join(folder, "ask.py"), "w", encoding="utf-8") as script_:
        script_.write(ASK)
    done = subprocess.run(command.split() + ["ask.py", *map(path_of, names)], cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, encoding="utf-8", errors="replace", check=False)
    version = re.search(r"^version (\d+\.\d+)", done.stdout, re.M)
    if not version or version.group(1) not in VERSIONS:
        return
    at = VERSIONS.index(version.group(1))
    answers = {name[:-3] if name.endswith(".pt") else name: said for name, said in re.findall(r"^load (\S+) (yes|no)", done.stdout, re.M)}
    count.expect(len(answers) == len(names), "torch %s says nothing of some" % VERSIONS[at])
    for name, answer in answers.items():
        count.expect((answer == "yes") == SAMPLES[name][1][at], "%s: torch %s says %s" % (name, VERSIONS[at], answer))


def main():
    count = scanned.Count()
    with scanned.Folder("weights-only") as folder:
        os.chmod(folder, 0o755)
        names = write(folder)
        check_scan(count, folder, names)
        for command in filter(None, os.environ.get("CKPT_PYTHON", "").split(";")):
            check_torch(count, folder, names, command)
    count.end()


if __name__ == "__main__":
    main()

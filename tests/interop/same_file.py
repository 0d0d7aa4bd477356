# SPDX-License-Identifier: Apache-2.0
"""Compare a file that ckpt wrote with the one that torch wrote.

`difference(wanted, found)` is for files that have to be equal byte for byte. Up to torch 1.8
storage keys are memory addresses, so two saves never are; `difference_but_for_keys` numbers the
keys by first mention in both pickles, compares pickles and records, and checks the container with a
writer of its own.
"""

import pickletools
import struct
import zipfile
import zlib

STRINGS = ("BINUNICODE", "SHORT_BINUNICODE", "BINUNICODE8")
MEMO = ("BINPUT", "LONG_BINPUT", "PUT", "MEMOIZE")


def read_bytes(path):
    with open(path, "rb") as stream:
        return stream.read()


def read_records(path):
    """[(name without the archive's folder, data)] in the order of the directory."""
    with zipfile.ZipFile(path) as archive:
        return [(info.filename.partition("/")[2], archive.read(info))
                for info in archive.infolist()]


def first_difference(one, other):
    for offset, (left, right) in enumerate(zip(one, other)):
        if left != right:
            return offset
    return min(len(one), len(other))


def operations(data):
    """[(name, argument, bytes, offset)] of a pickle."""
    steps = list(pickletools.genops(data))
    ends = [position for _, _, position in steps[1:]] + [len(data)]
    return [(opcode.name, argument, data[position:end], position)
            for (opcode, argument, position), end in zip(steps, ends)]


def show_operation(step):
    name, argument = step[:2]
    return name if argument is None else "%s %.60r" % (name, argument)


def difference(wanted_path, found_path):
    """"" if the files are equal, else what differs first."""
    wanted, found = read_bytes(wanted_path), read_bytes(found_path)
    if wanted == found:
        return ""
    where = "first difference at 0x%x (%d bytes wanted, %d found)" % (
        first_difference(wanted, found), len(wanted), len(found))
    return "%s; %s" % (where, records_difference(read_records(wanted_path),
                                                 read_records(found_path)))


def records_difference(wanted, found):
    names, other_names = [name for name, _ in wanted], [name for name, _ in found]
    if names != other_names:
        index = first_difference(names, other_names)
        return "record %d: %s wanted, %s found" % (index, names[index:index + 1],
                                                   other_names[index:index + 1])
    for (name, data), (_, other) in zip(wanted, found):
        if data != other:
            return record_difference(name, data, other)
    return "all records are equal, the container differs"


def record_difference(name, wanted, found):
    text = "%s differs at 0x%x" % (name, first_difference(wanted, found))
    if name != "data.pkl":
        return text
    return text + ": " + pickles_difference(operations(wanted), operations(found))


def pickles_difference(wanted, found):
    """What differs first, but for the lengths of frames, which follow from it."""
    wanted, found = ([step for step in steps if step[0] != "FRAME"] for steps in (wanted, found))
    index = first_difference([step[2] for step in wanted], [step[2] for step in found])
    if index >= len(wanted) or index >= len(found):
        return "one pickle ends at operation %d" % index
    before = "; ".join(show_operation(step) for step in wanted[max(0, index - 3):index])
    return "operation %d at 0x%x: %s wanted, %s found, after %s" % (
        index, found[index][3], show_operation(wanted[index]), show_operation(found[index]), before)


def difference_but_for_keys(wanted_path, found_path):
    wanted, found = read_records(wanted_path), read_records(found_path)
    for records, path in ((wanted, wanted_path), (found, found_path)):
        names = [name for name, _ in records]
        if names != old_order(names):
            return "%s: records in the order %s" % (path, names[:5])
        if old_container(records) != read_bytes(path):
            return "%s: the container is not as torch 1.7 writes it" % path
    steps, data = without_addresses(wanted)
    other_steps, other_data = without_addresses(found)
    if [step[2] for step in steps] != [step[2] for step in other_steps]:
        return "data.pkl: " + pickles_difference(steps, other_steps)
    return records_difference(sorted(data.items()), sorted(other_data.items())) \
        if data != other_data else ""


def old_order(names):
    """How torch 1.7 orders the records: storages as text between pickle and version."""
    storages = sorted(name for name in names if name.startswith("data/"))
    return ["data.pkl"] + storages + ["version"]


def without_addresses(records):
    """The pickle's operations and the other records, with keys numbered by first mention."""
    steps = [step for step in operations(dict(records)["data.pkl"]) if step[0] != "FRAME"]
    numbers = number_keys(steps, key_position)
    data = {name: data for name, data in records if name != "data.pkl"}
    return steps, {"data/" + numbers.get(name[5:], name) if name.startswith("data/") else name: data
                   for name, data in data.items()}


def number_keys(steps, position):
    """Put numbers, by first mention, in the place of the keys that POSITION finds. Returns {key: its number as text}."""
    numbers = {}
    for index, step in enumerate(steps):
        if step[0] == "BINPERSID":
            at = position(steps, index)
            if steps[at][0] in STRINGS:
                key = numbers.setdefault(steps[at][1], "key %d" % len(numbers))
                steps[at] = (steps[at][0], key, key.encode(), steps[at][3])
    return numbers


def key_position(steps, index):
    """Where the key is pushed that the persistent id before INDEX has: its third item of five."""
    at = before_memo(steps, index - 1)      # the tuple's own operation
    at = before_memo(steps, at - 1)         # element count
    at = before_memo(steps, at - 1)         # location
    return before_memo(steps, at - 1)


def before_memo(steps, at):
    while steps[at][0] in MEMO:
        at -= 1
    return at


def old_container(records):
    """The zip file of torch 1.7 for these records, of which none is near 4 GiB."""
    output, directory = bytearray(), bytearray()
    for record, data in records:
        name = ("archive/" + record).encode()
        flags, offset, crc = 0x0808 if data else 0x0800, len(output), zlib.crc32(data)
        pad = -(offset + 30 + len(name) + 4) % 64
        output += struct.pack("<IHHHHHIIIHH", 0x04034B50, 0, flags, 0, 0, 0, 0, 0, 0, len(name),
                              4 + pad)
        output += name + b"FB" + struct.pack("<H", pad) + b"Z" * pad + data
        if data:
            output += struct.pack("<IIII", 0x08074B50, crc, len(data), len(data))
        directory += struct.pack("<IHHHHHHIIIHHHHHII", 0x02014B50, 0, 0, flags, 0, 0, 0, crc,
                                 len(data), len(data), len(name), 0, 0, 0, 0, 0, offset) + name
    count, start, end = len(records), len(output), len(output) + len(directory)
    output += directory
    output += struct.pack("<IQHHIIQQQQ", 0x06064B50, 44, 0x031E, 45, 0, 0, count, count,
                          len(directory), start)
    output += struct.pack("<IIQI", 0x07064B50, 0, end, 1)
    output += struct.pack("<IHHHHIIH", 0x06054B50, 0, 0, count, count, len(directory), start, 0)
    return bytes(output)


# ---- legacy streams ----

def read_stream(path):
    """(the pickle's operations, {key: bytes of its storage}, the keys in order) of a legacy stream."""
    data, at = read_bytes(path), 0
    pickles = []
    for _ in range(5):
        end = at
        for opcode, _, position in pickletools.genops(data[at:]):
            end = at + position + 1
        pickles.append(data[at:end])
        at = end
    steps = operations(pickles[3])
    keys = [argument for name, argument, _, _ in operations(pickles[4]) if name in STRINGS]
    return pickles[:3], steps, keys, data[at:]


def difference_of_streams(wanted_path, found_path):
    """"" if the streams are equal but for the keys of storages, which are addresses, and the order that those give them."""
    wanted, found = numbered(*read_stream(wanted_path)), numbered(*read_stream(found_path))
    # addresses of more digits make longer frames
    if [step[0] == "FRAME" or step[2] for step in wanted[1]] != [step[0] == "FRAME" or step[2] for step in found[1]]:
        return "object: " + pickles_difference(wanted[1], found[1])
    return "" if wanted[::2] == found[::2] else "head, keys or storages differ"


def numbered(head, steps, keys, data):
    """The same with keys numbered by first mention. What the storages hold is for a load to compare."""
    numbers = number_keys(steps, key_in_stream)
    return head, steps, (sorted(numbers.get(key, key) for key in keys), len(data))


def key_in_stream(steps, index):
    """Where the key is pushed that the persistent id before INDEX has: its third item of six."""
    for _ in range(5):      # the tuple's operation; what is viewed, if anything; the count, the location
        index = before_memo(steps, index - 1)
    return index

# SPDX-License-Identifier: Apache-2.0
"""What torch.save files hold, read without torch and without ckpt: python's pickle, zipfile and zlib are the judges."""
import collections
import io
import pickle
import struct
import zipfile
import zlib

SIZES = {"Double": 8, "Float": 4, "Half": 2, "BFloat16": 2, "Long": 8, "Int": 4, "Short": 2, "Char": 1, "Byte": 1, "Bool": 1,
         "ComplexDouble": 16, "ComplexFloat": 8, "QInt8": 1, "QUInt8": 1, "QInt32": 4, "Untyped": 1}


class Storage(collections.namedtuple("Storage", "kind key location numel")):
    """As a persistent id names it."""

    @property
    def nbytes(self):
        return self.numel * SIZES[self.kind]


class Call:
    """What a pickle calls, not called: function, arguments, and what was done to the result."""

    def __init__(self, name, arguments):
        self.name, self.arguments, self.state, self.entries, self.items = name, arguments, None, {}, []

    def __setstate__(self, state):
        self.state = state

    def __setitem__(self, key, value):
        self.entries[key] = value

    def append(self, value):
        self.items.append(value)

    def extend(self, values):
        self.items.extend(values)

    def __hash__(self):
        return id(self)


def stand_in(name):
    return type("StandIn", (), {"__new__": lambda cls, *arguments: Call(name, arguments), "name": name})


class OrderedDict(collections.OrderedDict):
    """The one class that is what it says; its attributes (_metadata) are kept."""


class Unpickler(pickle.Unpickler):
    def find_class(self, module, name):
        if (module, name) == ("collections", "OrderedDict"):
            return OrderedDict
        return stand_in(module + "." + name)

    def persistent_load(self, pid):
        kind = pid[1].name.rsplit(".", 1)[1]
        return Storage(kind[:-len("Storage")], pid[2], pid[3], pid[4])


def load_pickle(file):
    return Unpickler(file, encoding="utf-8").load()


def leaves(value, path=()):
    """(path, tensor, its storages) of every tensor or lone storage, in the order of the pickle; by way of dicts, lists and objects."""
    if isinstance(value, Storage):
        yield path, value, [value]
    elif isinstance(value, Call) and "_rebuild" in value.name:
        yield path, value, list(storages_in(value))
    elif isinstance(value, dict):
        for key, item in value.items():
            yield from leaves(item, path + (key,))
    elif isinstance(value, (list, tuple)):
        for i, item in enumerate(value):
            yield from leaves(item, path + (i,))
    elif isinstance(value, Call):
        for part in (value.arguments, value.items, value.entries, value.state):
            yield from leaves(part, path + ("?",))


def storages_in(value):
    if isinstance(value, Storage):
        yield value
    elif isinstance(value, dict):
        for item in value.values():
            yield from storages_in(item)
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from storages_in(item)
    elif isinstance(value, Call):
        for part in (value.arguments, value.items, value.entries, value.state):
            yield from storages_in(part)


def is_entry(value, path):
    """Can what is at PATH be left out: is it an entry of a dict, with only dicts, lists and tuples above?"""
    for key in path[:-1]:
        if not isinstance(value, (dict, list, tuple)):
            return False
        value = value[key]
    return isinstance(value, dict)


Record = collections.namedtuple("Record", "name begin size crc end_of_crc stored header end")


class Zip:
    """A torch.save archive: its object, and where each record is."""
    checksums = True

    def __init__(self, data):
        self.data, self.records = data, {}
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            for info in archive.infolist():
                name_len, extra_len = struct.unpack_from("<HH", data, info.header_offset + 26)
                flags, = struct.unpack_from("<H", data, info.header_offset + 6)
                begin = info.header_offset + 30 + name_len + extra_len
                end = begin + info.compress_size
                inner = info.filename.split("/", 1)[1]
                self.records[inner] = Record(inner, begin, info.compress_size, info.CRC, end + 8 if flags & 8 else begin,
                                             info.compress_type == zipfile.ZIP_STORED, info.header_offset,
                                             end + 16 if flags & 8 else end)
        self.bytes = {name[len("data/"):]: self.unpacked(name) for name in self.records if name.startswith("data/")}
        self.object = load_pickle(io.BytesIO(self.unpacked("data.pkl")))

    def unpacked(self, name):
        """zipfile would not give what was saved without checksums."""
        record = self.records[name]
        there = self.data[record.begin:record.begin + record.size]
        return there if record.stored else zlib.decompress(there, -15)

    def state(self, data, name):
        """Of a record in DATA, which is what is left of the file: "proven", "unproven", "lost"."""
        record = self.records[name]
        there = data[record.begin:record.begin + record.size]
        if len(there) < record.size:
            return "lost"
        if not record.size:
            return "proven"
        if not record.crc or record.end_of_crc > len(data):
            return "unproven"
        if record.stored:
            return "proven" if zlib.crc32(there) == record.crc else "lost"
        try:
            whole = zlib.decompress(there, -15)
        except zlib.error:
            return "lost"
        return "proven" if zlib.crc32(whole) == record.crc else "lost"

    def pickle_state(self, data):
        return self.state(data, "data.pkl")

    def storage_state(self, data, storage):
        return self.state(data, "data/" + storage.key)


class Legacy:
    """A legacy stream: five pickles, then the storages."""
    checksums = False

    def __init__(self, data):
        self.data, self.places, self.bytes = data, {}, {}
        file = io.BytesIO(data)
        for _ in range(3):
            load_pickle(file)
        self.object = load_pickle(file)
        keys = load_pickle(file)
        self.end_of_pickles = at = file.tell()
        known = {storage.key: storage for storage in storages_in(self.object)}
        for key in keys:
            numel, = struct.unpack_from("<q", data, at)
            assert numel == known[key].numel
            self.places[key] = at + 8, known[key].nbytes
            at += 8 + known[key].nbytes
            self.bytes[key] = data[at - known[key].nbytes:at]

    def pickle_state(self, data):
        return "unproven" if len(data) >= self.end_of_pickles else "lost"

    def storage_state(self, data, storage):
        begin, size = self.places[storage.key]
        return "unproven" if begin + size <= len(data) or not size else "lost"


def read(data):
    return Zip(data) if data[:4] == b"PK\3\4" else Legacy(data)


WORST = ("proven", "unproven", "lost")


def states(whole, left):
    """{path: state} of every tensor of WHOLE when only the bytes LEFT are there; None: the pickle is not."""
    first = whole.pickle_state(left)
    if first == "lost":
        return None
    found = {}
    for path, _, storages in leaves(whole.object):
        each = [whole.storage_state(left, storage) for storage in storages] + [first]
        found[path] = max(each, key=WORST.index)
    return found


def same(one, other, bytes_of_one, bytes_of_other, gone=(), path=()):
    """What differs between two objects, but for entries at the paths GONE, which the other has not; None: nothing."""
    if path in gone:
        return None
    if isinstance(one, Storage) and isinstance(other, Storage):
        if one[0] != other[0] or one[2:] != other[2:]:
            return "%s: %s is %s" % (path, one, other)
        return None if bytes_of_one(one) == bytes_of_other(other) else "%s: other bytes" % (path,)
    if isinstance(one, dict) and isinstance(other, dict):
        stay = [key for key in one if path + (key,) not in gone]
        if stay != list(other):
            return "%s: keys %s, wanted %s" % (path, list(other)[:9], stay[:9])
        pairs = [(one[key], other[key], key) for key in stay]
        if vars(one) != vars(other) if hasattr(one, "__dict__") else False:
            return "%s: other attributes" % (path,)
    elif isinstance(one, (list, tuple)) and type(one) is type(other) and len(one) == len(other):
        pairs = [(one[i], other[i], i) for i in range(len(one))]
    elif isinstance(one, Call) and isinstance(other, Call):
        if one.name != other.name:
            return "%s: %s is %s" % (path, one.name, other.name)
        pairs = [(one.arguments, other.arguments, "?"), (one.items, other.items, "?"), (one.entries, other.entries, "?"),
                 (one.state, other.state, "?")]
    elif isinstance(one, type) and isinstance(other, type):
        return None if one.name == other.name else "%s: %s is %s" % (path, one.name, other.name)
    else:
        return None if one == other or (one != one and other != other) else "%s: %r is %r" % (path, one, other)
    for first, second, key in pairs:
        wrong = same(first, second, bytes_of_one, bytes_of_other, gone, path + (key,))
        if wrong:
            return wrong
    return None

# SPDX-License-Identifier: Apache-2.0
"""Data files of DCP directories: archives one behind the other, each of which somebody reads alone; and who opens the whole file takes them for one, and goes by offsets from its beginning."""

import struct

from assemble import BAD, DIFFER, FACTS, GOOD, MAGIC, RUN_OR_DIFFER, VERSION, files, legacy, member, proto, sample, stored, torch_zip, value, zip_of
from rows import LENGTH, directory, hiding, located, pointed, short_end, small, zip64_record

OTHER = proto(2, value({"b": "other"}))


def rows():
    first, second = torch_zip(GOOD), torch_zip(BAD)
    sample("rows_fine.distcp", first + first + first, "three items", {"plain"})
    sample("rows_fine_zeros.distcp", first + bytes(40) + first + bytes(2000) + first, "zeros between them", {"plain"})
    sample("rows_bad.distcp", first + second + first, "three items, one is a call")
    fake = small(BAD)
    sample("rows_two_views.distcp", fake[:-22] + small(GOOD)[:-22] + short_end(*directory(fake)), "one directory counted from the start, another from the end", RUN_OR_DIFFER)
    for count in (1, 5, 20, 21, 22, 100):
        for zeros in (0, 30):
            junk = b"\1" * count + bytes(zeros)
            sample("rows_between_%d_%d.distcp" % (count, zeros), first + junk + first, "other bytes than zeros between items", DIFFER)
            sample("rows_behind_%d_%d.distcp" % (count, zeros), first + junk, "... behind the last", DIFFER)


def with_record(name, padding):
    """A checkpoint without zip64, with one record more at its end, and so many bytes in front of the numbers."""
    field = b"FB" + struct.pack("<H", padding - 4) + bytes(padding - 4)
    return zip_of([member("data.pkl", GOOD), member("data/0", files.FOUR_FLOATS, local_extra=field), member("version", b"3\n")] + ([member(name, b"big")] if name else []))


def located_elsewhere():
    """The zip64 locator of the last archive, from the beginning of the file, points into the numbers of another; or of an archive into its own."""
    last, good = stored(bytes(2000)), torch_zip(GOOD)
    place = located(last)
    for name, pickle in (("call", BAD), ("other", OTHER)):
        for front in (b"", good):
            where = "_second" if front else ""
            # Python 3.11 and later want a record that is as long as what lies between it and the locator
            between = len(front + stored(bytes(LENGTH)))
            for reader, length in (("torch", 44), ("python", 44 + between), ("python_of_three", 44 + between + len(good))):
                row = hiding(pickle, place, lambda *said, length=length: zip64_record(*said, length), front)
                sample("located_%s_%s%s.distcp" % (name, reader, where), row + (good if "three" in reader else b"") + last, "the locator of the last archive points to a record in the numbers of another", RUN_OR_DIFFER)
        alone = pointed(hiding(pickle, place, zip64_record), place)
        for what, row in (("alone", alone), ("last", good + alone), ("first", alone + good)):
            sample("located_in_itself_%s_%s.distcp" % (name, what), row, "the locator of an archive points into its own numbers", RUN_OR_DIFFER)
        # without zip64: the offset in the end record; with what looks like the end of an archive behind that directory, and the next one
        short = small(GOOD, bytes(2000))
        _, nbytes, off = directory(short)
        for ending, behind in (("open", lambda *said: b""), ("ended", short_end), ("followed", lambda *said: short_end(*said) + b"PK\3\4")):
            sample("located_short_%s_%s.distcp" % (name, ending), hiding(pickle, off + nbytes, behind, folder="archive") + short, "the offset of the last directory is that of one in the numbers of the first", RUN_OR_DIFFER)
    for what, at in (("nowhere", place + 1), ("outside", len(last) + 9), ("in_front", 0)):
        sample("located_%s.distcp" % what, pointed(last, at), "the locator points to no record", DIFFER)
    sample("located_in_numbers.distcp", stored(bytes(LENGTH)) + last, "the locator of the last points into the numbers of the first, where no record is", {"plain"})
    # of items of the same size, as torch writes them, the whole file is the first
    sample("located_same.distcp", stored(b"\1" * 1000) + stored(b"\2" * 1000), "two items of the same size", {"plain"})
    # of items whose directories lie as far behind, the first, with as many records as the last has
    for name, first, last, wanted in (("fewer", ".data/serialization_id", None, {"plain"}), ("more", None, ".data/serialization_id", {"plain"}), ("without_order", "byteorder", None, DIFFER), ("same", "byteorder", "byteorder", {"plain"})):
        first = with_record(first, 300)
        short = directory(first)[2] - directory(with_record(last, 4))[2]
        sample("located_as_far_%s.distcp" % name, first + with_record(last, 4 + short), "two items whose directories begin as far behind", wanted)
    sample("located_same_three.distcp", stored(b"\1" * 1000) + stored(b"\2" * 1000) + stored(b"\3" * 1000), "three items of the same size", {"plain"})


    row = torch_zip(GOOD) + torch_zip(GOOD)
    for name, data in (("as_such", row), ("behind", b"\1\2\3\4" * 5 + torch_zip(GOOD)), ("zeros", torch_zip(GOOD) + bytes(64) + torch_zip(GOOD))):
        for ending in ("pt", "distcp"):
            sample("row_in_numbers_%s.%s" % (name, ending), stored(data), "a row of archives as the numbers of an item, which are no data file", DIFFER)


def no_items():
    """torch leaves a data file that is empty where a writer has more threads than items."""
    sample("no_items.distcp", b"", "a data file without items", {"plain"})
    sample("no_items.pt", b"", "an empty checkpoint", {"unreadable"})


def streams():
    stream = legacy()
    for name, more in (("call", BAD), ("stream", MAGIC + VERSION + FACTS + BAD), ("junk", b"\1" * 8), ("archive", torch_zip(GOOD))):
        sample("stream_item_%s.distcp" % name, stream + more, "a stream of torch, and more behind it", RUN_OR_DIFFER)
    sample("stream_item_fine.distcp", stream, "a stream of torch", {"plain"})
    sample("stream_item_cut.distcp", stream[:-1], "... that is cut off", {"unreadable"})


rows()
no_items()
located_elsewhere()
streams()

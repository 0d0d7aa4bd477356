/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where an archive ends, and where its directory is: of one file, and of archives one behind the
 * other (data files of DCP directories).
 *
 * What must stay true: readers disagree about the end record, the zip64 locator and the start of
 * the directory. Where two of them could find different directories, that is a finding; which one
 * is read here matters less.
 */
#include "scan/loaders/zip.h"

#include "base/reader.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum {
	END_BYTES = 22,
	END64_BYTES = 56,
	LOCATOR_BYTES = 20,
	SIG_END64 = 0x06064B50,
	SIG_END = 0x06054B50,
	SIG_LOCATOR = 0x07064B50,
	Z16 = 0xFFFF,
	MOST_PADDING = 1 << 20,
};
static const uint32_t Z32 = 0xFFFFFFFF;

struct end_records {
	uint64_t count, size, off; /* of the directory */
	uint64_t here;		   /* of its entries, those on this disk */
	uint32_t disk, directory_disk;
	uint64_t at;		   /* the first of the end records */
};

bool ckpt_loose_zip_at(struct ckpt_loose_zip *zip, uint64_t off, void *buf, size_t len)
{
	const uint8_t *bytes;

	if (off > ckpt_source_size(zip->source) || len > ckpt_source_size(zip->source) - off)
		return false;
	if (!zip->window.bytes || len > zip->window.cap / 8)
		return ckpt_source_read(zip->source, off, buf, len, NULL) == 0;
	if (ckpt_window_read(&zip->window, off, len, &bytes, NULL) < 0)
		return false;
	memcpy(buf, bytes, len);
	return true;
}

bool ckpt_loose_zip_has(struct ckpt_loose_zip *zip, uint64_t off, uint32_t signature)
{
	uint8_t bytes[4];
	struct ckpt_reader r = { bytes, 4, 0, false };

	return ckpt_loose_zip_at(zip, off, bytes, 4) && ckpt_read_u32(&r) == signature;
}

/* ---- the end records ---- */

/* The last one, as all readers look for it. */
static bool find_end(struct ckpt_loose_zip *zip, uint64_t *out)
{
	uint64_t size = ckpt_source_size(zip->source);
	size_t len = size < CKPT_LOOSE_END_WINDOW ? (size_t)size : CKPT_LOOSE_END_WINDOW;
	uint8_t *tail;
	bool found = false;

	if (size >= END_BYTES &&
	    ckpt_loose_zip_has(zip, size - END_BYTES, SIG_END)) { /* nearly always */
		*out = size - END_BYTES;
		return true;
	}
	tail = malloc(len + 1);
	if (!tail) {
		zip->s->no_memory = true;
		return false;
	}
	if (ckpt_loose_zip_at(zip, size - len, tail, len))
		for (size_t i = len >= END_BYTES ? len - END_BYTES + 1 : 0; !found && i-- > 0;) {
			found = !memcmp(tail + i, "PK\5\6", 4);
			*out = size - len + i;
		}
	free(tail);
	return found;
}

/* Where a zip64 end record is: right in front of its locator, whatever the locator says. */
static void read_end64(struct ckpt_loose_zip *zip, uint64_t end_off, struct end_records *ends)
{
	uint8_t bytes[END64_BYTES];
	struct ckpt_reader r = { bytes, LOCATOR_BYTES, 0, false };
	uint64_t at, says, here, count, size, off, length;
	uint32_t disk, directory_disk, disks;

	if (end_off < LOCATOR_BYTES + END64_BYTES)
		return;
	if (!ckpt_loose_zip_has(zip, end_off - LOCATOR_BYTES, SIG_LOCATOR)) {
		if (ckpt_loose_zip_has(zip, end_off - LOCATOR_BYTES - END64_BYTES, SIG_END64))
			ckpt_loose_zip_odd(zip, NULL, end_off - LOCATOR_BYTES - END64_BYTES, "a zip64 end record without its locator, which zipimport of Python does not miss");
		return;
	}
	if (!ckpt_loose_zip_at(zip, end_off - LOCATOR_BYTES, bytes, LOCATOR_BYTES))
		return;
	ckpt_read_u32(&r);
	disk = ckpt_read_u32(&r);
	says = ckpt_read_u64(&r);
	disks = ckpt_read_u32(&r);
	at = end_off - LOCATOR_BYTES - END64_BYTES;
	zip->has_locator = true;
	zip->located = says;
	/* torch goes where it points, Python takes what lies in front, or goes there as well; of a row: check_locator() */
	if (says != at && ckpt_loose_zip_has(zip, at, SIG_END64) && !zip->in_row)
		ckpt_loose_zip_odd(zip, NULL, end_off - LOCATOR_BYTES,
				   "the zip64 locator points to 0x%" PRIx64
				   ", the record in front of it lies at 0x%" PRIx64,
				   says, at);
	zip->has_disks |= disks != 1;
	if (disk || disks > 1)
		ckpt_loose_zip_odd(zip, NULL, end_off - LOCATOR_BYTES,
				   "the zip64 locator names another disk");
	if (!ckpt_loose_zip_has(zip, at, SIG_END64)) {
		if (says > end_off || !ckpt_loose_zip_has(zip, says, SIG_END64)) {
			ckpt_loose_zip_odd(zip, NULL, end_off - LOCATOR_BYTES,
					   "the zip64 locator points to nothing");
			return;
		}
		ckpt_loose_zip_odd(zip, NULL, says,
				   "the zip64 end record does not lie in front of its locator");
		at = says;
	}
	if (!ckpt_loose_zip_at(zip, at, bytes, END64_BYTES))
		return;
	r = (struct ckpt_reader){ bytes, END64_BYTES, 0, false };
	ckpt_read_u32(&r);
	length = ckpt_read_u64(&r);
	ckpt_read_u32(&r);
	disk = ckpt_read_u32(&r);
	directory_disk = ckpt_read_u32(&r);
	here = ckpt_read_u64(&r);
	count = ckpt_read_u64(&r);
	size = ckpt_read_u64(&r);
	off = ckpt_read_u64(&r);
	if ((ends->count != Z16 && ends->count != count) ||
	    (ends->size != Z32 && ends->size != size) || (ends->off != Z32 && ends->off != off))
		ckpt_loose_zip_odd(zip, NULL, at,
				   "the end records disagree: %" PRIu64
				   " records, directory of %" PRIu64 " bytes at 0x%" PRIx64
				   "; zip64: %" PRIu64 ", %" PRIu64 ", 0x%" PRIx64,
				   ends->count, ends->size, ends->off, count, size, off);
	if (ends->size <= end_off)
		zip->narrow_off = end_off - ends->size;
	if (length != END64_BYTES - 12)
		ckpt_loose_zip_odd(zip, NULL, at, "a zip64 end record of another length");
	*ends = (struct end_records){ count, size, off, here, disk, directory_disk, at };
}

/*
 * miniz looks for the record at OFF in blocks of 4,096 bytes, from the end of the file, 4,093 apart. Where the next one would begin in
 * front of the file, it begins nowhere instead: mz_zip_reader_locate_header_sig() subtracts without a sign.
 */
static bool is_missed_by_miniz(uint64_t off, uint64_t size)
{
	enum { MINIZ_BLOCK = 4096, MINIZ_STEP = 4093 };

	return size > MINIZ_BLOCK && off < (size - MINIZ_BLOCK) % MINIZ_STEP;
}

static bool read_ends(struct ckpt_loose_zip *zip, struct end_records *ends)
{
	uint8_t bytes[END_BYTES];
	struct ckpt_reader r = { bytes, END_BYTES, 0, false };
	uint64_t off;

	if (!find_end(zip, &off) || !ckpt_loose_zip_at(zip, off, bytes, END_BYTES))
		return false;
	ckpt_read_u32(&r);
	ends->disk = ckpt_read_u16(&r);
	ends->directory_disk = ckpt_read_u16(&r);
	ends->here = ckpt_read_u16(&r);
	ends->count = ckpt_read_u16(&r);
	ends->size = ckpt_read_u32(&r);
	ends->off = ckpt_read_u32(&r);
	ends->at = off;
	zip->end = off + END_BYTES + ckpt_read_u16(&r);
	zip->ends_off = off;
	zip->short_end = (struct ckpt_loose_directory){ ends->off, ends->count };
	zip->is_missed = is_missed_by_miniz(off, ckpt_source_size(zip->source));
	if (zip->end > ckpt_source_size(zip->source))
		ckpt_loose_zip_odd(zip, NULL, off, "the comment of the archive is cut off");
	read_end64(zip, off, ends);
	/* miniz, mz_zip_reader_read_central_dir() */
	zip->has_disks |= ends->here != ends->count || ends->disk != ends->directory_disk || ends->disk > 1;
	zip->disk = ends->disk;
	zip->ends_off = ends->at;
	return true;
}

/* Offsets count from the start of the archive, which need not be that of the file. */
static bool place_directory(struct ckpt_loose_zip *zip, const struct end_records *ends)
{
	uint64_t straight = ends->off, behind = ends->at >= ends->size ? ends->at - ends->size : 0;
	bool at_straight, at_behind;

	zip->base = 0;
	zip->directory_end = ends->at;
	if (!ends->count && !ends->size) {
		zip->directory_off = ends->at;
		return true;
	}
	at_straight = straight < ends->at && ckpt_loose_zip_has(zip, straight, CKPT_LOOSE_ENTRY);
	at_behind = ends->size <= ends->at && behind >= straight &&
		    ckpt_loose_zip_has(zip, behind, CKPT_LOOSE_ENTRY);
	/* of a row, no reader of this archive alone looks there, and of the file as one: ckpt_loose_zip_seen_as_one() */
	if (at_straight && at_behind && straight != behind && !zip->in_row)
		ckpt_loose_zip_odd(zip, NULL, straight,
				   "there are two directories, at 0x%" PRIx64 " and at 0x%" PRIx64,
				   straight, behind);
	if (!at_straight && !at_behind)
		return false;
	/* some count its size back from the end, and find another */
	if (!at_behind)
		ckpt_loose_zip_odd(zip, NULL, straight,
				   "the directory is said to have %" PRIu64
				   " bytes, up to its end there are %" PRIu64,
				   ends->size, ends->at - straight);
	/* what is in front is looked at by itself, and so is the other directory */
	zip->directory_off = at_behind ? behind : straight;
	zip->base = at_behind ? behind - straight : 0;
	return true;
}

/* Of a row the locator points into its own archive, as who reads that alone follows it. */
static void check_locator(struct ckpt_loose_zip *zip, uint64_t at)
{
	if (zip->in_row && zip->has_locator && zip->located != at - zip->base)
		ckpt_loose_zip_odd(zip, NULL, at, "the zip64 locator points to 0x%" PRIx64 " of its archive, the record in front of it lies at 0x%" PRIx64, zip->located, at - zip->base);
}

bool ckpt_loose_zip_find(struct ckpt_loose_zip *zip)
{
	struct end_records ends = { 0 };

	if (!read_ends(zip, &ends) || !place_directory(zip, &ends))
		return false;
	check_locator(zip, ends.at);
	zip->said = ends.count;
	return true;
}

bool ckpt_loose_zip_seen_as_one(struct ckpt_loose_zip *zip, struct ckpt_loose_directory *out)
{
	uint8_t bytes[END64_BYTES];
	struct ckpt_reader r = { bytes, END64_BYTES, 0, false };

	*out = zip->short_end;
	if (zip->has_locator && ckpt_loose_zip_has(zip, zip->located, SIG_END64) && ckpt_loose_zip_at(zip, zip->located, bytes, END64_BYTES)) {
		ckpt_read_bytes(&r, 32); /* up to how many entries there are */
		out->count = ckpt_read_u64(&r);
		ckpt_read_u64(&r); /* its size */
		out->off = ckpt_read_u64(&r);
	}
	return out->count && ckpt_loose_zip_has(zip, out->off, CKPT_LOOSE_ENTRY);
}

/* ---- a row of archives ---- */

/* Behind the last byte in front of END that is no zero; END, if these are very many. */
static uint64_t behind_zeros(const struct ckpt_source *source, uint64_t end)
{
	uint8_t block[512];
	uint64_t at = end;

	while (at && end - at <= MOST_PADDING) {
		size_t len = at < sizeof(block) ? (size_t)at : sizeof(block);

		if (ckpt_source_read(source, at - len, block, len, NULL) < 0)
			return end;
		while (len && !block[len - 1])
			len--, at--;
		if (len)
			return at;
	}
	return at ? end : 0;
}

uint64_t ckpt_loose_row_end(const struct ckpt_source *source, uint64_t end)
{
	/* an end record may end in zeros of its own: it begins in front of the last byte that is none, and what is behind it is zeros */
	uint64_t last = behind_zeros(source, end), at = last > END_BYTES ? last - END_BYTES : 0;
	uint8_t bytes[2 * END_BYTES];
	size_t len = end - at < sizeof(bytes) ? (size_t)(end - at) : sizeof(bytes);

	if (ckpt_source_read(source, at, bytes, len, NULL) < 0)
		return 0;
	for (size_t i = 0; i < last - at && len - i >= END_BYTES; i++)
		if (!memcmp(bytes + i, "PK\5\6", 4) && !bytes[i + END_BYTES - 2] && !bytes[i + END_BYTES - 1])
			return at + i + END_BYTES;
	return 0;
}

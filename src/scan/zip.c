/* SPDX-License-Identifier: Apache-2.0 */
#include "scan/zip.h"

#include "base/grow.h"
#include "base/reader.h"
#include "base/text.h"
#include "zipfmt/index.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
	LOCAL_BYTES = 30,
	ENTRY_BYTES = 46,
	END_BYTES = 22,
	END64_BYTES = 56,
	LOCATOR_BYTES = 20,
	WINDOW = 64 * 1024 + END_BYTES,
	SIG_LOCAL = 0x04034B50,
	SIG_ENTRY = 0x02014B50,
	SIG_END64 = 0x06064B50,
	SIG_END = 0x06054B50,
	SIG_LOCATOR = 0x07064B50,
	Z16 = 0xFFFF,
	UNICODE_NAME = 0x7075,
	MOST_PADDING = 1 << 20,
	FOLDER_ATTRIBUTE = 0x10, /* of MS-DOS; miniz, mz_zip_reader_is_file_a_directory() */
};
static const uint32_t Z32 = 0xFFFFFFFF;
static const uint64_t MOST_DIRECTORY = 256 << 20;

struct ends {
	uint64_t count, size, off; /* of the directory */
	uint64_t at;		   /* the first of the end records */
};

void ckpt_loose_zip_odd(struct ckpt_loose_zip *zip, const struct ckpt_loose_entry *e, uint64_t off,
			const char *fmt, ...)
{
	const char *before = zip->s->where;
	char text[600];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	if (e)
		ckpt_scan_enter(zip->s, e->name, e->name_len);
	ckpt_scan_find(zip->s, CKPT_SCAN_INCONSISTENT, "archive", e ? CKPT_NO_OFFSET : off, "%s",
		       text);
	zip->s->where = before;
}

bool ckpt_loose_zip_add(struct ckpt_loose_zip *zip, const struct ckpt_loose_entry *e)
{
	struct ckpt_loose_entry *grown =
		ckpt_grow(zip->entries, zip->count, &zip->cap, sizeof(*grown));

	if (!grown) {
		zip->s->no_memory = true;
		return false;
	}
	zip->entries = grown;
	zip->entries[zip->count++] = *e;
	return true;
}

static bool read_at(struct ckpt_loose_zip *zip, uint64_t off, void *buf, size_t len)
{
	return off <= ckpt_source_size(zip->source) && len <= ckpt_source_size(zip->source) - off &&
	       ckpt_source_read(zip->source, off, buf, len, NULL) == 0;
}

static bool has_signature(struct ckpt_loose_zip *zip, uint64_t off, uint32_t signature)
{
	uint8_t bytes[4];
	struct ckpt_reader r = { bytes, 4, 0, false };

	return read_at(zip, off, bytes, 4) && ckpt_read_u32(&r) == signature;
}

/* ---- the end records ---- */

/* The last one, as all readers look for it. */
static bool find_end(struct ckpt_loose_zip *zip, uint64_t *out)
{
	uint64_t size = ckpt_source_size(zip->source);
	size_t len = size < WINDOW ? (size_t)size : WINDOW;
	uint8_t *tail;
	bool found = false;

	if (size >= END_BYTES &&
	    has_signature(zip, size - END_BYTES, SIG_END)) { /* nearly always */
		*out = size - END_BYTES;
		return true;
	}
	tail = malloc(len + 1);
	if (!tail) {
		zip->s->no_memory = true;
		return false;
	}
	if (read_at(zip, size - len, tail, len))
		for (size_t i = len >= END_BYTES ? len - END_BYTES + 1 : 0; !found && i-- > 0;) {
			found = !memcmp(tail + i, "PK\5\6", 4);
			*out = size - len + i;
		}
	free(tail);
	return found;
}

/* Where a zip64 end record is: right in front of its locator, whatever the locator says. */
static void read_end64(struct ckpt_loose_zip *zip, uint64_t end_off, struct ends *ends)
{
	uint8_t bytes[END64_BYTES];
	struct ckpt_reader r = { bytes, LOCATOR_BYTES, 0, false };
	uint64_t at, says, count, size, off, length;
	uint32_t disk, disks;

	if (end_off < LOCATOR_BYTES + END64_BYTES ||
	    !has_signature(zip, end_off - LOCATOR_BYTES, SIG_LOCATOR))
		return;
	if (!read_at(zip, end_off - LOCATOR_BYTES, bytes, LOCATOR_BYTES))
		return;
	ckpt_read_u32(&r);
	disk = ckpt_read_u32(&r);
	says = ckpt_read_u64(&r);
	disks = ckpt_read_u32(&r);
	at = end_off - LOCATOR_BYTES - END64_BYTES;
	/* torch goes where it points, Python takes what lies in front, or goes there as well */
	if (says != at && has_signature(zip, at, SIG_END64) && !zip->s->is_dcp)
		ckpt_loose_zip_odd(zip, NULL, end_off - LOCATOR_BYTES,
				   "the zip64 locator points to 0x%" PRIx64
				   ", the record in front of it lies at 0x%" PRIx64,
				   says, at);
	if (disk || disks > 1)
		ckpt_loose_zip_odd(zip, NULL, end_off - LOCATOR_BYTES,
				   "the zip64 locator names another disk");
	if (!has_signature(zip, at, SIG_END64)) {
		if (says > end_off || !has_signature(zip, says, SIG_END64)) {
			ckpt_loose_zip_odd(zip, NULL, end_off - LOCATOR_BYTES,
					   "the zip64 locator points to nothing");
			return;
		}
		ckpt_loose_zip_odd(zip, NULL, says,
				   "the zip64 end record does not lie in front of its locator");
		at = says;
	}
	if (!read_at(zip, at, bytes, END64_BYTES))
		return;
	r = (struct ckpt_reader){ bytes, END64_BYTES, 0, false };
	ckpt_read_u32(&r);
	length = ckpt_read_u64(&r);
	ckpt_read_bytes(&r, 2 + 2 + 4 + 4 + 8);
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
	if (length != END64_BYTES - 12)
		ckpt_loose_zip_odd(zip, NULL, at, "a zip64 end record of another length");
	*ends = (struct ends){ count, size, off, at };
}

static bool read_ends(struct ckpt_loose_zip *zip, struct ends *ends)
{
	uint8_t bytes[END_BYTES];
	struct ckpt_reader r = { bytes, END_BYTES, 0, false };
	uint64_t off;

	if (!find_end(zip, &off) || !read_at(zip, off, bytes, END_BYTES))
		return false;
	ckpt_read_u64(&r);
	ckpt_read_u16(&r);
	ends->count = ckpt_read_u16(&r);
	ends->size = ckpt_read_u32(&r);
	ends->off = ckpt_read_u32(&r);
	ends->at = off;
	zip->end = off + END_BYTES + ckpt_read_u16(&r);
	zip->ends_off = off;
	if (zip->end > ckpt_source_size(zip->source))
		ckpt_loose_zip_odd(zip, NULL, off, "the comment of the archive is cut off");
	read_end64(zip, off, ends);
	zip->ends_off = ends->at;
	return true;
}

/* By the next archive, with zeros in front that fill up to where it begins. */
static bool is_followed(struct ckpt_loose_zip *zip, uint64_t off)
{
	uint8_t block[512] = { 0 };
	size_t zeros = 0;

	for (unsigned n = 0; n < MOST_PADDING / sizeof(block); n++, off += zeros) {
		uint64_t left = ckpt_source_size(zip->source) - off;
		size_t len = left < sizeof(block) ? (size_t)left : sizeof(block);

		if (!len || !read_at(zip, off, block, len))
			return false;
		for (zeros = 0; zeros < len && !block[zeros];)
			zeros++;
		if (zeros < len)
			return has_signature(zip, off + zeros, SIG_LOCAL);
	}
	return false;
}

/* Does a directory at OFF have its end record, and nothing but records of its own between the start of the file and there? */
static bool is_of_first(struct ckpt_loose_zip *zip, uint64_t off)
{
	uint8_t bytes[ENTRY_BYTES];
	uint64_t at = off;

	while (has_signature(zip, at, SIG_ENTRY) && read_at(zip, at, bytes, ENTRY_BYTES))
		at += ENTRY_BYTES + (bytes[28] | (uint64_t)bytes[29] << 8) +
		      (bytes[30] | (uint64_t)bytes[31] << 8) +
		      (bytes[32] | (uint64_t)bytes[33] << 8);
	if (has_signature(zip, at, SIG_END64))
		at += END64_BYTES + LOCATOR_BYTES;
	return has_signature(zip, at, SIG_END) && is_followed(zip, at + END_BYTES) &&
	       read_at(zip, at, bytes, END_BYTES) && bytes[20] == 0 && bytes[21] == 0 &&
	       (uint64_t)(bytes[16] | bytes[17] << 8 | bytes[18] << 16 | (uint32_t)bytes[19] << 24) == off;
}

/* Offsets count from the start of the archive, which need not be that of the file. */
static bool place_directory(struct ckpt_loose_zip *zip, const struct ends *ends)
{
	uint64_t straight = ends->off, behind = ends->at >= ends->size ? ends->at - ends->size : 0;
	bool at_straight, at_behind;

	zip->base = 0;
	zip->directory_end = ends->at;
	if (!ends->count && !ends->size) {
		zip->directory_off = ends->at;
		return true;
	}
	at_straight = straight < ends->at && has_signature(zip, straight, SIG_ENTRY);
	at_behind = ends->size <= ends->at && behind >= straight &&
		    has_signature(zip, behind, SIG_ENTRY);
	/* of items one behind the other, the first may have a directory there: it is looked into in its turn */
	if (at_straight && at_behind && straight != behind &&
	    !(zip->s->is_dcp && is_of_first(zip, straight)))
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

/* ---- entries ---- */

/* Info-ZIP's field with another name, which some readers prefer. */
static void check_unicode_name(struct ckpt_loose_zip *zip, const struct ckpt_loose_entry *e,
			       const uint8_t *bytes, size_t len)
{
	struct ckpt_reader extra = { bytes, len, 0, false };
	char shown[160];

	while (extra.len - extra.pos >= 4) {
		uint16_t tag = ckpt_read_u16(&extra), n = ckpt_read_u16(&extra);
		const uint8_t *body = ckpt_read_bytes(&extra, n);

		if (!body)
			return;
		if (tag == UNICODE_NAME && n >= 5 &&
		    (n - 5u != e->name_len || memcmp(body + 5, e->name, e->name_len) != 0))
			ckpt_loose_zip_odd(zip, e, 0, "a second field calls it '%s'",
					   ckpt_escape(shown, sizeof(shown), (const char *)body + 5,
						       n - 5u));
	}
}

/* One entry of the directory; false: there is none. */
static bool read_entry(struct ckpt_loose_zip *zip, struct ckpt_reader *r)
{
	struct ckpt_loose_entry e = { 0 };
	uint32_t attributes;
	uint16_t extra_len, comment_len;
	const uint8_t *name, *extra;

	if (r->len - r->pos < ENTRY_BYTES || ckpt_read_u32(r) != SIG_ENTRY)
		return false;
	ckpt_read_u32(r);
	e.flags = ckpt_read_u16(r);
	e.method = ckpt_read_u16(r);
	ckpt_read_u32(r);
	e.crc32 = ckpt_read_u32(r);
	e.csize = ckpt_read_u32(r);
	e.usize = ckpt_read_u32(r);
	e.name_len = ckpt_read_u16(r);
	extra_len = ckpt_read_u16(r);
	comment_len = ckpt_read_u16(r);
	ckpt_read_u32(r);
	attributes = ckpt_read_u32(r);
	e.header_off = ckpt_read_u32(r);
	name = ckpt_read_bytes(r, e.name_len);
	extra = ckpt_read_bytes(r, extra_len);
	ckpt_read_bytes(r, comment_len);
	if (r->bad)
		return false;
	e.name = ckpt_arena_copy(zip->s->arena, name, e.name_len);
	zip->s->no_memory |= !e.name;
	ckpt_zip_read_zip64(extra, extra_len, &e.usize, &e.csize, &e.header_off);
	if (e.name)
		check_unicode_name(zip, &e, extra, extra_len);
	if (e.name && attributes & FOLDER_ATTRIBUTE && e.name_len && e.name[e.name_len - 1] != '/')
		ckpt_loose_zip_odd(zip, &e, 0,
				   "its attributes say that it is a folder: torch reads nothing of it, and takes "
				   "for its bytes what its memory had before");
	if (__builtin_add_overflow(e.header_off, zip->base, &e.header_off))
		e.header_off = UINT64_MAX;
	return e.name && ckpt_loose_zip_add(zip, &e);
}

static void read_entries(struct ckpt_loose_zip *zip, const struct ends *ends)
{
	struct ckpt_reader r = { .len = (size_t)(zip->directory_end - zip->directory_off) };
	uint8_t *bytes;

	if (zip->directory_end - zip->directory_off > MOST_DIRECTORY) {
		ckpt_scan_find(zip->s, CKPT_SCAN_UNREADABLE, "unreadable", zip->directory_off,
			       "a directory of %zu bytes is not looked into", r.len);
		return;
	}
	bytes = malloc(r.len + 1);
	zip->s->no_memory |= !bytes;
	r.data = bytes;
	if (bytes && read_at(zip, zip->directory_off, bytes, r.len))
		while (zip->rest = r.pos, read_entry(zip, &r)) {
		}
	if (bytes && zip->rest < r.len && zip->count == ends->count)
		ckpt_loose_zip_odd(zip, NULL, zip->directory_off + zip->rest,
				   "%zu bytes follow the last record of the directory",
				   r.len - zip->rest);
	if (zip->count != ends->count)
		ckpt_loose_zip_odd(zip, NULL, zip->directory_off,
				   "the directory has %" PRIu32
				   " records, the end record says %" PRIu64,
				   zip->count, ends->count);
	free(bytes);
}

bool ckpt_loose_zip_read(struct ckpt_loose_zip *zip)
{
	struct ends ends = { 0 };

	if (!read_ends(zip, &ends) || !place_directory(zip, &ends)) {
		ckpt_scan_find(zip->s, CKPT_SCAN_UNREADABLE, "archive", CKPT_NO_OFFSET,
			       "a zip archive without a directory: it is cut off, or damaged");
		return false;
	}
	read_entries(zip, &ends);
	return true;
}

bool ckpt_loose_zip_header(struct ckpt_loose_zip *zip, uint64_t off, uint64_t limit,
			   struct ckpt_loose_entry *out)
{
	uint8_t bytes[LOCAL_BYTES], *rest;
	struct ckpt_reader r = { bytes, LOCAL_BYTES, 0, false };
	uint16_t extra_len;

	*out = (struct ckpt_loose_entry){ .header_off = off };
	if (off > limit || limit - off < LOCAL_BYTES || !read_at(zip, off, bytes, LOCAL_BYTES) ||
	    ckpt_read_u32(&r) != SIG_LOCAL)
		return false;
	ckpt_read_u16(&r);
	out->flags = ckpt_read_u16(&r);
	out->method = ckpt_read_u16(&r);
	ckpt_read_u32(&r);
	out->crc32 = ckpt_read_u32(&r);
	out->csize = ckpt_read_u32(&r);
	out->usize = ckpt_read_u32(&r);
	out->name_len = ckpt_read_u16(&r);
	extra_len = ckpt_read_u16(&r);
	out->data_off = off + LOCAL_BYTES + out->name_len + extra_len;
	if (out->data_off > limit)
		return false;
	rest = malloc((size_t)out->name_len + extra_len + 1);
	if (rest && read_at(zip, off + LOCAL_BYTES, rest, (size_t)out->name_len + extra_len)) {
		uint64_t none = 0; /* where it is, is known */

		out->name = ckpt_arena_copy(zip->s->arena, rest, out->name_len);
		ckpt_zip_read_zip64(rest + out->name_len, extra_len, &out->usize, &out->csize,
				    &none);
	}
	zip->s->no_memory |= !rest;
	free(rest);
	return out->name;
}

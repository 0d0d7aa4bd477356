/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The directory of an archive, entry by entry, with the zip64 fields that the sizes ask for; zip.h
 * says how the parts of this reader fit together.
 *
 * What must stay true: an odd archive is a finding, and is read on. Nothing here decides that an
 * archive is fine: zip_layout.c compares the directory with the headers, zip_records.c looks into
 * the records.
 */
#include "scan/loaders/zip.h"

#include "base/ascii.h"
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
	UNICODE_NAME = 0x7075,
	FOLDER_ATTRIBUTE = 0x10, /* of MS-DOS; miniz, mz_zip_reader_is_file_a_directory() */
};
static const uint64_t MOST_DIRECTORY = 256 << 20;

void ckpt_loose_zip_odd(struct ckpt_loose_zip *zip, const struct ckpt_loose_entry *e, uint64_t off,
			const char *fmt, ...)
{
	struct ckpt_arena_mark mark = ckpt_arena_mark(zip->s->arena);
	const char *before = zip->s->where;
	uint32_t count = zip->s->finding_count;
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
	if (zip->s->finding_count == count) /* one of too many: nobody has the name */
		ckpt_arena_release(zip->s->arena, mark);
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
		else if (tag == UNICODE_NAME && !ckpt_is_ascii(e->name))
			ckpt_loose_zip_odd(zip, e, 0, "a second field has its name as UTF-8, and not all readers look there");
	}
}

/*
 * torch reads no archive with a record that does not lie in the file. miniz, until torch 1.13, asks so of
 * the offset in the entry itself, where the size in it is none of zip64's; later of that in the zip64
 * field, if there is one.
 */
static void check_place(struct ckpt_loose_zip *zip, uint64_t short_off, uint64_t short_csize, uint64_t off)
{
	uint64_t size = ckpt_source_size(zip->source), needed = CKPT_LOOSE_LOCAL_BYTES + short_csize;

	if (short_csize == UINT32_MAX)
		return;
	zip->is_far |= needed > size || short_off > size - needed;
	zip->is_outside |= needed > size || off > size - needed;
}

/* One entry of the directory; false: there is none. */
static bool read_entry(struct ckpt_loose_zip *zip, struct ckpt_reader *r)
{
	struct ckpt_loose_entry e = { 0 };
	uint32_t attributes;
	uint16_t extra_len, comment_len, disk;
	const uint8_t *name, *extra;
	uint64_t short_off, short_csize;

	if (r->len - r->pos < CKPT_LOOSE_ENTRY_BYTES || ckpt_read_u32(r) != CKPT_LOOSE_ENTRY)
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
	disk = ckpt_read_u16(r);
	ckpt_read_u16(r);
	attributes = ckpt_read_u32(r);
	e.header_off = ckpt_read_u32(r);
	name = ckpt_read_bytes(r, e.name_len);
	extra = ckpt_read_bytes(r, extra_len);
	ckpt_read_bytes(r, comment_len);
	if (r->bad)
		return false;
	zip->has_disks |= disk != zip->disk && disk != 1;
	e.name = ckpt_arena_copy(zip->s->arena, name, e.name_len);
	zip->s->no_memory |= !e.name;
	short_off = e.header_off;
	short_csize = e.csize;
	ckpt_zip_read_zip64(extra, extra_len, &e.usize, &e.csize, &e.header_off);
	e.is_wide = short_csize == UINT32_MAX && e.csize != UINT32_MAX;
	check_place(zip, short_off, short_csize, e.header_off);
	if (e.name)
		check_unicode_name(zip, &e, extra, extra_len);
	if (e.name && e.name_len && (e.name[e.name_len - 1] == '/' ? e.usize > 0 : attributes & FOLDER_ATTRIBUTE))
		ckpt_loose_zip_odd(zip, &e, 0,
				   "its %s that it is a folder: torch reads nothing of it, and takes for its bytes what "
				   "its memory had before",
				   attributes & FOLDER_ATTRIBUTE ? "attributes say" : "name says");
	if (__builtin_add_overflow(e.header_off, zip->base, &e.header_off))
		e.header_off = UINT64_MAX;
	return e.name && ckpt_loose_zip_add(zip, &e);
}

/* Room for as many entries as there may be: what grows has room for nearly twice as many as it has. */
static void make_room(struct ckpt_loose_zip *zip, uint64_t nbytes)
{
	uint64_t most = nbytes / CKPT_LOOSE_ENTRY_BYTES;
	uint32_t count = (uint32_t)(zip->said < most ? zip->said : most); /* of MOST_DIRECTORY bytes */

	zip->entries = count ? malloc(count * sizeof(*zip->entries)) : NULL;
	zip->cap = zip->entries ? count : 0;
}

/* Are there as many bytes behind the header as the size without zip64 says? */
static bool may_be_read_further(struct ckpt_loose_zip *zip, const struct ckpt_loose_entry *e)
{
	uint8_t lens[4];
	struct ckpt_reader r = { lens, sizeof(lens), 0, false };
	uint64_t front;

	if (!e->is_wide || e->method || !ckpt_loose_zip_at(zip, e->header_off + CKPT_LOOSE_LOCAL_BYTES - sizeof(lens), lens, sizeof(lens)))
		return false;
	front = CKPT_LOOSE_LOCAL_BYTES + ckpt_read_u16(&r);
	front += ckpt_read_u16(&r);
	return front + UINT32_MAX <= ckpt_source_size(zip->source) - e->header_off;
}

/*
 * zipimport of Python does not know zip64 until 3.12, and may be told not to since. It takes all records to be as much further behind
 * as the directory, counted back from the end record, lies behind the place that this says, which is 4 GiB at most: nothing must lie
 * there. Source: zipimport.py, _read_directory().
 */
static void check_narrow_records(struct ckpt_loose_zip *zip)
{
	uint64_t further = zip->narrow_off ? zip->narrow_off - zip->short_end.off : zip->base;

	if (zip->narrow_off && zip->narrow_off < zip->short_end.off)
		return; /* it reads none */
	for (uint32_t i = 0; i < zip->count; i++) {
		const struct ckpt_loose_entry *e = &zip->entries[i];
		uint64_t place = e->header_off - zip->base + further;

		if (e->header_off - zip->base >= UINT32_MAX)
			continue; /* by its own zip64 field, or nowhere */
		if (place != e->header_off && ckpt_loose_zip_has(zip, place, CKPT_LOOSE_LOCAL))
			ckpt_loose_zip_odd(zip, e, place, "who knows no zip64 finds another record here");
		else if (place == e->header_off && may_be_read_further(zip, e))
			ckpt_loose_zip_odd(zip, e, place, "who knows no zip64 takes all that follows for bytes of it");
	}
}

static void read_entries(struct ckpt_loose_zip *zip)
{
	struct ckpt_reader r = { .len = (size_t)(zip->directory_end - zip->directory_off) };
	bool begins_as_another = !zip->narrow_off;
	uint8_t *bytes;

	if (zip->directory_end - zip->directory_off > MOST_DIRECTORY) {
		ckpt_scan_find(zip->s, CKPT_SCAN_UNREADABLE, "unreadable", zip->directory_off,
			       "a directory of %zu bytes is not looked into", r.len);
		return;
	}
	bytes = malloc(r.len + 1);
	zip->s->no_memory |= !bytes;
	make_room(zip, r.len);
	r.data = bytes;
	if (bytes && ckpt_loose_zip_at(zip, zip->directory_off, bytes, r.len))
		while (zip->rest = r.pos, begins_as_another |= zip->directory_off + r.pos == zip->narrow_off, read_entry(zip, &r)) {
		}
	if (bytes && begins_as_another)
		check_narrow_records(zip);
	if (bytes && !begins_as_another && ckpt_loose_zip_has(zip, zip->narrow_off, CKPT_LOOSE_ENTRY))
		ckpt_loose_zip_odd(zip, NULL, zip->narrow_off, "who knows no zip64 finds another directory here, inside of a record of it");
	if (bytes && zip->rest < r.len && zip->count == zip->said)
		ckpt_loose_zip_odd(zip, NULL, zip->directory_off + zip->rest,
				   "%zu bytes follow the last record of the directory",
				   r.len - zip->rest);
	if (zip->count != zip->said)
		ckpt_loose_zip_odd(zip, NULL, zip->directory_off,
				   "the directory has %" PRIu32
				   " records, the end record says %" PRIu64,
				   zip->count, zip->said);
	free(bytes);
}

bool ckpt_loose_zip_read(struct ckpt_loose_zip *zip)
{
	if (!ckpt_loose_zip_find(zip)) {
		ckpt_scan_find(zip->s, CKPT_SCAN_UNREADABLE, "archive", CKPT_NO_OFFSET,
			       "a zip archive without a directory: it is cut off, or damaged");
		return false;
	}
	read_entries(zip);
	if (zip->has_disks)
		ckpt_scan_find(zip->s, CKPT_SCAN_UNREADABLE, "archive", zip->ends_off, "says that it is spread over several disks: torch does not read it, others do");
	return true;
}

bool ckpt_loose_zip_header(struct ckpt_loose_zip *zip, uint64_t off, uint64_t limit,
			   struct ckpt_loose_entry *out)
{
	uint8_t bytes[CKPT_LOOSE_LOCAL_BYTES], *rest;
	struct ckpt_reader r = { bytes, CKPT_LOOSE_LOCAL_BYTES, 0, false };
	uint16_t extra_len;

	*out = (struct ckpt_loose_entry){ .header_off = off };
	if (off > limit || limit - off < CKPT_LOOSE_LOCAL_BYTES || !ckpt_loose_zip_at(zip, off, bytes, CKPT_LOOSE_LOCAL_BYTES) ||
	    ckpt_read_u32(&r) != CKPT_LOOSE_LOCAL)
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
	out->data_off = off + CKPT_LOOSE_LOCAL_BYTES + out->name_len + extra_len;
	if (out->data_off > limit)
		return false;
	rest = malloc((size_t)out->name_len + extra_len + 1);
	if (rest && ckpt_loose_zip_at(zip, off + CKPT_LOOSE_LOCAL_BYTES, rest, (size_t)out->name_len + extra_len)) {
		uint64_t none = 0; /* where it is, is known */

		out->name = ckpt_arena_copy(zip->s->arena, rest, out->name_len);
		ckpt_zip_read_zip64(rest + out->name_len, extra_len, &out->usize, &out->csize,
				    &none);
	}
	zip->s->no_memory |= !rest;
	free(rest);
	return out->name;
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Makes the bytes that an edit in place appends (format/torch_zip_in_place.c has the order of
 * the writes). What must stay true: the end records, old and new, fit the same 98 bytes of one
 * sector, so that one write switches from the old directory to the new one; old entries are
 * copied as they are, in the order of the old directory.
 */
#include "zipfmt/tail.h"

#include "base/reader.h"

#include <stdlib.h>
#include <string.h>

enum { ENDS_BYTES = CKPT_ZIP_ENDS_BYTES, END64_BYTES = 56, LOCATOR_BYTES = 20, DIRECTORY_BYTES = 46, SECTOR = 512 };
static const uint32_t SIG_END64 = 0x06064B50, SIG_LOCATOR = 0x07064B50, SIG_END = 0x06054B50;

static void put64(uint8_t *p, uint64_t v)
{
	for (int i = 0; i < 8; i++)
		p[i] = (uint8_t)(v >> 8 * i);
}

bool ckpt_zip_read_plain_ends(const struct ckpt_source *source, uint64_t off, uint8_t ends[ENDS_BYTES], struct ckpt_zip_gap *directory)
{
	const uint8_t *end64 = ends, *locator = ends + END64_BYTES, *end = locator + LOCATOR_BYTES;

	if (ckpt_source_read(source, off, ends, ENDS_BYTES, NULL) < 0)
		return false;
	*directory = (struct ckpt_zip_gap){ ckpt_get_u64(end64 + 48), ckpt_get_u64(end64 + 40) };
	return ckpt_get_u32(end64) == SIG_END64 && ckpt_get_u64(end64 + 4) == 44 && ckpt_get_u32(locator) == SIG_LOCATOR && ckpt_get_u64(locator + 8) == off &&
	       ckpt_get_u32(end) == SIG_END && end[20] == 0 && end[21] == 0 && directory->off <= off && directory->len <= off - directory->off;
}

void ckpt_zip_move_ends(uint8_t ends[ENDS_BYTES], uint64_t off)
{
	put64(ends + END64_BYTES + 8, off); /* the locator's only number */
}

bool ckpt_zip_has_plain_ends(struct ckpt_zip *zip)
{
	uint64_t size = ckpt_source_size(zip->source);
	struct ckpt_zip_gap directory;
	uint8_t ends[ENDS_BYTES];

	return size >= ENDS_BYTES && ckpt_zip_read_plain_ends(zip->source, size - ENDS_BYTES, ends, &directory) && directory.off == zip->directory_off;
}

/* ---- the directory ---- */

/* Append the old entries that are kept, as they are. They are in the order of ZIP's entries. */
static int put_old_entries(struct ckpt_zip *zip, const bool *keep, uint64_t len,
			   struct ckpt_buf *out, struct ckpt_error *err)
{
	uint8_t *bytes = malloc(len ? len : 1);
	int rc = bytes ? ckpt_source_read(zip->source, zip->directory_off, bytes, len, err)
		       : ckpt_fail_nomem(err);
	uint64_t at = 0;

	for (uint32_t i = 0; rc == 0 && i < zip->count; i++) {
		uint64_t size = DIRECTORY_BYTES;

		if (len - at >= DIRECTORY_BYTES)
			size += (uint64_t)bytes[at + 28] + bytes[at + 30] + bytes[at + 32] +
				((uint64_t)bytes[at + 29] + bytes[at + 31] + bytes[at + 33]) * 256;
		if (size > len - at) {
			rc = ckpt_fail(err, CKPT_E_CHANGED, "the directory is not what it was");
			break;
		}
		if (keep[i])
			ckpt_buf_add(out, bytes + at, size);
		at += size;
	}
	free(bytes);
	return rc == 0 && out->bad ? ckpt_fail_nomem(err) : rc;
}

static void put_records(const struct ckpt_zip_layout *layout, const void *const *bytes,
			struct ckpt_buf *out)
{
	for (uint32_t i = 0; i < layout->count; i++) {
		ckpt_zip_put_local_header(layout, i, out);
		ckpt_buf_add(out, bytes[i], layout->records[i].size);
		ckpt_zip_put_descriptor(layout, i, out);
	}
}

static bool fits_a_sector(uint64_t off)
{
	return off % SECTOR <= SECTOR - ENDS_BYTES;
}

/* The end records of a directory of COUNT entries and SIZE bytes at OFF, themselves at ENDS_OFF. */
static int put_ends(uint64_t count, uint64_t off, uint64_t size, uint8_t ends[ENDS_BYTES],
		    struct ckpt_error *err)
{
	struct ckpt_zip_layout layout = { .count = (uint32_t)count,
					  .directory_off = off,
					  .directory_size = size };
	struct ckpt_buf buf = { 0 };

	ckpt_zip_put_ends(&layout, &buf);
	if (!buf.bad)
		memcpy(ends, buf.data, ENDS_BYTES);
	ckpt_buf_clear(&buf);
	return buf.bad ? ckpt_fail_nomem(err) : 0;
}

int ckpt_zip_tail_make(struct ckpt_zip *zip, const bool *keep, uint64_t start, struct ckpt_zip_layout *layout,
		       const void *const *bytes, struct ckpt_zip_tail *tail, struct ckpt_error *err)
{
	struct ckpt_buf directory = { 0 };
	uint64_t end = 0, count = layout->count;
	int rc;

	*tail = (struct ckpt_zip_tail){ .off = ckpt_source_size(zip->source) };
	if (tail->off < ENDS_BYTES || ckpt_source_read(zip->source, tail->off - ENDS_BYTES, tail->old_ends, ENDS_BYTES, NULL) < 0)
		return ckpt_fail(err, CKPT_E_CHANGED, "the end of the file cannot be read");
	for (uint32_t i = 0; i < zip->count; i++)
		count += keep[i];
	rc = put_old_entries(zip, keep, ckpt_get_u64(tail->old_ends + 40), &directory, err);
	/* the end records have to be in one sector, so that writing them is the switch */
	for (tail->start = start; rc == 0; tail->start += 8) {
		uint64_t most = directory.len;

		rc = ckpt_zip_layout_append(layout, tail->start, err);
		end = layout->directory_off;
		for (uint32_t i = 0; rc == 0 && i < layout->count; i++)
			most += ckpt_zip_directory_entry_size(layout, i);
		tail->ends_off = end + most;
		if (fits_a_sector(tail->ends_off))
			break;
	}
	if (rc == 0) {
		put_records(layout, bytes, &tail->body);
		ckpt_buf_add(&tail->body, directory.data, directory.len);
		for (uint32_t i = 0; i < layout->count; i++)
			ckpt_zip_put_directory_entry(layout, i, &tail->body);
		rc = tail->body.bad ? ckpt_fail_nomem(err) : 0;
	}
	ckpt_buf_clear(&directory);
	if (rc == 0)
		rc = put_ends(count, end, tail->ends_off - end, tail->new_ends, err);
	if (rc < 0)
		return rc;
	ckpt_zip_move_ends(tail->old_ends, tail->ends_off);
	return 0;
}

void ckpt_zip_tail_clear(struct ckpt_zip_tail *tail)
{
	ckpt_buf_clear(&tail->body);
}

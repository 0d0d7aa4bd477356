/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What of an archive is dead, and what of that may be written over.
 *
 * What must stay true: only the wiped remains of a pickle, an id and a directory are said to be
 * left behind. A dead storage is not: who opened the file before it was dropped may still have it
 * mapped. So it is read from its end: zeros, descriptors, data and local headers, each of which has
 * to be one that an edit in place leaves. What is not understood ends it.
 */
#include "zipfmt/dead.h"

#include "base/reader.h"

#include <stdlib.h>
#include <string.h>

enum { LOCAL_BYTES = 30, DESCRIPTOR = 16, DESCRIPTOR64 = 24, BLOCK = 1 << 16, BLOCK_ON_DISK = 4096 /* as in io/patch.c */, MOST_PADDING = 4096, ID_BYTES = 40, MOST_ZEROS_OF_SIZE = 8 };
static const uint32_t SIG_LOCAL = 0x04034B50, SIG_DESCRIPTOR = 0x08074B50;

size_t ckpt_zip_dead_at(const char *name)
{
	return *name == '.';
}

/* ---- gaps ---- */

/* Behind the record and its descriptor. */
static int end_of(struct ckpt_zip *zip, struct ckpt_zip_entry *e, uint64_t *out, struct ckpt_error *err)
{
	int rc = e->data_off ? 0 : ckpt_zip_locate(zip, e, err);

	if (rc < 0)
		return rc;
	*out = e->data_off + e->csize;
	if (e->flags & 8 && e->usize)
		*out += e->csize > UINT32_MAX || e->usize > UINT32_MAX || e->header_off > UINT32_MAX ? DESCRIPTOR64 : DESCRIPTOR;
	return 0;
}

/*
 * Where a gap in front of all records begins: behind the local header that is there, since a file
 * has to begin with one. UINT64_MAX: no such header.
 */
static uint64_t behind_first_header(const struct ckpt_zip *zip)
{
	uint8_t header[LOCAL_BYTES];

	if (ckpt_source_size(zip->source) < sizeof(header) || ckpt_source_read(zip->source, 0, header, sizeof(header), NULL) < 0 || ckpt_get_u32(header) != SIG_LOCAL)
		return UINT64_MAX;
	return sizeof(header) + (uint64_t)ckpt_get_u16(header + 26) + ckpt_get_u16(header + 28);
}

int ckpt_zip_gaps(struct ckpt_zip *zip, const bool *keep, uint64_t end, uint64_t least, struct ckpt_zip_gap **out, size_t *count, struct ckpt_error *err)
{
	struct ckpt_zip_entry **order = ckpt_zip_by_place(zip);
	struct ckpt_zip_gap *gaps = malloc((zip->count + (size_t)2) * sizeof(*gaps));
	struct ckpt_zip_entry *last = NULL;
	int rc = order && gaps ? 0 : ckpt_fail_nomem(err);

	*count = 0;
	for (uint32_t i = 0; rc == 0 && i <= zip->count; i++) {
		struct ckpt_zip_entry *e = i < zip->count ? order[i] : NULL;
		uint64_t next = e ? e->header_off : end, at = last ? last->header_off + LOCAL_BYTES + last->name_len + last->csize : LOCAL_BYTES;

		if (e && keep && !keep[e - zip->entries])
			continue;
		if (next > at && next - at >= CKPT_ZIP_SMALL_GAP) {
			if (last)
				rc = end_of(zip, last, &at, err);
			else
				at = behind_first_header(zip);
			if (rc == 0 && next > at && next - at >= least)
				gaps[(*count)++] = (struct ckpt_zip_gap){ at, next - at };
		}
		last = e;
	}
	free(order);
	if (rc < 0) {
		free(gaps);
		gaps = NULL;
	}
	*out = gaps;
	return rc;
}

uint64_t ckpt_zip_gap_on_disk(const struct ckpt_source *source, const struct ckpt_zip_gap *gap)
{
	uint64_t at = (gap->off + BLOCK_ON_DISK - 1) / BLOCK_ON_DISK * BLOCK_ON_DISK, end = (gap->off + gap->len) / BLOCK_ON_DISK * BLOCK_ON_DISK, data_end, nbytes = 0;

	for (; at < end && ckpt_source_next_data(source, &at, end, &data_end); at = data_end)
		nbytes += data_end - at;
	return nbytes;
}

int ckpt_zip_dead_nbytes(struct ckpt_zip *zip, uint64_t *out, uint64_t *on_disk, struct ckpt_error *err)
{
	struct ckpt_zip_gap *gaps;
	size_t count;
	int rc = ckpt_zip_gaps(zip, NULL, zip->directory_off, CKPT_ZIP_SMALL_GAP, &gaps, &count, err);

	*out = *on_disk = 0;
	for (size_t i = 0; i < count; i++) {
		*out += gaps[i].len;
		*on_disk += ckpt_zip_gap_on_disk(zip->source, &gaps[i]);
	}
	free(gaps);
	return rc;
}

/* ---- what edits have left behind ---- */

struct backward {
	struct ckpt_zip *zip;
	const char *name;
	uint64_t least_off;
};

/* Go back from *AT over zeros. */
static int skip_zeros(const struct backward *b, uint64_t *at, struct ckpt_error *err)
{
	uint8_t *block = malloc(BLOCK);
	int rc = block ? 0 : ckpt_fail_nomem(err);

	while (rc == 0 && *at > b->least_off) {
		size_t len = *at - b->least_off < BLOCK ? (size_t)(*at - b->least_off) : BLOCK, zeros = 0;

		rc = ckpt_source_read(b->zip->source, *at - len, block, len, err);
		while (rc == 0 && zeros < len && !block[len - 1 - zeros])
			zeros++;
		*at -= zeros;
		if (zeros < len)
			break;
	}
	free(block);
	return rc;
}

static bool is_zero(const struct backward *b, uint64_t off, uint64_t len)
{
	uint8_t block[4096];

	for (uint64_t n; len; off += n, len -= n) {
		n = len < sizeof(block) ? len : sizeof(block);
		if (ckpt_source_read(b->zip->source, off, block, (size_t)n, NULL) < 0)
			return false;
		for (uint64_t i = 0; i < n; i++)
			if (block[i])
				return false;
	}
	return true;
}

/* A local header of the dead record RECORD, whose data begin at DATA_OFF: where it begins, or 0. */
static uint64_t find_header(const struct backward *b, const char *record, uint64_t data_off)
{
	size_t archive_len = strlen(b->name), name_len = archive_len + 1 + strlen(record);
	uint8_t bytes[LOCAL_BYTES + 1024];

	if (name_len > sizeof(bytes) - LOCAL_BYTES)
		return 0;
	for (uint64_t extra = 0; extra <= MOST_PADDING; extra++) {
		uint64_t len = LOCAL_BYTES + name_len + extra, off;
		uint8_t head[4];

		if (data_off < len || data_off - len < b->least_off)
			return 0;
		off = data_off - len;
		if (ckpt_source_read(b->zip->source, off, head, sizeof(head), NULL) < 0)
			return 0;
		if (ckpt_get_u32(head) != SIG_LOCAL)
			continue;
		if (ckpt_source_read(b->zip->source, off, bytes, LOCAL_BYTES + name_len, NULL) == 0 && ckpt_get_u16(bytes + 26) == name_len &&
		    ckpt_get_u16(bytes + 28) == extra && !memcmp(bytes + LOCAL_BYTES, b->name, archive_len) && bytes[LOCAL_BYTES + archive_len] == '/' &&
		    !memcmp(bytes + LOCAL_BYTES + archive_len + 1, record, strlen(record)))
			return off;
	}
	return 0;
}

/* Where the record begins whose descriptor, of LEN bytes, ends at END, if it is one of those; else 0. */
static uint64_t find_record(const struct backward *b, uint64_t end, unsigned len)
{
	uint8_t bytes[DESCRIPTOR64];
	uint64_t size, data_off;

	if (end < b->least_off + len || ckpt_source_read(b->zip->source, end - len, bytes, len, NULL) < 0 || ckpt_get_u32(bytes) != SIG_DESCRIPTOR)
		return 0;
	size = len == DESCRIPTOR ? ckpt_get_u32(bytes + 8) : ckpt_get_u64(bytes + 8);
	if (size != (len == DESCRIPTOR ? ckpt_get_u32(bytes + 12) : ckpt_get_u64(bytes + 16)) || size > end - len - b->least_off)
		return 0;
	data_off = end - len - size;
	if (is_zero(b, data_off, size))
		return find_header(b, "dead.pkl", data_off);
	return size == ID_BYTES ? find_header(b, ".dead/serialization_id", data_off) : 0;
}

/*
 * Go back over the record that ends at *AT, or a little behind it: a descriptor ends with zeros,
 * those of its last number. False: none of those that edits leave.
 */
static bool skip_record(const struct backward *b, uint64_t *at, uint64_t limit)
{
	for (uint64_t end = *at; end < *at + MOST_ZEROS_OF_SIZE && end <= limit; end++) {
		uint64_t off = find_record(b, end, DESCRIPTOR);

		if (!off)
			off = find_record(b, end, DESCRIPTOR64);
		if (off) {
			*at = off;
			return true;
		}
	}
	return false;
}

int ckpt_zip_find_left_behind(struct ckpt_zip *zip, const char *name, uint64_t least_off, uint64_t end, uint64_t *out, struct ckpt_error *err)
{
	struct backward b = { zip, name, least_off };
	uint64_t at = end;
	int rc = 0;

	*out = end;
	while (rc == 0 && at > least_off) {
		uint64_t before = at;

		rc = skip_zeros(&b, &at, err);
		if (rc < 0)
			break;
		if (!skip_record(&b, &at, before)) {
			/* the first of the zeros may be the end of a descriptor of what is not known */
			*out = before - at > MOST_ZEROS_OF_SIZE ? at + MOST_ZEROS_OF_SIZE : before;
			break;
		}
		*out = at;
	}
	return rc;
}

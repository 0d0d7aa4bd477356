/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds what an edit in place that did not come to its end has left (format/torch_zip_in_place.c has
 * the order of its writes), so that the next edit can take it back.
 *
 * What must stay true: nothing is said to be left behind that lies in a record of the archive as it is
 * now, whatever the other directory says; of a directory that was wiped in part only its place is used.
 */
#include "zipfmt/killed.h"

#include "base/reader.h"
#include "zipfmt/tail.h"

#include <stdlib.h>
#include <string.h>

enum { LOCAL_BYTES = 30, ZEROS_AT_END = 8 /* with which end records may end */, MOST_READ = 16 << 20 };
static const uint32_t SIG_LOCAL = 0x04034B50;

uint64_t ckpt_zip_end_before_copy(struct ckpt_zip *zip)
{
	uint64_t size = ckpt_source_size(zip->source), first_end;
	uint8_t copy[CKPT_ZIP_ENDS_BYTES], first[CKPT_ZIP_ENDS_BYTES];
	struct ckpt_zip_gap directory;

	if (size < sizeof(copy) || !ckpt_zip_read_plain_ends(zip->source, size - sizeof(copy), copy, &directory))
		return size;
	first_end = directory.off + directory.len + sizeof(first);
	if (first_end > size - sizeof(copy) || !ckpt_zip_read_plain_ends(zip->source, first_end - sizeof(first), first, &directory))
		return size;
	ckpt_zip_move_ends(first, size - sizeof(copy));
	return memcmp(first, copy, sizeof(copy)) ? size : first_end;
}

/* ---- behind the switch ---- */

/* The records of the archive, by their places. */
struct places {
	struct ckpt_zip_entry **order;
	uint32_t count;
	uint64_t end; /* what is from here on is not free either */
};

/* The first record that begins behind OFF, as a place in the order. */
static uint32_t next_of(const struct places *p, uint64_t off)
{
	uint32_t low = 0, high = p->count;

	while (low < high) {
		uint32_t middle = low + (high - low) / 2;

		if (p->order[middle]->header_off <= off)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

static bool is_free(const struct places *p, uint64_t off, uint64_t len)
{
	uint32_t next = next_of(p, off);
	uint64_t limit = next < p->count && p->order[next]->header_off < p->end ? p->order[next]->header_off : p->end;

	if (next && p->order[next - 1]->data_off + p->order[next - 1]->csize > off)
		return false;
	return off <= limit && len <= limit - off;
}

static bool has_record_at(const struct places *p, uint64_t off)
{
	uint32_t next = next_of(p, off);

	return next && p->order[next - 1]->header_off == off;
}

/* Of E, which the archive does not have. */
static void add_record(const struct places *p, const struct ckpt_zip *previous, const struct ckpt_zip_entry *e, size_t skip, struct ckpt_zip_remains *out)
{
	const char *record = e->name + skip;
	size_t mark_at = skip + ckpt_zip_dead_at(record);
	uint64_t names_off = e->header_off + LOCAL_BYTES;
	uint8_t header[LOCAL_BYTES];

	if (!is_free(p, e->header_off, LOCAL_BYTES + (uint64_t)e->name_len) || ckpt_source_read(previous->source, e->header_off, header, sizeof(header), NULL) < 0 ||
	    ckpt_get_u32(header) != SIG_LOCAL || ckpt_get_u16(header + 26) != e->name_len)
		return;
	if (e->name_len >= mark_at + CKPT_ZIP_DEAD_BYTES)
		out->marks[out->mark_count++] = names_off + mark_at;
	if (!strcmp(record, "data.pkl")) {
		uint64_t off = names_off + e->name_len + ckpt_get_u16(header + 28);

		if (is_free(p, off, e->csize))
			out->pickle = (struct ckpt_zip_gap){ off, e->csize };
	}
}

static int add_records(const struct places *p, const struct ckpt_zip *previous, const char *name, struct ckpt_zip_remains *out, struct ckpt_error *err)
{
	size_t len = strlen(name);

	out->marks = malloc((previous->count + (size_t)1) * sizeof(*out->marks));
	if (!out->marks)
		return ckpt_fail_nomem(err);
	for (uint32_t i = 0; i < previous->count; i++) {
		const struct ckpt_zip_entry *e = &previous->entries[i];

		if (e->name_len > len && !memcmp(e->name, name, len) && e->name[len] == '/' && !has_record_at(p, e->header_off))
			add_record(p, previous, e, len + 1, out);
	}
	return 0;
}

/* The archive that ends at END. A directory that cannot be read any more was being wiped, after all else. */
static int read_previous(struct ckpt_zip *zip, const struct places *p, const char *name, uint64_t end, struct ckpt_zip_remains *out, struct ckpt_error *err)
{
	struct ckpt_source *source;
	struct ckpt_zip *previous;
	int rc = ckpt_source_slice(zip->source, 0, end, &source, err);

	if (rc < 0)
		return rc;
	rc = ckpt_zip_open(source, &previous, err);
	ckpt_source_unref(source);
	if (rc < 0)
		return rc == CKPT_E_NOMEM || rc == CKPT_E_IO ? rc : 0;
	rc = add_records(p, previous, name, out, err);
	ckpt_zip_close(previous);
	return rc;
}

/* End records whose last zeros may have been passed over: they end at NEAR or a little before or behind it. */
static bool find_ends(struct ckpt_zip *zip, uint64_t near, uint64_t limit, struct ckpt_zip_gap *directory, uint64_t *end)
{
	uint8_t ends[CKPT_ZIP_ENDS_BYTES];

	for (*end = near < ZEROS_AT_END + sizeof(ends) ? sizeof(ends) : near - ZEROS_AT_END; *end <= near + ZEROS_AT_END && *end <= limit; (*end)++)
		if (ckpt_zip_read_plain_ends(zip->source, *end - sizeof(ends), ends, directory))
			return true;
	return false;
}

static int find(struct ckpt_zip *zip, const struct places *p, const char *name, struct ckpt_zip_remains *out, struct ckpt_error *err)
{
	uint32_t next = next_of(p, p->end);
	uint64_t least = 0, at, end;
	int rc;

	while (next && p->order[next - 1]->header_off >= p->end)
		next--;
	if (next)
		least = p->order[next - 1]->data_off + p->order[next - 1]->csize;
	if (p->end > MOST_READ && least < p->end - MOST_READ)
		least = p->end - MOST_READ;
	if (least >= p->end)
		return 0;
	rc = ckpt_zip_find_left_behind(zip, name, least, p->end, &at, err);
	if (rc < 0 || !find_ends(zip, at, p->end, &out->directory, &end) || !is_free(p, out->directory.off, end - out->directory.off))
		return rc;
	out->directory.len = end - out->directory.off;
	rc = read_previous(zip, p, name, end, out, err);
	return rc < 0 ? rc : 1;
}

int ckpt_zip_find_remains(struct ckpt_zip *zip, const char *name, uint64_t first, struct ckpt_zip_remains *out, struct ckpt_error *err)
{
	struct places p = { ckpt_zip_by_place(zip), zip->count, first };
	int rc = p.order ? 0 : ckpt_fail_nomem(err);

	*out = (struct ckpt_zip_remains){ 0 };
	if (rc == 0)
		rc = find(zip, &p, name, out, err);
	free(p.order);
	if (rc <= 0)
		ckpt_zip_remains_clear(out);
	return rc;
}

void ckpt_zip_remains_clear(struct ckpt_zip_remains *remains)
{
	free(remains->marks);
	*remains = (struct ckpt_zip_remains){ 0 };
}

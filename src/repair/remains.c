/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Adds what the directory of a damaged archive still says of its records. They were found without
 * it (format/torch_remains.c), so each entry is compared with them: it may have the name that a
 * header lost, the size of a record without an end, another checksum. An entry without a record
 * makes one of its own.
 *
 * A part of the directory may be damaged, too: reading goes on at the next signature behind an
 * entry that cannot be parsed, and entries that are not plausible are ignored. If header and entry
 * have different names for one record, the name that the pickle expects is right (is_misnamed()).
 */
#include "repair/remains.h"

#include <stdlib.h>
#include <string.h>

enum { WINDOW = 256 << 10, MOST_ENTRY = 8 << 10, LOCAL_BYTES = 30, END_BYTES = 22 };

/* ---- one entry ---- */

/* Finds where the data begin: the header in front of them may be damaged. */
static void find_data(const struct ckpt_remains *r, struct ckpt_remnant *record)
{
	struct ckpt_remnant other = *record;
	uint8_t lens[4] = { 0 };
	uint64_t end;

	if (ckpt_source_read(r->source, record->header_off + LOCAL_BYTES - 4, lens, 4, NULL) == 0)
		record->data_off = record->header_off + LOCAL_BYTES + record->name_len + lens[2] +
				   ((uint64_t)lens[3] << 8);
	other.data_off = record->data_off;
	if (ckpt_remains_read_descriptor(r, record, &end) == CKPT_ZIP_THERE || !record->csize ||
	    !ckpt_remains_expect_data_off(r, &other))
		return;
	/* torch's layout is the better guess: the lengths in a sound header were read before */
	ckpt_remains_read_descriptor(r, &other, &end);
	*record = other;
}

static bool has_header(const struct ckpt_remains *r, const struct ckpt_zip_entry *e)
{
	uint8_t bytes[LOCAL_BYTES + 256];
	size_t len = e->name_len < 256 ? e->name_len : 256;

	return ckpt_source_read(r->source, e->header_off, bytes, LOCAL_BYTES + len, NULL) == 0 &&
	       !memcmp(bytes, "PK\3\4", 4) && !memcmp(bytes + LOCAL_BYTES, e->name, len);
}

static void set_from_entry(const struct ckpt_remains *r, struct ckpt_remnant *record,
			   const struct ckpt_zip_entry *e)
{
	*record = (struct ckpt_remnant){ .name = record->name,
					 .name_len = record->name_len,
					 .method = e->method,
					 .header_off = e->header_off,
					 .csize = e->csize,
					 .usize = e->usize,
					 .sized = true,
					 .in_directory = true };
	record->no_header = !has_header(r, e);
	find_data(r, record);
	record->usize = e->usize;
}

static bool is_plausible(const struct ckpt_remains *r, const struct ckpt_zip_entry *e)
{
	uint64_t size = ckpt_source_size(r->source);

	return ckpt_remains_is_ours(r, e->name, e->name_len) && e->header_off <= size &&
	       e->csize <= INT64_MAX / 2 && e->name_len <= CKPT_ZIP_MOST_NAME &&
	       !memchr(e->name, '\0', e->name_len);
}

/*
 * Have entry and header of one record different names, and is that of the entry the damaged one? If
 * it is that of the header, the record that was found by it is marked as misnamed.
 */
static int is_misnamed(struct ckpt_remains *r, const struct ckpt_zip_entry *e, bool *is,
		       struct ckpt_error *err)
{
	struct ckpt_zip_local *local = malloc(sizeof(*local));
	const uint64_t *slot;

	*is = false;
	if (!local)
		return ckpt_fail_nomem(err);
	if (ckpt_zip_read_local(r->source, e->header_off, local) &&
	    (local->name_len != e->name_len || memcmp(local->name, e->name, e->name_len) != 0)) {
		slot = ckpt_strmap_find(&r->by_name, local->name, local->name_len);
		if (slot && r->records[*slot].header_off == e->header_off) {
			*is = ckpt_remains_expects(r, local->name, local->name_len) ||
			      !ckpt_remains_expects(r, e->name, e->name_len);
			r->records[*slot].misnamed = !*is;
		}
	}
	free(local);
	return 0;
}

static int add_entry(struct ckpt_remains *r, const struct ckpt_zip_entry *e, struct ckpt_error *err)
{
	struct ckpt_remnant *record;
	uint64_t *slot, end;
	bool misnamed;
	int rc;

	if (!is_plausible(r, e))
		return 0;
	r->has_directory = true;
	rc = is_misnamed(r, e, &misnamed, err);
	if (rc < 0 || misnamed)
		return rc;
	rc = ckpt_remains_add(r, e->name, e->name_len, e->header_off, &record, err);
	slot = ckpt_strmap_find(&r->by_name, e->name, e->name_len);
	if (rc < 0 || !slot)
		return rc;
	if (record) {
		set_from_entry(r, record, e);
	} else {
		record = &r->records[*slot];
		/* an edit in place may have left an old record of this name */
		if (record->header_off != e->header_off && has_header(r, e))
			set_from_entry(r, record, e);
		else if (record->header_off != e->header_off) {
			record->has_elsewhere = record->csize == e->csize && e->crc32;
			record->elsewhere_crc = e->crc32;
			return 0;
		}
		if (!record->sized) {
			record->csize = e->csize;
			record->usize = e->usize;
			record->sized = true;
			ckpt_remains_read_descriptor(r, record, &end);
		}
		record->in_directory = true;
	}
	if (record->csize == e->csize)
		ckpt_remnant_add_crc(record, e->crc32);
	if (r->pickle_at < 0 && ckpt_remains_is_called(r, record, "data.pkl"))
		rc = ckpt_remains_read_pickle(r, (uint32_t)(record - r->records), err);
	return rc;
}

/* ---- all of them ---- */

struct search {
	const struct ckpt_remains *r;
	struct ckpt_error *err;
};

static int is_entry_mark(void *ctx, uint32_t mark, uint64_t at)
{
	struct search *s = ctx;

	(void)at;
	if (!mark)
		return ckpt_remains_check_cancel(s->r, s->err);
	return mark == CKPT_ZIP_MARK_DIRECTORY || mark == CKPT_ZIP_MARK_END ||
	       mark == CKPT_ZIP_MARK_LOCAL;
}

/*
 * Reads the entry at *AT, which moves behind it, or to where the next one may be. 0: the directory
 * ends.
 */
static int next_entry(struct ckpt_remains *r, struct ckpt_window *w, uint64_t *at,
		      struct ckpt_zip_entry *e, bool *there, struct ckpt_error *err)
{
	struct search s = { r, err };
	uint64_t left = ckpt_source_size(r->source) - *at;
	size_t len = left < MOST_ENTRY ? (size_t)left : MOST_ENTRY;
	const uint8_t *bytes;
	struct ckpt_reader reader = { .len = len };
	int rc;

	*there = false;
	if (len < END_BYTES || ckpt_window_read(w, *at, len, &bytes, NULL) < 0)
		return 0;
	if (!memcmp(bytes, "PK\5\6", 4) || !memcmp(bytes, "PK\3\4", 4))
		return 0;
	reader.data = bytes;
	*e = (struct ckpt_zip_entry){ 0 };
	rc = ckpt_zip_parse_entry(&reader, *at, r->arena, e, NULL);
	if (rc == CKPT_E_NOMEM)
		return ckpt_fail_nomem(err);
	if (rc == 0) {
		*at += reader.pos;
		*there = true;
		return 1;
	}
	rc = ckpt_zip_scan(r->source, *at + 1, is_entry_mark, &s, at);
	return rc;
}

/* The directory begins at AT. *END: behind it. */
static int read_directory(struct ckpt_remains *r, uint64_t at, uint64_t *end,
			  struct ckpt_error *err)
{
	uint64_t size = ckpt_source_size(r->source);
	struct ckpt_window w;
	struct ckpt_zip_entry e;
	uint8_t bytes[END_BYTES];
	bool there;
	int rc = ckpt_window_init(&w, r->source, WINDOW, err);

	while (rc == 0 && (rc = next_entry(r, &w, &at, &e, &there, err)) > 0)
		rc = there ? add_entry(r, &e, err) : 0;
	ckpt_window_clear(&w);
	*end = at < size ? at : size;
	if (rc < 0 || size - *end < END_BYTES ||
	    ckpt_source_read(r->source, *end, bytes, sizeof(bytes), NULL) < 0 ||
	    memcmp(bytes, "PK\5\6", 4) != 0)
		return rc < 0 ? rc : 0;
	*end += END_BYTES;
	if (size - *end >= (bytes[20] | (uint64_t)bytes[21] << 8))
		*end += bytes[20] | (uint64_t)bytes[21] << 8;
	return 0;
}

/* ---- the whole ---- */

static void note_rest(struct ckpt_remains *r, uint64_t at)
{
	uint8_t mark[4];

	r->follows = ckpt_source_size(r->source) - at;
	r->another = r->follows && ckpt_source_read(r->source, at, mark, sizeof(mark), NULL) == 0 &&
		     !memcmp(mark, "PK\3\4", 4);
}

int ckpt_remains_read(struct ckpt_source *source, const volatile int *cancel,
		      struct ckpt_remains *r, struct ckpt_error *err)
{
	uint64_t at;
	int rc = ckpt_remains_walk(source, 0, cancel, r, &at, err);

	if (rc == 0)
		rc = read_directory(r, at, &at, err);
	for (uint32_t i = 0; rc == 0 && r->zip && i < r->zip->count; i++)
		rc = add_entry(r, &r->zip->entries[i], err);
	if (rc == 0 && !r->zip)
		note_rest(r, at);
	return rc;
}

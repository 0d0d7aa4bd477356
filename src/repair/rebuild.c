/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Puts together the archive that torch would have written, from records of the file, zeros for
 * storages that are lost, and the small records whose texts are known.
 *
 * What must stay true: a stored record without a proof gets no checksum, so that nothing says more
 * of it later. Names that torch's reader would take for another record, as it ignores case, are
 * left out (is_misspelled()). Which of the small records are there depends on the version of torch
 * that wrote the file (add_missing_fixed()).
 */
#include "repair/rebuild.h"

#include "base/ascii.h"
#include "base/grow.h"
#include "base/text.h"
#include "zipfmt/rebuild.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_KEY = 400, MOST_FIXED = 64 };

struct builder {
	const struct ckpt_rebuild *b;
	struct ckpt_arena *arena; /* names of records that are missing */
	struct ckpt_zip_rebuilt *records;
	uint32_t count, cap;
	struct ckpt_strmap done; /* inner names */
	char alignment[16];
	struct ckpt_error *err;
};

/* ---- small records, whose texts are known ---- */

static const struct {
	const char *name, *text; /* the text if it is lost; NULL: the alignment */
} fixed[] = {
	{ "version", "3\n" },
	{ ".data/version", "3\n" },
	{ "byteorder", "little" },
	{ ".format_version", "1" },
	{ ".storage_alignment", NULL },
	{ ".data/serialization_id", "0000000000000000000000000000000000000000" },
};

static int find_fixed(const char *inner)
{
	for (size_t i = 0; i < sizeof(fixed) / sizeof(fixed[0]); i++)
		if (!strcmp(inner, fixed[i].name))
			return (int)i;
	return -1;
}

bool ckpt_rebuild_is_fixed(const struct ckpt_rebuild *b, const struct ckpt_remnant *record)
{
	const char *inner = ckpt_remains_inner_name(b->remains, record);

	return inner && find_fixed(inner) >= 0;
}

const struct ckpt_remnant *ckpt_rebuild_storage(const struct ckpt_rebuild *b, const char *key,
						size_t len)
{
	char name[MOST_KEY + 8];

	if (len > MOST_KEY || memchr(key, '\0', len))
		return NULL;
	snprintf(name, sizeof(name), "data/%.*s", (int)len, key);
	return ckpt_remains_find(b->remains, name);
}

uint64_t ckpt_rebuild_nbytes(const struct ckpt_remnant *record)
{
	return record->method == CKPT_ZIP_STORED ? record->csize : record->usize;
}

/* ---- adding a record ---- */

static int add_record(struct builder *w, const struct ckpt_zip_rebuilt *record)
{
	void *grown = ckpt_grow(w->records, w->count, &w->cap, sizeof(*w->records));
	bool there;

	if (grown)
		w->records = grown;
	if (!grown || !ckpt_strmap_insert(&w->done, record->name, strlen(record->name), 0, &there))
		return ckpt_fail_nomem(w->err);
	if (!there)
		w->records[w->count++] = *record;
	return 0;
}

static int add_zeros(struct builder *w, const char *name, uint64_t len)
{
	struct ckpt_zip_rebuilt record = {
		.name = name, .from = CKPT_ZIP_ZEROS, .csize = len, .usize = len
	};

	return add_record(w, &record);
}

static int add_fixed(struct builder *w, const char *name)
{
	int i = find_fixed(name);
	const char *text = fixed[i].text ? fixed[i].text : w->alignment;
	struct ckpt_zip_rebuilt record = { .name = fixed[i].name, .from = CKPT_ZIP_FROM_MEMORY };

	if (w->b->byteorder && !strcmp(name, "byteorder"))
		text = w->b->byteorder;
	record.memory = text;
	record.csize = record.usize = strlen(text);
	return add_record(w, &record);
}

static int add_existing(struct builder *w, uint32_t i, const char *inner)
{
	const struct ckpt_remnant *r = &w->b->remains->records[i];
	struct ckpt_zip_rebuilt record = { .name = inner,
					   .from = CKPT_ZIP_FROM_FILE,
					   .off = r->data_off,
					   .csize = r->csize,
					   .usize = ckpt_rebuild_nbytes(r),
					   .method = r->method,
					   .crc32 = w->b->fates[i].crc32 };

	/* what unpacks it compares the checksum, too */
	if (r->method != CKPT_ZIP_STORED && !record.crc32 && r->crc_count)
		record.crc32 = r->crcs[0];
	return add_record(w, &record);
}

/* Has a small record without a proof a text that torch may have written? */
static bool is_valid(const struct ckpt_remains *remains, const struct ckpt_remnant *r,
		     const char *inner)
{
	char text[MOST_FIXED] = "", *end;
	unsigned long v;

	if (r->method != CKPT_ZIP_STORED || r->csize >= sizeof(text) ||
	    ckpt_source_read(remains->source, r->data_off, text, (size_t)r->csize, NULL) < 0)
		return false;
	if (!strcmp(inner, "byteorder"))
		return !strcmp(text, "little") || !strcmp(text, "big");
	v = strtoul(text, &end, 10);
	if (!strcmp(inner, ".storage_alignment"))
		return !*end && v >= 1 && v <= 1 << 20;
	return end != text && v >= 1 && (v <= 10 || strlen(text) > 30);
}

/* torch's reader ignores the case of names: a damaged name would stand for the missing record. */
static bool is_misspelled(const char *inner)
{
	for (size_t i = 0; i < sizeof(fixed) / sizeof(fixed[0]); i++)
		if (!ckpt_strcasecmp(inner, fixed[i].name))
			return strcmp(inner, fixed[i].name) != 0;
	if (!ckpt_strcasecmp(inner, "data.pkl"))
		return strcmp(inner, "data.pkl") != 0;
	return !ckpt_strncasecmp(inner, "data/", 5) && strncmp(inner, "data/", 5) != 0;
}

static int add_remnant(struct builder *w, uint32_t i)
{
	const struct ckpt_remains *remains = w->b->remains;
	const struct ckpt_remnant *r = &remains->records[i];
	const struct ckpt_piece_fate *fate = &w->b->fates[i];
	const char *inner = ckpt_remains_inner_name(remains, r),
		   *key = ckpt_remains_key(remains, r);
	const uint64_t *size = key ? ckpt_strmap_find(&remains->sizes, key, strlen(key)) : NULL;

	if (!inner || !*inner || inner[strlen(inner) - 1] == '/' || (key && !size) ||
	    !ckpt_utf8_ok(inner, strlen(inner)) || is_misspelled(inner))
		return 0;
	if (w->b->as_it_is)
		return fate->why ? 0 : add_existing(w, i, inner);
	if (size && (fate->mark == CKPT_FATE_LOST || ckpt_rebuild_nbytes(r) < *size))
		return add_zeros(w, inner, *size);
	if (fate->mark == CKPT_FATE_PROVEN)
		return add_existing(w, i, inner);
	if (find_fixed(inner) >= 0)
		return fate->mark == CKPT_FATE_UNPROVEN && is_valid(remains, r, inner)
			       ? add_existing(w, i, inner)
			       : add_fixed(w, inner);
	return fate->mark == CKPT_FATE_LOST ? 0 : add_existing(w, i, inner);
}

/* ---- what is missing ---- */

static int add_missing_storages(struct builder *w)
{
	const struct ckpt_strmap *sizes = &w->b->remains->sizes;
	int rc = 0;

	for (size_t i = 0; rc == 0 && i < sizes->count; i++) {
		const struct ckpt_strmap_entry *size = &sizes->entries[i];
		char *name;

		if (size->len > MOST_KEY || !size->len || memchr(size->key, '\0', size->len))
			continue;
		name = ckpt_arena_alloc(w->arena, size->len + (uint64_t)6);
		if (!name)
			return ckpt_arena_fail(w->arena, w->err);
		memcpy(name, "data/", 5);
		memcpy(name + 5, size->key, size->len);
		name[5 + size->len] = '\0';
		if (!ckpt_strmap_find(&w->done, name, size->len + (size_t)5))
			rc = add_zeros(w, name, size->value);
	}
	return rc;
}

static bool is_added(const struct builder *w, const char *name)
{
	return ckpt_strmap_find(&w->done, name, strlen(name)) != NULL;
}

/* Records that are written together since torch 2.7, since 2.1, and always. */
static int add_missing_fixed(struct builder *w)
{
	bool newest = is_added(w, ".format_version") || is_added(w, ".storage_alignment");
	bool marked = newest || is_added(w, "byteorder") || is_added(w, ".data/serialization_id");
	int rc = 0;

	if (newest)
		rc = add_fixed(w, ".format_version");
	if (rc == 0 && newest)
		rc = add_fixed(w, ".storage_alignment");
	if (rc == 0 && marked)
		rc = add_fixed(w, "byteorder");
	if (rc == 0 && !is_added(w, ".data/version"))
		rc = add_fixed(w, "version");
	if (rc == 0 && marked)
		rc = add_fixed(w, ".data/serialization_id");
	return rc;
}

int ckpt_rebuild_archive(const struct ckpt_rebuild *b, struct ckpt_source **out,
			 struct ckpt_error *err)
{
	struct builder w = { .b = b, .err = err };
	int rc;

	*out = NULL;
	snprintf(w.alignment, sizeof(w.alignment), "%" PRIu32, b->remains->alignment);
	w.arena = ckpt_arena_new(UINT64_MAX);
	rc = w.arena ? 0 : ckpt_fail_nomem(err);
	for (uint32_t i = 0; rc == 0 && i < b->remains->count; i++)
		rc = add_remnant(&w, i);
	if (rc == 0)
		rc = add_missing_storages(&w);
	if (rc == 0)
		rc = add_missing_fixed(&w);
	if (rc == 0)
		rc = ckpt_zip_rebuild(b->remains->source, b->remains->folder, w.records, w.count,
				      out, err);
	ckpt_strmap_clear(&w.done);
	ckpt_arena_free(w.arena);
	free(w.records);
	return rc;
}

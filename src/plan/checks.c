/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A table of records, found by where their bytes come from. A record was compared already
 * (CHECKED), or has the checksums of its parts, which are joined at the end if they make up the
 * whole, or is INCOMPLETE and is read again at the end.
 *
 * What must stay true: a record leaves ckpt_checks_finish() compared, whatever was reported of
 * it in which order. Parts are only a way to avoid reading it twice; when in doubt they are
 * dropped.
 */
#include "plan/checks.h"

#include "base/arena.h"
#include "base/cancel.h"
#include "base/grow.h"
#include "base/strmap.h"
#include "plan/read_blocks.h"
#include "plan/moved.h"

#include <stdlib.h>
#include <string.h>

enum { MOST_PARTS = 4096 }; /* per record; one with more is read again */

struct part {
	uint64_t off, len; /* in the record */
	uint32_t crc32;
};

struct record {
	struct ckpt_recipe whole;
	struct part *parts; /* malloc */
	uint32_t part_count, part_cap;
	bool checked, incomplete; /* INCOMPLETE: bytes were read that are in none of the parts */
};

/* Identifies a record. Compared as bytes: no padding. */
struct key {
	const void *from;
	uint64_t off, kind;
};

struct ckpt_checks {
	struct ckpt_arena *arena; /* keys */
	struct ckpt_strmap by_key;
	struct record *records; /* malloc */
	uint32_t count, cap;
};

int ckpt_checks_new(struct ckpt_checks **out, struct ckpt_error *err)
{
	struct ckpt_checks *c = calloc(1, sizeof(*c));

	*out = c;
	if (!c)
		return ckpt_fail_nomem(err);
	c->arena = ckpt_arena_new(UINT64_MAX >> 1); /* grows with what is reported */
	if (c->arena)
		return 0;
	ckpt_checks_free(c);
	*out = NULL;
	return ckpt_fail_nomem(err);
}

void ckpt_checks_free(struct ckpt_checks *c)
{
	if (!c)
		return;
	for (uint32_t i = 0; i < c->count; i++)
		free(c->records[i].parts);
	free(c->records);
	ckpt_strmap_clear(&c->by_key);
	ckpt_arena_free(c->arena);
	free(c);
}

/* ---- records ---- */

/* The entry of the record WHOLE, a recipe with a checksum; a new one if it has none. */
static int find_record(struct ckpt_checks *c, const struct ckpt_recipe *whole, struct record **out,
		       struct ckpt_error *err)
{
	void *grown = ckpt_grow(c->records, c->count, &c->cap, sizeof(*c->records));
	struct key *key;
	uint64_t *index;
	bool exists;

	if (!grown)
		return ckpt_fail_nomem(err);
	c->records = grown;
	key = ckpt_arena_calloc(c->arena, 1, sizeof(*key));
	if (!key)
		return ckpt_fail_nomem(err);
	key->from = whole->kind == CKPT_RECIPE_EXTENT ? (const void *)whole->src : whole->ctx;
	key->off = whole->off;
	key->kind = whole->kind;
	index = ckpt_strmap_insert(&c->by_key, (const char *)key, sizeof(*key), c->count, &exists);
	if (!index)
		return ckpt_fail_nomem(err);
	if (!exists)
		c->records[c->count++] = (struct record){ .whole = *whole };
	*out = &c->records[*index];
	return 0;
}

/* The record that an EXTENT is a part of. */
static struct ckpt_recipe whole_of(const struct ckpt_recipe *part)
{
	return (struct ckpt_recipe){ .kind = CKPT_RECIPE_EXTENT,
				     .src = part->src,
				     .off = part->whole.off,
				     .len = part->whole.len,
				     .has_crc = true,
				     .crc32 = part->whole.crc32 };
}

/* ---- what was read ---- */

static void forget_parts(struct record *r)
{
	free(r->parts);
	r->parts = NULL;
	r->part_count = r->part_cap = 0;
	r->incomplete = true;
}

static int add_part(struct record *r, struct part part, struct ckpt_error *err)
{
	void *grown;

	if (r->checked || r->incomplete)
		return 0;
	if (r->part_count == MOST_PARTS) {
		forget_parts(r);
		return 0;
	}
	grown = ckpt_grow(r->parts, r->part_count, &r->part_cap, sizeof(part));
	if (!grown)
		return ckpt_fail_nomem(err);
	r->parts = grown;
	r->parts[r->part_count++] = part;
	return 0;
}

int ckpt_checks_add(struct ckpt_checks *c, const struct ckpt_recipe *recipe, uint32_t crc32,
		    struct ckpt_error *err)
{
	struct ckpt_recipe whole;
	struct record *r = NULL;
	int rc;

	if (!recipe->has_crc && !recipe->whole.len)
		return 0;
	whole = recipe->has_crc ? *recipe : whole_of(recipe);
	rc = find_record(c, &whole, &r, err);
	if (rc == 0 && recipe->has_crc) {
		r->checked = true;
		rc = ckpt_recipe_check(recipe, crc32, err);
	} else if (rc == 0) {
		rc = add_part(r,
			      (struct part){ recipe->off - recipe->whole.off, recipe->len, crc32 },
			      err);
	}
	return rc;
}

static int want_record(struct ckpt_checks *c, const struct ckpt_recipe *whole,
		       struct ckpt_error *err)
{
	struct record *r = NULL;
	int rc = find_record(c, whole, &r, err);

	if (rc == 0 && !r->checked)
		forget_parts(r);
	return rc;
}

int ckpt_checks_want(struct ckpt_checks *c, const struct ckpt_recipe *recipe,
		     struct ckpt_error *err)
{
	const struct ckpt_recipe *inner;
	struct ckpt_recipe whole;
	int rc = 0;

	if (recipe->has_crc && recipe->kind != CKPT_RECIPE_MEMORY &&
	    recipe->kind != CKPT_RECIPE_JOINED)
		return want_record(c, recipe, err);
	if (recipe->kind == CKPT_RECIPE_EXTENT && recipe->whole.len) {
		whole = whole_of(recipe);
		return want_record(c, &whole, err);
	}
	for (size_t i = 0; rc == 0 && recipe->kind == CKPT_RECIPE_JOINED && i < recipe->part_count;
	     i++)
		rc = ckpt_checks_want(c, &recipe->parts[i], err);
	for (size_t i = 0; rc == 0 && recipe->inner && (inner = recipe->inner(recipe, i)); i++)
		if (!recipe->checks_inner || !inner->has_crc)
			rc = ckpt_checks_want(c, inner, err);
	return rc;
}

/* ---- the end ---- */

static int by_place(const void *a, const void *b)
{
	const struct part *x = a, *y = b;

	return (x->off > y->off) - (x->off < y->off);
}

/* Do the parts make up the whole record, without a gap? Some may be there twice. */
static bool join_parts(struct record *r, uint32_t *crc32)
{
	uint64_t pos = 0;

	*crc32 = 0;
	if (r->incomplete)
		return false;
	qsort(r->parts, r->part_count, sizeof(*r->parts), by_place);
	for (uint32_t i = 0; i < r->part_count; i++) {
		const struct part *p = &r->parts[i];

		if (p->off > pos)
			return false;
		if (p->off < pos && p->off + p->len <= pos)
			continue;
		if (p->off < pos)
			return false;
		*crc32 = ckpt_join_crc(*crc32, p->crc32, p->len);
		pos += p->len;
	}
	return pos == r->whole.len;
}

static int check_cancel(void *ctx, uint64_t done, struct ckpt_error *err)
{
	const volatile int *cancel = ctx;

	(void)done;
	return ckpt_cancelled(cancel)
		       ? ckpt_fail(err, CKPT_E_CANCELLED, "interrupted, nothing was written")
		       : 0;
}

/* Read and compare COUNT records. */
static int read_again(const struct ckpt_recipe *records, uint64_t count, const volatile int *cancel,
		      uint32_t threads, struct ckpt_error *err)
{
	struct ckpt_block_reading reading = { .recipes = records,
				  .count = count,
				  .crc32 = calloc(count, sizeof(uint32_t)),
				  .tick = check_cancel,
				  .ctx = (void *)cancel };
	struct ckpt_workers *workers = NULL;
	int rc = reading.crc32 ? ckpt_workers_new(ckpt_block_buffer_size(0, 0), threads, &workers, err)
			    : ckpt_fail_nomem(err);

	if (rc == 0)
		rc = ckpt_read_blocks(workers, &reading, err);
	for (uint64_t i = 0; rc == 0 && i < count; i++)
		rc = ckpt_recipe_check(&records[i], reading.crc32[i], err);
	ckpt_workers_free(workers);
	free(reading.crc32);
	return rc;
}

int ckpt_checks_finish(struct ckpt_checks *c, const volatile int *cancel, uint32_t threads,
		       struct ckpt_error *err)
{
	struct ckpt_recipe *again = malloc(((size_t)c->count + 1) * sizeof(*again));
	uint64_t count = 0;
	uint32_t crc32;
	int rc = again ? 0 : ckpt_fail_nomem(err);

	for (uint32_t i = 0; rc == 0 && i < c->count; i++) {
		struct record *r = &c->records[i];

		if (r->checked)
			continue;
		r->checked = true;
		if (join_parts(r, &crc32))
			rc = ckpt_recipe_check(&r->whole, crc32, err);
		else
			again[count++] = r->whole;
	}
	if (rc == 0 && count)
		rc = read_again(again, count, cancel, threads, err);
	free(again);
	return rc;
}

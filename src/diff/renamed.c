/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds tensors that have another name. Among those that only one side has, tensors of the same
 * dtype and shape are matched by the checksum of their items: a recorded one where these are
 * trusted, or one that is computed here.
 *
 * Equal checksums are a hint, no proof: every pair is then compared in full by ckpt_read_pairs(),
 * unless both checksums are recorded and CKPT_DIFF_TRUST_CHECKSUMS takes them for the bytes. What
 * is not equal goes back to the lists of what only one side has (keep_equal()).
 */
#include "diff/differ.h"

#include "array/array.h"
#include "diff/job.h"
#include "diff/sides.h"
#include "plan/read_blocks.h"
#include "tensor/shape.h"

#include <stdlib.h>
#include <string.h>

enum { BATCH = 256, MOST_CHOICES = 1 << 20 };

/* A tensor that only one side has. */
struct candidate {
	uint32_t at; /* in the list of its side */
	const struct ckpt_entry *e;
	struct ckpt_diff_side side;
	uint32_t crc;
	bool known, recorded; /* the checksum */
	bool taken;
};

struct candidates {
	const struct ckpt_entries *entries;
	struct candidate *items; /* malloc */
	uint32_t count;
};

/* ---- which there are ---- */

/* Can its items be read without being made of something else first? */
static bool is_simple(const struct ckpt_entry *e)
{
	if (e->kind == CKPT_ENTRY_TENSOR)
		return e->t->kind == CKPT_KIND_STRIDED || e->t->kind == CKPT_KIND_NUMPY;
	return e->kind == CKPT_ENTRY_ARRAY;
}

/*
 * Are its items, in their order, all of the storage, so that the checksum of the record is theirs?
 */
static bool fills_storage(const struct ckpt_model *model, const struct ckpt_tensor *t)
{
	uint64_t step = 1;

	if (t->kind != CKPT_KIND_STRIDED || t->storage < 0 || t->offset || t->is_conj ||
	    t->is_neg || model->doc->big_endian)
		return false;
	for (uint32_t i = t->ndim; i-- > 0; step *= t->shape[i])
		if (t->shape[i] > 1 && t->stride[i] != step)
			return false;
	return step * ckpt_dtype_size(t->dtype) == model->storages[t->storage].nbytes;
}

static int init_candidates(struct candidates *c, const struct ckpt_entries *entries,
			   const struct ckpt_entry **list, uint32_t count, bool trusts,
			   struct ckpt_arena *arena, struct ckpt_error *err)
{
	c->entries = entries;
	c->items = calloc(count + 1u, sizeof(*c->items));
	if (!c->items)
		return ckpt_fail_nomem(err);
	for (uint32_t i = 0; i < count; i++) {
		struct candidate *n = &c->items[c->count];
		int rc;

		if (!is_simple(list[i]))
			continue;
		*n = (struct candidate){ .at = i, .e = list[i] };
		rc = ckpt_describe_side(entries, n->e, arena, &n->side, err);
		if (rc < 0)
			return rc;
		if (ckpt_shape_is_empty(n->side.shape, n->side.ndim))
			continue;
		if (trusts && n->e->t && fills_storage(entries->model, n->e->t))
			n->known = n->recorded =
				ckpt_recorded_crc(entries->model, n->e->t->storage, &n->crc);
		c->count++;
	}
	return 0;
}

/* By what is known without the items. */
static int compare_form(const struct candidate *a, const struct candidate *b)
{
	int order = strcmp(a->side.type, b->side.type);

	if (!order)
		order = strcmp(a->side.dtype, b->side.dtype);
	if (!order)
		order = (a->side.ndim > b->side.ndim) - (a->side.ndim < b->side.ndim);
	for (uint32_t i = 0; !order && i < a->side.ndim; i++)
		order = (a->side.shape[i] > b->side.shape[i]) -
			(a->side.shape[i] < b->side.shape[i]);
	return order;
}

static int compare_candidates(const void *x, const void *y)
{
	const struct candidate *a = x, *b = y;
	int order = compare_form(a, b);

	if (!order)
		order = b->known - a->known;
	if (!order)
		order = (a->crc > b->crc) - (a->crc < b->crc);
	return order ? order : (a->at > b->at) - (a->at < b->at);
}

/* Keeps those that have one of the same form on the other side. Both lists are sorted. */
static void keep_common(struct candidates *a, struct candidates *b)
{
	uint32_t i = 0, k = 0, kept_a = 0, kept_b = 0;

	while (i < a->count && k < b->count) {
		struct candidate form = a->items[i];
		int order = compare_form(&form, &b->items[k]);

		if (order < 0)
			i++;
		if (order > 0)
			k++;
		if (order)
			continue;
		while (i < a->count && !compare_form(&a->items[i], &form))
			a->items[kept_a++] = a->items[i++];
		while (k < b->count && !compare_form(&b->items[k], &form))
			b->items[kept_b++] = b->items[k++];
	}
	a->count = kept_a;
	b->count = kept_b;
}

/* ---- checksums of those that have none ---- */

struct batch {
	struct ckpt_diff_reading *reading;
	struct candidate *of[BATCH];
	struct ckpt_array *arrays[BATCH];
	struct ckpt_recipe recipes[BATCH];
	uint32_t crcs[BATCH], count;
};

/* A tensor that cannot be read is not matched. */
static int drop_unreadable(void *ctx, uint64_t i, int rc, const struct ckpt_error *err)
{
	struct batch *b = ctx;

	if (!ckpt_diff_can_go_on(rc, err))
		return rc;
	b->of[i] = NULL;
	return 0;
}

static int tick(void *ctx, uint64_t done, struct ckpt_error *err)
{
	struct batch *b = ctx;

	return ckpt_reading_tick(b->reading, done, err);
}

static int checksum_batch(struct batch *b, struct ckpt_error *err)
{
	struct ckpt_block_reading reading = { .recipes = b->recipes,
					      .count = b->count,
					      .crc32 = b->crcs,
					      .failed = drop_unreadable,
					      .tick = tick,
					      .ctx = b };
	int rc = b->count ? ckpt_reading_workers(b->reading, err) : 0;

	if (rc == 0 && b->count)
		rc = ckpt_read_blocks(b->reading->workers, &reading, err);
	for (uint32_t i = 0; i < b->count; i++) {
		if (rc == 0 && b->of[i]) {
			b->of[i]->crc = b->crcs[i];
			b->of[i]->known = true;
			b->reading->nbytes += b->recipes[i].len;
			b->reading->done += b->recipes[i].len;
		}
		ckpt_array_close(b->arrays[i]);
	}
	b->count = 0;
	return rc;
}

static int open_candidate(struct batch *b, const struct ckpt_entries *entries, struct candidate *c,
			  struct ckpt_error *err)
{
	struct ckpt_array *array;
	int rc = ckpt_array_open_value(entries->model, c->e->value, c->e->name, 0, &array, err);

	if (rc == 0) {
		rc = ckpt_array_recipe(array, array->arena, &b->recipes[b->count], err);
		if (rc < 0)
			ckpt_array_close(array);
	}
	if (rc < 0)
		return ckpt_diff_can_go_on(rc, err) ? 0 : rc;
	b->of[b->count] = c;
	b->arrays[b->count++] = array;
	return 0;
}

static int compute_crcs(struct batch *b, struct candidates *c, struct ckpt_error *err)
{
	int rc = 0;

	for (uint32_t i = 0; rc == 0 && i < c->count; i++) {
		if (!c->items[i].known)
			rc = open_candidate(b, c->entries, &c->items[i], err);
		if (rc == 0 && b->count == BATCH)
			rc = checksum_batch(b, err);
	}
	if (rc == 0)
		return checksum_batch(b, err);
	while (b->count)
		ckpt_array_close(b->arrays[--b->count]);
	return rc;
}

static uint64_t bytes_to_read(const struct candidates *c)
{
	uint64_t nbytes = 0;

	for (uint32_t i = 0; i < c->count; i++)
		nbytes += c->items[i].known ? 0 : c->items[i].side.nbytes;
	return nbytes;
}

/* ---- matching ---- */

/* How many bytes at their ends two names have in common. */
static uint32_t common_end(const struct ckpt_entry *a, const struct ckpt_entry *b)
{
	uint32_t n = 0;

	while (n < a->name_len && n < b->name_len &&
	       a->name[a->name_len - 1 - n] == b->name[b->name_len - 1 - n])
		n++;
	return n;
}

static int add_pair(struct ckpt_differ *d, struct candidate *a, struct candidate *b,
		    struct ckpt_error *err)
{
	struct ckpt_pair *pair = &d->renamed[d->renamed_count];
	int rc;

	*pair = (struct ckpt_pair){ .a = a->e, .b = b->e };
	a->taken = b->taken = true;
	rc = ckpt_compare_sides(&d->c, pair, err);
	if (rc < 0)
		return rc;
	pair->by_checksum = a->recorded && b->recorded;
	if (pair->state == CKPT_PAIR_TO_READ && pair->by_checksum)
		pair->state = CKPT_PAIR_SAME;
	d->renamed_count++;
	return 0;
}

/* COUNT of A and B_COUNT of B have the same items: pairs those whose names end alike. */
static int pair_group(struct ckpt_differ *d, struct candidate *a, uint32_t count,
		      struct candidate *b, uint32_t b_count, struct ckpt_error *err)
{
	bool many = (uint64_t)count * b_count > MOST_CHOICES;

	for (uint32_t i = 0; i < count; i++) {
		struct candidate *best = NULL;
		uint32_t most = 0;
		int rc;

		for (uint32_t k = many ? i : 0; k < (many ? i + 1 : b_count) && k < b_count; k++) {
			uint32_t end = common_end(a[i].e, b[k].e);

			if (b[k].taken || (best && end <= most))
				continue;
			best = &b[k];
			most = end;
		}
		if (!best)
			continue;
		rc = add_pair(d, &a[i], best, err);
		if (rc < 0)
			return rc;
	}
	return 0;
}

static uint32_t group_end(const struct candidates *c, uint32_t from)
{
	uint32_t end = from + 1;

	while (end < c->count && c->items[end].known == c->items[from].known &&
	       c->items[end].crc == c->items[from].crc &&
	       !compare_form(&c->items[end], &c->items[from]))
		end++;
	return end;
}

static int pair_all(struct ckpt_differ *d, struct candidates *a, struct candidates *b,
		    struct ckpt_error *err)
{
	uint32_t i = 0, k = 0;

	while (i < a->count && k < b->count) {
		uint32_t end = group_end(a, i), b_end = group_end(b, k);
		int order = compare_form(&a->items[i], &b->items[k]), rc = 0;

		if (!order)
			order = b->items[k].known - a->items[i].known;
		if (!order)
			order = (a->items[i].crc > b->items[k].crc) -
				(a->items[i].crc < b->items[k].crc);
		if (!order && a->items[i].known)
			rc = pair_group(d, &a->items[i], end - i, &b->items[k], b_end - k, err);
		if (rc < 0)
			return rc;
		i = order <= 0 ? end : i;
		k = order >= 0 ? b_end : k;
	}
	return 0;
}

/* ---- all of it ---- */

/* Only those that turned out equal are renamed. */
static void keep_equal(struct ckpt_differ *d)
{
	uint32_t kept = 0;

	for (uint32_t i = 0; i < d->renamed_count; i++) {
		const struct ckpt_pair *pair = &d->renamed[i];

		if (pair->state == CKPT_PAIR_SAME || pair->state == CKPT_PAIR_CHANGED)
			if (!(pair->what & ~(uint32_t)CKPT_DIFFERS_DEVICE) &&
			    (!pair->numbers || !pair->numbers->differing))
				d->renamed[kept++] = *pair;
	}
	d->renamed_count = kept;
	if (kept)
		qsort(d->renamed, kept, sizeof(*d->renamed), ckpt_pair_compare_number);
}

static void mark_renamed(struct ckpt_entries *entries, const struct ckpt_entry *e)
{
	entries->items[e - entries->items].is_renamed = true;
}

static uint32_t drop_marked(const struct ckpt_entry **list, uint32_t count)
{
	uint32_t kept = 0;

	for (uint32_t i = 0; i < count; i++)
		if (!list[i]->is_renamed)
			list[kept++] = list[i];
	return kept;
}

static int match_candidates(struct ckpt_differ *d, struct candidates *a, struct candidates *b,
			    struct ckpt_error *err)
{
	struct batch *batch = calloc(1, sizeof(*batch));
	int rc = batch ? 0 : ckpt_fail_nomem(err);

	if (a->count && b->count) {
		qsort(a->items, a->count, sizeof(*a->items), compare_candidates);
		qsort(b->items, b->count, sizeof(*b->items), compare_candidates);
	}
	keep_common(a, b);
	d->reading.done = d->reading.total;
	d->reading.total += bytes_to_read(a) + bytes_to_read(b);
	if (rc == 0) {
		batch->reading = &d->reading;
		rc = compute_crcs(batch, a, err);
	}
	if (rc == 0)
		rc = compute_crcs(batch, b, err);
	free(batch);
	if (rc < 0 || !a->count || !b->count)
		return rc;
	qsort(a->items, a->count, sizeof(*a->items), compare_candidates);
	qsort(b->items, b->count, sizeof(*b->items), compare_candidates);
	d->renamed = calloc(a->count + 1u, sizeof(*d->renamed));
	if (!d->renamed)
		return ckpt_fail_nomem(err);
	return pair_all(d, a, b, err);
}

int ckpt_find_renamed(struct ckpt_differ *d, struct ckpt_error *err)
{
	struct candidates a = { 0 }, b = { 0 };
	int rc;

	if (!d->only_a_count || !d->only_b_count || ckpt_comparison_has(&d->c, CKPT_DIFF_QUICK))
		return 0;
	rc = init_candidates(&a, &d->c.a, d->only_a, d->only_a_count, ckpt_comparison_trusts(&d->c),
			     d->c.arena, err);
	if (rc == 0)
		rc = init_candidates(&b, &d->c.b, d->only_b, d->only_b_count,
				     ckpt_comparison_trusts(&d->c), d->c.arena, err);
	if (rc == 0)
		rc = match_candidates(d, &a, &b, err);
	if (rc == 0)
		rc = ckpt_read_pairs(&d->reading, d->renamed, d->renamed_count, err);
	free(a.items);
	free(b.items);
	if (rc < 0)
		return rc;
	keep_equal(d);
	for (uint32_t i = 0; i < d->renamed_count; i++) {
		mark_renamed(&d->c.a, d->renamed[i].a);
		mark_renamed(&d->c.b, d->renamed[i].b);
	}
	d->only_a_count = drop_marked(d->only_a, d->only_a_count);
	d->only_b_count = drop_marked(d->only_b, d->only_b_count);
	return 0;
}

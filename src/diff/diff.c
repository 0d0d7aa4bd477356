/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `ckpt diff`: lists the entries of both checkpoints, pairs them by name, compares pairs, and finds
 * tensors that have another name.
 *
 * Names need not be unique: 0 and "0", or 'a.b' and b in a. Entries of one name are paired by their
 * way (how keys were spelled), then in their order. Two lists of the same names in the same order,
 * as files of one training have, are paired without sorting. Lists are sorted back to the order of
 * the files before they are read, as files are read fastest from front to back.
 */
#include "base/flags.h"
#include "diff/differ.h"

#include "base/sized.h"
#include "diff/sides.h"
#include "diff/values.h"
#include "model/walk.h"

#include <math.h>
#include <stdlib.h>

/* ---- pairs ---- */

static int alloc_lists(struct ckpt_differ *d, struct ckpt_error *err)
{
	uint32_t least = d->c.a.count < d->c.b.count ? d->c.a.count : d->c.b.count;

	d->pairs = calloc(least + 1u, sizeof(*d->pairs));
	d->only_a = calloc(d->c.a.count + 1u, sizeof(*d->only_a));
	d->only_b = calloc(d->c.b.count + 1u, sizeof(*d->only_b));
	return d->pairs && d->only_a && d->only_b ? 0 : ckpt_fail_nomem(err);
}

/* `_metadata` comes and goes with the format. */
static bool is_ignored(const struct ckpt_differ *d, const struct ckpt_entry *e)
{
	return e->in_metadata && !ckpt_comparison_has(&d->c, CKPT_DIFF_STRICT);
}

/* Do both have the same names in the same order, as two files of one training do? */
static bool is_same_order(const struct ckpt_differ *d)
{
	uint32_t i = 0;

	while (i < d->c.a.count && i < d->c.b.count && d->c.a.items[i].way == d->c.b.items[i].way &&
	       !ckpt_entry_compare(&d->c.a.items[i], &d->c.b.items[i]))
		i++;
	return i == d->c.a.count && i == d->c.b.count;
}

static void add_pair(struct ckpt_differ *d, const struct ckpt_entry *a, const struct ckpt_entry *b)
{
	d->pairs[d->pair_count++] = (struct ckpt_pair){ .a = a, .b = b };
}

/* Removes COUNT entries from FROM on, and the ignored ones behind them. */
static void drop_range(const struct ckpt_differ *d, const struct ckpt_entry **list,
		       uint32_t *list_count, uint32_t from, uint32_t count)
{
	uint32_t kept = from;

	for (uint32_t i = from + count; i < *list_count; i++)
		if (!is_ignored(d, list[i]))
			list[kept++] = list[i];
	*list_count = kept;
}

/*
 * Pairs entries of one name, which are sorted by their way: those of one way, then the first with
 * the first. What is left, only one side has.
 */
static void pair_one_name(struct ckpt_differ *d, uint32_t i, uint32_t end_a, uint32_t k,
			  uint32_t end_b)
{
	uint32_t from_a = d->only_a_count, from_b = d->only_b_count, both;

	while (i < end_a || k < end_b) {
		const struct ckpt_entry *a = i < end_a ? &d->c.a.items[i] : NULL,
					*b = k < end_b ? &d->c.b.items[k] : NULL;

		if (a && b && a->way == b->way)
			add_pair(d, a, b);
		else if (!b || (a && a->way < b->way))
			d->only_a[d->only_a_count++] = a;
		else
			d->only_b[d->only_b_count++] = b;
		i += a && (!b || a->way <= b->way);
		k += b && (!a || b->way <= a->way);
	}
	both = d->only_a_count - from_a < d->only_b_count - from_b ? d->only_a_count - from_a
								   : d->only_b_count - from_b;
	for (uint32_t n = 0; n < both; n++)
		add_pair(d, d->only_a[from_a + n], d->only_b[from_b + n]);
	drop_range(d, d->only_a, &d->only_a_count, from_a, both);
	drop_range(d, d->only_b, &d->only_b_count, from_b, both);
}

/* Behind the last entry from I on with the name of NAMED. */
static uint32_t end_of_name(const struct ckpt_entries *e, uint32_t i,
			    const struct ckpt_entry *named)
{
	while (i < e->count && !ckpt_entry_compare(&e->items[i], named))
		i++;
	return i;
}

static int pair_by_name(struct ckpt_differ *d, struct ckpt_error *err)
{
	uint32_t i = 0, k = 0;

	ckpt_entries_sort(&d->c.a);
	ckpt_entries_sort(&d->c.b);
	while (i < d->c.a.count || k < d->c.b.count) {
		bool from_a = k == d->c.b.count ||
			      (i < d->c.a.count &&
			       ckpt_entry_compare(&d->c.a.items[i], &d->c.b.items[k]) <= 0);
		const struct ckpt_entry *named = from_a ? &d->c.a.items[i] : &d->c.b.items[k];
		uint32_t end_a = end_of_name(&d->c.a, i, named),
			 end_b = end_of_name(&d->c.b, k, named);
		bool there;

		if ((end_a - i > 1 || end_b - k > 1) &&
		    !ckpt_strmap_insert(&d->ambiguous, named->name, named->name_len, 0, &there))
			return ckpt_fail_nomem(err);
		pair_one_name(d, i, end_a, k, end_b);
		i = end_a;
		k = end_b;
	}
	return 0;
}

/* Has the name several meanings? Below a key 0 beside a key '0', and where names are cut. */
static bool is_ambiguous(const struct ckpt_differ *d, const struct ckpt_entry *e)
{
	if (e->name_len >= CKPT_WALK_MOST_NAME)
		return true;
	for (uint32_t len = 0; d->ambiguous.count && len <= e->name_len; len++)
		if ((len == e->name_len || e->name[len] == '.') &&
		    ckpt_strmap_find(&d->ambiguous, e->name, len))
			return true;
	return false;
}

int ckpt_pair_compare_number(const void *x, const void *y)
{
	const struct ckpt_pair *a = x, *b = y;

	return (a->a->number > b->a->number) - (a->a->number < b->a->number);
}

static int entries_by_number(const void *x, const void *y)
{
	const struct ckpt_entry *a = *(const struct ckpt_entry *const *)x,
				*b = *(const struct ckpt_entry *const *)y;

	return (a->number > b->number) - (a->number < b->number);
}

static int compare_pair(struct ckpt_differ *d, struct ckpt_pair *pair, struct ckpt_error *err)
{
	if (ckpt_entry_has_numbers(pair->a) && ckpt_entry_has_numbers(pair->b))
		return ckpt_compare_sides(&d->c, pair, err);
	if (pair->a->kind != pair->b->kind) {
		pair->what = CKPT_DIFFERS_TYPE;
		if (pair->a->kind != CKPT_ENTRY_CONTAINER || pair->a->is_empty ||
		    pair->b->kind != CKPT_ENTRY_CONTAINER || pair->b->is_empty)
			pair->what |= CKPT_DIFFERS_VALUE;
		pair->state = CKPT_PAIR_CHANGED;
		return 0;
	}
	if (pair->a->kind == CKPT_ENTRY_CONTAINER)
		return ckpt_compare_containers(&d->c, pair, err);
	return ckpt_compare_values(&d->c, pair, err);
}

/* Of keys that both have in another order, only the first is marked. */
static void compare_order(struct ckpt_differ *d)
{
	uint32_t last = 0;

	for (uint32_t i = 0; i < d->pair_count; i++) {
		struct ckpt_pair *pair = &d->pairs[i];

		if (pair->b->number < last) {
			pair->what |= CKPT_DIFFERS_ORDER;
			if (pair->state == CKPT_PAIR_SAME)
				pair->state = CKPT_PAIR_CHANGED;
			return;
		}
		last = pair->b->number;
	}
}

static int compare_pairs(struct ckpt_differ *d, struct ckpt_error *err)
{
	int rc = 0;

	for (uint32_t i = 0; rc == 0 && i < d->pair_count; i++)
		rc = compare_pair(d, &d->pairs[i], err);
	for (uint32_t i = 0; rc == 0 && i < d->pair_count; i++)
		if (d->pairs[i].a->way != d->pairs[i].b->way && is_ambiguous(d, d->pairs[i].a)) {
			d->pairs[i].what |= CKPT_DIFFERS_KEYS;
			if (d->pairs[i].state == CKPT_PAIR_SAME)
				d->pairs[i].state = CKPT_PAIR_CHANGED;
		}
	if (rc == 0)
		rc = ckpt_find_prefix(d, err);
	if (rc == 0)
		rc = ckpt_read_pairs(&d->reading, d->pairs, d->pair_count, err);
	if (rc == 0)
		rc = ckpt_find_renamed(d, err);
	if (rc == 0 && ckpt_comparison_has(&d->c, CKPT_DIFF_STRICT))
		compare_order(d);
	return rc;
}

/* ---- the whole ---- */

static int list_entries(struct ckpt_differ *d, const struct ckpt_model *a,
			const struct ckpt_model *b, struct ckpt_error *err)
{
	const struct ckpt_diff_options *o = &d->c.options;
	struct ckpt_patterns keep, drop = { 0 };
	int rc = ckpt_patterns_init(&keep, o->keep, o->keep_count, err);

	if (rc == 0)
		rc = ckpt_patterns_init(&drop, o->drop, o->drop_count, err);
	if (rc == 0)
		rc = ckpt_entries_init(&d->c.a, a, err);
	if (rc == 0)
		rc = ckpt_entries_filter(&d->c.a, o, &keep, &drop, err);
	if (rc == 0)
		rc = ckpt_entries_init(&d->c.b, b, err);
	if (rc == 0)
		rc = ckpt_entries_filter(&d->c.b, o, &keep, &drop, err);
	if (rc == 0) {
		d->report.unmatched = ckpt_patterns_unmatched(&keep);
		if (!d->report.unmatched)
			d->report.unmatched = ckpt_patterns_unmatched(&drop);
		if ((o->keep_count || o->drop_count) && !d->c.a.count && !d->c.b.count)
			rc = ckpt_fail(err, CKPT_E_NOTFOUND,
				       o->drop_count ? "the patterns leave nothing to compare"
						     : "no name matches");
	}
	ckpt_patterns_clear(&keep);
	ckpt_patterns_clear(&drop);
	return rc;
}

/* Are both of one file, whatever its names? */
static bool is_one_file(const struct ckpt_model *a, const struct ckpt_model *b)
{
	dev_t dev_a, dev_b;
	ino_t ino_a, ino_b;

	if (a->doc == b->doc)
		return true;
	return !a->doc->path && !b->doc->path && !a->doc->inner_path && !b->doc->inner_path &&
	       a->doc->source && b->doc->source &&
	       ckpt_source_identity(a->doc->source, &dev_a, &ino_a) &&
	       ckpt_source_identity(b->doc->source, &dev_b, &ino_b) && dev_a == dev_b &&
	       ino_a == ino_b;
}

static const unsigned KNOWN_FLAGS = CKPT_DIFF_QUICK | CKPT_DIFF_READ | CKPT_DIFF_STRICT |
				    CKPT_DIFF_IGNORE_DEVICE | CKPT_DIFF_IGNORE_DTYPE |
				    CKPT_DIFF_TRUST_CHECKSUMS;

static int check_options(const struct ckpt_diff_options *o, struct ckpt_error *err)
{
	int rc = ckpt_unused_check(o->reserved, sizeof(o->reserved), err);

	if (rc == 0 && o->order > CKPT_DIFF_BY_NAME)
		rc = ckpt_fail(err, CKPT_E_ARG, "there is no order %u of differences", o->order);
	if (rc < 0)
		return rc;
	if (o->atol >= 0 && o->rtol >= 0 && isfinite(o->atol) && isfinite(o->rtol))
		return 0;
	return ckpt_fail(err, CKPT_E_ARG, "a tolerance is a number from 0 on");
}

static void clear_differ(struct ckpt_differ *d)
{
	ckpt_workers_free(d->reading.workers);
	ckpt_entries_clear(&d->c.a);
	ckpt_entries_clear(&d->c.b);
	ckpt_strmap_clear(&d->ambiguous);
	ckpt_arena_free(d->c.arena);
	free(d->pairs);
	free(d->renamed);
	free(d->only_a);
	free(d->only_b);
}

static int compare_models(struct ckpt_differ *d, const struct ckpt_model *a,
			  const struct ckpt_model *b, struct ckpt_error *err)
{
	int rc = list_entries(d, a, b, err);

	if (rc == 0)
		rc = alloc_lists(d, err);
	if (rc < 0)
		return rc;
	d->c.one_file = is_one_file(a, b);
	if (is_same_order(d)) {
		for (uint32_t i = 0; i < d->c.a.count; i++)
			add_pair(d, &d->c.a.items[i], &d->c.b.items[i]);
	} else {
		rc = pair_by_name(d, err);
		/* back to the order of the files, in which they are read fastest */
		qsort(d->pairs, d->pair_count, sizeof(*d->pairs), ckpt_pair_compare_number);
		qsort(d->only_a, d->only_a_count, sizeof(*d->only_a), entries_by_number);
		qsort(d->only_b, d->only_b_count, sizeof(*d->only_b), entries_by_number);
	}
	if (rc == 0)
		rc = compare_pairs(d, err);
	if (rc == 0)
		rc = ckpt_model_check_unchanged(a, err);
	if (rc == 0)
		rc = ckpt_model_check_unchanged(b, err);
	d->report.read_nbytes = d->reading.nbytes;
	return rc == 0 ? ckpt_report_differences(d, err) : rc;
}

int ckpt_diff(const struct ckpt_model *a, const struct ckpt_model *b,
	      const struct ckpt_diff_options *options,
	      int (*found)(void *ctx, const struct ckpt_difference *difference), void *ctx,
	      struct ckpt_diff_report *report, struct ckpt_error *err)
{
	struct ckpt_differ d = { .c.options = CKPT_DIFF_OPTIONS_INIT,
				 .report = CKPT_DIFF_REPORT_INIT,
				 .found = found,
				 .ctx = ctx };
	struct ckpt_error own =
		CKPT_ERROR_INIT; /* a tensor that cannot be read is no error of the call */
	int rc = ckpt_sized_take(&d.c.options, sizeof(d.c.options), options, &own);

	d.reading.c = &d.c;
	if (rc == 0)
		rc = ckpt_flags_check(d.c.options.flags, KNOWN_FLAGS, &own);
	if (rc == 0)
		rc = ckpt_sized_check(report, sizeof(d.report), &own);
	if (rc == 0)
		rc = check_options(&d.c.options, &own);
	if (rc == 0) {
		d.c.arena = ckpt_arena_new(UINT64_MAX / 2); /* in proportion to the entries */
		rc = d.c.arena ? compare_models(&d, a, b, &own) : ckpt_fail_nomem(&own);
	}
	if (rc == 0)
		ckpt_sized_give(report, &d.report, sizeof(d.report));
	else if (err)
		*err = own;
	clear_differ(&d);
	return rc;
}

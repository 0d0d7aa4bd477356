/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Gives the differences to the caller, in the order in which people want to read them, and counts
 * them.
 *
 * What only one side has goes first, then what has another name, then tensors and other values that
 * are changed. Among changed tensors, those of an optimizer go behind the others, and counters last;
 * within these, NaNs and infinities that appeared go before other shapes, and these before the
 * largest changes. Containers are reported by what is in them, if anything is.
 */
#include "diff/differ.h"

#include "diff/sides.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- numbers ---- */

static struct ckpt_diff_numbers numbers_of(const struct ckpt_pair *pair)
{
	const struct ckpt_numbers *n = pair->numbers;
	double norm_a = sqrt(n->a2), norm_b = sqrt(n->b2), wide = norm_a > norm_b ? norm_a : norm_b;
	double cosine = n->ab / (norm_a * norm_b);

	return (struct ckpt_diff_numbers){
		.size = sizeof(struct ckpt_diff_numbers),
		.count = n->count,
		.differing = n->differing,
		.outside = n->outside,
		.other_bits = n->other_bits,
		.nan_appeared = n->nan_appeared,
		.nan_vanished = n->nan_vanished,
		.nan_both = n->nan_both,
		.inf_appeared = n->inf_appeared,
		.inf_vanished = n->inf_vanished,
		.max_abs = n->max_abs,
		.max_rel = n->max_rel,
		.rms = n->finite ? sqrt(n->diff2 / (double)n->finite) : 0,
		.change = n->diff2 > 0 ? sqrt(n->diff2) / wide : 0,
		.cosine = cosine > 1	? 1
			  : cosine < -1 ? -1
					: cosine,
		.max_ulp = n->max_ulp,
		.has_ulp = pair->has_ulp,
		.has_numbers = pair->has_numbers,
		.finite = n->finite,
		.norm_diff = sqrt(n->diff2),
		.norm_a = norm_a,
		.norm_b = norm_b,
	};
}

/* ---- order ---- */

/* A tensor of one integer. */
static bool is_counter(const struct ckpt_entry *e)
{
	if (e->kind != CKPT_ENTRY_TENSOR)
		return false;
	for (uint32_t i = 0; i < e->t->ndim; i++)
		if (e->t->shape[i] != 1)
			return false;
	switch (e->t->dtype) {
	case CKPT_DTYPE_INT8:
	case CKPT_DTYPE_INT16:
	case CKPT_DTYPE_INT32:
	case CKPT_DTYPE_INT64:
	case CKPT_DTYPE_UINT8:
	case CKPT_DTYPE_UINT16:
	case CKPT_DTYPE_UINT32:
	case CKPT_DTYPE_UINT64: return true;
	default: return false;
	}
}

static bool are_counters(const struct ckpt_pair *pair)
{
	return is_counter(pair->a) && is_counter(pair->b);
}

/* The lowest goes first: weights, what an optimizer keeps, counters. */
static int use_of(const struct ckpt_pair *pair)
{
	return pair->a->of_optimizer ? 1 : are_counters(pair) ? 2 : 0;
}

/* The lowest goes first: NaNs and infinities, shapes, values without numbers, changed numbers. */
static int rank_of(const struct ckpt_pair *pair)
{
	const struct ckpt_numbers *n = pair->numbers;

	if (n && (n->nan_appeared || n->nan_vanished || n->inf_appeared || n->inf_vanished))
		return 0;
	if (pair->what & CKPT_DIFFERS_SHAPE)
		return 1;
	if (pair->what & CKPT_DIFFERS_VALUE && (!n || !pair->has_numbers))
		return 2;
	return n && n->differing ? 3 : 4;
}

/* What the pairs of one rank go by, the largest first. */
static double size_of(const struct ckpt_pair *pair, bool rms)
{
	struct ckpt_diff_numbers numbers;
	double size = 0;

	if (pair->numbers) {
		numbers = numbers_of(pair);
		size = rms ? numbers.rms : numbers.change;
	}
	return isnan(size) ? INFINITY : size;
}

static int by_size(const void *x, const void *y, bool rms)
{
	const struct ckpt_pair *a = *(const struct ckpt_pair *const *)x,
			       *b = *(const struct ckpt_pair *const *)y;
	double size_a, size_b;
	int order = use_of(a) - use_of(b);

	if (!order)
		order = rank_of(a) - rank_of(b);
	if (order)
		return order;
	size_a = size_of(a, rms);
	size_b = size_of(b, rms);
	order = (size_b > size_a) - (size_b < size_a);
	return order ? order : (a->a->number > b->a->number) - (a->a->number < b->a->number);
}

static int by_change(const void *x, const void *y)
{
	return by_size(x, y, false);
}

static int by_rms(const void *x, const void *y)
{
	return by_size(x, y, true);
}

static int by_name(const void *x, const void *y)
{
	const struct ckpt_pair *a = *(const struct ckpt_pair *const *)x,
			       *b = *(const struct ckpt_pair *const *)y;
	int order = use_of(a) - use_of(b);

	if (!order)
		order = ckpt_entry_compare(a->a, b->a);
	return order ? order : (a->a->number > b->a->number) - (a->a->number < b->a->number);
}

/* By enum ckpt_diff_order. */
static int (*const orders[])(const void *, const void *) = { by_change, by_rms, by_name };

/* Where there is nothing but an optimizer, it is what is compared. */
static bool has_others(const struct ckpt_entries *e)
{
	for (uint32_t i = 0; i < e->count; i++)
		if (ckpt_entry_has_numbers(&e->items[i]) && !e->items[i].of_optimizer)
			return true;
	return false;
}

static void forget_optimizers(struct ckpt_entries *e)
{
	for (uint32_t i = 0; i < e->count; i++)
		e->items[i].of_optimizer = false;
}

/* ---- reporting ---- */

static struct ckpt_diff_counts *counts_of(struct ckpt_differ *d, const struct ckpt_entry *e)
{
	return ckpt_entry_has_numbers(e) ? &d->report.tensors : &d->report.values;
}

static int report_difference(struct ckpt_differ *d, struct ckpt_difference *f,
			     const struct ckpt_entry *a, const struct ckpt_entry *b,
			     struct ckpt_error *err)
{
	struct ckpt_arena_mark mark = ckpt_arena_mark(d->c.arena);
	struct ckpt_diff_side side_a, side_b;
	int rc = 0;

	f->size = sizeof(*f);
	f->name = a ? a->name : b->name;
	f->of_optimizer = a ? a->of_optimizer : b->of_optimizer;
	f->is_counter = a && b && is_counter(a) && is_counter(b);
	if (!d->found)
		return 0;
	if (a)
		rc = ckpt_describe_side(&d->c.a, a, d->c.arena, &side_a, err);
	if (rc == 0 && b)
		rc = ckpt_describe_side(&d->c.b, b, d->c.arena, &side_b, err);
	f->a = a ? &side_a : NULL;
	f->b = b ? &side_b : NULL;
	if (rc == 0)
		rc = d->found(d->ctx, f);
	ckpt_arena_release(d->c.arena, mark);
	return rc;
}

static bool is_below(const struct ckpt_entry *e, const struct ckpt_entry *above)
{
	return above && e->name_len > above->name_len && e->name[above->name_len] == '.' &&
	       !memcmp(e->name, above->name, above->name_len);
}

static bool is_reported_by_contents(const struct ckpt_entry *e)
{
	return e->kind == CKPT_ENTRY_CONTAINER && !e->is_empty;
}

static int report_only(struct ckpt_differ *d, bool of_a, struct ckpt_error *err)
{
	const struct ckpt_entry **list = of_a ? d->only_a : d->only_b, *above = NULL;
	uint32_t count = of_a ? d->only_a_count : d->only_b_count;
	int rc = 0;

	for (uint32_t i = 0; rc == 0 && i < count; i++) {
		const struct ckpt_entry *e = list[i];
		struct ckpt_difference f = { .kind = of_a ? CKPT_DIFFERENCE_REMOVED
							  : CKPT_DIFFERENCE_ADDED };

		if (!is_below(e, above))
			above = e->kind == CKPT_ENTRY_CONTAINER ? e : NULL;
		/* {"a.b": x} has the names of {"a": {"b": x}}, but for this one */
		if (is_reported_by_contents(e) && (!ckpt_comparison_has(&d->c, CKPT_DIFF_STRICT) ||
						   (i + 1 < count && is_below(list[i + 1], e))))
			continue;
		f.within = above && above != e ? above->name : NULL;
		*(of_a ? &counts_of(d, e)->removed : &counts_of(d, e)->added) += 1;
		rc = report_difference(d, &f, of_a ? e : NULL, of_a ? NULL : e, err);
	}
	return rc;
}

static int report_renamed(struct ckpt_differ *d, struct ckpt_error *err)
{
	int rc = 0;

	for (uint32_t i = 0; rc == 0 && i < d->renamed_count; i++) {
		const struct ckpt_pair *pair = &d->renamed[i];
		struct ckpt_difference f = { .kind = CKPT_DIFFERENCE_RENAMED,
					     .other_name = pair->b->name,
					     .what = pair->what,
					     .by_checksum = pair->by_checksum };

		d->report.tensors.renamed++;
		rc = report_difference(d, &f, pair->a, pair->b, err);
	}
	return rc;
}

static int report_pair(struct ckpt_differ *d, const struct ckpt_pair *pair, struct ckpt_error *err)
{
	struct ckpt_diff_numbers numbers;
	struct ckpt_difference f = { .kind = CKPT_DIFFERENCE_CHANGED,
				     .what = pair->what,
				     .by_checksum = pair->by_checksum };

	if (pair->state == CKPT_PAIR_UNREADABLE) {
		f.kind = CKPT_DIFFERENCE_UNREADABLE;
		f.text = pair->why;
	} else if (pair->numbers) {
		numbers = numbers_of(pair);
		f.numbers = &numbers;
	}
	return report_difference(d, &f, pair->a, pair->b, err);
}

static bool has_numbers_on_both(const struct ckpt_pair *pair)
{
	return ckpt_entry_has_numbers(pair->a) && ckpt_entry_has_numbers(pair->b);
}

static void count_pair(struct ckpt_differ *d, const struct ckpt_pair *pair)
{
	struct ckpt_diff_counts *counts =
		has_numbers_on_both(pair) ? &d->report.tensors : &d->report.values;
	struct ckpt_diff_side side;

	d->report.other_keys += pair->other_keys;
	if (pair->numbers && pair->numbers->other_bits)
		d->report.other_bits++;
	if (pair->numbers && pair->numbers->differing && !pair->numbers->outside)
		d->report.tolerated++;
	if (pair->state == CKPT_PAIR_UNREADABLE)
		counts->unreadable++;
	else if (pair->state == CKPT_PAIR_CHANGED)
		counts->changed++;
	else if (pair->a->kind != CKPT_ENTRY_CONTAINER)
		counts->same++;
	if (pair->state != CKPT_PAIR_SAME || !pair->by_checksum)
		return;
	d->report.by_checksum++;
	if (ckpt_describe_side(&d->c.a, pair->a, d->c.arena, &side, NULL) == 0)
		d->report.by_checksum_nbytes += side.nbytes;
}

static int report_pairs(struct ckpt_differ *d, bool tensors, bool readable, struct ckpt_error *err)
{
	const struct ckpt_pair **list = calloc(d->pair_count + 1u, sizeof(*list));
	uint32_t count = 0;
	int rc = 0;

	if (!list)
		return ckpt_fail_nomem(err);
	for (uint32_t i = 0; i < d->pair_count; i++) {
		const struct ckpt_pair *pair = &d->pairs[i];

		if (has_numbers_on_both(pair) == tensors &&
		    pair->state == (readable ? CKPT_PAIR_CHANGED : CKPT_PAIR_UNREADABLE))
			list[count++] = pair;
	}
	if (tensors && count)
		qsort(list, count, sizeof(*list), orders[d->c.options.order]);
	for (uint32_t i = 0; rc == 0 && i < count; i++)
		rc = report_pair(d, list[i], err);
	free(list);
	return rc;
}

static bool is_none(const struct ckpt_diff_counts *c)
{
	return !c->changed && !c->removed && !c->added && !c->renamed && !c->unreadable;
}

int ckpt_report_differences(struct ckpt_differ *d, struct ckpt_error *err)
{
	int rc;

	if (!has_others(&d->c.a) && !has_others(&d->c.b)) {
		forget_optimizers(&d->c.a);
		forget_optimizers(&d->c.b);
	}
	for (uint32_t i = 0; i < d->pair_count; i++)
		count_pair(d, &d->pairs[i]);
	rc = report_only(d, true, err);
	if (rc == 0)
		rc = report_only(d, false, err);
	if (rc == 0)
		rc = report_renamed(d, err);
	for (int tensors = 1; rc == 0 && tensors >= 0; tensors--) {
		rc = report_pairs(d, tensors, true, err);
		if (rc == 0)
			rc = report_pairs(d, tensors, false, err);
	}
	d->report.same = is_none(&d->report.tensors) && is_none(&d->report.values);
	return rc;
}

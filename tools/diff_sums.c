/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Figures of several changed tensors together: of the state of an optimizer, of the blocks of
 * 'ckpt diff --depth'. Norms, mean squares and the angle are those of all their finite pairs as one
 * vector; what is equal in a block is not in its figures, for ckpt_diff() gives what changed.
 *
 * Tensors come by the size of their change, and so one block's not one behind the other: there is
 * one sum for each run of a name until diff_sums_finish().
 */
#include "diff.h"
#include "grow.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static double larger(double a, double b)
{
	return b > a || isnan(b) ? b : a;
}

/* The figures that are not sums. */
static void set_figures(struct diff_sum *s)
{
	struct ckpt_diff_numbers *n = &s->numbers;
	double wide;

	n->norm_diff = sqrt(s->diff2);
	n->norm_a = sqrt(s->a2);
	n->norm_b = sqrt(s->b2);
	wide = larger(n->norm_a, n->norm_b);
	n->rms = n->finite ? sqrt(s->diff2 / (double)n->finite) : 0;
	n->change = s->diff2 > 0 ? n->norm_diff / wide : 0;
	n->cosine = s->ab / (n->norm_a * n->norm_b);
	if (n->cosine > 1 || n->cosine < -1)
		n->cosine = n->cosine > 1 ? 1 : -1;
}

static void merge(struct diff_sum *s, const struct diff_sum *o)
{
	struct ckpt_diff_numbers *n = &s->numbers;
	const struct ckpt_diff_numbers *m = &o->numbers;

	s->tensors += o->tensors;
	s->other_shape += o->other_shape;
	s->other_dtype += o->other_dtype;
	s->other_device += o->other_device;
	s->no_numbers += o->no_numbers;
	n->has_ulp = n->count ? n->has_ulp && (m->has_ulp || !m->count) : m->has_ulp;
	n->count = sum(n->count, m->count);
	n->differing = sum(n->differing, m->differing);
	n->outside = sum(n->outside, m->outside);
	n->other_bits = sum(n->other_bits, m->other_bits);
	n->nan_appeared = sum(n->nan_appeared, m->nan_appeared);
	n->nan_vanished = sum(n->nan_vanished, m->nan_vanished);
	n->nan_both = sum(n->nan_both, m->nan_both);
	n->inf_appeared = sum(n->inf_appeared, m->inf_appeared);
	n->inf_vanished = sum(n->inf_vanished, m->inf_vanished);
	n->max_abs = larger(n->max_abs, m->max_abs);
	n->max_rel = larger(n->max_rel, m->max_rel);
	n->max_ulp = m->max_ulp > n->max_ulp ? m->max_ulp : n->max_ulp;
	n->has_numbers |= m->has_numbers;
	n->finite = sum(n->finite, m->finite);
	s->diff2 += o->diff2;
	s->a2 += o->a2;
	s->b2 += o->b2;
	s->ab += o->ab;
	set_figures(s);
}

/* Of one tensor, without a name. */
static struct diff_sum sum_of(const struct ckpt_difference *f)
{
	struct diff_sum s = { .tensors = 1, .numbers = { .size = sizeof(s.numbers) } };

	s.other_dtype = f->what & CKPT_DIFFERS_DTYPE ? 1 : 0;
	s.other_device = f->what & CKPT_DIFFERS_DEVICE ? 1 : 0;
	if (!f->numbers) {
		s.other_shape = f->what & CKPT_DIFFERS_SHAPE ? 1 : 0;
		s.no_numbers = !s.other_shape && f->what & CKPT_DIFFERS_VALUE;
		return s;
	}
	s.numbers = *f->numbers;
	s.no_numbers = !f->numbers->has_numbers;
	s.diff2 = f->numbers->norm_diff * f->numbers->norm_diff;
	s.a2 = f->numbers->norm_a * f->numbers->norm_a;
	s.b2 = f->numbers->norm_b * f->numbers->norm_b;
	if (!isnan(f->numbers->cosine)) /* the angle with 0 */
		s.ab = f->numbers->cosine * f->numbers->norm_a * f->numbers->norm_b;
	return s;
}

void diff_name_shorten(char *name, const char *other)
{
	size_t i = 0, end = 0;

	for (; name[i] && name[i] == other[i]; i++)
		if (name[i] == '.')
			end = i;
	if ((!name[i] || name[i] == '.') && (!other[i] || other[i] == '.'))
		end = i;
	name[end] = '\0';
}

bool diff_sum_add(struct diff_sum *s, const struct ckpt_difference *f)
{
	struct diff_sum one = sum_of(f);

	if (s->tensors) {
		diff_name_shorten(s->name, f->name);
		merge(s, &one);
		return true;
	}
	*s = one;
	s->name = strdup(f->name);
	s->tensors = s->name ? 1 : 0;
	return s->name;
}

bool diff_sums_add(struct diff_sums *sums, const struct ckpt_difference *f, uint64_t depth)
{
	struct diff_sum *last = sums->count ? &sums->items[sums->count - 1] : NULL, *grown,
			one = sum_of(f);
	size_t len = ckpt_name_front(f->name, depth);

	if (last && strlen(last->name) == len && !strncmp(last->name, f->name, len)) {
		merge(last, &one);
		return true;
	}
	grown = grow_array(sums->items, sums->count, &sums->cap, sizeof(*grown));
	one.name = strndup(f->name, len);
	if (grown)
		sums->items = grown;
	if (!grown || !one.name) {
		free(one.name);
		return false;
	}
	grown[sums->count++] = one;
	return true;
}

/* ---- order ---- */

static int by_name(const void *a, const void *b)
{
	const struct diff_sum *x = a, *y = b;

	return strcmp(x->name, y->name);
}

/* As src/diff/report.c ranks tensors. */
static int rank_of(const struct diff_sum *s)
{
	const struct ckpt_diff_numbers *n = &s->numbers;

	if (n->nan_appeared || n->nan_vanished || n->inf_appeared || n->inf_vanished)
		return 0;
	return s->other_shape ? 1 : s->no_numbers ? 2 : 3;
}

static int by_size(const void *a, const void *b, bool rms)
{
	const struct diff_sum *x = a, *y = b;
	double left = rms ? x->numbers.rms : x->numbers.change,
	       right = rms ? y->numbers.rms : y->numbers.change;
	int order = rank_of(x) - rank_of(y);

	left = isnan(left) ? (double)INFINITY : left;
	right = isnan(right) ? (double)INFINITY : right;
	if (!order)
		order = (right > left) - (right < left);
	return order ? order : by_name(a, b);
}

static int by_change(const void *a, const void *b)
{
	return by_size(a, b, false);
}

static int by_rms(const void *a, const void *b)
{
	return by_size(a, b, true);
}

void diff_sums_finish(struct diff_sums *sums, enum ckpt_diff_order order)
{
	size_t kept = 0;

	if (!sums->count)
		return;
	qsort(sums->items, sums->count, sizeof(*sums->items), by_name);
	for (size_t i = 1; i < sums->count; i++) {
		if (by_name(&sums->items[kept], &sums->items[i]) == 0) {
			merge(&sums->items[kept], &sums->items[i]);
			diff_sum_clear(&sums->items[i]);
		} else {
			sums->items[++kept] = sums->items[i];
		}
	}
	sums->count = kept + 1;
	if (order != CKPT_DIFF_BY_NAME)
		qsort(sums->items, sums->count, sizeof(*sums->items),
		      order == CKPT_DIFF_BY_RMS ? by_rms : by_change);
}

void diff_sum_clear(struct diff_sum *s)
{
	free(s->name);
	s->name = NULL;
}

void diff_sums_clear(struct diff_sums *sums)
{
	for (size_t i = 0; i < sums->count; i++)
		diff_sum_clear(&sums->items[i]);
	free(sums->items);
	*sums = (struct diff_sums){ 0 };
}

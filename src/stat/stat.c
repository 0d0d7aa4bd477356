/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The public functions of `ckpt stat`, and the totals: sums[0] is of all tensors, the others are by
 * dtype, in the order in which dtypes occur. A tensor whose bytes were counted with another one is
 * an item of its dtype, and adds nothing to the totals.
 */
#include "stat/stat.h"

#include "base/grow.h"
#include "base/sized.h"

#include <math.h>
#include <stdlib.h>

/* What is in the arena is in proportion to the names and the bins. */
static const uint64_t arena_budget = (uint64_t)1 << 36;

/* ---- totals ---- */

static struct ckpt_stat_sum *find_sum(struct ckpt_stat *s, const struct ckpt_stat_job *job)
{
	void *grown;

	for (uint32_t i = 1; i < s->sum_count; i++)
		if (s->sums[i].dtype == job->dtype) /* names are static */
			return &s->sums[i];
	grown = ckpt_grow(s->sums, s->sum_count, &s->sum_cap, sizeof(*s->sums));
	if (!grown)
		return NULL;
	s->sums = grown;
	s->sums[s->sum_count] = (struct ckpt_stat_sum){ .dtype = job->dtype,
							.numbers = job->numbers,
							.tally = ckpt_tally_none() };
	return &s->sums[s->sum_count++];
}

int ckpt_stat_add_up(struct ckpt_stat *s, struct ckpt_error *err)
{
	for (uint32_t i = 0; i < s->count; i++) {
		struct ckpt_stat_job *job = &s->jobs[i];
		struct ckpt_stat_sum *sum = find_sum(s, job);

		if (!sum)
			return ckpt_fail_nomem(err);
		job->sum = (uint32_t)(sum - s->sums);
		sum->items++;
		s->sums[0].items++;
		if (!job->counted || job->why_not)
			continue;
		sum->numbers = job->numbers;
		ckpt_tally_merge(&sum->tally, &job->tally);
		ckpt_tally_merge(&s->sums[0].tally, &job->tally);
	}
	ckpt_stat_add_up_groups(s);
	return 0;
}

/* ---- the public functions ---- */

static int check_quantiles(struct ckpt_stat_options *o, struct ckpt_error *err)
{
	if (!o->quantiles)
		o->quantile_count = 0;
	if (o->quantile_count > CKPT_SELECT_MOST_QUANTILES)
		return ckpt_fail(err, CKPT_E_ARG,
				 "%zu quantiles are wanted, at most %d are possible",
				 o->quantile_count, CKPT_SELECT_MOST_QUANTILES);
	for (size_t i = 0; i < o->quantile_count; i++)
		if (!(o->quantiles[i] >= 0 && o->quantiles[i] <= 1))
			return ckpt_fail(err, CKPT_E_ARG, "a quantile is a number from 0 to 1");
	return 0;
}

static int fill_stat(struct ckpt_stat *s, const struct ckpt_stat_options *options,
		     struct ckpt_error *err)
{
	int rc = ckpt_sized_take(&s->options, sizeof(s->options), options, err);

	if (rc == 0 && s->options.bins > CKPT_STAT_MOST_BINS)
		rc = ckpt_fail(err, CKPT_E_ARG, "%u bins are wanted, at most %d are possible",
			       s->options.bins, CKPT_STAT_MOST_BINS);
	if (rc == 0)
		rc = check_quantiles(&s->options, err);
	if (rc < 0)
		return rc;
	s->arena = ckpt_arena_new(arena_budget);
	s->sums = ckpt_grow(NULL, 0, &s->sum_cap, sizeof(*s->sums));
	if (!s->arena || !s->sums)
		return ckpt_fail_nomem(err);
	s->sum_count = 1;
	s->sums[0] =
		(struct ckpt_stat_sum){ .numbers = CKPT_DTYPE_UNKNOWN, .tally = ckpt_tally_none() };
	rc = ckpt_stat_list(s, err);
	if (rc == 0)
		rc = ckpt_stat_group(s, err);
	if (rc == 0)
		rc = ckpt_stat_find_shared(s, err);
	if (rc == 0)
		ckpt_stat_leave_counters(s);
	if (rc == 0)
		rc = ckpt_stat_read(s, err);
	if (rc == 0)
		rc = ckpt_model_check_unchanged(s->model, err);
	if (rc == CKPT_E_ARG) /* a pattern is wrong, whatever the file */
		return rc;
	return ckpt_error_at(err, rc, ckpt_document_path(s->model->doc), NULL, CKPT_NO_OFFSET);
}

int ckpt_stat_new(const struct ckpt_model *model, const struct ckpt_stat_options *options,
		  struct ckpt_stat **out, struct ckpt_error *err)
{
	int rc = ckpt_model_whole(&model, err);
	struct ckpt_stat *s = rc == 0 ? calloc(1, sizeof(*s)) : NULL;

	*out = NULL;
	if (!s)
		return rc < 0 ? rc : ckpt_fail_nomem(err);
	s->model = model;
	s->options = (struct ckpt_stat_options)CKPT_STAT_OPTIONS_INIT;
	rc = fill_stat(s, options, err);
	if (rc == 0)
		*out = s;
	else
		ckpt_stat_free(s);
	return rc;
}

void ckpt_stat_free(struct ckpt_stat *s)
{
	if (!s)
		return;
	ckpt_stat_clear_selects(s);
	ckpt_arena_free(s->arena);
	free(s->jobs);
	free(s->sums);
	free(s->groups);
	free(s);
}

uint64_t ckpt_stat_count(const struct ckpt_stat *s)
{
	return s->count;
}

uint64_t ckpt_stat_total_count(const struct ckpt_stat *s)
{
	return s->sum_count;
}

static uint64_t count_all(const struct ckpt_tally *t)
{
	uint64_t bad, all;

	if (__builtin_add_overflow(t->nans, t->infinities, &bad) ||
	    __builtin_add_overflow(t->finite, bad, &all))
		return UINT64_MAX;
	return all;
}

static uint64_t magnitude(int64_t n)
{
	return n < 0 ? -(uint64_t)n : (uint64_t)n;
}

static uint64_t absmax_of(const struct ckpt_stat_values *v)
{
	uint64_t low = magnitude(v->min_integer), high = magnitude(v->max_integer);

	if (v->is_unsigned)
		return (uint64_t)v->max_integer;
	return low > high ? low : high;
}

static void set_integers(const struct ckpt_tally *t, enum ckpt_dtype numbers,
			 struct ckpt_stat_values *v)
{
	if (numbers == CKPT_DTYPE_UNKNOWN || !ckpt_stat_is_integer(numbers) || !t->finite)
		return;
	v->is_integer = true;
	v->is_unsigned = numbers == CKPT_DTYPE_UINT64;
	v->min_integer = t->least;
	v->max_integer = t->greatest;
	if (ckpt_stat_kind_of(numbers) == CKPT_STAT_CODES) {
		v->min_integer = (int64_t)t->min;
		v->max_integer = (int64_t)t->max;
	} else if (v->is_unsigned) {
		v->min_integer = (int64_t)((uint64_t)t->least ^ (uint64_t)1 << 63);
		v->max_integer = (int64_t)((uint64_t)t->greatest ^ (uint64_t)1 << 63);
	}
	v->absmax_integer = absmax_of(v);
}

static void give_values(const struct ckpt_stat *s, const struct ckpt_tally *t,
			enum ckpt_dtype numbers, const struct ckpt_stat_bins *bins,
			const struct ckpt_stat_quantiles *quantiles, struct ckpt_stat_values *out)
{
	struct ckpt_stat_values v = CKPT_STAT_VALUES_INIT;

	v.count = count_all(t);
	v.nans = t->nans;
	v.infinities = t->infinities;
	v.zeros = t->zeros;
	v.min = t->finite ? t->min + 0.0 : (double)NAN; /* no -0.0 */
	v.max = t->finite ? t->max + 0.0 : (double)NAN;
	v.mean = ckpt_tally_mean(t);
	v.std = ckpt_tally_std(t);
	v.norm = ckpt_tally_norm(t);
	v.absmax = t->finite ? fmax(fabs(t->min), fabs(t->max)) : (double)NAN;
	set_integers(t, numbers, &v);
	if (bins->count) {
		v.bins = bins->counts;
		v.bin_count = bins->count;
		v.low = bins->low;
		v.high = bins->high;
	}
	v.quantiles = quantiles->values;
	v.quantile_count = quantiles->values ? s->options.quantile_count : 0;
	ckpt_sized_give(out, &v, sizeof(v));
}

int ckpt_stat_get(const struct ckpt_stat *s, uint64_t i, struct ckpt_stat_item *item,
		  struct ckpt_stat_values *values)
{
	struct ckpt_stat_item out = CKPT_STAT_ITEM_INIT;
	const struct ckpt_stat_job *job;

	if (i >= s->count || ckpt_sized_check(item, sizeof(out), NULL) < 0 ||
	    ckpt_sized_check(values, sizeof(*values), NULL) < 0)
		return CKPT_E_ARG;
	job = &s->jobs[i];
	out.name = job->name;
	out.kind = job->kind;
	out.dtype = job->dtype;
	out.layout = job->layout;
	out.ndim = job->ndim;
	out.shape = job->shape;
	out.nbytes = job->nbytes;
	out.looked_ndim = job->looked_ndim;
	out.looked_shape = job->looked_shape;
	out.first_not_finite = job->tally.first_not_finite;
	out.why_not = job->why_not;
	out.unreadable = job->unreadable;
	out.is_magnitude = job->numbers != CKPT_DTYPE_UNKNOWN &&
			   ckpt_stat_kind_of(job->numbers) == CKPT_STAT_COMPLEX;
	out.counted = job->counted;
	ckpt_sized_give(item, &out, sizeof(out));
	give_values(s, &job->tally, job->numbers, &job->bins, &job->quantiles, values);
	return 0;
}

int ckpt_stat_total_get(const struct ckpt_stat *s, uint64_t i, struct ckpt_stat_total *total,
			struct ckpt_stat_values *values)
{
	struct ckpt_stat_total out = CKPT_STAT_TOTAL_INIT;

	if (i >= s->sum_count || ckpt_sized_check(total, sizeof(out), NULL) < 0 ||
	    ckpt_sized_check(values, sizeof(*values), NULL) < 0)
		return CKPT_E_ARG;
	out.dtype = s->sums[i].dtype;
	out.items = s->sums[i].items;
	ckpt_sized_give(total, &out, sizeof(out));
	give_values(s, &s->sums[i].tally, s->sums[i].numbers, &s->sums[i].bins,
		    &s->sums[i].quantiles, values);
	return 0;
}

uint64_t ckpt_stat_group_count(const struct ckpt_stat *s)
{
	return s->group_count;
}

int ckpt_stat_group_get(const struct ckpt_stat *s, uint64_t i, struct ckpt_stat_group *group,
			struct ckpt_stat_values *values)
{
	struct ckpt_stat_group out = CKPT_STAT_GROUP_INIT;
	const struct ckpt_stat_sum *g;

	if (i >= s->group_count || ckpt_sized_check(group, sizeof(out), NULL) < 0 ||
	    ckpt_sized_check(values, sizeof(*values), NULL) < 0)
		return CKPT_E_ARG;
	g = &s->groups[i];
	out.name = g->name;
	out.dtype = g->dtype;
	out.items = g->items;
	out.nbytes = g->nbytes;
	out.unreadable = g->unreadable;
	ckpt_sized_give(group, &out, sizeof(out));
	give_values(s, &g->tally, g->numbers, &g->bins, &g->quantiles, values);
	return 0;
}

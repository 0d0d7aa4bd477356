/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which quantiles are looked for at a time: those of totals first, then of groups, then of items,
 * as many as have room in BUDGET. So the memory does not grow with the checkpoint, and a small one
 * is read few times.
 */
#include "stat/stat.h"

#include <math.h>
#include <stdlib.h>

enum { BUDGET = 16 << 20 };

/* ---- targets ---- */

/* One of the things that have quantiles. */
struct target {
	struct ckpt_stat_quantiles *quantiles;
	const struct ckpt_tally *tally;
};

/* False: there are not so many. TALLY is NULL if the quantiles are those of another one. */
static bool get_target(struct ckpt_stat *s, uint64_t i, struct target *out)
{
	struct ckpt_stat_sum *sum = NULL;

	if (i < s->sum_count)
		sum = &s->sums[i];
	else if ((i -= s->sum_count) < s->group_count)
		sum = &s->groups[i];
	else
		i -= s->group_count;
	if (sum) {
		/* of one dtype are the same values as of all */
		bool same = sum == &s->sums[1] && s->sum_count == 2;

		*out = (struct target){ &sum->quantiles, same ? NULL : &sum->tally };
		return true;
	}
	if (i >= s->count)
		return false;
	*out = (struct target){ &s->jobs[i].quantiles,
				s->jobs[i].same_as == i ? &s->jobs[i].tally : NULL };
	return true;
}

static double *new_values(struct ckpt_stat *s)
{
	return ckpt_arena_calloc(s->arena, s->options.quantile_count + 1, sizeof(double));
}

/* All of its numbers are the same. */
static int set_same(struct ckpt_stat *s, const struct target *t, struct ckpt_error *err)
{
	double *values = new_values(s);

	if (!values)
		return ckpt_arena_fail(s->arena, err);
	for (size_t i = 0; i < s->options.quantile_count; i++)
		values[i] = t->tally->min + 0.0; /* no -0.0 */
	t->quantiles->values = values;
	return 0;
}

static int begin_select(struct ckpt_stat *s, const struct target *t, struct ckpt_error *err)
{
	struct ckpt_select *select = malloc(sizeof(*select));
	int rc;

	if (!select)
		return ckpt_fail_nomem(err);
	t->quantiles->select = select;
	s->selecting[s->selecting_count++] = t->quantiles;
	rc = ckpt_select_init(select, s->options.quantiles, (uint32_t)s->options.quantile_count,
			      t->tally->finite, err);
	return rc;
}

/* Begins with the next ones that have room. */
static int begin_selects(struct ckpt_stat *s, struct ckpt_error *err)
{
	uint64_t sums = (uint64_t)s->sum_count + s->group_count, first = s->next_target;
	size_t used = 0;
	struct target t;
	int rc = 0;

	for (; rc == 0 && get_target(s, s->next_target, &t); s->next_target++) {
		size_t more;

		/* a count that stopped at its end says nothing of ranks */
		if (!t.tally || !t.tally->finite || t.tally->finite == UINT64_MAX)
			continue;
		if (t.tally->min == t.tally->max) {
			rc = set_same(s, &t, err);
			continue;
		}
		more = ckpt_select_memory((uint32_t)s->options.quantile_count, t.tally->finite);
		if (s->selecting_count == CKPT_STAT_MOST_SELECTS ||
		    (s->selecting_count && more > BUDGET - used))
			break;
		used += more < BUDGET - used ? more : BUDGET - used;
		rc = begin_select(s, &t, err);
	}
	s->first_selected = first < sums ? 0 : (uint32_t)(first - sums);
	s->end_selected = first < sums ? s->count : (uint32_t)(s->next_target - sums);
	return rc;
}

/* ---- rounds ---- */

static void end_select(struct ckpt_stat_quantiles *q)
{
	ckpt_select_clear(q->select);
	free(q->select);
	q->select = NULL;
}

static int end_round(struct ckpt_stat *s, struct ckpt_error *err)
{
	uint32_t left = 0;
	int rc = 0;

	for (uint32_t i = 0; i < s->selecting_count; i++) {
		struct ckpt_stat_quantiles *q = s->selecting[i];
		int more = rc == 0 ? ckpt_select_next(q->select, err) : 1;
		double *values;

		if (more) {
			rc = more < 0 ? more : rc;
			s->selecting[left++] = q;
			continue;
		}
		values = new_values(s);
		if (values)
			ckpt_select_quantiles(q->select, values);
		else
			rc = ckpt_arena_fail(s->arena, err);
		q->values = values;
		end_select(q);
	}
	s->selecting_count = left;
	return rc;
}

int ckpt_stat_next_round(struct ckpt_stat *s, struct ckpt_error *err)
{
	int rc = end_round(s, err);

	if (rc == 0 && !s->selecting_count)
		rc = begin_selects(s, err);
	if (rc < 0)
		return rc;
	if (!s->selecting_count && s->sum_count == 2)
		s->sums[1].quantiles = s->sums[0].quantiles;
	return s->selecting_count > 0;
}

void ckpt_stat_clear_selects(struct ckpt_stat *s)
{
	for (uint32_t i = 0; i < s->selecting_count; i++)
		end_select(s->selecting[i]);
	s->selecting_count = 0;
}

/* ---- numbers ---- */

static bool selects_from_group(const struct ckpt_stat *s, const struct ckpt_stat_job *job)
{
	return s->group_count && job->counted_in_group && s->groups[job->group].quantiles.select;
}

bool ckpt_stat_selects_from(const struct ckpt_stat *s, const struct ckpt_stat_job *job)
{
	uint32_t number = (uint32_t)(job - s->jobs);
	bool wanted = job->quantiles.select;

	if (job->why_not || !job->tally.finite || number < s->first_selected ||
	    number >= s->end_selected)
		return false;
	wanted |=
		job->counted && (s->sums[0].quantiles.select || s->sums[job->sum].quantiles.select);
	for (uint32_t i = number; i != UINT32_MAX; i = s->jobs[i].next_same)
		wanted |= selects_from_group(s, &s->jobs[i]);
	return wanted;
}

static void add_piece(struct ckpt_select *select, const double *values, size_t count,
		      uint64_t times, pthread_mutex_t *lock)
{
	uint64_t keys[CKPT_TALLY_MOST];
	size_t n = select ? ckpt_select_keys(select, values, count, keys) : 0;

	if (!n)
		return;
	pthread_mutex_lock(lock);
	ckpt_select_add(select, keys, n, times);
	pthread_mutex_unlock(lock);
}

void ckpt_stat_add_to_selects(struct ckpt_stat *s, const struct ckpt_stat_job *job,
			      const struct ckpt_stat_view *view, uint64_t first,
			      const uint8_t *bytes, size_t count, pthread_mutex_t *lock)
{
	double values[CKPT_TALLY_MOST];
	size_t n;

	for (size_t done = 0; done < count; done += n) {
		n = count - done < CKPT_TALLY_MOST ? count - done : CKPT_TALLY_MOST;
		ckpt_stat_doubles(view, first + done, bytes + done * view->itemsize, n, values);
		add_piece(job->quantiles.select, values, n, job->repeat, lock);
		if (job->counted) {
			add_piece(s->sums[0].quantiles.select, values, n, job->repeat, lock);
			add_piece(s->sums[job->sum].quantiles.select, values, n, job->repeat, lock);
		}
		for (uint32_t i = (uint32_t)(job - s->jobs); i != UINT32_MAX;
		     i = s->jobs[i].next_same)
			if (selects_from_group(s, &s->jobs[i]))
				add_piece(s->groups[s->jobs[i].group].quantiles.select, values, n,
					  job->repeat, lock);
	}
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "base/grow.h"
#include "base/strmap.h"
#include "stat/stat.h"

#include <string.h>

/* Items by the first parts of their names, in the order in which these occur. */

static int add_group(struct ckpt_stat *s, const char *name, size_t len, struct ckpt_error *err)
{
	struct ckpt_stat_sum *grown =
		ckpt_grow(s->groups, s->group_count, &s->group_cap, sizeof(*grown));
	char *copy = ckpt_arena_copy(s->arena, name, len);

	if (!grown)
		return ckpt_fail_nomem(err);
	s->groups = grown;
	if (!copy)
		return ckpt_arena_fail(s->arena, err);
	grown[s->group_count++] = (struct ckpt_stat_sum){ .name = copy,
							  .numbers = CKPT_DTYPE_UNKNOWN,
							  .tally = ckpt_tally_none() };
	return 0;
}

int ckpt_stat_group(struct ckpt_stat *s, struct ckpt_error *err)
{
	struct ckpt_strmap fronts = { 0 };
	int rc = 0;

	for (uint32_t i = 0; rc == 0 && s->options.depth && i < s->count; i++) {
		const char *name = s->jobs[i].name;
		size_t len = ckpt_name_front(name, s->options.depth);
		bool was_there;
		uint64_t *group =
			ckpt_strmap_insert(&fronts, name, len, s->group_count, &was_there);

		rc = group ? 0 : ckpt_fail_nomem(err);
		if (rc == 0)
			s->jobs[i].group = (uint32_t)*group;
		if (rc == 0 && !was_there)
			rc = add_group(s, name, len, err);
	}
	ckpt_strmap_clear(&fronts);
	return rc;
}

/* num_batches_tracked, step: one of them would be the largest norm of a whole model. */
static bool is_counter(const struct ckpt_stat_job *job)
{
	return !job->ndim && job->dtype && ckpt_stat_is_integer(ckpt_dtype_find(job->dtype));
}

void ckpt_stat_leave_counters(struct ckpt_stat *s)
{
	for (uint32_t i = 0; s->group_count && i < s->count; i++)
		s->groups[s->jobs[i].group].has_more |= !is_counter(&s->jobs[i]);
	for (uint32_t i = 0; s->group_count && i < s->count; i++)
		if (is_counter(&s->jobs[i]) && s->groups[s->jobs[i].group].has_more)
			s->jobs[i].counted_in_group = false;
}

/* What is of one dtype has integers, and a dtype; what is of several has neither. */
static void set_dtype(struct ckpt_stat_sum *g, const struct ckpt_stat_job *job)
{
	if (!g->has_dtype) {
		g->has_dtype = true;
		g->dtype = job->dtype;
		g->numbers = job->numbers;
	} else if (g->dtype != job->dtype) { /* names are static */
		g->dtype = NULL;
		g->numbers = CKPT_DTYPE_UNKNOWN;
	} else if (g->numbers == CKPT_DTYPE_UNKNOWN) { /* the first had no values */
		g->numbers = job->numbers;
	}
}

void ckpt_stat_add_up_groups(struct ckpt_stat *s)
{
	for (uint32_t i = 0; s->group_count && i < s->count; i++) {
		const struct ckpt_stat_job *job = &s->jobs[i];
		struct ckpt_stat_sum *g = &s->groups[job->group];

		if (!is_counter(job) || !g->has_more)
			set_dtype(g, job);
		g->items++;
		g->unreadable += job->unreadable;
		if (!job->counted_in_group)
			continue;
		if (__builtin_add_overflow(g->nbytes, job->nbytes, &g->nbytes))
			g->nbytes = UINT64_MAX;
		if (!job->why_not)
			ckpt_tally_merge(&g->tally, &job->tally);
	}
}

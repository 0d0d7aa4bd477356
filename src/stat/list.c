/* SPDX-License-Identifier: Apache-2.0 */
#include "base/grow.h"
#include "model/numpy_value.h"
#include "model/walk.h"
#include "stat/stat.h"

#include <string.h>

/* Lists what is read: the tensors of a model, and the arrays of numpy among its other values. */
struct listing {
	struct ckpt_stat *stat;
	struct ckpt_patterns patterns;
};

/* 1: NAME is wanted */
static int wants(struct listing *l, const char *name, struct ckpt_error *err)
{
	return l->patterns.count ? ckpt_patterns_match(&l->patterns, name, err) : 1;
}

static struct ckpt_stat_job *new_job(struct ckpt_stat *s)
{
	struct ckpt_stat_job *jobs = ckpt_grow(s->jobs, s->count, &s->cap, sizeof(*jobs)), *job;

	if (!jobs)
		return NULL;
	s->jobs = jobs;
	job = &jobs[s->count];
	*job = (struct ckpt_stat_job){ .numbers = CKPT_DTYPE_UNKNOWN,
				       .counted = true,
				       .counted_in_group = true,
				       .same_as = s->count,
				       .next_same = UINT32_MAX,
				       .repeat = 1,
				       .tally = ckpt_tally_none() };
	s->count++;
	return job;
}

static int list_tensors(struct listing *l, struct ckpt_error *err)
{
	const struct ckpt_stat_options *o = &l->stat->options;
	const struct ckpt_model *model = l->stat->model;

	for (uint64_t i = 0; i < ckpt_tensor_count(model); i++) {
		struct ckpt_tensor_info info = CKPT_TENSOR_INFO_INIT;
		struct ckpt_stat_job *job;
		int rc;

		ckpt_tensor_get(model, i, &info);
		if (o->takes && !o->takes(o->takes_ctx, info.name))
			continue;
		rc = wants(l, info.name, err);
		if (rc < 0)
			return rc;
		if (!rc)
			continue;
		job = new_job(l->stat);
		if (!job)
			return ckpt_fail_nomem(err);
		job->name = info.name;
		job->kind = "tensor";
		job->dtype = info.dtype;
		job->layout = info.layout;
		job->ndim = info.ndim;
		job->shape = info.shape;
		job->nbytes = info.nbytes;
		job->value = model->tensors[i].value;
	}
	return 0;
}

static int add_array(struct listing *l, const struct ckpt_walk_step *step,
		     const struct ckpt_numpy *numpy, struct ckpt_error *err)
{
	struct ckpt_arena *arena = l->stat->arena;
	char *name = ckpt_arena_copy(arena, step->name, step->name_len);
	uint64_t *shape = ckpt_arena_calloc(arena, numpy->ndim + 1u, sizeof(*shape));
	struct ckpt_stat_job *job;
	int rc;

	if (!name || !shape)
		return ckpt_arena_fail(arena, err);
	rc = wants(l, name, err);
	if (rc <= 0)
		return rc;
	job = new_job(l->stat);
	if (!job)
		return ckpt_fail_nomem(err);
	memcpy(shape, numpy->shape, numpy->ndim * sizeof(*shape));
	job->name = name;
	job->kind = "ndarray";
	job->dtype = ckpt_dtype_name(numpy->dtype);
	job->layout = "strided";
	job->ndim = numpy->ndim;
	job->shape = shape;
	if (__builtin_mul_overflow(numpy->numel, (uint64_t)ckpt_dtype_size(numpy->dtype),
				   &job->nbytes))
		job->nbytes = UINT64_MAX;
	job->value = step->value;
	return 0;
}

static int visit(void *ctx, const struct ckpt_walk_step *step, struct ckpt_error *err)
{
	struct listing *l = ctx;
	struct ckpt_numpy numpy;

	if (ckpt_value_is_tensor(l->stat->model, step->value))
		return CKPT_WALK_SKIP;
	if (!ckpt_numpy_parse(l->stat->model, step->value, &numpy))
		return CKPT_WALK_ENTER;
	if (numpy.is_scalar || numpy.dtype == CKPT_DTYPE_UNKNOWN)
		return CKPT_WALK_SKIP;
	return add_array(l, step, &numpy, err);
}

int ckpt_stat_list(struct ckpt_stat *s, struct ckpt_error *err)
{
	struct listing l = { .stat = s };
	int rc =
		ckpt_patterns_init(&l.patterns, s->options.patterns, s->options.pattern_count, err);

	if (rc == 0 && !ckpt_model_has_tensors(s->model))
		rc = ckpt_fail_nomem(err);
	if (rc == 0)
		rc = list_tensors(&l, err);
	if (rc == 0 && !s->options.takes)
		rc = ckpt_model_walk(s->model, visit, &l, err);
	ckpt_patterns_clear(&l.patterns);
	return rc;
}

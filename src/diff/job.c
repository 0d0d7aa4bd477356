/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Opens both sides of one pair, and finds out what has to be read of them: the items, the items
 * that a sparse tensor stores, or nothing, since the pair is known to be equal or cannot be.
 *
 * Numbers are compared in any order, so two sides of the same strides are read in the order of
 * their storages, and items that are only repeated once (use_storage_order()); `times` says how
 * often they count. Zeros that nobody stored count, too: `zeros`. A side that cannot be read at any
 * place is streamed, front to back, by one thread at a time.
 */
#include "diff/job.h"

#include "diff/sides.h"

#include <stdlib.h>
#include <string.h>

/* ---- failures ---- */

/* What is wrong in a file concerns one tensor; an error of the system ends the comparison. */
bool ckpt_diff_can_go_on(int rc, const struct ckpt_error *err)
{
	switch (rc) {
	case CKPT_E_FORMAT:
	case CKPT_E_LIMIT:
	case CKPT_E_UNSUPPORTED:
	case CKPT_E_NOTFOUND:
	case CKPT_E_ARG: return true;
	case CKPT_E_IO: return !err->sys_errno; /* a data file that is not there */
	default: return false;
	}
}

int ckpt_pair_fail(const struct ckpt_comparison *c, struct ckpt_pair *pair, int rc,
		   const struct ckpt_error *err)
{
	char text[1200];

	if (!ckpt_diff_can_go_on(rc, err))
		return rc;
	ckpt_error_format(err, text, sizeof(text));
	pair->state = CKPT_PAIR_UNREADABLE;
	pair->why = ckpt_arena_copy(c->arena, text, strlen(text));
	return pair->why ? 0 : CKPT_E_NOMEM;
}

/* ---- parts that are compared at once ---- */

enum { CHUNK = 64 << 10 };

static int same_items(const struct ckpt_array *a, const struct ckpt_array *b,
		      struct ckpt_error *err)
{
	uint64_t count = ckpt_array_numel(a), size = ckpt_dtype_size(a->reads);
	uint8_t *both;
	int rc = 1;

	if (a->reads != b->reads || ckpt_array_numel(b) != count)
		return 0;
	both = malloc(2 * (size_t)CHUNK);
	if (!both)
		return ckpt_fail_nomem(err);
	for (uint64_t at = 0, n; rc > 0 && at < count; at += n) {
		n = count - at < CHUNK / size ? count - at : CHUNK / size;
		rc = ckpt_array_read(a, at, n, both, err);
		if (rc == 0)
			rc = ckpt_array_read(b, at, n, both + CHUNK, err);
		if (rc == 0)
			rc = !memcmp(both, both + CHUNK, n * size);
	}
	free(both);
	return rc;
}

/* 1: part NAME of both has the same items; 0: it has not. */
static int same_part(const struct ckpt_array *a, const struct ckpt_array *b, const char *name,
		     struct ckpt_error *err)
{
	struct ckpt_array *part_a = NULL, *part_b = NULL;
	int rc = ckpt_array_part(a, name, &part_a, err);

	if (rc == 0)
		rc = ckpt_array_part(b, name, &part_b, err);
	if (rc == 0)
		rc = same_items(part_a, part_b, err);
	ckpt_array_close(part_a);
	ckpt_array_close(part_b);
	return rc;
}

/* Compares part NAME of both in the place of the arrays. */
static int use_part(struct ckpt_job *job, const char *name, struct ckpt_error *err)
{
	struct ckpt_array *part_a = NULL, *part_b = NULL;
	int rc = ckpt_array_part(job->a.array, name, &part_a, err);

	if (rc == 0)
		rc = ckpt_array_part(job->b.array, name, &part_b, err);
	if (rc < 0) {
		ckpt_array_close(part_a);
		return rc;
	}
	ckpt_array_close(job->a.array);
	ckpt_array_close(job->b.array);
	job->a.array = part_a;
	job->b.array = part_b;
	return 0;
}

/* ---- quantized, sparse, nested ---- */

static int same_quantizer(const struct ckpt_array *a, const struct ckpt_array *b,
			  struct ckpt_error *err)
{
	int rc;

	if (strcmp(a->qscheme, b->qscheme) != 0)
		return 0;
	if (!strcmp(a->qscheme, "per_tensor_affine"))
		return a->scale == b->scale && a->zero_point == b->zero_point;
	if (a->axis != b->axis)
		return 0;
	rc = same_part(a, b, "scales", err);
	return rc > 0 ? same_part(a, b, "zero_points", err) : rc;
}

/* 1: all parts are the same, except VALUES, which is not compared. */
static int same_other_parts(const struct ckpt_array *a, const struct ckpt_array *b,
			    const char *values, struct ckpt_error *err)
{
	int rc = 1;

	if (a->part_count != b->part_count)
		return 0;
	for (uint32_t i = 0; rc > 0 && i < a->part_count; i++) {
		if (strcmp(a->parts[i].name, b->parts[i].name) != 0)
			return 0;
		if (strcmp(a->parts[i].name, values) != 0)
			rc = same_part(a, b, a->parts[i].name, err);
	}
	return rc;
}

static int make_dense(struct ckpt_job_side *side, struct ckpt_error *err)
{
	if (side->array->t.kind != CKPT_KIND_SPARSE)
		return 0;
	return ckpt_array_dense(side->array, &side->dense, err);
}

/* If both store items at the same places, only these items are compared; else all, made dense. */
static int open_sparse(struct ckpt_job *job, struct ckpt_error *err)
{
	int rc = 0;

	if (job->a.array->t.kind == job->b.array->t.kind)
		rc = same_other_parts(job->a.array, job->b.array, "values", err);
	if (rc > 0) {
		uint64_t numel = ckpt_array_numel(job->a.array), stored;

		rc = use_part(job, "values", err);
		stored = rc == 0 ? ckpt_array_numel(job->a.array) : 0;
		job->zeros = numel > stored ? numel - stored : 0;
		return rc;
	}
	if (rc == 0)
		rc = make_dense(&job->a, err);
	return rc == 0 ? make_dense(&job->b, err) : rc;
}

/* 1: the tensors in both have the same shapes, and their items are to be read. */
static int open_nested(struct ckpt_job *job, struct ckpt_error *err)
{
	int rc = same_other_parts(job->a.array, job->b.array, "buffer", err);

	if (rc > 0) {
		rc = use_part(job, "buffer", err);
		return rc == 0 ? 1 : rc;
	}
	if (rc == 0)
		job->pair->what |= CKPT_DIFFERS_SHAPE;
	return rc;
}

/* ---- where items lie ---- */

static bool is_one_array(const struct ckpt_job_side *side)
{
	const struct ckpt_array *a = side->array;

	return !side->dense && !a->step_count && a->items.numel &&
	       (a->t.kind == CKPT_KIND_STRIDED || a->t.kind == CKPT_KIND_NUMPY);
}

static bool same_strides(const struct ckpt_items *a, const struct ckpt_items *b)
{
	if (a->ndim != b->ndim)
		return false;
	for (uint32_t i = 0; i < a->ndim; i++)
		if (a->shape[i] != b->shape[i] || (a->shape[i] > 1 && a->stride[i] != b->stride[i]))
			return false;
	return true;
}

/* Sorts dimensions by their strides, longest first, and drops those that only repeat items. */
static int sort_dimensions(struct ckpt_array *a, uint64_t *times, struct ckpt_error *err)
{
	uint64_t *shape = ckpt_arena_calloc(a->arena, 2 * (a->items.ndim + 1u), sizeof(*shape)),
		 *stride = shape ? shape + a->items.ndim : NULL;
	uint32_t n = 0;

	if (!shape)
		return ckpt_arena_fail(a->arena, err);
	*times = 1;
	for (uint32_t i = 0; i < a->items.ndim; i++) {
		uint64_t len = a->items.shape[i], step = a->items.stride[i];
		uint32_t at = n;

		if (len == 1)
			continue;
		if (!step) {
			*times *= len;
			continue;
		}
		for (; at > 0 && stride[at - 1] < step; at--) {
			stride[at] = stride[at - 1];
			shape[at] = shape[at - 1];
		}
		stride[at] = step;
		shape[at] = len;
		n++;
	}
	a->items.ndim = n;
	a->items.shape = shape;
	a->items.stride = stride;
	return ckpt_items_check(&a->items, err);
}

static int use_storage_order(struct ckpt_job *job, struct ckpt_error *err)
{
	uint64_t times;
	int rc;

	job->times = 1;
	if (!is_one_array(&job->a) || !is_one_array(&job->b) ||
	    !same_strides(&job->a.array->items, &job->b.array->items))
		return 0;
	rc = sort_dimensions(job->a.array, &job->times, err);
	if (rc == 0)
		rc = sort_dimensions(job->b.array, &times, err);
	job->count = job->a.array->items.numel;
	return rc;
}

static bool can_be_read_anywhere(const struct ckpt_items *items)
{
	return ckpt_items_are_dense(items) && ckpt_recipe_is_random(&items->bytes) &&
	       !(items->bytes.kind == CKPT_RECIPE_EXTENT &&
		 ckpt_source_is_sequential(items->bytes.src));
}

static int prepare_side(struct ckpt_job_side *side, struct ckpt_error *err)
{
	if (side->dense || can_be_read_anywhere(&side->array->items))
		return 0;
	side->streamed = true;
	return ckpt_array_recipe(side->array, side->array->arena, &side->recipe, err);
}

/* ---- all of it ---- */

static int open_array(const struct ckpt_entries *entries, const struct ckpt_entry *e,
		      struct ckpt_array **out, struct ckpt_error *err)
{
	if (e->kind == CKPT_ENTRY_STORAGE)
		return ckpt_array_of_storage(entries->model, ckpt_storage_of(e->value), e->name,
					     out, err);
	return ckpt_array_open_value(entries->model, e->value, e->name, 0, out, err);
}

static bool same_shape(const struct ckpt_array *a, const struct ckpt_array *b)
{
	return a->t.ndim == b->t.ndim &&
	       (!a->t.ndim || !memcmp(a->t.shape, b->t.shape, a->t.ndim * sizeof(*a->t.shape)));
}

/* With another quantizer the same integers are other numbers, so quantizers are compared first. */
static int is_known_same(const struct ckpt_comparison *c, const struct ckpt_job *job,
			 struct ckpt_error *err)
{
	const struct ckpt_array *a = job->a.array, *b = job->b.array;
	int rc = 1;

	if (a->t.kind != b->t.kind)
		return 0;
	if (a->t.kind == CKPT_KIND_QUANTIZED) {
		rc = same_quantizer(a, b, err);
		if (rc == 0)
			job->pair->what |= CKPT_DIFFERS_QUANTIZER;
	} else if (a->t.kind != CKPT_KIND_STRIDED) {
		return 0;
	}
	if (rc <= 0 || !ckpt_comparison_trusts(c))
		return rc < 0 ? rc : 0;
	return ckpt_same_bytes(c, &a->t, &b->t);
}

/* Both arrays are open. 1: there are items to be read. */
static int compare_without_items(const struct ckpt_comparison *c, struct ckpt_job *job,
				 struct ckpt_error *err)
{
	struct ckpt_array *a = job->a.array, *b = job->b.array;
	int rc;

	if (a->t.kind == CKPT_KIND_NESTED && b->t.kind == CKPT_KIND_NESTED)
		return open_nested(job, err);
	if (a->why_not || b->why_not) {
		if (!a->why_not || !b->why_not)
			job->pair->what |= CKPT_DIFFERS_VALUE;
		return 0;
	}
	if (!same_shape(a, b)) {
		job->pair->what |= CKPT_DIFFERS_SHAPE;
		return 0;
	}
	rc = is_known_same(c, job, err);
	if (rc != 0) {
		job->pair->by_checksum = rc > 0;
		return rc < 0 ? rc : 0;
	}
	if (a->t.kind == CKPT_KIND_SPARSE || b->t.kind == CKPT_KIND_SPARSE)
		rc = open_sparse(job, err);
	return rc < 0 ? rc : 1;
}

static int prepare_reading(const struct ckpt_comparison *c, struct ckpt_job *job, size_t block,
			   struct ckpt_error *err)
{
	struct ckpt_array *a = job->a.array, *b = job->b.array;
	uint32_t size;
	int rc;

	if (!same_shape(a, b)) {
		job->pair->what |= CKPT_DIFFERS_SHAPE;
		return 0;
	}
	if (!ckpt_measure_init(&job->measure, a->reads, b->reads, c->options.atol,
			       c->options.rtol)) {
		job->pair->what |= CKPT_DIFFERS_VALUE;
		return 0;
	}
	job->count = ckpt_array_numel(a);
	rc = use_storage_order(job, err);
	if (rc == 0)
		rc = prepare_side(&job->a, err);
	if (rc == 0)
		rc = prepare_side(&job->b, err);
	size = job->measure.a_size > job->measure.b_size ? job->measure.a_size
							 : job->measure.b_size;
	job->block = block / size;
	return rc < 0 ? rc : job->count > 0;
}

int ckpt_job_open(const struct ckpt_comparison *c, struct ckpt_pair *pair, size_t block,
		  struct ckpt_job *job, struct ckpt_error *err)
{
	int rc;

	*job = (struct ckpt_job){ .pair = pair };
	rc = open_array(&c->a, pair->a, &job->a.array, err);
	if (rc == 0)
		rc = open_array(&c->b, pair->b, &job->b.array, err);
	if (rc == 0)
		rc = compare_without_items(c, job, err);
	if (rc > 0)
		rc = prepare_reading(c, job, block, err);
	if (rc == 0)
		pair->state = pair->what ? CKPT_PAIR_CHANGED : CKPT_PAIR_SAME;
	return rc;
}

static void close_stream(struct ckpt_job_side *side)
{
	if (side->stream)
		side->stream->close(side->stream);
	side->stream = NULL;
}

void ckpt_job_close_streams(struct ckpt_job *job)
{
	close_stream(&job->a);
	close_stream(&job->b);
}

static void close_side(struct ckpt_job_side *side)
{
	close_stream(side);
	free(side->dense);
	ckpt_array_close(side->array);
}

void ckpt_job_close(struct ckpt_job *job)
{
	close_side(&job->a);
	close_side(&job->b);
	job->a = job->b = (struct ckpt_job_side){ 0 };
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Opens one tensor to be read for its statistics: which of its parts has numbers, where its items
 * are, and in which order they are read.
 *
 * The order does not matter, except where scales depend on the index (depends_on_place()): items
 * are read in the order of the storage, and dimensions that only repeat items are left out;
 * `repeat` says how often the result counts. The view maps items back to C order, for the index of
 * the first number that is not finite. What can never be read has a WHY_NOT and is no error.
 */
#include "stat/stat.h"

#include <string.h>

/* A small file may have views that show its items very often; these are not read one by one. */
enum { MOST_OVERLAP = 16, MANY = 1 << 24 };

/* One dimension of a view: the distance of items in the storage is STEP, in C order TO. */
struct dimension {
	uint64_t len, step, to;
};

/* ---- dimensions ---- */

/* Those with a stride, in their order; *REPEAT: how often the others repeat the items. */
static uint32_t list_dimensions(const struct ckpt_items *items, struct dimension *dims,
				uint64_t *repeat)
{
	uint64_t to = 1;
	uint32_t n = 0;

	*repeat = 1;
	for (uint32_t i = items->ndim; i-- > 0; to *= items->shape[i]) {
		if (items->shape[i] == 1)
			continue;
		if (!items->stride[i])
			*repeat *= items->shape[i];
		else
			dims[n++] = (struct dimension){ items->shape[i], items->stride[i], to };
	}
	for (uint32_t i = 0; i < n / 2; i++) {
		struct dimension other = dims[i];

		dims[i] = dims[n - 1 - i];
		dims[n - 1 - i] = other;
	}
	return n;
}

/* The largest step first. */
static void sort_dimensions(struct dimension *dims, uint32_t n)
{
	for (uint32_t i = 1; i < n; i++)
		for (uint32_t k = i; k > 0 && dims[k - 1].step < dims[k].step; k--) {
			struct dimension other = dims[k];

			dims[k] = dims[k - 1];
			dims[k - 1] = other;
		}
}

static bool are_dense(const struct dimension *dims, uint32_t n)
{
	uint64_t step = 1;

	for (uint32_t i = n; i-- > 0; step *= dims[i].len)
		if (dims[i].step != step)
			return false;
	return true;
}

static bool overlaps_too_much(const struct dimension *dims, uint32_t n)
{
	uint64_t numel = 1, reach = 1;

	for (uint32_t i = 0; i < n; i++) {
		numel *= dims[i].len;
		reach += (dims[i].len - 1) * dims[i].step;
	}
	return numel > MANY && numel / MOST_OVERLAP > reach;
}

/* ---- where the items are ---- */

/* Makes the items of O those of DIMS, in that order. */
static int set_items(struct ckpt_stat_opened *o, const struct ckpt_items *from,
		     const struct dimension *dims, uint32_t n, bool dense, struct ckpt_error *err)
{
	struct ckpt_arena *arena = o->array->arena;
	uint64_t *shape = ckpt_arena_calloc(arena, n + 1u, sizeof(*shape)),
		 *stride = ckpt_arena_calloc(arena, n + 1u, sizeof(*stride));
	uint64_t *step = ckpt_arena_calloc(arena, n + 1u, sizeof(*step)),
		 *to = ckpt_arena_calloc(arena, n + 1u, sizeof(*to));
	uint64_t numel = 1;

	if (!shape || !stride || !step || !to)
		return ckpt_arena_fail(arena, err);
	for (uint32_t i = n; i-- > 0; numel *= dims[i].len) {
		shape[i] = dims[i].len;
		stride[i] = dims[i].step;
		step[i] = numel;
		to[i] = dims[i].to;
		if (to[i] != step[i])
			o->view.ndim = n;
	}
	o->view.step = step;
	o->view.to = to;
	o->items = *from;
	o->items.ndim = n;
	if (dense && n) { /* one row */
		shape[0] = numel;
		stride[0] = 1;
		o->items.ndim = 1;
	}
	o->items.shape = shape;
	o->items.stride = stride;
	o->items.numel = numel;
	return 0;
}

static int set_why_not(struct ckpt_stat *s, struct ckpt_stat_job *job, const char *why,
		       bool has_values, struct ckpt_error *err)
{
	job->unreadable = has_values;
	job->why_not = ckpt_arena_copy(s->arena, why, strlen(why));
	return job->why_not ? 0 : ckpt_arena_fail(s->arena, err);
}

static bool depends_on_place(const struct ckpt_array *a)
{
	return a->qscheme && a->t.kind == CKPT_KIND_QUANTIZED &&
	       !strncmp(a->qscheme, "per_channel", 11);
}

static int set_recipe(struct ckpt_stat *s, struct ckpt_stat_opened *o, const struct ckpt_array *a,
		      struct ckpt_error *err)
{
	struct dimension dims[CKPT_ITEMS_MOST_DIMS];
	bool dense;
	uint32_t n;
	int rc;

	if (!a->items.numel)
		return 0;
	n = list_dimensions(&a->items, dims, &o->job->repeat);
	if (overlaps_too_much(dims, n))
		return set_why_not(s, o->job, "shows each of its items many times over", true, err);
	if (depends_on_place(a)) { /* the scale depends on the index */
		o->job->repeat = 1;
		o->items = a->items;
	} else {
		struct dimension sorted[CKPT_ITEMS_MOST_DIMS];

		memcpy(sorted, dims, n * sizeof(*dims));
		sort_dimensions(sorted, n);
		dense = are_dense(sorted, n);
		rc = set_items(o, &a->items, dense ? sorted : dims, n, dense, err);
		if (rc < 0)
			return rc;
	}
	o->recipe = ckpt_items_recipe(&o->items);
	return 0;
}

/* ---- the whole ---- */

static const double *get_codes(struct ckpt_stat *s, enum ckpt_dtype dtype)
{
	if (!s->codes[dtype]) {
		s->codes[dtype] = ckpt_arena_calloc(s->arena, 256, sizeof(double));
		if (s->codes[dtype])
			ckpt_stat_codes(dtype, s->codes[dtype]);
	}
	return s->codes[dtype];
}

static int set_view(struct ckpt_stat *s, struct ckpt_stat_opened *o, const struct ckpt_array *a,
		    struct ckpt_error *err)
{
	struct ckpt_stat_job *job = o->job;
	uint64_t *shape = ckpt_arena_calloc(s->arena, a->t.ndim + 1u, sizeof(*shape));

	if (!shape)
		return ckpt_arena_fail(s->arena, err);
	if (a->t.ndim)
		memcpy(shape, a->t.shape, a->t.ndim * sizeof(*shape));
	job->numbers = a->reads;
	job->looked_ndim = a->t.ndim;
	job->looked_shape = shape;
	o->view = (struct ckpt_stat_view){ .steps = a->step_count ? a : NULL,
					   .dtype = a->reads,
					   .itemsize = a->items.itemsize };
	if (ckpt_stat_kind_of(a->reads) == CKPT_STAT_CODES) {
		o->view.codes = get_codes(s, a->reads);
		if (!o->view.codes)
			return ckpt_arena_fail(s->arena, err);
	}
	return set_recipe(s, o, a, err);
}

/* The part that has numbers; NULL: the tensor itself. */
static const char *part_with_numbers(const struct ckpt_array *a)
{
	return a->t.kind == CKPT_KIND_SPARSE   ? "values"
	       : a->t.kind == CKPT_KIND_NESTED ? "buffer"
					       : NULL;
}

static int open_array(struct ckpt_stat *s, struct ckpt_stat_opened *o, struct ckpt_error *err)
{
	struct ckpt_stat_job *job = o->job;
	const char *part;
	int rc = ckpt_array_new(s->model, job->name, 0, &o->array, err);

	if (rc == 0)
		rc = ckpt_array_fill(o->array, job->value, err);
	part = rc == 0 ? part_with_numbers(o->array) : NULL;
	if (part)
		return ckpt_array_part(o->array, part, &o->part, err);
	if (rc < 0 && rc != CKPT_E_UNSUPPORTED)
		return ckpt_array_fail_named(s->model, job->name, rc, err);
	return rc;
}

int ckpt_stat_open(struct ckpt_stat *s, struct ckpt_stat_job *job, struct ckpt_stat_opened *o,
		   struct ckpt_error *err)
{
	struct ckpt_error local = CKPT_ERROR_INIT;
	const struct ckpt_array *a;
	char text[sizeof(local.text)];
	int rc;

	*o = (struct ckpt_stat_opened){ .job = job };
	rc = open_array(s, o, &local);
	if (rc == CKPT_E_UNSUPPORTED)
		return set_why_not(s, job, ckpt_error_text(&local, text, sizeof(text)), true, err);
	if (rc < 0) {
		if (err)
			*err = local;
		return rc;
	}
	a = o->part ? o->part : o->array;
	if (a->why_not)
		return set_why_not(s, job, a->why_not, false, err);
	return set_view(s, o, a, err);
}

void ckpt_stat_close(struct ckpt_stat_opened *o)
{
	ckpt_array_close(o->part);
	ckpt_array_close(o->array);
	o->array = o->part = NULL;
}

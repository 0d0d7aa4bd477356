/* SPDX-License-Identifier: Apache-2.0 */
#include "stat/stat.h"

#include <string.h>

/* How the values of one tensor are looked at. */

/* Views whose items overlap: no file has bytes enough to say that these are to be counted, one by one. */
enum { MOST_OVERLAP = 16, MANY = 1 << 24 };

/* One dimension of a view: STEP from item to item in the storage, TO in C order. */
struct dim {
	uint64_t len, step, to;
};

/* ---- which dimensions ---- */

/* Those that are no repetition of the others, as they stand; *REPEAT: how often all of these stand there. */
static uint32_t list_dims(const struct ckpt_items *items, struct dim *dims, uint64_t *repeat)
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
			dims[n++] = (struct dim){ items->shape[i], items->stride[i], to };
	}
	for (uint32_t i = 0; i < n / 2; i++) {
		struct dim other = dims[i];

		dims[i] = dims[n - 1 - i];
		dims[n - 1 - i] = other;
	}
	return n;
}

/* The longest step first. */
static void sort_dims(struct dim *dims, uint32_t n)
{
	for (uint32_t i = 1; i < n; i++)
		for (uint32_t k = i; k > 0 && dims[k - 1].step < dims[k].step; k--) {
			struct dim other = dims[k];

			dims[k] = dims[k - 1];
			dims[k - 1] = other;
		}
}

static bool are_dense(const struct dim *dims, uint32_t n)
{
	uint64_t step = 1;

	for (uint32_t i = n; i-- > 0; step *= dims[i].len)
		if (dims[i].step != step)
			return false;
	return true;
}

static bool overlap_much(const struct dim *dims, uint32_t n)
{
	uint64_t numel = 1, reach = 1;

	for (uint32_t i = 0; i < n; i++) {
		numel *= dims[i].len;
		reach += (dims[i].len - 1) * dims[i].step;
	}
	return numel > MANY && numel / MOST_OVERLAP > reach;
}

/* ---- where the items are ---- */

/* Let O's items be those of DIMS, in that order. */
static int set_items(struct ckpt_stat_opened *o, const struct ckpt_items *from,
		     const struct dim *dims, uint32_t n, bool dense, struct ckpt_error *err)
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

static int refuse(struct ckpt_stat *s, struct ckpt_stat_job *job, const char *why, bool has_values,
		  struct ckpt_error *err)
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

static int place(struct ckpt_stat *s, struct ckpt_stat_opened *o, const struct ckpt_array *a,
		 struct ckpt_error *err)
{
	struct dim dims[CKPT_ITEMS_MOST_DIMS];
	bool dense;
	uint32_t n;
	int rc;

	if (!a->items.numel)
		return 0;
	n = list_dims(&a->items, dims, &o->job->repeat);
	if (overlap_much(dims, n))
		return refuse(s, o->job, "shows each of its items many times over", true, err);
	if (depends_on_place(a)) { /* the scale goes by the index */
		o->job->repeat = 1;
		o->items = a->items;
	} else {
		struct dim sorted[CKPT_ITEMS_MOST_DIMS];

		memcpy(sorted, dims, n * sizeof(*dims));
		sort_dims(sorted, n);
		dense = are_dense(sorted, n);
		rc = set_items(o, &a->items, dense ? sorted : dims, n, dense, err);
		if (rc < 0)
			return rc;
	}
	o->recipe = ckpt_items_recipe(&o->items);
	return 0;
}

/* ---- the whole ---- */

static const double *codes_of(struct ckpt_stat *s, enum ckpt_dtype dtype)
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
		o->view.codes = codes_of(s, a->reads);
		if (!o->view.codes)
			return ckpt_arena_fail(s->arena, err);
	}
	return place(s, o, a, err);
}

/* What of it has numbers. */
static const char *part_of(const struct ckpt_array *a)
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
	part = rc == 0 ? part_of(o->array) : NULL;
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
		return refuse(s, job, ckpt_error_text(&local, text, sizeof(text)), true, err);
	if (rc < 0) {
		if (err)
			*err = local;
		return rc;
	}
	a = o->part ? o->part : o->array;
	if (a->why_not)
		return refuse(s, job, a->why_not, false, err);
	return set_view(s, o, a, err);
}

void ckpt_stat_close(struct ckpt_stat_opened *o)
{
	ckpt_array_close(o->part);
	ckpt_array_close(o->array);
	o->array = o->part = NULL;
}

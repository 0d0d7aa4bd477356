/* SPDX-License-Identifier: Apache-2.0 */
#include "base/grow.h"
#include "stat/stat.h"

#include <stdlib.h>
#include <string.h>

/*
 * Tied weights, and views of a flat parameter, are in the totals once: of the tensors of a storage those with most bytes come first,
 * and those that lie inside of what was counted before them are left out.
 */
struct extent {
	uint32_t job;
	int64_t storage;	/* -1: none that could be shared; the id of the value is in FROM */
	uint64_t from, to;	/* bytes of it */
	bool is_run;		/* it shows all of these */
	struct ckpt_tensor *of; /* arena; NULL without a storage */
};

struct stretch {
	uint64_t from, to;
};

/* What was counted of one storage, in order, with gaps between. */
struct covered {
	struct stretch *stretches; /* malloc */
	uint32_t count, cap;
};

/* ---- what a tensor shows ---- */

static bool find_values(struct ckpt_stat *s, const struct ckpt_value *v, struct ckpt_tensor *out)
{
	struct ckpt_tensor t;

	return ckpt_tensor_parse(s->model, v, s->arena, &t, NULL) > 0 &&
	       ckpt_tensor_stored(s->model, &t, s->arena, out) &&
	       ckpt_dtype_packed(out->dtype) == 1;
}

/* Do the items lie one behind the other, in whatever order, some perhaps more than once? */
static bool is_run(const struct ckpt_tensor *t)
{
	uint64_t step = 1;
	bool more = true;

	while (more) {
		more = false;
		for (uint32_t i = 0; i < t->ndim; i++)
			if (t->shape[i] > 1 && t->stride[i] == step) {
				step *= t->shape[i];
				more = true;
			}
	}
	for (uint32_t i = 0; i < t->ndim; i++)
		if (t->shape[i] > 1 && t->stride[i] >= step)
			return false;
	return true;
}

/* That it lies inside of its storage was checked when the file was opened: nothing overflows. */
static void measure(const struct ckpt_model *model, struct extent *e)
{
	const struct ckpt_storage_view *view = model->storages[e->of->storage].view;
	uint64_t size = ckpt_dtype_size(e->of->dtype), first = e->of->offset, last = first;

	e->storage = view ? view->root : e->of->storage;
	if (view) {
		first += view->offset;
		last = first;
	}
	for (uint32_t i = 0; i < e->of->ndim; i++) {
		if (!e->of->shape[i]) {
			e->from = e->to = first * size;
			return;
		}
		last += (e->of->shape[i] - 1) * e->of->stride[i];
	}
	e->from = first * size;
	e->to = (last + 1) * size;
	e->is_run = is_run(e->of);
}

static int make_extent(struct ckpt_stat *s, uint32_t job, struct extent *e, struct ckpt_error *err)
{
	struct ckpt_arena_mark mark = ckpt_arena_mark(s->arena);
	struct ckpt_tensor *t = ckpt_arena_calloc(s->arena, 1, sizeof(*t));

	*e = (struct extent){ .job = job, .storage = -1, .from = s->jobs[job].value->id };
	if (!t)
		return ckpt_arena_fail(s->arena, err);
	if (find_values(s, s->jobs[job].value, t)) {
		e->of = t;
		measure(s->model, e);
	} else {
		ckpt_arena_release(s->arena, mark);
	}
	return 0;
}

/* ---- in order ---- */

#define COMPARE(a, b) \
	do { \
		if ((a) != (b)) \
			return (a) < (b) ? -1 : 1; \
	} while (0)

static int compare_views(const struct ckpt_tensor *a, const struct ckpt_tensor *b)
{
	if (!a || !b)
		return 0;
	COMPARE(a->kind, b->kind);
	COMPARE(a->dtype, b->dtype);
	COMPARE(a->is_neg, b->is_neg);
	COMPARE(a->ndim, b->ndim);
	for (uint32_t i = 0; i < a->ndim; i++) {
		COMPARE(a->shape[i], b->shape[i]);
		COMPARE(a->stride[i], b->stride[i]);
	}
	return 0;
}

static int compare(const void *left, const void *right)
{
	const struct extent *a = left, *b = right;
	int order;

	COMPARE(a->storage, b->storage);
	COMPARE(b->to - b->from, a->to - a->from); /* the largest first */
	COMPARE(a->from, b->from);
	order = compare_views(a->of, b->of);
	if (order)
		return order;
	COMPARE(a->job, b->job);
	return 0;
}

/* ---- what is counted ---- */

/* The first stretch that ends at OFF or behind it. */
static uint32_t find_stretch(const struct covered *c, uint64_t off)
{
	uint32_t low = 0, high = c->count;

	while (low < high) {
		uint32_t middle = low + (high - low) / 2;

		if (c->stretches[middle].to >= off)
			high = middle;
		else
			low = middle + 1;
	}
	return low;
}

static bool contains(const struct covered *c, const struct extent *e)
{
	uint32_t i = find_stretch(c, e->to);

	return i < c->count && c->stretches[i].from <= e->from;
}

/* Stretches that touch the new one become one with it. */
static bool cover(struct covered *c, uint64_t from, uint64_t to)
{
	struct stretch *grown = ckpt_grow(c->stretches, c->count, &c->cap, sizeof(*grown));
	uint32_t i, end;

	if (!grown)
		return false;
	c->stretches = grown;
	i = end = find_stretch(c, from);
	for (; end < c->count && grown[end].from <= to; end++) {
		from = grown[end].from < from ? grown[end].from : from;
		to = grown[end].to > to ? grown[end].to : to;
	}
	memmove(&grown[i + 1], &grown[end], (c->count - end) * sizeof(*grown));
	grown[i] = (struct stretch){ from, to };
	c->count = c->count + 1 - (end - i);
	return true;
}

/* Are they shown in the same way, so that one look is enough? */
static bool are_same(const struct ckpt_stat *s, const struct extent *a, const struct extent *b)
{
	if (s->jobs[a->job].value == s->jobs[b->job].value)
		return true;
	return a->of && b->of && a->storage == b->storage && a->from == b->from && a->to == b->to &&
	       a->of->kind == CKPT_KIND_STRIDED && !compare_views(a->of, b->of);
}

static int judge(struct ckpt_stat *s, const struct extent *extents, struct ckpt_error *err)
{
	struct covered c = { 0 };
	int rc = 0;

	for (uint32_t i = 0; rc == 0 && i < s->count; i++) {
		const struct extent *e = &extents[i];
		struct ckpt_stat_job *job = &s->jobs[e->job];

		if (i && e->storage != e[-1].storage)
			c.count = 0;
		if (i && are_same(s, &e[-1], e)) {
			job->same_as = s->jobs[e[-1].job].same_as;
			job->counted = false;
		} else if (e->of && e->from < e->to) {
			job->counted = !contains(&c, e);
			if (job->counted && e->is_run && !cover(&c, e->from, e->to))
				rc = ckpt_fail_nomem(err);
		}
	}
	free(c.stretches);
	return rc;
}

int ckpt_stat_find_shared(struct ckpt_stat *s, struct ckpt_error *err)
{
	struct extent *extents = malloc((s->count + 1u) * sizeof(*extents));
	int rc = extents ? 0 : ckpt_fail_nomem(err);

	for (uint32_t i = 0; rc == 0 && i < s->count; i++)
		rc = make_extent(s, i, &extents[i], err);
	if (rc == 0) {
		qsort(extents, s->count, sizeof(*extents), compare);
		rc = judge(s, extents, err);
	}
	free(extents);
	return rc;
}

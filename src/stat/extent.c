/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds tensors that share bytes, so that tied weights and views of a flat parameter count once in
 * the totals: among the tensors of a storage those with most bytes come first, and one that lies in
 * what was counted before does not count (`counted`). Tensors that show the same in the same way
 * are read once (`same_as`). The same is found again within each group (`counted_in_group`).
 *
 * Only a tensor that shows all bytes of its extent, without gaps, covers it (`is_run`); what lies
 * in the gaps of a strided view must count.
 */
#include "base/grow.h"
#include "stat/stat.h"

#include <stdlib.h>
#include <string.h>

struct extent {
	uint32_t job;
	uint32_t group;		/* 0 while there are none */
	int64_t storage;	/* -1: none that could be shared, and FROM is the id of the value */
	uint64_t from, to;	/* bytes of it */
	bool is_run;		/* it shows all of these bytes */
	struct ckpt_tensor *of; /* arena; NULL without a storage */
};

struct range {
	uint64_t from, to;
};

/* What was counted of one storage: ranges in order, with gaps between them. */
struct coverage {
	struct range *ranges; /* malloc */
	uint32_t count, cap;
};

/* ---- what a tensor shows ---- */

static bool parse_stored(struct ckpt_stat *s, const struct ckpt_value *v, struct ckpt_tensor *out)
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

/* It was checked when the file was opened that it lies in its storage: nothing overflows. */
static void set_extent(const struct ckpt_model *model, struct extent *e)
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
	if (parse_stored(s, s->jobs[job].value, t)) {
		e->of = t;
		set_extent(s->model, e);
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

static int compare_extents(const void *left, const void *right)
{
	const struct extent *a = left, *b = right;
	int order;

	COMPARE(a->group, b->group);
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

/* The first range that ends at OFF or behind it. */
static uint32_t find_range(const struct coverage *c, uint64_t off)
{
	uint32_t low = 0, high = c->count;

	while (low < high) {
		uint32_t middle = low + (high - low) / 2;

		if (c->ranges[middle].to >= off)
			high = middle;
		else
			low = middle + 1;
	}
	return low;
}

static bool contains(const struct coverage *c, const struct extent *e)
{
	uint32_t i = find_range(c, e->to);

	return i < c->count && c->ranges[i].from <= e->from;
}

/* Adds a range; those that touch it are joined with it. */
static bool cover(struct coverage *c, uint64_t from, uint64_t to)
{
	struct range *grown = ckpt_grow(c->ranges, c->count, &c->cap, sizeof(*grown));
	uint32_t i, end;

	if (!grown)
		return false;
	c->ranges = grown;
	i = end = find_range(c, from);
	for (; end < c->count && grown[end].from <= to; end++) {
		from = grown[end].from < from ? grown[end].from : from;
		to = grown[end].to > to ? grown[end].to : to;
	}
	memmove(&grown[i + 1], &grown[end], (c->count - end) * sizeof(*grown));
	grown[i] = (struct range){ from, to };
	c->count = c->count + 1 - (end - i);
	return true;
}

/* Do they show the same in the same way, so that it is enough to read one? */
static bool are_same_view(const struct ckpt_stat *s, const struct extent *a, const struct extent *b)
{
	if (s->jobs[a->job].value == s->jobs[b->job].value)
		return true;
	return a->of && b->of && a->storage == b->storage && a->from == b->from && a->to == b->to &&
	       a->of->kind == CKPT_KIND_STRIDED && !compare_views(a->of, b->of);
}

/* EXTENTS are in order. IN_GROUPS: by their groups, and only COUNTED_IN_GROUP is set. */
static int mark_shared(struct ckpt_stat *s, const struct extent *extents, bool in_groups,
		       struct ckpt_error *err)
{
	struct coverage c = { 0 };
	int rc = 0;

	for (uint32_t i = 0; rc == 0 && i < s->count; i++) {
		const struct extent *e = &extents[i];
		struct ckpt_stat_job *job = &s->jobs[e->job];
		bool *counted = in_groups ? &job->counted_in_group : &job->counted;

		if (i && (e->storage != e[-1].storage || e->group != e[-1].group))
			c.count = 0;
		if (i && e->group == e[-1].group && are_same_view(s, &e[-1], e)) {
			if (!in_groups) {
				job->same_as = s->jobs[e[-1].job].same_as;
				s->jobs[e[-1].job].next_same = e->job;
			}
			*counted = false;
		} else if (e->of && e->from < e->to) {
			*counted = !contains(&c, e);
			if (*counted && e->is_run && !cover(&c, e->from, e->to))
				rc = ckpt_fail_nomem(err);
		}
	}
	free(c.ranges);
	return rc;
}

int ckpt_stat_find_shared(struct ckpt_stat *s, struct ckpt_error *err)
{
	struct extent *extents = malloc((s->count + 1u) * sizeof(*extents));
	int rc = extents ? 0 : ckpt_fail_nomem(err);

	for (uint32_t i = 0; rc == 0 && i < s->count; i++)
		rc = make_extent(s, i, &extents[i], err);
	if (rc == 0) {
		qsort(extents, s->count, sizeof(*extents), compare_extents);
		rc = mark_shared(s, extents, false, err);
	}
	if (rc == 0 && s->group_count) {
		for (uint32_t i = 0; i < s->count; i++)
			extents[i].group = s->jobs[extents[i].job].group;
		qsort(extents, s->count, sizeof(*extents), compare_extents);
		rc = mark_shared(s, extents, true, err);
	}
	free(extents);
	return rc;
}

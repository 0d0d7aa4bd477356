/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How deep objects lie in objects. What CPython frees, it frees with what is in it: lists, tuples
 * and dicts have a way to do that without end, but a deque in a deque, or a defaultdict in a
 * defaultdict, takes the stack until there is none. A list between them breaks the row only where
 * there are fifty of them, so that objects count on any way down. No pickler goes that deep by
 * itself. Source: CPython 3.9 to 3.14, Modules/_collectionsmodule.c (deque_dealloc,
 * defdict_dealloc); Py_TRASHCAN_BEGIN.
 */
#include "scan/walk.h"

#include "base/grow.h"

#include <stdlib.h>

enum { MOST_DEPTH = 5000, MOST_ARRAYS = 16, BEING_VISITED = 1, VISITED = 2 };

static bool is_container(const struct ckpt_value *v)
{
	return v->kind == CKPT_LIST || v->kind == CKPT_TUPLE || v->kind == CKPT_DICT || v->kind == CKPT_SET || v->kind == CKPT_FROZENSET;
}

void ckpt_scan_put_into(struct ckpt_scan_walk *w, const struct ckpt_value *const *items, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		const struct ckpt_value **grown;

		if (items[i]->kind != CKPT_CALL || !items[i]->id)
			continue;
		grown = ckpt_grow(w->inner, w->inner_count, &w->inner_cap, sizeof(*grown));
		w->s->no_memory |= !grown;
		if (!grown)
			return;
		w->inner = grown;
		w->inner[w->inner_count++] = items[i];
	}
}

void ckpt_scan_made_of(struct ckpt_scan_walk *w, const struct ckpt_value *args)
{
	for (uint32_t i = 0; args->kind == CKPT_TUPLE && i < args->u.seq.count; i++) {
		const struct ckpt_value *arg = args->u.seq.items[i];

		ckpt_scan_put_into(w, &arg, 1);
		if (!is_container(arg) || !arg->u.seq.count || !ckpt_scan_may_look(w, arg->u.seq.count))
			continue;
		ckpt_scan_put_into(w, arg->u.seq.items, arg->u.seq.count);
		for (uint32_t n = 0; n < arg->u.seq.count; n++) { /* pairs */
			const struct ckpt_value *pair = arg->u.seq.items[n];

			if (is_container(pair) && pair->u.seq.count && ckpt_scan_may_look(w, pair->u.seq.count))
				ckpt_scan_put_into(w, pair->u.seq.items, pair->u.seq.count);
		}
	}
}

/* An object on the way down, and what is to be said of those in it. */
struct descent {
	struct ckpt_scan_walk *w;
	uint32_t *heights; /* owned, by ids: 0, BEING_VISITED, or VISITED and the height */
	const struct ckpt_value **stack; /* owned */
	uint32_t depth, cap, highest;
	uint32_t most;	/* objects above each other that count */
	bool arrays;	/* count arrays of objects alone, which may not be in themselves */
	bool is_circle; /* one of those was met that is being visited */
	bool down; /* push those that were not visited; else find the highest */
};

static bool visit(struct descent *d, const struct ckpt_value *v)
{
	const struct ckpt_value **grown;

	if ((v->kind != CKPT_CALL && !is_container(v)) || !v->id)
		return true;
	if (!d->down) {
		uint32_t height = d->heights[v->id] >= VISITED ? d->heights[v->id] - VISITED : 0;

		d->highest = height > d->highest ? height : d->highest;
		d->is_circle |= d->heights[v->id] == BEING_VISITED;
		return true;
	}
	if (d->heights[v->id])
		return true;
	grown = ckpt_grow(d->stack, d->depth, &d->cap, sizeof(*grown));
	d->w->s->no_memory |= !grown;
	if (!grown)
		return false;
	d->stack = grown;
	d->stack[d->depth++] = v;
	return true;
}

static bool visit_all(struct descent *d, const struct ckpt_seq *seq)
{
	if (!ckpt_scan_may_look(d->w, seq->count))
		return false;
	for (uint32_t i = 0; i < seq->count; i++)
		if (!visit(d, seq->items[i]))
			return false;
	return true;
}

/* What is directly in an object or container: items, the state, and what it was made of. */
static bool visit_inner(struct descent *d, const struct ckpt_value *v)
{
	const struct ckpt_call *call = v->u.call;

	if (v->kind != CKPT_CALL)
		return visit_all(d, &v->u.seq);
	if (!visit_all(d, &call->items) || !visit_all(d, &call->pairs) || (call->state && !visit(d, call->state)))
		return false;
	return call->args->kind != CKPT_TUPLE || visit_all(d, &call->args->u.seq);
}

/* numpy goes down into what is in them where they are compared, or added: its own loops, without a look. */
static bool is_array_of_objects(const struct ckpt_value *v)
{
	const struct ckpt_value *state = v->kind == CKPT_CALL ? v->u.call->state : NULL;

	return state && state->kind == CKPT_TUPLE && state->u.seq.count == 5 && state->u.seq.items[4]->kind == CKPT_LIST &&
	       (ckpt_value_is_call_of(v, "numpy.core.multiarray", "_reconstruct") || ckpt_value_is_call_of(v, "numpy._core.multiarray", "_reconstruct"));
}

static bool is_too_deep(struct descent *d, const struct ckpt_value *first)
{
	d->down = true;
	if (!visit(d, first))
		return false;
	while (d->depth) {
		const struct ckpt_value *v = d->stack[d->depth - 1];

		if (d->heights[v->id] >= VISITED) {
			d->depth--;
			continue;
		}
		d->down = !d->heights[v->id];
		d->highest = 0;
		if (d->down)
			d->heights[v->id] = BEING_VISITED;
		if (!visit_inner(d, v))
			return false;
		if (d->down)
			continue;
		d->heights[v->id] = d->highest + (d->arrays ? is_array_of_objects(v) : v->kind == CKPT_CALL) + VISITED;
		if (d->highest >= d->most || (d->arrays && d->is_circle))
			return true;
		d->depth--;
	}
	return false;
}

/* One that lies in nothing has none in it that does not. */
static void check_arrays(struct ckpt_scan_walk *w)
{
	struct descent d = { .w = w, .most = MOST_ARRAYS, .arrays = true };
	bool any = false;

	for (uint32_t i = 0; i < w->inner_count && !any; i++)
		any = is_array_of_objects(w->inner[i]);
	d.heights = any ? calloc(w->doc.next_id + (size_t)1, sizeof(*d.heights)) : NULL;
	w->s->no_memory |= any && !d.heights;
	for (uint32_t i = 0; d.heights && i < w->inner_count && w->s->rc == 0 && !w->s->no_memory; i++)
		if (is_array_of_objects(w->inner[i]) && is_too_deep(&d, w->inner[i])) {
			ckpt_scan_find(w->s, CKPT_SCAN_UNREADABLE, "amount", w->in->base, "arrays of objects in themselves, or more than %d of them in each other: numpy has no end there", MOST_ARRAYS);
			break;
		}
	free(d.heights);
	free(d.stack);
}

void ckpt_scan_check_depth(struct ckpt_scan_walk *w)
{
	struct descent d = { .w = w, .most = MOST_DEPTH };

	check_arrays(w);
	if (w->inner_count <= MOST_DEPTH)
		return; /* it cannot be deeper than that */
	d.heights = calloc(w->doc.next_id + (size_t)1, sizeof(*d.heights));
	w->s->no_memory |= !d.heights;
	for (uint32_t i = 0; d.heights && i < w->inner_count && w->s->rc == 0 && !w->s->no_memory; i++)
		if (is_too_deep(&d, w->inner[i])) {
			ckpt_scan_find(w->s, CKPT_SCAN_UNREADABLE, "amount", w->in->base, "objects in objects, more than %d deep: to free them takes more stack than there is", MOST_DEPTH);
			break;
		}
	free(d.heights);
	free(d.stack);
}

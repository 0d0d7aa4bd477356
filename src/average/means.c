/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The bytes belong to storages, so storages are averaged, each of the base once, and tensors that
 * share one still do afterwards. Where the same tensors lie in the same way in another checkpoint, its
 * storage is taken as it is. Where they do not (another format, another order of the dimensions), its
 * tensors are put into the order of the base: those of the base then must not overlap but where they
 * are the same, nor have gaps. Bytes that no tensor of the base shows come from the base.
 *
 * What must stay true: a storage that is averaged is used by averaged tensors alone, or others would
 * change with it; tensors that are one in the base are one in all, or one of them would be lost.
 */
#include "average/average.h"

#include "model/optimizers.h"
#include "tensor/items.h"
#include "tensor/mean.h"
#include "tensor/shape.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- who else uses a storage ---- */

struct use {
	bool other;  /* a tensor that is not averaged */
	bool alone;  /* it stands in the checkpoint without a tensor around it */
	bool viewed; /* it is a part of another storage, or that */
};

struct user_walk {
	const struct ckpt_averager *a;
	struct use *uses; /* by storage of the base */
	size_t depth;	  /* inside a tensor as long as the walk is deeper */
	bool averaged;	  /* that tensor */
	struct ckpt_optimizers optimizers;
	uint64_t *of_optimizer; /* how many of them are an optimizer's */
};

/* Arguments of a tensor that name its storage are met below it; a storage elsewhere stands by itself. */
static int note_users(void *ctx, const struct ckpt_walk_step *step, struct ckpt_error *err)
{
	struct user_walk *w = ctx;
	int64_t storage = step->value->kind == CKPT_PERSID ? ckpt_storage_of(step->value) : -1;
	int of_optimizer = ckpt_optimizers_visit(&w->optimizers, step, err);

	if (of_optimizer < 0)
		return of_optimizer;
	if (step->depth <= w->depth)
		w->depth = SIZE_MAX;
	if (w->depth == SIZE_MAX && ckpt_value_is_tensor(w->a->models[w->a->base], step->value)) {
		w->depth = step->depth;
		w->averaged = ckpt_strmap_find(&w->a->by_name, step->name, step->name_len) != NULL;
		*w->of_optimizer += w->averaged && of_optimizer;
	}
	if (storage >= 0 && w->depth == SIZE_MAX)
		w->uses[storage].alone = true;
	else if (storage >= 0 && !w->averaged)
		w->uses[storage].other = true;
	return CKPT_WALK_ENTER;
}

/* ---- one storage, as another checkpoint has it ---- */

/* Averaged tensors of one storage of the base: A->tensors[FROM] to [TO]. */
struct group {
	struct ckpt_averager *a;
	uint32_t from, to;
	uint32_t storage;
	const struct ckpt_storage *s;
};

static bool has_items(const struct ckpt_tensor *t)
{
	return !ckpt_shape_is_empty(t->shape, t->ndim);
}

static bool same_place(const struct ckpt_tensor *x, const struct ckpt_tensor *y)
{
	if (x->offset != y->offset || x->ndim != y->ndim || x->dtype != y->dtype)
		return false;
	for (uint32_t i = 0; i < x->ndim; i++)
		if (x->shape[i] != y->shape[i] || (x->shape[i] > 1 && x->stride[i] != y->stride[i]))
			return false;
	return true;
}

/* The storage of checkpoint I in which all tensors lie as in the base; NULL: there is none. */
static const struct ckpt_storage *find_same(const struct group *g, size_t i)
{
	int64_t storage = -1;

	for (uint32_t k = g->from; k < g->to; k++) {
		const struct ckpt_tensor *mine = g->a->tensors[k].stored[g->a->base],
					 *theirs = g->a->tensors[k].stored[i];

		if (!has_items(mine))
			continue;
		if ((storage >= 0 && theirs->storage != storage) || !same_place(mine, theirs))
			return NULL;
		storage = theirs->storage;
	}
	return storage >= 0 ? &g->a->models[i]->storages[storage] : NULL;
}

static int refuse_layout(const struct group *g, size_t i, const char *name, const char *what,
			 struct ckpt_error *err)
{
	char shown[160], path[100], text[400];

	snprintf(text, sizeof(text), "'%s' lies otherwise than in %s, where it %s",
		 ckpt_escape(shown, sizeof(shown), name, strlen(name)),
		 ckpt_averager_path(g->a, g->a->base, path), what);
	return ckpt_average_refuse(g->a, i, text, 1, CKPT_REASON_OTHER_LAYOUT, err);
}

/* The items of THEIRS in the order in which those of MINE, which has no gaps, lie. False: it has some. */
static bool order_items(const struct ckpt_tensor *mine, const struct ckpt_tensor *theirs,
			uint64_t *shape, uint64_t *stride, uint32_t *ndim)
{
	uint32_t order[CKPT_ITEMS_MOST_DIMS], count = 0;
	uint64_t dense = 1;

	for (uint32_t i = 0; i < mine->ndim; i++) {
		uint32_t at = count;

		if (mine->shape[i] == 1)
			continue;
		for (; at && mine->stride[order[at - 1]] < mine->stride[i]; at--)
			order[at] = order[at - 1];
		order[at] = i;
		count++;
	}
	for (uint32_t k = count; k-- > 0; dense *= mine->shape[order[k]]) {
		if (mine->stride[order[k]] != dense)
			return false;
		shape[k] = mine->shape[order[k]];
		stride[k] = theirs->stride[order[k]];
	}
	*ndim = count;
	return true;
}

/* All of one tensor of checkpoint I, as a part of the storage. */
static int make_items(const struct group *g, size_t i, const struct ckpt_averaged *tensor,
		      struct ckpt_recipe *out, struct ckpt_error *err)
{
	const struct ckpt_tensor *mine = tensor->stored[g->a->base], *theirs = tensor->stored[i];
	struct ckpt_arena *arena = g->a->to->arena;
	struct ckpt_items *items = ckpt_arena_calloc(arena, 1, sizeof(*items));
	uint64_t *shape = ckpt_arena_calloc(arena, mine->ndim + 1u, sizeof(*shape));
	uint64_t *stride = ckpt_arena_calloc(arena, mine->ndim + 1u, sizeof(*stride));
	int rc;

	if (!items || !shape || !stride)
		return ckpt_arena_fail(arena, err);
	if (!order_items(mine, theirs, shape, stride, &items->ndim))
		return refuse_layout(g, i, tensor->name, "has gaps", err);
	items->itemsize = ckpt_dtype_size(mine->dtype);
	items->offset = theirs->offset;
	items->shape = shape;
	items->stride = stride;
	rc = ckpt_model_storage_bytes(g->a->models[i], &g->a->models[i]->storages[theirs->storage],
				      &items->bytes, err);
	if (rc == 0)
		rc = ckpt_items_check(items, err);
	if (rc == 0)
		*out = ckpt_items_recipe(items);
	return rc;
}

struct parts {
	struct ckpt_arena *arena;
	struct ckpt_recipe *items; /* arena; room for all */
	size_t count;
};

/* LEN bytes at OFF of WHOLE. */
static int add_part(struct parts *parts, const struct ckpt_recipe *whole, uint64_t off,
		    uint64_t len, struct ckpt_error *err)
{
	struct ckpt_skip *skip;

	if (!len)
		return 0;
	if (!off && len == whole->len && whole->kind != CKPT_RECIPE_JOINED) {
		parts->items[parts->count++] = *whole;
		return 0;
	}
	if (ckpt_recipe_is_random(whole)) {
		parts->items[parts->count++] = ckpt_recipe_part(whole, off, len);
		return 0;
	}
	skip = ckpt_arena_calloc(parts->arena, 1, sizeof(*skip));
	if (!skip)
		return ckpt_arena_fail(parts->arena, err);
	*skip = (struct ckpt_skip){ *whole, off, len, false };
	parts->items[parts->count++] = ckpt_skip_recipe(skip);
	return 0;
}

/* What is added for tensor K, behind POS bytes. PREVIOUS: the one before it, or NULL. */
static int add_tensor(const struct group *g, size_t i, const struct ckpt_averaged *tensor,
		      const struct ckpt_averaged *previous, const struct ckpt_recipe *base,
		      uint64_t *pos, struct parts *parts, struct ckpt_error *err)
{
	const struct ckpt_tensor *mine = tensor->stored[g->a->base], *theirs = tensor->stored[i];
	uint64_t first = mine->offset * ckpt_dtype_size(mine->dtype);
	struct ckpt_recipe items;
	int rc;

	if (previous && same_place(previous->stored[g->a->base], mine)) {
		if (previous->stored[i]->storage == theirs->storage &&
		    same_place(previous->stored[i], theirs))
			return 0; /* tied in both */
		return refuse_layout(g, i, tensor->name, "is tied to another tensor", err);
	}
	if (first < *pos)
		return refuse_layout(g, i, tensor->name, "has bytes in common with another tensor",
				     err);
	rc = make_items(g, i, tensor, &items, err);
	if (rc == 0)
		rc = add_part(parts, base, *pos, first - *pos, err);
	if (rc == 0)
		rc = add_part(parts, &items, 0, items.len, err);
	*pos = first + items.len;
	return rc;
}

static int arrange(const struct group *g, size_t i, const struct ckpt_recipe *base,
		   struct ckpt_recipe *out, struct ckpt_error *err)
{
	struct parts parts = { .arena = g->a->to->arena };
	const struct ckpt_averaged *previous = NULL;
	uint64_t pos = 0;
	int rc = 0;

	parts.items = ckpt_arena_calloc(parts.arena, 2 * (size_t)(g->to - g->from) + 1,
					sizeof(*parts.items));
	if (!parts.items)
		return ckpt_arena_fail(parts.arena, err);
	for (uint32_t k = g->from; rc == 0 && k < g->to; k++) {
		const struct ckpt_averaged *tensor = &g->a->tensors[k];

		if (!has_items(tensor->stored[g->a->base]))
			continue;
		rc = add_tensor(g, i, tensor, previous, base, &pos, &parts, err);
		previous = tensor;
	}
	if (rc == 0)
		rc = add_part(&parts, base, pos, base->len - pos, err);
	if (rc == 0 && parts.count == 1)
		*out = parts.items[0];
	else if (rc == 0)
		*out = (struct ckpt_recipe){ .kind = CKPT_RECIPE_JOINED,
					     .len = base->len,
					     .parts = parts.items,
					     .part_count = parts.count };
	return rc;
}

/* The bytes of checkpoint I, as long as those of the BASE. */
static int find_bytes(const struct group *g, size_t i, const struct ckpt_recipe *base,
		      struct ckpt_recipe *out, struct ckpt_error *err)
{
	const struct ckpt_storage *same = find_same(g, i);
	int rc = same ? ckpt_model_storage_bytes(g->a->models[i], same, out, err) : 0;

	if (rc < 0 || (same && out->len == base->len))
		return rc;
	return arrange(g, i, base, out, err);
}

/* ---- means ---- */

static enum ckpt_dtype part_of(enum ckpt_dtype dtype)
{
	switch (dtype) {
	case CKPT_DTYPE_COMPLEX128: return CKPT_DTYPE_FLOAT64;
	case CKPT_DTYPE_COMPLEX64: return CKPT_DTYPE_FLOAT32;
	case CKPT_DTYPE_COMPLEX32: return CKPT_DTYPE_FLOAT16;
	case CKPT_DTYPE_BCOMPLEX32: return CKPT_DTYPE_BFLOAT16;
	default: return dtype;
	}
}

static int make_mean(const struct group *g, const struct ckpt_mean *like, struct ckpt_error *err)
{
	struct ckpt_averager *a = g->a;
	struct ckpt_mean *mean = ckpt_arena_calloc(a->to->arena, 1, sizeof(*mean));
	struct ckpt_recipe *made = ckpt_arena_calloc(a->to->arena, 1, sizeof(*made));
	struct ckpt_recipe *inner = ckpt_arena_calloc(a->to->arena, a->count, sizeof(*inner));
	struct ckpt_storage *s = &a->to->storages[g->storage];
	int rc;

	if (!mean || !made || !inner)
		return ckpt_arena_fail(a->to->arena, err);
	rc = ckpt_model_storage_bytes(a->models[a->base], g->s, &inner[a->base], err);
	for (size_t i = 0; rc == 0 && i < a->count; i++)
		if (i != a->base)
			rc = ckpt_error_at(err, find_bytes(g, i, &inner[a->base], &inner[i], err),
					   ckpt_document_path(a->models[i]->doc), NULL,
					   CKPT_NO_OFFSET);
	if (rc < 0)
		return rc;
	*mean = *like;
	mean->inner = inner;
	mean->dtype = part_of(a->tensors[g->from].stored[a->base]->dtype);
	*made = ckpt_mean_recipe(mean);
	s->made = made;
	s->has_crc = false;
	a->report.storages_averaged++;
	return 0;
}

/* Why the storage of a group cannot be averaged, or NULL. */
static const char *why_not(const struct group *g, const struct use *use)
{
	const struct ckpt_averaged *t = &g->a->tensors[g->from];

	if (use->alone)
		return "a storage that stands by itself";
	if (use->other)
		return "a tensor that is not averaged";
	for (uint32_t k = g->from + 1; k < g->to; k++)
		if (g->a->tensors[k].stored[g->a->base]->dtype != t->stored[g->a->base]->dtype)
			return "a tensor of another dtype";
	if (use->viewed) /* of a file from before 0.4 */
		return "another storage";
	return NULL;
}

static int by_place(const void *x, const void *y)
{
	const struct ckpt_averaged *a = x, *b = y;

	if (a->storage != b->storage)
		return a->storage < b->storage ? -1 : 1;
	if (a->offset != b->offset)
		return a->offset < b->offset ? -1 : 1;
	return (a->number > b->number) - (a->number < b->number);
}

/* What the options say, as a mean without recipes. */
static int choose_weights(const struct ckpt_averager *a, struct ckpt_mean *like,
			  struct ckpt_error *err)
{
	double *weights = ckpt_arena_calloc(a->to->arena, a->count, sizeof(*weights)), sum = 0;
	bool is_ema = a->o.flags & CKPT_AVERAGE_EMA;

	if (!weights)
		return ckpt_arena_fail(a->to->arena, err);
	for (size_t i = 0; i < a->count; i++) {
		weights[i] = a->o.weights ? a->o.weights[i] : is_ema && i ? 1 - a->o.decay : 1;
		sum += weights[i];
	}
	*like = (struct ckpt_mean){ .count = a->count,
				    .weights = weights,
				    .keep = is_ema ? a->o.decay : 1,
				    .divisor = is_ema ? 1 : sum,
				    .from_zero = !is_ema };
	return 0;
}

static int make_all(struct ckpt_averager *a, struct use *uses, struct ckpt_error *err)
{
	struct ckpt_mean like;
	int rc = choose_weights(a, &like, err);

	for (uint32_t i = 0; i < a->to->storage_count; i++)
		if (a->to->storages[i].view)
			uses[i].viewed = uses[a->to->storages[i].view->root].viewed = true;
	if (a->tensor_count)
		qsort(a->tensors, a->tensor_count, sizeof(*a->tensors), by_place);
	for (uint32_t from = 0, to; rc == 0 && from < a->tensor_count; from = to) {
		uint32_t storage = a->tensors[from].storage;
		struct group g = { a, from, 0, storage, &a->models[a->base]->storages[storage] };
		const char *why;
		char shown[160];

		for (to = from; to < a->tensor_count && a->tensors[to].storage == storage; to++)
			;
		g.to = to;
		why = why_not(&g, &uses[storage]);
		if (why)
			rc = ckpt_fail(err, CKPT_E_UNSUPPORTED,
				       "the bytes of '%s' are also those of %s",
				       ckpt_escape(shown, sizeof(shown), a->tensors[from].name,
						   strlen(a->tensors[from].name)),
				       why);
		else
			rc = make_mean(&g, &like, err);
	}
	return rc;
}

int ckpt_average_make_means(struct ckpt_averager *a, struct ckpt_error *err)
{
	const struct ckpt_model *base = a->models[a->base];
	struct user_walk w = { .a = a, .depth = SIZE_MAX, .of_optimizer = &a->report.optimizer_averaged };
	int rc;

	w.uses = calloc(base->storage_count + (size_t)1, sizeof(*w.uses));
	rc = w.uses ? ckpt_model_walk(base, note_users, &w, err) : ckpt_fail_nomem(err);
	if (rc == 0)
		rc = ckpt_model_own_storages(a->to, err);
	if (rc == 0)
		rc = make_all(a, w.uses, err);
	free(w.uses);
	ckpt_optimizers_clear(&w.optimizers);
	return ckpt_error_at(err, rc, ckpt_document_path(base->doc), NULL, CKPT_NO_OFFSET);
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `ckpt compact`: views stop dragging their whole storage along. The tensors of a storage fall
 * into groups that have bytes in common; every group gets a storage of its own with what lies
 * between its first and its last item. A tensor with gaps that shares with nobody but its equals
 * is gathered, as Tensor.clone() does it.
 *
 * Tensors that shared bytes must share them afterwards: a group is closed only where no later
 * view begins before its end. A storage stays as it is if it is also mentioned outside of
 * tensors, or seen with several item sizes, since offsets count items. The new arguments are
 * replacements; the walked model does not change.
 */
#include "base/grow.h"
#include "base/sized.h"
#include "model/model.h"
#include "model/walk.h"
#include "tensor/gather.h"
#include "tensor/shape.h"

#include <ckpt/edit.h>

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct view {
	/* (storage, offset, size, stride, ...) of its rebuild call */
	const struct ckpt_value *args;
	uint32_t storage, itemsize, packed, ndim;
	const uint64_t *shape, *stride;
	uint64_t offset, end,
		numel;	/* items: the first, behind the last, all; END == OFFSET if none */
	uint32_t order; /* in the file */
};

struct compactor {
	const struct ckpt_model *from;
	struct ckpt_model *to;
	struct view *views;
	uint32_t count, cap;
	uint32_t *persids; /* by storage: how often it was met on the walk ... */
	/* ... and by how many tensors it is used; the rest are storages on their own */
	uint32_t *uses;
	struct ckpt_edit_report report;
};

/* ---- a look at all tensors ---- */

/* The call's arguments that begin with (storage, offset, size, stride), or NULL. */
static const struct ckpt_value *place_args(const struct compactor *c, const struct ckpt_value *v)
{
	const struct ckpt_value *args = ckpt_model_now(c->from, v->u.call->args), *first;

	if (ckpt_value_is_call_of(v, "torch._tensor", "_rebuild_from_type_v2") &&
	    args->kind == CKPT_TUPLE && args->u.seq.count >= 4)
		args = ckpt_model_now(c->from, args->u.seq.items[2]);
	if (args->kind != CKPT_TUPLE || args->u.seq.count < 4)
		return NULL;
	first = ckpt_model_now(c->from, args->u.seq.items[0]);
	return first->kind == CKPT_PERSID ? args : NULL;
}

static void set_extent(struct view *view)
{
	uint64_t last = view->offset;

	view->end = view->offset;
	/* what is expanded may have more than can be counted */
	view->numel = ckpt_shape_numel(view->shape, view->ndim);
	if (!view->numel)
		return;
	for (uint32_t i = 0; i < view->ndim; i++)
		last += (view->shape[i] - 1) * view->stride[i];
	view->end = last + 1;
}

static int add_view(struct compactor *c, const struct ckpt_tensor *t, const struct ckpt_value *args,
		    struct ckpt_error *err)
{
	struct view *view = ckpt_grow(c->views, c->count, &c->cap, sizeof(*view));

	if (!view)
		return ckpt_fail_nomem(err);
	c->views = view;
	view = &c->views[c->count];
	*view = (struct view){ .args = args,
			       .storage = (uint32_t)t->storage,
			       .itemsize = ckpt_dtype_size(t->dtype),
			       .packed = ckpt_dtype_packed(t->dtype),
			       .ndim = t->ndim,
			       .shape = t->shape,
			       .stride = t->stride,
			       .offset = t->offset,
			       .order = c->count };
	set_extent(view);
	c->count++;
	return 0;
}

static int visit_value(void *ctx, const struct ckpt_walk_step *step, struct ckpt_error *err)
{
	struct compactor *c = ctx;
	const struct ckpt_value *v = step->value, *args;
	struct ckpt_tensor t;
	int rc;

	if (v->kind == CKPT_PERSID && ckpt_storage_of(v) >= 0)
		c->persids[ckpt_storage_of(v)]++;
	if (v->kind != CKPT_CALL || step->seen || !(args = place_args(c, v)))
		return CKPT_WALK_ENTER;
	rc = ckpt_tensor_parse(c->from, v, c->to->arena, &t, err);
	if (rc <= 0 || t.storage < 0 || !t.stride)
		return rc < 0 ? rc : CKPT_WALK_ENTER;
	c->uses[t.storage]++;
	rc = add_view(c, &t, args, err);
	return rc < 0 ? rc : CKPT_WALK_ENTER;
}

/* ---- groups ---- */

static int by_place(const void *a, const void *b)
{
	const struct view *x = a, *y = b;

	if (x->storage != y->storage)
		return x->storage < y->storage ? -1 : 1;
	if (x->offset != y->offset)
		return x->offset < y->offset ? -1 : 1;
	return x->order < y->order ? -1 : 1;
}

static bool same_view(const struct view *a, const struct view *b)
{
	return a->offset == b->offset && a->ndim == b->ndim &&
	       !memcmp(a->shape, b->shape, a->ndim * sizeof(*a->shape)) &&
	       !memcmp(a->stride, b->stride, a->ndim * sizeof(*a->stride));
}

static bool all_the_same(const struct view *views, uint32_t count)
{
	for (uint32_t i = 1; i < count; i++)
		if (!same_view(&views[0], &views[i]))
			return false;
	return true;
}

/* ---- new storages ---- */

static struct ckpt_storage *new_storage(struct compactor *c, uint32_t like, uint64_t nbytes,
					uint32_t *index)
{
	struct ckpt_model *to = c->to;
	const char *key = ckpt_model_new_key(to, 'v');
	struct ckpt_storage *s = key ? ckpt_model_add_storage(to) : NULL;

	if (!s)
		return NULL;
	*index = to->storage_count - 1;
	*s = to->storages[like];
	s->key = key;
	s->nbytes = nbytes;
	s->numel = nbytes / ckpt_dtype_size(s->dtype);
	s->record = NULL;
	s->has_crc = false;
	return s;
}

/* Does dimension A belong outside of B? 1: yes, -1: no, 0: it cannot be told. */
static int is_outside(const struct view *view, uint32_t a, uint32_t b)
{
	if (!view->stride[a] || !view->stride[b])
		return 0;
	if (view->stride[a] != view->stride[b])
		return view->stride[a] < view->stride[b] ? -1 : 1;
	return view->shape[a] > view->shape[b];
}

/*
 * The dimensions that Tensor.clone() gives a tensor with gaps, the outermost first: an insertion
 * sort in which some pairs cannot be compared. Source: infer_dense_strides() in
 * aten/src/ATen/ExpandUtils.cpp, seen in results.
 */
static void dense_order(const struct view *view, uint32_t order[CKPT_GATHER_MOST_DIMS])
{
	uint32_t inner[CKPT_GATHER_MOST_DIMS]; /* the innermost first */

	for (uint32_t i = 0; i < view->ndim; i++)
		inner[i] = view->ndim - 1 - i;
	for (uint32_t i = 1; i < view->ndim; i++) {
		for (uint32_t at = i, k = i; k-- > 0;) {
			int outside = is_outside(view, inner[k], inner[at]);

			if (outside < 0)
				break;
			if (outside > 0) {
				uint32_t swapped = inner[k];

				inner[k] = inner[at];
				inner[at] = swapped;
				at = k;
			}
		}
	}
	for (uint32_t i = 0; i < view->ndim; i++)
		order[i] = inner[view->ndim - 1 - i];
}

/* The recipe for a view with gaps, and the strides that it has afterwards. */
static struct ckpt_recipe *make_gather(struct compactor *c, const struct view *view,
				       const struct ckpt_recipe *inner, uint64_t *stride)
{
	struct ckpt_gather *g = ckpt_arena_calloc(c->to->arena, 1, sizeof(*g));
	struct ckpt_recipe *made = ckpt_arena_calloc(c->to->arena, 1, sizeof(*made));
	uint32_t order[CKPT_GATHER_MOST_DIMS];
	uint64_t dense = 1;

	if (!g || !made)
		return NULL;
	dense_order(view, order);
	*g = (struct ckpt_gather){ .inner = *inner,
				   .itemsize = view->itemsize,
				   .ndim = view->ndim,
				   .offset = view->offset };
	for (uint32_t i = 0; i < view->ndim; i++) {
		g->shape[i] = view->shape[order[i]];
		g->stride[i] = view->stride[order[i]];
	}
	for (uint32_t i = view->ndim; i-- > 0; dense *= view->shape[order[i]])
		stride[order[i]] = dense;
	*made = ckpt_gather_recipe(g);
	return made;
}

/* ---- new arguments ---- */

static const struct ckpt_value *new_persid(struct compactor *c, const struct ckpt_value *old,
					   uint32_t storage)
{
	struct ckpt_value *v = ckpt_model_new_value(c->to, CKPT_PERSID);

	if (v) {
		v->u.persid = old->u.persid;
		v->u.persid.meaning = (uint64_t)storage + 1;
	}
	return v;
}

static const struct ckpt_value *new_int(struct compactor *c, uint64_t integer)
{
	struct ckpt_value *v = ckpt_model_new_value(c->to, CKPT_INT);

	if (v) {
		v->id = 0;
		v->u.integer = (int64_t)integer;
	}
	return v;
}

static const struct ckpt_value *new_ints(struct compactor *c, const uint64_t *integers,
					 uint32_t count)
{
	struct ckpt_value *v = ckpt_model_new_value(c->to, CKPT_TUPLE);

	for (uint32_t i = 0; v && i < count; i++) {
		const struct ckpt_value *item = new_int(c, integers[i]);

		if (!item || !ckpt_seq_add(c->to->arena, &v->u.seq, item))
			return NULL;
	}
	return v;
}

/* Let VIEW be OFFSET items into STORAGE; STRIDE: NULL if they stay. */
static int replace_args(struct compactor *c, const struct view *view, uint32_t storage,
			uint64_t offset, const uint64_t *stride, struct ckpt_error *err)
{
	struct ckpt_value *copy = ckpt_arena_alloc(c->to->arena, sizeof(*copy));
	const struct ckpt_value **items;

	if (!copy)
		return ckpt_arena_fail(c->to->arena, err);
	*copy = *view->args;
	copy->u.seq = (struct ckpt_seq){ 0 };
	if (!ckpt_seq_add_many(c->to->arena, &copy->u.seq, view->args->u.seq.items,
			       view->args->u.seq.count))
		return ckpt_arena_fail(c->to->arena, err);
	items = copy->u.seq.items;
	items[0] = new_persid(c, ckpt_model_now(c->from, items[0]), storage);
	items[1] = new_int(c, offset);
	if (stride)
		items[3] = new_ints(c, stride, view->ndim);
	if (!items[0] || !items[1] || !items[3])
		return ckpt_arena_fail(c->to->arena, err);
	c->report.tensors_compacted++;
	return ckpt_model_replace(c->to, copy, err);
}

/* ---- one group ---- */

/* VIEWS have items in [FIRST, END) of their storage, and no other has. */
static int compact_group(struct compactor *c, const struct view *views, uint32_t count,
			 uint64_t first, uint64_t end, struct ckpt_error *err)
{
	const struct ckpt_storage *old = &c->to->storages[views->storage];
	bool gaps = all_the_same(views, count) && views->numel < end - first && views->packed == 1;
	uint64_t nbytes = (gaps ? views->numel : end - first) * views->itemsize;
	uint64_t *stride = NULL;
	struct ckpt_recipe inner, *made;
	struct ckpt_storage *s;
	uint32_t storage;
	int rc;

	if (nbytes == old->nbytes)
		return 0;
	rc = ckpt_model_storage_bytes(c->from, old, &inner, err);
	if (rc == 0 && old->made && !ckpt_recipe_is_random(&inner))
		return ckpt_fail(
			err, CKPT_E_UNSUPPORTED,
			"numbers that are being cast cannot be taken apart; compact first");
	if (rc < 0 || !ckpt_recipe_is_random(&inner)) {
		c->report.tensors_left += rc == 0 ? count : 0;
		return rc;
	}
	if (gaps) {
		stride = ckpt_arena_calloc(c->to->arena, views->ndim + 1, sizeof(*stride));
		made = stride ? make_gather(c, views, &inner, stride) : NULL;
	} else {
		made = ckpt_arena_calloc(c->to->arena, 1, sizeof(*made));
		if (made)
			/* one without items may begin anywhere, even behind the end */
			*made = ckpt_recipe_part(&inner, nbytes ? first * views->itemsize : 0,
						 nbytes);
	}
	s = made ? new_storage(c, views->storage, nbytes, &storage) : NULL;
	if (!s)
		return ckpt_fail_nomem(err);
	s->made = made;
	c->report.storages_made++;
	for (uint32_t i = 0; rc == 0 && i < count; i++)
		rc = replace_args(c, &views[i], storage, gaps ? 0 : views[i].offset - first, stride,
				  err);
	return rc;
}

/* VIEWS are all those of one storage, by their first item. */
static int compact_storage(struct compactor *c, const struct view *views, uint32_t count,
			   struct ckpt_error *err)
{
	uint32_t i = 0, end;
	int rc = 0;

	for (; rc == 0 && i < count; i = end) {
		uint64_t behind = views[i].end;

		for (end = i + 1;
		     end < count && (views[end].offset < behind ||
				     (behind == views[i].offset && views[end].offset == behind));
		     end++)
			if (views[end].end > behind)
				behind = views[end].end;
		rc = compact_group(c, views + i, end - i, views[i].offset, behind, err);
	}
	return rc;
}

static bool can_be_compacted(const struct compactor *c, const struct view *views, uint32_t count)
{
	if (c->persids[views->storage] > c->uses[views->storage])
		return false; /* the storage itself is mentioned, too */
	for (uint32_t i = 0; i < count; i++)
		if (views[i].packed > 1 || views[i].itemsize != views->itemsize)
			return false;
	return true;
}

static int compact_all(struct compactor *c, struct ckpt_error *err)
{
	int rc = ckpt_model_own_storages(c->to, err);

	if (c->count)
		qsort(c->views, c->count, sizeof(*c->views), by_place);
	for (uint32_t i = 0, end; rc == 0 && i < c->count; i = end) {
		for (end = i; end < c->count && c->views[end].storage == c->views[i].storage; end++)
			;
		if (can_be_compacted(c, c->views + i, end - i))
			rc = compact_storage(c, c->views + i, end - i, err);
	}
	return rc;
}

struct byte_count {
	const struct ckpt_model *model;
	bool *seen; /* by storage */
	uint64_t nbytes;
};

static int count_bytes(void *ctx, const struct ckpt_walk_step *step, struct ckpt_error *err)
{
	struct byte_count *b = ctx;
	int64_t i = step->value->kind == CKPT_PERSID ? ckpt_storage_of(step->value) : -1;

	(void)err;
	if (i >= 0 && !b->seen[i]) {
		b->seen[i] = true;
		b->nbytes += b->model->storages[i].nbytes;
	}
	return CKPT_WALK_ENTER;
}

/* Bytes of all storages in use. */
static int used_bytes(const struct ckpt_model *model, uint64_t *out, struct ckpt_error *err)
{
	struct byte_count b = { .model = model };
	int rc;

	b.seen = calloc(model->storage_count + (size_t)1, sizeof(*b.seen));
	rc = b.seen ? ckpt_model_walk(model, count_bytes, &b, err) : ckpt_fail_nomem(err);
	free(b.seen);
	*out = b.nbytes;
	return rc;
}

int ckpt_compact(const struct ckpt_model *model, struct ckpt_model **out,
		 struct ckpt_edit_report *report, struct ckpt_error *err)
{
	int rc = ckpt_model_whole(&model, err);
	struct compactor c = { .from = model, .report = CKPT_EDIT_REPORT_INIT };

	if (rc == 0)
		rc = ckpt_sized_check(report, sizeof(c.report), err);
	*out = NULL;
	c.persids = calloc(model->storage_count + (size_t)1, sizeof(*c.persids));
	c.uses = calloc(model->storage_count + (size_t)1, sizeof(*c.uses));
	if (rc == 0 && (!c.persids || !c.uses))
		rc = ckpt_fail_nomem(err);
	if (rc == 0)
		rc = ckpt_model_derive(model, &c.to, err);
	if (rc == 0)
		rc = ckpt_model_walk(model, visit_value, &c, err);
	if (rc == 0)
		rc = compact_all(&c, err);
	if (rc == 0)
		rc = used_bytes(model, &c.report.compacted_nbytes_before, err);
	if (rc == 0)
		rc = used_bytes(c.to, &c.report.compacted_nbytes_after, err);
	free(c.persids);
	free(c.uses);
	free(c.views);
	if (rc < 0) {
		ckpt_close(c.to);
		return rc;
	}
	ckpt_sized_give(report, &c.report, sizeof(c.report));
	*out = c.to;
	return 0;
}

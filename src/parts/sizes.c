/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Bytes and elements, counted once. Only tensors that are not alone in their storage are sorted, by the
 * bytes that they show: two that show the same are one with two names, whatever their shapes.
 *
 * What nobody shows is what `ckpt compact` would drop: of a tensor alone in its storage all but its
 * items, else what is in front of, between and behind the tensors.
 */
#include "base/error.h"
#include "model/describe.h"
#include "parts/parts.h"

#include <stdlib.h>

struct ckpt_parts_view {
	uint64_t begin, end, nbytes; /* in the storage; of its items */
	uint32_t storage, tensor;
};

static const uint32_t NOT_COUNTED = UINT32_MAX;

static bool is_plain(const struct ckpt_tensor *t)
{
	return t->storage >= 0 && t->stride &&
	       (t->kind == CKPT_KIND_STRIDED || t->kind == CKPT_KIND_QUANTIZED);
}

/* Bytes of NDIM items that lie in the storage; what is too much to be counted is all. */
static struct ckpt_parts_view view_of(const struct ckpt_model *model, uint32_t i)
{
	const struct ckpt_tensor *t = &model->tensors[i];
	struct ckpt_tensor_info info;
	uint64_t items = 1, all = model->storages[t->storage].nbytes, begin, end;
	bool bad = false;

	ckpt_tensor_describe(model, t, &info);
	for (uint32_t k = 0; k < t->ndim && info.numel; k++) {
		uint64_t far;

		bad |= __builtin_mul_overflow(t->shape[k] - 1, t->stride[k], &far);
		bad |= __builtin_add_overflow(items, far, &items);
	}
	bad |= __builtin_mul_overflow(info.numel ? items : 0, (uint64_t)info.itemsize, &items);
	bad |= __builtin_mul_overflow(t->offset, (uint64_t)info.itemsize, &begin);
	bad |= __builtin_add_overflow(begin, items, &end);
	/* several of a packed dtype are in one byte */
	if (bad || end > all || ckpt_dtype_packed(t->dtype) > 1)
		return (struct ckpt_parts_view){ 0, all, all, (uint32_t)t->storage, i };
	return (struct ckpt_parts_view){ begin, end, info.nbytes < items ? info.nbytes : items,
					 (uint32_t)t->storage, i };
}

/* Tensors in each storage; NOT_COUNTED: one that is a part of another, or has such parts. NULL: no memory. */
static uint32_t *count_users(const struct ckpt_parts *p)
{
	const struct ckpt_model *model = p->model;
	uint32_t *users = calloc(model->storage_count + (size_t)1, sizeof(*users));

	for (uint32_t i = 0; users && i < p->tensor_count; i++)
		if (is_plain(&model->tensors[i]))
			users[model->tensors[i].storage]++;
	for (uint32_t i = 0; users && i < model->storage_count; i++)
		if (model->storages[i].view) /* files of torch before 0.4 */
			users[i] = users[model->storages[i].view->root] = NOT_COUNTED;
	return users;
}

static int by_place(const void *a, const void *b)
{
	const struct ckpt_parts_view *x = a, *y = b;

	if (x->storage != y->storage)
		return x->storage < y->storage ? -1 : 1;
	if (x->begin != y->begin)
		return x->begin < y->begin ? -1 : 1;
	if (x->end != y->end)
		return x->end < y->end ? -1 : 1;
	if (x->nbytes != y->nbytes)
		return x->nbytes < y->nbytes ? -1 : 1;
	return x->tensor < y->tensor ? -1 : x->tensor > y->tensor;
}

static bool is_same(const struct ckpt_parts_view *a, const struct ckpt_parts_view *b)
{
	return a->storage == b->storage && a->begin == b->begin && a->end == b->end &&
	       a->nbytes == b->nbytes;
}

static void note_unseen(struct ckpt_parts *p, const struct ckpt_parts_view *view, uint64_t seen, uint32_t tensors)
{
	uint64_t all = p->model->storages[view->storage].nbytes;

	if (seen >= all)
		return;
	p->unseen = ckpt_parts_add(p->unseen, all - seen);
	p->partial += tensors;
	if (all - seen > p->most_unseen) {
		p->most_unseen = all - seen;
		p->most_unseen_at = view->tensor;
	}
}

/* The views of one storage, COUNT of them, sorted. */
static void add_up_storage(struct ckpt_parts *p, const struct ckpt_parts_view *views,
			   uint32_t count)
{
	uint64_t seen = 0, to = 0;
	bool one = true;

	for (uint32_t i = 0; i < count; i++) {
		uint64_t from = views[i].begin > to ? views[i].begin : to;

		one &= is_same(&views[0], &views[i]);
		if (views[i].end > from)
			seen += views[i].end - from;
		if (views[i].end > to)
			to = views[i].end;
	}
	note_unseen(p, views, one ? views->nbytes : seen, count);
}

/* Of tensors that are the same one: the first that no optimizer refers to counts, and all are parameters if one is. */
static void join_names(struct ckpt_parts *p, const struct ckpt_parts_view *views, uint32_t count)
{
	uint32_t first = views[0].tensor;
	bool is_parameter = false;

	for (uint32_t i = 0; i < count; i++) {
		const struct ckpt_parts_tensor *t = &p->tensors[views[i].tensor];

		is_parameter |= t->is_parameter;
		if (p->tensors[first].part == CKPT_PART_OPTIMIZER && t->part != CKPT_PART_OPTIMIZER)
			first = views[i].tensor;
	}
	for (uint32_t i = 0; i < count; i++) {
		p->tensors[views[i].tensor].is_parameter = is_parameter;
		p->tensors[views[i].tensor].counted = first;
	}
}

/* Call DO for each row of views that HOLDS_TOGETHER. */
static void each_row(struct ckpt_parts *p,
		     bool (*hold_together)(const struct ckpt_parts_view *,
					   const struct ckpt_parts_view *),
		     void (*act)(struct ckpt_parts *, const struct ckpt_parts_view *, uint32_t))
{
	for (uint32_t i = 0, n; i < p->shared_count; i += n) {
		n = 1;
		while (i + n < p->shared_count && hold_together(&p->shared[i], &p->shared[i + n]))
			n++;
		act(p, &p->shared[i], n);
	}
}

static bool is_of_storage(const struct ckpt_parts_view *a, const struct ckpt_parts_view *b)
{
	return a->storage == b->storage;
}

int ckpt_parts_find_shared(struct ckpt_parts *p, struct ckpt_error *err)
{
	const struct ckpt_model *model = p->model;
	uint32_t *users = count_users(p), count = 0;

	if (!users)
		return ckpt_fail_nomem(err);
	for (uint32_t i = 0; i < p->tensor_count; i++)
		count += is_plain(&model->tensors[i]) && users[model->tensors[i].storage] > 1 &&
			 users[model->tensors[i].storage] != NOT_COUNTED;
	p->shared = malloc((count + (size_t)1) * sizeof(*p->shared));
	if (!p->shared) {
		free(users);
		return ckpt_fail_nomem(err);
	}
	for (uint32_t i = 0; i < p->tensor_count; i++) {
		const struct ckpt_tensor *t = &model->tensors[i];
		struct ckpt_parts_view view;

		p->tensors[i].counted = i;
		if (!is_plain(t) || users[t->storage] == NOT_COUNTED)
			continue;
		view = view_of(model, i);
		if (users[t->storage] > 1)
			p->shared[p->shared_count++] = view;
		else
			note_unseen(p, &view, view.nbytes, 1);
	}
	free(users);
	qsort(p->shared, p->shared_count, sizeof(*p->shared), by_place);
	each_row(p, is_of_storage, add_up_storage);
	each_row(p, is_same, join_names);
	return 0;
}

/* Where the names are of different kinds: a parameter, then a buffer, and so on. */
static void choose_name(struct ckpt_parts *p, const struct ckpt_parts_view *views, uint32_t count)
{
	uint32_t first = views[0].tensor;

	for (uint32_t i = 1; i < count; i++)
		if (p->tensors[views[i].tensor].part < p->tensors[first].part)
			first = views[i].tensor;
	for (uint32_t i = 0; i < count; i++)
		p->tensors[views[i].tensor].counted = first;
}

void ckpt_parts_add_up(struct ckpt_parts *p)
{
	each_row(p, is_same, choose_name);
	for (uint32_t i = 0; i < p->tensor_count; i++) {
		const struct ckpt_parts_tensor *t = &p->tensors[i];
		struct ckpt_part_size *size = &p->sizes[t->part];
		struct ckpt_parts_place *place = &p->places[t->place];
		struct ckpt_tensor_info info;

		if (t->counted != i)
			continue;
		ckpt_tensor_describe(p->model, &p->model->tensors[i], &info);
		size->tensors++;
		size->elements = ckpt_parts_add(size->elements, info.numel);
		size->nbytes = ckpt_parts_add(size->nbytes, info.nbytes);
		place->tensors++;
		place->elements = ckpt_parts_add(place->elements, info.numel);
		place->nbytes = ckpt_parts_add(place->nbytes, info.nbytes);
	}
}

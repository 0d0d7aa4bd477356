/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tensors that have bytes in common. The format cannot express that: depending on the option
 * they are refused, written several times, or, if they are identical, written once, with the
 * other names in the metadata.
 *
 * What must stay true: which name is written and which are aliases depends on the names alone,
 * not on the order of the dict, as in save_model() of the package; bytes that differ are never
 * taken for the same: tensors are compared by place, shape and strides.
 */
#include "format/safetensors_write.h"

#include "base/text.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_COMPARED = 64 }; /* in larger groups each tensor is compared with the first one alone */

struct place {
	struct ckpt_safetensors_item *item;
	int64_t storage;
	uint64_t first, end; /* bytes in it: of the first item, after the last item */
};

struct sharer {
	const struct ckpt_model *model;
	enum ckpt_shared shared;
	struct ckpt_safetensors_list *list;
	struct place *places;
	uint32_t count;
	const struct place *a, *b; /* two that share */
};

/* False: it has no bytes. */
static bool find_place(const struct ckpt_model *model, struct ckpt_safetensors_item *item,
		       struct place *out)
{
	const struct ckpt_tensor *t = &item->t;
	uint64_t size = ckpt_dtype_size(t->dtype), last = t->offset;
	const struct ckpt_storage *s;

	if (!item->nbytes || t->storage < 0 || !t->stride)
		return false;
	for (uint32_t i = 0; i < t->ndim; i++) /* inside of the storage, as was checked */
		last += (t->shape[i] - 1) * t->stride[i];
	*out = (struct place){ item, t->storage, t->offset * size, (last + 1) * size };
	s = &model->storages[t->storage];
	if (s->view) {
		uint64_t off = s->view->offset * ckpt_dtype_size(s->dtype);

		out->storage = s->view->root;
		out->first += off;
		out->end += off;
	}
	return true;
}

static int by_place(const void *a, const void *b)
{
	const struct place *x = a, *y = b;

	if (x->storage != y->storage)
		return x->storage < y->storage ? -1 : 1;
	if (x->first != y->first)
		return x->first < y->first ? -1 : 1;
	return x->item->order < y->item->order ? -1 : 1;
}

static int by_name(const void *a, const void *b)
{
	const struct ckpt_safetensors_item *x = ((const struct place *)a)->item,
					   *y = ((const struct place *)b)->item;
	uint32_t len = x->name_len < y->name_len ? x->name_len : y->name_len;
	int order = memcmp(x->name, y->name, len);

	return order ? order : (x->name_len > y->name_len) - (x->name_len < y->name_len);
}

static bool is_same(const struct place *a, const struct place *b)
{
	const struct ckpt_tensor *x = &a->item->t, *y = &b->item->t;

	if (a->first != b->first || x->dtype != y->dtype || x->ndim != y->ndim ||
	    x->is_conj != y->is_conj || x->is_neg != y->is_neg)
		return false;
	for (uint32_t i = 0; i < x->ndim; i++)
		if (x->shape[i] != y->shape[i] || (x->shape[i] > 1 && x->stride[i] != y->stride[i]))
			return false;
	return true;
}

/*
 * Bytes that T reaches over within a row of STEP items, if its other steps are whole rows; 0:
 * they are not.
 */
static uint64_t reach_in_row(const struct ckpt_tensor *t, uint64_t step)
{
	uint64_t last = 0;

	for (uint32_t i = 0; i < t->ndim; i++)
		if (t->shape[i] > 1 && t->stride[i] % step)
			last += (t->shape[i] - 1) * t->stride[i];
	return t->offset % step + last < step ? last + 1 : 0;
}

/* Columns of one matrix lie between each other, and have nothing in common. */
static bool are_apart(const struct place *a, const struct place *b)
{
	const struct ckpt_tensor *x = &a->item->t, *y = &b->item->t;

	if (a->end <= b->first || b->end <= a->first)
		return true;
	if (x->dtype != y->dtype || x->storage != y->storage)
		return false;
	for (uint32_t i = 0; i < x->ndim; i++) {
		uint64_t step = x->stride[i], here, there;

		if (x->shape[i] < 2 || step < 2)
			continue;
		here = reach_in_row(x, step);
		there = reach_in_row(y, step);
		if (here && there &&
		    (x->offset % step + here <= y->offset % step ||
		     y->offset % step + there <= x->offset % step))
			return true;
	}
	return false;
}

static int fail_shared(const struct sharer *s, const char *what, struct ckpt_error *err)
{
	char a[100], b[100];

	return ckpt_fail(err, CKPT_E_UNSUPPORTED, "'%s' and '%s' %s",
			 ckpt_escape(a, sizeof(a), s->a->item->name, s->a->item->name_len),
			 ckpt_escape(b, sizeof(b), s->b->item->name, s->b->item->name_len), what);
}

/* PLACES, sorted by name, of which each reaches into another one: what becomes of the one at AT. */
static int resolve_place(struct sharer *s, struct place *places, uint32_t count, uint32_t at,
			 struct ckpt_error *err)
{
	uint32_t others = count > MOST_COMPARED ? 1 : at;
	const struct place *same = NULL, *other = NULL;

	for (uint32_t i = 0; i < others && !same; i++) {
		if (is_same(&places[i], &places[at]))
			same = &places[i];
		else if (!other && (count > MOST_COMPARED || !are_apart(&places[i], &places[at])))
			other = &places[i];
	}
	if (!same && !other)
		return 0;
	s->a = same ? same : other;
	s->b = &places[at];
	switch (s->shared) {
	case CKPT_SHARED_CLONE: s->list->cloned++; return 0;
	case CKPT_SHARED_ALIAS:
		if (!same)
			return ckpt_error_because(
				err,
				fail_shared(s,
					    "share bytes, and are not the same: there is no name "
					    "for that",
					    err),
				CKPT_REASON_COMMON_BYTES);
		places[at].item->same = same->item->same ? same->item->same : same->item;
		s->list->aliased++;
		return 0;
	default:
		return ckpt_error_because(err, fail_shared(s, "share their bytes", err),
					  CKPT_REASON_SAME_BYTES);
	}
}

static int resolve_group(struct sharer *s, struct place *places, uint32_t count,
			 struct ckpt_error *err)
{
	int rc = 0;

	if (count < 2)
		return 0;
	qsort(places, count, sizeof(*places), by_name);
	for (uint32_t i = 1; rc == 0 && i < count; i++)
		rc = resolve_place(s, places, count, i, err);
	return rc;
}

static int resolve_all(struct sharer *s, struct ckpt_error *err)
{
	int rc = 0;

	if (s->count)
		qsort(s->places, s->count, sizeof(*s->places), by_place);
	for (uint32_t i = 0, next; rc == 0 && i < s->count; i = next) {
		uint64_t behind = s->places[i].end;

		for (next = i + 1;
		     next < s->count && s->places[next].storage == s->places[i].storage &&
		     s->places[next].first < behind;
		     next++)
			if (s->places[next].end > behind)
				behind = s->places[next].end;
		rc = resolve_group(s, s->places + i, next - i, err);
	}
	return rc;
}

int ckpt_safetensors_list_share(const struct ckpt_model *model, enum ckpt_shared shared,
				struct ckpt_safetensors_list *list, struct ckpt_error *err)
{
	const struct ckpt_safetensors *st = ckpt_safetensors_of(model);
	struct sharer s = { .model = model, .shared = shared, .list = list };
	int rc;

	if (shared == CKPT_SHARED_DEFAULT)
		s.shared = st && st->alias_count ? CKPT_SHARED_ALIAS : CKPT_SHARED_ERROR;
	s.places = malloc((list->count + (size_t)1) * sizeof(*s.places));
	if (!s.places)
		return ckpt_fail_nomem(err);
	for (uint32_t i = 0; i < list->count; i++)
		s.count += find_place(model, &list->items[i], &s.places[s.count]);
	rc = resolve_all(&s, err);
	free(s.places);
	return rc;
}

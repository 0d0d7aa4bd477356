/* SPDX-License-Identifier: Apache-2.0 */
#include "model/kept.h"

#include "base/grow.h"
#include "tensor/shape.h"

#include <stdlib.h>

static struct ckpt_kept_tensor place_of(const struct ckpt_tensor *t)
{
	return (struct ckpt_kept_tensor){ .storage = (uint32_t)t->storage,
					  .offset = t->offset,
					  .numel = ckpt_shape_count(t->shape, t->ndim),
					  .dtype = t->dtype };
}

int ckpt_kept_add(struct ckpt_kept *kept, const struct ckpt_tensor *t, struct ckpt_error *err)
{
	void *grown = ckpt_grow(kept->tensors, kept->count, &kept->cap, sizeof(*kept->tensors));

	if (!grown)
		return ckpt_fail_nomem(err);
	kept->tensors = grown;
	kept->tensors[kept->count++] = place_of(t);
	return 0;
}

static int by_place(const void *a, const void *b)
{
	const struct ckpt_kept_tensor *x = a, *y = b;

	if (x->storage != y->storage)
		return x->storage < y->storage ? -1 : 1;
	if (x->offset != y->offset)
		return x->offset < y->offset ? -1 : 1;
	if (x->numel != y->numel)
		return x->numel < y->numel ? -1 : 1;
	return (int)x->dtype - (int)y->dtype;
}

void ckpt_kept_sort(struct ckpt_kept *kept)
{
	if (kept->count)
		qsort(kept->tensors, kept->count, sizeof(*kept->tensors), by_place);
}

bool ckpt_kept_has(const struct ckpt_kept *kept, const struct ckpt_tensor *t)
{
	struct ckpt_kept_tensor place;

	if (!kept->count || t->storage < 0)
		return false;
	place = place_of(t);
	return bsearch(&place, kept->tensors, kept->count, sizeof(place), by_place) != NULL;
}

void ckpt_kept_clear(struct ckpt_kept *kept)
{
	free(kept->tensors);
	*kept = (struct ckpt_kept){ 0 };
}

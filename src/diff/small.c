/* SPDX-License-Identifier: Apache-2.0 */
#include "diff/small.h"

#include "tensor/items.h"
#include "tensor/shape.h"

#include <string.h>

enum {
	MOST = 4 << 10,	   /* bytes of one tensor */
	WINDOW = 16 << 10, /* more would be in vain where small tensors lie far apart */
};

static bool is_plain(const struct ckpt_entry *e)
{
	const struct ckpt_tensor *t = e->t;

	return e->kind == CKPT_ENTRY_TENSOR && t->kind == CKPT_KIND_STRIDED && t->storage >= 0 &&
	       t->stride && !t->is_neg && !t->is_conj;
}

static bool same_shape(const struct ckpt_tensor *a, const struct ckpt_tensor *b)
{
	return a->ndim == b->ndim &&
	       (!a->ndim || !memcmp(a->shape, b->shape, a->ndim * sizeof(*a->shape)));
}

static bool is_small(const struct ckpt_tensor *t)
{
	uint32_t size = ckpt_dtype_size(t->dtype);

	return size && ckpt_shape_numel(t->shape, t->ndim) <= MOST / size;
}

/* Where the numbers of T lie; false if that is not one stretch of a file. */
static bool find_bytes(const struct ckpt_model *model, const struct ckpt_tensor *t,
		       struct ckpt_recipe *out)
{
	struct ckpt_items items;
	const struct ckpt_recipe *bytes = &items.bytes;

	items = (struct ckpt_items){ .itemsize = ckpt_dtype_size(t->dtype),
				     .ndim = t->ndim,
				     .offset = t->offset,
				     .shape = t->shape,
				     .stride = t->stride };
	if (model->doc->big_endian ||
	    ckpt_model_storage_bytes(model, &model->storages[t->storage], &items.bytes, NULL) < 0 ||
	    bytes->kind != CKPT_RECIPE_EXTENT || ckpt_source_is_sequential(bytes->src) ||
	    ckpt_items_check(&items, NULL) < 0 || !ckpt_items_are_dense(&items))
		return false;
	*out = ckpt_recipe_part(bytes, items.offset * items.itemsize, items.numel * items.itemsize);
	return true;
}

static bool read_bytes(struct ckpt_window *w, const struct ckpt_recipe *where, uint8_t *out)
{
	const uint8_t *bytes;

	if (w->src != where->src) { /* a directory has tensors in many files */
		ckpt_window_clear(w);
		if (ckpt_window_init(w, where->src, WINDOW, NULL) < 0)
			return false;
	}
	if (ckpt_window_read(w, where->off, (size_t)where->len, &bytes, NULL) < 0)
		return false;
	memcpy(out, bytes, where->len);
	return true;
}

bool ckpt_small_pair_read(struct ckpt_small_pairs *small, const struct ckpt_comparison *c,
			  const struct ckpt_pair *pair, struct ckpt_measure *measure,
			  struct ckpt_numbers *numbers)
{
	_Alignas(max_align_t) uint8_t a[MOST], b[MOST];
	const struct ckpt_tensor *ta = pair->a->t, *tb = pair->b->t;
	struct ckpt_recipe of_a, of_b;

	if (!is_plain(pair->a) || !is_plain(pair->b) || !same_shape(ta, tb) || !is_small(ta) ||
	    !is_small(tb) ||
	    !ckpt_measure_init(measure, ta->dtype, tb->dtype, c->options.atol, c->options.rtol) ||
	    !find_bytes(c->a.model, ta, &of_a) || !find_bytes(c->b.model, tb, &of_b) ||
	    !read_bytes(&small->a, &of_a, a) || !read_bytes(&small->b, &of_b, b))
		return false;
	ckpt_measure_items(measure, a, b, of_a.len / measure->a_size, numbers);
	return true;
}

void ckpt_small_pairs_clear(struct ckpt_small_pairs *small)
{
	ckpt_window_clear(&small->a);
	ckpt_window_clear(&small->b);
}

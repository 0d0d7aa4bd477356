/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CKPT_TENSOR_ITEMS_H
#define CKPT_TENSOR_ITEMS_H

#include "tensor/recipe.h"
#include "tensor/span.h"

enum { CKPT_ITEMS_MOST_DIMS = 64 };

/*
 * The items of a strided view of BYTES, to be read in C order from any one on. Lengths and strides
 * in items.
 */
struct ckpt_items {
	struct ckpt_recipe bytes;
	uint32_t itemsize, ndim; /* itemsize: at most 16 */
	uint64_t offset, numel;
	const uint64_t *shape, *stride;
	uint64_t reversed; /* bit I: dimension I runs from its last item to its first */
};

/*
 * CKPT_E_FORMAT if an item lies outside of BYTES, or there are more than can be counted. Sets
 * NUMEL.
 */
int ckpt_items_check(struct ckpt_items *items, struct ckpt_error *err);

/* Do all items lie one behind the other, in C order? */
bool ckpt_items_are_dense(const struct ckpt_items *items);

/* For one thread. The stream of bytes stays open until ckpt_items_close(). */
struct ckpt_items_reader {
	const struct ckpt_items *items;
	struct ckpt_stream *stream;
	uint64_t pos; /* of STREAM */
	struct ckpt_span span;
};

void ckpt_items_open(const struct ckpt_items *items, struct ckpt_items_reader *reader);
void ckpt_items_close(struct ckpt_items_reader *reader);

/*
 * Read COUNT items from FIRST on, which must exist. If the bytes come front to back only, going back
 * reads them again from the beginning.
 */
int ckpt_items_read(struct ckpt_items_reader *reader, uint64_t first, uint64_t count, void *buf,
		    struct ckpt_error *err);

/*
 * The items in C order: as they lie where they are dense. Borrows ITEMS, which has to live as long
 * as the recipe.
 */
struct ckpt_recipe ckpt_items_recipe(const struct ckpt_items *items);

#endif

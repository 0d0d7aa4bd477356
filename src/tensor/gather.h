/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CKPT_TENSOR_GATHER_H
#define CKPT_TENSOR_GATHER_H

#include "tensor/recipe.h"

enum { CKPT_GATHER_MOST_DIMS = 64 };

/*
 * The items of a strided view of INNER, one behind the other, the last dimension fastest. Lengths
 * and strides in items of ITEMSIZE bytes; OFFSET is the first of them.
 */
struct ckpt_gather {
	struct ckpt_recipe inner;
	uint32_t itemsize, ndim;
	uint64_t offset;
	uint64_t shape[CKPT_GATHER_MOST_DIMS], stride[CKPT_GATHER_MOST_DIMS];
};

/* Borrows GATHER, whose INNER must be random, and which has to live as long as the recipe. */
struct ckpt_recipe ckpt_gather_recipe(const struct ckpt_gather *gather);

#endif

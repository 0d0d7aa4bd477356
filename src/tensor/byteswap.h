/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CKPT_TENSOR_BYTESWAP_H
#define CKPT_TENSOR_BYTESWAP_H

#include "tensor/dtype.h"
#include "tensor/recipe.h"

/*
 * The bytes of INNER with every number of WIDTH bytes (1, 2, 4 or 8) turned around, as torch.load
 * does with a file of the other byte order. A remainder that is no whole number stays as it is.
 */
struct ckpt_byteswap {
	struct ckpt_recipe inner;
	uint32_t width;
};

/* Borrows SWAP, which has to live as long as the recipe. */
struct ckpt_recipe ckpt_byteswap_recipe(const struct ckpt_byteswap *swap);

/* How wide the numbers are that a dtype consists of: a complex one has two. */
uint32_t ckpt_byteswap_width(enum ckpt_dtype dtype);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CKPT_TENSOR_FILL_H
#define CKPT_TENSOR_FILL_H

#include "tensor/dtype.h"
#include "tensor/recipe.h"

/* One number again and again, for bytes that are lost. */
struct ckpt_fill {
	uint8_t number[16];
	uint32_t size; /* of the number */
	uint64_t len;  /* in bytes, of all */
};

/* LEN zeros. */
struct ckpt_fill ckpt_fill_zeros(uint64_t len);

/*
 * LEN bytes of NaN, turned around if SWAPPED. False: numbers of DTYPE are never NaN, OUT is zeros.
 */
bool ckpt_fill_nan(enum ckpt_dtype dtype, bool swapped, uint64_t len, struct ckpt_fill *out);

/* Borrows FILL, which has to live as long as the recipe. */
struct ckpt_recipe ckpt_fill_recipe(const struct ckpt_fill *fill);

#endif

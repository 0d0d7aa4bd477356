/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CKPT_TENSOR_NEGATE_H
#define CKPT_TENSOR_NEGATE_H

#include "tensor/dtype.h"
#include "tensor/recipe.h"

#include <stdbool.h>

/*
 * The bytes of INNER, little-endian numbers of WIDTH bytes, with signs turned: what torch stores of a
 * tensor with its negative or conjugate bit set are the values before that.
 */
struct ckpt_negate {
	struct ckpt_recipe inner;
	uint32_t width;
	bool even, odd; /* which numbers; of complex ones the odd are the imaginary parts */
};

/* For values of DTYPE with the one bit set, or the other, or both. */
struct ckpt_negate ckpt_negate_of(const struct ckpt_recipe *inner, enum ckpt_dtype dtype,
				  bool is_neg, bool is_conj);

/* Borrows NEGATE, which has to live as long as the recipe. */
struct ckpt_recipe ckpt_negate_recipe(const struct ckpt_negate *negate);

#endif

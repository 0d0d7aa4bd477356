/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CKPT_TENSOR_NEGATE_H
#define CKPT_TENSOR_NEGATE_H

#include "tensor/dtype.h"
#include "tensor/map.h"

#include <stdbool.h>

/*
 * For ckpt_map_recipe(): the bytes of MAP.inner, little-endian numbers, with signs turned (integers
 * as two's complement). Torch stores a tensor with its negative or conjugate bit set as it was
 * before the bit was set.
 */
struct ckpt_negate {
	struct ckpt_map map;
	bool even, odd; /* which numbers; of complex ones the odd are the imaginary parts */
};

/* For values of DTYPE with the one bit set, or the other, or both. */
struct ckpt_negate ckpt_negate_of(const struct ckpt_recipe *inner, enum ckpt_dtype dtype,
				  bool is_neg, bool is_conj);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CKPT_TENSOR_MEAN_KERNELS_H
#define CKPT_TENSOR_MEAN_KERNELS_H

#include "tensor/dtype.h"

#include <stddef.h>

/*
 * Inside of mean: what is worth SIMD. Each takes the first of COUNT numbers, as many as it can, and
 * returns how many that are: 0 where it knows no way for the dtype, or the processor none. Plain C
 * takes the rest, and gives the same bits. Pointers need no alignment.
 */
struct ckpt_mean_kernels {
	/* SUMS[k] = ZERO + WEIGHT * IN[k] */
	size_t (*begin)(enum ckpt_dtype dtype, const void *in, size_t count, double zero,
			double weight, double *sums);
	/* SUMS[k] = KEEP * SUMS[k] + WEIGHT * IN[k] */
	size_t (*add)(enum ckpt_dtype dtype, const void *in, size_t count, double keep,
		      double weight, double *sums);
	/* OUT[k] = SUMS[k] / DIVISOR, rounded once; NaN the positive quiet one */
	size_t (*finish)(enum ckpt_dtype dtype, const double *sums, size_t count, double divisor,
			 void *out);
};

/* The best for this processor; NULL: plain C. */
const struct ckpt_mean_kernels *ckpt_mean_best(void);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CKPT_TENSOR_SHAPE_H
#define CKPT_TENSOR_SHAPE_H

#include "base/error.h"

#include <stdbool.h>
#include <stdint.h>

/*
 * Can torch.empty() make a tensor of SHAPE, NDIM numbers, with items of ITEMSIZE bytes? Its bytes
 * and its strides have to fit, the strides of a tensor without items as well. Source:
 * empty_generic() and empty_tensor_restride() of c10, as 2.14 has them. Returns 0, or CKPT_E_FORMAT
 * with what is too large.
 */
int ckpt_shape_check(const uint64_t *shape, uint32_t ndim, uint32_t itemsize,
		     struct ckpt_error *err);

/* Has a tensor of SHAPE, NDIM numbers, no items? */
static inline bool ckpt_shape_is_empty(const uint64_t *shape, uint32_t ndim)
{
	for (uint32_t i = 0; i < ndim; i++)
		if (!shape[i])
			return true;
	return false;
}

/* Items of SHAPE, NDIM numbers, of any file; UINT64_MAX if they are too many to be counted. */
static inline uint64_t ckpt_shape_numel(const uint64_t *shape, uint32_t ndim)
{
	uint64_t n = 1;

	if (ckpt_shape_is_empty(shape, ndim))
		return 0;
	for (uint32_t i = 0; i < ndim; i++)
		if (__builtin_mul_overflow(n, shape[i], &n))
			return UINT64_MAX;
	return n;
}

/*
 * Sizes whose product every torch can count with: at most 2^58, so that the bytes of a copy have 63 bits. 1.7 multiplies without a
 * look, and makes no room for 2^64 bytes; where there is a zero it goes over the others all the same, so they are to be at most 2^40.
 */
static inline bool ckpt_shape_is_countable(const uint64_t *shape, uint32_t ndim)
{
	int64_t n = 1;

	for (uint32_t i = 0; i < ndim; i++)
		if (shape[i] && __builtin_mul_overflow(n, shape[i], &n))
			return false;
	return n <= INT64_C(1) << (ckpt_shape_is_empty(shape, ndim) ? 40 : 58);
}

/* Items of SHAPE, NDIM numbers, whose product the caller knows to fit. 1 if NDIM is 0. */
static inline uint64_t ckpt_shape_count(const uint64_t *shape, uint32_t ndim)
{
	uint64_t n = 1;

	for (uint32_t i = 0; i < ndim; i++)
		n *= shape[i];
	return n;
}

#endif

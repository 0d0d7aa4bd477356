/* SPDX-License-Identifier: Apache-2.0 */
#include "tensor/shape.h"

#include <stdbool.h>

/*
 * As torch multiplies, from left to right: behind a dimension without items nothing is too large.
 */
static bool bytes_fit(const uint64_t *shape, uint32_t ndim, uint32_t itemsize)
{
	uint64_t n = 1;

	for (uint32_t i = 0; i < ndim; i++)
		if (__builtin_mul_overflow(n, shape[i], &n))
			return false;
	return !__builtin_mul_overflow(n, (uint64_t)itemsize, &n) && n <= INT64_MAX;
}

/* Without the first dimension, which no stride counts. */
static bool strides_fit(const uint64_t *shape, uint32_t ndim)
{
	uint64_t step = 1;

	for (uint32_t i = ndim; i-- > 1;)
		if (__builtin_mul_overflow(step, shape[i] ? shape[i] : 1, &step) ||
		    step > INT64_MAX)
			return false;
	return true;
}

int ckpt_shape_check(const uint64_t *shape, uint32_t ndim, uint32_t itemsize,
		     struct ckpt_error *err)
{
	if (!bytes_fit(shape, ndim, itemsize))
		return ckpt_fail(err, CKPT_E_FORMAT, "more bytes than any file holds");
	if (!strides_fit(shape, ndim))
		return ckpt_fail(err, CKPT_E_FORMAT,
				 "no items, and strides that are too large for torch");
	return 0;
}

/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CKPT_TENSOR_CAST_H
#define CKPT_TENSOR_CAST_H

#include "tensor/dtype.h"
#include "tensor/map.h"

#include <stdbool.h>
#include <stddef.h>

/*
 * Numbers of one dtype from numbers of another, rounded as Tensor.to() of torch 2.14 rounds them on
 * x86: to the nearest, ties to even, by way of float32 where neither side is float64; bits of NaN
 * included. Checked against real torch for all values of the narrow types in tests/interop/cast.py.
 *
 * Too large for the target: infinity where it has one, NaN in the fnuz types, and the largest
 * number in float8_e4m3fn (so since a torch between 2.6 and 2.14; older ones give NaN).
 */

/*
 * float64, float32, float16, bfloat16, float8_*: what can be cast, and to what without a loss of
 * kind.
 */
bool ckpt_dtype_is_floating(enum ckpt_dtype dtype);

/* Is there a way from FROM, a floating type, to TO: any floating type, integer or bool? */
bool ckpt_cast_known(enum ckpt_dtype from, enum ckpt_dtype to);

/*
 * COUNT numbers; IN and OUT must not overlap and need not be aligned. An integer target cuts the
 * fraction off; what does not fit is unspecified, as in torch.
 */
void ckpt_cast_items(enum ckpt_dtype from, enum ckpt_dtype to, const void *in, void *out,
		     size_t count);

/* The same without SIMD, for tests. */
void ckpt_cast_items_plain(enum ckpt_dtype from, enum ckpt_dtype to, const void *in, void *out,
			   size_t count);

/*
 * COUNT numbers of a floating type as doubles, and back: rounded once, to the nearest, ties to even,
 * so never by way of float32. Bits of a NaN are not kept.
 */
void ckpt_cast_to_doubles(enum ckpt_dtype from, const void *in, double *out, size_t count);
void ckpt_cast_from_doubles(enum ckpt_dtype to, const double *in, void *out, size_t count);

/*
 * Numbers that were something else after a cast. Overflowed: a finite one is infinite, or, where
 * the target has no infinity, any is NaN or the largest that there is; or it does not fit into an
 * integer. Underflowed: one that was not 0 is 0, in a floating target. NaN counts for integers
 * only, and only for those whose value it changes: all but bool.
 */
struct ckpt_cast_count {
	uint64_t overflowed, underflowed;
	uint64_t first_overflow, first_underflow; /* items before the first; UINT64_MAX: none */
};
#define CKPT_CAST_COUNT_INIT \
	{ \
		.first_overflow = UINT64_MAX, .first_underflow = UINT64_MAX \
	}

/* False: all numbers that FROM has are numbers of TO, or near to one. */
bool ckpt_cast_can_lose(enum ckpt_dtype from, enum ckpt_dtype to);

/* ckpt_cast_items(), which fills LOST, unless that is NULL, in the same pass. */
void ckpt_cast_items_counting(enum ckpt_dtype from, enum ckpt_dtype to, const void *in, void *out,
			      size_t count, struct ckpt_cast_count *lost);

/* The same without SIMD, for tests. */
void ckpt_cast_items_counting_plain(enum ckpt_dtype from, enum ckpt_dtype to, const void *in,
				    void *out, size_t count, struct ckpt_cast_count *lost);

struct ckpt_cast_tally;

/* For ckpt_map_recipe(): the numbers of MAP.inner, cast. */
struct ckpt_cast {
	struct ckpt_map map;
	enum ckpt_dtype from, to;
	struct ckpt_cast_tally *tally; /* counts what is lost; NULL: nobody wants to know */
};

struct ckpt_cast ckpt_cast_of(const struct ckpt_recipe *inner, enum ckpt_dtype from,
			      enum ckpt_dtype to);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CKPT_TENSOR_CAST_KERNELS_H
#define CKPT_TENSOR_CAST_KERNELS_H

#include <stddef.h>
#include <stdint.h>

/*
 * Inside of cast: the conversions that are worth SIMD. Numbers are passed as their bits, so that no
 * signalling NaN is made quiet on the way. Pointers need no alignment. Every set does the same, to
 * the bit.
 */
/* Magnitudes, as the bits of a float32 without its sign. */
struct ckpt_cast_limits {
	uint32_t over, top; /* from OVER on, below TOP: too large */
	uint32_t under;	    /* up to here, but for 0: becomes 0 */
};

/* The same of float64: OVER and MOST are too large themselves. */
struct ckpt_cast_wide_limits {
	double over, most, under;
};

struct ckpt_cast_kernels {
	void (*float16_to_float32)(const uint16_t *in, uint32_t *out, size_t count);
	void (*float32_to_float16)(const uint32_t *in, uint16_t *out, size_t count);
	void (*bfloat16_to_float32)(const uint16_t *in, uint32_t *out, size_t count);
	/* every NaN becomes NAN_BITS */
	void (*float32_to_bfloat16)(const uint32_t *in, uint16_t *out, size_t count,
				    uint16_t nan_bits);
	/* Add to *OVER and *UNDER how many of COUNT float32 are beyond LIMITS. */
	void (*count_lost)(const uint32_t *in, size_t count, const struct ckpt_cast_limits *limits,
			   uint64_t *over, uint64_t *under);
	void (*count_wide)(const double *in, size_t count,
			   const struct ckpt_cast_wide_limits *limits, uint64_t *over,
			   uint64_t *under);
};

extern const struct ckpt_cast_kernels ckpt_cast_plain;

/* The best set for this processor, or &ckpt_cast_plain. */
const struct ckpt_cast_kernels *ckpt_cast_best(void);

#endif

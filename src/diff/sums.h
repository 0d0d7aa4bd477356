/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CKPT_DIFF_SUMS_H
#define CKPT_DIFF_SUMS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * The innermost loops of comparing. Every sum is kept in eight parts, of every eighth pair each, so
 * that the result is the same on every processor, to the bit, however many numbers it adds at once.
 */
enum { CKPT_LANES = 8 };

struct ckpt_sums {
	double diff2[CKPT_LANES], a2[CKPT_LANES], b2[CKPT_LANES], ab[CKPT_LANES];
	double max_abs[CKPT_LANES], max_rel[CKPT_LANES];
	int64_t differing[CKPT_LANES], outside[CKPT_LANES];
} __attribute__((aligned(64)));

struct ckpt_sum_kernels {
	void (*widen32)(const float *in, double *out, size_t count);
	/*
	 * COUNT numbers, a multiple of 8; zeros at the end change nothing. Both aligned to 64
	 * bytes.
	 */
	bool (*finite)(const double *v, size_t count);
	void (*pairs)(const double *a, const double *b, size_t count, double atol, double rtol,
		      struct ckpt_sums *sums);
	/* The sum of squares is that of both, and of the product. */
	void (*squares)(const double *v, size_t count, double *sums);
	/*
	 * Steps between finite numbers whose sign is the highest bit; *OTHER: how many have other
	 * bits.
	 */
	uint64_t (*steps16)(const uint16_t *a, const uint16_t *b, size_t count, uint64_t *other);
	uint64_t (*steps32)(const uint32_t *a, const uint32_t *b, size_t count, uint64_t *other);
	uint64_t (*steps64)(const uint64_t *a, const uint64_t *b, size_t count, uint64_t *other);
};

const struct ckpt_sum_kernels *ckpt_sums_plain(void); /* on every processor */
const struct ckpt_sum_kernels *ckpt_sums_best(void);  /* on this one */

#endif

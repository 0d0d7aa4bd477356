/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CKPT_STAT_KERNELS_H
#define CKPT_STAT_KERNELS_H

#include <stddef.h>
#include <stdint.h>

/*
 * The loops of tally.c that are worth SIMD. Number I goes to lane I % LANES, so that every set of
 * kernels adds in the same order and gives the same, to the bit. Pointers need no alignment. If a
 * number is not finite, a sum is not, and the other results mean nothing.
 */
enum { CKPT_STAT_LANES = 16, CKPT_STAT_LANES64 = 8 };

struct ckpt_stat_sums32 {
	double sum[CKPT_STAT_LANES];
	float min[CKPT_STAT_LANES], max[CKPT_STAT_LANES];
	uint64_t zeros;
};

/* Sums are SUM + REST, which keeps what rounding lost. */
struct ckpt_stat_sums64 {
	double sum[CKPT_STAT_LANES64], rest[CKPT_STAT_LANES64];
	double min[CKPT_STAT_LANES64], max[CKPT_STAT_LANES64];
	uint64_t zeros;
};

struct ckpt_stat_kernels {
	/* Added to what is there. */
	void (*sums32)(const float *in, size_t count, struct ckpt_stat_sums32 *sums);
	void (*sums64)(const double *in, size_t count, struct ckpt_stat_sums64 *sums);

	/* Squares of the distances from MEAN, added to CKPT_STAT_LANES numbers. */
	void (*squares32)(const float *in, size_t count, double mean, double *lanes);
	void (*squares64)(const double *in, size_t count, double mean, double *lanes);
};

extern const struct ckpt_stat_kernels ckpt_stat_plain;

/* The best set for this processor, or &ckpt_stat_plain. */
const struct ckpt_stat_kernels *ckpt_stat_best(void);

#endif

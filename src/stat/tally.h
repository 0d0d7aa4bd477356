/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CKPT_STAT_TALLY_H
#define CKPT_STAT_TALLY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* HI + LO, without rounding: twice the digits of a double. */
struct ckpt_double_pair {
	double hi, lo;
};

enum {
	CKPT_TALLY_MOST = 4096
}; /* numbers that are added at a time: they stay in a core's nearest cache */

/*
 * What is known of some numbers. The moments are of the finite ones: their sum, and the squares of
 * their distances from their own mean, so that nothing is lost if the mean is large and the numbers
 * are close together.
 */
struct ckpt_tally {
	uint64_t finite, nans, infinities, zeros;
	struct ckpt_double_pair sum;
	double squares;
	double min, max;	   /* meaningless if FINITE is 0 */
	int64_t least, greatest;   /* the same of integers, exactly; unsigned ones less 2^63 */
	uint64_t first_not_finite; /* its index; UINT64_MAX: none */
};

struct ckpt_tally ckpt_tally_none(void);

/*
 * COUNT numbers, CKPT_TALLY_MOST at most; IN needs no alignment. None of these sets
 * FIRST_NOT_FINITE.
 */
void ckpt_tally_float32(struct ckpt_tally *t, const float *in, size_t count);
void ckpt_tally_float64(struct ckpt_tally *t, const double *in, size_t count);

/* The same without SIMD, for tests. */
void ckpt_tally_float32_plain(struct ckpt_tally *t, const float *in, size_t count);
void ckpt_tally_float64_plain(struct ckpt_tally *t, const double *in, size_t count);

/* Integers; IS_UNSIGNED: each is 2^63 more than it says. */
void ckpt_tally_integers(struct ckpt_tally *t, const int64_t *in, size_t count, bool is_unsigned);

/* The number V, finite or not, COUNT times. */
void ckpt_tally_same(struct ckpt_tally *t, double v, uint64_t count);

/* Add OTHER to T. The order of merging shows in the last digits. */
void ckpt_tally_merge(struct ckpt_tally *t, const struct ckpt_tally *other);

/* Make T stand for all its numbers TIMES times, 1 or more. Counts stop at UINT64_MAX. */
void ckpt_tally_repeat(struct ckpt_tally *t, uint64_t times);

/* NaN if there are no finite numbers. */
double ckpt_tally_mean(const struct ckpt_tally *t);
double ckpt_tally_std(const struct ckpt_tally *t);
double ckpt_tally_norm(const struct ckpt_tally *t);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CKPT_TENSOR_MEAN_H
#define CKPT_TENSOR_MEAN_H

#include "tensor/dtype.h"
#include "tensor/recipe.h"

#include <stddef.h>

/*
 * COUNT recipes of one length, whose bytes are little-endian numbers of DTYPE (a floating type; of
 * a complex one, that of its parts), as one: each number is, in double,
 *
 *	sum = WEIGHTS[0] * x[0], then sum = KEEP * sum + WEIGHTS[i] * x[i] for i = 1, 2 ...
 *
 * divided by DIVISOR and rounded once. FROM_ZERO: 0 is added to the first, as sums of numpy begin with
 * it, so that the mean of nothing but -0 is 0. The order is that of INNER whatever the number of threads, and
 * no step is fused, so that all machines give the same bits. NaN is the positive quiet one. Bytes
 * behind the last whole number are those of the last recipe.
 *
 * If an INNER has a checksum it is compared at the end, as for a map.
 */
struct ckpt_mean {
	const struct ckpt_recipe *inner;
	size_t count; /* at least 1 */
	enum ckpt_dtype dtype;
	const double *weights; /* COUNT */
	double keep, divisor;
	bool from_zero;
};

/* Borrows MEAN, which has to live as long as the recipe. */
struct ckpt_recipe ckpt_mean_recipe(const struct ckpt_mean *mean);

/* For the kind CKPT_RECIPE_MEAN. */
const struct ckpt_mean *ckpt_recipe_mean(const struct ckpt_recipe *recipe);

/* Can all of INNER be read at any place, by many threads? */
bool ckpt_mean_is_random(const struct ckpt_mean *mean);

/* Add COUNT numbers of recipe I to SUMS: first those of recipe 0, which need not be cleared for it. */
void ckpt_mean_add(const struct ckpt_mean *mean, size_t i, const void *in, size_t count,
		   double *sums);

/* What COUNT sums are, when all recipes were added, as numbers of DTYPE. SUMS are used up. */
void ckpt_mean_finish(const struct ckpt_mean *mean, double *sums, size_t count, void *out);

/*
 * The mean of COUNT numbers of each recipe, those of recipe I I * APART bytes behind FIRST. The sums
 * stay in the nearest cache.
 */
void ckpt_mean_of_blocks(const struct ckpt_mean *mean, const uint8_t *first, size_t apart,
			 size_t count, uint8_t *out);

/* The same without SIMD, for tests. */
void ckpt_mean_add_plain(const struct ckpt_mean *mean, size_t i, const void *in, size_t count,
			 double *sums);
void ckpt_mean_finish_plain(const struct ckpt_mean *mean, double *sums, size_t count, void *out);

#endif

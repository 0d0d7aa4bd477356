/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CKPT_DIFF_NUMBERS_H
#define CKPT_DIFF_NUMBERS_H

#include "tensor/dtype.h"

#include <stdbool.h>
#include <stddef.h>

/*
 * How far the numbers of two stretches of items are apart. A complex number is two real ones.
 * Differences are taken in float64, those of 64-bit integers before they are rounded to it. Pairs
 * with a NaN or an infinity are counted, and left out of the sums.
 */
struct ckpt_numbers {
	uint64_t count;	     /* pairs */
	uint64_t differing;  /* that are not the same number; a NaN is the same as a NaN */
	uint64_t outside;    /* of these: by more than is tolerated */
	uint64_t other_bits; /* equal numbers of other bits: 0 and -0, two kinds of NaN */
	uint64_t nan_appeared, nan_vanished, nan_both;
	uint64_t inf_appeared, inf_vanished;
	uint64_t finite;  /* pairs in the sums */
	uint64_t max_ulp; /* steps between numbers of the dtype; of one floating dtype only */
	double max_abs;	  /* |a - b| */
	double max_rel;	  /* |a - b| / max(|a|, |b|) */
	double diff2, a2, b2, ab; /* sums of (a - b)^2, a^2, b^2, a * b */
};

/* How two dtypes are compared. */
struct ckpt_measure {
	enum ckpt_dtype a, b;	   /* of the real numbers in an item */
	uint32_t parts;		   /* real numbers in an item: 2 of a complex one */
	uint32_t a_parts, b_parts; /* ... as they are stored */
	uint32_t a_size, b_size;   /* bytes of an item */
	int method;
	bool has_ulp;	   /* MAX_ULP means something */
	bool has_numbers;  /* false: items of bits, of which only DIFFERING is known */
	double atol, rtol; /* tolerated: |a - b| <= atol + rtol * |b| */
};

/* False: there is no way to compare numbers of A with those of B. */
bool ckpt_measure_init(struct ckpt_measure *measure, enum ckpt_dtype a, enum ckpt_dtype b,
		       double atol, double rtol);

/* Compare COUNT items of each, aligned as malloc() aligns. NUMBERS is of these items alone. */
void ckpt_measure_items(const struct ckpt_measure *measure, const void *a, const void *b,
			size_t count, struct ckpt_numbers *numbers);

/* Add MORE, TIMES times. */
void ckpt_numbers_add(struct ckpt_numbers *numbers, const struct ckpt_numbers *more,
		      uint64_t times);

#endif

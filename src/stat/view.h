/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CKPT_STAT_VIEW_H
#define CKPT_STAT_VIEW_H

#include "array/array.h"
#include "stat/tally.h"

/* How numbers of a dtype are counted. */
enum ckpt_stat_kind {
	CKPT_STAT_FLOAT32,
	CKPT_STAT_HALF, /* by way of float32 */
	CKPT_STAT_FLOAT64,
	CKPT_STAT_CODES, /* of 8 bits: there are 256 numbers, and how often each of them stands there is enough */
	CKPT_STAT_INTEGER, /* wider ones */
	CKPT_STAT_COMPLEX, /* magnitudes */
};

enum ckpt_stat_kind ckpt_stat_kind_of(enum ckpt_dtype dtype);
bool ckpt_stat_is_integer(enum ckpt_dtype dtype);

/* What each of the 256 codes of an 8-bit dtype stands for. */
void ckpt_stat_codes(enum ckpt_dtype dtype, double *codes);

/*
 * The items of an array as they are looked at: not always in C order, which counts for nobody but who wants to know the index of one,
 * and without the dimensions in which they only repeat themselves.
 */
struct ckpt_stat_view {
	const struct ckpt_array *steps; /* which make values of them; NULL: they are values */
	enum ckpt_dtype dtype;		/* of the values */
	uint32_t itemsize;		/* of what is stored */
	const double *codes;		/* of CKPT_STAT_CODES */
	uint32_t ndim;			/* 0: they are in C order */
	const uint64_t *step,
		*to; /* item STEP * i, i less than the one before: TO * i in C order */
};

/* COUNT items, the first of them item FIRST: what there is among them. */
struct ckpt_tally ckpt_stat_tally(const struct ckpt_stat_view *view, uint64_t first,
				  const uint8_t *bytes, size_t count);

/* COUNT bins of the same width from LOW to HIGH, both inside. */
struct ckpt_stat_bins {
	double low, high;
	uint32_t count;
	uint64_t *counts;
};

/* The finite ones among COUNT items, added to the bins that they fall in, as numpy.histogram() does. Those outside are left out. */
void ckpt_stat_fill_bins(const struct ckpt_stat_view *view, uint64_t first, const uint8_t *bytes,
			 size_t count, const struct ckpt_stat_bins *bins);

#endif

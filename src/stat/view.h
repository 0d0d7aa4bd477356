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
	CKPT_STAT_CODES,   /* 8 bits: it is enough to count how often each of 256 codes occurs */
	CKPT_STAT_INTEGER, /* wider ones */
	CKPT_STAT_COMPLEX, /* magnitudes */
};

enum ckpt_stat_kind ckpt_stat_kind_of(enum ckpt_dtype dtype);
bool ckpt_stat_is_integer(enum ckpt_dtype dtype);

/* What each of the 256 codes of an 8-bit dtype stands for. */
void ckpt_stat_codes(enum ckpt_dtype dtype, double *codes);

/*
 * The items of an array in the order in which they are read: not always in C order, which matters
 * only for the index of an item, and without the dimensions that only repeat items.
 */
struct ckpt_stat_view {
	const struct ckpt_array *steps; /* which make values of items; NULL: items are values */
	enum ckpt_dtype dtype;		/* of the values */
	uint32_t itemsize;		/* of what is stored */
	const double *codes;		/* of CKPT_STAT_CODES */
	uint32_t ndim;			/* 0: items are in C order */
	const uint64_t *step,
		*to; /* item STEP * i, i less than the one before: TO * i in C order */
};

/* Tally COUNT items, the first of them item FIRST. */
struct ckpt_tally ckpt_stat_tally(const struct ckpt_stat_view *view, uint64_t first,
				  const uint8_t *bytes, size_t count);

/* COUNT items, CKPT_TALLY_MOST at most, as doubles, the first of them item FIRST. */
void ckpt_stat_doubles(const struct ckpt_stat_view *view, uint64_t first, const uint8_t *bytes,
		       size_t count, double *out);

/* COUNT bins of the same width from LOW to HIGH, both inside. */
struct ckpt_stat_bins {
	double low, high;
	uint32_t count;
	uint64_t *counts;
};

/*
 * Count the finite ones among COUNT items in BINS, as numpy.histogram() does; those outside are
 * left out.
 */
void ckpt_stat_fill_bins(const struct ckpt_stat_view *view, uint64_t first, const uint8_t *bytes,
			 size_t count, const struct ckpt_stat_bins *bins);

#endif

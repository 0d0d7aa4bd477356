/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CKPT_STAT_SELECT_H
#define CKPT_STAT_SELECT_H

#include "base/error.h"

#include <stdbool.h>

/*
 * Exact quantiles of very many numbers in little memory: all numbers are shown several times, in
 * rounds, in any order. A round counts how many numbers begin with which bits, so that the next one
 * need only look at the few that may be the wanted ones; when few enough are left they are kept and
 * sorted.
 *
 *   ckpt_select_init();
 *   do
 *     all numbers: ckpt_select_keys() and ckpt_select_add();
 *   while (ckpt_select_next() > 0);
 *   ckpt_select_quantiles();
 */
enum {
	CKPT_SELECT_MOST_QUANTILES = 32,
	CKPT_SELECT_MOST_KEPT = 1 << 16, /* numbers */
};

/* Numbers whose keys begin with the same bits, one of which is wanted. */
struct ckpt_select_range {
	uint64_t prefix;
	uint64_t before, count; /* numbers below it, and in it */
	uint64_t *counts;	/* by the bits that follow; in ckpt_select.counts */
};

struct ckpt_select_kept {
	uint64_t key, times;
};

struct ckpt_select {
	uint64_t count;	     /* of all numbers */
	const double *at;    /* the quantiles, from 0 to 1; borrowed */
	uint32_t rank_count; /* two for each: the numbers on both sides of it */
	uint64_t ranks[2 * CKPT_SELECT_MOST_QUANTILES];
	uint64_t prefixes[2 * CKPT_SELECT_MOST_QUANTILES]; /* of their keys, what is known */
	struct ckpt_select_range ranges[2 * CKPT_SELECT_MOST_QUANTILES]; /* by prefix */
	uint32_t range_count;
	uint64_t *firsts; /* malloc: a bit for each 16 bits that a prefix begins with; NULL: all */
	uint32_t unknown; /* bits behind the prefix */
	uint32_t digit;	  /* bits that this round counts; 0: it keeps numbers */
	uint64_t *counts; /* malloc */
	struct ckpt_select_kept *kept;	/* malloc */
	uint64_t kept_count, kept_room; /* the room is what the ranges have */
};

/* The most bytes that one of QUANTILES quantiles of COUNT numbers takes. */
size_t ckpt_select_memory(uint32_t quantiles, uint64_t count);

/*
 * For QUANTILES quantiles AT of COUNT numbers, at least one. To be cleared in any case. 0 or
 * CKPT_E_NOMEM.
 */
int ckpt_select_init(struct ckpt_select *s, const double *at, uint32_t quantiles, uint64_t count,
		     struct ckpt_error *err);
void ckpt_select_clear(struct ckpt_select *s);

/*
 * Put what this round needs of COUNT numbers in KEYS, as many at most, and return how many. Numbers
 * that are not finite are left out. Many threads may call it at once.
 */
size_t ckpt_select_keys(const struct ckpt_select *s, const double *in, size_t count,
			uint64_t *keys);

/* Add them; each stands for TIMES numbers. One thread at a time. */
void ckpt_select_add(struct ckpt_select *s, const uint64_t *keys, size_t count, uint64_t times);

/* All numbers were added. 1: they have to be once more; 0: it is done; CKPT_E_NOMEM. */
int ckpt_select_next(struct ckpt_select *s, struct ckpt_error *err);

/* As numpy.quantile() has them, linear between two numbers. */
void ckpt_select_quantiles(const struct ckpt_select *s, double *out);

#endif

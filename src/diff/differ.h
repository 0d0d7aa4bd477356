/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CKPT_DIFF_DIFFER_H
#define CKPT_DIFF_DIFFER_H

#include "base/strmap.h"
#include "diff/pair.h"
#include "diff/read.h"

/*
 * One call of ckpt_diff(): all pairs, and what only one side has. What compares one pair does not
 * know it.
 */
struct ckpt_differ {
	struct ckpt_comparison c;
	struct ckpt_diff_reading reading;
	int (*found)(void *ctx, const struct ckpt_difference *difference);
	void *ctx;
	struct ckpt_diff_report report;
	struct ckpt_strmap ambiguous;	   /* names that one side has more than once */
	struct ckpt_pair *pairs, *renamed; /* malloc */
	uint32_t pair_count, renamed_count;
	const struct ckpt_entry **only_a, **only_b; /* malloc, in the order of the file */
	uint32_t only_a_count, only_b_count;
};

/* Find the prefix that makes names of one side those of the other, for the report. (prefix.c) */
int ckpt_find_prefix(struct ckpt_differ *d, struct ckpt_error *err);

/* Pair equal tensors that have another name: RENAMED. (renamed.c) */
int ckpt_find_renamed(struct ckpt_differ *d, struct ckpt_error *err);

/* Give the differences to the caller, and count them. (report.c) */
int ckpt_report_differences(struct ckpt_differ *d, struct ckpt_error *err);

/* For qsort(): pairs in the order of A. (diff.c) */
int ckpt_pair_compare_number(const void *a, const void *b);

#endif

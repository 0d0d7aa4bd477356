/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CKPT_DIFF_DIFFER_H
#define CKPT_DIFF_DIFFER_H

#include "base/strmap.h"
#include "diff/pair.h"
#include "diff/read.h"

/* One call of ckpt_diff(): what belongs together, and what is to be said of it. Pairs alone know nothing of it. */
struct ckpt_differ {
	struct ckpt_comparison c;
	struct ckpt_diff_reading reading;
	int (*found)(void *ctx, const struct ckpt_difference *difference);
	void *ctx;
	struct ckpt_diff_report report;
	struct ckpt_strmap ambiguous;	   /* names that one of them has more than once */
	struct ckpt_pair *pairs, *renamed; /* malloc */
	uint32_t pair_count, renamed_count;
	const struct ckpt_entry **only_a, **only_b; /* malloc, in the order of the file */
	uint32_t only_a_count, only_b_count;
};

/* What would make the names of one side those of the other: sets what the report has of it. (prefix.c) */
int ckpt_find_prefix(struct ckpt_differ *d, struct ckpt_error *err);

/* Make pairs, RENAMED, of what only one side has. (renamed.c) */
int ckpt_find_renamed(struct ckpt_differ *d, struct ckpt_error *err);

/* Tell what was found, and count it. (report.c) */
int ckpt_tell_differences(struct ckpt_differ *d, struct ckpt_error *err);

#endif

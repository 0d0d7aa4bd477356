/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CKPT_DIFF_PAIR_H
#define CKPT_DIFF_PAIR_H

#include "diff/entries.h"
#include "diff/numbers.h"

#include <ckpt/diff.h>

enum ckpt_pair_state {
	CKPT_PAIR_SAME,
	CKPT_PAIR_CHANGED, /* WHAT says in what */
	CKPT_PAIR_TO_READ, /* ... and its numbers are not compared yet */
	CKPT_PAIR_UNREADABLE,
};

/* Two values that are compared. */
struct ckpt_pair {
	const struct ckpt_entry *a, *b;
	uint32_t what; /* enum ckpt_difference_what */
	uint8_t state;
	bool by_checksum;
	bool has_numbers : 1, has_ulp : 1;  /* of NUMBERS */
	bool other_keys : 1;		    /* as in the report */
	const struct ckpt_numbers *numbers; /* they were read; or NULL */
	const char *why;		    /* UNREADABLE */
};

/* Both checkpoints, and how their pairs are compared. */
struct ckpt_comparison {
	struct ckpt_diff_options options;
	struct ckpt_entries a, b;
	bool one_file;		  /* both are */
	struct ckpt_arena *arena; /* of what is kept of pairs */
};

static inline bool ckpt_comparison_has(const struct ckpt_comparison *c, enum ckpt_diff_flags flag)
{
	return c->options.flags & flag;
}

/* Are recorded checksums taken for the bytes? */
static inline bool ckpt_comparison_trusts(const struct ckpt_comparison *c)
{
	return ckpt_comparison_has(c, CKPT_DIFF_TRUST_CHECKSUMS) &&
	       !ckpt_comparison_has(c, CKPT_DIFF_READ);
}

#endif

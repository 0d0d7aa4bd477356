/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CKPT_DIFF_DIFFER_H
#define CKPT_DIFF_DIFFER_H

#include "base/strmap.h"
#include "diff/entries.h"
#include "diff/numbers.h"
#include "io/workers.h"

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
	bool has_numbers, has_ulp;	    /* of NUMBERS */
	const struct ckpt_numbers *numbers; /* they were read; or NULL */
	const char *why;		    /* UNREADABLE */
};

/* One call of ckpt_diff(). */
struct ckpt_differ {
	struct ckpt_diff_options options;
	int (*found)(void *ctx, const struct ckpt_difference *difference);
	void *ctx;
	struct ckpt_diff_report report;
	struct ckpt_entries a, b;
	struct ckpt_strmap ambiguous; /* names that one of them has more than once */
	bool one_file; /* both are */
	struct ckpt_arena *arena;
	struct ckpt_pair *pairs, *renamed; /* malloc */
	uint32_t pair_count, renamed_count;
	const struct ckpt_entry **only_a, **only_b; /* malloc, in the order of the file */
	uint32_t only_a_count, only_b_count;
	struct ckpt_workers *workers;
	uint64_t done, total; /* bytes, for the progress */
};

bool ckpt_differ_has(const struct ckpt_differ *d, enum ckpt_diff_flags flag);

/* Are recorded checksums taken for the bytes? */
bool ckpt_differ_trusts(const struct ckpt_differ *d);

/* Ends it if that was wished. */
int ckpt_differ_tick(struct ckpt_differ *d, uint64_t done, struct ckpt_error *err);

/* Can the others still be compared when one fails so? */
bool ckpt_differ_goes_on(int rc, const struct ckpt_error *err);

/* Let there be workers, for all that is read. */
int ckpt_differ_workers(struct ckpt_differ *d, struct ckpt_error *err);

/* ---- what is known without reading (sides.c) ---- */

/* What E is, for FOUND and for comparing; what it needs is in ARENA. */
int ckpt_side_of(const struct ckpt_entries *entries, const struct ckpt_entry *e,
		 struct ckpt_arena *arena, struct ckpt_diff_side *out, struct ckpt_error *err);

/* Compare two tensors or arrays as far as that goes without their bytes. */
int ckpt_compare_sides(struct ckpt_differ *d, struct ckpt_pair *pair, struct ckpt_error *err);

/* Do TA and TB show the same part of equal bytes, as far as checksums tell? */
bool ckpt_same_bytes(const struct ckpt_differ *d, const struct ckpt_tensor *ta,
		     const struct ckpt_tensor *tb);

/* The checksum of all bytes of storage I. */
bool ckpt_known_crc(const struct ckpt_model *model, int64_t i, uint32_t *crc);

/* ---- values that hold nothing (values.c) ---- */

int ckpt_compare_values(struct ckpt_differ *d, struct ckpt_pair *pair, struct ckpt_error *err);

/* np.ndarray, np.matrix ... */
bool ckpt_same_class_of_numpy(const struct ckpt_differ *d, const struct ckpt_value *a, const struct ckpt_value *b);

/* What programs set on two tensors. */
int ckpt_compare_attributes(struct ckpt_differ *d, struct ckpt_pair *pair, struct ckpt_error *err);

/* The names of two types of container: may one stand for the other? */
int ckpt_compare_containers(struct ckpt_differ *d, struct ckpt_pair *pair, struct ckpt_error *err);

/* ---- bytes (read.c) ---- */

size_t ckpt_read_desk(void);

/* Compare the numbers of those PAIRS that are to be read. */
int ckpt_read_pairs(struct ckpt_differ *d, struct ckpt_pair *pairs, uint32_t count,
		    struct ckpt_error *err);

/* The bytes of both sides that this takes. */
uint64_t ckpt_bytes_of_pair(const struct ckpt_differ *d, const struct ckpt_pair *pair);

/* ---- what was found (report.c) ---- */

int ckpt_tell_differences(struct ckpt_differ *d, struct ckpt_error *err);

/* ---- names (renamed.c, prefix.c) ---- */

/* What would make the names of one side those of the other: sets what the report has of it. */
int ckpt_find_prefix(struct ckpt_differ *d, struct ckpt_error *err);

/* Make pairs, RENAMED, of what only one side has. */
int ckpt_find_renamed(struct ckpt_differ *d, struct ckpt_error *err);

#endif

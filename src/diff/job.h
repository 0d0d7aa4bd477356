/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CKPT_DIFF_JOB_H
#define CKPT_DIFF_JOB_H

#include "array/array.h"
#include "diff/pair.h"

/* One side of a pair of arrays that is read. */
struct ckpt_job_side {
	struct ckpt_array *array;  /* owned */
	uint8_t *dense;		   /* owned: all items of a sparse one; or NULL */
	bool streamed;		   /* front to back only */
	struct ckpt_recipe recipe; /* ... this */
	struct ckpt_stream *stream;
};

/* A pair of arrays whose numbers are compared, block by block. */
struct ckpt_job {
	struct ckpt_pair *pair;
	struct ckpt_job_side a, b;
	struct ckpt_measure measure;
	uint64_t count, next;		   /* items; those before NEXT were taken */
	uint64_t times;			   /* how often each item stands on both sides */
	uint64_t zeros;			   /* pairs that neither of two sparse tensors stores */
	size_t block;			   /* items */
	uint32_t first_block, block_count; /* of the run */
	bool failed;
	struct ckpt_numbers sum;
};

/*
 * Open both sides of PAIR. 1: there are items to be read; 0: there are none, and PAIR has the
 * result. To be closed in any case. BLOCK: bytes of a block, of either side.
 */
int ckpt_job_open(const struct ckpt_comparison *c, struct ckpt_pair *pair, size_t block,
		  struct ckpt_job *job, struct ckpt_error *err);
void ckpt_job_close_streams(struct ckpt_job *job); /* all was read from them */
void ckpt_job_close(struct ckpt_job *job);

/* Can the others still be compared when one fails so? */
bool ckpt_diff_can_go_on(int rc, const struct ckpt_error *err);

/* Mark PAIR as unreadable. 0, or RC if that ends the comparison. */
int ckpt_pair_fail(const struct ckpt_comparison *c, struct ckpt_pair *pair, int rc,
		   const struct ckpt_error *err);

#endif

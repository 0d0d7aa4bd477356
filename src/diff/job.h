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
	uint64_t count, next; /* items; those before NEXT were taken */
	uint64_t times; /* each stands for so many: it is shown again and again on both sides */
	uint64_t zeros; /* of sparse ones: pairs that nobody stored */
	size_t block;	/* items */
	uint32_t first_block, block_count; /* of the run */
	bool failed;
	struct ckpt_numbers sum;
};

/*
 * Open both sides of PAIR. 1: there is something to be read; 0: there is not, PAIR says what is known. To be closed in
 * any case. BLOCK: bytes of a block, of either side.
 */
int ckpt_job_open(const struct ckpt_comparison *c, struct ckpt_pair *pair, size_t block,
		  struct ckpt_job *job, struct ckpt_error *err);
void ckpt_job_end_reading(struct ckpt_job *job); /* closes streams: all was taken from them */
void ckpt_job_close(struct ckpt_job *job);

/* Can the others still be compared when one fails so? */
bool ckpt_diff_goes_on(int rc, const struct ckpt_error *err);

/* PAIR cannot be read. 0, or RC if that ends it all. */
int ckpt_pair_failed(const struct ckpt_comparison *c, struct ckpt_pair *pair, int rc,
		     const struct ckpt_error *err);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CKPT_DIFF_READ_H
#define CKPT_DIFF_READ_H

#include "diff/pair.h"
#include "io/workers.h"

/* What is read of both checkpoints: by which threads, and how far that is. */
struct ckpt_diff_reading {
	const struct ckpt_comparison *c;
	struct ckpt_workers *workers; /* owned; NULL: nothing was read yet */
	uint64_t done, total;	      /* bytes, for the progress */
	uint64_t nbytes;	      /* that were read */
};

/* Ends it if that was wished. */
int ckpt_reading_tick(struct ckpt_diff_reading *reading, uint64_t done, struct ckpt_error *err);

/* Let there be workers, for all that is read. */
int ckpt_reading_workers(struct ckpt_diff_reading *reading, struct ckpt_error *err);

/* Compare the numbers of those PAIRS that are to be read. */
int ckpt_read_pairs(struct ckpt_diff_reading *reading, struct ckpt_pair *pairs, uint32_t count,
		    struct ckpt_error *err);

#endif

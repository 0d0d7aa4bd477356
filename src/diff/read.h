/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CKPT_DIFF_READ_H
#define CKPT_DIFF_READ_H

#include "diff/pair.h"
#include "io/workers.h"

/* Reading of both checkpoints: the threads and the progress. */
struct ckpt_diff_reading {
	const struct ckpt_comparison *c;
	struct ckpt_workers *workers; /* owned; NULL: nothing was read yet */
	uint64_t done, total;	      /* bytes, for the progress */
	uint64_t nbytes;	      /* that were read */
};

/* Report progress; fails if the caller cancels. */
int ckpt_reading_tick(struct ckpt_diff_reading *reading, uint64_t done, struct ckpt_error *err);

/* Start the threads if there are none yet. */
int ckpt_reading_workers(struct ckpt_diff_reading *reading, struct ckpt_error *err);

/* Compare the numbers of PAIRS in state CKPT_PAIR_TO_READ. */
int ckpt_read_pairs(struct ckpt_diff_reading *reading, struct ckpt_pair *pairs, uint32_t count,
		    struct ckpt_error *err);

#endif

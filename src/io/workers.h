/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CKPT_IO_WORKERS_H
#define CKPT_IO_WORKERS_H

#include "base/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * A few threads that share one long piece of work with their caller, block by block: while one
 * waits for bytes, another writes. They start with the first work that is long enough to gain by
 * it, and take no signals. If none can be started the caller does all the work. For one caller
 * at a time.
 */
struct ckpt_workers;

struct ckpt_work {
	/*
	 * Take the next block, and note in BUFFER, the thread's own memory, which one it is. Called
	 * by one thread at a time. 1: there was one; 0: none is left; or an error.
	 */
	int (*take)(struct ckpt_work *work, void *buffer, struct ckpt_error *err);

	/* Do the work on the block. Called by many threads at once, in any order. 0 or an error. */
	int (*finish)(struct ckpt_work *work, void *buffer, struct ckpt_error *err);

	/*
	 * Called in the caller's thread after each block that it did, and when all are done if others worked, too. 0 or an
	 * error; may be NULL.
	 */
	int (*tick)(struct ckpt_work *work, struct ckpt_error *err);
};

/*
 * BUFFER_SIZE: bytes of memory for each thread. THREADS: how many work at once, the caller's among
 * them; 0: as many as there are processors, at most 4.
 */
int ckpt_workers_new(size_t buffer_size, uint32_t threads, struct ckpt_workers **out,
		     struct ckpt_error *err);

/* End the threads. NULL is allowed. */
void ckpt_workers_free(struct ckpt_workers *workers);

/*
 * Do all blocks. Returns when they are done, or, after the first error, when no thread works any
 * more. TOGETHER: the work is long enough for more than one thread.
 */
int ckpt_workers_run(struct ckpt_workers *workers, struct ckpt_work *work, bool together,
		     struct ckpt_error *err);

#endif

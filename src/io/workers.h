/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CKPT_IO_WORKERS_H
#define CKPT_IO_WORKERS_H

#include "base/error.h"

#include <stdbool.h>
#include <stddef.h>

/*
 * A few threads that do one long piece of work side by side with their caller, block by block: while
 * one waits for bytes, another writes. They start with the first work that is long enough to gain by it,
 * and take no signals. Where there can be none the caller does it all. For one caller at a time.
 */
struct ckpt_workers;

struct ckpt_work {
	/*
	 * Takes the next block: notes which in DESK, the thread's own memory. One thread at a time.
	 * 1: there was one, 0: none is left, or an error.
	 */
	int (*take)(struct ckpt_work *work, void *desk, struct ckpt_error *err);

	/* Does all that is to be done with it. Many threads at once, in any order. 0 or an error. */
	int (*finish)(struct ckpt_work *work, void *desk, struct ckpt_error *err);

	/* By the caller's own thread, behind every block that it has done. 0 or an error; may be NULL. */
	int (*tick)(struct ckpt_work *work, struct ckpt_error *err);
};

/* DESK: bytes of memory for each thread. */
int ckpt_workers_new(size_t desk, struct ckpt_workers **out, struct ckpt_error *err);

/* Ends the threads. NULL is allowed. */
void ckpt_workers_free(struct ckpt_workers *workers);

/*
 * Until all blocks are done, or no thread works any more behind an error, the first that was met. TOGETHER:
 * it is long enough for more than one thread.
 */
int ckpt_workers_run(struct ckpt_workers *workers, struct ckpt_work *work, bool together,
		     struct ckpt_error *err);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CKPT_IO_BESIDE_H
#define CKPT_IO_BESIDE_H

#include "base/error.h"

#include <pthread.h>
#include <stdbool.h>

/*
 * One call that a thread makes while its caller does something else: it takes no signals and has a small stack. RUN and CTX are the caller's to set.
 */
struct ckpt_beside {
	int (*run)(void *ctx, struct ckpt_error *err);
	void *ctx;
	bool has_thread;
	pthread_t thread;
	int rc;
	struct ckpt_error err;
};

/* Begin it. Where there can be no thread it is done in ckpt_beside_end(), which has to follow in any case. */
void ckpt_beside_start(struct ckpt_beside *beside);

/* Until it is done; without ckpt_beside_start() it is done now. Returns what RUN returned, and gives its error. */
int ckpt_beside_end(struct ckpt_beside *beside, struct ckpt_error *err);

#endif

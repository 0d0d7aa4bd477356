/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CKPT_IO_BACKGROUND_H
#define CKPT_IO_BACKGROUND_H

#include "base/error.h"

#include <pthread.h>
#include <stdbool.h>

/*
 * One function call that a thread makes while its caller does something else. The thread takes
 * no signals and has a small stack. The caller sets CALL and CTX.
 */
struct ckpt_background {
	int (*call)(void *ctx, struct ckpt_error *err);
	void *ctx;
	bool has_thread;
	pthread_t thread;
	int rc;
	struct ckpt_error err;
};

/*
 * Start the thread. If that fails the call is made in ckpt_background_wait(), which has to
 * follow in any case.
 */
void ckpt_background_start(struct ckpt_background *background);

/*
 * Wait for the call, or make it now if ckpt_background_start() was not called. Returns what CALL
 * returned, with its error.
 */
int ckpt_background_wait(struct ckpt_background *background, struct ckpt_error *err);

#endif

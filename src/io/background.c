/* SPDX-License-Identifier: Apache-2.0 */
#include "io/background.h"

#include "io/fault.h"

static void *make_call(void *arg)
{
	struct ckpt_background *b = arg;

	b->rc = b->call(b->ctx, &b->err);
	return NULL;
}

void ckpt_background_start(struct ckpt_background *b)
{
	b->err = (struct ckpt_error)CKPT_ERROR_INIT;
	b->has_thread = ckpt_io_thread(&b->thread, make_call, b) == 0;
}

int ckpt_background_wait(struct ckpt_background *b, struct ckpt_error *err)
{
	if (!b->has_thread)
		return b->call(b->ctx, err);
	pthread_join(b->thread, NULL);
	b->has_thread = false;
	if (b->rc < 0 && err)
		*err = b->err;
	return b->rc;
}

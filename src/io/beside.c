/* SPDX-License-Identifier: Apache-2.0 */
#include "io/beside.h"

#include "io/fault.h"

static void *run(void *arg)
{
	struct ckpt_beside *b = arg;

	b->rc = b->run(b->ctx, &b->err);
	return NULL;
}

void ckpt_beside_start(struct ckpt_beside *b)
{
	b->err = (struct ckpt_error)CKPT_ERROR_INIT;
	b->has_thread = ckpt_io_thread(&b->thread, run, b) == 0;
}

int ckpt_beside_end(struct ckpt_beside *b, struct ckpt_error *err)
{
	if (!b->has_thread)
		return b->run(b->ctx, err);
	pthread_join(b->thread, NULL);
	b->has_thread = false;
	if (b->rc < 0 && err)
		*err = b->err;
	return b->rc;
}

/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CKPT_IO_NAMING_H
#define CKPT_IO_NAMING_H

#include "base/cancel.h"
#include "base/error.h"

#include <ckpt/save.h>

/*
 * The last look at what may end a save with the options O, which may be NULL: when the output is
 * complete and synced, directly before it gets its name. Nothing that waits for the disk may come
 * between the two, or a caller that has stopped waiting gets an output. Returns 0 or
 * CKPT_E_CANCELLED.
 */
static inline int ckpt_naming_begin(const struct ckpt_save_options *o, struct ckpt_error *err)
{
	if (!o)
		return 0;
	if (ckpt_cancelled(o->cancel) || (o->naming && o->naming(o->naming_ctx, CKPT_NAMING_BEGINS) != 0))
		return ckpt_fail(err, CKPT_E_CANCELLED, "interrupted, nothing was written");
	return 0;
}

/* The output has its name, or cannot get it. Before anything else waits for the disk. */
static inline void ckpt_naming_end(const struct ckpt_save_options *o)
{
	if (o && o->naming)
		o->naming(o->naming_ctx, CKPT_NAMING_ENDED);
}

#endif

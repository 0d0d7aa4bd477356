/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CKPT_PLAN_BLOCKS_H
#define CKPT_PLAN_BLOCKS_H

#include "io/sink.h"
#include "io/workers.h"
#include "plan/moved.h"
#include "tensor/recipe.h"

/*
 * The bytes of one long recipe through memory into a sink, in blocks that some threads read, change, look at
 * and write side by side. A block is small enough to stay in a processor's own cache on its way.
 */
struct ckpt_blocks_tick {
	/* Behind some blocks, by the caller's thread: DONE bytes of the recipe are written. */
	int (*tick)(void *ctx, uint64_t done, struct ckpt_error *err);
	void *ctx;
};

/* WORKERS are of this desk. */
size_t ckpt_blocks_desk(void);

/* To AT of SINK. An error of reading names the file that was read. */
int ckpt_blocks_copy(struct ckpt_workers *workers, const struct ckpt_recipe *recipe,
		     struct ckpt_sink *sink, uint64_t at, const struct ckpt_blocks_tick *tick,
		     struct ckpt_moved *moved, struct ckpt_error *err);

#endif

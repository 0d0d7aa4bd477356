/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CKPT_PLAN_COPY_BLOCKS_H
#define CKPT_PLAN_COPY_BLOCKS_H

#include "io/sink.h"
#include "io/workers.h"
#include "plan/moved.h"
#include "tensor/recipe.h"

/* Memory that a worker needs. */
size_t ckpt_copy_buffer_size(void);

/*
 * Copy the bytes of RECIPE to AT of SINK through memory, in blocks that several threads read,
 * change if RECIPE is a map or a mean, checksum and write in parallel (read_blocks.h). TICK is called by
 * the caller's thread after some blocks: DONE bytes are written. An error of reading names the
 * file that was read. The recorded checksums of what a map or a mean reads are compared (ckpt_recipe_check).
 */
int ckpt_copy_blocks(struct ckpt_workers *workers, const struct ckpt_recipe *recipe,
		     struct ckpt_sink *sink, uint64_t at,
		     int (*tick)(void *ctx, uint64_t done, struct ckpt_error *err), void *tick_ctx,
		     struct ckpt_moved *moved, struct ckpt_error *err);

#endif

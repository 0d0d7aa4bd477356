/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CKPT_PLAN_COPY_MADE_H
#define CKPT_PLAN_COPY_MADE_H

#include "io/sink.h"
#include "io/workers.h"
#include "plan/moved.h"
#include "tensor/made.h"

/*
 * Make all of MADE with several threads, a band each, and write it to SINK at AT. TICK and MOVED:
 * as of ckpt_copy_blocks(). WORKERS: with buffers of ckpt_copy_buffer_size() bytes.
 */
int ckpt_copy_made(struct ckpt_workers *workers, const struct ckpt_made *made,
		   struct ckpt_sink *sink, uint64_t at,
		   int (*tick)(void *ctx, uint64_t done, struct ckpt_error *err), void *tick_ctx,
		   struct ckpt_moved *moved, struct ckpt_error *err);

#endif

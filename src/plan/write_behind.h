/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CKPT_PLAN_WRITE_BEHIND_H
#define CKPT_PLAN_WRITE_BEHIND_H

#include "io/sink.h"

/*
 * One thread that writes gathered bytes to a sink while its caller gathers the next ones: with very many small records that is a third of the time. The
 * thread starts with the first write that is given to it, and takes no signals. One write is under way at a time, and nobody else may use the sink
 * before ckpt_write_behind_wait(). For one caller.
 */
struct ckpt_write_behind;

struct ckpt_write_behind *ckpt_write_behind_new(struct ckpt_sink *sink);

/* Waits, and ends the thread. NULL is allowed. */
void ckpt_write_behind_free(struct ckpt_write_behind *w);

/*
 * Write LEN bytes at OFF, which stay as they are until the next call. First waits for the write before, whose failure it returns. Where there
 * can be no thread it writes them itself.
 */
int ckpt_write_behind_put(struct ckpt_write_behind *w, uint64_t off, const void *bytes, size_t len, struct ckpt_error *err);

/* Until nothing is under way: 0, or what failed. */
int ckpt_write_behind_wait(struct ckpt_write_behind *w, struct ckpt_error *err);

#endif

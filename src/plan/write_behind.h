/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CKPT_PLAN_WRITE_BEHIND_H
#define CKPT_PLAN_WRITE_BEHIND_H

#include "io/sink.h"

/*
 * A thread that writes gathered bytes to a sink while its caller gathers the next ones; with
 * very many small records that saves a third of the time. It starts with the first write and
 * takes no signals. One write is under way at a time, and nobody else may use the sink before
 * ckpt_write_behind_wait(). For one caller.
 */
struct ckpt_write_behind;

struct ckpt_write_behind *ckpt_write_behind_new(struct ckpt_sink *sink);

/* Wait for the write under way, and end the thread. NULL is allowed. */
void ckpt_write_behind_free(struct ckpt_write_behind *w);

/*
 * Begin to write LEN bytes at OFF; the caller leaves BYTES unchanged until the next call. First
 * waits for the previous write, and returns its failure. Without a thread it writes BYTES
 * itself.
 */
int ckpt_write_behind_put(struct ckpt_write_behind *w, uint64_t off, const void *bytes, size_t len,
			  struct ckpt_error *err);

/* Wait until nothing is under way. Returns 0, or the failure of the last write. */
int ckpt_write_behind_wait(struct ckpt_write_behind *w, struct ckpt_error *err);

#endif

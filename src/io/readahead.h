/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CKPT_IO_READAHEAD_H
#define CKPT_IO_READAHEAD_H

#include "io/source.h"
#include "io/stream.h"

/*
 * Reads one extent or stream after another, front to back, in a thread that is some blocks ahead of its
 * caller, so that reading overlaps with what the caller does with the bytes. The thread starts with
 * the first extent that is long enough to gain by it and takes no signals. Where there can be none,
 * the caller's own thread reads. For one caller at a time.
 */
struct ckpt_readahead;

int ckpt_readahead_new(struct ckpt_readahead **out, struct ckpt_error *err);

/* Ends the thread. NULL is allowed. */
void ckpt_readahead_free(struct ckpt_readahead *ahead);

/* Turn to LEN bytes at OFF of SRC, which is borrowed; what was left of the extent before is dropped. */
void ckpt_readahead_begin(struct ckpt_readahead *ahead, const struct ckpt_source *src, uint64_t off,
			  uint64_t len);

/* The same for LEN bytes of STREAM, which is borrowed until the next begin, or the end. */
void ckpt_readahead_begin_stream(struct ckpt_readahead *ahead, struct ckpt_stream *stream,
				 uint64_t len);

/* Done with what was begun: nothing reads it any more. */
void ckpt_readahead_end(struct ckpt_readahead *ahead);

/* The next bytes, valid until the next call; *LEN is 0 behind the last. */
int ckpt_readahead_next(struct ckpt_readahead *ahead, const uint8_t **bytes, size_t *len,
			struct ckpt_error *err);

#endif

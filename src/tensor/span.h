/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CKPT_TENSOR_SPAN_H
#define CKPT_TENSOR_SPAN_H

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>

/*
 * Bytes that are read in one stretch although not all of them are wanted, since a read costs more
 * than some bytes in between. Memory is bounded by CKPT_SPAN_MOST.
 */
enum {
	CKPT_SPAN_MOST = 8 << 20,
	CKPT_SPAN_SHORT = 64 << 10, /* up to here a stretch is always read at once */
	CKPT_SPAN_MOST_WASTE = 4,   /* a longer one if this part of it is wanted */
};

/* Is a stretch of NBYTES worth one read, if WANTED of them are wanted? */
static inline bool ckpt_span_is_worth(uint64_t nbytes, uint64_t wanted)
{
	return nbytes <= CKPT_SPAN_SHORT ||
	       (nbytes <= CKPT_SPAN_MOST && nbytes / CKPT_SPAN_MOST_WASTE <= wanted);
}

/* A buffer for them, to be cleared by free(bytes). */
struct ckpt_span {
	uint8_t *bytes;
	size_t cap;
};

/* Room for NBYTES, whose old contents are lost; NULL: no memory. */
static inline uint8_t *ckpt_span_reserve(struct ckpt_span *span, size_t nbytes)
{
	if (nbytes > span->cap) {
		free(span->bytes);
		span->bytes = malloc(nbytes);
		span->cap = span->bytes ? nbytes : 0;
	}
	return span->bytes;
}

#endif

/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CKPT_TENSOR_CAST_TALLY_H
#define CKPT_TENSOR_CAST_TALLY_H

#include "tensor/cast.h"

#include <pthread.h>

/* Items FROM to TO (which is not one of them). */
struct ckpt_cast_span {
	uint64_t from, to;
};

/*
 * What a cast of many items has lost so far. Threads cast stretches of them in any order; a
 * stretch that is cast twice, as the same bytes are written twice, counts once.
 */
struct ckpt_cast_tally {
	pthread_mutex_t lock;		/* of all below */
	struct ckpt_cast_count count;	/* its places are numbers of items */
	double overflow, underflow;	/* the numbers at these places */
	struct ckpt_cast_span *counted; /* malloc: sorted, apart from each other */
	uint32_t span_count, span_cap;
};

void ckpt_cast_tally_init(struct ckpt_cast_tally *tally);
void ckpt_cast_tally_clear(struct ckpt_cast_tally *tally);

/* ckpt_cast_items() of COUNT items, the first of which is number AT, and count what they lose. */
void ckpt_cast_tally_items(struct ckpt_cast_tally *tally, const struct ckpt_cast *cast, uint64_t at,
			   const void *in, void *out, size_t count);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CKPT_BROADCAST_BUCKET_H
#define CKPT_BROADCAST_BUCKET_H

#include <stdint.h>

/*
 * A token bucket: when may the next bytes go, so that no more than RATE go in a second? Times are in nanoseconds, by a clock
 * that only goes forward. Who is late may catch up on CKPT_BUCKET_NSEC and no more. So in any time T no more goes than
 * RATE * (T + CKPT_BUCKET_NSEC) bytes and what is taken at a time, which should be as little: both together are 100 ms.
 */
enum { CKPT_BUCKET_NSEC = 50 * 1000 * 1000 };

struct ckpt_bucket {
	uint64_t rate; /* bytes a second; 0: any */
	uint64_t next; /* when the bytes that are taken next may go; 0: nothing was taken yet */
};

/* NBYTES, up to 1 GiB, are taken at NOW. Returns when they may go: NOW, or later. */
static inline uint64_t ckpt_bucket_take(struct ckpt_bucket *b, uint64_t now, uint64_t nbytes)
{
	uint64_t earliest = !b->next ? now : now > CKPT_BUCKET_NSEC ? now - CKPT_BUCKET_NSEC : 0, at;

	if (!b->rate)
		return now;
	at = b->next > earliest ? b->next : earliest;
	b->next = at + nbytes * 1000000000u / b->rate;
	return at > now ? at : now;
}

#endif

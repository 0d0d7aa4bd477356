/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CKPT_TESTS_STREAM_ORDER_H
#define CKPT_TESTS_STREAM_ORDER_H

#include <stdbool.h>
#include <stddef.h>

/*
 * What in a GPU's streams comes before what, by clocks of all streams (vector clocks). A stream does one thing after the
 * other; an event is behind what its stream had when it was recorded; a stream that waits for it is behind that, too; and so
 * is all that the program asks for once it has seen that an event is done. Two things that touch the same bytes, one of
 * them to write, have to be in an order: which of them happens to be first here does not matter.
 *
 * Threads of the program count as one: what one of them has seen, all know. The caller does the locking.
 */
enum { STREAM_ORDER_MOST = 256 /* streams, by number from 0 */ };

struct stream_clock {
	unsigned long at[STREAM_ORDER_MOST]; /* by stream: how many of its things are known to be over */
};

struct stream_touch {
	const void *memory;
	size_t nbytes; /* 0: nothing is touched */
	bool writes;
};

/*
 * The next thing of STREAM touches those COUNT ranges. False: something of another stream that touches some of it may come
 * before or after.
 */
bool stream_order_put(unsigned stream, const struct stream_touch *touches, size_t count);

/* Sets what an event is behind, that is recorded in STREAM now. */
void stream_order_record(unsigned stream, struct stream_clock *event);
void stream_order_wait(unsigned stream, const struct stream_clock *event);

/* The program has seen that the event is done, or all of the stream. */
void stream_order_seen(const struct stream_clock *event);
void stream_order_seen_all(unsigned stream);

/* This memory is something else from now on. */
void stream_order_forget(const void *memory, size_t nbytes);

#endif

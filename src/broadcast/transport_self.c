/* SPDX-License-Identifier: Apache-2.0 */
#include "broadcast/transport.h"

#include <stdlib.h>
#include <time.h>

static uint64_t at_least_at_most(uint64_t nsec, uint64_t least, uint64_t most)
{
	return nsec < least ? least : nsec > most ? most : nsec;
}

void ckpt_transport_pause(struct ckpt_transport *t, uint64_t waited)
{
	enum { SHORTEST = 20000, STEP = 1000000, LONGEST = 20 * STEP }; /* nsec */
	uint64_t nsec = waited / 16;

	if (t->ops->wait)
		t->ops->wait(t, at_least_at_most(nsec, STEP, LONGEST));
	else
		nanosleep(&(struct timespec){ 0, (long)at_least_at_most(nsec, SHORTEST, STEP) }, NULL);
}

int ckpt_transport_host_alloc(struct ckpt_transport *t, size_t nbytes, void **out,
			      struct ckpt_error *err)
{
	(void)t;
	*out = aligned_alloc(4096, (nbytes + 4095) / 4096 * 4096);
	return *out ? 0 : ckpt_fail_nomem(err);
}

void ckpt_transport_host_release(struct ckpt_transport *t, void *buffer)
{
	(void)t;
	free(buffer);
}

static int begin(struct ckpt_transport *t, const struct ckpt_transport_chunk *chunk,
		 unsigned ticket, struct ckpt_error *err)
{
	(void)t;
	(void)chunk;
	(void)ticket;
	(void)err;
	return 0;
}

static int test(struct ckpt_transport *t, unsigned ticket, struct ckpt_error *err)
{
	(void)t;
	(void)ticket;
	(void)err;
	return 1;
}

static int vote(struct ckpt_transport *t, uint64_t *numbers, size_t count, uint64_t deadline,
		struct ckpt_error *err)
{
	(void)t;
	(void)numbers;
	(void)count;
	(void)deadline;
	(void)err;
	return 0;
}

static void ignore_abort(struct ckpt_transport *t)
{
	(void)t;
}

static void close_self(struct ckpt_transport *t)
{
	free(t);
}

int ckpt_transport_open_self(struct ckpt_transport **out, struct ckpt_error *err)
{
	static const struct ckpt_transport_ops ops = {
		.name = "self",
		.alloc = ckpt_transport_host_alloc,
		.release = ckpt_transport_host_release,
		.begin = begin,
		.test = test,
		.vote = vote,
		.abort = ignore_abort,
		.close = close_self,
	};

	*out = calloc(1, sizeof(**out));
	if (!*out)
		return ckpt_fail_nomem(err);
	**out = (struct ckpt_transport){ .ops = &ops, .rank = 0, .size = 1 };
	return 0;
}

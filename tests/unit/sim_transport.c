/* SPDX-License-Identifier: Apache-2.0 */
#include "sim_transport.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

struct sim_rank {
	struct ckpt_transport base;
	struct sim *sim;
	unsigned calls;
	unsigned long next; /* its next broadcast */
	bool gone;
	struct {
		unsigned long seq;
		void *buffer;
		size_t nbytes;
		uint32_t root;
		bool flips;
	} tickets[CKPT_MOST_FLYING];
	unsigned polls;
};

void sim_init(struct sim *sim, uint32_t size)
{
	*sim = (struct sim){ .size = size };
	pthread_mutex_init(&sim->lock, NULL);
	pthread_cond_init(&sim->changed, NULL);
}

void sim_clear(struct sim *sim)
{
	for (unsigned i = 0; i < SIM_OPS; i++)
		free(sim->ops[i].from);
	pthread_mutex_destroy(&sim->lock);
	pthread_cond_destroy(&sim->changed);
}

/* Counts a call; true if the rank is no more. */
static bool is_gone(struct sim_rank *r)
{
	r->calls++;
	r->gone |= r->base.rank == r->sim->victim && r->calls == r->sim->dies_at;
	if (r->base.rank == r->sim->victim && r->calls == r->sim->hangs_at)
		usleep(r->sim->hangs_ms * 1000);
	return r->gone;
}

static int fail_gone(struct ckpt_error *err)
{
	return ckpt_fail(err, CKPT_E_PEER, "this rank is gone");
}

static int alloc(struct ckpt_transport *t, size_t nbytes, void **out, struct ckpt_error *err)
{
	(void)t;
	*out = malloc(nbytes);
	return *out ? 0 : ckpt_fail_nomem(err);
}

static void release(struct ckpt_transport *t, void *buffer)
{
	(void)t;
	free(buffer);
}

static int begin(struct ckpt_transport *t, const struct ckpt_transport_chunk *chunk,
		 unsigned ticket, struct ckpt_error *err)
{
	size_t nbytes = chunk->nbytes;
	struct sim_rank *r = (struct sim_rank *)t;
	struct sim_op *op = &r->sim->ops[r->next % SIM_OPS];

	if (is_gone(r))
		return fail_gone(err);
	assert(ticket < CKPT_MOST_FLYING);
	r->tickets[ticket].seq = r->next;
	r->tickets[ticket].buffer = chunk->buffer;
	r->tickets[ticket].nbytes = nbytes;
	r->tickets[ticket].root = chunk->root;
	r->tickets[ticket].flips = t->rank == r->sim->victim && r->calls == r->sim->flips_at;
	if (t->rank == chunk->root) {
		pthread_mutex_lock(&r->sim->lock);
		free(op->from);
		*op = (struct sim_op){ malloc(nbytes + 1), r->next, 0 };
		memcpy(op->from, chunk->buffer, nbytes);
		r->sim->carried += nbytes;
		pthread_mutex_unlock(&r->sim->lock);
	}
	r->next++;
	return 0;
}

static int test(struct ckpt_transport *t, unsigned ticket, struct ckpt_error *err)
{
	struct sim_rank *r = (struct sim_rank *)t;
	unsigned long seq = r->tickets[ticket].seq;
	struct sim_op *op = &r->sim->ops[seq % SIM_OPS];
	uint8_t *bytes = r->tickets[ticket].buffer;
	int done;

	if (r->gone)
		return fail_gone(err);
	if (r->sim->slow && r->polls++ % 3)
		return 0;
	pthread_mutex_lock(&r->sim->lock);
	if (t->rank == r->tickets[ticket].root) {
		done = op->taken == r->sim->size - 1;
	} else {
		done = op->from && op->seq == seq;
		if (done) {
			memcpy(bytes, op->from, r->tickets[ticket].nbytes);
			op->taken++;
		}
	}
	pthread_mutex_unlock(&r->sim->lock);
	if (done && r->tickets[ticket].flips)
		bytes[r->tickets[ticket].nbytes / 2] ^= 1;
	return done;
}

static int vote(struct ckpt_transport *t, uint64_t *numbers, size_t count, uint64_t deadline,
		struct ckpt_error *err)
{
	struct sim_rank *r = (struct sim_rank *)t;
	struct sim *sim = r->sim;
	struct timespec until, now;
	unsigned long mine;
	int rc = 0;

	if (is_gone(r))
		return fail_gone(err);
	clock_gettime(CLOCK_MONOTONIC, &now);
	clock_gettime(CLOCK_REALTIME, &until);
	deadline -= (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
	until.tv_sec += (time_t)(deadline / 1000000000u);
	until.tv_nsec += (long)(deadline % 1000000000u);
	until.tv_sec += until.tv_nsec / 1000000000;
	until.tv_nsec %= 1000000000;
	pthread_mutex_lock(&sim->lock);
	mine = sim->votes;
	for (size_t i = 0; i < count; i++)
		if (sim->voters == 0 || numbers[i] > sim->greatest[i])
			sim->greatest[i] = numbers[i];
	if (++sim->voters == sim->size) {
		memcpy(sim->result, sim->greatest, sizeof(sim->result));
		sim->voters = 0;
		sim->votes++;
		pthread_cond_broadcast(&sim->changed);
	}
	while (rc == 0 && sim->votes == mine)
		if (pthread_cond_timedwait(&sim->changed, &sim->lock, &until))
			rc = ckpt_fail(err, CKPT_E_PEER, "a rank does not vote");
	memcpy(numbers, sim->result, count * sizeof(*numbers));
	pthread_mutex_unlock(&sim->lock);
	return rc;
}

static void let_go(struct ckpt_transport *t)
{
	((struct sim_rank *)t)->gone = true;
}

static void find_silent(struct ckpt_transport *t, uint64_t nsec, char *text, size_t size)
{
	struct sim *sim = ((struct sim_rank *)t)->sim;

	(void)nsec;
	if (sim->dies_at && t->rank != sim->victim)
		snprintf(text, size, "rank %u (sim)", sim->victim);
}

static void close_rank(struct ckpt_transport *t)
{
	free(t);
}

struct ckpt_transport *sim_open(struct sim *sim, uint32_t rank)
{
	static const struct ckpt_transport_ops ops = {
		.name = "sim",
		.alloc = alloc,
		.release = release,
		.begin = begin,
		.test = test,
		.vote = vote,
		.abort = let_go,
		.close = close_rank,
		.find_silent = find_silent,
	};
	struct sim_rank *r = calloc(1, sizeof(*r));

	assert(r && rank < sim->size && sim->size <= SIM_MOST_RANKS);
	r->base = (struct ckpt_transport){ .ops = &ops, .rank = rank, .size = sim->size };
	r->sim = sim;
	return &r->base;
}

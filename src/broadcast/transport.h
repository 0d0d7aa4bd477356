/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CKPT_BROADCAST_TRANSPORT_H
#define CKPT_BROADCAST_TRANSPORT_H

#include "base/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * Carries bytes between the ranks of a job. All ranks make the same calls of begin() and vote() in
 * the same order. For one thread at a time.
 */
struct ckpt_transport;

enum {
	CKPT_MOST_FLYING = 16, /* broadcasts that were begun and are not done */
	CKPT_MOST_SUMS = 8,    /* checksums that a transport makes of one chunk */
};

/* A part of a chunk that must also be in the GPU's memory, at an address of CUDA. */
struct ckpt_transport_copy {
	size_t from; /* in the chunk */
	uint64_t to;
	size_t nbytes;
};

/* One chunk to carry from rank ROOT to all. */
struct ckpt_transport_chunk {
	void *buffer; /* from alloc(): the bytes on ROOT, the place for them on all others */
	size_t nbytes;
	uint32_t root;
	/*
	 * For transports that carry from GPU to GPU: where the bytes must also be there. Other
	 * transports ignore it, and the caller copies. It may differ between ranks.
	 */
	const struct ckpt_transport_copy *copies;
	size_t copy_count;
	bool not_in_buffer; /* this rank does not read BUFFER afterwards */
	bool sums; /* sum() is asked afterwards: what prepare_sums() allowed, for up to CKPT_MOST_SUMS copies */
};

/* How the network to the next rank was. */
struct ckpt_transport_way {
	uint64_t nbytes, nsec; /* carried, and while there was something to carry and the next rank had room for it */
	const char *next;      /* "rank 2 (nodeC)"; the transport's */
};

struct ckpt_transport_ops {
	const char *name;
	bool is_on_gpu; /* makes the copies of a chunk */

	/* A buffer to broadcast from and into, in memory of the host. */
	int (*alloc)(struct ckpt_transport *t, size_t nbytes, void **out, struct ckpt_error *err);
	void (*release)(struct ckpt_transport *t, void *buffer);

	/*
	 * Begin to carry CHUNK; its buffer must stay, CHUNK itself need not. TICKET, below
	 * CKPT_MOST_FLYING, names it for test().
	 */
	int (*begin)(struct ckpt_transport *t, const struct ckpt_transport_chunk *chunk,
		     unsigned ticket, struct ckpt_error *err);

	/* 1: it is done, 0: not yet. Never waits. */
	int (*test)(struct ckpt_transport *t, unsigned ticket, struct ckpt_error *err);

	/* This rank has moved something, or its disk has: whoever waits for its vote is to wait on. NULL: they do not. */
	void (*say_moving)(struct ckpt_transport *t);

	/* When this rank or another one has last moved something, as far as it is known here, by ckpt_now_nsec(). NULL: of whole
	 * chunks only, by test(). */
	uint64_t (*moved_at)(const struct ckpt_transport *t);

	/* Until test() may have something to do, for NSEC at most. NULL: it cannot be waited for. */
	void (*wait)(struct ckpt_transport *t, uint64_t nsec);

	/*
	 * For transports that are on the GPU, else NULL. From now on chunks may ask for checksums of
	 * their copies, of the bytes where they are to stay; CKPT_E_UNSUPPORTED: this GPU makes
	 * none. To be called when nothing is on its way. The CRC-32 of COPY, once test() has said that the chunk of
	 * TICKET is done, and before the next one gets the ticket.
	 */
	int (*prepare_sums)(struct ckpt_transport *t, struct ckpt_error *err);
	uint32_t (*sum)(struct ckpt_transport *t, unsigned ticket, size_t copy);

	/*
	 * Replace each of the COUNT numbers by the maximum of all ranks. CKPT_E_PEER after
	 * DEADLINE, in nanoseconds of CLOCK_MONOTONIC: the transport cannot be used any more.
	 */
	int (*vote)(struct ckpt_transport *t, uint64_t *numbers, size_t count, uint64_t deadline,
		    struct ckpt_error *err);

	/* Give up peers that do not answer. Only release() and close() may follow. */
	void (*abort)(struct ckpt_transport *t);
	/* On GPUs it may never come back, and is for ckpt_gpu_run_bounded(). */
	void (*close)(struct ckpt_transport *t);

	/*
	 * Called after an error by all ranks that still can, for up to NSEC: which ranks do not
	 * answer any more? TEXT becomes "rank 3 (nodeB)", or names some of several, or is "" if
	 * that cannot be found out. May be NULL.
	 */
	void (*find_silent)(struct ckpt_transport *t, uint64_t nsec, char *text, size_t size);

	/* Without a chunk on its way: has another rank ended? 0: not that it is known. NULL: 0. */
	int (*look)(struct ckpt_transport *t, struct ckpt_error *err);

	/*
	 * The others need not find out that this rank cannot go on: they are told WHY, a whole sentence
	 * with this rank, and end; with CKPT_E_CANCELLED if SIGNAL is not 0. NULL: they find out.
	 */
	void (*stop)(struct ckpt_transport *t, const char *why, int signal);

	/* Which networks and devices the bytes leave by: "tcp/eth0". NULL: it cannot say. */
	void (*describe)(const struct ckpt_transport *t, char *text, size_t size);

	/* False: it cannot say, or the next rank is on this host. NULL: it never can. */
	bool (*look_back)(const struct ckpt_transport *t, struct ckpt_transport_way *out);
};

struct ckpt_transport {
	const struct ckpt_transport_ops *ops;
	uint32_t rank, size;
	/*
	 * An error is what another rank has said by stop(): its sentence, which is that of all ranks, of
	 * TOLD_RANK, and SIGNAL.
	 */
	bool is_told;
	uint32_t told_rank;
	int told_signal;
};

/* alloc() and release() of transports without special needs: whole pages of memory. */
int ckpt_transport_host_alloc(struct ckpt_transport *t, size_t nbytes, void **out,
			      struct ckpt_error *err);
void ckpt_transport_host_release(struct ckpt_transport *t, void *buffer);

/*
 * Before test() is asked again, when nothing has come for WAITED nanoseconds: for a sixteenth of that at most, by which
 * something else is seen late. Whoever waits long leaves the processor to others.
 */
void ckpt_transport_pause(struct ckpt_transport *t, uint64_t waited);

/* One rank: nothing has to be carried. */
int ckpt_transport_open_self(struct ckpt_transport **out, struct ckpt_error *err);

#endif

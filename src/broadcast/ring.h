/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CKPT_BROADCAST_RING_H
#define CKPT_BROADCAST_RING_H

#include "broadcast/landing.h"
#include "broadcast/manifest.h"
#include "broadcast/transport.h"
#include "gpu/slab.h"

/*
 * The stream of bytes through all ranks, in chunks: some threads read what this rank has to read,
 * one thread (the caller's) lets the transport carry chunk after chunk, and the first threads write
 * what came. A chunk has a slot of memory on its way; there are a few, and each holds every so many
 * chunks one.
 *
 * What fails on a rank, reading or writing, does not stop it from carrying: it is noted, and told
 * at the next vote, so that all ranks always do the same in the same order.
 */
struct ckpt_ring;

struct ckpt_ring_options {
	struct ckpt_transport *transport;
	const struct ckpt_manifest *manifest;
	const char *const *sources;   /* by file, for ranks that read: paths to open */
	struct ckpt_landing *landing; /* NULL: no files are written */
	struct ckpt_slab *slab;	      /* NULL: nothing stays on the GPU */
	size_t chunk;		      /* bytes */
	unsigned depth, threads;
	uint32_t readers; /* ranks below it read, in turn */
	bool crc;	  /* look at every byte */
	uint64_t stall_nsec;
	uint64_t vote_every; /* chunks */

	/*
	 * Between two chunks, every so often, on all ranks: not 0 ends the work here, on all of
	 * them.
	 */
	int (*vote)(void *ctx);
	/* Now and then: DONE bytes have come. */
	void (*progress)(void *ctx, uint64_t done);
	void *ctx;
};

int ckpt_ring_new(const struct ckpt_ring_options *options, struct ckpt_ring **out,
		  struct ckpt_error *err);
void ckpt_ring_free(struct ckpt_ring *ring);

/* The first thing that failed on this rank, of reading (READ) or else of writing; 0 if none. */
int ckpt_ring_failed(struct ckpt_ring *ring, bool read, struct ckpt_error *err);

/*
 * Carry everything. 0: all was carried, or the ranks agreed to stop. An error is one of the
 * transport, or of a peer that does not answer: nothing more can be agreed upon.
 */
int ckpt_ring_run(struct ckpt_ring *ring, struct ckpt_error *err);

/* OUT: the CRC-32 of each file, as its bytes came by here. After a whole run with CRC. */
void ckpt_ring_crcs(const struct ckpt_ring *ring, uint32_t *out);

#endif

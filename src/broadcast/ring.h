/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CKPT_BROADCAST_RING_H
#define CKPT_BROADCAST_RING_H

#include "broadcast/landing.h"
#include "broadcast/manifest.h"
#include "broadcast/piece_reader.h"
#include "broadcast/transport.h"
#include "gpu/slab.h"

/*
 * The stream of bytes through all ranks, in chunks: some threads read what this rank has to read,
 * the caller's thread lets the transport carry one chunk after the other, and the first threads
 * write what arrived. Meanwhile a chunk has a slot of memory; there are a few slots.
 *
 * A rank that fails to read or write still carries: the failure is recorded and reported at the
 * next vote, so that all ranks always do the same in the same order.
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
	uint64_t rate;	  /* bytes a second that this rank reads at most; 0: there is no limit */
	enum ckpt_direct direct;
	bool crc;	  /* compute checksums of all bytes */
	uint64_t stall_nsec;
	const volatile int *cancel; /* NULL, or not 0 ends it here at once, if the transport tells the others */
	uint64_t vote_every; /* chunks */

	/* Called between two chunks, at the same places on all ranks: not 0 ends all of them. */
	int (*vote)(void *ctx);
	/* Called now and then: DONE bytes have arrived. */
	void (*progress)(void *ctx, uint64_t done);
	void *ctx;
};

/*
 * From so many bytes on the GPU sums what stays there. Until the driver has compiled the kernel it takes
 * 0.2 s, the first time on a machine. For tests.
 */
extern uint64_t ckpt_ring_gpu_sums_from;

int ckpt_ring_new(const struct ckpt_ring_options *options, struct ckpt_ring **out,
		  struct ckpt_error *err);
void ckpt_ring_free(struct ckpt_ring *ring);

/* The first failure of reading (READ) or of writing on this rank; 0: none. */
int ckpt_ring_failed(struct ckpt_ring *ring, bool read, struct ckpt_error *err);

/*
 * Carry everything. 0: all was carried, or the ranks agreed to stop. An error is one of the
 * transport, or of a peer that does not answer: no further vote is possible.
 */
int ckpt_ring_run(struct ckpt_ring *ring, struct ckpt_error *err);

/*
 * After a run. WAITED: for how long the transport had nothing to do here, as what had come was still to be written. WRITTEN: how
 * long that took, summed over threads.
 */
void ckpt_ring_disk_nsec(struct ckpt_ring *ring, uint64_t *waited, uint64_t *written);

/* OUT: the CRC-32 of the bytes of each file that arrived here. After a whole run with CRC. */
void ckpt_ring_crcs(const struct ckpt_ring *ring, uint32_t *out);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CKPT_BROADCAST_TRANSPORT_GPU_H
#define CKPT_BROADCAST_TRANSPORT_GPU_H

#include "broadcast/transport.h"
#include "gpu/cuda.h"

/* What brings bytes from GPU to GPU: NCCL, or the calling program. For one thread at a time. */
struct ckpt_gpu_carrier {
	const char *name; /* of the transport; static */
	void *self;	  /* owned by the transport, once it is open */

	/* NBYTES at ADDRESS of rank ROOT to the same place of all, in STREAM. */
	int (*broadcast)(void *self, ckpt_cuda_stream stream, ckpt_cuda_address address,
			 size_t nbytes, uint32_t root, struct ckpt_error *err);
	/*
	 * 1: what was asked for is in its stream, and more may be asked for; 0: not yet. Never
	 * waits.
	 */
	int (*ready)(void *self, struct ckpt_error *err);
	/*
	 * Each of COUNT uint64_t at ADDRESS becomes the greatest of all ranks; in STREAM. NULL:
	 * vote() is there.
	 */
	int (*greatest)(void *self, ckpt_cuda_stream stream, ckpt_cuda_address address,
			size_t count, struct ckpt_error *err);
	/* The same with numbers in memory of the host; returns when it is done. */
	int (*vote)(void *self, uint64_t *numbers, size_t count, struct ckpt_error *err);
	/* False: it may use for ever what it was given. */
	bool (*abort)(void *self);
	bool (*close)(void *self); /* SELF may be NULL */
};

/*
 * A chunk goes from the buffer of its root to that rank's GPU, in place to all GPUs, and on every
 * rank that looks at it back into the buffer. Three streams, so that the copies of one chunk
 * overlap with the broadcast of another; buffers are page-locked memory, each with its counterpart
 * on the GPU. CUDA is borrowed and must outlive it.
 *
 * Everything of this rank's own is made first, so that its failures keep nobody waiting; then OPEN
 * makes CARRIER->self, from CTX. The rest of CARRIER is copied.
 */
int ckpt_transport_open_gpu(struct ckpt_cuda *cuda, uint32_t rank, uint32_t size,
			    const struct ckpt_gpu_carrier *carrier,
			    int (*open)(void *ctx, void **self, struct ckpt_error *err), void *ctx,
			    struct ckpt_transport **out, struct ckpt_error *err);

#endif

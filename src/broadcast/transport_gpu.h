/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CKPT_BROADCAST_TRANSPORT_GPU_H
#define CKPT_BROADCAST_TRANSPORT_GPU_H

#include "broadcast/transport.h"
#include "gpu/cuda.h"
#include "gpu/peers.h"

/* Moves bytes from GPU to GPU: NCCL, or the calling program. For one thread at a time. */
struct ckpt_gpu_carrier {
	const char *name; /* of the transport; static */
	void *self;	  /* owned by the transport, once it is open */

	/* Enqueue in STREAM: send NBYTES at ADDRESS from rank ROOT to the same place on all. */
	int (*broadcast)(void *self, ckpt_cuda_stream stream, ckpt_cuda_address address,
			 size_t nbytes, uint32_t root, struct ckpt_error *err);
	/* 1: the last call is in its stream, and another may follow; 0: not yet. Never waits. */
	int (*ready)(void *self, struct ckpt_error *err);
	/*
	 * Enqueue in STREAM: replace each of COUNT uint64_t at ADDRESS by the maximum of all
	 * ranks. NULL: there is vote() instead.
	 */
	int (*greatest)(void *self, ckpt_cuda_stream stream, ckpt_cuda_address address,
			size_t count, struct ckpt_error *err);
	/* The same with numbers in memory of the host; returns when it is done. */
	int (*vote)(void *self, uint64_t *numbers, size_t count, struct ckpt_error *err);
	/*
	 * Both may wait as long as they like. False: it goes on using what it was given, which is
	 * then left alone for good.
	 */
	bool (*abort)(void *self);
	void (*close)(void *self); /* SELF may be NULL */
};

/*
 * A chunk goes from the buffer of its root to that rank's GPU, in place to all GPUs, and, on every
 * rank that reads it, back into the buffer. There are three streams, so that the copies of one
 * chunk overlap with the broadcast of another; buffers are page-locked memory, each with its
 * counterpart on the GPU. CUDA is counted.
 *
 * Everything that needs only this rank is made first, so that no failure of it keeps others
 * waiting; then OPEN makes CARRIER->self, from CTX; if it fails and sets it, it is closed. The rest
 * of CARRIER is copied.
 *
 * PEERS, copied, is asked while this rank waits, and told before a failure to open aborts. Who calls
 * abort() later has to tell them.
 *
 * Only close() and a failure to open make the calls that may wait for whatever the GPU does, or for
 * NCCL: they are for ckpt_gpu_run_bounded().
 */
int ckpt_transport_open_gpu(struct ckpt_cuda *cuda, uint32_t rank, uint32_t size,
			    const struct ckpt_gpu_carrier *carrier,
			    int (*open)(void *ctx, void **self, struct ckpt_error *err), void *ctx,
			    const struct ckpt_gpu_peers *peers, struct ckpt_transport **out,
			    struct ckpt_error *err);

#endif

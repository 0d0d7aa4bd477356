/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CKPT_GPU_NCCL_COMM_H
#define CKPT_GPU_NCCL_COMM_H

#include "gpu/cuda.h"
#include "gpu/nccl.h"
#include "gpu/peers.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * A communicator of NCCL that lets nobody wait: what is asked for may get into its stream a while
 * later, and nothing more may be asked for before. NCCL does not notice a peer that is silent; that
 * is the caller's. For one thread at a time. Errors are those of ckpt_nccl_fail().
 */
struct ckpt_nccl_comm;

/*
 * As ckpt_transport_open_nccl(). CUDA is counted. On a failure *OUT is NULL, or one that only
 * close() may have: NCCL may still be at work on it.
 */
int ckpt_nccl_comm_open(struct ckpt_cuda *cuda, const struct ckpt_nccl_id *id, uint32_t rank,
			uint32_t size, uint64_t deadline, const struct ckpt_gpu_peers *peers,
			struct ckpt_nccl_comm **out, struct ckpt_error *err);

/*
 * 1: what was asked for is in its stream, 0: not yet. Never waits; hears of what has failed since.
 */
int ckpt_nccl_comm_ready(struct ckpt_nccl_comm *comm, struct ckpt_error *err);

/* NBYTES at ADDRESS of rank ROOT to the same place of all. */
int ckpt_nccl_comm_broadcast(struct ckpt_nccl_comm *comm, ckpt_cuda_stream stream,
			     ckpt_cuda_address address, size_t nbytes, uint32_t root,
			     struct ckpt_error *err);

/* Each of COUNT uint64_t at ADDRESS becomes the greatest of all ranks. */
int ckpt_nccl_comm_greatest(struct ckpt_nccl_comm *comm, ckpt_cuda_stream stream,
			    ckpt_cuda_address address, size_t count, struct ckpt_error *err);

/* Stop what hangs. NCCL may never come back from that: it is for ckpt_gpu_run_bounded(). */
void ckpt_nccl_comm_abort(struct ckpt_nccl_comm *comm);

/*
 * End it with the others, within half of the grace period, or by abort() if they do not, or if
 * there was an error. For ckpt_gpu_run_bounded() as well. NULL is allowed.
 */
void ckpt_nccl_comm_close(struct ckpt_nccl_comm *comm);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CKPT_GPU_NCCL_COMM_H
#define CKPT_GPU_NCCL_COMM_H

#include "gpu/cuda.h"
#include "gpu/nccl.h"

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
 * How long close() waits for the others to end it with us, and abort() for NCCL to come back: 10 s.
 * For tests, which change it before there is any communicator.
 */
extern uint64_t ckpt_nccl_grace_nsec;

/* As ckpt_transport_open_nccl(). */
int ckpt_nccl_comm_open(struct ckpt_cuda *cuda, const struct ckpt_nccl_id *id, uint32_t rank,
			uint32_t size, uint64_t deadline, struct ckpt_nccl_comm **out,
			struct ckpt_error *err);

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

/*
 * Stop what hangs. False: NCCL did not even come back from that, and may still use all memory that
 * it was given: the communicator, CUDA and that memory have to be left alone for good.
 */
bool ckpt_nccl_comm_abort(struct ckpt_nccl_comm *comm);

/* End it with the others, or by abort() if they do not. False as there. NULL is allowed. */
bool ckpt_nccl_comm_close(struct ckpt_nccl_comm *comm);

#endif

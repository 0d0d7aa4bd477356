/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CKPT_BROADCAST_TRANSPORT_NCCL_H
#define CKPT_BROADCAST_TRANSPORT_NCCL_H

#include "broadcast/transport.h"
#include "gpu/cuda.h"
#include "gpu/nccl.h"
#include "gpu/peers.h"

/*
 * From GPU to GPU by NCCL; transport_gpu.h says how. NCCL does not report that a peer has died: the
 * caller has deadlines, and abort() ends what hangs.
 *
 * All ranks call it with the same ID, which rank 0 made. CUDA is counted.
 * CKPT_E_PEER if not all ranks came before DEADLINE, in nanoseconds of CLOCK_MONOTONIC;
 * CKPT_E_UNSUPPORTED if NCCL and the driver do not fit together. PEERS: copied, may be NULL; asked
 * in every wait, also later.
 */
int ckpt_transport_open_nccl(struct ckpt_cuda *cuda, const struct ckpt_nccl_id *id, uint32_t rank,
			     uint32_t size, uint64_t deadline, const struct ckpt_gpu_peers *peers,
			     struct ckpt_transport **out, struct ckpt_error *err);

#endif

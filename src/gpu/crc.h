/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CKPT_GPU_CRC_H
#define CKPT_GPU_CRC_H

#include "gpu/cuda.h"

/*
 * The CRC-32 of memory of a GPU, computed by the GPU: the one of zlib, as libdeflate_crc32(0, ...)
 * makes it. The bytes do not leave the GPU.
 */
struct ckpt_cuda_crc;

enum {
	CKPT_CUDA_CRC_BLOCKS = 64, /* of 256 threads: leaves most of a large GPU to others */
	CKPT_CUDA_CRC_MOST_BLOCKS = 1024,
};

/*
 * Compiles and loads the kernel, and tries it out: the driver loads nothing later, which could wait
 * for what runs on the GPU. BLOCKS: how many the kernel runs at a time, such as CKPT_CUDA_CRC_BLOCKS.
 * SLOTS: how many results can be on their way, or unread, at a time.
 *
 * CKPT_E_UNSUPPORTED: the driver does not load the kernel, or the kernel does not compute what the
 * host does. The GPU is of use all the same, and the host can compute the sums. CKPT_E_GPU: as in
 * cuda.h.
 */
int ckpt_cuda_crc_new(struct ckpt_cuda *cuda, uint32_t blocks, uint32_t slots,
		      struct ckpt_cuda_crc **out, struct ckpt_error *err);

/*
 * Enqueues the sum of NBYTES from any address on, 2^40 of them at most. They must stay as they are
 * until an event recorded behind it in STREAM is done; then SLOT has the result. Many may be in
 * flight, in any streams and from any threads, each with a slot of its own.
 */
int ckpt_cuda_crc_in(struct ckpt_cuda_crc *crc, ckpt_cuda_stream stream, ckpt_cuda_address from,
		     uint64_t nbytes, uint32_t slot, struct ckpt_error *err);

/* What the last ckpt_cuda_crc_in() for SLOT found. It stays until the next one. */
uint32_t ckpt_cuda_crc_get(const struct ckpt_cuda_crc *crc, uint32_t slot);

/* Nothing of it may be in flight. It waits as others that release do (cuda.h). NULL is allowed. */
void ckpt_cuda_crc_free(struct ckpt_cuda_crc *crc);

#endif

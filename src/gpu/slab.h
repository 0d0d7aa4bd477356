/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CKPT_GPU_SLAB_H
#define CKPT_GPU_SLAB_H

#include "gpu/cuda.h"
#include "io/source.h"

/*
 * Files in one stretch of the GPU's memory. Each begins at a multiple of 256 bytes, as memory of
 * the driver does: what is aligned in the file is aligned on the GPU. Writing and reading may be
 * done by several threads at once.
 */
struct ckpt_slab;

/*
 * SIZES in bytes. CKPT_E_GPU if the GPU has not so much
 * memory left.
 */
int ckpt_slab_open(struct ckpt_cuda *cuda, const uint64_t *sizes, uint32_t count,
		   struct ckpt_slab **out, struct ckpt_error *err);
void ckpt_slab_free(struct ckpt_slab *slab);

/* Of byte OFF of FILE. */
ckpt_cuda_address ckpt_slab_address(const struct ckpt_slab *slab, uint32_t file, uint64_t off);

int ckpt_slab_write(struct ckpt_slab *slab, uint32_t file, uint64_t off, const void *bytes,
		    size_t len, struct ckpt_error *err);

/* LEN bytes at ADDRESS; CKPT_E_ARG if they are not all in the slab. */
int ckpt_slab_read(const struct ckpt_slab *slab, ckpt_cuda_address address, void *to, size_t len,
		   struct ckpt_error *err);

/* FILE, to be read like any other; the slab must outlive it. */
int ckpt_slab_source(struct ckpt_slab *slab, uint32_t file, struct ckpt_source **out,
		     struct ckpt_error *err);

#endif

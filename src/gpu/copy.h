/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CKPT_GPU_COPY_H
#define CKPT_GPU_COPY_H

#include "gpu/slab.h"

/* What <ckpt/gpu.h> shows. */
struct ckpt_gpu_copy {
	struct ckpt_cuda *cuda; /* owned */
	struct ckpt_slab *slab; /* owned */
	uint32_t count;
	char **paths; /* owned: by file */
	uint64_t *sizes;
	struct ckpt_source **sources; /* owned: by file */
	bool is_directory;
};

/*
 * Room for COUNT files of these sizes on GPU number ORDINAL. PATHS are copied. On failure there is
 * none.
 */
int ckpt_gpu_copy_new(uint32_t ordinal, const char *const *paths, const uint64_t *sizes,
		      uint32_t count, bool is_directory, struct ckpt_gpu_copy **out,
		      struct ckpt_error *err);
/*
 * Within the grace period (bounded.h): after it, the memory is freed as soon as the GPU lets it be.
 * end() waits for that. NULL is allowed.
 */
void ckpt_gpu_copy_end(struct ckpt_gpu_copy *copy);
void ckpt_gpu_copy_free(struct ckpt_gpu_copy *copy);

#endif

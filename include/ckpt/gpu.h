/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CKPT_GPU_H
#define CKPT_GPU_H

#include <ckpt/model.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 * What ckpt_broadcast() with CKPT_BROADCAST_TO_GPU leaves in the memory of this process's GPU: the
 * bytes of every file, unchanged, in the GPU's primary context, in which torch and programs with
 * the CUDA runtime work. Addresses are those of CUDA (CUdeviceptr; a `void *` of the runtime).
 *
 * Several threads may call these functions, as long as none releases the copy.
 */
struct ckpt_gpu_copy;

struct ckpt_gpu_file {
	size_t size;
	/* as it would be on disk: a file's name, or the path in a directory; borrowed */
	const char *path;
	uint64_t address; /* of its first byte, a multiple of 256 */
	uint64_t nbytes;
};
#define CKPT_GPU_FILE_INIT \
	{ \
		.size = sizeof(struct ckpt_gpu_file) \
	}

CKPT_API uint32_t ckpt_gpu_file_count(const struct ckpt_gpu_copy *copy);

/* FILE from 0 on. Returns 0 or CKPT_E_ARG. */
CKPT_API int ckpt_gpu_file_get(const struct ckpt_gpu_copy *copy, uint32_t file,
			       struct ckpt_gpu_file *out);

/*
 * Open FILE as a checkpoint, from the GPU's memory instead of the disk; ckpt_tensor_get() describes
 * its tensors. Give it to ckpt_close() before the copy is released. Errors are those of
 * ckpt_open(), and CKPT_E_GPU. The files of a directory are only parts of a checkpoint and cannot
 * be opened one by one: CKPT_E_UNSUPPORTED.
 */
CKPT_API int ckpt_gpu_open(const struct ckpt_gpu_copy *copy, uint32_t file, struct ckpt_model **out,
			   struct ckpt_error *err);

/*
 * Set *OUT to the address on the GPU of the first item of tensor I of MODEL, which ckpt_gpu_open()
 * opened; the other items follow by its strides. It is 0 for a tensor without bytes.
 * CKPT_E_UNSUPPORTED for tensors whose bytes in the file are not those of the tensor: in compressed
 * records, in big-endian files, sparse and quantized ones, and those inside the pickle.
 */
CKPT_API int ckpt_gpu_tensor_address(const struct ckpt_gpu_copy *copy,
				     const struct ckpt_model *model, uint64_t i, uint64_t *out,
				     struct ckpt_error *err);

/* Copy NBYTES at ADDRESS, which must be in the copy, into memory of the host. */
CKPT_API int ckpt_gpu_read(const struct ckpt_gpu_copy *copy, uint64_t address, void *to,
			   size_t nbytes, struct ckpt_error *err);

/*
 * Free the memory on the GPU. NULL is allowed. The driver waits for everything that runs on the
 * GPU; after 10 s this function returns, and a thread frees the memory when the driver lets it.
 */
CKPT_API void ckpt_gpu_release(struct ckpt_gpu_copy *copy);

/*
 * How many threads of this library still wait for a driver or NCCL that did not come back within
 * 10 s, after a broadcast or a release. As long as it is not 0, exit handlers of these libraries may
 * hang or crash: end the process by _exit().
 */
CKPT_API unsigned ckpt_gpu_hanging_calls(void);

#ifdef __cplusplus
}
#endif
#endif

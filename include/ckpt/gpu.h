/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CKPT_GPU_H
#define CKPT_GPU_H

#include <ckpt/model.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 * What ckpt_broadcast() with CKPT_BROADCAST_TO_GPU leaves in the memory of this process's GPU: the bytes of every
 * file, as they are in the file, in the primary context of the GPU: the one that programs with the CUDA runtime,
 * and torch, work in. Addresses are those of CUDA (CUdeviceptr; a `void *` of the runtime).
 *
 * Functions may be called by several threads, as long as none releases the copy.
 */
struct ckpt_gpu_copy;

struct ckpt_gpu_file {
	size_t size;
	const char *
		path; /* as it would have been staged: a file's name, or the path in a directory. Borrowed */
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
 * Open FILE as a checkpoint, from the GPU's memory and not from disk: names, dtypes, shapes and strides of its tensors are
 * those that ckpt_tensor_get() tells. To be given to ckpt_close() before the copy is released. Errors are those of
 * ckpt_open(), and CKPT_E_GPU. A directory's files are pieces, and cannot be opened one by one: CKPT_E_UNSUPPORTED.
 */
CKPT_API int ckpt_gpu_open(const struct ckpt_gpu_copy *copy, uint32_t file, struct ckpt_model **out,
			   struct ckpt_error *err);

/*
 * *OUT: where the first item of tensor I of MODEL, opened by ckpt_gpu_open(), is on the GPU; the others follow by
 * its strides. 0 for a tensor without bytes. CKPT_E_UNSUPPORTED for tensors that are not in the file as they are: in
 * compressed records, of big-endian files, sparse and quantized ones and those inside the pickle.
 */
CKPT_API int ckpt_gpu_tensor_address(const struct ckpt_gpu_copy *copy,
				     const struct ckpt_model *model, uint64_t i, uint64_t *out,
				     struct ckpt_error *err);

/* Bring NBYTES at ADDRESS, which must be of the copy, into memory of the host. */
CKPT_API int ckpt_gpu_read(const struct ckpt_gpu_copy *copy, uint64_t address, void *to,
			   size_t nbytes, struct ckpt_error *err);

/* Free the memory on the GPU. NULL is allowed. */
CKPT_API void ckpt_gpu_release(struct ckpt_gpu_copy *copy);

#ifdef __cplusplus
}
#endif
#endif

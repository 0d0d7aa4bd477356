/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CKPT_GPU_CUDA_DRIVER_H
#define CKPT_GPU_CUDA_DRIVER_H

#include "gpu/cuda.h"

struct CUctx_st;
struct CUmod_st;
struct CUfunc_st;

/*
 * What is taken from libcuda.so.1: symbols as cuda.h of CUDA 11 to 13 has them behind its macros
 * (cuMemAlloc is cuMemAlloc_v2), with their arguments. Every one returns a CUresult.
 * tests/unit/test_gpu_headers.c holds the table against the real header.
 */
#define CKPT_CUDA_CALLS(X) \
	X(cuInit, unsigned flags) \
	X(cuDriverGetVersion, int *version) \
	X(cuGetErrorName, unsigned code, const char **name) \
	X(cuGetErrorString, unsigned code, const char **text) \
	X(cuDeviceGetCount, int *count) \
	X(cuDeviceGet, int *device, int ordinal) \
	X(cuDeviceGetPCIBusId, char *id, int size, int device) \
	X(cuDevicePrimaryCtxRetain, struct CUctx_st **context, int device) \
	X(cuDevicePrimaryCtxRelease_v2, int device) \
	X(cuCtxPushCurrent_v2, struct CUctx_st *context) \
	X(cuCtxPopCurrent_v2, struct CUctx_st **context) \
	X(cuMemAlloc_v2, unsigned long long *address, size_t nbytes) \
	X(cuMemFree_v2, unsigned long long address) \
	X(cuMemHostAlloc, void **memory, size_t nbytes, unsigned flags) \
	X(cuMemFreeHost, void *memory) \
	X(cuMemHostRegister_v2, void *memory, size_t nbytes, unsigned flags) \
	X(cuMemHostUnregister, void *memory) \
	X(cuMemcpyHtoDAsync_v2, unsigned long long to, const void *from, size_t nbytes, \
	  struct CUstream_st *stream) \
	X(cuMemcpyDtoHAsync_v2, void *to, unsigned long long from, size_t nbytes, \
	  struct CUstream_st *stream) \
	X(cuMemcpyDtoDAsync_v2, unsigned long long to, unsigned long long from, size_t nbytes, \
	  struct CUstream_st *stream) \
	X(cuStreamCreate, struct CUstream_st **stream, unsigned flags) \
	X(cuStreamDestroy_v2, struct CUstream_st *stream) \
	X(cuStreamSynchronize, struct CUstream_st *stream) \
	X(cuStreamWaitEvent, struct CUstream_st *stream, struct CUevent_st *event, unsigned flags) \
	X(cuEventCreate, struct CUevent_st **event, unsigned flags) \
	X(cuEventDestroy_v2, struct CUevent_st *event) \
	X(cuEventRecord, struct CUevent_st *event, struct CUstream_st *stream) \
	X(cuEventQuery, struct CUevent_st *event) \
	X(cuModuleLoadData, struct CUmod_st **module, const void *image) \
	X(cuModuleUnload, struct CUmod_st *module) \
	X(cuModuleGetFunction, struct CUfunc_st **function, struct CUmod_st *module, \
	  const char *name) \
	X(cuLaunchKernel, struct CUfunc_st *function, unsigned grid_x, unsigned grid_y, \
	  unsigned grid_z, unsigned block_x, unsigned block_y, unsigned block_z, \
	  unsigned shared_nbytes, struct CUstream_st *stream, void **arguments, void **extra)

/* A CUuuid. */
struct ckpt_cuda_uuid {
	char bytes[16];
};

/* From CUDA 11.4 on, and 9.2: NULL where it is missing. */
#define CKPT_CUDA_OPTIONAL_CALLS(X) \
	X(cuDeviceGetUuid_v2, struct ckpt_cuda_uuid *uuid, int device) \
	X(cuDeviceGetUuid, struct ckpt_cuda_uuid *uuid, int device)

enum {
	CKPT_CU_STUB_LIBRARY = 34,
	CKPT_CU_NO_DEVICE = 100,
	CKPT_CU_NOT_READY = 600,
	CKPT_CU_STREAM_NON_BLOCKING =
		1, /* does not wait for the stream that others may use by default */
	CKPT_CU_EVENT_DISABLE_TIMING = 2,
	CKPT_CU_MEMHOSTALLOC_PORTABLE = 1, /* page-locked for all GPUs */
	CKPT_CU_MEMHOSTREGISTER_PORTABLE = 1,
};

struct ckpt_cuda_driver {
	char path[512]; /* of the library */
	int version;
#define CKPT_CUDA_MEMBER(name, ...) unsigned (*name)(__VA_ARGS__);
	CKPT_CUDA_CALLS(CKPT_CUDA_MEMBER)
	CKPT_CUDA_OPTIONAL_CALLS(CKPT_CUDA_MEMBER)
#undef CKPT_CUDA_MEMBER
};

/*
 * The driver, made ready; the same for the whole process once there is one. $CKPT_CUDA_LIB: the
 * library to take. VERSION is set as soon as it is known, else 0, for a driver that is there but of
 * no use as well.
 */
int ckpt_cuda_driver_get(const struct ckpt_cuda_driver **out, int *version, struct ckpt_error *err);

/* The name of this host, or "this host". */
const char *ckpt_cuda_host_name(char buf[65]);

/* "12.4" */
const char *ckpt_cuda_version_text(int version, char buf[16]);

/* "CUDA_ERROR_OUT_OF_MEMORY (out of memory)" */
const char *ckpt_cuda_code_text(const struct ckpt_cuda_driver *driver, unsigned code,
				char buf[200]);

/*
 * CUDA's context becomes the calling thread's, behind which the one that it had waits for leave().
 * CODE: what CALL returned meanwhile; not 0 is an error.
 */
int ckpt_cuda_enter(struct ckpt_cuda *cuda, struct ckpt_error *err);
int ckpt_cuda_leave(struct ckpt_cuda *cuda, const char *call, unsigned code,
		    struct ckpt_error *err);

#endif

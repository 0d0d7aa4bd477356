/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CKPT_GPU_NCCL_LIBRARY_H
#define CKPT_GPU_NCCL_LIBRARY_H

#include "gpu/nccl.h"

#include <stddef.h>

struct ncclComm;
struct CUstream_st;

/*
 * ncclConfig_t as of 2.14. Later libraries take what it lacks from their own standards, as VERSION
 * says how old it is.
 */
struct ckpt_nccl_config {
	size_t size;
	unsigned magic, version;
	int blocking;
};
#define CKPT_NCCL_CONFIG_INIT \
	{ \
		.size = sizeof(struct ckpt_nccl_config), .magic = 0xcafebeef, .version = 21400 \
	}

/*
 * What is taken from libnccl.so.2: symbols of nccl.h from 2.14 on, what they return and their
 * arguments. tests/unit/test_gpu_headers.c holds the table against the real header.
 */
#define CKPT_NCCL_CALLS(X) \
	X(unsigned, ncclGetVersion, int *version) \
	X(unsigned, ncclGetUniqueId, struct ckpt_nccl_id *id) \
	X(unsigned, ncclCommInitRankConfig, struct ncclComm **comm, int size, \
	  struct ckpt_nccl_id id, int rank, struct ckpt_nccl_config *config) \
	X(unsigned, ncclCommGetAsyncError, struct ncclComm *comm, unsigned *code) \
	X(unsigned, ncclCommFinalize, struct ncclComm *comm) \
	X(unsigned, ncclCommDestroy, struct ncclComm *comm) \
	X(unsigned, ncclCommAbort, struct ncclComm *comm) \
	X(unsigned, ncclBroadcast, const void *from, void *to, size_t count, unsigned type, \
	  int root, struct ncclComm *comm, struct CUstream_st *stream) \
	X(unsigned, ncclAllReduce, const void *from, void *to, size_t count, unsigned type, \
	  unsigned op, struct ncclComm *comm, struct CUstream_st *stream) \
	X(const char *, ncclGetErrorString, unsigned code) \
	X(const char *, ncclGetLastError, struct ncclComm *comm)

enum {
	CKPT_NCCL_UNHANDLED_CUDA_ERROR = 1,
	CKPT_NCCL_SYSTEM_ERROR = 2,
	CKPT_NCCL_INTERNAL_ERROR = 3,
	CKPT_NCCL_INVALID_ARGUMENT = 4,
	CKPT_NCCL_INVALID_USAGE = 5,
	CKPT_NCCL_REMOTE_ERROR = 6,
	CKPT_NCCL_IN_PROGRESS = 7,
	CKPT_NCCL_UINT8 = 1, /* types */
	CKPT_NCCL_UINT64 = 5,
	CKPT_NCCL_MAX = 2, /* op */
};

struct ckpt_nccl {
	char path[512];
	int version, cuda_major; /* as in struct ckpt_nccl_facts */
#define CKPT_NCCL_MEMBER(type, name, ...) type (*name)(__VA_ARGS__);
	CKPT_NCCL_CALLS(CKPT_NCCL_MEMBER)
#undef CKPT_NCCL_MEMBER
};

/*
 * The library, the same for the whole process once there is one. CKPT_E_UNSUPPORTED: there is none,
 * or it lacks something. The environment is read, and never changed.
 */
int ckpt_nccl_get(const struct ckpt_nccl **out, struct ckpt_error *err);

/* "2.28.9" */
const char *ckpt_nccl_version_text(int version, char buf[16]);

/*
 * CALL returned CODE: what NCCL says about it, which library it is, and DRIVER_VERSION (0: left
 * out). CKPT_E_GPU; CKPT_E_SYSTEM for what this system refused; CKPT_E_UNSUPPORTED for what should
 * not have been asked, such as ranks with different versions; CKPT_E_PEER: another rank is gone.
 */
int ckpt_nccl_fail(const struct ckpt_nccl *nccl, const char *call, unsigned code,
		   int driver_version, struct ckpt_error *err);

#endif

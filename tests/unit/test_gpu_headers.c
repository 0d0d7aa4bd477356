/* SPDX-License-Identifier: Apache-2.0 */
/* What is declared by hand of CUDA and NCCL is what their headers say, where these are found. All of it while compiling. */
#include "unit.h"

#include <stdio.h>

#if __has_include(<cuda.h>) && __has_include(<nccl.h>)
#include <cuda.h>
#include <nccl.h>
#undef cuDeviceGetUuid

#include "gpu/cuda_driver.h"
#include "gpu/nccl_library.h"

#include <stddef.h>
#include <string.h>

#define IS(value, ours) _Static_assert((int)(value) == (int)(ours), #value)

IS(CUDA_ERROR_STUB_LIBRARY, CKPT_CU_STUB_LIBRARY);
IS(CUDA_ERROR_NO_DEVICE, CKPT_CU_NO_DEVICE);
IS(CUDA_ERROR_NOT_READY, CKPT_CU_NOT_READY);
IS(CU_STREAM_NON_BLOCKING, CKPT_CU_STREAM_NON_BLOCKING);
IS(CU_EVENT_DISABLE_TIMING, CKPT_CU_EVENT_DISABLE_TIMING);
IS(CU_MEMHOSTALLOC_PORTABLE, CKPT_CU_MEMHOSTALLOC_PORTABLE);
IS(CU_MEMHOSTREGISTER_PORTABLE, CKPT_CU_MEMHOSTREGISTER_PORTABLE);
IS(ncclUnhandledCudaError, CKPT_NCCL_UNHANDLED_CUDA_ERROR);
IS(ncclSystemError, CKPT_NCCL_SYSTEM_ERROR);
IS(ncclInternalError, CKPT_NCCL_INTERNAL_ERROR);
IS(ncclRemoteError, CKPT_NCCL_REMOTE_ERROR);
IS(ncclInvalidArgument, CKPT_NCCL_INVALID_ARGUMENT);
IS(ncclInvalidUsage, CKPT_NCCL_INVALID_USAGE);
IS(ncclInProgress, CKPT_NCCL_IN_PROGRESS);
IS(ncclUint8, CKPT_NCCL_UINT8);
IS(ncclUint64, CKPT_NCCL_UINT64);
IS(ncclMax, CKPT_NCCL_MAX);

/* Every symbol has the type that it is called with. */
#define SAME_TYPE(name, ours) _Static_assert(_Generic(&name, ours : 1, default : 0), #name)
#define CHECK_CUDA(name, ...) SAME_TYPE(name, unsigned (*)(__VA_ARGS__));
CKPT_CUDA_CALLS(CHECK_CUDA)

/* cuda.h of CUDA 13 has no more than the newer one, under both names. */
_Static_assert(_Generic(&cuDeviceGetUuid_v2, CUresult (*)(CUuuid *, CUdevice) : 1, default : 0),
	       "cuDeviceGetUuid_v2");
_Static_assert(sizeof(CUuuid) == sizeof(struct ckpt_cuda_uuid), "CUuuid");

_Static_assert(sizeof(CUdeviceptr) == sizeof(ckpt_cuda_address), "CUdeviceptr");
_Static_assert(sizeof(CUresult) == sizeof(unsigned), "CUresult");

/* Two structs have names of their own here, and are passed in two calls. */
#define SAME_SIZE(theirs, ours) \
	_Static_assert(sizeof(theirs) == sizeof(ours) && _Alignof(theirs) == _Alignof(ours), \
		       #theirs)
SAME_SIZE(ncclUniqueId, struct ckpt_nccl_id);
SAME_SIZE(ncclResult_t, unsigned);
SAME_SIZE(ncclDataType_t, unsigned);
SAME_SIZE(ncclRedOp_t, unsigned);
#define CHECK_NCCL(type, name, ...) \
	_Static_assert(_Generic(&name, type(*)(__VA_ARGS__) : 1, unsigned (*)(ncclUniqueId *) : 1, \
				unsigned (*)(ncclComm_t *, int, ncclUniqueId, int, \
					     ncclConfig_t *) : 1, \
				default : 0), \
		       #name);
CKPT_NCCL_CALLS(CHECK_NCCL)

/* Ours is the beginning of theirs, as 2.14 had it, and says so. */
#define SAME_PLACE(field) \
	_Static_assert(offsetof(ncclConfig_t, field) == offsetof(struct ckpt_nccl_config, field), \
		       #field)
SAME_PLACE(size);
SAME_PLACE(magic);
SAME_PLACE(version);
SAME_PLACE(blocking);
_Static_assert(sizeof(struct ckpt_nccl_config) <= sizeof(ncclConfig_t), "ncclConfig_t");
_Static_assert(NCCL_VERSION(2, 14, 0) == 21400, "NCCL_VERSION");

static int check_values(void)
{
	const ncclConfig_t theirs = NCCL_CONFIG_INITIALIZER;
	const struct ckpt_nccl_config ours = CKPT_NCCL_CONFIG_INIT;

	if (theirs.magic != ours.magic) {
		printf("ncclConfig_t begins with %#x, not %#x\n", theirs.magic, ours.magic);
		return 1;
	}
	printf("as in cuda.h of CUDA %d and nccl.h of NCCL %d\n", CUDA_VERSION, NCCL_VERSION_CODE);
	return 0;
}

/* cuda.h maps the names that its users write to the symbols of the table. */
#define TEXT(...) #__VA_ARGS__
#define EXPANDED(name) TEXT(name)
#define MAPS(name, symbol) (strcmp(EXPANDED(name), symbol) == 0 ? 0 : (printf("%s\n", symbol), 1))

static int check_symbols(void)
{
	return MAPS(cuDevicePrimaryCtxRelease, "cuDevicePrimaryCtxRelease_v2") +
	       MAPS(cuCtxPushCurrent, "cuCtxPushCurrent_v2") +
	       MAPS(cuCtxPopCurrent, "cuCtxPopCurrent_v2") + MAPS(cuMemAlloc, "cuMemAlloc_v2") +
	       MAPS(cuMemFree, "cuMemFree_v2") + MAPS(cuMemHostAlloc, "cuMemHostAlloc") +
	       MAPS(cuMemFreeHost, "cuMemFreeHost") +
	       MAPS(cuMemHostRegister, "cuMemHostRegister_v2") +
	       MAPS(cuMemHostUnregister, "cuMemHostUnregister") +
	       MAPS(cuMemcpyHtoDAsync, "cuMemcpyHtoDAsync_v2") +
	       MAPS(cuMemcpyDtoHAsync, "cuMemcpyDtoHAsync_v2") +
	       MAPS(cuMemcpyDtoDAsync, "cuMemcpyDtoDAsync_v2") +
	       MAPS(cuStreamCreate, "cuStreamCreate") +
	       MAPS(cuStreamDestroy, "cuStreamDestroy_v2") +
	       MAPS(cuStreamSynchronize, "cuStreamSynchronize") +
	       MAPS(cuStreamWaitEvent, "cuStreamWaitEvent") + MAPS(cuEventCreate, "cuEventCreate") +
	       MAPS(cuEventDestroy, "cuEventDestroy_v2") + MAPS(cuEventRecord, "cuEventRecord") +
	       MAPS(cuEventQuery, "cuEventQuery") +
	       MAPS(cuDevicePrimaryCtxRetain, "cuDevicePrimaryCtxRetain") +
	       MAPS(cuModuleLoadData, "cuModuleLoadData") +
	       MAPS(cuModuleUnload, "cuModuleUnload") +
	       MAPS(cuModuleGetFunction, "cuModuleGetFunction") +
	       MAPS(cuLaunchKernel, "cuLaunchKernel");
}

UNIT_SUITE(test_gpu_headers)
{
	return check_values() || check_symbols();
}

#else

UNIT_SUITE(test_gpu_headers)
{
	puts("cuda.h and nccl.h are not here");
	return 77;
}

#endif

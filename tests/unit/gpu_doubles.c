/* SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"

#include "gpu_doubles.h"

#include "../doubles/fake_cuda.h"

#include <dlfcn.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

char *doubles_path(const char *name)
{
	const char *folder = getenv("CKPT_DOUBLES");

	return unit_path(folder ? folder : "tests/doubles", name);
}

static void point_to(const char *variable, const char *name)
{
	char *path;

	if (!name)
		return;
	path = doubles_path(name);
	setenv(variable, path, 1);
	free(path);
}

void doubles_use(const char *cuda, const char *nccl)
{
	point_to("CKPT_CUDA_LIB", cuda);
	point_to("CKPT_NCCL_LIB", nccl);
}

void *doubles_function(const char *variable, const char *name)
{
	void *lib = dlopen(getenv(variable), RTLD_NOW | RTLD_LOCAL);
	void *function;

	assert_non_null(lib);
	function = dlsym(lib, name);
	assert_non_null(function);
	return function;
}

static unsigned number_of(const char *variable, const char *name)
{
	fake_cuda_number *number;

	*(void **)&number = doubles_function(variable, name);
	return number();
}

unsigned doubles_cuda_calls(void)
{
	return number_of("CKPT_CUDA_LIB", "fake_cuda_calls");
}

unsigned doubles_cuda_live(void)
{
	return number_of("CKPT_CUDA_LIB", "fake_cuda_live");
}

unsigned doubles_nccl_calls(void)
{
	return number_of("CKPT_NCCL_LIB", "stub_nccl_calls");
}

unsigned doubles_nccl_live(void)
{
	return number_of("CKPT_NCCL_LIB", "stub_nccl_live");
}

/* Work that is over when it is told so. */
static bool is_told(void *arg)
{
	return **(atomic_bool **)arg;
}

void doubles_occupy_gpu(atomic_bool *is_over)
{
	unsigned (*init)(unsigned), (*retain)(void **, int), (*push)(void *), (*pop)(void **), (*create)(struct CUstream_st **, unsigned),
		(*alloc)(unsigned long long *, size_t);
	fake_cuda_memory_of *memory;
	fake_cuda_poll_into *poll_in;
	atomic_bool **arg = malloc(sizeof(*arg)); /* the double frees it */
	struct CUstream_st *stream;
	unsigned long long address;
	void *context;

	*arg = is_over;
	*(void **)&init = doubles_function("CKPT_CUDA_LIB", "cuInit");
	*(void **)&retain = doubles_function("CKPT_CUDA_LIB", "cuDevicePrimaryCtxRetain");
	*(void **)&push = doubles_function("CKPT_CUDA_LIB", "cuCtxPushCurrent_v2");
	*(void **)&pop = doubles_function("CKPT_CUDA_LIB", "cuCtxPopCurrent_v2");
	*(void **)&create = doubles_function("CKPT_CUDA_LIB", "cuStreamCreate");
	*(void **)&alloc = doubles_function("CKPT_CUDA_LIB", "cuMemAlloc_v2");
	*(void **)&memory = doubles_function("CKPT_CUDA_LIB", "fake_cuda_memory");
	*(void **)&poll_in = doubles_function("CKPT_CUDA_LIB", "fake_cuda_poll_in");
	assert_int_equal(init(0) | retain(&context, 0) | push(context) | create(&stream, 1) | alloc(&address, 16), 0);
	poll_in(stream, is_told, arg, memory(address, 16), 16, true);
	assert_int_equal(pop(&context), 0);
}

bool doubles_in_child(bool (*run)(void))
{
	pid_t child = fork();
	int status = 1;

	if (child == 0)
		_exit(run() ? 0 : 1);
	assert_true(child > 0);
	assert_int_equal(waitpid(child, &status, 0), child);
	return status == 0;
}

const char *toolkit_file(const char *const *paths)
{
	for (; *paths; paths++)
		if (access(*paths, R_OK) == 0)
			return *paths;
	return NULL;
}

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

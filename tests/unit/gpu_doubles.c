/* SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"

#include "gpu_doubles.h"

#include "../doubles/fake_cuda.h"

#include <dlfcn.h>
#include <stdio.h>
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

static unsigned cuda_number(const char *name)
{
	fake_cuda_number *number;

	*(void **)&number = doubles_function("CKPT_CUDA_LIB", name);
	return number();
}

unsigned doubles_cuda_calls(void)
{
	return cuda_number("fake_cuda_calls");
}

unsigned doubles_cuda_live(void)
{
	return cuda_number("fake_cuda_live");
}

const char *toolkit_file(const char *const *paths)
{
	for (; *paths; paths++)
		if (access(*paths, R_OK) == 0)
			return *paths;
	return NULL;
}

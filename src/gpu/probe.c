/* SPDX-License-Identifier: Apache-2.0 */
#include "gpu/probe.h"

#include <dlfcn.h>
#include <stdio.h>

/* From cuda.h and nccl.h, both stable for years: int f(int *version), 0 is success. */
typedef int get_version(int *version);
typedef int init_driver(unsigned flags);
typedef int count_devices(int *count);

static void *symbol(void *lib, const char *name)
{
	return lib ? dlsym(lib, name) : NULL;
}

int ckpt_gpu_probe_cuda(char *text, size_t size)
{
	void *lib = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
	get_version *version_of;
	init_driver *init;
	count_devices *count;
	int version = 0, devices = 0, code;

	if (!lib) {
		snprintf(text, size, "no driver (libcuda.so.1) on this machine");
		return 0;
	}
	*(void **)&version_of = symbol(lib, "cuDriverGetVersion");
	*(void **)&init = symbol(lib, "cuInit");
	*(void **)&count = symbol(lib, "cuDeviceGetCount");
	if (!version_of || !init || !count) {
		snprintf(text, size, "libcuda.so.1 is not a CUDA driver");
		return 0;
	}
	version_of(&version);
	code = init(0);
	if (code || count(&devices)) {
		snprintf(text, size, "driver for CUDA %d.%d, but no usable GPU (error %d)",
			 version / 1000, version % 1000 / 10, code);
		return 0;
	}
	snprintf(text, size, "driver for CUDA %d.%d, %d GPU%s", version / 1000, version % 1000 / 10,
		 devices, devices == 1 ? "" : "s");
	return 1;
}

int ckpt_gpu_probe_nccl(char *text, size_t size)
{
	void *lib = dlopen("libnccl.so.2", RTLD_NOW | RTLD_LOCAL);
	get_version *version_of;
	int v = 0;

	*(void **)&version_of = symbol(lib, "ncclGetVersion");
	if (!version_of || version_of(&v)) {
		snprintf(text, size, "not found (libnccl.so.2)");
		return 0;
	}
	snprintf(text, size, "%d.%d.%d", v / 10000, v / 100 % 100, v % 100);
	return 1;
}

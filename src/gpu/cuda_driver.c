/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The CUDA driver of this machine, loaded once for the process and never unloaded.
 *
 * What must stay true: a failure is not remembered, so that a later call can succeed (a module
 * that was loaded in between), and each failure says what to do: no driver, the toolkit's stub, no
 * GPU, a driver that is too old. Nothing but ckpt_cuda_driver_get() writes the table, under the
 * lock.
 */
#include "gpu/cuda_driver.h"

#include "base/c_locale.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define LIBRARY "libcuda.so.1"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct ckpt_cuda_driver the_driver;
static bool is_ready;

const char *ckpt_cuda_version_text(int version, char buf[16])
{
	snprintf(buf, 16, "%d.%d", version / 1000, version % 1000 / 10);
	return buf;
}

const char *ckpt_cuda_code_text(const struct ckpt_cuda_driver *driver, unsigned code, char buf[200])
{
	const char *name = NULL, *text = NULL;

	driver->cuGetErrorName(code, &name);
	driver->cuGetErrorString(code, &text);
	if (name && text)
		snprintf(buf, 200, "%.60s (%.120s)", name, text);
	else
		snprintf(buf, 200, "error %u, which the driver does not name", code);
	return buf;
}

const char *ckpt_cuda_host_name(char buf[65])
{
	buf[64] = '\0';
	if (gethostname(buf, 64) < 0)
		strcpy(buf, "this host");
	return buf;
}

static int fail_load(const char *given, const char *why, struct ckpt_error *err)
{
	char host[65];

	if (given)
		return ckpt_fail(err, CKPT_E_UNSUPPORTED,
				 "cannot load the library that CKPT_CUDA_LIB names: %.300s", why);
	if (strstr(why, LIBRARY ": cannot open shared object file"))
		return ckpt_fail(err, CKPT_E_UNSUPPORTED,
				 "no NVIDIA driver on %s (" LIBRARY " not found): run on a GPU "
				 "node, or use --transport tcp or mpi, which need no GPU",
				 ckpt_cuda_host_name(host));
	return ckpt_fail(err, CKPT_E_UNSUPPORTED, "cannot load the NVIDIA driver of %s: %.300s",
			 ckpt_cuda_host_name(host), why);
}

/* The name of a symbol that LIB does not have, or NULL. */
static const char *find_symbols(void *lib, struct ckpt_cuda_driver *d)
{
	const char *missing = NULL;

#define FIND(name, ...) \
	*(void **)&d->name = dlsym(lib, #name); \
	if (!d->name) \
		missing = #name;
	CKPT_CUDA_CALLS(FIND)
#undef FIND
#define FIND(name, ...) *(void **)&d->name = dlsym(lib, #name);
	CKPT_CUDA_OPTIONAL_CALLS(FIND)
#undef FIND
	return missing;
}

static int load(struct ckpt_cuda_driver *d, struct ckpt_error *err)
{
	const char *given = getenv("CKPT_CUDA_LIB"), *missing;
	char host[65], version[16];
	Dl_info info;
	void *lib;

	given = given && *given ? given : NULL;
	lib = dlopen(given ? given : LIBRARY, RTLD_NOW | RTLD_LOCAL);
	if (!lib)
		return fail_load(given, ckpt_dlerror(), err);
	missing = find_symbols(lib, d);
	snprintf(d->path, sizeof(d->path), "%s",
		 d->cuInit && dladdr((void *)d->cuInit, &info) ? info.dli_fname : LIBRARY);
	if (d->cuDriverGetVersion)
		d->cuDriverGetVersion(&d->version);
	if (!missing)
		return 0;
	return ckpt_fail(err, CKPT_E_UNSUPPORTED,
			 "the NVIDIA driver of %s (%.200s, for CUDA %s) is too old: it has no %s, "
			 "wanted one for CUDA 11 or later",
			 ckpt_cuda_host_name(host), d->path, ckpt_cuda_version_text(d->version, version),
			 missing);
}

static int fail_init(const struct ckpt_cuda_driver *d, unsigned code, struct ckpt_error *err)
{
	char host[65], version[16], text[200];
	const char *visible = getenv("CUDA_VISIBLE_DEVICES");

	ckpt_cuda_version_text(d->version, version);
	if (code == CKPT_CU_STUB_LIBRARY)
		return ckpt_fail(
			err, CKPT_E_UNSUPPORTED,
			"found the CUDA toolkit's stub library at %.250s, not an NVIDIA driver: "
			"take its folder out of LD_LIBRARY_PATH, or use --transport tcp or mpi, which need no GPU",
			d->path);
	if (code == CKPT_CU_NO_DEVICE)
		return ckpt_fail(err, CKPT_E_UNSUPPORTED,
				 "the NVIDIA driver of %s (for CUDA %s) finds no GPU%s%.60s%s",
				 ckpt_cuda_host_name(host), version,
				 visible ? ": CUDA_VISIBLE_DEVICES is '" : "",
				 visible ? visible : "", visible ? "'" : "");
	return ckpt_fail(err, CKPT_E_UNSUPPORTED,
			 "the NVIDIA driver of %s (%.200s, for CUDA %s) does not start: %s",
			 ckpt_cuda_host_name(host), d->path, version, ckpt_cuda_code_text(d, code, text));
}

static int get_locked(int *version, struct ckpt_error *err)
{
	struct ckpt_cuda_driver d = { 0 };
	unsigned code;
	int rc;

	if (is_ready) {
		*version = the_driver.version;
		return 0;
	}
	rc = load(&d, err);
	*version = d.version;
	if (rc < 0)
		return rc;
	code = d.cuInit(0);
	if (code)
		return fail_init(&d, code, err);
	the_driver = d;
	is_ready = true;
	return 0;
}

int ckpt_cuda_driver_get(const struct ckpt_cuda_driver **out, int *version, struct ckpt_error *err)
{
	int rc;

	*version = 0;
	pthread_mutex_lock(&lock);
	rc = get_locked(version, err);
	pthread_mutex_unlock(&lock);
	*out = rc < 0 ? NULL : &the_driver;
	return rc;
}

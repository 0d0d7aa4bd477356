/* SPDX-License-Identifier: Apache-2.0 */
/*
 * NCCL, loaded once for the process; nccl.h says where it is looked for. A library that the
 * process has loaded already is taken first, so that the process has one.
 *
 * What must stay true: the CUDA version that the build is for comes from its constants
 * (elf_text.c), since no call tells it; 0 means not known, and must not refuse anything.
 */
#include "gpu/nccl_library.h"

#include "base/c_locale.h"
#include "gpu/cuda_driver.h"
#include "gpu/elf_text.h"

#include <dlfcn.h>
#include <glob.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LIBRARY "libnccl.so.2"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct ckpt_nccl the_library;
static bool is_ready;

const char *ckpt_nccl_version_text(int version, char buf[16])
{
	snprintf(buf, 16, "%d.%d.%d", version / 10000, version / 100 % 100, version % 100);
	return buf;
}

/* ---- found ---- */

/* Of the Python environment in FOLDER, where pip puts it. */
static void *open_in_environment(const char *folder)
{
	char pattern[600];
	void *lib = NULL;
	glob_t found;

	if (!folder || !*folder)
		return NULL;
	snprintf(pattern, sizeof(pattern),
		 "%.400s/lib/python3.*/site-packages/nvidia/nccl/lib/" LIBRARY, folder);
	if (glob(pattern, 0, NULL, &found) == 0) {
		for (size_t i = 0; !lib && i < found.gl_pathc; i++)
			lib = dlopen(found.gl_pathv[i], RTLD_NOW | RTLD_LOCAL);
		globfree(&found);
	}
	return lib;
}

static void *open_anywhere(void)
{
	void *lib = open_in_environment(getenv("VIRTUAL_ENV"));

	if (!lib)
		lib = open_in_environment(getenv("CONDA_PREFIX"));
	if (!lib)
		lib = dlopen(LIBRARY, RTLD_NOW | RTLD_LOCAL);
	if (!lib)
		lib = dlopen("/usr/local/cuda/lib64/" LIBRARY, RTLD_NOW | RTLD_LOCAL);
	return lib;
}

static void *open_library(struct ckpt_error *err)
{
	const char *given = getenv("CKPT_NCCL_LIB");
	char host[65];
	void *lib;

	given = given && *given ? given : NULL;
	lib = dlopen(given ? given : LIBRARY, RTLD_NOW | RTLD_LOCAL | RTLD_NOLOAD);
	if (lib)
		return lib;
	lib = given ? dlopen(given, RTLD_NOW | RTLD_LOCAL) : open_anywhere();
	if (lib)
		return lib;
	if (given)
		ckpt_fail(err, CKPT_E_UNSUPPORTED,
			  "cannot load the library that CKPT_NCCL_LIB names: %.300s", ckpt_dlerror());
	else
		ckpt_fail(err, CKPT_E_UNSUPPORTED,
			  "no NCCL on %s (" LIBRARY
			  " not found): set CKPT_NCCL_LIB to it, or use "
			  "--transport tcp or mpi, which need neither",
			  ckpt_cuda_host_name(host));
	return NULL;
}

/* ---- looked at ---- */

/* The name of a symbol that LIB does not have, or NULL. */
static const char *find_symbols(void *lib, struct ckpt_nccl *n)
{
	const char *missing = NULL;

#define FIND(type, name, ...) \
	*(void **)&n->name = dlsym(lib, #name); \
	if (!n->name) \
		missing = #name;
	CKPT_NCCL_CALLS(FIND)
#undef FIND
	return missing;
}

/* No call tells it, but every build has the line that it logs: "NCCL version 2.28.9+cuda13.0". */
static int find_cuda_major(const struct ckpt_nccl *n)
{
	char version[16], start[60], line[80];

	snprintf(start, sizeof(start), "NCCL version %s+cuda",
		 ckpt_nccl_version_text(n->version, version));
	return ckpt_elf_find_text(n->path, start, line, sizeof(line)) ? atoi(line + strlen(start))
								      : 0;
}

static int load(struct ckpt_nccl *n, struct ckpt_error *err)
{
	void *lib = open_library(err);
	const char *missing;
	char version[16];
	Dl_info info;

	if (!lib)
		return CKPT_E_UNSUPPORTED;
	missing = find_symbols(lib, n);
	snprintf(n->path, sizeof(n->path), "%s",
		 n->ncclGetVersion && dladdr((void *)n->ncclGetVersion, &info) ? info.dli_fname
									       : LIBRARY);
	if (n->ncclGetVersion)
		n->ncclGetVersion(&n->version);
	if (missing)
		return ckpt_fail(err, CKPT_E_UNSUPPORTED,
				 "NCCL %s at %.300s has no %s: wanted 2.14 or later",
				 ckpt_nccl_version_text(n->version, version), n->path, missing);
	n->cuda_major = find_cuda_major(n);
	return 0;
}

int ckpt_nccl_get(const struct ckpt_nccl **out, struct ckpt_error *err)
{
	int rc = 0;

	pthread_mutex_lock(&lock);
	if (!is_ready) {
		struct ckpt_nccl n = { 0 };

		rc = load(&n, err);
		if (rc == 0)
			the_library = n;
		is_ready = rc == 0;
	}
	pthread_mutex_unlock(&lock);
	*out = rc < 0 ? NULL : &the_library;
	return rc;
}

/* ---- its variables ---- */

static bool is_word(const char *at, const char *word)
{
	for (; *word; at++, word++)
		if ((*at | 0x20) != *word)
			return false;
	return !strchr("abcdefghijklmnopqrstuvwxyz", *at | 0x20) || !*at;
}

static const char *find_word(const char *text, size_t len, const char *word)
{
	for (size_t i = 0; i < len; i++)
		if (is_word(text + i, word))
			return text + i;
	return NULL;
}

/*
 * One list, "ring,tree" or "^tree", for all functions, or "allreduce:tree;broadcast:ring" for some.
 * A function that is not named has all.
 */
static bool lets_ring_broadcast(const char *text)
{
	for (size_t len; *text; text += len + (text[len] != '\0')) {
		const char *list = text, *colon;
		bool has_ring;

		len = strcspn(text, ";");
		colon = memchr(text, ':', len);
		if (colon && !find_word(text, (size_t)(colon - text), "broadcast"))
			continue;
		if (colon)
			list = colon + 1;
		has_ring = find_word(list, len - (size_t)(list - text), "ring");
		if (len && has_ring == (*list == '^'))
			return false;
	}
	return true;
}

int ckpt_nccl_check_variables(struct ckpt_error *err)
{
	const char *blocking = getenv("NCCL_COMM_BLOCKING"), *algo = getenv("NCCL_ALGO");

	if (blocking && atoi(blocking) > 0)
		return ckpt_fail(err, CKPT_E_UNSUPPORTED,
				 "NCCL_COMM_BLOCKING=%.20s makes NCCL wait for lost ranks without "
				 "an end: unset it",
				 blocking);
	if (algo && !lets_ring_broadcast(algo))
		return ckpt_fail(err, CKPT_E_UNSUPPORTED,
				 "NCCL_ALGO=%.80s leaves a broadcast no algorithm, since NCCL has "
				 "only Ring for it: add Ring, or unset it",
				 algo);
	return 0;
}

/* ---- errors ---- */

static int status_of(unsigned code)
{
	switch (code) {
	case CKPT_NCCL_UNHANDLED_CUDA_ERROR: return CKPT_E_GPU;
	case CKPT_NCCL_INVALID_ARGUMENT:
	case CKPT_NCCL_INVALID_USAGE: return CKPT_E_UNSUPPORTED;
	case CKPT_NCCL_REMOTE_ERROR: return CKPT_E_PEER;
	default: return CKPT_E_SYSTEM; /* internal ones, too: they are of this rank */
	}
}

int ckpt_nccl_fail(const struct ckpt_nccl *nccl, const char *call, unsigned code,
		   int driver_version, struct ckpt_error *err)
{
	const char *what = nccl->ncclGetErrorString(code), *last = nccl->ncclGetLastError(NULL);
	char version[16], driver[40] = "", number[16];
	int last_len = last ? (int)strcspn(last, "\n") : 0;

	if (driver_version)
		snprintf(driver, sizeof(driver), ", driver for CUDA %s",
			 ckpt_cuda_version_text(driver_version, number));
	return ckpt_fail(err, status_of(code), "%s: %.100s%s%.*s (NCCL %s at %.140s%s)", call,
			 what ? what : "unknown error", last_len ? ": " : "",
			 last_len < 160 ? last_len : 160, last ? last : "",
			 ckpt_nccl_version_text(nccl->version, version), nccl->path, driver);
}

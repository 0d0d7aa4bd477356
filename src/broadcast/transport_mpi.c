/* SPDX-License-Identifier: Apache-2.0 */
#include "broadcast/mpi_plugin.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MOST_PATH = 4096 };

/* The folder of the library or program that this function is in. */
static bool own_folder(char *out, size_t size)
{
	Dl_info info;
	char *slash;

	if (!dladdr((void *)own_folder, &info) || !info.dli_fname)
		return false;
	if (!strchr(info.dli_fname, '/')) { /* a program found through PATH */
		ssize_t n = readlink("/proc/self/exe", out, size - 1);

		if (n < 0)
			return false;
		out[n] = '\0';
	} else {
		snprintf(out, size, "%s", info.dli_fname);
	}
	slash = strrchr(out, '/');
	if (slash)
		*slash = '\0';
	return slash != NULL;
}

static bool find_plugin(char *out, size_t size)
{
	static const char *const places[] = { "", "/ckpt", "/../lib/ckpt" };
	const char *given = getenv("CKPT_MPI_PLUGIN");
	char folder[MOST_PATH];

	if (given && *given) {
		snprintf(out, size, "%s", given);
		return true;
	}
	if (own_folder(folder, sizeof(folder)))
		for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
			int n = snprintf(out, size, "%s%s/ckpt-mpi.so", folder, places[i]);

			if (n > 0 && (size_t)n < size && access(out, R_OK) == 0)
				return true;
		}
	snprintf(out, size, "%s/ckpt-mpi.so", CKPT_PLUGIN_FOLDER);
	return access(out, R_OK) == 0;
}

bool ckpt_mpi_is_there(void)
{
	char path[MOST_PATH];

	return find_plugin(path, sizeof(path));
}

int ckpt_transport_open_mpi(struct ckpt_transport **out, struct ckpt_error *err)
{
	char path[MOST_PATH];
	ckpt_mpi_open *open;
	void *lib;

	*out = NULL;
	if (!find_plugin(path, sizeof(path)))
		return ckpt_fail(
			err, CKPT_E_UNSUPPORTED,
			"there is no ckpt-mpi.so, which talks to MPI: build ckpt where mpicc is "
			"found, or set CKPT_MPI_PLUGIN");
	lib = dlopen(path, RTLD_NOW | RTLD_GLOBAL); /* Open MPI loads parts that look for it */
	if (!lib)
		return ckpt_fail(err, CKPT_E_UNSUPPORTED, "cannot load MPI: %s", dlerror());
	*(void **)&open = dlsym(lib, CKPT_MPI_OPEN_NAME);
	if (!open)
		return ckpt_error_at(
			err,
			ckpt_fail(err, CKPT_E_UNSUPPORTED,
				  "is no plug-in of ckpt: it has no " CKPT_MPI_OPEN_NAME),
			path, NULL, CKPT_NO_OFFSET);
	return open(CKPT_MPI_PLUGIN_VERSION, out, err);
}

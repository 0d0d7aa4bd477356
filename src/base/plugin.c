/* SPDX-License-Identifier: Apache-2.0 */
#include "base/plugin.h"

#include "base/c_locale.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MOST_PATH = 4096 };

/* The folder of the library or program that has this function. */
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

static bool find_file(const struct ckpt_plugin *p, char *out, size_t size)
{
	static const char *const places[] = { "", "/ckpt", "/../lib/ckpt" };
	const char *given = getenv(p->variable);
	char folder[MOST_PATH];

	if (given && *given) {
		snprintf(out, size, "%s", given);
		return true;
	}
	if (own_folder(folder, sizeof(folder)))
		for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
			int n = snprintf(out, size, "%s%s/%s", folder, places[i], p->file);

			if (n > 0 && (size_t)n < size && access(out, R_OK) == 0)
				return true;
		}
	snprintf(out, size, "%s/%s", CKPT_PLUGIN_FOLDER, p->file);
	return access(out, R_OK) == 0;
}

bool ckpt_plugin_find(const struct ckpt_plugin *p, char *path, size_t size)
{
	char found[MOST_PATH];
	bool is = find_file(p, found, sizeof(found));

	if (is && path)
		snprintf(path, size, "%s", found);
	return is;
}

int ckpt_plugin_load(const struct ckpt_plugin *p, void **out, struct ckpt_error *err)
{
	char path[MOST_PATH];
	void *lib;

	*out = NULL;
	if (!find_file(p, path, sizeof(path)))
		return ckpt_fail(err, CKPT_E_UNSUPPORTED,
				 "there is no %s, which talks to %s: build ckpt where %s is "
				 "found, or set %s",
				 p->file, p->talks_to, p->needs, p->variable);
	lib = dlopen(path, RTLD_NOW | RTLD_GLOBAL); /* Open MPI loads parts that look for it */
	if (!lib)
		return ckpt_fail(err, CKPT_E_UNSUPPORTED, "cannot load %s: %s", p->talks_to,
				 ckpt_dlerror());
	*out = dlsym(lib, p->entry);
	if (*out)
		return 0;
	return ckpt_error_at(err,
			     ckpt_fail(err, CKPT_E_UNSUPPORTED,
				       "is no plug-in of ckpt: it has no %s", p->entry),
			     path, NULL, CKPT_NO_OFFSET);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* What `python FILE` runs and imports of an archive, and what AOTInductor compiles and loads of it. */
#include "scan/loaders/zip.h"

#include "base/ascii.h"
#include "scan/names.h"

#include <string.h>

bool ckpt_loose_zip_is_main(const char *name)
{
	const char *slash = strrchr(name, '/');

	name = slash ? slash + 1 : name;
	return !ckpt_strcasecmp(name, "__main__.py") || !ckpt_strcasecmp(name, "__main__.pyc");
}

/*
 * Of Python's library, where `python FILE` looks first: FILE is in front of sys.path before runpy and
 * what that needs are imported.
 */
static bool is_module_at(const char *name)
{
	static const char *const endings[] = { ".py", ".pyc", "/__init__.py", "/__init__.pyc" };
	size_t len = strlen(name);
	char module[64];

	for (size_t i = 0; i < sizeof(endings) / sizeof(endings[0]); i++) {
		size_t n = strlen(endings[i]);

		if (len <= n || len - n >= sizeof(module) || ckpt_strcasecmp(name + len - n, endings[i]) != 0 || memchr(name, '.', len - n))
			continue;
		memcpy(module, name, len - n);
		module[len - n] = '\0';
		if (ckpt_scan_is_stdlib(module))
			return true;
	}
	return false;
}

bool ckpt_loose_zip_shadows(const struct ckpt_loose_zip *zip, const char *name)
{
	if (is_module_at(name))
		return true;
	if (zip->is_script && strstr(name, "/code/")) /* TorchScript of classes of such modules */
		return false;
	while ((name = strchr(name, '/')) != NULL)
		if (is_module_at(++name))
			return true;
	return false;
}

/* Behind the separators at NAME, of which there may be several, and what means the same folder ("./"): torch 2.14 takes "a//b" for "a/b". */
static const char *behind_slashes(const char *name)
{
	while (*name == '/' || *name == '\\' || (*name == '.' && (name[1] == '/' || name[1] == '\\')))
		name++;
	return name;
}

/* What of NAME is behind FRONT, which is of small letters; NULL: it does not begin so. */
static const char *behind(const char *name, const char *front)
{
	while (*front && *name && (*front == '/' ? *name == '/' || *name == '\\' : ckpt_to_lower((unsigned char)*name) == *front))
		name = *front++ == '/' ? behind_slashes(name) : name + 1;
	return !*front ? name : NULL;
}

/* By its ending, a source or a library. */
static bool is_source_or_library(const char *name)
{
	static const char *const endings[] = { ".cpp", ".cc", ".c", ".cu", ".o", ".so", ".a", ".dll", ".pyd", ".dylib" };
	size_t len = strlen(name);

	for (size_t i = 0; i < sizeof(endings) / sizeof(endings[0]); i++) {
		size_t n = strlen(endings[i]);

		if (len >= n && !ckpt_strcasecmp(name + len - n, endings[i]))
			return true;
	}
	return false;
}

/* What is behind FRONT in the next part of NAME, from *AT on, that begins so; NULL: there is none. */
static const char *next_in(const char *name, const char **at, const char *front)
{
	while (**at) {
		const char *part = *at;
		bool begins = part == name || part[-1] == '/' || part[-1] == '\\';

		(*at)++;
		part = begins ? behind(part, front) : NULL;
		if (part)
			return part;
	}
	return NULL;
}

/* aoti_load_package() asks whether a name begins so: a record of the folder's own name counts as well, and "data/constants.txt". */
bool ckpt_loose_zip_is_constant(const char *name)
{
	const char *at = name;

	return next_in(name, &at, "data/constants") != NULL;
}

bool ckpt_loose_zip_is_compiled(const char *name)
{
	const char *at = name, *file;

	while ((file = next_in(name, &at, "data/aotinductor")))
		if (is_source_or_library(file) || ((*file == '/' || *file == '\\') && *behind_slashes(file)))
			return true;
	for (at = name; (file = next_in(name, &at, "data/constants"));)
		if (is_source_or_library(file))
			return true;
	return false;
}

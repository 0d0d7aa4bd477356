/* SPDX-License-Identifier: Apache-2.0 */
#include "base/paths.h"

#include "base/text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static bool is_same_folder(const char *path, const struct stat *folder)
{
	struct stat st;

	return stat(path, &st) == 0 && st.st_dev == folder->st_dev && st.st_ino == folder->st_ino;
}

/* By device and inode, not by name: a bind mount gives a folder a second name. */
bool ckpt_is_below(const char *path, const char *folder)
{
	char *real = realpath(path, NULL), *slash;
	struct stat st;
	bool below = false;

	if (real && stat(folder, &st) == 0) {
		below = is_same_folder(real, &st);
		while (!below && (slash = strrchr(real, '/')) && slash > real) {
			*slash = '\0';
			below = is_same_folder(real, &st);
		}
		below = below || is_same_folder("/", &st);
	}
	free(real);
	return below;
}

static bool begins_with(const char *path, const char *front)
{
	return !strncmp(path, front, strlen(front));
}

/* FOLDER without its links, or as it is spelled: in /dev/shm there are files as anywhere else. */
static bool has_descriptors(const char *folder)
{
	if (begins_with(folder, "/dev/shm") && (!folder[8] || folder[8] == '/'))
		return false;
	return !strcmp(folder, "/dev") || begins_with(folder, "/dev/") ||
	       (begins_with(folder, "/proc/") &&
		(ckpt_ends_with(folder, "/fd") || strstr(folder, "/fd/")));
}

/* A folder of another user's process is taken by its name. */
bool ckpt_is_descriptor(const char *path)
{
	char *folder = ckpt_path_parent(path), *real = folder ? realpath(folder, NULL) : NULL;
	bool is = folder && has_descriptors(real ? real : folder);

	free(real);
	free(folder);
	return is;
}

char *ckpt_path_parent(const char *path)
{
	const char *slash = strrchr(path, '/');

	if (!slash)
		return strdup(".");
	return strndup(path, slash == path ? 1 : (size_t)(slash - path));
}

int ckpt_path_join(const char *folder, const char *name, char **out, struct ckpt_error *err)
{
	if (asprintf(out, "%s/%s", folder, name) >= 0)
		return 0;
	*out = NULL;
	return ckpt_fail_nomem(err);
}

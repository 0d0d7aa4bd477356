/* SPDX-License-Identifier: Apache-2.0 */
#include "broadcast/parents.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static int make_one(const char *path, char **first, struct ckpt_error *err)
{
	struct stat st;
	int why;

	if (mkdir(path, 0777) == 0) {
		if (!*first)
			*first = strdup(path);
		return *first ? 0 : ckpt_fail_nomem(err);
	}
	/*
	 * of several ranks on a node another may have been faster; what is no folder is found when
	 * it is used as one
	 */
	why = errno;
	if (why == EEXIST || (stat(path, &st) == 0 && S_ISDIR(st.st_mode)))
		return 0;
	errno = why;
	return ckpt_error_at(err, ckpt_fail_errno(err, "cannot create the folder"), path, NULL,
			     CKPT_NO_OFFSET);
}

int ckpt_parents_make(const char *folder, char **first, struct ckpt_error *err)
{
	char *path = strdup(folder), *slash = path;
	int rc = path ? 0 : ckpt_fail_nomem(err);

	*first = NULL;
	while (rc == 0 && (slash = strchr(slash + 1, '/'))) {
		*slash = '\0';
		rc = make_one(path, first, err);
		*slash = '/';
	}
	if (rc == 0)
		rc = make_one(path, first, err);
	free(path);
	return rc;
}

void ckpt_parents_remove(const char *folder, const char *first)
{
	char *path = first ? strdup(folder) : NULL, *slash;

	while (path && strlen(path) >= strlen(first) && (rmdir(path) == 0 || errno == ENOENT) &&
	       (slash = strrchr(path, '/')))
		*slash = '\0';
	free(path);
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "broadcast/undo.h"

#include "base/paths.h"
#include "io/fault.h"
#include "io/temp.h"
#include "io/tree.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

int ckpt_undo_open(struct ckpt_undo *out, const struct ckpt_landing *landing,
		   const struct ckpt_manifest *m, struct ckpt_error *err)
{
	uint32_t count = m->is_directory ? 1 : m->count;
	int rc = 0;

	*out = (struct ckpt_undo){ m, calloc(count, sizeof(*out->made)) };
	if (!out->made)
		return ckpt_fail_nomem(err);
	for (uint32_t i = 0; rc == 0 && i < count; i++)
		rc = ckpt_landing_identity(landing, i, &out->made[i], err);
	return rc;
}

void ckpt_undo_close(struct ckpt_undo *undo)
{
	free(undo->made);
	undo->made = NULL;
}

/* It gets another name first, so that nobody sees a part of it. */
static int remove_tree(const char *path)
{
	char *around = ckpt_path_parent(path), *hidden = NULL;
	int rc = -1;

	for (int i = 0; around && rc < 0 && i < CKPT_TEMP_TRIES; i++) {
		free(hidden);
		hidden = ckpt_temp_name(around, path);
		rc = hidden ? ckpt_io_rename(path, hidden, false) : -1;
		if (rc < 0 && errno != EEXIST && errno != ENOTEMPTY)
			break;
	}
	if (rc == 0)
		rc = ckpt_tree_remove(hidden);
	free(hidden);
	free(around);
	return rc;
}

/* Remove PATH, unless it has become something else than what was MADE. */
static int remove_made(const char *path, const struct stat *made, struct ckpt_error *err)
{
	struct stat st;

	if (lstat(path, &st) < 0 || st.st_dev != made->st_dev || st.st_ino != made->st_ino)
		return 0;
	if ((S_ISDIR(st.st_mode) ? remove_tree(path) : unlink(path)) == 0)
		return 0;
	return ckpt_error_at(err, ckpt_fail_errno(err, "cannot be removed again"), path, NULL,
			     CKPT_NO_OFFSET);
}

int ckpt_undo_names(const struct ckpt_undo *undo, const char *path, struct ckpt_error *err)
{
	const struct ckpt_manifest *m = undo->manifest;
	int rc = 0;

	if (m->is_directory || m->count == 1)
		return remove_made(path, undo->made, err);
	for (uint32_t i = 0; i < m->count; i++) {
		char *file;
		int one;

		if (asprintf(&file, "%s/%s", path, m->files[i].path) < 0)
			return ckpt_fail_nomem(err);
		one = remove_made(file, &undo->made[i], rc ? NULL : err);
		rc = rc ? rc : one;
		free(file);
	}
	return rc;
}

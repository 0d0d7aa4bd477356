/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CKPT_BROADCAST_UNDO_H
#define CKPT_BROADCAST_UNDO_H

#include "broadcast/landing.h"

#include <sys/stat.h>

/*
 * Undoes the naming of files: a file is removed if it still is the one that this rank made. What it
 * had replaced does not come back.
 */
struct ckpt_undo {
	const struct ckpt_manifest *manifest;
	struct stat *made; /* by file; for a directory only one, its own */
};

/* Before naming: remember which files will get the names. */
int ckpt_undo_open(struct ckpt_undo *out, const struct ckpt_landing *landing,
		   const struct ckpt_manifest *manifest, struct ckpt_error *err);
void ckpt_undo_close(struct ckpt_undo *undo);

/* PATH: the destination. */
int ckpt_undo_names(const struct ckpt_undo *undo, const char *path, struct ckpt_error *err);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CKPT_BROADCAST_UNDO_H
#define CKPT_BROADCAST_UNDO_H

#include "broadcast/landing.h"

#include <sys/stat.h>

/*
 * Names that were given can be taken back: what has the name is removed if it still is what this
 * rank made. What was replaced by it does not come back.
 */
struct ckpt_undo {
	const struct ckpt_manifest *manifest;
	struct stat *made; /* by file; of a directory: the one of the whole */
};

/* Before the names: what is going to have them. */
int ckpt_undo_open(struct ckpt_undo *out, const struct ckpt_landing *landing,
		   const struct ckpt_manifest *manifest, struct ckpt_error *err);
void ckpt_undo_close(struct ckpt_undo *undo);

/* PATH: where it landed. */
int ckpt_undo_names(const struct ckpt_undo *undo, const char *path, struct ckpt_error *err);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CKPT_IO_TREE_H
#define CKPT_IO_TREE_H

#include "base/error.h"

#include <stdint.h>
#include <sys/stat.h>

/*
 * Walks all that is in a folder, without following links. It allocates no memory: unfinished
 * outputs have to be removed above all when memory ran out.
 */
struct ckpt_tree_entry {
	int folder;	   /* descriptor of the folder that it is in */
	const char *name;  /* in that folder */
	const char *path;  /* from the outermost folder on */
	struct stat st;	   /* of the entry itself, also of a link */
	uint64_t children; /* of a folder: how many entries it has */
};

/*
 * Called for a folder after all that is in it. A result other than 0 ends the walk and is
 * returned.
 */
typedef int ckpt_tree_visit(void *ctx, const struct ckpt_tree_entry *entry);

/*
 * Returns 0, what VISIT returned, CKPT_E_IO, or CKPT_E_LIMIT (more than 200 folders inside each
 * other, or a path of 4096 bytes or more).
 */
int ckpt_tree_walk(const char *path, ckpt_tree_visit *visit, void *ctx, struct ckpt_error *err);

/* Remove PATH with all that is in it, as much as possible. -1 and errno if something stays. */
int ckpt_tree_remove(const char *path);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CKPT_IO_TREE_H
#define CKPT_IO_TREE_H

#include "base/error.h"

#include <stdint.h>
#include <sys/stat.h>

/*
 * All that is in a folder, links not followed. No memory is asked for: what was begun has to be removed above all where there is none left.
 */
struct ckpt_tree_entry {
	int folder;	   /* descriptor of the folder that it is in */
	const char *name;  /* in that folder */
	const char *path;  /* from the outermost folder on */
	struct stat st;	   /* of the entry itself, also of a link */
	uint64_t children; /* of a folder: how many entries it has */
};

/* Called for a folder behind all that is in it. Not 0 ends it, and is returned. */
typedef int ckpt_tree_visit(void *ctx, const struct ckpt_tree_entry *entry);

/* 0; what VISIT returned; CKPT_E_IO; CKPT_E_LIMIT: nested deeper than 200 folders, or a path of 4096 bytes and more. */
int ckpt_tree_walk(const char *path, ckpt_tree_visit *visit, void *ctx, struct ckpt_error *err);

/* Remove PATH with all that is in it, as far as that goes. -1 and errno if something stays. */
int ckpt_tree_remove(const char *path);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CKPT_SET_DCP_COPY_FILES_H
#define CKPT_SET_DCP_COPY_FILES_H

#include "base/error.h"
#include "base/strmap.h"
#include "io/folder.h"

#include <ckpt/save.h>

/*
 * Takes files of one directory into another: shares their blocks where it can, links or copies
 * them.
 */
struct ckpt_dcp_copier {
	const char *from, *to;
	/* being made; TO is its path for now; NULL: edited where it is, or a dry run */
	struct ckpt_folder *folder;
	const struct ckpt_strmap *data_files; /* names that the index mentions: no others */
	const struct ckpt_save_options *o;
	struct ckpt_error *err;
	uint64_t done, total, written; /* bytes; DONE and TOTAL for the progress */
	bool reflinked;
	bool output_inside; /* TO lies in FROM */
	bool dry;	    /* write nothing, and count in WRITTEN what would be; TO need not be there */
};

/* The file NAME, which may have folders in front. */
int ckpt_dcp_copy_data_file(struct ckpt_dcp_copier *copier, const char *name);

/*
 * All else that lies in the directory, folders too, but not what an edit makes untrue: indexes,
 * data files that no index mentions, integrity.json. A link to a file becomes the file, any other
 * stays a link.
 */
int ckpt_dcp_copy_others(struct ckpt_dcp_copier *copier);

/* Is NAME what a directory of such files consists of? For ckpt_folder_own; CTX: the copier. */
bool ckpt_dcp_is_copied(const void *copier, const char *path, const char *name);

#endif

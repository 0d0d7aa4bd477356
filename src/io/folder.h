/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CKPT_IO_FOLDER_H
#define CKPT_IO_FOLDER_H

#include "io/sink.h"

#include <stdint.h>

/*
 * A folder being made: files are written into a hidden one beside it, which gets the final name in one
 * step when all of them are there. Whatever ends the process, PATH is the old folder, the new one, or
 * not there.
 */
struct ckpt_folder;

enum ckpt_folder_flags {
	/* An existing folder is replaced if it has the file MARK in it; else CKPT_E_EXISTS. MARK NULL: none is. */
	CKPT_FOLDER_REPLACE = 1 << 0,
	CKPT_FOLDER_NO_SYNC = 1 << 1,
};

/* Could PATH be made, as far as one can tell? MARK: see above. */
int ckpt_folder_check(const char *path, const char *mark, unsigned flags, struct ckpt_error *err);

/* NEED: bytes that it will take; less free space is an error at once. */
int ckpt_folder_open(const char *path, const char *mark, uint64_t need, unsigned flags,
		     struct ckpt_folder **out, struct ckpt_error *err);

/* Where to write its files. Borrowed. */
const char *ckpt_folder_temp_path(const struct ckpt_folder *folder);

/*
 * The end of a file that was written with result RC: dropped if that is an error. Else it gets its name at
 * once, and is on the disk when the folder is committed: a few files are waited for together, so that the
 * disk always has work. Without a folder (NULL) the file is synced and committed. By several threads at
 * once. The sink is closed in any case.
 */
int ckpt_folder_end_file(struct ckpt_folder *folder, struct ckpt_sink *sink, int rc,
			 struct ckpt_error *err);

/* Wait until all files that were ended are on the disk; a commit does it too. */
int ckpt_folder_sync(struct ckpt_folder *folder, struct ckpt_error *err);

/* Give it its name and sync the folder around it. The folder is closed in any case. */
int ckpt_folder_commit(struct ckpt_folder *folder, struct ckpt_error *err);

/* Drop it with all files in it. NULL is allowed. */
void ckpt_folder_discard(struct ckpt_folder *folder);

#endif

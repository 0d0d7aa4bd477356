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
	CKPT_FOLDER_REPLACE = 1 << 0, /* see ckpt_folder_own; else an existing one is CKPT_E_EXISTS */
	CKPT_FOLDER_NO_SYNC = 1 << 1,
};

/*
 * An existing folder is replaced only if each file in it, or in a folder in it, and each empty folder is one that this output writes.
 * NAME: the path of one, from the existing folder PATH on. Whatever else is there is refused by its name and stays.
 */
struct ckpt_folder_own {
	bool (*is_own)(const void *ctx, const char *path, const char *name);
	const void *ctx;
};

/* Could PATH be made, as far as one can tell? OWN NULL: no folder is replaced. */
int ckpt_folder_check(const char *path, const struct ckpt_folder_own *own, unsigned flags,
		      struct ckpt_error *err);

/*
 * NEED: bytes that it will take; less free space is an error at once. MODE: who may use it, less what the umask takes away, unless it
 * replaces one. What OWN points to has to live as long as the folder that is made.
 */
int ckpt_folder_open(const char *path, const struct ckpt_folder_own *own, uint64_t need,
		     unsigned flags, unsigned mode, struct ckpt_folder **out,
		     struct ckpt_error *err);

/* Where to write its files. Borrowed. */
const char *ckpt_folder_temp_path(const struct ckpt_folder *folder);

/* The name that it will have. Borrowed. */
const char *ckpt_folder_path(const struct ckpt_folder *folder);

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

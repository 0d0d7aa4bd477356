/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CKPT_IO_FOLDER_H
#define CKPT_IO_FOLDER_H

#include "io/sink.h"

#include <stdint.h>

/*
 * A folder being made. Its files are written into a hidden folder beside it, which gets the
 * final name in one step when all are complete. Whatever ends the process, PATH is the old
 * folder, the new one, or does not exist.
 */
struct ckpt_folder;
struct ckpt_save_options;

enum ckpt_folder_flags {
	CKPT_FOLDER_REPLACE = 1 << 0, /* see ckpt_folder_own; else an existing one is CKPT_E_EXISTS */
	CKPT_FOLDER_NO_SYNC = 1 << 1,
};

/*
 * An existing folder is replaced only if this output writes each file and each empty folder in
 * it, at any depth. NAME: the path of one, relative to the existing folder PATH. If there is
 * anything else the output is refused, with the name of what was found.
 */
struct ckpt_folder_own {
	bool (*is_own)(const void *ctx, const char *path, const char *name);
	const void *ctx;
};

/* Check whether PATH can be made, as far as one can tell. OWN NULL: no folder is replaced. */
int ckpt_folder_check(const char *path, const struct ckpt_folder_own *own, unsigned flags,
		      struct ckpt_error *err);

/*
 * NEED: bytes that it will take; less free space is an error at once. MODE: its permissions,
 * less the umask; a folder that replaces another has at most that one's. What OWN points to has
 * to live until commit or discard.
 */
int ckpt_folder_open(const char *path, const struct ckpt_folder_own *own, uint64_t need,
		     unsigned flags, unsigned mode, struct ckpt_folder **out,
		     struct ckpt_error *err);

/* The hidden folder, to write files into. Borrowed. */
const char *ckpt_folder_temp_path(const struct ckpt_folder *folder);

/* The final name. Borrowed. */
const char *ckpt_folder_path(const struct ckpt_folder *folder);

/*
 * End a file whose writing gave RC. If that is an error the file is dropped. Otherwise it gets
 * its name at once, and is synced later, at the latest on commit: several files are written back
 * at a time, so that the disk always has work. Without a folder (NULL) the file is synced and
 * committed. Several threads may call this at once. Closes the sink in any case.
 */
int ckpt_folder_end_file(struct ckpt_folder *folder, struct ckpt_sink *sink, int rc,
			 struct ckpt_error *err);

/* Wait until all files that were ended are on the disk. Commit does so too. */
int ckpt_folder_sync(struct ckpt_folder *folder, struct ckpt_error *err);

/*
 * The folder is the output of a save with the options O, which may end it until it has its name. O is
 * borrowed until the folder is closed.
 */
void ckpt_folder_set_save(struct ckpt_folder *folder, const struct ckpt_save_options *o);

/* Give the folder its name and sync its parent. Closes the folder in any case. */
int ckpt_folder_commit(struct ckpt_folder *folder, struct ckpt_error *err);

/* Remove it with all files in it. NULL is allowed. */
void ckpt_folder_discard(struct ckpt_folder *folder);

#endif

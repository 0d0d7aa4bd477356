/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CKPT_IO_SINK_H
#define CKPT_IO_SINK_H

#include "io/source.h"

/*
 * A file being made. It has no name until ckpt_sink_commit() (or, on file systems without unnamed
 * files, a temporary one beside the final one), so that nothing half-written is ever seen under
 * the final name, whatever ends the process.
 */
struct ckpt_sink;

enum ckpt_sink_flags {
	CKPT_SINK_REPLACE = 1 << 0, /* an existing file is replaced, else it is CKPT_E_EXISTS */
	CKPT_SINK_NO_SYNC = 1 << 1, /* leave writing back to the system, as cp does */
};

/*
 * Could PATH be made, as far as one can tell without making it? An existing file without
 * CKPT_SINK_REPLACE, a folder, or a missing folder in front of it are found before the work.
 */
int ckpt_sink_check(const char *path, unsigned flags, struct ckpt_error *err);

/*
 * SIZE is known from the layout, or 0: it grows. NEED is what it will take on disk, holes left out: less free space
 * is an error at once. MODE: who may read and write a new file, less what the umask takes away: what is made of a private file is
 * private from the beginning.
 */
int ckpt_sink_open(const char *path, uint64_t size, uint64_t need, unsigned flags, unsigned mode,
		   struct ckpt_sink **out, struct ckpt_error *err);

/* By several threads at once, if they write to different places. */
int ckpt_sink_write(struct ckpt_sink *sink, uint64_t off, const void *bytes, size_t len,
		    struct ckpt_error *err);

/*
 * The file will have SIZE bytes at least. What is not written of them is a hole: it takes no room, and is read as zeros. By
 * several threads at once.
 */
void ckpt_sink_reach(struct ckpt_sink *sink, uint64_t size);

/*
 * Copy inside the kernel. *DONE says how many bytes: fewer than LEN, often 0, means that the kernel
 * will not do it or would be slower at it than the caller, who has to write the rest.
 */
int ckpt_sink_copy(struct ckpt_sink *sink, uint64_t off, const struct ckpt_source *src,
		   uint64_t src_off, uint64_t len, uint64_t *done, struct ckpt_error *err);

/*
 * Let the whole of SRC, a file, be the beginning of the output by sharing its blocks (FICLONE: XFS, Btrfs).
 * *DONE is false if the file systems cannot do it.
 */
int ckpt_sink_clone(struct ckpt_sink *sink, const struct ckpt_source *src, bool *done,
		    struct ckpt_error *err);

/* Wait until the bytes are on the disk; nothing with CKPT_SINK_NO_SYNC. */
int ckpt_sink_sync(struct ckpt_sink *sink, struct ckpt_error *err);

/* To read by what was written. Borrowed. */
int ckpt_sink_fd(const struct ckpt_sink *sink);

/* Begin to write back what is left, and do not wait for it. */
void ckpt_sink_start_sync(struct ckpt_sink *sink);

/* Give it its name, and sync nothing: for files of a folder that is synced as a whole. */
int ckpt_sink_name(struct ckpt_sink *sink, struct ckpt_error *err);

/* Give it its name and sync the folder. The sink is closed in any case. */
int ckpt_sink_commit(struct ckpt_sink *sink, struct ckpt_error *err);

/* Drop it: nothing remains, unless it has got its name. NULL is allowed. */
void ckpt_sink_discard(struct ckpt_sink *sink);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CKPT_IO_SINK_H
#define CKPT_IO_SINK_H

#include "io/source.h"

/*
 * A file being made. It has no name until ckpt_sink_commit() or, on file systems without unnamed
 * files, a temporary one beside the final one. So nobody ever sees a half-written file under the
 * final name, whatever ends the process.
 */
struct ckpt_sink;
struct ckpt_save_options;

enum ckpt_sink_flags {
	CKPT_SINK_REPLACE = 1 << 0, /* an existing file is replaced, else it is CKPT_E_EXISTS */
	CKPT_SINK_NO_SYNC = 1 << 1, /* leave writing back to the system, as cp does */
	CKPT_SINK_THREADS = 1 << 2, /* many threads will write at once, every byte once */
};

/*
 * Check before the work whether PATH can be made, as far as one can tell without making it: an
 * existing file without CKPT_SINK_REPLACE, a folder of that name and a missing parent folder are
 * errors.
 */
int ckpt_sink_check(const char *path, unsigned flags, struct ckpt_error *err);

/*
 * SIZE is known from the layout; 0: the file grows. NEED: bytes that it will take on disk,
 * without holes; less free space is an error at once. MODE: permissions of a new file, less the
 * umask, from the moment that it exists, so that what is made of a private file is private.
 */
int ckpt_sink_open(const char *path, uint64_t size, uint64_t need, unsigned flags, unsigned mode,
		   struct ckpt_sink **out, struct ckpt_error *err);

/*
 * The same for bytes that go to FD in order: a pipe, a socket, standard output. They are written to
 * an unnamed file in FOLDER, as writers neither go in order nor know before
 * the end that all is well, and ckpt_sink_commit() copies that: FD gets all bytes, or, until then,
 * none. NAME: what FD is called in messages. CANCEL may be NULL; it counts while bytes are sent.
 */
int ckpt_sink_open_fd(int fd, const char *name, const char *folder, uint64_t size, uint64_t need,
		      const volatile int *cancel, struct ckpt_sink **out, struct ckpt_error *err);

/*
 * Several threads may write at once, to different places. With CKPT_SINK_THREADS and a SIZE, on
 * tmpfs and where at least ckpt_sink_map_processors can run at once, they write through a map: the
 * system lets one thread at a time write to a file, and 8 write 2 to 3 times as fast without that.
 */
extern unsigned ckpt_sink_map_processors; /* for tests */
int ckpt_sink_write(struct ckpt_sink *sink, uint64_t off, const void *bytes, size_t len,
		    struct ckpt_error *err);

/*
 * All LEN bytes from OFF on are about to be written: on ext4 they get their blocks on the disk at
 * once, which takes a third to a half off the time that the system needs for writing them. Only a
 * hint: it cannot fail, and what does not fit is told by the write.
 */
void ckpt_sink_expect(struct ckpt_sink *sink, uint64_t off, uint64_t len);

/*
 * The file will have at least SIZE bytes. Those that nobody writes are a hole: it takes no space
 * on disk and reads as zeros. Several threads may call this at once.
 */
void ckpt_sink_reach(struct ckpt_sink *sink, uint64_t size);

/*
 * Copy inside the kernel. *DONE says how many bytes. Fewer than LEN, often 0, means that the kernel
 * cannot do it or would be slower than the caller, who has to write the rest.
 */
int ckpt_sink_copy(struct ckpt_sink *sink, uint64_t off, const struct ckpt_source *src,
		   uint64_t src_off, uint64_t len, uint64_t *done, struct ckpt_error *err);

/*
 * Make the output begin with all of SRC, a file, by sharing its blocks (FICLONE: XFS, Btrfs).
 * *DONE is false if the file systems cannot do that.
 */
int ckpt_sink_clone(struct ckpt_sink *sink, const struct ckpt_source *src, bool *done,
		    struct ckpt_error *err);

/* Wait until the bytes are on the disk; nothing with CKPT_SINK_NO_SYNC. */
int ckpt_sink_sync(struct ckpt_sink *sink, struct ckpt_error *err);

/*
 * The same for LEN bytes from OFF on, and without what the file system keeps of the file:
 * ckpt_sink_sync() has to follow.
 */
int ckpt_sink_sync_part(struct ckpt_sink *sink, uint64_t off, uint64_t len, struct ckpt_error *err);

/* For reading what was written. Borrowed. */
int ckpt_sink_fd(const struct ckpt_sink *sink);

/* Begin to write back what is not on the disk yet, without waiting for it. */
void ckpt_sink_start_sync(struct ckpt_sink *sink);

/* Give the file its name without any sync: for files of a folder that is synced as a whole. */
int ckpt_sink_name(struct ckpt_sink *sink, struct ckpt_error *err);

/*
 * The file is the output of a save with the options O, which may end it until it has its name. O is
 * borrowed until the sink is closed.
 */
void ckpt_sink_set_save(struct ckpt_sink *sink, const struct ckpt_save_options *o);

/* Give the file its name and sync the folder, or send it. Closes the sink in any case. */
int ckpt_sink_commit(struct ckpt_sink *sink, struct ckpt_error *err);

/* Close the sink; nothing remains of the file unless it has its name. NULL is allowed. */
void ckpt_sink_discard(struct ckpt_sink *sink);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CKPT_BROADCAST_LANDING_H
#define CKPT_BROADCAST_LANDING_H

#include "broadcast/manifest.h"

#include <sys/stat.h>

/*
 * The output on this node: files that get their names when every rank has all bytes. A directory
 * appears as a whole.
 */
struct ckpt_landing;

enum ckpt_landing_flags {
	CKPT_LANDING_REPLACE = 1 << 0, /* replace what an earlier broadcast wrote */
	CKPT_LANDING_NO_SYNC = 1 << 1,
};

/*
 * What killed runs left beside PATH, under hidden names of it: it would only take room. Nothing of a process
 * that lives is touched.
 */
void ckpt_landing_remove_left_over(const struct ckpt_manifest *m, const char *path);

/*
 * PATH: the name of a single file, the folder for several files, or the new folder for a directory.
 * Too little free space, missing folders and names that are taken are errors.
 */
int ckpt_landing_open(const struct ckpt_manifest *manifest, const char *path, unsigned flags,
		      struct ckpt_landing **out, struct ckpt_error *err);

/* Write LEN bytes at OFF of file number FILE, every byte once. Several threads may call it. */
int ckpt_landing_write(struct ckpt_landing *landing, uint32_t file, uint64_t off, const void *bytes,
		       size_t len, struct ckpt_error *err);

/* After the last write: wait until all is on the disk. Nothing has its final name yet. */
int ckpt_landing_finish(struct ckpt_landing *landing, struct ckpt_error *err);

/* After that: a descriptor to read file number FILE, which the caller closes. */
int ckpt_landing_reopen(struct ckpt_landing *landing, uint32_t file, int *fd,
			struct ckpt_error *err);

/* Error RC is about this file: put its final name into ERR. Returns RC. */
int ckpt_landing_name_error(const struct ckpt_landing *landing, uint32_t file, int rc,
			    struct ckpt_error *err);

/* Which file, or for a directory which folder, will get the name. */
int ckpt_landing_identity(const struct ckpt_landing *landing, uint32_t file, struct stat *out,
			  struct ckpt_error *err);

/*
 * Give everything its name. A directory already has its note then, with CRCS, see
 * ckpt_staged_note(). The landing is closed in any case.
 */
int ckpt_landing_commit(struct ckpt_landing *landing, const uint32_t *crcs, struct ckpt_error *err);

/* Remove everything that was written. NULL is allowed. */
void ckpt_landing_discard(struct ckpt_landing *landing);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CKPT_BROADCAST_LANDING_H
#define CKPT_BROADCAST_LANDING_H

#include "broadcast/manifest.h"

#include <sys/stat.h>

/*
 * Where the bytes land on this node: files that get their names when every rank has all of them, or
 * nowhere. A directory appears as a whole.
 */
struct ckpt_landing;

enum ckpt_landing_flags {
	CKPT_LANDING_REPLACE = 1 << 0, /* what was staged before is replaced */
	CKPT_LANDING_NO_SYNC = 1 << 1,
};

/*
 * PATH: the name of the one file, or the folder for several, or the new folder for a directory.
 * Free space is asked for; missing folders, and names that are taken, are errors.
 */
int ckpt_landing_open(const struct ckpt_manifest *manifest, const char *path, unsigned flags,
		      struct ckpt_landing **out, struct ckpt_error *err);

/* LEN bytes at OFF of file number FILE. By several threads at once. Every byte is written once. */
int ckpt_landing_write(struct ckpt_landing *landing, uint32_t file, uint64_t off, const void *bytes,
		       size_t len, struct ckpt_error *err);

/* All was written: wait until it is on the disk. Nothing has its final name yet. */
int ckpt_landing_finish(struct ckpt_landing *landing, struct ckpt_error *err);

/* Behind that: a descriptor of file number FILE to read it by, for the caller to close. */
int ckpt_landing_reopen(struct ckpt_landing *landing, uint32_t file, int *fd,
			struct ckpt_error *err);

/* Error RC is one of this file: its final name goes into ERR. Returns RC. */
int ckpt_landing_name_error(const struct ckpt_landing *landing, uint32_t file, int rc,
			    struct ckpt_error *err);

/* Which file, or of a directory which folder, is going to have the name. */
int ckpt_landing_identity(const struct ckpt_landing *landing, uint32_t file, struct stat *out,
			  struct ckpt_error *err);

/*
 * Give everything its name. A directory has the note in it by then by which it is known as staged,
 * see ckpt_staged_note(), for which CRCS are. The landing is closed in any case.
 */
int ckpt_landing_commit(struct ckpt_landing *landing, const uint32_t *crcs, struct ckpt_error *err);

/* Nothing remains. NULL is allowed. */
void ckpt_landing_discard(struct ckpt_landing *landing);

#endif

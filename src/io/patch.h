/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CKPT_IO_PATCH_H
#define CKPT_IO_PATCH_H

#include "io/source.h"

#include <stdbool.h>

/*
 * An existing file that is changed in place. Up to the next sync, writes may reach the disk in any
 * order; a write that does not cross a 512-byte sector happens as a whole or not at all.
 */
struct ckpt_patch;

enum ckpt_patch_flags {
	/*
	 * Allow symbolic links and files with other names (hard links), which see the change,
	 * too.
	 */
	CKPT_PATCH_ANY_NAMES = 1 << 0,
};

/*
 * Open PATH for writing. It has to be the very file that SOURCE reads, and nobody else may be
 * patching it (flock). CKPT_E_OUTPUT if it is a link or has several names; CKPT_E_CHANGED;
 * CKPT_E_IO.
 */
int ckpt_patch_open(const char *path, const struct ckpt_source *source, unsigned flags,
		    struct ckpt_patch **out, struct ckpt_error *err);

int ckpt_patch_write(struct ckpt_patch *patch, uint64_t off, const void *bytes, size_t len,
		     struct ckpt_error *err);
int ckpt_patch_truncate(struct ckpt_patch *patch, uint64_t size, struct ckpt_error *err);
/*
 * Give the blocks that lie in LEN bytes at OFF back: they become zeros, for whoever has them mapped,
 * too. CAN_PUNCH: has the file system holes? It tries one behind the end, which changes the time of
 * the last change.
 */
bool ckpt_patch_can_punch(struct ckpt_patch *patch);
int ckpt_patch_punch(struct ckpt_patch *patch, uint64_t off, uint64_t len, struct ckpt_error *err);
/* Bytes of the disk that the file takes. */
uint64_t ckpt_patch_nbytes_on_disk(const struct ckpt_patch *patch);
/* CKPT_E_OUTPUT, with its number, if another process can be seen that has the file open or mapped. */
int ckpt_patch_check_unused(const struct ckpt_patch *patch, struct ckpt_error *err);

int ckpt_patch_sync(struct ckpt_patch *patch, struct ckpt_error *err);

/* CKPT_E_CHANGED if PATH names another file now: somebody saved under that name meanwhile. */
int ckpt_patch_check(const struct ckpt_patch *patch, const char *path, struct ckpt_error *err);

/*
 * CKPT_E_OUTPUT if the file has other names: they would keep it where a new file, made as WHY, takes
 * the place of this one.
 */
int ckpt_patch_check_one_name(const struct ckpt_patch *patch, const char *why, struct ckpt_error *err);

/* NULL is allowed. */
void ckpt_patch_close(struct ckpt_patch *patch);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CKPT_SCAN_FILES_H
#define CKPT_SCAN_FILES_H

#include "base/arena.h"
#include "base/strmap.h"

#include <stdbool.h>
#include <stdint.h>

/*
 * The files of a folder and of those below it, in the order of their names, and all else that is
 * there and is no folder.
 */
struct ckpt_scan_files {
	struct ckpt_arena *arena; /* owned: the paths */
	const char **paths;	  /* owned */
	uint64_t *sizes;	  /* owned */
	uint32_t count, cap, size_cap;
	uint64_t bytes;
	uint32_t unreadable_folders; /* ... which stand in the list, too */
	struct ckpt_strmap packages; /* folders that are an unpacked torch.package */
};

/* PATH may be a single file. */
int ckpt_scan_list_files(const char *path, struct ckpt_scan_files *out, struct ckpt_error *err);
/* Where PATH, one of the list, lies in an unpacked torch.package; NULL: in none. */
const char *ckpt_scan_path_in_package(const struct ckpt_scan_files *files, const char *path);
void ckpt_scan_files_clear(struct ckpt_scan_files *files);

#endif

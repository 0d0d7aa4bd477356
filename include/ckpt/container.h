/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CKPT_CONTAINER_H
#define CKPT_CONTAINER_H

#include <ckpt/error.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 * Zip archives that hold checkpoints as files, as Stable-Baselines3 and others make them. Every
 * function that opens a file to read it takes ARCHIVE::NAME for one of these files, and A::B::C for
 * archives in archives.
 */

/* One file in an archive. */
struct ckpt_inner {
	size_t size;
	const char *name; /* in the archive; raw bytes of the file, valid during the call */
	const char *kind; /* the format as in ckpt_file_info; "zip archive"; NULL: no checkpoint */
	uint64_t nbytes;  /* when unpacked */
	uint64_t stored;  /* bytes in the archive */
	uint64_t tensors;
};

/*
 * Call VISIT for every file, but no folder, in the archive at PATH, in the order of its directory;
 * a negative status stops and is returned. The metadata of each file is read. Returns 0;
 * CKPT_E_UNSUPPORTED if PATH is not a zip archive; else as ckpt_open(). A file that cannot be read
 * is no error and has no kind.
 */
CKPT_API int ckpt_each_inner(const char *path,
			     int (*visit)(void *ctx, const struct ckpt_inner *inner), void *ctx,
			     struct ckpt_error *err);

#ifdef __cplusplus
}
#endif
#endif

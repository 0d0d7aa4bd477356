/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CKPT_BROADCAST_MANIFEST_H
#define CKPT_BROADCAST_MANIFEST_H

#include "base/buf.h"
#include "base/error.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>
#include <time.h>

/*
 * What to broadcast: some files as one stream of bytes, one after the other. Rank 0 makes it, all
 * others get it as bytes. The index of a directory of shards is the last file, so that whoever sees
 * it sees the rest.
 */
struct ckpt_manifest_file {
	char *path;	/* owned; relative to the destination, checked to stay inside */
	uint64_t start; /* in the stream */
	uint64_t size;
	uint32_t mode; /* without read access for those who may not enter its folders */
	uint64_t dev, ino;
	int64_t mtime_sec, ctime_sec;
	uint32_t mtime_nsec, ctime_nsec;
};

struct ckpt_manifest {
	struct ckpt_manifest_file *files; /* owned */
	uint32_t count, cap;
	uint64_t total;	   /* bytes of all files */
	bool is_directory; /* the files are in one new folder, which appears as a whole */
	uint32_t directory_mode;
	uint32_t left_out_count; /* of rank 0, which made it: links to folders */
	char left_out[80];	 /* the first of them, to show */
};

/* SOURCES: one file or directory, or several files. Reads only names, sizes and times. */
int ckpt_manifest_make(const char *const *sources, size_t count, struct ckpt_manifest *out,
		       struct ckpt_error *err);
void ckpt_manifest_clear(struct ckpt_manifest *manifest);

/* CKPT_E_CHANGED: PATH is no longer what it was when the list was made. */
int ckpt_manifest_check_unchanged(const struct ckpt_manifest_file *file, const char *path,
				  struct ckpt_error *err);

int ckpt_manifest_write(const struct ckpt_manifest *manifest, struct ckpt_buf *out,
			struct ckpt_error *err);

/* The bytes are those of another rank, but they are checked like those of a foreign file. */
int ckpt_manifest_read(const uint8_t *bytes, size_t len, struct ckpt_manifest *out,
		       struct ckpt_error *err);

/* A part of the stream that is in one file. */
struct ckpt_manifest_piece {
	uint32_t file;
	uint64_t off; /* in the file */
	uint64_t len;
};

/* The piece at POS, which is below the total, up to END. Empty files have none. */
struct ckpt_manifest_piece ckpt_manifest_piece_at(const struct ckpt_manifest *manifest,
						  uint64_t pos, uint64_t end);

#endif

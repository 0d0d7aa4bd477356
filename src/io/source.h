/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CKPT_IO_SOURCE_H
#define CKPT_IO_SOURCE_H

#include "base/error.h"

#include <sys/stat.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/*
 * Bytes that can be read at any offset: a file, memory, or a slice of another source. Reference
 * counted; reading is safe from many threads.
 */
struct ckpt_source;

int ckpt_source_open(const char *path, struct ckpt_source **out, struct ckpt_error *err);

/* The bytes are borrowed. */
int ckpt_source_from_memory(const void *bytes, size_t len, struct ckpt_source **out,
			    struct ckpt_error *err);

int ckpt_source_slice(struct ckpt_source *base, uint64_t off, uint64_t len,
		      struct ckpt_source **out, struct ckpt_error *err);

/*
 * The same, with the first and last bytes of the slice read at once and kept, EDGE of each: where the
 * headers of a container are.
 */
int ckpt_source_slice_edges(struct ckpt_source *base, uint64_t off, uint64_t len, size_t edge,
			    struct ckpt_source **out, struct ckpt_error *err);

/* Bytes that are made when they are read, from those of another source. */
struct ckpt_source_maker {
	/* As ckpt_source_read(), of a range inside of it; by several threads at once. */
	int (*read)(void *ctx, uint64_t off, void *buf, size_t len, struct ckpt_error *err);
	void (*free)(void *ctx);
	bool is_random; /* it is as fast to read them anywhere */
};

/*
 * SIZE bytes. ORIGIN, of which a reference is taken, is asked for the path and for changes; NULL: there is none. Takes
 * CTX, in any case.
 */
int ckpt_source_make(const struct ckpt_source_maker *maker, void *ctx, struct ckpt_source *origin,
		     uint64_t size, struct ckpt_source **out, struct ckpt_error *err);

/* Is it slow to read it elsewhere than where the read before ended? */
bool ckpt_source_is_sequential(const struct ckpt_source *src);

struct ckpt_source *ckpt_source_ref(struct ckpt_source *src);
void ckpt_source_unref(struct ckpt_source *src);

uint64_t ckpt_source_size(const struct ckpt_source *src);

/*
 * Who may read and write what is made of it: its mode, but nobody by its group if that is another than the one of new files. 0666 of memory.
 */
unsigned ckpt_source_mode(const struct ckpt_source *src);

/* The same of a file that was only looked at. */
unsigned ckpt_mode_for_new(const struct stat *st);

/* The path it was opened with; NULL for memory. */
const char *ckpt_source_path(const struct ckpt_source *src);

/* Read exactly LEN bytes. A range outside the source is CKPT_E_FORMAT, not a short read. */
int ckpt_source_read(const struct ckpt_source *src, uint64_t off, void *buf, size_t len,
		     struct ckpt_error *err);

/* The file behind a source and where the source starts in it; -1 if there is none. Borrowed. */
int ckpt_source_fd(const struct ckpt_source *src, uint64_t *file_off);

/*
 * The next stretch of data at or after *OFF and before END: moves *OFF to its start, *DATA_END
 * behind it. False: only a hole is left. Where holes cannot be told, all is data.
 */
bool ckpt_source_next_data(const struct ckpt_source *src, uint64_t *off, uint64_t end,
			   uint64_t *data_end);

/* Bytes that the file behind it takes on disk: fewer than its size if it has holes. */
uint64_t ckpt_source_disk_bytes(const struct ckpt_source *src);

/* CKPT_E_CHANGED if size or time of change are not what they were when the file was opened. */
int ckpt_source_check_unchanged(const struct ckpt_source *src, struct ckpt_error *err);

/* Device and inode of the file behind it; false if there is none. */
bool ckpt_source_identity(const struct ckpt_source *src, dev_t *dev, ino_t *ino);

/*
 * A small window for reading many pieces that lie one behind the other. Not thread-safe.
 * Where there is no memory for it, it is all zero.
 */
struct ckpt_window {
	const struct ckpt_source *src;
	uint64_t off;
	size_t len, cap;
	uint8_t *bytes;
};

int ckpt_window_init(struct ckpt_window *w, const struct ckpt_source *src, size_t cap,
		     struct ckpt_error *err);
void ckpt_window_clear(struct ckpt_window *w);

/* LEN bytes at OFF, valid until the next call; LEN must not pass the window's capacity. */
int ckpt_window_read(struct ckpt_window *w, uint64_t off, size_t len, const uint8_t **out,
		     struct ckpt_error *err);

#endif

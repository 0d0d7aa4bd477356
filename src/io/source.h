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
 * The same, but the first and the last EDGE bytes of the slice, where the headers of a container
 * are, are read at once and kept.
 */
int ckpt_source_slice_edges(struct ckpt_source *base, uint64_t off, uint64_t len, size_t edge,
			    struct ckpt_source **out, struct ckpt_error *err);

/* Bytes that are made when they are read, from those of another source. */
struct ckpt_source_maker {
	/* As ckpt_source_read(), of a valid range. Called by several threads at once. */
	int (*read)(void *ctx, uint64_t off, void *buf, size_t len, struct ckpt_error *err);
	void (*free)(void *ctx);
	bool is_random; /* reading is equally fast anywhere */
};

/*
 * A source of SIZE bytes. It takes a reference of ORIGIN, which has the path and is checked for
 * changes; NULL: there is none. Takes CTX, also on failure.
 */
int ckpt_source_make(const struct ckpt_source_maker *maker, void *ctx, struct ckpt_source *origin,
		     uint64_t size, struct ckpt_source **out, struct ckpt_error *err);

struct ckpt_reader_options; /* <ckpt/model.h> */

/* A source of what the caller reads. `close` is called once, also on failure but CKPT_E_ARG. */
int ckpt_source_from_caller(const struct ckpt_reader_options *reader, struct ckpt_source **out,
			    struct ckpt_error *err);

/* Are reads fast only where the previous one ended? */
bool ckpt_source_is_sequential(const struct ckpt_source *src);

struct ckpt_source *ckpt_source_ref(struct ckpt_source *src);
void ckpt_source_unref(struct ckpt_source *src);

uint64_t ckpt_source_size(const struct ckpt_source *src);

/*
 * The permissions of a file that is made of this one: the same, but if its group is not that of
 * new files, the group may do only what everybody may. 0666 for memory.
 */
unsigned ckpt_source_mode(const struct ckpt_source *src);

/* The same for a file of which only ST is known. */
unsigned ckpt_mode_for_new(const struct stat *st);

/* The path it was opened with; NULL for memory. */
const char *ckpt_source_path(const struct ckpt_source *src);

/* Read exactly LEN bytes. A range outside the source is CKPT_E_FORMAT, not a short read. */
int ckpt_source_read(const struct ckpt_source *src, uint64_t off, void *buf, size_t len,
		     struct ckpt_error *err);

/* The file behind a source, and the offset at which the source starts in it; -1: none. Borrowed. */
int ckpt_source_fd(const struct ckpt_source *src, uint64_t *file_off);

/*
 * LEN bytes at OFF will be read soon, in some other order: let the system fetch them, if it can. Without
 * it, each short read of what is not in memory waits for the disk.
 */
void ckpt_source_will_need(const struct ckpt_source *src, uint64_t off, uint64_t len);

/*
 * All bytes of SRC in memory, read-only, as long as SRC lives: a map of the file, made by the first
 * call, or the memory itself. CKPT_E_UNSUPPORTED if they are made when they are read.
 */
int ckpt_source_map(struct ckpt_source *src, const uint8_t **out, struct ckpt_error *err);

/*
 * Find the next stretch of data at or after *OFF and before END. Sets *OFF to its start and
 * *DATA_END to its end. False: only a hole is left. If the file system does not know holes, all
 * is data.
 */
bool ckpt_source_next_data(const struct ckpt_source *src, uint64_t *off, uint64_t end,
			   uint64_t *data_end);

/* Bytes that the file behind it takes on disk, fewer than its size if it has holes. */
uint64_t ckpt_source_disk_bytes(const struct ckpt_source *src);

/* CKPT_E_CHANGED if the size or modification time differs from when the file was opened. */
int ckpt_source_check_unchanged(const struct ckpt_source *src, struct ckpt_error *err);

/* Device and inode of the file behind it; false if there is none. */
bool ckpt_source_identity(const struct ckpt_source *src, dev_t *dev, ino_t *ino);

/*
 * A buffer for reading many small pieces that follow one another in a source. For one thread.
 * All zero if ckpt_window_init() had no memory.
 */
struct ckpt_window {
	const struct ckpt_source *src;
	uint64_t off;
	size_t len, cap;
	size_t ahead; /* read so many bytes at once, at most CAP, which is what it is at first */
	uint8_t *bytes;
};

int ckpt_window_init(struct ckpt_window *w, const struct ckpt_source *src, size_t cap,
		     struct ckpt_error *err);
void ckpt_window_clear(struct ckpt_window *w);

/* *OUT: LEN bytes at OFF, valid until the next call. LEN is at most the window's capacity. */
int ckpt_window_read(struct ckpt_window *w, uint64_t off, size_t len, const uint8_t **out,
		     struct ckpt_error *err);

#endif

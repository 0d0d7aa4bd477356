/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CKPT_ZIPFMT_INDEX_H
#define CKPT_ZIPFMT_INDEX_H

#include "base/arena.h"
#include "base/reader.h"
#include "base/strmap.h"
#include "io/source.h"
#include "tensor/recipe.h"

#include <ckpt/model.h>

#include <pthread.h>

enum ckpt_zip_method { CKPT_ZIP_STORED = 0, CKPT_ZIP_DEFLATED = 8 };

/* One record, as the central directory describes it. */
struct ckpt_zip_entry {
	const char *name; /* full name, with a NUL after it and none in it */
	uint32_t name_len;
	uint32_t crc32; /* 0 may mean that none is recorded */
	uint64_t csize, usize;
	uint64_t header_off;
	uint64_t data_off; /* 0 until ckpt_zip_locate() */
	uint16_t method, flags;
	bool used; /* set by the format that read it, to know which records nobody reads */
};

/* The directory of an archive. Memory is the arena's. */
struct ckpt_zip {
	struct ckpt_arena *arena;	/* owned */
	struct ckpt_source *source;	/* owned reference */
	struct ckpt_zip_entry *entries; /* in the order of the directory */
	uint32_t count;
	struct ckpt_strmap by_name; /* lower-case names */
	bool forgot_names;	    /* BY_NAME is empty: names are searched in ENTRIES */
	uint64_t directory_off;
	pthread_mutex_t lock; /* for what reading changes: data offsets, the decompressor */
	struct ckpt_window headers;	/* of local headers; CAP 0 until one is read */
	struct ckpt_inflater *inflater; /* owned; NULL until a compressed record is read */
};

/*
 * Read the directory. Supports records over 4 GiB, more than 65,535 records, data descriptors,
 * comments and trailing bytes (as many as torch tolerates). Refuses what different readers would
 * see differently: two records of one name (case ignored), records whose headers overlap each
 * other or the directory, several disks. Overlaps that only the local headers show are found by
 * ckpt_zip_locate_all().
 *
 * Returns 0; CKPT_E_NOTFOUND if there is no end record (truncated, or no zip at all);
 * CKPT_E_FORMAT, CKPT_E_LIMIT, CKPT_E_IO, CKPT_E_NOMEM.
 */
int ckpt_zip_open(struct ckpt_source *source, struct ckpt_zip **out, struct ckpt_error *err);
void ckpt_zip_close(struct ckpt_zip *zip); /* NULL is allowed */

/*
 * Read one entry of a directory from READER, whose first byte is at START of the file. The name
 * goes to ARENA.
 */
int ckpt_zip_parse_entry(struct ckpt_reader *reader, uint64_t start, struct ckpt_arena *arena,
			 struct ckpt_zip_entry *out, struct ckpt_error *err);

/*
 * Numbers that do not fit in 32 bits are in the extra field of a header, LEN bytes at EXTRA.
 * Replaces each number that is 0xFFFFFFFF by the one there. False: the field is cut short.
 */
bool ckpt_zip_read_zip64(const uint8_t *extra, size_t len, uint64_t *usize, uint64_t *csize,
			 uint64_t *header_off);

/* Find a record by its full name, ignoring ASCII case as torch does. NULL: none. */
struct ckpt_zip_entry *ckpt_zip_find(const struct ckpt_zip *zip, const char *name, size_t len);

/* The entries in the order of their headers in the file; to be freed. NULL: no memory. */
struct ckpt_zip_entry **ckpt_zip_by_place(const struct ckpt_zip *zip);

/* Free the index of names, once all frequent lookups are done. Later ones take time. */
void ckpt_zip_forget_names(struct ckpt_zip *zip);

/*
 * The public description of a record, without the first SKIP bytes of its name. The format sets
 * the kind.
 */
struct ckpt_record ckpt_zip_describe(const struct ckpt_zip_entry *entry, size_t skip);

/*
 * Find where the record's data start: read the local header, whose lengths are the ones that
 * count, and check that it agrees with the directory. Records that torch cannot read (encrypted,
 * other methods, sizes that disagree) fail here.
 */
int ckpt_zip_locate(struct ckpt_zip *zip, struct ckpt_zip_entry *entry, struct ckpt_error *err);

/* The same for every record, in one sweep through the file. */
int ckpt_zip_locate_all(struct ckpt_zip *zip, struct ckpt_error *err);

/* A recipe for the record's uncompressed bytes. The entry has been located. */
struct ckpt_recipe ckpt_zip_recipe(struct ckpt_zip *zip, const struct ckpt_zip_entry *entry);

/*
 * Read the whole record, of at most MOST bytes, into memory, to be freed with free(). Checks its
 * CRC if one is recorded.
 */
int ckpt_zip_read(struct ckpt_zip *zip, struct ckpt_zip_entry *entry, uint64_t most, uint8_t **out,
		  struct ckpt_error *err);

#endif

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

/* One record, as the central directory has it. */
struct ckpt_zip_entry {
	const char *name; /* full name, with a NUL behind and none inside */
	uint32_t name_len;
	uint32_t crc32; /* 0 may mean: not recorded */
	uint64_t csize, usize;
	uint64_t header_off;
	uint64_t data_off; /* 0 until ckpt_zip_locate() */
	uint16_t method, flags;
	bool used; /* for whoever wants to know which records nobody asked for */
};

/* The directory of an archive. Memory is the arena's. */
struct ckpt_zip {
	struct ckpt_arena *arena;	/* owned */
	struct ckpt_source *source;	/* owned reference */
	struct ckpt_zip_entry *entries; /* in the order of the directory */
	uint32_t count;
	struct ckpt_strmap by_name; /* lower-case names */
	bool forgot_names;	    /* BY_NAME is empty, and who looks for a name goes through ENTRIES */
	uint64_t directory_off;
	pthread_mutex_t lock;		/* of what reading adds: data offsets, the decompressor */
	struct ckpt_window headers;	/* of local headers; CAP 0 until one is read */
	struct ckpt_inflater *inflater; /* owned; NULL until a compressed record is read */
};

/*
 * Read the directory. Records over 4 GiB, more than 65,535 records, data descriptors, comments and
 * trailing bytes (as many as torch tolerates) are understood. Refused, as different readers would
 * see different files: two records of one name (case ignored), records whose headers overlap
 * each other or the directory, several disks. Overlaps that only the local headers show are found by
 * ckpt_zip_locate_all().
 *
 * Returns 0; CKPT_E_NOTFOUND if there is no end record (truncated, or no zip at all);
 * CKPT_E_FORMAT, CKPT_E_LIMIT, CKPT_E_IO, CKPT_E_NOMEM.
 */
int ckpt_zip_open(struct ckpt_source *source, struct ckpt_zip **out, struct ckpt_error *err);
void ckpt_zip_close(struct ckpt_zip *zip); /* NULL is allowed */

/* The entry of a directory at the place of READER, whose first byte is at START of the file. The name goes to ARENA. */
int ckpt_zip_parse_entry(struct ckpt_reader *reader, uint64_t start, struct ckpt_arena *arena,
			 struct ckpt_zip_entry *out, struct ckpt_error *err);

/*
 * What does not fit in 32 bits of a header is in its extra field of LEN bytes: each number that is 0xFFFFFFFF here becomes the one
 * there. False: the field is cut short.
 */
bool ckpt_zip_read_zip64(const uint8_t *extra, size_t len, uint64_t *usize, uint64_t *csize,
			 uint64_t *header_off);

/* By full name; ASCII case is ignored, as torch does. NULL: not there, or no memory. */
struct ckpt_zip_entry *ckpt_zip_find(const struct ckpt_zip *zip, const char *name, size_t len);

/* All that will often be looked for is found: from now on names take no memory but their own, and finding one takes time. */
void ckpt_zip_forget_names(struct ckpt_zip *zip);

/* What the directory says of it, its name without the first SKIP bytes. The kind is for the format to say. */
struct ckpt_record ckpt_zip_describe(const struct ckpt_zip_entry *entry, size_t skip);

/*
 * Find where the record's data start: reads the local header, whose lengths count, and checks that
 * it agrees with the directory. Records that torch could not read (encrypted, odd methods, sizes
 * that disagree) fail here.
 */
int ckpt_zip_locate(struct ckpt_zip *zip, struct ckpt_zip_entry *entry, struct ckpt_error *err);

/* The same for every record, in one sweep through the file. */
int ckpt_zip_locate_all(struct ckpt_zip *zip, struct ckpt_error *err);

/* The record's (uncompressed) bytes, not read yet. The entry must have been located. */
struct ckpt_recipe ckpt_zip_recipe(struct ckpt_zip *zip, const struct ckpt_zip_entry *entry);

/*
 * The whole record in memory, to be freed with free(). MOST is the limit. The CRC is checked where
 * one is recorded.
 */
int ckpt_zip_read(struct ckpt_zip *zip, struct ckpt_zip_entry *entry, uint64_t most, uint8_t **out,
		  struct ckpt_error *err);

#endif

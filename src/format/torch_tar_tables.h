/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CKPT_FORMAT_TORCH_TAR_TABLES_H
#define CKPT_FORMAT_TORCH_TAR_TABLES_H

#include "format/torch_tar.h"

/*
 * What the parts of the reader of the two tables share. Functions return 0 or a negative status,
 * with the message in r->err.
 */
struct ckpt_tar_reader {
	struct ckpt_torch_tar *tt;
	struct ckpt_source *source;
	struct ckpt_composer compose;
	uint64_t at, end;	   /* in the member that is read */
	struct ckpt_pickle pickle; /* the last one, and what it points to */
	uint8_t *bytes;
	const struct ckpt_value *word_storage, *rebuild, *ordered_dict;
	struct ckpt_error *err;
};

/* ---- torch_tar_tables.c ---- */

/* Fail: WHAT was wanted, FOUND was found. */
int ckpt_tar_wrong(struct ckpt_tar_reader *r, const char *what, const struct ckpt_value *found);

/*
 * Read the next pickle to r->pickle, where it stays until the one after it; a tuple of COUNT
 * items.
 */
int ckpt_tar_next_pickle(struct ckpt_tar_reader *r);
int ckpt_tar_next_tuple(struct ckpt_tar_reader *r, uint32_t count, const char *what,
			const struct ckpt_value *const **items);
int ckpt_tar_read_bytes(struct ckpt_tar_reader *r, void *out, size_t len);
uint64_t ckpt_tar_little_endian(const uint8_t *bytes, size_t len);

/* Find the entry with KEY, or NULL; add one. Both results are valid until the next one is added. */
struct ckpt_torch_tar_entry *ckpt_tar_find_entry(const struct ckpt_tar_reader *r,
						 const struct ckpt_value *key);
int ckpt_tar_add_entry(struct ckpt_tar_reader *r, const struct ckpt_value *key,
		       struct ckpt_torch_tar_entry **out);

/* ---- torch_tar_storages.c ---- */

int ckpt_tar_read_storage(struct ckpt_tar_reader *r);
int ckpt_tar_read_views(struct ckpt_tar_reader *r);

/* Make a storage without elements, under no key, for tensor KEY of class TYPE. */
int ckpt_tar_empty_storage(struct ckpt_tar_reader *r, int64_t key, const struct ckpt_value *type,
			   const struct ckpt_torch_tar_entry **out);

/* ---- torch_tar_tensors.c ---- */

int ckpt_tar_read_tensor(struct ckpt_tar_reader *r);

#endif

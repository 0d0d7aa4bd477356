/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CKPT_FORMAT_TORCH_TAR_TABLES_H
#define CKPT_FORMAT_TORCH_TAR_TABLES_H

#include "format/torch_tar.h"

/* Inside of the reader of the two tables: what its parts share. Functions return 0 or a negative status, the message in r->err. */
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

/* WHAT was wanted, FOUND was there. */
int ckpt_tar_wrong(struct ckpt_tar_reader *r, const char *what, const struct ckpt_value *found);

/* The next pickle, in r->pickle until the one after it; of a tuple with COUNT items these. */
int ckpt_tar_next_pickle(struct ckpt_tar_reader *r);
int ckpt_tar_next_tuple(struct ckpt_tar_reader *r, uint32_t count, const char *what,
			const struct ckpt_value *const **items);
int ckpt_tar_read_bytes(struct ckpt_tar_reader *r, void *out, size_t len);
uint64_t ckpt_tar_little_endian(const uint8_t *bytes, size_t len);

/* What has the key KEY, or NULL; a new entry under it. Both are valid until the next new one. */
struct ckpt_torch_tar_entry *ckpt_tar_find_entry(const struct ckpt_tar_reader *r,
						 const struct ckpt_value *key);
int ckpt_tar_add_entry(struct ckpt_tar_reader *r, const struct ckpt_value *key,
		       struct ckpt_torch_tar_entry **out);

/* ---- torch_tar_storages.c ---- */

int ckpt_tar_read_storage(struct ckpt_tar_reader *r);
int ckpt_tar_read_views(struct ckpt_tar_reader *r);

/* A storage without elements for tensor KEY of class TYPE, under no key. */
int ckpt_tar_empty_storage(struct ckpt_tar_reader *r, int64_t key, const struct ckpt_value *type,
			   const struct ckpt_torch_tar_entry **out);

/* ---- torch_tar_tensors.c ---- */

int ckpt_tar_read_tensor(struct ckpt_tar_reader *r);

#endif

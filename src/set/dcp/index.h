/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CKPT_SET_DCP_INDEX_H
#define CKPT_SET_DCP_INDEX_H

#include "base/strmap.h"
#include "io/source.h"
#include "pickle/decode.h"
#include "tensor/dtype.h"

/*
 * What the `.metadata` pickle of a DCP directory says, as flat tables. Source of the format:
 * indexes written by torch 1.13, 2.6 and 2.14, and torch/distributed/checkpoint/metadata.py.
 */

enum { CKPT_DCP_NO_FILE = UINT32_MAX };

/* One block of a tensor, or the bytes of one other value. */
struct ckpt_dcp_chunk {
	const uint64_t *offset,
		*shape;	       /* in items, one number per dimension; NULL for other values */
	uint32_t file;	       /* CKPT_DCP_NO_FILE: the index does not say where it is */
	uint64_t off, len;     /* the item: bytes of that file */
	const char *transform; /* "stream.zstd/1": to be undone first; NULL: nothing */
	const struct ckpt_value *place; /* the MetadataIndex, and: */
	const struct ckpt_value *info;	/* the _StorageInfo; NULL if the index has none */
};

/* One key of the flat state dict. */
struct ckpt_dcp_entry {
	const struct ckpt_value *fqn;  /* a str */
	const struct ckpt_value *path; /* tuple of str and int in the nested state; NULL: flat */
	const struct ckpt_value *metadata; /* TensorStorageMetadata or BytesStorageMetadata */
	bool is_tensor;
	enum ckpt_dtype dtype;
	uint32_t ndim;
	const uint64_t *shape;
	uint64_t first_chunk, chunk_count; /* a value that is no tensor has one, or none */
};

struct ckpt_dcp_index {
	struct ckpt_arena *arena; /* owned; the pickle's values are borrowed */
	const struct ckpt_value *root;
	struct ckpt_dcp_entry *entries; /* malloc, in the order of the file */
	uint32_t entry_count, entry_cap;
	struct ckpt_dcp_chunk *chunks; /* malloc */
	uint64_t chunk_count;
	uint32_t chunk_cap;
	const char **files; /* malloc; paths relative to the directory, checked to stay inside */
	uint32_t file_count, file_cap;
	struct ckpt_strmap entry_by_fqn, file_by_name;
	bool has_planner_data;
	uint32_t unplaced; /* storage entries that belong to no chunk */
};

/*
 * PICKLE must outlive OUT. Returns 0; CKPT_E_UNSUPPORTED for indexes of other tools and of torch
 * 1.12; CKPT_E_FORMAT with the name of the entry; CKPT_E_LIMIT; CKPT_E_NOMEM.
 */
int ckpt_dcp_index_read(const struct ckpt_pickle *pickle, struct ckpt_dcp_index *out,
			struct ckpt_error *err);
void ckpt_dcp_index_clear(struct ckpt_dcp_index *index);

/*
 * ckpt_fields_load() of SOURCE, and make the tables. *BYTES is to be freed, after PICKLE is
 * cleared, both also on failure; the path goes into the message.
 */
int ckpt_dcp_index_load(const struct ckpt_source *source, uint8_t **bytes,
			struct ckpt_pickle *pickle, struct ckpt_dcp_index *out,
			struct ckpt_error *err);

/*
 * Are the steps of PATH, an entry's, those of its name FQN, with dots between them? Else the index
 * was damaged.
 */
bool ckpt_dcp_path_spells(const struct ckpt_value *path, const struct ckpt_value *fqn);

/* A chunk without items has no bytes, and need not be anywhere. */
bool ckpt_dcp_chunk_is_empty(const struct ckpt_dcp_chunk *chunk, uint32_t ndim);

/* ckpt_cover_check() of the chunks of a tensor. */
int ckpt_dcp_check_cover(const struct ckpt_dcp_index *index, const struct ckpt_dcp_entry *entry,
			 struct ckpt_error *err);

#endif

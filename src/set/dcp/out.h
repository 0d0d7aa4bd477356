/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CKPT_SET_DCP_OUT_H
#define CKPT_SET_DCP_OUT_H

#include "base/arena.h"
#include "base/buf.h"
#include "model/model.h"

/*
 * A DCP directory being made, as flat tables: what is saved under which key, and where its bytes
 * go. Source of the rules of flattening: torch/distributed/checkpoint/_traverse.py from torch 2.4
 * on, checked with 2.6 and 2.14.
 */

/* One step of a path in the nested state: the key of a mapping as str() gives it, or a position. */
struct ckpt_dcp_step {
	const char *text; /* NULL: a position */
	size_t len;
	uint64_t position;
};

struct ckpt_dcp_out_chunk {
	const uint64_t *offset, *shape; /* NULL for values that are no tensors */
	uint32_t file;
	uint64_t off, len;     /* the item */
	const char *transform; /* NULL: stored as it is */
};

struct ckpt_dcp_out_entry {
	const char *fqn;
	size_t fqn_len;
	const struct ckpt_dcp_step *path;
	uint32_t depth;
	const struct ckpt_value *value; /* the tensor, or the value to be pickled */
	bool is_tensor;
	struct ckpt_tensor tensor;
	uint64_t first_chunk, chunk_count;
	uint32_t alias_of; /* its chunks are those of this entry; UINT32_MAX: its own */
};

struct ckpt_dcp_out {
	struct ckpt_arena *arena; /* owned */
	struct ckpt_dcp_out_entry *entries;
	uint32_t entry_count, entry_cap;
	struct ckpt_dcp_out_chunk *chunks;
	uint64_t chunk_count;
	uint32_t chunk_cap;
	const char **files; /* their names; the caller's */
	uint32_t file_count;
	bool torch_1_13; /* the index has the module names of 1.13, which no later release loads */
};

/*
 * The entries of MODEL, whose root must be a mapping. LEAF, by id, says which values are one entry
 * although they are containers; it may be NULL. CKPT_E_UNSUPPORTED for tensors that DCP cannot
 * hold; CKPT_E_CLASH for two paths that join to one key.
 */
int ckpt_dcp_flatten(const struct ckpt_model *model, const uint8_t *leaf, uint32_t leaf_cap,
		     struct ckpt_dcp_out *out, struct ckpt_error *err);

int ckpt_dcp_out_add_chunk(struct ckpt_dcp_out *out, const struct ckpt_dcp_out_chunk *chunk,
			   struct ckpt_error *err);
void ckpt_dcp_out_clear(struct ckpt_dcp_out *out);

/*
 * Append the index: the form that every torch from 2.0 on and every Python from 3.8 on loads, which
 * means the classes of torch 2.0, no path, no version, a place for every key.
 */
int ckpt_dcp_emit_index(const struct ckpt_dcp_out *out, struct ckpt_buf *buf,
			struct ckpt_error *err);

/* Append the data.pkl of an item: a plain tensor on the CPU in C order, as torch.save writes it. */
void ckpt_dcp_emit_tensor(enum ckpt_dtype dtype, const uint64_t *shape, uint32_t ndim,
			  struct ckpt_buf *buf);

#endif

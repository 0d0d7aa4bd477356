/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CKPT_SET_TC_INDEX_H
#define CKPT_SET_TC_INDEX_H

#include "base/strmap.h"
#include "model/path.h"
#include "pickle/decode.h"
#include "set/listing.h"

/*
 * What the `metadata.pkl` of a directory of torch_checkpointing ("DCP v2") says, as flat tables.
 * Source of the format: torch_checkpointing 0.1.1, distributed_metadata.py, and what it writes. The
 * pickle consists of builtins only.
 */

#define CKPT_TC_INDEX "metadata.pkl"

/* A torch.save file: what one rank has of one item. */
struct ckpt_tc_file {
	uint32_t item, rank;
	const char *name; /* relative to the directory, checked to stay inside */
};

/* A tensor of an item, and who has which part of it. */
struct ckpt_tc_place {
	uint32_t item;
	const struct ckpt_value *text; /* the path as it is written, and its steps */
	const struct ckpt_path_step *steps;
	uint32_t step_count;
	const struct ckpt_value *groups; /* list of {"sharding_metadata": ..., "ranks": ...} */
};

/* A top-level entry of the checkpoint: "model", "optimizer", "step". */
struct ckpt_tc_item {
	const char *name;
	bool described; /* it has places */
};

struct ckpt_tc_index {
	struct ckpt_arena *arena; /* owned; the pickle's values are borrowed */
	const char *version;
	uint32_t world_size;
	struct ckpt_tc_item *items; /* malloc, as all below */
	uint32_t item_count, item_cap;
	struct ckpt_tc_place *places;
	uint32_t place_count, place_cap;
	struct ckpt_tc_file *files; /* by item, then by rank */
	uint32_t file_count, file_cap;
	struct ckpt_strmap item_by_name, file_by_name, file_by_rank;
	const char *left_out; /* an item in another form than torch.save's; NULL: none */
};

/*
 * PICKLE must outlive OUT. To be cleared also on failure. Returns 0; CKPT_E_UNSUPPORTED for other
 * versions, and for tensors that are not in torch.save files; CKPT_E_FORMAT; CKPT_E_LIMIT;
 * CKPT_E_NOMEM.
 */
int ckpt_tc_index_read(const struct ckpt_pickle *pickle, struct ckpt_tc_index *out,
		       struct ckpt_error *err);
void ckpt_tc_index_clear(struct ckpt_tc_index *index);

/* Add what goes by its name: <item>_<rank>.pt, of items that the metadata name, and of others. */
int ckpt_tc_index_add_listed(struct ckpt_tc_index *index, const struct ckpt_listing *listing,
			     struct ckpt_error *err);

/* The number of the file, or UINT32_MAX. */
uint32_t ckpt_tc_index_file(const struct ckpt_tc_index *index, uint32_t item, uint32_t rank);

/* The value under NAME in a dict, or NULL; V may be NULL, or no dict. */
const struct ckpt_value *ckpt_tc_field(const struct ckpt_value *v, const char *name);

#endif

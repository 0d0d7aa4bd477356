/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CKPT_SET_DCP_ITEM_WRITER_H
#define CKPT_SET_DCP_ITEM_WRITER_H

#include "plan/mover.h"
#include "set/dcp/out.h"

/*
 * One data file being made: items, each a torch.save file of its own, one behind the other at
 * multiples of ALIGNMENT bytes.
 */
struct ckpt_dcp_item_writer {
	const struct ckpt_model *model;
	struct ckpt_mover *mover; /* NULL: only the sizes are wanted */
	uint32_t alignment;
	uint64_t off; /* where the next item may start */
};

/* Is it, unchanged and whole, a tensor of the directory that MODEL came from? Which? */
bool ckpt_dcp_tensor_entry(const struct ckpt_model *model, const struct ckpt_tensor *tensor,
			   uint32_t *entry);

/* The box of such a tensor, only the chunks that it is in; of others 1. For struct ckpt_format. */
int ckpt_dcp_box(const struct ckpt_model *model, const struct ckpt_tensor *tensor,
		 const uint64_t *offset, const uint64_t *shape, struct ckpt_recipe *out,
		 struct ckpt_error *err);

/* The items' places are written to CHUNK. */
int ckpt_dcp_write_tensor(struct ckpt_dcp_item_writer *writer, const struct ckpt_tensor *tensor,
			  struct ckpt_dcp_out_chunk *chunk, struct ckpt_error *err);
int ckpt_dcp_write_value(struct ckpt_dcp_item_writer *writer, const struct ckpt_value *value,
			 struct ckpt_dcp_out_chunk *chunk, struct ckpt_error *err);

#endif

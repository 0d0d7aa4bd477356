/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CKPT_SET_CUT_H
#define CKPT_SET_CUT_H

#include "model/model.h"

#include <ckpt/save.h>

/*
 * How tensors are cut among ranks: one dimension as torch.chunk() and FSDP2 cut it. Small ones and
 * scalars go as they are to the rank that has least so far.
 */
struct ckpt_cutter {
	uint32_t ranks;
	int dim;	/* that is cut; -1: the first that all ranks share evenly, or the longest */
	uint64_t least; /* bytes of a tensor that is cut */
	uint64_t *loads; /* malloc: bytes by rank */
	uint64_t total;	 /* bytes */
};

/* A tensor in COUNT parts, for as many ranks. */
struct ckpt_cut {
	const struct ckpt_tensor *tensor;
	uint32_t dim, count, first_rank;
	uint64_t piece; /* items of the dimension in every part but the last */
};

/* What OPTIONS ask for. To be cleared, also on failure: CKPT_E_ARG, CKPT_E_NOMEM. */
int ckpt_cutter_init(struct ckpt_cutter *cutter, const struct ckpt_save_options *options,
		     struct ckpt_error *err);
void ckpt_cutter_clear(struct ckpt_cutter *cutter);

/* The next tensor, which has to live as long as its cut. */
struct ckpt_cut ckpt_cutter_cut(struct ckpt_cutter *cutter, const struct ckpt_tensor *tensor);

/* Where part I begins, and how large it is: NDIM numbers each. Returns its bytes. */
uint64_t ckpt_cut_part(const struct ckpt_cut *cut, uint32_t i, uint64_t *offset, uint64_t *shape);

/* The bytes of a box of a strided tensor, in C order; what they need is kept in ARENA. */
int ckpt_cut_box(const struct ckpt_model *model, const struct ckpt_tensor *tensor,
		 const uint64_t *offset, const uint64_t *shape, struct ckpt_arena *arena,
		 struct ckpt_recipe *out, struct ckpt_error *err);

#endif

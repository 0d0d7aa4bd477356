/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CKPT_FORMAT_TURN_H
#define CKPT_FORMAT_TURN_H

#include "format/format.h"
#include "resave/resave.h"

/*
 * Byte order of the numbers in storages: whether a save has to turn them around, and how wide they are. torch turns storages
 * around by their class, and so leaves those alone that have none of their dtype (uint16, complex32 ...): torch/serialization.py,
 * load_tensor() of _load(); checked with 2.14. Here all are turned around by the dtype of the tensors that show them.
 */
struct ckpt_turn {
	bool from_big, to_big;
	uint32_t alone; /* storages that torch would have left alone */
};

/* FOUND: what the input says, "little", "big" or "". CKPT_E_ARG if the options are wrong. */
int ckpt_turn_choose(const struct ckpt_save_options *options, const char *found,
		     struct ckpt_turn *out, struct ckpt_error *err);

static inline bool ckpt_turn_any(const struct ckpt_turn *turn)
{
	return turn->from_big != turn->to_big;
}

/*
 * Make RECIPE, the bytes of the storage with NUMBER, one that turns them around, if it has to be; then *TURNED. CKPT_E_UNSUPPORTED
 * if tensors see numbers of two widths in it.
 */
int ckpt_turn_recipe(struct ckpt_turn *turn, const struct ckpt_model *model,
		     const struct ckpt_resaved *resaved, uint32_t number,
		     struct ckpt_recipe *recipe, bool *turned, struct ckpt_error *err);

#endif

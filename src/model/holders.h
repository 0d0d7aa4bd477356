/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CKPT_MODEL_HOLDERS_H
#define CKPT_MODEL_HOLDERS_H

#include "model/walk.h"

/*
 * What needs the bytes of storages: a tensor, with all that is inside of it, or a storage that
 * stands by itself.
 */
struct ckpt_holder {
	const struct ckpt_walk_step *step;
	const struct ckpt_tensor *tensor; /* NULL: a storage */
	uint8_t mark;			  /* the highest of its storages'; 0: it needs none */
	uint32_t storage;		  /* the first with that mark */
	uint64_t nbytes;		  /* of all its storages */
	/*
	 * An entry of a mapping that could be left out: the mapping (as edited), and where the key
	 * is in it; NULL: it is part of something.
	 */
	const struct ckpt_value *mapping;
	uint32_t index;
	bool of_optimizer; /* in the state of an optimizer */
};

/*
 * Each holder in MODEL, once for every name. MARKS has one for each of the model's storages. VISIT
 * gets also each storage that a tensor needs, if it is not NULL. A negative status of either ends
 * it. CKPT_E_LIMIT: tensors that are parts of tensors, without end.
 */
struct ckpt_holders {
	const uint8_t *marks;
	int (*holder)(void *ctx, const struct ckpt_holder *holder, struct ckpt_error *err);
	/*
	 * T: the tensor, NULL for a storage that stands by itself or is only inside of a tensor of
	 * tensors. Or NULL
	 */
	void (*storage)(void *ctx, uint32_t storage, const struct ckpt_tensor *t);
	void *ctx;
};

int ckpt_model_each_holder(const struct ckpt_model *model, const struct ckpt_holders *holders,
			   struct ckpt_error *err);

#endif

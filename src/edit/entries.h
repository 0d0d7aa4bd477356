/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CKPT_EDIT_ENTRIES_H
#define CKPT_EDIT_ENTRIES_H

#include "model/model.h"

/* A container that is to have fewer entries: a copy of it, to be filled with those that stay. */
struct ckpt_fewer_entries {
	struct ckpt_value *copy;     /* in the model's arena */
	struct ckpt_seq *entries;    /* of the copy: none yet */
	const struct ckpt_seq *were; /* those of the original */
	uint32_t width; /* items of an entry: 2 of a mapping, key and value, 1 of a list */
};

/*
 * Only while MODEL is being made; ckpt_model_replace() then puts the copy in place. Returns 0,
 * CKPT_E_NOMEM or CKPT_E_LIMIT.
 */
int ckpt_fewer_entries_begin(struct ckpt_model *model, const struct ckpt_value *container,
			     struct ckpt_fewer_entries *out, struct ckpt_error *err);

/* The entry at INDEX of the original stays. */
int ckpt_fewer_entries_keep(struct ckpt_model *model, struct ckpt_fewer_entries *fewer,
			    uint32_t index, struct ckpt_error *err);

/* How many tensors AFTER has less than BEFORE, which it was made of. */
uint64_t ckpt_tensors_dropped(const struct ckpt_model *before, const struct ckpt_model *after);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CKPT_MODEL_DESCRIBE_H
#define CKPT_MODEL_DESCRIBE_H

#include "model/walk.h"

#include <ckpt/model.h>

/* Says of values what they are, one after the other. */
struct ckpt_describer {
	const struct ckpt_model *model;
	struct ckpt_buf text, type; /* of the last one */
	const struct ckpt_value *folded; /* its function, if that was a FOLDED tensor */
};

/*
 * Kind, type, text, count and the like of V. The texts live in DESCRIBER, until the next one.
 * Returns 0, CKPT_E_NOMEM.
 */
int ckpt_describe(struct ckpt_describer *describer, const struct ckpt_value *v,
		  struct ckpt_item *item, struct ckpt_error *err);
void ckpt_describer_clear(struct ckpt_describer *describer);

/* What the public struct says of T. */
void ckpt_tensor_describe(const struct ckpt_model *model, const struct ckpt_tensor *t,
			  struct ckpt_tensor_info *out);

#endif

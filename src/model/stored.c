/* SPDX-License-Identifier: Apache-2.0 */
#include "model/model.h"

enum { MOST_INNER = 8 };

bool ckpt_tensor_stored(const struct ckpt_model *model, const struct ckpt_tensor *t,
			struct ckpt_arena *arena, struct ckpt_tensor *out)
{
	const char *name = t->name;

	*out = *t;
	for (int i = 0; i < MOST_INNER && out->local &&
			(out->kind == CKPT_KIND_WRAPPER || out->kind == CKPT_KIND_SPARSE);
	     i++)
		if (ckpt_tensor_parse(model, ckpt_model_now(model, out->local), arena, out, NULL) <=
		    0)
			return false;
	out->name = name;
	return (out->kind == CKPT_KIND_STRIDED || out->kind == CKPT_KIND_QUANTIZED) &&
	       out->storage >= 0 && out->stride;
}

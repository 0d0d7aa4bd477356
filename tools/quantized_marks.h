/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CKPT_TOOLS_QUANTIZED_MARKS_H
#define CKPT_TOOLS_QUANTIZED_MARKS_H

#include <ckpt/quant.h>

#include <stddef.h>

/* Which tensors of a listing are the numbers of a quantized weight. All zero: none. */
struct quantized_marks {
	struct ckpt_quant *quant;
	struct ckpt_quant_weight_info *weights; /* by the names of their items */
	size_t count;
};

/*
 * Find them, if dtypes let it seem that there are some: else nothing of MODEL is read for it. What does not fit together has no
 * mark; that is for info and cast to say.
 */
void find_quantized(struct quantized_marks *marks, const struct ckpt_model *model);
void clear_quantized(struct quantized_marks *marks);

/* NULL: the tensor called NAME is none of them. */
const struct ckpt_quant_weight_info *quantized_at(const struct quantized_marks *marks,
						  const char *name);

#endif

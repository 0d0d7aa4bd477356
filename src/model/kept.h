/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CKPT_MODEL_KEPT_H
#define CKPT_MODEL_KEPT_H

#include "model/model.h"

/* Tensors that numbers of their own would make worthless, parts of quantized weights: where they are in the storages of a model. */
struct ckpt_kept_tensor {
	uint64_t offset, numel;
	uint32_t storage;
	enum ckpt_dtype dtype;
};
struct ckpt_kept {
	struct ckpt_kept_tensor *tensors; /* malloc */
	uint32_t count, cap;
};

int ckpt_kept_add(struct ckpt_kept *kept, const struct ckpt_tensor *t, struct ckpt_error *err);

/* Before the first ckpt_kept_has(). */
void ckpt_kept_sort(struct ckpt_kept *kept);

/* Is T, of the same model, one of them, under whatever name? */
bool ckpt_kept_has(const struct ckpt_kept *kept, const struct ckpt_tensor *t);

void ckpt_kept_clear(struct ckpt_kept *kept);

#endif

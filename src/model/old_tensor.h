/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CKPT_MODEL_OLD_TENSOR_H
#define CKPT_MODEL_OLD_TENSOR_H

#include "model/model.h"

/*
 * What torch up to 0.3 pickled as objects with a state, where calls that rebuild a tensor came
 * later. torch of today takes such states: torch/_tensor.py, Tensor.__setstate__().
 */
enum ckpt_old_kind {
	CKPT_OLD_NONE,
	CKPT_OLD_TENSOR,    /* torch.FloatTensor() with (storage, offset, size, stride) */
	CKPT_OLD_VARIABLE,  /* torch.autograd.Variable around a tensor */
	CKPT_OLD_PARAMETER, /* torch.nn.Parameter around a tensor */
};

struct ckpt_old_tensor {
	enum ckpt_old_kind kind;
	const struct ckpt_value *data;		/* of a tensor its state, else what it is around */
	const struct ckpt_value *requires_grad; /* not of a tensor */
};

/* V is a CALL. False: it is nothing of the kind. */
bool ckpt_old_tensor_is(const struct ckpt_model *model, const struct ckpt_value *v,
			struct ckpt_old_tensor *out);

#endif

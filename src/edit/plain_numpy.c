/* SPDX-License-Identifier: Apache-2.0 */
#include "edit/plain.h"
#include "model/numpy_value.h"
#include "model/plain_values.h"
#include "tensor/cast.h"

#include <string.h>

/* Scalars and arrays of numpy out of their pickled bytes. */

static const struct ckpt_value *make_number(struct ckpt_model *to, enum ckpt_dtype dtype,
					    const uint8_t *bytes)
{
	const struct ckpt_value *parts[2];
	struct ckpt_value *flag;
	uint64_t wide = 0;
	double real[2];

	if (ckpt_dtype_is_floating(dtype)) {
		ckpt_cast_items(dtype, CKPT_DTYPE_FLOAT64, bytes, real, 1);
		return ckpt_plain_float(to, real[0]);
	}
	if (dtype == CKPT_DTYPE_COMPLEX64 || dtype == CKPT_DTYPE_COMPLEX128) {
		ckpt_cast_items(dtype == CKPT_DTYPE_COMPLEX64 ? CKPT_DTYPE_FLOAT32
							      : CKPT_DTYPE_FLOAT64,
				CKPT_DTYPE_FLOAT64, bytes, real, 2);
		parts[0] = ckpt_plain_float(to, real[0]);
		parts[1] = ckpt_plain_float(to, real[1]);
		return ckpt_plain_call(to, "builtins", "complex", parts, 2);
	}
	memcpy(&wide, bytes, ckpt_dtype_size(dtype));
	if (dtype == CKPT_DTYPE_BOOL) {
		flag = ckpt_model_new_value(to, CKPT_BOOL);
		if (flag)
			flag->u.integer = wide != 0;
		return flag;
	}
	switch (dtype) {
	case CKPT_DTYPE_INT8: return ckpt_plain_int(to, (int8_t)wide);
	case CKPT_DTYPE_INT16: return ckpt_plain_int(to, (int16_t)wide);
	case CKPT_DTYPE_INT32: return ckpt_plain_int(to, (int32_t)wide);
	case CKPT_DTYPE_UINT64: return wide <= INT64_MAX ? ckpt_plain_int(to, (int64_t)wide) : NULL;
	default: return ckpt_plain_int(to, (int64_t)wide);
	}
}

const struct ckpt_value *ckpt_plain_from_numpy(struct ckpt_model *to, const struct ckpt_value *v,
					       struct ckpt_error *err)
{
	struct ckpt_numpy n;
	uint64_t stride[CKPT_MOST_DIMS];
	const uint8_t *bytes;

	if (!ckpt_numpy_parse(to, v, &n) || n.dtype == CKPT_DTYPE_UNKNOWN || n.big_endian ||
	    !ckpt_numpy_bytes(to, &n, to->arena, &bytes))
		return NULL;
	if (n.is_scalar)
		return make_number(to, n.dtype, bytes);
	ckpt_numpy_strides(&n, stride);
	return ckpt_plain_tensor(to, n.dtype, n.shape, stride, n.ndim, bytes,
				 n.numel * ckpt_dtype_size(n.dtype), err);
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "model/plain.h"
#include "model/plain_values.h"
#include "tensor/cast.h"

#include <stdio.h>
#include <string.h>

/* Scalars and arrays of numpy out of their pickled bytes. */

static bool numpy_dtype(struct ckpt_model *to, const struct ckpt_value *v, enum ckpt_dtype *out)
{
	static const struct {
		const char *code;
		enum ckpt_dtype dtype;
	} codes[] = {
		{ "f8", CKPT_DTYPE_FLOAT64 },	{ "f4", CKPT_DTYPE_FLOAT32 },
		{ "f2", CKPT_DTYPE_FLOAT16 },	{ "i8", CKPT_DTYPE_INT64 },
		{ "i4", CKPT_DTYPE_INT32 },	{ "i2", CKPT_DTYPE_INT16 },
		{ "i1", CKPT_DTYPE_INT8 },	{ "u1", CKPT_DTYPE_UINT8 },
		{ "u2", CKPT_DTYPE_UINT16 },	{ "u4", CKPT_DTYPE_UINT32 },
		{ "u8", CKPT_DTYPE_UINT64 },	{ "b1", CKPT_DTYPE_BOOL },
		{ "c8", CKPT_DTYPE_COMPLEX64 }, { "c16", CKPT_DTYPE_COMPLEX128 },
	};
	const struct ckpt_value *code, *state;

	if (!ckpt_value_is_call_of(v, "numpy", "dtype") || !(code = ckpt_plain_arg(to, v, 0)))
		return false;
	state = v->u.call->state ? ckpt_model_now(to, v->u.call->state) : NULL;
	if (state && state->kind == CKPT_TUPLE && state->u.seq.count > 1 &&
	    ckpt_value_is_str(ckpt_model_now(to, state->u.seq.items[1]), ">"))
		return false;
	for (size_t i = 0; i < sizeof(codes) / sizeof(codes[0]); i++)
		if (ckpt_value_is_str(code, codes[i].code)) {
			*out = codes[i].dtype;
			return true;
		}
	return false;
}

static const struct ckpt_value *number(struct ckpt_model *to, enum ckpt_dtype dtype,
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

static bool is_numpy(const struct ckpt_value *v, const char *module, const char *name)
{
	char old[60], fresh[60];

	snprintf(old, sizeof(old), "numpy.core.%s", module);
	snprintf(fresh, sizeof(fresh), "numpy._core.%s", module);
	return ckpt_value_is_call_of(v, old, name) || ckpt_value_is_call_of(v, fresh, name);
}

static const struct ckpt_value *from_numpy_scalar(struct ckpt_model *to, const struct ckpt_value *v)
{
	const struct ckpt_value *dtype = ckpt_plain_arg(to, v, 0), *data = ckpt_plain_arg(to, v, 1);
	enum ckpt_dtype type;
	const uint8_t *bytes;
	uint64_t len;

	if (!dtype || !data || !numpy_dtype(to, dtype, &type) ||
	    !ckpt_plain_bytes(to, data, &bytes, &len) || len != ckpt_dtype_size(type))
		return NULL;
	return number(to, type, bytes);
}

static const struct ckpt_value *array(struct ckpt_model *to, const struct ckpt_value *dtype,
				      const struct ckpt_value *dims, const struct ckpt_value *data,
				      bool fortran, struct ckpt_error *err)
{
	uint64_t shape[CKPT_MOST_DIMS], numel = 1, len;
	enum ckpt_dtype type;
	const uint8_t *bytes;

	if (!numpy_dtype(to, dtype, &type) || dims->kind != CKPT_TUPLE ||
	    dims->u.seq.count > CKPT_MOST_DIMS || !ckpt_plain_bytes(to, data, &bytes, &len))
		return NULL;
	for (uint32_t i = 0; i < dims->u.seq.count; i++) {
		const struct ckpt_value *dim = ckpt_model_now(to, dims->u.seq.items[i]);

		if (dim->kind != CKPT_INT || dim->u.integer < 0 ||
		    __builtin_mul_overflow(numel, (uint64_t)dim->u.integer, &numel))
			return NULL;
		shape[i] = (uint64_t)dim->u.integer;
	}
	if (__builtin_mul_overflow(numel, (uint64_t)ckpt_dtype_size(type), &numel) || numel != len)
		return NULL;
	return ckpt_plain_tensor(to, type, shape, dims->u.seq.count, fortran, bytes, len, err);
}

/* _reconstruct(ndarray, (0,), b'b') with the state (1, shape, dtype, is Fortran's, bytes) */
static const struct ckpt_value *from_numpy_array(struct ckpt_model *to, const struct ckpt_value *v,
						 struct ckpt_error *err)
{
	const struct ckpt_value *state = v->u.call->state ? ckpt_model_now(to, v->u.call->state)
							  : NULL,
				*part[5];

	if (!state || state->kind != CKPT_TUPLE || state->u.seq.count != 5)
		return NULL;
	for (int i = 0; i < 5; i++)
		part[i] = ckpt_model_now(to, state->u.seq.items[i]);
	return array(to, part[2], part[1], part[4],
		     part[3]->kind == CKPT_BOOL && part[3]->u.integer, err);
}

/* _frombuffer(bytes, dtype, shape, order) of protocol 5 */
static const struct ckpt_value *from_numpy_buffer(struct ckpt_model *to, const struct ckpt_value *v,
						  struct ckpt_error *err)
{
	if (ckpt_plain_arg_count(to, v) != 4)
		return NULL;
	return array(to, ckpt_plain_arg(to, v, 1), ckpt_plain_arg(to, v, 2),
		     ckpt_plain_arg(to, v, 0), ckpt_value_is_str(ckpt_plain_arg(to, v, 3), "F"),
		     err);
}

const struct ckpt_value *ckpt_plain_from_numpy(struct ckpt_model *to, const struct ckpt_value *v,
					       struct ckpt_error *err)
{
	if (is_numpy(v, "multiarray", "scalar"))
		return from_numpy_scalar(to, v);
	if (is_numpy(v, "multiarray", "_reconstruct"))
		return from_numpy_array(to, v, err);
	if (is_numpy(v, "numeric", "_frombuffer"))
		return from_numpy_buffer(to, v, err);
	return NULL;
}

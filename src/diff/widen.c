/* SPDX-License-Identifier: Apache-2.0 */
#include "diff/widen.h"

#include "diff/sums.h"
#include "tensor/cast.h"

#include <string.h>

enum ckpt_dtype ckpt_real_dtype(enum ckpt_dtype dtype, uint32_t *parts)
{
	*parts = 2;
	switch (dtype) {
	case CKPT_DTYPE_COMPLEX128: return CKPT_DTYPE_FLOAT64;
	case CKPT_DTYPE_COMPLEX64: return CKPT_DTYPE_FLOAT32;
	case CKPT_DTYPE_COMPLEX32: return CKPT_DTYPE_FLOAT16;
	case CKPT_DTYPE_BCOMPLEX32: return CKPT_DTYPE_BFLOAT16;
	default: *parts = 1; return dtype;
	}
}

enum ckpt_number_kind ckpt_number_kind(enum ckpt_dtype real)
{
	switch (real) {
	case CKPT_DTYPE_INT64:
	case CKPT_DTYPE_UINT64: return CKPT_NUMBER_INTEGER;
	case CKPT_DTYPE_INT32:
	case CKPT_DTYPE_INT16:
	case CKPT_DTYPE_INT8:
	case CKPT_DTYPE_UINT32:
	case CKPT_DTYPE_UINT16:
	case CKPT_DTYPE_UINT8:
	case CKPT_DTYPE_BOOL: return CKPT_NUMBER_FLOAT;
	default: return ckpt_dtype_is_floating(real) ? CKPT_NUMBER_FLOAT : CKPT_NUMBER_NONE;
	}
}

#define WIDEN(type) \
	for (size_t i = 0; i < count; i++) { \
		type v; \
		memcpy(&v, (const uint8_t *)in + i * sizeof(v), sizeof(v)); \
		out[i] = (double)v; \
	} \
	break

void ckpt_widen(enum ckpt_dtype real, const void *in, double *out, size_t count)
{
	switch (real) {
	case CKPT_DTYPE_FLOAT64: memcpy(out, in, count * sizeof(*out)); break;
	case CKPT_DTYPE_FLOAT32: ckpt_sums_best()->widen32(in, out, count); break;
	case CKPT_DTYPE_INT64: WIDEN(int64_t);
	case CKPT_DTYPE_INT32: WIDEN(int32_t);
	case CKPT_DTYPE_INT16: WIDEN(int16_t);
	case CKPT_DTYPE_INT8: WIDEN(int8_t);
	case CKPT_DTYPE_UINT64: WIDEN(uint64_t);
	case CKPT_DTYPE_UINT32: WIDEN(uint32_t);
	case CKPT_DTYPE_UINT16: WIDEN(uint16_t);
	case CKPT_DTYPE_UINT8: WIDEN(uint8_t);
	case CKPT_DTYPE_BOOL:
		for (size_t i = 0; i < count; i++)
			out[i] = ((const uint8_t *)in)[i] != 0;
		break;
	default: ckpt_cast_items(real, CKPT_DTYPE_FLOAT64, in, out, count);
	}
}

void ckpt_widen_integers(enum ckpt_dtype real, const void *in, uint64_t *magnitudes, bool *negative,
			 size_t count)
{
	double small;

	for (size_t i = 0; i < count; i++) {
		const uint8_t *at = (const uint8_t *)in + i * ckpt_dtype_size(real);
		int64_t v;

		if (real == CKPT_DTYPE_INT64 || real == CKPT_DTYPE_UINT64) {
			memcpy(&v, at, sizeof(v));
		} else {
			ckpt_widen(real, at, &small, 1);
			v = (int64_t)small;
		}
		negative[i] = real != CKPT_DTYPE_UINT64 && v < 0;
		magnitudes[i] = negative[i] ? 0 - (uint64_t)v : (uint64_t)v;
	}
}

/* Source: IEEE 754; OCP 8-bit floating point; c10/util/Float8_*.h. */
struct ckpt_float_form ckpt_float_form(enum ckpt_dtype floating)
{
	switch (floating) {
	case CKPT_DTYPE_FLOAT64:
		return (struct ckpt_float_form){ (uint64_t)1 << 63, 0x7FEFFFFFFFFFFFFF, false };
	case CKPT_DTYPE_FLOAT32: return (struct ckpt_float_form){ 1u << 31, 0x7F7FFFFF, false };
	case CKPT_DTYPE_FLOAT16: return (struct ckpt_float_form){ 0x8000, 0x7BFF, false };
	case CKPT_DTYPE_BFLOAT16: return (struct ckpt_float_form){ 0x8000, 0x7F7F, false };
	case CKPT_DTYPE_FLOAT8_E5M2: return (struct ckpt_float_form){ 0x80, 0x7B, false };
	case CKPT_DTYPE_FLOAT8_E4M3FN: return (struct ckpt_float_form){ 0x80, 0x7E, false };
	case CKPT_DTYPE_FLOAT8_E8M0FNU: return (struct ckpt_float_form){ 0, 0xFE, false };
	default: return (struct ckpt_float_form){ 0x80, 0x7F, true }; /* fnuz */
	}
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "tensor/cast_kernels.h"

#include <string.h>

/* The conversions in plain C: the reference for every other set. */

static uint16_t load16(const uint16_t *p)
{
	uint16_t v;

	memcpy(&v, p, sizeof(v));
	return v;
}

static uint32_t load32(const uint32_t *p)
{
	uint32_t v;

	memcpy(&v, p, sizeof(v));
	return v;
}

static void store16(uint16_t *p, uint32_t v)
{
	uint16_t narrow = (uint16_t)v;

	memcpy(p, &narrow, sizeof(narrow));
}

static void store32(uint32_t *p, uint32_t v)
{
	memcpy(p, &v, sizeof(v));
}

static uint32_t widen_float16(uint32_t half)
{
	uint32_t sign = (half & 0x8000) << 16, exponent = half >> 10 & 0x1F,
		 mantissa = half & 0x3FF;
	int shift;

	if (exponent == 31) /* a NaN gets quiet */
		return sign | 0x7F800000 | mantissa << 13 | (mantissa ? 0x400000 : 0);
	if (exponent)
		return sign | (exponent + 112) << 23 | mantissa << 13;
	if (!mantissa)
		return sign;
	shift = __builtin_clz(mantissa) -
		21; /* a subnormal: its first bit becomes the implied one */
	return sign | (uint32_t)(113 - shift) << 23 | (mantissa << shift & 0x3FF) << 13;
}

/* VALUE >> SHIFT, to the nearest, ties to even. */
static uint32_t shift_round(uint32_t value, unsigned shift)
{
	uint32_t half = 1u << (shift - 1), odd = value >> shift & 1;

	return (value + half - 1 + odd) >> shift;
}

static uint32_t narrow_float16(uint32_t bits)
{
	uint32_t sign = bits >> 16 & 0x8000, magnitude = bits & 0x7FFFFFFF, shift;

	if (magnitude > 0x7F800000) /* NaN: quiet, the first bits of what it carries */
		return sign | 0x7E00 | (magnitude >> 13 & 0x1FF);
	if (magnitude >= 0x477FF000) /* 65520 and more round to infinity */
		return sign | 0x7C00;
	if (magnitude >= 0x38800000) /* 2**-14: normal */
		return sign | shift_round(magnitude - (112u << 23), 13);
	if (magnitude < 0x33000000) /* below half of the smallest subnormal */
		return sign;
	shift = 126 - (magnitude >> 23);
	return sign | shift_round((magnitude & 0x7FFFFF) | 0x800000, shift);
}

static void float16_to_float32(const uint16_t *in, uint32_t *out, size_t count)
{
	for (size_t i = 0; i < count; i++)
		store32(out + i, widen_float16(load16(in + i)));
}

static void float32_to_float16(const uint32_t *in, uint16_t *out, size_t count)
{
	for (size_t i = 0; i < count; i++)
		store16(out + i, narrow_float16(load32(in + i)));
}

static void bfloat16_to_float32(const uint16_t *in, uint32_t *out, size_t count)
{
	for (size_t i = 0; i < count; i++)
		store32(out + i, (uint32_t)load16(in + i) << 16);
}

static void float32_to_bfloat16(const uint32_t *in, uint16_t *out, size_t count, uint16_t nan_bits)
{
	for (size_t i = 0; i < count; i++) {
		uint32_t bits = load32(in + i);

		store16(out + i, (bits & 0x7FFFFFFF) > 0x7F800000
					 ? nan_bits
					 : (bits + 0x7FFF + (bits >> 16 & 1)) >> 16);
	}
}

static void count_lost(const uint32_t *in, size_t count, const struct ckpt_cast_limits *limits,
		       uint64_t *over, uint64_t *under)
{
	for (size_t i = 0; i < count; i++) {
		uint32_t magnitude = load32(in + i) & 0x7FFFFFFF;

		*over += magnitude >= limits->over && magnitude < limits->top;
		*under += magnitude && magnitude <= limits->under;
	}
}

static void count_wide(const double *in, size_t count, const struct ckpt_cast_wide_limits *limits,
		       uint64_t *over, uint64_t *under)
{
	for (size_t i = 0; i < count; i++) {
		double magnitude;

		memcpy(&magnitude, in + i, sizeof(magnitude));
		magnitude = magnitude < 0 ? -magnitude : magnitude;
		*over += magnitude >= limits->over && magnitude <= limits->most;
		*under += magnitude > 0 && magnitude <= limits->under;
	}
}

const struct ckpt_cast_kernels ckpt_cast_plain = {
	float16_to_float32,  float32_to_float16, bfloat16_to_float32,
	float32_to_bfloat16, count_lost,	 count_wide,
};

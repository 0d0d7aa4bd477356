/* SPDX-License-Identifier: Apache-2.0 */
#include "tensor/float8.h"

#include <assert.h>
#include <stdbool.h>

/* Sign, exponent and mantissa in 8 bits. Source: OCP 8-bit floating point; c10/util/Float8_*.h. */
struct format {
	unsigned mantissa_bits;
	int bias;
	uint8_t largest;  /* code of the largest finite number */
	uint8_t overflow; /* what larger ones become, beside the sign */
	uint8_t nan;
	bool unsigned_zero; /* fnuz: no negative zero, one NaN without a sign */
};

static const struct format e5m2 = { 2, 15, 0x7B, 0x7C, 0x7F, false };
static const struct format e4m3fn = { 3, 7, 0x7E, 0x7E, 0x7F, false };
static const struct format e5m2fnuz = { 2, 16, 0x7F, 0x80, 0x80, true };
static const struct format e4m3fnuz = { 3, 8, 0x7F, 0x80, 0x80, true };

static const struct format *format_of(enum ckpt_dtype dtype)
{
	switch (dtype) {
	case CKPT_DTYPE_FLOAT8_E5M2: return &e5m2;
	case CKPT_DTYPE_FLOAT8_E4M3FN: return &e4m3fn;
	case CKPT_DTYPE_FLOAT8_E5M2FNUZ: return &e5m2fnuz;
	default: assert(dtype == CKPT_DTYPE_FLOAT8_E4M3FNUZ); return &e4m3fnuz;
	}
}

/* The code of a magnitude that is finite, without a sign; may be beyond the largest. */
static uint32_t round_magnitude(const struct format *f, uint32_t magnitude)
{
	int exponent = (int)(magnitude >> 23) - 127, least = 1 - f->bias;
	uint32_t mantissa = (magnitude & 0x7FFFFF) | 0x800000, code;
	unsigned shift = 23 - f->mantissa_bits;

	if (exponent < least)
		shift += (unsigned)(least - exponent);
	if (shift > 24) /* subnormal float32 are as far below as all others here */
		return 0;
	code = (mantissa + (1u << (shift - 1)) - 1 + (mantissa >> shift & 1)) >> shift;
	if (exponent >= least) /* what was rounded up carries into the exponent */
		code += (uint32_t)(exponent + f->bias - 1) << f->mantissa_bits;
	return code;
}

/* A power of two, no sign: the exponent of the float32, rounded. */
static uint8_t narrow_e8m0(uint32_t bits)
{
	uint32_t exponent = bits >> 23 & 0xFF, mantissa = bits & 0x7FFFFF;

	if (exponent == 0xFF)
		return 0xFF;
	/* a tie goes up, but from a subnormal, which has no bit in front */
	return (uint8_t)(exponent + (mantissa > 0x400000 || (mantissa == 0x400000 && exponent)));
}

uint8_t ckpt_float8_narrow(enum ckpt_dtype to, uint32_t bits)
{
	const struct format *f;
	uint32_t sign = bits >> 24 & 0x80, magnitude = bits & 0x7FFFFFFF, code;

	if (to == CKPT_DTYPE_FLOAT8_E8M0FNU)
		return narrow_e8m0(bits);
	f = format_of(to);
	if (f->unsigned_zero && magnitude > 0x7F800000)
		return f->nan;
	if (magnitude > 0x7F800000)
		return (uint8_t)(sign | f->nan);
	code = magnitude == 0x7F800000 ? 0xFF : round_magnitude(f, magnitude);
	if (code > f->largest)
		code = f->overflow;
	if (f->unsigned_zero && (code == 0 || code == f->nan))
		return (uint8_t)code;
	return (uint8_t)(sign | code);
}

uint32_t ckpt_float8_widen(enum ckpt_dtype from, uint8_t code)
{
	const struct format *f;
	uint32_t sign = (uint32_t)(code & 0x80) << 24, magnitude = code & 0x7F, mantissa;
	int exponent, shift;

	if (from == CKPT_DTYPE_FLOAT8_E8M0FNU)
		return code == 0xFF ? 0x7F800001 : code ? (uint32_t)code << 23 : 0x400000;
	f = format_of(from);
	if (f->unsigned_zero && code == f->nan)
		return 0x7F800001;
	if (!f->unsigned_zero && magnitude > f->largest) { /* infinity; a NaN gets quiet */
		mantissa = magnitude & ((1u << f->mantissa_bits) - 1);
		return sign | 0x7F800000 | mantissa << (23 - f->mantissa_bits) |
		       (mantissa ? 0x400000 : 0);
	}
	mantissa = magnitude & ((1u << f->mantissa_bits) - 1);
	exponent = (int)(magnitude >> f->mantissa_bits);
	if (!magnitude)
		return sign;
	if (!exponent) { /* subnormal: its first bit becomes the implied one */
		shift = (int)f->mantissa_bits + 1 - (32 - __builtin_clz(mantissa));
		mantissa = mantissa << shift & ((1u << f->mantissa_bits) - 1);
		exponent = 1 - shift;
	}
	return sign | (uint32_t)(exponent - f->bias + 127) << 23 |
	       mantissa << (23 - f->mantissa_bits);
}

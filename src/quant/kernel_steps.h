/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CKPT_QUANT_KERNEL_STEPS_H
#define CKPT_QUANT_KERNEL_STEPS_H

#include "quant/kernels.h"
#include "tensor/cast_kernels.h"

#include <string.h>

/*
 * The arithmetic of kernels.h in plain C, step by step over a block that stays in the nearest
 * cache. It is compiled once for every processor, and once with AVX2, where compilers make vectors
 * of its loops: the bits are the same since each step is one operation, and says itself what
 * becomes of what is no number.
 */
enum { CKPT_QUANT_STEP = 256 /* numbers of a block */ };

#define CKPT_QUANT_INLINE static inline __attribute__((always_inline))

/* Fill VALUES with what COUNT codes are. */
typedef void ckpt_quant_decode(const struct ckpt_quant_math *m, const uint8_t *codes, size_t count,
			       float *values);

CKPT_QUANT_INLINE uint32_t ckpt_quant_bits_of(float v)
{
	uint32_t bits;

	memcpy(&bits, &v, sizeof(bits));
	return bits;
}

CKPT_QUANT_INLINE float ckpt_quant_float_of(uint32_t bits)
{
	float v;

	memcpy(&v, &bits, sizeof(v));
	return v;
}

/*
 * V, which is A and B put together; if it is no number, one of these or the usual one of x86:
 * compilers may turn A and B around, and with them what becomes of two that are none.
 */
CKPT_QUANT_INLINE float ckpt_quant_settle(float v, float a, float b)
{
	const uint32_t quiet = 0x400000;
	float none = ckpt_quant_float_of(0xFFC00000);

	none = b != b ? ckpt_quant_float_of(ckpt_quant_bits_of(b) | quiet) : none;
	none = a != a ? ckpt_quant_float_of(ckpt_quant_bits_of(a) | quiet) : none;
	return v != v ? none : v;
}

CKPT_QUANT_INLINE void ckpt_quant_add(float *a, size_t count, float b)
{
	for (size_t i = 0; i < count; i++)
		a[i] = ckpt_quant_settle(a[i] + b, a[i], b);
}

/* STEP 1: each number has its own B; 0: all have one. */
CKPT_QUANT_INLINE void ckpt_quant_subtract(float *a, size_t count, const float *b, size_t step)
{
	for (size_t i = 0; i < count; i++)
		a[i] = ckpt_quant_settle(a[i] - b[i * step], a[i], b[i * step]);
}

CKPT_QUANT_INLINE void ckpt_quant_multiply(float *a, size_t count, const float *b, size_t step)
{
	for (size_t i = 0; i < count; i++)
		a[i] = ckpt_quant_settle(a[i] * b[i * step], a[i], b[i * step]);
}

CKPT_QUANT_INLINE void ckpt_quant_round_block(const struct ckpt_cast_kernels *k,
					      enum ckpt_dtype dtype, float *numbers, size_t count)
{
	uint32_t *bits = (uint32_t *)(void *)numbers;
	uint16_t narrow[CKPT_QUANT_STEP];

	if (dtype == CKPT_DTYPE_FLOAT16) {
		k->float32_to_float16(bits, narrow, count);
		k->float16_to_float32(narrow, bits, count);
	} else if (dtype == CKPT_DTYPE_BFLOAT16) {
		k->float32_to_bfloat16(bits, narrow, count, CKPT_QUANT_NAN);
		k->bfloat16_to_float32(narrow, bits, count);
	}
}

/*
 * The COUNT numbers from AT of IN on, a block of whole groups or of a part of one. VALUES: what
 * their codes are; used up.
 */
CKPT_QUANT_INLINE void ckpt_quant_finish(const struct ckpt_cast_kernels *k,
					 const struct ckpt_quant_math *m,
					 const struct ckpt_quant_codes *in, size_t at, size_t count,
					 float *values, void *out)
{
	const float *scales = in->scales + at / in->group,
		    *zeros = in->zeros ? in->zeros + at / in->group : NULL;
	size_t group = in->group, n;

	if (group == 1 && zeros && !m->adds_zeros)
		ckpt_quant_subtract(values, count, zeros, 1);
	for (size_t i = 0; group > 1 && zeros && !m->adds_zeros && i < count; i += n) {
		n = count - i < group ? count - i : group;
		ckpt_quant_subtract(values + i, n, zeros++, 0);
	}
	ckpt_quant_round_block(k, m->difference, values, count);
	if (group == 1)
		ckpt_quant_multiply(values, count, scales, 1);
	for (size_t i = 0; group > 1 && i < count; i += n) {
		n = count - i < group ? count - i : group;
		ckpt_quant_multiply(values + i, n, scales++, 0);
	}
	if (m->factor != 0) {
		ckpt_quant_round_block(k, m->product, values, count);
		ckpt_quant_multiply(values, count, &m->factor, 0);
	}
	if (m->product != m->to || m->adds_zeros) /* else the last step rounds */
		ckpt_quant_round_block(k, m->product, values, count);
	for (size_t i = 0; zeros && m->adds_zeros && i < count; i += n) {
		n = count - i < group ? count - i : group;
		ckpt_quant_add(values + i, n, *zeros++);
	}
	out = (uint8_t *)out + at * ckpt_dtype_size(m->to);
	if (m->to == CKPT_DTYPE_FLOAT16)
		k->float32_to_float16((uint32_t *)(void *)values, out, count);
	else if (m->to == CKPT_DTYPE_BFLOAT16)
		k->float32_to_bfloat16((uint32_t *)(void *)values, out, count, CKPT_QUANT_NAN);
	else
		memcpy(out, values, count * sizeof(*values));
}

/* How many numbers from AT on are done at once: whole groups, or a part of one. */
CKPT_QUANT_INLINE size_t ckpt_quant_block(const struct ckpt_quant_codes *in, size_t at)
{
	size_t group = in->group, left = in->count - at,
	       n = group <= CKPT_QUANT_STEP ? CKPT_QUANT_STEP / group * group : group - at % group;

	n = n < CKPT_QUANT_STEP ? n : CKPT_QUANT_STEP;
	return n < left ? n : left;
}

CKPT_QUANT_INLINE void ckpt_quant_bytes(const struct ckpt_cast_kernels *k,
					ckpt_quant_decode *decode, const struct ckpt_quant_math *m,
					const struct ckpt_quant_codes *in, void *out)
{
	float values[CKPT_QUANT_STEP];
	size_t n;

	for (size_t at = 0; at < in->count; at += n) {
		n = ckpt_quant_block(in, at);
		decode(m, in->codes + at, n, values);
		ckpt_quant_finish(k, m, in, at, n, values, out);
	}
}

CKPT_QUANT_INLINE void ckpt_quant_nibbles(const struct ckpt_cast_kernels *k,
					  const struct ckpt_quant_math *m, bool upper_first,
					  const struct ckpt_quant_codes *in, void *out)
{
	float values[CKPT_QUANT_STEP];
	size_t n;

	for (size_t at = 0; at < in->count; at += n) {
		n = ckpt_quant_block(in, at);
		for (size_t i = at; i < at + n; i++) {
			uint8_t both = in->codes[i / 2];

			values[i - at] = m->values[i % 2 != upper_first ? both >> 4 : both & 15];
		}
		ckpt_quant_finish(k, m, in, at, n, values, out);
	}
}

#endif

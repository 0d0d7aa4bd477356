/* SPDX-License-Identifier: Apache-2.0 */
#include "quant/kernels.h"

#include "tensor/cast_kernels.h"

#include <string.h>

/* The kernels in plain C: the reference for every other set. */

enum { AT_ONCE = 256, NAN_OF_LOOPS = 0xFFFF, QUIET = 0x400000 };

static uint32_t bits_of(float v)
{
	uint32_t bits;

	memcpy(&bits, &v, sizeof(bits));
	return bits;
}

static float float_of(uint32_t bits)
{
	float v;

	memcpy(&v, &bits, sizeof(v));
	return v;
}

/* What an operation on A and B gives that is no number: compilers may turn A and B around. */
static float nan_of(float a, float b)
{
	if (a != a)
		return float_of(bits_of(a) | QUIET);
	return b != b ? float_of(bits_of(b) | QUIET) : float_of(0xFFC00000);
}

void ckpt_quant_round(enum ckpt_dtype dtype, float *numbers, size_t count)
{
	const struct ckpt_cast_kernels *k = &ckpt_cast_plain;
	uint16_t narrow[AT_ONCE];

	for (size_t i = 0; dtype != CKPT_DTYPE_FLOAT32 && i < count; i += AT_ONCE) {
		size_t n = count - i < AT_ONCE ? count - i : AT_ONCE;
		uint32_t *bits = (uint32_t *)(void *)(numbers + i);

		if (dtype == CKPT_DTYPE_FLOAT16) {
			k->float32_to_float16(bits, narrow, n);
			k->float16_to_float32(narrow, bits, n);
		} else {
			k->float32_to_bfloat16(bits, narrow, n, NAN_OF_LOOPS);
			k->bfloat16_to_float32(narrow, bits, n);
		}
	}
}

/* NUMBERS are used up. */
static void store(enum ckpt_dtype to, const float *numbers, size_t count, uint8_t *out)
{
	const uint32_t *bits = (const uint32_t *)(const void *)numbers;

	if (to == CKPT_DTYPE_FLOAT16)
		ckpt_cast_plain.float32_to_float16(bits, (uint16_t *)(void *)out, count);
	else if (to == CKPT_DTYPE_BFLOAT16)
		ckpt_cast_plain.float32_to_bfloat16(bits, (uint16_t *)(void *)out, count,
						    NAN_OF_LOOPS);
	else
		memcpy(out, numbers, count * sizeof(*numbers));
}

static void subtract(float *numbers, size_t count, float zero)
{
	for (size_t i = 0; i < count; i++) {
		float v = numbers[i] - zero;

		numbers[i] = v == v ? v : nan_of(numbers[i], zero);
	}
}

static void multiply(float *numbers, size_t count, float scale)
{
	for (size_t i = 0; i < count; i++) {
		float v = numbers[i] * scale;

		numbers[i] = v == v ? v : nan_of(numbers[i], scale);
	}
}

/* Up to AT_ONCE numbers of one group. VALUES: what their codes are; used up. */
static void finish(const struct ckpt_quant_math *m, float *values, size_t count, float scale,
		   const float *zero, uint8_t *out)
{
	if (zero)
		subtract(values, count, *zero);
	ckpt_quant_round(m->difference, values, count);
	multiply(values, count, scale);
	ckpt_quant_round(m->product, values, count);
	if (m->factor != 0) {
		multiply(values, count, m->factor);
		ckpt_quant_round(m->product, values, count);
	}
	store(m->to, values, count, out);
}

static void bytes(const struct ckpt_quant_math *m, const uint8_t *codes, size_t count, size_t group,
		  const float *scales, const float *zeros, void *out)
{
	uint32_t size = ckpt_dtype_size(m->to);
	float values[AT_ONCE];
	size_t n;

	for (size_t i = 0; i < count; i += n) {
		size_t g = i / group, end = count - i < group - i % group ? count : (g + 1) * group;

		n = end - i < AT_ONCE ? end - i : AT_ONCE;
		for (size_t k = 0; k < n; k++)
			values[k] = m->values[codes[i + k]];
		finish(m, values, n, scales[g], zeros ? &zeros[g] : NULL,
		       (uint8_t *)out + i * size);
	}
}

static void nibbles(const struct ckpt_quant_math *m, bool upper_first, const uint8_t *codes,
		    size_t count, size_t group, const float *scales, const float *zeros, void *out)
{
	uint32_t size = ckpt_dtype_size(m->to);
	float values[AT_ONCE];
	size_t n;

	for (size_t i = 0; i < count; i += n) {
		size_t g = i / group, end = count - i < group - i % group ? count : (g + 1) * group;

		n = end - i < AT_ONCE ? end - i : AT_ONCE;
		for (size_t k = 0; k < n; k++)
			values[k] = m->values[codes[(i + k) / 2] >>
						      ((i + k) % 2 != upper_first ? 4 : 0) &
					      15];
		finish(m, values, n, scales[g], zeros ? &zeros[g] : NULL,
		       (uint8_t *)out + i * size);
	}
}

static void transpose(uint32_t size, const void *in, size_t rows, size_t cols, size_t stride,
		      void *out, size_t out_stride)
{
	const uint8_t *from = in;
	uint8_t *to = out;

	for (size_t col = 0; col < cols; col++)
		for (size_t row = 0; row < rows; row++)
			memcpy(to + (col * out_stride + row) * size,
			       from + (row * stride + col) * size, size == 2 ? 2 : 4);
}

const struct ckpt_quant_kernels ckpt_quant_plain = { bytes, nibbles, transpose };

/* SPDX-License-Identifier: Apache-2.0 */
#include "quant/kernels.h"

#include "quant/kernel_steps.h"

/* The kernels in plain C: the reference for every other set. */

void ckpt_quant_round(enum ckpt_dtype dtype, float *numbers, size_t count)
{
	for (size_t i = 0; i < count; i += CKPT_QUANT_STEP)
		ckpt_quant_round_block(&ckpt_cast_plain, dtype, numbers + i,
				       count - i < CKPT_QUANT_STEP ? count - i : CKPT_QUANT_STEP);
}

static void decode(const struct ckpt_quant_math *m, const uint8_t *codes, size_t count,
		   float *values)
{
	for (size_t i = 0; i < count; i++)
		values[i] = m->values[codes[i]];
}

static void bytes(const struct ckpt_quant_math *m, const struct ckpt_quant_codes *in, void *out)
{
	ckpt_quant_bytes(&ckpt_cast_plain, decode, m, in, out);
}

static void nibbles(const struct ckpt_quant_math *m, bool upper_first,
		    const struct ckpt_quant_codes *in, void *out)
{
	ckpt_quant_nibbles(&ckpt_cast_plain, m, upper_first, in, out);
}

static void transpose(uint32_t size, const void *in, size_t rows, size_t cols, size_t stride,
		      void *out, size_t out_stride)
{
	const uint8_t *from = in;
	uint8_t *to = out;

	for (size_t col = 0; col < cols; col++)
		for (size_t row = 0; row < rows; row++)
			memcpy(to + (col * out_stride + row) * size,
			       from + (row * stride + col) * size, size);
}

const struct ckpt_quant_kernels ckpt_quant_plain = { bytes, nibbles, transpose };

/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CKPT_QUANT_KERNELS_H
#define CKPT_QUANT_KERNELS_H

#include "tensor/dtype.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * Inside of quant: how codes become numbers,
 *
 *	TO(PRODUCT(DIFFERENCE(VALUES[code] - zero) * scale)), and once more times FACTOR if it is not 0
 *
 * or, with ADDS_ZEROS, TO(PRODUCT(DIFFERENCE(VALUES[code]) * scale) + zero), of which only the plain set knows;
 * each operation in float32, and rounded to the dtype that is named. What is no number keeps the
 * bits of the first operand that is none, and gets quiet; one of numbers alone (0 * infinity) is
 * the negative one that x86 makes. Rounded to bfloat16 it is 0xFFFF, as in torch's loops.
 */
struct ckpt_quant_math {
	float values[256]; /* by code */
	bool few;	   /* all codes are less than 16 */
	/*
	 * VALUES are what this dtype has by itself (float8_e4m3fn, float8_e5m2, int8, uint8), or
	 * UNKNOWN
	 */
	enum ckpt_dtype item;
	enum ckpt_dtype difference, product, to; /* float32, float16, bfloat16 */
	float factor;
	bool adds_zeros;
};

enum { CKPT_QUANT_NAN = 0xFFFF /* in bfloat16 */ };

/*
 * COUNT codes, and the scales of GROUP of them each; as many zero points, or NULL: there are none.
 */
struct ckpt_quant_codes {
	const uint8_t *codes;
	size_t count, group;
	const float *scales, *zeros;
};

/* Pointers to bytes and numbers need no alignment. Every set does the same, to the bit. */
struct ckpt_quant_kernels {
	/* codes of a byte each */
	void (*bytes)(const struct ckpt_quant_math *math, const struct ckpt_quant_codes *in,
		      void *out);
	/* codes of 4 bits, two to a byte, the lower ones first unless UPPER_FIRST */
	void (*nibbles)(const struct ckpt_quant_math *math, bool upper_first,
			const struct ckpt_quant_codes *in, void *out);
	/*
	 * OUT[col][row] = IN[row][col], of items of SIZE bytes, 1, 2 or 4; rows are STRIDE numbers
	 * apart, and OUT_STRIDE there.
	 */
	void (*transpose)(uint32_t size, const void *in, size_t rows, size_t cols, size_t stride,
			  void *out, size_t out_stride);
};

extern const struct ckpt_quant_kernels ckpt_quant_plain;

/* The best set for this processor, or &ckpt_quant_plain. */
const struct ckpt_quant_kernels *ckpt_quant_best(void);

/* COUNT float32 rounded to DTYPE, as float32. */
void ckpt_quant_round(enum ckpt_dtype dtype, float *numbers, size_t count);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CKPT_QUANT_DEQUANT_H
#define CKPT_QUANT_DEQUANT_H

#include "base/arena.h"
#include "tensor/dtype.h"
#include "tensor/recipe.h"

/* What an item of a weight is, before any scale. */
enum ckpt_quant_code {
	CKPT_QUANT_NUMBER, /* a number of the dtype ITEM: a float8 type, int8 or uint8 */
	CKPT_QUANT_E2M1,   /* a number of 4 bits, two to a byte: float4_e2m1fn_x2; code 8 is -0 */
	CKPT_QUANT_BITS,   /* an unsigned integer of BITS bits, 1 to 8, in little-endian words */
	/* TABLE[code]: BITS 4, two to a byte; 8; or, ALONG_COLS, 6, four to three bytes */
	CKPT_QUANT_TABLE,
};

/* Where several items to a byte or word are, of a matrix [ROWS, COLS]. */
enum ckpt_quant_packing {
	/* a word has items of one row, and each row begins with a word of its own */
	CKPT_QUANT_ALONG_COLS,
	CKPT_QUANT_ALONG_ROWS, /* a word has items of one column: [words of a column, COLS] */
	/* ALONG_COLS, BITS 4, but that a word has columns 0 2 4 6 1 3 5 7 of 8: AWQ's GEMM layout */
	CKPT_QUANT_AWQ,
};

/* Zero points: one for each scale. */
enum ckpt_quant_zero {
	CKPT_QUANT_NO_ZERO,
	CKPT_QUANT_ZERO_FIXED,	/* ZERO_FIXED for all */
	CKPT_QUANT_ZERO_NUMBER, /* ZEROS, numbers of ZERO_DTYPE, laid out as the scales */
	CKPT_QUANT_ZERO_BITS, /* ZEROS, of BITS bits in words, as the scales and ZERO_PACKED say */
};

/*
 * One quantized weight: MATRICES of ROWS x COLS numbers, in the orientation in which they are
 * stored, row after row. TRANSPOSED: what is made of each is [COLS, ROWS]. So a qweight of GPTQ,
 * [in / 8, out], is ROWS = in, COLS = out, ALONG_ROWS, TRANSPOSED; its scales [in / group, out]
 * have blocks of group x 1.
 *
 *	number = TO(PRODUCT(DIFFERENCE(item - zero) * SCALE_IN(scale)))
 *
 * Each operation is done in float32; what it gives is then rounded to the dtype that is named, to
 * the nearest, ties to even (float32: it is as it is). Without zero points, the item is rounded to
 * DIFFERENCE. FACTOR, if it is not 0: the product is multiplied by it and rounded to PRODUCT again.
 * ZERO_ADDS: zero points are numbers of the result,
 *
 *	number = TO(PRODUCT(DIFFERENCE(item - ZERO_FIXED) * SCALE_IN(scale)) + zero)
 */
struct ckpt_quant_weight {
	uint64_t matrices, rows, cols;
	bool transposed;
	enum ckpt_dtype to;		     /* float32, float16, bfloat16 */
	enum ckpt_dtype difference, product; /* of the same */
	float factor;

	enum ckpt_quant_code code;
	enum ckpt_dtype item;
	uint32_t bits;
	enum ckpt_quant_packing packed; /* of what has several items to a byte or word */
	/*
	 * BITS 3, 5, 6, 7: items cross words, which are one string of bits, lowest first. Else a
	 * word has 32 / BITS of them, the lowest bits first, and what is left over at its top means
	 * nothing. Holds for zero points as well.
	 */
	bool dense;
	bool upper_first; /* of two codes in a byte, the upper bits are the first: bitsandbytes */
	struct ckpt_recipe items;
	struct ckpt_recipe table; /* float32 for each of the codes */

	/*
	 * The scale of a number is that of its block of BLOCK_ROWS x BLOCK_COLS; the last block of
	 * a row or column may be cut off. 0: the block is the whole side. Scales of a matrix are
	 * [ceil(ROWS / BLOCK_ROWS), ceil(COLS / BLOCK_COLS)], those of the next follow.
	 *
	 * SCALE_DTYPE: float32, float16, bfloat16, float8_e4m3fn, float8_e8m0fnu (255: NaN), uint8
	 * (2 to the power of the number - 127: infinity for 255); with NESTED_TABLE it is uint8 and
	 * means a code.
	 */
	struct ckpt_recipe scales;
	enum ckpt_dtype scale_dtype;
	uint64_t block_rows, block_cols;
	/*
	 * The scales, of one byte, lie as cuBLAS reads them. Those of all matrices are one matrix, each below the one before; it is
	 * cut into tiles of 128 x 4, row after row of them, and the last tiles of a row and column are whole: what they have beyond
	 * the matrix means nothing. In a tile, row R and column C are at R % 32 * 16 + R / 32 * 4 + C. Only for weights without
	 * nested scales and with one zero point at most.
	 */
	bool scales_in_tiles;
	enum ckpt_dtype scale_in; /* float32, float16, bfloat16 */
	/*
	 * 255 as uint8 is 2 to the power of 128, as in torch's ldexp(), which a float32 cannot be:
	 * 0 stays 0, and 0.5 becomes the power of 127. For E2M1 without anything else done to the
	 * scale or product.
	 */
	bool exact_power;
	/*
	 * One float32 or one for each matrix; LEN 0: none. The scale is scale * GLOBAL or, if
	 * GLOBAL_DIVIDES, scale / GLOBAL; GLOBAL is rounded to SCALE_IN first.
	 */
	struct ckpt_recipe global;
	bool global_divides;
	/*
	 * 256 float32; LEN 0: none. The scale is NESTED_TABLE[code] * NESTED_SCALES[i], rounded to
	 * float32, + NESTED_OFFSET; a float32 of NESTED_SCALES is for NESTED_BLOCK scales.
	 */
	struct ckpt_recipe nested_table, nested_scales;
	uint64_t nested_block;
	float nested_offset;

	enum ckpt_quant_zero zero;
	int32_t zero_fixed;
	struct ckpt_recipe zeros;
	/* float32, float16, bfloat16, float8_e4m3fn, int8, uint8, int32, int64 */
	enum ckpt_dtype zero_dtype;
	/*
	 * Of ZERO_NUMBER: their name, borrowed, and what is no whole number from -256 to 256 is CKPT_E_FORMAT where it
	 * is read; or NULL
	 */
	const char *whole_zeros;
	/*
	 * Of ZERO_BITS: their name, borrowed, and what is not ONLY_ZERO is CKPT_E_FORMAT where it is read: some kernels would take
	 * ONLY_ZERO without reading them; or NULL
	 */
	const char *only_zeros;
	int32_t only_zero;
	bool zero_adds; /* of ZERO_NUMBER, of a weight that is neither TRANSPOSED nor has a FACTOR */
	enum ckpt_quant_packing zero_packed;
	uint32_t zero_add; /* to a zero point of ZERO_BITS: 1 for GPTQ's first form */
	bool zero_wraps;   /* modulo 2 to the power of BITS */

	/*
	 * Which row of the scales each row has, int32[ROWS], in place of row / BLOCK_ROWS (GPTQ's
	 * g_idx); negative ones count from the end. LEN 0: none. The number of scales is as if
	 * there were none.
	 */
	struct ckpt_recipe group_of_row;
	/*
	 * Which column of the scales each column has, int32[COLS] (compressed-tensors' g_idx):
	 * BLOCK_COLS of each; or one of them is -1, and it is col / BLOCK_COLS. LEN 0: none.
	 */
	struct ckpt_recipe group_of_col;
};

/*
 * The numbers of WEIGHT, as a recipe: MATRICES * ROWS * COLS of dtype TO. Reads nothing. All that
 * it keeps is in ARENA; what the recipes of WEIGHT borrow has to live as long.
 *
 * CKPT_E_FORMAT: a recipe has another length than the shape asks for, which the error says.
 * CKPT_E_UNSUPPORTED: a combination that there is no way for; or what the numbers are made of can be
 * read front to back only (compressed records), and is more than 64 MiB, which would have to be
 * kept in memory.
 *
 * Memory while it is read: up to 16 MiB for each thread, and what is kept. Checksums recorded for
 * any of the recipes are compared, by the reading itself or by the mover at its end, so that no
 * output appears with numbers made of damaged bytes.
 */
int ckpt_quant_recipe(const struct ckpt_quant_weight *weight, struct ckpt_arena *arena,
		      struct ckpt_recipe *out, struct ckpt_error *err);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"

#include "io/fault.h"
#include "plan/mover.h"
#include "quant/dequant.h"
#include "quant/kernels.h"

#include <errno.h>
#include <fcntl.h>
#include <libdeflate.h>
#include <math.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/*
 * Weights at random are held against a slow reader that is written here once more, number by number and
 * bit by bit, and shares no code with the library.
 */

static struct ckpt_error err;
static char *folder, *in_path, *out_path;

static uint64_t random_state = 88172645463325252u;

static uint64_t next_random(void)
{
	random_state ^= random_state << 13;
	random_state ^= random_state >> 7;
	return random_state ^= random_state << 17;
}

static uint32_t below(uint32_t n)
{
	return (uint32_t)(next_random() >> 20) % n;
}

/* ---- a slow reader ---- */

/* One sign bit, then EXPONENT bits, then MANTISSA bits. */
static double small_float(uint32_t code, int exponent_bits, int mantissa_bits, int bias)
{
	uint32_t mantissa = code & ((1u << mantissa_bits) - 1),
		 exponent = code >> mantissa_bits & ((1u << exponent_bits) - 1);
	double v = exponent ? ldexp((1 << mantissa_bits) + mantissa,
				    (int)exponent - bias - mantissa_bits)
			    : ldexp(mantissa, 1 - bias - mantissa_bits);

	return code >> (exponent_bits + mantissa_bits) & 1 ? -v : v;
}

static float slow_number(enum ckpt_dtype dtype, const uint8_t *bytes)
{
	uint32_t wide = 0;
	int64_t widest;
	float v;

	switch (dtype) {
	case CKPT_DTYPE_INT8: return (int8_t)*bytes;
	case CKPT_DTYPE_UINT8: return *bytes;
	case CKPT_DTYPE_INT32: memcpy(&wide, bytes, 4); return (float)(int32_t)wide;
	case CKPT_DTYPE_INT64: memcpy(&widest, bytes, 8); return (float)widest;
	case CKPT_DTYPE_FLOAT8_E4M3FN:
		return (*bytes & 0x7F) == 0x7F ? NAN : (float)small_float(*bytes, 4, 3, 7);
	case CKPT_DTYPE_FLOAT8_E4M3FNUZ:
		return *bytes == 0x80 ? NAN : (float)small_float(*bytes, 4, 3, 8);
	case CKPT_DTYPE_FLOAT8_E5M2FNUZ:
		return *bytes == 0x80 ? NAN : (float)small_float(*bytes, 5, 2, 16);
	case CKPT_DTYPE_FLOAT8_E5M2:
		if ((*bytes & 0x7C) != 0x7C)
			return (float)small_float(*bytes, 5, 2, 15);
		return *bytes & 3 ? NAN : *bytes & 0x80 ? -INFINITY : INFINITY;
	case CKPT_DTYPE_FLOAT8_E8M0FNU: return *bytes == 255 ? NAN : (float)ldexp(1, *bytes - 127);
	case CKPT_DTYPE_BFLOAT16:
		memcpy((uint8_t *)&wide + 2, bytes, 2);
		memcpy(&v, &wide, 4);
		return v;
	case CKPT_DTYPE_FLOAT16:
		memcpy(&wide, bytes, 2);
		if ((wide & 0x7C00) != 0x7C00)
			return (float)small_float(wide, 5, 10, 15);
		return wide & 0x3FF ? NAN : wide & 0x8000 ? -INFINITY : INFINITY;
	default: memcpy(&v, bytes, 4); return v;
	}
}

/* To the nearest number of DTYPE, ties to even. */
static float slow_round(enum ckpt_dtype dtype, float v)
{
	int mantissa = dtype == CKPT_DTYPE_FLOAT16 ? 10 : 7,
	    least = dtype == CKPT_DTYPE_FLOAT16 ? -14 : -126, exponent;
	double most = dtype == CKPT_DTYPE_FLOAT16 ? 65504 : 0x1.FEp127, step, rounded;

	if (dtype == CKPT_DTYPE_FLOAT32 || isnan(v) || isinf(v) || v == 0)
		return v;
	frexp((double)v, &exponent);
	exponent = exponent - 1 < least ? least : exponent - 1;
	step = ldexp(1, exponent - mantissa);
	rounded = nearbyint((double)v / step) * step;
	if (fabs(rounded) > most)
		return v < 0 ? -INFINITY : INFINITY;
	return copysignf((float)rounded, v);
}

/* A weight, and the bytes that its recipes are of. */
struct weight {
	struct ckpt_quant_weight w;
	uint8_t *items, *scales, *zeros, *global, *table, *nested_table, *nested_scales;
	uint8_t *tiles; /* what is read for SCALES, which the slow reader takes */
	int32_t *row_groups, *col_groups;
};

static uint64_t ceil_div(uint64_t a, uint64_t b)
{
	return (a + b - 1) / b;
}

/* Bit AT of code NUMBER of those in 32-bit words, the one with index LINE of words that are STEP words apart. */
static uint32_t bit_in_words(const uint8_t *bytes, uint64_t first, uint64_t step, uint64_t bit)
{
	uint64_t word = first + bit / 32 * step;

	return bytes[word * 4 + bit % 32 / 8] >> bit % 8 & 1;
}

/* The code of BITS bits at ROW, COL of matrix M of ROWS x COLS in words. */
static uint32_t slow_bits(const struct ckpt_quant_weight *w, enum ckpt_quant_packing packing,
			  const uint8_t *bytes, uint64_t m, uint64_t rows, uint64_t cols,
			  uint64_t row, uint64_t col)
{
	bool along_rows = packing == CKPT_QUANT_ALONG_ROWS, dense = w->dense;
	uint64_t per = 32 / w->bits, i = along_rows ? row : col, n = along_rows ? rows : cols,
		 words = dense ? ceil_div(n * w->bits, 32) : ceil_div(n, per),
		 bit = dense ? i * w->bits : i / per * 32 + i % per * w->bits, first, step;
	uint32_t code = 0;

	if (packing == CKPT_QUANT_AWQ) {
		static const int order[8] = { 0, 2, 4, 6, 1, 3, 5, 7 }; /* of columns in a word */
		int field = 0;

		while (order[field] != (int)(col % 8))
			field++;
		bit = col / 8 * 32 + (uint64_t)field * 4;
	}
	first = along_rows ? m * words * cols + col : (m * rows + row) * words;
	step = along_rows ? cols : 1;
	for (uint32_t k = 0; k < w->bits; k++)
		code |= bit_in_words(bytes, first, step, bit + k) << k;
	return code;
}

static float slow_item(const struct weight *x, uint64_t m, uint64_t row, uint64_t col)
{
	static const float magnitudes[] = { 0, .5F, 1, 1.5F, 2, 3, 4, 6 };
	const struct ckpt_quant_weight *w = &x->w;
	uint32_t code;
	bool second;

	if (w->code == CKPT_QUANT_BITS)
		return (float)slow_bits(w, w->packed, x->items, m, w->rows, w->cols, row, col);
	if (w->code == CKPT_QUANT_NUMBER)
		return slow_number(w->item, x->items + (m * w->rows + row) * w->cols + col);
	if (w->code == CKPT_QUANT_TABLE && w->bits == 8)
		return slow_number(CKPT_DTYPE_FLOAT32,
				   x->table + 4 * x->items[(m * w->rows + row) * w->cols + col]);
	if (w->code == CKPT_QUANT_TABLE && w->bits == 6) {
		const uint8_t *bytes = x->items + (m * w->rows + row) * ceil_div(w->cols * 6, 8);

		code = 0;
		for (uint64_t k = 0; k < 6; k++)
			code |= (uint32_t)(bytes[(col * 6 + k) / 8] >> (col * 6 + k) % 8 & 1) << k;
		return slow_number(CKPT_DTYPE_FLOAT32, x->table + 4 * code);
	}
	if (w->packed == CKPT_QUANT_ALONG_ROWS) {
		code = x->items[(m * ceil_div(w->rows, 2) + row / 2) * w->cols + col];
		second = row % 2;
	} else {
		code = x->items[(m * w->rows + row) * ceil_div(w->cols, 2) + col / 2];
		second = col % 2;
	}
	code = second != w->upper_first ? code >> 4 : code & 15;
	if (w->code == CKPT_QUANT_TABLE)
		return slow_number(CKPT_DTYPE_FLOAT32, x->table + 4 * code);
	return code & 8 ? -magnitudes[code & 7] : magnitudes[code & 7];
}

static float slow_scale(const struct weight *x, uint64_t m, uint64_t i)
{
	const struct ckpt_quant_weight *w = &x->w;
	const uint8_t *at = x->scales + i * ckpt_dtype_size(w->scale_dtype);
	volatile float scale; /* each step is rounded by itself */
	float global;

	if (x->nested_table) {
		scale = slow_number(CKPT_DTYPE_FLOAT32, x->nested_table + 4 * *at);
		scale *= slow_number(CKPT_DTYPE_FLOAT32,
				     x->nested_scales + 4 * (i / w->nested_block));
		scale += w->nested_offset;
	} else if (w->scale_dtype == CKPT_DTYPE_UINT8) {
		scale = (float)ldexp(1, *at - 127);
	} else {
		scale = slow_number(w->scale_dtype, at);
	}
	if (x->global) {
		global = slow_round(w->scale_in,
				    slow_number(CKPT_DTYPE_FLOAT32,
						x->global + (w->global.len > 4 ? 4 * m : 0)));
		scale = w->global_divides ? scale / global : scale * global;
	}
	return slow_round(w->scale_in, scale);
}

static float slow_dequantize(const struct weight *x, uint64_t m, uint64_t row, uint64_t col)
{
	const struct ckpt_quant_weight *w = &x->w;
	uint64_t block_rows = w->block_rows ? w->block_rows : w->rows,
		 block_cols = w->block_cols ? w->block_cols : w->cols,
		 scale_rows = ceil_div(w->rows, block_rows),
		 scale_cols = ceil_div(w->cols, block_cols), scale_row = row / block_rows,
		 scale_col = col / block_cols, i;
	float v = slow_item(x, m, row, col), zero_number = 0;

	if (x->row_groups)
		scale_row =
			(uint64_t)x->row_groups[row] + (x->row_groups[row] < 0 ? scale_rows : 0);
	if (x->col_groups)
		scale_col = (uint64_t)x->col_groups[col];
	i = (m * scale_rows + scale_row) * scale_cols + scale_col;
	if (w->zero == CKPT_QUANT_ZERO_FIXED || w->zero_adds)
		v -= (float)w->zero_fixed;
	if (w->zero == CKPT_QUANT_ZERO_NUMBER)
		zero_number =
			slow_number(w->zero_dtype, x->zeros + i * ckpt_dtype_size(w->zero_dtype));
	if (!w->zero_adds)
		v -= zero_number;
	if (w->zero == CKPT_QUANT_ZERO_BITS) {
		uint32_t zero = slow_bits(w, w->zero_packed, x->zeros, m, scale_rows, scale_cols,
					  scale_row, scale_col) +
				w->zero_add;

		v -= (float)(w->zero_wraps ? zero % (1u << w->bits) : zero);
	}
	v = slow_round(w->difference, v);
	if (w->exact_power)
		return slow_round(w->to, (float)ldexp((double)v, x->scales[i] - 127));
	v = slow_round(w->product, v * slow_scale(x, m, i));
	if (w->factor != 0)
		v = slow_round(w->product, v * w->factor);
	if (w->zero_adds)
		v += zero_number;
	return slow_round(w->to, v);
}

/* ---- weights at random ---- */

static const enum ckpt_dtype plain[] = { CKPT_DTYPE_FLOAT32, CKPT_DTYPE_FLOAT16,
					 CKPT_DTYPE_BFLOAT16 };

/* LEN bytes of numbers of DTYPE, most of them usual ones. */
static uint8_t *random_numbers(enum ckpt_dtype dtype, uint64_t len)
{
	static const uint32_t odd[] = {
		0,	    0x80000000, 0x7F800000, 0xFF800000, 0x7FC00001,
		0x7F7FFFFF, 1,		0x00400000, 0x33800000, 0x47800000
	};
	bool is_integer = dtype == CKPT_DTYPE_INT32 || dtype == CKPT_DTYPE_INT64;
	uint32_t size = ckpt_dtype_size(dtype);
	uint8_t *bytes = malloc(len + 1);

	for (uint64_t i = 0; i < len; i++)
		bytes[i] = (uint8_t)next_random();
	for (uint64_t i = 0; dtype == CKPT_DTYPE_INT64 && i + 8 <= len; i += 8)
		memcpy(bytes + i, &(int64_t){ (int64_t)below(600) - 300 }, 8);
	for (uint64_t i = 0; size > 1 && !is_integer && i + size <= len; i += size) {
		uint32_t v = (uint32_t)next_random() & 0xBFFFFFFF;

		v = (v & 0x8007FFFF) | (0x3D000000 + below(6) * 0x800000); /* 0.03 to 2 */
		if (!below(40))
			v = odd[below(COUNT(odd))];
		if (dtype == CKPT_DTYPE_FLOAT16) {
			v = below(40) ? (v & 0x83FF) | (0x2800 + below(6) * 0x400)
				      : (uint32_t)next_random();
			memcpy(bytes + i, &v, 2);
		} else {
			memcpy(bytes + i, size == 2 ? (uint8_t *)&v + 2 : (uint8_t *)&v, size);
		}
	}
	for (uint64_t i = 0; dtype == CKPT_DTYPE_INT32 && i + 4 <= len; i += 4)
		memcpy(bytes + i, &(int32_t){ (int32_t)below(600) - 300 }, 4);
	return bytes;
}

static struct ckpt_recipe memory(const void *bytes, uint64_t len)
{
	return (struct ckpt_recipe){ .kind = CKPT_RECIPE_MEMORY, .memory = bytes, .len = len };
}

static uint64_t words_len(const struct ckpt_quant_weight *w, enum ckpt_quant_packing packing,
			  uint64_t rows, uint64_t cols)
{
	uint64_t n = packing == CKPT_QUANT_ALONG_ROWS ? rows : cols,
		 words = w->dense ? ceil_div(n * w->bits, 32) : ceil_div(n, 32 / w->bits);

	return w->matrices * words * (packing == CKPT_QUANT_ALONG_ROWS ? cols : rows) * 4;
}

static void choose_items(struct weight *x)
{
	static const enum ckpt_dtype types[] = { CKPT_DTYPE_FLOAT8_E4M3FN,
						 CKPT_DTYPE_FLOAT8_E4M3FN,
						 CKPT_DTYPE_FLOAT8_E5M2,
						 CKPT_DTYPE_FLOAT8_E4M3FNUZ,
						 CKPT_DTYPE_FLOAT8_E5M2FNUZ,
						 CKPT_DTYPE_INT8,
						 CKPT_DTYPE_UINT8 };
	struct ckpt_quant_weight *w = &x->w;
	uint64_t len;

	w->code = (enum ckpt_quant_code)below(4);
	w->item = types[below(COUNT(types))];
	w->bits = w->code == CKPT_QUANT_TABLE ? 4 + 2 * below(3) : below(2) ? 4 : 1 + below(8);
	w->packed = (enum ckpt_quant_packing)below(3);
	w->dense = below(2);
	w->upper_first = below(2);
	if (w->packed == CKPT_QUANT_AWQ && (w->bits != 4 || w->code != CKPT_QUANT_BITS))
		w->packed = CKPT_QUANT_ALONG_COLS;
	if (w->code == CKPT_QUANT_TABLE && w->bits == 6)
		w->packed = CKPT_QUANT_ALONG_COLS;
	if (w->code == CKPT_QUANT_TABLE && w->bits == 6)
		len = w->matrices * w->rows * ceil_div(w->cols * 6, 8);
	else if (w->code == CKPT_QUANT_BITS)
		len = words_len(w, w->packed, w->rows, w->cols);
	else if (w->code == CKPT_QUANT_NUMBER || (w->code == CKPT_QUANT_TABLE && w->bits == 8))
		len = w->matrices * w->rows * w->cols;
	else if (w->packed == CKPT_QUANT_ALONG_ROWS)
		len = w->matrices * ceil_div(w->rows, 2) * w->cols;
	else
		len = w->matrices * w->rows * ceil_div(w->cols, 2);
	x->items = random_numbers(CKPT_DTYPE_UINT8, len);
	w->items = memory(x->items, len);
	if (w->code == CKPT_QUANT_TABLE) {
		w->table = memory(NULL, (1u << w->bits) * 4);
		w->table.memory = x->table = random_numbers(CKPT_DTYPE_FLOAT32, w->table.len);
	}
}

static void choose_scales(struct weight *x, uint64_t count)
{
	static const enum ckpt_dtype types[] = {
		CKPT_DTYPE_FLOAT32, CKPT_DTYPE_FLOAT16,	      CKPT_DTYPE_BFLOAT16,
		CKPT_DTYPE_UINT8,   CKPT_DTYPE_FLOAT8_E4M3FN, CKPT_DTYPE_FLOAT8_E8M0FNU
	};
	struct ckpt_quant_weight *w = &x->w;
	uint64_t len;

	w->scale_dtype = types[below(COUNT(types))];
	w->scale_in = below(2) ? CKPT_DTYPE_FLOAT32 : plain[below(3)];
	if (!below(4)) {
		w->scale_dtype = CKPT_DTYPE_UINT8;
		w->nested_block = 1 + below(300);
		w->nested_offset = 0.03F;
		len = ceil_div(count, w->nested_block) * 4;
		x->nested_scales = random_numbers(CKPT_DTYPE_FLOAT32, len);
		w->nested_scales = memory(x->nested_scales, len);
		x->nested_table = random_numbers(CKPT_DTYPE_FLOAT32, 1024);
		w->nested_table = memory(x->nested_table, 1024);
	}
	len = count * ckpt_dtype_size(w->scale_dtype);
	x->scales = random_numbers(w->scale_dtype, len);
	w->scales = memory(x->scales, len);
	if (!below(3)) {
		len = below(2) ? 4 : 4 * w->matrices;
		x->global = random_numbers(CKPT_DTYPE_FLOAT32, len);
		w->global = memory(x->global, len);
		w->global_divides = below(2);
	}
}

static void choose_zeros(struct weight *x, uint64_t scale_rows, uint64_t scale_cols)
{
	static const enum ckpt_dtype types[] = { CKPT_DTYPE_FLOAT32,  CKPT_DTYPE_FLOAT16,
						 CKPT_DTYPE_BFLOAT16, CKPT_DTYPE_INT8,
						 CKPT_DTYPE_UINT8,    CKPT_DTYPE_FLOAT8_E4M3FN,
						 CKPT_DTYPE_INT32,    CKPT_DTYPE_INT64 };
	struct ckpt_quant_weight *w = &x->w;
	uint64_t len = 0;

	w->zero = (enum ckpt_quant_zero)below(4);
	w->zero_fixed = (int32_t)below(300) - 100;
	w->zero_dtype = types[below(COUNT(types))];
	w->zero_adds =
		w->zero == CKPT_QUANT_ZERO_NUMBER && !w->transposed && w->factor == 0 &&
		(w->zero_dtype == CKPT_DTYPE_FLOAT32 || w->zero_dtype == CKPT_DTYPE_FLOAT16 ||
		 w->zero_dtype == CKPT_DTYPE_BFLOAT16) &&
		below(2);
	w->zero_packed = (enum ckpt_quant_packing)below(3);
	w->zero_add = below(2);
	w->zero_wraps = below(2);
	if (w->zero_packed == CKPT_QUANT_AWQ && w->bits != 4)
		w->zero_packed = CKPT_QUANT_ALONG_ROWS;
	if (w->zero == CKPT_QUANT_ZERO_NUMBER)
		len = w->matrices * scale_rows * scale_cols * ckpt_dtype_size(w->zero_dtype);
	if (w->zero == CKPT_QUANT_ZERO_BITS)
		len = words_len(w, w->zero_packed, scale_rows, scale_cols);
	x->zeros =
		random_numbers(w->zero == CKPT_QUANT_ZERO_BITS ? CKPT_DTYPE_UINT8 : w->zero_dtype,
			       len);
	w->zeros = memory(x->zeros, len);
}

/* The scales as cuBLAS has them, and any bytes between them. */
static void put_in_tiles(struct weight *x, uint64_t scale_rows, uint64_t scale_cols)
{
	uint64_t rows = x->w.matrices * scale_rows, across = ceil_div(scale_cols, 4),
		 len = ceil_div(rows, 128) * across * 512;

	x->tiles = random_numbers(CKPT_DTYPE_UINT8, len);
	for (uint64_t row = 0; row < rows; row++)
		for (uint64_t col = 0; col < scale_cols; col++)
			x->tiles[(row / 128 * across + col / 4) * 512 + row % 32 * 16 +
				 row % 128 / 32 * 4 + col % 4] = x->scales[row * scale_cols + col];
	x->w.scales_in_tiles = true;
	x->w.scales = memory(x->tiles, len);
}

static void choose_groups(struct weight *x, uint64_t scale_rows, uint64_t scale_cols)
{
	struct ckpt_quant_weight *w = &x->w;
	uint64_t block = w->block_cols ? w->block_cols : w->cols;

	if (!below(4)) {
		x->row_groups = malloc(w->rows * 4 + 1);
		for (uint64_t i = 0; i < w->rows; i++)
			x->row_groups[i] =
				(int32_t)below((uint32_t)scale_rows * 2) - (int32_t)scale_rows;
		w->group_of_row = memory(x->row_groups, w->rows * 4);
	}
	if (!below(4)) {
		x->col_groups = malloc(w->cols * 4 + 1);
		for (uint64_t i = 0; i < w->cols; i++)
			x->col_groups[i] = (int32_t)(i / block);
		for (uint64_t i = 0; i < w->cols; i++) {
			uint64_t other = below((uint32_t)w->cols);
			int32_t group = x->col_groups[i];

			x->col_groups[i] = x->col_groups[other];
			x->col_groups[other] = group;
		}
		w->group_of_col = memory(x->col_groups, w->cols * 4);
	}
	(void)scale_cols;
}

/* MOST: numbers, about. */
static void choose_weight(struct weight *x, uint32_t most)
{
	static const uint32_t blocks[] = { 0, 0, 1, 2, 3, 5, 16, 32, 64, 128 };
	struct ckpt_quant_weight *w = &x->w;
	uint64_t scale_rows, scale_cols;

	*x = (struct weight){ 0 };
	w->matrices = below(3) ? 1 : 1 + below(3);
	w->rows = 1 + below(1 + below(below(2) ? most : 60));
	w->cols = 1 + below(1 + (uint32_t)(most / w->rows / w->matrices));
	if (below(2))
		w->cols = ceil_div(w->cols, 32) * 32;
	w->transposed = below(2);
	w->to = plain[below(3)];
	w->difference = below(2) ? CKPT_DTYPE_FLOAT32 : plain[below(3)];
	w->product = below(2) ? CKPT_DTYPE_FLOAT32 : plain[below(3)];
	w->factor = below(4) ? 0 : 0.0078740157F;
	w->block_rows = blocks[below(COUNT(blocks))];
	w->block_cols = blocks[below(COUNT(blocks))];
	scale_rows = w->block_rows ? ceil_div(w->rows, w->block_rows) : 1;
	scale_cols = w->block_cols ? ceil_div(w->cols, w->block_cols) : 1;
	choose_items(x);
	choose_scales(x, w->matrices * scale_rows * scale_cols);
	choose_zeros(x, scale_rows, scale_cols);
	if (ckpt_dtype_size(w->scale_dtype) == 1 && !x->nested_table && w->zero <= CKPT_QUANT_ZERO_FIXED && below(2))
		put_in_tiles(x, scale_rows, scale_cols);
	if (scale_cols <= 2048)
		choose_groups(x, scale_rows, scale_cols);
}

static void clear_weight(struct weight *x)
{
	free(x->items);
	free(x->scales);
	free(x->tiles);
	free(x->zeros);
	free(x->global);
	free(x->table);
	free(x->nested_table);
	free(x->nested_scales);
	free(x->row_groups);
	free(x->col_groups);
}

/* ---- where the bytes are ---- */

/* All recipes of a weight, those that it has not, too. */
enum { MOST_SIDES = 9 };

static void list_sides(struct ckpt_quant_weight *w, struct ckpt_recipe *out[MOST_SIDES])
{
	struct ckpt_recipe *all[MOST_SIDES] = {
		&w->items,	  &w->scales,	     &w->zeros,	       &w->global,	&w->table,
		&w->nested_table, &w->nested_scales, &w->group_of_row, &w->group_of_col
	};

	memcpy(out, all, sizeof(all));
}

/* All bytes in one file, each at some place, with their checksums. */
static struct ckpt_source *write_sides(struct ckpt_quant_weight *w)
{
	struct ckpt_recipe *sides[MOST_SIDES];
	struct ckpt_source *src;
	struct ckpt_buf all = { 0 };

	list_sides(w, sides);
	for (size_t i = 0; i < MOST_SIDES; i++) {
		struct ckpt_recipe *side = sides[i];
		const void *bytes = side->memory;

		ckpt_buf_add(&all, "padding", 1 + below(7));
		if (!side->len)
			continue;
		*side = (struct ckpt_recipe){ .kind = CKPT_RECIPE_EXTENT,
					      .off = all.len,
					      .len = side->len,
					      .has_crc = true,
					      .crc32 = libdeflate_crc32(0, bytes, side->len) };
		ckpt_buf_add(&all, bytes, side->len);
	}
	unit_write_file(in_path, all.data, all.len);
	ckpt_buf_clear(&all);
	assert_int_equal(ckpt_source_open(in_path, &src, &err), 0);
	for (size_t i = 0; i < MOST_SIDES; i++)
		if (sides[i]->len)
			sides[i]->src = src;
	return src;
}

static int open_as_stream(const struct ckpt_recipe *recipe, struct ckpt_stream **out,
			  struct ckpt_error *error)
{
	int rc = ckpt_recipe_stream(recipe->ctx, out, error);

	if (rc == 0)
		(*out)->seek = NULL;
	return rc;
}

/* Some as they are, some front to back only, some in two parts. KEPT: what that borrows. */
struct disguise {
	struct ckpt_recipe whole[MOST_SIDES], parts[MOST_SIDES][2];
};

static void disguise_sides(struct ckpt_quant_weight *w, struct disguise *kept)
{
	struct ckpt_recipe *sides[MOST_SIDES];

	list_sides(w, sides);
	for (size_t i = 0; i < MOST_SIDES; i++) {
		struct ckpt_recipe *side = sides[i];
		uint64_t cut = side->len ? below((uint32_t)side->len) : 0;

		kept->whole[i] = *side;
		switch (side->len > 1 ? below(4) : 0) {
		case 1:
			side->kind = CKPT_RECIPE_STREAM;
			side->open = open_as_stream;
			side->ctx = &kept->whole[i];
			break;
		case 2:
			kept->parts[i][0] = ckpt_recipe_part(&kept->whole[i], 0, cut);
			kept->parts[i][1] = ckpt_recipe_part(&kept->whole[i], cut, side->len - cut);
			*side = (struct ckpt_recipe){ .kind = CKPT_RECIPE_JOINED,
						      .len = side->len,
						      .parts = kept->parts[i],
						      .part_count = 2 };
			break;
		}
	}
}

/* ---- comparing ---- */

static void slow_matrix(const struct weight *x, float *out)
{
	const struct ckpt_quant_weight *w = &x->w;

	for (uint64_t m = 0; m < w->matrices; m++)
		for (uint64_t row = 0; row < w->rows; row++)
			for (uint64_t col = 0; col < w->cols; col++) {
				uint64_t i =
					w->transposed ? col * w->rows + row : row * w->cols + col;

				out[m * w->rows * w->cols + i] = slow_dequantize(x, m, row, col);
			}
}

static void print_weight(const struct ckpt_quant_weight *w)
{
	print_message(
		"%d x %d x %d transposed %d code %d item %s bits %d packed %d dense %d upper %d "
		"scales %s blocks %d x %d zero %d (%s, packed %d, add %d, wraps %d) to %s by %s and %s\n",
		(int)w->matrices, (int)w->rows, (int)w->cols, w->transposed, w->code,
		ckpt_dtype_name(w->item), w->bits, w->packed, w->dense, w->upper_first,
		ckpt_dtype_name(w->scale_dtype), (int)w->block_rows, (int)w->block_cols, w->zero,
		ckpt_dtype_name(w->zero_dtype), w->zero_packed, w->zero_add, w->zero_wraps,
		ckpt_dtype_name(w->to), ckpt_dtype_name(w->difference),
		ckpt_dtype_name(w->product));
}

/* All numbers of W. What is no number may have any bits. */
static void compare(const struct ckpt_quant_weight *w, const uint8_t *found, const float *want)
{
	uint64_t count = w->matrices * w->rows * w->cols;

	for (uint64_t i = 0; i < count; i++) {
		float v = slow_number(w->to, found + i * ckpt_dtype_size(w->to));

		if (isnan(want[i]) ? isnan(v) : !memcmp(&v, &want[i], sizeof(v)))
			continue;
		print_weight(w);
		fail_msg("number %d of %d is %a, not %a", (int)i, (int)count, (double)v,
			 (double)want[i]);
	}
}

/* RECIPE in pieces of up to MOST bytes, some of them after a seek. */
static void read_in_pieces(const struct ckpt_recipe *recipe, uint32_t most, uint8_t *out)
{
	struct ckpt_stream *stream;

	assert_int_equal(ckpt_recipe_stream(recipe, &stream, &err), 0);
	for (uint64_t pos = 0; pos < recipe->len;) {
		size_t len = 1 + below(most);

		len = len < recipe->len - pos ? len : (size_t)(recipe->len - pos);
		if (!below(4) && stream->seek)
			assert_int_equal(stream->seek(stream, pos, &err), 0);
		if (stream->read(stream, out + pos, len, &err) < 0)
			fail_msg("%s", unit_message(&err));
		pos += len;
	}
	stream->close(stream);
}

static int move(const struct ckpt_recipe *recipe, uint32_t threads)
{
	struct ckpt_mover_options options = { .threads = threads };
	struct ckpt_moved moved = { .want_crc = true };
	struct ckpt_mover *mover;
	struct ckpt_sink *sink;
	int rc;

	assert_int_equal(ckpt_sink_open(out_path, recipe->len, 0, CKPT_SINK_REPLACE, 0666, &sink,
					&err),
			 0);
	assert_int_equal(ckpt_mover_open(sink, &options, &mover, &err), 0);
	rc = ckpt_mover_copy(mover, recipe, &moved, &err);
	if (rc == 0)
		rc = ckpt_mover_finish(mover, &err);
	ckpt_mover_close(mover);
	if (rc < 0) {
		ckpt_sink_discard(sink);
		return rc;
	}
	assert_int_equal(ckpt_sink_commit(sink, &err), 0);
	return 0;
}

static struct ckpt_recipe recipe_of(const struct ckpt_quant_weight *w, struct ckpt_arena *arena)
{
	struct ckpt_recipe recipe;

	if (ckpt_quant_recipe(w, arena, &recipe, &err) < 0)
		fail_msg("%s", unit_message(&err));
	assert_int_equal(recipe.len, w->matrices * w->rows * w->cols * ckpt_dtype_size(w->to));
	return recipe;
}

static void every_weight_is_what_a_slow_reader_makes_of_it(void **state)
{
	(void)state;
	for (unsigned round = 0; round < unit_rounds(400, 20000); round++) {
		struct ckpt_arena *arena = ckpt_arena_new(1 << 20);
		struct weight x;
		struct ckpt_recipe recipe;
		struct disguise kept;
		uint64_t count;
		uint8_t *found;
		float *want;

		choose_weight(&x, round % 16 ? 2000 : 40000);
		count = x.w.matrices * x.w.rows * x.w.cols;
		want = malloc(count * 4);
		slow_matrix(&x, want);
		disguise_sides(&x.w, &kept);
		recipe = recipe_of(&x.w, arena);
		found = malloc(recipe.len);
		read_in_pieces(&recipe, (uint32_t)recipe.len / (2 + below(40)) + 9, found);
		compare(&x.w, found, want);
		free(found);
		free(want);
		clear_weight(&x);
		ckpt_arena_free(arena);
	}
}

static void fill_sides(struct weight *x, uint64_t scales)
{
	struct ckpt_quant_weight *w = &x->w;
	uint64_t items =
		w->code == CKPT_QUANT_BITS
			? words_len(w, w->packed, w->rows, w->cols)
			: w->matrices * w->rows *
				  (w->code == CKPT_QUANT_E2M1 ? ceil_div(w->cols, 2) : w->cols);

	x->items = random_numbers(CKPT_DTYPE_UINT8, items);
	w->items = memory(x->items, items);
	x->scales = random_numbers(w->scale_dtype, scales * ckpt_dtype_size(w->scale_dtype));
	w->scales = memory(x->scales, scales * ckpt_dtype_size(w->scale_dtype));
}

/* Every number of E2M1 by every power. */
static void powers_can_be_exact(void **state)
{
	(void)state;
	for (size_t t = 0; t < COUNT(plain); t++) {
		struct ckpt_arena *arena = ckpt_arena_new(1 << 20);
		struct weight x = { .w = { .matrices = 1,
					   .rows = 256,
					   .cols = 16,
					   .to = plain[t],
					   .difference = CKPT_DTYPE_FLOAT32,
					   .product = CKPT_DTYPE_FLOAT32,
					   .scale_in = CKPT_DTYPE_FLOAT32,
					   .code = CKPT_QUANT_E2M1,
					   .scale_dtype = CKPT_DTYPE_UINT8,
					   .block_rows = 1,
					   .exact_power = true } };
		struct ckpt_recipe recipe;
		uint8_t found[256 * 16 * 4];
		float want[256 * 16];

		fill_sides(&x, 256);
		for (unsigned i = 0; i < 256; i++)
			x.scales[i] = (uint8_t)i;
		for (unsigned i = 0; i < 256 * 8; i++)
			x.items[i] = (uint8_t)(i % 8 * 0x22 + 0x10);
		slow_matrix(&x, want);
		assert_true(want[255 * 16 + 1] == 0x1p127F || plain[t] == CKPT_DTYPE_FLOAT16);
		recipe = recipe_of(&x.w, arena);
		read_in_pieces(&recipe, 1000, found);
		compare(&x.w, found, want);
		x.w.code = CKPT_QUANT_NUMBER;
		assert_int_equal(ckpt_quant_recipe(&x.w, arena, &recipe, &err), CKPT_E_UNSUPPORTED);
		clear_weight(&x);
		ckpt_arena_free(arena);
	}
}

/* ---- the mover ---- */

/* Of X, whose sides are in a file, all numbers are in OUT_PATH; WANT: those of slow_matrix(). */
static void move_and_compare(const struct weight *x, uint32_t threads, const float *want)
{
	struct ckpt_arena *arena = ckpt_arena_new(1 << 20);
	struct ckpt_recipe recipe = recipe_of(&x->w, arena);
	struct ckpt_buf found;

	if (move(&recipe, threads) < 0)
		fail_msg("%s", unit_message(&err));
	found = unit_read_file(out_path);
	assert_int_equal(found.len, recipe.len);
	compare(&x->w, found.data, want);
	ckpt_buf_clear(&found);
	ckpt_arena_free(arena);
}

/* Longer than the mover's blocks, with scales that are read where they are. */
static const struct ckpt_quant_weight long_weights[] = {
	{ .matrices = 2,
	  .rows = 300,
	  .cols = 1024,
	  .code = CKPT_QUANT_NUMBER,
	  .item = CKPT_DTYPE_FLOAT8_E4M3FN,
	  .block_rows = 1,
	  .block_cols = 1 },
	{ .matrices = 1,
	  .rows = 3,
	  .cols = 200016,
	  .code = CKPT_QUANT_E2M1,
	  .block_rows = 1,
	  .block_cols = 2 },
	{ .matrices = 1,
	  .rows = 2,
	  .cols = 300001,
	  .code = CKPT_QUANT_BITS,
	  .bits = 4,
	  .block_rows = 1,
	  .block_cols = 2 },
	{ .matrices = 1,
	  .rows = 20000,
	  .cols = 31,
	  .code = CKPT_QUANT_BITS,
	  .bits = 3,
	  .block_rows = 1,
	  .block_cols = 1,
	  .packed = CKPT_QUANT_ALONG_ROWS,
	  .dense = true },
	{ .matrices = 1,
	  .rows = 500,
	  .cols = 1200,
	  .code = CKPT_QUANT_BITS,
	  .bits = 4,
	  .block_rows = 1,
	  .block_cols = 1,
	  .packed = CKPT_QUANT_ALONG_ROWS,
	  .transposed = true },
	{ .matrices = 2,
	  .rows = 90000,
	  .cols = 3,
	  .code = CKPT_QUANT_NUMBER,
	  .item = CKPT_DTYPE_INT8,
	  .block_rows = 1,
	  .block_cols = 1,
	  .transposed = true },
	{ .matrices = 3,
	  .rows = 64,
	  .cols = 4096,
	  .code = CKPT_QUANT_E2M1,
	  .block_rows = 1,
	  .block_cols = 2,
	  .transposed = true },
	{ .matrices = 3,
	  .rows = 700,
	  .cols = 602,
	  .code = CKPT_QUANT_E2M1,
	  .block_rows = 1,
	  .block_cols = 1,
	  .scales_in_tiles = true },
	{ .matrices = 2,
	  .rows = 129,
	  .cols = 9001, /* more tiles than are read at once */
	  .code = CKPT_QUANT_NUMBER,
	  .item = CKPT_DTYPE_FLOAT8_E4M3FN,
	  .block_rows = 1,
	  .block_cols = 1,
	  .scales_in_tiles = true },
	{ .matrices = 1,
	  .rows = 1100,
	  .cols = 1200,
	  .code = CKPT_QUANT_NUMBER,
	  .item = CKPT_DTYPE_FLOAT8_E5M2,
	  .block_rows = 1,
	  .block_cols = 1,
	  .scales_in_tiles = true,
	  .transposed = true },
};

static void init_long(struct weight *x, size_t i, bool large)
{
	struct ckpt_quant_weight *w = &x->w;

	*x = (struct weight){ .w = long_weights[i] };
	if (!large) {
		w->rows = w->rows < 32 ? w->rows : 32;
		w->cols = w->cols < 64 ? w->cols : 64 + w->cols % 2;
	}
	w->to = plain[i % 3];
	w->difference = w->product = w->scale_in = CKPT_DTYPE_FLOAT32;
	w->scale_dtype = w->scales_in_tiles ? CKPT_DTYPE_FLOAT8_E8M0FNU : CKPT_DTYPE_FLOAT32;
	fill_sides(x, w->matrices * ceil_div(w->rows, w->block_rows) *
			      ceil_div(w->cols, w->block_cols));
	if (w->scales_in_tiles)
		put_in_tiles(x, ceil_div(w->rows, w->block_rows), ceil_div(w->cols, w->block_cols));
}

static void long_weights_are_made_by_many_threads(void **state)
{
	(void)state;
	for (size_t i = 0; i < COUNT(long_weights); i++) {
		struct ckpt_source *src;
		struct weight x;
		float *want;

		init_long(&x, i, true);
		assert_true(x.w.scales.len > 1 << 20);
		want = malloc(x.w.matrices * x.w.rows * x.w.cols * 4);
		slow_matrix(&x, want);
		src = write_sides(&x.w);
		move_and_compare(&x, 1, want);
		move_and_compare(&x, 3, want);
		ckpt_source_unref(src);
		free(want);
		clear_weight(&x);
	}
}

static void flip_byte(uint64_t off)
{
	int fd = open(in_path, O_RDWR);
	uint8_t byte;

	assert_true(fd >= 0);
	assert_int_equal(pread(fd, &byte, 1, (off_t)off), 1);
	byte ^= 0x10;
	assert_int_equal(pwrite(fd, &byte, 1, (off_t)off), 1);
	close(fd);
}

/* Weights with all kinds of sides, in all kinds of recipes: damage in any is found before the output is there. */
static void damage_is_found(void **state)
{
	unsigned found = 0;

	(void)state;
	for (unsigned round = 0; round < unit_rounds(120, 2000); round++) {
		struct ckpt_arena *arena = ckpt_arena_new(4 << 20);
		struct ckpt_recipe *sides[MOST_SIDES], recipe;
		struct ckpt_source *src;
		struct disguise kept;
		struct weight x;

		if (round < COUNT(long_weights))
			init_long(&x, round, true);
		else
			choose_weight(&x, 3000);
		src = write_sides(&x.w);
		list_sides(&x.w, sides);
		for (size_t i = 0; i < MOST_SIDES; i++)
			kept.whole[i] = *sides[i];
		if (round % 2)
			disguise_sides(&x.w, &kept);
		recipe = recipe_of(&x.w, arena);
		if (move(&recipe, 2) < 0)
			fail_msg("%s", unit_message(&err));
		for (size_t i = 0; i < MOST_SIDES; i++) {
			bool are_groups =
				sides[i] == &x.w.group_of_row || sides[i] == &x.w.group_of_col;
			uint64_t off;
			int rc;

			if (!sides[i]->len)
				continue;
			off = kept.whole[i].off + below((uint32_t)kept.whole[i].len);
			flip_byte(off);
			rc = move(&recipe, 1 + round % 2);
			flip_byte(off);
			found++;
			if (rc == CKPT_E_DAMAGED ||
			    (are_groups && rc < 0)) /* or there is no such group */
				continue;
			print_weight(&x.w);
			fail_msg("side %d of kind %d: damage is not found", (int)i, sides[i]->kind);
		}
		ckpt_source_unref(src);
		clear_weight(&x);
		ckpt_arena_free(arena);
	}
	assert_true(found > 200);
}

struct fault {
	atomic_uint seen;
	unsigned at;
};

static int inject(void *ctx, enum ckpt_io_op op)
{
	struct fault *f = ctx;

	return op == CKPT_IO_READ && ++f->seen == f->at ? EIO : 0;
}

static void reads_that_fail_are_told(void **state)
{
	(void)state;
	for (size_t i = 0; i < COUNT(long_weights) * 2; i++) {
		struct ckpt_arena *arena = ckpt_arena_new(1 << 20);
		struct ckpt_source *src;
		struct weight x;
		struct fault none = { .at = 0 };
		struct ckpt_recipe recipe;

		init_long(&x, i / 2, i % 2);
		src = write_sides(&x.w);
		recipe = recipe_of(&x.w, arena);
		ckpt_io_set_hook(inject, &none);
		assert_int_equal(move(&recipe, 1), 0);
		for (unsigned at = 1; at <= none.seen; at += 1 + none.seen / 20) {
			struct fault fault = { .at = at };

			ckpt_io_set_hook(inject, &fault);
			assert_int_equal(move(&recipe, 1 + at % 2), CKPT_E_IO);
			assert_non_null(strstr(unit_message(&err), "/in"));
		}
		ckpt_io_set_hook(NULL, NULL);
		ckpt_source_unref(src);
		clear_weight(&x);
		ckpt_arena_free(arena);
	}
}

/* ---- what is refused ---- */

static void lengths_that_do_not_fit_are_refused(void **state)
{
	struct ckpt_recipe *sides[MOST_SIDES];
	unsigned refused = 0;

	(void)state;
	for (unsigned round = 0; round < 300; round++) {
		struct ckpt_arena *arena = ckpt_arena_new(4 << 20);
		struct ckpt_recipe recipe;
		struct weight x;

		choose_weight(&x, 3000);
		list_sides(&x.w, sides);
		for (size_t i = 0; i < MOST_SIDES; i++)
			for (int more = -1; sides[i]->len && more <= 1; more += 2) {
				sides[i]->len += (uint64_t)more;
				if (sides[i]->len) {
					assert_int_equal(ckpt_quant_recipe(&x.w, arena, &recipe,
									   &err),
							 CKPT_E_FORMAT);
					assert_non_null(
						strstr(unit_text(&err), "its shape asks for"));
					refused++;
				}
				sides[i]->len -= (uint64_t)more;
			}
		clear_weight(&x);
		ckpt_arena_free(arena);
	}
	assert_true(refused > 1000);
}

static struct ckpt_quant_weight small_weight(void)
{
	static const uint8_t items[64], scales[64];

	return (struct ckpt_quant_weight){ .matrices = 1,
					   .rows = 4,
					   .cols = 8,
					   .to = CKPT_DTYPE_BFLOAT16,
					   .difference = CKPT_DTYPE_FLOAT32,
					   .product = CKPT_DTYPE_FLOAT32,
					   .scale_in = CKPT_DTYPE_FLOAT32,
					   .code = CKPT_QUANT_NUMBER,
					   .item = CKPT_DTYPE_INT8,
					   .items = memory(items, 32),
					   .scale_dtype = CKPT_DTYPE_FLOAT32,
					   .scales = memory(scales, 16),
					   .block_rows = 2,
					   .block_cols = 4 };
}

static int open_and_read(const struct ckpt_quant_weight *w)
{
	struct ckpt_arena *arena = ckpt_arena_new(1 << 20);
	struct ckpt_recipe recipe;
	struct ckpt_stream *stream;
	uint8_t out[8];
	int rc = ckpt_quant_recipe(w, arena, &recipe, &err);

	if (rc == 0) {
		assert_int_equal(ckpt_recipe_stream(&recipe, &stream, &err), 0);
		rc = stream->read(stream, out, sizeof(out), &err);
		stream->close(stream);
	}
	ckpt_arena_free(arena);
	return rc;
}

static void what_cannot_be_is_refused(void **state)
{
	static const int32_t beyond[] = { 0, 1, 2, 0 }, before[] = { 0, 1, -3, 0 },
			     col_beyond[] = { 0, 0, 0, 0, 1, 1, 1, 2 },
			     uneven[] = { 0, 0, 0, 1, 1, 1, 1, 1 },
			     in_order[] = { 0, -1, 5, 6, 7, 8, 9, 10 };
	static const uint8_t tile[512];
	struct ckpt_quant_weight w = small_weight();

	(void)state;
	assert_int_equal(open_and_read(&w), 0);
	w.rows = (uint64_t)1 << 62;
	assert_int_equal(open_and_read(&w), CKPT_E_FORMAT);
	assert_string_equal(unit_text(&err), "has more numbers than there can be");
	w = small_weight();
	w.to = CKPT_DTYPE_FLOAT64;
	assert_int_equal(open_and_read(&w), CKPT_E_UNSUPPORTED);
	w = small_weight();
	w.group_of_row = memory(beyond, 16);
	assert_int_equal(open_and_read(&w), CKPT_E_FORMAT);
	assert_string_equal(unit_text(&err), "row 2 is of group 2, there are 2");
	w.group_of_row = memory(before, 16);
	assert_int_equal(open_and_read(&w), CKPT_E_FORMAT);
	assert_string_equal(unit_text(&err), "row 2 is of group -3, there are 2");
	w = small_weight();
	w.group_of_col = memory(col_beyond, 32);
	assert_int_equal(open_and_read(&w), CKPT_E_FORMAT);
	assert_string_equal(unit_text(&err), "column 7 is of group 2, there are 2");
	w.group_of_col = memory(uneven, 32);
	assert_int_equal(open_and_read(&w), CKPT_E_UNSUPPORTED);
	assert_string_equal(unit_text(&err), "group 0 has 3 columns, 4 are usual");
	w.group_of_col = memory(in_order, 32);
	assert_int_equal(open_and_read(&w), 0);
	w = small_weight();
	w.zero = CKPT_QUANT_ZERO_NUMBER;
	w.zero_dtype = CKPT_DTYPE_INT64;
	w.zeros = memory((const int64_t[4]){ 0 }, 32);
	w.zero_adds = true;
	assert_int_equal(open_and_read(&w), CKPT_E_UNSUPPORTED);
	w.zero_dtype = CKPT_DTYPE_FLOAT32;
	w.zeros.len = 16;
	w.transposed = true;
	assert_int_equal(open_and_read(&w), CKPT_E_UNSUPPORTED);
	w = small_weight();
	w.scales_in_tiles = true; /* of float32 */
	assert_int_equal(open_and_read(&w), CKPT_E_UNSUPPORTED);
	w.scale_dtype = CKPT_DTYPE_UINT8;
	w.scales = memory(tile, sizeof(tile));
	assert_int_equal(open_and_read(&w), 0);
	w.zero = CKPT_QUANT_ZERO_NUMBER;
	w.zero_dtype = CKPT_DTYPE_INT8;
	w.zeros = memory("0123", 4);
	assert_int_equal(open_and_read(&w), CKPT_E_UNSUPPORTED);
}

static void zero_points_have_to_be_whole_where_that_is_said(void **state)
{
	static const int64_t wide[][4] = { { 256 }, { -256 }, { 257 }, { INT64_MIN } };
	static const float floats[][4] = { { -3 }, { 2.5F }, { NAN }, { -INFINITY } };
	static const char *const told[] = { "257", "-9.22337e+18", "2.5", "nan", "-inf" };
	struct ckpt_quant_weight w = small_weight();
	char want[100];

	(void)state;
	w.zero = CKPT_QUANT_ZERO_NUMBER;
	w.whole_zeros = "w.zero_point";
	for (size_t i = 0, wrong = 0; i < 8; i++) {
		w.zero_dtype = i < 4 ? CKPT_DTYPE_INT64 : CKPT_DTYPE_FLOAT32;
		w.zeros = i < 4 ? memory(wide[i], 32) : memory(floats[i - 4], 16);
		if (i < 2 || i == 4) {
			assert_int_equal(open_and_read(&w), 0);
			continue;
		}
		assert_int_equal(open_and_read(&w), CKPT_E_FORMAT);
		snprintf(want, sizeof(want),
			 "'w.zero_point' has %s, wanted whole numbers from -256 to 256",
			 told[wrong++]);
		assert_string_equal(unit_text(&err), want);
	}
	w.whole_zeros = NULL;
	assert_int_equal(open_and_read(&w), 0);
}

static void sides_that_are_too_long_for_memory_are_refused(void **state)
{
	struct ckpt_quant_weight w = small_weight();

	(void)state;
	w.rows = 1 << 20;
	w.cols = 17;
	w.block_rows = w.block_cols = 1;
	w.items = memory("", 17 << 20);
	w.scales = (struct ckpt_recipe){ .kind = CKPT_RECIPE_STREAM, .len = 4 * 17 << 20 };
	assert_int_equal(open_and_read(&w), CKPT_E_UNSUPPORTED);
	assert_string_equal(unit_text(&err),
			    "its scales, of 71303168 bytes, can be read front to back "
			    "only, and are too many to be kept in memory");
}

static void a_weight_without_numbers_has_no_bytes(void **state)
{
	struct ckpt_arena *arena = ckpt_arena_new(1 << 20);
	struct ckpt_quant_weight w = small_weight();
	struct ckpt_recipe recipe;

	(void)state;
	w.cols = 0;
	w.items.len = w.scales.len = 0;
	assert_int_equal(ckpt_quant_recipe(&w, arena, &recipe, &err), 0);
	assert_int_equal(recipe.len, 0);
	assert_true(ckpt_recipe_is_random(&recipe));
	ckpt_arena_free(arena);
}

static int setup(void **state)
{
	(void)state;
	folder = unit_folder_new();
	in_path = unit_path(folder, "in");
	out_path = unit_path(folder, "out");
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	free(in_path);
	free(out_path);
	unit_folder_remove(folder);
	return 0;
}

UNIT_SUITE(test_dequant)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_weight_is_what_a_slow_reader_makes_of_it),
		cmocka_unit_test(powers_can_be_exact),
		cmocka_unit_test(long_weights_are_made_by_many_threads),
		cmocka_unit_test(damage_is_found),
		cmocka_unit_test(reads_that_fail_are_told),
		cmocka_unit_test(lengths_that_do_not_fit_are_refused),
		cmocka_unit_test(what_cannot_be_is_refused),
		cmocka_unit_test(zero_points_have_to_be_whole_where_that_is_said),
		cmocka_unit_test(sides_that_are_too_long_for_memory_are_refused),
		cmocka_unit_test(a_weight_without_numbers_has_no_bytes),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From the description of a quantized weight to a recipe: a map where the numbers are wanted as
 * their items lie, without a byte between the rows, else bands (bands.c).
 *
 * What must stay true: all lengths were compared with the shape here, so that no other file of this
 * folder checks an offset again; blocks of 0 are the whole side from here on.
 */
#include "quant/dequant_inner.h"

#include <inttypes.h>
#include <string.h>

/* ---- lengths ---- */

static bool multiply3(uint64_t a, uint64_t b, uint64_t c, uint64_t *out)
{
	return !__builtin_mul_overflow(a, b, out) && !__builtin_mul_overflow(*out, c, out);
}

static uint64_t ceil_div(uint64_t a, uint64_t b)
{
	return a / b + (a % b != 0);
}

/* FITS: WANT did not overflow. */
static int check_len(const struct ckpt_dequant *q, enum ckpt_quant_side side, bool fits,
		     uint64_t want, struct ckpt_error *err)
{
	uint64_t len = q->sides[side] ? q->sides[side]->len : 0;

	if (fits && len == want)
		return 0;
	if (!fits)
		return ckpt_fail(err, CKPT_E_FORMAT, "its shape asks for more %s than there can be",
				 ckpt_quant_side_name(side));
	return ckpt_fail(err, CKPT_E_FORMAT,
			 "its %s have %" PRIu64 " bytes, its shape asks for %" PRIu64,
			 ckpt_quant_side_name(side), len, want);
}

static int check_items(struct ckpt_dequant *q, struct ckpt_error *err)
{
	const struct ckpt_quant_facts *w = &q->w;
	uint64_t want = 0;
	bool fits = ckpt_quant_packed_shape(&q->layout, w->rows, w->cols, &q->packed_rows,
					    &q->row_bytes) &&
		    multiply3(w->matrices, q->packed_rows, q->row_bytes, &want);

	return check_len(q, CKPT_QUANT_ITEMS, fits, want, err);
}

static int check_scales(struct ckpt_dequant *q, struct ckpt_error *err)
{
	struct ckpt_quant_facts *w = &q->w;
	uint64_t count = 0, want = 0;
	bool fits;
	int rc;

	w->block_rows = w->block_rows ? w->block_rows : w->rows;
	w->block_cols = w->block_cols ? w->block_cols : w->cols;
	q->scale_rows = ceil_div(w->rows, w->block_rows);
	q->scale_cols = ceil_div(w->cols, w->block_cols);
	q->scale_tiles = ceil_div(q->scale_cols, CKPT_QUANT_TILE_COLS);
	fits = multiply3(w->matrices, q->scale_rows, q->scale_cols, &count) &&
	       !__builtin_mul_overflow(count, (uint64_t)ckpt_dtype_size(w->scale_dtype), &want);
	if (fits && w->scales_in_tiles) /* the rows of all matrices are no more than COUNT */
		fits = multiply3(ceil_div(w->matrices * q->scale_rows, CKPT_QUANT_TILE_ROWS),
				 q->scale_tiles, CKPT_QUANT_TILE, &want);
	rc = check_len(q, CKPT_QUANT_SCALES, fits, want, err);
	if (rc < 0)
		return rc;
	if (q->sides[CKPT_QUANT_GLOBAL] && q->sides[CKPT_QUANT_GLOBAL]->len != sizeof(float)) {
		fits = !__builtin_mul_overflow(w->matrices, (uint64_t)sizeof(float), &want);
		rc = check_len(q, CKPT_QUANT_GLOBAL, fits, want, err);
	}
	if (rc < 0 || !q->sides[CKPT_QUANT_NESTED_TABLE])
		return rc;
	rc = check_len(q, CKPT_QUANT_NESTED_TABLE, true, 256 * sizeof(float), err);
	if (rc == 0 && !w->nested_block)
		rc = ckpt_fail(err, CKPT_E_FORMAT, "its nested scales have no block size");
	if (rc == 0)
		rc = check_len(q, CKPT_QUANT_NESTED_SCALES, true,
			       ceil_div(count, w->nested_block) * sizeof(float), err);
	return rc;
}

static int check_zeros(struct ckpt_dequant *q, struct ckpt_error *err)
{
	const struct ckpt_quant_facts *w = &q->w;
	uint64_t want = 0;
	bool fits = true;

	if (w->zero == CKPT_QUANT_ZERO_NUMBER)
		fits = multiply3(w->matrices, q->scale_rows, q->scale_cols, &want) &&
		       !__builtin_mul_overflow(want, (uint64_t)ckpt_dtype_size(w->zero_dtype),
					       &want);
	else if (w->zero == CKPT_QUANT_ZERO_BITS)
		fits = ckpt_quant_packed_shape(&q->zero_layout, q->scale_rows, q->scale_cols,
					       &q->zero_packed_rows, &q->zero_row_bytes) &&
		       multiply3(w->matrices, q->zero_packed_rows, q->zero_row_bytes, &want);
	return check_len(q, CKPT_QUANT_ZEROS, fits, want, err);
}

/* Rows of more than that are made in parts, for each of which all of their scales would be looked up one by one. */
enum { MOST_MIXED_ROWS = 1 << 20 };

static int check_groups(struct ckpt_dequant *q, struct ckpt_error *err)
{
	const struct ckpt_quant_facts *w = &q->w;
	uint64_t want = 0;
	bool fits;
	int rc = 0;

	if (q->sides[CKPT_QUANT_ROW_GROUPS]) {
		fits = !__builtin_mul_overflow(w->rows, (uint64_t)sizeof(int32_t), &want);
		rc = check_len(q, CKPT_QUANT_ROW_GROUPS, fits, want, err);
		if (rc == 0 && w->rows > MOST_MIXED_ROWS)
			rc = ckpt_fail(err, CKPT_E_UNSUPPORTED,
				       "its %" PRIu64
				       " rows are of groups in an order of their own, at most %d can be mixed",
				       w->rows, MOST_MIXED_ROWS);
	}
	if (rc < 0 || !q->sides[CKPT_QUANT_COL_GROUPS])
		return rc;
	fits = !__builtin_mul_overflow(w->cols, (uint64_t)sizeof(int32_t), &want);
	rc = check_len(q, CKPT_QUANT_COL_GROUPS, fits, want, err);
	if (rc == 0 && q->scale_cols > CKPT_QUANT_AT_ONCE)
		rc = ckpt_fail(err, CKPT_E_UNSUPPORTED,
			       "its columns are of %" PRIu64 " groups, at most %d can be mixed",
			       q->scale_cols, CKPT_QUANT_AT_ONCE);
	return rc;
}

/* ---- what there is a way for ---- */

static bool is_one_of(enum ckpt_dtype dtype, const enum ckpt_dtype *list, size_t count)
{
	for (size_t i = 0; i < count; i++)
		if (dtype == list[i])
			return true;
	return false;
}

#define IS_ONE_OF(dtype, list) is_one_of(dtype, list, sizeof(list) / sizeof((list)[0]))

/* Half of every product is a float32, and twice that is exact. */
static bool can_be_exact(const struct ckpt_quant_weight *w)
{
	return w->code == CKPT_QUANT_E2M1 && w->scale_dtype == CKPT_DTYPE_UINT8 &&
	       w->scale_in == CKPT_DTYPE_FLOAT32 && w->product == CKPT_DTYPE_FLOAT32 &&
	       !w->global.len && !w->nested_table.len && w->factor == 0 &&
	       w->zero == CKPT_QUANT_NO_ZERO;
}

static bool can_be_tiles(const struct ckpt_quant_weight *w)
{
	return ckpt_dtype_size(w->scale_dtype) == 1 && !w->nested_table.len &&
	       (w->zero == CKPT_QUANT_NO_ZERO || w->zero == CKPT_QUANT_ZERO_FIXED);
}

static bool is_known(const struct ckpt_quant_weight *w)
{
	static const enum ckpt_dtype plain[] = { CKPT_DTYPE_FLOAT32, CKPT_DTYPE_FLOAT16,
						 CKPT_DTYPE_BFLOAT16 };
	static const enum ckpt_dtype items[] = {
		CKPT_DTYPE_FLOAT8_E4M3FN,   CKPT_DTYPE_FLOAT8_E5M2, CKPT_DTYPE_FLOAT8_E4M3FNUZ,
		CKPT_DTYPE_FLOAT8_E5M2FNUZ, CKPT_DTYPE_INT8,	    CKPT_DTYPE_UINT8
	};
	static const enum ckpt_dtype scales[] = {
		CKPT_DTYPE_FLOAT32, CKPT_DTYPE_FLOAT16,	      CKPT_DTYPE_BFLOAT16,
		CKPT_DTYPE_UINT8,   CKPT_DTYPE_FLOAT8_E4M3FN, CKPT_DTYPE_FLOAT8_E8M0FNU
	};
	static const enum ckpt_dtype zeros[] = { CKPT_DTYPE_FLOAT32,	   CKPT_DTYPE_FLOAT16,
						 CKPT_DTYPE_BFLOAT16,	   CKPT_DTYPE_INT8,
						 CKPT_DTYPE_FLOAT8_E4M3FN, CKPT_DTYPE_UINT8,
						 CKPT_DTYPE_INT32,	   CKPT_DTYPE_INT64 };
	bool packs_bits = w->code == CKPT_QUANT_BITS || w->zero == CKPT_QUANT_ZERO_BITS;

	return IS_ONE_OF(w->to, plain) && IS_ONE_OF(w->difference, plain) &&
	       IS_ONE_OF(w->product, plain) && IS_ONE_OF(w->scale_in, plain) &&
	       IS_ONE_OF(w->scale_dtype, scales) && (!w->exact_power || can_be_exact(w)) &&
	       (!w->nested_table.len || w->scale_dtype == CKPT_DTYPE_UINT8) &&
	       (!w->scales_in_tiles || can_be_tiles(w)) &&
	       (w->code != CKPT_QUANT_NUMBER || IS_ONE_OF(w->item, items)) &&
	       (w->code != CKPT_QUANT_TABLE || w->bits == 4 || w->bits == 8 ||
		(w->bits == 6 && w->packed == CKPT_QUANT_ALONG_COLS)) &&
	       (!packs_bits || (w->bits >= 1 && w->bits <= 8)) &&
	       (w->code != CKPT_QUANT_BITS || w->packed != CKPT_QUANT_AWQ || w->bits == 4) &&
	       (w->zero != CKPT_QUANT_ZERO_BITS || w->zero_packed != CKPT_QUANT_AWQ ||
		w->bits == 4) &&
	       (w->zero != CKPT_QUANT_ZERO_NUMBER || IS_ONE_OF(w->zero_dtype, zeros)) &&
	       (!w->zero_adds ||
		(w->zero == CKPT_QUANT_ZERO_NUMBER && IS_ONE_OF(w->zero_dtype, plain) &&
		 !w->transposed && w->factor == 0 && !w->exact_power));
}

static struct ckpt_quant_layout layout_of(const struct ckpt_quant_weight *w)
{
	bool along_rows = w->packed == CKPT_QUANT_ALONG_ROWS;

	if (w->code == CKPT_QUANT_BITS)
		return ckpt_quant_layout_of_words(w->bits, w->dense, w->packed == CKPT_QUANT_AWQ,
						  along_rows);
	return ckpt_quant_layout_of_bytes(w->code == CKPT_QUANT_NUMBER ? 8
					  : w->code == CKPT_QUANT_E2M1 ? 4
								       : w->bits,
					  w->upper_first, along_rows);
}

static int check(struct ckpt_dequant *q, struct ckpt_error *err)
{
	const struct ckpt_quant_facts *w = &q->w;
	int rc = check_items(q, err);

	if (rc == 0)
		rc = check_scales(q, err);
	if (rc == 0)
		rc = check_zeros(q, err);
	if (rc == 0)
		rc = check_groups(q, err);
	if (rc == 0 && w->code == CKPT_QUANT_TABLE)
		rc = check_len(q, CKPT_QUANT_TABLE_SIDE, true, (1u << w->bits) * sizeof(float),
			       err);
	return rc;
}

/* ---- as a map ---- */

/* Are the numbers wanted as the items lie, and does no row end within a unit? */
static bool can_be_map(const struct ckpt_dequant *q)
{
	return !q->w.transposed && !q->layout.along_rows && q->w.cols % q->layout.per == 0;
}

static int apply(const struct ckpt_map *map, const void *kept, uint64_t pos, const void *in,
		 size_t len, void *out, struct ckpt_error *err)
{
	const struct ckpt_dequant *q = (const struct ckpt_dequant *)map;
	uint64_t number = pos / map->from * q->layout.per, left = len / map->from * q->layout.per;
	const uint8_t *packed = in;
	struct ckpt_quant_reader *r;
	uint8_t *to = out;
	int rc = ckpt_quant_reader_new(q, kept, &r, err);

	while (rc == 0 && left) {
		uint64_t row = number / q->w.cols, col = number % q->w.cols,
			 n = q->w.cols - col < left ? q->w.cols - col : left;
		struct ckpt_quant_stretch s = { .matrix = row / q->w.rows,
						.row = row % q->w.rows,
						.col = col,
						.count = (size_t)n,
						.packed = packed };

		rc = ckpt_quant_make_row(r, &s, to, err);
		packed += n / q->layout.per * q->layout.unit;
		to += n * ckpt_dtype_size(q->w.to);
		number += n;
		left -= n;
	}
	ckpt_quant_reader_free(r);
	return rc;
}

static int begin_map(const struct ckpt_map *map, void **kept, struct ckpt_error *err)
{
	return ckpt_quant_keep((const struct ckpt_dequant *)map, (struct ckpt_quant_kept **)kept,
			       err);
}

static void end_map(const struct ckpt_map *map, void *kept)
{
	(void)map;
	ckpt_quant_kept_free(kept);
}

static int begin_made(const struct ckpt_made *made, void **kept, struct ckpt_error *err)
{
	return ckpt_quant_keep((const struct ckpt_dequant *)made, (struct ckpt_quant_kept **)kept,
			       err);
}

static void end_made(const struct ckpt_made *made, void *kept)
{
	(void)made;
	ckpt_quant_kept_free(kept);
}

/* ---- as a recipe ---- */

static const struct ckpt_recipe *inner_of_quant(const struct ckpt_recipe *recipe, size_t i)
{
	const struct ckpt_dequant *q = recipe->ctx;

	for (unsigned side = 0; side < CKPT_QUANT_SIDES; side++)
		if (q->sides[side] && i-- == 0)
			return q->sides[side];
	return NULL;
}

static struct ckpt_recipe recipe_of(struct ckpt_dequant *q, uint64_t len)
{
	uint32_t size = ckpt_dtype_size(q->w.to);
	struct ckpt_recipe recipe;

	if (q->is_map) {
		q->u.map.from = q->layout.unit;
		q->u.map.to = q->layout.per * size;
		q->u.map.apply = apply;
		q->u.map.begin = begin_map;
		q->u.map.end = end_map;
		recipe = ckpt_map_recipe(&q->u.map);
	} else {
		q->u.made = (struct ckpt_made){ .len = len, .begin = begin_made, .end = end_made };
		if (ckpt_quant_has_columns(q))
			ckpt_quant_plan_columns(q, &q->u.made);
		else
			ckpt_quant_plan_bands(q, &q->u.made);
		recipe = ckpt_made_recipe(&q->u.made);
	}
	recipe.inner = inner_of_quant;
	recipe.checks_inner = true; /* of those that still have a checksum */
	return recipe;
}

static struct ckpt_quant_facts facts_of(const struct ckpt_quant_weight *w)
{
	return (struct ckpt_quant_facts){
		.matrices = w->matrices,
		.rows = w->rows,
		.cols = w->cols,
		.block_rows = w->block_rows,
		.block_cols = w->block_cols,
		.nested_block = w->nested_block,
		.code = w->code,
		.zero = w->zero,
		.to = w->to,
		.difference = w->difference,
		.product = w->product,
		.item = w->item,
		.scale_dtype = w->scale_dtype,
		.scale_in = w->scale_in,
		.zero_dtype = w->zero_dtype,
		.bits = w->bits,
		.zero_add = w->zero_add,
		.zero_fixed = w->zero_fixed,
		.factor = w->factor,
		.nested_offset = w->nested_offset,
		.transposed = w->transposed,
		.exact_power = w->exact_power,
		.global_divides = w->global_divides,
		.zero_wraps = w->zero_wraps,
		.whole_zeros = w->whole_zeros,
		.only_zeros = w->only_zeros,
		.only_zero = w->only_zero,
		.zero_adds = w->zero_adds,
		.scales_in_tiles = w->scales_in_tiles,
	};
}

/* False: no memory. */
static bool take_sides(struct ckpt_dequant *q, const struct ckpt_quant_weight *w,
		       struct ckpt_arena *arena)
{
	const struct ckpt_recipe *sides[CKPT_QUANT_SIDES] = {
		[CKPT_QUANT_ITEMS] = &w->items,
		[CKPT_QUANT_SCALES] = &w->scales,
		[CKPT_QUANT_ZEROS] = &w->zeros,
		[CKPT_QUANT_NESTED_SCALES] = w->nested_table.len ? &w->nested_scales : NULL,
		[CKPT_QUANT_GLOBAL] = &w->global,
		[CKPT_QUANT_TABLE_SIDE] = w->code == CKPT_QUANT_TABLE ? &w->table : NULL,
		[CKPT_QUANT_NESTED_TABLE] = &w->nested_table,
		[CKPT_QUANT_ROW_GROUPS] = &w->group_of_row,
		[CKPT_QUANT_COL_GROUPS] = &w->group_of_col,
	};

	for (unsigned i = 0; i < CKPT_QUANT_SIDES; i++) {
		if (!sides[i] || !sides[i]->len)
			continue;
		q->sides[i] = q->is_map && i == CKPT_QUANT_ITEMS
				      ? &q->u.map.inner
				      : ckpt_arena_alloc(arena, sizeof(**sides));
		if (!q->sides[i])
			return false;
		*q->sides[i] = *sides[i];
	}
	return true;
}

int ckpt_quant_recipe(const struct ckpt_quant_weight *weight, struct ckpt_arena *arena,
		      struct ckpt_recipe *out, struct ckpt_error *err)
{
	struct ckpt_dequant *q = ckpt_arena_calloc(arena, 1, sizeof(*q));
	uint64_t len = 0;
	int rc;

	if (!q)
		return ckpt_arena_fail(arena, err);
	if (!is_known(weight))
		return ckpt_fail(err, CKPT_E_UNSUPPORTED,
				 "is quantized in a way that there is no reader for");
	if (!multiply3(weight->matrices, weight->rows, weight->cols, &len) ||
	    __builtin_mul_overflow(len, (uint64_t)ckpt_dtype_size(weight->to), &len))
		return ckpt_fail(err, CKPT_E_FORMAT, "has more numbers than there can be");
	if (!len) {
		*out = (struct ckpt_recipe){ .kind = CKPT_RECIPE_MEMORY, .memory = "" };
		return 0;
	}
	q->w = facts_of(weight);
	q->layout = layout_of(weight);
	q->zero_layout = ckpt_quant_layout_of_words(weight->bits ? weight->bits : 8, weight->dense,
						    weight->zero_packed == CKPT_QUANT_AWQ,
						    weight->zero_packed == CKPT_QUANT_ALONG_ROWS);
	q->is_map = can_be_map(q);
	if (!take_sides(q, weight, arena))
		return ckpt_arena_fail(arena, err);
	rc = check(q, err);
	if (rc < 0)
		return rc;
	q->out_rows = weight->transposed ? weight->cols : weight->rows;
	q->out_cols = weight->transposed ? weight->rows : weight->cols;
	rc = ckpt_quant_plan_sides(q, err);
	if (rc == 0)
		*out = recipe_of(q, len);
	return rc;
}

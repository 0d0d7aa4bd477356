/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The numbers of a row: its scales and zero points, and the kernels. Rows are those of the matrix
 * as it is stored.
 *
 * What must stay true: memory does not grow with the weight. Scales that are not kept are read in
 * windows, as far ahead as rows go on; a row is done CKPT_QUANT_AT_ONCE numbers at a time, and has
 * no more scales for these.
 */
#include "quant/dequant_inner.h"

#include "base/double.h"
#include "base/text.h"
#include "tensor/cast.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { AT_ONCE = CKPT_QUANT_AT_ONCE, WINDOW = 16 << 10, TILES_WINDOW = 1 << 20, AHEAD = 4 << 10, SHORT_GROUP = 16 };

/* Bytes of a side that were read last. */
struct window {
	uint64_t off;
	size_t len, cap;
	uint8_t *bytes; /* malloc */
};

struct ckpt_quant_reader {
	const struct ckpt_dequant *q;
	const struct ckpt_quant_kept *kept;
	const struct ckpt_quant_kernels *kernels;
	struct window windows[CKPT_QUANT_NESTED_SCALES + 1];
	/* COUNT scales of matrix MATRIX, from FIRST of row ROW of them on */
	uint64_t matrix, row, first;
	size_t count;
	float scales[AT_ONCE], zeros[AT_ONCE];
	float col_scales[AT_ONCE], col_zeros[AT_ONCE]; /* by column, if their groups are mixed */
	uint8_t codes[AT_ONCE];
};

int ckpt_quant_reader_new(const struct ckpt_dequant *q, const struct ckpt_quant_kept *kept,
			  struct ckpt_quant_reader **out, struct ckpt_error *err)
{
	struct ckpt_quant_reader *r = malloc(sizeof(*r));

	*out = r;
	if (!r)
		return ckpt_fail_nomem(err);
	r->q = q;
	r->kept = kept;
	r->kernels = q->w.zero_adds ? &ckpt_quant_plain : ckpt_quant_best();
	r->count = 0;
	memset(r->windows, 0, sizeof(r->windows));
	return 0;
}

void ckpt_quant_reader_free(struct ckpt_quant_reader *r)
{
	for (unsigned i = 0; r && i < sizeof(r->windows) / sizeof(r->windows[0]); i++)
		free(r->windows[i].bytes);
	free(r);
}

/* ---- bytes ---- */

/* *OUT: LEN bytes at OFF of a side, valid until the next call for it. */
static int get_bytes(struct ckpt_quant_reader *r, enum ckpt_quant_side side, uint64_t off,
		     size_t len, const uint8_t **out, struct ckpt_error *err)
{
	const struct ckpt_recipe *recipe = r->q->sides[side];
	struct window *w = &r->windows[side];
	bool goes_on = w->len && off >= w->off && off - w->off <= w->len + AHEAD;
	size_t n = goes_on && len < WINDOW ? WINDOW : len;
	int rc;

	if (r->kept->bytes[side]) {
		*out = r->kept->bytes[side] + off;
		return 0;
	}
	if (off >= w->off && off - w->off <= w->len && len <= w->len - (off - w->off)) {
		*out = w->bytes + (off - w->off);
		return 0;
	}
	n = n < recipe->len - off ? n : (size_t)(recipe->len - off);
	if (n > w->cap) {
		free(w->bytes);
		w->len = 0;
		w->cap = n < WINDOW ? WINDOW : n;
		w->bytes = malloc(w->cap);
		if (!w->bytes) {
			w->cap = 0;
			return ckpt_fail_nomem(err);
		}
	}
	w->off = off;
	w->len = 0;
	rc = ckpt_quant_read_side(recipe, off, w->bytes, n, err);
	if (rc < 0)
		return rc;
	w->len = n;
	*out = w->bytes;
	return 0;
}

/* ---- scales ---- */

/*
 * *SCALES, of which the first is number AT of the whole weight, are codes: make them what these
 * stand for.
 */
static int unnest(struct ckpt_quant_reader *r, uint64_t at, size_t count, float *scales,
		  struct ckpt_error *err)
{
	const struct ckpt_quant_facts *w = &r->q->w;
	uint64_t first = at / w->nested_block, last = (at + count - 1) / w->nested_block;
	const uint8_t *bytes;
	int rc = get_bytes(r, CKPT_QUANT_NESTED_SCALES, first * 4, (size_t)(last - first + 1) * 4,
			   &bytes, err);

	for (size_t i = 0; rc == 0 && i < count; i++) {
		float scale;

		memcpy(&scale, bytes + ((at + i) / w->nested_block - first) * 4, sizeof(scale));
		scales[i] *= scale;
		scales[i] += w->nested_offset;
	}
	return rc;
}

static void apply_global(const struct ckpt_quant_reader *r, uint64_t matrix, size_t count,
			 float *scales)
{
	const uint8_t *bytes = r->kept->bytes[CKPT_QUANT_GLOBAL];
	float global;

	if (!bytes)
		return;
	if (r->q->sides[CKPT_QUANT_GLOBAL]->len > sizeof(global))
		bytes += matrix * sizeof(global);
	memcpy(&global, bytes, sizeof(global));
	ckpt_quant_round(r->q->w.scale_in, &global, 1);
	for (size_t i = 0; i < count; i++)
		scales[i] = r->q->w.global_divides ? scales[i] / global : scales[i] * global;
}

/*
 * *OUT: COUNT scales, from FIRST of row ROW of those of all matrices on, out of their tiles. A row of tiles has the scales of 128 rows,
 * so that all of it is read at once, if it is not too long.
 */
static int get_tiled_scales(struct ckpt_quant_reader *r, uint64_t row, uint64_t first, size_t count,
			    const uint8_t **out, struct ckpt_error *err)
{
	uint64_t tiles = r->q->scale_tiles, from = first / CKPT_QUANT_TILE_COLS,
		 end = (first + count - 1) / CKPT_QUANT_TILE_COLS + 1;
	const uint8_t *bytes;
	int rc;

	if (tiles <= TILES_WINDOW / CKPT_QUANT_TILE) {
		from = 0;
		end = tiles;
	}
	rc = get_bytes(r, CKPT_QUANT_SCALES, (row / CKPT_QUANT_TILE_ROWS * tiles + from) * CKPT_QUANT_TILE,
		       (size_t)(end - from) * CKPT_QUANT_TILE, &bytes, err);
	if (rc < 0)
		return rc;
	bytes += row % 32 * 16 + row % CKPT_QUANT_TILE_ROWS / 32 * CKPT_QUANT_TILE_COLS;
	for (size_t i = 0; i < count; i++) {
		uint64_t col = first - from * CKPT_QUANT_TILE_COLS + i;

		r->codes[i] = bytes[col / CKPT_QUANT_TILE_COLS * CKPT_QUANT_TILE + col % CKPT_QUANT_TILE_COLS];
	}
	*out = r->codes;
	return 0;
}

static int read_scales(struct ckpt_quant_reader *r, uint64_t matrix, uint64_t row, uint64_t first, size_t count,
		       struct ckpt_error *err)
{
	const struct ckpt_quant_facts *w = &r->q->w;
	uint32_t size = ckpt_dtype_size(w->scale_dtype);
	uint64_t all_row = matrix * r->q->scale_rows + row, at = all_row * r->q->scale_cols + first;
	const uint8_t *bytes;
	int rc = w->scales_in_tiles ? get_tiled_scales(r, all_row, first, count, &bytes, err)
				    : get_bytes(r, CKPT_QUANT_SCALES, at * size, count * size, &bytes, err);

	if (rc < 0)
		return rc;
	if (size == 1)
		for (size_t i = 0; i < count; i++)
			r->scales[i] = r->kept->scale_values[bytes[i]];
	else
		ckpt_cast_items(w->scale_dtype, CKPT_DTYPE_FLOAT32, bytes, r->scales, count);
	if (r->q->sides[CKPT_QUANT_NESTED_TABLE])
		rc = unnest(r, at, count, r->scales, err);
	apply_global(r, matrix, count, r->scales);
	ckpt_quant_round(w->scale_in, r->scales, count);
	return rc;
}

/* ---- zero points ---- */

static void widen_zeros(enum ckpt_dtype dtype, const uint8_t *bytes, size_t count, float *out)
{
	int32_t wide;
	int64_t widest;

	switch (dtype) {
	case CKPT_DTYPE_INT8:
		for (size_t i = 0; i < count; i++)
			out[i] = (int8_t)bytes[i];
		break;
	case CKPT_DTYPE_UINT8:
		for (size_t i = 0; i < count; i++)
			out[i] = bytes[i];
		break;
	case CKPT_DTYPE_INT32:
		for (size_t i = 0; i < count; i++) {
			memcpy(&wide, bytes + i * sizeof(wide), sizeof(wide));
			out[i] = (float)wide;
		}
		break;
	case CKPT_DTYPE_INT64:
		for (size_t i = 0; i < count; i++) {
			memcpy(&widest, bytes + i * sizeof(widest), sizeof(widest));
			out[i] = (float)widest;
		}
		break;
	default: ckpt_cast_items(dtype, CKPT_DTYPE_FLOAT32, bytes, out, count);
	}
}

static int check_whole(const char *name, const float *zeros, size_t count, struct ckpt_error *err)
{
	char shown[200], number[32];

	for (size_t i = 0; i < count; i++) {
		if (zeros[i] >= -256 && zeros[i] <= 256 && zeros[i] == (float)(int)zeros[i])
			continue;
		ckpt_double_format(number, sizeof(number), 6, (double)zeros[i]);
		return ckpt_fail(err, CKPT_E_FORMAT,
				 "'%s' has %s, wanted whole numbers from -256 to 256",
				 ckpt_escape(shown, sizeof(shown), name, strlen(name)), number);
	}
	return 0;
}

static int check_only(const char *name, int32_t only, const float *zeros, size_t count, struct ckpt_error *err)
{
	char shown[200];

	for (size_t i = 0; i < count; i++)
		if ((int32_t)zeros[i] != only)
			return ckpt_fail(err, CKPT_E_FORMAT,
					 "'%s' has the zero point %" PRId32 ", and the configuration says that there is none but %" PRId32,
					 ckpt_escape(shown, sizeof(shown), name, strlen(name)), (int32_t)zeros[i], only);
	return 0;
}

/* Codes of zero points that lie along the rows of the scales: in one row of words, or in two. */
static int unpack_zero_row(struct ckpt_quant_reader *r, uint64_t base, uint64_t row, uint64_t first,
			   size_t count, struct ckpt_error *err)
{
	const struct ckpt_quant_layout *l = &r->q->zero_layout;
	uint64_t row_bytes = r->q->zero_row_bytes, off;
	uint8_t *high = NULL;
	const uint8_t *bytes;
	bool crosses;
	int rc;

	off = base + ckpt_quant_word_row(l, row, &crosses) * row_bytes + first * 4;
	rc = get_bytes(r, CKPT_QUANT_ZEROS, crosses ? off + row_bytes : off, count * 4, &bytes,
		       err);
	if (rc < 0 || !crosses) {
		if (rc == 0)
			ckpt_quant_unpack_rows(l, row, bytes, NULL, count, r->codes);
		return rc;
	}
	high = malloc(count * 4);
	if (!high)
		return ckpt_fail_nomem(err);
	memcpy(high, bytes, count * 4);
	rc = get_bytes(r, CKPT_QUANT_ZEROS, off, count * 4, &bytes, err);
	if (rc == 0)
		ckpt_quant_unpack_rows(l, row, bytes, high, count, r->codes);
	free(high);
	return rc;
}

static int unpack_zero_cols(struct ckpt_quant_reader *r, uint64_t base, uint64_t row,
			    uint64_t first, size_t count, struct ckpt_error *err)
{
	const struct ckpt_quant_layout *l = &r->q->zero_layout;
	uint64_t row_bytes = r->q->zero_row_bytes, start = first / l->per * l->unit,
		 end = (first + count - 1) / l->per * l->unit + l->unit;
	const uint8_t *bytes;
	int rc;

	end = end < row_bytes ? end : row_bytes;
	rc = get_bytes(r, CKPT_QUANT_ZEROS, base + row * row_bytes + start, (size_t)(end - start),
		       &bytes, err);
	if (rc == 0)
		ckpt_quant_unpack(l, bytes, (uint32_t)(first % l->per), count, r->codes);
	return rc;
}

static int read_zeros(struct ckpt_quant_reader *r, uint64_t matrix, uint64_t row, uint64_t first,
		      size_t count, struct ckpt_error *err)
{
	const struct ckpt_dequant *q = r->q;
	uint32_t size = ckpt_dtype_size(q->w.zero_dtype), mask = UINT32_MAX;
	const uint8_t *bytes;
	uint64_t base;
	int rc;

	if (q->w.zero == CKPT_QUANT_ZERO_NUMBER) {
		rc = get_bytes(r, CKPT_QUANT_ZEROS,
			       ((matrix * q->scale_rows + row) * q->scale_cols + first) * size,
			       count * size, &bytes, err);
		if (rc == 0)
			widen_zeros(q->w.zero_dtype, bytes, count, r->zeros);
		return rc == 0 && q->w.whole_zeros
			       ? check_whole(q->w.whole_zeros, r->zeros, count, err)
			       : rc;
	}
	base = matrix * q->zero_packed_rows * q->zero_row_bytes;
	if (q->zero_layout.along_rows)
		rc = unpack_zero_row(r, base, row, first, count, err);
	else
		rc = unpack_zero_cols(r, base, row, first, count, err);
	if (q->w.zero_wraps)
		mask = (1u << q->w.bits) - 1;
	for (size_t i = 0; rc == 0 && i < count; i++)
		r->zeros[i] = (float)((r->codes[i] + q->w.zero_add) & mask);
	return rc == 0 && q->w.only_zeros ? check_only(q->w.only_zeros, q->w.only_zero, r->zeros, count, err) : rc;
}

static bool has_zeros(const struct ckpt_dequant *q)
{
	return q->w.zero == CKPT_QUANT_ZERO_NUMBER || q->w.zero == CKPT_QUANT_ZERO_BITS;
}

static int load_scales(struct ckpt_quant_reader *r, uint64_t matrix, uint64_t row, uint64_t first,
		       size_t count, struct ckpt_error *err)
{
	const struct ckpt_dequant *q = r->q;
	int rc;

	if (r->count == count && r->matrix == matrix && r->row == row && r->first == first)
		return 0;
	r->count = 0;
	rc = read_scales(r, matrix, row, first, count, err);
	if (rc == 0 && has_zeros(q))
		rc = read_zeros(r, matrix, row, first, count, err);
	if (rc < 0)
		return rc;
	r->matrix = matrix;
	r->row = row;
	r->first = first;
	r->count = count;
	return 0;
}

int ckpt_quant_get_scales(struct ckpt_quant_reader *r, uint64_t matrix, uint64_t row,
			  uint64_t first, size_t count, const float **scales, const float **zeros,
			  struct ckpt_error *err)
{
	int rc = load_scales(r, matrix, row, first, count, err);

	*scales = r->scales;
	*zeros = has_zeros(r->q) ? r->zeros : NULL;
	return rc;
}

/* ---- numbers ---- */

/* IN: all but the codes, which are those of the stretch from AT on. */
static void run_kernel(struct ckpt_quant_reader *r, const struct ckpt_quant_stretch *s, size_t at,
		       struct ckpt_quant_codes in, void *out)
{
	const struct ckpt_quant_layout *l = &r->q->layout;
	const struct ckpt_quant_math *m = &r->kept->math;
	size_t lead = (size_t)(s->col % l->per) + at; /* from PACKED on */

	if (!s->codes && l->bits == 4 && !l->awq && lead % 2 == 0 &&
	    (in.group >= SHORT_GROUP || in.group >= in.count)) {
		in.codes = s->packed + lead / 2;
		r->kernels->nibbles(m, l->upper_first, &in, out);
		return;
	}
	in.codes = s->codes ? s->codes + at : l->bits == 8 ? s->packed + lead : r->codes;
	if (in.codes == r->codes)
		ckpt_quant_unpack(l, s->packed + lead / l->per * l->unit, (uint32_t)(lead % l->per),
				  in.count, r->codes);
	r->kernels->bytes(m, &in, out);
}

/* As run_kernel(), of columns whose groups are mixed. */
static int run_mixed(struct ckpt_quant_reader *r, const struct ckpt_quant_stretch *s, uint64_t row,
		     size_t at, size_t count, void *out, struct ckpt_error *err)
{
	const uint8_t *groups = r->kept->bytes[CKPT_QUANT_COL_GROUPS] + (s->col + at) * 4;
	bool zeros = has_zeros(r->q);
	int rc = load_scales(r, s->matrix, row, 0, (size_t)r->q->scale_cols, err);

	for (size_t i = 0; rc == 0 && i < count; i++) {
		int32_t group;

		memcpy(&group, groups + i * 4, sizeof(group));
		r->col_scales[i] = r->scales[group];
		if (zeros)
			r->col_zeros[i] = r->zeros[group];
	}
	if (rc == 0)
		run_kernel(r, s, at,
			   (struct ckpt_quant_codes){ .count = count,
						      .group = 1,
						      .scales = r->col_scales,
						      .zeros = zeros ? r->col_zeros : NULL },
			   out);
	return rc;
}

/* At most AT_ONCE numbers. */
static int make_part(struct ckpt_quant_reader *r, const struct ckpt_quant_stretch *s, uint64_t row,
		     size_t at, size_t count, uint8_t *out, struct ckpt_error *err)
{
	uint64_t block = r->q->w.block_cols, first = (s->col + at) / block,
		 last = (s->col + at + count - 1) / block, lead = (s->col + at) % block;
	struct ckpt_quant_codes in = { .scales = r->scales,
				       .zeros = has_zeros(r->q) ? r->zeros : NULL };
	size_t head = 0;
	int rc;

	if (r->kept->bytes[CKPT_QUANT_COL_GROUPS])
		return run_mixed(r, s, row, at, count, out, err);
	rc = load_scales(r, s->matrix, row, first, (size_t)(last - first + 1), err);
	if (rc < 0)
		return rc;
	if (lead) { /* what is left of the first block */
		head = block - lead < count ? (size_t)(block - lead) : count;
		in.count = in.group = head;
		run_kernel(r, s, at, in, out);
		in.scales++;
		if (in.zeros)
			in.zeros++;
	}
	in.count = count - head;
	in.group = block < in.count ? (size_t)block : in.count;
	if (in.count)
		run_kernel(r, s, at + head, in, out + head * ckpt_dtype_size(r->q->w.to));
	return 0;
}

int ckpt_quant_make_row(struct ckpt_quant_reader *r, const struct ckpt_quant_stretch *s, void *out,
			struct ckpt_error *err)
{
	const uint8_t *groups = r->kept->bytes[CKPT_QUANT_ROW_GROUPS];
	uint32_t size = ckpt_dtype_size(r->q->w.to);
	uint64_t row = s->row / r->q->w.block_rows;
	int rc = 0;

	if (groups) {
		int32_t group;

		memcpy(&group, groups + s->row * 4, sizeof(group));
		row = (uint64_t)group;
	}
	for (size_t at = 0; rc == 0 && at < s->count; at += AT_ONCE)
		rc = make_part(r, s, row, at, s->count - at < AT_ONCE ? s->count - at : AT_ONCE,
			       (uint8_t *)out + at * size, err);
	return rc;
}

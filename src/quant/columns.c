/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Weights that are wanted transposed (GPTQ, AWQ, gpt-oss). A band is some columns of the stored
 * matrix from top to bottom, which are read at once: reads of a few bytes of each row would take
 * longer than all else. A piece of it is turned around as it is, in bytes or words, and so are the
 * scales of the band; from there on a column is a row, and the kernels make it in one go.
 *
 * What must stay true: the items of a band take up to SLAB bytes, its scales up to SCALES numbers,
 * and a piece is short, so that memory does not grow with the weight. Columns that are too long for
 * that are left to bands.c.
 */
#include "quant/dequant_inner.h"

#include <stdlib.h>
#include <string.h>

enum {
	SLAB = 8 << 20,
	SCALES = 512 << 10,
	PIECE = 512 << 10,
	LONGEST = 1 << 20, /* bytes of a column as it is made */
	STEP = 16,	   /* columns: a piece has a multiple of it */
	TILE = 128,	   /* rows that are turned around at once: they stay in the cache */
	MOST_PARTS = 256,
	LEAST_BANDS = 8, /* of a weight that has as many pieces, so that all threads have work */
};

/* The columns of one matrix. SCALES and ZEROS: [columns of scales, rows of scales]; malloc. */
struct part {
	struct ckpt_quant_box box;
	uint64_t first_scale, scale_cols;
	float *scales, *zeros;
};

struct band {
	const struct ckpt_dequant *q;
	const struct ckpt_quant_kept *kept;
	const struct ckpt_quant_kernels *kernels;
	struct part *parts; /* malloc */
	uint64_t part_count;
	uint8_t *words; /* malloc; of a piece, [columns of words, rows of words] */
	uint8_t *codes; /* malloc; of a column */
	float number_scales[CKPT_QUANT_AT_ONCE], number_zeros[CKPT_QUANT_AT_ONCE];
};

/* ---- how much ---- */

static uint64_t made_row_len(const struct ckpt_dequant *q)
{
	return q->out_cols * ckpt_dtype_size(q->w.to);
}

bool ckpt_quant_has_columns(const struct ckpt_dequant *q)
{
	return q->w.transposed && q->out_cols <= LONGEST / ckpt_dtype_size(q->w.to) &&
	       q->scale_rows <= SCALES / STEP &&
	       (!q->keep[CKPT_QUANT_COL_GROUPS] || q->scale_cols <= SCALES / q->scale_rows);
}

static uint64_t piece_cols(const struct ckpt_dequant *q)
{
	uint64_t cols = PIECE / made_row_len(q) / STEP * STEP;

	return cols < STEP ? STEP : cols > CKPT_QUANT_AT_ONCE ? CKPT_QUANT_AT_ONCE : cols;
}

/* At most MOST, but one piece at least. */
static uint64_t limit_cols(uint64_t cols, uint64_t most, uint64_t piece)
{
	cols = cols < most ? cols : most;
	return cols < piece ? piece : cols / piece * piece;
}

static uint64_t band_cols(const struct ckpt_dequant *q)
{
	uint64_t piece = piece_cols(q), all = q->w.matrices * q->w.cols,
		 bits = q->w.rows * q->layout.unit * 8 / q->layout.per, /* of a column */
		block = q->w.block_cols < q->w.cols ? q->w.block_cols : q->w.cols,
		 cols = limit_cols(all / LEAST_BANDS, (uint64_t)SLAB * 8 / (bits + 1), piece),
		 scale_cols = SCALES / q->scale_rows;

	if (block <= SLAB / scale_cols)
		cols = limit_cols(cols, scale_cols * block, piece);
	return q->w.cols <= SLAB / MOST_PARTS ? limit_cols(cols, MOST_PARTS * q->w.cols, piece)
					      : cols;
}

/* ---- what a band needs ---- */

static void drop(const struct ckpt_made *made, void *taken)
{
	struct band *b = taken;

	(void)made;
	for (uint64_t i = 0; b->parts && i < b->part_count; i++) {
		free(b->parts[i].box.bytes);
		free(b->parts[i].scales);
		free(b->parts[i].zeros);
	}
	free(b->parts);
	free(b->words);
	free(b->codes);
	free(b);
}

/* COUNT of them, from column AT of the part on, of row ROW of the scales. */
static void place_scales(const struct ckpt_dequant *q, float *out, uint64_t row, uint64_t at,
			 const float *scales, size_t count)
{
	for (size_t i = 0; i < count; i++)
		out[(at + i) * q->scale_rows + row] = scales[i];
}

static int take_scales(const struct ckpt_dequant *q, struct ckpt_quant_reader *r, struct part *p,
		       struct ckpt_error *err)
{
	const struct ckpt_quant_box *b = &p->box;
	bool mixed = q->keep[CKPT_QUANT_COL_GROUPS];
	uint64_t count;
	size_t n;
	int rc = 0;

	p->first_scale = mixed ? 0 : b->col / q->w.block_cols;
	p->scale_cols = mixed ? q->scale_cols
			      : (b->col + b->cols - 1) / q->w.block_cols + 1 - p->first_scale;
	count = p->scale_cols * q->scale_rows;
	p->scales = malloc((size_t)count * sizeof(float));
	p->zeros = malloc((size_t)count * sizeof(float));
	if (!p->scales || !p->zeros)
		return ckpt_fail_nomem(err);
	for (uint64_t at = 0; at < p->scale_cols; at += n) {
		n = p->scale_cols - at < CKPT_QUANT_AT_ONCE ? (size_t)(p->scale_cols - at)
							    : CKPT_QUANT_AT_ONCE;
		for (uint64_t row = 0; rc == 0 && row < q->scale_rows; row++) {
			const float *scales, *zeros;

			rc = ckpt_quant_get_scales(r, b->matrix, row, p->first_scale + at, n,
						   &scales, &zeros, err);
			if (rc == 0)
				place_scales(q, p->scales, row, at, scales, n);
			if (rc == 0 && zeros)
				place_scales(q, p->zeros, row, at, zeros, n);
		}
	}
	return rc;
}

/* Words that a piece takes are at most those of its columns, and of the units that it cuts. */
static int make_room(struct band *b, const struct ckpt_dequant *q, struct ckpt_error *err)
{
	const struct ckpt_quant_layout *l = &q->layout;
	uint64_t piece = piece_cols(q), len = l->along_rows
						      ? piece * q->packed_rows * ckpt_quant_word(l)
						      : (piece / l->per + 2) * l->unit * q->w.rows;

	b->words = malloc((size_t)len);
	b->codes = malloc((size_t)q->w.rows);
	return b->words && b->codes ? 0 : ckpt_fail_nomem(err);
}

static int take(const struct ckpt_made *made, const void *kept, uint64_t pos, size_t len,
		void **taken, struct ckpt_error *err)
{
	const struct ckpt_dequant *q = (const struct ckpt_dequant *)made;
	uint64_t first = pos / made_row_len(q), end = first + len / made_row_len(q);
	struct ckpt_quant_reader *r = NULL;
	struct band *b = calloc(1, sizeof(*b));
	int rc = b ? ckpt_quant_reader_new(q, kept, &r, err) : ckpt_fail_nomem(err);

	if (rc == 0) {
		b->q = q;
		b->kept = kept;
		b->kernels = ckpt_quant_best();
		b->part_count = (end - 1) / q->w.cols - first / q->w.cols + 1;
		b->parts = calloc((size_t)b->part_count, sizeof(*b->parts));
		rc = b->parts ? make_room(b, q, err) : ckpt_fail_nomem(err);
	}
	for (uint64_t i = 0; rc == 0 && i < b->part_count; i++) {
		struct ckpt_quant_box *box = &b->parts[i].box;
		uint64_t left = end - first;

		box->matrix = first / q->w.cols;
		box->rows = q->w.rows;
		box->col = first % q->w.cols;
		box->cols = q->w.cols - box->col < left ? q->w.cols - box->col : left;
		first += box->cols;
		if (!box->col) /* the other bands of the matrix follow */
			ckpt_quant_will_need(q, kept, box->matrix * q->packed_rows * q->row_bytes,
					     q->packed_rows * q->row_bytes);
		rc = ckpt_quant_read_box(q, kept, box, err);
		if (rc == 0)
			rc = take_scales(q, r, &b->parts[i], err);
	}
	ckpt_quant_reader_free(r);
	if (rc < 0 && b)
		drop(made, b);
	*taken = rc < 0 ? NULL : b;
	return rc;
}

/* ---- pieces ---- */

/* Words of some columns of a part, each column of them as a row in B->words. */
static void turn_words(struct band *b, const struct part *p, uint64_t first, uint64_t count)
{
	uint32_t word = ckpt_quant_word(&b->q->layout);
	uint64_t rows = p->box.packed_rows;

	for (uint64_t row = 0; row < rows; row += TILE)
		b->kernels->transpose(word, p->box.bytes + row * p->box.len + first * word,
				      (size_t)(rows - row < TILE ? rows - row : TILE),
				      (size_t)count, (size_t)(p->box.len / word),
				      b->words + row * word, (size_t)rows);
}

/* The rows have groups of their own, so that each number has a scale. */
static void make_mixed(struct band *b, const float *scales, const float *zeros,
		       const uint8_t *codes, uint8_t *out)
{
	const struct ckpt_dequant *q = b->q;
	const uint8_t *groups = b->kept->bytes[CKPT_QUANT_ROW_GROUPS];
	uint32_t size = ckpt_dtype_size(q->w.to);
	struct ckpt_quant_codes in = { .group = 1,
				       .scales = b->number_scales,
				       .zeros = zeros ? b->number_zeros : NULL };
	size_t n;

	for (size_t at = 0; at < q->w.rows; at += n) {
		n = q->w.rows - at < CKPT_QUANT_AT_ONCE ? (size_t)(q->w.rows - at)
							: CKPT_QUANT_AT_ONCE;
		for (size_t i = 0; i < n; i++) {
			int32_t group;

			memcpy(&group, groups + (at + i) * sizeof(group), sizeof(group));
			b->number_scales[i] = scales[group];
			b->number_zeros[i] = zeros ? zeros[group] : 0;
		}
		in.codes = codes + at;
		in.count = n;
		b->kernels->bytes(&b->kept->math, &in, out + at * size);
	}
}

/*
 * The codes of column COL, a byte each; or, if they may, two to a byte, and *ARE_NIBBLES. WORDS:
 * its first.
 */
static const uint8_t *get_codes(struct band *b, uint64_t col, const uint8_t *words,
				bool may_be_nibbles, bool *are_nibbles)
{
	const struct ckpt_quant_layout *l = &b->q->layout;
	size_t rows = (size_t)b->q->w.rows, row_len = rows * ckpt_quant_word(l);
	bool crosses;

	*are_nibbles = may_be_nibbles && l->along_rows && l->bits == 4;
	if (*are_nibbles || (l->bits == 8 && (l->along_rows || l->unit == 1)))
		return words;
	if (l->along_rows) {
		ckpt_quant_unpack(l, words, 0, rows, b->codes);
	} else {
		ckpt_quant_word_row(l, col, &crosses);
		ckpt_quant_unpack_rows(l, col, words, crosses ? words + row_len : NULL, rows,
				       b->codes);
	}
	return b->codes;
}

static void make_column(struct band *b, const struct part *p, uint64_t col, const uint8_t *words,
			uint8_t *out)
{
	const struct ckpt_dequant *q = b->q;
	const uint8_t *col_groups = b->kept->bytes[CKPT_QUANT_COL_GROUPS];
	bool mixed = q->keep[CKPT_QUANT_ROW_GROUPS], are_nibbles,
	     has_zeros = q->w.zero == CKPT_QUANT_ZERO_NUMBER || q->w.zero == CKPT_QUANT_ZERO_BITS;
	uint64_t scale = col / q->w.block_cols;
	struct ckpt_quant_codes in = { .count = (size_t)q->w.rows };

	if (col_groups) {
		int32_t mixed_scale;

		memcpy(&mixed_scale, col_groups + col * sizeof(mixed_scale), sizeof(mixed_scale));
		scale = (uint64_t)mixed_scale;
	}
	in.group = q->w.block_rows < in.count ? (size_t)q->w.block_rows : in.count;
	in.scales = p->scales + (scale - p->first_scale) * q->scale_rows;
	in.zeros = has_zeros ? p->zeros + (scale - p->first_scale) * q->scale_rows : NULL;
	in.codes = get_codes(b, col, words, !mixed, &are_nibbles);
	if (mixed)
		make_mixed(b, in.scales, in.zeros, in.codes, out);
	else if (are_nibbles)
		b->kernels->nibbles(&b->kept->math, q->layout.upper_first, &in, out);
	else
		b->kernels->bytes(&b->kept->math, &in, out);
}

/* COUNT columns of a part, from AT of it on. */
static void make_columns(struct band *b, const struct part *p, uint64_t at, uint64_t count,
			 uint8_t *out)
{
	const struct ckpt_quant_layout *l = &b->q->layout;
	const struct ckpt_quant_box *box = &p->box;
	uint32_t word = ckpt_quant_word(l);
	uint64_t col = box->col + at, row_len = box->packed_rows * word, first, end;

	if (l->along_rows) {
		first = at;
		end = at + count;
	} else {
		first = (col / l->per * l->unit - box->start) / word;
		end = ((col + count - 1) / l->per * l->unit + l->unit - box->start) / word;
		end = end < box->len / word ? end : box->len / word;
	}
	turn_words(b, p, first, end - first);
	for (uint64_t i = 0; i < count; i++) {
		bool crosses;
		uint64_t at_word = l->along_rows ? at + i
						 : ckpt_quant_word_row(l, col + i, &crosses) -
							   box->start / word;

		make_column(b, p, col + i, b->words + (at_word - first) * row_len,
			    out + i * made_row_len(b->q));
	}
}

static int make(const struct ckpt_made *made, const void *kept, void *taken, uint64_t pos,
		size_t len, void *out, struct ckpt_error *err)
{
	const struct ckpt_dequant *q = (const struct ckpt_dequant *)made;
	uint64_t row = pos / made_row_len(q), left = len / made_row_len(q);
	struct band *b = taken;
	uint8_t *to = out;

	(void)kept;
	(void)err;
	for (uint64_t i = 0; left && i < b->part_count; i++) {
		const struct ckpt_quant_box *box = &b->parts[i].box;
		uint64_t first = box->matrix * q->w.cols + box->col, n;

		if (row >= first + box->cols)
			continue;
		n = first + box->cols - row < left ? first + box->cols - row : left;
		make_columns(b, &b->parts[i], row - first, n, to);
		to += n * made_row_len(q);
		row += n;
		left -= n;
	}
	return 0;
}

void ckpt_quant_plan_columns(const struct ckpt_dequant *q, struct ckpt_made *made)
{
	made->piece = (size_t)(piece_cols(q) * made_row_len(q));
	made->band = (size_t)(band_cols(q) * made_row_len(q));
	made->take = take;
	made->drop = drop;
	made->make = make;
}

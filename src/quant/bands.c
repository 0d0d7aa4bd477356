/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Weights whose numbers do not lie as they are wanted: transposed ones, codes of several rows in
 * one word, and rows that end within a byte or word. A band is some rows of what is made, or a part
 * of a row that is too long. What it is made of, a box of the stored matrix, is read at once, and
 * its numbers are made row by row; if they are transposed, tile by tile.
 *
 * What must stay true: a box has at most as many numbers as a band, and no code takes more bytes
 * than a number, so that memory is bounded by the band.
 */
#include "quant/dequant_inner.h"

#include <stdlib.h>
#include <string.h>

enum {
	BAND = 4 << 20, /* bytes, if rows are short enough */
	BAND_MOST = 8 << 20,
	BAND_ROWS = 64, /* of a transposed one, so that reads are not too short */
	TILE_ROWS = 64,
	TILE_COLS = 512,
	SHORT_READ = 64 << 10,
	WORTH_A_READ = 2 << 10, /* bytes between rows that are read with them */
};

static void place_box(const struct ckpt_dequant *q, struct ckpt_quant_box *b)
{
	const struct ckpt_quant_layout *l = &q->layout;
	uint64_t end;
	bool crosses;

	if (l->along_rows) {
		uint64_t word = ckpt_quant_word(l);

		b->first_packed = ckpt_quant_word_row(l, b->row, &crosses);
		end = ckpt_quant_word_row(l, b->row + b->rows - 1, &crosses);
		b->packed_rows = end + crosses + 1 - b->first_packed;
		b->start = b->col * word;
		b->len = b->cols * word;
		return;
	}
	b->first_packed = b->row;
	b->packed_rows = b->rows;
	b->start = b->col / l->per * l->unit;
	end = (b->col + b->cols - 1) / l->per * l->unit + l->unit;
	b->len = (end < q->row_bytes ? end : q->row_bytes) - b->start;
}

static int get_items(const struct ckpt_dequant *q, const struct ckpt_quant_kept *kept, uint64_t off,
		     uint8_t *out, size_t len, struct ckpt_error *err)
{
	if (!kept->bytes[CKPT_QUANT_ITEMS])
		return ckpt_quant_read_side(q->sides[CKPT_QUANT_ITEMS], off, out, len, err);
	memcpy(out, kept->bytes[CKPT_QUANT_ITEMS] + off, len);
	return 0;
}

/* Some columns of rows that are short: whole rows are read, as many at a time as that pays. */
static int read_short_rows(const struct ckpt_dequant *q, const struct ckpt_quant_kept *kept,
			   const struct ckpt_quant_box *b, uint64_t off, struct ckpt_error *err)
{
	uint64_t at_once = SHORT_READ / q->row_bytes;
	uint8_t *rows = malloc(SHORT_READ);
	int rc = rows ? 0 : ckpt_fail_nomem(err);

	for (uint64_t i = 0; rc == 0 && i < b->packed_rows; i += at_once) {
		uint64_t n = b->packed_rows - i < at_once ? b->packed_rows - i : at_once;

		rc = get_items(q, kept, off + i * q->row_bytes, rows, (size_t)(n * q->row_bytes),
			       err);
		for (uint64_t k = 0; rc == 0 && k < n; k++)
			memcpy(b->bytes + (i + k) * b->len, rows + k * q->row_bytes + b->start,
			       (size_t)b->len);
	}
	free(rows);
	return rc;
}

int ckpt_quant_read_box(const struct ckpt_dequant *q, const struct ckpt_quant_kept *kept,
			struct ckpt_quant_box *b, struct ckpt_error *err)
{
	uint64_t off;
	int rc = 0;

	place_box(q, b);
	off = (b->matrix * q->packed_rows + b->first_packed) * q->row_bytes;
	b->bytes = malloc((size_t)(b->packed_rows * b->len));
	if (!b->bytes)
		return ckpt_fail_nomem(err);
	if (b->len == q->row_bytes)
		return get_items(q, kept, off, b->bytes, (size_t)(b->packed_rows * b->len), err);
	if (q->row_bytes <= SHORT_READ && q->row_bytes - b->len <= WORTH_A_READ)
		return read_short_rows(q, kept, b, off, err);
	for (uint64_t i = 0; rc == 0 && i < b->packed_rows; i++)
		rc = get_items(q, kept, off + i * q->row_bytes + b->start, b->bytes + i * b->len,
			       (size_t)b->len, err);
	return rc;
}

/* COUNT numbers of row ROW, from COL on; both are in the box. */
static int make_in_box(const struct ckpt_dequant *q, struct ckpt_quant_reader *r,
		       const struct ckpt_quant_box *b, uint64_t row, uint64_t col, size_t count,
		       uint8_t *codes, uint8_t *out, struct ckpt_error *err)
{
	const struct ckpt_quant_layout *l = &q->layout;
	struct ckpt_quant_stretch s = {
		.matrix = b->matrix, .row = row, .col = col, .count = count, .codes = codes
	};
	uint32_t size = ckpt_dtype_size(q->w.to);
	const uint8_t *bytes;
	bool crosses;
	int rc = 0;

	if (!l->along_rows) {
		s.codes = NULL;
		s.packed = b->bytes + (row - b->row) * b->len + col / l->per * l->unit - b->start;
		return ckpt_quant_make_row(r, &s, out, err);
	}
	bytes = b->bytes + (ckpt_quant_word_row(l, row, &crosses) - b->first_packed) * b->len +
		(col - b->col) * ckpt_quant_word(l);
	for (size_t at = 0; rc == 0 && at < count; at += s.count) {
		const uint8_t *low = bytes + at * ckpt_quant_word(l);

		s.col = col + at;
		s.count = count - at < CKPT_QUANT_AT_ONCE ? count - at : CKPT_QUANT_AT_ONCE;
		ckpt_quant_unpack_rows(l, row, low, crosses ? low + b->len : NULL, s.count, codes);
		rc = ckpt_quant_make_row(r, &s, out + at * size, err);
	}
	return rc;
}

/* OUT: [COLS, ROWS] of the box. */
static int make_transposed(const struct ckpt_dequant *q, struct ckpt_quant_reader *r,
			   const struct ckpt_quant_box *b, uint8_t *codes, uint8_t *out,
			   struct ckpt_error *err)
{
	const struct ckpt_quant_kernels *kernels = ckpt_quant_best();
	uint32_t size = ckpt_dtype_size(q->w.to);
	uint8_t *tile = malloc((size_t)TILE_ROWS * TILE_COLS * size);
	int rc = tile ? 0 : ckpt_fail_nomem(err);

	for (uint64_t col = 0; rc == 0 && col < b->cols; col += TILE_COLS) {
		size_t cols = b->cols - col < TILE_COLS ? (size_t)(b->cols - col) : TILE_COLS;

		for (uint64_t row = 0; rc == 0 && row < b->rows; row += TILE_ROWS) {
			size_t rows =
				b->rows - row < TILE_ROWS ? (size_t)(b->rows - row) : TILE_ROWS;

			for (size_t i = 0; rc == 0 && i < rows; i++)
				rc = make_in_box(q, r, b, b->row + row + i, b->col + col, cols,
						 codes, tile + i * cols * size, err);
			if (rc == 0)
				kernels->transpose(size, tile, rows, cols, cols,
						   out + (col * b->rows + row) * size,
						   (size_t)b->rows);
		}
	}
	free(tile);
	return rc;
}

static int make_box(const struct ckpt_dequant *q, const struct ckpt_quant_kept *kept,
		    struct ckpt_quant_reader *r, struct ckpt_quant_box *b, uint8_t *out,
		    struct ckpt_error *err)
{
	uint8_t codes[CKPT_QUANT_AT_ONCE];
	int rc;

	rc = ckpt_quant_read_box(q, kept, b, err);
	if (rc == 0 && q->w.transposed)
		rc = make_transposed(q, r, b, codes, out, err);
	for (uint64_t i = 0; rc == 0 && !q->w.transposed && i < b->rows; i++)
		rc = make_in_box(q, r, b, b->row + i, b->col, (size_t)b->cols, codes,
				 out + i * b->cols * ckpt_dtype_size(q->w.to), err);
	free(b->bytes);
	return rc;
}

static int make_band(const struct ckpt_made *made, const void *kept, void *taken, uint64_t pos,
		     size_t len, void *out, struct ckpt_error *err)
{
	const struct ckpt_dequant *q = (const struct ckpt_dequant *)made;
	uint32_t size = ckpt_dtype_size(q->w.to);
	uint64_t number = pos / size, left = len / size;
	struct ckpt_quant_reader *r;
	uint8_t *to = out;
	int rc = ckpt_quant_reader_new(q, kept, &r, err);

	(void)taken;
	while (rc == 0 && left) {
		uint64_t row = number / q->out_cols, col = number % q->out_cols, rows = 1,
			 cols = q->out_cols - col < left ? q->out_cols - col : left;
		struct ckpt_quant_box b = { .matrix = row / q->out_rows };

		row %= q->out_rows;
		if (cols == q->out_cols)
			rows = left / cols < q->out_rows - row ? left / cols : q->out_rows - row;
		b.row = q->w.transposed ? col : row;
		b.rows = q->w.transposed ? cols : rows;
		b.col = q->w.transposed ? row : col;
		b.cols = q->w.transposed ? rows : cols;
		rc = make_box(q, kept, r, &b, to, err);
		to += rows * cols * size;
		number += rows * cols;
		left -= rows * cols;
	}
	ckpt_quant_reader_free(r);
	return rc;
}

static size_t choose_band(const struct ckpt_dequant *q)
{
	uint32_t size = ckpt_dtype_size(q->w.to);
	uint64_t row, rows;

	if (q->out_cols > BAND_MOST / size)
		return BAND_MOST;
	row = q->out_cols * size;
	rows = BAND / row;
	if (rows < BAND_ROWS && q->w.transposed)
		rows = BAND_MOST / row < BAND_ROWS ? BAND_MOST / row : BAND_ROWS;
	if (rows >= BAND_ROWS)
		rows -= rows % BAND_ROWS; /* no word is read for two bands */
	return (size_t)(row * (rows ? rows : 1));
}

void ckpt_quant_plan_bands(const struct ckpt_dequant *q, struct ckpt_made *made)
{
	made->band = made->piece = choose_band(q);
	made->make = make_band;
}

/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CKPT_QUANT_DEQUANT_INNER_H
#define CKPT_QUANT_DEQUANT_INNER_H

#include "quant/codes.h"
#include "quant/dequant.h"
#include "quant/kernels.h"
#include "tensor/made.h"
#include "tensor/map.h"

/*
 * Inside of quant: a weight that was checked, and what its numbers are made of while they are read.
 */

enum ckpt_quant_side {
	CKPT_QUANT_ITEMS,
	CKPT_QUANT_SCALES,
	CKPT_QUANT_ZEROS,
	CKPT_QUANT_NESTED_SCALES, /* up to here: read where they are, if they are long */
	CKPT_QUANT_GLOBAL,
	CKPT_QUANT_TABLE_SIDE,
	CKPT_QUANT_NESTED_TABLE,
	CKPT_QUANT_ROW_GROUPS,
	CKPT_QUANT_COL_GROUPS,
	CKPT_QUANT_SIDES,
};

/*
 * What struct ckpt_quant_weight says beside its recipes, of which most weights have two: there may
 * be many.
 */
struct ckpt_quant_facts {
	uint64_t matrices, rows, cols, block_rows, block_cols, nested_block;
	enum ckpt_quant_code code;
	enum ckpt_quant_zero zero;
	enum ckpt_dtype to, difference, product, item, scale_dtype, scale_in, zero_dtype;
	uint32_t bits, zero_add;
	int32_t zero_fixed;
	float factor, nested_offset;
	bool transposed, exact_power, global_divides, zero_wraps, zero_adds, scales_in_tiles;
	const char *whole_zeros, *only_zeros;
	int32_t only_zero;
};

struct ckpt_dequant {
	union {
		struct ckpt_map map; /* items lie as the numbers do */
		struct ckpt_made made;
	} u;
	bool is_map;
	struct ckpt_quant_facts w; /* blocks of 0 are the whole side */
	/*
	 * NULL: there is none. Those that are not KEPT have their checksums in WHOLE, so that the
	 * mover compares them.
	 */
	struct ckpt_recipe *sides[CKPT_QUANT_SIDES];
	bool keep[CKPT_QUANT_SIDES];
	struct ckpt_quant_layout layout, zero_layout;
	uint64_t packed_rows, row_bytes;	   /* of the items of a matrix */
	uint64_t scale_rows, scale_cols;	   /* of the scales of a matrix */
	uint64_t scale_tiles;			   /* SCALES_IN_TILES: side by side */
	uint64_t zero_packed_rows, zero_row_bytes; /* ZERO_BITS */
	uint64_t out_rows, out_cols;		   /* of what is made of a matrix */
};

/* A tile of scales, as cuBLAS has them. */
enum { CKPT_QUANT_TILE_ROWS = 128, CKPT_QUANT_TILE_COLS = 4, CKPT_QUANT_TILE = CKPT_QUANT_TILE_ROWS * CKPT_QUANT_TILE_COLS };

/* What a reading needs beside the items. */
struct ckpt_quant_kept {
	struct ckpt_quant_math math;
	float scale_values[256];	  /* of a SCALE_DTYPE of one byte */
	uint8_t *bytes[CKPT_QUANT_SIDES]; /* malloc; NULL: read where they are */
};

const char *ckpt_quant_side_name(enum ckpt_quant_side side);

/*
 * Decide how the sides are read: CKPT_E_UNSUPPORTED if there is no memory for one that has to be
 * kept.
 */
int ckpt_quant_plan_sides(struct ckpt_dequant *quant, struct ckpt_error *err);

/* Read what is kept, and compare its recorded checksums. */
int ckpt_quant_keep(const struct ckpt_dequant *quant, struct ckpt_quant_kept **out,
		    struct ckpt_error *err);
void ckpt_quant_kept_free(struct ckpt_quant_kept *kept);

/* LEN bytes at OFF of a side that is not kept. */
int ckpt_quant_read_side(const struct ckpt_recipe *side, uint64_t off, void *buf, size_t len,
			 struct ckpt_error *err);

/* LEN bytes at OFF of the items will be read soon, in pieces. */
void ckpt_quant_will_need(const struct ckpt_dequant *quant, const struct ckpt_quant_kept *kept,
			  uint64_t off, uint64_t len);

/* ---- rows ---- */

enum { CKPT_QUANT_AT_ONCE = 2048 /* numbers */ };

/* For one thread: makes the numbers of rows. */
struct ckpt_quant_reader;

int ckpt_quant_reader_new(const struct ckpt_dequant *quant, const struct ckpt_quant_kept *kept,
			  struct ckpt_quant_reader **out, struct ckpt_error *err);
void ckpt_quant_reader_free(struct ckpt_quant_reader *reader);

/* COUNT numbers from column COL on of row ROW, of those as they are stored, of matrix MATRIX. */
struct ckpt_quant_stretch {
	uint64_t matrix, row, col;
	size_t count;
	const uint8_t *packed; /* from the unit of COL on; or NULL: */
	const uint8_t *codes;  /* a byte each */
};

int ckpt_quant_make_row(struct ckpt_quant_reader *reader, const struct ckpt_quant_stretch *stretch,
			void *out, struct ckpt_error *err);

/*
 * COUNT scales, up to CKPT_QUANT_AT_ONCE, from FIRST of row ROW of those of MATRIX on, and their
 * zero points, if they vary. Valid until the next call.
 */
int ckpt_quant_get_scales(struct ckpt_quant_reader *reader, uint64_t matrix, uint64_t row,
			  uint64_t first, size_t count, const float **scales, const float **zeros,
			  struct ckpt_error *err);

/* ---- boxes ---- */

/* ROWS x COLS of a matrix as it is stored, and the bytes or words that they are in. */
struct ckpt_quant_box {
	uint64_t matrix, row, rows, col, cols;
	uint64_t first_packed, packed_rows; /* rows of bytes or words */
	uint64_t start, len;		    /* bytes of each, whole units */
	uint8_t *bytes;			    /* malloc, for the caller to free, on failure, too */
};

/* The first five fields are set. */
int ckpt_quant_read_box(const struct ckpt_dequant *quant, const struct ckpt_quant_kept *kept,
			struct ckpt_quant_box *box, struct ckpt_error *err);

/* ---- what is no map ---- */

/* Set what bands are, and how they are made, for LEN bytes: by columns.c or bands.c. */
void ckpt_quant_plan_columns(const struct ckpt_dequant *quant, struct ckpt_made *made);
void ckpt_quant_plan_bands(const struct ckpt_dequant *quant, struct ckpt_made *made);

/* Can a weight be made by columns? */
bool ckpt_quant_has_columns(const struct ckpt_dequant *quant);

#endif

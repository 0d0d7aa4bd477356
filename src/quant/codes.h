/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CKPT_QUANT_CODES_H
#define CKPT_QUANT_CODES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * Inside of quant: where the codes of a matrix are in its bytes. UNIT bytes have PER codes of BITS
 * bits; where codes cross words (3 bits) a unit is as many words as begin and end with a code.
 */
struct ckpt_quant_layout {
	uint32_t bits;
	uint32_t unit, per;
	bool along_rows;  /* a unit has codes of one column; its words lie below each other */
	bool upper_first; /* units of a byte: the upper bits are the first */
	bool awq;	  /* codes of a word are those of columns 0 2 4 6 1 3 5 7 */
};

/*
 * Codes that are a byte each, two to a byte, or four to three bytes (6 bits); of BITS bits in words
 * of 32.
 */
struct ckpt_quant_layout ckpt_quant_layout_of_bytes(uint32_t bits, bool upper_first,
						    bool along_rows);
struct ckpt_quant_layout ckpt_quant_layout_of_words(uint32_t bits, bool dense, bool awq,
						    bool along_rows);

/* Bytes of a word: 1 where codes are in bytes, else 4. */
uint32_t ckpt_quant_word(const struct ckpt_quant_layout *layout);

/*
 * Bytes of a row, and rows, of what a matrix of ROWS x COLS codes is packed into: of codes along
 * rows, rows of words. False: they are more than 2^64.
 */
bool ckpt_quant_packed_shape(const struct ckpt_quant_layout *layout, uint64_t rows, uint64_t cols,
			     uint64_t *packed_rows, uint64_t *row_bytes);

/*
 * COUNT codes, a byte each, from code FIRST of a row on. ROW: the bytes of the row, from that of
 * code FIRST - FIRST % PER on. Not ALONG_ROWS.
 */
void ckpt_quant_unpack(const struct ckpt_quant_layout *layout, const uint8_t *row, uint32_t first,
		       size_t count, uint8_t *codes);

/*
 * Of codes ALONG_ROWS: which row of words the code of row ROW begins in, and whether it goes on in
 * the next. Of others, the same of columns.
 */
uint64_t ckpt_quant_word_row(const struct ckpt_quant_layout *layout, uint64_t row, bool *crosses);

/*
 * The codes of COUNT columns of row ROW. LOW: its row of words, from the first of the columns on;
 * HIGH: the next one, if the codes cross words.
 */
void ckpt_quant_unpack_rows(const struct ckpt_quant_layout *layout, uint64_t row,
			    const uint8_t *low, const uint8_t *high, size_t count, uint8_t *codes);

#endif
